"""`scipy.integrate.solve_ivp` and `odeint` with derivatives of the solution.

SciPy integrates plain values; its accepted steps are then replayed on traced ones (`wengert.scipy.steps`).
The returned numbers are SciPy's, to the last bit.
Derivatives in the initial state and in parameters are those of the steps; derivatives in times follow from the
differential equation, so that they do not depend on how smooth an interpolant is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate
from scipy.integrate import BDF, DOP853, LSODA, RK23, RK45, Radau

import wengert.numpy as wnp
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced, is_traced
from wengert.core.rebind.rebind import rebound
from wengert.errors import ConvergenceError, NonSmoothError, TracedValueError, UnsupportedFunctionError
from wengert.implicit.factors import Diagonal
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import check_replayable, in_derivative, plain_function, plain_solver
from wengert.scipy import steps
from wengert.scipy.results import with_bits
from wengert.transforms.dense import Gradient, Jacobian

_METHODS = {method.__name__: method for method in (RK23, RK45, DOP853, Radau, BDF, LSODA)}

#: change of an event function in a step by its rate at the event, relative to its values, below which it only touches 0
GRAZING = 1e-8


def solve_ivp(
    fun: Callable,
    t_span: Any,
    y0: Any,
    method: Any = "RK45",
    t_eval: Any = None,
    dense_output: bool = False,
    events: Any = None,
    vectorized: bool = False,
    args: Any = None,
    **options: Any,
) -> Any:
    """`scipy.integrate.solve_ivp` with derivatives of the solution.

    Parameters
    ----------
    fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, **options
        Those of `scipy.integrate.solve_ivp`.

    Returns
    -------
    OdeResult
        SciPy's. Within a derivative ``y``, ``sol``, ``t_events`` and ``y_events`` are functions of `y0`, of the ends of
        `t_span`, of `t_eval`, and of all traced values that `fun` and `events` read, by `args` or from outside; the
        numbers are the same bits.

    Raises
    ------
    ConvergenceError
        Within a derivative, if the integration fails.
    NonSmoothError
        Within a derivative, if an event function only touches zero, so that the time of the event has no derivative.
    UnsupportedFunctionError
        Within a derivative, for an integrator that is not one of SciPy's six methods.
    TracedValueError
        If a tolerance or another option is a traced value.

    Notes
    -----
    The steps that SciPy accepted are held fixed, and the derivative is exact for the numbers that they give; its error
    is of the order of the tolerance, as that of the solution. For ``"LSODA"``, whose steps SciPy does not report, the
    derivative is that of ``"Radau"`` with the same tolerances.

    References
    ----------
    Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.6.
    Eberhard and Bischof (1999), Automatic differentiation of numerical integration algorithms.
    doi:10.1090/S0025-5718-99-01027-3

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from scipy.integrate import solve_ivp
    >>> def final(rate):
    ...     return solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [2.0], rtol=1e-8, atol=1e-8).y[0, -1]
    >>> wg.grad(final, 0.5).round(6)                     # -2 exp(-rate)
    np.float64(-1.213061)
    """
    call = dict(t_eval=t_eval, dense_output=dense_output, events=events, vectorized=vectorized, args=args, **options)
    if not in_derivative():
        return scipy.integrate.solve_ivp(fun, t_span, y0, method, **call)
    check_replayable("scipy.integrate.solve_ivp")
    return _Integration("scipy.integrate.solve_ivp", fun, t_span, y0, method, call).result()


class _Integration:
    """A call of `solve_ivp` within a derivative."""

    def __init__(self, name, fun, t_span, y0, method, call):
        self.name = name
        self.method = _METHODS.get(method, method) if isinstance(method, str) else method
        if self.method not in _METHODS.values():
            raise UnsupportedFunctionError(
                f"{name}: only the methods {', '.join(_METHODS)} have derivatives, not {method!r}: use one of them"
            )
        self.fun, self.args, self.events = fun, tuple(call["args"] or ()), call["events"]
        self.options = {key: value for key, value in call.items() if key not in ("args", "events", "t_eval")}
        check_plain(name, self.options)
        self.f = right_hand_side(fun, self.args, call["vectorized"])
        self.span = tuple(t_span)
        self.plain_span = tuple(float(plain_copy(t)) for t in self.span)
        self.y0 = vector(y0)
        self.times = None if call["t_eval"] is None else vector(call["t_eval"])
        if callable(self.events):
            self.events = [self.events]

    def result(self):
        """SciPy's result, as a function of the traced values."""
        found, solver = self.run(self.method)
        if self.method is LSODA:
            options = {key: self.options[key] for key in ("rtol", "atol", "max_step") if key in self.options}
            _, solver = self.run(Radau, **options)
        self.replay(solver)
        t_events, y_events = self.event_results(found)
        t, y = self.outputs(found, t_events, y_events)
        if not any(map(holds_traced, (t, y, t_events, y_events, *self.states))):
            return found
        sol = found.sol and Solution(self, found.sol)
        return type(found)(found | {"t": t, "y": y, "sol": sol, "t_events": t_events, "y_events": y_events})

    def run(self, method, **options):
        """Integrate plain values by SciPy; return its result and the integrator."""
        made = []

        class Captured(steps.logged(method)):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                made.append(self)

        times = None if self.times is None else np.asarray(plain_copy(self.times))
        events = self.events and [_plain_event(event) for event in self.events]
        options = (options or self.options) | {"method": Captured, "t_eval": times, "events": events}
        options["args"] = tuple(map(stripped, self.args)) or None
        if callable(options.get("jac")):
            options["jac"] = plain_function(options["jac"])
        plain, y0 = plain_function(self.fun), np.asarray(plain_copy(self.y0))
        found = plain_solver(lambda: scipy.integrate.solve_ivp(plain, self.plain_span, y0, **options))()
        if found.status < 0:
            raise ConvergenceError(
                f"{self.name}: the integration failed at t = {made[0].t:.6g}: {found.message} "
                "Change the method or the tolerances, or integrate up to an earlier time"
            )
        return found, made[0]

    def replay(self, solver):
        """Replay the steps of an integrator on traced values."""
        t, y = self.plain_span[0], self.y0
        if is_traced(self.span[0]):
            y = steps.advanced(self.f, t, y, t - self.span[0])
        problem = steps.Problem(self.f, plain_function(Jacobian(self.f, 1)), self.name)
        self.segments, self.states = [], []
        for segment, state in steps.replayed(problem, t, y, solver):
            self.segments.append(segment)
            self.states.append(state)
        self.direction = 1.0 if self.plain_span[1] >= self.plain_span[0] else -1.0
        self.ends = self.direction * np.array([segment.end for segment in self.segments])

    def at(self, times):
        """Return the solution at times, an array that may be traced, of shape (len(times), n)."""
        plain = np.asarray(plain_copy(times))
        last = len(self.segments) - 1
        chosen = np.minimum(np.searchsorted(self.ends, self.direction * plain), last)
        pieces = [self.segments[k].at(plain[chosen == k]) for k in np.unique(chosen)]
        order = np.argsort(np.argsort(chosen, kind="stable"), kind="stable")
        y = wnp.concatenate(pieces)
        y = y if np.array_equal(order, np.arange(len(plain))) else y[order]
        if not holds_traced(times):
            return y
        return wnp.stack([steps.advanced(self.f, t, y[i], times[i] - t) for i, t in enumerate(plain)])

    # -- results

    def outputs(self, found, t_events, y_events):
        """Return times and states at them, with the bits of SciPy's."""
        if self.times is not None:
            t = self.times[: len(found.t)]
            y = self.at(t).T if len(found.t) else found.y
            return t, with_bits(found.y, y)
        stops = {segment.end: state for segment, state in zip(self.segments, self.states)}
        t, y = [self.span[0], *found.t[1:]], [self.y0, *(stops.get(time) for time in found.t[1:])]
        if found.status == 1:
            t[-1], y[-1] = self.last_event(found, t_events, y_events)
        elif is_traced(self.span[1]):
            t[-1] = self.span[1]
            y[-1] = steps.advanced(self.f, self.plain_span[1], y[-1], t[-1] - self.plain_span[1])
        y = [self.at(np.array([time]))[0] if state is None else state for time, state in zip(found.t, y)]
        t = wnp.stack(t) if any(map(is_traced, t)) else found.t
        return t, with_bits(found.y, wnp.stack(y, axis=1))

    def event_results(self, found):
        """Return the times of events and the states there, as functions of the traced values."""
        if found.t_events is None:
            return None, None
        t_events, y_events = [], []
        for event, times, states in zip(self.events, found.t_events, found.y_events):
            pairs = [self.event(event, time) for time in times]
            is_constant = not any(holds_traced(x) for pair in pairs for x in pair)
            t_events.append(times if is_constant else with_bits(times, wnp.stack([t for t, _ in pairs])))
            y_events.append(states if is_constant else with_bits(states, wnp.stack([y for _, y in pairs])))
        return t_events, y_events

    def event(self, event, time):
        """Return the time of an event, which is the root of ``event(t, y(t))``, and the state there."""

        def value(t):
            return self.event_value(event, t, self.at(wnp.reshape(t, (1,)))[0])

        t = steps.solved_once(value, np.float64(time), Diagonal(self.rate(event, time)), self.name)
        return t, self.at(wnp.reshape(t, (1,)))[0]

    def event_value(self, event, t, y):
        return wnp.reshape(from_list(rebound(event)(t, y, *self.args)), ())

    def rate(self, event, time):
        """Return the derivative of an event function along the solution at an event; raise if it is zero."""

        def at(t):
            return t, np.asarray(plain_copy(self.at(np.array([t]))[0]))

        segment = self.segments[min(np.searchsorted(self.ends, self.direction * time), len(self.segments) - 1)]
        plain, slope = plain_function(event), plain_function(self.f)(*at(time))
        args = tuple(map(stripped, self.args))
        by_time, by_state = plain_function(Gradient(event, (0, 1)))(*at(time), *args)
        rate = np.float64(by_time + by_state @ np.asarray(slope))
        size = max(abs(np.max(plain(*at(t), *args))) for t in (segment.start, segment.end))
        if not abs(rate * (segment.end - segment.start)) > GRAZING * size:
            raise NonSmoothError(
                f"{self.name}: the event {getattr(event, '__name__', event)!r} at t = {time:.6g} only touches zero, so its "
                "time has no derivative: change the event function or the parameters"
            )
        return rate

    def last_event(self, found, t_events, y_events):
        """Return the time and the state of the event that ended the integration."""
        for index, times in enumerate(found.t_events):
            if len(times) and times[-1] == found.t[-1]:
                return t_events[index][-1], y_events[index][-1]
        raise AssertionError("an event ended the integration")


class Solution:
    """The continuous solution, as `scipy.integrate.OdeSolution`, with derivatives.

    Attributes
    ----------
    t_min, t_max : float
        Interval of the interpolation.
    ts : ndarray
        Times between which the solution is one polynomial.
    """

    def __init__(self, integration, plain):
        self._integration, self._plain = integration, plain
        self.t_min, self.t_max, self.ts = plain.t_min, plain.t_max, plain.ts

    def __call__(self, t):
        """Return the solution at a time, shape (n,), or at an array of times, shape (n, len(t))."""
        times = wnp.reshape(from_list(t), (-1,))
        value = self._plain(np.asarray(plain_copy(t)))
        y = self._integration.at(times)
        return with_bits(value, y.T if np.ndim(t) else y[0])

    @property
    def interpolants(self):
        raise TracedValueError("the interpolants of a solution are not differentiated: call the solution at times")


def right_hand_side(fun, args, vectorized):
    """Return the right-hand side of the equations as a function of time and state, on plain or traced values."""

    def f(t, y):
        found = from_list(rebound(fun)(t, y[:, None] if vectorized else y, *args))
        return found if np.ndim(found) == 1 else wnp.reshape(found, (-1,))

    return f


def vector(x):
    """Return numbers as a 1-D array of floats or complex numbers, traced or not."""
    x = from_list(x)
    x = x if is_traced(x) else np.asarray(x)
    return wnp.reshape(x, (-1,)) if x.dtype.kind in "fc" else np.ravel(x).astype(np.float64)


def check_plain(name, options):
    """Raise if an option holds a traced value."""
    for key, value in options.items():
        if not callable(value) and stripped(value) is not value:
            raise TracedValueError(
                f"{name}: {key} is traced, but the solution has no derivative with respect to it: pass "
                f"wengert.stop_gradient({key})"
            )


def _plain_event(event):
    """Return an event function on plain values, with the attributes that SciPy reads."""
    plain = plain_function(event)
    if plain is not event:
        plain.__dict__.update(getattr(event, "__dict__", {}))
    return plain
