# cython: language_level=3, boundscheck=False, wraparound=False
"""Proxies of NumPy ufuncs that record traced operands directly; a differentiated function sees one as ``np.sin``."""

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF

import numpy as np

from wengert.core.tape.kernel cimport Kernel, kernels
from wengert.core.operands.var cimport ArrayVar, ScalarDual, ScalarVar, binary, unary

from wengert.core.dispatch import dispatch

ctypedef PyObject *(*vector_function)(PyObject *, PyObject *const *, size_t, PyObject *) noexcept

cdef extern from *:
    """
    #define WG_NARGS(n) ((size_t)PyVectorcall_NARGS(n))
    static void wg_enable_vectorcall(PyTypeObject *type, Py_ssize_t offset) {
        type->tp_vectorcall_offset = offset;
        type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
        type->tp_call = PyVectorcall_Call;
        PyType_Modified(type);
    }
    static PyObject *wg_raise(PyObject *error) {
        PyErr_SetObject((PyObject *)Py_TYPE(error), error);
        return NULL;
    }
    """
    size_t WG_NARGS(size_t n)
    void wg_enable_vectorcall(PyTypeObject *type, Py_ssize_t offset)
    PyObject *wg_raise(object error)

cdef extern from "Python.h":
    PyObject *PyObject_Vectorcall(PyObject *f, PyObject *const *args, size_t n, PyObject *names)
    PyTypeObject *Py_TYPE(PyObject *o)


@cython.final
cdef class Ufunc:
    """A proxy of a NumPy ufunc that records traced operands without NumPy's dispatch."""

    cdef vector_function vectorcall
    cdef Kernel kernel

    def __cinit__(self, Kernel kernel):
        self.vectorcall = call_ufunc
        self.kernel = kernel

    def __getattr__(self, name):
        return getattr(self.kernel.ufunc, name)

    @property
    def __class__(self):
        return np.ufunc

    @property
    def __wrapped__(self):
        return self.kernel.ufunc

    def __repr__(self):
        return repr(self.kernel.ufunc)

    def __eq__(self, other):
        return self.kernel.ufunc is (other.__wrapped__ if type(other) is Ufunc else other)

    def __hash__(self):
        return hash(self.kernel.ufunc)

    def __reduce__(self):
        return getattr, (np, self.kernel.ufunc.__name__)


cdef PyObject *call_ufunc(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) noexcept:
    """Vectorcall entry point of `Ufunc`: record traced operands, pass every other call to NumPy."""
    cdef Ufunc proxy = <Ufunc>self
    cdef Kernel u = proxy.kernel
    cdef size_t n = WG_NARGS(nargs)
    if names == NULL and n == <size_t>u.nin and n <= 2:
        if u.opcode:
            if n == 1:
                if traced_type(args[0]):
                    return recorded(u, args[0], NULL)
            elif traced_type(args[0]) or traced_type(args[1]):
                return recorded(u, args[0], args[1])
        if is_list(args[0]) or (n == 2 and is_list(args[1])):
            return recorded_lists(u, args[0], args[1] if n == 2 else NULL)
    return PyObject_Vectorcall(<PyObject *>u.ufunc, args, nargs, names)


cdef inline bint traced_type(PyObject *x) noexcept:
    return (Py_TYPE(x) == <PyTypeObject *>ScalarVar or Py_TYPE(x) == <PyTypeObject *>ArrayVar
            or Py_TYPE(x) == <PyTypeObject *>ScalarDual)


cdef inline bint is_list(PyObject *x) noexcept:
    return Py_TYPE(x) == <PyTypeObject *>list or Py_TYPE(x) == <PyTypeObject *>tuple


cdef PyObject *recorded_lists(Kernel u, PyObject *a, PyObject *b) noexcept:
    """Call a ufunc on lists, which may hold traced values."""
    try:
        operands = (<object>a,) if b == NULL else (<object>a, <object>b)
        result = dispatch.ufunc(u.ufunc, "__call__", operands, {})
    except BaseException as error:
        return wg_raise(error)
    Py_INCREF(result)
    return <PyObject *>result


cdef PyObject *recorded(Kernel u, PyObject *a, PyObject *b) noexcept:
    try:
        result = unary(u, <object>a) if b == NULL else binary(u, <object>a, <object>b)
    except BaseException as error:
        return wg_raise(error)
    Py_INCREF(result)
    return <PyObject *>result


def proxy(ufunc):
    """Return the `Ufunc` of a NumPy ufunc; without a kernel it only handles lists that hold traced values."""
    return Ufunc(kernels.get(ufunc) or Kernel(ufunc, 0, 0, 0))


cdef Ufunc _any = Ufunc(<Kernel>kernels[np.add])
# Cython offers no offsetof for a cdef class, so measure the offset of the vectorcall pointer on an instance.
wg_enable_vectorcall(<PyTypeObject *>Ufunc, <char *>&_any.vectorcall - <char *><PyObject *>_any)
