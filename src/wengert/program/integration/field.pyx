# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Right-hand sides of differential equations as programs that steppers call from C.

The input of a program is ``x = [t, y, p]`` of the primal system, followed by that of each tangent; see
`wengert.program.integration.system.System`.
"""

cimport numpy as cnp
from libc.math cimport fabs, fmax
from libc.string cimport memcpy

import numpy as np

from wengert.errors import GuardError
from wengert.program.integration import jumps

cnp.import_array()

cdef double CONTINUOUS = jumps.CONTINUOUS, CURVED = jumps.CURVED, NEGLIGIBLE = jumps.NEGLIGIBLE

cdef enum:
    MAX_SPARE = 4           # maximum number of idle right-hand sides kept per system

NORMAL = np.random.default_rng(0).standard_normal(1000)


def scales_of(const double[:, ::1] start, const double[:, ::1] parameters, const Py_ssize_t[:, ::1] of):
    """Return the relative magnitudes of the directions of all copies, given their initial states and parameters.

    Copy k is a tangent in the directions of the copies ``of[k]``, where 0 means none.
    """
    cdef Py_ssize_t k, i, level, copies = start.shape[0]
    cdef double largest = 0.0, product
    cdef cnp.ndarray found = np.ones(copies)
    cdef double *scales = <double *>cnp.PyArray_DATA(found)
    for i in range(start.shape[1]):
        largest = fmax(largest, fabs(start[0, i]))
    for k in range(1, copies):
        scales[k], product, level = 0.0, 1.0, 0
        for i in range(start.shape[1]):
            scales[k] = fmax(scales[k], fabs(start[k, i]) / (largest if largest > 0.0 else 1.0))
        for i in range(parameters.shape[1]):
            scales[k] = fmax(scales[k], fabs(parameters[k, i]) / (fabs(parameters[0, i]) if parameters[0, i] else 1.0))
        for i in range(of.shape[1]):
            if of[k, i] and of[k, i] != k:
                product *= scales[of[k, i]]
                level += 1
        if level:
            scales[k] = fmax(scales[k], product)
    return found


def with_random_direction(const double[:, ::1] x):
    """Return `x` with a second row of random numbers, scaled by the first row and the same in every call."""
    cdef Py_ssize_t i, n = x.shape[1]
    cdef double largest = 0.0
    cdef cnp.ndarray found = np.empty((2, n))
    cdef double *to = <double *>cnp.PyArray_DATA(found)
    cdef const double *normal
    numbers = NORMAL if n <= NORMAL.size else np.random.default_rng(0).standard_normal(n)
    normal = <const double *>cnp.PyArray_DATA(<cnp.ndarray>numbers)
    for i in range(n):
        largest = fmax(largest, fabs(x[0, i]))
    for i in range(n):
        to[i] = x[0, i]
        to[n + i] = normal[i] * (fabs(x[0, i]) if x[0, i] != 0.0 else largest if largest > 0.0 else 1.0)
    return found


def bound(kind, system, parameters, scales=None):
    """Return a right-hand side of this class: a spare one, or a new one."""
    cdef Field found
    try:
        found = system.spare[kind].pop()
    except (KeyError, IndexError):
        return kind(system, parameters, scales)
    if not found.is_current():
        return kind(system, parameters, scales)
    found.set(parameters, scales)
    return found


cdef class Field:
    """A right-hand side bound to buffers; the parameters are constant.

    There is one program for each combination of branches.

    Parameters
    ----------
    system : System
    parameters : ndarray, shape (copies, m)
    scales : ndarray, shape (copies,)
        Magnitudes of the tangents' directions relative to the values they perturb; see `Stepper.tangent_norm`.
    """

    def __init__(self, system, parameters, scales=None):
        cdef Py_ssize_t copies = parameters.shape[0], states = system.states
        self.system, self.copies, self.states, self.size = system, copies, states, copies * states
        self.width = 1 + states + parameters.shape[1]
        self.x = np.zeros((copies, self.width))
        self.at_x = <double *>cnp.PyArray_DATA(self.x)
        self.calls, self.runs, self.ones = 0, [], np.ones(copies)
        self.levels = system.tangents[1]
        self.highest = self.levels.max()
        self.set_buffers()
        self.set(parameters, scales)
        self.bind(system)

    cdef int set(self, const double[:, ::1] parameters, scales) except -1:
        cdef Py_ssize_t k, count = self.width - 1 - self.states
        if parameters.shape[0] != self.copies or parameters.shape[1] != count:
            raise ValueError("the right-hand side has other parameters")
        for k in range(self.copies if count else 0):
            memcpy(self.at_x + k * self.width + 1 + self.states, &parameters[k, 0], count * sizeof(double))
        self.scales = self.ones if scales is None else scales
        return 0

    cdef bint is_current(self) except -1:
        """Return whether this object is still equivalent to a new one."""
        return True

    def set_buffers(self):
        self.values = np.zeros((self.copies, self.states))
        self.at_values = <double *>cnp.PyArray_DATA(self.values)

    def bind(self, system):
        """Bind the program of `system`, which takes branches that no earlier program takes."""
        self.run = system.program._vm.bound([self.x.reshape(-1)], self.blocks(self.values))
        self.runs.append(self.run)

    cdef int evaluate(self) except -1:
        """Run the program that takes the branches at `x`."""
        self.calls += 1
        if self.run.again() >= 0:
            self.change()
        return 0

    def change(self):
        """Find and run the program that takes the branches at `x`, recording it if there is none yet."""
        for k in range(self.system.limit):
            if k == len(self.runs):
                self.bind(self.system.branch(k, self.x[0]))
            self.run = self.runs[k]
            if self.run.again() < 0:
                return
        raise GuardError("the right-hand side takes too many different branches")

    def blocks(self, rows):
        """Return views of an array with a row per copy, with the shapes of the outputs of the right-hand side."""
        cdef Py_ssize_t start = 1, stop
        found = [rows[0]]
        for count in self.system.directions:
            stop = start * (1 + count)
            found.append(rows[start] if stop == start + 1 else rows[start:stop])
            start = stop
        return found

    def at(self, double[::1] times, double[:, :, ::1] states):
        """Return the slopes at the given times; slopes and states have the shape (copies, len(times), states)."""
        cdef cnp.ndarray found = np.empty((len(times), self.copies, self.states))
        cdef cnp.ndarray rows = np.ascontiguousarray(np.swapaxes(states, 0, 1))
        cdef Py_ssize_t i
        for i in range(times.shape[0]):
            self.value(times[i], <double *>cnp.PyArray_DATA(rows) + i * self.size,
                       <double *>cnp.PyArray_DATA(found) + i * self.size)
        return np.swapaxes(found, 0, 1)

    def slope(self, double t, y):
        """Return the slopes at a time and states, an array of shape (states,)."""
        cdef cnp.ndarray given = np.ascontiguousarray(y, dtype=float), found = np.empty(self.size)
        self.value(t, <double *>cnp.PyArray_DATA(given), <double *>cnp.PyArray_DATA(found))
        return found

    def is_steep(self, double start, const double[::1] y, double end, const double[::1] z):
        """Return whether the right-hand side may jump on the line from (start, y) to (end, z).

        It may if it changes there, but not linearly; see `wengert.program.integration.jumps.jump_between`.
        """
        cdef Py_ssize_t i, k, n = self.states
        cdef double largest = 0.0, size, change, x
        cdef cnp.ndarray work = np.empty((4, n))
        cdef double *near = <double *>cnp.PyArray_DATA(work)
        cdef double *f = near + n
        for k in range(3):
            x = 0.5 * k
            for i in range(n):
                near[i] = y[i] + x * (z[i] - y[i])
            self.value(start + x * (end - start), near, f + k * n)
        for i in range(n):
            largest = fmax(largest, fmax(fabs(f[i]), fabs(f[2 * n + i])))
        for i in range(n):
            size = fmax(fmax(fabs(f[i]), fabs(f[2 * n + i])), NEGLIGIBLE * largest)
            change = fabs(f[2 * n + i] - f[i])
            if not change <= CONTINUOUS * size and not fabs(f[i] - 2 * f[n + i] + f[2 * n + i]) <= CURVED * change:
                return True
        return False

    def settle(self, bint is_kept=False):
        """Report the number of runs to the VM and, unless `is_kept`, offer this object to other integrations.

        If a new object would run on the LLVM tier, this one is released instead.
        """
        cdef bint is_due = self.run.count(self.calls)
        self.calls = 0
        if is_kept:
            return
        spare = self.system.spare.setdefault(type(self), [])
        if not is_due and len(spare) < MAX_SPARE:
            spare.append(self)
            return
        for run in self.runs:
            run.release()

    cdef int point(self, double t, const double *y) except -1:
        """Set time and states."""
        cdef Py_ssize_t k
        self.at_x[0] = t
        for k in range(self.copies):
            memcpy(self.at_x + k * self.width + 1, y + k * self.states, self.states * sizeof(double))
        return 0

    cdef int value(self, double t, const double *y, double *f) except -1:
        """Compute the slopes at a time and states."""
        self.point(t, y)
        self.evaluate()
        memcpy(f, self.at_values, self.size * sizeof(double))
        return 0


cdef class Pullback(Field):
    """The pullback of a right-hand side, from x and cotangents of the slopes to the cotangent of x.

    The cotangents of the parameters are summed in `parameters`, of shape (copies, m).
    """

    def set_buffers(self):
        self.values = np.zeros((self.copies, self.width))
        self.at_values = <double *>cnp.PyArray_DATA(self.values)
        self.cotangents = np.zeros((self.copies, self.states))
        self.at_cotangents = <double *>cnp.PyArray_DATA(self.cotangents)

    cdef int set(self, const double[:, ::1] parameters, scales) except -1:
        Field.set(self, parameters, scales)
        self.parameters = np.zeros((self.copies, self.width - 1 - self.states))
        self.at_parameters = <double *>cnp.PyArray_DATA(self.parameters)
        return 0

    def bind(self, system):
        inputs = [self.x.reshape(-1), *self.blocks(self.cotangents)]
        self.run = system.pulled()._vm.bound(inputs, [self.values.reshape(-1)])
        self.runs.append(self.run)

    cdef int pull(self, double t, const double *y, const double *g, double *adjoint,
                  bint adds_parameters=True) except -1:
        """Add the cotangent of the states to `adjoint`, and that of the parameters to `parameters`."""
        cdef Py_ssize_t k, i, count = self.width - 1 - self.states
        cdef const double *found
        self.point(t, y)
        memcpy(self.at_cotangents, g, self.size * sizeof(double))
        self.evaluate()
        for k in range(self.copies):
            found = self.at_values + k * self.width + 1
            for i in range(self.states):
                adjoint[k * self.states + i] += found[i]
            found += self.states
            for i in range(count if adds_parameters else 0):
                self.at_parameters[k * count + i] += found[i]
        return 0

    def products(self, double t, y, g):
        """Return the cotangent of x = [t, y, p], of shape (copies, 1 + states + m), from those of the slopes."""
        cdef cnp.ndarray given = np.ascontiguousarray(y, dtype=float), seeds = np.ascontiguousarray(g, dtype=float)
        if given.size != self.size or seeds.size != self.size:
            raise ValueError("the right-hand side has another number of states")
        self.point(t, <double *>cnp.PyArray_DATA(given))
        memcpy(self.at_cotangents, <double *>cnp.PyArray_DATA(seeds), self.size * sizeof(double))
        self.evaluate()
        return self.values


cdef class Jacobian(Field):
    """The Jacobian of a right-hand side with respect to the state, from a program with the inputs state and x.

    `values` are its nonzeros at the positions in `pattern`, which covers all branches.
    """

    def set_buffers(self):
        self.pattern = self.system.pattern()
        self.count = self.pattern.count
        self.values = np.zeros(self.count)
        self.at_values = <double *>cnp.PyArray_DATA(self.values)
        self.state = np.zeros(self.states)
        self.at_state = <double *>cnp.PyArray_DATA(self.state)

    cdef bint is_current(self) except -1:
        return self.pattern is self.system.pattern()

    def bind(self, system):
        program, own = system.jacobian()
        given, places = [self.state, self.x.reshape(-1)], self.system.places(own)
        if places is None and program._single_vm is not None:
            values = self.values.reshape(self.states, self.states) if own.is_full else self.values
            self.run = program._vm.bound(given, [values])
        else:
            self.run = Executed(program, given, self.values, slice(None) if places is None else places)
        self.runs.append(self.run)

    cdef int slopes(self, double t, const double *y) except -1:
        """Compute the nonzeros of the Jacobian at a time and states."""
        self.point(t, y)
        memcpy(self.at_state, y, self.states * sizeof(double))
        return self.evaluate()

    def nonzeros(self, double t, y):
        """Return the nonzeros of the Jacobian at a time and states, an array of shape (states,)."""
        cdef cnp.ndarray given = np.ascontiguousarray(y, dtype=float)
        if given.size != self.states:
            raise ValueError("the right-hand side has another number of states")
        self.slopes(t, <double *>cnp.PyArray_DATA(given))
        return self.values


cdef class Executed(Repeated):
    """A program that needs several VM runs per call, or whose results are only some of the output values."""

    cdef object program, inputs, output, places

    def __init__(self, program, inputs, output, places):
        self.program, self.inputs, self.output, self.places = program, inputs, output, places

    cdef int again(self) except -2:
        found = self.program._try_execute(self.inputs)
        if type(found) is int:
            return found
        self.output[...] = 0.0
        self.output[self.places] = np.ravel(found[0])
        return -1

    def count(self, Py_ssize_t runs):
        return False

    def release(self):
        pass
