"""Calls of functions in second derivatives: tangents of results, and pullbacks of tangents, from the registry's rows.

Tangents carry k directions along a leading axis.
`operands` are the traced arguments as ``(position, item)``, `tangents` theirs in the same order, None for 0.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.core.pullback import independent, pull_back
from wengert.core.tape import Tape
from wengert.core.var import is_var
from wengert.registry import strong


def tangent_of_call(row, args, kwargs, operands, tangents, y):
    """Tangents of the result of a call: the sum over the operands that have some; None where they are 0."""
    total = None
    for operand, t in zip(operands, tangents):
        part = None if t is None else _tangent(row, args, kwargs, operand, t, y)
        if part is not None:
            total = part if total is None else total + part
    return total


def _tangent(row, args, kwargs, operand, t, y):
    position = operand[0]
    if row.kind == "elementwise":
        partial = row.partials[position]
        slope = partial(y, *args) if callable(partial) else partial
        return strong(np.reshape(t, t.shape[:1] + (1,) * (np.ndim(y) + 1 - t.ndim) + t.shape[1:]), slope)
    if position in row.jvps:
        return row.jvps[position](t, y, *args, **kwargs)
    if None in row.jvps:
        return row.jvps[None](position, t, y, *args, **kwargs)
    if row.kind == "linear":
        return _of_linear(row, args, kwargs, t)
    if row.curvature == "cross":
        return _product(row, args, kwargs, operand, t)
    return transposed(row, args, kwargs, operand, t, y)


def _of_linear(row, args, kwargs, t):
    """The function itself, of each direction; sums and means of all at once, with axes counted from the end."""
    if row.fun in (np.sum, np.mean) and len(args) <= 2 and kwargs.keys() <= {"axis", "keepdims"}:
        axis = args[1] if len(args) == 2 else kwargs.get("axis")
        axes = range(1, t.ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,)
        axes = tuple(i if i < 0 or axis is None else i + 1 for i in axes)
        return row.fun(t, **{**kwargs, "axis": axes}) if t.ndim > 1 else t
    return np.stack([row.fun(direction, *args[1:], **kwargs) for direction in t])


# ---- products of operands: linear in each of them alone


def argument(args, operand):
    position, item = operand
    return args[position] if item < 0 else args[position][item]


def replaced(args, operand, value):
    """The arguments with `value` in place of one of them."""
    position, item = operand
    args = list(args)
    if item < 0:
        args[position] = value
    else:
        args[position] = [*args[position][:item], value, *args[position][item + 1 :]]
    return args


def _product(row, args, kwargs, operand, t):
    """Tangents of a product: the product with one factor replaced by its tangent."""
    if is_matmul(row, args):
        return _matmul_tangent(*args[:2], operand[0], t)
    return np.stack([_strong_product(row.fun, args, kwargs, operand, direction) for direction in t])


def _strong_product(fun, args, kwargs, operand, t):
    """A product in which 0 times inf is 0: where nothing but a 0 met what is not finite, it is left out."""
    z = fun(*replaced(args, operand, t), **kwargs)
    if not np.isnan(np.sum(z)):
        return z

    def of(change, t_change):
        changed = [_changed(x, change) for x in args]
        return fun(*replaced(changed, operand, t_change(t)), **kwargs)

    spoiled = of(_present, _not_finite) + of(_not_finite, _present)
    return np.where(spoiled != 0, z, of(_finite, _finite))


def _changed(x, change):
    if isinstance(x, (list, tuple)) and x and isinstance(x[0], np.ndarray):
        return [_changed(item, change) for item in x]
    return change(x) if isinstance(x, (np.ndarray, np.floating)) else x


def _finite(x):
    return np.where(np.isfinite(x), x, 0.0)


def _not_finite(x):
    return np.where(np.isfinite(x), 0.0, 1.0)


def _present(x):
    return np.where(x == 0, 0.0, 1.0)


def pull_cross(row, args, kwargs, operands, tangents, g, y):
    """For each operand: its pullback of `g` with each other operand in turn replaced by its tangent."""
    totals = []
    for own in operands:
        total = None
        for other, t in zip(operands, tangents):
            if t is not None and other != own:
                part = _pulled(row, args, kwargs, own, other, t, g, y)
                total = part if total is None else total + part
        totals.append(total)
    return totals


def _pulled(row, args, kwargs, own, other, t, g, y):
    position, item = own
    if is_matmul(row, args):
        return _matmul_pulled(*args[:2], position, t, g)
    parts = [_pullback(row, position, g, y, replaced(args, other, direction), kwargs) for direction in t]
    return np.stack(parts if item < 0 else [part[item] for part in parts])


# ---- matrix products: one product for all directions


def is_matmul(row, args):
    """Is this a product of matrices or vectors, without batches?"""
    return row.fun in (np.matmul, np.linalg.matmul, np.dot) and all(1 <= np.ndim(x) <= 2 for x in args[:2])


def _matmul_tangent(a, b, position, t):
    """Tangents of ``a @ b``; stacked rows are one tall matrix."""
    if position == 0:
        rows = t.reshape(math.prod(t.shape[:-1]), t.shape[-1])
        return strong_matmul(rows, b).reshape(t.shape[:-1] + np.shape(b)[1:])
    return strong_matmul(t, np.transpose(a)) if np.ndim(b) == 1 else strong_matmul(a, t)


def _matmul_pulled(a, b, position, t, g):
    """The pullback of `g` with the tangents of the other operand in its place, which stack as matrices do."""
    column, line = np.ndim(b) == 1, np.ndim(a) == 1
    g = np.reshape(g, (1 if line else len(a), 1 if column else np.shape(b)[1]))
    if position == 0:
        z = strong_matmul(g, np.swapaxes(t[..., None] if column else t, -1, -2))
        return z[:, 0] if line else z
    z = strong_matmul(np.swapaxes(t[:, None, :] if line else t, -1, -2), g)
    return z[..., 0] if column else z


def strong_matmul(a, b):
    """a @ b in which 0 times inf is 0."""
    if a.shape[-1] == 1 and b.ndim > 1:
        return strong(a, b)
    z = np.matmul(a, b)
    if not np.isnan(np.sum(z)) or (np.isfinite(a).all() and np.isfinite(b).all()):
        return z
    spoiled = np.matmul(_not_finite(a), _present(b)) + np.matmul(_present(a), _not_finite(b))
    return np.where(spoiled != 0, z, np.matmul(_finite(a), _finite(b)))


# ---- any rule at all, recorded on a list of its own


def transposed(row, args, kwargs, operand, t, y):
    """Tangents of the result by transposing the pullback: the rule, linear in its cotangent, is pulled back itself."""
    position, item = operand
    tape = Tape(f"the tangent of {row.name}")
    try:
        ybar = independent(tape, np.zeros_like(y)[()])
        c = _pullback(row, position, ybar, y, args, kwargs)
        c = c if item < 0 else c[item]
        if not is_var(c):
            return None
        return pull_back(tape, [ybar], [np.broadcast_to(c, t.shape[1:])], [t], len(t), True, True)[0]
    finally:
        tape.close()


def recorded_pullbacks(row, args, kwargs, operands, tangents, g, y, y_tangent):
    """The pullbacks of `g`, as functions of what has a tangent: a tape, its inputs, their tangents, the cotangents."""
    tape = Tape(f"the second derivative of {row.name}")
    inputs = []
    moving = []

    def traced(value, t):
        if t is None:
            return value
        inputs.append(independent(tape, value))
        moving.append(t)
        return inputs[-1]

    y = traced(y, y_tangent)
    for operand, t in zip(operands, tangents):
        if t is not None:
            args = replaced(args, operand, traced(argument(args, operand), t))
    try:
        found = {}
        outputs = []
        for position, item in operands:
            if position not in found:
                found[position] = _pullback(row, position, g, y, args, kwargs)
            outputs.append(found[position] if item < 0 else found[position][item])
    except BaseException:
        tape.close()
        raise
    return tape, inputs, moving, outputs


def _pullback(row, position, ybar, y, args, kwargs):
    if row.kind == "elementwise":
        partial = row.partials[position]
        return strong(ybar, partial(y, *args) if callable(partial) else partial)
    if row.variadic is not None:
        return row.variadic(position, ybar, y, *args, **kwargs)
    return row.vjps[position](ybar, y, *args, **kwargs)
