# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""Guards on the arguments of a call: the types, shapes and constants that a program was traced for.

Data
    Template       guard on one value
    Arguments      the templates of the arguments of a call

Checking a value against its template is faster than computing its key (`wengert.program.tracing.pytree.key_of`).
If a value has no template, the program is looked up by key at each call.
"""

cimport cython
cimport numpy as cnp
from cpython.object cimport PyObject, Py_TYPE
from cpython.tuple cimport PyTuple_GET_SIZE
from libc.string cimport memcmp

import numpy as np

from wengert.program.tracing.environment cimport is_same_array

from wengert.containers import fields_of, is_registered
from wengert.core.operands.var import plain
from wengert.program.tracing.pytree import contents_key, extra_attributes, key_of

cnp.import_array()

cdef object float64 = np.float64
cdef frozenset constants = frozenset([int, bool, str, bytes, type(None)])
cdef frozenset numbers = constants.union([float, float64])


cdef class Template:
    """A guard on one value; equivalent to comparing `wengert.program.tracing.pytree.key_of`."""

    cdef bint take(self, object x, list leaves, list operands) except -1:
        """Return whether a value matches; append its leaves to `operands`, and their plain values to `leaves`."""
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
        """Return whether a value is an array of this type, shape and strides."""
        if not cnp.PyArray_CheckExact(x) or cnp.PyArray_TYPE(x) != self.typenum or cnp.PyArray_NDIM(x) != self.ndim:
            return False
        if self.ndim and memcmp(cnp.PyArray_DIMS(x), self.shape, self.ndim * sizeof(cnp.npy_intp)) != 0:
            return False
        if self.ndim and memcmp(cnp.PyArray_STRIDES(x), self.strides, self.ndim * sizeof(cnp.npy_intp)) != 0:
            return False
        return not cnp.PyArray_ISBYTESWAPPED(x)

    cdef void be_like(self, x) noexcept:
        """Adopt the type, shape and strides of an array."""
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
    """Return the template of a value; None if the value is compared by its key instead.

    With `is_number`, the template of a float accepts Python and NumPy floats alike.
    """
    cdef Template t = Template.__new__(Template)
    cdef list leaves = [], others = []
    kind = type(x)
    if kind is float or kind is float64:
        t.form, t.value = NUMBER if is_number else SCALAR, kind
    elif kind in constants:
        t.form, t.value = CONSTANT, x
    elif kind is dict and not all([type(name) is str for name in x]):  # 1 == True, but their keys differ
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
            if cnp.PyArray_NDIM(x) > MAX_AXES:
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
    t.more = [(name, snapshot_of(getattr(x, name))) for name in extra_attributes(x)]
    t.parts = [template_of(getattr(x, name), is_number) for name in names]
    return None if None in t.parts else t


cdef class Arguments:
    """Guards on the arguments of a call."""

    @staticmethod
    def of(tuple args, dict kwargs, positions=()):
        """Return the guards for a call's arguments, or None if one has no template.

        Arguments at `positions` may be Python or NumPy floats alike.
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
        """Return whether positional arguments, all of them leaves, pass the guards."""
        cdef Py_ssize_t i
        if not self.are_leaves or count != len(self.templates):
            return False
        for i in range(count):
            if not (<Template>self.templates[i]).take(<object>args[i], None, None):
                return False
        return True

    cdef bint take(self, tuple args, dict kwargs, list leaves, list operands) except -1:
        """Return whether arguments pass the guards, and append their leaves; see `Template.take`."""
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


@cython.final
cdef class Keyed:
    """A snapshot that holds the key of a value instead of a copy."""

    cdef object key


cdef object snapshot_of(x):
    """Return a snapshot of a value for `is_same`."""
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
    """Return whether a value equals its snapshot; 0.0 and -0.0 differ."""
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
