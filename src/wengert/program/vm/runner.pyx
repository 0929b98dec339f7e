# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Callables that run a program through vectorcall (PEP 590): no argument tuple or dict, and no Python code.

Data
    Run            interface of the VM: runs a program with one output
    Repeated       interface of the VM: runs a program again, on the arrays to which it is bound
    Vectored       a callable that may accept vectorcall arguments
    Runner         a callable that runs one program for arguments that fit its guards
"""

from cpython.object cimport PyObject, Py_TYPE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE

from wengert.program.tracing.arguments cimport Arguments, is_array_of

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        object (*tp_call)(object self, object args, PyObject *kwargs)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    Py_ssize_t PyVectorcall_NARGS(size_t count)
    void PyType_Modified(PyTypeObject *type)
    PyObject **PySequence_Fast_ITEMS(object items)


cdef class Run:
    """Runs a program with one output."""

    cdef object single(self, PyObject **inputs, Py_ssize_t count, given):
        """Return the output, written into `given` if that is not None; an int if a guard fails."""
        raise NotImplementedError


cdef class Repeated:
    """Runs a program on the arrays to which it is bound."""

    cdef int again(self) except -2:
        """Run the program; return the index of a failed guard, or -1."""
        raise NotImplementedError


cdef class Vectored:
    """A callable with a vectorcall path for positional arguments and out=; other calls go to ``__call__``.

    Python uses the vectorcall path (PEP 590) if the class has the flag that `vectored` sets.
    """

    def __cinit__(self):
        self.vector = <vectorcallfunc>by_vector

    cdef object at(self, PyObject **args, Py_ssize_t count, out):
        """Return the result, or `NotImplemented` to fall back to ``__call__``."""
        return NotImplemented


cdef object by_vector(Vectored self, PyObject **args, size_t given, PyObject *names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(given), i
    cdef Py_ssize_t named = 0 if names == NULL else PyTuple_GET_SIZE(<object>names)
    cdef dict kwargs
    if named == 0 or named == 1 and <object>PyTuple_GET_ITEM(<object>names, 0) == "out":
        y = self.at(args, count, <object>args[count] if named else None)
        if y is not NotImplemented:
            return y
    kwargs = {<object>PyTuple_GET_ITEM(<object>names, i): <object>args[count + i] for i in range(named)}
    return (<PyTypeObject *>Py_TYPE(self)).tp_call(
        self, tuple([<object>args[i] for i in range(count)]), <PyObject *>kwargs)


def vectored(type kind):
    """Class decorator that enables vectorcall for a class that does not override ``__call__``."""
    (<PyTypeObject *>kind).tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(<PyTypeObject *>kind)
    return kind


cdef int let_vector(type kind) except -1:
    """Enable vectorcall in an extension type, whose instances hold the function pointer."""
    cdef Vectored one = kind.__new__(kind)
    (<PyTypeObject *>kind).tp_vectorcall_offset = <char *>&one.vector - <char *><PyObject *>one
    vectored(kind)
    return 0


cdef class Runner(Vectored):
    """A callable that runs a program if the arguments pass its guards, and passes other calls to ``_call``.

    `_run` takes leaves and output arrays.  `_restore` builds the result from the outputs; None if the result is a
    single output, of shape `_shape`.  In that case `_direct`, if not None, is a faster path than `_run`.
    """

    def __call__(self, *args, out=None, **kwargs):
        cdef Arguments arguments = self._arguments
        cdef list leaves = []
        if (arguments is not None and (out is None or self._restore is None and is_array_of(out, self._shape))
                and arguments.take(args, kwargs, leaves, None)):
            if self._restore is None and self._direct is not None:
                y = self._direct.single(PySequence_Fast_ITEMS(leaves), len(leaves), out)
                if type(y) is not int:
                    return y        # else a guard failed: run again to raise its error
            y = self._run(leaves) if out is None else self._run(leaves, [out])
            return y[0] if self._restore is None else self._restore(y)
        return self._call(args, kwargs, out)

    cdef object at(self, PyObject **args, Py_ssize_t count, out):
        cdef Arguments arguments = self._arguments
        if (arguments is None or self._direct is None or self._restore is not None
                or not (out is None or is_array_of(out, self._shape)) or not arguments.take_leaves(args, count)):
            return NotImplemented
        y = self._direct.single(args, count, out)
        return NotImplemented if type(y) is int else y


let_vector(Runner)
