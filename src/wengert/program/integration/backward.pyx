# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Backward differentiation formulas of orders 1 to 5 with SciPy's step-size control, and their tangents and adjoint.

The state is the array of backward differences D, which are rescaled when the step size changes.  A step solves
``y - y_predicted + psi - c f(t, y) = 0``, where ``y_predicted`` and ``psi`` are linear in D, and then updates D.
The primal system is solved by simplified Newton iterations.  Its tangents and the adjoint follow from linear equations
with the matrix ``M = I - c J``, where J is the Jacobian at the solution, by the implicit function theorem.

References
----------
Shampine and Reichelt (1997), The MATLAB ODE Suite, section 2. doi:10.1137/S1064827594276424
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport fabs, fmax, fmin, isfinite, pow
from libc.string cimport memcpy, memset

from wengert.program.integration.factor cimport Factor, factor_of
from wengert.program.integration.field cimport Field, Jacobian, Pullback
from wengert.program.integration.stepper cimport SIGNALS_EVERY, Implicit, doubles, is_nonzero, longer

import numpy as np

cnp.import_array()

cdef enum:
    MAX_ORDER = 5
    ROWS = 8                    # differences of orders 0 to MAX_ORDER + 2
    MAX_ITERATIONS = 4

cdef double MIN_FACTOR = 0.2, MAX_FACTOR = 10.0         # SciPy's limits on the change of step size


cdef struct Taken:              # a step: order and step-size factor before and after it, and its size
    int order, next_order
    double factor, next_factor, h


cdef class Backward(Implicit):
    """An integration by backward differentiation formulas."""

    cdef Factor lu, exact
    cdef cnp.ndarray ends_of_steps, taken               # stored for the adjoint: states at ends of steps, and steps
    cdef double alpha[ROWS]
    cdef double gamma[ROWS]
    cdef double constant[ROWS]                          # of the error, by order
    cdef double first, end_now, h_now
    cdef int order_now
    cdef const double *d_now
    cdef cnp.ndarray start

    def __init__(self, dict options, double memory):
        cdef double kappa[6]
        cdef Py_ssize_t k
        Implicit.__init__(self, options, memory)
        kappa[:] = [0, -0.1850, -1.0 / 9, -0.0823, -0.0415, 0]
        self.gamma[0] = 0.0
        for k in range(1, MAX_ORDER + 1):
            self.gamma[k] = self.gamma[k - 1] + 1.0 / k
        for k in range(MAX_ORDER + 1):
            self.alpha[k] = (1 - kappa[k]) * self.gamma[k]
            self.constant[k] = kappa[k] * self.gamma[k] + 1.0 / (k + 1)

    # ---- the steps

    def run(self, Field field, Field primal, Jacobian jacobian, cnp.ndarray times, cnp.ndarray y0, cnp.ndarray out,
            bint keep):
        cdef Py_ssize_t done = 0, first, count = times.shape[0] - 2
        cdef int order = 1, equal_steps = 0, last_order
        cdef double t, h, h_abs, new, c, factor, scale, safety, norm, shrink, proposed
        cdef bint is_current, has_factors = False
        cdef cnp.ndarray differences = np.zeros((ROWS, y0.size)), y = np.zeros(y0.size)
        cdef double *d = doubles(differences)
        cdef double *ys = doubles(y)
        cdef double *predicted
        cdef double *psi
        cdef double *change
        self.begin(field, times)
        t, h_abs = self.t0, self.prepare(field, primal, jacobian, y0, d, keep)
        predicted = doubles(self.work)
        psi, change = predicted + self.size, predicted + 2 * self.size
        while self.direction * (t - self.t1) < 0:
            proposed = h_abs
            h_abs, scale = self.limited(t, h_abs), 1.0
            if h_abs != proposed:
                scale = h_abs / proposed
                self.rescale(d, order, scale)
                equal_steps = 0
            is_current = False
            while True:
                self.check_size(t, h_abs)
                new = self.next_time(t, h_abs)
                if new == self.t1 and fabs(new - t) != h_abs:
                    shrink = fabs(new - t) / h_abs
                    self.rescale(d, order, shrink)
                    scale *= shrink
                    equal_steps, has_factors = 0, False
                h = new - t
                h_abs = fabs(h)
                c = h / self.alpha[order]
                self.predict(d, order, predicted, psi)
                shrink = 0.5
                if self.converges(new, c, predicted, psi, ys, change, &has_factors, &is_current):
                    safety = 0.9 * (2 * MAX_ITERATIONS + 1) / (2 * MAX_ITERATIONS + self.iterations)
                    norm = self.error(order, new, c, predicted, psi, ys, change)
                    if norm <= 1:
                        break
                    shrink = fmax(MIN_FACTOR, safety * pow(norm, -1.0 / (order + 1))) if norm == norm else 0.5
                else:
                    has_factors = False
                h_abs *= shrink
                scale *= shrink
                self.rescale(d, order, shrink)
                equal_steps = 0
            self.doubt(t, proposed, new, d, ys)
            equal_steps += 1
            self.update(d, order, change)
            last_order, factor = order, 1.0
            if equal_steps > order:
                factor = self.choose(d, &order, norm, ys, safety)
                self.rescale(d, order, factor)
                equal_steps, has_factors = 0, False
            if keep:
                self.keep_step(new, ys, Taken(last_order, order, scale, factor, h))
            self.d_now, self.end_now, self.h_now, self.order_now = d, new, factor * h, order
            if self.watched(t, new, ys):
                break
            first, done = done, self.until(new, done)
            if done > first:
                self.write(d, new, factor * h, order, doubles(times) + 2, count, first, done, doubles(out))
                if done == count and self.stops_early:
                    self.count += 1
                    break
            h_abs *= factor
            t = new
            self.count += 1
            if self.count % SIGNALS_EVERY == 0:
                PyErr_CheckSignals()

    cdef double prepare(self, Field field, Field primal, Jacobian jacobian, cnp.ndarray y0, double *d,
                        bint keep) except? -1.0:
        """Allocate memory, set the first differences `d`, and return the first step size."""
        cdef Py_ssize_t i, size = self.size
        cdef double h_abs
        self.primal, self.jacobian = primal, jacobian
        self.lu, self.exact = factor_of(jacobian.pattern, False), factor_of(jacobian.pattern, False)
        self.slopes, self.work = np.zeros(jacobian.count), np.zeros((8, size))
        self.start = np.array(y0, dtype=float).reshape(-1)
        if keep:
            self.ends_of_steps = np.empty((64, self.kept_size))
            self.taken = np.empty((64, sizeof(Taken)), np.uint8)
        memcpy(d, doubles(self.start), size * sizeof(double))
        field.value(self.t0, d, d + size)
        h_abs = self.initial_step(primal, d, d + size, 1)
        self.first = h_abs * self.direction
        for i in range(size):
            d[size + i] *= self.first
        self.differentiate(self.t0, d)
        return h_abs

    cdef bint converges(self, double t, double c, double *predicted, double *psi, double *ys, double *change,
                        bint *has_factors, bint *is_current) except -1:
        """Solve for the state; if that fails with the Jacobian of an earlier step, try again with a new one."""
        while True:
            if not has_factors[0]:
                self.lu.combine(doubles(self.slopes), -c, 1.0, 0.0)
                has_factors[0] = True
            if self.iterate(t, c, predicted, psi, ys, change):
                return True
            if is_current[0]:
                return False
            self.differentiate(t, predicted)
            is_current[0], has_factors[0] = True, False

    cdef double error(self, int order, double t, double c, double *predicted, double *psi, double *ys,
                      double *change) except? -1.0:
        """Return the larger of the error norms of the state and of its tangents, relative to the tolerances."""
        cdef double scale = fabs(self.constant[order]), norm = scale * self.norm(change, ys, NULL)
        if norm <= 1 and self.copies > 1:
            self.push(t, c, predicted, psi, ys, change)
            norm = fmax(norm, scale * self.tangent_norm(change, ys, ys))
        return norm

    cdef void rescale(self, double *d, int order, double factor, bint transposed=False) noexcept nogil:
        """Rescale the differences for a step size multiplied by `factor`, or apply the transpose of this map."""
        cdef double r[6][6]
        cdef double u[6][6]
        cdef double ru[6][6]
        cdef double column[6]
        cdef Py_ssize_t i, j, k, size = self.size
        if factor == 1.0:
            return
        triangle(r, order, factor)
        triangle(u, order, 1.0)
        for i in range(order + 1):
            for j in range(order + 1):
                ru[i][j] = 0.0
                for k in range(order + 1):
                    ru[i][j] += r[i][k] * u[k][j]
        for k in range(size):
            for i in range(order + 1):
                column[i] = d[i * size + k]
                d[i * size + k] = 0.0
            for i in range(order + 1):
                for j in range(order + 1):
                    d[i * size + k] += (ru[i][j] if transposed else ru[j][i]) * column[j]

    cdef void predict(self, const double *d, int order, double *predicted, double *psi) noexcept nogil:
        """Compute the parts of the equations that are linear in the differences."""
        cdef Py_ssize_t i, k
        for k in range(self.size):
            predicted[k], psi[k] = d[k], 0.0
            for i in range(1, order + 1):
                predicted[k] += d[i * self.size + k]
                psi[k] += self.gamma[i] * d[i * self.size + k]
            psi[k] /= self.alpha[order]

    cdef bint iterate(self, double t, double c, const double *predicted, const double *psi, double *y,
                      double *change) except -1:
        """Solve the equations of a step by simplified Newton iterations; return whether these have converged."""
        cdef Py_ssize_t i, n = self.states
        cdef double *f = doubles(self.work) + 3 * self.size
        cdef double norm, last_norm = -1.0
        memcpy(y, predicted, n * sizeof(double))
        memset(change, 0, n * sizeof(double))
        self.rate = -1.0
        for self.iterations in range(1, MAX_ITERATIONS + 1):
            self.primal.value(t, y, f)
            for i in range(n):
                if not isfinite(f[i]):
                    return False
                f[i] = c * f[i] - psi[i] - change[i]
            self.lu.solve(f, False)
            norm = self.norm(f, predicted, NULL)
            if last_norm >= 0.0:
                self.rate = norm / last_norm
                if not self.rate < 1 or (pow(self.rate, MAX_ITERATIONS + 1 - self.iterations) / (1 - self.rate) * norm
                                         > self.tolerance):
                    return False
            for i in range(n):
                y[i] += f[i]
                change[i] += f[i]
            if norm == 0 or self.rate >= 0.0 and self.rate / (1 - self.rate) * norm < self.tolerance:
                return True
            last_norm = norm
        return False

    cdef void update(self, double *d, int order, const double *change) noexcept nogil:
        """Update the differences after a step; `change` is the new one of order ``order + 1``."""
        cdef Py_ssize_t i, k, size = self.size
        for k in range(size):
            d[(order + 2) * size + k] = change[k] - d[(order + 1) * size + k]
            d[(order + 1) * size + k] = change[k]
            for i in range(order, -1, -1):
                d[i * size + k] += d[(i + 1) * size + k]

    cdef double choose(self, const double *d, int *order, double norm, const double *y, double safety) noexcept nogil:
        """Set the next order and return the factor of the step size."""
        cdef double lower = 0.0, upper = 0.0, same = pow(norm, -1.0 / (order[0] + 1)), best
        if order[0] > 1:
            lower = pow(fabs(self.constant[order[0] - 1]) * self.norm_of_all(d + order[0] * self.size, y),
                        -1.0 / order[0])
        if order[0] < MAX_ORDER:
            upper = pow(fabs(self.constant[order[0] + 1]) * self.norm_of_all(d + (order[0] + 2) * self.size, y),
                        -1.0 / (order[0] + 2))
        best = fmax(lower, fmax(same, upper))
        if lower == best:
            order[0] -= 1
        elif same != best:
            order[0] += 1
        return fmin(MAX_FACTOR, safety * best)

    cdef double norm_of_all(self, const double *error, const double *y) noexcept nogil:
        """Return the larger of the norms of an error of the state and of its tangents."""
        cdef double found = self.norm(error, y, NULL)
        return fmax(found, self.tangent_norm(error, y, y)) if self.copies > 1 else found

    cdef void weights(self, double t, double end, double h, int order, double *w) noexcept nogil:
        """Compute the weights of the differences of orders 1 to `order` in the solution at time `t`."""
        cdef double product = 1.0
        cdef int j
        for j in range(order):
            product *= (t - (end - h * j)) / (h * (1 + j))
            w[j] = product

    cdef int interpolate(self, double t, double *y) except -1:
        return self.write(self.d_now, self.end_now, self.h_now, self.order_now, &t, 1, 0, 1, y)

    cdef int write(self, const double *d, double end, double h, int order, const double *at, Py_ssize_t T,
                   Py_ssize_t first, Py_ssize_t last, double *out) except -1:
        """Write the states at the output times ``at[first:last]``, of T in all, within a step."""
        cdef double w[MAX_ORDER]
        cdef double x
        cdef Py_ssize_t i, j, k, q
        for j in range(first, last):
            self.weights(at[j], end, h, order, w)
            for q in range(self.copies):
                for i in range(self.states):
                    k = q * self.states + i
                    x = d[k]
                    for r in range(order):
                        x += w[r] * d[(1 + r) * self.size + k]
                    out[(q * T + j) * self.states + i] = x
        return 0

    # ---- derivatives

    cdef int push(self, double t, double c, const double *predicted, const double *psi, double *y,
                  double *change) except -1:
        """Compute the tangents of a step, order by order."""
        cdef Py_ssize_t k, q, level, count, n = self.states
        cdef const Py_ssize_t *levels = <const Py_ssize_t *>cnp.PyArray_DATA(self.field.levels)
        cdef double *f = doubles(self.work) + 3 * self.size
        cdef double *b = f + self.size                  # the tangents of one order
        if self.is_rough and self.push_roughly(t, c, predicted, psi, y, change):
            return 0
        self.jacobian.slopes(t, y)
        self.exact.combine(self.jacobian.at_values, -c, 1.0, 0.0)
        for level in range(1, self.highest + 1):
            for q in range(1, self.copies):
                if levels[q] >= level:
                    memset(y + q * n, 0, n * sizeof(double))
            self.field.value(t, y, f)
            count = 0
            for q in range(1, self.copies):
                if levels[q] == level:
                    for k in range(q * n, (q + 1) * n):
                        b[n * count + k - q * n] = predicted[k] - psi[k] + c * f[k]
                    count += 1
            self.exact.solve(b, False, count)
            count = 0
            for q in range(1, self.copies):
                if levels[q] == level:
                    memcpy(y + q * n, b + n * count, n * sizeof(double))
                    count += 1
        for k in range(n, self.size):
            change[k] = y[k] - predicted[k]
        return 0

    cdef bint push_roughly(self, double t, double c, const double *predicted, const double *psi, double *y,
                           double *change) except -1:
        """Iterate for a tangent with the factors and tolerance of the Newton iterations; return whether it converges.

        This accuracy suffices for step-size control.
        """
        cdef Py_ssize_t k, n = self.states
        cdef double *f = doubles(self.work) + 3 * self.size
        cdef double norm, last_norm = -1.0
        memset(f, 0, n * sizeof(double))
        memcpy(y + n, predicted + n, n * sizeof(double))
        for _ in range(MAX_ITERATIONS):
            self.field.value(t, y, f)
            for k in range(n, 2 * n):
                f[k] = predicted[k] - psi[k] + c * f[k] - y[k]
            self.lu.solve(f + n, False)
            norm = self.tangent_norm(f, predicted, predicted)
            for k in range(n, 2 * n):
                y[k] += f[k]
                change[k] = y[k] - predicted[k]
            if norm == 0 or 0 <= last_norm and norm < last_norm and norm * norm / (last_norm - norm) < self.tolerance:
                return True
            last_norm = norm
        return False

    cdef int keep_step(self, double end, const double *y, Taken step) except -1:
        """Store a step: its end, the state there, its order, and its step-size factors."""
        self.keep_end(end)
        if self.count == self.ends_of_steps.shape[0]:
            self.ends_of_steps = longer(self.ends_of_steps)
            taken = np.empty((2 * len(self.taken), sizeof(Taken)), np.uint8)
            taken[:len(self.taken)] = self.taken
            self.taken = taken
        memcpy(doubles(self.ends_of_steps) + self.count * self.kept_size, y, self.kept_size * sizeof(double))
        (<Taken *>cnp.PyArray_DATA(self.taken))[self.count] = step
        return 0

    @property
    def nbytes(self):
        return self.ends_of_steps.nbytes + self.taken.nbytes

    def narrow(self, Field field):
        cdef Py_ssize_t n = self.states
        self.start = self.start[:n].copy()
        self.set_field(field)
        self.work = np.zeros((8, n))

    def adjoint(self, Pullback pullback, cnp.ndarray g):
        cdef Py_ssize_t done = self.times.shape[0] - 2, before, i, k, size = self.size
        cdef cnp.ndarray adjoint = np.zeros((ROWS, size)), work = np.zeros((4, size))
        cdef double *d = doubles(adjoint)
        cdef Taken *taken = <Taken *>cnp.PyArray_DATA(self.taken)
        for i in range(self.count - 1, -1, -1):
            before, done = done, self.after(doubles(self.ends)[i - 1] if i else self.t0, done, i)
            self.pull_output(g, doubles(self.ends)[i], taken[i], done, before, d)
            if is_nonzero(d, ROWS * size):
                self.rescale(d, taken[i].next_order, taken[i].next_factor, True)
                self.pull_step(doubles(self.ends)[i], taken[i].h / self.alpha[taken[i].order], taken[i].order,
                               doubles(self.ends_of_steps) + i * size, d, doubles(work), pullback)
                self.rescale(d, taken[i].order, taken[i].factor, True)
            if i % SIGNALS_EVERY == 0:
                PyErr_CheckSignals()
        for k in range(size):
            d[size + k] *= self.first
        pullback.pull(self.t0, doubles(self.start), d + size, d)
        return adjoint[0]

    cdef int pull_output(self, cnp.ndarray g, double end, Taken step, Py_ssize_t first, Py_ssize_t last,
                         double *d) except -1:
        """Add the adjoints of the solution at times within a step to those of the differences at its end."""
        cdef double w[MAX_ORDER]
        cdef const double *row
        cdef Py_ssize_t i, j, q, r, n = self.states, T = self.times.shape[0] - 2
        for j in range(first, last):
            self.weights(doubles(self.times)[2 + j], end, step.next_factor * step.h, step.next_order, w)
            for q in range(self.copies):
                row = <const double *>cnp.PyArray_DATA(g) + (q * T + j) * n
                for i in range(n):
                    d[q * n + i] += row[i]
                    for r in range(step.next_order):
                        d[(1 + r) * self.size + q * n + i] += w[r] * row[i]
        return 0

    cdef int pull_step(self, double t, double c, int order, const double *y, double *d, double *work,
                       Pullback pullback) except -1:
        """Pull the adjoints of the differences back through a step."""
        cdef Py_ssize_t i, k, q, level, count, n = self.states, size = self.size
        cdef const Py_ssize_t *levels = <const Py_ssize_t *>cnp.PyArray_DATA(self.field.levels)
        cdef double *of_y = work                        # adjoint of the solution, then of the equations of the step
        cdef double *of_slopes = work + size
        cdef double *others = work + 2 * size
        cdef double *b = work + 3 * size
        cdef double change
        for k in range(size):
            change = d[(order + 2) * size + k] + d[(order + 1) * size + k]
            d[(order + 1) * size + k], d[(order + 2) * size + k] = -d[(order + 2) * size + k], 0.0
            for i in range(order, -1, -1):
                change += d[i * size + k]
            for i in range(1, order + 1):
                d[i * size + k] += d[(i - 1) * size + k]
            of_y[k] = change
            for i in range(order + 1):
                d[i * size + k] -= change               # the prediction is subtracted from the solution
        self.jacobian.slopes(t, y)
        self.exact.combine(self.jacobian.at_values, -c, 1.0, 0.0)
        memset(of_slopes, 0, size * sizeof(double))
        for level in range(self.highest, -1, -1):       # tangents of higher order depend on lower orders
            memset(others, 0, size * sizeof(double))
            if level < self.highest:
                pullback.pull(t, y, of_slopes, others, False)
            count = 0
            for q in range(self.copies):
                if levels[q] == level:
                    for k in range(q * n, (q + 1) * n):
                        b[n * count + k - q * n] = of_y[k] + others[k]
                    count += 1
            self.exact.solve(b, True, count)
            count = 0
            for q in range(self.copies):
                if levels[q] == level:
                    for k in range(q * n, (q + 1) * n):
                        of_y[k] = b[n * count + k - q * n]
                        of_slopes[k] = c * of_y[k]
                    count += 1
        pullback.pull(t, y, of_slopes, others)          # adds the adjoints of the parameters
        for k in range(size):
            d[k] += of_y[k]
            for i in range(1, order + 1):
                d[i * size + k] += (1.0 - self.gamma[i] / self.alpha[order]) * of_y[k]
        return 0


cdef void triangle(double[6] *found, int order, double factor) noexcept nogil:
    """Compute a matrix from which `rescale` builds the change of differences with the step size."""
    cdef Py_ssize_t i, j
    for j in range(order + 1):
        found[0][j] = 1.0
    for i in range(1, order + 1):
        found[i][0] = 0.0
        for j in range(1, order + 1):
            found[i][j] = found[i - 1][j] * (i - 1 - factor * j) / i
