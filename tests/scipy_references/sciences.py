"""Closed forms of `scipy.fft`, `integrate`, `interpolate`, `ndimage`, `sparse.linalg` and `spatial`."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.ndimage
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial.distance
import scipy.spatial.transform

from .engine import Row
from .linalg import matrix, tridiagonal, vector

fft, integrate, interpolate, ndimage = scipy.fft, scipy.integrate, scipy.interpolate, scipy.ndimage
sparse, distance, Rotation = scipy.sparse, scipy.spatial.distance, scipy.spatial.transform.Rotation

P4, P5, P6 = [0.3, -1.2, 0.7, 2.1], [0.3, -1.2, 0.7, 2.1, 0.4], [0.3, -1.2, 0.7, 2.1, 0.4, 2.3]
OTHER = (1.1, 0.7, -0.4)


# ---- Fourier transforms


def fourier(x, sign=-1):
    n = len(x)
    return [mp.fsum(x[j] * mp.expj(sign * 2 * mp.pi * j * k / n) for j in range(n)) for k in range(n)]


def fourier2(x):
    rows = [fourier(row) for row in x]
    return list(zip(*map(fourier, zip(*rows))))


def inverse_fourier(x):
    return [y / len(x) for y in fourier(x, 1)]


def squares(x):
    return [abs(y) ** 2 for y in x]


def cosines(x, kind):
    """Return the transforms of types 1 to 4 (Makhoul 1980, as in FFTW)."""
    n = len(x)
    if kind == 1:
        inner = [[2 * mp.cos(mp.pi * j * k / (n - 1)) for j in range(1, n - 1)] for k in range(n)]
        return [x[0] + (-1) ** k * x[-1] + mp.fdot(inner[k], x[1:-1]) for k in range(n)]
    if kind == 3:
        return [
            x[0] + 2 * mp.fsum(x[j] * mp.cos(mp.pi * j * (2 * k + 1) / (2 * n)) for j in range(1, n)) for k in range(n)
        ]
    shift = 0 if kind == 2 else 1
    return [
        2 * mp.fsum(x[j] * mp.cos(mp.pi * (2 * k + shift) * (2 * j + 1) / (4 * n)) for j in range(n)) for k in range(n)
    ]


def sines(x, kind):
    n = len(x)
    if kind == 1:
        return [
            2 * mp.fsum(x[j] * mp.sin(mp.pi * (j + 1) * (k + 1) / (n + 1)) for j in range(n)) for k in range(n)
        ]
    if kind == 3:
        rest = [
            2 * mp.fsum(x[j] * mp.sin(mp.pi * (j + 1) * (2 * k + 1) / (2 * n)) for j in range(n - 1)) for k in range(n)
        ]
        return [(-1) ** k * x[-1] + rest[k] for k in range(n)]
    shift = 2 if kind == 2 else 1
    return [
        2 * mp.fsum(x[j] * mp.sin(mp.pi * (2 * k + shift) * (2 * j + 1) / (4 * n)) for j in range(n)) for k in range(n)
    ]


def transform(fun, form, point=P4, **options):
    """Return the row of the squares of a linear transform, which have second derivatives."""
    return Row(lambda p: np.abs(fun(p)) ** 2, lambda *p: squares(form(p)), point, **options)


def pairs(p):
    return [(p[0], p[1]), (p[2], p[3])]


FFT = {
    "fft": {"": transform(fft.fft, fourier), "odd": transform(fft.fft, fourier, P5)},
    "ifft": {"": transform(fft.ifft, inverse_fourier)},
    "rfft": {"": transform(fft.rfft, lambda x: fourier(x)[:3]), "odd": transform(fft.rfft, lambda x: fourier(x)[:3], P5)},
    "irfft": {
        "": transform(
            lambda p: fft.irfft(p[:3] + 1j * p[[4, 3, 4]] * np.array([0, 1, 0]), 4),
            lambda x: inverse_fourier([x[0], x[1] + 1j * x[3], x[2], x[1] - 1j * x[3]]),
            P5,
        )
    },
    "hfft": {"": transform(lambda p: fft.hfft(p[:3]), lambda x: fourier([x[0], x[1], x[2], x[1]]), P4[:3])},
    "ihfft": {"": transform(fft.ihfft, lambda x: inverse_fourier(x)[:3])},
    "fft2": {"": transform(lambda p: fft.fft2(p.reshape(2, 2)).ravel(), lambda x: sum(map(list, fourier2(pairs(x))), []))},
    "ifftn": {
        "": transform(
            lambda p: 4 * fft.ifftn(p.reshape(2, 2)).ravel(), lambda x: sum(map(list, fourier2(pairs(x))), [])
        )
    },
    "dct": {str(k): transform(lambda p, k=k: fft.dct(p, k), lambda x, k=k: cosines(x, k)) for k in (1, 2, 3, 4)},
    "dst": {str(k): transform(lambda p, k=k: fft.dst(p, k), lambda x, k=k: sines(x, k)) for k in (1, 2, 3, 4)},
    "idct": {
        str(k): transform(
            lambda p, k=k: fft.idct(p, k), lambda x, k=k: [y / (6 if k == 1 else 8) for y in cosines(x, k)]
        )
        for k in (1, 4)
    }
    | {"2": transform(fft.idct, lambda x: [y / 8 for y in cosines(x, 3)])},
    "idst": {"2": transform(fft.idst, lambda x: [y / 8 for y in sines(x, 3)])},
    "dctn": {
        "": transform(
            lambda p: fft.dctn(p.reshape(2, 2)).ravel(),
            lambda x: sum(map(list, zip(*(cosines(c, 2) for c in zip(*(cosines(r, 2) for r in pairs(x)))))), []),
        )
    },
    "fftshift": {"": Row(lambda p: fft.fftshift(p) ** 2, lambda *p: [x * x for x in (*p[2:], *p[:2])], P4)},
}


# ---- integration


def simpson(y, x):
    """Integrate by parabolas through three points each."""
    found = []
    for i in range(0, len(y) - 2, 2):
        h, k = x[i + 1] - x[i], x[i + 2] - x[i + 1]
        found.append((h + k) / 6 * ((2 - k / h) * y[i] + (h + k) ** 2 / (h * k) * y[i + 1] + (2 - h / k) * y[i + 2]))
    return mp.fsum(found)


def gauss(f, a, b):
    nodes = [mp.findroot(lambda x: mp.legendre(4, x), guess) for guess in (-0.86, -0.34, 0.34, 0.86)]
    weights = [2 * (1 - x * x) / (5 * mp.legendre(5, x)) ** 2 for x in nodes]
    return (b - a) / 2 * mp.fsum(w * f((b - a) / 2 * x + (a + b) / 2) for w, x in zip(weights, nodes))


def trapezoids(y, x):
    return [(x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2 for i in range(len(y) - 1)]


def places(p):
    return list(itertools.accumulate(p))


INTEGRATE = {
    "fixed_quad": {
        "": Row(
            lambda p: integrate.fixed_quad(lambda x: np.exp(-p[0] * x) * x, p[1], p[2], n=4)[0],
            lambda k, a, b: gauss(lambda x: mp.exp(-k * x) * x, a, b),
            [0.8, 0.2, 1.9],
        )
    },
    "simpson": {
        "": Row(
            lambda p: integrate.simpson(p[:3], x=np.cumsum(p[2:])),
            lambda *p: simpson(p[:3], places(p[2:])),
            [0.3, 1.2, 0.7, 0.5, 0.9],
        ),
        "even": Row(
            lambda p: integrate.simpson(p[:4] ** 2, dx=p[4]),
            lambda *p: _simpson_even([x * x for x in p[:4]], p[4]),
            P5,
            second=1e-12,
        ),
    },
    "trapezoid": {
        "": Row(
            lambda p: integrate.trapezoid(p[:3], x=np.cumsum(p[2:])),
            lambda *p: mp.fsum(trapezoids(p[:3], places(p[2:]))),
            P5,
        )
    },
    "cumulative_trapezoid": {
        "": Row(
            lambda p: integrate.cumulative_trapezoid(p[:3], x=np.cumsum(p[2:])),
            lambda *p: places(trapezoids(p[:3], places(p[2:]))),
            P5,
        )
    },
    "cumulative_simpson": {
        "": Row(
            lambda p: integrate.cumulative_simpson(p[:3] ** 2, dx=p[3]),
            lambda *p: _cumulative_simpson([x * x for x in p[:3]], p[3]),
            P4,
        )
    },
    "romb": {
        "": Row(
            lambda p: integrate.romb(p**2, dx=0.5),
            lambda *p: mp.fdot((7, 32, 12, 32, 7), [x * x for x in p]) / 45,
            P5,
        )
    },
}


def _cumulative_simpson(y, h):
    first = h / 12 * (5 * y[0] + 8 * y[1] - y[2])
    return [first, h / 3 * (y[0] + 4 * y[1] + y[2])]


def _simpson_even(y, h):
    """Apply Simpson's rule to the first interval pair, and to the last interval the parabola through its neighbours."""
    return h / 3 * (y[0] + 4 * y[1] + y[2]) + h / 12 * (5 * y[3] + 8 * y[2] - y[1])


# ---- interpolation


def cubic(x, y, d, at):
    """Evaluate the cubic with values y and slopes d at the ends of the interval that contains `at`."""
    i = max(k for k in range(len(x) - 1) if k == 0 or x[k] <= at)
    h = x[i + 1] - x[i]
    u = (at - x[i]) / h
    v = 1 - u
    return v * v * ((1 + 2 * u) * y[i] + u * h * d[i]) + u * u * ((1 + 2 * v) * y[i + 1] - v * h * d[i + 1])


def spline_slopes(x, y, kind):
    """Return the slopes of the cubic spline with two continuous derivatives."""
    n = len(x)
    h = [x[i + 1] - x[i] for i in range(n - 1)]
    s = [(y[i + 1] - y[i]) / h[i] for i in range(n - 1)]
    a, b = mp.zeros(n), mp.zeros(n, 1)
    for i in range(1, n - 1):
        a[i, i - 1], a[i, i], a[i, i + 1] = h[i], 2 * (h[i - 1] + h[i]), h[i - 1]
        b[i] = 3 * (h[i] * s[i - 1] + h[i - 1] * s[i])
    for i, k, j in ((0, 0, 1), (n - 1, n - 2, n - 2)):
        if kind == "natural":
            a[i, i], a[i, j], b[i] = 2, 1, 3 * s[k]
        elif kind == "clamped":
            a[i, i] = 1
        else:  # a third derivative without a jump: (d0 + d1 - 2 s0) / h0^2 = (d1 + d2 - 2 s1) / h1^2
            first, second = (0, 1) if i == 0 else (n - 2, n - 3)
            near, far = (1, 2) if i == 0 else (n - 2, n - 3)
            u, v = h[first] ** -2, h[second] ** -2
            a[i, i], a[i, near], a[i, far], b[i] = u, u - v, -v, 2 * (u * s[first] - v * s[second])
    return list(mp.lu_solve(a, b))


def pchip_slopes(x, y):
    """Return the slopes of Fritsch and Butland (1984), for data without changes of sign at the ends."""
    n = len(x)
    h = [x[i + 1] - x[i] for i in range(n - 1)]
    s = [(y[i + 1] - y[i]) / h[i] for i in range(n - 1)]
    d = [((2 * h[0] + h[1]) * s[0] - h[0] * s[1]) / (h[0] + h[1])]
    for i in range(1, n - 1):
        u, v = 2 * h[i] + h[i - 1], h[i] + 2 * h[i - 1]
        d.append((u + v) / (u / s[i - 1] + v / s[i]) if s[i - 1] * s[i] > 0 else mp.mpf(0))
    return [*d, ((2 * h[-1] + h[-2]) * s[-1] - h[-1] * s[-2]) / (h[-1] + h[-2])]


def akima_slopes(x, y):
    s = [(y[i + 1] - y[i]) / (x[i + 1] - x[i]) for i in range(len(x) - 1)]
    s = [3 * s[0] - 2 * s[1], 2 * s[0] - s[1], *s, 2 * s[-1] - s[-2], 3 * s[-1] - 2 * s[-2]]
    d = []
    for i in range(len(x)):
        u, v = abs(s[i + 3] - s[i + 2]), abs(s[i + 1] - s[i])
        d.append((u * s[i + 1] + v * s[i + 2]) / (u + v))
    return d


def lagrange(x, y, at):
    n = len(y)
    return mp.fsum(y[i] * mp.fprod((at - x[j]) / (x[i] - x[j]) for j in range(n) if j != i) for i in range(n))


def linear(x, y, at):
    i = max(k for k in range(len(x) - 1) if k == 0 or x[k] <= at)
    return y[i] + (at - x[i]) / (x[i + 1] - x[i]) * (y[i + 1] - y[i])


def basis(t, k, i, at):
    """Evaluate a B-spline by the recurrence of Cox and de Boor."""
    if k == 0:
        return mp.mpf(int(t[i] <= at < t[i + 1]))
    found = mp.mpf(0)
    if t[i + k] != t[i]:
        found += (at - t[i]) / (t[i + k] - t[i]) * basis(t, k - 1, i, at)
    if t[i + k + 1] != t[i + 1]:
        found += (t[i + k + 1] - at) / (t[i + k + 1] - t[i + 1]) * basis(t, k - 1, i + 1, at)
    return found


def b_spline(t, c, k, at):
    return mp.fsum(c[i] * basis(t, k, i, at) for i in range(len(t) - k - 1))


def radial(d, at, kernel):
    """Evaluate the radial interpolant of d at 0, 1, 2, ..."""
    n = len(d)
    a = mp.matrix([[kernel(abs(mp.mpf(i - j))) for j in range(n)] for i in range(n)])
    c = mp.lu_solve(a, vector(d))
    return mp.fsum(c[i] * kernel(abs(at - i)) for i in range(n))


def least_squares(x, y, t, k, at):
    a = mp.matrix([[basis(t, k, i, place) for i in range(len(t) - k - 1)] for place in x])
    return b_spline(t, mp.lu_solve(a.T * a, a.T * vector(y)), k, at)


def at_knots(n):
    return list(map(mp.mpf, range(n)))


GRID = (0.0, 0.7, 1.8, 2.5, 4.0)


def through(fun, form, point=P6, **options):
    """Return rows of an interpolator through five points, as a function of data, place and places of the data."""
    data, at = point[:-1], point[-1]
    gaps = [0.7, 1.1, 0.7, 1.5][: len(data) - 1]
    n = len(data)

    def of_places(*p):
        x = [mp.mpf(0), *places(p[n + 1 :])]
        return form(x, p[:n], p[n])

    first = np.zeros(1)
    return {
        "": Row(lambda p: fun(np.concatenate([first, np.cumsum(p[n + 1 :])]), p[:n], p[n]), of_places, [*data, at, *gaps], **options),
        "at a knot": Row(
            lambda p: fun(np.arange(float(n)), p, 2.0), lambda *p: form(at_knots(n), p, mp.mpf(2)), data, **options
        ),
    }


def spline_rows(kind):
    return through(
        lambda x, y, at: interpolate.CubicSpline(x, y, bc_type=kind)(at),
        lambda x, y, at: cubic(x, y, spline_slopes(x, y, kind), at),
    )


KERNELS = {
    "gaussian": lambda r: mp.exp(-r * r),
    "multiquadric": lambda r: -mp.sqrt(1 + r * r),
    "inverse_multiquadric": lambda r: 1 / mp.sqrt(1 + r * r),
    "inverse_quadratic": lambda r: 1 / (1 + r * r),
    "linear": lambda r: -r,
    "cubic": lambda r: r**3,
    "quintic": lambda r: -(r**5),
    "thin_plate_spline": lambda r: r * r * mp.log(r) if r else mp.mpf(0),
}


def kernel_row(name):
    return Row(
        lambda p: interpolate.RBFInterpolator(np.arange(4.0)[:, None], p[:4], kernel=name, epsilon=1.0, degree=-1)(
            p[None, 4:]
        )[0],
        lambda *p: radial(p[:4], p[4], KERNELS[name]),
        [*P4, 1.3],
        second=1e-12,
    )


KNOTS = [0.0, 0.0, 0.0, 0.0, 1.5, 4.0, 4.0, 4.0, 4.0]
MONOTONE = [0.3, 0.5, 1.7, 2.1, 2.4, 2.2]


def bilinear(z, x, y):
    i, j = int(x), int(y)
    u, v = x - i, y - j
    return (1 - u) * ((1 - v) * z[i][j] + v * z[i][j + 1]) + u * ((1 - v) * z[i + 1][j] + v * z[i + 1][j + 1])


def grids(p):
    return [[p[0], p[1]], [p[2], p[3]]]


INTERPOLATE = {
    "CubicSpline": {
        f"{kind}{', ' * bool(label)}{label}": row
        for kind in ("natural", "clamped", "not-a-knot")
        for label, row in spline_rows(kind).items()
    }
    | {
        "derivative": Row(
            lambda p: interpolate.CubicSpline(np.arange(5), p[:5], bc_type="natural")(p[5], 1),
            lambda *p: mp.diff(lambda at: cubic(at_knots(5), p[:5], spline_slopes(at_knots(5), p[:5], "natural"), at), p[5]),
            P6,
            order=1,
        ),
    },
    "PchipInterpolator": through(
        lambda x, y, at: interpolate.PchipInterpolator(x, y)(at),
        lambda x, y, at: cubic(x, y, pchip_slopes(x, y), at),
        MONOTONE,
    ),
    "Akima1DInterpolator": through(
        lambda x, y, at: interpolate.Akima1DInterpolator(x, y)(at),
        lambda x, y, at: cubic(x, y, akima_slopes(x, y), at),
    ),
    "CubicHermiteSpline": {
        "": Row(
            lambda p: interpolate.CubicHermiteSpline(np.arange(2.0), p[:2], p[2:4])(p[4]),
            lambda *p: cubic(at_knots(2), p[:2], p[2:4], p[4]),
            P5,
        )
    },
    "KroghInterpolator": through(
        lambda x, y, at: interpolate.KroghInterpolator(x, y)(at), lagrange, second=1e-12
    ),
    "BarycentricInterpolator": through(
        lambda x, y, at: interpolate.BarycentricInterpolator(x, y)(at), lagrange, second=1e-12
    ),
    "lagrange": {
        "": Row(
            lambda p: interpolate.lagrange(np.arange(3.0), p[:3])(p[3]), lambda *p: lagrange(at_knots(3), p[:3], p[3]), P4
        )
    },
    "interp1d": {
        "linear": Row(
            lambda p: interpolate.interp1d(np.array(GRID), p[:5])(p[5]),
            lambda *p: linear(list(map(mp.mpf, GRID)), p[:5], p[5]),
            P6,
        ),
        "cubic": Row(
            lambda p: interpolate.interp1d(np.arange(5.0), p[:5], kind="cubic")(p[5]),
            lambda *p: cubic(at_knots(5), p[:5], spline_slopes(at_knots(5), p[:5], "not-a-knot"), p[5]),
            P6,
        ),
    },
    "BSpline": {
        "": Row(
            lambda p: interpolate.BSpline(np.array(KNOTS), p[:5], 3)(p[5]),
            lambda *p: b_spline(list(map(mp.mpf, KNOTS)), p[:5], 3, p[5]),
            P6,
        ),
        "quadratic": Row(
            lambda p: interpolate.BSpline(np.arange(7.0), p[:4], 2)(p[4]),
            lambda *p: b_spline(at_knots(7), p[:4], 2, p[4]),
            [*P4, 3.3],
        ),
        "at a knot": Row(
            lambda p: interpolate.BSpline(np.array(KNOTS), p, 3)(1.5),
            lambda *p: b_spline(list(map(mp.mpf, KNOTS)), p, 3, mp.mpf(1.5)),
            P5,
        ),
    },
    "make_interp_spline": {
        "cubic": Row(
            lambda p: interpolate.make_interp_spline(np.arange(5.0), p[:5])(p[5]),
            lambda *p: cubic(at_knots(5), p[:5], spline_slopes(at_knots(5), p[:5], "not-a-knot"), p[5]),
            P6,
        ),
        "linear": Row(
            lambda p: interpolate.make_interp_spline(np.arange(5.0), p[:5], k=1)(p[5]),
            lambda *p: linear(at_knots(5), p[:5], p[5]),
            P6,
        ),
    },
    "make_lsq_spline": {
        "": Row(
            lambda p: interpolate.make_lsq_spline(np.array([0.0, 0.5, 1.2, 2.8, 3.5]), p[:5], np.array([0, 0, 2, 4, 4.0]), k=1)(
                p[5]
            ),
            lambda *p: least_squares(
                list(map(mp.mpf, (0.0, 0.5, 1.2, 2.8, 3.5))), p[:5], list(map(mp.mpf, (0, 0, 2, 4, 4))), 1, p[5]
            ),
            P6,
        )
    },
    "PPoly": {
        "": Row(
            lambda p: interpolate.PPoly(p[:4].reshape(2, 2), np.array([0.0, 1.0, 3.0]))(p[4]),
            lambda *p: p[1] * (p[4] - 1) + p[3],
            [*P4, 1.3],
        ),
        "integral": Row(
            lambda p: interpolate.PPoly(p[:4].reshape(2, 2), np.array([0.0, 1.0, 3.0])).integrate(p[4], 0.8),
            lambda *p: p[0] / 2 * (mp.mpf(0.8) ** 2 - p[4] ** 2) + p[2] * (mp.mpf(0.8) - p[4]),
            [*P4, 0.3],
        ),
    },
    "BPoly": {
        "": Row(
            lambda p: interpolate.BPoly(p[:3, None], np.array([0.0, 2.0]))(p[3]),
            lambda a, b, c, x: a * (1 - x / 2) ** 2 + b * x * (1 - x / 2) + c * x * x / 4,
            [0.3, -1.2, 0.7, 1.3],
        )
    },
    "RegularGridInterpolator": {
        "linear": Row(
            lambda p: interpolate.RegularGridInterpolator((np.arange(2.0),) * 2, p[:4].reshape(2, 2))(p[None, 4:])[0],
            lambda *p: bilinear(grids(p), p[4], p[5]),
            [*P4, 0.3, 0.6],
        )
    },
    "interpn": {
        "linear": Row(
            lambda p: interpolate.interpn((np.arange(2.0),) * 2, p[:4].reshape(2, 2), p[None, 4:])[0],
            lambda *p: bilinear(grids(p), p[4], p[5]),
            [*P4, 0.3, 0.6],
        )
    },
    "RectBivariateSpline": {
        "": Row(
            lambda p: interpolate.RectBivariateSpline(np.arange(2.0), np.arange(2.0), p[:4].reshape(2, 2), kx=1, ky=1)(
                p[4], p[5], grid=False
            ),
            lambda *p: bilinear(grids(p), p[4], p[5]),
            [*P4, 0.3, 0.6],
        )
    },
    "LinearNDInterpolator": {
        "": Row(
            lambda p: interpolate.LinearNDInterpolator(np.array([[0.0, 0], [1, 0], [0, 1]]), p[:3])(p[3], p[4]),
            lambda a, b, c, x, y: a + x * (b - a) + y * (c - a),
            [0.3, -1.2, 0.7, 0.2, 0.5],
        )
    },
    "RBFInterpolator": {name: kernel_row(name) for name in KERNELS},
}


# ---- images


def reflected(x, weights, sigma=None):
    """Correlate with weights of offsets, with reflection at the ends."""
    n = len(x)
    source = [*range(n), *reversed(range(n))]
    return [mp.fsum(w * x[source[(i + k) % (2 * n)]] for k, w in weights.items()) for i in range(n)]


def gaussian_weights(sigma):
    weights = {k: mp.exp(-mp.mpf(k * k) / (2 * sigma**2)) for k in range(-4, 5)}
    whole = mp.fsum(weights.values())
    return {k: w / whole for k, w in weights.items()}


def extended(x, i, mode):
    n = len(x)
    if mode in ("constant", "grid-constant"):
        return x[i] if 0 <= i < n else mp.mpf(0)
    if mode == "nearest":
        return x[min(max(i, 0), n - 1)]
    if mode == "reflect":
        return x[[*range(n), *reversed(range(n))][i % (2 * n)]]
    if mode == "mirror":
        return x[[*range(n), *range(n - 2, 0, -1)][i % (2 * n - 2)]]
    return x[i % n]


def b_weights(k, u):
    """Return the centred B-spline of degree 2 or 3 at u."""
    u = abs(u)
    if k == 2:
        return mp.mpf(3) / 4 - u * u if u < 0.5 else (mp.mpf(3) / 2 - u) ** 2 / 2 if u < 1.5 else mp.mpf(0)
    return mp.mpf(2) / 3 - u * u * (2 - u) / 2 if u < 1 else (2 - u) ** 3 / 6 if u < 2 else mp.mpf(0)


def mapped(x, at, k, mode):
    """Interpolate by the spline of degree 1, 2 or 3 whose coefficients continue as `mode` says."""
    n = len(x)
    if k == 1:
        i = int(mp.floor(at))
        return (1 - at + i) * extended(x, i, mode) + (at - i) * extended(x, i + 1, mode)
    a = mp.zeros(n)
    for i in range(n):
        for j in range(i - 2, i + 3):
            unit = [mp.mpf(int(m == extended(range(n), j, mode))) for m in range(n)]
            for m in range(n):
                a[i, m] += unit[m] * b_weights(k, mp.mpf(i - j))
    c = list(mp.lu_solve(a, vector(x)))
    middle = int(mp.floor(at))
    return mp.fsum(extended(c, j, mode) * b_weights(k, at - j) for j in range(middle - 2, middle + 4))


def map_row(k, mode, at=1.3):
    return Row(
        lambda p: ndimage.map_coordinates(p[:4], p[None, 4:], order=k, mode=mode)[0],
        lambda *p: mapped(p[:4], p[4], k, mode),
        [*P4, at],
        second=1e-12,
    )


def along(fun, form, point=P5, **options):
    """Return the row of the squares of a filtered sequence."""
    return Row(lambda p: fun(p) ** 2, lambda *p: [y * y for y in form(p)], point, **options)


NDIMAGE = {
    "gaussian_filter1d": {
        "": Row(
            lambda p: ndimage.gaussian_filter1d(p[:5], p[5], radius=4),
            lambda *p: reflected(p[:5], gaussian_weights(p[5])),
            [*P5, 0.9],
        ),
    },
    "gaussian_filter": {
        "": Row(
            lambda p: ndimage.gaussian_filter(p[:5], p[5], radius=4),
            lambda *p: reflected(p[:5], gaussian_weights(p[5])),
            [*P5, 0.9],
        ),
    },
    "uniform_filter1d": {"": along(lambda p: ndimage.uniform_filter1d(p, 3), lambda x: reflected(x, dict.fromkeys((-1, 0, 1), mp.mpf(1) / 3)))},
    "laplace": {"": along(ndimage.laplace, lambda x: reflected(x, {-1: 1, 0: -2, 1: 1}))},
    "sobel": {"": along(ndimage.sobel, lambda x: reflected(x, {-1: -1, 1: 1}))},
    "prewitt": {"": along(ndimage.prewitt, lambda x: reflected(x, {-1: -1, 1: 1}))},
    "correlate1d": {
        mode: Row(
            lambda p, mode=mode: ndimage.correlate1d(p[:5], p[5:], mode=mode),
            lambda *p, mode=mode: [
                mp.fsum(p[5 + k] * extended(p[:5], i + k - 1, mode) for k in range(3)) for i in range(5)
            ],
            [*P5, 0.9, -0.4, 1.7],
        )
        for mode in ("reflect", "constant", "nearest", "mirror", "wrap")
    },
    "convolve1d": {
        "": Row(
            lambda p: ndimage.convolve1d(p[:5], p[5:]),
            lambda *p: reflected(p[:5], {1: p[5], 0: p[6], -1: p[7]}),
            [*P5, 0.9, -0.4, 1.7],
        )
    },
    "map_coordinates": {
        f"order {k}, {mode}": map_row(k, mode)
        for k in (1, 2, 3)
        for mode in ("reflect", "mirror", "grid-wrap", "constant")
        if k == 1 or mode not in ("constant",)
    }
    | {f"order 1, {mode}, outside": map_row(1, mode, -0.3) for mode in ("reflect", "mirror", "grid-wrap", "grid-constant")}
    | {f"order 3, {mode}, outside": map_row(3, mode, -0.3) for mode in ("reflect", "mirror", "grid-wrap")},
    "spline_filter1d": {
        f"{k}": Row(
            lambda p, k=k: ndimage.map_coordinates(
                ndimage.spline_filter1d(p[:4], order=k), p[None, 4:], order=k, mode="mirror", prefilter=False
            )[0],
            lambda *p, k=k: mapped(p[:4], p[4], k, "mirror"),
            [*P4, 1.3],
            second=1e-12,
        )
        for k in (2, 3)
    },
    "mean": {"": Row(lambda p: ndimage.mean(p**2), lambda *p: mp.fsum(x * x for x in p) / 5, P5)},
    "center_of_mass": {
        "": Row(
            lambda p: ndimage.center_of_mass(p**2)[0],
            lambda *p: mp.fsum(i * x * x for i, x in enumerate(p)) / mp.fsum(x * x for x in p),
            P5,
        )
    },
    "variance": {
        "": Row(lambda p: ndimage.variance(p), lambda *p: mp.fsum(x * x for x in p) / 5 - (mp.fsum(p) / 5) ** 2, P5)
    },
    "shift": {
        "": Row(
            lambda p: ndimage.shift(p[:4], p[4], order=1, mode="grid-wrap"),
            lambda *p: [mapped(p[:4], i - p[4], 1, "grid-wrap") for i in range(4)],
            [*P4, 0.3],
        )
    },
}


# ---- sparse systems


def sparse_tridiagonal(p):
    return sparse.diags_array([[p[1], p[3]], [4 + p[0], 3 + p[2], 2 + p[4]], [p[1], p[3]]], offsets=[-1, 0, 1]).tocsc()


def solver_row(fun, **options):
    return Row(
        lambda p: fun(sparse_tridiagonal(p), p[:3] ** 2),
        lambda *p: mp.lu_solve(matrix(tridiagonal(p)), vector(x * x for x in p[:3])),
        P5,
        **options,
    )


sl = sparse.linalg

SPARSE = {
    "spsolve": {"": solver_row(lambda a, b: sl.spsolve(a, b))},
    "splu": {"": solver_row(lambda a, b: sl.splu(a).solve(b))},
    "factorized": {"": solver_row(lambda a, b: sl.factorized(a)(b))},
    "cg": {"": solver_row(lambda a, b: sl.cg(a, b, rtol=1e-15)[0], first=1e-12, second=1e-11)},
    "gmres": {"": solver_row(lambda a, b: sl.gmres(a, b, rtol=1e-15)[0], first=1e-12, second=1e-11)},
    "expm": {
        "": Row(
            lambda p: sl.expm(sparse_tridiagonal(p)).toarray(), lambda *p: mp.expm(matrix(tridiagonal(p))), P5, value=1e-11
        )
    },
    "inv": {"": Row(lambda p: sl.inv(sparse_tridiagonal(p)).toarray(), lambda *p: matrix(tridiagonal(p)) ** -1, P5)},
    "expm_multiply": {
        "": Row(
            lambda p: sl.expm_multiply(sparse_tridiagonal(p) / 4, p[:3]),
            lambda *p: mp.expm(matrix(tridiagonal(p)) / 4) * vector(p[:3]),
            P5,
            first=1e-12,
            second=1e-11,
        )
    },
    "eigsh": {
        "": Row(
            lambda p: sl.eigsh(sparse_tridiagonal(p), k=2, v0=np.ones(3), return_eigenvectors=False),
            lambda *p: sorted(mp.eigsy(matrix(tridiagonal(p)), eigvals_only=True))[1:],
            P5,
            first=1e-12,
            second=1e-11,
        )
    },
    "norm": {
        "": Row(
            lambda p: sl.norm(sparse_tridiagonal(p)),
            lambda *p: mp.sqrt(mp.fsum(x * x for x in matrix(tridiagonal(p)))),
            P5,
        )
    },
}


# ---- space


def rotated(r, v):
    """Rotate v about the axis r by its length (Rodrigues)."""
    angle = mp.sqrt(mp.fsum(x * x for x in r))
    k = [x / angle for x in r]
    cross = [k[1] * v[2] - k[2] * v[1], k[2] * v[0] - k[0] * v[2], k[0] * v[1] - k[1] * v[0]]
    dot = mp.fsum(a * b for a, b in zip(k, v))
    c, s = mp.cos(angle), mp.sin(angle)
    return [a * c + b * s + d * dot * (1 - c) for a, b, d in zip(v, cross, k)]


def rotation_matrix(r):
    return [list(row) for row in zip(*(rotated(r, [mp.mpf(int(i == j)) for j in range(3)]) for i in range(3)))]


def quaternion(r):
    angle = mp.sqrt(mp.fsum(x * x for x in r))
    return [*(mp.sin(angle / 2) / angle * x for x in r), mp.cos(angle / 2)]


def from_quaternion(x, y, z, w):
    n = x * x + y * y + z * z + w * w
    return [
        [1 - 2 * (y * y + z * z) / n, 2 * (x * y - z * w) / n, 2 * (x * z + y * w) / n],
        [2 * (x * y + z * w) / n, 1 - 2 * (x * x + z * z) / n, 2 * (y * z - x * w) / n],
        [2 * (x * z - y * w) / n, 2 * (y * z + x * w) / n, 1 - 2 * (x * x + y * y) / n],
    ]


def turn(axis, angle):
    return matrix(rotation_matrix([angle * (i == axis) or mp.mpf(0) for i in range(3)])) if angle else mp.eye(3)


def total_of(f, u, v):
    return mp.fsum(f(a, b) for a, b in zip(u, v))


def cosine(u, v):
    return 1 - total_of(mp.fmul, u, v) / mp.sqrt(total_of(mp.fmul, u, u) * total_of(mp.fmul, v, v))


def centred(u):
    return [x - mp.fsum(u) / len(u) for x in u]


METRICS = {
    "euclidean": lambda u, v: mp.sqrt(total_of(lambda a, b: (a - b) ** 2, u, v)),
    "sqeuclidean": lambda u, v: total_of(lambda a, b: (a - b) ** 2, u, v),
    "cityblock": lambda u, v: total_of(lambda a, b: abs(a - b), u, v),
    "chebyshev": lambda u, v: max(abs(a - b) for a, b in zip(u, v)),
    "canberra": lambda u, v: total_of(lambda a, b: abs(a - b) / (abs(a) + abs(b)), u, v),
    "braycurtis": lambda u, v: total_of(lambda a, b: abs(a - b), u, v) / total_of(lambda a, b: abs(a + b), u, v),
    "cosine": cosine,
    "correlation": lambda u, v: cosine(centred(u), centred(v)),
}
POSITIVE = ("jensenshannon",)
PAIR = [0.3, -1.2, 0.7, 1.1, 0.6, -0.4]


def relative_entropy(p, m):
    return total_of(lambda a, b: a * mp.log(a / b), p, m)


def jensen_shannon(u, v):
    u, v = ([x / mp.fsum(w) for x in w] for w in (u, v))
    m = [(a + b) / 2 for a, b in zip(u, v)]
    return mp.sqrt((relative_entropy(u, m) + relative_entropy(v, m)) / 2)


def minkowski(u, v):
    return mp.cbrt(total_of(lambda a, b: abs(a - b) ** 3, u, v))


def standardised(u, v):
    """Return the Euclidean distance with variances of the two points."""
    return mp.sqrt(mp.fsum((a - b) ** 2 / ((a - b) ** 2 / 2) for a, b in zip(u, v)))


def slerp(p, t):
    """Rotate by the fraction t of the rotation vector."""
    return rotation_matrix([t * x for x in p])


SPATIAL = {
    **{
        f"distance.{name}": {
            "": Row(
                lambda p, name=name: getattr(distance, name)(p[:3], p[3:]), lambda *p, form=form: form(p[:3], p[3:]), PAIR
            )
        }
        for name, form in METRICS.items()
    },
    "distance.minkowski": {
        "": Row(lambda p: distance.minkowski(p[:3], p[3:], 3), lambda *p: minkowski(p[:3], p[3:]), PAIR)
    },
    "distance.jensenshannon": {
        "": Row(
            lambda p: distance.jensenshannon(p[:3], p[3:]),
            lambda *p: jensen_shannon(p[:3], p[3:]),
            [0.3, 1.2, 0.7, 1.1, 0.6, 0.4],
            second=1e-12,
        )
    },
    "distance.cdist": {
        name: Row(
            lambda p, name=name: distance.cdist(p[None, :3], p[None, 3:], name)[0, 0],
            lambda *p, form=form: form(p[:3], p[3:]),
            PAIR,
        )
        for name, form in METRICS.items()
    },
    "distance.pdist": {
        name: Row(
            lambda p, name=name: distance.pdist(p.reshape(2, 3), name)[0], lambda *p, form=form: form(p[:3], p[3:]), PAIR
        )
        for name, form in METRICS.items()
    },
    "distance.mahalanobis": {
        "": Row(
            lambda p: distance.mahalanobis(p[:2], p[2:4], np.stack([p[4:6], p[5:7]])),
            lambda *p: mp.sqrt(
                p[4] * (p[0] - p[2]) ** 2
                + 2 * p[5] * (p[0] - p[2]) * (p[1] - p[3])
                + p[6] * (p[1] - p[3]) ** 2
            ),
            [0.3, -1.2, 0.7, 0.4, 2.0, 0.3, 1.5],
        )
    },
    "transform.Rotation": {
        "from_rotvec": Row(lambda p: Rotation.from_rotvec(p).as_matrix(), lambda *p: rotation_matrix(p), P4[:3]),
        "from_rotvec, small": Row(
            lambda p: Rotation.from_rotvec(p).as_matrix(), lambda *p: rotation_matrix(p), [1e-5, -2e-5, 1e-5], second=1e-11
        ),
        "from_rotvec, as_quat": Row(lambda p: Rotation.from_rotvec(p).as_quat(), lambda *p: quaternion(p), P4[:3]),
        "from_quat": Row(lambda p: Rotation.from_quat(p).as_matrix(), lambda *p: from_quaternion(*p), P4),
        "as_rotvec": Row(
            lambda p: Rotation.from_matrix(Rotation.from_rotvec(p).as_matrix()).as_rotvec() ** 2,
            lambda *p: [x * x for x in p],
            P4[:3],
            first=1e-12,
            second=1e-12,
        ),
        "apply": Row(
            lambda p: Rotation.from_rotvec(p[:3]).apply(p[3:]), lambda *p: rotated(p[:3], p[3:]), [*P4[:3], *OTHER]
        ),
        "inv": Row(
            lambda p: Rotation.from_rotvec(p).inv().as_matrix(), lambda *p: rotation_matrix([-x for x in p]), P4[:3]
        ),
        "from_euler": Row(
            lambda p: Rotation.from_euler("ZYX", p).as_matrix(),
            lambda *p: turn(2, p[0]) * turn(1, p[1]) * turn(0, p[2]),
            P4[:3],
        ),
        "as_euler": Row(
            lambda p: Rotation.from_euler("ZYX", p).as_euler("ZYX") ** 2, lambda *p: [x * x for x in p], P4[:3], second=1e-12
        ),
        "magnitude": Row(
            lambda p: Rotation.from_rotvec(p).magnitude(), lambda *p: mp.sqrt(mp.fsum(x * x for x in p)), P4[:3]
        ),
        "as_mrp": Row(
            lambda p: Rotation.from_rotvec(p).as_mrp(),
            lambda *p: [x / (1 + quaternion(p)[3]) for x in quaternion(p)[:3]],
            P4[:3],
        ),
        "power": Row(
            lambda p: (Rotation.from_rotvec(p[:3]) ** p[3]).as_matrix(), lambda *p: slerp(p[:3], p[3]), [*P4[:3], 0.3]
        ),
    },
    "transform.Slerp": {
        "": Row(
            lambda p: scipy.spatial.transform.Slerp(
                [0.0, 1.0], Rotation.from_rotvec(np.stack([0 * p[:3], p[:3]]))
            )(p[3]).as_matrix(),
            lambda *p: slerp(p[:3], p[3]),
            [*P4[:3], 0.3],
            first=1e-12,
            second=1e-11,
        )
    },
}

CASES = {
    "fft": FFT,
    "integrate": INTEGRATE,
    "interpolate": INTERPOLATE,
    "ndimage": NDIMAGE,
    "sparse.linalg": SPARSE,
    "spatial": SPATIAL,
}
