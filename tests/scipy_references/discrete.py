"""Discrete and multivariate distributions, and statistics, in closed form."""

from __future__ import annotations

import functools

import mpmath as mp
import numpy as np
import scipy.stats
from mpmath import binomial, exp, gamma, log, log1p, loggamma, pi, sqrt

from .distributions import beta_lower, gamma_upper, logarithm, t_cdf
from .engine import Row
from .linalg import matrix, symmetric, vector

st, F = scipy.stats, mp.mpf

# ---- discrete distributions: probability, parameters, first point of the support, point, parameters that may be traced


def shifted(k, a, b):
    return gamma(a + k) / gamma(a) * gamma(b)


DISTRIBUTIONS = {
    "bernoulli": (lambda k, p: p if k else 1 - p, (0.3,), 0, 0),
    "betabinom": (lambda k, n, a, b: binomial(n, k) * mp.beta(k + a, n - k + b) / mp.beta(a, b), (8, 1.4, 2.3), 0, 3),
    "betanbinom": (
        lambda k, n, a, b: binomial(n + k - 1, k) * mp.beta(a + n, b + k) / mp.beta(a, b),
        (5, 3.4, 2.3),
        0,
        3,
    ),
    "binom": (lambda k, n, p: binomial(n, k) * p**k * (1 - p) ** (n - k), (8, 0.3), 0, 3),
    "boltzmann": (lambda k, r, n: (1 - exp(-r)) * exp(-r * k) / (1 - exp(-r * n)), (1.4, 6), 0, 2),
    "geom": (lambda k, p: (1 - p) ** (k - 1) * p, (0.3,), 1, 4),
    "logser": (lambda k, p: -(p**k) / (k * log1p(-p)), (0.3,), 1, 3),
    "nbinom": (lambda k, n, p: gamma(n + k) / gamma(n) / mp.factorial(k) * p**n * (1 - p) ** k, (4.2, 0.3), 0, 3),
    "planck": (lambda k, r: -mp.expm1(-r) * exp(-r * k), (0.7,), 0, 3),
    "poisson": (lambda k, m: m**k * exp(-m) / mp.factorial(k), (2.3,), 0, 3),
    "yulesimon": (lambda k, a: a * mp.beta(k, a + 1), (1.7,), 1, 3),
    "zipf": (lambda k, a: k**-a / mp.zeta(a), (2.4,), 1, 3),
    "zipfian": (lambda k, a, n: k**-a / mp.fsum(F(i) ** -a for i in range(1, int(n) + 1)), (1.3, 9), 1, 3),
}


def discrete_function(dist, method, k, shapes):
    moving = [i for i, x in enumerate(shapes) if isinstance(x, float)]

    def f(p):
        args = list(shapes)
        for row, i in enumerate(moving):
            args[i] = p[row]
        return getattr(dist, method)(k, *args)

    return f


def discrete_form(form, k, shapes):
    moving = [i for i, x in enumerate(shapes) if isinstance(x, float)]

    def closed(*p):
        args = list(map(F, shapes))
        for x, i in zip(p, moving):
            args[i] = x
        return form(F(k), *args)

    return closed


def summed(form, start):
    return lambda k, *args: mp.fsum(form(F(j), *args) for j in range(start, int(k) + 1))


def discrete_rows(name, form, shapes, start, k):
    dist = getattr(st, name)
    below = summed(form, start)
    forms = {"pmf": form, "cdf": below, "sf": lambda *args: 1 - below(*args)}
    forms |= {"logpmf": logarithm(form), "logcdf": logarithm(below), "logsf": logarithm(forms["sf"])}
    point = [x for x in shapes if isinstance(x, float)]
    for label, one in forms.items():
        f = discrete_function(dist, label, k, shapes)
        yield label, Row(f, discrete_form(functools.cache(one), k, shapes), point, 1e-12, 1e-11)


# ---- moments and entropies: mean, variance and entropy of the shapes

MOMENTS = {
    "beta": (
        lambda a, b: a / (a + b),
        lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
        lambda a, b: log(mp.beta(a, b))
        - (a - 1) * mp.psi(0, a)
        - (b - 1) * mp.psi(0, b)
        + (a + b - 2) * mp.psi(0, a + b),
        (1.4, 2.3),
    ),
    "betaprime": (
        lambda a, b: a / (b - 1),
        lambda a, b: a * (a + b - 1) / ((b - 2) * (b - 1) ** 2),
        None,
        (1.4, 3.3),
    ),
    "chi": (
        lambda v: sqrt(2) * gamma((v + 1) / 2) / gamma(v / 2),
        lambda v: v - 2 * (gamma((v + 1) / 2) / gamma(v / 2)) ** 2,
        lambda v: loggamma(v / 2) + (v - log(2) - (v - 1) * mp.psi(0, v / 2)) / 2,
        (2.4,),
    ),
    "chi2": (
        lambda v: v,
        lambda v: 2 * v,
        lambda v: v / 2 + log(2) + loggamma(v / 2) + (1 - v / 2) * mp.psi(0, v / 2),
        (2.4,),
    ),
    "exponnorm": (lambda k: k, lambda k: 1 + k * k, None, (1.4,)),
    "f": (
        lambda m, n: n / (n - 2) + 0 * m,
        lambda m, n: 2 * n * n * (m + n - 2) / (m * (n - 2) ** 2 * (n - 4)),
        None,
        (3.4, 7.3),
    ),
    "gamma": (lambda a: a, lambda a: a, lambda a: a + loggamma(a) + (1 - a) * mp.psi(0, a), (2.2,)),
    "genextreme": (
        lambda c: (1 - gamma(1 + c)) / c,
        lambda c: (gamma(1 + 2 * c) - gamma(1 + c) ** 2) / (c * c),
        lambda c: mp.euler * (1 - c) + 1,
        (0.4,),
    ),
    "gennorm": (
        None,
        lambda b: gamma(3 / b) / gamma(1 / b),
        lambda b: 1 / b - log(b / (2 * gamma(1 / b))),
        (1.7,),
    ),
    "genpareto": (lambda c: 1 / (1 - c), lambda c: 1 / ((1 - c) ** 2 * (1 - 2 * c)), lambda c: 1 + c, (0.2,)),
    "gompertz": (None, None, lambda c: 1 - log(c) - exp(c) * mp.e1(c), (0.7,)),
    "invgamma": (
        lambda a: 1 / (a - 1),
        lambda a: 1 / ((a - 1) ** 2 * (a - 2)),
        lambda a: a + loggamma(a) - (1 + a) * mp.psi(0, a),
        (3.2,),
    ),
    "invgauss": (lambda m: m, lambda m: m**3, None, (1.3,)),
    "lognorm": (
        lambda s: exp(s * s / 2),
        lambda s: mp.expm1(s * s) * exp(s * s),
        lambda s: (1 + log(2 * pi)) / 2 + log(s),
        (0.8,),
    ),
    "lomax": (lambda c: 1 / (c - 1), lambda c: c / ((c - 1) ** 2 * (c - 2)), lambda c: 1 + 1 / c - log(c), (3.2,)),
    "nakagami": (
        lambda v: gamma(v + F(1) / 2) / gamma(v) / sqrt(v),
        lambda v: 1 - (gamma(v + F(1) / 2) / gamma(v)) ** 2 / v,
        None,
        (1.7,),
    ),
    "pareto": (lambda b: b / (b - 1), lambda b: b / ((b - 1) ** 2 * (b - 2)), lambda b: 1 + 1 / b - log(b), (3.2,)),
    "powerlaw": (
        lambda a: a / (a + 1),
        lambda a: a / ((a + 1) ** 2 * (a + 2)),
        lambda a: 1 - 1 / a - log(a),
        (1.7,),
    ),
    "skewnorm": (
        lambda a: sqrt(2 / pi) * a / sqrt(1 + a * a),
        lambda a: 1 - 2 / pi * a * a / (1 + a * a),
        None,
        (1.2,),
    ),
    "t": (
        None,
        lambda v: v / (v - 2),
        lambda v: (v + 1) / 2 * (mp.psi(0, (v + 1) / 2) - mp.psi(0, v / 2)) + log(sqrt(v) * mp.beta(v / 2, F(1) / 2)),
        (4.2,),
    ),
    "vonmises": (
        None,
        None,
        lambda k: -k * mp.besseli(1, k) / mp.besseli(0, k) + log(2 * pi * mp.besseli(0, k)),
        (1.4,),
    ),
    "weibull_min": (
        lambda c: gamma(1 + 1 / c),
        lambda c: gamma(1 + 2 / c) - gamma(1 + 1 / c) ** 2,
        lambda c: mp.euler * (1 - 1 / c) - log(c) + 1,
        (1.7,),
    ),
}


def moment_function(dist, method):
    return lambda p: getattr(dist, method)(*p)


def moment_rows(name, mean, var, entropy, shapes):
    for label, form in (("mean", mean), ("var", var), ("entropy", entropy)):
        if form is not None:
            yield label, Row(moment_function(getattr(st, name), label), form, list(shapes), 1e-12, 1e-11)


# ---- multivariate distributions


def quadratic(x, s):
    return (x.T * s**-1 * x)[0]


def normal_logpdf(x, s):
    return -quadratic(x, s) / 2 - log(mp.det(s)) / 2 - log(2 * pi)


def student_logpdf(x, s, v):
    inner = -(v + 2) / 2 * log1p(quadratic(x, s) / v)
    return loggamma((v + 2) / 2) - loggamma(v / 2) - log(v * pi) - log(mp.det(s)) / 2 + inner


def dirichlet_logpdf(x, a):
    x = [*x, 1 - mp.fsum(x)]
    return loggamma(mp.fsum(a)) + mp.fsum((k - 1) * log(y) - loggamma(k) for k, y in zip(a, x))


def trace(a):
    return a[0, 0] + a[1, 1]


def log_multigamma(a):
    return log(pi) / 2 + loggamma(a) + loggamma(a - F(1) / 2)


def wishart_logpdf(x, v, s):
    inner = (v - 3) / 2 * log(mp.det(x)) - trace(s**-1 * x) / 2
    return inner - v / 2 * log(mp.det(s)) - v * log(2) - log_multigamma(v / 2)


def inverse_wishart_logpdf(x, v, s):
    inner = -(v + 3) / 2 * log(mp.det(x)) - trace(s * x**-1) / 2
    return inner + v / 2 * log(mp.det(s)) - v * log(2) - log_multigamma(v / 2)


def multinomial_logpmf(x, p):
    return loggamma(sum(x) + 1) + mp.fsum(k * log(q) - loggamma(k + 1) for k, q in zip(x, p))


def dirichlet_multinomial_logpmf(x, a):
    inner = mp.fsum(loggamma(k + b) - loggamma(b) - loggamma(k + 1) for k, b in zip(x, a))
    return loggamma(mp.fsum(a)) + loggamma(sum(x) + 1) - loggamma(sum(x) + mp.fsum(a)) + inner


MULTIVARIATE = {
    "multivariate_normal": {
        "logpdf": Row(
            lambda p: st.multivariate_normal.logpdf(p[:2], np.zeros(2), symmetric(p[1:])),
            lambda *p: normal_logpdf(vector(p[:2]), matrix(symmetric(p[1:]))),
            [0.3, 0.4, 0.7, 0.9],
        ),
        "pdf, in a tail": Row(
            lambda p: st.multivariate_normal.pdf(p[:2], p[2:4], symmetric(p[4:])),
            lambda *p: exp(normal_logpdf(vector([p[0] - p[2], p[1] - p[3]]), matrix(symmetric(p[4:])))),
            [9.3, -7.4, 0.7, 0.9, 0.3, 0.4, 0.7],
            first=1e-12,
            second=1e-12,
        ),
        "entropy": Row(
            lambda p: st.multivariate_normal.entropy(np.zeros(2), symmetric(p)),
            lambda *p: log(mp.det(2 * pi * mp.e * matrix(symmetric(p)))) / 2,
            [0.3, 0.4, 0.7],
        ),
    },
    "multivariate_t": {
        "logpdf": Row(
            lambda p: st.multivariate_t.logpdf(p[:2], np.zeros(2), symmetric(p[1:]), 4.0),
            lambda *p: student_logpdf(vector(p[:2]), matrix(symmetric(p[1:])), F(4)),
            [0.3, 0.4, 0.7, 0.9],
        )
    },
    "dirichlet": {
        "logpdf": Row(
            lambda p: st.dirichlet.logpdf(p[:2], p[2:]),
            lambda *p: dirichlet_logpdf(p[:2], p[2:]),
            [0.2, 0.3, 1.4, 2.3, 0.7],
        )
    },
    "wishart": {
        "logpdf": Row(
            lambda p: st.wishart.logpdf(symmetric(p), 5, symmetric(p[1:])),
            lambda *p: wishart_logpdf(matrix(symmetric(p)), F(5), matrix(symmetric(p[1:]))),
            [0.3, 0.4, 0.7, 0.2],
        )
    },
    "invwishart": {
        "logpdf": Row(
            lambda p: st.invwishart.logpdf(symmetric(p), 5, symmetric(p[1:])),
            lambda *p: inverse_wishart_logpdf(matrix(symmetric(p)), F(5), matrix(symmetric(p[1:]))),
            [0.3, 0.4, 0.7, 0.2],
        )
    },
    "multinomial": {
        "logpmf": Row(
            lambda p: st.multinomial.logpmf([3, 1, 2], 6, np.stack([p[0], p[1], 1 - p[0] - p[1]])),
            lambda a, b: multinomial_logpmf((3, 1, 2), (a, b, 1 - a - b)),
            [0.3, 0.5],
        )
    },
    "dirichlet_multinomial": {
        "logpmf": Row(
            lambda p: st.dirichlet_multinomial.logpmf([3, 1, 2], p, 6),
            lambda *p: dirichlet_multinomial_logpmf((3, 1, 2), p),
            [1.3, 0.5, 2.2],
        )
    },
}


# ---- statistics

X, Y = [0.3, 1.2, 0.7, 2.1, 0.4], [0.3, 1.2, 0.7, 2.1, 0.4, 1.1, 0.5, 1.9]


def mean(x):
    return mp.fsum(x) / len(x)


def moment(x, k):
    m = mean(x)
    return mean([(y - m) ** k for y in x])


def variance(x):
    return moment(x, 2) * len(x) / (len(x) - 1)


def halves(p):
    return p[: len(p) // 2], p[len(p) // 2 :]


def correlation(x, y):
    a, b = mean(x), mean(y)
    return mean([(u - a) * (v - b) for u, v in zip(x, y)]) / sqrt(moment(x, 2) * moment(y, 2))


def regression(x, y):
    slope = correlation(x, y) * sqrt(moment(y, 2) / moment(x, 2))
    error = sqrt((1 - correlation(x, y) ** 2) * moment(y, 2) / moment(x, 2) / (len(x) - 2))
    return slope, mean(y) - slope * mean(x), correlation(x, y), error


def t_test(x, y):
    n, m = len(x), len(y)
    pooled = ((n - 1) * variance(x) + (m - 1) * variance(y)) / (n + m - 2)
    t = (mean(x) - mean(y)) / sqrt(pooled * (F(1) / n + F(1) / m))
    return t, 2 * t_cdf(-abs(t), F(n + m - 2))


def t_test_one(x, m):
    t = (mean(x) - m) / sqrt(variance(x) / len(x))
    return t, 2 * t_cdf(-abs(t), F(len(x) - 1))


def analysis_of_variance(x, y):
    between = len(x) * (mean(x) - mean(x + y)) ** 2 + len(y) * (mean(y) - mean(x + y)) ** 2
    within = len(x) * moment(x, 2) + len(y) * moment(y, 2)
    f, n = between / within * (len(x) + len(y) - 2), F(len(x) + len(y) - 2)
    return f, beta_lower(n / 2, F(1) / 2, n / (n + f))


def chi_square(x):
    found = mp.fsum((y - mean(x)) ** 2 for y in x) / mean(x)
    return found, gamma_upper(F(len(x) - 1) / 2, found / 2)


def jarque_bera(x):
    skew, kurtosis = moment(x, 3) / moment(x, 2) ** 1.5, moment(x, 4) / moment(x, 2) ** 2 - 3
    found = F(len(x)) / 6 * (skew**2 + kurtosis**2 / 4)
    return found, exp(-found / 2)


def box_cox(x, a):
    return (x**a - 1) / a


def yeo_johnson(x, a):
    return ((x + 1) ** a - 1) / a if x > 0 else -((1 - x) ** (2 - a) - 1) / (2 - a)


def entropy(x):
    whole = mp.fsum(x)
    return -mp.fsum(y / whole * log(y / whole) for y in x)


def kernel_density(x, at):
    """Evaluate the density with Scott's bandwidth."""
    h = sqrt(variance(x)) * F(len(x)) ** (F(-1) / 5)
    return mean([mp.npdf((at - y) / h) / h for y in x])


def bartlett(x, y):
    n, m = len(x) - 1, len(y) - 1
    pooled = (n * variance(x) + m * variance(y)) / (n + m)
    scale = 1 + (F(1) / n + F(1) / m - F(1) / (n + m)) / 3
    found = ((n + m) * log(pooled) - n * log(variance(x)) - m * log(variance(y))) / scale
    return found, gamma_upper(F(1) / 2, found / 2)


def statistic(fun, form, point=X, **options):
    return {"": Row(fun, lambda *p: form(p), point, **{"first": 1e-12, "second": 1e-11} | options)}


def pair(fun, form, point=Y, **options):
    half = len(point) // 2
    f = {"first": 1e-12, "second": 1e-11} | options
    return {"": Row(lambda p: tuple(fun(p[:half], p[half:])), lambda *p: form(*halves(p)), point, **f)}


STATISTICS = {
    "gmean": statistic(lambda x: st.gmean(x), lambda x: exp(mean([log(y) for y in x]))),
    "hmean": statistic(lambda x: st.hmean(x), lambda x: 1 / mean([1 / y for y in x])),
    "pmean": statistic(lambda x: st.pmean(x, 3), lambda x: mp.cbrt(mean([y**3 for y in x]))),
    "skew": statistic(lambda x: st.skew(x), lambda x: moment(x, 3) / moment(x, 2) ** 1.5),
    "kurtosis": statistic(lambda x: st.kurtosis(x), lambda x: moment(x, 4) / moment(x, 2) ** 2 - 3),
    "moment": statistic(lambda x: st.moment(x, 3), lambda x: moment(x, 3)),
    "zscore": statistic(lambda x: st.zscore(x), lambda x: [(y - mean(x)) / sqrt(moment(x, 2)) for y in x]),
    "variation": statistic(lambda x: st.variation(x), lambda x: sqrt(moment(x, 2)) / mean(x)),
    "sem": statistic(lambda x: st.sem(x), lambda x: sqrt(variance(x) / len(x))),
    "gstd": statistic(lambda x: st.gstd(x), lambda x: exp(sqrt(variance([log(y) for y in x])))),
    "entropy": statistic(lambda x: st.entropy(x), entropy),
    "jarque_bera": statistic(lambda x: tuple(st.jarque_bera(x)), jarque_bera),
    "chisquare": statistic(lambda x: tuple(st.chisquare(x)), chi_square),
    "ttest_1samp": statistic(lambda x: tuple(st.ttest_1samp(x[:4], x[4])), lambda x: t_test_one(x[:4], x[4])),
    "boxcox": statistic(lambda x: st.boxcox(x[:4], x[4]), lambda x: [box_cox(y, x[4]) for y in x[:4]]),
    "yeojohnson": statistic(
        lambda x: st.yeojohnson(x[:3], x[3]),
        lambda x: [yeo_johnson(y, x[3]) for y in x[:3]],
        [0.3, -1.2, 0.7, 0.4],
    ),
    "gaussian_kde": statistic(lambda x: st.gaussian_kde(x[:4])(x[4:]), lambda x: kernel_density(x[:4], x[4])),
    "circmean": statistic(
        lambda x: st.circmean(x), lambda x: mp.atan2(mp.fsum(map(mp.sin, x)), mp.fsum(map(mp.cos, x)))
    ),
    "wasserstein_distance": statistic(
        lambda x: st.wasserstein_distance(x[:2], x[2:4]),
        lambda x: mean([abs(a - b) for a, b in zip(sorted(x[:2]), sorted(x[2:4]))]),
    ),
    "pearsonr": pair(lambda x, y: st.pearsonr(x, y)[:1], lambda x, y: correlation(x, y)),
    "linregress": pair(
        lambda x, y: (lambda r: (r.slope, r.intercept, r.rvalue, r.stderr))(st.linregress(x, y)), regression
    ),
    "ttest_ind": pair(lambda x, y: st.ttest_ind(x, y), t_test),
    "ttest_rel": pair(
        lambda x, y: st.ttest_rel(x, y),
        lambda x, y: t_test_one([a - b for a, b in zip(x, y)], F(0)),
        [*Y[:4], 0.1, 1.5, 0.2, 1.7],
    ),
    "f_oneway": pair(lambda x, y: st.f_oneway(x, y), analysis_of_variance),
    "bartlett": pair(lambda x, y: st.bartlett(x, y), bartlett),
}


def merged(*tables):
    found: dict[str, dict[str, Row]] = {}
    for table in tables:
        for name, rows in table.items():
            found[name] = found.get(name, {}) | dict(rows)
    return found


CASES = merged(
    {name: discrete_rows(name, *spec) for name, spec in DISTRIBUTIONS.items()},
    {name: moment_rows(name, *spec) for name, spec in MOMENTS.items()},
    MULTIVARIATE,
    STATISTICS,
)
