"""Derivatives of solutions by native integration, compared with those from a replay of steps."""

import functools
import itertools

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
    """For each integration, whether its derivatives came from a native one."""
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


#: largest relative difference of derivatives at these tolerances
ACCURACY = {"RK23": 1e-4, "RK45": 1e-4, "DOP853": 1e-4, "LSODA": 1e-4, "Radau": 1e-4, "BDF": 2e-3}


def replayed(monkeypatch):
    monkeypatch.setattr(sensitivities, "at_times", lambda *args: (None, False))


@pytest.mark.parametrize("differentiate", [wg.jacrev, wg.jacfwd])
@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "LSODA", "Radau", "BDF"])
def test_they_equal_those_from_a_replay(method, problem, differentiate, used, monkeypatch):
    found = differentiate(problem, X, args=(method,))
    assert used[-1]
    replayed(monkeypatch)
    expected = differentiate(problem, X, args=(method,))
    np.testing.assert_allclose(found, expected, rtol=0, atol=ACCURACY[method] * np.max(np.abs(expected)))


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF"])
def test_times_within_steps_have_sensitivities(method, used, monkeypatch):
    times = np.unique(np.concatenate([np.linspace(0.0, 4.0, 13), np.linspace(2.0, 2.001, 300)]))
    found = wg.jacobian(lambda x: arguments(x, method, t_eval=times), X)
    assert all(used)
    replayed(monkeypatch)
    expected = wg.jacobian(lambda x: arguments(x, method, t_eval=times), X)
    np.testing.assert_allclose(found, expected, rtol=0, atol=ACCURACY[method] * np.max(np.abs(expected)))


def test_odeint_has_sensitivities(used, monkeypatch):
    def final(x):
        return odeint(predators, x[2:], np.linspace(0.0, 4.0, 5), (x[0], x[1]), tfirst=True, **TOLERANCES)

    found = wg.jacobian(final, X)
    assert used == [True]
    replayed(monkeypatch)
    np.testing.assert_allclose(found, wg.jacobian(final, X), rtol=1e-4, atol=1e-4)


def test_more_branches_than_are_recorded(used):
    """Each of 20 states decays more slowly from a level of its own on."""
    levels = np.linspace(0.5, 1.5, 20)

    def final(x):
        def fun(t, y):
            return -x[0] * np.array([y[k] if y[k] < level else 2 * y[k] - level for k, level in enumerate(levels)])

        return solve_ivp(fun, (0, 1), np.full(20, 2.0), **TOLERANCES).y[:, -1]

    exact = -np.sqrt(levels * (4.0 - levels)) * np.exp(-1.5)
    np.testing.assert_allclose(wg.jacobian(final, np.array([1.5]))[:, 0], exact, rtol=1e-3)
    assert used == [False]


def test_kinks_of_the_state_are_integrated_natively(used):
    """A mass hits a second spring, with as many branches as there are ways of touching it."""

    def final(x):
        def fun(t, y):
            force = -y[0] - (x[0] * (y[0] - 1.0) if y[0] > 1.0 else 0.0)
            return np.array([y[1], force])

        return solve_ivp(fun, (0, 6.0), [0.0, 2.0], "DOP853", rtol=1e-11, atol=1e-12).y[:, -1]

    found, x = wg.jacobian(final, np.array([3.0])), np.array([3.0])
    difference = (final(x + 1e-4) - final(x - 1e-4)) / 2e-4
    assert used == [True]
    np.testing.assert_allclose(found[:, 0], difference, rtol=1e-4)


def decayed(x, **options):
    return solve_ivp(lambda t, y: -x[0] * y, (0, 1), [x[1]], "DOP853", max_step=0.05, **options).y[0, -1]


def by_one_argument_each(f, x):
    second = wg.derivative(lambda k: f([k, x[1]]), x[0], order=2)
    first = wg.grad(lambda k: wg.grad(lambda y: f([k, y]), x[1]), x[0])
    other = wg.grad(lambda y: wg.grad(lambda k: f([k, y]), x[0]), x[1])
    return np.array([[second, first], [other, 0.0]])


HIGHER = {
    "hessian": wg.hessian,
    "forward over forward": lambda f, x: wg.jacfwd(wg.jacfwd(f), x),
    "forward over reverse": lambda f, x: wg.jacfwd(wg.grad(f), x),
    "reverse over reverse": lambda f, x: wg.jacrev(wg.jacrev(f), x),
    "by one argument each": by_one_argument_each,
}


@pytest.mark.parametrize("derivative", HIGHER)
def test_sensitivities_have_higher_derivatives(derivative, used):
    x = np.array([0.7, 1.3])
    found = HIGHER[derivative](decayed, x)
    expected = np.exp(-x[0]) * np.array([[x[1], -1.0], [-1.0, 0.0]])
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)
    assert all(used)


def counts(x):
    calls = []

    def fun(t, y):
        calls.append(t)
        return -x[0] * y * (1.0 + 1e-6 * np.sin(len(calls)))

    return fun


def draws(x):
    rng = np.random.default_rng(0)
    return lambda t, y: -x[0] * y * (1.0 + 1e-6 * rng.random())


def many_states(x):
    return lambda t, y: -x[0] * y + 0.0 * np.sum(y)  # a dense Jacobian


@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF"])
@pytest.mark.parametrize(
    ("fun", "n"), [(counts, 2), (draws, 2), (many_states, 501)], ids=["reads a counter", "random", "large"]
)
def test_other_right_hand_sides_are_replayed(fun, n, method, used):
    wg.grad(lambda x: np.sum(solve_ivp(fun(x), (0, 4), np.ones(n), method, max_step=0.5).y[:, -1]), np.ones(1))
    assert used == [method == "RK45" and fun is many_states]


def in_a_global(p):
    globals()["hidden"] = p
    return lambda t, y: -hidden * y  # noqa: F821


def in_a_global_and_a_cell(p):
    globals()["hidden"], q = 0.5 * p, 0.5 * p
    return lambda t, y: -(hidden + q) * y  # noqa: F821


def in_an_iterator(p):
    values = itertools.repeat(p)
    return lambda t, y: -next(values) * y


def in_an_array_of_objects(p):
    values = np.empty(3, object)
    values[1] = p
    return lambda t, y: -values[1] * y


def in_a_cache(p):
    cached = functools.lru_cache(lambda key: 1.0 * p)
    return lambda t, y: -cached(1) * y


def in_a_class(p):
    class Settings:
        value = p

    return lambda t, y: -Settings.value * y


def in_a_large_dictionary(p):
    values = {k: p if k == 150 else 0.0 for k in range(200)}
    return lambda t, y: -values[150] * y


HIDDEN = [
    in_a_global,
    in_a_global_and_a_cell,
    in_an_iterator,
    in_an_array_of_objects,
    in_a_cache,
    in_a_class,
    in_a_large_dictionary,
]


@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF"])
@pytest.mark.parametrize("place", HIDDEN)
def test_no_traced_value_is_lost(place, method):
    def final(p):
        return solve_ivp(place(p), (0, 1), [1.0], method, rtol=1e-10, atol=1e-12).y[0, -1]

    for differentiate in (wg.grad, wg.jacfwd):
        assert differentiate(final, 0.7) == pytest.approx(-np.exp(-0.7), rel=1e-6)


def test_values_are_those_of_scipy(used):
    times = np.linspace(0.0, 4.0, 30)
    y, _ = wg.vjp(lambda x: arguments(x, "RK45", t_eval=times), X)
    assert (y == arguments(X, "RK45", t_eval=times)).all()
    assert used == [True]


def test_infinite_sensitivities_raise():
    def final(x):
        return solve_ivp(lambda t, y: np.sqrt(x[0]) - y, (0, 4), [1.0], "RK45", max_step=0.2).y[0, -1]

    with np.errstate(all="ignore"), pytest.raises(wg.ConvergenceError, match=r"the derivative: .* fails at t"):
        wg.grad(final, np.zeros(1))
