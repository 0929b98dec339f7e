"""Programs of integrands and of their partial derivatives, which quadrature calls as C functions.

The integrand is traced at an unknown point, within the recording of the function that integrates.  If it is continuous
and reads nothing but the operands of the integral, these programs replace it whenever the integral is evaluated.
Otherwise SciPy calls the Python function.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import wengert.numpy as wnp
from wengert.core.levels import Unrecorded, caught, outside
from wengert.core.operands import var
from wengert.errors import GuardError, LevelError, NonSmoothError, TracedValueError, UnsupportedFunctionError
from wengert.implicit.recorded import program_of, sliced
from wengert.program.derivatives import NotDerivable
from wengert.program.integration.continuity import is_continuous, needed_values
from wengert.program.integration.integrand import Callback
from wengert.program.integration.system import inlined, parts_of
from wengert.program.ir.ir import Listing, c_strides, kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.program import Program
from wengert.program.record import trace_alone
from wengert.program.signature import Result, Slot
from wengert.program.tracing.refusals import NotReplayable
from wengert.program.tracing.trace import recording

#: highest order of partial derivatives with programs, and maximum number of elements of the result
MAX_ORDER, MAX_ELEMENTS = 2, 4096

#: maximum number of idle callbacks that are kept for a program
MAX_SPARE = 4

_FLOAT = np.dtype(float)

#: errors of a function that cannot be recorded or derived
REFUSALS = (NotDerivable, NotReplayable, Unrecorded, GuardError, LevelError, TracedValueError, UnsupportedFunctionError,
            np.linalg.LinAlgError)  # fmt: skip
_REFUSALS = (*REFUSALS, NonSmoothError)


def native(f: Callable, values: list, x: float, name: str) -> Native | None:
    """Return the programs of an integrand and its partials; None if there are none.

    `f` is the integrand, a function of x that reads traced values and returns one number; it is traced at `x`.
    `values` are the only traced values of the recording that f may read; `name` is SciPy's function, for messages.
    """
    around = recording.get()
    if around is None or around.exact or any(var.level_of(value) is not around.tape.level for value in values):
        return None  # a derivative is traced within the recording
    with caught(*_REFUSALS):
        around.code.run()
        leaves = [around.code.output(value) for value in values]
        part = sliced(around, lambda t: wnp.reshape(f(t), (1,)), np.float64(x), (1,), name, known=leaves)
        listing = _of_known(part, around.code.listing, leaves)
        if listing is None:
            return None
        example = np.concatenate([np.ravel(v) for v in (x, *map(around.value, leaves))])
        made = program_of(around, f"{name}: integrand", listing, (example,))
        return Native(made) if _is_continuous(made) else None
    return None


def _of_known(part, code, known):
    """Return the IR of a slice as a function of one vector, its start and `known`; None if it reads other values.

    The slice may read known values as parts of other arrays.
    """
    given = (part.start, *known)
    kinds = [kind_of(code, v) for v in given]
    if any(dtype != _FLOAT or strides is not None for dtype, _, strides in kinds):
        return None
    sizes = [math.prod(shape) for _, shape, _ in kinds]
    places = np.cumsum([0, *sizes]).tolist()
    found, of = Listing(), np.full(len(code), -1, dtype=np.int32)
    x = found.add(Op.INPUT, (_FLOAT, (places[-1],), None), 0)
    found.inputs = [x]
    for v, (_, shape, _), place in zip(given, kinds, places):
        of[v] = found.part(x, (8 * place, shape, c_strides(shape, 8)), _FLOAT)
    for root in set(part.leaves) - set(known):
        parts = parts_of(code, root, range(root + 1, len(code)))
        whole = [
            (parts[v][0], 8 * size, 8 * place)
            for v, size, place in zip(given, sizes, places)
            if v in parts and parts[v][2] == c_strides(parts[v][1], 8)
        ]
        for v in part.which:
            if v in parts and of[v] < 0:
                offset, shape, strides = parts[v]
                ends = [(n - 1) * step for n, step in zip(shape, strides)]
                low, high = offset + sum(min(e, 0) for e in ends), offset + sum(max(e, 0) for e in ends)
                start = next((place - at for at, n, place in whole if at <= low and high < at + n), None)
                if start is None:
                    return None
                of[v] = found.part(x, (start + offset, shape, strides), _FLOAT)
            elif v not in parts and root in operands(code, v):
                return None
    found.take(code, np.array([v for v in part.which if of[v] < 0], dtype=np.int32), of)
    found.outputs = [int(of[part.out])]
    return found


def native_alone(prepared: Callable, values: list, x: float) -> Native | None:
    """Like `native`, but outside of recordings, where everything except x and `values` is constant.

    ``prepared(values)`` returns the integrand as a function of x.
    """
    shapes = [np.shape(value) for value in values]

    def f(point):
        own = [wnp.reshape(point[1:], shape) for shape in shapes]  # `values` has at most one item
        return wnp.reshape(prepared(own)(point[0]), (1,))

    with caught(*_REFUSALS), outside(), np.errstate(all="ignore"):
        made = trace_alone(f, [np.concatenate([[x], *map(np.ravel, values)])])
        return Native(made) if _is_continuous(made) else None
    return None


def _is_continuous(program):
    """Return whether a program without guards is a continuous function of its input."""
    code = program._listing
    return not (code.op == Op.GUARD).any() and all(is_continuous(code, v) for v in needed_values(code, code.outputs))


class Native:
    """The programs of a continuous integrand, from ``[x, *p]`` to an array with one element, and of its partials."""

    def __init__(self, program: Program):
        self._programs: list = [program]
        self._spare: dict[int, list] = {}
        self._is_continuous = [True]

    def __getstate__(self):
        return {**self.__dict__, "_spare": {}}

    def program(self, order: int) -> Program | None:
        """Return the program of the partials of an order; None if there is none."""
        while len(self._programs) <= min(order, MAX_ORDER):
            last, found = self._programs[-1], None
            if last is not None and last._output_shape[-1] * last._example[0].size <= MAX_ELEMENTS:
                with caught(*_REFUSALS):
                    found = last.jacobian() if len(self._programs) > 1 else _gradient(last)
            self._programs.append(found)
            self._is_continuous.append(found is not None and _is_continuous(found))
        return self._programs[order] if order <= MAX_ORDER else None

    def is_continuous(self, order: int) -> bool:
        """Return whether the partials of an order are known to be continuous."""
        return self.program(order) is not None and self._is_continuous[order]

    @contextlib.contextmanager
    def at(self, order: int, values: list) -> Iterator[Callback | None]:
        """Yield the partials of an order in `values`, in the order of `Partials`; None if there is no program."""
        program = self.program(order)
        if program is None:
            yield None
            return
        spare = self._spare.setdefault(order, [])
        found = None
        with contextlib.suppress(IndexError):
            found = spare.pop()
        found = self._callback(order, program) if found is None else found
        found.set(np.concatenate([np.ravel(value) for value in values]) if values else ())
        yield found
        if not found.settle() and len(spare) < MAX_SPARE:
            spare.append(found)

    def _callback(self, order, program):
        size = program._example[0].size
        places = np.arange(size**order).reshape((size,) * order)[(slice(1, None),) * order]
        return Callback(program, np.ascontiguousarray(places.reshape(-1), dtype=np.intp), places.size > 1)


def _gradient(program):
    """Return the program of the gradient of the only element of the result, of shape (size,)."""
    (example,), code = program._example, Listing()
    code.inputs = [code.add(Op.INPUT, (_FLOAT, example.shape, None), 0)]
    (y,) = inlined(code, program._listing, code.inputs).outputs
    code.outputs = [int(code.part(y, (0, (), ()), _FLOAT))]
    return program._like(program._name, code, Result(Slot(0))).grad()


class Nothing:
    """Replaces `Native` if there is no program."""

    def is_continuous(self, order: Any) -> bool:
        return False

    @contextlib.contextmanager
    def at(self, order: int, values: list) -> Iterator[None]:
        yield None
