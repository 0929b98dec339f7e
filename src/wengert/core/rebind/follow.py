"""Decides which functions, objects and modules reached by a function are followed, that is, replaced by copies.

A function is followed into its own package: functions, objects and modules of the same outermost package.
All code that is not installed counts as one package, whatever file, directory or string it comes from.
Other packages, C functions and plain data are left alone.
This module only inspects; `rebind` makes the copies.
"""

import abc
import functools
import gc
import itertools
import os
import sys
import types

from wengert.core.rebind.rename import BUILTINS, read
from wengert.features import is_made_in_python, knows_bytecode

REGISTERED = {}  # id(original) -> (original, replacement, private name)
PACKAGES = {}  # module name -> ((id of the module, its file), its package)
OWN = ""  # the package of all code that is not installed
LIBRARY = os.path.dirname(os.__file__) + os.sep
INSTALLED = {"site-packages", "dist-packages"}
FOREIGN = {__name__.partition(".")[0]}  # packages never followed: wengert and those of registered modules

LRU = type(functools.lru_cache(abs))
METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property, LRU)
WRAPPERS = [functools.partial, types.MethodType, *METHODS[1:]]
MAKERS = {}  # wrapper type -> (get the wrapped function, make a new wrapper around another function)
SPECIAL = {*METHODS, *WRAPPERS, types.ModuleType, types.BuiltinFunctionType, type}  # never in INERT
INERT = set()  # types whose instances are neither followed nor registered


class Plain:
    pass


def top_package(module):
    return module.partition(".")[0] if isinstance(module, str) else None


def package_of(name):
    """Package of a module: its outermost installed package, or `OWN`."""
    if not isinstance(name, str):
        return None
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    known = PACKAGES.get(name)
    if known is None or known[0] != (id(module), file):
        known = PACKAGES[name] = (id(module), file), find_package(name, module, file)
    return known[1]


def find_package(name, module, file):
    package = getattr(module, "__package__", None) or name  # `python -m` runs a module of a package as __main__
    for prefix in itertools.accumulate(package.split("."), "{}.{}".format):
        found = sys.modules.get(prefix)
        if hasattr(found, "__path__") and getattr(found, "__file__", None):  # not a namespace package
            return prefix if is_installed(found.__file__) else OWN
    if file:
        return os.path.dirname(file) if is_installed(file) else OWN
    return name if name in sys.builtin_module_names else OWN


def is_installed(file):
    return file.startswith(LIBRARY) or not INSTALLED.isdisjoint(os.path.dirname(file).split(os.sep))


def package_of_function(f):
    """Package of a function; code run by `exec` in a namespace without `__name__` has the module `builtins`."""
    return package_of(f.__module__) if "__name__" in f.__globals__ else OWN


def is_module_namespace(namespace):
    module = sys.modules.get(namespace.get("__name__"))
    return module is not None and getattr(module, "__dict__", None) is namespace


def is_inert(value):
    kind = type(value)
    if kind in INERT:
        return True
    if kind in SPECIAL or is_made_in_python(kind):
        return False
    INERT.add(kind)
    return True


def can_copy(f):
    return knows_bytecode() and f.__builtins__ is BUILTINS and top_package(f.__globals__.get("__name__")) not in FOREIGN


def can_have_proxy(cls):
    """Is all state of instances in `__dict__`, and can a subclass be made without side effects?"""
    return (
        type(cls) in (type, abc.ABCMeta)
        and cls.__basicsize__ == Plain.__basicsize__  # no slots, no built-in layout
        and cls.__dictoffset__ == Plain.__dictoffset__
        and not isinstance(cls.__init_subclass__, types.MethodType)
        and not hasattr(cls, "__del__")
        and top_package(cls.__module__) not in FOREIGN
    )


def py_func_of(value):
    """The Python function behind a just-in-time compiled one (numba), or None; never runs `__getattr__`."""
    kind = type(value)
    if not hasattr(kind, "py_func") and not (kind.__dictoffset__ and "py_func" in value.__dict__):
        return None
    try:
        f = object.__getattribute__(value, "py_func")
    except (AttributeError, TypeError):
        return None
    return f if type(f) is types.FunctionType else None


def function_of_ufunc(ufunc):
    """The Python function behind a ufunc made by ``numpy.frompyfunc`` or by Numba, or None for any other ufunc."""
    if top_package(type(ufunc).__module__) == "numba":
        return getattr(getattr(ufunc, "_dispatcher", None), "py_func", None)
    if set("".join(ufunc.types)) - set("O->"):
        return None
    return next((f for f in gc.get_referents(ufunc) if callable(f)), None)


def is_differentiated(value):
    """Does `value` define its own derivative, as functions compiled by wengert do?"""
    return hasattr(type(value), "__wengert__")


def is_followed(value, home):
    """May `value`, met in code of `home` = (package, globals), be replaced?"""
    if is_inert(value):
        return False
    kind = type(value)
    if kind is types.FunctionType:
        package, namespace = home
        related = value.__globals__ is namespace or (package is not None and package_of_function(value) == package)
        return related and can_copy(value)
    if kind is LRU:
        return type(value.__wrapped__) is types.FunctionType and is_followed(value.__wrapped__, home)
    if kind in WRAPPERS:
        return True
    if (f := py_func_of(value)) is not None:
        return is_followed(f, home)
    cls = value if isinstance(value, type) else kind
    return home[0] is not None and package_of(cls.__module__) == home[0] and can_have_proxy(cls)


def is_followed_module(module, package):
    """Is `module` a module of the user's package, whose functions are followed?"""
    if id(module) in REGISTERED or type(module) is not types.ModuleType or package is None:
        return False
    name = vars(module).get("__name__")
    return top_package(name) not in FOREIGN and package_of(name) == package


def module_reads(f):
    """Yield (global name, module, attribute, its value) for each read by f from a module of its package."""
    for first, *path in read(f.__code__).paths:
        value = f.__globals__.get(first)
        if type(value) is not types.ModuleType or id(value) in REGISTERED:
            continue
        package = package_of(f.__module__)
        for name in path:
            if not is_followed_module(value, package):
                break
            module, value = value, vars(value).get(name)
            yield first, module, name, value


def parts_of(value):
    """Objects held by `value` that may have to be replaced in it."""
    kind = type(value)
    if kind is types.FunctionType:
        held = value.__globals__
        parts = [held[name] if name in held else BUILTINS.get(name) for name in read(value.__code__).names]
        parts += [part for *_, part in module_reads(value) if not isinstance(part, type)]
        return parts + contents_of(value) + defaults_of(value)
    if kind is functools.partial:
        return [value.func, *value.args, *value.keywords.values()]
    if kind is types.MethodType:
        return [value.__func__, value.__self__]
    if kind in (staticmethod, classmethod):
        return [value.__func__]
    if kind is property:
        return [value.fget, value.fset, value.fdel]
    if kind is functools.cached_property:
        return [value.func]
    if kind is LRU:
        return [value.__wrapped__]
    if kind in MAKERS:
        return [MAKERS[kind][0](value)]
    if isinstance(value, type):
        return [*value.__bases__, *(v for v in vars(value).values() if type(v) in METHODS)]
    f = py_func_of(value)
    return [f] if f else [kind, *attributes_of(value).values()]


def contents_of(f):
    """Contents of the cells of f, with None for those that stay: empty, assigned by f, or holding a class."""
    if not f.__closure__:
        return []
    written, names = read(f.__code__).written, f.__code__.co_freevars
    held = [None if name in written else content_of(cell) for name, cell in zip(names, f.__closure__)]
    return [None if isinstance(content, type) else content for content in held]


def defaults_of(f):
    """Defaults of the parameters of f, with None for classes, which stay."""
    held = [*(f.__defaults__ or ()), *(f.__kwdefaults__ or {}).values()]
    return [None if isinstance(value, type) else value for value in held]


def assigned_cells(f):
    """Cells that a function assigns to."""
    if type(f) is not types.FunctionType or not f.__closure__:
        return []
    written = read(f.__code__).written
    return [cell for name, cell in zip(f.__code__.co_freevars, f.__closure__) if name in written]


def content_of(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return None


def attributes_of(value):
    """Attributes in an object's `__dict__` that may have to be replaced, by name."""
    held = object.__getattribute__(value, "__dict__").copy()
    return {name: v for name, v in held.items() if type(v) not in INERT and not isinstance(v, type)}


def held_by(space):
    """Identities of the attributes in an object's `__dict__` that determine its replacement, by name."""
    return {name: id(value) for name, value in space.copy().items() if type(value) not in INERT}


def marks_of(held):
    """Identities of objects, or their types if they are never replaced, to detect changes."""
    return [kind if (kind := type(value)) in INERT else id(value) for value in held]


def state_of(value):
    """State of `value` that determines its replacement."""
    state = marks_of(parts_of(value))
    if type(value) is types.FunctionType:
        return state + [id(value.__code__), id(value.__defaults__), id(value.__kwdefaults__)]
    return state
