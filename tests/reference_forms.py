"""Closed forms in mpmath, of numbers, and their derivatives with 30 digits.

The forms are computed with 60 digits, and their derivatives by central differences of step 1e-15, which keep 30.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import scipy.sparse

import wengert as wg

DIGITS, STEP = 60, mp.mpf(10) ** -15

sparse = scipy.sparse

def references(form, point):
    """Return the value, the gradient and the Hessian of a closed form."""
    with mp.workdps(DIGITS):
        x, h = list(map(mp.mpf, point)), STEP

        def at(*moves):
            z = list(x)
            for i, step in moves:
                z[i] += step
            return form(*z)

        n, y = len(x), at()
        ends = [(at((i, h)), at((i, -h))) for i in range(n)]
        gradient = [float((up - down) / (2 * h)) for up, down in ends]
        hessian = np.zeros((n, n))
        for i in range(n):
            hessian[i, i] = (ends[i][0] - 2 * y + ends[i][1]) / h**2
            for j in range(i):
                both = at((i, h), (j, h)) - at((i, h), (j, -h)) - at((i, -h), (j, h)) + at((i, -h), (j, -h))
                hessian[i, j] = hessian[j, i] = both / (4 * h**2)
        return float(y), np.array(gradient), hessian


def compared(f, form, point):
    """Return the relative errors of the value, the gradient and the Hessian of a function."""
    x = np.array(point, dtype=float)
    found, exact = (f(x), wg.grad(f)(x), wg.hessian(f)(x)), references(form, point)
    return [float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-3)) for a, b in zip(found, exact, strict=True)]


# ---- forms


def total(y):
    """Return a weighted sum of the elements, so that every function has a scalar value."""
    y = list(y)
    return mp.fsum((k + 1) * value for k, value in enumerate(y))


def weighted(y):
    return np.sum((np.arange(np.size(y)) + 1) * np.ravel(y))


def square(p):
    """Return a matrix of order 2 with distinct positive eigenvalues."""
    return mp.matrix([[2 + p[0], p[1]], [p[1] * p[2], 3 + p[0] * p[2]]])


def square_array(p):
    return np.array([[2 + p[0], p[1]], [p[1] * p[2], 3 + p[0] * p[2]]])


def symmetric(p):
    return mp.matrix([[2 + p[0], p[1]], [p[1], 3 + p[2]]])


def symmetric_array(p):
    return np.array([[2 + p[0], p[1]], [p[1], 3 + p[2]]])


def t_cdf(t, v):
    tail = mp.betainc(v / 2, mp.mpf(1) / 2, 0, v / (v + t * t), regularized=True) / 2
    return 1 - tail if t > 0 else tail


def noncentral_t_cdf(x, v, d):
    """AS 243 (Lenth 1989), for x > 0."""
    y, half = x * x / (x * x + v), d * d / 2
    terms = []
    for j in range(60):
        p = mp.exp(-half) * half**j / mp.factorial(j)
        q = d * mp.exp(-half) * half**j / (mp.sqrt(2) * mp.gamma(j + mp.mpf(3) / 2))
        terms.append(p * mp.betainc(j + mp.mpf(1) / 2, v / 2, 0, y, regularized=True))
        terms.append(q * mp.betainc(mp.mpf(j + 1), v / 2, 0, y, regularized=True))
    return mp.ncdf(-d) + mp.fsum(terms) / 2


def normal_logpdf(x, cov):
    return -(x.T * mp.inverse(cov) * x)[0] / 2 - mp.log(mp.det(cov)) / 2 - mp.log(2 * mp.pi)


def filtered(b, a, x):
    """Return the result of a recursive filter of order 1."""
    y, before = [], (mp.mpf(0), mp.mpf(0))
    for value in x:
        y.append(b[0] * value + b[1] * before[0] - a * before[1])
        before = value, y[-1]
    return y


def cosine_transform(x):
    n = len(x)
    return [2 * mp.fsum(x[j] * mp.cos(mp.pi * k * (2 * j + 1) / (2 * n)) for j in range(n)) for k in range(n)]


def power_spectrum(x):
    n = len(x)
    return [abs(mp.fsum(x[j] * mp.expj(-2 * mp.pi * j * k / n) for j in range(n))) ** 2 for k in range(n // 2 + 1)]


def natural_spline(y, x):
    """Evaluate the natural cubic spline through y at 0, 1, 2, ... at the point x."""
    n = len(y)
    a, b = mp.eye(n), mp.zeros(n, 1)
    for i in range(1, n - 1):
        a[i, i - 1], a[i, i], a[i, i + 1], b[i] = 1, 4, 1, 6 * (y[i - 1] - 2 * y[i] + y[i + 1])
    m = mp.lu_solve(a, b)
    i = min(int(x), n - 2)
    u = x - i
    v = 1 - u
    return v * y[i] + u * y[i + 1] + ((v**3 - v) * m[i] + (u**3 - u) * m[i + 1]) / 6


def lagrange(y, x):
    n = len(y)
    return mp.fsum(y[i] * mp.fprod((x - j) / (i - j) for j in range(n) if j != i) for i in range(n))


def radial(d, x):
    """Evaluate the Gaussian radial interpolant of d at 0, 1, 2, ... at the point x."""
    n = len(d)
    kernel = mp.matrix(n, n)
    for i, j in itertools.product(range(n), repeat=2):
        kernel[i, j] = mp.exp(-mp.mpf(i - j) ** 2)
    c = mp.lu_solve(kernel, mp.matrix(d))
    return mp.fsum(c[i] * mp.exp(-((x - i) ** 2)) for i in range(n))


def blurred(x, sigma):
    """Filter by a Gaussian of radius 4, with reflection at the ends."""
    n, weights = len(x), {k: mp.exp(-mp.mpf(k * k) / (2 * sigma**2)) for k in range(-4, 5)}
    whole = mp.fsum(weights.values())
    source = [*range(n), *reversed(range(n))]
    return [mp.fsum(w * x[source[(i + k) % (2 * n)]] for k, w in weights.items()) / whole for i in range(n)]


def between(x, c):
    """Interpolate linearly at the point c."""
    i = int(c)
    return x[i] + (c - i) * (x[i + 1] - x[i])


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


def rotated(r, v):
    """Rotate v about the axis r by its length (Rodrigues)."""
    angle = mp.sqrt(mp.fsum(x * x for x in r))
    k = [x / angle for x in r]
    cross = [k[1] * v[2] - k[2] * v[1], k[2] * v[0] - k[0] * v[2], k[0] * v[1] - k[1] * v[0]]
    dot = mp.fsum(a * b for a, b in zip(k, v))
    c, s = mp.cos(angle), mp.sin(angle)
    return [a * c + b * s + d * dot * (1 - c) for a, b, d in zip(v, cross, k)]


def cosine_distance(u, v):
    inner = [mp.fsum(a * b for a, b in zip(x, y)) for x, y in ((u, v), (u, u), (v, v))]
    return 1 - inner[0] / mp.sqrt(inner[1] * inner[2])


def tridiagonal(p):
    a = mp.zeros(3)
    for i in range(3):
        a[i, i] = 4 + p[i]
        if i:
            a[i, i - 1], a[i - 1, i] = -p[i], p[i] * p[0]
    return a


def sparse_tridiagonal(p):
    return sparse.diags_array([-p[1:], 4 + p, p[1:] * p[0]], offsets=[-1, 0, 1]).tocsc()
