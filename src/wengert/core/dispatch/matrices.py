"""Operators between SciPy sparse arrays and traced values.

SciPy's sparse operators defer to the other operand when NumPy cannot convert it to a numeric array. `array_for_scipy`
makes them defer to traced values, which then compute the result (`operate`).
The product of a constant sparse array and a traced vector or matrix is one linear primitive. A result whose nonzeros
are traced, such as ``A.multiply(x)``, is a `SparseVar`.
"""

from __future__ import annotations

import functools
import sys

import numpy as np

from wengert import registry
from wengert.core.dispatch import mixed
from wengert.core.dispatch.arguments import clean
from wengert.core.dispatch.checks import refusal
from wengert.core.dispatch.dispatch import apply
from wengert.core.frames import at
from wengert.core.messages import sparse_message
from wengert.core.operands import var
from wengert.dependence import Contraction
from wengert.errors import UnsupportedFunctionError
from wengert.registry import strong

#: largest dense array, in elements, that SciPy's ``multiply`` may allocate before it calls our ufunc override
MAX_DENSE_ELEMENTS = 10**8

#: functions through which SciPy tests the class of an operand; below, the sparse methods that call them
_CLASS_TESTS = frozenset("__instancecheck__ isscalar isscalarlike isdense issparse".split())
_MULTIPLY_METHODS = ("multiply", "_multiply_2d_with_broadcasting")
_OPERATOR_METHODS = frozenset(
    "__matmul__ __rmatmul__ _matmul_dispatch _rmatmul_dispatch dot __mul__ __rmul__ _mul_scalar __truediv__ _divide "
    "__add__ __radd__ __sub__ __rsub__".split()
).union(_MULTIPLY_METHODS)


def is_sparse(x) -> bool:
    """Return whether `x` is a SciPy sparse array or matrix with untraced entries. Never imports SciPy."""
    module = sys.modules.get("scipy.sparse")
    return module is not None and type(x) is not SparseVar and module.issparse(x)


# ---- answers to SciPy's sparse methods


def is_class_test(depth=1) -> bool:
    """Return whether a sparse operator is testing the class of its operand, `depth` Python frames up the stack."""
    frame = sys._getframe(depth)
    while frame is not None and frame.f_code.co_name in _CLASS_TESTS:
        frame = frame.f_back
    return _is_sparse_code(frame) and frame.f_code.co_name in _OPERATOR_METHODS


def _is_sparse_code(frame) -> bool:
    return frame is not None and frame.f_globals.get("__name__", "").startswith("scipy.sparse._")


def array_for_scipy(x, depth=1):
    """Return the array that a sparse method gets from ``np.asanyarray(x)``, or None for any other caller.

    An object array makes the method defer to `x`. `depth` is the number of Python frames between here and the caller.
    """
    frame = sys._getframe(depth)
    if not _is_sparse_code(frame):
        return None
    name = frame.f_code.co_name
    if name in ("_matmul_dispatch", "_divide"):
        return np.array(None, dtype=object)
    if name == "dot":
        return np.empty(x.shape)  # dot reads only the shape, and continues with x
    if name not in _MULTIPLY_METHODS:
        return None
    matrix = frame.f_locals["self"]
    while _is_sparse_code(frame) and frame.f_code.co_name in _MULTIPLY_METHODS:
        frame = frame.f_back
    is_operator = _is_sparse_code(frame)
    return np.array(None, dtype=object) if is_operator else _Factor(matrix, x)


class _Factor(np.ndarray):
    """Stands for `x` in ``A.multiply(x)``: SciPy passes arrays with three axes to ``np.multiply``, overridden here."""

    def __new__(cls, matrix, x):
        if matrix.ndim > 2 or np.prod(matrix.shape, dtype=float) > MAX_DENSE_ELEMENTS:
            raise UnsupportedFunctionError(
                f"A.multiply(x) of a sparse array of shape {matrix.shape} and a traced x would need a dense array"
                f"{at()}: write scipy.sparse.csr_array(A) * x"
            )
        made = np.zeros((1, 1, 1)).view(cls)
        made.operands = matrix, x
        return made

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return multiply_entries(*self.operands)


# ---- operators


def operate(fun, left, right):
    """Apply an operator to an operand and a sparse array; other types go on to `mixed.operate`."""
    is_left = is_sparse(left)
    if not is_left and not is_sparse(right):
        return mixed.operate(fun, left, right)
    matrix, x = (left, right) if is_left else (right, left)
    if fun is np.multiply and np.ndim(x) and not _is_array(matrix):
        fun = np.matmul  # for sparse matrices, * is the matrix product
    if fun is np.matmul:
        return clean(product(matrix, x) if is_left else _transposed_product(matrix, x))
    if fun is np.multiply:
        return multiply_entries(matrix, x)
    if fun is np.divide and is_left:
        return multiply_entries(matrix, 1 / x)
    if fun in (np.add, np.subtract) and np.ndim(x) and _is_array(matrix):
        return fun(matrix.toarray(), x) if is_left else fun(x, matrix.toarray())
    raise UnsupportedFunctionError(
        f"numpy.{fun.__name__} of a scipy.sparse.{type(matrix).__name__} and a traced value has no derivative rule"
        f"{at()}: make the sparse array A dense with A.toarray()"
    )


def _is_array(matrix) -> bool:
    return isinstance(matrix, sys.modules["scipy.sparse"].sparray)


def product(matrix, x):
    """Return ``A @ x`` for a sparse array and a vector or matrix."""
    _check_product(matrix, x)
    if matrix.ndim == 1:
        return times(x, _as_row_matrix(matrix))[0]
    return times(x, matrix)


def _transposed_product(matrix, x):
    """Return ``x @ A`` for a sparse array and a vector or matrix."""
    _check_product(matrix, x)
    if matrix.ndim == 1:
        return np.transpose(times(np.transpose(x), _as_row_matrix(matrix)))[..., 0]
    return np.transpose(times(np.transpose(x), matrix.transpose()))


def _as_row_matrix(vector):
    return vector.reshape(1, -1).tocsr()


def _check_product(matrix, x):
    if not np.ndim(x):
        raise ValueError("Scalar operands are not allowed, use '*' instead")
    if matrix.ndim > 2 or np.ndim(x) > 2:
        raise UnsupportedFunctionError(
            f"the product of a sparse array of shape {matrix.shape} and a traced array of shape {np.shape(x)} has no "
            f"derivative rule{at()}: use matrices and vectors, or make the sparse array A dense with A.toarray()"
        )


def times(x, matrix):
    """Return ``A @ x`` for a sparse matrix and a vector or matrix, traced or plain."""
    if not var.holds_traced(x):
        return matrix @ var.plain(x)
    if matrix.format in ("lil", "dok"):
        matrix = matrix.tocsr()
    elif not var.level_of(x).is_forward:
        matrix = matrix.copy()  # f may modify it before the pullback runs
    return apply(_times_row, times, (x, matrix), {})


def _apply_to_last_axes(z, matrix, ndim):
    """Apply the matrix along the last `ndim` axes of `z`; leading axes are directions. Here 0 * inf is 0."""
    lead, core = np.shape(z)[: np.ndim(z) - ndim], np.shape(z)[np.ndim(z) - ndim :]
    if not lead:
        return _strong_times(z, matrix)
    beside = np.reshape(np.moveaxis(np.reshape(z, (-1, *core)), 0, -1), (core[0], -1))
    found = np.reshape(_strong_times(beside, matrix), (matrix.shape[0], *core[1:], -1))
    return np.reshape(np.moveaxis(found, -1, 0), (*lead, matrix.shape[0], *core[1:]))


def _strong_times(z, matrix):
    y = times(z, matrix)
    if not np.isnan(np.vdot(y, y)):
        return y
    coo = matrix.tocoo()
    entries = coo.data[:, None] if np.ndim(z) == 2 else coo.data
    return times(strong(z[coo.col], entries), _summation_matrix(coo.row, matrix.shape[0]))


def _summation_matrix(places, n):
    """Return the matrix that sums the entries with equal index in `places` into a vector of length `n`."""
    from scipy.sparse import csc_array

    count = len(places)
    return csc_array((np.ones(count), np.asarray(places), np.arange(count + 1)), shape=(n, count))


def _pull(ybar, y, x, matrix):
    lead = np.shape(ybar)[: np.ndim(ybar) - np.ndim(y)]
    ybar = np.reshape(ybar, lead + matrix.shape[:1] + np.shape(x)[1:])
    return _apply_to_last_axes(ybar, matrix.transpose(), np.ndim(x))


def _push(t, y, x, matrix):
    found = _apply_to_last_axes(t, matrix, np.ndim(x))
    return np.reshape(found, np.shape(t)[: np.ndim(t) - np.ndim(x)] + np.shape(y))


def _labels(ndim, x, matrix):
    count = ndim(x)
    return (matrix, x), [[0, 1], [1, 2][:count]], [0, 2][:count]


# The product of a one-row COO matrix and a vector is a scalar, so _pull and _push reshape explicitly.
_times_row = registry.Primitive(
    "scipy.sparse product",
    "linear",
    vjps={0: _pull},
    jvps={0: _push},
    home=f"{__name__}._times_row",
    stacked=True,
    dependence=Contraction(_labels),
    curvature="none",
    on_complex=True,
)


# ---- sparse arrays with traced entries


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
    "negative": lambda a: -a,
    "transpose": lambda a: a.T,
    "tocsr": lambda a: a.tocsr(),
    "tocsc": lambda a: a.tocsc(),
    "tocoo": lambda a: a.tocoo(),
}


@functools.cache
def _result_class(operation, *classes):
    """Return the class of SciPy's result of an operation on sparse arrays of the given classes."""
    return type(_SAMPLE_OPERATIONS[operation](*[cls_(np.eye(2)) for cls_ in classes]))


class SparseVar:
    """A sparse array with traced entries, such as the product of a constant sparse array and a traced value.

    ``__class__`` is the class that SciPy would return, except when SciPy's own operators test it.
    Only operations that are linear in the entries are defined. Any other attribute raises an error that says so.
    """

    __slots__ = ("_cls", "_col", "_entries", "_row", "shape")
    __array_ufunc__ = None
    ndim = 2

    def __init__(self, entries, row, col, shape, cls_):
        self._entries = entries
        self._row = row
        self._col = col
        self.shape = shape
        self._cls = cls_

    def _like(self, entries, operation, *others):
        cls_ = _result_class(operation, self._cls, *map(_class_of, others))
        return SparseVar(entries, self._row, self._col, self.shape, cls_)

    @property
    def __class__(self):
        return SparseVar if is_class_test(2) else self._cls

    @property
    def _is_array(self):
        return issubclass(self._cls, sys.modules["scipy.sparse"].sparray)

    def __getattr__(self, name):
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
        if _is_sparse_code(caller) and caller.f_code.co_name == "_matmul_dispatch":
            return np.array(None, dtype=object)  # the product defers to `__rmatmul__`
        if var.is_traced(self._entries) and not var.is_passive(self._entries):
            raise refusal(self._entries, sparse_message())
        return np.asarray(self.toarray(), dtype=dtype)

    def __repr__(self):
        return f"<traced sparse array of shape {self.shape} with {self.nnz} nonzeros>"

    @property
    def dtype(self):
        return self._entries.dtype

    @property
    def format(self):
        return self._cls((1, 1)).format

    @property
    def nnz(self):
        return len(self._row)

    @property
    def T(self):
        cls_ = _result_class("transpose", self._cls)
        return SparseVar(self._entries, self._col, self._row, self.shape[::-1], cls_)

    def transpose(self):
        return self.T

    def copy(self):
        return self

    def tocsr(self, copy=False):
        return self._like(self._entries, "tocsr")

    def tocsc(self, copy=False):
        return self._like(self._entries, "tocsc")

    def tocoo(self, copy=False):
        return self._like(self._entries, "tocoo")

    def toarray(self):
        m, n = self.shape
        places = self._row.astype(np.intp) * n + self._col
        return np.reshape(times(self._entries, _summation_matrix(places, m * n)), self.shape)

    def _unique(self):
        """Return the entries without duplicates, ordered by rows, and their row and column indices."""
        places = self._row.astype(np.intp) * self.shape[1] + self._col
        unique, inverse = np.unique(places, return_inverse=True)
        entries = times(self._entries, _summation_matrix(inverse, len(unique)))
        return entries, unique // self.shape[1], unique % self.shape[1]

    def __getitem__(self, key):
        """Return an element, or the submatrix of an index that SciPy accepts."""
        from scipy.sparse import csr_array

        entries, row, col = self._unique()
        numbers = csr_array((np.arange(1.0, len(row) + 1), (row, col)), shape=self.shape)[key]
        if not np.ndim(numbers):
            return entries[int(numbers) - 1] if numbers else np.zeros((), self.dtype)[()]
        if numbers.ndim == 1:  # one-dimensional for an array, a row for a matrix
            raise UnsupportedFunctionError(
                f"a row or column of a sparse array with traced entries has no derivative rule{at()}: write A[[i], :] "
                "or A[:, [j]]"
            )
        chosen = numbers.tocoo()
        return SparseVar(entries[chosen.data.astype(int) - 1], chosen.row, chosen.col, chosen.shape, self._cls)

    def power(self, n):
        return self._elementwise(lambda entries: entries**n)

    def __pow__(self, n):
        return self.power(n)

    def __abs__(self):
        return self._elementwise(np.abs)

    def _elementwise(self, fun):
        """Apply a function with fun(0) = 0 to the elements."""
        entries, row, col = self._unique()
        return SparseVar(fun(entries), row, col, self.shape, self._cls)

    def trace(self, offset=0):
        return np.sum(self._entries[self._col - self._row == offset])

    def diagonal(self):
        on = self._row == self._col
        return times(self._entries[on], _summation_matrix(self._row[on], min(self.shape)))

    def sum(self, axis=None):
        if axis is None:
            return np.sum(self @ np.ones(self.shape[1], self.dtype))
        if not self._is_array:
            raise UnsupportedFunctionError(
                "the sum of a sparse matrix A with traced entries along an axis would be a numpy.matrix"
                f"{at()}: write A.toarray().sum(axis), or use scipy.sparse.csr_array"
            )
        return self @ np.ones(self.shape[1], self.dtype) if axis in (1, -1) else self.T.sum(1)

    def multiply(self, other):
        if is_sparse(other):
            entries = self._entries * np.ravel(other.tocsr()[self._row, self._col])
            return self._like(entries, "multiplied", other)
        if np.broadcast_shapes(self.shape, np.shape(other)) != self.shape:
            raise UnsupportedFunctionError(
                f"the elementwise product of a sparse array of shape {self.shape} with traced entries and an array of "
                f"shape {np.shape(other)}{at()}: the second must broadcast to the shape of the first; make the sparse "
                "array A dense with A.toarray()"
            )
        factor = np.broadcast_to(other, self.shape)[self._row, self._col] if np.ndim(other) else other
        return self._like(self._entries * factor, _multiplication_by(np.shape(other)))

    def dot(self, other):
        return self @ other if np.ndim(other) else self.multiply(other)

    def __matmul__(self, other):
        if type(other) is SparseVar or is_sparse(other):
            return _sparse_product(self, other)
        _check_product(self, other)
        picked = other[self._col]
        entries = self._entries[:, None] if np.ndim(other) == 2 else self._entries
        return times(entries * picked, _summation_matrix(self._row, self.shape[0]))

    def __rmatmul__(self, other):
        if is_sparse(other):
            return _sparse_product(other, self)
        return np.transpose(self.T @ np.transpose(other))

    def __mul__(self, other):
        return self.multiply(other) if self._is_array or not np.ndim(other) else self @ other

    def __rmul__(self, other):
        return self.multiply(other) if self._is_array or not np.ndim(other) else other @ self

    def __truediv__(self, other):
        return self.multiply(1 / other)

    def __neg__(self):
        return self._like(-self._entries, "negative")

    def __add__(self, other):
        return self._sum(other, "added", self, other)

    def __radd__(self, other):
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
        if type(other) is SparseVar:
            entries, row, col = other._entries, other._row, other._col
        else:
            coo = other.tocoo()
            entries, row, col = coo.data, coo.row, coo.col
        entries = np.concatenate([self._entries, entries])
        row, col = np.concatenate([self._row, row]), np.concatenate([self._col, col])
        return SparseVar(entries, row, col, self.shape, _result_class(operation, *map(_class_of, operands)))


def _sparse_product(left, right):
    """Return the product of two sparse arrays as one whose entries are products of pairs of entries."""
    if left.shape[1] != right.shape[0]:
        raise ValueError(f"matmul: dimension mismatch with signature ({left.shape} x {right.shape})")
    (a, i, k), (b, j, column) = _entries_of(left), _entries_of(right)
    order = np.argsort(j, kind="stable")
    count = np.bincount(j, minlength=right.shape[0])
    start = np.cumsum(count) - count
    repeats = count[k]
    first = np.repeat(np.arange(len(i)), repeats)
    within = np.arange(len(first)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
    second = order[start[k][first] + within]
    cls_ = _class_of(left)
    return SparseVar(a[first] * b[second], i[first], column[second], (left.shape[0], right.shape[1]), cls_)


def _entries_of(matrix):
    if type(matrix) is SparseVar:
        return matrix._entries, matrix._row, matrix._col
    coo = matrix.tocoo()
    return coo.data, coo.row, coo.col


def _class_of(matrix):
    return matrix._cls if type(matrix) is SparseVar else type(matrix)
