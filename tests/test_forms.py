"""Ufuncs and methods in every call form that NumPy accepts: values, both modes, second order, a Program.

Each form is a function of one array; its value is bit-identical to NumPy, and unsupported forms raise.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.polynomial import Polynomial, hermite
from numpy.polynomial.chebyshev import chebval

import wengert as wg
from helpers import assert_same_bits
from wengert import features
from wengert.errors import GuardError, TracedValueError, UnsupportedFunctionError

X = np.random.default_rng(10).uniform(0.2, 2, (3, 4)) * np.array([1, -1, 1, -1.0])
MASK = X > 0.5


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def check(f, x=X):
    """Check the value against NumPy, and derivatives (both modes, second order, replay) against differences."""
    y = f(x)
    value, J = wg.jacobian(f, x, value=True, mode="reverse")
    assert_same_bits(value, y)
    h = 1e-5
    steps = np.eye(x.size).reshape(x.size, *x.shape) * h
    expected = np.stack([(f(x + e) - f(x - e)) / (2 * h) for e in steps], axis=-1).reshape(np.shape(J))
    np.testing.assert_allclose(J, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(wg.jacobian(f, x, mode="forward"), J, rtol=1e-12, atol=1e-13)
    weights = np.cos(np.arange(np.size(y))).reshape(np.shape(y))

    def loss(x):
        return np.sum(f(x) ** 2 * weights)

    v = np.sin(np.arange(x.size)).reshape(x.shape)
    gradient = wg.grad(loss)
    expected = (gradient(x + h * v) - gradient(x - h * v)) / (2 * h)
    for Hv in (wg.hvp(loss, x, v), wg.jvp(gradient, x, v)[1]):
        np.testing.assert_allclose(Hv, expected, rtol=2e-6, atol=1e-6 * np.abs(expected).max(initial=1.0))
    program = wg.record(loss, x)
    moved = x * 1.001
    try:
        np.testing.assert_allclose(program(moved), loss(moved), rtol=1e-12)
    except GuardError:  # Python code has read the values
        assert f in (METHODS["printing"], METHODS["numpy printing"], METHODS["numpy.testing"])
        return
    np.testing.assert_allclose(program.grad()(moved), gradient(moved), rtol=1e-11, atol=1e-12)


def changed(x, store, *args, **kwargs):
    """Store something into a copy of `x`, and return the copy."""
    y = np.copy(x)
    store(y, *args, **kwargs)
    return y


def into(shape, call, dtype=float):
    """Return what a call writes into ``out=``."""
    out = np.zeros(shape, dtype)
    result = call(out)
    assert result is out
    return out


def both(pair):
    return np.stack([part * 1.0 for part in pair])


def outs(x, call):
    """Return what a call writes into two ``out`` arrays."""
    first, second = np.zeros(x.shape), np.zeros(x.shape)
    assert call((first, second))[0] is first
    return first + 2 * second


FOLDS = [np.add, np.subtract, np.multiply, np.divide, np.hypot, np.logaddexp, np.logaddexp2]
FOLDS += [np.maximum, np.minimum, np.fmax, np.fmin, np.remainder, np.fmod, np.copysign, np.heaviside]

OPTIONS = {
    "dtype": lambda x: np.exp(x, dtype=np.float64) * np.add(x, 1, dtype=float) * np.sin(x[0, 0], dtype="f8"),
    "dtype of integers": lambda x: np.multiply(x, np.arange(4), dtype=np.float64),
    "casting": lambda x: np.add(x, [1, 2, 3, 4], casting="safe"),
    "signature": lambda x: np.multiply(x, x, signature="dd->d") + np.add(x, 1, signature=(None, None, float)),
    "subok and order": lambda x: np.multiply(x, x[::-1], subok=False, order="F").ravel(order="K"),
    "C order": lambda x: np.exp(x.T, order="C").ravel(order="K"),
    "where and out": lambda x: into((3, 4), lambda out: np.log(np.abs(x), out=out, where=MASK)) * x,
    "where and a tuple": lambda x: into((3, 4), lambda out: np.divide(1, x, out=(out,), where=MASK)),
    "out of a larger shape": lambda x: into((3, 4), lambda out: np.multiply(x[0], x[1], out=out)),
    "out at its position": lambda x: into((3, 4), lambda out: np.multiply(x, x, out)),
    "out is an operand": lambda x: changed(x, lambda y: np.multiply(y, y[::-1], out=y)),
    "outs of divmod": lambda x: outs(x, lambda out: np.divmod(x, 0.7, out=out)),
    "outs of divmod at their positions": lambda x: outs(x, lambda out: np.divmod(x, 0.7, *out)),
    "outs of modf": lambda x: outs(x, lambda out: np.modf(x, out=out)),
    "one out of modf": lambda x: into((3, 4), lambda out: np.modf(x, out=(out, None))[0]),
    "frexp and ldexp": lambda x: np.frexp(x)[0] * np.ldexp(x, np.frexp(x)[1]),
    "axes of matmul": lambda x: np.matmul(x, x, axes=[(1, 0), (0, 1), (1, 0)]),
    "axes of vecdot": lambda x: np.vecdot(x, x[:, ::-1], axes=[0, 0]) * np.vecdot(x, x, axis=0),
    "keepdims of vecdot": lambda x: np.vecdot(x, x * x, keepdims=True) + np.vecdot(x, x, axis=0, keepdims=True),
    "dtype of matmul": lambda x: np.matmul(x, x.T, dtype=np.float64),
    "batched matvec": lambda x: np.matvec(x.reshape(3, 2, 2), x[:, :2]) + np.vecmat(x[:, 2:], x.reshape(3, 2, 2)),
    "outer": lambda x: np.hypot.outer(x[0], x[1]) + np.multiply.outer(x[0], x[2], dtype=float),
    "outer of arrays": lambda x: np.power.outer(np.abs(x), x[0, :2]),
    "outer into": lambda x: into((4, 4), lambda out: np.subtract.outer(x[0], x[1], out=out)),
    "reduce over axes": lambda x: np.add.reduce(x * x, (0, 1)) * np.multiply.reduce(x, axis=None, keepdims=True),
    "reduce with start": lambda x: np.add.reduce(x, 0, None, None, False, 2.5) * np.multiply.reduce(x, initial=0.5),
    "reduce of some": lambda x: np.add.reduce(x, where=MASK) * np.maximum.reduce(x, where=MASK, initial=0.1),
    "reduce with dtype": lambda x: np.maximum.reduce(x, dtype=float) * np.add.reduce(x, 1, float)[0],
    "reduce into": lambda x: into(4, lambda out: np.multiply.reduce(x, out=out)),
    "fold with start": lambda x: np.subtract.reduce(x, initial=2.0) * np.divide.reduce(x, 0, initial=3.0, where=MASK),
    "logaddexp over axes": lambda x: np.logaddexp.reduce(x, axis=None) * np.logaddexp2.reduce(x, (0, 1), keepdims=True),
    "logaddexp of some": lambda x: np.logaddexp.reduce(x, 1, where=MASK, initial=0.1),
    "hypot over axes": lambda x: np.hypot.reduce(x, axis=(1, 0)) * np.hypot.reduce(x[1, 1:2]),
    "accumulate along": lambda x: np.add.accumulate(x, 1) * np.hypot.accumulate(x, axis=1) + np.multiply.accumulate(x),
    "accumulate into": lambda x: into((3, 4), lambda out: np.add.accumulate(x, out=out)),
    "reduceat along": lambda x: np.add.reduceat(x, [0, 3, 1], axis=1) * np.multiply.reduceat(x, [0, 2, 1], 1),
    "reduceat into": lambda x: into((2, 4), lambda out: np.add.reduceat(x, [0, 1], out=out)),
    "at of one operand": lambda x: changed(x, lambda y: np.negative.at(y, (0, [1, 1, 2]))),
    "at with repeats": lambda x: changed(x, lambda y: np.multiply.at(y, [0, 2, 0], x[:, ::-1])),
    "at a mask": lambda x: changed(x, lambda y: np.divide.at(y, MASK, x[0, 0])),
    "at elements": lambda x: changed(x, lambda y: np.maximum.at(y, ([0, 1, 0], [1, 1, 1]), x[2, :3])),
    "power at": lambda x: changed(np.abs(x), lambda y: np.power.at(y, ([0, 0], slice(1, 3)), 2.5)),
    **{
        f"{u.__name__}.{method}": lambda x, u=u, method=method: getattr(u, method)(
            x, *([[0, 2, 1]] if method == "reduceat" else [])
        )
        for u in FOLDS
        for method in ("reduce", "accumulate", "reduceat")
    },
}
if not features.has_matvec:
    del OPTIONS["batched matvec"]


METHODS = {
    "sort": lambda x: changed(x, lambda y: y.sort()) * np.arange(4.0) + changed(x, lambda y: y.sort(0, kind="stable")),
    "partition": lambda x: changed(x, lambda y: y.partition(2, axis=1)),
    "put": lambda x: changed(x, lambda y: y.put([0, 5, -1], x[0, :3] ** 2)),
    "put wrapped": lambda x: changed(x, lambda y: y.put([40, 5], x[0, 1], mode="wrap")),
    "choose": lambda x: np.choose((x > 0.5) * 1, [x, x[::-1] ** 2]),
    "choose, method": lambda x: np.array([0, 1, 1, 0]).choose([x, x[::-1] ** 2]),
    "compress into": lambda x: into((2, 4), lambda out: x.compress([True, False, True], 0, out)),
    "take into": lambda x: into((3, 2), lambda out: x.take([3, 0], 1, out)),
    "dot into": lambda x: into((3, 3), lambda out: x.dot(x.T, out)),
    "mean with where": lambda x: x.mean(axis=1, where=MASK) * x.sum(axis=1, initial=2.0),
    "max with start": lambda x: x.max(axis=0, initial=0.3, where=MASK) * x.min(1, keepdims=True),
    "std with where": lambda x: x.std(where=MASK) + x.var(axis=0, ddof=0.5),
    "cumsum into": lambda x: into((3, 4), lambda out: x.cumsum(1, None, out)),
    "trace with options": lambda x: x.trace(1, 0, 1, float) * x,
    "casting": lambda x: x.astype(float, casting="safe", copy=False) ** 2,
    "to_device": lambda x: x.to_device("cpu") ** 2,
    "device": lambda x: x * (x.device == "cpu") * x.itemsize * x.strides[0] * x.flags.c_contiguous + x.nbytes,
    "flat": lambda x: np.stack([v * v for v in x.flat]) * x.flat[5] + x.flat[1] * len(x.flat),
    "flat slice": lambda x: x.flat[2:7] * x.flat[[0, 0, 1, 2, 5]] + x.T.flat[3],
    "flat mask": lambda x: x.flat[MASK.ravel()] * np.sum(x.flat) + np.add(x.flat, 1)[0] + (x.flat > 0.3).sum(),
    "flat copy": lambda x: x.flat.copy() * x.flat.base.ravel() + x.flat.index + x.flat.coords[0],
    "flat written": lambda x: changed(x, flat_written),
    "flat assigned": lambda x: changed(x, lambda y: setattr(y, "flat", x[0, :3] ** 2)),
    "shape assigned": lambda x: changed(x, lambda y: setattr(y, "shape", (4, 3))).reshape(12) ** 2,
    "iteration": lambda x: np.stack([a * b for a, b, *rest in x]) + sum(x[0]) + max(x[1]) - min(x[2]),
    "unpacking": lambda x: unpacked(*x),
    "reversed": lambda x: np.stack(list(reversed(x))) * x,
    "zip and enumerate": lambda x: np.stack([i * row @ other for i, (row, other) in enumerate(zip(x, x[::-1]))]),
    "ndindex": lambda x: sum(x[i] ** 2 * sum(i) for i in np.ndindex(x.shape)) * np.ones(1),
    "ndenumerate": lambda x: sum(v**2 * sum(i) for i, v in np.ndenumerate(x)) * np.ones(1),
    "copies": lambda x: copy.copy(x) * copy.deepcopy(x) + copy.deepcopy([x[0]])[0] + copy.copy(x[0, 0]),
    "comparisons": lambda x: x * (x > 0.5) + x * (0.5 <= x) + (x == x) * x + (x != 0) + (x[0] < x[1]) * 2.0 * x,
    "membership": lambda x: x * (7.0 in x) + x[0] * (x.any() and not (x > 5).all()),
    "printing": lambda x: x * len(f"{x}{x[0, 0]:.3f}{x!r}{x[0, 0]!s}") / len(str(x)),
    "numpy printing": lambda x: x * (len(np.array2string(x)) + len(np.array_repr(x)) + len(np.array_str(x))),
    "numpy.testing": lambda x: asserted(x),
    "abs and round": lambda x: abs(x) * round(x[0, 0], 1) + x.round(1) * x + round(x[0, 1]),
    "divmod": lambda x: divmod(x, 0.7)[1] + divmod(3.0, x)[1] + x % 0.3 + 2 % x + (x // 0.3) * x,
}


PROMOTIONS = {
    "number": lambda x: x * 2 + 1.5 - x / 3,
    "scalar of float64": lambda x: x * np.float64(2),
    "scalar of float32": lambda x: x * np.float32(2) + np.float16(1),
    "integers": lambda x: x * np.arange(4) + np.ones(4, np.int8) * x,
    "small integers": lambda x: x + np.int16(3) + np.arange(4, dtype=np.uint8),
    "bools": lambda x: x * MASK + np.True_ - True,
    "array of float64": lambda x: x * np.ones(4),
    "float16": lambda x: x * np.ones(4, np.float16),
    "0-d": lambda x: x * np.array(2.0) + np.array(1, dtype=np.float32),
    "element": lambda x: x[0, 0] * x + x[0, 1] * 2.5,
    "element and number": lambda x: np.exp(x[0, 0]) * 2 + 1 / x[0, 1] + np.float64(1),
    "reductions": lambda x: x.sum() * x.mean(0) + np.prod(x, axis=0) + x.std() + np.linalg.norm(x),
    "transposed, where": lambda x: np.prod(np.exp(x.T), where=x.T > 0) * np.sum((x @ x.T).T, where=x @ x.T > 0.3),
    "sum in double": lambda x: np.sum(x, dtype=float) + x.mean(dtype=np.float64),
    "products": lambda x: x @ x.T + np.dot(x, np.arange(4)).sum() + np.einsum("ij,kj", x, x),
    "powers": lambda x: np.abs(x) ** 2 + np.abs(x) ** 0.5 + 2.0 ** x + np.power(np.abs(x), 3),
    "where": lambda x: np.where(MASK, x, 0) + np.where(MASK, 1.0, x) + np.clip(x, 0, 1) + np.maximum(x, 0.5),
    "joined": lambda x: np.concatenate([x, np.zeros((1, 4), np.float32)]) ** 2,
    "joined with double": lambda x: np.concatenate([x, np.zeros((1, 4))]) ** 2,
    "buffer of float32": lambda x: changed(np.zeros_like(x), lambda y: y.__setitem__(slice(None), x * x)),
    "buffer of float64": lambda x: into((3, 4), lambda out: np.multiply(x, x, out=out)),
    "sums in a buffer of float64": lambda x: (
        into(4, lambda out: np.sum(x, 0, out=out))
        + into(4, lambda out: np.mean(x, 0, None, out))
        + into((3, 4), lambda out: np.cumprod(x, axis=0, out=out))[2]
        + into(4, lambda out: np.subtract.reduce(x, out=out))
        + into((3, 4), lambda out: np.hypot.accumulate(x, out=out))[2]
    ),
    "scalar added at indices": lambda x: changed(x, lambda y: np.add.at(y, [0, 2, 0], 1.175)),
    "buffer of integers": lambda x: x * np.zeros((3, 4), int),
    "conversions": lambda x: x.astype(float) * x.astype(np.float32) + x.astype(int) * x.astype(bool),
    "transform": lambda x: np.fft.irfft(np.fft.rfft(x)) * np.abs(np.fft.fft(x)),
    "arange": lambda x: np.arange(x[0, 0], 4) * np.arange(x[0, 0], np.float32(4)),
    "linalg": lambda x: np.linalg.solve(x[:, :3] + np.eye(3, dtype=np.float32), x) + np.linalg.det(x[:, :3]),
    "cumulative": lambda x: np.cumsum(x, axis=0) + np.cumprod(x, 1) + np.sort(x) + np.diff(x, prepend=0),
    "statistics": lambda x: np.median(x) + np.quantile(x, 0.3) + np.var(x, axis=0) + np.nanmean(x),
    "percentiles": lambda x: np.nanpercentile(x, 30, axis=0) + np.percentile(x, 70),
}


@pytest.mark.parametrize("name", PROMOTIONS)
def test_dtypes_match_numpy(name):
    """Values, tangents and cotangents of float32 operands, combined with constants of other dtypes."""
    f, x, x64 = PROMOTIONS[name], X.astype(np.float32), X.astype(np.float32).astype(float)
    y, pullback = wg.vjp(f, x)
    assert_same_bits(y, f(x))
    if name != "transform":  # only real-valued functions are recorded
        assert_same_bits(np.asarray(wg.record(f, x, exact=True)(x)), np.asarray(y))
    ybar = np.cos(np.arange(np.size(y))).reshape(np.shape(y)).astype(y.dtype)
    (xbar,) = [pullback(ybar)]
    assert xbar.dtype == np.float32
    value, t = wg.jvp(f, x, np.ones_like(x))
    assert_same_bits(value, y)
    assert t.dtype == y.dtype
    close = {"rtol": 2e-3, "atol": 2e-3}
    np.testing.assert_allclose(t, wg.jvp(f, x64, np.ones_like(x64))[1], **close)
    np.testing.assert_allclose(xbar, wg.vjp(f, x64)[1](ybar.astype(np.asarray(f(x64)).dtype)), **close)


@np.vectorize
def smoothed(v, width=1.0):
    return v * v / width if v > 0 else v


@np.vectorize(otypes=[float, float], excluded={1, "k"})
def powers(v, n, k=2):
    return v**n, v * k


POLYNOMIAL = Polynomial([1.0, 2.0, 3.0], domain=[0, 2])


def combined(coef):
    return Polynomial(coef, domain=[0, 2])


class Model:
    def __init__(self):
        self.apply = np.vectorize(self.one)

    def one(self, v):
        F = np.zeros(2)
        F[1] = v
        return F[1] ** 2


MODEL = Model()

#: NumPy functions in Python code that do not dispatch on their arrays
AROUND = {
    "vectorize": lambda x: np.vectorize(lambda v: np.sin(v) * v)(x),
    "vectorize outside": lambda x: smoothed(x, 2.0) + smoothed(x, x[0] ** 2) + smoothed(v=x, width=x),
    "vectorize several": lambda x: powers(x, 3)[0] + powers(x, 2, k=x[0, 0])[1] + np.vectorize(divmod)(x, 0.7)[1],
    "vectorize by the first": lambda x: x * np.vectorize(lambda v: 1 if v > 0 else v)(x),
    "vectorize of a number": lambda x: np.vectorize(math_like)(x[0, 0]) * x,
    "vectorize in an object": lambda x: MODEL.apply(x),
    "vectorize into objects": lambda x: np.array(np.vectorize(lambda v: (v, v**2), otypes=[np.ndarray])(x).tolist()),
    "arrays of objects": lambda x: np.array([x[0, 0], None, x[1, 1]], dtype=object)[::2].sum() ** 2 * x,
    "matrices of objects": lambda x: np.array([[x[0, 0], 1], ["a", x[0, 1]]], dtype=object).diagonal().prod() * x[0],
    "arrays as objects": lambda x: (
        np.array(x, dtype=object)[1].dot([1, 2, 3, 4])
        * np.sum(x.astype(object), axis=0)[2]
        * np.asarray(x[0, 0], "O")[()]
        * np.add(*np.array([x[0], x[1, :2]], dtype=object)[1])
    ),
    "arrays of objects as floats": lambda x: np.asarray(x.astype(object)[0] ** 2, float) * x,
    "r_": lambda x: np.r_[x[0], 1.0, x[1, 1:3], 0:2, x[0, 0], 0:1:3j] ** 2,
    "r_ along": lambda x: np.r_["1", x, x] + np.r_["0,2", x[0], x[1]][:1, :1] + np.r_["0,2,0", x[0]][1],
    "r_ slices": lambda x: np.r_[x[0, 0] : 3.0 : 4j] * x[0],
    "c_": lambda x: np.c_[x[0], [x[0, 0], 2, 3, 4.0], x[1] ** 2],
    "c_ of matrices": lambda x: np.c_[x, x[:, :1], np.ones(3)],
    "s_ and index_exp": lambda x: x[np.s_[1:, ::2]] * x[np.index_exp[0, :2]],
    "ix_": lambda x: x[np.ix_([0, 2], [1, 3])] ** 2,
    "mgrid and ogrid": lambda x: x[0, 0] * np.mgrid[0:2, 0:3][1] + np.ogrid[0:1:3j] * x[1, :3],
    "grids with traced ends": lambda x: np.mgrid[0 : x[0, 0] : 3j] * np.ogrid[x[0, 1] : 3 : 3j],
    "grids of the plane": lambda x: np.mgrid[0 : x[0, 0] : 3j, 0 : 1 : x[0, 2] / 3] * np.ogrid[x[0, 1] : 3, 0:1][0][0],
    "kaiser": lambda x: np.kaiser(5, x[0, 0]) * np.kaiser(5, 2.0) + np.kaiser(1, x[0, 1]),
    "require": lambda x: np.require(x.T, None, ["C", "W"]).ravel(order="K") * np.require(x, float, "F").ravel(),
    "histogram": lambda x: np.histogram(X, 5, weights=x)[0] * np.histogram(X, [-1, 0, 2], weights=x)[1][2],
    "histogramdd": lambda x: np.histogramdd([*X, X[0] ** 2], [3, 2, 1, 2], weights=x[0])[0],
    "histogramdd of a matrix": lambda x: np.histogramdd(X.T, (2, [-2, 0, 2], 2), density=True, weights=x[0] ** 2)[0],
    "bincount": lambda x: np.bincount([0, 3, 1, 1], weights=x[0]) * np.bincount([0, 1], x[1, :2], 4),
    "windows": lambda x: x[0] * np.hanning(4) + np.hamming(4) * np.blackman(4) * x[1] + np.bartlett(4),
    "block": lambda x: np.block([[x, x[:, :1]], [np.ones((1, 5))]]),
    "einsum": lambda x: np.einsum("ij,kj,kl", x, x, x, optimize="greedy"),
    "einsum by a path": lambda x: np.einsum("ij,kj->ik", x, x, optimize=["einsum_path", (0, 1)]),
    "apply_over_axes": lambda x: np.apply_over_axes(np.sum, x, [0, 1]) * np.apply_over_axes(np.max, x, 0),
    "apply_along_axis": lambda x: np.apply_along_axis(lambda row: row[:2] * row.sum(), 1, x),
    "unwrap": lambda x: np.unwrap(5 * x, axis=1),
    "interp": lambda x: np.interp(x[0, :2], np.sort(x[1]), x[2], left=x[0, 0], right=x[1, 0]),
    "interp over a period": lambda x: np.interp(x[0], np.array([0.1, 1.5, 3.2]), x[1, :3], period=2.5),
    "interp over a traced period": lambda x: np.interp([0.7, 5.0], x[0], x[1], period=3 + x[2, 0]),
    "average and weights": lambda x: np.multiply(*np.average(x, 1, x[0] ** 2, True)) * np.average(x, returned=True)[1],
    "average and all weights": lambda x: np.multiply(*np.average(x, axis=0, weights=x**2, returned=True)),
    "arange": lambda x: np.arange(x[0, 0], 4.0, 0.5) * np.arange(1, 2, x[0, 2] / 8)[:5].sum() + np.arange(x[0, 0])[1],
    "arange of constants": lambda x: (
        x * np.arange(start=0, stop=4) + np.arange(0, 4, 1, float) + np.arange(np.argmax(x[0]) + 4)
    ),
    "logspace": lambda x: np.logspace(x[0, 1], x[0, 0], 5) + np.logspace(0, 1, 5, base=x[0, 2]),
    "geomspace": lambda x: np.geomspace(x[0, 0], [x[0, 2], 3], 5) * np.geomspace(-1, -x[1, 0], 5, False)[:, None],
    "loops over rows": lambda x: np.vectorize(lambda a, b: a * b.sum(), signature="(n),(m)->(n)")(x, x[0, :2]),
    "a loop with an option": lambda x: np.vectorize(lambda a, k: k * a[0], excluded={"k"}, signature="(n)->()")(x, k=2),
    "overwriting": lambda x: np.median(x * 1, overwrite_input=True) * np.percentile(x**2, 30, 0, None, True),
    "closures called by NumPy": lambda x: (
        np.vectorize(lambda t: t * x[0, 0])(X)
        + np.piecewise(X, [X < 1], [lambda t: t * x[0, 1], x[0, 2]])
        + np.apply_along_axis(lambda line: line * x[0], 1, X)
        + len(np.vectorize(lambda t: "a" * (1 + (t > 0)))(X)[0, 0])
    ),
    "edges of bins": lambda x: np.histogram_bin_edges(x, 3) * np.histogram_bin_edges(X, 3, (0, x[0, 0])) * x[0],
    "a condition of numbers": lambda x: np.where(x, x**2, 1) + np.where(np.maximum(x, 0), x, -x) * np.where(x[0], x, 1),
    "choices in lists": lambda x: np.select([X[0] > 1, X[0] < 1], [[x[0, 0], 1, x[1, 1], 2], x[0] ** 2], x[0, 1]),
    "elements by numbers": lambda x: np.compress(x[0], x, 1) * x + np.extract(x[1], x[2]) * np.where(x[0])[0],
    "polyval of a poly1d": lambda x: np.polyval(np.poly1d(x[0]), x[1]),
    "poly1d of a list": lambda x: np.poly1d([x[0, 0], 1, x[0, 1]])(x) * np.poly1d([x[0, 0], 2], True).coeffs[2],
    "polynomials of two variables": lambda x: np.polynomial.polynomial.polyval2d(x[0], x[1], x[:, :2]),
    "a polynomial of a matrix": lambda x: np.poly(np.diag([1.0, 9, 20]) + x[:, :3]) * x[0],
    "bincount of a list": lambda x: np.bincount([0, 1, 1], weights=[x[0, 0], 1, x[0, 1]]) * x[0, :2],
    "angle": lambda x: x + np.angle(x - 1, deg=True),
    "fromiter": lambda x: np.fromiter((v * v for v in x[0]), float) * np.fromiter(iter(x[1]), float, count=4),
    "emath": lambda x: np.emath.sqrt(np.abs(x)) * np.emath.log(x**2) + np.emath.power(x**2, 2) + np.emath.arccos(x / 3),
    "emath of logarithms": lambda x: np.emath.logn(3, x**2) * np.emath.log2(x**2) + np.emath.log10(x**2),
    "sliding windows": lambda x: np.mean(sliding_window_view(x.ravel(), 9), axis=-1) ** 2,
    "sliding windows of matrices": lambda x: np.sum(sliding_window_view(x, (2, 3)) ** 2, axis=(-2, -1)),
    "a polynomial": lambda x: Polynomial(x[0])(x) * POLYNOMIAL(x) + POLYNOMIAL.deriv(2)(x[1]),
    "polynomials combined": lambda x: ((combined(x[0]) * POLYNOMIAL + 2).integ() // combined(x[1])).coef,
    "a polynomial fitted": lambda x: Polynomial.fit(X[0], x[1], 2)(x[0]) + Polynomial.fromroots(x[0])(0.1),
    "chebval": lambda x: chebval(x, x[0]) + np.polynomial.legendre.legval(0.3, x) - hermite.hermval(x[0], [1, 2, 3]),
    "roots of polynomials": lambda x: np.polynomial.polynomial.polyroots([-x[0, 0], 3, 1]) * x[0, 1],
    "unique": lambda x: np.unique(np.concatenate([x[0], x[0], x[1]])) * np.unique(x)[:8],
    "unique rows": lambda x: np.unique(x[[0, 0, 1]], axis=0) ** 2,
    "unique with indices": lambda x: np.multiply(*np.unique(x[[0, 0]], return_counts=True)) + np.unique(x, True)[1][:4],
    "joined in a dtype": lambda x: (
        np.vstack([x, x[:1]], dtype=float) + np.concatenate([x, x[:1]], dtype=float, casting="safe")
        + np.hstack([x, x], dtype=complex).imag[:1, :4] + np.stack([x[0], x[1], x[2], x[0]], casting="unsafe")
    ),
    "trapezoids of one row along columns": lambda x: np.trapezoid(x[0], x.T, axis=0) + np.trapezoid(x[:, :1], axis=0),
    "union1d": lambda x: np.union1d(x[0], [0.1, 0.2]) ** 2,
    **{
        f"pad with the {mode}": lambda x, mode=mode: np.pad(x, ((2, 1), (0, 3)), mode, stat_length=2)
        for mode in ("maximum", "mean", "median", "minimum")
    },
    "pad by ramps": lambda x: np.pad(x, 2, "linear_ramp", end_values=(x[0, 0], 3.0)),
    "pad by odd reflections": lambda x: np.pad(x, 2, "reflect", reflect_type="odd") + np.pad(x, 2, "symmetric"),
    "pad with traced constants": lambda x: np.pad(x, 1, constant_values=x[1, 1] ** 2),
    "pad by a function": lambda x: np.pad(x, 1, squares_at_ends),
    "nditer": lambda x: sum(v * v * k for k, v in enumerate(np.nditer(x, order="F"))) + by_iterator(x),
    "fromfunction": lambda x: np.fromfunction(lambda i, j: x * i + j, (3, 4)),
    "indices": lambda x: x * np.indices((3, 4))[0],
    "random draws": lambda x: x * np.random.default_rng(0).normal(size=4) + np.random.default_rng(1).random(),
}


def by_iterator(x):
    y, z = x * 1, np.zeros(x.shape)
    with np.nditer(y, ["multi_index"], [["readwrite"]]) as it:
        while not it.finished:
            it[0] = it[0] ** 2
            z[it.multi_index] = x[it.multi_index] * it.value
            it.iternext()
    for v in np.nditer(z, op_flags=["readwrite"]):
        v[...] *= 2
    return y + z


def squares_at_ends(line, width, axis, options):
    line[: width[0]] = line[width[0]] ** 2
    line[-width[1] :] = line[-width[1] - 1] * axis


def math_like(v):
    return np.exp(v)


@pytest.mark.parametrize("name", AROUND)
def test_numpy_functions_written_in_python_are_differentiated(name):
    check(AROUND[name])


def flat_written(y):
    y.flat[0] = y[1, 1] ** 2
    y.flat[3:9:2] = y[0, :3]
    y.flat[[10, 11]] = y[0, 1]
    y.flat[9:] = [y[0, 0], 2.0]


def unpacked(a, b, c):
    (p, *q), (r, s, t, u) = a, b
    return p * c + r * np.stack(q)[0] + s * t * u


def asserted(x):
    np.testing.assert_allclose(x, x * 1.0)
    np.testing.assert_array_less(x, x + 1)
    np.testing.assert_equal(x[0, 0], wg.stop_gradient(x[0, 0]))
    np.testing.assert_approx_equal(x[0, 0], x[0, 0] * 1.0)
    np.testing.assert_almost_equal(x[0], x[0])
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(x, x + 1)
    return x**2


@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*was converted to text:UserWarning")
@pytest.mark.parametrize("name", METHODS)
def test_array_methods_and_protocols_are_differentiated(name):
    check(METHODS[name])


RNG, OLD = np.random.default_rng(3), np.random.RandomState(3)

@pytest.mark.parametrize("name", ["sqrt", "log", "log2", "log10", "arcsin", "arccos", "arctanh"])
def test_emath_returns_complex_outside_real_domain(name):
    fun, x, h = getattr(np.emath, name), np.array([-1.7, 0.3, -2.2]), 1e-6
    y, t = wg.jvp(fun, x, np.ones(3))
    assert np.array_equal(y, fun(x)) and y.dtype == complex
    np.testing.assert_allclose(t, (fun(x + h) - fun(x - h)) / (2 * h), rtol=1e-8)
    assert wg.jvp(fun, np.float32(x), np.ones(3, np.float32))[1].dtype == np.complex64


def as_objects_and_floats(x):
    objects = np.array(x, dtype=object)
    return objects.astype(float)


REFUSED = {
    "normal": (lambda x: RNG.normal(x), r"write loc \+ scale \* rng\.standard_normal\(size\) for normal"),
    "uniform": (lambda x: OLD.uniform(0, x[0, 0], 3), r"write low \+ \(high - low\) \* rng\.random\(size\) for"),
    "poisson": (lambda x: RNG.poisson(abs(x)), r"Draws of poisson have no derivative: pass wengert\.stop_gradient"),
    "choice": (lambda x: RNG.choice(x[0]), r"write x\[rng\.integers\(len\(x\), size=size\)\] for choice"),
    "a type called": (lambda x: np.int64(x[0, 0]), r"Write x\.astype\(numpy\.int64\) for numpy\.int64\(x\)"),
    "objects as floats": (as_objects_and_floats, r"Convert an array of objects by numpy\.array\(a, dtype=float\)"),
    "nditer with buffers": (lambda x: np.nditer([x, x], ["buffered"]), r"nditer over traced values has no buffers"),
    "samples": (lambda x: np.histogram(X, weights=x, bins=[0, x[0, 0]]), r"numpy\.histogram has no derivative in its"),
    "points": (lambda x: np.histogram2d(x[0], X[0], 2), r"numpy\.histogram has no derivative in its"),
    "edges by a rule": (lambda x: np.histogram(x, "auto"), r"numpy\.histogram_bin_edges with bins='auto' has no"),
    "resize": (lambda x: x.resize(6), r"ndarray\.resize .*numpy\.zeros"),
    "byteswap": (lambda x: x.byteswap(), r"ndarray\.byteswap .*stop_gradient"),
    "getfield": (lambda x: x.getfield(float), r"ndarray\.getfield .*slice"),
    "tobytes": (lambda x: x.tobytes(), r"ndarray\.tobytes would lose .*stop_gradient"),
    "tofile": (lambda x: x.tofile("nowhere"), r"ndarray\.tofile would lose"),
    "data": (lambda x: x.data, r"ndarray\.data would lose"),
    "view": (lambda x: x.view(np.int64), r"ndarray\.view with another dtype .*astype"),
    "where": (lambda x: np.exp(x, where=MASK), r"numpy\.exp with where= and without out=.*numpy\.where"),
    "outs that overlap": (lambda x: outs(x, lambda out: np.divmod(x, 2, out=(x, x))), "share memory"),
    "out of another shape": (lambda x: into((2, 3, 4), lambda out: np.sum(x, 0, out=out)), "out= has shape"),
    "nextafter": (lambda x: np.nextafter(x, 1.0), r"numpy\.nextafter has no derivative.*numpy\.spacing|np\.spacing"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusal_names_the_replacement(name):
    f, text = REFUSED[name]
    for mode in (wg.vjp, lambda f, x: wg.jvp(f, x, x)):
        with pytest.raises((UnsupportedFunctionError, TracedValueError, ValueError), match=text):
            mode(f, X)


@pytest.mark.parametrize("name", OPTIONS)
def test_ufunc_options_and_methods_are_differentiated(name):
    check(OPTIONS[name])
