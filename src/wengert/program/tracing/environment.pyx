# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Guards on the state that a function reads besides its arguments: globals, closure cells, attributes, containers.

A compiled function checks them in C before each replay; no Python code runs, neither the user's nor wengert's.

Data
    Place          a location of a value: an item of a dict, a cell, an attribute
    StateGuards    the guards: places with their contents, code of functions, classes of objects, contents of
                   containers and arrays
"""

cimport numpy as cnp
from cpython.object cimport PyObject, Py_TYPE
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE
from libc.string cimport memcmp

from wengert.core.operands.var cimport ArrayVar, array_of_clean

import collections
import types

cnp.import_array()

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        PyObject *tp_dict
        PyObject *tp_mro
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


class _Absent:
    def __repr__(self):
        return "absent"


ABSENT = _Absent()
cdef object absent = ABSENT, Cell = types.CellType

#: how contents are compared: length, keys, items, alternating keys and values, items of an object array, bytes of an
#: array, bytes of another buffer
cpdef enum Contents:
    BY_LENGTH, BY_KEYS, BY_ITEMS, BY_PAIRS, BY_OBJECTS, BY_ARRAY, BY_BYTES


cpdef object without_operand(value):
    """Return a value, or the array for which it stands as an operand without a derivative."""
    return array_of_clean(<ArrayVar>value) if type(value) is ArrayVar else value


cdef class Place:
    """A location of a value: the item `name` of a dict, tuple or list, a cell, or the result of ``get()``.

    `key` identifies it: the id of the holder and the name; without the name for a cell, which several functions may
    share.  Reading it runs no user code.
    """

    def __init__(self, holder, name=None, get=None):
        self.holder, self.name, self.get = holder, name, get
        self.key = id(holder), None if type(holder) is Cell else name
        self.way = OTHER
        if get is None:
            self.way = (DICT if isinstance(holder, dict) else CELL if type(holder) is Cell
                        else LIST if isinstance(holder, list) else CLASS if isinstance(holder, type) else OTHER)

    @property
    def is_fixed(self):
        """Whether the holder is a tuple, whose items cannot change."""
        return isinstance(self.holder, tuple)

    cpdef object read(self):
        """Return the current contents, or `ABSENT`."""
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
            return without_operand(self.get())
        elif isinstance(self.holder, tuple):
            return without_operand(tuple.__getitem__(self.holder, self.name))
        else:
            try:
                return without_operand(self.holder[self.name])
            except LookupError:
                return absent
        return absent if found == NULL else without_operand(<object>found)


cdef class StateGuards:
    """The state that is compared at each call.

    `watched` are pairs (place, contents), `functions` tuples (function, code, defaults, keyword defaults), `sizes`
    pairs (namespace, length), `objects` tuples (object, class, ``__dict__`` or None; for a class its MRO), `contents`
    tuples (comparison, container or array, snapshot).
    """

    def __init__(self, watched, functions, sizes, objects, contents):
        self.watched, self.functions, self.sizes, self.objects = watched, functions, sizes, objects
        self.contents = contents

    cpdef bint hold(self) except -1:
        """Return whether nothing has changed."""
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
        """Return the first change: the name of a place, or a description; None if there is none."""
        for place, value in self.watched:
            if place.read() is not value:
                return repr(place.name)
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
    """Return whether the contents of a container or an array equal their snapshot."""
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
    """Return an iterator over a container that ignores an overridden ``__iter__`` of a subclass."""
    for kind in iterated:
        if isinstance(x, kind):
            return kind.__iter__(x)
    return x


cdef tuple iterated = (set, frozenset, collections.deque, tuple, collections.OrderedDict)


cdef bint is_same_array(x, known) except -1:
    """Return whether arrays have equal bytes, dtype and shape."""
    if x.dtype != known.dtype or x.shape != known.shape:
        return False
    if (cnp.PyArray_IS_C_CONTIGUOUS(x) and cnp.PyArray_IS_C_CONTIGUOUS(known)
            or cnp.PyArray_IS_F_CONTIGUOUS(x) and cnp.PyArray_IS_F_CONTIGUOUS(known)):
        return memcmp(cnp.PyArray_DATA(x), cnp.PyArray_DATA(known), cnp.PyArray_NBYTES(x)) == 0
    return x.tobytes() == known.tobytes()


cdef inline object held(PyObject *found):
    return None if found == NULL else <object>found
