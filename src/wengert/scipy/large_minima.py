"""Large constrained problems of `minimize` by trust-constr: sparse derivatives from one compiled program.

SciPy factorises the Jacobian of the constraints in each iteration. As a sparse matrix it takes much less time, and the
program that computes it evaluates the common parts of objective and constraints once.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping

import numpy as np
import scipy.optimize
from scipy import sparse

from wengert.core.levels import caught
from wengert.errors import CompileWarning, Refusal
from wengert.scipy.constraints import is_default_hessian, listed

#: number of variables from which preparing a program takes less time than it saves
MIN_PROGRAM_SIZE = 200


def use_program(arguments: dict) -> bool:
    """Replace the functions in the arguments of `minimize` by a compiled program with exact sparse derivatives.

    Return False, with the arguments unchanged, if the problem is small, if derivatives or options for them are given,
    or if a function cannot be compiled.
    """
    constraints = listed(arguments.get("constraints") or ())
    linear = scipy.optimize.LinearConstraint
    functions = [c for c in constraints if not isinstance(c, linear)]
    if not constraints or np.size(arguments["x0"]) < MIN_PROGRAM_SIZE or not all(map(_is_plain, functions)):
        return False
    if any(arguments.get(name) is not None for name in ("jac", "hess", "hessp")):
        return False
    if "sparse_jacobian" in (arguments.get("options") or {}):
        return False
    from wengert.scipy.nonlinear_program import nlp  # slow to import, like all of `wengert.program`

    args = arguments.get("args", ())
    args = args if isinstance(args, tuple) else (args,)
    with warnings.catch_warnings(), caught(Refusal, ValueError, CompileWarning) as refused:
        warnings.simplefilter("error", CompileWarning)
        program = nlp(arguments["fun"], functions, np.reshape(arguments["x0"], (-1,)), args=args)
        program.evaluate(program.x0)
    if refused.error is not None:
        return False
    parts = iter(program.scipy_constraints())
    replaced = [_sparse(c) if isinstance(c, linear) else next(parts) for c in constraints]
    for given, made in zip(constraints, replaced):
        made.keep_feasible = getattr(given, "keep_feasible", False)
    objective = program.scipy()
    arguments |= {name: objective[name] for name in ("fun", "jac", "hess")} | {"constraints": replaced, "args": ()}
    return True


def _is_plain(constraint):
    """Return whether a constraint leaves derivatives to SciPy, with its defaults."""
    if isinstance(constraint, Mapping):
        return constraint.get("jac") is None
    return (
        isinstance(constraint, scipy.optimize.NonlinearConstraint)
        and constraint.jac == "2-point"
        and is_default_hessian(constraint.hess)
        and constraint.finite_diff_rel_step is None
        and constraint.finite_diff_jac_sparsity is None
    )


def _sparse(constraint):
    """Return a linear constraint with a sparse matrix, as SciPy requires if other Jacobians are sparse."""
    return scipy.optimize.LinearConstraint(sparse.csr_array(constraint.A), constraint.lb, constraint.ub)
