# A lane, included: one of many small systems, and the factors of its Jacobian.

from libc.math cimport fabs, isfinite, sqrt

cdef enum:
    SMALL = 4                           # maximum number of unknowns for which loops are unrolled


cdef struct Lane:
    int state
    Py_ssize_t member, nit
    double damping, floor
    double size, last, last_simplified  # squared norms
    double *x
    double *step
    double *simplified
    double *inverse_scale
    double *inverse_pivots
    double *matrix
    int *pivots


cdef inline double larger(double a, double b) noexcept nogil:
    return a if a > b else b


cdef inline double smaller(double a, double b) noexcept nogil:
    return a if a < b else b


cdef inline bint factor_lane(Py_ssize_t n, Lane *at) noexcept nogil:
    """Factorise the Jacobian, stored by rows, in place; return whether it is singular.

    Pivots are inverted once: divisions would take most of the time of a step.
    """
    cdef Py_ssize_t i, j, k, best
    cdef double most, factor
    cdef double *a = at.matrix
    if n <= SMALL:
        return factor_small(n, at)
    for k in range(n):
        best, most = k, fabs(a[k * n + k])
        for i in range(k + 1, n):
            if fabs(a[i * n + k]) > most:
                best, most = i, fabs(a[i * n + k])
        if most == 0.0:
            return True
        at.pivots[k] = <int>best
        if best != k:
            for j in range(n):
                a[k * n + j], a[best * n + j] = a[best * n + j], a[k * n + j]
        at.inverse_pivots[k] = 1.0 / a[k * n + k]
        for i in range(k + 1, n):
            factor = a[i * n + k] * at.inverse_pivots[k]
            a[i * n + k] = factor
            for j in range(k + 1, n):
                a[i * n + j] -= factor * a[k * n + j]
    return False


cdef inline bint factor_small(Py_ssize_t n, Lane *at) noexcept nogil:
    """Like `factor_lane`, on a copy that the compiler can keep in registers, as rows are not indexed by pivots."""
    cdef Py_ssize_t i, j, k, best
    cdef double most, factor, inverse, x
    cdef double a[SMALL * SMALL]
    for i in range(n * n):
        a[i] = at.matrix[i]
    for k in range(n):
        best, most = k, fabs(a[k * n + k])
        for i in range(k + 1, n):
            x = fabs(a[i * n + k])
            best, most = (i if x > most else best), (x if x > most else most)
        if most == 0.0:
            return True
        at.pivots[k] = <int>best
        for i in range(k + 1, n):
            if i == best:
                for j in range(n):
                    x = a[k * n + j]
                    a[k * n + j] = a[i * n + j]
                    a[i * n + j] = x
        inverse = 1.0 / a[k * n + k]
        at.inverse_pivots[k] = inverse
        for i in range(k + 1, n):
            factor = a[i * n + k] * inverse
            a[i * n + k] = factor
            for j in range(k + 1, n):
                a[i * n + j] -= factor * a[k * n + j]
    for i in range(n * n):
        at.matrix[i] = a[i]
    return False


cdef inline void solve_lane(Py_ssize_t n, const Lane *at, double *b) noexcept nogil:
    """Solve with the factors of `factor_lane` in place."""
    if n <= SMALL:
        solve_small(n, at, b)
        return
    cdef Py_ssize_t i, k
    cdef double x
    cdef const double *a = at.matrix
    for k in range(n):
        b[k], b[at.pivots[k]] = b[at.pivots[k]], b[k]
    for k in range(n):
        x = b[k]
        for i in range(k):
            x -= a[k * n + i] * b[i]
        b[k] = x
    for k in range(n - 1, -1, -1):
        x = b[k]
        for i in range(k + 1, n):
            x -= a[k * n + i] * b[i]
        b[k] = x * at.inverse_pivots[k]


cdef inline void solve_small(Py_ssize_t n, const Lane *at, double *b) noexcept nogil:
    """Like `solve_lane`, on a copy."""
    cdef Py_ssize_t i, k
    cdef double x
    cdef double y[SMALL]
    cdef const double *a = at.matrix
    for k in range(n):
        y[k] = b[k]
    for k in range(n):
        for i in range(k + 1, n):
            if i == at.pivots[k]:
                x = y[k]
                y[k] = y[i]
                y[i] = x
    for k in range(n):
        for i in range(k):
            y[k] -= a[k * n + i] * y[i]
    for k in range(n - 1, -1, -1):
        for i in range(k + 1, n):
            y[k] -= a[k * n + i] * y[i]
        y[k] *= at.inverse_pivots[k]
    for k in range(n):
        b[k] = y[k]
