"""LU factors of sparse Jacobians against NumPy, and integrations of large sparse systems against closed forms."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from wengert.program.integration.factor import Dense, Sparse

import wengert as wg
import wengert.scipy.integrate
from wengert.errors import GuardError
from wengert.program.integration.calls import Integration
from wengert.program.integration.pattern import Pattern

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it


def banded(n, width):
    i, j = np.indices((n, n))
    return np.abs(i - j) <= width


def scattered(n, density):
    return np.random.default_rng(n).random((n, n)) < density


def grid(m):
    """Pattern of the Laplacian on a periodic grid."""
    i, j = np.indices((m * m, m * m))
    rows, columns = np.minimum((i // m - j // m) % m, (j // m - i // m) % m), np.minimum((i - j) % m, (j - i) % m)
    return rows + columns <= 1


MASKS = {
    "one state": banded(1, 0),
    "diagonal": banded(12, 0),
    "empty": np.zeros((5, 5), bool),
    "tridiagonal": banded(40, 1),
    "scattered": scattered(50, 0.08),
    "nearly dense": scattered(15, 0.8),
    "grid": grid(7),
    "arrow": np.eye(30, dtype=bool) | (np.arange(30) == 0) | (np.arange(30) == 0)[:, None],
}


@pytest.mark.parametrize("kind", [Sparse, Dense])
@pytest.mark.parametrize("is_complex", [False, True])
@pytest.mark.parametrize("name", MASKS)
def test_factors_solve_several_matrices_with_the_same_nonzeros(name, is_complex, kind):
    mask, random = MASKS[name], np.random.default_rng(1)
    n = len(mask)
    factor = kind(Pattern(n, *np.nonzero(mask)), is_complex, 1)
    shift = 1.5 + 0.8j if is_complex else 1.5
    for scale in (0.1, 1.0, 30.0, 1e5, 0.0):  # the last but one needs other pivots than the diagonal
        values = random.standard_normal(np.count_nonzero(mask))
        matrix = np.zeros((n, n))
        matrix[mask] = scale * values
        matrix = matrix + shift * np.eye(n)
        b = random.standard_normal((2, n)) + (1j * random.standard_normal((2, n)) if is_complex else 0.0)
        for transposed in (False, True):
            x = factor.solution(values, scale, shift, b, transposed)
            residual = (matrix.T if transposed else matrix) @ x.T - b.T
            assert np.abs(residual).max() <= 1e-10 * (np.abs(matrix).max() * np.abs(x).max())


def test_pivots_may_be_off_the_diagonal():
    mask = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 1]], bool)
    factor, values = Sparse(Pattern(3, *np.nonzero(mask)), False, 1), np.array([2.0, 3.0, 4.0, 5.0, 6.0])
    matrix = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0], [0.0, 5.0, 6.0]])
    np.testing.assert_allclose(matrix @ factor.solution(values, 1.0, 0.0, np.ones((1, 3)))[0], 1.0, rtol=1e-14)
    np.testing.assert_allclose(matrix.T @ factor.solution(values, 1.0, 0.0, np.ones((1, 3)), True)[0], 1.0, rtol=1e-14)


@pytest.mark.parametrize("kind", [Sparse, Dense])
def test_singular_matrices_raise(kind):
    factor = kind(Pattern(2, np.array([0, 1]), np.array([0, 0])), False, 1)
    with pytest.raises(GuardError, match="singular"):
        factor.solution(np.ones(2), 1.0, 0.0, np.ones((1, 2)))
    np.testing.assert_allclose(factor.solution(np.ones(2), 1.0, 1.0, np.ones((1, 2)))[0], [0.5, 0.5])


def test_numbers_that_are_not_finite_raise():
    factor = Sparse(Pattern(2, np.array([0, 1]), np.array([0, 1])), False, 1)
    with pytest.raises(GuardError, match="not finite"):
        factor.solution(np.array([1.0, np.nan]), 1.0, 1.0, np.ones((1, 2)))


@pytest.mark.parametrize(
    ("mask", "is_sparse"),
    [
        (banded(3, 2), True),
        (banded(100, 99), False),
        (banded(100, 2), True),
        (grid(10), True),
        (scattered(60, 0.3), False),
    ],
)
def test_sparse_factors_are_chosen_by_cost(mask, is_sparse):
    assert Pattern(len(mask), *np.nonzero(mask)).is_sparse == is_sparse


# ---- systems


def integrates(program):
    return any(isinstance(call.compute, Integration) for call in program._listing.calls)


N = 600
SPACING = 1.0 / (N + 1)
SINE = np.sin(np.pi * SPACING * np.arange(1, N + 1))
RATE = 4 / SPACING**2 * np.sin(0.5 * np.pi * SPACING) ** 2  # eigenvalue of the discrete Laplacian


def heat(p, method):
    """Middle of a rod with diffusivity p[0] and a source p[1] of its lowest mode, at two times."""

    def rate(t, y):
        full = np.concatenate([np.zeros(1), y, np.zeros(1)])
        return p[0] * (full[2:] - 2.0 * full[1:-1] + full[:-2]) / SPACING**2 + p[1] * SINE

    found = solve_ivp(rate, (0.0, 1.0), 2.0 * SINE, method, np.array([0.4, 1.0]), rtol=1e-7, atol=1e-9)
    return found.y[N // 2]


def exact_heat(p):
    t, decay = np.array([0.4, 1.0]), p[0] * RATE
    return SINE[N // 2] * (2.0 * np.exp(-decay * t) + p[1] * -np.expm1(-decay * t) / decay)


def exact_heat_jacobian(p):
    return np.stack([np.imag(exact_heat(p + 1e-30j * e)) / 1e-30 for e in np.eye(2)], axis=1)


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_large_sparse_systems_are_recorded(method):
    p = np.array([0.2, 1.5])
    program = wg.record(lambda p: np.sum(heat(p, method) * [1.0, 2.0]), p)
    assert integrates(program)
    for x in (p, p * [1.3, 0.5]):
        y, J = exact_heat(x), exact_heat_jacobian(x)
        assert abs(program(x) / (y @ [1.0, 2.0]) - 1) < 1e-5
        np.testing.assert_allclose(program.grad()(x), J.T @ [1.0, 2.0], rtol=2e-5)


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_large_sparse_systems_have_derivatives_in_eager_mode(method):
    p = np.array([0.2, 1.5])
    np.testing.assert_allclose(wg.jacobian(lambda p: heat(p, method), p), exact_heat_jacobian(p), rtol=2e-5)


def test_large_dense_systems_are_not_recorded():
    matrix = np.ones((501, 501)) / 501

    def f(p):
        return solve_ivp(lambda t, y: -p * (matrix @ y) * y[0], (0.0, 1.0), np.ones(501), "BDF", [1.0]).y[0, 0]

    with pytest.raises(TypeError, match="500 states"):
        wg.record(f, 0.7)


@pytest.mark.parametrize("method", ["Radau", "BDF"])
@pytest.mark.parametrize("sensitivity", ["forward", "discrete"])
def test_branches_may_have_other_nonzeros(method, sensitivity):
    """The states are coupled from t = 1 on: first y0 decays, then it turns into y1."""

    def f(p):
        def rate(t, y):
            return np.array([-p[0] * y[0], 0.0 * y[1]]) if t < 1.0 else np.array([-p[1] * y[0], p[1] * y[0]])

        options = {"rtol": 1e-9, "atol": 1e-11, "max_step": 0.05, "sensitivity": sensitivity}
        times = np.array([1.0, 2.0])
        return np.ravel(wg.scipy.integrate.solve_ivp(rate, (0.0, 2.0), [2.0, 0.0], method, times, **options).y)

    p = np.array([0.7, 1.3])
    first, both = 2 * np.exp(-p[0]), 2 * np.exp(-p[0] - p[1])
    J = np.array([[-first, 0.0], [-both, -both], [0.0, 0.0], [both - first, both]])
    w = np.array([1.0, -2.0, 0.5, 3.0])
    compiled = wg.compile(wg.grad(lambda p: f(p) @ w))
    for gradient in (wg.grad(lambda p: f(p) @ w), compiled, compiled):
        np.testing.assert_allclose(gradient(p), J.T @ w, rtol=1e-5)
