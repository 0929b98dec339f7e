# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Explicit Runge-Kutta methods with SciPy's step-size control, and the adjoint of the accepted steps.

A step of size h from y has the stages ``K[r] = f(t + c[r] h, y + h sum_j a[r, j] K[j])``.  Row `stages` is the end of
the step, whose slope is the first stage of the next step; later rows are further stages for the interpolant.
A state vector holds the state, followed by its tangents.
The adjoint holds the step sizes fixed; it is exact for the discrete solution (discretise, then differentiate).

References
----------
Hairer, Norsett and Wanner (1993), Solving Ordinary Differential Equations I, sections II.4, II.6 and II.10.
Eberhard and Bischof (1999), Automatic differentiation of numerical integration algorithms.
doi:10.1090/S0025-5718-99-01027-3
"""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.math cimport INFINITY, fabs, fmax, fmin, pow, sqrt
from libc.string cimport memcpy, memset

from wengert.program.integration.field cimport Field, Pullback
from wengert.program.integration.stepper cimport SIGNALS_EVERY, Stepper, doubles, is_nonzero, longer

import numpy as np

from wengert.errors import GuardError

cnp.import_array()

cdef double SAFETY = 0.9, MIN_FACTOR = 0.2, MAX_FACTOR = 10.0       # SciPy's limits on the change of step size

cdef double MAX_PRODUCT = 6.1       # of step size and eigenvalue: stability limit of DOP853
cdef enum:
    MAX_STIFF_STEPS = 15            # steps with a larger product after which the equations count as stiff
    MIN_CALM_STEPS = 6              # consecutive steps with a smaller product that reset this count

cdef enum:
    POLYNOMIAL, DOP853          # interpolants
    WIDTH = 8                   # elements that are summed at once


TABLES = {}                     # coefficients by method


def coefficients(method):
    """Return the coefficients of SciPy's class: see the fields of `Explicit`."""
    extra = len(method.A_EXTRA) if hasattr(method, "A_EXTRA") else 0
    stages = method.n_stages
    rows = stages + 1 + extra
    a, c, errors = np.zeros((rows, rows)), np.ones(rows), np.zeros((2, rows))
    a[:stages, :method.A.shape[1]] = method.A
    a[stages, :stages] = method.B
    c[:stages] = method.C
    if extra:
        a[stages + 1:, :method.A_EXTRA.shape[1]] = method.A_EXTRA
        c[stages + 1:] = method.C_EXTRA
        errors[:, :stages + 1] = method.E5, method.E3
    else:
        errors[0, :stages + 1] = method.E
    every = np.concatenate([a, errors])
    at, columns = np.nonzero(every)
    starts = np.searchsorted(at, np.arange(rows + 3))
    p = np.array(method.D if extra else method.P, order="C")
    return a, c, p, starts, columns.copy(), every[at, columns]


class StiffnessError(GuardError):
    """The equations are stiff, so that an explicit method needs many steps."""


cdef class Explicit(Stepper):
    """An integration by an explicit method.

    Parameters
    ----------
    method : type
        SciPy's class, whose coefficients are used.
    options, memory
        See `Stepper`.
    refuses_stiffness : bool
        Whether `StiffnessError` is raised where stability limits the steps.
    """

    cdef Py_ssize_t stages, rows, order, power, spacing
    cdef int interpolant
    cdef cnp.ndarray a, c, p
    cdef Py_ssize_t e3, e5                          # rows of the weights of the error estimates
    cdef cnp.ndarray starts, columns, nonzeros      # nonzeros of `a` and of these weights, by rows
    cdef double exponent, t_now, h_now
    cdef const double *y_now
    cdef const double *new_now
    cdef double *k_now
    cdef bint is_full, refuses_stiffness
    cdef cnp.ndarray kept, slopes                   # states at the starts of steps; stages of steps
    cdef cnp.ndarray work                           # two vectors
    cdef double *at_work
    cdef const double *at_c

    def __init__(self, method, dict options, double memory, bint refuses_stiffness=False):
        Stepper.__init__(self, options, memory)
        self.refuses_stiffness = refuses_stiffness
        if method not in TABLES:
            TABLES[method] = coefficients(method)
        self.a, self.c, self.p, self.starts, self.columns, self.nonzeros = TABLES[method]
        self.at_c = doubles(self.c)
        self.stages, self.order, self.rows = method.n_stages, method.error_estimator_order, self.a.shape[0]
        self.interpolant = DOP853 if hasattr(method, "A_EXTRA") else POLYNOMIAL
        self.e5, self.e3 = self.rows, self.rows + 1
        self.power = self.p.shape[1] if self.interpolant == POLYNOMIAL else self.p.shape[0]
        self.exponent = -1.0 / (self.order + 1)

    # ---- the steps

    def run(self, Field field, cnp.ndarray times, cnp.ndarray y0, cnp.ndarray out, bint keep):
        cdef Py_ssize_t done = 0, first, stiff = 0, calm = 0, count = times.shape[0] - 2
        cdef double t, h, h_abs, new, norm, factor, proposed
        cdef bint was_rejected
        cdef cnp.ndarray y = np.array(y0, dtype=float).reshape(-1), k = np.zeros((self.rows, y.size))
        cdef cnp.ndarray after = np.empty(y.size)
        cdef double *ys = doubles(y)
        cdef double *ks = doubles(k)
        cdef double *news = doubles(after)
        self.begin(field, times)
        self.work, self.spacing, self.is_full = np.empty((2, y.size)), 1, keep
        self.at_work = doubles(self.work)
        if keep:
            self.kept = np.empty((64, self.kept_size))
            self.slopes = np.empty((64, self.stages + 1, self.kept_size))
        t = self.t0
        field.value(t, ys, ks)
        h_abs = self.initial_step(field, ys, ks, self.order)
        while self.direction * (t - self.t1) < 0:
            proposed = h_abs
            h_abs, was_rejected = self.limited(t, h_abs), False
            while True:
                self.check_size(t, h_abs)
                new = self.next_time(t, h_abs)
                h = new - t
                h_abs = fabs(h)
                self.step(t, h, ys, ks, news)
                norm = self.error(ks, h, ys, news)
                if norm < 1:
                    factor = MAX_FACTOR if norm == 0 else fmin(MAX_FACTOR, SAFETY * pow(norm, self.exponent))
                    h_abs *= fmin(1.0, factor) if was_rejected else factor
                    break
                h_abs *= fmax(MIN_FACTOR, SAFETY * pow(norm, self.exponent)) if norm == norm else MIN_FACTOR
                was_rejected = True
            if self.refuses_stiffness:
                if self.product(h, ys, ks, news) > MAX_PRODUCT:
                    stiff, calm = stiff + 1, 0
                    if stiff == MAX_STIFF_STEPS:
                        raise StiffnessError(f"the equations are stiff at t = {t:.6g}")
                else:
                    calm += 1
                    if calm == MIN_CALM_STEPS:
                        stiff = 0
            if keep:
                self.keep_step(new, ys, ks)
            self.doubt(t, proposed, new, ys, news)
            self.t_now, self.h_now, self.y_now, self.new_now, self.k_now = t, h, ys, news, ks
            if self.watched(t, new, news):
                break
            first, done = done, self.until(new, done)
            if done > first:
                self.write(t, h, ys, news, ks, doubles(times) + 2, count, first, done, doubles(out))
                if done == count and self.stops_early:
                    self.count += 1
                    break
            memcpy(ks, ks + self.stages * self.size, self.size * sizeof(double))
            memcpy(ys, news, self.size * sizeof(double))
            t = new
            self.count += 1
            if self.count % SIGNALS_EVERY == 0:
                PyErr_CheckSignals()

    cdef double product(self, double h, const double *y, const double *k, const double *new) noexcept nogil:
        """Estimate the step size times the largest eigenvalue of the Jacobian, from two slopes at the end of a step.

        See Hairer and Wanner (1996), Solving Ordinary Differential Equations II, section IV.2.
        """
        cdef double *near = <double *>cnp.PyArray_DATA(self.work)
        cdef const double *last = k + (self.stages - 1) * self.size
        cdef const double *end = k + self.stages * self.size
        cdef double change = 0.0, distance = 0.0
        cdef Py_ssize_t i
        self.point(self.stages - 1, h, y, k, near)
        for i in range(self.states):
            change += (end[i] - last[i]) ** 2
            distance += (new[i] - near[i]) ** 2
        return fabs(h) * sqrt(change / distance) if distance > 0.0 else 0.0

    cdef void point(self, Py_ssize_t r, double h, const double *y, const double *k, double *found) noexcept nogil:
        """Compute the state at which stage `r` is evaluated."""
        cdef Py_ssize_t i
        self.combine(r, k, found)
        for i in range(self.size):
            found[i] = y[i] + h * found[i]

    cdef int stage(self, Py_ssize_t r, double t, double h, const double *y, double *k) except -1:
        """Compute stage `r`, writing its state directly to the input of the right-hand side."""
        cdef const double *sums = self.at_work
        cdef double *near = self.field.at_x
        cdef Py_ssize_t i, _q
        self.combine(r, k, self.at_work)
        near[0] = t + self.at_c[r] * h
        for _q in range(self.copies):
            for i in range(self.states):
                near[1 + i] = y[i] + h * sums[i]
            near, y, sums = near + self.field.width, y + self.states, sums + self.states
        self.field.evaluate()
        memcpy(k + r * self.size, self.field.at_values, self.size * sizeof(double))
        return 0

    cdef int step(self, double t, double h, const double *y, double *k, double *new) except -1:
        """Compute the stages of a step, except the first, and the state at its end."""
        cdef Py_ssize_t r
        for r in range(1, self.stages):
            self.stage(r, t, h, y, k)
        self.point(self.stages, h, y, k, new)
        self.field.value(t + h, new, k + self.stages * self.size)
        return 0

    cdef double error(self, const double *k, double h, const double *y, const double *new) noexcept nogil:
        """Return the norm of the estimated error, relative to the tolerances."""
        cdef double *five = <double *>cnp.PyArray_DATA(self.work)
        cdef double *three = five + self.size
        cdef double found, tangents = 0.0
        self.combine(self.e5, k, five)
        if self.interpolant == POLYNOMIAL:
            found = self.norm(five, y, new)
            if self.copies > 1:
                tangents = self.tangent_norm(five, y, new)
            return fabs(h) * larger_norm(found, tangents)
        self.combine(self.e3, k, three)
        found = both(self.norm(five, y, new), self.norm(three, y, new))
        if self.copies > 1:
            tangents = both(self.tangent_norm(five, y, new), self.tangent_norm(three, y, new))
        return fabs(h) * larger_norm(found, tangents)

    cdef void combine(self, Py_ssize_t r, const double *k, double *found) noexcept nogil:
        """Compute a combination of the stages, with row `r` of the weights."""
        cdef const Py_ssize_t *starts = <const Py_ssize_t *>cnp.PyArray_DATA(self.starts) + r
        cdef const Py_ssize_t *columns = <const Py_ssize_t *>cnp.PyArray_DATA(self.columns)
        cdef const double *weights = <const double *>cnp.PyArray_DATA(self.nonzeros)
        cdef const double *row
        cdef double sums[WIDTH]
        cdef double weight, first, second
        cdef Py_ssize_t i = 0, j, q
        while i + WIDTH <= self.size:               # sums in registers
            for q in range(WIDTH):
                sums[q] = 0.0
            for j in range(starts[0], starts[1]):
                weight, row = weights[j], k + columns[j] * self.size + i
                for q in range(WIDTH):
                    sums[q] += weight * row[q]
            for q in range(WIDTH):
                found[i + q] = sums[q]
            i += WIDTH
        while i + 2 <= self.size:
            first = second = 0.0
            for j in range(starts[0], starts[1]):
                weight, row = weights[j], k + columns[j] * self.size + i
                first += weight * row[0]
                second += weight * row[1]
            found[i], found[i + 1] = first, second
            i += 2
        if i < self.size:
            first = 0.0
            for j in range(starts[0], starts[1]):
                first += weights[j] * k[columns[j] * self.size + i]
            found[i] = first

    # ---- the interpolant

    cdef int more_stages(self, double t, double h, const double *y, double *k) except -1:
        """Compute the additional stages of the interpolant."""
        cdef Py_ssize_t r
        for r in range(self.stages + 1, self.rows):
            self.stage(r, t, h, y, k)
        return 0

    cdef void weights(self, double x, double h, double *ends, double *w) noexcept nogil:
        """Compute the weights of both ends and of the stages in the solution at a fraction `x` of a step."""
        cdef const double *p = <const double *>cnp.PyArray_DATA(self.p)
        cdef double c[16]
        cdef double power = 1.0
        cdef Py_ssize_t j, r
        for r in range(self.rows):
            w[r] = 0.0
        if self.interpolant == POLYNOMIAL:
            ends[0], ends[1] = 1.0, 0.0
            for j in range(self.power):
                power *= x
                for r in range(self.rows):
                    w[r] += h * p[r * self.power + j] * power
            return
        for j in range(3 + self.power):
            power *= x if j % 2 == 0 else 1.0 - x
            c[j] = power
        ends[1] = c[0] - c[1] + 2.0 * c[2]
        ends[0] = 1.0 - ends[1]
        for j in range(self.power):
            for r in range(self.rows):
                w[r] += h * p[j * self.rows + r] * c[3 + j]
        w[0] += h * (c[1] - c[2])
        w[self.stages] -= h * c[2]

    cdef int interpolate(self, double t, double *y) except -1:
        return self.write(self.t_now, self.h_now, self.y_now, self.new_now, self.k_now, &t, 1, 0, 1, y)

    cdef int write(self, double t, double h, const double *y, const double *new, double *k, const double *at,
                   Py_ssize_t T, Py_ssize_t first, Py_ssize_t last, double *out) except -1:
        """Write the states at the output times ``at[first:last]``, of T in all, within a step."""
        cdef double w[32]
        cdef double ends[2]
        cdef double *place
        cdef double x
        cdef Py_ssize_t i, j, r, q
        if self.interpolant == DOP853:
            self.more_stages(t, h, y, k)
        for j in range(first, last):
            self.weights((at[j] - t) / h, h, ends, w)
            for q in range(self.copies):
                place = out + (q * T + j) * self.states
                for i in range(self.states):
                    x = ends[0] * y[q * self.states + i] + ends[1] * new[q * self.states + i]
                    for r in range(self.rows):
                        x += w[r] * k[r * self.size + q * self.states + i]
                    place[i] = x
        return 0

    # ---- the adjoint

    @property
    def nbytes(self):
        return self.kept.nbytes + (self.slopes.nbytes if self.is_full else 0)

    @property
    def stride(self):
        return 0 if self.is_full else self.spacing

    def narrow(self, Field field):
        cdef Py_ssize_t n = self.states
        self.set_field(field)
        self.work = np.empty((2, n))
        self.at_work = doubles(self.work)

    cdef int keep_step(self, double end, const double *y, const double *k) except -1:
        """Store the end of a step, the state at its start and, while memory allows, its stages.

        Without stages, states are kept at a spacing for which the stages between two of them take about as much memory
        as all kept states; each step is computed again once, whatever the spacing.
        """
        cdef Py_ssize_t i = self.count, r, n = self.kept_size, row = i // self.spacing
        cdef double *stages
        self.keep_end(end)
        if i % self.spacing == 0:
            if row == self.kept.shape[0]:
                if not self.is_full and row >= self.spacing * (self.stages + 1):
                    self.kept[:(row + 1) // 2] = self.kept[::2].copy()
                    self.spacing *= 2
                    row = i // self.spacing
                    if i % self.spacing:
                        return 0
                else:
                    self.kept = longer(self.kept)
            memcpy(doubles(self.kept) + row * n, y, n * sizeof(double))
        if self.is_full:
            if i == self.slopes.shape[0]:
                if 3 * self.slopes.nbytes > self.limit // 2:    # including the copy
                    self.is_full, self.slopes = False, None
                    return 0
                self.slopes = longer(self.slopes)
            stages = doubles(self.slopes) + i * (self.stages + 1) * n
            for r in range(self.stages + 1):
                memcpy(stages + r * n, k + r * self.size, n * sizeof(double))
        return 0

    def adjoint(self, Pullback pullback, cnp.ndarray g):
        cdef Py_ssize_t done = self.times.shape[0] - 2, first, last = self.count, before, i, size = self.size
        cdef Py_ssize_t line = size * sizeof(double), block = (self.stages + 1) * size
        cdef double *ends = doubles(self.ends)
        cdef cnp.ndarray states, slopes, adjoint = np.zeros((2, size)), stage = np.zeros((self.rows, size))
        cdef cnp.ndarray k = np.zeros((self.rows, size))
        cdef double start
        while last > 0:
            first = (last - 1) // self.spacing * self.spacing
            if self.is_full:
                first, states, slopes = 0, self.kept, self.slopes
            else:
                states, slopes = self.again(first, last)
            for i in range(last - 1, first - 1, -1):
                start, before = ends[i - 1] if i else self.t0, done
                done = self.after(start, done, i)
                memcpy(doubles(k), doubles(slopes) + (i - first) * block, block * sizeof(double))
                memcpy(doubles(stage) + self.stages * size, doubles(stage), line)   # the next step's first stage
                memset(doubles(stage), 0, self.stages * line)
                self.pull_step(start, ends[i] - start, doubles(states) + (i - first) * size, doubles(k), g, done,
                               before, doubles(stage), doubles(adjoint), pullback)
                if i % SIGNALS_EVERY == 0:
                    PyErr_CheckSignals()
            last = first
        if is_nonzero(doubles(stage), size):
            pullback.pull(self.t0, doubles(states), doubles(stage), doubles(adjoint))
        return adjoint[0]

    cdef int pull_step(self, double t, double h, const double *y, double *k, cnp.ndarray g, Py_ssize_t first,
                       Py_ssize_t last, double *stage, double *adjoint, Pullback pullback) except -1:
        """Pull the adjoint of the state at the end of a step back to its start.

        `stage` holds the adjoint of the slope at the end, and receives the adjoints of all stages; output times `first`
        to ``last - 1`` lie within the step. The second row of `adjoint` is a work space.
        """
        cdef double w[32]
        cdef double ends[2]
        cdef const double *row
        cdef const double *a
        cdef double *c = doubles(self.c)
        cdef double *at = doubles(self.times) + 2
        cdef double *near = doubles(self.work)
        cdef double *of_point = near + self.size
        cdef double *before = adjoint + self.size
        cdef Py_ssize_t i, j, q, r, size = self.size, rows = self.stages + 1, T = self.times.shape[0] - 2
        memset(before, 0, size * sizeof(double))
        if first < last and self.rows > rows:
            memset(stage + rows * size, 0, (self.rows - rows) * size * sizeof(double))
            self.more_stages(t, h, y, k)
            rows = self.rows
        for j in range(first, last):
            self.weights((at[j] - t) / h, h, ends, w)
            for q in range(self.copies):
                row = <const double *>cnp.PyArray_DATA(g) + (q * T + j) * self.states
                for i in range(self.states):
                    before[q * self.states + i] += ends[0] * row[i]
                    adjoint[q * self.states + i] += ends[1] * row[i]
                    for r in range(rows):
                        stage[r * size + q * self.states + i] += w[r] * row[i]
        for r in range(rows - 1, 0, -1):
            if r == self.stages:
                memcpy(of_point, adjoint, size * sizeof(double))
            else:
                memset(of_point, 0, size * sizeof(double))
            if is_nonzero(stage + r * size, size):
                self.point(r, h, y, k, near)
                pullback.pull(t + c[r] * h, near, stage + r * size, of_point)
            a = <const double *>cnp.PyArray_DATA(self.a) + r * self.rows
            for i in range(size):
                before[i] += of_point[i]
            for j in range(r):
                if a[j] != 0.0:
                    for i in range(size):
                        stage[j * size + i] += h * a[j] * of_point[i]
        memcpy(adjoint, before, size * sizeof(double))
        return 0

    cdef tuple again(self, Py_ssize_t first, Py_ssize_t last):
        """Compute steps again; return the states at their starts and their stages."""
        cdef cnp.ndarray states = np.empty((last - first + 1, self.size))
        cdef cnp.ndarray slopes = np.empty((last - first, self.stages + 1, self.size))
        cdef double *ends = doubles(self.ends)
        cdef double *y = doubles(states)
        cdef double *k = doubles(slopes)
        cdef double t
        cdef Py_ssize_t i
        memcpy(y, doubles(self.kept) + first // self.spacing * self.size, self.size * sizeof(double))
        for i in range(first, last):
            t = ends[i - 1] if i else self.t0
            if i == first:
                self.field.value(t, y, k)
            else:
                memcpy(k, k - self.size, self.size * sizeof(double))
            self.step(t, ends[i] - t, y, k, y + self.size)
            y += self.size
            k += (self.stages + 1) * self.size
        return states, slopes


cdef inline double larger_norm(double found, double tangents) noexcept nogil:
    """Return the larger of the error norms of state and tangents; NaN if the former is NaN."""
    return found if found != found else fmax(found, tangents)


cdef double both(double five, double three) noexcept nogil:
    """Return the error of the method of order 8 from norms of its estimates of orders 5 and 3."""
    if not (five < INFINITY and three < INFINITY):      # or NaN
        return INFINITY
    return 0.0 if five == 0.0 and three == 0.0 else five * five / sqrt(five * five + 0.01 * three * three)
