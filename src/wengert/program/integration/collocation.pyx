# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The Radau IIA method of order 5 with SciPy's step-size control, and its tangents and adjoint.

The stages Z of a step of size h from y solve ``Z[i] = h sum_j A[i, j] f(t + c[j] h, y + Z[j])``, and the step ends at
``y + Z[2]``.  The primal system is solved by simplified Newton iterations.  Its tangents and the adjoint then follow
from linear equations with the matrix ``M = I - h (A x J)``, where J are the Jacobians at the stages, by the implicit
function theorem; tangents of tangents have the same matrix.

References
----------
Hairer and Wanner (1996), Solving Ordinary Differential Equations II, section IV.8.
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, fmax, fmin, isfinite, pow, sqrt
from libc.string cimport memcpy, memset

from wengert.program.integration.factor cimport Factor, factor_of
from wengert.program.integration.field cimport Field, Jacobian, Pullback
from wengert.program.integration.stepper cimport SIGNALS_EVERY, Implicit, doubles, is_nonzero, longer

import numpy as np

cnp.import_array()

cdef enum:
    MAX_ITERATIONS = 6
    MIN_ROUGH = 15              # minimum number of states for which iterating for a tangent is faster than factorising

cdef double MIN_FACTOR = 0.2, MAX_FACTOR = 10.0         # SciPy's limits on the change of step size


cdef class Collocation(Implicit):
    """An integration by the Radau IIA method.

    Parameters
    ----------
    module : module
        SciPy's module with the coefficients.
    matrix : ndarray, shape (3, 3)
        The matrix A of the method.
    options, memory
        See `Stepper`.
    """

    cdef Factor single, pair, exact
    cdef cnp.ndarray before                             # last step: its start and stages
    cdef cnp.ndarray starts, stages                     # stored for the adjoint: states at starts of steps, and stages
    cdef double a[3][3]
    cdef double p[3][3]
    cdef double to[3][3]                                # basis change to eigenvectors of inv(A), and back
    cdef double back[3][3]
    cdef double c[3]
    cdef double e[3]
    cdef double mu, mu_real, mu_imag, h_before, t_now, h_now
    cdef const double *y_now
    cdef const double *z_now

    def __init__(self, module, matrix, dict options, double memory):
        cdef Py_ssize_t i, j
        Implicit.__init__(self, options, memory)
        for i in range(3):
            self.c[i], self.e[i] = module.C[i], module.E[i]
            for j in range(3):
                self.a[i][j], self.p[i][j] = matrix[i, j], module.P[i, j]
                self.to[i][j], self.back[i][j] = module.TI[i, j], module.T[i, j]
        self.mu, self.mu_real, self.mu_imag = module.MU_REAL, module.MU_COMPLEX.real, module.MU_COMPLEX.imag

    # ---- the steps

    def run(self, Field field, Field primal, Jacobian jacobian, cnp.ndarray times, cnp.ndarray y0, cnp.ndarray out,
            bint keep):
        cdef Py_ssize_t done = 0, first, i, count = times.shape[0] - 2
        cdef double t, h, h_abs, new, factor, safety, proposed, norm
        cdef double last_size = 0.0, last_norm = 0.0    # of the previous step; 0: none
        cdef bint is_current = True, has_factors = False, was_rejected, again
        cdef cnp.ndarray y = np.array(y0, dtype=float).reshape(-1), stages = np.zeros((3, y.size))
        cdef double *ys = doubles(y)
        cdef double *z = doubles(stages)
        cdef double *f
        self.begin(field, times)
        slope = np.zeros(self.states)
        f = doubles(slope)
        t, h_abs = self.t0, self.prepare(primal, jacobian, ys, f, keep)
        while self.direction * (t - self.t1) < 0:
            proposed = h_abs
            h_abs, was_rejected = self.limited(t, h_abs), False
            if h_abs != proposed:
                last_size = 0.0
            while True:
                self.check_size(t, h_abs)
                new = self.next_time(t, h_abs)
                h = new - t
                h_abs = fabs(h)
                if not self.converges(t, h, ys, z, &has_factors, &is_current):
                    h_abs *= 0.5
                    has_factors = False
                    continue
                norm = self.error(t, h, ys, f, z, was_rejected)
                if self.copies > 1 and norm <= 1:
                    self.push(t, h, ys, z)
                    norm = fmax(norm, self.error_of_tangents(t, h, ys, z))
                safety = 0.9 * (2 * MAX_ITERATIONS + 1) / (2 * MAX_ITERATIONS + self.iterations)
                if norm <= 1:
                    break
                factor = safety * predicted(h_abs, last_size, norm, last_norm)
                h_abs *= fmax(MIN_FACTOR, factor) if norm == norm else 0.5
                has_factors, was_rejected = False, True
            again = self.iterations > 2 and self.rate > 1e-3
            factor = fmin(MAX_FACTOR, safety * predicted(h_abs, last_size, norm, last_norm))
            if again or factor >= 1.2:
                has_factors = False
            else:
                factor = 1.0
            if keep:
                self.keep_step(new, ys, z)
            self.t_now, self.h_now, self.y_now, self.z_now = t, h, ys, z
            if self.monitor is not None or self.doubtful is not None:
                for i in range(self.size):
                    doubles(self.work)[i] = ys[i] + z[2 * self.size + i]
                self.doubt(t, proposed, new, ys, doubles(self.work))
                if self.watched(t, new, doubles(self.work)):
                    break
            first, done = done, self.until(new, done)
            if done > first:
                self.write(t, h, ys, z, doubles(times) + 2, count, first, done, doubles(out))
                if done == count and self.stops_early:
                    self.count += 1
                    break
            self.advance(ys, z)
            primal.value(new, ys, f)
            if again:
                self.differentiate(new, ys)
            is_current = again
            last_size, last_norm, self.h_before, t = proposed, norm, h, new
            h_abs *= factor
            self.count += 1
            if self.count % SIGNALS_EVERY == 0:
                PyErr_CheckSignals()

    cdef double prepare(self, Field primal, Jacobian jacobian, double *ys, double *f, bint keep) except? -1.0:
        """Allocate memory, evaluate slopes and Jacobian at the start, and return the first step size."""
        cdef double h_abs
        pattern = jacobian.pattern
        self.primal, self.jacobian, self.h_before = primal, jacobian, 0.0
        self.single, self.pair = factor_of(pattern, False), factor_of(pattern, True)
        self.exact = factor_of(pattern, False, 3)
        self.before, self.work = np.zeros((4, self.states)), np.zeros((12, self.size))
        self.slopes = np.zeros(jacobian.count)
        if keep:
            self.starts, self.stages = np.empty((16, self.kept_size)), np.empty((16, 3, self.kept_size))
        primal.value(self.t0, ys, f)
        h_abs = self.initial_step(primal, ys, f, 3)
        self.differentiate(self.t0, ys)
        return h_abs

    cdef bint converges(self, double t, double h, double *ys, double *z, bint *has_factors,
                        bint *is_current) except -1:
        """Solve for the stages; if that fails with the Jacobian of an earlier step, try again with a new one."""
        while True:
            if not has_factors[0]:
                self.factorise(h)
                has_factors[0] = True
            if self.iterate(t, h, ys, z):
                return True
            if is_current[0]:
                return False
            self.differentiate(t, ys)
            is_current[0], has_factors[0] = True, False

    cdef void advance(self, double *ys, double *z):
        """Move to the end of a step, and remember the step for the extrapolation to the next."""
        cdef Py_ssize_t i, n = self.states
        memcpy(doubles(self.before), ys, n * sizeof(double))
        for i in range(3):
            memcpy(doubles(self.before) + (1 + i) * n, z + i * self.size, n * sizeof(double))
        for i in range(self.size):
            ys[i] += z[2 * self.size + i]

    cdef int factorise(self, double h) except -1:
        """Factorise the matrices of the iterations for a step size."""
        self.single.combine(doubles(self.slopes), -1.0, self.mu / h, 0.0)
        self.pair.combine(doubles(self.slopes), -1.0, self.mu_real / h, self.mu_imag / h)
        return 0

    cdef bint iterate(self, double t, double h, const double *y, double *z) except -1:
        """Solve the equations of a step by simplified Newton iterations; return whether these have converged."""
        cdef Py_ssize_t i, j, n = self.states, size = self.size
        cdef double *w = doubles(self.work)             # stages in the eigenvector basis, their changes, and slopes
        cdef double *dw = w + 3 * size
        cdef double *f = w + 6 * size
        cdef double *near = w + 9 * size
        cdef const double *last = doubles(self.before)
        cdef double weights[3]
        cdef double x, norm = 0.0, last_norm = -1.0
        for i in range(3):
            if self.count == 0:
                memset(z + i * size, 0, n * sizeof(double))
                continue
            self.weights(1.0 + self.c[i] * h / self.h_before, weights)
            for j in range(n):
                z[i * size + j] = (last[j] + weights[0] * last[n + j] + weights[1] * last[2 * n + j]
                                   + weights[2] * last[3 * n + j] - y[j])
        self.change(self.to, z, w)
        self.rate = -1.0
        for self.iterations in range(1, MAX_ITERATIONS + 1):
            for i in range(3):
                for j in range(n):
                    near[j] = y[j] + z[i * size + j]
                self.primal.value(t + self.c[i] * h, near, f + i * size)
                for j in range(n):
                    if not isfinite(f[i * size + j]):
                        return False
            self.correct(h, f, w, dw)
            norm = 0.0
            for i in range(3):
                x = self.norm(dw + i * size, y, NULL)
                norm += x * x
            norm = sqrt(norm / 3.0)
            if last_norm >= 0.0:
                self.rate = norm / last_norm
                if not self.rate < 1 or (pow(self.rate, MAX_ITERATIONS + 1 - self.iterations) / (1 - self.rate) * norm
                                         > self.tolerance):
                    return False
            for i in range(3):
                for j in range(n):
                    w[i * size + j] += dw[i * size + j]
            self.change(self.back, w, z)
            if norm == 0 or self.rate >= 0.0 and self.rate / (1 - self.rate) * norm < self.tolerance:
                return True
            last_norm = norm
        return False

    cdef void correct(self, double h, const double *f, const double *w, double *dw) noexcept nogil:
        """Compute the correction of the stages in the eigenvector basis, from the slopes at the stages."""
        cdef double *pairs = <double *>cnp.PyArray_DATA(self.work) + 10 * self.size     # complex numbers
        cdef Py_ssize_t j, n = self.states, size = self.size
        self.change(self.to, f, dw)
        for j in range(n):
            dw[j] -= self.mu / h * w[j]
            pairs[2 * j] = dw[size + j] - (self.mu_real * w[size + j] - self.mu_imag * w[2 * size + j]) / h
            pairs[2 * j + 1] = dw[2 * size + j] - (self.mu_real * w[2 * size + j] + self.mu_imag * w[size + j]) / h
        self.single.solve(dw, False)
        self.pair.solve(pairs, False)
        for j in range(n):
            dw[size + j], dw[2 * size + j] = pairs[2 * j], pairs[2 * j + 1]

    cdef void change(self, double[3] *matrix, const double *x, double *found) noexcept nogil:
        """Multiply three vectors of states by a matrix."""
        cdef Py_ssize_t i, j, size = self.size
        for i in range(3):
            for j in range(self.states):
                found[i * size + j] = matrix[i][0] * x[j] + matrix[i][1] * x[size + j] + matrix[i][2] * x[2 * size + j]

    cdef double error(self, double t, double h, const double *y, const double *f, const double *z,
                      bint was_rejected) except? -1:
        """Return the norm of the estimated error of a step."""
        cdef Py_ssize_t i, n = self.states, size = self.size
        cdef double *end = doubles(self.work)
        cdef double *change = end + size
        cdef double *found = change + size
        cdef double norm
        for i in range(n):
            end[i] = y[i] + z[2 * size + i]
            change[i] = (self.e[0] * z[i] + self.e[1] * z[size + i] + self.e[2] * z[2 * size + i]) / h
            found[i] = f[i] + change[i]
        self.single.solve(found, False)
        norm = self.norm(found, y, end)
        if was_rejected and norm > 1:
            for i in range(n):
                found[i] += y[i]
            self.primal.value(t, found, found)
            for i in range(n):
                found[i] += change[i]
            self.single.solve(found, False)
            norm = self.norm(found, y, end)
        return norm

    cdef double error_of_tangents(self, double t, double h, const double *y, const double *z) except? -1:
        """Return the norm of the estimated errors of the tangents in a step."""
        cdef Py_ssize_t i, size = self.size
        cdef double *end = doubles(self.work)
        cdef double *found = end + size
        self.field.value(t, y, found)
        for i in range(size):
            end[i] = y[i] + z[2 * size + i]
            found[i] += (self.e[0] * z[i] + self.e[1] * z[size + i] + self.e[2] * z[2 * size + i]) / h
        self.single.solve(found + self.states, False, self.copies - 1)
        return self.tangent_norm(found, y, end)

    cdef void weights(self, double x, double *w) noexcept nogil:
        """Compute the weights of the stages in the solution at a fraction `x` of a step."""
        cdef Py_ssize_t i
        for i in range(3):
            w[i] = x * (self.p[i][0] + x * (self.p[i][1] + x * self.p[i][2]))

    cdef int interpolate(self, double t, double *y) except -1:
        return self.write(self.t_now, self.h_now, self.y_now, self.z_now, &t, 1, 0, 1, y)

    cdef int write(self, double t, double h, const double *y, const double *z, const double *at, Py_ssize_t T,
                   Py_ssize_t first, Py_ssize_t last, double *out) except -1:
        """Write the states at the output times ``at[first:last]``, of T in all, within a step."""
        cdef double w[3]
        cdef Py_ssize_t i, j, k, q
        for j in range(first, last):
            self.weights((at[j] - t) / h, w)
            for q in range(self.copies):
                for i in range(self.states):
                    k = q * self.states + i
                    out[(q * T + j) * self.states + i] = (
                        y[k] + w[0] * z[k] + w[1] * z[self.size + k] + w[2] * z[2 * self.size + k])
        return 0

    # ---- derivatives

    cdef int linearise(self, double t, double h, const double *y, const double *z) except -1:
        """Factorise the matrix M of a step."""
        cdef Py_ssize_t i, j, k, n = self.states
        cdef double *near = doubles(self.work)
        self.exact.clear(1.0, 0.0)
        for j in range(3):
            for k in range(n):
                near[k] = y[k] + z[j * self.size + k]
            self.jacobian.slopes(t + self.c[j] * h, near)
            for i in range(3):
                self.exact.add(3 * i + j, self.jacobian.at_values, -h * self.a[i][j])
        self.exact.factor()
        return 0

    cdef int push(self, double t, double h, const double *y, double *z) except -1:
        """Compute the stages of the tangents, order by order."""
        cdef Py_ssize_t i, j, k, q, level, count, n = self.states, size = self.size
        cdef const Py_ssize_t *levels = <const Py_ssize_t *>cnp.PyArray_DATA(self.field.levels)
        cdef double *b = doubles(self.work)             # three stages of each tangent of one order
        cdef double *near = b + 3 * size
        cdef double *f = near + size
        if self.is_rough and n >= MIN_ROUGH and self.push_roughly(t, h, y, z):
            return 0
        self.linearise(t, h, y, z)
        for level in range(1, self.highest + 1):
            for q in range(1, self.copies):
                for i in range(3 if levels[q] >= level else 0):
                    memset(z + i * size + q * n, 0, n * sizeof(double))
            for j in range(3):
                for k in range(size):
                    near[k] = y[k] + z[j * size + k]
                self.field.value(t + self.c[j] * h, near, f + j * size)
            count = 0
            for q in range(1, self.copies):
                if levels[q] == level:
                    for i in range(3):
                        for k in range(q * n, (q + 1) * n):
                            b[3 * n * count + i * n + k - q * n] = h * (
                                self.a[i][0] * f[k] + self.a[i][1] * f[size + k] + self.a[i][2] * f[2 * size + k])
                    count += 1
            self.exact.solve(b, False, count)
            count = 0
            for q in range(1, self.copies):
                if levels[q] == level:
                    for i in range(3):
                        memcpy(z + i * size + q * n, b + 3 * n * count + i * n, n * sizeof(double))
                    count += 1
        return 0

    cdef bint push_roughly(self, double t, double h, const double *y, double *z) except -1:
        """Iterate for a tangent with the factors and tolerance of the Newton iterations; return whether it converges.

        This accuracy suffices for step-size control.
        """
        cdef Py_ssize_t i, k, n = self.states, size = self.size
        cdef double *w = doubles(self.work)
        cdef double *dw = w + 3 * size
        cdef double *f = w + 6 * size
        cdef double *near = w + 9 * size
        cdef double norm, last_norm = -1.0
        memset(w, 0, 3 * size * sizeof(double))
        for i in range(3):
            memset(z + i * size + n, 0, n * sizeof(double))
        for _ in range(MAX_ITERATIONS):
            for i in range(3):
                for k in range(size):
                    near[k] = y[k] + z[i * size + k]
                self.field.value(t + self.c[i] * h, near, f + i * size)
            self.correct(h, f + n, w + n, dw + n)
            norm = 0.0
            for i in range(3):
                norm += self.tangent_norm(dw + i * size, y, y) ** 2
                for k in range(n, 2 * n):
                    w[i * size + k] += dw[i * size + k]
            norm = sqrt(norm / 3.0)
            self.change(self.back, w + n, z + n)
            if norm == 0 or 0 <= last_norm and norm < last_norm and norm * norm / (last_norm - norm) < self.tolerance:
                return True
            last_norm = norm
        return False

    cdef int keep_step(self, double end, const double *y, const double *z) except -1:
        """Store a step: its end, the state at its start, and its stages."""
        cdef Py_ssize_t r, n = self.kept_size
        self.keep_end(end)
        if self.count == self.starts.shape[0]:
            self.starts, self.stages = longer(self.starts), longer(self.stages)
        memcpy(doubles(self.starts) + self.count * n, y, n * sizeof(double))
        for r in range(3):
            memcpy(doubles(self.stages) + (3 * self.count + r) * n, z + r * self.size, n * sizeof(double))
        return 0

    @property
    def nbytes(self):
        return self.starts.nbytes + self.stages.nbytes

    def narrow(self, Field field):
        cdef Py_ssize_t n = self.states
        self.set_field(field)
        self.work = np.zeros((12, n))

    def adjoint(self, Pullback pullback, cnp.ndarray g):
        cdef Py_ssize_t done = self.times.shape[0] - 2, before, i
        cdef cnp.ndarray adjoint = np.zeros(self.size), work = np.zeros((11, self.size))
        cdef double start
        for i in range(self.count - 1, -1, -1):
            start, before = doubles(self.ends)[i - 1] if i else self.t0, done
            done = self.after(start, done, i)
            self.pull_step(start, doubles(self.ends)[i] - start, doubles(self.starts) + i * self.size,
                           doubles(self.stages) + 3 * i * self.size, g, done, before, doubles(adjoint), doubles(work),
                           pullback)
            if i % SIGNALS_EVERY == 0:
                PyErr_CheckSignals()
        return adjoint

    cdef int pull_step(self, double t, double h, const double *y, const double *z, cnp.ndarray g, Py_ssize_t first,
                       Py_ssize_t last, double *adjoint, double *work, Pullback pullback) except -1:
        """Pull the adjoint of the state at the end of a step back to its start."""
        cdef Py_ssize_t i, j, k, q, level, count, n = self.states, size = self.size, T = self.times.shape[0] - 2
        cdef const Py_ssize_t *levels = <const Py_ssize_t *>cnp.PyArray_DATA(self.field.levels)
        cdef double *of_stages = work                   # adjoints of the stages, then of the equations of the step
        cdef double *of_slopes = work + 3 * size
        cdef double *others = work + 6 * size
        cdef double *b = work + 7 * size
        cdef double *near = work + 10 * size
        cdef double w[3]
        cdef const double *row
        memset(of_stages, 0, 2 * size * sizeof(double))
        memcpy(of_stages + 2 * size, adjoint, size * sizeof(double))
        for j in range(first, last):
            self.weights((doubles(self.times)[2 + j] - t) / h, w)
            for q in range(self.copies):
                row = <const double *>cnp.PyArray_DATA(g) + (q * T + j) * n
                for k in range(n):
                    adjoint[q * n + k] += row[k]
                    for i in range(3):
                        of_stages[i * size + q * n + k] += w[i] * row[k]
        if not is_nonzero(of_stages, 3 * size):
            return 0
        self.linearise(t, h, y, z)
        memset(of_slopes, 0, 3 * size * sizeof(double))
        for level in range(self.highest, -1, -1):       # tangents of higher order depend on lower orders
            for j in range(3):
                memset(others, 0, size * sizeof(double))
                if level < self.highest:
                    for k in range(size):
                        near[k] = y[k] + z[j * size + k]
                    pullback.pull(t + self.c[j] * h, near, of_slopes + j * size, others, False)
                count = 0
                for q in range(self.copies):
                    if levels[q] == level:
                        for k in range(q * n, (q + 1) * n):
                            b[3 * n * count + j * n + k - q * n] = of_stages[j * size + k] + others[k]
                        count += 1
            self.exact.solve(b, True, count)
            count = 0
            for q in range(self.copies):
                if levels[q] == level:
                    for j in range(3):
                        for k in range(3 * n * count, 3 * n * count + n):
                            of_slopes[j * size + q * n + k - 3 * n * count] = h * (
                                self.a[0][j] * b[k] + self.a[1][j] * b[n + k] + self.a[2][j] * b[2 * n + k])
                    count += 1
        for j in range(3):
            for k in range(size):
                near[k] = y[k] + z[j * size + k]
            pullback.pull(t + self.c[j] * h, near, of_slopes + j * size, adjoint)
        return 0


cdef double predicted(double size, double last_size, double norm, double last_norm) noexcept nogil:
    """Return the step-size factor predicted from the errors of the last two steps."""
    cdef double factor = 1.0
    if last_size > 0.0 and norm > 0.0:
        factor = fmin(1.0, size / last_size * pow(last_norm / norm, 0.25))
    return factor * pow(norm, -0.25)
