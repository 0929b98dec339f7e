# The interface of arguments.pyx, for callables that compare the arguments of a call with those of the last one.

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject

cdef enum Form:
    NUMBER          # a float of Python's or a numpy.float64, where a derivative takes either
    SCALAR, ARRAY
    FIXED           # an array that is part of the key
    CONSTANT, IDENTITY, SEQUENCE, MAPPING
    OBJECT          # a dataclass or a namespace

cdef enum:
    MAX_AXES = 8


@cython.final
cdef class Template:
    cdef Form form
    cdef object value  # a constant, a type, keys, or a copy of a fixed array
    cdef list names, attributes     # of an object: its items, and what is in its ``__dict__``
    cdef list more                  # pairs: another attribute, and what it holds
    cdef int typenum, ndim
    cdef cnp.npy_intp[MAX_AXES] shape, strides
    cdef list parts

    cdef bint take(self, object x, list leaves, list operands) except -1
    cdef bint is_like(self, x) except -1
    cdef void be_like(self, x) noexcept


@cython.final
cdef class Arguments:
    cdef list templates
    cdef tuple names
    cdef bint are_leaves            # all of them, given by position

    cdef bint take_leaves(self, PyObject **args, Py_ssize_t count) except -1
    cdef bint take(self, tuple args, dict kwargs, list leaves, list operands) except -1


cdef Template template_of(x, bint is_number=*)
cdef object snapshot_of(x)
cdef bint is_same(x, known) except -1
cdef bint is_array_of(x, tuple shape) except -1
