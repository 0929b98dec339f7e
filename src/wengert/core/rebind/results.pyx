# cython: language_level=3
"""Wraps new arrays that followed code computes, so that they can hold traced values.

An array is new if nothing but the stack of the running code refers to it.
"""

import sys

from cpython.ref cimport Py_REFCNT

import numpy as np

cdef type _ndarray = np.ndarray
cdef object _wrapped = None             # function that wraps a plain array without a copy
cdef object _kind = None                # type of wrapped arrays
cdef object _note = None                # function that notes the place at which a wrapped array was made
cdef set _places = None                 # in a rerun: places at which arrays were wrapped, as (file, line)


def set_wrapper(wrap, kind, note):
    """Set the function that wraps a plain array, the type of its results, and the function that notes their places."""
    global _wrapped, _kind, _note
    _wrapped, _kind, _note = wrap, kind, note


def note_places(places):
    """From now on, add the places at which arrays are wrapped to a set; None ends that."""
    global _places
    _places = places


def _references(value):
    return Py_REFCNT(value)


cdef Py_ssize_t _ALONE = _references(np.empty(1))  # references to a temporary object that a function receives


def filled(value):
    """Return a new array in a form that can hold traced values; other values are unchanged."""
    return _wrap(value, value.base) if type(value) is _ndarray and Py_REFCNT(value) == _ALONE else value


def filled_items(value):
    """Return as `filled` does, and replace new arrays in a new list, dictionary or tuple too."""
    return _replaced(value) if Py_REFCNT(value) == _ALONE else value


cdef object _replaced(value):
    if type(value) is _ndarray:
        value = _wrap(value, value.base)
    elif isinstance(value, (tuple, list, dict)):
        return _with_items(value)
    if _places is not None and type(value) is _kind:
        _note(value, _place())
    return value


cdef tuple _place():
    """File and line of the running code."""
    frame = sys._getframe()
    return frame.f_code.co_filename, frame.f_lineno


cdef object _wrap(value, base):
    """Return a wrapped array, or a wrapped copy of a view of an array that nothing else refers to."""
    if value.dtype.kind not in "fc":
        return value
    if base is None:
        is_new, is_owner = value.flags.owndata, True
    else:  # the view and this call refer to the base
        is_new, is_owner = type(base) is _ndarray and base.base is None and Py_REFCNT(base) <= 2, False
    if not is_new:
        return value
    if _places is not None:
        _places.add(_place())
    return _wrapped(value if is_owner else value.copy("K"))


cdef object _item(value):
    """Return the replacement of an item of a new container."""
    return value if Py_REFCNT(value) > 2 else _replaced(value)  # the container and this call refer to the item


cdef object _with_items(value):
    """Replace the items of a new container; return a new tuple for a tuple."""
    kind = type(value)
    if kind is list:
        for i in range(len(<list>value)):
            (<list>value)[i] = _item((<list>value)[i])
    elif kind is dict:
        for key in list(<dict>value):
            value[key] = _item((<dict>value)[key])
    elif kind is tuple or (hasattr(kind, "_make") and not kind.__dictoffset__):  # named tuples without attributes
        items, is_changed = [], False
        for each in <tuple>value:
            new = _item(each)
            is_changed = is_changed or new is not each
            items.append(new)
        if is_changed:
            return tuple(items) if kind is tuple else kind._make(items)
    return value
