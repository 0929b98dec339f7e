"""State that a function may read, and a change of it between two calls.

A case is a function without arguments that returns ``(f, change)``; `change` modifies the state.  The value of f
changes afterwards, except in the cases of `UNCHANGED`, where a cache keeps it.
"""

import abc
import array
import collections
import contextlib
import contextvars
import copy
import dataclasses
import decimal
import enum
import fractions
import functools
import importlib
import io
import itertools
import math
import operator
import os
import random
import statistics
import string
import sys
import threading
import time
import types
import typing
import weakref

import numpy as np
import scipy.sparse
import scipy.special

CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


def setter(owner, name, value):
    return lambda: setattr(owner, name, value)


def item(owner, key, value):
    return lambda: owner.__setitem__(key, value)


def module(name, **content):
    """Create a user module."""
    new = types.ModuleType(name)
    new.__file__ = __file__
    vars(new).update(content)
    return new


def source(text, **names):
    """Return the namespace of a module made from source and registered in `sys.modules`."""
    name = f"state_case_{len(sys.modules)}_{abs(hash(text)) % 9999}"
    new = module(name, np=np, math=math, **names)
    sys.modules[name] = new
    exec(compile(text, __file__, "exec"), vars(new))
    return new


class Holder:
    def __init__(self, **content):
        self.__dict__.update(content)


class Slots:
    __slots__ = ("fn", "k")

    def __init__(self, k):
        self.k, self.fn = k, np.sin

    def read(self):
        return self.k

    def rhs(self, u):
        return u * self.k


class Generic(typing.Generic[typing.TypeVar("T")]):
    def __init__(self, k):
        self.k = k

    def rhs(self, u):
        return u * self.k


class Meta(type):
    rate = 2.0

    def read(cls):
        return cls.k


class WithMeta(metaclass=Meta):
    k = 2.0

    def __init__(self, k):
        self.k = k

    def rhs(self, u):
        return u * self.k


class Registers:
    known = {}

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Registers.known[cls.__name__] = cls


class Registered(Registers):
    k = 2.0

    def rhs(self, u):
        return u * self.k


@dataclasses.dataclass
class Config:
    k: float = 2.0
    n: int = 2
    label: str = "a"

    def area(self):
        return self.k * SCALE["area"]

    @property
    def twice(self):
        return 2 * self.k


@dataclasses.dataclass(frozen=True)
class FrozenConfig:
    k: float = 2.0
    items: list = dataclasses.field(default_factory=lambda: [2.0])


Point = collections.namedtuple("Point", "k items")


class Record(typing.NamedTuple):
    k: float
    items: list


class Mode(enum.Enum):
    A = 1
    B = 2


class ListOf(list):
    pass


class DictOf(dict):
    def __missing__(self, key):
        return self.default


class Array(np.ndarray):
    pass


SCALE = {"area": 2.0}

CONTAINERS = {
    "list": lambda v: [v],
    "tuple in list": lambda v: [(v, 1)],
    "dict": lambda v: {0: v},
    "deque": lambda v: collections.deque([v]),
    "ordered dict": lambda v: collections.OrderedDict({0: v}),
    "default dict": lambda v: collections.defaultdict(list, {0: v}),
    "user dict": lambda v: collections.UserDict({0: v}),
    "user list": lambda v: collections.UserList([v]),
    "chain map": lambda v: collections.ChainMap({}, {0: v}),
    "proxy": lambda v: types.MappingProxyType({0: v}),
    "list subclass": lambda v: ListOf([v]),
    "dict subclass": lambda v: DictOf({0: v}),
    "object array": lambda v: _object_array(v),
    "nested": lambda v: {0: [{"a": (v,)}]},
    "large dict": lambda v: dict.fromkeys(range(200), v),
    "large list": lambda v: [v for i in range(200)],
    "set": lambda v: {v},
}


def _object_array(value):
    made = np.empty(1, dtype=object)
    made[0] = value
    return made


def first(held):
    """Return the content of a container."""
    if isinstance(held, (set, frozenset)):
        return next(iter(held))
    found = held[0]
    while isinstance(found, (list, dict)):
        found = found[0] if isinstance(found, list) else found["a"]
    return found[0] if isinstance(found, tuple) else found


def of_objects(container):
    """Return a case that reads an attribute of an object in a container."""

    def make():
        inside = Holder(k=2.0, fn=np.sin)
        held = CONTAINERS[container](inside)
        return lambda u: u * first(held).k, setter(inside, "k", 5.0)

    return make


def of_functions(container):
    """Return a case that reads a closure variable of a function in a container."""

    def make():
        rate = 2.0

        def inside(u):
            return u * rate

        def change():
            nonlocal rate
            rate = 5.0

        held = CONTAINERS[container](inside)
        return lambda u: first(held)(u), change

    return make


def of_arrays(container):
    """Return a case that reads an element of an array, in a container that also holds a function."""

    def make():
        inside = Holder(k=np.array([2.0, 1.0]), fn=np.sin)
        held = CONTAINERS[container](inside)
        return lambda u: u * first(held).k[0], item(inside.k, 0, 5.0)

    return make


for name in CONTAINERS:
    CASES[f"attribute of an object in a {name}"] = of_objects(name)
    CASES[f"variable of a closure in a {name}"] = of_functions(name)
    CASES[f"array of an object in a {name}"] = of_arrays(name)

OBJECTS = {
    "namespace": lambda: types.SimpleNamespace(k=2.0, fn=np.sin, rhs=lambda u: u),
    "object": lambda: Holder(k=2.0, fn=np.sin),
    "slots": lambda: Slots(2.0),
    "generic": lambda: Generic(2.0),
    "of a metaclass": lambda: WithMeta(2.0),
    "config": Config,
    "function": lambda: _with_attribute(),
    "module": lambda: module("state_settings", k=2.0),
    "exception": lambda: _with_attribute(ValueError("a")),
    "array subclass": lambda: _with_attribute(np.ones(3).view(Array)),
    "list subclass": lambda: _with_attribute(ListOf([1, 2])),
    "partial": lambda: _with_attribute(functools.partial(np.add, 1)),
}


def _with_attribute(owner=None):
    def plain(u):
        return u

    owner = plain if owner is None else owner
    owner.k = 2.0
    return owner


#: ways to read the attribute k of an object
READS = {
    "": lambda o, u: u * o.k,
    " by getattr": lambda o, u: u * getattr(o, "k"),  # noqa: B009
    " by a name": lambda o, u: u * getattr(o, SCALE_NAME),
    " by attrgetter": lambda o, u: u * operator.attrgetter("k")(o),
}
SCALE_NAME = "k"
for name, make_object in OBJECTS.items():
    for how, read in READS.items():

        def make(make_object=make_object, read=read):
            owner = make_object()
            return lambda u: read(owner, u), setter(owner, "k", 5.0)

        CASES[f"attribute of a {name}{how}"] = make

        def make(make_object=make_object, read=read):
            owner = make_object()
            owner.k = np.array([2.0, 3.0])
            return lambda u: np.sum(read(owner, u)), lambda: owner.k.__setitem__(0, 5.0)

        if not how:
            CASES[f"array in an attribute of a {name}"] = make


@case
def vars_of_an_object():
    owner = Holder(k=2.0, fn=np.sin)
    return lambda u: u * vars(owner)["k"], setter(owner, "k", 5.0)


@case
def dict_of_an_object():
    owner = Holder(k=2.0, fn=np.sin)
    return lambda u: u * owner.__dict__["k"], setter(owner, "k", 5.0)


@case
def sum_of_attributes():
    owner = Holder(k=2.0, m=1.0)
    return lambda u: u * sum(vars(owner).values()), setter(owner, "q", 5.0)


@case
def method_of_slots():
    owner = Slots(2.0)
    return owner.rhs, setter(owner, "k", 5.0)


@case
def method_of_a_generic():
    owner = Generic(2.0)
    return owner.rhs, setter(owner, "k", 5.0)


@case
def method_of_a_metaclass():
    owner = WithMeta(2.0)
    return owner.rhs, setter(owner, "k", 5.0)


@case
def method_of_a_registered_class():
    owner = Registered()
    return owner.rhs, setter(owner, "k", 5.0)


@case
def attribute_of_a_registered_class():
    class Another(Registers):
        k = 2.0

    return lambda u: u * Registers.known["Another"].k, setter(Another, "k", 5.0)


@case
def class_attribute_by_inheritance():
    class Base:
        k = 2.0

    class Middle(Base):
        pass

    class Leaf(Middle):
        def rhs(self, u):
            return u * self.k

    return Leaf().rhs, setter(Base, "k", 5.0)


@case
def class_attribute_that_comes_between():
    class Base:
        k = 2.0

    class Middle(Base):
        pass

    owner = type("Leaf", (Middle,), {})()
    return lambda u: u * owner.k, setter(Middle, "k", 5.0)


@case
def bases_of_a_class():
    class A:
        k = 2.0

    class B:
        k = 5.0

    class C(A):
        pass

    owner = C()
    return lambda u: u * owner.k, lambda: setattr(C, "__bases__", (B,))


@case
def class_of_an_object():
    class A:
        k = 2.0

    class B:
        k = 5.0

    owner = A()
    return lambda u: u * owner.k, lambda: setattr(owner, "__class__", B)


@case
def attribute_of_a_metaclass():
    class Kind(type):
        k = 2.0

    class A(metaclass=Kind):
        pass

    return lambda u: u * A.k, setter(Kind, "k", 5.0)


@case
def method_of_a_metaclass_that_reads():
    class Kind(type):
        def rate(cls):
            return SCALES["meta"]

    class A(metaclass=Kind):
        pass

    SCALES["meta"] = 2.0
    return lambda u: u * A.rate(), item(SCALES, "meta", 5.0)


SCALES = collections.defaultdict(lambda: 2.0)


@case
def property_that_reads_a_global():
    class A:
        @property
        def k(self):
            return SCALES["property"]

    SCALES["property"] = 2.0
    owner = A()
    return lambda u: u * owner.k, item(SCALES, "property", 5.0)


@case
def property_that_reads_an_attribute():
    class A:
        def __init__(self):
            self._k = 2.0

        @property
        def k(self):
            return self._k

    owner = A()
    return lambda u: u * owner.k, setter(owner, "_k", 5.0)


@case
def property_that_is_replaced():
    class A:
        @property
        def k(self):
            return 2.0

    owner = A()
    return lambda u: u * owner.k, setter(A, "k", property(lambda self: 5.0))


@case
def cached_property_after_a_change():
    class A:
        k = 2.0

        @functools.cached_property
        def twice(self):
            return 2 * self.k

    owner = A()

    def change():
        A.k = 5.0
        del owner.twice

    return lambda u: u * owner.twice, change


@case
def cached_property_that_is_kept():
    class A:
        k = 2.0

        @functools.cached_property
        def twice(self):
            return 2 * self.k

    owner = A()
    return lambda u: u * owner.twice, setter(A, "k", 5.0)


@case
def descriptor():
    class Read:
        def __init__(self):
            self.k = 2.0

        def __get__(self, owner, cls):
            return self.k

    class A:
        rate = Read()

    owner = A()
    return lambda u: u * owner.rate, lambda: setattr(vars(A)["rate"], "k", 5.0)


@case
def descriptor_with_storage():
    class Read:
        def __init__(self):
            self.values = {}

        def __get__(self, owner, cls):
            return self.values[id(owner)]

        def __set__(self, owner, value):
            self.values[id(owner)] = value

    class A:
        rate = Read()

    owner = A()
    owner.rate = 2.0
    return lambda u: u * owner.rate, setter(owner, "rate", 5.0)


@case
def weak_descriptor():
    class Read:
        def __init__(self):
            self.values = weakref.WeakKeyDictionary()

        def __get__(self, owner, cls):
            return self.values[owner]

        def __set__(self, owner, value):
            self.values[owner] = value

    class A:
        rate = Read()

    owner = A()
    owner.rate = 2.0
    return lambda u: u * owner.rate, setter(owner, "rate", 5.0)


def _special(method, **more):
    """Create a class with one special method that reads ``self.k``, and return an instance."""
    return type("Special", (), {method: lambda self, *args: self.k, **more})


SPECIAL = {
    "__call__": lambda o, u: u * o(),
    "__getitem__": lambda o, u: u * o["a"],
    "__len__": lambda o, u: u * len(o),
    "__contains__": lambda o, u: u * (2.0 if 3 in o else 3.0),
    "__float__": lambda o, u: u * float(o),
    "__int__": lambda o, u: u * int(o),
    "__index__": lambda o, u: u * np.arange(9.0)[o],
    "__bool__": lambda o, u: u * (2.0 if o else 3.0),
    "__add__": lambda o, u: u * (o + 1),
    "__radd__": lambda o, u: u * (1 + o),
    "__neg__": lambda o, u: u * -o,
    "__eq__": lambda o, u: u * (2.0 if o == 1 else 3.0),
    "__lt__": lambda o, u: u * (2.0 if o < 1 else 3.0),
    "__hash__": lambda o, u: u * (hash(o) + 1.0),
    "__enter__": lambda o, u: _entered(o, u),
    "__getattr__": lambda o, u: u * o.missing,
    "__round__": lambda o, u: u * round(o),
    "__abs__": lambda o, u: u * abs(o),
    "__array__": lambda o, u: u * np.asarray(o).sum(),
    "__iter__": lambda o, u: u * sum(o),
    "__matmul__": lambda o, u: u * (o @ 1),
    "__format__": lambda o, u: u * len(f"{o}"),
    "__str__": lambda o, u: u * float(str(o)),
}


def _entered(owner, u):
    with owner as k:
        return u * k


VALUES = {
    "__len__": (2, 5), "__int__": (2, 5), "__index__": (2, 5), "__hash__": (2, 5), "__contains__": (True, False),
    "__bool__": (True, False), "__eq__": (True, False), "__lt__": (True, False), "__format__": ("a", "aaaa"),
    "__str__": ("2.0", "5.0"),
}  # fmt: skip

for name, read in SPECIAL.items():

    def make(name=name, read=read):
        before, after = VALUES.get(name, (2.0, 5.0))
        cls = _special(name, __exit__=lambda self, *error: None)
        if name == "__iter__":
            cls.__iter__ = lambda self: iter([self.k])
        if name == "__array__":
            cls.__array__ = lambda self, dtype=None, copy=None: np.array([self.k, 1.0])
        owner = cls()
        owner.__dict__["k"] = before
        return lambda u: read(owner, u), lambda: owner.__dict__.__setitem__("k", after)

    CASES[f"special method {name}"] = make

    def make(name=name, read=read):
        before, after = VALUES.get(name, (2.0, 5.0))
        cls = _special(name, __exit__=lambda self, *error: None)
        setattr(cls, name, lambda self, *args, **kwargs: before)
        if name in ("__iter__", "__array__"):
            return None
        owner = cls()
        return lambda u: read(owner, u), lambda: setattr(cls, name, lambda self, *args: after)

    if name not in ("__iter__", "__array__"):
        CASES[f"special method {name} replaced"] = make


@case
def getattribute():
    class A:
        def __init__(self):
            object.__setattr__(self, "store", {"k": 2.0})

        def __getattribute__(self, name):
            return object.__getattribute__(self, "store")[name]

    owner = A()
    return lambda u: u * owner.k, lambda: object.__getattribute__(owner, "store").__setitem__("k", 5.0)


@case
def getattr_of_a_class():
    class A:
        def __init__(self):
            self.store = {"k": 2.0, "fn": np.sin}

        def __getattr__(self, name):
            return self.store[name]

    owner = A()
    return lambda u: u * owner.k, lambda: owner.store.__setitem__("k", 5.0)


@case
def method_replaced_on_the_class():
    class A:
        def rate(self):
            return 2.0

    owner = A()
    return lambda u: u * owner.rate(), setter(A, "rate", lambda self: 5.0)


@case
def method_replaced_on_the_object():
    class A:
        def rate(self):
            return 2.0

    owner = A()
    return lambda u: u * owner.rate(), setter(owner, "rate", lambda: 5.0)


@case
def code_of_a_method():
    class A:
        def rate(self):
            return 2.0

    owner = A()
    return lambda u: u * owner.rate(), lambda: setattr(A.rate, "__code__", (lambda self: 5.0).__code__)


@case
def class_method():
    class A:
        k = 2.0

        @classmethod
        def rate(cls):
            return cls.k

    return lambda u: u * A.rate(), setter(A, "k", 5.0)


@case
def static_method():
    class A:
        @staticmethod
        def rate():
            return SCALES["static"]

    SCALES["static"] = 2.0
    return lambda u: u * A.rate(), item(SCALES, "static", 5.0)


@case
def object_made_inside_reads_its_class():
    class A:
        k = 2.0

        def rate(self):
            return self.k

    return lambda u: u * A().rate(), setter(A, "k", 5.0)


@case
def object_made_inside_reads_in_init():
    class A:
        def __init__(self):
            self.rate = SCALES["init"]

    SCALES["init"] = 2.0
    return lambda u: u * A().rate, item(SCALES, "init", 5.0)


@case
def object_made_inside_by_new():
    class A:
        def __new__(cls):
            new = super().__new__(cls)
            new.rate = SCALES["new"]
            return new

    SCALES["new"] = 2.0
    return lambda u: u * A().rate, item(SCALES, "new", 5.0)


@case
def default_of_init():
    class A:
        def __init__(self, k=2.0):
            self.k = k

    return lambda u: u * A().k, lambda: setattr(A.__init__, "__defaults__", (5.0,))


@case
def dataclass_made_inside():
    @dataclasses.dataclass
    class Made:
        k: float = 2.0

    return lambda u: u * Made().k, lambda: setattr(Made.__init__, "__defaults__", (5.0,))


@case
def method_of_a_dataclass_reads_a_global():
    config = Config()
    SCALE["area"] = 2.0
    return lambda u: u * config.area(), item(SCALE, "area", 5.0)


@case
def property_of_a_dataclass():
    config = Config()
    return lambda u: u * config.twice, setter(config, "k", 5.0)


@case
def dataclass_in_a_dict():
    held = {"a": Config(), "fn": np.sin}
    return lambda u: u * held["a"].k, lambda: setattr(held["a"], "k", 5.0)


@case
def further_attribute_of_a_dataclass():
    config = Config()
    config.extra = 2.0
    return lambda u: u * config.extra, setter(config, "extra", 5.0)


@case
def list_in_a_frozen_dataclass():
    config = FrozenConfig()
    return lambda u: u * config.items[0], lambda: config.items.__setitem__(0, 5.0)


@case
def asdict_of_a_dataclass():
    config = Config()
    return lambda u: u * dataclasses.asdict(config)["k"], setter(config, "k", 5.0)


@case
def copy_of_an_object():
    owner = Holder(k=2.0, fn=np.sin)
    return lambda u: u * copy.copy(owner).k, setter(owner, "k", 5.0)


@case
def deepcopy_of_an_object():
    owner = Holder(inner=Holder(k=2.0))
    return lambda u: u * copy.deepcopy(owner).inner.k, lambda: setattr(owner.inner, "k", 5.0)


@case
def list_in_a_namedtuple():
    point = Point(1.0, [2.0])
    return lambda u: u * point.items[0], item(point.items, 0, 5.0)


@case
def object_in_a_namedtuple():
    point = Point(1.0, Holder(k=2.0))
    return lambda u: u * point.items.k, lambda: setattr(point.items, "k", 5.0)


@case
def typed_namedtuple():
    point = Record(1.0, [2.0, np.sin])
    return lambda u: u * point.items[0], item(point.items, 0, 5.0)


@case
def enum_member_in_a_global():
    held = {"mode": Mode.A}
    return lambda u: u * (2.0 if held["mode"] is Mode.A else 5.0), item(held, "mode", Mode.B)


@case
def value_of_an_enum_member():
    class Rate(enum.Enum):
        A = 2.0

    return lambda u: u * Rate.A.value, lambda: setattr(Rate.A, "_value_", 5.0)


@case
def further_attribute_of_an_enum_member():
    class Rate(enum.Enum):
        A = 2.0

    Rate.A.k = 2.0
    return lambda u: u * Rate.A.k, lambda: setattr(Rate.A, "k", 5.0)


# ---- functions


@case
def closure_of_a_closure():
    def make():
        rate = 2.0

        def inner(u):
            return u * rate

        def outer(u):
            return inner(u)

        def change():
            nonlocal rate
            rate = 5.0

        return outer, change

    return make()


@case
def mutable_default():
    def f(u, held=[2.0, np.sin]):  # noqa: B006
        return u * held[0]

    return f, lambda: f.__defaults__[0].__setitem__(0, 5.0)


@case
def keyword_default():
    def f(u, *, held={"k": 2.0, "fn": np.sin}):  # noqa: B006
        return u * held["k"]

    return f, lambda: f.__kwdefaults__["held"].__setitem__("k", 5.0)


@case
def default_of_a_helper():
    def helper(u, k=2.0):
        return u * k

    return lambda u: helper(u), setter(helper, "__defaults__", (5.0,))


@case
def code_of_a_helper():
    def helper(u):
        return u * 2.0

    return lambda u: helper(u), lambda: setattr(helper, "__code__", (lambda u: u * 5.0).__code__)


@case
def partial_of_a_list():
    held = [2.0, np.sin]
    return functools.partial(lambda held, u: u * held[0], held), item(held, 0, 5.0)


@case
def keyword_of_a_partial():
    part = functools.partial(lambda u, owner: u * owner.k, owner=Holder(k=2.0))
    return part, lambda: setattr(part.keywords["owner"], "k", 5.0)


@case
def state_of_a_partial():
    part = functools.partial(lambda k, u: u * k, 2.0)
    return lambda u: part(u), lambda: part.__setstate__((part.func, (5.0,), {}, {}))


@case
def further_keyword_of_a_partial():
    part = functools.partial(lambda u, k=2.0, owner=np.sin: u * k, owner=np.cos)
    return lambda u: part(u), item(part.keywords, "k", 5.0)


@case
def keyword_of_a_partial_in_a_global():
    space = source("""
import functools

def scaled(u, k):
    new = np.zeros(1)
    new[0] = u * k
    return new[0]

part = functools.partial(scaled, k=2.0)

def f(u):
    return part(u)
""")
    return space.f, item(space.part.keywords, "k", 5.0)


@case
def keyword_of_a_partial_method():
    class Scale:
        def scaled(self, u, k):
            new = np.zeros(1)
            new[0] = u * k
            return new[0]

        twice = functools.partialmethod(scaled, k=2.0)

    scale = Scale()
    return lambda u: scale.twice(u), item(vars(Scale)["twice"].keywords, "k", 5.0)


@case
def keyword_default_beside_a_function():
    def scaled(u, *, k=2.0, function=np.negative):
        return k * function(u)

    return lambda u: scaled(u), item(scaled.__kwdefaults__, "k", 5.0)


@case
def keyword_default_of_a_method():
    class Scale:
        def scaled(self, u, *, k=2.0, function=np.negative):
            return k * function(u)

    scale = Scale()
    return lambda u: scale.scaled(u), item(Scale.scaled.__kwdefaults__, "k", 5.0)


@case
def keyword_default_of_the_function_itself():
    def scaled(u, *, k=2.0, function=np.negative):
        return k * function(u)

    return scaled, item(scaled.__kwdefaults__, "k", 5.0)


def of_polynomials(change):
    """Return a case that evaluates a polynomial in a global, and one in an attribute."""

    def make():
        space = source("""
class Model:
    def __init__(self, curve):
        self.curve = curve

    def value(self, u):
        return self.curve(u)

curve, model = np.polynomial.Polynomial([1.0, 2.0]), Model(np.polynomial.Polynomial([1.0, 2.0]))

def f(u):
    return curve(u) + model.value(u)
""")
        return space.f, lambda: (change(space.curve), change(space.model.curve))

    return make


CHANGES_OF_POLYNOMIALS = {
    "coefficients": lambda curve: setattr(curve, "coef", np.array([1.0, 3.0])),
    "coefficient": lambda curve: curve.coef.__setitem__(1, 3.0),
    "domain": lambda curve: setattr(curve, "domain", np.array([0.0, 1.0])),
}
for name, change in CHANGES_OF_POLYNOMIALS.items():
    CASES[f"{name} of a polynomial"] = of_polynomials(change)


@case
def scalar_array_in_a_linear_function():
    held = np.array(2.0)
    return lambda u: u * held if f"{u:.3g}" else u, lambda: held.__setitem__((), 5.0)


@case
def decorator_with_state():
    def scaled(f):
        def wrapper(u):
            return f(u) * wrapper.k

        wrapper.k = 2.0
        return wrapper

    f = scaled(lambda u: u)
    return f, setter(f, "k", 5.0)


@case
def decorator_class_with_state():
    class Scaled:
        def __init__(self, f):
            self.f, self.options = f, {"k": 2.0, "fn": f}

        def __call__(self, u):
            return self.f(u) * self.options["k"]

    f = Scaled(lambda u: u)
    return f, item(f.options, "k", 5.0)


@case
def wrapped_by_functools():
    held = {"k": 2.0}

    def f(u):
        return u * held["k"]

    @functools.wraps(np.sum)
    def wrapper(u):
        return f(u)

    return lambda u: wrapper(u), item(held, "k", 5.0)


@case
def cached_function_that_reads():
    held = {"k": 2.0}

    @functools.lru_cache
    def rate():
        return held["k"]

    return lambda u: u * rate(), item(held, "k", 5.0)


@case
def cached_function_that_is_cleared():
    held = {"k": 2.0}

    @functools.cache
    def rate():
        return held["k"]

    def change():
        held["k"] = 5.0
        rate.cache_clear()

    return lambda u: u * rate(), change


@case
def object_that_a_cached_function_returns():
    @functools.cache
    def config():
        return types.SimpleNamespace(k=2.0)

    return lambda u: u * config().k, lambda: setattr(config(), "k", 5.0)


@case
def dict_that_a_cached_function_returns():
    @functools.lru_cache
    def config(name):
        return {name: 2.0}

    return lambda u: u * config("k")["k"], lambda: config("k").update(k=5.0)


@case
def cached_function_that_reads_a_global_object():
    owner = Holder(k=2.0)

    @functools.lru_cache
    def rate(n):
        return n * owner.k

    return lambda u: u * rate(1), setter(owner, "k", 5.0)


@case
def single_dispatch():
    @functools.singledispatch
    def rate(x):
        return 2.0

    return lambda u: u * rate("a"), lambda: rate.register(str, lambda x: 5.0)


@case
def functions_in_a_table():
    table = {"rate": lambda u: u * 2.0}
    return lambda u: table["rate"](u), item(table, "rate", lambda u: u * 5.0)


@case
def bound_method_of_a_dict():
    held = {"k": 2.0}
    get = held.get
    return lambda u: u * get("k"), item(held, "k", 5.0)


@case
def bound_getitem_of_a_list():
    held = [2.0]
    get = held.__getitem__
    return lambda u: u * get(0), item(held, 0, 5.0)


@case
def bound_getitem_of_an_array():
    held = np.array([2.0])
    get = held.__getitem__
    return lambda u: u * get(0), item(held, 0, 5.0)


@case
def bound_sum_of_an_array():
    held = np.array([2.0])
    total = held.sum
    return lambda u: u * total(), item(held, 0, 5.0)


@case
def bound_method_in_a_list():
    owner = Generic(2.0)
    held = [owner.rhs]
    return lambda u: held[0](u), setter(owner, "k", 5.0)


@case
def method_caller():
    owner = Slots(2.0)
    call = operator.methodcaller("read")
    return lambda u: u * call(owner), setter(owner, "k", 5.0)


@case
def item_getter():
    held = {"k": 2.0, "fn": np.sin}
    get = operator.itemgetter("k")
    return lambda u: u * get(held), item(held, "k", 5.0)


@case
def reduce_over_objects():
    held = [Holder(k=1.0), Holder(k=1.0)]
    return lambda u: u * functools.reduce(lambda s, o: s + o.k, held, 0.0), lambda: setattr(held[0], "k", 5.0)


def _rate_of(owner):
    return owner.k


@case
def map_over_objects():
    held = [Holder(k=1.0), Holder(k=1.0)]
    return lambda u: u * sum(map(_rate_of, held)), lambda: setattr(held[0], "k", 5.0)


@case
def comprehension_over_objects():
    held = [Holder(k=1.0), Holder(k=1.0)]
    return lambda u: u * sum([o.k for o in held]), lambda: held.append(Holder(k=5.0))


@case
def generator_over_objects():
    held = {"a": Holder(k=1.0)}
    return lambda u: u * sum(o.k for o in held.values()), lambda: setattr(held["a"], "k", 5.0)


@case
def sorted_by_attribute():
    held = [Holder(k=1.0, v=2.0), Holder(k=2.0, v=5.0)]
    return lambda u: u * sorted(held, key=lambda o: o.k)[0].v, lambda: setattr(held[0], "k", 9.0)


@case
def walk_of_a_tree():
    leaf = Holder(k=2.0, children=[])
    tree = Holder(k=1.0, children=[Holder(k=1.0, children=[leaf])])

    def total(node):
        return node.k + sum(total(child) for child in node.children)

    return lambda u: u * total(tree), setter(leaf, "k", 5.0)


@case
def objects_that_hold_each_other():
    a, b = Holder(k=2.0), Holder(k=3.0)
    a.other, b.other = b, a
    return lambda u: u * a.other.other.other.k, setter(b, "k", 5.0)


# ---- modules and names


@case
def global_of_another_module():
    other = source("rate = 2.0\ndef helper(u):\n    return u * rate\n")
    return lambda u: other.helper(u), setter(other, "rate", 5.0)


@case
def function_of_another_module_patched():
    other = source("def helper(u):\n    return u * 2.0\n")
    return lambda u: other.helper(u), setter(other, "helper", lambda u: u * 5.0)


@case
def name_imported_inside():
    other = source("rate = 2.0\n")
    here = source(f"def f(u):\n    from {other.__name__} import rate\n    return u * rate\n")
    return here.f, setter(other, "rate", 5.0)


@case
def module_imported_inside():
    other = source("rate = 2.0\n")
    here = source(f"def f(u):\n    import {other.__name__} as m\n    return u * m.rate\n")
    return here.f, setter(other, "rate", 5.0)


@case
def function_imported_inside():
    other = source("rate = 2.0\ndef helper(u):\n    return u * rate\n")
    here = source(f"def f(u):\n    from {other.__name__} import helper\n    return helper(u)\n")
    return here.f, setter(other, "rate", 5.0)


@case
def module_imported_by_name():
    other = source("rate = 2.0\n")
    return lambda u: u * importlib.import_module(other.__name__).rate, setter(other, "rate", 5.0)


@case
def module_in_sys_modules():
    other = source("rate = 2.0\n")
    name = other.__name__
    return lambda u: u * sys.modules[name].rate, setter(other, "rate", 5.0)


@case
def module_in_a_variable():
    other = source("rate = 2.0\n")

    def f(u):
        held = other
        return u * held.rate

    return f, setter(other, "rate", 5.0)


@case
def module_in_a_list():
    other = source("rate = 2.0\n")
    held = [other]
    return lambda u: u * held[0].rate, setter(other, "rate", 5.0)


@case
def module_by_getattr():
    other = source("rate = 2.0\n")
    return lambda u: u * getattr(other, "rate"), setter(other, "rate", 5.0)  # noqa: B009


@case
def getattr_of_a_module():
    other = source("store = {'rate': 2.0}\ndef __getattr__(name):\n    return store[name]\n")
    return lambda u: u * other.rate, lambda: other.store.__setitem__("rate", 5.0)


@case
def module_in_a_module():
    inner = source("rate = 2.0\n")
    outer = source("", inner=inner)
    return lambda u: u * outer.inner.rate, setter(inner, "rate", 5.0)


@case
def globals_by_name():
    here = source("rate = 2.0\ndef f(u):\n    return u * globals()['rate']\n")
    return here.f, setter(here, "rate", 5.0)


@case
def globals_by_eval():
    here = source("rate = 2.0\ndef f(u):\n    return u * eval('rate')\n")
    return here.f, setter(here, "rate", 5.0)


@case
def globals_by_exec():
    text = "rate = 2.0\ndef f(u):\n    space = {}\n    exec('k = rate', globals(), space)\n    return u * space['k']\n"
    here = source(text)
    return here.f, setter(here, "rate", 5.0)


@case
def name_that_hides_a_builtin():
    here = source("def f(u):\n    return u * abs(-2.0)\n")
    return here.f, setter(here, "abs", lambda x: 5.0)


@case
def attribute_patched_in_numpy():
    owner = module("state_numpy", tau=2.0)
    return lambda u: u * owner.tau, setter(owner, "tau", 5.0)


@case
def object_of_a_global_in_another_module():
    text = "class A:\n    def __init__(self):\n        self.k = 2.0\nowner = A()\ndef rate():\n    return owner.k\n"
    other = source(text)
    return lambda u: u * other.rate(), lambda: setattr(other.owner, "k", 5.0)


@case
def global_list_of_another_module():
    other = source("items = [2.0, len]\ndef rate():\n    return items[0]\n")
    return lambda u: u * other.rate(), lambda: other.items.__setitem__(0, 5.0)


# ---- data


def _held(make, change):
    def made():
        held = make()
        return lambda u: u * np.sum(np.asarray(held, dtype=float)), lambda: change(held)

    return made


DATA = {
    "float16": lambda: np.ones(3, np.float16),
    "longdouble": lambda: np.ones(3, np.longdouble),
    "byte order": lambda: np.ones(3, ">f8"),
    "int8": lambda: np.ones(3, np.int8),
    "bool": lambda: np.ones(3, bool),
    "objects": lambda: np.array([1.0, 2.0], dtype=object),
    "subclass": lambda: np.ones(3).view(Array),
    "matrix of strides": lambda: np.ones((4, 4))[::2, ::2],
    "float64": lambda: np.ones(3),
    "float32": lambda: np.ones(3, np.float32),
}
for name, make_data in DATA.items():
    CASES[f"array of {name}"] = _held(make_data, lambda held: held.__setitem__(0, 0))
    CASES[f"array of {name} in a list"] = _held(lambda m=make_data: [m()], lambda held: held[0].__setitem__(0, 0))

    def make(make_data=make_data):
        owner = Holder(held=[make_data(), np.sin])
        return lambda u: u * np.sum(np.asarray(owner.held[0], dtype=float)), lambda: owner.held[0].__setitem__(0, 0)

    CASES[f"array of {name} in a list of an object"] = make


@case
def structured_array():
    held = np.array([(1.0, 2)], dtype=[("a", float), ("b", int)])
    return lambda u: u * held["a"][0], lambda: held["a"].__setitem__(0, 5.0)


@case
def structured_scalar():
    held = np.array([(2.0, 2)], dtype=[("a", float), ("b", int)])[0]
    return lambda u: u * held["a"], item(held, "a", 5.0)


@case
def record_array():
    held = np.rec.array([(2.0, 2)], dtype=[("a", float), ("b", int)])
    return lambda u: u * held.a[0], lambda: held.a.__setitem__(0, 5.0)


@case
def masked_array():
    held = np.ma.masked_array([1.0, 2.0], [False, False])
    return lambda u: u * float(held.sum()), lambda: held.mask.__setitem__(0, True)


@case
def shape_of_an_array():
    held = [np.ones((2, 3))]
    return lambda u: u * held[0].shape[0], item(held, 0, np.ones((3, 2)))


@case
def array_that_is_appended_to():
    held = []
    held.append(np.ones(2))
    return lambda u: u * sum(np.sum(a) for a in held), lambda: held.append(np.ones(2))


@case
def memory_view():
    below = np.array([2.0])
    held = memoryview(below)
    return lambda u: u * held[0], item(below, 0, 5.0)


@case
def byte_array():
    held = bytearray(b"\2")
    return lambda u: u * held[0], item(held, 0, 5)


@case
def array_of_the_library():
    held = array.array("d", [2.0])
    return lambda u: u * held[0], item(held, 0, 5.0)


@case
def string_buffer():
    held = io.StringIO("2.0")
    return lambda u: u * float(held.getvalue()), lambda: (held.seek(0), held.write("5.0"))


@case
def nested_dict_of_arrays():
    held = {"a": [{"b": np.array([2.0])}, np.sin]}
    return lambda u: u * held["a"][0]["b"][0], lambda: held["a"][0]["b"].__setitem__(0, 5.0)


@case
def integer_in_a_nested_dict():
    held = {"a": [{"n": 2}, np.sin]}
    return lambda u: u ** held["a"][0]["n"], lambda: held["a"][0].__setitem__("n", 3)


@case
def flag_in_a_nested_object():
    owner = Holder(options={"flags": Holder(fast=True)})
    return lambda u: u * (2.0 if owner.options["flags"].fast else 5.0), lambda: setattr(
        owner.options["flags"], "fast", False
    )


@case
def order_of_a_dict():
    held = {"a": 2.0, "b": 5.0, "fn": np.sin}

    def change():
        held["a"] = held.pop("a")

    return lambda u: u * next(iter(held.values())), change


@case
def order_of_an_ordered_dict():
    held = collections.OrderedDict(a=2.0, b=5.0)
    return lambda u: u * next(iter(held.values())), lambda: held.move_to_end("a")


@case
def default_factory():
    held = collections.defaultdict(lambda: 2.0)
    held["b"] = 1.0
    return lambda u: u * held.default_factory(), setter(held, "default_factory", lambda: 5.0)


@case
def missing_of_a_dict():
    held = DictOf(a=1.0)
    held.default = 2.0
    return lambda u: u * held["b"], setter(held, "default", 5.0)


@case
def key_of_a_dict():
    held = {"a": 1.0, "fn": np.sin}
    return lambda u: u * (2.0 if "b" in held else 3.0), item(held, "b", 5.0)


@case
def length_of_a_list():
    held = [np.sin, np.cos]
    return lambda u: u * len(held), lambda: held.append(np.tan)


@case
def items_of_a_set():
    held = {1, 2}
    return lambda u: u * sum(held), lambda: held.add(7)


@case
def item_of_a_large_set():
    held = set(range(100))
    return lambda u: u * sum(held), lambda: held.add(700)


@case
def item_of_a_large_list():
    held = [1.0] * 500
    return lambda u: u * held[77], item(held, 77, 5.0)


@case
def item_of_a_large_dict():
    held = dict.fromkeys(range(500), 1.0)
    return lambda u: u * held[77], item(held, 77, 5.0)


@case
def item_of_a_huge_list():
    held = [1.0] * 50_000
    return lambda u: u * held[77], item(held, 77, 5.0)


@case
def array_in_a_large_list():
    held = [np.ones(2) for _ in range(100)]
    return lambda u: u * held[77][0], lambda: held[77].__setitem__(0, 5.0)


@case
def huge_array_in_a_list():
    held = [np.ones(2_000_000), np.sin]
    return lambda u: u * held[0][77], lambda: held[0].__setitem__(77, 5.0)


@case
def counter():
    held = collections.Counter("aab")
    return lambda u: u * held["a"], lambda: held.update("aaa")


@case
def chain_of_maps():
    defaults = {"k": 2.0, "fn": np.sin}
    held = collections.ChainMap({}, defaults)
    return lambda u: u * held["k"], item(defaults, "k", 5.0)


@case
def proxy_of_a_dict():
    below = {"k": 2.0, "fn": np.sin}
    held = types.MappingProxyType(below)
    return lambda u: u * held["k"], item(below, "k", 5.0)


@case
def view_of_a_dict():
    below = {"k": 2.0}
    held = below.values()
    return lambda u: u * sum(held), item(below, "k", 5.0)


@case
def sequence_with_getitem():
    class Table:
        def __init__(self):
            self.rows = [2.0, 3.0]

        def __getitem__(self, i):
            return self.rows[i]

        def __len__(self):
            return len(self.rows)

    table = Table()
    return lambda u: u * table[0], lambda: table.rows.__setitem__(0, 5.0)


@case
def reference_that_is_weak():
    owner = Holder(k=2.0)
    held, keep = weakref.ref(owner), [owner]
    return lambda u: u * held().k, lambda: setattr(keep[0], "k", 5.0)


@case
def proxy_that_is_weak():
    owner = Holder(k=2.0)
    held, keep = weakref.proxy(owner), [owner]
    return lambda u: u * held.k, lambda: setattr(keep[0], "k", 5.0)


@case
def values_that_are_weak():
    owner = Holder(k=2.0)
    held, keep = weakref.WeakValueDictionary(a=owner), [owner]
    return lambda u: u * held["a"].k, lambda: setattr(keep[0], "k", 5.0)


@case
def cell_itself():
    held = types.CellType(2.0)
    return lambda u: u * held.cell_contents, setter(held, "cell_contents", 5.0)


@case
def slice_in_a_list():
    held = [slice(0, 1), np.sin]
    return lambda u: u * np.sum(np.arange(1.0, 6.0)[held[0]]), item(held, 0, slice(0, 3))


@case
def fraction():
    held = {"k": fractions.Fraction(2)}
    return lambda u: u * float(held["k"]), item(held, "k", fractions.Fraction(5))


# ---- sparse matrices


def _sparse(name, kind):
    def make():
        held = kind(np.array([[2.0, 1.0], [0.0, 3.0]]))
        return lambda u: u * held.sum(), lambda: getattr(held, name).__setitem__(0, 9)

    return make


for name in ("csr_array", "csc_array", "coo_array", "csr_matrix", "dia_array", "bsr_array"):
    CASES[f"data of a {name}"] = _sparse("data", getattr(scipy.sparse, name))


@case
def indices_of_a_sparse_array():
    held = scipy.sparse.csr_array(np.array([[2.0, 0.0], [0.0, 3.0]]))
    return lambda u: u * (held @ np.array([1.0, 5.0]))[0], lambda: held.indices.__setitem__(0, 1)


@case
def product_with_a_sparse_array():
    held = scipy.sparse.csr_array(np.array([[2.0, 1.0], [0.0, 3.0]]))
    return lambda u: np.sum(held @ (u * np.ones(2))), lambda: held.data.__setitem__(0, 9.0)


@case
def sparse_array_in_an_object():
    owner = Holder(matrix=scipy.sparse.csr_array(np.eye(2)), fn=np.sin)
    return lambda u: u * owner.matrix.sum(), lambda: owner.matrix.data.__setitem__(0, 9.0)


@case
def polynomial_object():
    held = np.polynomial.Polynomial([2.0, 1.0])
    return lambda u: u * held(1.0), lambda: held.coef.__setitem__(0, 9.0)


# ---- process state


@case
def environment():
    os.environ["STATE_CASE"] = "2.0"
    return lambda u: u * float(os.environ["STATE_CASE"]), item(os.environ, "STATE_CASE", "5.0")


@case
def environment_by_getenv():
    os.environ["STATE_CASE"] = "2.0"
    return lambda u: u * float(os.getenv("STATE_CASE")), item(os.environ, "STATE_CASE", "5.0")


@case
def context_variable():
    held = contextvars.ContextVar("held", default=2.0)
    return lambda u: u * held.get(), lambda: held.set(5.0)


@case
def variable_of_a_thread():
    held = threading.local()
    held.k = 2.0
    return lambda u: u * held.k, setter(held, "k", 5.0)


@case
def arguments_of_the_program():
    return lambda u: u * len(sys.argv), lambda: sys.argv.append("more")


@case
def recursion_limit():
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 1)
    return lambda u: u * sys.getrecursionlimit(), lambda: sys.setrecursionlimit(limit)


@case
def context_of_decimals():
    one, decimal.getcontext().prec = decimal.Decimal(1), 28
    return lambda u: u * float(one / 3), lambda: setattr(decimal.getcontext(), "prec", 5)


@case
def context_of_decimals_made_inside():
    decimal.getcontext().prec = 28
    return lambda u: u * float(decimal.Decimal(1) / 7), lambda: setattr(decimal.getcontext(), "prec", 5)


@case
def file():
    held = io.BytesIO(b"25")
    return lambda u: u * float(chr(held.getbuffer()[0])), lambda: held.write(b"5")


@case
def directory():
    os.chdir("/")
    return lambda u: u * len(os.getcwd()), lambda: os.chdir("/usr")


@case
def captured_stream():
    held = io.StringIO()
    return lambda u: u * (1.0 + held.tell()), lambda: held.write("abc")


@case
def exit_stack():
    stack = contextlib.ExitStack()
    stack.k = 2.0
    return lambda u: u * stack.k, setter(stack, "k", 5.0)


@case
def template_string():
    held = string.Template("2.0")
    return lambda u: u * float(held.template), setter(held, "template", "5.0")


@case
def statistics_of_a_list():
    held = [1.0, 3.0]
    return lambda u: u * statistics.mean(held), item(held, 0, 7.0)


@case
def abstract_class():
    class Base(abc.ABC):
        @abc.abstractmethod
        def rate(self): ...

    class A(Base):
        def __init__(self):
            self.k = 2.0

        def rate(self):
            return self.k

    owner = A()
    return lambda u: u * owner.rate(), setter(owner, "k", 5.0)


@case
def registered_abstract_class():
    class Base(abc.ABC):  # noqa: B024
        pass

    held = Holder(k=2.0)
    return lambda u: u * (5.0 if isinstance(held, Base) else 2.0), lambda: Base.register(Holder)


@case
def protocol():
    class Rated(typing.Protocol):
        k: float

        def rate(self):
            return self.k

    class A(Rated):
        k = 2.0

    owner = A()
    return lambda u: u * owner.rate(), setter(A, "k", 5.0)


@case
def pattern_of_attributes():
    owner = Holder(k=2.0)
    here = source("def f(u):\n    match owner:\n        case Holder(k=rate):\n            return u * rate\n",
                  owner=owner, Holder=Holder)  # fmt: skip
    return here.f, setter(owner, "k", 5.0)


@case
def super_class():
    class Base:
        k = 2.0

        def rate(self):
            return self.k

    class A(Base):
        def rate(self):
            return super().rate()

    owner = A()
    return lambda u: u * owner.rate(), setter(Base, "rate", lambda self: 5.0)


@case
def attribute_by_super():
    class Base:
        k = 2.0

    class A(Base):
        k = 3.0

        def rate(self):
            return super().k

    owner = A()
    return lambda u: u * owner.rate(), setter(Base, "k", 5.0)


#: each call returns another value
CHANGING = {
    "random": lambda: lambda u: u * random.random(),
    "NumPy's random numbers": lambda: lambda u: u * np.random.normal(),  # noqa: NPY002
    "a generator of random numbers": lambda: (lambda rng: lambda u: u * rng.normal())(np.random.default_rng(0)),
    "a bound method of one": lambda: (lambda draw: lambda u: u * draw())(np.random.default_rng(0).normal),
    "an old generator without a seed": lambda: lambda u: u * np.random.RandomState().rand(),
    "an old generator with None as its seed": lambda: (lambda seed=None: lambda u: u * _old_draw(seed))(),
    "seeds of two generators": lambda: lambda u: u * _old_draw(3) * np.random.default_rng().random(),
    "a seed from another generator": lambda: lambda u: u * _old_draw(random.getrandbits(30)),
    "a seed that may be None": lambda: lambda u: u * np.random.RandomState(None if u is not None else 3).rand(),
    "clock": lambda: lambda u: u * time.time_ns(),
    "count": lambda: (lambda n: lambda u: u + next(n))(itertools.count(1)),
    "generator": lambda: (lambda n: lambda u: u + next(n))(i for i in range(1000)),
    "iterator of a list": lambda: (lambda n: lambda u: u + next(n))(iter([*range(1000)])),
    "iterator of a class": lambda: (lambda n: lambda u: u + next(n))(Counting()),
    "method of an object that counts": lambda: Counting().rhs,
    "cycle in an object": lambda: (lambda o: lambda u: u + next(o.n))(Holder(n=itertools.cycle([1, 2, 3]))),
    "counter in a list": lambda: _counting_list(),
}  # fmt: skip


def _old_draw(seed):
    return np.random.RandomState(seed).rand()


class Counting:
    def __init__(self):
        self.n = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.n += 1
        return self.n

    def rhs(self, u):
        self.n += 1
        return u + self.n


def _counting_list():
    held = [0]

    def f(u):
        held[0] += 1
        return u + held[0]

    return f


#: code without derivative, because a user class in it reads computed values
UNDIFFERENTIATED = {
    "special method __index__", "special method __index__ replaced", "special method __array__",
}  # fmt: skip

#: a cache keeps the old value
KEPT = {"cached_property_that_is_kept", "cached_function_that_reads", "cached_function_that_reads_a_global_object"}
