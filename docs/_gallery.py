"""Settings of the gallery; figures are transparent with grey axes, so that they suit light and dark pages."""

from _style import GREY, style
from cycler import cycler

STYLE = style(
    GREY,
    GREY,
    11,
    **{
        "axes.facecolor": "none",
        "axes.prop_cycle": cycler(color=("#3d8fd1", "#e8822e", "#3aa655", "#d9534f", "#9673c9", "#a8766a")),
        "axes.titlecolor": GREY,
        "figure.constrained_layout.use": True,
        "figure.facecolor": "none",
        "figure.figsize": (4.8, 3.4),
        "lines.linewidth": 1.8,
        "savefig.facecolor": "none",
        "text.color": GREY,
    },
)


#: the order of the scripts: fits, inference and learning, simulation, control and optimisation
ORDER = """
    curve_fit robust_fit uncertainty ode_parameters stiff_kinetics bouncing_ball kepler spline registration
    bundle_adjustment bilevel
    gaussian_process kalman hmc neural_network graph
    bratu brusselator assimilation
    optimal_control shooting ipopt power_flow portfolio black_scholes
""".split()


class ByTopic:
    """Key that sorts the scripts by `ORDER`, as sphinx-gallery makes it for a folder."""

    def __init__(self, folder):
        pass

    def __call__(self, name):
        return ORDER.index(name.removeprefix("plot_").removesuffix(".py"))


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
    "within_subsection_order": "_gallery.ByTopic",
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
