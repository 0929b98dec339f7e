# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Records which code runs during one call, with a profile function in C that itself runs no observable code."""

cimport cython
from cpython.object cimport PyObject, Py_TYPE
from cpython.ref cimport Py_DECREF, Py_XDECREF, Py_XINCREF

import gc

from wengert.features import import_code, warning_code
from wengert.program.tracing.purity import is_seeding, only_reseeds, only_rounds, verdict

cdef extern from "Python.h":
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


cdef enum:
    MAX_SEEN = 512


cdef struct Seen:
    PyObject *code
    size_t function
    PyObject *owner


@cython.final
cdef class Observer:
    """While entered, records which code runs in this thread, and which C functions it calls.

    Attributes
    ----------
    codes : dict
        By id of a code object: True if it is pure, otherwise a tuple (code, code of its first caller, line).
    calls : dict
        By C function, type of its owner and purity of the caller: a tuple (function, whether the caller is pure,
        code of the caller, line).
    """

    cdef readonly dict codes, calls
    cdef PyObject *seen_codes[MAX_SEEN]     # caches of code and calls that are already in `codes` and `calls`
    cdef Seen seen_calls[MAX_SEEN]
    cdef dict verdicts
    cdef bint collects              # whether the garbage collector was on; disabled because it runs finalisers
    cdef PyFrameObject *ignored     # frame of a warning, an import or a seed without effect; its calls are ignored
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


@cython.final
cdef class Watch:
    """While entered, detects whether any of the given code objects runs in this thread.

    `idle` maps the id of a code object to its function.  Before such a function f runs, ``refuse(f)`` is called,
    which raises an error.
    """

    cdef set codes                  # ids of the code objects
    cdef dict idle
    cdef object refuse
    cdef readonly bint found
    cdef Py_tracefunc former
    cdef PyObject *former_self

    def __init__(self, codes, idle, refuse):
        self.codes, self.found = set(map(id, codes)), False
        self.idle, self.refuse = idle, refuse

    def __enter__(self):
        cdef PyThreadState *state = PyThreadState_Get()
        self.former, self.former_self = state.c_profilefunc, state.c_profileobj
        Py_XINCREF(self.former_self)
        PyEval_SetProfile(<Py_tracefunc>detect, <PyObject *>self)
        return self

    def __exit__(self, *error):
        PyEval_SetProfile(self.former, self.former_self)
        Py_XDECREF(self.former_self)
        self.former_self = NULL


cdef int detect(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) except -1:
    if what == PyTrace_CALL:
        code = code_of(frame)
        if <size_t><PyObject *>code in (<Watch>self).codes:
            (<Watch>self).found = True
        elif id(code) in (<Watch>self).idle:
            (<Watch>self).refuse((<Watch>self).idle[id(code)])
    return 0


def is_observed():
    """Return whether an observer is active in this thread."""
    return PyThreadState_Get().c_profilefunc == <Py_tracefunc>observe


cdef int observe(PyObject *self, PyFrameObject *frame, int what, PyObject *arg) except -1:
    cdef Observer observer = <Observer>self
    cdef PyObject *owner
    cdef PyObject *code
    cdef size_t function, place
    cdef Seen *seen
    if observer.ignored != NULL:
        if what == PyTrace_RETURN and frame == observer.ignored:
            observer.ignored = NULL
        return 0
    if what == PyTrace_CALL:
        code = borrowed_code(frame)
        place = (<size_t>code >> 4) % MAX_SEEN
        if observer.seen_codes[place] == code:
            return 0
        if is_seeding(<object>code) and (only_rounds(<object>frame) or only_reseeds(<object>frame)):
            observer.ignored = frame
        elif <object>code is warning_code or (is_pure_code(observer, frame) and <object>code is import_code):
            observer.ignored = frame
        elif id(<object>code) in observer.codes:
            observer.seen_codes[place] = code
    elif what == PyTrace_C_CALL and arg != NULL and PyCFunction_Check(arg):
        owner = PyCFunction_GET_SELF(arg)
        owner = NULL if owner == NULL else <PyObject *>Py_TYPE(<object>owner)
        code, function = borrowed_code(frame), <size_t>PyCFunction_GET_FUNCTION(arg)
        seen = &observer.seen_calls[((<size_t>code >> 4) ^ (function >> 3) ^ (<size_t>owner >> 4)) % MAX_SEEN]
        if seen.code == code and seen.function == function and seen.owner == owner:
            return 0
        by_pure = is_pure_code(observer, frame)
        key = (function, <size_t>owner, by_pure)
        if key not in observer.calls:
            observer.calls[key] = <object>arg, by_pure, <object>code, PyFrame_GetLineNumber(frame)
        if id(<object>code) in observer.codes:
            seen.code, seen.function, seen.owner = code, function, owner
    return 0


cdef inline PyObject *borrowed_code(PyFrameObject *frame) noexcept:
    """Return a borrowed reference to the code of a frame."""
    cdef PyObject *found = <PyObject *>PyFrame_GetCode(frame)
    Py_XDECREF(found)
    return found


cdef object code_of(PyFrameObject *frame):
    cdef PyObject *found = <PyObject *>PyFrame_GetCode(frame)
    code = <object>found
    Py_DECREF(code)
    return code


cdef bint is_pure_code(Observer observer, PyFrameObject *frame) except -1:
    """Return whether a frame's code is pure, judged by its module or, if that is not conclusive, by its caller's."""
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


def unobserved(call, *args):
    """Call a function while the active observer is suspended, and return its result."""
    cdef PyThreadState *state = PyThreadState_Get()
    cdef Py_tracefunc former = state.c_profilefunc
    cdef PyObject *former_self = state.c_profileobj
    Py_XINCREF(former_self)
    PyEval_SetProfile(NULL, NULL)
    try:
        return call(*args)
    finally:
        PyEval_SetProfile(former, former_self)
        Py_XDECREF(former_self)
