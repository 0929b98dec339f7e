"""State in frameworks and applications, and a change of it between two calls: more rows for `state_cases`."""

import abc
import collections
import contextlib
import dataclasses
import enum
import functools
import logging
import operator
import pathlib
import tempfile
import threading
import types
import typing
import weakref

import numpy as np
from scipy import integrate, interpolate, sparse
from scipy.sparse.linalg import LinearOperator

CASES = {}


def case(make):
    CASES[make.__name__] = make
    return make


# ---- a small neural network library


class Parameter:
    __slots__ = ("data", "name")

    def __init__(self, data, name="p"):
        self.data, self.name = np.asarray(data, dtype=float), name

    def __mul__(self, other):
        return self.data * other

    __rmul__ = __mul__

    def __array__(self, dtype=None, copy=None):
        return self.data


class Module:
    def __init__(self):
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_modules", {})
        object.__setattr__(self, "training", True)

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._parameters[name] = value
        elif isinstance(value, Module):
            self._modules[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for table in ("_parameters", "_modules"):
            if name in self.__dict__[table]:
                return self.__dict__[table][name]
        raise AttributeError(name)

    def parameters(self):
        yield from self._parameters.values()
        for child in self._modules.values():
            yield from child.parameters()

    def __call__(self, u):
        for hook in self.__dict__.get("hooks", ()):
            u = hook(u)
        return self.forward(u)


class Linear(Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = Parameter(weight)

    def forward(self, u):
        return u * self.weight.data


class Dropout(Module):
    def forward(self, u):
        return u * 0.5 if self.training else u


class Sequential(Module):
    def __init__(self, *layers):
        super().__init__()
        self.layers = list(layers)
        for i, layer in enumerate(layers):
            setattr(self, f"layer{i}", layer)

    def forward(self, u):
        for layer in self.layers:
            u = layer(u)
        return u


def network():
    return Sequential(Linear(2.0), Dropout(), Linear(3.0))


@case
def weight_of_a_layer():
    net = network()
    return lambda u: net(u), lambda: setattr(net.layers[0].weight, "data", np.asarray(5.0))


@case
def weight_in_place():
    net = network()
    return lambda u: net(u), lambda: net.layers[0].weight.data.fill(5.0)


@case
def parameter_replaced():
    net = network()
    return lambda u: net(u), lambda: setattr(net.layers[0], "weight", Parameter(5.0))


@case
def layer_replaced():
    net = network()
    return lambda u: net(u), lambda: net.layers.__setitem__(0, Linear(5.0))


@case
def layer_appended():
    net = network()
    return lambda u: net(u), lambda: net.layers.append(Linear(5.0))


@case
def training_flag():
    net = network()
    return lambda u: net(u), lambda: setattr(net.layers[1], "training", False)


@case
def hook_added():
    net = network()
    net.hooks = []
    return lambda u: net(u), lambda: net.hooks.append(lambda u: u * 2)


@case
def penalty_of_all_parameters():
    net = network()
    return lambda u: u + sum(float(p.data) ** 2 for p in net.parameters()), lambda: net.layers[2].weight.data.fill(9.0)


@case
def forward_replaced_on_a_layer():
    net = network()
    return lambda u: net(u), lambda: object.__setattr__(net.layers[0], "forward", lambda u: 7 * u)


@case
def forward_replaced_on_the_class():
    class Scale(Module):
        def forward(self, u):
            return 2 * u

    net = Sequential(Scale())
    return lambda u: net(u), lambda: setattr(Scale, "forward", lambda self, u: 7 * u)


# ---- settings


class Settings(dict):
    """Nested settings with attribute access."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__


@case
def nested_settings():
    settings = Settings(solver=Settings(step=2.0, name="rk4"), fn=np.sin)
    return lambda u: u * settings.solver.step, lambda: setattr(settings.solver, "step", 5.0)


@case
def settings_with_fallback():
    class Layered:
        def __init__(self, *layers):
            self._layers = layers

        def __getattr__(self, name):
            for layer in self._layers:
                if name in layer:
                    return layer[name]
            raise AttributeError(name)

    low = {"k": 2.0}
    settings = Layered({}, low)
    return lambda u: u * settings.k, lambda: low.__setitem__("k", 5.0)


@case
def settings_with_override():
    class Layered:
        def __init__(self, *layers):
            self._layers = layers

        def __getattr__(self, name):
            for layer in self._layers:
                if name in layer:
                    return layer[name]
            raise AttributeError(name)

    high = {}
    settings = Layered(high, {"k": 2.0})
    return lambda u: u * settings.k, lambda: high.__setitem__("k", 5.0)


@case
def singleton():
    class Registry:
        _instance = None

        def __new__(cls):
            if cls._instance is None:
                cls._instance = super().__new__(cls)
                cls._instance.k = 2.0
            return cls._instance

    Registry()
    return lambda u: u * Registry().k, lambda: setattr(Registry._instance, "k", 5.0)


@case
def plugins():
    plugins = {}

    def plugin(name):
        def register(f):
            plugins[name] = f
            return f

        return register

    plugin("scale")(lambda u: 2 * u)

    def replace():
        plugin("scale")(lambda u: 5 * u)

    return lambda u: plugins["scale"](u), replace


@case
def units():
    @dataclasses.dataclass(frozen=True)
    class Unit:
        factor: float

        def __rmul__(self, x):
            return x * self.factor * SCALE.factor

    metre = Unit(2.0)
    SCALE.factor = 1.0
    return lambda u: u * metre, lambda: setattr(SCALE, "factor", 3.0)


SCALE = types.SimpleNamespace(factor=1.0, log=print)


@case
def quantity_that_computes_from_parts():
    class Part:
        def __init__(self, mass):
            self.mass = mass

    class Assembly(Part):
        def __init__(self, parts):
            self.parts = parts

        @property
        def mass(self):
            return sum(part.mass for part in self.parts)

    leaf = Part(2.0)
    whole = Assembly((Assembly([Part(1.0), leaf]), Part(1.0)))
    return lambda u: u * whole.mass, lambda: setattr(leaf, "mass", 5.0)


@case
def observer_pattern():
    class Subject:
        def __init__(self):
            self._observers, self.k = [], 2.0

        def notify(self, u):
            return sum(observer(self, u) for observer in self._observers)

    subject = Subject()
    subject._observers.append(lambda s, u: u * s.k)
    return lambda u: subject.notify(u), lambda: subject._observers.append(lambda s, u: u)


@case
def strategy_enum():
    class Method(enum.Enum):
        EULER = enum.auto()
        HEUN = enum.auto()

    class Integrator:
        method = Method.EULER
        table: typing.ClassVar = {Method.EULER: lambda u: u, Method.HEUN: lambda u: 2 * u}

        def step(self, u):
            return self.table[self.method](u)

    integrator = Integrator()
    return integrator.step, lambda: setattr(integrator, "method", Method.HEUN)


@case
def strategy_table():
    class Integrator:
        table: typing.ClassVar = {"euler": lambda u: u}

        def step(self, u):
            return self.table["euler"](u)

    return Integrator().step, lambda: Integrator.table.__setitem__("euler", lambda u: 3 * u)


@case
def mixins():
    class Scales:
        factor = 2.0

        def scaled(self, u):
            return u * self.factor

    class Shifts:
        shift = 1.0

        def scaled(self, u):
            return super().scaled(u) + self.shift

    class Both(Shifts, Scales):
        pass

    return Both().scaled, lambda: setattr(Scales, "factor", 5.0)


@case
def validated_field():
    class Field:
        def __set_name__(self, owner, name):
            self.name = f"_{name}"

        def __get__(self, owner, cls):
            return self if owner is None else getattr(owner, self.name)

        def __set__(self, owner, value):
            setattr(owner, self.name, float(value))

    class Model:
        rate = Field()

        def __init__(self):
            self.rate = 2.0

        def rhs(self, u):
            return u * self.rate

    model = Model()
    return model.rhs, lambda: setattr(model, "rate", 5.0)


@case
def lazy_attribute_with_storage():
    class Lazy:
        def __init__(self, f):
            self.f = f

        def __set_name__(self, owner, name):
            self.name = name

        def __get__(self, owner, cls):
            value = owner.__dict__[self.name] = self.f(owner)
            return value

    class Model:
        k = 2.0

        @Lazy
        def twice(self):
            return 2 * self.k

    model = Model()

    def change():
        Model.k = 5.0
        model.__dict__.pop("twice", None)

    return lambda u: u * model.twice, change


@case
def class_property():
    class classproperty:
        def __init__(self, f):
            self.f = f

        def __get__(self, owner, cls):
            return self.f(cls)

    class Model:
        k = 2.0

        @classproperty
        def twice(cls):
            return 2 * cls.k

    return lambda u: u * Model.twice, lambda: setattr(Model, "k", 5.0)


@case
def metaclass_registry():
    class Meta(type):
        known: typing.ClassVar = {}

        def __new__(mcs, name, bases, space):
            mcs.known[name] = cls = super().__new__(mcs, name, bases, space)
            return cls

        def __getitem__(cls, name):
            return cls.known[name]

    class Base(metaclass=Meta):
        k = 1.0

    class Leaf(Base):
        k = 2.0

    return lambda u: u * Base["Leaf"].k, lambda: setattr(Leaf, "k", 5.0)


@case
def metaclass_call():
    class Meta(type):
        made = 2.0

        def __call__(cls):
            new = super().__call__()
            new.k = cls.made
            return new

    class Model(metaclass=Meta):
        pass

    return lambda u: u * Model().k, lambda: setattr(Meta, "made", 5.0)


# ---- data structures


@case
def linked_list():
    class Node:
        __slots__ = ("next", "value")

        def __init__(self, value, next=None):
            self.value, self.next = value, next

    tail = Node(2.0)
    head = Node(1.0, Node(1.0, tail))

    def f(u):
        node, total = head, 0.0
        while node is not None:
            total, node = total + node.value, node.next
        return u * total

    return f, lambda: setattr(tail, "next", Node(7.0))


@case
def graph_of_objects():
    class Vertex:
        def __init__(self, weight):
            self.weight, self.edges = weight, {}

    a, b = Vertex(1.0), Vertex(2.0)
    a.edges[b], b.edges[a] = 3.0, 4.0
    return lambda u: u * sum(w * v.weight for v, w in a.edges.items()), lambda: a.edges.__setitem__(b, 9.0)


@case
def weight_of_a_key():
    class Vertex:
        def __init__(self, weight):
            self.weight, self.edges = weight, {}

    a, b = Vertex(1.0), Vertex(2.0)
    a.edges[b] = 3.0
    return lambda u: u * sum(v.weight for v in a.edges), lambda: setattr(b, "weight", 9.0)


@case
def mesh():
    class Mesh:
        def __init__(self):
            self.nodes = np.linspace(0.0, 1.0, 4)
            self.cells = [(0, 1), (1, 2), (2, 3)]
            self.materials = {"steel": {"E": 2.0, "cells": [0, 1]}, "rubber": {"E": 1.0, "cells": [2]}}

    mesh = Mesh()

    def f(u):
        total = 0.0
        for material in mesh.materials.values():
            for cell in material["cells"]:
                i, j = mesh.cells[cell]
                total = total + material["E"] * (mesh.nodes[j] - mesh.nodes[i]) * u
        return total

    return f, lambda: mesh.materials["steel"]["cells"].append(2)


@case
def cells_of_a_mesh():
    class Mesh:
        def __init__(self):
            self.nodes = np.array([0.0, 1.0, 3.0, 7.0])
            self.cells = np.array([[0, 1], [1, 2]])

    mesh = Mesh()
    return lambda u: u * np.sum(mesh.nodes[mesh.cells]), lambda: mesh.cells.__setitem__((1, 1), 3)


@case
def view_of_a_table():
    table = np.zeros((3, 3))
    table[:] = 2.0
    row = [table[1], np.sin]
    return lambda u: u * np.sum(row[0]), lambda: table.__setitem__((1, 1), 9.0)


@case
def time_series_of_tuples():
    series = collections.deque([(0.0, np.array([1.0])), (1.0, np.array([2.0]))], maxlen=2)
    return lambda u: u * sum(v[0] for _, v in series), lambda: series.append((2.0, np.array([9.0])))


@case
def container_of_a_class():
    class Stack(collections.abc.Sequence):
        def __init__(self, items):
            self._items = items

        def __getitem__(self, i):
            return self._items[i]

        def __len__(self):
            return len(self._items)

    stack = Stack([1.0, 2.0])
    return lambda u: u * sum(stack) + stack.index(2.0), lambda: stack._items.insert(0, 5.0)


@case
def mapping_of_a_class():
    class Lower(collections.abc.MutableMapping):
        def __init__(self):
            self.store = {"a": 2.0}

        def __getitem__(self, key):
            return self.store[key.lower()]

        def __setitem__(self, key, value):
            self.store[key.lower()] = value

        def __delitem__(self, key):
            del self.store[key.lower()]

        def __iter__(self):
            return iter(self.store)

        def __len__(self):
            return len(self.store)

    held = Lower()
    return lambda u: u * held.get("A") + len(held.keys()), lambda: held.update(A=5.0)


@case
def scipy_interpolant():
    spline = interpolate.CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])
    return lambda u: u * float(spline(1.5)), lambda: spline.c.__imul__(2.0)


@case
def sparse_matrix_replaced_in_a_list():
    held = [sparse.eye_array(3, format="csr"), sparse.eye_array(3, format="csr")]
    return lambda u: u * (held[0] + held[1]).sum(), lambda: held.__setitem__(1, 5 * held[1])


@case
def sparse_matrix_by_item():
    held = sparse.lil_array(np.eye(3))
    return lambda u: u * held.sum(), lambda: held.__setitem__((0, 0), 9.0)


@case
def dict_of_keys():
    held = sparse.dok_array((3, 3))
    held[0, 0] = 1.0
    return lambda u: u * held.sum(), lambda: held.__setitem__((1, 1), 9.0)


# ---- higher-order functions


@case
def composed():
    def compose(*parts):
        return lambda u: functools.reduce(lambda v, f: f(v), parts, u)

    rate = {"k": 2.0}
    return compose(np.sin, lambda u: u * rate["k"]), lambda: rate.update(k=5.0)


@case
def pipeline():
    class Pipeline:
        def __init__(self):
            self.stages = []

        def stage(self, f):
            self.stages.append(f)
            return self

        def __or__(self, f):
            return self.stage(f)

        def __call__(self, u):
            for stage in self.stages:
                u = stage(u)
            return u

    line = Pipeline() | np.sin | functools.partial(operator.mul, 2.0)
    return line, lambda: line.stage(lambda u: u + 1)


@case
def memoised_by_hand():
    class Memo:
        def __init__(self, f):
            self.f, self.cache = f, {}

        def __call__(self, n):
            if n not in self.cache:
                self.cache[n] = self.f(n)
            return self.cache[n]

    table = Memo(lambda n: float(n))
    table(2)
    return lambda u: u * table(2), lambda: table.cache.update({2: 5.0})


@case
def decorator_with_options():
    options = {"scale": 2.0}

    def scaled(**fixed):
        def decorate(f):
            @functools.wraps(f)
            def wrapper(*args, **kwargs):
                return f(*args, **{**fixed, **kwargs}) * options["scale"]

            return wrapper

        return decorate

    @scaled(k=3.0)
    def f(u, k=1.0):
        return u * k

    return f, lambda: options.update(scale=5.0)


@case
def context_manager_with_state():
    current = [2.0]

    @contextlib.contextmanager
    def scaling():
        yield current[-1]

    def f(u):
        with scaling() as k:
            return u * k

    return f, lambda: current.append(5.0)


@case
def generator_function():
    rates = {"k": 2.0}

    def numbers():
        for i in range(3):
            yield i * rates["k"]

    return lambda u: u * sum(numbers()), lambda: rates.update(k=5.0)


@case
def recursion_with_a_table():
    coefficients = [1.0, 2.0, 3.0]

    def horner(u, i=0):
        return 0.0 if i == len(coefficients) else coefficients[i] + u * horner(u, i + 1)

    return horner, lambda: coefficients.append(4.0)


@case
def method_table_by_name():
    class Model:
        def __init__(self):
            self.kind = "linear"

        def linear(self, u):
            return u

        def quadratic(self, u):
            return u * u * 2

        def __call__(self, u):
            return getattr(self, self.kind)(u)

    model = Model()
    return model, lambda: setattr(model, "kind", "quadratic")


@case
def visitor():
    class Visitor:
        scale = 2.0

        def visit(self, node, u):
            return getattr(self, f"visit_{type(node).__name__}")(node, u)

        def visit_Leaf(self, node, u):
            return node.k * u * self.scale

        def visit_Sum(self, node, u):
            return sum(self.visit(part, u) for part in node.parts)

    class Leaf:
        def __init__(self, k):
            self.k = k

    class Sum:
        def __init__(self, *parts):
            self.parts = parts

    leaf = Leaf(2.0)
    tree = Sum(Leaf(1.0), Sum(leaf))
    visitor = Visitor()
    return lambda u: visitor.visit(tree, u), lambda: setattr(leaf, "k", 5.0)


@case
def expression_tree():
    class Expression:
        def __add__(self, other):
            return Sum(self, other)

    class Constant(Expression):
        def __init__(self, value):
            self.value = value

        def __call__(self, u):
            return self.value * u

    class Sum(Expression):
        def __init__(self, *parts):
            self.parts = parts

        def __call__(self, u):
            return sum(part(u) for part in self.parts)

    one = Constant(2.0)
    tree = one + Constant(3.0) + one
    return lambda u: tree(u), lambda: setattr(one, "value", 5.0)


@case
def dependency_injection():
    class Container:
        def __init__(self):
            self._makers = {}

        def register(self, kind, maker):
            self._makers[kind] = maker

        def get(self, kind):
            return self._makers[kind]()

    class Clock:
        rate = 2.0

    container = Container()
    container.register(Clock, Clock)
    return lambda u: u * container.get(Clock).rate, lambda: setattr(Clock, "rate", 5.0)


@case
def local_class():
    rates = {"k": 2.0}

    def f(u):
        class Local:
            k = rates["k"]

            def scaled(self, v):
                return v * self.k

        return Local().scaled(u)

    return f, lambda: rates.update(k=5.0)


@case
def abstract_property():
    class Shape(abc.ABC):
        @property
        @abc.abstractmethod
        def area(self): ...

    class Square(Shape):
        side = 2.0

        @property
        def area(self):
            return self.side**2

    square = Square()
    return lambda u: u * square.area, lambda: setattr(square, "side", 5.0)


@case
def protected_by_a_lock():
    class Shared:
        def __init__(self):
            self.lock, self._k = threading.Lock(), 2.0

        @property
        def k(self):
            with self.lock:
                return self._k

    shared = Shared()
    return lambda u: u * shared.k, lambda: setattr(shared, "_k", 5.0)


@case
def parent_by_a_weak_reference():
    class Child:
        def __init__(self, parent):
            self._parent = weakref.ref(parent)

        @property
        def parent(self):
            return self._parent()

    parent = Module()
    parent.k = 2.0
    child = Child(parent)
    return lambda u: u * child.parent.k, lambda: setattr(parent, "k", 5.0)


@case
def frozen_with_a_mutable_part():
    @dataclasses.dataclass(frozen=True, slots=True)
    class Grid:
        spacing: float
        tags: dict

    grid = Grid(1.0, {"a": 2.0})
    return lambda u: u * grid.tags["a"] * grid.spacing, lambda: grid.tags.update(a=5.0)


@case
def ordered_by_a_dataclass():
    @dataclasses.dataclass(order=True)
    class Item:
        key: int
        value: float = dataclasses.field(compare=False)

    items = [Item(1, 2.0), Item(2, 5.0)]
    return lambda u: u * min(items).value, lambda: setattr(items[0], "key", 9)


@case
def typed_generic_stack():
    T = typing.TypeVar("T")

    class Stack(typing.Generic[T]):
        def __init__(self):
            self.items: list[T] = [2.0]

        def top(self):
            return self.items[-1]

    stack = Stack[float]()
    return lambda u: u * stack.top(), lambda: stack.items.append(5.0)


@case
def flag_of_bits():
    class Option(enum.Flag):
        FAST = 1
        SAFE = 2

    held = types.SimpleNamespace(options=Option.FAST, f=print)
    return lambda u: u * (5.0 if Option.SAFE in held.options else 2.0), lambda: setattr(
        held, "options", Option.FAST | Option.SAFE
    )


@case
def array_of_functions():
    table = np.array([np.sin, np.cos], dtype=object)
    return lambda u: table[0](u), lambda: table.__setitem__(0, np.tan)


@case
def class_in_a_dict_of_a_class():
    class Space:
        class Inner:
            k = 2.0

        table: typing.ClassVar = {"inner": Inner}

    return lambda u: u * Space.table["inner"].k, lambda: setattr(Space.Inner, "k", 5.0)


@case
def closure_in_an_attribute_of_a_closure():
    def make():
        state = {"k": 2.0}

        def read():
            return state["k"]

        def f(u):
            return u * f.read()

        f.read = read
        return f, state

    f, state = make()
    return f, lambda: state.update(k=5.0)


@case
def exported_names():
    space = types.ModuleType("state_exports")
    exec("__all__ = ['k']\nk = 2.0\ndef total():\n    return sum(globals()[n] for n in __all__)\n", vars(space))
    return lambda u: u * space.total(), lambda: setattr(space, "k", 5.0)


# ---- objects created later, and state held by Python objects


@case
def attribute_that_a_module_gets():
    space = types.ModuleType("state_module")
    space.__file__ = __file__

    def f(u):
        try:
            return u * space.k
        except AttributeError:
            return u

    return f, lambda: setattr(space, "k", 5.0)


@case
def name_defined_later():
    space = types.ModuleType("state_later")
    exec("def f(u):\n try:\n  return u * later\n except NameError:\n  return u\n", vars(space))
    return space.f, lambda: setattr(space, "later", 5.0)


@case
def attribute_of_a_base_that_comes_to_be():
    class Base:
        pass

    class Leaf(Base):
        pass

    leaf = Leaf()
    return lambda u: u * (leaf.k if hasattr(leaf, "k") else 2.0), lambda: setattr(Base, "k", 5.0)


@case
def method_hidden_while_another_attribute_goes():
    class Model:
        def rate(self):
            return 2.0

    model = Model()
    model.spare = 1

    def change():
        del model.spare
        model.rate = lambda: 5.0

    return lambda u: u * model.rate(), change


@case
def arguments_of_an_exception():
    error = ValueError(2.0, print)
    return lambda u: u * error.args[0], lambda: setattr(error, "args", (5.0,))


@case
def name_of_a_function():
    def helper():
        pass

    return lambda u: u * len(helper.__name__), lambda: setattr(helper, "__name__", "longer name")


@case
def documentation_of_a_function():
    def helper():
        """Two."""

    return lambda u: u * len(helper.__doc__), lambda: setattr(helper, "__doc__", "Many words.")


@case
def name_of_a_class():
    class Kind:
        pass

    one = Kind()
    return lambda u: u * len(type(one).__name__), lambda: setattr(Kind, "__name__", "Longer")


@case
def subclasses_of_a_class():
    class Base:
        pass

    keep = []
    return lambda u: u * (1 + len(Base.__subclasses__())), lambda: keep.append(type("Leaf", (Base,), {}))


@case
def flags_of_an_array():
    array = np.ones(3)
    return lambda u: u * (2.0 if array.flags.writeable else 5.0), lambda: array.setflags(write=False)


@case
def flags_of_an_array_in_a_list():
    array = np.ones(3)
    held = [array, print]
    return lambda u: u * (2.0 if held[0].flags.writeable else 5.0), lambda: array.setflags(write=False)


@case
def questions_of_kinship():
    answers = {"is": True}

    class Meta(type):
        def __instancecheck__(cls, value):
            return answers["is"]

    class Kind(metaclass=Meta):
        pass

    return lambda u: u * (2.0 if isinstance(3, Kind) else 5.0), lambda: answers.update({"is": False})


@case
def items_of_a_class():
    class Table:
        rates: typing.ClassVar = {"a": 2.0}

        def __class_getitem__(cls, name):
            return cls.rates[name]

    return lambda u: u * Table["a"], lambda: Table.rates.update(a=5.0)


@case
def attributes_of_a_metaclass_by_name():
    rates = {"k": 2.0}

    class Meta(type):
        def __getattr__(cls, name):
            return rates[name]

    class Table(metaclass=Meta):
        pass

    return lambda u: u * Table.k, lambda: rates.update(k=5.0)


@case
def protocol_of_ufuncs():
    class Scale:
        k = 2.0

        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return 3.0 * self.k

    scale = Scale()
    return lambda u: u * np.multiply(1.0, scale), lambda: setattr(Scale, "k", 5.0)


@case
def vectorised_function():
    rates = {"k": 2.0}
    f = np.vectorize(lambda x: x * rates["k"])
    return lambda u: u * float(f(2.0)), lambda: rates.update(k=5.0)


@case
def ufunc_of_a_function():
    rates = {"k": 2.0}
    f = np.frompyfunc(lambda x: x * rates["k"], 1, 1)
    return lambda u: u * float(f(2.0)), lambda: rates.update(k=5.0)


@case
def linear_operator_of_a_function():
    rates = {"k": 2.0}
    operator = LinearOperator((1, 1), matvec=lambda v: v * rates["k"], dtype=float)
    return lambda u: u * operator.matvec(np.ones(1))[0], lambda: rates.update(k=5.0)


@case
def integrand():
    rates = types.SimpleNamespace(k=2.0, f=print)
    return lambda u: u * integrate.quad(lambda t: t * rates.k, 0.0, 1.0)[0], lambda: setattr(rates, "k", 5.0)


@case
def partial_method():
    class Model:
        k = 2.0

        def scaled(self, factor, u):
            return u * factor * self.k

        tripled = functools.partialmethod(scaled, 3.0)

    model = Model()
    return lambda u: model.tripled(u), lambda: setattr(Model, "k", 5.0)


@case
def computed_after_init():
    rates = {"k": 2.0}

    @dataclasses.dataclass
    class Scaled:
        value: float

        def __post_init__(self):
            self.scaled = self.value * rates["k"]

    return lambda u: Scaled(u).scaled, lambda: rates.update(k=5.0)


@case
def default_that_is_made():
    rates = {"k": 2.0}

    @dataclasses.dataclass
    class Scaled:
        value: float
        factor: float = dataclasses.field(default_factory=lambda: rates["k"])

    return lambda u: Scaled(u).factor * u, lambda: rates.update(k=5.0)


@case
def property_with_storage_outside():
    store = {}

    class Model:
        @property
        def k(self):
            return store.get(id(self), 2.0)

    model = Model()
    return lambda u: u * model.k, lambda: store.update({id(model): 5.0})


@case
def slots_beside_attributes():
    class Model:
        __slots__ = ("__dict__", "a")

    model = Model()
    model.a, model.b = 2.0, 3.0
    return lambda u: u * model.a * model.b, lambda: setattr(model, "b", 9.0)


@case
def attribute_of_a_number():
    class Quantity(float):
        pass

    quantity = Quantity(2.0)
    quantity.k = 2.0
    return lambda u: u * quantity.k, lambda: setattr(quantity, "k", 5.0)


@case
def default_of_a_nested_function():
    rates = {"k": 2.0}

    def f(u):
        def inner(v, k=rates["k"]):
            return v * k

        return inner(u)

    return f, lambda: rates.update(k=5.0)


@case
def level_of_a_logger():
    logger = logging.getLogger("state_cases")
    logger.setLevel(10)
    return lambda u: u * logger.level, lambda: logger.setLevel(50)


@case
def file_of_a_path():
    path = pathlib.Path(tempfile.mkdtemp()) / "rate"
    path.write_text("2.0")
    return lambda u: u * float(path.read_text()), lambda: path.write_text("5.0")


@case
def file_of_an_array():
    path = pathlib.Path(tempfile.mkdtemp()) / "rate.npy"
    np.save(path, np.array([2.0]))
    return lambda u: u * np.load(path)[0], lambda: np.save(path, np.array([5.0]))


@case
def options_of_numpy():
    np.set_printoptions(precision=8)
    return lambda u: u * np.get_printoptions()["precision"], lambda: np.set_printoptions(precision=3)
