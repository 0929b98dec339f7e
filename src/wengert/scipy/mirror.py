"""A call of a mirrored SciPy function: its arguments and options, and the run of SciPy on plain values.

A mirror has SciPy's signature, followed by four keywords of wengert.
It passes its arguments to SciPy, with exact derivatives where SciPy would use finite differences.
Followed code that calls SciPy's own function calls a version without these keywords and with SciPy's finite
differences, so that its numbers are those of the plain call.
Within a derivative SciPy gets plain values, and so does every function passed to it. `wengert.implicit.theorem` then
makes the solution a function of the traced values.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import types
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.optimize

from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.levels import forget, lifted_around, noted, outside, passive
from wengert.core.operands.var import holds_traced, is_var
from wengert.core.rebind.rebind import rebound
from wengert.core.rebind.registration import register
from wengert.deferred import deferred
from wengert.errors import ConvergenceError, LevelError, TracedValueError, UnsupportedFunctionError
from wengert.implicit import theorem
from wengert.implicit.stripped import stripped
from wengert.transforms.custom import LinearMap
from wengert.transforms.operators import name_of

solvers = deferred("wengert.implicit.recorded")

#: keywords of wengert with their allowed values; the first is the default
OPTIONS = {
    "on_failure": ("raise", "warn", "nan"),
    "on_singular": ("raise", "lstsq", "nan"),
    "polish": ("auto", True, False),
    "derivs": ("auto", "scipy"),
}

#: relative Newton correction below which a solver that reports failure has found the solution
CONVERGED_CORRECTION = 1e-6

#: maximum number of unknowns for which a reported failure is checked by a Newton correction
MAX_CHECKED_UNKNOWNS = 2000

#: names of SciPy's parameters that are functions of the unknowns
_FUNCTIONS = (
    *("f", "fun", "func", "jac", "hess", "hessp", "fprime", "fprime2", "fhess", "fhess_p", "Dfun", "F"),
    *("f_eqcons", "f_ieqcons", "fprime_eqcons", "fprime_ieqcons"),
)

#: names of parameters that hold such functions
_CONSTRAINTS = ("constraints", "eqcons", "ieqcons", "cons")


def _leave_batch():
    """Let `wengert.vmap` run the solver for all elements at once, if it is called on a batch."""
    if lifted_around() is not None:
        from wengert.program.specialise.batches import leave_batch  # slow to import, like all of `wengert.program`

        leave_batch()


def mirrors(original: Callable, home: str = "", is_recordable: bool = False) -> Callable:
    """Decorator: turn a function of a `Call` into the mirror of `original`, with its signature and `OPTIONS`.

    Followed code calls it in place of `original`, with ``derivs="scipy"``.
    `home` names the module within `scipy.optimize` that holds `original`.
    `is_recordable` states whether programs can contain the solver; `vmap` then solves for all elements at once.
    """
    signature = inspect.signature(original)
    own = [key for key in OPTIONS if key not in signature.parameters]  # `differential_evolution` has ``polish``
    ours = [inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=OPTIONS[key][0]) for key in own]
    defaults = {key: allowed[0] for key, allowed in OPTIONS.items()}
    name, place = original.__name__, f"wengert.scipy.optimize.{home}".rstrip(".")
    extra = next((key for key, p in signature.parameters.items() if p.kind is p.VAR_KEYWORD), None)

    def decorate(body):
        def call(args, kwargs, options):
            arguments = signature.bind(*args, **kwargs).arguments
            arguments.update(arguments.pop(extra, {}))
            return Call(original, f"{place}.{name}", signature.parameters, arguments, options)

        def mirror(*args, **kwargs):
            if is_recordable:
                _leave_batch()
            return body(call(args, kwargs, defaults | {key: kwargs.pop(key) for key in own if key in kwargs}))

        @functools.wraps(original)
        def in_place(*args, **kwargs):
            if is_recordable:
                _leave_batch()
            made = call(args, kwargs, defaults | {"derivs": "scipy"})
            is_plain, found = made.run_plain()
            return found if is_plain else body(made)

        register(original, in_place)

        mirror.__name__ = mirror.__qualname__ = name
        mirror.__module__ = place
        mirror.__doc__ = _DOC.format(name=name, what=" ".join((body.__doc__ or "").split()))
        parameters = sorted([*signature.parameters.values(), *ours], key=lambda p: p.kind)
        mirror.__signature__ = signature.replace(parameters=parameters)
        return mirror

    return decorate


_DOC = """`scipy.optimize.{name}` with exact derivatives, both for the solver and of its solution.

{what}

Parameters
----------
*args, **kwargs
    Those of `scipy.optimize.{name}`.
on_failure : {{'raise', 'warn', 'nan'}}
    What to do within a derivative if the solver does not converge.
on_singular : {{'raise', 'lstsq', 'nan'}}
    What to do within a derivative if the equations do not determine the solution; ``'lstsq'`` returns the derivative
    of minimum norm.
polish : {{'auto', True, False}}
    Whether to take the derivative at the solution improved by Newton steps; ``'auto'`` if its error exceeds rounding.
derivs : {{'auto', 'scipy'}}
    Source of derivatives for the solver: exact ones unless the call passes its own, or those of SciPy.

Returns
-------
As `scipy.optimize.{name}`
    Within a derivative, functions of all traced values that the user's function reads. The values are, to the last
    bit, those of SciPy when called with the same derivatives.

Raises
------
ConvergenceError
    If the solver does not converge, within a derivative.
SingularJacobianError
    If the equations do not determine the solution, within a derivative.
TracedValueError
    If an exact derivative is to be passed to the solver, but the function cannot be traced.
"""


class Call:
    """A call of the mirrored SciPy function `original`, with its arguments and options."""

    def __init__(self, original: Callable, name: str, parameters: Mapping, arguments: dict, options: dict):
        self.name = name
        self.original = original
        self.parameters = parameters
        self.arguments = arguments
        self.options = options
        self.traced = theorem.in_derivative()
        self._errors: list[Exception] = []
        self.info: theorem.Info | None = None  # `Info` of the differentiated solution
        self._state: theorem.Info | None = None  # `Info` of the checked solution
        for key, allowed in OPTIONS.items():
            if not any(options[key] is value or options[key] == value for value in allowed):
                raise ValueError(f"{self.name}: {key} is one of {', '.join(map(repr, allowed))}, not {options[key]!r}")
        args = _as_tuple(original, self["args"]) if "args" in parameters else ()
        self._plain: dict | None = None
        f = next(iter(arguments.values()))
        given = (f, args, arguments.get("kwargs") or {}, self.returns_derivatives, self.name)
        self.value, self.residual = Value(*given), _Residual(*given)

    def recorded(
        self, solve: Callable, starts: tuple, shape: tuple, plain: dict, *, takes_derivatives: bool = True
    ) -> tuple:
        """Append the solver to the recording; return the solution and SciPy's outcome.

        Both are None if no program is being recorded. `plain` holds the other plain options of `solve`.
        """
        if not self.is_recorded or (takes_derivatives and self.options["derivs"] == "scipy"):
            return None, None
        for value in (*plain.values(), *(plain.get("options") or {}).values()):
            if holds_traced((value,)):
                raise TracedValueError(
                    f"{self.name}: a tolerance or an option is computed from traced arguments, but solvers take plain "
                    "numbers: write it as a constant"
                )
        return solvers.recorded(solve, self.residual, starts, self.name, shape, self.options["polish"])

    @property
    def is_recorded(self) -> bool:
        """Whether the program being recorded can contain this call with its options."""
        options = [self.options[name] for name in ("on_failure", "on_singular")]
        return theorem.is_recorded() and options == ["raise", "raise"] and not self.returns_derivatives

    def __getitem__(self, name):
        return self.arguments[name] if name in self.arguments else self.parameters[name].default

    @property
    def returns_derivatives(self):
        """Whether the function returns its derivatives along with its value."""
        given = [self.arguments.get(name) for name in ("jac", "fprime", "fprime2")]
        return any(not callable(x) and not isinstance(x, str) and x is not None and bool(x) for x in given)

    # -- SciPy

    def run(self, supply: Callable[[dict], None] | None = None, **forced: Any) -> Any:
        """Run SciPy on plain values; `supply` adds derivatives to the arguments."""
        theorem.check_replayable(self.name)
        arguments = {**self.arguments, **forced}
        if not self.traced:
            return self._scipy(arguments, supply)
        with passive():
            before = noted()
            try:
                with outside():
                    found = self._scipy({**self._stripped(), **forced}, supply)
            except Exception:
                if not self._met_hidden():
                    raise
            else:
                if not self._met_hidden():
                    return found
            self._errors.clear()
            forget(before)
            return self._scipy({name: plain_copy(value) for name, value in arguments.items()}, supply)

    def run_plain(self) -> tuple[bool, Any]:
        """Run SciPy; return whether it met no traced value, and the result."""
        if self.holds_traced:
            return False, None
        before, met = noted(), []
        arguments = self._wrapped(dict(self.arguments), lambda f: _Probe(f, met))
        try:
            found = self._original(arguments)
        except (LevelError, TracedValueError, UnsupportedFunctionError):
            forget(before)
            return False, None
        except Exception:
            if not met:
                raise
            found = None
        return not met, found

    def _stripped(self):
        """Return the arguments without traced values; SciPy does not modify containers of functions."""
        if self._plain is None:
            self._plain = stripped(self.arguments)
        return self._plain

    @property
    def holds_traced(self) -> bool:
        """Whether any argument holds a traced value, for example the start of the search or a tolerance."""
        return any(value is not self.arguments[name] for name, value in self._stripped().items())

    def plain(self, name: str) -> Any:
        """Return an argument without its traced values."""
        return self._stripped().get(name, self[name])

    def reads_traced(self, name: str, x: Any = None) -> bool:
        """Return whether an argument holds a traced value, or a function in it reads one at the point `x`."""
        given = self[name]
        return self._stripped().get(name) is not self.arguments.get(name) or any(
            holds_traced(rebound(f)(np.array(x), *args)) for f, args in _functions_in(given)
        )

    def _plain_residual(self):
        """Return `residual` with plain values in place of traced ones; None if no traced value has been found in it."""
        plain = self._stripped()
        f, name = next(iter(plain.values())), next(iter(plain))
        if all(plain.get(key) is self.arguments.get(key) for key in (name, "args", "kwargs")):
            return None
        args = _as_tuple(self.original, plain.get("args", ()))
        return _Residual(f, args, plain.get("kwargs") or {}, self.returns_derivatives, self.name)

    def _met_hidden(self):
        """Return whether a function read a traced value that `stripped` did not find."""
        return any(isinstance(error, (LevelError, TracedValueError)) for error in self._errors)

    def _scipy(self, arguments, supply):
        if supply is not None and self.options["derivs"] == "auto":
            supply(arguments)
        elif not self.traced:
            return self._original(arguments)
        try:
            return self._original(self._wrapped(arguments, lambda f: _Guarded(self, f)))
        except Exception as error:
            if not self._errors or error is self._errors[0]:
                raise
            raise self._errors[0] from error  # compiled code replaced this error by its own

    @staticmethod
    def _wrapped(arguments, wrap):
        for name in _FUNCTIONS:
            if callable(arguments.get(name)):
                arguments[name] = wrap(arguments[name])
        for name in _CONSTRAINTS:
            if arguments.get(name):
                arguments[name] = _with_functions(arguments[name], wrap)
        return arguments

    def _original(self, arguments):
        """Call SciPy's function; arguments are passed by name unless they are positional-only.

        Clean arrays, made by followed code to store traced values in, become plain ones.
        """
        arguments = {key: plain_copy(value) if is_var(value) else value for key, value in arguments.items()}
        first = [arguments.pop(key) for key, p in self.parameters.items() if p.kind is p.POSITIONAL_ONLY]
        return self.original(*first, **arguments)

    def refuse(self, error):
        return type(error)(
            f"{self.name}: the function cannot be differentiated: {error}. "
            "Pass derivs='scipy' to leave derivatives to SciPy, which takes finite differences, or pass them yourself"
        )

    # -- the solution

    def solution(self, residual: Callable, x: Any, converged: Any, message: str, **how: Any) -> Any:
        """Make the solution `x` of residual(x) = 0 a function of traced values; `x` itself if none are read.

        An array `converged` holds the status of each of several independent equations.
        """
        if not np.all(converged) and not self._is_close(residual, x, converged, how.get("symmetric", False)):
            y = residual(x)
            if not (holds_traced(y) or self.holds_traced):
                return x
            is_minimum = how.get("symmetric")
            value, derivative = ("gradient", "Hessian") if is_minimum else ("residual", "Jacobian")
            worst = np.max(np.abs(plain_copy(y)), where=~np.asarray(converged), initial=0)
            text = f"{message.strip().rstrip('.')}: the {value} is {worst:.3g} in its largest element"
            if self._state is not None:
                text += (
                    f", the reciprocal condition number of the {derivative} is {self._state.rcond:.2g}, and Newton's "
                    f"method would change x by a relative {self._state.correction:.2g}"
                )
                if is_minimum and self._state.rcond == 0 and worst > theorem.MIN_SLOPE:
                    text += "; the objective may be unbounded: add bounds or constraints, or check its sign"
            self.fail(text)
            if self.options["on_failure"] == "nan":
                unknown = _unknown(x, y, np.ndim(converged) > 0)
                if not np.any(converged):
                    return unknown
                found = self.solution(lambda z: np.where(converged, residual(z), z - x), x, True, "", **how)
                return np.where(converged, found, unknown)
        options = {name: self.options[name] for name in ("on_failure", "on_singular", "polish")}
        with contextlib.ExitStack() as block:
            if not np.all(converged):  # `fail` has reported it
                block.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", f"{self.name}: no solution", RuntimeWarning)
            plain = self._plain_residual() if residual is self.residual else None
            how["starts_traced"] = self.holds_traced
            found, self.info = theorem.implicit(residual, x, name=self.name, plain=plain, **options, **how)
        return found

    def _is_close(self, residual, x, converged, is_minimum):
        """Return whether the solver stopped so close to a solution that its result counts as one.

        Rounding errors keep many solvers from reaching their tolerance, and they then report failure.
        """
        if np.ndim(converged) or not 0 < np.size(x) <= MAX_CHECKED_UNKNOWNS or not np.isfinite(x).all():
            return False
        self._state = theorem.information(residual, x, (), self.name, "auto", "auto", is_minimum)
        return self._state.correction <= CONVERGED_CORRECTION

    def fail(self, text: str, cause: Exception | None = None) -> None:
        """Raise or warn according to `on_failure`; always raise if SciPy raised an exception."""
        text = f"{self.name} has not converged. {' '.join(text.split()).rstrip('.')}"
        if cause is not None or self.options["on_failure"] == "raise":
            raise ConvergenceError(
                f"{text}. Start nearer to a solution, give the solver more iterations or another tolerance, or pass "
                "on_failure='warn' for the derivative at this point, 'nan' for none"
            ) from cause
        if self.options["on_failure"] == "warn":
            warnings.warn(f"{text}; the derivative is taken there", RuntimeWarning, stacklevel=5)


def _functions_in(constraints):
    """Return the functions in constraints, each with its further arguments."""
    if isinstance(constraints, (list, tuple)):
        return [found for constraint in constraints for found in _functions_in(constraint)]
    if isinstance(constraints, Mapping):
        args = constraints.get("args", ())
        return [(constraints["fun"], args if isinstance(args, tuple) else (args,))]
    fun = getattr(constraints, "fun", None)  # a NonlinearConstraint has one; other types hold only matrices
    return [(fun, ())] if callable(fun) else []


def _with_functions(constraints: Any, wrap: Callable) -> Any:
    """Return constraints with all their functions wrapped."""
    if callable(constraints):
        return wrap(constraints)
    if isinstance(constraints, (list, tuple)):
        return type(constraints)(_with_functions(constraint, wrap) for constraint in constraints)
    if isinstance(constraints, dict):
        return {key: wrap(x) if key in ("fun", "jac") and callable(x) else x for key, x in constraints.items()}
    if isinstance(constraints, scipy.optimize.NonlinearConstraint):
        constraints = copy.copy(constraints)
        for key in ("fun", "jac", "hess"):
            if callable(function := getattr(constraints, key)):
                setattr(constraints, key, wrap(function))
    return constraints


def _as_tuple(original, args):
    """Return further arguments as a tuple, as the SciPy function interprets them."""
    if original.__name__ in ("newton", "fixed_point", "least_squares"):
        return tuple(args)
    return args if isinstance(args, tuple) else (args,)


def _unknown(x, y, by_elements):
    """Return `x` with NaN derivatives where `y` has nonzero ones: for each element, or for all of them."""

    def spoil(rows):
        given = rows != 0
        return np.where(given if by_elements else given.any(axis=1, keepdims=True), np.nan, np.zeros_like(rows))

    nothing = np.reshape(y - plain_copy(y), (-1,))
    return x - np.reshape(LinearMap(spoil, spoil, "unknown")(nothing), np.shape(x))


class _NotRebound:
    """A method that code rebinding leaves unchanged, because it rebinds the function it calls itself."""

    def __init__(self, method: Callable):
        self.method = method

    def __get__(self, owner, cls=None):
        return self if owner is None else types.MethodType(self.method, owner)


class Value:
    """The user's function with all further arguments bound; its value is traced if it reads traced values."""

    def __init__(self, f: Callable, args: tuple, kwargs: dict, has_derivatives: bool, name: str):
        self.f, self.args, self.kwargs, self.has_derivatives, self.name = f, args, kwargs, has_derivatives, name
        self.__qualname__ = name_of(f)

    def _run(self, x):
        y = rebound(self.f)(x, *self.args, **self.kwargs)
        y = y[0] if self.has_derivatives else y
        return from_list(y)

    __call__ = _NotRebound(_run)


class _Residual(Value):
    """Like `Value`, reshaped to the unknowns."""

    def _run_in_shape(self, x):
        y = self._run(x)
        if np.shape(y) == np.shape(x):
            return y
        if np.size(y) != np.size(x):
            raise ValueError(
                f"{self.name}: {np.size(y)} equations for {np.size(x)} unknowns do not determine a derivative: "
                "use wengert.scipy.optimize.least_squares"
            )
        return np.reshape(y, np.shape(x))

    __call__ = _NotRebound(_run_in_shape)


class _Guarded:
    """A function passed to SciPy: returns plain values, and remembers errors that compiled code may swallow."""

    def __init__(self, call: Call, f: Callable):
        self.call = call
        self.f = self.__wrapped__ = f  # `curve_fit` reads the signature
        self.__name__ = getattr(f, "__name__", type(f).__name__)

    def __call__(self, *args, **kwargs):
        try:
            y = self.f(*args, **kwargs)
        except (UnsupportedFunctionError, TracedValueError) as error:
            self.call._errors.append(self.call.refuse(error))
            raise self.call._errors[-1] from error
        except Exception as error:
            self.call._errors.append(error)
            raise
        return plain_copy(y) if self.call.traced else y


class _MetTraced(Exception):
    """A function that SciPy calls returned a traced value."""


class _Probe:
    """A function passed to SciPy that ends the run if it returns a traced value."""

    def __init__(self, f: Callable, met: list):
        self.f = self.__wrapped__ = f
        self.met = met
        self.__name__ = getattr(f, "__name__", type(f).__name__)

    def __call__(self, *args, **kwargs):
        y = self.f(*args, **kwargs)
        if holds_traced(y):
            self.met.append(True)
            raise _MetTraced
        return y


def check_plain(name: str, result: str, given: dict, *traceable: str) -> None:
    """Raise if an argument other than the `traceable` ones holds a traced value."""
    for key, value in given.items():
        if type(value) not in _PLAIN and key not in traceable and stripped(value) is not value:
            raise TracedValueError(
                f"{name}: {key} is traced, but the {result} has no derivative with respect to it: pass "
                f"wengert.stop_gradient({key}), or compute it from plain numbers"
            )


_PLAIN = frozenset((int, float, str, bool, type(None)))
