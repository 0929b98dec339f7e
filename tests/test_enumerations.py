"""Enumerations with methods in followed code: members are followed, and stay the members that they are."""

from __future__ import annotations

import copy
import enum
import math
import pickle
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import pytest

import wengert as wg
from helpers import fourth_order_difference


class Planet(enum.Enum):
    MERCURY = (3.303e23, 2.4397e6)
    EARTH = (5.976e24, 6.37814e6)

    def __init__(self, mass, radius):
        self.mass, self.radius = mass, radius

    @property
    def gravity(self):
        return 6.673e-11 * self.mass / (self.radius * self.radius)

    def weight(self, mass):
        return math.fabs(mass) * self.gravity

    @staticmethod
    def root(x):
        return math.sqrt(x)


class Kind(enum.Enum):
    LINEAR = enum.auto()
    CUBIC = enum.auto()
    ALIAS = 1

    def __call__(self, x):
        match self:
            case Kind.LINEAR:
                return math.sin(x)
            case Kind.CUBIC:
                return math.sin(x) ** 3

    @classmethod
    def usual(cls):
        return cls.CUBIC

    @classmethod
    def _missing_(cls, value):
        return cls.CUBIC


class Operation(enum.Enum):
    ADD = "+"
    MULTIPLY = "*"

    def apply(self, a, b):
        return {Operation.ADD: lambda: math.fsum([a, b]), Operation.MULTIPLY: lambda: math.prod([a, b])}[self]()


class Mode(enum.Flag):
    READ = 1
    WRITE = 2

    def scale(self, x):
        return math.exp(x) * (2 if Mode.WRITE in self else 1)


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2

    def value_at(self, x):
        return math.exp(x) * self + (self is Level.HIGH)

    @classmethod
    def total(cls, x):
        return sum(each.value_at(x) for each in cls)


class Unit(enum.StrEnum):
    METRE = "m"
    FOOT = "ft"

    def converted(self, x):
        return math.sinh(x) * (1.0 if self == "m" else 0.3048) * len(self)


class Access(enum.IntFlag):
    READ = 1
    WRITE = 2

    def scale(self, x):
        return math.exp(x) * (2 if Access.WRITE in self else 1) * (self & 3)


@dataclass
class Model:
    kind: Kind = Kind.CUBIC

    def value(self, x):
        return self.kind(x) * (2 if self.kind is Kind.CUBIC else 1) * (3 if self.kind == Kind.CUBIC else 1)


MODELS = {Kind.LINEAR: Model(Kind.LINEAR), Kind.CUBIC: Model()}
FACTORS = {Kind.LINEAR: 2.0, Kind.CUBIC: 3.0}


def facts():
    first, second = Kind
    return [
        first is Kind.LINEAR and second is Kind.CUBIC and Kind.LINEAR is Kind.ALIAS,
        Kind(1) is Kind.LINEAR and Kind(7) is Kind.CUBIC and Kind["CUBIC"] is Kind.CUBIC,
        Kind.CUBIC in Kind and len(Kind) == 2 and [*Kind] == [Kind.LINEAR, Kind.CUBIC],
        isinstance(Kind.CUBIC, Kind) and type(Kind.CUBIC) is Kind and Kind.CUBIC.__class__ is Kind,
        Kind.CUBIC == Kind(2) and Kind.CUBIC != Kind.LINEAR and hash(Kind.CUBIC) == hash(Kind(2)),
        {Kind.CUBIC: 1}[Kind(2)] == 1 and Kind.CUBIC in {Kind(2)} and FACTORS[Kind.CUBIC] == 3.0,
        str(Kind.CUBIC) == "Kind.CUBIC" and repr(Kind.CUBIC) == "<Kind.CUBIC: 2>" and Kind.CUBIC.value == 2,
        list(Kind.__members__) == ["LINEAR", "CUBIC", "ALIAS"] and Kind.__members__["CUBIC"] is Kind.CUBIC,
        copy.copy(Kind.CUBIC) is Kind.CUBIC and copy.deepcopy(Kind.CUBIC) is Kind.CUBIC,
        pickle.loads(pickle.dumps(Kind.CUBIC)) is Kind.CUBIC,
        (Mode.READ | Mode.WRITE) & Mode.READ == Mode.READ and not Mode.READ & Mode.WRITE,
        Mode.READ in (Mode.READ | Mode.WRITE) and (Mode.READ | Mode.WRITE).value == 3,
        replace(Model(), kind=Kind.LINEAR).kind is Kind.LINEAR and MODELS[Kind.CUBIC].kind is Kind.CUBIC,
        Planet((5.976e24, 6.37814e6)) is Planet.EARTH and Planet.EARTH.name == "EARTH",
        issubclass(Kind, enum.Enum) and Kind.__name__ == "Kind" and Kind.__module__ == __name__,
        sorted(Kind, key=lambda kind: -kind.value)[1] is Kind.LINEAR and [*reversed(Kind)][1] is Kind.LINEAR,
        Level(2) is Level.HIGH and Level.LOW in Level and Level.HIGH == 2 and Level.LOW < Level.HIGH,
        isinstance(Level.LOW, int) and type(Level.LOW) is Level and {1: 2}[Level.LOW] == 2 and [5, 6][Level.LOW] == 6,
        Unit("ft") is Unit.FOOT and str(Unit.FOOT) == "ft" and {Unit.FOOT: 1}["ft"] == 1 and Unit.FOOT + "2" == "ft2",
        (Access.READ | Access.WRITE) is Access(3) and Access.READ in Access(3) and Access(3) == 3,
        pickle.loads(pickle.dumps(Level.HIGH)) is Level.HIGH and copy.deepcopy(Unit.FOOT) is Unit.FOOT,
    ]


PROGRAMS = {
    "members with attributes": lambda x: sum(planet.weight(x) for planet in Planet) + Planet.root(x),
    "members called": lambda x: Kind.CUBIC(x) + Kind(1)(x) + Kind["CUBIC"](x) + Kind.usual()(x),
    "member as a key of its class": lambda x: Operation.ADD.apply(x, 1.0) * Operation("*").apply(x, x),
    "flags": lambda x: (Mode.READ | Mode.WRITE).scale(x) + Mode.READ.scale(x),
    "attribute of an object": lambda x: Model().value(x) + Model(Kind.LINEAR).value(x) + MODELS[Kind.LINEAR].value(x),
    "keys": lambda x: FACTORS[Kind.CUBIC] * {kind: kind(x) for kind in Kind}[Kind.CUBIC],
    "lists": lambda x: [*Kind][1](x) + list(Kind)[1](x) + sum(i * kind(x) for i, kind in enumerate(Kind)),
    "numbers": lambda x: Level.HIGH.value_at(x) * Level(1).value_at(x) + Level["LOW"].value_at(x) + Level.total(x),
    "strings": lambda x: Unit.FOOT.converted(x) + Unit("m").converted(x) + sum(unit.converted(x) for unit in Unit),
    "flags that are numbers": lambda x: (Access.READ | Access.WRITE).scale(x) + Access(2).scale(x),
    "names": lambda x: Kind.__members__["CUBIC"](x) * len(Kind.CUBIC.name),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_methods_of_members_are_followed(name, wrap):
    f = PROGRAMS[name]
    np.testing.assert_allclose(wg.grad(wrap(f))(0.37), fourth_order_difference(f, 0.37), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::wengert.errors.CompileWarning")
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_facts_about_members_are_those_of_plain_code(wrap):
    def f(x):
        found = sum(bool(fact) << k for k, fact in enumerate(facts()))
        return found * x + 0.0 * (Kind.CUBIC(x) + Mode.READ.scale(x) + Planet.EARTH.weight(x) + sum(k(x) for k in Kind))

    assert all(facts())
    assert wg.grad(wrap(f))(0.5) == 2 ** len(facts()) - 1
    assert all(facts())


T = TypeVar("T")


class Box(Generic[T]):
    def __init__(self, x):
        self.x = x

    def square(self):
        return self.x * self.x


@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_subscripts_of_other_classes_are_generic_aliases(wrap):
    assert wg.grad(wrap(lambda x: Box[float](x).square() + Box(x).square()))(0.5) == 2.0
    assert Box[float].__origin__ is Box and type(Box[float](1.0)) is Box
