"""Functions that solvers call many times: programs with the same bits, and calls that cannot be replayed."""

import warnings

import numpy as np
import pytest

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it

from scipy.integrate import odeint, solve_ivp

import wengert as wg
from wengert.program.specialise.compiled import Compiled
from wengert.scipy import often_called
from wengert.scipy.often_called import OftenCalled

MATRIX = np.random.default_rng(88).normal(size=(12, 12)) / 12
TIMES = np.linspace(0.0, 2.0, 5)


@pytest.fixture(autouse=True)
def soon(monkeypatch):
    """Functions are compiled after three calls."""
    monkeypatch.setattr(often_called, "CALLS", 3)
    monkeypatch.setattr(often_called, "SECONDS", 0.0)


def products(t, y, p):
    return np.tanh(MATRIX @ y) * p[0] - p[1] * np.roll(y, 1) + np.cos(t)


def branches(t, y, p):
    rate = p[0] * np.sin(y) if t < 1.0 else p[0] * np.cos(y)
    return rate - p[1] * y[::-1]


def in_lists(t, y, p):
    return [p[0] * y[(i + 1) % 12] - p[1] * y[i] for i in range(12)]


def reductions(t, y, p):
    return np.concatenate([np.cos(np.sum(y)) * y[6:], p[0] * np.cumsum(y)[:6] / 12]) - p[1] * y


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "LSODA"])
@pytest.mark.parametrize("rate", [products, branches, in_lists, reductions])
def test_solutions_within_derivatives_have_the_bits_of_scipy(rate, method):
    p, y0 = np.array([0.7, 0.3]), np.linspace(0.1, 1.0, 12)
    expected = solve_ivp(rate, (0.0, 2.0), y0, method, TIMES, args=(p,), max_step=0.25)
    found = []

    def f(p):
        solution = wg.scipy.integrate.solve_ivp(rate, (0.0, 2.0), y0, method, TIMES, args=(p,), max_step=0.25)
        found.append(wg.stop_gradient(solution.y))
        return np.sum(solution.y**2)

    wg.grad(f, p)
    assert np.array_equal(found[0], expected.y)


def test_odeint_has_the_bits_of_scipy():
    p, y0 = np.array([0.7, 0.3]), np.linspace(0.1, 1.0, 12)
    found = []

    def f(p):
        y = wg.scipy.integrate.odeint(products, y0, TIMES, args=(p,), tfirst=True)
        found.append(wg.stop_gradient(y))
        return np.sum(y**2)

    wg.grad(f, p)
    assert np.array_equal(found[0], odeint(products, y0, TIMES, args=(p,), tfirst=True))


def test_function_is_compiled_once_it_was_called_for_some_time(monkeypatch):
    calls = []

    def f(x):
        calls.append(x)
        return np.sin(x)

    monkeypatch.setattr(often_called, "SECONDS", 1e9)
    seldom = OftenCalled(np.sin)
    assert [seldom(1.0) for _ in range(9)] == [np.sin(1.0)] * 9 and not hasattr(seldom, "_compiled")
    monkeypatch.setattr(often_called, "SECONDS", 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        often = OftenCalled(f)  # its side effect cannot be replayed
        for i in range(30):
            assert often(float(i)) == np.sin(float(i)) and len(calls) == i + 1


def test_state_that_changes_is_seen():
    scale = [1.0]

    def f(x):
        return scale[0] * x

    often = OftenCalled(f)
    for i in range(20):
        scale[0] = float(i // 5)
        assert often(2.0) == 2.0 * scale[0]


def test_results_that_are_not_finite_warn_as_those_of_the_function():
    often = OftenCalled(lambda x: np.log(x))
    for _ in range(8):
        often(np.ones(3))
    assert hasattr(often, "_compiled")
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert np.array_equal(often(np.array([1.0, 0.0, 1.0])), [0.0, -np.inf, 0.0])


def test_errors_and_watched_calls_keep_the_function():
    def f(x):
        if x > 5.0:
            raise ValueError("no value")
        return 2.0 * x

    often = OftenCalled(f)
    assert [often(float(i)) for i in range(6)] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    with pytest.raises(ValueError, match="no value"):
        often(6.0)
    with np.errstate(divide="raise"):
        watched = OftenCalled(f)
    for _ in range(6):
        watched(1.0)
    assert not hasattr(watched, "_compiled")
    compiled = Compiled(f)
    assert OftenCalled(compiled)._current is compiled
