"""`nlp`: a nonlinear program with exact sparse derivatives, in the forms that solvers take.

Objective and constraints are one function h(x) = (f(x), g(x)).  Its value is one compiled program, and so are its
sparse Jacobian, whose first row is the gradient, and the Hessian of the Lagrangian w @ h(x), so that f and g share
their common subexpressions.
"""

from __future__ import annotations

import builtins
import itertools
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
import scipy.optimize
from scipy import sparse

from wengert import api
from wengert.core.operands.var import holds_traced
from wengert.errors import TracedValueError
from wengert.implicit.conditions import ends_of_bounds, vector
from wengert.scipy.constraints import function_of


def nlp(
    objective: Callable,
    constraints: Any,
    x0: Any,
    bounds: Any = None,
    *,
    args: tuple = (),
    tier: Literal["auto", "vm", "llvm"] = "auto",
) -> NonlinearProgram:
    """Nonlinear program: minimise `objective` under constraints and bounds, with exact sparse derivatives for solvers.

    Parameters
    ----------
    objective : callable
        ``objective(x, *args)`` returns a scalar, using NumPy functions.
    constraints : (callable, lower, upper) or SciPy's forms
        A function ``c(x, *args)`` with lower and upper limits of its values, equal for an equation; or dictionaries,
        `LinearConstraint` and `NonlinearConstraint` of `scipy.optimize`, or a list of these; None or ``()`` for none.
    x0 : array_like, shape (n,)
        Start of the search, where the functions are recorded.
    bounds : sequence of pairs or scipy.optimize.Bounds, optional
        Lower and upper bounds of the variables.
    args : tuple
        Further arguments of `objective` and of a single constraint function.
    tier : {"auto", "vm", "llvm"}
        As for `wengert.compile`.

    Returns
    -------
    NonlinearProgram
        Values and derivatives, as methods with the names of cyipopt, and as arguments for ipyopt and SciPy.

    Raises
    ------
    TracedValueError
        If an argument is traced, or a function reads a traced value. To differentiate a solution, use
        `wengert.scipy.optimize.minimize`.
    ValueError
        If `x0` is not one-dimensional, or a constraint function has no limits.

    See Also
    --------
    wengert.scipy.optimize.minimize : Solutions as differentiable functions.
    wengert.hessian : Sparse Hessians.

    References
    ----------
    Wächter and Biegler (2006), On the implementation of an interior-point filter line-search algorithm.
    doi:10.1007/s10107-004-0559-y

    Examples
    --------
    Problem 71 of Hock and Schittkowski, solved by SciPy's trust-constr:

    >>> import numpy as np, wengert as wg
    >>> from scipy.optimize import minimize
    >>> program = wg.nlp(
    ...     lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
    ...     (lambda x: np.stack([np.prod(x), x @ x]), [25, 40], [np.inf, 40]),
    ...     [1.0, 5.0, 5.0, 1.0],
    ...     [(1, 5)] * 4,
    ... )
    >>> program
    <nonlinear program: 4 variables, 2 constraints, 8 nonzeros in the Jacobian, 10 in a triangle of the Hessian>
    >>> found = minimize(**program.scipy())
    >>> [round(float(x), 3) for x in found.x]
    [1.0, 4.743, 3.821, 1.379]
    """
    _check_plain((x0, bounds, args))
    if np.ndim(x0) != 1:
        raise ValueError(f"nlp: x0 is a 1-D array of the variables, not {x0!r}")
    return NonlinearProgram(objective, constraints, np.array(x0, dtype=float), bounds, args, tier)


class NonlinearProgram:
    """Values and derivatives of an objective and of constraints; made by `wengert.nlp`.

    The Jacobian and the lower triangle of the Hessian are returned as the values of their nonzeros, at the positions
    that `jacobianstructure` and `hessianstructure` return.

    Attributes
    ----------
    n, m : int
        Numbers of variables and of constraints.
    x0 : ndarray, shape (n,)
        Start of the search.
    low, high : ndarray, shape (n,)
        Bounds of the variables, infinite where there is none.
    constraint_low, constraint_high : ndarray, shape (m,)
        Limits of the constraints.
    """

    def __init__(self, objective: Callable, constraints: Any, x0: np.ndarray, bounds: Any, args: tuple, tier: str):
        self.x0, self.n = x0, x0.size
        self.low, self.high = ends_of_bounds(bounds, self.n)
        parts = [_read(constraint, args) for constraint in _listed(constraints)]
        h = _stacked(objective, args, [(value, further) for value, further, _, _ in parts])
        values = [value(x0, *further) for value, further, _, _ in parts]
        _check_plain((objective(x0, *args), values, [part[2:] for part in parts]))
        sizes = [np.size(value) for value in values]
        self._sizes = sizes
        ends = [(vector(low, m), vector(high, m)) for (_, _, low, high), m in zip(parts, sizes)]
        self.constraint_low, self.constraint_high = (
            np.concatenate([np.zeros(0), *(pair[i] for pair in ends)]) for i in (0, 1)
        )
        self.m = self.constraint_low.size

        value = api.compile(h, tier=tier)
        self._values = _Latest(value)
        self._pattern = _by_rows(api.sparsity(h, x0))
        self._n_slopes = k = int(np.sum(self._pattern.row == 0))  # in the gradient
        self._slope_columns = slice(None) if k == self.n else self._pattern.col[:k]
        if self.m:
            self._nonzeros = _Latest(api.jacobian(value, sparse=self._pattern).values)
        else:  # one row, which reverse mode computes faster than a sparse matrix
            slope = api.grad(api.compile(_followed(lambda x: h(x)[0], _name_of(objective)), tier=tier))
            self._nonzeros = _Latest(lambda x: slope(x)[self._slope_columns])
        lagrangian = _followed(lambda x, weights: weights @ h(x), f"lagrangian of {_name_of(objective)}")
        weights = np.ones(1 + self.m)
        self._triangle = _by_rows(sparse.tril(api.sparsity(lagrangian, x0, args=(weights,), order=2)))
        self._hessian = api.hessian(api.compile(lagrangian, tier=tier), sparse=self._triangle)

    def __repr__(self) -> str:
        nonzeros = self._pattern.nnz - self._n_slopes
        return (
            f"<nonlinear program: {self.n} variables, {self.m} constraints, {nonzeros} nonzeros in the Jacobian, "
            f"{self._triangle.nnz} in a triangle of the Hessian>"
        )

    # -- as cyipopt calls them

    def objective(self, x: np.ndarray) -> float:
        """Return the value of the objective."""
        return float(self._values(x)[0])

    def constraints(self, x: np.ndarray) -> np.ndarray:
        """Return the values of the constraints, shape (m,)."""
        return self._values(x)[1:].copy()

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Return the gradient of the objective, shape (n,)."""
        found = np.zeros(self.n)
        found[self._slope_columns] = self._nonzeros(x)[: self._n_slopes]
        return found

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Return the nonzeros of the Jacobian of the constraints."""
        return self._nonzeros(x)[self._n_slopes :].copy()

    def hessian(self, x: np.ndarray, multipliers: np.ndarray, factor: float = 1.0) -> np.ndarray:
        """Return the nonzeros of the lower triangle of the Hessian of the Lagrangian.

        The Lagrangian is ``factor * objective(x) + multipliers @ constraints(x)``.
        """
        return self._hessian.values(np.asarray(x, dtype=float), np.concatenate([[factor], multipliers]))

    def jacobianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and columns of the nonzeros of the Jacobian."""
        return self._pattern.row[self._n_slopes :] - 1, self._pattern.col[self._n_slopes :]

    def hessianstructure(self) -> tuple[np.ndarray, np.ndarray]:
        """Return rows and columns of the nonzeros of the lower triangle of the Hessian."""
        return self._triangle.row, self._triangle.col

    # -- for other packages

    def ipyopt(self) -> dict:
        """Return the keyword arguments of ``ipyopt.Problem``."""

        def copied(f):
            def into(*args):
                args[-1][...] = f(*args[:-1])

            return into

        return {
            **self._sizes_and_limits("x_l", "x_u", "g_l", "g_u"),
            "sparsity_indices_jac_g": self.jacobianstructure(),
            "sparsity_indices_h": self.hessianstructure(),
            "eval_f": self.objective,
            "eval_grad_f": copied(self.gradient),
            "eval_g": copied(self.constraints),
            "eval_jac_g": copied(self.jacobian),
            "eval_h": copied(self.hessian),
        }

    def cyipopt(self) -> dict:
        """Return the keyword arguments of ``cyipopt.Problem``, whose `problem_obj` is this object."""
        return {"problem_obj": self, **self._sizes_and_limits("lb", "ub", "cl", "cu")}

    def _sizes_and_limits(self, *names):
        limits = self.low, self.high, self.constraint_low, self.constraint_high
        return {"n": self.n, "m": self.m, **dict(zip(names, limits))}

    def scipy(self, method: Literal["trust-constr", "SLSQP"] = "trust-constr") -> dict:
        """Return the keyword arguments of ``scipy.optimize.minimize``.

        Jacobian and Hessians are sparse arrays for trust-constr; SLSQP gets a dense Jacobian and no Hessian.
        """
        if method not in ("trust-constr", "SLSQP"):
            raise ValueError(f"nlp: method is 'trust-constr' or 'SLSQP', not {method!r}")
        arguments = {
            "fun": self.objective,
            "x0": self.x0,
            "jac": self.gradient,
            "bounds": scipy.optimize.Bounds(self.low, self.high),
            "method": method,
        }
        if method == "SLSQP":
            is_equation = self.constraint_low == self.constraint_high
            masks = [mask for mask in (is_equation, ~is_equation) if mask.any()]
            return {**arguments, "constraints": [self._dense(mask) for mask in masks]}
        no_multipliers = np.zeros(self.m)
        return {
            **arguments,
            "hess": lambda x: self._symmetric(self.hessian(x, no_multipliers)),
            "constraints": [self._sparse(slice(None))] if self.m else [],
        }

    def scipy_constraints(self) -> list:
        """Return the given constraints, each with its sparse Jacobian and Hessian, in the form of trust-constr."""
        if len(self._sizes) == 1:
            return [self._sparse(slice(None))]
        ends = np.cumsum([0, *self._sizes])
        return [self._sparse(slice(a, b)) for a, b in itertools.pairwise(ends)]

    def evaluate(self, x: np.ndarray) -> None:
        """Compile all functions, by evaluating them at `x`."""
        self.constraints(x), self.gradient(x), self.hessian(x, np.zeros(self.m))

    def _sparse(self, rows):
        """Return some constraints with a sparse Jacobian and Hessians."""

        def hess(x, multipliers):
            weights = np.zeros(self.m)
            weights[rows] = multipliers
            return self._symmetric(self.hessian(x, weights, 0.0))

        return self._constraint(rows, jac=lambda x: self._jacobian(x)[rows], hess=hess)

    def _dense(self, mask):
        """Return some constraints with a dense Jacobian; SLSQP treats equations and inequalities separately."""
        return self._constraint(mask, jac=lambda x: self._jacobian(x).toarray()[mask])

    def _constraint(self, rows, **derivatives):
        low, high = self.constraint_low[rows], self.constraint_high[rows]
        return scipy.optimize.NonlinearConstraint(lambda x: self.constraints(x)[rows], low, high, **derivatives)

    def _jacobian(self, x):
        return sparse.csr_array((self.jacobian(x), self.jacobianstructure()), shape=(self.m, self.n))

    def _symmetric(self, values):
        """Return the matrix with both triangles."""
        lower = sparse.csr_array((values, self.hessianstructure()), shape=(self.n, self.n))
        return lower + sparse.tril(lower, -1).T


class _Latest:
    """A function of the variables that keeps its last result, for another call at the same point."""

    def __init__(self, f: Callable):
        self.f = f
        self.x: np.ndarray | None = None

    def __call__(self, x):
        if self.x is None or not np.array_equal(self.x, x):
            self.x = None  # in case f raises
            x = np.array(x, dtype=float)
            self.y = self.f(x)
            self.x = x
        return self.y


def _check_plain(values):
    if holds_traced(values):
        raise TracedValueError(
            "nlp: the problem depends on traced values, but solvers take plain numbers: use "
            "wengert.scipy.optimize.minimize, whose solution has its derivative"
        )


def _by_rows(pattern):
    """Return a pattern in COO format with its nonzeros ordered by rows."""
    pattern = pattern.tocsr()
    pattern.sort_indices()
    return pattern.tocoo()


def _listed(constraints):
    """Return constraints as a list; a function with its limits is one constraint."""
    if constraints is None:
        return []
    is_one = isinstance(constraints, tuple) and len(constraints) == 3 and callable(constraints[0])
    return list(constraints) if isinstance(constraints, (list, tuple)) and not is_one else [constraints]


def _read(constraint, args):
    """Return a constraint as a function, its further arguments, and its limits."""
    if isinstance(constraint, scipy.optimize.LinearConstraint):
        A = sparse.csr_array(constraint.A)  # its zeros remain zeros in every call
        return _followed(lambda x: A @ x, "linear"), (), constraint.lb, constraint.ub
    if isinstance(constraint, (Mapping, scipy.optimize.NonlinearConstraint)):
        return function_of(constraint)
    if isinstance(constraint, tuple) and len(constraint) == 3 and callable(constraint[0]):
        return constraint[0], args, *constraint[1:]
    raise ValueError(f"nlp: a constraint is (function, lower, upper) or one of SciPy's forms, not {constraint!r}")


def _stacked(objective, args, parts):
    """Return the function of objective and constraints, as a 1-D array."""
    reshape, concatenate = np.reshape, np.concatenate

    def h(x):
        rows = [reshape(objective(x, *args), (1,))]
        for value, further in parts:
            rows.append(reshape(value(x, *further), (-1,)))
        return concatenate(rows)

    return _followed(h, _name_of(objective))


def _name_of(f):
    return getattr(f, "__name__", type(f).__name__)


def _followed(function, name):
    """Copy a function so that it appears to be the user's, since wengert's own code is not followed."""
    space = {"__builtins__": builtins, "__name__": "__main__"}
    return types.FunctionType(function.__code__, space, name, None, function.__closure__)
