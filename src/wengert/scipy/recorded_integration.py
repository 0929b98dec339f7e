"""`scipy.integrate.solve_ivp` in programs: one instruction that integrates without Python.

The right-hand side is traced at unknown time and state, within the recording of the function that integrates; the
values that it reads from this recording are its parameters (see `wengert.implicit.recorded`).
The steps are SciPy's up to rounding.
A program cannot hold results whose shape depends on values; the function then runs eagerly.
If the right-hand side may jump at times that depend on values, derivatives check their steps, and raise at a jump.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np
import scipy.integrate

import wengert.numpy as wnp
from wengert.api import stop_gradient
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced, is_traced
from wengert.core.rebind.rebind import rebound
from wengert.errors import GuardError
from wengert.implicit.recorded import program_of, sliced
from wengert.program.integration.builder import integration_row
from wengert.program.integration.calls import Integration
from wengert.program.integration.continuity import has_fixed_jumps
from wengert.program.integration.events import Events, Limited, events_row, limited_row
from wengert.program.integration.methods import EXPLICIT, IMPLICIT
from wengert.program.integration.shared import shared_integration, shared_system
from wengert.program.integration.system import MissingBranch, System
from wengert.program.ir.call import Call as ProgramCall
from wengert.program.ir.call import Operand
from wengert.program.ir.ir import c_strides, kind_of
from wengert.program.tracing.refusals import NotHere, NotReplayable
from wengert.program.tracing.trace import recording
from wengert.scipy.results import recorded_result
from wengert.scipy.standin import StandIn

#: maximum number of states for implicit methods, which factorise dense matrices, unless Jacobians are sparse
MAX_STATES = 500

#: highest order of derivatives with respect to times, and of events, in programs
ORDER_IN_TIMES = 2

#: maximum number of output times with respect to which programs have second derivatives
MAX_ADVANCED = 16

#: options of SciPy's methods
OPTIONS = {"rtol", "atol", "first_step", "max_step"}

_EPS = np.finfo(float).eps


def is_too_large(system: System, method: str) -> bool:
    """Return whether a system has too many states for the matrices of a method."""
    return method not in EXPLICIT and system.states > MAX_STATES and not system.pattern().is_sparse


def recorded_solution(name: str, f: Callable, span: tuple, y0: Any, method: str, call: dict, memory: float) -> Any:
    """Append an integration to the recording, and return its result, in SciPy's form.

    `f` is the right-hand side as a function of time and state, on traced values; `span` holds the ends of the interval,
    `y0` is the initial state of shape (n,), `method` a name, and `call` has the other arguments of SciPy's function.
    `memory` limits the bytes for the steps in a reverse sweep. It raises `NotReplayable` if a program cannot hold the
    integration.
    """
    around, is_complex = recording.get(), y0.dtype.kind == "c"
    times, is_last = call["t_eval"], call["t_eval"] is None
    if is_last:
        times = wnp.reshape(span[1], (1,)) if is_traced(span[1]) else np.array([float(span[1])])
    _refuse(name, y0, times, method, call)
    options = stepper_options(name, call, np.size(y0), is_complex)
    start, rate = (pairs(y0), on_pairs(f)) if is_complex else (y0, f)
    times = times if is_traced(times) else np.asarray(times, dtype=float).reshape(-1)
    if any(map(is_traced, (*span, times))):
        every = wnp.concatenate([wnp.stack([x if is_traced(x) else float(x) for x in span]), times])
    else:
        every = np.array([*span, *times], dtype=float)
    events = [call["events"]] if callable(call["events"]) else list(call["events"] or ())
    functions = [_event(event, tuple(call["args"] or ()), is_complex) for event in events]
    made = _Recorded(around, name, rate, functions, start, (method, options, memory))
    fields = {"sol": None, "t_events": None, "y_events": None, "status": 0, "message": ENDS[0], "success": True}
    if events:
        t_events, y_events, ended_by, taken = made.events(every, *_attributes(events))
        y_events = [from_pairs(y) for y in y_events] if is_complex else y_events
        fields |= {"t_events": t_events, "y_events": y_events}
        if ended_by is not None:
            if call["dense_output"]:
                raise NotReplayable(f"{name} with dense output that ends at an event cannot be recorded")
            fields |= {"status": 1, "message": ENDS[1]}
            if is_last:
                t, y = Last(name, t_events[ended_by][-1]), Last(name, y_events[ended_by][-1])
                return recorded_result(t=t, y=y, **fields)
            if not taken:
                raise NotReplayable(f"{name} that ends before the first output time cannot be recorded")
            every, times = every[: 2 + taken], times[:taken]
    if call["dense_output"]:
        fields["sol"] = Dense(made, every[:2], is_complex)
    y = made.states(every, stops_early=bool(events))
    y = from_pairs(y) if is_complex else y
    if is_last:
        return recorded_result(t=Last(name, times[0]), y=Last(name, y[0]), **fields)
    return recorded_result(t=times, y=y.T, **fields)


#: SciPy's messages
ENDS = ("The solver successfully reached the end of the integration interval.", "A termination event occurred.")


def _event(event, args, is_complex):
    """Return an event function of time and state, with a result of shape (1,)."""
    return lambda t, y: wnp.reshape(from_list(rebound(event)(t, from_pairs(y) if is_complex else y, *args)), (1,))


def _attributes(events):
    """Return for each event function the count of events that ends an integration, and the direction, 0 for any."""
    limits = [float(getattr(event, "terminal", None) or np.inf) for event in events]
    return limits, [float(getattr(event, "direction", 0)) for event in events]


def pairs(x: Any) -> Any:
    """Return complex numbers as a 1-D array of alternating real and imaginary parts."""
    return wnp.reshape(wnp.stack([wnp.real(x), wnp.imag(x)], axis=-1), (-1,))


def from_pairs(x: Any) -> Any:
    """Return the complex numbers whose real and imaginary parts alternate along the last axis."""
    return x[..., 0::2] + 1j * x[..., 1::2]


def on_pairs(f: Callable) -> Callable:
    """Return a complex right-hand side as a function of real and imaginary parts."""
    return lambda t, y: pairs(f(t, from_pairs(y)))


def with_time(f: Callable) -> Callable:
    """Return a function of time and state whose result is traced, as programs need, even if that of `f` is constant."""

    def traced(t, y):
        found = f(t, y)
        return found if is_traced(found) else found + 0.0 * t

    return traced


class Last:
    """Proxy for an array whose last axis runs over the steps, of unknown number: only the last items can be read.

    These items may be traced. With `is_transposed`, the axis of the steps comes first.
    """

    def __init__(self, name: str, items: Any, is_transposed: bool = False):
        self._name, self._items, self._is_transposed = name, items, is_transposed

    def __getitem__(self, key: Any) -> Any:
        """Return items at index -1 of the last axis, or a part of the others."""
        keys = key if type(key) is tuple else (key,)
        ndim = np.ndim(self._items)
        if len(keys) == 2 and keys[0] is Ellipsis:
            keys = (*[slice(None)] * (0 if self._is_transposed else ndim), keys[1])
        last, others = (keys[0], keys[1:]) if self._is_transposed else (keys[-1], keys[:-1])
        if len(others) == ndim - 1 and len(keys) == ndim and not self._is_transposed:
            return Last(self._name, self._items[key])  # rows of all steps
        if not isinstance(last, (int, np.integer)) or last != -1 or len(others) > ndim:
            return self._refuse()
        return self._items[others] if others else self._items if self._is_transposed or not ndim else self._refuse()

    def __iter__(self) -> Iterator:
        if self._is_transposed or not np.ndim(self._items):
            self._refuse()
        return iter([self[k] for k in range(len(self._items))])

    @property
    def T(self) -> Last:
        """The transposed array."""
        return Last(self._name, self._items, not self._is_transposed) if np.ndim(self._items) else self

    def _refuse(self) -> NoReturn:
        raise NotReplayable(
            f"{self._name}: the number of steps depends on values: pass t_eval, or read only the last state, y[:, -1]"
        )

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name != "__array__":
            raise AttributeError(name)
        return self._refuse()

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        return self._refuse()

    def __len__(self) -> NoReturn:
        return self._refuse()


class Dense(StandIn, of=scipy.integrate.OdeSolution):
    """Proxy for the continuous solution, `scipy.integrate.OdeSolution`: each call is an integration.

    The ends of the interval, `span`, may be traced. With `is_complex`, states are pairs of real and imaginary parts.
    """

    def __init__(self, problem: _Recorded, span: Any, is_complex: bool):
        self._problem, self._span, self._is_complex = problem, span, is_complex

    def __call__(self, t: Any) -> Any:
        """Return the solution at a time, shape (n,), or at an array of times, shape (n, len(t))."""
        times = wnp.reshape(from_list(t), (-1,))
        times = times if is_traced(times) else np.asarray(times, dtype=float)
        start, end, *plain = plain_copy(wnp.concatenate([self._span, times]))
        if np.min(plain, initial=np.inf) < min(start, end) or np.max(plain, initial=-np.inf) > max(start, end):
            raise NotReplayable(f"{self._problem.name}: dense output outside of the interval cannot be recorded")
        signed = np.copysign(1.0, end - start) * np.array(plain)
        _, order, places = np.unique(signed, return_index=True, return_inverse=True)
        y = self._problem.states(wnp.concatenate([self._span, times[order]]), stops_early=True)[places]
        y = from_pairs(y) if self._is_complex else y
        return y.T if np.ndim(t) else y[0]

    @property
    def t_min(self) -> Any:
        """The start of the interval, or its end if the integration runs backwards."""
        return wnp.minimum(*self._span)

    @property
    def t_max(self) -> Any:
        """The end of the interval, or its start if the integration runs backwards."""
        return wnp.maximum(*self._span)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotReplayable(f"{self._problem.name}: {name} of the continuous solution depends on values")


#: arguments of SciPy's function that are not options of its method
_PLAIN = ("t_eval", "dense_output", "events", "vectorized", "args", "jac", "jac_sparsity", "lband", "uband")


def _refuse(name, y0, times, method, call):
    if method not in EXPLICIT and np.ndim(call.get("rtol", 0.0)):
        raise NotReplayable(f"{name} by an implicit method with several relative tolerances cannot be recorded")
    if call["events"] and method not in (*EXPLICIT, *IMPLICIT):
        raise NotReplayable(f"{name} with events by {method} cannot be recorded")
    if y0.dtype not in (np.float64, np.complex128) or not 0 < np.size(times):
        raise NotReplayable(f"{name} of {y0.dtype} states, or without output times, cannot be recorded")
    if y0.dtype == np.complex128 and method not in (*EXPLICIT, "BDF"):
        raise NotReplayable(f"{name} of complex states by {method} cannot be recorded")


def stepper_options(name: str, call: dict, n: int, is_complex: bool) -> dict:
    """Return the options of a stepper, from the arguments of SciPy's function, for `n` states.

    Raise `NotReplayable` for options that SciPy would warn about or refuse, or that the steppers do not have.
    """
    options = {key: x for key, x in call.items() if key not in _PLAIN}
    solver, sensitivity = options.pop("solver", {}), options.pop("sensitivity", "auto")
    if holds_traced(options) or not options.keys() <= OPTIONS:
        raise NotReplayable(f"{name} has options that cannot be recorded")
    rtol, atol = (np.asarray(options.get(key, default), dtype=float) for key, default in _TOLERANCES)
    if rtol.shape not in ((), (n,)) or atol.shape not in ((), (n,)) or (rtol < 100 * _EPS).any() or (atol < 0).any():
        raise NotReplayable(f"{name} has tolerances of which SciPy warns")
    first, most = options.get("first_step"), options.get("max_step", np.inf)
    if not most > 0 or not (first is None or first > 0):
        raise NotReplayable(f"{name} has a step size that is not positive")
    each = 2 if is_complex else 1
    tolerances = {"rtol": np.repeat(np.broadcast_to(rtol, n), each)}
    tolerances["atol"] = np.repeat(np.broadcast_to(atol, n), each)
    sizes = {"first_step": None if first is None else float(first), "max_step": float(most)}
    others = {"solver": solver, "is_complex": is_complex, "sensitivity": sensitivity, "stops_early": False}
    others |= {"is_rough": False, "may_jump": False}
    return {**tolerances, **sizes, **others}


_TOLERANCES = (("rtol", 1e-3), ("atol", 1e-6))


class _Recorded:
    """An initial value problem in a recording; its right-hand side and event functions are traced once.

    `f` and the event functions take time and state; the results of the latter have shape (1,). `settings` are method,
    options and memory; see `wengert.program.integration.calls.Integration`.
    """

    def __init__(self, around, name, f, functions, y0, settings):
        self.around, self.name, self.f, self.functions = around, name, f, functions
        self.y0, self.settings = y0, settings
        self.start = np.ascontiguousarray(plain_copy(y0), dtype=float)
        self.may_jump = False  # at times that depend on values
        self.parts: list = []  # slices of the right-hand side, one per combination of branches
        self.event_parts: list = []

    def traced(self, f, x, size):
        """Return the slice of a function of time and state at x = [t, y]."""
        f = with_time(f)
        return sliced(self.around, lambda z: f(z[0], z[1:]), x, (size,), self.name, True)

    def trace(self, x):
        """Trace the right-hand side at x = [t, y], and the event functions."""
        self.parts.append(self.traced(self.f, x, self.start.size))
        if not self.event_parts:
            self.event_parts = [self.traced(g, x, 1) for g in self.functions]
        self.leaves = [*dict.fromkeys(v for part in (*self.parts, *self.event_parts) for v in part.leaves)]
        self.values = [_floats(plain_copy(self.around.value(v))) for v in self.leaves]
        self.system, *others = (shared_system(self.program(part, x), self.start.size) for part in self.parts)
        self.system.others = others
        if is_too_large(self.system, self.settings[0]):
            raise NotReplayable(f"{self.name}: more than {MAX_STATES} states by an implicit method cannot be recorded")
        self.may_jump = not has_fixed_jumps(self.system)

    def program(self, part, x):
        """Return the program of a function of time, state and the values that are read."""
        listing = part.joined(self.around.code.listing, self.leaves)
        example = np.concatenate([np.ravel(v) for v in (x, *self.values)])
        name = f"{self.name}: {'right-hand side' if part in self.parts else 'event'}"
        return program_of(self.around, name, listing, (example,))

    def appended(self, make, row, times, start=None):
        """Append the call that `make` returns for a number of times; return the call and its result.

        The integration starts from `start`, by default the initial state, whose value it must have.
        """
        plain, code = np.ascontiguousarray(plain_copy(times), dtype=float), self.around.code
        x, found = np.concatenate([plain[:1], self.start]), None
        if not self.parts:
            self.trace(x)
        while found is None:
            call = make(plain.size)
            try:
                found = call(plain, self.start, *self.values)
                if self.system.others and type(call) is Integration:
                    call.explore(plain, self.start, *self.values)
            except MissingBranch as missing:
                found = None
                self.trace(missing.x[: x.size])
            except GuardError as error:
                raise NotHere(f"{self.name}: {error}") from None
        args: list = []
        operands: list = []
        code.run()
        for value, given in zip((plain, self.start), (times, self.y0 if start is None else start)):
            args.append(Operand(len(operands)) if is_traced(given) else value)
            operands += [code.output(given)] if is_traced(given) else []
        args += [Operand(len(operands) + k) for k in range(len(self.leaves))]
        operands += [_as_floats(code.listing, v) for v in self.leaves]
        if operands:
            made = ProgramCall(call, tuple(args), {}, operands, row)
            found = self.around.called(made, (np.dtype(float), np.shape(found), None), found)
        return call, found

    def integration(self, size, **more):
        method, options, memory = self.settings
        shapes = [np.shape(v) for v in self.values]
        return shared_integration(
            self.system, shapes, method, options | {"may_jump": self.may_jump} | more, memory, size
        )

    def states(self, times, **more):
        """Append an integration with start, end and output times, and return the states there, of shape (T, n).

        Derivatives with respect to the times are of second order for up to `MAX_ADVANCED` times, else of first order.
        """
        if not is_traced(times) or np.size(times) > 2 + MAX_ADVANCED:
            return self.fixed_states(times, None, **more)
        fixed = stop_gradient(times)
        found = self.fixed_states(fixed, self.state_at_start(times), **more)
        late = times - fixed
        moved = []
        for t, y, dt in zip(fixed[2:], found, late[2:]):
            moved.append(self.advanced(t, y, dt, self.f(t, y)))
        return self.limited(wnp.stack(moved))

    def fixed_states(self, times, start, **more):
        """Like `states`, from the state `start`, with only first derivatives with respect to the times."""
        return self.appended(lambda size: self.integration(size, **more), integration_row, times, start)[1][0]

    def state_at_start(self, times):
        """Return the state at the plain value of the start time, with derivatives up to second order."""
        if not is_traced(times):
            return None
        start, y = times[0], self.y0
        return self.limited(self.advanced(start, y, stop_gradient(start) - start, self.f(start, y)))

    def advanced(self, t, y, late, slope):
        """Return the state at ``t + late`` for a traced `late` of value 0; derivatives up to second order are right."""
        half = 0.5 * late
        return y + late * self.f(t + half, y + half * slope)

    def events(self, times, limits, directions):
        """Append the search for events.

        It returns the times of the events of each function, arrays of shape (k,), and the states there, of shape (k,
        n); the index of the function that ended the integration, or None; and the number of output times up to the end.
        """
        call, found = self.appended(
            lambda size: Events(self.integration(size), self.event_programs(times), limits, directions),
            events_row, times,
        )  # fmt: skip
        roots, rates = wnp.reshape(stop_gradient(found), (2, -1))
        t_events, y_events, first = [], [], 0
        for g, count in zip(self.functions, call.counts):
            found = self.event(g, times, roots[first : first + count], rates[first : first + count])
            t_events.append(found[0])
            y_events.append(found[1])
            first += count
        ended_by = [k for k, count in enumerate(call.counts) if count >= limits[k]]
        return t_events, y_events, ended_by[0] if ended_by else None, call.taken

    def event_programs(self, times):
        x = np.concatenate([np.asarray(plain_copy(times))[:1], self.start])
        return [self.program(part, x) for part in self.event_parts]

    def event(self, g, times, roots, rates):
        """Return the times of the events of a function, given as constants, and the states at these times.

        Two chord steps from the root leave its value unchanged and add its first two derivatives.
        """
        if not len(roots):
            return np.zeros(0), np.zeros((0, self.start.size))
        fixed = stop_gradient(times[:2]) if is_traced(times) else times[:2]
        found = self.fixed_states(wnp.concatenate([fixed, roots]), self.state_at_start(times), stops_early=True)
        t_events, y_events = [], []
        for t, rate, y in zip(roots, rates, found):
            moved, state, slope = t, y, self.f(t, y)
            for _ in range(ORDER_IN_TIMES):
                value = g(moved, state)[0]
                moved = moved + (stop_gradient(value) - value) / rate
                state = self.advanced(t, y, moved - t, slope)
            t_events.append(moved)
            y_events.append(state)
        return self.limited(wnp.stack(t_events)), self.limited(wnp.stack(y_events))

    def limited(self, x):
        """Return a value with derivatives only up to `ORDER_IN_TIMES`."""
        if not is_traced(x):
            return x
        code = self.around.code
        code.run()
        made = ProgramCall(Limited(np.shape(x), ORDER_IN_TIMES), (Operand(0),), {}, [code.output(x)], limited_row)
        plain = np.ascontiguousarray(plain_copy(x))
        return self.around.called(made, (np.dtype(float), plain.shape, None), plain)


def _floats(x):
    """Return a copy of a scalar or array as floats in C order; complex numbers get a last axis of length 2."""
    x = np.array(x, order="C")
    return x.astype(float) if x.dtype.kind != "c" else x.reshape(*x.shape, 1).view(float)


def _as_floats(code, v):
    """Like `_floats`, for value `v` of the IR that `code` builds."""
    dtype, shape, strides = kind_of(code, v)
    if dtype.kind != "c":
        return v
    strides = c_strides(shape, 16) if strides is None else strides
    low = sum(-(n - 1) * s for n, s in zip(shape, strides) if s < 0)
    return int(code.part(v, (low, (*shape, 2), (*strides, 8)), np.dtype(float)))
