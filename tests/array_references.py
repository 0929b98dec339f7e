"""More calls of SciPy with closed forms in mpmath: transforms, splines, signals, images, distances, statistics.

`CASES` has, by module and name, a function of an array, the same function of numbers in mpmath, and a point.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial.distance
import scipy.spatial.transform
import scipy.stats

from linalg_references import CASES as LINALG
from linalg_references import flat
from reference_forms import square, square_array, symmetric, symmetric_array, total, weighted

fft, integrate, interpolate, ndimage = scipy.fft, scipy.integrate, scipy.interpolate, scipy.ndimage
signal, sparse, distance, st = scipy.signal, scipy.sparse, scipy.spatial.distance, scipy.stats
Rotation = scipy.spatial.transform.Rotation

P3, P4, P5 = [0.3, 0.4, 0.7], [0.3, -1.2, 0.7, 2.1], [0.3, -1.2, 0.7, 2.1, 0.4]


# ---- Fourier transforms


def dft(x, sign=-1):
    n = len(x)
    return [mp.fsum(x[j] * mp.expj(sign * 2 * mp.pi * j * k / n) for j in range(n)) for k in range(n)]


def parts(y):
    y = list(y)
    return total(mp.re(value) for value in y) + total(mp.im(value) * 2 for value in y)


def weighted_parts(y):
    return weighted(y.real) + 2 * weighted(y.imag)


def trigonometric(kind, x):
    """Return a cosine or sine transform of a type, without normalisation, by its definition."""
    n, form = len(x), {
        "dct1": lambda k, n: [x[0] + (-1) ** k * x[-1]]
        + [2 * x[j] * mp.cos(mp.pi * j * k / (n - 1)) for j in range(1, n - 1)],
        "dct2": lambda k, n: [2 * x[j] * mp.cos(mp.pi * k * (2 * j + 1) / (2 * n)) for j in range(n)],
        "dct3": lambda k, n: [x[0]] + [2 * x[j] * mp.cos(mp.pi * (2 * k + 1) * j / (2 * n)) for j in range(1, n)],
        "dct4": lambda k, n: [2 * x[j] * mp.cos(mp.pi * (2 * k + 1) * (2 * j + 1) / (4 * n)) for j in range(n)],
        "dst1": lambda k, n: [2 * x[j] * mp.sin(mp.pi * (k + 1) * (j + 1) / (n + 1)) for j in range(n)],
        "dst2": lambda k, n: [2 * x[j] * mp.sin(mp.pi * (k + 1) * (2 * j + 1) / (2 * n)) for j in range(n)],
        "dst3": lambda k, n: [(-1) ** k * x[-1]]
        + [2 * x[j] * mp.sin(mp.pi * (2 * k + 1) * (j + 1) / (2 * n)) for j in range(n - 1)],
        "dst4": lambda k, n: [2 * x[j] * mp.sin(mp.pi * (2 * k + 1) * (2 * j + 1) / (4 * n)) for j in range(n)],
    }[kind]
    return [mp.fsum(form(k, n)) for k in range(n)]


FFT = {
    "fft": (lambda p: weighted_parts(fft.fft(p**2)), lambda *p: parts(dft([x * x for x in p])), P5),
    "ifft": (
        lambda p: weighted_parts(fft.ifft(p**2)),
        lambda *p: parts(y / 5 for y in dft([x * x for x in p], 1)),
        P5,
    ),
    "irfft": (
        lambda p: weighted(fft.irfft(p**2, 4)),
        lambda *p: total(mp.re(y) / 4 for y in dft([p[0] ** 2, p[1] ** 2, p[2] ** 2, p[1] ** 2], 1)),
        P3,
    ),
    "hfft": (
        lambda p: weighted(fft.hfft(p**2, 4)),
        lambda *p: total(mp.re(y) for y in dft([p[0] ** 2, p[1] ** 2, p[2] ** 2, p[1] ** 2], 1)),
        P3,
    ),
    "fft2": (
        lambda p: weighted_parts(fft.fft2((p**2).reshape(2, 2))),
        lambda *p: (lambda a, b, c, d: parts([a + b + c + d, a - b + c - d, a + b - c - d, a - b - c + d]))(
            *(x * x for x in p)
        ),
        P4,
    ),
    **{
        f"{kind[:3]} type {kind[3]}": (
            lambda p, kind=kind: weighted(getattr(fft, kind[:3])(p**2, int(kind[3]))),
            lambda *p, kind=kind: total(trigonometric(kind, [x * x for x in p])),
            P4,
        )
        for kind in ("dct1", "dct2", "dct3", "dct4", "dst1", "dst2", "dst3", "dst4")
    },
    "idct": (lambda p: weighted(fft.idct(fft.dct(p**2) * np.arange(4.0))), lambda *p: weighted_idct(p), P4),
}


def weighted_idct(p):
    n, y = 4, trigonometric("dct2", [x * x for x in p])
    return total(x / (2 * n) for x in trigonometric("dct3", [k * value for k, value in enumerate(y)]))


# ---- integrals of samples

INTEGRATE = {
    "trapezoid": (
        lambda p: integrate.trapezoid(p**2, x=np.cumsum(p**2)),
        lambda *p: mp.fsum((p[i] ** 2 + p[i + 1] ** 2) / 2 * p[i + 1] ** 2 for i in range(4)),
        P5,
    ),
    "cumulative_trapezoid": (
        lambda p: weighted(integrate.cumulative_trapezoid(p**2, dx=0.5)),
        lambda *p: total(
            mp.fsum((p[i] ** 2 + p[i + 1] ** 2) / 4 for i in range(k + 1)) for k in range(4)
        ),
        P5,
    ),
    "romb": (
        lambda p: integrate.romb(p**2, dx=0.5),
        lambda *p: (lambda y: (7 * y[0] + 32 * y[1] + 12 * y[2] + 32 * y[3] + 7 * y[4]) / 45)([x * x for x in p]),
        P5,
    ),
    "cumulative_simpson": (
        lambda p: integrate.cumulative_simpson(p**2, dx=1.0)[1],
        lambda *p: (p[0] ** 2 + 4 * p[1] ** 2 + p[2] ** 2) / 3,
        P5,
    ),
}


# ---- splines


def b_spline(i, k, t, x):
    """Return a B-spline at x (de Boor's recursion)."""
    if k == 0:
        return mp.mpf(1) if t[i] <= x < t[i + 1] else mp.mpf(0)
    left = (x - t[i]) / (t[i + k] - t[i]) * b_spline(i, k - 1, t, x) if t[i + k] > t[i] else 0
    if t[i + k + 1] > t[i + 1]:
        left += (t[i + k + 1] - x) / (t[i + k + 1] - t[i + 1]) * b_spline(i + 1, k - 1, t, x)
    return left


def spline(t, c, k, x):
    return mp.fsum(c[i] * b_spline(i, k, t, x) for i in range(len(c)))


def interpolating(x, y, t, k, at):
    """Evaluate the spline with knots t through y at x, the last of which is the last knot."""
    n = len(x)
    a = mp.matrix(n, n)
    for i in range(n):
        for j in range(n):
            a[i, j] = b_spline(j, k, t, x[i]) if i < n - 1 else mp.mpf(j == n - 1)
    return spline(t, list(mp.lu_solve(a, mp.matrix(y))), k, at)


def least_squares(x, y, t, k, at):
    n, m = len(x), len(t) - k - 1
    a = mp.matrix(n, m)
    for i in range(n):
        for j in range(m):
            a[i, j] = b_spline(j, k, t, x[i]) if x[i] < t[-1] else mp.mpf(j == m - 1)
    return spline(t, list(mp.lu_solve(a.T * a, a.T * mp.matrix(y))), k, at)


def hermite(x, y, d, at):
    i = max(j for j in range(len(x) - 1) if x[j] <= at)
    h, u = x[i + 1] - x[i], (at - x[i]) / (x[i + 1] - x[i])
    return (
        (1 + 2 * u) * (1 - u) ** 2 * y[i]
        + u * (1 - u) ** 2 * h * d[i]
        + u * u * (3 - 2 * u) * y[i + 1]
        + u * u * (u - 1) * h * d[i + 1]
    )


def clamped_slopes(y, h):
    """Return the slopes of the cubic spline through y, which are 0 at both ends."""
    n = len(y)
    a, b = mp.eye(n), mp.zeros(n, 1)
    for i in range(1, n - 1):
        a[i, i - 1], a[i, i], a[i, i + 1], b[i] = 1, 4, 1, 3 * (y[i + 1] - y[i - 1]) / h
    return list(mp.lu_solve(a, b))


def monotone_slope(h, m, g, k):
    """Return the weighted harmonic mean of two slopes (Fritsch and Butland)."""
    return (3 * (h + g)) / ((2 * g + h) / m + (g + 2 * h) / k)


def akima_slopes(m):
    """Return slopes at the inner points of five slopes of intervals (Akima)."""
    w, v = abs(m[3] - m[2]), abs(m[1] - m[0])
    return (w * m[1] + v * m[2]) / (w + v)


NOT_A_KNOT = [0, 0, 0, 0, 2, 4, 4, 4, 4]
KNOTS = [0, 0, 0, 0, 2, 5, 5, 5, 5]
RISING = [0.1, 0.7, 1.5, 1.9, 3.2]

INTERPOLATE = {
    "BSpline": (
        lambda p: interpolate.BSpline(np.concatenate([[0.0, 0, 0], p[5:6], [3.0, 3, 3]]), p[:4], 2)(p[4]),
        lambda *p: spline([0, 0, 0, p[5], 3, 3, 3], p[:4], 2, p[4]),
        [0.3, -1.2, 0.7, 2.1, 1.9, 1.4],
    ),
    "make_interp_spline": (
        lambda p: interpolate.make_interp_spline(np.arange(5), p[:5])(p[5]),
        lambda *p: interpolating(list(range(5)), p[:5], NOT_A_KNOT, 3, p[5]),
        [*P5, 2.3],
    ),
    "CubicSpline not-a-knot": (
        lambda p: interpolate.CubicSpline(np.arange(5), p[:5])(p[5]),
        lambda *p: interpolating(list(range(5)), p[:5], NOT_A_KNOT, 3, p[5]),
        [*P5, 2.3],
    ),
    "CubicSpline clamped": (
        lambda p: interpolate.CubicSpline(np.arange(5), p[:5], bc_type="clamped")(p[5]),
        lambda *p: hermite(list(range(5)), p[:5], clamped_slopes(p[:5], 1), p[5]),
        [*P5, 2.3],
    ),
    "CubicHermiteSpline": (
        lambda p: interpolate.CubicHermiteSpline(np.arange(3), p[:3], p[2:5])(p[5]),
        lambda *p: hermite([0, 1, 2], p[:3], p[2:5], p[5]),
        [*P5, 1.3],
    ),
    "PchipInterpolator": (
        lambda p: interpolate.PchipInterpolator(np.cumsum(p[:5]), np.cumsum(p[:5] ** 2))(p[5]),
        lambda *p: (
            lambda x, h, m: hermite(
                x,
                [mp.fsum(v * v for v in p[: i + 1]) for i in range(5)],
                [None, *(monotone_slope(h[i], m[i], h[i + 1], m[i + 1]) for i in range(3)), None],
                p[5],
            )
        )([mp.fsum(p[: i + 1]) for i in range(5)], p[1:5], p[1:5]),
        [0.4, 0.7, 0.9, 0.5, 1.1, 1.6],
    ),
    "Akima1DInterpolator": (
        lambda p: interpolate.Akima1DInterpolator(np.arange(6.0), p[:6])(p[6]),
        lambda *p: (
            lambda m: hermite(
                list(range(6)), p[:6], [None, None, akima_slopes(m[0:4]), akima_slopes(m[1:5]), None, None], p[6]
            )
        )([p[i + 1] - p[i] for i in range(5)]),
        [*P5, 1.3, 2.4],
    ),
    "BarycentricInterpolator": (
        lambda p: interpolate.BarycentricInterpolator(np.arange(4), p[:4])(p[4]),
        lambda *p: interpolating(list(range(4)), p[:4], [0, 0, 0, 0, 3, 3, 3, 3], 3, p[4]),
        [*P4, 1.3],
    ),
    "make_lsq_spline": (
        lambda p: interpolate.make_lsq_spline(np.arange(6.0), p[:6], np.array(KNOTS, dtype=float))(p[6]),
        lambda *p: least_squares(list(range(6)), p[:6], KNOTS, 3, p[6]),
        [*P5, 1.7, 2.4],
    ),
    "splev": (
        lambda p: interpolate.splev(p[4], (np.array([0.0, 0, 0, 0, 3, 3, 3, 3]), p[:4], 3)),
        lambda *p: spline([0, 0, 0, 0, 3, 3, 3, 3], p[:4], 3, p[4]),
        [*P4, 1.3],
    ),
    "splint": (
        lambda p: interpolate.splint(p[4], p[5], (np.array([0.0, 0, 0, 2, 2, 2]), p[:3], 2)),
        lambda *p: mp.quad(lambda x: spline([0, 0, 0, 2, 2, 2], p[:3], 2, x), [p[4], p[5]], method="gauss-legendre"),
        [0.3, -1.2, 0.7, 0.0, 0.2, 1.7],
    ),
    "PPoly": (
        lambda p: interpolate.PPoly(p[:3, None], p[3:5])(p[5]),
        lambda a, b, c, x0, x1, x: a * (x - x0) ** 2 + b * (x - x0) + c,
        [0.3, -1.2, 0.7, 0.1, 2.1, 1.3],
    ),
    "PPoly.integrate": (
        lambda p: interpolate.PPoly(p[:3, None], np.array([0.0, 3.0])).integrate(p[3], p[4]),
        lambda a, b, c, u, v: a * (v**3 - u**3) / 3 + b * (v * v - u * u) / 2 + c * (v - u),
        [0.3, -1.2, 0.7, 0.1, 2.1],
    ),
    "BPoly": (
        lambda p: interpolate.BPoly(p[:3, None], np.array([0.0, 2.0]))(p[3]),
        lambda a, b, c, x: a * (1 - x / 2) ** 2 + 2 * b * (1 - x / 2) * (x / 2) + c * (x / 2) ** 2,
        [0.3, -1.2, 0.7, 1.3],
    ),
    "interp1d": (
        lambda p: interpolate.interp1d(np.arange(4), p[:4])(p[4]),
        lambda *p: p[1] + (p[4] - 1) * (p[2] - p[1]),
        [*P4, 1.3],
    ),
    "RegularGridInterpolator": (
        lambda p: interpolate.RegularGridInterpolator((np.arange(2), np.arange(2)), p[:4].reshape(2, 2))(p[4:])[0],
        lambda a, b, c, d, x, y: a * (1 - x) * (1 - y) + b * (1 - x) * y + c * x * (1 - y) + d * x * y,
        [*P4, 0.3, 0.6],
    ),
    "RectBivariateSpline": (
        lambda p: interpolate.RectBivariateSpline([0, 1], [0, 1], p[:4].reshape(2, 2), kx=1, ky=1).ev(*p[4:]),
        lambda a, b, c, d, x, y: a * (1 - x) * (1 - y) + b * (1 - x) * y + c * x * (1 - y) + d * x * y,
        [*P4, 0.3, 0.6],
    ),
    "LinearNDInterpolator": (
        lambda p: interpolate.LinearNDInterpolator(np.array([[0.0, 0], [1, 0], [0, 1]]), p[:3])(p[None, 3:])[0],
        lambda a, b, c, x, y: a + x * (b - a) + y * (c - a),
        [0.3, -1.2, 0.7, 0.3, 0.6],
    ),
}


# ---- signals


def convolved(x, y):
    n = len(x) + len(y) - 1
    return [mp.fsum(x[j] * y[k - j] for j in range(len(x)) if 0 <= k - j < len(y)) for k in range(n)]


def second_order(b, a, x):
    """Return the result of a recursive filter of order 2, with a[0] = 1."""
    y = []
    for i in range(len(x)):
        value = mp.fsum(b[j] * x[i - j] for j in range(3) if i >= j)
        y.append(value - mp.fsum(a[j] * y[i - j] for j in (1, 2) if i >= j))
    return y


def analytic(x):
    n, y = len(x), dft(x)
    kept = [1, *[2] * ((n - 1) // 2), *([1] if n % 2 == 0 else []), *[0] * ((n - 1) // 2)]
    return [value / n for value in dft([w * value for w, value in zip(kept, y)], 1)]


def butterworth(w):
    """Return the gain and the pole of the digital low-pass filter of order 1."""
    k = mp.tan(mp.pi * w / 2)
    return [k / (1 + k), k / (1 + k), 1, (k - 1) / (k + 1)]


SIGNAL = {
    "convolve": (
        lambda p: weighted(signal.convolve(p[:3], p[3:])),
        lambda *p: total(convolved(p[:3], p[3:])),
        P5,
    ),
    "fftconvolve": (
        lambda p: weighted(signal.fftconvolve(p[:3], p[3:])),
        lambda *p: total(convolved(p[:3], p[3:])),
        P5,
    ),
    "correlate": (
        lambda p: weighted(signal.correlate(p[:3], p[3:])),
        lambda *p: total(convolved(p[:3], p[:2:-1])),
        P5,
    ),
    "lfilter of order 2": (
        lambda p: weighted(signal.lfilter(p[:3], np.concatenate([[1.0], p[3:5]]), p[5:])),
        lambda *p: total(second_order(p[:3], [1, *p[3:5]], p[5:])),
        [0.3, -0.4, 0.7, 0.2, 0.4, 1.2, 0.3, -0.8],
    ),
    "sosfilt": (
        lambda p: weighted(signal.sosfilt(np.concatenate([p[:3], [1.0], p[3:5]])[None], p[5:])),
        lambda *p: total(second_order(p[:3], [1, *p[3:5]], p[5:])),
        [0.3, -0.4, 0.7, 0.2, 0.4, 1.2, 0.3, -0.8],
    ),
    "hilbert": (
        lambda p: weighted_parts(signal.hilbert(p**2)),
        lambda *p: parts(analytic([x * x for x in p])),
        P5,
    ),
    "detrend": (
        lambda p: signal.detrend(p**2)[1],
        lambda *p: p[1] ** 2 - mean(x * x for x in p),
        P3,
    ),
    "savgol_filter": (
        lambda p: signal.savgol_filter(p**2, 5, 2)[2],
        lambda *p: mp.fsum(w * x * x for w, x in zip([-3, 12, 17, 12, -3], p)) / 35,
        P5,
    ),
    "periodogram": (
        lambda p: weighted(signal.periodogram(p, detrend=False, scaling="spectrum")[1]),
        lambda *p: total(
            abs(y) ** 2 * w / 16 for y, w in zip(dft(p)[:3], [1, 2, 1])
        ),
        P4,
    ),
    "upfirdn": (
        lambda p: weighted(signal.upfirdn(p[:2], p[2:], up=2)),
        lambda *p: total([p[0] * p[2], p[1] * p[2], p[0] * p[3], p[1] * p[3], p[0] * p[4], p[1] * p[4]]),
        P5,
    ),
    "butter": (
        lambda p: weighted(np.concatenate(signal.butter(1, p[0]))),
        lambda w: total(butterworth(w)),
        [0.3],
    ),
    "bilinear": (
        lambda p: weighted(np.concatenate(signal.bilinear(p[:2], np.stack([1 + 0 * p[2], p[2]])))),
        lambda b, c, a: total(
            [(2 * b + c) / (2 + a), (c - 2 * b) / (2 + a), 1, (a - 2) / (2 + a)]
        ),
        [0.3, 1.2, 0.7],
    ),
    "windows.gaussian": (
        lambda p: weighted(signal.windows.gaussian(5, p[0])),
        lambda s: total(mp.exp(-mp.mpf(k * k) / (2 * s * s)) for k in range(-2, 3)),
        [1.3],
    ),
    "windows.kaiser": (
        lambda p: weighted(signal.windows.kaiser(5, p[0])),
        lambda b: total(mp.besseli(0, b * mp.sqrt(1 - mp.mpf(k * k) / 4)) / mp.besseli(0, b) for k in range(-2, 3)),
        [1.3],
    ),
    "chirp": (
        lambda p: signal.chirp(p[0], p[1], p[2], p[3]),
        lambda t, f0, t1, f1: mp.cos(2 * mp.pi * (f0 * t + (f1 - f0) / (2 * t1) * t * t)),
        [0.7, 1.2, 2.1, 3.3],
    ),
    "gausspulse": (
        lambda p: signal.gausspulse(p[0], p[1], p[2]),
        lambda t, f, b: (
            mp.exp((mp.pi * f * b) ** 2 / (4 * mp.log(mp.mpf(10) ** (mp.mpf(-6) / 20))) * t * t)
            * mp.cos(2 * mp.pi * f * t)
        ),
        [0.07, 3.2, 0.6],
    ),
    "cont2discrete": (
        lambda p: weighted(signal.cont2discrete((square_array(p), p[1:, None], np.eye(2), np.zeros((2, 1))), 0.5)[0]),
        lambda *p: total(flat(mp.expm(square(p) / 2))),
        P3,
    ),
    "tf2zpk": (
        lambda p: weighted(np.sort(signal.tf2zpk(np.stack([1 + 0 * p[0], p[0], p[1]]), np.ones(1))[0].real)),
        lambda b, c: total([(-b - mp.sqrt(b * b - 4 * c)) / 2, (-b + mp.sqrt(b * b - 4 * c)) / 2]),
        [3.0, 0.7],
    ),
}


# ---- images


def mirrored(x, i):
    n = len(x)
    i = abs(i) % (2 * n - 2)
    return x[i if i < n else 2 * n - 2 - i]


def cubic(u):
    u = abs(u)
    return mp.mpf(2) / 3 - u * u * (2 - u) / 2 if u < 1 else (2 - u) ** 3 / 6 if u < 2 else mp.mpf(0)


def quadratic(u):
    u = abs(u)
    return mp.mpf(3) / 4 - u * u if u < 0.5 else (mp.mpf(3) / 2 - u) ** 2 / 2 if u < 1.5 else mp.mpf(0)


def spline_of_image(x, c, basis):
    """Evaluate at c the spline through x that is mirrored at both ends."""
    n = len(x)
    a = mp.matrix(n, n)
    for i in range(n):
        for k in range(-2, n + 2):
            j = abs(k) % (2 * n - 2)
            a[i, j if j < n else 2 * n - 2 - j] += basis(mp.mpf(i - k))
    weights = list(mp.lu_solve(a, mp.matrix(x)))
    return mp.fsum(mirrored(weights, k) * basis(c - k) for k in range(-2, n + 2))


NDIMAGE = {
    "map_coordinates of order 2": (
        lambda p: ndimage.map_coordinates(p[:4], p[None, 4:], order=2, mode="mirror")[0],
        lambda *p: spline_of_image(p[:4], p[4], quadratic),
        [*P4, 1.3],
    ),
    "map_coordinates of order 3": (
        lambda p: ndimage.map_coordinates(p[:4], p[None, 4:], order=3, mode="mirror")[0],
        lambda *p: spline_of_image(p[:4], p[4], cubic),
        [*P4, 1.3],
    ),
    "shift": (
        lambda p: ndimage.shift(p[:4], p[4], order=3, mode="mirror")[2],
        lambda *p: spline_of_image(p[:4], 2 - p[4], cubic),
        [*P4, 0.3],
    ),
    "spline_filter1d": (
        lambda p: ndimage.spline_filter1d(p**2, mode="mirror") @ np.array([0.0, 1 / 6, 2 / 3, 1 / 6]),
        lambda *p: p[2] ** 2,
        P4,
    ),
    "correlate1d": (
        lambda p: weighted(ndimage.correlate1d(p[:4], p[4:], mode="mirror")),
        lambda *p: total(mp.fsum(p[4 + k] * mirrored(p[:4], i + k - 1) for k in range(3)) for i in range(4)),
        [*P4, 0.2, 0.5, -0.3],
    ),
    "laplace": (
        lambda p: weighted(ndimage.laplace(p**2, mode="mirror")),
        lambda *p: (
            lambda y: total(mirrored(y, i - 1) - 2 * y[i] + mirrored(y, i + 1) for i in range(4))
        )([x * x for x in p]),
        P4,
    ),
    "uniform_filter1d": (
        lambda p: weighted(ndimage.uniform_filter1d(p**2, 3, mode="mirror")),
        lambda *p: (
            lambda y: total((mirrored(y, i - 1) + y[i] + mirrored(y, i + 1)) / 3 for i in range(4))
        )([x * x for x in p]),
        P4,
    ),
    "center_of_mass": (
        lambda p: ndimage.center_of_mass(p**2)[0],
        lambda *p: mp.fsum(i * x * x for i, x in enumerate(p)) / mp.fsum(x * x for x in p),
        P4,
    ),
    "standard_deviation": (
        lambda p: ndimage.standard_deviation(p**2),
        lambda *p: deviation([x * x for x in p]),
        P4,
    ),
}


# ---- distances and rotations


def mean(x):
    x = list(x)
    return mp.fsum(x) / len(x)


def moment(x, k):
    m = mean(x)
    return mean((v - m) ** k for v in x)


def deviation(x):
    return mp.sqrt(moment(x, 2))


def metric(name, form, *rest):
    def f(p):
        return getattr(distance, name)(p[:3], p[3:], *rest)

    def pairs(*p):
        return form(list(zip(p[:3], p[3:])))

    return f, pairs, [0.3, 1.2, 0.7, 0.9, 0.4, 0.2]


def entropy_of_pair(pairs):
    a, b = mp.fsum(x for x, _ in pairs), mp.fsum(y for _, y in pairs)
    found = mp.fsum(
        x / a * mp.log(2 * (x / a) / (x / a + y / b)) + y / b * mp.log(2 * (y / b) / (x / a + y / b)) for x, y in pairs
    )
    return mp.sqrt(found / 2)


def correlation(x, y):
    a, b = mean(x), mean(y)
    inner = mp.fsum((u - a) * (v - b) for u, v in zip(x, y))
    return inner / mp.sqrt(mp.fsum((u - a) ** 2 for u in x) * mp.fsum((v - b) ** 2 for v in y))


def quaternion_product(p, q):
    x, y, z, w = p
    a, b, c, d = q
    return [
        w * a + x * d + y * c - z * b,
        w * b - x * c + y * d + z * a,
        w * c + x * b - y * a + z * d,
        w * d - x * a - y * b - z * c,
    ]


SPATIAL = {
    "distance.euclidean": metric("euclidean", lambda d: mp.sqrt(mp.fsum((x - y) ** 2 for x, y in d))),
    "distance.sqeuclidean": metric("sqeuclidean", lambda d: mp.fsum((x - y) ** 2 for x, y in d)),
    "distance.cityblock": metric("cityblock", lambda d: mp.fsum(abs(x - y) for x, y in d)),
    "distance.chebyshev": metric("chebyshev", lambda d: max(abs(x - y) for x, y in d)),
    "distance.canberra": metric("canberra", lambda d: mp.fsum(abs(x - y) / (x + y) for x, y in d)),
    "distance.braycurtis": metric(
        "braycurtis", lambda d: mp.fsum(abs(x - y) for x, y in d) / mp.fsum(x + y for x, y in d)
    ),
    "distance.correlation": metric(
        "correlation", lambda d: 1 - correlation([x for x, _ in d], [y for _, y in d])
    ),
    "distance.jensenshannon": metric("jensenshannon", entropy_of_pair),
    "distance.seuclidean": metric(
        "seuclidean",
        lambda d: mp.sqrt(mp.fsum((x - y) ** 2 / v for (x, y), v in zip(d, (mp.mpf(1), mp.mpf(2), mp.mpf(4))))),
        np.array([1.0, 2.0, 4.0]),
    ),
    "distance.mahalanobis": metric(
        "mahalanobis",
        lambda d: mp.sqrt(mp.fsum((x - y) ** 2 * v for (x, y), v in zip(d, (mp.mpf(1), mp.mpf(2), mp.mpf(4))))),
        np.diag([1.0, 2.0, 4.0]),
    ),
    "distance.cdist": (
        lambda p: weighted(distance.cdist(p[:4].reshape(2, 2), p[2:].reshape(2, 2))),
        lambda *p: mp.hypot(p[0] - p[2], p[1] - p[3])
        + 2 * mp.hypot(p[0] - p[4], p[1] - p[5])
        + 4 * mp.hypot(p[2] - p[4], p[3] - p[5]),
        [0.3, -1.2, 0.7, 2.1, 0.4, 0.9],
    ),
    "Rotation.as_quat": (
        lambda p: weighted((Rotation.from_quat(p[:4]) * Rotation.from_quat(p[4:])).as_quat()),
        lambda *p: (
            lambda q: total(x / mp.sqrt(mp.fsum(y * y for y in q)) for x in q)
        )(quaternion_product(p[:4], p[4:])),
        [0.3, -0.2, 0.7, 2.1, 0.4, 0.9, -0.3, 1.4],
    ),
    "Rotation.magnitude": (
        lambda p: Rotation.from_quat(p).magnitude(),
        lambda x, y, z, w: 2 * mp.atan2(mp.sqrt(x * x + y * y + z * z), w),
        [0.3, -0.2, 0.7, 2.1],
    ),
    "Rotation.from_euler": (
        lambda p: weighted(Rotation.from_euler("z", p[0]).apply(p[1:])),
        lambda a, x, y, z: total([x * mp.cos(a) - y * mp.sin(a), x * mp.sin(a) + y * mp.cos(a), z]),
        [0.7, 0.3, -1.2, 2.1],
    ),
}


# ---- statistics of samples


def slope(x, y):
    a, b = mean(x), mean(y)
    return mp.fsum((u - a) * (v - b) for u, v in zip(x, y)) / mp.fsum((u - a) ** 2 for u in x)


def student(x, y):
    """Return the statistic of a t-test with equal variances."""
    m, n = len(x), len(y)
    pooled = (m * moment(x, 2) + n * moment(y, 2)) / (m + n - 2)
    return (mean(x) - mean(y)) / mp.sqrt(pooled * (mp.mpf(1) / m + mp.mpf(1) / n))


def two_sided(t, df):
    df = mp.mpf(df)
    return mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + t * t), regularized=True)


def box_cox(x, k):
    return (x**k - 1) / k


POSITIVE = [0.8, 1.9, 0.5, 2.3, 1.1]
STATS = {
    "gmean": (lambda p: st.gmean(p), lambda *p: mp.exp(mean(map(mp.log, p))), POSITIVE),
    "hmean": (lambda p: st.hmean(p), lambda *p: 1 / mean(1 / x for x in p), POSITIVE),
    "pmean": (lambda p: st.pmean(p, 3), lambda *p: mp.cbrt(mean(x**3 for x in p)), POSITIVE),
    "skew": (lambda p: st.skew(p), lambda *p: moment(p, 3) / moment(p, 2) ** mp.mpf(1.5), POSITIVE),
    "kurtosis": (lambda p: st.kurtosis(p), lambda *p: moment(p, 4) / moment(p, 2) ** 2 - 3, POSITIVE),
    "moment": (lambda p: st.moment(p, 3), lambda *p: moment(p, 3), POSITIVE),
    "variation": (lambda p: st.variation(p), lambda *p: deviation(p) / mean(p), POSITIVE),
    "sem": (lambda p: st.sem(p), lambda *p: mp.sqrt(moment(p, 2) / 4), POSITIVE),
    "zscore": (
        lambda p: weighted(st.zscore(p)),
        lambda *p: total((x - mean(p)) / deviation(p) for x in p),
        POSITIVE,
    ),
    "kstat": (lambda p: st.kstat(p, 3), lambda *p: mp.mpf(25) / 12 * moment(p, 3), POSITIVE),
    "entropy": (
        lambda p: st.entropy(p),
        lambda *p: -mp.fsum(x / mp.fsum(p) * mp.log(x / mp.fsum(p)) for x in p),
        POSITIVE,
    ),
    "boxcox": (
        lambda p: weighted(st.boxcox(p[:5], p[5])),
        lambda *p: total(box_cox(x, p[5]) for x in p[:5]),
        [*POSITIVE, 0.4],
    ),
    "boxcox_llf": (
        lambda p: st.boxcox_llf(p[5], p[:5]),
        lambda *p: (p[5] - 1) * mp.fsum(map(mp.log, p[:5]))
        - mp.mpf(5) / 2 * mp.log(moment([box_cox(x, p[5]) for x in p[:5]], 2)),
        [*POSITIVE, 0.4],
    ),
    "yeojohnson": (
        lambda p: weighted(st.yeojohnson(p[:5], p[5])),
        lambda *p: total(box_cox(1 + x, p[5]) for x in p[:5]),
        [*POSITIVE, 0.4],
    ),
    "pearsonr": (
        lambda p: st.pearsonr(p[:4], p[4:])[0],
        lambda *p: correlation(p[:4], p[4:]),
        [*POSITIVE, 1.7, 0.3, 2.2],
    ),
    "linregress": (
        lambda p: st.linregress(p[:4], p[4:]).slope,
        lambda *p: slope(p[:4], p[4:]),
        [*POSITIVE, 1.7, 0.3, 2.2],
    ),
    "ttest_ind": (
        lambda p: st.ttest_ind(p[:4], p[4:]).statistic + st.ttest_ind(p[:4], p[4:]).pvalue,
        lambda *p: student(p[:4], p[4:]) + two_sided(student(p[:4], p[4:]), 6),
        [*POSITIVE, 1.7, 0.3, 2.2],
    ),
    "ttest_1samp": (
        lambda p: st.ttest_1samp(p[:5], p[5]).statistic,
        lambda *p: (mean(p[:5]) - p[5]) / mp.sqrt(moment(p[:5], 2) / 4),
        [*POSITIVE, 1.7],
    ),
    "f_oneway": (
        lambda p: st.f_oneway(p[:4], p[4:]).statistic,
        lambda *p: student(p[:4], p[4:]) ** 2,
        [*POSITIVE, 1.7, 0.3, 2.2],
    ),
    "gaussian_kde": (
        lambda p: st.gaussian_kde(p[:5], bw_method=0.5)(p[5])[0],
        lambda *p: (
            lambda s: mean(mp.npdf(p[5], x, s) for x in p[:5])
        )(mp.sqrt(moment(p[:5], 2) * 5 / 4) / 2),
        [*POSITIVE, 1.7],
    ),
    "multivariate_t.logpdf": (
        lambda p: st.multivariate_t.logpdf(p[:2], np.zeros(2), symmetric_array(p[1:]), 4.0),
        lambda *p: mp.loggamma(3)
        - mp.loggamma(2)
        - mp.log(4 * mp.pi)
        - mp.log(mp.det(symmetric(p[1:]))) / 2
        - 3 * mp.log1p((mp.matrix([p[:2]]) * mp.inverse(symmetric(p[1:])) * mp.matrix(p[:2]))[0] / 4),
        [0.3, 0.4, 0.7, 0.9],
    ),
    "dirichlet.logpdf": (
        lambda p: st.dirichlet.logpdf(np.array([0.2, 0.3, 0.5]), p),
        lambda *p: mp.loggamma(mp.fsum(p))
        - mp.fsum(map(mp.loggamma, p))
        + mp.fsum((a - 1) * mp.log(mp.mpf(x)) for a, x in zip(p, (0.2, 0.3, 0.5))),
        [1.3, 0.8, 2.1],
    ),
    "wishart.logpdf": (
        lambda p: st.wishart.logpdf(symmetric_array(p), 4.0, np.eye(2)),
        lambda *p: mp.log(mp.det(symmetric(p))) / 2
        - (5 + p[0] + p[2]) / 2
        - 4 * mp.log(2)
        - mp.log(mp.pi) / 2
        - mp.loggamma(2)
        - mp.loggamma(mp.mpf(3) / 2),
        P3,
    ),
    "multinomial.logpmf": (
        lambda p: st.multinomial.logpmf([2, 1, 3], 6, np.stack([p[0], p[1], 1 - p[0] - p[1]])),
        lambda a, b: mp.log(60) + 2 * mp.log(a) + mp.log(b) + 3 * mp.log(1 - a - b),
        [0.2, 0.3],
    ),
}

CASES = {
    "linalg": LINALG,
    "fft": FFT,
    "integrate": INTEGRATE,
    "interpolate": INTERPOLATE,
    "ndimage": NDIMAGE,
    "signal": SIGNAL,
    "spatial": SPATIAL,
    "stats": STATS,
}
