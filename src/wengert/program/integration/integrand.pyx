# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Programs as C functions of one variable, for QUADPACK's callbacks.

QUADPACK calls ``double f(double, void *)``, with a `Callback` as its data.
"""

from cpython.pycapsule cimport PyCapsule_New

cimport numpy as cnp
from libc.math cimport NAN

import numpy as np

from wengert.errors import GuardError
from wengert.program.vm.runner cimport Repeated

cnp.import_array()

BRANCHES = "an integrand takes other branches than those that were recorded"


cdef class Callback:
    """Elements of the result of a program as functions of the first element of its input, ``x = [t, p]``.

    Parameters
    ----------
    program : Program
        Maps a 1-D array to an array.
    places : ndarray of intp
        Positions of the elements in that result.
    keeps_rows : bool
        Whether results are cached by t, so that all elements at the same t take one run.
    """

    cdef Repeated run
    cdef cnp.ndarray x, values, places
    cdef double *at_x
    cdef double *at_values
    cdef Py_ssize_t calls, element
    cdef dict rows
    cdef bint keeps_rows
    cdef object error
    cdef object execute             # the program, if a call takes several runs of its VM; else None

    def __init__(self, program, places, bint keeps_rows):
        (example,) = program._example
        self.x, self.values = np.zeros(example.size), np.zeros(program._output_shape)
        self.places, self.keeps_rows, self.rows = places, keeps_rows, {}
        self.at_x = <double *>cnp.PyArray_DATA(self.x)
        self.at_values = <double *>cnp.PyArray_DATA(self.values)
        self.calls, self.element, self.error = 0, 0, None
        self.execute = program._try_execute if program._single_vm is None else None
        self.run = Repeated() if self.execute else program._vm.bound([self.x], [self.values])

    def set(self, p):
        """Set all elements of x but the first."""
        self.x[1:] = p
        self.rows.clear()

    def settle(self):
        """Report the runs to the VM, raise any error of a run; return whether a new object would use the LLVM tier."""
        is_due = self.execute is None and self.run.count(self.calls)
        self.calls = 0
        error, self.error = self.error, None
        if error is not None:
            raise error
        return is_due

    def function(self, Py_ssize_t element):
        """Return an element as an argument of `scipy.integrate.quad`, valid until the next element is requested."""
        from scipy import LowLevelCallable

        self.element = (<cnp.npy_intp *>cnp.PyArray_DATA(self.places))[element]
        data = PyCapsule_New(<void *>self, NULL, NULL)
        return LowLevelCallable(PyCapsule_New(<void *>value_at, SIGNATURE, NULL), data)

    def __call__(self, double t):
        """Return all elements at t."""
        self.evaluate(t)
        return self.values.reshape(-1)[self.places]

    cdef int evaluate(self, double t) except -1:
        cdef object row
        if self.keeps_rows:
            row = self.rows.get(t)
            if row is not None:
                self.values[...] = row
                return 0
        self.at_x[0] = t
        self.calls += 1
        if self.execute is not None:
            found = self.execute([self.x])
            if type(found) is int:
                raise GuardError(BRANCHES)
            self.values[...] = found[0]
        elif self.run.again() >= 0:
            raise GuardError(BRANCHES)
        if self.keeps_rows:
            self.rows[t] = self.values.copy()
        return 0


cdef const char *SIGNATURE = "double (double, void *)"


cdef double value_at(double t, void *data) noexcept with gil:
    """Return the current element at t; NaN after an error, which `Callback.settle` raises."""
    cdef Callback callback = <Callback>data
    if callback.error is not None:
        return NAN
    try:
        callback.evaluate(t)
    except BaseException as error:
        callback.error = error
        return NAN
    return callback.at_values[callback.element]
