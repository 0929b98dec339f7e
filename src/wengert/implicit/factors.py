"""Linear solves with the Jacobian of a residual: by factorisation if there is a matrix, otherwise by iteration.

Each class solves J z = b or J^T z = b for all rows b of a matrix.
`columns` holds the units of the unknowns, the factors that equilibrate the columns of J.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from wengert.errors import ConvergenceError
from wengert.program.banded import banded

#: maximum residual of an iterative solve, relative to the right-hand side; one more chord step corrects the rest
MAX_RESIDUAL = 1e-6


#: a singular matrix has rank n - 1 if its smallest singular value is below this fraction of the largest
RANK_RATIO = 1e-4


class Diagonal:
    """Jacobian of elementwise equations, or of a single equation."""

    columns = 1.0
    is_direct = True

    def __init__(self, slopes):
        self.slopes = np.ravel(slopes)
        self.smallest = int(np.argmin(np.abs(self.slopes)))
        self.rcond = float(self.slopes.all())  # each equation is scaled separately

    def place(self) -> str:
        """Description of the smallest pivot."""
        return f"that of element {self.smallest}" if self.slopes.size > 1 else "that of the only equation"

    def solve(self, rows, transposed=False):
        return rows / self.slopes

    def least_norm(self, determined) -> Diagonal:
        """Return a copy with zero derivatives where the equations do not determine them."""
        found = Diagonal(self.slopes)
        found.slopes = np.where(np.ravel(determined) & (self.slopes != 0), self.slopes, np.inf)
        return found


class Matrix:
    """LU factors of a matrix whose rows and columns are equilibrated by powers of 2.

    The condition number therefore does not depend on the units of equations and unknowns.
    """

    is_direct = True

    def __init__(self, matrix):
        self.matrix = matrix
        self.rows, self.columns = _scale(matrix, 1), 1.0
        self.columns = _scale(self._scaled(matrix), 0)
        self._factorise(self._scaled(matrix))

    def _scaled(self, matrix):
        return matrix * np.reshape(self.rows, (-1, 1)) * self.columns

    def _factorise(self, matrix):
        self._band = banded(matrix)
        if self._band is not None:
            self.rcond = float(np.nan_to_num(self._band.rcond()))
            return
        getrf, gecon, self._getrs = _lapack(("getrf", "gecon", "getrs"), matrix.dtype)
        self._lu, self._pivots, zero = getrf(matrix)
        rcond = 0.0 if zero else float(gecon(self._lu, np.abs(matrix).sum(axis=0).max())[0])
        self.rcond = 0.0 if math.isnan(rcond) else rcond

    def place(self) -> str:
        if not np.isfinite(self.matrix).all():
            return "not finite"
        from scipy.linalg import qr

        scaled = self._scaled(self.matrix)
        # the last pivots: those closest to linear combinations of the others
        row, column = (qr(matrix, mode="r", pivoting=True)[1][-1] for matrix in (scaled.T, scaled))
        return f"in row {row}, column {column}"

    def solve(self, rows, transposed=False):
        left, right = (self.columns, self.rows) if transposed else (self.rows, self.columns)
        return self._solved(np.ascontiguousarray((rows * left).T), transposed).T * right

    def _solved(self, columns, transposed):
        if self._band is not None:
            return self._band.solve(columns, transposed)
        return self._getrs(self._lu, self._pivots, columns, trans=int(transposed))[0]

    def least_norm(self, determined) -> LeastNorm:
        return LeastNorm(self.matrix, self.rcond)


class Symmetric(Matrix):
    """Cholesky factor of a symmetric positive definite matrix, scaled symmetrically."""

    def __init__(self, matrix):
        self.matrix = matrix
        self.rows = self.columns = np.exp2(-np.round(0.5 * np.log2(np.maximum(np.diagonal(matrix), 1e-300))))
        self._factorise(self._scaled(matrix))

    def _factorise(self, matrix):
        potrf, pocon, self._potrs = _lapack(("potrf", "pocon", "potrs"), matrix.dtype)
        self._factor, self._failed = potrf(matrix, lower=True)
        norm = np.abs(matrix).sum(axis=0).max()
        self.rcond = 0.0 if self._failed else float(np.nan_to_num(pocon(self._factor, norm, uplo="L")[0]))

    def place(self) -> str:
        at = self._failed - 1 if self._failed else int(np.argmin(np.diagonal(self._factor)))
        return f"in row {at}, column {at}"

    def _solved(self, columns, transposed):
        return self._potrs(self._factor, columns, lower=True)[0]


class LeastNorm:
    """Pseudoinverse of a singular matrix, which gives the solution of minimum norm."""

    columns = 1.0
    is_direct = True

    def __init__(self, matrix, rcond):
        left, values, right = np.linalg.svd(matrix)
        least = values[-1] if values[-1] < RANK_RATIO * values[0] else 0.0
        least = max(least, len(values) * np.finfo(values.dtype).eps * values[0])
        r = int(np.sum(values > least))
        self._inverse = right[:r].T / values[:r] @ left[:, :r].T
        self.rcond = rcond

    def solve(self, rows, transposed=False):
        return rows @ (self._inverse if transposed else self._inverse.T)


class Sparse(Matrix):
    """LU factors of a sparse matrix by SuperLU."""

    def __init__(self, matrix):
        from scipy.sparse import csc_array

        super().__init__(csc_array(matrix))

    def _scaled(self, matrix):
        from scipy.sparse import diags_array

        return (diags_array(self.rows) @ matrix @ diags_array(np.broadcast_to(self.columns, matrix.shape[1]))).tocsc()

    def _factorise(self, matrix):
        from scipy.sparse.linalg import LinearOperator, onenormest, splu

        try:
            self._lu = splu(matrix)
        except RuntimeError:  # a pivot is exactly 0
            self._lu, self.rcond = None, 0.0
            return
        solve, transposed = self._lu.solve, functools.partial(self._lu.solve, trans="T")
        inverse = LinearOperator(matrix.shape, solve, transposed, solve, matrix.dtype, transposed)
        self.rcond = float(1 / (abs(matrix).sum(axis=0).max() * onenormest(inverse)))

    def place(self) -> str:
        if self._lu is None:
            return "exactly 0"
        pivot = int(np.argmin(np.abs(self._lu.U.diagonal())))
        row, column = (int(np.flatnonzero(order == pivot)[0]) for order in (self._lu.perm_r, self._lu.perm_c))
        return f"in row {row}, column {column}"

    def _solved(self, columns, transposed):
        return self._lu.solve(columns, "T" if transposed else "N")

    def least_norm(self, determined):
        return LeastNorm(self.matrix.toarray(), self.rcond)


class Iterative:
    """Solver given as a function ``(A, b) -> x`` of a matrix or a linear operator."""

    columns = 1.0
    is_direct = False
    rcond = float("nan")

    def __init__(self, matrix, linsolve: Callable, name: str):
        self._matrix = matrix
        self._linsolve = linsolve
        self._name = name

    def place(self) -> str:
        return "not known without a matrix"

    def solve(self, rows, transposed=False):
        matrix = self._matrix.T if transposed else self._matrix
        return np.stack([self._one(matrix, row) for row in rows]) if len(rows) else rows

    def _one(self, matrix, b):
        if not np.any(b):
            return np.zeros(b.shape, b.dtype)
        size = np.ldexp(1.0, np.frexp(np.max(np.abs(b)))[1])  # products of tiny numbers would underflow
        b = b / size
        x = np.reshape(self._linsolve(matrix, b), b.shape)
        remainder = np.linalg.norm(matrix @ x - b) / np.linalg.norm(b)
        if not remainder <= MAX_RESIDUAL:
            raise ConvergenceError(
                f"{self._name}: the linear system with its Jacobian was not solved, the relative residual is "
                f"{remainder:.1e}: pass linsolve='lu', or a function (A, b) -> x with a preconditioner"
            )
        return x * size


@functools.cache
def _lapack(names, dtype):
    from scipy.linalg.lapack import get_lapack_funcs

    return get_lapack_funcs(names, dtype=dtype)


def gmres(matrix, b):
    """SciPy's GMRES to nearly full accuracy; the caller checks the residual."""
    from scipy.sparse import linalg

    return linalg.gmres(matrix, b, rtol=1e-12, restart=min(len(b), 100), maxiter=20)[0]


class Unknown:
    """Placeholder for a Jacobian without an inverse; derivatives are NaN."""

    columns = 1.0
    is_direct = True
    rcond = float("nan")

    def solve(self, rows, transposed=False):
        return np.full_like(rows, np.nan)


def _scale(matrix, axis):
    """Return powers of 2 that scale the largest element of each row (or column) to nearly 1."""
    largest = abs(matrix).max(axis=axis)
    largest = largest.toarray().ravel() if hasattr(largest, "toarray") else np.asarray(largest)
    exponents = np.frexp(np.where(np.isfinite(largest), largest, 0.5))[1]  # 0 for a zero row
    return np.ldexp(largest.dtype.type(1), -exponents)
