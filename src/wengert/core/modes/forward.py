"""Forward mode by the rows of the registry: tangents of a result from those of the operands.

Everything here works on plain arrays, and on operands of a level around: the functions are NumPy's.
Tangents have a leading axis of directions.
Only partials, linear functions and pullbacks are needed; a row's own ``jvp`` is taken where there is one.
"""

from __future__ import annotations

import numpy as np

from wengert.core import levels
from wengert.core.dispatch import nan_check
from wengert.core.dispatch.dispatch import holds_complex
from wengert.core.modes import nested
from wengert.core.operands.var import holds_traced
from wengert.registry import strong


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
    """The rule of the row's kind."""
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
    if not where.min():
        columns.insert(0, np.zeros((k, 1), dtype=y.dtype))
    else:
        where = where - 1
    lined = np.concatenate(columns, axis=1) if len(columns) > 1 else columns[0]
    return np.reshape(np.take(lined, where, axis=1), (k, *np.shape(y)))


def pushed(row, operand, t, args, kwargs, y):
    """Tangents of the result by those of one operand, ``(position, item)``."""
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
    """A function of each direction in turn."""
    found = [function(direction) for direction in t]
    return found[0][None] if len(found) == 1 else np.stack(found)


def of_sequence(row, k, args, kwargs, sources, y):
    """Tangents by a row of its own for a sequence of operands, which takes those of all items at once."""
    items = args if row.kind == "custom" else args[0]
    tangents = [np.zeros((k, *np.shape(x)), dtype=getattr(x, "dtype", float)) for x in items]
    for _, item, t in sources:
        tangents[item] = t
    return row.jvps[0](tangents, y, *args, **kwargs)


def transposed(row, operand, t, args, kwargs, y):
    """Tangents from the pullback alone: it is linear in the cotangent, and its transpose is the pushforward."""
    position, item = operand

    def of_cotangent(ybar):
        found = pullback(row, position, ybar, y, args, kwargs)
        return found if item < 0 else found[item]

    values = (y, t, args, tuple(kwargs.values()))
    if holds_complex((y, args)):  # the pullback is linear: transposed, without conjugates
        return np.conj(nested.transposed(of_cotangent, row.name, y, np.conj(t), values))
    if row.kind != "custom" or holds_traced(values):
        return nested.transposed(of_cotangent, row.name, y, t, values)
    with levels.caught(TypeError):  # a rule that calls compiled code: a row of its matrix at a time
        return nested.transposed(of_cotangent, row.name, y, t, values)
    units = np.reshape(np.eye(np.size(y), dtype=y.dtype), (np.size(y), *np.shape(y)))
    rows = [np.broadcast_to(of_cotangent(unit[()]), t.shape[1:]) for unit in units]
    found = np.stack([np.sum(times(t, r), axis=tuple(range(1, t.ndim))) for r in rows], axis=-1)
    return np.reshape(found, (len(t), *np.shape(y)))


def pullback(row, position, ybar, y, args, kwargs):
    """Cotangent of the operand at a position (of all items of a sequence there), by the row."""
    if row.kind == "elementwise":
        return times(ybar, partial(row, position, y, args))
    if row.variadic is not None:
        return row.variadic(position, ybar, y, *args, **kwargs)
    return row.vjps[position](ybar, y, *args, **kwargs)


# ---- complex values


def pushed_complex(row, position, t, args, kwargs, y):
    """Tangents of the result where the row has rules of its own for complex operands."""
    if position in row.on_complex:
        return row.on_complex[position](t, y, *args, **kwargs)

    def of_cotangent(ybar):
        return row.adjoints[position](ybar, y, *args, **kwargs)

    return nested.transposed(of_cotangent, row.name, y, t, (y, t, args, tuple(kwargs.values())))


class Adjoints:
    """Cotangents of the operands of a call in which there are complex values; those of directions lead.

    They belong to the pairing Re(sum(conj(a) b)), and are asked for where warnings are off.
    Where a rule is right for complex operands its derivative is the multiplication by complex partials, and the adjoint
    of that is the multiplication by their conjugates.
    """

    def __init__(self, row, ybar, y, args, kwargs):
        self.row, self.ybar, self.y, self.args, self.kwargs = row, ybar, y, args, kwargs
        self._conjugate = None
        self._known: dict = {}  # by position: those of all items of a sequence

    def of(self, position, item, shape):
        """That of one operand, which has this shape; it may be complex where the operand is real."""
        row = self.row
        if type(row.on_complex) is dict:
            return self._declared(position, shape)
        if row.kind == "elementwise":
            p = row.partials[position]
            return times(self.ybar, np.conj(p(self.y, *self.args)) if callable(p) else p)
        if position not in self._known:
            self._known[position] = self._pulled(position)
        found = self._known[position]
        if row.stacked:
            return np.conj(found if item < 0 else found[item])
        return np.stack([np.broadcast_to(np.conj(c if item < 0 else c[item]), shape) for c in found])

    def _pulled(self, position):
        """By the rule for real operands; of a row that takes no directions a list of them."""
        if self._conjugate is None:
            self._conjugate = np.conj(self.ybar)
        rest = (self.y, self.args, self.kwargs)
        if self.row.stacked:
            return pullback(self.row, position, self._conjugate, *rest)
        return [pullback(self.row, position, ybar, *rest) for ybar in self._conjugate]

    def _declared(self, position, shape):
        """By the row's pullbacks for complex operands, or the transpose of its tangents for them."""
        row, y, args, kwargs = self.row, self.y, self.args, self.kwargs
        if position in row.adjoints:
            return row.adjoints[position](self.ybar, y, *args, **kwargs)
        x = args[position]

        def of_tangent(t):
            return row.on_complex[position](t[None], y, *args, **kwargs)[0]

        values = (y, self.ybar, args, tuple(kwargs.values()))
        return nested.transposed(of_tangent, row.name, x, self.ybar, values)


# ---- functions that are linear in each operand alone


def place(row, operand):
    """Where an operand stands among the arguments: those of a custom row are the items themselves."""
    return (operand[1], -1) if row.kind == "custom" else operand


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


def strong_product(fun, args, kwargs, operand, t):
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
    return change(x) if isinstance(x, (np.ndarray, np.inexact)) else x


def _finite(x):
    return np.where(np.isfinite(x), x, 0.0)


def _not_finite(x):
    return np.where(np.isfinite(x), 0.0, 1.0)


def _present(x):
    return np.where(x == 0, 0.0, 1.0)
