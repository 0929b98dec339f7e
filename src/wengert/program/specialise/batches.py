"""Functions that run a solver, mapped over a batch: the solver takes all elements at once.

`wengert.vmap` cannot call such a function on a whole batch, since a solver needs plain numbers.
Outside of a recording, the mapped function is compiled: the program of a batch is made from that of one element
(`wengert.program.elements`).
In a program that is being recorded, the instructions of the first element are batched over all elements.
"""

from __future__ import annotations

import functools

import numpy as np

from wengert.containers import split
from wengert.core.levels import lifted_around, running
from wengert.core.modes.pullback import independent
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.errors import ConvergenceError
from wengert.program.elements import MAX_TRACED
from wengert.program.ir.ir import Listing, dependent, kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.passes.batching import batch_program
from wengert.program.program import Program
from wengert.program.signature import Form, Result, Slot
from wengert.program.specialise.compiled import Compiled
from wengert.program.tracing.observer import is_observed, unobserved
from wengert.program.tracing.refusals import NotReplayable
from wengert.program.tracing.trace import recording
from wengert.transforms.batch import MIN_COMPILED, Elements, Mapped
from wengert.transforms.stacked import Maker, NotBatchable

_FLOAT = np.dtype(float)
_CONSTANTS = {Op.CONST, Op.ARRAY, Op.LOAD, Op.VIEW}


def leave_batch() -> None:
    """If `wengert.vmap` is running on a batch, let it run the solver called here for all elements at once."""
    maker = lifted_around()
    if isinstance(maker, Maker):
        maker.solve_together = solved_together
        raise NotBatchable


def solved_together(mapped: Mapped, elements: Elements, args: tuple, kwargs: dict) -> tuple | None:
    """Return the results for all elements in a tuple, or None if the function has to be called for each element."""
    made = recording.get()
    if made is not None and running.get() == (made.tape,):
        return None if made.exact or made.code.is_paused else _Inlined(mapped, elements, kwargs, made).run()
    if mapped._compiled is None:
        if elements.size < MIN_COMPILED and not isinstance(mapped.f, Compiled):
            return None
        mapped._compiled = _compiled(mapped)
    if not mapped._compiled:
        return None
    try:
        if is_observed():  # by an enclosing compiled function, which must see the code that runs
            mapped.f(*elements.arguments(0), **kwargs)
            return (unobserved(functools.partial(mapped._compiled, *args, **kwargs)),)
        return (mapped._compiled(*args, **kwargs),)
    except ConvergenceError as error:
        if error.elements is None or isinstance(mapped.f, Compiled):
            raise
        return None  # the function itself decides what to do without a solution


def _compiled(mapped):
    f = mapped.f
    if not isinstance(f, Compiled):
        f = Compiled(f)
        f.is_quiet = True
    return f.__wengert__(Mapped, (mapped.in_axes, mapped.out_axes))


class _Inlined:
    """A batch in a program that is being recorded: the instructions for its first element, batched."""

    def __init__(self, mapped, elements, kwargs, around):
        self.mapped, self.elements, self.kwargs, self.around = mapped, elements, kwargs, around
        self.batched: list = []  # batched arguments, with the leading axis
        self.unknowns: list[int] = []
        self.first: list = []  # the arguments of the first element

    def run(self):
        """Return the results for all elements in a tuple; None if the batch cannot be inlined."""
        around, count = self.around, self.elements.size
        arguments = self.arguments()
        if count < 2 or not self.unknowns or self.mapped.out_axes != 0:
            return None
        parts, restore = split(rebound(self.mapped.f)(*arguments, **self.kwargs))
        around.code.run()
        places = [around.code.output(y) if var.is_traced(y) else -1 for y in parts]
        if any(v < 0 or kind_of(around.code.listing, v)[0] != _FLOAT for v in places):
            return None
        one, leaves = self.sliced(places)
        known = [np.array(around.value(v), order="K")[()] for v in leaves]
        examples = [*self.first, *known]
        many = batch_program(one, range(len(self.first)), count, examples)
        given = [*[np.array(var.plain(x), dtype=float, order="C") for x in self.batched], *known]
        program = Program(self.mapped.name, many, Form(tuple(given), {}), Result(Slot(0)), False, given)
        program._disabled = around.disabled
        values = program._try_execute(given)
        if type(values) is int:
            if count > MAX_TRACED:
                raise NotReplayable(f"the {count} elements of a batch solve equations, but not by the same steps")
            return None
        return (restore([self.operand(v, y) for v, y in zip(self.appended(many, leaves), values)]),)

    def arguments(self):
        """Return the arguments of the first element, whose batched arrays are unknowns of the recording."""
        around, found = self.around, []
        around.code.run()
        for leaves, restore in self.elements.parts:
            made = []
            for leaf, axis in leaves:
                if axis is None:
                    made.append(leaf)
                    continue
                if leaf.dtype != _FLOAT:
                    raise NotReplayable(f"{self.mapped.name}: a batch of equations that is not float64")
                self.batched.append(np.moveaxis(leaf, axis, 0) if axis else leaf)
                self.first.append(np.array(var.plain(self.batched[-1])[0], order="C")[()])
                made.append(around.unknown(self.first[-1].copy()))
                self.unknowns.append(around.unknowns[-1])
            found.append(restore(made))
        return found

    def sliced(self, places):
        """Return the IR of the first element as a function of its arguments and earlier values, and these values."""
        code = self.around.code.listing
        start = self.unknowns[0]
        depends = dependent(code, self.unknowns, start)
        others = [v for v in self.around.unknowns if v > start and v not in self.unknowns]
        if others:
            depends &= ~dependent(code, others, start)
        guards = [i for i in range(start, len(code)) if code.op[i] == Op.GUARD and depends[i]]
        needed: set = set()
        leaves: set = set()
        todo = [*places, *guards]
        while todo:
            v = int(todo.pop())
            if v in needed or v in leaves or v in self.unknowns:
                continue
            if not depends[v] and code.op[v] not in _CONSTANTS:
                leaves.add(v)
            else:
                needed.add(v)
                todo += operands(code, v)
        leaves = sorted(leaves)
        found, of = Listing(), np.full(len(code), -1, dtype=np.int32)
        for v in [*self.unknowns, *leaves]:
            of[v] = found.input(kind_of(code, v))
        found.take(code, np.array(sorted(needed), dtype=np.int32), of)
        found.outputs = [int(of[v]) for v in places]
        return found, leaves

    def appended(self, many, leaves):
        """Append the batched program to the recording; return the ids of its outputs."""
        code = self.around.code
        values = [code.output(x) for x in self.batched]
        code.run()
        listing = code.listing
        given = zip(many.inputs, [*values, *leaves])
        return listing.inline(many, [listing.in_layout(w, kind_of(many, v)) for v, w in given])

    def operand(self, v, y):
        found = independent(self.around.tape, y)
        self.around.code.name(found, v)
        return found
