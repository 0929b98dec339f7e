"""Differentiable versions of the numeric functions of Python's standard library, for code under differentiation.

A function under differentiation sees these versions of `math` and `cmath`, of the conversions ``float``
and ``complex``, of the operators of ``float`` as functions, and of ``sum``, wherever its names refer to the originals.
The value is computed by the original function, so that its bits and its exceptions are those of plain code; the
derivative is that of an equivalent NumPy or SciPy function.  Results that are Python floats stay Python floats.
Calls without traced arguments are passed on to the original.

`DIFFERENTIABLE`, `CONSTANT` and `REFUSED` classify every public function of the three modules.
"""

from __future__ import annotations

import cmath
import importlib
import math
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert import registry
from wengert import rules as _rules  # noqa: F401  (registers the rules)
from wengert.core import levels
from wengert.core.dispatch import dispatch
from wengert.core.dispatch.checks import note_match, refusal
from wengert.core.dispatch.class_proxies import numbers_of
from wengert.core.dispatch.lifted import Lifted, holds_lifted
from wengert.core.dispatch.ufunc import ScalarFunction
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.core.rebind import registration
from wengert.errors import TracedValueError, UnsupportedFunctionError

#: functions of floats with the rule of a NumPy or SciPy ufunc
_UFUNCS = {
    "erf": "scipy.special.erf",
    "erfc": "scipy.special.erfc",
    "gamma": "scipy.special.gamma",
    "lgamma": "scipy.special.gammaln",
} | {
    name: getattr(np, name)
    for name in (
        "acos acosh asin asinh atan atan2 atanh cbrt copysign cos cosh degrees exp exp2 expm1 fabs fmod ldexp log10 "
        "log1p log2 pow radians sin sinh sqrt tan tanh"
    ).split()
}

#: functions of complex numbers with the rule of a ufunc
_COMPLEX_UFUNCS = {
    name: _UFUNCS[name]
    for name in "acos acosh asin asinh atan atanh cos cosh exp log10 sin sinh sqrt tan tanh".split()
}

#: functions of statistics whose Python code is run with the functions of this module
_RUN = frozenset(
    "correlation covariance fmean geometric_mean kde linear_regression median median_grouped median_high median_low "
    "quantiles".split()
)

#: public functions with a derivative
DIFFERENTIABLE = {
    "math": frozenset(_UFUNCS) | set("dist fma frexp fsum hypot log modf prod remainder sumprod".split()),
    "cmath": frozenset(_COMPLEX_UFUNCS) | set("log phase polar rect".split()),
    "statistics": _RUN | set("NormalDist harmonic_mean mean pstdev pvariance stdev variance".split()),
}

#: public functions that are piecewise constant: plain results, and a guard while recording
CONSTANT = {
    "math": frozenset(
        "ceil comb factorial floor gcd isclose isfinite isinf isnan isnormal isqrt issubnormal lcm perm signbit trunc "
        "ulp".split()
    ),
    "cmath": frozenset("isclose isfinite isinf isnan".split()),
    "statistics": frozenset(),
}

_HASHES = "it counts equal values by their hashes; pass wengert.stop_gradient(value) for each of them"

#: public functions and classes without a derivative: why, and what to write instead
REFUSED = {
    "math": {"nextafter": "it returns the adjacent floating-point number; write x + math.ulp(x)"},
    "cmath": {},
    "statistics": {
        "kde_random": "its draws have no derivative; draw with wengert.stop_gradient(value)",
        "mode": _HASHES,
        "multimode": _HASHES,
    },
}


# Arguments and results --------------------------------------------------------------------------------------


def is_traced(x: Any) -> bool:
    """Return whether an argument, or an item of a sequence, is traced or lifted (a batch or a Taylor series)."""
    return var.holds_traced(x) or holds_lifted(x)


def as_scalar(x: Any) -> Any:
    """Return a traced argument of size 1 as a NumPy scalar, as a conversion to a Python number would."""
    x = var.as_numpy(x)
    if not var.is_scalar(x):
        complex(var.value_of(x))  # raises or warns as NumPy does
        x = np.reshape(x, ())[()]
    return x


def as_float(x: Any) -> Any:
    """Convert an argument of a function of floats to a traced float64 scalar or a plain float."""
    if not var.is_traced(x):
        return of_objects(float, as_float, (x,))
    x = as_scalar(x)
    if x.dtype.kind == "c":
        raise TracedValueError(f"float() would drop the imaginary part{at()}: take x.real first")
    return x if x.dtype == np.float64 else x.astype(np.float64)


def as_complex(x: Any) -> Any:
    """Convert an argument of a function of complex numbers to a traced complex scalar or a plain complex number."""
    if not var.is_traced(x):
        return of_objects(complex, as_complex, (x,))
    x = as_scalar(x)
    return x if x.dtype == np.complex128 else x.astype(np.complex128)


def of_objects(fun: Callable, traced: Callable, args: Any) -> Any:
    """Call a function of numbers without traced arguments; methods of objects may convert them to traced numbers."""
    try:
        return fun(*args)
    except TypeError:
        if (numbers := numbers_of(args, fun is complex or fun.__module__ == "cmath")) is None:
            raise
    return traced(*numbers)


def python_float(y: Any) -> Any:
    """Convert a float64 result to a Python float, which stays traced."""
    return var.float_of(y) if var.is_var(y) else float(y)


class Value:
    """Computes the value of a library function for a tape, as a NumPy scalar.

    On operands of an enclosing derivative it calls the function's differentiable version.
    If `spreads`, the elements of a single array argument are passed as separate arguments.
    """

    __slots__ = ("fun", "spreads", "traced")
    is_kernel = True  # the VM kernel of the rule computes the same value within rounding

    def __init__(self, fun: Callable, traced: Callable, spreads: bool = False):
        self.fun, self.traced, self.spreads = fun, traced, spreads

    def __call__(self, *args, **options):
        args = args[0] if self.spreads and len(args) == 1 else args
        if is_traced(args):
            return var.as_numpy(self.traced(*args))
        y = self.fun(*[x.tolist() if isinstance(x, (np.ndarray, np.generic)) else x for x in args])
        return np.complex128(y) if type(y) is complex else np.float64(y)

    def __reduce__(self):
        return value_of, (self.fun.__module__, self.fun.__name__)

    @property
    def __name__(self):
        return self.fun.__name__


_values: dict = {}


def value_of(module: str, name: str) -> Value:
    """Return the `Value` of a function, to unpickle it."""
    if (module, name) not in _values:
        registration.register_deferred("statistics")
    return _values[module, name]


def evaluated(fun: Callable, traced: Callable, spreads: bool = False) -> Value:
    """Return the `Value` of a function; `traced` is its differentiable version."""
    found = _values[fun.__module__, fun.__name__] = Value(fun, traced, spreads)
    return found


def applied(rule: Any, args: list, value: Value, options: dict | None = None) -> Any:
    """Record a call by the rule of a NumPy function, or by a row of this module, with the given value."""
    row = rule if isinstance(rule, registry.Primitive) else registry.lookup(rule)
    try:
        y = dispatch.apply(row, row.fun or value, args, options or {}, value)
    except (ValueError, ArithmeticError) as error:
        if var.recording_level(args) is not None:
            levels.unrecorded(f"{registry.dotted_name(value.fun)} raised {error!r}{at()}")
        raise
    if var.may_record():
        var.check_finite(y, f"{value.fun.__name__}({{!r}})", args[0])
    return y


def resolved(rule: Any) -> Any:
    """Import the module of a function given by its dotted name, and return the function."""
    if not isinstance(rule, str):
        return rule
    module, _, name = rule.rpartition(".")
    return getattr(importlib.import_module(module), name)


#: the modules that code under differentiation sees instead of `math` and `cmath`
math_module, cmath_module = map(types.ModuleType, ("math", "cmath"))


def row(name: str, kind: str, **columns) -> registry.Primitive:
    """Return a row of this module, for a function that NumPy and SciPy do not have."""
    return registry.Primitive(name, kind, home=f"{__name__}._{name.replace('.', '_')}", **columns)


# math -------------------------------------------------------------------------------------------------------


def of_ufunc(fun: Callable, rule: Any, convert: Callable, result: Callable, otherwise: Callable) -> ScalarFunction:
    """Return the differentiable version of a function of numbers that has the rule of a ufunc.

    `convert` and `result` convert arguments and result.  A call with another number of arguments than the ufunc has
    is passed to `otherwise`.
    """

    def general(*args, **kwargs):
        nonlocal rule
        if not is_traced(args):
            return fun(*args, **kwargs) if kwargs else of_objects(fun, proxy, args)
        rule = resolved(rule)
        if len(args) != rule.nin:
            return otherwise(*args)
        for x in args:
            if isinstance(x, Lifted):
                return x._scalar_call(rule, value, args)
        return result(applied(rule, convert(args), value))

    proxy = ScalarFunction(fun, general)
    value = evaluated(fun, proxy, fun is math.hypot)
    if not isinstance(rule, str) and result is python_float:
        proxy.set_rule(rule)
    return proxy


def of_row(fun: Callable, rule: registry.Primitive) -> ScalarFunction:
    """Return the differentiable version of a function of floats that has a row of this module."""

    def general(*args):
        if not is_traced(args) or len(args) != len(rule.partials):
            return of_objects(fun, proxy, args)
        return python_float(applied(rule, as_floats(args), value))

    proxy = ScalarFunction(fun, general)
    value = evaluated(fun, proxy)
    return proxy


def of_constant(fun: Callable) -> ScalarFunction:
    """Return the version of a piecewise constant function that accepts traced arguments."""

    def general(*args, **kwargs):
        if var.recording_level((args, tuple(kwargs.values()))) is not None:
            return dispatch.record_constant(dispatch.constant_row, args, kwargs, fun)
        if fun is math.isclose and len(args) == 2:
            note_match(*args)
        return fun(*var.plain(args), **{name: var.plain(x) for name, x in kwargs.items()})

    return ScalarFunction(fun, general)


def refusing(fun: Callable, name: str, reason: str) -> ScalarFunction:
    """Return the version of a function without a derivative, which raises for traced arguments."""

    def general(*args, **kwargs):
        args = [list(x) if hasattr(x, "__next__") else x for x in args]
        held = (args, list(kwargs.values()))
        if is_traced(held):
            raise refusal(held, f"{name} has no derivative{at()}: {reason}", UnsupportedFunctionError)
        return fun(*args, **kwargs)

    return ScalarFunction(fun, general)


def as_floats(args: Any) -> list:
    return list(map(as_float, args))


def as_float_and_int(args: Any) -> list:
    return [as_float(args[0]), operator.index(args[1])]


def as_array(items: Any) -> Any:
    """Return an array of floats, some of them traced."""
    return dispatch.stacked(as_floats(items))


def python_floats(items: Any) -> list:
    return [python_float(as_float(x)) for x in items]


def log(x, base):
    """``math.log`` with a base."""
    return math_module.log(x) / math_module.log(base)


def hypot(*coordinates):
    """``math.hypot`` of any number of coordinates; the derivative at the origin is 0."""
    return python_float(applied(np.linalg.norm, [as_array(coordinates)], _values["math", "hypot"]))


def dist(p, q, /):
    p, q = tuple(p), tuple(q)
    if not is_traced((p, q)) or len(p) != len(q):
        return math.dist(var.plain(p), var.plain(q))
    return math_module.hypot(*map(operator.sub, python_floats(p), python_floats(q)))


def fsum(seq, /):
    seq = list(seq)
    if not is_traced(seq):
        return of_objects(lambda *items: math.fsum(items), lambda *items: fsum(items), seq)
    return python_float(applied(np.sum, [as_array(seq)], _values["math", "fsum"]))


def modf(x, /):
    """``math.modf``; the integral part is constant."""
    if not is_traced(x):
        return math.modf(x)
    whole = python_float(np.trunc(as_float(x)))
    return math.modf(whole)[0] if math_module.isinf(x) else math_module.fmod(x, 1.0), whole


def exponent(x):
    return math.frexp(x)[1]


def frexp(x, /):
    """``math.frexp``; the exponent is constant."""
    if not is_traced(x):
        return math.frexp(x)
    power = of_constant(exponent)(as_float(x))
    return math_module.ldexp(x, -power), power


def sumprod(p, q, /):
    p, q = list(p), list(q)
    if not is_traced((p, q)) or len(p) != len(q):
        return math.sumprod(var.plain(p), var.plain(q))
    if any(x.__class__ not in (int, float) for x in (*p, *q)):  # only Python floats are added exactly
        return sum(map(operator.mul, p, q))
    return python_float(applied(np.dot, [as_array(p), as_array(q)], _values["math", "sumprod"]))


_math_remainder = row(
    "math.remainder", "elementwise", partials=(1.0, lambda y, a, b: -np.rint((a - y) / b)), curvature="none"
)
_math_fma = row("math.fma", "elementwise", partials=(lambda v, x, y, z: y, lambda v, x, y, z: x, 1.0))


def wrong_count(fun):
    """Return a function that calls `fun` with a wrong number of arguments, so that `fun` raises its own error."""
    return lambda *args: fun(*var.plain(args))


def install_math() -> dict:
    found = {}
    for name, rule in _UFUNCS.items():
        fun = getattr(math, name, None)  # some are missing in old versions of Python
        if fun is not None:
            convert = as_float_and_int if name == "ldexp" else as_floats
            found[name] = of_ufunc(fun, rule, convert, python_float, wrong_count(fun))
    found["log"] = of_ufunc(math.log, np.log, as_floats, python_float, log)
    found["hypot"] = of_ufunc(math.hypot, np.hypot, as_floats, python_float, hypot)
    found["remainder"] = of_row(math.remainder, _math_remainder)
    if hasattr(math, "fma"):
        found["fma"] = of_row(math.fma, _math_fma)
    for traced in (dist, fsum, modf, frexp, sumprod):
        if hasattr(math, traced.__name__):
            found[traced.__name__] = ScalarFunction(getattr(math, traced.__name__), traced)
            evaluated(getattr(math, traced.__name__), traced)
    return found


# cmath ------------------------------------------------------------------------------------------------------


def as_complexes(args: Any) -> list:
    return list(map(as_complex, args))


def phase(z, /):
    z = as_complex(z)
    return math_module.atan2(z.imag, z.real)


def polar(z, /):
    z = as_complex(z)
    return python_float(applied(np.absolute, [z], _modulus)), phase(z)


def modulus(z):
    return cmath.polar(z)[0]


_modulus = evaluated(modulus, lambda z: polar(z)[0])


def rect(r, phi, /):
    r, phi = python_floats((r, phi))
    return to_complex(r * math_module.cos(phi), r * math_module.sin(phi))


def complex_log(z, base):
    """``cmath.log`` with a base."""
    return cmath_module.log(z) / cmath_module.log(base)


def install_cmath() -> dict:
    found = {}
    for name, rule in _COMPLEX_UFUNCS.items():
        fun = getattr(cmath, name)
        found[name] = of_ufunc(fun, rule, as_complexes, unchanged, wrong_count(fun))
    found["log"] = of_ufunc(cmath.log, np.log, as_complexes, unchanged, complex_log)
    for traced in (phase, polar, rect):
        found[traced.__name__] = ScalarFunction(getattr(cmath, traced.__name__), if_traced(cmath, traced))
    return found


def unchanged(y: Any) -> Any:
    return y


def if_traced(module: types.ModuleType, traced: Callable) -> Callable:
    """Return a function that calls `traced` if an argument is traced, else the function of that name in `module`."""
    fun = getattr(module, traced.__name__)
    return lambda *args: traced(*args) if is_traced(args) else fun(*args)


# conversions ------------------------------------------------------------------------------------------------


def to_float(x: Any) -> Any:
    """``float`` of a traced value: the scalar itself, as a Python float."""
    y = var.float_of(x)
    if y is not x or var.as_numpy(x) is not x:
        return y
    if isinstance(x, Lifted):
        return x if not x.ndim and x.dtype == np.float64 else float(x)
    return python_float(as_float(x))


#: functions of one traced float that equal methods of ``float``
_UNARY_METHODS = {"neg": operator.neg, "pos": operator.pos, "abs": abs, "bool": bool, "float": to_float}


def float_method(name: str, *args: Any) -> Any:
    """Call a method of ``float`` that is an operator, such as ``float.__mul__``, with possibly traced arguments."""
    fun = getattr(float, name)
    if not args or not is_traced(args) or not isinstance(args[0], float):
        return fun(*args)
    args = [to_float(x) if is_traced(x) and isinstance(x, float) else x for x in args]
    word = name.strip("_")
    if len(args) == 1 and word in _UNARY_METHODS:
        return _UNARY_METHODS[word](*args)
    if len(args) != 2:
        return fun(*args)
    if not isinstance(args[1], (float, int)):
        return NotImplemented
    if is_reflected := not hasattr(operator, name) and name != "__divmod__":
        word = word[1:]
    return (divmod if word == "divmod" else getattr(operator, word))(*(reversed(args) if is_reflected else args))


def to_complex(real: Any, imag: Any = None) -> Any:
    """``complex`` of traced values."""
    if imag is None:
        return as_complex(real)
    if any(np.iscomplexobj(var.plain(x)) for x in (real, imag)):
        return as_complex(real) + as_complex(imag) * 1j
    return as_array((real, imag)).view(np.complex128)[0]


# sum ------------------------------------------------------------------------------------------------------


def total(iterable, /, start=0):
    """``sum`` from Python 3.12 on, which compensates for rounding errors when it adds Python floats."""
    items = [start, *iterable]
    if not any(map(var.holds_float, items)) or not all(x.__class__ in (int, float) for x in items):
        return sum(items[1:], start)
    return python_float(applied(np.sum, [as_array(items)], _values["builtins", "sum"]))


def install() -> None:
    """Register the modules and their functions for rebinding."""
    register_module(math, math_module, install_math)
    register_module(cmath, cmath_module, install_cmath)


def register_module(module: types.ModuleType, ours: types.ModuleType, functions: Callable) -> None:
    """Fill `ours`, the proxy of a module, with versions of its functions for traced arguments, and register it."""
    name = module.__name__
    found = {word: of_constant(getattr(module, word)) for word in CONSTANT[name] if hasattr(module, word)}
    for word, reason in REFUSED[name].items():
        if hasattr(module, word):
            found[word] = refusing(getattr(module, word), f"{name}.{word}", reason)
    vars(ours).update(vars(module) | found)
    found |= functions()
    vars(ours).update(found)
    for word, traced in found.items():
        register = registration.register_class if isinstance(traced, type) else registration.register
        register(getattr(module, word), traced)
    registration.register(module, ours)


evaluated(sum, total)
install()
