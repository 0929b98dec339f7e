"""Adaptive quadrature of `scipy.integrate` with exact derivatives of the integral.

Every function has the signature and the results of SciPy's.  The value is, to the last bit, SciPy's for plain numbers.
Within a derivative the integral is a function of its limits and of all traced values that the integrand reads, from its
closure or from ``args``; error estimates and reports are those of the value, as plain numbers.
`wengert.scipy.integral` derives the derivatives: integrals of the partials by the same method and with the same limits,
breakpoints, weight and tolerances.
A traced value in any other argument raises an error.
"""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate

from wengert.containers import stopped
from wengert.core.levels import is_recording
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.errors import TracedValueError
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import in_derivative
from wengert.scipy.integral import Integral, Integrand, flat
from wengert.transforms.products import frames_inside

#: maximum number of partials that are integrated one by one; more are integrated at once
MAX_SINGLE = 64


def mirrors(original: Callable) -> Callable:
    """Decorator: turn a function of SciPy's arguments, by name, into the mirror of `original`."""
    signature = inspect.signature(original)
    parameters = signature.parameters.values()
    positional = [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
    defaults = {p.name: p.default for p in parameters}
    required = {p.name for p in parameters if p.default is inspect.Parameter.empty}
    name = original.__name__

    def decorate(body):
        @functools.wraps(original)
        def mirror(*args, **kwargs):
            if not in_derivative():
                return original(*args, **kwargs)
            given = dict(zip(positional, args))
            if len(args) > len(positional) or not given.keys().isdisjoint(kwargs):
                signature.bind(*args, **kwargs)  # raises
            given |= kwargs
            if not (given.keys() <= defaults.keys() and required <= given.keys()):
                signature.bind(*args, **kwargs)
            return body(f"scipy.integrate.{name}", defaults | given)

        del mirror.__wrapped__
        mirror.__module__ = "wengert.scipy.integrate"
        mirror.__signature__ = signature
        mirror.__doc__ = _DOC.format(name=name, text=" ".join(body.__doc__.split()))
        return mirror

    return decorate


_DOC = """`scipy.integrate.{name}` with exact derivatives of the integral.

{text}

Parameters
----------
*args, **kwargs
    Those of `scipy.integrate.{name}`.

Returns
-------
As `scipy.integrate.{name}`
    The same bits. Within a derivative the integral is a function of its limits and of all traced values that the
    integrand reads; error estimates and reports are plain.

Raises
------
TracedValueError
    If a tolerance or another option is a traced value, or the integrand reads one that cannot be found.

Warns
-----
IntegrationWarning
    SciPy's for the integral; if an integral of partials does not converge, one that says so.

Notes
-----
The derivative of an integrand that jumps where a traced value says lacks a term: split the integral there, with the
traced value as a limit.
"""


def _check_plain(name, given, *traceable):
    """Raise if an argument other than the given ones holds a traced value."""
    for key, value in given.items():
        if type(value) not in _PLAIN and key not in traceable and stripped(value) is not value:
            raise TracedValueError(
                f"{name}: {key} is traced, but the integral has no derivative with respect to it: pass "
                f"wengert.stop_gradient({key}), or compute it from plain numbers"
            )


_PLAIN = frozenset((int, float, str, bool, type(None)))


def _limit(name, x):
    """Return a limit as a scalar."""
    if np.ndim(x) and np.size(x) != 1:
        raise ValueError(f"{name}: a limit is a scalar, not an array of shape {np.shape(x)}")
    return np.reshape(x, ()) if np.ndim(x) else x


def _integrated(integrand, a, b, method, full_output):
    """Return the integral as a function of its traced limits and values, and the rest of SciPy's result."""
    limits = tuple(None if var.is_traced(x) else x for x in (a, b))
    operands = [x for x in (a, b) if var.is_traced(x)] + integrand.operands
    if not is_recording():
        y = Integral(integrand, limits, method)(*operands)
        return method.restored(y), *method.rest
    if full_output:
        from wengert.program.tracing.closure import NotReplayable

        raise NotReplayable(f"{method.name} with full_output=True reports on a single run")
    found = Integral(integrand, limits, method, has_error=True)(*operands)
    return method.restored(found[0] if method.is_scalar else found[:-1]), stopped(found[-1])


class _Quad:
    """`scipy.integrate.quad` for a real integrand."""

    is_scalar = True

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.rest: tuple = ()

    def value(self, integrand, values, a, b):
        f, args = integrand.parts(values)
        y, *self.rest = scipy.integrate.quad(f, a, b, args=args, **self.options)
        return np.float64(y)

    def restored(self, y):
        """Return the integral in its shape."""
        return y

    def weight(self, x):
        """Weight at a limit."""
        kind, wvar = self.options["weight"], self.options["wvar"]
        if kind is None:
            return None
        return 1 / (x - wvar) if kind == "cauchy" else np.cos(wvar * x) if kind == "cos" else np.sin(wvar * x)

    def partials(self, f, a, b, count):
        options = {**self.options, "full_output": 1}
        if options["weight"] is not None:
            options["points"] = None  # ignored by SciPy, with a warning
        elif count > MAX_SINGLE:
            names = ("epsabs", "epsrel", "points")
            return _by_quad_vec(self.name, f, a, b, {name: options[name] for name in names})
        known: dict = {}  # partials by node; most nodes are common to all of them
        found = np.empty(count)
        for i in range(count):

            def partial(x, i=i):
                row = known.get(x)
                if row is None:
                    row = known[x] = f(x).tolist()
                return row[i]

            found[i], error, _, *problem = scipy.integrate.quad(partial, a, b, **options)
            if problem:
                _warn(self.name, error, problem[0])
        return found


def _by_quad_vec(name, f, a, b, options):
    """Integrate a function with many elements at once."""
    y, error, report = scipy.integrate.quad_vec(f, a, b, norm="max", full_output=True, **options)
    if not report.success:
        _warn(name, error, report.message)
    return y


def _warn(name, error, reason):
    """Warn that a derivative is inaccurate."""
    warnings.warn(
        f"{name}: the integral of a partial derivative of the integrand has not converged, its estimated error is "
        f"{error:.2g}: the derivative may be inaccurate. Split the interval where the partial derivative is not smooth "
        f"(points=), or raise limit. SciPy's reason: {' '.join(reason.split())}",
        scipy.integrate.IntegrationWarning,
        stacklevel=frames_inside(),
    )


@mirrors(scipy.integrate.quad)
def quad(name, given):
    """Partials are integrated one by one, at shared nodes."""
    _check_plain(name, given, "func", "a", "b", "args")
    func, args = given.pop("func"), given.pop("args")
    args = args if isinstance(args, tuple) else (args,)
    a, b = (_limit(name, given.pop(key)) for key in "ab")
    if given.pop("complex_func"):
        real, imag = (_part_of_quad(part, name, func, args, a, b, given) for part in (np.real, np.imag))
        rest = [real[1] + 1j * imag[1]]
        if given["full_output"]:
            rest.append({"real": real[2:], "imag": imag[2:]})
        return real[0] + 1j * imag[0], *rest
    return _integrated(Integrand(func, args), a, b, _Quad(name, given), given["full_output"])


def _part_of_quad(part, name, func, args, a, b, options):
    """Integrate the real or the imaginary part."""
    integrand = Integrand(_PartOf(part, func), args)
    return _integrated(integrand, a, b, _Quad(name, options), options["full_output"])


class _PartOf:
    """The real or imaginary part of a function."""

    def __init__(self, part, func):
        self.part, self.func = part, func

    def __call__(self, x, *args):
        return self.part(rebound(self.func)(x, *args))


# ---- arrays


class _QuadVec:
    """`scipy.integrate.quad_vec`."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.rest: tuple = ()
        self.shape: tuple = ()
        self.is_complex = False

    @property
    def is_scalar(self):
        """Whether the integral is one real number."""
        return not (self.shape or self.is_complex)

    def value(self, integrand, values, a, b):
        f, args = integrand.parts(values)
        if args:  # as a function of x alone for versions of SciPy without args=
            f = functools.partial(_with_args, f, args)
        y, *self.rest = scipy.integrate.quad_vec(f, a, b, **self.options)
        self.shape, self.is_complex = np.shape(y), np.iscomplexobj(y)
        return np.array(flat(y), dtype=float)[()]

    def restored(self, y):
        if self.is_complex:
            n = np.size(y) // 2
            return np.reshape(y[:n], self.shape) + 1j * np.reshape(y[n:], self.shape)
        return np.reshape(y, self.shape) if self.shape else y

    def weight(self, x):
        return None

    def partials(self, f, a, b, count):
        names = ("epsabs", "epsrel", "cache_size", "limit", "points", "quadrature")
        return _by_quad_vec(self.name, f, a, b, {name: self.options[name] for name in names})


def _with_args(f, args, x):
    return f(x, *args)


@mirrors(scipy.integrate.quad_vec)
def quad_vec(name, given):
    """Partials of all elements are integrated at once, and the norm of their error is the maximum norm."""
    _check_plain(name, given, "f", "a", "b", "args")
    f, args = given.pop("f"), given.pop("args", ())
    args = args if isinstance(args, tuple) else (args,)
    a, b = (_limit(name, given.pop(key)) for key in "ab")
    return _integrated(Integrand(f, args), a, b, _QuadVec(name, given), given["full_output"])


# ---- several variables


class _Inner:
    """Integrals over all variables but the outermost, as a function of it: what `scipy.integrate.nquad` integrates."""

    def __init__(self, func, ranges, opts):
        self.func, self.ranges, self.opts = func, ranges, opts

    def __call__(self, *args):
        return self.at_depth(1, args)

    def at_depth(self, depth, args):
        """Integrate over all variables but the outermost `depth`, whose values are the first of `args`."""
        if depth == len(self.ranges):  # there is one variable
            return rebound(self.func)(*args)
        low, high = _range(self.ranges[-depth - 1], args)
        options = _options(self.opts[-depth - 1], args, low, high)
        f = self.func if depth + 1 == len(self.ranges) else lambda *xs: self.at_depth(depth + 1, xs)
        return quad(f, low, high, args=args, **options)[0]


def _range(given, args):
    return rebound(given)(*args) if callable(given) else given


def _options(given, args, low, high):
    """Return the options of one integral, as `scipy.integrate.nquad` passes them to `quad`."""
    options = dict(rebound(given)(*args) if callable(given) else given)
    if "points" in options:
        options["points"] = [x for x in options["points"] if low <= x <= high]
    return options


class _NQuad(_Quad):
    """The outermost integral of `scipy.integrate.nquad`, whose integrand is an `_Inner`."""

    def __init__(self, name, options, full_output):
        super().__init__(name, options)
        self.full_output = full_output

    def value(self, integrand, values, a, b):
        inner, args = integrand.parts(values)
        ranges = [*inner.ranges[:-1], (a, b)]
        y, *self.rest = scipy.integrate.nquad(
            inner.func, ranges, args=args, opts=inner.opts, full_output=self.full_output
        )
        return np.float64(y)


@mirrors(scipy.integrate.nquad)
def nquad(name, given):
    """Derivatives are those of the nested integrals, so limits of inner integrals may be traced."""
    return _nquad(name, given["func"], given["ranges"], given["args"] or (), given["opts"], given["full_output"])


def _nquad(name, func, ranges, args, opts, full_output=False):
    opts = [opts or {}] * len(ranges) if opts is None or isinstance(opts, dict) else list(opts)
    _check_plain(name, {"opts": opts})
    args = args if isinstance(args, tuple) else tuple(args)
    a, b = (_limit(name, x) for x in _range(ranges[-1], args))
    given = inspect.signature(scipy.integrate.quad).bind(func, a, b, **_options(opts[-1], args, a, b))
    given.apply_defaults()
    options = {key: x for key, x in given.arguments.items() if key not in ("func", "a", "b", "args", "complex_func")}
    integrand = Integrand(_Inner(func, list(ranges), opts), args)
    return _integrated(integrand, a, b, _NQuad(name, options, full_output), full_output)


def _end(limit):
    """Return a limit of an inner integral as a function."""
    return limit if callable(limit) else lambda *_: limit


@mirrors(scipy.integrate.dblquad)
def dblquad(name, given):
    """Derivatives are those of the nested integrals, so limits of the inner integral may be traced."""
    low, high = _end(given["gfun"]), _end(given["hfun"])
    ranges = [lambda x, *_: (rebound(low)(x), rebound(high)(x)), (given["a"], given["b"])]
    return _nquad(name, given["func"], ranges, given["args"], _tolerances(name, given))


@mirrors(scipy.integrate.tplquad)
def tplquad(name, given):
    """Derivatives are those of the nested integrals, so limits of inner integrals may be traced."""
    low, high, lowest, highest = (_end(given[key]) for key in ("gfun", "hfun", "qfun", "rfun"))
    ranges = [
        lambda y, x, *_: (rebound(lowest)(x, y), rebound(highest)(x, y)),
        lambda x, *_: (rebound(low)(x), rebound(high)(x)),
        (given["a"], given["b"]),
    ]
    return _nquad(name, given["func"], ranges, given["args"], _tolerances(name, given))


def _tolerances(name, given):
    tolerances = {key: given[key] for key in ("epsabs", "epsrel")}
    _check_plain(name, tolerances)
    return tolerances
