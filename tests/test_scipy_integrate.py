"""Fixed rules of ``scipy.integrate``."""

import numpy as np
import pytest
import scipy.integrate
import scipy.stats
from scipy import integrate
from scipy.integrate import cumulative_simpson, cumulative_trapezoid, fixed_quad, romb, simpson, trapezoid

import wengert as wg
from scipy_cases import check

X = np.array([0.0, 0.1, 0.35, 0.4, 0.8, 1.1, 1.3, 1.9])
Y = np.sin(X) + 0.3
TABLE = np.outer(Y, [1.0, 0.5, 2.0])

CASES = {
    "trapezoid": (lambda y: trapezoid(y), Y),
    "trapezoid of points": (lambda y, x: trapezoid(y, x), Y, X),
    "trapezoid of a list": (lambda y: trapezoid([y[0], y[1], 2.0], dx=0.2), Y),
    "trapezoid along an axis": (lambda y, x: trapezoid(y, x, axis=0), TABLE, X),
    "trapezoid of a spacing": (lambda y, h: trapezoid(y, dx=h), Y, np.array(0.3)),
    "cumulative trapezoid": (lambda y, x: cumulative_trapezoid(y, x, initial=0), Y, X),
    "cumulative trapezoid along an axis": (lambda y: cumulative_trapezoid(y, dx=0.1, axis=0), TABLE),
    "simpson": (lambda y: simpson(y, dx=0.1), Y),
    "simpson with an odd count": (lambda y, x: simpson(y[1:], x=x[1:]), Y, X),
    "simpson with an even count": (lambda y, x: simpson(y, x=x), Y, X),
    "simpson of two points": (lambda y, x: simpson(y[:2], x=x[:2]), Y, X),
    "simpson along an axis": (lambda y: integrate.simpson(y, x=X, axis=0), TABLE),
    "cumulative simpson": (lambda y: cumulative_simpson(y, dx=0.2, initial=0), Y),
    "cumulative simpson of points": (
        lambda y, d: scipy.integrate.cumulative_simpson(y, x=np.cumsum(np.exp(d))),
        Y,
        X,
    ),
    "romb": (lambda y: romb(y[np.r_[0:8, 0]], dx=0.5), Y),
    "fixed_quad": (lambda a: fixed_quad(lambda t: np.exp(-a[0] * t) * t**2, 0.0, 2.0, n=4)[0], np.array([0.7])),
    "fixed_quad in its limits": (lambda a: fixed_quad(lambda t: np.exp(-t), a[0], a[1])[0], np.array([0.2, 1.7])),
    "fixed_quad with arguments": (lambda a: fixed_quad(lambda t, k: np.sin(k * t), 0, 1, args=(a,))[0], np.array(0.7)),
}


@pytest.mark.parametrize("name", CASES)
def test_fixed_rules_have_derivatives(name):
    f, *operands = CASES[name]
    check(f, *operands)


def test_newton_cotes_weights_are_those_of_scipy():
    def f(y):
        weights, _ = integrate.newton_cotes(len(y) - 1, 1)
        return weights @ y

    np.testing.assert_array_equal(wg.grad(f)(Y), scipy.integrate.newton_cotes(7, 1)[0])


def test_quasi_monte_carlo_uses_the_same_points():
    def f(a, seed=3):
        found = integrate.qmc_quad(
            lambda t: np.exp(-a * t[0]), np.zeros(1), np.ones(1), qrng=scipy.stats.qmc.Halton(1, rng=seed)
        )
        return found.integral

    value, slope = wg.value_and_grad(f)(0.7)
    assert value == f(0.7)
    np.testing.assert_allclose(slope, (f(0.7 + 1e-6) - f(0.7 - 1e-6)) / 2e-6, rtol=1e-8)
