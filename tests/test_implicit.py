"""Implicitly defined functions: derivatives of every order by every driver, and errors where they do not exist."""

from __future__ import annotations

import functools
import itertools
import math
import re
import threading
import types

import mpmath as mp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse
from tests.helpers import assert_rounding, assert_same_bits
from wengert.core.operands.var import holds_traced

import wengert as wg
from wengert.core.levels import outside, running
from wengert.implicit import defines_root, fixed_point, root, theorem
from wengert.implicit.theorem import implicit

DIGITS = 30


# ---- references: derivatives of a root by mpmath, tensor by tensor

P = np.array([1.2, 0.7])
WEIGHTS = (0.8, -1.3)


def system(x, p, m=np):
    """Two equations, nonsymmetric and nonlinear in every variable."""
    return [p[0] * x[0] ** 2 + x[1] ** 3 - 3.1 * p[1], m.exp(0.3 * x[0]) * x[1] - p[0] * p[1] + 0.1 * x[0]]


def residual(x, p):
    F = np.zeros(2)
    F[:] = 0.5
    F[0], F[1] = system(x, p)
    return F


@functools.cache
def reference(order):
    """Return derivatives of sum(w * x(p)**2) as a tensor."""
    with mp.workdps(DIGITS):

        def value(*p):
            x = mp.findroot(lambda *x: system(x, p, mp), (1.1, 0.7))
            return sum(w * xi**2 for w, xi in zip(map(mp.mpf, WEIGHTS), x))

        found = np.empty((2,) * order)
        for index in np.ndindex(found.shape):
            counts = (index.count(0), index.count(1))
            found[index] = mp.diff(value, tuple(map(mp.mpf, P.tolist())), counts)
        return found


def by_args(p, **options):
    return root(residual, [1.0, 1.0], args=(p,), **options)


def by_closure(p, **options):
    return root(lambda x: residual(x, p), np.ones(2), **options)


def by_list(p, **options):
    return root(lambda x: system(x, p), np.ones(2), **options)


@defines_root(residual)
def by_decorator(p):
    found = scipy.optimize.fsolve(residual, [1.0, 1.0], args=(p,), xtol=1e-14)
    assert not holds_traced(p)
    return found


def by_fixed_point(p):
    """Run Newton's iteration with a constant matrix, which contracts."""
    inverse = np.linalg.inv(wg.jacobian(residual, [0.9, 0.8], args=(P,)))
    return fixed_point(lambda x: x - inverse @ residual(x, p), np.array([0.9, 0.8]))


def scaled(p):
    """Return the same root, with units of equations and unknowns that differ by 14 orders of magnitude."""
    units = np.array([1e8, 1e-6])
    y = root(lambda y: residual(y / units, p) * np.array([1e-9, 1e7]), units)
    return y / units


SOLUTIONS = {
    "args": by_args,
    "closure": by_closure,
    "list": by_list,
    "decorator": by_decorator,
    "fixed point": by_fixed_point,
    "badly scaled": scaled,
    "gmres": functools.partial(by_args, linsolve="gmres"),
    "products": functools.partial(by_closure, jac="matrix_free"),
    "solver of linear equations": functools.partial(by_args, linsolve=np.linalg.solve),
    "sparse": functools.partial(by_args, jac=lambda x, p: scipy.sparse.csr_array(wg.jacobian(residual, x, args=(p,)))),
    "operator": functools.partial(by_args, jac=lambda x, p: wg.linearize(residual, x, args=(p,))[1]),
    "polished": functools.partial(by_args, polish=True),
}


def part(f, i):
    return lambda x: f(x)[i]


def unit_directions(f, x, rows):
    return np.stack([f(x, row)[1] for row in rows])


#: name: (order, derivative of a function of two scalars at a point)
DRIVERS = {
    "grad": (1, wg.grad),
    "forward": (1, functools.partial(wg.jacobian, mode="forward")),
    "reverse": (1, functools.partial(wg.jacobian, mode="reverse")),
    "jvp": (1, lambda f, x: unit_directions(wg.jvp(f), x, np.eye(2))),
    "jvp, stacked": (1, lambda f, x: wg.jvp(f, x, np.eye(2))[1]),
    "vjp": (1, lambda f, x: wg.vjp(f, x)[1](1.0)),
    "vjp, stacked": (1, lambda f, x: wg.vjp(f, x)[1](np.array([1.0, 2.0]))[1] / 2),
    "linearize": (1, lambda f, x: (wg.linearize(f, x)[1] @ np.eye(2))[0]),
    "linearize, transposed": (1, lambda f, x: wg.linearize(f, x)[1].T @ np.ones(1)),
    "grad.fun": (1, lambda f, x: [D := wg.grad(f), D.fun(x), D(x)][2]),
    "hessian": (2, wg.hessian),
    "hessian, in parts": (2, wg.hessian),
    "hessian, forward": (2, functools.partial(wg.hessian, mode="forward")),
    "hessian, reverse": (2, functools.partial(wg.hessian, mode="reverse")),
    "hessian.fun": (2, lambda f, x: [D := wg.hessian(f), D.fun(x), D(x)][2]),
    "hvp": (2, lambda f, x: np.stack([wg.hvp(f, x, v) for v in np.eye(2)])),
    "hvp, stacked": (2, lambda f, x: wg.hvp(f, x, np.eye(2))),
    "jacobian of grad": (2, lambda f, x: wg.jacobian(wg.grad(f), x, mode="reverse")),
    "jvp of grad": (2, lambda f, x: wg.jvp(wg.grad(f), x, np.eye(2))[1]),
    "jvp of vjp": (2, lambda f, x: wg.jvp(lambda x: wg.vjp(f, x)[1](1.0), x, np.eye(2))[1]),
    "grad of jvp": (2, lambda f, x: np.stack([wg.grad(lambda x, v=v: wg.jvp(f, x, v)[1], x) for v in np.eye(2)])),
    "linearize of grad": (2, lambda f, x: wg.linearize(wg.grad(f), x)[1] @ np.eye(2)),
    "jacobian of hessian": (3, lambda f, x: wg.jacobian(wg.hessian(f), x)),
    "hessian of jvp": (3, lambda f, x: np.stack([wg.hessian(lambda x, v=v: wg.jvp(f, x, v)[1], x) for v in np.eye(2)])),
    "grad, grad, grad": (
        3,
        lambda f, x: np.stack([[wg.grad(part(wg.grad(part(wg.grad(f), i)), j))(x) for j in (0, 1)] for i in (0, 1)]),
    ),
    "jvp of hvp": (3, lambda f, x: wg.jvp(lambda x: wg.hvp(f, x, np.eye(2)), x, np.eye(2))[1]),
    "forward of reverse of forward": (
        3,
        lambda f, x: wg.jacfwd(wg.jacrev(wg.jacfwd(f)), x),
    ),
}


def summed(solution, seen=None):
    def f(p):
        x = solution(p) if seen is None else solution(p, has_info=True)
        if seen is not None:
            x, info = x
            seen.append(info.steps)
        return WEIGHTS[0] * x[0] ** 2 + WEIGHTS[1] * x[1] ** 2

    return f


def close(got, order, digits=(0, 11, 10, 9)):
    expected = reference(order)
    tolerance = 10.0 ** -digits[order] * np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", DRIVERS)
def test_every_driver_has_the_derivatives_of_its_order(name):
    order, driver = DRIVERS[name]
    steps = []
    close(driver(summed(by_closure, steps), P), order)
    assert set(steps) == {order}
    close(driver(summed(by_args), P), order)


@pytest.mark.parametrize("driver", ["forward", "reverse", "hessian", "hessian, reverse", "jacobian of hessian"])
@pytest.mark.parametrize("name", SOLUTIONS)
def test_every_way_to_state_and_solve_the_equations(name, driver):
    order, derivative = DRIVERS[driver]
    close(derivative(summed(SOLUTIONS[name]), P), order, digits=(0, 9, 9, 8))


def test_fourth_derivatives_are_exact():
    found = wg.derivative(lambda p: root(lambda x: x**3 - p, 1.5), 8.0, order=4)
    expected = math.prod((1 / 3, -2 / 3, -5 / 3, -8 / 3)) * 8.0 ** (1 / 3 - 4)
    assert_rounding(found, expected)


def test_one_step_fewer_makes_the_last_order_wrong(monkeypatch):
    """The number of steps matters, and the tests above would detect a wrong one."""
    counted = theorem.total_order
    monkeypatch.setattr(theorem, "total_order", lambda r: max(1, counted(r) - 1))
    for driver in ("hessian", "hessian, reverse", "hvp", "jacobian of hessian"):
        order, derivative = DRIVERS[driver]
        error = np.abs(derivative(summed(by_args), P) - reference(order)).max()
        assert error > 1e-2 * np.abs(reference(order)).max()


def test_constants_of_outer_derivative_need_no_steps():
    """Only derivatives that the root depends on count."""
    steps = []

    def inner(p):
        x, info = root(lambda x: x * x - p, 1.0, has_info=True)
        steps.append(info.steps)
        return x

    assert_rounding(wg.grad(lambda c: c * wg.grad(inner)(2.0))(3.0), 0.5 / math.sqrt(2))
    assert steps == [1]
    assert_rounding(wg.grad(lambda p: wg.grad(inner)(p))(2.0), -0.25 * 2**-1.5)
    assert steps == [1, 2]


def test_residual_is_traced_once_per_order_and_solved_with_plain_values():
    calls = {True: 0, False: 0}

    def counted(x, p):
        calls[holds_traced((x, p)) and holds_traced(p)] += 1
        return x * x * x - p

    for order, driver in ((1, wg.grad), (2, wg.hessian), (3, lambda f, x: wg.jacobian(wg.hessian(f), x))):
        calls[True] = 0
        driver(lambda p: np.sum(root(counted, np.ones(3), args=(p,))), np.array([1.1, 1.2, 1.3]))
        assert calls[True] == order


# ---- where a residual may hold traced values


class Model:
    def __init__(self, p):
        self.p = p

    def residual(self, x):
        return residual(x, self.p)

    def __call__(self, x):
        return self.residual(x)


def with_default(p):
    def f(x, p=p):
        return residual(x, p)

    return f


def with_keyword(p):
    def f(x, *, p=p):
        return residual(x, p)

    return f


def recursive(p):
    def f(x, depth=2):
        return f(x, depth - 1) if depth else residual(x, p)

    return f


GLOBAL = None


def by_global(x):
    return residual(x, GLOBAL)


HOLDERS = {
    "cell": lambda p: lambda x: residual(x, p),
    "cell of a cell": lambda p: (lambda g: lambda x: g(x))(lambda x: residual(x, p)),
    "default": with_default,
    "default of a keyword": with_keyword,
    "function that calls itself": recursive,
    "partial": lambda p: functools.partial(residual, p=p),
    "partial, by position": lambda p: functools.partial(lambda p, x: residual(x, p), p),
    "method": lambda p: Model(p).residual,
    "object": Model,
    "attribute in a cell": lambda p: (lambda model: lambda x: model.residual(x))(Model(p)),
    "list": lambda p: (lambda held: lambda x: residual(x, held))([p[0], p[1]]),
    "long list": lambda p: (lambda held: lambda x: residual(x, held[-2:]))([0.0] * 100 + [p[0], p[1]]),
    "dict of arrays": lambda p: (lambda held: lambda x: residual(x, held["p"]))({"p": p}),
    "namespace": lambda p: (lambda held: lambda x: residual(x, held.p))(types.SimpleNamespace(p=p)),
    "derivative": lambda p: (lambda d: lambda x: d(x))(wg.derivative(lambda x: (x - p) ** 2 * (1 + x * p))),
    "gradient": lambda p: wg.grad(lambda x: np.sum((x - p) ** 4 + (x - 0.5 * p) ** 2 * x)),
    "compiled": lambda p: wg.compile(lambda x: residual(x, p)),
    "generator, which is not searched": lambda p: Generated(p),
}


class Generated:
    """Holds its value where it is not searched for."""

    __slots__ = ("values",)

    def __init__(self, p):
        self.values = itertools.repeat(p)

    def __call__(self, x):
        return np.stack(system(x, next(self.values)))


@pytest.mark.parametrize("name", HOLDERS)
def test_traced_values_held_by_residual_are_found(name):
    def solution(p):
        return root(HOLDERS[name](p), np.array([1.0, 1.0]))

    def differences(order):
        with_h = [solution(P + h * e) for e in np.eye(2) for h in (1e-5, -1e-5)]
        return np.stack([(with_h[0] - with_h[1]) / 2e-5, (with_h[2] - with_h[3]) / 2e-5], axis=1)

    J = wg.jacobian(solution, P)
    np.testing.assert_allclose(J, differences(1), rtol=0, atol=1e-7 * max(1, np.abs(J).max()))
    assert_rounding(wg.jacobian(solution, P, mode="forward"), J)
    H = wg.jacobian(wg.jacobian(solution, mode="reverse"), P)
    step = (wg.jacobian(solution, P + [1e-5, 0]) - wg.jacobian(solution, P - [1e-5, 0])) / 2e-5
    np.testing.assert_allclose(H[:, :, 0], step, rtol=0, atol=1e-6 * max(1, np.abs(H).max()))


@pytest.mark.parametrize("derivative", [wg.grad, wg.hessian, wg.derivative])
def test_solvers_run_outside_derivatives(derivative):
    def f(p):
        sizes = []

        def solve(f, x0):
            assert not running.get()
            assert type(np.zeros(2)) is np.ndarray
            for _ in range(1000):
                assert isinstance(f(x0), float)
            return math.sqrt(p)

        for _ in range(2):
            x = root(lambda x: x * x - p, 1.0, solve=solve)
            sizes.append(getattr(running.get()[-1], "size", 0))
        assert sizes[1] - sizes[0] < 50
        return x

    derivative(f)(2.0)


def test_plain_values_are_returned_in_every_context():
    """A solver may run outside derivatives, and f may hold traced values that are not found."""

    def f(p):
        jacobian = theorem.plain_function(wg.jacobian(Generated(p)))
        with outside():
            J = jacobian(np.ones(2))
        assert type(J) is np.ndarray
        assert_rounding(J, wg.jacobian(residual, np.ones(2), args=(P,)))
        return np.sum(p)

    for mode in ("forward", "reverse"):
        wg.jacobian(f, P, mode=mode)


def test_global_that_holds_a_traced_value():
    def solution(p):
        global GLOBAL
        GLOBAL = p
        return root(by_global, np.ones(2))

    assert_rounding(wg.jacobian(solution, P), wg.jacobian(by_args, P))


def test_values_of_two_derivatives_in_one_residual():
    def f(a, b):
        return wg.grad(lambda b: wg.grad(lambda a: root(lambda x: x**3 - a * a * b, 1.0))(a))(b)

    # x = a^(2/3) b^(1/3)
    assert_rounding(f(2.0, 3.0), 2 / 9 * 2.0 ** (-1 / 3) * 3.0 ** (-2 / 3))


# ---- Kepler's equation: scalar and elementwise


def kepler(E, e, M):
    return E - e * np.sin(E) - M


def kepler_reference(e, M, orders):
    def anomaly(e, M):
        return mp.findroot(lambda E: E - e * mp.sin(E) - M, M + e / 2)

    with mp.workdps(DIGITS):
        return float(mp.diff(anomaly, (mp.mpf(e), mp.mpf(M)), orders))


@pytest.mark.parametrize(("e", "M"), [(0.3, 1.0), (0.95, 0.2), (0.0, 3.0), (0.999, 2.5)])
def test_kepler_equation_to_third_order(e, M):
    def anomaly(e, M):
        return root(kepler, M + e / 2, args=(e, M), solve=lambda f, x0: scipy.optimize.brentq(f, M - 1.1, M + 1.1))

    for order in (1, 2, 3):
        found = wg.derivative(lambda M: anomaly(e, M), M, order=order)
        expected = kepler_reference(e, M, (0, order))
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)
        found = wg.derivative(lambda e: anomaly(e, M), e, order=order)
        assert found == pytest.approx(kepler_reference(e, M, (order, 0)), rel=1e-9, abs=1e-12)
    mixed = wg.hessian(lambda q: anomaly(q[0], q[1]), [e, M])[0, 1]
    assert mixed == pytest.approx(kepler_reference(e, M, (1, 1)), rel=1e-9, abs=1e-12)


def test_decoupled_equations_are_solved_elementwise():
    e, M = 0.4, np.linspace(0.1, 3.0, 7)
    E = np.array([scipy.optimize.brentq(kepler, 0, 4, args=(e, m), xtol=1e-15) for m in M])
    calls = []

    def counted(E, e, M):
        calls.append(np.shape(E))
        return kepler(E, e, M)

    def anomaly(e, M):
        return implicit(counted, E, (e, M), name="kepler", elementwise=True)[0]

    slope = 1 / (1 - e * np.cos(E))
    assert_rounding(wg.jacobian(anomaly, e, args=(M,)), np.sin(E) * slope)
    assert_rounding(wg.jacobian(lambda M: anomaly(e, M), M, mode="reverse"), np.diag(slope))
    assert set(calls) == {(7,)}
    second = [kepler_reference(e, m, (2, 0)) for m in M]
    assert_rounding(wg.hessian(lambda e: np.sum(anomaly(e, M)), e), sum(second), scale=10)
    dense = wg.jacobian(lambda e: implicit(kepler, E, (e, M), name="kepler")[0], e)
    assert_rounding(dense, np.sin(E) * slope)


# ---- linear systems: the condition number is not squared


def matrix_of_condition(digits, n=30):
    rng = np.random.default_rng(5)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
    return left * np.logspace(0, -digits, n) @ right


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_linear_system_of_condition_number_1e6(mode):
    A = matrix_of_condition(6)
    with mp.workdps(DIGITS):
        exact = np.array((mp.matrix(A.tolist()) ** -1).tolist(), dtype=float)
    b = A @ np.linspace(1, 2, 30)
    found = wg.jacobian(lambda b: root(lambda x: A @ x - b, np.zeros(30)), b, mode=mode)
    assert np.abs(found - exact).max() <= 1e-10 * np.abs(exact).max()
    info = root(lambda x: A @ x - b, np.zeros(30), has_info=True)[1]
    assert 1e-8 < info.rcond < 1e-5
    A, x = matrix_of_condition(17), np.linspace(1, 2, 30)
    with pytest.raises(wg.SingularJacobianError):
        wg.jacobian(lambda b: implicit(lambda x: A @ x - b, x, name="f")[0], A @ x, mode=mode)


# ---- the value is that of the solver


VALUES = {
    "number": (lambda x, p: x * x - p * p, 1.0 + 2**-50, 1.0),
    "negative zero": (lambda x, p: 0 - x + (p - 1.0), np.float64(-0.0), 1.0),
    "negative zeros": (lambda x, p: -x + (p - 1.0), np.array([-0.0, 0.0]), 1.0),
    "float32": (lambda x, p: x**3 - p, np.array([2, 3], dtype=np.float32), np.array([8, 27], dtype=np.float32)),
    "float32, doubles around": (lambda x, p: x**3 - p, np.array([2, 3], dtype=np.float32), np.array([8.0, 27.0])),
    "matrix": (lambda x, p: x @ x - p, np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([[4.0, 5.0], [0.0, 9.0]])),
    "slightly inaccurate": (lambda x, p: x**3 - p, np.array([2.0, 3.0 + 1e-7]), np.array([8.0, 27.0])),
    "none": (lambda x, p: x - p, np.zeros(0), np.zeros(0)),
}


@pytest.mark.parametrize("polish", ["auto", True, False])
@pytest.mark.parametrize("name", VALUES)
def test_value_is_bit_identical_to_solver(name, polish):
    f, x, p = VALUES[name]

    def solution(p):
        return root(f, x, args=(p,), solve=lambda f, x0: x, polish=polish)

    assert solution(p) is x or np.ndim(x) == 0
    for derivative in (wg.vjp, functools.partial(wg.jvp)):
        value = derivative(solution, p)[0] if derivative is wg.vjp else wg.jvp(solution, p, np.ones_like(p))[0]
        assert_same_bits(value, np.asarray(x)[()])
    if np.ndim(p):
        assert_same_bits(wg.value_and_grad(lambda p: np.sum(wg.stop_gradient(solution(p))), p)[0], np.sum(x))


def test_unknown_may_be_a_matrix():
    B = np.array([[4.0, 5.0], [1.0, 9.0]])
    X = scipy.linalg.sqrtm(B)
    found = wg.jvp(lambda B: root(lambda X: X @ X - B, np.eye(2) * 2), B, np.ones((2, 2)))[1]
    assert_rounding(found, scipy.linalg.solve_sylvester(X, X, np.ones((2, 2))))


# ---- the point of differentiation


@pytest.mark.parametrize(
    ("error", "polish", "moved"),
    [
        (1e-4, "auto", True),
        (1e-8, "auto", True),
        (2e-14, "auto", False),
        (2e-14, True, True),
        (1e-4, False, False),
    ],
)
def test_derivative_is_taken_at_the_newton_corrected_point(error, polish, moved):
    p = np.array([4.0, 9.0])
    x = np.sqrt(p) * (1 + error)
    infos = []

    def solution(p):
        found, info = root(lambda x: x * x - p, x, solve=lambda f, x0: x, polish=polish, has_info=True)
        infos.append(info)
        return found

    at = np.sqrt(p) if moved else x
    y, J = wg.jacobian(solution, p, value=True)
    assert_same_bits(y, x)
    np.testing.assert_allclose(np.diag(J), 1 / (2 * at), rtol=5e-15)
    assert infos[0].correction == pytest.approx(error, rel=1e-3 + 1e-15 / error)
    second = wg.hessian(lambda p: np.sum(solution(p)), p)
    if moved:
        np.testing.assert_allclose(np.diag(second), -0.25 * p**-1.5, rtol=1e-13)


def test_correction_estimates_error_of_solution():
    exact = np.array([2.0, 3.0])
    x = exact * (1 + 1e-5)
    info = root(lambda x: x**3 - exact**3, x, solve=lambda f, x0: x, has_info=True)[1]
    assert info.correction == pytest.approx(1e-5, rel=1e-3)
    assert info.steps == 0
    assert info.rcond == pytest.approx(1.0, rel=0.9)


# ---- undefined derivatives


def solved_by(x):
    return {"solve": lambda f, x0: x}


FAILURES = {
    "double root": (lambda x, p: (x - p) ** 2, 1.5, {}, wg.SingularJacobianError),
    "double root, expanded": (lambda x, p: x * x - 2 * p * x + p * p, 1.5, {}, wg.SingularJacobianError),
    "double root, found exactly": (lambda x, p: (x - p) ** 2, 1.0, solved_by(1.0), wg.SingularJacobianError),
    "double root, nearly": (lambda x, p: (x - p) ** 2, 1.0, solved_by(1 + 1e-9), wg.SingularJacobianError),
    "double root, far from 0": (lambda x, p: (x - 1e4 * p) ** 2, 1.0, solved_by(1e4 + 1e-8), wg.SingularJacobianError),
    "double root, near 0": (lambda x, p: (x - 1e-4 * p) ** 2, 1.0, solved_by(1.0001e-4), wg.SingularJacobianError),
    "triple root": (lambda x, p: (x - p) ** 3, 1.0, solved_by(1 + 1e-6), wg.SingularJacobianError),
    "cosine at its top": (lambda x, p: 1 - np.cos(x - p), 1.5, {}, wg.SingularJacobianError),
    "double root in a system": (
        lambda x, p: np.stack([(x[0] - p) ** 2, x[1] - x[0]]), [1.0, 1.0], solved_by([1 + 1e-8, 1 + 1e-8]),
        wg.SingularJacobianError,
    ),
    "redundant equations": (
        lambda x, p: np.stack([x[0] + x[1] - p, 2 * x[0] + 2 * x[1] - 2 * p]), [0.5, 0.5], solved_by([0.5, 0.5]),
        wg.SingularJacobianError,
    ),
    "equation without unknowns": (
        lambda x, p: np.stack([x[0] + x[1] - p, p - 1]), [0.5, 0.5], solved_by([0.5, 0.5]), wg.SingularJacobianError,
    ),
    "infinite slope": (lambda x, p: np.sqrt(x - p), 1.0, solved_by(1.0), wg.SingularJacobianError),
    "no root": (lambda x, p: x * x + p, 0.7, {}, wg.ConvergenceError),
    "no root, said to be one": (lambda x, p: x * x + p, 0.7, solved_by(1e-3), wg.ConvergenceError),
    "stopped early": (lambda x, p: x * x - p, 0.7, solved_by(1.2), wg.ConvergenceError),
    "stopped early in a system": (
        lambda x, p: np.stack([x[0] - p, x[1] ** 2 - p]), [1.0, 1.0], solved_by([1.0, 1.1]), wg.ConvergenceError,
    ),
    "NaN": (lambda x, p: x * x - p, 0.7, solved_by(np.nan), wg.ConvergenceError),
    "infinite residual": (lambda x, p: p / x - 1, 0.7, solved_by(0.0), wg.ConvergenceError),
}  # fmt: skip


#: simple roots with some extreme property, and the derivative in p at p = 1
SIMPLE = {
    "a feature of a minute in seconds since 1970": (lambda x, p: np.tanh((x - 1.7e9) / 60) - p / 3, 1.7e9, 60 * 0.375),
    "sum of large terms near 0": (lambda x, p: x + (p - 1.0) * 1e3, 0.0, -1e3),
    "sum of large terms, inexact": (lambda x, p: (x + 0.1 * p) + 0.2 - 0.3, 0.0, -0.1),
    "exponents": (lambda x, p: np.log10(x) + 100 * p, 1e-100, -100 * np.log(10) * 1e-100),
    "two roots next to each other": (lambda x, p: (x - p) * (x - p - 1e-6), 1.0, 1.0),
    "steep": (lambda x, p: 1e12 * (x - p), 1.0, 1.0),
    "flat": (lambda x, p: 1e-12 * (x - p), 1.0, 1.0),
    "noise": (lambda x, p: (x**3 - 2 * p) + 1e-9 * np.sin(1e12 * wg.stop_gradient(x)), 1.25, 2 ** (1 / 3) / 3),
    "values of single precision": (lambda x, p: np.float32(1) * (x.astype(np.float32) - p), 1.0, 1.0),
}


@pytest.mark.parametrize("name", SIMPLE)
def test_simple_roots_do_not_raise(name):
    f, x0, expected = SIMPLE[name]

    def newton(f, x):
        for _ in range(60):
            x = x - f(x) / slope(x)
        return x

    def slope(x):
        return wg.derivative(f, x, args=(1.0,))

    found = wg.derivative(lambda p: root(f, x0, args=(p,), solve=newton), 1.0)
    assert found == pytest.approx(expected, rel=1e-6)
    if name != "values of single precision":
        x = newton(lambda x: f(x, 1.0), np.float64(x0))
        pair = wg.jacobian(
            lambda p: implicit(lambda z: np.stack([f(z[0], p), z[1] - p * z[0]]), np.array([x, x]), name="pair")[0], 1.0
        )
        np.testing.assert_allclose(pair, [expected, expected + x], rtol=1e-6)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("driver", [wg.grad, wg.hessian, functools.partial(wg.derivative, order=1)])
@pytest.mark.parametrize("name", FAILURES)
def test_undefined_derivative_raises(name, driver):
    f, x0, options, error = FAILURES[name]
    options = {k: (lambda f, x0, g=g: np.asarray(g(f, x0))[()]) for k, g in options.items()}

    def solution(p, **more):
        return np.sum(root(f, x0, args=(p,), **options, **more))

    with pytest.raises(error, match=r"implicit\.root\(<lambda>\)"):
        driver(solution, 1.0)
    assert not running.get()
    assert_rounding(wg.grad(lambda x: x * x)(3.0), 6.0)
    word = "on_failure" if error is wg.ConvergenceError else "on_singular"
    if name != "double root, found exactly":  # where a NaN is multiplied by partials of exactly 0
        assert np.isnan(wg.grad(lambda p: solution(p, **{word: "nan"}))(1.0))


@pytest.mark.parametrize("options", [{"jac": "matrix_free"}, {"linsolve": "gmres"}, {"linsolve": np.linalg.solve}])
def test_double_root_raises_without_factorisation(options):
    x = np.array([1 + 1e-8, 1 + 1e-8])

    def f(x, p):
        return np.stack([(x[0] - p) ** 2, x[1] - x[0]])

    with pytest.raises(wg.SingularJacobianError, match="without a matrix"):
        wg.jacobian(lambda p: root(f, x, args=(p,), solve=lambda f, x0: x, **options), 1.0)


def test_singular_jacobian_error_names_cause_and_remedy():
    def solution(p):
        x = np.array([0.5, 0.5, 1.0])
        return implicit(lambda x: np.stack([x[2] - p, x[0] + x[1] - p, 2 * (x[0] + x[1] - p)]), x, name="model")[0]

    with pytest.raises(wg.SingularJacobianError) as caught:
        wg.jacobian(solution, 1.0)
    for part in ("model", "reciprocal condition number", "largest residual", "on_singular='lstsq'"):
        assert part in str(caught.value)
    assert re.search("in row [12], column [01];", str(caught.value))
    assert isinstance(caught.value, np.linalg.LinAlgError)
    with pytest.raises(wg.ConvergenceError, match=r"largest residual is 1 .*solve="):
        root(lambda x: x * x + 1, 1.0)


def test_singular_jacobian_warns_on_request():
    with pytest.warns(RuntimeWarning, match="no root was found") as caught:
        x = root(lambda x: x * x + 1, 1.0, on_failure="warn")
    assert np.isfinite(x)
    assert caught[0].filename == __file__
    with pytest.warns(RuntimeWarning, match="no solution"):
        wg.grad(lambda p: root(lambda x: x * x - p, 1.0, solve=lambda f, x0: 1.2, on_failure="warn"))(2.0)
    assert np.isnan(root(lambda x: x * x + 1, 1.0, on_failure="nan"))


def test_dependent_equations_have_least_norm_derivative():
    A = np.array([[1.0, 2.0], [2.0, 4.0]])

    def solution(p):
        b = A[:, 0] * p
        return root(lambda x: A @ x - b, np.zeros(2), solve=lambda f, x0: np.array([0.2, 0.4]), on_singular="lstsq")

    for mode in ("forward", "reverse"):
        J = wg.jacobian(lambda q: solution(q[0]), [1.0], mode=mode)
        assert_rounding(J[:, 0], np.linalg.pinv(A) @ A[:, 0])
    assert_rounding(wg.hessian(lambda p: np.sum(solution(p) ** 2), 1.0), 2 * 0.2)


def test_elements_without_derivative_do_not_affect_others():
    def solution(p, **options):
        def f(x):
            return np.stack([(x[0] - p[0]) ** 2, x[1] - p[1], 0.0 * x[2]])

        return implicit(f, np.array([1 + 1e-8, 2.0, 3.0]), name="f", elementwise=True, **options)[0]

    with pytest.raises(wg.SingularJacobianError, match="element 2"):
        wg.jacobian(solution, np.array([1.0, 2.0, 3.0]))
    found = wg.jacobian(lambda p: solution(p, on_singular="lstsq"), np.array([1.0, 2.0, 3.0]))
    assert_rounding(found, np.diag([0.0, 1.0, 0.0]))


def test_minimum_at_saddle_point_raises():
    def at(x, sign):
        def gradient(x, p):
            return np.stack([x[0] - p + 0.5 * (x[1] - p), sign * (x[1] - p) + 0.5 * (x[0] - p)])

        return wg.jacobian(lambda p: implicit(gradient, x, (p,), name="minimum", symmetric=True)[0], 1.0)

    assert_rounding(at(np.ones(2), 1.0), np.ones(2))
    with pytest.raises(wg.SingularJacobianError, match="positive definite"):
        at(np.ones(2), -1.0)


# ---- iterative linear solvers


def test_large_systems_are_solved_matrix_free():
    n = 5000
    diagonal = np.linspace(1, 2, n)

    def f(x, p):
        return diagonal * x + 0.1 * np.roll(x, 1) * x - p

    def total(p):
        return np.sum(root(f, np.ones(n), args=(p * diagonal,), solve=newton))

    def newton(f, x0):
        x = x0
        for _ in range(30):
            x = x - (f(x)) / (diagonal + 0.1)
        return x

    found = wg.grad(total)(1.0)
    expected = (total(1.0 + 1e-5) - total(1.0 - 1e-5)) / 2e-5
    assert found == pytest.approx(expected, rel=1e-8)


def test_unconverged_linear_solve_raises():
    with pytest.raises(wg.ConvergenceError, match="preconditioner"):
        wg.grad(lambda p: np.sum(by_args(p, linsolve=lambda A, b: 0.9 * np.linalg.solve(A, b))))(P)


def test_inexact_inverse_is_corrected_by_one_more_step():
    def loose(A, b):
        return np.linalg.solve(A, b) * (1 + 1e-7)

    steps = []
    f = summed(functools.partial(by_args, linsolve=loose), steps)
    close(wg.grad(f, P), 1)
    assert steps == [2]


# ---- decorated solvers


def test_decorated_solver_is_called_with_plain_values():
    seen = []

    @defines_root(lambda x, p, q: x**3 - p * q, argnums=(0, 2))
    def cube_root(p, start, q, *, tol=1e-12):
        """Docstring."""
        seen.append((type(p), type(start), tol))
        return float(np.cbrt(p * q))

    assert cube_root.__doc__ == "Docstring."
    assert cube_root(2.0, 1.0, 4.0) == 2.0
    gradient = wg.grad(lambda z: cube_root(z[0], z[1], z[2], tol=1e-3))(np.array([2.0, 1.0, 4.0]))
    assert_rounding(gradient, [1 / 3, 0.0, 1 / 6])
    assert all(issubclass(kind, float) for _, kind, _ in seen)
    assert not any(holds_traced(kind) for kind, _, _ in seen)
    with pytest.raises(TypeError, match="by position"):
        wg.grad(lambda q: cube_root(2.0, 1.0, q=q))(4.0)


def test_decorated_solver_differentiates_captured_values():
    def f(c):
        @defines_root(lambda x, p: x * x - c * p)
        def solver(p):
            return math.sqrt(p * wg.stop_gradient(c))

        return solver(3.0)

    assert_rounding(wg.derivative(f, 2.0, order=2), -0.25 * math.sqrt(3.0) * 2.0**-1.5)


# ---- fixed points


FIXED_POINTS = {
    "contraction": (lambda x, p: np.cos(p * x), 0.7, 1.0),
    "no contraction": (lambda x, p: 3 - p * x, 0.7, 2.0),
    "vector": (lambda x, p: 0.5 * np.cos(p * x[::-1]) + 0.1 * x, np.array([0.4, 0.5]), 1.3),
    "list": (lambda x, p: [0.5 * np.cos(p * x[1]), 0.5 * np.sin(p * x[0])], np.array([0.4, 0.5]), 1.3),
}


@pytest.mark.parametrize("name", FIXED_POINTS)
def test_fixed_point_has_value_and_derivative_of_the_solution(name):
    T, x0, p = FIXED_POINTS[name]

    def solution(p):
        return fixed_point(T, x0, args=(p,))

    def rooted(p):
        return root(lambda x: x - np.stack(T(x, p)) if np.ndim(x0) else x - T(x, p), x0)

    x = solution(p)
    np.testing.assert_allclose(np.asarray(T(x, p)), x, rtol=1e-9)
    assert_rounding(wg.jacobian(solution, p), wg.jacobian(rooted, p))
    f, g = (lambda p: np.sum(solution(p))), (lambda p: np.sum(rooted(p)))
    assert_rounding(wg.hessian(f, p), wg.hessian(g, p))


def test_fixed_point_by_custom_solver():
    def iterate(T, x0):
        for _ in range(200):
            x0 = T(x0)
        return x0

    found = wg.derivative(lambda p: fixed_point(lambda x: np.cos(p * x), 0.7, solve=iterate), 1.0)
    x = iterate(np.cos, 0.7)
    assert_rounding(found, -x * np.sin(x) / (1 + np.sin(x)))
    with pytest.raises(wg.ConvergenceError):
        fixed_point(lambda x: x * x + 1, 0.7)


# ---- state


def test_exception_in_f_or_solver_propagates_without_leaks():
    def fails(x, p):
        raise ZeroDivisionError("of f")

    def solver(f, x0):
        raise KeyError("of the solver")

    for options, error in (({}, ZeroDivisionError), ({"solve": solver}, KeyError)):
        for driver in (wg.grad, wg.hessian, lambda f: wg.jacobian(wg.grad(f))):
            with pytest.raises(error):
                driver(lambda p, options=options: root(fails, 1.0, args=(p,), **options))(2.0)
            assert not running.get()
    assert_rounding(wg.grad(by_args_sum)(P), wg.jacobian(by_args_sum, P))


def by_args_sum(p):
    return np.sum(by_args(p))


def test_solver_runs_in_several_threads():
    expected = wg.hessian(by_args_sum, P)
    found = [None] * 6

    def work(i):
        found[i] = wg.hessian(by_args_sum, P)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one in found:
        assert_same_bits(one, expected)


def test_solver_may_call_f_from_other_threads():
    def solve(f, x0):
        found = []
        thread = threading.Thread(target=lambda: found.append(scipy.optimize.brentq(f, 0.1, 9.0, xtol=1e-15)))
        thread.start()
        thread.join()
        return found[0]

    assert_rounding(wg.grad(lambda p: root(lambda x: x * x - p, 1.0, solve=solve))(4.0), 0.25)


@pytest.mark.filterwarnings("ignore::wengert.MutatedInputWarning")
def test_residual_may_overwrite_its_argument():
    def f(x, p):
        x[0] *= p
        return x - 2 * p

    x0 = np.array([1.0, 1.0])
    J = wg.jacobian(lambda p: root(f, x0, args=(p,)), 3.0)
    assert_rounding(J, [0.0, 2.0], scale=1)
    assert x0.tolist() == [1, 1]


def test_untraced_call_computes_no_derivative():
    calls = []

    def f(x):
        calls.append(x)
        return x * x - 2.0

    root(f, 1.0)
    plain = len(calls)
    calls.clear()
    assert_rounding(wg.grad(lambda p: p * root(f, 1.0))(3.0), math.sqrt(2))
    assert len(calls) <= plain + 1
    assert type(root(f, 1.0)) is np.float64


def test_custom_solver_raises_in_record_and_falls_back_in_compile():
    with pytest.raises(wg.TracedValueError, match="runs a solver"):
        wg.record(by_decorator, P)
    compiled = wg.compile(by_decorator)
    assert_same_bits(compiled(P), by_decorator(P))
    assert_rounding(wg.jacobian(compiled)(P), wg.jacobian(by_decorator, P))
    assert_rounding(wg.record(by_args, P)(P), by_args(P))
    assert_rounding(wg.jacobian(wg.compile(by_args))(P), wg.jacobian(by_args, P))


@pytest.mark.parametrize(
    "option",
    [{"on_failure": "stop"}, {"on_singular": True}, {"polish": "yes"}, {"jac": "exact"}, {"linsolve": "qr"},
     {"jac": "matrix_free", "linsolve": "lu"}],
)  # fmt: skip
def test_options_are_checked(option):
    with pytest.raises(ValueError, match=r"implicit\.root"):
        root(lambda x: x - 1, 0.0, **option)


def test_shapes_and_types_are_checked():
    with pytest.raises(ValueError, match="as many equations as unknowns"):
        wg.grad(lambda p: np.sum(root(lambda x: x[:1] - p, np.ones(2), solve=lambda f, x0: x0)))(1.0)
    with pytest.raises(wg.ComplexValueError, match="real and imaginary parts"):
        wg.jvp(lambda p: root(lambda x: x * x - p, 1.0), 1.0 + 1.0j, 1.0)
    with pytest.raises(TypeError, match="complex"):
        wg.grad(lambda p: np.sum(root(lambda x: x - p, 1.0, solve=lambda f, x0: 1j)))(1.0)
