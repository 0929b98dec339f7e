"""Displays objects in notebooks: their text, and a plot if matplotlib is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any


def html(text: str, draw: Callable[[Any], Any], size: tuple[float, float] = (4.5, 4.5)) -> str:
    """Return a text, and a plot that `draw` makes on a figure of a `size` in inches, as HTML for ``_repr_html_``."""
    import base64  # imported here: programs are rarely displayed
    import html as entities
    import io

    shown = f"<pre>{entities.escape(text)}</pre>"
    if importlib.util.find_spec("matplotlib") is None:
        return shown
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    draw(figure)
    image = io.BytesIO()
    figure.savefig(image, format="svg")
    source = base64.b64encode(image.getvalue()).decode()
    return f'{shown}<img alt="{entities.escape(text)}" src="data:image/svg+xml;base64,{source}"/>'
