"""Registers stand-ins that followed code sees instead of functions, classes and modules, which are known by identity.

The functions of a package may be registered when one of them is first met, by a module that is imported only then.
Other registrations drop all plans.
"""

import collections
import contextvars
import sys
import types
import weakref
from _thread import RLock  # `threading` takes 0.5 ms to import

from wengert.core.rebind import follow
from wengert.core.rebind.follow import REGISTERED, contents_of, defaults_of, is_followed_module, top_package
from wengert.core.rebind.rename import BUILTINS, USED, private, read
from wengert.core.rebind.tables import table

_MAX_RETIRED = 4096  # number of dropped plans kept for copies that still run
COPY_FUNCTIONS = {"copy", "deepcopy", "astype", "flatten"}  # names of functions and methods that copy an array

#: plan with copies of its own that runs in this context; stand-ins of containers and modules return these copies
running_plan = contextvars.ContextVar("wengert_running_plan", default=None)
plans = {}  # id(function, class or object) -> Plan
passed = []  # (private name that holds a stub, its function): stubs to be replaced before code runs
templates = weakref.WeakKeyDictionary()  # code -> plan of the last function with this code, without the function
_retired = collections.deque(maxlen=_MAX_RETIRED)
#: held while plans, registrations and copies of modules change; registering may import mirrors
lock = RLock()
_constants = []  # the arguments of `see_constants`, once NumPy is registered
seen_as = set()  # array classes whose constants followed code sees as views of a subclass
CLASSES = set()  # ids of registered classes that are replaced only where they are called or read from
_of_subclass = {}  # id(registered class) -> function that returns the stand-in of a subclass
array_bases = []  # bases of proxy classes of subclasses of NumPy's array
_met_kinds = weakref.WeakSet()  # types whose bases' packages have been registered
deferred = {}  # package or module -> function that registers its members when one of them is first met
_settled = set()  # names of modules whose package needs no registration any more


class _Lookup:
    """Functions that `rebind` sets for the modules below it: proxies and plans call them when renamed code runs.

    ``replaced(value)`` and ``in_use(value)`` return the replacement of a value that is met, the second one where it is
    called or read from; ``resolved(value)`` returns the replacement of a function or class by its own plan;
    ``with_own_copies(f, run, indices)`` wraps `run`, a copy of f, so that it receives copies of these arguments.
    """

    __slots__ = ("in_use", "replaced", "resolved", "with_own_copies")


lookup = _Lookup()


class _State:
    """State of all plans.

    now : object that stands for the latest call from outside of renamed code; plans are checked once per such call
    use : number of plans made of functions and classes that have plans of their own
    retired : number of times that all plans were dropped
    making : ids of functions, classes and objects whose plans are being made
    maker : the thread that makes them, or None
    is_late : is a package being registered because one of its members was met?
    is_settling : are the stubs in `passed` being replaced?
    """

    __slots__ = ("is_late", "is_settling", "maker", "making", "now", "retired", "use")

    def __init__(self):
        self.now, self.use, self.retired, self.making = object(), 0, 0, set()
        self.maker, self.is_late, self.is_settling = None, False, False


state = _State()


def item(value):
    """Return the replacement of an item of a container."""
    return value if id(value) in follow.DTYPES else lookup.in_use(value)


def stand_in(value):
    """Return the stand-in of a container.

    Items that are functions are replaced where they are called, attributes of a namespace where they are read.
    """
    return table(value, _attribute if type(value) is types.SimpleNamespace else item)


def _attribute(value):
    return item(value) if isinstance(value, type) else lookup.replaced(value)


def register(original, replacement):
    """Bind names that hold `original` to `replacement` in functions made by `rebound`.

    Parameters
    ----------
    original : object
        Compared by identity: a module, a function, a ufunc.
    replacement : object
        For a module, a module: imports inside a function return it, by a private name in `sys.modules`.
    """
    with lock:
        name = private(getattr(original, "__name__", type(original).__name__))
        BUILTINS[name] = replacement
        if isinstance(original, types.ModuleType):
            sys.modules[name] = replacement
            _make_foreign(original.__name__)
        REGISTERED[id(original)] = (original, replacement, name)
        _make_special(type(original))


def register_class(cls, stand_in, of_subclass=None, is_dtype=False):
    """Replace a class by a stand-in wherever followed code calls it, maps it or reads an attribute of it.

    A subclass that belongs to a module is replaced by ``of_subclass(subclass)``, unless that is None.
    A class that serves as a dtype stays where it is an item of a container.
    """
    CLASSES.add(id(cls))
    if is_dtype:
        follow.DTYPES.add(id(cls))
    register(cls, stand_in)
    if of_subclass is not None:
        _of_subclass[id(cls)] = of_subclass


def register_type(stand_in, used):
    """Replace `type` where it is called: by `used` if the result is called or read from, else by `stand_in`."""
    register_class(type, stand_in)
    BUILTINS[REGISTERED[id(type)][2] + USED] = used


def register_wrapper(kind, inner, make, has_subclasses=False):
    """For wrappers of type `kind` around a function, ``inner(value)``, build replacements by ``make(value, copy)``."""
    with lock:
        follow.MAKERS[kind] = inner, make
        if has_subclasses:
            follow.SUBCLASSED[kind] = inner, make
        follow.WRAPPERS.append(kind)
        _make_special(kind)


def _make_special(kind):
    """Let objects of a type have replacements.

    A deferred registration keeps plans valid: none has reached a member of the package, since that would have run the
    registration.  The exception is a type whose objects were taken for data, which plans do not inspect.
    """
    is_known = kind in follow.INERT
    follow.SPECIAL.add(kind)
    follow.INERT.discard(kind)
    if is_known or not state.is_late:
        retire_plans()


def register_later(package, install):
    """Call `install`, which registers the members of a package ``a`` or ``a.b``, when one of them is first met.

    A module at any depth of a package may have an `install` of its own; several modules may share one.
    """
    deferred[package] = install
    _settled.clear()
    _make_foreign(package)


def forget_plans():
    """Drop all plans, for example because the choice of followed packages changed."""
    with lock:
        retire_plans()


def retire_plans():
    """Drop all plans, but keep them alive for now: copies that still run need their private names."""
    state.retired += 1
    if not plans and not templates:
        return
    _retired.extend([*plans.values(), *templates.values()])
    state.use += 1
    plans.clear()
    templates.clear()


def _make_foreign(package):
    follow.FOREIGN.add(top_package(package))
    follow.REASONS.clear()


def is_registered(value):
    """Return whether `value` is replaced wherever it is met; register its package first if that was deferred."""
    if id(value) not in REGISTERED:
        if (kind := type(value)) is types.FunctionType or kind is types.BuiltinFunctionType:
            if type(value.__module__) is str and value.__module__ in _settled:
                return False
        elif kind in _met_kinds and kind.__module__ in _settled and kind is not types.ModuleType:
            if not callable(value):
                return False
        if deferred:
            _register_module(module_of(value))
            if id(value) not in REGISTERED and callable(value):  # an object that stands for a function
                _register_module(stated_module(value))
            if (kind := type(value)) not in _met_kinds:  # an instance of a user's class derived from a package's
                for base in kind.__mro__[1:]:
                    _register_module(base.__module__)
                _met_kinds.add(kind)
        if isinstance(value, type) and id(value) not in REGISTERED and is_simple(value):
            _register_subclass(value)
    return id(value) in REGISTERED


def _register_subclass(cls):
    """Register a subclass of a class whose subclasses are replaced too."""
    for base in cls.__mro__[1:]:
        _register_module(base.__module__)
        if id(base) in _of_subclass:
            with lock:
                if id(cls) not in REGISTERED and (stand_in := _of_subclass[id(base)](cls)) is not None:
                    register_class(cls, stand_in)
            return


def _register_module(module):
    """Run the deferred registrations of a module and of its package, if there are any."""
    if type(module) is str and module not in _settled:
        register_deferred(two_level_package(module))
        register_deferred(module)
        _settled.add(module)


def register_deferred(package):
    """Run the deferred registration of a package or module, if there is one."""
    with lock:
        if package not in deferred:
            return
        install = deferred.pop(package)
        for other in [name for name, each in deferred.items() if each is install]:
            del deferred[other]
        was_late, state.is_late = state.is_late, True
        try:
            install()
        finally:
            state.is_late = was_late


def is_deferred(value):
    """Return whether a value belongs to a package or module that is registered when a member is first met."""
    if not deferred or (module := module_of(value)) in _settled:
        return False
    return module in deferred or two_level_package(module) in deferred


def module_of(value):
    """Name of the module `value`, or of the module to which it or its class belongs."""
    kind = type(value)
    if kind is types.ModuleType:
        return vars(value).get("__name__")
    is_home = isinstance(value, type) or kind in (types.FunctionType, types.BuiltinFunctionType)
    return (value if is_home else kind).__module__


def stated_module(value):
    """Name of the module that an object states, such as one that stands for a function; never runs the user's code."""
    try:
        return object.__getattribute__(value, "__module__")
    except AttributeError:
        return None


def two_level_package(module):
    """First two components ``a.b`` of a module's name."""
    return ".".join(module.split(".")[:2]) if isinstance(module, str) else None


def set_array_base(base):
    """Let proxy classes of subclasses of NumPy's array inherit from `base`, directly before the array class."""
    with lock:
        array_bases[:] = [base]
        retire_plans()


def see_constants(kind, is_copied, seen, as_plain):
    """Let functions that copy arrays see ``seen(x)`` instead of an array x of class `kind` if ``is_copied(x)``.

    ``as_plain(value)`` returns the plain array of a constant made in a derivative, and other values unchanged.
    """
    with lock:
        _constants[:] = [(is_copied, seen, as_plain)]
        seen_as.add(kind)
        retire_plans()


def is_constant(value):
    """Return whether functions that copy arrays see a replacement of `value`."""
    return bool(_constants) and _constants[0][0](value)


def constant(value):
    """Return the replacement of a constant array for functions that copy arrays; other values are unchanged."""
    return _constants[0][1](value) if is_constant(value) else value


def as_plain(value):
    """Return the plain array of a constant made in a derivative; other values are unchanged."""
    return _constants[0][2](value) if _constants else value


def is_copying(value):
    """Return whether `value` is a function that may copy an array.

    Results of operators are copies, too, if something is stored into them.
    """
    if not _constants or type(value) is not types.FunctionType:
        return False
    code = read(value.__code__)
    return code.fills_results or not COPY_FUNCTIONS.isdisjoint(code.mentioned)


def is_simple(value, is_root=False):
    """Return whether a function or class belongs to a module, so that a reference to it keeps nothing else alive."""
    if type(value) is types.FunctionType:
        is_open = "<locals>" in value.__qualname__ or value.__code__.co_freevars not in ((), ("__class__",))
        return (is_root or not is_open) and follow.is_module_namespace(value.__globals__)
    return "<locals>" not in value.__qualname__ and value.__module__ in sys.modules


def is_class_held(value):
    """Return whether a value is a class that is replaced where it is called or read from."""
    return isinstance(value, type) and (is_registered(value) or follow.is_followed(value))


def is_held_live(value):
    """Return whether a value is a class or a module that is replaced where an attribute is read."""
    return is_class_held(value) or is_followed_module(value)


def holds_module(f):
    """Return whether a function holds a followed module in a cell, a default, or a global name that it passes on."""
    held = f.__globals__
    values = (*contents_of(f), *defaults_of(f), *(held[name] for name in read(f.__code__).bare if name in held))
    return any(type(value) is types.ModuleType and is_followed_module(value) for value in values)
