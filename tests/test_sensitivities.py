"""Sensitivities of all steps at once, against those of the steps one by one."""

import functools

import numpy as np
import pytest
from scipy.integrate import odeint, solve_ivp

import wengert as wg

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it
sensitivities = pytest.importorskip("wengert.scipy.sensitivities")
solve = pytest.importorskip("wengert.scipy.integrate").solve_ivp

TOLERANCES = {"rtol": 1e-6, "atol": 1e-8}


@pytest.fixture
def used(monkeypatch):
    """Whether each integration computed the sensitivities of all steps at once."""
    found, at_times = [], sensitivities.at_times

    def noted(*args):
        result = at_times(*args)
        found.append(result[0] is not None)
        return result

    monkeypatch.setattr(sensitivities, "at_times", noted)
    return found


def predators(t, y, a, b):
    return np.array([a * y[0] - b * y[0] * y[1], b * y[0] * y[1] - 3.0 * y[1]])


def closure(x, method, **options):
    a, b = x[:2]
    return solve_ivp(lambda t, y: predators(t, y, a, b), (0, 4), x[2:], method, **TOLERANCES, **options).y


def arguments(x, method, **options):
    return solve_ivp(predators, (0, 4), x[2:], method, args=(x[0], x[1]), **TOLERANCES, **options).y


def vectorised(x, method, **options):
    def fun(t, y):
        assert y.ndim == 2
        return np.stack([x[0] * y[0] - x[1] * y[0] * y[1], x[1] * y[0] * y[1] - 3.0 * y[1]])

    return solve_ivp(fun, (0, 4), x[2:], method, vectorized=True, **TOLERANCES, **options).y


def one_parameter(x, method, **options):
    return solve_ivp(lambda t, y: predators(t, y, x[0], 1.0), (0, 4), [1.0, 2.0], method, **TOLERANCES, **options).y


def no_parameter(x, method, **options):
    return solve_ivp(predators, (0, 4), x[2:], method, args=(1.5, 1.0), **TOLERANCES, **options).y


def array_of_parameters(x, method, **options):
    def fun(t, y):
        return np.diag(x[:2]) @ y * np.cos(t) + x[2] * y[::-1]

    return solve_ivp(fun, (0, 4), x[2:], method, **TOLERANCES, **options).y


def backwards(x, method, **options):
    return solve_ivp(predators, (4.0, 0.0), x[2:], method, args=(x[0], x[1]), **TOLERANCES, **options).y


def writes_into_state(x, method, **options):
    def fun(t, y):
        y = y.copy()
        y[0] = np.exp(y[0])
        y[1] *= x[0]
        return -x[1] * y

    return solve_ivp(fun, (0, 4), x[2:], method, **TOLERANCES, **options).y


def branches(x, method, **options):
    def fun(t, y):
        return -x[0] * y if t < 1.0 else -x[1] * y

    return solve_ivp(fun, (0, 4), x[2:], method, max_step=0.25, **TOLERANCES, **options).y


def event(x, method, **options):
    def crosses(t, y, *args):
        return y[0] - 1.0

    found = solve_ivp(predators, (0, 4), x[2:], method, args=(x[0], x[1]), events=crosses, **TOLERANCES)
    return np.concatenate([found.t_events[0], found.y_events[0][:, 1]])


def ends(x, method, **options):
    return solve_ivp(predators, (x[0], 4 * x[1]), x[2:], method, args=(x[0], x[1]), **TOLERANCES, **options).y


PROBLEMS = [
    closure,
    arguments,
    vectorised,
    one_parameter,
    no_parameter,
    array_of_parameters,
    backwards,
    writes_into_state,
    branches,
    event,
    ends,
]
X = np.array([1.5, 1.1, 0.9, 2.0])


@pytest.mark.parametrize("differentiate", [wg.jacrev, wg.jacfwd])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "LSODA", "Radau", "BDF"])
def test_all_steps_at_once(method, problem, differentiate, used, monkeypatch):
    found = differentiate(problem, X, args=(method,))
    assert used == [True]
    monkeypatch.setattr(sensitivities, "MIN_STEPS", 10**9)
    expected = differentiate(problem, X, args=(method,))
    assert used == [True, False]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * np.max(np.abs(expected)))


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF"])
def test_times_within_steps(method, used, monkeypatch):
    times = np.unique(np.concatenate([np.linspace(0.0, 4.0, 13), np.linspace(2.0, 2.001, 300)]))
    found = wg.jacobian(lambda x: arguments(x, method, t_eval=times), X)
    monkeypatch.setattr(sensitivities, "MIN_STEPS", 10**9)
    expected = wg.jacobian(lambda x: arguments(x, method, t_eval=times), X)
    assert used[0] and not used[-1]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * np.max(np.abs(expected)))


def test_odeint(used, monkeypatch):
    def final(x):
        return odeint(predators, x[2:], np.linspace(0.0, 4.0, 5), (x[0], x[1]), tfirst=True, **TOLERANCES)

    found = wg.jacobian(final, X)
    monkeypatch.setattr(sensitivities, "MIN_STEPS", 10**9)
    np.testing.assert_allclose(found, wg.jacobian(final, X), rtol=1e-9)
    assert used == [True, False]


def test_higher_derivatives_are_those_of_the_steps(used):
    def final(a, y0):
        return solve_ivp(lambda t, y: -a * y, (0.0, 1.0), [y0], "DOP853", rtol=1e-12, atol=1e-12).y[0, -1]

    a, y0 = 0.7, 1.3
    mixed = wg.grad(lambda a: wg.grad(lambda y0: final(a, y0), y0), a)
    second = wg.hessian(lambda x: final(x[0], x[1]), np.array([a, y0]))
    assert mixed == pytest.approx(-np.exp(-a), rel=1e-9)
    np.testing.assert_allclose(second, np.exp(-a) * np.array([[y0, -1.0], [-1.0, 0.0]]), rtol=1e-9, atol=1e-10)
    assert not any(used)


def counts(x):
    calls = []

    def fun(t, y):
        calls.append(t)
        return -x[0] * y * (1.0 + 1e-3 * np.sin(len(calls)))

    return fun


def draws(x):
    rng = np.random.default_rng(0)
    return lambda t, y: -x[0] * y * (1.0 + 1e-3 * rng.random())


def many_states(x):
    return lambda t, y: -x[0] * y


@pytest.mark.parametrize(
    ("fun", "n"), [(counts, 2), (draws, 2), (many_states, 60)], ids=["reads a counter", "random", "large"]
)
def test_other_right_hand_sides_go_step_by_step(fun, n, used):
    wg.grad(lambda x: np.sum(solve_ivp(fun(x), (0, 4), np.ones(n), "RK45", max_step=0.2).y[:, -1]), np.ones(1))
    assert used == [False]


def test_sensitivities_keep_within_the_memory_limit(used):
    def final(x, memory):
        fun = functools.partial(solve, lambda t, y: -x[0] * y, (0, 4), np.ones(10), memory=memory)
        return np.sum(fun(max_step=0.05).y[:, -1])

    first, second = (wg.grad(final, np.ones(1), args=(memory,)) for memory in ("10kB", "1GB"))
    assert used == [False, True]
    np.testing.assert_allclose(first, second, rtol=1e-12)


def test_values_are_those_of_scipy(used):
    times = np.linspace(0.0, 4.0, 30)
    y, _ = wg.vjp(lambda x: arguments(x, "RK45", t_eval=times), X)
    assert (y == arguments(X, "RK45", t_eval=times)).all()
    assert used == [True]


def test_infinite_sensitivities_go_step_by_step(used):
    def final(x):
        return solve_ivp(lambda t, y: np.sqrt(x[0]) - y, (0, 4), [1.0], "RK45", max_step=0.2).y[0, -1]

    with np.errstate(all="ignore"):
        wg.grad(final, np.zeros(1))
    assert used == [False]
