"""Converts objects of SciPy's classes, and of the user's subclasses of them, to the classes of this package."""

from __future__ import annotations

import functools
import importlib
import operator
import types
from collections.abc import Callable
from typing import Any

from wengert.core.rebind import follow, rebind, registration
from wengert.scipy.copies import copy_of, replaced
from wengert.scipy.standin import ORIGINALS, is_stand_in


def register_objects(*names: str) -> None:
    """Let followed code see instances of SciPy classes, given by dotted names, as instances of second copies."""
    for name in names:
        module, _, word = name.rpartition(".")
        cls = getattr(importlib.import_module(module), word, None)
        if cls is not None:
            registration.register_wrapper(cls, type, lambda value, _: recast(value), has_subclasses=True)


#: functions that convert objects of classes written in C, by class
_CONVERTERS: dict[type, Callable[[Any], Any]] = {}


def register_conversion(cls: type, convert: Callable[[Any], Any], has_subclasses: bool = False) -> None:
    """Replace instances of a SciPy class by ``convert(instance)`` wherever followed code meets them."""
    _CONVERTERS[cls] = convert
    registration.register_wrapper(cls, type, lambda value, _: convert(value), has_subclasses)


@functools.cache
def derived(cls: type) -> type:
    """Return a version of a subclass of a SciPy class that derives from the stand-in of the SciPy class."""
    if (found := _stand_in(cls)) is not None:
        return found
    if all(_stand_in(base) is None for base in cls.__mro__):
        return _with_followed_methods(cls)
    cell = types.CellType()
    new = cell.cell_contents = type(cls)(cls.__name__, tuple(map(derived, cls.__bases__)), _followed_body(cls, cell))
    ORIGINALS[new] = cls
    return new


def _stand_in(cls):
    """Return the stand-in of a SciPy class, or None."""
    if id(cls) in registration.CLASSES and is_stand_in(found := follow.REGISTERED[id(cls)][1]):
        return found
    copy = copy_of(cls.__module__)
    found = None if copy is None else vars(copy).get(cls.__name__)
    return found if isinstance(found, type) else None


def _with_followed_methods(cls):
    """Return a subclass of a class that derives from no SciPy class, such as a mixin, with its methods followed."""
    if cls is object or not follow.is_followed(cls) or follow.has_subclass_hook(cls):
        return cls
    return type(cls)(cls.__name__, (cls,), {"__slots__": (), **_followed_body(cls, types.CellType(cls))})


def _followed_body(cls, cell):
    """Return the attributes of a class with its methods followed; `cell` holds the class for their ``super()``."""
    return {
        name: _ClassValue(vars(cls), name) if _is_state(name, value) else _followed_attribute(value, cell)
        for name, value in vars(cls).items()
        if name not in ("__dict__", "__weakref__", "__slots__") and type(value) is not types.MemberDescriptorType
    }


def _is_state(name, value):
    """Return whether an attribute of a class is a value that may change."""
    return not (name.startswith("__") and name.endswith("__")) and not hasattr(type(value), "__get__")


class _ClassValue:
    """Descriptor that returns the current value of an attribute of another class."""

    def __init__(self, space, name):
        self._space, self._name = space, name

    def __get__(self, x, cls):
        return registration.lookup.in_use(self._space[self._name])


def _followed_attribute(value, cell):
    """Return a method, static method, class method or property that follows `value`, or any other value as it is."""
    if type(value) is types.FunctionType:
        return _method(value, cell)
    if type(value) in (staticmethod, classmethod):
        return type(value)(_followed_attribute(value.__func__, cell))
    if type(value) is property:
        return property(*(_followed_attribute(part, cell) for part in (value.fget, value.fset, value.fdel)))
    return value


def _method(f, cell):
    """Return a method that follows `f`; `cell` holds the class for its ``super()``."""
    cells = tuple(
        cell if name == "__class__" else old for name, old in zip(f.__code__.co_freevars, f.__closure__ or ())
    )
    copy = types.FunctionType(f.__code__, f.__globals__, f.__name__, f.__defaults__, cells)
    copy.__kwdefaults__ = f.__kwdefaults__

    @functools.wraps(f)
    def method(*args, **options):
        return rebind.rebound(copy)(*args, **options)

    return method


def recast(value: Any, memo: dict[int, Any] | None = None) -> Any:
    """Return a copy of an object in which SciPy classes, also those of attributes, are replaced by their copies.

    `memo` maps the ids of originals to copies, since objects may hold their own methods.
    """
    memo = {} if memo is None else memo
    if id(value) in memo:
        return memo[id(value)]
    kind = type(value)
    if kind in _CONVERTERS:
        return _CONVERTERS[kind](value)
    if (cls := _recast_class(kind)) is not None:
        new = memo[id(value)] = object.__new__(cls)
        slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ()) if hasattr(value, name)]
        state = {name: getattr(value, name) for name in slots} | getattr(value, "__dict__", {})
        for name, part in state.items():
            object.__setattr__(new, name, recast(part, memo))
        return new
    if kind in (list, tuple):
        parts = [recast(part, memo) for part in value]
        return value if all(map(operator.is_, parts, value)) else kind(parts)
    if kind is dict:
        return {key: recast(part, memo) for key, part in value.items()}
    if kind is types.MethodType and (owner := recast(value.__self__, memo)) is not value.__self__:
        return getattr(owner, value.__name__)
    return value if id(value) in follow.DTYPES else replaced(value)


def _recast_class(kind):
    """Return the class to which `recast` converts instances of `kind`, or None if it does not convert them."""
    copy = copy_of(kind.__module__)
    if copy is not None and isinstance(found := vars(copy).get(kind.__name__), type):
        return found
    return derived(kind) if any(base in follow.MAKERS for base in kind.__mro__) else None
