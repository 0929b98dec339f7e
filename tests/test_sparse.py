"""Sparse Jacobians and Hessians against dense ones, whatever plan computes them."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import wengert as wg
from array_programs import PROGRAMS
from array_programs import X as START
from wengert.program import passes, spec
from wengert.program.entries import Refused, entries

RNG = np.random.default_rng(5)
X = np.linspace(0.1, 2.0, 12)
Y = np.linspace(-1.0, 2.0, 30)
A = sp.random_array((20, 30), density=0.1, format="csr", rng=RNG)
B = np.where(RNG.random((8, 30)) < 0.2, 1.5, 0.0)


def brusselator(y, k=0.1):
    n = int(np.sqrt(y.size // 2))
    u, v = y[: n * n].reshape(n, n), y[n * n :].reshape(n, n)

    def laplacian(w, border):
        p = np.full((n + 2, n + 2), border)
        p[1:-1, 1:-1] = w
        return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * w

    du = 1.0 + u * u * v - 4.4 * u + k * laplacian(u, 1.0)
    dv = 3.4 * u - u * u * v + k * laplacian(v, 3.0)
    return np.concatenate([du.ravel(), dv.ravel()])


def by_elements(x):
    F = np.zeros(x.size)
    for i in range(x.size):
        F[i] = x[i] ** 2 - x[i - 1] * x[(i + 1) % x.size]
    return F


def bordered(x):
    F = np.zeros(x.size)
    F[1:-1] = x[2:] - 2.0 * x[1:-1] + x[:-2] + np.exp(x[1:-1])
    F[0] = x[0] - 1.0
    F[-1] = np.sum(x[-3:] ** 2)
    return F


def periodic(x):
    u = x.reshape(6, 5)
    return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4.0 * u + np.sin(u)


def collocation(z):
    x, u = z[:8], z[8:]
    f = np.stack([x[1:4], u[:3]]) if u.size >= 3 else x
    return np.concatenate([np.diff(x[:4]) - 0.1 * f[0], u[:3] * f[1], [x[0] - 1.0]])


def cube(x):
    u = x.reshape(3, 2, 5)
    padded = np.zeros((5, 4, 7))
    padded[1:-1, 1:-1, 1:-1] = u
    total = -6.0 * u
    for axis in range(3):
        for step in (-1, 1):
            total = total + np.roll(padded, step, axis)[1:-1, 1:-1, 1:-1]
    return total * u


JACOBIANS = {
    "reaction and diffusion": (brusselator, RNG.uniform(0.5, 2.0, 32)),
    "a loop over elements": (by_elements, X),
    "borders of their own": (bordered, X),
    "periodic": (periodic, Y),
    "seven points": (cube, Y),
    "collocation": (collocation, X),
    "a sparse matrix": (lambda x: np.sin(A @ (x * x)), Y),
    "stages": (lambda x: A @ np.exp(A.T @ (A @ x)), Y),
    "a matrix with zeros": (lambda x: B @ np.exp(x), Y),
    "an arrow head": (lambda x: np.concatenate([[np.sum(x**3)], x[1:] * x[0]]), X),
    "choices": (lambda x: np.where(x > 1, x**2, np.sin(x)) * x[::-1], X),
    "a maximum": (lambda x: np.maximum(x[1:], x[:-1] * 1.2), X),
    "sums of rows": (lambda x: np.sum(x.reshape(6, 2) ** 2, axis=1), X),
    "sums of columns": (lambda x: np.sum(np.sin(x).reshape(6, 2), axis=0, keepdims=True), X),
    "means of rows": (lambda x: np.mean(x.reshape(3, 4) ** 2, axis=1), X),
    "elements picked": (lambda x: x[[3, 3, 1]] * x[[0, 1, 2]], X),
    "added at places": (lambda x: np.bincount([0, 1, 1, 2], x[:4] * x[1:5], 5), X),
    "less the mean": (lambda x: x - np.mean(x), X),
    "transposed": (lambda x: x.reshape(3, 4).T * 2.0 + x.reshape(4, 3) ** 2, X),
    "an outer product": (lambda x: x[:3, None] * x[None, 3:6], X),
    "cumulated": (lambda x: np.cumsum(x * x), X),
    "a solver": (lambda x: np.linalg.solve(np.diag(x[:4]) + np.eye(4), x[4:8]) * x[8:], X),
    "constant": (lambda x: np.floor(x) * 0.0, X),
    "linear": (lambda x: x[1:] - 2.0 * x[:-1], X),
    "a number": (lambda x: x[0] * x[3], X),
    "steps in time": (lambda x: _steps(x), X),
}
HESSIANS = {
    "chained": (lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2 + np.exp(-x[1:] * x[:-1])), X),
    "an arrow head": (lambda x: np.sum(x[0] * x[1:] ** 2) + np.sum(x**4), X),
    "a loop over elements": (lambda x: sum(100.0 * (x[i + 1] - x[i] ** 2) ** 2 for i in range(x.size - 1)), X),
    "least squares": (lambda x: np.sum(np.square(A @ x - 1.0)), Y),
    "differences of neighbours": (lambda x: np.sum(np.cos(np.diff(x.reshape(5, 6), axis=0))) + np.sum(x**3), Y),
    "separable": (lambda x: np.sum(np.log1p(x**2)), Y),
    "linear": (lambda x: np.sum(3.0 * x), X),
}


def _steps(x):
    u = x
    for _ in range(3):
        u = u + 0.1 * (np.roll(u, 1) - 2.0 * u + np.roll(u, -1)) - 0.01 * u**3
    return u


def dense(f, x, order):
    return np.reshape((wg.jacobian if order == 1 else wg.hessian)(f, x), (-1, x.size))


PLANS = [(1, "auto"), (1, "forward"), (1, "reverse"), (1, "mixed"), (2, "auto"), (2, "mixed")]


@pytest.mark.parametrize(("order", "mode"), PLANS)
@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
def test_values_are_those_of_the_dense_derivative(order, mode, format):
    op = wg.jacobian if order == 1 else wg.hessian
    for name, (f, x) in (JACOBIANS if order == 1 else HESSIANS).items():
        J = op(f, sparse=True, mode=mode, format=format)
        nnz = None
        for k in range(3):
            at = x * (1.0 + 0.01 * k)
            found = J(at)
            assert found.format == format, name
            np.testing.assert_allclose(found.toarray(), dense(f, at, order), rtol=1e-12, atol=1e-13, err_msg=name)
            assert nnz in (None, found.nnz), name
            nnz = found.nnz
        assert J.pattern.shape == found.shape
        assert J.pattern.nnz == nnz
        if order == 2:
            assert (found != found.T).nnz == 0, name
        if mode == "auto" and name not in ("cumulated", "a solver", "a matrix with zeros"):
            assert J.mode == "direct", (name, J.plan)
        elif mode != "auto":
            assert J.mode == mode
            assert J.colours.count <= x.size


@pytest.mark.parametrize("name", PROGRAMS)
def test_entries_of_programs_are_exact_or_refused(name):
    """Whatever writes in place, takes views, indexes and broadcasts."""
    program = wg.record(PROGRAMS[name], START)
    try:
        code, y = program._differentiable("jacobian")
        found = entries(code, code.inputs[0], y, program._example)
    except (Refused, TypeError):
        return
    spec.check(found.code)
    data = program.with_list(found.code).run([START])[0]
    expected = np.reshape(wg.jacobian(PROGRAMS[name], START), (-1, 3))
    matrix = sp.csr_array((data, found.indices, found.indptr), shape=expected.shape)
    assert matrix.has_canonical_format
    np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-12, atol=1e-14)


def test_most_programs_are_not_refused():
    refused = []
    for name, f in PROGRAMS.items():
        program = wg.record(f, START)
        try:
            code, y = program._differentiable("jacobian")
            entries(code, code.inputs[0], y, program._example)
        except (Refused, TypeError):
            refused.append(name)
    assert len(refused) <= len(PROGRAMS) // 2, refused


def test_constant_entries_need_no_instruction():
    program = wg.record(lambda x: 3.0 * x[1:] - x[:-1], X)
    code, y = program._differentiable("jacobian")
    found = entries(code, code.inputs[0], y, program._example)
    assert len(passes.simplified(found.code)) <= 3


def test_a_pattern_at_another_branch_is_found_anew():
    def f(x):
        return x[1:] * x[:-1] if x[0] > 0.0 else x[2:] * x[:-2]

    J = wg.jacobian(f, sparse=True)
    for x in (X, -X, X, -X * 2.0):
        np.testing.assert_allclose(J(x).toarray(), wg.jacobian(f, x), rtol=1e-14)
    assert J.pattern.shape == (10, 12)
    J(X)
    assert J.pattern.shape == (11, 12)


def test_what_f_reads_counts():
    J = wg.jacobian(lambda x: scale * x * x[::-1], sparse=True)
    scale = 2.0
    before = J(X).toarray()
    scale = 3.0
    np.testing.assert_allclose(J(X).toarray(), 1.5 * before, rtol=1e-15)


def test_arguments_values_and_outputs():
    f = lambda t, x, k: k * np.diff(x) ** 2 + t
    J = wg.jacobian(f, sparse=True, argnums=1, value=True)
    y, matrix = J(1.0, X, 3.0)
    np.testing.assert_allclose(y, f(1.0, X, 3.0), rtol=1e-15)
    np.testing.assert_allclose(matrix.toarray(), wg.jacobian(f, argnums=1)(1.0, X, 3.0), rtol=1e-14)
    values = wg.jacobian(f, sparse=True, argnums=1).values
    out = np.empty(matrix.nnz)
    assert values(1.0, X, 3.0, out=out) is out
    np.testing.assert_array_equal(out, matrix.data)
    with pytest.raises(ValueError, match="22 nonzeros"):
        values(1.0, X, 3.0, out=np.empty(3))
    at_once = wg.jacobian(bordered, X, sparse=True, format="csc")
    np.testing.assert_allclose(at_once.toarray(), wg.jacobian(bordered, X), rtol=1e-14)


def test_a_pattern_may_be_given():
    pattern = sp.diags_array([np.ones(12), np.ones(11)], offsets=[0, 1], shape=(12, 12))
    f = lambda x: x**2 + np.concatenate([x[1:], [0.0]])
    J = wg.jacobian(f, sparse=pattern)
    np.testing.assert_allclose(J(X).toarray(), wg.jacobian(f, X), rtol=1e-14)
    assert J.colours.count == 2
    np.testing.assert_array_equal(J.pattern.toarray(), pattern.toarray() != 0)
    with pytest.raises(wg.PatternError, match="pattern"):
        wg.jacobian(f, sparse=sp.eye_array(12))(X)
    H = wg.hessian(
        lambda x: np.sum(x[1:] * x[:-1] ** 2), sparse=np.tri(12, k=1, dtype=bool) & np.tri(12, k=1).T.astype(bool)
    )
    np.testing.assert_allclose(H(X).toarray(), wg.hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2), X), atol=1e-14)


def test_an_arrow_head_takes_a_few_rows_and_columns():
    n = 400
    head = np.zeros((n, n), dtype=bool)
    head[0] = head[:, 0] = True
    np.fill_diagonal(head, True)
    f = lambda x: np.concatenate([[np.sum(x**3)], x[1:] * x[0] + x[1:] ** 2])
    J = wg.jacobian(f, sparse=head)
    x = np.linspace(0.1, 2.0, n)
    np.testing.assert_allclose(J(x).toarray(), wg.jacobian(f, x), rtol=1e-13)
    assert (J.mode, J.colours.count) == ("mixed", 3)


def test_auto_is_dense_where_that_is_better():
    small = wg.jacobian(bordered, sparse="auto")
    np.testing.assert_allclose(small(X), wg.jacobian(bordered, X), rtol=1e-14)
    assert small.mode == "dense"
    large = wg.jacobian(bordered, sparse="auto")
    x = np.linspace(0.0, 1.0, 100)
    np.testing.assert_allclose(large(x).toarray(), wg.jacobian(bordered, x), rtol=1e-14)
    assert large.mode == "direct"
    full = wg.jacobian(lambda x: x * np.sum(x), sparse="auto")
    np.testing.assert_allclose(full(x), wg.jacobian(lambda x: x * np.sum(x), x), rtol=1e-13)
    assert full.mode == "dense"


def test_results_are_their_own_and_callables_pickle():
    J = wg.jacobian(by_elements, sparse=True)
    first = J(X)
    kept = first.toarray()
    second = J(2.0 * X)
    second.data[:] = 0.0
    np.testing.assert_array_equal(first.toarray(), kept)
    with pytest.raises(ValueError, match="read-only"):
        first.indices[0] = 3
    again = pickle.loads(pickle.dumps(J))
    np.testing.assert_array_equal(again(X).toarray(), kept)
    assert "sparse=True" in repr(J)
    assert "direct: 12 x 12, 36 nonzeros" in repr(J.plan)


def test_compiled_functions_and_derivatives_of_them():
    f = wg.compile(by_elements)
    np.testing.assert_allclose(wg.jacobian(f, sparse=True)(X).toarray(), wg.jacobian(by_elements, X), rtol=1e-14)
    energy = lambda x: np.sum(x[1:] ** 2 * x[:-1])
    J = wg.jacobian(wg.grad(energy), sparse=True)
    np.testing.assert_allclose(J(X).toarray(), wg.hessian(energy, X), rtol=1e-13, atol=1e-14)


def test_functions_that_are_not_replayed_run_as_they_are():
    calls = []

    def f(x):
        calls.append(1)
        return x**2

    J = wg.jacobian(f, sparse=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for k in range(3):
            np.testing.assert_allclose(J(X + k).toarray(), np.diag(2.0 * (X + k)), rtol=1e-15)
    assert len(calls) >= 3


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: wg.jacobian(np.sin, sparse="yes"), ValueError, "sparse is True"),
        (lambda: wg.jacobian(np.sin, sparse=True, format="dia"), ValueError, "format"),
        (lambda: wg.jacobian(np.sin, sparse=True, mode="both"), ValueError, "mode"),
        (lambda: wg.hessian(np.sum, sparse=True, mode="forward"), ValueError, "mode"),
        (lambda: wg.jacobian(np.sin, sparse=True, has_aux=True), ValueError, "has_aux"),
        (lambda: wg.jacobian(np.sin, sparse=True, argnums=(0, 1)), TypeError, "argnums"),
        (lambda: wg.jacobian(by_elements, sparse=True)(X, out=np.zeros(3)), TypeError, "values"),
        (lambda: wg.jacobian(wg.jacobian(by_elements, sparse=True), X), TypeError, "not differentiated itself"),
    ],
)
def test_errors_name_what_is_wrong(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_solvers_take_them():
    y0 = np.full(32, 1.0) + 0.1 * RNG.random(32)
    J = wg.jacobian(lambda t, y: brusselator(y), argnums=1, sparse=True, format="csc")
    given = {"method": "BDF", "rtol": 1e-6, "atol": 1e-8}
    exact = solve_ivp(lambda t, y: brusselator(y), (0.0, 1.0), y0, jac=J, **given)
    plain = solve_ivp(lambda t, y: brusselator(y), (0.0, 1.0), y0, **given)
    np.testing.assert_allclose(exact.y[:, -1], plain.y[:, -1], rtol=1e-4)
    found = least_squares(bordered, X, jac=wg.jacobian(bordered, sparse=True), tr_solver="lsmr")
    assert found.cost == pytest.approx(least_squares(bordered, X, jac=wg.jacobian(bordered)).cost, rel=1e-6)


def test_explain_compares_the_ways():
    told = wg.explain(wg.jacobian(bordered, sparse=True), np.linspace(0.0, 1.0, 100))
    assert {*told.ways} == {"direct", "forward", "reverse", "mixed", "dense"}
    assert told.plan.mode == "direct"
    assert told.ways["direct"].operations < told.ways["forward"].operations
    assert told.ways["forward"].plan.colours.count == 3
    assert "100 x 100, 298 nonzeros, 2.98%" in repr(told)
    measured = wg.explain(wg.hessian(HESSIANS["chained"][0], sparse=True), X, measure=True)
    assert all(way.seconds > 0.0 for way in measured.ways.values())
    assert {*measured.ways} == {"direct", "mixed", "dense"}
    with pytest.raises(ValueError, match="measure"):
        wg.explain(bordered, X, measure=True)


def test_fun_is_the_function():
    J = wg.jacobian(bordered, sparse=True)
    np.testing.assert_allclose(J.fun(X), bordered(X), rtol=1e-15)
