"""The directive ``{drawing}``: a figure of the results of the code on the same page.

Its body is Python code that draws on ``figure`` and is not shown.
It sees the names of the page as of the end of the page, the colours below, `draw_list` and `draw_schedule`.
"""

import contextlib
import functools
import io

from _blocks import blocks, page_module, run
from _style import style
from docutils import nodes
from docutils.parsers.rst import directives
from matplotlib import rc_context
from matplotlib.figure import Figure
from sphinx.util.docutils import SphinxDirective

INK, FORWARD, BACKWARD, PAPER = "#22262b", "#5b6672", "#b1401d", "#ffffff"

STYLE = style(FORWARD, INK, 10, **{"axes.titlesize": 11})

#: scale below which a drawing scrolls instead of shrinking further, so that its text stays legible
LEAST_SCALE = 0.53


def draw_list(figure, names, formulas, operands, rows):
    """Draw the slots of a tape in a row, an arc from each operand, and below each slot its formula and rows of values.

    Parameters
    ----------
    figure : Figure
    names, formulas : list of str
        Name of each slot, and how it was computed.
    operands : list of tuple of int
        Slots of its operands.
    rows : list of (str, list of str, str)
        Label, one text a slot, and colour: values, tangents, adjoints.
    """
    ax = figure.subplots()
    ax.set(xlim=(-0.95, len(names) - 0.45), ylim=(-0.55 - 0.26 * len(rows), 1.35))
    ax.set_axis_off()
    for i, (name, formula) in enumerate(zip(names, formulas)):
        for j in operands[i]:
            arc = {"arrowstyle": "-|>", "connectionstyle": "arc3,rad=-0.38", "shrinkA": 15, "shrinkB": 15}
            ax.annotate("", (i, 0.12), (j, 0.12), arrowprops={**arc, "color": FORWARD, "linewidth": 1.1})
        ax.text(
            i, 0, name, ha="center", va="center", color=INK, fontsize=12,
            bbox={"boxstyle": "circle,pad=0.35", "facecolor": PAPER, "edgecolor": INK},
        )  # fmt: skip
        ax.text(i, -0.42, formula, ha="center", va="center", color=INK, fontsize=10, family="monospace")
        for line, (_, texts, colour) in enumerate(rows):
            ax.text(i, -0.68 - 0.26 * line, texts[i], ha="center", va="center", color=colour, fontsize=10)
    for line, (label, _, colour) in enumerate(rows):
        ax.text(-0.95, -0.68 - 0.26 * line, label, ha="left", va="center", color=colour, fontsize=10)


def draw_schedule(ax, schedule):
    """Draw a schedule: steps advanced, taped and swept over the number of steps run, and the stored states.

    Parameters
    ----------
    ax : Axes
    schedule : iterable of actions
        A schedule of `wengert.checkpointing.schedule`.
    """
    done, kept = 0, {}  # steps run or swept; per slot, the step and since when
    for action in schedule:
        match type(action).__name__:
            case "Store":
                kept[action.slot] = action.step, done
            case "Load" | "Free":
                if not getattr(action, "keep", False):
                    step, since = kept.pop(action.slot)
                    ax.plot([since, done], [step, step], color=FORWARD, linewidth=0.8, alpha=0.6)
            case "Advance" | "Tape" | "Reverse":
                steps = [action.first, action.last]
                taped, swept = type(action).__name__ == "Tape", type(action).__name__ == "Reverse"
                ax.plot(
                    [done, done + steps[1] - steps[0]], steps[::-1] if swept else steps, solid_capstyle="butt",
                    color=BACKWARD if swept else INK, linewidth=2.4 if taped else 1.2,
                )  # fmt: skip
                done += steps[1] - steps[0]
    ax.set(xlabel="steps run or swept", ylabel="step")


@functools.lru_cache(maxsize=1)
def namespace(path):
    """Return the names of a page after its last block."""
    with page_module(path) as module, contextlib.redirect_stdout(io.StringIO()):
        for block in blocks(path):
            run(block, module)
    return vars(module)


class Drawing(SphinxDirective):
    """The figure, as part of the page."""

    required_arguments = 1  # the alternative text
    final_argument_whitespace = True
    has_content = True
    option_spec = {"size": directives.unchanged_required}  # inches: width and height

    def run(self):
        path = self.env.doc2path(self.env.docname)
        size = tuple(float(part) for part in self.options.get("size", "7 3").split())
        names = {**namespace(path), "draw_list": draw_list, "draw_schedule": draw_schedule}
        names |= {"INK": INK, "FORWARD": FORWARD, "BACKWARD": BACKWARD, "PAPER": PAPER}
        with rc_context(STYLE):
            names["figure"] = figure = Figure(figsize=size, layout="constrained", facecolor=PAPER)
            line = "\n" * (self.lineno - 1)
            exec(compile(line + "\n".join(self.content), str(path), "exec"), names)
            svg = io.StringIO()
            figure.savefig(svg, format="svg", metadata={"Date": None})
        svg = svg.getvalue()
        least = round(LEAST_SCALE * 96 * size[0])
        style = f"min-width: {least}px; max-width: 100%; height: auto"
        svg = svg[svg.index("<svg") :].replace("<svg", f'<svg style="{style}"', 1)
        html = f'<div class="drawing" role="img" aria-label="{self.arguments[0]}">{svg}</div>'
        return [nodes.raw("", html, format="html")]


def setup(app):
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True}
