"""Plot of a program: its scalar instructions, and the array instructions into which they are vectorised."""

from __future__ import annotations

import itertools
import textwrap
from typing import Any

import numpy as np

from wengert.program.ir.ir import kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.ir.printer import bodies, name_of, rows
from wengert.program.passes import vectorise
from wengert.program.report.summary import loop_remarks
from wengert.transforms.explain import counted

#: limits on the edges, labelled boxes and boxes in a plot
MAX_EDGES, MAX_LABELLED_BOXES, MAX_BOXES = 5000, 60, 600
_COLOURS = ["#b1401d", "#2c6e8f", "#7a9a2e", "#8e5ba6", "#d08a1d", "#3f8f7a", "#a64f6d", "#5a6bb0", "#94793a"]
_INK, _PALE = "#22262b", "#9aa4ae"


def draw(program: Any, axes: Any) -> None:
    """Plot the scalar instructions of a program on the first axes, its array instructions on the second.

    See `wengert.viz.draw`.
    """
    scalars, arrays = axes
    code, run = program._scalar_ir(), program._vectorised_ir()
    vectorised, found, in_sums = code, [], np.zeros(len(code), bool)
    if program._may_vectorise:
        vectorised, found, in_sums = vectorise.classes(code)
    colours = _colours(found)
    has_loops = sum(len(members) for members, _ in found) + in_sums.sum() >= vectorise.MIN_CLASS_SIZE
    if has_loops:
        _draw_scalars(scalars, code, found, in_sums, colours)
    else:
        _write(scalars, "no loops over scalars", [f"{program._name} operates on arrays"])
    if has_loops and run is code:
        _write(arrays, "not vectorised", loop_remarks(program))
    elif len(run) > MAX_BOXES:
        _write(arrays, counted(len(run), "instruction"), loop_remarks(program))
    else:  # the ids of classes do not apply to a program with recovered loops
        is_vectorised = run.op.tolist() == vectorised.op.tolist()
        shades = {value: shade for (_, value), shade in zip(found, colours) if value >= 0}
        _draw_program(arrays, run, shades if is_vectorised else {})


def _colours(found):
    """Return the colour of each class; classes that stay scalar are grey."""
    colours = itertools.cycle(_COLOURS)
    return [next(colours) if value >= 0 else _PALE for _, value in found]


def _draw_scalars(ax, code, found, in_sums, colours):
    colour = dict.fromkeys(np.flatnonzero(in_sums).tolist(), _INK)
    for (members, _), shade in zip(found, colours):
        colour |= dict.fromkeys(members.tolist(), shade)
    height: dict = {}
    arrows = []
    for i in sorted(colour):
        given = [v for v in operands(code, i) if v in height]
        height[i] = 1 + max((height[v] for v in given if not (in_sums[i] and in_sums[v])), default=0)
        arrows += [((v, height[v]), (i, height[i])) for v in given]
    if len(arrows) <= MAX_EDGES:
        from matplotlib import collections

        ax.add_collection(collections.LineCollection(arrows, colors=_PALE, linewidths=0.4, zorder=1))
    count, shades = len(height), [colour[i] for i in height]
    size = 24 if count < 300 else 6 if count < 3000 else 2
    ax.scatter([*height], [*height.values()], size, shades, linewidths=0, zorder=2, rasterized=count > 3000)
    classes = counted(sum(value >= 0 for _, value in found), "isomorphism class", "isomorphism classes")
    ax.set(title=f"{counted(count, 'scalar')}, {classes}", xlabel="instruction", ylabel="dependence depth")
    ax.yaxis.get_major_locator().set_params(integer=True)


def _draw_program(ax, code, colours):
    """Draw the instructions of a program as boxes, each above the boxes of its operands."""
    table = rows(code)
    read = _read(code, table)
    height: dict = {}
    for i, given in read.items():
        height[i] = 1 + max((height[v] for v in given), default=-1)
    top = max(height.values(), default=0)
    levels: list = [[] for _ in range(top + 1)]
    for i, level in height.items():
        levels[level].append(i)
    place: dict = {}
    for level in levels:
        level.sort(key=lambda i: sum(place[v] for v in read[i]) / max(1, len(read[i])))
        place |= {i: (k + 1) / (len(level) + 1) for k, i in enumerate(level)}
    fontsize = min(8.0, 120 / (top + 1))
    for i, given in read.items():
        for v in given:
            ax.plot([place[v], place[i]], [height[v], height[i]], color=_PALE, linewidth=0.8, zorder=1)
        shade = _INK if table[i][0] == Op.SUM else colours.get(i)
        box = {"boxstyle": "round", "facecolor": shade or "#ffffff", "edgecolor": shade or _INK}
        text = _box(code, i, table[i]) if len(read) <= MAX_LABELLED_BOXES else " "
        ink = "#ffffff" if shade else _INK
        ax.text(place[i], height[i], text, ha="center", va="center", color=ink, fontsize=fontsize, bbox=box, zorder=2)
    ax.set(title=counted(len(code), "instruction"), xlim=(0, 1), ylim=(-0.7, top + 0.7))
    ax.set_axis_off()


def _read(code, table):
    """Return the boxes that each box reads, directly or through constants and views, which are not drawn."""
    boxes: dict = {}
    found = {}
    for i, (op, *_) in enumerate(table):
        given = sorted({box for v in operands(code, i) for box in boxes[v]})
        is_hidden = op in (Op.CONST, Op.ARRAY, Op.VIEW, Op.LOAD)
        boxes[i] = given if is_hidden else [i]
        if not is_hidden:
            found[i] = given
    return found


def _box(code, i, row):
    op, a, *_ = row
    text = f"input {a}" if op == Op.INPUT else name_of(op)
    if op == Op.CALL:
        text = "\n".join(f"loop[{times}]" for times, _ in bodies(code.calls[a])) or code.calls[a].name
    _, shape, _ = kind_of(code, i)
    return f"{text} {list(shape)}" if shape else text


def _write(ax, title, texts):
    wrapped = "\n".join(line for text in texts for line in textwrap.wrap(text, 44))
    ax.text(0.5, 0.5, wrapped, ha="center", va="center", color=_INK, fontsize=9)
    ax.set(title=title, xlim=(0, 1), ylim=(0, 1))
    ax.set_axis_off()
