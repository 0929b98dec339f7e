# Interface of factor.pyx, for implicit methods.

cimport numpy as cnp


cdef class Factor:
    cdef int n
    cdef bint is_complex
    cdef Py_ssize_t count                   # nonzeros of the Jacobian
    cdef cnp.ndarray memory, where, diagonal
    cdef double *a

    cdef int combine(self, const double *values, double scale, double real, double imag) except -1
    cdef void clear(self, double real, double imag) noexcept nogil
    cdef void add(self, Py_ssize_t block, const double *values, double scale) noexcept nogil
    cdef int factor(self) except -1
    cdef int solve(self, double *b, bint transposed, int count=*) noexcept nogil


cdef Factor factor_of(pattern, bint is_complex, int stages=*)
