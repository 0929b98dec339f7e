"""Recursive filters, convolutions and polyphase filters of ``scipy.signal``.

A recursive filter applies an all-pole filter to a moving average.  Its adjoint is the same filter run backwards in
time, so every derivative costs as much as the filter.
"""

from __future__ import annotations

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import structural
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.scipy.functions import Functions

signal = Functions("scipy.signal")

# ---- recursive filters along the last axis


@dispatched
def recursion(a, u):
    """Return y with y[n] = u[n] - a[1] y[n - 1] - a[2] y[n - 2] - ...; a[0] is taken to be 1."""
    a = np.concatenate([np.ones(1, a.dtype), a[1:]])
    return signal.lfilter.__wrapped__(np.ones(1), a, u)


def backwards(a, ybar):
    return recursion(np.conj(a), ybar[..., ::-1])[..., ::-1]


def delayed(x, k):
    """Return x delayed by k samples, with zeros shifted in."""
    n = np.shape(x)[-1]
    if k == 0:
        return x
    zeros = np.zeros_like(x, shape=(*np.shape(x)[:-1], min(k, n)))
    return np.concatenate([zeros, x[..., : max(n - k, 0)]], axis=-1)


def recursion_wrt_coefficients(ybar, y, a, u):
    z = backwards(a, ybar)
    slopes = [-np.sum(z * np.conj(delayed(y, k))) for k in range(1, np.shape(a)[0])]
    return np.stack([0.0 * np.sum(z), *slopes])


def recursion_wrt_input(ybar, y, a, u):
    return backwards(a, ybar)


def recursion_along_coefficients(t, y, a, u):
    return recursion(a, -sum(t[k] * delayed(y, k) for k in range(1, np.shape(a)[0])))


row = structural(recursion, recursion_wrt_coefficients, recursion_wrt_input, stacked=False)
row.on_complex = {0: recursion_along_coefficients, 1: lambda t, y, a, u: recursion(a, t)}
row.adjoints = {0: recursion_wrt_coefficients, 1: recursion_wrt_input}
row.name = "scipy.signal.lfilter"


def moving_average(b, x):
    """Return the convolution of x with b, cut to the length of x."""
    count = np.shape(b)[0]
    if count <= 8:
        return sum(b[k] * delayed(x, k) for k in range(count))
    x = np.concatenate([np.zeros_like(x, shape=(*np.shape(x)[:-1], count - 1)), x], axis=-1)
    return np.lib.stride_tricks.sliding_window_view(x, count, axis=-1) @ b[::-1]


def filtered(b, a, x, zi):
    """Filter along the last axis from the initial state `zi`, or from rest; return the output and the final state."""
    b, a = b / a[0], a / a[0]
    count, n = max(np.shape(b)[0], np.shape(a)[0]) - 1, np.shape(x)[-1]
    u = moving_average(b, x)
    if zi is not None:
        rest = np.zeros_like(u, shape=(*np.shape(u)[:-1], max(n - count, 0)))
        u = u + np.concatenate([zi[..., :n] + 0 * u[..., : min(count, n)], rest], axis=-1)
    y = recursion(a, u) if np.shape(a)[0] > 1 else u
    b, a = (np.concatenate([c, np.zeros(count + 1 - np.shape(c)[0])]) for c in (b, a))
    state = []
    for i in range(count):
        terms = [b[i + 1 + k] * x[..., n - 1 - k] - a[i + 1 + k] * y[..., n - 1 - k] for k in range(min(count - i, n))]
        if zi is not None and i + n < count:
            terms.append(zi[..., i + n])
        state.append(sum(terms))
    return y, (np.stack(state, axis=-1) if state else x[..., :0])


def _lfilter(b, a, x, axis=-1, zi=None):
    b, a, x = np.atleast_1d(as_array(b)), np.atleast_1d(as_array(a)), np.moveaxis(as_array(x), axis, -1)
    state = None if zi is None else np.moveaxis(as_array(zi), axis, -1)
    y, final = filtered(b, a, x, state)
    y = np.moveaxis(y, -1, axis)
    return y if zi is None else (y, np.moveaxis(final, -1, axis))


def _sosfilt(sos, x, axis=-1, zi=None):
    sos, x = as_array(sos), np.moveaxis(as_array(x), axis, -1)
    states = None if zi is None else np.moveaxis(as_array(zi), axis if axis < 0 else axis + 1, -1)
    final = []
    for i in range(np.shape(sos)[0]):
        x, end = filtered(sos[i, :3], sos[i, 3:], x, None if states is None else states[i])
        final.append(end)
    y = np.moveaxis(x, -1, axis)
    return y if zi is None else (y, np.moveaxis(np.stack(final), -1, axis if axis < 0 else axis + 1))


# ---- convolutions


def correlated(x, kernel):
    """Return the correlation wherever the kernel lies within x."""
    windows = np.lib.stride_tricks.sliding_window_view(x, np.shape(kernel))
    return np.tensordot(windows, np.conj(kernel), np.ndim(kernel))


def framed(x, widths):
    """Return `x` between zeros, `widths` of them before and after it along each axis."""
    y = np.zeros_like(x, shape=[n + 2 * k for n, k in zip(np.shape(x), widths, strict=True)])
    y[tuple(slice(k, k + n) for n, k in zip(np.shape(x), widths, strict=True))] = x
    return y


def central(x, shape):
    """Return the central part of the given shape."""
    return x[tuple(slice((n - m) // 2, (n - m) // 2 + m) for n, m in zip(np.shape(x), shape, strict=True))]


VALID, SAME, FULL = range(3)
_PAD_MODES = {0: "constant", 4: "symmetric", 8: "wrap"}


class Compiled:
    """Formulas in place of ``scipy.signal._sigtools``."""

    @staticmethod
    def _correlateND(x, kernel, out, mode):
        shape = np.shape(kernel)
        if mode == VALID:
            return correlated(x, kernel)
        x = x[tuple(slice(n - k + 1) for n, k in zip(np.shape(x), shape, strict=True))]  # without the trailing zeros
        full = correlated(framed(x, [k - 1 for k in shape]), kernel)
        return central(full, np.shape(x)) if mode == SAME else full

    @staticmethod
    def _convolve2d(x, kernel, flip, mode, boundary, fillvalue):
        kernel = np.conj(kernel[::-1, ::-1]) if flip else np.conj(kernel)
        mode = mode % 4
        if mode != VALID:
            name, shape = _PAD_MODES[boundary], np.shape(x)
            widths = [k - 1 for k in np.shape(kernel)]
            if name == "constant" and np.all(np.equal(fillvalue, 0)):
                x = framed(x, widths)
            else:
                options = {"constant_values": fillvalue} if name == "constant" else {}
                x = np.pad(x, [(k, k) for k in widths], name, **options)
        y = correlated(x, kernel)
        return central(y, shape) if mode == SAME else y

    @staticmethod
    def _medfilt2d(x, size):
        x = np.pad(x, [(k // 2, k // 2) for k in size])
        return np.median(np.lib.stride_tricks.sliding_window_view(x, tuple(map(int, size))), axis=(-2, -1))


# ---- polyphase filters


def extended(x, count, mode, cval):
    """Add elements at both ends of the last axis, by the modes of ``upfirdn``."""
    n, steps, turned = np.shape(x)[-1], np.arange(1, count + 1), x[..., ::-1]
    first, last = x[..., :1], x[..., -1:]
    if mode == "line" and n > 1:
        slope = (last - first) / (n - 1)
        left, right = first - slope * steps[::-1], last + slope * steps
    elif mode == "smooth" and n > 1:
        left, right = first - (x[..., 1:2] - first) * steps[::-1], last + (last - x[..., -2:-1]) * steps
    elif mode == "antisymmetric" and count <= n:
        left, right = -turned[..., n - count :], -turned[..., :count]
    elif mode == "antireflect" and count < n:
        left, right = 2 * first - turned[..., n - 1 - count : n - 1], 2 * last - turned[..., 1 : count + 1]
    elif mode in ("constant", "wrap", "edge", "symmetric", "reflect"):
        options = {"constant_values": cval} if mode == "constant" else {}
        return np.pad(x, [(0, 0)] * (np.ndim(x) - 1) + [(count, count)], mode, **options)
    else:
        raise UnsupportedFunctionError(
            f"scipy.signal.upfirdn with mode={mode!r} of {n} elements has no derivative rule: pad x with numpy.pad"
        )
    return np.concatenate([left, x, right], axis=-1)


def extended_upfirdn(h, x, up, down, mode, cval):
    """Filter the signal extended at both ends, and drop what the extension adds."""
    n, taps = np.shape(x)[-1], -(-np.shape(h)[0] // up)
    before = -(-taps // down) * down
    x = extended(x, before, mode, cval)
    count = ((n - 1) * up + np.shape(h)[0] - 1) // down + 1
    start = before * up // down
    return _upfirdn(h, x, up, down)[..., start : start + count]


def _upfirdn(h, x, up=1, down=1, axis=-1, mode="constant", cval=0):
    """Sum each output over one phase of the filter."""
    h, x = as_array(h), np.moveaxis(as_array(x), axis, -1)
    if mode != "constant" or cval != 0:
        return np.moveaxis(extended_upfirdn(h, x, up, down, mode, cval), -1, axis)
    n, taps = np.shape(x)[-1], -(-np.shape(h)[0] // up)
    place = np.arange(((n - 1) * up + np.shape(h)[0] - 1) // down + 1) * down
    h = np.concatenate([h, np.zeros(taps * up - np.shape(h)[0], h.dtype)])
    coefficient = h[place[:, None] % up + up * np.arange(taps)]
    sample = place[:, None] // up - np.arange(taps)
    inside = (sample >= 0) & (sample < n)
    terms = np.where(inside, x[..., np.clip(sample, 0, n - 1)] * coefficient, 0)
    return np.moveaxis(np.sum(terms, axis=-1), -1, axis)


# ---- peaks


@locally_constant
def plain_peaks(x, options):
    return signal.find_peaks.__wrapped__(x, **options)


def _find_peaks(
    x,
    height=None,
    threshold=None,
    distance=None,
    prominence=None,
    width=None,
    wlen=None,
    rel_height=0.5,
    plateau_size=None,
):
    """Return plain peak indices; the properties are functions of the elements."""
    x = as_array(x)
    options = {"height": height, "threshold": threshold, "distance": distance, "prominence": prominence}
    options |= {"width": width, "wlen": wlen, "rel_height": rel_height, "plateau_size": plateau_size}
    peaks, found = plain_peaks(x, options)
    if "peak_heights" in found:
        found["peak_heights"] = x[peaks]
    if "left_thresholds" in found:
        found["left_thresholds"], found["right_thresholds"] = x[peaks] - x[peaks - 1], x[peaks] - x[peaks + 1]
    if "prominences" in found:
        found["prominences"] = prominences(x, peaks, found["left_bases"], found["right_bases"])
    if "widths" in found:
        found |= dict(zip(_WIDTHS, widths(x, peaks, rel_height, found["prominences"], *map(found.get, _WIDTHS[2:]))))
    return peaks, found


_WIDTHS = ("widths", "width_heights", "left_ips", "right_ips")


def prominences(x, peaks, left, right):
    return x[peaks] - np.maximum(x[left], x[right])


def widths(x, peaks, rel_height, prominence, left, right):
    """Return widths, heights, and ends interpolated between neighbouring samples."""
    height = x[peaks] - prominence * rel_height
    ends = []
    for outer, step in ((np.floor(left).astype(int), 1), (np.ceil(right).astype(int), -1)):
        rise = x[np.clip(outer + step, 0, len(x) - 1)] - x[outer]
        inside = x[outer] < height  # else the search ended at a base
        ends.append(outer + step * np.where(inside, (height - x[outer]) / np.where(inside, rise, 1.0), 0.0))
    return ends[1] - ends[0], height, *ends


@locally_constant
def plain_prominences(x, peaks, wlen):
    return signal.peak_prominences.__wrapped__(x, peaks, wlen)


@locally_constant
def plain_widths(x, peaks, rel_height, prominence_data, wlen):
    return signal.peak_widths.__wrapped__(x, peaks, rel_height, prominence_data, wlen)


def _peak_prominences(x, peaks, wlen=None):
    x = as_array(x)
    _, left, right = plain_prominences(x, peaks, wlen)
    return prominences(x, np.asarray(peaks), left, right), left, right


def _peak_widths(x, peaks, rel_height=0.5, prominence_data=None, wlen=None):
    x = as_array(x)
    prominence = (_peak_prominences(x, peaks, wlen) if prominence_data is None else prominence_data)[0]
    _, _, left, right = plain_widths(x, peaks, rel_height, prominence_data, wlen)
    return widths(x, np.asarray(peaks), rel_height, prominence, left, right)


# ---- roots


@locally_constant
def groups(p, tol):
    """Return the group number of each root; a group is the roots within `tol` of its first root."""
    p, found = np.asarray(p), np.full(len(p), -1)
    for i, first in enumerate(p):
        if found[i] < 0:
            found[(found < 0) & (np.abs(p - first) <= tol)] = np.max(found, initial=-1) + 1
    return found


_REDUCTIONS = {"max": np.max, "maximum": np.max, "min": np.min, "minimum": np.min, "avg": np.mean, "mean": np.mean}


def unique_roots(p, tol=1e-3, rtype="min"):
    if rtype not in _REDUCTIONS:
        raise ValueError(f"`rtype` must be one of {[*_REDUCTIONS]}")
    p = as_array(p)
    group = groups(p, tol)
    count = int(np.max(group, initial=-1)) + 1
    return np.stack([_REDUCTIONS[rtype](p[group == i]) for i in range(count)]), np.bincount(group, minlength=count)


#: functions without a derivative, and what to use instead
REFUSED = {
    "place_poles": "it iterates; solve for the gain with wengert.scipy.optimize.root",
    "remez": "it exchanges frequencies until convergence; use firls or firwin",
    "find_peaks_cwt": "it chooses ridges; use find_peaks for the places, and index the signal with them",
    "sepfir2d": "use scipy.signal.convolve2d",
    "symiirorder1": "use scipy.signal.lfilter forwards and backwards",
    "symiirorder2": "use scipy.signal.sosfilt forwards and backwards",
    **dict.fromkeys(("spline_filter", "cspline2d", "qspline2d"), "use scipy.ndimage.spline_filter"),
    "whittaker_henderson": "solve the penalised normal equations with scipy.linalg.solveh_banded",
    "closest_STFT_dual_window": "pass a plain window",
    **dict.fromkeys(
        ("buttord", "cheb1ord", "cheb2ord", "ellipord"), "its order is an integer; choose it with plain values"
    ),
    "iirdesign": "its order is an integer; use iirfilter",
    "band_stop_obj": "it is the objective of a search; use iirfilter",
}
#: functions that return indices, lengths or truth values, which are piecewise constant
CONSTANT = (
    "argrelextrema argrelmax argrelmin check_COLA check_NOLA choose_conv_method correlation_lags max_len_seq "
    "unit_impulse"
).split()
