"""Differential equations within programs: solutions and derivatives against closed forms, SciPy and eager mode."""

import pickle
import threading
import warnings

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import ODEintWarning, odeint, solve_ivp

import wengert as wg
from wengert.program.integration import shared, sweeps
from wengert.program.integration.calls import Integration
from wengert.program.ir import reference
from wengert.program.memo import memoised

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it

METHODS = ["RK23", "RK45", "DOP853", "Radau", "BDF"]
TIGHT = {"rtol": 1e-9, "atol": 1e-11}


def error(found, exact):
    return np.max(np.abs(np.asarray(found) - np.asarray(exact))) / np.max(np.abs(exact))


def integrates(program):
    """Return whether a program integrates without Python."""
    return any(isinstance(call.compute, Integration) for call in program._listing.calls)


# ---- linear equations, y = expm(A t) y0


def oscillator(x):
    """Matrix of a damped oscillator, from two rates."""
    return np.array([[0.0, 1.0], [-x[0], -x[1]]])


def linear(x, method, times, **options):
    """Weighted states at times, in rates (2) and initial state (2)."""
    A = oscillator(x)
    found = solve_ivp(lambda t, y: A @ y, (0.0, 3.0), x[2:], method, times, **(TIGHT | options))
    return np.ravel(found.y) * np.arange(1.0, 1.0 + found.y.size)


TIMES = np.array([0.5, 1.7, 3.0])
X = np.array([2.0, 0.3, 1.0, -0.5])


def exact(x, times=TIMES):
    y = np.stack([scipy.linalg.expm(oscillator(x) * t) @ x[2:] for t in times], axis=1)
    return np.ravel(y) * np.arange(1.0, 1.0 + y.size)


def exact_jacobian(x, times=TIMES):
    return np.stack([np.imag(exact(x + 1e-30j * e, times)) / 1e-30 for e in np.eye(4)], axis=1)


@pytest.mark.parametrize("method", METHODS)
def test_solution_and_jacobian_equal_exact_ones(method):
    program = wg.record(lambda x: linear(x, method, TIMES), X)
    assert integrates(program)
    limit = 1e-6 if method == "BDF" else 2e-8
    for x in (X, X * [1.1, 0.8, 1.2, 1.0]):
        assert error(program(x), exact(x)) < limit
        assert error(program.jacobian()(x), exact_jacobian(x)) < 10 * limit


@pytest.mark.parametrize("tier", ["vm", "llvm"])
@pytest.mark.parametrize("method", METHODS)
def test_modes_and_orders_are_those_of_eager_mode(method, tier):
    if tier == "llvm":
        pytest.importorskip("llvmlite")

    def loss(x):
        return np.sum(linear(x, method, TIMES) ** 2)

    program = wg.record(loss, X).tiered(tier)
    v = np.array([0.3, -1.0, 0.5, 2.0])
    gradient, hessian = wg.grad(loss, X), wg.hessian(loss, X)
    assert error(program.grad()(X), gradient) < 1e-8
    assert error(program.jvp()(X, v)[1], gradient @ v) < 1e-7
    assert error(program.hessian()(X), hessian) < 1e-7
    assert error(program.hvp()(X, v), hessian @ v) < 1e-7
    assert error(wg.record(wg.jacrev(wg.grad(loss)), X)(X), hessian) < 1e-7


@pytest.mark.parametrize("method", METHODS)
def test_third_derivative_equals_difference(method):
    def along(s):
        return np.sum(linear(s * X, method, TIMES) ** 2)

    third = wg.record(wg.grad(wg.grad(wg.grad(along))), 1.0)
    second = wg.record(wg.grad(wg.grad(along)), 1.0)
    difference = (second(1.0 + 1e-3) - second(1.0 - 1e-3)) / 2e-3
    assert error(third(1.0), difference) < 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_steps_are_those_of_scipy(method):
    """With the exact Jacobian SciPy's implicit methods take the same steps too, so results agree to rounding."""
    options = {"rtol": 1e-5, "atol": 1e-8}

    def rate(t, y):
        return np.array([y[1] + 0.1 * np.sin(t), 5.0 * (1 - y[0] ** 2) * y[1] - y[0]])

    def slopes(t, y):
        return np.array([[0.0, 1.0], [-10.0 * y[0] * y[1] - 1.0, 5.0 * (1 - y[0] ** 2)]])

    def solution(scale, **more):
        return solve_ivp(rate, (0.0, 12.0), [2.0 * scale, 0.0], method, np.linspace(0, 12, 9), **options, **more).y

    jac = {"jac": slopes} if method in ("Radau", "BDF") else {}
    program = wg.record(solution, 1.0)
    assert integrates(program)
    assert error(program(1.01), solution(1.01, **jac)) < 1e-8


MATRICES = np.array([[[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])


def inside(x, method):
    rate = lambda t, y: -1j * (np.tensordot(x[:3], MATRICES, 1) @ y)
    return solve_ivp(rate, (0.0, 2.0), [1.0 + 0j, 0.0], method, [1.1, 2.0], **TIGHT).y


def outside(x, method):
    matrix, start = np.tensordot(x[:3], MATRICES, 1), np.array([1.0, 0.0]) * np.exp(1j * x[3])
    return solve_ivp(lambda t, y: -1j * np.dot(matrix, y), (0.0, 2.0), start, method, [1.1, 2.0], **TIGHT).y


@pytest.mark.parametrize("method", ["RK45", "DOP853", "BDF"])
@pytest.mark.parametrize("system", [inside, outside])
def test_complex_states_are_integrated_in_programs(system, method):
    """A spin in a field x: the amplitude of the other state is -i (x + i y) / |x| sin(|x| t)."""

    def observed(x):
        y = system(x, method)
        return np.array([np.abs(y[1, 0]) ** 2, np.abs(y[1, 1]) ** 2, np.real(y[0, 1]), np.imag(y[1, 1])])

    def exact(x):
        size, (t, last) = np.sqrt(np.sum(x[:3] ** 2)), (1.1, 2.0)
        phase = x[3] if system is outside else 0.0 * x[3]
        there = (x[0] ** 2 + x[1] ** 2) / size**2
        a, b = np.cos(size * last), -x[2] / size * np.sin(size * last)
        c, d = x[1] / size * np.sin(size * last), -x[0] / size * np.sin(size * last)
        return np.array([
            there * np.sin(size * t) ** 2, there * np.sin(size * last) ** 2,
            a * np.cos(phase) - b * np.sin(phase), c * np.sin(phase) + d * np.cos(phase),
        ])  # fmt: skip

    x = np.array([0.4, 0.9, -0.5, 0.3])
    expected, limit = wg.jacobian(exact, x), 1e-5 if method == "BDF" else 1e-7
    program = wg.record(observed, x)
    assert integrates(program)
    assert error(program(x), exact(x)) < limit
    assert error(program.jacobian()(x), expected) < limit
    assert error(wg.jacfwd(observed, x), expected) < limit
    assert error(wg.jacrev(observed, x), expected) < limit
    compiled = wg.compile(wg.jacobian(observed))
    assert error(compiled(x), expected) < limit
    weights = np.array([1.0, -2.0, 0.5, 3.0])
    hessian = wg.hessian(lambda x: weights @ exact(x), x)
    assert error(wg.hessian(lambda x: weights @ observed(x), x), hessian) < 10 * limit


@pytest.mark.parametrize("k", [2.0, 2e4], ids=["not stiff", "stiff"])
@pytest.mark.parametrize("solver", ["solve_ivp", "odeint", "odeint(tfirst=True)"])
def test_lsoda_is_integrated_in_programs(solver, k):
    """A state follows the cosine at a rate k: y' = k (cos(w t) - y) - sin(t)."""
    times = np.array([0.2, 0.5, 2.0])

    def slope(t, y, w):
        return k * (np.cos(w * t) - y) - w * np.sin(w * t)

    def solution(x):
        if solver == "solve_ivp":
            return solve_ivp(slope, (0.0, 2.0), x[1:], "LSODA", times, args=(x[0],), **TIGHT).y[0]
        every = np.array([0.0, *times])
        if solver == "odeint":
            return odeint(lambda y, t: slope(t, y, x[0]), x[1:], every, mxstep=10_000, **TIGHT)[1:, 0]
        return odeint(slope, x[1:], every, (x[0],), tfirst=True, **TIGHT)[1:, 0]

    def exact(x):
        return np.cos(x[0] * times) + (x[1] - 1.0) * np.exp(-k * times)

    x = np.array([1.5, 1.2])
    program = wg.record(solution, x)
    assert integrates(program)
    np.testing.assert_allclose(program(x), solution(x), rtol=1e-7, atol=1e-9)
    jacobian = wg.jacobian(exact, x)
    assert error(program.jacobian()(x), jacobian) < 1e-7
    assert error(wg.jacobian(solution, x), jacobian) < 1e-7
    again = pickle.loads(pickle.dumps(program))
    assert error(again.vjp()(x, np.ones(3))[1], np.ones(3) @ jacobian) < 1e-7


@pytest.mark.parametrize("k", [2.0, 2e4], ids=["not stiff", "stiff"])
def test_odeint_accepts_a_jacobian_in_programs(k):
    """Of y' = -k (y - cos(t)) with a slow second state, by the Jacobian of the program in place of the given one."""

    def final(x):
        def rate(y, t):
            return [-x[0] * (y[0] - np.cos(t)), -x[1] * y[1]]

        def matrix(y, t):
            return [[-x[0], 0.0], [0.0, -x[1]]]

        return odeint(rate, [1.0, 1.0], [0.0, 1.0, 3.0], Dfun=matrix, rtol=1e-9, atol=1e-11)[-1]

    x = np.array([k, 0.7])
    compiled = wg.compile(final)
    assert error(compiled(x), final(x)) < 1e-7
    assert compiled.paths == 1
    assert error(wg.compile(wg.jacobian(final))(x)[1], [0.0, -3.0 * np.exp(-2.1)]) < 1e-7


def test_lsoda_that_fails():
    compiled = wg.compile(lambda x: odeint(lambda y, t: x * y**2, [1.0], [0.0, 2.0])[-1, 0])
    assert compiled(0.1) == pytest.approx(1.25, rel=1e-6)
    with pytest.warns(ODEintWarning):
        compiled(1.0)


# ---- events of an oscillator, y = a cos(w t)


def level(t, y, w, a, height):
    return y[0] - height


def falling(t, y, w, a, height):
    return y[0] - height


def second_return(t, y, w, a, height):
    return y[1]


falling.direction, second_return.terminal = -1, 3


def swing(x, method, events, times=None):
    """Solution of an oscillator, as a function of frequency, amplitude, and the height at which events happen."""
    return solve_ivp(
        lambda t, y, w, a, height: np.array([y[1], -w**2 * y[0]]), (0.1, 20.0),
        [x[1] * np.cos(0.1 * x[0]), -x[0] * x[1] * np.sin(0.1 * x[0])], method, times, events=events, args=tuple(x),
        **TIGHT,
    )  # fmt: skip


def crossings(x, count):
    """Times at which y passes a height."""
    w, a, height = x
    phase = np.arccos(height / a)
    return np.stack([phase + k // 2 * 2 * np.pi if k % 2 == 0 else (k // 2 + 1) * 2 * np.pi - phase
                     for k in range(count)]) / w  # fmt: skip


def all_events(x, method):
    found = swing(x, method, [level, falling])
    speeds = [y[:, 1] for y in found.y_events]
    return np.concatenate([*found.t_events, *speeds])


def all_events_exact(x):
    times = crossings(x, 8)
    every = np.concatenate([times, times[::2]])
    return np.concatenate([every, -x[0] * x[1] * np.sin(x[0] * every)])


def last_event(x, method):
    found = swing(x, method, second_return)
    assert found.status == 1
    return np.stack([found.t[-1], *found.y[:, -1], found.t_events[0][1]])


def last_event_exact(x):
    w, a, _ = x
    return np.stack([3 * np.pi / w, -a + 0 * w, 0 * w, 2 * np.pi / w])


def up_to_event(x, method):
    found = swing(x, method, second_return, np.linspace(0.5, 19.5, 39))
    assert found.y.shape[1] < 39
    return found.y[0]


def up_to_event_exact(x):
    times = np.linspace(0.5, 19.5, 39)
    return x[1] * np.cos(x[0] * times[times < 3 * np.pi / 1.3])


EVENTS = [(all_events, all_events_exact), (last_event, last_event_exact), (up_to_event, up_to_event_exact)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("f", "exact"), EVENTS)
def test_events_are_found_in_programs(f, exact, method):
    x, limit = np.array([1.3, 2.0, 0.7]), 1e-4 if method == "BDF" else 1e-6
    program = wg.record(lambda x: f(x, method), x)
    assert integrates(program)
    for at in (x, x * [1.001, 1.01, 0.95]):
        expected = wg.jacobian(exact, at)
        assert error(program(at), exact(at)) < limit
        assert error(program.jacobian()(at), expected) < limit
        ones = np.ones(len(expected))
        assert error(pickle.loads(pickle.dumps(program)).vjp()(at, ones)[1], ones @ expected) < limit
    assert error(program(x), f(x, method)) < limit


def test_other_events_than_recorded():
    """There are fewer with a low frequency; at the amplitude the height is only touched."""

    def sums(x):
        found = swing(x, "DOP853", level)
        return np.sum(found.t_events[0]) + np.sum(found.y_events[0][:, 1])

    compiled = wg.compile(wg.grad(sums))
    for w in (1.3, 0.9, 1.3):
        x = np.array([w, 2.0, 0.7])
        count = len(swing(x, "DOP853", level).t_events[0])

        def exact(x, count=count):
            times = crossings(x, count)
            return np.sum(times) - np.sum(x[0] * x[1] * np.sin(x[0] * times))

        assert error(compiled(x), wg.grad(exact, x)) < 1e-6
    with pytest.raises(wg.NonSmoothError, match="only touches zero"):
        wg.compile(wg.grad(lambda x: solve_ivp(
            lambda t, y: -y, (0.0, 2.0), [x], events=lambda t, y: (t - 1.0) ** 3 + 1e-9 * (t - 1.0)
        ).t_events[0][0]))(1.0)  # fmt: skip


@pytest.mark.parametrize("method", METHODS)
def test_events_have_second_derivatives(method):
    x, weights = np.array([1.3, 2.0, 0.7]), np.array([1.0, -2.0, 0.5, 3.0])
    program = wg.record(lambda x: weights @ last_event(x, method), x)
    exact = wg.hessian(lambda x: weights @ last_event_exact(x), x)
    limit = 1e-3 if method == "BDF" else 1e-6
    assert error(program.hessian()(x), exact) < limit
    assert error(program.grad().jacobian()(x), exact) < limit
    assert error(program.hvp()(x, x), exact @ x) < limit


@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
def test_bounces_have_second_derivatives():
    """Each integration starts at the time of the impact before."""

    def last(p):
        t, y = 0.0, np.stack([p[2], 0.0 * p[2]])
        for _ in range(3):
            found = solve_ivp(lambda t, y: np.stack([y[1], -p[0]]), (t, t + 5.0), y, events=impact, **TIGHT)
            t, y = found.t[-1], np.stack([0.0 * p[0], -p[1] * found.y[1, -1]])
        return t

    p = np.array([9.81, 0.8, 1.0])
    program = wg.record(last, p)
    exact = wg.hessian(lambda p: np.sqrt(2 * p[2] / p[0]) * (1 + 2 * p[1] + 2 * p[1] ** 2), p)
    assert integrates(program)
    assert error(program.hessian()(p), exact) < 1e-9
    third = wg.compile(wg.jacobian(wg.hessian(last)))
    assert error(third(p)[0, 0, 0], -1.875 * last(p) / p[0] ** 3) < 1e-6  # it runs eagerly


def impact(t, y):
    return y[0]


impact.terminal, impact.direction = True, -1


# ---- times


@pytest.mark.parametrize("span", [(0.3, 2.0), (2.0, 0.3)], ids=["forward", "backward"])
@pytest.mark.parametrize("method", METHODS)
def test_times_have_derivatives(method, span):
    """In the ends of the interval and the output times, of y' = -k y."""
    fractions = np.array([0.25, 0.6, 1.0])

    def solution(x):
        times = x[0] + fractions * (x[1] - x[0])
        return solve_ivp(lambda t, y: -x[2] * y, (x[0], x[1]), [x[3]], method, times, **TIGHT).y[0]

    def closed(x):
        return x[3] * np.exp(-x[2] * fractions * (x[1] - x[0]))

    x = np.array([*span, 0.7, 1.3])
    program = wg.record(solution, x)
    assert integrates(program)
    assert error(program.jacobian()(x), wg.jacobian(closed, x)) < 1e-5
    gradient = wg.record(lambda x: np.sum(solution(x) ** 2), x).grad()
    assert error(gradient(x), wg.grad(lambda x: np.sum(closed(x) ** 2), x)) < 1e-5
    hessian = wg.record(lambda x: np.sum(solution(x) ** 2), x).hessian()
    assert error(hessian(x), wg.hessian(lambda x: np.sum(closed(x) ** 2), x)) < 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_second_derivatives_in_the_start_of_equations_that_depend_on_the_time(method):
    """Of y' = k t y."""

    def final(x):
        return solve_ivp(lambda t, y: x[2] * t * y, (x[0], x[1]), [x[3]], method, x[1:2], **TIGHT).y[0, -1]

    x = np.array([0.5, 1.4, 0.7, 1.3])
    program = wg.record(final, x)
    assert integrates(program)
    exact = wg.hessian(lambda x: x[3] * np.exp(0.5 * x[2] * (x[1] ** 2 - x[0] ** 2)), x)
    assert error(program.hessian()(x), exact) < 2e-5


def test_second_derivatives_at_the_end():
    def final(x):
        return solve_ivp(lambda t, y: -x[0] * y, (0.0, x[1]), [1.0], **TIGHT).y[0, -1]

    x = np.array([0.7, 1.3])
    program = wg.record(final, x)
    exact = wg.hessian(lambda x: np.exp(-x[0] * x[1]), x)
    assert error([program.hessian()(x), wg.compile(wg.hessian(final))(x)], [exact, exact]) < 1e-6


@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
def test_second_derivatives_in_many_output_times_run_eagerly():
    fractions = np.linspace(0.05, 1.0, 20)

    def loss(x):
        return np.sum(solve_ivp(lambda t, y: -x[0] * y, (0.0, x[1]), [1.0], t_eval=x[1] * fractions, **TIGHT).y)

    x = np.array([0.7, 1.3])
    assert error(wg.record(loss, x).grad()(x), wg.grad(loss, x)) < 1e-9
    exact = wg.hessian(lambda x: np.sum(np.exp(-x[0] * x[1] * fractions)), x)
    assert error(wg.compile(wg.hessian(loss))(x), exact) < 1e-6


LAST = {
    "y[:, -1]": lambda s: s.y[:, -1] @ np.array([1.0, 2.0]),
    "y[0, -1]": lambda s: s.y[0, -1],
    "y[0][-1]": lambda s: s.y[0][-1],
    "y[..., -1]": lambda s: np.sum(s.y[..., -1]),
    "y.T[-1]": lambda s: s.y.T[-1] @ np.array([1.0, 2.0]),
    "y.T[-1, 1]": lambda s: s.y.T[-1, 1],
    "y[1:, -1]": lambda s: np.sum(s.y[1:, -1]),
    "rows": lambda s: sum(row[-1] for row in s.y),
    "t[-1]": lambda s: s.t[-1] * s.y[0, -1],
}
OTHER_STEPS = {
    "all": lambda s: np.sum(s.y),
    "the last but one": lambda s: s.y[0, -2],
    "their number": lambda s: s.y.shape[1] * s.y[0, -1],
    "len": lambda s: len(s.t) * s.y[0, -1],
    "conversion": lambda s: np.asarray(s.y)[0, -1],
    "a slice": lambda s: np.sum(s.y[:, -2:]),
    "first": lambda s: s.y[0, 0] * s.y[0, -1],
}


def without_times(x):
    return solve_ivp(lambda t, y: np.array([y[1], -x[0] * y[0]]), (0.0, x[1]), [1.0, 0.5], **TIGHT)


@pytest.mark.parametrize("read", LAST)
def test_the_last_state_is_read_without_times_of_output(read):
    f, x = lambda x: LAST[read](without_times(x)), np.array([1.3, 2.0])
    program = wg.record(f, x)
    assert integrates(program)
    assert error(program(x), f(x)) < 1e-10
    assert error(program.grad()(x), wg.grad(f, x)) < 1e-8


@pytest.mark.parametrize("read", OTHER_STEPS)
def test_other_steps_are_not_in_programs(read):
    f, x = lambda x: OTHER_STEPS[read](without_times(x)), np.array([1.3, 2.0])
    with pytest.raises(wg.TracedValueError, match=r"pass t_eval, or read only the last state, y\[:, -1\]"):
        wg.record(f, x)
    compiled = wg.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wg.CompileWarning)
        assert compiled(x) == f(x) == compiled(x)


# ---- right-hand sides

MATRIX = np.array([[-0.5, 0.2, 0.0], [0.1, -0.3, 0.4], [0.2, 0.0, -0.6]])
KNOTS = np.linspace(0.0, 2.0, 6)


def in_place(t, y, p):
    found = np.zeros(3)
    for i in range(3):
        found[i] = -p[0] * y[i] + (y[i - 1] if i else 0.0)
    return found


RATES = {
    "list": lambda t, y, p: [y[1], -p[0] * y[0], p[1] * y[2]],
    "matrix": lambda t, y, p: (MATRIX * p[0]) @ y,
    "in place": in_place,
    "math": lambda t, y, p: np.array([np.sin(t * p[0]), np.exp(-y[0]), -y[2] ** 2]),
    "interpolated": lambda t, y, p: np.interp(t, KNOTS, np.cos(KNOTS) * p[0]) - y,
    "solve": lambda t, y, p: np.linalg.solve(np.eye(3) + p[0] * MATRIX, -y),
    "norm": lambda t, y, p: -p[0] * y / (1 + np.linalg.norm(y)),
    "kink": lambda t, y, p: np.maximum(y - p[0], 0.0) - y,
    "sum": lambda t, y, p: -y * np.sum(y) * p[0] + np.mean(p),
    "scalar": lambda t, y, p: -p[0] * y,
    "constant": lambda t, y, p: p * np.ones(3),
}


@pytest.mark.parametrize("method", ["RK45", "Radau"])
@pytest.mark.parametrize("rate", RATES)
def test_right_hand_sides_of_every_form_are_recorded(rate, method):
    def loss(p):
        return np.sum(solve_ivp(RATES[rate], (0.0, 2.0), [0.9, 0.4, 0.7], method, [1.0, 2.0], args=(p,)).y ** 2)

    p = np.array([0.8])
    p = np.array([0.8, 0.5]) if rate in ("list", "sum") else p
    program = wg.record(loss, p)
    assert integrates(program)
    assert error(program(p), loss(p)) < 1e-5
    assert error(program.grad()(p), wg.grad(loss, p)) < (1e-6 if method == "RK45" else 1e-3)


JUMPS = {
    "where": lambda t, y, p: np.where(t < p[0], y, -y),
    "comparison": lambda t, y, p: -y * (t > p[0]),
    "heaviside": lambda t, y, p: np.heaviside(t - p[0], 1.0) - y,
    "remainder": lambda t, y, p: -y * np.mod(t, p[0]),
    "floor": lambda t, y, p: -y * np.floor(t + p[0]),
    "sign": lambda t, y, p: -y * np.sign(t - p[0]),
    "arctan2": lambda t, y, p: -y * np.arctan2(np.sin(t - p[0]), -1.0),
    "branch": lambda t, y, p: -p[0] * y if t < p[0] else -y,
}


@pytest.mark.parametrize("rate", JUMPS)
def test_jumps_that_depend_on_variables_raise(rate):
    """A program has the values, but no derivative; a compiled function raises the error of eager mode."""

    def final(p):
        return solve_ivp(JUMPS[rate], (0.0, 1.0), [1.0], t_eval=[1.0], args=(p,), **TIGHT).y[0, -1]

    p = np.array([0.55])
    program = wg.record(final, p)
    assert integrates(program)
    assert program(p) == pytest.approx(final(p), rel=1e-6)  # rounding decides which steps across a jump are accepted
    for derivative in (program.grad(), program.jacobian(), program.hessian()):
        with pytest.raises(wg.GuardError, match=r"jumps at t = .* depends on variables"):
            derivative(p)
    with pytest.raises(wg.NonSmoothError):
        wg.compile(wg.grad(final))(p)


@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF"])
@pytest.mark.parametrize("rate", ["where", "comparison", "branch"])
def test_jumps_that_depend_on_other_arguments(rate, method):
    """A dose at a time that is an argument, but not differentiated."""
    rates = {
        "where": lambda t, y, p, time: -p[0] * y + np.where(t < time, 0.0, p[1]),
        "comparison": lambda t, y, p, time: -p[0] * y + (t >= time) * p[1],
        "branch": lambda t, y, p, time: -p[0] * y + (0.0 if t < time else p[1]),
    }

    def final(p, time):
        return solve_ivp(rates[rate], (0.0, 1.0), [1.0], method, [1.0], args=(p, time), **TIGHT).y[0, -1]

    p, compiled = np.array([1.1, 0.7]), wg.compile(wg.grad(final))
    for time in (0.4, 0.6):
        decay, rest = np.exp(-p[0]), np.exp(-p[0] * (1 - time))
        by_rate = -decay + p[1] * ((1 - time) * rest / p[0] - (1 - rest) / p[0] ** 2)
        assert error(compiled(p, time), [by_rate, (1 - rest) / p[0]]) < 1e-6


FIXED_JUMPS = {
    "branch": lambda t, y, p: -p[0] * y if t < 0.5 else -p[1] * y,
    "where": lambda t, y, p: -np.where(t < 0.5, p[0], p[1]) * y,
    "comparison": lambda t, y, p: -(p[0] * (t < 0.5) + p[1] * (0.5 <= t)) * y,
    "floor": lambda t, y, p: -(p[0] + (p[1] - p[0]) * np.floor(2 * t)) * y,
}


@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF"])
@pytest.mark.parametrize("rate", FIXED_JUMPS)
def test_right_hand_side_may_jump_at_fixed_times(rate, method):
    """The decay has two rates, one after the other."""

    def final(p):
        return solve_ivp(FIXED_JUMPS[rate], (0.0, 0.9), [2.0], method, [0.9], args=(p,), **TIGHT).y[0, -1]

    p = np.array([1.1, 0.7])
    program = wg.record(final, p)
    assert integrates(program)
    expected = 2.0 * np.exp(-p[0] * 0.5 - p[1] * 0.4)
    assert program(p) == pytest.approx(expected, rel=1e-5)
    for derivative in (program.grad(), program.jacobian(), pickle.loads(pickle.dumps(program)).grad()):
        assert error(derivative(p), -expected * np.array([0.5, 0.4])) < 1e-5
    second = expected * np.outer([0.5, 0.4], [0.5, 0.4])
    assert error(program.hessian()(p), second) < 1e-5


KINKS = {
    "branch": lambda t, y, p: -p[0] * y if y[0] > 1.0 else -p[0] * y**2,
    "where": lambda t, y, p: -p[0] * np.where(y > 1.0, y, y**2),
    "minimum": lambda t, y, p: -p[0] * y * np.minimum(y, 1.0),
    "clip": lambda t, y, p: -p[0] * y * np.clip(y, 0.0, 1.0),
}


@pytest.mark.parametrize("sensitivity", ["forward", "discrete"])
@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF"])
@pytest.mark.parametrize("rate", KINKS)
def test_right_hand_side_may_branch_on_the_state(rate, method, sensitivity):
    """The rate has a kink at y = 1, where it is continuous: y = 1 / (1 + p t - log 2) from t = log 2 / p on."""
    from wengert.scipy.integrate import solve_ivp

    def final(p):
        options = {"args": (p,), "sensitivity": sensitivity, **TIGHT}
        return solve_ivp(KINKS[rate], (0.0, 2.0), [2.0], method, [2.0], **options).y[0, -1]

    p = np.array([0.9])
    program = wg.record(final, p)
    assert integrates(program)
    for x in (p, 1.2 * p):
        y = 1 / (1 + 2 * x[0] - np.log(2))
        assert program(x) == pytest.approx(y, rel=1e-5)
        for derivative in (program.grad(), program.jacobian(), pickle.loads(pickle.dumps(program)).grad()):
            assert derivative(x) == pytest.approx(-2 * y**2, rel=1e-5)
        assert wg.compile(wg.grad(final))(x) == pytest.approx(-2 * y**2, rel=1e-5)


def test_a_branch_that_is_not_recorded_runs_eagerly():
    """The branch is taken by some parameters only; within one integration it is the same at all times."""

    def final(p):
        def rate(t, y):
            return -p[0] * y if y[0] < 1.5 else -y

        return solve_ivp(rate, (0.0, 1.0), [1.0 + p[0]], t_eval=[1.0], **TIGHT).y[0, -1]

    compiled = wg.compile(wg.grad(final))
    for p in (0.3, 0.2):
        assert compiled(np.array([p])) == pytest.approx(np.exp(-p) * (1 - (1 + p)), rel=1e-6)


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853", "Radau"])
def test_steps_that_leave_the_domain_are_rejected(method):
    """The first step leads to negative states, where the rate is NaN."""

    def states(p):
        def rate(t, y):
            return np.stack([p * np.log(y[0]) - 4.0 * np.sqrt(y[0]), -y[1]])

        return solve_ivp(rate, (0.0, 0.5), [2.0, 1.0], method, [0.3, 0.4], rtol=1e-6, first_step=0.5).y

    with np.errstate(invalid="ignore"):
        expected, difference = states(0.8), (states(0.8001) - states(0.7999)) / 2e-4
        program = wg.record(states, 0.8)
    assert integrates(program)
    assert error(program(0.8), expected) < 1e-5
    assert error(program.jacobian()(0.8), difference) < 1e-3


@settings(deadline=None)
@given(st.lists(st.integers(-2, 2), min_size=12, max_size=12), st.sampled_from(METHODS))
def test_random_polynomial_systems_equal_eager_mode(coefficients, method):
    c = 0.2 * np.reshape(coefficients, (2, 6))

    def loss(x):
        def rate(t, y):
            monomials = [1.0, y[0], y[1], y[0] * y[1], np.sin(t + x[0]), x[1] * y[0] ** 2]
            return np.array([sum(a * m for a, m in zip(row, monomials)) for row in c])

        return np.sum(solve_ivp(rate, (0.0, 1.0), x, method, [0.4, 1.0], rtol=1e-7, atol=1e-9).y ** 2)

    x = np.array([0.5, -0.7])
    program = wg.record(loss, x)
    gradient = wg.grad(loss, x)
    assert np.allclose(program(x), loss(x), rtol=1e-5, atol=1e-8)
    assert np.allclose(program.grad()(x), gradient, rtol=1e-4, atol=1e-6)


# ---- options


OPTIONS = {
    "first_step": {"first_step": 0.01},
    "max_step": {"max_step": 0.05},
    "tolerances by state": {"rtol": 1e-7, "atol": np.array([1e-8, 1e-10])},
    "defaults": {"rtol": 1e-3, "atol": 1e-6},
}


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("method", METHODS)
def test_options_act_as_in_eager_mode(method, options):
    def f(x):
        return linear(x, method, TIMES, **OPTIONS[options])

    program = wg.record(f, X)
    assert integrates(program)
    assert error(program(X), f(X)) < (1e-9 if options != "defaults" else 1e-5)


QUERIES = {
    "scalar": lambda sol, s: sol(s * 0.7)[0],
    "times out of order": lambda sol, s: np.ravel(sol(s * np.array([2.0, 0.4, 2.0, 1.0]))),
    "fixed times": lambda sol, s: np.ravel(sol([0.3, 2.9]) * s),
    "one after the other": lambda sol, s: np.stack([sol(t)[1] for t in (0.0, 1.0, 3.0)]),
    "the ends": lambda sol, s: sol(sol.t_max) - s * sol(sol.t_min),
}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("method", [*METHODS, "LSODA"])
def test_dense_output_is_recorded(method, query):
    def f(x):
        found = solve_ivp(
            lambda t, y: oscillator(x) @ y, (0.0, 3.0), x[2:4], method, dense_output=True, rtol=1e-8, atol=1e-10
        )
        return QUERIES[query](found.sol, x[4])

    x = np.array([*X, 1.1])
    program = wg.record(f, x)
    assert integrates(program)
    for z in (x, x * [1.1, 0.8, 1.2, 1.0, 1.02]):
        limit = 1e-9 if method in ("RK23", "RK45", "DOP853") else 1e-6
        assert error(program(z), f(z)) < limit
        assert error(program.jacobian()(z), wg.jacobian(f, z)) < 10 * limit


@pytest.mark.filterwarnings("ignore::wengert.CompileWarning")
def test_dense_output_outside_of_the_interval_runs_eagerly():
    """SciPy extrapolates."""

    def f(p):
        found = solve_ivp(lambda t, y: -p[0] * y, (0.0, 1.0), [1.0], dense_output=True, **TIGHT)
        return found.sol(1.01)[0]

    p = np.array([0.8])
    with pytest.raises(wg.TracedValueError, match="outside of the interval"):
        wg.record(f, p)
    assert wg.compile(f)(p) == f(p)


def stops_at_zero(t, y):
    return y[0]


stops_at_zero.terminal = True

REFUSED = {
    "events by LSODA": {"events": lambda t, y: y[0], "method": "LSODA"},
    "dense output to an event": {"dense_output": True, "events": stops_at_zero},
    "an unknown option": {"min_step": 0.1},
    "loose tolerance": {"rtol": 1e-16},
    "times out of the interval": {"t_eval": [1.0, 5.0]},
    "times out of order": {"t_eval": [2.0, 1.0]},
    "an empty interval": {"t_span": (0.0, 0.0), "t_eval": [0.0]},
    "complex states by Radau": {"y0": [1.0 + 0.0j, 0.0], "method": "Radau"},
}


@pytest.mark.parametrize("options", REFUSED)
def test_what_programs_do_not_hold(options):
    """It runs eagerly, with SciPy's result, warnings and errors."""

    def f(x):
        call = {"t_span": (0.0, 3.0), "y0": x[2:], "t_eval": TIMES} | REFUSED[options]
        return np.sum(np.abs(solve_ivp(lambda t, y: oscillator(x) @ y, **call).y))

    with pytest.raises((wg.TracedValueError, ValueError)):
        wg.record(f, X)


def test_steps_are_computed_again_within_memory():
    def loss(p, memory):
        found = wg.scipy.integrate.solve_ivp(
            lambda t, y: np.array([y[1], -p[0] * y[0]]), (0.0, 100.0), [1.0, 0.0], t_eval=[50.0, 100.0],
            rtol=1e-8, atol=1e-8, memory=memory, sensitivity="discrete",
        )
        return np.sum(found.y**2)

    p = np.array([2.0])
    everything, little, least = (wg.record(lambda p, m=m: loss(p, m), p).grad()(p) for m in ("2GB", "50kB", "1kB"))
    assert np.array_equal(everything, little)
    assert np.array_equal(everything, least)


@pytest.mark.parametrize("method", METHODS)
def test_a_jacobian_takes_one_integration(method):
    program = wg.record(lambda x: linear(x, method, np.linspace(0.1, 3.0, 20)), X).jacobian()
    calls = [call.compute for call in program._lowered_ir().calls if isinstance(call.compute, Integration)]
    assert [call.system.directions for call in calls] == [(4,)]


def test_only_active_operands_move_the_steps_of_an_adjoint():
    """The initial state decays fast in one component, so that its tangents would need short steps."""

    def loss(x, start):
        rates = np.stack([x[0], 1e4 + x[1], x[2], x[3], x[4]])
        found = solve_ivp(lambda t, y: -rates * y, (0.0, 1.0), start, "Radau", [1.0], rtol=1e-8, atol=1e-8)
        return np.sum(found.y)

    x, start = np.array([0.5, 1.0, 2.0, 0.1, 0.2]), np.array([1.0, 0.0, 1.0, 1.0, 1.0])
    gradient = wg.record(lambda x: loss(x, start), x).grad()
    (adjoint,) = {c.compute for c in gradient._listing.calls if hasattr(c.compute, "active")}
    assert adjoint.active[0] is False and any(adjoint.active)
    assert error(gradient(x), -np.exp(-x) * np.array([1, 0, 1, 1, 1])) < 1e-6
    both = wg.record(lambda z: loss(z[:5], z[5:]), np.concatenate([x, start])).grad()
    assert error(both(np.concatenate([x, start]))[:5], gradient(x)) < 1e-6


@pytest.mark.parametrize(("method", "n"), [("Radau", 20), ("BDF", 60)])
def test_adjoints_of_larger_systems_equal_exact_ones(method, n):
    """Their steps are controlled by a tangent that is solved to the tolerance of the Newton iterations only."""
    rates, weights = np.linspace(0.5, 200.0, n), np.cos(np.arange(float(n)))

    def loss(p):
        found = solve_ivp(lambda t, y: -p * rates * (y - np.cos(t)), (0.0, 1.0), np.ones(n), method, [1.0], **TIGHT)
        return weights @ found.y[:, 0]

    def exact(p):
        k = p * rates
        steady = (k**2 * np.cos(1.0) + k * np.sin(1.0)) / (k**2 + 1)
        return weights @ (steady + (1 - k**2 / (k**2 + 1)) * np.exp(-k))

    p = np.full(n, 1.1)
    assert error(wg.grad(loss, p), wg.grad(exact, p)) < (1e-3 if method == "BDF" else 1e-6)
    assert error(wg.record(loss, p).grad()(p), wg.grad(exact, p)) < (1e-3 if method == "BDF" else 1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_ways_of_computing_adjoints_agree(method):
    """They agree, in the numbers that are differentiated, of which there may be none."""

    def loss(x, sensitivity):
        tolerances = {"rtol": 1e-4, "atol": 1e-6} if sensitivity == "adjoint" else TIGHT
        found = wg.scipy.integrate.solve_ivp(
            lambda t, y: oscillator(x) @ y, (0.0, 3.0), [1.0, x[2]], method, TIMES, sensitivity=sensitivity,
            **tolerances,
        )  # fmt: skip
        return np.sum(found.y**2)

    x = X[:3]
    forward, discrete, adjoint = (wg.grad(loss, x, args=(way,)) for way in ("forward", "discrete", "adjoint"))
    assert error(forward, discrete) < 1e-6
    assert error(forward, adjoint) < 1e-3
    for way in ("forward", "discrete", "adjoint", "auto"):
        program = wg.record(lambda x, way=way: loss(x, way), x)
        assert error(program.grad()(x), forward) < (1e-3 if way == "adjoint" else 1e-6)
        hessian = pickle.loads(pickle.dumps(program)).hessian()(x)
        assert error(hessian, wg.hessian(loss, x, args=("forward",))) < (1e-3 if way == "adjoint" else 1e-5)
    with pytest.raises(ValueError, match="sensitivity='backward', but it must be one of 'auto', 'forward', 'discrete'"):
        loss(x, "backward")


def test_adjoint_equations_along_a_sparse_system_back_in_time():
    """Output times are those of the integration, also at its start; the parameter of an unused term has none."""
    n = 60

    def rate(t, y, p):
        return p[0] * (np.roll(y, 1) - 2 * y + np.roll(y, -1)) - p[1] * y

    def loss(p, sensitivity):
        start, times = 1 + np.sin(2 * np.pi * np.arange(n) / n), [1.0, 0.6, 0.0]
        found = wg.scipy.integrate.solve_ivp(
            rate, (1.0, 0.0), start, "BDF", times, args=(p,), rtol=1e-8, atol=1e-10, sensitivity=sensitivity
        )
        return np.sum(found.y**2) + np.sum(found.y[:, 0])

    p = np.array([0.3, 0.2, 0.0])
    np.testing.assert_allclose(wg.grad(loss, p, args=("adjoint",)), wg.grad(loss, p, args=("discrete",)), rtol=1e-6)


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_adjoint_equations_start_with_steps_below_the_spacing_of_times(method):
    def loss(p):
        found = wg.scipy.integrate.solve_ivp(
            lambda t, y: np.stack([-1e12 * (y[0] - p[0] * y[1]), -0.01 * y[1]]), (0.0, 60.0), [p[0], 1.0], method,
            [60.0], rtol=1e-6, atol=1e-9, sensitivity="adjoint",
        )  # fmt: skip
        return found.y[0, -1]

    assert wg.grad(loss, np.array([0.5])) == pytest.approx(np.exp(-0.6), rel=1e-4)


def test_adjoint_equations_that_need_more_memory_say_so():
    def loss(p):
        found = wg.scipy.integrate.solve_ivp(
            lambda t, y: -p[0] * y, (0.0, 10.0), [1.0], "BDF", [10.0], memory="1kB", sensitivity="adjoint", **TIGHT
        )
        return found.y[0, -1]

    with pytest.raises(wg.ConvergenceError, match="needs more memory: choose sensitivity='discrete'"):
        wg.grad(loss, np.array([0.3]))


def test_an_implicit_method_that_needs_more_memory_runs_eagerly():
    def loss(p):
        found = wg.scipy.integrate.solve_ivp(
            lambda t, y: -p[0] * y, (0.0, 10.0), [1.0], "BDF", t_eval=[10.0], memory="1kB", sensitivity="discrete",
            **TIGHT,
        )  # fmt: skip
        return found.y[0, -1]

    p = np.array([0.3])
    assert wg.compile(wg.grad(loss))(p) == pytest.approx(-10 * np.exp(-3.0), rel=1e-4)


def test_adjoint_equations_stop_where_memory_ends(monkeypatch):
    """The limit is examined while the equations are solved, not afterwards."""
    steps = []
    size_of = sweeps.Continuous.size_of
    monkeypatch.setattr(sweeps.Continuous, "size_of", lambda self, n: steps.append(n) or size_of(self, n))

    def loss(p):
        found = wg.scipy.integrate.solve_ivp(
            lambda t, y: -p[0] * np.cos(20 * t) * y, (0.0, 10.0), [1.0], "BDF", [10.0],
            memory="1kB", sensitivity="adjoint", rtol=1e-3, atol=1e-3,
        )  # fmt: skip
        return found.y[0, -1]

    with pytest.raises(wg.ConvergenceError, match="needs more memory"):
        wg.grad(loss, np.array([0.3]))
    assert max(steps) == 18  # of 7 arrays of one number


# ---- right-hand sides and events that do not depend on the state


def constant_rate(x, method, branch=False):
    def rate(t, y):
        return [2.0] if t < 1.0 or not branch else [0.5]

    return solve_ivp(rate, (0.0, 2.0), x[:1], method, [0.5, 2.0], max_step=0.25, **TIGHT).y[0]


def constant_rate_until(x, method):
    def level(t, y):
        return y[0] - x[1]

    level.terminal = True
    return solve_ivp(lambda t, y: [2.0], (0.0, 2.0), x[:1], method, events=[level, lambda t, y: 1.0], **TIGHT).t[-1]


def constant_complex_rate(x, method):
    y = solve_ivp(lambda t, y: [2.0j * t], (0.0, 2.0), x[:1] + 1j * x[1:], method, [2.0], **TIGHT).y[0, 0]
    return np.real(y) + 3.0 * np.imag(y)


# function, methods, value, Jacobian
CONSTANT = [
    (constant_rate, METHODS, [1.9, 4.9], [[1, 0], [1, 0]]),
    (lambda x, method: constant_rate(x, method, True), METHODS, [1.9, 3.4], [[1, 0], [1, 0]]),
    (constant_rate_until, METHODS, 0.2, [-0.5, 0.5]),
    (constant_complex_rate, ["RK45", "BDF"], 16.8, [1, 3]),
]


@pytest.mark.parametrize(("f", "method", "value", "jacobian"), [(f, m, *e) for f, ms, *e in CONSTANT for m in ms])
def test_right_hand_side_may_be_constant(f, method, value, jacobian):
    x = np.array([0.9, 1.3])
    program = wg.record(lambda x: f(x, method), x)
    assert error(program(x), value) < 1e-6
    for found in (wg.jacobian(f, x, args=(method,)), wg.jacobian(f, x, args=(method,), mode="forward")):
        assert error(found, jacobian) < 1e-6
    assert error(program.jacobian()(x), jacobian) < 1e-6


def test_constant_branches_on_the_state_are_jumps():
    def f(x):
        found = solve_ivp(lambda t, y: [1.0 if y[0] < x[0] else 2.0], (0.0, 2.0), [0.0], rtol=1e-8, atol=1e-10)
        return found.y[0, -1]

    for derivative in (wg.grad(f), wg.compile(wg.grad(f))):
        with pytest.raises(wg.NonSmoothError, match=r"jumps at t = 0\.8"):
            derivative(np.array([0.8]))


# ---- programs


@pytest.mark.parametrize("method", METHODS)
def test_pickled_programs(method):
    program = wg.record(lambda x: linear(x, method, TIMES), X)
    for each in (program, program.jacobian(), wg.record(lambda x: np.sum(linear(x, method, TIMES)), X).grad()):
        copy = pickle.loads(pickle.dumps(each))
        assert np.array_equal(copy(1.1 * X), each(1.1 * X))


def test_program_runs_in_several_threads():
    gradient = wg.record(lambda x: np.sum(linear(x, "DOP853", TIMES) ** 2), X).grad()
    points = [X * (1 + 0.01 * k) for k in range(20)]
    expected, found = [gradient(x) for x in points], {}

    def run(first):
        for _ in range(5):
            found.update({k: gradient(points[k]) for k in range(first, 20, 4)})

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal([found[k] for k in range(20)], expected)


def test_failures_are_reported_as_in_eager_mode():
    final = wg.compile(wg.grad(lambda a: solve_ivp(lambda t, y: a * y * y, (0.0, 2.0), [1.0], t_eval=[1.5]).y[0, 0]))
    slope = final(0.3)
    with pytest.raises(wg.ConvergenceError, match=r"solve_ivp: the integration failed at t = 0\.33"):
        final(3.0)
    assert final(0.3) == slope


def test_compiled_functions_compare_with_scipy_and_warn_of_nothing():
    compiled = wg.compile(wg.value_and_grad(lambda x: np.sum(linear(x, "BDF", TIMES) ** 2)))
    expected = wg.value_and_grad(lambda x: np.sum(linear(x, "BDF", TIMES) ** 2))
    for scale in (1.0, 1.1, 0.9, 1.0):
        value, gradient = compiled(scale * X)
        assert error(value, expected(scale * X)[0]) < 1e-6
        assert error(gradient, expected(scale * X)[1]) < 1e-5


def test_parameters_of_any_shape_and_values_read_from_outside():
    scale = 1.5

    def final(p):
        def rate(t, y):
            return p["A"] @ y * scale + p["b"]

        return np.sum(solve_ivp(rate, (0.0, 1.0), [1.0, 2.0], t_eval=[1.0], **TIGHT).y)

    p = {"A": np.array([[-0.3, 0.1], [0.2, -0.5]]), "b": 0.7}
    program = wg.record(final, p)
    found, expected = program.grad()(p), wg.grad(final)(p)
    assert integrates(program)
    assert error(found["A"], expected["A"]) < 1e-8
    assert found["b"] == pytest.approx(expected["b"], rel=1e-8)


# ---- systems and results that are used again


def exponential(x, method):
    return solve_ivp(lambda t, y, k: -k * y, (0.0, 1.0), x[2:], method, args=(x[0],), **TIGHT).y[0, -1]


def test_solutions_are_not_taken_from_other_right_hand_sides():
    """The functions of a loop read its variable when they are called, and the second solution starts as the first."""

    def loss(x):
        rates, found = [1.0, 2.0], 0.0
        for k in rates:
            found = found + solve_ivp(lambda t, y: -k * x[0] * y, (0.0, 1.0), [1.0], **TIGHT).y[0, -1]
        return found

    compiled = wg.compile(wg.grad(loss))
    x = np.array([0.5])
    exact = -np.exp(-0.5) - 2 * np.exp(-1.0)
    assert error(compiled(x), [exact]) < 1e-8
    assert error(compiled(x), [exact]) < 1e-8


def test_systems_are_shared_by_right_hand_sides_with_the_same_program(monkeypatch):
    made, pushed = [], shared.System.pushed.__wrapped__

    def counted(self, count=1):
        made.append(count)
        return pushed(self, count)

    monkeypatch.setattr(shared.System, "pushed", memoised(counted))
    wg.clear_caches()

    def final(x, factor):
        return solve_ivp(lambda t, y: -factor * x[0] * y, (0.0, 1.0), [x[1]], **TIGHT).y[0, -1]

    for x in ([0.5, 1.0], [0.7, 2.0]):
        for factor in (1.0, 3.0):
            x = np.array(x)
            e = np.exp(-factor * x[0])
            assert error(wg.grad(final, x, args=(factor,)), [-factor * x[1] * e, e]) < 1e-7
    assert len(made) == 2  # once for each factor


def test_right_hand_sides_with_branches_are_not_shared():
    """What other branches compute is not part of the program."""

    def final(x, late):
        def rate(t, y):
            return x[0] * y if t < 1.0 else late * y

        return solve_ivp(rate, (0.0, 2.0), [1.0], **TIGHT).y[0, -1]

    for late in (0.5, -1.0):
        x = np.array([0.3])
        assert error(wg.grad(final, x, args=(late,)), [np.exp(0.3 + late)]) < 1e-6


def test_normal_form_reads_parts_of_the_input():
    def rate(x):
        y, p = x[1:3].copy(), x[3:].reshape(2, 2)
        return np.stack([y[0] * p[1, 0] + x[0], y[1] * np.sum(p[:, 1])]) * y

    x = np.arange(1.0, 8.0)
    program = wg.record(rate, x)
    code = shared.normal_form(program._listing)
    assert reference.outputs(code, [x])[0].tolist() == rate(x).tolist()
    assert len(code) < len(program._listing)
