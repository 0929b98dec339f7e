# Powell's hybrid method for systems of equations, as a state machine that takes their values; included.
#
# It takes the steps of MINPACK's hybrj, or of hybrd, which takes differences, up to rounding: Broyden's updates of the
# Jacobian are added to it as it is, and it is factorised anew for each step.  A run that does not converge as MINPACK's
# does, or that meets a singular matrix or a value that is not finite, is left: the caller repeats it by SciPy.
#
# References: Powell (1970), A hybrid method for nonlinear equations; Moré, Garbow and Hillstrom (1980), User guide for
# MINPACK-1, doi:10.2172/6997568.

cdef enum:
    AT_START, AT_COLUMN, AT_JACOBIAN, AT_TRIAL      # stages: what the next values are
    LEFT = 2                                        # status

cdef struct Options:
    double xtol, factor, difference                 # `difference` is relative to x
    Py_ssize_t maxfev
    bint has_slopes

cdef struct Hybrid:
    int stage
    int failures, successes, slow_steps, slow_jacobians
    Py_ssize_t accepted, nfev, column
    bint is_exact                                   # whether the Jacobian is that at x
    double radius, size, norm, length, h            # of the trust region; of x, f and the step, scaled
    double *x
    double *f
    double *step
    double *scale
    double *gradient
    double *predicted
    double *jacobian


cdef inline void set_memory(Py_ssize_t n, Hybrid *s, double *work) noexcept nogil:
    """Prepare a run in memory for 6 n + n * n numbers."""
    s.x, s.f, s.step, s.scale = work, work + n, work + 2 * n, work + 3 * n
    s.gradient, s.predicted, s.jacobian = work + 4 * n, work + 5 * n, work + 6 * n
    s.stage, s.nfev = AT_START, 0


cdef inline double norm(Py_ssize_t n, const double *x) noexcept nogil:
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        total += x[i] * x[i]
    return sqrt(total)


cdef inline double scaled_norm(Py_ssize_t n, const double *x, const double *scale) noexcept nogil:
    cdef double total = 0.0, d
    cdef Py_ssize_t i
    for i in range(n):
        d = x[i] * scale[i]
        total += d * d
    return sqrt(total)


cdef inline int advance_hybrid(Py_ssize_t n, Hybrid *s, Lane *at, double *z, const double *found, Py_ssize_t width,
                               const Options *options) noexcept nogil:
    """Use the values at the point `z`, whose elements are `width` apart, and set the next one; return a status."""
    cdef Py_ssize_t i
    if s.stage == AT_START:
        for i in range(n):
            s.x[i], s.f[i] = z[i * width], found[i * width]
        s.failures = s.successes = s.slow_steps = s.slow_jacobians = 0
        s.accepted, s.nfev, s.norm = 0, 1, norm(n, s.f)
        if not isfinite(s.norm):
            return LEFT
    elif s.stage == AT_COLUMN:
        for i in range(n):
            s.jacobian[i * n + s.column] = (found[i * width] - s.f[i]) / s.h
        z[s.column * width] = s.x[s.column]
        s.nfev += 1
        if s.column + 1 < n:
            return next_column(s, s.column + 1, z, width, options)
        return with_jacobian(n, s, at, z, width, options)
    elif s.stage == AT_TRIAL:
        return compared(n, s, at, z, found, width, options)
    if options.has_slopes:
        for i in range(n * n):
            s.jacobian[i] = found[(n + i) * width]
        return with_jacobian(n, s, at, z, width, options)
    return next_column(s, 0, z, width, options)


cdef inline int next_column(Hybrid *s, Py_ssize_t j, double *z, Py_ssize_t width,
                            const Options *options) noexcept nogil:
    """Move one unknown."""
    s.h = options.difference * fabs(s.x[j])
    if s.h == 0.0:
        s.h = options.difference
    z[j * width] = s.x[j] + s.h
    s.column, s.stage = j, AT_COLUMN
    return RUNNING


cdef inline int with_jacobian(Py_ssize_t n, Hybrid *s, Lane *at, double *z, Py_ssize_t width,
                              const Options *options) noexcept nogil:
    """Scale the unknowns by the columns of a new Jacobian, and take a step."""
    cdef Py_ssize_t i, j
    cdef double length
    s.is_exact = True
    for j in range(n):
        length = 0.0
        for i in range(n):
            length += s.jacobian[i * n + j] * s.jacobian[i * n + j]
        length = sqrt(length)
        if s.accepted == 0:
            s.scale[j] = 1.0 if length == 0.0 else length
        s.scale[j] = larger(s.scale[j], length)
    if s.accepted == 0:
        s.size = scaled_norm(n, s.x, s.scale)
        s.radius = options.factor * s.size
        if s.radius == 0.0:
            s.radius = options.factor
    return stepped(n, s, at, z, width)


cdef inline int stepped(Py_ssize_t n, Hybrid *s, Lane *at, double *z, Py_ssize_t width) noexcept nogil:
    """Set the trial point within the trust region: Powell's dogleg between the gradient and Newton's step."""
    cdef Py_ssize_t i, j
    cdef double newton, slope, reach = 0.0, part, ratio, d
    for i in range(n * n):
        at.matrix[i] = s.jacobian[i]
    if factor_lane(n, at):
        return LEFT
    for i in range(n):
        s.step[i] = s.f[i]
    solve_lane(n, at, s.step)
    newton = scaled_norm(n, s.step, s.scale)
    if not isfinite(newton):
        return LEFT
    if newton > s.radius:
        for j in range(n):
            d = 0.0
            for i in range(n):
                d += s.jacobian[i * n + j] * s.f[i]
            s.gradient[j] = d / s.scale[j]
        slope = norm(n, s.gradient)
        part = s.radius / newton
        if slope != 0.0:
            for j in range(n):
                s.gradient[j] = s.gradient[j] / slope / s.scale[j]
            d = 0.0
            for i in range(n):
                s.predicted[i] = 0.0
                for j in range(n):
                    s.predicted[i] += s.jacobian[i * n + j] * s.gradient[j]
                d += s.predicted[i] * s.predicted[i]
            reach, ratio, part = slope / d, s.radius / newton, 0.0
            if reach < s.radius:
                d = reach / s.radius
                part = s.norm / slope * (s.norm / newton) * d
                part += -ratio * d * d + sqrt((part - ratio) * (part - ratio) + (1 - ratio * ratio) * (1 - d * d))
                part = ratio * (1 - d * d) / part
        d = (1 - part) * (reach if reach < s.radius else s.radius)
        for i in range(n):
            s.step[i] = part * s.step[i] + (d * s.gradient[i] if slope != 0.0 else 0.0)
    for i in range(n):
        s.step[i] = -s.step[i]
        z[i * width] = s.x[i] + s.step[i]
    s.length = scaled_norm(n, s.step, s.scale)
    if s.accepted == 0 and s.length < s.radius:
        s.radius = s.length
    s.stage = AT_TRIAL
    return RUNNING


cdef inline int compared(Py_ssize_t n, Hybrid *s, Lane *at, double *z, const double *found, Py_ssize_t width,
                         const Options *options) noexcept nogil:
    """Accept or reject the trial point, change the radius, and update the Jacobian."""
    cdef Py_ssize_t i, j
    cdef double new, expected = 0.0, actual = -1.0, ratio = 0.0, d
    new = 0.0
    for i in range(n):
        d = s.f[i]
        for j in range(n):
            d += s.jacobian[i * n + j] * s.step[j]
        s.predicted[i] = d
        new += found[i * width] * found[i * width]
    new = sqrt(new)
    if not isfinite(new):
        return LEFT
    if new < s.norm:
        actual = 1 - (new / s.norm) * (new / s.norm)
    d = norm(n, s.predicted)
    if d < s.norm:
        expected = 1 - (d / s.norm) * (d / s.norm)
        ratio = actual / expected
    s.nfev += 1
    if ratio < 0.1:
        s.successes, s.failures = 0, s.failures + 1
        s.radius *= 0.5
    else:
        s.failures, s.successes = 0, s.successes + 1
        if ratio >= 0.5 or s.successes > 1:
            s.radius = larger(s.radius, s.length / 0.5)
        if fabs(ratio - 1) <= 0.1:
            s.radius = s.length / 0.5
    for i in range(n):                              # the difference from the linear model, for Broyden's update
        s.predicted[i] = found[i * width] - s.predicted[i]
    if ratio >= 1e-4:
        for i in range(n):
            s.x[i], s.f[i] = z[i * width], found[i * width]
        s.size, s.norm = scaled_norm(n, s.x, s.scale), new
        s.accepted += 1
    s.slow_steps = 0 if actual >= 1e-3 else s.slow_steps + 1
    s.slow_jacobians = 0 if actual >= 0.1 else s.slow_jacobians + s.is_exact
    if s.radius <= options.xtol * s.size or s.norm == 0.0:
        return CONVERGED
    if s.nfev >= options.maxfev or s.slow_jacobians == 5 or s.slow_steps == 10 or s.length == 0.0:
        return LEFT
    if 0.1 * larger(0.1 * s.radius, s.length) <= EPS * s.size:
        return LEFT
    if s.failures == 2:
        for i in range(n):
            z[i * width] = s.x[i]
        s.stage = AT_JACOBIAN
        return RUNNING if options.has_slopes else next_column(s, 0, z, width, options)
    for i in range(n):
        d = s.predicted[i] / s.length
        for j in range(n):
            s.jacobian[i * n + j] += d * (s.scale[j] * (s.scale[j] * s.step[j] / s.length))
    s.is_exact = False
    return stepped(n, s, at, z, width)
