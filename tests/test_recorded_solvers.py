"""Solvers in programs: replayed values, derivatives of all orders, and when a function falls back to eager."""

import functools
import math
import os
import pickle
import types
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import special

import wengert as wg
from wengert.program.ir import verify
from wengert.scipy import optimize

FACTOR = 1.5
LAPLACE = 3.0 * np.eye(5) - np.eye(5, k=1) - np.eye(5, k=-1)
COUPLING = np.arange(9.0).reshape(3, 3) + 5 * np.eye(3)


def third_root(p):
    return (p + 1.0) ** (1 / 3)


def with_a_global(x, p):
    return [x[0] ** 2 - FACTOR * p[0], x[1] - p[1] * x[0]]


def by_closure(p):
    q = 2.0 * p
    w = np.stack([q[0] + 1.0, q[1], 3.0])
    return optimize.fsolve(lambda x: np.stack([w[2] * x[0] + w[1] * x[1] - 1.0, x[0] - w[0] * x[1]]), [1.0, 0.5])


def by_elements(p):
    def residual(x):
        F = np.zeros(5)
        for i in range(5):
            F[i] = 3.0 * x[i] - p[i % 2]
            if i:
                F[i] -= x[i - 1]
            if i < 4:
                F[i] -= x[i + 1]
        return F

    return optimize.root(residual, np.zeros(5)).x


def steps(p):
    x = np.array([1.0, 0.5])
    for _ in range(4):
        x = optimize.root(lambda y: y + 0.1 * p[0] * y - x - 0.1 * p[1], x).x
    return x


def steps_by_hand(p):
    x = np.array([1.0, 0.5])
    for _ in range(4):
        x = (x + 0.1 * p[1]) / (1 + 0.1 * p[0])
    return x


def nested(p):
    def outer(x):
        return x - optimize.root(lambda y: y**3 - x * p, np.ones(2)).x

    return optimize.root(outer, np.ones(2)).x


def bent(x, p):
    """Return x**3 = p below 2, and its tangent beyond."""
    return x**3 - p if x < 2 else 12 * x - 16 - p


def unbent(p):
    return p ** (1 / 3) if p < 8 else (p + 16) / 12


#: name: a function of two scalars with a solver inside, and its closed form
CASES = {
    "root": (lambda p: optimize.root(lambda x: x**3 - p - 1, np.ones(2)).x, third_root),
    "root by lm": (lambda p: optimize.root(lambda x, q: x**3 - q - 1, [1, 1], (p,), "lm").x, third_root),
    "columns": (
        lambda p: optimize.root(lambda x: COUPLING @ x - np.stack([p[0], p[1], p[0] * p[1]]), [0.0] * 3,
                                options={"col_deriv": True}).x,
        lambda p: np.linalg.inv(COUPLING) @ np.stack([p[0], p[1], p[0] * p[1]]),
    ),
    "a global": (
        lambda p: optimize.root(with_a_global, [1.0, 1.0], args=(p,))["x"],
        lambda p: np.sqrt(1.5 * p[0]) * np.stack([1.0, p[1]]),
    ),
    "a closure, by fsolve": (
        by_closure,
        lambda p: np.stack([2 * p[0] + 1.0, 1.0]) / (3 * (2 * p[0] + 1) + 2 * p[1]),
    ),
    "traced initial guess": (lambda p: optimize.root(lambda x: x**3 - p - 1, 1.5 * p + 1).x, third_root),
    "a start as a list": (lambda p: optimize.fsolve(lambda x: x**3 - p - 1, [p[0] + 1, 1.0]), third_root),
    "elements": (by_elements, lambda p: np.linalg.inv(LAPLACE) @ np.stack([p[0], p[1], p[0], p[1], p[0]])),
    "steps": (steps, steps_by_hand),
    "nested": (nested, np.sqrt),
    "two": (
        lambda p: optimize.root(lambda x: x * optimize.root(lambda y: y**3 - p - 1, np.ones(2)).x - p, np.ones(2)).x,
        lambda p: p / third_root(p),
    ),
    "a gradient": (
        lambda p: optimize.root(wg.grad(lambda x: np.sum(x**4) / 4 - (p + 1) @ x), np.ones(2)).x, third_root),
    "a solve in it": (
        lambda p: optimize.root(lambda x: np.linalg.solve(COUPLING[:2, :2], x) - p**2, np.ones(2)).x,
        lambda p: COUPLING[:2, :2] @ p**2,
    ),
    "brentq": (lambda p: optimize.brentq(lambda x: x * x - p @ p, 0.0, 99.0) * p, lambda p: np.sqrt(p @ p) * p),
    "residual with a special function": (
        lambda p: optimize.brentq(lambda x: special.jv(0, x * p[0]), 0.1, 4.0 / p[0]) * p,
        lambda p: special.jn_zeros(0, 1)[0] / p[0] * p,
    ),
    "traced bracket": (
        lambda p: optimize.ridder(lambda x: x * x - p[0], 0.0, 9.0 + p[0]) * p, lambda p: np.sqrt(p[0]) * p),
    "toms748": (lambda p: optimize.toms748(lambda x, q: x * x - q[0], 0.0, 9.0, args=(p,)) * p,
                lambda p: np.sqrt(p[0]) * p),
    "root_scalar, a bracket": (
        lambda p: optimize.root_scalar(lambda x: x * x - p[0], bracket=(0.0, 9.0 + p[1])).root * p,
        lambda p: np.sqrt(p[0]) * p,
    ),
    "root_scalar, newton": (
        lambda p: optimize.root_scalar(lambda x, q: x * x - q, args=p[0], x0=1.0, xtol=1e-12)["root"] * p,
        lambda p: np.sqrt(p[0]) * p,
    ),
    "root_scalar, secant": (
        lambda p: optimize.root_scalar(lambda x: x * x - p[0], x0=1.0, x1=p[1] + 0.5, method="secant").root * p,
        lambda p: np.sqrt(p[0]) * p,
    ),
    "newton": (lambda p: optimize.newton(lambda x: x * x - p[1], 1.0) * p, lambda p: np.sqrt(p[1]) * p),
    "secant": (lambda p: optimize.newton(lambda x: x * x - p[1], 1.0, x1=1.2) * p, lambda p: np.sqrt(p[1]) * p),
    "implicit": (lambda p: wg.implicit.root(lambda x, q: x**3 - q - 1, np.ones(2), args=(p,)), third_root),
    "implicit, a number": (
        lambda p: wg.implicit.root(lambda x: x**3 - p[0] - 1, 1.0) * p, lambda p: third_root(p[0]) * p),
    "implicit, a matrix": (
        lambda p: wg.implicit.root(lambda x: x @ COUPLING[:2, :2] - np.outer(p, p), np.eye(2)).ravel(),
        lambda p: (np.outer(p, p) @ np.linalg.inv(COUPLING[:2, :2])).ravel(),
    ),
    "branches": (
        lambda p: np.stack([optimize.root(lambda x, q=q: bent(x[0], q), [1.0]).x[0] for q in (p[0], p[1])]),
        lambda p: np.stack([unbent(p[0]), unbent(p[1])]),
    ),
}  # fmt: skip

POINT = np.array([0.7, 1.2])


def compiled(f, **options):
    """Return the compiled function, and a check that it was replayed."""
    made = wg.compile(f, **options)

    def check():
        assert made.paths and made._eager is None

    return made, check


def weighed(f):
    def number(p):
        y = f(p)
        return np.sum((y**2 + y**3) * np.arange(1.0, y.size + 1))

    return number


@pytest.mark.parametrize("name", CASES)
def test_replay_returns_solution_and_derivatives(name):
    f, formula = CASES[name]
    g, check = compiled(f)
    J = wg.jacobian(g)
    for scale in (1.0, 1.3, 0.8, 8.0, 1.1):
        p = POINT * scale
        np.testing.assert_allclose(g(p), formula(p), rtol=1e-7)
        np.testing.assert_allclose(J(p), wg.jacobian(formula)(p), rtol=1e-9, atol=1e-11)
    check()
    assert J.paths and J._eager is None
    for path in (path for paths in next(iter(J._tables.values())).paths.values() for path in paths):
        verify.check(path.program)


@pytest.mark.parametrize("name", CASES)
def test_solvers_have_second_derivatives_and_products(name):
    f, formula = CASES[name]
    g, check = compiled(weighed(f))
    expected = wg.hessian(weighed(formula))(POINT)
    H, scale = wg.hessian(g), np.abs(expected).max()
    np.testing.assert_allclose(H(POINT), expected, rtol=1e-7, atol=1e-9 * scale)
    v = np.array([0.3, -1.0])
    np.testing.assert_allclose(wg.hvp(g)(POINT, v), expected @ v, rtol=1e-7, atol=1e-9 * scale)
    slope = wg.grad(weighed(formula))(POINT)
    np.testing.assert_allclose(wg.jvp(g, POINT, v)[1], slope @ v, rtol=1e-9)
    np.testing.assert_allclose(wg.vjp(g, POINT)[1](2.0), 2 * slope, rtol=1e-9)
    around = wg.grad(lambda p: weighed(formula)(p) * p[0])(POINT)
    np.testing.assert_allclose(wg.grad(lambda p: g(p) * p[0])(POINT), around, rtol=1e-9)
    check()
    assert H._eager is None and H.paths


def test_solvers_have_third_derivatives():
    f = wg.compile(lambda t: np.sum(CASES["root"][0](t * POINT)))
    expected = wg.derivative(lambda t: np.sum(third_root(t * POINT)), order=3)(1.1)
    np.testing.assert_allclose(wg.derivative(f, order=3)(1.1), expected, rtol=1e-9)
    hessian = wg.hessian(wg.compile(lambda p: np.sum(CASES["root"][0](p))))
    third = wg.jacobian(hessian)(POINT)
    expected = wg.jacobian(wg.hessian(lambda p: np.sum(third_root(p))))(POINT)
    np.testing.assert_allclose(third, expected, rtol=1e-9, atol=1e-14)


def test_exact_program_is_bit_identical_to_function():
    f = CASES["a closure, by fsolve"][0]
    g = wg.compile(f, exact=True)
    for scale in (1.0, 1.0, 1.4, 0.6):
        assert np.array_equal(g(scale * POINT), f(scale * POINT))


def test_derivatives_are_taken_at_the_root_if_solver_stops_early():
    f, check = compiled(lambda p: optimize.root(lambda x: x**3 - p - 1, np.ones(2), tol=1e-3).x)
    assert np.abs(f(POINT) - third_root(POINT)).max() > 1e-9
    np.testing.assert_allclose(wg.jacobian(f)(POINT), wg.jacobian(third_root)(POINT), rtol=1e-12)
    check()


def test_solvers_have_batches_and_sparse_derivatives():
    f, formula = CASES["root"]
    rows = POINT * np.array([[1.0], [1.2], [0.7]])
    np.testing.assert_allclose(wg.vmap(wg.compile(f))(rows), third_root(rows), rtol=1e-9)
    found = wg.vmap(wg.jacobian(wg.compile(f)))(rows)
    np.testing.assert_allclose(found, [wg.jacobian(formula)(p) for p in rows], rtol=1e-9, atol=1e-14)
    sparse = wg.jacobian(wg.compile(f), sparse=True)(POINT)
    np.testing.assert_allclose(sparse.toarray(), wg.jacobian(formula)(POINT), rtol=1e-9, atol=1e-14)


def test_branches_of_residual_are_recorded_when_first_taken():
    f, check = compiled(lambda p: optimize.brentq(lambda x: bent(x, p), 0.0, 99.0))
    slope = wg.grad(f)
    for p in (1.0, 20.0, 7.9, 8.1, 1.5, 50.0, 2.0):
        np.testing.assert_allclose(f(p), unbent(p), rtol=1e-9)
        np.testing.assert_allclose(slope(p), p ** (-2 / 3) / 3 if p < 8 else 1 / 12, rtol=1e-9)
    check()
    assert f.paths < 4 and slope.paths < 5


def test_branches_of_residual_may_read_different_parameters():
    def kinked(p):
        low, high = p[0] * np.ones(1), p[1] * np.ones(1)
        return optimize.root(lambda x: x - low if x[0] < 2 else x - 2 - 0.1 * (high - 2), [9.0]).x

    f, check = compiled(kinked)
    J = wg.jacobian(f)
    for low, high in [(1.0, 1.0), (1.5, 1.9), (3.0, 4.0), (1.2, 1.0)]:
        p = np.array([low, high])
        np.testing.assert_allclose(f(p), kinked(p), rtol=1e-9)
        np.testing.assert_allclose(J(p), [[1.0, 0.0]] if f(p) < 2 else [[0.0, 0.1]], atol=1e-12)
    check()


def test_replay_without_convergence_behaves_like_function():
    def square(p):
        return optimize.root(lambda x: x * x - p, [1.0]).x

    f, check = compiled(square)
    J = wg.jacobian(f)
    two, minus = np.array([2.0]), np.array([-1.0])
    for _ in range(2):
        np.testing.assert_allclose(f(two), np.sqrt(2), rtol=1e-9)
        np.testing.assert_allclose(J(two), [[np.sqrt(1 / 8)]], rtol=1e-9)
        assert np.array_equal(f(minus), square(minus))
        with pytest.raises(wg.ConvergenceError, match="has not converged"):
            J(minus)
    check()
    found = wg.compile(lambda p: optimize.brentq(lambda x: x - p, 0.0, 1.0))
    assert found(0.5) == 0.5
    with pytest.raises(ValueError, match="different signs"):
        found(1.5)
    slow = wg.compile(lambda p: optimize.newton(lambda x: x**2 - p, 1.0, maxiter=4))
    np.testing.assert_allclose(slow(1.1), np.sqrt(1.1))
    with pytest.raises(RuntimeError, match="Failed to converge"):
        slow(1e6)


def test_multiple_root_raises_in_compiled_program():
    def double(p):
        return optimize.root(lambda x: (x - 1) * (x - p), [3.0], tol=1e-14).x

    f, check = compiled(double)
    J = wg.jacobian(f)
    np.testing.assert_allclose(J(np.array([2.0])), [[1.0]], rtol=1e-9)
    for _ in range(2):
        with pytest.raises(wg.SingularJacobianError, match="the Jacobian is singular at the solution"):
            J(np.array([1.0]))
    np.testing.assert_allclose(J(np.array([2.5])), [[1.0]], rtol=1e-9)
    np.testing.assert_allclose(f(np.array([1.0])), [1.0], rtol=1e-3)
    check()


def test_programs_with_solvers_can_be_saved_and_printed(tmp_path):
    f, formula = CASES["a global"]
    program = wg.record(f, POINT)
    assert "wengert.scipy.optimize.root(" in str(program)
    program.save(tmp_path / "root.program")
    for copy in (pickle.loads(pickle.dumps(program)), wg.Program.load(tmp_path / "root.program")):
        np.testing.assert_allclose(copy(2 * POINT), formula(2 * POINT), rtol=1e-7)
        np.testing.assert_allclose(copy.jacobian()(2 * POINT), wg.jacobian(formula)(2 * POINT), rtol=1e-9)
    with pytest.raises(wg.GuardError, match="a branch that was not recorded"):
        wg.record(lambda p: optimize.root(lambda x: bent(x[0], p[0]), [1.0]).x, POINT)(np.array([30.0, 1.0]))


class Held:
    """An object that the function reads, with a tolerance that is a float."""

    tolerance = 1e-10

    def __init__(self):
        self.weights = np.array([1.0, 2.0])

    def residual(self, x, p):
        return self.weights * x**3 - p

    def solution(self, p):
        return optimize.root(self.residual, np.ones(2), args=(p,), tol=self.tolerance).x


def test_attributes_read_by_methods_are_read_at_each_call():
    held = Held()
    f, check = compiled(held.solution)
    for weights in ([1.0, 2.0], [3.0, 0.5], [2.0, 2.0]):
        held.weights = np.array(weights)
        np.testing.assert_allclose(f(POINT), (POINT / weights) ** (1 / 3), rtol=1e-9)
        diagonal = np.diag((POINT / weights) ** (1 / 3) / POINT / 3)
        np.testing.assert_allclose(wg.jacobian(f)(POINT), diagonal, rtol=1e-9, atol=1e-14)
    held.weights[:] = 4.0
    np.testing.assert_allclose(f(POINT), (POINT / 4) ** (1 / 3), rtol=1e-9)
    check()


def cubes(p, **options):
    return optimize.root(lambda x: x**3 - p - 1, np.ones(2), **options)


def writes_outside(p):
    work = np.zeros(2)

    def residual(x):
        work[0] = x * x - p[0]
        return work[0]

    return optimize.brentq(residual, 0.0, 9.0) + work


#: functions that are not recorded, and the reason in the warning
AS_THEY_ARE = {
    "another field": (lambda p: cubes(p).x + cubes(p).nfev, "reads 'nfev' of a solver's result"),
    "a jac": (lambda p: cubes(p, jac=lambda x: np.diag(3 * x**2)).x, "runs a solver"),
    "a callback": (lambda p: cubes(p, method="broyden1", callback=lambda x, f: None).x, "runs a solver"),
    "an option": (lambda p: cubes(p, on_singular="lstsq").x, "runs a solver"),
    "minimize": (lambda p: optimize.minimize(lambda x: np.sum((x - p) ** 2), np.ones(2)).x, "runs a solver"),
    "halley": (
        lambda p: optimize.root_scalar(lambda x: x * x - p[0], x0=1.0, method="halley").root * p,
        "runs a solver",
    ),
    "info": (lambda p: wg.implicit.root(lambda x: x**3 - p, np.ones(2), has_info=True)[0], "runs a solver"),
    "many": (lambda p: optimize.root(lambda x: x - p[0], np.ones(501)).x[:2] * p[1], "more than 500"),
    "writes": (writes_outside, "into an array that it did not create"),
}


@pytest.mark.parametrize("name", AS_THEY_ARE)
def test_unsupported_calls_fall_back_to_eager(name):
    f, reason = AS_THEY_ARE[name]
    g = wg.compile(f)
    for _ in range(2):
        np.testing.assert_array_equal(g(POINT), f(POINT))
    with pytest.warns(UserWarning, match=reason):
        g(POINT)
    np.testing.assert_array_equal(g(1.1 * POINT), f(1.1 * POINT))
    np.testing.assert_array_equal(wg.jacobian(g)(POINT), wg.jacobian(f)(POINT))
    with pytest.raises(wg.TracedValueError, match=reason):
        wg.record(f, POINT)


def test_result_fields_in_program_match_eager_run():
    def checked(p):
        found = cubes(p)
        assert found.success and found["status"] == 1 and "converged" in found.message
        return found.x

    f, check = compiled(checked)
    np.testing.assert_allclose(f(POINT), third_root(POINT), rtol=1e-9)
    np.testing.assert_allclose(f(2 * POINT), third_root(2 * POINT), rtol=1e-9)
    check()


def test_residual_that_needs_plain_floats_falls_back_to_eager():
    def logarithm(p):
        return optimize.brentq(lambda x: table["exp"](x) - p, -5.0, 5.0)

    table = types.MappingProxyType({"exp": functools.partial(math.exp)})  # functions in it are not followed
    f = wg.compile(logarithm)
    with pytest.warns(UserWarning, match=r"wengert\.scipy\.optimize\.brentq: a traced value cannot become"):
        assert f(2.0) == logarithm(2.0)
    assert f(3.0) == logarithm(3.0)
    g, check = compiled(lambda p: optimize.brentq(lambda x: x * math.exp(FACTOR) - p, -5.0, 5.0))
    np.testing.assert_allclose([g(2.0), wg.grad(g)(2.0)], [2 * math.exp(-FACTOR), math.exp(-FACTOR)], rtol=1e-9)
    check()


def test_one_program_runs_in_several_threads():
    f, check = compiled(CASES["root"][0])
    points = [POINT * (1 + 0.1 * i) for i in range(20)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(wg.jacobian(f), 3 * points))
    expected = [wg.jacobian(third_root)(p) for p in 3 * points]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-13)
    f(POINT)
    check()


def test_complex_initial_guess_falls_back_to_eager():
    def imaginary(p):
        return optimize.newton(lambda x: x * x + p, 1j).imag

    f = wg.compile(imaginary)
    assert f(2.0) == imaginary(2.0) and f(2.0) == imaginary(2.0)
    with pytest.warns(UserWarning, match="starts at a complex value"):
        assert f(2.0) == imaginary(2.0)


def test_solver_of_constants_runs_once():
    f, check = compiled(lambda p: optimize.root(lambda x: x**3 - 8, np.ones(2)).x * p)
    np.testing.assert_allclose(f(POINT), 2 * POINT, rtol=1e-9)
    np.testing.assert_allclose(wg.jacobian(f)(POINT), 2 * np.eye(2), rtol=1e-9)
    check()


def test_traced_tolerance_falls_back_to_eager():
    f = SimpleNamespace(run=lambda p: cubes(p, tol=p[0] * 1e-9).x)
    with pytest.warns(wg.CompileWarning, match="a tolerance or an option is computed"):
        np.testing.assert_array_equal(wg.compile(f.run)(POINT), f.run(POINT))


def test_warning_of_a_step_is_shown_but_not_followed(monkeypatch):
    shown = []

    def show(message, category, filename, *rest):
        os.stat(filename)  # as the module linecache does, where warnings are printed
        shown.append(category)

    def root(p):
        return optimize.root(lambda x: np.stack([np.log(x[0]) - p, x[1] - x[0]]), [5.0, 0.0], method="lm").x

    compiled = wg.compile(root)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", show)
        assert np.allclose(compiled(0.3), np.exp(0.3))
    assert set(shown) == {RuntimeWarning}  # and no CompileWarning
    assert compiled.paths == 1
