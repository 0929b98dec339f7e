"""Finds all state that a function may read, and decides how each part is watched at every call.

A worklist algorithm over objects: from the function through names, cells, defaults, imports, loaded attributes, items
of containers, classes and their bases.  The type of an object decides how it is watched: by identity, by its items, by
its bytes, or not at all if it is immutable.  An object of unknown type is a *doubt*: if code runs that loads the name
by which it was reached, the function is not compiled.

Invariants
- All state that the function can read through scanned code is watched, immutable, declared constant, or in doubt.
  Code that was not scanned is detected by running the function under `observer.Observer`.
- The user's objects are only read, and none of their code runs.
- A place that f may read through an object that is not copied for a trace, such as a set, is *pinned*: its value is
  part of the cache key, since the trace treats it as a constant.

A call costs time linear in the watched state, which `MAX_OBJECTS`, `MAX_ITEMS` and `MAX_BYTES` bound.
"""

from __future__ import annotations

import abc
import array
import collections
import functools
import gc
import importlib.util
import operator
import sys
import types
import typing
from typing import Any, NamedTuple

import numpy as np

from wengert.core.rebind.bytecode import codes_in
from wengert.core.rebind.follow import (
    LRU,
    MAKERS,
    WRAPPERS,
    content_of,
    function_of_ufunc,
    is_differentiated,
    is_seen_whole,
    parts_of,
    py_func_of,
)
from wengert.core.rebind.registration import stated_module
from wengert.core.rebind.relocate import line_tables
from wengert.core.rebind.rename import read
from wengert.core.rebind.tables import TABLES
from wengert.features import home_of, is_made_in_python, knows_bytecode
from wengert.program.tracing.environment import ABSENT, Contents, Place, without_operand
from wengert.program.tracing.purity import (
    ATOMS,
    DYNAMIC_NAMES,
    IMPURE_BUILTINS,
    SHELVES,
    has_known_layout,
    is_atom,
    is_dynamic,
    is_library,
    is_logger,
    is_pure,
    is_random,
    level_of,
    reads_state,
    top,
)
from wengert.program.tracing.pytree import MAX_SMALL_ITEMS, UnsupportedValue, classes_of, is_data, key_of, others_of
from wengert.transforms.operators import Operator

__all__ = ["Doubt", "Scan", "TooManyFunctions", "UnknownCode", "code_key", "codes_of", "effect", "kept_by"]

MAX_OBJECTS = 1000  # objects reachable from one function
MAX_OBJECTS_OF_CACHED = 200  # objects reachable from a cached function; with more, its cache counts as unsteady
MAX_ITEMS = 10_000  # container items compared by identity
MAX_BYTES = 1 << 22  # bytes of arrays compared by contents

_FLAGS = {"flags", "writeable"}
#: attributes by which code reads a function without calling it
_PARTS_OF_FUNCTIONS = {"__closure__", "__code__", "__defaults__", "__globals__", "__kwdefaults__"}
#: attributes of functions, classes and exceptions that are stored outside ``__dict__``
_OWN = {"__name__", "__qualname__", "__module__", "__doc__", "__annotations__", "args", "__cause__", "__context__"}
_BYTES = (bytearray, array.array, memoryview, np.void)
#: types that are views of another object
_BEHIND = (types.MappingProxyType, type({}.keys()), type({}.values()), type({}.items()), super, types.MethodWrapperType)


#: types whose values are not data
_NO_DATA = frozenset(
    (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, types.MethodType, type, np.ufunc)
)
#: types whose contents a copy of f reads through stand-ins
_READ_THROUGH = {types.ModuleType, types.CellType, *TABLES}


class Doubt(NamedTuple):
    """An object that cannot be watched: the name through which it was reached, or None, and a description."""

    name: Any
    text: str


class TooManyFunctions(Exception):
    """More functions are reachable than the limit of the scan."""


class UnknownCode(Exception):
    """The function reaches derivative rules, whose code may run in derivatives although it did not run before."""


def effect(what: str) -> str:
    """Return the error text for a side effect, which prevents replay."""
    return f"{what}, which a replay would skip; return the value instead"


def codes_of(value: Any) -> set:
    """Return keys of the code of a function, of an object's methods, or of a module's functions."""
    if isinstance(value, types.ModuleType):
        parts = [part for part in vars(value).values() if isinstance(part, (types.FunctionType, type))]
        return {key for part in parts for key in codes_of(part)}
    if type(value) is types.FunctionType:
        return {*map(code_key, codes_in(value.__code__))}
    if type(value) in WRAPPERS:
        return {key for part in parts_of(value) if part is not None for key in codes_of(part)}
    cls = value if isinstance(value, type) else type(value)
    parts = [part for base in cls.__mro__ for part in vars(base).values()]
    return {key for part in parts if type(part) in (types.FunctionType, *WRAPPERS) for key in codes_of(part)}


def code_key(code: types.CodeType) -> tuple:
    """Return a key that a code object shares with its renamed copies."""
    lines = code.co_linetable
    return code.co_filename, code.co_qualname, code.co_firstlineno, line_tables.get(lines, lines)


class Scan:
    """The state reachable from a function.

    If `ran`, the keys of all code that runs, is given, other functions are compared by identity but not scanned.
    `TooManyFunctions` is raised if more than `limit` functions must be scanned.

    Attributes
    ----------
    places : dict
        Places that hold data, by key.
    watched : dict
        All other places with their contents, which are compared by identity.
    functions, objects, sizes, contents : list or dict
        See `environment.StateGuards`.
    doubts : list of Doubt
    codes : dict
        Scanned code objects, by `code_key`.
    trusted : list
        Objects declared constant.
    kept : list
        Pairs of a cached function and the mutable results in its cache.
    effect : str or None
        Why the function cannot be replayed, if its code shows that.
    """

    def __init__(self, root, nodes, lowered, constant=(), ran=None, limit=sys.maxsize, cached=None):
        self.ran, self.limit = ran, limit
        self.is_inner = cached is not None
        self.max_objects = MAX_OBJECTS_OF_CACHED if self.is_inner else MAX_OBJECTS
        self.cached = {} if cached is None else cached  # by id: (cached function, *its `codes_of_cached`)
        self.followed = {id(node) for node in nodes if not is_seen_whole(node)}
        self.copied = {*map(id, nodes)}
        self.lowered = lowered  # converts operands to plain values, since in a derivative they are data
        self.names = {each for each in constant if type(each) is str}
        self.constants = [each for each in constant if type(each) is not str]
        self.loaded, self.stored, self.is_dynamic = set(), set(), False
        if ran is not None:  # the names that code loads are known in advance, so that one pass is usually enough
            for node in nodes:
                if type(node) is types.FunctionType and code_key(node.__code__) in ran and knows_bytecode():
                    self.loaded |= read(node.__code__).loaded
                    self.stored |= read(node.__code__).stored
        while True:  # fixed point: each newly loaded name may be that of a method whose code loads more names
            known = len(self.loaded), len(self.stored), self.is_dynamic
            self.places, self.watched, self.sizes = {}, {}, {}
            self.functions, self.objects, self.contents, self.doubts = [], [], [], []
            self.codes, self.effect, self.kept, self.assigned = {}, None, [], {}
            self.held, self.waiting, self.looked = {id(each): each for each in self.constants}, [], {}
            self.is_inside = False  # within an object of a pure package
            self.is_open = False  # reached through an object that is not copied
            self.open, self.pinned = set(), set()
            self.items = self.bytes = 0
            self.trusted = [*self.constants]
            self.origin = None
            self.enter(root)
            self.run()
            if (len(self.loaded), len(self.stored), self.is_dynamic) == known:
                break

    def run(self):
        while self.waiting:
            value, self.origin, self.is_inside, self.is_open = self.waiting.pop()
            most = self.max_objects + len(self.constants)
            if len(self.held) > most or self.items > MAX_ITEMS or self.bytes > MAX_BYTES:
                self.origin, self.is_inside = None, False
                self.doubt("it reaches more objects, items or bytes than can be compared at each call")
                break
            self.visit(value)

    def doubt(self, text):
        if not self.is_inside:
            self.doubts.append(Doubt(self.origin, text))

    def enter(self, value):
        """Queue an object unless it was visited."""
        value = without_operand(value)
        kind = type(value)
        self.is_dynamic |= is_dynamic(value) or kind is operator.attrgetter or kind is operator.methodcaller
        if kind is np.ufunc:
            value = function_of_ufunc(value)
            kind = type(value)
        if kind in ATOMS or value is ABSENT or is_atom(kind):
            return
        key = id(value)
        if key in self.held and (not self.is_open or key in self.open):
            return
        if self.is_open:
            self.open.add(key)
        self.held[key] = value  # keeps temporary objects alive, so that ids stay unique
        self.waiting.append((value, self.origin, self.is_inside, self.is_open))

    def look(self, holder, name=None, is_item=False, get=None):
        """Record the contents of a place, and queue them."""
        place = Place(holder, name, get)
        if place.key in self.looked:
            if self.is_open and place.key not in self.pinned:
                self.pinned.add(place.key)
                self.enter(place.read())
            return
        if self.is_open:
            self.pinned.add(place.key)
        if name in self.names and not is_item:
            self.trusted.append(place.read())
            return
        self.looked[place.key] = holder
        origin, self.origin = self.origin, name if name in self.loaded and not is_item else self.origin
        value = place.read()
        if self.constants and any(value is each for each in self.constants):
            self.watched[place.key] = place, value
        elif type(value) in _NO_DATA:
            self.watched[place.key] = place, value
            self.enter(value)
        elif value is not ABSENT and id(value) not in self.followed and is_data(self.lowered(value)):
            self.places[place.key] = place
            if not _FLAGS.isdisjoint(self.loaded):
                flags = Place(place, "flags", get=functools.partial(_flags_of, place))
                self.places[flags.key] = flags
            for part in (*classes_of(value), *others_of(self.lowered(value))):
                self.enter(part)
        else:
            self.watched[place.key] = place, value
            self.enter(value)
        self.origin = origin

    def look_at(self, variable, holder, name=None):
        """Record the contents of a place that is read as a variable."""
        if variable in self.names:
            self.trusted.append(Place(holder, name).read())
            return
        origin, self.origin = self.origin, variable
        self.look(holder, variable if type(holder) is types.CellType else name, True)
        self.origin = origin

    def look_at_assigned(self, holder, name):
        """Watch a global or a cell that code assigns, such as an object made at first use: changing it is an effect.

        It is compared by identity rather than read as an operand, because the code may read what it has assigned.
        """
        place = Place(holder, name)
        if place.key in self.assigned:
            return
        self.assigned[place.key] = holder, name
        self.looked[place.key] = holder
        self.places.pop(place.key, None)
        value = place.read()
        self.watched[place.key] = place, value
        if value is not ABSENT:
            self.enter(value)

    # -- by type

    def visit(self, value):
        kind = type(value)
        if not (kind in _READ_THROUGH or id(value) in self.copied):
            self.is_open = True
            self.open.add(id(value))
        if reads_state(value):
            self.doubt(f"{value.__module__}.{value.__qualname__}, which depends on state other than its arguments")
        elif kind is types.FunctionType:
            self.visit_function(value)
        elif kind in (functools.partial, functools.partialmethod):
            self.visit_partial(value)
        elif isinstance(value, Operator) or is_differentiated(value):
            self.enter(value.f)
        elif isinstance(value, type):
            self.visit_class(value)
        elif kind is LRU:
            self.visit_cached(value)
        elif str(kind.__module__).startswith("numba.np.ufunc."):
            self.enter(function_of_ufunc(value))
        elif kind in WRAPPERS or (not issubclass(kind, SHELVES) and py_func_of(value)):
            for part in parts_of(value):
                self.enter(part)
                if kind not in WRAPPERS:
                    self.check_compiled(part)
            if kind in MAKERS:
                self.visit_object(value)
        elif isinstance(value, types.ModuleType):
            self.visit_module(value)
        elif is_logger(value):
            self.look(value, "level", get=functools.partial(level_of, value))
        elif kind.__name__ == "cython_function_or_method" and is_pure(value.__module__):
            pass
        elif kind is types.BuiltinFunctionType:
            if not isinstance(value.__self__, types.ModuleType):
                self.enter(value.__self__)
        elif issubclass(kind, np.ndarray):
            self.visit_array(value)
        elif kind is types.CellType:
            self.look(value)
        elif kind in _BEHIND:
            for behind in gc.get_referents(value):
                self.enter(behind)
        elif issubclass(kind, SHELVES):
            self.visit_shelf(value)
            if kind not in SHELVES:
                self.visit_object(value)
        elif issubclass(kind, _BYTES) and not (kind is np.void and value.dtype.hasobject):
            self.note(Contents.BY_BYTES, value, bytes(value))
            self.bytes += len(self.contents[-1][-1])
        elif hasattr(kind, "__next__") and not is_made_in_python(kind):
            self.doubt(f"it reads an iterator ({kind.__name__}), which each call may advance")
        else:
            self.visit_object(value)

    def check_compiled(self, f):
        """Check the source function of a compiled one: the observer does not see its calls of C functions."""
        for name in IMPURE_BUILTINS.intersection(read(f.__code__).names):
            self.effect = f"{f.__qualname__} calls {name}"

    def visit_partial(self, value):
        self.enter(value.func)
        for i in range(len(value.args)):
            self.look(value.args, i, True)
        for name in value.keywords:
            self.look_at(name, value.keywords, name)
        self.note(Contents.BY_KEYS, value.keywords, tuple(value.keywords))
        self.attributes(vars(value), self.is_dynamic)
        self.objects.append((value, type(value), vars(value)))

    def visit_function(self, f):
        space = f.__globals__
        if is_pure(space.get("__name__")) or is_library(space.get("__name__")):
            if f.__closure__ and self.ran is not None and top(space["__name__"]) == "wengert":
                raise UnknownCode
            for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
                if name != "dispatch_cache" or space["__name__"] != "functools":  # depends only on other cells
                    self.look(cell)
            return  # if it is impure and called, the observer sees its code
        is_idle = self.ran is not None and code_key(f.__code__) not in self.ran
        if is_idle and _PARTS_OF_FUNCTIONS.isdisjoint(self.loaded):
            self.look_at_attributes(f)
            return
        if len(self.functions) >= self.limit:
            raise TooManyFunctions
        if not knows_bytecode():
            self.effect = "the bytecode of this version of Python is not supported"
            return
        info = read(f.__code__)
        if info.checks_float_errors:
            self.effect = f"{f.__qualname__} turns floating-point warnings into exceptions, or catches them"
        self.loaded |= info.loaded
        self.stored |= info.stored
        self.is_dynamic |= not DYNAMIC_NAMES.isdisjoint(info.loaded)
        self.codes.update((code_key(code), code) for code in codes_in(f.__code__))
        self.functions.append((f, f.__code__, f.__defaults__, f.__kwdefaults__))
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if name not in info.written:
                continue
            if type(content_of(cell)) in (int, float):  # counted in each call
                self.effect = effect(f"{f.__qualname__} assigns the nonlocal {name!r}")
            self.look_at_assigned(cell, name)
        for name in info.assigned:
            self.look_at_assigned(space, name)
        for name in sorted(info.names):
            module = space.get(name)
            if type(module) is types.ModuleType and name not in info.bare and name not in self.names:
                self.watched[id(space), name] = Place(space, name), module
                for path in [path for first, *path in info.paths if first == name]:
                    self.look_along(module, path)
                continue
            self.look(space, name)
            if name not in space:
                self.look(f.__builtins__, name)
        for name, cell in zip(f.__code__.co_freevars, f.__closure__ or ()):
            if name not in info.written:
                self.look_at(name, cell)
        for name, i in zip(_with_defaults(f), range(len(f.__defaults__ or ()))):
            self.look_at(name, f.__defaults__, i)
        for name in f.__kwdefaults__ or ():
            self.look_at(name, f.__kwdefaults__, name)
        for name, level in info.modules:
            self.look_at_import(space, name, level)
        self.look_at_attributes(f)

    def look_along(self, module, path):
        """Record only those attributes of modules that a chain such as ``package.module.function`` reads."""
        for k, name in enumerate(path):
            space = vars(module)
            value = space.get(name)
            is_module = type(value) is types.ModuleType and name not in self.names and k + 1 < len(path)
            if name.startswith("__") or (name not in space and "__getattr__" in space):
                self.enter(module)
            elif is_module:
                self.watched[id(space), name] = Place(space, name), value
            elif is_pure(module.__name__):
                self.look_at_pure(space, name)
            else:
                self.look(space, name)
            if not is_module:
                return
            module = value

    def look_at_attributes(self, f):
        self.attributes(vars(f), self.is_dynamic)
        self.look_at_own(f)

    def look_at_own(self, value):
        """Record attributes that a function, class or exception stores outside ``__dict__``, such as its name."""
        if _OWN.isdisjoint(self.loaded):
            return
        kind = type(value)
        for base in kind.__mro__:
            for name in _OWN.intersection(self.loaded, vars(base)):
                self.look(value, name, get=functools.partial(kind.__getattribute__, value, name))

    def look_at_import(self, space, name, level):
        """Record the result of an import inside a function."""
        if level:
            package = space.get("__package__") or str(space.get("__name__")).rpartition(".")[0]
            try:
                name = importlib.util.resolve_name("." * level + name, package)
            except ImportError:  # raised again when the function runs
                return
        parts = name.split(".")
        for i in range(len(parts)):
            self.look(sys.modules, ".".join(parts[: i + 1]), True)

    def visit_cached(self, f):
        """Visit a cached function; record a doubt unless its results depend only on its arguments."""
        if id(f) not in self.cached:
            self.cached[id(f)] = f, {}, True  # preliminary, for functions that call each other
            self.cached[id(f)] = f, *self.codes_of_cached(f)
        _, codes, is_steady = self.cached[id(f)]
        self.codes.update(codes)
        if not is_steady:
            self.doubt(f"the cache of {f.__qualname__}, which may keep results computed from outdated values")
        self.enter(f.__wrapped__)
        if not self.is_inner:
            self.attributes(vars(f))
            self.kept.append((f, kept_by(f)))
            self.enter_all(self.kept[-1][1])

    def codes_of_cached(self, f):
        """Return the code that a cached function reaches, and whether its results depend only on its arguments."""
        inner = Scan(f.__wrapped__, (), self.lowered, (*self.names, *self.constants), cached=self.cached)
        held = [value for _, value in inner.watched.values() if value is not ABSENT]
        holds = any(not is_atom(type(place.read())) or not place.is_fixed for place in inner.places.values())
        is_steady = not (holds or inner.doubts or inner.contents)
        return inner.codes, is_steady and all(is_atom(type(value)) or isinstance(value, _STEADY) for value in held)

    def visit_module(self, module):
        space, name = vars(module), module.__name__
        is_known = is_pure(name) or is_library(name)
        if not is_known:
            self.sizes[id(space)] = space, len(space)
        names = self.loaded.intersection(space)
        if self.is_dynamic and not is_known:  # ``from numpy import *`` also binds functions that read settings
            names |= {each for each, value in [*space.items()] if not reads_state(value)}
        for each in sorted({*names, "__getattr__"} if "__getattr__" in space and not is_known else names):
            if is_pure(name):
                self.look_at_pure(space, each)
            elif each == "__getattr__" or not (each.startswith("__") and each.endswith("__")):
                self.look(space, each)
        if type(module) is not types.ModuleType:
            self.enter(type(module))

    def look_at_pure(self, space, name):
        """Watch a name in a pure module by identity, to detect monkey-patching."""
        place = Place(space, name)
        if name in self.names:
            self.trusted.append(place.read())
        else:
            value = place.read()
            self.watched[place.key] = place, value
            if isinstance(value, (types.ModuleType, types.MethodType)) or is_dynamic(value) or reads_state(value):
                self.origin = name
                self.enter(value)

    def attributes(self, space, are_all=False):
        """Record the attributes of a namespace that code loads (or all), and its keys, or their number if many."""
        for name in sorted(map(str, space) if are_all else self.loaded.intersection(space)) if space else ():
            self.look(space, name)
        if 0 < len(space) <= MAX_SMALL_ITEMS:
            self.note(Contents.BY_KEYS, space, tuple(space))
        else:
            self.sizes[id(space)] = space, len(space)

    def visit_class(self, cls):
        if is_atom(cls) or is_pure(home_of(cls)) or is_library(home_of(cls)):
            return
        if not is_made_in_python(cls):
            self.doubt(f"the type {cls.__module__}.{cls.__qualname__}, which is not defined by a class statement")
            return
        space = vars(cls)
        for name, value in space.items():
            is_special = name.startswith("__") and _is_method(type(value))
            is_setter = name in self.stored and hasattr(type(value), "__set__")
            if name in self.loaded or is_special or is_setter or (self.is_dynamic and not name.startswith("__")):
                self.look(cls, name)
        self.sizes[id(cls)] = space, len(space)
        self.objects.append((cls, type(cls), cls.__mro__))
        if type(cls) in (type, abc.ABCMeta):
            self.look_at_own(cls)
        if "__subclasses__" in self.loaded:
            self.origin = "__subclasses__"
            self.doubt(f"the subclasses of {cls.__qualname__}")
        for base in cls.__bases__:
            self.enter(base)
        if type(cls) is not type:
            self.enter(type(cls))
        if isinstance(cls, abc.ABCMeta):  # registering a virtual subclass changes isinstance
            self.look("abc", "registered", get=abc.get_cache_token)

    def visit_object(self, value):
        """Visit an object with attributes."""
        kind = type(value)
        module = home_of(kind)
        if is_random(kind):
            self.doubt(f"random numbers ({kind.__qualname__})")
            return
        is_ours = not (is_pure(module) or is_library(module)) or kind is types.SimpleNamespace
        if is_library(module) and not is_pure(module) and kind is not types.SimpleNamespace:
            self.doubt(f"a {module}.{kind.__qualname__}, whose contents are not analysed")
            return
        if hasattr(kind, "__get__") and not (callable(value) or is_made_in_python(kind)):
            # A descriptor in C, such as a property of pandas: its state consists of the objects it refers to.
            self.enter_all([each for each in gc.get_referents(value) if each is not kind])
            return
        if not has_known_layout(kind):
            stands_for_function = callable(value) and is_pure(stated_module(value))  # as in scipy.fft
            if not is_pure(module) and not stands_for_function:
                self.doubt(f"a {module}.{kind.__qualname__}, which is not defined by a class statement")
            return
        space = _space_of(value)
        if space is None and is_atom(kind):
            return
        self.objects.append((value, kind, space))
        # Code that is not scanned, such as methods of pure base classes, may read any attribute.
        is_open = not is_ours or any(_is_open(base) for base in kind.__mro__)
        self.is_inside |= not is_ours
        if space is not None:
            self.attributes(space, self.is_dynamic or is_open)
        for base in kind.__mro__:
            for name, member in vars(base).items():
                if type(member) is types.MemberDescriptorType and (name in self.loaded or self.is_dynamic or is_open):
                    self.look(value, name, get=functools.partial(_slot, member, value))
        if isinstance(value, BaseException):
            self.look_at_own(value)
        if is_ours and not isinstance(value, types.SimpleNamespace):
            self.enter(kind)

    # -- contents

    def visit_array(self, x):
        plain = x if type(x) is np.ndarray else x.view(np.ndarray)
        if x.dtype == object:
            items = tuple(plain.flat)
            self.note(Contents.BY_OBJECTS, plain, items, len(items))
            self.enter_all(items)
        elif x.dtype.hasobject:
            self.doubt(f"an array of dtype {x.dtype}")
        else:
            self.bytes += x.nbytes
            if not _FLAGS.isdisjoint(self.loaded):
                self.look(x, "flags", get=functools.partial(_flags_of, Place([x], 0)))
            if self.bytes <= MAX_BYTES:
                self.note(Contents.BY_ARRAY, plain, plain.copy("K"))
        if plain is not x:
            self.visit_object(x)

    def visit_shelf(self, value):
        """Visit a container: watch its places if they are few, else the identities of all items."""
        is_map, is_fixed = isinstance(value, dict), isinstance(value, (tuple, frozenset))
        if is_map:
            keys = tuple(dict.keys(value))
            self.enter_all(keys)
        if len(value) <= MAX_SMALL_ITEMS and isinstance(value, (dict, list, tuple, collections.deque)):
            for key in keys if is_map else range(len(value)):
                self.look(value, key, True)
            if not is_fixed:
                way, was = (Contents.BY_KEYS, keys) if is_map else (Contents.BY_LENGTH, len(value))
                self.note(way, value, was, len(value))
        else:
            items = tuple(dict.values(value)) if is_map else tuple(_ITERATE[_base(value)](value))
            if is_map:
                pairs = tuple(each for pair in zip(keys, items) for each in pair)
                self.note(Contents.BY_PAIRS, value, pairs, len(pairs))
            elif not is_fixed:
                self.note(Contents.BY_ITEMS, value, items, len(items))
            self.enter_all(items)
        if isinstance(value, collections.OrderedDict):  # its order is not that of the underlying dict
            self.note(Contents.BY_ITEMS, value, tuple(collections.OrderedDict.__iter__(value)))

    def note(self, way, value, held, count=1):
        self.items += count
        self.contents.append((way, value, held))

    def enter_all(self, items):
        for item in items if len(items) <= MAX_ITEMS else ():
            self.enter(item)


def kept_by(f):
    """Return the mutable results in the cache of a function, and its mutable arguments if their number is limited.

    The cache refers to each argument and result if the number is limited; the table, the last dict, comes after them.
    """
    held = gc.get_referents(f)[1:]
    position, table = [(i, each) for i, each in enumerate(held) if type(each) is dict and each is not vars(f)][-1]
    kept = held[:position] or table.values()
    return [each for each in kept if not (is_atom(type(each)) or isinstance(each, type))]


def _base(value):
    return next(kind for kind in SHELVES if isinstance(value, kind))


_ITERATE = {kind: kind.__iter__ for kind in SHELVES}
#: types that a cached function may read: objects that programs do not usually replace
_STEADY = (*ATOMS, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, LRU)


def _slot(member, value):
    try:
        return member.__get__(value)
    except AttributeError:
        return ABSENT


def _is_method(kind):
    """Return whether a value of this type in a class, such as a dispatcher of the user's, may be a special method."""
    is_function = kind in (types.FunctionType, classmethod, staticmethod)
    return is_function or (hasattr(kind, "__get__") and is_made_in_python(kind))


def _flags_of(place):
    leaves: list = []
    try:
        key_of(place.read(), leaves, [])
    except UnsupportedValue:  # an array that cannot be an input
        return place.read().flags.num
    return tuple([x.flags.num for x in leaves if type(x) is np.ndarray])


def _space_of(value):
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return None


def _is_open(base):
    """Return whether a class has unscanned methods, which may read any attribute."""
    is_foreign = is_pure(home_of(base)) or is_library(home_of(base))
    return is_foreign and base not in _PLAIN_BASES and is_made_in_python(base)


#: base classes whose methods read no attributes of an instance
_PLAIN_BASES = {typing.Generic, typing.Protocol, abc.ABC, object}


def _with_defaults(f):
    code = f.__code__
    return code.co_varnames[: code.co_argcount][code.co_argcount - len(f.__defaults__ or ()) :]
