"""Private functions of ``scipy.special`` that ``scipy.stats`` calls, and kernel density estimates.

Names and arguments are those of ``scipy.special._ufuncs``; versions of SciPy without a function leave out its rule.
"""

from __future__ import annotations

import importlib
import warnings

import numpy as np
from scipy._lib._util import check_random_state

from wengert.errors import UnsupportedFunctionError
from wengert.registry import by_formula, elementwise, lookup, rows, structural
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.special import sp
from wengert.rules.special_python import log_sum

_ufuncs = importlib.import_module("scipy.special._ufuncs")


def declare(name, *partials):
    fun = getattr(_ufuncs, name, None)
    if isinstance(fun, np.ufunc) and fun not in rows:
        elementwise(fun, *partials)


def beta_slope(i, y, a, b, x):
    """Return the partial of the regularised incomplete beta function with respect to a parameter."""
    return lookup(sp.betainc).partials[i](y, a, b, x)


def binomial(k, n, p):
    return _ufuncs._binom_pmf(k, n, p)


declare(
    "_beta_pdf",
    lambda y, x, a, b: y * ((a - 1) / x - (b - 1) / (1 - x)),
    lambda y, x, a, b: y * (np.log(x) - sp.psi(a) + sp.psi(a + b)),
    lambda y, x, a, b: y * (np.log1p(-x) - sp.psi(b) + sp.psi(a + b)),
)
declare(
    "_beta_ppf",
    lambda y, q, a, b: 1 / _ufuncs._beta_pdf(y, a, b),
    lambda y, q, a, b: -beta_slope(0, q, a, b, y) / _ufuncs._beta_pdf(y, a, b),
    lambda y, q, a, b: -beta_slope(1, q, a, b, y) / _ufuncs._beta_pdf(y, a, b),
)
declare("_binom_pmf", None, None, lambda y, k, n, p: y * (k / p - (n - k) / (1 - p)))
declare("_binom_cdf", None, None, lambda y, k, n, p: -n * binomial(np.floor(k), n - 1, p))
declare("_binom_sf", None, None, lambda y, k, n, p: n * binomial(np.floor(k), n - 1, p))
declare(
    "_nbinom_pmf",
    None,
    lambda y, k, n, p: y * (sp.psi(k + n) - sp.psi(n) + np.log(p)),
    lambda y, k, n, p: y * (n / p - k / (1 - p)),
)
declare(
    "_nbinom_cdf",
    None,
    lambda y, k, n, p: beta_slope(0, y, n, np.floor(k) + 1, p),
    lambda y, k, n, p: _ufuncs._beta_pdf(p, n, np.floor(k) + 1),
)
declare(
    "_nbinom_sf",
    None,
    lambda y, k, n, p: -beta_slope(0, 1 - y, n, np.floor(k) + 1, p),
    lambda y, k, n, p: -_ufuncs._beta_pdf(p, n, np.floor(k) + 1),
)


@dispatched
@np.vectorize(otypes=[float])
def power_sum(m, j, k, a):
    """Return the sum of log(i)**m / i**a for i from j to k."""
    i = np.arange(j, k + 1.0)
    return np.sum(np.log(i) ** m * i**-a)


elementwise(power_sum, None, None, None, lambda y, m, j, k, a: -power_sum(m + 1, j, k, a))


def log_mean(j, k, a):
    """Return the mean of log(i) for i from j to k with weights i**-a."""
    return power_sum(1, j, k, a) / power_sum(0, j, k, a)


declare("_gen_harmonic", None, lambda y, n, a: -power_sum(1, 1, n, a))
declare("_normalized_gen_harmonic", None, None, None, lambda y, j, k, n, a: y * (log_mean(1, n, a) - log_mean(j, k, a)))
declare(
    "_skewnorm_cdf",
    lambda y, x, loc, scale, a: skew_density(x, loc, scale, a),
    lambda y, x, loc, scale, a: -skew_density(x, loc, scale, a),
    lambda y, x, loc, scale, a: -(x - loc) / scale * skew_density(x, loc, scale, a),
    lambda y, x, loc, scale, a: -skew_slope(x, loc, scale, a),
)
for sign, name in ((1.0, "_cauchy_ppf"), (-1.0, "_cauchy_isf")):
    declare(
        name,
        lambda y, q, loc, scale, sign=sign: sign * scale * np.pi * (1 + ((y - loc) / scale) ** 2),
        1.0,
        lambda y, q, loc, scale: (y - loc) / scale,
    )


for sign, name in ((1.0, "_skewnorm_ppf"), (-1.0, "_skewnorm_isf")):
    declare(
        name,
        lambda y, q, loc, scale, a, sign=sign: sign / skew_density(y, loc, scale, a),
        1.0,
        lambda y, q, loc, scale, a: (y - loc) / scale,
        lambda y, q, loc, scale, a: skew_slope(y, loc, scale, a) / skew_density(y, loc, scale, a),
    )
    name = name.replace("skewnorm", "invgauss")
    declare(
        name,
        lambda y, q, mu, s, sign=sign: sign / inverse_gaussian(y, mu, s),
        lambda y, q, mu, s: inverse_gaussian_slope(y, mu, s) / inverse_gaussian(y, mu, s),
        None,
    )


def inverse_gaussian(x, mu, s):
    return np.sqrt(s / (2 * np.pi * x**3)) * np.exp(-s * (x - mu) ** 2 / (2 * mu * mu * x))


def inverse_gaussian_slope(x, mu, s):
    """Return minus the derivative of the distribution function with respect to the mean."""
    return 2 * s / mu**2 * np.exp(2 * s / mu + sp.log_ndtr(-np.sqrt(s / x) * (x / mu + 1)))


def chi2(x, k, nc):
    return _ufuncs._ncx2_pdf(x, k, nc)


declare(
    "_ncx2_pdf",
    lambda y, x, k, nc: y * ((k / 2 - 1) / x - 0.5) + 0.5 * nc / x * chi2(x, k + 2, nc),
    None,
    lambda y, x, k, nc: 0.5 * (chi2(x, k + 2, nc) - y),
)
declare("_ncx2_cdf", lambda y, x, k, nc: chi2(x, k, nc), None, lambda y, x, k, nc: -chi2(x, k + 2, nc))
declare("_ncx2_sf", lambda y, x, k, nc: -chi2(x, k, nc), None, lambda y, x, k, nc: chi2(x, k + 2, nc))


# Noncentral t: with s = sqrt(V / v) for V of the chi square distribution with v degrees of freedom, the distribution
# function is E Phi(x s - d). A factor s in the expectation raises the number of degrees of freedom by 1.


def student(x, v, d):
    return _ufuncs._nct_pdf(x, v, d)


def student_slope(x, v, d, power):
    """Return the expectation of s^power phi(x s - d), for a power of 0, 2 or 3."""
    if power == 0:
        is_direct = np.greater(v, 1)
        direct = shifted_student(x, np.where(is_direct, v, 2.0), d, -1)
        # by Stein's identity for V, since there is no distribution with v - 1 <= 0 degrees of freedom
        other = (1 + x * x / v) * student_slope(x, v, d, 2) - x * d / v * student(x, v, d)
        return np.where(is_direct, direct, other)
    if power == 2:
        return shifted_student(x, v, d, 1)
    stretch = np.sqrt((v + 2) / v)
    return stretch * student(x * stretch, v + 2, d)


def shifted_student(x, v, d, more):
    """Return the expectation of s^(more + 1) phi(x s - d), by the density with v + more degrees of freedom."""
    freedom = v + more
    scale = np.sqrt(freedom / 2) * np.exp(sp.gammaln(freedom / 2) - sp.gammaln((freedom + 1) / 2))
    return scale * student(x * np.sqrt(freedom / v), freedom, d)


declare("_nct_sf", lambda y, x, v, d: -student(x, v, d), None, lambda y, x, v, d: student_slope(x, v, d, 0))
declare(
    "_nct_isf",
    lambda y, q, v, d: -1 / student(y, v, d),
    None,
    lambda y, q, v, d: student_slope(y, v, d, 0) / student(y, v, d),
)
declare(
    "_nct_pdf",
    lambda y, x, v, d: d * student_slope(x, v, d, 2) - x * student_slope(x, v, d, 3),
    None,
    lambda y, x, v, d: x * student_slope(x, v, d, 2) - d * y,
)
declare(
    "_nct_mean",
    lambda y, v, d: y / 2 * (1 / v + sp.psi((v - 1) / 2) - sp.psi(v / 2)),
    lambda y, v, d: _ufuncs._nct_mean(v, 1.0) + 0.0 * d,
)
declare(
    "_nct_variance",
    lambda y, v, d: (
        -2 * (1 + d * d) / (v - 2) ** 2 - _ufuncs._nct_mean(v, d) ** 2 * (1 / v + sp.psi((v - 1) / 2) - sp.psi(v / 2))
    ),
    lambda y, v, d: 2 * d * (v / (v - 2) - _ufuncs._nct_mean(v, 1.0) ** 2),
)


@dispatched
def noncentral_t_cdf(x, v, d):
    return sp.nctdtr(v, d, x)


by_formula(noncentral_t_cdf, lambda x, v, d: 1 - _ufuncs._nct_sf(x, v, d))
declare("_nbinom_mean", lambda y, n, p: (1 - p) / p, lambda y, n, p: -n / (p * p))
declare("_nbinom_variance", lambda y, n, p: (1 - p) / (p * p), lambda y, n, p: n * (p - 2) / p**3)
declare(
    "_nbinom_skewness",
    lambda y, n, p: -y / (2 * n),
    lambda y, n, p: (0.5 * (2 - p) / (1 - p) - 1) / np.sqrt(n * (1 - p)),
)
declare("_nbinom_kurtosis_excess", lambda y, n, p: -y / n, lambda y, n, p: p * (2 - p) / (n * (1 - p) ** 2))
declare("_log1mexp", lambda y, x: -np.exp(x - y))
declare("_scaled_exp1", lambda y, x: y / x + y - 1)
declare("_cosine_cdf", lambda y, x: np.cos(x / 2) ** 2 / np.pi)
declare("_cosine_invcdf", lambda y, p: np.pi / np.cos(y / 2) ** 2)


def skew_slope(x, loc, scale, a):
    """Return minus the derivative of the distribution function with respect to the skewness parameter."""
    return np.exp(-0.5 * ((x - loc) / scale) ** 2 * (1 + a * a)) / (np.pi * (1 + a * a))


def skew_density(x, loc, scale, a):
    z = (x - loc) / scale
    return np.sqrt(2 / np.pi) / scale * np.exp(-0.5 * z * z) * sp.ndtr(a * z)


declare("_kolmogc", lambda y, x: -_ufuncs._kolmogp(x))
declare("_smirnovc", None, lambda y, n, x: -_ufuncs._smirnovp(n, x))
for sign, name in ((1.0, "_landau_cdf"), (-1.0, "_landau_sf")):
    declare(
        name,
        lambda y, x, loc, scale, sign=sign: sign * _ufuncs._landau_pdf(x, loc, scale),
        lambda y, x, loc, scale, sign=sign: -sign * _ufuncs._landau_pdf(x, loc, scale),
        lambda y, x, loc, scale, sign=sign: -sign * (x - loc) / scale * _ufuncs._landau_pdf(x, loc, scale),
    )


# ---- the von Mises distribution

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)


def von_mises(x, k):
    return np.exp(k * sp.cosm1(x)) / (2 * np.pi * sp.i0e(k))


@dispatched
def von_mises_cdf(x, k):
    return importlib.import_module("scipy.stats._stats").von_mises_cdf(k, x)


@dispatched
def circular_moment(m, x, k):
    """Return the integral of cos(t)**m, with the density, from -pi to x."""
    m, x, k = np.broadcast_arrays(m, x, k)
    turns = np.round(x / (2 * np.pi))
    end = 12 / np.sqrt(np.maximum(k, (12 / np.pi) ** 2))  # the density is negligible beyond

    def integral(x):
        t = x[..., None] * (1 + _NODES) / 2
        return x / 2 * np.sum(_WEIGHTS * np.cos(t) ** m[..., None] * von_mises(t, k[..., None]), axis=-1)

    return ((1 + 2 * turns) * integral(end) + integral(np.clip(x - 2 * np.pi * turns, -end, end)))[()]


elementwise(
    circular_moment,
    None,
    lambda y, m, x, k: np.cos(x) ** m * von_mises(x, k),
    lambda y, m, x, k: circular_moment(m + 1, x, k) - sp.i1e(k) / sp.i0e(k) * y,
)
elementwise(
    von_mises_cdf,
    lambda y, x, k: von_mises(x, k),
    lambda y, x, k: circular_moment(1, x, k) - sp.i1e(k) / sp.i0e(k) * circular_moment(0, x, k),
)


# ---- distributions of test statistics


@dispatched
def survival(x, args, name):
    """Return the survival function of a test statistic: ``scipy.stats.kstwo``, ``ksone`` or ``studentized_range``."""
    return np.asarray(getattr(importlib.import_module("scipy.stats"), name).sf(x, *args))


@dispatched
def density(x, args, name):
    return np.asarray(getattr(importlib.import_module("scipy.stats"), name).pdf(x, *args))


def no_derivative(*args):
    raise UnsupportedFunctionError(
        "this p-value of scipy.stats has no derivative of this order: use the statistic of the test"
    )


def unknown(t, y, *args):
    return np.full(np.shape(t)[: np.ndim(t) - np.ndim(y)] + np.shape(y), np.nan)


structural(
    survival,
    lambda ybar, y, x, args, name: -ybar * density(x, args, name),
    jvp=(lambda t, y, x, args, name: -t * density(x, args, name),),
    stacked=False,
).name = "scipy.stats.kstwo.sf"
structural(density, no_derivative, jvp=(unknown,), stacked=False).name = "scipy.stats.kstwo.pdf"


@dispatched
def cramer_von_mises(x, n):
    """Return the distribution function of the statistic of Cramer and von Mises, a series."""
    return np.asarray(importlib.import_module("scipy.stats._hypotests")._cdf_cvm(x, n))


structural(cramer_von_mises, no_derivative, jvp=(unknown,), stacked=False).name = "scipy.stats.cramervonmises"


# ---- differences of exponentials


@dispatched
def log_difference(log_p, log_q):
    """Return log(p - q) as a complex number, as `scipy.stats` computes it."""
    return importlib.import_module("scipy.stats._continuous_distns")._log_diff(log_p, log_q)


by_formula(log_difference, lambda log_p, log_q: (log_p + np.log1p(-np.exp(log_q - log_p))) * (1 + 0j), on_complex=True)


def log_difference_of_exponentials(x, y):
    """Return log(exp(x) - exp(y)) as a complex number."""
    x, y = as_array(x), as_array(y)
    real = x if x.dtype.kind != "c" else np.real(x)
    other = y if y.dtype.kind != "c" else np.real(y)
    low, high = np.minimum(real, other), np.maximum(real, other)
    found = high + np.log1p(-np.exp(np.where(np.isinf(low), -np.inf, low - np.where(np.isinf(high), 0.0, high))))
    return np.where(other > real, found + np.pi * 1j, found + 0j)


# ---- expectiles


@locally_constant
def plain_expectile(a, alpha, weights, axis):
    fun = importlib.import_module("scipy.stats").expectile
    options = {} if axis is None else {"axis": axis, "keepdims": True}
    return np.asarray(fun(a, alpha, weights=weights, **options))


def expectile(a, alpha=0.5, *, weights=None, axis=None, nan_policy="propagate", keepdims=False):
    """Return the expectile as a weighted mean; a value's weight depends only on its side of the expectile."""
    a = as_array(a)
    side = np.abs(np.where(a <= plain_expectile(a, alpha, weights, axis), 1 - alpha, -alpha))
    weight = side if weights is None else side * weights
    return np.sum(weight * a, axis=axis, keepdims=keepdims) / np.sum(weight, axis=axis, keepdims=keepdims)


# ---- robust slopes


def siegel_slopes(y, x, method):
    """Return the median of the median slopes through each point, and the intercept (Siegel 1982)."""
    slopes, intercepts = [], []
    for j in range(np.shape(x)[0]):
        rise, run = y - y[j], x - x[j]
        is_other = np.not_equal(run, 0)
        slopes.append(np.median(rise[is_other] / run[is_other]))
        intercepts.append(np.median((y[j] * x - y * x[j])[is_other] / run[is_other]))
    slope = np.median(np.stack(slopes))
    return slope, np.median(np.stack(intercepts) if method == "separate" else y - slope * x)


# ---- draws


@dispatched
def normal_draws(size, dim, random_state):
    """Return standard normal draws in the order in which NumPy makes multivariate ones."""
    shape = (*np.atleast_1d(() if size is None else size).astype(int), dim)
    return check_random_state(random_state).standard_normal(shape)


def multivariate_normal_draws(mean, cov, size, random_state):
    """Transform draws as ``numpy.random.RandomState.multivariate_normal`` does."""
    z = normal_draws(size, np.shape(mean)[0], random_state)
    _, s, v = np.linalg.svd(cov)
    return z @ (np.sqrt(s)[:, None] * v) + mean


# ---- bins


def of_bins(values, number, count, statistic):
    """Return a statistic of the values in each bin; bins without values get NaN, or 0 for a sum."""
    fun = _STATISTICS.get(statistic, statistic)
    chosen = [np.flatnonzero(number == i) for i in range(count)]
    empty = _of_nothing(statistic) if callable(statistic) else 0.0 if statistic in ("sum", "count") else np.nan
    return np.stack([fun(values[i]) if len(i) else empty for i in chosen])


def _of_nothing(statistic):
    """Return the value of a statistic for an empty bin, as SciPy does: NaN if it raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
        try:
            return statistic([])
        except Exception:
            return np.nan


_STATISTICS = {"mean": np.mean, "sum": np.sum, "std": np.std, "median": np.median, "min": np.min, "max": np.max}
_STATISTICS["count"] = lambda values: float(np.size(values))


# ---- kernel densities


def log_kernels(points, xi, factor):
    """Return the logarithms of Gaussian kernels at the points xi, one column for each sample."""
    d = np.shape(points)[1]
    whitened = [np.transpose(np.linalg.solve(factor, np.transpose(x))) for x in (points, xi)]
    square = np.sum((whitened[1][:, None, :] - whitened[0][None, :, :]) ** 2, axis=-1)
    return -0.5 * square - 0.5 * d * np.log(2 * np.pi) - np.sum(np.log(np.diagonal(factor)))


def compiled(name, spec):
    return getattr(importlib.import_module("scipy.stats._stats"), name)[spec]


@dispatched
def kernel_estimate(points, values, xi, factor, spec, dtype):
    return compiled("gaussian_kernel_estimate", spec)(*map(np.ascontiguousarray, (points, values, xi)), factor, dtype)


@dispatched
def log_kernel_estimate(points, values, xi, factor, spec, dtype):
    arrays = map(np.ascontiguousarray, (points, values, xi))
    return compiled("gaussian_kernel_estimate_log", spec)(*arrays, factor, dtype)


@by_formula(kernel_estimate)
def _kernel_estimate(points, values, xi, factor, spec, dtype):
    return np.exp(log_kernels(points, xi, factor)) @ values


@by_formula(log_kernel_estimate)
def _log_kernel_estimate(points, values, xi, factor, spec, dtype):
    logs = log_kernels(points, xi, factor)
    columns = [log_sum(logs, np.broadcast_to(values[:, k], np.shape(logs)), -1) for k in range(np.shape(values)[1])]
    return np.stack(columns, axis=-1)


class KernelEstimate:
    """A formula in place of ``scipy.stats._stats.gaussian_kernel_estimate``, which is indexed by the type."""

    def __init__(self, fun):
        self.fun = fun

    def __getitem__(self, spec):
        return lambda points, values, xi, factor, dtype: self.fun(points, values, xi, factor, spec, dtype)
