"""Rules of the registry against mathematics, without any engine."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import pytest
from wengert.rules.shapes import leading

import wengert.rules
from helpers import rows_of_numpy
from primitive_cases import CALLS, ELEMENTWISE, MOVES, SYMMETRIC, call, holds_operand, resolve, val
from special_cases import CASES as SPECIAL
from special_cases import WAVES
from wengert import registry
from wengert.errors import UnsupportedFunctionError
from wengert.registry import lookup, strong
from wengert.rules.products import strong_matmul

inf, nan = np.inf, np.nan
TINY, HUGE = np.finfo(float).tiny, np.finfo(float).max


@pytest.fixture(autouse=True)
def quiet():
    """Rules are evaluated without floating-point warnings, as in the engine."""
    with np.errstate(all="ignore"):
        yield


def partial(fun, i, *operands):
    """Return the i-th partial of an elementwise rule at the operands."""
    fun = resolve(fun)
    row = lookup(fun)
    p = row.partials[i]
    return np.asarray(p(fun(*operands), *operands) if callable(p) else p)


def pullback(case, args, i, ybar, y):
    """Return the cotangent of argument i of a call, through the registry alone; a list for a sequence."""
    row = lookup(case.fun)
    if row.variadic:
        return row.variadic(i, ybar, y, *args, **case.kwargs)
    return row.vjps[i](ybar, y, *args, **case.kwargs)


# ---- partials


def in_ulp(value, exact):
    """Return the error in units of the last place, or below TINY in units of TINY."""
    exact = mp.mpf(exact)
    if abs(exact) > HUGE:
        return 0.0 if abs(value) > HUGE / 2 else inf
    if abs(exact) < TINY:
        return abs(float(mp.mpf(value) - exact)) / TINY
    return float(abs(mp.mpf(value) - exact)) / float(np.spacing(abs(float(exact))))


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.name)
def test_partial_is_accurate(case):
    n = max(len(x) for x in case.at)
    operands = [np.resize(x, n) for x in case.at]
    with mp.workdps(34):
        for i, exact in enumerate(case.partials):
            values = np.broadcast_to(partial(case.fun, i, *operands), n).astype(float)
            for k in range(n):
                at = [x[k] for x in operands]
                error = in_ulp(values[k], exact(*map(mp.mpf, at)))
                assert error <= case.ulp, f"operand {i} at {at}: {error:.1f} ulp"


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.name)
def test_reference_partial_is_the_derivative(case):
    with mp.workdps(40):
        for at in case.smooth_at:
            for i, exact in enumerate(case.partials):
                order = tuple(int(i == k) for k in range(len(at)))
                numerical = mp.diff(case.f, tuple(map(mp.mpf, at)), order)
                assert abs(numerical - exact(*map(mp.mpf, at))) < 1e-12 * (1 + abs(numerical))


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.name)
def test_partial_keeps_float32_and_accepts_scalars(case):
    fun, at = resolve(case.fun), case.smooth_at[0]
    single = [np.array([x, x], dtype=np.float32) for x in at]
    dtype = fun(*single).dtype
    assert dtype == np.float32 or fun is np.float_power
    for i, p in enumerate(lookup(fun).partials):
        expected = float(partial(fun, i, *map(np.float64, at)))
        for operands in (single, [x[0] for x in single]):
            value = p(fun(*operands), *operands) if callable(p) else p
            np.testing.assert_allclose(np.asarray(value, float), expected, rtol=2e-6, atol=1e-7)
            assert not callable(p) or value.dtype in (dtype, np.bool_)


class Dual(np.lib.mixins.NDArrayOperatorsMixin):
    """A value and its tangent, propagated by the rules: rules differentiate rules to any depth."""

    def __init__(self, value, tangent):
        self.value, self.tangent = value, tangent

    dtype = property(lambda self: self.value.dtype)

    def astype(self, dtype, copy=True):
        return self

    def __array_ufunc__(self, ufunc, method, *operands):
        return self.__array_function__(ufunc, (), operands, {})

    def __array_function__(self, fun, types, operands, kwargs):
        row = lookup(fun)
        assert row is not None, f"{fun} has no row"
        values = [x.value if isinstance(x, Dual) else x for x in operands]
        y = fun(*values)
        if row.kind == "constant":
            return y
        tangent = 0.0
        for p, x in zip(row.partials, operands, strict=True):
            if isinstance(x, Dual) and p is not None:
                slope = p(y, *values) if callable(p) else p
                tangent = tangent + strong_product(x.tangent, slope)
        return Dual(y, tangent)


def strong_product(a, b):
    """`strong` for factors that may be duals."""
    if isinstance(a, Dual) or isinstance(b, Dual):
        return 0.0 if any(not isinstance(x, Dual) and x == 0 for x in (a, b)) else np.multiply(a, b)
    return strong(a, b)


def derivative(fun, i, at, order):
    """Return the derivative of the given order in operand i by nested duals."""
    x = np.float64(at[i])
    for _ in range(order):
        x = Dual(x, np.float64(1.0))
    y = fun(*(x if k == i else np.float64(a) for k, a in enumerate(at)))
    for _ in range(order):
        y = y.tangent if isinstance(y, Dual) else 0.0
    return float(y)


def test_mixed_derivative_of_power_at_exponent_zero_is_reciprocal_of_base():
    base, exponent = Dual(np.float64(3.0), 0.0), Dual(np.float64(0.0), 1.0)
    slope = lookup(np.power).partials[0](np.power(base, exponent), base, exponent)
    np.testing.assert_allclose(slope.tangent, 1 / 3)


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.name)
def test_partial_is_differentiable(case, order):
    fun = resolve(case.fun)
    with mp.workdps(25):
        for at in case.smooth_at:
            for i in range(len(at)):
                orders = tuple(order * (i == k) for k in range(len(at)))
                exact = mp.diff(case.f, tuple(map(mp.mpf, at)), orders)
                value = derivative(fun, i, at, order)
                assert abs(value - exact) <= 1e-11 * (1 + abs(exact)), (at, i, value, float(exact))


# ---- kinks

KINKS = [
    (np.absolute, (0.0,), (0.0,)),
    (np.fabs, (-0.0,), (0.0,)),
    (np.sqrt, (0.0,), (inf,)),
    (np.sqrt, (-0.0,), (inf,)),
    (np.cbrt, (0.0,), (inf,)),
    (np.log, (0.0,), (inf,)),
    (np.maximum, (1.0, 1.0), (0.5, 0.5)),
    (np.minimum, (1.0, 1.0), (0.5, 0.5)),
    (np.maximum, (inf, inf), (0.5, 0.5)),
    (np.minimum, (-inf, -inf), (0.5, 0.5)),
    (np.maximum, (1.0, -inf), (1.0, 0.0)),
    (np.maximum, (nan, 1.0), (nan, nan)),
    (np.minimum, (1.0, nan), (nan, nan)),
    (np.fmax, (2.0, 2.0), (0.5, 0.5)),
    (np.fmax, (nan, 1.0), (0.0, 1.0)),
    (np.fmax, (1.0, nan), (1.0, 0.0)),
    (np.fmax, (nan, nan), (nan, nan)),
    (np.fmin, (2.0, 2.0), (0.5, 0.5)),
    (np.fmin, (nan, 1.0), (0.0, 1.0)),
    (np.fmin, (-inf, nan), (1.0, 0.0)),
    (np.fmin, (nan, nan), (nan, nan)),
    (np.hypot, (0.0, 0.0), (0.0, 0.0)),
    (np.arctan2, (0.0, 0.0), (0.0, 0.0)),
    (np.arctan2, (-0.0, -0.0), (0.0, 0.0)),
    (np.arctan2, (1.0, inf), (0.0, 0.0)),
    (np.arctan2, (nan, 1.0), (nan, nan)),
    (np.power, (0.0, 0.0), (0.0, -inf)),
    (np.power, (3.0, 0.0), (0.0, np.log(3.0))),
    (np.power, (0.0, 2.0), (0.0, 0.0)),
    (np.power, (0.0, 1.0), (1.0, 0.0)),
    (np.power, (0.0, 0.5), (inf, 0.0)),
    (np.power, (0.0, 0.1), (inf, 0.0)),
    (np.power, (inf, 0.1), (0.0, inf)),
    (np.power, (-2.0, 3.0), (12.0, nan)),
    (np.power, (-2.0, -1.0), (-0.25, nan)),
    (np.power, (nan, 2.0), (nan, nan)),
    (np.float_power, (0.0, 0.0), (0.0, -inf)),
    (np.sign, (0.0,), None),
    (np.floor, (1.0,), None),
    (np.heaviside, (0.0, 0.5), (0.0, 1.0)),
    (np.heaviside, (1.0, 0.5), (0.0, 0.0)),
    (np.copysign, (0.0, -1.0), (0.0, 0.0)),
    (np.copysign, (2.0, -0.0), (-1.0, 0.0)),
    (np.logaddexp, (-inf, -inf), (0.5, 0.5)),
    (np.logaddexp, (-inf, 1.0), (0.0, 1.0)),
    (np.logaddexp, (inf, 1.0), (1.0, 0.0)),
    (np.logaddexp2, (-inf, -inf), (0.5, 0.5)),
    (np.tanh, (1e300,), (0.0,)),
    (np.tanh, (-inf,), (0.0,)),
    (np.arctanh, (1.0,), (inf,)),
    (np.arcsin, (1.0,), (inf,)),
    (np.arccosh, (1.0,), (inf,)),
    (np.sinc, (0.0,), (0.0,)),
    (np.sinc, (nan,), (nan,)),
    (np.remainder, (-1.0, 3.0), (1.0, 1.0)),
    (np.remainder, (1.0, inf), (1.0, 0.0)),
    (np.fmod, (-4.0, 3.0), (1.0, 1.0)),
    (np.where, (True, 2.0, 3.0), (None, 1.0, 0.0)),
    (np.where, (0, 2.0, 3.0), (None, 0.0, 1.0)),
    (np.ldexp, (3.0, 2), (4.0, None)),
    ("scipy.special.xlogy", (0.0, 0.0), (-inf, 0.0)),
    ("scipy.special.xlog1py", (0.0, -1.0), (-inf, 0.0)),
    ("scipy.special.rel_entr", (0.0, 2.0), (-inf, 0.0)),
    ("scipy.special.erf", (inf,), (0.0,)),
    ("scipy.special.expit", (-1e4,), (0.0,)),
    ("scipy.special.erf", (nan,), (nan,)),
]


@pytest.mark.parametrize("fun", [np.logaddexp, np.logaddexp2])
def test_weights_of_logaddexp_are_those_of_mpmath_for_arrays_of_any_layout(fun):
    base = mp.e if fun is np.logaddexp else mp.mpf(2)
    a = np.random.default_rng(0).normal(size=(4, 5)) * 10.0 ** np.arange(-2, 3)
    b = np.tile(a[0] + [0.1, -3.0, 20.0, -0.5, 1e-3], (4, 1))
    partials = lookup(fun).partials
    for x, y in ((a, b), (a.T, b.T), (a, b[0]), (a[0, 0], b), (a[1, 1], b[0, 1])):  # the first and the last are plain
        right = np.vectorize(lambda p, q: float(1 / (1 + base ** (mp.mpf(q) - mp.mpf(p)))))
        z = fun(x, y)
        for found, expected in ((partials[0](z, x, y), right(x, y)), (partials[1](z, x, y), right(y, x))):
            np.testing.assert_allclose(found, expected, rtol=2e-13)  # np.exp(-400) is within 400 ulp


def test_partials_of_arctan2_are_the_same_for_arrays_of_any_layout():
    special = np.array([0.0, 1.0, -2.0, inf, -inf, nan, 1e200, 1e-200])
    a, b = np.meshgrid(special, special)
    with np.errstate(all="ignore"):
        for partial in lookup(np.arctan2).partials:
            plain = partial(np.arctan2(a, b), a.copy(), b.copy())
            np.testing.assert_array_equal(plain, partial(np.arctan2(a, b).T, a.T, b.T).T)
            np.testing.assert_array_equal(plain, partial(np.arctan2(a, b), special[None, :], special[:, None]))
            np.testing.assert_array_equal(plain[:, 2], partial(np.arctan2(-2.0, special), -2.0, special))


@pytest.mark.parametrize(("fun", "at", "expected"), KINKS)
def test_partial_at_kink_follows_the_table(fun, at, expected):
    row = lookup(resolve(fun))
    if expected is None:
        assert row.kind == "constant"
        return
    for i, value in enumerate(expected):
        if value is None:
            assert row.partials[i] is None
        else:
            assert row.partials[i] is not None
            np.testing.assert_equal(float(partial(fun, i, *map(np.asarray, at))) + 0.0, value)


UNARY = [c.name for c in ELEMENTWISE if len(c.at) == 1 and c.reason == "" and not isinstance(c.fun, str)]


@pytest.mark.parametrize("name", UNARY)
def test_nan_propagates_through_every_nonconstant_partial(name):
    row = lookup(getattr(np, name))
    if callable(row.partials[0]):
        assert np.isnan(partial(row.fun, 0, np.array(nan)))


def test_bessel_functions_name_the_operand_without_derivative():
    fun = resolve("scipy.special.jv")
    with pytest.raises(UnsupportedFunctionError, match=r"jv has no known derivative in its order"):
        partial(fun, 0, np.float64(1.0), np.float64(2.0))
    np.testing.assert_allclose(partial(fun, 1, 1.0, 2.0), (fun(0, 2.0) - fun(2, 2.0)) / 2)


# ---- pullbacks


def directional(f, args, i, v, h=2e-3):
    """Return the derivative of f along v in argument i by central differences of fourth order."""

    def at(t):
        moved = list(args)
        moved[i] = [a + t * d for a, d in zip(args[i], v)] if isinstance(v, list) else args[i] + t * v
        return np.asarray(f(*moved))

    return (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)


def directions(case, args, i, rng):
    a = args[i]
    if isinstance(a, list):
        return [rng.uniform(-1, 1, np.shape(b)) for b in a]
    return np.where(np.isfinite(a), rng.uniform(-1, 1, np.shape(a)), 0.0)


def paired(xbar, v):
    """Return the inner product of a cotangent and a direction, each an array or a list of arrays."""
    if isinstance(v, list):
        return sum(paired(b, d) for b, d in zip(xbar, v, strict=True))
    assert np.broadcast_shapes(np.shape(xbar), np.shape(v)) == np.shape(v)
    return np.sum(np.where(v == 0, 0, xbar) * v)


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_pullback_is_transpose_of_derivative(case):
    rng = np.random.default_rng(3)
    args = case.draw()
    y = case(*args)
    for i in case.wrt:
        v = directions(case, args, i, rng)
        ybar = np.asarray(rng.uniform(-1, 1, np.shape(y)))[()]
        tangent = directional(case, args, i, v)
        expected = np.sum(np.where(np.isfinite(tangent), tangent, 0) * ybar)
        found = paired(pullback(case, args, i, ybar, y), v)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_stacked_pullback_pulls_back_each_direction(case):
    row = lookup(case.fun)
    assert row.stacked
    rng = np.random.default_rng(4)
    args = case.draw()
    y = case(*args)
    ybar = rng.uniform(-1, 1, (2, *np.shape(y)))
    for i in case.wrt:
        together = pullback(case, args, i, ybar, y)
        for k in range(2):
            alone = pullback(case, args, i, ybar[k], y)
            shapes = [np.shape(b) for b in args[i]] if isinstance(args[i], list) else [np.shape(args[i])]
            pairs = (
                zip(together, alone, shapes) if isinstance(args[i], list) else [(together, alone, shapes[0])]
            )
            for z, one, shape in pairs:
                z = np.broadcast_to(z, (2, *shape))
                np.testing.assert_allclose(z[k], np.broadcast_to(one, shape), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_pullback_of_float32_is_float32(case):
    args = tuple(as_single(a) if holds_operand(given) else a for a, given in zip(case.draw(), case.args))
    y = case(*args)
    if case.fun in (np.bincount, getattr(np, "astype", None)) or case.label in ("0d", "repeated"):
        return  # float64 by definition, or a scalar whose dtype depends on the context
    ybar = np.ones_like(y)
    for i in case.wrt:
        xbar = pullback(case, args, i, ybar, y)
        for z in xbar if isinstance(xbar, list) else [xbar]:
            assert z.dtype == y.dtype


def as_single(a):
    return [as_single(b) for b in a] if isinstance(a, list) else np.asarray(a, dtype=np.float32)


@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_rule_accepts_every_call_signature(case):
    row = lookup(case.fun)
    assert row.most is None or len(case.args) <= row.most
    assert row.keywords is None or set(case.kwargs) <= row.keywords


@pytest.mark.parametrize("case", MOVES, ids=lambda case: case.name)
def test_data_movement_functions_permute_elements_or_fill_zeros(case):
    """The engine finds the permutation by sending integers through the function."""
    assert lookup(case.fun).kind in ("view", "rearrangement")
    args = list(case.draw())
    parts = args[0] if isinstance(args[0], list) else [args[0]]
    ends = np.cumsum([np.size(a) for a in parts])
    numbered = [np.arange(e - np.size(a) + 1, e + 1).reshape(np.shape(a)) for e, a in zip(ends, parts)]
    elements = np.concatenate([[0.0], *(np.ravel(a) for a in parts)])
    y = case(*args)
    source = case(numbered if isinstance(args[0], list) else numbered[0], *args[1:])
    for value, places in zip(y, source) if isinstance(y, (list, tuple)) else [(y, source)]:
        np.testing.assert_array_equal(value, elements[places])


# ---- ties, zeros, clipping


def test_tied_maxima_share_the_cotangent():
    case = call(np.max, val([[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]]), axis=1)
    args = case.draw()
    xbar = pullback(case, args, 0, np.array([1.0, 3.0]), case(*args))
    np.testing.assert_array_equal(xbar, [[0.5, 0, 0.5], [1, 1, 1]])


def test_nan_in_maximum_gives_nan_cotangent():
    case = call(np.max, val([[3.0, nan, 3.0], [2.0, 1.0, 0.0]]), axis=1)
    args = case.draw()
    xbar = pullback(case, args, 0, np.array([1.0, 1.0]), case(*args))
    np.testing.assert_array_equal(xbar, [[nan, nan, nan], [1, 0, 0]])


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("zeros", [0, 1, 2])
def test_derivative_of_prod_is_exact_with_any_number_of_zeros(size, zeros):
    rng = np.random.default_rng(size)
    a = rng.integers(1, 5, size).astype(float)
    a[rng.permutation(size)[:zeros]] = 0
    y, g = np.cumprod(a), rng.integers(1, 5, size).astype(float)
    others = [np.prod(np.delete(a, j)) for j in range(size)]
    np.testing.assert_array_equal(pullback(call(np.prod), (a,), 0, np.float64(1.0), y[-1]), others)
    running = [sum(g[i] * np.prod(np.delete(a[: i + 1], j)) for i in range(j, size)) for j in range(size)]
    np.testing.assert_array_equal(pullback(call(np.cumprod), (a,), 0, g, y), running)


@pytest.mark.parametrize("a", [[[1.0, 2.0], [2.0, 4.0]], [[0.0, 0.0], [0.0, 3.0]], [[0.0, 0.0], [0.0, 0.0]]])
def test_derivative_of_singular_determinant_is_cofactors(a):
    (p, q), (r, s) = a
    xbar = pullback(call(np.linalg.det), (np.array(a),), 0, np.float64(1.0), np.linalg.det(a))
    np.testing.assert_allclose(xbar, [[s, -r], [-q, p]], atol=1e-14)


@pytest.mark.parametrize("fun", [np.linalg.norm, np.linalg.vector_norm, np.std])
@pytest.mark.parametrize("order", [None, 1, 2, 3, inf])
def test_norms_at_the_origin_have_derivative_zero(fun, order):
    if fun is np.std and order is not None:
        return
    kwargs = {} if order is None else {"ord": order}
    x = np.zeros(3)
    xbar = pullback(call(fun, **kwargs), (x,), 0, np.float64(1.0), fun(x, **kwargs))
    np.testing.assert_array_equal(np.broadcast_to(xbar, 3), np.zeros(3))


def test_rule_of_norm_does_not_overflow_for_huge_vectors():
    x = np.array([3e300, 4e300])
    np.testing.assert_allclose(pullback(call(np.linalg.norm, ord=3), (x,), 0, 1.0, 5e300), [0.36, 0.64])


def test_pad_modes_that_compute_raise_and_are_named():
    with pytest.raises(
        UnsupportedFunctionError, match=r"numpy.pad with mode='mean' computes the padding"
    ):
        pullback(call(np.pad, mode="mean"), (np.ones(3), 1), 0, np.ones(5), np.ones(5))


def test_clipping_passes_the_cotangent_inside_the_closed_interval():
    x = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    case, ones = call(np.clip), np.ones(5)
    at = (x, -1.0, 1.0)
    np.testing.assert_array_equal(pullback(case, at, 0, ones, np.clip(*at)), [0, 1, 1, 1, 0])
    assert pullback(case, at, 1, ones, np.clip(*at)) == 1
    assert pullback(case, at, 2, ones, np.clip(*at)) == 1
    crossed = (x, 1.0, -1.0)
    np.testing.assert_array_equal(pullback(case, crossed, 0, ones, np.clip(*crossed)), np.zeros(5))
    assert pullback(case, crossed, 1, ones, np.clip(*crossed)) == 0
    assert pullback(case, crossed, 2, ones, np.clip(*crossed)) == 5


# ---- strong zero


def test_zero_cotangent_times_infinite_operand_is_zero():
    a = np.array([[inf, 1.0], [2.0, 3.0]])
    g = np.array([[0.0, 2.0], [0.0, 1.0]])
    np.testing.assert_array_equal(strong_matmul(g, a), [[4, 6], [2, 3]])
    np.testing.assert_array_equal(
        strong_matmul(np.stack([g, 0 * g]), a), [[[4, 6], [2, 3]], np.zeros((2, 2))]
    )


WITH_INFINITY = np.array([[inf, 1.0, nan], [1.0, 2.0, 0.5], [0.3, 1.0, 1.0]])


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (np.matmul, (np.ones((2, 3)), WITH_INFINITY)),
        (np.dot, (np.ones(3), WITH_INFINITY)),
        (np.inner, (np.ones(3), WITH_INFINITY)),
        (np.tensordot, (np.ones((2, 3)), WITH_INFINITY, 1)),
        (np.outer, (np.ones(2), WITH_INFINITY)),
        (np.vdot, (np.ones((3, 3)), WITH_INFINITY)),
        (np.vecdot, (np.ones(3), WITH_INFINITY)),
        (np.kron, (np.ones((1, 2)), WITH_INFINITY)),
        (np.cross, (np.ones(3), WITH_INFINITY)),
        (np.prod, (WITH_INFINITY,)),
        (np.cumprod, (WITH_INFINITY,)),
        (np.var, (WITH_INFINITY,)),
        (np.linalg.norm, (WITH_INFINITY,)),
        (np.max, (WITH_INFINITY,)),
        (np.average, (np.ones((3, 3)), None, WITH_INFINITY)),
    ],
    ids=lambda a: getattr(a, "__name__", ""),
)
def test_zero_cotangent_pulls_back_to_zeros(fun, args):
    y = fun(*args)
    xbar = lookup(fun).vjps[0](np.zeros_like(y), y, *args)
    np.testing.assert_array_equal(xbar, np.zeros_like(xbar))


def test_zero_cotangent_pulls_back_to_zeros_through_einsum():
    g = np.zeros((2, 3))
    args = ("ij,jk->ik", np.ones((2, 3)), WITH_INFINITY)
    y = np.einsum(*args)
    np.testing.assert_array_equal(lookup(np.einsum).variadic(1, g, y, *args), np.zeros((2, 3)))
    g[1, 1] = 1.0
    np.testing.assert_array_equal(
        lookup(np.einsum).variadic(1, g, y, *args), [[0, 0, 0], WITH_INFINITY[:, 1]]
    )


# ---- the registry as a whole

def real_ufuncs():
    found = {f for f in vars(np).values() if isinstance(f, np.ufunc)}
    return sorted(
        (f for f in found if any("d" in t.partition("->")[0] for t in f.types)), key=lambda f: f.__name__
    )


@pytest.mark.parametrize("ufunc", real_ufuncs(), ids=lambda f: f.__name__)
def test_every_real_numpy_ufunc_has_one_rule(ufunc):
    row = registry.rows[ufunc]
    if row.kind == "elementwise":
        assert len(row.partials) == ufunc.nin


def test_every_elementwise_rule_is_in_the_case_table():
    # mpmath cannot represent an operand or a value of these, which have separate tests
    apart = {"single", "where", "ldexp", "jv", "yv", "iv", "kv", "zeta", "_riemann_zeta", "lambertw"}
    for case in ELEMENTWISE:
        assert lookup(resolve(case.fun)).kind == "elementwise"
    # functions of our own, except results of SciPy, are compared through the second derivatives that use them
    served = {r for r in rows_of_numpy().values() if r.name.startswith("wengert.rules.") and not r.name[-1].isdigit()}
    rows = [r for r in rows_of_numpy().values() if r.kind == "elementwise" and r not in served]
    declared = {r.name.rpartition(".")[2] for r in rows}
    # mpmath lacks these: `test_coverage.py` compares them with differences
    differences = {"ellipj_3", "elliprd", "gdtria", "it2struve0", "iti0k0_1", "itj0y0_1", "log_wright_bessel"}
    differences |= {"pbdv_1", "pbvv_0", "pbvv_1", "pbwa_0", "pbwa_1", "wright_bessel"}
    differences |= {f"{name}_{part}" for name, _, results in WAVES for part in range(results)}
    differences |= {f"kelvin_{part}" for part in range(4)}  # complex values: `test_special_census.py`
    differences |= {f"modfresnel{sign}_{part}" for sign in "mp" for part in range(2)}
    differences |= {"hankel1", "hankel2", "hankel1e", "hankel2e", "wofz", "_smirnovp"}
    composed = {r.name.rpartition(".")[2] for r in rows_of_numpy().values() if r.kind == "composed"}
    of_scipy = {c.name for c in SPECIAL} - composed
    of_scipy |= {f"{c.name}_{c.part}" for c in SPECIAL if f"{c.name}_{c.part}" in declared}
    assert declared == {c.name for c in ELEMENTWISE} | apart | of_scipy | differences


def test_every_rule_with_a_pullback_has_a_case():
    called = {c.fun for c in [*CALLS, *SYMMETRIC]}
    for row in rows_of_numpy().values():
        if row.kind in ("structural", "linear") and not row.name.startswith("numpy.fft."):  # for complex values
            assert row.fun in called, row


def test_every_data_movement_function_has_a_case():
    moving = {r.fun for r in rows_of_numpy().values() if r.kind in ("view", "rearrangement")}
    assert moving - {np.block} == {c.fun for c in MOVES}


def test_ufunc_methods_map_to_functions_with_rules():
    assert registry.ufunc_methods[np.add, "reduce"] is np.sum
    for (ufunc, method), fun in registry.ufunc_methods.items():
        if method == "at":  # works in place: tests of methods call it
            continue
        x = np.array([[1.0, 3.0, 2.0], [4.0, 0.5, 1.0]])
        args = (x, [0, 2, 1, 0]) if method == "reduceat" else (x,)
        np.testing.assert_array_equal(getattr(ufunc, method)(*args, axis=1), fun(*args, axis=1))
        assert lookup(fun) is not None


def test_linear_rules_are_linear():
    for case in CALLS:
        row = lookup(case.fun)
        if row.kind == "linear" and "initial" not in case.kwargs:
            args = case.draw()
            doubled = case(2 * args[0], *args[1:])
            np.testing.assert_allclose(doubled, 2 * case(*args), err_msg=case.name)


def test_rules_declared_without_curvature_have_none():
    """Second differences vanish over steps that cross no kink."""
    for case in CALLS:
        if lookup(case.fun).curvature != "none":
            continue
        args = case.draw(5)
        rng = np.random.default_rng(6)
        for i in case.wrt:
            v = directions(case, args, i, rng)
            for t in (0.0, 1e-4):
                moved = list(args)
                h = 1e-4
                steps = []
                for s in (t - h, t, t + h):
                    moved[i] = (
                        [a + s * d for a, d in zip(args[i], v)] if isinstance(v, list) else args[i] + s * v
                    )
                    steps.append(np.asarray(case(*moved)))
                second = steps[0] - 2 * steps[1] + steps[2]
                assert np.all(~np.isfinite(second) | (np.abs(second) < 1e-12)), case.name


def test_leading_counts_extra_axes_of_tangent():
    assert leading(np.ones((5, 2, 3)), np.ones((2, 3))) == 1
    assert leading(np.float64(1.0), np.float64(2.0)) == 0


FACTORS = np.array([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 1e-320, 1e308])


@pytest.mark.parametrize(
    "form",
    [
        lambda a, b: (a, b),
        lambda a, b: (a.reshape(9, 9), b.reshape(9, 9)),
        lambda a, b: (a.reshape(9, 9).T, b.reshape(9, 9)),
        lambda a, b: (a[40], b),
        lambda a, b: (a, b[40:41]),
        lambda a, b: (a[4], float(b[3])),
        lambda a, b: (a[::2], b[::2]),
        lambda a, b: (a[:9, None], b[:9]),
        lambda a, b: (a.astype(np.float32), b),
    ],
    ids=["vectors", "matrices", "transposed", "a number", "one element", "numbers", "strided", "spread", "float32"],
)
def test_strong_product_equals_numpy_except_at_zeros(form):
    pairs = np.array(np.meshgrid(FACTORS, FACTORS)).reshape(2, -1)
    a, b = form(*pairs)
    with np.errstate(all="ignore"):
        plain = np.multiply(a, b)
    spoiled = np.isnan(plain) & (np.equal(a, 0) | np.equal(b, 0))
    wengert.grad(np.sum)(np.ones(2))  # imports the core
    found = strong(a, b)
    assert type(found) is type(plain) and found.dtype == plain.dtype
    np.testing.assert_array_equal(found, np.where(spoiled, 0.0, plain))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.where(spoiled, 0.0, plain)))


COMPLEX_FACTORS = [*FACTORS.tolist(), 1 + 2j, complex(0.0, -1.5), complex(1e300, 1.0), complex(inf, nan), 0j, 1e160j]


FORMS = {"Python": complex, "NumPy": np.complex128, "array": lambda z: np.array([z + 0j])}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_strong_product_of_single_complex_numbers_equals_numpy_except_at_zeros(form):
    wengert.grad(np.sum)(np.ones(2))  # imports the core
    for one, other in itertools.product(COMPLEX_FACTORS, COMPLEX_FACTORS):
        a, b = np.array([one + 0j]), form(other)
        plain = np.multiply(a, b)
        spoiled = np.isnan(plain) & ((a == 0) | (np.asarray(b) == 0))
        with np.errstate(all="raise", under="ignore"):
            found = strong(a, b)
        np.testing.assert_array_equal(found, np.where(spoiled, 0.0, plain))
