"""Sums, maxima and minima along axes, fused with the elementwise work around them.

The reference is NumPy on the same arrays; a sum of n terms may differ by 2 n eps times the sum of absolute values.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import wengert as wg
from helpers import assert_same_bits

RNG = np.random.default_rng(0)
EPS = np.finfo(float).eps
TIERS = ["vm", "llvm"] if importlib.util.find_spec("llvmlite") else ["vm"]
AXES = [0, 1, -1, None, (0, 1), ()]
#: around the borders of chunks of 512 elements, with rows that share a chunk and rows that do not
SHAPES = [(1, 1), (1, 7), (7, 1), (52, 10), (51, 64), (9, 65), (2, 511), (2, 512), (3, 513), (511, 2), (513, 3)]


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def calls(program):
    """Return the names of functions that a run calls through Python."""
    return [line.split("Python call: ")[1] for line in str(program.explain()).splitlines() if "Python call: " in line]


def assert_close(found, expected, bound):
    assert np.shape(found) == np.shape(expected) and np.asarray(found).dtype == np.asarray(expected).dtype
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    assert np.all((np.abs(found - expected) <= bound) | (found == expected) | np.isnan(expected))


def sums(axis, keepdims):
    return lambda x: np.sum(np.square(x) - x, axis=axis, keepdims=keepdims)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
def test_sums_equal_numpy_within_rounding_bound(axis, keepdims):
    f = sums(axis, keepdims)
    for shape in SHAPES:
        x = RNG.normal(size=shape)
        terms = np.abs(np.square(x)) + np.abs(x)
        bound = 2 * x.size * EPS * np.sum(terms, axis=axis, keepdims=keepdims)
        results = [wg.record(f, x).tiered(tier)(x) for tier in TIERS]
        assert_close(results[0], f(x), bound)
        assert_same_bits(results[-1], results[0])
        assert_same_bits(wg.record(f, x, exact=True)(x), f(x))


@pytest.mark.parametrize("name", ["max", "min"])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES[:-1], ids=str)
def test_max_and_min_equal_numpy(name, axis, keepdims):
    def f(x):
        return getattr(np, name)(2.0 * x, axis=axis, keepdims=keepdims)

    for shape in SHAPES:
        given = [RNG.normal(size=shape), np.full(shape, -np.inf), np.full(shape, np.inf)]
        given.append(np.where(RNG.random(shape) < 0.1, np.nan, given[0]))
        program = wg.record(f, given[0])
        for x in given:
            for tier in TIERS:
                found = program.tiered(tier)(x)
                assert found.shape == f(x).shape
                np.testing.assert_array_equal(found, f(x))


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 2), (1, 2), -2], ids=str)
def test_reductions_of_views_are_fused(axis):
    """Slices, reversed and permuted elements, and repeated elements."""
    views = {
        "part": lambda x: x[:, 1:-1, ::2],
        "reverse": lambda x: x[::-1, :, ::-1],
        "order": lambda x: np.transpose(x, (2, 0, 1)),
        "repeated": lambda x: x[:, :1, :] + 0.0 * x[:, :, :1],
        "nothing": lambda x: x[:, :0, :] if axis not in (1, -2) else x,
    }
    for view in views.values():
        for shape in ((3, 4, 5), (2, 9, 70), (5, 2, 600)):
            x = RNG.normal(size=shape)
            for f in (lambda x: np.sum(view(x) * 3.0, axis=axis), lambda x: np.sum(view(x), axis=axis)):
                found = [wg.record(f, x).tiered(tier)(x) for tier in TIERS]
                assert_close(found[0], f(x), 2 * x.size * EPS * 3.0 * np.sum(np.abs(view(x)), axis=axis))
                assert_same_bits(found[-1], found[0])


def softmax(x):
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def columns(x):
    """Return the log-sum-exp of each column, and centred rows."""
    m = np.max(x, axis=0)
    y = x - np.mean(x, axis=1, keepdims=True)
    return (m + np.log(np.sum(np.exp(x - m), axis=0))) * np.sum(y**2, axis=0)


def counted(x):
    """Sum booleans, and use booleans as operands."""
    mask = x > 0.1
    return mask * x / (1.0 + np.sum(mask, axis=1, keepdims=True, dtype=float)) + np.sum(mask * x, axis=0)


def normalised(x):
    """Divide rows by functions of their sums, in which a sum occurs twice."""
    norm = np.sqrt(np.sum(x**2, axis=-1, keepdims=True) + 0.1)
    share = np.sum(np.abs(x), axis=-1) / norm[:, 0]
    return x / norm + x * (share * x[:, 0] - 1.0 / share)[:, None]


@pytest.mark.parametrize("f", [softmax, columns, counted, normalised])
def test_derivatives_equal_eager_engine(f):
    for shape in ((1, 1), (4, 3), (60, 10), (3, 64), (4, 65), (2, 512), (2, 513), (2, 1100)):
        x = RNG.normal(size=shape)
        w = RNG.normal(size=np.shape(f(x)))

        def loss(x, w=w):
            return np.sum(w * f(x) ** 2)

        program = wg.record(loss, x)
        v = RNG.normal(size=shape)
        for made, eager in (
            (program.grad(), wg.grad(loss)(x)),
            (wg.record(lambda x, v=v, loss=loss: wg.hvp(loss)(x, v), x), wg.hvp(loss)(x, v)),
        ):
            found = [made.tiered(tier)(x) for tier in TIERS]
            np.testing.assert_allclose(found[0], eager, rtol=1e-11, atol=1e-12 * np.max(np.abs(eager)))
            np.testing.assert_allclose(found[-1], found[0], rtol=1e-13, atol=1e-14 * np.max(np.abs(eager)))


def test_arithmetic_on_sums_of_rows_does_not_end_a_kernel():
    weights = RNG.random((40, 100))

    def f(x):
        mean = np.sum(x, axis=-1, keepdims=True) / 100
        return np.sum(weights * ((x - mean) / np.sqrt(np.sum((x - mean) ** 2, axis=-1, keepdims=True) + 1.0)) ** 2)

    x = RNG.normal(size=(40, 100))
    made = wg.record(f, x).grad()
    assert made._vm.count == 1
    assert made._vm.count < wg.record(f, x, exact=True).grad()._vm.count
    np.testing.assert_allclose(made(x), wg.grad(f)(x), rtol=1e-12, atol=1e-14)


SPREADS = {
    "rows": lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.1),
    "columns": lambda x: (x - np.mean(x, axis=0)) * np.std(x, 0, ddof=1),
    "all": lambda x: (x - x.mean(keepdims=True)) / x.std() * np.var(x, ddof=2, keepdims=True),
    "axes": lambda x: np.var(x, axis=(0, 1), keepdims=True) * np.mean(x, axis=(1, 0)) * x,
    "whole": lambda x: np.mean(x) * np.var(x) * np.std(x),
}


@pytest.mark.parametrize("name", SPREADS)
def test_moments_of_large_arrays_are_fused_sums(name):
    f, rng = SPREADS[name], np.random.default_rng(1)
    for shape in ((60, 100), (1500, 3)):
        x = rng.normal(size=shape)
        program = wg.record(lambda x: np.sum(f(x) ** 3), x)
        made, eager = program.grad(), wg.grad(lambda x: np.sum(f(x) ** 3))
        assert not {"mean", "var", "std"} & {*calls(program), *calls(made)}
        for there in (x, x + 1.0):
            found = [made.tiered(tier)(there) for tier in TIERS]
            np.testing.assert_allclose(found[0], eager(there), rtol=1e-9, atol=1e-12 * np.abs(found[0]).max())
            np.testing.assert_allclose(found[-1], found[0], rtol=1e-12, atol=1e-13 * np.abs(found[0]).max())


def test_moments_with_other_options_and_in_exact_programs_are_calls():
    x = np.random.default_rng(1).normal(size=(60, 100))
    for f in (lambda x: np.mean(x, where=x > 0), lambda x: np.var(x, 0, dtype=float), lambda x: np.mean(x[:3], axis=1)):
        program = wg.record(f, x)
        np.testing.assert_allclose(program(x), f(x), rtol=1e-14)
    assert_same_bits(wg.record(np.var, x, exact=True)(x), np.var(x))


def test_softmax_needs_no_python_call():
    x = RNG.normal(size=(40, 30))
    made = wg.record(lambda x: np.sum(softmax(x) ** 2), x).grad()
    assert calls(made) == []
    assert made._vm.count <= 2
    assert calls(wg.record(lambda x: np.sum(softmax(x) ** 2), x, exact=True)) != []


def test_broadcast_sums_are_computed_where_they_are_read():
    def f(x):
        s = np.sum(x * x, axis=1)
        return np.sum(np.sqrt(s[:, None] + s + 1.0 - 2.0 * (x @ x.T)))

    x = RNG.normal(size=(100, 40))
    program = wg.record(f, x)
    assert program._vm.count == 3  # the sums of squares, the product, and all else in one pass over 100 x 100 elements
    np.testing.assert_allclose(program(x), f(x), rtol=1e-14)
    np.testing.assert_allclose(program.grad()(x), wg.grad(f, x), rtol=1e-13, atol=1e-14)
    assert_same_bits(program.tiered(TIERS[-1])(x), program(x))


def test_reduced_rows_read_again_are_compiled():
    if "llvm" not in TIERS:
        pytest.skip("llvmlite is not installed")
    x = RNG.normal(size=(40, 30))
    program = wg.record(lambda x: np.sum(softmax(x * x) ** 2, axis=0), x).tiered("llvm")
    np.testing.assert_allclose(program(x), program.tiered("vm")(x), rtol=1e-13)
    report = program._vm.report
    assert report.compiled and not report.refused


def test_reductions_of_other_dtypes():
    def f(x):
        return np.sum(x * x, axis=1)

    for x in (RNG.normal(size=(4, 5)).astype(np.float32), RNG.normal(size=(4, 5)) + 1j):
        assert_same_bits(wg.record(f, x, exact=True)(x), f(x))
        np.testing.assert_allclose(wg.record(f, x)(x), f(x), rtol=8 * np.finfo(x.dtype).eps)
    assert wg.record(lambda x: np.sum(x[:, :0], axis=1), np.ones((3, 4)))(np.ones((3, 4))).tolist() == [0.0] * 3
    with pytest.raises(ValueError, match="zero-size"):
        wg.record(lambda x: np.max(x[:, :0], axis=1), np.ones((3, 4)))


def test_reductions_of_short_rows_with_repeated_elements_are_exact():
    """Rows short enough to share a chunk: repeated along either axis, strided, boolean, and stored in an array."""

    def f(x, y, z):
        out = np.zeros((x.shape[0], x.shape[1], 4))
        out[:, ::2, 1:] = (x * y[:, None, None] + z)[:, ::2]
        mask = x > y[:, None, None]
        return out, mask, np.where(mask, z, x), np.sum(x * z) + np.sum(y[:, None] - x[:, :, 0])

    for shape in ((3, 5, 3), (2, 300, 3), (171, 2, 3)):
        x, y, z = RNG.normal(size=shape), RNG.normal(size=shape[0]), RNG.normal(size=3)
        program = wg.record(f, x, args=(y, z))
        found = [program.tiered(tier)(x, y, z) for tier in TIERS]
        for one, other in zip(found[0][:3], f(x, y, z)):
            assert_same_bits(one, other)
        np.testing.assert_allclose(found[0][3], f(x, y, z)[3], atol=1e-11)
        assert_same_bits(found[-1], found[0])
