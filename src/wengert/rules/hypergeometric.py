"""Derivatives of hypergeometric functions in their parameters, by termwise differentiation of the series.

For z < 0 the transformations of Kummer (DLMF 13.2.39) and Pfaff (DLMF 15.8.1) replace an alternating series by one
with terms of one sign.
Where terms still cancel, an error is raised.
"""

from __future__ import annotations

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import elementwise
from wengert.rules.composed import dispatched
from wengert.rules.special import row, sp, unknown

#: maximum number of terms, and maximum ratio of the sum of their absolute values to the sum
_MAX_TERMS, _MAX_CANCELLATION = 20_000, 1e4


def differentiated_series(family, a, b, c, z, towards):
    """Sum the derivatives of the terms along `towards` in (a, b, c), without dividing by a or b, which may be 0."""
    ua, ub, uc = towards
    term, slope = np.ones_like(z), np.zeros_like(z)
    total, size = np.zeros_like(z), np.zeros_like(z)
    for k in range(_MAX_TERMS):
        factor, growth = z / ((c + k) * (k + 1)), 0.0
        if family == 2:
            growth = ua * (b + k) + ub * (a + k)
        elif family == 1:
            growth = ua
        rise = (a + k if family else 1.0) * (b + k if family == 2 else 1.0)
        slope = slope * factor * rise + term * factor * (growth - uc * rise / (c + k))
        term = term * factor * rise
        total, size = total + slope, size + np.abs(slope)
        if k > 3 and not np.any(np.abs(slope) + np.abs(term) > 1e-18 * size):
            break
    else:
        size = np.inf
    if np.any((size > _MAX_CANCELLATION * np.abs(total)) & (total != 0)):
        raise UnsupportedFunctionError(
            f"scipy.special.hyp{family}f1 has no derivative in its parameters at this point: the terms of its series "
            "cancel or converge too slowly. Pass plain values, or wengert.stop_gradient(x) to treat them as constants"
        )
    return total


@dispatched
def parameter_slope(family, position, a, b, c, z):
    """Derivative of 0F1, 1F1 or 2F1 (`family` is the number of upper parameters) in parameter `position` of a, b, c."""
    a, b, c, z = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (a, b, c, z)))
    towards, factor = [np.where(position == i, 1.0, 0.0) for i in range(3)], 1.0
    with np.errstate(all="ignore"):
        if family == 1:  # M(a, c, z) = exp(z) M(c - a, c, -z)
            left = z < 0
            factor = np.where(left, np.exp(z), 1.0)
            a, z = np.where(left, c - a, a), np.abs(z)
            towards[0] = np.where(left, -1.0 if position == 0 else 1.0, towards[0])
        elif family == 2:  # F(a, b; c; z) = (1 - z)^-a F(a, c - b; c; z / (z - 1)), or with a and b exchanged
            left, w = z < 0, z / (z - 1)
            if position == 0:
                factor, a = np.where(left, (1 - z) ** -b, 1.0), np.where(left, c - a, a)
                towards[0] = np.where(left, -1.0, 1.0)
            else:
                factor, b = np.where(left, (1 - z) ** -a, 1.0), np.where(left, c - b, b)
                towards[1] = np.where(left, -1.0 if position == 1 else 1.0, towards[1])
            z = np.where(left, w, z)
        return (factor * differentiated_series(family, a, b, c, z, towards))[()]


def ratio(family, a, b, c):
    """Return a b / c, the factor in dF/dz = a b / c F(a + 1, b + 1; c + 1; z), without parameters that F lacks."""
    return (1.0, a, a * b)[family] / c


def slope_in_argument(y, family, position, a, b, c, z):
    value = (lambda: sp.hyp0f1(c + 1, z), lambda: sp.hyp1f1(a + 1, c + 1, z), lambda: sp.hyp2f1(a + 1, b + 1, c + 1, z))
    growth = (1.0 if family == 1 else b) / c if position == 0 else a / c
    growth = -ratio(family, a, b, c) / c if position == 2 else growth
    return growth * value[family]() + ratio(family, a, b, c) * parameter_slope(family, position, a + 1, b + 1, c + 1, z)


second_derivative = unknown("hyp2f1, hyp1f1 or hyp0f1", "parameters twice")
elementwise(parameter_slope, None, None, second_derivative, second_derivative, second_derivative, slope_in_argument)

row("hyp0f1", lambda y, c, z: parameter_slope(0, 2, 1.0, 1.0, c, z), lambda y, c, z: sp.hyp0f1(c + 1, z) / c)
row(
    "hyp1f1",
    lambda y, a, c, z: parameter_slope(1, 0, a, 1.0, c, z),
    lambda y, a, c, z: parameter_slope(1, 2, a, 1.0, c, z),
    lambda y, a, c, z: a / c * sp.hyp1f1(a + 1, c + 1, z),
)
row(
    "hyp2f1",
    *(lambda y, a, b, c, z, i=i: parameter_slope(2, i, a, b, c, z) for i in range(3)),
    lambda y, a, b, c, z: a * b / c * sp.hyp2f1(a + 1, b + 1, c + 1, z),
)
