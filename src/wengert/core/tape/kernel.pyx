# Bounds checks are off, since users supply no indices here; C division is on, since they supply no divisors:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Kernels: evaluate a ufunc with its own inner loop, bit for bit as NumPy does, without NumPy's dispatch."""

cimport cython
from libc.math cimport isfinite
cimport numpy as cnp
from cpython.object cimport PyObject

import sys

import numpy as np

from wengert.core.tape.memory cimport empty_array, is_vector, same_shape
from wengert.core.tape.tape cimport WG_POW

from wengert import registry
from wengert.core.tape.tape import kernel_rows

cnp.import_array()

cdef extern from "numpy/ufuncobject.h":
    ctypedef struct PyUFuncObject:
        int nin, nout, nargs, ntypes
        loop_function *functions
        void *const *data
        const char *types


@cython.ufunc
cdef double single(double x) noexcept nogil:
    return <double><float>x


cdef extern from "fenv.h" nogil:
    int FE_DIVBYZERO, FE_OVERFLOW, FE_INVALID
    int fetestexcept(int)
    int feclearexcept(int)


cdef bint is_users():
    """Return whether the user's code calls the ufunc; warnings in derivative rules would mean nothing to the user."""
    return not str(sys._getframe().f_globals.get("__name__")).startswith("wengert.")


@cython.final
cdef class Kernel:
    """A ufunc that has a row in ``kernels.h``."""

    def __cinit__(self, ufunc, int opcode, int reads_a, int reads_b):
        self.ufunc = ufunc
        self.opcode = opcode
        self.reads_a = reads_a
        self.reads_b = reads_b
        self.nin = ufunc.nin
        self.find_loop()

    cdef int find_loop(self) except -1:
        cdef PyUFuncObject *u = <PyUFuncObject *><PyObject *>self.ufunc
        cdef int i, j
        for i in range(u.ntypes):
            for j in range(u.nargs):
                if u.types[i * u.nargs + j] != cnp.NPY_DOUBLE:
                    break
            else:
                self.loop = u.functions[i]
                self.loop_data = u.data[i] if u.data != NULL else NULL
                return 0
        return 0

    cdef object row(self):
        if self.found is None:
            self.found = registry.lookup(self.ufunc)
        return self.found

    cdef double value1(self, double a) except? -1.0:
        """Apply the ufunc to one double."""
        cdef char *args[2]
        cdef cnp.npy_intp n = 1
        cdef cnp.npy_intp steps[2]
        cdef double y
        if self.loop == NULL:
            return self.ufunc(a)
        args[0] = <char *>&a
        args[1] = <char *>&y
        steps[0] = steps[1] = 0         # as NumPy calls its loops for scalars; some loops branch on the strides
        self.loop(args, &n, steps, self.loop_data)
        if not isfinite(y) and isfinite(a) and is_users():
            return self.ufunc(a)        # which warns or raises
        return y

    cdef double value2(self, double a, double b) except? -1.0:
        """Apply the ufunc to two doubles."""
        cdef char *args[3]
        cdef cnp.npy_intp n = 1
        cdef cnp.npy_intp steps[3]
        cdef double y
        if self.loop == NULL:
            return self.ufunc(a, b)
        args[0] = <char *>&a
        args[1] = <char *>&b
        args[2] = <char *>&y
        steps[0] = steps[1] = steps[2] = 0
        self.loop(args, &n, steps, self.loop_data)
        if not isfinite(y) and isfinite(a) and isfinite(b) and is_users():
            return self.ufunc(a, b)
        return y

    cdef object array_value(self, cnp.ndarray a, cnp.ndarray b, double ac, double bc, bint strong):
        """Apply the ufunc to float64 arrays, or to an array and a scalar; large results come from the pool.

        `strong`: the scalar enters NumPy as a float64, not as a Python float.
        """
        cdef cnp.ndarray y
        cdef char *args[3]
        cdef cnp.npy_intp steps[3]
        cdef cnp.npy_intp n
        cdef cnp.ndarray like = a if a is not None else b
        cdef bint direct = self.loop != NULL and is_vector(like) and cnp.PyArray_NDIM(like) > 0
        if direct and a is not None and b is not None:
            direct = is_vector(b) and same_shape(a, b)
        if not direct:
            return self.call(a, b, ac, bc, strong, None)
        y = empty_array(cnp.PyArray_NDIM(like), cnp.PyArray_DIMS(like))
        n = cnp.PyArray_SIZE(like)
        args[0] = <char *>cnp.PyArray_DATA(a) if a is not None else <char *>&ac
        steps[0] = sizeof(double) if a is not None else 0
        args[self.nin] = <char *>cnp.PyArray_DATA(y)
        steps[self.nin] = sizeof(double)
        if self.nin == 2:
            args[1] = <char *>cnp.PyArray_DATA(b) if b is not None else <char *>&bc
            steps[1] = sizeof(double) if b is not None else 0
        if n:
            self.loop(args, &n, steps, self.loop_data)
        if fetestexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_INVALID):
            # repeat the call in NumPy, which warns; the flag may also be left over from earlier code
            feclearexcept(FE_DIVBYZERO | FE_OVERFLOW | FE_INVALID)
            self.call(a, b, ac, bc, strong, y)
        return y

    def call(self, a, b, double ac, double bc, bint strong, out):
        """Call the ufunc through NumPy."""
        if self.nin == 1:
            return self.ufunc(a, out=out)
        number = np.float64 if strong else float
        return self.ufunc(number(ac) if a is None else a, number(bc) if b is None else b, out=out)


kernels = {}
by_opcode = [None] * 256
of_scipy = {}       # opcode, and operands that the partials read, by name
ROUNDING = "wengert.core.tape.kernel.single"
registry.elementwise(single, 1.0, curvature="none", domain=((-3.0, 3.0),)).name = ROUNDING

for _name, _opcode, _, _reads_a, _reads_b in kernel_rows():
    if _name == ROUNDING:
        kernels[single] = by_opcode[_opcode] = Kernel(single, _opcode, _reads_a, _reads_b)
    elif "." in _name:
        of_scipy[_name] = _opcode, _reads_a, _reads_b
    elif _name:
        _ufunc = getattr(np, _name)
        kernels[_ufunc] = by_opcode[_opcode] = Kernel(_ufunc, _opcode, _reads_a, _reads_b)
by_opcode[WG_POW] = kernels[np.power]       # ** on scalars has its own opcode but no ufunc


cdef Kernel kernel_of(object fun):
    """Return the kernel of a function, or None; SciPy's ufuncs get theirs here, when they are first met."""
    cdef Kernel found = kernels.get(fun)
    if found is None:
        row = registry.lookup(fun)
        if row is not None and row.name in of_scipy:
            opcode, reads_a, reads_b = of_scipy[row.name]
            found = kernels[fun] = by_opcode[opcode] = Kernel(fun, opcode, reads_a, reads_b)
    return found
