"""Minima under bounds and constraints, by the Karush-Kuhn-Tucker conditions of the active set.

The input is a problem, to minimise phi(x) subject to low <= x <= high and low_i <= c_i(x) <= high_i, and a point near
its solution.  `identify` finds the active set and the multipliers; `Problem.conditions` turns them into equations for
`wengert.implicit.theorem`.
Variables at an active bound are eliminated, and the other active constraints are equations with multipliers ::

    d/dx [phi(x) - lambda . (c_A(x) - t_A)] = 0  for the free variables,     c_A(x) = t_A

These equations determine a differentiable solution if the gradients of the active constraints are independent, each
multiplier of an inequality has its sign and is not zero, and the Hessian of the Lagrangian is positive definite along
the active constraints (Fiacco 1976).  `identify` checks all of this, and that
the other constraints hold, at a point improved by Newton's method: the point is then an isolated local minimum, no
matter how it was found.
Solvers stop at a distance from the active constraints.  So the active set is first estimated by nonnegative least
squares, and constraints are then added and dropped until all multipliers have the right sign.

References
----------
Fiacco (1976), Sensitivity analysis for nonlinear programming using penalty methods. doi:10.1007/BF01580677
Bonnans and Shapiro (2000), Perturbation analysis of optimization problems. doi:10.1007/978-1-4612-1394-9
Nocedal and Wright (2006), Numerical Optimization, chapter 12. doi:10.1007/978-0-387-40065-5
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert import api
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced
from wengert.errors import ConvergenceError, NonSmoothError, SingularJacobianError
from wengert.implicit.stripped import stripped
from wengert.implicit.theorem import MAX_CORRECTION, Equations, plain_function

#: a constraint is tried as active if changing x by at most this fraction of max(1, abs(x)) would reach its limit
NEAR = 1e-3

#: whether a constraint is active is undecided if changing x by this fraction would change the answer
UNDECIDED = 1e-8

#: multipliers below this fraction of the terms of the gradient of the Lagrangian are rounding errors
ROUNDING = 1e-10

#: singular values, and components of unit vectors, below this count as zero: the rows are linearly dependent
DEPENDENT = 1e-10

#: relative weights below this count as zero in a combination of constraints
INSIDE = 1e-7

#: in the relative correction, components of x count as at least this fraction of the largest component
SCALE_FLOOR = 1e-3

#: maximum number of changes of the active set
MAX_CHANGES = 30

#: maximum number of Newton steps for one active set
MAX_STEPS = 20


@dataclass
class Constraint:
    """``low <= value(x) <= high``, elementwise; `low` and `high` may be traced arrays."""

    value: Callable
    low: Any
    high: Any


@dataclass
class Conditions:
    """Optimality conditions for a given active set, with `n_free` free variables.

    `residual` is a function of one array of unknowns, the free variables followed by the multipliers; `join` maps this
    array to all variables x. `lagrangian` is a function of x and the multipliers; at a solution it equals the
    objective.
    """

    residual: Callable
    join: Callable
    lagrangian: Callable
    n_free: int

    def fun(self, z: Any) -> Any:
        """Return the minimum value, with its derivatives."""
        return self.lagrangian(self.join(z), z[self.n_free :])


@dataclass
class Solution:
    """Active set of a solution, and the unknowns of its conditions: as `found`, and as `improved` by Newton's method.

    `side` has an element for each variable, followed by one for each constraint: -1 at the lower limit, 1 at the upper
    limit, otherwise 0. `correction` is the largest relative change of x by Newton's method.
    """

    side: np.ndarray
    found: np.ndarray
    improved: np.ndarray
    correction: float


class WeaklyActive(NonSmoothError):
    """It is undecided whether a constraint is active: its multiplier is zero, and the solution may have a kink.

    The minimum value is differentiable nevertheless, since the multipliers are unique: by the envelope theorem its
    derivative is that of the Lagrangian (Bonnans and Shapiro 2000, section 4.3).  If the minimum is not isolated, this
    holds only for derivatives with respect to the limits of a convex problem.

    With `is_affine`, the minimum value is a piecewise linear function of the limits and affine near their current
    values, so that it has derivatives of every order.
    """

    def __init__(self, message: str, solution: Solution, is_isolated: bool, is_affine: bool = False):
        super().__init__(message)
        self.solution, self.is_isolated, self.is_affine = solution, is_isolated, is_affine


class Problem:
    """Minimise ``objective(x)`` subject to bounds and other constraints; all of them may read traced values."""

    def __init__(self, objective: Callable, low: Any, high: Any, constraints: list[Constraint], name: str):
        self.objective = objective
        self.low, self.high = low, high
        self.constraints = constraints
        self.name = name

    def reads_traced(self, x: np.ndarray) -> bool:
        """Return whether the problem depends on traced values."""
        ends = [end for c in self.constraints for end in (c.low, c.high)]
        return (
            holds_traced((self.low, self.high, *ends))
            or holds_traced(self.objective(x))
            or any(holds_traced(c.value(x)) for c in self.constraints)
        )

    def reads_traced_limits_only(self, x: np.ndarray) -> bool:
        """Return whether objective and constraints depend on traced values only through their limits, if at all."""
        return not (holds_traced(self.objective(x)) or any(holds_traced(c.value(x)) for c in self.constraints))

    def moves(self, x: np.ndarray, side: np.ndarray) -> np.ndarray:
        """Return which bounds and constraints are traced, or have a traced limit on the given side."""
        found = []
        for low, high, is_traced in (
            (self.low, self.high, False),
            *((c.low, c.high, holds_traced(c.value(x))) for c in self.constraints),
        ):
            here = side[(start := sum(map(len, found))) : start + np.size(low)]
            found.append(is_traced | np.where(here < 0, holds_traced(low), holds_traced(high)))
        return np.concatenate(found)

    def slack(self, x: np.ndarray) -> np.ndarray:
        """Return the distance of each variable and constraint to its nearer limit; negative beyond it."""
        return _Plain(self, x).slack(x)[0]

    def conditions(self, side: np.ndarray) -> Conditions:
        """Return the optimality conditions with the given active set."""
        n = np.size(self.low)
        at = side[:n]
        place = np.eye(n)[:, at == 0]
        fixed = np.where(at < 0, self.low, np.where(at > 0, self.high, 0.0))
        parts, start, n_free, objective = [], n, place.shape[1], self.objective
        for c in self.constraints:
            stop = start + np.size(c.low)
            rows = np.flatnonzero(side[start:stop])
            if rows.size:
                parts.append((c.value, rows, np.where(side[start:stop][rows] < 0, c.low[rows], c.high[rows])))
            start = stop

        def violation(x):
            return np.concatenate([np.reshape(value(x), (-1,))[rows] - target for value, rows, target in parts])

        def lagrangian(x, multipliers):
            y = objective(x)
            return y - np.sum(multipliers * violation(x)) if parts else y

        slope = api.grad(lagrangian)

        def join(z):
            return fixed + place @ z[:n_free]

        def residual(z):
            x = join(z)
            stationary = place.T @ slope(x, z[n_free:])
            return np.concatenate([stationary, violation(x)]) if parts else stationary

        return Conditions(residual, join, lagrangian, n_free)


class _Plain:
    """Values and derivatives of a problem, on plain values; the first constraints are the bounds of the variables."""

    def __init__(self, problem, x):
        self.n = x.size
        constraints = problem.constraints
        ends = stripped([(problem.low, problem.high), *((c.low, c.high) for c in constraints)])
        self.low, self.high = (np.concatenate([np.ravel(pair[i]) for pair in ends]) for i in (0, 1))
        self.is_equation = self.low == self.high
        self.slope = plain_function(api.grad(problem.objective))
        self.parts = [(plain_function(c.value), plain_function(api.jacobian(c.value))) for c in constraints]

    def values(self, x):
        return np.concatenate([x, *(np.ravel(value(x)) for value, _ in self.parts)])

    def jacobian(self, x):
        return np.concatenate([np.eye(self.n), *(np.reshape(J(x), (-1, self.n)) for _, J in self.parts)])

    def slack(self, x):
        """Return the distance of each constraint to its nearer limit, and the side of that limit."""
        c = self.values(x)
        below, above = c - self.low, self.high - c
        return np.minimum(below, above), np.where(below <= above, -1, 1)

    def at_solution(self, x):
        """Return slope, Jacobian, the side of each nearest limit, and which constraints are active, at a solution."""
        jacobian = self.jacobian(x)
        slack, nearest = self.slack(x)
        active = self.is_equation | (slack <= UNDECIDED * (np.abs(jacobian) @ np.maximum(1, np.abs(x))))
        return self.slope(x), jacobian, nearest, active & np.any(jacobian != 0, axis=1)


def identify(problem: Problem, x: np.ndarray, on_singular: str) -> Solution:
    """Return the active set at the solution `x`, with multipliers; raise if the solution is not differentiable.

    The errors are `ConvergenceError` if no point near `x` satisfies the conditions, `NonSmoothError` if it is undecided
    whether a constraint is active, and `SingularJacobianError` if the conditions do not determine x, unless
    `on_singular` permits it.
    """
    plain = _Plain(problem, x)
    slope, jacobian = plain.slope(x), plain.jacobian(x)
    side, seen = _first_guess(plain, x, slope, jacobian), set()
    for _ in range(MAX_CHANGES):
        conditions = problem.conditions(side)
        start = _unknowns(plain, side, x, slope, jacobian)
        z, factor = _newton(problem, conditions, start)
        state = _State(plain, conditions, side, z, factor)
        if not state.is_regular:
            return Solution(side, start, start, np.nan)  # the implicit function theorem handles it
        changed = state.changed()
        if changed is None:
            return _checked(problem, plain, state, start, x, on_singular)
        seen.add(side.tobytes())
        if changed.tobytes() in seen:
            break
        side = changed
    raise ConvergenceError(
        f"{problem.name}: no solution: no point near x satisfies the Karush-Kuhn-Tucker conditions. Start nearer to a "
        "minimum, or give the solver more iterations or a smaller tolerance"
    )


def weak_vertex(problem: Problem, x: np.ndarray) -> WeaklyActive | None:
    """Return why the solution of a linear program has no derivative at a vertex that is one of several solutions.

    The multipliers are unique if as many constraints as variables are active, with independent gradients. Returns None
    if that is not so, or if all multipliers of inequalities are positive.
    """
    plain = _Plain(problem, x)
    slope, jacobian = plain.slope(x), plain.jacobian(x)
    slack, nearest = plain.slack(x)
    active = plain.is_equation | (slack <= UNDECIDED * (np.abs(jacobian) @ np.maximum(1, np.abs(x))))
    rows = jacobian[active]
    if len(rows) != plain.n or np.linalg.matrix_rank(rows) < plain.n:
        return None
    multipliers = np.linalg.solve(rows.T, slope)
    terms = np.max(np.abs(slope)) + np.abs(multipliers) @ np.abs(rows)
    weak = np.abs(multipliers) * np.max(np.abs(rows), axis=1) <= ROUNDING * np.max(terms)
    found = np.flatnonzero(active)[weak & ~plain.is_equation[active]]
    if not found.size:
        return None
    side = np.where(active, nearest, 0)
    z = _unknowns(plain, side, x, slope, jacobian)
    return WeaklyActive(
        f"{problem.name} has no derivative here: the solution is not unique, and it is undecided whether "
        f"{_name(plain, found[0])} is active, since its multiplier is zero",
        Solution(side, z, z, 0.0),
        is_isolated=False,
        is_affine=True,
    )


def degenerate_vertex(problem: Problem, x: np.ndarray) -> Solution | None:
    """Return a basis of the active constraints at a vertex of a linear program where more than n of them meet.

    Returns None if at most n constraints are active, or if there is no derivative. The solution has a derivative if it
    is unique and every traced active constraint is independent of all others: the others then stay consistent as it
    moves, and their multipliers stay positive. Such a constraint belongs to every basis, so that the equations of any
    basis determine the derivative of the solution, and that of the value.
    """
    plain = _Plain(problem, x)
    slope, jacobian, nearest, active = plain.at_solution(x)
    which = np.flatnonzero(active)
    rows = jacobian[which] / np.linalg.norm(jacobian[which], axis=1, keepdims=True)
    if len(which) <= plain.n:
        return None
    left, singular, _ = np.linalg.svd(rows)
    if singular[-1] <= DEPENDENT * singular[0]:
        return None
    side = np.where(active, nearest, 0)
    is_traced = problem.moves(x, side)[which]
    if np.any(np.abs(left[is_traced, plain.n :]) > DEPENDENT):
        return None
    if not _is_inside(rows * -side[which, None], plain.is_equation[which], slope):
        return None
    kept = np.zeros(side.size, bool)
    kept[which[_basis(rows, np.argsort(~is_traced, kind="stable"))]] = True
    side = np.where(kept, side, 0)
    limits = np.where(side < 0, plain.low, plain.high)[kept]
    at = x - np.linalg.solve(jacobian[kept], plain.values(x)[kept] - limits)
    correction = float(np.max(np.abs(at - x) / np.maximum(1, np.abs(x)), initial=0))
    found, improved = (_unknowns(plain, side, point, slope, jacobian) for point in (x, at))
    return Solution(side, found, improved, correction)


def moving_limits(problem: Problem, x: np.ndarray) -> WeaklyActive | None:
    """Return why the solution of a linear program has no derivative, if its value has one in the traced limits.

    The value is a piecewise linear function of the limits. It has a derivative if the multipliers of the traced limits
    are the same in all solutions of the dual program, which involve only the constraints active at `x`. The test is
    that a linear function of these multipliers, with generic weights, has equal maximum and minimum. Returns None if it
    fails, or if as many constraints as variables are active, with independent gradients.
    """
    from scipy.optimize import linprog

    plain = _Plain(problem, x)
    slope, jacobian, nearest, active = plain.at_solution(x)
    side, which = np.where(active, nearest, 0), np.flatnonzero(active)
    rows, size = jacobian[which], np.max(np.abs(slope))
    if size == 0 or (len(which) == plain.n and np.linalg.matrix_rank(rows) == plain.n):
        return None
    lengths = np.linalg.norm(rows, axis=1)
    normals = (rows / lengths[:, None]).T * -side[which]
    is_moving = problem.moves(x, side)[which]
    weights = np.where(is_moving, 1 + np.cos(np.arange(1.0, len(which) + 1)) / 2, 0.0)
    bounds = [(None if is_free else 0, None) for is_free in plain.is_equation[which]]
    ends = [linprog(sign * weights, A_eq=normals, b_eq=slope / size, bounds=bounds) for sign in (1, -1)]
    if any(end.status for end in ends) or ends[0].fun + ends[1].fun < -INSIDE:
        return None
    used = plain.is_equation[which] | (ends[0].x > INSIDE)
    multipliers = np.zeros(len(which))  # recomputed, since linprog's are accurate only to its tolerance
    multipliers[used] = np.linalg.lstsq(rows[used].T, slope, rcond=None)[0]
    if np.max(np.abs(multipliers @ rows - slope)) > ROUNDING * size * len(which):
        return None
    z = np.concatenate([x[side[: plain.n] == 0], multipliers[which >= plain.n]])
    return WeaklyActive(
        f"{problem.name} has no derivative here: the solution is not unique, or has a kink, since the gradients of the "
        f"active constraints are linearly dependent or too few: {_names(plain, active)}. The value has a derivative in "
        "the limits of constraints",
        Solution(side, z, z, 0.0),
        is_isolated=False,
        is_affine=True,
    )


def _basis(rows, order):
    """Return the indices of rows that form a basis, chosen in the given order of preference."""
    basis: list = []
    space = np.zeros((0, rows.shape[1]))
    for i in order:
        rest = rows[i] - space.T @ (space @ rows[i])
        rest -= space.T @ (space @ rest)
        size = np.linalg.norm(rest)
        if size > DEPENDENT:
            basis.append(i)
            space = np.vstack([space, rest / size])
    return np.array(basis)


def _is_inside(normals, is_free, slope):
    """Return whether a vector is a combination of normals with positive weights, arbitrary ones where `is_free`."""
    from scipy.optimize import linprog

    size = np.max(np.abs(slope))
    if size == 0:
        return False
    m, n = normals.shape  # maximise the least weight
    equations = np.column_stack([normals.T, np.zeros(n)])
    limits = np.column_stack([-np.eye(m), np.ones(m)])[~is_free]
    bounds = [(None, None)] * m + [(None, 1.0)]
    options = {"A_ub": limits, "b_ub": np.zeros(len(limits))} if len(limits) else {}
    found = linprog(np.append(np.zeros(m), -1.0), A_eq=equations, b_eq=slope / size, bounds=bounds, **options)
    return found.status == 0 and found.x[-1] > INSIDE


def ends_of_bounds(bounds: Any, n: int) -> tuple[Any, Any]:
    """Return the lower and upper bounds of n variables, given as an object or as a sequence of pairs."""
    if bounds is None:
        return np.full(n, -np.inf), np.full(n, np.inf)
    if hasattr(bounds, "lb"):
        return vector(bounds.lb, n), vector(bounds.ub, n)
    low, high = ([pair[i] for pair in bounds] for i in (0, 1))
    return (
        vector([-np.inf if end is None else end for end in low], n),
        vector([np.inf if end is None else end for end in high], n),
    )


def vector(x, n):
    """Return x as an array of n floats, traced or not."""
    x = from_list(x)
    x = x if holds_traced(x) else np.asarray(x, dtype=float)
    return np.reshape(x, (-1,)) + np.zeros(n)


def guess(problem: Problem, x: np.ndarray) -> Solution:
    """Return an unchecked estimate of the active set and the multipliers at `x`."""
    plain = _Plain(problem, x)
    slope, jacobian = plain.slope(x), plain.jacobian(x)
    side = _first_guess(plain, x, slope, jacobian)
    start = _unknowns(plain, side, x, slope, jacobian)
    return Solution(side, start, start, np.inf)


def _first_guess(plain, x, slope, jacobian):
    """Return an estimate of the active set, by nonnegative least squares on the constraints close to their limits."""
    from scipy.optimize import nnls

    slack, nearest = plain.slack(x)
    unit = np.abs(jacobian) @ np.maximum(1, np.abs(x))
    equations, side = plain.is_equation, np.where(plain.is_equation, -1, 0)
    near = np.flatnonzero((slack <= NEAR * unit) & ~equations & (unit > 0))
    if near.size:
        basis = np.linalg.qr(jacobian[equations].T)[0] if equations.any() else np.zeros((plain.n, 0))
        normals = jacobian[near].T / np.linalg.norm(jacobian[near], axis=1) * -nearest[near]
        normals, target = (v - basis @ (basis.T @ v) for v in (normals, slope))
        try:
            multipliers = nnls(normals, target)[0]
        except RuntimeError:  # it has not converged
            multipliers = np.ones(near.size)
        chosen = near[multipliers > 0]
        side[chosen] = nearest[chosen]
    return side


def _unknowns(plain, side, x, slope, jacobian):
    """Return the free variables and least-squares estimates of the multipliers."""
    free, rows = side[: plain.n] == 0, plain.n + np.flatnonzero(side[plain.n :])
    if not rows.size:
        return x[free]
    multipliers = np.linalg.lstsq(jacobian[rows][:, free].T, slope[free], rcond=None)[0]
    return np.concatenate([x[free], multipliers])


def _newton(problem, conditions, z):
    """Solve the conditions by Newton's method; return the solution and the inverse of the Jacobian near it."""
    equations = Equations(conditions.residual, (), z.shape, problem.name, "auto", "auto", False, False)
    last, factor = np.inf, None
    for _ in range(MAX_STEPS if z.size else 0):
        y, factor = equations.linearised(z)
        if not factor.rcond > z.size * np.finfo(float).eps:
            break
        step = equations.solved(factor, y)
        size = np.max(np.abs(step) / np.maximum(1, np.abs(z)))
        if not np.isfinite(size) or (size >= last and size < UNDECIDED):
            break
        z, last = z - step, size
        if size <= 4 * np.finfo(float).eps:
            break
    return z, factor


class _State:
    """Multipliers and derivatives of the Lagrangian at a solution of the conditions for an active set."""

    def __init__(self, plain, conditions, side, z, factor):
        self.plain, self.side, self.z = plain, side, z
        self.is_regular = not z.size or factor.rcond > z.size * np.finfo(float).eps
        if not self.is_regular:
            return
        n, k = plain.n, conditions.n_free
        self.x = x = plain_copy(conditions.join(z))
        multipliers = z[k:]
        self.slack, self.nearest = plain.slack(x)
        self.jacobian = plain.jacobian(x)
        self.scale = np.maximum(1, np.abs(x))
        self.unit = np.abs(self.jacobian) @ self.scale
        held, rows = side[:n] != 0, n + np.flatnonzero(side[n:])
        self.rows = rows
        terms = np.abs(plain.slope(x)) + np.abs(multipliers) @ np.abs(self.jacobian[rows])
        lagrangian = conditions.lagrangian
        self.slope = plain_function(api.grad(lagrangian))(x, multipliers)
        self.hessian = plain_function(api.hessian(lagrangian))(x, multipliers)

        #: multipliers, with signs such that those of active inequalities are positive at a minimum
        self.multipliers = np.zeros(side.size)
        self.multipliers[:n] = np.where(held, self.slope * -side[:n], 0)
        self.multipliers[rows] = multipliers * -side[rows]

        #: magnitudes of multipliers that rounding errors, or small changes of x, can produce
        self.hidden = np.zeros(side.size)
        self.hidden[:n] = np.maximum(UNDECIDED * np.abs(np.diagonal(self.hessian)) * self.scale, ROUNDING * terms)
        if rows.size:
            inverse = factor.solve(np.eye(z.size)[k:])[:, k:]
            sizes = np.max(np.abs(self.jacobian[rows]), axis=1, initial=0)
            rounding = ROUNDING * np.max(terms) / np.where(sizes > 0, sizes, 1)
            self.hidden[rows] = np.maximum(UNDECIDED * self.unit[rows] * np.abs(np.diagonal(inverse)), rounding)

    @property
    def inequalities(self):
        """Mask of the active inequalities."""
        return (self.side != 0) & ~self.plain.is_equation

    def changed(self):
        """Return the active set with one constraint added or dropped, or None if it needs no change."""
        side = self.side.copy()
        slack = np.where(side == 0, self.slack / np.where(self.unit > 0, self.unit, 1), np.inf)
        if slack.min() < -UNDECIDED:
            i = int(np.argmin(slack))
            side[i] = self.nearest[i]
            return side
        wrong = np.where(self.inequalities & (self.multipliers < -self.hidden), self.multipliers, 0)
        if not wrong.any():
            return None
        side[int(np.argmin(wrong))] = 0
        return side

    def curvature(self, side):
        """Return the smallest eigenvalue of the scaled Hessian of the Lagrangian along an active set."""
        n = self.plain.n
        free, rows = np.flatnonzero(side[:n] == 0), n + np.flatnonzero(side[n:])
        hessian, normals = self.hessian[np.ix_(free, free)], self.jacobian[rows][:, free].T
        along = np.linalg.qr(normals, mode="complete")[0][:, normals.shape[1] :]
        unit = np.sqrt(np.max(np.abs(hessian), axis=1, initial=0))
        unit = np.where(unit > 0, unit, 1)
        along = np.linalg.qr(along * unit[:, None])[0] if along.size else along
        reduced = along.T @ (hessian / unit / unit[:, None]) @ along
        return np.min(np.linalg.eigvalsh(reduced), initial=np.inf)


def _checked(problem, plain, state, start, x, on_singular):
    """Return the solution; raise unless it is an isolated minimum whose active set is certain."""
    distance = np.max(np.abs(state.x - x) / np.maximum(1, np.abs(x)), initial=0)
    if not distance <= MAX_CORRECTION:
        raise ConvergenceError(
            f"{problem.name}: no solution: Newton's method would change x by a relative {distance:.2g}. Start nearer "
            "to a minimum, or give the solver more iterations or a smaller tolerance"
        )
    side = state.side
    touched = (side == 0) & (state.slack <= UNDECIDED * state.unit)
    weak = state.inequalities & (state.multipliers <= state.hidden)
    size = np.max(np.abs(x), initial=0)
    scale = np.maximum(np.abs(x), max(SCALE_FLOOR * size, 1e-30))
    correction = float(np.max(np.abs(state.x - x) / scale, initial=0))
    if touched.any():
        together = state.jacobian[touched | (side != 0)]
        lengths = np.linalg.norm(together, axis=1, keepdims=True)
        if np.linalg.matrix_rank(together / np.where(lengths > 0, lengths, 1)) < len(together):
            if on_singular == "raise":
                raise SingularJacobianError(
                    f"{problem.name}: the gradients of the active constraints are linearly dependent at the solution, "
                    f"and the multipliers are not unique: {_names(plain, touched | (side != 0))}. Remove the "
                    "constraints that follow from the others, or pass on_singular='lstsq' if they do for all values"
                )
            side = np.where(touched, state.nearest, side)
            slope, jacobian = plain.slope(state.x), state.jacobian
            improved = _unknowns(plain, side, state.x, slope, jacobian)
            return Solution(side, _unknowns(plain, side, x, slope, jacobian), improved, correction)
    if touched.any() or weak.any():
        i = np.flatnonzero(touched | weak)[0]
        raise WeaklyActive(
            f"{problem.name} has no derivative here: it is undecided whether {_name(plain, i)} is active, since its "
            f"distance is {state.slack[i]:.3g} and its multiplier {state.multipliers[i]:.3g}",
            Solution(side, start, state.z, correction),
            state.curvature(side * ~weak) > plain.n * np.finfo(float).eps,
        )
    lowest = state.curvature(side)
    if not lowest > plain.n * np.finfo(float).eps and on_singular == "raise":
        raise SingularJacobianError(
            f"{problem.name}: the Hessian of the Lagrangian is not positive definite along the active constraints: its "
            f"smallest eigenvalue is {lowest:.2g} of its diagonal. The point is not an isolated minimum: "
            "add constraints or terms of the objective that determine it"
        )
    return Solution(side, start, state.z, correction)


def _name(plain, i):
    return f"the bound of variable {i}" if i < plain.n else f"constraint {i - plain.n}"


def _names(plain, mask):
    return ", ".join(_name(plain, i) for i in np.flatnonzero(mask))
