"""The directive ``{chart}``: charts of the measurements in ``performance/tables.md``.

A page has each chart twice, and the style sheet shows the narrow one on small screens.

``python docs/_charts.py`` writes the chart of README.md, ``docs/_static/derivative-times.svg``.
Cells without a measured time, such as "fails" or an estimate, are not drawn.
"""

import io
import re
from pathlib import Path
from statistics import geometric_mean

from _style import GREY, style
from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter
from sphinx.util.docutils import SphinxDirective

TABLES = Path(__file__).parent / "performance" / "tables.md"
README_CHART = Path(__file__).parent / "_static" / "derivative-times.svg"
PEERS = ("finite differences", "autograd", "advect", "advect, staged", "torch", "jax", "casadi", "casadi + gcc")
#: rows of the chart of the front page: loops over scalars, a Jacobian for an ODE solver, linear algebra
WORKLOADS = {
    ("Lorenz-96, loops over x[i], 20 steps, gradient", "40"): "Lorenz-96, loops, 40 variables:\ngradient",
    ("kinetics, POLLU, dense Jacobian", "20"): "POLLU kinetics, 20 species:\nJacobian",
    ("Gaussian process, likelihood, gradient", "200"): "Gaussian process, 200 points:\ngradient",
}
SHOWN = {
    "finite differences": "finite differences",
    "autograd": "autograd",
    "advect": "advect",
    "torch": "torch",
    "jax": "jax, jit",
    "casadi": "casadi",
    "eager": "wengert, eager",
    "VM": "wengert, compiled",
}
# legible on white and on black, as the background is transparent
THEIRS, OURS, SECOND = "#9aa3ad", "#d4572e", "#4a8fd0"
STYLE = style(
    GREY,
    GREY,
    9.5,
    **{"axes.titlecolor": GREY, "axes.titlesize": 10, "text.color": GREY, "svg.fonttype": "none"},
)


def table(heading, marker="peers"):
    """Return the rows of a table as dicts of cells.

    Parameters
    ----------
    heading : str
        The heading above the table.
    marker : str
        The comment that opens the part of the page.
    """
    text = TABLES.read_text(encoding="utf-8").partition(f"<!-- {marker} -->")[2].partition(f"### {heading}")[2]
    lines = [line for line in text.partition("\n### ")[0].splitlines() if line.startswith("|")]
    header, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    return [dict(zip(header, row, strict=True)) for row in rows]


def ratio(cell):
    """Return the time relative to f of a cell such as ``**1.2 us (0.31, 0.3 to 0.4)**``, or None."""
    found = re.search(r"\(([\d.e+-]+)[,)]", cell)
    return float(found[1]) if found and not cell.startswith("fails") else None


def seconds(cell):
    """Return the time of a cell of the table of first calls, or None."""
    found = re.fullmatch(r"\*{0,2}([\d.]+) (us|ms|s)\*{0,2}", cell)
    return float(found[1]) * {"us": 1e-6, "ms": 1e-3, "s": 1.0}[found[2]] if found else None


def times(value):
    return f"{value:.2g}" if value < 100 else f"{value:.0f}"


def log_axis(ax):
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}x"))
    ax.minorticks_off()


def derivative_times(figure, is_narrow):
    """Time of a derivative relative to f, for three workloads: side by side, or one below another."""
    rows = {(row["derivative"], row["size"]): row for row in table("Warm calls, at new points")}
    layout = (len(WORKLOADS), 1) if is_narrow else (1, len(WORKLOADS))
    axes = figure.subplots(*layout, sharex=is_narrow, sharey=True)
    names = list(SHOWN)[::-1]
    for ax, (key, title) in zip(axes, WORKLOADS.items()):
        log_axis(ax)
        ax.set(title=title.replace("\n", " ") if is_narrow else title, xlim=(4e-3, 6e4), xticks=[0.01, 1, 100, 10000])
        ax.axvline(1.0, color=GREY, linewidth=0.8, linestyle=":")
        for place, name in enumerate(names):
            value = ratio(rows[key][name])
            if value is None:
                ax.text(1.4, place, "not available", va="center", fontsize=8)
                continue
            ax.barh(place, value - 4e-3, left=4e-3, height=0.66, color=OURS if name in ("eager", "VM") else THEIRS)
            ax.text(value * 1.25, place, times(value), va="center", fontsize=8.5)
        ax.tick_params(axis="y", length=0)
    axes[0].set_yticks(range(len(names)), [SHOWN[name] for name in names])
    if is_narrow:
        axes[-1].set_xlabel("time of the derivative / time of the function\n(log scale; shorter is better)")
    else:
        axes[1].set_xlabel("time of the derivative / time of the function (log scale; shorter is better)")


def beside_best(figure, is_narrow, heading, read, series):
    """Our time over that of the fastest other package, a line per row of a table, with its name beside or above it."""
    rows = [row for row in table(heading) if heading == "First call" or not row["derivative"].endswith("(linear)")]
    quotients = {}
    for row in rows:
        others = [value for value in (read(row[name]) for name in PEERS) if value is not None]
        quotients[f"{row['derivative']} ({row['size']})"] = [read(row[name]) / min(others) for name in series]
    names = sorted(quotients, key=lambda name: quotients[name][0], reverse=True)
    ax = figure.subplots()
    log_axis(ax)
    ax.axvline(1.0, color=GREY, linewidth=0.8)
    for number, (name, colour) in enumerate(zip(series.values(), (OURS, SECOND))):
        values = [quotients[row][number] for row in names]
        mean = geometric_mean(values)
        label = f"{name} (geometric mean {mean:.2g}x)"
        ax.plot(values, range(len(names)), "o", color=colour, markersize=5, label=label)
    ax.set_yticks(range(len(names)), [] if is_narrow else names, fontsize=8)
    if is_narrow:
        for place, name in enumerate(names):
            ax.text(0.01, place + 0.2, name, transform=ax.get_yaxis_transform(), fontsize=8)
    ax.grid(axis="y", color=GREY, linewidth=0.3, alpha=0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.8, len(names))
    ax.set_xlabel("our time / time of the fastest other package (log scale)")
    if is_narrow:
        ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0))
    else:
        ax.legend(loc="lower left", bbox_to_anchor=(-0.3, 1.0), ncols=2)


def later_calls(figure, is_narrow):
    series = {"VM": "compiled, VM", "LLVM": "compiled, LLVM"}
    beside_best(figure, is_narrow, "Warm calls, at new points", ratio, series)


def first_calls(figure, is_narrow):
    beside_best(figure, is_narrow, "First call", seconds, {"eager": "not compiled", "VM": "compiled, VM"})


#: the function that draws a chart, and its size in inches, wide and narrow
CHARTS = {
    "derivative-times": (derivative_times, (9.6, 3.1), (4.4, 7.4)),
    "later-calls": (later_calls, (8.6, 6.0), (4.4, 9.0)),
    "first-calls": (first_calls, (8.6, 6.4), (4.4, 9.6)),
}


def svg(name, is_narrow=False):
    """Return a chart as SVG."""
    draw, *sizes = CHARTS[name]
    with rc_context(STYLE):
        figure = Figure(figsize=sizes[is_narrow], layout="constrained")
        figure.patch.set_alpha(0)
        draw(figure, is_narrow)
        for ax in figure.axes:
            ax.patch.set_alpha(0)
        written = io.StringIO()
        figure.savefig(written, format="svg", metadata={"Date": None})
    text = written.getvalue().replace("font: ", "font-family: sans-serif; font: ")
    return text[text.index("<svg") :]


class Chart(SphinxDirective):
    """A chart, as part of the page."""

    required_arguments = 1  # a key of CHARTS
    option_spec = {"alt": directives.unchanged_required}

    def run(self):
        self.env.note_dependency(str(TABLES))
        self.env.note_dependency(__file__)
        html = ""
        for shape in ("wide", "narrow"):
            picture = svg(self.arguments[0], shape == "narrow")
            picture = picture.replace("<svg", '<svg style="max-width: 100%; height: auto"', 1)
            html += f'<div class="chart {shape}" role="img" aria-label="{self.options["alt"]}">{picture}</div>'
        return [nodes.raw("", html, format="html")]


def setup(app):
    app.add_directive("chart", Chart)
    return {"parallel_read_safe": True}


if __name__ == "__main__":
    README_CHART.write_text(svg("derivative-times"), encoding="utf-8")
