from cpython.object cimport PyObject


cdef class Run:
    cdef object single(self, PyObject **inputs, Py_ssize_t count, given)
