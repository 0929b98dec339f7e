"""Families of integrals that are closed under differentiation and contain functions of ``scipy.special``.

Carlson's elliptic integrals (DLMF 19.16) integrate products of powers, and a derivative changes the exponents;
derivatives of the Faddeeva function satisfy a recurrence.
Each family is one function here, with exponents or an order that select the member.
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import analytic, elementwise
from wengert.rules.composed import dispatched
from wengert.rules.special import sp

# ---- Carlson's integrals


@dispatched
def carlson(power, p, q, r, s, x, y, z, w):
    """Integral over t > 0 of t^power (t + x)^-p (t + y)^-q (t + z)^-r (t + w)^-s, by the trapezoidal rule in log(t).

    In log(t) the integrand is positive, decays exponentially on both sides, and is analytic in a strip of width 2 pi,
    so the rule converges exponentially.
    """
    operands = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (x, y, z, w)))
    shape, exponents = operands[0].shape, (p, q, r, s)
    columns = [np.reshape(a, (-1, 1)) for a, e in zip(operands, exponents) if e]
    exponents = [e for e in exponents if e]
    if np.any(columns[-1] < 0):
        raise UnsupportedFunctionError(
            "scipy.special.elliprj has no derivative at p < 0, where it is a principal value; "
            "write it with elliprj of a positive p and elliprc, by the formula in its documentation"
        )
    sizes = np.where(np.equal(columns, 0), np.nan, columns)
    with np.errstate(all="ignore"):
        # below the smallest nonzero argument the integrand decays like t^fall; arguments at 0 lower that power
        at_zero = sum(e * np.equal(c, 0) for e, c in zip(exponents, columns))
        fall = np.where(power + 1 - at_zero > 0, power + 1 - at_zero, np.nan)
        low = np.log(np.nanmin(sizes, axis=0)) - 38 / fall
        high = np.log(np.nanmax(sizes, axis=0)) + 38 / (sum(exponents) - power - 1)
        count = int(np.nanmax(np.where(np.isfinite(high - low), high - low, 1.0), initial=1.0) / 0.25) + 2
        step = (high - low) / count
        t = np.exp(low + step * np.arange(count + 1))
        terms = t ** (power + 1)
        for column, e in zip(columns, exponents):
            terms = terms * (t + column) ** -e
        total = np.where(np.isnan(fall), np.inf, step * np.sum(terms, axis=1, keepdims=True))
    return np.reshape(total, shape)[()]


def carlson_partial(i):
    """Return the partial in operand i of x, y, z, w: minus its exponent, times the integral with it raised by 1."""

    def partial(y, power, *operands):
        exponents, places = list(operands[:4]), operands[4:]
        factor, exponents[i] = -exponents[i], exponents[i] + 1
        return factor * carlson(power, *exponents, *places) if factor else 0.0 * y

    return partial


elementwise(carlson, None, None, None, None, None, *map(carlson_partial, range(4)))


def declare_member(name, count, scale, power, *exponents):
    """Declare a function of `count` operands, whose partial in operand i has the factor ``scale * exponents[i]``."""

    def partial(i):
        raised = [e + (k == i) for k, e in enumerate(exponents)]
        factor, rest = scale * exponents[i], (1.0,) * (4 - count)
        return lambda out, *operands: factor * carlson(power, *raised, *operands, *rest)

    elementwise(f"scipy.special.{name}", *map(partial, range(count)))


declare_member("elliprd", 3, -1.5, 0.0, 0.5, 0.5, 1.5, 0.0)
declare_member("elliprg", 3, 0.25, 1.0, 0.5, 0.5, 0.5, 0.0)
declare_member("elliprj", 4, -1.5, 0.0, 0.5, 0.5, 0.5, 1.0)

# ---- the Faddeeva function

#: |z| above which the asymptotic series is exact to rounding
_FAR = 6.0


@dispatched
def faddeeva(order, z):
    """Derivative of ``wofz`` by DLMF 7.10: w' = -2 z w + 2 i / sqrt(pi), w^(k+1) = -2 z w^(k) - 2 k w^(k-1)."""
    z = np.asarray(z, dtype=complex)
    with np.errstate(all="ignore"):
        is_far = (np.abs(z) > _FAR) & (z.imag >= 0)
        close, far = np.where(is_far, 0, z), np.where(is_far, z, 2 * _FAR)
        below, here = sp.wofz(close), -2 * close * sp.wofz(close) + 2j / sqrt(pi)
        if order == 0:
            here = below
        for k in range(1, order):
            below, here = here, -2 * close * here - 2 * k * below
        return np.where(is_far, _faddeeva_far(order, far), here)[()]


def _faddeeva_far(order, z, terms=30):
    """Differentiate i / sqrt(pi) sum (2 k - 1)!! / 2^k z^(-2 k - 1), plus exp(-z^2) near the real axis."""
    total, factor = 0.0, 1.0
    scaled = []
    for k in range(terms):
        rising = np.prod(np.arange(2 * k + 1, 2 * k + 1 + order, dtype=float))
        scaled.append(factor * rising)
        factor *= (2 * k + 1) / 2
    for c in reversed(scaled):
        total = total / (z * z) + c
    series = (-1) ** order * 1j / sqrt(pi) * total / z ** (order + 1)
    gauss = np.where(np.abs(z.imag) < np.abs(z.real), np.exp(-z * z), 0.0)
    hermite, below = np.ones_like(z), np.zeros_like(z)
    for k in range(order):
        hermite, below = -2 * z * hermite - 2 * k * below, hermite
    return series + hermite * gauss


elementwise(faddeeva, None, lambda y, order, z: faddeeva(order + 1, z))
analytic(faddeeva)
elementwise("scipy.special.wofz", lambda y, z: faddeeva(1, z))
analytic("scipy.special.wofz")


@dispatched
def voigt(order, turns, u, g):
    """Real part of i^turns times derivative `order` of ``wofz`` at u + i g."""
    return (1j**turns * faddeeva(order, u + 1j * np.asarray(g))).real


elementwise(
    voigt,
    None,
    None,
    lambda y, order, turns, u, g: voigt(order + 1, turns, u, g),
    lambda y, order, turns, u, g: voigt(order + 1, turns + 1, u, g),
)


def voigt_partial(order, turns, factor, cauchy):
    """Partial of the Voigt profile, or of its limit at sigma = 0; d/dsigma is sigma d^2/dx^2 (heat equation)."""

    def partial(y, x, sigma, gamma):
        is_cauchy = np.equal(sigma, 0)
        s = np.where(is_cauchy, 1.0, sigma)
        scale = 1 / (sqrt(2) * s)
        value = factor * voigt(order, turns, x * scale, gamma * scale) / (s * s)
        return np.where(is_cauchy, cauchy(x, np.where(is_cauchy, gamma, 1.0)), value)

    return partial


elementwise(
    "scipy.special.voigt_profile",
    voigt_partial(1, 0, 1 / (2 * sqrt(pi)), lambda x, g: -2 * x * g / (pi * (x * x + g * g) ** 2)),
    voigt_partial(2, 0, 1 / (2 * sqrt(2 * pi)), lambda x, g: 0.0),
    voigt_partial(1, 1, 1 / (2 * sqrt(pi)), lambda x, g: (x * x - g * g) / (pi * (x * x + g * g) ** 2)),
)
