"""Calls of SciPy with closed forms in mpmath, by module: `CASES` is the table, and `errors` compares derivatives.

Distributions have tables of their own, in `distribution_references`.
"""

from __future__ import annotations

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

import array_references
from reference_forms import (
    between,
    blurred,
    compared,
    cosine_distance,
    cosine_transform,
    filtered,
    gauss,
    lagrange,
    natural_spline,
    noncentral_t_cdf,
    normal_logpdf,
    power_spectrum,
    radial,
    rotated,
    simpson,
    sparse_tridiagonal,
    square,
    square_array,
    symmetric,
    symmetric_array,
    t_cdf,
    total,
    tridiagonal,
    weighted,
)

fft, integrate, interpolate, la, ndimage = scipy.fft, scipy.integrate, scipy.interpolate, scipy.linalg, scipy.ndimage
signal, sparse, distance, st = scipy.signal, scipy.sparse, scipy.spatial.distance, scipy.stats

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


for module, cases in array_references.CASES.items():
    CASES.setdefault(module, {}).update(cases)


def errors(module, name):
    """Return the relative errors of the value, the gradient and the Hessian."""
    return compared(*CASES[module][name])
