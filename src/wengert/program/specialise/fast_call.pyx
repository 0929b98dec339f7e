# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The way of a call to its program, in C: what f reads from outside is looked at, a call like the last goes straight.

Data
    Place          where something is read: a name, a cell, an item
    Surroundings   what is compared at each call: places with what they held, code of functions, kinds of objects,
                   contents of containers and arrays
    Observer       which code runs, and which functions in C it calls, while a function runs once
    Template       what a value must be like to take the same program again
    Arguments      the templates of the arguments of a call
    Run            what runs a program, called without a name being looked up
    Vectored       a callable that may take its arguments as they lie, without a tuple and a dict of them
    Path, Route    a program and how often it ran; the arguments of the last call, and its path

A route is no more than a shortcut: what does not fit is left to the table of keys.
"""

cimport cython
cimport numpy as cnp
from cpython.contextvars cimport PyContextVar_Get
from cpython.float cimport PyFloat_AS_DOUBLE
from cpython.object cimport PyObject, Py_TYPE
from cpython.ref cimport Py_DECREF, Py_XDECREF, Py_XINCREF
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memcmp

import collections
import gc
import types

import numpy as np

from wengert.containers import fields_of, is_registered
from wengert.core.levels import running
from wengert.core.operands.var import plain
from wengert.errors import GuardError
from wengert.features import import_code
from wengert.program.tracing.pytree import aliases_of, beyond, contents_key, key_of, lowered
from wengert.program.tracing.purity import verdict

cnp.import_array()

cdef extern from "Python.h":
    ctypedef object (*vectorcallfunc)(object self, PyObject **args, size_t count, PyObject *names)
    ctypedef struct PyTypeObject:
        PyObject *tp_dict
        PyObject *tp_mro
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        object (*tp_call)(object self, object args, PyObject *kwargs)
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    Py_ssize_t PyVectorcall_NARGS(size_t count)
    void PyType_Modified(PyTypeObject *type)
    PyObject **PySequence_Fast_ITEMS(object items)
    PyObject *PyDict_GetItemWithError(object d, object key) except? NULL
    PyObject *PyCell_GET(object cell)
    PyObject *PyFunction_GetCode(object f)
    PyObject *PyFunction_GetDefaults(object f)
    PyObject *PyFunction_GetKwDefaults(object f)
    object PyObject_GenericGetDict(object x, void *context)
    PyObject *PyList_GET_ITEM(object items, Py_ssize_t i)
    Py_ssize_t PyList_GET_SIZE(object items)
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


class _Absent:
    def __repr__(self):
        return "absent"


ABSENT = _Absent()
#: that a guard failed, or a call of NumPy for its values: f may have another way for these
FAILURES = (GuardError, ArithmeticError, np.linalg.LinAlgError)
cdef object absent = ABSENT, Cell = types.CellType, float64 = np.float64

cdef enum Holder:
    DICT, CELL, LIST, CLASS, OTHER

#: how contents are compared: the number of items, the keys, the items, keys and values in turn, the items of an array,
#: the bytes of an array, those of another buffer
cpdef enum Contents:
    BY_LENGTH, BY_KEYS, BY_ITEMS, BY_PAIRS, BY_OBJECTS, BY_ARRAY, BY_BYTES


@cython.final
cdef class Place:
    """Where data or functions are held: the item `name` of a dict, tuple or the like, a cell, or what ``get()`` gives.

    `key` tells places apart: the id of the holder and the name.  No code of the user's runs to read one.
    """

    cdef readonly object key
    cdef object holder, name, get
    cdef Holder way

    def __init__(self, holder, name=None, get=None):
        self.holder, self.name, self.get = holder, name, get
        self.key = id(holder), name
        self.way = OTHER
        if get is None:
            self.way = (DICT if isinstance(holder, dict) else CELL if type(holder) is Cell
                        else LIST if isinstance(holder, list) else CLASS if isinstance(holder, type) else OTHER)

    @property
    def is_fixed(self):
        """Is the holder a tuple, which always holds the same?"""
        return isinstance(self.holder, tuple)

    cpdef object read(self):
        """What is held now, or `ABSENT`."""
        cdef PyObject *found
        if self.way == DICT:
            found = PyDict_GetItemWithError(self.holder, self.name)
        elif self.way == CELL:
            found = PyCell_GET(self.holder)
        elif self.way == LIST:
            found = NULL
            if <Py_ssize_t>self.name < PyList_GET_SIZE(self.holder):
                found = PyList_GET_ITEM(self.holder, self.name)
        elif self.way == CLASS:
            found = PyDict_GetItemWithError(<object>(<PyTypeObject *><PyObject *>self.holder).tp_dict, self.name)
        elif self.get is not None:
            return self.get()
        elif isinstance(self.holder, tuple):
            return tuple.__getitem__(self.holder, self.name)
        else:
            try:
                return self.holder[self.name]
            except LookupError:
                return absent
        return absent if found == NULL else <object>found


@cython.final
cdef class Surroundings:
    """What is compared at each call.

    `watched` are pairs (place, what it held), `functions` tuples (function, code, defaults, defaults of keywords),
    `sizes` pairs (namespace, length), `objects` tuples (object, its class, its ``__dict__`` or None; of a class, the
    order of its bases), `contents` tuples (way, container or array, what was in it).
    """

    cdef list watched, functions, sizes, objects, contents

    def __init__(self, watched, functions, sizes, objects, contents):
        self.watched, self.functions, self.sizes, self.objects = watched, functions, sizes, objects
        self.contents = contents

    cpdef bint hold(self) except -1:
        """Is all as it was?"""
        cdef tuple each
        cdef Py_ssize_t n
        for each in self.watched:
            if (<Place>each[0]).read() is not each[1]:
                return False
        for each in self.functions:
            f = <PyObject *>each[0]
            if PyFunction_GetCode(<object>f) != <PyObject *>each[1]:
                return False
            if held(PyFunction_GetDefaults(<object>f)) is not each[2]:
                return False
            if held(PyFunction_GetKwDefaults(<object>f)) is not each[3]:
                return False
        for each in self.sizes:
            n = PyDict_Size(each[0]) if type(each[0]) is dict else len(each[0])
            if n != <Py_ssize_t>each[1]:
                return False
        for each in self.objects:
            if <PyObject *>Py_TYPE(each[0]) != <PyObject *>each[1]:
                return False
            if each[2] is not None and attributes_of(each[0]) is not each[2]:
                return False
        for each in self.contents:
            if not is_still(each[0], each[1], each[2]):
                return False
        return True

    def first_change(self):
        """What is not as it was: the name of a place, or of a type; None if all is."""
        for place, value in self.watched:
            if place.read() is not value:
                return place.key[1]
        for way, x, was in self.contents:
            if not is_still(way, x, was):
                return f"a {type(x).__name__}"
        for space, size in self.sizes:
            if len(space) != size:
                return "an attribute"
        return None


cdef inline object attributes_of(x):
    if isinstance(x, type):
        return <object>(<PyTypeObject *><PyObject *>x).tp_mro
    return PyObject_GenericGetDict(x, NULL)


cdef bint is_still(int way, x, held) except -1:
    """Are the contents of a container or an array as they were?"""
    cdef Py_ssize_t i, n, at
    cdef PyObject *key
    cdef PyObject *value
    if way == BY_LENGTH:
        return (PyList_GET_SIZE(x) if isinstance(x, list) else len(x)) == <Py_ssize_t>held
    if way == BY_ARRAY:
        return is_same_array(x, held)
    if way == BY_BYTES:
        return bytes(x) == held
    n = PyTuple_GET_SIZE(held)
    if way == BY_KEYS or way == BY_PAIRS:
        at = 0
        i = 0
        if PyDict_Size(x) != (n if way == BY_KEYS else n // 2):
            return False
        while PyDict_Next(x, &at, &key, &value):
            if i >= n or PyTuple_GET_ITEM(held, i) != key:
                return False
            i += 1
            if way == BY_PAIRS:
                if PyTuple_GET_ITEM(held, i) != value:
                    return False
                i += 1
        return i == n
    if not isinstance(x, list):
        x = list(x.flat if way == BY_OBJECTS else iterate(x))
    if PyList_GET_SIZE(x) != n:
        return False
    for i in range(n):
        if PyList_GET_ITEM(x, i) != PyTuple_GET_ITEM(held, i):
            return False
    return True


cdef object iterate(x):
    """The items of a container, whatever its class makes of iteration."""
    for kind in iterated:
        if isinstance(x, kind):
            return kind.__iter__(x)
    return x


cdef tuple iterated = (set, frozenset, collections.deque, tuple, collections.OrderedDict)


cdef bint is_same_array(x, known) except -1:
    """Equal bytes, in the same form?"""
    if x.dtype != known.dtype or x.shape != known.shape:
        return False
    if (cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_IS_C_CONTIGUOUS(known)
            or cnp.PyArray_IS_F_CONTIGUOUS(x) and cnp.PyArray_IS_F_CONTIGUOUS(known)):
        return memcmp(cnp.PyArray_DATA(x), cnp.PyArray_DATA(known), cnp.PyArray_NBYTES(x)) == 0
    return x.tobytes() == known.tobytes()


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


cdef inline object held(PyObject *found):
    return None if found == NULL else <object>found


cdef enum Form:
    NUMBER          # a float of Python's or a numpy.float64, where a derivative takes either
    SCALAR, ARRAY
    FIXED           # an array that is part of the key
    CONSTANT, IDENTITY, SEQUENCE, MAPPING
    OBJECT          # a dataclass or a namespace

cdef enum:
    MOST_AXES = 8

cdef frozenset constants = frozenset([int, bool, str, bytes, type(None)])
cdef frozenset numbers = constants.union([float, float64])


@cython.final
cdef class Template:
    """What a value must be like to take the same program again; see `wengert.program.tracing.pytree.key_of`."""

    cdef Form form
    cdef object value  # a constant, a type, keys, or a copy of a fixed array
    cdef list names, attributes     # of an object: its items, and what is in its ``__dict__``
    cdef list more                  # pairs: another attribute, and what it holds
    cdef int typenum, ndim
    cdef cnp.npy_intp[MOST_AXES] shape, strides
    cdef list parts

    cdef bint take(self, object x, list leaves, list operands) except -1:
        """Does a value fit?  Its leaves go into a list; `operands`, if one, takes them as they are, traced or not."""
        cdef Py_ssize_t i
        given = x
        if operands is not None and self.form <= ARRAY:
            x = plain(x)
        if self.form == SCALAR:
            return <PyObject *>Py_TYPE(x) == <PyObject *>self.value and append(leaves, operands, x, given)
        if self.form == ARRAY:
            return self.is_like(x) and append(leaves, operands, x, given)
        if self.form == FIXED:
            return self.is_like(x) and memcmp(cnp.PyArray_DATA(x), cnp.PyArray_DATA(self.value),
                                              cnp.PyArray_NBYTES(x)) == 0
        kind = type(x)
        if self.form == NUMBER:
            if kind is not float and kind is not float64:
                return False
            return append(leaves, operands, x, given)
        if self.form == IDENTITY:
            return x is self.value
        if self.form == CONSTANT:
            return is_same(x, self.value)
        if self.form == MAPPING:
            if kind is not dict or list(x) != self.value:
                return False
            x = list(x.values())
        elif kind is not self.value:
            return False
        elif self.form == OBJECT:
            if list(getattr(x, "__dict__", ())) != self.attributes:
                return False
            for name, known in self.more:
                if not is_same(getattr(x, name), known):
                    return False
            x = [getattr(x, name) for name in self.names]
        elif len(x) != len(self.parts):
            return False
        for i, item in enumerate(x):
            if not (<Template>self.parts[i]).take(item, leaves, operands):
                return False
        return True

    cdef bint is_like(self, x) except -1:
        """Is a value an array of this type, shape and strides?"""
        if not cnp.PyArray_CheckExact(x) or cnp.PyArray_TYPE(x) != self.typenum or cnp.PyArray_NDIM(x) != self.ndim:
            return False
        if self.ndim and memcmp(cnp.PyArray_DIMS(x), self.shape, self.ndim * sizeof(cnp.npy_intp)) != 0:
            return False
        if self.ndim and memcmp(cnp.PyArray_STRIDES(x), self.strides, self.ndim * sizeof(cnp.npy_intp)) != 0:
            return False
        return not cnp.PyArray_ISBYTESWAPPED(x)

    cdef void be_like(self, x) noexcept:
        """Take the type, shape and strides of an array."""
        cdef int i
        self.typenum, self.ndim = cnp.PyArray_TYPE(x), cnp.PyArray_NDIM(x)
        for i in range(self.ndim):
            self.shape[i], self.strides[i] = cnp.PyArray_DIMS(x)[i], cnp.PyArray_STRIDES(x)[i]


cdef bint append(list leaves, list operands, x, given) except -1:
    if leaves is not None:
        leaves.append(x)
    if operands is not None:
        operands.append(given)
    return True


cdef Template template_of(x, bint is_number=False):
    """The template of a value; None for values that are left to the table.

    `is_number` says that a float may be one of Python's or of NumPy's.
    """
    cdef Template t = Template.__new__(Template)
    cdef list leaves = [], others = []
    kind = type(x)
    if kind is float or kind is float64:
        t.form, t.value = NUMBER if is_number else SCALAR, kind
    elif kind in constants:
        t.form, t.value = CONSTANT, x
    elif kind is dict and not all([type(name) is str for name in x]):  # 1 and True are equal
        return None
    elif kind is list or kind is tuple or kind is dict:
        t.form = MAPPING if kind is dict else SEQUENCE
        t.value = list(x) if kind is dict else kind
        t.parts = [template_of(item, is_number) for item in (x.values() if kind is dict else x)]
        return None if None in t.parts else t
    else:
        key_of(x, leaves, others)
        if len(others) == 1 and others[0] is x:
            t.form, t.value = IDENTITY, x
        elif kind is np.ndarray:
            if cnp.PyArray_NDIM(x) > MOST_AXES:
                return None
            t.form = ARRAY
            t.be_like(x)
            if not leaves:
                if x.dtype.kind not in "biu" or not x.dtype.isnative or not cnp.PyArray_IS_C_CONTIGUOUS(x):
                    return None
                t.form, t.value = FIXED, x.copy()
        elif len(leaves) == 1 and leaves[0] is x:
            t.form, t.value = SCALAR, kind
        else:
            return template_of_object(x, t, is_number)
    return t


cdef Template template_of_object(x, Template t, bint is_number):
    names = None if isinstance(x, (dict, list, tuple)) or is_registered(x) else fields_of(x)
    if names is None:
        return None
    t.form, t.value, t.names, t.attributes = OBJECT, type(x), names, list(getattr(x, "__dict__", ()))
    t.more = [(name, snapshot_of(getattr(x, name))) for name in beyond(x)]
    t.parts = [template_of(getattr(x, name), is_number) for name in names]
    return None if None in t.parts else t


@cython.final
cdef class Arguments:
    """What the arguments of a call must be like to take the same program again."""

    cdef list templates
    cdef tuple names
    cdef bint are_leaves            # all of them, given by position

    @staticmethod
    def of(tuple args, dict kwargs, positions=()):
        """Those of a call, or None where one has no template.

        At some `positions` floats may be of Python's or of NumPy's.
        """
        cdef Arguments found = Arguments.__new__(Arguments)
        found.names = tuple(kwargs)
        found.templates = [template_of(x, i in positions) for i, x in enumerate((*args, *kwargs.values()))]
        if None in found.templates:
            return None
        found.are_leaves = not kwargs and all([(<Template>each).form in (NUMBER, SCALAR, ARRAY)
                                               for each in found.templates])
        return found

    cdef bint take_leaves(self, PyObject **args, Py_ssize_t count) except -1:
        """Do arguments fit that are leaves?"""
        cdef Py_ssize_t i
        if not self.are_leaves or count != len(self.templates):
            return False
        for i in range(count):
            if not (<Template>self.templates[i]).take(<object>args[i], None, None):
                return False
        return True

    cdef bint take(self, tuple args, dict kwargs, list leaves, list operands) except -1:
        """Do arguments fit?  Their leaves are appended; see `Template`."""
        cdef Py_ssize_t i = 0
        if PyTuple_GET_SIZE(args) + len(kwargs) != len(self.templates) or len(kwargs) != len(self.names):
            return False
        if kwargs and tuple(kwargs) != self.names:
            return False
        for x in args:
            if not (<Template>self.templates[i]).take(x, leaves, operands):
                return False
            i += 1
        if kwargs:
            for x in kwargs.values():
                if not (<Template>self.templates[i]).take(x, leaves, operands):
                    return False
                i += 1
        return True


cdef bint is_array_of(x, tuple shape) except -1:
    cdef Py_ssize_t i
    if not cnp.PyArray_CheckExact(x) or cnp.PyArray_NDIM(x) != PyTuple_GET_SIZE(shape):
        return False
    for i in range(PyTuple_GET_SIZE(shape)):
        if cnp.PyArray_DIM(x, i) != <cnp.npy_intp>shape[i]:
            return False
    return True


cdef class Run:
    """What runs a program with one output."""

    cdef object single(self, PyObject **inputs, Py_ssize_t count, given):
        """The output, written into `given` unless that is None; a number in its place if a guard fails."""
        raise NotImplementedError


@cython.auto_pickle(False)
cdef class Vectored:
    """A callable that takes arguments given by position, and out=, as they lie; what it leaves goes to ``__call__``.

    Python calls it so (PEP 590) if its class says so, see `vectored`.
    """

    cdef vectorcallfunc vector

    def __cinit__(self):
        self.vector = <vectorcallfunc>by_vector

    cdef object at(self, PyObject **args, Py_ssize_t count, out):
        """The result, or `absent`: it is to be called in the other way."""
        return absent


cdef object by_vector(Vectored self, PyObject **args, size_t given, PyObject *names):
    cdef Py_ssize_t count = PyVectorcall_NARGS(given), i
    cdef Py_ssize_t named = 0 if names == NULL else PyTuple_GET_SIZE(<object>names)
    cdef dict kwargs
    if named == 0 or named == 1 and <object>PyTuple_GET_ITEM(<object>names, 0) == "out":
        y = self.at(args, count, <object>args[count] if named else None)
        if y is not absent:
            return y
    kwargs = {<object>PyTuple_GET_ITEM(<object>names, i): <object>args[count + i] for i in range(named)}
    return (<PyTypeObject *>Py_TYPE(self)).tp_call(
        self, tuple([<object>args[i] for i in range(count)]), <PyObject *>kwargs)


def vectored(type kind):
    """Decorator of a class that does not define ``__call__`` itself: it is called as its base is."""
    (<PyTypeObject *>kind).tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    PyType_Modified(<PyTypeObject *>kind)
    return kind


cdef int let_vector(type kind) except -1:
    """The same for a class of this module, of which each object says how it is called."""
    cdef Vectored one = kind.__new__(kind)
    (<PyTypeObject *>kind).tp_vectorcall_offset = <char *>&one.vector - <char *><PyObject *>one
    vectored(kind)
    return 0


@cython.auto_pickle(False)
cdef class Runner(Vectored):
    """A callable that runs a program at arguments like the last ones, and leaves other calls to ``_call``.

    `_run` takes leaves and arrays for the outputs; `_restore` makes the result of the outputs, None where that is the
    one output, of shape `_shape`, which `_direct` gives then unless it is None.
    """

    cdef public Arguments _arguments
    cdef public object _run, _restore
    cdef public Run _direct
    cdef public tuple _shape

    def __call__(self, *args, out=None, **kwargs):
        cdef Arguments arguments = self._arguments
        cdef list leaves = []
        if (arguments is not None and (out is None or self._restore is None and is_array_of(out, self._shape))
                and arguments.take(args, kwargs, leaves, None)):
            if self._restore is None and self._direct is not None:
                y = self._direct.single(PySequence_Fast_ITEMS(leaves), len(leaves), out)
                if type(y) is not int:
                    return y        # else it is run again, to say what failed
            y = self._run(leaves) if out is None else self._run(leaves, [out])
            return y[0] if self._restore is None else self._restore(y)
        return self._call(args, kwargs, out)

    cdef object at(self, PyObject **args, Py_ssize_t count, out):
        cdef Arguments arguments = self._arguments
        if (arguments is None or self._direct is None or self._restore is not None
                or not (out is None or is_array_of(out, self._shape)) or not arguments.take_leaves(args, count)):
            return absent
        y = self._direct.single(args, count, out)
        return absent if type(y) is int else y


let_vector(Runner)


@cython.final
cdef class Path:
    """A program, how often it was replayed, and the number of the call at which it is compared with f.

    `rounding` is the largest difference of the two, in units in the last place, that was found to be rounding.
    """

    cdef readonly object program
    cdef public Py_ssize_t calls, due
    cdef public double rounding

    def __init__(self, program, Py_ssize_t due):
        self.program, self.due = program, due


@cython.final
cdef class Route:
    """The way of one call, for others like it.

    `live` are the places of inputs, `static` those of values that are part of the key; `pinned` are leaves that are
    so too, with their numbers; `arrays` are the numbers of those that are arrays, if any two could be one, and
    `aliases` says which are.
    """

    cdef Surroundings around
    cdef Path path
    cdef object attempt, restore
    cdef bint is_float              # is the result one Python float?
    cdef Run direct
    cdef tuple shape
    cdef Arguments arguments
    cdef list live, static, places, fixed, pinned, arrays
    cdef tuple aliases
    cdef bint is_whole

    @staticmethod
    def of(Path path, Surroundings around, tuple args, dict kwargs, positions, list live, list static, list leaves,
           list pinned, bint is_whole):
        """The route of a call that took `path`, or None where one has no template; see `Arguments.of`."""
        cdef Route route = Route.__new__(Route)
        route.path, route.around, route.is_whole = path, around, is_whole
        route.attempt, route.restore = path.program.attempt, path.program.restore
        route.is_float = path.program.is_float
        route.direct = path.program.direct if route.restore is None or route.is_float else None
        route.shape = path.program.shape if route.restore is None or route.restore.keeps_out else None
        route.arguments = Arguments.of(args, kwargs, positions)
        route.places, route.live = live, [template_of(lowered((<Place>place).read())) for place in live]
        route.fixed, route.static = static, [snapshot_of((<Place>place).read()) for place in static]
        route.pinned = [(i, snapshot_of(leaf)) for i, leaf in pinned]
        route.aliases = aliases_of(leaves)
        route.arrays = [i for i, x in enumerate(leaves) if isinstance(x, np.ndarray)]
        if len(route.arrays) < 2:
            route.arrays = []
        has_pinned_array = any([isinstance(leaf, np.ndarray) for _, leaf in pinned])    # whose flags f may read
        return None if route.arguments is None or None in route.live or has_pinned_array else route

    cdef bint fits(self, tuple args, dict kwargs, list leaves, list operands) except -1:
        if not self.around.hold() or not self.arguments.take(args, kwargs, leaves, operands):
            return False
        return self.fits_places(leaves, operands)

    cdef bint fits_places(self, list leaves, list operands) except -1:
        """Is what f reads from outside like the last time, and what is part of the key the same?"""
        cdef Py_ssize_t i
        for i in range(len(self.places)):
            if not (<Template>self.live[i]).take((<Place>self.places[i]).read(), leaves, operands):
                return False
        for i in range(len(self.fixed)):
            if not is_same((<Place>self.fixed[i]).read(), self.static[i]):
                return False
        for i, x in self.pinned:
            if not is_same(leaves[i], x):
                return False
        return self.has_aliases(PySequence_Fast_ITEMS(leaves))

    cdef bint has_aliases(self, PyObject **leaves) except -1:
        """Are the same leaves one array as the last time?"""
        cdef Py_ssize_t i, j, n = len(self.arrays), found = 0
        for i in range(n):
            for j in range(i):
                if leaves[<Py_ssize_t>self.arrays[i]] == leaves[<Py_ssize_t>self.arrays[j]]:
                    if (self.arrays[i], self.arrays[j]) not in self.aliases:
                        return False
                    found += 1
                    break
        return found == len(self.aliases)

    cdef object result_at(self, PyObject **args, Py_ssize_t count, out):
        """The result at arguments that are leaves; `absent` if they do not fit, or a guard failed."""
        cdef Py_ssize_t i
        cdef list leaves
        if not self.around.hold() or not self.arguments.take_leaves(args, count):
            return absent
        if self.places or self.fixed or self.pinned:
            leaves = [<object>args[i] for i in range(count)]
            if not self.fits_places(leaves, None):
                return absent
            args, count = PySequence_Fast_ITEMS(leaves), len(leaves)
        elif self.arrays and not self.has_aliases(args):
            return absent
        try:
            y = self.direct.single(args, count, out)
        except FAILURES:
            return absent
        if self.is_float and type(y) is float64:
            return PyFloat_AS_DOUBLE(y)
        return absent if type(y) is int else y

    cdef object result(self, list leaves, out):
        """What the program returns, or the number of a guard that failed."""
        if self.direct is not None:
            try:
                y = self.direct.single(PySequence_Fast_ITEMS(leaves), len(leaves), out)
            except FAILURES:
                return -1
            return PyFloat_AS_DOUBLE(y) if self.is_float and type(y) is float64 else y
        try:
            y = self.attempt(leaves) if out is None else self.attempt(leaves, [out])
        except FAILURES:
            return -1
        if type(y) is int:
            return y
        return y[0] if self.restore is None else self.restore(y)


@cython.final
cdef class Keyed:
    """A value of which the key is kept."""

    cdef object key


cdef object snapshot_of(x):
    """What `is_same` compares with a value."""
    cdef Keyed keyed
    kind = type(x)
    if kind in numbers:
        return x
    if kind is np.ndarray and x.dtype.kind in "biufc":
        return x.copy("K")
    if kind is list or kind is tuple:
        return kind([snapshot_of(item) for item in x])
    if kind is dict:
        return {name: snapshot_of(item) for name, item in x.items()}
    keyed = Keyed.__new__(Keyed)
    keyed.key = contents_key(x, [])
    return keyed


cdef bint is_same(x, known) except -1:
    """Is a value as it was?  Zeros of either sign are not the same."""
    cdef Py_ssize_t i
    if type(known) is Keyed:
        return contents_key(x, []) == (<Keyed>known).key
    kind = type(x)
    if kind is not type(known):
        return False
    if kind is np.ndarray:
        return is_same_array(x, known) and x.strides == known.strides
    if kind is dict:
        if list(x) != list(known) or list(map(type, x)) != list(map(type, known)):
            return False
        x, known = list(x.values()), list(known.values())
    elif kind is not list and kind is not tuple:
        return x is known or (x.hex() == known.hex() if isinstance(x, float) else x == known)
    if len(x) != len(known):
        return False
    for i in range(len(x)):
        if not is_same(x[i], known[i]):
            return False
    return True


cdef class Caller(Vectored):
    """A callable that tries the route of its last call first, and otherwise leaves the call to ``_call``.

    That is given the arguments, and the path that was tried in vain.
    """

    cdef public Route _route
    cdef public Py_ssize_t _replays
    cdef public bint _takes_out     # a derivative does

    def __call__(self, *args, **kwargs):
        cdef Route route = self._route
        cdef list leaves
        failed = out = None
        if route is not None and not is_running() and not raises_errors():
            leaves = []
            # A call that is compared with f takes the long way.
            if self._takes_out and "out" in kwargs:
                out = kwargs.pop("out")
            if (route.path.calls + 2 < route.path.due
                    and (out is None or route.shape is not None and is_array_of(out, route.shape))
                    and route.fits(args, kwargs, leaves, None)):
                y = route.result(leaves, out)
                if type(y) is not int:
                    route.path.calls += 1
                    self._replays += 1
                    return y
                failed = route.path  # a guard did
            if out is not None:
                kwargs["out"] = out
        return self._call(args, kwargs, failed)

    cdef object at(self, PyObject **args, Py_ssize_t count, out):
        cdef Route route = self._route
        if (route is None or route.direct is None or route.path.calls + 2 >= route.path.due
                or not (out is None or self._takes_out and is_array_of(out, route.shape))
                or is_running() or raises_errors()):
            return absent
        y = route.result_at(args, count, out)
        if y is not absent:
            route.path.calls += 1
            self._replays += 1
        return y

    def follow(self, tuple args, dict kwargs):
        """Take the route of the last call inside of a derivative: leaves, operands and outputs, or None."""
        cdef Route route = self._route
        cdef list leaves = [], operands = []
        # Of what is pinned, or not looked at, a derivative would be lost.
        if route is None or route.pinned or not route.is_whole or route.path.calls + 2 >= route.path.due:
            return None
        if not route.fits(args, kwargs, leaves, operands):
            return None
        try:
            outputs = route.attempt(leaves)
        except FAILURES:
            return None
        if type(outputs) is not list:
            return None
        route.path.calls += 1
        self._replays += 1
        return route.path.program, leaves, operands, outputs


let_vector(Caller)


# How NumPy meets floating-point errors here, as `np.errstate` says, and the last such state that raises nothing.
cdef object handling = getattr(np._core._multiarray_umath, "_extobj_contextvar", None), quiet = None


cpdef bint raises_errors() except -1:
    """Does NumPy raise an error, or call a function, where a result is infinite or NaN? A replay does not."""
    global quiet
    cdef PyObject *found = NULL
    if handling is None:
        return False
    PyContextVar_Get(handling, NULL, &found)
    state = <object>found
    Py_DECREF(state)
    if state is quiet:
        return False
    if not {"raise", "call"}.isdisjoint(np.geterr().values()):
        return True
    quiet = state
    return False


cdef bint is_running() except -1:
    """Is there a derivative around?"""
    cdef PyObject *found = NULL
    cdef bint is_one
    PyContextVar_Get(running, NULL, &found)
    is_one = PyTuple_GET_SIZE(<object>found) > 0
    Py_DECREF(<object>found)
    return is_one
