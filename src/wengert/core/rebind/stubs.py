"""Stand-ins for functions, classes and methods that are inspected when they are first used.

Renamed code calls a function, or calls or reads from a class, by a private name.  Until that happens for the first
time the name holds a stub, which then puts the replacement in its own place.  Methods of proxy classes have stubs too.
So a plan costs time only for the code that runs, not for all that it could reach.  A function that is passed on instead
of called is replaced before the code runs, since others may inspect or compare it.
"""

import dis
import itertools
import sys
import types
import weakref
from collections.abc import Callable

from wengert.core.rebind import follow
from wengert.core.rebind.bytecode import codes_in, names_in
from wengert.core.rebind.follow import DATA, is_followed, parts_of
from wengert.core.rebind.new_arrays import wraps_results
from wengert.core.rebind.registration import COPY_FUNCTIONS, is_copying, is_deferred, is_simple, lookup, state
from wengert.core.rebind.rename import BUILTINS, plain_methods
from wengert.core.rebind.tables import TABLES

#: instructions of code that may be renamed even if none of its names leads to a replacement
_UNCERTAIN = {dis.opmap[name] for name in ("IMPORT_NAME", "PUSH_NULL", "STORE_GLOBAL", "STORE_SUBSCR")}
_ATTRIBUTES = {dis.opmap[name] for name in ("LOAD_ATTR", "LOAD_METHOD") if name in dis.opmap}
_COMPARISONS, _CONSTANT = {dis.opmap["IS_OP"], dis.opmap["CONTAINS_OP"]}, dis.opmap["LOAD_CONST"]
_MAX_PLAIN = 8  # maximum number of functions that `plain_functions` examines


def stub_of(name: str | None, value) -> Callable:
    """Return the stub of a function or a class, which replaces itself under a private name if that is given."""
    ref = weakref.ref(value)  # the code that uses the name keeps the value alive
    if isinstance(value, type):
        return _ClassStub(name, ref)
    stub = _function_stub(name, ref)
    stub.__dict__ = value.__dict__  # code that runs when the name gets a new stub may compare it, see `identity`
    return stub


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
    """Stands for a class that is called or read from; up to Python 3.12 also for C in ``C[T](x)``."""

    __slots__ = ("_wengert_name", "_wengert_ref")

    def __init__(self, name, ref):
        self._wengert_name, self._wengert_ref = name, ref

    def __call__(self, *args, **kwargs):
        return _resolved(self._wengert_name, self._wengert_ref)(*args, **kwargs)

    def __getitem__(self, key):
        return _resolved(self._wengert_name, self._wengert_ref)[key]

    def __getattr__(self, attribute):
        return getattr(_resolved(self._wengert_name, self._wengert_ref), attribute)


class MethodStub:
    """Placeholder of a method of a proxy class; the first read replaces it by the result of `make`."""

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

    def __call__(self, *args, **kwargs):  # Python calls special methods such as `__get__` without binding them
        return self.resolved()(*args, **kwargs)


class PropertyStub(MethodStub):
    """As `MethodStub`, for a data descriptor."""

    __slots__ = ()

    def __set__(self, owner, value):
        self.resolved().__set__(owner, value)

    def __delete__(self, owner):
        self.resolved().__delete__(owner)


# Which values have stubs ------------------------------------------------------------------------------------


def has_own_plan(value, holder) -> bool:
    """Return whether a followed value that `holder` refers to gets a plan of its own when it is used."""
    if type(value) is types.FunctionType:
        return (is_simple(value) or is_held_by_module(value)) and not follow.is_dispatcher(value)
    return isinstance(value, type) and type(holder) is types.FunctionType and is_simple(value)


def is_held_by_module(f) -> bool:
    """Return whether a function, perhaps with cells, is the object that its qualified name refers to."""
    value = sys.modules.get(f.__module__) if type(f.__module__) is str else None
    for name in f.__qualname__.split("."):
        if not isinstance(value, (type, types.ModuleType)):
            return False
        value = vars(value).get(name)
    return value is f or getattr(value, "__func__", None) is f


def plain_functions(f) -> list:
    """Return f and the functions that it reaches; an empty list if any of them reaches something to be replaced.

    The names that they use are enough to tell; no instructions are decoded.
    """
    waiting, met = [f], {id(f)}
    for each in waiting:
        held = each.__globals__
        if each.__closure__ or len(waiting) > _MAX_PLAIN:
            return []
        for name in names_in(each.__code__):
            value = held[name] if name in held else BUILTINS.get(name)
            if value is None or id(value) in met or type(value) in DATA:
                continue
            if id(value) in follow.REGISTERED or type(value) is types.ModuleType or is_deferred(value):
                return []
            if is_followed(value):
                if type(value) is not types.FunctionType or not is_simple(value):
                    return []
                met.add(id(value))
                waiting.append(value)
            elif not _is_inert_name(value):
                return []
    return waiting


def _is_inert_name(value):
    """Return whether a value that is not followed is never replaced, not even as a subclass of a registered class."""
    if isinstance(value, type):
        return value.__module__ == "builtins"
    kind = type(value)
    return kind in TABLES or kind is types.BuiltinFunctionType or (follow.is_inert(value) and not callable(value))


def is_certain(f) -> bool:
    """Return whether the code of a function is never renamed, given that none of its names leads to a replacement."""
    if f.__defaults__ or f.__kwdefaults__ or wraps_results(f.__code__):
        return False
    is_same = all(
        _is_certain_code(code.co_code[::2]) and (COPY_FUNCTIONS | plain_methods(code)).isdisjoint(code.co_names)
        for code in codes_in(f.__code__)
    )
    reads = _ATTRIBUTES.intersection(f.__code__.co_code[::2])
    return is_same and not (reads and follow.attribute_reads(f))


def _is_certain_code(ops):
    if not _UNCERTAIN.isdisjoint(ops):
        return False
    is_compared = not _COMPARISONS.isdisjoint(ops)
    return not is_compared or all(y not in _COMPARISONS or x == _CONSTANT for x, y in itertools.pairwise(ops))


def reaches_more_than(limit, root) -> bool:
    """Return whether more than `limit` functions seem to be reachable from `root`, as far as names tell."""
    waiting, met, count = [root], {id(root)}, 0
    for value in waiting:
        parts = _parts_by_name(value) if type(value) is types.FunctionType else parts_of(value)
        for part in parts:
            if type(part) in DATA or id(part) in met or not is_followed(part):
                continue
            met.add(id(part))
            waiting.append(part)
            count += type(part) is types.FunctionType
            if count > limit:
                return True
    return False


def _parts_by_name(f):
    """Return the objects that a function reaches by a global name or a module's attribute, and perhaps others."""
    held, names = f.__globals__, names_in(f.__code__)
    found = [held[name] for name in names if name in held]
    spaces = [vars(value) for value in found if type(value) is types.ModuleType and follow.is_followed_module(value)]
    if spaces:
        found += [space[name] for space in spaces for name in names if name in space]
    return found + [follow.content_of(cell) for cell in f.__closure__] if f.__closure__ else found


def may_copy_arrays(values) -> bool:
    """Return whether any of these functions and classes, or of those that they may call by name, copies arrays.

    Those that do not are remembered until the next call from outside, since the plans of one call ask repeatedly.
    """
    met = _no_copies[1].copy() if _no_copies[0] is state.now else set()
    waiting = [value for value in values if id(value) not in met]
    met.update(map(id, waiting))
    for value in waiting:
        if type(value) is types.FunctionType:
            if _copies(value):
                return True
            parts = _parts_by_name(value)
        else:
            parts = parts_of(value)
        for part in parts:
            is_code = type(part) is types.FunctionType or type(part) in follow.WRAPPERS or isinstance(part, type)
            if is_code and id(part) not in met:
                met.add(id(part))
                if is_followed(part):
                    waiting.append(part)
    _no_copies[:] = state.now, met
    return False


#: a value of `state.now`, and the ids of functions and classes that, at that time, neither copied arrays nor called
#: others that did
_no_copies = [None, set()]


def _copies(f):
    return not COPY_FUNCTIONS.isdisjoint(names_in(f.__code__)) and is_copying(f)
