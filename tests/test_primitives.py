"""Every row of the registry through the public drivers: values bit for bit, pullbacks, stacks, dtypes, memory.

`test_rules.py` compares the rows with mathematics; here the same tables pass through the engine.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from helpers import assert_same_bits
from primitive_cases import CALLS, COMPOSED, ELEMENTWISE, MOVES, Call, arr, call, drawn, holds_operand, resolve, val

import wengert as wg
from wengert.errors import TracedValueError, UnsupportedFunctionError

inf, nan = np.inf, np.nan

ALL = [*CALLS, *MOVES, *COMPOSED]


def identity(case):
    """Module and name of a case: two modules of NumPy have functions of one name."""
    module = getattr(case.fun, "__module__", None) or "numpy"
    return case.name if module == "numpy" else f"{module.removeprefix('numpy.')}.{case.name}"


every_case = pytest.mark.parametrize("case", ALL, ids=identity)


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


#: functions that NumPy calls without asking their operands: a name in a function's code is rebound, a field is not
CREATION = {np.full: wg.numpy.full, np.full_like: wg.numpy.full_like}

# ---- a call as a function of its operands


def leaves_of(given, args):
    """Operands of a call, in order; those in lists one by one."""
    found = []
    for wanted, value in zip(given, args, strict=True):
        if isinstance(wanted, list) and holds_operand(wanted):
            found += leaves_of(wanted, value)
        elif holds_operand(wanted):
            found.append(value)
    return found


def put_back(given, leaves):
    """Arguments of a call with `leaves`, an iterator, in the places of its operands."""
    made = []
    for wanted in given:
        if isinstance(wanted, list) and holds_operand(wanted):
            made.append(put_back(wanted, leaves))
        else:
            made.append(next(leaves) if holds_operand(wanted) else wanted)
    return made


def as_function(case):
    fun = CREATION.get(case.fun, case.fun)

    def f(*leaves):
        return fun(*put_back(case.args, iter(leaves)), **case.kwargs)

    return f


def numbers_for(case, seed=0):
    """Operands of a call; 0-d ones as NumPy scalars, as a function would have them."""
    return [x if np.ndim(x) else np.float64(x) for x in leaves_of(case.args, case.draw(seed))]


def vjp_of(f, leaves):
    return wg.vjp(f, leaves[0], args=tuple(leaves[1:]), argnums=tuple(range(len(leaves))))


def is_several(y):
    """Several results: a list or tuple of arrays."""
    return isinstance(y, (list, tuple))


def like(y, make):
    """A cotangent, or several, of the form of `y`."""
    return type(y)([like(part, make) for part in y]) if is_several(y) else np.asarray(make(np.shape(y)))


def paired(a, b):
    if is_several(a):
        return sum(paired(x, y) for x, y in zip(a, b, strict=True))
    return float(np.sum(np.where(np.equal(b, 0), 0, a) * b))


def combined(pieces, weights):
    """Weighted sum of results that may be several each."""
    if is_several(pieces[0]):
        return type(pieces[0])([combined(parts, weights) for parts in zip(*pieces)])
    total = sum(w * np.asarray(piece) for w, piece in zip(weights, pieces))
    return np.where(np.isfinite(total), total, 0)


def tangent(f, leaves, directions, h=2e-3):
    """Derivative along directions by central differences of fourth order."""
    pieces = [f(*(x + t * h * v for x, v in zip(leaves, directions))) for t in (1, -1, 2, -2)]
    return combined(pieces, [8 / (12 * h), -8 / (12 * h), -1 / (12 * h), 1 / (12 * h)])


def directions_for(leaves, rng):
    return [np.where(np.isfinite(x), rng.uniform(-1, 1, np.shape(x)), 0.0) for x in leaves]


def assert_transpose(f, leaves, rng, rtol=1e-8):
    """<ybar, J v> = <J^T ybar, v>, with J v by differences."""
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
def test_the_value_is_that_of_the_plain_call_and_the_pullback_is_the_transpose(case):
    f, leaves = as_function(case), numbers_for(case)
    y, pullback, ybar = assert_transpose(f, leaves, np.random.default_rng(3))
    assert_same_bits(y, f(*leaves))
    assert type(y) is type(f(*leaves))
    assert_same_bits(list(pullback(ybar)), list(pullback(ybar)), "called again")


def laid_out(x, layout):
    """The same numbers in another layout."""
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
    if layout == "broadcast":
        return np.broadcast_to(x[..., :1], x.shape) if x.size else x
    return x


LAYOUTS = ["negative strides", "Fortran order", "strided", "0-d arrays", "broadcast"]


@pytest.mark.parametrize("layout", LAYOUTS)
@every_case
def test_views_as_operands_change_neither_the_bits_nor_the_derivative(case, layout):
    leaves = numbers_for(case)
    if case.fun in (np.linalg.inv, np.linalg.solve, np.linalg.matrix_power) and layout == "broadcast":
        return  # singular
    f, views = as_function(case), [laid_out(x, layout) for x in leaves]
    contiguous = [np.array(x) if np.ndim(x) else x for x in views]
    y, pullback = vjp_of(f, views)
    assert_same_bits(y, f(*views))
    ybar = like(y, np.ones)
    expected = vjp_of(f, contiguous)[1](ybar)
    for got, wanted in zip(pullback(ybar), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12)


@every_case
def test_the_bits_are_those_of_the_plain_call_on_views_made_inside(case):
    """A view of a traced array, an intermediate array and an element of one are operands like any other."""
    leaves = numbers_for(case)
    plain = as_function(case)

    def f(*xs):
        return plain(*(np.transpose(x * 2.0)[::-1][::-1].T * 0.5 if np.ndim(x) else x * 2.0 * 0.5 for x in xs))

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
        return type(part)([row(p, j) for p in part]) if is_several(part) else part[j]

    together = pullback(stack)
    for j in range(3):
        for got, wanted, x in zip(together, pullback(row(stack, j)), leaves, strict=True):
            assert got.shape == (3, *np.shape(x))
            np.testing.assert_allclose(got[j], wanted, rtol=1e-12, atol=1e-13)


@every_case
def test_the_jacobian_has_the_pullbacks_of_the_unit_cotangents_as_its_rows(case):
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
    for x, got, wanted in zip(leaves, pullback(like(y, np.ones)), double, strict=True):
        assert got.dtype == np.float32
        # a cotangent of NaN is where the value is
        scale = np.max(np.abs(wanted), initial=1.0, where=np.isfinite(wanted))
        np.testing.assert_allclose(got, wanted, rtol=1e-3, atol=1e-4 * scale)


@every_case
def test_the_gradient_of_a_number_that_depends_on_the_call_is_its_pullback(case):
    """Weighted and summed inside: the way in which most functions are used."""
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


# ---- memory: what is kept, and what is shared


def spoilt(x):
    """Overwrite every floating array in an argument."""
    if isinstance(x, list):
        for item in x:
            spoilt(item)
    elif isinstance(x, np.ndarray):
        x[...] = 0 if x.dtype.kind != "f" else 77.0


@every_case
def test_constants_that_change_after_the_call_do_not_change_the_pullback(case):
    """One operand is traced at a time; all other arrays are overwritten behind the call."""
    leaves = numbers_for(case)
    positions = range(len(leaves))
    both = vjp_of(as_function(case), leaves)[1](like(as_function(case)(*leaves), np.ones))
    for i in positions:

        def f(x, i=i):
            mine = [x if k == i else np.array(leaf) if np.ndim(leaf) else leaf for k, leaf in enumerate(leaves)]
            given = put_back([np.array(a) if isinstance(a, np.ndarray) else a for a in case.args], iter(mine))
            y = case.fun(*given, **case.kwargs)
            spoilt([a for a in given if not holds_traced(a)])
            spoilt([a for k, a in enumerate(mine) if k != i])
            return y

        y, pullback = wg.vjp(f, leaves[i])
        np.testing.assert_allclose(pullback(like(y, np.ones)), both[i], rtol=1e-12, atol=1e-13)


def holds_traced(a):
    return any(map(holds_traced, a)) if isinstance(a, list) else type(a).__module__.startswith("wengert")


def as_list(y):
    return list(y) if is_several(y) else [y]


@every_case
def test_results_share_memory_with_operands_as_in_numpy(case):
    """Writing into the result reaches the operand where NumPy returns a view, and nowhere else; and the reverse."""
    leaves = [np.array(x) for x in numbers_for(case)]
    plain = as_function(case)

    def writes_into_result(*xs):
        xs = [x * 1.0 if np.ndim(x) else x for x in xs]
        y = as_list(plain(*xs))
        for part in y:
            if np.ndim(part) and np.size(part) and np.asarray(wg.stop_gradient(part)).flags.writeable:
                part[...] = part * 3.0
        return [np.sum(x * x) for x in xs] + [np.sum(part) for part in y]

    def writes_into_operand(*xs):
        xs = [x * 1.0 if np.ndim(x) else x for x in xs]
        y = as_list(plain(*xs))
        for x in xs:
            if np.ndim(x):
                x[...] = x * x
        return [np.sum(part * part) for part in y] + [np.sum(x) for x in xs]

    if any(np.ndim(part) and not np.asarray(part).flags.writeable for part in as_list(plain(*leaves))):
        return  # NumPy refuses to write there: a test of its own
    for f in (writes_into_result, writes_into_operand):
        finite = [np.where(np.isfinite(x), x, 0.5) for x in leaves]
        expected = np.array(f(*finite))
        y, pullback = vjp_of(f, finite)
        np.testing.assert_array_equal(y, expected)
        rng = np.random.default_rng(7)
        v, ybar = directions_for(finite, rng), rng.uniform(-1, 1, np.shape(y))
        moved = tangent(lambda *xs: np.array(f(*xs)), finite, v, h=1e-3)
        np.testing.assert_allclose(paired(pullback(ybar), v), paired(moved, ybar), rtol=2e-7, atol=1e-7)
