"""Python constructs that can hide a derivative: each gives the right one, or an error that says why there is none."""

import collections.abc
import contextlib
import itertools
import math
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose

import wengert as wg
from wengert.transforms.bounded import TooLong, bounded

pytestmark = pytest.mark.filterwarnings("error")

POINTS = np.array([0.7, 1.3]), np.array([-0.4, 0.9])


def jacobians(f):
    """Derivatives of f in each mode, and those of the compiled function."""
    return (
        wg.jacobian(f, mode="reverse"),
        wg.jacobian(f, mode="forward"),
        wg.jacobian(wg.compile(f)),
        wg.compile(wg.jacobian(f)),
    )


def differences(f, x, h=1e-6):
    """Jacobian of f at x by central differences."""
    steps = h * np.eye(x.size)
    return np.stack([(f(x + step) - f(x - step)) / (2 * h) for step in steps], -1)


def test_traced_array_is_not_hashable():
    def f(x):
        return x**2 if isinstance(x, collections.abc.Hashable) else x**3

    for jacobian in jacobians(f):
        for x in POINTS:
            assert_allclose(jacobian(x), np.diag(3 * x**2))


def test_traced_scalar_is_hashable():
    def f(x):
        return x**3 if isinstance(x[0], collections.abc.Hashable) else x**2

    for jacobian in jacobians(f):
        for x in POINTS:
            assert_allclose(jacobian(x), np.diag(3 * x**2))


class LastPoint:
    """Keeps the last point and its value; `same` compares two points."""

    def __init__(self, same):
        self.same, self.point = same, None

    def __call__(self, x):
        if self.point is None or not self.same(self.point, x):
            self.point, self.value = x.copy(), x**3
        return self.value


SAME = {
    "array_equal": lambda a, b: np.array_equal(a, b),
    "array_equal, turned": lambda a, b: np.array_equal(b, a),
    "array_equiv": lambda a, b: np.array_equiv(a, b),
    "all": lambda a, b: (a == b).all(),
    "np.all of equal": lambda a, b: np.all(np.equal(a, b)),
    "any": lambda a, b: not np.any(b != a),
    "not_equal": lambda a, b: not np.not_equal(b, a).any(),
    "allclose": lambda a, b: np.allclose(a, b, rtol=1e-12),
    "isclose": lambda a, b: np.isclose(b, a, rtol=1e-12).all(),
}


@pytest.mark.parametrize("same", SAME.values(), ids=SAME)
@pytest.mark.parametrize("k", range(4))
def test_cache_of_last_point_that_a_plain_call_filled_warns(same, k):
    f = LastPoint(same)
    f(POINTS[0])
    with pytest.warns(wg.CachedValueWarning, match=r"test_traps.py:\d+"):
        jacobians(f)[k](POINTS[0])


@pytest.mark.parametrize("same", SAME.values(), ids=SAME)
def test_cache_of_another_point_gives_the_derivative(same):
    f = LastPoint(same)
    f(POINTS[0])
    assert_allclose(wg.jacobian(f)(POINTS[1]), np.diag(3 * POINTS[1] ** 2))


@pytest.mark.parametrize(
    "condition",
    [
        lambda x: (x == 0).all(),
        lambda x: np.array_equal(x, np.zeros(2)),
        lambda x: np.array_equal(x, x.copy()),
        lambda x: np.array_equal(np.sort(x), x),
        lambda x: np.allclose(x, [0.7, 1.3]),
        lambda x: (x[0] == 0.7) & (x[1] == 1.3),
        lambda x: np.array_equal(x.shape, np.array([2])),
        lambda x: np.array_equal(np.sign(x), np.ones(2)),
    ],
)
@pytest.mark.parametrize("k", range(4))
def test_other_comparison_for_equality_does_not_warn(condition, k):
    def f(x):
        return x**3 if condition(x) else 3 * x**3 - 2 * x**3

    for x in (POINTS[0], np.zeros(2)):
        assert_allclose(jacobians(f)[k](x), np.diag(3 * x**2))


LONG, SHORT = np.array([0.7, 1.3]) * (1.0 + 1.0 / 3e5), np.array([0.7, 1.3])


class LastScalar:
    """Keeps the last scalar and its cube; `differs` compares two scalars."""

    def __init__(self, differs):
        self.differs, self.point = differs, None

    def cube(self, a):
        if self.point is None or self.differs(self.point, a):
            self.point, self.value = a, a**3
        return self.value

    def __call__(self, x):
        return self.cube(x[0]) * x[1]


DIFFERS = {
    "!=": lambda a, b: a != b,
    "!=, turned": lambda a, b: b != a,
    "not ==": lambda a, b: not a == b,
    "lists": lambda a, b: [a] != [b],
    "np.not_equal": lambda a, b: np.not_equal(a, b),
    "math.isclose": lambda a, b: not math.isclose(a, b),
    "np.isclose": lambda a, b: not np.isclose(a, b, rtol=1e-12),
    "np.isin": lambda a, b: not np.isin(b, [a, 2.0]),
    "np.isin, turned": lambda a, b: not np.isin(np.array([2.0, a]), b).any(),
}


@pytest.mark.parametrize("differs", DIFFERS.values(), ids=DIFFERS)
@pytest.mark.parametrize("k", range(4))
def test_cache_of_last_scalar_that_a_plain_call_filled_warns(differs, k):
    f = LastScalar(differs)
    f(LONG)
    with pytest.warns(wg.CachedValueWarning, match=r"test_traps.py:\d+"):
        jacobians(f)[k](LONG)


@pytest.mark.parametrize("k", range(4))
@pytest.mark.parametrize("number", [SHORT[0], 298.15, np.pi / 2, 0.1])
def test_scalar_that_equals_a_number_of_a_formula_does_not_warn(number, k):
    def f(x):
        return x**3 if x[0] == number else x**2

    x = np.array([number, 2.0])
    assert_allclose(jacobians(f)[k](x), np.diag(3 * x**2))


ROUNDED = {
    "round": lambda t: round(t, 6),
    "round of float": lambda t: round(float(t), 6),
    "np.round": lambda t: np.round(t, 6),
    "np.around": lambda t: np.around(t, decimals=6),
    "method": lambda t: t.round(6),
    "key of a cache": lambda t: {0.7: 2.0}.get(round(t, 12), 3.0),
}


@pytest.mark.parametrize("rounded", ROUNDED.values(), ids=ROUNDED)
@pytest.mark.parametrize("k", range(4))
def test_rounding_to_decimals_warns_and_gives_the_derivative_of_a_step_function(rounded, k):
    x = POINTS[0]
    with pytest.warns(wg.RoundingWarning, match=r"rounded to (6|12) decimals \(.*test_traps.py:\d+\)"):
        found = jacobians(lambda x: rounded(x[0]) * x)[k](x)
    assert_allclose(found, rounded(x[0]) * np.eye(2))


STEPS = {
    "to integers": np.round,
    "builtin, to integers": round,
    "to tens": lambda t: np.round(t, -1),
    "by a tenth of the value": lambda t: round(t, 1),
    "of a constant": lambda t: round(float(wg.stop_gradient(t)), 3),
    "of a plain value": lambda t: round(0.123456789, 3),
}


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("k", range(4))
def test_rounding_that_belongs_to_a_formula_does_not_warn(step, k):
    x = np.array([0.3456, 1.3])
    assert_allclose(jacobians(lambda x: step(x[0]) * x)[k](x), step(x[0]) * np.eye(2))


def of_raised_errors(x):
    try:
        with np.errstate(all="raise"):
            y = np.sqrt(x[0])
    except FloatingPointError:
        y = x[0] ** 2
    return y * x[1]


def of_warnings_as_errors(x):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            y = np.log(x[0])
        except RuntimeWarning:
            y = x[0] ** 2
    return y * x[1]


def of_recorded_warnings(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = np.arctanh(x[0] + 1.0 - x[0] * x[0] * 2.0)
    return x[0] ** 2 * x[1] if caught else y * x[1]


@pytest.mark.parametrize("f", [of_raised_errors, of_warnings_as_errors, of_recorded_warnings])
def test_code_may_branch_on_floating_point_errors_of_scalars(f):
    for jacobian in jacobians(f):
        for x in (np.array([-0.4, 0.9]), np.array([0.9, 1.3]), np.array([-0.3, 0.8])):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", wg.CompileWarning)
                assert_allclose(jacobian(x), differences(f, x), rtol=1e-7)


class Registry:
    values: dict = {}

    @classmethod
    def stored(cls, name, a):
        cls.values[name] = a**2
        return cls.values[name]


def test_class_that_keeps_values_of_a_plain_call_and_of_derivatives():
    def f(x):
        return Registry.stored("u", x[0]) * Registry.stored("v", x[1])

    f(SHORT)
    for jacobian in jacobians(f):
        for x in (LONG, SHORT, LONG):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", wg.CompileWarning)
                assert_allclose(jacobian(x), 2 * x[0] * x[1] * x[::-1])


class Table:
    """Keeps the sums of cubes of points by a key."""

    def __init__(self, key):
        self.key, self.values = key, {}

    def __call__(self, x):
        key = self.key(x)
        if key not in self.values:
            self.values[key] = x[0] ** 3 + x[1] ** 3
        return self.values[key]


class Near:
    """Two numbers that equal those at a distance below 1e-9."""

    def __init__(self, x):
        self.x = x[0], x[1]

    def __eq__(self, other):
        return all(abs(a - b) < 1e-9 for a, b in zip(self.x, other.x))

    def __hash__(self):
        return 1


#: keys of which no single operation shows that the derivative is lost
KEYS = {
    "int": lambda x: (int(x[0] * 1e6), int(x[1] * 1e6)),
    "round": lambda x: (round(x[0] * 1e6), round(x[1] * 1e6)),
    "math.floor": lambda x: (math.floor(x[0] * 1e6), math.floor(x[1] * 1e6)),
    "math.trunc": lambda x: (math.trunc(x[0] * 2**20), math.trunc(x[1] * 2**20)),
    "floor": lambda x: tuple(np.floor(x * 1e6).astype(int)),
    "rint": lambda x: tuple(np.rint(x * 1e6).astype(np.int64).tolist()),
    "bytes of integers": lambda x: (x * 1e6).astype(np.int64).tobytes(),
    "floor division": lambda x: (x[0] // 1e-6, x[1] // 1e-6),
    "divmod": lambda x: (divmod(x[0], 1e-6)[0], divmod(x[1], 1e-6)[0]),
    "digitised": lambda x: tuple(np.digitize(x, np.linspace(0.0, 2.0, 2_000_001)).tolist()),
    "range": lambda x: range(int(x[0] * 1e6), int(x[1] * 1e6)),
    "complex": lambda x: complex(round(x[0] * 1e6), round(x[1] * 1e6)),
    "f-string": lambda x: f"{x[0]:.6f} {x[1]:.6f}",
    "percent": lambda x: "%.7g %.7g" % (x[0], x[1]),  # noqa: UP031
    "format": lambda x: format(x[0], ".6e") + format(x[1], ".6e"),
    "str.format": lambda x: "{:.6f} {:.6f}".format(*x),
    "tolerance": Near,
}


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
@pytest.mark.parametrize("k", range(4))
def test_cache_with_a_discrete_key_that_a_plain_call_filled_warns(key, k):
    f = Table(key)
    f(POINTS[0])
    with pytest.warns(wg.CachedValueWarning, match=r"returns a value without derivative, .*empty the cache"):
        jacobians(f)[k](POINTS[0])


@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_cache_with_a_discrete_key_gives_the_derivative_or_refuses(key):
    f = Table(key)
    f(POINTS[0])
    assert_allclose(wg.jacobian(f)(POINTS[1]), 3 * POINTS[1] ** 2)
    with pytest.raises(wg.errors.LevelError):
        wg.jacobian(f)(POINTS[1])


class LastResult:
    """Keeps the last point and its sum of cubes, as attributes of the object or of the class."""

    def __init__(self, same, place=None):
        self.same, self.place = same, place or self
        self.place.point = None

    def __call__(self, x):
        if self.place.point is None or not self.same(x, self.place.point):
            self.place.point, self.place.value = x.copy(), x[0] ** 3 + x[1] ** 3
        return self.place.value


CLOSE = {
    "norm": lambda x, y: np.linalg.norm(x - y) < 1e-9,
    "largest": lambda x, y: max(abs(x - y)) < 1e-9,
    "sum of squares": lambda x, y: sum((a - b) ** 2 for a, b in zip(x, y)) < 1e-18,
    "ratio": lambda x, y: np.max(abs(x / y - 1.0)) < 1e-9,
    "each": lambda x, y: abs(x[0] - y[0]) < 1e-9 and abs(x[1] - y[1]) < 1e-9,
    "sides": lambda x, y: bool(np.all(x > y - 1e-9) and np.all(x < y + 1e-9)),
    "math.isclose": lambda x, y: math.isclose(x[0], y[0]) and math.isclose(x[1], y[1]),
    "integers": lambda x, y: bool(((x * 1e6).astype(int) == (y * 1e6).astype(int)).all()),
    "differences of text": lambda x, y: f"{x[0]:.6f}" == f"{y[0]:.6f}" and f"{x[1]:.6f}" == f"{y[1]:.6f}",
}


@pytest.mark.parametrize("close", CLOSE.values(), ids=CLOSE)
@pytest.mark.parametrize("of_class", [False, True])
@pytest.mark.parametrize("k", range(4))
def test_last_result_within_a_tolerance_warns(close, of_class, k):
    f = LastResult(close, type("Place", (), {}) if of_class else None)
    f(POINTS[0] * (1.0 + 1e-13))
    with pytest.warns(wg.CachedValueWarning):
        jacobians(f)[k](POINTS[0])


def test_results_that_lost_their_derivative_in_part_warn():
    f, g = Table(KEYS["int"]), Table(KEYS["int"])
    f(POINTS[0])
    for h in (lambda x: [f(x), g(x)], lambda x: {"f": f(x), "g": g(x)}, lambda x: (x[0], f(x))):
        with pytest.warns(wg.CachedValueWarning):
            wg.jacobian(h)(POINTS[0])
        g.values.clear()
    with pytest.warns(wg.CachedValueWarning):
        wg.hessian(f)(POINTS[0])
    with pytest.warns(wg.CachedValueWarning):
        wg.jvp(f, POINTS[0], np.ones(2))
    with pytest.warns(wg.CachedValueWarning):
        wg.grad(lambda x: (f(x), None), has_aux=True)(POINTS[0])
    with pytest.warns(wg.CachedValueWarning):
        wg.grad(lambda a, b: f([a, b]), argnums=(0, 1))(0.7, 1.3)
    with pytest.warns(wg.CachedValueWarning):
        wg.grad(lambda x: f(x["a"]))({"a": POINTS[0]})


def in_passive_block(x):
    with wg.passive():
        y = x[0] ** 3 + x[1] ** 3
    return float(y)


RANDOM = np.random.default_rng(0)

CONSTANT = {
    "constant": lambda x: 1.5,
    "signs": lambda x: np.sum(np.sign(x)) + 0.5,
    "floor": lambda x: np.floor(x[0] * 1e9),
    "count": lambda x: float(int(x[0] * 1e9)),
    "hinge": lambda x: max(0.0, x[0] - 0.7),
    "clipped": lambda x: np.clip(x, 0.0, 0.7)[1] if x[1] < 0.7 else 0.7,
    "step": lambda x: 2.5 if x[0] > 0.69999 else 3.5,
    "stopped": lambda x: wg.stop_gradient(x[0] ** 3 + x[1] ** 3),
    "passive": in_passive_block,
    "random": lambda x: RANDOM.normal(),
    "raises elsewhere": lambda x: {0.7: 1.25}[float(wg.stop_gradient(x[0]))],
}


@pytest.mark.parametrize("f", CONSTANT.values(), ids=CONSTANT)
@pytest.mark.parametrize("k", range(2))
def test_result_that_is_constant_by_intention_does_not_warn(f, k):
    for _ in range(10):
        assert not jacobians(f)[k](POINTS[0]).any()


@pytest.mark.parametrize("options", [{}, {"mode": "forward"}], ids=["reverse", "forward"])
def test_check_of_a_constant_result_leaves_other_arguments_alone(options):
    def f(x, calls):
        calls[0] += 1.0
        return 3.0 * calls.size

    calls = np.zeros(2)
    with pytest.warns(wg.errors.MutatedInputWarning):
        assert wg.jacobian(f, **options)(1.5, calls) == 0.0
    assert not calls.any()


def waiting(x):
    """Wait for one point, as code does that iterates until a cached residual is zero."""
    while x != 0.5:
        pass
    return 2.0


def catching(x):
    while x != 0.5:
        with contextlib.suppress(Exception):
            x = x + 0.0 * math.sin(x)
    return 2.0


def searching(x):
    return 2.0 if x == 0.5 else next(each for each in itertools.count() if each == x)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no sys.monitoring")
@pytest.mark.parametrize("f", [waiting, catching, searching])
def test_check_of_a_constant_result_ends_if_the_function_does_not_end_nearby(f):
    for _ in range(2):
        assert wg.grad(f)(0.5) == 0.0
    assert sys.monitoring.get_tool(4) is None
    with pytest.raises(TooLong), bounded(100):
        f(0.25)
    with bounded(100):
        assert f(0.5) == 2.0


def sleeping():
    for _ in range(1000):
        time.sleep(0.0)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no sys.monitoring")
def test_slow_code_is_bounded_by_its_time():
    with pytest.raises(TooLong), bounded(seconds=0.0):
        sleeping()


@pytest.mark.skipif(sys.version_info < (3, 12), reason="no sys.monitoring")
def test_other_threads_and_tools_are_not_bounded():
    def counting():
        return sum(k for k in range(1000))

    with bounded(100), ThreadPoolExecutor(1) as pool:
        assert pool.submit(counting).result() == 499500
    with pytest.raises(TooLong), bounded(), bounded(100):
        counting()
    with bounded(), bounded(), bounded(100):
        assert counting() == 499500  # no tool is left
