# Interface of kernel.pyx: evaluates a ufunc with its own inner loop and holds its row of kernels.h.

cimport numpy as cnp

ctypedef void (*loop_function)(char **args, const cnp.npy_intp *dims, const cnp.npy_intp *steps,
                               void *loop_data) noexcept nogil


cdef class Kernel:
    cdef readonly object ufunc
    cdef readonly int opcode
    cdef int reads_a, reads_b       # operands that its partials read: WG_A | WG_B | WG_Y
    cdef int nin
    cdef loop_function loop         # the ufunc's own inner loop for doubles, or NULL
    cdef void *loop_data
    cdef object found               # the registry's Primitive, looked up at first use

    cdef object row(self)
    cdef int find_loop(self) except -1
    cdef double value1(self, double a) except? -1.0
    cdef double value2(self, double a, double b) except? -1.0
    cdef object array_value(self, cnp.ndarray a, cnp.ndarray b, double ac, double bc, bint strong)


cdef dict kernels                   # by ufunc; SciPy's are added by `kernel_of`
cdef list by_opcode

cdef Kernel kernel_of(object fun)
