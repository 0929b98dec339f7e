# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Which code runs while a function runs once: a profile function in C, which runs no code that could be seen itself."""

cimport cython
from cpython.object cimport PyObject, Py_TYPE
from cpython.ref cimport Py_DECREF, Py_XDECREF, Py_XINCREF

import gc

from wengert.features import import_code
from wengert.program.tracing.purity import verdict

cdef extern from "Python.h":
    bint PyDict_Next(object d, Py_ssize_t *at, PyObject **key, PyObject **value)
    Py_ssize_t PyDict_Size(object d)

    ctypedef struct PyFrameObject
    ctypedef int (*Py_tracefunc)(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) except -1
    ctypedef struct PyThreadState:
        Py_tracefunc c_profilefunc
        PyObject *c_profileobj
    PyThreadState *PyThreadState_Get()
    void PyEval_SetProfile(Py_tracefunc function, PyObject *self)
    int PyTrace_CALL, PyTrace_C_CALL, PyTrace_RETURN
    ctypedef struct PyCodeObject
    PyCodeObject *PyFrame_GetCode(PyFrameObject *frame)
    object PyFrame_GetGlobals(PyFrameObject *frame)
    PyFrameObject *PyFrame_GetBack(PyFrameObject *frame)
    int PyFrame_GetLineNumber(PyFrameObject *frame)
    bint PyCFunction_Check(PyObject *x)
    void *PyCFunction_GET_FUNCTION(PyObject *x)
    PyObject *PyCFunction_GET_SELF(PyObject *x)


@cython.final
cdef class Observer:
    """Which code runs, and which functions in C it calls, in this thread, while it is entered.

    Attributes
    ----------
    codes : dict
        By the id of a code object: True where it is pure, and otherwise the code, that of its first caller and the
        line.
    calls : dict
        Of each function in C, once for each type that it is a method of: the function, whether pure code calls it,
        the code and the line.
    """

    cdef readonly dict codes, calls
    cdef dict verdicts
    cdef bint collects              # was the collector on? It runs code of others, too
    cdef PyFrameObject *importing   # of an import that pure code has begun, else NULL: finders are code of others, too
    cdef Py_tracefunc former
    cdef PyObject *former_self

    def __init__(self):
        self.codes, self.calls, self.verdicts = {}, {}, {}

    def __enter__(self):
        cdef PyThreadState *state = PyThreadState_Get()
        self.former, self.former_self = state.c_profilefunc, state.c_profileobj
        Py_XINCREF(self.former_self)
        self.collects = gc.isenabled()
        gc.disable()
        PyEval_SetProfile(<Py_tracefunc>observe, <PyObject *>self)
        return self

    def __exit__(self, *error):
        PyEval_SetProfile(self.former, self.former_self)
        Py_XDECREF(self.former_self)
        self.former_self = NULL
        if self.collects:
            gc.enable()


def is_observed():
    """Is an observer at work in this thread?"""
    return PyThreadState_Get().c_profilefunc == <Py_tracefunc>observe


cdef int observe(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) except -1:
    cdef Observer observer = <Observer>self
    cdef PyObject *owner
    if observer.importing != NULL:
        if what == PyTrace_RETURN and frame == observer.importing:
            observer.importing = NULL
        return 0
    if what == PyTrace_CALL:
        if is_pure_code(observer, frame) and code_of(frame) is import_code:
            observer.importing = frame
    elif what == PyTrace_C_CALL and arg != NULL and PyCFunction_Check(arg):
        owner = PyCFunction_GET_SELF(arg)
        by_pure = is_pure_code(observer, frame)
        key = (<size_t>PyCFunction_GET_FUNCTION(arg), 0 if owner == NULL else <size_t>Py_TYPE(<object>owner), by_pure)
        if key not in observer.calls:
            code = code_of(frame)
            observer.calls[key] = <object>arg, by_pure, code, PyFrame_GetLineNumber(frame)
    return 0


cdef object code_of(PyFrameObject *frame):
    cdef PyObject *found = <PyObject *>PyFrame_GetCode(frame)
    code = <object>found
    Py_DECREF(code)
    return code


cdef bint is_pure_code(Observer observer, PyFrameObject *frame) except -1:
    """Is the code of a frame pure, by its module or by that of its caller?"""
    cdef PyFrameObject *back
    cdef bint is_pure
    code = code_of(frame)
    key = <size_t><PyObject *>code
    known = observer.codes.get(key)
    if known is not None:
        return known is True
    if key not in observer.verdicts:
        observer.verdicts[key] = code, verdict(PyFrame_GetGlobals(frame).get("__name__"))
    own = observer.verdicts[key][1]
    back = PyFrame_GetBack(frame)
    try:
        is_pure = (back != NULL and is_pure_code(observer, back)) if own is None else own
        if is_pure and own is not None:
            observer.codes[key] = True
        elif not is_pure:
            caller = (None, 0) if back == NULL else (code_of(back), PyFrame_GetLineNumber(back))
            observer.codes[key] = (code, *caller)
    finally:
        Py_XDECREF(<PyObject *>back)
    return is_pure
