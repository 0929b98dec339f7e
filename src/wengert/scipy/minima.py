"""Differentiable minima by `minimize`, `least_squares` and others, also at bounds and under constraints.

A minimum without active bounds and constraints is a root of the gradient, whose Jacobian is positive definite.
All others solve the conditions of `wengert.implicit.conditions`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
from scipy.optimize import OptimizeResult
from scipy.sparse import csr_array

from wengert import api
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.levels import forget, noted
from wengert.core.operands.var import holds_traced
from wengert.core.rebind.rebind import rebound
from wengert.errors import ConvergenceError, NonSmoothError, SingularJacobianError, UnsupportedFunctionError
from wengert.implicit import conditions as optimality
from wengert.implicit.limits import check_bounds
from wengert.implicit.theorem import total_order, with_bits
from wengert.scipy.constraints import Bounds, as_bounds, dense, read_constraints, with_derivatives
from wengert.scipy.large_minima import use_program
from wengert.scipy.mirror import CONVERGED_CORRECTION, Call, check_plain, mirrors
from wengert.scipy.results import traced_result, without
from wengert.transforms.second import Products


@mirrors(scipy.optimize.least_squares)
def least_squares(call):
    """Uses the exact Jacobian. The derivative is that of the full equations, with second derivatives of the residuals.

    A variable at an active bound has the derivative of the bound, and the others are free.
    """

    def supply(arguments):
        if "jac" not in arguments:
            J = api.jacobian(arguments["fun"])
            arguments["fun"], arguments["jac"] = J.fun, J
            if arguments.get("jac_sparsity") is not None:  # SciPy expects a sparse matrix
                arguments["jac"] = lambda *args, **kwargs: csr_array(J(*args, **kwargs))

    found = call.run(supply)
    if not call.traced:
        return found
    value, loss, scale = call.value, loss_function(call["loss"]), call["f_scale"]

    def cost(residuals):
        return 0.5 * scale**2 * np.sum(loss((np.atleast_1d(residuals) / scale) ** 2))

    minimum = Minimum(call, found, lambda x: cost(value(x)), as_bounds(call["bounds"]), ())
    x, residuals = minimum.x, np.atleast_1d(value(minimum.x))
    if not holds_traced((x, residuals)):
        return found
    values = {"fun": with_bits(found.fun, residuals), "cost": with_bits(found.cost, cost(residuals))}
    return traced_result(found, ("grad",) if minimum.is_free else (), x=x, info=call.info, **values)


def loss_function(loss):
    """Return the loss function of squared residuals, as SciPy defines it."""
    return _LOSSES[loss] if isinstance(loss, str) else lambda z: rebound(loss)(z)[0]


_LOSSES = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * ((1 + z) ** 0.5 - 1),
    "huber": lambda z: np.where(z <= 1, z, 2 * z**0.5 - 1),
    "cauchy": np.log1p,
    "arctan": np.arctan,
}

#: methods of `minimize` that take a gradient, a Hessian, or Hessian-vector products
_TAKES_GRADIENT = ("cg", "bfgs", "l-bfgs-b", "tnc", "slsqp")
_TAKES_HESSIAN = ("dogleg", "trust-exact")
_TAKES_PRODUCTS = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")

#: methods of `minimize` that respect bounds, and those that respect constraints; others warn and ignore them
_TAKES_CONSTRAINTS = ("cobyla", "cobyqa", "slsqp", "trust-constr", "custom")
_TAKES_BOUNDS = (*_TAKES_CONSTRAINTS, "nelder-mead", "l-bfgs-b", "tnc", "powell")

#: status by which a method of `minimize` reports that its line search finds no decrease, as at a minimum up to rounding
_STALLED = {"bfgs": 2, "cg": 2, "newton-cg": 2, "l-bfgs-b": 2, "slsqp": 8, "tnc": 4}

#: largest gradient of the Lagrangian, relative to its largest term or 1, at which a stalled search has converged
STALLED_SLOPE = 1e-5

#: violation relative to max(abs(x), 1) above which the error message of a failed solver names the constraint
VIOLATED = 1e-6

#: maximum number of variables for which a method that accepts either gets the Hessian rather than products with it
MAX_HESSIAN_SIZE = 500


@mirrors(scipy.optimize.minimize)
def minimize(call):
    """Uses the exact gradient, Hessian, or Hessian-vector products, as the method takes them.

    So do constraints given as dictionaries, and a `NonlinearConstraint` with the default ``jac``.
    The derivative follows from the Karush-Kuhn-Tucker conditions for the constraints that are active at the minimum.
    The objective, constraints, their limits and bounds may depend on traced values. If the active set is uncertain,
    `NonSmoothError` is raised.
    """
    if hasattr(call["bounds"], "__next__"):  # an iterator, which is read twice
        call.arguments["bounds"] = list(call["bounds"])
    method = call["method"]
    if method is None:
        method = "SLSQP" if call["constraints"] else "BFGS" if call["bounds"] is None else "L-BFGS-B"
    kind = "custom" if callable(method) else method.lower()

    def supply(arguments):
        if kind == "trust-constr" and use_program(arguments):
            return
        f = scalar_valued(arguments["fun"], arguments.get("jac") is True)
        if arguments.get("jac") is None and kind in (*_TAKES_GRADIENT, *_TAKES_HESSIAN, *_TAKES_PRODUCTS, "custom"):
            gradient = api.grad(f)
            arguments["fun"], arguments["jac"] = gradient.fun, gradient
        if arguments.get("hess") is None and arguments.get("hessp") is None:
            if kind in _TAKES_HESSIAN or (kind in _TAKES_PRODUCTS and np.size(arguments["x0"]) <= MAX_HESSIAN_SIZE):
                arguments["hess"] = api.hessian(f)
            elif kind in _TAKES_PRODUCTS:
                arguments["hessp"] = api.hvp(f) if hasattr(type(f), "__wengert__") else Products(f)
        if arguments.get("constraints") and kind in ("slsqp", "trust-constr", "custom"):
            takes_hessians = kind == "trust-constr" and np.size(arguments["x0"]) <= MAX_HESSIAN_SIZE
            arguments["constraints"] = with_derivatives(arguments["constraints"], takes_hessians)

    try:
        found = call.run(supply)
    except ValueError as error:  # SciPy cannot factorise a Hessian that is not finite
        start = call.value(np.array(plain_copy(call["x0"]), dtype=float)) if call.traced else 0.0
        if np.all(np.isfinite(plain_copy(start))):
            raise
        call.fail(f"the objective is {plain_copy(start)} at the start", error)
    if not call.traced:
        return found
    value = found.get("fun", 0.0)
    if not np.all(np.isfinite(value)) and (call.holds_traced or holds_traced(call.value(found.x))):
        call.fail(f"{found.message.strip().rstrip('.')}: the objective is {value} at the solution")
    if kind == "custom" and call.reads_traced("method"):
        raise UnsupportedFunctionError(
            f"{call.name}: a custom method reads a traced value, which gives the minimum no derivative: let the "
            "objective read it, or pass wengert.stop_gradient(value)"
        )
    bounds = call["bounds"] if kind in _TAKES_BOUNDS else None
    constraints = call["constraints"] if kind in _TAKES_CONSTRAINTS else ()
    has_stalled = not found.success and found.get("status") == _STALLED.get(kind)
    phi = scalar_valued(call.value)
    minimum = Minimum(call, found, phi, bounds, constraints, has_value=True, has_stalled=has_stalled)
    x, fun = minimum.x, minimum.fun()
    if not holds_traced((x, fun)):
        return found
    constant = ("jac",) if minimum.is_free else ()
    result = traced_result(found, constant, x=x, fun=with_bits(found.fun, fun), info=call.info)
    return result if minimum.refusal is None else without(result, "x", minimum.refusal)


def scalar_valued(f, has_gradient=False):
    """Wrap f for differentiation: SciPy accepts a one-element array as a scalar, and a pair of value and gradient."""
    if hasattr(type(f), "__wengert__") and not has_gradient:
        return f

    @functools.wraps(f, updated=())
    def number(*args):
        y = rebound(f)(*args)
        y = y[0] if has_gradient else y
        return np.reshape(y, ()) if np.ndim(y) and np.size(y) == 1 else y

    return number


class Minimum:
    """A minimum that a solver found, as a function of traced values.

    The solution `x` has the bits of `found`. It `is_free` if no bound or constraint is active, and `is_degenerate` at a
    vertex of a linear program where more constraints than variables are active. With `has_value`, `refusal` is the
    `WeaklyActive` error that says why the solution has no derivative although the minimum value has a first one; else
    None.
    """

    def __init__(
        self,
        call: Call,
        found: dict,
        phi: Callable,
        bounds: Any,
        constraints: Any,
        has_value: bool = False,
        is_linear: bool = False,
        has_stalled: bool = False,
    ):
        self.call, self.found, self.phi, self.has_stalled = call, found, phi, has_stalled
        self.has_value, self.is_linear, self.refusal = has_value, is_linear, None
        self.is_free, self.is_degenerate, self.conditions, self.side = True, False, None, None
        n = found.x.size
        if not is_linear:  # linear programs check their bounds themselves
            check_bounds(call.name, bounds)
        low, high = optimality.ends_of_bounds(bounds, n)
        constraints = read_constraints(constraints, found.x, call.name) if constraints else []
        if not constraints and np.all(np.isinf(plain_copy(low)) & np.isinf(plain_copy(high))):
            gradient = api.grad(phi)
            success = found.success or (has_stalled and self._is_stationary(gradient(found.x)))
            self.x = call.solution(gradient, found.x, success, found.message, symmetric=True)
            return
        self.x = found.x
        problem = optimality.Problem(phi, low, high, constraints, call.name)
        if problem.reads_traced(found.x) or call.holds_traced:
            self._constrain(problem)

    def _constrain(self, problem):
        """Make the solution a function of traced values by the conditions of its active set."""
        call, found = self.call, self.found
        before = noted()
        moves_limits_only = self.is_linear and problem.reads_traced_limits_only(found.x)
        try:
            if moves_limits_only and (refusal := optimality.weak_vertex(problem, found.x)):
                raise refusal
            solution = optimality.degenerate_vertex(problem, found.x) if self.is_linear else None
            self.is_degenerate = solution is not None
            if not self.is_degenerate and moves_limits_only and (refusal := optimality.moving_limits(problem, found.x)):
                raise refusal
            solution = solution or self._identified(problem)
        except optimality.WeaklyActive as refusal:
            if not self.has_value or not (refusal.is_isolated or moves_limits_only):
                raise
            forget(before)
            self.refusal, self.is_free = refusal, False
            self.conditions, self.unknowns = problem.conditions(refusal.solution.side), refusal.solution.improved
            return
        self.is_free, self.side = not solution.side.any(), solution.side
        self.conditions = conditions = problem.conditions(solution.side)
        is_close = solution.correction <= CONVERGED_CORRECTION or self._is_feasible_and_stationary(problem, solution)
        has_improved = (found.success or is_close) and call.options["polish"] is not False
        start = solution.improved if has_improved else solution.found
        is_symmetric = conditions.n_free == start.size
        has_converged = found.success or is_close
        message = found.message if has_converged else self._explained(problem)
        self.unknowns = call.solution(conditions.residual, start, has_converged, message, symmetric=is_symmetric)
        if call.info is not None and has_improved:
            call.info = dataclasses.replace(call.info, correction=solution.correction)
        x = conditions.join(self.unknowns)
        if holds_traced(x):
            self.x = with_bits(found.x, x)

    def _is_stationary(self, slope, scale=1.0):
        return bool(np.max(np.abs(plain_copy(slope)), initial=0) <= STALLED_SLOPE * scale)

    def _is_feasible_and_stationary(self, problem, solution):
        """Return whether a line search that found no decrease ended at a solution of the active set."""
        if not self.has_stalled:
            return False
        x, conditions = self.found.x, problem.conditions(solution.side)
        k = conditions.n_free
        slope = plain_copy(conditions.residual(solution.found))[:k]
        scale = max(1.0, np.max(np.abs(plain_copy(api.grad(self.phi)(x))), initial=0))
        violation = VIOLATED * max(1.0, np.max(np.abs(x)))
        return self._is_stationary(slope, scale) and bool(np.min(problem.slack(x), initial=0) >= -violation)

    def _identified(self, problem):
        call, x, success = self.call, self.found.x, self.found.success
        try:
            return optimality.identify(problem, x, call.options["on_singular"])
        except (ConvergenceError, NonSmoothError, SingularJacobianError) as error:
            if not success:
                call.fail(self._explained(problem))
            elif not isinstance(error, ConvergenceError) or call.options["on_failure"] == "raise":
                raise
            self.found = OptimizeResult(self.found, success=False)
            return optimality.guess(problem, x)

    def _explained(self, problem):
        """Return the solver's message, and which constraint is violated."""
        x = self.found.x
        slack = problem.slack(x)
        if not np.min(slack) < -VIOLATED * max(1.0, np.max(np.abs(x))):
            return self.found.message
        i = int(np.argmin(slack))
        name = f"the bound of variable {i}" if i < x.size else f"constraint {i - x.size}"
        return (
            f"{self.found.message.strip().rstrip('.')}: {name} is violated by {-slack[i]:.3g}. If no point satisfies "
            "all constraints, relax them, or let slack variables satisfy them"
        )

    def multipliers(self) -> tuple[Any, Any]:
        """Return the derivatives of the value with respect to active bounds and to limits of constraints."""
        n, conditions = self.found.x.size, self.conditions
        given = self.unknowns[conditions.n_free :]
        placed = np.eye(self.side.size - n)[:, self.side[n:] != 0] @ given
        slope = api.grad(conditions.lagrangian)(conditions.join(self.unknowns), given)
        return np.where(self.side[:n] != 0, slope, 0.0), placed

    def fun(self) -> Any:
        """Return the minimum value; by the envelope theorem, its slope is that of the Lagrangian."""
        if self.conditions is None:
            return self.phi(self.x)
        value = self.conditions.fun(self.unknowns)
        if self.refusal is not None and total_order(value) != 1 and not self.refusal.is_affine:  # the slope has a kink
            raise self.refusal
        return value


# ---- problems given by matrices


@mirrors(scipy.optimize.lsq_linear)
def lsq_linear(call):
    """A, b and bounds may be traced. A variable at an active bound has the derivative of the bound."""
    if call.traced:
        check_plain(call.name, "solution", call.arguments, "A", "b", "bounds", "tol", "lsmr_tol")
    found = call.run()
    if not call.traced or not call.holds_traced:
        return found
    A, b, bounds = dense(call["A"]), from_list(call["b"]), as_bounds(call["bounds"])
    minimum = Minimum(call, found, lambda x: 0.5 * np.sum((A @ x - b) ** 2), bounds, ())
    residuals = A @ minimum.x - b
    values = {"fun": with_bits(found.fun, residuals), "cost": with_bits(found.cost, 0.5 * residuals @ residuals)}
    return traced_result(found, x=minimum.x, info=call.info, **values)


@mirrors(scipy.optimize.nnls)
def nnls(call):
    """A and b may be traced. The derivative of a variable at zero is zero."""
    if call.traced:
        check_plain(call.name, "solution", call.arguments, "A", "b")
    x, norm = call.run()
    if not call.traced or not call.holds_traced:
        return x, norm
    A, b = dense(call["A"]), from_list(call["b"])
    found = OptimizeResult(x=x, success=True, message="")
    minimum = Minimum(call, found, lambda x: 0.5 * np.sum((A @ x - b) ** 2), Bounds(np.zeros(x.size)), ())
    return minimum.x, with_bits(norm, np.linalg.norm(A @ minimum.x - b))


@mirrors(scipy.optimize.minimize_scalar)
def minimize_scalar(call):
    """The derivative follows from the vanishing slope, or at an active bound it is that of the bound."""
    found = call.run()
    if not call.traced:
        return found
    value, bounds = scalar_valued(call.value), call["bounds"]
    if callable(call["method"]) and call.reads_traced("method"):
        raise UnsupportedFunctionError(f"{call.name}: a custom method reads a traced value: let the objective read it")
    at = OptimizeResult(found, x=np.array([float(found.x)]))
    at.setdefault("message", "")
    pairs = None if bounds is None else [tuple(bounds)]
    minimum = Minimum(call, at, lambda x: value(x[0]), pairs, ())
    x, fun = minimum.x, minimum.fun()
    if not holds_traced((x, fun)):
        return found
    return traced_result(found, x=x[0], fun=with_bits(found.fun, fun), info=call.info)
