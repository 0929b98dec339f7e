"""Elementwise NumPy functions: each row holds the partials dy/d(operand), functions of ``(y, *operands)``.

Partials are accurate to a few ulp over the whole domain: they avoid cancellation, and overflow of intermediates where
the result is representable.
They must also be right when they are differentiated again.
So partials of smooth functions are smooth (no ``abs``, whose derivative at 0 would be taken for zero), and terms that
compensate a rounding error have derivative zero.

Constants are Python floats: a NumPy scalar such as ``np.log(2)`` would promote float32 to float64.
A constant partial is given as a float: the engine then stores no operands for it.
"""

from __future__ import annotations

from math import factorial, log, pi

import numpy as np

from wengert.dependence import Elementwise
from wengert.registry import elementwise, facts, positions, refuse, structural
from wengert.rules import taylor
from wengert.rules.broadcasting import aligned
from wengert.rules.shapes import arctan2_partials, leading, logaddexp_partials, unbroadcast

POSITIVE = (0.1, 4.0)
ANY = (-3.0, 3.0)
INSIDE = (-0.9, 0.9)

# ---- arithmetic

elementwise(np.add, 1.0, 1.0, curvature="none", domain=(ANY, ANY))
elementwise(np.subtract, 1.0, -1.0, curvature="none", domain=(ANY, ANY))
elementwise(np.multiply, lambda y, a, b: b, lambda y, a, b: a, curvature="cross", domain=(ANY, ANY))
elementwise(np.divide, lambda y, a, b: 1 / b, lambda y, a, b: -y / b, curvature="second", domain=(ANY, POSITIVE))
elementwise(np.negative, -1.0, curvature="none", domain=(ANY,))
elementwise(np.positive, 1.0, curvature="none", domain=(ANY,))
elementwise(np.conjugate, 1.0, curvature="none", domain=(ANY,), taylor=taylor.COEFFICIENTWISE)
elementwise(np.reciprocal, lambda y, x: -y * y, domain=(POSITIVE,), taylor=taylor.reciprocal)
elementwise(np.square, lambda y, x: 2 * x, domain=(ANY,), taylor=taylor.square)
facts(np.multiply, taylor=taylor.multiply)
facts(np.divide, taylor=taylor.divide)
facts(np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.conjugate, np.square, continuous=True)

# the quotient is recovered from the remainder: a / b itself may round up to the next integer
elementwise(np.remainder, 1.0, lambda y, a, b: -np.rint((a - y) / b), curvature="none", domain=(ANY, POSITIVE))
elementwise(np.fmod, 1.0, lambda y, a, b: -np.rint((a - y) / b), curvature="none", domain=(ANY, POSITIVE))
elementwise(np.ldexp, lambda y, x, i: np.ldexp(np.ones_like(x), i), None, curvature="none", domain=(ANY, None))

# ---- powers and roots


def is_any(mask):
    """Return whether the mask holds anywhere; True if it is traced: both formulas agree, so no guard is needed."""
    return type(mask) not in (np.ndarray, np.bool_, bool) or np.any(mask)


def power_wrt_base(y, a, b):
    """Return b a^(b-1), and 0 for b = 0 where a^-1 is not finite: a^0 is 1 for every `a`.

    For b < 1/2 the exponent b - 1 is rounded, and a large or small `a` amplifies its last bit to hundreds of ulp:
    the rounding error of the exponent is compensated to first order.
    The branches save passes over the array in common cases such as x**2.
    """
    exponent = b - 1.0
    factor = b
    is_root = (b > 0) & (b < 1)  # a constant exponent decides without a comparison of `a`, also in recordings
    if is_any(is_root) and is_any(is_root & (a == 0)):  # result is infinite: the factor 1 avoids inf - inf
        factor = np.where(is_root & (a == 0), 1.0, b)
    slope = factor * a**exponent
    lost = b - (exponent + 1.0)
    if is_any(lost != 0):
        correction = lost * np.log(a)  # not finite where a <= 0 or a is infinite: no correction there
        slope = slope * np.where(np.isfinite(correction), 1.0 + correction, 1.0)
    if is_any(b == 0):
        slope = np.where((b == 0) & ~np.isfinite(slope), 0.0, slope)
    return slope


def power_wrt_exponent(y, a, b):
    """Return a^b log(a), and 0 where a^b is 0, whatever log(a) is.

    For b <= 1 and a = 0, -sqrt(a^b) replaces it: its value is 0 too, and its derivative in `a` is the correct -inf.
    """
    zero = 0.0
    if is_any((y == 0) & (b <= 1)):
        zero = np.where((y == 0) & (b <= 1), -np.sqrt(np.where(y == 0, y, 0.0)), 0.0)
    return np.where(y == 0, zero, y * np.log(a))


elementwise(np.power, power_wrt_base, power_wrt_exponent, domain=(POSITIVE, ANY), taylor=taylor.power)
# the result is float64 for any operands, so the partials must be too
elementwise(
    np.float_power,
    lambda y, a, b: power_wrt_base(y, a * np.float64(1.0), b),
    lambda y, a, b: power_wrt_exponent(y, a * np.float64(1.0), b),
    domain=(POSITIVE, ANY),
    taylor=taylor.power,
)
# + 0.0: sqrt(-0.0) is -0.0
elementwise(np.sqrt, lambda y, x: 0.5 / (y + 0.0), domain=(POSITIVE,), taylor=taylor.recurrence(taylor.root))
elementwise(np.cbrt, lambda y, x: 1 / (3 * y * y), domain=(POSITIVE,), taylor=taylor.cube_root)


def hypot_partial(y, leg):
    """Return leg / y, and 0 at the origin."""
    return np.where(y == 0, 0.0, leg / y)


elementwise(np.hypot, lambda y, a, b: hypot_partial(y, a), lambda y, a, b: hypot_partial(y, b), domain=(ANY, ANY))
facts(np.hypot, taylor=taylor.hypotenuse)

# ---- exponentials and logarithms

elementwise(np.exp, lambda y, x: y, domain=(ANY,), taylor=taylor.recurrence(taylor.exponential), continuous=True)
elementwise(np.exp2, lambda y, x: y * log(2), domain=(ANY,), taylor=taylor.exponential_base_2)
# y + 1 cancels where y is near -1
elementwise(np.expm1, lambda y, x: np.exp(x), domain=(ANY,), taylor=taylor.exponential_minus_1)
elementwise(np.log, lambda y, x: 1 / x, domain=(POSITIVE,), taylor=taylor.recurrence(taylor.logarithm(1.0)))
elementwise(np.log2, lambda y, x: 1 / log(2) / x, domain=(POSITIVE,), taylor=taylor.logarithm_base_2)
elementwise(np.log10, lambda y, x: 1 / log(10) / x, domain=(POSITIVE,), taylor=taylor.logarithm_base_10)
elementwise(np.log1p, lambda y, x: 1 / (1 + x), domain=((-0.9, 4.0),), taylor=taylor.logarithm_of_1_plus)


def logaddexp_weight(a, b, exp, rate):
    """Return exp(a) / (exp(a) + exp(b)), the weight of `a`.

    Computed from b - a, not from y: exp(a - y) amplifies the rounding error of a large y.
    The rounding error of b - a itself is compensated to first order.
    Two equal infinities get weight 1/2 each; their difference would be NaN.
    The larger exponential is divided out: the derivative of 1 / (1 + exp(gap)) would underflow.
    """
    found = logaddexp_partials(a, b, rate)
    if found is not None:
        return found
    gap = np.where(np.isinf(a) & (a == b), 0.0, b - a)
    taken = gap - b
    lost = (b - (gap - taken)) - (a + taken)
    lost = np.where(np.isfinite(lost), lost, 0.0)
    is_less = gap > 0
    ratio = exp(np.where(is_less, -gap, gap)) * (1 + rate * np.where(is_less, -lost, lost))
    return np.where(is_less, ratio, 1.0) / (1 + ratio)


def logaddexp_weights(exp, rate):
    """Return the partials of ``logaddexp``, or of ``logaddexp2``."""
    return (lambda y, a, b: logaddexp_weight(a, b, exp, rate)), (lambda y, a, b: logaddexp_weight(b, a, exp, rate))


elementwise(np.logaddexp, *logaddexp_weights(np.exp, 1.0), domain=(ANY, ANY), scalars="logaddexp", continuous=True)
elementwise(np.logaddexp2, *logaddexp_weights(np.exp2, log(2)), domain=(ANY, ANY))

# ---- trigonometric functions

elementwise(np.sin, lambda y, x: np.cos(x), domain=(ANY,), taylor=taylor.sine, continuous=True)
elementwise(np.cos, lambda y, x: -np.sin(x), domain=(ANY,), taylor=taylor.cosine, continuous=True)
elementwise(np.tan, lambda y, x: 1 + y * y, domain=((-1.5, 1.5),), taylor=taylor.tan)
# 1 - x*x cancels
elementwise(np.arcsin, lambda y, x: 1 / np.sqrt((1 - x) * (1 + x)), domain=(INSIDE,), taylor=taylor.inverse_sine)
elementwise(np.arccos, lambda y, x: -1 / np.sqrt((1 - x) * (1 + x)), domain=(INSIDE,), taylor=taylor.inverse_cosine)
elementwise(np.arctan, lambda y, x: 1 / (1 + x * x), domain=(ANY,), taylor=taylor.arctangent)


def arctan2_partial(y, a, b, side):
    """Return b / (a^2 + b^2), or -a / (a^2 + b^2), without overflow; 0 at the origin and where a or b is infinite."""
    found = arctan2_partials(a, b, side)
    if found is not None:
        return found
    radius, other = np.hypot(a, b), -a if side else b
    return np.where((radius == 0) | np.isinf(radius), 0.0 * y, other / radius / radius)


partials = [lambda y, a, b, side=side: arctan2_partial(y, a, b, side) for side in (0, 1)]
elementwise(np.arctan2, *partials, domain=(ANY, ANY), taylor=taylor.angle)
for fun, slope in {np.deg2rad: pi / 180, np.radians: pi / 180, np.rad2deg: 180 / pi, np.degrees: 180 / pi}.items():
    elementwise(fun, slope, curvature="none", domain=(ANY,))

#: d/dz sin(z)/z = -z (c0 + c1 z^2 + c2 z^4 + ...), used for small z
SINC_SERIES = [(-1) ** k * (2 * k + 2) / factorial(2 * k + 3) for k in range(12)]


def sinc_partial(y, x, size=np.square):
    """Return (cos(pi x) - y) / x; near 0, where that cancels, its Taylor series."""
    z = pi * x
    series = np.zeros_like(z)
    for coefficient in reversed(SINC_SERIES):
        series = series * (z * z) + coefficient
    is_small = np.less(size(z), 2.0)
    return np.where(is_small, -pi * z * series, (np.cos(z) - y) / x)


elementwise(np.sinc, sinc_partial, domain=(ANY,), taylor=taylor.sinc, continuous=True, native="sinc")


def i0_partial(y, x):
    from scipy.special import i1

    return i1(x)


elementwise(np.i0, i0_partial, domain=(ANY,))

# ---- hyperbolic functions

elementwise(np.sinh, lambda y, x: np.cosh(x), domain=(ANY,), taylor=taylor.hyperbolic_sine)
elementwise(np.cosh, lambda y, x: np.sinh(x), domain=(ANY,), taylor=taylor.hyperbolic_cosine)
# 1 - y*y cancels (10^6 ulp at x = 8); 1 / cosh^2 by two exponentials, which vectorise
elementwise(
    np.tanh, lambda y, x: np.square(2 / (np.exp(x) + np.exp(-x))), domain=(ANY,), taylor=taylor.hyperbolic_tangent
)
elementwise(np.arcsinh, lambda y, x: 1 / np.hypot(x, 1.0), domain=(ANY,), taylor=taylor.inverse_sinh)  # x*x overflows
elementwise(np.arccosh, lambda y, x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)), domain=((1.1, 4.0),))
facts(np.arccosh, taylor=taylor.inverse_cosh)
elementwise(np.arctanh, lambda y, x: 1 / ((1 - x) * (1 + x)), domain=(INSIDE,), taylor=taylor.inverse_tanh)

# ---- piecewise functions with kinks

elementwise(np.absolute, lambda y, x: np.sign(x), curvature="none", domain=(ANY,), continuous=True)
elementwise(np.fabs, lambda y, x: np.sign(x), curvature="none", domain=(ANY,))
elementwise(np.copysign, lambda y, a, b: np.sign(a) * np.copysign(1.0, b), 0.0, curvature="none", domain=(ANY, ANY))
facts(np.copysign, watch="second sign")
elementwise(np.heaviside, 0.0, lambda y, x, half: np.equal(x, 0), curvature="none", domain=(ANY, ANY))


def gap_of(a, b):
    """Return a - b, and 0 for two equal infinities."""
    return np.where(a == b, 0.0, a - b)


def gap_over_nan(gap, a, b):
    """Return `gap`, but 1 or -1 where exactly one operand is NaN, in favour of the other."""
    gap = np.where(np.isnan(a) > np.isnan(b), -1.0, gap)
    return np.where(np.isnan(b) > np.isnan(a), 1.0, gap)


def takes_greater(a, b):
    """Return masks of where each of two operands is the larger one; both hold in a tie, and where either is NaN."""
    with np.errstate(invalid="ignore"):
        return ~np.less(a, b), ~np.greater(a, b)


def takes_less(a, b):
    """Return masks of where each of two operands is the smaller one; both hold in a tie, and where either is NaN."""
    return takes_greater(b, a)


def takes_where(mask):
    mask = np.asarray(mask, dtype=bool)
    return mask, ~mask


def tie_share(gap):
    """Return 1 for gap > 0, 1/2 in a tie, 0 for gap < 0, NaN for NaN; ``heaviside`` keeps the dtype."""
    return np.heaviside(gap, 0.5)


def tie_shares(gap):
    """Return the partials of a choice; `gap` is positive where the first operand is chosen, and 0 in a tie."""
    return (lambda y, a, b: tie_share(gap(a, b))), (lambda y, a, b: tie_share(gap(b, a)))


for fun, gap, selects in (
    (np.maximum, gap_of, takes_greater),
    (np.minimum, lambda a, b: gap_of(b, a), takes_less),
    (np.fmax, lambda a, b: gap_over_nan(gap_of(a, b), a, b), takes_greater),
    (np.fmin, lambda a, b: gap_over_nan(gap_of(b, a), a, b), takes_less),
):
    elementwise(fun, *tie_shares(gap), curvature="none", domain=(ANY, ANY), selects=selects)

elementwise(
    np.where,
    None,
    lambda y, c, a, b: np.not_equal(c, 0),
    lambda y, c, a, b: np.equal(c, 0),
    curvature="none",
    domain=(None, ANY, ANY),
    choices=frozenset((0,)),
    fits=lambda *args: len(args) == 3,  # with one argument it is np.nonzero
)
facts(np.where, condition=0, selects=takes_where, batching=True, native="where", lowering="select")


def clip_bounds(a_min, a_max, low, high):
    """Return both bounds of ``numpy.clip``, given as a_min and a_max or as min and max; None means unbounded."""
    low = a_min if low is np._NoValue else low
    high = a_max if high is np._NoValue else high
    return (-np.inf if low is None else low), (np.inf if high is None else high)


def clip_rules(which):
    """Pullback and tangent of ``clip`` in operand `which`: 0 value, 1 lower bound, 2 upper bound."""

    def kept(z, a, low, high):
        """Return `z` where the operand is the result, else 0; of crossed bounds the upper one wins, as in NumPy."""
        if which == 0:  # a value equal to a bound is not clipped
            return np.where((a < low) | (a > high), 0, z)
        if which == 1:
            return np.where((a < low) & np.less_equal(low, high), z, 0)
        return np.where((a > high) | np.greater(low, high), z, 0)

    def pull(
        ybar, y, a, a_min=None, a_max=None, out=None, *, min=np._NoValue, max=np._NoValue, casting="same_kind",
        order="K",
    ):  # fmt: skip
        operands = (a, *clip_bounds(a_min, a_max, min, max))
        return unbroadcast(kept(ybar, *operands), operands[which], leading(ybar, y))

    def push(
        t, y, a, a_min=None, a_max=None, out=None, *, min=np._NoValue, max=np._NoValue, casting="same_kind", order="K"
    ):
        operands = (a, *clip_bounds(a_min, a_max, min, max))
        return kept(aligned(t, operands[which], np.ndim(y)), *operands)

    return pull, push


pulls, pushes = zip(*map(clip_rules, range(3)))
structural(np.clip, *pulls, jvp=pushes, curvature="none", dependence=Elementwise(), batching=True, scalars="clip")
positions[np.clip] = {"min": 1, "max": 2}

refuse(np.nextafter, "it returns the adjacent floating-point number; write x + np.spacing(x)")
