# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""LU factors of the matrices of implicit methods, which are combinations of the identity and of Jacobians.

Data
    Factor          interface: a matrix is set from the nonzeros of Jacobians, and factorised
    Dense           LAPACK's factors, called from C through the functions that SciPy exports
    Sparse          sparse factors, with the column order of a `Pattern`

The sparse factors are left-looking (Gilbert and Peierls).  The first factorisation selects pivots, on the diagonal if
that is not much smaller than the largest entry of the column, and finds the nonzeros of both factors.  Later ones
compute these nonzeros with the same pivots, as KLU does, until a pivot becomes too small; then new ones are selected.

References
----------
Gilbert and Peierls (1988), Sparse partial pivoting in time proportional to arithmetic operations. doi:10.1137/0909058
Davis (2006), Direct Methods for Sparse Linear Systems, chapter 6.
Davis and Palamadai Natarajan (2010), Algorithm 907: KLU. doi:10.1145/1824801.1824814
"""

cimport numpy as cnp
from libc.math cimport INFINITY, fabs
from libc.string cimport memset

import numpy as np

from wengert.errors import GuardError

include "../lapack.pxi"

cnp.import_array()


cdef fused number:
    double
    double complex

cdef double MIN_PIVOT = 1e-2        # minimum size of a diagonal pivot, relative to the largest entry of its column
cdef double MIN_KEPT_PIVOT = 1e-3   # the same for a pivot that was selected earlier


cdef getrf real_factor = <getrf>exported("dgetrf"), complex_factor = <getrf>exported("zgetrf")
cdef getrs real_solve = <getrs>exported("dgetrs"), complex_solve = <getrs>exported("zgetrs")


cdef int *ints(cnp.ndarray array) noexcept nogil:
    return <int *>cnp.PyArray_DATA(array)


cdef Factor factor_of(pattern, bint is_complex, int stages=1):
    """Return a `Factor` for the pattern of a Jacobian J, or of ``A x J`` where the matrix A has size `stages`."""
    return (Sparse if pattern.is_sparse else Dense)(pattern, is_complex, stages)


cdef class Factor:
    """LU factors of a matrix; complex numbers are pairs of doubles.

    Parameters
    ----------
    pattern : Pattern
        The nonzeros of the Jacobians.
    is_complex : bool
    stages : int
        Number of block rows and of block columns.
    """

    def __init__(self, pattern, bint is_complex, int stages):
        self.n, self.is_complex, self.count = stages * pattern.n, is_complex, pattern.count
        self.allocate(pattern, stages)
        self.a = <double *>cnp.PyArray_DATA(self.memory)

    def allocate(self, pattern, int stages):
        """Allocate `memory`; set the positions in it of the nonzeros of all blocks and of the diagonal."""
        raise NotImplementedError

    cdef int combine(self, const double *values, double scale, double real, double imag) except -1:
        """Factorise a multiple of a Jacobian plus a multiple of the identity."""
        self.clear(real, imag)
        self.add(0, values, scale)
        return self.factor()

    cdef void clear(self, double real, double imag) noexcept nogil:
        """Set the matrix to a multiple of the identity."""
        cdef const int *diagonal = ints(self.diagonal)
        cdef Py_ssize_t i, size = cnp.PyArray_SIZE(self.memory)
        memset(self.a, 0, (2 if self.is_complex else 1) * size * sizeof(double))
        for i in range(self.n):
            if self.is_complex:
                self.a[2 * diagonal[i]], self.a[2 * diagonal[i] + 1] = real, imag
            else:
                self.a[diagonal[i]] = real

    cdef void add(self, Py_ssize_t block, const double *values, double scale) noexcept nogil:
        """Add a multiple of a Jacobian, given its nonzeros by rows, to a block."""
        cdef const int *where = ints(self.where) + block * self.count
        cdef Py_ssize_t k
        if self.is_complex:
            for k in range(self.count):
                self.a[2 * where[k]] += scale * values[k]
        else:
            for k in range(self.count):
                self.a[where[k]] += scale * values[k]

    cdef int factor(self) except -1:
        """Factorise the matrix."""
        raise NotImplementedError

    cdef int solve(self, double *b, bint transposed, int count=1) noexcept nogil:
        """Solve the equations, or those with the transposed matrix (not conjugated), for `count` vectors in place."""
        return 1

    def solution(self, values, scale, diagonal, b, bint transposed=False):
        """Solve with a multiple of a Jacobian plus a multiple of the identity, for each row of `b`."""
        cdef cnp.ndarray nonzeros = np.ascontiguousarray(values, dtype=float)
        cdef cnp.ndarray x = np.array(b, dtype=complex if self.is_complex else float, order="C")
        self.combine(<double *>cnp.PyArray_DATA(nonzeros), scale, diagonal.real, diagonal.imag)
        self.solve(<double *>cnp.PyArray_DATA(x), transposed, x.size // self.n)
        return x


cdef class Dense(Factor):
    """LAPACK's factors of a dense matrix in C order."""

    cdef cnp.ndarray pivots

    def allocate(self, pattern, int stages):
        self.memory = np.zeros((self.n, self.n), complex if self.is_complex else float)
        self.where, self.diagonal = pattern.dense_places(stages)
        self.pivots = np.zeros(self.n, np.intc)

    cdef int factor(self) except -1:
        cdef int info = 0
        (complex_factor if self.is_complex else real_factor)(
            &self.n, &self.n, self.a, &self.n, ints(self.pivots), &info)
        if info > 0:
            raise GuardError("the equations of a step are singular")
        return 0

    cdef int solve(self, double *b, bint transposed, int count=1) noexcept nogil:
        cdef int info = 0
        cdef char trans = b"N" if transposed else b"T"      # LAPACK sees the transpose of a matrix in C order
        (complex_solve if self.is_complex else real_solve)(
            &trans, &self.n, &count, self.a, &self.n, ints(self.pivots), b, &self.n, &info)
        return info


cdef class Sparse(Factor):
    """Factors with ``A[p[i], q[j]] = (L U)[i, j]``, whose columns are stored one after the other.

    L has a unit diagonal.  Neither diagonal is stored; `inverses` holds the reciprocals of U's.  After a factorisation,
    the row indices of L and U, and `rows` of the matrix, refer to the order of the pivots.
    """

    cdef cnp.ndarray starts, given_rows, rows           # of the matrix, by columns in the order `q`
    cdef cnp.ndarray p, q, place                        # permutations of rows and columns; inverse of `p`, or -1
    cdef cnp.ndarray lower_starts, lower_rows, lower    # L
    cdef cnp.ndarray upper_starts, upper_rows, upper    # U
    cdef cnp.ndarray inverses, x                        # reciprocal pivots; a work space of zeros
    cdef cnp.ndarray stack, positions, marks, found     # work spaces of the search
    cdef bint has_pivots

    def allocate(self, pattern, int stages):
        n, kind = self.n, complex if self.is_complex else float
        self.starts, self.given_rows, self.where, self.diagonal, self.q = pattern.sparse_places(stages)
        self.memory = np.zeros(len(self.given_rows), kind)
        self.rows = self.given_rows.copy()
        self.p, self.place, self.stack, self.positions, self.marks, self.found = np.zeros((6, n), np.intc)
        self.lower_starts, self.upper_starts = np.zeros((2, n + 1), np.intc)
        size = 4 * len(self.given_rows) + n
        self.lower_rows, self.upper_rows = np.zeros(size, np.intc), np.zeros(size, np.intc)
        self.lower, self.upper = np.zeros(size, kind), np.zeros(size, kind)
        self.inverses, self.x = np.zeros(n, kind), np.zeros(n, kind)
        self.has_pivots = False

    cdef int factor(self) except -1:
        cdef bint is_done = False
        if self.has_pivots:
            is_done = again(self, <double complex *>self.a) if self.is_complex else again(self, self.a)
        if not is_done:
            if self.is_complex:
                select_pivots(self, <double complex *>self.a)
            else:
                select_pivots(self, self.a)
        return 0

    cdef int solve(self, double *b, bint transposed, int count=1) noexcept nogil:
        cdef Py_ssize_t k
        for k in range(count):
            if self.is_complex:
                solve_one(self, <double complex *>b + k * self.n, transposed)
            else:
                solve_one(self, b + k * self.n, transposed)
        return 0

    cdef int reserve(self, Py_ssize_t lower, Py_ssize_t upper) except -1:
        """Make space for a column, given the numbers of nonzeros of L and U."""
        if lower + self.n > self.lower.shape[0]:
            self.lower_rows, self.lower = longer(self.lower_rows, self.n), longer(self.lower, self.n)
        if upper + self.n > self.upper.shape[0]:
            self.upper_rows, self.upper = longer(self.upper_rows, self.n), longer(self.upper, self.n)
        return 0


cdef cnp.ndarray longer(cnp.ndarray x, Py_ssize_t more):
    return np.concatenate([x, np.zeros(x.shape[0] + more, x.dtype)])


cdef inline double size_of(number x) noexcept nogil:
    """Return the magnitude of a number, by which pivots are compared."""
    if number is double:
        return fabs(x)
    else:
        return fabs(x.real) + fabs(x.imag)


cdef inline void subtract(number *x, number a, number b) noexcept nogil:
    """Subtract a product, without the checks for infinities in C's complex multiplication."""
    if number is double:
        x[0] -= a * b
    else:
        x[0].real -= a.real * b.real - a.imag * b.imag
        x[0].imag -= a.real * b.imag + a.imag * b.real


cdef bint again(Sparse s, number *a) noexcept nogil:
    """Factorise with the pivots of an earlier matrix; return False if one of them is too small."""
    cdef const int *starts = ints(s.starts)
    cdef const int *rows = ints(s.rows)
    cdef const int *lower_starts = ints(s.lower_starts)
    cdef const int *lower_rows = ints(s.lower_rows)
    cdef const int *upper_starts = ints(s.upper_starts)
    cdef const int *upper_rows = ints(s.upper_rows)
    cdef number *lower = <number *>cnp.PyArray_DATA(s.lower)
    cdef number *upper = <number *>cnp.PyArray_DATA(s.upper)
    cdef number *inverses = <number *>cnp.PyArray_DATA(s.inverses)
    cdef number *x = <number *>cnp.PyArray_DATA(s.x)
    cdef number inverse
    cdef double largest, own
    cdef int j, k, r, t
    for k in range(s.n):
        for t in range(starts[k], starts[k + 1]):
            x[rows[t]] = a[t]
        for t in range(upper_starts[k], upper_starts[k + 1]):
            j = upper_rows[t]
            upper[t] = x[j]
            x[j] = 0.0
            for r in range(lower_starts[j], lower_starts[j + 1]):
                subtract(x + lower_rows[r], lower[r], upper[t])
        own = size_of(x[k])
        largest = own
        for r in range(lower_starts[k], lower_starts[k + 1]):
            if size_of(x[lower_rows[r]]) > largest:
                largest = size_of(x[lower_rows[r]])
        if not (own > 0.0 and own >= MIN_KEPT_PIVOT * largest and largest < INFINITY):
            memset(x, 0, s.n * sizeof(number))
            return False
        inverse = 1.0 / x[k]
        inverses[k], x[k] = inverse, 0.0
        for r in range(lower_starts[k], lower_starts[k + 1]):
            j = lower_rows[r]
            lower[r] = 0.0
            subtract(lower + r, -x[j], inverse)
            x[j] = 0.0
    return True


cdef int select_pivots(Sparse s, number *a) except -1:
    cdef const int *starts = ints(s.starts)
    cdef const int *given_rows = ints(s.given_rows)
    cdef const int *q = ints(s.q)
    cdef int *p = ints(s.p)
    cdef int *place = ints(s.place)
    cdef int *found = ints(s.found)
    cdef int *lower_starts = ints(s.lower_starts)
    cdef int *upper_starts = ints(s.upper_starts)
    cdef int *lower_rows
    cdef int *upper_rows
    cdef number *lower
    cdef number *upper
    cdef number *inverses = <number *>cnp.PyArray_DATA(s.inverses)
    cdef number *x = <number *>cnp.PyArray_DATA(s.x)
    cdef number inverse
    cdef double largest
    cdef int first, i, j, k, pivot, r, t, of_lower = 0, of_upper = 0
    s.has_pivots = False
    memset(x, 0, s.n * sizeof(number))
    memset(ints(s.marks), 0, s.n * sizeof(int))
    for i in range(s.n):
        place[i] = -1
    for k in range(s.n):
        s.reserve(of_lower, of_upper)
        lower_rows, lower = ints(s.lower_rows), <number *>cnp.PyArray_DATA(s.lower)
        upper_rows, upper = ints(s.upper_rows), <number *>cnp.PyArray_DATA(s.upper)
        lower_starts[k], upper_starts[k] = of_lower, of_upper
        first = search(s, k)
        for t in range(starts[k], starts[k + 1]):
            x[given_rows[t]] = a[t]
        largest, pivot = 0.0, -1
        for t in range(first, s.n):                     # rows in topological order
            i = found[t]
            j = place[i]
            if j < 0:
                if not size_of(x[i]) < INFINITY:        # or NaN
                    raise GuardError("the Jacobian of the right-hand side is not finite")
                if size_of(x[i]) > largest:
                    largest, pivot = size_of(x[i]), i
                continue
            upper_rows[of_upper] = j
            of_upper += 1
            for r in range(lower_starts[j], lower_starts[j + 1]):
                subtract(x + lower_rows[r], lower[r], x[i])
        if pivot < 0:
            raise GuardError("the equations of a step are singular")
        if place[q[k]] < 0 and size_of(x[q[k]]) >= MIN_PIVOT * largest:
            pivot = q[k]
        inverse = 1.0 / x[pivot]
        p[k], place[pivot], inverses[k] = pivot, k, inverse
        sort(upper_rows + upper_starts[k], of_upper - upper_starts[k])
        for t in range(upper_starts[k], of_upper):
            upper[t] = x[p[upper_rows[t]]]
        for t in range(first, s.n):
            i = found[t]
            if place[i] < 0:
                lower_rows[of_lower], lower[of_lower] = i, 0.0
                subtract(lower + of_lower, -x[i], inverse)
                of_lower += 1
            x[i] = 0.0
        lower_starts[k + 1], upper_starts[k + 1] = of_lower, of_upper
    for t in range(of_lower):
        lower_rows[t] = place[lower_rows[t]]
    for t in range(starts[s.n]):
        ints(s.rows)[t] = place[given_rows[t]]
    s.has_pivots = True
    return 0


cdef int search(Sparse s, int k) noexcept nogil:
    """Find the nonzeros of ``L \\ A[:, k]`` by depth-first search; return where they start in `found`."""
    cdef const int *starts = ints(s.starts)
    cdef const int *rows = ints(s.given_rows)
    cdef const int *lower_starts = ints(s.lower_starts)
    cdef const int *lower_rows = ints(s.lower_rows)
    cdef const int *place = ints(s.place)
    cdef int *stack = ints(s.stack)
    cdef int *positions = ints(s.positions)
    cdef int *marks = ints(s.marks)
    cdef int *found = ints(s.found)
    cdef int top = s.n, depth, i, j, t
    for t in range(starts[k], starts[k + 1]):
        if marks[rows[t]] == k + 1:
            continue
        depth, stack[0] = 0, rows[t]
        while depth >= 0:
            i = stack[depth]
            j = place[i]
            if marks[i] != k + 1:
                marks[i] = k + 1
                positions[depth] = 0 if j < 0 else lower_starts[j]
            while j >= 0 and positions[depth] < lower_starts[j + 1] and marks[lower_rows[positions[depth]]] == k + 1:
                positions[depth] += 1
            if j >= 0 and positions[depth] < lower_starts[j + 1]:
                stack[depth + 1] = lower_rows[positions[depth]]
                depth += 1
            else:
                top -= 1
                found[top] = i
                depth -= 1
    return top


cdef void sort(int *x, int n) noexcept nogil:
    cdef int i, j, own
    for i in range(1, n):
        own, j = x[i], i - 1
        while j >= 0 and x[j] > own:
            x[j + 1] = x[j]
            j -= 1
        x[j + 1] = own


cdef void solve_one(Sparse s, number *b, bint transposed) noexcept nogil:
    cdef const int *p = ints(s.p)
    cdef const int *q = ints(s.q)
    cdef const int *lower_starts = ints(s.lower_starts)
    cdef const int *lower_rows = ints(s.lower_rows)
    cdef const int *upper_starts = ints(s.upper_starts)
    cdef const int *upper_rows = ints(s.upper_rows)
    cdef const number *lower = <const number *>cnp.PyArray_DATA(s.lower)
    cdef const number *upper = <const number *>cnp.PyArray_DATA(s.upper)
    cdef const number *inverses = <const number *>cnp.PyArray_DATA(s.inverses)
    cdef number *x = <number *>cnp.PyArray_DATA(s.x)
    cdef number own
    cdef int i, k, t, n = s.n
    if transposed:
        for k in range(n):
            own = b[q[k]]
            for t in range(upper_starts[k], upper_starts[k + 1]):
                subtract(&own, upper[t], x[upper_rows[t]])
            x[k] = 0.0
            subtract(x + k, -own, inverses[k])
        for k in range(n - 1, -1, -1):
            for t in range(lower_starts[k], lower_starts[k + 1]):
                subtract(x + k, lower[t], x[lower_rows[t]])
        for i in range(n):
            b[p[i]] = x[i]
    else:
        for i in range(n):
            x[i] = b[p[i]]
        for k in range(n):
            for t in range(lower_starts[k], lower_starts[k + 1]):
                subtract(x + lower_rows[t], lower[t], x[k])
        for k in range(n - 1, -1, -1):
            own = 0.0
            subtract(&own, -x[k], inverses[k])
            x[k] = own
            for t in range(upper_starts[k], upper_starts[k + 1]):
                subtract(x + upper_rows[t], upper[t], own)
        for i in range(n):
            b[q[i]] = x[i]
    memset(x, 0, n * sizeof(number))
