"""Vector and matrix norms.

The derivative of a norm is 0 where the norm is 0, and elements that tie for a maximum or minimum share it equally.
For complex operands it is the g with d|x| = Re(sum(conj(g) dx)).
"""

from __future__ import annotations

import numpy as np

from wengert.dependence import MATRIXWISE, Reduced
from wengert.registry import facts, strong
from wengert.rules import taylor
from wengert.rules.reductions import by_slope, extreme_share
from wengert.rules.shapes import from_end, moved_axis, ndim_of, reshaped, restore, shape_of
from wengert.rules.spectra import is_null

# ---- slopes


def unit(x, size):
    """Return x / size, and 0 where size is 0: the subgradient chosen at the origin."""
    if type(size) is np.float64:
        return x / size if size != 0 else np.zeros_like(x)
    return np.where(np.equal(size, 0), 0, x / size)


def sign(x):
    """Return x / |x|, and 0 for 0."""
    return unit(x, np.abs(x)) if x.dtype.kind == "c" else np.sign(x)


def vector_slope(x, size, order, axis):
    """Derivative of the vector p-norm, sign(x) (|x| / norm)^(p-1)."""
    if order is None or order == 2:
        return unit(x, size)
    if order == 1:
        return sign(x)
    if np.isinf(order):
        return strong(sign(x), extreme_share(np.abs(x), size, axis))
    if order == 0:
        return np.zeros_like(x)
    slope = strong(sign(x), np.power(unit(np.abs(x), size), order - 1))
    return np.where(np.equal(size, 0), 0, slope)


def matrix_slope(x, order):
    """Derivative of a matrix norm over the last two axes: U w V^H, or signs in the extreme row or column."""
    if order in (1, -1):
        return sums_slope(x, -2, order)
    if np.isinf(float("nan") if isinstance(order, str) else order):
        return sums_slope(x, -1, order)
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    weight = np.ones_like(s) if order == "nuc" else extreme_shares(s, order)
    return np.matmul(np.where(is_null(s), 0, weight)[..., None, :] * u, vh)


def sums_slope(x, axis, order):
    """Derivative of the largest (or, for order < 0, smallest) sum of absolute values along an axis."""
    sums = np.sum(np.abs(x), axis=axis)
    return strong(sign(x), np.expand_dims(extreme_shares(sums, order), axis))


def extreme_shares(values, order):
    """Return the shares of the largest values, or of the smallest if the order is negative."""
    extreme = np.min if order < 0 else np.max
    return extreme_share(values, extreme(values, axis=-1, keepdims=True), -1)


def norm_slope(y, x, ord=None, axis=None, keepdims=False):
    axes = from_end(axis, ndim_of(x))
    if 0 in shape_of(x):  # the largest of no singular values or sums is undefined
        slope = np.zeros_like(x)
    elif len(axes) != 2 or ord is None or ord in ("fro", "f"):
        is_flat = len(axes) != 1 or ord is None
        slope = vector_slope(x, restore(y, x, axis, keepdims), None if is_flat else ord, axis)
    else:
        slope = moved_axis(matrix_slope(moved_axis(x, axes, (-2, -1)), ord), (-2, -1), axes)
    return slope, axis, keepdims


# ---- rows


def vector_norm_slope(y, x, *, axis=None, keepdims=False, ord=2):
    return vector_slope(x, restore(y, x, axis, keepdims), ord, axis), axis, keepdims


def norms_of_batch(x, ord=None, axis=None, keepdims=False):
    """Return the norm of all elements of each item of a batch; None for other norms."""
    if ord is not None or axis is not None or keepdims:
        return None
    x = reshaped(x, (len(x), -1))
    return np.sqrt(np.sum(np.square(x) if x.dtype.kind != "c" else x.real**2 + x.imag**2, axis=1))


by_slope(np.linalg.norm, norm_slope, is_real=True, batching=norms_of_batch, scalars="norm")
by_slope(np.linalg.vector_norm, vector_norm_slope, is_real=True)
facts(np.linalg.norm, dependence=Reduced(2), taylor=taylor.norm, continuous=True, replayed=True)
facts(np.linalg.vector_norm, dependence=Reduced(None), taylor=taylor.norm, continuous=True)
by_slope(
    np.linalg.matrix_norm,
    lambda y, x, *, keepdims=False, ord="fro": norm_slope(y, x, ord, (-2, -1), keepdims),
    is_real=True,
    dependence=MATRIXWISE,
)
