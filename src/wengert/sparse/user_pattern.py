"""Patterns given by the user: which nonzeros are requested, and in which order.

A COO pattern is a list of rows and columns, as interior-point solvers use, and values are returned in the order of that
list. For any other format they are returned row by row.
A Hessian is symmetric, so a triangle of its pattern requests that triangle; colouring and checks use both.
A colouring is a pattern that also determines from which products the nonzeros are recovered.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy import sparse as sp

from wengert.errors import PatternError
from wengert.sparse.colours import Colouring

#: mode of the products of a colouring, by order of the derivative and kind of colouring
_MODES = {
    1: {"column": "forward", "row": "reverse", "bidirectional": "mixed"},
    2: {"star": "mixed", "acyclic": "mixed"},
}


class UserPattern:
    """A pattern passed to `jacobian` or `hessian`; the caller's arrays are copied.

    Parameters
    ----------
    spec : sparse array, ndarray or Colouring, shape (m, n)
        Stored zeros count.
    order : {1, 2}
        Order of the derivative; the pattern of a Hessian is symmetric, or one triangle of a symmetric one.
    word : str
        Name of the operator for error messages.

    Attributes
    ----------
    pattern : csr_array of bool, shape (m, n)
        The requested entries, sorted.
    is_triangle : bool
    is_ordered : bool
        Whether the user gave the order of the values.
    colours : Colouring or None
        If a colouring was given.
    mode : str
        Mode of the products of the given colouring; "auto" if none was given.

    Raises
    ------
    PatternError
        If the pattern is not 2-D, has a duplicate entry and thus no defined order, belongs to a Hessian and is neither
        symmetric nor triangular, or is a colouring of a kind from which the derivative cannot be recovered.
    TypeError
        If it is not an array.
    """

    def __init__(self, spec: Any, order: int, word: str):
        self.colours, self.mode = None, "auto"
        if isinstance(spec, Colouring):
            self._use_colouring(spec, order, word)
            spec = spec.pattern
        if not (sp.issparse(spec) or isinstance(spec, np.ndarray)):
            raise TypeError(
                f"{word}: sparse is True, False, 'auto', a pattern (sparse array or ndarray of bool) or a colouring, "
                f"not {type(spec).__name__}"
            )
        if spec.ndim != 2:
            raise PatternError(f"{word}: a pattern has two axes, but the one in sparse= has the shape {spec.shape}")
        self.order, self.word = order, word
        self.is_ordered = sp.issparse(spec) and spec.format == "coo"
        pattern = sp.csr_array(spec)
        self.pattern = sp.csr_array(
            (np.ones(pattern.nnz, np.bool), pattern.indices.copy(), pattern.indptr.copy()), pattern.shape
        )
        self.pattern.sum_duplicates()
        self.pattern.data[:] = True
        if self.is_ordered:
            self._entries = np.array(spec.row), np.array(spec.col)
            self._sorting = np.lexsort((self.columns, self.rows))
            self._check_duplicates()
        self.is_triangle = order == 2 and self._is_triangle()

    def _use_colouring(self, colours, order, word):
        if colours.kind not in _MODES[order]:
            kinds = " or ".join(map(repr, _MODES[order]))
            raise PatternError(
                f"{word}: a colouring of kind {colours.kind!r} does not determine a {word.capitalize()}: call "
                f"wengert.colouring with kind={kinds}"
            )
        self.colours, self.mode = colours, _MODES[order][colours.kind]

    def __reduce__(self):
        spec = self.pattern if self.colours is None else self.colours
        if self.is_ordered:
            spec = sp.coo_array((np.ones(len(self.rows), np.bool), self._entries), self.pattern.shape)
        return UserPattern, (spec, self.order, self.word)

    @property
    def rows(self) -> np.ndarray:
        """Row of each value, in their order."""
        return self._entries[0]

    @property
    def columns(self) -> np.ndarray:
        return self._entries[1]

    @functools.cached_property
    def _entries(self):
        return self._canonical

    @property
    def _canonical(self):
        """Rows and columns, row by row."""
        ends, columns = self.pattern.indptr, self.pattern.indices
        return np.repeat(np.arange(len(ends) - 1, dtype=columns.dtype), np.diff(ends)), columns

    @functools.cached_property
    def source(self) -> np.ndarray | None:
        """Position of each entry of `pattern` among the values; None if the order is the same."""
        if not self.is_ordered or (self._sorting == np.arange(len(self._sorting))).all():
            return None
        return self._sorting

    @functools.cached_property
    def full_pattern(self) -> Any:
        """Pattern of the whole matrix, with both triangles."""
        return self.pattern + self.pattern.T if self.is_triangle else self.pattern

    def require_shape(self, shape: tuple[int, int]):
        """Raise a PatternError if the derivative has another shape."""
        if self.pattern.shape != shape:
            m, n = self.pattern.shape
            raise PatternError(
                f"{self.word}: the pattern in sparse= is {m} x {n}, but the derivative is {shape[0]} x {shape[1]}"
            )

    def _check_duplicates(self):
        order = self._sorting
        rows, columns = self.rows[order], self.columns[order]
        again = np.flatnonzero((rows[1:] == rows[:-1]) & (columns[1:] == columns[:-1]))
        if again.size:
            k = again[0]
            raise PatternError(
                f"{self.word}: the COO pattern in sparse= defines the order of the values, but has {len(again)} "
                f"duplicates, such as ({rows[k]}, {columns[k]}) at {order[k]} and {order[k + 1]}: call its "
                "sum_duplicates() first, or pass a csr_array"
            )

    def _is_triangle(self):
        m, n = self.pattern.shape
        if m != n:
            raise PatternError(f"{self.word}: a Hessian is square, but the pattern in sparse= is {m} x {n}")
        rows, columns = self._canonical
        below, above = rows > columns, rows < columns
        if below.any() != above.any():
            return True
        turned = self.pattern.T.tocsr()
        if np.array_equal(turned.indptr, self.pattern.indptr) and np.array_equal(turned.indices, columns):
            return False
        i, j = [int(part[0]) for part in (self.pattern > turned).nonzero()]
        raise PatternError(
            f"{self.word}: the pattern in sparse= has ({i}, {j}) but not ({j}, {i}), and entries on both sides of "
            "the diagonal: pass pattern + pattern.T, or for one triangle scipy.sparse.tril(pattern)"
        )
