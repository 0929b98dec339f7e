"""Local derivatives of one recorded call, from its registry row: partials, pullbacks, adjoints of complex calls.

All functions work on plain arrays and on operands of an enclosing level, since they use NumPy functions only.
The leading axis of tangents and cotangents runs over the directions.
Adjoints of complex values are with respect to the real inner product Re(sum(conj(a) b)).
"""

from __future__ import annotations

import numpy as np

from wengert.registry import strong


def transposed(linear, name, y, t, values):
    """Apply the transpose of a linear function to `t` (`wengert.core.hooks` supplies the implementation)."""
    raise NotImplementedError


def partial(row, i, y, args):
    """Partial derivative with respect to one operand: a scalar or an array."""
    found = row.partials[i]
    if not callable(found):
        return found
    with np.errstate(all="ignore"):
        return found(y, *args)


def times(t, p):
    return t if type(p) is float and p == 1.0 else strong(t, p)


def aligned(t, y):
    """Insert axes of length 1 after the axis of directions, so that tangents broadcast with the shape of `y`."""
    shape = np.shape(t)
    missing = np.ndim(y) - (len(shape) - 1)
    return np.reshape(t, shape[:1] + (1,) * missing + shape[1:]) if missing > 0 else t


def total(parts, y):
    """Sum of tangents, each broadcast to the shape of `y`."""
    found = aligned(parts[0], y)
    for part in parts[1:]:
        found = found + aligned(part, y)
    return found


def elementwise(row, y, args, sources):
    """Tangents of `y`: the sum over the operands of tangent times partial."""
    return total([times(aligned(t, y), partial(row, i, y, args)) for i, _, t in sources], y)


def pullback(row, position, ybar, y, args, kwargs):
    """Cotangent of the operand at a position, or of all items if it is a sequence."""
    if row.kind == "elementwise":
        return times(ybar, partial(row, position, y, args))
    if row.variadic is not None:
        return row.variadic(position, ybar, y, *args, **kwargs)
    return row.vjps[position](ybar, y, *args, **kwargs)


class Adjoints:
    """Cotangents of the operands of a call with complex values; the caller silences floating-point warnings.

    A rule that also holds for complex operands multiplies tangents by complex partials; its adjoint multiplies
    cotangents by their conjugates.
    """

    def __init__(self, row, ybar, y, args, kwargs):
        self.row, self.ybar, self.y, self.args, self.kwargs = row, ybar, y, args, kwargs
        self._conjugate = None
        self._known: dict = {}  # by position: cotangents of all items of a sequence

    def of(self, position, item, shape):
        """Cotangent of one operand of the given shape; it may be complex although the operand is real."""
        row = self.row
        if type(row.on_complex) is dict:
            return self._declared(position)
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
        """Apply the pullback for real operands: an array, or a list with one item per direction if not stacked."""
        if self._conjugate is None:
            self._conjugate = np.conj(self.ybar)
        rest = (self.y, self.args, self.kwargs)
        if self.row.stacked:
            return pullback(self.row, position, self._conjugate, *rest)
        return [pullback(self.row, position, ybar, *rest) for ybar in self._conjugate]

    def _declared(self, position):
        """Cotangent by the row's complex pullback, or by transposing its complex tangent rule."""
        row, y, args, kwargs = self.row, self.y, self.args, self.kwargs
        if position in row.adjoints:
            return row.adjoints[position](self.ybar, y, *args, **kwargs)
        x = args[position]

        def of_tangent(t):
            return row.on_complex[position](t[None], y, *args, **kwargs)[0]

        values = (y, self.ybar, args, tuple(kwargs.values()))
        return transposed(of_tangent, row.name, x, self.ybar, values)
