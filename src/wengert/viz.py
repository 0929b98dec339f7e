"""Views of programs: the IR after each compiler pass, and plots of programs and sparsity patterns.

Programs store no intermediate stages; the passes are run again.
"""

from __future__ import annotations

import copy
import dataclasses
import importlib
import os
import textwrap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from wengert.api import record
from wengert.program.ir.ir import Listing, kind_of, operands
from wengert.program.ir.opcode_table import opcodes
from wengert.program.ir.opcodes import Op
from wengert.program.ir.printer import lines, printed, rows
from wengert.program.passes import pipeline
from wengert.program.program import Program
from wengert.program.report import drawing
from wengert.program.report.schedule import Kernel, operations, peak_bytes, schedule
from wengert.sparse.plan import plot_nonzeros
from wengert.transforms.explain import counted, size_of

__all__ = ["Passes", "Stage", "draw", "passes", "pattern", "render"]


def __dir__():
    return sorted(__all__)


#: limit on the instructions in the repr of a stage
MAX_REPR_LINES = 60
_DERIVATIVES = ("grad", "vjp", "jvp", "hvp", "jacobian", "hessian")
_COMPUTES_NOTHING = opcodes(cost=("free", "guard"))


# ---------------------------------------------------------------------------------------------- passes


@dataclasses.dataclass(frozen=True, repr=False)
class Stage:
    """The program at one stage of compilation; print it to see its IR.

    Attributes
    ----------
    name : str
        The pass that produced it, numbered from its second run on; or "recorded", "derived" or "vm".
    stage : str
        The stage of the pipeline in which the pass ran.
    description : str
        The transformation, in a few words.
    listing : Listing
    kernels : list of Kernel or None
        The VM kernels, for "vm" only.
    """

    name: str
    stage: str
    description: str
    listing: Listing
    kernels: list[Kernel] | None = None

    def __len__(self):
        return len(self.listing)

    @property
    def scalars(self) -> int:
        """Number of instructions that compute or load one scalar."""
        return sum(op not in _COMPUTES_NOTHING for op in self.listing.op.tolist()) - self.arrays

    @property
    def arrays(self) -> int:
        """Number of array instructions, without views."""
        code = self.listing
        return sum(
            bool(kind_of(code, i)[1]) or op == Op.SUM
            for i, op in enumerate(code.op.tolist())
            if op not in _COMPUTES_NOTHING
        )

    @property
    def operations(self) -> int:
        """Number of scalar operations per run, without those inside NumPy functions."""
        return sum(operations(self.listing))

    @property
    def memory(self) -> int:
        """Peak bytes of live values if the instructions run in sequence."""
        return peak_bytes(self.listing)

    def text(self, max_lines: int | None = None) -> str:
        """Return the IR, or the kernels with their instructions, limited to `max_lines` instructions (per kernel)."""
        if self.kernels is None:
            return printed(self.listing, max_lines)
        return "\n".join(self._kernel_lines(max_lines))

    def _kernel_lines(self, max_lines):
        """Yield lines for the inputs and kernels, each kernel with the constants and views that it is first to read."""
        code = self.listing
        table = rows(code)
        groups = [[*kernel.instructions] for kernel in self.kernels]
        known = {*code.inputs, *(i for group in groups for i in group)}
        yield from lines(code, code.inputs, table)
        for number, (kernel, group) in enumerate(zip(self.kernels, groups), 1):
            for i in group:  # the list grows during the loop
                group += [v for v in operands(code, i) if v not in known]
                known.update(operands(code, i))
            yield f"kernel {number}, {kernel}"
            shown = sorted(group)[:max_lines]
            yield from (f"    {line}" for line in lines(code, shown, table, max_lines))
            if len(shown) < len(group):
                yield f"    ... {len(group) - len(shown)} more"
        yield from lines(code, sorted({*range(len(code))} - known), table)
        yield "return " + ", ".join(f"v{v}" for v in code.outputs)

    def __str__(self):
        return self.text()

    def __repr__(self):
        return self.text(MAX_REPR_LINES)


class Passes(Mapping):
    """Mapping from pass names to the stages that they produced; its ``repr`` is a table of the stages that differ."""

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
        head = ("pass", "stage", "instructions", "scalars", "arrays", "operations", "memory", "description")
        rows, unchanged, before = [head], [], None
        for stage in self.values():
            if stage.listing is before and stage.kernels is None:
                unchanged.append(stage.name)
                continue
            before = stage.listing
            counts = (len(stage), stage.scalars, stage.arrays, stage.operations)
            rows.append((stage.name, stage.stage, *map(str, counts), size_of(stage.memory), stage.description))
        widths = [max(map(len, column)) for column in zip(*rows)]
        found = [self.name]
        for first, second, *middle, last in rows:
            cells = [cell.rjust(width) for cell, width in zip(middle, widths[2:-1])]
            found.append(f"  {first:{widths[0]}}  {second:{widths[1]}}  {'  '.join(cells)}  {last}".rstrip())
        if unchanged:
            names = ", ".join(name.replace(" ", "\xa0") for name in unchanged)  # no line break within a name
            wrapped = textwrap.wrap(f"no change: {names}", 100, initial_indent="  ", subsequent_indent="    ")
            found += [line.replace("\xa0", " ") for line in wrapped]
        return "\n".join(found)


def passes(
    f: Callable,
    x: Any = None,
    /,
    *,
    args: tuple = (),
    kwargs: dict | None = None,
    derivative: Literal["grad", "vjp", "jvp", "hvp", "jacobian", "hessian"] | None = None,
) -> Passes:
    """Return the program of a function after each pass of the pipeline, down to the kernels of the VM.

    Parameters
    ----------
    f : callable or Program
        A NumPy function, which is recorded; or a program, to which the first passes have been applied already.
    x : array_like or container
        Example of the first argument of a function, as for `wengert.record`.
    args, kwargs : tuple, dict
        Further arguments of the function.
    derivative : {None, "grad", "vjp", "jvp", "hvp", "jacobian", "hessian"}
        Also return the stages of the program of this derivative with respect to the first argument.

    Returns
    -------
    Passes
        A mapping from names of passes to stages; its ``repr`` is a table of their sizes.
        ``print(passes(f, x)["vectorise"])`` prints the program after a pass, ``print(passes(f, x)["vm"])`` the VM
        kernels. Later runs of a pass are numbered, as in ``"vectorise 2"``.

    Raises
    ------
    TypeError
        If a function is given without a point, or `derivative` is not one of those listed.

    See Also
    --------
    wengert.explain : Report on the method and cost of a derivative.
    wengert.testing.bisect_passes : Find the pass that makes a result wrong.

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
    >>> print(found["vm"])
    v0: float64[100] = input 0
    kernel 1, vector, 100 elements: 3 operations, 8 bytes read, 0 bytes written per element
        v1 = 2.0
        v2: float64[100] = v0
        v3: float64[100] = **(v2, v1)
        v4: float64[100] = multiply(v1, v3)
        v6 = sum(v4)
    kernel 2, scalar: 1 instruction
        v5 = 0.0
        v7 = add(v6, v5)
    return v7
    """
    if derivative is not None and derivative not in _DERIVATIVES:
        raise TypeError(f"passes: derivative must be one of {', '.join(_DERIVATIVES)}, not {derivative!r}")
    if isinstance(f, Program):
        if x is not None or args or kwargs:
            raise TypeError("passes: x, args and kwargs are for functions; a Program has its point already")
    elif x is None:
        raise TypeError("passes: missing the point at which to record the function: wengert.viz.passes(f, x)")
    seen = _Stages()
    with pipeline.observed(seen):
        if isinstance(f, Program):
            program = f = copy.copy(f)  # a copy without the cached results of passes, so that they run again
            seen.add("recorded", "trace", "program as stored", program._listing)
        else:
            program = record(f, x, args=args, kwargs=kwargs)
        if derivative is not None:
            rolls = program is not f and derivative not in ("jacobian", "hessian")  # as `compile` does
            program = getattr(program._with_loops() if rolls else program, derivative)()
        code = program._lowered_ir()
    made = schedule(code, program._exact)
    size = f"{counted(len(made.kernels), 'kernel')}, {counted(made.registers, 'scalar register')}"
    return Passes(program._name, [*seen, Stage("vm", "", size, made.listing, made.kernels)])


class _Stages(list):
    """Observer of the pipeline that collects the stages in order, each under a unique name."""

    _BEGINNINGS: ClassVar = {
        "trace": ("recorded", "trace of the function"),
        "derivative": ("derived", "source transformation"),
    }

    def __call__(self, run, name, code):
        if name:
            description = next(row.description for row in pipeline.PASSES if row.name == name)
            self.add(name, run.stage, description, code)
        elif run.stage in self._BEGINNINGS and not (self and self[-1].listing is code):
            name, description = self._BEGINNINGS[run.stage]
            self.add(name, run.stage, description, code)

    def add(self, name, stage, description, code):
        number = 1 + sum(each.name.partition(" ")[0] == name for each in self)
        self.append(Stage(name if number == 1 else f"{name} {number}", stage, description, code))


# ---------------------------------------------------------------------------------------------- plots


def render(program: Program, path: Any, max_nodes: int = 200) -> Path:
    """Draw the graph of a program with Graphviz and write it to a file.

    Parameters
    ----------
    program : Program
    path : path
        The suffix selects the format: ``.svg``, ``.pdf``, ``.png``; or ``.dot``, the source, which needs no Graphviz.
    max_nodes : int
        As for `Program.to_dot`.

    Returns
    -------
    Path

    Raises
    ------
    ImportError
        If Python's ``graphviz`` is not installed (``pip install wengert[viz]``), or the Graphviz programs are not
        (``apt install graphviz``, ``brew install graphviz``).

    See Also
    --------
    draw : Scalar and array instructions of a program, drawn by matplotlib.

    Examples
    --------
    >>> import tempfile, numpy as np, wengert as wg
    >>> program = wg.record(lambda x: np.sum(np.sin(x) ** 2), np.ones(5))
    >>> wg.viz.render(program, tempfile.mkdtemp() + "/program.dot").read_text()[:7]
    'digraph'
    """
    path = Path(os.fspath(path))
    source = program.to_dot(max_nodes)
    if path.suffix in (".dot", ".gv"):
        path.write_text(source, encoding="utf-8")
        return path
    graphviz = _imported("graphviz")
    try:
        drawn = graphviz.Source(source).pipe(format=path.suffix[1:])
    except graphviz.ExecutableNotFound as error:
        raise ImportError(
            "render: Graphviz is not installed: apt install graphviz, brew install graphviz, or write the source to a "
            "path that ends in .dot"
        ) from error
    path.write_bytes(drawn)
    return path


def draw(program: Program, axes: Any = None) -> Any:
    """Plot the scalar instructions of a program, and the array instructions into which they are vectorised.

    On the left each scalar instruction is a dot, in recording order, at the height of its dependence depth. The dots
    of an isomorphism class share a colour, those that stay scalar are grey, and additions in reductions are black.
    Loops appear as rows of dots, recurrences as slopes.
    On the right each class is one instruction in its colour, or a text states why nothing was vectorised.

    Parameters
    ----------
    program : Program
    axes : two matplotlib Axes, or None
        Where to draw; a new figure by default.

    Returns
    -------
    array of two Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed (``pip install wengert[viz]``).

    See Also
    --------
    render : The graph of a program, drawn by Graphviz.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> program = wg.record(lambda x: sum(x[i] ** 2 for i in range(50)), np.ones(50))
    >>> scalars, arrays = wg.viz.draw(program)
    >>> scalars.get_title()
    '100 scalars, 1 isomorphism class'
    """
    if axes is None:
        pyplot = _imported("matplotlib.pyplot")
        axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")[1]
    drawing.draw(program, axes)
    return axes


def pattern(found: Any, axes: Any = None) -> Any:
    """Plot the nonzeros of a matrix, or the colours of a colouring.

    Parameters
    ----------
    found : Colouring, sparse derivative, sparse array, or ndarray of bool
        For a derivative such as ``jacobian(f, sparse=True)`` that has been called, its colouring is drawn, or its
        pattern if its plan uses no colouring.
    axes : matplotlib.axes.Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ImportError
        If matplotlib is not installed.

    See Also
    --------
    wengert.sparsity : Sparsity pattern of a derivative.
    wengert.colouring : Colouring of a pattern.

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
    figures = _imported("matplotlib.figure")
    axes = figures.Figure(figsize=(6, 6), layout="constrained").add_subplot() if axes is None else axes
    found = getattr(found, "plan", None) or found
    return found.plot(axes) if hasattr(found, "plot") else plot_nonzeros(found, axes)


def _imported(name):
    try:
        return importlib.import_module(name)
    except ImportError as error:
        first = name.partition(".")[0]
        raise ImportError(f"{first} is needed for plots: pip install wengert[viz]") from error
