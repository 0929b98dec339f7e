# Interface of newton.pyx, for equations that are programs.

cimport numpy as cnp


cdef class Problem:
    cdef readonly Py_ssize_t n

    cdef int value(self, const double *x, double *y, bint is_trial) except -1
    cdef int factorise(self, const double *x) except -1
    cdef int solve(self, double *b) except -1


cdef class Newton:
    cdef readonly Py_ssize_t nfev, njev, nit
    cdef readonly double tol
    cdef readonly cnp.ndarray x, y
    cdef Py_ssize_t n
    cdef cnp.ndarray work
    cdef double *at_x
    cdef double *at_y
    cdef double *step
    cdef double *simplified
    cdef double *scale
    cdef double *trial_x
    cdef double *trial_y
    cdef double last, last_simplified

    cdef int iterate(self, Problem problem, Py_ssize_t maxiter, callback) except -1
    cdef double predicted(self, double size, double damping) noexcept nogil
    cdef double damped(self, Problem problem, double size, double damping) except -2
    cdef int move(self, Problem problem, const double *step) except -1


cdef double MIN_DAMPING, SCALE_FLOOR
