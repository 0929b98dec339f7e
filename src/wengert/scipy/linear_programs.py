"""`linprog` and `milp`: linear programs, differentiated at the active constraints with integer variables held fixed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult

from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced
from wengert.errors import ConvergenceError, NonSmoothError, SingularJacobianError
from wengert.implicit.conditions import ends_of_bounds, vector
from wengert.implicit.limits import check_bounds
from wengert.implicit.theorem import with_bits
from wengert.scipy.constraints import Bounds, LinearConstraint, as_bounds, check_integers, dense
from wengert.scipy.minima import Minimum
from wengert.scipy.mirror import check_plain, mirrors
from wengert.scipy.results import traced_result, without

#: largest distance of a constraint on fixed variables from its limit, relative to its terms, that counts as zero
AT_LIMIT = 1e-9

#: messages for problems without a solution, by SciPy's status
NO_SOLUTION = {
    2: "the problem is infeasible, so that it has no derivative: no point satisfies all constraints and bounds. Relax "
    "them, or let slack variables satisfy them, with a price in the objective",
    3: "the problem is unbounded, so that it has no derivative: the objective decreases without end. Add bounds or "
    "constraints, or check the signs of the objective; its default bounds are (0, None)",
}

#: largest difference of an equation from a combination of others, relative to its terms, that counts as zero
DEPENDENT = 1e-12


@mirrors(scipy.optimize.linprog)
def linprog(call):
    """The objective, constraints and bounds may be traced. Integer variables have derivative zero.

    The solution must be unique, and so must the multipliers of traced constraints and bounds. Slacks have derivatives
    too, and so have marginals if they are unique.
    """
    if call.traced:
        check_plain(call.name, "solution", call.arguments, "c", "A_ub", "b_ub", "A_eq", "b_eq", "bounds")
    found = call.run()
    if not call.traced or not call.holds_traced:
        return found
    constraints, names = [], []
    for name, A, b, low in (("ub", call["A_ub"], call["b_ub"], -np.inf), ("eq", call["A_eq"], call["b_eq"], None)):
        if A is not None and np.size(b := from_list(b)):
            constraints.append(LinearConstraint(dense(A), b if low is None else low, b))
            names.append(name)
    bounds = _pairs(call["bounds"], np.size(call.plain("c")))
    check_bounds(call.name, bounds)
    result, minimum = _differentiated(call, found, bounds, constraints)
    if minimum is None or minimum.refusal is not None:
        return result
    ends = ends_of_bounds(bounds, found.x.size)
    return _with_slacks(result, found, dict(zip(names, constraints)), ends, minimum)


#: names of the fields about inequalities and equations
_FIELDS = {"ub": ("slack", "ineqlin"), "eq": ("con", "eqlin")}


def _with_slacks(result: Any, found: Any, constraints: dict, ends: tuple, minimum: Any) -> Any:
    """Add slacks and residuals of constraints and bounds to a result, and the marginals if `minimum` has them."""
    x, low, high = result["x"], *ends
    residuals = {"lower": -_distance(low, x), "upper": _distance(high, x)}
    marginals: dict = {}
    for name, constraint in constraints.items():
        field, other = _FIELDS[name]
        residuals[other] = _distance(np.reshape(constraint.ub, (-1,)), constraint.A @ x)
        result[field] = with_bits(found[field], residuals[other])
    if minimum.has_marginals:
        of_bounds, rest = minimum.multipliers()
        side = minimum.side[: found.x.size]
        marginals = {"lower": np.where(side < 0, of_bounds, 0.0), "upper": np.where(side > 0, of_bounds, 0.0)}
        for name, constraint in constraints.items():
            m = np.size(constraint.ub)
            marginals[_FIELDS[name][1]], rest = rest[:m], rest[m:]
    for name, residual in residuals.items():
        if name in found:
            parts = {"residual": with_bits(found[name].residual, residual)}
            if name in marginals:
                parts["marginals"] = with_bits(found[name].marginals, marginals[name])
            result[name] = traced_result(found[name], **parts)
    return result


@mirrors(scipy.optimize.milp)
def milp(call):
    """The objective, constraints and bounds may be traced. Integer variables have derivative zero.

    The solution and its multipliers must be unique for the other variables.
    """
    if call.traced:
        check_plain(call.name, "solution", call.arguments, "c", "bounds", "constraints")
    found = call.run()
    if not call.traced or not call.holds_traced:
        return found
    bounds = Bounds(0, np.inf) if call["bounds"] is None else as_bounds(call["bounds"])
    check_bounds(call.name, bounds)
    given = call["constraints"]
    given = () if given is None else [given] if _is_single(call.plain("constraints")) else given
    rows = [c if isinstance(c, scipy.optimize.LinearConstraint) else LinearConstraint(*c) for c in given]
    return _differentiated(call, found, bounds, rows)[0]


def _is_single(constraints):
    """Return whether the plain constraints of `milp` are a single one, as an object or as its arguments."""
    if isinstance(constraints, scipy.optimize.LinearConstraint) or hasattr(constraints[0], "toarray"):
        return True
    try:
        return np.asarray(constraints[0], dtype=float).ndim <= 2
    except (TypeError, ValueError):  # the matrix and the limits of the first of several
        return False


def _pairs(bounds, n):
    """Return the bounds of `linprog` as n pairs; a single pair is for all variables."""
    rows = list((0, None) if bounds is None else bounds)
    if not any(isinstance(row, (list, tuple)) or getattr(row, "ndim", 0) for row in rows):
        rows = [rows]
    return rows * n if len(rows) == 1 else rows


def _distance(limits, values):
    """Return the distances of values from limits; zero for infinite ones, as this is added to SciPy's numbers."""
    is_finite = np.isfinite(plain_copy(limits))
    return np.where(is_finite, np.where(is_finite, limits, 0.0) - values, 0.0)


def _differentiated(call: Any, found: Any, bounds: Any, constraints: list) -> tuple[Any, Minimum | None]:
    """Return the result with a solution that carries derivatives, and the `Minimum` over the continuous variables.

    The attribute `has_marginals` of the latter tells whether its multipliers are unique and cover all constraints.
    """
    if found.x is None or not found.success:
        if found.status in NO_SOLUTION:
            raise ConvergenceError(f"{call.name}: {NO_SOLUTION[found.status]}")
        call.fail(found.message)
        raise ConvergenceError(f"{call.name}: {found.message}")
    n = found.x.size
    c = np.reshape(from_list(call["c"]), (-1,))
    low, high = ends_of_bounds(bounds, n)
    fixed = _fixed(call["integrality"], found.x)
    check_integers(call.name, fixed, np.round(found.x), low, high)
    x, free = np.where(fixed, np.round(found.x), found.x), np.flatnonzero(~fixed)
    held = np.where(fixed, x, 0.0)
    rows = [row for constraint in constraints if (row := _on_free(call.name, constraint, held, free)) is not None]
    at = OptimizeResult(x=x[free], success=True, message=found.message)
    given, count = rows, len(constraints)
    if call.options["on_singular"] == "raise":
        rows = _independent(call.name, rows)
    minimum = None
    if free.size:
        bounds = Bounds(low[free], high[free])
        minimum = Minimum(call, at, lambda y: np.sum(c[free] * y), bounds, rows, has_value=True, is_linear=True)
        moving, fun, refusal = minimum.x, minimum.fun(), minimum.refusal
        is_whole = not fixed.any() and len(rows) == count and all(a is b for a, b in zip(rows, given))
        minimum.has_marginals = is_whole and minimum.side is not None and not minimum.is_degenerate
    else:
        moving, fun, refusal = at.x, 0.0, None
    place = np.eye(n)[:, free]
    x, fun = with_bits(found.x, held + place @ moving), fun + np.sum(c * held)
    result = traced_result(found, x=x, fun=with_bits(found.fun, fun), info=call.info)
    return result if refusal is None else without(result, "x", refusal), minimum


def _independent(name, constraints):
    """Return the constraints without equations that are linear combinations of others.

    This changes no solution if the equations are constant. Traced ones raise, since they may contradict each other as
    soon as their values change; then there is no solution, and no derivative.
    """
    rows = [
        (k, i, plain_copy(c.A)[i], holds_traced((c.A, c.lb, c.ub)))
        for k, c in enumerate(constraints)
        for i in np.flatnonzero(np.ravel(plain_copy(c.lb)) == np.ravel(plain_copy(c.ub)))
    ]
    kept: list = []
    dropped = set()
    for k, i, row, is_traced in rows:
        size = np.max(np.abs(row))
        if kept:
            matrix = np.stack([each for _, _, each, _ in kept])
            weights = np.linalg.lstsq(matrix.T, row, rcond=None)[0]
            sizes = np.abs(weights) * np.max(np.abs(matrix), axis=1)
            if np.max(np.abs(weights @ matrix - row)) <= DEPENDENT * max(size, np.max(sizes)):
                others = [each for each, part in zip(kept, sizes) if part > DEPENDENT * size]
                if is_traced or any(each[3] for each in others):
                    numbers = ", ".join(str(each[1]) for each in others if each[0] == k)
                    numbers = numbers or "given in another constraint"
                    raise SingularJacobianError(
                        f"{name} has no derivative here: equation {i} is a combination of others ({numbers}), and they "
                        f"contradict each other if a traced value moves one of them alone. Leave out row {i}, or pass "
                        "on_singular='lstsq' if it follows from the others for all values"
                    )
                dropped.add((k, i))
                continue
        if size > 0:
            kept.append((k, i, row, is_traced))
    found = []
    for k, c in enumerate(constraints):
        n = np.shape(c.A)[0]
        left = [i for i in range(n) if (k, i) not in dropped]
        if len(left) < n:
            low = vector(c.lb, n)[left]
            c = LinearConstraint(c.A[left], low, low if c.ub is c.lb else vector(c.ub, n)[left])
        found.append(c)
    return found


def _fixed(integrality, x):
    """Return the mask of the variables that do not move: integers, and semi-continuous ones that are zero."""
    kind = np.broadcast_to(0 if integrality is None else np.asarray(integrality), x.shape)
    return (kind == 1) | (kind == 3) | ((kind == 2) & (x == 0))


def _on_free(name, constraint, held, free):
    """Return the part of a constraint on the free variables; None if there is none and the constraint holds nearby."""
    A = dense(constraint.A)
    shift = A @ held
    low = constraint.lb - shift
    high = low if constraint.ub is constraint.lb else constraint.ub - shift
    if np.any(plain_copy(A)[:, free] != 0):
        return LinearConstraint(A[:, free], low, high)
    size = AT_LIMIT * np.maximum(1, np.abs(plain_copy(A)) @ np.abs(held))
    if holds_traced((A, low, high)):
        near = np.minimum(np.abs(plain_copy(low)), np.abs(plain_copy(high))) <= size
        if near.any():
            raise NonSmoothError(
                f"{name} has no derivative here: a traced constraint on integer variables alone is at its limit (row "
                f"{int(np.argmax(near))}), and the solution jumps if the limit moves. Leave some slack, or pass "
                "wengert.stop_gradient of its values"
            )
    return None
