"""Settings of the gallery: figures without background, with grey lines and text, which both colour schemes show."""

GREY = "#808080"
STYLE = {
    "figure.figsize": (4.8, 3.4),
    "figure.constrained_layout.use": True,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.framealpha": 0.0,
    "font.size": 11,
    "lines.linewidth": 1.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    **dict.fromkeys(
        ("axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "text.color", "xtick.color", "ytick.color"), GREY
    ),
}


def set_style(gallery_conf, name):
    """Set Matplotlib's parameters before each script."""
    import matplotlib.pyplot as plt

    plt.rcdefaults()
    plt.rcParams.update(STYLE)


sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": "/plot_",
    "reset_modules": ("_gallery.set_style",),  # named, since the configuration is pickled
    "within_subsection_order": "FileNameSortKey",
    "copyfile_regex": r"GALLERY_HEADER\.rst",
    "remove_config_comments": True,
    "min_reported_time": 1e9,
    "show_memory": False,
    "write_computation_times": False,
    "download_all_examples": False,
    "abort_on_example_error": True,
    "thumbnail_size": (360, 255),
    "image_scrapers": ("matplotlib",),
}
