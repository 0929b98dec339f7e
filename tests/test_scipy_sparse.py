"""Sparse arrays with traced entries, and ``scipy.sparse.linalg``."""

import numpy as np
import pytest
import scipy.sparse as ss
import scipy.sparse.linalg as sl

import wengert as wg
from scipy_cases import check
from wengert.errors import ConvergenceError, UnsupportedFunctionError

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
    "scale": (lambda t: sl.spsolve((t[0] * K + ss.eye_array(n)).tocsc(), b), b + 2),
    "triangular": (lambda e: sl.spsolve_triangular(ss.tril(M(e)).tocsr(), b), e),
}
#: values computed in another order than by SciPy: sums over rows, products of sparse matrices, several columns at once
ROUNDED = {"sum", "sp@sp", "spsolve eB", "sp.T@sp", "pow", "pl@sp", "sub", "scale"}


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name):
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


def test_adjoint_of_a_matrix_lives_on_its_entries():
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
    "eigsh": (lambda e: sl.eigsh(M(e) + M(e).T, k=2)[0], "eigh"),
    "lsqr": (lambda e: sl.lsqr(M(e), b)[0], "lstsq"),
    "cg": (lambda e: sl.cg(sl.aslinearoperator(K), e[:n])[0], "sparse array"),
    "inv": (lambda e: sl.inv(M(e)).toarray(), "spsolve"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_without_rule_are_refused_with_a_remedy(name):
    f, remedy = REFUSED[name]
    with pytest.raises(UnsupportedFunctionError, match=rf"scipy\.sparse\.linalg\.{name}.*{remedy}"):
        wg.grad(lambda e: np.sum(f(e)))(e)
