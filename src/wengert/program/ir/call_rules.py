"""Applies registry rules to calls in a program, and defines rules of operations that only programs contain."""

from __future__ import annotations

import operator

import numpy as np

from wengert import registry
from wengert.core.dispatch.arguments import numbers_like
from wengert.core.dispatch.dispatch import function
from wengert.core.messages import no_complex_rule
from wengert.core.modes import forward
from wengert.core.operands.var import clean, holds_var, value_of
from wengert.core.tape import local_derivatives
from wengert.core.tape.tape import holds_complex
from wengert.dependence import Moved
from wengert.program.ir.call import Operand


def places(view: tuple, dtype: np.dtype) -> np.ndarray:
    """Return the offsets of a view's elements, in elements from the lowest address."""
    offset, shape, strides = view
    found = np.full(shape, offset // dtype.itemsize)
    for axis, (n, stride) in enumerate(zip(shape, strides)):
        steps = np.arange(n) * (stride // dtype.itemsize)
        found += steps.reshape((n,) + (1,) * (len(shape) - axis - 1))
    return found


def scattered(values, where, size):
    """Scatter-add values at the indices `where` of a 1-D array of zeros."""
    if not np.size(values):
        return np.zeros(size, dtype=values.dtype)
    if values.dtype.kind == "c":
        return scattered(values.real, where, size) + 1j * scattered(values.imag, where, size)
    found = np.bincount(np.ravel(where), np.ravel(values), size)
    return found if values.dtype == found.dtype else found.astype(values.dtype)


def summed_to(x, shape):
    """Sum an array over the axes along which `shape` would be broadcast to it, or broadcast it to `shape`."""
    if np.shape(x) == shape:
        return x
    if len(shape) > np.ndim(x):  # leading axes of length 1, which an assignment drops
        return np.reshape(summed_to(x, shape[len(shape) - np.ndim(x) :]), shape)
    if np.ndim(x) > len(shape):
        x = np.sum(x, axis=tuple(range(np.ndim(x) - len(shape))))
    ones = tuple(d for d, n in enumerate(shape) if n == 1 != np.shape(x)[d])
    x = np.sum(x, axis=ones, keepdims=True) if ones else x
    return x if np.shape(x) == shape else np.broadcast_to(x, shape)


def placed(base, key, value):
    """Return a copy of an array with ``copy[key] = value``, for advanced indices."""
    found = np.copy(base)
    found[key] = value
    return found


def _placed_base(ybar, y, base, key, value):
    return placed(ybar, key, 0.0)


def _placed_value(ybar, y, base, key, value):
    """Gather the cotangent of the values; if an element is written repeatedly, the last write gets its cotangent."""
    count = np.zeros(np.shape(base), dtype=np.intp)
    order = np.arange(np.size(count[key])).reshape(np.shape(count[key]))
    count[key] = order
    is_last = count[key] == order
    taken = ybar[key] if np.all(is_last) else np.where(is_last, ybar[key], 0.0)
    return summed_to(taken, np.shape(value))


placed_row = registry.Primitive(
    placed,
    "structural",
    vjps={0: _placed_base, 2: _placed_value},
    home=f"{__name__}.placed_row",
    curvature="none",
    dependence=Moved((0, 2)),
)


def _taken(ybar, y, x, key):
    where = clean(np.arange(np.size(x)).reshape(np.shape(x)))[key]  # the key may be traced
    return np.reshape(scattered(ybar, where, np.size(x)), np.shape(x))


getitem_row = registry.Primitive(
    operator.getitem,
    "structural",
    vjps={0: _taken},
    home=f"{__name__}.getitem_row",
    curvature="none",
    dependence=Moved(),
)


def pullback(call, wanted, ybar, y, *operands):
    """Return the cotangents of the operands `wanted` of a call, each in the shape of its operand."""
    if call.row.kind in ("view", "rearrangement"):
        return _moved_back(call, wanted, ybar, operands)
    args = [filled(argument, operands) for argument in call.args]
    return [_cotangent(call, j, ybar, y, args, operands) for j in wanted]


def filled(argument, operands):
    if type(argument) is Operand:
        return operands[argument.position]
    if type(argument) in (list, tuple):
        return type(argument)([filled(item, operands) for item in argument])
    return argument


def _moved_back(call, wanted, ybar, operands):
    """Scatter the cotangents of a rearrangement back to the operand elements they came from."""
    where, ends = _origins(call, wanted, operands)
    if len(wanted) == 1 and not holds_var(where):
        order = np.ravel(where)
        if np.array_equal(order, np.arange(1, ends[-1])):  # a copy or a reshape
            return [np.reshape(ybar, np.shape(operands[wanted[0]]))]
    total = scattered(ybar, where, ends[-1])
    return [np.reshape(total[a:b], np.shape(operands[j])) for a, b, j in zip(ends, ends[1:], wanted)]


def _origins(call, moved, operands):
    """Return the source of each element of a rearrangement, as an id, and the end of each operand's range of ids.

    Elements of the operands `moved` have consecutive ids from 1; elements of other origin have 0.
    Operands that select elements, such as indices, keep their values.
    """
    numbers = [
        x if place_in(call.args, j)[0] in call.row.choices else np.zeros(np.shape(x), dtype=np.intp)
        for j, x in enumerate(operands)
    ]
    ends = [1]
    for j in moved:
        ends.append(ends[-1] + np.size(operands[j]))
        numbers[j] = numbers_like(np.asarray(value_of(operands[j])), ends[-2])
    args = tuple([_numbered(argument, numbers) for argument in call.args])
    if holds_var(args):  # np.take does not dispatch on its indices
        return function(call.row.fun, args, dict(call.kwargs), call.compute), ends
    return call.compute(*args, **call.kwargs), ends


def _numbered(argument, numbers):
    """Return an argument with element ids in place of its operands, and 0 in place of float constants."""
    if type(argument) is Operand:
        return numbers[argument.position]
    if type(argument) in (list, tuple) and any(type(item) is Operand for item in argument):
        return type(argument)(
            [_numbered(item, numbers) if type(item) is Operand else np.zeros(np.shape(item), int) for item in argument]
        )
    if isinstance(argument, np.ndarray) and argument.dtype.kind in "fc":
        return np.zeros(argument.shape, dtype=np.intp)
    return argument


def _cotangent(call, j, ybar, y, args, operands):
    position, item = place_in(call.args, j)
    if call.row.kind == "custom":
        position, item = 0, position
    if holds_complex((y, args)):
        adjoints = local_derivatives.Adjoints(call.row, ybar[None], y, args, call.kwargs)
        return summed_to(adjoints.of(position, item, np.shape(operands[j]))[0], np.shape(operands[j]))
    found = local_derivatives.pullback(call.row, position, ybar, y, args, call.kwargs)
    return summed_to(found if item < 0 else found[item], np.shape(operands[j]))


def place_in(args, j):
    """Return the argument position of operand j, and its position within a list argument, else -1."""
    for position, argument in enumerate(args):
        if type(argument) is Operand and argument.position == j:
            return position, -1
        if type(argument) in (list, tuple):
            for item, part in enumerate(argument):
                if type(part) is Operand and part.position == j:
                    return position, item
    raise LookupError(j)


def pushforward(call, moved, directions, y, operands):
    """Return the tangent of a call's result, from the tangents of the operands `moved`."""
    args = [filled(argument, operands) for argument in call.args]
    sources = []
    for j, t in zip(moved, directions):
        position, item = place_in(call.args, j)
        position, item = (0, position) if call.row.kind == "custom" else (position, item)
        sources.append((position, item, t[None]))
    index_map = None
    if call.row.kind in ("view", "rearrangement"):
        where, _ = _origins(call, moved, operands)
        sources = [(j, -1, t[None]) for j, t in zip(moved, directions)]
        index_map = lambda _: where
    t = forward.by_row(call.row, 1, args, call.kwargs, sources, y, index_map)[0]
    if holds_complex(t) and not holds_complex(y):
        raise no_complex_rule(call.row)
    return t if np.shape(t) == np.shape(y) else np.broadcast_to(t, np.shape(y))
