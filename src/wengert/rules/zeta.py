"""Derivatives of any order of the zeta functions in their exponent, by the Euler-Maclaurin formula.

Its terms are powers times rational functions of the exponent, differentiated by Leibniz's rule.
With 20 terms of the sum and 12 Bernoulli terms it is exact to rounding for exponents >= 0; negative exponents use the
reflection formula.
"""

from __future__ import annotations

from math import comb, factorial, pi

import numpy as np

from wengert.registry import elementwise, facts
from wengert.rules.composed import dispatched
from wengert.rules.parameters import bell, node_columns, polygamma
from wengert.rules.shapes import reshaped
from wengert.rules.special import sin_pi, sp

_SUM_TERMS = 20

#: B_2k / (2 k)! with the Bernoulli numbers B_2, B_4, ...
_NUMERATORS = (1, -1, 1, -1, 5, -691, 7, -3617, 43867, -174611, 854513, -236364091)
_DENOMINATORS = (6, 30, 42, 30, 66, 2730, 6, 510, 798, 330, 138, 2730)
_BERNOULLI = [a / (b * factorial(2 * k)) for k, (a, b) in enumerate(zip(_NUMERATORS, _DENOMINATORS), 1)]


def product(f, g):
    """Derivatives 0, 1, ... of a product from those of its factors (Leibniz's rule)."""
    return [sum(comb(k, i) * f[i] * g[k - i] for i in range(k + 1)) for k in range(len(f))]


def hurwitz_slope(order, s, q):
    """Derivative `order` of the Hurwitz zeta function in its exponent."""
    (s, q), shape = node_columns(s, q)
    terms = q + np.arange(_SUM_TERMS)
    total = np.sum(terms**-s * (-np.log(terms)) ** order, axis=1, keepdims=True)
    a = q + _SUM_TERMS
    log, value, inverse = -np.log(a), a**-s, 1 / a
    powers = [value * log**k for k in range(order + 1)]

    def linear(c):
        return [s + c, 1.0, *[0.0] * order][: order + 1]

    pole = [(-1) ** k * factorial(k) / (s - 1) ** (k + 1) for k in range(order + 1)]
    total = total + product(powers, pole)[order] * a + powers[order] / 2
    rising, factor = linear(0), inverse
    for n, b in zip(range(1, 2 * len(_BERNOULLI), 2), _BERNOULLI):
        total = total + b * factor * product(rising, powers)[order]
        rising = product(product(rising, linear(n)), linear(n + 1))
        factor = factor * (inverse * inverse)
    return reshaped(total, shape)[()]


@dispatched
def zeta_by_exponent(order, s, q):
    """Derivative of the Hurwitz zeta function in its exponent, `order` >= 1."""
    s, q = np.multiply(s, 1.0), np.multiply(q, 1.0)
    with np.errstate(all="ignore"):
        return np.where((s > 1) & (q > 0), hurwitz_slope(order, s, q), np.nan)[()]


@dispatched
def riemann_slope(order, s):
    """Derivative of Riemann's zeta function, `order` >= 1."""
    s = np.multiply(s, 1.0)
    mirrored = np.less(s, 0)
    with np.errstate(all="ignore"):
        right = hurwitz_slope(order, np.where(mirrored, 0.0, s), 1.0)
        t = np.where(mirrored, 1 - s, 2.0)  # zeta(s) = 2 (2 pi)^(s - 1) sin(pi s / 2) gamma(t) zeta(t), DLMF 25.4.2
        slopes = [np.log(2 * pi) - sp.digamma(t), *((-1) ** (n + 1) * polygamma(n, t) for n in range(1, order))]
        size = 2 * (2 * pi) ** -t * sp.gamma(t)
        factor = [size * bell(k, slopes) for k in range(order + 1)]
        wave = [(pi / 2) ** k * sin_pi((1 - t + k) / 2) for k in range(order + 1)]
        other = [(-1) ** k * hurwitz_slope(k, t, 1.0) for k in range(order + 1)]
        return np.where(mirrored, product(product(factor, wave), other)[order], right)[()]


def zeta_slope_by_offset(y, order, s, q):
    """Derivative `order` in s of d zeta(s, q) / dq = -s zeta(s + 1, q)."""
    below = zeta_by_exponent(order - 1, s + 1, q) if order > 1 else sp.zeta(s + 1, q)
    return -s * zeta_by_exponent(order, s + 1, q) - order * below


elementwise(zeta_by_exponent, None, lambda y, order, s, q: zeta_by_exponent(order + 1, s, q), zeta_slope_by_offset)
elementwise(riemann_slope, None, lambda y, order, s: riemann_slope(order + 1, s))
facts(zeta_by_exponent, body=zeta_by_exponent.__wrapped__)
facts(riemann_slope, body=riemann_slope.__wrapped__)
elementwise(
    "scipy.special._ufuncs._zeta",  # called by zeta with two operands
    lambda y, s, q: zeta_by_exponent(1, s, q),
    lambda y, s, q: -s * sp.zeta(s + 1, q),
    domain=((1.5, 4.0), (0.1, 4.0)),
    replayed=True,
).name = "scipy.special.zeta"
elementwise("scipy.special._ufuncs._riemann_zeta", lambda y, s: riemann_slope(1, s), replayed=True)
elementwise("scipy.special.zetac", lambda y, s: riemann_slope(1, s), replayed=True)
