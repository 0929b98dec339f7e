"""Expands opaque calls before Jacobian accumulation, where their parts have simpler partials.

Calls that join arrays become stores into one array; differences, cross products and the like become arithmetic on
views.
A view that repeats a few elements in each of many rows, as of a broadcast operand, becomes a gather, since the VM takes
ten times as long on short rows.
Values differ from those of the call by rounding, so the result serves derivatives only.
"""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import numpy as np

from wengert.program.ir import access
from wengert.program.ir.call import Operand
from wengert.program.ir.call_rules import filled
from wengert.program.ir.call_rules import places as places_of
from wengert.program.ir.ir import Listing, c_strides, kind_of, operands, overlaps
from wengert.program.ir.opcode_table import opcodes
from wengert.program.ir.opcodes import Op
from wengert.program.tracing.trace import listed
from wengert.rules.reductions import average_share

_FLOAT = np.dtype(float)
#: taps of a convolution that is expanded into a sum
_MAX_TAPS = 16
#: elements along an axis whose products are expanded
_MAX_EXPANDED = 8
#: rows of a matrix that is inverted
_MAX_INVERTED = 5
#: elements of a row that take the VM as long as going on to the next row
_MIN_ROW_LENGTH = 32
#: opcodes that read arrays element by element, wherever they lie
_PLAIN = opcodes(access="elements")


def apart(code: Listing) -> tuple[Listing, np.ndarray]:
    """The list with what some instructions are made of in their place, and where its values stand in that."""
    new, of = Listing(), np.arange(len(code), dtype=np.int32)
    repeated = _repeated(code)
    places = [i for i in np.flatnonzero(code.op == Op.CALL).tolist() if _may_come_apart(code.calls[int(code.a[i])])]
    if not places and not repeated:
        return code, of
    start = 0
    for i in sorted([*places, *repeated]):
        new.take(code, np.arange(start, i, dtype=np.int32), of)
        start = i + 1
        if i in repeated:
            of[i] = one_by_one(new, int(of[code.a[i]]), repeated[i], kind_of(code, i)[0])
            continue
        call = code.calls[int(code.a[i])]
        found = _written_out(new, call, [int(of[v]) for v in call.operands], kind_of(code, i))
        if found is None:
            new.take(code, np.array([i], dtype=np.int32), of)
        else:
            of[i] = found
    new.take(code, np.arange(start, len(code), dtype=np.int32), of)
    new.inputs, new.outputs = [[int(of[v]) for v in values] for values in (code.inputs, code.outputs)]
    return new, of


# ---------------------------------------------------------------------------------------------- short lines


def is_in_short_lines(view: tuple) -> bool:
    """Are the elements of a view in many lines, each of a few elements, that no single step joins?"""
    steps = [(n, step) for n, step in zip(*view[1:]) if n != 1]
    if not steps or 0 in view[1]:
        return False
    run, last = steps.pop()
    while steps and steps[-1][1] == last * run:
        run *= steps.pop()[0]
    return run < _MIN_ROW_LENGTH <= math.prod(view[1])


def one_by_one(new: Listing, v: int, view: tuple, dtype: np.dtype) -> int:
    """The elements of a view, gathered."""
    index = new.constant_array(places_of(view, dtype).astype(np.int32))
    return new.add(Op.GATHER, (dtype, view[1], None), v, index)


def _repeated(code):
    """Views in short lines that repeat elements, of which only elementwise instructions and sums read."""
    columns = [column.tolist() for column in (code.op, code.a, code.b, code.type)]
    found = {}
    for i, (op, a, b, kind) in enumerate(zip(*columns)):
        if op == Op.VIEW and is_in_short_lines(code.views[b]) and overlaps(*code.views[b][1:]):
            if code.types[kind][0] == code.types[columns[3][a]][0]:
                found[i] = code.views[b]
    if found:
        for i, op in enumerate(columns[0]):
            is_plain = op in _PLAIN or (op == Op.PLACE and columns[1][i] not in found)
            for v in operands(code, i) if not is_plain else ():
                found.pop(v, None)
        for v in code.outputs:
            found.pop(v, None)
    return found


# ---------------------------------------------------------------------------------------------- calls


def _may_come_apart(call):
    if call.row is None or access.heeds_memory(call):
        return False
    return call.row.name in _MADE_OF or access.moves(call)


def _written_out(new, call, values, wanted):
    """The value that a call gives, by other instructions; None: it stays a call."""
    if not _may_come_apart(call) or wanted[0] != _FLOAT or any(kind_of(new, v)[0] != _FLOAT for v in values):
        return None
    if access.moves(call):
        return _joined(new, call, values, wanted)
    shapes = [kind_of(new, v)[1] for v in values]
    try:
        function = _MADE_OF[call.row.name](*[_shaped(x, shapes) for x in call.args], **call.kwargs)
    except (KeyError, TypeError):  # arguments in a form that is not known here
        return None
    if function is None:
        return None
    rng = np.random.default_rng(0)  # of which no matrix is singular
    examples = [rng.random(shape) if shape else np.float64(1.0) for shape in shapes]
    made = listed(lambda *x: [function(*[filled(argument, x) for argument in call.args])], examples, call.name)
    made = apart(made)[0]
    of = np.full(len(made), -1, dtype=np.int32)
    for v in made.inputs:
        of[v] = in_type(new, values[int(made.a[v])], kind_of(made, v))
    new.take(made, np.setdiff1d(np.arange(len(made), dtype=np.int32), made.inputs).astype(np.int32), of)
    found = int(of[made.outputs[0]])
    return in_type(new, found, wanted) if kind_of(new, found)[1] == wanted[1] else None


def _shaped(argument, shapes):
    """An argument, of an operand an array of its shape that takes no memory."""
    return np.broadcast_to(0.0, shapes[argument.position]) if type(argument) is Operand else argument


def whole(type: tuple) -> tuple:
    """All of an array of a type, as a view."""
    dtype, shape, strides = type
    if strides is None or strides == "flag":
        return 0, shape, c_strides(shape, dtype.itemsize)
    return sum((n - 1) * -s for n, s in zip(shape, strides) if s < 0 and n > 0), shape, strides


def in_type(new: Listing, v: int, type: tuple) -> int:
    """A value in the layout of a type."""
    return v if kind_of(new, v) == type or type[1] == () else new.place(-1, whole(type), v, type)


# ---------------------------------------------------------------------------------------------- joined


def _joined(new, call, values, wanted):
    """Arrays put into one, each as a block; None where they are not whole blocks."""
    shape = wanted[1]
    starts = np.cumsum([1, *[math.prod(kind_of(new, v)[1]) for v in values]])

    def numbers(argument):
        if type(argument) is not Operand:
            return np.zeros(np.shape(argument), np.int64)
        own = kind_of(new, values[argument.position])[1]
        return starts[argument.position] + np.arange(math.prod(own)).reshape(own)

    where = np.ravel(access.rearranged(call, numbers, lambda _: None)) if shape else None
    if where is None or where.size != math.prod(shape) or where.size == 0:
        return None
    order = np.argsort(where, kind="stable")
    first = np.searchsorted(where[order], 1)
    if where.size - first != starts[-1] - 1 or (where[order[first:]] != np.arange(1, starts[-1])).any():
        return None  # an element is dropped or repeated
    views = []
    for v, start in zip(values, starts):
        own = kind_of(new, v)[1]
        size = math.prod(own)
        view = _block(order[first + start - 1 : first + start - 1 + size], own) if size else None
        if size and view is None:
            return None
        if size:
            views.append((view, v))
    zeros = [np.zeros(kind_of(new, v)[1]) for v in values]
    rest = np.asarray(call.compute(*[filled(x, zeros) for x in call.args], **call.kwargs), dtype=_FLOAT)
    dense = (_FLOAT, shape, None)
    found = -1 if len(order) == starts[-1] - 1 and len(views) == 1 else new.constant_array(np.ascontiguousarray(rest))
    for view, v in views:
        found = new.place(found, view, v, dense)
    return in_type(new, found, wanted)


def _block(places, shape):
    """The view of a line whose elements stand at these places; None: there is none."""
    places = places.reshape(shape)
    offset = int(places.flat[0])
    steps = [int(np.take(places, 1, axis=d).flat[0]) - offset if n > 1 else 0 for d, n in enumerate(shape)]
    expected = np.array(offset)
    for n, step in zip(shape, steps):
        expected = expected[..., None] + step * np.arange(n)
    if (expected != places).any():
        return None
    return 8 * offset, shape, tuple(8 * step for step in steps)


# ---------------------------------------------------------------------------------------------- made of

# Each gets the arguments of the call, operands as arrays of their shape, and gives a function of them, or None.


def _cross(a, b, *more, **options):
    if more or options or np.shape(a)[-1] != 3 or np.shape(b)[-1] != 3:
        return None

    def cross(a, b):
        u, v = [[x[..., k] for k in range(3)] for x in (a, b)]
        return np.stack([u[k - 2] * v[k - 1] - u[k - 1] * v[k - 2] for k in range(3)], axis=-1)

    return cross


def _diff(a, n=1, axis=-1, prepend=None, append=None):
    def joined(a, prepend, append):
        ends = [None if end is None or end is np._NoValue else end for end in (prepend, append)]
        one = list(np.shape(a))
        one[axis] = 1
        ends = [np.broadcast_to(end, one) if end is not None and np.ndim(end) == 0 else end for end in ends]
        parts = [part for part in (ends[0], a, ends[1]) if part is not None]
        return np.concatenate(parts, axis=axis) if len(parts) > 1 else a

    def diff(a, n=n, axis=axis, prepend=prepend, append=append):
        a = joined(a, prepend, append)
        for _ in range(n):
            count = np.shape(a)[axis]
            low, high = [[slice(None)] * np.ndim(a) for _ in range(2)]
            low[axis], high[axis] = slice(0, count - 1), slice(1, count)
            a = a[tuple(high)] - a[tuple(low)]
        return a

    return diff if 0 < n < min(4, np.shape(a)[axis]) else None


def _slices(a, axis):
    """The slices of an array along an axis, if they are few."""
    if (axis is None and np.ndim(a) != 1) or not np.ndim(a):
        return None
    axis = (axis or 0) % np.ndim(a)
    index = (slice(None),) * axis
    return [(*index, k) for k in range(np.shape(a)[axis])] if np.shape(a)[axis] <= _MAX_EXPANDED else None


def _prod(a, axis=None, **options):
    slices = None if options or isinstance(axis, tuple) else _slices(a, axis)
    return (lambda a, *_: functools.reduce(np.multiply, [a[k] for k in slices])) if slices else None


def _cumulated(ufunc):
    def rule(a, axis=None, **options):
        slices = None if options else _slices(a, axis)

        def cumulated(a, *_):
            return np.stack(list(itertools.accumulate([a[k] for k in slices], ufunc)), axis=axis or 0)

        return cumulated if slices else None

    return rule


def _sums_of_segments(a, indices, axis=0, **options):
    """Each element is added to the sum of its own segment, where one comes after the other."""
    starts = np.asarray(indices)
    if options or np.ndim(a) != 1 or starts.dtype.kind not in "iu":  # operands stand here as numbers
        return None
    lengths = np.diff(starts, append=np.size(a))
    if np.any(lengths <= 0):
        return None
    which = np.repeat(np.arange(starts.size), lengths)
    return lambda a, *_: np.bincount(which, a[starts[0] :], starts.size)


def _trace(a, offset=0, axis1=0, axis2=1, **options):
    return None if options else lambda a, *_: np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1)


def _linalg_trace(a, **options):
    return _trace(a, options.pop("offset", 0), -2, -1, **options)


def _multi_dot(arrays, **options):
    return None if options else lambda arrays: functools.reduce(np.matmul, arrays)


def _average(a, axis=None, weights=None, **options):
    if weights is None or {*options} - {"keepdims"} or not np.any(weights):  # those of an operand stand here as 0
        return None
    share = average_share(np.asarray(a), axis, np.asarray(weights, dtype=float))
    return lambda a, *_: np.sum(a * share, axis=axis, **options)


def _solve(a, b, **options):
    """By the inverse of a small matrix, whose partials are products of its elements."""
    return None if options or np.shape(a)[-1] > _MAX_INVERTED else lambda a, b: np.matmul(np.linalg.inv(a), b)


def _kron(a, b):
    n = max(np.ndim(a), np.ndim(b))

    def kron(a, b):
        first, second = [(1,) * (n - np.ndim(x)) + np.shape(x) for x in (a, b)]
        a = np.reshape(a, [m for k in first for m in (k, 1)])
        b = np.reshape(b, [m for k in second for m in (1, k)])
        return np.reshape(a * b, [k * m for k, m in zip(first, second)])

    return kron


def _outer(a, b):
    return lambda a, b: np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1))


def _convolve(a, v, mode="full"):
    short, count = sorted((np.size(a), np.size(v)))
    before = {"full": short - 1, "same": short - 1 - (short - 1) // 2, "valid": 0}[mode]
    after = {"full": short - 1, "same": (short - 1) // 2, "valid": 0}[mode]

    def convolve(a, v, *_):
        a, v = (a, v) if np.size(v) == short else (v, a)
        a = np.pad(a, (before, after)) if before or after else a
        n = count + before + after - short + 1
        is_there = [True] + [type(v) is not np.ndarray or v[short - 1 - k] != 0 for k in range(1, short)]
        parts = [v[short - 1 - k] * a[k : k + n] for k in range(short) if is_there[k]]
        return functools.reduce(np.add, parts)

    return convolve if short <= _MAX_TAPS else None


def _correlate(a, v, mode="valid"):
    found = _convolve(a, v, mode) if np.size(v) <= np.size(a) else None
    return None if found is None else lambda a, v, *_: found(a, v[::-1])


_MADE_OF: dict[str, Any] = {
    "numpy.cross": _cross,
    "numpy.linalg.cross": _cross,
    "numpy.diff": _diff,
    "numpy.prod": _prod,
    "numpy.cumprod": _cumulated(np.multiply),
    "numpy.cumsum": _cumulated(np.add),
    "wengert.rules.ufuncs.sums_of_segments": _sums_of_segments,
    "numpy.trace": _trace,
    "numpy.linalg.trace": _linalg_trace,
    "numpy.linalg.multi_dot": _multi_dot,
    "numpy.average": _average,
    "numpy.linalg.solve": _solve,
    "wengert.rules.linalg.solution": _solve,
    "numpy.kron": _kron,
    "numpy.outer": _outer,
    "numpy.convolve": _convolve,
    "numpy.correlate": _correlate,
}
