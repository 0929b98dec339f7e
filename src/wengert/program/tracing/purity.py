"""Tables of code whose results depend only on its arguments: modules, types and functions that need no watching.

All other state that a compiled function reads is watched; if that is impossible, the call runs uncompiled.
"""

from __future__ import annotations
import __future__

import _thread
import builtins
import collections
import copy
import datetime
import dis
import functools
import inspect
import itertools
import operator
import re
import sys
import types
from typing import Any

import numpy as np

from wengert.core.rebind.follow import is_installed, space_of
from wengert.features import home_of, is_made_in_python

#: packages and modules whose functions read no mutable state
PURE = frozenset(
    "numpy scipy numba wengert math cmath operator _operator itertools functools _functools collections _collections "
    "_collections_abc abc _abc typing types enum dataclasses copy copyreg numbers fractions statistics _statistics "
    "warnings _warnings bisect _bisect heapq _heapq contextlib string _string re _sre reprlib keyword textwrap "
    "builtins inspect logging _weakrefset _sitebuiltins array_api_compat array_api_extra".split()
)

#: packages that may be loaded from a development tree instead of site-packages
_ANYWHERE = {"numpy", "scipy", "wengert"}

#: builtins with side effects, or that read state other than their arguments
IMPURE_BUILTINS = {"breakpoint", "compile", "eval", "exec", "globals", "input", "open", "print"}
#: C modules that read or write external state, whoever calls them
_IMPURE_MODULES = {"_io", "io", "nt", "posix", "_random", "_socket", "select"}
_FILES = {"tofile", "dump", "fromfile", "memmap"}

#: functions of SciPy whose result depends on random numbers by rounding errors only, as (module, name)
_ROUNDING = {
    ("scipy.interpolate._polyint", "barycentric_interpolate"),
    ("scipy.sparse.linalg._eigen._svds", "svds"),
    ("scipy.sparse.linalg._eigen.arpack.arpack", "eigsh"),
}

#: functions that read attributes or items whose names do not occur in the code; see `is_dynamic`
_DYNAMIC = {
    id(f)
    for f in (
        builtins.dir, builtins.getattr, builtins.hasattr, builtins.vars, operator.attrgetter, operator.methodcaller,
        copy.copy, copy.deepcopy, inspect.getattr_static, inspect.getmembers,
    )
}  # fmt: skip
_DYNAMIC_OF_DATACLASSES = {"asdict", "astuple", "fields", "replace"}
#: harmless thread locks that objects may hold
_LOCKS = {"_thread.RLock", "_thread.allocate_lock"}

#: functions of pure packages that return global settings of the package
_READS_STATE = {
    id(f)
    for f in (
        np.geterr, np.geterrcall, np.getbufsize, np.get_printoptions, np.array2string, np.array_repr, np.array_str,
    )
}  # fmt: skip
#: attributes that give access to other attributes
DYNAMIC_NAMES = frozenset(("__dict__", "__getattribute__", "__getstate__", "__reduce__", "__reduce_ex__"))
_DYNAMIC_CALLS = {"dir", "getattr", "hasattr", "vars"}

#: types of immutable objects, and of locks; see `is_atom`
ATOMS = frozenset(
    (
        int, float, complex, bool, str, bytes, range, slice, type(None), type(...), type(NotImplemented), object,
        np.ufunc, types.CodeType, types.GetSetDescriptorType, types.MemberDescriptorType, types.MethodDescriptorType,
        types.WrapperDescriptorType, types.ClassMethodDescriptorType, types.GenericAlias, types.UnionType,
        datetime.date, datetime.datetime, datetime.time, datetime.timedelta, datetime.timezone,
        inspect.Signature, re.Pattern, type(_thread.allocate_lock()), _thread.RLock, type(__future__.annotations),
        *map(type, (sys.flags, sys.float_info, sys.hash_info, sys.int_info, sys.version_info)),
        operator.itemgetter, *{np.dtype(char).type for char in np.typecodes["All"]} - {np.void, np.object_},
    )
)  # fmt: skip


def is_atom(kind: type) -> bool:
    """Return whether objects of this type are immutable, or locks."""
    return kind in ATOMS or kind is getattr(sys.modules.get("fractions"), "Fraction", None)


#: container types, which may be subclassed
SHELVES = (dict, list, tuple, set, frozenset, collections.deque)
#: types whose C methods act only on the object itself
_KNOWN = frozenset(
    (
        *SHELVES, *ATOMS, types.MappingProxyType, bytearray, np.ndarray, np.generic, memoryview, types.SimpleNamespace,
        BaseException, Exception, type, property, types.GeneratorType, types.CellType,
    )
)  # fmt: skip

#: tools whose code runs on behalf of the user's code, such as pytest's rewritten asserts
_TOOLS = {"_pytest", "pytest", "pluggy", "coverage"}


def top(module: object) -> str:
    """Return the top-level package of a module name."""
    return module.partition(".")[0] if isinstance(module, str) else ""


@functools.cache
def _is_genuine(name):
    """Return whether the loaded module is the known package, rather than a user's module of the same name."""
    file = getattr(sys.modules.get(name), "__file__", None)
    return file is None or name in _ANYWHERE or is_installed(file)


def is_pure(module: object) -> bool:
    """Return whether the code of a module, given by name, depends only on its arguments."""
    name = top(module)
    return (name in PURE and _is_genuine(name)) or name.startswith("namedtuple_")


def verdict(module: object) -> bool | None:
    """Return whether a module's code is pure; None if its caller decides, as for `exec` and the standard library."""
    if not isinstance(module, str):
        return None
    return True if is_pure(module) else None if is_library(module) else False


def is_dynamic(value: object) -> bool:
    """Return whether a function reads attributes or items whose names do not occur in the code."""
    if id(value) in _DYNAMIC:
        return True
    is_of_dataclasses = type(value) is types.FunctionType and value.__module__ == "dataclasses"
    return is_of_dataclasses and value.__name__ in _DYNAMIC_OF_DATACLASSES


def reads_state(value: object) -> bool:
    """Return whether a function or class depends on more than its arguments, such as the context of `decimal`."""
    kinds = (type, types.FunctionType, types.BuiltinFunctionType)
    if id(value) in _READS_STATE or (type(value) in kinds and value.__module__ in ("decimal", "_decimal")):
        return True
    return type(value) is types.FunctionType and value.__module__ == "logging"  # may use any logger


def is_logger(value: object) -> bool:
    """Return whether this is a logger, whose methods do nothing below its level."""
    logging = sys.modules.get("logging")
    return logging is not None and type(value) in (logging.Logger, logging.RootLogger)


def level_of(logger: Any) -> tuple:
    """Return the state of a logger that decides whether it writes."""
    return logger.getEffectiveLevel(), logger.disabled, logger.manager.disable


def writes_log(codes: dict) -> bool:
    """Return whether a logger wrote, given the code objects that ran, by id."""
    logging = sys.modules.get("logging")
    return logging is not None and id(logging.Logger._log.__code__) in codes


def is_random(kind: type) -> bool:
    """Return whether methods of this type return random values."""
    return str(kind.__module__).startswith(("numpy.random", "random", "secrets"))


def is_seeding(code: types.CodeType) -> bool:
    """Return whether code reads the seed of a generator of random numbers from the system."""
    return code.co_name == "getrandbits" and code.co_qualname == "SystemRandom.getrandbits"


def only_rounds(frame: types.FrameType) -> bool:
    """Return whether the random numbers drawn in a frame change results by rounding errors only."""
    callers = itertools.islice(frames_from(frame), 3)
    return any((each.f_globals.get("__name__"), each.f_code.co_name) in _ROUNDING for each in callers)


def only_reseeds(frame: types.FrameType) -> bool:
    """Return whether a seed read in a frame is replaced at once by the user's: its caller calls ``RandomState(seed)``.

    `numpy.random.RandomState` makes its generator before it looks at the seed.
    """
    caller = frame.f_back
    *steps, call = [each for each in dis.get_instructions(caller.f_code) if each.offset <= caller.f_lasti]
    if call.opname not in ("CALL", "CALL_KW", "PRECALL") or call.arg != 1:
        return False
    found: list = []
    for step in reversed(steps):
        found.append(step)
        if step.is_jump_target or not step.opname.startswith(_LOADING):
            break
    values: list = [None] * 3
    for step in reversed(found):
        _load(step, caller, values)
    callee, seed = values[-3:-1] if call.opname == "CALL_KW" else values[-2:]
    return callee is np.random.RandomState and seed is not None


_LOADING = "LOAD_", "PUSH_NULL", "PRECALL", "KW_NAMES"


def _load(step, frame, values):
    """Push the values that an instruction loads in a frame, and None for each that would take the user's code."""
    name = step.argval
    if step.opname.startswith(("LOAD_FAST", "LOAD_DEREF")):
        values.extend(map(frame.f_locals.get, name if type(name) is tuple else (name,)))
    elif step.opname == "LOAD_GLOBAL":
        values.append(frame.f_globals.get(name))
    elif step.opname in ("LOAD_ATTR", "LOAD_METHOD"):
        values.append(space_of(values.pop()).get(name))
    elif step.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
        values.append(name)
    elif not step.opname.startswith(_LOADING[1:]):
        values[:] = [None, None, None]


def frames_from(frame: types.FrameType):
    """Yield a frame and its callers, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def is_library(module: object) -> bool:
    """Return whether a module belongs to the standard library or to a known tool."""
    name = top(module)
    return (name in sys.stdlib_module_names and name != "__main__" and _is_genuine(name)) or name in _TOOLS


def has_known_layout(kind: type) -> bool:
    """Return whether all state of an instance is in its attributes, slots, and known base types."""
    for base in kind.__mro__:
        if base in _KNOWN or base is object or is_pure(home_of(base)):
            continue
        if not is_made_in_python(base):
            return False
    return True


def why_impure(fun: types.BuiltinFunctionType, caller_is_pure: bool) -> str | None:
    """Return why a call of a C function cannot be replayed; None if it depends only on its arguments."""
    owner, name = fun.__self__, fun.__name__
    if owner is None or type(owner) is types.ModuleType:
        module = fun.__module__ if owner is None else owner.__name__
        full = f"{module}.{name}".removeprefix("builtins.").removeprefix("posix.")
        if full in _LOCKS:
            return None
        if top(module) in _IMPURE_MODULES or name in _FILES:
            return f"it calls {full}"
        if caller_is_pure or (is_pure(module) and not (module == "builtins" and name in IMPURE_BUILTINS)):
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
    """Return whether a call of this function reads an attribute whose name is computed at run time."""
    return fun.__name__ in _DYNAMIC_CALLS and fun.__module__ == "builtins"
