"""Python constructs that can hide a derivative: each gives the right one, or an error that says why there is none."""

import collections.abc

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
