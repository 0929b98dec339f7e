"""Distribution functions of ``scipy.special`` and their inverses, in arguments and in parameters.

In its argument a distribution function has its density as derivative, in its parameters an integral of that
(`parameters`).
An inverse has them by the equation that it solves: in whatever is not solved for, minus one over the other.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from wengert.registry import refuse
from wengert.rules.parameters import beta_density, betainc_by_parameters, gamma_density, gammainc_by_parameter
from wengert.rules.special import exp_minus_square, sp
from wengert.rules.transcendental import row


def normal_density(x):
    return exp_minus_square(x, 0.5) / sqrt(2 * pi)


# ---- gamma and chi square


def gamma_slopes(a, x):
    """Derivatives of ``gammainc`` in its parameter and in its argument."""
    return gammainc_by_parameter(1, a, x), gamma_density(a, x)


def by_parameter(y, a, x):
    """Derivative of the inverse of the gamma distribution function in its parameter, at its value x."""
    slope, density = gamma_slopes(a, x)
    return -slope / density


row("gammainc", lambda y, a, x: gammainc_by_parameter(1, a, x), lambda y, a, x: gamma_density(a, x))
row("gammaincc", lambda y, a, x: -gammainc_by_parameter(1, a, x), lambda y, a, x: -gamma_density(a, x))
row("gammaincinv", lambda y, a, p: by_parameter(y, a, y), lambda y, a, p: 1 / gamma_density(a, y))
row("gammainccinv", lambda y, a, p: by_parameter(y, a, y), lambda y, a, p: -1 / gamma_density(a, y))
row(
    "chdtr",
    lambda y, v, x: gammainc_by_parameter(1, v / 2, x / 2) / 2,
    lambda y, v, x: gamma_density(v / 2, x / 2) / 2,
)
row(
    "chdtrc",
    lambda y, v, x: -gammainc_by_parameter(1, v / 2, x / 2) / 2,
    lambda y, v, x: -gamma_density(v / 2, x / 2) / 2,
)
row("chdtri", lambda y, v, p: by_parameter(y, v / 2, y / 2), lambda y, v, p: -2 / gamma_density(v / 2, y / 2))
row(
    "chdtriv",
    lambda y, p, x: 2 / gammainc_by_parameter(1, y / 2, x / 2),
    lambda y, p, x: 1 / by_parameter(None, y / 2, x / 2),
)
row(
    "gdtr",
    lambda y, a, b, x: x * gamma_density(b, a * x),
    lambda y, a, b, x: gammainc_by_parameter(1, b, a * x),
    lambda y, a, b, x: a * gamma_density(b, a * x),
)
row(
    "gdtrc",
    lambda y, a, b, x: -x * gamma_density(b, a * x),
    lambda y, a, b, x: -gammainc_by_parameter(1, b, a * x),
    lambda y, a, b, x: -a * gamma_density(b, a * x),
)
row(
    "gdtrix",
    lambda y, a, b, p: -y / a,
    lambda y, a, b, p: by_parameter(y, b, a * y) / a,
    lambda y, a, b, p: 1 / (a * gamma_density(b, a * y)),
)
row(
    "gdtria",
    lambda y, p, b, x: 1 / (x * gamma_density(b, x * y)),
    lambda y, p, b, x: by_parameter(y, b, x * y) / x,
    lambda y, p, b, x: -y / x,
)
row(
    "gdtrib",
    lambda y, a, p, x: x / by_parameter(None, y, a * x),
    lambda y, a, p, x: 1 / gammainc_by_parameter(1, y, a * x),
    lambda y, a, p, x: a / by_parameter(None, y, a * x),
)
row("pdtr", "number of events", lambda y, k, m: -gamma_density(np.floor(k) + 1, m))
row("pdtrc", "number of events", lambda y, k, m: gamma_density(np.floor(k) + 1, m))
row("pdtri", "number of events", lambda y, k, p: -1 / gamma_density(np.floor(k) + 1, y))


def inside(y, slope):
    """The slope of a number of events, which is 0 where that is held at 0."""
    return np.where(np.greater(y, 0), slope, 0.0)


row(
    "pdtrik",
    lambda y, p, m: inside(y, -1 / gammainc_by_parameter(1, y + 1, m)),
    lambda y, p, m: inside(y, 1 / by_parameter(None, y + 1, m)),
)

# ---- beta, F, Student, binomial


def beta_slopes(a, b, x, rest):
    """Derivatives of ``betainc`` in its three arguments."""
    by_a, by_b = betainc_by_parameters(1, 0, a, b, x, rest), betainc_by_parameters(0, 1, a, b, x, rest)
    return by_a, by_b, beta_density(a, b, x, rest)


def solved(name, slopes, unknown, value=1, sign=1):
    """Declare the inverse of a distribution function in one of its arguments.

    `slopes` gives the derivatives of the distribution function in its arguments; in the call of the inverse its value,
    times `sign`, is operand `value`, and the other arguments keep their order.
    """

    def partial(i):
        def slope(y, *operands):
            rest = list(operands)
            rest.pop(value)
            found = slopes(*rest[:unknown], y, *rest[unknown:])
            if i == value:
                return sign / found[unknown]
            k = i - (i > value)
            return -found[k + (k >= unknown)] / found[unknown]

        return slope

    row(name, *(partial(i) for i in range(3)))


def betainc_slopes(a, b, x):
    return beta_slopes(a, b, x, 1 - x)


row(
    "betainc",
    lambda y, a, b, x: betainc_by_parameters(1, 0, a, b, x, 1 - x),
    lambda y, a, b, x: betainc_by_parameters(0, 1, a, b, x, 1 - x),
    lambda y, a, b, x: beta_density(a, b, x, 1 - x),
)
row(
    "betaincc",
    lambda y, a, b, x: -betainc_by_parameters(1, 0, a, b, x, 1 - x),
    lambda y, a, b, x: -betainc_by_parameters(0, 1, a, b, x, 1 - x),
    lambda y, a, b, x: -beta_density(a, b, x, 1 - x),
)
solved("betaincinv", betainc_slopes, 2, value=2)
solved("betainccinv", betainc_slopes, 2, value=2, sign=-1)
solved("btdtria", betainc_slopes, 0, value=0)
solved("btdtrib", betainc_slopes, 1, value=1)


def f_slopes(m, n, x):
    """Derivatives of ``fdtr``, of which the argument as a fraction changes with both degrees of freedom."""
    whole = n + m * x
    by_a, by_b, density = beta_slopes(m / 2, n / 2, m * x / whole, n / whole)
    density = density / (whole * whole)
    return by_a / 2 + density * n * x, by_b / 2 - density * m * x, density * m * n


row("fdtr", *(lambda y, m, n, x, i=i: f_slopes(m, n, x)[i] for i in range(3)))
row("fdtrc", *(lambda y, m, n, x, i=i: -f_slopes(m, n, x)[i] for i in range(3)))
solved("fdtri", f_slopes, 2, value=2)
solved("fdtridfd", f_slopes, 1, value=1)


def binomial_density(k, n, p):
    """Of the event number k + 1 of n, in p; as many events as trials are certain."""
    k, n = np.floor(k), np.trunc(n)
    inside = np.less(k, n)
    return np.where(inside, beta_density(k + 1, np.where(inside, n - k, 1.0), p, 1 - p), 0.0)


row("bdtr", "number of events", None, lambda y, k, n, p: -binomial_density(k, n, p))
row("bdtrc", "number of events", None, lambda y, k, n, p: binomial_density(k, n, p))
row("bdtri", "number of events", None, lambda y, k, n, p: -1 / binomial_density(k, n, y))
row("nbdtr", None, None, lambda y, k, n, p: beta_density(np.trunc(n), np.trunc(k) + 1, p, 1 - p))
row("nbdtrc", None, None, lambda y, k, n, p: -beta_density(np.trunc(n), np.trunc(k) + 1, p, 1 - p))
row("nbdtri", None, None, lambda y, k, n, p: 1 / beta_density(np.trunc(n), np.trunc(k) + 1, y, 1 - y))


def binomial_slopes(k, n, p):
    """Derivatives of ``bdtr``, continued to numbers that are no integers."""
    by_a, by_b, density = beta_slopes(n - k, k + 1, 1 - p, p)
    return by_b - by_a, by_a, -density


def negative_binomial_slopes(k, n, p):
    by_a, by_b, density = beta_slopes(n, k + 1, p, 1 - p)
    return by_b, by_a, density


solved("bdtrik", binomial_slopes, 0, value=0)
solved("bdtrin", binomial_slopes, 1, value=1)
solved("nbdtrik", negative_binomial_slopes, 0, value=0)
solved("nbdtrin", negative_binomial_slopes, 1, value=1)

# ---- Student


def t_density(v, t):
    return np.exp(-(v + 1) / 2 * np.log1p(t * t / v)) / (np.sqrt(v) * sp.beta(0.5, v / 2))


def t_by_freedom(v, t):
    """Derivative of ``stdtr`` in the degrees of freedom: of half a beta distribution of v / (v + t^2), for one tail."""
    whole = v + t * t
    by_a, _, density = beta_slopes(v / 2, 0.5, v / whole, t * t / whole)
    return -np.sign(t) / 2 * (by_a / 2 + density * t * t / (whole * whole))


row("stdtr", lambda y, v, t: t_by_freedom(v, t), lambda y, v, t: t_density(v, t))
row("stdtrit", lambda y, v, p: -t_by_freedom(v, y) / t_density(v, y), lambda y, v, p: 1 / t_density(v, y))
row(
    "stdtridf",
    lambda y, p, t: 1 / t_by_freedom(y, t),
    lambda y, p, t: -t_density(y, t) / t_by_freedom(y, t),
)

# ---- Kolmogorov and Smirnov


def kolmogorov_density(x):
    """Minus the derivative of ``kolmogorov``: the theta function by either of its series."""
    is_far = np.greater(x, 0.8)
    far, near = np.where(is_far, x, 1.0), np.where(is_far, 0.5, x)
    outer = sum((-1) ** (k + 1) * k * k * np.exp(-2.0 * k * k * far * far) for k in range(1, 8))
    inner = 0.0
    for k in range(1, 8, 2):
        c = (k * pi / near) ** 2 / 4
        inner = inner + (c - 1) * np.exp(-c / 2)
    inner = np.where(np.equal(x, 0), 0.0, sqrt(2 * pi) / (near * near) * inner)
    return np.where(is_far, 8 * far * outer, inner)


row("kolmogorov", lambda y, x: -kolmogorov_density(x))
row("kolmogi", lambda y, p: -1 / kolmogorov_density(y))

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

NONCENTRAL = "no stable formula for noncentral distributions; sum the Poisson mixture of central ones, as with gammainc"

for name in ("chndtr", "chndtridf", "chndtrinc", "chndtrix", "ncfdtr", "ncfdtri", "ncfdtridfd", "ncfdtridfn"):
    refuse(f"scipy.special.{name}", NONCENTRAL)
for name in ("ncfdtrinc", "nctdtr", "nctdtridf", "nctdtrinc", "nctdtrit"):
    refuse(f"scipy.special.{name}", NONCENTRAL)
