"""Calls of SciPy with closed forms in mpmath, by module: `CASES` is the table, and `errors` compares derivatives.

The forms are computed with 60 digits, and their derivatives by central differences of step 1e-15, which keep 30.
"""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.sparse
import scipy.sparse.linalg
import scipy.spatial.distance
import scipy.spatial.transform
import scipy.stats

import wengert as wg

DIGITS, STEP = 60, mp.mpf(10) ** -15

fft, integrate, interpolate, la, ndimage = scipy.fft, scipy.integrate, scipy.interpolate, scipy.linalg, scipy.ndimage
signal, sparse, distance, st = scipy.signal, scipy.sparse, scipy.spatial.distance, scipy.stats


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


OTHER = (1.1, 0.7, -0.4)
MPF = tuple(map(mp.mpf, ("1.1", "0.7", "-0.4")))

# ---- the table: function of an array, closed form of numbers, point, and tolerances of first and second derivatives

CASES = {
    "fft": {
        "dct": (lambda p: weighted(fft.dct(p)), lambda *p: total(cosine_transform(p)), [0.3, -1.2, 0.7, 2.1]),
        "rfft": (
            lambda p: weighted(np.abs(fft.rfft(p)) ** 2),
            lambda *p: total(power_spectrum(p)),
            [0.3, -1.2, 0.7, 2.1],
        ),
    },
    "integrate": {
        "fixed_quad": (
            lambda p: integrate.fixed_quad(lambda x: np.exp(-p[0] * x) * x, p[1], p[2], n=4)[0],
            lambda k, a, b: gauss(lambda x: mp.exp(-k * x) * x, a, b),
            [0.8, 0.2, 1.9],
        ),
        "simpson": (
            lambda p: integrate.simpson(p[:3], x=np.cumsum(p[2:])),
            lambda *p: simpson(p[:3], [p[2], p[2] + p[3], p[2] + p[3] + p[4]]),
            [0.3, 1.2, 0.7, 0.5, 0.9],
        ),
    },
    "interpolate": {
        "CubicSpline": (
            lambda p: interpolate.CubicSpline(np.arange(5), p[:5], bc_type="natural")(p[5]),
            lambda *p: natural_spline(p[:5], p[5]),
            [0.3, -1.2, 0.7, 2.1, 0.4, 2.3],
        ),
        "KroghInterpolator": (
            lambda p: interpolate.KroghInterpolator(np.arange(4), p[:4])(p[4]),
            lambda *p: lagrange(p[:4], p[4]),
            [0.3, -1.2, 0.7, 2.1, 1.3],
        ),
        "RBFInterpolator": (
            lambda p: interpolate.RBFInterpolator(
                np.arange(4.0)[:, None], p[:4], kernel="gaussian", epsilon=1.0, degree=-1
            )(p[None, 4:])[0],
            lambda *p: radial(p[:4], p[4]),
            [0.3, -1.2, 0.7, 2.1, 1.3],
        ),
    },
    "linalg": {
        "cholesky": (
            lambda p: weighted(la.cholesky(symmetric_array(p), lower=True)),
            lambda *p: total(mp.cholesky(symmetric(p))),
            [0.3, 0.4, 0.7],
        ),
        "det": (lambda p: la.det(square_array(p)), lambda *p: mp.det(square(p)), [0.3, 0.4, 0.7]),
        "eigh": (
            lambda p: weighted(la.eigh(symmetric_array(p), eigvals_only=True)),
            lambda *p: total(mp.eigsy(symmetric(p), eigvals_only=True)),
            [0.3, 0.4, 0.7],
        ),
        "expm": (lambda p: weighted(la.expm(square_array(p))), lambda *p: total(mp.expm(square(p))), [0.3, 0.4, 0.7]),
        "inv": (lambda p: weighted(la.inv(square_array(p))), lambda *p: total(square(p) ** -1), [0.3, 0.4, 0.7]),
        "logm": (lambda p: weighted(la.logm(square_array(p))), lambda *p: total(mp.logm(square(p))), [0.3, 0.4, 0.7]),
        "solve": (
            lambda p: weighted(la.solve(square_array(p), p[1:])),
            lambda *p: total(mp.lu_solve(square(p), mp.matrix(p[1:]))),
            [0.3, 0.4, 0.7],
        ),
        "sqrtm": (
            lambda p: weighted(la.sqrtm(square_array(p))),
            lambda *p: total(mp.sqrtm(square(p))),
            [0.3, 0.4, 0.7],
        ),
    },
    "ndimage": {
        "gaussian_filter1d": (
            lambda p: weighted(ndimage.gaussian_filter1d(p[:5], p[5], radius=4)),
            lambda *p: total(blurred(p[:5], p[5])),
            [0.3, -1.2, 0.7, 2.1, 0.4, 0.9],
        ),
        "map_coordinates": (
            lambda p: ndimage.map_coordinates(p[:4], p[None, 4:], order=1)[0],
            lambda *p: between(p[:4], p[4]),
            [0.3, -1.2, 0.7, 2.1, 1.3],
        ),
    },
    "signal": {
        "freqz": (
            lambda p: np.abs(signal.freqz(p[:2], np.stack([np.ones(()), p[2]]), worN=[0.7])[1][0]),
            lambda b, c, a: abs((b + c * mp.expj(-mp.mpf(0.7))) / (1 + a * mp.expj(-mp.mpf(0.7)))),
            [0.3, 1.2, -0.4],
        ),
        "lfilter": (
            lambda p: weighted(signal.lfilter(p[:2], np.stack([np.ones(()), p[2]]), p[3:])),
            lambda *p: total(filtered(p[:2], p[2], p[3:])),
            [0.3, 1.2, -0.4, 0.7, 2.1, 0.5],
        ),
    },
    "sparse.linalg": {
        "spsolve": (
            lambda p: weighted(sparse.linalg.spsolve(sparse_tridiagonal(p), p * p)),
            lambda *p: total(mp.lu_solve(tridiagonal(p), mp.matrix([x * x for x in p]))),
            [0.3, -1.2, 0.7],
        ),
    },
    "spatial": {
        "distance.cosine": (lambda p: distance.cosine(p, OTHER), lambda *p: cosine_distance(p, MPF), [0.3, -1.2, 0.7]),
        "distance.minkowski": (
            lambda p: distance.minkowski(p, OTHER, 3),
            lambda *p: mp.cbrt(mp.fsum(abs(a - b) ** 3 for a, b in zip(p, MPF))),
            [0.3, -1.2, 0.7],
        ),
        "transform.Rotation": (
            lambda p: weighted(scipy.spatial.transform.Rotation.from_rotvec(p).apply(OTHER)),
            lambda *p: total(rotated(p, MPF)),
            [0.3, -1.2, 0.7],
        ),
    },
    "stats": {
        "beta.cdf": (
            lambda p: st.beta.cdf(*p),
            lambda x, a, b: mp.betainc(a, b, 0, x, regularized=True),
            [0.3, 1.2, 2.7],
        ),
        "binom.logpmf": (
            lambda p: st.binom.logpmf(3, 8, p[0]),
            lambda p: mp.log(mp.binomial(8, 3)) + 3 * mp.log(p) + 5 * mp.log(1 - p),
            [0.3],
        ),
        "cauchy.cdf": (
            lambda p: st.cauchy.cdf(*p),
            lambda x, m, s: mp.mpf(1) / 2 + mp.atan((x - m) / s) / mp.pi,
            [0.3, 1.2, 0.7],
        ),
        "chi2.sf": (
            lambda p: st.chi2.sf(*p),
            lambda x, v: mp.gammainc(v / 2, x / 2, mp.inf, regularized=True),
            [3.3, 4.2],
        ),
        "f.logpdf": (
            lambda p: st.f.logpdf(*p),
            lambda x, m, n: m / 2 * mp.log(m / n)
            + (m / 2 - 1) * mp.log(x)
            - (m + n) / 2 * mp.log1p(m * x / n)
            - mp.log(mp.beta(m / 2, n / 2)),
            [1.3, 4.2, 7.0],
        ),
        "gamma.cdf": (
            lambda p: st.gamma.cdf(*p),
            lambda x, a, m, s: mp.gammainc(a, 0, (x - m) / s, regularized=True),
            [1.3, 2.2, 0.1, 0.7],
        ),
        "gamma.entropy": (
            lambda p: st.gamma.entropy(*p),
            lambda a: a + mp.loggamma(a) + (1 - a) * mp.psi(0, a),
            [2.2],
        ),
        "genextreme.logpdf": (
            lambda p: st.genextreme.logpdf(*p),
            lambda x, c: (1 / c - 1) * mp.log(1 - c * x) - mp.power(1 - c * x, 1 / c),
            [0.3, 0.4],
        ),
        "logistic.logcdf": (
            lambda p: st.logistic.logcdf(*p),
            lambda x, m, s: -mp.log1p(mp.exp(-(x - m) / s)),
            [0.3, 1.2, 0.7],
        ),
        "lognorm.cdf": (lambda p: st.lognorm.cdf(*p), lambda x, s: mp.ncdf(mp.log(x) / s), [1.3, 0.8]),
        "multivariate_normal.logpdf": (
            lambda p: st.multivariate_normal.logpdf(p[:2], np.zeros(2), symmetric_array(p[1:])),
            lambda *p: normal_logpdf(mp.matrix(p[:2]), symmetric(p[1:])),
            [0.3, 0.4, 0.7, 0.9],
        ),
        "nct.cdf": (lambda p: st.nct.cdf(p[0], 5.0, p[1]), lambda x, d: noncentral_t_cdf(x, mp.mpf(5), d), [1.3, 0.7]),
        "norm.logcdf": (
            lambda p: st.norm.logcdf(*p),
            lambda x, m, s: mp.log(mp.ncdf((x - m) / s)),
            [0.3, 1.2, 0.7],
        ),
        "pareto.logpdf": (
            lambda p: st.pareto.logpdf(*p),
            lambda x, b, m, s: mp.log(b) - (b + 1) * mp.log((x - m) / s) - mp.log(s),
            [2.3, 1.2, 0.4, 0.7],
        ),
        "poisson.logpmf": (
            lambda p: st.poisson.logpmf(3, p[0]),
            lambda m: 3 * mp.log(m) - m - mp.log(6),
            [2.3],
        ),
        "skewnorm.logpdf": (
            lambda p: st.skewnorm.logpdf(*p),
            lambda x, a: mp.log(2 * mp.npdf(x) * mp.ncdf(a * x)),
            [0.3, 1.2],
        ),
        "t.cdf": (lambda p: st.t.cdf(*p), t_cdf, [0.8, 4.2]),
        "t.logpdf": (
            lambda p: st.t.logpdf(*p),
            lambda x, v: mp.loggamma((v + 1) / 2)
            - mp.loggamma(v / 2)
            - mp.log(mp.pi * v) / 2
            - (v + 1) / 2 * mp.log1p(x * x / v),
            [0.8, 4.2],
        ),
        "vonmises.logpdf": (
            lambda p: st.vonmises.logpdf(*p),
            lambda x, k: k * mp.cos(x) - mp.log(2 * mp.pi * mp.besseli(0, k)),
            [0.8, 1.4],
        ),
        "weibull_min.logpdf": (
            lambda p: st.weibull_min.logpdf(*p),
            lambda x, c, m, s: mp.log(c / s) + (c - 1) * mp.log((x - m) / s) - mp.power((x - m) / s, c),
            [1.3, 1.8, 0.1, 0.7],
        ),
    },
}


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


def errors(module, name):
    """Return the relative errors of the value, the gradient and the Hessian."""
    f, form, point = CASES[module][name]
    x = np.array(point)
    found = f(x), wg.grad(f)(x), wg.hessian(f)(x)
    exact = references(form, point)
    return [float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-3)) for a, b in zip(found, exact, strict=True)]
