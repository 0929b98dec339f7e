"""Which code depends on its arguments alone: the one table of modules, types and functions that need no watching.

All else that a compiled function calls or reads is watched, or the call runs without compiling.
"""

from __future__ import annotations

import _thread
import builtins
import collections
import copy
import dataclasses
import datetime
import fractions
import functools
import inspect
import operator
import re
import sys
import types

import numpy as np

from wengert.core.rebind.follow import is_installed
from wengert.features import is_made_in_python

#: packages and modules whose functions read no state that a program may change
PURE = frozenset(
    "numpy scipy wengert math cmath operator _operator itertools functools _functools collections _collections "
    "_collections_abc abc _abc typing types enum dataclasses copy copyreg numbers fractions statistics _statistics "
    "warnings bisect _bisect heapq _heapq contextlib string _string re _sre reprlib keyword textwrap builtins "
    "_weakrefset".split()
)

#: packages that may be built where they are developed
_ANYWHERE = {"numpy", "scipy", "wengert"}

#: builtins that act on the world, or read what no argument names
_IMPURE_BUILTINS = {"breakpoint", "compile", "eval", "exec", "globals", "input", "open", "print"}
#: modules in C that read the world, whoever calls them
_IMPURE_MODULES = {"_io", "io", "nt", "posix", "_random", "_socket", "select"}
_FILES = {"tofile", "dump", "fromfile", "memmap"}

#: functions that read attributes or items which the code does not name
DYNAMIC = {
    id(f)
    for f in (
        builtins.dir, builtins.getattr, builtins.hasattr, builtins.vars, operator.attrgetter, operator.methodcaller,
        copy.copy, copy.deepcopy, dataclasses.asdict, dataclasses.astuple, dataclasses.fields, dataclasses.replace,
        inspect.getattr_static, inspect.getmembers,
    )
}  # fmt: skip
#: what objects may hold for other threads; it tells nothing
_LOCKS = {"_thread.RLock", "_thread.allocate_lock"}

#: functions of pure packages that tell of their state
_READS_STATE = {
    id(f)
    for f in (
        np.geterr, np.geterrcall, np.getbufsize, np.get_printoptions, np.array2string, np.array_repr, np.array_str,
    )
}  # fmt: skip
#: attributes by which code reads others
DYNAMIC_NAMES = frozenset(("__dict__", "__getattribute__", "__getstate__", "__reduce__", "__reduce_ex__"))
_DYNAMIC_CALLS = {"dir", "getattr", "hasattr", "vars"}

#: types without state that changes
ATOMS = frozenset(
    (
        int, float, complex, bool, str, bytes, range, slice, type(None), type(...), type(NotImplemented), object,
        np.ufunc, types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType,
        types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.GenericAlias, types.UnionType,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone, fractions.Fraction,
        re.Pattern, type(_thread.allocate_lock()), _thread.RLock,
        operator.itemgetter, *{np.dtype(char).type for char in np.typecodes["All"]} - {np.void, np.object_},
    )
)  # fmt: skip

#: types with items, which may be subclassed
SHELVES = (dict, list, tuple, set, frozenset, collections.deque)
#: what C code of these types does with an object is known: their methods act on it alone
_KNOWN = frozenset(
    (
        *SHELVES, *ATOMS, types.MappingProxyType, bytearray, np.ndarray, np.generic, memoryview, types.SimpleNamespace,
        BaseException, Exception, type, property, types.GeneratorType, types.CellType,
    )
)  # fmt: skip

#: what reads code and is no part of it: asserts that pytest has rewritten name its modules
_TOOLS = {"_pytest", "pytest", "pluggy", "coverage"}


def top(module: object) -> str:
    """The package that a module, given by its name, is in."""
    return module.partition(".")[0] if isinstance(module, str) else ""


@functools.cache
def _is_genuine(name):
    """Is this the package that is known by this name, and no module of the user's that has it too?"""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or name in _ANYWHERE or is_installed(file)


def is_pure(module: object) -> bool:
    """Does the code of a module, given by its name, depend on its arguments alone?"""
    name = top(module)
    return (name in PURE and _is_genuine(name)) or name.startswith("namedtuple_")


def verdict(module: object) -> bool | None:
    """Is code pure by its module?  None: it is if whoever calls it is, as what `exec` made and Python's library."""
    if not isinstance(module, str):
        return None
    return True if is_pure(module) else None if is_library(module) else False


def reads_state(value: object) -> bool:
    """Does a function or class go by settings that no argument names, such as the context of `decimal`?"""
    kinds = (type, types.FunctionType, types.BuiltinFunctionType)
    return id(value) in _READS_STATE or (isinstance(value, kinds) and value.__module__ in ("decimal", "_decimal"))


def is_random(kind: type) -> bool:
    """Does each call of a method of this type give something else?"""
    return str(kind.__module__).startswith(("numpy.random", "random", "secrets"))


def is_library(module: object) -> bool:
    """Is this a module of Python's own library, or of the interpreter?"""
    name = top(module)
    return (name in sys.stdlib_module_names and name != "__main__" and _is_genuine(name)) or name in _TOOLS


def has_known_layout(kind: type) -> bool:
    """Is all state of an object in its attributes, in slots, and in what a known type holds?"""
    for base in kind.__mro__:
        if base in _KNOWN or base is object or is_pure(base.__module__):
            continue
        if not is_made_in_python(base):
            return False
    return True


def why_impure(fun: types.BuiltinFunctionType, caller_is_pure: bool) -> str | None:
    """Why a call of a function in C cannot be replayed; None where its result is that of its arguments alone."""
    owner, name = fun.__self__, fun.__name__
    if owner is None or type(owner) is types.ModuleType:
        module = fun.__module__ if owner is None else owner.__name__
        full = f"{module}.{name}".removeprefix("builtins.").removeprefix("posix.")
        if full in _LOCKS:
            return None
        if top(module) in _IMPURE_MODULES or name in _FILES:
            return f"it calls {full}"
        if caller_is_pure or (is_pure(module) and not (module == "builtins" and name in _IMPURE_BUILTINS)):
            return None
        return f"it calls {full}"
    kind = owner if isinstance(owner, type) else type(owner)
    if name in _FILES:
        return f"it calls the method {name} of a {kind.__name__}"
    if caller_is_pure and top(kind.__module__) not in _IMPURE_MODULES:
        return None
    if kind.__module__ == "datetime":
        return f"it calls {kind.__name__}.{name}" if name in ("now", "today", "utcnow") else None
    is_known = kind is object or (has_known_layout(kind) and not is_random(kind))
    return None if is_known else f"it calls the method {name} of a {kind.__module__}.{kind.__qualname__}"


def reads_by_name(fun: types.BuiltinFunctionType) -> bool:
    """Does a call of this function read an attribute that the code does not name?"""
    return fun.__name__ in _DYNAMIC_CALLS and fun.__module__ == "builtins"
