# Solvers of one equation with one unknown, as state machines that are told the values of the function; included.
#
# Each is the algorithm of SciPy's function of that name, in the same order of operations, so that it takes the same
# iterates: `brentq`, `brenth` and `bisect`, and `newton` with and without slopes.
#
# References: Brent (1973), Algorithms for Minimization Without Derivatives, chapters 3 and 4; Bus and Dekker (1975),
# doi:10.1145/355656.355659.

from libc.math cimport fabs, fmin, isnan, signbit

cdef enum:
    BRENTQ, BRENTH, BISECT, NEWTON, SECANT          # positions in SCALAR_METHODS

cdef enum:
    RUNNING, CONVERGED, SAME_SIGNS, NOT_A_NUMBER, TOO_MANY, ZERO_SLOPE, SAME_VALUES     # statuses

SCALAR_METHODS = ("brentq", "brenth", "bisect", "newton", "secant")


cdef struct Scalar:
    int method, stage
    Py_ssize_t nit, maxiter
    double xtol, rtol
    double x                # where the function is evaluated next, finally the root
    double a, fa, b, fb     # ends of the bracket, or the last two points
    double blk, fblk        # end of the bracket opposite to b
    double last, step       # the last two steps


cdef inline int set_method(Scalar *s, str method, double xtol, double rtol, Py_ssize_t maxiter) except -1:
    s.method, s.xtol, s.rtol, s.maxiter = SCALAR_METHODS.index(method), xtol, rtol, maxiter
    return s.method


cdef inline void begin_scalar(Scalar *s, double a, double b) noexcept nogil:
    """Start at the ends of a bracket, or at one or two points."""
    s.stage, s.nit, s.a, s.b, s.x = 0, 0, a, b, a
    s.blk = s.fblk = s.last = s.step = 0.0


cdef inline int advance_scalar(Scalar *s, double f, double slope) noexcept nogil:
    """Use the value of the function at ``x``, and its slope if the method takes it; return a status."""
    if s.method == NEWTON:
        return advance_newton(s, f, slope)
    if s.method == SECANT:
        return advance_secant(s, f)
    if isnan(f):
        return NOT_A_NUMBER
    if s.stage == 0:
        s.fa, s.x, s.stage = f, s.b, 1
        return RUNNING
    if s.stage == 1:
        s.fb, s.stage = f, 2
        if s.fa == 0 or f == 0:
            s.x = s.a if s.fa == 0 else s.b
            return CONVERGED
        if (signbit(s.fa) != 0) == (signbit(f) != 0):
            return SAME_SIGNS
        if s.method == BISECT:
            s.step = s.b - s.a
            return half(s)
        return interpolated(s)
    if s.method == BISECT:
        if (signbit(f) != 0) == (signbit(s.fa) != 0):
            s.a = s.x
        if f == 0 or fabs(s.step) < s.xtol + s.rtol * fabs(s.x):
            return CONVERGED
        return half(s)
    s.fb = f
    return interpolated(s)


cdef inline int half(Scalar *s) noexcept nogil:
    if s.nit == s.maxiter:
        return TOO_MANY
    s.nit += 1
    s.step *= 0.5
    s.x = s.a + s.step
    return RUNNING


cdef inline int interpolated(Scalar *s) noexcept nogil:
    """Set the next point of Brent's method: ``b`` is the best point, ``a`` the one before."""
    cdef double delta, middle, step, da, dblk
    if s.nit == s.maxiter:
        s.x = s.b
        return TOO_MANY
    s.nit += 1
    if s.fa != 0 and s.fb != 0 and (signbit(s.fa) != 0) != (signbit(s.fb) != 0):
        s.blk, s.fblk = s.a, s.fa
        s.last = s.step = s.b - s.a
    if fabs(s.fblk) < fabs(s.fb):
        s.a, s.b = s.b, s.blk
        s.blk = s.a
        s.fa, s.fb = s.fb, s.fblk
        s.fblk = s.fa
    delta = (s.xtol + s.rtol * fabs(s.b)) / 2
    middle = (s.blk - s.b) / 2
    if s.fb == 0 or fabs(middle) < delta:
        s.x = s.b
        return CONVERGED
    step = middle
    if fabs(s.last) > delta and fabs(s.fb) < fabs(s.fa):
        if s.a == s.blk:
            step = -s.fb * (s.b - s.a) / (s.fb - s.fa)
        else:
            da = (s.fa - s.fb) / (s.a - s.b)
            dblk = (s.fblk - s.fb) / (s.blk - s.b)
            if s.method == BRENTQ:
                step = -s.fb * (s.fblk * dblk - s.fa * da) / (dblk * da * (s.fblk - s.fa))
            else:
                step = -s.fb * (s.fblk - s.fa) / (s.fblk * da - s.fa * dblk)
        if 2 * fabs(step) < fmin(fabs(s.last), 3 * fabs(middle) - delta):
            s.last, s.step = s.step, step
        else:
            s.last = s.step = middle
    else:
        s.last = s.step = middle
    s.a, s.fa = s.b, s.fb
    if fabs(s.step) > delta:
        s.b += s.step
    else:
        s.b += delta if middle > 0 else -delta
    s.x = s.b
    return RUNNING


cdef inline bint is_close(const Scalar *s, double x, double y) noexcept nogil:
    """Return what `numpy.isclose` does, with these tolerances."""
    return fabs(x - y) <= s.xtol + s.rtol * fabs(y) or x == y


cdef inline int advance_newton(Scalar *s, double f, double slope) noexcept nogil:
    cdef double last = s.x
    if f == 0:
        return CONVERGED
    if slope == 0:
        return ZERO_SLOPE
    s.nit += 1
    s.x = last - f / slope
    if is_close(s, s.x, last):
        return CONVERGED
    return TOO_MANY if s.nit == s.maxiter else RUNNING


cdef inline int advance_secant(Scalar *s, double f) noexcept nogil:
    cdef double x
    if s.stage == 0:
        s.fa, s.x, s.stage = f, s.b, 1
        return RUNNING
    s.fb = f
    if s.stage == 1:
        s.stage = 2
        if fabs(s.fb) < fabs(s.fa):
            s.a, s.b, s.fa, s.fb = s.b, s.a, s.fb, s.fa
    elif s.nit == s.maxiter:
        return TOO_MANY
    s.nit += 1
    if s.fa == s.fb:
        s.x = (s.a + s.b) / 2.0
        return SAME_VALUES
    if fabs(s.fb) > fabs(s.fa):
        x = (-s.fa / s.fb * s.b + s.a) / (1 - s.fa / s.fb)
    else:
        x = (-s.fb / s.fa * s.a + s.b) / (1 - s.fb / s.fa)
    s.x = x
    if is_close(s, x, s.b):
        return CONVERGED
    s.a, s.fa, s.b = s.b, s.fb, x
    return RUNNING
