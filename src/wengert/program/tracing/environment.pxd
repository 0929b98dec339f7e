# Interface of environment.pyx for the code that checks guards before each replay.

cimport cython


cdef enum Holder:
    DICT, CELL, LIST, CLASS, OTHER


@cython.final
cdef class Place:
    cdef readonly object key, name
    cdef object holder, get
    cdef Holder way

    cpdef object read(self)


@cython.final
cdef class StateGuards:
    cdef list watched, functions, sizes, objects, contents

    cpdef bint hold(self) except -1


cdef bint is_same_array(x, known) except -1
