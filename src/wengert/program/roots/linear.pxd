# Interface of linear.pyx, and LU factors of small matrices, inline so that constant sizes are unrolled.
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
    cdef bint is_banded, is_narrow
    cdef Factor sparse                  # None if the factors are dense or a band
    cdef cnp.ndarray memory, pivots, data, units, work
    cdef double *a                      # dense factors or a band; the scaled nonzeros of a sparse matrix
    cdef int *p
    cdef double *rows                   # powers of 2 that scale rows and columns
    cdef double *columns
    cdef double *w
    cdef readonly double rcond          # reciprocal condition number of the scaled matrix; negative until computed
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
    cdef void solve_scaled(self, double *b, bint transposed, int count) noexcept nogil


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


cdef class Updated:
    cdef LU lu                          # factors of the matrix without its updates
    cdef Py_ssize_t n, rank
    cdef cnp.ndarray memory, columns, groups
    cdef double *left
    cdef double *right
    cdef double *solved
    cdef double *inverse
    cdef const int *starts              # of each column, in `by_columns`
    cdef const int *by_columns          # the nonzeros, column by column
    cdef const int *grouped             # the columns, group by group, and for each one the end of its group; or NULL

    cdef int factor(self, const double *data) noexcept nogil
    cdef Py_ssize_t group_end(self, Py_ssize_t k) noexcept nogil
    cdef void add_product(self, const double *x, double *y, bint transposed) noexcept nogil
    cdef void solve(self, double *b) noexcept nogil
    cdef void correct(self, Py_ssize_t k, double *b) noexcept nogil
    cdef bint update(self, const double *u, const double *v, const double *solved) noexcept nogil


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


cdef inline int narrow_factor(int n, int below, int above, double *a, int *p) noexcept nogil:
    """Factorise a band in LAPACK's storage in place, as dgbtf2 does, but store inverse pivots; rows count from 1."""
    cdef int i, j, k, best, rows, last = 0, info = 0
    cdef int skew = below + above, step = 2 * below + above     # from an element to the next one of its row
    cdef double x
    cdef double *pivot
    cdef double *column
    for k in range(n):
        pivot, best, rows = a + k * (step + 1) + skew, 0, min(below, n - 1 - k)
        for i in range(1, rows + 1):
            if fabs(pivot[i]) > fabs(pivot[best]):
                best = i
        p[k] = k + best + 1
        if pivot[best] == 0.0:
            info = info if info else k + 1
            continue
        last = max(last, min(k + above + best, n - 1))
        if best:
            for j in range(last - k + 1):
                x = pivot[j * step]
                pivot[j * step] = pivot[j * step + best]
                pivot[j * step + best] = x
        pivot[0] = 1.0 / pivot[0]
        for i in range(1, rows + 1):
            pivot[i] *= pivot[0]
        for j in range(1, last - k + 1):
            column = pivot + j * step
            for i in range(1, rows + 1):
                column[i] -= column[0] * pivot[i]
    return info


cdef inline void narrow_solve(int n, int below, int above, const double *a, const int *p, double *b,
                              bint transposed) noexcept nogil:
    """Solve with the factors of `narrow_factor` in place."""
    cdef int i, k, skew = below + above, width = 2 * below + above + 1
    cdef double x = b[0], y, inverse    # x is the element that the next row needs, which is in a register
    cdef const double *pivot
    if not transposed:
        for k in range(n):
            pivot = a + k * width + skew
            if p[k] - 1 != k:
                x, b[p[k] - 1] = b[p[k] - 1], x
            b[k] = x
            for i in range(2, min(below, n - 1 - k) + 1):
                b[k + i] -= x * pivot[i]
            if k < n - 1:
                x = b[k + 1] - x * pivot[1] if below else b[k + 1]
        x *= a[(n - 1) * width + skew]
        for k in range(n - 1, -1, -1):
            pivot, b[k] = a + k * width + skew, x
            for i in range(2, min(skew, k) + 1):
                b[k - i] -= x * pivot[-i]
            if k:
                inverse = pivot[-width]
                x = b[k - 1] * inverse - x * (pivot[-1] * inverse) if skew else b[k - 1] * inverse
        return
    for k in range(n):
        pivot = a + k * width + skew
        y = b[k]
        for i in range(min(skew, k), 1, -1):
            y -= pivot[-i] * b[k - i]
        x = y * pivot[0] - (pivot[-1] * pivot[0]) * x if k and skew else y * pivot[0]
        b[k] = x
    x = 0.0
    for k in range(n - 1, -1, -1):
        pivot, y = a + k * width + skew, b[k]
        for i in range(min(below, n - 1 - k), 1, -1):
            y -= pivot[i] * b[k + i]
        x = y - pivot[1] * x if below and k < n - 1 else y
        if p[k] - 1 != k:
            x, b[p[k] - 1] = b[p[k] - 1], x
        b[k] = x


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
