"""Functions that combine many elements into one: sums, products, extremes, moments, running sums.

A pullback puts the reduced axes back with length 1 and leaves the broadcasting to the engine.
Products are exact with any number of zeros: nothing is divided by an element.
"""

from __future__ import annotations

import numpy as np

from wengert.registry import linear, strong, structural, ufunc_methods
from wengert.rules.broadcasting import from_end, length, restore

# ufunc.reduce reduces axis 0 where the function, without an axis, reduces them all: the engine fills it in
ufunc_methods.update(
    {
        (np.add, "reduce"): np.sum,
        (np.multiply, "reduce"): np.prod,
        (np.maximum, "reduce"): np.max,
        (np.minimum, "reduce"): np.min,
        (np.add, "accumulate"): np.cumsum,
        (np.multiply, "accumulate"): np.cumprod,
    }
)

# ---- sums and means


def sum_transpose(ybar, a, axis=None, dtype=None, out=None, keepdims=False):
    return restore(ybar, a, axis, keepdims)


def mean_transpose(ybar, a, axis=None, dtype=None, out=None, keepdims=False):
    return restore(ybar, a, axis, keepdims) / length(a, axis)


linear(np.sum, sum_transpose, stacked=True)
linear(np.mean, mean_transpose, stacked=True)


def nansum_wrt_array(ybar, y, a, axis=None, dtype=None, out=None, keepdims=False):
    return np.where(np.isnan(a), 0, restore(ybar, a, axis, keepdims))


def nanmean_wrt_array(ybar, y, a, axis=None, dtype=None, out=None, keepdims=False):
    """1 / (number of numbers) where there is one."""
    is_number = ~np.isnan(a)
    count = np.sum(is_number, axis=axis, keepdims=True, dtype=y.dtype)
    return np.where(is_number, restore(ybar, a, axis, keepdims) / count, 0)


structural(np.nansum, nansum_wrt_array, stacked=True, curvature="none")
structural(np.nanmean, nanmean_wrt_array, stacked=True, curvature="none")

# ---- products


def shifted_products(a):
    """Products of all earlier elements along the last axis."""
    return np.cumprod(np.concatenate([np.ones_like(a[..., :1]), a[..., :-1]], axis=-1), axis=-1)


def products_of_others(a):
    """Product of all other elements along the last axis, without dividing."""
    return shifted_products(a) * np.flip(shifted_products(np.flip(a, -1)), -1)


def reduced_last(a, axis):
    """`a` with the reduced axes flattened into a last one, and the function that undoes it."""
    axes = from_end(axis, np.ndim(a))
    ends = tuple(range(-len(axes), 0))
    moved = np.moveaxis(a, axes, ends)
    kept = moved.shape[: moved.ndim - len(axes)]

    def undo(z):
        return np.moveaxis(np.reshape(z, moved.shape), ends, axes)

    return np.reshape(moved, (*kept, length(a, axis))), undo


def prod_wrt_array(ybar, y, a, axis=None, dtype=None, out=None, keepdims=False):
    flat, undo = reduced_last(a, axis)
    return strong(restore(ybar, a, axis, keepdims), undo(products_of_others(flat)))


structural(np.prod, prod_wrt_array, stacked=True)

# ---- extremes: what ties, shares


def extreme_share(a, extreme, axis):
    """1/k for each of the k elements that equal the extreme; NaN where the extreme is NaN."""
    is_extreme = np.equal(a, extreme)
    count = np.sum(is_extreme, axis=axis, keepdims=True, dtype=extreme.dtype)
    return np.where(np.isnan(extreme), extreme, is_extreme / count)


def extreme_wrt_array(ybar, y, a, axis=None, out=None, keepdims=False):
    extreme = restore(y, a, axis, keepdims)
    return strong(restore(ybar, a, axis, keepdims), extreme_share(a, extreme, axis))


for fun in (np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin):
    structural(fun, extreme_wrt_array, stacked=True, curvature="none")


def ptp_wrt_array(ybar, y, a, axis=None, out=None, keepdims=False):
    top, bottom = np.max(a, axis=axis, keepdims=True), np.min(a, axis=axis, keepdims=True)
    share = extreme_share(a, top, axis) - extreme_share(a, bottom, axis)
    return strong(restore(ybar, a, axis, keepdims), share)


structural(np.ptp, ptp_wrt_array, stacked=True, curvature="none")

# ---- moments


def deviations(a, axis, ddof, correction):
    """Deviations from the mean, and what the sum of their squares is divided by."""
    ddof = ddof if correction is np._NoValue else correction
    return a - np.mean(a, axis=axis, keepdims=True), max(length(a, axis) - ddof, 0)


def var_wrt_array(
    ybar, y, a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, correction=np._NoValue
):
    deviation, count = deviations(a, axis, ddof, correction)
    return strong(2 * restore(ybar, a, axis, keepdims), np.divide(deviation, count))


def std_wrt_array(
    ybar, y, a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, correction=np._NoValue
):
    """Deviation over (count y); like a norm it has a kink where all deviations are 0, and 0 there."""
    deviation, count = deviations(a, axis, ddof, correction)
    spread = restore(y, a, axis, keepdims)
    slope = np.where(spread == 0, 0, np.divide(deviation / spread, count))
    return strong(restore(ybar, a, axis, keepdims), slope)


structural(np.var, var_wrt_array, stacked=True)
structural(np.std, std_wrt_array, stacked=True)


def average_wrt_array(ybar, y, a, axis=None, weights=None, *, keepdims=False):
    ybar = restore(ybar, a, axis, keepdims)
    if weights is None:
        return ybar / length(a, axis)
    weights = laid_along(weights, a, axis)
    return strong(ybar, weights / np.sum(weights, axis=axis, keepdims=True))


def average_wrt_weights(ybar, y, a, axis=None, weights=None, *, keepdims=False):
    laid = laid_along(weights, a, axis)
    total = np.sum(np.broadcast_to(laid, np.shape(a)), axis=axis, keepdims=True)
    slope = (a - restore(y, a, axis, keepdims)) / total
    product = strong(restore(ybar, a, axis, keepdims), slope)
    if np.shape(weights) == np.shape(a):
        return product
    (along,) = from_end(axis, np.ndim(a))
    others = tuple(i for i in range(-np.ndim(a), 0) if i != along)
    return np.sum(product, axis=others)


def laid_along(weights, a, axis):
    """Weights of one axis, shaped to broadcast against `a`."""
    if np.shape(weights) == np.shape(a):
        return weights
    (along,) = from_end(axis, np.ndim(a))
    return np.reshape(weights, [1] * (np.ndim(a) + along) + [-1] + [1] * (-along - 1))


structural(np.average, average_wrt_array, None, average_wrt_weights, stacked=True)

# ---- running sums and products, differences


def flat_if_none(ybar, a, axis):
    """Operand and axis of a running operation: without an axis it runs over the flattened array."""
    return (np.ravel(a), -1) if axis is None or np.ndim(a) == 0 else (a, from_end(axis, np.ndim(a))[0])


def reverse_cumsum(z, axis):
    return np.flip(np.cumsum(np.flip(z, axis), axis=axis), axis)


def cumsum_transpose(ybar, a, axis=None, dtype=None, out=None):
    flat, axis = flat_if_none(ybar, a, axis)
    lead = np.shape(ybar)[: np.ndim(ybar) - np.ndim(flat)]
    return np.reshape(reverse_cumsum(ybar, axis), lead + np.shape(a))


def backward_recurrence(a, b):
    """s with s[i] = b[i] + a[i + 1] s[i + 1] along the last axis, in log2(n) steps.

    After each step s[i] holds the terms of twice as many successors.
    """
    n = np.shape(a)[-1]
    factor = np.concatenate([a[..., 1:], np.zeros_like(a[..., :1])], axis=-1)
    step = 1
    while step < n:
        b = np.concatenate(
            [b[..., :-step] + strong(b[..., step:], factor[..., :-step]), b[..., -step:]], axis=-1
        )
        tail = np.zeros_like(factor[..., -step:])
        factor = np.concatenate([strong(factor[..., :-step], factor[..., step:]), tail], axis=-1)
        step *= 2
    return b


def cumprod_wrt_array(ybar, y, a, axis=None, dtype=None, out=None):
    """Products of the earlier elements, times the cotangents that later products send back."""
    flat, axis = flat_if_none(ybar, a, axis)
    lead = np.shape(ybar)[: np.ndim(ybar) - np.ndim(flat)]
    line, g = np.moveaxis(flat, axis, -1), np.moveaxis(ybar, axis, -1)
    z = strong(backward_recurrence(line, g), shifted_products(line))
    return np.reshape(np.moveaxis(z, -1, axis), lead + np.shape(a))


linear(np.cumsum, cumsum_transpose, stacked=True)
structural(np.cumprod, cumprod_wrt_array, stacked=True)


def without_initial(ybar, a, axis, include_initial):
    """Cotangent of the running result without its leading constant."""
    if not include_initial:
        return ybar
    axis = -1 if axis is None or np.ndim(a) == 0 else from_end(axis, np.ndim(a))[0]
    n = np.shape(ybar)[axis]
    return np.take(ybar, np.arange(1, n), axis=axis)


def cumulative_sum_transpose(ybar, x, axis=None, dtype=None, out=None, include_initial=False):
    return cumsum_transpose(without_initial(ybar, x, axis, include_initial), x, axis)


def cumulative_prod_wrt_array(ybar, y, x, axis=None, dtype=None, out=None, include_initial=False):
    return cumprod_wrt_array(without_initial(ybar, x, axis, include_initial), y, x, axis)


if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    linear(np.cumulative_sum, cumulative_sum_transpose, stacked=True)
    structural(np.cumulative_prod, cumulative_prod_wrt_array, stacked=True)


def diff_transpose(ybar, a, n=1, axis=-1):
    """n times the negative difference, with a zero put at both ends."""
    (axis,) = from_end(axis, np.ndim(a))
    for _ in range(n):
        edge = np.zeros(one_slice(ybar, axis), dtype=ybar.dtype)
        ybar = -np.diff(np.concatenate([edge, ybar, edge], axis=axis), axis=axis)
    return ybar


def one_slice(z, axis):
    """Shape of `z` with length 1 along `axis`."""
    shape = list(np.shape(z))
    shape[axis] = 1
    return tuple(shape)


linear(np.diff, diff_transpose, stacked=True)
