# The interface of direct.pyx to other Cython modules.

cpdef object recorded(fun, args, dict kwargs, compute=*)
