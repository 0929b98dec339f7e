"""Sensitivities of small systems along the steps that SciPy's integrators accepted.

For a step ``K[r] = f(t + c[r] h, y + h sum_j w[r, j] K[j], p)`` of a Runge-Kutta method, SciPy has computed the stages
K, so the points at which f was evaluated are known.  With the Jacobians J_y and J_p of f there, the derivatives of the
stages with respect to p and the state at the start of the step follow from the variational equations ::

    dK[r] = J_y (I + h sum_j w[r, j] dK[j]) + J_p

They are solved for all steps together, as products of arrays with an axis of steps; for the implicit method of Radau
they are linear equations.  The matrices of the steps are then multiplied one after the other.
The differences of BDF depend on all earlier steps, so its steps are taken one by one.
The Jacobians are computed by a program, for which f is recorded once.

The solution is returned as ``y + G_y (y0 - stop y0) + G_p (p - stop p)``, which has first derivatives only.

References
----------
Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section I.14 (variational equations).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import BDF, DOP853, Radau
from scipy.integrate._ivp import radau as _radau

import wengert.numpy as wnp
from wengert.containers import plain_copy
from wengert.core.levels import Unrecorded, caught, outside, running
from wengert.core.operands.var import as_numpy, is_traced
from wengert.errors import GuardError, LevelError, TracedValueError, UnsupportedFunctionError
from wengert.implicit.stripped import Abstracted
from wengert.implicit.theorem import total_order
from wengert.program.derivatives import NotDerivable
from wengert.program.implicit_op import Paths
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.record import trace_alone
from wengert.program.tracing.closure import NotReplayable
from wengert.scipy.integral import joined, parted
from wengert.scipy.steps import RADAU, Segment, backward, collocation, interpolant, rescaled, updated

#: minimum number of steps for which recording the right-hand side pays
MIN_STEPS = 8

#: maximum of n^2 (n + m) for n states and m parameters: the matrix products of a step must take less time than a replay
#: of its stages
MAX_PRODUCTS = 20_000

#: bytes for each element of the Jacobians at all stages, which are as large as the derivatives of the stages
BYTES_PER_ELEMENT = 16

#: upper bound of the number of stages of a step
MAX_STAGES = 16

#: maximum relative deviation of the program from the right-hand side
MAX_DEVIATION = 1e-9

#: number of times at which the solution is interpolated at once, which bounds memory
MAX_TIMES = 256

#: errors that mean that there is no program of the right-hand side, or no solution of the equations of a step
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

#: instructions without a jump: continuous functions, and those that move elements
_CONTINUOUS = {
    *OPCODES.values(),
    *map(int, (Op.INPUT, Op.CONST, Op.ARRAY, Op.LOAD, Op.VIEW, Op.PACK, Op.PLACE, Op.PUT, Op.SUM)),
    *map(int, (Op.GATHER, Op.SCATTER)),
}

_FLOAT = np.dtype(float)


def at_times(integration: Any, t: float, y: Any, solver: Any, times: np.ndarray) -> tuple[Any, bool]:
    """Return the solution at `times` with first derivatives, unless these need a replay step by step.

    Parameters
    ----------
    integration : object
        ``integration.right_hand_side(fun, args)`` is the right-hand side as a function of time and state;
        ``integration.fun`` and ``integration.args`` may hold traced parameters, ``integration.plain_f`` is the
        right-hand side on plain values, and ``integration.memory`` limits the bytes of the derivatives.
    t, y
        The initial time, plain, and the initial state, which may be traced.
    solver : object
        SciPy's integrator with a log of its steps; see `wengert.scipy.steps.logged`.
    times : ndarray
        In the order of the steps.

    Returns
    -------
    solution : ndarray, shape (len(times), n)
        Traced if it depends on traced values. None if the derivatives need a replay.
    is_continuous : bool
        Whether the right-hand side is known to be continuous.
    """
    if len(running.get()) > 1:
        return None, False
    if len(solver.log) < MIN_STEPS or len(solver.log[-1]) == 1:  # SciPy's stages were not logged
        return None, False
    abstracted = Abstracted(integration.fun, integration.args)
    values = abstracted.take()
    if any(as_numpy(x).dtype != _FLOAT or total_order(x) > 1 for x in (y, *values)):
        return None, False
    n, shapes = y.size, [np.shape(x) for x in values]
    p = joined(values) if values else np.zeros(0)
    elements = n * (n + p.size)
    if n * elements > MAX_PRODUCTS or len(solver.log) * MAX_STAGES * elements * BYTES_PER_ELEMENT > integration.memory:
        return None, False

    def rates(z, t):
        own = parted(z[n:], shapes) if shapes else []
        return integration.right_hand_side(*abstracted.frozen.filled(own))(t, z[:n].copy())

    plain = [np.asarray(plain_copy(x)) for x in (y, p)]
    found, is_continuous = None, False
    kind = next((_KINDS[base] for base in _KINDS if isinstance(solver, base)), Explicit)
    with caught(*_REFUSALS), outside(), np.errstate(all="ignore"):
        recorded = Recorded(rates, plain[1], t, plain[0])
        found = kind(solver, t, plain[0]).solution(recorded, integration.plain_f, times)
        is_continuous = recorded.is_continuous
    if found is None or not np.isfinite(found[1]).all():
        return None, is_continuous and found is not None
    found, jacobian = found
    for x, known, part in ((y, plain[0], jacobian[:, :n]), (p, plain[1], jacobian[:, n:])):
        if is_traced(x):
            found = found + wnp.reshape(part @ (x - known), found.shape)
    return found, is_continuous


class Steps:
    """S accepted steps of n states."""

    def __init__(self, solver, t, y, states):
        ends = np.array([entry[0] for entry in solver.log])
        self.direction, self.ends, self.starts = solver.direction, ends, np.array([t, *ends[:-1]])
        self.h = self.ends - self.starts
        self.states = np.array([y, *states])

    def solution(self, recorded, plain_f, times):
        """Return the solution at times, shape (T, n), and its Jacobian, shape (T n, n + m).

        The Jacobian is that with respect to the initial state and the parameters.
        The result is None if the program and the right-hand side differ: the latter then reads state that changes.
        """
        raise NotImplementedError

    def step_of(self, times):
        """Return the index of the step that covers each time."""
        order = self.direction * self.ends
        return np.minimum(np.searchsorted(order, self.direction * times), len(order) - 1)


class OneStep(Steps):
    """Steps that depend only on the state at their start.

    Attributes
    ----------
    stages : ndarray, shape (S, R, n)
        SciPy's.
    """

    def solution(self, recorded, plain_f, times):
        jacobians = self.jacobians(recorded, plain_f)
        return None if jacobians is None else self.chained(*self.derivatives(jacobians), times)

    def jacobians(self, recorded, plain_f):
        """Return the Jacobians of the right-hand side at all stages, shape (S, R, n, n + m), or None as `solution`."""
        raise NotImplementedError

    def derivatives(self, jacobians):
        """Return the derivatives of the stages, shape (S, R, n, n + m), and of the ends, shape (S, n, n + m).

        They are those with respect to the state at the start of the same step and to the parameters.
        """
        raise NotImplementedError

    def interpolation(self, k, times):
        """Return the interpolation weights, at `times` in steps `k`, of the states at both ends and of the stages."""
        raise NotImplementedError

    def chained(self, stages, ends, times):
        """Return the solution and its Jacobian, given the derivatives of each step."""
        n, width = ends.shape[1:]
        before = np.zeros((len(self.h) + 1, n, width))  # derivatives of the states between the steps
        before[0] = np.eye(n, width)
        for k, step in enumerate(ends):
            np.matmul(step[:, :n], before[k], out=before[k + 1])
            before[k + 1, :, n:] += step[:, n:]
        chosen = self.step_of(times)
        values, found = self.states[chosen + 1], before[chosen + 1]
        inside = np.flatnonzero(times != self.ends[chosen])
        for first in range(0, len(inside), MAX_TIMES):
            where = inside[first : first + MAX_TIMES]
            k = chosen[where]
            old, new, weights = self.interpolation(k, times[where])
            values[where] = old * self.states[k] + new * self.states[k + 1]
            values[where] += np.matmul(weights[:, None], self.stages[k])[:, 0]
            own = new[..., None] * ends[k] + np.einsum("tr,trij->tij", weights, stages[k])
            own += old[..., None] * np.eye(n, width)
            found[where] = own[:, :, :n] @ before[k]
            found[where, :, n:] += own[:, :, n:]
        return values, found.reshape(-1, width)


class Explicit(OneStep):
    """Steps of an explicit Runge-Kutta method, whose stages are slopes; the last is that at the end of the step.

    Attributes
    ----------
    weights : ndarray, shape (R, R)
        Weights of the stages in the state at which each stage is evaluated. Row `end` is the end of the step; later
        rows are further stages, for the interpolant of DOP853, which SciPy has not stored.
    """

    def __init__(self, solver, t, y):
        super().__init__(solver, t, y, [state for _, _, state in solver.log])
        self.method = type(solver)
        self.end = solver.n_stages
        extra = len(solver.A_EXTRA) if isinstance(solver, DOP853) else 0
        count = self.end + 1 + extra
        self.weights, self.c = np.zeros((count, count)), np.ones(count)
        self.weights[: self.end, : solver.A.shape[1]] = solver.A
        self.weights[self.end, : self.end] = solver.B
        self.c[: self.end] = solver.C
        if extra:
            self.weights[self.end + 1 :, : solver.A_EXTRA.shape[1]] = solver.A_EXTRA
            self.c[self.end + 1 :] = solver.C_EXTRA
        self.stages = np.zeros((len(self.h), count, len(y)))
        self.stages[:, : self.end + 1] = [slopes for _, slopes, _ in solver.log]

    def point(self, r):
        """Return the states at stage `r` of all steps."""
        if r == self.end:
            return self.states[1:]
        change = np.tensordot(self.stages[:, :r], self.weights[r, :r], ((1,), (0,)))
        return self.states[:-1] + self.h[:, None] * change

    def jacobians(self, recorded, plain_f):
        count, last = len(self.h), self.end
        checked = 1 + np.arange(count) % last  # one stage of each step
        values, found = np.empty(self.states[1:].shape), recorded.space(self.stages.shape)
        for r in range(len(self.c)):
            times = (self.starts + self.c[r] * self.h).tolist()
            for k, (t, y) in enumerate(zip(times, self.point(r))):
                if k and r == 0:
                    continue
                if r > last:
                    self.stages[k, r] = recorded.value(t, y)
                elif r == checked[k]:
                    values[k] = recorded.value(t, y)
                found[k, r] = recorded.jacobian(t, y)
        found[1:, 0] = found[:-1, last]  # the end of a step is the first stage of the next
        return found if _agree(values, self.stages[np.arange(count), checked]) else None

    def derivatives(self, jacobians):
        count, n, width = len(self.c), *jacobians.shape[2:]
        found = np.zeros((len(self.h), count, n, width))
        identity, h = np.eye(n, width), self.h[:, None, None]
        for r in range(count):
            point = identity + h * np.tensordot(found[:, :r], self.weights[r, :r], ((1,), (0,)))
            found[:, r] = jacobians[:, r, :, :n] @ point
            found[:, r, :, n:] += jacobians[:, r, :, n:]
            if r == self.end:
                ends = point
        return found, ends

    def interpolation(self, k, times):
        unit, h = np.eye(2 + len(self.c)), self.h[k]
        parts = interpolant(self.method, 0.0, 1.0, unit[0], unit[1], unit[2:])
        weights = Segment(0.0, 1.0, None, parts).at((times - self.starts[k]) / h)
        return weights[:, :1], weights[:, 1:2], h[:, None] * weights[:, 2:]


class Collocation(OneStep):
    """Steps of the method of Radau, whose stages are changes of the state."""

    def __init__(self, solver, t, y):
        stages = [stages for _, stages in solver.log]
        super().__init__(solver, t, y, y + np.cumsum([change[-1] for change in stages], axis=0))
        self.stages = np.array(stages)

    def jacobians(self, recorded, plain_f):
        found = recorded.space(self.stages.shape)
        times = self.starts[:, None] + self.h[:, None] * _radau.C
        points = self.states[:-1, None] + self.stages
        for k, r in np.ndindex(times.shape):
            found[k, r] = recorded.jacobian(times[k, r], points[k, r])
        return found if recorded.agrees(plain_f, times[:, 1], points[:, 1]) else None

    def derivatives(self, jacobians):
        count, stages, n, width = jacobians.shape
        changes = np.einsum("k,ij,kjab->kiajb", self.h, RADAU, jacobians)
        matrix = np.eye(stages * n) - changes[..., :n].reshape(count, stages * n, stages * n)
        found = np.linalg.solve(matrix, changes.sum(axis=3).reshape(count, stages * n, width))
        found = found.reshape(jacobians.shape)
        return found, np.eye(n, width) + found[:, -1]

    def interpolation(self, k, times):
        unit = np.eye(1 + len(RADAU))
        parts = collocation(0.0, 1.0, unit[0], unit[1:])
        weights = Segment(0.0, 1.0, None, parts).at((times - self.starts[k]) / self.h[k])
        return weights[:, :1], np.zeros((len(times), 1)), weights[:, 1:]


class Multistep(Steps):
    """Steps of BDF, whose backward differences pass from step to step, with their derivatives."""

    def __init__(self, solver, t, y):
        super().__init__(solver, t, y, [entry[1] for entry in solver.log])
        self.log, self.alpha, self.gamma, (self.first,) = solver.log, solver.alpha, solver.gamma, solver.first

    def solution(self, recorded, plain_f, times):
        if not recorded.agrees(plain_f, self.ends, self.states[1:]):
            return None
        start, n = self.starts[0], self.states.shape[1]
        jacobian = recorded.jacobian(start, self.states[0])
        width = jacobian.shape[1]

        def row(value, jacobian):  # a value and its derivatives
            return np.concatenate([value[:, None], jacobian], axis=1).ravel()

        state, change = row(self.states[0], np.eye(n, width)), row(recorded.value(start, self.states[0]), jacobian)
        differences = np.stack([state, self.first * change])
        found, chosen = np.empty((len(times), n, 1 + width)), self.step_of(times)
        for k, (end, y, order, scale, next_order, next_scale) in enumerate(self.log):
            differences = rescaled(differences, order, scale)
            predicted = np.ones(order + 1) @ differences[: order + 1]
            psi = (self.gamma[1 : order + 1] / self.alpha[order]) @ differences[1 : order + 1]
            c = self.h[k] / self.alpha[order]
            jacobian = recorded.jacobian(end, y)
            known = (predicted - psi).reshape(n, 1 + width)[:, 1:]
            known[:, n:] += c * jacobian[:, n:]
            new = row(y, np.linalg.solve(np.eye(n) - c * jacobian[:, :n], known))
            differences = rescaled(updated(differences, new - predicted, order, next_order), next_order, next_scale)
            where = np.flatnonzero(chosen == k)
            if where.size:
                parts = backward(end, next_scale * self.h[k], next_order, differences)
                found[where] = Segment(self.starts[k], end, None, parts).at(times[where]).reshape(-1, n, 1 + width)
        return found[:, :, 0], found[:, :, 1:].reshape(-1, width)


_KINDS = {Radau: Collocation, BDF: Multistep}


class Recorded:
    """Programs of the right-hand side and of its Jacobian with respect to the state and the parameters."""

    def __init__(self, rates, p, t, y):
        self.n = len(y)
        self.z = np.concatenate([y, p])
        self.paths = Paths(lambda inputs: trace_alone(rates, inputs))
        self.first = self.paths.more([self.z, t]).jacobian()._try_execute

    def space(self, shape):
        """Return an array for Jacobians at an array of states of this shape."""
        return np.empty((*shape, self.z.size))

    def value(self, t, y):
        """Return the right-hand side at plain values, shape (n,)."""
        self.z[: self.n] = y
        return self.paths.value([self.z, float(t)])

    def jacobian(self, t, y):
        """Return the Jacobian at plain values, shape (n, n + m)."""
        self.z[: self.n] = y
        found = self.first([self.z, float(t)])
        return self.paths.slopes([self.z, float(t)]) if type(found) is int else found[0]

    def agrees(self, plain_f, times, points):
        """Return whether the program agrees with the function at these times and states."""
        values = np.array([self.value(t, y) for t, y in zip(times, points)])
        return _agree(values, np.array([plain_f(t, y) for t, y in zip(times, points)]))

    @property
    def is_continuous(self):
        """Whether the function has no branches, comparisons and calls, at which it might jump."""
        programs = self.paths.programs
        return len(programs) == 1 and _CONTINUOUS.issuperset(programs[0]._listing.op.tolist())


def _agree(values, expected):
    largest = np.max(np.abs(expected), axis=1, keepdims=True, initial=0)
    return bool((np.abs(values - expected) <= MAX_DEVIATION * largest).all())
