"""Forward mode by registry rows: computes the tangents of a call's result from the tangents of its operands.

All functions work on plain arrays and on operands of an enclosing level, since they use NumPy functions only.
The leading axis of tangents runs over the directions.
A row needs no ``jvp``: tangents then follow from its partials, its linearity, or the transpose of its pullback.
"""

from __future__ import annotations

import numpy as np

from wengert.core import levels
from wengert.core.operands.var import holds_traced
from wengert.core.tape.local_derivatives import elementwise, pullback, times, total
from wengert.core.tape.tape import holds_complex
from wengert.deferred import deferred

nan_check = deferred("wengert.core.dispatch.nan_check")
nested = deferred("wengert.core.modes.nested")


def tangent(row, k, args, kwargs, sources, y, index_map=None):
    """Tangents of the result `y` of a row; `sources` are ``(position, item, tangents)`` of the traced operands."""
    if not k or not np.size(y):
        return np.zeros((k, *np.shape(y)), dtype=y.dtype)
    if not levels.is_watched():
        return by_row(row, k, args, kwargs, sources, y, index_map)
    with nan_check.rule(nan_check.place(row.name)):
        found = by_row(row, k, args, kwargs, sources, y, index_map)
        nan_check.check_tangent(found)
        return found


def by_row(row, k, args, kwargs, sources, y, index_map):
    """Tangents by whichever rule the row has."""
    with np.errstate(all="ignore"):
        if index_map is not None:
            return rearranged(index_map, k, sources, y)
        if type(row.on_complex) is dict and (holds_complex(y) or holds_complex(args)):
            return total([pushed_complex(row, position, t, args, kwargs, y) for position, _, t in sources], y)
        if row.kind == "elementwise":
            return elementwise(row, y, args, sources)
        if row.sequence and 0 in row.jvps:
            return of_sequence(row, k, args, kwargs, sources, y)
        return total([pushed(row, (position, item), t, args, kwargs, y) for position, item, t in sources], y)


def rearranged(index_map, k, sources, y):
    """Tangents of a result whose elements are elements of the operands, or constants."""
    where = np.ravel(index_map(None))
    columns = [np.reshape(t, (k, -1)) for _, _, t in sources]
    if not where.min():
        columns.insert(0, np.zeros((k, 1), dtype=y.dtype))
    else:
        where = where - 1
    lined = np.concatenate(columns, axis=1) if len(columns) > 1 else columns[0]
    return np.reshape(np.take(lined, where, axis=1), (k, *np.shape(y)))


def pushed(row, operand, t, args, kwargs, y):
    """Tangents of the result from the tangents of one operand, given as ``(position, item)``."""
    position = operand[0]
    if position in row.jvps:
        return row.jvps[position](t, y, *args, **kwargs)
    if None in row.jvps:
        return row.jvps[None](position, t, y, *args, **kwargs)
    if row.kind == "linear":
        return each(t, lambda direction: row.fun(direction, *args[1:], **kwargs))
    if row.curvature == "cross":
        return each(t, lambda direction: strong_product(row.fun, args, kwargs, operand, direction))
    return transposed(row, operand, t, args, kwargs, y)


def each(t, function):
    """Apply a function to each direction in turn."""
    found = [function(direction) for direction in t]
    return found[0][None] if len(found) == 1 else np.stack(found)


def of_sequence(row, k, args, kwargs, sources, y):
    """Tangents by a rule that takes the tangents of all items of a sequence at once."""
    items = args if row.kind == "custom" else args[0]
    tangents = [np.zeros((k, *np.shape(x)), dtype=getattr(x, "dtype", float)) for x in items]
    for _, item, t in sources:
        tangents[item] = t
    return row.jvps[0](tangents, y, *args, **kwargs)


def transposed(row, operand, t, args, kwargs, y):
    """Tangents by transposing the pullback, which is linear in the cotangent."""
    position, item = operand

    def of_cotangent(ybar):
        found = pullback(row, position, ybar, y, args, kwargs)
        return found if item < 0 else found[item]

    values = (y, t, args, tuple(kwargs.values()))
    if holds_complex((y, args)):  # conjugate twice: the transpose needed here is without conjugation
        return np.conj(nested.transposed(of_cotangent, row.name, y, np.conj(t), values))
    if row.kind != "custom" or holds_traced(values):
        return nested.transposed(of_cotangent, row.name, y, t, values)
    with levels.caught(TypeError):  # the rule calls compiled code: evaluate its matrix row by row instead
        return nested.transposed(of_cotangent, row.name, y, t, values)
    units = np.reshape(np.eye(np.size(y), dtype=y.dtype), (np.size(y), *np.shape(y)))
    rows = [np.broadcast_to(of_cotangent(unit[()]), t.shape[1:]) for unit in units]
    found = np.stack([np.sum(times(t, r), axis=tuple(range(1, t.ndim))) for r in rows], axis=-1)
    return np.reshape(found, (len(t), *np.shape(y)))


# ---- complex values


def pushed_complex(row, position, t, args, kwargs, y):
    """Tangents of the result by the row's rules for complex operands."""
    if position in row.on_complex:
        return row.on_complex[position](t, y, *args, **kwargs)

    def of_cotangent(ybar):
        return row.adjoints[position](ybar, y, *args, **kwargs)

    return nested.transposed(of_cotangent, row.name, y, t, (y, t, args, tuple(kwargs.values())))


# ---- functions that are linear in each operand


def place(row, operand):
    """Position of an operand in `args`, which for a custom row are the items themselves."""
    return (operand[1], -1) if row.kind == "custom" else operand


def argument(args, operand):
    position, item = operand
    return args[position] if item < 0 else args[position][item]


def replaced(args, operand, value):
    """The arguments with one of them replaced by `value`."""
    position, item = operand
    args = list(args)
    if item < 0:
        args[position] = value
    else:
        args[position] = [*args[position][:item], value, *args[position][item + 1 :]]
    return args


def strong_product(fun, args, kwargs, operand, t):
    """Apply a function to a tangent instead of an operand, so that 0 times an infinite or NaN factor is 0."""
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
    return change(x) if isinstance(x, (np.ndarray, np.inexact)) else x


def _finite(x):
    return np.where(np.isfinite(x), x, 0.0)


def _not_finite(x):
    return np.where(np.isfinite(x), 0.0, 1.0)


def _present(x):
    return np.where(x == 0, 0.0, 1.0)
