"""In-place writes: one tape in order, saved overwritten values, buffers rolled forward after every sweep."""

import contextlib
import copy
import functools
import pickle
import signal
import threading
import time
import types

import numpy as np
import pytest

import wengert as wg
from helpers import DIFFERENCES, assert_rounding, assert_same_bits, central_differences, complex_step
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.testing import check_derivatives

X = np.array([0.3, 1.2, -0.7, 0.45])
M = np.random.default_rng(50).uniform(0.5, 1.5, (3, 4))
CALLER = np.array([1.0, 2.0, 3.0, 4.0])

PROGRAMS = {}


def program(x, twin=None):
    """Register an in-place program; `twin` computes the same without writes, for the complex step."""

    def enter(f):
        name = f.__name__
        assert name not in PROGRAMS
        PROGRAMS[name] = (f, x, twin)
        return f

    return enter


# ---- one tape, in order


def interleaved_twin(x):
    F = 2 * np.stack([np.sin(x[j]) * x[j] for j in (1, 2, 3, 0)])
    F = np.concatenate([F[:1], F[1:3] + x[:2], F[3:]])
    return np.concatenate([F[:2], F[2:3] * F[0], F[3:]])


@program(X, interleaved_twin)
def element_writes_array_writes_and_views_interleaved(x):
    F = np.zeros(4)
    for i, j in enumerate((1, 2, 3, 0)):
        F[i] = np.sin(x[j]) * x[j]
    F *= 2
    y = F[1:3]
    y += x[:2]
    F[2] = y[1] * F[0]
    return F


@program(X, lambda x: np.stack([x[1], x[1], x[0], x[1], x[2], x[2]]))
def what_functions_make_of_constants(x):
    F, G, H = np.resize(1.0, 2), np.insert([1.0, 2.0], 1, 3.0), np.append([1.0], 2.0)
    F.fill(x[1])
    G[:] = x[:3]
    G[0], H[0], H[1] = x[0], x[2], x[2]
    return np.concatenate([F, G[:2], H])


def in_layouts_twin(x):
    m = np.outer(x, x)[:2].T
    parts = []
    for _ in range(2):
        parts.append(np.concatenate([[7 * x[1]], m.ravel()[1:]]))
    parts.append(np.concatenate([[7 * x[1]], np.stack([m, m]).ravel()[1:]]))
    return np.concatenate(parts)


@program(X, in_layouts_twin)
def writes_through_views_that_depend_on_memory_layout(x):
    m = np.outer(x, x)[:2].T
    made = m.astype(float, order="C"), m.astype(float, "C", copy=False), np.array([m, m])
    for y in made:
        y.reshape(-1)[0] = 7 * x[1]
    return np.concatenate([y.ravel() for y in made])


@program(X, lambda x: np.stack([x[0] ** 2, x[0] ** 4, x[0] ** 8, x[3]]))
def each_element_made_from_the_one_before(x):
    F = x.copy()
    for i in range(3):
        F[i] = F[i - 1] * F[i - 1] if i else F[0] ** 2
    return F


@program(X, lambda x: np.stack([4 * x[3], x[0], x[1], x[2]]))
def one_place_written_many_times(x):
    F = np.zeros(4)
    for k in range(5):
        F[0] = k * x[3]
    F[1] = x[3]
    F[1:] = x[:3]
    return F


@program(X, lambda x: (x[0] * x[1] + x[2]) * np.ones(2) * x[3])
def running_total_in_one_place(x):
    total = np.zeros(1)
    total[0] += x[0] * x[1]
    total += x[2:3]
    total[0] *= x[3]
    return [total[0], total[-1]]


# ---- overlapping source and target


@program(X, lambda x: np.stack([x[0], x[0], x[1], x[2]]))
def shifted_up(x):
    a = x.copy()
    a[1:] = a[:-1]
    return a


@program(X, lambda x: np.stack([x[1], x[2], x[3], x[3]]))
def shifted_down(x):
    a = x.copy()
    a[:-1] = a[1:]
    return a


@program(X, lambda x: x[::-1] ** 3)
def reversed_onto_itself(x):
    a = x * 1.0
    a[:] = a[::-1]
    a **= 3
    return a


@program(X, lambda x: np.stack([x[0], x[1] + x[0], x[2] + x[1], x[3] + x[2]]))
def neighbours_added_in_place(x):
    a = np.array(x)
    a[1:] += a[:-1]
    return a


@program(M, lambda m: np.concatenate([m[:, :3].T, m[:, 3:]], axis=1))
def transposed_onto_itself(m):
    a = m.copy()
    square = a[:, :3]
    square[:] = square.T
    return a


@program(M, lambda m: np.stack([m[2], m[1] * 2, m[0]]))
def rows_swapped_by_a_temporary(m):
    a = m.copy()
    row = a[0].copy()
    a[0] = a[2]
    a[2] = row
    a[1] = a[1] + a[1]
    return a


@program(M, lambda m: np.stack([m[2], m[1], m[0]]))
def rows_swapped_by_unpacking_a_list_index(m):
    a = m.copy()
    a[[0, 2]] = a[[2, 0]]
    return a


@program(M, lambda m: np.stack([m[2], m[1], m[2]]))
def rows_swapped_wrongly_through_views(m):
    a = m.copy()
    a[0], a[2] = a[2], a[0]
    return a


@program(X, lambda x: np.stack([x[1], x[0], x[2], x[3]]))
def elements_swapped_by_unpacking(x):
    a = x.copy()
    a[0], a[1] = a[1], a[0]
    return a


# ---- broadcasting stores


@program(X, lambda x: x[None, :] * np.ones((3, 1)) * x[1] + 0 * M)
def a_row_broadcast_into_a_matrix(x):
    F = np.zeros((3, 4))
    F[...] = x
    F *= x[1]
    return F


@program(X, lambda x: np.stack([x[0] * np.ones(3), x[1] * np.ones(3)]).T * np.array([[1.0, 2.0]]))
def a_number_broadcast_into_columns(x):
    F = np.empty((3, 2))
    F[:, 0] = x[0]
    F[:, 1] = x[1] * np.ones(3)
    F[:, 1:] *= 2
    return F


@program(X, lambda x: np.stack([x, x, x]) + x[:3, None])
def a_column_added_to_every_column(x):
    F = np.zeros((3, 4))
    F += x
    F += x[:3, np.newaxis]
    return F


@program(X, lambda x: np.stack([x[:2], 2 * x[:2]]))
def a_value_with_leading_axes_of_length_one(x):
    F = np.zeros((2, 2))
    F[0] = x[np.newaxis, :2]
    F[1] = 2 * x.reshape(1, 1, 4)[..., :2]
    return F


# ---- views


@program(X, lambda x: np.stack([x[0], 10 * x[1], 10 * x[2] * x[0], x[3]]))
def a_view_of_a_view(x):
    a = x.copy()
    v = a[1:]
    w = v[:2]
    w *= 10
    w[1] *= x[0]
    return a


@program(M, lambda m: np.concatenate([m[:1] * 5, m[1:2], m[2:] * m[2:, ::-1]]))
def rows_columns_and_reversed_views(m):
    a = m.copy()
    a.T[:, 0] *= 5
    a[::-1][0] *= m[2, ::-1]
    return a


@program(M, lambda m: (lambda s: s * m)(np.arange(12.0).reshape(4, 3).T))
def a_transposed_view_written_row_by_row(m):
    a = m.copy()
    t = a.T
    for i in range(4):
        for j in range(3):
            t[i, j] *= 3 * i + j
    return a


@program(M, lambda m: m.reshape(-1)[[0, 5, 7, 2]] ** 2)
def a_reshaped_view_is_the_same_memory(m):
    a = m.copy()
    flat = a.reshape(-1)
    flat **= 2
    flat[5] += 0.0
    return np.stack([a[0, 0], a[1, 1], a[1, 3], a[0, 2]])


@program(X, lambda x: np.stack([9 * x[0], x[1], 9 * x[2], x[3]]))
def a_strided_view(x):
    a = x.copy()
    a[::2] *= 9
    return a


@program(X, lambda x: np.stack([x[0] * x[3], x[1] * x[2], x[2] * x[1], x[3] * x[0]]))
def a_view_with_negative_stride(x):
    a = x.copy()
    b = a[::-1]
    b *= x
    return a


@program(M, lambda m: m * m.sum() + 1.0)
def fortran_order(m):
    a = np.array(m, order="F")
    a *= m.sum()
    a += 1.0
    return a


@program(M, lambda m: np.stack([m[0, 0], m[1, 1], m[2, 2]]) * 4)
def a_diagonal_read_after_a_write(m):
    a = m.copy()
    a[:, :3] *= 4
    return np.diagonal(a[:, :3])


@program(X, lambda x: x * x[0] + x)
def two_names_for_one_buffer(x):
    a = x.copy()
    b = a
    a *= x[0]
    b += x
    return a


@program(X, lambda x: np.exp(x))
def a_copy_is_independent(x):
    a = np.exp(x)
    b = a.copy()
    c = +a
    d = np.array(a)
    a[:] = 0
    return b + 0 * c + 0 * d if a.sum() == 0 else a


# ---- advanced indices


@program(X, lambda x: np.stack([x[2], x[3], 0 * x[0]]))
def repeated_indices_the_last_write_wins(x):
    F = np.zeros(3)
    F[[0, 1, 0, 1]] = x
    F[[0]] = x[[2]]
    return F


@program(X, lambda x: np.stack([x[0] + x[3], x[1] + x[2], x[2], x[3]]))
def augmented_assignment_at_repeated_indices_adds_once(x):
    a = x.copy()
    a[[0, 1, 1, 0]] += x
    return a


@program(X, lambda x: np.stack([2 * x[0], x[1], 4 * x[2], x[3]]))
def a_boolean_mask(x):
    a = x.copy()
    mask = np.array([True, False, True, False])
    a[mask] *= np.array([2.0, 4.0])
    mask[:] = False
    return a


@program(X, lambda x: np.where(np.real(x) < 0.4, 0 * x, x * x[1]))
def a_mask_of_traced_values(x):
    a = x * x[1]
    a[x < 0.4] = 0
    return a


@program(M, lambda m: np.stack([m[0, 3] * m[0], m[1], m[2] * m[1]]))
def a_list_of_rows(m):
    a = m.copy()
    rows = [0, 2]
    a[rows] *= np.stack([m[0, 3] * np.ones(4), m[1]])
    rows[0] = 1
    return a


@program(M, lambda m: (m * 1.0)[[0, 1, 2], [1, 2, 0]] * 7)
def pairs_of_indices(m):
    a = m.copy()
    i, j = np.array([0, 1, 2]), np.array([1, 2, 0])
    a[i, j] = 7 * a[i, j]
    i[:] = 0
    return a[[0, 1, 2], j]


@program(M, lambda m: np.stack([m[0], m[1], np.stack([m[0, 1], m[2, 1], m[0, 2], m[2, 3]])]))
def an_index_of_slices_and_lists(m):
    a = m.copy()
    a[2, [0, 2]] = a[0, 1:3]
    return a


@program(X, lambda x: x[[0, 1]] * x[[2, 3]])
def an_empty_selection(x):
    a = x.copy()
    a[[]] = 3.0
    a[a > 100] *= 5
    a[2:2] = 1.0
    return a[[0, 1]] * a[2:]


# ---- augmented operators


@program(X, lambda x: (((x + 2) - x[0]) * 3 / (x[1] + 3)) ** 2)
def every_augmented_operator(x):
    a = x.copy()
    a += 2
    a -= x[0]
    a *= 3
    a /= x[1] + 3
    a **= 2
    return a


@program(X, lambda x: x)
def augmented_remainder_and_floor(x):
    a = x + 5.0
    a %= 2.3
    b = x + 5.0
    b //= 2.3
    return a + 2.3 * b - 5.0


@program(np.random.default_rng(51).uniform(size=(3, 3)), lambda m: (m @ m) @ m)
def augmented_matrix_product(m):
    a = m.copy()
    a @= m
    a @= m
    return a


@program(X, lambda x: np.stack([x[0], x[1] ** 2, x[2] + x[1], x[3] / x[1]]))
def augmented_operators_on_elements(x):
    a = x.copy()
    a[1] **= 2
    a[2] += x[1]
    a[3] /= x[1]
    a[0] -= 0
    return a


@program(X, lambda x: np.stack([x[0] * x[1], x[0]]))
def an_augmented_number_is_a_new_number(x):
    s = x[0]
    t = s
    s *= x[1]
    return [s, t]


# ---- out=


@program(X, lambda x: np.exp(x) * x + np.cumsum(x))
def out_of_ufuncs_and_functions(x):
    F = np.empty(4)
    np.exp(x, out=F)
    np.multiply(F, x, F)
    np.add(F, np.cumsum(x, out=np.zeros(4)), out=(F,))
    return F


@program(X, lambda x: np.stack([0 * x[0], x[0] * x[2], x[1] * x[3], 0 * x[0]]))
def out_into_a_view(x):
    F = np.zeros(4)
    np.multiply(x[:2], x[2:], out=F[1:3])
    return F


@program(X, lambda x: np.stack([x.sum(), 0 * x[0]]))
def out_by_position(x):
    F = np.zeros(2)
    np.sum(x[None], 1, None, F[:1])
    return F


@program(X, lambda x: np.sin(x) + 1)
def out_into_the_operand(x):
    a = x.copy()
    np.sin(a, out=a)
    np.add(a, 1, a)
    return a


# ---- zero-dimensional arrays


@program(X, lambda x: (x[0] + x[1]) * x[2])
def an_array_of_no_axes(x):
    a = np.zeros(())
    a += x[0]
    a[...] = a + x[1]
    a[()] *= x[2]
    return a


@program(X, lambda x: np.stack([x[0] * 3, x[1]]))
def a_view_of_one_element(x):
    a = x[:2].copy()
    one = a[0, ...]
    one *= 3
    return a


# ---- values needed later are saved


@program(X, lambda x: np.exp(x) * x)
def a_result_overwritten_after_use(x):
    F = np.exp(x)
    y = F * x
    F[...] = 0
    return y


@program(X, lambda x: np.exp(x) ** 2 / (1 + np.exp(x)))
def an_operand_overwritten_by_its_own_function(x):
    a = x.copy()
    a[:] = np.exp(a)
    b = 1 + a
    a **= 2
    a /= b
    b[:] = 0
    return a


@program(X, lambda x: np.tanh(np.tanh(np.tanh(x))))
def a_buffer_reused_for_every_layer(x):
    a = x.copy()
    for _ in range(3):
        np.tanh(a, out=a)
    return a


@program(X, lambda x: x[0] * x[1] * np.ones(2))
def an_element_read_before_it_is_overwritten(x):
    a = x.copy()
    first = a[0]
    a[0] = 17.0
    a[1] = first * a[1]
    a[2:] = a[1]
    a[1] = 0
    return a[2:]


CONSTANT = np.array([2.0, 3.0, 4.0, 5.0])


@program(
    X, lambda x: x * CONSTANT + np.dot(x, CONSTANT) + np.arctan(x / CONSTANT) + np.sqrt(x**2 + CONSTANT**2)
)
def a_plain_constant_changed_after_use(x):
    w = CONSTANT.copy()
    y = x * w
    y = y + np.dot(x, w)
    y = y + np.arctan2(x, w)
    y = y + np.hypot(x, w)
    w *= 100
    w[0] = -1
    return y


@program(
    X, lambda x: x * CONSTANT + np.dot(x, CONSTANT) + np.arctan(x / CONSTANT) + np.sum(x * CONSTANT) / 14
)
def a_constant_from_outside_changed_after_use(x):
    CALLER[:] = CONSTANT
    y = x * CALLER
    y = y + CALLER @ x
    y = y + np.arctan2(x, CALLER)
    y = y + np.average(x, weights=CALLER)
    CALLER[:] = -1.0
    return y


@program(X, lambda x: x * 2.0 + 2 * np.sum(x) + np.arctan(x / 2))
def a_clean_constant_changed_after_use(x):
    w = np.full(4, 2.0)
    y = x * w
    y = y + np.dot(x, w)
    y = y + np.arctan2(x, w)
    w[:] = 9.0
    w[1] = 7.0
    return y


@program(X, lambda x: x * 2.0 * x[0])
def a_clean_constant_that_becomes_traced_after_use(x):
    w = np.full(4, 2.0)
    y = x * w
    w *= x[0]
    y = y * w / 2.0
    w[:] = x
    return y


@program(X, lambda x: np.stack([x[2], x[0], x[1]]) + x[[0, 1, 1]] + x[[3, 2, 1]])
def index_arrays_changed_after_use(x):
    i = np.array([2, 0, 1])
    y = np.take(x, i)
    i[:] = [0, 1, 1]
    y = y + x[i]
    i[:] = 0
    counts = np.array([0, 1, 1, 1])
    y = y + np.repeat(x, counts)[::-1]
    counts[:] = 1
    return y


@program(
    X, lambda x: x * np.array([1.0, 0.0, 1.0, 0.0]) + np.stack([0.3 + 0 * x[0], x[1], x[2], 0 * x[3] + 0.4])
)
def masks_and_bounds_changed_after_use(x):
    mask = np.array([True, False, True, False])
    low, high = np.array([-1.0, -1, -1, -1]), np.array([0.3 - 1e-9, 2, 2, 0.4])
    y = np.where(mask, x, 0.0)
    mask[:] = ~mask
    y = y + np.clip(x, a_min=low, a_max=high)
    high[:] = -5
    low[:] = 5
    return y


@pytest.fixture(params=PROGRAMS, ids=lambda name: name)
def case(request):
    f, x, twin = PROGRAMS[request.param]
    y = f(x.copy())
    assert_rounding(y, twin(x)) if request.param != "masks_and_bounds_changed_after_use" else None
    return f, x, y, complex_step(twin, x)


def test_jacobian_is_exact(case):
    f, x, _, exact = case
    assert_rounding(wg.jacobian(f, x), exact)
    assert_rounding(wg.jacobian(f, x, chunk=1), exact)


def test_values_equal_plain_numpy(case):
    f, x, y, _ = case
    assert_same_bits(wg.jacobian(f, x, value=True)[0], np.asarray(y))
    assert_same_bits(wg.jacobian(f, x, value=True, chunk=1)[0], np.asarray(y))


def test_repeated_pullbacks_give_same_bits(case):
    f, x, y, exact = case
    value, pullback = wg.vjp(f, x)
    seed = np.random.default_rng(52).uniform(-1, 1, np.shape(y))
    first = pullback(seed)
    assert_rounding(first, np.tensordot(seed, exact, axes=seed.ndim), scale=10.0)
    assert_same_bits(pullback(seed), first)
    assert_rounding(pullback(np.stack([seed, 2 * seed]))[1], 2 * first, scale=10.0)
    assert_same_bits(pullback(seed), first)
    assert_same_bits(value, np.asarray(y))


def by_line(write):
    return f"line_{write.__code__.co_firstlineno}"


# ---- single precision, other dtypes, plain targets


def test_single_precision_buffer_rounds_stored_values():
    def f(x):
        F = np.zeros(3, dtype=np.float32)
        F[0] = x[0]
        F[1:] = x[1:] * x[0]
        F *= x
        return F

    x = np.array([0.1, 0.2, 0.3])
    y, J = wg.jacobian(f, x, value=True)
    assert_same_bits(y, f(x))
    expected = complex_step(lambda x: np.stack([x[0], x[1] * x[0], x[2] * x[0]]) * x, x)
    assert_rounding(J, expected, np.float32)


def test_integers_stored_from_traced_values_are_truncated_as_numpy_truncates():
    def f(x):
        k = np.zeros(2, dtype=int)
        k[0] = x[0]
        return x * k

    x = np.array([2.7, 3.1])
    assert_same_bits(wg.jacobian(f, x, value=True)[0], f(x))
    np.testing.assert_array_equal(wg.jacobian(f, x), np.diag([2.0, 0.0]))


def test_writing_functions_accept_zero_dimensional_arrays():
    for write in (
        lambda y, x: np.put(y, [0], x * x),
        lambda y, x: y.put(0, x * x),
        lambda y, x: np.place(y, y == 0, x * x),
        lambda y, x: np.putmask(y, y == 0, x * x),
        lambda y, x: np.copyto(y, x * x, where=y == 0),
        lambda y, x: y.flat.__setitem__(0, x * x),
    ):

        def f(x):
            y = np.zeros(())
            write(y, x)
            return y * x

        assert wg.jacfwd(f, 2.0) == wg.jacrev(f, 2.0) == wg.grad(wg.compile(f))(2.0) == 12


def test_byte_swapped_arrays_are_read_as_in_numpy():
    big = np.array([1.0, 2.0, 3.0]).astype(">f8")

    def f(x):
        F = np.zeros(3, dtype=">f8")
        F[0] = x[0] ** 2
        F[1:] = x[1:] * big[1:]
        return F + big * x + x / big

    x = np.array([0.1, 0.2, 0.3])
    y, J = wg.jacobian(f, x, value=True)
    np.testing.assert_array_equal(y, f(x))
    assert_rounding(J, np.diag(np.array([0.2, 2.0, 3.0]) + [1, 2, 3] + 1 / np.array([1.0, 2, 3])))
    for dtype in (">f8", ">f4", "<f8"):
        for mode in (wg.jacfwd, wg.jacrev):
            assert_rounding(mode(lambda x: x.astype(dtype) * 2.0, big), 2 * np.eye(3))
            assert_rounding(wg.jacfwd(mode(lambda x: np.sum(x.astype(dtype) ** 2)), big), 2 * np.eye(3))


def test_unaligned_constants_are_read_as_in_numpy():
    table = np.zeros(5, dtype=np.dtype([("flag", "u1"), ("value", "f8")]))
    table["value"] = [1.0, 2.0, 3.0, 4.0, 5.0]
    x = np.linspace(0.1, 0.5, 5)
    y, J = wg.jacobian(lambda x: x * table["value"] + table["value"] ** x[0], x, value=True)
    np.testing.assert_array_equal(y, x * table["value"] + table["value"] ** x[0])
    expected = np.diag(table["value"])
    expected[:, 0] += table["value"] ** x[0] * np.log(table["value"])
    assert_rounding(J, expected)


@pytest.mark.parametrize(
    "write",
    [
        lambda a, x: a.__setitem__(0, x[0]),
        lambda a, x: a.__setitem__(slice(None), x),
        lambda a, x: a.__iadd__(x),
        lambda a, x: a.__imul__(x[0]),
        lambda a, x: np.sin(x, out=a),
        lambda a, x: np.sum(x[None], 0, None, a),
        lambda a, x: np.cumsum(x, out=a),
        lambda a, x: np.copyto(a, x),
        lambda a, x: np.put(a, [0], x[0]),
        lambda a, x: np.add.at(a, [0], x[0]),
        lambda a, x: a.fill(x[0]),
        lambda a, x: np.fill_diagonal(a[:1, None], x[0]),
        lambda a, x: a.flat.__setitem__(0, x[0]),
        lambda a, x: np.place(a, a == a, x[:1]),
    ],
    ids=by_line,
)
def test_write_into_array_of_caller_raises(write):
    outside = np.ones(4)

    def f(x):
        write(outside, x)
        return outside * 1.0

    with pytest.raises((TypeError, ValueError)):  # NumPy's iterators turn any error into a ValueError
        wg.jacobian(f, X)


def test_writing_into_plain_array_names_its_replacement():
    for write in (
        lambda a, x: np.copyto(a, x),
        lambda a, x: np.put(a, [0], x[0]),
        lambda a, x: np.putmask(a, a > 0, x),
        lambda a, x: np.place(a, a > 0, x),
        lambda a, x: np.put_along_axis(a, np.array([0]), x[0], 0),
        lambda a, x: np.add.at(a, [0], x[0]),
        lambda a, x: np.multiply.at(a, [0], x[0]),
    ):
        with pytest.raises(TracedValueError, match=r"stored in a plain NumPy array.*np\.zeros\(n, like=x\)"):
            wg.jacobian(lambda x, write=write: write(OUTSIDE, x), X)


OUTSIDE = np.ones(4)


@pytest.mark.parametrize(
    "write",
    [
        lambda a, x: np.copyto(a, x),
        lambda a, x: np.put(a, [0, 1], x[:2]),
        lambda a, x: np.putmask(a, x > 0, x),
        lambda a, x: np.place(a, x > 0, x[x > 0]),
        lambda a, x: np.add.at(a, [0, 1, 1, 2], x),
        lambda a, x: np.subtract.at(a, [0, 1, 1, 2], x),
        lambda a, x: np.fill_diagonal(a[:, None], x[0]),
        lambda a, x: np.divide(1.0, x, out=a, where=x > 0),
        lambda a, x: np.add(x, x, out=a, where=x > 0),
        lambda a, x: a.put([0, 1], x[:2]),
        lambda a, x: a.fill(x[0]),
        lambda a, x: a.flat.__setitem__(0, x[0]),
        lambda a, x: (a.__setitem__(slice(None), x), a.sort()),
        lambda a, x: (a.__setitem__(slice(None), x), a.partition(2)),
        lambda a, x: (a.__setitem__(slice(None), x), a.byteswap(inplace=True)),
        lambda a, x: np.maximum.at(a, [0, 1, 1, 2], x),
        lambda a, x: np.negative.at(a, [0, 1]),
        lambda a, x: np.random.default_rng(0).shuffle(a),
        lambda a, x: np.nan_to_num(x, copy=False),
        lambda a, x: np.multiply(x, 2, a),
        lambda a, x: np.cumprod(x, None, None, a),
        lambda a, x: np.take(x, [3, 2, 1, 0], None, a),
        lambda a, x: np.dot(np.diag([1.0, 2, 3, 4]), x, a),
        lambda a, x: np.clip(x, 0.0, 1.0, a),
        lambda a, x: np.concatenate([x[:2], x[2:]], 0, a),
        lambda a, x: np.stack([x[0], x[1], x[2], x[3]], 0, a),
        lambda a, x: np.round(x, 0, a),
        lambda a, x: np.floor(x, a),
        lambda a, x: x.clip(0.0, 1.0, a),
        lambda a, x: x.cumsum(0, None, a),
        lambda a, x: np.einsum("i,i->i", x, x, out=a),
        lambda a, x: np.matmul(np.eye(4), x, a),
        lambda a, x: np.mean(np.stack([x, x]), 0, None, a),
        lambda a, x: np.prod(np.stack([x, x]), 0, None, a),
        lambda a, x: np.max(np.stack([x, -x]), 0, a),
        lambda a, x: np.var(np.stack([x, -x]), 0, None, a),
        lambda a, x: np.median(np.stack([x, -x]), 0, a),
        lambda a, x: np.outer(x[:1], x, a[None]),
        lambda a, x: np.compress([True] * 4, x, 0, a),
        lambda a, x: np.trace(np.stack([np.outer(x, x)] * 2), 0, 1, 2, None, a[:2]),
    ],
    ids=by_line,
)
def test_write_by_a_function_is_traced_or_raises(write):
    """A write into a buffer that f made gives the correct derivative or an error, never zeros or stale values."""

    def f(x):
        a = np.full(4, 0.25)
        a[3] = 2 * x[3] * x[0]
        write(a, x)
        return a * x[1]

    try:
        check_derivatives(f, X, order=1)
    except (TypeError, UserWarning):  # numpy.random warns when it shuffles element by element
        return


def test_recorded_stores_that_others_overwrite_are_dropped():
    def f(x, reads):
        y = np.zeros(8)
        y[:3] = x[5:]
        total = 0.0
        for _ in range(4):
            y[2:5] = y[2:5] * x[:3] + x[3:6]
            if reads:
                total = total + np.sum(y * y)
        return y + total

    x = np.linspace(0.5, 1.5, 8)
    for reads, stores in ((False, 3), (True, 6)):
        program = wg.record(f, x, args=(reads,))
        assert str(program).count(".at[") == stores
        for exact in (False, True):
            found = wg.record(f, x, args=(reads,), exact=exact)
            assert np.array_equal(found(x, reads), f(x, reads))
        np.testing.assert_allclose(program.jacobian()(x, reads), wg.jacobian(f, x, args=(reads,)), rtol=1e-12)


@pytest.mark.parametrize(("reads", "stores"), [(False, 1), (True, 2)])
def test_stores_of_elements_that_nothing_else_reads_between_become_one(reads, stores):
    def f(x, A):
        y = x * x
        for i in range(5):
            y[i] = A[i] @ x[5:] + y[i + 1] * (np.sum(y) if reads and i == 3 else 1.0)
        y[2] = y[1] * x[0]
        return y

    x, A = np.linspace(0.5, 1.5, 9), np.cos(np.arange(20.0)).reshape(5, 4)
    program = wg.record(f, x, args=(A,))
    assert str(program).count("pack(") == stores
    np.testing.assert_allclose(program(0.9 * x, A), f(0.9 * x, A), rtol=1e-14)
    np.testing.assert_allclose(program.jacobian()(x, A), wg.jacobian(f, x, args=(A,)), rtol=1e-12, atol=1e-14)
    assert np.array_equal(wg.record(f, x, args=(A,), exact=True)(x, A), f(x, A))


def test_source_overwritten_before_it_is_read_raises():
    """NumPy writes elementwise through masks, .flat and ufunc.at without checking for overlap."""
    for write in (
        lambda a: a.__setitem__(np.array([False, True, True, True]), a[:-1]),
        lambda a: setattr(a[::-1], "flat", a),
        lambda a: np.fill_diagonal(a.reshape(2, 2)[::-1], a[::2]),
        lambda a: np.multiply.at(a, [2, 0, 2, 1], a),
    ):

        def f(x, write=write):
            a = x * x
            write(a)
            return a

        for mode in ("reverse", "forward"):
            with pytest.raises(UnsupportedFunctionError, match=r"overwrites elements .*value\.copy\(\)"):
                wg.jacobian(f, X, mode=mode)

    def elements_apart(x):
        a = x * x
        a.flat[1::2] = a[::2]
        a[a > 0.5] = a[a > 0.5][::-1]
        a[np.array([True, True, False, False])] = a[:2]
        np.add.at(a, [0, 1, 1], a[3:])
        return a

    check_derivatives(elements_apart, X, order=1)


def test_failed_writes_leave_the_derivative_usable():
    def f(x):
        F = np.zeros(3)
        F[0] = x[0]
        for bad in (
            lambda: F.__setitem__(slice(0, 2), x),
            lambda: F.__setitem__(7, x[0]),
            lambda: F.__iadd__(x),
        ):
            with pytest.raises((ValueError, IndexError)):
                bad()
        F[1] = x[1] ** 2
        return F

    np.testing.assert_array_equal(wg.jacobian(f, X), [[1, 0, 0, 0], [0, 2.4, 0, 0], [0, 0, 0, 0]])


def test_array_handed_out_before_traced_write_is_named_with_both_lines():
    def f(x):
        F = np.zeros(3)
        assert bytes(F.data) == bytes(24)
        F[0] = x[0]
        return F

    with pytest.raises(wg.TracedValueError, match=r"test_inplace\.py:\d+.*test_inplace\.py:\d+"):
        wg.jacobian(f, X)


# ---- threads, exceptions, interrupts


def busy(x):
    F = np.zeros(400)
    for i in range(400):
        F[i] = x[i % 4] * x[(i + 1) % 4]
    F *= 2
    F[1:] = F[:-1] * 1.0
    v = F[::3]
    v += np.sin(F[::3])
    return F


def test_threads_may_share_a_pullback():
    _, pullback = wg.vjp(busy, X)
    seeds = [np.random.default_rng(i).uniform(-1, 1, 400) for i in range(4)]
    expected = [pullback(seed) for seed in seeds]
    failures = []

    def work(j):
        for i in range(30):
            k = (i + j) % 4
            if not np.array_equal(pullback(seeds[k]), expected[k]):
                failures.append((i, j))

    threads = [threading.Thread(target=work, args=(j,)) for j in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


class Tripwire:
    """A primitive whose pullback raises when armed."""

    def __init__(self, raised):
        self.raised, self.armed = raised, False
        self.call = wg.primitive(lambda x: x * 2.0, vjp=self.pullback)

    def pullback(self, ybar, y, x):
        if self.armed:
            raise self.raised
        return ybar * 2.0


@pytest.mark.parametrize(
    "raised", [ZeroDivisionError("stop"), KeyboardInterrupt(), MemoryError(), SystemExit(3)]
)
@pytest.mark.parametrize("stacked", [False, True])
def test_exception_in_sweep_rolls_buffers_forward(raised, stacked):
    trip, kept = Tripwire(raised), {}

    def f(x):
        F = kept["F"] = np.zeros(4)
        F[0] = x[0]
        F[1:] = x[1:] * x[0]
        G = kept["G"] = trip.call(F)
        F *= 3
        F[0] = F[1]
        F[[2, 2]] = x[:2]
        G[1] = F[2]
        return G + F

    plain, pullback = wg.vjp(f, X)
    buffers = {name: wg.stop_gradient(value).copy() for name, value in kept.items()}
    seed = np.ones((3, 4)) if stacked else np.ones(4)
    before = pullback(seed)
    for _ in range(2):
        trip.armed = True
        with pytest.raises(type(raised)):
            pullback(seed)
        trip.armed = False
        for name, value in kept.items():
            assert_same_bits(wg.stop_gradient(value), buffers[name], name)
        assert_same_bits(pullback(seed), before)
    assert_same_bits(plain, f(X))


@pytest.mark.parametrize("raised", [ZeroDivisionError("stop"), KeyboardInterrupt()])
def test_exception_in_function_leaves_no_state(raised):
    fail = [True]

    def f(x):
        F = np.zeros(4)
        F[0] = x[0] ** 2
        F[1:] = x[1:]
        if fail[0]:
            raise raised
        return F

    J = wg.jacobian(f)
    for _ in range(3):
        fail[0] = True
        with pytest.raises(type(raised)):
            J(X)
        with pytest.raises(type(raised)):
            J.fun(X)
        fail[0] = False
        np.testing.assert_array_equal(J(X), np.diag([0.6, 1, 1, 1]))
    assert type(np.zeros(2)) is np.ndarray
    import wengert.numpy as wnp

    assert type(wnp.zeros(2)) is np.ndarray, "no derivative is running"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs interval timers")
@pytest.mark.parametrize("steps", [3000, 5000, 60000])
@pytest.mark.parametrize("by_elements", [False, True])
def test_keyboard_interrupt_in_sweep_rolls_buffers_forward(steps, by_elements):
    """The signal arrives while a long range of scalar entries between two writes is swept."""
    armed, kept = [0.0], {}

    def arm(ybar, y, x):
        if armed[0]:
            signal.setitimer(signal.ITIMER_REAL, armed[0])
        return ybar * 1.0

    last = wg.primitive(lambda x: x * 1.0, vjp=arm)

    def f(x):
        F = kept["F"] = np.zeros(4)
        F[...] = x * 2
        s = F[0]
        for _ in range(steps):
            s = s * 0.999999 + F[1] * F[2] * 1e-6
        if by_elements:
            F[1] = s
            F[2] = F[1] * F[3]
        else:
            F[...] = x * 3
        return last(s * F[1])

    def interrupt(*_):
        raise KeyboardInterrupt

    former = signal.signal(signal.SIGALRM, interrupt)
    try:
        _, pullback = wg.vjp(f, X)
        expected, buffer = pullback(1.0), wg.stop_gradient(kept["F"]).copy()
        interrupted, settings = 0, np.geterr()
        for delay in (2e-5, 5e-5, 1e-4, 2e-4, 4e-4) * 3:
            armed[0] = delay
            try:
                pullback(1.0)
                time.sleep(0.002)
            except KeyboardInterrupt:
                interrupted += 1
            armed[0] = 0.0
            assert np.geterr() == settings
            assert_same_bits(wg.stop_gradient(kept["F"]), buffer)
            assert_same_bits(pullback(1.0), expected)
        assert interrupted
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def test_loop_assembling_a_long_array_is_swept_in_pieces():
    """The loop has more entries than one piece of the sweep, with writes on both sides of the seams."""

    def f(x):
        F = np.zeros(300_000)
        for i in range(300_000):
            F[i] = x[i & 3] * x[(i + 1) & 3]
        return F[::1000].sum() + F[-1]

    y, pullback = wg.vjp(f, X)
    expected = complex_step(lambda x: 300 * x[0] * x[1] + x[3] * x[0], X)
    assert_rounding(pullback(1.0), expected)
    assert_rounding(pullback(1.0), expected)
    assert_rounding(y, 300 * X[0] * X[1] + X[3] * X[0])


@pytest.mark.parametrize("chunk", [None, 1, 2, 3])
@pytest.mark.parametrize("fun", [np.concatenate, np.stack, np.vstack, np.hstack, np.column_stack, np.dstack])
def test_array_is_accepted_as_sequence_of_its_rows(fun, chunk):
    m = np.array([[1.0, 2.0], [3.0, 4.0]])
    y, J = wg.jacobian(lambda m: fun(m * m), m, chunk=chunk, value=True)
    assert_same_bits(y, fun(m * m))
    assert_rounding(J, complex_step(lambda m: fun(m * m), m))


# ---- work arrays kept between calls


class Workspace:
    """Allocates its work array at the first call and fills it again at each call."""

    def __init__(self):
        self.work = None

    def residual(self, u):
        if self.work is None:
            self.work = np.zeros(u.size)
        self.work[:] = 0.0
        for i in range(u.size):
            self.work[i] += u[i] ** 2
        return self.work * u


def test_work_array_of_object_is_usable_in_later_derivatives_and_plain_calls():
    u = np.array([0.3, 1.2, 0.7])
    model = Workspace()
    for _ in range(2):
        np.testing.assert_allclose(wg.jacobian(model.residual)(u), np.diag(3 * u**2), rtol=1e-14)
        np.testing.assert_array_equal(np.asarray(model.residual(u)), u**2 * u)
    np.testing.assert_array_equal(model.work + 1, u**2 + 1)


def test_stale_work_array_read_before_written_raises():
    u = np.array([0.3, 1.2, 0.7])
    model = Workspace()
    wg.jacobian(model.residual)(u)
    with pytest.raises(wg.LevelError, match="has ended"):
        wg.grad(lambda u: np.sum(model.work * u), u)


def test_divide_with_where_and_out_writes_selected_elements():
    a = np.array([1.0, 2.0, 3.0])
    b = np.array([2.0, 0.0, 4.0])

    def safe(b):
        return np.divide(a, b, out=np.zeros_like(a), where=b != 0)

    value, J = wg.jacobian(safe, b, value=True)
    assert_same_bits(value, safe(b))
    np.testing.assert_array_equal(J, np.diag([-0.25, 0.0, -0.1875]))


def test_shuffle_of_traced_rows_raises_and_names_replacement():
    def f(v):
        a = np.zeros((8, 2))
        a[:, 0] = v
        np.random.default_rng(1).shuffle(a)
        return a[:, 0]

    with pytest.warns(UserWarning, match="shuffling"), pytest.raises(wg.TracedValueError, match="permutation"):
        wg.jacobian(f, np.arange(8.0))


@pytest.mark.parametrize("chunk", [None, 1, 3])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 13])
def test_rows_of_scalar_code_are_swept_at_every_width(n, chunk):
    """Each result depends on few elements, one on all, and one stored value is overwritten."""

    def f(x):
        y = np.zeros(n + 1)
        y[0] = 7.0 * x[0]
        for i in range(n):
            y[i] = x[i] * x[n - 1 - i]
        for i in range(n):
            y[n] = y[n] + 3.0 * y[i]
        return y

    x = np.linspace(0.5, 2.0, n)
    expected = np.zeros((n + 1, n))
    for i in range(n):
        expected[i, i] += x[n - 1 - i]
        expected[i, n - 1 - i] += x[i]
    expected[n] = 3.0 * expected[:n].sum(axis=0)
    found = wg.jacobian(f, mode="reverse", chunk=chunk)(x)
    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_zero_factor_is_strong_zero_within_a_row():
    def f(x):
        s = np.sqrt(x[0])
        return [s * x[1], s * x[2], x[1]]

    found = wg.jacobian(f, mode="reverse")(np.array([0.0, 1.0, 0.0]))
    assert found.tolist() == [[np.inf, 0.0, 0.0], [0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


@pytest.mark.parametrize("function", [np.atleast_1d, np.atleast_2d])
def test_constant_passed_with_traced_value_is_not_written_silently(function):
    outside = np.ones(3)

    def f(x):
        handed, _ = function(outside, x)
        handed[..., 0] = x[0]
        return np.sum(outside)

    with pytest.raises(wg.TracedValueError):
        wg.grad(f, np.ones(3))


# ---- copies of constant arrays

STATE, HALF = np.linspace(0.2, 1.0, 5), np.linspace(0.2, 1.0, 4, dtype=np.float32)


class Rod:
    def __init__(self):
        self.state = np.linspace(0.2, 1.0, 5)

    def ends(self, x):
        u = self.state.copy()
        u[0], u[-1] = x[0], x[1] * u[1]
        return u

    __call__ = ends


class Table:
    """Its methods name nothing of NumPy."""

    def __init__(self):
        self.state = np.linspace(0.2, 1.0, 5)

    def first(self, x):
        u = self.state.copy()
        u[0] = x[0] * x[1]
        return u


def smoothed(x, state, times=2):
    state, old = state.copy(), state
    state[:2] = x[:2]
    for _ in range(times):
        state[1:-1] = 0.5 * (state[2:] * state[:-2]) + old[1:-1]
    return state


def through_a_global(x):
    u = STATE.copy()
    u[1:3] = x[:2]
    return u * STATE


def through_other_methods(x):
    a, b, c = STATE.astype("d"), STATE.reshape(5, 1).flatten(), STATE.T.copy("F")
    a[0], b[1], c[-1] = x[0] * x[1], x[1] ** 2, x[2] * x[0]
    return np.concatenate([a, b, c])


def through_the_module_copy(x):
    state = STATE.view()
    a, b, c = copy.copy(state), copy.deepcopy(state), copy.copy(STATE)
    a[0], b[1], c[2] = x[0] * x[1], x[1] ** 2, x[2]
    return a * b * c


STATES = {"first": STATE, "others": [STATE[::-1], (STATE, 2)]}


def through_copies_of_containers(x, states=STATES):
    held, again = copy.deepcopy(states), copy.deepcopy([x, STATES["first"], STATES["first"]])
    held["first"][0] = x[0] ** 2
    held["others"][0][1:4] = x
    again[1][2] = x[1]
    return held["first"] * held["others"][0] * again[2] * again[0][0]


def by_default(x, state=STATE, *, copied=np.copy):
    u, v = state.copy(), copied(state)
    u[0], v[1] = x[0], x[1]
    return u * v


def through_arithmetic(x):
    state = STATE.reshape(5)
    u, v = 0 * state, state - state.mean()
    u[1:4] = x
    v += u.copy()
    return v * u


def through_single_precision(x):
    u = HALF.copy()
    u[:3] = x
    return u * u


def through_a_new_ndarray(x):
    u = np.ndarray((2, 3)) if isinstance(x, np.ndarray) else None
    u[...] = 1
    u[1] = x * x[0]
    return u


MATRIX = np.linspace(-1.0, 1.0, 15).reshape(5, 3)


def through_the_method_dot(x, held=MATRIX[:3]):
    z = held.dot(x) * MATRIX.reshape(15)[3:6].dot(x) + MATRIX.T.dot(STATE)
    return MATRIX.dot(z) * STATE.dot(MATRIX).dot([x[0], 1.0, x[1] * x[2]])


def through_methods_of_plain_arrays(x):
    i = STATE.searchsorted(x) - 1
    limited = MATRIX.clip(-x[0], x[1]) + WHOLE.clip(x[0], x[2])[:1] * WHOLE[1].clip(max=x[1])
    return limited * (x - STATE[i])


WHOLE, MASK = np.array([[0, 1, 2], [3, 0, 1], [1, 1, 0]]), np.array([True, False, True])


def through_whole_numbers(x):
    u = np.arange(3) / 3
    u[0] = x[1]
    v = -WHOLE + 0.5
    v[MASK, 1:] *= x[:2]
    w = WHOLE[:, 1].astype(float)
    w[1:] += x[:2]
    return WHOLE.dot(u) + v @ w


def through_conditions(x):
    u = 1.0 * (x > 0.5)
    u[1:3] -= x[:2]
    v = MASK.astype(x.dtype)
    v[0] = x[2]
    w = np.where(WHOLE == 1, 1.0, 0.25)
    w[1, :] = x * u
    return w @ v


def through_functions(x):
    u = np.exp(STATE)
    u[[0, 3]] += x[:2]
    v = (np.sqrt(np.arange(6)) + 1).reshape(2, 3)
    v[-1] = x
    w = np.mean(WHOLE, axis=0)
    for i in range(3):
        w[i] = w[i - 1] * x[i]
    return v.T @ u[[0, 3]] * w


ROWS = [STATE[:3] * 1.0, STATE[2:] * 2.0]


def halves():
    return ROWS[0] / 2, ROWS[1] / 2


def each_half():
    for row in ROWS:
        yield row / 2


@contextlib.contextmanager
def lent():
    yield ROWS[0] * 2


def through_unpacking(x):
    (a, b), (c, *d) = halves(), (*halves(), -ROWS[0])
    e = f = ROWS[0] + 0
    a[0], b[1], c[2], d[0][0], d[1][1] = x[0], x[1], x[2], x[0], x[1]
    e[1] = x[2]
    f[2] = x[0]
    return a * b * c * d[0] * d[1] * e


def through_loops(x):
    total, old, new = 0.0, ROWS[0] * 1, ROWS[1] - 1
    for k in range(3):
        new[1:] = old[:-1] * x[1:]
        new[0] = x[k]
        old, new = new, old
    for row in each_half():
        row[1] = x[0]
        total = total + row * old
    for row, other in zip([r + 1 for r in ROWS], map(np.copy, ROWS)):
        row += x
        other[2] = x[1]
        total = total + row * other
    return total


def through_choices(x):
    u = ROWS[0] * 3 if x[0] > 0 else ROWS[1] - 3
    u[0] = x[0]
    if (v := -ROWS[1]).sum() < 0:
        v[1] = x[1]
    w = None
    w = w or (np.exp(ROWS[0]) if x[1] < 0 else ROWS[1] / 3)
    w[2] = x[2]
    with lent() as z:
        z[0] = x[1]
    try:
        raise ValueError
    except ValueError:
        y = ROWS[0] - 1
        y[1] = x[0]
    match halves():
        case (p, q):
            p[0], q[1] = x[1], x[2]
    return u * v + w * z * y + p * q


def through_containers(x):
    held = {"a": ROWS[0] * 2, **{str(i): r.copy() for i, r in enumerate(ROWS)}}
    held["b"] = held["a"] + 1
    for key in held:
        held[key][0] = x[0]
    held.setdefault("c", -ROWS[1])[1] = x[1]
    rows = [r - 1 for r in ROWS]
    rows.append(rows[0] * rows[1])
    rows[0][0], rows[1][1:], rows[2][2] = x[0], x[1:], x[2]
    return sum(held.values()) * rows[0] * rows[1] + rows[2]


class Kept:
    shared = ROWS[0] * 1

    def __init__(self):
        self.u = self.shared - 1
        self.v, self.w = ROWS[1] / 2, types.SimpleNamespace(z=-ROWS[1])

    def fill(self, x):
        self.u[0], self.v[1], self.w.z[2] = x
        self.v += x
        return self.u * self.v * self.w.z


def through_attributes(x):
    class Made:
        u = ROWS[0] * 3

    Made.u[1] = x[2]
    return Kept().fill(x) * Made.u


def write(u, x):
    u[0] = x[1]
    return u


def through_other_functions(x):
    u, v = None, ROWS[0] * 2

    def fill():
        nonlocal u
        u = ROWS[1] * 2
        u[0] = x[0]
        v[1] = x[1]

    fill()
    w, z = ROWS[0] + 1, -ROWS[1]
    np.copyto(w, x)
    np.multiply(x, 2.0, out=z)
    return u * v * write(-ROWS[0], x) * write(ROWS[1] + w, x) * z


def through_results_of_numpy(x):
    (a, b), c = np.divmod(ROWS[1], ROWS[0]), ROWS[0][ROWS[0] > 0]
    values, vectors = np.linalg.eigh(np.diag(ROWS[1]) + 0.1)
    p, q = np.outer(ROWS[0], ROWS[1])[:2]
    grid, _ = np.meshgrid(*ROWS)
    a[0], b[1], c[2], values[0], vectors[1, 1], p[0], q[1], grid[0] = x[0], x[1], x[2], x[0], x[1], x[2], x[0], x
    return a * b * c + vectors @ values + p * q * grid[1] * grid[0]


def over_a_cell():
    state = np.linspace(0.2, 1.0, 5)

    def f(x):
        u = state.copy()
        u[1:3] = x[:2]
        return u * state

    return f


COPIED = {
    "global": through_a_global,
    "cell": over_a_cell(),
    "attribute": Rod().ends,
    "object that is called": Rod(),
    "attribute of a plain class": Table().first,
    "argument": functools.partial(smoothed, state=STATE),
    "argument of a followed function": lambda x: smoothed(x, STATE) * smoothed(x, state=STATE[::-1]),
    "item unpacked into arguments": lambda x, held=(STATE,): smoothed(x, *held),
    "other methods": through_other_methods,
    "module copy": through_the_module_copy,
    "copies of containers": through_copies_of_containers,
    "default": by_default,
    "arithmetic": through_arithmetic,
    "methods of plain arrays": through_methods_of_plain_arrays,
    "whole numbers": through_whole_numbers,
    "conditions": through_conditions,
    "functions": through_functions,
    "unpacking": through_unpacking,
    "loops": through_loops,
    "choices": through_choices,
    "containers": through_containers,
    "attributes": through_attributes,
    "other functions": through_other_functions,
    "results of numpy": through_results_of_numpy,
    "the method dot": functools.partial(through_the_method_dot, held=MATRIX[:3]),
    "ndarray": through_a_new_ndarray,
}


@pytest.mark.parametrize("name", COPIED)
def test_copy_of_constant_array_can_hold_traced_values(name):
    f, x = COPIED[name], np.array([0.3, 0.7, 1.1])
    before = STATE.copy()
    exact = central_differences(f, x)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(wg.jacobian(f, mode=mode)(x), exact, rtol=DIFFERENCES, atol=DIFFERENCES)
    program = wg.record(f, x)
    np.testing.assert_allclose(program.jacobian()(x), exact, rtol=DIFFERENCES, atol=DIFFERENCES)
    np.testing.assert_allclose(wg.jacobian(wg.compile(f))(x), exact, rtol=DIFFERENCES, atol=DIFFERENCES)
    curvature = central_differences(lambda x: wg.jacobian(f)(x), x)
    np.testing.assert_allclose(wg.jacobian(wg.jacobian(f))(x), curvature, rtol=DIFFERENCES, atol=DIFFERENCES)
    assert_same_bits(wg.jacobian(f, value=True)(x)[0], f(x))
    assert_same_bits(STATE, before)


def test_result_that_something_else_refers_to_is_not_replaced():
    held = [np.zeros(3)]

    def shared(x):
        u = np.add(x.size, 1.0, out=held[0])
        u[0] = 2.0
        rows, (v, _) = everything(), (*everything(), 0)
        rows[0][1] = 3.0
        v[2] += 1.0
        for each in map(np.asarray, everything()):
            each[2] += 1.0
        return u * x

    def everything():
        return held

    assert np.array_equal(wg.grad(lambda x: np.sum(shared(x)))(np.ones(3)), [2, 3, 6])
    assert np.array_equal(held[0], [2, 3, 6])


def test_copy_of_single_precision_stays_single():
    x = np.array([0.3, 0.7, 1.1], np.float32)
    found = wg.jacobian(through_single_precision)(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found[:3], np.diag(2 * x), rtol=1e-6)


def test_constant_is_read_at_each_call(monkeypatch):
    compiled = wg.jacobian(wg.compile(through_a_global))
    for factor in (1.0, 2.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "STATE", factor * np.linspace(0.2, 1.0, 5))
        for jacobian in (wg.jacobian(through_a_global), compiled):
            assert_rounding(jacobian([1.0, 2.0])[1, 0], STATE[1])


LATER = np.ones(2)


def test_constant_assigned_by_callee_is_read_after_assignment(monkeypatch):
    monkeypatch.setitem(globals(), "LATER", np.ones(2))
    state = np.ones(2)

    def advance():
        nonlocal state
        globals()["LATER"] = LATER + 1
        state = state + 1

    def f(x):
        advance()
        u = LATER.copy()
        u[0] = x
        return u * state.copy() * state

    for k in (2.0, 3.0):
        y, J = wg.jacobian(f, value=True)(5.0)
        assert_same_bits(y, [5 * k * k, k**3])
        assert_same_bits(J, [k * k, 0])


def by_element(u, x):
    u[0] = x


@pytest.mark.parametrize("store", [by_element, lambda u, x: np.add(u, x, out=u)])
def test_constant_array_and_its_views_cannot_hold_traced_values(store):
    before = STATE.copy()
    for part in (lambda u: u, lambda u: u[1:], lambda u: u.reshape(5, 1)[:, 0], lambda u: u.astype(float, copy=False)):

        def f(x, part=part):
            u = STATE.copy()
            u[0] = x
            store(part(STATE), x)
            return u

        with pytest.raises(wg.TracedValueError, match="plain NumPy array"):
            wg.grad(f, 3.0)
        assert_same_bits(STATE, before)


def test_copied_constant_behaves_as_plain_array():
    def f(x):
        u = state.copy()
        seen.append((repr(state), pickle.loads(pickle.dumps(state)), memoryview(state)[1], state.sum(), state))
        state[3:] += 1.0  # not traced: it is stored in the caller's array
        return u * x

    seen, state = [], STATE.copy()
    wg.jacobian(f, 2.0)
    text, loaded, item, total, view = seen[0]
    assert text == repr(STATE) and type(loaded) is np.ndarray and item == STATE[1]
    assert type(total) is np.float64 and isinstance(view, np.ndarray)
    assert type(wg.grad(lambda x: (x * STATE.copy()[0], STATE), has_aux=True)(2.0)[1]) is np.ndarray
    assert_same_bits(state[3:], STATE[3:] + 1)
    assert type(view.copy()) is type(view + 1) is np.ndarray  # without a derivative it is a plain array


# ---- memory shared with an operand

CALLS = """
np.divide.reduce(x, 0)|np.subtract.reduce(x, 0, keepdims=True)|np.hypot.reduce(x, axis=0)|np.divide.accumulate(x)
np.add.reduce(x, axis=())|np.multiply.reduce(x, axis=None, keepdims=True)|np.maximum.reduce(x, 0)
np.sum(x, axis=())|np.max(x, axis=0)|np.median(x, axis=0)|np.mean(x, axis=0, keepdims=True)|np.cumsum(x)|np.sort(x)
x.conj()|x.conjugate()|np.conj(x)|np.real(x)|np.positive(x)|+x|np.nan_to_num(x)|np.clip(x, None, 9)|np.around(x, 0)
x.copy()|x.astype(float)|x.astype(float, copy=False)|np.copy(x)|np.array(x)|np.asarray(x)|np.asanyarray(x)
np.array(x, copy=None)|np.ascontiguousarray(x)|np.atleast_1d(x)|np.atleast_3d(x)|x.T|x.ravel()|x.flatten()|x[:]|x[None]
np.reshape(x, x.shape)|np.squeeze(x)|np.moveaxis(x, 0, -1)|np.expand_dims(x, 0)|np.flip(x)|np.roll(x, 0)|np.rot90(x, 4)
np.tile(x, 1)|np.repeat(x, 1, axis=0)|np.pad(x, 0)|np.append(x, [])|np.delete(x, [])|np.diff(x, n=0)|np.take(x, [0], 0)
np.concatenate([x])|np.stack([x])|np.hstack([x])|np.split(x, 1)[0]|np.where(True, x, x)|np.triu(x, -9)|np.diag(x)
np.maximum(x, -9)|np.multiply(1.0, x)|x + 0|x**1|np.einsum("ij->ij", x)|np.linalg.matrix_power(x, 1)|np.dot(1.0, x)
""".strip().replace("\n", "|").split("|")


@pytest.mark.parametrize("text", CALLS)
def test_results_are_views_exactly_as_in_numpy(text):
    call, ran = eval(f"lambda x: {text}", globals()), 0

    def f(x):
        z = x * 1.0
        y = call(z)
        if isinstance(y, np.ndarray) and y.ndim:
            y[...] = 2.5 * y + 1.25
        return np.concatenate([np.ravel(z), np.ravel(np.sum(y))])

    for x in ([0.7], [[0.7]], [[0.7, 0.2, 0.5]], [[0.7, 0.2], [0.1, 0.4]]):
        x = np.array(x)
        try:
            expected = f(x)
        except (IndexError, ValueError, np.linalg.LinAlgError):  # another number of axes, or read-only
            continue
        ran += 1
        for mode in ("forward", "reverse"):
            assert_rounding(wg.jacobian(f, mode=mode, value=True)(x)[0], expected)
        for lifted in (lambda: wg.vmap(f)(np.stack([x, x]))[1], lambda x=x: wg.taylor(f, x, np.ones_like(x), 2)[0]):
            try:
                found = lifted()
            except (UnsupportedFunctionError, TracedValueError):
                continue
            assert_rounding(found, expected)
    assert ran


NUMBERS = {
    "slogdet": lambda x: np.linalg.slogdet(np.outer(x, x) + np.eye(4)),
    "modf": lambda x: np.modf(x[0]),
    "choose": lambda x: [np.choose(1, x)],
    "det": lambda x: [np.linalg.det(np.outer(x, x) + np.eye(4))],
}


@pytest.mark.parametrize("name", NUMBERS)
def test_zero_dimensional_results_are_immutable_scalars(name):
    def f(x):
        y = NUMBERS[name](x)
        for part in y:
            assert not isinstance(part, np.ndarray)
            whole = part.reshape(-1)
            whole[::-1] += whole
        return np.stack([1.0 * part for part in y])

    for mode in ("forward", "reverse"):
        assert_rounding(wg.jacobian(f, mode=mode, value=True)(X)[0], f(X))


@pytest.mark.parametrize("call", [lambda x: np.piecewise(x, [x > 0], [np.square]), lambda x: np.real_if_close(x**2)])
def test_zero_dimensional_results_are_arrays_if_numpy_returns_arrays(call):
    def f(x):
        y = call(x)
        assert isinstance(y, np.ndarray)
        y[...] += x
        return y

    for x in (0.5, np.array(0.5)):
        assert f(np.float64(x)) == 0.75 and wg.grad(f)(x) == wg.derivative(f)(x) == wg.taylor(f, x, 1.0, 1)[1] == 2.0


PLACES = [(1, 2), (-1, -3), (np.int64(1), 0), (np.uint8(0), np.int32(-2)), (True + 0, 2)]


@pytest.mark.parametrize("place", PLACES, ids=repr)
@pytest.mark.parametrize("layout", [np.array, np.asfortranarray, lambda x: x[::-1, ::-1]], ids=["C", "F", "reversed"])
def test_elements_of_arrays_of_several_axes_have_derivatives(place, layout):
    def f(x):
        y = layout(np.zeros((2, 3)))
        y[place] = x[place] * x[0, 0]
        y[place] += x[place] ** 2
        return y[place] * y[0, 1] + np.sum(y) * x[1, 1]

    x = layout(np.arange(1.0, 7.0).reshape(2, 3))
    step = 1e-30
    expected = np.empty(x.shape)
    for i in np.ndindex(x.shape):
        moved = x.astype(complex)
        moved[i] += 1j * step
        y = np.zeros((2, 3), complex)
        y[place] = moved[place] * moved[0, 0] + moved[place] ** 2
        expected[i] = np.imag(y[place] * y[0, 1] + np.sum(y) * moved[1, 1]) / step
    for gradient in (wg.grad(f), wg.grad(wg.compile(f)), lambda x: wg.jacobian(f, mode="forward")(x)):
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-14)


@pytest.mark.parametrize("place", [(2, 0), (0, 3), (0, -4), (np.int64(-3), 1)], ids=repr)
def test_out_of_bounds_index_has_numpy_message(place):
    x = np.ones((2, 3))
    with pytest.raises(IndexError) as expected:
        x[place]
    for f in (lambda x: x[place] * 2.0, lambda x: x.__setitem__(place, x[0, 0])):
        with pytest.raises(IndexError) as found:
            wg.grad(f)(x)
        assert str(found.value) == str(expected.value)


K = np.array([[2.0, 1.0], [0.5, 3.0]])


class HolderOfArray:
    def __init__(self):
        self.k = K

    def scaled(self, x):
        a = self.k * 2.0
        a[0, 1] = x[0]
        return a @ x


def negative(x):
    a = -K
    a[0, 0] = x[0]
    return a @ x


def transposed(x):
    a = K.T * 2
    a[0], a[1, 1] = x, x[0] * x[1]
    return a


def product(x):
    a = K @ K
    a[1, 0] = x[0]
    return a @ x


def of_argument(x, k=K):
    a = k / k.sum()
    i = 0
    a[i, i + 1] = x[0] ** 2
    return a @ x


def in_a_loop(x):
    found = []
    for j in range(2):
        a = 1.0 - K[j]
        a[j] += x[j]
        found.append(a)
    return np.concatenate(found) * x[0]


def of_closure(x):
    def inner(k):
        a = k + 0.0
        a[0, 0] = x[0] * x[1]
        return a

    return inner(K) * inner(2.0 * K)


FILLED = [negative, transposed, product, of_argument, in_a_loop, of_closure, HolderOfArray().scaled]


@pytest.mark.parametrize("f", FILLED, ids=lambda f: f.__name__)
def test_results_of_operators_on_arrays_from_outside_can_be_filled(f):
    x, before = np.array([0.7, 1.3]), K.copy()
    expected = np.stack([(f(x + e) - f(x - e)) / 2e-6 for e in 1e-6 * np.eye(2)], -1)
    for jacobian in (wg.jacobian(f), wg.jacobian(f, mode="forward"), wg.jacobian(wg.compile(f))):
        for _ in range(2):
            np.testing.assert_allclose(jacobian(x), expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_array_equal(K, before)
    assert type(f(x)) is np.ndarray


class Reading:
    def __init__(self, x):
        self.x = x

    def __float__(self):
        return float(self.x)


class Place:
    def __init__(self, i):
        self.i = i

    def __index__(self):
        return self.i


def with_objects_as_values(x):
    z = np.zeros((2, 3))
    z[0, 1] = Reading(x[0] * x[1])
    z[1] = Reading(x[2])
    z[0, 0] = Reading(2.0)
    return z * x


def with_objects_as_indices(x):
    z, first, second = np.zeros((2, 3)), Place(0), Place(1)
    z[first, second] = x[second] * x[second]
    z[second] = x * x[Place(-1)]
    z[first, second:] += x[first:Place(2)]
    return z[second, None, ::second] * z[first]


@pytest.mark.parametrize("f", [with_objects_as_values, with_objects_as_indices])
def test_objects_with_conversion_methods_are_values_and_indices(f):
    x = np.array([0.3, 0.7, 1.1])
    exact = central_differences(f, x)
    for derivative in (wg.jacobian(f), wg.jacobian(f, mode="forward"), wg.jacobian(wg.compile(f))):
        np.testing.assert_allclose(derivative(x), exact, rtol=DIFFERENCES, atol=DIFFERENCES)
    with pytest.raises(IndexError):
        wg.jacobian(lambda x: x[Reading(1.0)])(x)


@pytest.mark.parametrize("made", [lambda x: 2.0 * x, np.zeros_like, lambda x: np.zeros(x.size)])
@pytest.mark.parametrize("mode", ["forward", "reverse", "compiled"])
def test_stores_into_a_read_only_array_raise(made, mode):
    def f(x):
        y = made(x)
        y.setflags(write=False)
        x[0].setflags(write=False)
        try:
            y[0] = x[1]
        except ValueError as error:
            if "read-only" in str(error):
                return y * x

    x = np.array([2.0, 3.0])
    J = wg.jacobian(wg.compile(f)) if mode == "compiled" else wg.jacobian(f, mode=mode)
    factor = 4.0 if made(x).any() else 0.0
    np.testing.assert_array_equal(J(x), np.diag(factor * x))
