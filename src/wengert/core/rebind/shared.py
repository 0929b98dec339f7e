"""Bases of proxy classes for objects of classes derived from `dict` and `list`: their methods act on the object.

The memory of such an object cannot be shared.  The base stands directly before `dict` or `list` in the MRO, so methods
of the user's class, which are copies, reach it by ``super()`` and by operators on ``self``.  Items are replaced where
they are read, as in `tables`.  Code in C that bypasses the methods sees the original items, which a proxy stores too.
"""

from wengert.core.rebind.assigned import own_object
from wengert.core.rebind.identity import plain_key, whole
from wengert.core.rebind.registration import item
from wengert.core.rebind.tables import are_same, are_same_spaces, differs, places

_ABSENT = object()


def _passed(kind, name):
    """Return a method that calls the method of `kind` on the object."""
    method = getattr(kind, name)

    def passed(self, *args):
        return method(whole(self), *map(whole, args))

    passed.__name__ = name
    return passed


def _written(kind, name):
    """Return a method that calls the method of `kind` on the object, updates the proxy, and replaces the result."""
    method = getattr(kind, name)

    def written(self, *args, **options):
        of = whole(self)
        found = method(of, *map(own_object, args), **options)
        if of is not self:
            kind.clear(self)
            (dict.update if kind is dict else list.extend)(self, of)
        return item(found)

    written.__name__ = name
    return written


class SharedDict(dict):
    """Acts on the dictionary that a proxy stands for; a proxy that f itself made, as by `copy`, has its own items."""

    __slots__ = ()
    __hash__ = None

    def __getitem__(self, key):
        of = whole(self)
        found = dict.get(of, plain_key(key, of), _ABSENT)
        if found is not _ABSENT:
            return item(found)
        missing = getattr(type(self), "__missing__", None)
        if missing is None:
            raise KeyError(key)
        return missing(self, key)

    def get(self, key, default=None):
        of = whole(self)
        return item(dict.get(of, plain_key(key, of), default))

    def __contains__(self, key):
        of = whole(self)
        return dict.__contains__(of, plain_key(key, of))

    def __setitem__(self, key, value):
        of, value = whole(self), own_object(value)
        key = plain_key(key, of)
        dict.__setitem__(of, key, value)
        dict.__setitem__(self, key, value)

    def __delitem__(self, key):
        SharedDict.pop(self, key)

    def pop(self, key, *default):
        of = whole(self)
        key = plain_key(key, of)
        found = dict.pop(of, key, *default)
        dict.pop(self, key, None)
        return item(found)

    def popitem(self):
        key, value = dict.popitem(whole(self))
        dict.pop(self, key, None)
        return key, item(value)

    def setdefault(self, key, default=None):
        if not SharedDict.__contains__(self, key):
            SharedDict.__setitem__(self, key, default)
        return SharedDict.get(self, key)

    def values(self):
        return SharedDict.copy(self).values()

    def items(self):
        return SharedDict.copy(self).items()

    def copy(self):
        return {key: item(value) for key, value in dict.items(whole(self))}

    def __eq__(self, other):
        if not isinstance(other, dict):
            return NotImplemented
        return dict.__eq__(whole(self), whole(other)) or are_same_spaces(SharedDict.copy(self), other)

    __ne__ = differs

    def __or__(self, other):
        return SharedDict.copy(self) | other

    def __ror__(self, other):
        return other | SharedDict.copy(self)

    def __ior__(self, other):
        SharedDict.update(self, other)
        return self


class SharedList(list):
    """Acts on the list that a proxy stands for; a proxy that f itself made, as by `copy`, has its own items."""

    __slots__ = ()
    __hash__ = None

    def __getitem__(self, key):
        found = list.__getitem__(whole(self), key)
        return [*map(item, found)] if isinstance(key, slice) else item(found)

    def __iter__(self):
        return map(item, list.__iter__(whole(self)))

    def __reversed__(self):
        return map(item, list.__reversed__(whole(self)))

    def copy(self):
        return [*SharedList.__iter__(self)]

    def __contains__(self, value):
        return bool(places(SharedList.copy(self), value))

    def count(self, value):
        return len(places(SharedList.copy(self), value))

    def index(self, value, *bounds):
        of, found = whole(self), places(SharedList.copy(self), value)
        return list.index(of, list.__getitem__(of, found[0]) if found else value, *bounds)

    def remove(self, value):
        SharedList.__delitem__(self, SharedList.index(self, value))

    def sort(self, *, key=None, reverse=False):
        SharedList.__setitem__(self, slice(None), sorted(whole(self), key=key, reverse=reverse))

    def __eq__(self, other):
        return are_same(SharedList.copy(self), other) if isinstance(other, list) else NotImplemented

    __ne__ = differs

    def __add__(self, other):
        return SharedList.copy(self) + other

    def __radd__(self, other):
        return other + SharedList.copy(self)

    def __mul__(self, count):
        return SharedList.copy(self) * count

    __rmul__ = __mul__

    def __iadd__(self, other):
        SharedList.extend(self, other)
        return self

    def __imul__(self, count):
        SharedList.__setitem__(self, slice(None), list.__mul__(whole(self), count))
        return self

    def extend(self, other):
        SharedList.__setitem__(self, slice(len(self), None), [*map(own_object, other)])


_PASSED = {dict: "__len__ __iter__ __reversed__ __repr__ keys", list: "__len__ __repr__ __lt__ __le__ __gt__ __ge__"}
_WRITTEN = {dict: "update clear", list: "__setitem__ __delitem__ append insert pop reverse clear"}
SHARED = {dict: SharedDict, list: SharedList}
for _kind, _made in SHARED.items():
    for _name in _PASSED[_kind].split():
        setattr(_made, _name, _passed(_kind, _name))
    for _name in _WRITTEN[_kind].split():
        setattr(_made, _name, _written(_kind, _name))
