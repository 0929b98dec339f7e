"""Derivatives of solutions of initial value problems by native integration of the traced right-hand side.

In eager mode SciPy integrates plain values.  The derivatives come from an integration of the same system with its
tangents, which count in the step size control (`wengert.program.integration`), or from the adjoint of such steps.
The right-hand side is recorded once for this.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert.numpy as wnp
from wengert.containers import plain_copy
from wengert.core.levels import caught, outside
from wengert.core.operands import var
from wengert.errors import ConvergenceError, GuardError, NonSmoothError
from wengert.implicit.stripped import Abstracted
from wengert.program.integration import methods
from wengert.program.integration.calls import Integration, KinkError
from wengert.program.integration.continuity import has_fixed_jumps
from wengert.program.integration.shared import shared_integration, shared_system
from wengert.program.record import trace_alone
from wengert.scipy.integral import joined, parted
from wengert.scipy.native_integrand import REFUSALS
from wengert.scipy.own_rule import OwnRule
from wengert.scipy.recorded_integration import from_pairs, is_too_large, on_pairs, pairs, stepper_options, with_time
from wengert.transforms.explain import remark

#: number of points at which the recorded right-hand side is compared with the function, and the allowed difference
CHECKED_POINTS, MAX_DEVIATION = 5, 1e-9

_FLOAT, _COMPLEX = np.dtype(float), np.dtype(complex)


def at_times(integration: Any, times: np.ndarray) -> tuple[Any, bool]:
    """Return the solution at `times`, with derivatives, and whether the right-hand side can only jump at fixed times.

    The solution has shape (len(times), n), in the order in which the steps reach the times. It is traced if it depends
    on traced values, and None if the right-hand side has no program.

    ``integration.right_hand_side(fun, args)`` is the right-hand side as a function of time and state;
    ``integration.fun`` and ``integration.args`` may hold traced parameters, ``integration.plain_f`` is the right-hand
    side on plain values, and ``integration.memory`` limits the bytes of the steps. ``integration.sensitivity`` is the
    option of `solve_ivp`. ``integration.plain_span`` and ``integration.initial_state`` are the interval and the state
    at its start. The right-hand side is recorded in the first call; it is kept as ``integration.native``.
    """
    if not len(times):
        return None, False
    if integration.native is None:
        integration.native = Native(integration, times)
    native = integration.native
    return (native.at(times), native.is_continuous) if native.system is not None else (None, False)


class Native:
    """The solution of an initial value problem by native integration; `system` is None if that is not possible.

    See `at_times` for the parameters; the times are those at which the program is compared with the function.
    """

    def __init__(self, integration: Any, times: np.ndarray):
        method = integration.method.__name__
        self.method = methods.SWITCHING if method == "LSODA" else method
        self.span, self.memory = integration.plain_span, integration.memory
        self.system, self.is_continuous = None, False
        abstracted = Abstracted(integration.fun, integration.args)
        y, values = integration.initial_state, abstracted.take()
        kinds = [var.as_numpy(x).dtype for x in (y, *values)]
        self.is_complex = kinds[0] == _COMPLEX
        self.states = np.size(y)
        if any(kind not in (_FLOAT, _COMPLEX) for kind in kinds) or not self.states:
            return
        if self.is_complex and method == "LSODA":
            return
        operands = [pairs(x) if kind == _COMPLEX else x for x, kind in zip(values, kinds[1:])]
        self.y, self.p = pairs(y) if self.is_complex else y, joined(operands) if values else np.zeros(0)
        rates = self.rates(integration.right_hand_side, abstracted, values, operands)
        self.prepare(integration, times, rates)

    def rates(self, right_hand_side, abstracted, values, operands):
        """Return the right-hand side as a function of x = [t, y, p]."""
        n, shapes = np.size(self.y), [np.shape(x) for x in operands]
        complex_shapes = [np.shape(x) if x is not y else None for x, y in zip(values, operands)]

        def rates(x):
            own = parted(x[1 + n :], shapes) if shapes else []
            own = [v if s is None else wnp.reshape(from_pairs(v), s) for v, s in zip(own, complex_shapes)]
            f = right_hand_side(*abstracted.frozen.filled(own))
            return with_time(on_pairs(f) if self.is_complex else f)(x[0], x[1 : 1 + n].copy())

        return rates

    def prepare(self, integration, times, rates):
        """Record the right-hand side, and compare the program with it."""
        start, parameters = np.asarray(plain_copy(self.y)), np.asarray(plain_copy(self.p))

        def recorded(x):
            """Return the program of the branches that are taken at x, or None."""
            with caught(*REFUSALS), outside(), np.errstate(all="ignore"):
                return trace_alone(rates, [x])

        program = recorded(np.concatenate([[self.span[0]], start, parameters]))
        if program is None:
            return
        with caught(*REFUSALS), outside(), np.errstate(all="ignore"):
            system = shared_system(program, start.size, recorded)
            if is_too_large(system, self.method):
                return
            given = integration.options | {"sensitivity": integration.sensitivity}
            self.options = stepper_options(integration.name, given, self.states, self.is_complex)
            solution = self.solution(system, times)
            plain = solution.run(start[None], parameters[None])
            self.is_continuous = has_fixed_jumps(system)
            count = np.size(self.p) + (start.size if var.is_traced(self.y) else 0)
            for each in (system, *system.others):  # raises for systems without derivatives, which are replayed
                if solution.integration.is_forward(count):
                    each.pushed(count)
                else:
                    each.pulled(), each.pushed()
            f = on_pairs(integration.plain_f) if self.is_complex else integration.plain_f
            if np.isfinite(plain).all() and _agrees(solution.integration, f, times, plain, parameters):
                self.system = system

    def solution(self, system, times):
        """Return the solution at times as a function of initial states and parameters."""
        every, shapes = np.array([*self.span, *times]), [(np.size(self.p),)] if np.size(self.p) else []
        active = var.is_traced(self.y), *[True] * len(shapes)
        integration = shared_integration(system, shapes, self.method, self.options, self.memory, every.size)
        return Solution(integration, every, active)

    def at(self, times):
        solution = self.solution(self.system, times)
        y = solution(wnp.reshape(self.y, (1, -1)), wnp.reshape(self.p, (1, -1)))[0]
        return from_pairs(y) if self.is_complex else y


def _agrees(call, f, times, states, parameters):
    """Return whether the program of a right-hand side agrees with it at some times and states."""
    chosen = np.unique(np.linspace(0, len(times) - 1, CHECKED_POINTS).astype(int))
    times, states = times[chosen], states[:, chosen]
    for t, y, found in zip(times, states[0], call.slopes(times, states, parameters[None])[0]):
        expected = np.asarray(f(t, y.copy()))
        if not np.abs(found - expected).max() <= MAX_DEVIATION * np.abs(expected).max():
            return False
    return True


class _Function(OwnRule):
    """A function of initial states and parameters of all copies of a system; its rules consist of such functions."""

    name = "scipy.integrate.solve_ivp"
    run: Any

    def __init__(self, integration: Integration, times: np.ndarray, active: tuple | None = None):
        self.integration, self.times, self.active = integration, times, active
        super().__init__(self.name)

    def value(self, *operands: Any) -> Any:
        """Value at plain operands."""
        try:
            with outside(), np.errstate(all="ignore"):
                return self.run(*operands)
        except KinkError as error:
            raise NonSmoothError(f"{self.name}: {error}") from None
        except GuardError as error:
            raise ConvergenceError(
                f"{self.name}: the derivative: {error}. Change the method or the tolerances, or integrate up to an "
                "earlier time"
            ) from None

    def operands(self, start, parameters):
        return [*start, *(parameters if self.integration.shapes else [])]

    def split(self, adjoints):
        """Return adjoints of states and parameters as arrays with a row per copy."""
        system = self.integration.system
        q, size = system.copies, system.copies * system.states
        return [wnp.reshape(adjoints[:size], (q, -1)), wnp.reshape(adjoints[size:], (q, system.parameters))]


class Solution(_Function):
    """The solution at the times, of shape (copies, len(times) - 2, states)."""

    def run(self, start, parameters):
        return self.integration(self.times, *self.operands(start, parameters))

    def push(self, tangents, y, start, parameters):
        """Return the tangents of the solution; `tangents` of the operands have a leading axis of directions."""
        count = len(tangents[0])
        pushed = Solution(self.integration.pushed(count), self.times)
        rows = [wnp.reshape(x, (count * x.shape[1], x.shape[2])) for x in tangents]
        found = pushed(wnp.concatenate([start, rows[0]]), wnp.concatenate([parameters, rows[1]]))
        remark(pushed.integration.integration_report)
        q, T, n = self.integration.shape
        return wnp.reshape(found[q:], (count, q, T, n))

    def pull(self, ybar, y, start, parameters):
        return self.split(Adjoint(self.integration, self.times, self.active)(ybar, start, parameters))


class Adjoint(_Function):
    """Maps an adjoint of the solution to the adjoints of initial states and parameters, as one array.

    Only those of active operands are computed.
    """

    def run(self, g, start, parameters):
        return self.integration.adjoint(self.active)(g, self.times, *self.operands(start, parameters))

    def mixed(self, g_dot, g, start, parameters, starts, tangents):
        """Return F^T g_dot + (dF^T) g; see `program.integration.calls`."""
        system, pushed = self.integration.system, self.integration.pushed()
        operands = wnp.concatenate([start, starts]), wnp.concatenate([parameters, tangents])
        found = Adjoint(pushed, self.times)(wnp.concatenate([g_dot, g]), *operands)
        size, count = system.copies * system.states, system.copies * system.parameters
        return wnp.concatenate([found[:size], found[2 * size : 2 * size + count]])

    def push(self, tangents, y, g, start, parameters):
        found = [self.mixed(each[0], g, start, parameters, *each[1:]) for each in zip(*tangents)]
        return wnp.stack(found)

    def pull(self, w, y, g, start, parameters):
        directions = self.split(w)
        mixed = self.mixed(np.zeros(np.shape(g)), g, start, parameters, *directions)
        tangents = [x[None] for x in directions]
        of_g = Solution(self.integration, self.times).push(tangents, None, start, parameters)[0]
        return [of_g, *self.split(mixed)]
