"""Forms of code that published packages use: proxies, modules and options that simple functions do not have."""

import abc
import collections
import contextlib
import copy
import enum
import functools
import importlib
import inspect
import json
import operator
import subprocess
import sys
import types
import typing
import warnings

import numpy as np
import pytest
import scipy.spatial
import scipy.stats

import wengert as wg
from helpers import DIFFERENCES, central_differences
from wengert.core.rebind import wrappers
from wengert.features import null_is_first

X = np.array([0.3, 0.5, 0.9])


def module(name, **names):
    """Return a new module in `sys.modules`."""
    sys.modules[name] = made = types.ModuleType(name)
    vars(made).update(names)
    return made


class Holder:
    """An object with the given attributes."""

    def __init__(self, **names):
        self.__dict__.update(names)


def double(x):
    y = np.zeros(len(x))
    y[:] = 2.0 * x
    return y


def test_attributes_may_be_called_like_parameters_of_the_proxy_class():
    held = Holder(cls=double, bases=double)
    np.testing.assert_allclose(wg.jacobian(lambda x: held.cls(x) + held.bases(x))(X), 4.0 * np.eye(3))


class Backend:
    dtype = np.float64

    def array(self, x):
        return np.array(x, dtype=self.dtype)


def test_attributes_that_a_module_computes_are_followed():
    made = module("package_form_backend", backend=Backend())
    exec("def __getattr__(name): return getattr(backend, name)", vars(made))
    np.testing.assert_allclose(wg.grad(lambda x: 3.0 * made.array(x))(2.0), 3.0)
    np.testing.assert_allclose(wg.jacobian(lambda x: made.array(x) ** 2)(X), np.diag(2.0 * X))


def test_attributes_that_a_module_computes_are_not_computed_before_the_call():
    asked = []
    made = module("package_form_lazy", has_grad=False, asked=asked, error=AttributeError)
    exec("def __getattr__(name): asked.append(name); raise error(name)", vars(made))

    def f(x):
        return made.grad_mode.enabled(x) if made.has_grad else np.sin(x)

    np.testing.assert_allclose(wg.grad(f)(2.0), np.cos(2.0))
    assert "grad_mode" not in asked


class Registered(abc.ABC):  # noqa: B024
    """A class whose subclasses are registered, with a base that has empty slots."""

    names: list = []

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        Registered.names.append(cls.__name__)

    def evaluated(self, x):
        return self.scale * double(x)


class Child(Registered):
    def __init__(self, scale):
        self.scale = np.array(scale, dtype=float)


def test_classes_with_a_subclass_hook_and_an_abstract_base_are_followed():
    before = list(Registered.names)
    found = wg.grad(lambda s: np.sum(Child(s).evaluated(X)))(1.5)
    np.testing.assert_allclose(found, 2.0 * np.sum(X))
    assert Registered.names == before  # no hook ran for a proxy class


def test_the_hook_runs_for_subclasses_that_the_function_makes():
    before = len(Registered.names)

    def f(s):
        class Made(Child):
            pass

        return np.sum(Made(s).evaluated(X))

    np.testing.assert_allclose(wg.grad(f)(1.5), 2.0 * np.sum(X))
    assert Registered.names[before:] == ["Made"]
    del Registered.names[before:]


class Quantity:
    """A value with an exponent of its unit; reflected operators expect plain values."""

    def __init__(self, value, power):
        self.value, self.power = value, power

    def __truediv__(self, other):
        if isinstance(other, Quantity):
            return Quantity(np.array(self.value) / np.array(other.value), self.power - other.power)
        return Quantity(np.array(self.value) / other, self.power)

    def __rtruediv__(self, other):
        value = other.value if isinstance(other, Quantity) else other
        return Quantity(np.array(value) / np.array(self.value), -self.power)


class Length(Quantity):
    pass


REFERENCE, LENGTH = Quantity(4.0, 1), Length(4.0, 1)


IMPORTING = """
import sys
import numpy as np
import wengert as wg

def f(x, is_special):
    if is_special:
        from scipy.special import erf
        return erf(x)
    return np.sin(x)

assert wg.grad(f)(0.5, False) == np.cos(0.5)
assert wg.grad(wg.compile(f))(0.5, False) == np.cos(0.5)
assert "scipy.special" not in sys.modules
expected = 2.0 / np.sqrt(np.pi) * np.exp(-0.25)
for derivative in (wg.grad(f), wg.grad(wg.compile(f))):
    for _ in range(3):
        np.testing.assert_allclose(derivative(0.5, True), expected)
"""


def test_imports_of_scipy_in_functions_load_it_when_they_run():
    subprocess.run([sys.executable, "-c", IMPORTING], check=True)


class Norms:
    """A mixin; it has objects of its own, too."""

    scale = 2.0

    def parts(self):
        return [3.0, 4.0]

    def squares(self):
        return self.scale * np.sum(np.square(self.parts()))


class NormArray(np.ndarray, Norms):
    def __new__(cls, x):
        return np.asarray(x).view(cls)

    def parts(self):
        return np.asarray(self)


class NormTuple(tuple, Norms):
    def parts(self):
        return np.array(self)


class NormPair(collections.namedtuple("Pair", "first second"), Norms):
    parts = NormTuple.parts


class NormList(list, Norms):
    parts = NormTuple.parts


class NormDict(dict, Norms):
    def parts(self):
        return np.array(list(self.values()))


class NormSlots(Norms):
    __slots__ = "x"

    def __init__(self, x):
        self.x = x

    def parts(self):
        return np.array(self.x)


#: how each class is made of two numbers
NORMS = {
    NormArray: NormArray,
    NormTuple: NormTuple,
    NormPair: lambda x: NormPair(*x),
    NormList: NormList,
    NormDict: lambda x: NormDict(enumerate(x)),
    NormSlots: NormSlots,
}


@pytest.mark.parametrize("prepared", [lambda f: f, wg.compile])
@pytest.mark.parametrize("kind", NORMS, ids=lambda kind: kind.__name__)
def test_mixins_of_classes_with_a_memory_layout_are_followed(kind, prepared):
    make, alone = NORMS[kind], Norms()

    def f(x):
        alone.scale = x[0]
        return make(x).squares() + alone.squares() * x[1]

    before, after = (wg.grad(prepared(lambda x: Norms().squares() * x[0])) for _ in range(2))
    x = np.array([2.0, 3.0])
    np.testing.assert_array_equal(before(x), [50.0, 0.0])
    for _ in range(2):
        np.testing.assert_allclose(wg.grad(prepared(f))(x), 4.0 * x + [75.0, 50.0])
    np.testing.assert_array_equal(after(x), [50.0, 0.0])


class Doubling:
    """A mixin without equality of its own."""

    def act(self, x):
        return np.asarray(x) * 2.0


class Near:
    def __init__(self, size):
        self.size = size

    def __eq__(self, other):
        return isinstance(other, Near) and bool(np.isclose(self.size, other.size))


class NearAndHashable(Near):
    def __eq__(self, other):
        return Near.__eq__(self, other)

    def __hash__(self):
        return 7


class Unhashable(Doubling, Near):
    pass


class Hashable(Doubling, NearAndHashable):
    pass


@pytest.mark.parametrize("prepared", [lambda f: f, wg.compile])
def test_equality_and_hash_come_from_the_class_of_the_original(prepared):
    a, b, c, d = Unhashable(1.0), Unhashable(1.0 + 1e-12), Hashable(1.0), Hashable(1.0)

    def f(x):
        factor = 2.0 if a == b and a != Unhashable(2.0) else 3.0
        try:
            hash(a)
        except TypeError:
            factor *= 5.0
        return np.sum(a.act(x) + c.act(x)) * factor * len({c, d}) * hash(c)

    np.testing.assert_array_equal(wg.grad(prepared(f))(X), 280.0)
    np.testing.assert_allclose(f(X), 280.0 * np.sum(X))


class Direction(enum.Enum):
    DOWN = -1
    UP = 1

    @classmethod
    def of(cls, value):
        return cls(value)

    def along(self, x):
        return np.asarray(x) * self.value


@pytest.mark.parametrize("prepared", [lambda f: f, wg.compile])
def test_members_of_enumerations_are_found_by_member_and_value(prepared):
    def f(x):
        return Direction(Direction.DOWN).along(x) + Direction.of(Direction.UP).along(x * x) + Direction(-1).along(x)

    np.testing.assert_allclose(wg.jacobian(prepared(f))(X), np.diag(2.0 * X - 2.0))


class Delegating:
    """Reads a module from a class attribute."""

    @classmethod
    def of_class(cls, x):
        return cls._module.doubled(x)

    def of_object(self, x):
        return self._module.doubled(x)


class Delegated(Delegating):
    _module = module("package_form_delegate", doubled=double)


class Delegate(Delegating):
    def __init__(self, made):
        self._module = made


@pytest.mark.parametrize("prepared", [lambda f: f, wg.compile])
def test_modules_in_attributes_of_classes_and_objects_are_followed(prepared, monkeypatch):
    held = Delegate(Delegated._module)
    f = prepared(lambda x: Delegated.of_class(x) + Delegated().of_object(x) + held.of_object(x))
    np.testing.assert_allclose(wg.jacobian(f)(X), 6.0 * np.eye(3))
    monkeypatch.setattr(Delegated, "_module", module("package_form_other", doubled=lambda x: double(x) + x))
    np.testing.assert_allclose(wg.jacobian(f)(X), 8.0 * np.eye(3))


class Layer:
    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return np.asarray(x) * self.weight


class Network:
    """Calls the layers that it holds in a container."""

    def __init__(self, *weights, kind=list):
        layers = [Layer(weight) for weight in weights]
        self.layers = dict(enumerate(layers)) if kind is dict else kind(layers)

    def total(self, x):
        y = [x, x]
        for layer in self.layers.values() if isinstance(self.layers, dict) else self.layers:
            y = layer(y)
        return np.sum(y)


@pytest.mark.parametrize("prepared", [lambda f: f, wg.compile])
@pytest.mark.parametrize("kind", [list, tuple, dict])
def test_methods_call_objects_in_containers(kind, prepared):
    network = Network(2.0, 3.0, kind=kind)
    derivative = wg.grad(prepared(network.total))
    for _ in range(3):
        assert derivative(1.5) == 12.0
    network.layers = kind({0: Layer(5.0)} if kind is dict else [Layer(5.0)])
    assert derivative(1.5) == 10.0
    if kind is list:
        network.layers.append(Layer(0.5))
        assert derivative(1.5) == 5.0


SPACE = types.SimpleNamespace(layer=Layer(2.0), double=double, rate=3.0, inner=types.SimpleNamespace(double=double))


class Spaced:
    space = SPACE

    def __init__(self):
        self.own = SPACE

    def total(self, x):
        return np.sum(self.own.layer(x)) * self.space.rate


NAMESPACES = {
    "function": lambda x: np.sum(SPACE.double(x)),
    "object": lambda x: np.sum(SPACE.layer(x)) * SPACE.rate,
    "nested": lambda x: np.sum(SPACE.inner.double(x)),
    "method": Spaced().total,
    "by name": lambda x: np.sum(getattr(SPACE, "double")(x)),  # noqa: B009
    "vars": lambda x: np.sum(vars(SPACE)["double"](x)),
    "new": lambda x: np.sum(types.SimpleNamespace(inner=SPACE, x=x).inner.double(x)),
}


@pytest.mark.parametrize("prepared", [lambda f: f, wg.compile])
@pytest.mark.parametrize("name", NAMESPACES)
def test_functions_and_objects_in_namespaces_are_followed(name, prepared, monkeypatch):
    f = NAMESPACES[name]
    derivative = wg.grad(prepared(f))

    def check():
        for _ in range(2):
            np.testing.assert_allclose(derivative(X), central_differences(f, X), rtol=1e-6)

    check()
    monkeypatch.setattr(SPACE, "rate", 7.0)
    check()
    monkeypatch.setattr(SPACE, "double", lambda x: double(x) * x)
    monkeypatch.setattr(SPACE, "layer", Layer(-1.0))
    check()
    assert isinstance(SPACE, types.SimpleNamespace)
    assert type(SPACE) is types.SimpleNamespace


@pytest.mark.parametrize("reference", [REFERENCE, LENGTH])
def test_the_left_operand_of_equal_classes_has_precedence(reference):
    powers = []

    def f(x):
        ratio = Quantity(x, 1) / reference
        powers.append(ratio.power)
        return ratio.value

    np.testing.assert_allclose(wg.grad(f)(2.0), 0.25)
    assert powers == [0]  # that of the plain call


def test_the_reflected_operator_of_a_plain_value_stays():
    np.testing.assert_allclose(wg.grad(lambda x: (x / REFERENCE).value)(2.0), 0.25)


class Cell:
    """An array behind `__array__`."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array, dtype=dtype, copy=copy)


def test_objects_with_an_array_can_be_stored():
    def f(x):
        y = np.zeros((2, 3))
        y[:] = Cell(np.stack([x, x * x]))
        y[0, 1:] = Cell(3.0 * x[:2])
        return y

    expected = np.zeros((2, 3, 3))
    expected[0, 0, 0], expected[0, 1, 0], expected[0, 2, 1] = 1.0, 3.0, 3.0
    expected[1] = np.diag(2.0 * X)
    np.testing.assert_allclose(wg.jacobian(f)(X), expected)


def test_indices_of_neighbours_are_plain():
    points = np.array([[0.0, 0.1], [1.0, 0.0], [0.2, 0.3]])

    def f(p):
        tree = scipy.spatial.KDTree(p)
        near = tree.query_ball_point(p[0], 0.6)
        pairs = tree.query_pairs(0.6)
        assert tree.count_neighbors(tree, 0.6) == 5
        return sum(np.sum((p[0] - p[k]) ** 2) for k in near) + sum(np.sum((p[i] - p[j]) ** 2) for i, j in pairs)

    step = 2.0 * (points[0] - points[2])
    np.testing.assert_allclose(wg.grad(f)(points), [2.0 * step, [0.0, 0.0], -2.0 * step])


@pytest.mark.parametrize("weights", [lambda w: (w, w), lambda w: (w, None)])
def test_weights_of_counted_neighbours_are_refused(weights):
    points = np.array([[0.0, 0.1], [1.0, 0.0], [0.2, 0.3]])

    def f(w):
        tree = scipy.spatial.KDTree(points)
        return tree.count_neighbors(tree, 0.6, weights=weights(w)) * 1.0

    with pytest.raises(wg.UnsupportedFunctionError, match=r"KDTree\.count_neighbors.*query_ball_tree"):
        wg.grad(f)(np.ones(3))


def test_periodic_tree_of_traced_points_finds_neighbours_across_the_boundary():
    points = np.array([[0.05, 0.5], [0.95, 0.5], [0.5, 0.5]])

    def f(p):
        near = scipy.spatial.KDTree(p, boxsize=1.0).query_ball_point(p[0], 0.2)
        return np.sum(p[near] ** 2)

    np.testing.assert_allclose(wg.grad(f)(points), [*(2 * points[:2]), [0.0, 0.0]])


@pytest.mark.parametrize("order", ["C", "F", "K"])
def test_memory_layout_and_casting_leave_derivatives_unchanged(order):
    a = np.arange(6.0).reshape(2, 3)
    found = wg.jacobian(lambda x: np.einsum("ij,j->i", a, x, order=order, casting="no"))(X)
    np.testing.assert_allclose(found, a)
    found = wg.jacobian(lambda x: np.clip(x, 0.4, 0.8, casting="no", order=order))(X)
    np.testing.assert_allclose(found, np.diag([0.0, 1.0, 0.0]))


def test_clip_with_a_mask_needs_an_output():
    with pytest.raises(wg.UnsupportedFunctionError, match="where"):
        wg.jacobian(lambda x: np.clip(x, 0.4, 0.8, where=np.array([True, False, True])))(X)


def test_copy_modes_of_numpy_are_accepted():
    mode = np._CopyMode.IF_NEEDED
    np.testing.assert_allclose(wg.jacobian(lambda x: np.array(x, copy=mode))(X), np.eye(3))


def test_axes_of_transpose_may_be_an_array():
    axes = np.array([1, 0])
    found = wg.jacobian(lambda x: x.transpose(axes) @ np.ones(1))(X[None, :])
    np.testing.assert_allclose(found[:, 0], np.eye(3))


class Settings:
    rate = 1.0


@functools.lru_cache
def settings():
    return Settings()


@functools.cache
def drawn(n):
    return np.random.default_rng().normal(size=n)


@functools.cache
def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


@functools.lru_cache
def chebyshev(n, x):
    return 1.0 if n == 0 else x if n == 1 else 2.0 * x * chebyshev(n - 1, x) - chebyshev(n - 2, x)


class Polynomials:
    """Cached methods of an object that holds a traced value."""

    def __init__(self, x):
        self.x = x

    @functools.lru_cache  # noqa: B019
    def value(self, n):
        return 1.0 if n == 0 else self.x if n == 1 else 2.0 * self.x * self.value(n - 1) - self.value(n - 2)


@functools.cache
def of_shared(n):
    out = np.zeros(n)
    out[:] = shared["rate"]
    return out


shared = {"rate": 1.0}


def with_shared(x):
    shared["rate"] = x
    of_shared.cache_clear()
    total = of_shared(2).sum() * x
    shared["rate"] = 1.0
    return total


@functools.cache
def powers(n):
    return np.arange(n) ** 2.0


def into_a_copy(x):
    out = powers(3).copy()
    out[1] = x
    return out @ powers(3) * x


def as_an_object():
    """Return whether a cached function has the equality, class, signature and writable attributes of plain code."""
    powers.note = fibonacci
    is_equal = powers.note is fibonacci and powers == powers and powers != fibonacci and {powers: 1}.get(powers) == 1
    return is_equal and isinstance(powers, type(drawn)) and [*inspect.signature(powers).parameters] == ["n"]


def by_angle(n):
    return lambda x: np.cos(n * np.arccos(x))


#: with the same function without a cache
CACHED = {
    "object": (lambda x: settings().rate * x**2, lambda x: 5.0 * x**2),
    "draws": (lambda x: np.sum((x * drawn(3) - 1.0) ** 2), lambda x, z=drawn(3): np.sum((x * z - 1.0) ** 2)),
    "recursion": (lambda x: fibonacci(60) * x**2, lambda x: 1548008755920.0 * x**2),
    "recursion with a traced argument": (lambda x: chebyshev(60, x), by_angle(60)),
    "recursion of a method": (lambda x: Polynomials(x).value(60), by_angle(60)),
    "traced value in shared state": (with_shared, lambda x: 2.0 * x**2),
    "identity": (lambda x: x**2 if powers(3) is powers(3) and id(powers(2)) == id(powers(2)) else x, np.square),
    "array": (into_a_copy, lambda x: x**2 + 16.0 * x),
    "stand-in": (lambda x: as_an_object() * x**2, np.square),
    "attributes": (lambda x: x**2 if powers.cache_info().maxsize is None else x, lambda x: x**2),
}


@pytest.mark.parametrize("name", CACHED)
def test_cached_functions_have_the_values_of_plain_calls(name):
    f, plain = CACHED[name]
    settings().rate = 5.0
    for wrap in (lambda f: f, wg.compile):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", wg.CompileWarning)
            np.testing.assert_allclose(wg.value_and_grad(wrap(f))(0.3), wg.value_and_grad(plain)(0.3))
            np.testing.assert_allclose(wg.jvp(wrap(f), 0.3, 1.0), wg.jvp(plain, 0.3, 1.0))
    np.testing.assert_allclose(wg.vmap(f)(np.array([0.3, 0.4])), [plain(0.3), plain(0.4)])
    assert wg.grad(lambda x: x if settings() is kept else 0.0 * x)(0.3) == 1.0
    np.testing.assert_allclose(f(0.3), plain(0.3))


kept = settings()


NEW_ARRAYS = {"ones": np.ones, "linspace": lambda n: np.linspace(0.0, 1.0, n), "exp": lambda n: np.exp(np.arange(n))}


@functools.lru_cache
def grid(kind):
    return NEW_ARRAYS[kind](3)


def into_a_cached_array(x, kind):
    grid(kind)[0] = x
    return grid(kind)[0] ** 2


def with_a_constant_in_a_cached_array(x, kind):
    grid(kind)[0] += 1.0
    return grid(kind)[0] * x


@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
@pytest.mark.parametrize("kind", NEW_ARRAYS)
def test_arrays_of_cached_functions_are_treated_like_global_arrays(kind):
    grid.cache_clear()
    start = NEW_ARRAYS[kind](3)
    for wrap in (lambda f: f, wg.compile):
        f = wrap(into_a_cached_array)
        for op in (wg.grad, wg.derivative, lambda f: lambda x: wg.jvp(f, x, 1.0), lambda f: wg.taylor(f, 0.3, 1.0, 2)):
            with pytest.raises(wg.TracedValueError):
                op(lambda x, f=f: f(x, kind))(0.3)
    np.testing.assert_array_equal(grid(kind)[1:], start[1:])
    grid.cache_clear()
    for count in (1.0, 2.0):
        assert wg.grad(with_a_constant_in_a_cached_array)(0.3, kind) == start[0] + count
    assert type(grid(kind)) is np.ndarray
    grid.cache_clear()


@functools.lru_cache
def made_by(make):
    return make(3)


def halves(n):
    return np.full(n, 0.5)


def into_an_array_made_by(make, x):
    made_by(make)[0] = x
    return made_by(make)[0] ** 2


@pytest.mark.parametrize("name", ["np.ones", "halves"])
def test_cached_functions_of_functions_return_the_arrays_of_plain_code(name):
    made_by.cache_clear()
    f, g = {
        "np.ones": (lambda x: into_an_array_made_by(np.ones, x), lambda x: made_by(np.ones)[0] * x),
        "halves": (lambda x: into_an_array_made_by(halves, x), lambda x: made_by(halves)[0] * x),
    }[name]
    start, misses = g(1.0), made_by.cache_info().misses
    assert wg.grad(g)(0.3) == start
    assert made_by.cache_info().misses == misses  # the result of the plain call was used
    with pytest.raises(wg.TracedValueError):
        wg.grad(f)(0.3)
    made_by.cache_clear()


@functools.lru_cache
def is_even(n):
    return n == 0 or is_odd(n - 1)


@functools.lru_cache
def is_odd(n):
    return n != 0 and is_even(n - 1)


def compiled_without_warning(f, *points):
    """Return the derivatives of a compiled function at all points; it must not run uncompiled."""
    gradient = wg.grad(wg.compile(f))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [gradient(point) for point in points]


def test_cached_functions_that_call_each_other_are_compiled():
    found = compiled_without_warning(lambda x: x**3 if is_even(4) else x, 1.0, 2.0, 3.0)
    np.testing.assert_allclose(found, [3.0, 12.0, 27.0])


@functools.lru_cache
def listed(n):
    return [1.0] * n


def test_functions_that_use_several_results_of_a_cache_are_compiled():
    found = compiled_without_warning(lambda x: (len(listed(2)) + sum(listed(3))) * x**2, *map(float, range(6)))
    np.testing.assert_allclose(found, 10.0 * np.arange(6))


def test_facts_about_the_interpreter_are_constants():
    held = module("package_form_facts", sys=sys)
    exec("from __future__ import annotations\nfeature = annotations", vars(held))

    def f(x):
        is_new = held.sys.version_info >= (3, 8) and held.feature is not None
        return x * held.sys.float_info.max_exp if is_new else x

    np.testing.assert_allclose(compiled_without_warning(f, 1.0, 2.0, 3.0), [sys.float_info.max_exp] * 3)


package = module("package_form_state", rate=2.0, sub=module("package_form_state.sub", rate=3.0))
vars(package).update({f"unread_{i}": [object()] for i in range(2000)})


def test_attributes_of_modules_read_by_chains_are_current():
    def f(x):
        return x * package.rate * package.sub.rate

    gradient = wg.grad(wg.compile(f))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [gradient(float(k)) for k in range(3)] == [6.0] * 3
        package.rate = 5.0
        assert [gradient(float(k)) for k in range(3)] == [15.0] * 3
        package.sub.rate = 7.0
        assert [gradient(float(k)) for k in range(3)] == [35.0] * 3
        package.sub = types.SimpleNamespace(rate=1.0)
        assert [gradient(float(k)) for k in range(3)] == [5.0] * 3
        package.sub = module("package_form_state.sub", rate=4.0)
        assert [gradient(float(k)) for k in range(3)] == [20.0] * 3


def test_attributes_of_modules_read_by_computed_names_are_current():
    made = module("package_form_computed", rate=2.0)
    gradient = wg.grad(wg.compile(lambda x: x * getattr(made, "ra" + "te")))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [gradient(float(k)) for k in range(3)] == [2.0] * 3
        made.rate = 5.0
        assert [gradient(float(k)) for k in range(3)] == [5.0] * 3


DISPATCH = """
def double(x):
    y = np.zeros(len(x))
    y[:] = 2.0 * x
    return y

def by_globals(x, name="double"):
    return globals()[name](x)

def by_module(x, name="double"):
    return getattr(sys.modules[__name__], name)(x)

def by_import(x, name="double"):
    return getattr(importlib.import_module(__name__), name)(x)

def by_name(x, name="double"):
    return eval(name)(x)

def by_namespace(x, name="double"):
    return vars(sys.modules[__name__])[name](x)
"""


@pytest.mark.skipif(null_is_first, reason="the callee follows NULL on the stack")
@pytest.mark.parametrize("way", ["by_globals", "by_module", "by_import", "by_name", "by_namespace"])
def test_functions_found_by_name_and_called_at_once_are_followed(way):
    made = module("package_form_dispatch", np=np, sys=sys, importlib=importlib)
    exec(DISPATCH, vars(made))
    f = getattr(made, way)
    np.testing.assert_allclose(wg.jacobian(lambda x: f(x) ** 2)(X), np.diag(8.0 * X))


def test_classes_made_by_exec_in_a_namespace_without_a_name_are_followed():
    space = {"np": np}
    exec(
        "class Gas:\n"
        "    rate = 3.0\n"
        "    def heat(self, t):\n"
        "        return self.rate * np.asarray(t, dtype=float) ** 2",
        space,
    )
    gas = space["Gas"]()
    J = wg.jacobian(wg.compile(lambda t: gas.heat(t)))
    for rate in (3.0, 5.0):
        gas.rate = rate
        for _ in range(3):
            np.testing.assert_allclose(wg.jacobian(lambda t: gas.heat(t))(X), np.diag(2.0 * rate * X))
            np.testing.assert_allclose(J(X), np.diag(2.0 * rate * X))


class Moments:
    """Adds a method to distributions of SciPy, as lmoments3 does."""

    def centre(self, x):
        values = np.asarray(x, dtype=np.float64)
        return self.shifted(values.sum()) * self.scale_of(2.0) / self.half

    @staticmethod
    def scale_of(a):
        return a

    @property
    def half(self):
        return 0.5

    def shifted(self, a):
        return a + 1.0


class Gumbel(Moments, type(scipy.stats.gumbel_r)):
    def shifted(self, a):
        return 3.0 * super().shifted(a)


gumbel = Gumbel(name="gumbel_r")


def test_methods_of_mixins_of_distributions_are_followed():
    np.testing.assert_allclose(wg.grad(lambda x: gumbel.centre(x))(X), np.full(3, 12.0))
    slope = wg.grad(lambda x: scipy.stats.gumbel_r.pdf(x))(X[0])
    np.testing.assert_allclose(wg.grad(lambda x: gumbel.pdf(x[0]))(X), [slope, 0.0, 0.0])


class Entry:
    __slots__ = ("rate",)


def test_entries_of_imported_modules_may_be_any_objects(monkeypatch):
    monkeypatch.setitem(sys.modules, "package_form_entry", entry := Entry())
    entry.rate = 3.0

    def f(x):
        import package_form_entry

        return x * package_form_entry.rate

    np.testing.assert_allclose(wg.jacobian(f)(X), 3.0 * np.eye(3))


def halved(x):
    y = np.zeros(len(x))
    y[:] = 0.5 * x
    return y


@pytest.mark.parametrize("prepared", [lambda f: f, wg.compile])
def test_new_functions_with_known_code_see_their_own_variables(prepared):
    made = module("package_form_closures", np=np, factor=2.0)
    exec("def closure(other, power):\n    return lambda x: other(x) * factor + x**power", vars(made))
    for k, other in enumerate([double, halved, double, halved, np.sin]):
        made.factor = 2.0 + k // 2
        slope = {double: 2.0, halved: 0.5}.get(other, np.cos(X))
        J = wg.jacobian(prepared(made.closure(other, k + 1.0)))
        for _ in range(3):
            np.testing.assert_allclose(J(X), np.diag(slope * made.factor + (k + 1.0) * X**k))


class Pair:
    """Two numbers that NumPy's functions add, as in the package vector."""

    def __init__(self, a, b):
        self.a, self.b = a, b

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        if ufunc is np.add and method == "__call__":
            one, other = inputs
            return type(self)(one.a + other.a, one.b * other.b)
        return NotImplemented

    def __add__(self, other):
        return np.add(self, other)


def test_functions_are_compared_by_identity_in_methods_for_ufuncs():
    def f(x):
        found = Pair(x[0], x[1]) + Pair(x[2], x[0])
        return found.a * found.b

    for J in (wg.grad(f), wg.grad(wg.compile(f))):
        for x in (X, X + 0.5, X):
            np.testing.assert_allclose(J(x), [x[1] * (2 * x[0] + x[2]), x[0] * (x[0] + x[2]), x[0] * x[1]])


class Estimator:
    """An object that finds its parameters by the signature of its constructor, and copies its input on request."""

    def __init__(self, *, copy=True, scale=2.0):
        self.copy, self.scale = copy, scale

    def parameters(self):
        names = [each for each in inspect.signature(type(self).__init__).parameters.values() if each.name != "self"]
        assert all(each.kind == each.KEYWORD_ONLY for each in names)
        return {each.name: getattr(self, each.name) for each in names}

    def fitted(self, x):
        return np.array(x, copy=self.copy) * self.parameters()["scale"]


SIGNATURES = {
    "plain": lambda copy, scale=2.0: None,
    "all kinds": lambda first, /, copy, scale=3.0, *rest, key, other=5, **options: (copy, rest, options),
    "keywords only": lambda *, copy=True: copy.copy(),
    "none": lambda: [].copy(),
    "annotated": Estimator.__init__,
}


def test_estimators_find_their_parameters_by_the_signature_of_a_constructor_that_names_a_copy():
    for J in (wg.jacobian(lambda x: Estimator().fitted(x)), wg.jacobian(wg.compile(lambda x: Estimator().fitted(x)))):
        for _ in range(3):
            np.testing.assert_allclose(J(X), 2.0 * np.eye(3))


@pytest.mark.parametrize("f", SIGNATURES.values(), ids=SIGNATURES)
def test_functions_whose_arguments_are_replaced_keep_their_signature(f):
    run = wrappers.seeing_arguments(f, lambda value: value)
    assert inspect.signature(run) == inspect.signature(f) and run.__name__ == f.__name__


def test_functions_whose_arguments_are_replaced_get_all_of_them():
    run = wrappers.seeing_arguments(lambda a, /, b=1, *c, d, e=2, **f: (a, b, c, d, e, f), lambda value: 10 * value)
    assert run(1, 2, 3, 4, d=5, g=6) == (10, 20, (30, 40), 50, 20, {"g": 60})
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'd'"):
        run(1)


backend = module("package_form_namespace", array=np.array, sin=np.sin)
exec("import numpy\ndef filled(x):\n    y = numpy.zeros(len(x))\n    y[:] = x\n    return y", vars(backend))


def namespace_of(x):
    return backend, False


def test_modules_that_a_function_returns_are_followed():
    def f(x):
        xp, _ = namespace_of(x)
        assert xp is backend and xp == backend and xp.__name__ == "package_form_namespace"
        assert xp in (backend, np) and {backend: 1}[xp] == 1
        return xp.sin(xp.filled(x))

    for J in (wg.jacobian(f), wg.jacobian(wg.compile(f))):
        for x in (X, X + 0.1, X):
            np.testing.assert_allclose(J(x), np.diag(np.cos(x)))


GAIN = {"now": 2.0}


def decorated(wrapt):
    """Functions and methods under decorators whose objects in C hold the function, by name."""

    @wrapt.decorator
    def filled(wrapped, instance, args, kwargs):
        y = np.zeros(len(args[0]))
        y[:] = GAIN["now"] * wrapped(*args, **kwargs)
        return y

    class Sized:
        def __init__(self, n):
            self.n = n

        @wrapt.decorator
        def __call__(self, wrapped, instance, args, kwargs):
            assert len(args[0]) == self.n
            return wrapped(*args, **kwargs)

    class Owner:
        scale = 3.0

        @Sized(3)
        @filled
        def method(self, x):
            return self.scale * double(x)

        @filled
        @classmethod
        def of_class(cls, x):
            return cls.scale * double(x)

        @filled
        @staticmethod
        def static(x):
            return 3.0 * double(x)

    function, owner = filled(lambda x: 3.0 * double(x)), Owner()
    return {
        "a function": function,
        "a call": lambda x: function(x),
        "a bound method": owner.method,
        "a method of a global": lambda x: owner.method(x),
        "a method of a local": lambda x: Owner().method(x),
        "a class method": lambda x: owner.of_class(x),
        "a static method": lambda x: owner.static(x),
    }


def test_functions_decorated_in_c_are_followed(monkeypatch):
    for name, f in decorated(pytest.importorskip("wrapt")).items():
        compiled = wg.jacobian(wg.compile(f))
        for gain in (2.0, 4.0, 2.0):
            monkeypatch.setitem(GAIN, "now", gain)
            np.testing.assert_allclose(wg.jacobian(f)(X), 6.0 * gain * np.eye(3), err_msg=name)
            with warnings.catch_warnings(action="ignore", category=wg.CompileWarning):
                np.testing.assert_allclose(compiled(X), 6.0 * gain * np.eye(3), err_msg=f"compiled {name}")


RATES, NAMES = [np.sin, 2.0], {"sin": np.sin, "rate": 2.0}


def evaluated_in_place(x):
    NAMES["x"] = x
    try:
        return eval("rate * sin(x)", NAMES)
    finally:
        del NAMES["x"]


def updated_and_evaluated(x):
    NAMES.update(x=x, y=2.0)
    y = eval("rate * x * y", NAMES)
    NAMES.pop("x")
    NAMES.setdefault("z", NAMES.pop("y"))
    return y * eval("z", NAMES) / NAMES.pop("z")


def executed(x):
    found = {"x": x}
    exec("y = rate * x", NAMES, found)
    return found["y"]


def with_default(x, names=NAMES):
    return eval("rate * x", names, {"x": x})


def closed_over(names):
    def call(x):
        return eval("rate * x", names, {"x": x})

    return call


with_cell = closed_over(NAMES)


#: derivatives at 1.3 for a given rate, with functions in the same container
READ_IN_C = {
    "eval": (lambda x: eval("rate * sin(x)", NAMES, {"x": x}), np.cos(1.3)),
    "eval of a written name": (evaluated_in_place, np.cos(1.3)),
    "eval after an update": (updated_and_evaluated, 2.0),
    "exec": (executed, 1.0),
    "a default": (lambda x: with_default(x), 1.0),
    "a cell": (lambda x: with_cell(x), 1.0),
    "a sum of lists": (lambda x: ([1.0] + RATES)[2] * x, 1.0),
    "a slice": (lambda x: scaled_copy(x)[1], 1.0),
    "keywords": (lambda x: dict(**NAMES)["rate"] * x, 1.0),
}


def scaled_copy(x):
    held = [0.0]
    held[:] = RATES
    return [x, held[1] * x]


@pytest.mark.parametrize("name", READ_IN_C)
def test_code_in_c_sees_what_a_container_of_functions_holds_now(name):
    f, slope = READ_IN_C[name]
    derivative, compiled = wg.grad(f), wg.grad(wg.compile(f))
    for rate in (2.0, 5.0, 2.0, 7.0):
        RATES[1] = NAMES["rate"] = rate
        with warnings.catch_warnings(action="ignore", category=wg.CompileWarning):
            for each in (derivative, compiled, derivative):
                np.testing.assert_allclose(each(1.3), rate * slope)
    assert [key for key in NAMES if key != "__builtins__"] == ["sin", "rate"]


class Table:
    """An object that a module makes at first use."""

    scale = 2.0

    def filled(self, x):
        return self.scale * double(x)


table = None


def made_once():
    global table
    if table is None:
        table = Table()
    return table


def used_once_made(x):
    global table
    if table is None:
        table = Table()
    return table.filled(x) + table.scale * x


@pytest.mark.parametrize("f", [lambda x: made_once().filled(x), used_once_made], ids=["returned", "used"])
@pytest.mark.parametrize("is_made_before", [False, True])
def test_objects_that_a_global_name_holds_from_the_first_use_are_followed(f, is_made_before, monkeypatch):
    monkeypatch.setitem(globals(), "table", Table() if is_made_before else None)
    slope = float(f(np.ones(1))[0]) if is_made_before else (6.0 if f is used_once_made else 4.0)
    derivative, compiled = wg.jacobian(f), wg.jacobian(wg.compile(f))
    for scale in (2.0, 3.0, 2.0):
        monkeypatch.setattr(Table, "scale", scale)
        with warnings.catch_warnings(action="ignore", category=wg.CompileWarning):
            for each in (derivative, compiled, derivative):
                np.testing.assert_allclose(each(X), slope * scale / 2.0 * np.eye(3))
    assert not is_made_before or type(table) is Table


LAYERS = [np.tanh, 2.0]


def test_containers_of_ufuncs_are_copied():
    def f(x):
        held, same = copy.deepcopy(LAYERS), copy.copy(LAYERS)
        held[1] = 3.0
        return held[0](x) * held[1] * same[1]

    for derivative in (wg.grad(f), wg.grad(wg.compile(f))):
        for x in (0.3, 0.5):
            np.testing.assert_allclose(derivative(x), 6.0 / np.cosh(x) ** 2)
    assert LAYERS == [np.tanh, 2.0]


OUTER = [1.0]


@functools.cache
def scaled(n):
    return OUTER[0] * n


@pytest.mark.filterwarnings("ignore::wengert.errors.CompileWarning")
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
def test_cached_results_of_other_values_of_traced_state_are_not_used(wrap):
    def f(x):
        OUTER[0] = x
        return scaled(2) * x

    scaled.cache_clear()
    f(0.3)
    g = wg.grad(wrap(f))
    assert [g(x) for x in (0.5, 0.7, 0.5)] == [2.0, 2.8, 2.0]
    OUTER[0] = 1.0


@functools.wraps(double)
def with_attributes(x):
    return with_attributes.inner(x) + with_attributes.holder.inner(x) + with_attributes.__wrapped__(x)


def held_later(x):
    if not hasattr(held_later, "backend"):
        held_later.backend = Backend()
    return np.sum(held_later.backend.array(x))


def test_attributes_of_functions_are_followed(monkeypatch):
    monkeypatch.setattr(with_attributes, "inner", double, raising=False)
    monkeypatch.setattr(with_attributes, "holder", Holder(inner=double), raising=False)
    for slope in (6.0, 5.0):
        for derivative in (wg.jacobian(with_attributes), wg.jacobian(wg.compile(with_attributes))):
            for x in (X, 2 * X):
                np.testing.assert_allclose(derivative(x), slope * np.eye(3))
        monkeypatch.setattr(with_attributes, "inner", lambda x: np.copy(x))
    assert with_attributes.__name__ == "double"
    vars(held_later).clear()
    held_later(X)
    for _ in range(2):
        np.testing.assert_allclose(wg.grad(held_later)(X), np.ones(3))
        vars(held_later).clear()


def reading_attributes(f):
    """A decorator whose wrapper calls what was set on the decorated function."""

    @functools.wraps(f)
    def call(x):
        total = f.inner(x) + f(x)
        return (lambda: total + f.holder.inner(x) + call.__wrapped__(x))()

    return call


@pytest.mark.parametrize("wrap", [lambda f: f, functools.partial], ids=["function", "partial"])
def test_attributes_of_functions_in_closures_are_followed(wrap):
    @wrap
    def plain(x):
        return double(x)

    plain.inner, plain.holder = double, Holder(inner=double)
    call = reading_attributes(plain)
    for slope in (8.0, 7.0):
        for derivative in (wg.jacobian(call), wg.jacobian(wg.compile(call))):
            for x in (X, 2 * X):
                np.testing.assert_allclose(derivative(x), slope * np.eye(3))
        plain.inner = lambda x: np.copy(x)
    assert call.__wrapped__ is plain


class Dispatcher:
    """A special method that selects a function by the class of its argument."""

    def __init__(self):
        self.functions = {}

    def __get__(self, owner, cls):
        return self if owner is None else functools.partial(self.call, owner)

    def call(self, owner, other):
        found = [f for kind, f in self.functions.items() if isinstance(other, kind)]
        return found[0](owner, other) if found else NotImplemented


class Row:
    __mul__, __rmul__, __matmul__ = Dispatcher(), Dispatcher(), Dispatcher()

    def __init__(self, values):
        self.values = values


Row.__mul__.functions[float] = Row.__rmul__.functions[float] = lambda row, factor: Row(double(row.values * factor))
Row.__matmul__.functions[Row] = lambda row, other: double(row.values * other.values).sum()
ROW = Row(np.array([1.0, 2.0, 3.0]))


def by_dispatched_operators(x):
    return (ROW @ Row(x)) * (Row(x) * x[0] @ ROW) * (2.0 * Row(x) @ Row(x))


def test_special_methods_that_are_descriptors_are_followed():
    square, weighted = np.sum(X**2), X @ ROW.values
    first = np.array([1.0, 0.0, 0.0])
    expected = 64 * (2 * weighted * X[0] * square * ROW.values + weighted**2 * (square * first + 2 * X[0] * X))
    for derivative in (wg.grad(by_dispatched_operators), wg.grad(wg.compile(by_dispatched_operators))):
        np.testing.assert_allclose(derivative(X), expected)
    assert type(vars(Row)["__mul__"]) is Dispatcher


class Missing:
    """Stands for an optional package that is not installed."""

    def __call__(self):
        raise ImportError("it is not installed")

    def __getattribute__(self, name):
        if name == "__class__":
            return Missing
        raise ImportError("it is not installed")


MISSING = Missing()


def with_optional_package(x, fast=False):
    return MISSING(x) if fast else double(x) ** 2


def test_objects_that_raise_for_every_attribute_do_not_stop_following():
    for derivative in (wg.jacobian(with_optional_package), wg.jacobian(wg.compile(with_optional_package))):
        for x in (X, 2 * X):
            np.testing.assert_allclose(derivative(x), np.diag(8 * x))


class Resetting:
    """A descriptor that only acts where its attribute is set."""

    def __set__(self, holder, value):
        vars(holder)["nodes"] = value
        vars(holder)["count"] = len(value)


class Graph:
    nodes = Resetting()

    def __init__(self):
        self.nodes = {}

    def add(self, name, weight):
        if name not in self.nodes:
            self.nodes[name] = double(np.array([weight]))
        self.nodes = self.nodes

    def total(self):
        return sum(self.nodes.values())[0] * self.count


def test_descriptors_without_get_leave_reads_to_the_object():
    given = Graph()

    def f(x):
        made = Graph()
        given.nodes = {}
        for graph in (made, given):
            graph.add("a", x[0])
            graph.add("b", x[1])
        return made.total() * given.total()

    np.testing.assert_allclose(wg.grad(f)(X), 32.0 * (X[0] + X[1]) * np.array([1.0, 1.0, 0.0]))


class Vibration:
    """An object whose property is only set by its own methods."""

    def __init__(self, frequency):
        self.frequency = frequency

    @property
    def frequency(self):
        return self._frequency

    @frequency.setter
    def frequency(self, value):
        self._frequency = np.asarray(value)

    def energy(self, x):
        return self._frequency * x


def test_properties_that_are_only_set_are_compiled():
    compiled = wg.compile(lambda x: np.sum(Vibration(x).energy(x)))
    for x in (X, 2 * X):
        np.testing.assert_allclose(wg.grad(compiled)(x), 2 * x)
        np.testing.assert_allclose(compiled(x), x @ x)
    assert compiled.paths == 1


class Shape(typing.Protocol):
    def value(self): ...


class Cubed(Shape):
    def __init__(self, x):
        self.x = x

    def value(self):
        y = np.zeros(3)
        y[:2] = self.x[1:] ** 3
        return y


def made_from_a_protocol(x):
    return Cubed(x).value() * x


def chosen_by_a_pattern(x):
    match x:
        case [a, b, c]:
            y = np.array([a * b, c, b])
        case np.ndarray():
            y = x * x
    match {"a": x[0], "rest": [x[1], x[2]]}:
        case {"a": float(a), "rest": [b, *others]} if a < b:
            return y * a * b + others[0]


@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("f", [chosen_by_a_pattern, made_from_a_protocol])
def test_patterns_and_protocols_are_those_of_plain_code(f, wrap):
    derivative = wg.jacobian(wrap(f))
    for x in (X, X[[1, 2, 0]]):
        np.testing.assert_allclose(derivative(x), central_differences(f, x), rtol=DIFFERENCES, atol=DIFFERENCES)


current = None


class Current:
    """An object that makes itself the current one, as contexts of models do."""

    rate = 3.0

    def __enter__(self):
        self.former = current
        make_current(self)
        return self

    def __exit__(self, *error):
        make_current(self.former)

    def value(self, x):
        out = np.zeros(2)
        out[:] = self.rate * x
        return out.sum()

    def within(self, x):
        with self:
            return of_current(x)

    def remaining(self, x):
        global current
        current = self if x > -1.0 else None
        return of_current(x)

    def failing(self, x):
        self.remaining(x)
        raise ArithmeticError


def make_current(value):
    global current
    current = value


def of_current(x):
    return current.value(x) * x


def with_function(x):
    global current
    current = as_product
    return current(x)


def as_product(x):
    return np.prod(filled_twice(x)) * 6.0


def filled_twice(x):
    out = np.zeros(2)
    out[:] = x
    return out


context = Current()
ASSIGNING = {
    "with": (context.within, None),
    "remaining": (context.remaining, context),
    "in a function": (lambda x: make_current(context) or of_current(x), context),
    "nested": (lambda x: make_current(context) or wg.grad(of_current)(x) / 2.0 * x, context),
    "failing": (context.failing, context),
    "function": (with_function, as_product),
    "module": (lambda x: make_current(np) or current.sum(x) * x * 6.0, np),
}
DERIVATIVES = {
    "grad": wg.grad,
    "compiled": lambda f: wg.grad(wg.compile(f)),
    "forward": wg.derivative,
    "jvp": lambda f: lambda x: wg.jvp(f, x, 1.0)[1],
    "vjp": lambda f: lambda x: wg.vjp(f, x)[1](1.0),
    "checkpoint": lambda f: wg.grad(wg.checkpoint(f)),
    "nested": lambda f: lambda x: wg.grad(wg.grad(f))(x) * x,
}


@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("name", ASSIGNING)
def test_globals_that_a_function_assigns_hold_the_objects_of_plain_code(name, derivative):
    f, left = ASSIGNING[name]
    make_current(None)
    for _ in range(2):
        with pytest.raises(ArithmeticError) if name == "failing" else contextlib.nullcontext():
            np.testing.assert_allclose(DERIVATIVES[derivative](f)(2.0), 24.0)
        assert current is left
    make_current(None)


def test_taylor_series_and_batches_leave_objects_in_globals():
    make_current(None)
    np.testing.assert_allclose(wg.taylor(context.remaining, 2.0, 1.0, 1)[1], 24.0)
    assert current is context
    make_current(None)
    np.testing.assert_allclose(wg.vmap(context.remaining)(X), 6.0 * X**2)
    assert current is context
    make_current(None)


class Registry(dict):
    """Functions by name, with methods that compute and methods that change the dictionary."""

    weight = 2.0

    def __init__(self):
        super().__init__()
        self.scale, self.order = 1.0, []

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        self.order.append(name)

    def __missing__(self, name):
        self[name] = lambda x: filled_twice(x).sum()
        return self[name]

    def register(self, f):
        self[f.__name__] = f
        return f

    def __call__(self, name, x):
        return filled_twice(self[name](x)).sum() * self.scale * self.weight

    def total(self, x):
        return sum(f(x) for f in self.values()) + sum(len(name) * f(x) for name, f in self.items())

    def facts(self):
        """Return truths that do not depend on whether another object stands for the dictionary."""
        others = copy.copy(self), {**self}, dict(self), self.copy(), self | {}, {} | self
        return [
            self is registry, type(self) is Registry, isinstance(self, dict), len(self) == 2, bool(self),
            "first" in self, [*self] == ["first", "second"], [*self.keys()] == [*reversed([*reversed(self)])],
            self.get("none", 3) == 3, self["first"] is first, self.get("first") is first,
            *[other == self and self == other for other in others], self != {"first": first},
            isinstance(others[0], Registry), json.dumps(self, default=repr) != "{}",
            self.order[:2] == ["first", "second"], inspect.ismethod(self.total),
        ]  # fmt: skip

    def change(self, x):
        rate = self.setdefault("rate", 5.0)
        self.update({"a": 1.0}, b=2.0)
        self |= {"c": 3.0}
        del self["a"]
        total = self.pop("b") + self.pop("none", 4.0) + self.popitem()[1] + self["rate"]
        return filled_twice(x).sum() * rate * total


registry = Registry()


@registry.register
def first(x):
    return np.prod(filled_twice(x))


@registry.register
def second(x):
    return filled_twice(x).sum()


class Attributes(dict):
    """Attributes by methods of `dict`, which are not followed."""

    __getattr__ = dict.__getitem__
    __setattr__ = dict.__setitem__

    def product(self, x):
        self.last = 3.0
        return self.rate * x


class Stages(list):
    """Functions that are called one after the other, with methods that change the list."""

    name = "stages"

    def __call__(self, x):
        for stage in self:
            x = stage(x)
        return filled_twice(x).sum() + self[0](x) + sum(stage(x) for stage in self[1:])

    def facts(self):
        """Return truths that do not depend on whether another object stands for the list."""
        others = copy.copy(self), [*self], list(self), self.copy(), self + [], [] + self, self[:], self * 1
        return [
            self is stages, type(self) is Stages, isinstance(self, list), len(self) == 2, bool(self), first in self,
            self[0] is first, self[-1] is second, [*reversed(self)] == [second, first], self.index(second) == 1,
            self.count(first) == 1, *[other == self and self == other for other in others], self != [first],
            isinstance(others[0], Stages), np.array(self).shape == (2,), next(iter(zip(self)))[0] is first,
        ]  # fmt: skip

    def change(self, x):
        self.append(first)
        self += [second]
        self.insert(0, first)
        self.extend([first])
        self[1:2] = [second]
        del self[-1]
        last = self.pop()
        self.remove(second)
        self.reverse()
        self.name = "changed"
        return last(x) * len(self) + self(x)


stages = Stages([first, second])


class Tables:
    def __init__(self):
        self.table, self.attributes, self.stages = registry, Attributes(rate=2.0), stages

    def value(self, x):
        return self.table("first", x) + self.table.total(x)


holder = Tables()
REGISTRIES = {
    "call": lambda x: registry("first", x),
    "items": lambda x: registry.total(x),
    "attribute": holder.value,
    "missing": lambda x: registry["third"](x) * len(registry.order),
    "changes": lambda x: registry.change(x) * len(registry.order),
    "facts": lambda x: first(x) * (1.0 if all(registry.facts()) else 7.0),
    "list": lambda x: stages(x),
    "list in an attribute": lambda x: holder.stages(x),
    "changes of a list": lambda x: stages.change(x) * len(stages.name),
    "facts of a list": lambda x: first(x) * (1.0 if all(stages.facts()) else 7.0),
    "unbound": lambda x: holder.attributes.product(x) * holder.attributes.last,
}


def restore_registry():
    registry.clear()
    registry.order.clear()
    registry.update(first=first, second=second)
    registry.order += ["first", "second"]
    stages[:], stages.name = [first, second], "stages"


@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", REGISTRIES)
def test_methods_of_dictionaries_and_lists_outside_are_followed(name, wrap):
    f = REGISTRIES[name]
    restore_registry()
    assert all(registry.facts()) and all(stages.facts())
    restore_registry()
    f(2.0)
    expected = [*registry], registry.order[:], stages[:], stages.name
    derivative = wg.derivative(wrap(f))
    for x in (2.0, 3.0):
        restore_registry()
        found = derivative(x)
        if wrap is not wg.compile:
            assert ([*registry], registry.order) == expected[:2]
            assert all(map(operator.is_, stages, expected[2])) and stages.name == expected[3]
        differences = []
        for point in (x + 1e-5, x - 1e-5):
            restore_registry()
            differences.append(f(point))
        np.testing.assert_allclose(found, np.subtract(*differences) / 2e-5, rtol=1e-6)
    restore_registry()
    assert registry["first"] is first and type(registry) is Registry and stages[0] is first


def test_compiled_functions_watch_dictionaries_with_methods():
    restore_registry()
    compiled, eager = wg.grad(wg.compile(lambda x: registry("first", x))), wg.grad(lambda x: registry("first", x))
    for change in (
        lambda: setattr(registry, "scale", 3.0),
        lambda: setattr(Registry, "weight", 5.0),
        lambda: registry.update(first=second),
        lambda: registry.update(first=lambda x: x**3),
    ):
        np.testing.assert_allclose(compiled(2.0), eager(2.0))
        change()
        np.testing.assert_allclose(compiled(2.0), eager(2.0))
    registry.scale, Registry.weight = 1.0, 2.0
    restore_registry()


def switching():
    """Return functions that assign the variables of an enclosing function and read them, and one that resets these."""
    rule = former = filled_twice
    model, table, empty = Current(), np.ones(2), None

    def switch():
        nonlocal rule, model, table, empty
        rule, model, table, empty = as_product, context, np.full(2, 3.0), context

    def reset():
        nonlocal rule, model, table, empty
        rule, model, table, empty = filled_twice, Current(), np.ones(2), None
        model.rate = 7.0

    def called(x):
        switch()
        return rule(x)

    def read(x):
        switch()
        return model.value(x) + empty.value(x)

    def before_and_after(x):
        first = np.sum(rule(x)) * model.value(x)
        switch()
        return first + rule(x) + (0.0 if rule is former else model.value(x))

    def copied(x):
        switch()
        values = table.copy()
        values[0] = x
        return values.sum() * x

    def nested(x):
        def change():
            nonlocal model
            model = context

        change()
        return model.value(x)

    def counted(x):
        count, total = 0, 0.0

        def add(value):
            nonlocal count, total
            count, total = count + 1, total + value
            return count

        return add(x) * x + add(x * x) * total

    functions = called, read, before_and_after, copied, nested, counted
    return {f.__name__: f for f in functions}, reset, lambda: (rule, model, empty)


NONLOCALS, reset_nonlocals, held_by_nonlocals = switching()


@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
@pytest.mark.parametrize("wrap", [lambda f: f, wg.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", NONLOCALS)
def test_variables_that_an_inner_function_assigns_are_current(name, wrap):
    f, derivatives = NONLOCALS[name], [wg.grad(wrap(NONLOCALS[name])), wg.derivative(wrap(NONLOCALS[name]))]
    for x in (1.5, 2.5, 1.5):
        differences = []
        for point in (x + 1e-5, x - 1e-5):
            reset_nonlocals()
            differences.append(f(point))
        objects = [value if value in (as_product, context) else None for value in held_by_nonlocals()]
        for derivative in derivatives:
            reset_nonlocals()
            np.testing.assert_allclose(derivative(x), np.subtract(*differences) / 2e-5, rtol=1e-7)
            assert all(own is None or value is own for value, own in zip(held_by_nonlocals(), objects))
            np.testing.assert_allclose(wg.grad(lambda y, f=f: f(y))(x), wg.grad(f)(x))
