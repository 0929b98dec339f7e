"""Ufuncs of ``scipy.special``, declared by dotted name and resolved once the user has imported SciPy.

Partials read other functions of ``scipy.special`` through `sp`, so importing this module does not import SciPy.
"""

from __future__ import annotations

import importlib
from itertools import accumulate
from math import log, pi, sqrt
from operator import mul

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import constant, elementwise, facts, strong

ANY = (-3.0, 3.0)
POSITIVE = (0.1, 4.0)
UNIT = (0.05, 0.95)


class Special:
    """Lazy namespace of ``scipy.special``, imported at the first attribute access."""

    def __getattr__(self, name):
        found = self.__dict__[name] = getattr(importlib.import_module("scipy.special"), name)
        return found


sp = Special()


def exp_minus_square(x, rate):
    """Return exp(-rate x^2), accurate also for large x^2.

    A rounding error of one ulp in x^2 changes the result by x^2 ulp: 625 ulp at x = 25.
    So x^2 is split as h^2 + (x - h)(x + h), with h so short that h^2 is exact in float32 and float64.
    For |x| > 100 the result is 0 and the second term is dropped; a NaN stays in it, so that derivatives are NaN too.
    """
    head = np.rint(256 * x) / 256
    rest = np.where(np.greater(np.abs(x), 100), 0.0, (x - head) * (x + head))
    return np.exp(-rate * head * head) * np.exp(-rate * rest)


def unknown(name, operand):
    """Return a partial that raises: no closed form of the derivative in this operand is known."""

    def partial(y, *operands):
        raise UnsupportedFunctionError(
            f"scipy.special.{name} has no known derivative in its {operand}: pass a plain value, "
            "or wengert.stop_gradient(x) to treat it as a constant"
        )

    partial.operand = operand
    return partial


def row(name, *partials, **columns):
    """Declare a row by the partial in each operand; a string names an operand without a known derivative."""
    known = [unknown(name, p) if isinstance(p, str) else p for p in partials]
    elementwise(f"scipy.special.{name}", *known, **columns)


# ---- NumPy's functions under SciPy's names

row("cbrt", lambda y, x: 1 / (3 * y * y), domain=(POSITIVE,))
row("exp2", lambda y, x: y * log(2), domain=(ANY,))
row("exp10", lambda y, x: y * log(10), domain=(ANY,))
row("expm1", lambda y, x: np.exp(x), domain=(ANY,))
row("log1p", lambda y, x: 1 / (1 + x), domain=((-0.9, 4.0),))
row("cosm1", lambda y, x: -np.sin(x), domain=(ANY,))
constant("scipy.special.round", "scipy.special.gammasgn")

# ---- error functions and the normal distribution

row("erf", lambda y, x: 2 / sqrt(pi) * exp_minus_square(x, 1.0), domain=(ANY,))
row("erfc", lambda y, x: -2 / sqrt(pi) * exp_minus_square(x, 1.0), domain=(ANY,))
row("ndtr", lambda y, x: 1 / sqrt(2 * pi) * exp_minus_square(x, 0.5), domain=(ANY,))


def hazard(x, terms=40):
    """Ratio of normal density and distribution function for x < -5, by Laplace's continued fraction."""
    tail = np.where(np.less(x, -5.0), -x, 5.0)
    fraction = tail
    for k in range(terms, 0, -1):
        fraction = tail + k / fraction
    return fraction


def log_ndtr_partial(y, x):
    """Return the ratio of density and distribution function; far to the left both lose digits and underflow."""
    ratio = 1 / sqrt(2 * pi) * exp_minus_square(x, 0.5) / sp.ndtr(x)
    is_left = np.less(x, -5.0)
    if type(x) is np.ndarray and not is_left.any():  # the usual case; the fraction takes most of the time
        return ratio
    return np.where(is_left, hazard(x), ratio)


row("log_ndtr", log_ndtr_partial, domain=(ANY,), replayed=True)
# inverse functions: the reciprocal of the derivative at y
row("erfinv", lambda y, x: sqrt(pi) / 2 / exp_minus_square(y, 1.0), domain=((-0.9, 0.9),))
row("erfcinv", lambda y, x: -sqrt(pi) / 2 / exp_minus_square(y, 1.0), domain=((0.1, 1.9),))
row("ndtri", lambda y, x: sqrt(2 * pi) / exp_minus_square(y, 0.5), domain=(UNIT,))

row("ndtri_exp", lambda y, x: 1 / log_ndtr_partial(x, y), domain=((-4.0, -0.1),), replayed=True)
row("erfi", lambda y, x: 2 / sqrt(pi) * exp_minus_square(x, -1.0), domain=(ANY,))


def erfcx_partial(y, x, terms=60):
    """Return 2 x y - 2 / sqrt(pi); for x >= 2, where that cancels, -2 y times a continued fraction."""
    far = np.where(np.less(x, 2.0), 2.0, x)
    fraction = 0.0
    for k in range(terms, 0, -1):
        fraction = 1 / (2 * far + 2 * (k + 1) * fraction)
    return np.where(np.less(x, 2.0), 2 * x * y - 2 / sqrt(pi), -2 * y * fraction)


def dawsn_partial(y, x, terms=40):
    """Return 1 - 2 x y; for |x| > 7, where the terms cancel, by its asymptotic series."""
    is_far = np.greater(np.abs(x), 7.0)
    square = 2 * np.where(is_far, x, 7.0) ** 2
    series = 0.0
    for k in range(terms, 0, -1):
        series = (2 * k - 1) / square * (1 + series)
    return np.where(is_far, -series, 1 - 2 * x * y)


row("erfcx", erfcx_partial, domain=(ANY,))
row("dawsn", dawsn_partial, domain=(ANY,))

# ---- the logistic function

# y (1 - y) as expit(x) expit(-x), since 1 - y cancels; `y` is unused and need not be stored
row("expit", lambda y, x: sp.expit(x) * sp.expit(-x), domain=(ANY,))
row("logit", lambda y, x: 1 / (x * (1 - x)), domain=(UNIT,), continuous=True)
row("log_expit", lambda y, x: sp.expit(-x), domain=(ANY,), continuous=True)

# ---- x log y, entropies: 0 log 0 is 0, as is its derivative in y


def ratio(a, b):
    """Return a / b, and 0 where both are 0."""
    return np.where(np.equal(a, 0) & np.equal(b, 0), 0.0 * a, a / b)


def log_ratio(a, b):
    """Return log(a / b), accurate where a is near b: there a - b is exact (Sterbenz lemma)."""
    is_near = (a < 2 * b) & (b < 2 * a)
    return np.where(is_near, np.log1p((a - b) / b), np.log(a) - np.log(b))


row(
    "xlogy",
    lambda y, a, b: np.log(b),
    lambda y, a, b: ratio(a, b),
    curvature="second",
    domain=(POSITIVE, POSITIVE),
    continuous=True,
)
row(
    "xlog1py",
    lambda y, a, b: np.log1p(b),
    lambda y, a, b: ratio(a, 1 + b),
    curvature="second",
    domain=(POSITIVE, (-0.9, 4.0)),
    continuous=True,
)
row("entr", lambda y, x: -np.log(x) - 1, domain=(POSITIVE,), continuous=True)
row("rel_entr", lambda y, a, b: log_ratio(a, b) + 1, lambda y, a, b: -ratio(a, b), domain=(POSITIVE, POSITIVE))
row("kl_div", lambda y, a, b: log_ratio(a, b), lambda y, a, b: (b - a) / b, domain=(POSITIVE, POSITIVE))

# ---- the gamma function and related functions


def beta_partial(y, a, b):
    return y * (sp.digamma(a) - sp.digamma(a + b))


row("gammaln", lambda y, x: sp.digamma(x), domain=(POSITIVE,), continuous=True)
row("loggamma", lambda y, x: sp.digamma(x), domain=(POSITIVE,), continuous=True)
row("gamma", lambda y, x: y * sp.digamma(x), domain=(POSITIVE,), continuous=True)
row("digamma", lambda y, x: sp.zeta(2.0, x), domain=(POSITIVE,))  # DLMF 25.11.12
row(
    "betaln",
    lambda y, a, b: sp.digamma(a) - sp.digamma(a + b),
    lambda y, a, b: sp.digamma(b) - sp.digamma(a + b),
    domain=(POSITIVE, POSITIVE),
)
row("beta", lambda y, a, b: beta_partial(y, a, b), lambda y, a, b: beta_partial(y, b, a), domain=(POSITIVE, POSITIVE))

# ---- exponential integrals

row("exp1", lambda y, x: -np.exp(-x) / x, domain=(POSITIVE,))
row("expi", lambda y, x: np.exp(x) / x, domain=(POSITIVE,))

# ---- Bessel functions (DLMF 10.6.1, 10.29.1): the derivative is half a sum of the neighbours in order


def between(name, below, above):
    """Partial in x: half a sum of the neighbours in order."""

    def partial(y, v, x):
        function = getattr(sp, name)
        return (below * function(v - 1, x) + above * function(v + 1, x)) / 2

    return partial


# jv, yv, iv and kv underflow or overflow long before the functions of order 0 and 1
row("j0", lambda y, x: -sp.j1(x), domain=(POSITIVE,))
row("j1", lambda y, x: (sp.j0(x) - sp.jv(2, x)) / 2, domain=(POSITIVE,))
row("y0", lambda y, x: -sp.y1(x), domain=(POSITIVE,))
row("y1", lambda y, x: sp.y0(x) - y / x, domain=(POSITIVE,))
row("i0", lambda y, x: sp.i1(x), domain=(ANY,))
row("i1", lambda y, x: (sp.i0(x) + sp.iv(2, x)) / 2, domain=(ANY,))
row("k0", lambda y, x: -sp.k1(x), domain=(POSITIVE,))
row("k1", lambda y, x: -(sp.k0(x) + y / x), domain=(POSITIVE,))
for name, below, above in (("jv", 1, -1), ("yv", 1, -1), ("iv", 1, 1)):
    row(name, "order", between(name, below, above), domain=((0.0, 3.0), POSITIVE))


# ---- Box-Cox transforms, whose limit is a logarithm, and their inverses


def split_small(u, size):
    """Return the mask |u| < size, `u` where it holds (else 0), and `u` where it does not (else 1)."""
    small = np.less(np.abs(u), size)
    return small, np.where(small, u, 0.0), np.where(small, 1.0, u)


def series(u, coefficients):
    total = 0.0
    for c in reversed(coefficients):
        total = total * u + c
    return total


_EXPREL = [1 / (f * (k + 2)) for k, f in enumerate(accumulate(range(1, 20), mul, initial=1.0))]
_LOGREL = [(-1) ** k / (k + 1) for k in range(36)]
_ROOT = [(-1) ** (k + 1) * (k + 1) / (k + 2) for k in range(36)]


def exprel_slope(u):
    """Derivative of (exp(u) - 1) / u."""
    small, inner, outer = split_small(u, 1.0)
    return np.where(small, series(inner, _EXPREL), (np.exp(outer) - sp.exprel(outer)) / outer)


def log1prel(u):
    """Return log(1 + u) / u."""
    small, inner, outer = split_small(u, 0.3)
    return np.where(small, series(inner, _LOGREL), np.log1p(outer) / outer)


def root_slope(u):
    """Return (u / (1 + u) - log(1 + u)) / u^2; d/dl log(1 + l z) / l is z^2 times it, at u = l z."""
    small, inner, outer = split_small(u, 0.3)
    return np.where(small, series(inner, _ROOT), (outer / (1 + outer) - np.log1p(outer)) / (outer * outer))


def boxcox_by_power(y, log, a):
    """Derivative of (exp(a log) - 1) / a in `a`; `log` may be infinite."""
    small, inner, _ = split_small(a * log, 1.0)
    low, far, divisor = np.where(small, log, 0.0), np.where(small, 0.0, log), np.where(small, 1.0, a)
    beyond = (strong(np.exp(divisor * far), far) - np.where(small, 0.0, y)) / divisor
    return np.where(small, low * low * series(inner, _EXPREL), beyond)


row("exprel", lambda y, x: exprel_slope(x), domain=(ANY,))
row(
    "boxcox",
    lambda y, x, a: np.power(x, a - 1),
    lambda y, x, a: boxcox_by_power(y, np.log(x), a),
    domain=(POSITIVE, ANY),
)
row(
    "boxcox1p",
    lambda y, x, a: np.exp((a - 1) * np.log1p(x)),
    lambda y, x, a: boxcox_by_power(y, np.log1p(x), a),
    domain=(POSITIVE, ANY),
)
row("inv_boxcox", lambda y, z, a: y / (1 + a * z), lambda y, z, a: y * z * z * root_slope(a * z), domain=(UNIT, UNIT))
row(
    "inv_boxcox1p",
    lambda y, z, a: sp.inv_boxcox(z, a) / (1 + a * z),  # 1 + y would lose the digits of a value close to -1
    lambda y, z, a: sp.inv_boxcox(z, a) * z * z * root_slope(a * z),
    domain=(UNIT, UNIT),
)
row("powm1", lambda y, x, a: a * np.power(x, a - 1), lambda y, x, a: np.power(x, a) * np.log(x), domain=(POSITIVE, ANY))
row(
    "spence",
    lambda y, x: -np.where(np.less(x, 0.7), np.log(x) / (x - 1), log1prel(np.where(np.less(x, 0.7), 0.0, x - 1))),
    domain=(POSITIVE,),
)
row("wrightomega", lambda y, x: y / (1 + y), domain=(ANY,))

# ---- losses


def pseudo_huber_partial(y, delta, r):
    u = r / delta
    s = np.sqrt(1 + u * u)
    return delta * (u * u / (1 + s)) ** 2 / s


row(
    "huber",
    lambda y, delta, r: np.maximum(np.abs(r) - delta, 0.0),
    lambda y, delta, r: np.clip(r, -delta, delta),
    domain=(POSITIVE, ANY),
)
row("pseudo_huber", pseudo_huber_partial, lambda y, delta, r: r / np.sqrt(1 + (r / delta) ** 2), domain=(POSITIVE, ANY))

# ---- quotients of gamma functions

#: coefficients B_2k / 2k of the asymptotic series of log(z) - digamma(z) - 1 / 2z (DLMF 5.11.2), in powers of 1 / z^2
DIGAMMA_SERIES = [1 / 12, -1 / 120, 1 / 252, -1 / 240, 1 / 132, -691 / 32760, 1 / 12, -3617 / 8160]


def digamma_rise(a, m, steps=10):
    """Return digamma(a + m) - digamma(a) without cancellation, by recurrence up to a + 10 and the asymptotic series."""
    mirrored = (a <= 0) & (a + m <= 0)  # digamma(x) = digamma(1 - x) - pi cot(pi x)
    both = mirrored | ((a > 0) & (a + m > 0))
    low = np.where(both, np.where(mirrored, 1 - a, a), 1.0)
    step = np.where(both, np.where(mirrored, -m, m), 0.0)
    total = 0.0
    for k in range(steps):
        total = total + step / ((low + k) * (low + step + k))
    low = low + steps
    high = low + step
    u, v = 1 / (low * low), 1 / (high * high)
    rise, value = 0.0, 0.0
    for c in reversed(DIGAMMA_SERIES):  # Horner's rule for divided differences
        rise, value = rise * v + value, value * u + c
    apart = -step / (low * high) * (1 / low + 1 / high)  # v - u
    total = total + np.log1p(step / low) + step / (2 * low * high) - apart * (value + v * rise)
    turning = mirrored & ~(np.equal(np.rint(a), a) & np.equal(np.rint(m), m))  # poles at integers cancel
    turns = np.where(turning, pi * sin_pi(m) / np.where(turning, sin_pi(a) * sin_pi(a + m), 1.0), 0.0)
    return np.where(both, total + turns, sp.digamma(a + m) - sp.digamma(a))


def sin_pi(x):
    """Return sin(pi x)."""
    near = np.rint(x)
    return np.where(np.equal(np.remainder(near, 2), 0), 1.0, -1.0) * np.sin(pi * (x - near))


def rgamma_partial(y, x):
    """Derivative of 1 / gamma(x); for x < 1/2 by reflection, as digamma has poles at the zeros of 1 / gamma."""
    left = np.less(x, 0.5)
    mirror = 1 - np.where(left, x, 0.0)
    near = np.rint(x)
    angle = pi * (x - near)
    sign = np.where(np.equal(np.remainder(near, 2), 0), 1.0, -1.0)
    slope = sign * sp.gamma(mirror) * (np.cos(angle) - np.sin(angle) / pi * sp.digamma(mirror))
    right = np.where(left, 1.0, x)
    return np.where(left, slope, -sp.rgamma(right) * sp.digamma(right))


row("rgamma", rgamma_partial, domain=(POSITIVE,))
row("poch", lambda y, a, m: y * digamma_rise(a, m), lambda y, a, m: y * sp.digamma(a + m), domain=(POSITIVE, POSITIVE))


def binom_partials(n, k):
    """Partials of Gamma(n + 1) r(k + 1) r(n - k + 1), with r the reciprocal of gamma, by the product rule."""
    left, right = sp.rgamma(k + 1), sp.rgamma(n - k + 1)
    slope = rgamma_partial(right, n - k + 1)
    by_n = left * (sp.digamma(n + 1) * right + slope)
    by_k = rgamma_partial(left, k + 1) * right - left * slope
    return sp.gamma(n + 1) * by_n, sp.gamma(n + 1) * by_k


def binom_partial(wrt, factor):
    """Return a partial of ``binom``: y times a difference of digamma, or the product rule where y is 0."""

    def partial(y, n, k):
        is_zero = np.equal(y, 0)
        n_there, k_there = np.where(is_zero, n, 5.0), np.where(is_zero, k, 2.0)
        n_elsewhere, k_elsewhere = np.where(is_zero, 5.0, n), np.where(is_zero, 2.0, k)
        return np.where(is_zero, binom_partials(n_there, k_there)[wrt], y * factor(n_elsewhere, k_elsewhere))

    return partial


row(
    "binom",
    binom_partial(0, lambda n, k: digamma_rise(n - k + 1, k)),
    binom_partial(1, lambda n, k: digamma_rise(k + 1, n - 2 * k)),
    domain=((4.0, 6.0), POSITIVE),
)


# ---- partials of many calls

for name in (
    "ndtr ndtri erfinv erfcinv erfi erfcx dawsn rel_entr kl_div exprel boxcox boxcox1p inv_boxcox inv_boxcox1p "
    "rgamma poch binom spence"
).split():
    facts(f"scipy.special.{name}", replayed=True)
