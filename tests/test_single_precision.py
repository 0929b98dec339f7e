"""Compiled derivatives of float32 functions: computed in double precision, with the values and dtypes of float32."""

import math
import warnings

import numpy as np
import pytest
from wengert.core.tape.kernel import single

import wengert as wg
from wengert.program.single_precision import Narrowed

F = np.float32
rng = np.random.default_rng(0)
x = rng.uniform(0.5, 1.5, 12).astype(F)
M = rng.uniform(-1.0, 1.0, (12, 12)).astype(F)
W = rng.uniform(-1.0, 1.0, (3, 3, 2)).astype(F)
table = rng.uniform(size=7).astype(F)


def softmax(u):
    e = np.exp(u - np.max(u, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def filled(u):
    y = np.zeros(12, F)
    y[0] = u[0] * 2
    for i in range(1, 12):
        y[i] = 0.9 * y[i - 1] + u[i] ** 2
    return np.sum(y * table[0])


def convolved(u):
    a = u.reshape(4, 3, 1)
    y = np.empty((2, 1, 2), F)
    for i in range(2):
        y[i] = np.sum(a[i : i + 3, :, :] * W, axis=(0, 1))
    return np.sum(np.maximum(y, 0) ** 2)


def stepped(u):
    v = u.copy()
    for _ in range(5):
        v[1:-1] = v[1:-1] + F(0.1) * (v[:-2] - 2 * v[1:-1] + v[2:])
    return np.sum(v * v)


def branching(u):
    return np.sum(u * u) if u[0] > 0.6 else np.sum(np.sin(u))


SCALAR = {
    "arithmetic": lambda u: np.sum((u * 3 - 1) / (u + 0.1) - u**3),
    "functions": lambda u: np.sum(np.exp(-u) * np.sin(u) + np.log1p(u) * np.tanh(u) + np.sqrt(u)),
    "softmax": lambda u: np.sum(softmax(u.reshape(3, 4)) * M[:3, :4]),
    "matrix products": lambda u: np.dot(u, M @ u) + np.sum((M @ np.tanh(M @ u)) ** 2),
    "einsum": lambda u: np.einsum("i,ij,j->", u, M, u),
    "in place": filled,
    "convolution": convolved,
    "time steps": stepped,
    "branch": branching,
    "where": lambda u: np.sum(np.where(u > 1, u * u, np.exp(u))),
    "clip": lambda u: np.sum(np.clip(u, 0.7, 1.2) ** 2),
    "reductions": lambda u: np.mean(u) * np.std(u) + np.max(u) * np.prod(u[:3]) + np.linalg.norm(u),
    "moved": lambda u: np.sum(np.concatenate([u[::-1], np.roll(u, 2)]) * np.arange(24, dtype=F)),
    "sorted": lambda u: np.sum(np.sort(u) * np.arange(12, dtype=F)),
    "indices": lambda u: np.sum(u[[0, 0, 5]] ** 2),
    "transposed": lambda u: np.sum(u.reshape(3, 4).T @ u.reshape(3, 4)),
    "linear algebra": lambda u: np.sum(np.linalg.solve(M[:4, :4] + 4 * np.eye(4, dtype=F), u[:4]) ** 2),
    "cumulative": lambda u: np.sum(np.cumsum(u) ** 2),
    "to double precision": lambda u: np.sum(u.astype(float) ** 2).astype(F),
    "to single precision": lambda u: np.sum((u.astype(float) * math.pi).astype(F) ** 2),
    "Python sum": lambda u: sum(v * v for v in u),
}


def compiled(derivative, *args):
    """Return the results of a compiled derivative at some points, after checking that they do not run uncompiled."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = [derivative(*args), *(derivative(args[0] * F(c), *args[1:]) for c in (1.01, 1.02, 1.03, 1.04))]
    return found


def programs_of(derivative):
    """Return the programs that a compiled derivative has recorded."""
    tables = derivative._tables.values()
    return [path.program for table in tables for paths in table.paths.values() for path in paths]


def close(got, expected, tolerance=2e-5):
    got, expected = np.asarray(got, float), np.asarray(expected, float)
    assert np.max(np.abs(got - expected), initial=0.0) <= tolerance * max(np.max(np.abs(expected), initial=0.0), 1e-3)


@pytest.mark.parametrize("tier", ["vm", "llvm"])
@pytest.mark.parametrize("f", SCALAR.values(), ids=SCALAR)
def test_gradients_have_values_and_dtype_of_eager_ones(f, tier):
    if tier == "llvm":
        pytest.importorskip("llvmlite")
    eager, derivative = wg.grad(f), wg.grad(wg.compile(f, tier=tier))
    for got, c in zip(compiled(derivative, x), (1, 1.01, 1.02, 1.03, 1.04)):
        expected = eager(x * F(c))
        assert type(got) is np.ndarray
        assert got.dtype == expected.dtype == F
        close(got, expected)
    assert {type(program) for program in programs_of(derivative)} == {Narrowed}


@pytest.mark.parametrize("f", SCALAR.values(), ids=SCALAR)
def test_hessians_have_values_and_dtype_of_eager_ones(f):
    eager, derivative = wg.hessian(f)(x), wg.hessian(wg.compile(f))
    assert derivative(x).dtype == eager.dtype == F
    close(derivative(x), eager, 2e-4)
    assert {type(program) for program in programs_of(derivative)} == {Narrowed}


VECTOR = {
    "softmax": softmax,
    "layer": lambda u: np.tanh(M @ u + 1),
    "differences": lambda u: np.diff(u**2),
}


@pytest.mark.parametrize("f", VECTOR.values(), ids=VECTOR)
@pytest.mark.parametrize("operator", [wg.jacobian, wg.jvp], ids=["jacobian", "jvp"])
def test_derivatives_of_arrays(operator, f):
    directions = () if operator is wg.jacobian else (np.ones(12, F),)
    if operator is wg.jvp:
        got, expected = (wg.jvp(g, x, *directions) for g in (wg.compile(f), f))
    else:
        got, expected = operator(wg.compile(f))(x), operator(f)(x)
    for one, other in zip(*([y] if operator is wg.jacobian else y for y in (got, expected))):
        assert one.dtype == other.dtype
        close(one, other)


def test_the_derivative_runs_in_double_precision_without_calls():
    derivative = wg.grad(wg.compile(SCALAR["softmax"], tier="vm"))
    compiled(derivative, x)
    (program,) = programs_of(derivative)
    assert not [call for call in program._vectorised_ir().calls if call.row.kind == "elementwise"]


def test_values_are_rounded_as_in_single_precision():
    def f(u):  # 0.7 * 10 is 7 in single precision, and less in double precision
        return np.sum(u * np.floor(u * 10))

    y = np.array([0.7, 0.3], F)
    assert np.array_equal(wg.grad(wg.compile(f))(y), wg.grad(f)(y))
    assert np.array_equal(wg.grad(f)(y), [7, 3])


def test_constants_are_compared_in_single_precision():
    def f(u):  # 0.1 as float32 is larger than 0.1 as float64
        return np.sum(np.where(u > 0.1, 5 * u, u))

    assert np.array_equal(wg.grad(wg.compile(f))(np.array([0.1, 0.2], F)), [1, 5])


def test_constants_keep_double_precision_in_functions_that_return_it():
    def f(u):
        return np.sum(np.sin(1e7 * np.interp(u, [0.0, 0.1, 1.0], [0.0, 0.3, 1.0])))

    y = np.array([0.5, 0.25], F)
    slope = 0.7 / 0.9
    expected = 1e7 * slope * np.cos(1e7 * (0.3 + slope * (y.astype(float) - 0.1)))
    close(wg.grad(wg.compile(f))(y), expected, 1e-6)


def test_large_products_stay_in_single_precision():
    weights = rng.uniform(-0.1, 0.1, (784, 256)).astype(F)
    derivative = wg.grad(wg.compile(lambda u: np.sum(np.maximum(u @ weights, 0) ** 2)))
    y = rng.uniform(-1.0, 1.0, (64, 784)).astype(F)
    close(derivative(y), 2 * np.maximum(y @ weights, 0) @ weights.T, 1e-4)
    assert Narrowed not in {type(program) for program in programs_of(derivative)}


def test_overflow_is_that_of_single_precision():
    def f(u):
        return np.sum(1 / (1 + np.exp(u) ** 2))

    y = np.array([60.0, 0.5], F)
    with np.errstate(over="ignore"):
        expected = wg.grad(f)(y)
        assert np.array_equal(wg.grad(wg.compile(f))(y)[0], expected[0])


def test_other_precisions_beside_single_keep_their_results():
    a = np.linspace(0.1, 1.0, 12)
    for f in (lambda u: np.sum(u * a), lambda u: np.sum((u * a).astype(F)), lambda u: np.sum(u * F(2)) * 1.5):
        got, expected = wg.grad(wg.compile(f))(x), wg.grad(f)(x)
        assert got.dtype == expected.dtype
        close(got, expected)


def test_float64_arguments_of_functions_that_compute_in_single_precision():
    def f(u):
        v = u.astype(F)
        return np.sum(np.exp(-v * table[0]) * np.sin(v) + M @ v)

    y = x.astype(float)
    for operator in (wg.grad, wg.hessian):
        derivative = operator(wg.compile(lambda u: f(u).astype(float)))
        assert derivative(y).dtype == float
        close(derivative(y), operator(f)(y))
        assert {type(program) for program in programs_of(derivative)} == {Narrowed}


def test_captured_arrays_may_change():
    model = {"w": M[0].copy()}
    derivative = wg.grad(wg.compile(lambda u: np.sum(np.sin(u) * model["w"])))
    close(derivative(x), np.cos(x) * model["w"])
    model["w"] = M[1].copy()
    close(derivative(x), np.cos(x) * model["w"])


def test_strided_arguments():
    y = np.repeat(x, 2)[::2]
    derivative = wg.grad(wg.compile(SCALAR["arithmetic"]))
    close(derivative(y), wg.grad(SCALAR["arithmetic"])(y))
    grid = x.reshape(3, 4).T
    f = lambda u: np.sum(u[1:] * u[:-1])
    close(wg.grad(wg.compile(f))(grid), wg.grad(f)(grid))


def test_scalars():
    f = lambda u: np.sin(u) * u
    got, expected = wg.grad(wg.compile(f))(F(0.5)), wg.grad(f)(F(0.5))
    assert type(got) is type(expected)
    close(got, expected)


def test_rounding_to_single_precision():
    values = np.array([0.1, -1e-46, 1e39, np.nan, -np.inf, 1 + 2.0**-25])
    with np.errstate(over="ignore"):
        assert np.array_equal(single(values), values.astype(F).astype(float), equal_nan=True)
