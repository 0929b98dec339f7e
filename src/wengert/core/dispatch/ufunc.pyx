# cython: language_level=3, boundscheck=False, wraparound=False
"""Proxies of functions that record traced operands directly, without NumPy's dispatch.

A differentiated function sees a `Ufunc` as ``np.sin`` and a `ScalarFunction` as ``math.sin``.
"""

cimport cython
from cpython.float cimport PyFloat_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF

import functools

import numpy as np

from wengert.core.tape.kernel cimport Kernel, kernel_of, kernels
from wengert.core.operands.var cimport (
    ArrayVar, ScalarDual, ScalarVar, as_numpy, binary, float_of, scalar_ufunc, unary, unary_value, watch_comparison,
)

from wengert.core.dispatch import dispatch
from wengert.core.dispatch.arguments import unchanged
from wengert.core.operands.var import is_var

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


cdef class Proxy:
    """A callable with the attributes of the function `__wrapped__` that it calls."""

    cdef vector_function vectorcall
    cdef Kernel kernel
    cdef readonly object __wrapped__

    def __getattr__(self, name):
        return getattr(self.__wrapped__, name)

    @property
    def __class__(self):
        return type(self.__wrapped__)

    def __repr__(self):
        return repr(self.__wrapped__)

    def __eq__(self, other):
        return self.__wrapped__ is (other.__wrapped__ if type(other) is type(self) else other)

    def __hash__(self):
        return hash(self.__wrapped__)


@cython.final
cdef class Ufunc(Proxy):
    """A proxy of a NumPy ufunc that records traced operands without NumPy's dispatch."""

    def __cinit__(self, Kernel kernel):
        self.vectorcall = call_ufunc
        self.kernel = kernel
        self.__wrapped__ = kernel.ufunc

    def __getattr__(self, name):
        found = getattr(self.kernel.ufunc, name)
        return functools.partial(_reduced, self.kernel.ufunc) if name == "reduce" else found

    def __deepcopy__(self, memo):
        return self

    def __reduce__(self):
        return getattr, (np, self.kernel.ufunc.__name__)


def _reduced(fun, *args, **kwargs):
    """Call ``fun.reduce``, which does not dispatch on `initial`."""
    if is_var(kwargs.get("initial")):
        return dispatch.ufunc(fun, "reduce", args, kwargs)
    return fun.reduce(*args, **kwargs)


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
    return Ufunc(kernel_of(ufunc) or Kernel(ufunc, 0, 0, 0))


@cython.final
cdef class ScalarFunction(Proxy):
    """A proxy of a function of Python floats, such as ``math.sin``, that also accepts traced values.

    After `set_rule`, calls with scalars are recorded here by the kernel of a ufunc.  The function itself computes the
    value, so that bits and exceptions are those of plain code.
    ``general(*args, **kwargs)`` handles all other calls with arguments that may be traced.
    """

    cdef object general
    cdef bint tells_sign                # does the result reveal the sign of the second argument (math.copysign)?

    def __cinit__(self, fun, general):
        self.tells_sign = fun.__name__ == "copysign"
        self.vectorcall = call_scalar_function
        self.__wrapped__ = fun
        self.general = general

    def set_rule(self, ufunc):
        """Record calls with the arity of this ufunc by its kernel, if it has one."""
        self.kernel = kernel_of(ufunc)

    def __reduce__(self):
        return unchanged, (self.__wrapped__,)


cdef PyObject *call_scalar_function(PyObject *self, PyObject *const *args, size_t nargs, PyObject *names) noexcept:
    """Vectorcall entry point of `ScalarFunction`."""
    cdef ScalarFunction proxy = <ScalarFunction>self
    cdef size_t n = WG_NARGS(nargs), i
    cdef object general = proxy.__wrapped__
    cdef PyObject *found
    if names == NULL and proxy.kernel is not None and n == <size_t>proxy.kernel.nin and (
            may_be_traced(args[0]) or (n == 2 and may_be_traced(args[1]))):
        found = recorded_scalars(proxy, args[0], args[1] if n == 2 else NULL)
        if found != <PyObject *>None:
            return found
    for i in range(n + (0 if names == NULL else len(<object>names))):
        if may_be_traced(args[i]):
            general = proxy.general
            break
    if proxy.tells_sign and n == 2 and general is proxy.general and watch_sign(args[1]):
        return NULL
    return PyObject_Vectorcall(<PyObject *>general, args, nargs, names)


cdef int watch_sign(PyObject *x) noexcept:
    """Count a comparison with 0; return whether that raised."""
    try:
        watch_comparison(<object>x, 0.0)
    except BaseException as error:
        wg_raise(error)
        return 1
    return 0


cdef inline bint may_be_traced(PyObject *x) noexcept:
    return not (PyFloat_CheckExact(<object>x) or PyLong_CheckExact(<object>x) or Py_TYPE(x) == float64_type)


cdef PyObject *recorded_scalars(ScalarFunction proxy, PyObject *a, PyObject *b) noexcept:
    """Record a call by the kernel of the ufunc; return a borrowed None if the operands need the general path."""
    try:
        result = of_scalars(proxy, as_numpy(<object>a), None if b == NULL else as_numpy(<object>b))
    except BaseException as error:
        return wg_raise(error)
    if result is not None:
        Py_INCREF(result)
    return <PyObject *>result


cdef object of_scalars(ScalarFunction proxy, object a, object b):
    cdef double y
    if not (is_eager_scalar(a) and (b is None or is_eager_scalar(b) or is_number(b))
            or is_number(a) and is_eager_scalar(b)):
        return None
    if b is None:
        y = proxy.__wrapped__(float_value(a))
        return float_of(unary_value(proxy.kernel, a, y))
    y = proxy.__wrapped__(float_value(a), float_value(b))
    return float_of(scalar_ufunc(proxy.kernel, a, b, &y))


cdef inline bint is_number(object x):
    return PyFloat_CheckExact(x) or PyLong_CheckExact(x) or type(x) is np_float64


cdef inline bint is_eager_scalar(object x):
    """Return whether `x` is a traced scalar of an outermost level whose tape is not recording a program."""
    return type(x) is ScalarDual or (type(x) is ScalarVar and not (<ScalarVar>x).tape.recording)


cdef inline object float_value(object x):
    if type(x) is ScalarVar:
        return (<ScalarVar>x).v
    return (<ScalarDual>x).v if type(x) is ScalarDual else x


cdef object np_float64 = np.float64
cdef PyTypeObject *float64_type = <PyTypeObject *><PyObject *>np_float64
cdef Ufunc _any = Ufunc(<Kernel>kernels[np.add])
# Cython offers no offsetof for a cdef class, so measure the offset of the vectorcall pointers on instances.
wg_enable_vectorcall(<PyTypeObject *>Ufunc, <char *>&_any.vectorcall - <char *><PyObject *>_any)
cdef ScalarFunction _some = ScalarFunction(abs, None)
wg_enable_vectorcall(<PyTypeObject *>ScalarFunction, <char *>&_some.vectorcall - <char *><PyObject *>_some)
