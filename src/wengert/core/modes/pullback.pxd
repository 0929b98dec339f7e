# Interface of pullback.pyx: seeds and results of a sweep.

from wengert.core.tape.tape cimport Tape


cdef int seed(Tape tape, object y, object cotangent) except -1
cdef object adjoint_of(Tape tape, object x)
