# Indices are computed here, never given by users:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""LU factors of dense matrices by LAPACK, called from C through the functions that SciPy exports."""

cimport numpy as cnp
from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer

import numpy as np
from scipy.linalg import cython_lapack

from wengert.errors import GuardError

cnp.import_array()

ctypedef void (*getrf)(int *m, int *n, void *a, int *lda, int *pivots, int *info) noexcept nogil
ctypedef void (*getrs)(char *trans, int *n, int *nrhs, void *a, int *lda, int *pivots, void *b, int *ldb,
                       int *info) noexcept nogil


cdef void *exported(str name) except NULL:
    """Return the address of a LAPACK function with 32-bit integers."""
    capsule = cython_lapack.__pyx_capi__[name]
    cdef const char *signature = PyCapsule_GetName(capsule)
    if b"int *" not in signature:
        raise ImportError(f"scipy.linalg.cython_lapack.{name} has another signature: {signature.decode()}")
    return PyCapsule_GetPointer(capsule, signature)


cdef getrf real_factor = <getrf>exported("dgetrf"), complex_factor = <getrf>exported("zgetrf")
cdef getrs real_solve = <getrs>exported("dgetrs"), complex_solve = <getrs>exported("zgetrs")


cdef class Factor:
    """LU factors of a matrix, which the caller writes to `a` in C order; complex entries are pairs of numbers."""

    def __init__(self, int n, bint is_complex):
        self.n, self.is_complex = n, is_complex
        self.memory, self.pivots = np.zeros((n, n), complex if is_complex else float), np.zeros(n, np.intc)
        self.a = <double *>cnp.PyArray_DATA(self.memory)

    cdef int factor(self) except -1:
        """Factorise the matrix in place."""
        cdef int info = 0
        (complex_factor if self.is_complex else real_factor)(
            &self.n, &self.n, self.a, &self.n, <int *>cnp.PyArray_DATA(self.pivots), &info)
        if info > 0:
            raise GuardError("the equations of a step are singular")
        return 0

    cdef int solve(self, double *b, bint transposed, int count=1) noexcept nogil:
        """Solve the equations, or those with the transposed matrix (not conjugated), for `count` vectors in place."""
        cdef int info = 0
        cdef char trans = b"N" if transposed else b"T"      # LAPACK sees the transpose of a matrix in C order
        (complex_solve if self.is_complex else real_solve)(
            &trans, &self.n, &count, self.a, &self.n, <int *>cnp.PyArray_DATA(self.pivots), b, &self.n, &info)
        return info
