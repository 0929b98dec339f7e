"""Densities and distribution functions of ``scipy.stats`` in mpmath: `CONTINUOUS` and `DISCRETE` are the tables.

`errors` compares gradients and Hessians in the argument, the shapes, location and scale with central differences of
60 digits.  Forms are those of the reference manual, for the standardised argument z; branches that z does not reach are
left out.
"""

from __future__ import annotations

import functools

import mpmath as mp
import scipy.stats

from reference_forms import DIGITS, compared

PHI, SQRT_2PI, PI, HALF = mp.ncdf, mp.sqrt(2 * mp.pi), mp.pi, mp.mpf(1) / 2
exp, log, sqrt, atan = mp.exp, mp.log, mp.sqrt, mp.atan


def normal(z):
    return exp(-z * z / 2) / sqrt(2 * mp.pi)


def lower(a, x):
    return mp.gammainc(a, 0, x, regularized=True)


def upper(a, x):
    return mp.gammainc(a, x, mp.inf, regularized=True)


def beta_cdf(a, b, x):
    return mp.betainc(a, b, 0, x, regularized=True)


def argus_psi(x):
    return PHI(x) - x * normal(x) - HALF


def jf_point(z, a, b):
    return z / sqrt(a + b + z * z)


#: name: (density, distribution function or None, z, shapes)
CONTINUOUS = {
    "alpha": (lambda z, a: normal(a - 1 / z) / (z * z * PHI(a)), lambda z, a: PHI(a - 1 / z) / PHI(a), 0.8, [1.3]),
    "anglit": (lambda z: mp.cos(2 * z), lambda z: mp.sin(z + PI / 4) ** 2, 0.3, []),
    "arcsine": (lambda z: 1 / (PI * sqrt(z * (1 - z))), lambda z: 2 / PI * mp.asin(sqrt(z)), 0.3, []),
    "argus": (
        lambda z, c: c**3 / (sqrt(2 * PI) * argus_psi(c)) * z * sqrt(1 - z * z) * exp(-c * c * (1 - z * z) / 2),
        lambda z, c: 1 - argus_psi(c * sqrt(1 - z * z)) / argus_psi(c),
        0.6,
        [1.4],
    ),
    "beta": (
        lambda z, a, b: z ** (a - 1) * (1 - z) ** (b - 1) / mp.beta(a, b),
        lambda z, a, b: beta_cdf(a, b, z),
        0.3,
        [1.2, 2.7],
    ),
    "betaprime": (
        lambda z, a, b: z ** (a - 1) * (1 + z) ** (-a - b) / mp.beta(a, b),
        lambda z, a, b: beta_cdf(a, b, z / (1 + z)),
        0.7,
        [1.2, 2.7],
    ),
    "bradford": (lambda z, c: c / (mp.log1p(c) * (1 + c * z)), lambda z, c: mp.log1p(c * z) / mp.log1p(c), 0.3, [1.7]),
    "burr": (
        lambda z, c, d: c * d * z ** (-c - 1) * (1 + z**-c) ** (-d - 1),
        lambda z, c, d: (1 + z**-c) ** -d,
        0.8,
        [2.2, 1.3],
    ),
    "burr12": (
        lambda z, c, d: c * d * z ** (c - 1) * (1 + z**c) ** (-d - 1),
        lambda z, c, d: 1 - (1 + z**c) ** -d,
        0.8,
        [2.2, 1.3],
    ),
    "cauchy": (lambda z: 1 / (PI * (1 + z * z)), lambda z: HALF + atan(z) / PI, 0.6, []),
    "chi": (
        lambda z, k: z ** (k - 1) * exp(-z * z / 2) / (2 ** (k / 2 - 1) * mp.gamma(k / 2)),
        lambda z, k: lower(k / 2, z * z / 2),
        1.4,
        [3.2],
    ),
    "chi2": (
        lambda z, k: z ** (k / 2 - 1) * exp(-z / 2) / (2 ** (k / 2) * mp.gamma(k / 2)),
        lambda z, k: lower(k / 2, z / 2),
        2.4,
        [3.2],
    ),
    "cosine": (lambda z: (1 + mp.cos(z)) / (2 * PI), lambda z: (PI + z + mp.sin(z)) / (2 * PI), 0.6, []),
    "dgamma": (
        lambda z, a: z ** (a - 1) * exp(-z) / (2 * mp.gamma(a)),
        lambda z, a: HALF + lower(a, z) / 2,
        0.9,
        [1.7],
    ),
    "dweibull": (lambda z, c: c / 2 * z ** (c - 1) * exp(-(z**c)), lambda z, c: 1 - exp(-(z**c)) / 2, 0.9, [1.7]),
    "expon": (lambda z: exp(-z), lambda z: -mp.expm1(-z), 0.9, []),
    "exponnorm": (
        lambda z, k: exp(1 / (2 * k * k) - z / k) * mp.erfc(-(z - 1 / k) / sqrt(2)) / (2 * k),
        lambda z, k: PHI(z) - exp(1 / (2 * k * k) - z / k) * PHI(z - 1 / k),
        0.9,
        [1.4],
    ),
    "exponpow": (
        lambda z, b: b * z ** (b - 1) * exp(1 + z**b - exp(z**b)),
        lambda z, b: 1 - exp(1 - exp(z**b)),
        0.6,
        [1.7],
    ),
    "exponweib": (
        lambda z, a, c: a * c * (1 - exp(-(z**c))) ** (a - 1) * exp(-(z**c)) * z ** (c - 1),
        lambda z, a, c: (1 - exp(-(z**c))) ** a,
        0.8,
        [1.3, 1.7],
    ),
    "f": (
        lambda z, m, n: (m / n) ** (m / 2)
        * z ** (m / 2 - 1)
        * (1 + m * z / n) ** (-(m + n) / 2)
        / mp.beta(m / 2, n / 2),
        lambda z, m, n: beta_cdf(m / 2, n / 2, m * z / (m * z + n)),
        1.3,
        [4.2, 7.0],
    ),
    "fatiguelife": (
        lambda z, c: (z + 1) / (2 * c * sqrt(2 * PI * z**3)) * exp(-((z - 1) ** 2) / (2 * z * c * c)),
        lambda z, c: PHI((sqrt(z) - 1 / sqrt(z)) / c),
        1.3,
        [0.8],
    ),
    "fisk": (lambda z, c: c * z ** (-c - 1) / (1 + z**-c) ** 2, lambda z, c: 1 / (1 + z**-c), 1.3, [2.2]),
    "foldcauchy": (
        lambda z, c: (1 / (1 + (z - c) ** 2) + 1 / (1 + (z + c) ** 2)) / PI,
        lambda z, c: (atan(z - c) + atan(z + c)) / PI,
        1.3,
        [0.7],
    ),
    "foldnorm": (
        lambda z, c: 2 * mp.cosh(c * z) * exp(-(z * z + c * c) / 2) / sqrt(2 * PI),
        lambda z, c: PHI(z - c) - PHI(-z - c),
        1.3,
        [0.7],
    ),
    "gamma": (lambda z, a: z ** (a - 1) * exp(-z) / mp.gamma(a), lambda z, a: lower(a, z), 1.3, [2.2]),
    "genexpon": (
        lambda z, a, b, c: (a + b * (1 - exp(-c * z))) * exp(-(a + b) * z + b / c * (1 - exp(-c * z))),
        lambda z, a, b, c: 1 - exp(-(a + b) * z + b / c * (1 - exp(-c * z))),
        0.4,
        [1.2, 0.7, 1.6],
    ),
    "genextreme": (
        lambda z, c: exp(-((1 - c * z) ** (1 / c))) * (1 - c * z) ** (1 / c - 1),
        lambda z, c: exp(-((1 - c * z) ** (1 / c))),
        0.3,
        [0.4],
    ),
    "gengamma": (
        lambda z, a, c: c * z ** (c * a - 1) * exp(-(z**c)) / mp.gamma(a),
        lambda z, a, c: lower(a, z**c),
        0.9,
        [1.7, 1.3],
    ),
    "genhalflogistic": (
        lambda z, c: 2 * (1 - c * z) ** (1 / c - 1) / (1 + (1 - c * z) ** (1 / c)) ** 2,
        lambda z, c: (1 - (1 - c * z) ** (1 / c)) / (1 + (1 - c * z) ** (1 / c)),
        0.6,
        [0.7],
    ),
    "genlogistic": (
        lambda z, c: c * exp(-z) / (1 + exp(-z)) ** (c + 1),
        lambda z, c: (1 + exp(-z)) ** -c,
        0.6,
        [1.7],
    ),
    "gennorm": (
        lambda z, b: b / (2 * mp.gamma(1 / b)) * exp(-(z**b)),
        lambda z, b: HALF + lower(1 / b, z**b) / 2,
        0.7,
        [1.6],
    ),
    "genpareto": (
        lambda z, c: (1 + c * z) ** (-1 - 1 / c),
        lambda z, c: 1 - (1 + c * z) ** (-1 / c),
        0.7,
        [0.4],
    ),
    "gibrat": (lambda z: normal(log(z)) / z, lambda z: PHI(log(z)), 0.7, []),
    "gompertz": (lambda z, c: c * exp(z - c * mp.expm1(z)), lambda z, c: 1 - exp(-c * mp.expm1(z)), 0.7, [0.9]),
    "gumbel_l": (lambda z: exp(z - exp(z)), lambda z: 1 - exp(-exp(z)), 0.3, []),
    "gumbel_r": (lambda z: exp(-z - exp(-z)), lambda z: exp(-exp(-z)), 0.3, []),
    "halfcauchy": (lambda z: 2 / (PI * (1 + z * z)), lambda z: 2 / PI * atan(z), 0.7, []),
    "halfgennorm": (
        lambda z, b: b / mp.gamma(1 / b) * exp(-(z**b)),
        lambda z, b: lower(1 / b, z**b),
        0.7,
        [1.6],
    ),
    "halflogistic": (lambda z: 2 * exp(-z) / (1 + exp(-z)) ** 2, lambda z: mp.tanh(z / 2), 0.7, []),
    "halfnorm": (lambda z: 2 * normal(z), lambda z: 2 * PHI(z) - 1, 0.7, []),
    "hypsecant": (lambda z: mp.sech(z) / PI, lambda z: 2 / PI * atan(exp(z)), 0.7, []),
    "invgamma": (lambda z, a: z ** (-a - 1) * exp(-1 / z) / mp.gamma(a), lambda z, a: upper(a, 1 / z), 0.7, [1.9]),
    "invgauss": (
        lambda z, m: exp(-((z - m) ** 2) / (2 * z * m * m)) / sqrt(2 * PI * z**3),
        lambda z, m: PHI((z / m - 1) / sqrt(z)) + exp(2 / m) * PHI(-(z / m + 1) / sqrt(z)),
        0.7,
        [1.3],
    ),
    "invweibull": (lambda z, c: c * z ** (-c - 1) * exp(-(z**-c)), lambda z, c: exp(-(z**-c)), 0.7, [1.9]),
    "jf_skew_t": (
        lambda z, a, b: (1 + jf_point(z, a, b)) ** (a + HALF)
        * (1 - jf_point(z, a, b)) ** (b + HALF)
        / (2 ** (a + b - 1) * mp.beta(a, b) * sqrt(a + b)),
        lambda z, a, b: beta_cdf(a, b, (1 + jf_point(z, a, b)) / 2),
        0.7,
        [2.3, 1.4],
    ),
    "johnsonsb": (
        lambda z, a, b: b / (z * (1 - z)) * normal(a + b * log(z / (1 - z))),
        lambda z, a, b: PHI(a + b * log(z / (1 - z))),
        0.3,
        [0.7, 1.4],
    ),
    "johnsonsu": (
        lambda z, a, b: b / sqrt(z * z + 1) * normal(a + b * mp.asinh(z)),
        lambda z, a, b: PHI(a + b * mp.asinh(z)),
        0.3,
        [0.7, 1.4],
    ),
    "kappa3": (
        lambda z, a: a * (a + z**a) ** (-(a + 1) / a),
        lambda z, a: z * (a + z**a) ** (-1 / a),
        0.7,
        [1.4],
    ),
    "kappa4": (
        lambda z, h, k: (1 - k * z) ** (1 / k - 1) * (1 - h * (1 - k * z) ** (1 / k)) ** (1 / h - 1),
        lambda z, h, k: (1 - h * (1 - k * z) ** (1 / k)) ** (1 / h),
        0.7,
        [0.3, 0.4],
    ),
    "laplace": (lambda z: exp(-z) / 2, lambda z: 1 - exp(-z) / 2, 0.7, []),
    "laplace_asymmetric": (
        lambda z, k: exp(-k * z) / (k + 1 / k),
        lambda z, k: 1 - exp(-k * z) / (k * k + 1),
        0.7,
        [1.6],
    ),
    "levy": (lambda z: exp(-1 / (2 * z)) / sqrt(2 * PI * z**3), lambda z: mp.erfc(1 / sqrt(2 * z)), 0.7, []),
    "levy_l": (
        lambda z: exp(1 / (2 * z)) / sqrt(-2 * PI * z**3),
        lambda z: 2 * PHI(1 / sqrt(-z)) - 1,
        -0.7,
        [],
    ),
    "loggamma": (lambda z, c: exp(c * z - exp(z)) / mp.gamma(c), lambda z, c: lower(c, exp(z)), 0.2, [1.6]),
    "logistic": (lambda z: exp(-z) / (1 + exp(-z)) ** 2, lambda z: 1 / (1 + exp(-z)), 0.6, []),
    "loglaplace": (lambda z, c: c / 2 * z ** (-c - 1), lambda z, c: 1 - z**-c / 2, 1.6, [1.7]),
    "lognorm": (lambda z, s: normal(log(z) / s) / (s * z), lambda z, s: PHI(log(z) / s), 1.3, [0.8]),
    "loguniform": (
        lambda z, a, b: 1 / (z * log(b / a)),
        lambda z, a, b: log(z / a) / log(b / a),
        0.9,
        [0.4, 2.2],
    ),
    "lomax": (lambda z, c: c * (1 + z) ** (-c - 1), lambda z, c: 1 - (1 + z) ** -c, 0.9, [1.8]),
    "maxwell": (
        lambda z: sqrt(2 / PI) * z * z * exp(-z * z / 2),
        lambda z: lower(mp.mpf(3) / 2, z * z / 2),
        1.3,
        [],
    ),
    "mielke": (
        lambda z, k, s: k * z ** (k - 1) / (1 + z**s) ** (1 + k / s),
        lambda z, k, s: z**k / (1 + z**s) ** (k / s),
        0.8,
        [1.7, 2.4],
    ),
    "moyal": (lambda z: exp(-(z + exp(-z)) / 2) / sqrt(2 * PI), lambda z: mp.erfc(exp(-z / 2) / sqrt(2)), 0.8, []),
    "nakagami": (
        lambda z, v: 2 * v**v / mp.gamma(v) * z ** (2 * v - 1) * exp(-v * z * z),
        lambda z, v: lower(v, v * z * z),
        0.8,
        [1.7],
    ),
    "norm": (normal, PHI, 0.4, []),
    "norminvgauss": (
        lambda z, a, b: a
        * mp.besselk(1, a * sqrt(1 + z * z))
        / (PI * sqrt(1 + z * z))
        * exp(sqrt(a * a - b * b) + b * z),
        None,
        0.4,
        [1.7, 0.6],
    ),
    "pareto": (lambda z, b: b * z ** (-b - 1), lambda z, b: 1 - z**-b, 1.4, [1.7]),
    "powerlaw": (lambda z, a: a * z ** (a - 1), lambda z, a: z**a, 0.4, [1.7]),
    "powerlognorm": (
        lambda z, c, s: c / (z * s) * normal(log(z) / s) * PHI(-log(z) / s) ** (c - 1),
        lambda z, c, s: 1 - PHI(-log(z) / s) ** c,
        0.7,
        [1.7, 0.8],
    ),
    "powernorm": (lambda z, c: c * normal(z) * PHI(-z) ** (c - 1), lambda z, c: 1 - PHI(-z) ** c, 0.4, [1.7]),
    "rayleigh": (lambda z: z * exp(-z * z / 2), lambda z: 1 - exp(-z * z / 2), 1.2, []),
    "rdist": (
        lambda z, c: (1 - z * z) ** (c / 2 - 1) / mp.beta(HALF, c / 2),
        lambda z, c: beta_cdf(c / 2, c / 2, (z + 1) / 2),
        0.3,
        [3.4],
    ),
    "recipinvgauss": (
        lambda z, m: exp(-((1 - m * z) ** 2) / (2 * z * m * m)) / sqrt(2 * PI * z),
        lambda z, m: 1 - PHI((1 / (m * z) - 1) * sqrt(z)) - exp(2 / m) * PHI(-(1 / (m * z) + 1) * sqrt(z)),
        0.8,
        [1.3],
    ),
    "rice": (lambda z, b: z * exp(-(z * z + b * b) / 2) * mp.besseli(0, z * b), None, 1.2, [0.8]),
    "semicircular": (
        lambda z: 2 / PI * sqrt(1 - z * z),
        lambda z: HALF + (z * sqrt(1 - z * z) + mp.asin(z)) / PI,
        0.3,
        [],
    ),
    "skewcauchy": (
        lambda z, a: 1 / (PI * (z * z / (a + 1) ** 2 + 1)),
        lambda z, a: (1 - a) / 2 + (1 + a) / PI * atan(z / (1 + a)),
        0.6,
        [0.3],
    ),
    "skewnorm": (lambda z, a: 2 * normal(z) * PHI(a * z), None, 0.4, [1.3]),
    "t": (
        lambda z, v: mp.gamma((v + 1) / 2) / (sqrt(PI * v) * mp.gamma(v / 2)) * (1 + z * z / v) ** (-(v + 1) / 2),
        lambda z, v: 1 - beta_cdf(v / 2, HALF, v / (v + z * z)) / 2,
        0.8,
        [4.2],
    ),
    "trapezoid": (
        lambda z, c, d: 2 / (d - c + 1) + 0 * z,
        lambda z, c, d: (2 * z - c) / (d - c + 1),
        0.5,
        [0.3, 0.8],
    ),
    "triang": (lambda z, c: 2 * z / c, lambda z, c: z * z / c, 0.3, [0.6]),
    "truncexpon": (lambda z, b: exp(-z) / (1 - exp(-b)), lambda z, b: (1 - exp(-z)) / (1 - exp(-b)), 0.7, [1.8]),
    "truncnorm": (
        lambda z, a, b: normal(z) / (PHI(b) - PHI(a)),
        lambda z, a, b: (PHI(z) - PHI(a)) / (PHI(b) - PHI(a)),
        0.4,
        [-0.7, 1.8],
    ),
    "truncpareto": (
        lambda z, b, c: b / (1 - c**-b) * z ** (-b - 1),
        lambda z, b, c: (1 - z**-b) / (1 - c**-b),
        1.4,
        [1.7, 3.2],
    ),
    "truncweibull_min": (
        lambda z, c, a, b: c * z ** (c - 1) * exp(-(z**c)) / (exp(-(a**c)) - exp(-(b**c))),
        lambda z, c, a, b: (exp(-(a**c)) - exp(-(z**c))) / (exp(-(a**c)) - exp(-(b**c))),
        0.7,
        [1.6, 0.2, 1.9],
    ),
    "uniform": (lambda z: mp.mpf(1), lambda z: z, 0.3, []),
    "vonmises": (lambda z, k: exp(k * mp.cos(z)) / (2 * PI * mp.besseli(0, k)), None, 0.8, [1.4]),
    "wald": (
        lambda z: exp(-((z - 1) ** 2) / (2 * z)) / sqrt(2 * PI * z**3),
        lambda z: PHI((z - 1) / sqrt(z)) + exp(2) * PHI(-(z + 1) / sqrt(z)),
        0.7,
        [],
    ),
    "weibull_max": (lambda z, c: c * (-z) ** (c - 1) * exp(-((-z) ** c)), lambda z, c: exp(-((-z) ** c)), -0.7, [1.8]),
    "weibull_min": (lambda z, c: c * z ** (c - 1) * exp(-(z**c)), lambda z, c: 1 - exp(-(z**c)), 0.7, [1.8]),
    "wrapcauchy": (
        lambda z, c: (1 - c * c) / (2 * PI * (1 + c * c - 2 * c * mp.cos(z))),
        lambda z, c: atan((1 + c) / (1 - c) * mp.tan(z / 2)) / PI,
        0.7,
        [0.4],
    ),
}

#: name: (probability of k, k, parameters, indices of parameters that are whole numbers)
DISCRETE = {
    "bernoulli": (lambda k, p: p if k else 1 - p, 1, [0.3], ()),
    "betabinom": (
        lambda k, n, a, b: mp.binomial(n, k) * mp.beta(k + a, n - k + b) / mp.beta(a, b),
        3,
        [8, 1.2, 2.7],
        (0,),
    ),
    "betanbinom": (
        lambda k, n, a, b: mp.binomial(n + k - 1, k) * mp.beta(a + n, b + k) / mp.beta(a, b),
        3,
        [5, 2.2, 1.7],
        (0,),
    ),
    "binom": (lambda k, n, p: mp.binomial(n, k) * p**k * (1 - p) ** (n - k), 3, [8, 0.3], (0,)),
    "boltzmann": (lambda k, a, n: (1 - exp(-a)) * exp(-a * k) / (1 - exp(-a * n)), 3, [0.4, 9], (1,)),
    "dlaplace": (lambda k, a: mp.tanh(a / 2) * exp(-a * abs(k)), 3, [0.4], ()),
    "geom": (lambda k, p: (1 - p) ** (k - 1) * p, 3, [0.3], ()),
    "logser": (lambda k, p: -(p**k) / (k * mp.log1p(-p)), 3, [0.3], ()),
    "nbinom": (lambda k, n, p: mp.binomial(n + k - 1, k) * p**n * (1 - p) ** k, 3, [5.2, 0.3], ()),
    "planck": (lambda k, a: (1 - exp(-a)) * exp(-a * k), 3, [0.4], ()),
    "poisson": (lambda k, m: m**k * exp(-m) / mp.factorial(k), 3, [2.3], ()),
    "skellam": (lambda k, m, n: exp(-m - n) * (m / n) ** (k / 2) * mp.besseli(k, 2 * sqrt(m * n)), 3, [2.3, 1.4], ()),
    "yulesimon": (lambda k, a: a * mp.beta(k, a + 1), 3, [1.7], ()),
    "zipf": (lambda k, a: k**-a / mp.zeta(a), 3, [2.7], ()),
    "zipfian": (lambda k, a, n: k**-a / mp.fsum(mp.mpf(i) ** -a for i in range(1, int(n) + 1)), 3, [1.3, 9], (1,)),
}

LOC, SCALE = 0.2, 0.7


def continuous_errors(name):
    """Return, by method, the errors of a continuous distribution, whose arguments all carry a derivative."""
    density, distribution, z, shapes = CONTINUOUS[name]
    methods = getattr(scipy.stats, name)
    point = [LOC + SCALE * z, *shapes, LOC, SCALE]

    def by(method):
        return lambda p: getattr(methods, method)(*p)

    def standard(x, args):
        return (x - args[-2]) / args[-1], args[:-2]

    def log_density(x, *args):
        z, shapes = standard(x, args)
        return log(density(z, *shapes)) - log(args[-1])

    found = {"logpdf": compared(by("logpdf"), log_density, point)}
    if distribution is None:
        return found

    def probability(x, *args):
        z, shapes = standard(x, args)
        return distribution(z, *shapes)

    found["cdf"] = compared(by("cdf"), probability, point)
    found["sf"] = compared(by("sf"), lambda *args: 1 - probability(*args), point)
    found["logcdf"] = compared(by("logcdf"), lambda *args: log(probability(*args)), point)
    with mp.workdps(DIGITS):
        q = float(probability(*map(mp.mpf, point)))

    @functools.cache
    def quantile(q, *args):
        return mp.findroot(lambda x: probability(x, *args) - q, mp.mpf(point[0]))

    found["ppf"] = compared(by("ppf"), quantile, [q, *point[1:]])
    return found


def discrete_errors(name):
    """Return, by method, the errors of a discrete distribution in those parameters that are real numbers."""
    mass, k, parameters, whole = DISCRETE[name]
    methods = getattr(scipy.stats, name)
    real = [i for i in range(len(parameters)) if i not in whole]

    def full(p):
        values = list(parameters)
        for i, value in zip(real, p, strict=True):
            values[i] = value
        return values

    def exact(values):
        return [mp.mpf(value) for value in full(values)]

    lowest, point = methods.support(*parameters)[0], [parameters[i] for i in real]
    found = {
        "logpmf": compared(lambda p: methods.logpmf(k, *full(p)), lambda *p: log(mass(mp.mpf(k), *exact(p))), point)
    }
    if lowest >= 0:
        found["cdf"] = compared(
            lambda p: methods.cdf(k, *full(p)),
            lambda *p: mp.fsum(mass(mp.mpf(i), *exact(p)) for i in range(int(lowest), k + 1)),
            point,
        )
    return found
