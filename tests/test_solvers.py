"""SciPy's solvers accept our callables unchanged, reach the known solution, and need fewer calls of f."""

import functools

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import (
    Bounds,
    NonlinearConstraint,
    curve_fit,
    fsolve,
    least_squares,
    minimize,
    root,
)

import wengert as wg


def counted(f):
    """Return f with a count of its calls."""

    @functools.wraps(f)
    def run(*args):
        run.calls += 1
        return f(*args)

    run.calls = 0
    return run


# ---- roots ---------------------------------------------------------------------------------------


def cubic_operator(u):
    """Return -u'' + u^3 on the unit interval with zero at both ends, by central differences in a loop."""
    n = u.size
    F = np.zeros(n)
    for i in range(n):
        left = u[i - 1] if i > 0 else 0.0
        right = u[i + 1] if i < n - 1 else 0.0
        F[i] = (2 * u[i] - left - right) * (n + 1) ** 2 + u[i] ** 3
    return F


SOLUTION = 3 * np.sin(np.pi * np.arange(1, 31) / 31)
LOAD = cubic_operator(SOLUTION)  # the discrete equation has SOLUTION as its exact root
GUESS = np.full(30, 1.0)


def boundary_value_residual(u):
    return cubic_operator(u) - LOAD


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_root_accepts_jacobian(method):
    exact, differences = counted(boundary_value_residual), counted(boundary_value_residual)
    found = root(exact, GUESS, jac=wg.jacobian(exact), method=method)
    root(differences, GUESS, method=method)
    assert found.success
    np.testing.assert_allclose(found.x, SOLUTION, rtol=1e-7)
    assert exact.calls < differences.calls / 2


def test_fsolve_accepts_jacobian_as_fprime():
    exact, differences = counted(boundary_value_residual), counted(boundary_value_residual)
    found = fsolve(exact, GUESS, fprime=wg.jacobian(exact))
    fsolve(differences, GUESS)
    np.testing.assert_allclose(found, SOLUTION, rtol=1e-7)
    assert exact.calls < differences.calls / 2


def test_root_accepts_jacobian_with_further_arguments_and_list_output():
    def circle_and_line(x, radius, slope):
        return [x[0] ** 2 + x[1] ** 2 - radius**2, x[1] - slope * x[0]]

    found = root(circle_and_line, [1.0, 1.0], args=(5.0, 0.75), jac=wg.jacobian(circle_and_line))
    np.testing.assert_allclose(found.x, [4.0, 3.0], rtol=1e-9)


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_fun_and_jacobian_share_one_evaluation_per_point(method):
    points = []

    def residual(u):
        points.append(np.array(wg.stop_gradient(u)).tobytes())
        return boundary_value_residual(u)

    J = wg.jacobian(residual)
    found = root(J.fun, GUESS, jac=J, method=method)
    np.testing.assert_allclose(found.x, SOLUTION, rtol=1e-7)
    assert len(points) == len(set(points))


def test_fun_and_gradient_share_one_evaluation_per_point():
    rosenbrock_counted = counted(rosenbrock)
    g = wg.grad(rosenbrock_counted)
    found = minimize(g.fun, [-1.2, 1.0], jac=g, method="BFGS")
    np.testing.assert_allclose(found.x, [1.0, 1.0], rtol=1e-5)
    assert rosenbrock_counted.calls == found.nfev


# ---- least squares -------------------------------------------------------------------------------


def rosenbrock_residual(x):
    return np.array([10 * (x[1] - x[0] ** 2), 1 - x[0]])


@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares_accepts_jacobian(method):
    exact, differences = counted(rosenbrock_residual), counted(rosenbrock_residual)
    found = least_squares(exact, [-1.2, 1.0], jac=wg.jacobian(exact), method=method)
    least_squares(differences, [-1.2, 1.0], method=method)
    np.testing.assert_allclose(found.x, [1.0, 1.0], rtol=1e-10)
    assert exact.calls < differences.calls


@pytest.mark.parametrize("method", ["trf", "dogbox"])
def test_least_squares_accepts_jacobian_with_bounds(method):
    exact, differences = counted(rosenbrock_residual), counted(rosenbrock_residual)
    bounds = ([-np.inf, 1.5], np.inf)
    found = least_squares(exact, [2.0, 2.0], jac=wg.jacobian(exact), bounds=bounds, method=method)
    least_squares(differences, [2.0, 2.0], bounds=bounds, method=method)
    # On the bound x_1 = 3/2 the cost is stationary in x_0 where 200 x_0^3 - 299 x_0 - 1 = 0.
    x_0 = max(np.roots([200.0, 0.0, -299.0, -1.0]).real)
    np.testing.assert_allclose(found.x, [x_0, 1.5], rtol=1e-6)
    assert exact.calls < differences.calls


def relaxation(t, offset, amplitude, rate, frequency):
    return offset + amplitude * np.exp(-rate * t) * np.cos(2 * np.pi * frequency * t)


@pytest.mark.parametrize("method", ["lm", "trf"])
def test_curve_fit_accepts_jacobian_with_respect_to_all_parameters(method):
    t = np.linspace(0, 4, 60)
    true = (0.3, 2.0, 0.5, 0.8)
    measured = relaxation(t, *true)
    guess = (0.1, 1.5, 0.7, 0.75)
    exact, differences = counted(relaxation), counted(relaxation)
    jac = wg.jacobian(exact, argnums=slice(1, None))
    options = {"method": method, "xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}

    found, covariance = curve_fit(exact, t, measured, p0=guess, jac=jac, **options)
    curve_fit(differences, t, measured, p0=guess, **options)
    np.testing.assert_allclose(found, true, rtol=1e-9)
    assert covariance.shape == (4, 4)
    assert exact.calls < differences.calls


def test_curve_fit_returns_standard_deviations_of_straight_line():
    def line(x, intercept, slope):
        return intercept + slope * x

    x = np.arange(6.0)
    y = np.array([1.1, 2.9, 5.2, 6.8, 9.1, 10.9])
    found, covariance = curve_fit(line, x, y, jac=wg.jacobian(line, argnums=slice(1, None)))
    A = np.stack([np.ones(6), x], axis=1)
    solution, (cost,), _, _ = np.linalg.lstsq(A, y)
    np.testing.assert_allclose(found, solution, rtol=1e-7)
    np.testing.assert_allclose(covariance, cost / 4 * np.linalg.inv(A.T @ A), rtol=1e-7)


# ---- minimisation --------------------------------------------------------------------------------


def rosenbrock(x):
    total = 0.0
    for i in range(len(x) - 1):
        total += 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "Newton-CG", "SLSQP"])
def test_minimize_accepts_gradient(method):
    start = np.array([-1.2, 1.0, 0.7])
    exact, differences = counted(rosenbrock), counted(rosenbrock)
    tol = {"tol": 1e-10}
    found = minimize(exact, start, jac=wg.grad(exact), method=method, **tol)
    np.testing.assert_allclose(found.x, np.ones(3), rtol=1e-4)
    if method != "Newton-CG":  # it requires a gradient
        minimize(differences, start, method=method, **tol)
        assert exact.calls < differences.calls


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "SLSQP"])
def test_minimize_accepts_value_and_gradient_in_one_call(method):
    start = np.array([-1.2, 1.0, 0.7])
    exact, differences = counted(rosenbrock), counted(rosenbrock)
    found = minimize(wg.value_and_grad(exact), start, jac=True, method=method, tol=1e-10)
    minimize(differences, start, method=method, tol=1e-10)
    np.testing.assert_allclose(found.x, np.ones(3), rtol=1e-4)
    assert exact.calls < differences.calls / 2
    assert exact.calls == found.nfev


# Problem 71 of Hock and Schittkowski (1981), Test Examples for Nonlinear Programming Codes.
HS71_START = [1.0, 5.0, 5.0, 1.0]
HS71_SOLUTION = [1.0, 4.74299963, 3.82114998, 1.37940829]
HS71_MINIMUM = 17.0140173


def hs71(x):
    return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]


def hs71_product(x):
    return np.prod(x) - 25


def hs71_sphere(x):
    return np.sum(x**2) - 40


def hs71_both(x):
    return [hs71_product(x), hs71_sphere(x)]


def test_slsqp_accepts_gradients_of_objective_and_constraints():
    calls = {}
    for exact in (True, False):
        objective, product, sphere = counted(hs71), counted(hs71_product), counted(hs71_sphere)
        jac = (lambda f: {"jac": wg.grad(f)}) if exact else (lambda f: {})
        found = minimize(
            objective,
            HS71_START,
            method="SLSQP",
            bounds=Bounds(1, 5),
            constraints=[
                {"type": "ineq", "fun": product, **jac(product)},
                {"type": "eq", "fun": sphere, **jac(sphere)},
            ],
            options={"ftol": 1e-10},
            **jac(objective),
        )
        calls[exact] = [f.calls for f in (objective, product, sphere)]
        np.testing.assert_allclose(found.x, HS71_SOLUTION, rtol=1e-6)
        assert found.fun == pytest.approx(HS71_MINIMUM, rel=1e-8)
    assert all(fewer < more for fewer, more in zip(calls[True], calls[False]))


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0:UserWarning")  # from SciPy's own Hessian approximation
def test_trust_constr_accepts_gradient_and_jacobian_of_constraints():
    calls = {}
    for exact in (True, False):
        objective, constraint = counted(hs71), counted(hs71_both)
        found = minimize(
            objective,
            HS71_START,
            method="trust-constr",
            jac=wg.grad(objective) if exact else None,
            bounds=Bounds(1, 5),
            constraints=NonlinearConstraint(
                constraint, [0, 0], [np.inf, 0], jac=wg.jacobian(constraint) if exact else "2-point"
            ),
            options={"gtol": 1e-9, "xtol": 1e-12, "maxiter": 500},
        )
        calls[exact] = [objective.calls, constraint.calls]
        np.testing.assert_allclose(found.x, HS71_SOLUTION, rtol=1e-5)
        assert found.fun == pytest.approx(HS71_MINIMUM, rel=1e-6)
    assert all(fewer < more for fewer, more in zip(calls[True], calls[False]))


# ---- stiff differential equations ----------------------------------------------------------------


def robertson(t, y):
    """Robertson (1966): an autocatalytic reaction with rates nine orders of magnitude apart."""
    slow = 0.04 * y[0]
    fast = 3e7 * y[1] ** 2
    back = 1e4 * y[1] * y[2]
    return [back - slow, slow - back - fast, fast]


def van_der_pol(t, y, epsilon):
    dy = np.empty(2)
    dy[0] = y[1]
    dy[1] = ((1 - y[0] ** 2) * y[1] - y[0]) / epsilon
    return dy


# Mazzia and Magherini (2008), Test Set for Initial Value Problem Solvers, release 2.4: ROBER and VDPOL.
ROBERTSON_END = [0.2083340149701255e-07, 0.8333360770334713e-13, 0.9999999791665050]
VAN_DER_POL_END = [0.1706167732170483e01, -0.8928097010247975e00]


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_solve_ivp_accepts_jacobian_of_robertson_reaction(method):
    exact, differences = counted(robertson), counted(robertson)
    options = {"method": method, "rtol": 1e-6, "atol": [1e-14, 1e-19, 1e-8]}
    found = solve_ivp(exact, (0, 1e11), [1.0, 0.0, 0.0], jac=wg.jacobian(exact, argnums=1), **options)
    solve_ivp(differences, (0, 1e11), [1.0, 0.0, 0.0], **options)
    assert found.success
    np.testing.assert_allclose(found.y[:, -1], ROBERTSON_END, rtol=1e-3)
    assert exact.calls < differences.calls


@pytest.mark.parametrize("method", ["BDF", "Radau"])
def test_solve_ivp_accepts_jacobian_of_van_der_pol_oscillator(method):
    exact, differences = counted(van_der_pol), counted(van_der_pol)
    options = {"method": method, "args": (1e-6,), "rtol": 1e-5, "atol": 1e-7}
    found = solve_ivp(exact, (0, 2), [2.0, 0.0], jac=wg.jacobian(exact, argnums=1), **options)
    solve_ivp(differences, (0, 2), [2.0, 0.0], **options)
    assert found.success
    np.testing.assert_allclose(found.y[:, -1], VAN_DER_POL_END, rtol=1e-3)
    assert exact.calls < differences.calls


class Cooled:
    """Equations of an object whose text would be made of a traced value."""

    def __init__(self):
        self.rate = 0.5

    def __repr__(self):
        raise AssertionError("the text of an object is needed by error messages only")

    def equations(self, x, p):
        return x + self.rate * np.sin(x) - p

    def loss(self, p):
        return np.sum(root(self.equations, [1.0, 1.0], args=(p,)).x)

    def loss_of_steps(self, p):
        return np.sum(wg.checkpoint(self.equations)(p, 1.0))


@pytest.mark.parametrize("transform", [lambda f: f, wg.compile], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["loss", "loss_of_steps"])
def test_methods_are_named_without_the_text_of_their_object(name, transform):
    f, p = getattr(Cooled(), name), np.array([1.2, 0.9])
    expected = [(f(p + h) - f(p - h)) / 2e-6 for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(wg.grad(transform(f))(p), expected, rtol=1e-6)
