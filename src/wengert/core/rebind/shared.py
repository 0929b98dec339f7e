"""Base of proxy classes for objects of classes derived from `dict`: its methods act on the object.

The memory of a dictionary cannot be shared.  The base stands directly before `dict` in the MRO, so methods of the
user's class, which are copies, reach it by ``super()`` and by operators on ``self``.  Items are replaced where they are
read, as in `tables`.  Code in C that bypasses the methods sees the original items, which a proxy stores as well.
"""

from wengert.core.rebind.identity import plain_key, whole
from wengert.core.rebind.registration import item
from wengert.core.rebind.tables import are_same_spaces, differs

_ABSENT = object()


def _passed(name):
    """Return a method that calls the method of `dict` on the object."""
    method = getattr(dict, name)

    def passed(self, *args):
        return method(whole(self), *args)

    passed.__name__ = name
    return passed


def _written(name):
    """Return a method that calls the method of `dict` on the object and on the proxy."""
    method = getattr(dict, name)

    def written(self, *args, **options):
        of, args = whole(self), [*map(whole, args)]
        if of is not self:
            method(self, *args, **options)
        return method(of, *args, **options)

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
        of = whole(self)
        key = plain_key(key, of)
        dict.__setitem__(of, key, value)
        if of is not self:
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


for _name in "__len__ __iter__ __reversed__ __repr__ keys".split():
    setattr(SharedDict, _name, _passed(_name))
for _name in "update clear".split():
    setattr(SharedDict, _name, _written(_name))
