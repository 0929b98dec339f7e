"""Second derivatives and linearised functions: forward over reverse on one recording."""

from __future__ import annotations

import pickle
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import minimize, rosen, rosen_hess
from scipy.sparse.linalg import eigsh, gmres, lsmr
from wengert.core import calls

import wengert as wg
from helpers import DIFFERENCES, assert_rounding, assert_same_bits, central_differences
from primitive_cases import CALLS, COMPOSED, MOVES
from scenarios import TABLE
from test_primitives import as_function, directions_for, identity, is_several, numbers_for
from wengert.errors import UnsupportedFunctionError

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
    """Residuals stored one by one, squared in place, summed up in one place."""
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
    """With a product, a gather and a rearrangement in it."""
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
def test_the_hessian_of_rosenbrock_in_every_style(f, n):
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
def test_closed_forms(name):
    f, exact = CLOSED_FORMS[name]
    H = wg.hessian(f, X)
    assert_rounding(H, exact(X), scale=max(1.0, np.abs(exact(X)).max()))
    assert_same_bits(H, H.T)
    assert_rounding(wg.hvp(f, X, X), exact(X) @ X, scale=10.0)


def squared(f, *args):
    """A number that depends on everything that f returns."""

    def loss(x):
        y = f(x, *args)
        return np.sum(np.sin(y * 0.5) + np.square(y))

    return loss


@pytest.mark.parametrize("case", [c for c in TABLE if not c.containers and c.dtype == np.float64], ids=lambda c: c.name)
@pytest.mark.filterwarnings("ignore::wengert.MutatedInputWarning")
def test_programs_have_the_derivative_of_their_gradient(case):
    loss = squared(lambda x, *args: np.stack(y) if isinstance(y := case.f(x, *args), (list, tuple)) else y, *case.args)
    x = np.asarray(case.x, float)
    g = wg.grad(loss)
    H = wg.hessian(loss, x)
    n = x.size
    v = np.random.default_rng(3).normal(size=x.shape)
    h = 1e-5
    expected = (g(x + h * v) - g(x - h * v)) / (2 * h)
    found = (H.reshape(n, n) @ v.ravel()).reshape(x.shape)
    scale = np.abs(H).max(initial=1.0) * np.abs(v).max()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=DIFFERENCES * 10 * scale)
    np.testing.assert_allclose(wg.hvp(loss, x, v), found, rtol=1e-9, atol=1e-11 * scale)
    assert_same_bits(g(x), wg.grad(loss)(x))


# ---- every row of the registry

NO_SECOND = {}


def weighted(f, leaves):
    """A curved number made of all results of a call."""
    rng = np.random.default_rng(5)

    def total(y):
        if is_several(y):
            return sum(total(part) for part in y)
        return np.sum(rng_weights(np.shape(y)) * np.sin(y))

    def rng_weights(shape):
        return np.random.default_rng(7).uniform(0.5, 1.5, shape)

    del rng
    return lambda *xs: total(f(*xs))


ALL = [*CALLS, *MOVES, *COMPOSED]


@pytest.mark.parametrize("case", ALL, ids=identity)
def test_every_function_has_second_derivatives(case):
    leaves = numbers_for(case)
    loss = weighted(as_function(case), leaves)
    wrt = tuple(range(len(leaves)))
    v = directions_for(leaves, np.random.default_rng(11))
    v = [t if np.ndim(t) else np.float64(t) for t in v]

    def gradient(step):
        at = [np.array(x, float, order="K") for x in leaves]
        for x, t in zip(at, v):
            x[...] = x + step * t
        at = [x if isinstance(old, np.ndarray) else x[()] for x, old in zip(at, leaves)]
        return wg.grad(loss, at[0], args=tuple(at[1:]), argnums=wrt)

    h = 1e-3
    with np.errstate(all="ignore"):
        product = wg.hvp(loss, argnums=wrt)
        found = product(leaves[0], tuple(v), *leaves[1:])
        stacked = product(leaves[0], tuple(np.stack([0 * t, t, 2 * t]) for t in v), *leaves[1:])
        ahead, behind, far, back = (gradient(s * h) for s in (1, -1, 2, -2))
    for i, got in enumerate(found):
        expected = (8 * (ahead[i] - behind[i]) - (far[i] - back[i])) / (12 * h)
        known = np.isfinite(expected)
        scale = 1 + np.abs(expected[known]).max(initial=0)
        np.testing.assert_allclose(np.asarray(got)[known], expected[known], rtol=1e-6, atol=1e-7 * scale)
        np.testing.assert_allclose(np.asarray(stacked[i][1])[known], np.asarray(got)[known], rtol=1e-9, atol=1e-10 * scale)
        np.testing.assert_allclose(np.asarray(stacked[i][2])[known], 2 * np.asarray(got)[known], rtol=1e-9, atol=1e-10 * scale)


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
