"""Decides which functions, objects and modules reached by a function are followed, that is, replaced by copies.

Python code of every package is followed, whatever folder it lies in, except that of NumPy, SciPy, wengert, the standard
library, the packages in `UNFOLLOWED`, and those that the user excludes by `wengert.follow`.
C functions and plain data are left alone.
This module only inspects; `rebind` makes the copies.
"""

import abc
import collections
import enum
import functools
import gc
import itertools
import os
import sys
import types
import typing
import weakref

from wengert.core.rebind.identity import REGISTERED
from wengert.core.rebind.rename import BUILTINS, attribute_uses, read
from wengert.core.rebind.tables import TABLES, items_of
from wengert.features import home_of, is_made_in_python, knows_bytecode

LIBRARY = os.path.dirname(os.__file__) + os.sep
INSTALLED = {"site-packages", "dist-packages"}
FOREIGN = {__name__.partition(".")[0]}  # packages never followed: wengert and those of registered modules

_OWN_DERIVATIVES = "its arrays carry derivatives of their own"
_SYMBOLS = "it computes with symbols"
_TABLES = "its tables hold plain values only"
_PLOTS = "it draws plain values"
_TOOL = "it is a tool that runs code"
#: packages that are not followed unless the user says so, with the reason
UNFOLLOWED = {
    **dict.fromkeys(("autograd", "flax", "jax", "jaxlib", "keras", "mxnet", "tensorflow", "torch"), _OWN_DERIVATIVES),
    **dict.fromkeys(("aesara", "casadi", "pymc", "pyomo", "pytensor", "sympy", "theano"), _SYMBOLS),
    **dict.fromkeys(("dask", "pandas", "polars", "pyarrow", "xarray"), _TABLES),
    **dict.fromkeys(("bokeh", "matplotlib", "mpl_toolkits", "PIL", "plotly", "pyvista", "seaborn"), _PLOTS),
    **dict.fromkeys(("IPython", "coverage", "debugpy", "hypothesis", "ipykernel"), _TOOL),
    **dict.fromkeys(("_pytest", "pluggy", "pytest"), _TOOL),
    **dict.fromkeys(("joblib", "llvmlite", "numba"), "it runs or compiles functions outside of Python"),
    **dict.fromkeys(("peewee", "sqlalchemy"), "it reads databases"),
    **dict.fromkeys(("loguru", "structlog", "tqdm"), "it writes text"),
    **dict.fromkeys(("lark", "ply", "pyparsing", "yaml"), "it reads text"),
    **dict.fromkeys(("cupy", "h5py", "mpi4py"), "its data lies outside of NumPy arrays"),
    **dict.fromkeys(("mpmath", "gmpy2"), "its numbers are not NumPy's"),
}
CHOSEN = {}  # package or module -> whether it is followed, as set by the user
CHOSEN_IN_BLOCKS = []  # the same for running `with` blocks, as pairs; later blocks win
REASONS = {}  # module name -> why it is not followed, or None; emptied by each change of the above

LRU = type(functools.lru_cache(abs))
METHODS = (types.FunctionType, staticmethod, classmethod, property, functools.cached_property,
           functools.partialmethod, LRU)  # fmt: skip
METHOD_TYPES = frozenset(METHODS)
WRAPPERS = [functools.partial, types.MethodType, *METHODS[1:]]
MAKERS = {}  # wrapper type -> (get the wrapped function, make a new wrapper around another function)
SUBCLASSED = {}  # the same for wrapper types whose subclasses, including the user's, are treated alike
SPECIAL = {*METHODS, *WRAPPERS, types.ModuleType, types.BuiltinFunctionType, type}  # never in INERT
#: types of values that are neither followed nor registered
DATA = {bool, int, float, complex, str, bytes, type(None)}
INERT = set(DATA)  # types whose instances are neither followed nor registered, as far as known
#: module of C types, or the name of one that states no module -> function that registers wrapper types when one is met
MODULES_OF_KINDS = {}
DTYPES = set()  # ids of registered classes that stay as they are in containers, since they may serve as dtypes


class Plain:
    pass


def top_package(module):
    return module.partition(".")[0] if isinstance(module, str) else None


def is_installed(file):
    return file.startswith(LIBRARY) or not INSTALLED.isdisjoint(os.path.dirname(file).split(os.sep))


def is_standard(name):
    """Return whether a module belongs to the standard library."""
    if name not in sys.stdlib_module_names or name == "__main__":
        return False
    file = getattr(sys.modules.get(name), "__file__", None)  # a module of the user's may have the same name
    return file is None or (file.startswith(LIBRARY) and INSTALLED.isdisjoint(file.split(os.sep)))


def why_unfollowed(module):
    """Return why the code of a module, given by name, is not followed; None if it is followed."""
    if type(module) is not str:
        return "it belongs to no module"
    if module in REASONS:
        return REASONS[module]
    reason = REASONS[module] = find_reason(module)
    return reason


def find_reason(module):
    package = top_package(module)
    if package in FOREIGN:
        return "its functions have rules"
    names = [*itertools.accumulate(module.split("."), "{}.{}".format)]
    for name in reversed(names):
        chosen = dict(CHOSEN_IN_BLOCKS).get(name, CHOSEN.get(name))
        if chosen is not None:
            return None if chosen else f'wengert.follow("{name}", False) excludes it'
    return "it is the standard library" if is_standard(package) else UNFOLLOWED.get(package)


def is_module_namespace(namespace):
    module = sys.modules.get(namespace.get("__name__"))
    return module is not None and getattr(module, "__dict__", None) is namespace


def is_inert(value):
    kind = type(value)
    if kind in INERT:
        return True
    home = home_of(kind)
    home = kind.__name__ if home == "builtins" else home
    if (install := MODULES_OF_KINDS.get(home)) is not None:
        install()  # waits if another thread does so
        MODULES_OF_KINDS.pop(home, None)
    if kind in SPECIAL or is_made_in_python(kind):
        return False
    INERT.add(kind)
    return True


def can_copy(f):
    return knows_bytecode() and f.__builtins__ is BUILTINS and top_package(f.__globals__.get("__name__")) not in FOREIGN


def is_followed_function(f):
    """Return whether a function is followed; for a wrapper by `functools.wraps` the wrapped module counts too."""
    home = f.__globals__.get("__name__", "__main__")
    if f.__builtins__ is BUILTINS and why_unfollowed(home) is None:
        return knows_bytecode()
    return f.__module__ != home and can_copy(f) and why_unfollowed(f.__module__) is None


def has_subclass_hook(cls):
    """Return whether a user's `__init_subclass__` runs when a subclass of the class is made."""
    hook = cls.__init_subclass__
    return isinstance(hook, types.MethodType) and not is_standard(top_package(hook.__func__.__module__))


def is_array_class(cls):
    """Return whether a class is a subclass of NumPy's array."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and issubclass(cls, numpy.ndarray)


def slots_of(cls):
    """Descriptors of the slots of a class's instances, by name."""
    spaces = [vars(base) for base in reversed(cls.__mro__) if "__slots__" in vars(base)]
    found = [(name, v) for space in spaces for name, v in space.items() if type(v) is types.MemberDescriptorType]
    return dict(found)


def is_plain_object(cls):
    """Return whether all state of a class's instances is in `__dict__`."""
    is_plain = cls.__basicsize__ == Plain.__basicsize__ and cls.__dictoffset__ == Plain.__dictoffset__
    return is_plain and not slots_of(cls)


def can_share(cls):
    """Return whether an instance of a proxy class can share all state of an instance.

    The state must be in `__dict__`, in slots, in the memory of an array or a tuple, or in items of a `dict` or `list`.
    """
    return can_have_proxy(cls) and (not issubclass(cls, CONTAINERS) or container_of(cls) is not None)


def container_of(cls):
    """Return `dict` or `list` if a class derives from it, and otherwise from followed classes; else None.

    A class that uses these methods unbound, as in ``__getattr__ = dict.__getitem__``, is left out, since they would act
    on the memory of a proxy.
    """
    kind = next((kind for kind in (dict, list) if issubclass(cls, kind)), None)
    if kind is None or not cls.__dictoffset__:
        return None
    bases = [base for base in cls.__mro__ if base not in (kind, object, typing.Generic)]
    is_own = all(why_unfollowed(home_of(base)) is None and not _uses_unbound(base, kind.__name__) for base in bases)
    return kind if is_own else None


def _uses_unbound(cls, name):
    """Return whether the namespace of a class holds a method in C, or a function that reads one of the named class."""
    for value in [*vars(cls).values()]:
        if type(value) in _C_METHODS:
            return True
        f = value.__func__ if type(value) in (staticmethod, classmethod) else value
        f = f.fget if type(f) is property else f
        if type(f) is types.FunctionType and any(path[0] == name for path in read(f.__code__).paths):
            return True
    return False


_C_METHODS = type(dict.__getitem__), type(dict.__len__)


#: containers in C whose subclasses have proxy classes for the instances that followed code makes
CONTAINERS = (dict, list, set, collections.deque)


#: metaclasses of the standard library whose classes may have proxy classes
_METACLASSES = type, abc.ABCMeta, enum.EnumMeta, type(typing.Protocol)


def can_have_proxy(cls):
    """Return whether a class can get a proxy class: one made without side effects that behaves like it."""
    meta = type(cls)
    if hasattr(cls, "__del__") or top_package(cls.__module__) in FOREIGN:
        return False
    if meta not in _METACLASSES and (why_unfollowed(meta.__module__) is not None or "mro" in vars(meta)):
        return False
    if is_plain_object(cls) or holds_member_values(cls):
        return True
    if issubclass(cls, (tuple, *CONTAINERS)) or is_array_class(cls):
        return not slots_of(cls)
    return all(map(is_made_in_python, cls.__mro__[:-1]))


def holds_member_values(cls):
    """Return whether a class is an enumeration whose members are numbers or strings, such as an IntEnum."""
    return isinstance(cls, enum.EnumMeta) and cls._member_type_ in _VALUE_TYPES


_VALUE_TYPES = int, float, str


def space_of(value):
    """The `__dict__` of an object, or an empty one; never runs `__getattr__`."""
    try:
        return object.__getattribute__(value, "__dict__")
    except AttributeError:
        return _NOTHING


_NOTHING = {}


def py_func_of(value):
    """The Python function behind a just-in-time compiled one (numba), or None; never runs `__getattr__`."""
    kind = type(value)
    if not hasattr(kind, "py_func") and "py_func" not in space_of(value):
        return None
    try:
        f = object.__getattribute__(value, "py_func")
    except (AttributeError, TypeError):
        return None
    return f if type(f) is types.FunctionType else None


_DISPATCHER = functools.singledispatch(abs).__code__


def is_dispatcher(value):
    """Return whether a function was made by `functools.singledispatch`."""
    return type(value) is types.FunctionType and value.__code__ is _DISPATCHER


def function_of_ufunc(ufunc):
    """The Python function behind a ufunc made by ``numpy.frompyfunc`` or by Numba, or None for any other ufunc."""
    if top_package(type(ufunc).__module__) == "numba":
        return getattr(getattr(ufunc, "_dispatcher", None), "py_func", None)
    if set("".join(ufunc.types)) - set("O->"):
        return None
    return next((f for f in gc.get_referents(ufunc) if callable(f)), None)


def is_differentiated(value):
    """Return whether `value` defines its own derivative, as functions compiled by wengert do."""
    return hasattr(type(value), "__wengert__")


def is_table(value, depth=3):
    """Return whether a value is a container with items that may be replaced; its type is never in `SPECIAL`."""
    if type(value) not in TABLES or not depth:
        return False
    items = items_of(value)
    kinds = {*map(type, items)}
    if kinds <= INERT and kinds.isdisjoint(TABLES):
        return False
    return any(not (is_inert(item) or id(item) in DTYPES) or is_table(item, depth - 1) for item in items)


def seems_table(value):
    """Return whether the first or the last item of a container may be replaced; `is_table` looks at more of them."""
    value = vars(value) if type(value) is types.SimpleNamespace else value
    if not value:
        return False
    items = value.values() if isinstance(value, dict) else value
    ends = next(iter(items)), next(reversed(items))
    return any(is_table(end) if type(end) in TABLES else type(end) not in INERT for end in ends)


def ends_in_code(value):
    """Return whether the last item of a list, dictionary or namespace may be replaced."""
    value = vars(value) if type(value) is types.SimpleNamespace else value
    if not value:
        return False
    return type(value[-1] if type(value) is list else value[next(reversed(value))]) not in INERT


def is_adopted(kind):
    """Return whether `kind` is a subclass of a type in `SUBCLASSED`, and if so make it a wrapper type."""
    base = next((base for base in kind.__mro__ if base in SUBCLASSED), None)
    if base is not None:
        MAKERS[kind] = SUBCLASSED[base]
        WRAPPERS.append(kind)
        SPECIAL.add(kind)
    return base is not None


def is_followed(value):
    """Return whether a value may be replaced."""
    kind = type(value)
    if kind is types.FunctionType:
        return is_followed_function(value)
    if kind in TABLES:
        return is_table(value)
    if is_inert(value):
        return False
    if kind is LRU:
        return type(value.__wrapped__) is types.FunctionType and is_followed(value.__wrapped__)
    if kind in WRAPPERS or (SUBCLASSED and is_adopted(kind)):
        return True
    if (f := py_func_of(value)) is not None:
        return is_followed(f)
    if isinstance(value, type):
        return why_unfollowed(home_of(value)) is None and can_have_proxy(value)
    return why_unfollowed(home_of(kind)) is None and can_share(kind)


def is_seen_whole(value):
    """Return whether the stand-in of a followed value reads and writes that value instead of holding copied parts."""
    kind = type(value)
    return kind in TABLES or not (kind in SPECIAL or isinstance(value, type) or is_plain_object(kind))


def is_followed_object(value):
    """Return whether a followed value gets a proxy class: it is not a class, function, wrapper or container."""
    return not (type(value) in SPECIAL or type(value) in TABLES or isinstance(value, type) or py_func_of(value))


def is_followed_module(module):
    """Return whether the functions of `module` are followed."""
    if type(module) is not types.ModuleType or id(module) in REGISTERED:
        return False
    return why_unfollowed(vars(module).get("__name__")) is None


def module_reads(f):
    """Return (global name, module, attribute, its value) for each read by f from a followed module."""
    code, held, found = read(f.__code__), f.__globals__, []
    modules = {name: value for name in code.owners if is_followed_module(value := held.get(name))}
    for first, *path in code.paths if modules else ():
        value = modules.get(first)
        for name in path:
            if not is_followed_module(value):
                break
            module, value = value, vars(value).get(name)
            found.append((first, module, name, value))
    return found


def attribute_reads(f):
    """Return (global name, attribute) for each attribute that f reads of those set on a function."""
    code, held = read(f.__code__), f.__globals__
    functions = {name for name in code.owners if _holds_attributes(held.get(name))}
    return [path[:2] for path in code.paths if path[0] in functions and not hasattr(types.FunctionType, path[1])]


def cell_owners(f):
    """Return the free variables of f that hold functions, and from which f reads attributes that were set on these."""
    names = read(f.__code__).cell_owners
    held = zip(f.__code__.co_freevars, contents_of(f)) if names else ()
    return {name for name, value in held if name in names and _holds_attributes(value)}


def _holds_attributes(value):
    """Return whether a value is a function, a partial of one or one with a cache, on which attributes may be set."""
    kind = type(value)
    return can_copy(value) if kind is types.FunctionType else kind is functools.partial or kind is LRU


def is_computed(module, name):
    """Return whether an attribute of a followed module is computed by the module's own ``__getattr__``."""
    return name not in vars(module) and "__getattr__" in vars(module)


def reads_computed(f):
    """Return whether a function reads an attribute that a followed module computes."""
    return any(is_computed(module, name) for _, module, name, _ in module_reads(f))


def parts_of(value):
    """Objects held by `value` that may have to be replaced in it."""
    kind = type(value)
    if kind is types.FunctionType:
        held = value.__globals__
        parts = [held[name] if name in held else BUILTINS.get(name) for name in read(value.__code__).names]
        parts += [part for *_, part in module_reads(value)]
        return parts + contents_of(value) + defaults_of(value)
    if kind is functools.partial:
        return [value.func, *value.args, *value.keywords.values()]
    if kind is types.MethodType:
        return [value.__func__, value.__self__]
    if kind in (staticmethod, classmethod):
        return [value.__func__]
    if kind is property:
        return [value.fget, value.fset, value.fdel]
    if kind in (functools.cached_property, functools.partialmethod):
        return [value.func]
    if kind in MAKERS:
        return [MAKERS[kind][0](value)]
    if kind in TABLES:
        return items_of(value)
    if isinstance(value, type):
        found = [*value.__bases__]
        for v in vars(value).copy().values():
            kind = type(v)
            if kind in METHOD_TYPES or (kind in TABLES and is_table(v)) or (kind not in INERT and is_part(v)):
                found.append(v)
        return found
    f = py_func_of(value)
    if f:
        return [f]
    items = tuple.__iter__(value) if isinstance(value, tuple) else ()
    return [kind, *attributes_of(value).values(), *tables_of(value).values(), *slot_contents(value), *items]


def called_attributes(cls):
    """Return the names of attributes that methods of a class call, as in `self.kind(x)`, and that may hold a class.

    Each is assigned by a method, or a property of the class.
    """
    stored, called = set(), set()
    for base in cls.__mro__[:-1]:
        for value in vars(base).copy().values():
            for f in _functions_of(value):
                uses = attribute_uses(f.__code__)
                stored |= uses[0]
                called |= uses[1]
    is_defined = set().union(*(vars(base) for base in cls.__mro__))
    return [name for name in called if name in stored - is_defined or type(vars(cls).get(name)) is property]


def may_return_class(value):
    """Return whether the getter of a property imports something or mentions a class other than to call it."""
    if type(f := value.fget) is not types.FunctionType:
        return False
    code = read(f.__code__)
    return bool(code.imports) or any(isinstance(f.__globals__.get(name), type) for name in code.bare)


def _functions_of(value):
    """Return the Python functions of a method or property, and those that they wrap."""
    parts = [value] if type(value) is types.FunctionType else parts_of(value) if type(value) in METHOD_TYPES else ()
    found = [part for part in parts if type(part) is types.FunctionType]
    found += [f for each in found if type(f := vars(each).get("__wrapped__")) is types.FunctionType]
    return found


def is_part(value):
    """Return whether a class attribute, other than a method or a container, may need a replacement."""
    return not (type(value) in METHOD_TYPES or type(value) in TABLES or is_inert(value) or isinstance(value, type))


def contents_of(f):
    """Return the contents of the cells of f; None for cells that stay: empty, assigned by f, or holding a class."""
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
    held = space_of(value).copy()
    return {name: v for name, v in held.items() if type(v) not in INERT and not isinstance(v, type)}


def tables_of(value):
    """Containers in an object's `__dict__` with items that may have to be replaced, by name."""
    return {name: v for name, v in space_of(value).copy().items() if type(v) in TABLES and is_table(v)}


def slot_contents(value):
    """Contents of the slots of an object, with None for classes and empty slots."""
    contents = []
    for member in slots_of(type(value)).values():
        try:
            content = member.__get__(value)
        except AttributeError:
            content = None
        contents.append(None if isinstance(content, type) else content)
    return contents


def held_by(space):
    """Identities of the attributes in an object's `__dict__` that determine its replacement, by name."""
    return {
        name: id(value)
        for name, value in space.copy().items()
        if (kind := type(value)) not in INERT or (kind in TABLES and seems_table(value))
    }


def marks_of(held):
    """Identities of objects, or their types if they are never replaced, to detect changes."""
    return [kind if (kind := type(value)) in INERT else id(value) for value in held]


def signature_of(f):
    """Identities of the defaults of a function's parameters, of which its copy may have its own."""
    words = f.__kwdefaults__
    return (id(f.__defaults__), *words, *map(id, words.values())) if words else (id(f.__defaults__),)


def own_state_of(f):
    """State of a function, apart from global names, that determines its replacement."""
    written = read(f.__code__).written
    held = contents_of(f) if written else map(content_of, f.__closure__ or ())
    return [id(f.__code__), *signature_of(f), *marks_of(held)]


_HOLDERS = weakref.WeakKeyDictionary()  # type -> whether `_held_in` looks into its objects, and whether they have slots


def _held_in(value):
    """Values in a container, in an object of a package that is not followed, or in one that is converted."""
    kind = type(value)
    if kind in (list, tuple):
        return value
    if kind is dict:
        return [*value.copy().values()]
    if kind not in _HOLDERS:
        is_adopted = any(base in SUBCLASSED for base in kind.__mro__)
        is_copied = is_adopted or is_converted(kind) or top_package(kind.__module__) in FOREIGN
        _HOLDERS[kind] = is_copied, bool(slots_of(kind))
    is_copied, has_slots = _HOLDERS[kind]
    if not is_copied:
        return ()
    held = [*space_of(value).copy().values()]
    return held + slot_contents(value) if has_slots else held


def is_converted(kind):
    """Return whether objects of a type are replaced by copies of another class."""
    return kind in MAKERS and MAKERS[kind][0] is type


def state_of(value):
    """State of `value` that determines its replacement."""
    if is_converted(type(value)):  # its copy shares the arrays, but not the attributes
        inner, met = [*_held_in(value)], {id(value)}
        for part in inner:
            if type(part) not in DATA and id(part) not in met:
                met.add(id(part))
                inner += _held_in(part)
        return [*map(id, inner)]
    if type(value) in (functools.partial, functools.partialmethod):  # its copy has arguments of its own
        return [id(value.func), *map(id, value.args), *value.keywords, *map(id, value.keywords.values())]
    state = marks_of(parts_of(value))
    if type(value) is types.FunctionType:
        return state + [id(value.__code__), *signature_of(value)]
    return state
