"""Runs functions with names bound to differentiable replacements, so that plain `np.zeros(n)` can hold traced values.

Method.  A function is copied with a code object in which each name that *holds* a registered object (compared by
identity: the module numpy, numpy.zeros, a ufunc) is replaced by a private name of its replacement (`rename`).
Functions reached through a global name, a closure cell or an attribute of a module are followed, that is, copied too,
whatever package they belong to (`follow`).  Methods are reached by attribute, so an object is replaced by a *proxy*: an
instance of a subclass whose methods are copies, sharing the object's `__dict__`, slots or memory.  Attributes with
values to be replaced are descriptors of that subclass, which return the replacement and write to the object.  Modules,
imports and containers of functions are replaced by stand-ins that replace what is read from them (`tables`).

Invariants
- Globals, `__dict__`, defaults, and cells that hold nothing to be replaced are shared with f: copies see changes, and
  writes take effect.  A name or a cell that the code itself assigns is never renamed.
- A copy is reused while everything inspected to build it is unchanged: values of names, cells and attributes, code
  and defaults of followed functions, methods of followed classes.  Otherwise it is rebuilt.  Values of a type that is
  never followed are compared by type only.
- No user object is written to, and none is kept alive except those that a module holds: the tables have weak keys,
  and the number of plans that may keep their own key alive (those with classes or of namespaces made by `exec`) is
  bounded.

Cost.  A plan explores at most `_MAX_FUNCTIONS` functions.  Functions of a module beyond them are copied when they are
first called, each by a plan of its own that explores nothing else.

Classes stay themselves, so that identity and `isinstance` hold, and are replaced where they are called or read from:
by a global name, an attribute of a module, a variable (`rename` inserts a call of `_callee`), and an attribute of a
class or of an object that is reached before the call.  Proxy classes are equal to their originals as keys.

Limits.  Not followed: C functions, the packages that `follow` excludes, methods of classes in attributes of objects
that f makes itself, functions that come from C code and are called at once, functions in the middle of a long
container, and attributes of objects beyond the first hundred objects.  No proxies for objects with state in C other
than that of an array or a tuple, such as subclasses of dict and list, for enumerations, nor for classes with `__del__`.
`is`, hashes by identity and `type(x) is C` distinguish proxies and copies from originals.  A replaced cell is no longer
shared with functions that are not followed.  A name that a callee or another thread rebinds *during* a call takes
effect at the next call; attributes of objects and modules take effect at once.
"""

import abc
import collections
import contextvars
import copyreg
import functools
import importlib
import importlib.util
import pkgutil
import sys
import threading
import types
import weakref

from wengert.core.rebind.follow import (
    DTYPES,
    FOREIGN,
    INERT,
    LRU,
    MAKERS,
    METHODS,
    REASONS,
    REGISTERED,
    SPECIAL,
    SUBCLASSED,
    WRAPPERS,
    assigned_cells,
    attributes_of,
    can_copy,
    can_have_proxy,
    content_of,
    contents_of,
    defaults_of,
    ends_in_code,
    has_subclass_hook,
    held_by,
    is_array_class,
    is_computed,
    is_differentiated,
    is_dispatcher,
    is_followed,
    is_followed_function,
    is_followed_module,
    is_followed_object,
    is_module_namespace,
    is_part,
    is_plain_object,
    is_table,
    marks_of,
    module_reads,
    parts_of,
    py_func_of,
    reads_computed,
    slots_of,
    space_of,
    state_of,
    tables_of,
    top_package,
    why_unfollowed,
)
from wengert.core.rebind.rename import (
    BUILTINS,
    CALLED,
    CALLEE,
    IN_USE,
    READ,
    USED,
    alias_of,
    chain,
    forget,
    live_alias,
    private,
    read,
    reads_for_use,
    rename,
    uses_only,
)
from wengert.core.rebind.tables import TABLES, table

__all__ = [
    "ModuleProxy",
    "Plan",
    "forget_plans",
    "full_name",
    "in_use",
    "like",
    "make_proxy_class",
    "note_unplanned",
    "original",
    "partial_like",
    "rebound",
    "register",
    "register_class",
    "register_later",
    "register_library",
    "register_wrapper",
    "running_plan",
    "unplanned",
]

_OWN = __name__.partition(".")[0]
_MAX_PINNED = 4096  # maximum number of plans that may keep their own key alive
_MAX_FUNCTIONS = 250  # functions explored at once: about 50 us each in the first call, 60 ns in later ones
_MAX_OBJECTS = 100  # number of objects in one plan beyond which attributes of objects are not followed
_GROWING = TABLES - {tuple}
_COPY_FUNCTIONS = {"copy", "deepcopy", "astype", "flatten"}  # names of functions and methods that copy an array

#: plan with copies of its own that runs in this context: stand-ins of containers, modules and the like return these
running_plan = contextvars.ContextVar("wengert_running_plan", default=None)
_plans = {}  # id(function, class or object) -> Plan
_proxy_classes = weakref.WeakValueDictionary()  # id(class) -> its proxy class
_pinned = collections.deque()
_retired = collections.deque(maxlen=_MAX_PINNED)  # dropped plans
#: held while plans, registrations and copies of modules change.  The import lock of a module that registers functions
#: comes first, since a thread that imports it by hand holds that one when it registers: plans never import under this.
lock = threading.RLock()
_constants = []  # the arguments of `see_constants`, once NumPy is registered
_checks_in_progress = set()  # subclass checks as (id of the proxy class, id of the subclass, thread)
_seen_as = set()  # classes of arrays seen as views of another class, which is their attribute `_wengert_original`
_classes = set()  # ids of registered classes that are replaced only where they are called or read from
_of_subclass = {}  # id(registered class) -> function that returns the stand-in of a subclass
_array_bases = []  # bases of proxy classes of subclasses of NumPy's array
_imports = {}  # (module, form of the import, package) -> private name of what import statements yield
_met_kinds = weakref.WeakSet()  # types whose bases' packages have been registered
_deferred = {}  # package -> (function that registers its functions when one of them is first met, does it import?)
#: name of a function or class -> why it is not followed, if code of the user's raised when it was inspected
unplanned = {}
_importing = set()  # packages registered by a running import, with the thread
_planning = threading.local()  # `depth`: number of plans that this thread makes, under `lock`

# Proxies of objects -----------------------------------------------------------------------------------------


def _key_of(cls):
    """The class that a class equals as a key: of a proxy class the original, but not if it is only inherited."""
    return vars(cls).get("_wengert_original") or cls  # None in classes of traced arrays


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
        return isinstance(other, type) and _key_of(cls) is _key_of(other)

    def __hash__(cls):
        return type.__hash__(_key_of(cls))

    def __instancecheck__(cls, instance):
        return isinstance(instance, cls._wengert_original)

    def __subclasscheck__(cls, subclass):
        return issubclass(subclass, cls._wengert_original)


class _AbstractProxyMeta(_ProxyMeta, abc.ABCMeta):
    def __subclasscheck__(cls, subclass):
        """Break the recursion of ABCMeta, whose check of the original class asks all subclasses, this one included."""
        check = id(cls), id(subclass), threading.get_ident()
        if check in _checks_in_progress:
            return False
        _checks_in_progress.add(check)
        try:
            return issubclass(subclass, cls._wengert_original)
        finally:
            _checks_in_progress.discard(check)


@functools.cache
def _proxy_meta(meta):
    """Metaclass of the proxy classes of classes with this metaclass, whose own `__new__` and `__init__` never run."""
    if meta is type:
        return _ProxyMeta
    if meta is abc.ABCMeta:
        return _AbstractProxyMeta
    body = {"__new__": type.__new__, "__init__": lambda cls, *args: None}
    if any("__call__" in vars(base) for base in meta.__mro__[: meta.__mro__.index(type)]):
        # Such as a metaclass of singletons, which must see the original class.
        body["__call__"] = lambda cls, *args, **options: _replaced(cls._wengert_original(*args, **options))
    is_abstract = issubclass(meta, abc.ABCMeta)
    return type(meta.__name__, (_AbstractProxyMeta if is_abstract else _ProxyMeta, meta), body)


def make_proxy_class(cls, bases, /, **body):
    body |= {name: getattr(cls, name) for name in ("__module__", "__qualname__", "__doc__")}
    body |= {"__class__": property(functools.partial(_class_of, cls)), "_wengert_original": cls}
    body["_wengert_share"] = staticmethod(_sharing(cls))
    if not cls.__dictoffset__:
        body.setdefault("__slots__", ())
    kind = _proxy_meta(type(cls))
    if not has_subclass_hook(cls):
        return kind(cls.__name__, tuple(bases), body)
    first = _WithoutHookButDict if is_plain_object(cls) else _WithoutHook
    new = kind(cls.__name__, (first, *bases), body)
    try:
        new.__bases__ = tuple(bases)
    except TypeError:  # the layouts differ, as they do if a base has empty slots, such as abc.ABC
        new = kind(cls.__name__, (_hook_filter(), *bases), body)
    return new


def _class_of(cls, proxy):
    """The attribute `__class__` of a proxy: its own class for calls and to read from, else the original one."""
    frame = sys._getframe(1)
    return type(proxy) if reads_for_use(frame.f_code, frame.f_lasti, "__class__") else cls


class _WithoutHook:
    """Hides the `__init_subclass__` of the bases after it while a proxy class is made."""

    __slots__ = ()

    def __init_subclass__(cls, **options):
        pass


class _WithoutHookButDict:
    """The same with the layout of objects that have only a `__dict__`: `__bases__` can be assigned between equals."""

    __init_subclass__ = vars(_WithoutHook)["__init_subclass__"]


def _hook_filter():
    """Return a new base class that runs the `__init_subclass__` of the bases after it for subclasses made by f only.

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
        return new if known is value else _replaced(value)

    def __set__(self, proxy, value):
        known, new = self.known(proxy)
        proxy.__dict__[self.name] = known if new is value else value

    def __delete__(self, proxy):
        if self.name not in proxy.__dict__:
            raise AttributeError(self.name)
        del proxy.__dict__[self.name]


def _class_read(cls, name):
    """Return a class that the caller of the caller reads from an attribute, or its replacement to call or read from."""
    frame = sys._getframe(2)
    return in_use(cls) if reads_for_use(frame.f_code, frame.f_lasti, name) else cls


class _ClassAttribute:
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
        new = _replaced(value)
        get = getattr(type(new), "__get__", None)
        return new if get is None else get(new, proxy, cls)


class _ClassDescriptor(_ClassAttribute):
    """The same for a data descriptor."""

    def __set__(self, proxy, value):
        descriptor = _replaced(self.space[self.name])
        type(descriptor).__set__(descriptor, proxy, value)

    def __delete__(self, proxy):
        descriptor = _replaced(self.space[self.name])
        type(descriptor).__delete__(descriptor, proxy)


class _Slot:
    """A slot of a proxy: reads return the replacement of the value in the slot of the object, writes go there."""

    def __init__(self, member):
        self.member = member

    def whole(self, proxy):
        """The object of a proxy; a proxy made in f from another one, by `copy` or similar, has slots of its own."""
        try:
            return self.leaf._wengert_whole.__get__(proxy)
        except AttributeError:
            return proxy

    def __get__(self, proxy, cls):
        if proxy is None:
            return self.member
        return _replaced(self.member.__get__(self.whole(proxy)))

    def __set__(self, proxy, value):
        self.member.__set__(self.whole(proxy), value)

    def __delete__(self, proxy):
        self.member.__delete__(self.whole(proxy))


class ModuleProxy(types.ModuleType):
    """A user's module as seen by renamed code: reads and writes go to the module, and functions are rebound.

    Classes are replaced where they are called or read from; renamed code reads them by the names of that use.
    """

    __slots__ = ("_wengert_of",)

    def __init__(self, module):
        _of.__set__(self, module)

    def __getattribute__(self, name):
        if name.startswith(_USES):
            return in_use(getattr(_of.__get__(self), name.removeprefix(CALLED).removeprefix(READ)))
        value = getattr(_of.__get__(self), name)
        return value if type(value) in INERT and type(value) not in TABLES else _replaced(value)

    def __setattr__(self, name, value):
        setattr(_of.__get__(self), name, value)

    def __delattr__(self, name):
        delattr(_of.__get__(self), name)

    def _wengert_has(self, name):
        """Return whether the attribute is a class that may be replaced."""
        return _has_class(_of.__get__(self), name)

    def _wengert_holds(self, name):
        return name in vars(_of.__get__(self))

    def _wengert_below(self, name):
        """Proxy of a followed module in this attribute, or None."""
        return _module_below(_of.__get__(self), name)


_of = ModuleProxy._wengert_of
_USES = CALLED, READ


class _ModuleInUse(ModuleProxy):
    """A proxy of a user's module for functions that only call, map or read from its classes."""

    __slots__ = ()

    def __getattribute__(self, name):
        value = getattr(_of.__get__(self), name)
        return value if type(value) in INERT and type(value) not in TABLES else in_use(value)


class _Imported(ModuleProxy):
    """The module that an import statement of followed code yields.

    The statement loads it by reading `__spec__`, and ignores errors of that; the next name read from it raises again.
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
        return name in vars(sys.modules.get(_names.__get__(self)[1], types))

    def _wengert_below(self, name):
        module = sys.modules.get(_names.__get__(self)[1])
        return None if module is None else _module_below(module, name)


class _ImportedInUse(_Imported):
    """The same for functions that only call, map or read from the classes that they import."""

    __slots__ = ()

    def __getattribute__(self, name):
        if name == "__spec__" or _of.__get__(self) is None:
            return _Imported.__getattribute__(self, name)
        return _ModuleInUse.__getattribute__(self, name)


_names = _Imported._wengert_names


def _has_class(module, name):
    return _is_class_held(vars(module).get(name))


def _module_below(module, name):
    value = vars(module).get(name)
    return ModuleProxy(value) if is_followed_module(value) else None


def _item(value):
    """Replacement of an item of a container."""
    return value if id(value) in DTYPES else in_use(value)


def in_use(value):
    """Replacement of a value that is called or read from."""
    plan = running_plan.get()
    if plan is not None and id(value) in plan.changed:
        return plan.build(value, plan.memo)
    if isinstance(value, type):
        if is_registered(value):
            return REGISTERED[id(value)][1]
        return _proxy_of(value, _plan_of(value)) if is_followed(value) else value
    if is_constant(value):
        return value
    return _ModuleInUse(value) if is_followed_module(value) else _replaced(value)


class Library(ModuleProxy):
    """A proxy of a library module: registered functions are replaced, classes only where they are called or read."""

    __slots__ = ()

    def __getattribute__(self, name):
        module = _of.__get__(self)
        if name.startswith(_USES):
            value = getattr(module, name.removeprefix(CALLED).removeprefix(READ))
            return REGISTERED[id(value)][1] if id(value) in REGISTERED else value
        value = getattr(module, name)
        return REGISTERED[id(value)][1] if id(value) in REGISTERED and id(value) not in _classes else value

    def _wengert_has(self, name):
        return id(getattr(_of.__get__(self), name, None)) in _classes

    def _wengert_below(self, name):
        return None


class _LibraryInUse(ModuleProxy):
    """A proxy of a library module for functions that only call, map or read from the classes they import."""

    __slots__ = ()

    def __getattribute__(self, name):
        value = getattr(_of.__get__(self), name)
        return REGISTERED[id(value)][1] if id(value) in REGISTERED else value


# Plans ------------------------------------------------------------------------------------------------------


class Plan:
    """How a function runs or a class or object is replaced, with everything that was inspected to decide it.

    `changed` maps the id of each object to be replaced to its renamed code (functions), its proxy class (classes)
    or True; `run` is the entry of the root.  Objects that a module holds anyway are compared by identity: `fixed`
    holds names with their values, as (get, name, value), and `codes` functions; for `kinds` comparing types is enough;
    `sizes` and `orders` detect new methods and bases, and `data` new functions in containers of data.  All other
    objects are known by id: `cells` of the root, `holders` (objects with their attributes), and `loose`.  The death of
    any of them ends the plan, so that a reused id is never mistaken for an old one.

    Functions that copy arrays, in `copying`, see constant arrays through `constant`, so that traced values can be
    stored in the copies: in arguments, cells, attributes of objects, and attributes of arrays in global names.
    """

    __slots__ = ("aliases", "cells", "changed", "code", "codes", "copies", "copy", "copying", "data", "defaults",
                 "fixed", "holders", "is_plain", "kinds", "lazy", "loose", "methods", "orders", "recipes",
                 "refs", "run", "sizes", "written")  # fmt: skip

    proxy_classes = _proxy_classes
    enters_differentiated = False  # are functions that define their own derivative followed?

    def __init__(self, root, limit=_MAX_FUNCTIONS):
        self.aliases, self.changed, self.recipes, self.methods = [], {}, {}, {}
        self.copies, self.copy = {}, None
        nodes, objects = self.explore(root, self.reached(root, limit))
        self.watch(root, nodes, objects)
        classes = self.make(nodes, {})
        self.run = self.changed.get(id(root))
        is_lasting = type(root) is not types.FunctionType or is_module_namespace(root.__globals__)
        if self.run and self.code:
            if self.run is root.__code__ and not (any(self.recipe(root)[:2]) or id(root) in self.copying):
                self.run = None
            # Cached only if it reaches nothing but what a module holds; otherwise it would keep its own key alive.
            elif is_lasting and not root.__closure__:
                self.copy = self.copy_function(root, self.run, {})
        if classes or (self.aliases and not is_lasting):
            _pinned.append(id(root))
            while len(_pinned) > _MAX_PINNED:
                _plans.pop(_pinned.popleft(), None)

    def make(self, nodes, memo):
        """Rename the code of functions, make the proxy classes, fill the aliases, and return the classes."""
        for value in nodes:
            if type(value) is types.FunctionType and id(value) in self.changed and not is_dispatcher(value):
                self.rename(value)
        self.changed.update(dict.fromkeys(self.lazy, self.when_called))
        fresh = []
        classes = [value for value in nodes if isinstance(value, type)]
        for cls in classes:
            self.enter_proxy_class(cls, fresh)
        for cls in fresh:  # all proxy classes exist now, so methods may hold instances of any of them
            self.fill(cls, memo)
        for alias in self.aliases:
            BUILTINS[alias.name] = self.build(alias.ref(), memo)
        return classes

    @classmethod
    def reached(cls, root, limit=sys.maxsize, enters=None):
        """Explore what is reachable from `root`, but at most `limit` functions, and only those with ``enters(f)``.

        Returns
        -------
        list, dict, list, dict, dict
            Objects reached; the users of each; ids of those to replace in any case; instances by id; and further
            functions by id, which are not explored.
        """
        nodes, met, users, seeds, objects, lazy = [], set(), {}, [], {}, {}
        count = 0

        def enter(value):
            nonlocal count
            kind = type(value)
            if kind is types.FunctionType:
                count += 1
                if (count > limit and _is_simple(value)) or (enters is not None and not enters(value)):
                    lazy[id(value)] = value
                    seeds.append(id(value))
                    met.add(id(value))
                    return
            if kind is LRU or kind in MAKERS or is_dispatcher(value) or (kind not in SPECIAL and py_func_of(value)):
                seeds.append(id(value))  # the Python function runs instead, even if it is not renamed
            elif kind is not types.FunctionType and kind not in WRAPPERS and not isinstance(value, (type, *TABLES)):
                objects[id(value)] = value
            met.add(id(value))
            nodes.append(value)

        if type(root) is not types.FunctionType or can_copy(root):
            enter(root)
        for value in nodes:
            key = id(value)
            parts = parts_of(value)
            if len(objects) > _MAX_OBJECTS and key in objects:
                del parts[1:]
            for part in parts:
                if is_registered(part):
                    seeds.append(key)
                    continue
                if id(part) not in met:
                    if not is_followed(part) or (is_differentiated(part) and not cls.enters_differentiated):
                        continue
                    enter(part)
                users.setdefault(id(part), []).append(key)
        return nodes, users, seeds, objects, lazy

    def explore(self, root, reached=None):
        """Find the objects reachable from `root` and enter those that reach a registered one in `changed`."""
        nodes, users, seeds, objects, self.lazy = reached or self.reached(root)
        seeds = [*seeds, *[id(value) for value in nodes if self.is_seed(value)]]
        self.copying = {id(value) for value in nodes if is_copying(value)}
        self.written = {id(cell) for value in nodes if self.copying for cell in assigned_cells(value)}
        while seeds:
            key = seeds.pop()
            if key not in self.changed:
                self.changed[key] = True
                seeds += users.get(key, ())
        for key, value in objects.items():
            if key in self.changed:  # what it holds is replaced, so it needs a proxy class even if no method changes
                self.changed.setdefault(id(type(value)), True)
        return nodes, objects

    def is_seed(self, value):
        """Return whether `value` is replaced regardless of what it reaches."""
        if type(value) is not types.FunctionType:
            space = vars(value) if isinstance(value, type) else space_of(value) if is_followed_object(value) else {}
            return any(map(_is_held_live, space.copy().values()))
        code = read(value.__code__)
        return bool(
            is_copying(value)
            or code.calls_variables
            or (code.imports and self.imports(value))
            or ((value.__closure__ or value.__defaults__ or value.__kwdefaults__) and _holds_module(value))
            or reads_computed(value)
        )

    def is_replaced(self, space, name, value):
        """Does a name of this namespace, with this value, get a replacement?"""
        return id(value) in REGISTERED or id(value) in self.changed

    @staticmethod
    def imports(f):
        if not read(f.__code__).imports:
            return {}
        found = ((key, _import_alias(f.__globals__, *key)) for key in read(f.__code__).imports)
        return {key: alias for key, alias in found if alias}

    def watch(self, root, nodes, objects):
        """Save everything that `holds` compares."""
        met, fixed, kinds = {*map(id, nodes), *self.lazy}, {}, {}
        codes, sizes, holders, data, self.loose = [], {}, [], {}, []
        end = functools.partial(forget, _plans, id(root))
        self.refs = [weakref.ref(root, end)]
        self.code = root.__code__ if type(root) is types.FunctionType else None
        self.defaults = self.code and (id(root.__defaults__), id(root.__kwdefaults__))
        self.cells = ()
        if self.code and root.__closure__:
            cells = enumerate(zip(marks_of(map(content_of, root.__closure__)), self.code.co_freevars))
            self.cells = tuple((k, mark) for k, (mark, name) in cells if name not in read(self.code).written)

        def note(space, name):
            value = space.get(name)
            if type(value) in _GROWING and not is_table(value):
                data[id(space), name] = space.get, name
            if type(value) in SPECIAL or id(value) in met or id(value) in REGISTERED:
                fixed[id(space), name] = space.get, name, value
            else:
                kinds[id(space), name] = space.get, name, type(value)

        for value in nodes:
            is_root = value is root and self.code is not None
            if type(value) is types.FunctionType and _is_simple(value, is_root):
                for name in read(value.__code__).names:
                    note(value.__globals__, name)
                for _, module, name, _ in module_reads(value):
                    note(vars(module), name)
                for name, form, level in read(value.__code__).imports:
                    if form != "from" and not level:
                        kinds[None, name] = sys.modules.get, name, type(sys.modules.get(name))
                if not is_root:
                    codes.append((value, value.__code__, value.__defaults__))
                if is_root or not value.__kwdefaults__:
                    continue
            elif isinstance(value, type) and _is_simple(value):
                space = vars(value)
                for name, part in space.copy().items():
                    if type(part) in METHODS:
                        fixed[id(value), name] = space.get, name, part
                    elif not name.startswith("__"):
                        kinds[id(value), name] = space.get, name, type(part)
                sizes[value] = space, len(space)
                continue
            if type(value) in TABLES:  # read live by their stand-ins
                continue
            try:
                ref = weakref.ref(value, end)
            except TypeError:  # a property or similar: its class and its function are watched
                continue
            self.refs.append(ref)
            if type(value) is types.FunctionType:
                self.refs.append(weakref.ref(value.__code__, end))
            if id(value) in objects:
                holders.append((ref, id(type(value)), id(space_of(value)), held_by(space_of(value))))
            else:
                self.loose.append((ref, state_of(value)))
        self.fixed, self.kinds = tuple(fixed.values()), tuple(kinds.values())
        self.data = tuple(data.values())
        self.codes, self.sizes = tuple(codes), tuple(sizes.values())
        bases = {base for cls in sizes for base in cls.__mro__[1:]}
        self.orders = tuple((cls, cls.__mro__) for cls in sizes if cls not in bases)
        self.holders = tuple(holders)
        has_defaults = self.code and (root.__defaults__ or root.__kwdefaults__)
        parts = has_defaults, data, codes, sizes, self.orders, self.cells, holders, self.loose
        self.is_plain = not any(parts)

    def holds(self, root):
        """Return whether all that was inspected to make the plan is unchanged."""
        for get, name, value in self.fixed:
            if get(name) is not value:
                return False
        for get, name, kind in self.kinds:
            if type(get(name)) is not kind:
                return False
        if not self.is_plain:
            return self.rest_holds(root)
        return self.code is None or not (root.__defaults__ or root.__kwdefaults__)

    def rest_holds(self, root):
        """Check the parts that most plans do not have."""
        if self.code and (id(root.__defaults__), id(root.__kwdefaults__)) != self.defaults:
            return False
        for get, name in self.data:
            if ends_in_code(get(name)):
                return False
        for f, code, defaults in self.codes:
            if f.__code__ is not code or f.__defaults__ is not defaults:
                return False
        for space, size in self.sizes:
            if len(space) != size:
                return False
        for cls, mro in self.orders:
            if cls.__mro__ is not mro:
                return False
        if self.cells:
            cells = root.__closure__
            for k, mark in self.cells:
                try:
                    value = cells[k].cell_contents
                except ValueError:
                    value = None
                if type(value) is not mark and id(value) != mark:
                    return False
        for ref, kind, space, held in self.holders:
            value = ref()
            if value is None or id(type(value)) != kind or id(space_of(value)) != space:
                return False
            if held_by(space_of(value)) != held:
                return False
        for ref, state in self.loose:
            value = ref()
            if value is None or state_of(value) != state:
                return False
        return True

    def renaming(self, f):
        """Return the arguments of `rename` for f's code, and the aliases among the new names."""
        held, names, sources, aliases = f.__globals__, {}, set(), []

        def stand_in(name, value):
            alias = self.alias(value, name)
            aliases.append(alias)
            names[name] = alias.name
            if isinstance(value, types.ModuleType):  # needed for renaming; `make` enters the final one
                BUILTINS.setdefault(alias.name, ModuleProxy(value))
            if isinstance(value, (type, types.ModuleType)):
                sources.add(name)

        for name in read(f.__code__).names:
            value = held[name] if name in held else BUILTINS.get(name)
            if id(value) in REGISTERED:
                names[name] = REGISTERED[id(value)][2]
                if id(value) in _classes:
                    sources.add(name)
            elif id(value) in self.changed:
                stand_in(name, value)
            elif id(f) in self.copying and is_constant(value):
                aliases.append(live_alias(held, name, constant))
                names[name] = aliases[-1].name
                sources.add(name)
        for name, module, attribute, value in module_reads(f):
            is_met = self.is_replaced(vars(module), attribute, value) or is_computed(module, attribute)
            if name not in names and is_met:
                self.changed[id(held[name])] = True
                stand_in(name, held[name])
        return (names, sources, self.imports(f)), aliases

    alias = staticmethod(alias_of)

    @staticmethod
    def when_called(f):
        """Return a function that stands for one that was not explored: it copies f when it is called."""

        def run(*args, **kwargs):
            if id(f) not in _plans:
                _bind(f, 1)
            return rebound(f)(*args, **kwargs)

        return like(f, run)

    def rename(self, f):
        """Enter f's renamed code in `changed`."""
        known = read(f.__code__)
        key, aliases = self.renaming(f)
        if known.latest[0] != key:
            # Kept with a module's code, so that new function objects of the same lambda share the aliases.
            kept = aliases if is_module_namespace(f.__globals__) else []
            known.latest = (key, rename(f.__code__, *key), kept)
        self.aliases += aliases
        self.changed[id(f)] = known.latest[1]

    def enter_proxy_class(self, cls, fresh):
        """Enter the proxy class of `cls`, if it gets one; a new one, still without methods, is added to `fresh`.

        Its bases are `cls` and the proxy classes of the bases of `cls`.  So each proxy class directly precedes its
        original in the MRO, where `super()` in the class above finds it.
        """
        if self.changed.get(id(cls)) is not True:
            return
        for base in cls.__bases__:
            self.enter_proxy_class(base, fresh)
        bases = [cls, *(self.changed[id(base)] for base in cls.__bases__ if id(base) in self.changed)]
        bases += _array_bases if is_array_class(cls) else []
        recipe = [bases]
        for name, value in self.replaced_methods(cls):
            codes = [self.changed.get(id(part)) for part in parts_of(value)]
            recipe.append((name, id(value), self.changed[id(value)], codes))
        recipe += [(name, kind) for name, kind in self.class_attributes(cls)]
        proxy = self.proxy_classes.get(id(cls))
        if proxy is None or proxy._wengert_recipe != recipe:
            try:
                proxy = make_proxy_class(cls, bases, _wengert_recipe=recipe, _wengert_leaves={})
            except TypeError:  # no consistent MRO
                del self.changed[id(cls)]
                return
            fresh.append(cls)
        self.changed[id(cls)] = proxy

    def replaced_methods(self, cls):
        """Names and values in the body of `cls` that get replaced."""
        return [
            (name, value)
            for name, value in vars(cls).copy().items()
            if id(value) in self.changed and (type(value) in METHODS or type(value) in TABLES)
        ]

    def class_attributes(self, cls):
        """Names and types of the descriptors for attributes of `cls` that are read live."""
        return [
            (name, _ClassDescriptor if hasattr(type(value), "__set__") else _ClassAttribute)
            for name, value in vars(cls).copy().items()
            if not name.startswith("__") and (self.is_replaced_part(value) or _is_class_held(value))
        ]

    def is_replaced_part(self, value):
        return is_part(value) and (id(value) in self.changed or id(value) in REGISTERED)

    def fill(self, cls, memo):
        for name, kind in self.class_attributes(cls):
            type.__setattr__(self.changed[id(cls)], name, kind(name, self.changed[id(cls)]))
        for name, value in self.replaced_methods(cls):
            method = self.build(value, memo)
            if name in _REFLECTED and type(method) is types.FunctionType:
                method = _reflected(name, method)
            type.__setattr__(self.changed[id(cls)], name, method)
            if type(method) is functools.cached_property:
                method.__set_name__(cls, name)
        self.proxy_classes[id(cls)] = self.changed[id(cls)]

    def build(self, value, memo):
        """Return the replacement of `value`, or `value`; `memo` closes cycles through cells and attributes."""
        key, kind = id(value), type(value)
        if key in REGISTERED:
            return REGISTERED[key][1]
        new = self.changed.get(key)
        if new is None:
            return ModuleProxy(value) if is_followed_module(value) else constant(value)
        if key in memo:
            return memo[key]
        if kind is types.FunctionType:
            copy = self.copies.get(key)
            if key in self.lazy:
                return new(value)
            if is_dispatcher(value):
                return _dispatching(value)
            if copy is None:
                copy = self.wrap_copy(value, self.copy_function(value, new, memo))
                if _is_simple(value):
                    self.copies[key] = copy
            return copy
        if kind is functools.partial:
            args = [self.build(arg, memo) for arg in (value.func, *value.args)]
            return partial_like(value, args, {name: self.build(arg, memo) for name, arg in value.keywords.items()})
        if kind is property:
            return kind(*(self.build(part, memo) for part in parts_of(value)), value.__doc__)
        if kind in MAKERS:
            inner, make = MAKERS[kind]
            return make(value, self.build(inner(value), memo))
        if kind is functools.partialmethod:
            return kind(self.build(value.func, memo), *value.args, **value.keywords)
        if kind is functools.cached_property:
            return kind(_keeping_plain(self.build(value.func, memo)))
        if kind in WRAPPERS and kind is not LRU:
            return kind(*(self.build(part, memo) for part in parts_of(value)))
        if kind is types.ModuleType:
            return self.module_proxy(value, memo)
        if kind in TABLES:
            return table(value, _item)
        if isinstance(value, type):
            return new if isinstance(new, type) else value
        if kind is LRU or py_func_of(value):
            return self.build(parts_of(value)[0], memo)
        return self.object_proxy(value, memo)

    def module_proxy(self, module, memo):
        """Return the replacement of a user's module."""
        return ModuleProxy(module)

    def object_proxy(self, value, memo):
        """Return the proxy of an object, or the object if its class has no proxy class."""
        cls = self.changed.get(id(type(value)))
        if not isinstance(cls, type):
            return value
        names = self.recipes.get(id(value))
        if names is None:
            held = [*attributes_of(value).items(), *tables_of(value).items()]
            names = [name for name, v in held if id(v) in REGISTERED or id(v) in self.changed]
            names += [name for name, v in space_of(value).items() if _is_held_live(v)]
            if self.copying:
                names += [name for name, v in space_of(value).items() if is_constant(v)]
            kind = type(value)
            names = tuple(name for name in names if not _is_data_descriptor(kind, name))
            self.recipes[id(value)] = names
        proxy = memo[id(value)] = _share(value, _leaf(cls, names) if names else cls)
        if names:
            space = space_of(value)
            held = {name: (v, self.build(v, memo)) for name in names if (v := space.get(name)) is not None}
            type(proxy)._wengert_held.__set__(proxy, held)
        return proxy

    def copy_function(self, f, code, memo):
        swaps, has_own_defaults, attributes = self.recipes.get(id(f)) or self.recipe(f)
        cells = f.__closure__
        if swaps:
            cells = [*cells]
            for k in swaps:
                # Functions that shared a cell share its copy.
                cells[k] = memo.setdefault(id(cells[k]), types.CellType())
            cells = tuple(cells)
        copy = memo[id(f)] = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, cells)
        copy.__dict__ = f.__dict__
        for name in attributes:
            setattr(copy, name, getattr(f, name))
        if has_own_defaults:
            copy.__defaults__ = tuple(self.default(f, v, memo) for v in f.__defaults__ or ()) or None
            words = f.__kwdefaults__ or {}
            copy.__kwdefaults__ = {name: self.default(f, v, memo) for name, v in words.items()} or None
        for k in swaps:
            new = self.content(f.__closure__[k], memo)
            if type(new) is ModuleProxy and uses_only(f.__code__, new):
                new = _ModuleInUse(_of.__get__(new))
            cells[k].cell_contents = new
        return copy

    def wrap_copy(self, f, copy):
        """Wrap a copy of f so that its arguments pass through `constant`, if it copies arrays."""
        if id(f) not in self.copying:
            return copy

        def run(*args, **kwargs):
            return copy(*map(constant, args), **{name: constant(value) for name, value in kwargs.items()})

        run.__dict__, run.__name__, run.__qualname__, run.__doc__ = copy.__dict__, f.__name__, f.__qualname__, f.__doc__
        return run

    def default(self, f, value, memo):
        """Return the default that a copy of f has in place of `value`."""
        return self.build(value, memo) if not isinstance(value, type) and self.is_swapped(f, value) else value

    def is_swapped(self, f, value):
        """Return whether a value that f holds is replaced."""
        if id(value) in REGISTERED or id(value) in self.changed or is_followed_module(value):
            return True
        return id(f) in self.copying and is_constant(value)

    def content(self, cell, memo):
        """Return the content of a replaced cell."""
        return self.build(cell.cell_contents, memo)

    def recipe(self, f):
        """Indices of the cells of f to replace, whether defaults are replaced, and attributes set separately."""
        swaps = [
            k
            for k, content in enumerate(contents_of(f))
            if self.is_swapped(f, content) and not (is_constant(content) and id(f.__closure__[k]) in self.written)
        ]
        has_own_defaults = any(self.is_swapped(f, value) for value in defaults_of(f))
        bare = types.FunctionType(f.__code__, f.__globals__, f.__name__, None, f.__closure__)
        attributes = [name for name in _COPIED_ATTRIBUTES if getattr(f, name) != getattr(bare, name)]
        self.recipes[id(f)] = recipe = swaps, has_own_defaults, attributes
        return recipe


# From Python 3.14 on, annotations are computed at first access.
_COPIED_ATTRIBUTES = ["__kwdefaults__", "__module__", "__qualname__", "__doc__"] + [
    name
    for name in ("__annotate__" if hasattr(top_package, "__annotate__") else "__annotations__", "__type_params__")
    if hasattr(top_package, name)
]


def _is_class_held(value):
    """Return whether a value is a class that is replaced where it is called or read from."""
    return isinstance(value, type) and (is_registered(value) or is_followed(value))


def _is_held_live(value):
    """Return whether a value is a class or a module that is replaced where an attribute is read."""
    return _is_class_held(value) or is_followed_module(value)


def _is_simple(value, is_root=False):
    """Does a function or class belong to a module, so that a reference to it keeps nothing else alive?"""
    if type(value) is types.FunctionType:
        is_open = "<locals>" in value.__qualname__ or value.__code__.co_freevars not in ((), ("__class__",))
        return (is_root or not is_open) and is_module_namespace(value.__globals__)
    return "<locals>" not in value.__qualname__ and value.__module__ in sys.modules


_OPERATORS = "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or".split()
#: reflected methods of operators, with the name of the method of the left operand
_REFLECTED = {f"__r{name}__": f"__{name}__" for name in _OPERATORS}


def _reflected(name, method):
    """Return a reflected method of a proxy class that gives precedence to the left operand where the original does.

    Python asks the right operand first if its class derives from that of the left one, as a proxy class always does,
    and has another method.
    """

    def run(self, other, *modulo):
        own, left = _key_of(type(self)), _key_of(type(other))
        if own is not left and getattr(own, name) is not getattr(left, name, None):
            return method(self, other, *modulo)
        forward = getattr(type(self) if own is left else type(other), _REFLECTED[name], None)
        y = NotImplemented if forward is None else forward(other, self, *modulo)
        return method(self, other, *modulo) if y is NotImplemented and own is not left else y

    return like(method, run)


def like(f, run):
    """Return `run` with the name and the attributes of f."""
    run.__dict__ = f.__dict__
    for name in ("__module__", "__name__", "__qualname__", "__doc__"):
        setattr(run, name, getattr(f, name))
    return run


def _keeping_plain(f):
    """Wrap the function of a cached property, whose results outlive the derivative, to return constants as plain."""

    @functools.wraps(f)
    def run(self):
        value = f(self)
        return _constants[0][2](value) if _constants else value

    return run


def partial_like(value, args, keywords):
    """A partial with other parts, the function first, and the attributes of `value`."""
    new = functools.partial(*args, **keywords)
    new.__dict__ = value.__dict__
    return new


def _is_data_descriptor(cls, name):
    """Does the class control access to the attribute by a data descriptor?"""
    found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
    return hasattr(type(found), "__set__")


_live_proxies = weakref.WeakValueDictionary()  # id(object) -> its proxy; ids may be reused, so `__dict__` is compared


def _share_dict(value, cls, new=object.__new__, assign=object.__setattr__):
    proxy = _live_proxies.get(id(value))
    if type(proxy) is cls and proxy.__dict__ is value.__dict__:
        return proxy  # so that `is` holds between two references to the same object
    proxy = new(cls)
    assign(proxy, "__dict__", value.__dict__)
    if cls.__weakrefoffset__:
        _live_proxies[id(value)] = proxy
    return proxy


def _share_array(value, cls, assign=object.__setattr__):
    proxy = value.view(cls)
    assign(proxy, "__dict__", value.__dict__)
    return proxy


def _share_tuple(value, cls, assign=object.__setattr__):
    proxy = tuple.__new__(cls, value)
    if cls.__dictoffset__:
        assign(proxy, "__dict__", value.__dict__)
    return proxy


def _share_slots(value, cls, new=object.__new__, assign=object.__setattr__):
    """Return an instance of a leaf of a proxy class, or the object of such an instance."""
    if not hasattr(cls, "_wengert_original"):
        return type(value)._wengert_whole.__get__(value)
    proxy = new(cls)
    cls._wengert_whole.__set__(proxy, value)
    if cls.__dictoffset__ and hasattr(value, "__dict__"):
        assign(proxy, "__dict__", value.__dict__)
    return proxy


def _sharing(cls):
    """Function that makes an instance of a proxy class of `cls` from an object, and conversely."""
    if issubclass(cls, tuple):
        return _share_tuple
    if is_array_class(cls):
        return _share_array
    return _share_slots if slots_of(cls) or not cls.__dictoffset__ else _share_dict


def _share(value, cls):
    """Return an instance of a proxy class that shares the state of `value`; or of a class, from a proxy."""
    share = getattr(cls, "_wengert_share", None) or _sharing(cls)
    if share is _share_slots and hasattr(cls, "_wengert_leaves"):
        cls = _leaf(cls, ())
    return share(value, cls)


def original(value):
    """Undo a replacement: return the object of a proxy, the plain array of an array view, else `value` itself."""
    cls = getattr(type(value), "_wengert_original", None)
    if cls is None:
        return value
    return value.view(cls) if cls in _seen_as else _share(value, cls)


def _reduce_leaf(self, protocol):
    """For `copy`: a copy of the object, as an instance of the class of its proxy."""
    make, (cls, *args), *rest = original(self).__reduce_ex__(protocol)
    if make is copyreg.__newobj__:  # `pickle` compares its first argument with `__class__`
        make = cls.__new__
    return make, (type(self), *args), *rest


def _reduce_class(cls):
    """For `pickle`: the original class by its name."""
    return pkgutil.resolve_name, (f"{cls.__module__}:{cls.__qualname__}",)


for _kind in (_ProxyMeta, _AbstractProxyMeta):
    copyreg.pickle(_kind, _reduce_class)


def _leaf(proxy, names):
    """Subclass of a proxy class for objects whose attributes `names` hold values to be replaced, or that have slots."""
    if "_wengert_leaf" in vars(proxy):
        return proxy
    leaf = proxy._wengert_leaves.get(names)
    if leaf is None:
        body = {name: _Attribute(name) for name in names}
        slots, own = slots_of(proxy._wengert_original), ("_wengert_held",)
        options = {"_wengert_leaf": True}
        if slots or not proxy.__dictoffset__:
            body |= {name: _Slot(member) for name, member in slots.items()}
            own = *own, "_wengert_whole"
        if proxy.__reduce_ex__ is object.__reduce_ex__ and proxy.__reduce__ is object.__reduce__:
            options["__reduce_ex__"] = _reduce_leaf
        leaf = make_proxy_class(proxy._wengert_original, [proxy], __slots__=own, **options, **body)
        for attribute in body.values():
            attribute.leaf = leaf
        proxy._wengert_leaves[names] = leaf
    return leaf


# The interface ----------------------------------------------------------------------------------------------


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
        SPECIAL.add(type(original))
        INERT.discard(type(original))
        _retire_plans()


def register_class(cls, stand_in, of_subclass=None, is_dtype=False):
    """Replace a class by a stand-in wherever followed code calls it, maps it or reads an attribute of it.

    A subclass that belongs to a module is replaced by ``of_subclass(subclass)``, unless that is None.
    A class that serves as a dtype stays where it is an item of a container.
    """
    _classes.add(id(cls))
    if is_dtype:
        DTYPES.add(id(cls))
    register(cls, stand_in)
    if of_subclass is not None:
        _of_subclass[id(cls)] = of_subclass


def register_type(stand_in, used):
    """Replace `type` where it is called: by `used` if the result is called or read from, else by `stand_in`."""
    register_class(type, stand_in)
    BUILTINS[REGISTERED[id(type)][2] + USED] = used


def register_library(module):
    """Replace a module by a proxy that returns the stand-ins of its registered members."""
    library, name = Library(module), private(module.__name__)
    sys.modules[name] = _LibraryInUse(module)
    register(module, library)
    IN_USE[REGISTERED[id(module)][2]] = library, name


def register_wrapper(kind, inner, make, has_subclasses=False):
    """For wrappers of type `kind` around a function, ``inner(value)``, build replacements by ``make(value, copy)``."""
    with lock:
        MAKERS[kind] = inner, make
        if has_subclasses:
            SUBCLASSED[kind] = inner, make
        WRAPPERS.append(kind)
        SPECIAL.add(kind)
        INERT.discard(kind)
        _retire_plans()


def register_later(package, install, imports=False):
    """Call `install`, which registers the functions of a package ``a`` or ``a.b``, when one of them is first met.

    If it imports the module that registers them, it is never called under `lock`; a second thread waits for the import.
    """
    _deferred[package] = install, imports
    _make_foreign(package)


def forget_plans():
    """Drop all plans, as when the choice of followed packages changed."""
    with lock:
        _retire_plans()


def _retire_plans():
    """Drop all plans; copies that still run need the names that they made."""
    _retired.extend(_plans.values())
    _plans.clear()


def _make_foreign(package):
    FOREIGN.add(top_package(package))
    REASONS.clear()


def is_registered(value):
    """Return whether `value` is replaced wherever it is met; register its package first if that was deferred."""
    if id(value) not in REGISTERED:
        if _deferred:
            _register_deferred(_two_level_package(_module_of(value)))
            if id(value) not in REGISTERED and callable(value):  # an object that stands for a function
                _register_deferred(_two_level_package(getattr(value, "__module__", None)))
            if (kind := type(value)) not in _met_kinds:  # an object of the user's class that derives from a package's
                for base in kind.__mro__[1:]:
                    _register_deferred(_two_level_package(base.__module__))
                _met_kinds.add(kind)
        if isinstance(value, type) and id(value) not in REGISTERED and _is_simple(value):
            _register_subclass(value)
    return id(value) in REGISTERED


def _register_subclass(cls):
    """Register a subclass of a class whose subclasses are replaced too."""
    for base in cls.__mro__[1:]:
        _register_deferred(_two_level_package(base.__module__))
        if id(base) in _of_subclass:
            if (stand_in := _of_subclass[id(base)](cls)) is not None:
                register_class(cls, stand_in)
            return


def _holds_module(f):
    """Does a function hold a followed module in a cell or a default?"""
    return any(type(x) is types.ModuleType and is_followed_module(x) for x in (*contents_of(f), *defaults_of(f)))


class _ImportFirst(Exception):
    """A plan under `lock` met a package whose registration imports a module: `_bind` imports it and starts again."""

    def __init__(self, package, loads):
        self.package, self.loads = package, loads


def _register_deferred(package, loads=False):
    """Run the deferred registration of a package, if there is one; `loads` imports the package itself before."""
    if package not in _deferred:
        return
    _, imports = _deferred.get(package, (None, False))
    if (imports or loads) and getattr(_planning, "depth", 0):
        raise _ImportFirst(package, loads)
    if loads:
        importlib.import_module(package)
    if imports:
        _register_by_import(package)
        return
    with lock:
        if package in _deferred:
            _deferred.pop(package)[0]()


def _register_by_import(package):
    run = package, threading.get_ident()
    if run in _importing:  # the import itself met the package
        return
    _importing.add(run)
    try:
        install, _ = _deferred.get(package, (None, True))
        if install is not None:
            install()
    finally:
        _importing.discard(run)
    _deferred.pop(package, None)


def _module_of(value):
    """Name of the module `value`, or of the module to which it or its class belongs."""
    kind = type(value)
    if kind is types.ModuleType:
        return vars(value).get("__name__")
    is_home = isinstance(value, type) or kind in (types.FunctionType, types.BuiltinFunctionType)
    return (value if is_home else kind).__module__


def _two_level_package(module):
    """First two components ``a.b`` of a module's name."""
    return ".".join(module.split(".")[:2]) if isinstance(module, str) else None


def set_array_base(base):
    """Let proxy classes of subclasses of NumPy's array inherit from `base`, directly before the array class."""
    with lock:
        _array_bases[:] = [base]
        _retire_plans()


def see_constants(kind, is_copied, seen, as_plain):
    """Let functions that copy see ``seen(array)`` for arrays of class `kind` with ``is_copied(array)``.

    ``as_plain(value)`` returns the plain array of a constant made in a derivative, and other values unchanged.
    """
    with lock:
        _constants[:] = [(is_copied, seen, as_plain)]
        _seen_as.add(kind)
        _retire_plans()


def is_constant(value):
    """Do functions that copy arrays see a replacement of `value`?"""
    return bool(_constants) and _constants[0][0](value)


def constant(value):
    """Return the replacement of a constant array for functions that copy arrays; other values are unchanged."""
    return _constants[0][1](value) if is_constant(value) else value


def is_copying(value):
    """Return whether `value` is a function that may copy an array, or call its `dot`, which takes plain arrays only."""
    if not _constants or type(value) is not types.FunctionType:
        return False
    code = read(value.__code__)
    return (
        not _COPY_FUNCTIONS.isdisjoint(code.mentioned)
        or "dot" in code.methods
        or any(path == ["dot"] and is_constant(value.__globals__.get(name)) for name, *path in code.paths)
    )


def rebound(f):
    """Return `f` with registered objects replaced in its names and in those of the functions it follows.

    Parameters
    ----------
    f : callable

    Returns
    -------
    callable
        A copy of `f`, or `f` itself if there is nothing to rename or it is not Python code.
    """
    if type(f) is not types.FunctionType:
        return _rebound_object(f)
    plan = _plans.get(id(f))
    if plan is None or f.__code__ is not plan.code or not plan.holds(f):
        if is_dispatcher(f):
            return _dispatching(f)
        plan = _bind(f)
    if plan is None:
        return REGISTERED[id(f)][1] if id(f) in REGISTERED else f
    if plan.run is None:
        return f
    copy = plan.copy
    if copy is None:
        copy = plan.copy_function(f, plan.run, {})
    if not plan.copying:
        return copy
    run = plan.copies.get(id(f)) if copy is plan.copy else None
    if run is None:
        run = plan.wrap_copy(f, copy)
        if copy is plan.copy:
            plan.copies[id(f)] = run
    return run


def _dispatching(f):
    """Return a function that calls the copy of the function that f, made by `functools.singledispatch`, chooses."""

    def run(*args, **kwargs):
        if not args:
            return f(**kwargs)  # raises
        return _replaced(f.dispatch(args[0].__class__))(*args, **kwargs)

    return like(f, run)


class _DispatchingMethod:
    """The same for a method made by `functools.singledispatchmethod`."""

    def __init__(self, method, _):
        self._wengert_of = method

    def __getattr__(self, name):
        return getattr(self._wengert_of, name)

    def __get__(self, owner, cls):
        dispatch = self._wengert_of.dispatcher.dispatch

        def run(*args, **kwargs):
            if not args:
                return self._wengert_of.__get__(owner, cls)(**kwargs)  # raises
            method = dispatch(args[0].__class__)
            if type(method) in (staticmethod, classmethod):
                method = type(method)(_replaced(method.__func__))
            else:
                method = _replaced(method)
            return method.__get__(owner, cls)(*args, **kwargs)

        return like(self._wengert_of.func, run)


def _import_alias(space, dotted, form, level):
    """Private name of the module that an import of `dotted` in this form should return, or None."""
    if level:
        package = space.get("__package__") or str(space.get("__name__")).rpartition(".")[0]
        try:
            base = importlib.util.resolve_name("." * level, package)
        except ImportError:  # raised again by the statement
            return None
        return _imported(f"{base}.{dotted}".strip("."), form, base)
    for package in _deferred.keys() & {top_package(dotted), _two_level_package(dotted)}:
        if form == "from" and dotted not in sys.modules:
            return _imported_later(dotted, form, "")
        _register_deferred(package, loads=True)  # the import statement would load it anyway
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
            IN_USE[alias] = seen, chain(private(dotted), dotted, _ModuleInUse(module))
    return _imported_later(*key)


def _imported_later(dotted, form, base):
    """Private name of the module that an import statement yields, which is loaded when the statement runs."""
    key = dotted, form, base
    if key not in _imports:
        names = dotted, top_package(dotted) if form == "bare" else dotted
        alias, variant = private(dotted), private(dotted)
        for name, module in ((alias, _Imported(*names)), (variant, _ImportedInUse(*names))):
            sys.modules[f"{base}.{name}" if base else name] = module
        IN_USE[alias] = _Imported(*names), variant
        _imports[key] = alias
    return _imports[key]


def _bind(root, limit=_MAX_FUNCTIONS):
    """Make a plan for `root`, see `Plan.reached`.

    None if it is registered itself, or if the user's code that inspecting it runs raises, see `unplanned`.
    """
    while True:
        try:
            return _make_plan(root, limit)
        except _ImportFirst as needed:
            if getattr(_planning, "depth", 0):  # for the outermost plan, which holds `lock`
                raise
            package, loads = needed.package, needed.loads
        _register_deferred(package, loads)


def _make_plan(root, limit):
    with lock:
        _planning.depth = getattr(_planning, "depth", 0) + 1
        try:
            if is_registered(root):
                return None
            plan = _plans[id(root)] = Plan(root, limit)
        except _ImportFirst:
            raise
        except Exception as error:
            note_unplanned(root, error)
            return None
        finally:
            _planning.depth -= 1
    return plan


def _is_own(error):
    """Was an error raised by this package, and not by code of the user's that inspecting an object runs?"""
    last = error.__traceback__
    while last.tb_next is not None:
        last = last.tb_next
    return top_package(last.tb_frame.f_globals.get("__name__")) == _OWN


def note_unplanned(root, error):
    """Note for `explain` that code of the user's raised when `root` was inspected; raises any other error."""
    if _is_own(error):
        raise error
    unplanned[full_name(root)] = f"inspecting it raised {type(error).__name__}: {error}"


def full_name(value):
    """Module and name of a function or a class, or of the class of an object."""
    owner = value if isinstance(value, (type, types.FunctionType)) else type(value)
    return f"{owner.__module__}.{owner.__qualname__}"


def _plan_of(owner):
    """Plan of a class or of an object; an object that holds nothing to be replaced shares the plan of its class."""
    root = cls = owner if isinstance(owner, type) else type(owner)
    if owner is not cls and cls.__dictoffset__ and not INERT.issuperset(map(type, owner.__dict__.values())):
        root = owner
    plan = _plans.get(id(root))
    if plan is None or not plan.holds(root):
        plan = _bind(root) if can_have_proxy(cls) else None
    return plan


def _proxy_of(owner, plan):
    """Return the proxy of a class or of an object, or `owner`."""
    if plan is None or plan.run is None:
        return owner
    if isinstance(owner, type):
        return plan.run
    if plan.run is True:
        return plan.object_proxy(owner, {})
    if not plan.copying:
        return _share(owner, plan.run)
    proxy = plan.object_proxy(owner, {})
    plan.recipes.pop(id(owner), None)  # the plan belongs to the class and may outlive this object
    return proxy


def _rebound_object(f):
    kind = type(f)
    if kind is types.MethodType:
        func, owner = f.__func__, f.__self__
        plan = _plan_of(owner)
        proxy = _proxy_of(owner, plan)
        if proxy is owner:
            copy = rebound(func)
            return f if copy is func else types.MethodType(copy, owner)
        method = plan.methods.get(func) if type(func) is types.FunctionType else None
        if method is None:
            name = getattr(func, "__name__", "")
            if isinstance(owner, type) or getattr(type(owner), name, None) is not func:
                return types.MethodType(rebound(func), proxy)
            method = plan.methods[func] = getattr(type(proxy), name)
        return types.MethodType(method, proxy)
    if kind is functools.partial:
        args = [*map(_replaced, f.args)]
        keywords = {name: _replaced(arg) for name, arg in f.keywords.items()}
        return partial_like(f, [rebound(f.func), *args], keywords)
    if kind in MAKERS:
        inner, make = MAKERS[kind]
        return make(f, rebound(inner(f)))
    if kind is staticmethod:
        return rebound(f.__func__)
    if kind is LRU:
        return rebound(f.__wrapped__)
    if isinstance(f, type) or is_differentiated(f):
        return f
    if (func := py_func_of(f)) is not None:
        return rebound(func)
    call = next((vars(base)["__call__"] for base in kind.__mro__ if "__call__" in vars(base)), None)
    if type(call) is not types.FunctionType:
        return f
    proxy = _proxy_of(f, _plan_of(f))
    if proxy is not f:
        return proxy
    copy = rebound(call)
    return f if copy is call else types.MethodType(copy, f)


def _replaced(value):
    """Replacement of an object met in an argument of a partial or in an attribute."""
    plan = running_plan.get()
    if plan is not None and id(value) in plan.changed:
        return plan.build(value, plan.memo)
    if type(value) in TABLES:
        return table(value, _item) if is_table(value) else value
    if is_constant(value):
        return constant(value)
    if is_followed_module(value):
        return ModuleProxy(value)
    if isinstance(value, type) or is_differentiated(value) or not is_followed(value):
        return REGISTERED[id(value)][1] if is_registered(value) and id(value) not in _classes else value
    if type(value) in (types.FunctionType, *WRAPPERS):
        return rebound(value)
    return rebound(f) if (f := py_func_of(value)) else _proxy_of(value, _plan_of(value))


def _callee(value):
    """Replacement of the value of a variable that is called: a class, a registered function, or a function of a module.

    Other functions are copies already, or were made by followed code.
    """
    if type(value) is types.FunctionType:
        is_of_module = value.__globals__.get(value.__name__) is value
        return rebound(value) if is_of_module and is_followed_function(value) else value
    if isinstance(value, type):
        return value if hasattr(value, "_wengert_original") else in_use(value)
    return REGISTERED[id(value)][1] if id(value) in REGISTERED else value


BUILTINS[CALLEE] = _callee
register_wrapper(functools.singledispatchmethod, lambda method: method.dispatcher, _DispatchingMethod)
