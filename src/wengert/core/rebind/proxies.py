"""Proxies of objects: instances of a subclass with copied methods that share the state of the object.

Attributes with values to be replaced are descriptors of that subclass: reads return the replacement, writes reach the
object.  A proxy class is equal to its original as a key, and is pickled as its original.
"""

import abc
import copyreg
import dis
import functools
import sys
import types
import weakref
from _thread import get_ident  # `threading` takes 0.5 ms to import

from wengert.core.rebind.follow import (
    CONTAINERS,
    container_of,
    has_subclass_hook,
    holds_member_values,
    is_array_class,
    is_followed_function,
    is_plain_object,
    slots_of,
    space_of,
)
from wengert.core.rebind.identity import Sharing, class_key, hash_of, is_same, refer, whole
from wengert.core.rebind.registration import lookup, seen_as
from wengert.core.rebind.rename import read, reads_for_use
from wengert.core.rebind.shared import SHARED

__all__ = [
    "CalledAttribute",
    "ClassAttribute",
    "ClassDescriptor",
    "called_property",
    "has_data_descriptor",
    "is_held_by_metaclass",
    "is_mixin",
    "leaf_of",
    "make_proxy_class",
    "note_mixins",
    "original",
    "share",
    "share_tuple",
]

_checks_in_progress = set()  # subclass checks as (id of the proxy class, id of the subclass, thread)
_mixins = set()  # ids of plain classes that are bases of classes with a memory layout of their own
_live_proxies = weakref.WeakValueDictionary()  # id(object) -> its proxy; ids may be reused, so `__dict__` is compared


class _ProxyMeta(type):
    """Metaclass of proxy classes: forwards attribute assignments and subclass checks to the original class."""

    def __setattr__(cls, name, value):
        if name.startswith(("__", "_abc_")):  # ABCMeta's own bookkeeping on the new class
            type.__setattr__(cls, name, value)
        else:
            setattr(cls._wengert_original, name, value)

    def __delattr__(cls, name):
        delattr(cls._wengert_original, name)

    def __eq__(cls, other):
        return isinstance(other, type) and class_key(cls) is class_key(other)

    def __hash__(cls):
        return type.__hash__(class_key(cls))

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls._wengert_original)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, cls._wengert_original)


class _AbstractProxyMeta(_ProxyMeta, abc.ABCMeta):
    def __subclasscheck__(cls, subclass):
        """Break the recursion of ABCMeta, whose check of the original class asks all subclasses, this one included."""
        check = id(cls), id(subclass), get_ident()
        if check in _checks_in_progress:
            return False
        _checks_in_progress.add(check)
        try:
            return issubclass(subclass, cls._wengert_original)
        finally:
            _checks_in_progress.discard(check)


@functools.cache
def _proxy_meta(meta):
    """Return the metaclass for proxies of classes with metaclass `meta`; `__new__` and `__init__` of `meta` never run.

    It derives from the proxy metaclasses of the bases of `meta`, since a class may have bases with such metaclasses.
    """
    if meta is type:
        return _ProxyMeta
    if meta is abc.ABCMeta:
        return _AbstractProxyMeta
    body = {"__new__": type.__new__, "__init__": lambda cls, *args: None}
    call = next(vars(base)["__call__"] for base in meta.__mro__ if "__call__" in vars(base))
    if call is not type.__call__:
        body["__call__"] = _calling(call) if _may_see_proxy(call) else _call_original
    above = dict.fromkeys(_proxy_meta(base) for base in meta.__bases__ if issubclass(base, type))
    return type(meta.__name__, (*above, meta), body)


def _may_see_proxy(call):
    """Return whether the `__call__` of a metaclass is followed and stores nothing, unlike that of singletons."""
    if type(call) is not types.FunctionType or not is_followed_function(call):
        return False
    stores = dis.opmap["STORE_SUBSCR"] in call.__code__.co_code[::2]
    return not (stores or read(call.__code__).stored or "setdefault" in call.__code__.co_names)


def _calling(call):
    """Return the `__call__` of a proxy metaclass: that of the metaclass, which makes an instance of the proxy class."""

    def run(cls, *args, **options):
        found = lookup.replaced(call)(cls, *args, **options)
        return found if hasattr(type(found), "_wengert_original") else lookup.replaced(found)

    return run


def _call_original(cls, *args, **options):
    """Call the original class with the originals of its arguments, such as a member of an enumeration."""
    options = {name: whole(value) for name, value in options.items()}
    return lookup.replaced(cls._wengert_original(*map(whole, args), **options))


class _Inherited:
    """A special method of a proxy class that comes from a certain class or from the proxy class of that class.

    The proxy class of a mixin that precedes it has a method of this name, which its original has not.
    """

    def __init__(self, name, owner):
        self.name, self.owner = name, owner

    def __get__(self, proxy, cls):
        spaces = (vars(base) for base in cls.__mro__ if class_key(base) is self.owner)
        return next(space[self.name] for space in spaces if self.name in space).__get__(proxy, cls)


def make_proxy_class(cls, bases, /, **body):
    body |= {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    body |= {"__class__": property(functools.partial(_class_of, cls)), "_wengert_original": cls}
    body["_wengert_share"] = staticmethod(_sharing(cls))
    if not cls.__dictoffset__:
        body.setdefault("__slots__", ())
    if _has_default_reduction(cls):
        body.setdefault("__reduce_ex__", _reduce_made)
    if holds_member_values(cls):
        body["_wengert_whole"] = property(_member_of)
    if cls.__eq__ is object.__eq__:
        body |= {"__eq__": is_same, "__hash__": hash_of if cls.__hash__ is object.__hash__ else cls.__hash__}
    elif any(vars(each).get("__eq__") is is_same for base in bases for each in base.__mro__):
        owner = next(base for base in cls.__mro__ if "__eq__" in vars(base))
        body |= {"__eq__": _Inherited("__eq__", owner), "__hash__": cls.__hash__}
    if is_plain_object(cls) and not is_mixin(cls):
        bases = bases if any(issubclass(base, Sharing) for base in bases) else [*bases, Sharing]
    kind = _proxy_meta(type(cls))
    if not has_subclass_hook(cls):
        return kind(cls.__name__, tuple(bases), body)
    first = _WithoutHookButDict if is_plain_object(cls) else _WithoutHook
    new = kind(cls.__name__, (first, *bases), body)
    try:
        new.__bases__ = tuple(bases)
    except TypeError:  # the layouts differ, for example because a base such as abc.ABC has empty slots
        new = kind(cls.__name__, (_hook_filter(), *bases), body)
    return new


def note_mixins(cls):
    """Keep the proxy classes of the bases of `cls` free of slots if its instances have a memory layout of their own.

    A class can inherit one layout only. Subclasses of `numpy.ndarray` or `tuple`, and classes with slots, have one.
    """
    if not is_plain_object(cls):
        _mixins.update(id(base) for base in cls.__mro__ if is_plain_object(base))


def is_mixin(cls):
    return id(cls) in _mixins


def _class_of(cls, proxy):
    """The attribute `__class__` of a proxy: the proxy class where code calls or reads it, else the original class."""
    frame = sys._getframe(1)
    return type(proxy) if reads_for_use(frame.f_code, frame.f_lasti, "__class__") else cls


class _WithoutHook:
    """Hides the `__init_subclass__` of the bases after it while a proxy class is made."""

    __slots__ = ()

    def __init_subclass__(cls, **options):
        pass


class _WithoutHookButDict:
    """As `_WithoutHook`, with the layout of objects that have only a `__dict__`: assigning `__bases__` requires it."""

    __init_subclass__ = vars(_WithoutHook)["__init_subclass__"]


def _hook_filter():
    """Return a new base class that runs the `__init_subclass__` of later bases only for subclasses that f makes.

    Each proxy class needs one of its own, because it stands before the original in the MRO.
    """

    def run(cls, **options):
        if "_wengert_original" not in vars(cls):
            super(filtered, cls).__init_subclass__(**options)

    filtered = type("_HookFilter", (), {"__slots__": (), "__init_subclass__": classmethod(run)})
    return filtered


class _Attribute:
    """An attribute of a proxy: reads return the replacement of the value in `__dict__`, writes go to `__dict__`."""

    def __init__(self, name):
        self.name = name

    def known(self, proxy):
        """Value of the attribute when the proxy was made, and its replacement."""
        try:
            return self.leaf._wengert_held.__get__(proxy)[self.name]
        except (AttributeError, KeyError):  # made in f from another proxy, by `copy` or similar
            return None, None

    def __get__(self, proxy, cls):
        if proxy is None or self.name not in (space := proxy.__dict__):
            return getattr(super(self.leaf, cls if proxy is None else proxy), self.name)
        value = space[self.name]
        if isinstance(value, type):
            return _class_read(value, self.name)
        known, new = self.known(proxy)
        return new if known is value else lookup.replaced(value)

    def __set__(self, proxy, value):
        known, new = self.known(proxy)
        proxy.__dict__[self.name] = known if new is value else value

    def __delete__(self, proxy):
        if self.name not in proxy.__dict__:
            raise AttributeError(self.name)
        del proxy.__dict__[self.name]


def _class_read(cls, name):
    """Return a class that code two frames up reads from an attribute, or its replacement if that code then uses it."""
    frame = sys._getframe(2)
    if frame.f_globals.get("__name__") == "wengert.core.rebind.stubs":  # the placeholder of a property
        frame = frame.f_back
    return lookup.in_use(cls) if reads_for_use(frame.f_code, frame.f_lasti, name) else cls


class ClassAttribute:
    """An attribute of a proxy class: reads return the replacement of the value in the original class."""

    def __init__(self, name, proxy_class):
        self.name, self.proxy_class = name, proxy_class
        self.space = vars(proxy_class._wengert_original)

    def __get__(self, proxy, cls):
        if self.name not in self.space:
            return getattr(super(self.proxy_class, cls if proxy is None else proxy), self.name)
        value = self.space[self.name]
        if isinstance(value, type):
            return _class_read(value, self.name)
        new = lookup.replaced(value)
        get = getattr(type(new), "__get__", None)
        return new if get is None else get(new, proxy, cls)


class ClassDescriptor(ClassAttribute):
    """As `ClassAttribute`, for a data descriptor; one without ``__get__`` only acts where the attribute is set."""

    def __get__(self, proxy, cls):
        held = () if proxy is None or hasattr(type(self.space.get(self.name)), "__get__") else vars(proxy)
        return lookup.replaced(held[self.name]) if self.name in held else super().__get__(proxy, cls)

    def __set__(self, proxy, value):
        descriptor = lookup.replaced(self.space[self.name])
        type(descriptor).__set__(descriptor, proxy, value)

    def __delete__(self, proxy):
        descriptor = lookup.replaced(self.space[self.name])
        type(descriptor).__delete__(descriptor, proxy)


class CalledAttribute(ClassAttribute):
    """An attribute of objects that followed code makes: a class in it is replaced where it is called or read from."""

    def __get__(self, proxy, cls):
        if proxy is None:
            return getattr(super(self.proxy_class, cls), self.name)
        below = self.space.get(self.name)
        value = self.held(proxy) if below is None else below.__get__(proxy, cls)
        return _class_read(value, self.name) if isinstance(value, type) else value

    def held(self, proxy):
        try:
            return proxy.__dict__[self.name]
        except KeyError:
            raise AttributeError(self.name) from None

    def __set__(self, proxy, value):
        if self.name in self.space:
            self.space[self.name].__set__(proxy, value)
        else:
            proxy.__dict__[self.name] = value

    def __delete__(self, proxy):
        if self.name in self.space:
            self.space[self.name].__delete__(proxy)
        elif self.name in proxy.__dict__:
            del proxy.__dict__[self.name]
        else:
            raise AttributeError(self.name)


def called_property(value, name):
    """Return a property that returns the replacement of a class where it is called or read from."""
    get = value.fget

    def run(self):
        found = get(self)
        return _class_read(found, name) if isinstance(found, type) else found

    return property(run, value.fset, value.fdel, value.__doc__)


class _Slot:
    """A slot of a proxy: reads return the replacement of the value in the slot of the object, writes go there."""

    def __init__(self, member):
        self.member = member

    def whole(self, proxy):
        """Return the object of a proxy; a proxy that f itself made, as by `copy`, has its own slots."""
        try:
            return self.leaf._wengert_whole.__get__(proxy)
        except AttributeError:
            return proxy

    def __get__(self, proxy, cls):
        if proxy is None:
            return self.member
        return lookup.replaced(self.member.__get__(self.whole(proxy)))

    def __set__(self, proxy, value):
        self.member.__set__(self.whole(proxy), value)

    def __delete__(self, proxy):
        self.member.__delete__(self.whole(proxy))


def _share_dict(value, cls, new=object.__new__, assign=object.__setattr__):
    if not hasattr(cls, "_wengert_original"):  # from a proxy to its object
        found = whole(value)
        if found is not value and space_of(found) is space_of(value):
            return found
    proxy = _live_proxies.get(id(value))
    if type(proxy) is cls and space_of(proxy) is space_of(value):
        return proxy  # so that `is` holds between two references to the same object
    proxy = new(cls)
    assign(proxy, "__dict__", space_of(value))
    if cls.__weakrefoffset__:
        _live_proxies[id(value)] = proxy
        refer(proxy, value)
    return proxy


def _share_array(value, cls, assign=object.__setattr__):
    proxy = value.view(cls)
    assign(proxy, "__dict__", value.__dict__)
    return proxy


def share_tuple(value, cls, assign=object.__setattr__):
    """Return an instance of a class with the replaced items of a tuple."""
    proxy = tuple.__new__(cls, map(lookup.replaced, tuple.__iter__(value)))
    if cls.__dictoffset__:
        assign(proxy, "__dict__", value.__dict__)
    return proxy


def _share_slots(value, cls, new=object.__new__, assign=object.__setattr__):
    """Return the proxy of an object with slots (see `leaf_of`), or the object of such a proxy."""
    if not hasattr(cls, "_wengert_original"):
        return type(value)._wengert_whole.__get__(value)
    proxy = new(cls)
    cls._wengert_whole.__set__(proxy, value)
    if cls.__dictoffset__ and hasattr(value, "__dict__"):
        assign(proxy, "__dict__", value.__dict__)
    return proxy


def _share_member(value, cls, assign=object.__setattr__):
    """Return a proxy of a member of an enumeration that is a number or a string, or the member of a proxy."""
    if not hasattr(cls, "_wengert_original"):
        return _member_of(value)
    kind = cls._member_type_
    proxy = kind.__new__(cls, kind.__str__(value) if kind is str else kind.__pos__(value))
    assign(proxy, "__dict__", value.__dict__)
    return proxy


def _member_of(proxy):
    """Return the member of an enumeration that a proxy stands for."""
    return type(proxy)._wengert_original(proxy._value_)


_class = vars(object)["__class__"]  # a proxy overrides it by a property


def _become(value, cls):
    """Turn an instance that followed code made into one of the original class, since its memory cannot be shared."""
    _class.__set__(value, cls)
    return value


def _share_items(value, cls, assign=object.__setattr__):
    """Return the proxy of a dictionary or list (see `leaf_of`), or the dictionary or list of a proxy."""
    if not hasattr(cls, "_wengert_original"):
        found = whole(value)
        return found if found is not value else _become(value, cls)
    proxy = _live_proxies.get(id(value))
    if type(proxy) is cls and proxy.__dict__ is value.__dict__:
        return proxy
    kind = dict if issubclass(cls, dict) else list
    proxy = kind.__new__(cls)
    (dict.update if kind is dict else list.extend)(proxy, value)
    cls._wengert_whole.__set__(proxy, value)
    assign(proxy, "__dict__", value.__dict__)
    _live_proxies[id(value)] = proxy
    return proxy


def _sharing(cls):
    """Return the function that makes a proxy of an object of class `cls`, and finds the object of a proxy."""
    if container_of(cls) is not None:
        return _share_items
    if issubclass(cls, CONTAINERS):
        return _become
    if issubclass(cls, tuple):
        return share_tuple
    if holds_member_values(cls):
        return _share_member
    if is_array_class(cls):
        return _share_array
    return _share_slots if slots_of(cls) or not cls.__dictoffset__ else _share_dict


def share(value, cls):
    """Return an instance of `cls` that shares the state of `value`: a proxy of an object, or the object of a proxy."""
    make = getattr(cls, "_wengert_share", None) or _sharing(cls)
    if make in (_share_slots, _share_items) and hasattr(cls, "_wengert_leaves"):
        cls = leaf_of(cls, ())
    return make(value, cls)


def has_data_descriptor(cls, name):
    """Return whether the class controls access to the attribute by a data descriptor."""
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return hasattr(type(found), "__set__")


def is_held_by_metaclass(cls, name):
    """Return whether a data descriptor of the metaclass, such as a property, receives assignments to `cls.name`."""
    kind = type(cls)
    return kind is not type and has_data_descriptor(kind, name) and not hasattr(type, name)


def original(value):
    """Undo a replacement: return the object of a proxy, the plain array of an array view, else `value` itself."""
    cls = getattr(type(value), "_wengert_original", None)
    if cls is None:
        return value
    return value.view(cls) if cls in seen_as else share(value, cls)


def _has_default_reduction(cls):
    """Return whether instances of a class are pickled as those of `object` are."""
    return cls.__reduce_ex__ is object.__reduce_ex__ and cls.__reduce__ is object.__reduce__


def _reduce_leaf(self, protocol):
    """Reduce a proxy for `copy`: the copy has the state of the object and the class of the proxy."""
    make, (cls, *args), *rest = original(self).__reduce_ex__(protocol)
    if make is copyreg.__newobj__:  # `pickle` compares its first argument with `__class__`
        make = cls.__new__
    return make, (type(self), *args), *rest


def _reduce_made(self, protocol):
    """Reduce an instance that followed code made: `copy` keeps its class, `pickle` stores the original class."""
    make, *rest = object.__reduce_ex__(self, protocol)
    return type(self)._wengert_original.__new__ if make is copyreg.__newobj__ else make, *rest


def _reduce_class(cls):
    """Reduce a proxy class for `pickle` to the name of its original class."""
    import pkgutil  # a module that few programs load

    return pkgutil.resolve_name, (f"{cls.__module__}:{cls.__qualname__}",)


for _kind in (_ProxyMeta, _AbstractProxyMeta):
    copyreg.pickle(_kind, _reduce_class)


def leaf_of(proxy, names):
    """Return a subclass of a proxy class for objects with slots or with values to be replaced in attributes `names`."""
    if "_wengert_leaf" in vars(proxy):
        return proxy
    leaf = proxy._wengert_leaves.get(names)
    if leaf is None:
        body = {name: _Attribute(name) for name in names}
        slots, own = slots_of(proxy._wengert_original), ("_wengert_held",)
        options, bases = {"_wengert_leaf": True}, [proxy]
        if (kind := container_of(proxy._wengert_original)) is not None:
            own, bases = (*own, "_wengert_whole"), [proxy, SHARED[kind]]
        elif slots or not proxy.__dictoffset__:
            body |= {name: _Slot(member) for name, member in slots.items()}
            own = *own, "_wengert_whole"
        if _has_default_reduction(proxy._wengert_original):
            options["__reduce_ex__"] = _reduce_leaf
        leaf = make_proxy_class(proxy._wengert_original, bases, __slots__=own, **options, **body)
        for attribute in body.values():
            attribute.leaf = leaf
        proxy._wengert_leaves[names] = leaf
    return leaf
