"""Containers of functions, objects and classes as renamed code sees them: items are replaced where they are read.

A stand-in is a subclass of `dict`, `list`, `tuple` or `types.SimpleNamespace` that reads from and writes to the
original, so that both always agree.  Code in C that bypasses its methods, such as `eval` with a dictionary of names,
sees the original items, which `_wengert_renew` copies at each call from outside; a dictionary also stores what renamed
code writes.
"""

import collections
import itertools
import types

from wengert.core.rebind.identity import FUNCTIONS, plain_key

TABLES = {dict, list, tuple, types.SimpleNamespace, collections.OrderedDict, collections.defaultdict}
_MAX_SEEN = 100  # items at each end that are looked at


def items_of(value):
    """Return the first and the last items of a container; for a dict, of its values, and functions among its keys."""
    value = vars(value) if type(value) is types.SimpleNamespace else value
    items = value.values() if isinstance(value, dict) else value
    found = [*itertools.islice(items, _MAX_SEEN)]
    rest = len(value) - len(found)
    if rest > 0:
        found += itertools.islice(reversed(items), min(rest, _MAX_SEEN))
    if isinstance(value, dict):
        found += [key for key in itertools.islice(value, _MAX_SEEN) if type(key) in FUNCTIONS]
    return found


def table(value, see):
    """Return the stand-in of a container, whose items are seen through ``see(item)``."""
    if type(value) is tuple:
        new = _Tuple(value)
        new.see = see
        return new
    return _STAND_INS[type(value)](value, see)


def _passed(name):
    """Return a method that calls the original's method."""

    def method(self, *args, **options):
        return getattr(self._wengert_of, name)(*args, **options)

    method.__name__ = name
    return method


def _seen(name):
    """Return a method that calls the original's method, and replaces the item that this returns."""

    def method(self, *args):
        return self._wengert_see(getattr(self._wengert_of, name)(*args))

    method.__name__ = name
    return method


def _keyed(name, sees=False):
    """Return a method that calls the original dictionary's method with a plain key; if `sees`, replace its result."""

    def method(self, key, *args, **options):
        found = getattr(self._wengert_of, name)(plain_key(key, self._wengert_of), *args, **options)
        return self._wengert_see(found) if sees else found

    method.__name__ = name
    return method


def _renewing(method):
    """Return a method that calls `method`, and then renews the items that code in C sees."""

    def renewing(self, *args, **options):
        try:
            return method(self, *args, **options)
        finally:
            self._wengert_renew()

    renewing.__name__ = method.__name__
    return renewing


def _in_place(name):
    """Return an operator that changes the original in place."""

    def method(self, other):
        getattr(self._wengert_of, name)(other)
        return self

    method.__name__ = name
    return method


def _is_same(a, b):
    """Return whether two items are equal, or a function and a copy of it, which share their attributes."""
    return a is b or a == b or (type(a) is type(b) is types.FunctionType and a.__dict__ is b.__dict__)


def are_same(a, b):
    return len(a) == len(b) and all(map(_is_same, a, b))


def are_same_spaces(a, b):
    """Return whether two mappings have the same keys, and items that are the same."""
    keys = {key: plain_key(key, b) for key in a}
    return len(a) == len(b) and all(other in b and _is_same(a[key], b[other]) for key, other in keys.items())


def differs(self, other):
    """Implement ``!=`` by ``==``."""
    found = type(self).__eq__(self, other)
    return found if found is NotImplemented else not found


def places(items, value):
    return [k for k, item in enumerate(items) if _is_same(item, value)]


class _Sequence:
    """Methods of lists and tuples that compute with the items as they are seen."""

    __slots__ = ()

    def __eq__(self, other):
        return are_same(self, other) if isinstance(other, self.__class__) else NotImplemented

    def __ne__(self, other):
        return not are_same(self, other) if isinstance(other, self.__class__) else NotImplemented

    def __add__(self, other):
        return self.__class__(self) + other

    def __radd__(self, other):
        return other + self.__class__(self)

    def __mul__(self, count):
        return self.__class__(self) * count

    __rmul__ = __mul__

    def __contains__(self, value):
        return bool(places(self, value))

    def count(self, value):
        return len(places(self, value))

    def __reduce_ex__(self, protocol):
        return self.__class__, ([*self],)


class _Tuple(_Sequence, tuple):
    __class__ = property(lambda self: tuple)
    __hash__ = tuple.__hash__

    def __getitem__(self, key):
        found = tuple.__getitem__(self, key)
        return tuple(map(self.see, found)) if isinstance(key, slice) else self.see(found)

    def __iter__(self):
        return map(self.see, tuple.__iter__(self))

    def __reversed__(self):
        return reversed([*self])

    def index(self, value, *bounds):
        found = places(self, value)
        return tuple.index(self, tuple.__getitem__(self, found[0]) if found else value, *bounds)


class _List(_Sequence, list):
    __slots__ = ("__weakref__", "_wengert_of", "_wengert_see")
    __class__ = property(lambda self: list)
    __hash__ = None

    def __init__(self, value, see):
        self._wengert_of, self._wengert_see = value, see
        self._wengert_renew()

    def _wengert_renew(self):
        list.__init__(self, self._wengert_of)

    def __getitem__(self, key):
        found = self._wengert_of[key]
        return [*map(self._wengert_see, found)] if isinstance(key, slice) else self._wengert_see(found)

    def __iter__(self):
        return map(self._wengert_see, self._wengert_of)

    def __reversed__(self):
        return map(self._wengert_see, reversed(self._wengert_of))

    def index(self, value, *bounds):
        found = places(self, value)
        return self._wengert_of.index(self._wengert_of[found[0]] if found else value, *bounds)

    def remove(self, value):
        del self._wengert_of[self.index(value)]

    def copy(self):
        return [*self]

    pop = _seen("pop")
    __iadd__, __imul__ = _in_place("__iadd__"), _in_place("__imul__")


for _name in ("__len__ __setitem__ __delitem__ __lt__ __le__ __gt__ __ge__ __repr__ append clear "
              "extend insert reverse sort").split():  # fmt: skip
    setattr(_List, _name, _passed(_name))


def _dict_class(kind):
    class Table(kind):
        __slots__ = ("_wengert_of", "_wengert_see") if kind.__weakrefoffset__ else (
            "__weakref__", "_wengert_of", "_wengert_see")  # fmt: skip
        __class__ = property(lambda self: kind)
        __hash__ = None

        def __init__(self, value, see):
            self._wengert_of, self._wengert_see = value, see
            dict.update(self, value)

        def _wengert_renew(self):
            dict.update(self, self._wengert_of)  # never empty, since other threads may read it
            if dict.__len__(self) > len(self._wengert_of):
                for key in dict.keys(self) - self._wengert_of.keys():
                    dict.pop(self, key, None)

        def __setitem__(self, key, value):
            key = plain_key(key, self._wengert_of)
            self._wengert_of[key] = value
            dict.__setitem__(self, key, value)

        def __iter__(self):
            return iter(self._wengert_of)

        def get(self, key, default=None):
            return self[key] if plain_key(key, self._wengert_of) in self._wengert_of else default

        def keys(self):
            return self._wengert_of.keys()

        def values(self):
            return self.copy().values()

        def items(self):
            return self.copy().items()

        def copy(self):
            new = self._wengert_of.copy()
            for key in new:
                new[key] = self._wengert_see(new[key])
            return new

        def popitem(self, *args, **options):
            key, value = self._wengert_of.popitem(*args, **options)
            dict.pop(self, key, None)
            return key, self._wengert_see(value)

        def __eq__(self, other):
            if not isinstance(other, dict):
                return NotImplemented
            if self._wengert_of == other:
                return True
            has_order = isinstance(self._wengert_of, collections.OrderedDict) and isinstance(
                other, collections.OrderedDict
            )
            return (not has_order or [*self] == [*other]) and are_same_spaces(self.copy(), other)

        __ne__ = differs

        def __or__(self, other):
            return self.copy() | other

        def __ror__(self, other):
            return other | self.copy()

        __getitem__ = _keyed("__getitem__", sees=True)
        pop, setdefault = _renewing(_keyed("pop", sees=True)), _renewing(_keyed("setdefault", sees=True))
        __ior__ = _renewing(_in_place("__ior__"))

        def __reduce_ex__(self, protocol):
            return self.copy().__reduce_ex__(protocol)

    for name in "__contains__ move_to_end".split():
        if hasattr(kind, name):
            setattr(Table, name, _keyed(name))
    for name in "__len__ __reversed__ __repr__".split():
        if hasattr(kind, name):
            setattr(Table, name, _passed(name))
    for name, make in {"__delitem__": _keyed, "clear": _passed, "update": _passed}.items():
        setattr(Table, name, _renewing(make(name)))
    return Table


class _Namespace(types.SimpleNamespace):
    __slots__ = ("__weakref__", "_wengert_of", "_wengert_see")
    __class__ = property(lambda self: types.SimpleNamespace)
    __hash__ = None

    def __init__(self, value, see):
        object.__setattr__(self, "_wengert_of", value)
        object.__setattr__(self, "_wengert_see", see)
        self._wengert_renew()

    def _wengert_renew(self):
        space = object.__getattribute__(self, "__dict__")
        space.clear()
        space.update(vars(self._wengert_of))

    def __getattribute__(self, name):
        if name.startswith("_wengert_") or name == "__class__":
            return object.__getattribute__(self, name)
        return self._wengert_see(getattr(self._wengert_of, name))

    def __eq__(self, other):
        if not isinstance(other, types.SimpleNamespace):
            return NotImplemented
        if self._wengert_of == other:
            return True
        seen = {name: self._wengert_see(value) for name, value in vars(self._wengert_of).items()}
        return are_same_spaces(seen, vars(other))

    __ne__ = differs

    def __reduce_ex__(self, protocol):
        return self._wengert_of.__reduce_ex__(protocol)


for _name in "__setattr__ __delattr__ __repr__".split():
    setattr(_Namespace, _name, _renewing(_passed(_name)))

_STAND_INS = {kind: _dict_class(kind) for kind in TABLES - {list, tuple, types.SimpleNamespace}}
_STAND_INS |= {list: _List, types.SimpleNamespace: _Namespace}
