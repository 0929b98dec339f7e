"""Sparsity pattern of the Jacobian of a right-hand side, and its elimination order."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from wengert.program.memo import memoised

#: sparse factors are faster than dense ones up to this many multiplications plus this fraction of the cube of the size
#: (`python -m benchmarks.sparse_factors`)
MAX_MULTIPLICATIONS, MAX_PART = 2000, 0.045

#: fraction of nonzeros above which a large matrix counts as dense, without computing an order
MAX_DENSITY = 0.5


class Pattern:
    """Sparsity pattern of an n x n matrix: rows and columns of its nonzeros, row by row.

    Without `rows` and `columns` the matrix is dense.
    """

    def __init__(self, n: int, rows: np.ndarray | None = None, columns: np.ndarray | None = None):
        self.is_full = rows is None or columns is None
        if rows is None or columns is None:
            rows, columns = np.divmod(np.arange(n * n), n)
        self.n, self.rows, self.columns, self.count = n, rows, columns, rows.size
        self._derived: dict = {}

    @property
    def _keys(self):
        return self.rows.astype(np.int64) * self.n + self.columns

    def is_like(self, other: Pattern) -> bool:
        """Return whether another matrix has the same nonzeros."""
        return self is other or (np.array_equal(self._keys, other._keys) and self.is_full == other.is_full)

    def places_of(self, other: Pattern) -> np.ndarray | None:
        """Return the places of another matrix's nonzeros among these, or None if some are missing here."""
        found = np.searchsorted(self._keys, other._keys)
        is_there = np.isin(other._keys, self._keys).all()
        return found if is_there else None

    def joined(self, other: Pattern) -> Pattern:
        """Return the union of two patterns."""
        rows, columns = np.divmod(np.union1d(self._keys, other._keys), self.n)
        return Pattern(self.n, rows, columns)

    @functools.cached_property
    def _factors(self) -> Any:
        """SciPy's LU factors of a diagonally dominant matrix with these nonzeros, ordered by minimum degree."""
        from scipy.sparse import csc_array
        from scipy.sparse.linalg import splu

        own = np.arange(self.n)
        values = np.concatenate([np.ones(self.count), np.full(self.n, self.n + 1.0)])
        places = np.concatenate([self.rows, own]), np.concatenate([self.columns, own])
        matrix = csc_array((values, places), (self.n, self.n))
        options = {"SymmetricMode": True}
        return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)

    @functools.cached_property
    def order(self) -> np.ndarray:
        """Minimum-degree elimination order."""
        return np.argsort(self._factors.perm_c)

    @functools.cached_property
    def multiplications(self) -> int:
        """Number of multiplications of a factorisation."""
        lower, upper = self._factors.L, self._factors.U
        return int(np.diff(lower.tocsc().indptr).astype(np.int64) @ np.diff(upper.tocsr().indptr))

    @functools.cached_property
    def is_sparse(self) -> bool:
        """Whether sparse factors are faster than dense ones."""
        most = MAX_MULTIPLICATIONS + MAX_PART * self.n**3
        if self.count > MAX_DENSITY * self.n**2 and self.n**3 / 3 > most:
            return False
        return self.multiplications <= most

    @memoised
    def dense_places(self, stages: int) -> tuple:
        """Return the places of the nonzeros of all blocks, and of the diagonal, in a dense matrix in C order."""
        n = stages * self.n
        rows, columns = self._blocks(stages)
        return (rows * n + columns).astype(np.intc), (np.arange(n) * (n + 1)).astype(np.intc)

    @memoised
    def sparse_places(self, stages: int) -> tuple:
        """Return the structure of a matrix of blocks.

        Returns
        -------
        starts, rows : ndarray
            Starts of the columns, in the order of elimination, and the rows of all nonzeros.
        places, diagonal : ndarray
            Positions of the nonzeros of all blocks, and of the diagonal, among those.
        order : ndarray
            The order of elimination.
        """
        n = stages * self.n
        order = (self.order[:, None] + self.n * np.arange(stages)).ravel()
        position = np.argsort(order)
        rows, columns = self._blocks(stages)
        own = np.arange(n)
        keys = position[np.concatenate([columns, own])] * n + np.concatenate([rows, own])
        found, places = np.unique(keys, return_inverse=True)
        starts = np.searchsorted(found, n * np.arange(n + 1))
        arrays = starts, found % n, places[: rows.size], places[rows.size :], order
        return tuple(np.ascontiguousarray(x, dtype=np.intc) for x in arrays)

    def _blocks(self, stages):
        """Return rows and columns of the nonzeros of all blocks, ordered by rows of blocks."""
        i, j = np.divmod(np.arange(stages * stages), stages)
        rows = (i[:, None] * self.n + self.rows).ravel()
        return rows.astype(np.int64), (j[:, None] * self.n + self.columns).ravel().astype(np.int64)
