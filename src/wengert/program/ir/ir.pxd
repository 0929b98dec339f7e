# The interface of ir.pyx: an SSA program, stored as one column per instruction field.

cimport numpy as cnp
from libc.stdint cimport int16_t, int32_t, uint16_t

from wengert.core.tape.memory cimport Block
from wengert.program.ir.opcodes cimport *


cdef class Listing:
    cdef readonly Py_ssize_t n          # number of instructions; instruction i defines value i
    cdef Py_ssize_t capacity
    cdef Block room                     # allocation that holds the columns
    cdef int16_t *ops                   # see opcodes.pxd
    cdef int32_t *as_                   # operands: ids of earlier values, or indices into the tables below
    cdef int32_t *bs
    cdef int32_t *cs
    cdef int32_t *kinds                 # index into `types`
    cdef readonly list types            # (dtype, shape, strides or None for C order); SCALAR and FLAG come first
    cdef readonly list constants        # floats
    cdef readonly list arrays           # constant arrays
    cdef readonly list calls
    cdef readonly list views            # (byte offset from the lowest address, shape, strides)
    cdef readonly list packs            # (offsets in elements, values), int32 arrays
    cdef readonly list guards           # (expected value, source location)
    cdef public list inputs             # value ids
    cdef public list outputs
    cdef dict numbers                   # hash-consing: index of each entry of types, constants and views

    cdef int grow(self) except -1
    cdef int reserve(self, Py_ssize_t capacity) except -1
    cdef int32_t constant(self, double c) except -1
    cdef int32_t view(self, int32_t a, tuple view, object dtype) except -1
    cdef int32_t as_type(self, int32_t a, tuple type) except -1
    cdef int32_t type_of(self, tuple type) except -1
    cdef tuple columns(self)
    cdef int32_t entry(self, list table, str name, object key) except -1
    cdef Listing copy(self)
    cpdef Listing successor(self, Py_ssize_t capacity=*)
    cdef Listing shortened(self, Py_ssize_t n)
    cdef int32_t adopt(self, Listing other, Py_ssize_t i, const int32_t *of, const int32_t *kinds=*) except -1
    cdef cnp.ndarray kinds_of(self, Listing other)      # type ids of `other` translated to this program's


cdef inline int32_t emit(Listing code, int op, int32_t a, int32_t b, int32_t c, int32_t kind) except -1:
    """Append an instruction and return its index, which is the id of the value that it defines."""
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
    SCALAR, FLAG                        # the first two type ids: float64 and bool scalars, each in one VM slot


# Per-opcode properties from opcode_table.py, packed into bits because passes test them for every instruction.
cdef enum:
    NAMES_VALUES = 7                    # which of the columns a, b and c hold value ids: 1 | 2 | 4
    IS_ELEMENTWISE = 8
    IS_FLAG = 16                        # elementwise with a bool result
    READS_ELEMENTS = 32                 # reads array elements through any strides
    HAS_DERIVATIVE = 64
    IS_COMMUTATIVE = 128
    IS_FUNCTION = 256                   # costs as much as a call to the C math library

cdef uint16_t traits[2048]


cdef inline int names(int op) noexcept:
    """Return which of the columns a, b and c hold value ids, as bits 1 | 2 | 4; an id of -1 means no operand."""
    return traits[op] & NAMES_VALUES


cdef inline bint has(int op, int trait) noexcept:
    """Return whether an opcode has a property of the enum above."""
    return traits[op] & trait != 0


cdef tuple contiguous_or(strides, shape, dtype)         # the strides, or None if they are those of C order
cpdef tuple c_strides(shape, Py_ssize_t itemsize)
cpdef bint overlaps(shape, strides)                     # may two elements share memory?
cdef tuple parted(tuple type)                           # complex type to (real, imaginary) pairs on a last axis
cdef tuple paired(tuple type)                           # type of (real, imaginary) pairs to the complex type
cpdef tuple whole_view(tuple type)                      # view descriptor that covers an array of a type
cdef int32_t copied(Listing code, Py_ssize_t i, const int32_t *of, Listing target) except -1
cdef Listing filtered(Listing code, const unsigned char *marks, bint keeps)     # keeps or drops marked instructions
cdef int set_ends(Listing code, const int32_t *of, Listing target) except -1
cdef int count_uses(Listing code, int32_t *counts) except -1    # uses of values as operands and outputs


cdef inline int column_operands(Listing code, Py_ssize_t i, int32_t *found) noexcept:
    """Write the value ids in the columns of an instruction to `found`, and return their number, at most three."""
    cdef int mask = names(code.ops[i]), n = 0
    if mask & 1 and code.as_[i] >= 0:
        found[0] = code.as_[i]
        n = 1
    if mask & 2 and code.bs[i] >= 0:
        found[n] = code.bs[i]
        n += 1
    if mask & 4 and code.cs[i] >= 0:
        found[n] = code.cs[i]
        n += 1
    return n
