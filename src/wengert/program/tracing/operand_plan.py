"""Copies a function such that the copy reads operands in place of its captured state.

Globals get private names, cells and defaults are copied, and attributes become descriptors of a proxy object.
"""

from __future__ import annotations

import functools
import types

from wengert.core.rebind.follow import (
    REGISTERED,
    WRAPPERS,
    is_followed,
    is_followed_module,
    is_plain_object,
    is_seen_whole,
    module_reads,
    space_of,
)
from wengert.core.rebind.identity import refer
from wengert.core.rebind.modules import ModuleProxy
from wengert.core.rebind.plan import Plan
from wengert.core.rebind.proxies import has_data_descriptor, make_proxy_class
from wengert.core.rebind.rebind import in_use
from wengert.core.rebind.registration import constant, is_deferred, is_registered
from wengert.core.rebind.rename import BUILTINS, Alias, private, read, rename
from wengert.core.rebind.wrappers import like, partial_like
from wengert.program.tracing.refusals import NotReplayable, NotSeen
from wengert.program.tracing.scan import effect

__all__ = ["OperandPlan", "raise_not_seen", "unchanged"]


def raise_not_seen(f):
    """Raise `NotSeen` for a function whose code did not run before."""
    raise NotSeen(f"it calls {f.__qualname__} only while it is recorded")


def _places_of(value):
    """Yield the keys of all places in which a function, partial or object may hold data."""
    kind = type(value)
    if kind is types.FunctionType:
        held = id(value.__globals__)
        yield from ((held, name) for name in read(value.__code__).names)
        yield from ((id(cell), None) for cell in value.__closure__ or ())
        yield from ((id(value.__defaults__), i) for i in range(len(value.__defaults__ or ())))
        yield from ((id(value.__kwdefaults__), name) for name in value.__kwdefaults__ or ())
        yield from ((id(vars(module)), name) for _, module, name, _ in module_reads(value))
    elif kind is functools.partial:
        yield from ((id(value.args), i) for i in range(len(value.args)))
        yield from ((id(value.keywords), name) for name in value.keywords)
    elif not isinstance(value, type) and kind not in WRAPPERS:
        space = space_of(value)
        yield from ((id(space), name) for name in space)


def unchanged(value):
    """Return the value itself."""
    return value


class _FixedAttribute:
    """A data descriptor that returns a fixed value for `proxy`; other instances were made by the code that runs."""

    proxy = value = None

    def __init__(self, name):
        self.name = name

    def __get__(self, owner, cls):
        if owner is None or owner is self.proxy:
            return self if owner is None else self.value
        if self.name not in vars(owner):
            raise AttributeError(f"{cls.__name__!r} object has no attribute {self.name!r}", name=self.name, obj=owner)
        return vars(owner)[self.name]

    def __set__(self, owner, value):  # this makes it a data descriptor, which precedes ``__dict__``; see `_protect`
        if owner is self.proxy:
            raise AttributeError
        vars(owner)[self.name] = value

    def __delete__(self, owner):
        if owner is self.proxy or self.name not in vars(owner):
            raise AttributeError(self.name)
        del vars(owner)[self.name]


def _protect(proxy):
    """Let a proxy, whose class has no other proxies, raise where code sets or deletes one of its attributes."""
    leaf = type(proxy)

    def refuse(self, name, *value):
        if self is proxy:
            raise NotReplayable(effect(f"it sets the attribute {name!r} of a {self.__class__.__name__}"))
        above = super(leaf, self)
        (above.__setattr__ if value else above.__delattr__)(name, *value)

    type.__setattr__(leaf, "__setattr__", refuse)
    type.__setattr__(leaf, "__delattr__", refuse)


class _Module(ModuleProxy):
    """A user's module whose attributes are replaced."""

    __slots__ = ("_wengert_swaps",)

    def __getattribute__(self, name):
        swaps = _swaps.__get__(self)
        return swaps[name] if name in swaps else ModuleProxy.__getattribute__(self, name)

    def __setattr__(self, name, value):
        raise NotReplayable(effect(f"it sets {name!r} of a module"))

    __delattr__ = __setattr__


_swaps = _Module._wengert_swaps


class OperandPlan(Plan):
    """A rebinding plan whose copies read `operands`, a dict by place, instead of captured values; used only once.

    `steady` holds the ids of cached functions whose results depend only on their arguments, and `of_caches` results of
    others.
    With `is_trial`, the plan only finds out which places a copy can reach; the copy is not run.
    """

    enters_differentiated = True

    @staticmethod
    def when_called(f):
        """Return a replacement that raises for a function whose code did not run before.

        A package's function may by then have been registered; if so, the replacement calls what it is registered to.
        """

        def run(*args, **kwargs):
            if is_registered(f):
                return REGISTERED[id(f)][1](*args, **kwargs)
            raise_not_seen(f)

        return like(f, run)

    def __init__(self, root, operands, reached=None, is_trial=False, steady=frozenset()):
        self.is_trial, self.steady, self.of_caches = is_trial, steady, {}
        self.aliases, self.changed, self.recipes, self.methods = [], {}, {}, {}
        self.copies, self.proxy_classes, self.passed, self.live = {}, {}, set(), []
        self.operands, self.used, self.names, self.own = operands, set(), {}, {}
        self.spaces: list = []  # pairs: namespace of a proxy object, and its initial contents
        self.root = root
        self.memo = memo = {}
        if is_trial:
            self.when_called = unchanged
        nodes, _ = self.explore(root, reached)
        functions = [value for value in nodes if type(value) is types.FunctionType]
        codes = [f.__code__ for f in functions if id(f) in self.changed]
        self.originals = [*codes, *filter(None, (read(code).latest[1] for code in codes))]
        idle = [f for f in self.lazy.values() if not is_deferred(f)]  # objects that are not copied may call these too
        self.idle = {id(f.__code__): f for f in idle}
        self.make(nodes, memo)
        self.run = self.build(root, memo)

    def __del__(self, pop=BUILTINS.pop):
        for name in self.names.values():
            pop(name, None)

    def is_seed(self, value):
        return super().is_seed(value) or not self.operands.keys().isdisjoint(_places_of(value))

    def is_replaced(self, space, name, value):
        return (id(space), name) in self.operands or super().is_replaced(space, name, value)

    def taken(self, key):
        self.used.add(key)
        value = self.operands[key]
        if is_followed(value) and is_seen_whole(value):
            return in_use(value)
        return constant(value) if self.copying else value

    def alias(self, value, name):
        return self.own.setdefault(id(value), Alias(value, name))

    def renaming(self, f):
        (names, sources, *rest), aliases = super().renaming(f)
        for name in read(f.__code__).names:
            key = id(f.__globals__), name
            if key in self.operands:
                if key not in self.names:
                    self.names[key] = private(name)
                    BUILTINS[self.names[key]] = self.taken(key)
                names[name] = self.names[key]
                sources.pop(name, None)
        for first, module, _, _ in module_reads(f):
            if first in names:
                self.changed[id(module)] = True
        return (names, sources, *rest), aliases

    def rename(self, f):
        key, aliases = self.renaming(f)
        self.aliases += aliases
        known, code = read(f.__code__).latest, f.__code__
        if not self.is_trial:
            code = known[1].replace() if known[0] == key else rename(code, *key)  # a new code object, see `originals`
        self.changed[id(f)] = code if self.is_trial or code is not f.__code__ else code.replace()

    def recipe(self, f):
        swaps, *rest = super().recipe(f)
        bound = {k for k, cell in enumerate(f.__closure__ or ()) if (id(cell), None) in self.operands}
        self.recipes[id(f)] = recipe = sorted(bound.union(swaps)), *rest
        return recipe

    def content(self, cell, memo):
        key = id(cell), None
        return self.taken(key) if key in self.operands else super().content(cell, memo)

    def copy_function(self, f, code, memo):
        new = super().copy_function(f, code, memo)
        if f.__defaults__:
            new.__defaults__ = tuple(self.items(f.__defaults__, enumerate(new.__defaults__)))
        if f.__kwdefaults__:
            new.__kwdefaults__ = dict(zip(f.__kwdefaults__, self.items(f.__kwdefaults__, new.__kwdefaults__.items())))
        return new

    def items(self, holder, items):
        keys = ((id(holder), name, value) for name, value in items)
        return [self.taken((key, name)) if (key, name) in self.operands else value for key, name, value in keys]

    def build(self, value, memo):
        if type(value) is types.SimpleNamespace and id(value) in self.changed:
            return memo[id(value)] if id(value) in memo else self.namespace(value, memo)
        if type(value) is not functools.partial or id(value) not in self.changed:
            return super().build(value, memo)
        args = [self.build(arg, memo) for arg in self.items(value.args, enumerate(value.args))]
        words = [self.build(arg, memo) for arg in self.items(value.keywords, value.keywords.items())]
        return partial_like(value, [self.build(value.func, memo), *args], dict(zip(value.keywords, words)))

    def module_proxy(self, module, memo):
        new = memo[id(module)] = _Module(module)
        swaps: dict = {}
        _swaps.__set__(new, swaps)
        for name, value in vars(module).items():
            if (id(vars(module)), name) in self.operands:
                swaps[name] = self.taken((id(vars(module)), name))
            elif id(value) in self.changed:
                swaps[name] = self.build(value, memo)
        return new

    def object_proxy(self, value, memo):
        cls = self.changed.get(id(type(value)))
        if not isinstance(cls, type):
            return value
        if not is_plain_object(type(value)):
            return super().object_proxy(value, memo)
        space = space_of(value)
        names = [n for n, v in space.items() if (id(space), n) in self.operands or self.is_built(v)]
        names = [n for n in names if not has_data_descriptor(type(value), n)]
        held = {name: _FixedAttribute(name) for name in names}
        leaf = make_proxy_class(cls._wengert_original, [cls], **held)
        proxy = memo[id(value)] = object.__new__(leaf)
        refer(proxy, value)
        object.__setattr__(proxy, "__dict__", own := dict(space))  # a copy, since it may come to hold traced values
        for name in names:
            key = id(space), name
            held[name].proxy = proxy
            own[name] = held[name].value = self.taken(key) if key in self.operands else self.build(space[name], memo)
        _protect(proxy)
        self.spaces.append((own, dict(own)))
        return proxy

    def namespace(self, value, memo):
        """Return a copy of a namespace with replaced attributes."""
        new, space = memo.setdefault(id(value), types.SimpleNamespace()), vars(value)
        for name in space:
            key = id(space), name
            setattr(new, name, self.taken(key) if key in self.operands else self.build(space[name], memo))
        self.spaces.append((vars(new), dict(vars(new))))
        return new

    def is_built(self, value) -> bool:
        """Return whether `build` replaces the value of an attribute."""
        return id(value) in REGISTERED or id(value) in self.changed or is_followed_module(value)
