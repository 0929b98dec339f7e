"""Sparsity patterns as index arrays for compiled loops."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import scipy.sparse as sp

from wengert.errors import PatternError
from wengert.sparse.greedy import transposed

_INT32_MAX = np.iinfo(np.int32).max


class Structure:
    """Pattern of a matrix of `shape`: row i has the columns `idx[ptr[i]:ptr[i + 1]]`, in ascending order.

    `t_ptr`, `t_idx` describe the transpose likewise; `t_place` is the position of each of its nonzeros in `idx`.
    """

    def __init__(self, ptr: np.ndarray, idx: np.ndarray, shape: tuple[int, int]):
        self.ptr, self.idx, self.shape = _frozen(ptr, idx, shape)

    def __len__(self):
        return len(self.idx)

    def __reduce__(self):
        return Structure, (self.ptr, self.idx, self.shape)

    @functools.cached_property
    def _turned(self):
        return _frozen(*transposed(self.ptr, self.idx, self.shape[1]))

    t_ptr = property(lambda self: self._turned[0])
    t_idx = property(lambda self: self._turned[1])
    t_place = property(lambda self: self._turned[2])

    @functools.cached_property
    def transpose(self) -> Structure:
        return Structure(self.t_ptr, self.t_idx, self.shape[::-1])

    @functools.cached_property
    def used_columns(self) -> np.ndarray:
        """Mask of columns with nonzeros."""
        used = np.zeros(self.shape[1], bool)
        used[self.idx] = True
        return used

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """Row of each nonzero."""
        return _frozen(np.repeat(np.arange(self.shape[0], dtype=np.int32), np.diff(self.ptr)))[0]

    def part(self, keep: np.ndarray) -> Structure:
        """The nonzeros selected by the mask `keep`."""
        ends = np.concatenate([[0], np.cumsum(keep, dtype=np.int64)])
        return Structure(ends[self.ptr], self.idx[keep], self.shape)

    def with_diagonal(self) -> Structure:
        """The nonzeros and the diagonal."""
        n = self.shape[0]
        own = np.arange(n, dtype=np.int32)
        full = sp.csr_array(
            (np.ones(len(self) + n, np.bool), (np.append(self.rows, own), np.append(self.idx, own))), self.shape
        )
        return structure_of(full)

    def require_symmetric(self, kind: str):
        """Raise a PatternError that names a nonzero whose transpose is missing."""
        m, n = self.shape
        if m != n:
            raise PatternError(
                f"colouring: kind={kind!r} requires a symmetric pattern, but this one is {m} x {n}; "
                'write kind="column", "row" or "bidirectional"'
            )
        if np.array_equal(self.ptr, self.t_ptr) and np.array_equal(self.idx, self.t_idx):
            return
        here = self.rows * np.int64(n) + self.idx
        there = self.idx * np.int64(n) + self.rows
        i, j = divmod(int(np.setdiff1d(here, there)[0]), n)
        raise PatternError(
            f"colouring: kind={kind!r} requires a symmetric pattern, but ({i}, {j}) is in it and ({j}, {i}) is not; "
            "write `pattern + pattern.T` if only one triangle is stored"
        )


def index_dtype(nnz: int) -> type:
    """Index dtype of SciPy's sparse arrays for `nnz` nonzeros."""
    return np.int32 if nnz <= _INT32_MAX else np.int64


def _frozen(*arrays):
    """Make arrays read-only, since they are shared."""
    for array in arrays:
        if isinstance(array, np.ndarray):
            array.flags.writeable = False
    return arrays


def structure_of(pattern: Any) -> Structure:
    """Structure of a sparse array or a dense boolean one; stored zeros count, duplicates count once."""
    if isinstance(pattern, Structure):
        return pattern
    if isinstance(pattern, np.ndarray):
        if pattern.dtype != np.bool:
            raise TypeError(
                f"colouring: a dense pattern must have dtype bool, not {pattern.dtype}; write `J != 0`"
            )
    elif not sp.issparse(pattern):
        raise TypeError(
            f"colouring: a pattern is a scipy.sparse array or a dense array of booleans, "
            f"not {type(pattern).__module__}.{type(pattern).__name__}"
        )
    if pattern.ndim != 2:
        raise PatternError(f"colouring: a pattern has two axes, not the shape {pattern.shape}")
    csr = sp.csr_array(pattern)
    if not csr.has_canonical_format:  # sorts a copy, since the caller's array must not change
        csr = sp.csr_array((np.ones(csr.nnz, np.int8), csr.indices.copy(), csr.indptr.copy()), csr.shape)
        csr.sum_duplicates()
    if max(csr.shape) >= _INT32_MAX:
        raise PatternError(f"colouring: a pattern has at most {_INT32_MAX - 1} rows and columns, not {csr.shape}")
    m, n = csr.shape
    return Structure(csr.indptr.astype(np.int64), csr.indices.astype(np.int32), (int(m), int(n)))
