"""Objects of SciPy's classes, and of classes derived from them, in followed code: tests of their class see SciPy's."""

from __future__ import annotations

import copy
from functools import singledispatch

import numpy as np
import pytest
import scipy.sparse
from scipy import interpolate, stats
from scipy.integrate import OdeSolution, solve_ivp
from scipy.interpolate import (
    BSpline,
    CubicSpline,
    LinearNDInterpolator,
    NearestNDInterpolator,
    PPoly,
    RBFInterpolator,
    RegularGridInterpolator,
    UnivariateSpline,
    interp1d,
)
from scipy.signal import StateSpace, TransferFunction, lti
from scipy.sparse.linalg import LinearOperator, SuperLU, aslinearoperator, splu
from scipy.spatial import ConvexHull, Delaunay, KDTree, cKDTree
from scipy.spatial.transform import Rotation, RotationSpline, Slerp
from scipy.stats import Covariance, gaussian_kde, rv_continuous
from scipy.stats._distn_infrastructure import rv_frozen

import wengert as wg
from helpers import fourth_order_difference

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it

T = np.linspace(0.0, 1.0, 6)
POINTS = np.random.default_rng(0).normal(size=(8, 2))
TURNS = [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.4]]
#: (class, function that makes an object of it or of a subclass from a positive number)
OBJECTS = {
    "CubicSpline": (CubicSpline, lambda x: CubicSpline(T, np.sin(T) * x)),
    "PPoly": (PPoly, lambda x: CubicSpline(T, np.sin(T) * x)),
    "derivative": (PPoly, lambda x: CubicSpline(T, np.sin(T) * x).derivative()),
    "BSpline": (BSpline, lambda x: interpolate.make_interp_spline(T, np.sin(T) * x)),
    "interp1d": (interp1d, lambda x: interp1d(T, np.sin(T) * x)),
    "RegularGridInterpolator": (RegularGridInterpolator, lambda x: RegularGridInterpolator((T,), np.sin(T) * x)),
    "UnivariateSpline": (UnivariateSpline, lambda x: interpolate.InterpolatedUnivariateSpline(T, np.sin(T) * x)),
    "RBFInterpolator": (RBFInterpolator, lambda x: RBFInterpolator(POINTS, POINTS[:, 0] * x)),
    "LinearNDInterpolator": (LinearNDInterpolator, lambda x: LinearNDInterpolator(POINTS, POINTS[:, 0] * x)),
    "NearestNDInterpolator": (NearestNDInterpolator, lambda x: NearestNDInterpolator(POINTS, POINTS[:, 0] * x)),
    "rv_continuous": (rv_continuous, lambda x: stats.norm),
    "rv_frozen": (rv_frozen, lambda x: stats.norm(x, 1.0)),
    "gaussian_kde": (gaussian_kde, lambda x: gaussian_kde(T * x)),
    "Covariance": (Covariance, lambda x: Covariance.from_diagonal([x, 1.0])),
    "StateSpace": (StateSpace, lambda x: StateSpace([[-x]], [[1.0]], [[1.0]], [[0.0]])),
    "lti": (lti, lambda x: TransferFunction([1.0], [1.0, x])),
    "Rotation": (Rotation, lambda x: Rotation.from_rotvec([x, 0.0, 0.0])),
    "Slerp": (Slerp, lambda x: Slerp([0.0, 1.0], Rotation.from_rotvec(np.array(TURNS[:2]) * x))),
    "RotationSpline": (RotationSpline, lambda x: RotationSpline(range(3), Rotation.from_rotvec(np.array(TURNS) * x))),
    "KDTree": (KDTree, lambda x: KDTree(POINTS * x)),
    "cKDTree": (cKDTree, lambda x: cKDTree(POINTS * x)),
    "KDTree as cKDTree": (cKDTree, lambda x: KDTree(POINTS * x)),
    "Delaunay": (Delaunay, lambda x: Delaunay(POINTS * x)),
    "ConvexHull": (ConvexHull, lambda x: ConvexHull(POINTS * x)),
    "SuperLU": (SuperLU, lambda x: splu(scipy.sparse.csc_matrix(np.eye(2) * x))),
    "LinearOperator": (LinearOperator, lambda x: aslinearoperator(np.eye(2) * x)),
}
if hasattr(stats, "Normal"):
    OBJECTS["Normal"] = stats.Normal, lambda x: stats.Normal(mu=x, sigma=1.0)


def digits_of(value, cls):
    """Return the results of tests of the class of `value`, as the bits of an integer."""
    found = [isinstance(value, cls), isinstance(value, (int, cls)), issubclass(type(value), cls)]
    found += [issubclass(value.__class__, cls), value.__class__ is type(value), type(value) is cls]
    found += [value.__class__ is cls, type(value).__mro__[1] is cls.__mro__[1], type(value).__name__ == cls.__name__]
    match value:
        case cls():
            found.append(True)
    return sum(bool(x) << k for k, x in enumerate(found))


@pytest.mark.parametrize("name", OBJECTS)
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_class_of_object_made_in_function(name, wrap):
    cls, make = OBJECTS[name]

    def f(x):
        return digits_of(make(x), cls) * x

    assert wg.grad(wrap(f))(1.3) == f(1.3) / 1.3


@pytest.mark.parametrize("name", OBJECTS)
def test_class_of_object_made_outside(name):
    cls, make = OBJECTS[name]
    try:
        value = make(1.3)
    except AttributeError:  # in old releases of SciPy
        pytest.skip(f"{name} cannot be made")

    def f(x):
        return digits_of(value, cls) * x

    assert wg.grad(f)(1.3) == f(1.3) / 1.3


class Spline(CubicSpline):
    factor = 2.0

    def __init__(self, x, y, name="spline"):
        super().__init__(x, y)
        self.name = name

    def __call__(self, x, *args, **options):
        return self.factor * super().__call__(x, *args, **options)

    @property
    def middle(self):
        return self(0.5)

    @classmethod
    def line(cls, slope):
        return cls(T, slope * T, name="line")

    def clone(self):
        return self.__class__(self.x, self(self.x))

    def same(self):
        return type(self)(self.x, self(self.x))


class Density(gaussian_kde):
    def log(self, x):
        return np.log(self(x))[0]


class Tree(KDTree):
    def nearest(self, x):
        return self.query(x)[0]


class System(StateSpace):
    def gain(self):
        return (-self.C @ np.linalg.inv(self.A) @ self.B)[0, 0]


class Line(interp1d):
    def twice(self, x):
        return 2 * self(x)


class Grid(RegularGridInterpolator):
    def at(self, x):
        return self([[x]])[0]


class Bell(rv_continuous):
    height = 1.0

    def _pdf(self, x):
        return self.height * np.exp(-x * x / 2) / np.sqrt(2 * np.pi)


class Model:
    def __init__(self):
        self.spline, self.others, self.named = Spline(T, np.sin(T)), [Line(T, T * T)], {"kde": Density(T)}

    def value(self, x):
        is_spline = isinstance(self.spline, Spline) and isinstance(self.others[0], interp1d)
        return (2 if is_spline else 1) * self.spline(x) + self.others[0].twice(x) + self.named["kde"].log(x)


@singledispatch
def evaluated(model, x):
    return 0 * x


@evaluated.register
def _(model: CubicSpline, x):
    return model(x)


@evaluated.register(rv_frozen)
def _(model, x):
    return model.pdf(x)


spline, density, tree, system = Spline(T, np.sin(T)), Density(T), Tree(POINTS), System(-1.0, 1.0, 1.0, 0.0)
line, grid, bell, model, frozen = Line(T, T * T), Grid((T,), T * T), Bell(name="bell"), Model(), stats.norm(0.0, 2.0)


def matched(x):
    match spline:
        case Spline(name=name):
            return spline(x) * len(name)
    return x


def cloned_often(x):
    total = 0.0
    for _ in range(30):  # interpreters run an instruction differently once it has run some times
        total = total + spline.clone()(x)
    return total


def looked_up(x):
    factors = {CubicSpline: 2.0, Spline: 3.0, Density: 5.0}
    return factors.get(type(spline), 1.0) * factors.get(density.__class__, 1.0) * spline(x)


def dense_output(x):
    found = solve_ivp(lambda t, y: -x * y, (0, 1), [1.0], dense_output=True, rtol=1e-9, atol=1e-12).sol
    return found(0.5)[0] * (2 if isinstance(found, OdeSolution) and type(found) is OdeSolution else 1)


PROGRAMS = {
    "method": lambda x: spline(x) + spline.middle * x,
    "constructor": lambda x: Spline(T, np.sin(T) * x)(0.3),
    "class method": lambda x: Spline.line(x)(0.3) * len(Spline.line(x).name) * (2 if type(spline) is Spline else 1),
    "own class called": lambda x: spline.clone()(x) + spline.same()(x) * (2 if type(spline.same()) is Spline else 1),
    "copies": lambda x: copy.copy(spline)(x) * (2 if type(copy.deepcopy(spline)) is Spline else 1),
    "density": lambda x: density.log(x) + Density(T * x).log(0.2) * (2 if isinstance(density, gaussian_kde) else 1),
    "tree": lambda x: tree.nearest(np.array([x, 0.1])) * (2 if isinstance(tree, Tree) else 1),
    "system": lambda x: System(-x, 1.0, 1.0, 0.0).gain() + system.gain() * x * (2 if isinstance(system, lti) else 1),
    "line": lambda x: line.twice(x) + Line(T, T * T * x).twice(0.3),
    "grid": lambda x: grid.at(x) + Grid((T,), T * T * x).at(0.3),
    "distribution": lambda x: bell.pdf(x) * (2 if type(bell) is Bell and isinstance(bell, rv_continuous) else 1),
    "attributes": lambda x: model.value(x),
    "singledispatch": lambda x: evaluated(spline, x) + evaluated(frozen, x),
    "module and base": lambda x: spline(x) * (2 if type(spline).__mro__[1] is CubicSpline else 1),
    "matched": matched,
    "looked up": looked_up,
    "cloned often": cloned_often,
    "dense output": dense_output,
}


@pytest.mark.filterwarnings("ignore::wengert.errors.CompileWarning")
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_subclass_of_user(name, wrap):
    f = PROGRAMS[name]
    np.testing.assert_allclose(wg.grad(wrap(f))(0.37), fourth_order_difference(f, 0.37), rtol=1e-8)


@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_changed_class_attribute_is_seen(monkeypatch, wrap):
    derivative = wg.grad(wrap(lambda x: Spline(T, T * x)(0.3) + spline(x)))
    before = derivative(0.4)
    monkeypatch.setattr(Spline, "factor", 6.0)
    np.testing.assert_allclose(derivative(0.4), 3 * before, rtol=1e-14)


#: (function that makes an object, change of the object, value of the object at a number)
CHANGES = {
    "CubicSpline": (
        lambda: CubicSpline(T, np.sin(T)), lambda held: setattr(held, "c", held.c * 2), lambda held, x: held(x)
    ),
    "BSpline": (
        lambda: interpolate.make_interp_spline(T, np.sin(T)),
        lambda held: setattr(held, "t", held.t * 2),
        lambda held, x: held(x),
    ),
    "interp1d": (
        lambda: interp1d(T, T, bounds_error=False, fill_value=1.0),
        lambda held: setattr(held, "fill_value", 3.0),
        lambda held, x: held(x + 2) * x,
    ),
    "gaussian_kde": (lambda: gaussian_kde(T), lambda held: held.set_bandwidth(0.2), lambda held, x: held(x)[0]),
    "frozen arguments": (
        lambda: stats.norm(0.3, 1.2), lambda held: setattr(held, "args", (0.1, 2.0)), lambda held, x: held.logpdf(x)
    ),
    "frozen keyword": (
        lambda: stats.norm(scale=1.2), lambda held: held.kwds.update(scale=2.0), lambda held, x: held.logpdf(x)
    ),
    "user's distribution": (
        lambda: Bell(name="bell"), lambda held: setattr(held, "height", 3.0), lambda held, x: held.pdf(x)
    ),
    "sparse": (
        lambda: scipy.sparse.csr_array(np.eye(2)),
        lambda held: setattr(held, "data", held.data * 2),
        lambda held, x: (held @ np.array([x, x * x])).sum(),
    ),
    "StateSpace": (
        lambda: StateSpace([[1.0]], [[1.0]], [[1.0]], [[0.0]]),
        lambda held: setattr(held, "A", np.array([[5.0]])),
        lambda held, x: (held.A * x).sum(),
    ),
}
evaluate = in_global = in_attribute = None


def of_a_global(x):
    return evaluate(in_global, x)


def of_an_attribute(x):
    return evaluate(in_attribute.held, x)


class Owner:
    def __init__(self, held):
        self.held = held


@pytest.mark.filterwarnings("ignore::wengert.errors.CompileWarning")
@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("f", [of_a_global, of_an_attribute])
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_changed_object_is_seen(monkeypatch, wrap, f, name):
    make, change, evaluate = CHANGES[name]
    held = make()
    for key, value in (("evaluate", evaluate), ("in_global", held), ("in_attribute", Owner(held))):
        monkeypatch.setitem(globals(), key, value)
    derivative = wg.grad(wrap(f))
    for step in (lambda held: None, change):
        step(held)
        for _ in range(2):
            np.testing.assert_allclose(derivative(0.37), fourth_order_difference(f, 0.37), rtol=1e-8)


KROGH = interpolate.KroghInterpolator(T, np.sin(T))


def test_object_with_a_dtype():
    np.testing.assert_allclose(wg.grad(lambda x: KROGH(x))(0.37), fourth_order_difference(KROGH, 0.37), rtol=1e-8)


class Base:
    def square(self, x):
        return x * x


class Derived(Base):
    pass


BASES = [lambda x: type(x).__mro__[1], lambda x: type(x).__bases__[0], lambda x: type(x).mro()[1]]


@pytest.mark.parametrize("bases", BASES)
def test_bases_of_the_type_of_a_followed_object(bases):
    value = Derived()

    def f(x):
        return value.square(x) * (3 if bases(value) is Base else 1)

    assert wg.grad(f)(2.0) == 12.0
