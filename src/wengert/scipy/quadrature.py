"""Adaptive quadrature of `scipy.integrate` with exact derivatives of the integral.

Every function has the signature and the results of SciPy's.  The value is, to the last bit, SciPy's for plain numbers.
Within a derivative the integral is a function of its limits and of all traced values that the integrand reads, from its
closure or from ``args``; error estimates and reports are those of the value, as plain numbers.
Derivatives (`wengert.scipy.integral`) are integrals of the partials by the same method and with the same limits,
breakpoints, weight and tolerances.
A traced value in any other argument raises an error.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable

import numpy as np
import scipy.integrate

from wengert.containers import plain_copy, stopped
from wengert.core.dispatch.dispatch import replaced_value
from wengert.core.levels import is_recording
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.errors import NonSmoothError, TracedValueError
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import in_derivative
from wengert.program.integration.integrand import Callback
from wengert.program.integration.jumps import change
from wengert.program.tracing.trace import recording
from wengert.scipy.integral import Integral, Integrand, flat, has_value, in_c
from wengert.scipy.jumps import breakpoints, is_continuous, middle, moving_jump, subintervals
from wengert.scipy.mirror import check_plain
from wengert.transforms.products import frames_inside

#: maximum number of partials that are integrated one by one; more are integrated together
MAX_SINGLE = 64


def mirrors(original: Callable) -> Callable:
    """Decorator: turn ``body(name, arguments)``, with SciPy's arguments as a dict, into the mirror of `original`."""
    signature = inspect.signature(original)
    parameters = signature.parameters.values()
    positional = tuple(p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = frozenset(p.name for p in parameters if p.default is inspect.Parameter.empty)
    defaults = {p.name: p.default for p in parameters if p.name not in required}
    name = original.__name__

    def decorate(body):
        @functools.wraps(original)
        def mirror(*args, **kwargs):
            if not in_derivative():
                return original(*args, **kwargs)
            given = dict(zip(positional, args))
            is_known = len(args) <= len(positional) and given.keys().isdisjoint(kwargs)
            given = defaults | given | kwargs
            if not (is_known and required <= given.keys() and len(given) == len(required) + len(defaults)):
                inspect.signature(original).bind(*args, **kwargs)  # raises
            return body(f"scipy.integrate.{name}", given)

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


def _limit(name, x):
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
        end_recording(f"{method.name} with full_output=True reports on a single run")
    found = Integral(integrand, limits, method, has_error=True)(*operands)
    return method.restored(found[0] if method.is_scalar else found[:-1]), stopped(found[-1])


def end_recording(reason: str) -> None:
    """Abort the recording, so that the compiled function runs eagerly."""
    from wengert.program.tracing.refusals import NotReplayable

    raise NotReplayable(reason)


class _Quad:
    """`scipy.integrate.quad` for a real integrand."""

    is_scalar = True

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.rest: tuple = ()
        self.known = Known()

    def value(self, integrand, values, a, b):
        with in_c(integrand, values) as found:
            f, args, samples = (found.function(0), (), None) if found else integrand.first_parts(values)
            f = samples.of(f) if samples and has_value(f) else f
            y, error, report, *problem = scipy.integrate.quad(f, a, b, args=args, **{**self.options, "full_output": 1})
        self.known = Known(a, b, values, report, samples)
        if self.options["full_output"]:
            return np.float64(y), error, report, *problem
        if problem:
            warnings.warn(problem[0], scipy.integrate.IntegrationWarning, stacklevel=frames_inside())
        return np.float64(y), error

    def restored(self, y):
        """Return the integral in the shape of SciPy's result."""
        return y

    def weight(self, x):
        kind, wvar = self.options["weight"], self.options["wvar"]
        if kind is None:
            return None
        if kind == "cauchy":
            return 1 / (x - wvar)
        return {"cos": np.cos, "sin": np.sin}[kind](wvar * x)

    @property
    def _reporting(self):
        """The options, with a report instead of warnings."""
        options = {**self.options, "full_output": 1}
        if options["weight"] is not None:
            options["points"] = None  # ignored by SciPy, with a warning
        return options

    def examined(self, integrand, values, a, b):
        """Return breakpoints for the partials, the ends of subintervals of the integral; raise if a jump moves."""
        count = integrand.count(values)
        if count > MAX_SINGLE:
            return _examined(self.name, integrand, values, a, b, {"points": self.options["points"]})
        reports = self.known.reports(integrand, values, a, b)
        is_smooth = integrand.native.is_continuous(integrand.order)
        if reports:
            self.known.check(self.name, integrand, values)
        with integrand.at(values) as f:
            if not reports:
                is_number = isinstance(integrand, Integrand) and not isinstance(f, Callback)
                elements = [f] if is_number else _elements(f, count)
                reports = [scipy.integrate.quad(element, a, b, **self._reporting)[2] for element in elements]
            is_short = all(report.get("last", 0) <= 1 for report in reports)
            if is_short and (is_smooth or is_continuous(f, middle(a, b))):
                return ()
        intervals = np.concatenate([subintervals(report, a, b) for report in reports])
        if not is_smooth:
            _check_jumps(self.name, integrand, values, intervals)
        return () if self.options["weight"] is not None else breakpoints(intervals)

    def partials(self, f, a, b, count, points):
        options = self._reporting
        if len(points):
            options["points"] = np.concatenate([() if options["points"] is None else options["points"], points])
            options["limit"] += len(points)
        if options["weight"] is None and count > MAX_SINGLE:
            names = ("epsabs", "epsrel", "points")
            return _integral(self.name, f, a, b, {name: options[name] for name in names})
        found = np.empty(count)
        for i, partial in enumerate(_elements(f, count)):
            found[i], error, _, *problem = scipy.integrate.quad(partial, a, b, **options)
            if problem:
                warn(self.name, error, problem[0])
        return found


class Known:
    """SciPy's report on the value of an integral, and samples of its integrand."""

    def __init__(self, a=None, b=None, values=(), report=None, samples=None):
        self.a, self.b, self.values, self.report, self.samples = a, b, values, report, samples

    def check(self, name, integrand, values):
        """Raise if the integrand no longer returns the sampled values."""
        if self.samples and all(map(np.array_equal, values, self.values)):
            f = integrand.prepared()(values)
            self.samples.check(name, lambda x, _: f(x), flat)

    def reports(self, integrand, values, a, b):
        """Return the report in a list if it belongs to this integral of the user's function, else an empty list."""
        if not isinstance(integrand, Integrand) or (a, b) != (self.a, self.b):
            return []
        return [self.report] if all(map(np.array_equal, values, self.values)) else []


def _elements(f, count):
    """Yield the elements of a function with 1-D values; its values are cached, since elements share most nodes."""
    if isinstance(f, Callback):
        yield from map(f.function, range(count))
        return
    known: dict = {}
    for i in range(count):

        def element(x, i=i):
            row = known.get(x)
            if row is None:
                row = known[x] = f(x).tolist()
            return row[i]

        yield element


def _check_jumps(name, integrand, values, intervals):
    """Raise if the integrand jumps at a point that moves with its values."""
    with contextlib.ExitStack() as stack:

        def entered(values):
            f = stack.enter_context(integrand.at(values))
            return lambda x: np.array(f(x), dtype=float, ndmin=1)

        x = moving_jump(entered(values), lambda: entered([change(*values)]), intervals)
    if x is not None:
        raise jump_error(name, f"x = {x:.6g}")


def jump_error(name: str, place: str) -> NonSmoothError:
    return NonSmoothError(
        f"{name}: the integrand, or its derivative, jumps at {place}, and the jump moves with a traced value, "
        "which gives the integral a further term: split the integral there, with the traced location as a limit of "
        "both parts"
    )


def _by_quad_vec(f, a, b, options):
    """Integrate a function with many elements at once; return the result with a report."""
    return scipy.integrate.quad_vec(f, a, b, norm="max", full_output=True, **options)


def _integral(name, f, a, b, options):
    """Integrate a function with many elements at once."""
    y, error, report = _by_quad_vec(f, a, b, options)
    if not report.success:
        warn(name, error, report.message)
    return y


def _examined(name, integrand, values, a, b, options, report=None):
    """Return the breakpoints between the subintervals of `quad_vec`; raise if a jump moves."""
    if report is None:
        with integrand.at(values) as f:
            report = _by_quad_vec(f, a, b, options)[2]
    intervals = subintervals(report, a, b)
    _check_jumps(name, integrand, values, intervals)
    return breakpoints(intervals)


def warn(name: str, error: float, reason: str, limit: str = "limit") -> None:
    """Warn that a derivative is inaccurate; `limit` names the option that limits the effort.

    Nothing is shown while rules of programs are traced, since their operands are arbitrary.
    """
    around = recording.get()
    if around is not None and not around.warns:
        return
    warnings.warn(
        f"{name}: the integral of a partial derivative of the integrand has not converged, its estimated error is "
        f"{error:.2g}: the derivative may be inaccurate. Split the interval where the partial derivative is not smooth "
        f"(points=), or raise {limit}. SciPy's reason: {' '.join(reason.split())}",
        scipy.integrate.IntegrationWarning,
        stacklevel=frames_inside(),
    )


@mirrors(scipy.integrate.quad)
def quad(name, given):
    """Partials are integrated one by one, at shared nodes."""
    is_moved = given["weight"] in ("cos", "sin", "cauchy") and var.is_traced(given["wvar"])
    check_plain(name, "integral", given, "func", "a", "b", "args", *(["wvar"] if is_moved else []))
    func, args = given.pop("func"), given.pop("args")
    args = args if isinstance(args, tuple) else (args,)
    a, b = (_limit(name, given.pop(key)) for key in "ab")
    if is_moved:
        return _with_moved_weight(name, func, args, a, b, given)
    if given.pop("complex_func"):
        parts = (_integrand(name, _PartOf(part, func), args, a, b) for part in (np.real, np.imag))
        real, imag = (_integrated(part, a, b, _Quad(name, given), given["full_output"]) for part in parts)
        rest = [real[1] + 1j * imag[1]]
        if given["full_output"]:
            rest.append({"real": real[2:], "imag": imag[2:]})
        return real[0] + 1j * imag[0], *rest
    if str(given["weight"]).startswith("alg") and var.holds_traced((a, b)):
        return _algebraic(name, func, args, a, b, given)
    return _integrated(_integrand(name, func, args, a, b), a, b, _Quad(name, given), given["full_output"])


def _with_moved_weight(name, func, args, a, b, options):
    """Integrate with a weight that depends on a traced value, by a change of variables that removes the dependence.

    The new variable is the phase of a trigonometric weight, or the distance from the pole of Cauchy's.
    """
    if is_recording():
        end_recording(f"{name} with a weight that depends on values")
    wvar, plain, f = options["wvar"], float(plain_copy(options["wvar"])), rebound(func)
    given, scale = {**options, "wvar": plain}, 1.0
    if options["weight"] == "cauchy":
        shift = wvar - plain
        a, b = a - shift, b - shift

        def moved(x, *args):
            return f(x + shift, *args)

    elif plain:
        ratio = wvar / plain
        a, b, scale = *[x if np.isinf(x) else x * ratio for x in (a, b)], 1.0 / ratio

        def moved(x, *args):
            return f(x / ratio, *args)

    else:
        raise TracedValueError(
            f"{name}: the derivative in a frequency wvar of zero is not available: write the weight into the integrand"
        )
    y, *rest = quad(moved, a, b, args=args, **given)
    return scale * y, *rest


def _integrand(name, func, args, a, b):
    """Return an integrand of one number, which programs evaluate in C if they can."""
    point = middle(*map(float, plain_copy((a, b))))
    return Integrand(func, args, point=(name, point), is_nested=isinstance(func, _Inner))


def _algebraic(name, func, args, a, b, options):
    """Integrate with an algebraic weight over traced limits.

    The weight is singular at the limits, so the interval is mapped to [0, 1], where x depends on the limits.
    """
    if is_recording():
        end_recording(f"{name} with an algebraic weight depends on the limits")
    plain = [stripped(x) for x in (func, args, a, b)]
    value, *rest = scipy.integrate.quad(plain[0], *map(float, plain[2:]), args=plain[1], **options)
    sign = 1.0
    if plain[3] < plain[2]:
        a, b, sign = b, a, -1.0
    h = b - a
    alpha, beta = options["wvar"]

    def part(weight):
        f = rebound(func)
        given = {**options, "weight": weight, "full_output": 0}
        return quad(lambda u: f(a + h * u, *args), 0.0, 1.0, **given)[0]

    y = part(options["weight"])
    if options["weight"] != "alg":
        length = np.log(h)  # log(x - a) = log(h) + log(u)
        if options["weight"] == "alg-log":
            y = y + length * (part("alg-loga") + part("alg-logb") + length * part("alg"))
        else:
            y = y + length * part("alg")
    return replaced_value(sign * y * h ** (alpha + beta + 1.0), value), *rest


class _PartOf:
    def __init__(self, part, func):
        self.part, self.func = part, func

    def __call__(self, x, *args):
        return self.part(rebound(self.func)(x, *args))


# ---- arrays


class QuadVec:
    """`scipy.integrate.quad_vec`."""

    def __init__(self, name, options):
        self.name, self.options = name, options
        self.rest: tuple = ()
        self.known = Known()
        self.shape: tuple = ()
        self.is_complex = False

    @property
    def is_scalar(self):
        """Whether the integral is one real number."""
        return not (self.shape or self.is_complex)

    def value(self, integrand, values, a, b):
        f, args, samples = integrand.first_parts(values)
        if args:  # bind them, since older versions of `quad_vec` have no ``args=``
            f = functools.partial(_with_args, f, args)
        f = samples.of(f) if samples and self.options["workers"] == 1 else f
        y, error, report = scipy.integrate.quad_vec(f, a, b, **{**self.options, "full_output": True})
        self.known = Known(a, b, values, report, samples)
        self.shape, self.is_complex = np.shape(y), np.iscomplexobj(y)
        y = np.array(flat(y), dtype=float)[()]
        return (y, error, report) if self.options["full_output"] else (y, error)

    def restored(self, y):
        if self.is_complex:
            n = np.size(y) // 2
            return np.reshape(y[:n], self.shape) + 1j * np.reshape(y[n:], self.shape)
        return np.reshape(y, self.shape) if self.shape else y

    def weight(self, x):
        return None

    @property
    def _plain_options(self):
        names = ("epsabs", "epsrel", "cache_size", "limit", "points", "quadrature")
        return {name: self.options[name] for name in names}

    def examined(self, integrand, values, a, b):
        report = (self.known.reports(integrand, values, a, b) or [None])[0]
        if report is not None:
            self.known.check(self.name, integrand, values)
        return _examined(self.name, integrand, values, a, b, self._plain_options, report)

    def partials(self, f, a, b, count, points):
        options = self._plain_options
        if len(points):
            options["points"] = [*(options["points"] or ()), *points]
        return _integral(self.name, f, a, b, options)


def _with_args(f, args, x):
    return f(x, *args)


@mirrors(scipy.integrate.quad_vec)
def quad_vec(name, given):
    """Partials of all elements are integrated at once, and the norm of their error is the maximum norm."""
    check_plain(name, "integral", given, "f", "a", "b", "args")
    f, args = given.pop("f"), given.pop("args", ())
    args = args if isinstance(args, tuple) else (args,)
    a, b = (_limit(name, given.pop(key)) for key in "ab")
    return _integrated(Integrand(f, args), a, b, QuadVec(name, given), given["full_output"])


# ---- several variables


class _Inner:
    """The function of the outermost variable that `scipy.integrate.nquad` integrates: the integral over all others."""

    def __init__(self, func, ranges, opts):
        self.func, self.ranges, self.opts = func, ranges, opts

    def __call__(self, *args):
        return self.at_depth(1, args)

    def at_depth(self, depth, args):
        """Integrate over all variables but the outermost `depth`, whose values come first in `args`."""
        if depth == len(self.ranges):  # `nquad` over a single variable
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
        inner, args, samples = integrand.first_parts(values)
        ranges = [*inner.ranges[:-1], (a, b)]
        y, *rest = scipy.integrate.nquad(inner.func, ranges, args=args, opts=inner.opts, full_output=self.full_output)
        if samples:
            samples.of(inner)(middle(a, b), *args)
            self.known = Known(a, b, values, None, samples)
        return np.float64(y), *rest

    def examined(self, integrand, values, a, b):
        if self.known.samples and self.known.reports(integrand, values, a, b):
            self.known.check(self.name, integrand, values)
            self.known = Known()  # SciPy returns no report on the outermost integral
        return super().examined(integrand, values, a, b)


@mirrors(scipy.integrate.nquad)
def nquad(name, given):
    """Derivatives are those of the nested integrals, so limits of inner integrals may be traced."""
    return _nquad(name, given["func"], given["ranges"], given["args"] or (), given["opts"], given["full_output"])


def _nquad(name, func, ranges, args, opts, full_output=False):
    opts = [opts or {}] * len(ranges) if opts is None or isinstance(opts, dict) else list(opts)
    check_plain(name, "integral", {"opts": opts})
    args = args if isinstance(args, tuple) else tuple(args)
    a, b = (_limit(name, x) for x in _range(ranges[-1], args))
    given = inspect.signature(scipy.integrate.quad).bind(func, a, b, **_options(opts[-1], args, a, b))
    given.apply_defaults()
    options = {key: x for key, x in given.arguments.items() if key not in ("func", "a", "b", "args", "complex_func")}
    integrand = _integrand(name, _Inner(func, list(ranges), opts), args, a, b)
    return _integrated(integrand, a, b, _NQuad(name, options, full_output), full_output)


def _end(limit):
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
    check_plain(name, "integral", tolerances)
    return tolerances
