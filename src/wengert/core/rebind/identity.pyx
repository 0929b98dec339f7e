# cython: language_level=3
"""Finds the object, function, class or module for which another one stands, so that identities are those of plain code.

Followed code sees proxies of objects and classes, and copies of functions.  Its operators ``is`` and ``in`` get the
operands of plain code, and `id` the object; proxies of objects without ``__eq__`` compare and hash as these.
"""

from __future__ import annotations

import types
import weakref

__all__ = [
    "FUNCTIONS",
    "REGISTERED",
    "Sharing",
    "class_key",
    "compared",
    "contained",
    "hash_of",
    "identity",
    "is_same",
    "plain_key",
    "refer",
    "whole",
]

REGISTERED = {}  # id(original) -> (original, replacement, private name)
FUNCTIONS = {types.FunctionType, types.MethodType}
cdef set _PLAIN = {int, float, str, bool, bytes, type(None)}


class Sharing:
    """Base of proxy classes whose instances share `__dict__`: holds a weak reference to the object."""

    __slots__ = ("_wengert_object",)

    def __getstate__(self):  # without the reference
        return self.__dict__ or None


_object = Sharing._wengert_object


def refer(proxy, value):
    """Let a proxy refer to its object, if that has weak references: these keep a hash, also when the object dies."""
    if type(value).__weakrefoffset__ and isinstance(proxy, Sharing):
        found = weakref.ref(value)
        if type(proxy).__hash__ is hash_of:
            hash(found)
        _object.__set__(proxy, found)


def class_key(cls):
    """Return the class that stands for a class as a key: the original of a proxy class, but not of a subclass."""
    return vars(cls).get("_wengert_original") or cls  # None in classes of traced arrays


cpdef object whole(value):
    """Return what a proxy or a stand-in of a container or module stands for, and any other value itself.

    A proxy of an object that has died stands for itself.
    """
    cdef object kind = type(value), found
    if kind in _PLAIN or kind in FUNCTIONS:
        return value
    if isinstance(value, type):
        return class_key(value)
    try:
        if hasattr(kind, "_wengert_of"):
            found = kind._wengert_of.__get__(value)
        elif not hasattr(kind, "_wengert_original"):
            return value
        else:
            found = _object.__get__(value)() if issubclass(kind, Sharing) else kind._wengert_whole.__get__(value)
    except AttributeError:  # made by followed code
        return value
    return value if found is None else found


def is_same(proxy, other):
    """The default ``==`` of objects, for proxies."""
    return True if whole(proxy) is whole(other) else NotImplemented


def hash_of(proxy):
    """The default hash of objects, for proxies."""
    held = _object if isinstance(proxy, Sharing) else type(proxy)._wengert_whole
    try:
        return hash(held.__get__(proxy))
    except AttributeError:  # made by followed code
        return object.__hash__(proxy)


def identity(x):
    """``id(x)`` in plain code."""
    return id(whole(x))


def compared(tuple pair):
    """Return the operands of ``is``; twice the second one if they are the same object in plain code."""
    a, b = pair
    if a is b or type(a) in _PLAIN or type(b) in _PLAIN:
        return pair
    x, y = whole(a), whole(b)
    is_stand_in = _is_registered(x, y) or _is_registered(y, x) or _is_copy(x, y) or _hold_the_same(x, y)
    return (b, b) if x is y or is_stand_in else pair


cdef bint _hold_the_same(x, y):
    """Return whether a tuple and its stand-in, which cannot refer to it, have the same items."""
    if not (isinstance(x, tuple) and isinstance(y, tuple)) or type(x) is type(y) or len(x) != len(y):
        return False
    return all([whole(u) is whole(v) for u, v in zip(tuple.__iter__(x), tuple.__iter__(y))])


cdef bint _is_registered(original, replacement):
    found = REGISTERED.get(id(original))
    return found is not None and found[1] is replacement


def contained(tuple pair):
    """Return container and key of ``key in container``; a function as plain code has it, if the container has that."""
    key, container = pair
    if type(key) in FUNCTIONS and isinstance(container, (dict, set, frozenset)):
        return container, plain_key(key, container)
    return container, key


def plain_key(key, container):
    """Return the function of which a key is a copy, if a dictionary or a set has it; any other key itself."""
    if type(key) not in FUNCTIONS or key in container:
        return key
    return next((each for each in container if _is_copy(each, key)), key)


cdef bint _is_copy(f, g):
    """Return whether two functions, or two bound methods, are copies: these share their attributes."""
    if type(f) is not type(g):
        return False
    if type(f) is types.FunctionType:
        return f.__dict__ is g.__dict__
    return type(f) is types.MethodType and whole(f.__self__) is whole(g.__self__) and _is_copy(f.__func__, g.__func__)
