# Interface of linear.pyx, for Newton's method, and factors of small matrices: inline, for sizes that are constants.
# cython: cdivision=True

cimport numpy as cnp
from libc.math cimport fabs, isfinite

from wengert.program.integration.factor cimport Factor


cdef class LU:
    cdef readonly Linear structure
    cdef Py_ssize_t n, nnz
    cdef const int *row_of              # of each nonzero
    cdef const int *column_of
    cdef int below, above, width        # of a band; `width` is the number of rows that LAPACK stores
    cdef bint is_banded
    cdef Factor sparse                  # None if the factors are dense or a band
    cdef cnp.ndarray memory, pivots, data, units, work
    cdef double *a                      # dense factors or a band; the scaled nonzeros of a sparse matrix
    cdef int *p
    cdef double *rows                   # powers of 2 that scale rows and columns
    cdef double *columns
    cdef double *w
    cdef readonly double rcond          # of the scaled matrix; negative until it is computed
    cdef double norm
    cdef double *at_data
    cdef int info                       # of the last factorisation; negative: there is none

    cdef bint is_of(self, const double *data) noexcept nogil
    cdef int factor(self, const double *data, bint is_scaled) noexcept nogil
    cdef void fill(self, const double *data, bint is_scaled) noexcept nogil
    cdef void solve(self, double *b, bint transposed, int count=*) noexcept nogil
    cdef double condition(self) noexcept nogil
    cdef int factor_sparse(self) noexcept nogil
    cdef double size_of_inverse(self) noexcept nogil


cdef class Linear:
    cdef readonly Py_ssize_t n, nnz
    cdef readonly cnp.ndarray rows, columns
    cdef readonly int below, above
    cdef readonly bint is_banded
    cdef readonly object pattern        # of a sparse matrix, or None
    cdef const int *at_rows
    cdef const int *at_columns
    cdef list spaces

    cdef LU take(self)


cdef inline int small_factor(int n, double *a, int *p) noexcept nogil:
    """Factorise a matrix stored by columns in place, as dgetrf does; pivots count from 1."""
    cdef int i, j, k, best, info = 0
    cdef double most, factor
    cdef double *column
    for k in range(n):
        best, most = k, fabs(a[k * n + k])
        for i in range(k + 1, n):
            if fabs(a[k * n + i]) > most:
                best, most = i, fabs(a[k * n + i])
        p[k] = best + 1
        if a[k * n + best] == 0.0:
            info = info if info else k + 1
            continue
        if best != k:
            for j in range(n):
                a[j * n + k], a[j * n + best] = a[j * n + best], a[j * n + k]
        factor = 1.0 / a[k * n + k]
        if isfinite(factor):
            for i in range(k + 1, n):
                a[k * n + i] *= factor
        else:
            for i in range(k + 1, n):
                a[k * n + i] /= a[k * n + k]
        for j in range(k + 1, n):
            column, factor = a + j * n, a[j * n + k]
            if factor != 0.0:
                for i in range(k + 1, n):
                    column[i] -= factor * a[k * n + i]
    return info


cdef inline void small_solve(int n, const double *a, const int *p, double *b, bint transposed) noexcept nogil:
    """Solve with the factors of `small_factor` in place."""
    cdef int i, k
    cdef double x
    if not transposed:
        for k in range(n):
            b[k], b[p[k] - 1] = b[p[k] - 1], b[k]
        for k in range(n):
            for i in range(k + 1, n):
                b[i] -= a[k * n + i] * b[k]
        for k in range(n - 1, -1, -1):
            b[k] /= a[k * n + k]
            for i in range(k):
                b[i] -= a[k * n + i] * b[k]
        return
    for k in range(n):
        x = b[k]
        for i in range(k):
            x -= a[k * n + i] * b[i]
        b[k] = x / a[k * n + k]
    for k in range(n - 1, -1, -1):
        x = b[k]
        for i in range(k + 1, n):
            x -= a[k * n + i] * b[i]
        b[k] = x
    for k in range(n - 1, -1, -1):
        b[k], b[p[k] - 1] = b[p[k] - 1], b[k]
