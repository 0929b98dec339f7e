"""Proxies of modules, which replace what is read from them, and the modules that import statements yield."""

import importlib
import sys
import types
import weakref

from wengert.core.rebind import registration
from wengert.core.rebind.follow import INERT, REGISTERED, is_followed_module, space_of, top_package, why_unfollowed
from wengert.core.rebind.registration import CLASSES, deferred, is_class_held, lookup, register, register_deferred
from wengert.core.rebind.rename import CALLED, IN_USE, READ, chain, private
from wengert.core.rebind.tables import TABLES

_proxies = weakref.WeakValueDictionary()  # id(module) -> its proxy, which keeps the module alive
_imports = {}  # (module, form of the import, package) -> private name of what import statements yield


class ModuleProxy(types.ModuleType):
    """A user's module as seen by renamed code: reads and writes go to the module, and functions are rebound.

    Classes are replaced where they are called or read from: renamed code then adds a prefix to the attribute's name.
    """

    __slots__ = ("_wengert_of",)

    def __init__(self, module):
        _of.__set__(self, module)

    def __getattribute__(self, name):
        if name.startswith(_USES):
            return lookup.in_use(getattr(_of.__get__(self), name.removeprefix(CALLED).removeprefix(READ)))
        value = getattr(_of.__get__(self), name)
        return value if type(value) in INERT and type(value) not in TABLES else lookup.replaced(value)

    def __setattr__(self, name, value):
        setattr(_of.__get__(self), name, value)

    def __delattr__(self, name):
        delattr(_of.__get__(self), name)

    def __eq__(self, other):
        return _of.__get__(self) is (_of.__get__(other) if isinstance(other, ModuleProxy) else other)

    def __hash__(self):
        return hash(_of.__get__(self))

    def _wengert_has(self, name):
        """Return whether the attribute is a class that may be replaced."""
        return _has_class(_of.__get__(self), name)

    def _wengert_holds(self, name):
        """Return whether the attribute is a module, without running a `__getattr__` of its module."""
        return isinstance(vars(_of.__get__(self)).get(name), types.ModuleType)

    def _wengert_below(self, name):
        """Return the proxy of the attribute if it is a followed module, else None."""
        return _module_below(_of.__get__(self), name)


_of = ModuleProxy._wengert_of
_USES = CALLED, READ


def module_proxy(module):
    """Return the proxy of a module, which is the same one for all code, since code may compare modules."""
    proxy = _proxies.get(id(module))
    if proxy is None:
        proxy = _proxies[id(module)] = ModuleProxy(module)
    return proxy


def proxied(proxy):
    """Return the module of a proxy."""
    return _of.__get__(proxy)


class ModuleInUse(ModuleProxy):
    """A proxy of a user's module for functions that only call, map or read from its classes."""

    __slots__ = ()

    def __getattribute__(self, name):
        value = getattr(_of.__get__(self), name)
        return value if type(value) in INERT and type(value) not in TABLES else lookup.in_use(value)


class _Imported(ModuleProxy):
    """The module that an import statement of followed code yields.

    The statement reads `__spec__`, which loads the module, and ignores errors; the next read of a name raises them.
    """

    __slots__ = ("_wengert_names",)

    def __init__(self, loaded, shown):
        _of.__set__(self, None)
        _names.__set__(self, (loaded, shown))

    def __getattribute__(self, name):
        is_loaded = _of.__get__(self) is not None
        if name == "__spec__" or not (is_loaded or name.startswith("__")):
            loaded, shown = _names.__get__(self)
            importlib.import_module(loaded)
            _of.__set__(self, sys.modules[shown])
        elif not is_loaded:
            raise AttributeError(name)
        return ModuleProxy.__getattribute__(self, name)

    def _wengert_has(self, name):
        module = sys.modules.get(_names.__get__(self)[1])
        return module is None or _has_class(module, name)  # before it is loaded, anything may be a class

    def _wengert_holds(self, name):
        return isinstance(space_of(sys.modules.get(_names.__get__(self)[1])).get(name), types.ModuleType)

    def _wengert_below(self, name):
        module = sys.modules.get(_names.__get__(self)[1])
        return None if module is None else _module_below(module, name)


class _ImportedInUse(_Imported):
    """As `_Imported`, for functions that only call, map or read from the classes that they import."""

    __slots__ = ()

    def __getattribute__(self, name):
        if name == "__spec__" or _of.__get__(self) is None:
            return _Imported.__getattribute__(self, name)
        return ModuleInUse.__getattribute__(self, name)


_names = _Imported._wengert_names


def _has_class(module, name):
    return is_class_held(space_of(module).get(name))


def _module_below(module, name):
    value = space_of(module).get(name)
    return module_proxy(value) if is_followed_module(value) else None


class Library(ModuleProxy):
    """A proxy of a library module: registered functions are replaced, classes only where they are called or read."""

    __slots__ = ()

    def __getattribute__(self, name):
        module = _of.__get__(self)
        if name.startswith(_USES):
            value = getattr(module, name.removeprefix(CALLED).removeprefix(READ))
            return REGISTERED[id(value)][1] if id(value) in REGISTERED else value
        value = getattr(module, name)
        return REGISTERED[id(value)][1] if id(value) in REGISTERED and id(value) not in CLASSES else value

    def _wengert_has(self, name):
        return id(getattr(_of.__get__(self), name, None)) in CLASSES

    def _wengert_below(self, name):
        return None


class _LibraryInUse(ModuleProxy):
    """A proxy of a library module for functions that only call, map or read from the classes they import."""

    __slots__ = ()

    def __getattribute__(self, name):
        value = getattr(_of.__get__(self), name)
        return REGISTERED[id(value)][1] if id(value) in REGISTERED else value


def register_library(module):
    """Replace a module by a proxy that returns the stand-ins of its registered members."""
    library, name = Library(module), private(module.__name__)
    sys.modules[name] = _LibraryInUse(module)
    register(module, library)
    IN_USE[REGISTERED[id(module)][2]] = library, name


def import_alias(space, dotted, form, level):
    """Private name of the module that an import of `dotted` in this form should return, or None."""
    if level:
        from importlib.util import resolve_name  # few programs need this module

        package = space.get("__package__") or str(space.get("__name__")).rpartition(".")[0]
        try:
            base = resolve_name("." * level, package)
        except ImportError:  # raised again by the statement
            return None
        return _imported(f"{base}.{dotted}".strip("."), form, base)
    for package in dict.fromkeys((top_package(dotted), registration.two_level_package(dotted), dotted)):
        if package not in deferred:
            continue
        if form == "from" and dotted not in sys.modules:
            return _imported_later(dotted, form, "")
        importlib.import_module(package)  # the import statement would load it anyway
        register_deferred(package)
    # An import statement of a registered module must stay as it is if it loads a submodule.
    known = None
    if dotted in sys.modules:
        known = REGISTERED.get(id(sys.modules.get(top_package(dotted) if form == "bare" else dotted)))
    if known is None:
        return _imported(dotted, form)
    return chain(known[2], dotted, known[1]) if form == "as" else known[2]


def _imported(dotted, form, base=""):
    """Private name of the followed module that an import statement yields, relative to a package `base`; or None."""
    if why_unfollowed(dotted) is not None:
        return None
    module = sys.modules.get(dotted)
    if module is None and form != "from":
        return None  # the statement loads it or raises
    key = dotted, form, base
    if form == "as":  # holds the module itself, which may have been loaded anew
        if not is_followed_module(module):
            return None
        if key not in _imports or _of.__get__(IN_USE[_imports[key]][0]) is not module:
            seen = ModuleProxy(module)
            alias = _imports[key] = chain(private(dotted), dotted, seen)
            IN_USE[alias] = seen, chain(private(dotted), dotted, ModuleInUse(module))
    return _imported_later(*key)


def _imported_later(dotted, form, base):
    """Return the private name of the module that an import statement yields; the statement loads it when it runs."""
    key = dotted, form, base
    if key not in _imports:
        names = dotted, top_package(dotted) if form == "bare" else dotted
        alias, variant = private(dotted), private(dotted)
        for name, module in ((alias, _Imported(*names)), (variant, _ImportedInUse(*names))):
            sys.modules[f"{base}.{name}" if base else name] = module
        IN_USE[alias] = _Imported(*names), variant
        _imports[key] = alias
    return _imports[key]
