# The interface of arguments.pyx to other Cython modules.

cdef bint is_a(x, types)
