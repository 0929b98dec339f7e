"""Newton's method for systems of equations with dense or sparse Jacobians, damped by the natural monotonicity test.

A step is shortened until the simplified correction J(x)^-1 F(x + step) is smaller than the correction itself.  The test
does not depend on the units of the equations (Deuflhard 2004, algorithm NLEQ-ERR); it costs one evaluation of the
equations and one solve with the factors at hand.

References
----------
Deuflhard (2004), Newton Methods for Nonlinear Problems, section 3.3. doi:10.1007/978-3-642-23899-4
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg.lapack import dgetrf, dgetrs

from wengert.program.banded import MAX_BAND, Banded, banded

#: maximum number of steps by default
MAX_STEPS = 50

#: default tolerance: the last correction, relative to x
TOLERANCE = 1e-10

#: smallest fraction of a Newton step that is tried
MIN_DAMPING = 1e-8

#: components below this fraction of the largest one, now or at the start, count as that large
SCALE_FLOOR = 1e-3

#: status of a result, with its message
MESSAGES = {
    1: "The solution converged.",
    2: "The number of steps exceeded maxiter = {}.",
    3: "The Jacobian is singular at a step.",
    4: "No step makes progress: the start may be too far from a root, or there is none.",
}


class Newton:
    """``solve(value, slopes, x0)`` for 1-D arrays; `slopes` returns an array or a sparse array."""

    def __init__(self, tol: float | None = None, maxiter: int = MAX_STEPS, callback: Callable | None = None):
        self.tol = TOLERANCE if tol is None else tol
        self.maxiter = maxiter
        self.callback = callback

    def __call__(self, value: Callable, slopes: Callable, x0: np.ndarray) -> tuple:
        """Return the solution and (success, status, message), as programs call solvers."""
        run = Run(self, value, slopes, np.array(x0, dtype=float))
        status = run.status()
        return run.x, (status == 1, status, MESSAGES[status].format(self.maxiter))


class Run:
    """One solution: iterate, residual, and counts of evaluations."""

    def __init__(self, method: Newton, value: Callable, slopes: Callable, x: np.ndarray):
        self.method, self.value, self.slopes = method, value, slopes
        self.x, self.y = x, np.ravel(value(x))
        self.floor = SCALE_FLOOR * np.max(np.abs(x), initial=0)
        self.nfev, self.njev, self.nit = 1, 0, 0

    def status(self) -> int:
        """Iterate until convergence or failure; see `MESSAGES`."""
        damping = 1.0
        while self.y.any():
            if self.nit == self.method.maxiter:
                return 2
            self.nit, self.njev = self.nit + 1, self.njev + 1
            solve = factorised(self.slopes(self.x))
            step = None if solve is None else -solve(self.y)
            if step is None or not np.isfinite(step).all():
                return 3
            size_of_x = np.abs(self.x)
            scale = np.maximum(size_of_x, max(self.floor, SCALE_FLOOR * size_of_x.max()) or 1.0)
            size = _norm(step / scale)
            if size <= self.method.tol:
                self._move(step)
                return 1
            if self.nit > 1 and damping < 1:
                damping = self._predicted(step, scale, size, damping)
            damping, simplified = self._damped(solve, step, scale, size, damping)
            if not damping:
                return 4
            self._last = simplified, size, _norm(simplified / scale)
            if damping == 1 and self._last[2] <= self.method.tol:
                self._move(simplified)
                return 1
            if self.method.callback is not None:
                self.method.callback(self.x, self.y)
        return 1

    def _predicted(self, step, scale, size, damping):
        """Estimate the damping of this step from the change of the correction in the last one."""
        simplified, last, last_simplified = self._last
        change = _norm((simplified - step) / scale)
        return min(1.0, damping * last * last_simplified / (change * size)) if change * size > 0 else 1.0

    def _damped(self, solve, step, scale, size, damping):
        """Move along the step as far as the monotonicity test allows; return the damping and simplified correction."""
        with np.errstate(all="ignore"):  # the equations may be undefined or overflow there
            while damping >= MIN_DAMPING:
                x = self.x + damping * step
                y = np.ravel(self.value(x))
                self.nfev += 1
                simplified = -solve(y) if np.isfinite(y).all() else np.full(y.size, np.inf)
                if not np.isfinite(simplified).all():
                    damping /= 2
                elif _norm(simplified / scale) <= (1 - damping / 4) * size:
                    self.x, self.y = x, y
                    return damping, simplified
                else:
                    excess = _norm((simplified - (1 - damping) * step) / scale)
                    damping = max(min(0.5 * size * damping**2 / excess, damping / 2), damping / 10)
        return 0.0, None

    def _move(self, step):
        """Take the last step, whose residual is known to be smaller than rounding errors of x allow to see."""
        self.x = self.x + step
        self.y = np.ravel(self.value(self.x))
        self.nfev += 1


def _norm(x):
    return math.sqrt(x.dot(x) / x.size)


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
    """Return the factors of a sparse matrix as a band, or None if it has no narrow one."""
    n, offsets = matrix.shape[0], matrix.row - matrix.col
    below, above = int(offsets.max(initial=0)), int(-offsets.min(initial=0))
    if below + above > MAX_BAND * n:
        return None
    return Banded(matrix.row, matrix.col, matrix.data, n, below, above)
