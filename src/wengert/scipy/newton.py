"""Newton's method for systems of equations with dense or sparse Jacobians; see `wengert.program.roots.newton`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from wengert.program.banded import MAX_BAND, Banded, banded
from wengert.program.roots import newton

#: maximum number of steps by default
MAX_STEPS = 50

#: default tolerance: the last correction, relative to x
TOLERANCE = 1e-10

#: status of a result, with its message
MESSAGES = {
    1: "The solution converged.",
    2: "The number of steps exceeded maxiter = {}.",
    3: "The Jacobian is singular at a step.",
    4: "No step makes progress: the start may be too far from a root, or there is none.",
}


class Newton:
    """Newton's method with its options, for equations given as programs or as Python functions."""

    #: whether it uses sparse Jacobians
    takes_sparse = True

    def __init__(self, tol: float | None = None, maxiter: int = MAX_STEPS):
        self.tol = TOLERANCE if tol is None else tol
        self.maxiter = maxiter

    def native(self, equations: Any, x0: np.ndarray) -> tuple:
        """Return the root and (success, status, message), given equations that are programs."""
        x, status = equations.newton(x0, self.tol, self.maxiter)
        return x, (status == 1, status, self.message(status))

    def native_many(self, paths: Any, count: int, starts: tuple, leaves: tuple) -> tuple | None:
        """Return the roots of many systems, and the outcomes of those at which the method does not converge.

        None if the systems are large, or take different branches.
        """
        system = paths.systems()[0]
        differs, rows, shared = system.arranged(count, *starts, leaves)
        lanes = system.lanes(differs, count)
        if lanes is None:
            return None
        found, statuses = np.empty((count, system.linear.n)), np.empty(count, np.intc)
        if not lanes.solve(rows, shared, self.tol, self.maxiter, found, statuses):
            return None
        system.give(lanes, differs)
        failed = np.flatnonzero(statuses != 1).tolist()
        return found, [(k, (False, int(statuses[k]), self.message(int(statuses[k])))) for k in failed]

    def run(self, value: Callable, slopes: Callable, x0: np.ndarray, callback: Callable | None) -> tuple:
        """Return the run, with the root and counts of evaluations, and its status."""
        run = newton.Newton(x0, self.tol)
        equations = newton.Called(np.size(x0), value, lambda x: factorised(slopes(x)))
        return run, run.solve(equations, self.maxiter, callback)

    def message(self, status: int) -> str:
        return MESSAGES[status].format(self.maxiter)


def factorised(matrix: Any) -> Callable | None:
    """Return the function that solves with a matrix, or None if it is singular."""
    if not hasattr(matrix, "tocsc"):
        band = banded(matrix)
        if band is None:
            lu, pivots, info = dgetrf(matrix)
            return None if info else lambda b: dgetrs(lu, pivots, b)[0]
    else:
        band = _sparse_band(matrix.tocoo())
    if band is not None:
        return None if band.is_singular else band.solve
    from scipy.sparse.linalg import splu

    try:
        return splu(matrix.tocsc()).solve
    except RuntimeError:  # a pivot is exactly 0
        return None


def _sparse_band(matrix):
    """Return the factors of a sparse matrix as a band, or None if the band is too wide."""
    n, offsets = matrix.shape[0], matrix.row - matrix.col
    below, above = int(offsets.max(initial=0)), int(-offsets.min(initial=0))
    if below + above > MAX_BAND * n:
        return None
    return Banded(matrix.row, matrix.col, matrix.data, n, below, above)
