"""Recovery of a sparse matrix from its products with seed vectors; positions are computed once and used many times.

Products are stored like seeds, one per row: J s of seed c is row c, with m elements; s^T J is row c, with n elements.
In direct recovery the nonzeros are ``products.ravel()[source]``, in any order that a format or a solver needs.
In recovery by substitution, nonzeros found earlier are subtracted from each product.
Both triangles of a symmetric matrix are read from one product, so the result is symmetric to the last bit.

References
----------
Gebremedhin, Tarafdar, Pothen and Walther (2009), Efficient computation of sparse Hessians using coloring and automatic
differentiation. doi:10.1287/ijoc.1080.0286
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from wengert.errors import PatternError
from wengert.sparse.colours import Colouring
from wengert.sparse.recovery import alone, elimination, substitute
from wengert.sparse.structure import Structure, index_dtype


def compress(matrix: Any, colouring: Colouring) -> Any:
    """Products of a known matrix with the seeds of a colouring, as forward or reverse sweeps would compute them.

    Parameters
    ----------
    matrix : sparse array or ndarray, shape (m, n)
    colouring : Colouring

    Returns
    -------
    products : ndarray, shape (count, m), or (count, n) of a row colouring; both in a tuple if it is bidirectional

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from wengert.sparse.compression import compress
    >>> matrix = np.array([[1.0, 2, 0, 0], [0, 3, 4, 0], [0, 0, 5, 6]])
    >>> compress(matrix, wg.colouring(matrix != 0))
    array([[1., 4., 5.],
           [2., 3., 6.]])
    """
    by_columns = by_rows = None
    if colouring.column_colours is not None:
        by_columns = np.ascontiguousarray((matrix @ colouring.seeds(side="column").T).T)
    if colouring.row_colours is not None:
        by_rows = np.ascontiguousarray((matrix.T @ colouring.seeds(side="row").T).T)
    return (by_columns, by_rows) if colouring.kind == "bidirectional" else by_rows if by_columns is None else by_columns


class Recovery:
    """Recovers the nonzeros of a matrix from its products with the seeds of a colouring.

    Parameters
    ----------
    colouring : Colouring
    format : {"csr", "csc", "coo"}
        Order of the values; "coo" uses the order of "csr".
    lower : bool
        Whether to recover only the lower triangle.
    order : (rows, columns), optional
        Indices of the requested nonzeros in the caller's order, as interior-point solvers use; each may occur any
        number of times. The format is then "coo".

    Attributes
    ----------
    rows, columns : ndarray of int32, shape (nnz,)
        Row and column of each value.

    Raises
    ------
    PatternError
        If the colouring does not determine every nonzero, or a pair of `order` is not in the pattern.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from wengert.sparse.compression import Recovery
    >>> pattern = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], dtype=bool)
    >>> recovery = Recovery(wg.colouring(pattern))
    >>> recovery.values(np.array([[1.0, 4, 5], [2, 3, 6]]))
    array([1., 2., 3., 4., 5., 6.])
    """

    def __init__(self, colouring: Colouring, *, format: str = "csr", lower: bool = False, order: Any = None):
        if format not in ("csr", "csc", "coo"):
            raise ValueError(f'Recovery: format is "csr", "csc" or "coo", not {format!r}')
        colouring.check()
        s = colouring.structure
        self.colouring = colouring
        self.format = format if order is None else "coo"
        self.is_sorted = order is None
        places: Any = slice(None)  # positions of the values in CSR order
        if order is not None:
            places = places_of(s, *order)
        elif format == "csc":
            places = s.t_place
        if lower:
            places = np.arange(len(s))[places]
            places = places[s.rows[places] >= s.idx[places]]
        self.rows, self.columns = s.rows[places], s.idx[places]
        m, n = s.shape
        self.sizes = (colouring.column_count * m, colouring.row_count * n)
        self.substitution = _substitution(s, colouring) if colouring.kind == "acyclic" else None
        if self.substitution is None:
            self.source = _SOURCES[colouring.kind](s, colouring)[places]
        else:
            self.source = self.substitution.position[places]
        self._ends = _ends(self)

    def __repr__(self):
        return f"<recovery of {len(self.source)} nonzeros, {self.format}, from {self.colouring.count} products>"

    def room(self, dtype: Any = float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Allocate a buffer for all products; return it flat, and as two arrays to fill, by columns and by rows."""
        m, n = self.colouring.shape
        flat = np.empty(sum(self.sizes), dtype)
        return flat, flat[: self.sizes[0]].reshape(-1, m), flat[self.sizes[0] :].reshape(-1, n)

    def values(self, products: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Values of the nonzeros, including numerical zeros.

        Parameters
        ----------
        products : ndarray, shape (count, m) or (count, n); a tuple (by columns, by rows); or one flat array, see `room`
            Not modified.
        out : ndarray, shape (nnz,), optional

        Returns
        -------
        values : ndarray, shape (nnz,)
        """
        flat = self._flat(products)
        if self.substitution is not None:
            flat = self.substitution.solved(flat)
        if out is None:
            return flat.take(self.source)
        if out.shape != self.source.shape:
            raise ValueError(f"Recovery.values: out has the shape {out.shape}, and there are {len(self.source)} values")
        if out.dtype == flat.dtype and out.flags.c_contiguous:
            return flat.take(self.source, out=out, mode="clip")  # indices are in range; "raise" would make a copy
        out[...] = flat.take(self.source)
        return out

    def matrix(self, products: Any) -> Any:
        """Sparse array with newly allocated index arrays."""
        return self.array(self.values(products))

    def array(self, values: np.ndarray) -> Any:
        """Sparse array with these values."""
        shape = self.colouring.shape
        if self.format == "coo":
            made = sp.coo_array((values, (self.rows.copy(), self.columns.copy())), shape)
            made.has_canonical_format = self.is_sorted
            return made
        made = sp.csr_array if self.format == "csr" else sp.csc_array
        along = self.columns if self.format == "csr" else self.rows
        return made((values, along.copy(), self._ends.copy()), shape)

    def _flat(self, products):
        m, n = self.colouring.shape
        counts = self.colouring.column_count, self.colouring.row_count
        parts = products if isinstance(products, tuple) else (products,)
        parts = [np.asarray(part) for part in parts]
        if len(parts) == 1 and parts[0].ndim == 1 and parts[0].size == sum(self.sizes):
            return parts[0]
        wanted = [(count, size) for count, size in zip(counts, (m, n))]
        if self.colouring.kind != "bidirectional":
            wanted = wanted[1:] if self.colouring.kind == "row" else wanted[:1]
        if [part.shape for part in parts] != wanted:
            raise ValueError(
                f"Recovery: the products have the shapes {[part.shape for part in parts]}, "
                f"but a {self.colouring.kind} colouring needs {wanted}"
            )
        return parts[0].ravel() if len(parts) == 1 else np.concatenate([part.ravel() for part in parts])


def places_of(s: Structure, rows: Any, columns: Any) -> np.ndarray:
    """Positions of the nonzeros with these indices in CSR order.

    Raises
    ------
    PatternError
        If a pair is not in the pattern.
    """
    rows, columns = np.asarray(rows), np.asarray(columns)
    if rows.shape != columns.shape or rows.ndim != 1 or not {rows.dtype.kind, columns.dtype.kind} <= {"i", "u"}:
        raise PatternError(
            "Recovery: order is two integer arrays of one length, rows and columns, "
            f"not {rows.dtype} of shape {rows.shape} and {columns.dtype} of shape {columns.shape}"
        )
    m, n = s.shape
    here = s.rows * np.int64(n) + s.idx
    wanted = rows.astype(np.int64) * n + columns.astype(np.int64)
    places = np.searchsorted(here, wanted)
    inside = (rows >= 0) & (rows < m) & (columns >= 0) & (columns < n) & (places < len(s))
    inside[inside] = here[places[inside]] == wanted[inside]
    if not inside.all():
        k = int(np.flatnonzero(~inside)[0])
        raise PatternError(f"Recovery: ({rows[k]}, {columns[k]}), pair {k} of order, is not in the pattern")
    return places


def _ends(recovery):
    """`indptr` of the CSR or CSC array."""
    if recovery.format == "coo":
        return None
    s, nnz = recovery.colouring.structure, len(recovery.rows)
    by_row = recovery.format == "csr"
    if nnz == len(s):
        return (s.ptr if by_row else s.t_ptr).astype(index_dtype(nnz))
    counts = np.bincount(recovery.rows if by_row else recovery.columns, minlength=s.shape[0 if by_row else 1])
    return np.concatenate([[0], np.cumsum(counts)]).astype(index_dtype(nnz))


# ---- position of each nonzero in the products, in CSR order


def _by_column(s, colouring):
    source = (colouring.column_colours * np.int64(s.shape[0]))[s.idx]
    source += s.rows
    return source


def _by_row(s, colouring):
    source = (colouring.row_colours * np.int64(s.shape[1]))[s.rows]
    source += s.idx
    return source


def _by_either(s, colouring):
    by_column = alone(s.ptr, s.idx, colouring.column_colours, colouring.column_count)
    after = colouring.column_count * s.shape[0]  # row products are stored after column products
    return np.where(by_column, _by_column(s, colouring), after + _by_row(s, colouring))


def _by_star(s, colouring):
    """Read each pair of symmetric nonzeros from a row in which its colour is unique, the lower row if possible."""
    lower = np.where(s.rows >= s.idx, np.arange(len(s)), s.t_place)
    is_alone = alone(s.ptr, s.idx, colouring.column_colours, colouring.column_count)
    read = np.where(is_alone[lower], lower, s.t_place[lower])
    return _by_column(s, colouring)[read]


_SOURCES = {"column": _by_column, "row": _by_row, "bidirectional": _by_either, "star": _by_star}


class _Substitution:
    """Nonzeros in the order of substitution: where each is read, and where it is subtracted."""

    def __init__(self, source, target, diagonal, position):
        self.source, self.target, self.diagonal, self.position = source, target, diagonal, position

    def solved(self, flat):
        """Return the off-diagonal values in the order of substitution, then the diagonal values."""
        work = np.array(flat, flat.dtype if flat.dtype.char in "fdFD" else np.result_type(flat, np.float64))
        values = np.empty(len(self.source) + len(self.diagonal), work.dtype)
        work.take(self.diagonal, out=values[len(self.source) :], mode="clip")
        substitute(work, self.source, self.target, values)
        return values


def _substitution(s, colouring):
    n = s.shape[0]
    colours = colouring.column_colours.astype(np.int64)
    order, _ = elimination(s.ptr, s.idx, s.t_place, colouring.column_colours, colouring.count)
    v, w = s.rows[order], s.idx[order]
    on = np.flatnonzero(s.rows == s.idx)
    position = np.empty(len(s), np.int64)
    position[order] = position[s.t_place[order]] = np.arange(len(order))
    position[on] = len(order) + np.arange(len(on))
    return _Substitution(colours[w] * n + v, colours[v] * n + w, colours[s.idx[on]] * n + s.idx[on], position)
