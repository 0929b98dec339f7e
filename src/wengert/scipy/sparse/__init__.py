"""``scipy.sparse`` with arrays that hold traced entries.

A sparse array made from traced values is a `SparseVar`: entries with row and column indices; duplicates are summed.
"""

import functools as _functools

import numpy as _np
import scipy.sparse as _scipy

from wengert.core import levels as _levels
from wengert.core.dispatch import sparse_arrays as _arrays
from wengert.core.dispatch.dispatch import from_list as _from_list
from wengert.core.dispatch.lifted import Lifted as _Lifted
from wengert.core.operands.var import plain as _plain
from wengert.scipy import namespace as _namespace
from wengert.scipy.sparse.traced import holds_traced as _holds_traced
from wengert.scipy.sparse.traced import if_traced as _if_traced


class _Class:
    """Replaces a sparse array class in calls: traced entries give a `SparseVar`.

    Within a derivative, so do the assembly formats LIL and DOK, whose elements may be assigned traced values.
    """

    def __init__(self, cls):
        self._wengert_of = cls
        self.__name__ = cls.__name__

    def __call__(self, *args, **options):
        if _levels.lifted_by():
            args, options = _without_lifted(args), {name: _without_lifted(x) for name, x in options.items()}
        if _holds_traced((*args, *options.values())):
            return _made(self._wengert_of, *args, **options)
        plain = self._wengert_of(*args, **options)
        if self.__name__[:3] in ("lil", "dok") and plain.ndim == 2 and (_levels.is_tracing() or _levels.lifted_by()):
            return _arrays.SparseVar(*_arrays.entries_of(plain), plain.shape, self._wengert_of)
        return plain

    def __getattr__(self, name):
        return getattr(self._wengert_of, name)

    def __instancecheck__(self, x):
        return isinstance(x, self._wengert_of)


def _without_lifted(x):
    """Replace constants created while Taylor series or batches run by plain arrays; other such values raise."""
    if isinstance(x, _Lifted):
        return x._as_constant("a sparse array")
    return type(x)(map(_without_lifted, x)) if type(x) in (list, tuple) else x


def _made(cls, arg1, shape=None, dtype=None, copy=False, blocksize=None, *, maxprint=None):
    """Construct a sparse array from any argument that the constructor of `cls` accepts."""
    entries, row, col, shape = _parts(cls, arg1, shape)
    entries = entries * 1.0 if dtype is None else entries.astype(dtype)
    found = _arrays.made(entries, row, col, shape, cls)
    if cls.__name__[:3] in ("csr", "csc") and not (isinstance(arg1, tuple) and len(arg1) == 3):
        found.sum_duplicates()
    return found


def _parts(cls, arg1, shape):
    """Return the entries, indices and shape that a constructor's argument describes."""
    if type(arg1) is _arrays.SparseVar or _scipy.issparse(arg1):
        return *_arrays.entries_of(arg1), arg1.shape
    if not isinstance(arg1, tuple):
        dense = _from_list(arg1)
        if _np.ndim(dense) < 2 and (_np.ndim(dense) == 0 or not issubclass(cls, _scipy.coo_array)):
            dense = _np.reshape(dense, (1, -1))
        row, col = map(_np.ravel, _np.indices(_np.shape(_np.atleast_2d(_np.empty(_np.shape(dense))))))
        return _np.ravel(dense), row, col, _np.shape(dense)
    data, *places = arg1
    data = _from_list(data)
    format = cls.__name__[:3]
    if format == "dia":
        return _of_diagonals(data, *places, shape)
    if len(places) == 1:
        row, col = (_np.asarray(x) for x in places[0])
        return data, row, col, (int(row.max()) + 1, int(col.max()) + 1) if shape is None else _sizes(shape)
    inner, pointers = map(_np.asarray, places)
    if format == "bsr":
        return _of_blocks(data, inner, pointers, shape)
    outer = _np.repeat(_np.arange(len(pointers) - 1), _np.diff(pointers))
    sizes = len(pointers) - 1, int(inner.max()) + 1
    if format == "csc":
        return data, inner, outer, sizes[::-1] if shape is None else _sizes(shape)
    return data, outer, inner, sizes if shape is None else _sizes(shape)


def _sizes(shape):
    return tuple(map(int, shape))


def _of_diagonals(data, offsets, shape):
    """Return entries, indices and shape of a matrix whose k-th diagonal has ``data[k, j]`` in column j."""
    data, offsets = _np.atleast_2d(data), _np.atleast_1d(offsets)
    if shape is None:
        raise ValueError("expected a shape argument")
    m, n = _sizes(shape)
    k, col = map(_np.ravel, _np.indices((len(offsets), min(n, _np.shape(data)[1]))))
    row = col - offsets[k]
    on = (0 <= row) & (row < m)
    return data[k[on], col[on]], row[on], col[on], (m, n)


def _of_blocks(data, inner, pointers, shape):
    _, height, width = _np.shape(data)
    outer = _np.repeat(_np.arange(len(pointers) - 1), _np.diff(pointers))
    block, i, j = map(_np.ravel, _np.indices(_np.shape(data)))
    sizes = (len(pointers) - 1) * height, (int(inner.max()) + 1) * width
    return (
        _np.ravel(data),
        outer[block] * height + i,
        inner[block] * width + j,
        sizes if shape is None else _sizes(shape),
    )


for _name in (
    "bsr_array bsr_matrix coo_array coo_matrix csc_array csc_matrix csr_array csr_matrix dia_array dia_matrix "
    "dok_array dok_matrix lil_array lil_matrix"
).split():
    globals()[_name] = _Class(getattr(_scipy, _name))


def _joined(parts, shape, like, format=None, default="coo", dtype=None):
    """Assemble a sparse array from blocks, each with the indices of its first row and column.

    It is an array, rather than a matrix, if `like` says so.
    """
    found = [(entries, row + i, col + j) for (entries, row, col), i, j in parts]
    entries, row, col = (_np.concatenate(x) for x in zip(*found, strict=True))
    if dtype is not None:
        entries = entries.astype(dtype)
    kind = _arrays.class_of_format(format or default, like)
    if kind.__name__[:3] not in ("csr", "csc"):
        return _arrays.made(entries, row, col, shape, kind)
    return _arrays.made(entries, row, col, shape, _arrays.class_of_format("coo", like)).asformat(kind.__name__[:3])


def _as_entries(block):
    """Return the entries, indices and shape of a sparse or dense block."""
    if type(block) is _arrays.SparseVar or _scipy.issparse(block):
        return _arrays.entries_of(block), block.shape
    block = _np.atleast_2d(_from_list(block))
    row, col = map(_np.ravel, _np.indices(_np.shape(block)))
    return (_np.ravel(block), row, col), _np.shape(block)


def _has_array(blocks):
    """Return whether a block is a sparse array, so that SciPy joins the blocks to an array, not a matrix."""
    return any(isinstance(x, _scipy.sparray) for x in blocks)


def _diagonals(diagonals, offsets, shape, is_array, format, dtype):
    diagonals = [_from_list(d) for d in diagonals] if isinstance(diagonals, (list, tuple)) else diagonals
    if not _np.ndim(offsets):
        offsets = [offsets]
        diagonals = [diagonals] if _np.ndim(diagonals) == 1 or not isinstance(diagonals, (list, tuple)) else diagonals
    if isinstance(diagonals, (list, tuple)) and len(offsets) == 1 and all(_np.ndim(d) == 0 for d in diagonals):
        diagonals = [_from_list(diagonals)]
    if len(diagonals) != len(offsets):
        raise ValueError("Different number of diagonals and offsets.")
    if shape is None:
        n = _np.size(diagonals[0]) + abs(int(offsets[0]))
        shape = (n, n)
    parts = []
    for d, k in zip(diagonals, map(int, offsets), strict=True):
        length = min(shape[0] + min(k, 0), shape[1] - max(k, 0))
        if _np.size(d) not in (1, length) or length <= 0:
            raise ValueError(
                f"Diagonal length (size {_np.size(d)} at offset {k}) does not agree with array size {shape}"
            )
        places = _np.arange(length)
        entries = _np.broadcast_to(_np.reshape(d, -1), length)
        parts.append(((entries * 1.0, places + max(-k, 0), places + max(k, 0)), 0, 0))
    return _joined(parts, _sizes(shape), is_array, format, "dia", dtype)


@_if_traced(_scipy)
def diags(diagonals, offsets=0, shape=None, format=None, dtype=None):
    return _diagonals(diagonals, offsets, shape, False, format, dtype)


@_if_traced(_scipy)
def diags_array(diagonals, /, *, offsets=0, shape=None, format=None, dtype=None):
    return _diagonals(diagonals, offsets, shape, True, format, dtype)


@_if_traced(_scipy)
def spdiags(data, diags, m=None, n=None, format=None):
    entries, row, col, shape = _of_diagonals(_from_list(data), diags, m if n is None else (m, n))
    return _joined([((entries * 1.0, row, col), 0, 0)], shape, False, format, "dia")


@_if_traced(_scipy)
def kron(A, B, format=None):
    (a, i, j), of_a = _as_entries(A)
    (b, k, l), of_b = _as_entries(B)
    row, col = (i[:, None] * of_b[0] + k).ravel(), (j[:, None] * of_b[1] + l).ravel()
    entries = _np.ravel(_np.reshape(a, (-1, 1)) * b)
    return _joined([((entries, row, col), 0, 0)], (of_a[0] * of_b[0], of_a[1] * of_b[1]), _has_array((A, B)), format)


@_if_traced(_scipy)
def kronsum(A, B, format=None):
    I_m, I_n = (_scipy.eye_array(x.shape[0]) for x in (A, B))
    return (kron(I_n, A, "coo") + kron(B, I_m, "coo")).asformat(format)


def _blocks(blocks, format, dtype):
    rows = [[None if block is None else _as_entries(block) for block in line] for line in blocks]
    heights = [next(block[1][0] for block in line if block is not None) for line in rows]
    widths = [next(line[j][1][1] for line in rows if line[j] is not None) for j in range(len(rows[0]))]
    for i, line in enumerate(rows):
        for j, block in enumerate(line):
            needed = heights[i], widths[j]
            if block is not None and block[1] != needed:
                raise ValueError(f"blocks[{i},{j}] has incompatible dimensions {block[1]}, not {needed}")
    tops, lefts = _np.cumsum([0, *heights]), _np.cumsum([0, *widths])
    places = [(i, j) for i, line in enumerate(rows) for j, block in enumerate(line) if block is not None]
    parts = [(rows[i][j][0], tops[i], lefts[j]) for i, j in places]
    shape, is_array = (int(tops[-1]), int(lefts[-1])), _has_array(block for line in blocks for block in line)
    return _joined(parts, shape, is_array, format, dtype=dtype)


@_if_traced(_scipy)
def block_array(blocks, *, format=None, dtype=None):
    found = _blocks(blocks, format, dtype)
    return _arrays.SparseVar(*found.triplets, found.shape, _arrays.class_of_format(found.format, True))


@_if_traced(_scipy)
def bmat(blocks, format=None, dtype=None):
    return _blocks(blocks, format, dtype)


@_if_traced(_scipy)
def hstack(blocks, format=None, dtype=None):
    return _blocks([list(blocks)], format, dtype)


@_if_traced(_scipy)
def vstack(blocks, format=None, dtype=None):
    return _blocks([[block] for block in blocks], format, dtype)


@_if_traced(_scipy)
def block_diag(mats, format=None, dtype=None):
    mats = [*mats]
    parts = [_as_entries(block) for block in mats]
    tops, lefts = (_np.cumsum([0, *[shape[axis] for _, shape in parts]]) for axis in (0, 1))
    moved = [(entries, tops[i], lefts[i]) for i, (entries, _) in enumerate(parts)]
    return _joined(moved, (int(tops[-1]), int(lefts[-1])), _has_array(mats), format, dtype=dtype)


@_if_traced(_scipy)
def find(A):
    A = A if type(A) is _arrays.SparseVar else _made(_scipy.coo_array, A)
    A = A.tocsr()
    return *A.nonzero(), A.data[_np.asarray(_plain(A.data)) != 0]


def _triangle(A, keep, format):
    (entries, row, col), shape = _as_entries(A)
    chosen = keep(col - row)
    return _joined([((entries[chosen], row[chosen], col[chosen]), 0, 0)], shape, _has_array([A]), format)


@_if_traced(_scipy)
def tril(A, k=0, format=None):
    return _triangle(A, lambda offset: offset <= k, format)


@_if_traced(_scipy)
def triu(A, k=0, format=None):
    return _triangle(A, lambda offset: offset >= k, format)


@_functools.wraps(_scipy.issparse)
def issparse(x):
    return type(x) is _arrays.SparseVar or _scipy.issparse(x)


#: functions without a rule, which refuse traced values themselves
_PLAIN = frozenset(
    "SparseEfficiencyWarning SparseWarning eye eye_array expand_dims get_index_dtype identity isspmatrix "
    "isspmatrix_bsr isspmatrix_coo isspmatrix_csc isspmatrix_csr isspmatrix_dia isspmatrix_dok isspmatrix_lil "
    "linalg load_npz matrix_transpose permute_dims rand random random_array safely_cast_index_arrays "
    "save_npz sparray spmatrix swapaxes".split()
)

from wengert.scipy.sparse import csgraph, linalg  # noqa: E402, F401

_namespace.install("sparse")
