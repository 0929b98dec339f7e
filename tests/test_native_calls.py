"""Tests of native calls: functions of small arrays that the VM computes without Python."""

import numpy as np
import pytest
import scipy.linalg

import wengert as wg
from helpers import rows_of_numpy
from wengert.program.ir import native_calls
from wengert.registry import lookup
from wengert.rules.scipy.factorisations import cholesky_factor

RNG = np.random.default_rng(74)
A = RNG.normal(size=(8, 8))
S = A @ A.T + 8.0 * np.eye(8)
W = RNG.normal(size=64)
GRID = np.array([-2.0, -0.5, 0.1, 0.7, 1.5])


def square(x, n):
    """Return a regular matrix of x."""
    return x[: n * n].reshape(n, n) + S[:n, :n]


def symmetric(x, n):
    a = square(x, n)
    return a + a.T


def turning(x, n):
    """Return a matrix of x with complex eigenvalues."""
    return x[: n * n].reshape(n, n) + 5.0 * (np.triu(A) - np.tril(A))[:n, :n]


#: by rule: functions of 64 elements that call it
CASES = {
    "any": [lambda x: np.sum(x) * np.any(x > 1.0), lambda x: np.sum(x[:8] * np.any(x.reshape(8, 8) > 1.0, axis=1))],
    "all": [lambda x: np.sum(x[:8] * np.all(x.reshape(8, 8) > -1.0, axis=0))],
    "max": [lambda x: np.max(x), lambda x: np.sum(np.max(x.reshape(4, 16), axis=0) ** 2)],
    "min": [lambda x: np.min(x), lambda x: np.sum(np.min(x.reshape(4, 16), axis=1) ** 2)],
    "prod": [lambda x: np.prod(x), lambda x: np.sum(np.prod(x.reshape(4, 16), axis=0))],
    "sum": [lambda x: np.sum(x**2) * np.sum(x > 0.0)],
    "mean": [lambda x: np.sum(np.mean(x.reshape(4, 16), axis=0) ** 2)],
    "norm": [
        lambda x: np.linalg.norm(x),
        lambda x: np.linalg.norm(x, 1) + np.linalg.norm(x, np.inf),
        lambda x: np.linalg.norm(x.reshape(8, 8)),
        lambda x: np.sum(np.linalg.norm(x.reshape(8, 8), axis=1) ** 3),
    ],
    "size": [lambda x: np.sum(np.linalg.eigh(symmetric(x, 3))[0] ** 3)],
    "cumsum": [lambda x: np.sum(np.cumsum(x) ** 2), lambda x: np.sum(np.cumsum(x.reshape(4, 16), axis=0) ** 2)],
    "cumprod": [lambda x: np.sum(np.cumprod(x) ** 2), lambda x: np.sum(np.cumprod(x.reshape(4, 16), axis=1) ** 2)],
    "sort": [lambda x: np.sum(np.sort(x) ** 2 * W), lambda x: np.sum(np.sort(x.reshape(8, 8), axis=0) ** 2 * A)],
    "argsort": [lambda x: np.sum(x[np.argsort(x)] ** 2 * W), lambda x: np.sum(x * np.argsort(x, kind="stable"))],
    "median": [lambda x: np.median(x) ** 2, lambda x: np.sum(np.median(x.reshape(8, 8), axis=1) ** 2)],
    "quantile": [
        lambda x: np.sum(np.quantile(x, [0.1, 0.5, 0.77]) ** 2),
        lambda x: np.sum(np.quantile(x.reshape(8, 8), 0.3, axis=0) ** 2),
    ],
    "percentile": [lambda x: np.percentile(x, 30) ** 2],
    "argmax": [lambda x: x[np.argmax(x)] ** 2, lambda x: np.sum(x[:4] ** 2 * np.argmax(x.reshape(4, 16), axis=1))],
    "argmin": [lambda x: x[np.argmin(x)] ** 2],
    "searchsorted": [lambda x: np.sum(x**2 * np.searchsorted(GRID, x))],
    "interp": [lambda x: np.sum(np.interp(x[:20], GRID, x[20:25] ** 2))],
    "digitize": [lambda x: np.sum(x**2 * np.digitize(x, [-1.0, 0.0, 1.0]))],
    "count_nonzero": [lambda x: np.sum(x**2) * np.count_nonzero(x > 0.0)],
    "take_along_axis": [lambda x: np.sum(np.take_along_axis(x, np.argsort(x[::-1], kind="stable"), 0) ** 2 * W)],
    "take": [lambda x: np.sum(np.take(x, np.argsort(x[::-1], kind="stable")) ** 2 * W)],
    "getitem": [lambda x: np.sum(x.reshape(8, 8)[np.argsort(x[:8], kind="stable")] ** 2 * A)],
    "bincount": [lambda x: np.sum(np.bincount(np.arange(64) % 5, x**2) ** 2), lambda x: np.sum(np.sort(x) ** 3)],
    "where": [lambda x: np.sum(np.where(x > 0.0, x, 0.1 * x) ** 2)],
    "strong": [lambda x: np.sum(np.abs(np.fft.fft(x[:8])) ** 3)],
    "convolve": [
        lambda x: np.sum(np.convolve(x[:40], x[40:]) ** 2),
        lambda x: np.sum(np.convolve(x, W[:6], "same") ** 2),
        lambda x: np.sum(np.convolve(W[:5], x, "valid") ** 2),
    ],
    "correlate": [
        lambda x: np.sum(np.correlate(x, W[:6]) ** 2),
        lambda x: np.sum(np.correlate(x, W[:6], "same") ** 2),
        lambda x: np.sum(np.correlate(x[:30], x[30:40], "full") ** 2),
    ],
    "kron": [lambda x: np.sum(np.kron(x[:4].reshape(2, 2), x[4:13].reshape(3, 3)) ** 3)],
    "diff": [lambda x: np.sum(np.diff(x, n=2) ** 2), lambda x: np.sum(np.diff(x.reshape(8, 8), axis=0) ** 2)],
    "solve": [
        lambda x: np.sum(np.linalg.solve(square(x, 5), x[:5])),
        lambda x: np.sum(np.linalg.solve(square(x, 4), x[:12].reshape(4, 3)) ** 2),
        lambda x: np.sum(np.linalg.solve(x.reshape(4, 4, 4) + S[:4, :4], x[:4, None]) ** 2),
    ],
    "inverse": [lambda x: np.sum(np.linalg.inv(square(x, 6)) ** 2)],
    "determinant": [lambda x: np.linalg.det(square(x, 5)), lambda x: np.linalg.det(x.reshape(8, 8))],
    "log determinant": [lambda x: np.linalg.slogdet(square(x, 5))[1], lambda x: np.linalg.slogdet(x.reshape(8, 8))[1]],
    "cholesky": [lambda x: np.sum(np.linalg.cholesky(symmetric(0.1 * x, 5)) ** 3)],
    "cholesky of triangle": [
        lambda x: np.sum(scipy.linalg.cholesky(symmetric(0.1 * x, 5), lower=True) ** 3),
        lambda x: np.sum(scipy.linalg.cholesky(symmetric(0.1 * x, 5)) ** 3),
    ],
    "cholesky adjoint": [lambda x: np.sum(np.log(np.diag(np.linalg.cholesky(symmetric(0.1 * x, 8)))))],
    "qr": [
        lambda x: np.sum(np.abs(np.linalg.qr(x[:12].reshape(4, 3))[1])),
        lambda x: np.sum(np.linalg.qr(square(x, 4))[0] * A[:4, :4]),
    ],
    "eig": [
        lambda x: np.sum(np.abs(np.linalg.eig(turning(x, 4))[0]) ** 3),
        lambda x: np.sum(np.abs(np.linalg.eig(turning(x, 5))[1]) * A[:5, :5]),
    ],
    "eigvals": [lambda x: np.sum(np.abs(np.linalg.eigvals(turning(x, 4))) ** 3)],
    "eigh": [lambda x: np.sum(np.linalg.eigh(symmetric(x, 4))[1] ** 4 * A[:4, :4])],
    "eigvalsh": [lambda x: np.sum(np.linalg.eigvalsh(symmetric(x, 6)) ** 2 * np.arange(6.0))],
    "svd": [lambda x: np.sum(np.linalg.svd(x[:12].reshape(4, 3), full_matrices=False)[1] ** 3)],
    "svdvals": [lambda x: np.sum(np.linalg.svd(x[:12].reshape(4, 3), compute_uv=False) ** 3)],
    "lstsq": [
        lambda x: np.sum(np.linalg.lstsq(A[:, :3], x[:8], rcond=None)[0] ** 2),
        lambda x: np.sum(np.linalg.lstsq(A[:, :3], x[:16].reshape(8, 2), rcond=None)[1] ** 2),
        lambda x: np.sum(np.linalg.lstsq(A[:3], x[:6].reshape(3, 2), rcond=1e-9)[0] ** 3),
    ],
    "pinv": [
        lambda x: np.sum(np.linalg.lstsq(x[:24].reshape(8, 3), x[24:32], rcond=None)[0] ** 2),
        lambda x: np.sum(np.linalg.lstsq(x[:24].reshape(3, 8), x[24:30].reshape(3, 2), rcond=None)[0] ** 2),
        lambda x: np.linalg.lstsq(x[:24:2].reshape(4, 3), x[30:22:-2], rcond=-1)[1][0],
    ],
    "fft": [lambda x: np.sum(np.abs(np.fft.fft(x)) ** 3), lambda x: np.sum(np.fft.fft(x, 10, norm="ortho").real ** 3)],
    "ifft": [lambda x: np.sum(np.fft.ifft(1j * np.arange(16.0) * np.fft.fft(x[:16])).real ** 3)],
    "rfft": [lambda x: np.sum(np.abs(np.fft.rfft(x[:15])) ** 3), lambda x: np.sum(np.abs(np.fft.rfft(x[:16])) ** 3)],
    "irfft": [lambda x: np.sum(np.fft.irfft(np.fft.rfft(x[:20]) * np.arange(11.0)) ** 3)],
    "sinc": [lambda x: np.sum(np.sinc(x))],
    "round": [lambda x: np.sum((x - np.round(x)) ** 2), lambda x: np.sum((x - np.round(x, 1)) ** 2)],
    "clip": [lambda x: np.sum(np.clip(x, -0.5, 0.5) ** 2)],
    "allclose": [lambda x: np.sum(x**2) if not np.allclose(x, 0.0) else np.sum(x)],
    "isposinf": [lambda x: np.sum(np.nan_to_num(x) ** 2)],
    "isneginf": [lambda x: np.sum(np.where(np.isneginf(x), 0.0, x) ** 2)],
    "ufuncs": [
        lambda x: np.sum(np.arctan2(x[:32], x[32:])),
        lambda x: np.sum((x - np.floor(x)) ** 2) + np.sum(np.sign(x) * x**2) + np.sum((x - np.rint(x)) ** 2),
        lambda x: np.sum(np.mod(x[:32], x[32:]) ** 2) + np.sum(np.fmod(x, 0.7) ** 2) + np.sum(x**2 * (x // 0.3)),
        lambda x: np.sum(np.heaviside(x, 0.5) * x**2) + np.sum(np.copysign(x, W) ** 3),
        lambda x: np.sum(np.logaddexp(x[:32], x[32:])) + np.sum(np.logaddexp2(x[:32], x[32:])),
        lambda x: np.sum(np.hypot(x[:32], x[32:])) + np.sum(np.cbrt(x)) + np.sum(np.float_power(x**2, 1.3)),
        lambda x: np.sum(np.expm1(x)) + np.sum(np.log1p(x**2)) + np.sum(np.deg2rad(x) ** 2),
    ],
    "conversions": [
        lambda x: np.sum(x[:16] ** 2 * (3.0 * x[:16]).astype(int)),
        lambda x: np.sum(x[np.abs(10.0 * x[:8]).astype(int)] ** 2 * A[0]),
        lambda x: np.sum((x > 0.2).astype(float) * x**2) + np.sum((x > 0.3).astype(int) * x**3),
        lambda x: np.sum(x[::3].reshape(2, 11)[:, ::-1].T.astype(int).astype(float) * x[:22].reshape(11, 2) ** 2),
    ],
    "contractions": [
        lambda x: np.einsum("i,ij,j->", x[:8], S, x[:8]),
        lambda x: np.sum(np.einsum("ij,jk->ik", x.reshape(8, 8), A) ** 2),
        lambda x: np.sum(np.tensordot(x.reshape(4, 4, 4), A[:4, :4], 1) ** 2),
        lambda x: np.sum(np.inner(x.reshape(8, 8), A) ** 2),
        lambda x: np.sum(np.outer(x[:20], x[20:40]) ** 2),
        lambda x: np.sum(np.einsum("bij,jk->kbi", x.reshape(4, 4, 4), A[:4, :7]) ** 2),
        lambda x: np.sum(np.einsum("ij,j,kj->ki", x.reshape(8, 8), x[::8], A[:5]) ** 2),
        lambda x: np.sum(np.einsum("bij,bkj->bik", x.reshape(4, 4, 4), x.reshape(4, 4, 4)) ** 2),
    ],
    "rearrangements": [
        lambda x: np.sum(np.diag(x[:8]) @ A @ np.diag(x[8:16])),
        lambda x: np.sum(np.concatenate([x[:10] ** 2, x[20:]]) ** 2),
        lambda x: np.sum(np.stack([x[:20], x[20:40]], axis=1)[:, ::-1] ** 2 * W[:40].reshape(20, 2)),
        lambda x: np.sum(np.triu(x.reshape(8, 8)) ** 2) + np.sum(np.tile(x, 2) ** 2 * np.tile(W, 2)),
    ],
}
FUNCTIONS = [pytest.param(f, id=f"{name}-{k}") for name, found in CASES.items() for k, f in enumerate(found)]
X = 0.1 + 0.9 * np.cos(np.arange(64.0) ** 2)


def python_calls(program):
    """Return the names of the functions that a program calls in Python."""
    return [kernel.name for kernel in program.explain().kernels if kernel.kind == "call"]


def assert_close(found, expected, rtol):
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)


def test_each_rule_has_a_case_and_a_function():
    assert native_calls.RULES.keys() == CASES.keys() - {"ufuncs", "conversions", "contractions", "rearrangements"}
    wg.grad(np.sum)(np.ones(2))  # loads the rules
    rows = [*rows_of_numpy().values(), lookup(cholesky_factor)]
    named = {row.native for row in rows} | {row.scalars for row in rows} | {"strong", "getitem"}
    assert native_calls.RULES.keys() <= named
    assert {row.native for row in rows} - {None} <= native_calls.RULES.keys()


@pytest.mark.parametrize("f", FUNCTIONS)
def test_small_functions_and_gradients_need_no_python_calls(f):
    program = wg.record(f, X)
    assert not python_calls(program)
    assert not python_calls(program.grad())
    for x in (X, X[::-1] * 0.7):
        compiled = wg.compile(f)
        assert_close(compiled(x), f(x), 1e-12)
        assert_close(wg.compile(wg.grad(f))(x), wg.grad(f)(x), 1e-10)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_second_derivatives_of_native_calls(f):
    v = np.sin(np.arange(64.0))
    assert_close(wg.compile(wg.hvp(f))(X, v), wg.hvp(f)(X, v), 1e-8)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("f", FUNCTIONS)
def test_programs_agree_with_functions(f, exact):
    program = wg.record(f, X, exact=exact)
    assert_close(program(X), f(X), 1e-12)


def rows_stored(z):
    """Store products of small matrices into an array of zeros, as plain code does."""
    y = np.zeros((4, 3, 3), complex)
    for k in range(4):
        y[k] += z[:9].reshape(3, 3) @ z[k : k + 9].reshape(3, 3)
        y[k, :, 1] = z[k] * 2.0
    return y


#: products and stores of complex arrays; those of the second group conjugate their first factor
COMPLEX = {
    "matmul": lambda z: z[:12].reshape(3, 4) @ z.reshape(4, 4),
    "matrix and vector": lambda z: z.reshape(4, 4).T @ z[:4],
    "real factor": lambda z: A[:4, :4] @ z.reshape(4, 4),
    "stack": lambda z: z.reshape(4, 2, 2) @ z[:4].reshape(2, 2),
    "inner": lambda z: np.inner(z.reshape(4, 4), z[:4]),
    "outer": lambda z: np.outer(z[:5], z[5:9]),
    "kron": lambda z: np.kron(z[:4].reshape(2, 2), z[4:8].reshape(2, 2)),
    "three factors": lambda z: np.einsum("i,ij,j->ij", z[:4], z.reshape(4, 4), z[4:8]),
    "tensordot": lambda z: np.tensordot(z.reshape(4, 4), z.reshape(2, 2, 4), axes=([0], [2])),
    "vdot": lambda z: np.vdot(z, z[::-1] ** 2),
    "vecdot": lambda z: np.vecdot(z.reshape(4, 4), z[:4]),
    "linalg.vecdot": lambda z: np.linalg.vecdot(z[:4], z.reshape(4, 4)),
    "vecmat": lambda z: np.vecmat(z[:4], z.reshape(4, 4)) if hasattr(np, "vecmat") else z,
    "stores": rows_stored,
}
Z = (X[:16] + 1j * np.sin(np.arange(16.0))).copy()


@pytest.mark.parametrize("name", COMPLEX)
def test_small_complex_products_and_stores_are_native(name):
    f = COMPLEX[name]
    loss = lambda z: np.sum(np.abs(f(z)) ** 2)
    assert not {*python_calls(wg.record(f, Z))} & {"matmul", "vdot", "inner", "einsum", "kron", "place"}
    value, slope = wg.compile(f), wg.grad(wg.compile(loss))
    for z in (Z, Z[::-1] * (0.5 - 1j), Z.conj()):
        assert_close(value(z), f(z), 1e-13)
        assert_close(slope(z), wg.grad(loss)(z), 1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, complex(1.0, np.inf)])
@pytest.mark.parametrize("name", ["matmul", "vdot", "stores"])
def test_complex_products_that_are_not_finite_are_as_in_eager_mode(name, special):
    f = COMPLEX[name]
    loss = lambda z: np.sum(f(z)).real
    value, slope = wg.compile(f), wg.grad(wg.compile(loss))
    value(Z), slope(Z)
    z = np.where(np.arange(16) == 5, special, Z)
    np.testing.assert_allclose(value(z), f(z), rtol=1e-12)
    np.testing.assert_allclose(slope(z), wg.grad(loss)(z), rtol=1e-12)


def test_conjugates_of_conjugates_and_copies_leave_no_instruction():
    program = wg.record(lambda z: np.conj(+np.conj(+z)) * 2.0, Z)
    assert "conjugate" not in str(program) and "positive" not in str(program)
    assert np.array_equal(program(Z), 2.0 * Z)


#: functions that move elements, also in memory orders that sums and products after them depend on
MOVING = {
    "roll": lambda x: np.roll(x.reshape(8, 8), (1, -3), (0, 1)) * W.reshape(8, 8) + np.roll(x, 5).reshape(8, 8),
    "concatenate": lambda x: np.concatenate([x[3:7], x[20:] * 2.0, x[:3]]),
    "stack": lambda x: np.stack([x[:32], x[32:]], axis=1).T @ W[:32],
    "transpose": lambda x: np.sum(np.roll(x.reshape(4, 16), 1, 0).T, axis=0) * np.sum(np.tile(x, 2)),
    "copy": lambda x: np.sum(np.copy(np.asfortranarray(x.reshape(8, 8) * 1.5)), axis=0),
    "take": lambda x: np.take(x, [3, 1, 60, 3]) @ W[:4] * x[np.argsort(x)],
    "triangle": lambda x: np.triu(x.reshape(8, 8)) @ np.flip(np.tril(x.reshape(8, 8)), 0),
    "delete": lambda x: np.cumsum(np.delete(x, [1, 5])) * np.append(x[2:], 1.0)[:62],
}


@pytest.mark.parametrize("name", MOVING)
def test_exact_programs_move_elements_natively(name):
    f = MOVING[name]
    x = np.where(np.arange(64) == 7, -0.0, X)
    program = wg.record(f, X, exact=True)
    moves = ("roll", "concatenate", "stack", "tile", "delete", "append", "triu", "tril")
    assert not {*python_calls(program)} & {*moves}
    value, gradient = wg.compile(f, exact=True), wg.grad(lambda x: np.sum(np.sin(f(x))))
    compiled = wg.compile(gradient, exact=True)
    for point in (X, x, X[::-1], np.roll(X, 9), X):
        assert value(point).tobytes() == f(point).tobytes()
        assert compiled(point).tobytes() == gradient(point).tobytes()


#: factorisations that exact programs compute by NumPy's own loops
FACTORED = {
    "reduced qr": lambda x: np.linalg.qr(x[:12].reshape(4, 3))[0],
    "complete qr": lambda x: np.linalg.qr(x[:12].reshape(4, 3), "complete")[0][:, :3],
    "qr of a wide matrix": lambda x: np.linalg.qr(x[:12].reshape(3, 4))[1],
    "eig": lambda x: np.abs(np.linalg.eig(turning(x, 4))[1]),
    "eigvals": lambda x: np.abs(np.linalg.eigvals(turning(x, 4))),
    "complex inverse": lambda x: np.abs(np.linalg.inv(square(x, 4) + 1j * x[:16].reshape(4, 4))),
}


@pytest.mark.parametrize("name", FACTORED)
def test_exact_programs_factor_natively(name):
    f = FACTORED[name]
    assert not {*python_calls(wg.record(f, X, exact=True))} & {"packed_qr", "packed_eig", "eigvals", "inv"}
    value, gradient = wg.compile(f, exact=True), wg.grad(lambda x: np.ravel(f(x)) @ W[: f(x).size])
    compiled = wg.compile(gradient, exact=True)
    for point in (X, X[::-1], np.roll(X, 9), X):
        assert value(point).tobytes() == f(point).tobytes()
        assert compiled(point).tobytes() == gradient(point).tobytes()


@pytest.mark.parametrize("f", [np.linalg.eigvals, lambda a: np.linalg.eig(a)[0]])
def test_eigenvalues_of_matrices_that_are_not_finite_raise(f):
    compiled = wg.compile(lambda a: np.abs(f(a)))
    a = turning(X, 4)
    assert_close(compiled(a), np.abs(f(a)), 1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="infs or NaNs"):
        compiled(np.where(np.eye(4), np.nan, a))


def test_eigenvalues_that_are_all_real_have_the_type_of_numpy():
    compiled = wg.compile(np.linalg.eigvals)
    for a in (turning(X, 4), square(0 * X, 4)):
        assert compiled(a).dtype == np.linalg.eigvals(a).dtype
        assert_close(compiled(a), np.linalg.eigvals(a), 1e-12)


def jacobian_cases():
    return {
        "sort": lambda x: np.sort(x) ** 2,
        "cumprod": lambda x: np.cumprod(x),
        "solve": lambda x: np.linalg.solve(S[:5, :5] + np.diag(x), x),
        "inverse": lambda x: np.linalg.inv(S[:5, :5] + np.outer(x, x)),
        "cholesky": lambda x: np.linalg.cholesky(S[:5, :5] + np.outer(x, x)),
        "fft": lambda x: np.abs(np.fft.fft(x)),
        "convolve": lambda x: np.convolve(x, x),
        "eigvalsh": lambda x: np.linalg.eigvalsh(S[:5, :5] + np.diag(x)),
        "arctan2": lambda x: np.arctan2(x, x[::-1] + 2.0),
    }


@pytest.mark.parametrize("name", jacobian_cases())
def test_jacobians_of_native_calls(name):
    f, x = jacobian_cases()[name], np.array([0.3, -0.7, 1.1, 0.2, 2.0])
    assert_close(wg.compile(wg.jacobian(f))(x), wg.jacobian(f)(x), 1e-11)
    assert_close(wg.compile(wg.jacfwd(f))(x), wg.jacobian(f)(x), 1e-11)


# ---------------------------------------------------------------------------------------------- rare values

TIED = np.array([1.0, 0.5, 1.0, -0.5, 0.5, 1.0, -0.5, 0.25])
#: functions of values that are equal, infinite or NaN
ORDERED = {
    "sort": lambda x: np.sum(np.sort(x) * np.arange(8.0)),
    "argsort": lambda x: np.sum(x[np.argsort(x)] * np.arange(8.0)),
    "max": lambda x: np.max(x),
    "min": lambda x: np.min(x.reshape(2, 4), axis=0) @ np.arange(4.0),
    "median": lambda x: np.median(x),
    "quantile": lambda x: np.sum(np.quantile(x, [0.2, 0.9])),
    "argmax": lambda x: x[np.argmax(x)] ** 2,
    "norm": lambda x: np.linalg.norm(x, np.inf),
    "clip": lambda x: np.sum(np.clip(x, -0.5, 0.5)),
    "sign": lambda x: np.sum(np.sign(x) * x),
    "arctan2": lambda x: np.sum(np.arctan2(x[:4], x[4:])),
    "convolve": lambda x: np.sum(np.convolve(x, x[:3])),
    "interp": lambda x: np.sum(np.interp(x, GRID, GRID**2)),
    "fft": lambda x: np.sum(np.abs(np.fft.fft(x))),
}
POINTS = {
    "ties": TIED,
    "zeros": np.zeros(8),
    "nan": np.where(np.arange(8) == 3, np.nan, TIED),
    "infinite": np.where(np.arange(8) == 5, np.inf, TIED),
    "two infinities": np.array([np.inf, 1.0, -np.inf, 0.0, np.inf, 2.0, -1.0, 0.5]),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("name", ORDERED)
def test_ties_and_values_that_are_not_finite_are_as_in_eager_mode(name, point):
    f, x = ORDERED[name], POINTS[point]
    regular = np.array([0.3, -0.7, 1.1, 0.2, 2.0, -1.3, 0.6, 0.9])
    value, slope = wg.compile(f), wg.compile(wg.grad(f))
    value(regular), slope(regular)
    for compiled, eager in ((value, f), (slope, wg.grad(f))):
        np.testing.assert_allclose(compiled(x), eager(x), rtol=1e-12, atol=1e-14)


MATRIX_FUNCTIONS = {
    "solve": lambda a: np.sum(np.linalg.solve(a, np.arange(5.0))),
    "inverse": lambda a: np.sum(np.linalg.inv(a)),
    "determinant": lambda a: np.linalg.det(a),
    "log determinant": lambda a: np.linalg.slogdet(a)[1],
    "cholesky": lambda a: np.sum(np.linalg.cholesky(a)),
    "eigvalsh": lambda a: np.sum(np.linalg.eigvalsh(a)),
    "qr": lambda a: np.sum(np.linalg.qr(a)[1]),
    "lstsq": lambda a: np.sum(np.linalg.lstsq(a, np.arange(5.0), rcond=None)[0]),
    "lstsq, sums of squares": lambda a: np.sum(np.linalg.lstsq(a[:, :2], np.arange(5.0), rcond=None)[1]),
    "lstsq, rank": lambda a: np.sum(a) * np.linalg.lstsq(a, np.arange(5.0), rcond=None)[2],
    "pinv": lambda a: np.sum(np.linalg.pinv(a)),
}
SINGULAR = {
    "rank 0": np.zeros((5, 5)),
    "rank 1": np.outer(np.arange(5.0), np.arange(5.0)),
    "equal rows": S[[0, 1, 1, 2, 3]][:, :5],
    "indefinite": np.diag([1.0, -1.0, 2.0, 3.0, 4.0]),
    "nan": np.where(np.eye(5, k=1) == 1.0, np.nan, S[:5, :5]),
    "infinite": np.where(np.eye(5, k=-1) == 1.0, np.inf, S[:5, :5]),
}


def outcome(f, x):
    """Return the result of f, or the type of its error."""
    try:
        return f(x)
    except (np.linalg.LinAlgError, wg.NonSmoothError) as error:
        return type(error)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("matrix", SINGULAR)
@pytest.mark.parametrize("name", MATRIX_FUNCTIONS)
def test_matrices_without_a_regular_factor_are_as_in_eager_mode(name, matrix):
    f, a = MATRIX_FUNCTIONS[name], SINGULAR[matrix]
    value, slope = wg.compile(f), wg.compile(wg.grad(f))
    value(S[:5, :5]), slope(S[:5, :5])
    for compiled, eager in ((value, f), (slope, wg.grad(f))):
        found, expected = outcome(compiled, a), outcome(eager, a)
        if isinstance(expected, type):
            assert found is expected
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300, -1e19, 2.0**63, -(2.0**63), 0.9999, -0.5, 123.7])
def test_conversions_to_integers_are_those_of_numpy(value):
    def f(x):
        return np.sum(x[:2] ** 2) * (x.astype(int) % 7)

    program = wg.record(f, np.array([1.5, 2.5, -3.5]))
    assert not python_calls(program)
    x = np.array([0.5, 1.0, value])
    np.testing.assert_array_equal(program(x), f(x))


def test_pivots_follow_the_matrix():
    f = MATRIX_FUNCTIONS["solve"]
    slope = wg.compile(wg.grad(f))
    for order in ([0, 1, 2, 3, 4], [4, 3, 2, 1, 0], [1, 0, 3, 4, 2]):
        a = S[:5, :5][order]
        assert_close(slope(a), wg.grad(f)(a), 1e-11)


# ---------------------------------------------------------------------------------------------- loops and tiers


def kalman(x, n=4, steps=12):
    """Negative log-likelihood of a linear Gaussian model with two observations per step."""
    F, H = np.eye(n) + 0.1 * np.tri(n) * x[0], np.eye(2, n)
    Q, R = np.eye(n) * x[1] ** 2, np.eye(2) * x[2] ** 2
    m, P, total = np.zeros(n), np.eye(n), 0.0
    for k in range(steps):
        m, P = F @ m, F @ P @ F.T + Q
        V = H @ P @ H.T + R
        e = W[2 * k : 2 * k + 2] - H @ m
        K = np.linalg.solve(V, H @ P).T
        total = total + 0.5 * (e @ np.linalg.solve(V, e) + np.linalg.slogdet(V)[1])
        m, P = m + K @ e, P - K @ H @ P
    return total


def recovered(x):
    """A loop over matrices of four rows that is re-rolled."""
    a = x.reshape(4, 4) + S[:4, :4]
    for _ in range(40):
        a = np.linalg.inv(a) + np.eye(4)
    return np.sum(a)


@pytest.mark.parametrize(
    ("f", "x"), [(kalman, np.array([0.3, 0.5, 0.8])), (recovered, np.linspace(-1.0, 1.0, 16))]
)
@pytest.mark.parametrize("tier", ["vm", "llvm"])
def test_loops_with_linear_algebra_run_without_python(f, x, tier):
    if tier == "llvm":
        pytest.importorskip("llvmlite")
    program = wg.record(f, x)
    assert not python_calls(program) or f is recovered
    assert_close(program.tiered(tier)(x), f(x), 1e-12)
    assert_close(program.grad().tiered(tier)(x), wg.grad(f)(x), 1e-10)


def test_declined_call_within_recovered_loop():
    """A singular matrix in the middle of a loop raises NumPy's error."""

    def f(x):
        total = 0.0
        for k in range(60):
            total = total + np.sum(np.linalg.inv(np.diag(x - k)))
        return total

    x = np.array([0.5, 0.6, 0.7, 0.8])
    compiled = wg.compile(f)
    assert_close(compiled(x), f(x), 1e-12)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        compiled(np.array([0.5, 0.6, 0.7, 33.0]))
    assert_close(compiled(x), f(x), 1e-12)


def test_large_arrays_stay_python_calls():
    program = wg.record(lambda x: np.sum(np.sort(x)), np.linspace(0.0, 1.0, 200))
    assert "sort" in python_calls(program)
