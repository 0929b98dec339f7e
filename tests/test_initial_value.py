"""Derivatives of solutions of differential equations, against closed forms: `solve_ivp` and `odeint`."""

import functools
import tracemalloc

import numpy as np
import pytest
import scipy.integrate
from scipy.integrate import RK45, complex_ode, ode, odeint, solve_ivp

import wengert as wg
from wengert.scipy import sensitivities
from wengert.scipy import steps as mirror_steps

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it
mirror = pytest.importorskip("wengert.scipy.integrate")

METHODS = ["RK23", "RK45", "DOP853", "Radau", "BDF", "LSODA"]
TIGHT = {"rtol": 1e-10, "atol": 1e-12}


def error(found, exact):
    return np.max(np.abs(np.asarray(found) - np.asarray(exact))) / np.max(np.abs(exact))


# ---- one forced linear equation: ends of the interval, initial value, parameter


def forced_end(x, method):
    start, end, y0, k = x
    return solve_ivp(lambda t, y: -k * y + np.sin(t), (start, end), [y0], method=method, **TIGHT).y[0, -1]


def forced_exact(x):
    start, end, y0, k = x

    def particular(t):
        return (k * np.sin(t) - np.cos(t)) / (k * k + 1)

    return (y0 - particular(start)) * np.exp(-k * (end - start)) + particular(end)


POINTS = {"forward": np.array([0.3, 2.0, 1.2, 0.7]), "backward": np.array([2.0, 0.3, 1.2, 0.7])}
DERIVATIVES = {
    "grad": wg.grad,
    "jacfwd": wg.jacfwd,
    "hessian": wg.hessian,
    "forward over forward": lambda f, x: wg.jacfwd(wg.jacfwd(f), x),
    "reverse over reverse": lambda f, x: wg.jacrev(wg.jacrev(f), x),
    "hvp": lambda f, x: wg.hvp(f, x, np.arange(1.0, 5.0)),
}


@pytest.mark.parametrize("direction", POINTS)
@pytest.mark.parametrize("derivative", DERIVATIVES)
@pytest.mark.parametrize("method", METHODS)
def test_ends_state_and_parameter(method, derivative, direction):
    x, differentiate = POINTS[direction], DERIVATIVES[derivative]
    found = differentiate(lambda x: forced_end(x, method), x)
    assert error(found, differentiate(forced_exact, x)) < (1e-6 if method == "BDF" else 2e-9)


@pytest.mark.parametrize("method", METHODS)
def test_values_are_those_of_scipy(method):
    x = POINTS["forward"]
    assert wg.grad(forced_end, x, args=(method,), value=True)[0] == forced_end(x, method)
    assert wg.jvp(forced_end, x, np.ones(4), args=(method,))[0] == forced_end(x, method)


def test_third_derivative_equals_exact_one():
    found = wg.derivative(lambda k: forced_end((0.3, 2.0, 1.2, k), "DOP853"), 0.7, order=3)
    assert found == pytest.approx(wg.derivative(lambda k: forced_exact((0.3, 2.0, 1.2, k)), 0.7, order=3), rel=1e-7)


# ---- ways of passing parameters


class Decay:
    def __init__(self, rate):
        self.rate = rate

    def __call__(self, t, y):
        return -self.rate * y**2


def by_closure(a, **options):
    return solve_ivp(lambda t, y: -a * y**2, (0, 2), [1.0, 2.0], **options)


def by_args(a, **options):
    return solve_ivp(lambda t, y, a, power: -a * y**power, (0, 2), [1.0, 2.0], args=(a, 2), **options)


def by_filling(a, **options):
    def fun(t, y):
        slope = np.zeros(2)
        for i in range(2):
            slope[i] = -a * y[i] ** 2
        return slope

    return solve_ivp(fun, (0, 2), [1.0, 2.0], **options)


def by_list(a, **options):
    return solve_ivp(lambda t, y: [-a * y[0] ** 2, -a * y[1] ** 2], (0, 2), (1.0, 2.0), **options)


def by_object(a, **options):
    return solve_ivp(Decay(a), (0, 2), [1.0, 2.0], **options)


def by_partial(a, **options):
    return solve_ivp(functools.partial(lambda t, y, a: -a * y**2, a=a), (0, 2), [1.0, 2.0], **options)


HOLDER = Decay(0.0)


def by_attribute(a, **options):
    HOLDER.rate = a
    try:
        return solve_ivp(lambda t, y: -HOLDER.rate * y**2, (0, 2), [1.0, 2.0], **options)
    finally:
        HOLDER.rate = 0.0


def vectorised(a, **options):
    return solve_ivp(lambda t, y: -a * y**2, (0, 2), [1.0, 2.0], vectorized=True, **options)


def with_jacobian(a, **options):
    options |= {"jac": lambda t, y: np.diag(-2 * a * y)} if options["method"] in ("Radau", "BDF", "LSODA") else {}
    return solve_ivp(lambda t, y: -a * y**2, (0, 2), [1.0, 2.0], **options)


def by_module(a, **options):
    return scipy.integrate.solve_ivp(lambda t, y: -a * y**2, (0, 2), [1.0, 2.0], **options)


WAYS = [
    by_closure, by_args, by_filling, by_list, by_object, by_partial, by_attribute, vectorised, with_jacobian, by_module,
]  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("method", ["RK45", "Radau", "BDF", "LSODA"])
def test_parameters_may_be_passed_in_any_way(way, method):
    found = wg.jacobian(lambda a: way(a, method=method, **TIGHT).y[:, -1], 0.7)
    y0 = np.array([1.0, 2.0])
    assert error(found, -2 * (y0 / (1 + 1.4 * y0)) ** 2) < 1e-6


def test_parameters_may_be_in_a_container():
    def energy(p):
        return np.sum(solve_ivp(lambda t, y: -p["rate"] * y, (0, p["end"]), p["start"], **TIGHT).y[:, -1] ** 2)

    p = {"rate": 0.5, "end": 2.0, "start": np.array([1.0, 3.0])}
    found = wg.grad(energy, p)
    value = 10 * np.exp(-2.0)
    assert found["rate"] == pytest.approx(-4 * value, rel=1e-8)
    assert found["end"] == pytest.approx(-value, rel=1e-8)
    assert error(found["start"], 2 * p["start"] * np.exp(-2.0)) < 1e-8


def test_complex_solution_has_derivatives():
    def modulus(w):
        return np.abs(solve_ivp(lambda t, y: 1j * w * y * y, (0, 1), [1 + 0.5j], **TIGHT).y[0, -1])

    exact = wg.derivative(lambda w: np.abs(1 / (1 / (1 + 0.5j) - 1j * w)), 0.3)
    assert wg.derivative(modulus, 0.3) == pytest.approx(exact, rel=1e-8)
    assert wg.grad(modulus, 0.3) == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize("times", [np.linspace(0.1, 1.9, 40), np.array([0.5, 2.1, 1.5])], ids=["many", "outside"])
@pytest.mark.parametrize("method", ["DOP853", "Radau", "LSODA"])
def test_calls_of_the_continuous_solution(method, times):
    def solutions(k):
        sol = solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [1.0], method, dense_output=True, **TIGHT).sol
        return np.stack([sol(t)[0] for t in times])

    assert error(wg.derivative(solutions, 0.7), -times * np.exp(-0.7 * times)) < 1e-5


# ---- times of output


def outputs(x, method="RK45"):
    t, y0, k = x
    found = solve_ivp(
        lambda t, y: -k * y + np.sin(t), (0.0, 3.0), [y0], method, np.stack([t, t + 0.5]), dense_output=True, **TIGHT
    )
    later = found.sol(np.stack([t + 0.2, t, 0.0 * t]))
    return np.concatenate([found.y[0], found.sol(t), later[0], found.sol(0.9), found.t])


def outputs_exact(x):
    t, y0, k = x
    times = [t, t + 0.5, t, t + 0.2, t, 0.0 * t, 0.9]
    return np.stack([*(forced_exact((0.0, time, y0, k)) for time in times), t, t + 0.5])


@pytest.mark.parametrize("method", METHODS)
def test_times_of_output_have_derivatives(method):
    x = np.array([1.1, 1.2, 0.7])
    assert error(outputs(x, method), outputs_exact(x)) < 1e-6
    tolerance = 1e-5 if method in ("BDF", "LSODA", "Radau") else 1e-8
    assert error(wg.jacobian(outputs, x, args=(method,)), wg.jacobian(outputs_exact, x)) < tolerance
    assert np.array_equal(wg.jvp(outputs, x, x, args=(method,))[0], outputs(x, method))


def test_time_of_a_solution_without_parameters_has_derivatives():
    def at(t):
        return solve_ivp(lambda t, y: -y, (0.0, 3.0), [1.0], dense_output=True, **TIGHT).sol(t)[0]

    assert wg.derivative(at, 1.0) == pytest.approx(-np.exp(-1.0), rel=1e-8)
    assert wg.hessian(at, 1.0) == pytest.approx(np.exp(-1.0), rel=1e-8)


def test_all_steps_are_returned():
    def solution(k):
        return solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [1.0])

    found = solution(1.0)
    y, dy = wg.jvp(lambda k: solution(k).y, 1.0, 1.0)
    assert np.array_equal(y, found.y)
    assert error(dy[0], -found.t * np.exp(-found.t)) < 1e-2     # the default tolerance is 1e-3
    assert np.array_equal(wg.jvp(lambda k: solution(k).t + 0 * k, 1.0, 1.0)[0], found.t)


def test_fields_of_the_result_are_those_of_scipy():
    def status(k):
        found = solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [1.0])
        assert (found.success, found.status, found.sol, found.t_events) == (True, 0, None, None)
        assert "reached the end" in found.message
        return k * found.nfev

    assert wg.grad(status, 1.0) == solve_ivp(lambda t, y: -y, (0.0, 2.0), [1.0]).nfev


# ---- events


def hits_ground(t, y, *args):
    return y[0]


hits_ground.terminal = True
hits_ground.direction = -1


def thrown(x, method, **options):
    height, speed, g = x
    found = solve_ivp(
        lambda t, y: np.array([y[1], -g]), (0.0, 100.0), [height, speed], method, events=hits_ground, **TIGHT, **options
    )
    return np.stack([found.t_events[0][0], found.y_events[0][0][1], found.t[-1], found.y[1, -1]])


def thrown_exact(x):
    height, speed, g = x
    t = (speed + np.sqrt(speed * speed + 2 * g * height)) / g
    return np.stack([t, speed - g * t, t, speed - g * t])


BALL = np.array([2.0, 0.5, 9.81])


@pytest.mark.parametrize("method", METHODS)
def test_terminal_event_has_derivatives(method):
    assert error(wg.jacobian(thrown, BALL, args=(method,)), wg.jacobian(thrown_exact, BALL)) < 1e-9
    assert np.array_equal(wg.jvp(thrown, BALL, BALL, args=(method,))[0], thrown(BALL, method))
    second = wg.hessian(lambda x: thrown(x, method)[0], BALL)
    assert error(second, wg.hessian(lambda x: thrown_exact(x)[0], BALL)) < 1e-8


def test_the_end_of_the_interval_behind_a_terminal_event_has_derivative_zero():
    def time(end):
        fun = lambda t, y: np.array([y[1], -9.81])
        return solve_ivp(fun, (0.0, end), [2.0, 0.5], events=hits_ground).t[-1] + 0.0 * end

    assert wg.grad(time, 100.0) == 0.0


def test_events_that_do_not_end_the_integration():
    def zeros(w):
        found = solve_ivp(
            lambda t, y: np.array([y[1], -w * w * y[0]]), (0.0, 10.0), [1.0, 0.0 * w],
            events=[lambda t, y: y[0], lambda t, y: t - 3.5], **TIGHT,
        )  # fmt: skip
        assert [len(times) for times in found.t_events] == [4, 1]
        return np.concatenate([found.t_events[0], found.y_events[1][0, :1], found.t_events[1]])

    def exact(w):
        return np.concatenate([(np.arange(4) + 0.5) * np.pi / w, np.stack([np.cos(3.5 * w), 3.5 + 0.0 * w])])

    assert error(wg.jacobian(zeros, 1.3), wg.jacobian(exact, 1.3)) < 1e-8


def test_tenth_impact_of_bouncing_ball_has_exact_gradient():
    def tenth_impact(x):
        height, g, restitution = x
        t, y = 0.0, np.array([height, 0.0])
        for _ in range(10):
            found = solve_ivp(lambda t, y: np.array([y[1], -g]), (t, t + 100.0), y, events=hits_ground, **TIGHT)
            t, y = found.t[-1], np.array([0.0, -restitution * found.y[1, -1]])
        return t

    def exact(x):
        height, g, restitution = x
        return np.sqrt(2 * height / g) * (1 + 2 * np.sum(restitution ** np.arange(1, 10)))

    x = np.array([1.0, 9.81, 0.9])
    assert error(wg.grad(tenth_impact, x), wg.grad(exact, x)) < 1e-10


def test_event_that_only_touches_zero_raises():
    def touches(t, y):
        return (t - 1.0) ** 3 + 1e-9 * (t - 1.0)

    def time(a):
        return solve_ivp(lambda t, y: -a * y, (0.0, 2.0), [1.0], events=touches).t_events[0][0]

    with pytest.raises(wg.NonSmoothError, match=r"solve_ivp: the event 'touches' at t = 1 only touches zero"):
        wg.grad(time, 1.0)


# ---- right-hand sides that jump


def driven(fun, method, **options):
    return solve_ivp(fun, (0.0, 2.0), [1.0], method, **options).y[0, -1]


def pair(fun, method, **options):
    return np.sum(solve_ivp(fun, (0.0, 2.0), [1.0, 0.5], method, **options).y[:, -1])


MOVING = {
    "time": lambda a, **o: driven(lambda t, y: -y + (1.0 if t > a else 0.0), **o),
    "where": lambda a, **o: driven(lambda t, y: -y + np.where(t > a, 1.0, 0.0), **o),
    "period": lambda a, **o: driven(lambda t, y: -y + np.floor(t / a) % 2, **o),
    "state": lambda a, **o: driven(lambda t, y: np.array([-a * y[0] if y[0] > 0.5 else 0.3 - a * y[0]]), **o),
    "args": lambda a, **o: driven(lambda t, y, a: -y + (t > a), args=(a,), **o),
}


@pytest.mark.parametrize("derivative", [wg.derivative, lambda f, x: wg.compile(wg.grad(f))(x)])
@pytest.mark.parametrize("solver", ["odeint", "LSODA"])
def test_short_pulses_are_not_stepped_over(solver, derivative):
    """The step size is limited to the length of a pulse, in derivatives too."""

    def dosed(dose):
        f = lambda t, y: [dose * (1.0 if 30.0 < t < 30.1 else 0.0)]
        if solver == "odeint":
            return odeint(f, [0.0], [0.0, 50.0], tfirst=True, hmax=0.05, mxstep=5000, atol=1e-6)[-1, 0]
        return solve_ivp(f, (0.0, 50.0), [0.0], solver, t_eval=[50.0], max_step=0.05).y[0, -1]

    assert derivative(dosed, 2.0) == pytest.approx(0.1, rel=1e-2)


@pytest.mark.parametrize("tolerances", [{}, {"rtol": 1e-8, "atol": 1e-10}], ids=["loose", "tight"])
@pytest.mark.parametrize("name", MOVING)
@pytest.mark.parametrize("method", METHODS)
def test_jump_at_a_time_that_depends_on_parameters_raises(method, name, tolerances):
    with pytest.raises(wg.NonSmoothError, match=r"solve_ivp: the right-hand side jumps at t = \d\.\d+.*terminal event"):
        wg.grad(MOVING[name], 0.7, kwargs={"method": method, **tolerances})


FIXED = {
    "jump at a fixed time": lambda a, **o: driven(lambda t, y: -a * y + (1.0 if t > 0.7 else 0.0), **o),
    "jump of one equation": lambda a, **o: pair(lambda t, y: -a * y * np.array([2 if t > 0.7 else 1, 1]), **o),
    "kink": lambda a, **o: driven(lambda t, y: -a * np.maximum(y, 0.5), **o),
    "steep": lambda a, **o: driven(lambda t, y: -a * y + np.tanh((t - a) * 1e4), **o),
}


@pytest.mark.parametrize("name", FIXED)
@pytest.mark.parametrize("method", METHODS)
def test_other_jumps_and_kinks_do_no_harm(method, name):
    options = {"method": method, "rtol": 1e-8, "atol": 1e-10}
    f, tight = FIXED[name], {"method": "Radau", "rtol": 1e-11, "atol": 1e-12}
    difference = (f(1.0001, **tight) - f(0.9999, **tight)) / 2e-4
    assert wg.grad(f, 1.0, kwargs=options) == pytest.approx(difference, rel=3e-3)


# ---- known problems


def lotka_volterra(p, method):
    def fun(t, y):
        return np.array([p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[2] * y[1]])

    times = np.linspace(0.0, 10.0, 21)
    return np.sum(solve_ivp(fun, (0.0, 10.0), [1.0, 1.0], method, times, rtol=1e-7, atol=1e-9).y ** 2)


def robertson(k, method):
    def fun(t, y):
        first, second, third = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
        return np.array([third - first, first - third - second, second])

    return solve_ivp(fun, (0.0, 4e3), [1.0, 0.0, 0.0], method, rtol=1e-7, atol=1e-10).y[:, -1]


def van_der_pol(mu, method):
    def fun(t, y):
        return [y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]]

    return solve_ivp(fun, (0.0, 500.0), [2.0, 0.0], method, rtol=1e-7, atol=1e-9).y[0, -1]


ROBERTSON = [
    [-4.75007118, -3.13481339e-09, 1.88088616e-05],
    [-5.99365172e-06, -1.87584661e-14, 2.31268734e-11],
    [4.75007717, 3.13483215e-09, -1.88088847e-05],
]

#: derivatives with nine digits: differences of solutions by Radau's method at tolerances of 1e-13, extrapolated
KNOWN = {
    "Lotka-Volterra": (
        lotka_volterra, np.array([1.5, 1.0, 3.0]), [51.16634614, -929.63241963, 216.22518801],
        {"RK45": 3e-5, "DOP853": 3e-5, "Radau": 1e-6, "BDF": 1e-4, "LSODA": 3e-5},
    ),
    "Robertson": (
        robertson, np.array([0.04, 3e7, 1e4]), ROBERTSON, {"Radau": 1e-6, "BDF": 1e-5, "LSODA": 1e-6}
    ),
    "van der Pol": (van_der_pol, 1e3, 5.15194481e-4, {"Radau": 1e-6, "BDF": 1e-4, "LSODA": 1e-6}),
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "method"), [(name, method) for name, (*_, methods) in KNOWN.items() for method in methods]
)
def test_known_problems(name, method):
    f, x, expected, tolerances = KNOWN[name]
    found = wg.jacobian(f, x, args=(method,))
    assert np.max(np.abs(found / expected - 1)) < tolerances[method]


@pytest.mark.parametrize("method", ["RK45", "Radau"])
def test_right_hand_side_may_jump_at_the_start(method):
    """A mass on a spring starts from rest against dry friction: y = p + (2 - p) cos t."""

    def end(p):
        def rate(t, y):
            return [y[1], -p * np.sign(y[1]) - y[0]]

        return solve_ivp(rate, (0, 3), [2.0, 0.0], method, t_eval=[3.0], **TIGHT).y[0, -1]

    for derivative in (wg.grad(end), wg.compile(wg.grad(end))):
        assert derivative(0.3) == pytest.approx(1 - np.cos(3.0), rel=1e-5)


def test_a_jump_at_the_start_that_depends_on_variables():
    def end(time):
        return solve_ivp(lambda t, y: -y + (1.0 if t > time else 0.0), (0, 2), [1.0], **TIGHT).y[0, -1]

    with pytest.raises(wg.NonSmoothError, match="jumps at t = 0,"):
        wg.grad(end)(0.0)


def orbit(x, t):
    """Position on a Kepler orbit after its pericentre, in the gravity and the eccentricity; also of complex numbers."""
    gravity, e = x
    r, v = 1 - e, np.sqrt((1 + e) / (1 - e))
    a = 1 / (2 / r - v**2 / gravity)
    e = 1 - r / a
    mean = np.sqrt(gravity / a**3) * t
    E = mean
    for _ in range(30):
        E = E - (E - e * np.sin(E) - mean) / (1 - e * np.cos(E))
    return np.stack([a * (np.cos(E) - e), a * np.sqrt(1 - e**2) * np.sin(E)])


@pytest.mark.parametrize("sensitivity", ["forward", "discrete"])
@pytest.mark.parametrize("method", ["RK45", "DOP853", "LSODA", "Radau", "BDF"])
def test_errors_after_three_revolutions_are_below_ten_tolerances(method, sensitivity):
    """Errors are less than ten times the relative tolerance, although those of the positions are larger.

    The adjoint's steps are controlled by one tangent, in which one of the derivatives is 50 times the other.
    """

    def position(x):
        def rate(t, y):
            return np.concatenate([y[2:], -x[0] * y[:2] / (y[0] ** 2 + y[1] ** 2) ** 1.5])

        zero = 0.0 * x[1]
        start = np.stack([1 - x[1], zero, zero, np.sqrt((1 + x[1]) / (1 - x[1]))])
        times = [np.pi, 6 * np.pi]
        found = mirror.solve_ivp(
            rate, (0, 6 * np.pi), start, method, times, rtol=1e-7, atol=1e-9, sensitivity=sensitivity
        )
        return found.y[:2]

    x = np.array([1.0, 0.3])
    times = np.array([np.pi, 6 * np.pi])
    exact = np.stack([orbit(x + 1e-30j * e, times).imag / 1e-30 for e in np.eye(2)], axis=-1)
    for mode in ("forward", "reverse"):
        found = wg.jacobian(position, x, mode=mode)
        errors = np.max(np.abs(found - exact), axis=(0, 1)) / np.max(np.abs(exact), axis=(0, 1))
        assert np.max(errors) < (1e-6 if sensitivity == "forward" else 3e-6)


# ---- memory


def diffusion(k, method, memory, max_step=0.05, **options):
    """Sum of squares at some times, differentiated by the adjoint of the steps."""
    def fun(t, y):
        return k * (np.roll(y, 1) - 2 * y + np.roll(y, -1)) - 0.1 * y**3

    start = np.sin(np.linspace(0, 2 * np.pi, 50, endpoint=False))
    found = mirror.solve_ivp(
        fun, (0, 5), start, method, np.linspace(0, 5, 4), max_step=max_step, memory=memory, sensitivity="discrete",
        **options,
    )  # fmt: skip
    return np.sum(found.y**2) if found.t_events is None else np.sum(found.y**2) + np.sum(found.t_events[0])


@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
@pytest.mark.parametrize("events", [None, lambda t, y: y[3] - 0.3])
def test_blocks_of_steps_are_recorded_again(method, events):
    whole = wg.grad(diffusion, 0.3, args=(method, "1GB"), kwargs={"events": events})
    blocks = wg.grad(diffusion, 0.3, args=(method, "300kB"), kwargs={"events": events})
    assert blocks == whole
    second, exact = (
        wg.hessian(diffusion, 0.3, args=(method, memory), kwargs={"events": events}) for memory in (300_000, "1GB")
    )
    assert second == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize("end", ["fixed", "traced", "event"])
def test_blocks_of_steps_give_the_same_derivative(end):
    def solution(k, memory):
        stop = lambda t, y: y[0] - 0.3
        stop.terminal = True
        found = mirror.solve_ivp(
            lambda t, y: -k * y, (0, 5 * k if end == "traced" else 5), np.linspace(1, 2, 20), max_step=0.02,
            events=stop if end == "event" else None, memory=memory, sensitivity="discrete",
        )  # fmt: skip
        return np.sum(found.y[:, -1]) + np.sum(found.y[:, 1:3])

    found = [wg.grad(solution, 0.7, args=(memory,)) for memory in (100_000, "1GB")]
    assert found[0] == pytest.approx(found[1], rel=1e-13)
    difference = (solution(0.7001, "1GB") - solution(0.6999, "1GB")) / 2e-4
    assert found[0] == pytest.approx(difference, rel=1e-4)


def test_memory_of_recorded_steps_is_bounded(monkeypatch):
    recorded = []
    monkeypatch.setattr(sensitivities, "at_times", lambda *args: (None, True))
    monkeypatch.setattr(mirror_steps, "checkpoint", lambda f: recorded.append(f) or f)
    wg.grad(diffusion, 0.3, args=("RK45", "300kB"))
    assert len(recorded) > 10


def test_memory_of_steps_is_bounded():
    def peak(memory):
        tracemalloc.start()
        wg.grad(diffusion, 0.3, args=("RK45", memory, 0.002))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak("1MB")  # modules are loaded
    assert peak("1MB") < 0.5 * peak("1GB")


# ---- steps


@pytest.mark.parametrize("is_recorded", [True, False])
@pytest.mark.parametrize("method", ["RK23", "RK45", "DOP853"])
def test_steps_at_the_limit_of_stability_keep_derivatives_accurate(method, is_recorded, monkeypatch):
    """A stiff mode, of rate -2000, does not show in the solution, but steps at the limit amplify its tangent."""
    if not is_recorded:
        monkeypatch.setattr(sensitivities, "at_times", lambda *args: (None, True))
    modes = np.array([1.0, 2000.0])

    def final(p):
        rate = lambda t, y: -modes * p * (y - np.cos(t))
        return np.sum(solve_ivp(rate, (0.0, 2.0), [1.0, 1.0], method, rtol=1e-5, atol=1e-7).y[:, -1])

    exact = wg.grad(lambda p: np.sum(stiff_exact(modes * p, 2.0)), np.ones(2))
    assert np.abs(wg.grad(final, np.ones(2)) - exact).max() < 1e-3
    assert np.abs(wg.jacfwd(final, np.ones(2)) - exact).max() < 1e-3


def stiff_exact(rate, t):
    """Solution of y' = -rate (y - cos t), y(0) = 1."""
    forced = rate * (rate * np.cos(t) + np.sin(t)) / (rate**2 + 1)
    return forced + (1 - rate**2 / (rate**2 + 1)) * np.exp(-rate * t)


# ---- odeint


def by_odeint(x):
    start, end, y0, k = x
    times = np.stack([start, 0.5 * (start + end), end])
    return odeint(lambda y, t: -k * y + np.sin(t), y0, times, rtol=1e-10, atol=1e-12)[-1, 0]


@pytest.mark.parametrize("direction", POINTS)
def test_odeint_has_derivatives(direction):
    x = POINTS[direction]
    assert error(wg.grad(by_odeint, x), wg.grad(forced_exact, x)) < 1e-8
    assert error(wg.hessian(by_odeint, x), wg.hessian(forced_exact, x)) < 1e-8
    assert wg.grad(by_odeint, x, value=True)[0] == by_odeint(x)


ODEINT = {
    "args": lambda k: odeint(lambda y, t, k: -k * y, [1.0], [0.0, 1.0], (k,))[-1, 0],
    "time first": lambda k: odeint(lambda t, y: -k * y, [1.0], [0.0, 1.0], tfirst=True)[-1, 0],
    "full output": lambda k: odeint(lambda y, t: -k * y, [1.0], [0.0, 1.0], full_output=True)[0][-1, 0],
    "Jacobian": lambda k: odeint(lambda y, t: -k * y, [1.0], [0.0, 1.0], Dfun=lambda y, t: [[-k]])[-1, 0],
    "one time": lambda k: odeint(lambda y, t: -k * y, [np.exp(-k)], [0.0])[0, 0],
}


@pytest.mark.parametrize("way", ODEINT)
def test_arguments_of_odeint_are_accepted_in_any_way(way):
    assert wg.grad(ODEINT[way], 1.0) == pytest.approx(-np.exp(-1.0), rel=1e-6)


# ---- outside derivatives, compiled functions, batches


def test_plain_calls_are_those_of_scipy():
    fun = lambda t, y: -0.5 * y
    ours, theirs = mirror.solve_ivp(fun, (0, 1), [1.0]), solve_ivp(fun, (0, 1), [1.0])
    assert type(ours) is type(theirs)
    assert np.array_equal(ours.y, theirs.y)
    assert np.array_equal(mirror.odeint(lambda y, t: -y, 1.0, [0, 1]), odeint(lambda y, t: -y, 1.0, [0, 1]))


def final(k):
    return solve_ivp(lambda t, y: -k * y, (0.0, 2.0), [1.0], **TIGHT).y[0, -1]


def test_batches_equal_single_solutions():
    k = np.array([1.0, 0.5])
    assert np.array_equal(wg.vmap(final)(k), [final(1.0), final(0.5)])
    assert error(wg.vmap(wg.grad(final))(k), -2 * np.exp(-2 * k)) < 1e-8


# ---- errors


def refused(**options):
    def end(a):
        given = {key: f(a) for key, f in options.items()}
        return solve_ivp(lambda t, y: -a * y, (0.0, 2.0), [1.0], **given).y[0, -1]

    return end


class OtherMethod(RK45):
    pass


ERRORS = {
    "blow-up": (
        lambda a: solve_ivp(lambda t, y: a * y**2, (0.0, 2.0), [1.0]).y[0, -1], wg.ConvergenceError,
        r"scipy.integrate.solve_ivp: the integration failed at t = 0\.9999.*spacing between numbers",
    ),
    "blow-up in odeint": (
        lambda a: odeint(lambda y, t: a * y**2, [1.0], [0.0, 2.0])[-1, 0], wg.ConvergenceError,
        r"scipy.integrate.odeint: Excess work done on this call.*integrate up to an earlier time",
    ),
    "tolerance": (refused(rtol=lambda a: 1e-6 * a), wg.TracedValueError, r"solve_ivp: rtol is traced, but"),
    "step": (refused(max_step=lambda a: a), wg.TracedValueError, r"solve_ivp: max_step is traced, but"),
    "tolerance of odeint": (
        lambda a: odeint(lambda y, t: -a * y, [1.0], [0.0, 1.0], rtol=1e-6 * a)[-1, 0], wg.TracedValueError,
        r"odeint: rtol is traced, but the solution has no derivative with respect to it: pass wengert.stop_gradient",
    ),
    "other method": (
        refused(method=lambda a: OtherMethod), wg.UnsupportedFunctionError,
        r"only the methods RK23, RK45, DOP853, Radau, BDF, LSODA have derivatives, not <class '.*OtherMethod'>",
    ),
    "complex BDF": (
        lambda a: np.abs(solve_ivp(lambda t, y: 1j * a * y * 2 ** (int(40 * t) % 2), (0, 1), [1j], "BDF").y[0, -1]),
        wg.UnsupportedFunctionError, r"complex solutions by BDF have no derivatives here: use RK45 or DOP853",
    ),
    "interpolants": (
        lambda a: solve_ivp(lambda t, y: -a * y, (0, 1), [1.0], dense_output=True).sol.interpolants[0](0.5)[0],
        wg.TracedValueError, r"call the solution at times",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_cause(name):
    f, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        wg.grad(f, 1.0)
    assert wg.grad(final, 1.0) == pytest.approx(-2 * np.exp(-2.0), rel=1e-8)


def test_error_of_the_right_hand_side_propagates():
    def fun(t, y):
        raise KeyError("no such species")

    with pytest.raises(KeyError, match="no such species"):
        wg.grad(lambda a: solve_ivp(fun, (0, 1), [a]).y[0, -1], 1.0)
    assert wg.grad(final, 1.0) == pytest.approx(-2 * np.exp(-2.0), rel=1e-8)


def test_interval_may_have_length_zero():
    y, dy = wg.jvp(lambda x: solve_ivp(lambda t, y: -y, (1.0, x[0]), [x[1]]).y[0], np.array([1.0, 2.0]), np.eye(2))
    assert np.array_equal(y, [2.0, 2.0])
    assert np.array_equal(dy, [[0.0, -2.0], [1.0, 1.0]])


def test_nothing_traced():
    assert wg.grad(lambda a: a * final(1.0), 2.0) == final(1.0)


#: right-hand sides that switch where a state vanishes
SWITCHES = {
    "sign": lambda t, y, p: np.stack([y[1], -np.sign(y[0]) * p]),
    "where": lambda t, y, p: np.stack([y[1], np.where(y[0] > 0, -p, 0.5 * p)]),
    "branch": lambda t, y, p: np.stack([y[1], -p if y[0] > 0 else 0.5 * p]),
    "dry friction": lambda t, y, p: np.stack([y[1], -p * y[0] - 0.1 * np.sign(y[1])]),
}


@pytest.mark.parametrize("method", ["RK45", "Radau", "LSODA"])
@pytest.mark.parametrize("name", SWITCHES)
def test_switches_where_a_state_vanishes_are_refused(name, method):
    def final(p):
        return solve_ivp(SWITCHES[name], (0, 2.5), [1.0, 0.3], method, args=(p,), rtol=1e-6, max_step=0.1).y[0, -1]

    for derivative in (wg.grad(final), wg.derivative(final), wg.compile(wg.grad(final))):
        with pytest.raises(wg.NonSmoothError, match="jumps at t = "):
            derivative(1.0)


def free_fall(p):
    """Height of a mass that a spring pulls down from height 1, and lets go at height 0."""
    return solve_ivp(
        lambda t, y: np.stack([y[1], -p * np.maximum(y[0], 0.0)]), (0, 2.5), [1.0, 0.0], rtol=1e-9, atol=1e-11
    ).y[0, -1]


def test_kinks_have_first_derivatives_but_no_second_ones():
    def exact(p):  # cos(w t) until t = pi / (2 w), then at constant velocity
        w = np.sqrt(p)
        return -w * (2.5 - np.pi / (2 * w))

    np.testing.assert_allclose(free_fall(1.0), exact(1.0), rtol=1e-6)
    for derivative in (wg.grad(free_fall), wg.derivative(free_fall), wg.compile(wg.grad(free_fall))):
        np.testing.assert_allclose(derivative(1.0), -1.25, rtol=1e-6)
    for derivative in (wg.hessian(free_fall), wg.compile(wg.hessian(free_fall))):
        with pytest.raises(wg.NonSmoothError, match=r"has a kink at t = 1\.57"):
            derivative(1.0)


def test_kinks_at_fixed_times_have_second_derivatives():
    def final(p):  # y = exp(-p integral of abs(t - 1))
        return solve_ivp(lambda t, y: -p * np.abs(t - 1.0) * y, (0, 2), [1.0], "Radau", rtol=1e-9, atol=1e-11).y[0, -1]

    np.testing.assert_allclose(wg.hessian(final, 0.7), np.exp(-0.7), rtol=1e-6)


# ---- scipy.integrate.ode


def started(kind, f, y, integrator):
    solver = kind(f).set_integrator(integrator)
    return solver.set_initial_value(y, 0.0)


#: solvers in compiled code, which ignores errors raised by the right-hand side
REFUSED_SOLVERS = {
    "closure": lambda p: started(ode, lambda t, y: -p[0] * y, [1.0], "dopri5").integrate(1.0),
    "parameter": lambda p: started(ode, lambda t, y, k: -k * y, [1.0], "lsoda").set_f_params(p[0]).integrate(1.0),
    "complex": lambda p: started(complex_ode, lambda t, y: -1j * p[0] * y, [1.0], "vode").integrate(1.0),
    "start": lambda p: started(ode, lambda t, y: -y, p, "dop853").integrate(1.0),
    "time": lambda p: started(ode, lambda t, y: -y, [1.0], "dop853").integrate(p[0]),
}


@pytest.mark.parametrize("traced", REFUSED_SOLVERS)
def test_traced_values_in_ode_are_refused_before_its_compiled_code_runs(traced, capfd):
    f = REFUSED_SOLVERS[traced]
    p = np.array([0.7])
    for derivative in (wg.grad, wg.jvp, lambda f: wg.compile(wg.grad(f))):
        args = (p,) if derivative is not wg.jvp else (p, p)
        with pytest.raises(wg.TracedValueError, match=r"^scipy\.integrate\.(complex_)?ode: .* use solve_ivp"):
            derivative(lambda p: np.abs(f(p)[0]))(*args)
    assert capfd.readouterr().err == ""


def test_plain_solutions_by_ode_are_those_of_scipy():
    def f(p):
        one = started(ode, lambda t, y: -2.0 * y, [1.0], "dopri5")
        other = started(complex_ode, lambda t, y: -2j * y, [1.0], "dop853")
        assert isinstance(one, ode) and isinstance(other, complex_ode)
        return p[0] * (one.integrate(1.0)[0] + np.real(other.integrate(1.0)[0]))

    p = np.array([0.7])
    assert wg.grad(f)(p) * p == f(p) and wg.compile(wg.grad(f))(p) * p == f(p)


def test_without_output_times_or_before_the_first_one_the_result_is_scipys():
    def event(t, y):
        return y[0] - 0.9

    event.terminal = True

    def f(k, times):
        found = solve_ivp(lambda t, y: -k * y, (0, 1), [1.0], t_eval=times, events=event, rtol=1e-9, atol=1e-12)
        assert found.y == [] and len(found.t) == 0
        return found.t_events[0][0]

    for times in ([], [0.8, 0.9]):
        for derivative in (wg.grad(f), wg.compile(wg.grad(f))):
            assert derivative(0.5, times) == pytest.approx(np.log(0.9) / 0.25, rel=1e-6)
