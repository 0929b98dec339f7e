"""Programs of composed functions: the value and the residuals of a call in one run, its pullback in another.

A gradient that calls a function by its formula traces the formula at every evaluation.
A `Replay` records it once, for arguments of one structure (`wengert.core.dispatch.repeated`), and appends one entry to
the tape for each call.
The program of the adjoints is split at the instructions that depend on cotangents: those before them run in the call
and return the *residuals*, the values that the others read.

Invariants
- Programs are exact: derivatives have the bits of those by tracing, unless a function rounds differently for arrays in
  another memory order.
- The value is that of the function itself if its formula equals it only up to rounding, else that of the program.
- A call is traced if the formula takes a branch that has no program, and if a value of the program is not finite, since
  the formula may warn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from wengert import registry
from wengert.core.dispatch import arguments, dispatch
from wengert.core.levels import Unrecorded, outside, running, unnoted
from wengert.core.modes.pullback import pull_back
from wengert.core.operands import var
from wengert.core.tape import local_derivatives
from wengert.program.derivatives import NotDerivable
from wengert.program.derive import source_transform
from wengert.program.ir.ir import Listing, dependent, kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import of_type
from wengert.program.record import trace_alone
from wengert.program.signature import Slot
from wengert.program.specialise.as_primitive import Parts
from wengert.program.tracing.refusals import NotReplayable
from wengert.program.vm.machine import Machine
from wengert.transforms.products import record

#: maximum number of branch combinations of a formula that have a program
MAX_BRANCHES = 4

_DOUBLE, _COMPLEX = np.dtype(float), np.dtype(complex)


def new_replay(row, fun, args: tuple, kwargs: dict, leaves: list, operands: list) -> Replay | None:
    """Return the replay of a call, or None if its formula has no program."""
    replay = Replay(row)
    return replay if replay.record(args, kwargs, leaves, operands) else None


class Replay:
    """Programs of a formula for arguments of one structure, one for each combination of branches."""

    def __init__(self, row):
        self.row = row
        self.formulas: list[Formula] = []
        self.is_full = False  # whether further branches are traced

    def __call__(self, level, fun, args: tuple, kwargs: dict, leaves: list, operands: list) -> Any:
        """Return the result of a call, as operands; `NotImplemented` if it must be traced."""
        for formula in self.formulas:
            found = formula.forward.attempt(leaves)
            if type(found) is not int:  # an int is the index of a failed guard
                return formula.entered(level, fun, args, kwargs, leaves, operands, found)
        if not self.is_full:
            self.record(args, kwargs, leaves, operands)
        return NotImplemented

    def record(self, args: tuple, kwargs: dict, leaves: list, operands: list) -> bool:
        """Record the branches of a call; return whether they have a program."""
        with contextlib.suppress(Exception, Unrecorded, NotReplayable):
            traced = [i for i, x in enumerate(operands) if var.is_traced(x)]
            with outside(), unnoted(), np.errstate(all="ignore"):
                self.formulas.append(Formula(self.row, args, kwargs, leaves, traced))
            self.is_full = len(self.formulas) == MAX_BRANCHES
            return True
        self.is_full = True
        return False


class Formula:
    """The programs of a formula for one combination of branches.

    Attributes
    ----------
    forward : Machine
        Maps the leaves to the values of the program, if the row has them, and the residuals.
    back : Machine
        Maps the residuals and the cotangents of the results to the cotangents of the traced leaves.
    """

    def __init__(self, row, args: tuple, kwargs: dict, leaves: list, traced: list[int]):
        args, kwargs = [_template(x) for x in args], {name: _template(x) for name, x in kwargs.items()}

        def body(*inputs):
            given = iter(inputs)
            filled = [_filled(x, given) for x in args]
            return row.variadic(*filled, **{name: _filled(x, given) for name, x in kwargs.items()})

        program = trace_alone(body, leaves, exact=True)
        self.formula, self.body, self.traced = row, body, traced
        self.all_traced = len(traced) == len(leaves)
        self.template = program._result.template
        self.is_single = type(self.template) is Slot
        self.parts = (self.template,) if self.is_single else self.template
        if not (self.is_single or _is_made_of_parts(self.template)):
            raise NotDerivable("the result is an object of another class")
        slots = [part for part in self.parts if type(part) is Slot]
        others = [part for part in self.parts if type(part) is not Slot]
        is_whole = len(slots) == len(program._listing.outputs) and (
            row.is_formula or all(type(part) in (bool, str, type(None)) for part in others)
        )
        if not is_whole or any(slot.make is not None for slot in slots):
            raise NotDerivable("a part of the result is not an output of the program")
        self._derive(program, leaves, traced)
        self.row = registry.Primitive(row.name, "custom", vjps={0: self.pull}, sequence=True)

    def _derive(self, program, leaves, traced):
        code = program._differentiable_ir()
        depends = source_transform.depends(code, [code.inputs[i] for i in traced])
        self.places = [i for i, v in enumerate(code.outputs) if depends[v]]
        self.kinds = [kind_of(code, v) for v in code.outputs]
        seeds = [(code.outputs[i], len(leaves) + j) for j, i in enumerate(self.places)]
        dtypes = {self.kinds[i][0] for i in self.places}
        if dtypes not in ({_DOUBLE}, {_COMPLEX}):
            raise NotDerivable("the results that depend on traced arguments must be all float64 or all complex128")
        self.is_complex = dtypes == {_COMPLEX}
        self.results = Parts([self.kinds[i][1] for i in self.places])
        derived = source_transform.pulled_back(code, seeds, [code.inputs[i] for i in traced], leaves, True)
        if not self.formula.is_formula:
            derived.outputs = [*derived.outputs, *code.outputs]
        parts = split(program._with_ir(derived)._lowered_ir(), len(leaves), len(traced))
        self.forward, self.back = (Machine(part, True, "vm") for part in parts)
        self.work = (self.forward.bytes + self.back.bytes) // 8

    def entered(self, level, fun, args, kwargs, leaves: list, operands: list, found: list) -> Any:
        """Append the entry of a call and return the result, as operands; `NotImplemented` if it must be traced."""
        if self.formula.is_formula:
            value = dispatch._plain_call(fun, args, kwargs)
            parts = (value,) if self.is_single else value
            if not (self.is_single or _is_made_of_parts(value)) or len(parts) != len(self.parts):
                return NotImplemented
            outputs = [_as_numpy(y) for y, part in zip(parts, self.parts) if type(part) is Slot]
            for i in self.places:
                if not _is_like(outputs[i], self.kinds[i]):
                    return NotImplemented
        else:
            value, parts, outputs = self.template, self.parts, found[: len(self.kinds)]
            found = found[len(self.kinds) :]
            for y in outputs:
                if not np.isfinite(y).all():
                    return NotImplemented
        y = outputs[0] if len(outputs) == 1 else self.results.joined([outputs[i] for i in self.places])
        y = self._appended(level, operands, leaves, y, tuple(found))
        if self.is_single:
            return y
        if not self.formula.is_formula:
            outputs = arguments.clean(outputs)
        for i, x in zip(self.places, [y] if len(outputs) == 1 else self.results.parted(y)):
            outputs[i] = x
        entries = iter(outputs)
        made = [next(entries) if type(part) is Slot else y for y, part in zip(parts, self.parts)]
        kind = type(value)
        return kind._make(made) if hasattr(kind, "_make") else kind(made)

    def _appended(self, level, operands, leaves, y, residuals) -> Any:
        """Append the entry of a call with the results `y` that depend on traced leaves; return them as an operand."""
        sources = [(0, j, operands[i]) for j, i in enumerate(self.traced)]
        kept = leaves
        if not self.all_traced:
            kept = [x if i in self.traced else arguments.kept_operand(level, x) for i, x in enumerate(leaves)]
        if self.is_complex:
            var.note_complex(level)
        y = var.record(level, self.row, (residuals, tuple(kept)), {}, sources, y, None, None)
        running.get()[-1].needs(self.work)
        return y

    def pull(self, ybar, y, residuals: tuple, leaves: tuple) -> list:
        """Return the cotangents of the traced leaves, by tracing if rules take another branch for these cotangents.

        A complex cotangent is given as its conjugate, as to any rule for real operands: see `Adjoints`.
        """
        ybar = np.conj(ybar) if self.is_complex else ybar
        parts = [ybar] if len(self.places) == 1 else self.results.parted(ybar)
        cotangents = [of_type(g, self.kinds[i]) for g, i in zip(parts, self.places)]
        found = self.back.attempt([*residuals, *cotangents])
        return self._pulled_by_tracing(cotangents, leaves) if type(found) is int else found

    def _pulled_by_tracing(self, cotangents, leaves) -> list:
        """Trace the formula and pull cotangents back, where rules take another branch for these cotangents."""

        def results(*inputs):
            y = self.body(*inputs)
            own = [y for y, part in zip((y,) if self.is_single else y, self.parts) if type(part) is Slot]
            return [own[i] for i in self.places]

        run = record(results, tuple(leaves), {}, tuple(self.traced), False, self.formula.name)
        try:
            return pull_back(run.tape, run.inputs, run.outputs, cotangents, 1, False, True)
        finally:
            run.tape.close()


def split(code: Listing, leaves: int, wanted: int) -> tuple[Listing, Listing]:
    """Split a program of adjoints at the instructions that depend on cotangents.

    Inputs from number `leaves` on are cotangents; the first `wanted` outputs are the adjoints, the others are values.
    Return the program from the leaves to these values and the residuals, and that from the residuals and cotangents to
    the adjoints.
    """
    ops = code.op
    is_late = dependent(code, code.inputs[leaves:])
    early = np.flatnonzero(~is_late)
    residuals, late = _needed(code, ops, is_late, code.outputs[:wanted])

    forward = code.successor()
    of = np.full(len(code), -1, dtype=np.int32)
    forward.take(code, early.astype(np.int32), of)
    forward.inputs = of[code.inputs[:leaves]].tolist()
    forward.outputs = of[[*code.outputs[wanted:], *residuals]].tolist()

    back = code.successor()
    of = np.full(len(code), -1, dtype=np.int32)
    for v in [*residuals, *code.inputs[leaves:]]:
        of[v] = back.input(kind_of(code, v))
    back.take(code, np.array(late, dtype=np.int32), of)
    back.outputs = of[code.outputs[:wanted]].tolist()
    return forward, back


def _needed(code, ops, is_late, outputs):
    """Return the residuals and the instructions of the second program, both in program order.

    A value is computed again if it is a constant, a view or an element, or if a residual cannot have its type.
    """
    is_needed = np.zeros(len(code), dtype=bool)
    is_needed[outputs] = True
    residuals, late = [], []
    for i in range(len(code) - 1, -1, -1):
        if not (is_late[i] or is_needed[i]) or (is_late[i] and ops[i] == Op.INPUT):
            continue
        dtype, shape, strides = kind_of(code, i)
        if not is_late[i] and ops[i] not in _CHEAP and strides is None and (shape or dtype == _DOUBLE):
            residuals.append(i)
            continue
        late.append(i)
        is_needed[operands(code, i)] = True
    return residuals[::-1], late[::-1]


#: instructions that take no time, or that only refer to memory
_CHEAP = frozenset((Op.CONST, Op.ARRAY, Op.VIEW, Op.LOAD))


def new_pullback(row, position: int, given: tuple, kwargs: dict, leaves: list) -> Pullback | None:
    """Return the replay of the pullback of ``given = (ybar, y, *args)``, or None if its rule has no program."""
    found = Pullback(row, position, given, kwargs)
    return found if found.record(leaves) else None


class Pullback:
    """Programs of a pullback for arguments of one structure, one for each combination of branches of its rule."""

    def __init__(self, row, position: int, given: tuple, kwargs: dict):
        given = tuple([_LEAF if type(x) is np.float64 else _template(x) for x in given])

        def body(*inputs):
            rest = iter(inputs)
            ybar, y, *args = (_filled(x, rest) for x in given)
            return local_derivatives.pullback(row, position, ybar, y, args, kwargs)

        self.body = body
        self.attempts: list = []
        self.is_full = False  # whether the rule runs for further branches

    def __call__(self, given: tuple, leaves: list) -> Any:
        """Return the cotangent; `NotImplemented` if the rule is to run."""
        for attempt in self.attempts:
            found = attempt(leaves)
            if type(found) is not int:
                return found[0]
        if not self.is_full:
            self.record(leaves)
        return NotImplemented

    def record(self, leaves: list) -> bool:
        """Record the branches that the rule takes; return whether they have a program."""
        with contextlib.suppress(Exception, Unrecorded, NotReplayable):
            with outside(), unnoted(), np.errstate(all="ignore"):
                program = trace_alone(self.body, leaves, exact=True)
            outputs = program._listing.outputs
            if type(program._result.template) is Slot and kind_of(program._listing, outputs[0])[0] == _DOUBLE:
                program._tier = "vm"
                self.attempts.append(program._try_execute)
                self.is_full = len(self.attempts) == MAX_BRANCHES
                return True
        self.is_full = True
        return False


#: placeholder of a leaf in the arguments of a call
_LEAF = object()


def _template(x: Any) -> Any:
    """Return an argument with a placeholder for each leaf, in the order of `repeated.Call`."""
    if type(x) is tuple or type(x) is list:
        return type(x)([_template(item) for item in x])
    if var.is_var(x):
        return _LEAF
    if type(x) is np.ndarray:
        return _LEAF if x.dtype == _DOUBLE else x.copy()
    return x


def _filled(x: Any, given: Iterator) -> Any:
    """Return an argument with the next leaves in place of the placeholders."""
    if type(x) is tuple or type(x) is list:
        return type(x)([_filled(item, given) for item in x])
    return next(given) if x is _LEAF else x


def _is_made_of_parts(y):
    """Return whether a result is a tuple, a list or a named tuple; other classes may need more than their items."""
    return type(y) in (tuple, list) or hasattr(type(y), "_make")


def _as_numpy(y):
    return np.float64(y) if type(y) is float else np.complex128(y) if type(y) is complex else y


def _is_like(y, kind):
    """Return whether a value has the type of an output."""
    dtype, shape, _ = kind
    if type(y) is np.ndarray:
        return y.dtype == dtype and y.shape == shape
    return type(y) is dtype.type and not shape
