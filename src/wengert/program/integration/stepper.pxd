# Interface of stepper.pyx, for the methods.

cimport numpy as cnp

from wengert.program.integration.field cimport Field, Jacobian


cdef enum:
    SIGNALS_EVERY = 64          # steps after which Python's signals are handled


cdef double *doubles(array)
cdef bint is_nonzero(const double *x, Py_ssize_t n) noexcept nogil
cdef cnp.ndarray longer(cnp.ndarray x)


cdef class Stepper:
    cdef Py_ssize_t states, copies, size, count, limit
    cdef Py_ssize_t kept_size       # size of a stored state; excludes a tangent that only controls the steps
    cdef Py_ssize_t highest         # the highest order of a tangent
    cdef cnp.ndarray rtol, atol, times, ends
    cdef public object monitor      # called after each step, see `Stepper.watched`; or None
    cdef readonly list doubtful     # steps in which the right-hand side may jump, see `Stepper.doubt`; or None
    cdef int doubted                # number of further steps to note
    cdef bint is_rough              # whether the only tangent serves only for step-size control
    cdef bint stops_early           # whether the integration ends with the last output time
    cdef bint is_complex            # whether the states are alternating real and imaginary parts
    cdef double first_step, max_step, t0, t1, direction, smallest
    cdef Field field

    cdef int set_field(self, Field field) except -1
    cdef int begin(self, Field field, cnp.ndarray times) except -1
    cdef double initial_step(self, Field field, const double *y, const double *f, Py_ssize_t order) except -1
    cdef double limited(self, double t, double h) noexcept nogil
    cdef int check_size(self, double t, double h) except -1
    cdef double next_time(self, double t, double h) noexcept nogil
    cdef double magnitude(self, const double *x, Py_ssize_t i) noexcept nogil
    cdef double larger(self, const double *x, const double *y, Py_ssize_t i) noexcept nogil
    cdef double norm(self, const double *error, const double *y, const double *new) noexcept nogil
    cdef double tangent_norm(self, const double *error, const double *y, const double *new) noexcept nogil
    cdef int doubt(self, double t, double proposed, double new, const double *y, const double *z) except -1
    cdef bint watched(self, double t, double new, const double *y) except -1
    cdef int interpolate(self, double t, double *y) except -1
    cdef Py_ssize_t until(self, double end, Py_ssize_t done) noexcept nogil
    cdef Py_ssize_t after(self, double start, Py_ssize_t done, Py_ssize_t step) noexcept nogil
    cdef int keep_end(self, double end) except -1


cdef class Implicit(Stepper):
    cdef Jacobian jacobian
    cdef Field primal
    cdef cnp.ndarray slopes, work
    cdef double tolerance, rate
    cdef Py_ssize_t iterations

    cdef int differentiate(self, double t, const double *y) except -1
