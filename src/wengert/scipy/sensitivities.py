"""Derivatives of solutions of initial value problems by native integration of the traced right-hand side.

In eager mode SciPy integrates plain values.  The derivatives come from an integration of the same system with its
tangents, whose steps are controlled by these too (`wengert.program.integration`), or from the adjoint of such steps.
The right-hand side is recorded once for this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert.numpy as wnp
from wengert import registry
from wengert.containers import plain_copy
from wengert.core.dispatch import dispatch
from wengert.core.levels import Unrecorded, caught, outside
from wengert.core.operands import var
from wengert.errors import ConvergenceError, GuardError, LevelError, TracedValueError, UnsupportedFunctionError
from wengert.implicit.stripped import Abstracted
from wengert.program.derivatives import NotDerivable
from wengert.program.integration import methods
from wengert.program.integration.calls import Integration
from wengert.program.integration.system import System
from wengert.program.record import trace_alone
from wengert.program.tracing.closure import NotReplayable
from wengert.scipy.integral import joined, parted
from wengert.scipy.recorded_integration import (
    MAX_STATES,
    from_pairs,
    has_fixed_jumps,
    on_pairs,
    pairs,
    stepper_options,
)

#: number of points at which the recorded right-hand side is compared with the function, and the largest difference
CHECKED_POINTS, MAX_DEVIATION = 5, 1e-9

#: errors that mean that there is no program of the right-hand side
_REFUSALS = (
    NotDerivable,
    NotReplayable,
    Unrecorded,
    GuardError,
    LevelError,
    TracedValueError,
    UnsupportedFunctionError,
    np.linalg.LinAlgError,
)

_FLOAT, _COMPLEX = np.dtype(float), np.dtype(complex)


def at_times(integration: Any, times: np.ndarray) -> tuple[Any, bool]:
    """Return the solution at `times`, with derivatives, unless the right-hand side has no program.

    Parameters
    ----------
    integration : object
        ``integration.right_hand_side(fun, args)`` is the right-hand side as a function of time and state;
        ``integration.fun`` and ``integration.args`` may hold traced parameters, ``integration.plain_f`` is the
        right-hand side on plain values, and ``integration.memory`` limits the bytes of the steps.
        ``integration.plain_span`` and ``integration.initial_state`` are the interval and the state at its start.
    times : ndarray
        In the order of the steps.

    Returns
    -------
    solution : ndarray, shape (len(times), n)
        Traced if it depends on traced values. None if there is no program.
    is_continuous : bool
        Whether the right-hand side is known to be continuous.
    """
    method = integration.method.__name__
    method = methods.SWITCHING if method == "LSODA" else method
    abstracted = Abstracted(integration.fun, integration.args)
    y, values = integration.initial_state, abstracted.take()
    kinds = [var.as_numpy(x).dtype for x in (y, *values)]
    is_complex = kinds[0] == _COMPLEX
    if any(kind not in (_FLOAT, _COMPLEX) for kind in kinds) or not len(times) or not np.size(y):
        return None, False
    if method not in methods.EXPLICIT and np.size(y) > MAX_STATES or is_complex and method == methods.SWITCHING:
        return None, False
    states, y = np.size(y), pairs(y) if is_complex else y
    plain_shapes = [np.shape(x) for x in values]
    of_complex = [kind == _COMPLEX for kind in kinds[1:]]
    values = [pairs(x) if each else x for x, each in zip(values, of_complex)]
    n, shapes = np.size(y), [np.shape(x) for x in values]
    p = joined(values) if values else np.zeros(0)

    def rates(x):
        own = parted(x[1 + n :], shapes) if shapes else []
        own = [wnp.reshape(from_pairs(v), shape) if each else v for v, each, shape in zip(own, of_complex, plain_shapes)]
        f = integration.right_hand_side(*abstracted.frozen.filled(own))
        return (on_pairs(f) if is_complex else f)(x[0], x[1 : 1 + n].copy())

    def recorded(x):
        """Return the program of the branches that are taken at x, or None."""
        with caught(*_REFUSALS), outside(), np.errstate(all="ignore"):
            return trace_alone(rates, [x])

    start, parameters = np.asarray(plain_copy(y)), np.asarray(plain_copy(p))
    every = np.array([*integration.plain_span, *times])
    found, continuous = None, False
    with caught(*_REFUSALS), outside(), np.errstate(all="ignore"):
        program = recorded(np.concatenate([every[:1], start, parameters]))
        if program is None:
            return None, False
        system = System(program, n)
        system.record = recorded
        options = stepper_options(integration.name, integration.options, states, is_complex)
        shape = [(parameters.size,)] if shapes else []
        call = Integration(system, shape, method, options, integration.memory, every.size)
        solution = Solution(call, every)
        plain = solution.value(start[None], parameters[None])
        continuous = has_fixed_jumps(system)
        for each in (system, *system.others):
            each.pulled(), each.pushed()  # so that what has no derivative is replayed
        plain_f = on_pairs(integration.plain_f) if is_complex else integration.plain_f
        if np.isfinite(plain).all() and _agrees(call, plain_f, every[2:], plain, parameters):
            found = solution
    if found is None:
        return None, False
    y = found(wnp.reshape(y, (1, -1)), wnp.reshape(p, (1, -1)))[0]
    return from_pairs(y) if is_complex else y, continuous


def _agrees(call, f, times, states, parameters):
    """Return whether the program of a right-hand side agrees with it at some times and states."""
    chosen = np.unique(np.linspace(0, len(times) - 1, CHECKED_POINTS).astype(int))
    times, states = times[chosen], states[:, chosen]
    for t, y, found in zip(times, states[0], call.slopes(times, states, parameters[None])[0]):
        expected = np.asarray(f(t, y.copy()))
        if not np.abs(found - expected).max() <= MAX_DEVIATION * np.abs(expected).max():
            return False
    return True


class _Function:
    """A function of initial states and parameters of all copies of a system; its rules consist of such functions."""

    name = "scipy.integrate.solve_ivp"

    def __init__(self, integration: Integration, times: np.ndarray):
        self.integration, self.times = integration, times
        rules = {"vjps": {0: self.pull}, "jvps": {0: self.push}}
        self.row = registry.Primitive(type(self).evaluate, "custom", **rules, sequence=True)
        self.row.name = self.name
        self.__name__ = self.__qualname__ = self.name

    def __call__(self, *operands: Any) -> Any:
        if not var.holds_traced(operands):
            return self.evaluate(*operands)
        return dispatch.apply(self.row, self, operands, {}, self.evaluate)

    def evaluate(self, *operands: Any) -> Any:
        """Value at operands of the enclosing level."""
        if var.holds_traced(operands):
            return self(*operands)
        try:
            with outside(), np.errstate(all="ignore"):
                return self.value(*operands)
        except GuardError as error:
            raise ConvergenceError(
                f"{self.name}: the derivative: {error}. Change the method or the tolerances, or integrate up to an "
                "earlier time"
            ) from None

    def value(self, *operands: Any) -> Any:
        """Value at plain operands."""
        raise NotImplementedError

    def operands(self, start, parameters):
        """Return the arguments of the integration that follow the times."""
        return [*start, *(parameters if self.integration.shapes else [])]

    def split(self, adjoints):
        """Return adjoints of states and parameters as arrays with a row per copy."""
        system = self.integration.system
        q, size = system.copies, system.copies * system.states
        return [wnp.reshape(adjoints[:size], (q, -1)), wnp.reshape(adjoints[size:], (q, system.parameters))]


class Solution(_Function):
    """The solution at the times, of shape (copies, len(times) - 2, states)."""

    def value(self, start, parameters):
        return self.integration(self.times, *self.operands(start, parameters))

    def push(self, tangents, y, start, parameters):
        """Return the tangents; those of the operands have a leading axis of directions."""
        count = len(tangents[0])
        pushed = Solution(self.integration.pushed(count), self.times)
        rows = [wnp.reshape(x, (count * x.shape[1], x.shape[2])) for x in tangents]
        found = pushed(wnp.concatenate([start, rows[0]]), wnp.concatenate([parameters, rows[1]]))
        q, T, n = self.integration.shape
        return wnp.reshape(found[q:], (count, q, T, n))

    def pull(self, ybar, y, start, parameters):
        """Return the adjoints of initial states and parameters."""
        return self.split(Adjoint(self.integration, self.times)(ybar, start, parameters))


class Adjoint(_Function):
    """The adjoints of all initial states and parameters, as one array, of an adjoint of the solution."""

    def value(self, g, start, parameters):
        return self.integration.adjoint_of(g, self.times, self.operands(start, parameters))

    def mixed(self, g_dot, g, start, parameters, starts, tangents):
        """Return F^T g_dot + (dF^T) g; see `program.integration.calls`."""
        system, pushed = self.integration.system, self.integration.pushed()
        operands = wnp.concatenate([start, starts]), wnp.concatenate([parameters, tangents])
        found = Adjoint(pushed, self.times)(wnp.concatenate([g_dot, g]), *operands)
        size, count = system.copies * system.states, system.copies * system.parameters
        return wnp.concatenate([found[:size], found[2 * size : 2 * size + count]])

    def push(self, tangents, y, g, start, parameters):
        """Return the tangents; those of the operands have a leading axis of directions."""
        found = [self.mixed(each[0], g, start, parameters, *each[1:]) for each in zip(*tangents)]
        return wnp.stack(found)

    def pull(self, w, y, g, start, parameters):
        """Return the adjoints of the operands."""
        directions = self.split(w)
        mixed = self.mixed(np.zeros(np.shape(g)), g, start, parameters, *directions)
        tangents = [x[None] for x in directions]
        of_g = Solution(self.integration, self.times).push(tangents, None, start, parameters)[0]
        return [of_g, *self.split(mixed)]
