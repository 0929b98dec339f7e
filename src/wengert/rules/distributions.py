"""Distribution functions of ``scipy.special`` and their inverses, in arguments and parameters.

The derivative of a distribution function in its argument is the density; in a parameter it is an integral of the
derivative of the density (see `parameters`).
Inverses follow from the implicit function theorem: if F(x, a) = p, then dx/dp = 1 / F_x and dx/da = -F_a / F_x.
"""

from __future__ import annotations

from functools import partial
from math import pi, sqrt

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import elementwise, refuse
from wengert.rules import special
from wengert.rules.composed import dispatched
from wengert.rules.parameters import (
    beta_density,
    beta_density_slope,
    beta_slope_by_parameters,
    gamma_density,
    gammainc_by_parameter,
)
from wengert.rules.special import digamma_rise, exp_minus_square, sp

row = partial(special.row, replayed=True)


def normal_density(x):
    return exp_minus_square(x, 0.5) / sqrt(2 * pi)


# ---- gamma and chi square


def quantile_by_shape(y, a, x):
    """Derivative of the inverse of the gamma distribution function in its parameter `a`, at the quantile `x`."""
    return -gammainc_by_parameter(1, a, x) / gamma_density(a, x)


row("gammainc", lambda y, a, x: gammainc_by_parameter(1, a, x), lambda y, a, x: gamma_density(a, x))
row("gammaincc", lambda y, a, x: -gammainc_by_parameter(1, a, x), lambda y, a, x: -gamma_density(a, x))
row("gammaincinv", lambda y, a, p: quantile_by_shape(y, a, y), lambda y, a, p: 1 / gamma_density(a, y))
row("gammainccinv", lambda y, a, p: quantile_by_shape(y, a, y), lambda y, a, p: -1 / gamma_density(a, y))
row(
    "chdtr", lambda y, v, x: gammainc_by_parameter(1, v / 2, x / 2) / 2, lambda y, v, x: gamma_density(v / 2, x / 2) / 2
)
row(
    "chdtrc",
    lambda y, v, x: -gammainc_by_parameter(1, v / 2, x / 2) / 2,
    lambda y, v, x: -gamma_density(v / 2, x / 2) / 2,
)
row("chdtri", lambda y, v, p: quantile_by_shape(y, v / 2, y / 2), lambda y, v, p: -2 / gamma_density(v / 2, y / 2))
row(
    "chdtriv",
    lambda y, p, x: 2 / gammainc_by_parameter(1, y / 2, x / 2),
    lambda y, p, x: 1 / quantile_by_shape(None, y / 2, x / 2),
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
    lambda y, a, b, p: quantile_by_shape(y, b, a * y) / a,
    lambda y, a, b, p: 1 / (a * gamma_density(b, a * y)),
)
row(
    "gdtria",
    lambda y, p, b, x: 1 / (x * gamma_density(b, x * y)),
    lambda y, p, b, x: quantile_by_shape(y, b, x * y) / x,
    lambda y, p, b, x: -y / x,
)
row(
    "gdtrib",
    lambda y, a, p, x: x / quantile_by_shape(None, y, a * x),
    lambda y, a, p, x: 1 / gammainc_by_parameter(1, y, a * x),
    lambda y, a, p, x: a / quantile_by_shape(None, y, a * x),
)
row("pdtr", "number of events", lambda y, k, m: -gamma_density(np.floor(k) + 1, m))
row("pdtrc", "number of events", lambda y, k, m: gamma_density(np.floor(k) + 1, m))
row("pdtri", "number of events", lambda y, k, p: -1 / gamma_density(np.floor(k) + 1, y))


def zero_if_clamped(y, slope):
    """Return `slope`, and 0 where SciPy clamps the event count `y` at 0."""
    return np.where(np.greater(y, 0), slope, 0.0)


row(
    "pdtrik",
    lambda y, p, m: zero_if_clamped(y, -1 / gammainc_by_parameter(1, y + 1, m)),
    lambda y, p, m: zero_if_clamped(y, 1 / quantile_by_shape(None, y + 1, m)),
)

# ---- beta, F, Student, binomial


def beta_slope(i, a, b, x, rest):
    """Derivative of ``betainc`` in its argument i."""
    return beta_density(a, b, x, rest) if i == 2 else beta_slope_by_parameters(1 - i, i, a, b, x, rest)


def declare_inverse(name, slope, unknown, value, sign=1):
    """Declare the inverse of a distribution function in one of its arguments.

    ``slope(i, *arguments)`` is the derivative of the distribution function in its argument i, and `unknown` is the
    argument that is solved for.
    Operand `value` of the inverse is `sign` times the probability; the other operands keep their order.
    """

    def partial_of(i):
        def by_operand(y, *operands):
            known = list(operands)
            known.pop(value)
            arguments = (*known[:unknown], y, *known[unknown:])
            if i == value:
                return sign / slope(unknown, *arguments)
            k = i - (i > value)
            return -slope(k + (k >= unknown), *arguments) / slope(unknown, *arguments)

        return by_operand

    row(name, *(partial_of(i) for i in range(3)))


def betainc_slope(i, a, b, x):
    return beta_slope(i, a, b, x, 1 - x)


row("betainc", *(lambda y, a, b, x, i=i: betainc_slope(i, a, b, x) for i in range(3)))
row("betaincc", *(lambda y, a, b, x, i=i: -betainc_slope(i, a, b, x) for i in range(3)))
declare_inverse("betaincinv", betainc_slope, 2, 2)
declare_inverse("betainccinv", betainc_slope, 2, 2, sign=-1)
declare_inverse("btdtria", betainc_slope, 0, 0)
declare_inverse("btdtrib", betainc_slope, 1, 1)


def f_slope(i, m, n, x):
    """Derivative of ``fdtr`` in its argument i: the argument m x / (n + m x) of ``betainc`` also depends on m and n."""
    whole = n + m * x
    operands = m / 2, n / 2, m * x / whole, n / whole
    by_argument = beta_density(*operands) / (whole * whole) * (n * x, -m * x, m * n)[i]
    return by_argument if i == 2 else by_argument + beta_slope(i, *operands) / 2


row("fdtr", *(lambda y, m, n, x, i=i: f_slope(i, m, n, x) for i in range(3)))
row("fdtrc", *(lambda y, m, n, x, i=i: -f_slope(i, m, n, x) for i in range(3)))
declare_inverse("fdtri", f_slope, 2, 2)
declare_inverse("fdtridfd", f_slope, 1, 1)


def binomial_density(k, n, p):
    """Minus the derivative of ``bdtr`` in p, (k + 1) C(n, k + 1) p^k (1 - p)^(n - k - 1); 0 for k >= n."""
    k, n = np.floor(k), np.trunc(n)
    inside = np.less(k, n)
    return np.where(inside, beta_density(k + 1, np.where(inside, n - k, 1.0), p, 1 - p), 0.0)


row("bdtr", "number of events", None, lambda y, k, n, p: -binomial_density(k, n, p))
row("bdtrc", "number of events", None, lambda y, k, n, p: binomial_density(k, n, p))
row("bdtri", "number of events", None, lambda y, k, n, p: -1 / binomial_density(k, n, y))
row("nbdtr", None, None, lambda y, k, n, p: beta_density(np.trunc(n), np.trunc(k) + 1, p, 1 - p))
row("nbdtrc", None, None, lambda y, k, n, p: -beta_density(np.trunc(n), np.trunc(k) + 1, p, 1 - p))
row("nbdtri", None, None, lambda y, k, n, p: 1 / beta_density(np.trunc(n), np.trunc(k) + 1, y, 1 - y))


def binomial_slope(i, k, n, p):
    """Derivative of ``bdtr`` in its argument i, with k and n continued to real values."""
    operands = n - k, k + 1, 1 - p, p
    if i == 2:
        return -beta_density(*operands)
    by_n = beta_slope(0, *operands)
    return by_n if i == 1 else beta_slope(1, *operands) - by_n


def negative_binomial_slope(i, k, n, p):
    return beta_slope((1, 0, 2)[i], n, k + 1, p, 1 - p)


declare_inverse("bdtrik", binomial_slope, 0, 0)
declare_inverse("bdtrin", binomial_slope, 1, 1)
declare_inverse("nbdtrik", negative_binomial_slope, 0, 0)
declare_inverse("nbdtrin", negative_binomial_slope, 1, 1)

# ---- Student


def t_density(v, t):
    return np.exp(-(v + 1) / 2 * np.log1p(t * t / v)) / (np.sqrt(v) * sp.beta(0.5, v / 2))


@dispatched
def t_by_freedom(order, v, t):
    """First or second derivative (`order`) of ``stdtr`` in the degrees of freedom v, through ``betainc``."""
    return np.where(np.equal(t, 0), 0.0, tail_by_freedom(order, v, np.where(np.equal(t, 0), 1.0, t)))[()]


def tail_by_freedom(order, v, t):
    whole = v + t * t
    a, x, rest = v / 2, v / whole, t * t / whole
    density, slope = beta_density(a, 0.5, x, rest), t * t / (whole * whole)
    total = beta_slope_by_parameters(order, 0, a, 0.5, x, rest) / 2**order
    if order == 1:
        total = total + density * slope
    else:
        bend = (a - 1) / x + 0.5 / rest  # logarithmic derivative of the density in x
        total = total + beta_density_slope(1, 0, a, 0.5, x, rest) * slope
        total = total + density * (bend * slope - 2 / whole) * slope
    return -np.sign(t) / 2 * total


def t_density_by_freedom(v, t):
    w = t * t / v
    return t_density(v, t) / 2 * (digamma_rise(v / 2, 0.5) - 1 / v - np.log1p(w) + (1 + 1 / v) * w / (1 + w))


elementwise(
    t_by_freedom,
    None,
    lambda y, order, v, t: t_by_freedom(2, v, t) if order == 1 else raise_third_derivative(),
    lambda y, order, v, t: t_density_by_freedom(v, t) if order == 1 else raise_third_derivative(),
)


def raise_third_derivative():
    raise UnsupportedFunctionError(
        "scipy.special.stdtr has no third derivative in the degrees of freedom: write it with scipy.special.betainc"
    )


row("stdtr", lambda y, v, t: t_by_freedom(1, v, t), lambda y, v, t: t_density(v, t))
row("stdtrit", lambda y, v, p: -t_by_freedom(1, v, y) / t_density(v, y), lambda y, v, p: 1 / t_density(v, y))


def converged_freedom(y):
    """Return the degrees of freedom, NaN where SciPy's search stopped at a bound (1e-100, or 1e100 of either sign)."""
    return np.where((y > 1e-99) & (y < 1e99), y, np.nan)


row(
    "stdtridf",
    lambda y, p, t: 1 / t_by_freedom(1, converged_freedom(y), t),
    lambda y, p, t: -t_density(y, t) / t_by_freedom(1, converged_freedom(y), t),
)

# ---- Kolmogorov and Smirnov


def kolmogorov_density(x):
    """Return minus the derivative of ``kolmogorov``, by whichever theta series converges fast at x."""
    is_far = np.greater(x, 0.8)
    far, near = np.where(is_far, np.minimum(x, 100.0), 1.0), np.where(is_far, 0.5, x)
    outer = sum((-1) ** (k + 1) * k * k * np.exp(-2.0 * k * k * far * far) for k in range(1, 8))
    inner = 0.0
    for k in range(1, 8, 2):
        c = (k * pi / near) ** 2 / 4
        inner = inner + (c - 1) * np.exp(-c / 2)
    inner = np.where(np.less_equal(x, 0), 0.0, sqrt(2 * pi) / (near * near) * inner)
    return np.where(is_far, 8 * far * outer, inner)


row("kolmogorov", lambda y, x: -kolmogorov_density(x))
row("kolmogi", lambda y, p: -1 / kolmogorov_density(y))

# ---- the normal distribution, in its parameters

row("nrdtrimn", lambda y, p, std, x: -std / normal_density(sp.ndtri(p)), lambda y, p, std, x: -sp.ndtri(p), 1.0)
row(
    "nrdtrisd",
    lambda y, mean, p, x: -1 / sp.ndtri(p),
    lambda y, mean, p, x: -(x - mean) / sp.ndtri(p) ** 2 / normal_density(sp.ndtri(p)),
    lambda y, mean, p, x: 1 / sp.ndtri(p),
)

# ---- noncentral chi square


def noncentral_density(v, c, x):
    """Density of the noncentral chi square distribution: by a Bessel function, and by 0F1 where c x is small."""
    is_far = np.greater(c * x, 1.0)
    far_c, far_x = np.where(is_far, c, 1.0), np.where(is_far, x, 1.0)
    near_x, product = np.where(is_far, 1.0, x), np.where(is_far, 0.0, c * x / 4)
    apart = (far_x - far_c) / (np.sqrt(far_x) + np.sqrt(far_c))
    scaled = sp.ive(v / 2 - 1, np.sqrt(far_c * far_x))
    far = np.exp(-apart * apart / 2) * np.power(far_x / far_c, v / 4 - 0.5) * scaled / 2
    near = np.exp(-np.where(is_far, 0.0, c) / 2) * gamma_density(v / 2, near_x / 2) * sp.hyp0f1(v / 2, product) / 2
    return np.where(is_far, far, near)


def noncentral_slope(i, x, v, c):
    """Derivative of ``chndtr`` in its argument (i = 0) or its noncentrality (i = 2)."""
    return noncentral_density(v, c, x) if i == 0 else -noncentral_density(v + 2, c, x)


FREEDOM = "degrees of freedom"
row("chndtr", lambda y, x, v, c: noncentral_slope(0, x, v, c), FREEDOM, lambda y, x, v, c: noncentral_slope(2, x, v, c))
row(
    "chndtrix",
    lambda y, p, v, c: 1 / noncentral_slope(0, y, v, c),
    FREEDOM,
    lambda y, p, v, c: -noncentral_slope(2, y, v, c) / noncentral_slope(0, y, v, c),
)
row(
    "chndtrinc",
    lambda y, x, v, p: zero_if_unattained(y, lambda c: -noncentral_slope(0, x, v, c) / noncentral_slope(2, x, v, c)),
    FREEDOM,
    lambda y, x, v, p: zero_if_unattained(y, lambda c: 1 / noncentral_slope(2, x, v, c)),
)


def zero_if_unattained(c, slope):
    """Return `slope(c)`, and 0 where no noncentrality attains the probability: SciPy then returns c near 0."""
    return np.where(np.greater(c, 1e-300), slope(np.maximum(c, 1e-300)), 0.0)


# ---- without a derivative in any argument

NONCENTRAL = "no stable formula for noncentral distributions; sum the Poisson mixture of central ones, as with gammainc"

for name in "chndtridf ncfdtr ncfdtri ncfdtridfd ncfdtridfn ncfdtrinc nctdtr nctdtridf nctdtrinc nctdtrit".split():
    refuse(f"scipy.special.{name}", NONCENTRAL)
