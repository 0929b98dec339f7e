"""`minimum` and `kkt`: minima as differentiable functions, without and with constraints.

A minimum is a root of the gradient, whose Jacobian is positive definite; under constraints it solves the conditions of
`wengert.implicit.conditions`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from wengert import api
from wengert.containers import plain_copy, stopped
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced, value_of
from wengert.core.rebind.rebind import rebound
from wengert.errors import ConvergenceError, NonSmoothError, SingularJacobianError
from wengert.implicit import theorem
from wengert.implicit.conditions import Constraint, Problem, ends_of_bounds, guess, identify
from wengert.implicit.limits import check_bounds
from wengert.implicit.solve import Hybr, decorator, root_decorator, solution

#: maximum number of variables for which the default solver of `minimum` uses the Hessian as a matrix
MAX_HESSIAN_SIZE = 500

#: limits for a solution without derivatives: violation of constraints relative to x, and slope of the Lagrangian
#: relative to that of the objective
TOLERANCE = 1e-6


def minimum(
    phi: Callable,
    x0: Any = None,
    *,
    args: tuple = (),
    argnums: int | tuple | None = None,
    solve: Callable | None = None,
    on_failure: Literal["raise", "warn", "nan"] = "raise",
    on_singular: Literal["raise", "lstsq", "nan"] = "raise",
    polish: Any = "auto",
    has_info: bool = False,
) -> Any:
    """Local minimum of `phi`, differentiable with respect to all values that `phi` reads.

    Without `x0`, a decorator for your own solver: ``solver(*args)`` returns a minimum of ``phi(x, *args)``.

    Parameters
    ----------
    phi : callable
        Maps `x`, a scalar or an array, to a scalar, using NumPy functions. It may read traced values from outside.
    x0 : scalar or array_like, optional
        Start of the search.
    args : tuple
        Further arguments of `phi`.
    argnums : int or tuple of int, optional
        For the decorator: positions of the solver's arguments that `phi` takes after `x`; by default all positional
        ones.
    solve : callable, optional
        User-supplied solver: ``solve(phi, x0)`` returns a minimum; `phi` returns plain values.
        By default ``scipy.optimize.minimize`` with exact derivatives, by a trust-region method.
    on_failure, on_singular, polish, has_info
        As for `wengert.implicit.root`; the equations are those of a vanishing gradient.

    Returns
    -------
    x : scalar or ndarray, shape of `x0`
        The result of the solver, bit for bit.
    info : wengert.implicit.Info
        With `has_info` only.

    Raises
    ------
    ConvergenceError
        If no minimum is found.
    SingularJacobianError
        If a derivative is requested and the Hessian is not positive definite.

    See Also
    --------
    wengert.implicit.kkt : Minima under constraints.
    wengert.scipy.optimize.minimize : The same for SciPy's methods and results.

    References
    ----------
    Griewank and Walther (2008), Evaluating Derivatives, chapter 15. doi:10.1137/1.9780898717761

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def length(force):                              # of a stiffening spring
    ...     return wg.implicit.minimum(lambda x: x**2 / 2 + x**4 / 4 - force * x, 0.0)
    >>> float(round(length(2.0), 12)), float(round(wg.derivative(length, 2.0), 12))
    (1.0, 0.25)
    """
    slope = api.grad(phi)
    options = {"on_singular": on_singular, "polish": polish}
    if x0 is None:
        theorem.check_options("minimum", on_failure, **options)
        return root_decorator(slope, argnums, on_failure=on_failure, symmetric=True, **options)
    default, options = functools.partial(_Trust, phi), {"jac": "auto", "linsolve": "auto", "symmetric": True, **options}
    return solution("minimum", phi, slope, x0, args, solve, default, on_failure, has_info, **options)


class _Trust(Hybr):
    """SciPy's trust-region methods with exact derivatives, for x of any shape."""

    def __init__(self, phi, slope, args, x0, name, jac):
        super().__init__(slope, args, x0, name, jac)
        self.phi = phi

    def __call__(self, f, x0):
        from scipy import optimize

        def hessian(u):
            return np.reshape(self.equations.jacobian(self.at(u))[1], (u.size, u.size))

        def product(u, v):
            return np.ravel(self.equations.jacobian(self.at(u))[1] @ v)

        is_small = np.size(x0) <= MAX_HESSIAN_SIZE
        found = optimize.minimize(
            lambda u: float(f(self.at(u))),
            np.ravel(x0),
            jac=lambda u: np.ravel(self.equations.value(self.at(u))),
            method="trust-exact" if is_small else "trust-krylov",
            options={"gtol": 1e-10},
            **({"hess": hessian} if is_small else {"hessp": product}),
        )
        return self.ended(found, "minimum", "slope", found.jac)


@dataclass(frozen=True)
class Multipliers:
    """Lagrange multipliers: derivatives of the minimum value with respect to the right-hand sides of the constraints.

    The Lagrangian is ``phi(x) - eq @ h(x) - ineq @ g(x) - lower @ (x - low) - upper @ (high - x)``; all multipliers but
    `eq` are nonnegative, and zero for constraints that are not active.

    Attributes
    ----------
    eq : ndarray
        Multipliers of the equations.
    ineq : ndarray
        Multipliers of the inequalities.
    lower, upper : ndarray, shape of x
        Multipliers of the lower and upper bounds.
    """

    eq: Any
    ineq: Any
    lower: Any
    upper: Any


def kkt(
    phi: Callable,
    x0: Any = None,
    *,
    eq: Callable | None = None,
    ineq: Callable | None = None,
    bounds: Any = None,
    args: tuple = (),
    argnums: int | tuple | None = None,
    solve: Callable | None = None,
    on_singular: Literal["raise", "lstsq", "nan"] = "raise",
) -> Any:
    """Local minimum of `phi` under constraints with its multipliers, differentiable with respect to all values read.

    The derivatives are those of the Karush-Kuhn-Tucker conditions for the active constraints.
    Without `x0`, a decorator for your own solver: ``solver(*args)`` returns a minimum of ``phi(x, *args)`` under the
    constraints, and so does the decorated solver, without multipliers.

    Parameters
    ----------
    phi : callable
        Maps `x`, a scalar or an array, to a scalar, using NumPy functions.
    x0 : scalar or array_like, optional
        Start of the search.
    eq, ineq : callable, optional
        Constraints ``eq(x, *args) == 0`` and ``ineq(x, *args) >= 0``: functions that return an array or a scalar.
    bounds : sequence of pairs or scipy.optimize.Bounds, optional
        Lower and upper bounds of the elements of `x`, with None for no bound. The bounds may be traced values.
    args : tuple
        Further arguments of `phi`, `eq` and `ineq`.
    argnums : int or tuple of int, optional
        For the decorator: positions of the solver's arguments that the functions take after `x`; by default all
        positional ones.
    solve : callable, optional
        User-supplied solver: ``solve(phi, x0)`` returns a minimum under the constraints; `phi` returns plain values.
        By default SciPy's SLSQP with exact derivatives.
    on_singular : {"raise", "lstsq", "nan"}
        What to do if the active constraints are dependent or do not determine the minimum.

    Returns
    -------
    x : scalar or ndarray, shape of `x0`
        The result of the solver, bit for bit.
    multipliers : wengert.implicit.Multipliers
        Lagrange multipliers, with their derivatives.

    Raises
    ------
    ConvergenceError
        If no point near the result satisfies the conditions.
    NonSmoothError
        If a derivative is requested and it is undecided whether a constraint is active.
    SingularJacobianError
        If a derivative is requested and the gradients of the active constraints are dependent, or the curvature along
        them is not positive.

    See Also
    --------
    wengert.implicit.minimum : Minima without constraints.
    wengert.scipy.optimize.minimize : The same for SciPy's methods and results.

    References
    ----------
    Fiacco (1976), Sensitivity analysis for nonlinear programming using penalty methods. doi:10.1007/BF01580677

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def nearest(p):                                 # to the point p, on the unit circle
    ...     return wg.implicit.kkt(lambda x: np.sum((x - p) ** 2), [1.0, 1.0], eq=lambda x: x @ x - 1)
    >>> x, multipliers = nearest(np.array([3.0, 4.0]))
    >>> np.round(x, 9), np.round(multipliers.eq, 9)
    (array([0.6, 0.8]), array([-4.]))
    >>> np.round(wg.jacobian(lambda p: nearest(p)[0])(np.array([3.0, 4.0])), 9)
    array([[ 0.128, -0.096],
           [-0.096,  0.072]])
    """
    theorem.check_options("kkt", on_singular=on_singular)
    if x0 is None:

        def attach(call, x, given):
            functions = _Functions(call.name, phi, eq, ineq, bounds, given, np.shape(x))
            return _minimum_at(functions, x, on_singular)[0]

        return decorator(attach, argnums)
    name = f"implicit.kkt({getattr(phi, '__name__', phi)})"
    theorem.check_replayable(name)
    start = np.asarray(value_of(stopped(from_list(x0))), dtype=float)
    functions = _Functions(name, phi, eq, ineq, bounds, args, start.shape)
    message = ""
    if solve:
        x = theorem.plain_solver(solve)(theorem.plain_function(functools.partial(_with_args, phi, args)), start[()])
    else:
        x, message = functions.solved(start)
    try:
        return _minimum_at(functions, x, on_singular, holds_traced(from_list(x0)))
    except (ConvergenceError, NonSmoothError, SingularJacobianError) as error:
        if not message:
            raise
        raise ConvergenceError(
            f"{name}: no solution: {message}. Start nearer to a minimum, or pass solve=; if no point satisfies all "
            "constraints, relax them, or let slack variables satisfy them"
        ) from error


def _with_args(f, args, x):
    return rebound(f)(x, *args)


class _Functions:
    """Objective and constraints as functions of a 1-D array."""

    def __init__(self, name, phi, eq, ineq, bounds, args, shape):
        self.name, self.shape = name, shape
        self.objective, self.eq, self.ineq = (f and self._flat(f, args) for f in (phi, eq, ineq))
        check_bounds(name, bounds)
        self.low, self.high = ends_of_bounds(bounds, int(np.prod(shape, dtype=int)))

    def _flat(self, f, args):
        def value(z):
            return from_list(rebound(f)(np.reshape(z, self.shape)[()], *args))

        return value

    def problem(self, x):
        """Return the problem, with as many constraints as the functions return at `x`."""
        constraints = []
        for f, high in ((self.eq, 0.0), (self.ineq, np.inf)):
            if f is not None:
                m = np.size(theorem.plain_function(f)(x))
                constraints.append(Constraint(f, np.zeros(m), np.full(m, high)))
        return Problem(self.objective, self.low, self.high, constraints, self.name)

    def solved(self, start):
        """Return the result of SLSQP, and its message unless it reports success."""
        from scipy import optimize

        constraints = [
            {"type": kind, "fun": theorem.plain_function(f), "jac": theorem.plain_function(api.jacobian(f))}
            for kind, f in (("eq", self.eq), ("ineq", self.ineq))
            if f is not None
        ]
        found = optimize.minimize(
            theorem.plain_function(self.objective),
            np.ravel(start),
            jac=theorem.plain_function(api.grad(self.objective)),
            bounds=optimize.Bounds(plain_copy(self.low), plain_copy(self.high)),
            constraints=constraints,
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        return np.reshape(found.x, self.shape)[()], "" if found.success else found.message.strip()


def _check_minimum(name, problem, conditions, unknowns, x):
    """Raise unless x is feasible and nearly stationary; its multipliers need not be unique."""
    violation = -problem.slack(x).min()
    if violation > TOLERANCE * max(1.0, np.max(np.abs(x))):
        raise ConvergenceError(f"{name}: no solution: a constraint is violated by {violation:.3g}")
    slopes = theorem.plain_function(conditions.residual)(unknowns)[: conditions.n_free]
    largest = np.max(np.abs(theorem.plain_function(api.grad(problem.objective))(x)), initial=0)
    if np.max(np.abs(slopes), initial=0) > TOLERANCE * largest:
        raise ConvergenceError(
            f"{name}: no solution: the gradient of the Lagrangian is {np.max(np.abs(slopes)):.3g} in its largest "
            "element"
        )


def _minimum_at(functions, x, on_singular, starts_traced=False):
    """Return the minimum that a solver found, and its multipliers, as functions of traced values.

    If the start is traced, the conditions must determine the minimum, which otherwise depends on the start.
    """
    flat = np.ravel(x)
    if not np.isfinite(flat).all():
        raise ConvergenceError(f"{functions.name}: no solution: the solver returned values that are not finite")
    problem = functions.problem(flat)
    is_traced = theorem.in_derivative() and problem.reads_traced(flat)
    try:
        found = identify(problem, flat, on_singular)
    except (NonSmoothError, SingularJacobianError):
        if is_traced or starts_traced:
            raise
        found = guess(problem, flat)
    conditions, unknowns = problem.conditions(found.side), found.improved
    if not (is_traced or np.isfinite(found.correction)):
        if starts_traced:
            raise SingularJacobianError(
                f"{functions.name}: the conditions do not determine the minimum, which depends on the start: pass "
                "wengert.stop_gradient(x0)"
            )
        _check_minimum(functions.name, problem, conditions, unknowns, flat)
    if is_traced:
        is_symmetric = conditions.n_free == unknowns.size
        unknowns, _ = theorem.implicit(
            conditions.residual, unknowns, name=functions.name, on_singular=on_singular, symmetric=is_symmetric
        )
    traced = conditions.join(unknowns)
    n, side, multipliers = flat.size, found.side, unknowns[conditions.n_free :]
    slope = np.reshape(api.grad(conditions.lagrangian)(traced, multipliers), functions.shape)
    at = np.reshape(side[:n], functions.shape)
    placed = np.eye(side.size - n)[:, side[n:] != 0] @ multipliers
    n_equations = np.size(problem.constraints[0].low) if functions.eq is not None else 0
    lower, upper = np.where(at < 0, slope, 0.0)[()], np.where(at > 0, -slope, 0.0)[()]
    held = Multipliers(placed[:n_equations], placed[n_equations:], lower, upper)
    x = theorem.with_bits(x, np.reshape(traced, functions.shape)[()]) if holds_traced(traced) else x
    return x, held
