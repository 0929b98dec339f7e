"""LU factors of a dense matrix whose nonzeros lie in a narrow band, by LAPACK's routines for band matrices."""

from __future__ import annotations

import functools

import numpy as np

#: smallest matrix that is searched for a band: below, dense factors take no longer than the search
MIN_SIZE = 48

#: maximum width of a band as a fraction of the columns; wider ones are faster dense
MAX_BAND = 0.125


class Banded:
    """LU factors with row interchanges (LAPACK's gbtrf).

    Attributes
    ----------
    is_singular : bool
        Whether a pivot is exactly zero.
    """

    def __init__(self, rows: np.ndarray, columns: np.ndarray, values: np.ndarray, n: int, below: int, above: int):
        gbtrf, self._gbtrs, _ = _lapack()
        self.below, self.above = below, above
        band = np.zeros((2 * below + above + 1, n))
        band[below + above + rows - columns, columns] = values
        self.norm = float(np.max(np.sum(np.abs(band), axis=0)))
        self._lu, self._pivots, info = gbtrf(band, below, above)
        self.is_singular = info != 0

    def solve(self, b: np.ndarray, transposed: bool = False) -> np.ndarray:
        """Solve for one right-hand side, or for each column of b."""
        return self._gbtrs(self._lu, self.below, self.above, b, self._pivots, trans=int(transposed))[0]

    def rcond(self) -> float:
        """Estimate the reciprocal condition number in the 1-norm."""
        if self.is_singular:
            return 0.0
        gbcon = _lapack()[2]
        if gbcon is None:
            from scipy.sparse.linalg import LinearOperator, onenormest

            back = functools.partial(self.solve, transposed=True)
            shape = (self._lu.shape[1],) * 2
            return float(1 / (self.norm * onenormest(LinearOperator(shape, self.solve, back, self.solve, float, back))))
        return float(gbcon(self.below, self.above, self._lu, self._pivots, self.norm)[0])


def banded(matrix: np.ndarray) -> Banded | None:
    """Return the factors of a dense matrix as a band, or None if it is small or has no narrow band."""
    n = len(matrix)
    if n < MIN_SIZE or matrix.dtype != np.float64:
        return None
    width = int(MAX_BAND * n)
    if np.any(matrix[0, width + 1 :]) or np.any(matrix[-1, : n - 1 - width]):
        return None
    if (last := _patterns.get(n)) is not None:
        rows, columns, below, above = last
        values = matrix[rows, columns]
        if np.count_nonzero(values) == np.count_nonzero(matrix):
            return Banded(rows, columns, values, n, below, above)
    rows, columns = np.divmod(np.flatnonzero(matrix), n)
    offsets = rows - columns
    below, above = int(offsets.max(initial=0)), int(-offsets.min(initial=0))
    if below + above > width:
        return None
    _patterns[n] = rows, columns, below, above
    return Banded(rows, columns, matrix[rows, columns], n, below, above)


#: pattern of the last band of each size, tried first: a solver factorises many matrices with the same nonzeros
_patterns: dict[int, tuple] = {}


@functools.cache
def _lapack():
    """Return LAPACK's functions for bands; the last one is None for a SciPy that lacks it."""
    from scipy.linalg import lapack

    return lapack.dgbtrf, lapack.dgbtrs, getattr(lapack, "dgbcon", None)
