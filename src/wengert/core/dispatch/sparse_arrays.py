"""Sparse arrays with traced entries."""

from __future__ import annotations

import functools
import operator
import sys

import numpy as np

from wengert.core.dispatch import dispatch
from wengert.core.dispatch.checks import refusal
from wengert.core.dispatch.sparse_callers import is_class_test, is_sparse_code
from wengert.core.dispatch.sparse_product import check_product, is_sparse, summation_matrix, times
from wengert.core.dispatch.traced_matrix import TracedMatrix
from wengert.core.frames import at
from wengert.core.messages import sparse_message
from wengert.core.operands import var
from wengert.errors import UnsupportedFunctionError


def multiply_entries(matrix, x):
    """Return ``A.multiply(x)`` for a traced `x`, as a `SparseVar` with the nonzeros of `A`."""
    shape = np.shape(x)
    if matrix.ndim != 2 or len(shape) > 2 or np.broadcast_shapes(matrix.shape, shape) != matrix.shape:
        raise UnsupportedFunctionError(
            f"the elementwise product of a sparse array of shape {matrix.shape} and a traced array of shape {shape}"
            f"{at()}: the first must be a matrix, and the second must broadcast to its shape; make the sparse array A "
            "dense with A.toarray()"
        )
    coo = matrix.tocoo()
    factor = np.broadcast_to(x, matrix.shape)[coo.row, coo.col] if shape else x
    cls_ = _result_class(_multiplication_by(shape), type(matrix))
    return SparseVar(coo.data * factor, coo.row, coo.col, matrix.shape, cls_)


def _multiplication_by(shape):
    """Return the key in `_SAMPLE_OPERATIONS` for multiplication by an operand of this shape."""
    if not shape:
        return "scaled"
    return "by a row" if len(shape) == 1 or shape[0] == 1 else "by a column" if shape[1] == 1 else "by a matrix"


_SAMPLE_OPERATIONS = {
    "scaled": lambda a: a * 2.0,
    "by a row": lambda a: a.multiply(np.ones((1, 2))),
    "by a column": lambda a: a.multiply(np.ones((2, 1))),
    "by a matrix": lambda a: a.multiply(np.ones((2, 2))),
    "multiplied": lambda a, b: a.multiply(b),
    "added": lambda a, b: a + b,
    "subtracted": lambda a, b: a - b,
    "product": lambda a, b: a @ b,
    "negative": lambda a: -a,
    "transpose": lambda a: a.T,
}


@functools.cache
def _result_class(operation, *classes):
    """Return the class of SciPy's result of an operation on sparse arrays of the given classes."""
    return type(_SAMPLE_OPERATIONS[operation](*[cls_(np.eye(2)) for cls_ in classes]))


def class_of_format(format: str, is_array: bool) -> type:
    """Return the class of sparse arrays, or else of sparse matrices, of a format."""
    return getattr(sys.modules["scipy.sparse"], f"{format}_{'array' if is_array else 'matrix'}")


def entries_of(matrix):
    """Return the entries of a sparse array and their row and column indices."""
    if type(matrix) is SparseVar:
        return matrix.triplets
    coo = matrix.reshape(1, -1).tocoo() if matrix.ndim == 1 else matrix.tocoo()
    return coo.data, coo.row, coo.col


def class_of(matrix):
    """Return the class of a sparse array with traced or untraced entries."""
    return matrix.cls if type(matrix) is SparseVar else type(matrix)


def made(entries, row, col, shape, cls_):
    """Return a sparse array of these entries: SciPy's own class unless they are traced."""
    if var.holds_traced(entries) or not isinstance(entries, np.ndarray):
        return SparseVar(entries, row, col, shape, cls_)
    coo = sys.modules["scipy.sparse"].coo_array
    found = coo((entries, (row, col)), shape=shape)
    return cls_(found if len(shape) == 2 else found.reshape(shape))


#: methods of sparse arrays that apply a function f with f(0) = 0 to each element
_ELEMENTWISE = frozenset(
    "arcsin arcsinh arctan arctanh ceil deg2rad expm1 floor log1p rad2deg rint sign sin sinh sqrt tan tanh "
    "trunc".split()
)
#: methods that only change how the entries are stored
_STORAGE = frozenset("check_format eliminate_zeros prune sort_indices sum_duplicates".split())


class SparseVar:
    """A sparse array with traced entries, such as the product of a constant sparse array and a traced value.

    ``__class__`` is the class that SciPy would return, except when SciPy's own operators test it.
    Reading an unsupported attribute raises an error that says what to use instead.

    Parameters
    ----------
    entries : array of shape (nnz,)
        Values of the entries; entries with equal indices add up.
    row, col : array of int of shape (nnz,)
        Indices of the entries; the entries of a vector are in row 0.
    shape : tuple of int
        Shape of the matrix or vector.
    cls_ : type
        The SciPy class that it stands for.
    """

    __slots__ = ("_col", "_entries", "_pending", "_row", "cls", "shape")
    __array_ufunc__ = None

    def __init__(self, entries, row, col, shape, cls_):
        self._entries = entries
        self._row = row
        self._col = col
        self._pending = {}
        self.shape = shape
        self.cls = cls_

    # ---- class and storage

    @property
    def __class__(self):
        return SparseVar if is_class_test(2) else self.cls

    @property
    def _is_array(self):
        return issubclass(self.cls, sys.modules["scipy.sparse"].sparray)

    def __getattr__(self, name):
        if not (name.startswith("__") or var.holds_traced(self.triplets[0])):
            return getattr(self._untraced(), name)  # such as the rows of a list of lists
        if name in _ELEMENTWISE:
            return functools.partial(self._elementwise, getattr(np, name))
        if name in _STORAGE:
            return functools.partial(self._canonical, name)
        if name.startswith("__"):
            raise AttributeError(name)
        if sys._getframe(1).f_globals.get("__name__", "").startswith("scipy."):  # SciPy code that is not traced
            raise refusal(self._entries, sparse_message())
        raise UnsupportedFunctionError(
            f"the attribute '{name}' of a sparse array A with traced entries is not supported{at()}: use "
            "A.toarray(), or products A @ x"
        )

    def __array__(self, dtype=None, copy=None):
        caller = sys._getframe(1)
        if is_sparse_code(caller) and caller.f_code.co_name == "_matmul_dispatch":
            return np.array(None, dtype=object)  # the product defers to `__rmatmul__`
        entries = self.triplets[0]
        if var.is_traced(entries) and not var.is_passive(entries):
            raise refusal(entries, sparse_message())
        return np.asarray(self.toarray(), dtype=dtype)

    def __repr__(self):
        return f"<traced sparse array of shape {self.shape} with {self.nnz} nonzeros>"

    @property
    def triplets(self):
        """Entries and their row and column indices."""
        if self._pending:
            places, values = zip(*self._pending.items(), strict=True)
            self._pending = {}
            self._store(np.array(places, dtype=np.intp), dispatch.stacked(list(values)))
        return self._entries, self._row, self._col

    def _changed(self, entries, row, col):
        self._entries, self._row, self._col = entries, row, col

    @property
    def _grid(self):
        """Numbers of rows and columns; a vector is a row."""
        return self.shape if len(self.shape) == 2 else (1, *self.shape)

    @property
    def ndim(self):
        return len(self.shape)

    @property
    def dtype(self):
        return self.triplets[0].dtype

    @property
    def format(self):
        return self.cls((1, 1)).format

    @property
    def nnz(self):
        return len(self.triplets[1])

    @property
    def size(self):
        return self.nnz

    def getnnz(self, axis=None):
        return self._pattern().getnnz(axis) if axis is not None else self.nnz

    def _pattern(self):
        """Return a COO array of ones at the entries."""
        coo = sys.modules["scipy.sparse"].coo_array
        return coo((np.ones(self.nnz), self.triplets[1:]), shape=self._grid)

    def _ordered(self, by_columns=False):
        """Return the entries without duplicates, ordered by rows or by columns, and their row and column indices."""
        entries, row, col = self.triplets
        m, n = self._grid
        places = col.astype(np.intp) * m + row if by_columns else row.astype(np.intp) * n + col
        if np.all(places[1:] > places[:-1]):
            return entries, row, col
        unique, inverse = np.unique(places, return_inverse=True)
        if len(unique) == len(places):
            entries = entries[np.argsort(inverse)]
        else:
            entries = times(entries, summation_matrix(inverse, len(unique)))
        return (entries, unique % m, unique // m) if by_columns else (entries, unique // n, unique % n)

    def _canonical(self, name, *args):
        """Sort the entries and sum duplicates in place; entries that are 0 stay, since their derivative may not be."""
        self._changed(*self._ordered(self.format == "csc"))

    def _untraced(self):
        """Return a SciPy array of the entries, which must not be traced."""
        return made(*self.triplets, self.shape, self.cls)

    def _compressed(self):
        """Return the entries and indices as CSR, CSC and COO arrays store them."""
        if self.format not in ("csr", "csc", "coo"):
            raise UnsupportedFunctionError(
                f"the storage of a sparse array of format '{self.format}' with traced entries is not accessible{at()}: "
                "convert it with A.tocsr()"
            )
        return self.triplets

    @property
    def data(self):
        if self.format == "lil" and not var.holds_traced(self.triplets[0]):
            return self._untraced().data
        return self._compressed()[0]

    @data.setter
    def data(self, values):
        entries, row, col = self._compressed()
        self._changed(values if np.shape(values) == np.shape(entries) else np.broadcast_to(values, row.shape), row, col)

    @property
    def row(self):
        return self._compressed()[1]

    @property
    def col(self):
        return self._compressed()[2]

    @property
    def coords(self):
        return self._compressed()[-self.ndim :]

    @property
    def indices(self):
        _, row, col = self._compressed()
        return (row if self.format == "csc" else col).astype(np.int32)

    @property
    def indptr(self):
        _, row, col = self._compressed()
        outer, count = (col, self._grid[1]) if self.format == "csc" else (row, self._grid[0])
        return np.concatenate([[0], np.cumsum(np.bincount(outer, minlength=count))]).astype(np.int32)

    # ---- conversions

    def _like(self, entries, operation, *others):
        _, row, col = self.triplets
        return made(entries, row, col, self.shape, _result_class(operation, self.cls, *map(class_of, others)))

    def _as(self, format, copy=False):
        if format == self.format and var.holds_traced(self.triplets[0]):
            return self.copy() if copy else self
        parts = self._ordered(format == "csc") if format in ("csr", "csc") else self.triplets
        return made(*parts, self.shape, class_of_format(format, self._is_array))

    def asformat(self, format, copy=False):
        return self._as(self.format if format is None else format, copy)

    tocsr, tocsc, tolil, todok, todia = map(functools.partialmethod, [_as] * 5, ["csr", "csc", "lil", "dok", "dia"])

    def tocoo(self, copy=True):
        return self._as("coo", copy)

    def tobsr(self, blocksize=None, copy=False):
        return self._as("bsr", copy)

    def copy(self):
        entries, row, col = self.triplets
        return SparseVar(entries.copy(), row, col, self.shape, self.cls)

    def astype(self, dtype, casting="unsafe", copy=True):
        return self._with(lambda entries: entries.astype(dtype))

    def toarray(self, order=None, out=None):
        if out is not None:
            raise UnsupportedFunctionError(f"toarray(out=) of traced entries is not supported{at()}: assign the result")
        m, n = self._grid
        entries, row, col = self.triplets
        return np.reshape(times(entries, summation_matrix(row.astype(np.intp) * n + col, m * n)), self.shape)

    def todense(self, order=None, out=None):
        found = self.toarray(order, out)
        return found if self._is_array else TracedMatrix(found)

    @property
    def T(self):
        return self.transpose()

    mT = T

    def transpose(self, axes=None, copy=False):
        if self.ndim == 1:
            return self
        entries, row, col = self.triplets
        return made(entries, col, row, self.shape[::-1], _result_class("transpose", self.cls))

    def reshape(self, *shape, order="C", copy=False):
        shape = tuple(shape[0]) if len(shape) == 1 and np.ndim(shape[0]) else shape
        if order != "C" or len(shape) > 2:
            raise UnsupportedFunctionError(
                f"reshape of a sparse array with traced entries needs order='C' and a vector or matrix{at()}"
            )
        shape = np.empty(self.shape, bool).reshape(shape).shape
        entries, row, col = self.triplets
        places = row.astype(np.intp) * self._grid[1] + col
        return made(entries, places // shape[-1], places % shape[-1], shape, self._matrix_class(len(shape)))

    def _matrix_class(self, ndim):
        if ndim == 1 and self.format not in ("coo", "csr", "dok"):
            return class_of_format("coo", self._is_array)
        return self.cls

    # ---- elements

    def __getitem__(self, key):
        """Return an element, or the submatrix of an index that SciPy accepts."""
        if isinstance(key, tuple) and len(key) == 2 and all(isinstance(k, (int, np.integer)) for k in key):
            return self._element(*map(operator.index, key))
        entries, row, col = self._ordered()
        source = sys.modules["scipy.sparse"].csr_array if self._is_array else sys.modules["scipy.sparse"].csr_matrix
        numbers = source((np.arange(1.0, len(row) + 1), (row, col)), shape=self._grid)
        numbers = (numbers.reshape(self.shape) if self.ndim == 1 else numbers)[key]
        if not np.ndim(numbers):
            return entries[int(numbers) - 1] if numbers else np.zeros((), self.dtype)[()]
        chosen = numbers.tocoo()
        row, col = (chosen.row, chosen.col) if numbers.ndim == 2 else (np.zeros(chosen.nnz, np.intp), chosen.coords[0])
        cls_ = self._matrix_class(numbers.ndim)
        return SparseVar(entries[chosen.data.astype(int) - 1], row, col, chosen.shape, cls_)

    def _element(self, i, j):
        place = self._place(i, j)
        if place in self._pending:
            return self._pending[place]
        found = np.flatnonzero((self._row == place // self._grid[1]) & (self._col == place % self._grid[1]))
        return np.sum(self._entries[found]) if len(found) else np.zeros((), self._entries.dtype)[()]

    def _place(self, i, j):
        """Return the row-major index of an element."""
        m, n = self._grid
        if not (-m <= i < m and -n <= j < n):
            raise IndexError(f"index ({i}, {j}) is out of bounds for a sparse array of shape {self.shape}")
        return (i % m) * n + j % n

    def __setitem__(self, key, value):
        """Assign one element, or the elements selected by slices and index arrays."""
        m, n = self._grid
        i, j = key if isinstance(key, tuple) else (0, key) if self.ndim == 1 else (key, slice(None))
        if type(value) is SparseVar or is_sparse(value):
            value = value.toarray()
        elif isinstance(value, (list, tuple)):
            value = dispatch.stacked(value)
        is_element = all(isinstance(k, (int, np.integer)) for k in (i, j))
        if is_element and self._entries.dtype in (np.float64, np.complex128):
            self._pending[self._place(operator.index(i), operator.index(j))] = value
            return
        rows, cols = np.arange(m)[i], np.arange(n)[j]
        if isinstance(i, slice) or isinstance(j, slice):
            rows, cols = np.reshape(rows, (-1, 1)), np.reshape(cols, (1, -1))
        places = rows * n + cols
        self.triplets  # noqa: B018 stores pending elements
        self._store(np.ravel(places), np.ravel(np.broadcast_to(value, np.shape(places))))

    def _store(self, places, values):
        """Set the elements at row-major indices; of the values for a repeated index, the last one stays."""
        n = self._grid[1]
        last = len(places) - 1 - np.unique(places[::-1], return_index=True)[1]
        keep = ~np.isin(self._row.astype(np.intp) * n + self._col, places)
        places, values = places[last], self._cast(values[last])
        entries = np.concatenate([self._entries[keep], values])
        self._changed(entries, np.r_[self._row[keep], places // n], np.r_[self._col[keep], places % n])
        self._canonical("sort_indices")

    def _cast(self, values):
        """Convert values to the dtype of the entries; conversion to integers truncates."""
        dtype = self._entries.dtype
        if values.dtype.kind == "c" and dtype.kind != "c":
            raise TypeError(
                f"complex values cannot be stored in a sparse array of {dtype}{at()}: their imaginary part would be "
                "lost. Make it with dtype=complex"
            )
        return values if values.dtype == dtype else values.astype(dtype)

    def setdiag(self, values, k=0):
        m, n = self._grid
        length = min(m + min(k, 0), n - max(k, 0))
        if np.ndim(values):
            length = min(length, len(values))
            values = values[:length]
        on = np.arange(length)
        self[on + max(-k, 0), on + max(k, 0)] = values

    def getrow(self, i):
        return self[[i], :]

    def getcol(self, j):
        return self[:, [j]]

    def nonzero(self):
        entries, row, col = self.triplets
        kept = np.asarray(var.plain(entries)) != 0
        return (row[kept], col[kept])[-self.ndim :]

    def diagonal(self, k=0):
        entries, row, col = self.triplets
        on = col.astype(np.intp) - row == k
        length = max(min(self._grid[0] + min(k, 0), self._grid[1] - max(k, 0)), 0)
        return times(entries[on], summation_matrix(row[on] - max(-k, 0), length))

    def trace(self, offset=0):
        entries, row, col = self.triplets
        return np.sum(entries[col.astype(np.intp) - row == offset])

    # ---- functions of the elements

    def _with(self, fun):
        """Apply a function to the entries as they are stored."""
        entries, row, col = self.triplets
        return made(fun(entries), row, col, self.shape, self.cls)

    def _elementwise(self, fun):
        """Apply a function with fun(0) = 0 to the elements."""
        entries, row, col = self._ordered(self.format == "csc")
        return made(fun(entries), row, col, self.shape, self.cls)

    def power(self, n, dtype=None):
        return self._elementwise(lambda entries: entries**n)

    def __pow__(self, n):
        return self.power(n) if self._is_array else self._matrix_power(n)

    def _matrix_power(self, n):
        if not isinstance(n, (int, np.integer)) or n < 1:
            raise UnsupportedFunctionError(f"a power of a sparse matrix needs a positive integer exponent{at()}")
        return functools.reduce(operator.matmul, [self] * int(n))

    def __abs__(self):
        return self._elementwise(np.abs)

    def conjugate(self, copy=True):
        return self._with(np.conjugate)

    conj = conjugate

    @property
    def real(self):
        return self._with(np.real)

    @property
    def imag(self):
        return self._with(np.imag)

    # ---- sums and products

    def sum(self, axis=None, dtype=None, out=None):
        if axis is None or self.ndim == 1:
            return np.sum(self.triplets[0])
        if axis in (0, -2):
            found = self.T @ np.ones(self.shape[0], self.dtype)
            return found if self._is_array else TracedMatrix(found[None, :])
        found = self @ np.ones(self.shape[1], self.dtype)
        return found if self._is_array else TracedMatrix(found[:, None])

    def max(self, axis=None, out=None):
        return self._extremum(np.max, "max", axis)

    def min(self, axis=None, out=None):
        return self._extremum(np.min, "min", axis)

    def _extremum(self, fun, name, axis):
        if axis is not None:
            raise UnsupportedFunctionError(
                f"A.{name}(axis) of a sparse array with traced entries is not supported{at()}: write "
                f"A.toarray().{name}(axis)"
            )
        entries = self._ordered()[0]
        zero = np.zeros(int(np.shape(entries)[0] < np.prod(self.shape)))
        return fun(np.concatenate([entries, zero]))

    def mean(self, axis=None, dtype=None, out=None):
        count = np.prod(self.shape) if axis is None or self.ndim == 1 else self.shape[axis]
        total = self.sum(axis)
        return TracedMatrix(total.A / count) if type(total) is TracedMatrix else total / count

    def multiply(self, other):
        if type(other) is SparseVar or is_sparse(other):
            return self._multiplied_by_sparse(other)
        if np.broadcast_shapes(self.shape, np.shape(other)) != self.shape:
            raise UnsupportedFunctionError(
                f"the elementwise product of a sparse array of shape {self.shape} with traced entries and an array of "
                f"shape {np.shape(other)}{at()}: the second must broadcast to the shape of the first; make the sparse "
                "array A dense with A.toarray()"
            )
        entries, row, col = self.triplets
        factor = np.broadcast_to(other, self._grid)[row, col] if np.ndim(other) else other
        return self._like(entries * factor, _multiplication_by(np.shape(other)))

    def _multiplied_by_sparse(self, other):
        if 1 in other.shape and other.shape != self.shape:
            return self.multiply(other.toarray())
        if type(other) is not SparseVar:
            entries, row, col = self.triplets
            at_entries = other.reshape(1, -1) if other.ndim == 1 else other
            return self._like(entries * np.ravel(at_entries.tocsr()[row, col]), "multiplied", other)
        (a, row, col), (b, *others) = self._ordered(), other._ordered()
        places = [i.astype(np.intp) * self._grid[1] + j for i, j in ((row, col), others)]
        _, here, there = np.intersect1d(*places, assume_unique=True, return_indices=True)
        cls_ = _result_class("multiplied", self.cls, other.cls)
        return made(a[here] * b[there], row[here], col[here], self.shape, cls_)

    def dot(self, other):
        return self @ other if np.ndim(other) else self.multiply(other)

    def __matmul__(self, other):
        if type(other) is SparseVar or is_sparse(other):
            return _sparse_product(self, other)
        check_product(self, other)
        entries, row, col = self.triplets
        picked = other[col]
        found = times(
            (entries[:, None] if np.ndim(other) == 2 else entries) * picked, summation_matrix(row, self._grid[0])
        )
        return found if self.ndim == 2 else found[0]

    def __rmatmul__(self, other):
        if is_sparse(other):
            return _sparse_product(other, self)
        if self.ndim == 1:
            return other @ self.toarray()
        return np.transpose(self.T @ np.transpose(other))

    def __mul__(self, other):
        return self.multiply(other) if self._is_array or not np.ndim(other) else self @ other

    def __rmul__(self, other):
        if self._is_array or not np.ndim(other):
            return self.multiply(other)
        return _sparse_product(other, self) if is_sparse(other) else other @ self

    def __truediv__(self, other):
        return self.multiply(1 / other)

    def __neg__(self):
        return self._like(-self.triplets[0], "negative")

    def __add__(self, other):
        return self._sum(other, "added", self, other)

    def __radd__(self, other):
        if type(other) is int and other == 0:  # sum() starts with 0
            return self.copy()
        return self._sum(other, "added", other, self)

    def __sub__(self, other):
        return self._sum(-other, "subtracted", self, other)

    def __rsub__(self, other):
        return (-self)._sum(other, "subtracted", other, self)

    def _sum(self, other, operation, *operands):
        """Return the sum; for a sparse `other` the entries of both are concatenated (duplicates add up)."""
        if type(other) is not SparseVar and not is_sparse(other):
            if not np.ndim(other):
                raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
            return self.toarray() + other
        if other.shape != self.shape:
            raise ValueError("inconsistent shapes")
        parts = zip(self.triplets, entries_of(other), strict=True)
        whole = SparseVar(*map(np.concatenate, parts), self.shape, _result_class(operation, *map(class_of, operands)))
        whole._canonical("sum_duplicates")
        return whole


def _sparse_product(left, right):
    """Return the product of two sparse arrays as a sparse array; its entries sum products of pairs of entries."""
    if left.ndim == 1 or right.ndim == 1:
        return left @ right.toarray() if type(left) is SparseVar else left.toarray() @ right
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"matmul: dimension mismatch with signature ({left.shape} x {right.shape})")
    (a, i, k), (b, j, column) = entries_of(left), entries_of(right)
    order = np.argsort(j, kind="stable")
    count = np.bincount(j, minlength=right.shape[0])
    start = np.cumsum(count) - count
    repeats = count[k]
    first = np.repeat(np.arange(len(i)), repeats)
    within = np.arange(len(first)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    second = order[start[k][first] + within]
    cls_ = _result_class("product", class_of(left), class_of(right))
    whole = SparseVar(a[first] * b[second], i[first], column[second], (left.shape[0], right.shape[1]), cls_)
    whole._canonical("sum_duplicates")
    return whole
