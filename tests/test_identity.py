"""Identities in followed code: ``is``, ``in``, ``==``, hashes, `id` and types of objects for which others stand."""

from __future__ import annotations

import abc
import collections
import copy
import dataclasses
import enum
import functools
import inspect
import itertools
import math
import operator
import sys
import types
import typing
import weakref

import numpy as np
import pytest
import scipy
import scipy.linalg
import scipy.special

import wengert as wg
from helpers import fourth_order_difference
from wengert.core.rebind import identity, registration

pytest.importorskip("scipy", minversion="1.17")  # modules of older releases are not replaced

sine, library_sine = np.sin, math.sin
OPERATORS = {"sin": np.sin, "cos": np.cos, "add": operator.add}


def square(x):
    return math.pow(x, 2.0)


def cube(x):
    return math.pow(x, 3.0)


NAMES = {np.sin: "sin", math.sin: "math.sin", operator.add: "add", square: "square"}


class Node:
    def __init__(self, weight, parent=None):
        self.weight, self.parent, self.children, self.rule = weight, parent, [], square

    def add(self, weight):
        self.children.append(Node(weight, self))
        return self.children[-1]

    def value(self, x):
        return self.weight * math.exp(x) + sum(child.value(x) for child in self.children)

    def root(self):
        return self if self.parent is None else self.parent.root()

    def siblings(self):
        return [child for child in self.parent.children if child is not self]

    @classmethod
    def own_class(cls):
        return cls


class Equal:
    def __init__(self, k):
        self.k = k

    def value(self, x):
        return self.k * math.sin(x)

    def __eq__(self, other):
        return isinstance(other, Equal) and self.k == other.k

    def __hash__(self):
        return hash(self.k)


class Slots:
    __slots__ = ("__weakref__", "k", "next")

    def __init__(self, k, following=None):
        self.k, self.next = k, following

    def value(self, x):
        return self.k * math.sin(x) + (0.0 if self.next is None else self.next.value(x))


class Shape:
    """A class that chooses the class of its instances."""

    def __new__(cls, k):
        if cls is Shape:
            return object.__new__(Disc)
        return object.__new__(cls)

    def __init__(self, k):
        self.k = k

    def value(self, x):
        return self.k * math.sin(x) * (1 if type(self) is Disc else 3)

    @classmethod
    def create(cls, k):
        return cls(k) if cls is Disc else Disc(7 * k)


class Disc(Shape):
    def value(self, x):
        return super().value(x) * (5 if self.__class__ is Disc else 1)


class Abstract(abc.ABC):
    @abc.abstractmethod
    def value(self, x): ...


class Concrete(Abstract):
    def value(self, x):
        return math.sin(x)


@dataclasses.dataclass(frozen=True)
class Data:
    a: float = 1.0

    def value(self, x):
        return self.a * math.sin(x)


class Meta(type):
    pass


class Made(metaclass=Meta):
    def value(self, x):
        return math.sin(x)


class Color(enum.Enum):
    RED = 1


class Single:
    instance = None

    def __new__(cls):
        if cls.instance is None:
            cls.instance = object.__new__(cls)
        return cls.instance

    def value(self, x):
        return math.sin(x)


class Rule(typing.NamedTuple):
    f: typing.Any
    k: float = 2.0

    def value(self, x):
        return self.k * self.f(x)


Pair = collections.namedtuple("Pair", "a b")
tree = Node(1.0)
left, right = tree.add(2.0), tree.add(3.0)
leaf = left.add(4.0)
equal, same, other = Equal(1.0), Equal(1.0), Equal(2.0)
second = Slots(2.0)
first = Slots(1.0, second)
concrete, data, made, single, pair = Concrete(), Data(), Made(), Single(), Pair(left, right)
LIST, IN_DICT = [left, equal, data], {left: 10.0, right: 20.0, equal: 30.0}
SET, FROZEN = {left, leaf}, frozenset([left])
rule = Rule(square)
rules = Pair(square, rule)
IDS, WEAK, SLOTS = {id(left): "left"}, weakref.WeakKeyDictionary({left: 3.0}), {second: 50.0}
FUNCTIONS, WEIGHTS, bound = {square}, {square: 3.0, cube: 5.0}, left.value
BY_NAME = {"left": left, "right": right}
SPACE, SAME_SPACE = (types.SimpleNamespace(f=square, k=1.0, inner=types.SimpleNamespace(g=cube)) for _ in range(2))
TABLE, ORDERED = {"f": square, "k": 1.0}, collections.OrderedDict(f=square, k=1.0)


def are_same(a, b):
    return a is b


def is_member(x, container=FUNCTIONS):
    return x in container


#: lists of truth values that followed code must find as plain code does
FACTS = {
    "ufuncs": lambda: [OPERATORS["sin"] is np.sin, np.sin is sine, np.exp in OPERATORS.values(), np.sin in NAMES,
                       np.tan in NAMES, NAMES[OPERATORS["sin"]] == "sin", np.sin.__name__ == "sin"],
    "library": lambda: [math.sin is library_sine, NAMES[math.sin] == "math.sin", math.sin is np.sin,
                        NAMES[operator.add] == "add", OPERATORS["add"] is operator.add, math.__name__ == "math"],
    "functions": lambda: [left.rule is square, square in (cube, square), square in FUNCTIONS, cube in FUNCTIONS,
                          square in WEIGHTS, WEIGHTS.get(square) == 3.0, NAMES[square] == "square", is_member(square),
                          is_member(cube), {square: 1}.get(left.rule) == 1, left.rule in FUNCTIONS],
    "function attributes": lambda: [square.__name__ == "square", inspect.isfunction(square),
                                    square.__defaults__ is None, square.__module__ == __name__,
                                    [*inspect.signature(square).parameters] == ["x"]],
    "methods": lambda: [left.value == bound, bound.__self__ is left, left.value.__func__ is Node.value,
                        left.value == right.value, isinstance(bound, types.MethodType)],
    "objects": lambda: [LIST[0] is left, BY_NAME["left"] is left, pair.a is left, pair[1] is right, leaf.parent is left,
                        id(left) == id(LIST[0]), IDS.get(id(left)) == "left", left.__dict__["parent"] is tree,
                        next(iter(FROZEN)) is left, [*IN_DICT][1] is right, are_same(left, pair.a), left is right],
    "equality": lambda: [equal == same, equal != other, same in LIST, other in LIST, LIST.index(equal) == 1,
                         left == right, left == pair.a, left in pair, LIST == [left, equal, data], data == Data()],
    "hashes": lambda: [IN_DICT[left] == 10.0, IN_DICT.get(right) == 20.0, IN_DICT[same] == 30.0, leaf in IN_DICT,
                       left in SET, right in SET, left in FROZEN, WEAK.get(left) == 3.0, right in WEAK,
                       SLOTS.get(second) == 50.0, first in SLOTS, SET == {left, leaf}, hash(left) == hash(pair.a)],
    "containers": lambda: [{**BY_NAME} == BY_NAME, BY_NAME | {} == BY_NAME, LIST[:2] == [left, equal],
                           type(LIST) is list, next(zip(LIST, LIST))[0] is left, next(itertools.chain(LIST)) is left],
    "equal containers of functions": lambda: [
        SPACE == SAME_SPACE, SPACE != SAME_SPACE, SPACE == {"f": square}, TABLE == types.SimpleNamespace(f=square),
        types.SimpleNamespace(f=square, k=1.0, inner=types.SimpleNamespace(g=cube)) == SPACE,
        SPACE == types.SimpleNamespace(f=square, k=1.0, inner=types.SimpleNamespace(g=square)),
        SPACE != types.SimpleNamespace(f=square, k=1.0, inner=types.SimpleNamespace(g=cube)),
        TABLE == {"f": square, "k": 1.0}, {"f": square, "k": 1.0} == TABLE, TABLE == {"f": cube, "k": 1.0},
        TABLE != {"f": square, "k": 1.0}, ORDERED == TABLE, ORDERED == collections.OrderedDict(f=square, k=1.0),
        ORDERED == collections.OrderedDict(k=1.0, f=square), WEIGHTS == {square: 3.0, cube: 5.0}, TABLE == 3],
    "classes": lambda: [type(left) is Node, left.__class__ is Node, type(left) in (Node, Data), type(made) is Made,
                        Node.own_class() is Node, left.own_class() is Node, {Node: 1}.get(type(left)) == 1,
                        Meta is type(Made)],
    "bases": lambda: [Concrete.__mro__[1] is Abstract, Concrete.__bases__ == (Abstract,), type(concrete) is Concrete,
                      type(concrete).__mro__[1] is Abstract, isinstance(concrete, Abstract), Disc.__base__ is Shape],
    "modules": lambda: [sys.modules["numpy"] is np, np.__name__ == "numpy", scipy.linalg is sys.modules["scipy.linalg"],
                        scipy.special is sys.modules["scipy.special"], np.linalg is sys.modules["numpy.linalg"]],
    "enumerations": lambda: [Color.RED is Color(1), Color["RED"] is Color.RED, {Color.RED: 1}[Color(1)] == 1],
    "copies": lambda: [copy.copy(left) is left, copy.copy(left) == left, copy.copy(left) in IN_DICT,
                       copy.copy(left).parent is tree, copy.copy(data) == data, copy.deepcopy(equal) == equal,
                       type(copy.copy(first)) is Slots, copy.copy(LIST)[0] is left],
    "one instance": lambda: [Single() is single, single in (left, Single()), Single() == single],
    "searches": lambda: [max(tree.children, key=lambda node: node.weight) is right,
                         next(filter(None, [left])) is left, [node for node in LIST if node is data] == [data],
                         next(node for node in LIST if node == same) is equal],
}  # fmt: skip


def touch(x):
    """Use the objects, so that others stand for them."""
    nodes = (tree, equal, first, concrete, data, made, single, LIST[0], BY_NAME["left"])
    total = sum(node.value(x) for node in nodes) + sum(f(x) for f in WEIGHTS) + OPERATORS["sin"](x) + bound(x)
    return total + square(x) + np.exp(x) + math.sin(x)


@pytest.mark.filterwarnings("ignore::wengert.errors.CompileWarning")
@pytest.mark.parametrize("name", FACTS)
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_facts_in_followed_code_are_those_of_plain_code(name, wrap):
    def f(x):
        found = sum(bool(fact) << k for k, fact in enumerate(FACTS[name]()))
        return touch(x) * 0.0 + found * x

    assert wg.grad(wrap(f))(0.5) == f(1.0)


def searched(x):
    waiting, total = [tree], 0.0
    while waiting:
        node = waiting.pop()
        total = total + node.weight * math.sin(x) * (2 if node is left else 1)
        waiting.extend(node.children)
    return total


def keyed(x):
    held = {left: x}
    held[right] = x * x
    return held[left] * held[pair.b] + sum(v * node.weight for node, v in held.items()) + (x if leaf in held else 0)


def visited(x):
    seen = set()
    for node in [left, right, pair.a, leaf.parent, leaf]:
        seen.add(node)
    return len(seen) * x + sum(node.weight for node in seen) * math.sin(x)


@functools.lru_cache(None)
def doubled(node):
    return 2 * node.weight


PROGRAMS = {
    "class chosen by the class": lambda x: Shape(x).value(x) + Shape.create(x).value(x) + Disc.create(x).value(x),
    "root of a tree": lambda x: leaf.root().value(x) * (2 if leaf.root() is tree else 1) + len(left.siblings()) * x,
    "values by object": lambda x: IN_DICT[left] * left.value(x) + IN_DICT.get(leaf, 1.0) * x + WEAK[left] * math.sin(x),
    "sets": lambda x: (left.value(x) if left in SET else 0) + (x if right in SET else x * x),
    "slots": lambda x: first.value(x) + SLOTS.get(first.next, 1.0) * x + (x * x if first.next is second else 0),
    "items": lambda x: sum(x * k for k, node in enumerate(IN_DICT) if node is right),
    "new objects": lambda x: Node(x, tree).value(x) * (2 if Node(x, tree).root() is tree else 1),
    "cached by object": lambda x: doubled(left) * math.sin(x) + doubled(right) * x,
    "one instance": lambda x: Single().value(x) * (2 if Single() is single else 1),
    "functions in a set": lambda x: square(x) * (2 if square in FUNCTIONS else 1) + x * WEIGHTS.get(cube, 1.0),
    "argument": lambda x: left.value(x) * (2 if are_same(left, pair.a) else 1) * (3 if is_member(square) else 1),
    "namedtuples": lambda x: pair.a.value(x) + pair[1].value(x) + rules.a(x) + rules[1].value(x) + Rule(cube).value(x),
    "fields": lambda x: sum(f(x) for f in rules[:1]) + rules._replace(a=cube).a(x) * (2 if rules.b is rule else 1),
    "searched": searched,
    "keyed": keyed,
    "visited": visited,
}


@pytest.mark.filterwarnings("ignore::wengert.errors.CompileWarning")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_branches_that_depend_on_identities(name, wrap):
    f = PROGRAMS[name]
    np.testing.assert_allclose(wg.grad(wrap(f))(0.37), fourth_order_difference(f, 0.37), rtol=1e-9)


def test_object_that_dies_keeps_its_hash_while_its_stand_in_is_a_key():
    class Holder:
        def __init__(self):
            self.node = Node(2.0)

        def value(self, x):
            held = {self.node: x}
            node, self.node = self.node, None
            return held[node] * node.weight * math.sin(x)

    x = 0.3
    np.testing.assert_allclose(wg.grad(Holder().value)(x), 2 * (math.sin(x) + x * math.cos(x)), rtol=1e-14)


def test_stand_ins_of_different_objects_that_have_died_differ():
    a, b = (registration.lookup.replaced(Node(k)) for k in (2.0, 3.0))
    assert type(a) is not Node
    assert a != b
    assert identity.compared((a, b)) == (a, b)
    assert a == a
    assert len({a, b}) == 2


LINE = np.arange(3.0)


class Grid:
    def __init__(self):
        self.line = LINE

    def total(self, x):
        copied = self.line.copy()
        copied[0] = x
        is_same = self.line is self.line and self.line is LINE and id(self.line) == id(LINE)
        return copied.sum() if is_same and self.line is not copied else 2.0 * x


def test_arrays_held_by_functions_that_copy_arrays_keep_their_identity():
    for wrap in (lambda f: f, wg.compile):
        assert wg.grad(wrap(Grid().total))(3.0) == 1.0
