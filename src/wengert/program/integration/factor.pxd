# Interface of factor.pyx, for implicit methods.

cimport numpy as cnp


cdef class Factor:
    cdef int n
    cdef bint is_complex
    cdef cnp.ndarray memory, pivots
    cdef double *a

    cdef int factor(self) except -1
    cdef int solve(self, double *b, bint transposed, int count=*) noexcept nogil
