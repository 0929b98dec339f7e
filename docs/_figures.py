"""The directive ``{list-figure}``: the Wengert list that the code of the same page computes, drawn as a graph.

The blocks of the page are run, and its lists are read: `names`, `ops`, `left`, `right`, `v` and `adjoint`.
"""

import contextlib
import io

from _blocks import blocks, page_module, run
from docutils import nodes
from matplotlib.figure import Figure
from sphinx.util.docutils import SphinxDirective

INK, FORWARD, BACKWARD, PAPER = "#22262b", "#5b6672", "#b1401d", "#ffffff"

SYMBOLS = {"add": "{} + {}", "subtract": "{} - {}", "multiply": "{} * {}"}


def draw(names, ops, left, right, v, adjoint):
    """The slots in a row, an arc from each operand, and below each slot what it is, its value and its adjoint.

    Parameters
    ----------
    names, ops : list of str
        Name and operation of each slot.
    left, right : list of (int or None)
        Slots of the operands.
    v, adjoint : list of float
        Value and adjoint of each slot.

    Returns
    -------
    Figure
    """
    figure = Figure(figsize=(1.55 * len(v), 3.2), layout="constrained", facecolor=PAPER)
    ax = figure.subplots()
    ax.set(xlim=(-0.75, len(v) - 0.35), ylim=(-1.15, 1.35))
    ax.set_axis_off()
    for i, (name, op, value) in enumerate(zip(names, ops, v)):
        operands = [j for j in (left[i], right[i]) if j is not None]
        text = SYMBOLS.get(op, op + "({})" if operands else op).format(*(names[j] for j in operands))
        for j in operands:
            arc = {"arrowstyle": "-|>", "connectionstyle": "arc3,rad=-0.38", "shrinkA": 15, "shrinkB": 15}
            ax.annotate("", (i, 0.12), (j, 0.12), arrowprops={**arc, "color": FORWARD, "linewidth": 1.1})
        ax.text(
            i, 0, name, ha="center", va="center", color=INK, fontsize=12,
            bbox={"boxstyle": "circle,pad=0.35", "facecolor": PAPER, "edgecolor": INK},
        )  # fmt: skip
        ax.text(i, -0.42, text, ha="center", va="center", color=INK, fontsize=10, family="monospace")
        ax.text(i, -0.68, f"value {value:.4g}", ha="center", va="center", color=FORWARD, fontsize=10)
        ax.text(i, -0.94, f"adjoint {adjoint[i]:.4g}", ha="center", va="center", color=BACKWARD, fontsize=10)
    return figure


class ListFigure(SphinxDirective):
    """The figure, as part of the page."""

    required_arguments = 1  # what a reader hears who does not see it
    final_argument_whitespace = True

    def run(self):
        path = self.env.doc2path(self.env.docname)
        with page_module(path) as module, contextlib.redirect_stdout(io.StringIO()):
            for block in blocks(path):
                run(block, module)
            figure = draw(module.names, module.ops, module.left, module.right, module.v, module.adjoint)
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata={"Date": None})
        svg = svg.getvalue()
        svg = svg[svg.index("<svg") :].replace("<svg", '<svg style="max-width: 100%; height: auto"', 1)
        html = f'<div role="img" aria-label="{self.arguments[0]}">{svg}</div>'
        return [nodes.raw("", html, format="html")]


def setup(app):
    app.add_directive("list-figure", ListFigure)
    return {"parallel_read_safe": True}
