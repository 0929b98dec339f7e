"""Sensitivities along the accepted steps of an explicit Runge-Kutta method, for all steps at once.

A step is ``K[r] = f(t + c[r] h, y + h sum_j w[r, j] K[j], p)``.  SciPy's stages K are known, so the points of all
stages are, and with ``J = [df/dy, df/dp]`` there the derivatives of the stages in the state at the start of their own
step and in p follow stage by stage, as products of arrays with an axis of steps ::

    dK[r] = J_y (I + h sum_j w[r, j] dK[j]) + J_p

Only the product of the steps' matrices is a loop.  `f` is recorded as a program that returns J.

The solution is returned as ``y + G_y (y0 - stop y0) + G_p (p - stop p)``, which has first derivatives only.

References
----------
Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section I.14 (variational equations).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import DOP853

import wengert.numpy as wnp
from wengert.containers import plain_copy
from wengert.core.levels import Unrecorded, caught, is_recording, outside, running
from wengert.core.operands.var import as_numpy, is_traced
from wengert.errors import GuardError, LevelError, TracedValueError, UnsupportedFunctionError
from wengert.implicit.stripped import Abstracted
from wengert.implicit.theorem import total_order
from wengert.scipy.integral import joined, parted
from wengert.scipy.steps import Segment, interpolant

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


#: number of times at which the solution is interpolated at once, which bounds memory
MAX_TIMES = 256


def at_times(
    right_hand_side: Callable, fun: Callable, args: tuple, t: float, y: Any, solver: Any, times: Any, memory: int
) -> Any:
    """Return the solution at plain times in the order of the steps, with first derivatives, if that is possible.

    Parameters
    ----------
    right_hand_side : callable
        Maps `fun` and `args` to a function of time and state.
    fun, args
        Hold the traced parameters.
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
    if not (len(solver.log) >= MIN_STEPS and hasattr(solver, "K") and len(solver.log[0]) > 1):
        return None, False
    abstracted = Abstracted(fun, args)
    values = abstracted.take()
    if any(as_numpy(x).dtype != _FLOAT or total_order(x) > 1 for x in (y, *values)):
        return None, False
    n, shapes = y.size, [np.shape(x) for x in values]
    p = joined(values) if values else np.zeros(0)
    elements = n * (n + p.size)
    if n * elements > MAX_PRODUCTS or len(solver.log) * len(solver.K) * elements * BYTES_PER_ELEMENT > memory:
        return None, False

    def rates(z, t):
        own = parted(z[n:], shapes) if shapes else []
        return right_hand_side(*abstracted.frozen.filled(own))(t, z[:n].copy())

    plain = [np.asarray(plain_copy(x)) for x in (y, p)]
    steps = Steps(solver, t, plain[0])
    slopes, is_continuous = _slopes(rates, plain[1], steps)
    if slopes is None:
        return None, is_continuous
    found, slope = steps.solution(steps.derivatives(slopes), times)
    if not np.isfinite(slope).all():
        return None, is_continuous
    for x, known, part in ((y, plain[0], slope[:, :n]), (p, plain[1], slope[:, n:])):
        if is_traced(x):
            found = found + wnp.reshape(part @ (x - known), found.shape)
    return found, is_continuous


class Steps:
    """The accepted steps of an explicit method: S steps of n states, with R stages and the slope at the end.

    Attributes
    ----------
    weights : ndarray, shape (R', R')
        Those of the slopes in the point of each stage. Row R is the end of the step; rows after it are the further
        stages of the interpolant of DOP853.
    slopes : ndarray, shape (S, R', n)
        SciPy's, and zeros for further stages.
    """

    def __init__(self, solver, t, y):
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
        ends, slopes, states = zip(*solver.log)
        self.direction, self.ends = solver.direction, np.array(ends)
        self.starts = np.array([t, *ends[:-1]])
        self.h = self.ends - self.starts
        self.states = np.array([y, *states])
        self.slopes = np.zeros((len(ends), count, len(y)))
        self.slopes[:, : self.end + 1] = slopes

    def point(self, r):
        """Return the states at stage `r` of all steps."""
        if r == self.end:
            return self.states[1:]
        change = np.tensordot(self.slopes[:, :r], self.weights[r, :r], ((1,), (0,)))
        return self.states[:-1] + self.h[:, None] * change

    def derivatives(self, slopes):
        """Return the derivatives of all stages' slopes, and of the ends, in the state at the start and the parameters.

        Shapes (S, R', n, n + m) and (S, n, n + m).
        """
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

    def solution(self, derivatives, times):
        """Return the solution at times, shape (T, n), and its Jacobian in the initial state and the parameters."""
        slopes, ends = derivatives
        n, width = ends.shape[1:]
        before = np.zeros((len(self.h) + 1, n, width))  # derivatives of the states between the steps
        before[0] = np.eye(n, width)
        for k, step in enumerate(ends):
            np.matmul(step[:, :n], before[k], out=before[k + 1])
            before[k + 1, :, n:] += step[:, n:]
        order = self.direction * self.ends
        chosen = np.minimum(np.searchsorted(order, self.direction * times), len(order) - 1)
        values, found = self.states[chosen + 1], before[chosen + 1]
        inside = np.flatnonzero(times != self.ends[chosen])
        for first in range(0, len(inside), MAX_TIMES):
            where = inside[first : first + MAX_TIMES]
            k = chosen[where]
            old, new, weights = self.interpolation(k, times[where])
            values[where] = old * self.states[k] + new * self.states[k + 1]
            values[where] += np.matmul(weights[:, None], self.slopes[k])[:, 0]
            own = new[..., None] * ends[k] + np.einsum("tr,trij->tij", weights, slopes[k])
            own += old[..., None] * np.eye(n, width)
            found[where] = own[:, :, :n] @ before[k]
            found[where, :, n:] += own[:, :, n:]
        return values, found.reshape(-1, width)

    def interpolation(self, k, times):
        """Return the weights in the solution at times of both states and all slopes of steps `k`."""
        unit = np.eye(2 + len(self.c))
        h = self.h[k]
        parts = interpolant(self.method, 0.0, 1.0, unit[0], unit[1], unit[2:])
        weights = Segment(0.0, 1.0, None, parts).at((times - self.starts[k]) / h)
        return weights[:, :1], weights[:, 1:2], h[:, None] * weights[:, 2:]


def _slopes(rates, p, steps):
    """Return the Jacobians of ``rates([y, p], t)`` at all stages, and whether it is continuous.

    The shape is (S, R', n, n + m). The Jacobians are None if there is no program, or if it differs from the right-hand
    side, which reads state that changes. Further stages get their slopes.
    """
    from wengert.program.derivatives import NotDerivable
    from wengert.program.implicit_op import Paths
    from wengert.program.record import trace
    from wengert.program.tracing.closure import NotReplayable

    n, last = steps.states.shape[1], steps.end
    z, values = np.concatenate([steps.states[0], p]), np.empty((len(steps.h), n))
    checked = 1 + np.arange(len(steps.h)) % last  # one stage of each step
    found = np.empty((len(steps.h), len(steps.c), n, z.size))
    refusals = GuardError, LevelError, TracedValueError, UnsupportedFunctionError
    with caught(NotDerivable, NotReplayable, Unrecorded, *refusals), outside(), np.errstate(all="ignore"):
        paths = Paths(lambda inputs: trace(rates, tuple(inputs), {}, _NothingRead(rates)))
        first = paths.more([z, float(steps.starts[0])]).jacobian()._try_execute
        for r in range(len(steps.c)):
            times = (steps.starts + steps.c[r] * steps.h).tolist()
            for k, (t, point) in enumerate(zip(times, steps.point(r))):
                if k and r == 0:
                    continue
                z[:n] = point
                if r > last:
                    steps.slopes[k, r] = paths.value([z, t])
                elif r == checked[k]:
                    values[k] = paths.value([z, t])
                slopes = first([z, t])
                found[k, r] = paths.slopes([z, t]) if type(slopes) is int else slopes[0]
        found[1:, 0] = found[:-1, last]  # the end of a step is the first stage of the next
        if not _agree(values, steps.slopes[np.arange(len(steps.h)), checked], steps.slopes):
            return None, False
        return found, _is_continuous(paths.programs)
    return None, False


def _agree(values, expected, slopes):
    largest = np.max(np.abs(slopes), axis=(1, 2))[:, None]
    return bool((np.abs(values - expected) <= MAX_DEVIATION * largest).all())


def _is_continuous(programs):
    """Return whether a function with these programs has no branches, comparisons and calls, by which it may jump."""
    from wengert.program.ir.opcode_table import OPCODES
    from wengert.program.ir.opcodes import Op

    moves = Op.INPUT, Op.CONST, Op.ARRAY, Op.LOAD, Op.VIEW, Op.PACK, Op.PLACE, Op.PUT, Op.SUM, Op.GATHER, Op.SCATTER
    continuous = {*map(int, moves), *OPCODES.values()}
    return len(programs) == 1 and continuous.issuperset(programs[0]._listing.op.tolist())


class _NothingRead:
    """Values that a recorded function reads from outside: none, since they are constant in one integration."""

    leaves = aliases = ()

    def __init__(self, f):
        self._f = f

    def operands(self, inputs, leaves):
        return list(inputs)

    def bound(self, operands):
        return self._f
