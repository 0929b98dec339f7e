"""Functions of samples: interpolation, convolution, numerical differentiation, covariance, sums that skip NaN."""

from __future__ import annotations

import math

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from wengert.dependence import Elementwise
from wengert.errors import UnsupportedFunctionError
from wengert.registry import composed, facts, strong, strong_matmul, structural
from wengert.rules import expansions
from wengert.rules.broadcasting import aligned, conjugate, segment_sum, take_elements
from wengert.rules.composed import as_array, as_dtype
from wengert.rules.reductions import combining, is_counted, std_about, var_about
from wengert.rules.shapes import (
    from_end,
    interpolated_values,
    interpolation_slopes,
    is_kept,
    leading,
    ndim_of,
    reshaped,
    shape_of,
    unbroadcast,
)
from wengert.rules.taylor import PIECEWISE_LINEAR

# ---- piecewise linear interpolation


def check_increasing(xp):
    """Raise if the points of the table are not increasing."""
    falls = np.less(xp[1:], xp[:-1])
    has_falls = falls.any() if type(falls) is np.ndarray else np.any(falls)
    if has_falls and np.any(falls & np.isfinite(xp[:-1])):
        raise UnsupportedFunctionError("numpy.interp has a derivative for increasing xp only: sort xp and fp by xp")


def outside_masks(x, xp):
    """Return masks of the x before the first point of the table, and of the x after the last one."""
    check_increasing(xp)
    return np.less(x, xp[0]), np.greater(x, xp[-1])


def intervals(x, xp):
    """Return for each x its interval, the position in it (0 to 1), the width, and the two masks of `outside_masks`."""
    i = np.minimum(np.maximum(np.searchsorted(xp, x, side="right") - 1, 0), max(len(xp) - 2, 0))
    width = take_elements(xp, i + 1) - take_elements(xp, i) if len(xp) > 1 else np.ones(shape_of(x))
    return i, np.where(width > 0, (x - take_elements(xp, i)) / width, 0.0), width, *outside_masks(x, xp)


def as_row(x):
    """Return a scalar as a 1-D array: a program recomputes arrays of indices, but guards a single index."""
    return x if ndim_of(x) else reshaped(x, (1,))


def of_row(ybar, x):
    """Reshape a tangent or cotangent of the interpolant at `x` to that at ``as_row(x)``."""
    return ybar if ndim_of(x) else reshaped(ybar, (*shape_of(ybar), 1))


def slopes(x, xp, fp):
    """Slope of the interpolant at each x; 0 beyond the ends."""
    if not ndim_of(x):
        return slopes(as_row(x), xp, fp)[0]
    found = interpolation_slopes(x, xp, fp)
    if found is not None:
        return found
    i, _, width, before, after = intervals(x, xp)
    rise = take_elements(fp, i + 1) - take_elements(fp, i) if len(xp) > 1 else np.zeros(shape_of(x))
    return np.where(before | after, 0.0, np.where(np.isnan(x), np.nan, rise / width))


def value_weights(x, xp, left, right):
    """Return pairs (index, weight) with y = sum of weight * fp[index]; `left` and `right` replace the end values."""
    i, share, _, before, after = intervals(x, xp)
    last = len(xp) - 1
    if left is None and right is None:
        share = np.where(before, 0.0, np.where(after, 1.0, share))
        return [(i, 1 - share), (np.minimum(i + 1, last), share)]
    is_inside = ~(before | after)
    ends = [(i, np.where(is_inside, 1 - share, 0.0)), (np.minimum(i + 1, last), np.where(is_inside, share, 0.0))]
    if left is None:
        ends.append((np.zeros_like(i), before))
    if right is None:
        ends.append((np.full_like(i, last), after))
    return ends


def point_weights(x, xp, fp):
    """Return pairs (index, dy / dxp[index]): with slope s and position r in the interval, s (r - 1) and -s r."""
    i, share, *_ = intervals(x, xp)
    slope = slopes(x, xp, fp)
    last = len(xp) - 1
    return [(i, strong(slope, share - 1)), (np.minimum(i + 1, last), strong(slope, -share))]


def scatter_weighted(ybar, shares, n):
    """Scatter the cotangent of y to a table of n points, by pairs of indices and weights."""
    return sum(segment_sum(strong(ybar, share), places, n) for places, share in shares)


def gather_weighted(t, shares):
    """Gather the tangent of a table by pairs of indices and weights: the transpose of `scatter_weighted`."""
    return sum(strong(np.take(t, places, axis=-1), share) for places, share in shares)


def interp_along_table(t, x, shares):
    """Return the tangent of the interpolant at `x` for the tangent `t` of a table; `shares` belong to ``as_row(x)``."""
    found = gather_weighted(t, shares)
    return found if ndim_of(x) else found[..., 0]


def interp_wrt_point(ybar, y, x, xp, fp, left=None, right=None):
    return strong(ybar, slopes(x, xp, fp))


def interp_wrt_places(ybar, y, x, xp, fp, left=None, right=None):
    return scatter_weighted(of_row(ybar, x), point_weights(as_row(x), xp, fp), len(xp))


def interp_wrt_values(ybar, y, x, xp, fp, left=None, right=None):
    if left is None and right is None:
        found = interpolated_values(ybar, x, xp)
        if found is not None:
            return found
    return scatter_weighted(of_row(ybar, x), value_weights(as_row(x), xp, left, right), len(xp))


def push_interp_places(t, y, x, xp, fp, left=None, right=None):
    return interp_along_table(t, x, point_weights(as_row(x), xp, fp))


def push_interp_values(t, y, x, xp, fp, left=None, right=None):
    return interp_along_table(t, x, value_weights(as_row(x), xp, left, right))


def end_rules(side):
    """Pullback and tangent in the value beyond an end of the table: `left` if `side` is 0, `right` if it is 1."""

    def pull(ybar, y, x, xp, fp, left=None, right=None):
        return unbroadcast(np.where(outside_masks(x, xp)[side], ybar, 0.0), (left, right)[side], leading(ybar, y))

    def push(t, y, x, xp, fp, left=None, right=None):
        return np.where(outside_masks(x, xp)[side], aligned(t, (left, right)[side], ndim_of(y)), 0.0)

    return pull, push


pulls, pushes = zip(end_rules(0), end_rules(1))
structural(
    np.interp,
    *(interp_wrt_point, interp_wrt_places, interp_wrt_values, *pulls),
    jvp=(interp_wrt_point, push_interp_places, push_interp_values, *pushes),
    dependence=Elementwise(1),
    taylor=PIECEWISE_LINEAR,
    scalars="interp",
    continuous=lambda x, xp, fp, *ends, **options: not options and all(end is None for end in ends),
)

# ---- convolution


def correlated(g, other):
    """Sum over k of ``g[n + k] other[k]``: the transpose of a full convolution, with 0 * inf = 0."""
    conjugated = conjugate(other)  # undone by ``correlate``, which conjugates its second operand
    rows = reshaped(g, (math.prod(shape_of(g)[:-1]), shape_of(g)[-1]))
    sums = [np.correlate(row, conjugated, "valid") for row in rows]
    z = np.stack(sums) if len(sums) != 1 else sums[0][None]
    if np.isnan(z).any() and not (np.isfinite(g).all() and np.isfinite(other).all()):
        windows = rows[:, np.arange(shape_of(z)[-1])[:, None] + np.arange(len(other))]
        z = strong_matmul(windows, other[:, None])[..., 0]
    return reshaped(z, shape_of(g)[:-1] + (shape_of(z)[-1],))


def zero_padded(z, before, after):
    """Pad the last axis of `z` with zeros."""
    ends = [np.zeros((*shape_of(z)[:-1], n), dtype=z.dtype) for n in (before, after)]
    return np.concatenate([ends[0], z, ends[1]], axis=-1)


def full_offset(a, v, mode, same):
    """Return the offset in the full result of the part that `mode` selects; `same` is the offset for mode "same"."""
    shorter = min(np.size(a), np.size(v))
    return {"f": 0, "s": same, "v": shorter - 1, "0": shorter - 1, "1": same, "2": 0}[str(mode)[0]]


def convolution_offset(a, v, mode):
    return full_offset(a, v, mode, (min(np.size(a), np.size(v)) - 1) // 2)


def correlation_offset(a, v, mode):
    """Like `convolution_offset`, but rounded up if the second operand is longer, since NumPy swaps them then."""
    shorter = min(np.size(a), np.size(v))
    return full_offset(a, v, mode, shorter // 2 if np.size(v) > np.size(a) else (shorter - 1) // 2)


def pull_convolution(ybar, start, x, other, step=1):
    """Cotangent of `x`, where y is part of the full convolution of ``x[::step]`` with `other`."""
    other = as_row(other)
    rest = np.size(x) + len(other) - 1 - start - shape_of(ybar)[-1]
    z = correlated(zero_padded(ybar, start, rest), other)
    return z[..., ::step] if ndim_of(x) else z[..., 0]


def push_convolution(t, start, y, other):
    """Return the part from `start` of the full convolution of a tangent with `other`."""
    other = as_row(other)
    margin = len(other) - 1
    full = correlated(zero_padded(t, margin, margin), other[::-1])
    return full[..., start : start + len(y)]


def convolution_pattern(begins, default, step):
    """Pattern of a convolution: each sum depends on the elements multiplied by a nonzero or traced one.

    `begins` gives the offset in the full result, and `step` is -1 if the second operand is reversed.
    """

    def pattern(deps, a, v, mode=default):
        sets = {0: np.ravel(deps.ids(a)), 1: np.ravel(deps.ids(v))[::step]}
        begin, parts = begins(*sets.values(), mode), []
        for i, (x, y) in enumerate(((a, v), (v, a))):
            if not deps.depends(x):
                continue
            n = len(sets[1 - i])
            mask = np.ones(n, bool) if deps.depends(y) else np.not_equal(np.ravel(deps.value(y)), 0)
            mask = mask[:: step if i == 0 else 1][::-1]
            margin = np.zeros(n - 1, np.int32)
            windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([margin, sets[i], margin]), n)
            parts.append(deps.grouped(np.where(mask, windows[begin : begin + math.prod(deps.shape)], 0)))
        if len(parts) == 2:
            deps.is_done = True
            deps.interact(*parts)
        return deps.united(parts)

    return pattern


def declare_convolution(fun, begins, default, step):
    """Declare ``convolve`` (`step` 1), or ``correlate`` (-1), the convolution with the reversed second operand."""

    def wrt_left(ybar, y, a, v, mode=default):
        return pull_convolution(ybar, begins(a, v, mode), a, as_row(v)[::step])

    def wrt_right(ybar, y, a, v, mode=default):
        return pull_convolution(ybar, begins(a, v, mode), v, a, step)

    def push_left(t, y, a, v, mode=default):
        return push_convolution(of_row(t, a), begins(a, v, mode), y, as_row(v)[::step])

    def push_right(t, y, a, v, mode=default):
        return push_convolution(of_row(t, v)[..., ::step], begins(a, v, mode), y, a)

    structural(fun, wrt_left, wrt_right, jvp=(push_left, push_right), curvature="cross", native=fun.__name__)
    facts(fun, dependence=convolution_pattern(begins, default, step))


declare_convolution(np.convolve, convolution_offset, "full", 1)
declare_convolution(np.correlate, correlation_offset, "valid", -1)
facts(np.convolve, expansion=expansions.convolve)
facts(np.correlate, expansion=expansions.correlate)

# ---- differences


@composed(np.ediff1d)
def _ediff1d(ary, to_end=None, to_begin=None):
    steps = np.diff(np.ravel(as_array(ary)))
    ends = [as_dtype(np.ravel(as_array(end)), steps.dtype) for end in (to_begin, to_end) if end is not None]
    if not ends:
        return steps
    return np.concatenate([*ends[: to_begin is not None], steps, *ends[to_begin is not None :]])


def distances(points, axis_length):
    """Return the distances between points along an axis, as a scalar if they are all equal, as NumPy does."""
    if ndim_of(points) != 1:
        raise ValueError("distances must be either scalars or 1d")
    if len(points) != axis_length:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    points = as_array(points)
    points = points if points.dtype.kind == "f" else points.astype(float)
    steps = np.diff(points)
    if not (steps == steps[0]).all():
        return steps
    if not issubclass(type(steps[0]), np.floating):
        raise UnsupportedFunctionError(
            "numpy.gradient treats evenly spaced points as a single spacing and has no derivative in them: "
            "pass the spacing, or compute the differences with slices"
        )
    return steps[0]


@composed(np.gradient, replayed=True)
def _gradient(f, *varargs, axis=None, edge_order=1):
    """Central differences with one-sided ones at the ends: NumPy's formulas, concatenated instead of stored."""
    f = as_array(f)
    f = f if f.dtype.kind in "fc" else f.astype(float)
    axes = normalize_axis_tuple(tuple(range(ndim_of(f))) if axis is None else axis, ndim_of(f))
    spacings = varargs * len(axes) if len(varargs) == 1 and ndim_of(varargs[0]) == 0 else varargs or [1.0] * len(axes)
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    found = []
    for i, h in zip(axes, spacings, strict=True):
        if shape_of(f)[i] < edge_order + 1:
            raise ValueError("Shape of array too small to calculate a numerical gradient")
        h = h if ndim_of(h) == 0 else distances(h, shape_of(f)[i])
        found.append(slopes_along(f, i, h, edge_order))
    return found[0] if len(found) == 1 else tuple(found)


def slopes_along(f, axis, h, edge_order):
    def at(*bounds):
        return f[(slice(None),) * axis + (slice(*bounds),)]

    shape = [1] * ndim_of(f)
    shape[axis] = -1
    is_even = ndim_of(h) == 0
    if is_even:
        middle = (at(2, None) - at(None, -2)) / (2.0 * h)
    else:
        d, e = h[:-1], h[1:]
        weights = -e / (d * (d + e)), (e - d) / (d * e), d / (e * (d + e))
        a, b, c = (reshaped(weight, shape) for weight in weights)
        middle = a * at(None, -2) + b * at(1, -1) + c * at(2, None)
    if edge_order == 1:
        first = (at(1, 2) - at(0, 1)) / (h if is_even else h[0])
        last = (at(-1, None) - at(-2, -1)) / (h if is_even else h[-1])
    else:
        a, b, c = (-1.5 / h, 2.0 / h, -0.5 / h) if is_even else first_weights(h[0], h[1])
        first = a * at(0, 1) + b * at(1, 2) + c * at(2, 3)
        a, b, c = (0.5 / h, -2.0 / h, 1.5 / h) if is_even else last_weights(h[-2], h[-1])
        last = a * at(-3, -2) + b * at(-2, -1) + c * at(-1, None)
    return as_dtype(np.concatenate([first, middle, last], axis=axis), f.dtype)


def first_weights(d, e):
    return -(2.0 * d + e) / (d * (d + e)), (d + e) / (d * e), -d / (e * (d + e))


def last_weights(d, e):
    return e / (d * (d + e)), -(e + d) / (d * e), (2.0 * e + d) / (e * (d + e))


@composed(np.unwrap, replayed=True)
def _unwrap(p, discont=None, axis=-1, *, period=2 * math.pi):
    """Correct jumps by multiples of the period, which are constant for differentiation."""
    p = as_array(p)
    steps = np.diff(p, axis=axis)
    discont = period / 2 if discont is None else discont
    half = period / 2
    inside = np.remainder(steps + half, period) - half
    inside = np.where((inside == -half) & (steps > 0), inside + period, inside)
    mended = np.where(np.abs(steps) < discont, 0.0, inside - steps)
    first, rest = (np.take(p, places, axis=axis) for places in ([0], np.arange(1, shape_of(p)[axis])))
    rest = rest + np.cumsum(mended, axis=axis)
    return np.concatenate([as_dtype(first, rest.dtype), rest], axis=axis)


# ---- covariance


@composed(np.cov, replayed=True)
def _cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    if dtype is not None:
        raise UnsupportedFunctionError("numpy.cov with dtype= has no rule: convert the samples with astype")
    samples = [variables(z, rowvar, i) for i, z in enumerate((m, y)) if z is not None]
    X = np.concatenate(samples, axis=0) if len(samples) == 2 else samples[0]
    ddof = int(not bias) if ddof is None else ddof
    weights = sample_weights(shape_of(X)[1], fweights, aweights)
    if weights is None:
        X = X - np.mean(X, axis=1)[:, None]
        count, weighted = shape_of(X)[1] - ddof, X
    else:
        total = np.sum(weights)
        X = X - np.average(X, axis=1, weights=weights)[:, None]
        if ddof == 0:
            count = total
        elif aweights is None:
            count = total - ddof
        else:
            count = total - ddof * np.sum(weights * as_array(aweights)) / total
        weighted = X * weights
    return np.squeeze(np.dot(X, np.conjugate(weighted.T)) * np.true_divide(1, count if count > 0 else 0.0))


def sample_weights(n, fweights, aweights):
    """Return the product of frequency and reliability weights of each sample, or None without weights."""
    given = [as_array(w) for w in (fweights, aweights) if w is not None]
    for w in given:
        if shape_of(w) != (n,):
            raise ValueError("numpy.cov: there must be one weight per sample")
        if np.any(np.less(w, 0)):
            raise ValueError("numpy.cov: weights must not be negative")
    if fweights is not None and np.any(np.not_equal(given[0], np.round(given[0]))):
        raise TypeError("fweights must be integer")
    return given[0] * given[1] * 1.0 if len(given) == 2 else given[0] * 1.0 if given else None


def variables(z, rowvar, position):
    """Return the variables as rows, in double precision."""
    z = as_array(z)
    z = as_dtype(z, np.result_type(z.dtype, np.float64))
    if ndim_of(z) < 2:
        return reshaped(z, (1, -1))
    return z if rowvar or (position and shape_of(z)[0] == 1) else z.T


@composed(np.corrcoef, replayed=True)
def _corrcoef(x, y=None, rowvar=True, *, dtype=None):
    c = _cov(x, y, rowvar, dtype=dtype)
    if ndim_of(c) == 0:
        return c / c
    spread = np.sqrt(np.diag(c).real)
    c = c / spread[:, None] / spread[None, :]
    np.clip(c.real, -1, 1, out=c.real)
    if c.dtype.kind == "c":
        np.clip(c.imag, -1, 1, out=c.imag)
    return c


# ---- reductions that skip NaN


@composed(np.nanprod)
def _nanprod(a, axis=None, dtype=None, out=None, keepdims=False):
    a = as_array(a) if dtype is None else as_dtype(as_array(a), dtype)
    return np.prod(np.where(np.isnan(a), np.ones((), a.dtype), a), axis=axis, keepdims=keepdims)


@composed(np.nancumsum)
def _nancumsum(a, axis=None, dtype=None, out=None):
    a = as_array(a) if dtype is None else as_dtype(as_array(a), dtype)
    return np.cumsum(np.where(np.isnan(a), np.zeros((), a.dtype), a), axis=axis)


@composed(np.nancumprod)
def _nancumprod(a, axis=None, dtype=None, out=None):
    a = as_array(a) if dtype is None else as_dtype(as_array(a), dtype)
    return np.cumprod(np.where(np.isnan(a), np.ones((), a.dtype), a), axis=axis)


@composed(np.nanvar, replayed=True)
def _nanvar(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, correction=np._NoValue):
    a = as_array(a) if dtype is None else as_dtype(as_array(a), dtype)
    ddof = ddof if correction is np._NoValue else correction
    is_nan = np.isnan(a)
    count = np.sum(~is_nan, axis=axis, keepdims=True)
    mean = as_dtype(np.sum(np.where(is_nan, 0, a), axis=axis, keepdims=True) / count, a.dtype)
    deviation = np.where(is_nan, 0, a - mean)
    square = (deviation * conjugate(deviation)).real if a.dtype.kind == "c" else deviation * deviation
    y = np.sum(square, axis=axis, keepdims=True)
    y = as_dtype(np.where(count > ddof, y / np.where(count > ddof, count - ddof, 1), np.nan), square.dtype)
    return y if is_kept(keepdims) else np.squeeze(y, axis=from_end(axis, ndim_of(a)))[()]


@composed(np.nanstd, replayed=True)
def _nanstd(a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, *, correction=np._NoValue):
    return np.sqrt(_nanvar(a, axis, dtype, None, ddof, keepdims, correction=correction))


def skipping_nan(about):
    """Let a moment about a given mean skip NaN."""

    def skipping(mean, a, *args, where=True, **kwargs):
        is_used = is_counted(as_array(a), where)
        return about(mean, np.where(is_used, a, mean), *args, where=is_used, **kwargs)

    return skipping


combining(np.nanprod, np.multiply)
facts(np.nanvar, options={"mean": skipping_nan(var_about)})
facts(np.nanstd, options={"mean": skipping_nan(std_about)})
