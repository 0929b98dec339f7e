# Interface of arguments.pyx for callables that check whether a call's arguments fit those of the traced call.

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject

cdef enum Form:
    NUMBER          # a Python float or numpy.float64, where a derivative accepts either
    SCALAR, ARRAY
    FIXED           # an array whose contents are part of the key
    CONSTANT, IDENTITY, SEQUENCE, MAPPING
    OBJECT          # a dataclass or a namespace

cdef enum:
    MAX_AXES = 8


@cython.final
cdef class Template:
    cdef Form form
    cdef object value  # a constant, a type, keys, or a copy of a fixed array
    cdef list names, attributes     # for OBJECT: names of its items, and the keys of its ``__dict__``
    cdef list more                  # for OBJECT: pairs (name, snapshot) of its other attributes
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
    cdef bint are_leaves            # whether all arguments are leaves passed by position

    cdef bint take_leaves(self, PyObject **args, Py_ssize_t count) except -1
    cdef bint take(self, tuple args, dict kwargs, list leaves, list operands) except -1


cdef Template template_of(x, bint is_number=*)
cdef object snapshot_of(x)
cdef bint is_same(x, known) except -1
cdef bint is_array_of(x, tuple shape) except -1
