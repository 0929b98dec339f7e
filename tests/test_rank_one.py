"""Adjoints of a matrix in its product with a vector: rank-one updates of the accumulated adjoint."""

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(0)
A = RNG.uniform(-1, 1, (20, 30))
X, Y = RNG.uniform(-1, 1, 30), RNG.uniform(-1, 1, 20)


def _block(rows, columns, g):
    y = np.zeros_like(A)
    y[rows, columns] = g
    return y


ALL = slice(None)
CASES = {
    "matrix times vector": (lambda a: Y @ (a @ X), np.outer(Y, X)),
    "vector times matrix": (lambda a: (Y @ a) @ X, np.outer(Y, X)),
    "dot": (lambda a: np.dot(Y, np.dot(a, X)), np.outer(Y, X)),
    "method": (lambda a: Y.dot(np.sin(a).dot(X)), np.outer(Y, X) * np.cos(A)),
    "twice": (lambda a: Y @ (a @ X) + np.sum((a @ X) ** 2), np.outer(Y + 2 * A @ X, X)),
    "transposed": (lambda a: X @ (a.T @ Y), np.outer(Y, X)),
    "rows": (lambda a: Y[4:] @ (a[4:] @ X), _block(slice(4, None), ALL, np.outer(Y[4:], X))),
    "columns": (lambda a: Y @ (a[:, 7:] @ X[7:]), _block(ALL, slice(7, None), np.outer(Y, X[7:]))),
    "columns of the transposed": (
        lambda a: X[7:] @ (a.T[7:] @ Y),
        _block(ALL, slice(7, None), np.outer(Y, X[7:])),
    ),
    "every second column": (lambda a: Y @ (a[:, ::2] @ X[::2]), _block(ALL, slice(0, None, 2), np.outer(Y, X[::2]))),
    "reversed": (lambda a: Y @ (a[::-1] @ X), np.outer(Y[::-1], X)),
    "strided vectors": (lambda a: np.repeat(Y, 2)[::2] @ (a @ np.repeat(X, 2)[::2]), np.outer(Y, X)),
    "overwritten": (lambda a: _overwritten(a), np.outer(Y, X) + 2 * np.outer(Y, X)),
    "inner": (lambda a: np.inner(X, a) @ Y, np.outer(Y, X)),
    "atax": (lambda a: X @ ((a @ X) @ a), np.outer(A @ X, X) + np.outer(A @ X, X)),
}


def _overwritten(a):
    y = Y @ (a @ X)
    a *= 2
    return y + Y @ (a @ X)


@pytest.mark.filterwarnings("ignore::wengert.MutatedInputWarning")
@pytest.mark.parametrize("name", CASES)
def test_adjoint_of_a_matrix_is_right_without_a_temporary(name):
    f, expected = CASES[name]
    for _ in range(2):
        assert np.allclose(wg.grad(f)(A), expected, rtol=1e-13, atol=1e-14)
    pullback = wg.vjp(f, A)[1]
    assert np.allclose(pullback(2.0), 2 * expected, rtol=1e-13, atol=1e-14)
    assert np.allclose(pullback(1.0), expected, rtol=1e-13, atol=1e-14)


def test_zero_times_infinity_is_zero():
    x = X.copy()
    x[3] = np.inf

    def f(a):
        y = a @ x
        return y[0]

    g = wg.grad(f)(np.abs(A))
    assert np.array_equal(g[0], x) and np.array_equal(g[1:], np.zeros((19, 30)))


def test_jacobian_rows_and_second_order_agree():
    J = wg.jacobian(lambda a: a @ X, mode="reverse")(A)
    assert np.allclose(J, np.einsum("ik,l->ikl", np.eye(20), X))
    v = RNG.uniform(-1, 1, A.shape)
    assert np.allclose(wg.hvp(lambda a: np.sum((a @ X) ** 2), A, v), 2 * np.outer(v @ X, X))


@pytest.mark.parametrize(
    ("a", "b"), [((3,), (3, 1)), ((1,), (1, 4)), ((1,), (1, 1)), ((2, 1), (1,)), ((1, 3), (3,)), ((1,), (1,))]
)
def test_axes_may_have_one_element(a, b):
    u, v = RNG.uniform(-1, 1, a), RNG.uniform(-1, 1, b)
    w = RNG.uniform(-1, 1, np.shape(u @ v))
    for i, (x, f) in enumerate([(u, lambda x: np.sum(w * (x @ v))), (v, lambda x: np.sum(w * (u @ x)))]):
        expected = [f(e.reshape(x.shape)) for e in np.eye(x.size)]
        assert np.allclose(np.ravel(wg.grad(f)(x)), expected), i
        assert np.allclose(np.ravel(wg.grad(wg.compile(f))(x)), expected), i
