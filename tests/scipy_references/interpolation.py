"""Closed forms of `scipy.interpolate`."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import scipy.interpolate

from .engine import Row
from .linalg import vector
from .transforms import P4, P5, places

interpolate = scipy.interpolate

P6 = [*P5, 2.3]


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
        "": Row(
            lambda p: fun(np.concatenate([first, np.cumsum(p[n + 1 :])]), p[:n], p[n]),
            of_places,
            [*data, at, *gaps],
            **options,
        ),
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
DATA = (0.0, 0.5, 1.2, 2.8, 3.5)
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
            lambda *p: mp.diff(
                lambda at: cubic(at_knots(5), p[:5], spline_slopes(at_knots(5), p[:5], "natural"), at), p[5]
            ),
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
            lambda p: interpolate.make_lsq_spline(np.array(DATA), p[:5], np.array([0, 0, 2, 4, 4.0]), k=1)(p[5]),
            lambda *p: least_squares(list(map(mp.mpf, DATA)), p[:5], list(map(mp.mpf, (0, 0, 2, 4, 4))), 1, p[5]),
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
