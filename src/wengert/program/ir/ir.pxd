# The interface of listing.pyx, to be read first: a program as a list of instructions, each of which defines one value.

cimport numpy as cnp
from libc.stdint cimport int16_t, int32_t, uint16_t

from wengert.core.tape.memory cimport Block
from wengert.program.ir.opcodes cimport *


cdef class Listing:
    cdef readonly Py_ssize_t n          # instructions; instruction i defines value i
    cdef Py_ssize_t capacity
    cdef Block room                     # the memory of the columns
    cdef int16_t *ops                   # see opcodes.pxd
    cdef int32_t *as_                   # operands: earlier values, or an index into one of the tables
    cdef int32_t *bs
    cdef int32_t *cs
    cdef int32_t *kinds                 # index into `types`
    cdef readonly list types            # (dtype, shape, strides or None for C order); SCALAR and FLAG come first
    cdef readonly list constants        # floats
    cdef readonly list arrays           # constant arrays
    cdef readonly list calls
    cdef readonly list views            # (offset in bytes from the lowest address, shape, strides)
    cdef readonly list packs            # (offsets in elements, values), int32 arrays
    cdef readonly list guards           # (expected value, place)
    cdef public list inputs             # values
    cdef public list outputs
    cdef dict numbers                   # of the entries of types, constants and views, by what they are

    cdef int grow(self) except -1
    cdef int reserve(self, Py_ssize_t capacity) except -1
    cdef int32_t constant(self, double c) except -1
    cdef int32_t view(self, int32_t a, tuple view, object dtype) except -1
    cdef int32_t as_type(self, int32_t a, tuple type) except -1
    cdef int32_t type_of(self, tuple type) except -1
    cdef int32_t entry(self, list table, str name, object key) except -1
    cdef Listing copy(self)
    cdef Listing successor(self, Py_ssize_t capacity=*)
    cdef Listing shortened(self, Py_ssize_t n)
    cdef int32_t adopt(self, Listing other, Py_ssize_t i, const int32_t *of, const int32_t *kinds=*) except -1
    cdef cnp.ndarray kinds_of(self, Listing other)      # of its types here, by number


cdef inline int32_t emit(Listing code, int op, int32_t a, int32_t b, int32_t c, int32_t kind) except -1:
    """Append an instruction; its index is the value it defines."""
    cdef Py_ssize_t i = code.n
    if i == code.capacity:
        code.grow()
    code.ops[i] = <int16_t>op
    code.as_[i] = a
    code.bs[i] = b
    code.cs[i] = c
    code.kinds[i] = kind
    code.n = i + 1
    return <int32_t>i


cdef enum:
    SCALAR, FLAG                        # the first two types: a double, and a bool, each in a slot of its own


# The columns of the opcode table (opcode_table.py) that passes look up for each instruction, as bits.
cdef enum:
    NAMES_VALUES = 7                    # which of a, b and c name values: 1 | 2 | 4
    IS_ELEMENTWISE = 8
    IS_FLAG = 16                        # elementwise, of type bool
    READS_ELEMENTS = 32                 # of arrays, wherever they lie
    HAS_DERIVATIVE = 64
    IS_COMMUTATIVE = 128
    IS_FUNCTION = 256                   # of the C library, by its cost

cdef uint16_t traits[2048]


cdef inline int names(int op) noexcept:
    """Which of the columns a, b and c name values: 1 | 2 | 4; -1 stands for none."""
    return traits[op] & NAMES_VALUES


cdef inline bint has(int op, int trait) noexcept:
    """Does an opcode have a trait?"""
    return traits[op] & trait != 0


cdef tuple contiguous_or(strides, shape, dtype)         # the strides, None for those of C order
cpdef tuple c_strides(shape, Py_ssize_t itemsize)
cpdef bint overlaps(shape, strides)                     # may elements share memory?
cdef tuple parted(tuple type)                           # the type of complex numbers as pairs of real ones,
cdef tuple paired(tuple type)                           # and back
cdef tuple whole_view(tuple type)                       # all of an array of a type
cdef int32_t copied(Listing code, Py_ssize_t i, const int32_t *of, Listing target) except -1
