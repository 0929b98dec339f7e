from libc.stdint cimport int32_t

from wengert.core.tape.memory cimport Block
from wengert.program.ir.ir cimport Listing

cdef enum:
    MAX_AXES = 8     # views with more axes are taken to overlap


cdef struct Box:
    Py_ssize_t offset       # view descriptor, in bytes
    Py_ssize_t shape[MAX_AXES]
    Py_ssize_t strides[MAX_AXES]
    Py_ssize_t low          # offsets of the elements at the lowest and highest address
    Py_ssize_t high
    Py_ssize_t step         # gcd of the strides: elements lie on a lattice of this step; 0 for a single element
    int axes                # -1: not computed yet; above MAX_AXES: unknown
    bint is_empty


cdef class Boxes:
    cdef Listing code
    cdef Block block
    cdef Py_ssize_t n
    cdef Py_ssize_t steps           # stores that views were moved across

    cdef const Box *of(self, int32_t view) except NULL

cdef bint are_disjoint(const Box *a, const Box *b, Py_ssize_t itemsize) noexcept
