"""Sensitivities along the accepted steps of SciPy's integrators, for small systems, with recorded Jacobians.

A step of a Runge-Kutta method is ``K[r] = f(t + c[r] h, y + h sum_j w[r, j] K[j], p)``.  SciPy's stages are known, so
the points of all stages are, and with ``J = [df/dy, df/dp]`` there the derivatives of the stages in the state at the
start of their own step and in p follow for all steps at once, as products of arrays with an axis of steps ::

    dK[r] = J_y (I + h sum_j w[r, j] dK[j]) + J_p

For the implicit method of Radau these are linear equations.  Only the product of the steps' matrices is a loop.
The differences of BDF depend on all steps before, so its steps are taken one by one.
`f` is recorded as a program that returns J.

The solution is returned as ``y + G_y (y0 - stop y0) + G_p (p - stop p)``, which has first derivatives only.

References
----------
Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section I.14 (variational equations).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import BDF, DOP853, Radau
from scipy.integrate._ivp import radau as _radau

import wengert.numpy as wnp
from wengert.containers import plain_copy
from wengert.core.levels import Unrecorded, caught, is_recording, outside, running
from wengert.core.operands.var import as_numpy, is_traced
from wengert.errors import GuardError, LevelError, TracedValueError, UnsupportedFunctionError
from wengert.implicit.stripped import Abstracted
from wengert.implicit.theorem import total_order
from wengert.scipy.integral import joined, parted
from wengert.scipy.steps import RADAU, Segment, backward, collocation, interpolant, rescaled, updated

#: minimum number of steps for which recording the right-hand side pays
MIN_STEPS = 8

#: maximum of n^2 (n + m) for n states and m parameters: a step takes a few products of matrices of these sizes, which
#: must take less time than recording its stages one by one
MAX_PRODUCTS = 20_000

#: bytes for an element of a Jacobian of the right-hand side: that of the slope has as many
BYTES_PER_ELEMENT = 16

#: maximum relative deviation of the program from the right-hand side
MAX_DEVIATION = 1e-9

_FLOAT = np.dtype(float)


#: upper estimate of the number of stages of a step
MAX_STAGES = 16

#: number of times at which the solution is interpolated at once, which bounds memory
MAX_TIMES = 256


def at_times(
    right_hand_side: Callable,
    fun: Callable,
    args: tuple,
    plain_f: Callable,
    t: float,
    y: Any,
    solver: Any,
    times: Any,
    memory: int,
) -> tuple[Any, bool]:
    """Return the solution at plain times in the order of the steps, with first derivatives, if that is possible.

    Parameters
    ----------
    right_hand_side : callable
        Maps `fun` and `args` to a function of time and state.
    fun, args
        Hold the traced parameters.
    plain_f : callable
        The function of time and state on plain values.
    t, y
        The initial time, plain, and the initial state.
    solver : object
        SciPy's integrator with a log of its steps; see `wengert.scipy.steps.logged`.
    times : ndarray
    memory : int
        Bytes that the derivatives of all slopes may take.

    Returns
    -------
    solution : ndarray, shape (len(times), n)
        Possibly traced; None if the derivatives have to be computed step by step.
    is_continuous : bool
        Whether the right-hand side is known to be continuous.
    """
    if is_recording() or len(running.get()) > 1:
        return None, False
    if len(solver.log) < MIN_STEPS or len(solver.log[0]) == 1:
        return None, False
    abstracted = Abstracted(fun, args)
    values = abstracted.take()
    if any(as_numpy(x).dtype != _FLOAT or total_order(x) > 1 for x in (y, *values)):
        return None, False
    n, shapes = y.size, [np.shape(x) for x in values]
    p = joined(values) if values else np.zeros(0)
    elements = n * (n + p.size)
    if n * elements > MAX_PRODUCTS or len(solver.log) * MAX_STAGES * elements * BYTES_PER_ELEMENT > memory:
        return None, False

    def rates(z, t):
        own = parted(z[n:], shapes) if shapes else []
        return right_hand_side(*abstracted.frozen.filled(own))(t, z[:n].copy())

    plain = [np.asarray(plain_copy(x)) for x in (y, p)]
    found, is_continuous = None, False
    kind = next((_KINDS[base] for base in _KINDS if isinstance(solver, base)), Explicit)
    with caught(*_refusals()), outside(), np.errstate(all="ignore"):
        recorded = Recorded(rates, plain[1], t, plain[0])
        found = kind(solver, t, plain[0]).solution(recorded, plain_f, times)
        is_continuous = recorded.is_continuous
    if found is None or not np.isfinite(found[1]).all():
        return None, is_continuous and found is not None
    found, slope = found
    for x, known, part in ((y, plain[0], slope[:, :n]), (p, plain[1], slope[:, n:])):
        if is_traced(x):
            found = found + wnp.reshape(part @ (x - known), found.shape)
    return found, is_continuous


class Steps:
    """S accepted steps of n states, each of which depends only on the state at its start.

    Attributes
    ----------
    stages : ndarray, shape (S, R, n)
        SciPy's.
    """

    def __init__(self, solver, t, y, states):
        ends = np.array([entry[0] for entry in solver.log])
        self.direction, self.ends, self.starts = solver.direction, ends, np.array([t, *ends[:-1]])
        self.h = self.ends - self.starts
        self.states = np.array([y, *states])

    def solution(self, recorded, plain_f, times):
        """Return the solution at times, shape (T, n), and its Jacobian in the initial state and the parameters.

        None if the program differs from the right-hand side, which reads state that changes.
        """
        slopes = self.slopes(recorded, plain_f)
        return None if slopes is None else self.chained(*self.derivatives(slopes), times)

    def slopes(self, recorded, plain_f):
        """Return the Jacobians at all stages, shape (S, R, n, n + m), or None; see `solution`."""
        raise NotImplementedError

    def derivatives(self, slopes):
        """Return the derivatives of all stages, and of the ends, in the state at the start and the parameters.

        Shapes (S, R, n, n + m) and (S, n, n + m).
        """
        raise NotImplementedError

    def interpolation(self, k, times):
        """Return the weights in the solution at times of both states and all stages of steps `k`."""
        raise NotImplementedError

    def chosen(self, times):
        """Return the index of the step for each time."""
        order = self.direction * self.ends
        return np.minimum(np.searchsorted(order, self.direction * times), len(order) - 1)

    def chained(self, stages, ends, times):
        """Return the solution and its Jacobian, given the derivatives of each step."""
        n, width = ends.shape[1:]
        before = np.zeros((len(self.h) + 1, n, width))  # derivatives of the states between the steps
        before[0] = np.eye(n, width)
        for k, step in enumerate(ends):
            np.matmul(step[:, :n], before[k], out=before[k + 1])
            before[k + 1, :, n:] += step[:, n:]
        chosen = self.chosen(times)
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


class Explicit(Steps):
    """Steps of an explicit Runge-Kutta method, whose stages are slopes; the last is that at the end of the step.

    Attributes
    ----------
    weights : ndarray, shape (R, R)
        Those of the slopes in the point of each stage. Row `end` is the end of the step; rows after it are the further
        stages of the interpolant of DOP853, which SciPy does not store.
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

    def slopes(self, recorded, plain_f):
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
                found[k, r] = recorded.slopes(t, y)
        found[1:, 0] = found[:-1, last]  # the end of a step is the first stage of the next
        return found if _agree(values, self.stages[np.arange(count), checked]) else None

    def derivatives(self, slopes):
        count, n, width = len(self.c), *slopes.shape[2:]
        found = np.zeros((len(self.h), count, n, width))
        identity, h = np.eye(n, width), self.h[:, None, None]
        for r in range(count):
            point = identity + h * np.tensordot(found[:, :r], self.weights[r, :r], ((1,), (0,)))
            found[:, r] = slopes[:, r, :, :n] @ point
            found[:, r, :, n:] += slopes[:, r, :, n:]
            if r == self.end:
                ends = point
        return found, ends

    def interpolation(self, k, times):
        unit, h = np.eye(2 + len(self.c)), self.h[k]
        parts = interpolant(self.method, 0.0, 1.0, unit[0], unit[1], unit[2:])
        weights = Segment(0.0, 1.0, None, parts).at((times - self.starts[k]) / h)
        return weights[:, :1], weights[:, 1:2], h[:, None] * weights[:, 2:]


class Collocation(Steps):
    """Steps of the method of Radau, whose stages are changes of the state."""

    def __init__(self, solver, t, y):
        stages = [stages for _, stages in solver.log]
        super().__init__(solver, t, y, y + np.cumsum([change[-1] for change in stages], axis=0))
        self.stages = np.array(stages)

    def slopes(self, recorded, plain_f):
        found = recorded.space(self.stages.shape)
        times = self.starts[:, None] + self.h[:, None] * _radau.C
        points = self.states[:-1, None] + self.stages
        for k, r in np.ndindex(times.shape):
            found[k, r] = recorded.slopes(times[k, r], points[k, r])
        return found if recorded.agrees(plain_f, times[:, 1], points[:, 1]) else None

    def derivatives(self, slopes):
        count, stages, n, width = slopes.shape
        changes = np.einsum("k,ij,kjab->kiajb", self.h, RADAU, slopes)
        matrix = np.eye(stages * n) - changes[..., :n].reshape(count, stages * n, stages * n)
        found = np.linalg.solve(matrix, changes.sum(axis=3).reshape(count, stages * n, width))
        found = found.reshape(slopes.shape)
        return found, np.eye(n, width) + found[:, -1]

    def interpolation(self, k, times):
        unit = np.eye(1 + len(RADAU))
        parts = collocation(0.0, 1.0, unit[0], unit[1:])
        weights = Segment(0.0, 1.0, None, parts).at((times - self.starts[k]) / self.h[k])
        return weights[:, :1], np.zeros((len(times), 1)), weights[:, 1:]


class Multistep(Steps):
    """Steps of BDF; their backward differences, with derivatives, are followed from step to step."""

    def __init__(self, solver, t, y):
        super().__init__(solver, t, y, [entry[1] for entry in solver.log])
        self.log, self.alpha, self.gamma, (self.first,) = solver.log, solver.alpha, solver.gamma, solver.first

    def solution(self, recorded, plain_f, times):
        if not recorded.agrees(plain_f, self.ends, self.states[1:]):
            return None
        start, n = self.starts[0], self.states.shape[1]
        slopes = recorded.slopes(start, self.states[0])
        width = slopes.shape[1]

        def joined(value, slope):  # a value and its derivatives, in one row
            return np.concatenate([value[:, None], slope], axis=1).ravel()

        differences = np.stack([
            joined(self.states[0], np.eye(n, width)),
            self.first * joined(recorded.value(start, self.states[0]), slopes),
        ])
        found, chosen = np.empty((len(times), n, 1 + width)), self.chosen(times)
        for k, (end, y, order, scale, next_order, next_scale) in enumerate(self.log):
            differences = rescaled(differences, order, scale)
            predicted = np.ones(order + 1) @ differences[: order + 1]
            psi = (self.gamma[1 : order + 1] / self.alpha[order]) @ differences[1 : order + 1]
            c = self.h[k] / self.alpha[order]
            slopes = recorded.slopes(end, y)
            known = (predicted - psi).reshape(n, 1 + width)[:, 1:]
            known[:, n:] += c * slopes[:, n:]
            new = joined(y, np.linalg.solve(np.eye(n) - c * slopes[:, :n], known))
            differences = rescaled(updated(differences, new - predicted, order, next_order), next_order, next_scale)
            where = np.flatnonzero(chosen == k)
            if where.size:
                parts = backward(end, next_scale * self.h[k], next_order, differences)
                found[where] = Segment(self.starts[k], end, None, parts).at(times[where]).reshape(-1, n, 1 + width)
        return found[:, :, 0], found[:, :, 1:].reshape(-1, width)


_KINDS = {Radau: Collocation, BDF: Multistep}


class Recorded:
    """The right-hand side and its Jacobian in state and parameters at plain values, as programs."""

    def __init__(self, rates, p, t, y):
        from wengert.program.implicit_op import Paths
        from wengert.program.record import trace

        self.n = len(y)
        self.z = np.concatenate([y, p])
        self.paths = Paths(lambda inputs: trace(rates, tuple(inputs), {}, _NothingRead(rates)))
        self.first = self.paths.more([self.z, t]).jacobian()._try_execute

    def space(self, shape):
        """Return an array for Jacobians at points of this shape."""
        return np.empty((*shape, self.z.size))

    def value(self, t, y):
        self.z[: self.n] = y
        return self.paths.value([self.z, float(t)])

    def slopes(self, t, y):
        """Return the Jacobian, shape (n, n + m)."""
        self.z[: self.n] = y
        found = self.first([self.z, float(t)])
        return self.paths.slopes([self.z, float(t)]) if type(found) is int else found[0]

    def agrees(self, plain_f, times, points):
        """Return whether the program agrees with the function at these times and states."""
        values = np.array([self.value(t, y) for t, y in zip(times, points)])
        return _agree(values, np.array([plain_f(t, y) for t, y in zip(times, points)]))

    @property
    def is_continuous(self):
        """Whether the function has no branches, comparisons and calls, by which it may jump."""
        from wengert.program.ir.opcode_table import OPCODES
        from wengert.program.ir.opcodes import Op

        moves = Op.INPUT, Op.CONST, Op.ARRAY, Op.LOAD, Op.VIEW, Op.PACK, Op.PLACE, Op.PUT, Op.SUM, Op.GATHER, Op.SCATTER
        continuous = {*map(int, moves), *OPCODES.values()}
        programs = self.paths.programs
        return len(programs) == 1 and continuous.issuperset(programs[0]._listing.op.tolist())


def _refusals():
    """Types of errors that mean that there is no program."""
    from wengert.program.derivatives import NotDerivable
    from wengert.program.tracing.closure import NotReplayable

    errors = GuardError, LevelError, TracedValueError, UnsupportedFunctionError, np.linalg.LinAlgError
    return NotDerivable, NotReplayable, Unrecorded, *errors


def _agree(values, expected):
    largest = np.max(np.abs(expected), axis=1, keepdims=True, initial=0)
    return bool((np.abs(values - expected) <= MAX_DEVIATION * largest).all())


class _NothingRead:
    """Values that a recorded function reads from outside: none, since they are constant in one integration."""

    leaves = aliases = ()

    def __init__(self, f):
        self._f = f

    def operands(self, inputs, leaves):
        return list(inputs)

    def bound(self, operands):
        return self._f
