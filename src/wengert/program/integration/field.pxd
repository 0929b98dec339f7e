# Interface of field.pyx, for the steppers.

cimport numpy as cnp

from wengert.program.vm.runner cimport Repeated


cdef class Field:
    cdef readonly Py_ssize_t copies, states, width, size, calls
    cdef readonly object system
    cdef readonly cnp.ndarray x
    cdef cnp.ndarray values
    cdef public cnp.ndarray scales, levels
    cdef cnp.ndarray ones
    cdef readonly Py_ssize_t highest    # the highest order of a tangent
    cdef double *at_x
    cdef double *at_values
    cdef Repeated run               # run for the branches taken last
    cdef list runs                  # runs for all branches

    cdef int set(self, const double[:, ::1] parameters, scales) except -1
    cdef bint is_current(self) except -1
    cdef int evaluate(self) except -1
    cdef int point(self, double t, const double *y) except -1
    cdef int value(self, double t, const double *y, double *f) except -1


cdef class Pullback(Field):
    cdef cnp.ndarray cotangents
    cdef double *at_cotangents
    cdef readonly cnp.ndarray parameters
    cdef double *at_parameters

    cdef int pull(self, double t, const double *y, const double *g, double *adjoint, bint adds_parameters=*) except -1


cdef class Jacobian(Field):
    cdef readonly object pattern
    cdef Py_ssize_t count           # nonzeros
    cdef cnp.ndarray state
    cdef double *at_state

    cdef int slopes(self, double t, const double *y) except -1
