"""Replays the accepted steps of SciPy's integrators on traced values.

An integrator chooses steps and orders from plain values.  With them held fixed, the solution is a composition of
differentiable maps, whose derivative is exact for the numbers that the integrator returns (discretise, then
differentiate).  A step of an implicit method is differentiated by the implicit function theorem.

References
----------
Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, sections II.1 and II.6.
Hairer and Wanner (1996), Solving Ordinary Differential Equations II, section IV.8 (Radau).
Shampine and Reichelt (1997), The MATLAB ODE Suite, section 2 (BDF). doi:10.1137/S1064827594276424
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import BDF, DOP853, RK23, RK45, Radau
from scipy.integrate._ivp import radau as _radau

import wengert.numpy as wnp
from wengert.checkpointing.run import checkpoint
from wengert.containers import plain_copy
from wengert.implicit.factors import Matrix
from wengert.implicit.theorem import solved_once
from wengert.program.integration.methods import RADAU

#: number of steps, from the first rejected one on, in which the right-hand side may jump
DOUBTED = 3

#: limit on the number of such steps that are kept
MAX_DOUBTFUL = 300


@dataclass
class Problem:
    """An initial value problem: `f(t, y)` on traced values, and its plain Jacobian with respect to y."""

    f: Callable
    jacobian: Callable
    name: str


@dataclass
class Segment:
    """A step and its interpolant ``base + weights(t) @ rows``; `make` returns the three parts at the first use."""

    start: float
    end: float
    make: Callable | None
    parts: tuple | None = None

    def at(self, times: Any) -> Any:
        """Return the solution at plain times, of shape (len(times), n)."""
        if self.parts is None:
            self.parts = self.make()
        base, rows, weights = self.parts
        return base + weights(np.asarray(times)) @ rows


def constant(t: float, y: Any) -> Segment:
    return Segment(t, t, None, (y, np.zeros((0, np.size(y))), lambda times: np.zeros((len(times), 0))))


def logged(method: type) -> type:
    """Return a subclass of SciPy's integrator that stores what its accepted steps need to be replayed, in `log`.

    Its attribute `doubtful` holds ends and states of steps in which the right-hand side may jump.
    """
    return _LOGGED.get(method, method)


def _made(base, before, after):
    def _step_impl(self):
        noted, start, y, proposed = before(self), self.t, self.y, self.h_abs
        found = base._step_impl(self)
        if found[0]:
            self.log.append(after(self, *noted))
            was_rejected = abs(self.t - start) < 0.99 * proposed and self.t != self.t_bound
            self.doubted = DOUBTED if was_rejected else self.doubted - 1
            if self.doubted > 0 and len(self.doubtful) < MAX_DOUBTFUL:
                self.doubtful.append((start, np.copy(y), self.t, np.copy(self.y)))
        return found

    def __init__(self, *args, **kwargs):
        base.__init__(self, *args, **kwargs)
        self.log, self.doubtful, self.doubted = [], [], 0
        self.first = (self.h_abs * self.direction,)

    return type(base.__name__, (base,), {"_step_impl": _step_impl, "__init__": __init__})


def _end_and_orders(solver, order, size, t):
    h = abs(solver.t - t)
    return solver.t, np.copy(solver.y), order, h / size, solver.order, solver.h_abs / h


EXPLICIT = (RK23, RK45, DOP853)
_LOGGED = {method: _made(method, lambda solver: (), lambda solver: (solver.t,)) for method in EXPLICIT}
_LOGGED[Radau] = _made(Radau, lambda solver: (), lambda solver: (solver.t, solver.Z))
_LOGGED[BDF] = _made(BDF, lambda solver: (solver.order, solver.h_abs, solver.t), _end_and_orders)


def replayed(problem: Problem, t: float, y: Any, solver: Any) -> Iterator[tuple[Segment, Any]]:
    """Yield the segments of a logged run from the traced state `y`, each with the state at its end."""
    method = next(method for method in _REPLAYS if isinstance(solver, method))
    return _REPLAYS[method](method, problem, t, y, solver)


# ---- explicit Runge-Kutta methods


def combination(y: Any, weights: np.ndarray, rows: list) -> Any:
    """Return y plus the weighted sum of rows, without the rows of weight 0."""
    for weight, row in zip(weights.tolist(), rows):
        if weight:
            y = y + weight * row
    return y


def runge_kutta(method, problem, t, y, solver):
    ends = [entry[0] for entry in solver.log]
    for segment, state, _ in explicit_steps(method, problem.f, t, y, problem.f(t, y), ends):
        yield segment, state


def explicit_steps(method: type, f: Callable, t: float, y: Any, slope: Any, ends: list) -> Iterator[tuple]:
    """Yield the segment of each step, and state and slope at its end."""
    a, b, c = method.A, method.B, method.C
    for end in ends:
        h = end - t
        slopes = [slope]
        for s in range(1, len(c)):
            slopes.append(f(t + c[s] * h, combination(y, h * a[s, :s], slopes)))
        new = combination(y, h * b, slopes)
        slope = f(end, new)
        slopes.append(slope)
        yield Segment(t, end, functools.partial(_interpolant_of, method, f, t, h, y, new, slopes)), new, slope
        t, y = end, new


def in_blocks(problem: Problem, t: float, y: Any, solver: Any, size: int, wanted: np.ndarray) -> Any:
    """Return the solution at times in the order of the steps; blocks of `size` steps are recorded when swept."""
    method = next(method for method in EXPLICIT if isinstance(solver, method))
    ends = [entry[0] for entry in solver.log]
    chosen = np.minimum(np.searchsorted(solver.direction * np.array(ends), solver.direction * wanted), len(ends) - 1)

    def block(first, t, y, slope):
        found = []
        run = explicit_steps(method, problem.f, t, y, slope, ends[first : first + size])
        for k, step in enumerate(run, first):
            if k in chosen:
                found.append(step[0].at(wanted[chosen == k]))
        state = step[1:]
        return (*state, wnp.concatenate(found)) if found else state

    slope, pieces = problem.f(t, y), []
    for first in range(0, len(ends), size):
        y, slope, *found = checkpoint(functools.partial(block, first, ends[first - 1] if first else t))(y, slope)
        pieces += found
    return wnp.concatenate(pieces)


def _interpolant_of(method, f, t, h, y, new, slopes):
    if method is DOP853:  # has three more stages
        slopes = [*slopes]
        for a, c in zip(method.A_EXTRA, method.C_EXTRA):
            slopes.append(f(t + c * h, combination(y, h * a[: len(slopes)], slopes)))
    return interpolant(method, t, h, y, new, slopes)


def interpolant(method: type, t: float, h: float, y: Any, new: Any, slopes: Any) -> tuple:
    """Return the `parts` of a `Segment` for a step from `y` to `new`; they are linear in both and in the slopes."""
    make = _dop853 if issubclass(method, DOP853) else _polynomial
    return make(method, t, h, y, new, slopes)


def _polynomial(method, t, h, y, new, slopes):
    """Dense output of the methods of Bogacki and Shampine and of Dormand and Prince (order 5)."""

    def weights(times):
        x = (times - t) / h
        return h * np.cumprod(np.tile(x, (method.P.shape[1], 1)), axis=0).T @ method.P.T

    return y, wnp.stack(slopes), weights


def _dop853(method, t, h, y, new, slopes):
    """Dense output of order 7 of the method of order 8."""
    change, first, last = new - y, h * slopes[0], h * slopes[method.n_stages]
    rows = [change, first - change, 2 * change - (last + first)]
    higher = (h * method.D) @ wnp.stack(slopes)

    def weights(times):
        x = (times - t) / h
        factors = [x if i % 2 == 0 else 1 - x for i in range(3 + len(method.D))]
        return np.cumprod(factors, axis=0).T

    return y, wnp.concatenate([wnp.stack(rows), higher]), weights


# ---- implicit methods


def radau(method, problem, t, y, solver):
    c = _radau.C
    n = np.size(y)
    for end, stages in solver.log:
        h = end - t
        times = t + h * c

        def residual(z, y=y, h=h, times=times):
            slopes = wnp.stack([problem.f(times[i], y + z[i]) for i in range(3)])
            return z - (h * RADAU) @ slopes

        blocks = [problem.jacobian(times[i], np.asarray(plain_copy(y)) + stages[i]) for i in range(3)]
        matrix = np.eye(3 * n) - np.block([[h * RADAU[i, j] * blocks[j] for j in range(3)] for i in range(3)])
        stages = solved_once(residual, stages, Matrix(matrix), problem.name)
        yield Segment(t, end, functools.partial(collocation, t, h, y, stages)), y + stages[2]
        t, y = end, y + stages[2]


def collocation(t, h, y, stages):
    def weights(times):
        x = (times - t) / h
        return np.cumprod(np.tile(x, (3, 1)), axis=0).T @ _radau.P.T

    return y, stages, weights


def bdf(method, problem, t, y, solver):
    """Replay the steps of ``BDF``; backward differences are rescaled to each step size, and updated after each step."""
    alpha, gamma = solver.alpha, solver.gamma
    (first,) = solver.first
    differences = wnp.stack([y, first * problem.f(t, y)])
    for end, plain, order, scale, next_order, next_scale in solver.log:
        h = end - t
        differences = rescaled(differences, order, scale)
        predicted = np.ones(order + 1) @ differences[: order + 1]
        psi = (gamma[1 : order + 1] / alpha[order]) @ differences[1 : order + 1]
        c = h / alpha[order]

        def residual(u, end=end, c=c, psi=psi, predicted=predicted):
            return u - predicted + psi - c * problem.f(end, u)

        matrix = np.eye(len(plain)) - c * problem.jacobian(end, plain)
        y = solved_once(residual, plain, Matrix(matrix), problem.name)
        d = y - predicted
        differences = updated(differences, d, order, next_order)
        differences = rescaled(differences, next_order, next_scale)
        size = next_scale * h
        yield Segment(t, end, functools.partial(backward, end, size, next_order, differences)), y
        t = end


def rescaled(differences, order, factor):
    """Return the differences for steps of `factor` times the size."""
    if abs(factor - 1.0) < 1e-13:  # the size was only rounded
        return differences
    changed = _change(order, factor).T @ differences[: order + 1]
    return wnp.concatenate([changed, differences[order + 1 :]]) if len(differences) > order + 1 else changed


def _change(order, factor):
    def triangle(factor):
        i, j = np.arange(1, order + 1)[:, None], np.arange(1, order + 1)
        found = np.zeros((order + 1, order + 1))
        found[1:, 1:] = (i - 1 - factor * j) / i
        found[0] = 1
        return np.cumprod(found, axis=0)

    return triangle(factor) @ triangle(1)


def updated(differences, d, order, next_order):
    """Return the differences after a step, whose difference of order ``order + 1`` is `d`."""
    sums = np.triu(np.ones((order + 1, order + 1))) @ differences[: order + 1] + d
    rows = [sums, wnp.reshape(d, (1, -1))]
    if next_order > order:
        before = differences[order + 1] if len(differences) > order + 1 else 0.0
        rows.append(wnp.reshape(d - before, (1, -1)))
    return wnp.concatenate(rows)


def backward(end, h, order, differences):
    def weights(times):
        x = (times - (end - h * np.arange(order))[:, None]) / (h * (1 + np.arange(order)))[:, None]
        return np.cumprod(x, axis=0).T

    return differences[0], differences[1 : order + 1], weights


_REPLAYS = {**dict.fromkeys(EXPLICIT, runge_kutta), Radau: radau, BDF: bdf}


def advanced(f: Callable, t: float, y: Any, dt: Any) -> Any:
    """Return y at ``t + dt`` for a traced `dt` of value 0; derivatives up to order 4 in `dt` are exact."""
    k1 = f(t, y)
    k2 = f(t + 0.5 * dt, y + 0.5 * dt * k1)
    k3 = f(t + 0.5 * dt, y + 0.5 * dt * k2)
    k4 = f(t + dt, y + dt * k3)
    return y + dt / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
