# Powell's hybrid method for systems of equations, included: a state machine; the caller evaluates the equations.
#
# Up to rounding, it takes the steps of MINPACK's hybrj, or of hybrd with finite differences.  MINPACK updates factors Q
# and R of the Jacobian.  Here the Jacobian of a small system is stored dense, and factorised for each step; that of a
# larger system (`wide`) is factorised once, and Broyden's updates are stored beside the factors (`Updated`).  One solve
# a step is enough there: the update and the next Newton correction follow from the corrections at the two points.
# A run that fails to converge, or that meets a singular matrix or a non-finite value, ends with the status LEFT: the
# caller repeats it with SciPy.
#
# References: Powell (1970), A hybrid method for nonlinear equations; Moré, Garbow and Hillstrom (1980), User guide for
# MINPACK-1, doi:10.2172/6997568.

from libc.string cimport memcpy, memset

from wengert.program.roots.linear cimport Updated

cdef enum:
    AT_START, AT_COLUMN, AT_JACOBIAN, AT_TRIAL      # stages: where the equations are evaluated next
    LEFT = 2                                        # status
    VECTORS = 8                                     # number of vectors of a run

cdef double SMALL_SQUARES = 1e-280                  # smaller sums of squares may have lost digits by underflow

cdef struct Options:
    double xtol, factor, difference                 # `difference`: relative step
    Py_ssize_t maxfev
    bint has_slopes

cdef struct Hybrid:
    int stage
    int failures, successes, slow_steps, slow_jacobians
    Py_ssize_t accepted, nfev, column
    bint is_exact                                   # whether the Jacobian was computed at x, and not updated since
    bint is_newton                                  # whether the step is the whole Newton step
    double radius, size, norm, length               # trust radius; norms of x, f and step
    double *x
    double *f
    double *step
    double *scale
    double *gradient
    double *predicted
    double *newton                                  # Newton corrections J^-1 f at x, and at the trial point
    double *trial
    double *jacobian                                # its elements by rows, or its nonzeros


cdef inline void set_memory(Py_ssize_t n, Hybrid *s, double *work) noexcept nogil:
    """Prepare a run in a buffer of `VECTORS` n doubles and the Jacobian."""
    s.x, s.f, s.step, s.scale = work, work + n, work + 2 * n, work + 3 * n
    s.gradient, s.predicted, s.newton, s.trial = work + 4 * n, work + 5 * n, work + 6 * n, work + 7 * n
    s.jacobian = work + VECTORS * n
    s.stage, s.nfev = AT_START, 0


cdef inline double norm(Py_ssize_t n, const double *x, Py_ssize_t width=1) noexcept nogil:
    """Return the norm of a vector whose elements are `width` apart."""
    cdef double total = 0.0
    cdef Py_ssize_t i
    for i in range(n):
        total += x[i * width] * x[i * width]
    return small_norm(n, x, width, NULL) if total < SMALL_SQUARES else sqrt(total)


cdef inline double scaled_norm(Py_ssize_t n, const double *x, const double *scale) noexcept nogil:
    cdef double total = 0.0, d
    cdef Py_ssize_t i
    for i in range(n):
        d = x[i] * scale[i]
        total += d * d
    return small_norm(n, x, 1, scale) if total < SMALL_SQUARES else sqrt(total)


cdef double small_norm(Py_ssize_t n, const double *x, Py_ssize_t width, const double *scale) noexcept nogil:
    """Return the norm of a vector, or of its product with `scale`, without underflow."""
    cdef double total = 0.0, most = 0.0, d
    cdef Py_ssize_t i
    for i in range(n):
        most = larger(most, fabs(x[i * width] * (1.0 if scale == NULL else scale[i])))
    if most == 0.0:
        return 0.0
    for i in range(n):
        d = x[i * width] * (1.0 if scale == NULL else scale[i]) / most
        total += d * d
    return most * sqrt(total)


cdef inline double spacing(const Hybrid *s, Py_ssize_t j, const Options *options) noexcept nogil:
    """Return the step of the finite difference in unknown `j`."""
    cdef double h = options.difference * fabs(s.x[j])
    return options.difference if h == 0.0 else h


cdef inline int advance_hybrid(Py_ssize_t n, Hybrid *s, Lane *at, Updated wide, double *z, const double *found,
                               Py_ssize_t width, const Options *options) noexcept nogil:
    """Use the equations at the point `z`, whose elements are `width` apart; set the next point; return a status."""
    cdef Py_ssize_t i
    cdef double h
    if s.stage == AT_START:
        for i in range(n):
            s.x[i], s.f[i] = z[i * width], found[i * width]
        s.failures = s.successes = s.slow_steps = s.slow_jacobians = 0
        s.accepted, s.nfev, s.norm = 0, 1, norm(n, s.f)
        if not isfinite(s.norm):
            return LEFT
    elif s.stage == AT_COLUMN:
        if wide is None:
            h = spacing(s, s.column, options)
            for i in range(n):
                s.jacobian[i * n + s.column] = (found[i * width] - s.f[i]) / h
            z[s.column * width] = s.x[s.column]
            s.column += 1
        else:
            s.column = wide_columns(s, wide, z, found, options)
        if s.column < n:
            return next_column(s, wide, z, width, options)
        s.nfev += n                                 # as MINPACK counts, also if columns share an evaluation
        return with_jacobian(n, s, at, wide, z, width, options)
    elif s.stage == AT_TRIAL:
        return compared(n, s, at, wide, z, found, width, options)
    if options.has_slopes:
        for i in range(n * n if wide is None else wide.lu.nnz):
            s.jacobian[i] = found[(n + i) * width]
        return with_jacobian(n, s, at, wide, z, width, options)
    s.column = 0
    return next_column(s, wide, z, width, options)


cdef inline int next_column(Hybrid *s, Updated wide, double *z, Py_ssize_t width,
                            const Options *options) noexcept nogil:
    """Set the next point for the finite difference in one unknown, or in all unknowns of a group."""
    cdef Py_ssize_t k
    if wide is None:
        z[s.column * width] = s.x[s.column] + spacing(s, s.column, options)
    else:
        for k in range(s.column, wide.group_end(s.column)):
            z[wide.grouped[k]] = s.x[wide.grouped[k]] + spacing(s, wide.grouped[k], options)
    s.stage = AT_COLUMN
    return RUNNING


cdef inline Py_ssize_t wide_columns(Hybrid *s, Updated wide, double *z, const double *found,
                                    const Options *options) noexcept nogil:
    """Store the differences of a group of columns, which share no row; return the start of the next group."""
    cdef Py_ssize_t k, i, column, row, end = wide.group_end(s.column)
    cdef double h
    for k in range(s.column, end):
        column = wide.grouped[k]
        h = spacing(s, column, options)
        for i in range(wide.starts[column], wide.starts[column + 1]):
            row = wide.lu.row_of[wide.by_columns[i]]
            s.jacobian[wide.by_columns[i]] = (found[row] - s.f[row]) / h
        z[column] = s.x[column]
    return end


cdef inline int with_jacobian(Py_ssize_t n, Hybrid *s, Lane *at, Updated wide, double *z, Py_ssize_t width,
                              const Options *options) noexcept nogil:
    """Scale the unknowns by the columns of a new Jacobian, and take a step."""
    cdef Py_ssize_t i, j, count
    cdef double length
    s.is_exact = True
    if wide is not None and wide.factor(s.jacobian):
        return LEFT
    for j in range(n):
        if wide is None:
            length = norm(n, s.jacobian + j, n)
        else:
            count = wide.starts[j + 1] - wide.starts[j]
            for i in range(count):
                s.step[i] = s.jacobian[wide.by_columns[wide.starts[j] + i]]
            length = norm(count, s.step)
        if s.accepted == 0:
            s.scale[j] = 1.0 if length == 0.0 else length
        s.scale[j] = larger(s.scale[j], length)
    if s.accepted == 0:
        s.size = scaled_norm(n, s.x, s.scale)
        s.radius = options.factor * s.size
        if s.radius == 0.0:
            s.radius = options.factor
    if wide is None:
        return LEFT if correct(n, s, at) else stepped(n, s, wide, z, width)
    memcpy(s.newton, s.f, n * sizeof(double))
    wide.solve(s.newton)
    return stepped(n, s, wide, z, width)


cdef inline bint correct(Py_ssize_t n, Hybrid *s, Lane *at) noexcept nogil:
    """Set the Newton correction of a small system; return whether the Jacobian is singular."""
    memcpy(at.matrix, s.jacobian, n * n * sizeof(double))
    memcpy(s.newton, s.f, n * sizeof(double))
    if factor_lane(n, at):
        return True
    solve_lane(n, at, s.newton)
    return False


cdef inline void add_product(Py_ssize_t n, const Hybrid *s, Updated wide, const double *x, double *y,
                             bint transposed) noexcept nogil:
    """Add the product of the Jacobian or its transpose with x to y."""
    cdef Py_ssize_t i, j
    if wide is not None:
        wide.add_product(x, y, transposed)
        return
    for i in range(n):
        for j in range(n):
            y[i] += s.jacobian[j * n + i if transposed else i * n + j] * x[j]


cdef inline int stepped(Py_ssize_t n, Hybrid *s, Updated wide, double *z, Py_ssize_t width) noexcept nogil:
    """Set the trial point within the trust region: Powell's dogleg between the gradient and Newton's step."""
    cdef Py_ssize_t i, j
    cdef double newton = scaled_norm(n, s.newton, s.scale), slope, reach = 0.0, part = 1.0, ratio, d = 0.0
    if not isfinite(newton):
        return LEFT
    s.is_newton = not newton > s.radius
    if not s.is_newton:
        memset(s.gradient, 0, n * sizeof(double))
        add_product(n, s, wide, s.f, s.gradient, True)
        for j in range(n):
            s.gradient[j] /= s.scale[j]
        slope = norm(n, s.gradient)
        part = s.radius / newton
        if slope != 0.0:
            for j in range(n):
                s.gradient[j] = s.gradient[j] / slope / s.scale[j]
            memset(s.predicted, 0, n * sizeof(double))
            add_product(n, s, wide, s.gradient, s.predicted, False)
            d = norm(n, s.predicted)
            reach, ratio, part = slope / d / d, s.radius / newton, 0.0
            if reach < s.radius:
                d = reach / s.radius
                part = s.norm / slope * (s.norm / newton) * d
                part += -ratio * d * d + sqrt((part - ratio) * (part - ratio) + (1 - ratio * ratio) * (1 - d * d))
                part = ratio * (1 - d * d) / part
        d = (1 - part) * (reach if reach < s.radius else s.radius) if slope != 0.0 else 0.0
    for i in range(n):
        s.step[i] = -(s.newton[i] if d == 0.0 and part == 1.0 else part * s.newton[i] + d * s.gradient[i])
        z[i * width] = s.x[i] + s.step[i]
    s.length = scaled_norm(n, s.step, s.scale)
    if s.accepted == 0 and s.length < s.radius:
        s.radius = s.length
    s.stage = AT_TRIAL
    return RUNNING


cdef inline int compared(Py_ssize_t n, Hybrid *s, Lane *at, Updated wide, double *z, const double *found,
                         Py_ssize_t width, const Options *options) noexcept nogil:
    """Accept or reject the trial point, change the radius, and update the Jacobian."""
    cdef Py_ssize_t i, j
    cdef double new, expected = 0.0, actual = -1.0, ratio = 0.0, d
    cdef bint is_accepted
    if s.is_newton:                                 # the root of the linear model
        memset(s.predicted, 0, n * sizeof(double))
    else:
        memcpy(s.predicted, s.f, n * sizeof(double))
        add_product(n, s, wide, s.step, s.predicted, False)
    new = norm(n, found, width)
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
    is_accepted = ratio >= 1e-4
    if is_accepted:
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
        s.column = 0
        return RUNNING if options.has_slopes else next_column(s, wide, z, width, options)
    for i in range(n):
        s.predicted[i] /= s.length
        s.gradient[i] = s.scale[i] * (s.scale[i] * s.step[i] / s.length)
    s.is_exact = False
    if wide is not None:
        return stepped(n, s, wide, z, width) if updated(n, s, wide, found, is_accepted) else LEFT
    for i in range(n):
        for j in range(n):
            s.jacobian[i * n + j] += s.predicted[i] * s.gradient[j]
    return LEFT if correct(n, s, at) else stepped(n, s, wide, z, width)


cdef inline bint updated(Py_ssize_t n, Hybrid *s, Updated wide, const double *found, bint is_accepted) noexcept nogil:
    """Add Broyden's update u v' to the Jacobian J, and correct the Newton step; return whether that is possible.

    u is the difference of `found` from the linear model f + J step, divided by the length of the step.
    """
    cdef Py_ssize_t i
    memcpy(s.trial, found, n * sizeof(double))
    wide.solve(s.trial)
    for i in range(n):
        s.step[i] = (s.trial[i] - (s.newton[i] + s.step[i])) / s.length     # J^-1 u
    if not wide.update(s.predicted, s.gradient, s.step):
        return False
    if is_accepted:
        memcpy(s.newton, s.trial, n * sizeof(double))
    wide.correct(wide.rank - 1, s.newton)
    return True
