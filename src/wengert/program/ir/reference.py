"""Reference interpreter: evaluates a program with NumPy, one instruction at a time; the tests compare the VM to it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from wengert.core.tape.tape import kernel_partials
from wengert.errors import GuardError
from wengert.program.ir.call_rules import filled
from wengert.program.ir.ir import whole_view
from wengert.program.ir.opcode_table import ROWS, function, primitive
from wengert.program.ir.opcodes import Op

#: element count up to which partials are computed singly by the C kernels; larger arrays use the NumPy rules
_MAX_ONE_BY_ONE = 1000


def evaluated(code, inputs: list, count: int | None = None, known: list | None = None) -> list:
    """Evaluate the first `count` values of a program, by default all.

    `known` holds the leading values if they are already computed; the others are appended to it.

    Raises
    ------
    GuardError
        If a guarded value differs from the recorded one.
    """
    values: list = [] if known is None else known
    with np.errstate(all="ignore"):
        for _ in evaluating(code, inputs, values, count):
            pass
    return values


def evaluating(code, inputs: list, values: list, count: int | None = None) -> Iterator[None]:
    """Append the values of a program, up to number `count`, to the leading ones one by one.

    The caller may replace values that are not read again by None.
    """
    columns = [column[len(values) : count].tolist() for column in (code.op, code.a, code.b, code.c, code.type)]
    for op, a, b, c, kind in zip(*columns):
        value = _value(code, op, a, b, c, code.types[kind], values, inputs)
        values.append(value if op == Op.VIEW else _laid_out(value, code.types[kind]))
        yield


def outputs(code, inputs: list) -> list:
    """Evaluate the outputs of a program."""
    values = evaluated(code, inputs)
    return [values[v] for v in code.outputs]


def _value(code, op, a, b, c, kind, values, inputs):
    if op < Op.PARTIAL:
        return function(op)(*[values[v] for v in (a, b) if v >= 0])
    if op < Op.INPUT:
        opcode, side = divmod(op - Op.PARTIAL, 2)
        given = [np.float64(0.0) if v < 0 else values[v] for v in (a, b, c)]
        if math.prod(kind[1]) > _MAX_ONE_BY_ONE:
            return _slope(opcode, side, *given, kind[1])
        return np.vectorize(lambda a, b, y: kernel_partials(opcode, a, b, y)[side], otypes=[float])(*given)[()]
    if op == Op.INPUT:
        return inputs[a]
    if op == Op.CONST:
        return np.float64(code.constants[a]) if kind[0].kind == "f" else np.bool(code.constants[a])
    if op == Op.ARRAY:
        return code.arrays[a]
    if op == Op.LOAD:
        return _memory(values[a])[b]
    if op == Op.VIEW:
        return _view(values[a], code.views[b], kind[0])
    if op == Op.PACK:
        found = empty(kind) if a < 0 else _copied(values[a], kind)
        if a < 0:
            found[...] = 0.0
        offsets, items = code.packs[b]
        _memory(found)[offsets] = [values[v] for v in items.tolist()]
        return found
    if op == Op.PLACE:
        found = empty(kind) if a < 0 else _copied(values[a], kind)
        _view(found, code.views[b], kind[0])[...] = values[c]
        return found
    if op == Op.CALL:
        call = code.calls[a]
        operands = [values[v] for v in call.operands]
        return call.compute(*[filled(argument, operands) for argument in call.args], **call.kwargs)
    if op == Op.GUARD:
        expected, place = code.guards[b]
        if not np.array_equal(values[a], expected):
            raise GuardError(f"{place}: the value is {values[a]!r}, but {expected!r} was recorded")
        return None
    if op == Op.STOP:
        return values[a]
    if op == Op.GATHER:
        return _memory(values[a])[values[b]]
    if op == Op.PUT:
        found = np.zeros_like(empty(kind)) if a < 0 else _copied(values[a], kind)
        _memory(found)[values[b]] = values[c]
        return found
    if op == Op.SCATTER:
        found = empty(kind)
        found[...] = 0
        np.add.at(_memory(found), values[b].ravel(), np.ravel(values[a]))
        return found
    return function(op)(*[values[v] for v in (a, b, c) if v >= 0])


def _slope(opcode, side, a, b, y, shape):
    """Return the partial of a function at all elements, by its NumPy rule."""
    rule = primitive(opcode).partials[side]
    if not callable(rule):
        return np.full(shape, float(rule))
    return np.broadcast_to(rule(y, a) if ROWS[opcode].arity == 1 else rule(y, a, b), shape)


def empty(kind):
    """Return an uninitialised array of a type."""
    dtype, shape, strides = kind
    if strides is None:
        return np.empty(shape, dtype)
    first, _, strides = whole_view(kind)
    span = sum((n - 1) * abs(s) for n, s in zip(shape, strides) if n > 0) + dtype.itemsize
    return np.ndarray(shape, dtype, np.empty(span, np.uint8), first, strides)


def example_of(kind):
    """Return an array of ones, or a scalar 1, of a type."""
    dtype, shape, _ = kind
    if not shape:
        return dtype.type(1)
    found = empty(kind)
    found[...] = 1
    return found


def _laid_out(x, kind):
    """Return an array with the strides of its type, because views address its memory."""
    _, shape, strides = kind
    if not shape or not isinstance(x, np.ndarray):
        return x
    is_laid_out = x.flags.c_contiguous if strides is None else x.strides == strides
    return x if is_laid_out else _copied(x, kind)


def _copied(x, kind):
    found = empty(kind)
    found[...] = x
    return found


def _memory(x):
    """Return the memory of an array as a 1-D array."""
    low, high = np.lib.array_utils.byte_bounds(x)
    return np.asarray(_Span(x, low, high - low)).view(x.dtype)


class _Span:
    """The bytes that an array spans, from its lowest address."""

    def __init__(self, owner, low, size):
        self.owner = owner
        self.__array_interface__ = {"data": (low, False), "shape": (size,), "typestr": "|u1", "version": 3}


def _view(x, view, dtype):
    offset, shape, strides = view
    if 0 in shape:  # an empty view may start at the end of the memory
        return np.empty(shape, dtype)
    return np.ndarray(shape, dtype, _memory(np.asarray(x)), offset, strides)


def of_type(x, kind):
    """Convert `x` to a scalar, or to an array with the strides of a type."""
    dtype, shape, strides = kind
    x = np.asarray(x, dtype)
    wanted = np.empty(shape, dtype).strides if strides is None or strides == "flag" else strides
    if not shape:
        return x[()]
    return x if x.shape == shape and x.strides == wanted else _copied(x, kind)
