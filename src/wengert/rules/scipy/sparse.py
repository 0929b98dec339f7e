"""Linear systems with sparse matrices: the cotangent of a matrix has its sparsity pattern.

A system is solved by a function of SciPy, and its adjoint by the same function with the transposed matrix.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse

from wengert.registry import structural
from wengert.rules.composed import dispatched


class Pattern:
    """Row and column indices of the entries of a sparse matrix; duplicates are summed.

    ``solve(A, b)`` solves a system with a SciPy matrix.
    """

    def __init__(self, row, col, shape, solve):
        self.row, self.col, self.shape, self.solve = row, col, shape, solve
        self._turned = None

    @property
    def transposed(self):
        if self._turned is None:
            self._turned = Pattern(self.col, self.row, self.shape[::-1], self.solve)
            self._turned._turned = self
        return self._turned

    def matrix(self, entries):
        return scipy.sparse.coo_array((np.asarray(entries), (self.row, self.col)), shape=self.shape).tocsc()


@dispatched
def solution(entries, b, pattern):
    """Solve a sparse system for one right-hand side or several."""
    return np.array(pattern.solve(pattern.matrix(entries), np.ascontiguousarray(b)))  # a solver may return b itself


def wrt_entries(ybar, y, entries, b, pattern):
    """Return -z_i x_j for each entry (i, j), where z solves the adjoint system."""
    z = solution(entries, ybar, pattern.transposed)
    products = -z[pattern.row] * y[pattern.col]
    return np.sum(products, axis=1) if np.ndim(products) == 2 else products


structural(
    solution,
    wrt_entries,
    lambda ybar, y, entries, b, pattern: solution(entries, ybar, pattern.transposed),
).name = "scipy.sparse.linalg.spsolve"


@dispatched
def applied(b, apply, adjoint):
    """Apply a linear function of SciPy, of which `adjoint` is the adjoint."""
    return np.array(apply(np.ascontiguousarray(b)))


structural(applied, lambda ybar, y, b, apply, adjoint: applied(ybar, adjoint, apply), curvature="none")
