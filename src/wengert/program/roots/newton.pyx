# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Newton's method for systems of equations, damped by the natural monotonicity test.

A step is shortened until the simplified correction J(x)^-1 F(x + step) is smaller than the correction itself.  The test
does not depend on the units of the equations (Deuflhard 2004, algorithm NLEQ-ERR); it costs one evaluation of the
equations and one solve with the factors at hand.

Input: a `Problem`, which evaluates the equations and solves with their Jacobian, and a start.
Output: the solution, and a status; see `wengert.scipy.newton.MESSAGES`.

References
----------
Deuflhard (2004), Newton Methods for Nonlinear Problems, section 3.3. doi:10.1007/978-3-642-23899-4
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, fmax, fmin, isfinite, sqrt

import numpy as np

cnp.import_array()

MIN_DAMPING = 1e-8      # smallest fraction of a step that is tried
SCALE_FLOOR = 1e-3      # smallest scale of a component, relative to the largest component now or at the start


cdef class Problem:
    """Equations ``F(x) = 0`` for n unknowns."""

    cdef int value(self, const double *x, double *y, bint is_trial) except -1:
        """Compute F; at a trial point it may be undefined or overflow."""
        raise NotImplementedError

    cdef int factorise(self, const double *x) except -1:
        """Factorise the Jacobian; return whether it is singular."""
        raise NotImplementedError

    cdef int solve(self, double *b) except -1:
        """Solve with the last factors in place."""
        raise NotImplementedError


cdef class Called(Problem):
    """Equations and their Jacobian as Python functions.

    Parameters
    ----------
    value : callable
        Returns F(x).
    factorised : callable
        Returns the function that solves with the Jacobian at x, or None if it is singular.
    """

    cdef object f, factorised, solver

    def __init__(self, Py_ssize_t n, f, factorised):
        self.n, self.f, self.factorised = n, f, factorised

    cdef int value(self, const double *x, double *y, bint is_trial) except -1:
        if is_trial:
            with np.errstate(all="ignore"):
                found = self.f(array_of(x, self.n))
        else:
            found = self.f(array_of(x, self.n))
        return self.write(np.ravel(found), y)

    cdef int write(self, found, double *y) except -1:
        cdef const double[::1] given
        cdef Py_ssize_t i
        if found.size != self.n:
            raise ValueError(f"{found.size} equations for {self.n} unknowns")
        given = np.ascontiguousarray(found, float)
        for i in range(self.n):
            y[i] = given[i]
        return 0

    cdef int factorise(self, const double *x) except -1:
        self.solver = self.factorised(array_of(x, self.n))
        return self.solver is None

    cdef int solve(self, double *b) except -1:
        return self.write(self.solver(array_of(b, self.n)), b)


cdef cnp.ndarray array_of(const double *x, Py_ssize_t n):
    cdef cnp.npy_intp size = n
    cdef cnp.ndarray found = cnp.PyArray_SimpleNew(1, &size, cnp.NPY_DOUBLE)
    cdef double *to = <double *>cnp.PyArray_DATA(found)
    cdef Py_ssize_t i
    for i in range(n):
        to[i] = x[i]
    return found


cdef class Newton:
    """One run of Newton's method.

    Attributes
    ----------
    x, y : ndarray
        The last iterate, and the equations there.
    nfev, njev, nit : int
        Numbers of evaluations, of Jacobians and of steps.
    """

    def __init__(self, x0, double tol):
        self.x = np.array(x0, dtype=float).reshape(-1)
        self.n, self.tol = self.x.size, tol
        self.y, self.work = np.empty(self.n), np.empty(5 * self.n)
        self.at_x, self.at_y = <double *>cnp.PyArray_DATA(self.x), <double *>cnp.PyArray_DATA(self.y)
        self.step = <double *>cnp.PyArray_DATA(self.work)
        self.simplified, self.scale = self.step + self.n, self.step + 2 * self.n
        self.trial_x, self.trial_y = self.step + 3 * self.n, self.step + 4 * self.n

    def solve(self, Problem problem, Py_ssize_t maxiter, callback=None):
        """Iterate until convergence or failure; return the status."""
        return self.iterate(problem, maxiter, callback)

    cdef int iterate(self, Problem problem, Py_ssize_t maxiter, callback) except -1:
        cdef Py_ssize_t i, n = self.n
        cdef double damping = 1.0, size, floor, least
        self.nfev, self.njev, self.nit = 1, 0, 0
        problem.value(self.at_x, self.at_y, False)
        floor = SCALE_FLOOR * largest(n, self.at_x)
        while not all_zero(n, self.at_y):
            if self.nit == maxiter:
                return 2
            self.nit += 1
            self.njev += 1
            if self.nit % 16 == 0:
                PyErr_CheckSignals()
            if problem.factorise(self.at_x):
                return 3
            negated(n, self.at_y, self.step)
            problem.solve(self.step)
            if not all_finite(n, self.step):
                return 3
            least = fmax(floor, SCALE_FLOOR * largest(n, self.at_x))
            if least == 0.0:
                least = 1.0
            for i in range(n):
                self.scale[i] = fmax(fabs(self.at_x[i]), least)
            size = scaled_norm(n, self.step, self.scale)
            if size <= self.tol:
                self.move(problem, self.step)
                return 1
            if self.nit > 1 and damping < 1:
                damping = self.predicted(size, damping)
            damping = self.damped(problem, size, damping)
            if damping == 0.0:
                return 4
            self.last, self.last_simplified = size, scaled_norm(n, self.simplified, self.scale)
            if damping == 1 and self.last_simplified <= self.tol:
                self.move(problem, self.simplified)
                return 1
            if callback is not None:
                callback(self.x.copy(), self.y.copy())
        return 1

    cdef double predicted(self, double size, double damping) noexcept nogil:
        """Estimate the damping of this step from the change of the correction in the last one."""
        cdef double change = 0.0, d
        cdef Py_ssize_t i
        for i in range(self.n):
            d = (self.simplified[i] - self.step[i]) / self.scale[i]
            change += d * d
        change = sqrt(change / self.n)
        if not change * size > 0:
            return 1.0
        return fmin(1.0, damping * self.last * self.last_simplified / (change * size))

    cdef double damped(self, Problem problem, double size, double damping) except -2:
        """Move along the step as far as the monotonicity test allows; return the damping, 0 if there is no progress."""
        cdef Py_ssize_t i, n = self.n
        cdef double excess, d
        while damping >= MIN_DAMPING:
            for i in range(n):
                self.trial_x[i] = self.at_x[i] + damping * self.step[i]
            problem.value(self.trial_x, self.trial_y, True)
            self.nfev += 1
            if all_finite(n, self.trial_y):
                negated(n, self.trial_y, self.simplified)
                problem.solve(self.simplified)
                if all_finite(n, self.simplified):
                    if scaled_norm(n, self.simplified, self.scale) <= (1 - damping / 4) * size:
                        for i in range(n):
                            self.at_x[i], self.at_y[i] = self.trial_x[i], self.trial_y[i]
                        return damping
                    excess = 0.0
                    for i in range(n):
                        d = (self.simplified[i] - (1 - damping) * self.step[i]) / self.scale[i]
                        excess += d * d
                    excess = sqrt(excess / n)
                    damping = fmax(fmin(0.5 * size * damping * damping / excess, damping / 2), damping / 10)
                    continue
            damping /= 2
        return 0.0

    cdef int move(self, Problem problem, const double *step) except -1:
        """Take the last step without a monotonicity test, which rounding errors of x would decide."""
        cdef Py_ssize_t i
        for i in range(self.n):
            self.at_x[i] += step[i]
        problem.value(self.at_x, self.at_y, False)
        self.nfev += 1
        return 0


cdef void negated(Py_ssize_t n, const double *x, double *y) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        y[i] = -x[i]


cdef bint all_zero(Py_ssize_t n, const double *x) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if x[i] != 0.0:
            return False
    return True


cdef bint all_finite(Py_ssize_t n, const double *x) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if not isfinite(x[i]):
            return False
    return True


cdef double largest(Py_ssize_t n, const double *x) noexcept nogil:
    cdef Py_ssize_t i
    cdef double most = 0.0
    for i in range(n):
        most = fmax(most, fabs(x[i]))
    return most


cdef double scaled_norm(Py_ssize_t n, const double *x, const double *scale) noexcept nogil:
    """Return the root mean square of the elements, relative to the scales."""
    cdef double total = 0.0, d
    cdef Py_ssize_t i
    for i in range(n):
        d = x[i] / scale[i]
        total += d * d
    return sqrt(total / n)
