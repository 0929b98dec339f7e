"""Every rule of the registry, called as users call it: one table for rules and engines.

Two tables.
`ELEMENTWISE` has functions of one or two real operands, their closed-form derivatives in mpmath, and points that
cover the domain up to its ends.
`CALLS` has calls of functions that depend on shapes: operands are drawn, other arguments are fixed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import mpmath as mp
import numpy as np

from wengert.rules.factors import cholesky_adjoint, packed_qr
from wengert.rules.histograms import weighted_counts
from wengert.rules.linalg import packed_slogdet, solution
from wengert.rules.shaping import quantile_places
from wengert.rules.special_python import log_shares, log_sum, shares
from wengert.rules.spectra import (
    hermitian_pseudo_inverse,
    packed_eig,
    packed_eigh,
    packed_lstsq,
    packed_svd,
    pseudo_inverse,
)
from wengert.rules.ufuncs import hypot_reduce, logaddexp2_reduce, logaddexp_reduce, scatter_add, sums_of_segments

inf, nan = np.inf, np.nan


def resolve(fun):
    """Return a function given itself or its dotted name."""
    if not isinstance(fun, str):
        return fun
    import importlib

    module, _, name = fun.rpartition(".")
    return getattr(importlib.import_module(module), name)


# ---------------------------------------------------------------------------- elementwise functions


def points(low, high, *special, n=40, seed=1):
    """Draw points between the bounds (log-uniformly if they span decades), and append special ones."""
    rng = np.random.default_rng(seed)
    if low > 0 and high / low > 1e3:
        x = np.exp(rng.uniform(np.log(low), np.log(high), n))
    else:
        x = rng.uniform(low, high, n)
    return np.append(x, special)


def both_signs(low, high, *special, n=40, seed=2):
    x = points(low, high, n=n, seed=seed)
    x[::2] *= -1
    return np.append(x, special)


@dataclass(frozen=True)
class Elementwise:
    """A function, its mpmath version with partials, and points to compare at.

    `ulp` is the tolerance of a partial; values above 8 are exceptions that `reason` explains.
    `smooth_at` are points for second and third derivatives.
    """

    fun: Any
    f: Callable
    partials: tuple
    at: tuple
    smooth_at: tuple = ((0.3,), (1.7,))
    ulp: float = 8
    reason: str = ""

    @property
    def name(self):
        return self.fun.rpartition(".")[2] if isinstance(self.fun, str) else self.fun.__name__


def special(name):
    return f"scipy.special.{name}"


def mp_sinc(x):
    return mp.sinc(mp.pi * x)


def mp_sinc_partial(x):
    return (mp.cos(mp.pi * x) - mp.sinc(mp.pi * x)) / x if x else mp.mpf(0)


def leads(a, b):
    """Return 1 if a is greater, 1/2 for a tie, else 0."""
    return (mp.sign(a - b) + 1) / 2


WIDE = both_signs(1e-300, 1e300, 1.0, -1.0)
ARGUMENTS = both_signs(1e-8, 700.0, 0.0, 1.0, -1.0, 300.0, -300.0)
ANGLES = both_signs(1e-8, 1e6, 0.0)
POSITIVE = points(1e-300, 1e300, 1.0, 0.5, 2.0)
INSIDE = np.concatenate([both_signs(1e-12, 1.0), [0.0, 1 - 1e-10, 1e-10 - 1, 1 - 2.0**-53]])
PAIRS = ((0.3, 0.7), (1.7, 0.4))

SECOND = both_signs(1e-150, 1e150, 1.0, 1e-3, seed=3)
FIRST = both_signs(1e-150, 1e150, 1.0, -1e3, seed=4)

ELEMENTWISE = [
    # arithmetic
    Elementwise(np.add, lambda a, b: a + b, (lambda a, b: 1, lambda a, b: 1), (FIRST, SECOND), PAIRS),
    Elementwise(np.subtract, lambda a, b: a - b, (lambda a, b: 1, lambda a, b: -1), (FIRST, SECOND), PAIRS),
    Elementwise(np.multiply, lambda a, b: a * b, (lambda a, b: b, lambda a, b: a), (FIRST, SECOND), PAIRS),
    Elementwise(
        np.divide, lambda a, b: a / b, (lambda a, b: 1 / b, lambda a, b: -a / b**2), (FIRST, SECOND), PAIRS
    ),
    Elementwise(np.negative, lambda x: -x, (lambda x: -1,), (WIDE,)),
    Elementwise(np.positive, lambda x: x, (lambda x: 1,), (WIDE,)),
    Elementwise(np.conjugate, lambda x: x, (lambda x: 1,), (WIDE,)),
    Elementwise(np.reciprocal, lambda x: 1 / x, (lambda x: -1 / x**2,), (both_signs(1e-150, 1e150),)),
    Elementwise(
        np.square, lambda x: x * x, (lambda x: 2 * x,), (both_signs(1e-150, 1e150, 0.0),), ((0.0,), (0.3,))
    ),
    Elementwise(
        np.remainder,
        lambda a, b: a - b * mp.floor(a / b),
        (lambda a, b: 1, lambda a, b: -mp.floor(a / b)),
        (both_signs(1e-3, 1e3), both_signs(1e-2, 1e2, seed=5)),
        ((0.3, 0.7), (-1.7, 0.4)),
    ),
    Elementwise(
        np.fmod,
        lambda a, b: a - b * (mp.floor(a / b) if a / b > 0 else mp.ceil(a / b)),
        (lambda a, b: 1, lambda a, b: -(mp.floor(a / b) if a / b > 0 else mp.ceil(a / b))),
        (both_signs(1e-3, 1e3), both_signs(1e-2, 1e2, seed=5)),
        ((0.3, 0.7), (-1.7, 0.4)),
    ),
    # powers and roots
    Elementwise(
        np.power,
        lambda a, b: a**b,
        (lambda a, b: b * a ** (b - 1), lambda a, b: a**b * mp.log(a)),
        (points(1e-100, 1e300, 1e300, 1e-100, 2.0, 3.0), both_signs(1e-3, 3.0, 0.1, -1.9, 2.0, -1.0)),
        PAIRS,
    ),
    Elementwise(
        np.float_power,
        lambda a, b: a**b,
        (lambda a, b: b * a ** (b - 1), lambda a, b: a**b * mp.log(a)),
        (points(1e-2, 1e2), both_signs(1e-3, 30.0)),
        PAIRS,
    ),
    Elementwise(np.sqrt, mp.sqrt, (lambda x: 1 / (2 * mp.sqrt(x)),), (POSITIVE,)),
    Elementwise(
        np.cbrt,
        lambda x: mp.sign(x) * mp.cbrt(abs(x)),
        (lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2),),
        (WIDE,),
    ),
    Elementwise(
        np.hypot,
        mp.hypot,
        (lambda a, b: a / mp.hypot(a, b), lambda a, b: b / mp.hypot(a, b)),
        (both_signs(1e-300, 1e300), both_signs(1e-300, 1e300, seed=6)),
        PAIRS,
    ),
    # exponentials and logarithms
    Elementwise(np.exp, mp.exp, (mp.exp,), (ARGUMENTS,), ((0.0,), (0.3,))),
    Elementwise(np.exp2, lambda x: 2**x, (lambda x: 2**x * mp.log(2),), (ARGUMENTS,), ((0.0,), (0.3,))),
    Elementwise(np.expm1, mp.expm1, (mp.exp,), (ARGUMENTS,), ((0.0,), (0.3,))),
    Elementwise(np.log, mp.log, (lambda x: 1 / x,), (POSITIVE,)),
    Elementwise(np.log2, lambda x: mp.log(x, 2), (lambda x: 1 / (x * mp.log(2)),), (POSITIVE,)),
    Elementwise(np.log10, mp.log10, (lambda x: 1 / (x * mp.log(10)),), (POSITIVE,)),
    Elementwise(
        np.log1p,
        mp.log1p,
        (lambda x: 1 / (1 + x),),
        (np.append(points(1e-20, 1e300), [0.0, -0.5, 1e-10 - 1]),),
        ((0.0,), (0.3,)),
    ),
    Elementwise(
        np.logaddexp,
        lambda a, b: mp.log(mp.exp(a) + mp.exp(b)),
        (lambda a, b: 1 / (1 + mp.exp(b - a)), lambda a, b: 1 / (1 + mp.exp(a - b))),
        (both_signs(1e-3, 700, 1e10, 0.1), both_signs(1e-3, 700, 1e10, 650.3, seed=7)),
        (*PAIRS, (0.5, 0.5)),
    ),
    Elementwise(
        np.logaddexp2,
        lambda a, b: mp.log(mp.mpf(2) ** a + mp.mpf(2) ** b, 2),
        (lambda a, b: 1 / (1 + mp.mpf(2) ** (b - a)), lambda a, b: 1 / (1 + mp.mpf(2) ** (a - b))),
        (both_signs(1e-3, 700, 1e10, 0.1), both_signs(1e-3, 700, 1e10, 650.3, seed=7)),
        (*PAIRS, (0.5, 0.5)),
    ),
    # angles
    Elementwise(np.sin, mp.sin, (mp.cos,), (ANGLES,), ((0.0,), (0.3,))),
    Elementwise(np.cos, mp.cos, (lambda x: -mp.sin(x),), (ANGLES,), ((0.0,), (0.3,))),
    Elementwise(np.tan, mp.tan, (lambda x: 1 / mp.cos(x) ** 2,), (ANGLES,), ((0.0,), (0.3,))),
    Elementwise(np.arcsin, mp.asin, (lambda x: 1 / mp.sqrt(1 - x * x),), (INSIDE,), ((0.0,), (0.3,))),
    Elementwise(np.arccos, mp.acos, (lambda x: -1 / mp.sqrt(1 - x * x),), (INSIDE,), ((0.0,), (0.3,))),
    Elementwise(np.arctan, mp.atan, (lambda x: 1 / (1 + x * x),), (WIDE,), ((0.0,), (0.3,))),
    Elementwise(
        np.arctan2,
        mp.atan2,
        (lambda a, b: b / (a * a + b * b), lambda a, b: -a / (a * a + b * b)),
        (both_signs(1e-300, 1e300), both_signs(1e-300, 1e300, seed=6)),
        PAIRS,
    ),
    Elementwise(np.deg2rad, mp.radians, (lambda x: mp.pi / 180,), (ANGLES,)),
    Elementwise(np.radians, mp.radians, (lambda x: mp.pi / 180,), (ANGLES,)),
    Elementwise(np.rad2deg, mp.degrees, (lambda x: 180 / mp.pi,), (ANGLES,)),
    Elementwise(np.degrees, mp.degrees, (lambda x: 180 / mp.pi,), (ANGLES,)),
    Elementwise(
        np.sinc,
        mp_sinc,
        (mp_sinc_partial,),
        (np.append(both_signs(1e-8, 1.2), [0.0, 0.45, 0.4502]),),
        ((0.0,), (0.3,), (1.7,)),
        ulp=16,
        reason="cos(pi x) and sinc(x), each right to an ulp, cancel by a factor of 2 and more",
    ),
    Elementwise(np.i0, lambda x: mp.besseli(0, x), (lambda x: mp.besseli(1, x),), (both_signs(1e-3, 50),)),
    # hyperbolic functions
    Elementwise(np.sinh, mp.sinh, (mp.cosh,), (ARGUMENTS,), ((0.0,), (0.3,))),
    Elementwise(np.cosh, mp.cosh, (mp.sinh,), (ARGUMENTS,), ((0.0,), (0.3,))),
    Elementwise(np.tanh, mp.tanh, (lambda x: 1 / mp.cosh(x) ** 2,), (ARGUMENTS,), ((0.0,), (0.3,), (-8.0,))),
    Elementwise(np.arcsinh, mp.asinh, (lambda x: 1 / mp.sqrt(1 + x * x),), (WIDE,), ((0.0,), (0.3,))),
    Elementwise(
        np.arccosh,
        mp.acosh,
        (lambda x: 1 / mp.sqrt(x * x - 1),),
        (points(1.0, 1e300, 1 + 1e-10, 1.5),),
        ((1.3,), (2.7,)),
    ),
    Elementwise(np.arctanh, mp.atanh, (lambda x: 1 / (1 - x * x),), (INSIDE,), ((0.0,), (0.3,))),
    # piecewise functions
    Elementwise(np.absolute, abs, (mp.sign,), (WIDE,)),
    Elementwise(np.fabs, abs, (mp.sign,), (WIDE,)),
    Elementwise(
        np.copysign,
        lambda a, b: abs(a) * mp.sign(b),
        (lambda a, b: mp.sign(a) * mp.sign(b), lambda a, b: 0),
        (FIRST, SECOND),
        PAIRS,
    ),
    Elementwise(
        np.heaviside,
        lambda x, half: (mp.sign(x) + 1) / 2 if x else half,
        (lambda x, half: 0, lambda x, half: x == 0),
        (FIRST, SECOND),
        PAIRS,
    ),
    Elementwise(
        np.maximum, max, (lambda a, b: leads(a, b), lambda a, b: leads(b, a)), (FIRST, SECOND), PAIRS
    ),
    Elementwise(
        np.minimum, min, (lambda a, b: leads(b, a), lambda a, b: leads(a, b)), (FIRST, SECOND), PAIRS
    ),
    Elementwise(np.fmax, max, (lambda a, b: leads(a, b), lambda a, b: leads(b, a)), (FIRST, SECOND), PAIRS),
    Elementwise(np.fmin, min, (lambda a, b: leads(b, a), lambda a, b: leads(a, b)), (FIRST, SECOND), PAIRS),
    # scipy.special: functions shared with NumPy
    Elementwise(special("cbrt"), mp.cbrt, (lambda x: 1 / (3 * mp.cbrt(x) ** 2),), (POSITIVE,)),
    Elementwise(special("exp2"), lambda x: 2**x, (lambda x: 2**x * mp.log(2),), (ARGUMENTS,)),
    Elementwise(
        special("exp10"),
        lambda x: mp.mpf(10) ** x,
        (lambda x: mp.mpf(10) ** x * mp.log(10),),
        (ARGUMENTS / 3,),
    ),
    Elementwise(special("expm1"), mp.expm1, (mp.exp,), (ARGUMENTS,), ((0.0,), (0.3,))),
    Elementwise(special("log1p"), mp.log1p, (lambda x: 1 / (1 + x),), (points(1e-20, 1e300, 0.0, -0.5),)),
    Elementwise(special("cosm1"), lambda x: mp.cos(x) - 1, (lambda x: -mp.sin(x),), (ANGLES,)),
    # error functions and the normal distribution
    Elementwise(
        special("erf"),
        mp.erf,
        (lambda x: 2 / mp.sqrt(mp.pi) * mp.exp(-x * x),),
        (both_signs(1e-8, 26.5, 0.0, 1e3, -1e308, 25.1234),),
        ((0.0,), (0.3,), (4.7,)),
    ),
    Elementwise(
        special("erfc"),
        mp.erfc,
        (lambda x: -2 / mp.sqrt(mp.pi) * mp.exp(-x * x),),
        (both_signs(1e-8, 26.5, 0.0, 1e3, -1e308),),
        ((0.0,), (0.3,)),
    ),
    Elementwise(
        special("ndtr"),
        mp.ncdf,
        (lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi),),
        (both_signs(1e-8, 37.5, 0.0, 1e3),),
        ((0.0,), (0.3,)),
    ),
    Elementwise(
        special("log_ndtr"),
        lambda x: mp.log(mp.ncdf(x)),
        (lambda x: mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi) / mp.ncdf(x),),
        (both_signs(1e-8, 37.0, 0.0, -5.0, -5.001, -1e3),),
        ((0.0,), (0.3,), (-6.5,)),
        ulp=32,
        reason="SciPy's ndtr is right to 16 ulp or so at -5",
    ),
    Elementwise(
        special("erfinv"),
        mp.erfinv,
        (lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(x) ** 2),),
        (both_signs(1e-8, 0.95, 0.0),),
        ((0.1,), (0.3,)),
        ulp=24,
        reason="an ulp of y is worth 2 y^2 ulp of exp(y^2)",
    ),
    Elementwise(
        special("erfcinv"),
        lambda x: mp.erfinv(1 - x),
        (lambda x: -mp.sqrt(mp.pi) / 2 * mp.exp(mp.erfinv(1 - x) ** 2),),
        (points(0.05, 1.95),),
        ((0.1,), (0.3,)),
        ulp=24,
        reason="an ulp of y is worth 2 y^2 ulp of exp(y^2)",
    ),
    Elementwise(
        special("ndtri"),
        lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1),
        (lambda p: mp.sqrt(2 * mp.pi) * mp.exp(mp.erfinv(2 * p - 1) ** 2),),
        (points(0.01, 0.99),),
        ((0.1,), (0.3,)),
        ulp=32,
        reason="an ulp of y is worth y^2 ulp of exp(y^2 / 2)",
    ),
    # the logistic function
    Elementwise(
        special("expit"),
        lambda x: 1 / (1 + mp.exp(-x)),
        (lambda x: 1 / (2 + mp.exp(x) + mp.exp(-x)),),
        (ARGUMENTS,),
        ((0.0,), (0.3,)),
    ),
    Elementwise(
        special("logit"),
        lambda x: mp.log(x / (1 - x)),
        (lambda x: 1 / (x * (1 - x)),),
        (points(1e-300, 1.0, 0.5, 1 - 1e-10),),
        ((0.3,), (0.7,)),
    ),
    Elementwise(
        special("log_expit"),
        lambda x: -mp.log(1 + mp.exp(-x)),
        (lambda x: 1 / (1 + mp.exp(x)),),
        (ARGUMENTS,),
        ((0.0,), (0.3,)),
    ),
    # entropies
    Elementwise(
        special("xlogy"),
        lambda a, b: a * mp.log(b),
        (lambda a, b: mp.log(b), lambda a, b: a / b),
        (FIRST, points(1e-150, 1e150, 1.0, 1.0)),
        PAIRS,
    ),
    Elementwise(
        special("xlog1py"),
        lambda a, b: a * mp.log1p(b),
        (lambda a, b: mp.log1p(b), lambda a, b: a / (1 + b)),
        (FIRST, points(1e-150, 1e150, 0.5, -0.5)),
        PAIRS,
    ),
    Elementwise(
        special("entr"),
        lambda x: -x * mp.log(x),
        (lambda x: -mp.log(x) - 1,),
        (np.append(points(1e-300, 0.3), points(0.5, 1e300)),),
        reason="compared away from the zero at 1/e",
    ),
    Elementwise(
        special("rel_entr"),
        lambda a, b: a * mp.log(a / b),
        (lambda a, b: mp.log(a / b) + 1, lambda a, b: -a / b),
        (points(0.5, 2.0, 1.0), points(0.5, 1.2, 1.0, seed=8)),
        PAIRS,
    ),
    Elementwise(
        special("kl_div"),
        lambda a, b: a * mp.log(a / b) - a + b,
        (lambda a, b: mp.log(a / b), lambda a, b: 1 - a / b),
        (points(0.5, 2.0, 1.0), points(0.5, 1.2, 1.0, seed=8)),
        PAIRS,
    ),
    # gamma and relatives
    *(
        Elementwise(
            special(name),
            mp.loggamma,
            (mp.digamma,),
            (np.append(points(1e-5, 1.2), points(1.8, 1e5)),),
            reason="compared away from digamma's zero at 1.46",
        )
        for name in ("gammaln", "loggamma")
    ),
    Elementwise(
        special("gamma"),
        mp.gamma,
        (lambda x: mp.gamma(x) * mp.digamma(x),),
        (np.append(points(1e-5, 1.2), points(1.8, 100.0)),),
        ulp=32,
        reason="SciPy's gamma is right to 10 ulp or so",
    ),
    Elementwise(
        special("digamma"), mp.digamma, (lambda x: mp.psi(1, x),), (points(1e-3, 1e5, 1.0),), ((1.7,),)
    ),
    Elementwise(
        special("betaln"),
        lambda a, b: mp.log(mp.beta(a, b)),
        (lambda a, b: mp.digamma(a) - mp.digamma(a + b), lambda a, b: mp.digamma(b) - mp.digamma(a + b)),
        (points(0.1, 2.0), points(0.3, 4.0, seed=9)),
        PAIRS,
        ulp=48,
        reason="two digammas cancel where b is small against a",
    ),
    Elementwise(
        special("beta"),
        mp.beta,
        (
            lambda a, b: mp.beta(a, b) * (mp.digamma(a) - mp.digamma(a + b)),
            lambda a, b: mp.beta(a, b) * (mp.digamma(b) - mp.digamma(a + b)),
        ),
        (points(0.1, 2.0), points(0.3, 4.0, seed=9)),
        PAIRS,
        ulp=48,
        reason="two digammas cancel where b is small against a; SciPy's beta is right to 10 ulp or so",
    ),
    # exponential integrals and Bessel functions
    Elementwise(special("exp1"), mp.e1, (lambda x: -mp.exp(-x) / x,), (points(1e-5, 600),)),
    Elementwise(special("expi"), mp.ei, (lambda x: mp.exp(x) / x,), (points(1e-5, 600),)),
    *(
        Elementwise(
            special(f"{letter}{order}"),
            lambda x, g=g, order=order: g(order, x),
            (lambda x, g=g, order=order: mp.diff(lambda t: g(order, t), x),),
            (points(0.3, 1.5),),
            ((0.7,), (1.3,)),
            ulp=48,
            reason="SciPy's Bessel functions are right to 10 ulp or so",
        )
        for letter, g in (("j", mp.besselj), ("y", mp.bessely), ("i", mp.besseli), ("k", mp.besselk))
        for order in (0, 1)
    ),
]


# ---------------------------------------------------------------------------- functions that depend on shapes


@dataclass(frozen=True)
class Operand:
    """An operand to be drawn between bounds, or given by `values`."""

    shape: tuple = ()
    low: float = -2.0
    high: float = 2.0
    values: Any = None

    def draw(self, rng):
        if self.values is not None:
            return np.array(self.values, dtype=float)
        return np.asarray(rng.uniform(self.low, self.high, self.shape))


def arr(*shape, low=-2.0, high=2.0):
    return Operand(shape, low, high)


def val(values):
    return Operand(values=values)


@dataclass(frozen=True)
class Call:
    """A call: operands among the arguments are drawn and differentiated, other arguments are fixed."""

    fun: Any
    args: tuple
    kwargs: dict = field(default_factory=dict)
    label: str = ""

    @property
    def name(self):
        return f"{self.fun.__name__}-{self.label}" if self.label else self.fun.__name__

    def draw(self, seed=0):
        """Return the arguments with drawn operands."""
        rng = np.random.default_rng(seed)
        return tuple(drawn(a, rng) for a in self.args)

    @property
    def wrt(self):
        """Return the positions of arguments that hold operands."""
        return tuple(i for i, a in enumerate(self.args) if holds_operand(a))

    def __call__(self, *args):
        return self.fun(*args, **self.kwargs)


def holds_operand(a):
    return isinstance(a, Operand) or (isinstance(a, (list, tuple)) and any(holds_operand(b) for b in a))


def drawn(a, rng):
    if isinstance(a, Operand):
        return a.draw(rng)
    if isinstance(a, list) and holds_operand(a):
        return [drawn(b, rng) for b in a]
    return a


def call(fun, *args, label="", **kwargs):
    return Call(fun, args, kwargs, label)


def where_known(name, *cases):
    """Return cases of a function that older versions of NumPy lack."""
    fun = getattr(np, name, None)
    return (
        [call(fun, *args, label=label, **kwargs) for args, kwargs, label in cases] if fun is not None else []
    )


def over_axes(fun, *, low=-2.0, high=2.0, **kwargs):
    """Return reductions over no, one and several axes, with and without keepdims, and of a scalar."""
    x = arr(2, 3, 4, low=low, high=high)
    return [
        call(fun, x, label="all", **kwargs),
        call(fun, x, label="all-keepdims", keepdims=True, **kwargs),
        call(fun, x, 1, label="positional-axis", **kwargs),
        call(fun, x, label="axis", axis=-1, **kwargs),
        call(fun, x, label="axes", axis=(0, 2), **kwargs),
        call(fun, x, label="axes-keepdims", axis=(2, -2), keepdims=True, **kwargs),
        call(fun, arr(low=low, high=high), label="0d", **kwargs),
    ]


HOLEY = [[1.0, nan, 3.0, 2.5], [2.0, -1.5, 4.0, 0.3]]
MASK = np.array([[True, True, False, True], [False, True, True, True]])

REDUCTIONS = [
    *over_axes(np.sum),
    *over_axes(np.mean),
    *over_axes(np.prod),
    *over_axes(np.max),
    *over_axes(np.min),
    *over_axes(np.amax),
    *over_axes(np.amin),
    *over_axes(np.var),
    *over_axes(np.std)[:-1],
    *over_axes(np.ptp)[:-1],
    *over_axes(np.nansum),
    *over_axes(np.nanmean),
    *over_axes(np.nanmax),
    *over_axes(np.nanmin),
    *over_axes(np.average)[:-1],
    call(np.sum, arr(2, 0, 3), label="empty", axis=1),
    call(np.sum, arr(2, 3), label="no-axes", axis=()),
    call(np.sum, arr(2, 3), label="defaults", axis=None, dtype=None, out=None),
    call(np.prod, val([[1.0, 0.0, 3.0], [2.0, -1.5, 4.0]]), label="one-zero"),
    call(np.prod, val([[1.0, 0.0, 3.0], [0.0, -1.5, 4.0]]), label="two-zeros", axis=1),
    call(np.nansum, val([[1.0, nan, 3.0], [2.0, -1.5, 4.0]]), label="nan", axis=1),
    call(np.nanmean, val([[1.0, nan, 3.0], [2.0, -1.5, 4.0]]), label="nan", axis=1),
    call(np.nanmax, val([[1.0, nan, 3.0], [2.0, -1.5, 4.0]]), label="nan", axis=1),
    call(np.var, arr(2, 4), label="ddof", axis=1, ddof=1),
    call(np.std, arr(2, 4), label="ddof", axis=1, ddof=1),
    call(np.std, arr(2, 4), label="correction", axis=0, correction=0.5),
    call(np.average, arr(3, 4), 1, arr(4, low=0.5), label="weights-of-axis"),
    call(np.average, arr(3, 4), 0, arr(3, 4, low=0.5), label="weights"),
    call(np.average, arr(3, 4), None, arr(3, 4, low=0.5), label="weights-all"),
    call(np.average, arr(2, 3, 4), (0, 2), arr(2, 4, low=0.5), label="weights-of-axes"),
    call(np.average, arr(2, 3, 4), (2, 0), arr(4, 2, low=0.5), label="weights-of-axes-turned"),
    call(np.cumsum, arr(3, 4), label="flat"),
    call(np.cumsum, arr(3, 4), label="axis", axis=0),
    call(np.cumsum, arr(3, 4), 1, label="positional"),
    call(np.cumsum, arr(), label="0d"),
    call(np.cumprod, arr(3, 4), label="flat"),
    call(np.cumprod, arr(3, 4), label="axis", axis=0),
    call(np.cumprod, val([[1.0, 0.0, 3.0, 0.0, 2.0], [2.0, -1.5, 4.0, 1.0, 0.5]]), label="zeros", axis=1),
    call(np.cumprod, arr(0), label="empty"),
    call(np.cumprod, arr(), label="0d"),
    call(np.cumprod, arr(), label="0d-axis", axis=0),
    call(np.cumsum, arr(), label="0d-axis", axis=0),
    call(np.prod, arr(), label="0d-axis", axis=0),
    call(np.sum, arr(), label="0d-axis", axis=-1),
    *where_known("cumulative_sum", ((arr(3, 4),), {"axis": 1, "include_initial": True}, "initial")),
    *where_known("cumulative_prod", ((arr(3, 4),), {"axis": 1, "include_initial": True}, "initial")),
    *where_known("cumulative_prod", ((arr(5),), {}, "vector")),
    call(np.diff, arr(3, 5), label="once"),
    call(np.diff, arr(5, 3), label="twice", n=2, axis=0),
    call(np.diff, arr(5, 3), 2, 0, arr(2, 3), arr(), label="joined"),
    call(np.diff, arr(3, 4), 1, -1, np._NoValue, arr(3, 1), label="behind"),
    *(call(fun, val(HOLEY), label="where", axis=1, where=MASK) for fun in (np.nansum, np.nanmean)),
    *(
        call(fun, arr(2, 3, 4), label="where", axis=(0, 2), where=MASK[:, :1, None])
        for fun in (np.sum, np.mean, np.prod)
    ),
    *(call(fun, arr(2, 4), label="where", axis=0, where=MASK, ddof=0.5, keepdims=True) for fun in (np.var, np.std)),
    *(
        call(fun, arr(2, 4), label="initial-where", initial=0.3, where=MASK)
        for fun in (np.sum, np.prod, np.max, np.nanmin)
    ),
    *(
        call(fun, arr(2, 3, 4), label=label, **options)
        for fun in (logaddexp_reduce, logaddexp2_reduce, hypot_reduce)
        for label, options in (
            ("axis", {"axis": 1}),
            ("axes", {"axis": (0, 2), "keepdims": True}),
            ("initial-where", {"axis": None, "initial": 0.3, "where": np.arange(4) > 1}),
        )
    ),
    call(sums_of_segments, arr(12), [0, 9, 4, 4, 2], label="overlapping"),
    call(sums_of_segments, arr(3, 12), [1, 4, 5], 1, label="axis"),
]

QUANTILE_METHODS = (
    "inverted_cdf averaged_inverted_cdf closest_observation interpolated_inverted_cdf hazen weibull linear "
    "median_unbiased normal_unbiased lower higher midpoint nearest"
).split()

PIECES = [
    call(np.clip, arr(3, 4), -0.5, 1.0, label="scalars"),
    call(np.clip, arr(3, 4), arr(4, low=-1.5, high=-0.5), arr(3, 1, low=0.5, high=1.5), label="bounds"),
    call(np.clip, arr(3, 4), None, 1.0, label="none"),
    call(np.clip, arr(3, 4), -0.5, label="crossed", a_max=-1.0),
    call(np.clip, arr(), arr(), 1.0, label="0d"),
]
if "min" in inspect.signature(np.clip).parameters:
    PIECES.append(call(np.clip, arr(3, 4), label="keywords", min=-0.5, max=1.0))

#: from NumPy 2.5 on
DESCENDING = {"descending": True} if "descending" in inspect.signature(np.sort).parameters else {}

MOVES = [
    call(np.reshape, arr(3, 4), (2, 6)),
    call(np.ravel, arr(3, 4)),
    call(np.ravel, arr(3, 4), label="F", order="F"),
    call(np.squeeze, arr(3, 1, 4)),
    call(np.expand_dims, arr(3, 4), 1),
    call(np.transpose, arr(2, 3, 4), (1, 2, 0)),
    call(np.matrix_transpose, arr(2, 3, 4)),
    call(np.linalg.matrix_transpose, arr(2, 3, 4), label="linalg"),
    call(np.swapaxes, arr(2, 3, 4), 0, 2),
    call(np.moveaxis, arr(2, 3, 4), 0, -1),
    call(np.rollaxis, arr(2, 3, 4), 2),
    call(np.flip, arr(3, 4), 0),
    call(np.fliplr, arr(3, 4)),
    call(np.flipud, arr(3, 4)),
    call(np.rot90, arr(3, 4)),
    call(np.diagonal, arr(3, 4), 1),
    call(np.linalg.diagonal, arr(2, 3, 4), label="linalg"),
    call(np.broadcast_to, arr(3, 1), (2, 3, 4)),
    call(np.split, arr(6, 2), 3),
    call(np.array_split, arr(7, 2), 3),
    call(np.hsplit, arr(2, 4), 2),
    call(np.vsplit, arr(4, 2), [1]),
    call(np.dsplit, arr(2, 3, 4), 2),
    *where_known("unstack", ((arr(3, 4),), {}, "")),
    call(np.copy, arr(3, 4)),
    call(np.fft.fftshift, arr(3, 4)),
    call(np.fft.ifftshift, arr(3, 5), 1),
    call(np.roll, arr(3, 4), 2, axis=1),
    call(np.roll, arr(3, 4), (1, 2), label="axes", axis=(0, 1)),
    call(np.tile, arr(3, 4), (2, 1, 3)),
    call(np.repeat, arr(3, 4), 2, axis=1),
    call(np.repeat, arr(3), [2, 0, 1], label="counts"),
    call(np.resize, arr(3), (2, 4)),
    call(np.delete, arr(3, 4), [1, 2], axis=1),
    call(np.take, arr(3, 4), [2, 0, 2], axis=0),
    call(np.take_along_axis, arr(3, 4), np.array([[0], [3], [1]]), 1),
    call(np.tril, arr(3, 4), -1),
    call(np.triu, arr(2, 3, 4)),
    call(np.diag, arr(3), label="build"),
    call(np.diag, arr(3, 4), 1, label="extract"),
    call(np.diagflat, arr(2, 2), 1),
    call(np.vstack, [arr(3), arr(2, 3)]),
    call(np.hstack, [arr(3), arr(2)]),
    call(np.dstack, [arr(2, 3), arr(2, 3)]),
    call(np.column_stack, [arr(3), arr(3, 2)]),
]

JOINS = [
    call(np.concatenate, [arr(2, 3), arr(1, 3), arr(4, 3)]),
    call(np.concatenate, [arr(3, 2), arr(3, 1)], label="axis", axis=-1),
    call(np.concatenate, [arr(3, 2), arr(1)], label="flat", axis=None),
    call(np.concatenate, [arr(0, 2), arr(1, 2)], 0, label="empty"),
    call(np.stack, [arr(2, 3), arr(2, 3)]),
    call(np.stack, [arr(2, 3), arr(2, 3)], label="axis", axis=-1),
    call(np.stack, [arr(), arr(), arr()], label="0d"),
    call(np.append, arr(2, 3), arr(4), label="flat"),
    call(np.append, arr(2, 3), arr(2, 1), label="axis", axis=1),
    call(np.insert, arr(3, 4), 1, arr(3), label="column", axis=1),
    call(np.insert, arr(4), [1, 3, 3], arr(3), label="several"),
    call(np.insert, arr(4), [1, 3], arr(), label="repeated"),
    call(np.insert, arr(4), 2, arr(3), label="several at one place"),
    call(np.compress, [True, False, True], arr(3, 4), label="axis", axis=0),
    call(np.extract, np.array([[True, False], [True, True]]), arr(2, 2)),
    call(np.sort, arr(3, 5)),
    call(np.sort, arr(5, 3), label="axis", axis=0),
    call(np.sort, arr(3, 2), label="flat", axis=None),
    *[call(np.sort, arr(3, 2), label=f"descending along {axis}", axis=axis, **DESCENDING) for axis in (-1, 0, None)],
    call(np.median, arr(3, 5), label="odd", axis=1),
    call(np.median, arr(4, 5), label="even", axis=0, keepdims=True),
    call(np.median, arr(3, 4), label="all"),
    call(np.median, arr(2, 3, 4), label="axes", axis=(0, 2)),
    call(np.quantile, arr(3, 4), 0.3, label="all"),
    call(np.quantile, arr(3, 4), 0.7, label="axis", axis=0),
    call(np.quantile, arr(2, 3, 4), [0.1, 0.6, 1.0], label="several", axis=(0, 2), keepdims=True),
    call(np.quantile, arr(5), np.array([[0.0, 0.5], [0.26, 0.9]]), label="matrix"),
    call(np.percentile, arr(3, 5), [5, 50, 95], label="axis", axis=1),
    call(np.percentile, arr(7), 37.5),
    *(
        call(np.quantile, arr(3, 5), [0.0, 0.31, 0.85], label=method, axis=1, method=method)
        for method in QUANTILE_METHODS
    ),
    *(
        call(np.nanquantile, val(HOLEY), [0.31, 0.85], label=method, axis=1, method=method)
        for method in QUANTILE_METHODS
    ),
    call(np.nanpercentile, val([[1.0, nan, 3.0], [nan, -1.5, 4.0]]), 30, label="all"),
    call(np.nanpercentile, arr(2, 3, 4), [30, 60], label="axes", axis=(0, 2), keepdims=True),
    call(np.nanmedian, val([[1.0, nan, 3.0], [nan, -1.5, 4.0]]), label="axis", axis=0),
    call(np.nanmedian, val([[1.0, nan, 3.0], [0.2, -1.5, 4.0]]), label="all"),
    call(np.quantile, arr(3, 4), arr(2, low=0.1, high=0.9), 1, label="fractions"),
    call(np.percentile, arr(7), arr(low=10, high=90), label="fraction"),
    call(np.nanquantile, val(HOLEY), arr(low=0.1, high=0.9), label="fraction", axis=1, method="weibull", keepdims=True),
    call(np.nanpercentile, val(HOLEY), arr(2, low=30, high=60), 0, label="fractions", method="lower"),
    call(quantile_places, np.array([[3, 4, 7]]), arr(2, 2, low=0.1, high=0.9), "hazen"),
    call(quantile_places, np.array(5), arr(low=0.1, high=0.9), "nearest", label="steps"),
    call(np.partition, arr(3, 9), 4),
    call(np.partition, arr(9, 3), [2, 5], label="axis", axis=0),
    call(np.partition, arr(3, 4), 5, None, label="flat"),
    call(np.pad, arr(3, 4), ((1, 0), (2, 1)), label="zeros"),
    call(np.pad, arr(3, 4), 1, label="constant", constant_values=7.0),
    *(call(np.pad, arr(3, 4), 2, label=mode, mode=mode) for mode in ("edge", "wrap", "reflect", "symmetric")),
    call(np.full_like, np.zeros((2, 3)), arr(), label="0d"),
    call(np.full_like, np.zeros((2, 3)), arr(3), label="row"),
    call(np.full, (2, 3), arr(2, 1)),
    call(np.bincount, np.array([0, 2, 2, 1]), arr(4)),
    call(np.bincount, np.array([0, 2, 2, 1]), arr(4), 6, label="minlength"),
    *where_known("astype", ((arr(3), np.float64), {}, "")),
    call(scatter_add, arr(3, 4), np.array([2, 0, 2]), arr(3, 4), label="rows"),
    call(scatter_add, arr(3, 4), (np.array([2, 0, 2]), np.array([1, 1, 1])), arr(3), label="elements"),
]

MATMULS = [
    ((3,), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((6, 1, 2, 3), (5, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((2, 0), (0, 3)),
    ((5, 2, 3), (3, 0)),
    ((3,), (3, 1)),
    ((1,), (1, 4)),
    ((1,), (1, 1)),
    ((2, 1), (1,)),
    ((1, 3), (3,)),
]
DOTS = [
    ((), (2, 3)),
    ((2, 3), ()),
    *MATMULS[:4],
    ((5, 2, 3), (3,)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (4, 3, 2)),
]
INNERS = [((), (2, 3)), ((3,), (3,)), ((2, 3), (4, 3)), ((5, 2, 3), (3,)), ((2, 3), (5, 4, 3))]


def on_pairs(fun, shapes, label="", **kwargs):
    return [call(fun, arr(*a), arr(*b), label=f"{label}{a}{b}".replace(" ", ""), **kwargs) for a, b in shapes]


def with_real_eigenvalues(n, seed=0):
    return np.diag(2 * np.arange(1.0, 1 + n)) + np.random.default_rng(seed).uniform(-0.4, 0.4, (n, n))


def positive_definite(n, seed=0):
    a = np.random.default_rng(seed).uniform(-1, 1, (n, n))
    return a @ a.T + n * np.eye(n)


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ba,cb", (2, 3), (4, 2)),
    ("i,i", (3,), (3,)),
    ("ij->", (2, 3)),
    ("ij->j", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij,i->j", (3, 3, 2), (3,)),
    ("iji->j", (3, 2, 3)),
    ("iii->i", (3, 3, 3)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("...ij,jk", (5, 2, 3), (3, 4)),
    ("i...,i...->...", (3, 2), (3, 4, 1)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2)),
    ("i,j->ij", (2,), (3,)),
    ("ij,k->k", (2, 3), (4,)),
    (" i j , j -> i ", (2, 3), (3,)),
    ("ij,ij->i", (1, 3), (2, 3)),
    (",i->i", (), (3,)),
]

LINALG = [
    *on_pairs(np.matmul, MATMULS),
    *(on_pairs(np.linalg.matmul, MATMULS[3:5], "linalg") if np.linalg.matmul is not np.matmul else []),
    *on_pairs(np.dot, DOTS),
    *on_pairs(np.inner, INNERS),
    *on_pairs(np.outer, [((3,), (4,)), ((2, 3), (4,))]),
    *on_pairs(np.linalg.outer, [((3,), (4,))], "linalg"),
    *on_pairs(np.vdot, [((), ()), ((3,), (3,)), ((2, 3), (3, 2))]),
    *on_pairs(np.vecdot, [((3,), (3,)), ((2, 3), (3,)), ((2, 3), (5, 1, 3))]),
    *on_pairs(np.linalg.vecdot, [((3, 2), (3, 2))], "linalg", axis=-2),
    *where_known("matvec", ((arr(5, 2, 3), arr(3)), {}, "batch"), ((arr(2, 3), arr(5, 3)), {}, "vectors")),
    *where_known("vecmat", ((arr(2), arr(5, 2, 3)), {}, "batch"), ((arr(5, 2), arr(2, 3)), {}, "vectors")),
    call(np.tensordot, arr(2, 3, 4), arr(3, 4, 5), label="two"),
    call(np.tensordot, arr(2, 3, 4), arr(4, 5, 2), label="lists", axes=([0, 2], [2, 0])),
    call(np.tensordot, arr(2, 3), arr(4), label="none", axes=0),
    call(np.tensordot, arr(2, 3), arr(3, 4), 1, label="one"),
    call(np.tensordot, arr(2, 3), arr(4, 3), label="ints", axes=(1, -1)),
    call(np.linalg.tensordot, arr(2, 3), arr(3, 4), label="linalg", axes=1),
    *(
        call(np.einsum, s, *(arr(*shape) for shape in shapes), label=s.replace(" ", "_"))
        for s, *shapes in EINSUMS
    ),
    call(np.einsum, "ij,jk,kl->il", arr(2, 3), arr(3, 4), arr(4, 2), label="optimize", optimize=True),
    call(np.einsum, arr(2, 3), [0, 1], arr(3, 4), [1, 2], [0, 2], label="interleaved"),
    call(np.einsum, arr(5, 3), [Ellipsis, 1], arr(3, 4), [1, 2], label="interleaved-implicit"),
    *on_pairs(np.kron, [((2, 3), (4, 2)), ((3,), (2, 2)), ((2, 1, 2), (3,))]),
    *on_pairs(np.cross, [((3,), (3,)), ((4, 3), (3,)), ((2, 1, 3), (4, 3))]),
    call(np.cross, arr(3, 4), arr(4, 3), label="axes", axisa=0, axisb=1, axisc=0),
    call(np.cross, arr(3, 4), arr(3, 4), label="axis", axis=0),
    call(np.linalg.cross, arr(3, 4), arr(3, 4), label="linalg", axis=0),
    call(np.trace, arr(3, 4), 1),
    call(np.trace, arr(3, 2, 4), label="axes", axis1=2, axis2=0),
    call(np.linalg.trace, arr(2, 3, 4), label="linalg", offset=-1),
    call(np.linalg.matrix_power, arr(3, 3), 3),
    call(np.linalg.matrix_power, arr(2, 3, 3), 0, label="zero"),
    call(np.linalg.matrix_power, val(positive_definite(3)), -2, label="negative"),
    call(np.linalg.matrix_power, arr(3, 3), 6, label="even"),
    call(np.linalg.multi_dot, [arr(2, 3), arr(3, 4), arr(4, 5)]),
    call(np.linalg.multi_dot, [arr(3), arr(3, 4), arr(4, 2), arr(2)], label="vectors"),
    call(np.linalg.solve, val(positive_definite(3)), arr(3), label="vector"),
    call(np.linalg.solve, val(positive_definite(3)), arr(3, 2), label="matrix"),
    call(
        np.linalg.solve, val([positive_definite(3, 1), positive_definite(3, 2)]), arr(3), label="batch-vector"
    ),
    call(
        np.linalg.solve,
        val([positive_definite(3, 1), positive_definite(3, 2)]),
        arr(3, 2),
        label="batch-matrix",
    ),
    call(np.linalg.solve, val(positive_definite(3)), arr(5, 3, 2), label="batch-right"),
    call(np.linalg.inv, val(positive_definite(3))),
    call(np.linalg.inv, val([positive_definite(3, 1), positive_definite(3, 2)]), label="batch"),
    call(np.linalg.det, arr(4, 4)),
    call(np.linalg.det, arr(2, 3, 3), label="batch"),
    call(np.linalg.det, val([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]]), label="singular"),
    call(np.linalg.det, val([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.5], [0.0, 2.0]]]), label="batch-singular"),
    call(packed_eig, val(with_real_eigenvalues(4, 3))),
    call(packed_eig, val([with_real_eigenvalues(3, 1), with_real_eigenvalues(3, 2)]), label="batch"),
    call(np.roots, val([1.0, 0.5, -5.0, -1.5, 4.0])),
    call(np.linalg.eigvals, val(with_real_eigenvalues(4))),
    call(np.linalg.eigvals, val([with_real_eigenvalues(3, 1), with_real_eigenvalues(3, 2)]), label="batch"),
    call(packed_slogdet, arr(4, 4)),
    call(packed_slogdet, arr(2, 3, 3), label="batch"),
    call(solution, val(positive_definite(3)), arr(3, 2)),
    call(solution, val(np.tril(positive_definite(70))), arr(70, 2), label="lower"),
    call(solution, val(np.triu(positive_definite(70))), arr(70, 2), label="upper"),
    call(cholesky_adjoint, val(np.tril(positive_definite(3))), arr(3, 3)),
    call(cholesky_adjoint, val([np.tril(positive_definite(4, i)) for i in range(2)]), arr(2, 4, 4), label="batch"),
    *(
        call(packed_qr, arr(*shape), mode, label=f"{mode}{shape}".replace(" ", ""))
        for mode, shape in (
            ("reduced", (4, 3)),
            ("reduced", (3, 3)),
            ("reduced", (2, 5)),
            ("reduced", (2, 4, 3)),
            ("complete", (2, 3)),
        )
    ),
    *(
        call(packed_svd, arr(*shape), full, label=f"{full}{shape}".replace(" ", ""))
        for full, shape in (
            (False, (4, 2)),
            (False, (2, 5)),
            (False, (2, 3, 4)),
            (True, (3, 3)),
            (True, (4, 3)),
            (True, (2, 2, 3)),
        )
    ),
    call(np.linalg.svdvals, arr(3, 4)),
    call(np.linalg.svdvals, arr(2, 3, 2), label="batch"),
    call(pseudo_inverse, arr(4, 3), 1e-15, np._NoValue, label="tall"),
    call(pseudo_inverse, arr(2, 4), None, None, label="wide"),
    call(pseudo_inverse, arr(2, 3, 3), 1e-12, np._NoValue, label="batch"),
    call(packed_lstsq, arr(5, 3), arr(5), None, label="vector"),
    call(packed_lstsq, arr(5, 3), arr(5, 2), 1e-12, label="matrix"),
    call(packed_lstsq, arr(3, 3), arr(3, 2), -1, label="square"),
    call(packed_lstsq, arr(3, 3), arr(3), 5, label="rcond-above-1"),
    call(packed_lstsq, arr(2, 4), arr(2), None, label="wide"),
    call(np.linalg.norm, arr(3, 4), label="frobenius"),
    call(np.linalg.norm, arr(3, 4), "fro", label="fro", axis=(0, 1), keepdims=True),
    call(np.linalg.norm, arr(2, 3, 4), label="flat"),
    call(np.linalg.norm, arr(3, 4), label="rows", axis=1),
    *(call(np.linalg.norm, arr(5), p, label=f"order{p}") for p in (1, 2, 3, 2.5, inf, -inf)),
    *(call(np.linalg.norm, arr(3, 5), p, 0, label=f"axis-order{p}") for p in (1, 2, 3, inf)),
    call(np.linalg.vector_norm, arr(3, 4), label="flat", ord=3),
    call(np.linalg.vector_norm, arr(3, 4), label="axis", axis=0, keepdims=True),
    call(np.linalg.matrix_norm, arr(2, 3, 4)),
    call(np.linalg.matrix_norm, arr(2, 3, 4), label="nuclear", ord="nuc", keepdims=True),
    *(call(np.linalg.norm, arr(4, 3), p, label=f"matrix-order{p}") for p in (1, -1, 2, -2, inf, -inf, "nuc", "f")),
    *(call(np.linalg.norm, arr(4, 2, 3), p, (2, 0), label=f"matrix-axes-order{p}") for p in (1, 2, -inf, "nuc")),
    *(call(np.linalg.norm, arr(5), p, label=f"order{p}") for p in (0, 0.5, -1, -2)),
]

SAMPLES = np.array([0.1, 0.5, 1.0, 0.7, 0.3, 1.2, 0.55])
PLACES = val([-1.0, -0.3, 0.4, 1.0, 1.1])

TABLES = [
    call(np.interp, arr(3, 4), PLACES, arr(5), label="matrix"),
    call(np.interp, arr(), PLACES, arr(5), label="0d"),
    call(np.interp, arr(7), PLACES, arr(5), arr(), label="left"),
    call(np.interp, arr(7), PLACES, arr(5), arr(), arr(), label="ends"),
    call(np.interp, arr(7), PLACES, arr(5), label="plain-ends", left=0.0, right=3.0),
    call(np.interp, arr(7), val([0.1]), arr(1), label="one-point"),
    *(
        call(fun, arr(m), arr(n), mode, label=f"{mode}{m}{n}")
        for fun in (np.convolve, np.correlate)
        for mode in ("full", "same", "valid")
        for m, n in ((5, 3), (2, 4), (4, 5), (3, 3), (6, 1), (1, 2))
    ),
    call(weighted_counts, arr(4), np.array([2, 1, 0, 2]), np.array([1, 0, 3, 2]), np.array([[0, 1, 3]])),
    call(np.convolve, arr(5), arr(3), label="default"),
    call(np.convolve, arr(), arr(3), label="of a scalar"),
    call(np.convolve, arr(3), arr(), label="with a scalar"),
    call(np.convolve, arr(), arr(), label="of scalars"),
    call(np.correlate, arr(5), arr(3), label="default"),
]

#: calls whose rules have a pullback
EXPONENTIALS = [
    call(log_sum, arr(3, 4), arr(3, 4, low=0.5, high=2.0), (-1,)),
    call(log_sum, arr(3, 4), arr(3, 4, low=0.5, high=2.0), (-2, -1), label="all"),
    call(log_sum, val([1.0, 2.0, -3.0]), val([1.0, 0.0, -20.0]), (-1,), label="negative"),
    call(shares, arr(3, 4), (-2,)),
    call(log_shares, arr(3, 4), (-2, -1)),
]

CALLS = [*REDUCTIONS, *PIECES, *JOINS, *LINALG, *TABLES, *EXPONENTIALS]

#: calls of functions of symmetric matrices, of which NumPy reads one triangle
SYMMETRIC = [
    call(np.linalg.cholesky, val(positive_definite(3)), label="lower"),
    call(np.linalg.cholesky, val([positive_definite(4, 1), positive_definite(4, 2)]), label="batch-upper", upper=True),
    call(np.linalg.cholesky, val(positive_definite(230)), label="blocks"),
    call(np.linalg.eigvalsh, val(positive_definite(4)), "U"),
    call(np.linalg.eigvalsh, val([positive_definite(4, 1), positive_definite(4, 2)]), label="batch"),
    call(packed_eigh, val(positive_definite(4)), "L"),
    call(packed_eigh, val([positive_definite(4, 1), positive_definite(4, 2)]), "U", label="batch"),
    call(hermitian_pseudo_inverse, val(positive_definite(3)), None, np._NoValue),
]


def doubled_sum(x):
    return np.sum(x * x)


def cumulated(x):
    return np.cumsum(x * x)


def cubed(x):
    return x**3


AT_LEAST = (np.atleast_1d, np.atleast_2d, np.atleast_3d)

#: calls of functions that are implemented by others
COMPOSED = [
    call(np.real, arr(3)),
    call(np.real_if_close, arr(3)),
    call(np.block, [[arr(2, 2), arr(2, 1)], [arr(1, 2), arr(1, 1)]], label="matrix"),
    call(np.block, [arr(3), arr(2)], label="vectors"),
    call(np.block, [[arr(2)], [arr(2)]], label="rows"),
    call(np.meshgrid, arr(3), arr(4)),
    call(np.meshgrid, arr(3), arr(4), arr(2), label="ij", indexing="ij"),
    call(np.meshgrid, arr(3), arr(4), label="sparse", sparse=True),
    call(np.broadcast_arrays, arr(3, 1), arr(4)),
    call(np.select, [np.array([True, False, False]), np.array([True, True, False])], [arr(3), arr(3)], 7.0),
    call(np.polyval, arr(4), arr(2, 3)),
    call(np.polyval, arr(4), arr(), label="0d"),
    call(np.polyadd, arr(4), arr(2)),
    call(np.polysub, arr(2), arr(4)),
    call(np.polymul, arr(4), arr(3)),
    call(np.polydiv, arr(6), val([2.0, 0.7, -1.3])),
    call(np.polydiv, arr(2), arr(3), label="short"),
    call(np.polyder, arr(5)),
    call(np.polyder, arr(5), 3, label="third"),
    call(np.polyint, arr(4)),
    call(np.polyint, arr(4), 2, [0.3, 0.7], label="constants"),
    call(np.polyint, arr(4), 2, 0.3, label="constant"),
    call(np.poly, arr(4)),
    call(np.histogram_bin_edges, arr(5), 4),
    call(np.vander, arr(4)),
    call(np.histogram, SAMPLES, 4, (0.2, 1.0), True, arr(7, low=0.5), label="density"),
    call(np.histogram2d, SAMPLES, SAMPLES[::-1], 2, None, True, arr(7, low=0.5), label="density"),
    call(np.vander, arr(4), 6, label="increasing", increasing=True),
    call(np.polyfit, arr(7), arr(7), 2),
    call(np.polyfit, arr(7), arr(7, 2), 3, label="weights", w=val([1.0, 2.0, 0.5, 1.5, 1.0, 0.7, 1.1]).values),
    call(np.polyfit, arr(7), arr(7), 1, None, False, arr(7, low=0.5), True, label="cov"),
    call(np.nan_to_num, val([1.0, nan, inf, -inf, 2.0]), label=""),
    call(np.nan_to_num, val([1.0, nan, inf, 2.0]), label="given", nan=7.0, posinf=8.0),
    call(np.trapezoid, arr(3, 5), label="dx", dx=0.3),
    call(np.trapezoid, arr(5, 3), arr(5), label="points", axis=0),
    call(np.trapezoid, arr(2, 5), arr(2, 5), label="points-same-shape"),
    call(np.trapezoid, arr(5, 3, 2), arr(5, 3, 2), label="points-axis", axis=0),
    call(np.linalg.tensorsolve, arr(2, 3, 6), arr(2, 3)),
    call(np.linalg.tensorsolve, arr(2, 6, 3), arr(2, 3), label="axes", axes=(1,)),
    call(np.linalg.tensorinv, arr(4, 6, 8, 3)),
    call(np.linalg.tensorinv, arr(6, 2, 3), label="ind", ind=1),
    call(np.linalg.eig, val(with_real_eigenvalues(4, 3))),
    call(np.linalg.qr, arr(4, 3)),
    call(np.linalg.qr, arr(4, 3), "r", label="r"),
    call(np.linalg.svd, arr(3, 3)),
    call(np.linalg.svd, arr(4, 2), False, label="thin"),
    call(np.linalg.svd, arr(3, 4), label="values", compute_uv=False),
    call(np.linalg.lstsq, arr(5, 3), arr(5)),
    call(np.linalg.lstsq, arr(3, 5), arr(3, 2), 1e-10, label="wide"),
    call(np.linalg.pinv, arr(4, 3)),
    call(np.linalg.pinv, arr(2, 2, 3), label="batch", rtol=1e-12),
    call(np.linalg.pinv, arr(3, 3), label="hermitian", hermitian=True),
    call(np.linalg.pinv, arr(2, 3, 3), label="hermitian batch", hermitian=True, rtol=1e-12),
    *(call(np.linalg.cond, arr(3, 3), p, label=str(p)) for p in (None, -2, 1, inf, "fro", "nuc")),
    call(np.linalg.cond, arr(2, 4, 3), label="batch"),
    call(np.linalg.slogdet, arr(4, 4)),
    call(np.linalg.slogdet, arr(2, 3, 3), label="batch"),
    call(np.ediff1d, arr(3, 4)),
    call(np.ediff1d, arr(5), arr(2), arr(), label="ends"),
    call(np.ediff1d, arr(5), label="begin", to_begin=0.0),
    call(np.gradient, arr(6), label="vector"),
    call(np.gradient, arr(3, 5), label="both-axes"),
    call(np.gradient, arr(3, 5), arr(low=0.5), label="spacing"),
    call(np.gradient, arr(3, 5), 0.3, arr(low=0.5), label="two-spacings"),
    call(np.gradient, arr(4, 5), arr(low=0.5), label="second-order", axis=0, edge_order=2),
    call(np.gradient, arr(5, 3), val([0.0, 0.3, 1.0, 1.2, 2.5]), label="points", axis=0),
    call(
        np.gradient, arr(3, 5), val([0.0, 0.3, 1.0, 1.2, 2.5]), label="points-order2", axis=-1, edge_order=2
    ),
    call(np.gradient, arr(3, 5), np.array([0.0, 1, 2]), [0, 1, 2, 4, 5], label="plain-points"),
    call(np.cov, arr(3, 6)),
    call(np.cov, arr(6), label="vector"),
    call(np.cov, arr(6), arr(6), label="two"),
    call(np.cov, arr(6, 3), label="columns", rowvar=False, bias=True),
    call(np.cov, arr(6, 3), arr(6, 2), label="two-columns", rowvar=False, ddof=2),
    call(np.corrcoef, arr(6), arr(6), label="two"),
    call(np.nanprod, val([[1.0, nan, 3.0], [2.0, -1.5, 4.0]]), label="axis", axis=1),
    call(np.nanprod, val([[1.0, nan, 3.0], [2.0, -1.5, 4.0]])),
    call(np.nancumsum, val([[1.0, nan, 3.0], [2.0, -1.5, 4.0]]), label="axis", axis=1),
    call(np.nancumprod, val([[1.0, nan, 3.0], [2.0, -1.5, 4.0]]), label="flat"),
    *(
        call(fun, val(HOLEY), label=label, **kwargs)
        for fun in (np.nanvar, np.nanstd)
        for label, kwargs in (
            ("all", {}),
            ("axis", {"axis": 1, "ddof": 1}),
            ("kept", {"axis": (0, 1), "keepdims": True}),
        )
    ),
    call(np.nanvar, arr(3, 4), label="numbers", axis=0),
    call(np.unwrap, val([0.1, 2.9, -3.0, 0.4, 5.0, -2.0])),
    call(np.unwrap, arr(3, 5, low=-9, high=9), label="axis", axis=0, period=4.1),
    call(np.unwrap, arr(3, 5, low=-9, high=9), 5.0, label="discont"),
    call(np.modf, arr(3, 4)),
    call(np.frexp, val([0.3, -5.0, 300.0, 7.0])),
    call(np.choose, np.array([[0, 2, 1], [1, 1, 0]]), [arr(2, 3), arr(3), arr()]),
    call(np.choose, np.array([-1, 4, 1]), [arr(3), arr(3)], label="wrap", mode="wrap"),
    call(np.choose, np.array([-1, 4, 1]), [arr(3), arr(3)], label="clip", mode="clip"),
    call(np.choose, np.array([1, 0, 1]), arr(2, 3), label="array"),
    call(np.apply_along_axis, doubled_sum, 1, arr(3, 4)),
    call(np.apply_along_axis, cumulated, 0, arr(2, 3, 4), label="lines"),
    call(np.apply_over_axes, np.sum, arr(2, 3, 4), [0, -1]),
    call(np.piecewise, arr(6), [np.arange(6) < 2, np.arange(6) > 3], [cumulated, 3.0, cubed]),
    call(np.piecewise, arr(2, 3), [np.eye(2, 3) > 0], [cubed], label="else-zero"),
    call(np.cov, arr(3, 6), label="weights", fweights=[1, 2, 1, 3, 1, 1], aweights=[0.5, 1.0, 2.0, 0.3, 1.0, 1.1]),
    call(np.cov, arr(3, 6), label="aweights", aweights=[0.5, 1.0, 2.0, 0.3, 1.0, 1.1], ddof=0),
    call(np.divmod, arr(3, 4), arr(4, low=0.3), label="rows"),
    *(call(fun, arr(*s), label=f"{len(s)}d") for fun in AT_LEAST for s in ((), (3,), (3, 4), (2, 3, 4))),
    *(call(fun, arr(), arr(3), arr(2, 2), label="several") for fun in AT_LEAST),
]
