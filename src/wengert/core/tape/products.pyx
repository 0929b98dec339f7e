# Bounds checks are off, since users supply no indices here; C division is on, since they supply no divisors:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Products of plain float64 arrays with strong zero: a factor that is exactly 0 gives 0, even times inf or NaN.

Derivative rules consist mostly of such products, and on small arrays a NumPy call costs more than its arithmetic.
Every function returns None for operands that it does not support; `wengert.registry` then computes with NumPy.
The bits are those that NumPy computes: matrices are multiplied by the inner loop of ``numpy.matmul``.
"""

cimport numpy as cnp
from libc.math cimport fabs, isnan

import numpy as np

from wengert.core.tape.kernel cimport Kernel
from wengert.core.tape.memory cimport empty_array, is_double, is_vector, same_shape
from wengert.core.tape.tape cimport strong_times

cnp.import_array()

cdef enum:
    MAX_BROADCAST = 8           # axes of a broadcast product
    MAX_BROADCAST_SIZE = 4096   # elements; NumPy's loops are as fast beyond

cdef double MODERATE = 1e150
cdef type ndarray = np.ndarray, float64 = np.float64, complex128 = np.complex128
cdef object np_multiply = np.multiply
cdef Kernel matmul = Kernel(np.matmul, 0, 0, 0)


cpdef object strong_product(a, b):
    """Return `wengert.registry.strong` of float64 arrays and scalars; `b` may be a boolean array."""
    cdef double x = 0.0, y = 0.0
    if type(b) is ndarray and cnp.PyArray_ISBOOL(<cnp.ndarray>b) and (
            type(a) is float64 or (type(a) is ndarray and is_double(<cnp.ndarray>a))):
        if cnp.PyArray_SIZE(<cnp.ndarray>b) <= MAX_BROADCAST_SIZE:
            b = cnp.PyArray_Cast(<cnp.ndarray>b, cnp.NPY_DOUBLE)
    if type(a) is ndarray and type(b) is ndarray and is_vector(a) and is_vector(b) and same_shape(a, b):
        if cnp.PyArray_NDIM(<cnp.ndarray>a):
            return strong_times_array(a, <double *>cnp.PyArray_DATA(<cnp.ndarray>b), 1)
    if type(a) is ndarray and cnp.PyArray_NDIM(a) and is_vector(a) and is_one_double(b, cnp.PyArray_NDIM(a), &y):
        return strong_times_array(a, &y, 0)
    if type(b) is ndarray and cnp.PyArray_NDIM(b) and is_vector(b) and is_one_double(a, cnp.PyArray_NDIM(b), &x):
        return strong_times_array(b, &x, 0)
    if is_one_double(a, 0, &x) and is_one_double(b, 0, &y):
        strong_times(1, &x, &y, 0, &x)
        return float64(x)
    if type(a) is ndarray and type(b) is ndarray and is_double(a) and is_double(b):
        return strong_broadcast(a, b)
    if is_moderate(a) and is_moderate(b):       # the product is finite: no warnings to silence, no NaN to replace
        return np_multiply(a, b)
    return None


cdef bint is_moderate(object x):
    """Return whether `x` is a scalar or a small array whose elements are so moderate that products are finite."""
    cdef Py_ssize_t i, n
    cdef double *parts
    cdef double value = 0.0
    if is_one_double(x, MAX_BROADCAST, &value):
        return fabs(value) < MODERATE
    if type(x) is complex or type(x) is complex128:
        return fabs(x.real) < MODERATE and fabs(x.imag) < MODERATE
    if type(x) is not ndarray or not cnp.PyArray_ISBEHAVED_RO(<cnp.ndarray>x):
        return False
    if not (cnp.PyArray_IS_C_CONTIGUOUS(<cnp.ndarray>x) or cnp.PyArray_IS_F_CONTIGUOUS(<cnp.ndarray>x)):
        return False
    n = cnp.PyArray_SIZE(<cnp.ndarray>x)
    if cnp.PyArray_TYPE(<cnp.ndarray>x) == cnp.NPY_COMPLEX128:
        n *= 2
    elif cnp.PyArray_TYPE(<cnp.ndarray>x) != cnp.NPY_DOUBLE:
        return False
    if n > MAX_BROADCAST_SIZE:
        return False
    parts = <double *>cnp.PyArray_DATA(<cnp.ndarray>x)
    for i in range(n):
        if not fabs(parts[i]) < MODERATE:
            return False
    return True


cdef cnp.ndarray strong_times_array(cnp.ndarray a, const double *b, int step):
    cdef cnp.ndarray found = empty_array(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a))
    strong_times(cnp.PyArray_SIZE(a), <double *>cnp.PyArray_DATA(a), b, step, <double *>cnp.PyArray_DATA(found))
    return found


cdef bint is_one_double(object x, int max_ndim, double *value):
    """Return whether `x` is a scalar, or an array of one element with at most `max_ndim` axes."""
    if type(x) is float or type(x) is float64:
        value[0] = x
        return True
    if type(x) is not ndarray or not is_double(x) or cnp.PyArray_SIZE(x) != 1 or cnp.PyArray_NDIM(x) > max_ndim:
        return False
    value[0] = (<double *>cnp.PyArray_DATA(<cnp.ndarray>x))[0]
    return True


cdef object strong_broadcast(cnp.ndarray a, cnp.ndarray b):
    """Return the product of two small arrays of any layouts, broadcast against each other."""
    cdef cnp.npy_intp shape[MAX_BROADCAST]
    cdef Py_ssize_t steps[2][MAX_BROADCAST]
    cdef Py_ssize_t index[MAX_BROADCAST]
    cdef cnp.ndarray found, x
    cdef int ndim = max(cnp.PyArray_NDIM(a), cnp.PyArray_NDIM(b)), d, side, e
    cdef Py_ssize_t size = 1, i, n
    cdef char *at[2]
    cdef double *y
    if not 0 < ndim <= MAX_BROADCAST:
        return None
    for d in range(ndim):
        shape[d] = 1
        index[d] = 0
        for side in range(2):
            x = a if side == 0 else b
            e = d - ndim + cnp.PyArray_NDIM(x)
            n = 1 if e < 0 else cnp.PyArray_DIM(x, e)
            steps[side][d] = 0 if n == 1 else cnp.PyArray_STRIDE(x, e)
            if n != 1 and shape[d] != 1 and shape[d] != n:
                return None         # NumPy raises its own error
            if n != 1:
                shape[d] = n
        size *= shape[d]
    if size > MAX_BROADCAST_SIZE:
        return None
    found = empty_array(ndim, shape)
    if size == 0:
        return found
    y = <double *>cnp.PyArray_DATA(found)
    at[0], at[1] = cnp.PyArray_BYTES(a), cnp.PyArray_BYTES(b)
    n = shape[ndim - 1]
    while True:
        for i in range(n):
            strong_times(1, <double *>(at[0] + i * steps[0][ndim - 1]), <double *>(at[1] + i * steps[1][ndim - 1]), 0,
                         y + i)
        y += n
        for d in range(ndim - 2, -1, -1):
            index[d] += 1
            at[0] += steps[0][d]
            at[1] += steps[1][d]
            if index[d] < shape[d]:
                break
            at[0] -= steps[0][d] * shape[d]
            at[1] -= steps[1][d] * shape[d]
            index[d] = 0
        else:
            return found


def strong_matmul(a, b):
    """Return ``a @ b`` of matrices or vectors, or None if a NaN in it may come from 0 times infinity."""
    cdef cnp.npy_intp dims[4]
    cdef cnp.npy_intp steps[9]
    cdef cnp.npy_intp shape[2]
    cdef char *args[3]
    cdef cnp.ndarray left, right, y
    cdef int ndim = 0, rows, columns
    cdef Py_ssize_t i
    cdef const double *found
    if matmul.loop == NULL or type(a) is not ndarray or type(b) is not ndarray:
        return None
    left, right = a, b
    rows, columns = cnp.PyArray_NDIM(left) - 1, cnp.PyArray_NDIM(right) - 1
    if not (0 <= rows <= 1 and 0 <= columns <= 1 and is_double(left) and is_double(right)):
        return None
    dims[0] = 1
    dims[1] = cnp.PyArray_DIM(left, 0) if rows else 1
    dims[2] = cnp.PyArray_DIM(left, rows)
    dims[3] = cnp.PyArray_DIM(right, 1) if columns else 1
    if dims[2] < 2 or dims[2] != cnp.PyArray_DIM(right, 0) or dims[1] == 0 or dims[3] == 0:
        return None
    if rows:
        shape[ndim] = dims[1]
        ndim += 1
    if columns:
        shape[ndim] = dims[3]
        ndim += 1
    y = empty_array(ndim, shape)
    steps[0] = steps[1] = steps[2] = 0
    steps[3] = cnp.PyArray_STRIDE(left, 0) if rows else 0
    steps[4] = cnp.PyArray_STRIDE(left, rows)
    steps[5] = cnp.PyArray_STRIDE(right, 0)
    steps[6] = cnp.PyArray_STRIDE(right, 1) if columns else 0
    steps[7] = cnp.PyArray_STRIDE(y, 0) if rows else 0
    steps[8] = cnp.PyArray_STRIDE(y, ndim - 1) if columns else 0
    args[0], args[1], args[2] = cnp.PyArray_BYTES(left), cnp.PyArray_BYTES(right), cnp.PyArray_BYTES(y)
    matmul.loop(args, dims, steps, matmul.loop_data)
    found = <double *>cnp.PyArray_DATA(y)
    for i in range(cnp.PyArray_SIZE(y)):
        if isnan(found[i]):
            return found_nan(left, right, y)
    return y if ndim else y[()]


cdef object found_nan(cnp.ndarray a, cnp.ndarray b, cnp.ndarray y):
    """Return the product if its operands are finite, since no NaN then comes from 0 times infinity, else None."""
    return y[()] if np.isfinite(a).all() and np.isfinite(b).all() else None
