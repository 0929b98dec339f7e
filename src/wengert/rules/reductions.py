"""Reductions and scans: sums, products, maxima and minima, moments, cumulative sums, differences, traces.

A pullback restores the reduced axes with length 1 and leaves broadcasting to the engine.
Where y is the sum of elements times a slope, tangents and cotangents share the slope.
Products are exact for any number of zeros: nothing is divided by an element.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from wengert.dependence import Cumulative, Reduced
from wengert.features import has_cumulative
from wengert.registry import facts, linear, strong, structural, ufunc_methods
from wengert.rules import expansions, taylor
from wengert.rules.broadcasting import aligned, conjugate, is_given, masked, sum_reduced
from wengert.rules.composed import as_array
from wengert.rules.shapes import (
    averaged,
    exclusive_products,
    flipped,
    from_end,
    is_kept,
    lead_shape,
    leading,
    length,
    moved_axis,
    ndim_of,
    raveled,
    reshaped,
    restore,
    shape_of,
    unbroadcast,
)

# ufunc.reduce defaults to axis=0 and the function to all axes: the engine supplies axis=0
ufunc_methods.update(
    {
        (np.add, "reduce"): np.sum,
        (np.multiply, "reduce"): np.prod,
        (np.maximum, "reduce"): np.max,
        (np.minimum, "reduce"): np.min,
        (np.fmax, "reduce"): np.nanmax,
        (np.fmin, "reduce"): np.nanmin,
        (np.logical_and, "reduce"): np.all,
        (np.logical_or, "reduce"): np.any,
        (np.add, "accumulate"): np.cumsum,
        (np.multiply, "accumulate"): np.cumprod,
    }
)

# ---- sums and means


def sum_transpose(ybar, a, axis=None, dtype=None, out=None, keepdims=False, initial=0, where=True):
    return masked(restore(ybar, a, axis, keepdims), where)


def push_sum(t, y, a, axis=None, dtype=None, out=None, keepdims=False, initial=0, where=True):
    return sum_reduced(masked(t, where), a, axis, keepdims)


def count_of(a, axis, where=True):
    """Return the number of elements that enter a mean: a scalar, or with `where` an array with the axes kept."""
    if where is True or not is_given(where):
        return length(a, axis)
    return np.sum(np.broadcast_to(where, shape_of(a)), axis=axis, keepdims=True, dtype=a.dtype)


def mean_transpose(ybar, a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    return masked(restore(ybar, a, axis, keepdims) / count_of(a, axis, where), where)


def push_mean(t, y, a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    return sum_reduced(masked(t / count_of(a, axis, where), where), a, axis, keepdims)


linear(np.sum, sum_transpose, jvp=push_sum, batching=True, scalars="sum", dependence=Reduced(), taylor=taylor.total)
linear(np.mean, mean_transpose, jvp=push_mean, batching=True, scalars="mean", dependence=Reduced())


def is_counted(a, where):
    """Mask of the elements that are not NaN and not excluded by `where`."""
    return masked(~np.isnan(a), where, False)


def nansum_wrt_array(ybar, y, a, axis=None, dtype=None, out=None, keepdims=False, initial=0, where=True):
    return sum_transpose(ybar, a, axis, keepdims=keepdims, where=is_counted(a, where))


def push_nansum(t, y, a, axis=None, dtype=None, out=None, keepdims=False, initial=0, where=True):
    return push_sum(t, y, a, axis, keepdims=keepdims, where=is_counted(a, where))


def nanmean_wrt_array(ybar, y, a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    return mean_transpose(ybar, a, axis, keepdims=keepdims, where=is_counted(a, where))


def push_nanmean(t, y, a, axis=None, dtype=None, out=None, keepdims=False, *, where=True):
    return push_mean(t, y, a, axis, keepdims=keepdims, where=is_counted(a, where))


structural(np.nansum, nansum_wrt_array, jvp=(push_nansum,), curvature="none", dependence=Reduced())
structural(np.nanmean, nanmean_wrt_array, jvp=(push_nanmean,), curvature="none", dependence=Reduced())

# ---- slopes


def by_slope(fun, slope, is_real=False, **columns):
    """Declare a reduction to the sum of elements times a slope dy/da.

    ``slope(y, a, *args, **kwargs)`` returns the slope, the axis and keepdims. If the result `is_real` for complex
    elements too, dy is the real part of conj(slope) da.
    """

    def pull(ybar, y, a, *args, **kwargs):
        rate, axis, keepdims = slope(y, a, *args, **kwargs)
        return strong(restore(ybar, a, axis, keepdims), rate)

    def push(t, y, a, *args, **kwargs):
        rate, axis, keepdims = slope(y, a, *args, **kwargs)
        return sum_reduced(strong(t, conjugate(rate)).real if is_real else strong(t, rate), a, axis, keepdims)

    structural(fun, pull, jvp=(push,), **columns).signature = (1, slope)


# ---- products


def exclusive_cumprod(a):
    """Exclusive cumulative product along the last axis."""
    y = exclusive_products(a)
    if y is not None:
        return y
    return np.cumprod(np.concatenate([np.ones_like(a[..., :1]), a[..., :-1]], axis=-1), axis=-1)


def products_of_others(a):
    """Product of all other elements along the last axis, without division."""
    return exclusive_cumprod(a) * flipped(exclusive_cumprod(flipped(a, -1)), -1)


def reduced_last(a, axis):
    """Flatten the reduced axes of `a` into a last one; also return the inverse of this reshaping."""
    axes = from_end(axis, ndim_of(a))
    ends = tuple(range(-len(axes), 0))
    moved = a if axes == ends else moved_axis(a, axes, ends)
    kept = moved.shape[: moved.ndim - len(axes)]

    def undo(z):
        z = reshaped(z, moved.shape)
        return z if axes == ends else moved_axis(z, ends, axes)

    return reshaped(moved, (*kept, length(a, axis))), undo


def prod_slope(y, a, axis=None, dtype=None, out=None, keepdims=False, initial=1, where=True):
    flat, undo = reduced_last(masked(a, where, 1), axis)
    slope = masked(undo(products_of_others(flat)), where)
    return slope * initial if is_given(initial) else slope, axis, keepdims


by_slope(np.prod, prod_slope, scalars="prod", dependence=Reduced(), taylor=taylor.prod)
facts(np.prod, batching=True, continuous=True)

# ---- maxima and minima: ties share equally


def extreme_share(a, extreme, axis, initial=None, where=True):
    """Return 1/k at each of the k elements equal to the extreme (counting `initial`); NaN if the extreme is NaN."""
    is_extreme = masked(np.equal(a, extreme), where, False)
    if type(extreme) is np.float64 and type(is_extreme) is np.ndarray and not is_given(initial):
        count = np.count_nonzero(is_extreme)  # 0 if the extreme is NaN
        return is_extreme / np.float64(count) if count else np.full(is_extreme.shape, np.nan)
    count = np.sum(is_extreme, axis=axis, keepdims=True, dtype=extreme.dtype)
    if is_given(initial):
        count = count + np.equal(extreme, initial)
    return is_extreme / count  # 0 / 0 if the extreme is NaN


def extreme_slope(y, a, axis=None, out=None, keepdims=False, initial=None, where=True):
    return extreme_share(a, restore(y, a, axis, keepdims), axis, initial, where), axis, keepdims


for fun in (np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin):
    by_slope(fun, extreme_slope, curvature="none", dependence=Reduced())
facts(np.max, np.min, np.amax, np.amin, batching=True)
facts(np.max, np.amax, scalars="max")
facts(np.min, np.amin, scalars="min")


def combining(fun, combine, *neutral):
    """Declare that a reduction with a traced `initial` starts from the neutral element and is combined with it last.

    NumPy truncates the initial value of integers.
    """

    def combined(initial, a, *args, **kwargs):
        if ndim_of(initial):
            raise TypeError(f"numpy.{fun.__name__}: initial must be a scalar")
        if np.result_type(kwargs.get("dtype") or as_array(a).dtype).kind in "biu":
            y = fun(a, *args, **kwargs)
            return combine(y, np.trunc(initial)).astype(y.dtype)
        y = fun(a, *args, **kwargs, **dict(zip(("initial",), neutral)))
        return combine(y, initial).astype(y.dtype)

    facts(fun, options={"initial": combined})


combining(np.sum, np.add)
combining(np.nansum, np.add)
combining(np.prod, np.multiply)
for fun in (np.max, np.amax, np.nanmax):
    combining(fun, np.maximum, -np.inf)
for fun in (np.min, np.amin, np.nanmin):
    combining(fun, np.minimum, np.inf)


def ptp_slope(y, a, axis=None, out=None, keepdims=False):
    top, bottom = (restore(extreme(a, axis=axis), a, axis, False) for extreme in (np.max, np.min))
    return extreme_share(a, top, axis) - extreme_share(a, bottom, axis), axis, keepdims


by_slope(np.ptp, ptp_slope, curvature="none", dependence=Reduced())

# ---- moments


def mean_along(a, axis, where):
    """Return the mean with the axes kept."""
    return averaged(a, axis) if where is True else np.mean(a, axis=axis, keepdims=True, where=where)


def deviations(a, axis, ddof, correction, where):
    """Return the deviations from the mean and the divisor of the sum of squares."""
    ddof = ddof if correction is np._NoValue else correction
    mean = mean_along(a, axis, where)
    count = count_of(a, axis, where) - ddof
    return masked(a - mean, where), np.maximum(count, 0) if ndim_of(count) else max(count, 0)


def var_wrt_array(
    ybar, y, a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=np._NoValue
):
    deviation, count = deviations(a, axis, ddof, correction, where)
    return strong(2 * restore(ybar, a, axis, keepdims), np.divide(deviation, count))


def push_var(t, y, a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=np._NoValue):
    deviation, count = deviations(a, axis, ddof, correction, where)
    return 2 * sum_reduced(strong(t, conjugate(np.divide(deviation, count))).real, a, axis, keepdims)


def std_slope(y, a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=np._NoValue):
    """Return deviation / (count y), and 0 at the kink where all deviations are 0.

    The rounded mean may give equal elements tiny deviations, and a tiny y: subtracting the mean deviation cures that.
    """
    spread = restore(y, a, axis, keepdims)
    deviation, count = deviations(a, axis, ddof, correction, where)
    deviation = masked(deviation - mean_along(deviation, axis, where), where)
    if type(spread) is np.float64:
        slope = np.divide(deviation / spread, count) if spread != 0 else np.zeros_like(a)
    else:
        slope = np.where(spread == 0, 0, np.divide(deviation / spread, count))
    return slope, axis, keepdims


structural(np.var, var_wrt_array, jvp=(push_var,), scalars="var", taylor=taylor.variance)
by_slope(np.std, std_slope, is_real=True, scalars="std", taylor=taylor.deviation)
facts(np.var, np.std, batching=True, dependence=Reduced(), continuous=True)


def var_about(mean, a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, where=True, correction=np._NoValue):
    """Return the variance about a given mean."""
    ddof = ddof if correction is np._NoValue else correction
    deviation = as_array(a) - mean
    square = (deviation * conjugate(deviation)).real if deviation.dtype.kind == "c" else deviation * deviation
    count = count_of(square, axis, where) - ddof
    y = np.sum(square, axis=axis, dtype=dtype, keepdims=True, where=where) / np.maximum(count, 0)
    return y if is_kept(keepdims) else np.squeeze(y, axis=from_end(axis, ndim_of(square)))[()]


def std_about(mean, a, *args, **kwargs):
    """Return the standard deviation about a given mean, with slope 0 where it is 0."""
    y = var_about(mean, a, *args, **kwargs)
    is_zero = np.equal(y, 0)
    return np.where(is_zero, 0, np.sqrt(np.where(is_zero, 1, y)))[()]


facts(np.var, options={"mean": var_about})
facts(np.std, options={"mean": std_about})


def is_over_all(a, axis):
    return axis is None or (isinstance(axis, tuple) and len(axis) == ndim_of(a))


def total(a, axis, keepdims):
    """Return a sum; over all axes it is computed as a scalar and reshaped, since programs add up short rows slowly."""
    if not is_over_all(a, axis):
        return np.sum(a, axis=axis, keepdims=is_kept(keepdims))
    return np.reshape(np.sum(a), (1,) * ndim_of(a)) if is_kept(keepdims) else np.sum(a)


def summed_mean(a, axis=None, *, keepdims=False):
    """Mean by a sum, which programs fuse with the operations around it."""
    return total(a, axis, keepdims) / length(a, axis)


def summed_var(a, axis=None, *, ddof=0, keepdims=False):
    deviation = a - summed_mean(a, axis, keepdims=not is_over_all(a, axis))
    return total(np.square(deviation), axis, keepdims) / max(length(a, axis) - ddof, 0)


def summed_std(a, axis=None, *, ddof=0, keepdims=False):
    return np.sqrt(summed_var(a, axis, ddof=ddof, keepdims=keepdims))


facts(np.mean, body=summed_mean)
facts(np.var, body=summed_var)
facts(np.std, body=summed_std)


def average_wrt_array(ybar, y, a, axis=None, weights=None, *, keepdims=False):
    if weights is None:
        return mean_transpose(ybar, a, axis, keepdims=keepdims)
    return strong(restore(ybar, a, axis, keepdims), average_share(a, axis, weights))


def push_average(t, y, a, axis=None, weights=None, *, keepdims=False):
    if weights is None:
        return push_mean(t, y, a, axis, keepdims=keepdims)
    return sum_reduced(strong(t, average_share(a, axis, weights)), a, axis, keepdims)


def average_share(a, axis, weights):
    """Return the normalised weight of each element."""
    weights = broadcast_weights(weights, a, axis)
    return weights / np.sum(weights, axis=axis, keepdims=True)


def average_wrt_weights(ybar, y, a, axis=None, weights=None, *, keepdims=False):
    slope = weight_slope(restore(y, a, axis, keepdims), a, axis, weights)
    product = strong(restore(ybar, a, axis, keepdims), slope)
    if shape_of(weights) == shape_of(a):
        return product
    along = from_end(axis, ndim_of(a))
    others = tuple(i for i in range(-ndim_of(a), 0) if i not in along)
    lead = ndim_of(product) - ndim_of(a)
    product = np.sum(product, axis=others)  # leaves the axes of the weights, in the order of those of `a`
    order = np.argsort(np.argsort(along))
    return np.transpose(product, (*range(lead), *(lead + i for i in order)))


def push_average_weights(t, y, a, axis=None, weights=None, *, keepdims=False):
    slope = weight_slope(restore(y, a, axis, keepdims), a, axis, weights)
    return sum_reduced(strong(broadcast_weights(t, a, axis, leading(t, weights)), slope), a, axis, keepdims)


def weight_slope(mean, a, axis, weights):
    """Return dy/dw: the deviation from the mean, divided by the sum of the weights."""
    laid = np.broadcast_to(broadcast_weights(weights, a, axis), shape_of(a))
    return (a - mean) / np.sum(laid, axis=axis, keepdims=True)


def broadcast_weights(weights, a, axis, lead=0):
    """Reshape weights (or tangents of them) of the given axes, in that order, to broadcast against `a`."""
    shape = shape_of(weights)
    if shape[lead:] == shape_of(a):
        return weights
    along = from_end(axis, ndim_of(a))
    weights = np.transpose(weights, (*range(lead), *(lead + i for i in np.argsort(along))))
    lengths = [shape_of(a)[i] if i in along else 1 for i in range(-ndim_of(a), 0)]
    return reshaped(weights, (*shape[:lead], *lengths))


def average_pattern(deps, a, axis=None, weights=None, **options):
    """Pattern of an average: all elements and weights along the axis; linear if the weights are constant."""
    ids = deps.ids(a)
    parts = [ids]
    if deps.depends(weights):
        parts.append(np.broadcast_to(broadcast_weights(deps.ids(weights), ids, axis), ids.shape))
    else:
        deps.is_done = True
    return deps.united([reshaped(deps.along(part, from_end(axis, ids.ndim)), deps.shape) for part in parts])


def average_taylor(series, order, a, axis=None, weights=None, keepdims=False):
    keepdims = is_kept(keepdims)
    if weights is None:
        return np.mean(a, axis=axis, keepdims=keepdims)
    weights = np.broadcast_to(broadcast_weights(weights, a, axis), shape_of(a))
    return np.sum(a * weights, axis, keepdims=keepdims) / np.sum(weights, axis, keepdims=keepdims)


def average_expansion(a, axis=None, weights=None, **options):
    if weights is None or {*options} - {"keepdims"} or not np.any(weights):  # traced weights appear as zeros here
        return None
    share = average_share(np.asarray(a), axis, np.asarray(weights, dtype=float))
    return lambda a, *_: np.sum(a * share, axis=axis, **options)


structural(np.average, average_wrt_array, None, average_wrt_weights, jvp=(push_average, None, push_average_weights))
facts(np.average, dependence=average_pattern, expansion=average_expansion, taylor=average_taylor)

# ---- cumulative sums and products, differences


def flat_if_none(a, axis):
    """Return operand and axis of a cumulative operation: without an axis it flattens the operand."""
    return (raveled(a), -1) if axis is None or ndim_of(a) == 0 else (a, from_end(axis, ndim_of(a))[0])


def cumsum_transpose(ybar, a, axis=None, dtype=None, out=None):
    """Accumulate the cotangent from the end."""
    flat, axis = flat_if_none(a, axis)
    z = flipped(np.cumsum(flipped(ybar, axis), axis=axis), axis)
    return reshaped(z, lead_shape(ybar, flat) + shape_of(a))


def push_cumsum(t, y, a, axis=None, dtype=None, out=None):
    flat, axis = flat_if_none(a, axis)
    return np.cumsum(reshaped(t, lead_shape(t, a) + shape_of(flat)), axis=axis)


def backward_recurrence(factor, b):
    """Solve s[i] = b[i] + factor[i] s[i + 1] along the last axis in log2(n) passes; the last s has no factor.

    Recursive doubling (Kogge and Stone 1973): each pass doubles the number of successors that s[i] accounts for.
    """
    n = shape_of(b)[-1]
    step = 1
    while step < n:
        b = np.concatenate([b[..., :-step] + strong(b[..., step:], factor), b[..., -step:]], axis=-1)
        if 2 * step < n:
            factor = strong(factor[..., :-step], factor[..., step:])
        step *= 2
    return b


def cumprod_wrt_array(ybar, y, a, axis=None, dtype=None, out=None):
    """Product of the earlier elements, times the solution of the adjoint recurrence g[i] + a[i + 1] s[i + 1]."""
    flat, axis = flat_if_none(a, axis)
    line, g = moved_axis(flat, axis, -1), moved_axis(ybar, axis, -1)
    z = strong(backward_recurrence(line[..., 1:], g), exclusive_cumprod(line))
    return reshaped(moved_axis(z, -1, axis), lead_shape(ybar, flat) + shape_of(a))


def push_cumprod(t, y, a, axis=None, dtype=None, out=None):
    """Solve the tangent recurrence y'[i] = a[i] y'[i - 1] + t[i] y[i - 1]."""
    flat, axis = flat_if_none(a, axis)
    t = reshaped(t, lead_shape(t, a) + shape_of(flat))
    line, t = moved_axis(flat, axis, -1), moved_axis(t, axis, -1)
    start = strong(t, exclusive_cumprod(line))
    z = flipped(backward_recurrence(flipped(line, -1)[..., :-1], flipped(start, -1)), -1)
    return moved_axis(z, -1, axis)


linear(np.cumsum, cumsum_transpose, jvp=push_cumsum, expansion=expansions.accumulate(np.add))
structural(np.cumprod, cumprod_wrt_array, jvp=(push_cumprod,), expansion=expansions.accumulate(np.multiply))
facts(np.cumsum, np.cumprod, batching=True, dependence=Cumulative())
facts(np.cumsum, scalars="cumsum")
facts(np.cumprod, scalars="cumprod", taylor=taylor.cumulative_product, continuous=True)


def without_initial(ybar, a, axis, include_initial):
    """Drop the leading constant of a cumulative result from its cotangent."""
    if not include_initial:
        return ybar
    _, axis = flat_if_none(a, axis)
    n = shape_of(ybar)[axis]
    return np.take(ybar, np.arange(1, n), axis=axis)


def with_initial(t, x, axis, include_initial):
    """Prepend the zero tangent of the leading constant to the tangent of a cumulative result."""
    if not include_initial:
        return t
    _, axis = flat_if_none(x, axis)
    return np.concatenate([np.zeros(with_length(t, 1, axis), dtype=t.dtype), t], axis=axis)


def cumulative_sum_transpose(ybar, x, axis=None, dtype=None, out=None, include_initial=False):
    return cumsum_transpose(without_initial(ybar, x, axis, include_initial), x, axis)


def cumulative_prod_wrt_array(ybar, y, x, axis=None, dtype=None, out=None, include_initial=False):
    return cumprod_wrt_array(without_initial(ybar, x, axis, include_initial), y, x, axis)


def push_cumulative(push):
    """Return the tangent of a cumulative function with ``include_initial``, given the one without."""

    def pushed(t, y, x, axis=None, dtype=None, out=None, include_initial=False):
        return with_initial(push(t, y, x, axis), x, axis, include_initial)

    return pushed


if has_cumulative:
    linear(np.cumulative_sum, cumulative_sum_transpose, jvp=push_cumulative(push_cumsum))
    structural(np.cumulative_prod, cumulative_prod_wrt_array, jvp=(push_cumulative(push_cumprod),))
    facts(np.cumulative_sum, np.cumulative_prod, dependence=Cumulative())
    facts(np.cumulative_prod, taylor=taylor.cumulative_product)


def with_length(z, n, axis):
    """Return the shape of `z` with length `n` along `axis`."""
    shape = list(shape_of(z))
    shape[axis] = n
    return tuple(shape)


def diff_offsets(a, axis, prepend, append):
    """Return (offset, elements behind) of `prepend`, `a` and `append` in their concatenation along `axis`."""
    before, middle, behind = (
        0 if x is np._NoValue else shape_of(x)[axis] if ndim_of(x) else 1 for x in (prepend, a, append)
    )
    return (0, middle + behind), (before, behind), (before + middle, 0)


def diff_rules(which):
    """Pullback and tangent of ``diff`` in part `which` of the concatenation: 0 prepend, 1 array, 2 append."""

    def pull(ybar, y, a, n=1, axis=-1, prepend=np._NoValue, append=np._NoValue):
        """Apply the transpose of a difference n times: the negative difference of the zero-padded cotangent."""
        (axis,) = from_end(axis, ndim_of(a))
        begin, rest = diff_offsets(a, axis, prepend, append)[which]
        for _ in range(n):
            edge = np.zeros(with_length(ybar, 1, axis), dtype=ybar.dtype)
            padded = np.concatenate([edge, ybar, edge], axis=axis)
            rest_of_axes = (slice(None),) * (-1 - axis)
            ybar = padded[(..., slice(None, -1), *rest_of_axes)] - padded[(..., slice(1, None), *rest_of_axes)]
        if begin or rest:
            ybar = np.take(ybar, np.arange(begin, shape_of(ybar)[axis] - rest), axis=axis)
        return unbroadcast(ybar, (prepend, a, append)[which], leading(ybar, y))

    def push(t, y, a, n=1, axis=-1, prepend=np._NoValue, append=np._NoValue):
        (axis,) = from_end(axis, ndim_of(a))
        begin, rest = diff_offsets(a, axis, prepend, append)[which]
        if which != 1:  # a scalar stands for one slice
            x = (prepend, a, append)[which]
            shape = lead_shape(t, x) + (shape_of(x) or with_length(a, 1, axis))
            t = np.broadcast_to(aligned(t, x, ndim_of(a)), shape)
        if begin or rest:
            zeros = [np.zeros(with_length(t, m, axis), dtype=t.dtype) for m in (begin, rest)]
            t = np.concatenate([zeros[0], t, zeros[1]], axis=axis)
        return np.diff(t, n, axis) if n else t

    return pull, push


def diff_pattern(deps, a, n=1, axis=-1, prepend=np._NoValue, append=np._NoValue):
    """Pattern of ``diff``: both neighbours of each difference, n times."""
    rows = moved_axis(deps.ids(a), axis, 0)

    def end(x):
        if x is np._NoValue:
            return rows[:0]
        own = deps.ids(x)
        own = moved_axis(own, axis, 0) if own.ndim else own
        return np.broadcast_to(own, (len(own) if own.ndim else 1, *rows.shape[1:]))

    rows = np.concatenate([end(prepend), rows, end(append)])
    for _ in range(n):
        rows = deps.pairwise(rows[1:], rows[:-1])
    return moved_axis(rows, 0, axis)


(pull_before, push_before), (pull_diff, push_diff), (pull_behind, push_behind) = map(diff_rules, range(3))
structural(
    np.diff,
    *(pull_diff, None, None, pull_before, pull_behind),
    jvp=(push_diff, None, None, push_before, push_behind),
    curvature="none",
)
facts(np.diff, dependence=diff_pattern, expansion=expansions.diff, native="diff", lowering="diff")


# ---- traces


@lru_cache(maxsize=8)
def diagonal_mask(n, m, offset):
    return np.eye(n, m, k=offset, dtype=bool)


def trace_transpose(ybar, a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    i, j = from_end((axis1, axis2), ndim_of(a))
    line = diagonal_mask(shape_of(a)[i], shape_of(a)[j], offset)
    z = np.where(line, ybar[..., None, None], 0)
    return moved_axis(z, (-2, -1), (i, j))


def trace_pattern(deps, a, offset=0, axis1=0, axis2=1, **options):
    """Dependence pattern of a trace: all elements of the diagonal."""
    return deps.along(np.diagonal(deps.ids(a), offset, axis1, axis2), (-1,))


linear(np.trace, trace_transpose, dependence=trace_pattern, expansion=expansions.trace, scalars="trace")
linear(
    np.linalg.trace,
    lambda ybar, x, *, offset=0, dtype=None: trace_transpose(ybar, x, offset, -2, -1),
    dependence=lambda deps, x, *, offset=0, dtype=None: trace_pattern(deps, x, offset, -2, -1),
    expansion=expansions.trace_of_last,
)
