"""Plans: how a function runs or a class or object is replaced, with everything that was inspected to decide it."""

import collections
import enum
import functools
import sys
import types
import weakref

from wengert.core.rebind.assigned import note_closure
from wengert.core.rebind.follow import (
    DATA,
    INERT,
    MAKERS,
    METHOD_TYPES,
    REGISTERED,
    SPECIAL,
    WRAPPERS,
    assigned_cells,
    attribute_reads,
    attributes_of,
    called_attributes,
    can_copy,
    cell_owners,
    contents_of,
    defaults_of,
    holds_member_values,
    is_array_class,
    is_computed,
    is_differentiated,
    is_dispatcher,
    is_followed,
    is_followed_module,
    is_followed_object,
    is_module_namespace,
    is_part,
    is_plain_object,
    may_return_class,
    module_reads,
    parts_of,
    py_func_of,
    reads_computed,
    signature_of,
    slots_of,
    space_of,
    state_of,
    tables_of,
    top_package,
)
from wengert.core.rebind.inspected import Inspected, when_part_dies
from wengert.core.rebind.modules import ModuleInUse, ModuleProxy, import_alias, module_proxy, proxied
from wengert.core.rebind.new_arrays import wrapped_lines, wraps_results
from wengert.core.rebind.proxies import (
    CalledAttribute,
    ClassAttribute,
    ClassDescriptor,
    called_property,
    has_data_descriptor,
    is_held_by_metaclass,
    is_mixin,
    leaf_of,
    make_proxy_class,
    note_mixins,
    share,
)
from wengert.core.rebind.registration import (
    CLASSES,
    array_bases,
    constant,
    holds_module,
    is_constant,
    is_copying,
    is_deferred,
    is_held_live,
    is_registered,
    is_simple,
    lookup,
    passed,
    plans,
    stand_in,
    state,
    templates,
)
from wengert.core.rebind.rename import ATTRIBUTES, BUILTINS, alias_of, forget, live_alias, read, rename, uses_only
from wengert.core.rebind.stubs import (
    MethodStub,
    PropertyStub,
    has_own_plan,
    is_certain,
    is_held_by_module,
    may_copy_arrays,
    plain_functions,
    stub_of,
)
from wengert.core.rebind.tables import TABLES
from wengert.core.rebind.wrappers import (
    REFLECTED,
    dispatching,
    keeping_plain,
    partial_like,
    reflected,
    seeing_arguments,
    seeing_replacement,
)

__all__ = ["Plan"]

_MAX_PINNED = 4096  # maximum number of plans that may keep their own key alive
_MAX_OBJECTS = 100  # number of objects in one plan beyond which attributes of objects are not followed

_proxy_classes = weakref.WeakValueDictionary()  # id(class) -> its proxy class
_pinned = collections.deque()

# From Python 3.14 on, annotations are computed at first access.
_COPIED_ATTRIBUTES = ["__kwdefaults__", "__module__", "__qualname__", "__doc__"] + [
    name
    for name in ("__annotate__" if hasattr(top_package, "__annotate__") else "__annotations__", "__type_params__")
    if hasattr(top_package, name)
]


def _pin(root):
    """Bound the number of plans that may keep their own key alive."""
    _pinned.append(id(root))
    while len(_pinned) > _MAX_PINNED:
        plans.pop(_pinned.popleft(), None)



#: types of values that refer to no function of the user
_LEAVES = {*DATA, types.BuiltinFunctionType, types.ModuleType}


def _holds_constants(value):
    """Return whether an object holds arrays that are replaced in functions that copy arrays."""
    return any(map(is_constant, space_of(value).copy().values()))


def _is_leaf(value):
    """Return whether a value in a cell refers to nothing that could keep the function alive."""
    return type(value) in _LEAVES or is_constant(value)


class _Attributes:
    """Replaces the values of attributes that were set on a function."""

    __slots__ = ("_of",)

    def __init__(self, value):
        self._of = value

    def __getattr__(self, name):
        return lookup.replaced(getattr(self._of, name))


BUILTINS[ATTRIBUTES] = _Attributes


class Plan(Inspected):
    """How a function runs or a class or object is replaced, with everything that was inspected to decide it.

    `changed` maps the id of each object to be replaced to its renamed code (functions), its proxy class (classes)
    or True; `run` is the entry of the root.

    Functions that copy arrays, in `copying`, see constant arrays through `constant`, so that traced values can be
    stored in the copies: in arguments, cells, attributes of objects, and attributes of arrays in global names.

    `used` holds the functions and classes in `lazy` that had a plan when `state.use` was equal to `use`.  `passed`
    holds the ids of functions that the code uses other than by calling them.  `checked` is the latest `state.now` at
    which `holds` was true.

    `stores` holds the indices of the parameters that the root may write into; None until they are needed.
    """

    __slots__ = ("aliases", "changed", "checked", "copies", "copy", "copying", "methods", "passed", "recipes",
                 "run", "stores", "use", "used", "written")  # fmt: skip

    proxy_classes = _proxy_classes
    enters_differentiated = False  # whether functions that define their own derivative are followed

    def __init__(self, root):
        self.aliases, self.changed, self.recipes, self.methods = [], {}, {}, {}
        self.copies, self.copy, self.stores, self.checked = {}, None, None, None
        self.used, self.use, self.passed, self.live = [], -1, set(), []
        reached = self.reached(root, is_lazy=True)
        nodes, objects = self.explore(root, reached)
        self.watch(root, nodes, objects, reached[-2])
        classes = self.make(nodes, {})
        self.run = self.changed.get(id(root))
        is_lasting = type(root) is not types.FunctionType or is_module_namespace(root.__globals__)
        if self.run and self.code:
            if self.run is root.__code__ and not (any(self.recipe(root)[:2]) or id(root) in self.copying):
                self.run = None
            elif is_lasting:
                self.keep_copy(root)
        if classes or (self.aliases and not is_lasting):
            _pin(root)
        if self.code and is_lasting and all(map(is_simple, classes)) and not self.is_own(root, reached[1]):
            templates[self.code] = self.template(root)

    def is_own(self, root, users):
        """Return whether the plan depends on more of the root than its code, or its cells hold values to be copied.

        A copy in a cell must be the one that a global name refers to, since code may compare them.
        """
        has_copying = id(root) in self.copying or (self.copying and root.__closure__)
        is_held = id(root) in users or self.run is root.__code__
        has_copies = not all(map(_is_leaf, contents_of(root)))
        return bool(is_held or has_copying or has_copies or root.__defaults__ or root.__kwdefaults__)

    def keep_copy(self, root):
        """Keep the copy of the root if it reaches only what a module holds; otherwise it would keep its key alive."""
        if all(map(_is_leaf, contents_of(root))) or is_held_by_module(root):
            self.copy = self.copy_function(root, self.run, {})

    def template(self, root):
        """Return a plan without root and copies, for other functions with the same code (`of_function`)."""
        new = self.without_copies()
        for known in (new.changed, new.recipes):
            known.pop(id(root), None)
        new.refs, new.code = self.refs[1:], weakref.ref(root.__code__)
        return new

    def without_copies(self):
        new = object.__new__(Plan)
        for name in (*Inspected.__slots__, *Plan.__slots__):
            setattr(new, name, getattr(self, name))
        new.changed, new.recipes = self.changed.copy(), self.recipes.copy()
        new.copies, new.copy, new.methods = {}, None, {}
        new.stores = self.stores if self.stores == () else None
        return new

    def of_function(self, root):
        """Return the plan of a function made from this template, or None if the function refers to other objects."""
        alive = [ref() for ref in self.refs]
        if self.code() is not root.__code__ or any(value is None for value in alive) or not self.holds(root):
            return None
        new, end = self.without_copies(), when_part_dies(root)
        new.code = root.__code__
        new.refs = [weakref.ref(root, functools.partial(forget, plans, id(root)))]
        new.refs += [weakref.ref(value, end) for value in alive]
        if new.run:
            new.changed[id(root)] = new.run
            new.keep_copy(root)
        if new.sizes:
            _pin(root)
        return new

    def make(self, nodes, memo):
        """Rename the code of functions, make the proxy classes, fill the aliases, and return the classes."""
        for value in nodes:
            if type(value) is types.FunctionType and id(value) in self.changed and not is_dispatcher(value):
                self.rename(value)
        self.changed.update(dict.fromkeys(self.lazy, self.when_called))
        fresh = []
        classes = [value for value in nodes if isinstance(value, type)]
        for cls in classes:
            if id(cls) in self.changed:
                note_mixins(cls)
        for cls in classes:
            self.enter_proxy_class(cls, fresh)
        for cls, methods, attributes in fresh:  # all exist now, so methods may hold instances of any of them
            self.fill(cls, methods, attributes, memo)
        for alias in self.aliases:
            self.fill_alias(alias.name, alias.ref(), memo)
        return classes

    def fill_alias(self, name, value, memo):
        """Enter the replacement of a value, or a stub, under a private name."""
        if id(value) not in self.lazy:
            BUILTINS[name] = self.build(value, memo)
        elif id(value) in plans:
            BUILTINS[name] = lookup.resolved(value)
        elif id(value) not in self.passed:
            BUILTINS[name] = stub_of(name, value)
        else:  # code that runs in other threads keeps what it sees
            BUILTINS.setdefault(name, stub_of(name, value))
            passed.append((name, value))

    def current_use(self):
        """Return the functions and classes in `lazy` that have a plan."""
        use = state.use
        if self.use != use:
            self.used = [value for key, value in self.lazy.items() if key in plans]
            self.use = use  # last, since other threads rely on it
        return self.used

    @classmethod
    def reached(cls, root, limit=sys.maxsize, enters=None, is_whole=True, is_lazy=False):
        """Explore what is reachable from `root`: at most `limit` functions, and only those that `enters` accepts.

        A function that `enters` rejects is no reason to replace what reaches it.
        Unless `is_whole`, end at the first function that is not explored.
        If `is_lazy`, functions and classes that have plans of their own are not explored.

        Returns
        -------
        list, dict, list, dict, list, dict
            Objects reached; the users of each; ids of those to replace in any case; instances by id; functions that
            reach nothing to be replaced; and further functions and classes by id, which are not explored.
        """
        nodes, met, users, seeds, objects, plain, lazy = [], set(), {}, [], {}, [], {}
        proxied = set()  # ids of classes with a method to be replaced: their other methods need no check
        count = 0

        def enter(value):
            nonlocal count
            kind = type(value)
            if kind is types.FunctionType:
                count += 1
                is_idle = enters is not None and not enters(value)
                if is_idle or (count > limit and is_simple(value)):
                    lazy[id(value)] = value
                    seeds.extend(() if is_idle else (id(value),))
                    met.add(id(value))
                    return
            if kind in MAKERS or is_dispatcher(value) or (kind not in SPECIAL and py_func_of(value)):
                seeds.append(id(value))  # the Python function runs instead, even if it is not renamed
            elif kind is not types.FunctionType and kind not in (*WRAPPERS, *TABLES) and not isinstance(value, type):
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
            if lazy and not is_whole:
                break
            may_defer = (is_lazy or enters) and type(value) is types.FunctionType
            for part in parts:
                if type(part) in DATA:
                    continue
                if may_defer and type(part) is types.FunctionType and is_deferred(part):
                    lazy[id(part)] = part  # registering its package takes long, and it may never be called
                    seeds.append(id(part))
                    met.add(id(part))
                elif is_registered(part):
                    seeds.append(key)
                    continue
                if id(part) not in met:
                    if not is_followed(part) or (is_differentiated(part) and not cls.enters_differentiated):
                        continue
                    if not (is_lazy and has_own_plan(part, value)):
                        enter(part)
                    elif key not in proxied and type(part) is types.FunctionType and (found := plain_functions(part)):
                        if all(map(is_certain, found)):
                            plain += found
                            met.add(id(part))
                        else:
                            enter(part)
                    else:
                        lazy[id(part)] = part
                        seeds.append(id(part))
                        met.add(id(part))
                        proxied.update((key,) if isinstance(value, type) else ())
                elif id(part) in lazy and isinstance(part, type) and type(value) is not types.FunctionType:
                    nodes.append(lazy.pop(id(part)))  # the class of an object, or a base of another class
                users.setdefault(id(part), []).append(key)
        return nodes, users, seeds, objects, plain, lazy

    def explore(self, root, reached=None):
        """Find the objects reachable from `root` and enter those that reach a registered one in `changed`."""
        nodes, users, seeds, objects, _, self.lazy = reached or self.reached(root)
        seeds = [*seeds, *[id(value) for value in nodes if self.is_seed(value)]]
        self.copying = {id(value) for value in nodes if is_copying(value)}
        holds_constants = isinstance(root, type) or any(map(_holds_constants, objects.values()))  # or objects may
        if self.lazy and not self.copying and holds_constants and may_copy_arrays(self.lazy.values()):
            self.copying.add(None)  # the function that copies may have a plan of its own
        self.written = {id(cell) for value in nodes for cell in assigned_cells(value)}
        while seeds:
            key = seeds.pop()
            if key not in self.changed:
                self.changed[key] = True
                seeds += users.get(key, ())
        for key, value in objects.items():
            if key in self.changed:  # a value in it is replaced, so it needs a proxy class even if no method changes
                self.changed.setdefault(id(type(value)), True)
        return nodes, objects

    def is_seed(self, value):
        """Return whether `value` is replaced regardless of what it reaches."""
        if type(value) is not types.FunctionType:
            space = vars(value) if isinstance(value, type) else space_of(value) if is_followed_object(value) else {}
            return any(is_held_live(v) for v in [*space.values()] if isinstance(v, (type, types.ModuleType)))
        code = read(value.__code__)
        return bool(
            is_copying(value)
            or code.calls_variables
            or code.compares
            or code.assigned
            or code.written.intersection(value.__code__.co_freevars)
            or code.reads_methods
            or (code.imports and self.imports(value))
            or holds_module(value)
            or reads_computed(value)
            or attribute_reads(value)
            or cell_owners(value)
            or wraps_results(value.__code__)
        )

    def is_replaced(self, space, name, value):
        """Return whether a name of this namespace gets a replacement if it has this value."""
        return id(value) in REGISTERED or id(value) in self.changed

    @staticmethod
    def imports(f):
        if not read(f.__code__).imports:
            return {}
        found = ((key, import_alias(f.__globals__, *key)) for key in read(f.__code__).imports)
        return {key: alias for key, alias in found if alias}

    def takes_over(self, old, root):
        """Reuse the copy made by an old plan of the root, since others refer to it; return whether that is possible."""
        if self.code is None or not (self.run and old.run):
            return self.run is old.run
        if self.copy is None or old.copy is None or self.copying or old.copying:
            return self.copy is old.copy
        old_cells, new_cells = old.copy.__closure__ or (), self.copy.__closure__ or ()
        swaps = self.recipes[id(root)][0]
        if len(old_cells) != len(new_cells) or old.recipes[id(root)][0] != swaps:
            return False
        for k in swaps:
            old_cells[k].cell_contents = new_cells[k].cell_contents
        for name in ("__code__", "__defaults__", "__kwdefaults__"):
            setattr(old.copy, name, getattr(self.copy, name))
        self.copy = old.copy
        return True


    def renaming(self, f):
        """Return the arguments of `rename` for f's code, and the aliases among the new names."""
        held, names, sources, aliases = f.__globals__, {}, {}, []
        bare = read(f.__code__).bare

        def stand_in(name, value):
            alias = self.alias(value, name)
            aliases.append(alias)
            if name in read(f.__code__).passed:
                self.passed.add(id(value))
            names[name] = alias.name
            if isinstance(value, types.ModuleType):  # needed for renaming; `make` enters the final one
                BUILTINS.setdefault(alias.name, module_proxy(value))
            if isinstance(value, type):
                sources[name] = isinstance(value, enum.EnumMeta)

        for name in read(f.__code__).names:
            value = held[name] if name in held else BUILTINS.get(name)
            if id(value) in REGISTERED:
                names[name] = REGISTERED[id(value)][2]
                if id(value) in CLASSES:
                    sources[name] = False
            elif id(value) in self.changed or (name in bare and is_followed_module(value)):
                self.changed.setdefault(id(value), True)
                stand_in(name, value)
            elif id(f) in self.copying and is_constant(value):
                aliases.append(live_alias(held, name, constant))
                names[name] = aliases[-1].name
                sources[name] = False
        for name, module, attribute, value in module_reads(f):
            is_met = self.is_replaced(vars(module), attribute, value) or is_computed(module, attribute)
            if name not in names and is_met:
                self.changed[id(held[name])] = True
                stand_in(name, held[name])
        for path in attribute_reads(f):
            aliases.append(live_alias(held, path[0], _Attributes))
            names[path] = aliases[-1].name
        seen = read(f.__code__).held | self.seen_cells(f)
        return (names, sources, self.imports(f), seen, cell_owners(f), wrapped_lines(f.__code__)), aliases

    def seen_cells(self, f):
        """Names of assigned cells of f with contents to be replaced where f reads them.

        Cells that f itself assigns, such as one for an object made at first use, may hold anything.
        """
        code, cells = read(f.__code__), zip(f.__code__.co_freevars, f.__closure__ or (), contents_of(f))
        own = code.written.intersection(code.cell_owners, f.__code__.co_freevars)
        others = self.written and {name for name, cell, content in cells
                                   if id(cell) in self.written and self.is_swapped(f, content)}  # fmt: skip
        return {*others, *own}

    alias = staticmethod(alias_of)

    @staticmethod
    def when_called(value):
        """Return the replacement of a function or a class that has a plan of its own."""
        return lookup.resolved(value)

    def rename(self, f):
        """Enter f's renamed code in `changed`."""
        known = read(f.__code__)
        key, aliases = self.renaming(f)
        latest = known.latest
        if latest[0] != key:
            # Kept with a module's code, so that new function objects of the same lambda share the aliases.
            kept = aliases if is_module_namespace(f.__globals__) else []
            known.latest = latest = key, rename(f.__code__, *key, kept)
            for alias in kept:
                alias.users.add(known)
        self.aliases += aliases
        self.changed[id(f)] = latest[1]

    def enter_proxy_class(self, cls, fresh):
        """Enter the proxy class of `cls`, if it needs one.

        A new proxy class, still without methods, is added to `fresh` with its replaced methods and class attributes.
        Its bases are `cls` and the proxy classes of the bases of `cls`.  So each proxy class directly precedes its
        original in the MRO, where `super()` in the class above finds it.
        """
        if self.changed.get(id(cls)) is not True:
            return
        for base in cls.__bases__:
            self.enter_proxy_class(base, fresh)
        bases = [cls, *(self.changed[id(base)] for base in cls.__bases__ if id(base) in self.changed)]
        bases += array_bases if is_array_class(cls) else []
        recipe = [[*map(id, bases)], is_mixin(cls)]  # ids, since proxy classes compare equal to their originals
        methods, attributes = self.replaced_methods(cls), self.class_attributes(cls)
        for name, value in methods:
            if type(value) is types.FunctionType:
                held = signature_of(value)
            else:
                held = [self.changed.get(id(part)) for part in parts_of(value)]
                held += state_of(value) if type(value) is functools.partialmethod else ()
            recipe.append((name, id(value), self.changed[id(value)], held))
        recipe += attributes
        proxy = self.proxy_classes.get(id(cls))
        if proxy is None or proxy._wengert_recipe != recipe:
            try:
                proxy = make_proxy_class(cls, bases, _wengert_recipe=recipe, _wengert_leaves={})
            except TypeError:  # no consistent MRO
                del self.changed[id(cls)]
                return
            fresh.append((cls, methods, attributes))
        elif proxy._wengert_since != state.retired:  # its methods are those of plans that were dropped
            fresh.append((cls, methods, attributes))
        type.__setattr__(proxy, "_wengert_since", state.retired)
        self.changed[id(cls)] = proxy

    def replaced_methods(self, cls):
        """Names and values in the body of `cls` that get replaced."""
        return [
            (name, value)
            for name, value in vars(cls).copy().items()
            if id(value) in self.changed
            and (type(value) in METHOD_TYPES or type(value) in TABLES)
            and not is_held_by_metaclass(cls, name)
        ]

    def class_attributes(self, cls):
        """Names and types of the descriptors for attributes of `cls` that are read live."""
        called = called_attributes(cls) if is_plain_object(cls) and not slots_of(cls) else []
        held = [name for name in called if id(vars(cls).get(name)) not in self.changed]
        return [(name, CalledAttribute) for name in held] + [
            (name, ClassDescriptor if hasattr(type(value), "__set__") else ClassAttribute)
            for name, value in vars(cls).copy().items()
            if (kind := type(value)) not in INERT
            and kind not in METHOD_TYPES
            and (not name.startswith("__") or hasattr(kind, "__get__"))
            and (self.is_replaced_part(value) or is_held_live(value))
            and not is_held_by_metaclass(cls, name)
        ]

    def is_replaced_part(self, value):
        return is_part(value) and (id(value) in self.changed or id(value) in REGISTERED)

    def fill(self, cls, methods, attributes, memo):
        proxy = self.changed[id(cls)]
        for name, kind in attributes:
            type.__setattr__(proxy, name, kind(name, proxy))
        for name, value in methods:
            make = functools.partial(self.method, cls, name, value)
            if self.is_used_later(value):
                stub = PropertyStub if hasattr(type(value), "__set__") else MethodStub
                method = stub(proxy, name, functools.partial(make, {}))
            else:
                method = make(memo)
            type.__setattr__(proxy, name, method)
        self.proxy_classes[id(cls)] = proxy

    def is_used_later(self, value):
        """Return whether a method consists of functions that have plans of their own."""
        if type(value) is types.FunctionType:
            return id(value) in self.lazy
        parts = [part for part in parts_of(value) if id(part) in self.changed]
        return type(value) not in TABLES and all(id(part) in self.lazy for part in parts)

    def method(self, cls, name, value, memo):
        """Return the replacement of a method."""
        method = self.build(value, memo)
        if name in REFLECTED and type(method) is types.FunctionType:
            method = reflected(name, method)
        if name == "__array_ufunc__" and type(method) is types.FunctionType and not is_array_class(cls):
            method = seeing_replacement(method)
        if type(method) is functools.cached_property:
            method.__set_name__(cls, name)
        if type(method) is property and method.fget and (name in called_attributes(cls) or may_return_class(value)):
            method = called_property(method, name)
        return method

    def build(self, value, memo):
        """Return the replacement of `value`, or `value`; `memo` closes cycles through cells and attributes."""
        key, kind = id(value), type(value)
        if key in REGISTERED:
            return REGISTERED[key][1]
        new = self.changed.get(key)
        if new is None:
            return module_proxy(value) if is_followed_module(value) else constant(value)
        if key in memo:
            return memo[key]
        if key in self.lazy:
            return new(value)
        if kind is types.FunctionType:
            copy = self.copies.get(key)
            if is_dispatcher(value):
                return dispatching(value)
            if copy is None:
                copy = self.wrap_copy(value, self.copy_function(value, new, memo))
                if is_simple(value):
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
            return kind(keeping_plain(self.build(value.func, memo)))
        if kind in WRAPPERS:
            return kind(*(self.build(part, memo) for part in parts_of(value)))
        if kind is types.ModuleType:
            return self.module_proxy(value, memo)
        if kind in TABLES:
            new = stand_in(value)
            if kind is not tuple:
                self.live = [*(ref for ref in self.live if ref() is not None), weakref.ref(new)]
            return new
        if isinstance(value, type):
            return new if isinstance(new, type) else value
        if py_func_of(value):
            return self.build(parts_of(value)[0], memo)
        return self.object_proxy(value, memo)

    def module_proxy(self, module, memo):
        """Return the replacement of a user's module."""
        return module_proxy(module)

    def object_proxy(self, value, memo):
        """Return the proxy of an object, or the object if its class has no proxy class."""
        cls = self.changed.get(id(type(value)))
        if not isinstance(cls, type):
            return value
        names = self.recipes.get(id(value))
        if names is None:
            held = [*attributes_of(value).items(), *tables_of(value).items()]
            names = [name for name, v in held if id(v) in REGISTERED or id(v) in self.changed]
            names += [name for name, v in space_of(value).copy().items() if is_held_live(v)]
            if self.copying:
                names += [name for name, v in space_of(value).copy().items() if is_constant(v)]
            kind = type(value)
            is_bare = holds_member_values(kind)  # its instances have no slots
            names = () if is_bare else tuple(name for name in names if not has_data_descriptor(kind, name))
            self.recipes[id(value)] = names
        proxy = memo[id(value)] = share(value, leaf_of(cls, names) if names else cls)
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
                # Functions that share a cell share the copy of the cell.
                cells[k] = memo.setdefault(id(cells[k]), types.CellType())
            cells = tuple(cells)
        if assigned_cells(f):
            note_closure(f)
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
                new = ModuleInUse(proxied(new))
            cells[k].cell_contents = new
        return copy

    def wrap_copy(self, f, copy):
        """Wrap a copy of f so that its arguments pass through `constant`, if it copies arrays."""
        return seeing_arguments(copy, constant) if id(f) in self.copying else copy

    def default(self, f, value, memo):
        """Return the default argument of a copy of f that corresponds to the default `value` of f."""
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
            if id(f.__closure__[k]) not in self.written and self.is_swapped(f, content)
        ]
        has_own_defaults = any(self.is_swapped(f, value) for value in defaults_of(f))
        bare = types.FunctionType(f.__code__, f.__globals__, f.__name__, None, f.__closure__)
        attributes = [name for name in _COPIED_ATTRIBUTES if getattr(f, name) != getattr(bare, name)]
        self.recipes[id(f)] = recipe = swaps, has_own_defaults, attributes
        return recipe
