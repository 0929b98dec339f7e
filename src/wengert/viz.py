"""Programs to look at: their lists before and after each pass, and pictures of them.

Nothing of it is needed to run a program, and nothing is kept for it: passes are functions of lists, and are run again.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import itertools
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wengert.api import record
from wengert.program.ir.ir import Listing, kind_of, operands
from wengert.program.ir.opcode_table import opcodes
from wengert.program.ir.opcodes import Op
from wengert.program.ir.printer import bodies, lines, name_of, printed, rows
from wengert.program.passes import pipeline, vectorise
from wengert.program.program import Program
from wengert.program.report.schedule import Step, operations, peak_bytes, schedule
from wengert.program.report.summary import rolling
from wengert.transforms.explain import counted, size_of

__all__ = ["Passes", "Stage", "draw", "passes", "pattern", "render"]

#: lines of a list that its repr shows, arrows of a picture, boxes with a text, and instructions that are drawn
_MOST, _MOST_ARROWS, _MOST_BOXES, _MOST_DRAWN = 60, 5000, 60, 600
_DERIVATIVES = ("grad", "vjp", "jvp", "hvp", "jacobian", "hessian")
_COLOURS = ["#b1401d", "#2c6e8f", "#7a9a2e", "#8e5ba6", "#d08a1d", "#3f8f7a", "#a64f6d", "#5a6bb0", "#94793a"]
_INK, _PALE = "#22262b", "#9aa4ae"
_COMPUTES_NOTHING = opcodes(cost=("free", "guard"))


# ---------------------------------------------------------------------------------------------- passes


@dataclasses.dataclass(frozen=True, repr=False)
class Stage:
    """The program between two passes: print it.

    Attributes
    ----------
    name : str
        The pass that made it, with a number from the second time on; "recorded", "derived" and "machine" are no passes.
    stage : str
        The stage of the pipeline that the pass ran in.
    what : str
        What the pass does.
    listing : Listing
    steps : list of Step or None
        The VM's instructions, of "machine".
    """

    name: str
    stage: str
    what: str
    listing: Listing
    steps: list[Step] | None = None

    def __len__(self):
        return len(self.listing)

    @property
    def numbers(self) -> int:
        """Instructions that compute or read one number."""
        return self._computing() - self.arrays

    @property
    def arrays(self) -> int:
        """Instructions on arrays; parts of arrays that stay where they are do not count."""
        code = self.listing
        return sum(
            bool(kind_of(code, i)[1]) or op == Op.SUM
            for i, op in enumerate(code.op.tolist())
            if op not in _COMPUTES_NOTHING
        )

    def _computing(self):
        return sum(op not in _COMPUTES_NOTHING for op in self.listing.op.tolist())

    @property
    def operations(self) -> int:
        """Numbers that a run computes, those inside of calls of NumPy not counted."""
        return sum(operations(self.listing))

    @property
    def memory(self) -> int:
        """Bytes of the values that are alive at once, at most, if one instruction is run after the other."""
        return peak_bytes(self.listing)

    def text(self, most: int | None = None) -> str:
        """The list, or the steps and their instructions; of a longer one the first `most` instructions."""
        if self.steps is None:
            return printed(self.listing, most)
        return "\n".join(self._of_steps(most))

    def _of_steps(self, most):
        """Inputs, and the steps, each with the constants and the parts of arrays that it is the first to read."""
        code = self.listing
        table = rows(code)
        groups = [[*step.instructions] for step in self.steps]
        known = {*code.inputs, *(i for group in groups for i in group)}
        yield from lines(code, code.inputs, table)
        for number, (step, group) in enumerate(zip(self.steps, groups), 1):
            for i in group:  # it grows
                group += [v for v in operands(code, i) if v not in known]
                known.update(operands(code, i))
            yield f"step {number}, {step}"
            shown = sorted(group)[:most]
            yield from (f"    {line}" for line in lines(code, shown, table, most))
            if len(shown) < len(group):
                yield f"    ... {len(group) - len(shown)} more"
        yield from lines(code, sorted({*range(len(code))} - known), table)
        yield "return " + ", ".join(f"v{v}" for v in code.outputs)

    def __str__(self):
        return self.text()

    def __repr__(self):
        return self.text(_MOST)


class Passes(Mapping):
    """The stages of a program, by the name of the pass that made each; print it for a table of those that differ."""

    def __init__(self, name: str, stages: list[Stage]):
        self.name = name
        self._stages = {stage.name: stage for stage in stages}

    def __getitem__(self, name: str) -> Stage:
        return self._stages[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stages)

    def __len__(self) -> int:
        return len(self._stages)

    def __repr__(self):
        head = ("", "stage", "instructions", "numbers", "arrays", "operations", "memory", "")
        rows, unchanged, before = [head], [], None
        for stage in self.values():
            if stage.listing is before and stage.steps is None:
                unchanged.append(stage.name)
                continue
            before = stage.listing
            counts = (len(stage), stage.numbers, stage.arrays, stage.operations)
            rows.append((stage.name, stage.stage, *map(str, counts), size_of(stage.memory), stage.what))
        widths = [max(map(len, column)) for column in zip(*rows)]
        found = [self.name]
        for first, second, *middle, last in rows:
            cells = [cell.rjust(width) for cell, width in zip(middle, widths[2:-1])]
            found.append(f"  {first:{widths[0]}}  {second:{widths[1]}}  {'  '.join(cells)}  {last}".rstrip())
        if unchanged:
            found += textwrap.wrap(f"nothing to do for {', '.join(unchanged)}", 100, initial_indent="  ",
                                   subsequent_indent="    ")  # fmt: skip
        return "\n".join(found)


def passes(
    f: Callable, x: Any = None, /, *, args: tuple = (), kwargs: dict | None = None, derivative: str | None = None
) -> Passes:
    """The program of a function after each pass of the pipeline, down to the instructions of the VM.

    Parameters
    ----------
    f : callable or Program
        A function in NumPy code, which is recorded here; or a program, which has been through the first passes.
    x : array_like or container
        Example of the first argument of a function, as for `wengert.record`.
    args, kwargs : tuple, dict
        Its further arguments.
    derivative : {None, "grad", "vjp", "jvp", "hvp", "jacobian", "hessian"}
        Show how the program of a derivative in the first argument is made, too.

    Returns
    -------
    Passes
        A mapping from names of passes to stages; its ``repr`` is a table of their sizes.
        ``print(passes(f, x)["vectorise"])`` shows the program after a pass; a pass that runs again has a number behind
        its name, as in ``"vectorise 2"``.

    Raises
    ------
    TypeError
        If a function comes without a point, or the derivative is no program.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def f(x):
    ...     s = 0.0
    ...     for i in range(len(x)):
    ...         s += 2.0 * x[i] ** 2
    ...     return s
    >>> found = wg.viz.passes(f, np.ones(100))
    >>> len(found["recorded"]), len(found["vectorise"])
    (602, 8)
    >>> print(found["machine"])
    v0: float64[100] = input 0
    step 1, vector, 100 elements: 3 operations, 8 bytes read and 0 written for each
        v1 = 2.0
        v2: float64[100] = v0
        v3: float64[100] = **(v2, v1)
        v4: float64[100] = multiply(v1, v3)
        v6 = sum(v4)
    step 2, numbers: 1 instruction
        v5 = 0.0
        v7 = add(v6, v5)
    return v7
    """
    if derivative is not None and derivative not in _DERIVATIVES:
        raise TypeError(f"passes: derivative={derivative!r} is none of {', '.join(_DERIVATIVES)}")
    if isinstance(f, Program):
        if x is not None or args or kwargs:
            raise TypeError("passes: a program has its point already; a function comes with one")
    elif x is None:
        raise TypeError("passes: give a point at which the function is recorded: wengert.viz.passes(f, x)")
    seen = _Stages()
    with pipeline.observed(seen):
        if isinstance(f, Program):
            program = copy.copy(f)  # without the results of stages that have run
            seen.add("recorded", "trace", "the program as it is kept", program._listing)
        else:
            program = record(f, x, args=args, kwargs=kwargs)
        program = program if derivative is None else getattr(program, derivative)()
        code = program.lowered()
    made = schedule(code, program.exact)
    what = f"{counted(len(made.steps), 'step')}, {counted(made.slots, 'slot')} for numbers"
    return Passes(program._name, [*seen, Stage("machine", "", what, made.listing, made.steps)])


class _Stages(list):
    """The stages that an observer of the pipeline sees, in their order, each under a name of its own."""

    _BEGINNINGS: ClassVar = {
        "trace": ("recorded", "what the function did"),
        "derivative": ("derived", "the source transformation"),
    }

    def __call__(self, run, name, code):
        if name:
            what = next(row.what for row in pipeline.PASSES if row.name == name)
            self.add(name, run.stage, what, code)
        elif run.stage in self._BEGINNINGS and not (self and self[-1].listing is code):
            name, what = self._BEGINNINGS[run.stage]
            self.add(name, run.stage, what, code)

    def add(self, name, stage, what, code):
        number = 1 + sum(each.name.partition(" ")[0] == name for each in self)
        self.append(Stage(name if number == 1 else f"{name} {number}", stage, what, code))


# ---------------------------------------------------------------------------------------------- pictures


def render(program: Program, path: Any, most: int = 200) -> Path:
    """A file with the graph of a program, drawn by Graphviz.

    Parameters
    ----------
    program : Program
    path : path
        The ending says what is written: ``.svg``, ``.pdf``, ``.png``; or ``.dot``, the source, which needs no Graphviz.
    most : int
        As for `Program.to_dot`.

    Returns
    -------
    Path

    Raises
    ------
    ImportError
        If Python's ``graphviz`` is not installed, ``pip install wengert[viz]``, or the programs of Graphviz are not,
        which come with the system: ``apt install graphviz``, ``brew install graphviz``.

    Examples
    --------
    >>> import tempfile, numpy as np, wengert as wg
    >>> program = wg.record(lambda x: np.sum(np.sin(x) ** 2), np.ones(5))
    >>> wg.viz.render(program, tempfile.mkdtemp() + "/program.dot").read_text()[:7]
    'digraph'
    """
    path = Path(os.fspath(path))
    source = program.to_dot(most)
    if path.suffix in (".dot", ".gv"):
        path.write_text(source, encoding="utf-8")
        return path
    graphviz = _imported("graphviz")
    try:
        drawn = graphviz.Source(source).pipe(format=path.suffix[1:])
    except graphviz.ExecutableNotFound as error:
        raise ImportError(
            "render: the programs of Graphviz are not installed: apt install graphviz, brew install graphviz, or write "
            "the source into a file that ends in .dot"
        ) from error
    path.write_bytes(drawn)
    return path


def draw(program: Program, axes: Any = None) -> Any:
    """A picture of the numbers of a program, and of the few instructions on arrays that they become.

    On the left each number is a dot, in the order in which they were computed, and as high as values that need one
    another come before it; the numbers of one class have one colour, those that stay numbers are grey, and long sums
    are black.
    So loops are rows of dots, and recurrences climb.
    On the right each class is one instruction, in its colour; or it is said why there is none.

    Parameters
    ----------
    program : Program
    axes : two Axes of matplotlib, or None
        Where to draw; new ones by default.

    Returns
    -------
    array of two Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed, ``pip install wengert[viz]``.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> program = wg.record(lambda x: sum(x[i] ** 2 for i in range(50)), np.ones(50))
    >>> numbers, arrays = wg.viz.draw(program)
    >>> numbers.get_title()
    '100 numbers in 1 class'
    """
    if axes is None:
        pyplot = _imported("matplotlib.pyplot")
        axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")[1]
    numbers, arrays = axes
    code, run = program.of_elements(), program._rolled()
    rolled, found, in_sums = vectorise.classes(code) if program.rolls else (code, [], np.zeros(len(code), bool))
    colours = _colours(found)
    has_numbers = sum(len(members) for members, _ in found) + in_sums.sum() >= vectorise.FEWEST
    if has_numbers:
        _draw_numbers(numbers, code, found, in_sums, colours)
    else:
        _write(numbers, "no loops over numbers", [f"{program._name} computes with whole arrays"])
    if has_numbers and run is code:
        _write(arrays, "nothing is rolled", rolling(program))
    elif len(run) > _MOST_DRAWN:
        _write(arrays, counted(len(run), "instruction"), rolling(program))
    else:  # of a list with loops the classes are others
        is_rolled = run.op.tolist() == rolled.op.tolist()
        shades = {value: shade for (_, value), shade in zip(found, colours) if value >= 0}
        _draw_list(arrays, run, shades if is_rolled else {})
    return axes


def pattern(found: Any, axes: Any = None) -> Any:
    """Draw where the nonzeros of a matrix are, and the colours of a colouring.

    Parameters
    ----------
    found : Colouring, sparse derivative, sparse array, or ndarray of bool
        A derivative that was called, as ``jacobian(f, sparse=True)``, stands for its colours, or its pattern if its
        plan has none.
    axes : matplotlib.axes.Axes, optional
        A new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        Without matplotlib.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> J = wg.jacobian(lambda x: x[1:] * x[:-1], sparse=True)
    >>> _ = J(np.ones(20))
    >>> wg.viz.pattern(J).get_title()
    '19 x 20, 38 nonzeros'
    >>> wg.viz.pattern(wg.colouring(J.pattern)).get_title()
    '2 colours, lattice'
    """
    from scipy import sparse

    figures = _imported("matplotlib.figure")
    axes = figures.Figure(figsize=(6, 6), layout="constrained").add_subplot() if axes is None else axes
    if getattr(found, "plan", None) is not None:
        found = found.pattern if found.colours is None else found.colours
    if hasattr(found, "plot"):
        return found.plot(axes)
    where = sparse.coo_array(found)
    m, n = where.shape
    size = min(40.0, max(0.3, (260 / max(m, n, 1)) ** 2))
    axes.scatter(*where.coords[::-1], s=size, marker="s", color=_INK, rasterized=where.nnz > 10_000)
    axes.set(xlim=(-0.5, n - 0.5), ylim=(m - 0.5, -0.5), aspect="equal", title=f"{m} x {n}, {where.nnz} nonzeros")
    return axes


def _imported(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        first = name.partition(".")[0]
        raise ImportError(f"{first} is needed for pictures: pip install wengert[viz]") from error


def _colours(found):
    """Of each class; those that stay numbers are grey."""
    colours = itertools.cycle(_COLOURS)
    return [next(colours) if value >= 0 else _PALE for _, value in found]


def _draw_numbers(ax, code, found, in_sums, colours):
    colour = dict.fromkeys(np.flatnonzero(in_sums).tolist(), _INK)
    for (members, _), shade in zip(found, colours):
        colour |= dict.fromkeys(members.tolist(), shade)
    height: dict = {}
    arrows = []
    for i in sorted(colour):
        given = [v for v in operands(code, i) if v in height]
        height[i] = 1 + max((height[v] for v in given if not (in_sums[i] and in_sums[v])), default=0)
        arrows += [((v, height[v]), (i, height[i])) for v in given]
    if len(arrows) <= _MOST_ARROWS:
        collections = _imported("matplotlib.collections")
        ax.add_collection(collections.LineCollection(arrows, colors=_PALE, linewidths=0.4, zorder=1))
    count, shades = len(height), [colour[i] for i in height]
    size = 24 if count < 300 else 6 if count < 3000 else 2
    ax.scatter([*height], [*height.values()], size, shades, linewidths=0, zorder=2, rasterized=count > 3000)
    classes = counted(sum(value >= 0 for _, value in found), "class", "classes")
    ax.set(title=f"{counted(count, 'number')} in {classes}", xlabel="instruction", ylabel="values before it")
    ax.yaxis.get_major_locator().set_params(integer=True)


def _draw_list(ax, code, colours):
    """The instructions of a list as boxes, each above what it reads."""
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
        text = _box(code, i, table[i]) if len(read) <= _MOST_BOXES else " "
        ink = "#ffffff" if shade else _INK
        ax.text(place[i], height[i], text, ha="center", va="center", color=ink, fontsize=fontsize, bbox=box, zorder=2)
    ax.set(title=counted(len(code), "instruction"), xlim=(0, 1), ylim=(-0.7, top + 0.7))
    ax.set_axis_off()


def _read(code, table):
    """Of each instruction: those that it reads, seen through constants and parts of arrays, which are none here."""
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
        text = "\n".join(f"{times} times" for times, _ in bodies(code.calls[a])) or code.calls[a].name
    _, shape, _ = kind_of(code, i)
    return f"{text} {list(shape)}" if shape else text


def _write(ax, title, texts):
    """Why there is no picture."""
    wrapped = "\n".join(line for text in texts for line in textwrap.wrap(text, 44))
    ax.text(0.5, 0.5, wrapped, ha="center", va="center", color=_INK, fontsize=9)
    ax.set(title=title, xlim=(0, 1), ylim=(0, 1))
    ax.set_axis_off()
