"""Operators between SciPy sparse arrays and traced values.

SciPy's sparse operators defer to the other operand when NumPy cannot convert it to a numeric array. `array_for_scipy`
makes them defer to traced values, which then compute the result (`operate`).
The product of a constant sparse array and a traced vector or matrix is one linear primitive (`sparse_product`). A
result whose nonzeros are traced, such as ``A.multiply(x)``, is a `SparseVar`.
"""

from __future__ import annotations

import sys

import numpy as np

from wengert.core.dispatch import mixed
from wengert.core.dispatch.arguments import clean
from wengert.core.dispatch.sparse_arrays import multiply_entries
from wengert.core.dispatch.sparse_callers import MULTIPLY_METHODS, is_sparse_code
from wengert.core.dispatch.sparse_product import is_sparse, product, transposed_product
from wengert.core.frames import at
from wengert.errors import UnsupportedFunctionError

#: largest dense array, in elements, that SciPy's ``multiply`` may allocate before it calls our ufunc override
MAX_DENSE_ELEMENTS = 10**8


# ---- answers to SciPy's sparse methods


def array_for_scipy(x, depth=1):
    """Return the array that a sparse method gets from ``np.asanyarray(x)``, or None for any other caller.

    An object array makes the method defer to `x`. `depth` is the number of Python frames between here and the caller.
    """
    frame = sys._getframe(depth)
    if not is_sparse_code(frame):
        return None
    name = frame.f_code.co_name
    if name in ("_matmul_dispatch", "_divide"):
        return np.array(None, dtype=object)
    if name == "dot":
        return np.empty(x.shape)  # dot reads only the shape, and continues with x
    if name not in MULTIPLY_METHODS:
        return None
    matrix = frame.f_locals["self"]
    while is_sparse_code(frame) and frame.f_code.co_name in MULTIPLY_METHODS:
        frame = frame.f_back
    is_operator = is_sparse_code(frame)
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
        return clean(product(matrix, x) if is_left else transposed_product(matrix, x))
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
