# LAPACK functions of SciPy, included by modules that call them from C.

from cpython.pycapsule cimport PyCapsule_GetName, PyCapsule_GetPointer

from scipy.linalg import cython_lapack

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
