"""``scipy.sparse`` with arrays that hold traced entries.

A sparse array made from traced values is a `SparseVar`: entries with row and column indices; duplicates are summed.
"""

from __future__ import annotations

import functools as _functools

import numpy as _np
import scipy.sparse as _scipy

from wengert.core.dispatch.matrices import SparseVar as _SparseVar
from wengert.core.dispatch.matrices import _entries_of
from wengert.core.frames import at as _at
from wengert.errors import UnsupportedFunctionError as _UnsupportedFunctionError
from wengert.scipy import namespace as _namespace
from wengert.scipy.sparse.traced import array as _array
from wengert.scipy.sparse.traced import holds_traced as _holds_traced
from wengert.scipy.sparse.traced import if_traced as _if_traced


class _Class:
    """Replaces a sparse array class in calls: traced entries give a `SparseVar`."""

    def __init__(self, cls):
        self._wengert_of = cls
        self.__name__ = cls.__name__

    def __call__(self, *args, **options):
        if not _holds_traced(args):
            return self._wengert_of(*args, **options)
        return _made(self._wengert_of, *args, **options)

    def __getattr__(self, name):
        return getattr(self._wengert_of, name)

    def __instancecheck__(self, x):
        return isinstance(x, self._wengert_of)


def _made(cls, arg1, shape=None, dtype=None, copy=False, **options):
    """Construct a sparse array from any argument that the constructor of `cls` accepts."""
    if type(arg1) is _SparseVar:
        return _SparseVar(*_entries_of(arg1), arg1.shape, cls)
    if not isinstance(arg1, tuple):
        dense = arg1 if _np.ndim(arg1) == 2 else _np.reshape(arg1, (1, -1))
        row, col = map(_np.ravel, _np.indices(_np.shape(dense)))
        return _SparseVar(_np.ravel(dense), row, col, _np.shape(dense), cls)
    if cls.__name__.startswith(("dia", "bsr", "dok", "lil")):
        raise _UnsupportedFunctionError(
            f"scipy.sparse.{cls.__name__} of traced entries has no rule{_at()}: use coo_array((data, (i, j)))"
        )
    data = _array(arg1[0])
    if len(arg1) == 2:
        row, col = (_np.asarray(x) for x in arg1[1])
        shape = (int(row.max()) + 1, int(col.max()) + 1) if shape is None else shape
    else:
        _, inner, pointers = (None, *map(_np.asarray, arg1[1:]))
        outer = _np.repeat(_np.arange(len(pointers) - 1), _np.diff(pointers))
        row, col = (outer, inner) if cls.__name__.startswith("csr") else (inner, outer)
        if shape is None:
            sizes = len(pointers) - 1, int(inner.max()) + 1
            shape = sizes if cls.__name__.startswith("csr") else sizes[::-1]
    return _SparseVar(data * 1.0, row, col, tuple(map(int, shape)), cls)


for _name in (
    "bsr_array bsr_matrix coo_array coo_matrix csc_array csc_matrix csr_array csr_matrix dia_array dia_matrix "
    "dok_array dok_matrix lil_array lil_matrix"
).split():
    globals()[_name] = _Class(getattr(_scipy, _name))


def _joined(parts, shape, cls):
    """Assemble a sparse array from blocks, each with the indices of its first row and column."""
    found = [(entries, row + i, col + j) for (entries, row, col), i, j in parts]
    entries, row, col = (_np.concatenate(x) for x in zip(*found, strict=True))
    return _SparseVar(entries, row, col, shape, cls)


def _as_entries(block):
    """Return the entries, indices and shape of a sparse or dense block."""
    if type(block) is _SparseVar or _scipy.issparse(block):
        return _entries_of(block), block.shape
    block = _np.atleast_2d(_array(block))
    row, col = map(_np.ravel, _np.indices(_np.shape(block)))
    return (_np.ravel(block), row, col), _np.shape(block)


def _diagonals(diagonals, offsets, shape, cls):
    diagonals = [_array(d) for d in diagonals] if isinstance(diagonals, (list, tuple)) else diagonals
    if not _np.ndim(offsets):
        offsets = [offsets]
        diagonals = [diagonals] if _np.ndim(diagonals) == 1 or not isinstance(diagonals, (list, tuple)) else diagonals
    if isinstance(diagonals, (list, tuple)) and len(offsets) == 1 and all(_np.ndim(d) == 0 for d in diagonals):
        diagonals = [_array(diagonals)]
    if shape is None:
        n = _np.shape(diagonals[0])[0] + abs(int(offsets[0]))
        shape = (n, n)
    parts = []
    for d, k in zip(diagonals, offsets, strict=True):
        length = min(shape[0] + min(k, 0), shape[1] - max(k, 0))
        places = _np.arange(length)
        entries = _np.broadcast_to(_np.reshape(d, -1), length) if _np.size(d) == 1 else d[:length]
        parts.append(((entries * 1.0, places + max(-k, 0), places + max(k, 0)), 0, 0))
    return _joined(parts, tuple(shape), cls)


@_if_traced(_scipy)
def diags(diagonals, offsets=0, shape=None, format=None, dtype=None):
    return _diagonals(diagonals, offsets, shape, _scipy.dia_matrix)


@_if_traced(_scipy)
def diags_array(diagonals, /, *, offsets=0, shape=None, format=None, dtype=None):
    return _diagonals(diagonals, offsets, shape, _scipy.dia_array)


@_if_traced(_scipy)
def kron(A, B, format=None):
    (a, i, j), of_a = _as_entries(A)
    (b, k, l), of_b = _as_entries(B)
    row, col = (i[:, None] * of_b[0] + k).ravel(), (j[:, None] * of_b[1] + l).ravel()
    return _SparseVar(_np.ravel(a[:, None] * b), row, col, (of_a[0] * of_b[0], of_a[1] * of_b[1]), _scipy.csr_array)


def _blocks(blocks):
    rows = [[None if block is None else _as_entries(block) for block in line] for line in blocks]
    heights = [next(block[1][0] for block in line if block is not None) for line in rows]
    widths = [next(line[j][1][1] for line in rows if line[j] is not None) for j in range(len(rows[0]))]
    tops, lefts = _np.cumsum([0, *heights]), _np.cumsum([0, *widths])
    places = [(i, j) for i, line in enumerate(rows) for j, block in enumerate(line) if block is not None]
    parts = [(rows[i][j][0], tops[i], lefts[j]) for i, j in places]
    return _joined(parts, (int(tops[-1]), int(lefts[-1])), _scipy.coo_array)


@_if_traced(_scipy)
def block_array(blocks, *, format=None, dtype=None):
    return _blocks(blocks)


@_if_traced(_scipy)
def bmat(blocks, format=None, dtype=None):
    return _blocks(blocks)


@_if_traced(_scipy)
def hstack(blocks, format=None, dtype=None):
    return _blocks([list(blocks)])


@_if_traced(_scipy)
def vstack(blocks, format=None, dtype=None):
    return _blocks([[block] for block in blocks])


@_if_traced(_scipy)
def block_diag(mats, format=None, dtype=None):
    parts = [_as_entries(block) for block in mats]
    tops, lefts = (_np.cumsum([0, *[shape[axis] for _, shape in parts]]) for axis in (0, 1))
    moved = [(entries, tops[i], lefts[i]) for i, (entries, _) in enumerate(parts)]
    return _joined(moved, (int(tops[-1]), int(lefts[-1])), _scipy.coo_array)


def _triangle(A, keep):
    entries, row, col = _entries_of(A)
    chosen = keep(col - row)
    return _SparseVar(entries[chosen], row[chosen], col[chosen], A.shape, _scipy.coo_array)


@_if_traced(_scipy)
def tril(A, k=0, format=None):
    return _triangle(A, lambda offset: offset <= k)


@_if_traced(_scipy)
def triu(A, k=0, format=None):
    return _triangle(A, lambda offset: offset >= k)


@_functools.wraps(_scipy.issparse)
def issparse(x):
    return type(x) is _SparseVar or _scipy.issparse(x)


#: functions without a rule, which refuse traced values themselves
_PLAIN = frozenset(
    "SparseEfficiencyWarning SparseWarning csgraph eye eye_array expand_dims find get_index_dtype identity isspmatrix "
    "isspmatrix_bsr isspmatrix_coo isspmatrix_csc isspmatrix_csr isspmatrix_dia isspmatrix_dok isspmatrix_lil kronsum "
    "linalg load_npz matrix_power matrix_transpose permute_dims rand random random_array safely_cast_index_arrays "
    "save_npz sparray spdiags spmatrix swapaxes".split()
)

from wengert.scipy.sparse import linalg  # noqa: E402, F401

_namespace.install("sparse")
