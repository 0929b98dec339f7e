# Indices are checked when a structure is made:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Solves linear equations with matrices of one sparsity pattern, by LU factorisation with row interchanges.

Input: the nonzeros of a matrix, in the order of the pattern, and right-hand sides.  Small matrices are factorised here,
larger ones by LAPACK, as a band if the pattern is narrow, or as sparse matrices (`integration.factor`).  The factors of
the last matrix are kept and reused if the nonzeros are the same: the derivative of a root needs those of Newton's
method.

References
----------
Curtis, Powell and Reid (1974), On the estimation of sparse Jacobian matrices. doi:10.1093/imamat/13.1.117
Golub and Van Loan (2013), Matrix Computations, sections 2.1.4, 3.4 and 4.3.
Hager (1984), Condition estimates. doi:10.1137/0905023
Higham (1988), FORTRAN codes for estimating the one-norm. doi:10.1145/50063.214386
"""

cimport numpy as cnp
from libc.math cimport fabs, frexp, isfinite, ldexp
from libc.string cimport memcmp, memcpy, memset

from wengert.program.integration.factor cimport factor_of

import numpy as np

from wengert.errors import GuardError
from wengert.program.integration.pattern import Pattern

include "../lapack.pxi"

cnp.import_array()


cdef enum:
    SMALL = 24                  # size of the largest dense matrix factorised here; beyond it, LAPACK is about as fast
    NARROW = 32                 # width of the widest band factorised here; LAPACK calls BLAS several times per column
    INVERTED = 8                # size of the largest matrix whose inverse is computed for its condition number
    MAX_UPDATES = 64            # beyond it, a solve costs more than a few factorisations, and convergence is slow

ctypedef void (*gecon)(char *norm, int *n, void *a, int *lda, double *anorm, double *rcond, double *work, int *iwork,
                       int *info) noexcept nogil
ctypedef void (*gbtrf)(int *m, int *n, int *kl, int *ku, void *a, int *lda, int *pivots, int *info) noexcept nogil
ctypedef void (*gbtrs)(char *trans, int *n, int *kl, int *ku, int *nrhs, void *a, int *lda, int *pivots, void *b,
                       int *ldb, int *info) noexcept nogil
ctypedef void (*gbcon)(char *norm, int *n, int *kl, int *ku, void *a, int *lda, int *pivots, double *anorm,
                       double *rcond, double *work, int *iwork, int *info) noexcept nogil


cdef getrf dense_factor = <getrf>exported("dgetrf")
cdef getrs dense_solve = <getrs>exported("dgetrs")
cdef gecon dense_condition = <gecon>exported("dgecon")
cdef gbtrf band_factor = <gbtrf>exported("dgbtrf")
cdef gbtrs band_solve = <gbtrs>exported("dgbtrs")
cdef gbcon band_condition = <gbcon>exported("dgbcon")


cdef class LU:
    """LU factors of a matrix, optionally with rows and columns scaled by powers of 2 to elements near 1."""

    def __init__(self, Linear structure):
        cdef Py_ssize_t n = structure.n
        self.structure, self.n, self.is_banded = structure, n, structure.is_banded
        self.below, self.above = structure.below, structure.above
        self.is_narrow = self.is_banded and self.below + self.above <= NARROW
        self.width = 2 * self.below + self.above + 1 if self.is_banded else <int>n
        if structure.pattern is not None:
            self.sparse = factor_of(structure.pattern, False)
        size = n * self.width if self.sparse is None else structure.nnz
        self.memory, self.pivots = np.zeros(size), np.zeros(2 * n, np.intc)
        self.data, self.units, self.work = np.zeros(structure.nnz), np.ones(2 * n), np.zeros(4 * n)
        self.a, self.p = <double *>cnp.PyArray_DATA(self.memory), <int *>cnp.PyArray_DATA(self.pivots)
        self.rows, self.w = <double *>cnp.PyArray_DATA(self.units), <double *>cnp.PyArray_DATA(self.work)
        self.columns = self.rows + n
        self.nnz = structure.nnz
        self.row_of, self.column_of = structure.at_rows, structure.at_columns
        self.at_data, self.info, self.rcond = <double *>cnp.PyArray_DATA(self.data), -1, -1.0

    cdef bint is_of(self, const double *data) noexcept nogil:
        """Return whether these are scaled factors of a matrix whose nonzeros are bit-identical to `data`."""
        return (self.info >= 0 and self.rcond >= 0
                and memcmp(self.at_data, data, self.nnz * sizeof(double)) == 0)

    cdef int factor(self, const double *data, bint is_scaled) noexcept nogil:
        """Factorise a matrix; return 0, or a positive number if it is singular."""
        cdef int n = <int>self.n
        memcpy(self.at_data, data, self.nnz * sizeof(double))
        self.rcond = -1.0
        self.fill(data, is_scaled)
        self.info = 0
        if self.sparse is not None:
            self.info = self.factor_sparse()
        elif self.is_narrow:
            self.info = narrow_factor(n, self.below, self.above, self.a, self.p)
        elif self.is_banded:
            band_factor(&n, &n, &self.below, &self.above, self.a, &self.width, self.p, &self.info)
        elif n > SMALL:
            dense_factor(&n, &n, self.a, &n, self.p, &self.info)
        else:
            self.info = small_factor(n, self.a, self.p)
        if is_scaled:
            self.rcond = self.condition()
        return self.info

    cdef void fill(self, const double *data, bint is_scaled) noexcept nogil:
        """Store the matrix column by column, scaled by powers of 2 if `is_scaled`, and its norm."""
        cdef Py_ssize_t k, i, j, n = self.n, m = self.nnz
        cdef int skew = self.below + self.above
        cdef double x
        for i in range(2 * n):
            self.rows[i] = 1.0
        if is_scaled:
            memset(self.w, 0, 2 * n * sizeof(double))
            for k in range(m):
                self.w[self.row_of[k]] = larger(self.w[self.row_of[k]], data[k])
            powers(n, self.w, self.rows)
            for k in range(m):
                j = n + self.column_of[k]
                self.w[j] = larger(self.w[j], data[k] * self.rows[self.row_of[k]])
            powers(n, self.w + n, self.columns)
        if self.sparse is None:
            memset(self.a, 0, n * self.width * sizeof(double))
        memset(self.w, 0, n * sizeof(double))
        self.norm = 0.0
        for k in range(m):
            i, j = self.row_of[k], self.column_of[k]
            x = data[k] * self.rows[i] * self.columns[j]
            self.w[j] += fabs(x)
            if self.sparse is not None:
                self.a[k] = x
            else:
                self.a[j * self.width + (skew + i - j if self.is_banded else i)] = x
        for j in range(n):
            if not self.w[j] <= self.norm:
                self.norm = self.w[j]

    cdef double condition(self) noexcept nogil:
        """Return an estimate of the reciprocal condition number in the 1-norm; 0 if the matrix is singular."""
        cdef int n = <int>self.n, info = 0, j, i
        cdef char norm = b"1"
        cdef double found = 0.0, largest = 0.0, column
        if self.info or not isfinite(self.norm):
            return 0.0
        if self.sparse is not None or self.is_narrow or INVERTED < n <= SMALL:
            found = 1.0 / (self.size_of_inverse() * self.norm)
        elif self.is_banded:
            band_condition(&norm, &n, &self.below, &self.above, self.a, &self.width, self.p, &self.norm, &found,
                           self.w, self.p + n, &info)
        elif n > SMALL:
            dense_condition(&norm, &n, self.a, &n, &self.norm, &found, self.w, self.p + n, &info)
        else:
            for j in range(n):
                memset(self.w, 0, n * sizeof(double))
                self.w[j] = 1.0
                small_solve(n, self.a, self.p, self.w, False)
                column = 0.0
                for i in range(n):
                    column += fabs(self.w[i])
                largest = column if not column <= largest else largest
            found = 1.0 / (largest * self.norm)
        return found if isfinite(found) else 0.0

    cdef int factor_sparse(self) noexcept nogil:
        """Factorise a sparse matrix, given its scaled nonzeros; return 1 if it is singular."""
        with gil:
            try:
                return self.sparse.combine(self.a, 1.0, 0.0, 0.0)
            except GuardError:
                return 1

    cdef double size_of_inverse(self) noexcept nogil:
        """Return an estimate of the 1-norm of the inverse of the scaled matrix (Hager 1984)."""
        cdef Py_ssize_t i, largest, n = self.n
        cdef double size = 0.0, other
        cdef double *x = self.w
        cdef double *signs = self.w + n
        cdef int _step
        for i in range(n):
            x[i] = 1.0 / n
        for _step in range(5):
            self.solve_scaled(x, False, 1)
            other = 0.0
            for i in range(n):
                other += fabs(x[i])
                signs[i] = 1.0 if x[i] >= 0 else -1.0
            if not other > size:
                break
            size = other
            self.solve_scaled(signs, True, 1)
            largest = 0
            for i in range(n):
                if fabs(signs[i]) > fabs(signs[largest]):
                    largest = i
            memset(x, 0, n * sizeof(double))
            x[largest] = 1.0
        for i in range(n):                              # a vector that tests alternating signs (Higham 1988)
            x[i] = (1.0 if i % 2 == 0 else -1.0) * (1.0 + i / (n - 1.0 if n > 1 else 1.0))
        self.solve_scaled(x, False, 1)
        other = 0.0
        for i in range(n):
            other += fabs(x[i])
        return max(size, 2.0 * other / (3.0 * n))

    cdef void solve(self, double *b, bint transposed, int count=1) noexcept nogil:
        """Solve the equations, or those with the transposed matrix, for `count` vectors in place."""
        cdef const double *left = self.columns if transposed else self.rows
        cdef const double *right = self.rows if transposed else self.columns
        cdef Py_ssize_t i, k, n = self.n
        for k in range(count):
            for i in range(n):
                b[k * n + i] *= left[i]
        self.solve_scaled(b, transposed, count)
        for k in range(count):
            for i in range(n):
                b[k * n + i] *= right[i]

    cdef void solve_scaled(self, double *b, bint transposed, int count) noexcept nogil:
        """As `solve`, with the scaled matrix, which is factorised."""
        cdef int n = <int>self.n, info = 0, k
        cdef char trans = b"T" if transposed else b"N"
        if self.sparse is not None:
            self.sparse.solve(b, transposed, count)
        elif self.is_narrow:
            for k in range(count):
                narrow_solve(n, self.below, self.above, self.a, self.p, b + k * n, transposed)
        elif self.is_banded:
            band_solve(&trans, &n, &self.below, &self.above, &count, self.a, &self.width, self.p, b, &n, &info)
        elif n > SMALL:
            dense_solve(&trans, &n, &count, self.a, &n, self.p, b, &n, &info)
        else:
            for k in range(count):
                small_solve(n, self.a, self.p, b + k * n, transposed)


cdef inline double larger(double most, double x) noexcept nogil:
    """Return the larger magnitude; numbers that are not finite count as 0.5, which leaves them unscaled."""
    x = fabs(x)
    if not isfinite(x):
        x = 0.5
    return x if x > most else most


cdef void powers(Py_ssize_t n, const double *sizes, double *scales) noexcept nogil:
    """Set scales to the powers of 2 that bring these sizes to [0.5, 1)."""
    cdef Py_ssize_t i
    cdef int exponent
    for i in range(n):
        frexp(sizes[i], &exponent)
        scales[i] = ldexp(1.0, -exponent)


cdef class Linear:
    """Linear equations with matrices of one pattern.

    Parameters
    ----------
    n : int
        Number of equations.
    rows, columns : ndarray of int, shape (nnz,), optional
        Pattern; by default a dense matrix in C order.
    is_banded, is_sparse : bool
        Whether to factorise it as a band, or as a sparse matrix with nonzeros ordered by rows.
    """

    def __init__(self, Py_ssize_t n, rows=None, columns=None, bint is_banded=False, bint is_sparse=False):
        if not 0 < n <= 1 << 20:
            raise ValueError(f"{n} equations")
        if rows is None:
            rows, columns = np.divmod(np.arange(n * n), n)
        self.n, self.is_banded = n, is_banded
        self.rows, self.columns = (np.ascontiguousarray(x, np.intc).reshape(-1) for x in (rows, columns))
        self.nnz = self.rows.size
        for indices in (self.rows, self.columns):
            if indices.size != self.nnz or np.any((indices < 0) | (indices >= n)):
                raise ValueError("the pattern has indices out of range")
        offsets = self.rows - self.columns
        self.below, self.above = offsets.max(initial=0), -offsets.min(initial=0)
        self.at_rows = <const int *>cnp.PyArray_DATA(self.rows)
        self.at_columns = <const int *>cnp.PyArray_DATA(self.columns)
        self.spaces = []
        if is_sparse:
            self.pattern = Pattern(n, self.rows, self.columns)

    @property
    def is_dense(self):
        """Whether all elements of the matrices are given."""
        return self.nnz == self.n * self.n

    def __reduce__(self):
        return Linear, (self.n, self.rows, self.columns, self.is_banded, self.pattern is not None)

    cdef LU take(self):
        """Return memory for factors, reusing free memory; the caller appends it to `spaces` afterwards."""
        return self.spaces.pop() if self.spaces else LU(self)

    def solve(self, data, b, bint transposed):
        """Solve for the vectors ``b[..., :]`` with one matrix, or with a matrix for each of them.

        Raises
        ------
        GuardError
            If a matrix is singular.
        """
        cdef cnp.ndarray given = np.ascontiguousarray(data, float), found
        cdef Py_ssize_t k, count, matrices = given.size // self.nnz
        cdef const double *at = <const double *>cnp.PyArray_DATA(given)
        cdef double *x
        cdef LU lu = self.take()
        if data.ndim > 1 and data.ndim > b.ndim:
            found = np.empty((*data.shape[:data.ndim - 1], self.n))
            found[...] = b
        else:
            found = np.array(b, dtype=float, order="C")
        x, count = <double *>cnp.PyArray_DATA(found), found.size // self.n
        for k in range(matrices):
            if not lu.is_of(at + k * self.nnz):
                lu.factor(at + k * self.nnz, True)
            if lu.info:
                self.spaces.append(lu)
                raise GuardError("the Jacobian at a solution: Singular matrix")
            if matrices == 1:
                lu.solve(x, transposed, <int>count)
            else:
                lu.solve(x + k * self.n, transposed, 1)
        self.spaces.append(lu)
        return found


cdef class Updated:
    """A matrix A of one pattern plus outer products, and linear equations with it.

    Solves with the factors of A, and with one correction per product (Sherman and Morrison's formula).
    """

    def __init__(self, Linear structure):
        cdef Py_ssize_t n = structure.n
        self.lu, self.n = LU(structure), n
        self.memory = np.empty((3 * n + 1) * MAX_UPDATES)
        self.left = <double *>cnp.PyArray_DATA(self.memory)
        self.right = self.left + n * MAX_UPDATES
        self.solved = self.left + 2 * n * MAX_UPDATES
        self.inverse = self.left + 3 * n * MAX_UPDATES
        order = np.lexsort((structure.rows, structure.columns))
        starts = np.searchsorted(structure.columns[order], np.arange(n + 1))
        self.columns = np.concatenate([starts, order]).astype(np.intc)
        self.starts = <const int *>cnp.PyArray_DATA(self.columns)
        self.by_columns = self.starts + n + 1

    def set_groups(self):
        """Group columns that share no row: one difference of function values contains all columns of a group."""
        cdef Py_ssize_t j
        if self.groups is not None:
            return
        starts, order = np.split(self.columns, [self.n + 1])
        group_of, taken = np.empty(self.n, int), np.zeros((self.n, 1), bool)    # by row and group
        for j in range(self.n):
            rows = self.lu.structure.rows[order[starts[j]:starts[j + 1]]]
            is_taken = taken[rows].any(0)
            if is_taken.all():
                is_taken, taken = np.append(is_taken, False), np.pad(taken, ((0, 0), (0, taken.shape[1])))
            group_of[j] = np.argmin(is_taken)
            taken[rows, group_of[j]] = True
        grouped = np.argsort(group_of, kind="stable")
        ends = np.searchsorted(group_of[grouped], group_of[grouped], side="right")
        self.groups = np.concatenate([grouped, ends]).astype(np.intc)
        self.grouped = <const int *>cnp.PyArray_DATA(self.groups)

    cdef int factor(self, const double *data) noexcept nogil:
        """Set and factorise A, without products; return 0, or a positive number if it is singular."""
        self.rank = 0
        return self.lu.factor(data, False)

    cdef Py_ssize_t group_end(self, Py_ssize_t k) noexcept nogil:
        """Return the end of the group that begins at place k of `grouped`."""
        return self.grouped[self.n + k]

    cdef void add_product(self, const double *x, double *y, bint transposed) noexcept nogil:
        """Add the product of the matrix or its transpose with x to y."""
        cdef const int *to = self.lu.column_of if transposed else self.lu.row_of
        cdef const int *from_ = self.lu.row_of if transposed else self.lu.column_of
        cdef const double *left = self.right if transposed else self.left
        cdef const double *right = self.left if transposed else self.right
        cdef Py_ssize_t k, n = self.n
        for k in range(self.lu.nnz):
            y[to[k]] += self.lu.at_data[k] * x[from_[k]]
        for k in range(self.rank):
            add_multiple(n, dot(n, right + k * n, x), left + k * n, y)

    cdef void solve(self, double *b) noexcept nogil:
        cdef Py_ssize_t k
        self.lu.solve(b, False)
        for k in range(self.rank):
            self.correct(k, b)

    cdef void correct(self, Py_ssize_t k, double *b) noexcept nogil:
        """Solve with product k, given the solution without it."""
        cdef Py_ssize_t n = self.n
        add_multiple(n, -dot(n, self.right + k * n, b) * self.inverse[k], self.solved + k * n, b)

    cdef bint update(self, const double *u, const double *v, const double *solved) noexcept nogil:
        """Add the outer product of u and v, given the solution for u; return whether it fits and the sum is regular."""
        cdef Py_ssize_t n = self.n, place = self.rank * n
        cdef double divisor
        if self.rank == MAX_UPDATES:
            return False
        memcpy(self.left + place, u, n * sizeof(double))
        memcpy(self.right + place, v, n * sizeof(double))
        memcpy(self.solved + place, solved, n * sizeof(double))
        divisor = 1.0 + dot(n, v, self.solved + place)
        if not isfinite(divisor) or divisor == 0.0:
            return False
        self.inverse[self.rank] = 1.0 / divisor
        self.rank += 1
        return True


cdef inline double dot(Py_ssize_t n, const double *x, const double *y) noexcept nogil:
    cdef double a = 0.0, b = 0.0, c = 0.0, d = 0.0      # four sums, for the compiler to vectorise
    cdef Py_ssize_t i
    for i in range(0, n - 3, 4):
        a += x[i] * y[i]
        b += x[i + 1] * y[i + 1]
        c += x[i + 2] * y[i + 2]
        d += x[i + 3] * y[i + 3]
    for i in range(n - n % 4, n):
        a += x[i] * y[i]
    return a + b + c + d


cdef inline void add_multiple(Py_ssize_t n, double factor, const double *x, double *y) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        y[i] += factor * x[i]
