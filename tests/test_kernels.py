"""C kernels against the rules that they speed up: the same partials for scalars on the tape and in array loops."""

from __future__ import annotations

import ctypes
import importlib
import operator

import mpmath as mp
import numpy as np
import pytest
from wengert.core.tape.tape import kernel_partials, kernel_rows

import wengert as wg
import wengert.rules
from helpers import assert_same_bits
from primitive_cases import ELEMENTWISE
from wengert import registry
from wengert.core.tape import tape

inf, nan = np.inf, np.nan
READS_A, READS_B, READS_Y = 1, 2, 4
EPS = np.finfo(float).eps
TINY = np.finfo(float).tiny

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 3.0, inf, -inf, nan]
EXTREME = [5e-324, 1e-310, TINY, 1e-200, 1e-9, 1 - EPS, 1 + EPS, 30.0, 700.0, 1e8, 1e200, np.finfo(float).max]
POINTS = np.array([*SPECIAL, *EXTREME, *(-x for x in EXTREME)])


def drawn(n, seed):
    """Draw values of both signs: half near 1, half over many decades."""
    rng = np.random.default_rng(seed)
    x = np.where(np.arange(n) % 2, rng.uniform(-1, 1, n), np.exp(rng.uniform(-30, 30, n)))
    return x * rng.choice([-1.0, 1.0], n)


def resolved(name):
    """Return the function of a row of ``kernels.h``; the operator ``**`` on scalars has the rule of np.power."""
    module, _, attribute = (name or "power").rpartition(".")
    return getattr(importlib.import_module(module or "numpy"), attribute)


ROWS = [pytest.param(*row, id=row[0] or "**") for row in kernel_rows()]
ROUNDING = "wengert.core.tape.kernel.single"
TABLE = {resolved(row[0]): row for row in kernel_rows() if row[0]}


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


def by_rule(fun, side, operands):
    """Evaluate the partial of the registry's rule as the engine does."""
    partial = registry.lookup(fun).partials[side]
    y = fun(*operands)
    return np.broadcast_to(
        np.asarray(partial(y, *operands) if callable(partial) else partial, float), np.shape(y)
    )


def ulp_apart(one, other):
    """Return the distance in units of the last place; below the smallest normal, in units of that number."""
    one, other = np.asarray(one, float), np.asarray(other, float)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    unit = np.spacing(np.maximum(np.abs(other), TINY))
    return np.where(same, 0.0, np.abs(one - other) / unit)


def assert_near(fun, got, expected, operands, ulp=8):
    apart = ulp_apart(got, expected)
    apart = np.where(has_a_sign(fun, operands), np.where(np.isnan(apart), inf, apart), 0.0)
    worst = int(np.argmax(apart))
    at = tuple(float(x[worst]) for x in operands)
    assert apart.max() <= ulp, (
        f"at {at}: {got[worst]!r}, the rule has {expected[worst]!r}, {apart.max():.3g} ulp"
    )


def operands_of(arity):
    if arity == 1:
        return (np.concatenate([POINTS, drawn(2000, 1)]),)
    a, b = (grid.ravel() for grid in np.meshgrid(POINTS, POINTS))
    near = drawn(2000, 2), drawn(2000, 3)
    small = np.random.default_rng(4).uniform(-4, 4, (2, 2000))
    whole = np.abs(drawn(500, 5)), np.random.default_rng(6).integers(-5, 6, 500).astype(float)
    ties = np.repeat(drawn(20, 7), 2).reshape(20, 2).T
    return tuple(np.concatenate([*parts]) for parts in zip((a, b), near, np.abs(small), small, whole, ties))


def has_a_sign(fun, operands):
    """Return where the partial has a sign: beyond 2**53 every exponent is even, and so is b - 1 after rounding."""
    return (
        (operands[0] >= 0) | (np.abs(operands[1]) < 2.0**53)
        if fun is np.power
        else np.full(operands[0].shape, True)
    )


@pytest.mark.parametrize(("name", "opcode", "arity", "reads_a", "reads_b"), ROWS)
def test_kernel_has_the_partials_of_its_rule(name, opcode, arity, reads_a, reads_b):
    fun = resolved(name)
    operands = operands_of(arity)
    y = fun(*operands)
    pairs = [
        kernel_partials(opcode, x[0], x[1] if arity == 2 else 0.0, v)
        for *x, v in zip(*operands, y, strict=True)
    ]
    for side in range(arity):
        got = np.array([pair[side] for pair in pairs])
        assert_near(fun, got, by_rule(fun, side, operands), operands)


@pytest.mark.parametrize(("name", "opcode", "arity", "reads_a", "reads_b"), ROWS)
def test_rule_reads_only_what_its_kernel_reads(name, opcode, arity, reads_a, reads_b):
    """The engine passes None for values that it did not save."""
    fun = resolved(name)
    operands = [np.array([0.3, 0.7]), np.array([0.9, 0.2])][:arity]
    for side, reads in enumerate((reads_a, reads_b)[:arity]):
        partial = registry.lookup(fun).partials[side]
        if callable(partial):
            kept = [x if reads & bit else None for x, bit in zip(operands, (READS_A, READS_B))]
            y = fun(*operands)
            np.testing.assert_array_equal(
                partial(y if reads & READS_Y else None, *kept), partial(y, *operands)
            )
        else:
            assert reads == 0


@pytest.mark.parametrize(("name", "opcode", "arity", "reads_a", "reads_b"), ROWS)
def test_kernel_reads_only_what_its_row_declares(name, opcode, arity, reads_a, reads_b):
    a, b = (0.3, 0.9) if arity == 2 else (0.3, 0.0)
    y = float(resolved(name)(*(a, b)[:arity]))
    for side, reads in enumerate((reads_a, reads_b)[:arity]):
        blind = kernel_partials(
            opcode, a if reads & 1 else nan, b if reads & 2 else nan, y if reads & 4 else nan
        )
        np.testing.assert_equal(blind[side], kernel_partials(opcode, a, b, y)[side])


# ---- second partials: by a, mixed, by b

TEXTBOOK = {case.name: case for case in ELEMENTWISE}


def textbook(name):
    return TEXTBOOK[(name or "power").rpartition(".")[2]]


def second_partials(name, *at):
    """Return the second derivatives of a row on scalars: by a, mixed, by b."""
    fun = resolved(name) if name else operator.pow
    return wg.hessian(lambda x: fun(*x), np.array(at))[np.triu_indices(len(at))]


def slope_of(partial, at, side):
    """Return the derivative of a partial in one operand to 30 digits; the step is relative to that operand."""
    x = at[side]
    h = abs(x) * mp.mpf(10) ** -30 or mp.mpf(10) ** -30

    def moved(t):
        return partial(*(x + t * h if i == side else z for i, z in enumerate(at)))

    return (moved(1) - moved(-1)) / (2 * h)


@pytest.mark.parametrize(("name", "opcode", "arity", "reads_a", "reads_b"), [row for row in ROWS if row.id != ROUNDING])
def test_second_partial_is_accurate(name, opcode, arity, reads_a, reads_b):
    case = textbook(name)
    n = max(len(x) for x in case.at)
    operands = np.stack([np.resize(x, n) for x in case.at])
    values = resolved(name)(*operands)
    with mp.workdps(1300):
        for at, y in zip(operands.T.tolist()[::5], values.tolist()[::5]):
            found = second_partials(name, *at)
            exact_at = [mp.mpf(x) for x in at]
            for got, (i, side) in zip(found, [(0, 0), (0, 1), (1, 1)] if arity == 2 else [(0, 0)]):
                if is_kink(name, at):
                    continue
                exact = slope_of(case.partials[i], exact_at, side)
                # y is rounded, so where a sum of two terms cancels the error is relative to the terms
                allowed = 40 * EPS * abs(exact) + 1e-290 + 8 * EPS * terms(name, i, side, exact_at)
                if abs(exact) < 1e290 and np.isfinite(y) and (y == 0 or abs(y) > 1e-290):
                    assert abs(got - exact) <= allowed, f"{(i, side)} at {at}: {got}, exactly {float(exact)}"


def is_kink(name, at):
    """Return where the partial jumps or has no derivative; the rule's values there are tested below."""
    if name in ("absolute", "fabs", "sqrt", "cbrt", "hypot") and at[0] == 0:
        return True
    return (name in ("maximum", "minimum", "fmax", "fmin") and at[0] == at[1]) or at[0] in (1.0, -1.0) or (
        name in ("", "power") and at[0] == 0
    )


def terms(name, i, side, at):
    """Return the size of the terms summed in the mixed partial of a power: a**(b - 1) (1 + b log a)."""
    if name in ("", "power") and i != side and at[0] > 0:
        return abs(at[0] ** (at[1] - 1)) * (1 + abs(at[1] * mp.log(at[0])))
    return 0


@pytest.mark.parametrize(
    ("name", "a", "b", "expected"),
    [
        ("absolute", 0.0, None, (0,)),
        ("maximum", 1.0, 1.0, (0, 0, 0)),
        ("fmin", 2.0, 2.0, (0, 0, 0)),
        ("hypot", 0.0, 0.0, (0, 0, 0)),
        ("power", 0.0, 0.0, (0, inf, inf)),
        ("power", 3.0, 0.0, (0, 1 / 3, np.log(3.0) ** 2)),
        ("power", 0.0, 1.0, (0, -inf, 0)),
        ("power", -3.0, 1.0, (0, nan, nan)),
        ("power", 0.0, 2.0, (2, 0, 0)),
        ("power", -3.0, 2.0, (2, nan, nan)),
        ("power", 0.0, 3.0, (0, 0, 0)),
        ("power", 0.0, 1.5, (inf, 0, 0)),
        ("power", -2.0, 3.0, (-12, nan, nan)),
        ("power", 1e-200, 3.0, (6e-200, 0, 0)),
        ("sqrt", 0.0, None, (-inf,)),
        ("arctan", inf, None, (0,)),
        ("arcsinh", -inf, None, (0,)),
        ("arccosh", inf, None, (0,)),
        ("scipy.special.erf", inf, None, (0,)),
        ("scipy.special.erf", nan, None, (nan,)),
        ("scipy.special.expit", -800.0, None, (0,)),
        ("tanh", 0.0, None, (0,)),
        ("exp", -inf, None, (0,)),
    ],
)
def test_second_partials_are_exact_at_special_points(name, a, b, expected):
    at = (a,) if b is None else (a, b)
    np.testing.assert_allclose(second_partials(name, *at), expected, rtol=1e-15)


@pytest.mark.parametrize(("name", "opcode", "arity", "reads_a", "reads_b"), ROWS)
def test_second_partials_of_arrays_survive_stores_into_operands_and_result(name, opcode, arity, reads_a, reads_b):
    """They read only what the entry saves for its first partials, and equal those of scalars."""
    fun = resolved(name)
    a, b, _ = inside(fun, 7)
    at = np.stack([a, b][:arity])

    def overwritten(x):
        operands = [z * 1.0 for z in x]
        y = fun(*operands)
        total = np.sum(y)
        for z in (*operands, y):
            z[...] = nan
        return total

    found = np.diagonal(wg.hessian(overwritten, at), axis1=1, axis2=3)
    for i, point in enumerate(at.T):
        expected = second_partials(name, *point)
        np.testing.assert_allclose(found[..., i][np.triu_indices(arity)], expected, rtol=8 * EPS)


def test_every_kernel_has_an_elementwise_rule_of_same_arity():
    for name, _, arity, _, _ in kernel_rows():
        row = registry.lookup(resolved(name))
        assert row.kind == "elementwise"
        assert len(row.partials) == arity


# ---- paths through the engine: the same derivative, whichever loop computes it

IN_NUMPY = [pytest.param(fun, row[2], id=row[0]) for fun, row in TABLE.items() if "." not in row[0]]
SIZES = (1, 5, 300, 5000)


def inside(fun, n, seed=0):
    """Draw operands within the domain of every function, so that no value is NaN."""
    low, high = {np.arccosh: (1.1, 4.0), np.arctanh: (-0.9, 0.9)}.get(fun, (-0.9, 0.9))
    if fun in (np.log, np.log2, np.log10, np.sqrt, np.power):
        low, high = 0.1, 4.0
    rng = np.random.default_rng(seed)
    return rng.uniform(low, high, n), rng.uniform(0.2, 3.0, n), rng.uniform(-1, 1, n)


def tolerance(got, expected, ulp=16):
    scale = np.maximum(np.abs(expected), TINY)
    np.testing.assert_array_less(np.abs(got - expected), ulp * EPS * scale + TINY)


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize(("fun", "arity"), IN_NUMPY)
def test_arrays_have_derivative_of_the_rule_in_every_layout(fun, arity, n):
    a, b, ybar = inside(fun, n)
    operands = (a, b)[:arity]
    slopes = [ybar * by_rule(fun, side, operands) for side in range(arity)]

    def pulled(f, *at, **kwargs):
        y, pullback = wg.vjp(f, at[0], args=at[1:], argnums=tuple(range(len(at))), **kwargs)
        return y, pullback(ybar.reshape(np.shape(y)))

    def spread(x):
        wide = np.empty(2 * n)
        wide[::2] = x
        return wide[::2]

    layouts = {"contiguous": operands, "strided": tuple(map(spread, operands))}
    for layout, at in layouts.items():
        y, found = pulled(lambda *x: fun(*x), *at)
        assert_same_bits(y, fun(*at), layout)
        for got, expected in zip(found, slopes):
            tolerance(got, expected)


@pytest.mark.parametrize(("fun", "arity"), IN_NUMPY)
def test_loop_over_scalars_has_derivative_of_the_array(fun, arity):
    a, b, ybar = inside(fun, 7)
    operands = (a, b)[:arity]

    def loop(*x):
        return [fun(*(z[i] for z in x)) for i in range(7)]

    wrt = tuple(range(arity))
    y, pullback = wg.vjp(lambda *x: fun(*x), a, args=operands[1:], argnums=wrt)
    z, loop_pullback = wg.vjp(loop, a, args=operands[1:], argnums=wrt)
    np.testing.assert_array_equal(y, z) if fun not in (np.power,) else np.testing.assert_allclose(
        y, z, rtol=EPS
    )
    for got, expected in zip(loop_pullback(ybar), pullback(ybar)):
        tolerance(got, expected)


BINARY = [pytest.param(fun, id=row[0]) for fun, row in TABLE.items() if row[2] == 2]


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("fun", BINARY)
def test_array_with_scalar_has_derivative_of_two_arrays(fun, n):
    a, _, ybar = inside(fun, n)
    for number in (1.7, 2.0, 3.0):
        whole = np.full(n, number)
        forms = {
            "float on the right": (lambda x: fun(x, number), 0, (a, whole)),
            "float on the left": (lambda x: fun(number, x), 1, (whole, a)),
            "float64 on the right": (lambda x: fun(x, np.float64(number)), 0, (a, whole)),
            "array on the right": (lambda x: fun(x, whole), 0, (a, whole)),
            "array on the left": (lambda x: fun(whole, x), 1, (whole, a)),
            "row on the right": (lambda x: fun(x, whole[:1]), 0, (a, whole)),
            "0-d on the right": (lambda x: fun(x, np.array(number)), 0, (a, whole)),
        }
        for form, (f, side, operands) in forms.items():
            y, pullback = wg.vjp(f, a)
            assert_same_bits(y, f(a), form)
            tolerance(pullback(ybar), ybar * by_rule(fun, side, operands))
            stacked = pullback(np.stack([ybar, 2 * ybar, 0 * ybar]))
            assert_same_bits(stacked[0], pullback(ybar), form)
            assert_same_bits(stacked[1], pullback(2 * ybar), form)
            assert not stacked[2].any()


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("fun", BINARY)
def test_traced_scalar_with_array_receives_summed_cotangent(fun, n):
    a, b, ybar = inside(fun, n)
    for side in (0, 1):
        at = np.float64(1.3)
        whole = np.full(n, at)
        operands = (a, whole) if side else (whole, b)

        def f(c, x):
            return fun(x, c) if side else fun(c, x)

        y, pullback = wg.vjp(f, at, args=(operands[1 - side],))
        assert_same_bits(y, f(at, operands[1 - side]))
        terms = ybar * by_rule(fun, side, operands)
        np.testing.assert_allclose(pullback(ybar), terms.sum(), rtol=1e-12, atol=1e-13 * np.abs(terms).sum())
        both = wg.vjp(f, at, args=(operands[1 - side],), argnums=(0, 1))[1](ybar)
        assert_same_bits(both[0], pullback(ybar))
        tolerance(both[1], ybar * by_rule(fun, 1 - side, operands))


@pytest.mark.parametrize("fun", BINARY)
def test_same_array_as_both_operands_receives_both_cotangents(fun):
    for n in SIZES:
        a, _, ybar = inside(fun, n)
        a = np.abs(a) + 0.1
        _, pullback = wg.vjp(lambda x: fun(x, x), a)
        both = [ybar * by_rule(fun, side, (a, a)) for side in (0, 1)]
        np.testing.assert_allclose(pullback(ybar), both[0] + both[1], rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize(("fun", "arity"), IN_NUMPY)
def test_special_points_have_same_derivative_for_scalars_and_arrays(fun, arity):
    """With cotangents 1, NaN, infinities and both zeros are treated the same in every loop."""
    operands = operands_of(arity)
    if arity == 2:
        operands = tuple(x[: POINTS.size**2] for x in operands)
    n = operands[0].size
    wrt = tuple(range(arity))
    ones = np.ones(n)
    short = tuple(x[: POINTS.size] for x in operands)

    def gradients(f, at, ybar):
        return wg.vjp(f, at[0], args=at[1:], argnums=wrt)[1](ybar)

    long_way = gradients(lambda *x: fun(*x), operands, ones)
    # after another operation the adjoint exists already: it is added to, not written
    added = gradients(
        lambda *x: fun(*x) + sum(0.0 * np.where(np.isfinite(z), z, 0) for z in x), operands, ones
    )
    in_list = gradients(
        lambda *x: [fun(*(z[i] for z in x)) for i in range(short[0].size)], short, ones[: short[0].size]
    )
    brief = gradients(lambda *x: fun(*x), short, ones[: short[0].size])
    for side in range(arity):
        expected = by_rule(fun, side, operands)
        assert_near(fun, long_way[side], expected, operands)
        assert_near(fun, added[side], expected, operands)
        assert_near(fun, in_list[side], expected[: short[0].size], short)
        assert_near(fun, brief[side], expected[: short[0].size], short)


@pytest.mark.parametrize(("fun", "arity"), IN_NUMPY)
def test_zero_cotangent_times_any_partial_is_zero(fun, arity):
    operands = tuple(x[: POINTS.size**2] for x in operands_of(arity))
    for at in (operands, tuple(x[:20] for x in operands), tuple(np.repeat(x, 2)[::2] for x in operands)):
        # half of the cotangents are 1, so that no loop is skipped entirely
        ybar = np.arange(at[0].size) % 2.0
        _, pullback = wg.vjp(lambda *x: fun(*x), at[0], args=at[1:], argnums=tuple(range(arity)))
        for adjoint in pullback(ybar):
            assert not adjoint[::2].any()


def shared_in_c(name, *kinds):
    """Return a function of `wengert.core.tape.tape` that other extension modules call."""
    of = ctypes.pythonapi
    of.PyCapsule_GetName.restype, of.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    of.PyCapsule_GetPointer.restype = ctypes.c_void_p
    of.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = tape.__pyx_capi__[name]
    return ctypes.PYFUNCTYPE(ctypes.c_int, *kinds)(of.PyCapsule_GetPointer(capsule, of.PyCapsule_GetName(capsule)))


def test_bits_do_not_depend_on_memory_alignment():
    """Vector loops and scalar remainders round differently: addresses must not decide between them."""
    times_partial = shared_in_c("times_partial", *[ctypes.c_int] * 4, ctypes.c_ssize_t, *[ctypes.c_void_p] * 5)
    memory = np.zeros(100)
    for name, opcode, operands, *_ in kernel_rows():
        for n in (3, 5, 9) if operands == 1 else ():
            a, g, seen = memory[20 : 20 + n], np.cos(np.arange(n) + 0.3), set()
            for place in (0, *range(20 - n - 8, 20 - n), *range(20 + n, 20 + n + 8), 80):
                a[:], out = np.linspace(0.2, 0.9, n), memory[place : place + n]
                times_partial(0, opcode, 0, 0, n, *[z.ctypes.data for z in (g, a, a, a, out)])
                seen.add(out.tobytes())
            assert len(seen) == 1, (name, n)
