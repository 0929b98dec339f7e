# cython: language_level=3
"""Finds what a proxy, a copy or another stand-in stands for, so that identities are those of plain code.

Followed code sees proxies of objects and classes, and copies of functions.  Its operators ``is`` and ``in`` get the
operands of plain code, and `id` the object.  Proxies of objects without ``__eq__`` compare and hash as their objects.
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
    """Let a proxy refer weakly to its object, if possible; the reference keeps the object's hash after its death."""
    if type(value).__weakrefoffset__ and isinstance(proxy, Sharing):
        found = weakref.ref(value)
        if type(proxy).__hash__ is hash_of:
            hash(found)
        _object.__set__(proxy, found)


def class_key(cls):
    """Return the class that represents `cls` as a key: the original of a proxy class, else `cls` itself."""
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
    """Implement the default ``==`` of objects for proxies."""
    return True if whole(proxy) is whole(other) else NotImplemented


def hash_of(proxy):
    """Implement the default hash of objects for proxies."""
    held = _object if isinstance(proxy, Sharing) else type(proxy)._wengert_whole
    try:
        return hash(held.__get__(proxy))
    except AttributeError:  # made by followed code
        return object.__hash__(proxy)


def identity(x):
    """Return ``id(x)`` as plain code would."""
    return id(whole(x))


def compared(tuple pair):
    """Return the operands of ``is``: the second one twice if plain code would see the same object."""
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
    """Return container and key of ``key in container``; a copy of a function in the container becomes the original."""
    key, container = pair
    if type(key) in FUNCTIONS and isinstance(container, (dict, set, frozenset)):
        return container, plain_key(key, container)
    return container, key


def plain_key(key, container):
    """Return the function in `container` of which `key` is a copy, if there is one, else `key` itself."""
    if type(key) not in FUNCTIONS or key in container:
        return key
    return next((each for each in container if _is_copy(each, key)), key)


cdef bint _is_copy(f, g):
    """Return whether two functions, or two bound methods, are copies of each other, which share their attributes."""
    if type(f) is not type(g):
        return False
    if type(f) is types.FunctionType:
        return f.__dict__ is g.__dict__
    return type(f) is types.MethodType and whole(f.__self__) is whole(g.__self__) and _is_copy(f.__func__, g.__func__)
