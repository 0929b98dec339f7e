"""Sparse arrays with traced entries, and ``scipy.sparse.linalg``."""

import numpy as np
import pytest
import scipy.sparse as ss
import scipy.sparse.csgraph as cs
import scipy.sparse.linalg as sl

import wengert as wg
from helpers import parts
from scipy_cases import check
from wengert.errors import ConvergenceError, NonSmoothError, TracedValueError, UnsupportedFunctionError

r = np.random.default_rng(0)
n = 6
i = np.r_[np.arange(n), np.arange(n - 1), np.arange(1, n), 2]
j = np.r_[np.arange(n), np.arange(1, n), np.arange(n - 1), 4]
e = np.r_[3 + r.uniform(size=n), r.uniform(-1, 0, size=2 * (n - 1)), 0.3]
b, B = r.normal(size=n), r.normal(size=(n, 2))
K = ss.csc_array(ss.coo_array((e, (i, j)), shape=(n, n)))
S, lu = K + K.T, sl.splu(K)


def M(e):
    return ss.csc_array((e, (i, j)), shape=(n, n))


CASES = {
    "spsolve e": (lambda e: sl.spsolve(M(e), b), e),
    "spsolve b": (lambda b: sl.spsolve(K, b), b),
    "spsolve B": (lambda B: sl.spsolve(K, B), B),
    "spsolve eB": (lambda e: sl.spsolve(M(e).tocsr(), B), e),
    "coo": (lambda e: ss.coo_array((e, (i, j)), shape=(n, n)).tocsr() @ b, e),
    "splu": (lambda b: lu.solve(b), b),
    "splu T": (lambda b: lu.solve(b, "T"), b),
    "splu in": (lambda e: sl.splu(M(e)).solve(b), e),
    "factorized in": (lambda e: sl.factorized(M(e))(b), e),
    "cg": (lambda b: sl.cg(S, b, rtol=1e-12)[0], b),
    "gmres": (lambda e: sl.gmres(M(e), b, rtol=1e-12)[0], e),
    "bicgstab": (lambda e: sl.bicgstab(M(e), b, rtol=1e-13)[0], e),
    "minres": (lambda b: sl.minres(S, b, rtol=1e-13)[0], b),
    "csr3": (lambda d: ss.csr_array((d, K.tocsr().indices, K.tocsr().indptr)) @ b, K.tocsr().data),
    "diags": (lambda d: ss.diags_array([d, d[:-1]], offsets=[0, 1]) @ b, b),
    "diags m": (lambda d: sl.spsolve(ss.diags([d + 9, -np.ones(n - 1), d[1:]], [0, -1, 1], format="csc"), b), b),
    "kron": (lambda e: ss.kron(ss.eye_array(2), M(e)) @ np.r_[b, b], e),
    "bmat": (lambda e: ss.block_array([[M(e), None], [K, M(e)]]) @ np.r_[b, b], e),
    "hstack": (lambda e: ss.hstack([M(e), K]) @ np.r_[b, b], e),
    "vstack": (lambda e: ss.vstack([M(e), K]) @ b, e),
    "block_diag": (lambda e: ss.block_diag([M(e), K]) @ np.r_[b, b], e),
    "get": (lambda e: M(e)[2, 4] * b, e),
    "slice": (lambda e: M(e)[1:4] @ b, e),
    "row": (lambda e: M(e)[[0, 2], :] @ b, e),
    "sp@sp": (lambda e: M(e) @ M(e) @ b, e),
    "pl@sp": (lambda e: K @ M(e) @ b, e),
    "sp.T@sp": (lambda e: sl.spsolve((M(e).T @ M(e)).tocsc(), b), e),
    "pow": (lambda e: (M(e) ** 2).sum(axis=0), e),
    "tril": (lambda e: ss.tril(M(e)) @ b, e),
    "norm": (lambda e: np.array(sl.norm(M(e))), e),
    "expm_multiply": (lambda b: sl.expm_multiply(K, b), b),
    "sum": (lambda e: M(e).sum(axis=1), e),
    "diag": (lambda e: M(e).diagonal(), e),
    "toarray": (lambda e: M(e).toarray(), e),
    "sub": (lambda e: sl.spsolve((ss.eye_array(n) * 5 + M(e)).tocsc(), b), e),
    "dense": (lambda B: ss.csr_array(B).T @ b, B),
    "complex": (lambda e: parts(sl.spsolve((M(e) * 1j + 5 * ss.eye_array(n)).tocsc(), b * e[:n])), e),
    "complex columns": (lambda e: parts(sl.spsolve((M(e) * 1j + 5 * ss.eye_array(n)).tocsc(), np.outer(b, e[:2]))), e),
    "complex factors": (lambda b: parts(sl.splu((K * (1 + 1j) + 2j * ss.eye_array(n)).tocsc()).solve(b * 1j, "T")), b),
    "complex factors, adjoint": (lambda b: parts(sl.splu((K + 2j * ss.eye_array(n)).tocsc()).solve(b * 1j, "H")), b),
    "complex gmres": (lambda e: parts(sl.gmres(M(e) * 1j + 9 * ss.eye_array(n), b * 1j, rtol=1e-14)[0]), e),
    "scale": (lambda t: sl.spsolve((t[0] * K + ss.eye_array(n)).tocsc(), b), b + 2),
    "triangular": (lambda e: sl.spsolve_triangular(ss.tril(M(e)).tocsr(), b), e),
}
ones, tight = np.ones(n), {"atol": 1e-14, "btol": 1e-14}
T = ss.diags_array([4.0 + np.arange(n), -ones[1:], -ones[1:]], offsets=[0, 1, -1]).tocsr()
tall, d_ = r.normal(size=(n, 3)), np.arange(n)


def assembled(x, make):
    """Stiffness matrix of springs in a row, element by element."""
    A = make((5, 5))
    for e in range(4):
        for i, j, sign in ((e, e, 1), (e, e + 1, -1), (e + 1, e, -1), (e + 1, e + 1, 1)):
            A[i, j] += sign * x[e]
    A[0, 0] += 10
    return A


def blocks_assembled(x):
    A = ss.lil_array((5, 5))
    for e in range(4):
        places = [e, e + 1]
        A[np.ix_(places, places)] += x[e] * np.array([[1, -1], [-1, 1.0]])
    return A.tocsr()[1:, 1:].tocsc()


def with_diagonal(x):
    A = T * x[1]
    A.setdiag(x[0] * np.arange(5, 5 + n))
    return A @ b


def with_changed_data(x):
    A = ss.csr_array(np.outer(np.arange(1.0, 4), x))
    A.data[:] = A.data**2
    return A[1].toarray() + A[2] @ np.ones(len(x))


def banded(x):
    """Symmetric matrix with distinct eigenvalues."""
    return T * x[0] + ss.diags_array(x[1] * np.arange(n) ** 2)


def moving(x, **options):
    """A linear operator of a traced function."""
    d = np.arange(n) + 2.0
    return sl.LinearOperator((n, n), lambda v: x[0] * d * v + 0.1 * x[1] * (np.roll(v, 1) + np.roll(v, -1)), **options)


class Scaling(sl.LinearOperator):
    def __init__(self, a):
        super().__init__(float, (n, n))
        self.a = a

    def _matvec(self, v):
        return self.a * (np.arange(n) + 2) * v


def graph(weights):
    return ss.csr_array((weights, ([0, 0, 1, 2], [1, 2, 3, 3])), shape=(4, 4))


two, four = np.array([1.0, 0.5]), np.array([1.0, 2.0, 3.0, 4.0])
CASES |= {
    "lil": (lambda x: sl.spsolve(assembled(x, ss.lil_matrix).tocsc(), ones[:5]), four),
    "dok": (lambda x: sl.spsolve(assembled(x, ss.dok_array).tocsc(), ones[:5]), four),
    "lil blocks": (lambda x: sl.spsolve(blocks_assembled(x), ones[:4]), four),
    "setdiag": (with_diagonal, two),
    "data": (with_changed_data, two),
    "exp of data": (lambda x: ss.csr_array((np.exp(-(T * x[0]).data), T.indices, T.indptr), T.shape) @ b, two),
    "dia": (lambda x: ss.dia_array((np.array([x * 2, x]), [0, 1]), shape=(4, 4)) @ four, four),
    "bsr": (lambda x: ss.bsr_array((np.stack([np.outer(x, x)] * 3), [0, 1, 1], [0, 2, 3]), shape=(4, 4)) @ four, two),
    "spdiags": (lambda x: ss.spdiags(np.array([x, x**2]), [0, -1], 4, 4).tocsr() @ four, four),
    "kronsum": (lambda x: ss.kronsum(ss.diags_array(x), T) @ np.ones(2 * n), two),
    "find": (lambda x: ss.find(T * x[0])[2], two),
    "times sparse": (lambda x: (T * x[0]).multiply(T * x[1]).toarray(), two),
    "mean": (lambda x: (T * x[0]).mean(axis=0) * x[1], two),
    "sqrt": (lambda x: abs(T * x[0]).sqrt().toarray(), two),
    "reshape": (lambda x: (T * x[0]).reshape((4, 9)).toarray(), two),
    "trace": (lambda x: np.asarray((T * x[0]).trace() + (T * x[1]).diagonal(1).sum()), two),
    "lsqr": (lambda x: sl.lsqr(ss.csr_array(tall * x[0] + x[1]), b * x[1], **tight)[0], two),
    "lsqr damp": (lambda x: sl.lsqr(ss.csr_array(tall * x[0]), b, damp=x[1], **tight)[0], two),
    "lsqr norm": (lambda x: np.asarray(sl.lsqr(ss.csr_array(tall * x[0] + x[1]), b, **tight)[3]), two),
    "lsmr wide": (lambda x: sl.lsmr(ss.csr_array(tall.T * x[0] + x[1]), b[:3] * x[1], **tight)[0], two),
    "eigsh": (lambda x: sl.eigsh(banded(x), k=2, which="SM", v0=ones)[0], two),
    "eigsh vectors": (lambda x: np.abs(sl.eigsh(banded(x), k=2, sigma=0, v0=ones)[1]), two),
    "eigsh mass": (lambda x: np.abs(sl.eigsh(T * x[0], 2, ss.diags_array(x[1] + d_).tocsc(), 0.1, v0=ones)[1]), two),
    "eigsh mass values": (lambda x: sl.eigsh(T * x[0], 2, ss.diags_array(x[1] + d_).tocsc(), 0.1, v0=ones)[0], two),
    "svds": (lambda x: sl.svds(ss.csr_array(tall * x[0] + x[1]), k=2, v0=ones[:3])[1], two),
    "svds u": (lambda x: np.abs(sl.svds(ss.csr_array(tall * x[0] + x[1]), k=2, v0=ones[:3])[0]), two),
    "svds vh": (lambda x: np.abs(sl.svds(ss.csr_array(tall * x[0] + x[1]), k=2, v0=ones[:3])[2]), two),
    "operator": (lambda x: sl.cg(moving(x, dtype=float), b, rtol=1e-13)[0], two),
    "operator b": (lambda x: sl.gmres(moving(x), b * x[1], rtol=1e-13)[0], two),
    "operator class": (lambda x: sl.gmres(Scaling(x[0]), b, rtol=1e-13)[0], two),
    "operator of constants": (lambda b: sl.cg(sl.aslinearoperator(S), b, rtol=1e-13)[0], b),
    "preconditioner": (lambda x: sl.cg(T * x[0], b, x0=ones, M=ss.diags_array(1 / T.diagonal()), rtol=1e-13)[0], two),
    "spilu": (lambda b: sl.spilu(T.tocsc()).solve(b), b),
    "eigsh without vectors": (
        lambda x: sl.eigsh(banded(x), k=2, which="SA", return_eigenvectors=False, v0=ones),
        two,
    ),
    "svds without vectors": (
        lambda x: sl.svds(ss.csr_array(tall * x[0] + x[1]), k=2, return_singular_vectors=False, v0=ones[:3]),
        two,
    ),
    "sums of a matrix": (lambda x: np.asarray(ss.csr_matrix(np.outer(x, x)).sum(axis=1)).ravel(), two),
    "todense": (lambda x: np.asarray(ss.csr_matrix(np.outer(x, x)).todense()), two),
    "means of a matrix": (lambda x: ss.csr_matrix(np.outer(x, x)).mean(axis=0).A1, two),
    "max": (lambda x: np.asarray(ss.csr_array(np.outer(x, x)).max() - (T * x[0]).min()), two),
    "laplacian": (lambda x: cs.laplacian(graph(x)).toarray(), four),
    "normed laplacian": (lambda x: cs.laplacian(graph(x), normed=True, symmetrized=True).data, four),
    "shortest_path": (lambda x: cs.shortest_path(graph(x))[0, 1:], four),
    "undirected dijkstra": (lambda x: cs.dijkstra(graph(x), directed=False, indices=[3])[0, :3], four),
    "minimum_spanning_tree": (lambda x: np.asarray(cs.minimum_spanning_tree(graph(x)).sum()), four),
    "empty": (lambda x: ss.lil_matrix((2, 2))[:1, :1].toarray() * x[0] + x[1], two),
    "inv": (lambda x: sl.inv((T * x[0]).tocsc()) @ b, two),
    "expm": (lambda x: sl.expm((T * x[0] / 9).tocsc()) @ b, two),
    "power": (lambda x: sl.matrix_power((T * x[0]).tocsc(), 3) @ b, two),
    "expm_multiply A": (lambda x: sl.expm_multiply(-0.1 * x[0] * T, b * x[1]), two),
    "expm_multiply times": (lambda x: sl.expm_multiply(-0.1 * x[0] * T, b, start=0, stop=1, num=3), two),
    "unit diagonal": (lambda x: sl.spsolve_triangular(ss.tril(T * x[0]).tocsr(), b, unit_diagonal=True), two),
}
#: values computed in another order than by SciPy: sums over rows, products of sparse matrices, several columns at once
ROUNDED = {"sum", "sp@sp", "spsolve eB", "sp.T@sp", "pow", "pl@sp", "sub", "scale", "mean", "lil", "dok"}
ROUNDED |= {"lil blocks", "sums of a matrix", "means of a matrix"}


@pytest.mark.parametrize("name", CASES)
def test_functions_have_derivatives(name):
    f, at = CASES[name]
    if name in ROUNDED:
        v, h = np.cos(3 * np.arange(np.size(at))).reshape(np.shape(at)), 1e-4
        slope = (8 * (f(at + h * v) - f(at - h * v)) - (f(at + 2 * h * v) - f(at - 2 * h * v))) / (12 * h)
        np.testing.assert_allclose(wg.jvp(f, at, v)[1], slope, rtol=1e-8, atol=1e-10)
        total = wg.grad(lambda x: np.sum(f(x) ** 2))
        along = 2 * np.sum(f(at) * slope)
        np.testing.assert_allclose(np.sum(total(at) * v), along, rtol=1e-8)
        second = (total(at + h * v) - total(at - h * v)) / (2 * h)
        np.testing.assert_allclose(wg.hvp(lambda x: np.sum(f(x) ** 2), at, v), second, rtol=1e-5, atol=1e-6)
    else:
        check(f, at, batches=False)


@pytest.mark.parametrize("name", ["eigsh", "svds"])
def test_calls_that_draw_a_start_vector_are_compiled(name):
    f, at = CASES[name]
    g = wg.compile(wg.grad(lambda x: np.sum(f(x) ** 2)))  # a CompileWarning would be an error
    for x in (at, 1.01 * at):
        np.testing.assert_allclose(g(x), wg.grad(lambda x: np.sum(f(x) ** 2))(x), rtol=1e-9)


def test_adjoint_of_a_sparse_matrix_has_its_pattern():
    m = 40
    main = np.full(m * m, 4.2)
    side = -np.ones(m * m - 1)

    def f(d):
        A = ss.diags_array([d, side, side], offsets=[0, 1, -1]).tocsc()
        return np.sum(sl.spsolve(A, np.ones(m * m)))

    g = wg.grad(f)(main)
    assert g.shape == main.shape
    x = sl.spsolve(ss.diags_array([main, side, side], offsets=[0, 1, -1]).tocsc(), np.ones(m * m))
    np.testing.assert_allclose(g, -x * x, rtol=1e-12)


def test_solver_that_does_not_converge_raises():
    with pytest.raises(ConvergenceError, match="maxiter"):
        wg.grad(lambda b: np.sum(sl.cg(S, b, rtol=1e-14, maxiter=1)[0]))(b)


REFUSED = {
    "eigs": (lambda e: sl.eigs(M(e), k=2)[0].real, "eig"),
    "lobpcg": (lambda e: sl.lobpcg(M(e) + M(e).T, np.eye(n)[:, :2])[0], "eigsh"),
    "spilu": (lambda e: sl.spilu(M(e)).solve(b), "stop_gradient"),
    "lsqr": (lambda e: sl.lsqr(M(e), b)[5], "NumPy"),
}


@pytest.mark.parametrize("name", ["L", "U"])
def test_factors_of_a_traced_matrix_are_refused_with_a_remedy(name):
    with pytest.raises(UnsupportedFunctionError, match=rf"SuperLU\.{name} .*numpy\.linalg\.slogdet"):
        wg.grad(lambda e: np.sum(getattr(sl.splu(M(e).tocsc()), name).diagonal()))(e)


def stored_as(dtype, x):
    A = ss.lil_array((2, 2), dtype=dtype)
    A[0, 0] = 2.7
    A[0, 1] = x * 2.7
    A[1] = [x, 1.4]
    return A.toarray() + A[0, 1]


@pytest.mark.parametrize(("dtype", "slope"), [(int, 0.0), (np.float32, np.float32(2.7)), (complex, 2.7)])
def test_stored_values_get_the_dtype_of_the_array(dtype, slope):
    y, tangent = wg.jvp(lambda x: stored_as(dtype, x), 1.3, 1.0)
    np.testing.assert_allclose(y, stored_as(dtype, 1.3), rtol=1e-6)
    np.testing.assert_allclose(tangent, slope * np.array([[1.0, 2.0], [1.0, 1.0]]) + [[0, 0], [slope != 0, 0]])


def test_complex_values_are_not_stored_in_an_array_of_floats():
    with pytest.raises(TypeError, match="dtype=complex"):
        wg.jvp(lambda x: np.abs(stored_as(float, 1j * x)), 1.3, 1.0)



@pytest.mark.parametrize("name", REFUSED)
def test_functions_without_rule_are_refused_with_a_remedy(name):
    f, remedy = REFUSED[name]
    with pytest.raises(UnsupportedFunctionError, match=rf"scipy\.sparse\.linalg\.{name}.*{remedy}"):
        wg.grad(lambda e: np.sum(f(e)))(e)


def test_repeated_eigenvalues_have_no_derivative_of_vectors():
    def f(x):
        return np.sum(sl.eigsh(ss.diags_array(np.array([1.0, 1, 1, 5, 6, 7]) * x), k=2, which="LM")[1] ** 3)

    def g(x):
        return np.sum(sl.eigsh(ss.diags_array(np.array([5.0, 5, 1, 2, 3, 4]) * x), k=2, v0=ones)[1] ** 3)

    assert np.isfinite(wg.grad(f)(np.array(1.0)))
    with pytest.raises(NonSmoothError, match="equal values"):
        wg.grad(g)(np.array(1.0))


def test_arrays_of_constants_made_for_assembly_have_their_own_attributes():
    def f(x):
        A = ss.lil_array((2, 2))
        A[0, 1] = 3.0
        D = ss.dok_array(np.eye(2))
        return x * (A.rows[0][0] + A.data[0][0] + sum(D.values()) + len(D.keys()))

    assert wg.value_and_grad(f)(2.0) == (16.0, 8.0)


def test_products_of_a_matrix_of_sums_are_refused():
    with pytest.raises(UnsupportedFunctionError, match=r"numpy\.asarray"):
        wg.grad(lambda x: np.sum(ss.csr_matrix(np.outer(x, x)).sum(axis=1) * x))(two)


def test_traced_value_stored_in_a_plain_sparse_array_is_refused():
    def f(x):
        A = T.tolil()
        A[0, 0] = x
        return A.sum()

    with pytest.raises(TracedValueError, match=r"lil_array\(A\)"):
        wg.grad(f)(2.0)


def test_factors_serve_all_systems_of_a_derivative(monkeypatch):
    from wengert.rules.scipy import sparse as rules

    calls = []
    monkeypatch.setattr(rules, "splu", lambda A: calls.append(A) or sl.splu(A))
    wg.jacobian(lambda b: sl.spsolve(K, b), mode="reverse")(b)
    wg.jacobian(lambda e: sl.spsolve(M(e), b), mode="reverse")(e)
    assert len(calls) == 2
