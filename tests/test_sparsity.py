"""Patterns against dense derivatives: never too small, and exact on the structures that solvers meet."""

import inspect

import numpy as np
import pytest
import scipy.sparse as sp
import scipy.special
from hypothesis import given, settings
from wengert.core.tape.tape import kernel_rows
from wengert.sparse.indexsets import Sets
from wengert.sparse.recovery import differing, direction

import primitive_cases
import test_random_programs
import wengert as wg
from array_programs import PROGRAMS
from array_programs import X as X3
from fuzz import programs
from helpers import loops_of, rows_of_numpy
from wengert import registry
from wengert.errors import GuardError
from wengert.program.ir.opcode_table import primitive
from wengert.program.passes import loop_recovery, scalarise, vectorise
from wengert.program.record import record
from wengert.program.tracing import ssa
from wengert.sparse import dependency_rules
from wengert.sparse import pattern as pattern_module
from wengert.sparse.pattern import check, pattern_of, pattern_of_ir
from wengert.sparse.propagation import curvature

RNG = np.random.default_rng(7)


def numeric_jacobian(f, x, args=()):
    """Return where the Jacobian is nonzero at some points near x."""
    found = False
    for _ in range(3):
        at = x * RNG.uniform(0.9, 1.1, np.shape(x))
        J = np.asarray(wg.jacobian(f, at, args=args))
        found = found | (J.reshape(-1, np.size(x)) != 0)
    return found


def numeric_hessian(f, x):
    """Do the same for the Hessian of a random combination of the results."""
    found = False
    for _ in range(3):
        at = x * RNG.uniform(0.9, 1.1, np.shape(x))
        weights = RNG.uniform(0.5, 1, np.shape(f(at)))
        H = wg.hessian(lambda x: np.sum(np.asarray(weights) * f(x)), at)
        found = found | (np.asarray(H).reshape(np.size(x), -1) != 0)
    return found


def assert_inside(pattern, numeric):
    missing = numeric & ~pattern.toarray()
    assert not missing.any(), f"the pattern lacks {np.argwhere(missing)[:5].tolist()}"


def assert_csr(pattern, shape):
    assert type(pattern) is sp.csr_array
    assert pattern.dtype == bool
    assert pattern.shape == shape
    assert pattern.data.all()
    assert all((np.diff(pattern.indices[a:b]) > 0).all() for a, b in zip(pattern.indptr, pattern.indptr[1:]))


# ---------------------------------------------------------------------------------- exact structures

EXACT = []


def exact(*shape, scale=1.0):
    """Register a function of an array with a given shape whose pattern equals that of its numeric Jacobian."""

    def enter(f):
        x = RNG.uniform(0.5, 1.5, shape) * scale
        EXACT.append(pytest.param(f, x, id=f.__name__))
        return f

    return enter


@exact(9)
def three_points(u):
    F = u * 1.0
    F[1:-1] = u[:-2] - 2 * u[1:-1] + u[2:] - np.exp(u[1:-1])
    return F


@exact(9)
def three_points_periodic(u):
    return np.roll(u, 1) - 2 * u + np.roll(u, -1) + u**2


@exact(9)
def three_points_in_a_loop(u):
    F = np.zeros(u.size)
    for i in range(u.size):
        F[i] = u[i] ** 2 - (u[i - 1] if i else 0.0) * np.sin(u[(i + 1) % u.size])
    return F


@exact(5, 6)
def five_points(u):
    F = np.zeros_like(u)
    F[1:-1, 1:-1] = u[1:-1, :-2] + u[1:-1, 2:] + u[:-2, 1:-1] + u[2:, 1:-1] - 4 * u[1:-1, 1:-1]
    F[0], F[-1], F[:, 0], F[:, -1] = u[0], u[-1], u[:, 0], u[:, -1]
    return F + 0.1 * np.exp(u)


@exact(5, 4)
def five_points_periodic(u):
    shifted = sum(np.roll(u, s, axis) for s in (1, -1) for axis in (0, 1))
    return shifted - 4 * u + u**3


@exact(4, 5)
def five_points_in_loops(u):
    F = np.zeros(u.shape)
    n, m = u.shape
    for i in range(n):
        for j in range(m):
            F[i, j] = 4 * u[i, j] + np.exp(u[i, j])
            if i > 0:
                F[i, j] -= u[i - 1, j]
            if j < m - 1:
                F[i, j] -= u[i, j + 1] * u[i, j]
    return F


@exact(5, 5)
def nine_points(u):
    p = np.pad(u, 1)
    return sum(p[1 + i : 6 + i, 1 + j : 6 + j] * (i + 2 * j + 5.0) for i in (-1, 0, 1) for j in (-1, 0, 1)) ** 2


@exact(3, 4, 3)
def seven_points(u):
    p = np.pad(u, 1, mode="wrap")[1:-1, :, 1:-1]
    q = np.pad(u, 1)
    return p[:, 2:] * u + q[2:, 1:-1, 1:-1] + q[:-2, 1:-1, 1:-1] + q[1:-1, 1:-1, 2:] + q[1:-1, 1:-1, :-2] - u * 6


@exact(3, 3, 4)
def twenty_seven_points(u):
    shifts = [(i, j, k) for i in (-1, 0, 1) for j in (-1, 0, 1) for k in (-1, 0, 1)]
    p = np.pad(u, 1)
    parts = [p[1 + i : 4 + i, 1 + j : 4 + j, 1 + k : 5 + k] * (1 + i * i + 3 * j + k) for i, j, k in shifts]
    return np.tanh(np.sum(np.stack(parts), axis=0))


@exact(12)
def reaction_and_diffusion(y):
    u, v = y[::2], y[1::2]
    F = np.zeros(y.size)
    F[::2] = 1 + u * u * v - 4 * u + np.diff(u, 2, prepend=1.0, append=1.0)
    F[1::2] = 3 * u - u * u * v + np.diff(v, 2, prepend=3.0, append=3.0)
    return F


@exact(7)
def arrow_head(x):
    return np.concatenate([[np.sum(x**2)], x[1:] * x[0] + x[1:]])


@exact(4, 3)
def blocks(x):
    return np.einsum("ij,ik->ijk", x, np.sin(x)).ravel()


@exact(3, 2, 2)
def blocks_inverted(x):
    return np.linalg.inv(x + 3 * np.eye(2)).ravel()


@exact(11)
def bands(x):
    c = x * 1.0
    for k in range(1, 4):
        c[k:] += x[:-k] * k
        c[:-k] -= np.cos(x[k:])
    return c


@exact(15)
def collocation_defects(z):
    x, u = z[:10].reshape(5, 2), z[10:]
    rates = np.stack([x[:, 1], u - x[:, 0] ** 3], axis=1)
    return (x[1:] - x[:-1] - 0.05 * (rates[1:] + rates[:-1])).ravel()


@exact(8)
def added_at_places(x):
    y = np.zeros(4)
    np.add.at(y, [0, 1, 2, 0, 1, 3, 3, 0], x**2)
    return y


@exact(8)
def counted(x):
    return np.bincount(np.array([0, 3, 1, 3, 0, 1, 1, 3]), weights=x * x, minlength=5)


@exact(4, 3)
def sums_along_axes(x):
    return np.concatenate([x.sum(0), np.mean(x**2, axis=1), np.prod(x, axis=0, keepdims=True).ravel()])


@exact(6)
def products_with_constant_matrices(x):
    A = np.diag(np.arange(1.0, 6), 1)[:4]
    B = sp.csr_array(np.tri(5, 6, -1))
    return np.concatenate([A @ x, B @ np.sin(x), x @ np.eye(6)[:, ::2], np.dot(A, x), (A.T[:, :2] * x[:, None]).sum(0)])


@exact(4, 3)
def matrices_with_constant_matrices(x):
    A = np.array([[1.0, 0, 2, 0], [0, 3, 0, 0]])
    return np.concatenate([(A @ x).ravel(), (x @ np.tri(3)).ravel(), np.einsum("ki,kj->ji", x, A.T).ravel()])


@exact(3, 2)
def matrix_times_matrix(x):
    return x @ x.T @ np.array([1.0, 0, 0])


@exact(7)
def fancy_indices(x):
    y = x[[3, 1, 1, 6]] * x[np.array([0, 2, 4, 4])]
    z = np.zeros((2, 3))
    z[[0, 1, 1], [2, 0, 1]] = y[:3]
    return np.concatenate([z.ravel(), np.take(x, [5, 0]), x[np.arange(7) % 3 == 0]])


@exact(6)
def running_sums(x):
    return np.concatenate([np.cumsum(x), np.cumprod(x[:3]), np.cumsum(x[::-1].reshape(2, 3), axis=1).ravel()])


@exact(5)
def convolved(x):
    return np.convolve(x, [1.0, 0.0, 2.0])


@exact(6)
def convolved_middles(x):
    return np.concatenate([np.convolve([1.0, 0.0, 2.0, 1.0], x, "same"), np.convolve(x, x[:2] + 1, mode="valid")])


@exact(6)
def correlated(x):
    parts = np.correlate(x, [1.0, 0.0, 2.0, 1.0]), np.correlate(x[:2], x, "same"), np.correlate([3.0, 0.0], x, "full")
    return np.concatenate(parts)


@exact(4, 3)
def cross_products(x):
    return np.concatenate([np.cross(x[1:], x[:-1]), np.cross([1.0, 2.0, 3.0], x)])


@exact(3, 4)
def rearranged(x):
    parts = [
        x.T.ravel(),
        np.flip(x, 1)[1],
        np.tile(x[0], 2),
        np.repeat(x[:, 0], 2),
        np.diag(x[:, :3]),
        np.tril(x).ravel(),
    ]
    return np.concatenate(parts)


@exact(6)
def stepping_in_time(u):
    for _ in range(2):
        u = u + 0.1 * (np.roll(u, 1) - u) * u
    return u


@exact(6)
def masks_that_are_constant(x):
    mask = np.array([True, False, True, True, False, False])
    y = np.where(mask, x, x[::-1] ** 2)
    return y * np.array([1.0, 0.0, 2.0, 0.0, 1.0, 1.0])


@exact(2, 4)
def differences_between_elements(x):
    lines = np.diff(x[0], prepend=x[0, -1:], append=x[1, 0]), np.diff(x**2, 2, axis=0, append=x[1:, ::-1])
    return np.concatenate([line.ravel() for line in lines])


@exact(4)
def nothing_of_some(x):
    return np.array([np.floor(x[0]), 2.0, x[1] * np.sign(x[0]), wg.stop_gradient(x[2]) * x[3]])


@pytest.mark.parametrize(("f", "x"), EXACT)
def test_patterns_of_standard_structures_are_exact(f, x):
    pattern = wg.sparsity(f, x)
    assert_csr(pattern, (np.size(f(x)), x.size))
    assert np.array_equal(pattern.toarray(), numeric_jacobian(f, x))


@pytest.mark.parametrize(("f", "x"), EXACT)
def test_second_patterns_contain_the_hessian(f, x):
    pattern = wg.sparsity(f, x, order=2)
    assert_csr(pattern, (x.size, x.size))
    assert (pattern != pattern.T).nnz == 0
    assert_inside(pattern, numeric_hessian(f, x))


# ---------------------------------------------------------------------------------- second derivatives

ROWS = sp.csr_array(np.array([[2.0, -1, 0, 0, 0], [-1, 2, -1, 0, 0], [0, 0, 1, 0, 3], [0, 0, 0, 4, 0]]))


def added_at_a_mask(x):
    mask = np.array([True, False, True, False, True])
    y = x * 1.0
    y[mask] += x[::-1][mask] ** 3
    return np.sum(y)


SECOND = {
    "chained": lambda x: np.sum((x[1:] - x[:-1] ** 2) ** 2 + np.exp(-x[1:] * x[:-1])),
    "arrow head": lambda x: np.sum(x[1:] * x[0] ** 2) + np.sum(x[1:] ** 4),
    "separable": lambda x: np.sum(np.sin(x) * x + np.log(x)),
    "linear": lambda x: np.sum(3 * x) + x[0] / 2.0 - np.mean(x[::2]),
    "bilinear": lambda x: x[0] * x[1] - x[3] * x[4],
    "ratio": lambda x: x[0] / x[1] + x[2] / 3.0,
    "quadratic form of a sparse matrix": lambda x: x @ ((ROWS.T @ ROWS) @ x),
    "least squares": lambda x: np.sum((ROWS @ x - 1.0) ** 2),
    "least squares by dot": lambda x: np.dot(ROWS @ x, ROWS @ x),
    "nonlinear least squares": lambda x: np.sum((np.sin(x[1:]) * x[:-1] - 1) ** 2),
    "powers": lambda x: x[0] ** 1.0 + x[1] ** 2 + x[2] ** x[3] + 2.0 ** x[4],
    "vector valued": lambda x: np.stack([x[0] * x[1], x[2] ** 2, x[4] * x[3] * x[2]]),
    "choices": lambda x: np.maximum(x[0], x[1]) + np.abs(x[2]) * x[3] + np.where(x[4] > 0, x[4], x[0]),
    "broadcast": lambda x: np.sum(x[:2, None] * x[None, 2:]),
    "added under a mask": added_at_a_mask,
    "in a loop": lambda x: sum((x[i + 1] - x[i] ** 2) ** 2 for i in range(4)),
    "products in einsum": lambda x: np.einsum("i,i->", x, x) + np.einsum("i,j->", x[:1], x[1:3]),
}


@pytest.mark.parametrize("name", SECOND)
def test_second_patterns_are_exact(name):
    f, x = SECOND[name], RNG.uniform(0.5, 1.5, 5)
    assert np.array_equal(wg.sparsity(f, x, order=2).toarray(), numeric_hessian(f, x))


def test_long_sums_need_no_set_per_term():
    n = 20_000

    def f(x):
        s = 0.0
        for i in range(n - 1):
            s = s + np.sin(x[i]) * x[i + 1]
        return s

    x = np.ones(n)
    assert wg.sparsity(f, x).nnz == n  # sets of the partial sums would have 2e8 members
    assert wg.sparsity(f, x, order=2).nnz == 3 * n - 3


def test_nested_interactions_form_one_block():
    def f(x):
        s = 0.0
        for i in range(300):
            s = np.tanh(s + x[i])
        return s

    assert wg.sparsity(f, np.ones(300), order=2).nnz == 300 * 300


# ---------------------------------------------------------------------------------- patterns are supersets


CONSERVATIVE = {
    "sort": lambda x: np.sort(x),
    "order": lambda x: x[np.argsort(x)] ** 2,
    "largest": lambda x: np.stack([x[1:4].max(), np.max(x)]),
    "solve": lambda x: np.linalg.solve(np.diag(x) + 3 * np.eye(x.size), np.cos(x)),
    "solve of a matrix": lambda x: np.linalg.solve(x.reshape(2, 3) @ x.reshape(3, 2), np.eye(2)).ravel(),
    "fft": lambda x: np.abs(np.fft.fft(x)) ** 2,
    "real fft": lambda x: np.fft.irfft(np.fft.rfft(x) * 2.0),
    "det": lambda x: np.linalg.det(x[:4].reshape(2, 2)) * x[4:],
    "norm": lambda x: x / np.linalg.norm(x),
    "norms of rows": lambda x: np.linalg.norm(x.reshape(2, 3), axis=1),
    "softmax": lambda x: scipy.special.softmax(x[:4]) * x[1:5],
    "median": lambda x: np.median(x.reshape(2, 3), axis=0),
    "quantile": lambda x: np.quantile(x, [0.2, 0.7]),
    "variance": lambda x: np.var(x.reshape(3, 2), axis=1),
    "interp": lambda x: np.interp(x[:2], [0.0, 1.0, 2.0], np.cumsum(x[2:5])),
    "cross": lambda x: np.cross(x[:3], x[3:]),
    "kron": lambda x: np.kron(x[:2], np.array([1.0, 0.0, 2.0])) + np.kron(np.ones(2), x[3:]),
    "tensordot": lambda x: np.tensordot(x.reshape(2, 3), x.reshape(3, 2), 1).ravel(),
    "chain of matrices": lambda x: np.linalg.multi_dot([x.reshape(2, 3), x.reshape(3, 2), x[:2]]),
    "complex": lambda x: ((x[:3] + 1j * x[3:]) ** 2).imag,
    "special": lambda x: scipy.special.xlogy(x[:3], x[3:]) + scipy.special.jv(1, x[:3]),
    "clip": lambda x: np.clip(x, 0.8, x[::-1]),
    "trace": lambda x: np.trace(x[:4].reshape(2, 2)) * np.diagonal(x[2:].reshape(2, 2)),
    "logsumexp": lambda x: scipy.special.logsumexp(x.reshape(2, 3), axis=1),
    "segments": lambda x: np.add.reduceat(x, [0, 2, 3]),
    "vecdot": lambda x: np.vecdot(x.reshape(2, 3), x[:3]),
    "inner": lambda x: np.inner(x.reshape(2, 3), x.reshape(2, 3)).ravel(),
    "outer": lambda x: np.outer(x[:2], np.sin(x)).ravel(),
    "convolve": lambda x: np.convolve(x[:2], x[2:], "same"),
    "insert": lambda x: np.insert(x, [2, 4], x[:2] * x[5]),
    "sums of windows": lambda x: np.lib.stride_tricks.sliding_window_view(x, 3).sum(axis=1),
    "gradient": lambda x: np.gradient(x**2),
    "trapezoid": lambda x: np.trapezoid(x.reshape(2, 3) ** 2, axis=1),
    "a number": lambda x: x[0] * x[5],
    "a list": lambda x: [x[0] * x[5], 2.0, x[3]],
}


@pytest.mark.parametrize("name", CONSERVATIVE)
def test_patterns_are_never_too_small(name):
    f, x = CONSERVATIVE[name], RNG.uniform(0.5, 1.5, 6)
    assert_inside(wg.sparsity(f, x), numeric_jacobian(f, x))
    wrapped = (lambda x: np.array(f(x))) if name == "a list" else f
    assert_inside(wg.sparsity(f, x, order=2), numeric_hessian(wrapped, x))


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_that_write_in_place(name):
    f = PROGRAMS[name]
    J = np.asarray(wg.jacobian(f, X3)).reshape(-1, 3)
    pattern = wg.sparsity(f, X3)
    assert_csr(pattern, J.shape)
    assert_inside(pattern, J != 0)
    H = np.asarray(wg.hessian(lambda x: np.sum(np.arange(1.0, len(J) + 1) * np.ravel(np.array(f(x)))), X3))
    assert_inside(wg.sparsity(f, X3, order=2), H != 0)


def outside(f, x, also_rolled=False):
    """Return the nonzeros of Jacobian and Hessian that the patterns of a function lack."""
    J = np.asarray(wg.jacobian(f, x)).reshape(-1, x.size)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, len(J))
    H = np.asarray(wg.hessian(lambda x: np.sum(np.ravel(f(x)) * weights), x)).reshape(x.size, -1)
    program = record(f, (x,), {}, False)
    lists = [program._one_array("sparsity")]
    lists += [program._run_value_stage(lists[0]).code] if also_rolled else []
    found = 0
    for code in lists:
        first, second = (pattern_of_ir(code, code.inputs[0], code.outputs[0], order).toarray() for order in (1, 2))
        found += np.sum((J != 0) & ~first) + np.sum((H != 0) & np.isfinite(H) & ~second)
    local = wg.sparsity(f, x, kind="local").toarray()
    return found + np.sum((J != 0) & ~local) + np.sum(local & ~wg.sparsity(f, x).toarray())


@settings(test_random_programs.deterministic, max_examples=30)
@given(test_random_programs.PROGRAMS, test_random_programs.POINTS)
def test_patterns_of_random_programs_are_never_too_small(program, x):
    with np.errstate(all="ignore"):
        try:
            assert outside(lambda x: test_random_programs.run(program, x), x, True) == 0
        except (wg.TracedValueError, wg.UnsupportedFunctionError):
            pass


@pytest.mark.filterwarnings("ignore")
def test_patterns_of_programs_with_all_rules_are_never_too_small():
    """Fuzzer programs, each with calls of many functions."""
    compared = 0
    for index in range(36):
        program = programs.draw(2027, index)
        with np.errstate(all="ignore"):
            try:
                J = np.asarray(wg.jacobian(program.f, program.x, mode="forward")).reshape(-1, program.x.size)
                pattern = wg.sparsity(program.f, program.x)
                local = wg.sparsity(program.f, program.x, kind="local")
            except (TypeError, ValueError):
                continue
        assert_inside(pattern, J != 0)
        assert_inside(local, J != 0)
        compared += 1
    assert compared > 24


# ---------------------------------------------------------------------------------- vectorised code, loops, derivatives


@pytest.mark.parametrize(("f", "x"), EXACT)
def test_pattern_is_the_same_before_and_after_vectorisation(f, x):
    code = record(f, (x,), {}, False)._one_array("sparsity")
    again = vectorise.vectorise_scalars(code, 0.0)
    for order in (1, 2):
        patterns = [pattern_of_ir(c, c.inputs[0], c.outputs[0], order).toarray() for c in (code, again)]
        assert np.array_equal(*patterns)


def stepped(u):
    u = u.copy()
    for _ in range(12):
        u[1:] = u[1:] - 0.1 * (u[1:] - u[:-1]) * u[1:]
    return u


def with_history(u):
    total = 0.0
    rates = np.linspace(0.1, 0.2, 10)
    F = np.zeros((10, u.size))
    for k in range(10):
        u = u + rates[k] * np.roll(u, 1) ** 2
        F[k] = u
        total = total + u[0] * u[1]
    return np.concatenate([F.ravel(), u, np.ravel(total)])


@pytest.mark.parametrize("f", [stepped, with_history])
def test_time_loop_has_pattern_of_its_unrolled_steps(f, monkeypatch):
    for name in ("_MIN_BYTES", "_MIN_BYTES_PER_STEP", "_MAX_FUSED_INSTRUCTIONS"):
        monkeypatch.setattr(loop_recovery, name, 0)
    x = RNG.uniform(0.5, 1.5, 18)  # too many elements to be scalarised
    program = record(f, (x,), {}, False)
    code = program._one_array("sparsity")
    looped = loop_recovery.recover_loops(code)
    assert loops_of(looped)
    for order in (1, 2):
        patterns = [pattern_of_ir(c, c.inputs[0], c.outputs[0], order).toarray() for c in (code, looped)]
        assert np.array_equal(*patterns)
    gradient = wg.grad(lambda x: np.sum(f(x) ** 2))
    recorded = wg.record(gradient, x)  # adjoints run backwards through the loop
    assert loops_of(recorded._listing)
    assert_inside(pattern_of(recorded), numeric_jacobian(gradient, x))


@pytest.mark.parametrize("name", SECOND)
def test_the_pattern_of_a_gradient_contains_the_hessian(name):
    f, x = SECOND[name], RNG.uniform(0.5, 1.5, 5)
    gradient = wg.grad(lambda x: np.sum(f(x)))
    assert_inside(wg.sparsity(gradient, x), numeric_hessian(f, x))
    assert_inside(wg.sparsity(wg.record(gradient, x), x), numeric_hessian(f, x))
    assert_inside(wg.sparsity(gradient, x, order=2), numeric_hessian(gradient, x))


def test_jacobian_has_a_pattern():
    x = RNG.uniform(0.5, 1.5, 40)
    for f in (lambda x: x[1:] * x[:-1] ** 2, lambda x: np.cumsum(np.sin(x))[::10]):
        J = wg.jacobian(f)
        assert_inside(wg.sparsity(J, x), np.asarray(wg.jacobian(J, x)).reshape(-1, x.size) != 0)
        assert wg.sparsity(wg.compile(J), x).shape == (J(x).size, x.size)


# ---------------------------------------------------------------------------------- global and local

CHOICES = {
    "where": lambda x: np.where(x > 0, x, x[::-1]),
    "where, broadcast": lambda x: np.where(x[:2, None] > 0, x, x[0]),
    "maximum": lambda x: np.maximum(x, x[::-1]),
    "minimum": lambda x: np.minimum(x, 0.2),
    "minimum with a constant first": lambda x: np.fmin(0.2, x),
    "fmax, broadcast": lambda x: np.fmax(x[:, None], x[:2] * 2),
    "numbers": lambda x: [np.where(v > 0, v * x[0], x[1]) for v in x] + [np.minimum(v, x[2]) for v in x],
    "order": lambda x: x[np.argsort(x)],
    "written at a permutation": lambda x: np.take_along_axis(x, np.argsort(-x), 0) * x,
}


@pytest.mark.parametrize("name", CHOICES)
def test_local_pattern_contains_only_the_selected_operands(name):
    f = CHOICES[name]
    x = np.array([-0.7, 0.3, 0.9, -0.1])
    J = np.asarray(wg.jacobian(f, x)).reshape(-1, 4) != 0
    local, whole = (wg.sparsity(f, x, kind=kind).toarray() for kind in ("local", "global"))
    assert np.array_equal(local, J)
    assert (whole >= local).all()
    assert whole.sum() > local.sum()
    assert_inside(wg.sparsity(f, x), np.asarray(wg.jacobian(f, -x)).reshape(-1, 4) != 0)


def test_both_operands_of_a_tie_are_selected():
    assert wg.sparsity(lambda x: np.maximum(x[:2], x[2:]), np.ones(4), kind="local").nnz == 4
    assert wg.sparsity(lambda x: np.minimum(x[0], x[1]), np.ones(2), kind="local").nnz == 2


def test_branches_are_guarded():
    f = lambda x: x if x[0] > 0 else x[::-1] * x
    assert wg.sparsity(f, [1.0, 2.0, 3.0]).nnz == 3
    assert wg.sparsity(f, [-1.0, 2.0, 3.0]).nnz == 5
    program = wg.record(f, [1.0, 2.0, 3.0])
    assert wg.sparsity(program, [-1.0, 2.0, 3.0]).nnz == 3  # the pattern of the program itself
    g = wg.record(lambda x: np.maximum(x, 0) if x[0] > 0 else x, [1.0, 2.0])
    with pytest.raises(GuardError):
        wg.sparsity(g, [-1.0, 2.0], kind="local")


# ---------------------------------------------------------------------------------- arguments


def test_arguments_match_jacobian():
    f = lambda x, k, A=None: k * x[:2] + (A @ x if A is not None else 0.0)
    x = np.ones(3)
    assert wg.sparsity(f, x, args=(2.0,)).nnz == 2
    assert wg.sparsity(f, x, args=(2.0,), argnums=1).toarray().tolist() == [[True], [True]]
    assert wg.sparsity(f, x, args=(2.0,), argnums=-1).shape == (2, 1)
    A = np.array([[0.0, 0, 1], [0, 0, 0]])
    assert wg.sparsity(f, x, args=(2.0,), kwargs={"A": A}).nnz == 6  # another matrix may be passed later
    assert wg.sparsity(f, x, args=(2.0,), kwargs={"A": sp.csr_array(A)}).nnz == 3
    assert wg.sparsity(lambda x: x[0], [1, 2]).shape == (1, 2)
    assert wg.sparsity(np.sin, 1.0).shape == (1, 1)
    assert wg.sparsity(lambda x: np.ones(3), x).nnz == 0
    assert wg.sparsity(lambda x: np.outer(x, x).T, x).shape == (9, 3)
    assert wg.sparsity(lambda x: x.astype(np.float32) * 2, np.ones(3, np.float32)).nnz == 3
    assert wg.sparsity(lambda x: x[:0], x).shape == (0, 3)


def test_state_read_by_compiled_function_may_change():
    A = np.eye(3)
    f = lambda x: A @ x
    assert wg.sparsity(f, np.ones(3)).nnz == 3
    assert wg.sparsity(wg.compile(f), np.ones(3)).nnz == 9
    assert wg.sparsity(wg.compile(f), np.ones(3), kind="local").nnz == 3


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: wg.sparsity(np.sin, 1.0, order=3), ValueError, "order is 1 for a Jacobian or 2 for a Hessian, not 3"),
        (lambda: wg.sparsity(np.sin, 1.0, kind="all"), ValueError, "kind is 'global' or 'local', not 'all'"),
        (lambda: wg.sparsity(lambda x: {"a": x}, np.ones(2)), TypeError, "must return one array or number"),
        (lambda: wg.sparsity(lambda x: x["a"], {"a": np.ones(2)}), TypeError, "is a container: pass one array"),
        (lambda: wg.sparsity(lambda x: x, np.ones(2), argnums=1), TypeError, "has 1 positional arguments"),
        (lambda: wg.sparsity(wg.record(np.sin, np.ones(2)), np.ones(3)), ValueError, "arguments of other shapes"),
        (lambda: wg.sparsity(lambda x: memoryview(x)[0], np.ones(2)), wg.TracedValueError, "memoryview"),
        (lambda: wg.sparsity(lambda x: np.setdiff1d(x, 1.0), np.ones(2)), wg.UnsupportedFunctionError, "setdiff1d"),
    ],
)
def test_errors_name_the_cause(call, error, words):
    with pytest.raises(error, match=words):
        call()


PATTERN = np.array([[1, 0, 0, 1], [0, 1, 1, 0]])


@pytest.mark.parametrize(
    ("sparsity", "shape", "nnz"),
    [(None, (2, 4), 8), (PATTERN, (2, 4), 4), (sp.coo_array(PATTERN), (2, 4), 4), ("elementwise", (4, 4), 4)],
)
def test_pattern_of_a_custom_rule_is_that_of_its_sparsity(sparsity, shape, nnz):
    A = np.eye(4) if isinstance(sparsity, str) else PATTERN
    f = lambda x: (A * x) @ x
    slope = lambda t, y, x: 2 * (A * x) @ t
    g = wg.primitive(f, jvp=slope, sparsity=sparsity)
    pattern = wg.sparsity(lambda x: g(x), np.arange(1.0, 5))
    assert pattern.shape == shape
    assert pattern.nnz == nnz
    assert_inside(pattern, numeric_jacobian(g, np.arange(1.0, 5)))
    assert_inside(wg.sparsity(lambda x: g(x), np.arange(1.0, 5), order=2), numeric_hessian(f, np.arange(1.0, 5)))


def test_probe_keeps_pattern_diagonal():
    assert wg.sparsity(lambda x: wg.probe(x * 2, lambda value: None), np.ones(3)).nnz == 3


# ---------------------------------------------------------------------------------- the table of structures


def bounded(domain):
    low, high = domain
    return max(low, -3.0), min(high, 3.0)


FLAT = [
    row
    for row in {id(row): row for row in rows_of_numpy().values()}.values()
    if row.kind == "elementwise"
    and dependency_rules.second_partials(row) != 7
    and isinstance(row.fun, np.ufunc)
    and None not in row.domain
]


@pytest.mark.parametrize("row", FLAT, ids=lambda row: row.name)
def test_second_derivatives_declared_zero_are_zero(row):
    bits = dependency_rules.second_partials(row)
    count = len(row.partials)
    for _ in range(20):
        x = np.array([RNG.uniform(*bounded(d)) for d in (row.domain or [(-2, 2)] * count)[:count]])
        H = wg.hessian(lambda x: row.fun(*[x[k] for k in range(count)]), x)
        assert bits & 1 or H[0, 0] == 0
        if count > 1:
            assert bits & 2 or H[0, 1] == 0
            assert bits & 4 or H[1, 1] == 0


def test_every_opcode_has_structure_of_its_rule():
    table = curvature()
    for name, opcode, arity, *_ in kernel_rows():
        if "." in name:
            assert table[opcode] == 7
        else:
            assert table[opcode] == dependency_rules.second_partials(primitive(opcode))
        assert table[opcode] in (0, 7) or arity == 2


def flat(case):
    """Return a call as a vector function of all its operands, and these operands as a vector."""
    leaves = []

    def enter(a, drawn):
        if isinstance(a, primitive_cases.Operand):
            leaves.append(np.asarray(drawn))
            return len(leaves) - 1
        if isinstance(a, (list, tuple)) and primitive_cases.holds_operand(a):
            return [enter(*pair) for pair in zip(a, drawn)]
        return lambda: drawn

    tree = [enter(*pair) for pair in zip(case.args, case.draw(1))]
    ends = np.cumsum([0, *map(np.size, leaves)])

    def f(x):
        def build(t):
            if isinstance(t, list):
                return [build(part) for part in t]
            if callable(t):
                return t()
            part = x[ends[t] : ends[t + 1]]
            return np.reshape(part, leaves[t].shape) if leaves[t].ndim else part[0]

        y = case(*map(build, tree))
        return np.concatenate([np.ravel(part) for part in y]) if isinstance(y, (list, tuple)) else np.ravel(y)

    return f, np.concatenate([*map(np.ravel, leaves), np.zeros(0)])


STATED = [
    pytest.param(*flat(case), id=case.name)
    for case in (*primitive_cases.CALLS, *primitive_cases.COMPOSED)
    if not case.name.startswith("full")  # its arguments do not form a vector
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("f", "x"), [case for case in STATED if 0 < case.values[1].size < 60])
def test_declared_patterns_contain_the_dependence_of_calls(f, x):
    with np.errstate(all="ignore"):
        assert_inside(wg.sparsity(f, x), np.asarray(wg.jacobian(f, x, mode="forward")) != 0)


#: calls whose pattern equals that of the derivative
TIGHT = """average-axis average-axes-keepdims average-weights average-weights-of-axis average-weights-of-axes-turned
matrix_norm eigvals-batch pseudo_inverse-batch vecdot-linalg(3,2)(3,2) einsum-interleaved cross-axes cross-axis
cross-linalg diff-joined prod-axis std-axes cumsum-axis kron-(2,1,2)(3,) tensordot-lists solve-batch-right inv-batch
convolve-same24 correlate-valid45 multi_dot trace-axes sums_of_segments-overlapping scatter_add-rows bincount""".split()


@pytest.mark.parametrize(("f", "x"), [case for case in STATED if case.id in TIGHT])
def test_declared_patterns_are_tight(f, x):
    assert (wg.sparsity(f, x).toarray() == numeric_jacobian(f, x)).all()


@pytest.mark.parametrize("name", ["average-axis", "quantile-axis", "nanpercentile-axes"])
def test_linear_calls_have_no_second_derivatives(name):
    (case,) = [case for case in STATED if case.id == name]
    assert wg.sparsity(*case.values, order=2).nnz == 0


def test_quantiles_depend_on_elements_along_their_axis():
    x = RNG.uniform(size=(3, 4))
    assert wg.sparsity(lambda x: np.quantile(x, [0.2, 0.7], axis=1), x).nnz == 2 * 12


def test_converted_arrays_keep_their_pattern():
    assert wg.sparsity(lambda x: x.astype(np.float32) * 2, np.ones(3)).nnz == 3


def test_rules_have_no_unknown_columns():
    with pytest.raises(TypeError, match="a row has no column 'dependance'; facts are "):
        registry.facts(np.sin, dependance=None)
    with pytest.raises(TypeError, match="a row has no column dependance"):
        registry.Primitive(np.sin, "elementwise", dependance=None)


@pytest.mark.parametrize("name", registry.FACTS)
def test_each_fact_is_a_documented_column_used_by_some_rule(name):
    assert f"\n{name} : " in inspect.cleandoc(registry.Primitive.__doc__)
    assert any(getattr(row, name) is not None for row in rows_of_numpy().values())


def test_engines_know_all_declared_words():
    rows = [row for row in rows_of_numpy().values() if row.kind != "custom"]
    assert {row.scalars for row in rows} - {None} == scalarise.WORDS
    assert {row.lowering for row in rows} - {None} == ssa.LOWERING_WORDS - {"strong"}
    assert {row.complex_parts for row in rows} - {None} == ssa.COMPLEX_WORDS
    patterns = {row.dependence if type(row.dependence) is str else type(row.dependence) for row in rows}
    assert patterns - {type(None), type(lambda: 0)} == dependency_rules.RULES.keys()


# ---------------------------------------------------------------------------------- sets


def test_unions_are_sorted_and_share_equal_sets():
    sets = Sets(100)
    rng = np.random.default_rng(5)
    chosen = [rng.choice(100, size, replace=False) for size in (0, 1, 2, 3, 7, 40, 90, 100)]
    ids = [sets.total([(c + 1).astype(np.int32)]) for c in chosen]
    for a, x in zip(ids, chosen):
        for b, y in zip(ids, chosen):
            ends, columns = sets.rows(np.array([sets.total([np.array([a, b], np.int32)])], np.int32))
            assert columns.tolist() == np.union1d(x, y).tolist()
            assert ends.tolist() == [0, len(columns)]
    count = sets.count
    assert sets.total([np.array(ids, np.int32)]) == ids[-1]
    assert sets.count == count


def numbers_and_arrays(x):
    a, b, s = x[0], x[1] * x[2], 0.0
    y = np.zeros(x.size)
    for i in range(x.size):
        a, b = b * x[i], a + x[i] ** 2
        s = s + np.sin(a)
        y[i] = s if i % 3 else b
    return y * np.cumsum(x) + s


class Small(Sets):
    """Sets that are released as often as possible."""

    def __init__(self, n, second=False):
        self.limit = 0


LONG = {
    **{case.id: case.values for case in EXACT},
    **{name: (f, np.linspace(0.5, 1.5, 5)) for name, f in SECOND.items()},
    "time loop": (stepped, np.linspace(0.5, 1.5, 9)),
    "history": (with_history, np.linspace(0.5, 1.5, 9)),
    "numbers": (numbers_and_arrays, np.linspace(0.5, 1.5, 9)),
}


@pytest.mark.parametrize("name", LONG)
def test_unreferenced_sets_are_released(name, monkeypatch):
    f, x = LONG[name]
    for word in ("_MIN_BYTES", "_MIN_BYTES_PER_STEP", "_MAX_FUSED_INSTRUCTIONS"):
        monkeypatch.setattr(loop_recovery, word, 0)
    program = record(f, (x,), {}, False)
    code = program._one_array("sparsity")
    for c in (code, loop_recovery.recover_loops(code)):
        for order in (1, 2):
            monkeypatch.undo()
            expected = pattern_of_ir(c, c.inputs[0], c.outputs[0], order)
            monkeypatch.setattr(pattern_module, "Sets", Small)
            found = pattern_of_ir(c, c.inputs[0], c.outputs[0], order)
            assert np.array_equal(found.toarray(), expected.toarray())


# ---------------------------------------------------------------------------------- the check at first use


def scaled(x):
    return np.array([1e8 * x[0] + 1e-8 * x[1], 1e-8 * x[1] + x[2] ** 2, 3.0 * x[2]])


X_SCALED = np.array([1.0, 2.0, 3.0])
J_SCALED = wg.jacobian(scaled, X_SCALED)


def product(v):
    return wg.jvp(scaled, X_SCALED, v)[1]


def test_correct_jacobian_passes_the_check():
    check(sp.csr_array(J_SCALED), product)
    check(sp.csr_array(np.zeros((2, 3))), lambda v: np.zeros(2))


@pytest.mark.parametrize("entry", [(0, 0), (0, 1), (1, 1), (1, 2), (2, 2)])
def test_missing_entry_of_any_scale_fails_the_check(entry):
    J = J_SCALED.copy()
    J[entry] = 0.0
    with pytest.raises(wg.PatternError, match=f"row {entry[0]} of the sparse derivative"):
        check(sp.csr_array(J), product)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_check_uses_given_directions_and_products(index):
    J = sp.csr_array(
        np.array([[1.0, -4.0, 0.0, 0.0], [-2.0, 0.0, 0.0, np.nan], [0.0, 0.0, 0.0, 1.0], [0, 0, np.inf, 0]])
    )
    ptr, indices = J.indptr.astype(index), J.indices.astype(index)
    of_zeros = direction(indices, np.zeros(J.nnz), 4)
    assert (0.5 <= abs(of_zeros)).all() and (abs(of_zeros) < 1.0).all()
    np.testing.assert_array_equal(direction(indices, J.data, 4), of_zeros / [2.0, 4.0, 1.0, 1.0])
    many = direction(indices, np.zeros(J.nnz), 10_000)
    np.testing.assert_allclose([many.mean(), abs(many).mean(), (many > 0).mean()], [0.0, 0.75, 0.5], atol=0.02)
    v = np.array([-0.5, 0.1875, 0.5, 1.0])
    exact = np.array([-1.25, 7.0, 1.0, 2.0])
    assert differing(ptr, indices, J.data, v, exact, 1e-6) == (0, -1, 0.0)
    assert differing(ptr, indices, J.data, v, exact + [1e-6, 0.0, 2e-6, 0.0], 1e-6) == (1, 2, 1.0)
    assert differing(ptr, indices, J.data, v, exact + [1e-5, np.nan, 2e-6, 0.0], 1e-6) == (2, 0, -1.25)


def test_check_error_names_function_and_line():
    J = J_SCALED * (1 - np.eye(3))
    line = scaled.__code__.co_firstlineno
    with pytest.raises(wg.PatternError, match=rf"^scaled \(.*test_sparsity\.py:{line}\): row 0 .* wengert\.sparsity"):
        check(sp.csr_array(J), product, "scaled", scaled)
