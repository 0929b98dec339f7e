"""Tables and samples: interpolation between points, convolution, numerical differentiation, covariance."""

from __future__ import annotations

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import composed, strong, structural
from wengert.rules.broadcasting import leading
from wengert.rules.composed import as_array
from wengert.rules.products import strong_matmul

# ---- interpolation between the points of a table


def intervals(x, xp):
    """Number of the interval that holds each x, how far into it x lies, and whether it is beyond an end."""
    i = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, max(len(xp) - 2, 0))
    width = xp[i + 1] - xp[i] if len(xp) > 1 else np.ones(np.shape(x))
    return i, np.where(width > 0, (x - xp[i]) / width, 0.0), width, (x < xp[0]), (x > xp[-1])


def slopes(x, xp, fp):
    """Slope of the polygon at each x; 0 beyond the ends."""
    i, _, width, before, after = intervals(x, xp)
    rise = fp[i + 1] - fp[i] if len(xp) > 1 else np.zeros(np.shape(x))
    return np.where(before | after, 0.0, np.where(np.isnan(x), np.nan, rise / width))


def gathered(z, places, n):
    """Sum of the elements of `z`, with leading axes, that belong to each of n places."""
    flat = np.reshape(z, (-1, np.size(places)))
    total = np.stack([np.bincount(np.ravel(places), weights=row, minlength=n) for row in flat])
    return np.reshape(total, np.shape(z)[: np.ndim(z) - np.ndim(places)] + (n,))


def interp_wrt_point(ybar, y, x, xp, fp, left=None, right=None):
    return strong(ybar, slopes(x, xp, fp))


def interp_wrt_places(ybar, y, x, xp, fp, left=None, right=None):
    """Both ends of the interval move: the value falls by the slope, in the shares of both."""
    i, share, *_ = intervals(x, xp)
    pull = -strong(ybar, slopes(x, xp, fp))
    if len(xp) == 1:
        return np.zeros(np.shape(ybar)[: leading(ybar, y)] + (1,))
    return gathered(strong(pull, 1 - share), i, len(xp)) + gathered(strong(pull, share), i + 1, len(xp))


def interp_wrt_values(ybar, y, x, xp, fp, left=None, right=None):
    """Shares of both ends; beyond the table the value of its end, where no other was given."""
    i, share, _, before, after = intervals(x, xp)
    inside = np.where(before | after, 0.0, ybar)
    last = len(xp) - 1
    z = gathered(strong(inside, 1 - share), i, len(xp))
    z = z + gathered(strong(inside, share), np.minimum(i + 1, last), len(xp))
    if left is None:
        z = z + gathered(np.where(before, ybar, 0.0), np.zeros_like(i), len(xp))
    if right is None:
        z = z + gathered(np.where(after, ybar, 0.0), np.full_like(i, last), len(xp))
    return z


def interp_wrt_left(ybar, y, x, xp, fp, left=None, right=None):
    """The value before the first point."""
    beyond = np.where(x < xp[0], ybar, 0.0)
    return np.sum(beyond, axis=tuple(range(leading(ybar, y), np.ndim(ybar))))


def interp_wrt_right(ybar, y, x, xp, fp, left=None, right=None):
    beyond = np.where(x > xp[-1], ybar, 0.0)
    return np.sum(beyond, axis=tuple(range(leading(ybar, y), np.ndim(ybar))))


structural(
    np.interp,
    interp_wrt_point,
    interp_wrt_places,
    interp_wrt_values,
    interp_wrt_left,
    interp_wrt_right,
    stacked=True,
)

# ---- convolution


def correlated(g, other):
    """Sum over k of ``g[n + k] other[k]``: the transpose of a full convolution, in which 0 times inf is 0."""
    rows = np.reshape(g, (-1, np.shape(g)[-1]))
    z = np.stack([np.correlate(row, other, "valid") for row in rows])
    if np.isnan(z).any() and not (np.isfinite(g).all() and np.isfinite(other).all()):
        windows = np.lib.stride_tricks.sliding_window_view(rows, len(other), axis=-1)
        z = strong_matmul(windows, other[:, None])[..., 0]
    return np.reshape(z, np.shape(g)[:-1] + (np.shape(z)[-1],))


def in_full(ybar, a, v, mode, same):
    """Cotangent of the full result, of which `mode` takes a part; `same` is where the part "same" begins."""
    shorter = min(len(a), len(v))
    start = {"f": 0, "s": same, "v": shorter - 1, "0": shorter - 1, "1": same, "2": 0}[str(mode)[0]]
    g = np.zeros((*np.shape(ybar)[:-1], len(a) + len(v) - 1), dtype=ybar.dtype)
    g[..., start : start + np.shape(ybar)[-1]] = ybar
    return g


def convolved(ybar, a, v, mode):
    return in_full(ybar, a, v, mode, (min(len(a), len(v)) - 1) // 2)


def slid(ybar, a, v, mode):
    """The middle is rounded the other way where the second operand is longer: NumPy swaps them then."""
    shorter = min(len(a), len(v))
    return in_full(ybar, a, v, mode, shorter // 2 if len(v) > len(a) else (shorter - 1) // 2)


structural(
    np.convolve,
    lambda ybar, y, a, v, mode="full": correlated(convolved(ybar, a, v, mode), v),
    lambda ybar, y, a, v, mode="full": correlated(convolved(ybar, a, v, mode), a),
    stacked=True,
    curvature="cross",
)
structural(
    np.correlate,
    lambda ybar, y, a, v, mode="valid": correlated(slid(ybar, a, v, mode), v[::-1]),
    lambda ybar, y, a, v, mode="valid": correlated(slid(ybar, a, v, mode), a)[..., ::-1],
    stacked=True,
    curvature="cross",
)

# ---- differences


def of_dtype(x, dtype):
    return x if x.dtype == dtype else x.astype(dtype)


def _ediff1d(ary, to_end=None, to_begin=None):
    steps = np.diff(np.ravel(as_array(ary)))
    ends = [of_dtype(np.ravel(as_array(end)), steps.dtype) for end in (to_begin, to_end) if end is not None]
    if not ends:
        return steps
    return np.concatenate([*ends[: to_begin is not None], steps, *ends[to_begin is not None :]])


def even(points, axis_length):
    """Spacing of points along an axis: a number where they are even, as NumPy takes it then."""
    if np.ndim(points) != 1:
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
            "numpy.gradient takes points that are even for a single spacing, and has no derivative in them: "
            "pass the spacing, or write the differences out"
        )
    return steps[0]


def _gradient(f, *varargs, axis=None, edge_order=1):
    """Central differences, and one-sided ones at both ends: NumPy's formulas, joined instead of stored."""
    f = as_array(f)
    f = f if f.dtype.kind == "f" else f.astype(float)
    axes = tuple(range(np.ndim(f))) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(i % np.ndim(f) for i in axes)
    spacings = (
        varargs * len(axes)
        if len(varargs) == 1 and np.ndim(varargs[0]) == 0
        else varargs or [1.0] * len(axes)
    )
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    found = []
    for i, h in zip(axes, spacings, strict=True):
        if np.shape(f)[i] < edge_order + 1:
            raise ValueError("Shape of array too small to calculate a numerical gradient")
        h = h if np.ndim(h) == 0 else even(h, np.shape(f)[i])
        found.append(slopes_along(f, i, h, edge_order))
    return found[0] if len(found) == 1 else tuple(found)


def slopes_along(f, axis, h, edge_order):
    def at(*bounds):
        return f[(slice(None),) * axis + (slice(*bounds),)]

    shape = [1] * np.ndim(f)
    shape[axis] = -1
    is_even = np.ndim(h) == 0
    if is_even:
        middle = (at(2, None) - at(None, -2)) / (2.0 * h)
    else:
        a, b, c = (np.reshape(z, shape) for z in inner_weights(h[:-1], h[1:]))
        middle = a * at(None, -2) + b * at(1, -1) + c * at(2, None)
    if edge_order == 1:
        first = (at(1, 2) - at(0, 1)) / (h if is_even else h[0])
        last = (at(-1, None) - at(-2, -1)) / (h if is_even else h[-1])
    else:
        a, b, c = (-1.5 / h, 2.0 / h, -0.5 / h) if is_even else first_weights(h[0], h[1])
        first = a * at(0, 1) + b * at(1, 2) + c * at(2, 3)
        a, b, c = (0.5 / h, -2.0 / h, 1.5 / h) if is_even else last_weights(h[-2], h[-1])
        last = a * at(-3, -2) + b * at(-2, -1) + c * at(-1, None)
    return of_dtype(np.concatenate([first, middle, last], axis=axis), f.dtype)


def inner_weights(d, e):
    return -e / (d * (d + e)), (e - d) / (d * e), d / (e * (d + e))


def first_weights(d, e):
    return -(2.0 * d + e) / (d * (d + e)), (d + e) / (d * e), -d / (e * (d + e))


def last_weights(d, e):
    return e / (d * (d + e)), -(e + d) / (d * e), (2.0 * e + d) / (e * (d + e))


composed(np.ediff1d, _ediff1d)
composed(np.gradient, _gradient)

# ---- covariance


def _cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    if fweights is not None or aweights is not None or dtype is not None:
        raise UnsupportedFunctionError(
            "numpy.cov has a rule without weights and dtype: write the weighted mean and the product of "
            "deviations"
        )
    samples = [variables(z, rowvar, i) for i, z in enumerate((m, y)) if z is not None]
    X = np.concatenate(samples, axis=0) if len(samples) == 2 else samples[0]
    X = X - np.mean(X, axis=1)[:, None]
    ddof = int(not bias) if ddof is None else ddof
    count = np.shape(X)[1] - ddof
    return np.squeeze(np.dot(X, np.conjugate(X.T)) * np.true_divide(1, count if count > 0 else 0.0))


def variables(z, rowvar, position):
    """Samples as rows, in double precision."""
    z = of_dtype(as_array(z), np.float64)
    if np.ndim(z) < 2:
        return np.reshape(z, (1, -1))
    return z if rowvar or (position and np.shape(z)[0] == 1) else z.T


def _corrcoef(x, y=None, rowvar=True, *, dtype=None):
    c = _cov(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    spread = np.sqrt(np.diag(c))
    return np.clip(c / spread[:, None] / spread[None, :], -1, 1)


composed(np.cov, _cov)
composed(np.corrcoef, _corrcoef)

# ---- sums and products without NaN


def _nanprod(a, axis=None, dtype=None, out=None, keepdims=False):
    a = as_array(a) if dtype is None else of_dtype(as_array(a), dtype)
    return np.prod(np.where(np.isnan(a), np.ones((), a.dtype), a), axis=axis, keepdims=keepdims)


def _nancumsum(a, axis=None, dtype=None, out=None):
    a = as_array(a) if dtype is None else of_dtype(as_array(a), dtype)
    return np.cumsum(np.where(np.isnan(a), np.zeros((), a.dtype), a), axis=axis)


def _nancumprod(a, axis=None, dtype=None, out=None):
    a = as_array(a) if dtype is None else of_dtype(as_array(a), dtype)
    return np.cumprod(np.where(np.isnan(a), np.ones((), a.dtype), a), axis=axis)


composed(np.nanprod, _nanprod)
composed(np.nancumsum, _nancumsum)
composed(np.nancumprod, _nancumprod)
