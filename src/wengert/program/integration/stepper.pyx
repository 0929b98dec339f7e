# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Step-size control and output times, which SciPy's methods have in common.

The state and its tangents are held to the same relative tolerance.  Tangents must take part: where stability limits the
step size of an explicit method, a perturbation may grow by many orders of magnitude before it shows in the state.

References
----------
Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, section II.4.
Serban and Hindmarsh (2005), CVODES: the sensitivity-enabled ODE solver in SUNDIALS. doi:10.1115/DETC2005-85597
"""

cimport numpy as cnp
from libc.math cimport INFINITY, fabs, fmax, fmin, hypot, nextafter, pow, sqrt
from libc.string cimport memcpy

import numpy as np

from wengert.errors import GuardError

cnp.import_array()

cdef double MIN_RATIO = 1e-3        # lower limit on the absolute tolerance of tangents, as a fraction of rtol max |y|
cdef double TINY = 1e-300           # so that no scale is zero
cdef double EPS = np.finfo(float).eps

cdef enum:
    DOUBTED = 3                     # number of steps to note from a rejected one on: the right-hand side may jump there
    MAX_DOUBTFUL = 300              # maximum number of noted steps


cdef double *doubles(array):
    return <double *>cnp.PyArray_DATA(<cnp.ndarray>array)


cdef inline double largest(double x, double y) noexcept nogil:
    """Return the larger of two numbers; y if one of them is NaN. Unlike C's fmax, it is inlined."""
    return x if x > y else y


cdef bint is_nonzero(const double *x, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if x[i] != 0.0:
            return True
    return False


cdef cnp.ndarray longer(cnp.ndarray x):
    """Return a copy with twice as many rows."""
    found = np.empty((2 * len(x), *np.shape(x)[1:]))
    found[:len(x)] = x
    return found


cdef class Stepper:
    """An integration; the base class of all methods.

    ``run(field, times, y0, out, keep)`` integrates from ``times[0]`` to ``times[1]``, and writes the states at
    ``times[2:]`` to `out`, of shape (copies, len(times) - 2, states); implicit methods take the primal system and its
    Jacobian after the field.  With `keep`, the steps are stored for the adjoint and take ``nbytes``: ``narrow(field)``
    switches to a field without the tangent that only controlled the steps, and ``adjoint(pullback, g)`` returns the
    adjoint of the initial state, from that of `out`; the adjoint of the parameters is ``pullback.parameters``.

    Parameters
    ----------
    options : dict
        "rtol" and "atol", one per state; "first_step", or None; "max_step"; "is_complex", whether the states are
        alternating real and imaginary parts; "stops_early", whether the integration ends with the last output time;
        "is_rough", whether there is a single tangent, for step-size control only; "may_jump", whether to note steps in
        which the right-hand side may jump.
    memory : float
        Limit on the bytes of stored steps; beyond it, the adjoint computes some steps again.
    """

    def __init__(self, dict options, double memory):
        self.rtol, self.atol = options["rtol"], options["atol"]
        self.first_step, self.max_step = options["first_step"] or 0.0, options["max_step"]
        self.is_complex, self.stops_early, self.monitor = options["is_complex"], options["stops_early"], None
        self.is_rough, self.doubted = options["is_rough"], 0
        self.doubtful = [] if options["may_jump"] else None
        self.limit = <Py_ssize_t>min(memory, 1e18)

    cdef int set_field(self, Field field) except -1:
        """Set the right-hand side."""
        self.field, self.size, self.states, self.copies = field, field.size, field.states, field.copies
        self.kept_size = self.states if self.is_rough else self.size
        self.highest = field.highest
        return 0

    cdef int begin(self, Field field, cnp.ndarray times) except -1:
        """Set the right-hand side and the times: start, end and output times."""
        cdef double *at = doubles(times)
        cdef Py_ssize_t i
        self.set_field(field)
        self.times, self.count = times, 0
        self.t0, self.t1, self.ends = at[0], at[1], np.empty(64)
        if not (at[0] < at[1] or at[0] > at[1]):
            raise GuardError("an interval of length zero is not integrated by programs")
        self.direction = 1.0 if at[1] > at[0] else -1.0
        for i in range(2, times.shape[0]):
            if not (self.direction * (at[i] - at[0]) >= 0 and self.direction * (at[1] - at[i]) >= 0):
                raise GuardError("t_eval is not within t_span")
            if i > 2 and not self.direction * (at[i] - at[i - 1]) > 0:
                raise GuardError("t_eval is not sorted")
        if self.first_step > fabs(self.t1 - self.t0):
            raise GuardError("first_step exceeds the interval")
        return 0

    cdef double initial_step(self, Field field, const double *y, const double *f, Py_ssize_t order) except -1:
        """Return the given first step size, or else the one that SciPy chooses."""
        cdef cnp.ndarray work = np.empty((2, field.size))
        cdef double *near = doubles(work)
        cdef double *g = near + field.size
        cdef double *rtol = doubles(self.rtol)
        cdef double *atol = doubles(self.atol)
        cdef double d0 = 0.0, d1 = 0.0, d2 = 0.0, h0, h1, length = fabs(self.t1 - self.t0), scale
        cdef Py_ssize_t i, count = self.states // 2 if self.is_complex else self.states
        if self.first_step:
            return self.first_step
        for i in range(self.states):
            scale = atol[i] + self.magnitude(y, i) * rtol[i]
            d0 += (y[i] / scale) ** 2
            d1 += (f[i] / scale) ** 2
        d0, d1 = sqrt(d0 / count), sqrt(d1 / count)
        h0 = fmin(1e-6 if d0 < 1e-5 or d1 < 1e-5 else 0.01 * d0 / d1, length)
        for i in range(field.size):
            near[i] = y[i] + h0 * self.direction * f[i]
        field.value(self.t0 + h0 * self.direction, near, g)
        for i in range(self.states):
            d2 += ((g[i] - f[i]) / (atol[i] + self.magnitude(y, i) * rtol[i])) ** 2
        d2 = sqrt(d2 / count) / h0
        if d1 <= 1e-15 and d2 <= 1e-15:
            h1 = fmax(1e-6, h0 * 1e-3)
        else:
            h1 = pow(0.01 / fmax(d1, d2), 1.0 / (order + 1))
        return fmin(fmin(100 * h0, h1), fmin(length, self.max_step))

    cdef double limited(self, double t, double h) noexcept nogil:
        """Return a step size clipped to the limits; sets `smallest`."""
        self.smallest = 10 * fabs(nextafter(t, self.direction * INFINITY) - t)
        return self.max_step if h > self.max_step else self.smallest if h < self.smallest else h

    cdef int check_size(self, double t, double h) except -1:
        if not h >= self.smallest:
            raise GuardError(f"the integration fails at t = {t:.6g}: the step size becomes too small")
        return 0

    cdef double next_time(self, double t, double h) noexcept nogil:
        """Return the end of a step, at most that of the interval."""
        cdef double new = t + h * self.direction
        return self.t1 if self.direction * (new - self.t1) > 0 else new

    cdef double magnitude(self, const double *x, Py_ssize_t i) noexcept nogil:
        """Return the absolute value of state `i`, or of the complex state of which `i` is a part."""
        return hypot(x[i], x[i ^ 1]) if self.is_complex else fabs(x[i])

    cdef double norm(self, const double *error, const double *y, const double *new) noexcept nogil:
        """Return the RMS norm of an error relative to the tolerances at `y` and `new`, which may be NULL."""
        cdef const double *rtol = <const double *>cnp.PyArray_DATA(self.rtol)
        cdef const double *atol = <const double *>cnp.PyArray_DATA(self.atol)
        cdef double total = 0.0
        cdef Py_ssize_t i
        if new == NULL:
            new = y
        for i in range(self.states):
            total += (error[i] / (atol[i] + self.larger(y, new, i) * rtol[i])) ** 2
        return sqrt(total / (self.states // 2 if self.is_complex else self.states))

    cdef double larger(self, const double *x, const double *y, Py_ssize_t i) noexcept nogil:
        """Return the larger absolute value of a state at two points."""
        if self.is_complex:
            return largest(self.magnitude(x, i), self.magnitude(y, i))
        return largest(fabs(x[i]), fabs(y[i]))

    cdef double tangent_norm(self, const double *error, const double *y, const double *new) noexcept nogil:
        """Return the largest `norm` of a tangent; the arrays hold all copies.

        The absolute tolerance of a tangent is that of the state times the scale of its direction.
        """
        cdef const double *rtol = <const double *>cnp.PyArray_DATA(self.rtol)
        cdef const double *atol = <const double *>cnp.PyArray_DATA(self.atol)
        cdef const double *scales = <const double *>cnp.PyArray_DATA(self.field.scales)
        cdef double most = 0.0, total, found = 0.0
        cdef Py_ssize_t i, k, q
        for i in range(self.states):
            most = largest(most, largest(fabs(y[i]), fabs(new[i])))
        for q in range(1, self.copies):
            total, k = 0.0, q * self.states
            for i in range(self.states):
                total += (error[k + i] / (rtol[i] * self.larger(y + k, new + k, i)
                                          + scales[q] * largest(atol[i], MIN_RATIO * rtol[i] * most) + TINY)) ** 2
            if not total < INFINITY:        # or NaN
                return INFINITY
            found = largest(found, total)
        return sqrt(found / (self.states // 2 if self.is_complex else self.states))

    cdef int doubt(self, double t, double proposed, double new, const double *y, const double *z) except -1:
        """Note a step from state y to z, as ``(t, y, new, z)``, if it is shorter than proposed, or follows such a step.

        Steps are rejected at jumps of the right-hand side.
        """
        cdef bint was_rejected = fabs(new - t) < 0.99 * proposed and new != self.t1
        if self.doubtful is None:
            return 0
        self.doubted = DOUBTED if was_rejected else self.doubted - 1
        if self.doubted > 0 and len(self.doubtful) < MAX_DOUBTFUL:
            start, end = np.empty(self.states), np.empty(self.states)
            memcpy(doubles(start), y, self.states * sizeof(double))
            memcpy(doubles(end), z, self.states * sizeof(double))
            self.doubtful.append((t, start, new, end))
        return 0

    cdef bint watched(self, double t, double new, const double *y) except -1:
        """Call the monitor after a step from t to `new`, where the state is y; return whether the integration ends.

        ``monitor(stepper, t, new, y)`` may call ``stepper.at(time)`` for times within the step.
        """
        cdef cnp.ndarray state
        if self.monitor is None:
            return False
        state = np.empty(self.size)
        memcpy(doubles(state), y, self.size * sizeof(double))
        return self.monitor(self, t, new, state)

    @property
    def steps(self):
        """Number of accepted steps."""
        return self.count

    @property
    def stride(self):
        """Number of steps between two states that are kept; 0 if stages are kept too."""
        return 0

    def at(self, double t):
        """Return the state at a time within the last step."""
        cdef cnp.ndarray state = np.empty(self.size)
        self.interpolate(t, doubles(state))
        return state

    cdef int interpolate(self, double t, double *y) except -1:
        """Compute the state at a time within the last step."""
        raise NotImplementedError

    cdef Py_ssize_t until(self, double end, Py_ssize_t done) noexcept nogil:
        """Return how many output times lie up to `end`, given that at least `done` do."""
        cdef const double *at = <const double *>cnp.PyArray_DATA(self.times) + 2
        while done < self.times.shape[0] - 2 and self.direction * (at[done] - end) <= 0:
            done += 1
        return done

    cdef Py_ssize_t after(self, double start, Py_ssize_t done, Py_ssize_t step) noexcept nogil:
        """Return how many output times lie before the step from `start`, given that `done` lie before its end."""
        cdef const double *at = <const double *>cnp.PyArray_DATA(self.times) + 2
        while done > 0 and (step == 0 or self.direction * (at[done - 1] - start) > 0):
            done -= 1
        return done

    cdef int keep_end(self, double end) except -1:
        if self.count == self.ends.shape[0]:
            self.ends = longer(self.ends)
        doubles(self.ends)[self.count] = end
        return 0


cdef class Implicit(Stepper):
    """An integration by an implicit method, whose equations are solved by simplified Newton iterations."""

    def __init__(self, dict options, double memory):
        Stepper.__init__(self, options, memory)
        cdef double rtol = np.min(self.rtol)
        self.tolerance = fmax(10 * EPS / rtol, fmin(0.03, sqrt(rtol)))

    cdef int differentiate(self, double t, const double *y) except -1:
        """Compute the Jacobian for the Newton iterations."""
        self.jacobian.slopes(t, y)
        memcpy(doubles(self.slopes), self.jacobian.at_values, self.jacobian.count * sizeof(double))
        return 0
