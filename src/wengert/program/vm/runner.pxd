# Interface of runner.pyx, for the VM and for callables that select a program.

from cpython.object cimport PyObject

from wengert.program.tracing.arguments cimport Arguments

cdef extern from "Python.h":
    ctypedef object (*vectorcallfunc)(object self, PyObject **args, size_t count, PyObject *names)


cdef class Run:
    cdef object single(self, PyObject **inputs, Py_ssize_t count, given)


cdef class Repeated:
    cdef int again(self) except -2


cdef class Vectored:
    cdef vectorcallfunc vector

    cdef object at(self, PyObject **args, Py_ssize_t count, out)


cdef class Runner(Vectored):
    cdef public Arguments _arguments
    cdef public object _run, _restore
    cdef public Run _direct
    cdef public tuple _shape


cdef int let_vector(type kind) except -1
