"""Stand-ins for functions, classes and methods that are inspected when they are first used.

Renamed code calls a function, or calls or reads from a class, by a private name.  Until that happens for the first
time the name holds a stub, which puts the replacement in its own place; methods of proxy classes likewise.  So a plan
costs time for the code that runs, not for all that it could reach.  A function that is passed on instead of called is
replaced before the code runs, since others may inspect or compare it.
"""

import sys
import types
import weakref
from collections.abc import Callable

from wengert.core.rebind.follow import DATA, REGISTERED, is_dispatcher, is_followed
from wengert.core.rebind.registration import (
    COPY_FUNCTIONS,
    deferred,
    is_copying,
    is_simple,
    lookup,
    module_of,
    two_level_package,
)
from wengert.core.rebind.rename import BUILTINS, codes_in

_MAX_PLAIN = 8  # number of functions beyond which it is not worth finding out that they reach nothing

__all__ = ["MethodStub", "PropertyStub", "has_own_plan", "is_held_by_module", "may_copy_arrays", "stub_of"]


def stub_of(name: str | None, value) -> Callable:
    """Return the stub of a function or a class, which replaces itself under a private name if that is given."""
    ref = weakref.ref(value)  # the code that uses the name keeps the value alive
    return _ClassStub(name, ref) if isinstance(value, type) else _function_stub(name, ref)


def _resolved(name, ref):
    new = lookup.resolved(ref())
    if name is not None:
        BUILTINS[name] = new
    return new


def _function_stub(name, ref):
    def run(*args, **kwargs):
        return _resolved(name, ref)(*args, **kwargs)

    return run


class _ClassStub:
    """Stands for a class that is called or read from."""

    __slots__ = ("_wengert_name", "_wengert_ref")

    def __init__(self, name, ref):
        self._wengert_name, self._wengert_ref = name, ref

    def __call__(self, *args, **kwargs):
        return _resolved(self._wengert_name, self._wengert_ref)(*args, **kwargs)

    def __getattr__(self, attribute):
        return getattr(_resolved(self._wengert_name, self._wengert_ref), attribute)


class MethodStub:
    """A method of a proxy class, which puts the result of `make` in its place when it is first read."""

    __slots__ = ("_make", "_name", "_proxy")

    def __init__(self, proxy, name, make):
        self._proxy, self._name, self._make = proxy, name, make

    def resolved(self):
        new = self._make()
        if vars(self._proxy).get(self._name) is self:
            type.__setattr__(self._proxy, self._name, new)
        return new

    def __get__(self, owner, cls=None):
        new = self.resolved()
        return type(new).__get__(new, owner, cls)

    def __call__(self, *args, **kwargs):  # Python calls `__get__` and the like of a class without binding them
        return self.resolved()(*args, **kwargs)


class PropertyStub(MethodStub):
    """The same for a data descriptor."""

    __slots__ = ()

    def __set__(self, owner, value):
        self.resolved().__set__(owner, value)

    def __delete__(self, owner):
        self.resolved().__delete__(owner)


# Which values have stubs ------------------------------------------------------------------------------------


def has_own_plan(value, holder) -> bool:
    """Return whether a followed value that `holder` refers to is inspected by a plan of its own when it is used.

    A function that reaches nothing to be replaced is no reason to replace others, so it is inspected with these.
    """
    if type(value) is types.FunctionType:
        is_apart = is_simple(value) or is_held_by_module(value)
        return is_apart and not (is_dispatcher(value) or _reaches_nothing(value))
    return isinstance(value, type) and type(holder) is types.FunctionType and is_simple(value)


def is_held_by_module(f) -> bool:
    """Return whether a function, perhaps with cells, is what its module or a class holds under its qualified name."""
    value = sys.modules.get(f.__module__) if type(f.__module__) is str else None
    for name in f.__qualname__.split("."):
        if not isinstance(value, (type, types.ModuleType)):
            return False
        value = vars(value).get(name)
    return value is f or getattr(value, "__func__", None) is f


def _reaches_nothing(f):
    """Return whether f uses no name that leads to anything replaced, without decoding instructions.

    It looks at no more than `_MAX_PLAIN` functions.
    """
    waiting, met = [f], {id(f)}
    for each in waiting:
        held = each.__globals__
        if each.__closure__ or len(waiting) > _MAX_PLAIN:
            return False
        for name in [name for code in codes_in(each.__code__) for name in code.co_names]:
            value = held[name] if name in held else BUILTINS.get(name)
            if value is None or id(value) in met or type(value) in DATA:
                continue
            if id(value) in REGISTERED or type(value) is types.ModuleType or _is_deferred(value):
                return False
            if is_followed(value):
                if type(value) is not types.FunctionType or not is_simple(value):
                    return False
                met.add(id(value))
                waiting.append(value)
    return True


def _is_deferred(value):
    """Return whether a value belongs to a package that is registered when it is first met."""
    return bool(deferred) and two_level_package(module_of(value)) in deferred


def may_copy_arrays(values) -> bool:
    """Return whether one of these functions and classes, or one that they may call by name, copies arrays."""
    waiting, met = [*values], set()
    for value in waiting:
        if isinstance(value, type):
            parts = [part for base in value.__mro__ for part in vars(base).values()]
            parts = [getattr(part, "__func__", getattr(part, "fget", part)) for part in parts]
        else:
            if _copies(value):
                return True
            held, names = value.__globals__, [name for code in codes_in(value.__code__) for name in code.co_names]
            modules = [held[name] for name in names if type(held.get(name)) is types.ModuleType]
            parts = [space.get(name) for space in (held, *map(vars, modules)) for name in names]
        for part in parts:
            is_code = type(part) is types.FunctionType or (isinstance(part, type) and part.__module__ != "builtins")
            if is_code and id(part) not in met:
                met.add(id(part))
                if is_followed(part):
                    waiting.append(part)
    return False


def _copies(f):
    names = [name for code in codes_in(f.__code__) for name in code.co_names]
    return not COPY_FUNCTIONS.isdisjoint(names) and is_copying(f)
