"""Continuous distributions of `scipy.stats` by their densities and distribution functions in closed form."""

from __future__ import annotations

import functools

import mpmath as mp
import scipy.stats
from mpmath import acos, asin, asinh, atan, cos, erfc, exp, expm1, gamma, log, log1p, ncdf, npdf, pi, sign, sin, sqrt

from .engine import DIGITS, Row

st, F = scipy.stats, mp.mpf

LOC, SCALE, LIMITS = 0.25, 1.5, (1e-12, 1e-10, 1e-9)


def beta_lower(a, b, x):
    return mp.re(mp.betainc(a, b, 0, x, regularized=True))


def gamma_lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def gamma_upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def complement(form):
    return lambda *args: 1 - form(*args)


def argus_psi(x):
    return ncdf(x) - x * npdf(x) - F(1) / 2


def crystal_norm(b, m):
    return 1 / (m / b / (m - 1) * exp(-b * b / 2) + sqrt(2 * pi) * ncdf(b))


def crystal_pdf(x, b, m):
    if x > -b:
        return crystal_norm(b, m) * exp(-x * x / 2)
    return crystal_norm(b, m) * (m / b) ** m * exp(-b * b / 2) * (m / b - b - x) ** -m


def crystal_cdf(x, b, m):
    if x > -b:
        inner = m / b * exp(-b * b / 2) / (m - 1) + sqrt(2 * pi) * (ncdf(x) - ncdf(-b))
        return crystal_norm(b, m) * inner
    return crystal_norm(b, m) * (m / b) ** m * exp(-b * b / 2) * (m / b - b - x) ** (1 - m) / (m - 1)


def mills(x):
    return ncdf(-x) / npdf(x)


def inverse_gauss_cdf(x, m):
    return ncdf((x / m - 1) / sqrt(x)) + exp(2 / m) * ncdf(-(x / m + 1) / sqrt(x))


def inverse_gauss_sf(x, m):
    return ncdf(-(x / m - 1) / sqrt(x)) - exp(2 / m) * ncdf(-(x / m + 1) / sqrt(x))


def skew_t_place(x, a, b):
    return x / sqrt(a + b + x * x)


def pearson3_place(x, k):
    return 4 / (k * k), 2 / k * (x + 2 / k)


def t_cdf(t, v):
    tail = beta_lower(v / 2, F(1) / 2, v / (v + t * t)) / 2
    return 1 - tail if t > 0 else tail


def noncentral_t_cdf(x, v, d):
    """AS 243 (Lenth 1989), for x > 0."""
    y, half = x * x / (x * x + v), d * d / 2
    terms = []
    for j in range(60):
        p = exp(-half) * half**j / mp.factorial(j)
        q = d * exp(-half) * half**j / (sqrt(2) * gamma(j + F(3) / 2))
        terms.append(p * beta_lower(j + F(1) / 2, v / 2, y))
        terms.append(q * beta_lower(F(j + 1), v / 2, y))
    return ncdf(-d) + mp.fsum(terms) / 2


def poisson_mixture(form, c):
    """Return the mean of form(j) over the Poisson distribution with mean c."""
    return mp.fsum(exp(-c) * c**j / mp.factorial(j) * form(j) for j in range(70))


def chi2_pdf(x, v):
    return x ** (v / 2 - 1) * exp(-x / 2) / (2 ** (v / 2) * gamma(v / 2))


def f_pdf(x, m, n):
    return (m / n) ** (m / 2) * x ** (m / 2 - 1) * (1 + m * x / n) ** (-(m + n) / 2) / mp.beta(m / 2, n / 2)


def trapezoid_pdf(x, c, d):
    return (x / c if x < c else 1 if x < d else (1 - x) / (1 - d)) * 2 / (1 + d - c)


def trapezoid_cdf(x, c, d):
    if x < c:
        return x * x / c / (1 + d - c)
    return (2 * x - c) / (1 + d - c) if x < d else 1 - (1 - x) ** 2 / (1 - d) / (1 + d - c)


def breit_wigner_pdf(x, r):
    k = 2 * sqrt(2) * r * r * sqrt(r * r + 1) / (pi * sqrt(r * r + r * sqrt(r * r + 1)))
    return k / ((x * x - r * r) ** 2 + r * r)


# density, distribution function, survival function (one of the two may be missing), shapes, and points from the lower
# to the upper tail; `fixed` counts the shapes, from the first, in which SciPy has no derivative
DISTRIBUTIONS = {
    "alpha": (
        lambda x, a: npdf(a - 1 / x) / (x * x * ncdf(a)),
        lambda x, a: ncdf(a - 1 / x) / ncdf(a),
        None,
        (1.7,),
        (0.15, 0.8, 30.0),
    ),
    "anglit": (lambda x: cos(2 * x), lambda x: sin(x + pi / 4) ** 2, None, (), (-0.78, 0.3, 0.78)),
    "arcsine": (
        lambda x: 1 / (pi * sqrt(x * (1 - x))),
        lambda x: 2 / pi * asin(sqrt(x)),
        None,
        (),
        (1e-6, 0.3, 0.999),
    ),
    "argus": (
        lambda x, c: c**3 / (sqrt(2 * pi) * argus_psi(c)) * x * sqrt(1 - x * x) * exp(-c * c * (1 - x * x) / 2),
        None,
        lambda x, c: argus_psi(c * sqrt(1 - x * x)) / argus_psi(c),
        (1.2,),
        (0.1, 0.6, 0.999),
    ),
    "beta": (
        lambda x, a, b: x ** (a - 1) * (1 - x) ** (b - 1) / mp.beta(a, b),
        lambda x, a, b: beta_lower(a, b, x),
        lambda x, a, b: beta_lower(b, a, 1 - x),
        (1.2, 2.7),
        (1e-6, 0.3, 0.9999),
    ),
    "betaprime": (
        lambda x, a, b: x ** (a - 1) * (1 + x) ** (-a - b) / mp.beta(a, b),
        lambda x, a, b: beta_lower(a, b, x / (1 + x)),
        lambda x, a, b: beta_lower(b, a, 1 / (1 + x)),
        (1.2, 2.7),
        (1e-5, 0.7, 1e4),
    ),
    "bradford": (
        lambda x, c: c / (log1p(c) * (1 + c * x)),
        lambda x, c: log1p(c * x) / log1p(c),
        None,
        (0.8,),
        (1e-8, 0.3, 0.9999),
    ),
    "burr": (
        lambda x, c, d: c * d * x ** (-c - 1) * (1 + x**-c) ** (-d - 1),
        lambda x, c, d: (1 + x**-c) ** -d,
        None,
        (2.2, 1.3),
        (1e-3, 0.7, 1e3),
    ),
    "burr12": (
        lambda x, c, d: c * d * x ** (c - 1) * (1 + x**c) ** (-d - 1),
        None,
        lambda x, c, d: (1 + x**c) ** -d,
        (2.2, 1.3),
        (1e-3, 0.7, 1e5),
    ),
    "cauchy": (
        lambda x: 1 / (pi * (1 + x * x)),
        lambda x: F(1) / 2 + atan(x) / pi,
        None,
        (),
        (-1e5, 0.4, 1e5),
    ),
    "chi": (
        lambda x, v: x ** (v - 1) * exp(-x * x / 2) / (2 ** (v / 2 - 1) * gamma(v / 2)),
        lambda x, v: gamma_lower(v / 2, x * x / 2),
        lambda x, v: gamma_upper(v / 2, x * x / 2),
        (2.2,),
        (1e-4, 1.3, 9.0),
    ),
    "chi2": (
        chi2_pdf,
        lambda x, v: gamma_lower(v / 2, x / 2),
        lambda x, v: gamma_upper(v / 2, x / 2),
        (3.2,),
        (1e-5, 2.3, 90.0),
    ),
    "cosine": (
        lambda x: (1 + cos(x)) / (2 * pi),
        lambda x: (pi + x + sin(x)) / (2 * pi),
        None,
        (),
        (-3.1, 0.7, 3.1),
    ),
    "crystalball": (crystal_pdf, crystal_cdf, None, (1.3, 2.4), (-40.0, -1.7, 0.6, 3.0)),
    "dgamma": (
        lambda x, a: abs(x) ** (a - 1) * exp(-abs(x)) / (2 * gamma(a)),
        lambda x, a: (1 + gamma_lower(a, x)) / 2 if x > 0 else gamma_upper(a, -x) / 2,
        lambda x, a: (1 + gamma_lower(a, -x)) / 2 if x < 0 else gamma_upper(a, x) / 2,
        (1.7,),
        (-40.0, -0.3, 0.6, 40.0),
    ),
    "dpareto_lognorm": (
        lambda x, u, s, a, b: a
        * b
        / ((a + b) * x)
        * npdf((log(x) - u) / s)
        * (mills(a * s - (log(x) - u) / s) + mills(b * s + (log(x) - u) / s)),
        lambda x, u, s, a, b: ncdf((log(x) - u) / s)
        - npdf((log(x) - u) / s)
        * (b * mills(a * s - (log(x) - u) / s) - a * mills(b * s + (log(x) - u) / s))
        / (a + b),
        None,
        (0.3, 0.8, 1.2, 1.7),
        (1e-3, 0.8, 1e3),
    ),
    "dweibull": (
        lambda x, c: c / 2 * abs(x) ** (c - 1) * exp(-(abs(x) ** c)),
        lambda x, c: 1 - exp(-(x**c)) / 2 if x > 0 else exp(-((-x) ** c)) / 2,
        None,
        (1.7,),
        (-10.0, -0.3, 0.6, 10.0),
    ),
    "expon": (lambda x: exp(-x), lambda x: -expm1(-x), lambda x: exp(-x), (), (1e-9, 0.7, 90.0)),
    "exponnorm": (
        lambda x, k: exp(1 / (2 * k * k) - x / k) * erfc(-(x - 1 / k) / sqrt(2)) / (2 * k),
        lambda x, k: ncdf(x) - exp(1 / (2 * k * k) - x / k) * ncdf(x - 1 / k),
        None,
        (1.4,),
        (-5.0, 0.6, 40.0),
    ),
    "exponpow": (
        lambda x, b: b * x ** (b - 1) * exp(1 + x**b - exp(x**b)),
        lambda x, b: -expm1(-expm1(x**b)),
        lambda x, b: exp(-expm1(x**b)),
        (1.7,),
        (1e-4, 0.6, 2.2),
    ),
    "exponweib": (
        lambda x, a, c: a * c * (-expm1(-(x**c))) ** (a - 1) * exp(-(x**c)) * x ** (c - 1),
        lambda x, a, c: (-expm1(-(x**c))) ** a,
        None,
        (1.4, 1.7),
        (1e-4, 0.6, 9.0),
    ),
    "f": (
        f_pdf,
        lambda x, m, n: beta_lower(m / 2, n / 2, m * x / (n + m * x)),
        lambda x, m, n: beta_lower(n / 2, m / 2, n / (n + m * x)),
        (4.2, 7.0),
        (1e-4, 0.8, 1e4),
    ),
    "fatiguelife": (
        lambda x, c: (x + 1) / (2 * c * sqrt(2 * pi * x**3)) * exp(-((x - 1) ** 2) / (2 * x * c * c)),
        lambda x, c: ncdf((sqrt(x) - 1 / sqrt(x)) / c),
        lambda x, c: ncdf(-(sqrt(x) - 1 / sqrt(x)) / c),
        (0.8,),
        (0.02, 0.7, 50.0),
    ),
    "fisk": (
        lambda x, c: c * x ** (-c - 1) * (1 + x**-c) ** -2,
        lambda x, c: 1 / (1 + x**-c),
        lambda x, c: 1 / (1 + x**c),
        (2.2,),
        (1e-3, 0.7, 1e3),
    ),
    "foldcauchy": (
        lambda x, c: 1 / (pi * (1 + (x - c) ** 2)) + 1 / (pi * (1 + (x + c) ** 2)),
        lambda x, c: (atan(x - c) + atan(x + c)) / pi,
        None,
        (1.3,),
        (1e-2, 0.7, 1e4),
    ),
    "foldnorm": (
        lambda x, c: npdf(x - c) + npdf(x + c),
        lambda x, c: ncdf(x - c) - ncdf(-x - c),
        lambda x, c: ncdf(c - x) + ncdf(-x - c),
        (1.3,),
        (1e-2, 0.7, 9.0),
    ),
    "gamma": (
        lambda x, a: x ** (a - 1) * exp(-x) / gamma(a),
        lambda x, a: gamma_lower(a, x),
        lambda x, a: gamma_upper(a, x),
        (2.2,),
        (1e-5, 1.3, 80.0),
    ),
    "genexpon": (
        lambda x, a, b, c: (a - b * expm1(-c * x)) * exp(-a * x - b * x - b / c * expm1(-c * x)),
        None,
        lambda x, a, b, c: exp(-a * x - b * x - b / c * expm1(-c * x)),
        (1.2, 0.7, 1.6),
        (0.05, 0.7, 20.0),
    ),
    "genextreme": (
        lambda x, c: (1 - c * x) ** (1 / c - 1) * exp(-((1 - c * x) ** (1 / c))),
        lambda x, c: exp(-((1 - c * x) ** (1 / c))),
        None,
        (0.4,),
        (-4.0, 0.3, 2.49),
    ),
    "gengamma": (
        lambda x, a, c: c * x ** (c * a - 1) * exp(-(x**c)) / gamma(a),
        lambda x, a, c: gamma_lower(a, x**c),
        lambda x, a, c: gamma_upper(a, x**c),
        (2.2, 1.3),
        (1e-4, 0.8, 20.0),
    ),
    "genhalflogistic": (
        lambda x, c: 2 * (1 - c * x) ** (1 / c - 1) / (1 + (1 - c * x) ** (1 / c)) ** 2,
        lambda x, c: (1 - (1 - c * x) ** (1 / c)) / (1 + (1 - c * x) ** (1 / c)),
        None,
        (0.4,),
        (0.1, 0.8, 2.4),
    ),
    "genlogistic": (
        lambda x, c: c * exp(-x) * (1 + exp(-x)) ** (-c - 1),
        lambda x, c: (1 + exp(-x)) ** -c,
        None,
        (1.4,),
        (-40.0, 0.7, 60.0),
    ),
    "gennorm": (
        lambda x, b: b / (2 * gamma(1 / b)) * exp(-(abs(x) ** b)),
        lambda x, b: (1 + gamma_lower(1 / b, x**b)) / 2 if x > 0 else gamma_upper(1 / b, (-x) ** b) / 2,
        lambda x, b: (1 + gamma_lower(1 / b, (-x) ** b)) / 2 if x < 0 else gamma_upper(1 / b, x**b) / 2,
        (1.7,),
        (-9.0, -0.4, 0.7, 9.0),
    ),
    "genpareto": (
        lambda x, c: (1 + c * x) ** (-1 / c - 1),
        None,
        lambda x, c: (1 + c * x) ** (-1 / c),
        (0.4,),
        (1e-6, 0.7, 1e4),
    ),
    "gibrat": (lambda x: npdf(log(x)) / x, lambda x: ncdf(log(x)), lambda x: ncdf(-log(x)), (), (1e-3, 0.7, 1e3)),
    "gompertz": (
        lambda x, c: c * exp(x) * exp(-c * expm1(x)),
        lambda x, c: -expm1(-c * expm1(x)),
        lambda x, c: exp(-c * expm1(x)),
        (0.7,),
        (1e-6, 0.6, 4.5),
    ),
    "gumbel_l": (
        lambda x: exp(x - exp(x)),
        lambda x: -expm1(-exp(x)),
        lambda x: exp(-exp(x)),
        (),
        (-40.0, 0.3, 4.0),
    ),
    "gumbel_r": (
        lambda x: exp(-x - exp(-x)),
        lambda x: exp(-exp(-x)),
        lambda x: -expm1(-exp(-x)),
        (),
        (-4.0, 0.3, 40.0),
    ),
    "halfcauchy": (lambda x: 2 / (pi * (1 + x * x)), lambda x: 2 * atan(x) / pi, None, (), (1e-6, 0.7, 1e5)),
    "halfgennorm": (
        lambda x, b: b / gamma(1 / b) * exp(-(x**b)),
        lambda x, b: gamma_lower(1 / b, x**b),
        lambda x, b: gamma_upper(1 / b, x**b),
        (1.7,),
        (1e-5, 0.7, 9.0),
    ),
    "halflogistic": (
        lambda x: mp.sech(x / 2) ** 2 / 2,
        lambda x: mp.tanh(x / 2),
        lambda x: 2 / (1 + exp(x)),
        (),
        (0.01, 0.7, 60.0),
    ),
    "halfnorm": (lambda x: 2 * npdf(x), lambda x: mp.erf(x / sqrt(2)), lambda x: 2 * ncdf(-x), (), (1e-6, 0.7, 9.0)),
    "hypsecant": (lambda x: mp.sech(x) / pi, lambda x: 2 / pi * atan(exp(x)), None, (), (-60.0, 0.4, 60.0)),
    "invgamma": (
        lambda x, a: x ** (-a - 1) * exp(-1 / x) / gamma(a),
        lambda x, a: gamma_upper(a, 1 / x),
        lambda x, a: gamma_lower(a, 1 / x),
        (2.2,),
        (0.02, 0.6, 1e3),
    ),
    "invgauss": (
        lambda x, m: exp(-((x - m) ** 2) / (2 * x * m * m)) / sqrt(2 * pi * x**3),
        inverse_gauss_cdf,
        inverse_gauss_sf,
        (1.3,),
        (0.02, 0.6, 60.0),
    ),
    "invweibull": (
        lambda x, c: c * x ** (-c - 1) * exp(-(x**-c)),
        lambda x, c: exp(-(x**-c)),
        lambda x, c: -expm1(-(x**-c)),
        (1.7,),
        (0.1, 0.8, 1e4),
    ),
    "jf_skew_t": (
        lambda x, a, b: (1 + skew_t_place(x, a, b)) ** (a + F(1) / 2)
        * (1 - skew_t_place(x, a, b)) ** (b + F(1) / 2)
        / (2 ** (a + b - 1) * mp.beta(a, b) * sqrt(a + b)),
        lambda x, a, b: beta_lower(a, b, (1 + skew_t_place(x, a, b)) / 2),
        lambda x, a, b: beta_lower(b, a, (1 - skew_t_place(x, a, b)) / 2),
        (1.6, 2.3),
        (-30.0, 0.4, 30.0),
    ),
    "johnsonsb": (
        lambda x, a, b: b / (x * (1 - x)) * npdf(a + b * log(x / (1 - x))),
        lambda x, a, b: ncdf(a + b * log(x / (1 - x))),
        lambda x, a, b: ncdf(-a - b * log(x / (1 - x))),
        (0.4, 1.3),
        (0.005, 0.3, 0.995),
    ),
    "johnsonsu": (
        lambda x, a, b: b / sqrt(x * x + 1) * npdf(a + b * asinh(x)),
        lambda x, a, b: ncdf(a + b * asinh(x)),
        lambda x, a, b: ncdf(-a - b * asinh(x)),
        (0.4, 1.3),
        (-90.0, 0.3, 90.0),
    ),
    "kappa3": (
        lambda x, a: a * (a + x**a) ** (-(a + 1) / a),
        lambda x, a: x * (a + x**a) ** (-1 / a),
        None,
        (1.4,),
        (1e-5, 0.7, 1e3),
    ),
    "kappa4": (
        lambda x, h, k: (1 - k * x) ** (1 / k - 1) * (1 - h * (1 - k * x) ** (1 / k)) ** (1 / h - 1),
        lambda x, h, k: (1 - h * (1 - k * x) ** (1 / k)) ** (1 / h),
        None,
        (0.3, 0.4),
        (-1.2, 0.7, 2.4),
    ),
    "laplace": (
        lambda x: exp(-abs(x)) / 2,
        lambda x: 1 - exp(-x) / 2 if x > 0 else exp(x) / 2,
        None,
        (),
        (-80.0, -0.4, 0.7, 80.0),
    ),
    "laplace_asymmetric": (
        lambda x, k: exp(-x * k if x > 0 else x / k) / (k + 1 / k),
        lambda x, k: 1 - exp(-x * k) / k / (k + 1 / k) if x > 0 else k / (k + 1 / k) * exp(x / k),
        None,
        (1.4,),
        (-80.0, -0.4, 0.7, 60.0),
    ),
    "levy": (
        lambda x: exp(-1 / (2 * x)) / sqrt(2 * pi * x**3),
        lambda x: erfc(1 / sqrt(2 * x)),
        lambda x: mp.erf(1 / sqrt(2 * x)),
        (),
        (0.02, 0.7, 1e5),
    ),
    "levy_l": (
        lambda x: exp(1 / (2 * x)) / sqrt(2 * pi * (-x) ** 3),
        lambda x: mp.erf(1 / sqrt(-2 * x)),
        lambda x: erfc(1 / sqrt(-2 * x)),
        (),
        (-1e5, -0.7, -0.02),
    ),
    "loggamma": (
        lambda x, c: exp(c * x - exp(x)) / gamma(c),
        lambda x, c: gamma_lower(c, exp(x)),
        lambda x, c: gamma_upper(c, exp(x)),
        (1.4,),
        (-20.0, 0.3, 4.0),
    ),
    "logistic": (
        lambda x: mp.sech(x / 2) ** 2 / 4,
        lambda x: 1 / (1 + exp(-x)),
        lambda x: 1 / (1 + exp(x)),
        (),
        (-60.0, 0.4, 60.0),
    ),
    "loglaplace": (
        lambda x, c: c / 2 * x ** (c - 1 if x < 1 else -c - 1),
        lambda x, c: x**c / 2 if x < 1 else 1 - x**-c / 2,
        None,
        (1.7,),
        (1e-4, 0.7, 1.9, 1e5),
    ),
    "lognorm": (
        lambda x, s: npdf(log(x) / s) / (x * s),
        lambda x, s: ncdf(log(x) / s),
        lambda x, s: ncdf(-log(x) / s),
        (0.8,),
        (1e-3, 1.3, 1e3),
    ),
    "loguniform": (
        lambda x, a, b: 1 / (x * log(b / a)),
        lambda x, a, b: log(x / a) / log(b / a),
        lambda x, a, b: log(b / x) / log(b / a),
        (0.2, 3.1),
        (0.2001, 0.7, 3.099),
    ),
    "lomax": (
        lambda x, c: c * (1 + x) ** (-c - 1),
        None,
        lambda x, c: (1 + x) ** -c,
        (1.7,),
        (1e-9, 0.7, 1e6),
    ),
    "maxwell": (
        lambda x: sqrt(2 / pi) * x * x * exp(-x * x / 2),
        lambda x: gamma_lower(F(3) / 2, x * x / 2),
        lambda x: gamma_upper(F(3) / 2, x * x / 2),
        (),
        (1e-4, 1.3, 9.0),
    ),
    "mielke": (
        lambda x, k, s: k * x ** (k - 1) * (1 + x**s) ** (-1 - k / s),
        lambda x, k, s: x**k * (1 + x**s) ** (-k / s),
        None,
        (1.4, 2.3),
        (1e-4, 0.7, 30.0),
    ),
    "moyal": (
        lambda x: exp(-(x + exp(-x)) / 2) / sqrt(2 * pi),
        lambda x: erfc(exp(-x / 2) / sqrt(2)),
        lambda x: mp.erf(exp(-x / 2) / sqrt(2)),
        (),
        (-4.0, 0.3, 60.0),
    ),
    "nakagami": (
        lambda x, v: 2 * v**v / gamma(v) * x ** (2 * v - 1) * exp(-v * x * x),
        lambda x, v: gamma_lower(v, v * x * x),
        lambda x, v: gamma_upper(v, v * x * x),
        (1.7,),
        (1e-3, 0.7, 6.0),
    ),
    "ncx2": (
        lambda x, c: poisson_mixture(lambda j: chi2_pdf(x, F(3) + 2 * j), c / 2),
        lambda x, c: poisson_mixture(lambda j: gamma_lower(F(3) / 2 + j, x / 2), c / 2),
        None,
        (3.0, 1.7),
        (0.3, 3.3),
        1,
    ),
    "nct": (None, lambda x, d: noncentral_t_cdf(x, F(5), d), None, (5.0, 0.7), (1.3,), 1),
    "norm": (npdf, ncdf, lambda x: ncdf(-x), (), (-12.0, -0.7, 0.4, 12.0)),
    "norminvgauss": (
        lambda x, a, b: a
        * mp.besselk(1, a * sqrt(1 + x * x))
        / (pi * sqrt(1 + x * x))
        * exp(sqrt(a * a - b * b) + b * x),
        None,
        None,
        (1.7, 0.4),
        (-3.0, 0.8),
    ),
    "pareto": (lambda x, b: b * x ** (-b - 1), None, lambda x, b: x**-b, (1.7,), (1.0001, 1.8, 1e5)),
    "pearson3": (
        lambda x, k: 2
        / k
        * pearson3_place(x, k)[1] ** (4 / (k * k) - 1)
        * exp(-pearson3_place(x, k)[1])
        / gamma(4 / (k * k)),
        lambda x, k: gamma_lower(*pearson3_place(x, k)),
        lambda x, k: gamma_upper(*pearson3_place(x, k)),
        (0.9,),
        (-2.1, 0.4, 20.0),
    ),
    "powerlaw": (lambda x, a: a * x ** (a - 1), lambda x, a: x**a, None, (1.7,), (1e-5, 0.3, 0.9999)),
    "powerlognorm": (
        lambda x, c, s: c / (x * s) * npdf(log(x) / s) * ncdf(-log(x) / s) ** (c - 1),
        None,
        lambda x, c, s: ncdf(-log(x) / s) ** c,
        (1.4, 0.8),
        (0.01, 0.7, 60.0),
    ),
    "powernorm": (
        lambda x, c: c * npdf(x) * ncdf(-x) ** (c - 1),
        None,
        lambda x, c: ncdf(-x) ** c,
        (1.4,),
        (-8.0, 0.4, 8.0),
    ),
    "rayleigh": (
        lambda x: x * exp(-x * x / 2),
        lambda x: -expm1(-x * x / 2),
        lambda x: exp(-x * x / 2),
        (),
        (1e-5, 0.7, 12.0),
    ),
    "rdist": (
        lambda x, c: (1 - x * x) ** (c / 2 - 1) / mp.beta(F(1) / 2, c / 2),
        lambda x, c: beta_lower(c / 2, c / 2, (1 + x) / 2),
        lambda x, c: beta_lower(c / 2, c / 2, (1 - x) / 2),
        (2.7,),
        (-0.9999, 0.3, 0.99),
    ),
    "recipinvgauss": (
        lambda x, m: exp(-((1 - m * x) ** 2) / (2 * x * m * m)) / sqrt(2 * pi * x),
        lambda x, m: inverse_gauss_sf(1 / x, m),
        lambda x, m: inverse_gauss_cdf(1 / x, m),
        (1.3,),
        (0.02, 0.6, 40.0),
    ),
    "rel_breitwigner": (breit_wigner_pdf, None, None, (1.7,), (1e-3, 1.4, 100.0)),
    "rice": (
        lambda x, b: x * exp(-(x * x + b * b) / 2) * mp.besseli(0, x * b),
        None,
        None,
        (1.2,),
        (1e-3, 1.4, 10.0),
    ),
    "semicircular": (
        lambda x: 2 / pi * sqrt(1 - x * x),
        lambda x: F(1) / 2 + (x * sqrt(1 - x * x) + asin(x)) / pi,
        lambda x: (acos(x) - x * sqrt(1 - x * x)) / pi,
        (),
        (-0.99, 0.3, 0.99),
    ),
    "skewcauchy": (
        lambda x, a: 1 / (pi * (x * x / (1 + a * sign(x)) ** 2 + 1)),
        lambda x, a: (1 - a) / 2 + (1 + a * sign(x)) / pi * atan(x / (1 + a * sign(x))),
        None,
        (0.3,),
        (-100.0, -0.4, 0.7, 100.0),
    ),
    "skewnorm": (lambda x, a: 2 * npdf(x) * ncdf(a * x), None, None, (1.2,), (-8.0, 0.3, 9.0)),
    "t": (
        lambda x, v: gamma((v + 1) / 2) / (sqrt(pi * v) * gamma(v / 2)) * (1 + x * x / v) ** (-(v + 1) / 2),
        t_cdf,
        lambda x, v: t_cdf(-x, v),
        (4.2,),
        (-1e3, 0.8, 1e3),
    ),
    "trapezoid": (trapezoid_pdf, trapezoid_cdf, None, (0.3, 0.6), (1e-4, 0.4, 0.999)),
    "triang": (
        lambda x, c: 2 * x / c if x < c else 2 * (1 - x) / (1 - c),
        lambda x, c: x * x / c if x < c else 1 - (1 - x) ** 2 / (1 - c),
        None,
        (0.4,),
        (1e-5, 0.3, 0.7, 0.99),
    ),
    "truncexpon": (
        lambda x, b: exp(-x) / -expm1(-b),
        lambda x, b: expm1(-x) / expm1(-b),
        None,
        (1.7,),
        (1e-3, 0.7, 1.6999),
    ),
    "truncnorm": (
        lambda x, a, b: npdf(x) / (ncdf(b) - ncdf(a)),
        lambda x, a, b: (ncdf(x) - ncdf(a)) / (ncdf(b) - ncdf(a)),
        lambda x, a, b: (ncdf(b) - ncdf(x)) / (ncdf(b) - ncdf(a)),
        (-0.7, 1.8),
        (-0.699, 0.3, 1.799),
    ),
    "truncpareto": (
        lambda x, b, c: b * x ** (-b - 1) / (1 - c**-b),
        lambda x, b, c: (1 - x**-b) / (1 - c**-b),
        lambda x, b, c: (x**-b - c**-b) / (1 - c**-b),
        (1.7, 5.2),
        (1.0001, 1.8, 5.199),
    ),
    "truncweibull_min": (
        lambda x, c, a, b: c * x ** (c - 1) * exp(-(x**c)) / (exp(-(a**c)) - exp(-(b**c))),
        lambda x, c, a, b: (exp(-(a**c)) - exp(-(x**c))) / (exp(-(a**c)) - exp(-(b**c))),
        lambda x, c, a, b: (exp(-(x**c)) - exp(-(b**c))) / (exp(-(a**c)) - exp(-(b**c))),
        (1.7, 0.2, 2.1),
        (0.201, 0.7, 2.099),
    ),
    "uniform": (lambda x: F(1) + 0 * x, lambda x: x, lambda x: 1 - x, (), (1e-6, 0.3, 0.9999)),
    "vonmises": (lambda x, k: exp(k * cos(x)) / (2 * pi * mp.besseli(0, k)), None, None, (1.4,), (-3.0, 0.8)),
    "wald": (
        lambda x: exp(-((x - 1) ** 2) / (2 * x)) / sqrt(2 * pi * x**3),
        lambda x: inverse_gauss_cdf(x, F(1)),
        lambda x: inverse_gauss_sf(x, F(1)),
        (),
        (0.02, 0.6, 60.0),
    ),
    "weibull_max": (
        lambda x, c: c * (-x) ** (c - 1) * exp(-((-x) ** c)),
        lambda x, c: exp(-((-x) ** c)),
        lambda x, c: -expm1(-((-x) ** c)),
        (1.7,),
        (-10.0, -0.7, -1e-5),
    ),
    "weibull_min": (
        lambda x, c: c * x ** (c - 1) * exp(-(x**c)),
        lambda x, c: -expm1(-(x**c)),
        lambda x, c: exp(-(x**c)),
        (1.7,),
        (1e-5, 0.7, 10.0),
    ),
    "wrapcauchy": (
        lambda x, c: (1 - c * c) / (2 * pi * (1 + c * c - 2 * c * cos(x))),
        lambda x, c: atan(mp.tan(x / 2) * (1 + c) / (1 - c)) / pi,
        None,
        (0.4,),
        (1e-4, 0.8, 3.1),
    ),
}

# methods for which SciPy has no accurate formula at the last point (powernorm: at the first), or no derivative
LEFT_OUT = {name: {"isf"} for name in "betaprime crystalball exponnorm f foldnorm genlogistic mielke moyal".split()}
LEFT_OUT |= {"pearson3": {"isf"}, "weibull_max": {"isf"}, "ncx2": {"isf"}, "powernorm": {"ppf"}}
LEFT_OUT["nct"] = {"logcdf", "logsf", "ppf"}


def standardised(form, power):
    """Return a form with location and scale: a density has the power -1 of the scale."""
    return lambda x, *args: form((x - args[-2]) / args[-1], *args[:-2]) * args[-1] ** power


def function(dist, method, fixed):
    return lambda p: getattr(dist, method)(p[0], *fixed, *p[1:])


def forms_of(pdf, cdf, sf):
    """Return the methods that the given forms determine: the form of each, and the power of the scale."""
    forms = {}
    if pdf is not None:
        forms |= {"pdf": (pdf, -1), "logpdf": (pdf, -1)}
    if cdf is not None or sf is not None:
        cdf, sf = cdf or complement(sf), sf or complement(cdf)
        forms |= {"cdf": (cdf, 0), "logcdf": (cdf, 0), "ppf": (cdf, 0)}
        forms |= {"sf": (sf, 0), "logsf": (sf, 0), "isf": (sf, 0)}
    return forms


def logarithm(form):
    return lambda *args: log(form(*args))


def rows_of(name, pdf, cdf, sf, shapes, points, fixed=0):
    """Yield the label and the row of each method at each point; the second point varies location and scale too."""
    dist = getattr(st, name)
    cached = [None if form is None else functools.cache(form) for form in (pdf, cdf, sf)]
    for k, z in enumerate(points):
        with_scale = k == min(1, len(points) - 1)
        x, more = (LOC + SCALE * z, (LOC, SCALE)) if with_scale else (z, ())
        for label, (form, power) in forms_of(*cached).items():
            if label in LEFT_OUT.get(name, ()) and (fixed or not with_scale):
                continue
            form = functools.cache(standardised(form, power)) if with_scale else form
            moving = [*shapes[fixed:], *more]
            f = function(dist, label, shapes[:fixed])
            if label in ("ppf", "isf"):
                with mp.workdps(DIGITS):  # as elsewhere, since forms are cached
                    q = float(form(*map(F, (x, *moving))))
                if q < 0.99:  # the other function solves for points beyond
                    yield f"{label}, {z}", Row(f, form, [q, *moving], *LIMITS, inverse=x)
            else:
                form = logarithm(form) if label.startswith("log") else form
                yield f"{label}, {z}", Row(f, form, [x, *moving], *LIMITS)


CASES = {name: dict(rows_of(name, *spec)) for name, spec in DISTRIBUTIONS.items()}

# shapes close to values with other formulas, and far from 1
EXTREME = (
    ("bradford", (1e-8,), 0.32),
    ("burr12", (1.3, 1e4), 1.1e-3),
    ("genlogistic", (1e-3,), 0.42),
    ("genpareto", (1e-7,), 32.0),
    ("gompertz", (1e-6,), 9.2),
    ("lognorm", (1e-3,), 1.001),
    ("rice", (50.0,), 50.5),
    ("truncexpon", (1e-6,), 5e-7),
    ("truncnorm", (5.0, 6.0), 5.5),
    ("truncnorm", (-30.0, -29.0), -29.5),
    ("vonmises", (100.0,), 0.1),
)
for _name, _shapes, _point in EXTREME:
    CASES[_name] |= rows_of(_name, *DISTRIBUTIONS[_name][:3], _shapes, (_point,))
