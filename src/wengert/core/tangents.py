"""Forward mode by the rows of the registry: tangents of a result from those of the operands.

Everything here works on plain arrays, and on operands of a level around: the functions are NumPy's.
Tangents have a leading axis of directions.
Only partials, linear functions and pullbacks are needed; a row's own ``jvp`` is taken where there is one.
"""

from __future__ import annotations

import numpy as np

from wengert.core import levels, nested, watch
from wengert.registry import strong


def tangent(row, k, args, kwargs, sources, y, index_map=None):
    """Tangents of the result `y` of a row; `sources` are ``(position, item, tangents)`` of the traced operands."""
    if not levels.is_watched():
        return by_row(row, k, args, kwargs, sources, y, index_map)
    with watch.rule(watch.place(row.name)):
        found = by_row(row, k, args, kwargs, sources, y, index_map)
        watch.check_tangent(found)
        return found


def by_row(row, k, args, kwargs, sources, y, index_map):
    """The rule of the row's kind."""
    with np.errstate(all="ignore"):
        if index_map is not None:
            return rearranged(index_map, k, sources, y)
        if row.kind == "elementwise":
            return elementwise(row, y, args, sources)
        if row.sequence:
            return of_sequence(row, k, args, kwargs, sources, y)
        return total([pushed(row, position, t, args, kwargs, y) for position, _, t in sources], y)


def elementwise(row, y, args, sources):
    """Sum over the operands of tangent times partial."""
    return total([times(aligned(t, y), partial(row, i, y, args)) for i, _, t in sources], y)


def partial(row, i, y, args):
    """Partial in one operand, which may be a number."""
    found = row.partials[i]
    if not callable(found):
        return found
    with np.errstate(all="ignore"):
        return found(y, *args)


def times(t, p):
    return t if type(p) is float and p == 1.0 else strong(t, p)


def aligned(t, y):
    """Tangents with axes of length 1 behind that of the directions, to broadcast with the shape of `y`."""
    shape = np.shape(t)
    missing = np.ndim(y) - (len(shape) - 1)
    return np.reshape(t, shape[:1] + (1,) * missing + shape[1:]) if missing > 0 else t


def total(parts, y):
    """Sum of the parts, each of which broadcasts to the shape of `y`."""
    found = aligned(parts[0], y)
    for part in parts[1:]:
        found = found + aligned(part, y)
    return found


def rearranged(index_map, k, sources, y):
    """Each element of the result is one of the operands' elements, or a constant."""
    where = np.ravel(index_map(None))
    columns = [np.reshape(t, (k, -1)) for _, _, t in sources]
    if len(where) and not where.min():
        columns.insert(0, np.zeros((k, 1), dtype=y.dtype))
    else:
        where = where - 1
    lined = np.concatenate(columns, axis=1) if len(columns) > 1 else columns[0]
    return np.reshape(np.take(lined, where, axis=1), (k, *np.shape(y)))


def pushed(row, position, t, args, kwargs, y):
    """Tangents of the result by those of one operand."""
    push = row.jvps.get(position)
    if push is not None:
        return push(t, y, *args, **kwargs)
    if None in row.jvps:
        return row.jvps[None](position, t, y, *args, **kwargs)
    if row.kind == "linear" or row.curvature == "cross":
        return applied(row.fun, position, t, args, kwargs)
    return transposed(row, position, t, args, kwargs, y)


def applied(fun, position, t, args, kwargs):
    """A function that is linear in one operand, of its tangents in place of the operand: one direction at a time."""
    before, after = args[:position], args[position + 1 :]
    found = [fun(*before, direction, *after, **kwargs) for direction in t]
    return found[0][None] if len(found) == 1 else np.stack(found)


def of_sequence(row, k, args, kwargs, sources, y):
    """The tangents of a row whose first argument is a sequence of operands."""
    items = list(args if row.kind == "custom" else args[0])
    tangents = [np.zeros((k, *np.shape(x)), dtype=getattr(x, "dtype", float)) for x in items]
    for _, item, t in sources:
        tangents[item] = t
    if 0 in row.jvps:
        return row.jvps[0](tangents, y, *args, **kwargs)
    if row.curvature == "none":
        return np.stack([row.fun([t[j] for t in tangents], *args[1:], **kwargs) for j in range(k)])
    parts = []
    for _, item, t in sources:
        if row.curvature == "cross":
            found = [row.fun([*items[:item], t[j], *items[item + 1 :]], *args[1:], **kwargs) for j in range(k)]
            parts.append(np.stack(found))
        else:
            parts.append(transposed(row, 0, t, args, kwargs, y, item))
    return total(parts, y)


def transposed(row, position, t, args, kwargs, y, item=None):
    """Tangents from the pullback alone: it is linear in the cotangent, and its transpose is the pushforward."""
    rule = row.variadic or row.vjps[position]
    args = (position, *args) if row.variadic else args

    def pullback(ybar):
        found = rule(*args[: bool(row.variadic)], ybar, y, *args[bool(row.variadic) :], **kwargs)
        return found if item is None else found[item]

    return nested.transposed(pullback, row.name, y, t, (args, tuple(kwargs.values())))
