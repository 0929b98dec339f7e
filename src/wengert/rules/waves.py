"""Solutions of second-order differential equations that SciPy returns with their first derivatives.

The derivative of the function is the second result, and that of the second result follows from the equation.
"""

from __future__ import annotations

from math import factorial, pi, sqrt

import numpy as np

from wengert.features import modfresnelp_sign
from wengert.registry import analytic
from wengert.rules import transcendental
from wengert.rules.integrals import faddeeva
from wengert.rules.special import between, exprel_slope, row, series, sp
from wengert.rules.transcendental import is_far, ive_partial, kve_partial, ratio_at_0, rows_of_results, scaled_slope


def result_of(name, j):
    """Return a function that computes result j of `name`; each call looks `name` up, since rows refer to each other."""
    return lambda *operands: getattr(transcendental, f"{name}_{j}")(*operands)


def pair(name, known, equation, unit=1.0):
    """Declare a function and its derivative in the last operand, which is in units of `unit`.

    `known` holds the partials in the preceding operands, or names of those without one.
    ``equation(f, slope, *operands)`` returns the second derivative.
    """
    f, slope = result_of(name, 0), result_of(name, 1)
    rows_of_results(
        name,
        (*known, lambda y, *operands: unit * slope(*operands)),
        (*known, lambda y, *operands: unit * equation(f(*operands), y, *operands)),
    )


# ---- Mathieu functions (DLMF 28.2.1, 28.20.1); derivatives in q are refused

DEGREES = pi / 180
for name, value in (("cem", "mathieu_a"), ("sem", "mathieu_b")):
    pair(
        f"mathieu_{name}",
        (None, "parameter"),
        lambda f, slope, m, q, x, value=value: (2 * q * np.cos(2 * DEGREES * x) - getattr(sp, value)(m, q)) * f,
        DEGREES,
    )
for name, value in (("modcem", "mathieu_a"), ("modsem", "mathieu_b")):
    for kind in (1, 2):
        pair(
            f"mathieu_{name}{kind}",
            (None, "parameter"),
            lambda f, slope, m, q, x, value=value: (getattr(sp, value)(m, q) - 2 * q * np.cosh(2 * x)) * f,
        )

# ---- spheroidal wave functions (DLMF 30.2.1): angular and prolate radial ones satisfy the same equation


def prolate(f, slope, m, c, cv, x):
    return (2 * x * slope - (cv - (c * x) ** 2 - m * m / (1 - x * x)) * f) / (1 - x * x)


def oblate_angular(f, slope, m, c, cv, x):
    return (2 * x * slope - (cv + (c * x) ** 2 - m * m / (1 - x * x)) * f) / (1 - x * x)


def oblate_radial(f, slope, m, c, cv, x):
    return ((cv - (c * x) ** 2 - m * m / (1 + x * x)) * f - 2 * x * slope) / (1 + x * x)


for kind, equations in (
    ("pro", {"ang1": prolate, "rad1": prolate, "rad2": prolate}),
    ("obl", {"ang1": oblate_angular, "rad1": oblate_radial, "rad2": oblate_radial}),
):
    for form, equation in equations.items():
        pair(
            f"{kind}_{form}",
            (None, None, "spheroidal parameter"),
            lambda f, slope, m, n, c, x, equation=equation, kind=kind: equation(
                f, slope, m, c, getattr(sp, f"{kind}_cv")(m, n, c), x
            ),
        )
        pair(
            f"{kind}_{form}_cv",
            (None, None, "spheroidal parameter", "characteristic value"),
            lambda f, slope, m, n, c, cv, x, equation=equation: equation(f, slope, m, c, cv, x),
        )

# ---- Kelvin, Hankel and modified Fresnel functions, with complex results

rows_of_results(
    "kelvin",
    (lambda y, x: result_of("kelvin", 2)(x),),
    (lambda y, x: result_of("kelvin", 3)(x),),
    (lambda y, x: 1j * result_of("kelvin", 0)(x) - ratio_at_0(y, x, 0.5j),),
    (lambda y, x: 1j * result_of("kelvin", 1)(x) - y / x,),
)
SIDE = {"p": (1 + 1j) / sqrt(2), "m": (1 - 1j) / sqrt(2)}
for name, sign in (("p", modfresnelp_sign()), ("m", "m")):
    rows_of_results(
        f"modfresnel{name}",
        (lambda y, x, sign=sign: -np.exp((1j if sign == "p" else -1j) * x * x),),
        (lambda y, x, sign=sign: fresnel_slope(x, sign),),
    )


def fresnel_slope(x, sign):
    """Half the derivative of ``wofz`` along the diagonal; for "m" its conjugate, as w(-conj(z)) = conj(w(z))."""
    w = faddeeva(1, SIDE["p"] * x)
    return SIDE[sign] / 2 * (w if sign == "p" else np.conj(w))


def hankel_slope(name):
    """Partial of a complex-valued Hankel function; its order, promoted to complex, is real."""
    return lambda y, v, z: between(name, 1, -1)(y, np.real(v), z)


for name in ("hankel1", "hankel2"):
    row(name, "order", hankel_slope(name))


def scaled_hankel_slope(name, turn):
    """Partial of exp(-turn z) times a Hankel function; far out, where that cancels, by Hankel's expansion."""

    def partial(y, v, z):
        v = np.real(v)
        far = is_far(v, z)
        size = np.where(far, z, 40.0)
        wave = 2 * np.exp(-turn * pi / 2 * (v + 0.5)) * scaled_slope(v, size, -turn)
        return np.where(far, wave, between(name, 1, -1)(y, v, z) - turn * y)

    return partial


row("hankel1e", "order", scaled_hankel_slope("hankel1e", 1j))
row("hankel2e", "order", scaled_hankel_slope("hankel2e", -1j))
analytic(*(f"scipy.special.{name}" for name in ("hankel1", "hankel1e", "hankel2", "hankel2e")))
for name, j in (*(("kelvin", j) for j in range(4)), *((f"modfresnel{sign}", j) for sign in "pm" for j in range(2))):
    analytic(getattr(transcendental, f"{name}_{j}"))

# ---- integrals of Airy and Bessel functions

airy = [result_of("airy", j) for j in range(4)]
rows_of_results(
    "itairy",
    (lambda y, x: airy[0](x),),
    (lambda y, x: airy[2](x),),
    (lambda y, x: airy[0](-x),),
    (lambda y, x: airy[2](-x),),
)

_BESSEL = [1 / factorial(k) ** 2 for k in range(1, 12)]


def bessel_rise(x, sign, bessel):
    """Return (1 - J0(x)) / x for `sign` -1, (I0(x) - 1) / x for 1; by series where the function is near 1."""
    small = np.less(np.abs(x), 2.0)
    inner, outer = np.where(small, x, 0.0), np.where(small, 1.0, x)
    return np.where(small, inner / 4 * series(sign * inner * inner / 4, _BESSEL), sign * (bessel(outer) - 1) / outer)


rows_of_results("it2i0k0", (lambda y, x: bessel_rise(x, 1, sp.i0),), (lambda y, x: -sp.k0(x) / x,))
rows_of_results("it2j0y0", (lambda y, x: bessel_rise(x, -1, sp.j0),), (lambda y, x: -sp.y0(x) / x,))
row("besselpoly", lambda y, a, lmb, nu: nu / a * y - 2 * sp.besselpoly(a, lmb + 1, nu + 1), "power", "order")

# ---- scaled Airy functions: for x > 1 by Bessel functions of order 1/3 and 2/3, whose derivatives do not cancel


def airye_partial(j):
    order, power = (1 / 3, 0.5) if j % 2 == 0 else (2 / 3, 1.0)

    def bessel_slope(z):
        if j < 2:
            return kve_partial(sp.kve(order, z), order, z) * (1 if j == 0 else -1) / (sqrt(3) * pi)
        return sum(ive_partial(sp.ive(v, z), v, z) for v in (order, -order)) / sqrt(3)

    def partial(y, x):
        far = np.greater(x, 1.0)
        big, low = np.where(far, x, 1.0), np.where(far, 1.0, x)
        root = np.sqrt(big)
        wide = power / big * y + np.power(big, power + 0.5) * bessel_slope(2 / 3 * big * root)
        value, slope = airye[j - j % 2](low), airye[j - j % 2 + 1](low)
        grown = np.sqrt(np.maximum(low, 0.0)) * (1 if j < 2 else -1)
        near = slope + grown * value if j % 2 == 0 else low * value + grown * slope
        return np.where(far, wide, near)

    return partial


airye = [result_of("airye", j) for j in range(4)]
rows_of_results("airye", *((airye_partial(j),) for j in range(4)))

# ---- others


def lpmv_partial(y, m, v, x):
    """Half the difference of the functions of orders m - 1 and m + 1 (scaled), divided by sqrt(1 - x^2)."""
    below = np.where(np.equal(m, 0), 0.0, (v + m) * (v - m + 1) * sp.lpmv(np.maximum(m - 1, 0), v, x))
    above = sp.lpmv(m + 1, v, x) * np.where(np.equal(m, 0), 2.0, 1.0)
    return (below - above) / 2 / np.sqrt(1 - x * x)


row("lpmv", None, "degree", lpmv_partial)


def quantile_slopes(p, lmb):
    """Derivatives of (p^l - (1 - p)^l) / l in p and in l."""
    low, high = np.log(p), np.log1p(-p)
    by_p = np.power(p, lmb - 1) + np.power(1 - p, lmb - 1)
    return by_p, low * low * exprel_slope(lmb * low) - high * high * exprel_slope(lmb * high)


def zero_outside_support(p, slope):
    """Return `slope(p)`, and 0 outside the support, where the probability is 0 or 1."""
    within = np.greater(p, 0) & np.less(p, 1)
    return np.where(within, slope(np.where(within, p, 0.5)), 0.0)


row(
    "tklmbda",
    lambda y, x, lmb: zero_outside_support(y, lambda p: 1 / quantile_slopes(p, lmb)[0]),
    lambda y, x, lmb: zero_outside_support(y, lambda p: -quantile_slopes(p, lmb)[1] / quantile_slopes(p, lmb)[0]),
)
row("smirnov", None, lambda y, n, d: sp._ufuncs._smirnovp(n, d))
row("smirnovi", None, lambda y, n, p: 1 / sp._ufuncs._smirnovp(n, y))
row("_ufuncs._smirnovp", None, "argument, as a second derivative of smirnov")
