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

#: maximum relative deviation of the program from the right-hand side
MAX_DEVIATION = 1e-9

_FLOAT = np.dtype(float)


def at_times(right_hand_side: Callable, fun: Callable, args: tuple, t: float, y: Any, solver: Any, times: Any) -> Any:
    """Return the solution at plain times in the order of the steps, with first derivatives; None if that is not possible.

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

    Returns
    -------
    ndarray, shape (len(times), n)
        Possibly traced.
    """
    if is_recording() or len(running.get()) > 1:
        return None
    if not (len(solver.log) >= MIN_STEPS and hasattr(solver, "K") and len(solver.log[0]) > 1):
        return None
    abstracted = Abstracted(fun, args)
    values = abstracted.take()
    if any(as_numpy(x).dtype != _FLOAT or total_order(x) > 1 for x in (y, *values)):
        return None
    n, shapes = y.size, [np.shape(x) for x in values]
    p = joined(values) if values else np.zeros(0)
    if n * n * (n + p.size) > MAX_PRODUCTS:
        return None

    def rates(z, t):
        own = parted(z[n:], shapes) if shapes else []
        return right_hand_side(*abstracted.frozen.filled(own))(t, z[:n].copy())

    plain = [np.asarray(plain_copy(x)) for x in (y, p)]
    steps = Steps(solver, t, plain[0])
    slopes = _slopes(rates, plain[1], steps)
    if slopes is None:
        return None
    found, slope = steps.solution(steps.derivatives(slopes), times)
    if not np.isfinite(slope).all():
        return None
    for x, known, part in ((y, plain[0], slope[:, :n]), (p, plain[1], slope[:, n:])):
        if is_traced(x):
            found = found + wnp.reshape(part @ (x - known), found.shape)
    return found


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
        for k in np.unique(chosen[inside]):
            where = inside[chosen[inside] == k]
            values[where] = self.interpolated(k, times[where], self.states[k : k + 2], self.slopes[k])
            own = np.stack([np.eye(n, width), ends[k]]).reshape(2, -1)
            own = self.interpolated(k, times[where], own, slopes[k].reshape(len(self.c), -1)).reshape(-1, n, width)
            found[where] = own[:, :, :n] @ before[k]
            found[where, :, n:] += own[:, :, n:]
        return values, found.reshape(-1, width)

    def interpolated(self, k, times, states, slopes):
        """Evaluate the interpolant of a step, which is linear in the states at its ends and the slopes."""
        start, end = self.starts[k], self.ends[k]
        return Segment(start, end, None, interpolant(self.method, start, end - start, *states, slopes)).at(times)


def _slopes(rates, p, steps):
    """Return the Jacobians of ``rates([y, p], t)`` at all stages, shape (S, R', n, n + m); None if there is no program.

    Further stages get their slopes.
    """
    from wengert.program.derivatives import NotDerivable
    from wengert.program.implicit_op import Paths
    from wengert.program.record import trace
    from wengert.program.tracing.closure import NotReplayable

    count, n = len(steps.c), steps.states.shape[1]
    z = np.concatenate([steps.states[0], p])
    found = np.empty((len(steps.h), count, n, z.size))
    refusals = GuardError, LevelError, TracedValueError, UnsupportedFunctionError
    with caught(NotDerivable, NotReplayable, Unrecorded, *refusals), outside(), np.errstate(all="ignore"):
        paths = Paths(lambda inputs: trace(rates, tuple(inputs), {}, _NothingRead(rates)))
        for r in range(count):
            times = (steps.starts + steps.c[r] * steps.h).tolist()
            is_known = r <= steps.end
            for k, (t, point) in enumerate(zip(times, steps.point(r))):
                z[:n] = point
                if not is_known:
                    steps.slopes[k, r] = paths.value([z, t])
                elif r in (0, 1 + k % steps.end) and not _agree(paths.value([z, t]), steps.slopes[k], r):
                    return None  # the right-hand side reads state that changes
                found[k, r] = paths.slopes([z, t])
        return found
    return None


def _agree(value, slopes, r):
    scale = np.maximum(np.abs(slopes[r]), np.max(np.abs(slopes)))
    return bool((np.abs(value - slopes[r]) <= MAX_DEVIATION * scale).all())


class _NothingRead:
    """Values that a recorded function reads from outside: none, since they are constant in one integration."""

    leaves = aliases = ()

    def __init__(self, f):
        self._f = f

    def operands(self, inputs, leaves):
        return list(inputs)

    def bound(self, operands):
        return self._f
