# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Evaluates the programs of equations and their Jacobian, for Newton's method and for the checks of a derivative."""

cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from libc.string cimport memcpy

from wengert.program.roots.linear cimport LU, Linear
from wengert.program.roots.newton cimport Newton, Problem
from wengert.program.vm.runner cimport Repeated

import numpy as np

include "checks.pxi"
include "scalars.pxi"
include "lane.pxi"

cnp.import_array()

cdef double EPS = np.finfo(float).eps
cdef double MAX_STEP = 1e-3         # largest Newton correction after which J is computed again at the corrected point

include "hybrid.pxi"


cdef class Branch:
    """The programs of equations and Jacobian that take the same branches, bound to the arrays of `Bound`."""

    cdef readonly object system
    cdef Repeated value, slopes         # `slopes` is None if the Jacobian takes several runs of a VM
    cdef cnp.ndarray z, y, data
    cdef double *at_y
    cdef double *at_data
    cdef LU lu
    cdef Updated updated                # for MINPACK's method
    cdef Py_ssize_t values, jacobians   # numbers of runs not yet reported to the VMs

    def __init__(self, system, z):
        self.system, self.z = system, z
        linear = system.linear
        self.y, self.data = np.zeros(linear.n), np.zeros(linear.nnz)
        self.at_y, self.at_data = <double *>cnp.PyArray_DATA(self.y), <double *>cnp.PyArray_DATA(self.data)
        self.value = system.value._vm.bound([z], [self.y])
        if system.slopes is not None:
            self.slopes = system.slopes._vm.bound([z], [self.data])

    cdef int evaluate(self) except -2:
        """Compute F; return the index of a failed guard, or -1."""
        self.values += 1
        return self.value.again()

    cdef int differentiate(self) except -2:
        """Compute the nonzeros of the Jacobian; return the index of a failed guard, or -1."""
        if self.slopes is not None:
            self.jacobians += 1
            return self.slopes.again()
        found = self.system.dense_jacobian(self.z)
        if type(found) is int:
            return found
        self.data[...] = found
        return -1

    def settle(self):
        """Report the runs to the VMs; return whether a faster one has become available."""
        cdef bint is_due = self.value.count(self.values)
        if self.slopes is not None:
            is_due |= self.slopes.count(self.jacobians)
        self.values = self.jacobians = 0
        return is_due

    def release(self):
        self.value.release()
        if self.slopes is not None:
            self.slopes.release()


cdef class Bound(Problem):
    """Equations as programs of unknowns and leaves, one per combination of branches; see `implicit_op.Paths`."""

    cdef readonly object paths
    cdef readonly tuple shape
    cdef list branches, programs
    cdef Branch branch                  # the one that ran last
    cdef cnp.ndarray z                  # unknowns and leaves, in one array
    cdef double *at_z
    cdef LU lu

    def __init__(self, paths):
        system = paths.systems()[0]
        self.paths, self.n, self.z = paths, system.linear.n, np.zeros(system.size)
        self.shape = system.shapes[0]
        self.at_z = <double *>cnp.PyArray_DATA(self.z)
        self.programs, self.branches = [], []
        self.bind()

    def bind(self):
        """Bind the programs recorded since the last call."""
        for system in self.paths.systems()[len(self.branches):]:
            self.branches.append(Branch(system, self.z))
        self.programs = list(self.paths.programs)
        if self.branch is None:
            self.branch = self.branches[0]

    @property
    def is_current(self):
        """Whether these are the programs of all recorded branches."""
        return self.programs == self.paths.programs

    def set_leaves(self, leaves):
        """Set the values that the equations read."""
        cdef Py_ssize_t place = self.n, size
        cdef cnp.ndarray array
        for leaf in leaves:
            if type(leaf) is np.ndarray:
                array = <cnp.ndarray>leaf
                size = array.size
                if cnp.PyArray_IS_C_CONTIGUOUS(array) and cnp.PyArray_TYPE(array) == cnp.NPY_DOUBLE:
                    memcpy(self.at_z + place, cnp.PyArray_DATA(array), size * sizeof(double))
                else:
                    self.z[place:place + size] = array.ravel()
                place += size
            else:
                self.at_z[place] = leaf
                place += 1

    def settle(self):
        """Report the runs to the VMs; return whether this object can be used again."""
        is_due = False
        for branch in self.branches:
            is_due |= branch.settle()
        if is_due:
            for branch in self.branches:
                branch.release()
        return not is_due

    cdef int change(self, bint differentiates) except -1:
        """Find the programs that take the branches at `z`, recording them if there are none yet."""
        cdef Branch branch
        cdef Py_ssize_t k = 0
        while True:
            if k == len(self.branches):
                self.paths.more(self.inputs())
                self.bind()
            branch = self.branches[k]
            if (branch.differentiate() if differentiates else branch.evaluate()) < 0:
                self.branch = branch
                return 0
            k += 1

    def inputs(self):
        """Return unknowns and leaves as the programs of `paths` take them."""
        return self.paths.systems()[0].inputs(self.z)

    cdef int value(self, const double *x, double *y, bint is_trial) except -1:
        memcpy(self.at_z, x, self.n * sizeof(double))
        if self.branch.evaluate() >= 0:
            self.change(False)
        memcpy(y, self.branch.at_y, self.n * sizeof(double))
        return 0

    cdef int differentiate(self, const double *x) except -1:
        memcpy(self.at_z, x, self.n * sizeof(double))
        if self.branch.differentiate() >= 0:
            self.change(True)
        return 0

    cdef int factorise(self, const double *x) except -1:
        self.differentiate(x)
        if self.branch.lu is None:
            self.branch.lu = LU(self.branch.system.linear)
        self.lu = self.branch.lu
        return self.lu.factor(self.branch.at_data, False) != 0

    cdef int solve(self, double *b) except -1:
        self.lu.solve(b, False)
        return 0

    def evaluated(self, x):
        """Return F(x), in the shape of the unknowns."""
        cdef cnp.ndarray given = np.ascontiguousarray(x, float)
        if given.size != self.n:
            raise ValueError(f"{given.size} values for {self.n} unknowns")
        memcpy(self.at_z, cnp.PyArray_DATA(given), self.n * sizeof(double))
        if self.branch.evaluate() >= 0:
            self.change(False)
        return self.branch.y.reshape(self.shape).copy() if self.shape else self.branch.at_y[0]

    def differentiated(self, x):
        """Return the Jacobian at x, of shape ``shape + shape``."""
        cdef cnp.ndarray given = np.ascontiguousarray(x, float)
        cdef Linear linear
        if given.size != self.n:
            raise ValueError(f"{given.size} values for {self.n} unknowns")
        self.differentiate(<double *>cnp.PyArray_DATA(given))
        if not self.shape:
            return self.branch.at_data[0]
        linear = self.branch.system.linear
        if linear.nnz == self.n * self.n:
            return self.branch.data.reshape(self.shape + self.shape).copy()
        found = np.zeros((self.n, self.n))
        found[linear.rows, linear.columns] = self.branch.data
        return found.reshape(self.shape + self.shape)

    def nonzeros(self, x):
        """Return the nonzeros of the Jacobian at x, and the `Linear` that solves with them."""
        cdef cnp.ndarray given = np.ascontiguousarray(x, float)
        if given.size != self.n:
            raise ValueError(f"{given.size} values for {self.n} unknowns")
        self.differentiate(<double *>cnp.PyArray_DATA(given))
        return self.branch.data.copy(), self.branch.system.linear

    def newton(self, x0, double tol, Py_ssize_t maxiter):
        """Return the root, and the status of Newton's method."""
        cdef Newton run = Newton(x0, tol)
        status = run.iterate(self, maxiter, None)
        return run.x, status

    def scalar_root(self, str method, double a, double b, double xtol, double rtol, Py_ssize_t maxiter):
        """Return the root of one equation by one of `SCALAR_METHODS`, and the status.

        a and b are the ends of the bracket, or the starts; Newton's method takes a only.
        """
        cdef Scalar s
        cdef int ended = RUNNING
        cdef double f = 0.0
        if self.n != 1:
            raise ValueError(f"{self.n} equations for a method for one")
        set_method(&s, method, xtol, rtol, maxiter)
        begin_scalar(&s, a, b)
        while ended == RUNNING:
            if s.nit % 1024 == 1023:
                PyErr_CheckSignals()
            self.value(&s.x, &f, False)
            if s.method == NEWTON and f != 0:
                self.differentiate(&s.x)
            ended = advance_scalar(&s, f, self.branch.at_data[0])
        return s.x, ended

    def hybrid_root(self, x0, double xtol, Py_ssize_t maxfev, double factor, double difference, bint has_slopes):
        """Return the root found by MINPACK's hybrid method; None if MINPACK itself must be run, see ``hybrid.pxi``."""
        cdef Linear linear = self.branch.system.linear
        cdef Py_ssize_t n = self.n, nnz = linear.nnz
        cdef cnp.ndarray x = np.array(x0, float).reshape(-1)
        cdef cnp.ndarray work = np.empty((VECTORS + 2) * n + 3 * nnz), pivots = np.zeros(n, np.intc)
        cdef double *z = <double *>cnp.PyArray_DATA(x)
        cdef double *found = <double *>cnp.PyArray_DATA(work)
        cdef Hybrid s
        cdef Lane lane
        cdef Updated wide = None
        cdef Options options
        cdef int ended = RUNNING
        if len(self.branches) > 1:
            return None
        if not self.branch.system.is_small:
            if self.branch.updated is None:
                self.branch.updated = Updated(linear)
            wide = self.branch.updated
            if not has_slopes:
                wide.set_groups()
        options.xtol, options.maxfev, options.factor, options.difference = xtol, maxfev, factor, difference
        options.has_slopes = has_slopes
        set_memory(n, &s, found + n + nnz)
        lane.matrix = s.jacobian + nnz
        lane.inverse_pivots = lane.matrix + nnz
        lane.pivots = <int *>cnp.PyArray_DATA(pivots)
        while ended == RUNNING:
            if wide is not None or s.nfev % 1024 == 1023:
                PyErr_CheckSignals()
            if s.stage != AT_JACOBIAN:
                self.value(z, found, False)
            if has_slopes and s.stage in (AT_START, AT_JACOBIAN):
                self.differentiate(z)
                memcpy(found + n, self.branch.at_data, nnz * sizeof(double))
            if len(self.branches) > 1:
                return None
            ended = advance_hybrid(n, &s, &lane, wide, z, found, 1, &options)
        if ended != CONVERGED:
            return None
        memcpy(z, s.x, n * sizeof(double))
        return x

    def settled(self, x, polish, limits, weights):
        """Return the point near a root where derivatives are taken, and the relative Newton correction at the root.

        Return None if the checks in ``checks.pxi`` reject the root; `wengert.implicit.theorem.settle` then decides.
        The factors of the Jacobian are kept for the derivative.
        """
        cdef cnp.ndarray at = np.array(x, float).reshape(-1)
        cdef cnp.ndarray given = weights.reshape(-1)
        cdef Limits kept = limits_of(polish, limits, <const double *>cnp.PyArray_DATA(given), EPS)
        cdef Linear linear
        cdef LU lu
        self.differentiate(<double *>cnp.PyArray_DATA(at))
        linear = self.branch.system.linear
        lu = linear.take()
        try:
            return self.checked(lu, at, &kept)
        finally:
            linear.spaces.append(lu)    # last, so that the derivative reuses it

    cdef object checked(self, LU lu, cnp.ndarray at, const Limits *limits):
        """Implement `settled`, given a buffer for the factors of the Jacobian, whose nonzeros have been computed."""
        cdef Py_ssize_t n = self.n, i
        cdef double first
        cdef cnp.ndarray work = np.empty(7 * n)
        cdef Check check
        lay_out(&check, n, <double *>cnp.PyArray_DATA(work))
        check.x = <double *>cnp.PyArray_DATA(at)
        self.value(check.x, check.y, False)
        begin_check(&check, n, lu, self.branch.at_data, limits)
        if check.state == REFUSED and limits.polishes and check.largest < MAX_STEP:
            first = check.first
            for i in range(n):
                check.x[i] -= check.step[i]
            self.differentiate(check.x)
            if self.branch.system.linear is not lu.structure:   # another branch, with a pattern of its own
                return None
            self.value(check.x, check.y, False)
            begin_check(&check, n, lu, self.branch.at_data, limits)
            check.first = first
        while check.state > 0:
            self.value(check.trial, check.found, True)
            continue_check(&check, n, lu, limits)
        return None if check.state else (at, check.first)
