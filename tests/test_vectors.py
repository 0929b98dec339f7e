"""Small vector products in programs become sums, with the derivatives of the calls that they replace."""

import numpy as np
import pytest
from wengert.program.ir.opcodes import Op

import wengert as wg
import wengert.rules  # registers the rows
from wengert.program.ir import verify
from wengert.program.ir.call import Call, Operand, fold_of, product_of
from wengert.registry import lookup

LENGTHS = [0, 1, 2, 17, 300, 999]
C = np.cos(np.arange(2000.0))

# name: function of a vector x, and its gradient
PRODUCTS = {
    "@": (lambda x: x @ np.sin(x), lambda x: np.sin(x) + x * np.cos(x)),
    "dot of itself": (lambda x: np.dot(x, x), lambda x: 2 * x),
    "inner with a constant": (lambda x: np.inner(C[: x.size], x), lambda x: C[: x.size]),
    "vdot": (lambda x: np.vdot(x, x * x), lambda x: 3 * x * x),
    "vecdot": (lambda x: np.vecdot(x, np.exp(x)), lambda x: (1 + x) * np.exp(x)),
    "backwards": (lambda x: x @ x[::-1], lambda x: 2 * x[::-1]),
    "with a column": (
        lambda x: C[: 2 * x.size].reshape(-1, 2)[:, 1] @ (2.0 * x),
        lambda x: 2.0 * C[1 : 2 * x.size : 2],
    ),
}


def calls(program):
    return int((program._lowered_ir().op == Op.CALL).sum())


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("n", LENGTHS)
def test_small_products_are_lowered_to_sums(name, n):
    f, gradient = PRODUCTS[name]
    x = np.linspace(-1.0, 1.5, n) + 0.01
    program = wg.record(f, x)
    for made in (program, program.grad()):
        verify.check(made)
        verify.check(made._lowered_ir())
        assert calls(made) == 0
    np.testing.assert_allclose(program(x), f(x), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(program.grad()(x), gradient(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [3, 40])
def test_hessians_of_small_products_are_exact(n):
    x = np.linspace(0.5, 1.5, n)
    program = wg.record(lambda x: (x @ np.sin(x)) ** 2, x)
    slope, bend = np.sin(x) + x * np.cos(x), 2 * np.cos(x) - x * np.sin(x)
    expected = 2 * np.outer(slope, slope) + 2 * (x @ np.sin(x)) * np.diag(bend)
    np.testing.assert_allclose(program.hessian()(x), expected, rtol=1e-12, atol=1e-12)


def test_large_or_exact_products_stay_calls():
    x = np.linspace(0.0, 1.0, 1500)
    A = x[:12].reshape(3, 4)
    assert calls(wg.record(lambda x: x @ x, x)) == 1  # BLAS is faster here
    assert calls(wg.record(lambda x: x[:50] @ x[:50], x, exact=True)) == 1  # a sum has other bits
    assert calls(wg.record(lambda x: x[:50].astype(np.float32) @ x[:50].astype(np.float32), x)) >= 1
    assert calls(wg.record(lambda x: C[:60].reshape(3, 20) @ x[:20], x)) == 1
    np.testing.assert_allclose(wg.record(lambda x: np.vdot(A * x[:4], A), x)(x), np.vdot(A * x[:4], A), rtol=1e-14)


def test_zero_adjoint_times_infinity_is_zero():
    """A zero adjoint stays zero for any other factor, while the product itself is NaN as in NumPy."""

    def f(x):
        return np.where(x[0] > 0, (1.0 / x[1:]) @ x[1:], 0.0)

    x = np.concatenate([[-1.0], np.linspace(0.0, 1.0, 40)])
    with np.errstate(all="ignore"):
        program = wg.record(f, x + 2.0)
        assert np.array_equal(program.grad()(x), np.zeros(41))
        assert np.isnan(program(np.abs(x)))


def test_triangular_solve_written_with_loops():
    """A loop over rows of lengths 0, 1, 2, ... leaves no Python call."""
    n = 60
    L = np.tril(1.0 / (1.0 + np.add.outer(np.arange(n), np.arange(n)))) + np.eye(n)

    def f(b):
        x = np.zeros(n)
        for i in range(n):
            x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
        return np.sum(x * x)

    b = np.linspace(1.0, 2.0, n)
    gradient = wg.record(f, b).grad()
    x = np.linalg.solve(L, b)
    np.testing.assert_allclose(gradient(b), 2 * np.linalg.solve(L.T, x), rtol=1e-10)
    assert calls(gradient) == 0


# ---------------------------------------------------------------------------------------- written slices


def columns_scaled(x):
    """Read each column again after all others were written."""
    A = np.zeros((30, 70))
    for j in range(70):
        A[:, j] = np.sin(x * (1.0 + j))
    for j in range(70):
        A[:, j] *= A[:, j - 1]
    return np.sum(A)


def backwards(x):
    A = np.zeros((4, 30))
    A[1, ::-1] = np.exp(x)
    b = A[1, ::-1] * x
    A[1, ::-2] = b[::2]
    return np.sum(A[1, ::-1] * b) + A[1, ::-1][3] ** 2 + np.sum(A[1] ** 3)


def turned(x):
    A = np.zeros((20, 30))
    A.T[:, 2:4] = np.stack([x, x * x], axis=1)
    B = A.T[:, 2:4]
    return np.sum(np.cos(B)) + np.sum(B[5:9, 1] * B[7:11, 0]) + B[3, 1] * B[29, 0]


def partly_overwritten(x):
    A = np.zeros((30, 3))
    A[:, 1] = x**2
    A[7:9, :2] = 5.0
    c = A[:, 1]
    A[:, 1] = c * x
    return np.sum(c * A[:, 1])


def looked_at_in_other_ways(x):
    A = np.zeros((30, 5))
    A[:, 2] = np.tanh(x)
    c = A[:, 2]
    windows = np.lib.stride_tricks.sliding_window_view(c, 4)
    return np.sum(windows[:, 0] * windows[:, 3]) + c[::7] @ c[::7] + np.sum(c.reshape(5, 6)[:, 1]) + c[-1] * c[0]


def real_parts(x):
    z = np.zeros((30, 2), dtype=complex)
    z[:, 1] = x + 1j * np.sin(x)
    c = z[:, 1]
    return np.sum(c.real * c.imag) + np.sum(np.abs(c) ** 2)


PARTS = [columns_scaled, backwards, turned, partly_overwritten, looked_at_in_other_ways, real_parts]


@pytest.mark.parametrize("f", PARTS, ids=lambda f: f.__name__)
def test_slices_are_read_as_last_written(f):
    """Values and derivatives equal NumPy and the eager sweep, whatever happens between write and read."""
    x = np.linspace(0.2, 1.1, 30)
    program = wg.record(f, x)
    made = program.grad()
    for code in (program, made):
        verify.check(code._lowered_ir())
    y = x[::-1] + 0.1
    np.testing.assert_allclose(program(y), f(y), rtol=1e-12)
    np.testing.assert_allclose(made(y), wg.grad(f)(y), rtol=1e-11, atol=1e-11)


def test_repeatedly_written_columns_stay_vectors():
    """No step of the gradient of Gram-Schmidt creates the whole matrix."""
    m, n = 40, 30

    def f(A):
        A, R = A.copy(), np.zeros((n, n))
        for k in range(n):
            R[k, k] = np.sqrt(A[:, k] @ A[:, k])
            q = A[:, k] / R[k, k]
            for j in range(k + 1, n):
                R[k, j] = q @ A[:, j]
                A[:, j] -= q * R[k, j]
        return np.sum(R**3)

    A = np.random.default_rng(0).normal(size=(m, n))
    gradient = wg.record(f, A).grad()
    np.testing.assert_allclose(gradient(A), wg.grad(f)(A), rtol=1e-9, atol=1e-9)
    code = gradient._lowered_ir()
    sizes = [np.prod(code.types[kind][1]) for op, kind in zip(code.op, code.type) if op < Op.INPUT or op == Op.STRONG]
    assert sum(sizes) < 10 * m * n * n  # proportional to the number of inner steps


@pytest.mark.parametrize(
    ("fun", "kwargs", "product", "fold"),
    [
        (np.matmul, {}, "matmul", None),
        (np.dot, {}, "dot", None),
        (np.vdot, {}, "vdot", None),
        (np.vecdot, {"axis": 0}, None, None),
        (np.multiply, {}, None, None),
        (np.sum, {}, None, "sum"),
        (np.amax, {"keepdims": True}, None, "max"),
        (np.cumsum, {}, None, None),
    ],
)
def test_products_and_reductions_are_known_from_the_registry(fun, kwargs, product, fold):
    call = Call(fun, (Operand(0), Operand(1)), kwargs, [0, 1], lookup(fun))
    assert (product_of(call), fold_of(call)) == (product, fold)
