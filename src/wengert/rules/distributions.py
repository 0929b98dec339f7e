"""Distribution functions of ``scipy.special`` and their inverses.

In its argument a distribution function has its density as derivative, and the inverse one over that.
In its parameters there is no closed form, but where they only scale the argument.
The densities are computed through that of the gamma distribution, whose exponent would lose digits if it were summed.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from wengert.registry import refuse
from wengert.rules.special import exp_minus_square, series, sp
from wengert.rules.transcendental import row

#: Stirling's series in powers of 1 / a^2
_STIRLING = [1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156]


def deviance(t):
    """t - log(1 + t), which is nearly t^2 / 2 at 0."""
    small = np.less(np.abs(t), 0.3)
    inner, outer = np.where(small, t, 0.0), np.where(small, 1.0, t)
    r = inner / (2 + inner)
    near = r * inner - 2 * r**3 * series(r * r, [1 / (2 * k + 3) for k in range(12)])
    return np.where(small, near, outer - np.log1p(outer))


def gamma_density(a, x):
    """x^(a - 1) exp(-x) / gamma(a)."""
    large = np.greater_equal(a, 10.0)
    big, low = np.where(large, a, 10.0), np.where(large, 1.0, a)
    at = np.where(large, x, 10.0)
    stirling = series(1 / (big * big), _STIRLING) / big
    far = np.exp(-stirling - big * deviance((at - big) / big)) * np.sqrt(big / (2 * pi)) / at
    return np.where(large, far, np.power(x, low - 1) * np.exp(-x) * sp.rgamma(low))


def beta_density(a, b, x, rest):
    """x^(a - 1) (1 - x)^(b - 1) / beta(a, b), where `rest` is 1 - x: of gamma densities at their common scale."""
    n = a + b
    return n * gamma_density(a, n * x) * gamma_density(b, n * rest) / gamma_density(n, n)


def normal_density(x):
    return exp_minus_square(x, 0.5) / sqrt(2 * pi)


# ---- gamma and chi square

row("gammainc", "parameter", lambda y, a, x: gamma_density(a, x))
row("gammaincc", "parameter", lambda y, a, x: -gamma_density(a, x))
row("gammaincinv", "parameter", lambda y, a, p: 1 / gamma_density(a, y))
row("gammainccinv", "parameter", lambda y, a, p: -1 / gamma_density(a, y))
row("chdtr", "degrees of freedom", lambda y, v, x: gamma_density(v / 2, x / 2) / 2)
row("chdtrc", "degrees of freedom", lambda y, v, x: -gamma_density(v / 2, x / 2) / 2)
row("chdtri", "degrees of freedom", lambda y, v, p: -2 / gamma_density(v / 2, y / 2))
row("gdtr", lambda y, a, b, x: x * gamma_density(b, a * x), "shape", lambda y, a, b, x: a * gamma_density(b, a * x))
row("gdtrc", lambda y, a, b, x: -x * gamma_density(b, a * x), "shape", lambda y, a, b, x: -a * gamma_density(b, a * x))
row("gdtrix", lambda y, a, b, p: -y / a, "shape", lambda y, a, b, p: 1 / (a * gamma_density(b, a * y)))
row("gdtria", lambda y, p, b, x: 1 / (x * gamma_density(b, x * y)), "shape", lambda y, p, b, x: -y / x)
row("pdtr", "count", lambda y, k, m: -gamma_density(np.floor(k) + 1, m))
row("pdtrc", "count", lambda y, k, m: gamma_density(np.floor(k) + 1, m))

# ---- beta, F, Student, binomial

row("betainc", "parameter", "parameter", lambda y, a, b, x: beta_density(a, b, x, 1 - x))
row("betaincc", "parameter", "parameter", lambda y, a, b, x: -beta_density(a, b, x, 1 - x))
row("betaincinv", "parameter", "parameter", lambda y, a, b, p: 1 / beta_density(a, b, y, 1 - y))
row("betainccinv", "parameter", "parameter", lambda y, a, b, p: -1 / beta_density(a, b, y, 1 - y))


def f_density(m, n, x):
    whole = n + m * x
    return beta_density(m / 2, n / 2, m * x / whole, n / whole) * m * n / (whole * whole)


row("fdtr", "degrees of freedom", "degrees of freedom", lambda y, m, n, x: f_density(m, n, x))
row("fdtrc", "degrees of freedom", "degrees of freedom", lambda y, m, n, x: -f_density(m, n, x))
row("fdtri", "degrees of freedom", "degrees of freedom", lambda y, m, n, p: 1 / f_density(m, n, y))


def t_density(v, t):
    return np.exp(-(v + 1) / 2 * np.log1p(t * t / v)) / (np.sqrt(v) * sp.beta(0.5, v / 2))


row("stdtr", "degrees of freedom", lambda y, v, t: t_density(v, t))
row("stdtrit", "degrees of freedom", lambda y, v, p: 1 / t_density(v, y))
def binomial_density(k, n, p):
    """Of the event number k + 1 of n, in p; as many events as trials are certain."""
    k, n = np.floor(k), np.trunc(n)
    inside = np.less(k, n)
    return np.where(inside, beta_density(k + 1, np.where(inside, n - k, 1.0), p, 1 - p), 0.0)


row("bdtr", "count", None, lambda y, k, n, p: -binomial_density(k, n, p))
row("bdtrc", "count", None, lambda y, k, n, p: binomial_density(k, n, p))
row("nbdtr", None, None, lambda y, k, n, p: beta_density(np.trunc(n), np.trunc(k) + 1, p, 1 - p))
row("nbdtrc", None, None, lambda y, k, n, p: -beta_density(np.trunc(n), np.trunc(k) + 1, p, 1 - p))

# ---- the normal distribution, by its parameters

row(
    "nrdtrimn",
    lambda y, p, std, x: -std / normal_density(sp.ndtri(p)),
    lambda y, p, std, x: -sp.ndtri(p),
    1.0,
)
row(
    "nrdtrisd",
    lambda y, mean, p, x: -1 / sp.ndtri(p),
    lambda y, mean, p, x: -(x - mean) / sp.ndtri(p) ** 2 / normal_density(sp.ndtri(p)),
    lambda y, mean, p, x: 1 / sp.ndtri(p),
)

# ---- without a derivative in any argument

PARAMETER = (
    "a quantile in a parameter has no closed form; find it with wengert.implicit.root, of a distribution function "
    "whose derivative in that parameter is known"
)
NONCENTRAL = "no stable formula for noncentral distributions; sum the Poisson mixture of central ones, as with gammainc"
COUNT = "a quantile that is a number of events; find it with plain numbers, or wengert.stop_gradient(x)"
EMPIRICAL = "no formula for it is known here; declare a rule of your own with wengert.primitive"

for name in ("btdtria", "btdtrib", "chdtriv", "fdtridfd", "gdtrib", "stdtridf"):
    refuse(f"scipy.special.{name}", PARAMETER)
for name in ("chndtr", "chndtridf", "chndtrinc", "chndtrix", "ncfdtr", "ncfdtri", "ncfdtridfd", "ncfdtridfn"):
    refuse(f"scipy.special.{name}", NONCENTRAL)
for name in ("ncfdtrinc", "nctdtr", "nctdtridf", "nctdtrinc", "nctdtrit"):
    refuse(f"scipy.special.{name}", NONCENTRAL)
for name in ("bdtrik", "bdtrin", "nbdtrik", "nbdtrin", "pdtrik"):
    refuse(f"scipy.special.{name}", COUNT)
for name in ("bdtri", "nbdtri", "pdtri", "kolmogi", "kolmogorov", "smirnov", "smirnovi", "tklmbda"):
    refuse(f"scipy.special.{name}", EMPIRICAL)
