# Solvers of one equation with one unknown, included: state machines; the caller evaluates the function.
#
# Each is the algorithm of SciPy's function of that name, in the same order of operations, so that the iterates are the
# same: `brentq`, `brenth`, `bisect`, `ridder` and `toms748`, and `newton` with and without slopes.
#
# References: Brent (1973), Algorithms for Minimization Without Derivatives, chapters 3 and 4; Bus and Dekker (1975),
# doi:10.1145/355656.355659; Ridders (1979), doi:10.1109/TCS.1979.1084580; Alefeld, Potra and Shi (1995), algorithm 4.1,
# doi:10.1145/210089.210111.

from libc.math cimport fabs, fmin, frexp, isfinite, isnan, signbit, sqrt

cdef enum:
    BRENTQ, BRENTH, BISECT, NEWTON, SECANT, RIDDER, TOMS748         # positions in SCALAR_METHODS

cdef enum:
    RUNNING, CONVERGED, SAME_SIGNS, NOT_A_NUMBER, TOO_MANY, ZERO_SLOPE, SAME_VALUES, NOT_FINITE, NO_INTERVAL  # statuses

SCALAR_METHODS = ("brentq", "brenth", "bisect", "newton", "secant", "ridder", "toms748")

#: inverse interpolation is not used for closer function values (absolute) or points (relative)
cdef double CLOSE_VALUES = 2.0 ** -47, CLOSE_POINTS = 2.0 ** -52


cdef struct Scalar:
    int method, stage
    Py_ssize_t nit, maxiter
    double xtol, rtol
    double x                # where the function is evaluated next, finally the root
    double a, fa, b, fb     # ends of the bracket, or the last two points
    double blk, fblk        # end of the bracket opposite to b
    double last, step       # the last two steps
    double d, fd, e, fe     # TOMS 748: the last two points that ceased to be ends of the bracket
    double width            # of the bracket, or half of it, when the iteration began
    bint has_e


cdef inline int set_method(Scalar *s, str method, double xtol, double rtol, Py_ssize_t maxiter) except -1:
    s.method, s.xtol, s.rtol, s.maxiter = SCALAR_METHODS.index(method), xtol, rtol, maxiter
    return s.method


cdef inline void begin_scalar(Scalar *s, double a, double b) noexcept nogil:
    """Start at the ends of a bracket, or at one or two points."""
    s.stage, s.nit, s.a, s.b, s.x = 0, 0, a, b, a
    s.blk = s.fblk = s.last = s.step = s.d = s.fd = s.width = 0.0


cdef inline int advance_scalar(Scalar *s, double f, double slope) noexcept nogil:
    """Use the value of the function at ``x``, and its slope if the method takes it; return a status."""
    if s.method == NEWTON:
        return advance_newton(s, f, slope)
    if s.method == SECANT:
        return advance_secant(s, f)
    if s.method == TOMS748:
        return advance_toms748(s, f)
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
        if s.method == RIDDER:
            s.last = s.xtol + s.rtol * fmin(fabs(s.a), fabs(s.b))
            return middle_point(s)
        return interpolated(s)
    if s.method == BISECT:
        if (signbit(f) != 0) == (signbit(s.fa) != 0):
            s.a = s.x
        if f == 0 or fabs(s.step) < s.xtol + s.rtol * fabs(s.x):
            return CONVERGED
        return half(s)
    if s.method == RIDDER:
        return advance_ridder(s, f)
    s.fb = f
    return interpolated(s)


cdef inline int half(Scalar *s) noexcept nogil:
    if s.nit == s.maxiter:
        return TOO_MANY
    s.nit += 1
    s.step *= 0.5
    s.x = s.a + s.step
    return RUNNING


cdef inline int middle_point(Scalar *s) noexcept nogil:
    """Begin an iteration of Ridders' method."""
    if s.nit == s.maxiter:
        return TOO_MANY
    s.nit += 1
    s.width = 0.5 * (s.b - s.a)
    s.x, s.stage = s.a + s.width, 2
    return RUNNING


cdef inline int advance_ridder(Scalar *s, double f) noexcept nogil:
    """Use the value in the middle, or at the point that an exponential function through three points suggests."""
    cdef double step
    if s.stage == 2:
        s.d, s.fd, s.stage = s.x, f, 3
        step = (1.0 if s.fb - s.fa > 0 else -1.0) * s.width * f / sqrt(f * f - s.fa * s.fb)
        s.x -= (1.0 if step > 0 else -1.0) * fmin(fabs(step), fabs(s.width) - 0.5 * s.last)
        return RUNNING
    if (signbit(f) != 0) != (signbit(s.fd) != 0):
        s.a, s.fa, s.b, s.fb = s.x, f, s.d, s.fd
    elif (signbit(f) != 0) != (signbit(s.fa) != 0):
        s.b, s.fb = s.x, f
    else:
        s.a, s.fa = s.x, f
    s.last = s.xtol + s.rtol * s.x
    if f == 0 or fabs(s.b - s.a) < s.last:
        return CONVERGED
    return middle_point(s)


cdef inline int advance_toms748(Scalar *s, double f) noexcept nogil:
    """Use the value at ``x``: each iteration takes an interpolation, a double secant step, and bisects if need be."""
    if not isfinite(f):
        return NOT_FINITE
    if s.stage == 0:
        if not s.a < s.b:
            return NO_INTERVAL
        s.fa, s.x, s.stage = f, s.b, 1
        if f == 0:
            s.x = s.a
        return CONVERGED if f == 0 else RUNNING
    if f == 0:
        return CONVERGED
    if s.stage == 1:
        s.fb, s.stage, s.has_e = f, 2, False
        if (f > 0) == (s.fa > 0):
            return SAME_SIGNS
        s.x = between(s, secant_of(s.a, s.b, s.fa, f))
        return RUNNING
    leave_end(s, f)
    if s.stage == 2:
        s.nit = 1
        return interpolation(s)
    s.has_e = True
    if s.stage == 3:
        s.x, s.stage = double_secant(s), 4
        return RUNNING
    if s.stage == 4 and s.b - s.a > 0.5 * s.width:
        s.x, s.stage = (s.a + s.b) / 2.0, 5
        return RUNNING
    s.x = (s.a + s.b) / 2.0
    if is_close(s, s.a, s.b):
        return CONVERGED
    return TOO_MANY if s.nit >= s.maxiter else interpolation(s)


cdef inline double between(const Scalar *s, double x) noexcept nogil:
    """Return x, or the middle of the bracket if x is outside."""
    return x if s.a < x < s.b else (s.a + s.b) / 2.0


cdef inline double secant_of(double a, double b, double fa, double fb) noexcept nogil:
    if fabs(fb) > fabs(fa):
        return (-fa / fb * b + a) / (1 - fa / fb)
    return (-fb / fa * a + b) / (1 - fb / fa)


cdef inline void leave_end(Scalar *s, double f) noexcept nogil:
    """Replace the end of the bracket at which the function has the same sign as at ``x``."""
    s.e, s.fe = s.d, s.fd
    if (s.fa > 0) == (f > 0):
        s.d, s.fd, s.a, s.fa = s.a, s.fa, s.x, f
    else:
        s.d, s.fd, s.b, s.fb = s.b, s.fb, s.x, f


cdef inline int interpolation(Scalar *s) noexcept nogil:
    """Begin an iteration of TOMS 748."""
    cdef double x[4]
    cdef double f[4]
    cdef double at = s.a
    cdef Py_ssize_t i, j
    cdef bint is_distinct = s.has_e
    s.nit += 1
    s.width, s.stage = s.b - s.a, 3
    x[0], x[1], x[2], x[3] = s.a, s.b, s.d, s.e
    f[0], f[1], f[2], f[3] = s.fa, s.fb, s.fd, s.fe
    if is_distinct:
        for i in range(4):
            for j in range(i + 1, 4):
                is_distinct &= fabs(f[i] - f[j]) > CLOSE_VALUES
    if is_distinct:
        at = inverse_cubic(x, f)
    s.x = at if is_distinct and s.a < at < s.b else quadratic_root(s)
    return RUNNING


cdef inline double inverse_cubic(const double *x, const double *f) noexcept nogil:
    """Return the value at 0 of the cubic polynomial with the values x at the points f, by Neville's differences."""
    cdef double q[4]
    cdef double d[4]
    cdef double alpha, gap, total = 0.0
    cdef Py_ssize_t i, k
    for i in range(4):
        q[i] = d[i] = x[i]
    for k in range(1, 4):
        for i in range(3, k - 1, -1):
            alpha, gap = d[i] - q[i - 1], f[i - k] - f[i]
            q[i], d[i] = (f[i] - 0.0) / gap * alpha, (f[i - k] - 0.0) / gap * alpha
        total += q[3]
    return total + x[3]


cdef inline double quadratic_root(const Scalar *s) noexcept nogil:
    """Return the point after two Newton steps on the quadratic through both ends and the last replaced end."""
    cdef double B = (s.fb - s.fa) / (s.b - s.a)
    cdef double A = ((s.fd - s.fb) / (s.d - s.b) - B) / (s.d - s.a), r, new
    cdef int i
    if A == 0:
        return s.a - s.fa / B
    r = s.a if (A > 0) == (s.fa > 0) else s.b
    for i in range(2):
        new = r - ((A * (r - s.b) + B) * (r - s.a) + s.fa) / (B + A * (2 * r - s.a - s.b))
        if not s.a < new < s.b:
            return between(s, r)
        r = new
    return r


cdef inline double double_secant(const Scalar *s) noexcept nogil:
    """Return the point twice as far from the better end as the secant, or one near this end or in the middle."""
    cdef bint is_low = fabs(s.fa) < fabs(s.fb)
    cdef double u = s.a if is_low else s.b, fu = s.fa if is_low else s.fb
    cdef double v = s.b if is_low else s.a, fv = s.fb if is_low else s.fa
    cdef double c = u - 2 * fu / ((s.fb - s.fa) / (s.b - s.a))
    cdef int of_u, of_v
    if fabs(c - u) > 0.5 * (s.b - s.a):
        return (s.a + s.b) / 2.0
    if not fabs(c - u) <= CLOSE_POINTS * fabs(u):
        return c
    frexp(fu, &of_u)
    frexp(fv, &of_v)
    if of_u < of_v - 50:
        return between(s, (31 * u + v) / 32)
    if is_low:
        return between(s, u + (fabs(c) * s.rtol + s.xtol))
    return between(s, u + (-fabs(c) * s.rtol - s.xtol))


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
    """Return whether x and y are close in the sense of `numpy.isclose`, with the solver's tolerances."""
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
    s.x = x = secant_of(s.a, s.b, s.fa, s.fb)
    if is_close(s, x, s.b):
        return CONVERGED
    s.a, s.fa, s.b = s.b, s.fb, x
    return RUNNING
