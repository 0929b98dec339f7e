# Checks of a root before its derivative is taken, included: a state machine; the caller evaluates the equations.
#
# They are stricter than `wengert.implicit.theorem.settle`, which explains the limits and decides on refused roots.

from libc.math cimport fabs, fmax
from libc.string cimport memcpy

from wengert.program.roots.linear cimport LU

cdef enum:
    REFUSED = -1
    ACCEPTED = 0
    POLISHED, NEAR, FAR     # purpose of the equations at `trial`: a Newton step, or one of two comparisons with J

cdef struct Limits:
    double floor, reuse, polish, nonlinearity, eps
    bint polishes, polishes_always
    const double *weights

cdef struct Check:
    int state
    double *x               # the point where the derivative is taken
    double *y               # the equations there
    double *step            # the Newton correction
    double *scale
    double *move
    double *trial           # where the equations are evaluated next
    double *found           # the equations there
    double first, size      # relative sizes of the corrections at the root and at x
    double largest          # bound on the size of the correction at x
    double length           # relative length of the step over which the equations are compared with their linearisation


cdef inline double relative(Py_ssize_t n, const double *x, const double *y, const double *scale) noexcept nogil:
    """Return the largest element of x - y, relative to the scales; NaN if an element is NaN."""
    cdef double most = 0.0, d
    cdef Py_ssize_t i
    for i in range(n):
        d = fabs(x[i] - (y[i] if y != NULL else 0.0)) / scale[i]
        if not d <= most:
            most = d
        if most != most:
            return most
    return most


cdef inline void lay_out(Check *c, Py_ssize_t n, double *memory) noexcept nogil:
    """Set the pointers to parts of a buffer of 7 n doubles."""
    c.x, c.y, c.step, c.scale = memory, memory + n, memory + 2 * n, memory + 3 * n
    c.move, c.trial, c.found = memory + 4 * n, memory + 5 * n, memory + 6 * n


cdef inline int begin_check(Check *c, Py_ssize_t n, LU lu, const double *data, const Limits *limits) noexcept nogil:
    """Check the root x, given the equations y and the nonzeros of the Jacobian there; return the state."""
    cdef Py_ssize_t i
    cdef double largest = 0.0, widest = 0.0
    lu.factor(data, True)
    c.state, c.largest, c.size, c.first = REFUSED, 1.0, 1.0, 1.0
    if not lu.rcond > n * limits.eps:
        return c.state
    for i in range(n):
        largest = fmax(largest, fabs(c.x[i]) / lu.columns[i])
    for i in range(n):
        c.scale[i] = fmax(fabs(c.x[i]), limits.floor * lu.columns[i] * largest)
        if c.scale[i] == 0.0:
            c.scale[i] = 1e-30
        widest = fmax(widest, c.scale[i])
        c.step[i] = c.y[i]
    lu.solve(c.step, False)
    c.size = c.first = relative(n, c.step, NULL, c.scale)
    c.largest = c.size * widest
    if not (c.size < limits.reuse and widest < 1 / limits.reuse):
        return c.state
    if limits.polishes and (c.size > limits.polish or limits.polishes_always):
        for i in range(n):
            c.x[i] -= c.step[i]
        memcpy(c.trial, c.x, n * sizeof(double))
        c.state = POLISHED
        return c.state
    return compare_near(c, n, 64 * limits.eps, limits)


cdef inline int compare_near(Check *c, Py_ssize_t n, double length, const Limits *limits) noexcept nogil:
    """Set a trial point near x, to compare the equations with their linearisation over a step of this length."""
    cdef Py_ssize_t i
    c.length = length
    for i in range(n):
        c.move[i] = length * c.scale[i] * limits.weights[i]
        c.trial[i] = c.x[i] + c.move[i]
    c.state = NEAR
    return NEAR


cdef inline int continue_check(Check *c, Py_ssize_t n, LU lu, const Limits *limits) noexcept nogil:
    """Continue with the equations at the trial point; return the new state."""
    cdef Py_ssize_t i
    cdef int state = c.state
    c.state = REFUSED
    if state == POLISHED:
        for i in range(n):
            c.y[i] = c.step[i] = c.found[i]
        lu.solve(c.step, False)
        c.size = relative(n, c.step, NULL, c.scale)
        return compare_near(c, n, 64 * limits.eps, limits) if c.size <= limits.polish else REFUSED
    for i in range(n):
        c.found[i] -= c.y[i]
    lu.solve(c.found, False)
    if not relative(n, c.found, c.move, c.scale) <= limits.nonlinearity * relative(n, c.move, NULL, c.scale):
        return compare_near(c, n, 16 * c.length, limits) if state == NEAR and c.length < limits.reuse else REFUSED
    if state == FAR or c.size <= c.length:
        c.state = ACCEPTED
        return ACCEPTED
    for i in range(n):
        c.move[i] = -c.step[i]
        c.trial[i] = c.x[i] + c.move[i]
    c.state = FAR
    return FAR


cdef inline Limits limits_of(polish, limits, const double *weights, double eps):
    """Return the limits of `wengert.implicit.theorem.LIMITS` for an option `polish`."""
    cdef Limits found
    found.floor, found.reuse, found.polish, found.nonlinearity = limits
    found.polish *= eps
    found.eps, found.weights = eps, weights
    found.polishes, found.polishes_always = bool(polish), polish is True
    return found
