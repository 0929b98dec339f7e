"""Bounds and constraints of `minimize`: SciPy's classes for traced values, and conversion to a common form."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import scipy.optimize

from wengert import api
from wengert.containers import plain_copy
from wengert.core.dispatch.dispatch import from_list
from wengert.core.operands.var import holds_traced
from wengert.core.rebind.rebind import rebound
from wengert.errors import NonSmoothError
from wengert.implicit.conditions import Constraint, vector
from wengert.implicit.limits import check_closed
from wengert.scipy.mirror import Value


class LinearConstraint(scipy.optimize.LinearConstraint):
    """`scipy.optimize.LinearConstraint`; its matrix and limits may be traced."""

    def __init__(self, A, lb=-np.inf, ub=np.inf, keep_feasible=False):
        super().__init__(*(_plain(value) for value in (A, lb, ub)), keep_feasible)
        for name, value in (("A", A), ("lb", lb), ("ub", ub)):
            if holds_traced(value):
                traced = np.atleast_2d(from_list(value)) if name == "A" else np.atleast_1d(from_list(value))
                setattr(self, name, traced)
        if ub is lb:  # an equation, see `check_closed`
            self.ub = self.lb


class Bounds(scipy.optimize.Bounds):
    """`scipy.optimize.Bounds`; the bounds may be traced."""

    def __init__(self, lb=-np.inf, ub=np.inf, keep_feasible=False):
        super().__init__(_plain(lb), _plain(ub), keep_feasible)
        for name, value in (("lb", lb), ("ub", ub)):
            if holds_traced(value):
                setattr(self, name, from_list(value) + np.zeros(getattr(self, name).shape))
        if ub is lb:
            self.ub = self.lb


def _plain(value):
    return plain_copy(from_list(value)) if holds_traced(value) else value


def read_constraints(constraints: Any, x: np.ndarray, name: str) -> list[Constraint]:
    """Convert the constraints of `minimize` to a common form; `x` is a point at which their elements are counted."""
    found = []
    for constraint in listed(constraints):
        if isinstance(constraint, scipy.optimize.LinearConstraint):
            value, low, high = _product(constraint.A), constraint.lb, constraint.ub
        else:
            fun, args, low, high = function_of(constraint)
            value = Value(fun, args, {}, False, name)
        m = np.size(value(x))
        check_closed(name, low, high, "limits of element", "of a constraint")
        found.append(Constraint(value, vector(low, m), vector(high, m)))
    return found


def function_of(constraint: Any) -> tuple[Callable, tuple, Any, Any]:
    """Return the function of a nonlinear constraint, its further arguments, and its limits."""
    if isinstance(constraint, Mapping):
        args = constraint.get("args", ())
        high = 0.0 if constraint["type"].lower() == "eq" else np.inf
        return constraint["fun"], args if isinstance(args, tuple) else (args,), 0.0, high
    return constraint.fun, (), constraint.lb, constraint.ub


def as_bounds(bounds: Any) -> scipy.optimize.Bounds:
    """Return bounds as an object; they may be a pair of lower and upper bounds."""
    return bounds if isinstance(bounds, scipy.optimize.Bounds) else Bounds(*bounds)


def check_integers(name: str, is_integer: np.ndarray, x: np.ndarray, low: Any, high: Any) -> None:
    """Raise if an integer variable is at a traced bound: it would jump if the bound moved."""
    for end in (low, high):
        if holds_traced(end) and (met := is_integer & (plain_copy(end) == x)).any():
            raise NonSmoothError(
                f"{name} has no derivative here: integer variable {int(np.argmax(met))} is at a traced bound and jumps "
                "if the bound moves. Pass wengert.stop_gradient of the bound, or leave some slack"
            )


def _product(A):
    """Return the function that multiplies by a matrix."""
    A = dense(A)
    return lambda x: A @ x


def dense(A: Any) -> Any:
    """Return a matrix, which may be sparse, a list or traced, as a 2-D array."""
    return A.toarray() if hasattr(A, "toarray") else np.atleast_2d(from_list(A))


def listed(constraints: Any) -> list:
    return list(constraints) if isinstance(constraints, (list, tuple)) else [constraints]


def with_derivatives(constraints: Any, takes_hessians: bool) -> list:
    """Return the constraints with exact derivatives instead of SciPy's finite differences and BFGS updates."""
    found = []
    for constraint in listed(constraints):
        if isinstance(constraint, dict) and constraint.get("jac") is None:
            constraint = {**constraint, "jac": api.jacobian(constraint["fun"])}
        elif isinstance(constraint, scipy.optimize.NonlinearConstraint) and constraint.jac == "2-point":
            constraint = copy.copy(constraint)
            constraint.jac = api.jacobian(constraint.fun)
            if takes_hessians and is_default_hessian(constraint.hess):
                constraint.hess = api.hessian(_weighted(constraint.fun))
        found.append(constraint)
    return found


def is_default_hessian(hess: Any) -> bool:
    """Return whether a Hessian is the default of `NonlinearConstraint`, which is BFGS updates."""
    return type(hess) is scipy.optimize.BFGS and vars(hess) == vars(scipy.optimize.BFGS())


def _weighted(f):
    """Return a function of x and multipliers: the elements of f(x) times the multipliers, summed."""

    @functools.wraps(f, updated=())
    def weighted(x, multipliers):
        return np.sum(multipliers * np.reshape(from_list(rebound(f)(x)), (-1,)))

    return weighted
