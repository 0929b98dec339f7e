# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Newton's and MINPACK's methods for many small systems that differ in the values they read, and SciPy's methods for
scalar equations.

One run of a batched program evaluates the equations and Jacobians of a block of systems, one per lane.  Each lane
follows the method of `wengert.program.roots.newton`, so that it finds the same root.  Once its system is solved, a lane
takes the next one; thus all lanes are busy until no systems are waiting.
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, isfinite, sqrt
from libc.string cimport memcpy

from wengert.program.roots.linear cimport LU
from wengert.program.roots.newton cimport MIN_DAMPING, SCALE_FLOOR
from wengert.program.vm.runner cimport Repeated

import numpy as np

include "checks.pxi"
include "scalars.pxi"
include "lane.pxi"

cnp.import_array()

cdef double EPS = np.finfo(float).eps

include "hybrid.pxi"

cdef enum:
    IDLE, STARTING, STEPPING            # states of a lane


cdef class Lanes:
    """Lanes bound to a batched program.

    Parameters
    ----------
    program : Program
        Maps ``z``, of shape (k, width), and a vector of shared values to an array of shape (n + n * n, width), or
        (n, width) for methods without Jacobians.  A column of ``z`` holds the unknowns of a system and the values that
        differ between systems; a column of the result holds its equations and its Jacobian.
    n : int
        Number of unknowns.
    width : int
        Number of lanes.
    """

    cdef readonly Py_ssize_t n, width
    cdef cnp.ndarray z, shared, found, work, pivots
    cdef Repeated run
    cdef Py_ssize_t runs
    cdef Lane lanes[256]
    cdef Check checks[256]
    cdef Scalar scalars[256]
    cdef list factors                   # by lane, for the checks
    cdef cnp.ndarray check_work, hybrid_work

    def __init__(self, program, Py_ssize_t n, Py_ssize_t width):
        cdef Py_ssize_t k, size = 5 * n + n * n
        cdef double *w
        if width > 256:
            raise ValueError("too many lanes")
        self.n, self.width = n, width
        inputs = [np.zeros_like(x) for x in program._example]
        self.z = inputs[0]
        self.shared = inputs[1] if len(inputs) > 1 else None
        self.found, self.work = np.zeros(program._output_shape), np.zeros((width, size))
        self.pivots = np.zeros((width, n), np.intc)
        for k in range(width):
            w = <double *>cnp.PyArray_DATA(self.work) + k * size
            self.lanes[k].x, self.lanes[k].step, self.lanes[k].simplified = w, w + n, w + 2 * n
            self.lanes[k].inverse_scale, self.lanes[k].inverse_pivots = w + 3 * n, w + 4 * n
            self.lanes[k].matrix = w + 5 * n
            self.lanes[k].pivots = <int *>cnp.PyArray_DATA(self.pivots) + k * n
        self.run = program._vm.bound(inputs, [self.found])

    def settle(self):
        """Report the runs to the VM; return whether these lanes can be used again."""
        is_due = self.run.count(self.runs)
        self.runs = 0
        if is_due:
            self.run.release()
        return not is_due

    def solve(self, cnp.ndarray rows, shared, double tol, Py_ssize_t maxiter, cnp.ndarray out, cnp.ndarray statuses):
        """Solve all systems; write the roots to `out` and the statuses of Newton's method.

        Returns
        -------
        bool
            False if a guard of the program fails: the systems take different branches.

        Parameters
        ----------
        rows : ndarray, shape (count, k)
            Start of each system, and the values that differ between systems.
        shared : ndarray or None
            The values that all systems share.
        """
        cdef Py_ssize_t count = rows.shape[0], k = rows.shape[1], next = 0, lane, n = self.n, busy, i
        cdef const double *given = <const double *>cnp.PyArray_DATA(rows)
        cdef double *z = <double *>cnp.PyArray_DATA(self.z)
        cdef const double *found = <const double *>cnp.PyArray_DATA(self.found)
        cdef double *roots = <double *>cnp.PyArray_DATA(out)
        cdef int *status = <int *>cnp.PyArray_DATA(statuses)
        cdef int ended
        cdef Lane *at
        next = self.start_all(count, shared, given, k, z)
        while True:
            if self.has_failed_guard():
                return False
            busy = 0
            for lane in range(self.width):
                at = &self.lanes[lane]
                if at.state == IDLE:
                    continue
                if n == 1:                          # the compiler unrolls the loops over constant sizes
                    ended = advance(1, at, z + lane, found + lane, self.width, tol, maxiter)
                elif n == 2:
                    ended = advance(2, at, z + lane, found + lane, self.width, tol, maxiter)
                elif n == 3:
                    ended = advance(3, at, z + lane, found + lane, self.width, tol, maxiter)
                elif n == 4:
                    ended = advance(4, at, z + lane, found + lane, self.width, tol, maxiter)
                else:
                    ended = advance(n, at, z + lane, found + lane, self.width, tol, maxiter)
                if ended:
                    for i in range(n):
                        roots[at.member * n + i] = at.x[i]
                    status[at.member] = ended
                    self.start(lane, next if next < count else -1, given, k, z)
                    next += 1
                busy += at.state != IDLE
            if not busy:
                return True

    cdef bint has_failed_guard(self) except -1:
        """Evaluate the equations of all lanes; return whether a guard has failed."""
        self.runs += 1
        if self.runs % 64 == 0:
            PyErr_CheckSignals()
        return self.run.again() >= 0

    def solve_scalars(self, str method, cnp.ndarray rows, shared, cnp.ndarray ends, double xtol, double rtol,
                      Py_ssize_t maxiter, cnp.ndarray out, cnp.ndarray statuses):
        """Solve equations with one unknown by one of `SCALAR_METHODS`; see `solve` for the other parameters.

        `ends` has the other end of each bracket, or the second start of the secant method.
        """
        cdef Py_ssize_t count = rows.shape[0], k = rows.shape[1], next = 0, lane, busy, width = self.width
        cdef const double *given = <const double *>cnp.PyArray_DATA(rows)
        cdef const double *other = <const double *>cnp.PyArray_DATA(ends)
        cdef double *z = <double *>cnp.PyArray_DATA(self.z)
        cdef const double *found = <const double *>cnp.PyArray_DATA(self.found)
        cdef double *roots = <double *>cnp.PyArray_DATA(out)
        cdef int *status = <int *>cnp.PyArray_DATA(statuses)
        cdef int code = set_method(&self.scalars[0], method, xtol, rtol, maxiter), ended
        cdef Scalar *s
        if self.n != 1 or (code == NEWTON and self.found.shape[0] < 2):
            raise ValueError("these lanes are for other equations")
        if self.shared is not None:
            self.shared[...] = shared
        for lane in range(width):
            set_method(&self.scalars[lane], method, xtol, rtol, maxiter)
            self.start(lane, next if next < count else -1, given, k, z)
            begin_scalar(&self.scalars[lane], z[lane], other[next] if next < count else 0.0)
            next += 1
        while True:
            if self.has_failed_guard():
                return False
            busy = 0
            for lane in range(width):
                if self.lanes[lane].state == IDLE:
                    continue
                s = &self.scalars[lane]
                ended = advance_scalar(s, found[lane], found[width + lane] if code == NEWTON else 0.0)
                z[lane] = s.x
                if ended:
                    roots[self.lanes[lane].member] = s.x
                    status[self.lanes[lane].member] = ended
                    self.start(lane, next if next < count else -1, given, k, z)
                    begin_scalar(s, z[lane], other[next] if next < count else 0.0)
                    next += 1
                busy += self.lanes[lane].state != IDLE
            if not busy:
                return True

    def solve_hybrid(self, cnp.ndarray rows, shared, double xtol, Py_ssize_t maxfev, double factor, double difference,
                     cnp.ndarray out, cnp.ndarray statuses):
        """Solve all systems by MINPACK's hybrid method; see `solve` for the other parameters.

        Lanes without Jacobians take finite differences, relative to x. A status other than 1 means that MINPACK may
        not converge.
        """
        cdef Py_ssize_t count = rows.shape[0], k = rows.shape[1], next = 0, lane, n = self.n, busy, i
        cdef const double *given = <const double *>cnp.PyArray_DATA(rows)
        cdef double *z = <double *>cnp.PyArray_DATA(self.z)
        cdef const double *found = <const double *>cnp.PyArray_DATA(self.found)
        cdef double *roots = <double *>cnp.PyArray_DATA(out)
        cdef int *status = <int *>cnp.PyArray_DATA(statuses)
        cdef Hybrid all[256]
        cdef Hybrid *s
        cdef Options options
        cdef int ended
        options.xtol, options.maxfev, options.factor, options.difference = xtol, maxfev, factor, difference
        options.has_slopes = self.found.shape[0] > n
        if self.hybrid_work is None:
            self.hybrid_work = np.zeros((self.width, VECTORS * n + n * n))
        for lane in range(self.width):
            set_memory(n, &all[lane], <double *>cnp.PyArray_DATA(self.hybrid_work) + lane * (VECTORS * n + n * n))
        next = self.start_all(count, shared, given, k, z)
        while True:
            if self.has_failed_guard():
                return False
            busy = 0
            for lane in range(self.width):
                s = &all[lane]
                if self.lanes[lane].state == IDLE:
                    continue
                if n == 2:                          # the compiler unrolls the loops over a constant size
                    ended = advance_hybrid(2, s, &self.lanes[lane], None, z + lane, found + lane, self.width,
                                           &options)
                else:
                    ended = advance_hybrid(n, s, &self.lanes[lane], None, z + lane, found + lane, self.width,
                                           &options)
                if ended:
                    for i in range(n):
                        roots[self.lanes[lane].member * n + i] = s.x[i]
                    status[self.lanes[lane].member] = ended
                    self.start(lane, next if next < count else -1, given, k, z)
                    s.stage = AT_START
                    next += 1
                busy += self.lanes[lane].state != IDLE
            if not busy:
                return True

    def check(self, linear, cnp.ndarray rows, shared, polish, limits, cnp.ndarray weights, cnp.ndarray out,
              cnp.ndarray accepted):
        """Check all roots before derivatives are taken; write the points of differentiation to `out`, set `accepted`.

        Other parameters and the result are those of `solve`, with the roots as starts; see `Bound.settled`.
        """
        cdef Py_ssize_t count = rows.shape[0], k = rows.shape[1], next = 0, lane, n = self.n, busy, i
        cdef const double *given = <const double *>cnp.PyArray_DATA(rows)
        cdef double *z = <double *>cnp.PyArray_DATA(self.z)
        cdef double *points = <double *>cnp.PyArray_DATA(out)
        cdef cnp.npy_bool *is_accepted = <cnp.npy_bool *>cnp.PyArray_DATA(accepted)
        cdef Limits kept = limits_of(polish, limits, <const double *>cnp.PyArray_DATA(weights), EPS)
        cdef Lane *at
        cdef Check *check
        self.prepare_checks(linear)
        next = self.start_all(count, shared, given, k, z)
        while True:
            if self.has_failed_guard():
                return False
            busy = 0
            for lane in range(self.width):
                at, check = &self.lanes[lane], &self.checks[lane]
                if at.state == IDLE:
                    continue
                if self.advance_check(lane, z + lane, &kept) > 0:
                    at.state = STEPPING
                    for i in range(n):
                        z[i * self.width + lane] = check.trial[i]
                else:
                    memcpy(points + at.member * n, check.x, n * sizeof(double))
                    is_accepted[at.member] = check.state == 0
                    self.start(lane, next if next < count else -1, given, k, z)
                    next += 1
                busy += at.state != IDLE
            if not busy:
                return True

    cdef int prepare_checks(self, linear) except -1:
        cdef Py_ssize_t lane, size = 7 * self.n + self.n * self.n
        if self.factors is None:
            self.check_work = np.zeros((self.width, size))
            for lane in range(self.width):
                lay_out(&self.checks[lane], self.n, <double *>cnp.PyArray_DATA(self.check_work) + lane * size)
            self.factors = [LU(linear) for _ in range(self.width)]
        return 0

    cdef int advance_check(self, Py_ssize_t lane, const double *z, const Limits *limits) noexcept:
        """Use the equations and their Jacobian at the trial point; return the state of the check."""
        cdef Check *check = &self.checks[lane]
        cdef Py_ssize_t i, n = self.n
        cdef const double *found = <const double *>cnp.PyArray_DATA(self.found) + lane
        cdef double *data = check.x + 7 * n
        if self.lanes[lane].state == STEPPING:
            for i in range(n):
                check.found[i] = found[i * self.width]
            return continue_check(check, n, <LU>self.factors[lane], limits)
        for i in range(n):
            check.x[i], check.y[i] = z[i * self.width], found[i * self.width]
        for i in range(n * n):
            data[i] = found[(n + i) * self.width]
        return begin_check(check, n, <LU>self.factors[lane], data, limits)

    cdef Py_ssize_t start_all(self, Py_ssize_t count, shared, const double *given, Py_ssize_t k, double *z) except -1:
        """Give each lane a system as long as there are any; return the index of the next system."""
        cdef Py_ssize_t lane
        if self.shared is not None:
            self.shared[...] = shared
        for lane in range(self.width):
            self.start(lane, lane if lane < count else -1, given, k, z)
        return self.width

    cdef void start(self, Py_ssize_t lane, Py_ssize_t member, const double *given, Py_ssize_t k, double *z) noexcept:
        """Start a system in a lane; an idle lane (member -1) repeats the first system."""
        cdef Lane *at = &self.lanes[lane]
        cdef Py_ssize_t i
        at.state = STARTING if member >= 0 else IDLE
        at.member, at.nit, at.damping = member, 0, 1.0
        given += (member if member >= 0 else 0) * k
        for i in range(k):
            z[i * self.width + lane] = given[i]


cdef inline int advance(Py_ssize_t n, Lane *at, double *z, const double *found, Py_ssize_t width, double tol,
                        Py_ssize_t maxiter) noexcept nogil:
    """Use the equations and their Jacobian at the trial point; return the final status, or 0 if there is none yet.

    Elements of the trial point `z` and of `found` are `width` apart.
    """
    cdef Py_ssize_t i
    cdef double excess = 0.0, d, damping = at.damping
    if at.state == STARTING:
        at.floor = 0.0
        for i in range(n):
            at.floor = larger(at.floor, SCALE_FLOOR * fabs(z[i * width]))
    else:
        for i in range(n):
            at.simplified[i] = -found[i * width]
        solve_lane(n, at, at.simplified)
        at.last_simplified = squared_norm(n, at.simplified, at.inverse_scale)
        if not isfinite(at.last_simplified):        # or the equations are not finite
            return shorter(n, at, z, width, damping / 2)
        if at.last_simplified > (1 - damping / 4) * (1 - damping / 4) * at.size:
            for i in range(n):
                d = (at.simplified[i] - (1 - damping) * at.step[i]) * at.inverse_scale[i]
                excess += d * d
            excess = sqrt(excess / n)
            d = larger(smaller(0.5 * sqrt(at.size) * damping * damping / excess, damping / 2), damping / 10)
            return shorter(n, at, z, width, d)
        at.last = at.size
        if damping == 1 and at.last_simplified <= tol * tol:
            for i in range(n):
                at.x[i] = z[i * width] + at.simplified[i]
            return 1
    for i in range(n):
        at.x[i] = z[i * width]
    return begun(n, at, z, found, width, tol, maxiter)


cdef inline int begun(Py_ssize_t n, Lane *at, double *z, const double *found, Py_ssize_t width, double tol,
                      Py_ssize_t maxiter) noexcept nogil:
    """Begin a step at `x`, given equations and Jacobian there; return the final status, or 0 if there is none yet."""
    cdef Py_ssize_t i
    cdef double least = at.floor, change = 0.0, d
    cdef bint is_root = True
    for i in range(n):
        at.step[i] = -found[i * width]
        is_root &= at.step[i] == 0.0
        least = larger(least, SCALE_FLOOR * fabs(at.x[i]))
    if is_root:
        return 1
    if at.nit == maxiter:
        return 2
    at.nit += 1
    for i in range(n * n):
        at.matrix[i] = found[(n + i) * width]
    if factor_lane(n, at):
        return 3
    solve_lane(n, at, at.step)
    if least == 0.0:
        least = 1.0
    for i in range(n):
        at.inverse_scale[i] = 1.0 / larger(fabs(at.x[i]), least)
    at.size = squared_norm(n, at.step, at.inverse_scale)
    if not isfinite(at.size):
        return 3
    if at.size <= tol * tol:
        for i in range(n):
            at.x[i] += at.step[i]
        return 1
    if at.nit > 1 and at.damping < 1:
        for i in range(n):
            d = (at.simplified[i] - at.step[i]) * at.inverse_scale[i]
            change += d * d
        change = sqrt(change / n * at.size)
        if change > 0:
            at.damping = smaller(1.0, at.damping * sqrt(at.last * at.last_simplified) / change)
        else:
            at.damping = 1.0
    at.state = STEPPING
    return shorter(n, at, z, width, at.damping)


cdef inline int shorter(Py_ssize_t n, Lane *at, double *z, Py_ssize_t width, double damping) noexcept nogil:
    """Set the next trial point, along the step; return a status if the damping becomes too small, else 0."""
    cdef Py_ssize_t i
    at.damping = damping
    if not damping >= MIN_DAMPING:
        return 4
    for i in range(n):
        z[i * width] = at.x[i] + damping * at.step[i]
    return 0


cdef inline double squared_norm(Py_ssize_t n, const double *x, const double *inverse_scale) noexcept nogil:
    """Return the mean square of the elements, relative to the scales."""
    cdef double total = 0.0, d
    cdef Py_ssize_t i
    for i in range(n):
        d = x[i] * inverse_scale[i]
        total += d * d
    return total / n
