"""Second derivatives and linearised functions: forward over reverse on one recording."""

from __future__ import annotations

import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_hess
from scipy.sparse.linalg import eigsh, gmres, lsmr

import wengert as wg
from helpers import DIFFERENCES, assert_rounding, assert_same_bits, central_differences
from primitive_cases import CALLS, COMPOSED, MOVES
from scenarios import TABLE
from test_primitives import as_function, directions_for, identity, is_several, numbers_for
from wengert.core.modes import second_calls

inf, nan = np.inf, np.nan
X = np.array([0.3, 1.2, -0.7, 0.45, 0.9, -1.1])
M = np.random.default_rng(1).normal(size=(5, 6))


def rosenbrock_by_element(x):
    total = 0.0
    for i in range(x.size - 1):
        total = total + 100 * (x[i + 1] - x[i] ** 2) ** 2 + (1 - x[i]) ** 2
    return total


def rosenbrock_by_slices(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def rosenbrock_in_place(x):
    """Store residuals one by one, square them in place, and accumulate in one element."""
    F = np.zeros(2 * x.size - 2)
    for i in range(x.size - 1):
        F[i] = 10 * (x[i + 1] - x[i] ** 2)
    F[x.size - 1 :] = 1 - x[:-1]
    F *= F
    total = np.zeros(1)
    for i in range(F.size):
        total[0] += F[i]
    return total[0]


def rosenbrock_as_matrix(x):
    """Use a product, a gather and a rearrangement."""
    pairs = np.stack([x[:-1], x[1:]])
    lower, upper = pairs[[0, 1]]
    residual = np.concatenate([10 * (upper - lower * lower), np.ones(x.size - 1) - lower])
    return residual @ residual


ROSENBROCKS = [rosenbrock_by_element, rosenbrock_by_slices, rosenbrock_in_place, rosenbrock_as_matrix]

CLOSED_FORMS = {
    "a quadratic form": (lambda x: x @ (M.T @ (M @ x)), lambda x: 2 * M.T @ M),
    "a matrix twice": (lambda x: np.sum((M @ x) ** 2), lambda x: 2 * M.T @ M),
    "a sum of powers": (lambda x: np.sum(x**3), lambda x: np.diag(6 * x)),
    "a product": (
        lambda x: np.prod(x),
        lambda x: np.prod(x) / np.outer(x, x) * (1 - np.eye(x.size)),
    ),
    "a product by a loop": (
        lambda x: x[0] * x[1] * x[2] * x[3] * x[4] * x[5],
        lambda x: np.prod(x) / np.outer(x, x) * (1 - np.eye(x.size)),
    ),
    "a norm": (
        lambda x: np.linalg.norm(x),
        lambda x: (np.eye(x.size) - np.outer(x, x) / (x @ x)) / np.sqrt(x @ x),
    ),
    "log-sum-exp": (
        lambda x: np.log(np.sum(np.exp(x))),
        lambda x: (lambda p: np.diag(p) - np.outer(p, p))(np.exp(x) / np.sum(np.exp(x))),
    ),
    "a number times an array": (
        lambda x: np.sum(x[0] * np.sin(x) * x[1]),
        lambda x: number_times_array(x),
    ),
    "every row and column": (
        lambda x: np.sum((x[:, None] * x) ** 2),
        lambda x: 8 * np.outer(x, x) + 4 * (x @ x) * np.eye(x.size),
    ),
    "a linear function": (lambda x: np.sum(M @ x), lambda x: np.zeros((6, 6))),
    "a constant": (lambda x: 3.0, lambda x: np.zeros((6, 6))),
    "kinks": (
        lambda x: np.sum(np.abs(x - 0.3) ** 1.0 + np.maximum(x, 0.3) + np.clip(x, -0.7, 0.45)),
        lambda x: np.zeros((6, 6)),
    ),
    "a branch of an array": (
        lambda x: np.sum(np.where(x > 0, x**3, x**2)),
        lambda x: np.diag(np.where(x > 0, 6 * x, 2)),
    ),
}


def number_times_array(x):
    total = x[0] * x[1]
    H = np.diag(-total * np.sin(x))
    factor = np.zeros((2, 6))
    factor[0, 1] = factor[1, 0] = 1  # d(x0 x1)/dx_j = factor @ (x0, x1)
    slope = np.zeros(6)
    slope[:2] = x[1], x[0]
    H += np.outer(slope, np.cos(x)) + np.outer(np.cos(x), slope)
    H[0, 1] += np.sum(np.sin(x))
    H[1, 0] += np.sum(np.sin(x))
    return H


@pytest.mark.parametrize("f", ROSENBROCKS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [2, 6, 23])
def test_hessian_of_rosenbrock_is_exact_in_every_style(f, n):
    x = np.random.default_rng(n).normal(size=n)
    H = wg.hessian(f, x)
    np.testing.assert_allclose(H, rosen_hess(x), rtol=1e-13, atol=1e-10)
    assert_same_bits(H, H.T)
    for chunk in (1, 2, n - 1, n + 5):
        np.testing.assert_allclose(wg.hessian(f, x, chunk=chunk), H, rtol=1e-13, atol=1e-10)
    v = np.random.default_rng(n + 1).normal(size=(3, n))
    np.testing.assert_allclose(wg.hvp(f, x, v), v @ H, rtol=1e-12, atol=1e-9)
    np.testing.assert_allclose(wg.hvp(f)(x, v[0]), H @ v[0], rtol=1e-12, atol=1e-9)


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_hessians_match_closed_forms(name):
    f, exact = CLOSED_FORMS[name]
    H = wg.hessian(f, X)
    assert_rounding(H, exact(X), scale=max(1.0, np.abs(exact(X)).max()))
    assert_same_bits(H, H.T)
    assert_rounding(wg.hvp(f, X, X), exact(X) @ X, scale=10.0)


def overwritten(x):
    y = np.exp(TALL @ x)
    z = y * y
    y[2:5] = z[1:4]
    y *= 2.0
    return np.sum(y * z)


TALL = np.random.default_rng(2).normal(size=(12, 10))
LAYERS = {
    "log-likelihood": lambda x: np.sum(np.log1p(np.exp(-(TALL @ x)))) + 0.5 * np.sum(x * x),
    "array and expressions of it": lambda x: (lambda s: np.sum(s * (1.0 - s) / (2.0 + s * s)))(np.tanh(TALL @ x)),
    "parts of an array": lambda x: (lambda y: np.sum(y[1:] * y[:-1] ** 2) + y[3])(np.exp(TALL @ x)),
    "an array written into": overwritten,
    "an array of several axes": lambda x: np.sum(np.mean(np.sin(TALL @ x).reshape(3, 4) ** 2, axis=1) ** 3),
    "two arrays": lambda x: np.sum(np.exp(TALL @ x) * np.cos(TALL[::-1] @ x) + np.exp(TALL @ x)),
    "a number times an array": lambda x: np.sum(x[0] * np.exp(-(TALL @ x)) * np.sum(x)),
    "products one after the other": lambda x: np.sum(np.sin(TALL.T @ -np.sin(TALL @ x)) ** 2),
    "a vector backwards": lambda x: np.sum(np.exp(TALL @ x[::-1])),
    "a vector backwards, twice": lambda x: np.sum(np.exp(TALL @ np.flip(x[::-1]))),
    "every other element": lambda x: np.sum(np.exp(TALL[:, :5] @ x[::-2])),
    "transposed grid": lambda x: np.sum(np.exp(TALL @ x.reshape(2, 5).T.ravel())),
    "linear steps": lambda x: (lambda u: np.sum(np.exp(np.negative(-u)) + (u - 1.0) * 3.0))(TALL @ x),
}


@pytest.mark.parametrize("name", LAYERS)
def test_many_directions_pass_through_elementwise_steps(name):
    f = LAYERS[name]
    x = np.random.default_rng(3).normal(size=10) / 4
    expected = wg.jacobian(wg.grad(f), x, mode="reverse")
    for chunk in (None, 9, 4):
        assert_rounding(wg.hessian(f, x, chunk=chunk), expected, scale=np.abs(expected).max())


def test_untaken_branch_of_where_contributes_nothing_in_many_directions():
    def f(x):
        y = np.eye(10) @ x
        return np.sum(np.where(y > 0, np.sqrt(np.negative(-y)), 0.0))

    x = np.arange(10.0)
    curvature = np.append(0.0, -0.25 * x[1:] ** -1.5)
    assert_rounding(wg.hessian(f, x), np.diag(curvature))


def squared(f, *args):
    """Return a scalar that depends on everything that f returns."""

    def loss(x):
        y = f(x, *args)
        return np.sum(np.sin(y * 0.5) + np.square(y))

    return loss


@pytest.mark.parametrize("case", [c for c in TABLE if not c.containers and c.dtype == np.float64], ids=lambda c: c.name)
@pytest.mark.filterwarnings("ignore::wengert.MutatedInputWarning")
def test_hessian_equals_derivative_of_gradient(case):
    loss = squared(lambda x, *args: np.stack(y) if isinstance(y := case.f(x, *args), (list, tuple)) else y, *case.args)
    x = np.asarray(case.x, float)
    g = wg.grad(loss)
    H = wg.hessian(loss, x)
    n = x.size
    v = np.random.default_rng(3).normal(size=x.shape) * np.abs(x)     # no step leaves a kink at 0
    h = 1e-5
    expected = (g(x + h * v) - g(x - h * v)) / (2 * h)
    found = np.where(H.reshape(n, n) == 0, 0, H.reshape(n, n) * np.where(v.ravel() == 0, 0, v.ravel()))
    found = np.where(v.ravel() == 0, 0, found).sum(axis=1).reshape(x.shape)
    scale = np.abs(H[np.isfinite(H)]).max(initial=1.0) * np.abs(v).max(initial=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=DIFFERENCES * 10 * scale)
    np.testing.assert_allclose(wg.hvp(loss, x, v), found, rtol=1e-9, atol=1e-11 * scale)
    assert_same_bits(g(x), wg.grad(loss)(x))


# ---- every rule of the registry

def weighted(f):
    """Return a nonlinear scalar of all results of a call."""

    def total(y):
        if is_several(y):
            return sum(total(part) for part in y)
        return np.sum(np.random.default_rng(7).uniform(0.5, 1.5, np.shape(y)) * np.sin(y))

    return lambda *xs: total(f(*xs))


ALL = [*CALLS, *MOVES, *COMPOSED]


@pytest.mark.parametrize("case", ALL, ids=identity)
def test_every_function_has_second_derivatives(case):
    leaves = numbers_for(case)
    loss = weighted(as_function(case))
    wrt = tuple(range(len(leaves)))
    v = directions_for(leaves, np.random.default_rng(11))
    v = [t if np.ndim(t) else np.float64(t) for t in v]

    def gradient(step):
        at = [np.array(x, float, order="K") for x in leaves]
        for x, t in zip(at, v):
            x[...] = x + step * t
        at = [x if isinstance(old, np.ndarray) else x[()] for x, old in zip(at, leaves)]
        return wg.grad(loss, at[0], args=tuple(at[1:]), argnums=wrt)

    h = 2e-4
    product = wg.hvp(loss, argnums=wrt)
    with np.errstate(all="ignore"):
        found = product(leaves[0], tuple(v), *leaves[1:])
        stacked = product(leaves[0], tuple(np.stack([0 * t, t, 2 * t]) for t in v), *leaves[1:])
        ahead, behind, far, back = (gradient(s * h) for s in (1, -1, 2, -2))
    for i, got in enumerate(found):
        expected = (8 * (ahead[i] - behind[i]) - (far[i] - back[i])) / (12 * h)
        known = np.isfinite(expected)
        scale = 1 + np.abs(expected[known]).max(initial=0)
        np.testing.assert_allclose(np.asarray(got)[known], expected[known], rtol=1e-6, atol=1e-7 * scale)
        for times in (1, 2):
            np.testing.assert_allclose(
                np.asarray(stacked[i][times])[known], times * np.asarray(got)[known], rtol=1e-9, atol=1e-10 * scale
            )


@pytest.mark.parametrize("case", ALL, ids=identity)
def test_tangents_and_cotangents_of_every_function_agree(case):
    leaves = numbers_for(case)
    f = as_function(case)
    wrt = tuple(range(len(leaves)))
    y, J = wg.linearize(f, leaves[0], args=tuple(leaves[1:]), argnums=wrt)
    assert_same_bits(y, f(*leaves))
    rng = np.random.default_rng(12)
    V, U = rng.normal(size=(J.shape[1], 3)), rng.normal(size=(J.shape[0], 2))
    with np.errstate(all="ignore"):
        forward, back = J @ V, J.T @ U
        left, right = U.T @ forward, back.T @ V
    known = np.isfinite(left) & np.isfinite(right)
    np.testing.assert_allclose(left[known], right[known], rtol=1e-9, atol=1e-9)
    for j in range(3):
        np.testing.assert_allclose(J @ V[:, j], forward[:, j], rtol=1e-12, atol=1e-12)


# ---- strong zero, kinks, nonfinite values


def test_zero_adjoint_or_tangent_times_infinite_partial_is_zero():
    x = np.array([0.0, 4.0])
    exact = np.diag([0.0, -0.25 * 4.0**-1.5])

    def by_array(x):
        return np.sum(np.where(x > 0, np.sqrt(x), 0.0))

    def by_element(x):
        return 0.0 * np.sqrt(x[0]) + np.sqrt(x[1])

    def by_broadcasting(x):
        return np.sum(np.where(x > 0, np.sqrt(x * np.ones((3, 1))), 0.0)) / 3

    for f in (by_array, by_element, by_broadcasting):
        assert_rounding(wg.hessian(f, x), exact)
        assert_rounding(wg.hvp(f, x, np.array([0.0, 1.0])), exact[:, 1])


def test_matrix_products_of_zero_adjoints_and_infinite_constants():
    """y = a B has a column of infinities that the function does not read: its adjoint and second adjoint are 0."""
    B = np.array([[1.0, inf, 2.0], [-1.0, 3.0, 0.5]])
    a = np.array([[0.3, 0.7], [1.2, 0.4], [0.1, 2.0]])
    v = np.array([[1.0, 0.0], [-2.0, 1.0], [0.5, 3.0]])
    C = B[:, [0, 2]]
    for f in (lambda a: np.sum((a @ B)[:, ::2] ** 2), lambda a: np.sum((B.T @ a.T)[::2] ** 2)):
        np.testing.assert_allclose(wg.hvp(f, a, v), 2 * v @ C @ C.T, rtol=1e-14)
        np.testing.assert_allclose(wg.hvp(f, a, np.stack([0 * v, v]))[1], 2 * v @ C @ C.T, rtol=1e-14)


@pytest.mark.parametrize("k", [None, 3])
def test_products_of_two_traced_matrices(k):
    """f = |a b|^2 / 2 in both factors; matrix calculus gives the second derivatives."""
    rng = np.random.default_rng(0)
    a, b, da, db = (rng.normal(size=shape) for shape in 2 * ((4, 3), (3, 2)))
    y, dy = a @ b, da @ b + a @ db
    expected = dy @ b.T + y @ db.T, da.T @ y + a.T @ dy
    v = (da, db) if k is None else tuple(np.stack([0 * t, t, 2 * t]) for t in (da, db))
    found = wg.hvp(lambda a, b: np.sum((a @ b) ** 2) / 2, argnums=(0, 1))(a, v, b)
    for part, right in zip(found, expected):
        np.testing.assert_allclose(part if k is None else part[1], right, rtol=1e-13)
        if k:
            np.testing.assert_allclose(part[2], 2 * right, rtol=1e-13)


def test_array_with_and_without_requested_adjoints():
    """x enters products, sums and gathers, and a copy of it is overwritten; the given vectors are unchanged."""

    def f(x):
        z = x.copy()
        z[1] = x[0] * z[2]
        return x @ z + np.sum(x) * x[2] + np.sum(x[[0, 0, 1]] ** 3)

    x, v = np.array([0.5, -1.0, 2.0]), np.array([1.0, -0.5, 0.25])
    a, b, c = x
    # f = a^2 + a b c + c^2 + (a + b + c) c + 2 a^3 + b^3
    H = np.array([[2 + 12 * a, c, b + 1], [c, 6 * b, a + 1], [b + 1, a + 1, 4]])
    kept = v.copy()
    np.testing.assert_allclose(wg.hvp(f, x, v), H @ v, rtol=1e-14)
    np.testing.assert_array_equal(v, kept)
    np.testing.assert_allclose(wg.hessian(f, x), H, rtol=1e-14)


def test_infinite_constant_affects_only_dependent_results():
    A = np.array([[1.0, inf], [2.0, 3.0]])

    H = wg.hessian(lambda x: np.sum((A @ x)[1:] ** 2), [1.0, 2.0])
    assert_same_bits(H, 2 * np.outer(A[1], A[1]))
    _, J = wg.linearize(lambda x: A @ x, np.array([1.0, 0.5]))
    assert_same_bits(J @ np.array([[1.0], [0.0]]), np.array([[1.0], [2.0]]))


@pytest.mark.parametrize(
    ("f", "x", "second"),
    [
        (abs, 0.0, 0.0),
        (lambda x: x**0, 0.0, 0.0),
        (lambda x: x**1, 0.0, 0.0),
        (lambda x: x**2, 0.0, 2.0),
        (lambda x: x**3, 0.0, 0.0),
        (lambda x: np.power(x, 2.0), -1.5, 2.0),
        (lambda x: np.maximum(x, 1.0), 1.0, 0.0),
        (lambda x: np.clip(x, 0.0, 1.0), 1.0, 0.0),
        (lambda x: np.hypot(x, 0.0), 0.0, 0.0),
        (lambda x: np.hypot(x, 3.0), 0.0, 1 / 3),
        (lambda x: 2.0**x, 1.0, 2 * np.log(2) ** 2),
        (lambda x: 0.0**x, 2.0, 0.0),
        (lambda x: 1 / x, 2.0, 0.25),
        (lambda x: x / 3, 2.0, 0.0),
        (lambda x: np.sqrt(x), 0.0, -inf),
        (lambda x: np.tanh(x), 0.5, -2 * np.tanh(0.5) / np.cosh(0.5) ** 2),
        (lambda x: np.exp(x) * nan, 0.5, nan),
    ],
)
def test_second_derivatives_at_kinks_and_domain_ends(f, x, second):
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(wg.hessian(f, x), second, rtol=1e-14)
        at = np.array([x, x, x])
        for g in (lambda x: np.sum(f(x)), lambda x: f(x[0]) + f(x[1]) + f(x[2])):
            np.testing.assert_allclose(np.diag(wg.hessian(g, at)), np.full(3, second), rtol=1e-14)


def test_both_operands_of_a_power_have_second_derivatives():
    a, b = 1.7, 2.3
    H = wg.hessian(lambda a, b: a**b, a, args=(b,), argnums=(0, 1))
    mixed = a ** (b - 1) * (1 + b * np.log(a))
    exact = [[b * (b - 1) * a ** (b - 2), mixed], [mixed, a**b * np.log(a) ** 2]]
    np.testing.assert_allclose(H, exact, rtol=1e-13)


# ---- arguments, options, containers


def test_hessian_blocks_of_several_arguments_and_containers():
    def f(a, b, c):
        return np.sum(a**2) * b["u"] * b["v"][0] + c * np.sum(b["v"])

    at = (np.array([1.0, 2.0]), {"u": 3.0, "v": np.array([0.5, 1.5])}, 2.0)
    H = wg.hessian(f, at[0], args=at[1:], argnums=(0, 1, 2))
    assert_rounding(H[0][0], 2 * 3.0 * 0.5 * np.eye(2))
    assert_rounding(H[0][1]["u"], 2 * at[0] * 0.5)
    assert_rounding(H[0][1]["v"], np.outer(2 * at[0] * 3.0, [1, 0]))
    assert_rounding(H[1]["u"][1]["v"], [5.0, 0.0])
    assert_rounding(H[1]["v"][2], [1.0, 1.0])
    assert_same_bits(H[2][1]["v"], H[1]["v"][2])
    assert H[2][2] == 0.0


def test_slice_of_scalar_arguments_gives_one_square_array():
    def f(t, a, b):
        return t * a**2 * b

    H = wg.hessian(f, argnums=slice(1, None))
    assert_rounding(H(2.0, 3.0, 5.0), [[20.0, 12.0], [12.0, 0.0]])


def test_options_of_a_hessian_return_value_and_aux():
    f = lambda x: (np.sum(x**3), "aux")
    y, H, aux = wg.hessian(f, X, value=True, has_aux=True)
    assert y == np.sum(X**3)
    assert aux == "aux"
    out = np.empty((6, 6))
    derivative = wg.hessian(rosenbrock_by_element)
    assert derivative(X, out=out) is out
    assert_same_bits(out, H * 0 + derivative(X))
    assert derivative.fun(X) == rosenbrock_by_element(X)
    assert_same_bits(derivative(X), out)
    again = pickle.loads(pickle.dumps(derivative))
    assert_same_bits(again(X), out)
    assert repr(derivative) == "hessian(rosenbrock_by_element)"
    assert wg.hessian(lambda x: np.sum(x**2), np.ones((2, 3))).shape == (2, 3, 2, 3)
    assert wg.hessian(lambda x: np.sum(x**2), np.ones(0)).shape == (0, 0)
    assert type(wg.hessian(lambda x: x**3, 2.0)) is np.float64
    single = wg.hessian(lambda x: np.sum(x**3), np.array([1.0, 2.0], np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, np.diag([6.0, 12.0]), rtol=1e-6)


def test_products_keep_structure_of_the_argument():
    at = SimpleNamespace(a=np.array([1.0, 2.0]), b=3.0)
    v = SimpleNamespace(a=np.array([1.0, -1.0]), b=2.0)
    found = wg.hvp(lambda p: np.sum(p.a**3) * p.b, at, v)
    assert_rounding(found.a, 6 * at.a * v.a * at.b + 3 * at.a**2 * v.b)
    assert_rounding(found.b, np.sum(3 * at.a**2 * v.a))
    both = wg.hvp(lambda a, b: a * b * b, 2.0, (1.0, 1.0), args=(3.0,), argnums=(0, 1))
    assert both == (6.0, 6.0 + 4.0)
    assert wg.hvp(lambda x: np.sum(x**2), X, np.ones((0, 6))).shape == (0, 6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.hessian(lambda x: x**2, X), TypeError, "single number"),
        (lambda: wg.hvp(lambda x: [x, x], X, X), TypeError, "single number"),
        (lambda: wg.hvp(lambda x: np.sum(x), X, X[:2]), ValueError, r"shape \(2,\), expected shape \(6,\)"),
        (lambda: wg.hvp(lambda x: np.sum(x), X, X * 1j), ValueError, "real"),
        (lambda: wg.hvp(lambda x: np.sum(x), X), TypeError, "vector"),
        (lambda: wg.hessian(np.sum, X, chunk=0), ValueError, "chunk"),
        (lambda: wg.linearize(np.sin, X)[1] @ (1j * X), TypeError, "real"),
    ],
)
def test_errors_state_expected_input(call, error, message):
    with pytest.raises(error, match=message):
        call()


# ---- SciPy


def test_scipy_solvers_accept_operators_and_products():
    f, x0 = rosenbrock_by_element, np.full(5, 1.3)
    found = minimize(rosen, x0, method="trust-ncg", jac=wg.grad(f), hess=wg.hessian(f), tol=1e-9)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-7)
    found = minimize(rosen, x0, method="Newton-CG", jac=wg.grad(f), hessp=wg.hvp(f), tol=1e-9)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-5)

    A = np.eye(6) * 4 + M.T @ M
    y, J = wg.linearize(lambda x: A @ x + np.sin(x), X)
    exact = A + np.diag(np.cos(X))
    assert J.shape == (6, 6)
    assert_rounding(J @ np.eye(6), exact)
    assert_rounding(J.T @ np.eye(6), exact.T)
    np.testing.assert_allclose(gmres(J, y, rtol=1e-12)[0], np.linalg.solve(exact, y), rtol=1e-8)
    np.testing.assert_allclose(lsmr(J, y, atol=1e-14, btol=1e-14)[0], np.linalg.solve(exact, y), rtol=1e-8)
    np.testing.assert_allclose(eigsh(J, k=2)[0], np.linalg.eigvalsh(exact)[-2:], rtol=1e-9)

    y, J = wg.linearize(lambda x, c: {"a": x[:2] * c, "b": np.sum(x)}, X, args=(3.0,))
    assert J.shape == (3, 6)
    assert_rounding(J @ X, [3 * X[0], 3 * X[1], X.sum()])
    assert_rounding(J.rmatvec(np.array([1.0, 0.0, 2.0])), [5.0, 2, 2, 2, 2, 2])


# ---- one recording, many sweeps


def in_place(x):
    F = np.zeros((3, 6))
    F[1] = x
    F[:, 2] = x[0] * x[1]
    F[[0, 0, 1]] = x**2
    F *= F[1]
    for i in range(3):
        F[i, i] = np.sin(F[i, i + 1]) * x[i]
    view = F[::-1]
    view[0] += x
    F[F > 0.5] = 3 * F[F > 0.5] ** 2
    return F


def test_writes_are_undone_and_redone_in_any_order_of_sweeps():
    kept = []

    def f(x):
        kept[:] = [in_place(x)]
        return np.sum(kept[0] ** 2)

    exact = central_differences(wg.grad(f), X)
    np.testing.assert_allclose(wg.hessian(f, X), exact, rtol=1e-6, atol=1e-6 * np.abs(exact).max())
    assert_same_bits(np.asarray(kept[0]), in_place(X))

    y, J = wg.linearize(in_place, X)
    rows = wg.jacobian(in_place, X).reshape(18, 6)
    for _ in range(2):
        assert_rounding(J @ np.eye(6), rows)
        assert_rounding(J.T @ np.eye(18), rows.T)
        assert_rounding(J @ X, rows @ X)
        assert_rounding(J.rmatvec(np.ones(18)), rows.T @ np.ones(18))
    assert_same_bits(y, in_place(X))


def test_passive_blocks_have_zero_derivative():
    def f(x):
        with wg.passive():
            c = x[0] * x[1]
            d = x * 2
            F = np.zeros(6)
            F[:3] = x[:3]
            F[3] = x[3]
        F[4] = x[4]
        return c * np.sum(d * x**2) + np.sum(F * x)

    constant = X[0] * X[1] * 2 * X
    assert_rounding(wg.hessian(f, X), np.diag(2 * constant + [0, 0, 0, 0, 2, 0]))


def test_exception_in_sweep_leaves_values_unchanged(monkeypatch):
    calls_left = [0]
    whole = second_calls.tangent_of_call

    def failing(*args):
        if not calls_left[0]:
            raise KeyboardInterrupt
        calls_left[0] -= 1
        return whole(*args)

    kept = []

    def f(x):
        F = np.zeros(6)
        F[:] = x
        F[0] = x[1] * x[2]
        F *= 2
        F[1:] = np.cumsum(F)[1:]
        F[2] = F[3] * F[1]
        kept[:] = [F]
        return np.cumsum(F) * 1.0

    plain = f(X)
    value = kept[0].copy()
    y, J = wg.linearize(f, X)
    exact = J @ np.eye(6)
    monkeypatch.setattr("wengert.core.modes.second.tangent_of_call", failing)
    for n in range(2):
        calls_left[0] = n
        with pytest.raises(KeyboardInterrupt):
            J @ X
    monkeypatch.undo()
    assert_same_bits(J @ np.eye(6), exact)
    assert_same_bits(y, plain)
    monkeypatch.setattr("wengert.core.modes.second.tangent_of_call", failing)
    calls_left[0] = 1
    with pytest.raises(KeyboardInterrupt):
        wg.hessian(lambda x: np.sum(f(x) ** 2), X)
    assert_same_bits(np.asarray(kept[0]), value)


def test_two_threads_share_one_operator():
    _, J = wg.linearize(in_place, X)
    exact = J @ np.eye(6), J.T @ np.eye(18)
    wrong = []

    def work(seed):
        for _ in range(20):
            if not np.array_equal(J @ np.eye(6), exact[0]) or not np.array_equal(J.T @ np.eye(18), exact[1]):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_directions_may_alternate_in_a_long_loop():
    """Ranges of directions grow, split and merge again."""

    def f(x):
        a = [x[i] * x[(3 * i + 1) % 6] for i in range(6)]
        for i in range(40):
            a[i % 6] = np.sin(a[(i + 1) % 6]) * a[(5 * i + 2) % 6] + x[i % 6] / (2 + a[i % 6] ** 2)
        return a[0] * a[3] - a[5]

    for chunk in (1, 2, 4, 6):
        H = wg.hessian(f, X, chunk=chunk)
        exact = central_differences(wg.grad(f), X)
        np.testing.assert_allclose(H, exact, rtol=1e-6, atol=1e-6 * np.abs(exact).max())
        assert_rounding(H, wg.hessian(f, X))


@pytest.mark.parametrize("mode", ["mixed", "forward", "reverse"])
def test_primitive_with_tangent_rule_only_has_second_derivatives(mode):
    sine = wg.primitive(lambda x: np.sin(x), jvp=lambda t, y, x: t * np.cos(x))
    x = np.array([0.5, 1.0, 2.0])
    f = lambda sin: lambda x: np.sum(sin(sin(x)) * x[0])
    np.testing.assert_allclose(wg.hessian(f(sine), x, mode=mode), wg.hessian(f(np.sin), x), rtol=1e-13)
    np.testing.assert_allclose(wg.hvp(f(sine), x, x), wg.hvp(f(np.sin), x, x), rtol=1e-13)


@pytest.mark.parametrize("op", [wg.grad, wg.derivative, wg.hessian])
def test_rule_returning_tangent_of_wrong_shape_raises(op):
    wrong = wg.primitive(lambda x: np.sin(x), jvp=lambda t, y, x: np.ones(7))
    with pytest.raises(ValueError, match=r"a tangent of shape \(7,\) for a result of shape \(\)"):
        op(wrong, 1.0)
