"""Python constructs that can hide a derivative: each gives the right one, or an error that says why there is none."""

import collections.abc
import math
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose

import wengert as wg

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
def test_branches_on_floating_point_errors_of_scalars(f):
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
