# The interface of var.pyx: the operands, and ufuncs recorded on them.

cimport numpy as cnp
from libc.stdint cimport int32_t

from wengert.core.kernel cimport Kernel
from wengert.core.memory cimport Buffer
from wengert.core.tape cimport Tape


cdef class ScalarVar:           # stands for a numpy.float64
    cdef Tape tape
    cdef int32_t slot
    cdef double v


cdef class ArrayVar:            # stands for an ndarray
    cdef Buffer buffer
    cdef cnp.ndarray v          # a view of the buffer's memory
    cdef bint scalar            # 0-d, and stands for a NumPy scalar of a dtype other than float64


cdef object unary(Kernel u, object operand)
cdef object binary(Kernel u, object left, object right)
cpdef bint scalar_list(items)


cdef inline ScalarVar scalar(Tape tape, int32_t slot, double v):
    cdef ScalarVar x = ScalarVar.__new__(ScalarVar)
    x.tape = tape
    x.slot = slot
    x.v = v
    return x


cdef inline ArrayVar array_var(Buffer buffer, cnp.ndarray v):
    cdef ArrayVar x = ArrayVar.__new__(ArrayVar)
    x.buffer = buffer
    x.v = v
    return x
