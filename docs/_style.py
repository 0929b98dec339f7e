"""Matplotlib's parameters that the figures of the documentation share."""

GREY = "#7a8088"  # legible on white and on black


def style(lines, text, size, **more):
    """Return the parameters of figures with these colours of axes and of text, without the axes above and right."""
    return {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": lines,
        "axes.labelcolor": text,
        "xtick.color": lines,
        "ytick.color": lines,
        "font.size": size,
        "legend.frameon": False,
        "svg.hashsalt": "wengert",  # makes the file reproducible
        **more,
    }
