"""Sparse Jacobians and Hessians equal dense ones, whatever the plan."""

import copy
import functools
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares
from wengert.core.tape.tape import kernel_rows
from wengert.program.ir.ir import kind_of

import wengert as wg
from array_programs import PROGRAMS
from array_programs import X as START
from helpers import in_threads
from wengert.program.ir import verify
from wengert.program.jacobian.accumulate import Refused, entries
from wengert.program.passes import simplify
from wengert.sparse import drivers

RNG = np.random.default_rng(5)
X = np.linspace(0.1, 2.0, 12)
Y = np.linspace(-1.0, 2.0, 30)
A = sp.csr_array(np.where(RNG.random((20, 30)) < 0.1, RNG.random((20, 30)), 0.0))
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
    "separate borders": (bordered, X),
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
    "bincount with weights": (lambda x: np.bincount([0, 1, 1, 2], x[:4] * x[1:5], 5), X),
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
def test_values_equal_dense_derivative(order, mode, format):
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
def test_nonzeros_of_random_programs_are_exact_or_refused(name):
    """The programs write in place, use views, index and broadcast."""
    program = wg.record(PROGRAMS[name], START)
    try:
        code, y = program._differentiable("jacobian")
        found = entries(code, code.inputs[0], y, program._example)
    except (Refused, TypeError):
        return
    verify.check(found.code)
    data = program._with_ir(found.code)._execute([START])[0]
    expected = np.reshape(wg.jacobian(PROGRAMS[name], START), (-1, 3))
    matrix = sp.csr_array((data, found.indices, found.indptr), shape=expected.shape)
    assert matrix.has_canonical_format
    np.testing.assert_allclose(matrix.toarray(), expected, rtol=1e-12, atol=1e-14)
    found_at = sp.csr_array((np.ones(data.size), found.indices, found.indptr), shape=expected.shape).toarray() > 0
    where = shuffled(found_at | (RNG.random(expected.shape) < 0.5)).coords
    ordered = entries(code, code.inputs[0], y, program._example, wanted=where)
    inside = program._with_ir(ordered.code)._execute([START])[0]
    np.testing.assert_allclose(inside, expected[where], rtol=1e-12, atol=1e-14)


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


def test_constant_nonzeros_need_no_instruction():
    program = wg.record(lambda x: 3.0 * x[1:] - x[:-1], X)
    code, y = program._differentiable("jacobian")
    found = entries(code, code.inputs[0], y, program._example)
    assert len(simplify.simplified(found.code)) <= 3


def test_pattern_is_detected_again_at_another_branch():
    def f(x):
        return x[1:] * x[:-1] if x[0] > 0.0 else x[2:] * x[:-2]

    J = wg.jacobian(f, sparse=True)
    for x in (X, -X, X, -X * 2.0):
        np.testing.assert_allclose(J(x).toarray(), wg.jacobian(f, x), rtol=1e-14)
    assert J.pattern.shape == (10, 12)
    J(X)
    assert J.pattern.shape == (11, 12)


def test_state_read_by_f_is_watched():
    J = wg.jacobian(lambda x: scale * x * x[::-1], sparse=True)
    scale = 2.0
    before = J(X).toarray()
    scale = 3.0
    np.testing.assert_allclose(J(X).toarray(), 1.5 * before, rtol=1e-15)


def test_values_accept_further_arguments_and_out():
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


def test_given_pattern_is_used():
    pattern = sp.diags_array([np.ones(12), np.ones(11)], offsets=[0, 1], shape=(12, 12))
    f = lambda x: x**2 + np.concatenate([x[1:], [0.0]])
    J = wg.jacobian(f, sparse=pattern)
    np.testing.assert_allclose(J(X).toarray(), wg.jacobian(f, X), rtol=1e-14)
    assert J.mode == "direct"
    np.testing.assert_array_equal(J.pattern.toarray(), pattern.toarray() != 0)
    with pytest.raises(wg.PatternError, match="pattern"):
        wg.jacobian(f, sparse=sp.eye_array(12))(X)
    H = wg.hessian(
        lambda x: np.sum(x[1:] * x[:-1] ** 2), sparse=np.tri(12, k=1, dtype=bool) & np.tri(12, k=1).T.astype(bool)
    )
    np.testing.assert_allclose(H(X).toarray(), wg.hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2), X), atol=1e-14)


def test_arrow_head_is_covered_by_few_rows_and_columns():
    n = 400
    head = np.zeros((n, n), dtype=bool)
    head[0] = head[:, 0] = True
    np.fill_diagonal(head, True)
    f = lambda x: np.concatenate([[np.sum(x**3)], x[1:] * x[0] + x[1:] ** 2])
    x = np.linspace(0.1, 2.0, n)
    for mode in ("auto", "mixed"):
        J = wg.jacobian(f, sparse=head, mode=mode)
        np.testing.assert_allclose(J(x).toarray(), wg.jacobian(f, x), rtol=1e-13)
    assert (J.mode, J.colours.count) == ("mixed", 3)


def test_auto_chooses_dense_if_cheaper():
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


def test_results_own_their_memory_and_callables_pickle():
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


def test_compiled_functions_have_sparse_derivatives():
    f = wg.compile(by_elements)
    np.testing.assert_allclose(wg.jacobian(f, sparse=True)(X).toarray(), wg.jacobian(by_elements, X), rtol=1e-14)
    energy = lambda x: np.sum(x[1:] ** 2 * x[:-1])
    J = wg.jacobian(wg.grad(energy), sparse=True)
    np.testing.assert_allclose(J(X).toarray(), wg.hessian(energy, X), rtol=1e-13, atol=1e-14)


def test_compile_of_a_sparse_derivative_is_that_of_the_compiled_function():
    for J in (wg.jacobian(by_elements, sparse=True), wg.jacobian(by_elements, sparse=True, workers=2)):
        made = wg.compile(J, tier="vm")
        assert type(made) is type(J) and made.fun.tier == "vm"
        np.testing.assert_allclose(made(X).toarray(), wg.jacobian(by_elements, X), rtol=1e-14)


def test_uncompilable_functions_fall_back_to_eager():
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
        (lambda: wg.jacobian(wg.jacobian(by_elements, sparse=True), X), TypeError, "cannot be differentiated"),
        (lambda: wg.jacobian(lambda x: {"a": x}, X, sparse=True), TypeError, "numpy.concatenate"),
        (lambda: wg.jacobian(lambda x: (x**2, x), X, sparse=True), TypeError, "not a container"),
        (lambda: wg.jacobian(lambda x: x["a"] ** 2, {"a": X}, sparse=True), TypeError, "not a container"),
    ],
)
def test_errors_name_the_cause(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_scipy_solvers_accept_sparse_derivatives():
    y0 = np.full(32, 1.0) + 0.1 * RNG.random(32)
    J = wg.jacobian(lambda t, y: brusselator(y), argnums=1, sparse=True, format="csc")
    given = {"method": "BDF", "rtol": 1e-6, "atol": 1e-8}
    exact = solve_ivp(lambda t, y: brusselator(y), (0.0, 1.0), y0, jac=J, **given)
    plain = solve_ivp(lambda t, y: brusselator(y), (0.0, 1.0), y0, **given)
    np.testing.assert_allclose(exact.y[:, -1], plain.y[:, -1], rtol=1e-4)
    found = least_squares(bordered, X, jac=wg.jacobian(bordered, sparse=True), tr_solver="lsmr")
    assert found.cost == pytest.approx(least_squares(bordered, X, jac=wg.jacobian(bordered)).cost, rel=1e-6)


def test_explain_compares_direct_and_coloured():
    told = wg.explain(wg.jacobian(bordered, sparse=True), np.linspace(0.0, 1.0, 100))
    assert {*told.methods} == {"direct", "forward", "reverse", "mixed", "dense"}
    assert told.plan.mode == "direct"
    assert told.methods["direct"].operations < told.methods["forward"].operations
    assert told.methods["forward"].plan.colours.count == 3
    assert 0.0 < told.methods["direct"].estimate < told.methods["forward"].estimate < 1e-3
    assert "3 colours, estimated" in repr(told)
    assert "100 x 100, 298 nonzeros (2.98%)" in repr(told)
    measured = wg.explain(wg.hessian(HESSIANS["chained"][0], sparse=True), X, measure=True)
    assert all(cost.seconds > 0.0 for cost in measured.methods.values())
    assert {*measured.methods} == {"direct", "mixed", "dense"}
    with pytest.raises(ValueError, match="measure"):
        wg.explain(bordered, X, measure=True)


def test_fun_returns_value_of_function():
    J = wg.jacobian(bordered, sparse=True)
    np.testing.assert_allclose(J.fun(X), bordered(X), rtol=1e-15)


# ---- given patterns

BAND = np.tri(12, k=1, dtype=bool) & np.tri(12, k=1, dtype=bool).T
WIDER = BAND | np.eye(12, k=5, dtype=bool) | np.eye(12, k=-5, dtype=bool)


def three_points(x):
    F = 3.0 * x**2
    F[1:] += np.sin(x[:-1])
    F[:-1] -= x[1:] * x[:-1]
    return F


def not_direct(x):
    """Complex values are not accumulated directly."""
    return np.sum(np.exp(((x[1:] - x[:-1]) * 1j).imag))


def hessian_of_not_direct(x):
    e = np.exp(np.diff(x))
    return sp.diags_array([-e, np.append(e, 0.0) + np.append(0.0, e), -e], offsets=[-1, 0, 1])


def shuffled(pattern):
    """Return the same COO array with its entries permuted."""
    rows, columns = np.nonzero(pattern)
    order = RNG.permutation(len(rows))
    return sp.coo_array((np.ones(len(rows)), (rows[order], columns[order])), pattern.shape)


WAYS = [
    (1, "auto", three_points, "direct"),
    (1, "forward", three_points, "forward"),
    (1, "reverse", three_points, "reverse"),
    (1, "mixed", three_points, "mixed"),
    (2, "auto", HESSIANS["chained"][0], "direct"),
    (2, "mixed", HESSIANS["chained"][0], "mixed"),
    (2, "auto", not_direct, "mixed"),
]
FORMS = [
    (BAND, np.asarray),
    (WIDER, sp.csr_array),
    (BAND, sp.dia_array),
    (BAND, sp.coo_matrix),
    (WIDER, shuffled),
]


def check_given(J, given, exact, pattern, format):
    """Check that results have the given pattern, and that values have its order."""
    J(X[::-1].copy())
    found = J(X)
    assert found.format == format
    assert found.has_canonical_format
    exact = np.where(pattern, exact, 0.0)
    np.testing.assert_allclose(found.toarray(), exact, rtol=1e-12, atol=1e-13)
    where = (given.row, given.col) if getattr(given, "format", "") == "coo" else np.nonzero(pattern)
    values = J.values(X)
    np.testing.assert_allclose(values, exact[where], rtol=1e-12, atol=1e-13)
    out = np.full(len(values), np.nan)
    assert J.values(X, out=out) is out
    np.testing.assert_array_equal(out, values)
    np.testing.assert_array_equal(J.pattern.toarray(), pattern)
    assert found.nnz == J.pattern.nnz == len(values)


@pytest.mark.parametrize("format", ["csr", "csc", "coo"])
@pytest.mark.parametrize(("order", "mode", "f", "expected"), WAYS)
def test_result_has_the_given_pattern(order, mode, f, expected, format):
    exact = dense(f, X, order)
    for pattern, form in FORMS:
        given = form(pattern)
        J = (wg.jacobian if order == 1 else wg.hessian)(f, sparse=given, mode=mode, format=format)
        check_given(J, given, exact, pattern, format)
        assert J.mode == expected


@pytest.mark.parametrize("form", [sp.csr_array, sp.coo_array, shuffled])
@pytest.mark.parametrize(("order", "mode", "f", "expected"), WAYS[4:])
def test_one_triangle_of_a_hessian_may_be_requested(order, mode, f, expected, form):
    exact = dense(f, X, order)
    for triangle in (np.tril, np.triu):
        for pattern in (triangle(BAND), triangle(WIDER)):
            given = form(pattern)
            for format in ("csr", "csc"):
                H = wg.hessian(f, sparse=given, mode=mode, format=format)
                check_given(H, given, exact, pattern, format)
                assert H.mode == expected
                if H.colours is not None:
                    assert (H.colours.pattern != H.colours.pattern.T).nnz == 0


@pytest.mark.parametrize(("order", "table"), [(1, JACOBIANS), (2, HESSIANS)])
def test_values_follow_the_given_order(order, table):
    op = wg.jacobian if order == 1 else wg.hessian
    for name, (f, x) in table.items():
        pattern = shuffled(wg.sparsity(f, x, order=order).toarray())
        J = op(f, sparse=pattern)
        for k in range(3):
            at = x * (1.0 + 0.01 * k)
            exact = dense(f, at, order)
            values = J.values(at)
            np.testing.assert_allclose(values, exact[pattern.coords], rtol=1e-12, atol=1e-13, err_msg=name)
            np.testing.assert_allclose(J(at).toarray(), exact, rtol=1e-12, atol=1e-13, err_msg=name)
        if order == 2:
            found = sp.coo_array((values, pattern.coords), pattern.shape).tocsr()
            assert (found != found.T).nnz == 0, name


class Squares:
    def __call__(self, x):
        return x[::-1] ** 2


def reversed_squares(x, power):
    return x[::-1] ** power


@wg.primitive(jvp=lambda t, y, x: np.cumsum(t), sparsity="elementwise")
def not_elementwise(x):
    return np.cumsum(x)


@pytest.mark.parametrize(
    ("f", "sparse"),
    [
        (lambda x: x[::-1] ** 2, sp.eye_array(12)),
        (Squares(), sp.eye_array(12)),
        (functools.partial(reversed_squares, power=2), sp.eye_array(12)),
        (wg.compile(Squares().__call__), sp.eye_array(12)),
        (lambda x: 2.0 * not_elementwise(x), True),
    ],
)
@pytest.mark.parametrize("mode", ["auto", "forward"])
def test_missing_entries_are_reported_with_line_and_row(f, sparse, mode):
    line = getattr(f, "f", getattr(f, "func", f))
    line = getattr(line, "__code__", None) or type(line).__call__.__code__
    said = rf"^jacobian\(.*\) \(.*test_sparse\.py:{line.co_firstlineno}\): row \d+ of .* lacks entries"
    with pytest.raises(wg.PatternError, match=said):
        wg.jacobian(f, sparse=sparse, mode=mode)(X)


def test_given_diagonal_pattern_must_be_complete():
    H = wg.hessian(HESSIANS["separable"][0], sparse=sp.eye_array(12))
    np.testing.assert_allclose(H(X).toarray(), dense(HESSIANS["separable"][0], X, 2), rtol=1e-13)
    for f in (HESSIANS["chained"][0], not_direct):
        with pytest.raises(wg.PatternError, match="lacks entries"):
            wg.hessian(f, sparse=sp.eye_array(12))(X)


@pytest.mark.parametrize(
    ("operator", "f"), [(wg.jacobian, lambda x: x[1:] * x[:-1]), (wg.hessian, HESSIANS["chained"][0])]
)
@pytest.mark.parametrize("wrong", ["column", "value"])
def test_wrong_entry_is_found_at_first_call(operator, f, wrong, monkeypatch):
    def changed(*args, **options):
        found = entries(*args, **options)
        if wrong == "column":
            return found._replace(indices=np.roll(found.indices, 1))
        data, count = found.code.outputs[0], len(found.indices)
        factor = found.code.constant_array(1.0 + 1e-3 * (np.arange(count) == count // 2))
        times = next(opcode for name, opcode, *_ in kernel_rows() if name == "multiply")
        found.code.outputs = [found.code.add(times, kind_of(found.code, data), data, factor)]
        return found

    J = operator(f, sparse=True)
    monkeypatch.setattr(drivers, "entries", changed)
    with pytest.raises(wg.PatternError, match="disagrees with the derivative along a random direction"):
        J(X)
    monkeypatch.undo()
    np.testing.assert_allclose(J(X).toarray(), operator(f)(X), rtol=1e-12, atol=1e-12)


class Held:
    rate = 2.0


library = {5: Held()}  # declared constant


@pytest.mark.parametrize(("operator", "f"), [(wg.jacobian, lambda x: library[5].rate * x**2),
                                             (wg.hessian, lambda x: np.sum(library[5].rate * x**3))])  # fmt: skip
def test_recheck_compares_with_eager_function(operator, f, monkeypatch):
    J = operator(wg.compile(f, recheck=1, constant="library"), sparse=True)
    J(X)
    monkeypatch.setattr(library[5], "rate", 3.0)
    with pytest.raises(wg.StaleProgramError, match="differs from its recording"):
        J(X)
    np.testing.assert_allclose(J(X).toarray(), operator(f)(X), rtol=1e-13)


def test_derivative_of_scalar_argument_is_checked():
    J = wg.jacobian(lambda x: x**2 * Y, sparse=True)
    np.testing.assert_allclose(J(3.0).toarray(), 6.0 * Y[:, None], rtol=1e-14)


def test_pattern_smaller_than_traced_one_is_coloured():
    f = lambda x: x**2 + (x[::-1] - x[::-1]) * x
    J = wg.jacobian(f, sparse=sp.eye_array(12))
    np.testing.assert_allclose(J(X).toarray(), np.diag(2.0 * X), rtol=1e-14)
    assert (J.mode, J.colours.count) == ("forward", 1)
    assert "is not in the given pattern" in J.plan.reason


def test_given_patterns_are_copied():
    pattern = sp.csr_array(BAND, dtype=float)
    J = wg.jacobian(three_points, sparse=pattern)
    pattern.indices[:] = 0
    np.testing.assert_allclose(J(X).toarray(), wg.jacobian(three_points, X), rtol=1e-13, atol=1e-14)


def test_uncompilable_functions_accept_given_patterns():
    calls = []

    def f(x):
        calls.append(1)
        return three_points(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        for pattern, form in FORMS:
            given = form(pattern)
            check_given(wg.jacobian(f, sparse=given), given, dense(three_points, X, 1), pattern, "csr")
        with pytest.raises(wg.PatternError, match="lacks entries"):
            wg.jacobian(f, sparse=sp.eye_array(12))(X)


@pytest.mark.parametrize(
    ("op", "pattern", "error", "words"),
    [
        (wg.jacobian, sp.coo_array(([1.0, 1.0, 1.0], ([2, 0, 2], [1, 0, 1])), (12, 12)), wg.PatternError, r"\(2, 1\)"),
        (wg.hessian, sp.coo_array(([1.0, 1.0], ([2, 2], [1, 1])), (12, 12)), wg.PatternError, "at 0 and 1"),
        (wg.jacobian, sp.eye_array(11, 12), wg.PatternError, "11 x 12, but the derivative is 12 x 12"),
        (wg.hessian, sp.eye_array(13), wg.PatternError, "13 x 13, but the derivative is 12 x 12"),
        (wg.hessian, sp.eye_array(11, 12), wg.PatternError, "a Hessian is square"),
        (wg.hessian, np.tri(12, k=1, dtype=bool), wg.PatternError, r"\(2, 0\) but not \(0, 2\).*pattern \+ pattern.T"),
        (wg.jacobian, np.ones(12, dtype=bool), wg.PatternError, "two axes"),
        (wg.jacobian, [[True]], TypeError, "not list"),
        (wg.hessian, None, TypeError, "not NoneType"),
    ],
)
def test_wrong_patterns_raise(op, pattern, error, words):
    f = three_points if op is wg.jacobian else not_direct
    with pytest.raises(error, match=words):
        op(f, sparse=pattern)(X)


def test_small_entries_beside_large_ones_keep_precision():
    """A chain of entries from 1 down to 1e-13 and up again, each recovered from one product."""
    x = np.append(0.0, np.cumsum(30.0 * (np.abs(np.linspace(-1.0, 1.0, 99)) - 1.0)))
    exact = hessian_of_not_direct(x).toarray()
    H = wg.hessian(not_direct, sparse=exact != 0)
    np.testing.assert_allclose(H(x).toarray(), exact, rtol=1e-14)
    assert (H.mode, H.colours.kind, H.colours.count) == ("mixed", "star", 3)


# ---- Lagrangians, values, pickles and threads


def lagrangian(x, multipliers):
    return np.sum((x[1:] - x[:-1] ** 2) ** 2) + multipliers @ (x[1:] * x[:-1] ** 3 - 1.0)


def coloured_lagrangian(x, multipliers):
    return not_direct(x) + multipliers @ (np.convolve(x, [1.0, 1.0], mode="valid") ** 3)


@pytest.mark.parametrize(
    ("f", "sparse", "mode"),
    [
        (lagrangian, True, "direct"),
        (lagrangian, shuffled(np.tril(BAND)), "direct"),
        (coloured_lagrangian, BAND, "mixed"),
    ],
)
def test_multipliers_are_arguments(f, sparse, mode):
    H = wg.hessian(f, sparse=sparse)
    pattern = np.tril(BAND) if sp.issparse(sparse) else BAND
    for k in range(4):
        multipliers = np.cos(np.arange(11.0) + k)
        exact = np.where(pattern, wg.hessian(f)(X + k, multipliers), 0.0)
        np.testing.assert_allclose(H(X + k, multipliers).toarray(), exact, rtol=1e-12, atol=1e-12 * abs(exact).max())
        where = (sparse.row, sparse.col) if sp.issparse(sparse) else np.nonzero(BAND)
        np.testing.assert_allclose(H.values(X + k, multipliers), exact[where], atol=1e-12 * abs(exact).max())
    assert H.mode == mode
    assert H.replayed.paths == 1


@pytest.mark.parametrize(("order", "mode", "f", "expected"), WAYS)
def test_values_are_written_into_any_array(order, mode, f, expected):
    J = (wg.jacobian if order == 1 else wg.hessian)(f, sparse=BAND, mode=mode)
    x = np.zeros(40)
    for k in range(12):
        x[:12] = X + 0.01 * k
        exact = dense(f, x[:12].copy(), order)[BAND]
        outs = [np.zeros(34), np.zeros(68)[::2], np.zeros(34, np.float32), np.zeros(34, ">f8"), np.zeros(34, complex)]
        for out in (*outs, x[:34]):
            before = np.array(x)
            assert J.values(x[:12], out=out) is out
            np.testing.assert_allclose(out, exact, rtol=2e-7 if out.dtype == np.float32 else 1e-12, atol=1e-13)
            x[:] = before
        constant = np.zeros(34)
        constant.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            J.values(x[:12], out=constant)
        with pytest.raises(ValueError, match="34 nonzeros"):
            J.values(x[:12], out=np.zeros((34, 1)))
        with_value = (wg.jacobian if order == 1 else wg.hessian)(f, sparse=BAND, mode=mode, value=True)
    np.testing.assert_allclose(with_value.values(X, out=np.zeros(34)), dense(f, X, order)[BAND], rtol=1e-12, atol=1e-13)


def test_values_are_computed_together_with_the_function():
    """The output has as many elements as the Jacobian has nonzeros."""
    J = wg.jacobian(np.sin, sparse=True, value=True)
    for k in range(6):
        out = np.zeros(12)
        assert J.values(X + k, out=out) is out
        np.testing.assert_allclose(out, np.cos(X + k), rtol=1e-15)
        np.testing.assert_allclose(J(X + k)[0], np.sin(X + k), rtol=1e-15)


def test_values_work_where_auto_chose_dense():
    """Includes a scalar function, whose Jacobian is a row."""
    for f in (bordered, lambda x: x[0] * x[3]):
        J = wg.jacobian(f, sparse="auto")
        for k in range(6):
            out = np.zeros(np.size(f(X)) * 12)
            assert J.values(X + k, out=out) is out
            np.testing.assert_allclose(out, wg.jacobian(f, X + k).ravel(), rtol=1e-14)
            np.testing.assert_array_equal(J.values(X + k), out)
        assert J.mode == "dense"


COLOURED = {
    "column": (wg.jacobian, bordered, "forward"),
    "row": (wg.jacobian, bordered, "reverse"),
    "bidirectional": (wg.jacobian, bordered, "mixed"),
    "star": (wg.hessian, HESSIANS["chained"][0], "mixed"),
    "acyclic": (wg.hessian, HESSIANS["chained"][0], "mixed"),
}


@pytest.mark.parametrize("format", ["csr", "coo"])
@pytest.mark.parametrize("kind", COLOURED)
def test_given_colouring_determines_the_products(kind, format):
    D, f, mode = COLOURED[kind]
    colours = wg.colouring(wg.sparsity(f, X, order=1 + (D is wg.hessian)), kind=kind)
    derivative = D(f, sparse=colours, format=format)
    for J in (derivative, pickle.loads(pickle.dumps(derivative))) if f is bordered else (derivative,):
        for k in range(4):
            found, exact = J(X + 0.1 * k).toarray(), D(f, X + 0.1 * k)
            np.testing.assert_allclose(found, exact, rtol=1e-12, atol=1e-12)
            assert D is wg.jacobian or np.array_equal(found, found.T)
            np.testing.assert_array_equal(J.values(X + 0.1 * k), found[colours.pattern.nonzero()])
        assert J.mode == mode and J.colours.count == colours.count and "given" in J.plan.reason
    assert wg.explain(derivative, X).methods[mode].plan.colours.count == colours.count


@pytest.mark.parametrize(("D", "kind"), [(wg.hessian, "row"), (wg.jacobian, "star")])
def test_colouring_of_wrong_kind_raises(D, kind):
    with pytest.raises(wg.PatternError, match=f"{kind!r} does not determine a .*: call wengert.colouring with kind="):
        D(three_points, sparse=wg.colouring(np.eye(12, dtype=bool), kind=kind))


def test_given_colouring_fixes_mode_and_is_checked():
    colours = wg.colouring(np.eye(12, dtype=bool))
    with pytest.raises(ValueError, match="column colouring requires mode='forward' or 'auto', not 'reverse'"):
        wg.jacobian(three_points, sparse=colours, mode="reverse")
    with pytest.raises(wg.PatternError):
        wg.jacobian(three_points, sparse=colours, mode="forward")(X)


MIXING = np.random.default_rng(0).normal(size=(12, 12))


def mixed_powers(x):
    """Use matrix products: accumulation costs the square of the number of variables that share a row."""
    return np.sum((x.reshape(-1, 12) @ MIXING) ** 4) + np.sum(x[1:] * x[:-1])


@pytest.mark.parametrize("sparse", [True, "auto", "given"])
def test_colouring_is_used_if_accumulation_is_estimated_slower(sparse):
    x = np.linspace(0.5, 1.5, 360)
    exact = wg.hessian(mixed_powers, x)
    H = wg.hessian(mixed_powers, sparse=sp.csr_array(exact != 0.0) if sparse == "given" else sparse)
    for k in range(3):
        np.testing.assert_allclose(H(x + k).toarray(), wg.hessian(mixed_powers, x + k), rtol=1e-11, atol=1e-11)
    assert H.mode == "mixed" and "estimate" in H.plan.reason
    told = wg.explain(H, x)
    assert {*told.methods} == {"direct", "mixed", "dense"}
    assert told.methods["mixed"].estimate < 0.8 * told.methods["direct"].estimate
    assert told.methods["mixed"].plan.colours.count == 13 and told.methods["direct"].plan.mode == "direct"


TIGHT = {
    "a kernel with zeros": (wg.jacobian, lambda x: np.convolve(x**2, [0.0, 1.0, 0.0, 2.0]), 24),
    "maximum of each row": (wg.hessian, lambda x: np.sum(np.max(x.reshape(-1, 3) ** 2, axis=1)), 12),
    "smallest, curved": (wg.hessian, lambda x: np.sum(np.min(x.reshape(-1, 3), axis=1) ** 3), 36),
    "pieces": (wg.jacobian, lambda x: np.piecewise(x, [x < 0.0, x >= 0.0], [np.sin, np.square]), 12),
}


@pytest.mark.parametrize("name", TIGHT)
def test_result_stores_no_unneeded_entries(name):
    op, f, nnz = TIGHT[name]
    J = op(f, sparse=True)
    np.testing.assert_allclose(J(X).toarray(), op(f, X), rtol=1e-13)
    assert (J.pattern.nnz, J.mode) == (nnz, "direct")


def test_row_colouring_computes_no_column_products():
    """One row product is the minimum over both sides, and it is used alone."""
    J = wg.jacobian(lambda x: np.sort(x.reshape(3, 4))[:, 0], sparse=True)
    is_least = X.reshape(3, 4) == X.reshape(3, 4).min(axis=1, keepdims=True)
    np.testing.assert_array_equal(J(X).toarray(), np.repeat(np.eye(3), 4, axis=1) * is_least.ravel())
    assert (J.mode, J.colours.kind, J.colours.count) == ("reverse", "row", 1)


def test_explain_and_plots_of_given_patterns():
    H = wg.hessian(lagrangian, sparse=shuffled(np.tril(BAND)))
    told = wg.explain(H, X, args=(np.ones(11),), measure=True)
    assert {*told.methods} == {"direct", "mixed", "dense"}
    assert "12 x 12, 23 nonzeros" in repr(told)
    assert told.methods["mixed"].plan.colours.count == 3


COPIES = {
    "pickle": lambda J: pickle.loads(pickle.dumps(J)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("of", COPIES)
@pytest.mark.parametrize("sparse", [True, BAND, shuffled(BAND), shuffled(np.tril(BAND))])
def test_copies_give_same_result(of, sparse):
    is_triangle = sp.issparse(sparse) and sparse.nnz < 34
    f, op = (lagrangian, wg.hessian) if is_triangle else (three_points, wg.jacobian)
    args = (X, np.ones(11)) if is_triangle else (X,)
    J = op(wg.compile(f, recheck=3), sparse=sparse, format="csc")
    for _ in range(2):  # before the first call, and after it
        again = COPIES[of](J)
        assert again.plan is None
        assert repr(again) == repr(J)
        assert again.fun.recheck == 3
        np.testing.assert_array_equal(again.values(*args), J.values(*args))
        np.testing.assert_array_equal(again(*args).toarray(), J(*args).toarray())
        assert again.mode == "direct"


@pytest.mark.parametrize("sparse", [True, shuffled(BAND)])
@pytest.mark.parametrize(("mode", "expected"), [("auto", "direct"), ("forward", "forward")])
def test_one_derivative_is_called_in_several_threads(sparse, mode, expected):
    """Threads call it at different points on two branches, each with its own pattern."""

    def f(x):
        return three_points(x) if sparse is not True or x[0] > 0.0 else x**3

    J = wg.jacobian(f, sparse=sparse, mode=mode)

    def work(k):
        out = np.zeros(34)
        for i in range(40):
            x = X * (1.0 if (i + k) % 2 else -1.0) + 0.001 * i
            exact = wg.jacobian(f, x)
            matrix = J(x)
            np.testing.assert_allclose(matrix.toarray(), exact, rtol=1e-12, atol=1e-12)
            where = matrix.nonzero() if sparse is True else (sparse.row, sparse.col)
            values = J.values(x) if sparse is True else J.values(x, out=out)
            np.testing.assert_allclose(values, exact[where], rtol=1e-12, atol=1e-12)

    in_threads(work, 4)
    assert J.mode == expected


NOISE = {
    "cancelling terms": lambda x: np.sum(x * x - (x * x) / 3.0 - (x * x) / 3.0 - (x * x) / 3.0),
    "a vector of one element over its norm": lambda x: (lambda y: y / np.linalg.norm(y))(np.array([np.sin(x) @ x])),
    "deviation from own mean": lambda x: (lambda y: y / 3.0 - y.mean(axis=1, keepdims=True) / 3.0)(x[:, None]),
    "scalars over their magnitudes": lambda x: x / np.sqrt(x * x),
    "sine and cosine": lambda x: np.sin(x) ** 2 + np.cos(x) ** 2,
    "a function and its inverse": lambda x: np.log(np.exp(x)) - x,
    "normalised by the sum": lambda x: (lambda y: y / y.sum(axis=1, keepdims=True))(np.exp(x)[:, None]),
    "matrix solved with itself": lambda x: (lambda A: np.linalg.solve(A, A))(x.reshape(3, 2, 2) + 2.0 * np.eye(2)),
}


@pytest.mark.parametrize("scale", [1.0, 1e-20])
@pytest.mark.parametrize("name", NOISE)
def test_rounding_errors_are_not_missing_entries(name, scale):
    f, x = NOISE[name], np.linspace(0.1, 2.0, 12)

    def both(x):
        return scale * np.concatenate([np.ravel(f(x)), np.sin(x)])

    J = wg.jacobian(both, sparse=True)
    for k in range(4):  # the second and the fourth are compared with the function
        y = x * (1.0 + 0.01 * k)
        np.testing.assert_allclose(J(y).toarray(), wg.jacobian(both)(y), rtol=1e-12, atol=1e-13 * scale)


@pytest.mark.parametrize("mode", ["auto", "forward"])
def test_missing_entry_is_found_in_rows_with_rounding_errors(mode):
    def f(x):
        return 1e6 * (x / np.sqrt(x * x)) + 1e-6 * np.roll(x, 1) ** 2

    with pytest.raises(wg.PatternError):
        wg.jacobian(f, sparse=sp.eye_array(6).tocsr(), mode=mode)(np.linspace(0.5, 1.0, 6))


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e-20, 1e-150])
@pytest.mark.parametrize("column", [0, 3])
def test_small_missing_entries_are_not_detected(size, column):
    """The entry is tiny beside the others, or alone in its column."""

    def f(x):
        return np.concatenate([np.sin(x[1:]), size * x[column : column + 1]])

    pattern = np.eye(6, 6, 1, dtype=bool)
    with pytest.raises(wg.PatternError):
        wg.jacobian(f, sparse=sp.csr_array(pattern))(np.linspace(0.5, 1.0, 6))
