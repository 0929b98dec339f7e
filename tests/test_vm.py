"""The VM against NumPy, on hand-written and random code."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wengert.core.tape.tape import kernel_partials, kernel_rows
from wengert.program.ir.opcodes import Op
from wengert.program.vm.machine import Machine, schedule

import wengert as wg
from helpers import assert_same_bits, in_threads
from test_kernels import POINTS, ROWS, drawn, inside, resolved, ulp_apart
from wengert.errors import GuardError
from wengert.program.ir.call import Call, Operand

ROW = {name: opcode for name, opcode, *_ in kernel_rows()}
ROW["**"] = ROW.pop("")
PARTS = {name: arity for name, _, arity, *_ in kernel_rows()}
FLOAT, BOOL = 0, 1
COSTLY = {"sinh", "cosh", "arcsinh", "power"}     # their sweep uses the rule's lambda for long arrays
EPS = np.finfo(float).eps


class Listing:
    """Instruction columns and tables in the layout that the VM reads; `add` returns the id of a value."""

    def __init__(self):
        self.rows = []
        self.types = [(np.dtype(float), (), None), (np.dtype(bool), (), None)]
        self.constants, self.arrays, self.calls, self.views, self.packs, self.guards = ([] for _ in range(6))
        self.inputs, self.outputs = [], []

    op, a, b, c, type = (
        property(lambda self, k=k, kind=kind: np.array([row[k] for row in self.rows], kind))
        for k, kind in enumerate([np.int16] + 4 * [np.int32])
    )

    def kind(self, *shape, dtype=float, strides=None):
        kind = np.dtype(dtype), shape, strides
        if kind not in self.types[2:]:
            self.types.append(kind)
        return self.types.index(kind, 2)

    def add(self, op, a=-1, b=-1, c=-1, type=FLOAT):
        self.rows.append((ROW[op] if isinstance(op, str) else op, a, b, c, type))
        return len(self.rows) - 1

    def input(self, type=FLOAT):
        self.inputs.append(self.add(Op.INPUT, len(self.inputs), type=type))
        return self.inputs[-1]

    def const(self, x):
        self.constants.append(float(x))
        return self.add(Op.CONST, len(self.constants) - 1)

    def array(self, x):
        self.arrays.append(x)
        return self.add(Op.ARRAY, len(self.arrays) - 1, type=self.kind(*x.shape, dtype=x.dtype))

    def table(self, op, table, entry, a, c=-1, type=FLOAT):
        table.append(entry)
        return self.add(op, a, len(table) - 1, c, type)

    def view(self, base, offset, shape, strides):
        dtype = self.types[self.rows[base][4]][0]
        kind = self.kind(*shape, dtype=dtype, strides=strides)
        return self.table(Op.VIEW, self.views, (offset, shape, strides), base, type=kind)

    def place(self, base, offset, shape, strides, value):
        return self.table(Op.PLACE, self.views, (offset, shape, strides), base, value, self.rows[base][4])

    def pack(self, base, offsets, values, type):
        entry = np.array(offsets, np.int32), np.array(values, np.int32)
        return self.table(Op.PACK, self.packs, entry, base, type=type)

    def guard(self, value, expected):
        return self.table(Op.GUARD, self.guards, (expected, "f.py:3"), value)

    def call(self, compute, args, operands, type=FLOAT, **kwargs):
        self.calls.append(Call(compute, args, kwargs, tuple(operands)))
        return self.add(Op.CALL, len(self.calls) - 1, type=type)

    def run(self, outputs, *inputs, exact=False, out=None):
        self.outputs = list(outputs)
        machine = Machine(self, exact)
        first = machine.run(inputs, out)
        for one, other in zip(machine.run(inputs), first):      # a second run is independent of the first
            np.testing.assert_array_equal(one, other, strict=True)
        return first


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


# ---- opcodes


def domain(arity, seed=1):
    if arity == 1:
        return (np.concatenate([POINTS, drawn(3000, seed)]),)
    a, b = (grid.ravel() for grid in np.meshgrid(POINTS, POINTS))
    x, y = drawn(3000, seed), drawn(3000, seed + 1)
    return np.concatenate([a, x, np.abs(x)]), np.concatenate([b, y, y])


@pytest.mark.parametrize(("name", "opcode", "arity", "reads_a", "reads_b"), ROWS)
def test_value_of_opcode_equals_its_function(name, opcode, arity, reads_a, reads_b):
    operands = domain(arity)
    listing = Listing()
    t = listing.kind(operands[0].size)
    (y,) = listing.run([listing.add(opcode, *[listing.input(t) for _ in operands], type=t)], *operands)
    apart = ulp_apart(y, resolved(name)(*operands))
    worst = int(np.argmax(np.where(np.isnan(apart), np.inf, apart)))
    assert apart[worst] <= 4, [float(x[worst]) for x in operands]


@pytest.mark.parametrize(("name", "opcode", "arity", "reads_a", "reads_b"), ROWS)
def test_opcode_on_scalars_and_arrays_equals_its_function(name, opcode, arity, reads_a, reads_b):
    operands = [x[::7].copy() for x in domain(arity)]
    expected = resolved(name)(*operands)
    n = expected.size
    for exact in (False, True):
        listing = Listing()
        t = listing.kind(n)
        arrays = [listing.input(t) for _ in operands]
        whole = listing.add(opcode, *arrays, type=t)
        forms = [(whole, operands)]
        if arity == 2:
            three = listing.const(3.0)
            forms.append((listing.add(opcode, arrays[0], three, type=t), (operands[0], 3.0)))
            forms.append((listing.add(opcode, three, arrays[1], type=t), (3.0, operands[1])))
        numbers = []
        for i in range(n):
            elements = [listing.add(Op.LOAD, array, i) for array in arrays]
            numbers.append(listing.add(opcode, *elements))
        packed = listing.pack(-1, range(n), numbers, t)
        *found, by_number = listing.run([value for value, _ in forms] + [packed], *operands, exact=exact)
        for y, (_, at) in zip(found, forms):
            check(y, at[0] ** at[1] if name == "" else resolved(name)(*at), exact)
        one = np.array([
            np.float64(x[0]) ** np.float64(x[1]) if name == "" else resolved(name)(*x) for x in zip(*operands)
        ])
        check(by_number, one, exact)


def check(got, expected, exact):
    if exact:
        np.testing.assert_array_equal(got, expected)
    else:
        assert ulp_apart(got, expected).max() <= 4


STRONG = ("strong", lambda a, b: np.where((a == 0.0) | (b == 0.0), 0.0, a * b))
PAIRED = [("add", np.add), ("subtract", np.subtract), ("multiply", np.multiply), STRONG]


@pytest.mark.parametrize(("first", "value"), PAIRED, ids=[name for name, _ in PAIRED])
@pytest.mark.parametrize(("second", "result"), PAIRED, ids=[name for name, _ in PAIRED])
def test_pairs_of_operations_have_the_bits_of_two(first, value, second, result):
    """An operation and the only one that reads its result, with arrays and scalars in all places."""
    x = [np.resize(np.array([0.0, -0.0, 1.5, -2.0, math.inf, math.nan, 1e-310, 3.0]), 1200) for k in range(3)]
    x = [array[k * (k + 2) // 2 :][:1100] * (1.0 + k // 2) for k, array in enumerate(x)]
    for scalars in range(7):
        for side in range(2):
            listing = Listing()
            t = listing.kind(1100)
            given = [3.0 - k if scalars >> k & 1 else array for k, array in enumerate(x)]
            a, b, z = [listing.const(y) if np.ndim(y) == 0 else listing.input(t) for y in given]
            if scalars & 3 == 3:
                continue
            opcode = [Op.STRONG if word == "strong" else ROW[word] for word in (first, second)]
            between = listing.add(opcode[0], a, b, type=t)
            after = listing.add(opcode[1], *((z, between) if side else (between, z)), type=t)
            (found,) = listing.run([after], *[y for y in given if np.ndim(y)])
            expected = value(given[0], given[1])
            expected = result(given[2], expected) if side else result(expected, given[2])
            np.testing.assert_array_equal(found, expected)
            finite = ~np.isnan(expected)
            np.testing.assert_array_equal(np.signbit(found)[finite], np.signbit(expected)[finite])


@pytest.mark.parametrize("divisor", [3.0, -7e-3, 1e-310, 1e305, -1e308, 0.0, math.inf, math.nan])
def test_partial_of_a_quotient_in_a_divisor_of_rows(divisor):
    """The same as with a divisor for each element, to rounding."""
    y = np.array([[0.0, 1.0, -2.5, 1e-300, 1e10]]) * np.ones((4, 1))

    def partial(b, y):
        listing = Listing()
        t = listing.kind(*y.shape)
        given = listing.input(listing.kind(*b.shape))
        strides = 8 if b.shape[0] > 1 else 0, 8 if b.shape[1] > 1 else 0
        shown = given if b.shape == y.shape else listing.view(given, 0, y.shape, strides)
        out = listing.add(Op.PARTIAL + 2 * ROW["divide"] + 1, -1, shown, listing.input(t), type=t)
        return listing.run([out], b, y)[0]

    found = partial(np.full((4, 1), divisor), y)
    np.testing.assert_allclose(found, partial(np.full(y.shape, divisor), y), rtol=2.0 * EPS, atol=0.0)


@pytest.mark.parametrize(("name", "opcode", "arity", "reads_a", "reads_b"), ROWS)
def test_partials_equal_eager_sweep(name, opcode, arity, reads_a, reads_b):
    """Scalars use `kernel_partials`; arrays in exact mode are bit-identical to the sweep's loop."""
    n = 700 + 13
    a, b, _ = inside(resolved(name), n)
    operands = (a, b)[:arity]
    y = resolved(name)(*operands)
    for exact in (False, True):
        listing = Listing()
        t = listing.kind(n)
        arrays = [listing.input(t) for _ in range(3)]
        wholes, singles = [], []
        for side, reads in enumerate((reads_a, reads_b)[:arity]):
            used = [array if reads & bit else -1 for array, bit in zip(arrays, (1, 2, 4))]
            if any(array >= 0 for array in used):
                wholes.append((side, listing.add(Op.PARTIAL + 2 * opcode + side, *used, type=t)))
            elements = [listing.add(Op.LOAD, array, 5) if array >= 0 else -1 for array in used]
            singles.append((side, listing.add(Op.PARTIAL + 2 * opcode + side, *elements)))
        found = listing.run([v for _, v in wholes + singles], a, b, y, exact=exact)
        at_five = kernel_partials(opcode, a[5], b[5], y[5])
        for (side, _), got in zip(wholes + singles, found):
            if np.ndim(got) == 0:
                assert got == at_five[side]
            elif exact and name:
                _, pullback = wg.vjp(lambda *x: resolved(name)(*x), a, args=operands[1:], argnums=tuple(range(arity)))
                if name not in COSTLY and "." not in name:
                    assert_same_bits(got, pullback(np.ones(n))[side])
            else:
                expected = [kernel_partials(opcode, *at)[side] for at in zip(a, b, y)]
                np.testing.assert_array_less(ulp_apart(got, expected), 16)


@pytest.mark.parametrize("power", [1.0, 2.0, 3.0, 4.0, 0.5, -1.0, 2.5, -2.0])
@pytest.mark.parametrize("name", ["**", "power"])
def test_constant_powers_are_accurate(name, power):
    x = domain(1)[0]
    listing = Listing()
    t = listing.kind(x.size)
    array, number = listing.input(t), listing.input()
    exponent = listing.const(power)
    listing.outputs = [listing.add(name, array, exponent, type=t), listing.add(name, number, exponent)]
    slope = Op.PARTIAL + 2 * ROW[name]
    listing.outputs += [listing.add(slope, number, exponent, listing.outputs[1])]
    machine = Machine(listing)
    assert ulp_apart(machine.run([x, 1.7])[2], power * 1.7 ** (power - 1)) <= 4
    check(machine.run([x, 1.0])[0], np.power(x, power), False)
    numbers = np.array([machine.run([x[:1].repeat(x.size), at])[1] for at in x[::7]])
    check(numbers, [np.float64(at) ** power if name == "**" else np.power(at, power) for at in x[::7]], False)


# ---- programs


def test_scalar_instructions_equal_numpy():
    listing = Listing()
    x, y = listing.input(), listing.input()
    z = listing.add("multiply", listing.add("sin", x), y)
    w = listing.add("**", z, listing.const(2.0))
    less = listing.add(Op.LESS, x, y, type=BOOL)
    both = listing.add(Op.AND, less, listing.add(Op.NOT, less, type=BOOL), type=BOOL)
    picked = listing.add(Op.SELECT, less, x, y)
    strong = listing.add(Op.STRONG, listing.const(0.0), listing.const(np.inf))
    isnan = listing.add(Op.ISNAN, listing.const(np.nan), type=BOOL)
    found = listing.run([w, z, x, less, both, picked, strong, isnan, w], 0.3, 2.0)
    assert found[:3] == [(np.sin(0.3) * 2.0) ** 2, np.sin(0.3) * 2.0, 0.3]
    assert [type(v) for v in found] == [np.float64] * 3 + [np.bool] * 2 + [np.float64] * 2 + [np.bool, np.float64]
    assert found[3:] == [True, False, 0.3, 0.0, True, found[0]]


def test_array_kernel_with_scalars_masks_and_a_sum():
    listing = Listing()
    n = 1300
    t, mask = listing.kind(n), listing.kind(n, dtype=bool)
    x, s, m = listing.input(t), listing.input(), listing.input(mask)
    a = listing.add("multiply", listing.add("sin", x, type=t), s, type=t)
    b = listing.add("subtract", s, a, type=t)
    big = listing.add(Op.GREATER, b, listing.const(1.0), type=mask)
    either = listing.add(Op.OR, big, m, type=mask)
    c = listing.add(Op.SELECT, either, b, s, type=t)
    total = listing.add(Op.SUM, c)
    d = listing.add("divide", c, total, type=t)
    e = listing.add("multiply", m, d, type=t)
    X, M = np.linspace(-2, 5, n), np.arange(n) % 3 == 0
    B = 1.7 - np.sin(X) * 1.7
    C = np.where((B > 1.0) | M, B, 1.7)
    for exact in (False, True):
        found = listing.run([d, either, e, total, d], X, 1.7, M, exact=exact)
        for got, expected in zip(found, [C / C.sum(), (B > 1.0) | M, M * (C / C.sum()), C.sum(), C / C.sum()]):
            check(got, expected, True) if exact or got.dtype == bool else np.testing.assert_allclose(
                got, expected, rtol=1e-14, atol=1e-15)
        assert found[0] is not found[4]


@pytest.mark.parametrize("n", [0, 1, 7, 8, 511, 512, 513, 5000])
def test_sum_is_within_error_bound_and_depends_on_length_only(n):
    listing = Listing()
    t = listing.kind(n)
    total = listing.add(Op.SUM, listing.add("negative", listing.input(t), type=t))
    x = drawn(n, 3) * 1e-3
    (found,) = listing.run([total], x)
    assert abs(found + math.fsum(x)) <= 2 * n * EPS * np.abs(x).sum()
    (exact,) = listing.run([total], x, exact=True)
    assert exact == np.add.reduce(-x)


def test_two_dimensional_views_are_traversed_by_rows():
    listing = Listing()
    u_ = np.random.default_rng(0).standard_normal((40, 30))
    h, w = 38, 28
    t, inner = listing.kind(40, 30), listing.kind(h, w)
    u = listing.input(t)
    row, item = 240, 8
    views = {}
    for name, (i, j) in {"centre": (1, 1), "up": (0, 1), "down": (2, 1), "left": (1, 0), "right": (1, 2)}.items():
        views[name] = listing.view(u, i * row + j * item, (h, w), (row, item))
    around = listing.add("add", listing.add("add", views["up"], views["down"], type=inner),
                         listing.add("add", views["left"], views["right"], type=inner), type=inner)
    lap = listing.add("subtract", around, listing.add("multiply", views["centre"], listing.const(4.0), type=inner),
                      type=inner)
    placed = listing.place(u, row + item, (h, w), (row, item), lap)
    flipped = listing.view(u, 39 * row + 29 * item, (30, 40), (-item, -row))
    turned = listing.kind(30, 40, strides=(8, 240))
    square = listing.add("square", flipped, type=turned)
    column = listing.view(u, 3 * item, (40,), (row,))
    spread = listing.place(listing.add("negative", u, type=t), 0, (40, 30), (row, item),
                           listing.view(column, 0, (40, 1), (row, item)))
    diagonal = listing.add("exp", listing.view(u, 0, (30,), (row + item,)), type=listing.kind(30))
    every = listing.add(Op.SUM, listing.view(u, 0, (20, 30), (2 * row, item)))
    LAP = u_[:-2, 1:-1] + u_[2:, 1:-1] + (u_[1:-1, :-2] + u_[1:-1, 2:]) - u_[1:-1, 1:-1] * 4.0
    PLACED = u_.copy()
    PLACED[1:-1, 1:-1] = LAP
    expected = [LAP, PLACED, np.square(u_[::-1, ::-1].T), np.broadcast_to(u_[:, 3:4], (40, 30)), np.exp(np.diag(u_)),
                u_[::2].sum(), u_[:, 3], u_]
    before = u_.copy()
    for exact in (False, True):
        found = listing.run([lap, placed, square, spread, diagonal, every, column, u], u_, exact=exact)
        for got, y in zip(found, expected):
            np.testing.assert_allclose(got, y, rtol=4 * EPS, atol=0 if np.ndim(y) else 1e-13)
        assert found[2].strides == (8, 240)
        assert not any(np.shares_memory(got, u_) for got in found)
    assert_same_bits(u_, before)


# ---- memory


@pytest.mark.parametrize("width", [1, 2, 5, 31, 62, 64])
@pytest.mark.parametrize("gap", [0, 1, 2, 7, 40])
def test_rows_with_gaps_are_read_in_place_and_what_is_between_them_is_kept(width, gap):
    """Stencils on short rows: the result is computed with what is between the rows, and stored without it."""
    rng = np.random.default_rng(width)
    n = 41
    u, v = rng.normal(size=(n, width + gap)), rng.normal(size=(n, width))
    u[:, width:] = np.nan   # never stored to an element of the result, nor added to a sum

    def step(u, v):
        u = u.copy()
        c = u[1:-1, :width]
        u[1:-1, :width] = (c * c - 0.5 * (u[:-2, :width] + u[2:, :width])) * v[1:-1] + v[:, :1][2:]
        return u

    def total(u, v):
        return np.sum(u[:, :width] * v - 2.0 * u[:, :width]) + np.max(u[:, :width] * v + 1.0, axis=1)

    for f in (step, total):
        assert_same = np.testing.assert_array_equal if f is step else np.testing.assert_allclose
        assert_same(wg.record(f, u, args=(v,))(u, v), f(u, v))


def test_overwritten_arrays_keep_values_read_by_others():
    """A PLACE may write in place or not: the base has views read before, at the same time and after."""
    n = 600
    for keep_base in (False, True):
        for late_view in (False, True):
            listing = Listing()
            t, part = listing.kind(n), listing.kind(n - 1)
            x = listing.input(t)
            base = listing.add("sin", x, type=t)
            left, right = listing.view(base, 0, (n - 1,), (8,)), listing.view(base, 8, (n - 1,), (8,))
            first = listing.place(base, 8, (n - 1,), (8,), left)            # u[1:] = u[:-1]
            new_left = listing.view(first, 0, (n - 1,), (8,))
            mixed = listing.add("subtract", new_left, right if late_view else new_left, type=part)
            second = listing.place(first, 0, (n - 1,), (8,), mixed)
            third = listing.pack(second, [0, n - 1], [listing.const(7.0), listing.add(Op.LOAD, second, 1)], t)
            outputs = [third, second] + [base] * keep_base
            X = np.linspace(0, 3, n)
            BASE = np.sin(X)
            FIRST = BASE.copy()
            FIRST[1:] = BASE[:-1]
            SECOND = FIRST.copy()
            SECOND[:-1] = FIRST[:-1] - (BASE[1:] if late_view else FIRST[:-1])
            THIRD = SECOND.copy()
            THIRD[[0, -1]] = 7.0, SECOND[1]
            for got, expected in zip(listing.run(outputs, X, exact=True), [THIRD, SECOND, BASE]):
                assert_same_bits(got, expected)
            (alone,) = listing.run([third], X, exact=True)
            assert_same_bits(alone, THIRD)


def test_chain_of_writes_allocates_one_array():
    listing = Listing()
    n = 50
    t = listing.kind(n)
    x = listing.input(t)
    y = listing.pack(-1, [], [], t)
    for i in range(n):
        element = listing.add("square", listing.add(Op.LOAD, x, i))
        y = listing.pack(y, [i], [element], t) if i % 2 else listing.place(y, 8 * i, (), (), element)
    X = np.linspace(-1, 1, n)
    (found,) = listing.run([y], X)
    assert_same_bits(found, X**2)


def test_outputs_are_new_arrays_and_inputs_are_unchanged():
    listing = Listing()
    n = 20
    t = listing.kind(n)
    x = listing.input(t)
    k = listing.array(np.arange(n, dtype=float))
    half = listing.view(x, 0, (10,), (8,))
    placed = listing.place(x, 0, (10,), (8,), listing.const(1.0))
    same = listing.call(np.asarray, (Operand(0),), [x], t)
    turned = listing.call(np.ravel, (Operand(0),), [placed], t)
    packed = listing.pack(same, [3], [listing.const(5.0)], t)
    X = np.arange(n) + 0.5
    before = X.copy()
    found = listing.run([x, half, placed, k, same, packed, turned, placed, x], X)
    X1, X5 = X.copy(), X.copy()
    X1[:10], X5[3] = 1.0, 5.0
    for got, expected in zip(found, [X, X[:10], X1, np.arange(n) * 1.0, X, X5, X1, X1, X]):
        assert_same_bits(got, expected)
    for i, one in enumerate(found):
        assert one.flags.owndata or not np.shares_memory(one, X)
        for other in [*found[:i], X, *listing.arrays]:
            assert not np.shares_memory(one, other)
    for one in found:
        one[...] = np.nan
    assert_same_bits(X, before)
    assert_same_bits(listing.run([x, k], X)[1], np.arange(n) * 1.0)


def test_out_buffer_is_written_and_may_be_an_input():
    listing = Listing()
    n = 700
    t = listing.kind(n)
    x = listing.input(t)
    shifted = listing.view(x, 8, (n - 1,), (8,))
    y = listing.place(listing.add("sin", x, type=t), 0, (n - 1,), (8,), shifted)
    listing.outputs = [y, x, listing.add("add", x, x, type=t), listing.add(Op.SUM, x)]
    machine = Machine(listing)
    X = np.linspace(0, 1, n)
    expected = machine.run([X])
    for out in (
        [np.empty(n), np.empty(n), np.empty(n), None],
        [np.empty(2 * n)[::2], None, np.empty(n), np.empty(())],
    ):
        found = machine.run([X], out)
        for one, other, place in zip(found, expected, out):
            assert_same_bits(one, other)
            assert place is None or one is place
    for place in range(3):
        own = X.copy()
        out = [None] * 4
        out[place] = own
        for one, other in zip(machine.run([own], out), expected):
            assert_same_bits(one, other)


def _both(x):
    y = np.sin(x)
    return y, y.reshape(6, 5).T, y[::-1]


RESHAPED = {
    "grid to 1-D array": lambda x: np.sin(x.reshape(6, 5)).ravel(),
    "1-D array to grid": lambda x: np.sin(x).reshape(5, 6),
    "turned": lambda x: np.exp(x.reshape(6, 5)).T,
    "backwards": lambda x: np.exp(x)[::-1],
    "both ways": lambda x: np.exp(x.reshape(6, 5))[::-1, ::-1],
    "read before": lambda x: (lambda y: y.reshape(6, 5) * np.sum(np.linalg.norm(y)))(np.cos(x)),
    "a part": lambda x: np.sin(x).reshape(6, 5)[1:, ::2],
    "repeated": lambda x: np.broadcast_to(np.sin(x), (3, 30)) + 0.0,
    "repeated row": lambda x: np.broadcast_to(np.sin(x), (3, 30)),
    "several": _both,
    "assigned": lambda x: (lambda y: [y.__setitem__(slice(3, 9), x[:6] * 2.0), y.reshape(3, 10)][1])(np.zeros(30)),
}


@pytest.mark.parametrize("name", RESHAPED)
def test_out_buffer_of_other_shape_is_replaced_by_new_array(name):
    f = RESHAPED[name]
    x, z = np.linspace(0.1, 2.0, 30), np.linspace(1.0, 1.5, 30)
    program = wg.record(f, x)

    def parts(y):
        return list(y) if type(y) is tuple else [y]

    first, expected = parts(program(x)), parts(f(z))
    kept = [y.copy() for y in first]
    found = parts(program(z))
    for y, other in zip(found, expected):
        np.testing.assert_allclose(y, other, rtol=1e-15)
        assert y.shape == other.shape
        y[...] = np.nan
        assert not any(np.shares_memory(y, one) for one in [*found, *first, x, z] if one is not y)
    for y, was in zip(first, kept):
        assert_same_bits(y, was)
    if len(expected) == 1:
        for out in (np.empty(expected[0].shape), np.empty(expected[0].shape[::-1]).T):
            assert program(z, out=out) is out
            np.testing.assert_allclose(out, expected[0], rtol=1e-15)


@pytest.mark.parametrize("fill", [0.0, -0.0, 1.0, np.nan])
def test_new_arrays_hold_their_fill_value(fill):
    def f(x):
        y, z = np.full((4, 300), fill), np.full((4, 300), fill)
        y[1:3, ::2] = x
        return y, z + 0.0 * x[0], np.full((3, 7), fill).T

    x = np.linspace(1.0, 2.0, 150)
    for found, expected in zip(wg.record(f, x)(2.0 * x), f(2.0 * x)):
        assert_same_bits(found, expected)


def test_inputs_of_other_layouts_are_copied():
    listing = Listing()
    t = listing.kind(6)
    listing.outputs = [listing.add("negative", listing.input(t), type=t), listing.input()]
    machine = Machine(listing)
    others = [np.arange(0, 12, 2, dtype=dtype) for dtype in ("f4", ">f8", "i8")]
    for x in (np.arange(12.0)[::2], [0, 2, 4, 6, 8, 10], *others):
        assert_same_bits(machine.run([x, 1])[0], -np.arange(0.0, 12, 2))
    with pytest.raises(ValueError, match="shape"):
        machine.run([np.ones(7), 1.0])
    with pytest.raises(ValueError, match="takes 2 inputs, got 1"):
        machine.run([np.ones(6)])


# ---- guards and calls


@pytest.mark.parametrize(
    ("expected", "good", "bad"),
    [
        (True, [1.0, 3.0], [-1.0]),
        (False, [-1.0], [2.0]),
    ],
)
def test_guard_on_comparison_compares_the_outcome(expected, good, bad):
    listing = Listing()
    x = listing.input()
    listing.guard(listing.add(Op.GREATER, x, listing.const(0.0), type=BOOL), expected)
    listing.outputs = [listing.add("negative", x)]
    machine = Machine(listing)
    for value in good:
        assert machine.run([value]) == [-value]
    for value in bad:
        assert machine.attempt([value]) == 0
        with pytest.raises(GuardError, match=r"f\.py:3.*" + repr(expected)):
            machine.run([value])
    assert machine.run([good[0]]) == [-good[0]]


def test_guards_compare_values_of_every_dtype():
    def passes(value, expected):
        listing = Listing()
        kind = listing.kind(*np.shape(value), dtype=np.asarray(value).dtype)
        x = listing.input(FLOAT if isinstance(value, float) else kind)
        listing.guard(x, expected)
        listing.outputs = []
        return Machine(listing).attempt([value]) == []

    assert passes(3.0, 3) and passes(-0.0, 0) and passes(np.nan, np.nan) and passes(2.5, 2.5)
    assert not passes(3.0, 2) and not passes(-0.0, 0.0) and not passes(1.0, np.nan)
    assert passes(np.int64(3), 3) and not passes(np.int64(3), 4)
    assert passes(np.array([1, 2]), np.array([1, 2])) and not passes(np.array([1, 2]), np.array([1, 3]))
    assert passes(np.array([1, np.nan]), np.array([1, np.nan]))


def test_calls_to_python():
    listing = Listing()
    n = 30
    t, i, grid = listing.kind(n), listing.kind(n, dtype=np.int64), listing.kind(5, 6)
    x = listing.input(t)
    order = listing.call(np.argsort, (Operand(0),), [x], i, kind="stable")
    ordered = listing.call(np.take, (Operand(0), Operand(1)), [x, order], t)
    rows = listing.call(np.reshape, (Operand(0), (5, 6)), [ordered], grid)
    stacked = listing.call(np.concatenate, ([Operand(0), Operand(0)],), [ordered], listing.kind(2 * n))
    top = listing.call(np.max, (Operand(0),), [x])
    where = listing.call(np.argmax, (Operand(0),), [x], listing.kind(dtype=np.int64))
    picked = listing.call(np.take, (Operand(0), Operand(1)), [x, where])
    scaled = listing.add("multiply", rows, top, type=grid)
    counts = listing.add("multiply", order, top, type=t)
    X = np.random.default_rng(2).standard_normal(n)
    found = listing.run([order, scaled, stacked, picked, counts], X)
    S = np.sort(X)
    values = [np.argsort(X), S.reshape(5, 6) * X.max(), np.r_[S, S], X.max(), np.argsort(X) * X.max()]
    for got, expected in zip(found, values):
        assert_same_bits(got, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, np.int64])
@pytest.mark.parametrize("exact", [False, True])
def test_other_dtypes_are_computed_by_numpy(dtype, exact):
    listing = Listing()
    X = (np.arange(1, 13) * (1.1 + 0.3j if dtype is np.complex128 else 1.1)).astype(dtype).reshape(4, 3)
    size = X.itemsize
    t, single = listing.kind(4, 3, dtype=dtype), listing.kind(dtype=dtype)
    x = listing.input(t)
    turned = listing.view(x, 2 * size, (4, 3), (3 * size, -size))
    y = listing.add("multiply", x, turned, type=listing.rows[x][4])
    placed = listing.place(y, size, (4, 2), (3 * size, size), listing.view(x, 0, (4, 2), (3 * size, size)))
    element = listing.add(Op.LOAD, turned, 5, type=single)
    packed = listing.pack(placed, [4, 0], [element, element], t)
    added = listing.add("add", packed, element, type=t)
    equal = listing.add(Op.EQUAL, packed, x, type=listing.kind(4, 3, dtype=bool))
    chosen = listing.add(Op.SELECT, equal, packed, turned, type=t)
    Y = X * X[:, ::-1]
    PLACED = Y.copy()
    PLACED[:, 1:] = X[:, :2]
    PACKED = PLACED.copy()
    PACKED.flat[[4, 0]] = X[1, 2]
    expected = [Y, PLACED, X[1, 2], PACKED, PACKED + X[1, 2], PACKED == X, np.where(PACKED == X, PACKED, X[:, ::-1])]
    found = listing.run([y, placed, element, packed, added, equal, chosen], X, exact=exact)
    for got, value in zip(found, expected):
        np.testing.assert_array_equal(got, value, strict=np.ndim(value) > 0)


def test_result_with_other_references_is_not_overwritten():
    kept = np.arange(4.0)
    listing = Listing()
    t = listing.kind(4)
    y = listing.call(lambda x: kept, (Operand(0),), [listing.input()], t)
    (found,) = listing.run([listing.pack(y, [1], [listing.const(7.0)], t)], 1.0)
    assert_same_bits(found, np.array([0.0, 7.0, 2.0, 3.0]))
    assert_same_bits(kept, np.arange(4.0))
    (found,) = listing.run([y], 1.0)
    assert found is not kept


def test_exception_in_a_call_leaves_the_vm_usable():
    listing = Listing()
    t = listing.kind(2, 2)
    listing.outputs = [listing.call(np.linalg.inv, (Operand(0),), [listing.input(t)], t)]
    machine = Machine(listing)
    with pytest.raises(np.linalg.LinAlgError):
        machine.run([np.zeros((2, 2))])
    assert_same_bits(machine.run([2 * np.eye(2)])[0], np.eye(2) / 2)


def test_call_result_of_other_shape_fails_like_a_guard():
    listing = Listing()
    t = listing.kind(3)
    listing.outputs = [listing.call(np.unique, (Operand(0),), [listing.input(t)], t)]
    machine = Machine(listing)
    assert_same_bits(machine.run([np.array([3.0, 1.0, 2.0])])[0], np.array([1.0, 2.0, 3.0]))
    with pytest.raises(GuardError, match="unique"):
        machine.run([np.ones(3)])


def test_threads_and_reentrant_calls_share_no_memory():
    listing = Listing()
    n = 30000
    t = listing.kind(n)
    x = listing.input(t)
    y = listing.add("sin", listing.add("exp", x, type=t), type=t)
    z = listing.call(lambda v: np.cumsum(v), (Operand(0),), [y], t)
    listing.outputs = [listing.add("add", z, y, type=t), listing.add(Op.SUM, y)]
    machine = Machine(listing)
    inputs = [np.random.default_rng(seed).standard_normal(n) for seed in range(8)]
    expected = [machine.run([v]) for v in inputs]

    def work(k):
        for _ in range(20):
            for one, other in zip(machine.run([inputs[k]]), expected[k]):
                np.testing.assert_array_equal(one, other)

    in_threads(work)

    nested = Listing()
    t = nested.kind(n)
    x = nested.input(t)
    depth = nested.input()
    a = nested.add("cos", x, type=t)

    def again(v, d):
        return nested_machine.run([v, d - 1])[0] if d > 0 else v

    b = nested.call(again, (Operand(0), Operand(1)), [a, depth], t)
    nested.outputs = [nested.add("add", a, b, type=t)]
    nested_machine = Machine(nested, exact=True)
    X = inputs[0]
    C = [X]
    for _ in range(4):
        C.append(np.cos(C[-1]))
    assert_same_bits(nested_machine.run([X, 2.0])[0], C[1] + (C[2] + (C[3] + C[3])))


# ---- random programs

UNARY = ["negative", "sin", "cos", "tanh", "arctan", "square", "scipy.special.expit", "scipy.special.erf", "absolute"]
MOVES = ["unary", "pair", "number", "view", "flip", "place", "pack", "load", "sum", "where"]
PAIRS = ["add", "subtract", "multiply", "maximum", "minimum", "hypot"]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_random_exact_programs_are_bit_identical_to_numpy(data):
    """Elementwise work, views, in-place writes, elements and sums over values of three shapes, in any order."""
    n = data.draw(st.sampled_from([1, 6, 30, 700]), "n")
    listing = Listing()
    t, grid = listing.kind(n), listing.kind(2, 3)
    rng = np.random.default_rng(data.draw(st.integers(0, 1000), "seed"))
    inputs = [rng.standard_normal(n), rng.standard_normal((2, 3)), rng.standard_normal()]
    made = [(listing.input(t), inputs[0]), (listing.input(grid), inputs[1]), (listing.input(), inputs[2])]

    def pick(kind):
        found = [item for item in made if np.shape(item[1]) == kind]
        return found[data.draw(st.integers(0, len(found) - 1))] if found else None

    for _ in range(data.draw(st.integers(1, 25), "instructions")):
        move = data.draw(st.sampled_from(MOVES))
        kind = data.draw(st.sampled_from([(n,), (n - 1,), (2, 3), ()]))
        one = pick(kind)
        if one is None:
            continue
        i, x = one
        type_ = listing.kind(*kind) if kind else FLOAT
        if move in ("load", "view", "place", "pack") and (kind == () or not x.size or x.strides[-1] < 0):
            continue
        if move == "unary":
            name = data.draw(st.sampled_from(UNARY))
            made.append((listing.add(name, i, type=type_), np.array(resolved(name)(x), order="C")[()]))
        elif move in ("pair", "number"):
            name = data.draw(st.sampled_from(PAIRS))
            j, y = pick(kind if move == "pair" else ())
            if data.draw(st.booleans()) and kind == ():
                i, x, j, y = j, y, i, x
            made.append((listing.add(name, i, j, type=type_), np.array(resolved(name)(x, y), order="C")[()]))
        elif move == "where":
            j, y = pick(kind)
            mask = listing.add(Op.LESS, i, j, type=listing.kind(*kind, dtype=bool) if kind else BOOL)
            made.append((listing.add(Op.SELECT, mask, j, i, type=type_), np.where(x < y, y, x).copy()[()]))
        elif move == "sum" and kind != ():
            made.append((listing.add(Op.SUM, i), np.add.reduce(x, axis=None)))
        elif move == "flip" and kind != () and x.size:
            copy = listing.place(listing.pack(-1, [], [], type_), 0, kind, np.empty(kind).strides, i)
            back = tuple(-step for step in np.empty(kind).strides)
            flipped = x.copy()[tuple(slice(None, None, -1) for _ in kind)]
            made.append((listing.view(copy, 8 * (x.size - 1), kind, back), flipped))
        elif move == "load":
            k = data.draw(st.integers(0, x.size - 1))
            made.append((listing.add(Op.LOAD, i, k), x.ravel()[k]))
        elif move == "view" and kind == (n,):
            shift = data.draw(st.integers(0, 1))
            made.append((listing.view(i, 8 * shift, (n - 1,), (8,)), x[shift : n - 1 + shift]))
        elif move == "place" and kind == (n,):
            shift = data.draw(st.integers(0, 1))
            j, y = pick((n - 1,)) or pick(())
            new = x.copy()
            new[shift : n - 1 + shift] = y
            made.append((listing.place(i, 8 * shift, (n - 1,), (8,), j), new))
        elif move == "pack":
            places = data.draw(st.lists(st.integers(0, x.size - 1), max_size=3, unique=True))
            chosen = [pick(()) for _ in places]
            new = x.copy()
            new.reshape(-1)[places] = [y for _, y in chosen]
            made.append((listing.pack(i, places, [j for j, _ in chosen], type_), new))
    outputs = data.draw(st.lists(st.sampled_from(made), min_size=1, max_size=4), "outputs")
    before = [np.copy(x) for x in inputs]
    for got, (_, expected) in zip(listing.run([i for i, _ in outputs], *inputs, exact=True), outputs):
        assert_same_bits(got, expected)
    for x, y in zip(inputs, before):
        assert_same_bits(x, y)
    listing.run([i for i, _ in outputs], *inputs)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(UNARY + PAIRS), *[st.integers(0, 30)] * 2), min_size=1, max_size=12),
    st.sampled_from([3, 64, 1500]),
)
def test_random_programs_are_close_to_numpy(steps, n):
    """Each instruction is within 4 ulp of NumPy on the VM's own operands."""
    listing = Listing()
    t = listing.kind(n)
    values = [listing.input(t), listing.input(t)]
    made = []
    for name, i, j in steps:
        operands = [values[i % len(values)], values[j % len(values)]][: PARTS[name]]
        values.append(listing.add(name, *operands, type=t))
        made.append((name, operands))
    rng = np.random.default_rng(n)
    at = [rng.uniform(0.1, 2, n), rng.uniform(-2, 2, n)]
    found = dict(zip(values, at + listing.run(values[2:], *at)))
    for value, (name, operands) in zip(values[2:], made):
        check(found[value], resolved(name)(*(found[u] for u in operands)), False)


def test_instructions_move_to_the_only_kernel_that_reads_them():
    def work(x):
        y = np.cumsum(x)
        z, square = np.sin(y) * 2.0, y * y  # the square is used only after the next call
        return np.cumsum(z) * square

    x = np.random.default_rng(0).standard_normal(3000)
    program = wg.record(work, x)
    expected = work(x)
    np.testing.assert_allclose(program(x), expected, atol=1e-12 * np.max(np.abs(expected)))
    code = program._lowered_ir()
    square = next(i for i in range(len(code)) if code.op[i] == ROW["multiply"] and code.a[i] == code.b[i])
    first, second = [members for kind, _, members in schedule(code)[0] if kind == "vector"]
    assert square in second
    assert square not in first
    assert code.outputs[0] in second


# ---------------------------------------------------------------------------------------------- matrix products

SIDES = {  # memory layouts of an operand
    "in order": lambda shape: (shape, lambda x: x),
    "transposed": lambda shape: (shape[::-1], lambda x: x.T),
    "backwards": lambda shape: (shape, lambda x: x[::-1, ::-1] if x.ndim == 2 else x[::-1]),
    "every other": lambda shape: ((*shape[:-1], 2 * shape[-1]), lambda x: x[..., ::2]),
    "repeated": lambda shape: ((1,) * len(shape), lambda x: np.broadcast_to(x, shape)),
}
SIZES = [((3,), (3,)), ((1,), (1,)), ((4, 3), (3,)), ((3,), (3, 4)), ((1, 5), (5, 1)), ((2, 7), (7, 3)),
         ((9, 9), (9, 9)), ((5, 1), (1, 6)), ((40, 33), (33,)), ((3, 100), (100, 20)), ((30, 30), (30, 30)),
         ((2, 1200), (1200,)), ((0, 3), (3, 2)), ((2, 0), (0, 3)),
         # these have more multiplications than the VM's own kernels compute
         ((70, 30), (30, 20)), ((20000,), (20000,)), ((200, 90), (90,)), ((90,), (90, 200)),
         ((1, 300), (300, 60))]  # fmt: skip


@pytest.mark.parametrize("left", SIDES)
@pytest.mark.parametrize("right", SIDES)
def test_matrix_products_of_all_layouts_equal_numpy(left, right):
    """Integers, whose sums are exact in any order; variables, and constants on either side."""
    rng = np.random.default_rng(5)
    for shapes in SIZES:
        (one, of_one), (other, of_other) = [SIDES[side](shape) for side, shape in zip((left, right), shapes)]
        if left == right == "repeated" and 0 in (*shapes[0], *shapes[1]):
            continue
        a, b = [rng.integers(-9, 9, shape).astype(float) for shape in (one, other)]
        expected = of_one(a) @ of_other(b)
        fixed, other_fixed = np.array(of_one(a)), np.array(of_other(b))
        for f in (
            lambda a, b: of_one(a) @ of_other(b),
            lambda a, b: fixed @ of_other(b),
            lambda a, b: of_one(a) @ other_fixed,
            lambda a, b: np.dot(of_one(a), of_other(b)),
            lambda a, b: (of_one(a) + 0.0) @ (of_other(b) - 0.0) * 1.0,
        ):
            program = wg.record(f, a, args=(b,))
            np.testing.assert_array_equal(program(a, b), expected)
            assert type(program(a, b)) is type(f(a, b))
            np.testing.assert_array_equal(program(a, b, out=np.empty(np.shape(expected))), expected)


@pytest.mark.parametrize(
    "f",
    [
        lambda A, B: A @ B,
        lambda A, B: A.T @ A,
        lambda A, B: A[:, 0] @ A,
        lambda A, B: A @ B[:, :1],
        lambda A, B: A[None] @ B,
        lambda A, B: A @ B[None],
        lambda A, B: np.ones((1, 90, 300)) @ A,
        lambda A, B: np.dot(A, np.ones((1, 200, 90))),
        lambda A, B: np.dot(A, B),
        lambda A, B: np.vdot(A, A),
        lambda A, B: np.vdot(A, A + 1.0),
    ],
)
def test_large_matrix_products_need_no_python(f):
    rng = np.random.default_rng(8)
    A, B = rng.normal(size=(300, 200)), rng.normal(size=(200, 100))
    program = wg.record(f, A, args=(B,))
    assert "call" not in [kind for kind, *_ in schedule(program._lowered_ir())[0]]
    np.testing.assert_allclose(program(A, B), f(A, B), rtol=1e-12, atol=1e-11)


def test_matrix_products_are_accurate_within_rounding():
    rng = np.random.default_rng(6)
    for m, k, n in [(1, 500, 1), (20, 20, 20), (7, 100, 1), (1, 100, 7), (13, 5, 60)]:
        A, B = rng.normal(size=(m, k)), rng.normal(size=(k, n))
        found = wg.record(lambda A, B: A @ B, A, args=(B,))(A, B)
        assert np.all(np.abs(found - A @ B) <= 2 * k * EPS * (np.abs(A) @ np.abs(B)))


def test_matrix_products_of_nonfinite_values_equal_numpy():
    A = np.array([[np.inf, 0.0], [np.nan, 1.0], [1.0, 2.0]])
    B = np.array([[0.0, 1.0], [2.0, -np.inf]])
    for f in (lambda A, B: A @ B, lambda A, B: A @ B[:, 0], lambda A, B: A[2] @ B, lambda A, B: np.vdot(A[0], B[0])):
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(wg.record(f, A, args=(B,))(A, B), f(A, B))


def test_matrix_products_run_in_loops_and_threads():
    rng = np.random.default_rng(7)
    A, x = rng.normal(size=(6, 6)) / 3, rng.normal(size=6)

    def f(A, x):
        s = 0.0
        for _ in range(60):
            x = np.tanh(A @ x)
            s = s + x @ x + np.inner(x, A[0])
        return s

    program = wg.record(f, A, args=(x,))
    np.testing.assert_allclose(program(A, x), f(A, x), rtol=1e-13)
    gradient = program.grad()
    np.testing.assert_allclose(gradient(A, x), wg.grad(f)(A, x), rtol=1e-11, atol=1e-14)
    expected = gradient(A, x)
    in_threads(lambda _: assert_same_bits(gradient(A, x), expected), 4)
