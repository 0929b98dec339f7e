"""`scipy.integrate.solve_ivp` and `odeint` with derivatives of the solution.

SciPy integrates plain values; its accepted steps are then replayed on traced ones (`wengert.scipy.steps`).
The returned numbers are SciPy's, to the last bit.
Derivatives with respect to the initial state and to parameters are those of the steps; derivatives with respect to
times follow from the differential equation, so that they do not depend on the smoothness of an interpolant.
"""

from __future__ import annotations

import functools
import inspect
import math
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.integrate
from scipy.integrate import BDF, DOP853, LSODA, RK23, RK45, Radau

import wengert.numpy as wnp
from wengert.checkpointing.run import measure, parse_bytes
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.levels import caught
from wengert.core.operands.var import holds_traced, is_traced
from wengert.core.rebind.rebind import rebound
from wengert.errors import ConvergenceError, LevelError, NonSmoothError, TracedValueError, UnsupportedFunctionError
from wengert.implicit import theorem
from wengert.implicit.factors import Diagonal
from wengert.implicit.stripped import Abstracted, stripped
from wengert.program.integration import methods
from wengert.program.integration.calls import SENSITIVITIES, SOLVER_OPTIONS
from wengert.program.integration.events import GRAZING
from wengert.program.integration.field import with_random_direction
from wengert.program.integration.jumps import change, moving_jump
from wengert.program.integration.report import Report, Taken
from wengert.scipy import sensitivities, steps
from wengert.scipy.mirror import check_plain
from wengert.scipy.often_called import OftenCalled
from wengert.scipy.recorded_integration import recorded_solution
from wengert.scipy.standin import StandIn
from wengert.transforms.dense import Gradient, Jacobian
from wengert.transforms.explain import remark

_METHODS = {method.__name__: method for method in (RK23, RK45, DOP853, Radau, BDF, LSODA)}

#: tolerances of a method that replaces LSODA, relative to LSODA's: step size control ignores the error of the
#: derivative, which is larger than that of the solution
SUBSTITUTE_TOLERANCE, MIN_TOLERANCE = 0.01, 1e-13

#: evaluations of the right-hand side that an explicit method may take in place of LSODA, as a multiple of LSODA's
MAX_EXPLICIT_WORK = 20

#: lower estimate of the bytes that a stage of a step takes for an element of the state
BYTES_PER_ELEMENT = 80

#: bytes that the derivatives of an integration may take by default
DEFAULT_MEMORY = "2GB"

#: SciPy's default
DEFAULT_ATOL = 1e-6

#: relative step of finite differences for tangents that are only used in step size control
DIFFERENCE = 1e-7

#: maximum number of calls of the continuous solution that integrate; later calls replay the steps
MAX_LATER_CALLS = 20


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
    *,
    memory: str | int = DEFAULT_MEMORY,
    sensitivity: str = "auto",
    **options: Any,
) -> Any:
    """`scipy.integrate.solve_ivp` with derivatives of the solution.

    Parameters
    ----------
    fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, **options
        As for `scipy.integrate.solve_ivp`.
    memory : str or int
        Bytes that reverse mode may take for the steps of an explicit method, as a number or as in ``"200MB"``. If they
        need more, blocks of steps are recomputed when they are swept. It has no effect with ``dense_output=True``, and
        without `t_eval` the whole solution is stored.
    sensitivity : {"auto", "forward", "discrete", "adjoint"}
        How reverse mode computes first derivatives. "forward": by an integration with the tangents of all operands.
        "discrete": by the adjoint of the steps, whose size control includes one tangent. "adjoint": by the adjoint
        differential equation, which SciPy's `method` solves backwards along its continuous solution, with a quadrature
        for the parameters. "auto": "forward" for up to four scalars (one with an implicit method), else "discrete",
        which is faster than "adjoint". Forward mode always uses tangents. `wengert.explain` reports the choice.

    Returns
    -------
    OdeResult
        SciPy's result. In a derivative ``y``, ``sol``, ``t_events`` and ``y_events`` are functions of `y0`, of the ends
        of `t_span`, of `t_eval`, and of all traced values that `fun` and `events` read, by `args` or from outside; the
        values are bit-identical.

    Raises
    ------
    ConvergenceError
        Within a derivative, if the integration fails.
    NonSmoothError
        Within a derivative, if an event function only touches zero, so that the time of the event has no derivative, or
        if `fun` jumps at a time that depends on traced values.
    UnsupportedFunctionError
        Within a derivative, for an integrator that is not one of SciPy's six methods.
    TracedValueError
        If a tolerance or another option is a traced value.

    Notes
    -----
    Derivatives come from an integration of the equations together with their tangents. The error of the tangents
    counts in the step size control, so derivatives meet the tolerances too. Explicit methods are replaced by
    ``"DOP853"`` with 0.002 times the tolerances, implicit ones with up to 50 states by ``"Radau"`` with 0.03 times the
    tolerances, and ``"LSODA"`` by ``"DOP853"``, or by ``"Radau"`` if the equations turn out to be stiff.
    A right-hand side that cannot be recorded, or takes more than 16 different combinations of branches, is replayed
    along such steps.

    Compiled functions integrate without Python. ``"LSODA"`` is SciPy's code, which calls the compiled right-hand side.
    The number of events is part of a recording. In a compiled function without `t_eval`, only the last state,
    ``y[:, -1]``, is available. With ``dense_output=True``, each call of ``sol`` is an integration.

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
    limit = parse_bytes("solve_ivp", memory)
    if sensitivity not in SENSITIVITIES:
        raise ValueError(
            f"solve_ivp: sensitivity={sensitivity!r}, but it must be one of {', '.join(map(repr, SENSITIVITIES))}"
        )
    call = dict(t_eval=t_eval, dense_output=dense_output, events=events, vectorized=vectorized, args=args, **options)
    if not theorem.in_derivative():
        return scipy.integrate.solve_ivp(fun, t_span, y0, method, **call)
    if theorem.is_recorded() and (name := name_of(method)) in methods.NAMES:
        f = right_hand_side(fun, tuple(args or ()), vectorized, False)
        given = call | {"t_eval": None if t_eval is None else vector(t_eval), "sensitivity": sensitivity}
        return recorded_solution(
            "scipy.integrate.solve_ivp", f, tuple(t_span), vector(y0), name, given, math.inf if limit is None else limit
        )
    theorem.check_replayable("scipy.integrate.solve_ivp")
    made = _Integration("scipy.integrate.solve_ivp", fun, t_span, y0, method, call, limit, sensitivity=sensitivity)
    return made.result()


def odeint(func: Callable, y0: Any, t: Any, args: tuple = (), *others: Any, **options: Any) -> Any:
    """`scipy.integrate.odeint` with derivatives of the solution.

    Parameters
    ----------
    func, y0, t, args, *others, **options
        As for `scipy.integrate.odeint`.

    Returns
    -------
    y : ndarray, shape (len(t), len(y0))
        SciPy's result. In a derivative it is a function of `y0`, of `t`, and of all traced values that `func` reads, by
        `args` or from outside; the values are bit-identical.
    infodict : dict
        Only with ``full_output=True``.

    Raises
    ------
    ConvergenceError
        Within a derivative, if the integration fails.
    TracedValueError
        If a tolerance or another option is a traced value.

    See Also
    --------
    solve_ivp : The same for other methods, with events.

    Notes
    -----
    SciPy does not report the steps of LSODA. The derivative is that of `solve_ivp` with ``method="LSODA"``.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from scipy.integrate import odeint
    >>> def final(rate):
    ...     return odeint(lambda y, t: -rate * y, [2.0], [0.0, 1.0])[-1, 0]
    >>> wg.grad(final, 0.5).round(6)                     # -2 exp(-rate)
    np.float64(-1.213061)
    """
    if not theorem.in_derivative():
        return scipy.integrate.odeint(func, y0, t, args, *others, **options)
    name = "scipy.integrate.odeint"
    given = _ODEINT.bind(func, y0, t, args, *others, **options)
    given.apply_defaults()
    options = {key: given.arguments[key] for key in [*_ODEINT.parameters][4:]}
    check_plain(name, "solution", options, "Dfun")
    times, args = vector(t), tuple(args) if isinstance(args, tuple) else (args,)
    tolerances = {key: 1.49012e-8 if options[key] is None else options[key] for key in ("rtol", "atol")}
    call = {"t_eval": None, "events": None, "dense_output": False, "vectorized": False, "args": args, **tolerances}
    call["max_step"] = options["hmax"] or np.inf
    if theorem.is_recorded() and not (options["full_output"] or options["tcrit"]):
        f = right_hand_side(func, args, False, not options["tfirst"])
        given = call | {"t_eval": times[1:], "solver": {key: options[key] for key in SOLVER_OPTIONS}}
        y = recorded_solution(name, f, (times[0], times[-1]), vector(y0), "odeint", given, math.inf).y.T
        return wnp.concatenate([wnp.reshape(vector(y0), (1, -1)), y])
    theorem.check_replayable(name)
    Dfun, full_output, plain_args = options["Dfun"], options["full_output"], tuple(map(stripped, args))
    options |= {"full_output": True, "Dfun": Dfun and theorem.plain_function(Dfun)}
    start, plain_times = np.asarray(plain_copy(vector(y0))), np.asarray(plain_copy(times))

    def run(f):
        return scipy.integrate.odeint(f, start, plain_times, plain_args, **options)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scipy.integrate.ODEintWarning)
        value, info = run_plain(run, func, prepare=OftenCalled)
    if not info["message"].startswith(("Integration successful", "Nothing was done")):  # second: one time
        raise ConvergenceError(f"{name}: {info['message']} Change the tolerances, or integrate up to an earlier time")
    ends = times[0], times[-1]
    integration = _Integration(name, func, ends, y0, LSODA, call, time_last=not options["tfirst"])
    found = types.SimpleNamespace(t=plain_times, t_events=None)
    integration.derive(None, found, int(np.max(info["nfe"], initial=1)))
    y = wnp.concatenate([wnp.reshape(integration.y0, (1, -1)), integration.at(times[1:])])
    y = theorem.with_bits(value, y) if holds_traced(y) else value
    return (y, info) if full_output else y


_ODEINT = inspect.signature(scipy.integrate.odeint)


class _Integration:
    """A call of an integrator within a derivative; `time_last` if the right-hand side is ``fun(y, t)``."""

    def __init__(self, name, fun, t_span, y0, method, call, memory=DEFAULT_MEMORY, time_last=False, sensitivity="auto"):
        self.name, self.sensitivity = name, sensitivity
        self.method = _METHODS.get(method, method) if isinstance(method, str) else method
        if self.method not in _METHODS.values():
            raise UnsupportedFunctionError(
                f"{name}: only the methods {', '.join(_METHODS)} have derivatives, not {method!r}: use one of them"
            )
        self.fun, self.args, self.events = fun, tuple(call["args"] or ()), call["events"]
        self.options = {key: value for key, value in call.items() if key not in ("args", "events", "t_eval")}
        check_plain(name, "solution", self.options, "jac")
        limit = parse_bytes(name, memory)
        self.memory, self.time_last = math.inf if limit is None else limit, time_last
        self.right_hand_side = functools.partial(right_hand_side, vectorized=call["vectorized"], time_last=time_last)
        self.f = self.right_hand_side(fun, self.args)
        self.plain_f, self.jacobian = theorem.plain_function(self.f), theorem.plain_function(Jacobian(self.f, 1))
        self.span = tuple(t_span)
        self.plain_span = tuple(float(plain_copy(t)) for t in self.span)
        self.y0 = vector(y0)
        self.segments, self.states, self.known, self.values, self.native = [], [], None, None, None
        self.later_calls = 0
        self.has_own_steps = self.method is LSODA  # whether a replay takes other steps than SciPy
        self.times = None if call["t_eval"] is None else vector(call["t_eval"])
        if callable(self.events):
            self.events = [self.events]

    def result(self):
        """SciPy's result, as a function of the traced values."""
        found, solver = self.run(self.method)
        self.derive(None if self.method is LSODA else solver, found, found.nfev)
        t_events, y_events = self.event_results(found)
        t, y = self.outputs(found, t_events, y_events)
        if found.sol is None and not any(map(holds_traced, (t, y, t_events, y_events))):
            return found
        sol = found.sol and Solution(self, found.sol)
        return type(found)(found | {"t": t, "y": y, "sol": sol, "t_events": t_events, "y_events": y_events})

    def substitute(self, nfev):
        """Return an integrator that can be replayed in place of LSODA: explicit, or implicit for stiff problems."""
        options = {key: self.options[key] for key in ("max_step", "vectorized") if key in self.options}
        for key, default in (("rtol", 1e-3), ("atol", 1e-6)):
            options[key] = np.maximum(SUBSTITUTE_TOLERANCE * np.asarray(self.options.get(key, default)), MIN_TOLERANCE)
        try:
            with np.errstate(all="ignore"):  # an explicit method may leave the domain of a stiff problem
                return self.run(DOP853, nfev * MAX_EXPLICIT_WORK, **options)[1]
        except (ArithmeticError, ConvergenceError, ValueError, _TooMuchWork):
            return self.run(Radau, **options)[1]

    def run(self, method, limit=math.inf, **options):
        """Integrate plain values by SciPy; return its result and the integrator."""
        made = []

        class Captured(steps.logged(method)):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                made.append(self)

            def step(self):
                if self.nfev > limit:
                    raise _TooMuchWork
                return super().step()

        times = None if self.times is None else np.asarray(plain_copy(self.times))
        events = self.events and [_plain_event(event) for event in self.events]
        options = (options or self.options) | {"method": Captured, "t_eval": times, "events": events}
        options["args"] = tuple(map(stripped, self.args)) or None
        if callable(options.get("jac")):
            options["jac"] = theorem.plain_function(options["jac"])
        y0 = np.asarray(plain_copy(self.y0))

        span, time_last = self.plain_span, self.time_last

        def solved(fun):
            f = (lambda t, y, *args: fun(y, t, *args)) if time_last else fun
            return scipy.integrate.solve_ivp(f, span, y0, **options)

        found = run_plain(solved, self.fun, prepare=OftenCalled)
        if found.status < 0:
            raise ConvergenceError(
                f"{self.name}: the integration failed at t = {made[0].t:.6g}: {found.message} "
                "Change the method or the tolerances, or integrate up to an earlier time"
            )
        return found, made[0]

    def derive(self, solver, found, nfev):
        """Make the solution a function of the traced values; `solver` is None for LSODA, which reports no steps."""
        self.nfev, self.solver = nfev, solver
        if solver is None and not found.t_events and len(found.t):
            self.direction = 1.0 if self.plain_span[1] >= self.plain_span[0] else -1.0
            self.known = self.direction * np.unique(self.direction * found.t)
            self.values, is_continuous = sensitivities.at_times(self, self.known)
            if self.values is not None and is_continuous:
                return
        solver = self.solver = self.substitute(nfev) if solver is None else solver
        if not solver.log:  # an interval of length zero
            t, y = self.plain_span[0], self.initial_state
            self.segments, self.states = [steps.constant(t, y)], [y]
            self.direction, self.ends = 1.0, np.array([t])
            return
        self.direction, is_continuous = solver.direction, False
        self.ends = self.direction * np.array([entry[0] for entry in solver.log])
        if self.values is None:
            self.known = self.wanted(found)
            self.values, is_continuous = sensitivities.at_times(self, self.known)
        if not is_continuous:
            self.check_jumps(solver)
        if self.values is None:
            self.replay(solver)

    def replay(self, solver):
        """Replay the steps of an integrator on traced values."""
        if self.method is BDF and self.y0.dtype.kind == "c":
            raise UnsupportedFunctionError(
                f"{self.name}: complex solutions by BDF have no derivatives here: use RK45 or DOP853, or integrate "
                "real and imaginary parts"
            )
        if isinstance(solver, steps.EXPLICIT):
            solver = self.controlled(solver)
            self.has_own_steps = True
        remark(self.replay_report, solver)
        self.ends = self.direction * np.array([entry[0] for entry in solver.log])
        t, y = self.plain_span[0], self.initial_state
        problem = steps.Problem(self.f, self.jacobian, self.name)
        size = self.block_size(solver)
        if size is not None:
            self.values = steps.in_blocks(problem, t, y, solver, size, self.known)
            return
        for segment, state in steps.replayed(problem, t, y, solver):
            self.segments.append(segment)
            self.states.append(state)

    def replay_report(self, solver):
        name = next(name for name, method in _METHODS.items() if isinstance(solver, method))
        taken = Taken(name, len(solver.log))
        why = "the right-hand side cannot be recorded, so its steps are replayed on traced values"
        parameters = sum(map(np.size, Abstracted(self.fun, self.args).take()))
        return Report("solve_ivp", "replay", why, np.size(self.y0), parameters, 0, taken)

    def controlled(self, solver):
        """Integrate again, with a tangent in a random direction in the error control; return the integrator.

        Where stability limits the step size, the steps of the state alone may amplify tangents without bound.
        """
        abstracted = Abstracted(self.fun, self.args)
        values = [np.asarray(plain_copy(x)) for x in abstracted.take()]
        directions = [random_direction(x) for x in values]
        y0 = np.asarray(plain_copy(self.initial_state))
        n, args, made = y0.size, tuple(map(stripped, self.args)), self.right_hand_side
        v0 = random_direction(y0)
        options = {key: self.options[key] for key in ("rtol", "atol", "first_step", "max_step") if key in self.options}
        atol = np.broadcast_to(options.get("atol", DEFAULT_ATOL), n)
        options["atol"] = np.concatenate([atol, atol * (np.abs(v0).max() / (np.abs(y0).max() or 1.0))])
        if np.ndim(options.get("rtol", 0.0)):
            options["rtol"] = np.tile(options["rtol"], 2)

        def stepping(fun):
            f = made(fun, args)

            def rate(t, state):
                y, v = state[:n], state[n:]
                eps = DIFFERENCE * (np.abs(y).max() or 1.0) / (np.abs(v).max() or 1.0)
                moved = [(x + eps * d)[()] for x, d in zip(values, directions)]
                slope = np.asarray(f(t, y))
                near = made(*abstracted.live.filled(moved))(t, y + eps * v)  # traced if it reads other traced values
                return np.concatenate([slope, (np.asarray(plain_copy(near)) - slope) / eps])

            start = np.concatenate([y0, v0])
            method = next(method for method in steps.EXPLICIT if isinstance(solver, method))
            found = steps.logged(method)(rate, self.plain_span[0], start, self.plain_span[1], **options)
            while found.status == "running":
                found.step()
            return found

        with np.errstate(all="ignore"):
            found = run_plain(stepping, self.fun)
        if found.status == "failed":
            raise ConvergenceError(
                f"{self.name}: the integration of a tangent failed at t = {found.t:.6g}: the derivative does not "
                "exist, or is too large. Change the method or the tolerances, or integrate up to an earlier time"
            )
        return found

    @functools.cached_property
    def initial_state(self):
        """The state at the plain start of the interval."""
        t, y = self.plain_span[0], self.y0
        return steps.advanced(self.f, self.span[0], y, t - self.span[0]) if is_traced(self.span[0]) else y

    def check_jumps(self, solver):
        """Raise if the right-hand side jumps at a time that depends on traced values, which changes the solution."""
        if not solver.doubtful:
            return
        changed = self.with_changes()
        args, made = tuple(map(stripped, self.args)), self.right_hand_side

        def moving(fun):
            start = None if is_traced(self.initial_state) else self.plain_span[0]
            return moving_jump(made(fun, args), changed, solver.doubtful, start)

        time = run_plain(moving, self.fun)
        if time is not None:
            raise NonSmoothError(
                f"{self.name}: the right-hand side jumps at t = {time:.6g}, and the time of the jump depends on traced "
                "values, which gives the derivative of the solution a further term: end the integration there by a "
                "terminal event of solve_ivp, and continue from its state"
            )

    def with_changes(self):
        """Return the right-hand side on plain values, with small changes of all traced values."""
        abstracted = Abstracted(self.fun, self.args)
        values = [change(plain_copy(value)) for value in abstracted.take()]
        return self.right_hand_side(*abstracted.live.filled(values))

    def wanted(self, found):
        """Return the times at which the solution is needed, in the order of the steps."""
        starts = np.array([self.plain_span[0], *(self.direction * self.ends[:-1])])
        times = [found.t]
        for events in found.t_events or []:
            chosen = self.step_of(events)
            times += [events, starts[chosen], self.direction * self.ends[chosen]]
        return self.direction * np.unique(self.direction * np.concatenate(times))

    def block_size(self, solver):
        """Return how many steps are recorded at a time; None if all are."""
        n = np.size(self.y0)
        few = not isinstance(solver, steps.EXPLICIT) or self.options["dense_output"]
        if few or len(solver.log) * solver.n_stages * n * BYTES_PER_ELEMENT < self.memory:
            return None
        f = self.right_hand_side(*map(stripped, (self.fun, self.args)))
        ends = [entry[0] for entry in solver.log[:1]]

        def step(state):
            run = steps.explicit_steps(self.method, f, self.plain_span[0], state[0], state[1], ends)
            return next(run)[1:]

        y = np.asarray(plain_copy(self.y0))
        size = max(1, int(0.5 * self.memory / measure(step, (y, np.copy(y)))["tape_bytes"]))
        return None if size >= len(solver.log) else size

    def step_of(self, times):
        return np.minimum(np.searchsorted(self.ends, self.direction * np.asarray(times)), len(self.ends) - 1)

    def at(self, times):
        """Return the solution at times, an array that may be traced, of shape (len(times), n)."""
        plain = np.asarray(plain_copy(times))
        y = self.at_plain(plain)
        if not holds_traced(times):
            return y
        return wnp.stack([steps.advanced(self.f, t, y[i], times[i] - t) for i, t in enumerate(plain)])

    def at_plain(self, times):
        if not len(times):
            return np.zeros((0, np.size(self.y0)))
        if self.values is not None:
            places = np.searchsorted(self.direction * self.known, self.direction * times)
            if np.array_equal(self.known.take(places, mode="clip"), times):
                return self.values[places]
            if (y := self.later(times)) is not None:
                return y
        chosen = self.step_of(times)
        pieces = [self.segments[k].at(times[chosen == k]) for k in np.unique(chosen)]
        order = np.argsort(np.argsort(chosen, kind="stable"), kind="stable")
        y = wnp.concatenate(pieces)
        return y if np.array_equal(order, np.arange(len(times))) else y[order]

    def later(self, times):
        """Return the continuous solution at other times, by another native integration.

        After many such calls, or outside of the interval, the steps are replayed, and None is returned.
        """
        low, high = sorted(self.plain_span)
        self.later_calls += 1
        is_inside = low <= min(times) and max(times) <= high
        if self.later_calls <= MAX_LATER_CALLS and self.native.system is not None and is_inside:
            every, places = np.unique(self.direction * times, return_inverse=True)
            y = sensitivities.at_times(self, self.direction * every)[0]
            return y if np.array_equal(every, self.direction * times) else y[places]
        self.values = None
        self.replay(self.solver if self.solver is not None else self.substitute(self.nfev))
        return None

    # -- results

    def outputs(self, found, t_events, y_events):
        """Return the output times and the states there, with the bits of SciPy's result."""
        if self.times is not None:
            t = self.times[: len(found.t)]
            return t, theorem.with_bits(found.y, self.at(t).T) if len(found.t) else found.y
        states = iter(self.states if self.states and not self.has_own_steps else self.at(found.t[1:]))
        t, y = [self.span[0], *found.t[1:]], [self.y0, *(state for _, state in zip(found.t[1:], states))]
        if found.status == 1:
            t[-1], y[-1] = self.last_event(found, t_events, y_events)
        elif is_traced(self.span[1]):
            t[-1] = self.span[1]
            y[-1] = steps.advanced(self.f, self.plain_span[1], y[-1], t[-1] - self.plain_span[1])
        t = wnp.stack(t) if any(map(is_traced, t)) else found.t
        return t, theorem.with_bits(found.y, wnp.stack(y, axis=1))

    def event_results(self, found):
        """Return the times of events and the states there, as functions of the traced values."""
        if found.t_events is None:
            return None, None
        t_events, y_events = [], []
        for event, times, states in zip(self.events, found.t_events, found.y_events):
            pairs = [self.event(event, time) for time in times]
            is_constant = not any(holds_traced(x) for pair in pairs for x in pair)
            t_events.append(times if is_constant else theorem.with_bits(times, wnp.stack([t for t, _ in pairs])))
            y_events.append(states if is_constant else theorem.with_bits(states, wnp.stack([y for _, y in pairs])))
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

        k = int(self.step_of(time))
        start, end = (self.plain_span[0], *(self.direction * self.ends))[k : k + 2]
        plain, slope = theorem.plain_function(event), self.plain_f(*at(time))
        args = tuple(map(stripped, self.args))
        by_time, by_state = theorem.plain_function(Gradient(event, (0, 1)))(*at(time), *args)
        rate = np.float64(by_time + by_state @ np.asarray(slope))
        size = max(abs(np.max(plain(*at(t), *args))) for t in (start, end))
        if not abs(rate * (end - start)) > GRAZING * size:
            raise NonSmoothError(
                f"{self.name}: the event {getattr(event, '__name__', event)!r} at t = {time:.6g} only touches zero, so "
                "its time has no derivative: change the event function or the parameters"
            )
        return rate

    def last_event(self, found, t_events, y_events):
        for index, times in enumerate(found.t_events):
            if len(times) and times[-1] == found.t[-1]:
                return t_events[index][-1], y_events[index][-1]
        raise AssertionError("an event ended the integration")


class _TooMuchWork(Exception):
    """An integrator has exceeded its limit of evaluations."""


class Solution(StandIn, of=scipy.integrate.OdeSolution):
    """The continuous solution, as `scipy.integrate.OdeSolution`, with derivatives.

    `t_min` and `t_max` are the ends of the interval, and `ts` are times between which the solution is one polynomial.
    """

    def __init__(self, integration, plain):
        self._integration, self._plain = integration, plain
        self.t_min, self.t_max, self.ts = plain.t_min, plain.t_max, plain.ts

    def __call__(self, t):
        """Return the solution at a time, shape (n,), or at an array of times, shape (n, len(t))."""
        times = wnp.reshape(from_list(t), (-1,))
        value = self._plain(np.asarray(plain_copy(t)))
        y = self._integration.at(times)
        return theorem.with_bits(value, y.T if np.ndim(t) else y[0])

    @property
    def interpolants(self):
        raise TracedValueError("the interpolants of a solution are not differentiated: call the solution at times")


def random_direction(x):
    """Return random numbers of the shape and the magnitudes of `x`."""
    size = np.ascontiguousarray(np.abs(x), dtype=float).reshape(1, -1)
    return with_random_direction(size)[1].reshape(np.shape(x))


def name_of(method):
    """Return the name of one of SciPy's methods, or None."""
    method = _METHODS.get(method, method) if isinstance(method, str) else method
    return method.__name__ if method in _METHODS.values() else None


def right_hand_side(fun, args, vectorized, time_last):
    """Return the right-hand side of the equations as a function of time and state, on plain or traced values."""

    def f(t, y):
        y = y[:, None] if vectorized else y
        found = from_list(rebound(fun)(*((y, t) if time_last else (t, y)), *args))
        return found if np.ndim(found) == 1 else wnp.reshape(found, (-1,))

    return f


def vector(x):
    """Return numbers as a 1-D array of floats or complex numbers, traced or not."""
    x = from_list(x)
    x = x if is_traced(x) else np.asarray(x)
    return wnp.reshape(x, (-1,)) if x.dtype.kind in "fc" else np.ravel(x).astype(np.float64)


def run_plain(run, *functions, prepare=lambda f: f):
    """Call `run`, outside of derivatives, with the functions on plain values, wrapped by `prepare` if possible."""
    run = theorem.plain_solver(run)
    with caught(LevelError, TracedValueError):
        return run(*[prepare(stripped(f)) for f in functions])
    return run(*map(theorem.plain_function, functions))  # they read traced values that `stripped` does not find


def _plain_event(event):
    """Return an event function on plain values, with the attributes that SciPy reads."""
    plain = theorem.plain_function(event)
    if plain is not event:
        plain.__dict__.update(getattr(event, "__dict__", {}))
    return plain


#: public names
REPLACED = {"odeint": odeint, "solve_ivp": solve_ivp}
