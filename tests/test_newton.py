"""`root(method="newton")`, and the banded factors that it uses."""

import functools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.features import parameters_of
from wengert.program.banded import MIN_SIZE, _lapack, banded
from wengert.scipy import optimize


def newton(f, x0, **options):
    return optimize.root(f, x0, method="newton", **options)


def broyden(x, p=1.0):
    """Broyden's tridiagonal equations."""
    left, right = np.concatenate([np.zeros(1), x[:-1]]), np.concatenate([x[1:], np.zeros(1)])
    return (3 - 2 * p * x) * x - left - 2 * right + 1


def poisson(u, load):
    """A nonlinear equation on a square grid, whose Jacobian has a wide band."""
    n = round(u.size**0.5)
    v = np.zeros((n + 2, n + 2))
    v[1:-1, 1:-1] = u.reshape(n, n)
    laplacian = v[2:, 1:-1] + v[:-2, 1:-1] + v[1:-1, 2:] + v[1:-1, :-2] - 4 * v[1:-1, 1:-1]
    return (laplacian - np.sinh(v[1:-1, 1:-1]) + load).ravel()


#: equations, start, root
ROOTS = {
    "linear": (lambda x: np.array([[2.0, 1.0], [1.0, 3.0]]) @ x - [3.0, 4.0], [9.0, -9.0], [1.0, 1.0]),
    "scalar start": (lambda x: x**2 - 2, 1.0, [2**0.5]),
    "list": (lambda x: [x[0] * x[1] - 2, x[0] - x[1]], [1.0, 2.0], [2**0.5, 2**0.5]),
    "Rosenbrock": (lambda x: np.stack([10 * (x[1] - x[0] ** 2), 1 - x[0]]), [-1.2, 1.0], [1.0, 1.0]),
    "overshooting": (np.arctan, [3.0], [0.0]),
    "overflowing": (lambda x: np.exp(x) - 1, [-8.0], [0.0]),
    "undefined beyond": (np.log, [30.0], [1.0]),
    "root at zero": (lambda x: np.stack([np.sin(x[0]), x[1] - 1]), [1.0, 5.0], [0.0, 1.0]),
    "at the root": (lambda x: x - 3.0, [3.0], [3.0]),
    "badly scaled": (
        lambda x: np.stack([1e9 * (x[0] ** 2 - 4e12), 1e-6 * (x[1] * x[0] - 1.0)]), [1e6, 1e-6], [2e6, 5e-7]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROOTS)
def test_newton_finds_the_root(name):
    f, x0, root = ROOTS[name]
    found = newton(f, x0)
    assert found.success and found.status == 1 and found.method == "newton"
    assert np.allclose(found.x, root, rtol=1e-9, atol=1e-12)
    assert np.allclose(found.fun, f(found.x)) and found.nfev >= found.nit == found.njev


@pytest.mark.parametrize("n", [3, 10, 49, 50, 200, 3000])
def test_newton_solves_systems_of_every_size(n):
    found = newton(broyden, -np.ones(n))
    assert found.success and found.nit < 8 and np.max(np.abs(broyden(found.x))) < 1e-12


def test_newton_uses_sparse_factors_for_wide_bands():
    found = newton(poisson, np.zeros(30**2), args=(1.5,))
    assert found.success and np.max(np.abs(poisson(found.x, 1.5))) < 1e-12
    slopes = wg.jacobian(lambda p: newton(poisson, np.zeros(30**2), args=(p,)).x)(1.5)
    step = 1e-5
    ends = [newton(poisson, np.zeros(30**2), args=(1.5 + s,), tol=1e-14).x for s in (step, -step)]
    assert np.allclose(slopes, (ends[0] - ends[1]) / (2 * step), rtol=1e-6)


@pytest.mark.parametrize("n", [5, 60])
@pytest.mark.parametrize("operator", [wg.jacobian, functools.partial(wg.jacobian, mode="forward")])
def test_derivatives_are_those_of_the_root(n, operator):
    def by(method):
        return lambda p: optimize.root(broyden, -np.ones(n), args=(p,), method=method, tol=1e-13).x

    assert np.allclose(operator(by("newton"))(1.1), operator(by("hybr"))(1.1), rtol=1e-11)
    assert np.allclose(wg.jacobian(operator(by("newton")))(1.1), wg.jacobian(operator(by("hybr")))(1.1), rtol=1e-9)
    closed = operator(lambda p: newton(lambda x: broyden(x, p), -np.ones(n)).x)(1.1)
    assert np.allclose(closed, operator(by("hybr"))(1.1), rtol=1e-11)


@pytest.mark.parametrize("n", [5, 60, 200])
def test_programs_run_newton(n):
    def f(p, start=-1.0):
        return newton(lambda x: broyden(x, p), np.full(n, start)).x

    compiled = wg.compile(f)
    J = wg.jacobian(compiled)
    for p in (1.0, 1.1, 0.9):
        assert np.allclose(compiled(p), f(p), rtol=1e-13)
        assert np.allclose(J(p), wg.jacobian(f)(p), rtol=1e-11)
    assert J.paths == 1
    hessian = wg.jacobian(J)(1.0)
    assert np.allclose(hessian, wg.jacobian(wg.jacobian(f))(1.0), rtol=1e-9)
    loaded = wg.record(f, 1.0)
    assert np.allclose(loaded(1.1), f(1.1))


def test_newton_takes_a_jacobian_and_a_callback():
    seen, calls = [], []

    def jac(x):
        calls.append(x)
        return np.diag(2 * x)

    def both(x):
        return x**2 - 4, np.diag(2 * x)

    found = newton(lambda x: x**2 - 4, [1.0, 3.0], jac=jac, callback=lambda x, f: seen.append(f))
    assert np.allclose(found.x, 2.0) and len(calls) == found.njev and len(seen) >= found.nit - 1
    assert np.allclose(newton(both, [1.0, 3.0], jac=True).x, 2.0)
    slopes = wg.jacobian(lambda p: newton(lambda x: x**2 - p, [1.0, 3.0], jac=jac).x)(4.0)
    assert np.allclose(slopes, 0.25)
    slopes = wg.jacobian(lambda p: newton(lambda x: (x**2 - p, np.diag(2 * x)), [1.0, 3.0], jac=True).x)(4.0)
    assert np.allclose(slopes, 0.25)


def test_failures_have_a_status_and_raise_in_derivatives():
    no_root = newton(lambda x: x**2 + 1, [3.0])
    assert not no_root.success and no_root.status in (3, 4)
    singular = newton(lambda x: np.stack([x[0] + x[1] - 1, x[0] + x[1] - 2]), [0.0, 0.0])
    assert singular.status == 3 and "singular" in singular.message
    slow = newton(lambda x: x**3, [1.0], options={"maxiter": 5})
    assert slow.status == 2 and "maxiter = 5" in slow.message
    with pytest.raises(wg.ConvergenceError, match=r"No step makes progress|singular"):
        wg.grad(lambda p: newton(lambda x: x**2 + p, [3.0]).x[0])(1.0)
    with pytest.raises(TypeError, match="option 'maxiter', not 'xtol'"):
        newton(lambda x: x, [1.0], options={"xtol": 1e-3})
    with pytest.raises(ValueError, match="2 equations for 1 unknowns"):
        newton(lambda x: np.stack([x[0], x[0]]), [1.0])


def test_tolerance_is_the_last_correction():
    loose, tight = (newton(broyden, -np.ones(9), tol=tol) for tol in (1e-2, 1e-14))
    assert loose.nit < tight.nit and np.allclose(loose.x, tight.x, rtol=1e-2)


# ---- bands


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(MIN_SIZE, 120),
    below=st.integers(0, 4),
    above=st.integers(0, 4),
    seed=st.integers(0, 2**32 - 1),
    columns=st.integers(0, 3),
)
def test_banded_factors_solve_like_dense_ones(n, below, above, seed, columns):
    rng = np.random.default_rng(seed)
    A = np.tril(np.triu(rng.standard_normal((n, n)), -below), above) + 6 * np.eye(n)
    A[rng.integers(n), rng.integers(n)] *= 0  # an element that is zero in this matrix only
    A += 6 * np.eye(n)
    factors = banded(A)
    if below + above > 0.125 * n:
        assert factors is None
        return
    b = rng.standard_normal((n, columns) if columns else n)
    assert np.allclose(factors.solve(b), np.linalg.solve(A, b), rtol=1e-9, atol=1e-12)
    assert np.allclose(factors.solve(b, True), np.linalg.solve(A.T, b), rtol=1e-9, atol=1e-12)
    assert factors.rcond() == pytest.approx(1 / np.linalg.cond(A, 1), rel=0.9)


def test_condition_numbers_without_the_function_of_lapack(monkeypatch):
    A = 2.5 * np.eye(60) - np.eye(60, k=1) + np.triu(np.tril(np.ones((60, 60)), -1), -2)
    known = 1 / np.linalg.cond(A, 1)
    trf, trs, _ = _lapack()
    monkeypatch.setattr("wengert.program.banded._lapack", lambda: (trf, trs, None))
    assert banded(A).rcond() == pytest.approx(known, rel=0.1)


def test_matrices_without_a_band_have_none():
    A = np.eye(100)
    assert banded(A) is not None and banded(np.eye(MIN_SIZE - 1)) is None
    A[3, 60] = 1e-300
    assert banded(A) is None
    corner = np.eye(100)
    corner[0, -1] = corner[-1, 0] = 1.0
    assert banded(corner) is None and banded(np.ones((100, 100))) is None
    assert banded(np.eye(100, dtype=np.float32)) is None


def test_singular_bands_are_reported():
    A = np.diag(np.ones(100), 0)
    A[50, 50] = 0
    factors = banded(A)
    assert factors.is_singular and factors.rcond() == 0
    with pytest.raises(wg.SingularJacobianError):
        wg.jacobian(lambda p: wg.implicit.root(lambda x: A @ x - p * A.diagonal(), np.zeros(100)))(1.0)


# ---- sparse factors within programs


def shuffled(n):
    """A nonlinear equation on a square grid of n x n points in random order, whose Jacobian has no narrow band."""
    order = np.random.default_rng(0).permutation(n * n)
    place = np.argsort(order)

    def residual(x, p):
        u = x[place].reshape(n, n)
        row, column = np.zeros((1, n)), np.zeros((n, 1))
        below, above = np.concatenate([row, u[:-1]]), np.concatenate([u[1:], row])
        left, right = np.concatenate([column, u[:, :-1]], axis=1), np.concatenate([u[:, 1:], column], axis=1)
        y = 4 * u - below - above - left - right + (p[0] * np.sinh(u) - p[1]) / n
        return y.ravel()[order]

    return residual


def grid_root(n):
    f = shuffled(n)
    return lambda p: optimize.root(f, np.zeros(n * n), args=(p,), method="newton", tol=1e-13).x


@pytest.mark.parametrize("n", [9, 26])
def test_sparse_jacobians_within_programs_have_sparse_factors(n):
    at = np.array([1.3, 2.0])
    root, exact = grid_root(n), shuffled(n)
    compiled = wg.compile(root)
    linear = wg.record(root, at)._listing.calls[0].compute.paths.systems()[0].linear
    assert linear.pattern is not None and not linear.is_banded and linear.nnz < 5 * n * n
    for p in (at, at[::-1].copy()):
        np.testing.assert_allclose(exact(compiled(p), p), 0, atol=1e-12)
    assert compiled.paths == 1
    J, step = wg.jacobian(compiled)(at), 1e-5
    for k, h in enumerate(step * np.eye(2)):
        np.testing.assert_allclose(J[:, k], (compiled(at + h) - compiled(at - h)) / (2 * step), rtol=1e-7, atol=1e-9)
    gradient = wg.grad(wg.compile(lambda p: np.sum(root(p) ** 2)))(at)
    np.testing.assert_allclose(gradient, 2 * J.T @ compiled(at), rtol=1e-10)
    H = wg.hessian(wg.compile(lambda p: np.sum(root(p)[:3] ** 2)))(at)
    slope = wg.grad(lambda p: np.sum(compiled(p)[:3] ** 2))
    change = [slope(at + h) - slope(at - h) for h in 1e-6 * np.eye(2)]
    np.testing.assert_allclose(H, np.stack(change) / 2e-6, rtol=1e-5, atol=1e-9)


def test_large_dense_systems_run_outside_of_programs():
    n = 501

    def f(p):
        return optimize.root(lambda x: x + 0.1 * p * np.sum(x) / n - 1.0, np.zeros(n), method="newton").x

    with pytest.raises(wg.TracedValueError, match="501 equations whose Jacobian is not sparse"):
        wg.record(f, 1.0)
    np.testing.assert_allclose(f(1.0), 1 / 1.1, rtol=1e-9)


def test_first_compiled_function_of_a_process_is_analysed():
    parameters_of.cache_clear()
    compiled = wg.compile(grid_root(8))
    compiled(np.array([1.3, 2.0]))
    assert compiled.paths == 1


def test_first_compiled_call_of_a_large_system_forms_no_dense_matrix():
    n = 60**2
    compiled = wg.compile(lambda p: newton(poisson, np.zeros(n), args=(p,)).x)
    tracemalloc.start()
    found = compiled(1.5)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * n * n / 4
    np.testing.assert_array_equal(compiled(1.5), compiled(1.5))
    np.testing.assert_allclose(found, compiled(1.5), rtol=1e-10)


def test_compiled_function_watches_what_only_the_equations_read():
    class Held:
        p = 1.0

    compiled = wg.compile(lambda q: newton(lambda x: broyden(x, Held.p) + q, -np.ones(60)).x)
    for Held.p in (1.0, 1.2, 0.9):
        expected = newton(lambda x: broyden(x, Held.p) + 0.1, -np.ones(60)).x
        np.testing.assert_allclose(compiled(0.1), expected, rtol=1e-10)
