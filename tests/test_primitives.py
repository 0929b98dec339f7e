"""Every rule of the registry through the public drivers: values bit for bit, pullbacks, dtypes, memory.

`test_rules.py` compares the rules with mathematics; here the same tables pass through the engine.
"""

from __future__ import annotations

import functools
import operator

import numpy as np
import pytest
from wengert.core.operands.var import is_var

import wengert as wg
from helpers import assert_same_bits
from primitive_cases import CALLS, COMPOSED, DESCENDING, ELEMENTWISE, MOVES, holds_operand, resolve
from wengert.errors import UnsupportedFunctionError
from wengert.registry import lookup
from wengert.rules.spectra import packed_eig
from wengert.rules.ufuncs import scatter_add

inf, nan = np.inf, np.nan

ALL = [*CALLS, *MOVES, *COMPOSED]


def identity(case):
    """Return module and name of a case, because two NumPy modules may define functions of the same name."""
    module = getattr(case.fun, "__module__", None) or "numpy"
    return case.name if module == "numpy" else f"{module.removeprefix('numpy.')}.{case.name}"


every_case = pytest.mark.parametrize("case", ALL, ids=identity)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def as_ufunc_at(a, indices, b):
    """`scatter_add`, as a user writes it in NumPy."""
    a = a * 1.0
    np.add.at(a, indices, b)
    return a


#: functions in their usual form: some do not dispatch on their operands in NumPy, others are wengert's own
CREATION = {
    np.full: wg.numpy.full,
    np.full_like: wg.numpy.full_like,
    scatter_add: as_ufunc_at,
}

# ---- a call as a function of its operands


def leaves_of(given, args):
    """Return the operands of a call in order, those in lists one by one."""
    found = []
    for wanted, value in zip(given, args, strict=True):
        if isinstance(wanted, list) and holds_operand(wanted):
            found += leaves_of(wanted, value)
        elif holds_operand(wanted):
            found.append(value)
    return found


def with_leaves(given, leaves):
    """Replace the operands in the arguments of a call by those of the iterator `leaves`."""
    made = []
    for wanted in given:
        if isinstance(wanted, list) and holds_operand(wanted):
            made.append(with_leaves(wanted, leaves))
        else:
            made.append(next(leaves) if holds_operand(wanted) else wanted)
    return made


def as_function(case):
    fun = CREATION.get(case.fun, case.fun)
    is_real = case.fun not in (np.linalg.eig, np.linalg.eigvals, packed_eig)  # real matrices too from NumPy 2.5 on

    def f(*leaves):
        y = fun(*with_leaves(case.args, iter(leaves)), **case.kwargs)
        return y if is_real else in_container_of(y, map(np.real, y)) if is_several(y) else np.real(y)

    return f


def numbers_for(case, seed=0):
    """Return operands of a call, 0-d ones as NumPy scalars, which functions receive."""
    return [x if np.ndim(x) else np.float64(x) for x in leaves_of(case.args, case.draw(seed))]


def vjp_of(f, leaves):
    return wg.vjp(f, leaves[0], args=tuple(leaves[1:]), argnums=tuple(range(len(leaves))))


def is_several(y):
    """Return whether y is a list or tuple of arrays."""
    return isinstance(y, (list, tuple))


def in_container_of(y, parts):
    """Return several results in the container of `y`: a list, a tuple or a named tuple."""
    return type(y)(*parts) if hasattr(y, "_fields") else type(y)(parts)


def like(y, make):
    """Return one or several cotangents with the structure of `y`."""
    return in_container_of(y, [like(part, make) for part in y]) if is_several(y) else np.asarray(make(np.shape(y)))


def paired(a, b):
    if is_several(a):
        return sum(paired(x, y) for x, y in zip(a, b, strict=True))
    return float(np.sum(np.where(np.equal(b, 0), 0, a) * b))


def weighted_sum(pieces, weights):
    """Return the weighted sum of results, each of which may consist of several arrays."""
    if is_several(pieces[0]):
        return in_container_of(pieces[0], [weighted_sum(parts, weights) for parts in zip(*pieces)])
    total = sum(w * np.asarray(piece) for w, piece in zip(weights, pieces))
    return np.where(np.isfinite(total), total, 0)


def tangent(f, leaves, directions, h=2e-3):
    """Return the derivative along directions by central differences of fourth order."""
    pieces = [f(*(shifted_by(x, t * h * v) for x, v in zip(leaves, directions))) for t in (1, -1, 2, -2)]
    return weighted_sum(pieces, [8 / (12 * h), -8 / (12 * h), -1 / (12 * h), 1 / (12 * h)])


def shifted_by(x, step):
    """Return x + step in the memory layout of x, on which order="K" depends."""
    moved = np.array(x, dtype=float, order="K")
    moved[...] = x + step
    return moved if isinstance(x, np.ndarray) else moved[()]


def directions_for(leaves, rng):
    return [np.where(np.isfinite(x), rng.uniform(-1, 1, np.shape(x)), 0.0) for x in leaves]


def assert_transpose(f, leaves, rng, rtol=1e-8):
    """Check <ybar, J v> = <J^T ybar, v>, with J v by differences."""
    y, pullback = vjp_of(f, leaves)
    ybar = like(y, lambda shape: rng.uniform(-1, 1, shape))
    xbar = pullback(ybar)
    v = directions_for(leaves, rng)
    for x, g in zip(leaves, xbar, strict=True):
        assert np.shape(g) == np.shape(x)
    moved = tangent(f, leaves, v)
    np.testing.assert_allclose(paired(xbar, v), paired(moved, ybar), rtol=rtol, atol=1e-8)
    return y, pullback, ybar


# ---- values and pullbacks


@every_case
def test_value_equals_plain_call_and_pullback_is_transpose(case):
    f, leaves = as_function(case), numbers_for(case)
    y, pullback, ybar = assert_transpose(f, leaves, np.random.default_rng(3))
    assert_same_bits(y, f(*leaves))
    assert type(y) is type(f(*leaves))
    assert_same_bits(list(pullback(ybar)), list(pullback(ybar)), "called again")


def laid_out(x, layout):
    """Return the same values in another memory layout."""
    if np.ndim(x) == 0:
        return np.array(x) if layout == "0-d arrays" else x
    if layout == "negative strides":
        return np.flip(np.flip(x).copy())
    if layout == "Fortran order":
        return np.asfortranarray(x)
    if layout == "strided":
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]))
        wide[..., ::2] = x
        return wide[..., ::2]
    return x


LAYOUTS = ["negative strides", "Fortran order", "strided", "0-d arrays"]


@pytest.mark.parametrize("layout", LAYOUTS)
@every_case
def test_operands_that_are_views_do_not_change_bits_or_derivative(case, layout):
    leaves = numbers_for(case)
    f, views = as_function(case), [laid_out(x, layout) for x in leaves]
    contiguous = [np.array(x) if np.ndim(x) else x for x in views]
    y, pullback = vjp_of(f, views)
    assert_same_bits(y, f(*views))
    ybar = like(y, np.ones)
    expected = vjp_of(f, contiguous)[1](ybar)
    for got, wanted in zip(pullback(ybar), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


INSIDE_OF_ARRAYS = {
    "overlapping": lambda a, b, x: a * b + a / (2.0 + b),
    "numbers": lambda a, b, x: (2.0 * a - b / 3.0) + (1.0 / (a + 4.0)) ** 2,
    "traced numbers": lambda a, b, x: x[0, 0, 0] * a + b / x[-1, -1, -1],
    "one operand": lambda a, b, x: np.sqrt(a + 4.0) + np.exp(b) + abs(a) + np.tanh(b),
    "a whole array": lambda a, b, x: np.ones(a.shape) * a + a * np.arange(float(b.size)).reshape(b.shape),
    "spread": lambda a, b, x: np.broadcast_to(a[:, :1], a.shape) * b + a[0] * b,
    "columns": lambda a, b, x: np.transpose(a) * np.transpose(b) + a[..., ::-1].T * b.T,
    "infinite partials": lambda a, b, x: np.where(a > 0.0, np.sqrt(np.where(a > 0.0, a, 0.0)), 0.0) * b,
}


@pytest.mark.parametrize("f", INSIDE_OF_ARRAYS.values(), ids=INSIDE_OF_ARRAYS)
@pytest.mark.parametrize(
    "parts", [np.s_[:, 1:, 2:], np.s_[1:, :, :-2], np.s_[::2, 1:, 1:-1], np.s_[1, 1:, 2:], np.s_[:, :, 3:3]]
)
def test_slices_have_the_derivatives_of_copies(f, parts):
    """Contiguous rows are differentiated in place, one by one."""

    def of_parts(x):
        return f(x[parts], (x * x)[parts], x)

    def of_copies(x):
        return f(np.ascontiguousarray(x[parts]) * 1.0, (x * x)[parts] * 1.0, x)

    x = np.random.default_rng(8).uniform(-1.0, 1.0, (4, 3, 6))
    x[1, 1, 3] = 0.0
    weights = np.random.default_rng(9).uniform(-1.0, 1.0, (3, *of_parts(x).shape))
    got, wanted = (wg.vjp(g, x)[1] for g in (of_parts, of_copies))
    for w in (weights[0], weights):
        np.testing.assert_allclose(got(w), wanted(w), rtol=1e-14, atol=1e-15)


@every_case
def test_bits_equal_plain_call_on_views_made_inside(case):
    """A view of a traced array, an intermediate array and an element of one are valid operands."""
    leaves = numbers_for(case)
    plain = as_function(case)

    def f(*xs):
        return plain(
            *(np.transpose(x * 2.0)[::-1][::-1].T * 0.5 if np.ndim(x) else x * 2.0 * 0.5 for x in xs)
        )

    y, pullback = vjp_of(f, leaves)
    assert_same_bits(y, f(*leaves))
    ybar = like(y, np.ones)
    for got, wanted in zip(pullback(ybar), vjp_of(plain, leaves)[1](ybar), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)


@every_case
def test_stacked_cotangents_equal_a_loop(case):
    f, leaves = as_function(case), numbers_for(case)
    y, pullback = vjp_of(f, leaves)
    rng = np.random.default_rng(5)
    stack = like(y, lambda shape: rng.uniform(-1, 1, (3, *shape)))

    def row(part, j):
        return in_container_of(part, [row(p, j) for p in part]) if is_several(part) else part[j]

    together = pullback(stack)
    for j in range(3):
        for got, wanted, x in zip(together, pullback(row(stack, j)), leaves, strict=True):
            assert got.shape == (3, *np.shape(x))
            np.testing.assert_allclose(got[j], wanted, rtol=1e-12, atol=1e-13)


@every_case
def test_rows_of_jacobian_are_pullbacks_of_unit_cotangents(case):
    f, leaves = as_function(case), numbers_for(case)
    wrt = tuple(range(len(leaves)))
    y, pullback = vjp_of(f, leaves)
    jacobian = wg.jacobian(f, leaves[0], args=tuple(leaves[1:]), argnums=wrt)
    parts, blocks = (y, jacobian) if is_several(y) else ([y], [jacobian])
    for k, (part, block) in enumerate(zip(parts, blocks, strict=True)):
        for i in range(np.size(part)):
            unit = like(y, np.zeros)
            (unit[k] if is_several(y) else unit).flat[i] = 1.0
            for x, matrix, row in zip(leaves, block, pullback(unit), strict=True):
                assert np.shape(matrix) == np.shape(part) + np.shape(x)
                rows = np.reshape(matrix, (np.size(part), *np.shape(x)))
                np.testing.assert_allclose(rows[i], row, rtol=1e-12, atol=1e-13)


@every_case
def test_single_precision_stays_single_in_value_and_gradient(case):
    f, leaves = as_function(case), [np.float32(x) for x in numbers_for(case)]
    expected = f(*leaves)
    y, pullback = vjp_of(f, leaves)
    assert_same_bits(y, expected)
    double = vjp_of(f, [np.asarray(x, float) for x in leaves])[1](like(y, np.ones))
    for got, wanted in zip(pullback(like(y, np.ones)), double, strict=True):
        assert got.dtype == np.float32
        # cotangents are NaN exactly where values are
        scale = np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4 * scale)


@every_case
def test_gradient_of_scalar_depending_on_the_call_is_its_pullback(case):
    """Results are weighted and summed inside the function, as most functions are used."""
    f, leaves = as_function(case), numbers_for(case)
    y, pullback = vjp_of(f, leaves)
    rng = np.random.default_rng(6)
    weights = like(y, lambda shape: rng.uniform(-1, 1, shape))

    def loss(*xs):
        y = f(*xs)
        pairs = zip(y, weights) if is_several(y) else [(y, weights)]
        return sum(np.sum(part * weight) for part, weight in pairs)

    found = wg.grad(loss, leaves[0], args=tuple(leaves[1:]), argnums=tuple(range(len(leaves))))
    for got, wanted in zip(found, pullback(weights), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-13)


@every_case
def test_zero_cotangent_times_infinite_partial_is_zero(case):
    """Strong zero: a branch that contributes nothing may have any value."""
    leaves = numbers_for(case)
    # LAPACK may not terminate on singular values of infinite matrices
    has_svd = any(word in case.fun.__name__ for word in ("svd", "pinv", "lstsq", "norm"))
    for value in (nan,) if has_svd else (inf, nan):
        at = [np.where(np.arange(np.size(x)).reshape(np.shape(x)) == 1, value, x) for x in leaves]
        try:
            y, pullback = vjp_of(as_function(case), at)
        except (ValueError, TypeError):
            continue
        for g in pullback(like(y, np.zeros)):
            assert not g.any()


# ---- memory: saved values, shared views


def copied(x):
    """Return a copy of an argument and of its arrays."""
    if isinstance(x, list):
        return [copied(item) for item in x]
    return np.array(x) if type(x) is np.ndarray else x


def overwrite_arrays(x):
    """Overwrite every floating-point array in an argument."""
    if isinstance(x, list):
        for item in x:
            overwrite_arrays(item)
    elif type(x) is np.ndarray and not is_var(x):
        x[...] = 0 if x.dtype.kind != "f" else 77.0


@every_case
def test_changing_constants_after_the_call_does_not_change_the_pullback(case):
    """One operand is traced at a time; all other arrays are overwritten after the call."""
    leaves = numbers_for(case)
    positions = range(len(leaves))
    both = vjp_of(as_function(case), leaves)[1](like(as_function(case)(*leaves), np.ones))
    for i in positions:

        def f(x, i=i):
            mine = [x if k == i else leaf for k, leaf in enumerate(leaves)]
            given = copied(with_leaves(case.args, iter(mine)))
            y = CREATION.get(case.fun, case.fun)(*given, **case.kwargs)
            overwrite_arrays(given)
            return y

        y, pullback = wg.vjp(f, leaves[i])
        np.testing.assert_allclose(pullback(like(y, np.ones)), both[i], rtol=1e-12, atol=1e-13)


def as_list(y):
    return list(y) if is_several(y) else [y]


def is_writeable(y):
    """Return whether NumPy allows writes without a warning: not for broadcast views or diagonals."""
    return type(y) is np.ndarray and 0 not in y.strides and y.flags.writeable


@every_case
def test_results_share_memory_with_operands_as_in_numpy(case):
    """Where NumPy returns a view, writing to the result changes the operand, and vice versa."""
    leaves = numbers_for(case)
    plain = as_function(case)
    written = [np.ndim(part) > 0 and is_writeable(part) for part in as_list(plain(*leaves))]

    def writes_into_result(*xs):
        xs = [x * 1.0 if np.ndim(x) else x for x in xs]
        y = as_list(plain(*xs))
        for part, is_written in zip(y, written):
            if is_written:
                part[...] = part * 3.0
        return [np.sum(x * x) for x in xs] + [np.sum(part) for part in y]

    def writes_into_operand(*xs):
        xs = [x * 1.0 if np.ndim(x) else x for x in xs]
        y = as_list(plain(*xs))
        for x in xs:
            if np.ndim(x):
                x[...] = x * x
        return [np.sum(part * part) for part in y] + [np.sum(x) for x in xs]

    for f in (writes_into_result, writes_into_operand):
        finite = [np.where(np.isfinite(x), x, 0.5)[()] for x in leaves]
        expected = np.array(f(*finite))
        y, pullback = vjp_of(f, finite)
        np.testing.assert_array_equal(y, expected)
        rng = np.random.default_rng(7)
        v, ybar = directions_for(finite, rng), rng.uniform(-1, 1, np.shape(y))
        moved = tangent(lambda *xs: np.array(f(*xs)), finite, v, h=1e-3)
        np.testing.assert_allclose(paired(pullback(ybar), v), paired(moved, ybar), rtol=2e-7, atol=1e-7)


def test_nan_to_num_in_place_is_traced_as_a_write():
    def f(x, fill):
        y = x / 3.0
        z = np.nan_to_num(y, copy=False, nan=fill, posinf=5.0)
        return y * z + np.exp(x)

    x = np.array([1.0, nan, inf, 2.0])
    y, pullback = wg.vjp(f, x, args=(7.0,), argnums=(0, 1))
    assert_same_bits(y, f(x, 7.0))
    by_x, by_fill = pullback(np.array([1.0, 1.0, 0.0, 1.0]))
    np.testing.assert_allclose(by_x, [2 / 9 + np.exp(1.0), nan, 0.0, 4 / 9 + np.exp(2.0)])
    assert by_fill == 14.0


# ---- elementwise functions


def domain_points(case, shape, seed=0):
    """Draw operands from the domain that the rule declares."""
    rng = np.random.default_rng(seed)
    return [rng.uniform(low, high, shape) for low, high in lookup(resolve(case.fun)).domain]


every_function = pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.name)

VIEWS = {
    "contiguous": lambda x: x,
    "one": lambda x: x[:1],
    "none": lambda x: x[:0],
    "0-d": lambda x: x[0].reshape(()),
    "reversed": lambda x: x[::-1],
    "every other": lambda x: x[::2],
    "matrix": lambda x: x.reshape(3, 4),
    "Fortran order": lambda x: np.asfortranarray(x.reshape(3, 4)),
    "columns": lambda x: x.reshape(3, 4)[:, 1:3],
    "empty matrix": lambda x: x[:0].reshape(0, 4),
}


def slopes(fun, operands):
    """Return the rule's partials at the operands, broadcast to the shape of the value."""
    y = fun(*operands)
    partials = [p(y, *operands) if callable(p) else p for p in lookup(fun).partials]
    return [np.broadcast_to(np.asarray(p, dtype=np.result_type(y)), np.shape(y)) for p in partials]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("view", VIEWS)
@every_function
def test_elementwise_function_has_bits_and_partials_of_its_rule(case, view, dtype):
    fun = resolve(case.fun)
    operands = [VIEWS[view](x.astype(dtype)) for x in domain_points(case, 12)]
    y, pullback = vjp_of(lambda *xs: fun(*xs), operands)
    assert_same_bits(y, fun(*operands))
    ybar = np.random.default_rng(8).uniform(-1, 1, np.shape(y)).astype(y.dtype)
    tolerance = 1e-12 if dtype is np.float64 else 1e-5
    for x, got, slope in zip(operands, pullback(ybar), slopes(fun, operands), strict=True):
        assert got.dtype == dtype
        assert got.shape == x.shape
        np.testing.assert_allclose(got, ybar * slope, rtol=tolerance, atol=tolerance)


@every_function
def test_elementwise_function_of_scalars_has_bits_and_partials_of_its_rule(case):
    fun = resolve(case.fun)
    operands = domain_points(case, 9)

    def f(*xs):
        return [fun(*(x[i] for x in xs)) for i in range(9)]

    y, pullback = vjp_of(f, operands)
    assert_same_bits(y, np.array([fun(*(x[i] for x in operands)) for i in range(9)]))
    ybar = np.random.default_rng(8).uniform(-1, 1, 9)
    for got, slope in zip(pullback(ybar), slopes(fun, operands), strict=True):
        np.testing.assert_allclose(got, ybar * slope, rtol=1e-12, atol=1e-12)


@every_function
def test_elementwise_function_of_scalar_returns_scalar(case):
    fun = resolve(case.fun)
    for dtype in (np.float64, np.float32):
        operands = [dtype(x) for x in case.smooth_at[0]]
        y, pullback = vjp_of(lambda *xs: fun(*xs), operands)
        assert_same_bits(y, fun(*operands))
        assert type(y) is type(fun(*operands))
        for x, got, slope in zip(operands, pullback(y.dtype.type(2)), slopes(fun, operands), strict=True):
            assert type(got) is type(x)
            np.testing.assert_allclose(got, 2 * slope, rtol=1e-12 if dtype is np.float64 else 1e-5)


PAIRS = [
    ((3, 1), (4,)),
    ((4,), (3, 4)),
    ((), (3,)),
    ((3,), ()),
    ((2, 1, 3), (4, 1)),
    ((1,), (5,)),
    ((0, 3), (1,)),
]


@pytest.mark.parametrize("shapes", PAIRS, ids=str)
@pytest.mark.parametrize("case", [c for c in ELEMENTWISE if len(c.at) == 2], ids=lambda case: case.name)
def test_broadcast_operands_receive_summed_cotangents(case, shapes):
    fun = resolve(case.fun)
    operands = [x[()] for x in (domain_points(case, shape, seed=i)[i] for i, shape in enumerate(shapes))]
    y, pullback = vjp_of(lambda a, b: fun(a, b), operands)
    assert_same_bits(y, fun(*operands))
    rng = np.random.default_rng(9)
    ybar = rng.uniform(-1, 1, (2, *np.shape(y)))
    together = pullback(ybar)
    for j in range(2):
        for x, got, stack, slope in zip(
            operands, pullback(ybar[j]), together, slopes(fun, operands), strict=True
        ):
            terms = ybar[j] * slope
            lead = tuple(range(terms.ndim - np.ndim(x)))
            ones = tuple(i - np.ndim(x) for i in range(np.ndim(x)) if x.shape[i] == 1)
            wanted = np.sum(np.sum(terms, axis=lead), axis=ones, keepdims=True)
            np.testing.assert_allclose(got, wanted.reshape(np.shape(x)), rtol=1e-11, atol=1e-12)
            np.testing.assert_allclose(stack[j], got, rtol=1e-11, atol=1e-12)


@every_function
def test_out_array_receives_value_and_derivative(case):
    fun = resolve(case.fun)
    if not isinstance(fun, np.ufunc):
        return
    operands = domain_points(case, (3, 4))

    def f(*xs):
        F = np.zeros((2, 3, 4))
        result = fun(*xs, out=F[1])
        assert result.shape == (3, 4)
        if fun in (np.maximum, np.minimum):  # NumPy warns about a third argument
            fun(*xs, out=(F[0],))
        else:
            fun(*xs, F[0])
        return F * 2

    y, pullback = vjp_of(f, operands)
    value = fun(*operands)
    assert_same_bits(y, np.stack([value * 2, value * 2]))
    for got, slope in zip(pullback(np.ones((2, 3, 4))), slopes(fun, operands), strict=True):
        np.testing.assert_allclose(got, 4 * slope, rtol=1e-12, atol=1e-12)


@every_function
def test_where_option_raises_and_is_named(case):
    fun = resolve(case.fun)
    if not isinstance(fun, np.ufunc):
        return
    operands = domain_points(case, 4)
    with pytest.raises(UnsupportedFunctionError, match=r"\bwhere\b"):
        vjp_of(lambda *xs: fun(*xs, where=np.array([True, False, True, True])), operands)


@every_function
def test_one_traced_operand_among_plain_ones(case):
    """Plain operands as arrays, Python numbers and integers; overwritten after the call."""
    fun = resolve(case.fun)
    if len(case.at) == 1:
        return
    operands = domain_points(case, 5)
    for i in range(2):
        for other in (
            operands[1 - i],
            2.0,
            2,
            np.float64(2.0),
            np.int32(2),
            np.array(2.0),
            np.full(5, 2, np.int8),
        ):

            def f(x, i=i, other=other):
                other = np.array(other) if np.ndim(other) else other
                y = fun(x, other) if i == 0 else fun(other, x)
                if np.ndim(other):
                    other[...] = 1
                return y

            x = operands[i]
            at = (x, other) if i == 0 else (other, x)
            y, pullback = wg.vjp(f, x)
            assert_same_bits(y, fun(*at))
            wanted = slopes(fun, [np.asarray(a, float) + np.zeros(5) for a in at])[i]
            np.testing.assert_allclose(pullback(np.ones(5)), wanted, rtol=1e-12, atol=1e-12)


# ---- call forms of users

FEW, WHOLE = np.array([0.5, 1.5, -1.0]), np.array([0, 1, 1, 0])

METHODS = {
    "sum()": lambda x: x.sum(),
    "sum(0)": lambda x: x.sum(0),
    "sum(axis=1, keepdims=True)": lambda x: x.sum(axis=1, keepdims=True),
    "mean": lambda x: x.mean(axis=0),
    "prod": lambda x: x.prod(axis=1),
    "max": lambda x: x.max(axis=1) * x.min(),
    "ptp": lambda x: np.ptp(x, axis=0),
    "var": lambda x: x.var(axis=1, ddof=1) + x.var(),
    "std": lambda x: x.std(0),
    "cumsum": lambda x: x.cumsum(axis=1) * x.cumsum().reshape(3, 4),
    "cumprod": lambda x: x.cumprod(1),
    "ravel": lambda x: x.ravel() ** 2,
    "ravel F": lambda x: x.ravel("F") * np.arange(12.0),
    "ravel order": lambda x: x.ravel(order="K") * np.arange(12.0),
    "flatten": lambda x: x.flatten() * np.arange(12.0),
    "flatten F": lambda x: x.flatten("F") * np.arange(12.0),
    "reshape": lambda x: x.reshape(2, 6) @ np.arange(6.0),
    "reshape tuple": lambda x: x.reshape((2, -1)) @ np.arange(6.0),
    "reshape F": lambda x: x.reshape(2, 6, order="F") @ np.arange(6.0),
    "T": lambda x: x.T @ np.arange(3.0),
    "mT": lambda x: x.mT @ np.arange(3.0),
    "transpose()": lambda x: x.transpose() @ np.arange(3.0),
    "transpose(1, 0)": lambda x: x.transpose(1, 0) @ np.arange(3.0),
    "transpose((1, 0))": lambda x: x.transpose((1, 0)) @ np.arange(3.0),
    "swapaxes": lambda x: x.swapaxes(0, 1) @ np.arange(3.0),
    "squeeze": lambda x: x[:, :1].squeeze() * 2,
    "squeeze axis": lambda x: x[:1].squeeze(axis=0) * 2,
    "repeat": lambda x: x.repeat(2, axis=1) * np.arange(8.0),
    "take": lambda x: x.take([0, 2, 2], axis=1) * np.arange(3.0),
    "take flat": lambda x: x.take([5, 0, 5]) * np.arange(3.0),
    "compress": lambda x: x.compress([True, False, True], axis=0) ** 2,
    "clip": lambda x: x.clip(-0.5, 1.0),
    "clip keywords": lambda x: x.clip(min=-0.5) + x.clip(max=0.5),
    "dot": lambda x: x.dot(np.arange(4.0)) + x.dot(x[0]),
    "trace": lambda x: x.trace() * x.trace(1),
    "diagonal": lambda x: x.diagonal() * x.diagonal(1)[:3],
    "copy": lambda x: x.copy() * 2 + x.copy("F"),
    "conj": lambda x: x.conj() * x.conjugate() * x.real,
    "astype": lambda x: x.astype(float) * x.astype(np.float64, copy=False),
    "view": lambda x: x.view() ** 2,
    "round": lambda x: x * x.round(1) + x.round(decimals=0),
    "argmax": lambda x: x.ravel()[x.argmax()] * x[x.argmin(axis=0), np.arange(4)],
    "argsort": lambda x: np.take_along_axis(x, x.argsort(axis=1), 1) * np.arange(4.0),
    "nonzero": lambda x: x[(x > 0).nonzero()] ** 2,
    "any and all": lambda x: x * (1 if x.any() else 2) * (3 if (x > -10).all() else 4),
    "searchsorted": lambda x: x[0] * np.sort(x[1]).searchsorted(x[2]),
    "initial": lambda x: x.sum(0, initial=x[0, 0]) * x.prod(initial=x[0, 1]) + x.max(0, initial=9 * abs(x[0, 0])),
    "initial of a constant": lambda x: FEW.sum(initial=x[0, 0]) * FEW.min(initial=-abs(x[1, 1])) * x,
    "initial where": lambda x: np.nansum(x, 1, initial=x[0, 0], where=x > 0) * np.nanprod(FEW, initial=x[0, 1]),
    "initial of no elements": lambda x: x[:, :0].max(1, initial=x[0, 0] ** 2) + x[:0].min(0, initial=x[1, 1])[:3],
    "initial of reduce": lambda x: np.add.reduce(FEW, initial=x[0, 0]) * np.fmax.reduce(FEW + 0, initial=4 + x[1, 1]),
    "given mean": lambda x: x.var(0, mean=x[:1] ** 2) * FEW[:2].std(mean=x[0, 0]) + np.std(x, mean=0.5, ddof=1),
    "given nan mean": lambda x: np.nanvar(x, 1, mean=x[:, :1] ** 2, keepdims=True) * np.nanstd(FEW, mean=x[0, 0]),
    "select default": lambda x: np.select([FEW > 1, FEW > 0], [FEW, 2 * FEW], x[0, 0] ** 2) * x[0, 1],
    "methods of constants": lambda x: np.arange(4).dot(x.T) * (2 * FEW[::-1]).dot(x[0, :3]),
    "choose of constants": lambda x: WHOLE.choose([x[0], 1.0]) * x[1, 0],
    "fill": lambda x: filled(x),
    "sort": lambda x: stored(x, lambda y: y.sort()) + stored(x, lambda y: y.sort(0, kind="stable")),
    "partition": lambda x: stored(x, lambda y: y.partition(2)) + stored(x, lambda y: y.partition([0, 1], axis=0)),
    "method put": lambda x: stored(x, lambda y: y.put([0, 17, -2], x[1, 1:] ** 2, mode="clip")),
    "flat stored": lambda x: stored(x, lambda y: setattr(y, "flat", x[1] ** 2)),
    "flat slice stored": lambda x: stored(x, lambda y: y.flat.__setitem__(slice(1, 9, 3), x[0, :2] ** 2)),
    "flat element stored": lambda x: stored(x, lambda y: y.flat.__setitem__(-3, x[0, 0] ** 2)),
    "flat mask stored": lambda x: stored(x, lambda y: y.flat.__setitem__(np.arange(12) % 5 == 0, x[0, 0])),
    "tolist": lambda x: functools.reduce(operator.mul, x[1].tolist()),  # from Python 3.12 on, sum compensates rounding
    "sort descending": lambda x: stored(x, lambda y: y.sort(**DESCENDING)),
    "iteration": lambda x: sum(row[1] * row.sum() for row in x),
    "flat": lambda x: sum(v * v for v in x.flat) * x.flat[3] + x.flat[2:5] * x.flat[[7, 0, -1]] + len(x.flat),
    "abs and -": lambda x: abs(-x) + (+x),
    "divmod": lambda x: divmod(x, 0.7)[1] * divmod(5.0, x)[1],
    "ufunc.reduce": lambda x: np.add.reduce(x) * np.multiply.reduce(x, axis=0) + np.maximum.reduce(x, axis=0),
    "ufunc.accumulate": lambda x: np.add.accumulate(x) * np.multiply.accumulate(x, axis=1),
    "ufunc.outer": lambda x: np.multiply.outer(x[0], x[1]) + np.subtract.outer(x[0], x[2]),
    "r_": lambda x: np.r_[x[0], x[1]] * np.arange(8.0),
    "c_": lambda x: np.c_[x[0], x[1]] * np.arange(2.0),
    "ix_": lambda x: x[np.ix_([0, 2], [1, 3])] ** 2,
    "where of one argument": lambda x: x[np.where(x > 0)] ** 2,
    "apply_along_axis": lambda x: np.apply_along_axis(np.sum, 0, x),
    **{
        f"{ufunc.__name__}.{method}": lambda x, ufunc=ufunc, method=method: getattr(ufunc, method)(x)
        * np.sum(getattr(ufunc, method)(np.abs(x), axis=1) if method == "accumulate" else ufunc.reduce(x, -1))
        for ufunc in (np.subtract, np.divide, np.logaddexp, np.logaddexp2, np.hypot, np.maximum, np.fmin, np.fmax)
        for method in ("reduce", "accumulate")
    },
    "minimum.accumulate of a 1-D array": lambda x: np.minimum.accumulate(x.ravel()),
    "subtract.reduce keepdims": lambda x: np.subtract.reduce(x, axis=1, keepdims=True) * x,
    "logical reductions": lambda x: x * (1 + np.logical_and.reduce(x > -1)) + np.logical_or.reduce(x > 1, axis=0),
    "put": lambda x: stored(x, np.put, [0, 5, 7], x[1, :2] * x[0, 1]),
    "put wrap": lambda x: stored(x, np.put, [0, 17, -2], x[1, 1] ** 2, mode="wrap"),
    "put clip": lambda x: stored(x, np.put, [0, 17, -2], x[1, 1:] ** 2, mode="clip"),
    "place": lambda x: stored(x, np.place, x > 1, [x[1, 0] ** 2, 3.0]),
    "place nothing": lambda x: stored(x, np.place, x > 100, [x[1, 0] ** 2, 3.0]),
    "putmask": lambda x: stored(x, np.putmask, x > 1, x[:, 0] ** 2),
    "putmask number": lambda x: stored(x, np.putmask, x < 1, x[0, 0] ** 2),
    "put_along_axis": lambda x: stored(x, np.put_along_axis, np.argsort(x, axis=1)[:, :2], x[:, :2] ** 2, 1),
    "put_along_axis broadcast": lambda x: stored(x, np.put_along_axis, np.array([[1]]), x[0, 0] ** 2, 1),
    "put_along_axis flat": lambda x: stored(x, np.put_along_axis, np.array([7, 0]), x[0, :2] ** 2, None),
    "fill_diagonal": lambda x: stored(x, np.fill_diagonal, x[1, :3] ** 2),
    "fill_diagonal wrap": lambda x: stored(np.concatenate([x, x, x]), np.fill_diagonal, x[1] ** 2, wrap=True),
    "fill_diagonal tall": lambda x: stored(np.concatenate([x, x, x]), np.fill_diagonal, x[1, 0]),
    "fill_diagonal axes": lambda x: stored(np.reshape(x[:2], (2, 2, 2)), np.fill_diagonal, x[1, :2] ** 2),
    "trim_zeros": lambda x: np.trim_zeros(np.concatenate([np.zeros(2), x[0] ** 2, np.zeros(3), x[1], np.zeros(1)])),
    "trim_zeros front": lambda x: np.trim_zeros(np.concatenate([np.zeros(2), x[0] ** 2, np.zeros(3)]), "f"),
    "trim_zeros back": lambda x: np.trim_zeros(np.concatenate([np.zeros(2), x[0] ** 2, np.zeros(3)]), "b"),
    "cov weights": lambda x: np.cov(x, aweights=x[0] ** 2, fweights=[1, 2, 1, 3]),
    "cov weights of samples": lambda x: np.cov(x, aweights=[0.5, 1.0, 2.0, 1.5], ddof=0),
    "polyint constant": lambda x: np.polyint(x[0], k=x[1, 0]),
    "nanstd": lambda x: np.nanstd(np.where(x > 1, np.nan, x)),
    "vectorize": lambda x: np.vectorize(lambda v: v * v)(x),
}


def stored(x, fun, *args, **kwargs):
    """Return a copy of `x` into which a function has written."""
    y = np.copy(x, order="C")
    fun(y, *args, **kwargs)
    return y * np.reshape(np.arange(1.0, 1.0 + y.size), y.shape)


def filled(x):
    y = np.zeros(4)
    y.fill(x[1, 2])
    return y * np.arange(4.0)


@pytest.mark.parametrize("name", METHODS)
def test_methods_have_numpy_values_and_correct_derivatives(name):
    f = METHODS[name]
    x = np.random.default_rng(10).uniform(0.2, 2, (3, 4)) * np.array([1, -1, 1, -1.0])
    y, _, _ = assert_transpose(f, [x], np.random.default_rng(11))
    assert_same_bits(y, f(x))
    for other in (np.asfortranarray(x), x[::-1], x[:, ::-1], np.repeat(x, 2, axis=1)[:, ::2]):
        y, _, _ = assert_transpose(f, [other], np.random.default_rng(11))
        assert_same_bits(y, f(other))


LISTS = {
    "sum": lambda x: np.sum([x[0], x[1], 3.0]),
    "mean": lambda x: np.mean([x[0] * x[1], x[2]]),
    "max": lambda x: np.max([x[0], 1.0]) * np.min((x[1], x[2])),
    "prod": lambda x: np.prod([x[0], x[1]]),
    "std": lambda x: np.std([x[0], x[1], x[2]]),
    "norm": lambda x: np.linalg.norm([x[0], x[1]]),
    "dot": lambda x: np.dot([x[0], x[1]], [2, 3]),
    "dot of both": lambda x: np.dot([x[0], 1.0], [x[1], x[2]]),
    "det": lambda x: np.linalg.det([[x[0], 1], [2, x[1]]]),
    "solve": lambda x: np.linalg.solve([[x[0], 1], [0.5, x[1]]], [1.0, x[2]]),
    "inv": lambda x: np.linalg.inv([[x[0], 1], [0.5, x[1]]]),
    "array": lambda x: np.array([[x[0], x[1]], [x[2], 1.0]]) @ np.array([1, x[0]]),
    "asarray": lambda x: np.asarray((x[0], 2.0)) * x[1],
    "stack": lambda x: np.stack([x, 2 * x, np.ones(3)]),
    "concatenate": lambda x: np.concatenate([[x[0], 1.0], x, np.ones(2)]) ** 2,
    "hstack": lambda x: np.hstack([x[0], x, [1.0, x[1]]]) ** 2,
    "vstack": lambda x: np.vstack([x, [x[0], 1.0, 2.0]]) ** 2,
    "column_stack": lambda x: np.column_stack([x, [1.0, x[0], 2.0]]) ** 2,
    "append": lambda x: np.append([x[0], 2], x) ** 2,
    "diag": lambda x: np.diag([x[0], x[1]]) @ np.ones(2),
    "exp": lambda x: np.exp([x[0], x[1]]) * np.sin((x[2], 1.0)),
    "add": lambda x: np.add([x[0], x[1]], [1.0, x[2]]),
    "arctan2": lambda x: np.arctan2([x[0], x[1]], 2.0),
    "operator": lambda x: x + [1, 2, 3],
    "operator with traced": lambda x: x * [x[1], 2.0, x[0]],
    "matmul": lambda x: x @ [1, 2, 3] + [3, 2, 1] @ x,
    "where": lambda x: np.where([True, False], [x[0], x[1]], [x[2], 1.0]),
    "where with numbers": lambda x: np.where(x > 1, 0.0, x**2),
    "cross": lambda x: np.cross([x[0], 1, 2.0], [3.0, x[1], x[2]]),
    "outer": lambda x: np.outer([x[0], 1.0], [x[1], x[2]]),
    "einsum": lambda x: np.einsum("i,i", [x[0], 1.0], [x[1], x[2]]),
    "trapezoid": lambda x: np.trapezoid([x[0], x[1], x[2]], [0.0, 1.0, 3.0]),
    "cumsum": lambda x: np.cumsum([x[0], x[1], x[2]]) ** 2,
    "diff": lambda x: np.diff([x[0], x[1] ** 2, 1.0]),
    "clip": lambda x: np.clip([x[0], x[1]], 0.5, x[2]),
    "average": lambda x: np.average([x[0], 2.0], weights=[x[1], x[2]]),
    "reshape": lambda x: np.reshape([x[0], x[1], 1.0, 2.0], (2, 2)) @ [1.0, 2.0],
    "polyval": lambda x: np.polyval([x[0], x[1], 3.0], x[2]),
    "roll": lambda x: np.roll([x[0], x[1], 1.0], 1) * np.arange(3.0),
    "sort": lambda x: np.sort([x[0], x[1], x[2]]) * np.arange(3.0),
    "median": lambda x: np.median([x[0], x[1], x[2]]),
    "maximum": lambda x: np.maximum([x[0], 1.0], [x[1], x[2]]),
    "block": lambda x: np.block([[x, 1.0], [2 * x, x[0]]]) ** 2,
    "block of columns": lambda x: np.block([[x[:, None], x[:, None] ** 2]]),
    "full": lambda x: np.full(3, x[1]) * x,
    "full of a list": lambda x: np.full((2, 2), [x[0], x[1]]) ** 2,
    "linspace": lambda x: np.linspace(x[0], 3, 7) ** 2,
    "linspace of arrays": lambda x: np.linspace(x, [x[1], 2, x[0]], 4, endpoint=False, axis=1) ** 2,
    "linspace of one": lambda x: np.linspace(x[0], x[1], 1),
    "linspace with its step": lambda x: np.linspace(x[0], x[1], 5, retstep=True)[1] * x,
    "linspace of a type": lambda x: np.linspace(x[0], x[1], 5, dtype=x.dtype) ** 2,
    "linspace of no length": lambda x: np.linspace(x[0], x[0], 3) * x,
    "nan_to_num": lambda x: np.nan_to_num([x[0], nan]) * 2,
    "isclose": lambda x: x[0] * np.isclose([x[0], x[1]], 1.0).sum() + x[2],
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_of_traced_scalars_are_accepted_as_arrays(name):
    f = LISTS[name]
    x = np.array([1.3, 0.7, 2.1])
    y, pullback, ybar = assert_transpose(f, [x], np.random.default_rng(12))
    assert_same_bits(y, f(x))
    single = np.float32(x)
    y, single_pullback = wg.vjp(f, single)
    assert_same_bits(y, f(single))
    found = single_pullback(np.asarray(ybar, np.asarray(y).dtype))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, pullback(ybar)[0], rtol=1e-4, atol=1e-4)


OPTIONS = {
    "weights": lambda x: np.quantile([1.0, 2.0, 4.0], 0.5, weights=x, method="inverted_cdf"),
    "method": lambda x: np.power.accumulate(x),
}


def test_values_beyond_a_table_have_second_derivatives():
    f = lambda x: np.sum(np.interp([-1.0, 0.5, 9.0], [0.0, 1.0], [2.0, 3.0], left=x[0], right=x[1]) ** 2)
    for hessian in (wg.hessian(f), wg.jacobian(wg.grad(f)), wg.jacfwd(wg.jacfwd(f))):
        assert np.array_equal(hessian(np.array([1.0, 3.0])), [[2, 0], [0, 2]])


@pytest.mark.parametrize("name", OPTIONS)
def test_unsupported_option_raises_and_is_named(name):
    x = np.array([1.3, 0.7, 2.1])
    OPTIONS[name](x)
    with pytest.raises(UnsupportedFunctionError, match=rf"numpy\.\w+.*({name}|argument|rule)"):
        wg.vjp(OPTIONS[name], x)


def test_out_array_of_functions_receives_value_and_derivative():
    def f(x):
        F = np.zeros((4, 3))
        np.sum(x, axis=0, out=F[0])
        np.cumsum(x[0], out=F[1])
        np.dot(x[0, :2], x[:2], out=F[2]) if x.shape[0] == 2 else None
        np.clip(x[1], -0.5, 0.5, out=F[3])
        x.max(axis=0, out=F[3])
        return F

    x = np.random.default_rng(13).uniform(-2, 2, (2, 3))
    y, _, _ = assert_transpose(f, [x], np.random.default_rng(14))
    assert_same_bits(y, f(x))


def test_out_of_wrong_shape_raises():
    def f(x):
        F = np.zeros(4)
        return np.exp(x, out=F)

    with pytest.raises(ValueError, match=r"out= has shape \(4,\)|non-broadcastable|could not be broadcast"):
        wg.vjp(f, np.ones(3))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
@pytest.mark.parametrize(
    "name", "sum mean prod var std median nansum nanmean cumsum cumprod diff sort logaddexp.reduce".split()
)
def test_empty_arrays_have_empty_derivatives_of_the_right_shape(name, shape):
    fun = operator.attrgetter(name)(np)
    x = np.zeros(shape)
    if name == "diff" and shape[-1] == 0 and np.ndim(x) == 1:
        return
    for kwargs in ({}, {"axis": 0}, {"axis": -1}):
        y, pullback = wg.vjp(lambda x, kwargs=kwargs: fun(x, **kwargs), x)
        assert_same_bits(y, fun(x, **kwargs))
        assert pullback(np.ones(np.shape(y))).shape == shape
        assert pullback(np.ones((2, *np.shape(y)))).shape == (2, *shape)
        assert wg.jacobian(lambda x, kwargs=kwargs: fun(x, **kwargs), x).shape == np.shape(y) + shape


def test_writes_that_numpy_rejects_raise():
    for view in (np.diagonal, lambda x: np.broadcast_to(x, (2, 3, 3)), np.diag):

        def f(x, view=view):
            y = view(x * 1.0)
            y[...] = 0
            return np.sum(y)

        with pytest.raises(ValueError, match="read-only"):
            f(np.ones((3, 3)))
        with pytest.raises(ValueError, match="read-only"):
            wg.vjp(f, np.ones((3, 3)))


def test_element_writes_that_numpy_rejects_raise():
    def f(x):
        y = np.diagonal(np.outer(x, x))
        y[1] = x[0]
        return y

    for differentiate in (lambda f, x: f(x), wg.vjp, wg.record, lambda f, x: wg.jvp(f, x, x)):
        with pytest.raises(ValueError, match="read-only"):
            differentiate(f, np.ones(3))


def test_interp_with_unsorted_points_raises():
    f = lambda x, points: np.interp(x, np.array(points), np.array([1.0, 2.0, 4.0]))
    with pytest.raises(UnsupportedFunctionError, match=r"numpy\.interp has a derivative for increasing xp only"):
        wg.grad(f, 0.5, args=([0.0, 2.0, 1.0],))
    assert wg.grad(f, 1.5, args=([0.0, 1.0, 2.0],)) == 2.0
