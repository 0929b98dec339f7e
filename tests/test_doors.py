"""Conversions, type tests, iterators and callbacks of NumPy give traced values the derivatives of plain code."""

import collections.abc
import numbers
import tracemalloc

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided, sliding_window_view

import wengert as wg
from helpers import central_differences
from wengert.core.dispatch import python_ufuncs

X = np.array([0.5, 1.5, 2.5, 0.25])


def filled(a, b=1.0):
    """Store into an array of its own, which only followed code can."""
    out = np.zeros(2)
    out[0], out[1] = a, b
    return out @ out


def ends(v):
    out = np.zeros(2)
    out[0], out[1] = v @ v, v[0]
    return out


square = np.frompyfunc(lambda a: a * a, 1, 1)
both = np.frompyfunc(lambda a: (a * a, 2 * a), 1, 2)
filled_for_each, product = np.frompyfunc(filled, 2, 1), np.frompyfunc(lambda a, b: a * b, 2, 1)
vectorised = np.vectorize(filled)
by_name = {"square": square}


class Cell:
    """An object that converts to an array, by the protocol of NumPy."""

    def __init__(self, array):
        self.array = array

    def __array__(self, dtype=None, copy=None):
        return self.array


def through_array_protocol(x):
    cell = Cell(x * x)
    return np.asarray(cell) @ x + np.dot(cell, x) + np.sum(np.array([cell, cell])) + np.linalg.norm(cell)


def through_nditer_that_writes(x):
    out = np.zeros(4)
    with np.nditer([x, out], op_flags=[["readonly"], ["writeonly"]]) as it:
        for a, b in it:
            b[...] = a * a
    return out @ x


def through_nditer_that_allocates(x):
    with np.nditer([x.reshape(2, 2), None, x[:2]]) as it:
        for a, b, c in it:
            b[...] = a * c
        return it.operands[1].sum()


def through_diagonal(x):
    A = np.zeros((4, 4))
    as_strided(A, (4,), (A.strides[0] + A.strides[1],))[...] = x
    return (A @ x).sum()


def with_errstate(x):
    with np.errstate(divide="ignore"):
        return np.sqrt(x).sum()


def answers(x):
    """Count type tests that answer yes, in the digits of a number."""
    kinds = (
        numbers.Number, numbers.Real, numbers.Complex, numbers.Integral, float, np.floating, np.ndarray,
        collections.abc.Sequence, collections.abc.Iterable, collections.abc.Sized, collections.abc.Container,
    )  # fmt: skip
    names = (
        "__len__", "__array__", "__array_interface__", "__array_struct__", "__iter__", "__float__", "__index__",
        "__array_namespace__", "__array_function__", "__dlpack__", "nonsense", "shape",
    )  # fmt: skip
    found = [isinstance(y, kind) for y in (x, x[0]) for kind in kinds]
    return [*found, *[hasattr(y, name) for y in (x, x[0]) for name in names], np.isscalar(x), np.isscalar(x[0])]


def dtypes(x):
    s, single = x[0], np.float32(1)
    return [
        np.issubdtype(x.dtype, np.floating), np.issubdtype(type(s), np.floating), np.result_type(x, single),
        np.result_type(s, 1), np.result_type(s, 1j), np.can_cast(x.dtype, single.dtype),
        np.isdtype(x.dtype, "integral"),
        np.ndim(s), np.ndim(x), np.ndim([s]), np.shape([s, s]), np.size([x, x]), np.common_type(x), np.iterable(s),
    ]  # fmt: skip


class Held:
    """An object that NumPy reads as the array that it holds."""

    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return self.x.__array__()


#: functions of an array with a scalar value
WORKS = {
    "asarray": lambda x: np.asarray(x) @ np.asarray(x, float) * np.asarray(x[0]),
    "asarray of lists": lambda x: np.asarray([[x[0], 1.0], [2, x[1]]]).sum() * np.asarray([x[0], x[1]]) @ x[2:],
    "asanyarray": lambda x: np.asanyarray(x) @ np.asanyarray([x[0], x[1], 1.0, 2.0]),
    "array": lambda x: np.array(x, copy=True) @ x + (np.array([x, x * x]) @ x).sum() * np.array(x[0], ndmin=2)[0, 0],
    "array with order and dtype": lambda x: np.array(x.reshape(2, 2), order="F")[1] @ np.array([x[0], 2], complex).real,
    "ascontiguousarray": lambda x: np.ascontiguousarray(x[::2]) @ x[:2] * np.ascontiguousarray(x[0])[0],
    "atleast_1d": lambda x: np.atleast_1d([x[0], x[1]]) @ x[:2] * np.atleast_1d(x[0])[0],
    "atleast_2d": lambda x: (np.atleast_2d([x[0], 1.0], x)[1] @ x).sum() * np.atleast_2d(x[0])[0, 0],
    "atleast_3d": lambda x: (np.atleast_3d([[x[0], x[1]]])[0, :, 0] @ x[:2]) * np.atleast_3d(x)[0, 1, 0],
    "errstate": with_errstate,
    "from_dlpack": lambda x: np.from_dlpack(x) @ x,
    "vectorize": lambda x: vectorised(x[:2], x[2:]).sum() * vectorised(x[0]),
    "vectorize with a signature": lambda x: np.vectorize(ends, signature="(n)->(m)")(x.reshape(2, 2)).sum(),
    "vectorize a closure": lambda x: np.vectorize(lambda t: t * x[0])(np.arange(3.0)).sum(),
    "frompyfunc": lambda x: filled_for_each(x, 2.0).sum() * square(x[0]),
    "frompyfunc, broadcast": lambda x: (product(x, x[:, None]) @ x).sum(),
    "frompyfunc of two results": lambda x: both(x)[0] @ both(x)[1],
    "frompyfunc inside": lambda x: np.frompyfunc(lambda a: a * x[1], 1, 1)(x).astype(float).sum(),
    "frompyfunc of constants": lambda x: np.frompyfunc(lambda a: a * x[1], 1, 1)(np.arange(3.0)).sum(),
    "frompyfunc.reduce": lambda x: product.reduce(x) * product.reduce(x.reshape(2, 2), axis=1, keepdims=True)[0, 0],
    "frompyfunc.reduce with initial": lambda x: product.reduce(x, initial=2.0) + product.reduce(x, axis=None),
    "frompyfunc.accumulate": lambda x: product.accumulate(x) @ x,
    "frompyfunc.outer": lambda x: product.outer(x, x[:2]).sum(),
    "__array__ called": lambda x: (x.__array__() ** 2).sum() + x.__array__(np.float64)[0],
    "__array__ of an object": lambda x: np.sum(np.asarray(Held(x)) * 3.0),
    "frompyfunc by name": lambda x: by_name["square"](x).sum(),
    "apply_along_axis": lambda x: (np.apply_along_axis(ends, 0, x.reshape(2, 2)) @ x[:2]).sum(),
    "apply_along_axis of constants": lambda x: np.apply_along_axis(lambda r: r * x[0], 0, np.ones((2, 2))).sum(),
    "apply_over_axes": lambda x: np.apply_over_axes(np.sum, x.reshape(1, 2, 2), [0, 2])[0, 0, 0] * x[0],
    "piecewise": lambda x: np.piecewise(x, [x < 1, x >= 1], [lambda t: t * t, lambda t: 3 * t]) @ x,
    "nditer": lambda x: sum(a * a for a in np.nditer(x)),
    "nditer of two": lambda x: sum(a * b for a, b in np.nditer([x, np.arange(4.0)])),
    "nditer that broadcasts": lambda x: sum(a * b for a, b in np.nditer([x.reshape(2, 2), x[:2]], order="F")),
    "nditer in chunks": lambda x: sum(a @ a for a in np.nditer(x.reshape(2, 2)[:, :1], ["external_loop"])),
    "array protocol": through_array_protocol,
    "nditer that writes": through_nditer_that_writes,
    "nditer that allocates": through_nditer_that_allocates,
    "ndenumerate": lambda x: sum(v * v * (i[0] + 1) for i, v in np.ndenumerate(x)),
    "ndindex": lambda x: sum(x.reshape(2, 2)[i] ** 2 for i in np.ndindex(2, 2)),
    "as_strided": lambda x: as_strided(x, (3, 2), (8, 8)).sum(1) @ x[:3],
    "as_strided of its module": lambda x: np.lib.stride_tricks.as_strided(x[::-1], (2, 2), (-16, -8))[0] @ x[:2],
    "as_strided that writes": through_diagonal,
    "sliding_window_view": lambda x: sliding_window_view(x, 2).sum(1) @ x[:3],
    "broadcast_arrays": lambda x: sum((a * a).sum() for a in np.broadcast_arrays(x, x[:, None], [x[0]])),
    "fromiter": lambda x: np.fromiter((v * v for v in x), float) @ x + np.fromiter(iter(x), np.float64, 2).sum(),
    "type tests": lambda x: np.packbits(answers(x)) @ np.arange(1.0, 7) * x.sum(),
    "dtypes": lambda x: len(str(dtypes(x))) * x.sum(),
}


def slopes(f, h=1e-5):
    return np.array([(f(X + e) - f(X - e)) / (2 * h) for e in np.eye(4) * h])


@pytest.mark.parametrize("name", WORKS)
def test_derivatives_in_each_mode_are_those_of_plain_code(name):
    f = WORKS[name]
    y, expected = float(f(X.copy())), slopes(f)
    value, reverse = wg.grad(f, X, value=True)
    assert value == y
    np.testing.assert_allclose(reverse, expected, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(wg.jacobian(f, X, mode="forward"), reverse, rtol=1e-13)
    compiled = wg.compile(f)
    assert compiled(X) == y
    np.testing.assert_allclose(wg.grad(compiled)(X), reverse, rtol=1e-13)


@pytest.mark.parametrize("name", WORKS)
def test_second_derivatives_are_those_of_the_gradient(name):
    gradient, h = wg.grad(WORKS[name]), 1e-6
    expected = np.stack([(gradient(X + e) - gradient(X - e)) / (2 * h) for e in np.eye(4) * h])
    np.testing.assert_allclose(wg.hessian(WORKS[name], X), expected, rtol=1e-6, atol=1e-6)


def test_writeable_windows_of_traced_arrays_raise():
    with pytest.raises(wg.UnsupportedFunctionError, match="write to the array itself"):
        wg.grad(lambda x: sliding_window_view(x, 2, writeable=True).sum(), X)


def stored_element(x, windows):
    windows(u := x.copy())
    u[2] = x[0] * x[1]
    return u


def clean_then_stored(x, windows):
    u = np.zeros(4)
    windows(u)
    u[:] = x
    u[1:3] *= x[3]
    return u


def stored_by_element(x, windows):
    windows(u := x * 1.0)
    for k in range(4):
        u[k] = u[k] * x[3 - k]
    return u


def stored_through_view(x, windows):
    windows(u := x * 1.0)
    part = u[1:]
    part[1] = x[0] ** 2
    np.copyto(u[:2], x[2:])
    return u


def stored_in_place(x, windows):
    windows(u := x * 1.0)
    u += x[::-1]
    np.multiply(u, x, out=u)
    u[[0, 2]] = x[1:3]
    return u


STORED = [stored_element, clean_then_stored, stored_by_element, stored_through_view, stored_in_place]


def of_windows(store, make):
    """Return a function of windows that are made before the array is written to, and the same without windows."""

    def f(x):
        kept = []
        store(x, lambda u: kept.append(make(u)))
        row = kept[0][1]
        return np.sum(kept[0][:, 0] * kept[0][:, 1] ** 2) + row[0] ** 3

    def plain(x):
        u = store(x, lambda u: None)
        return np.sum(u[:-1] * u[1:] ** 2) + u[1] ** 3

    return f, plain


@pytest.mark.parametrize("store", STORED, ids=lambda f: f.__name__)
@pytest.mark.parametrize("make", [lambda u: sliding_window_view(u, 2), lambda u: as_strided(u, (3, 2), (8, 8))],
                         ids=["sliding_window_view", "as_strided"])  # fmt: skip
def test_windows_follow_later_stores_into_their_array(store, make):
    f, plain = of_windows(store, make)
    np.testing.assert_allclose(f(X), plain(X), rtol=1e-14)
    for op in (wg.value_and_grad, wg.hessian, wg.jacfwd, lambda f: wg.compile(wg.value_and_grad(f))):
        found, expected = op(f)(X), op(plain)(X)
        for x, y in zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]:
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(wg.vmap(f)(np.stack([X, 2 * X])), [plain(X), plain(2 * X)], rtol=1e-14)


@pytest.mark.parametrize("store", STORED, ids=lambda f: f.__name__)
def test_windows_of_taylor_series_follow_stores(store):
    f, plain = of_windows(store, lambda u: sliding_window_view(u, 2))
    np.testing.assert_allclose(wg.taylor(f, X, np.ones(4), 3), wg.taylor(plain, X, np.ones(4), 3), rtol=1e-12)


def test_windows_made_before_a_time_loop_hold_the_current_state():
    weights = np.array([0.2, 0.5, 0.3])

    def f(x, is_made_once):
        u, total = x * 1.0, 0.0
        w = sliding_window_view(u, 3)
        for _ in range(3):
            w = w if is_made_once else sliding_window_view(u, 3)
            u[1:-1] = w @ weights
            total = total + u @ u + (w[0, 1] if is_made_once else u[1])
        return total

    for op in (wg.grad, wg.hessian, lambda f: wg.compile(wg.grad(f))):
        np.testing.assert_allclose(op(lambda x: f(x, True))(X), op(lambda x: f(x, False))(X), rtol=1e-12)


def test_windows_that_are_no_longer_used_take_no_memory():
    def f(x):
        u = np.concatenate([x, np.zeros(1000)])
        total = 0.0
        for k in range(20):  # windows of 2 MB, with four tangents
            total = total + np.sum(sliding_window_view(u, 500)[0, :4])
            u[k % 4] = total * 0.1
        return total

    tracemalloc.start()
    try:
        wg.jacfwd(f)(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 60e6


def test_type_tests_and_dtypes_answer_as_in_plain_code():
    found = []
    wg.grad(lambda x: found.append((answers(x), dtypes(x))) or x.sum(), X)
    assert found == [(answers(X), dtypes(X))]


@pytest.mark.parametrize("name", [name for name in WORKS if "frompyfunc" in name or "vectorize" in name])
def test_callbacks_carry_series_and_run_in_batches(name):
    f = WORKS[name]
    batch = np.stack([X, 2 * X])
    assert np.array_equal(wg.vmap(f)(batch), [f(x) for x in batch])
    if "signature" not in name and "reduce" not in name and "accumulate" not in name:  # these raise for a series
        np.testing.assert_allclose(wg.taylor(f, X, np.ones(4), 1)[1], wg.grad(f, X).sum(), rtol=1e-12)


UNMASKED = np.ma.array([1.0, 2, 3, 4])


@pytest.mark.parametrize(
    "f",
    [
        lambda x, m: x * m,
        lambda x, m: m**2 @ x * np.hypot(m, x),
        lambda x, m: np.dot(m, x) * x,
        lambda x, m: np.concatenate([np.where(m > 2, x, m) * x, x]),
        lambda x, m: np.outer(m, x) @ x / m,
        lambda x, m: (m - x) * (m * x[0]) ** 2 / (m @ [x[0], x[1], 1.0, 2.0]),
        lambda x, m: m**x + (m < x) * x - (m // x[0]) * x,
    ],
)
@pytest.mark.parametrize("mask", [np.ma.nomask, [False] * 4])
def test_masked_array_without_masked_elements_counts_as_its_data(f, mask):
    m = np.ma.array(UNMASKED.data, mask=mask)
    expected = wg.jacobian(lambda x: f(x, m.data))(X)
    for mode in ("forward", "reverse"):
        assert np.array_equal(wg.jacobian(lambda x: f(x, m), mode=mode)(X), expected)
    compiled = wg.compile(wg.jacobian(lambda x: f(x, m)))
    np.testing.assert_allclose(compiled(X), expected, rtol=1e-14)
    m[1] = np.ma.masked
    for derivative in (wg.jacobian(lambda x: f(x, m)), compiled):
        with pytest.raises(REFUSALS, match=MASKED):
            derivative(X)


def made_unmasked(x):
    from numpy.ma import array, masked_invalid

    return array(x, mask=[False] * 4) * np.sum(masked_invalid(x))


UNMASKED_MAKERS = {
    "array": lambda x: np.ma.array(x) + 2.0 * x,
    "array of a list": lambda x: 3.0 * np.ma.array([x[0], x[1] * x[2]], dtype=float, ndmin=2),
    "masked_array": lambda x: np.ma.masked_array(x, [False] * 4) * 2.0,
    "MaskedArray": lambda x: np.ma.MaskedArray(x**2, mask=False, copy=True),
    "asarray": lambda x: np.ma.asarray(x) * np.ma.asanyarray(x**2),
    "masked_where": lambda x: np.exp(np.ma.masked_where(x > 9, x)),
    "import": made_unmasked,
    "class": lambda x: x * isinstance(UNMASKED, np.ma.MaskedArray) * np.ma.MaskedArray.mean(UNMASKED),
}


@pytest.mark.parametrize("name", UNMASKED_MAKERS)
def test_traced_array_made_masked_without_masked_elements_counts_as_its_data(name):
    f = UNMASKED_MAKERS[name]
    plain = central_differences(lambda x: np.asarray(f(x)), X)
    compiled = wg.jacobian(wg.compile(f))
    for derivative in (wg.jacobian(f), wg.jacobian(f, mode="forward"), compiled, compiled):
        np.testing.assert_allclose(derivative(X), plain, rtol=1e-7, atol=1e-7)


M = np.ma.array([1.0, 2, 3, 4], mask=[0, 1, 0, 0])
with pytest.warns(PendingDeprecationWarning):
    MATRIX = np.matrix([[1.0, 2], [3, 4]])
MASKED = r"a traced value cannot (become a|be combined with a numpy\.ma\.)\s?[Mm]asked ?[Aa]rray .*numpy\.where\(mask"
A_MATRIX = r"cannot be combined with a numpy\.matrix .*numpy\.asarray\(m\)"
INSIDE = r"cannot become a plain NumPy array .*np\.stack"
REFUSED = {
    "traced times masked": (lambda x: (x * M).sum(), MASKED),
    "traced scalar times masked": (lambda x: (x[0] * M).sum(), MASKED),
    "masked plus traced": (lambda x: (M + x).sum(), MASKED),
    "masked times traced scalar": (lambda x: (M * x[0]).sum(), MASKED),
    "masked less than traced": (lambda x: x[M < x].sum(), MASKED),
    "a ufunc of masked": (lambda x: np.hypot(M, x).sum(), MASKED),
    "a function of masked": (lambda x: np.dot(x, M), MASKED),
    "a power of masked": (lambda x: (x**M).sum(), MASKED),
    "ma.array": (lambda x: np.ma.array(x, mask=[0, 1, 0, 0]).sum(), MASKED),
    "ma.masked_where": (lambda x: np.ma.masked_where(x > 1, x).sum(), MASKED),
    "ma.sqrt": (lambda x: np.ma.sqrt(x).sum(), MASKED),
    "a view as masked": (lambda x: x.view(np.ma.MaskedArray).sum(), MASKED),
    "traced times matrix": (lambda x: (x.reshape(2, 2) * MATRIX).sum(), A_MATRIX),
    "matrix times traced": (lambda x: (MATRIX * x.reshape(2, 2)).sum(), A_MATRIX),
    "matrix @ traced": (lambda x: (MATRIX @ x[:2]).sum(), A_MATRIX),
    "nditer with buffers": (lambda x: list(np.nditer(x, ["buffered"])), "write a loop over numpy.ndindex"),
    "nditer in chunks that writes": (lambda x: np.nditer(x, ["external_loop"], ["readwrite"]), "leave the flag out"),
    "nditer into a plain array": (lambda x: np.nditer([x, X], op_flags=[["readonly"], ["writeonly"]]), "numpy.empty"),
    "as_strided beyond its memory": (lambda x: as_strided(x, (9,), (8,)).sum(), "outside of a traced array"),
    "frompyfunc where": (lambda x: square(x, where=x > 1).sum(), "option where"),
    "frompyfunc of empty arrays": (lambda x: square(x[:0]).sum(), "no rule for empty arrays"),
    "frompyfunc.reduce over two axes": (lambda x: product.reduce(x.reshape(2, 2), (0, 1)), "loop over one axis"),
    "frompyfunc of a list": (lambda x: square([x[0], x[1]]).sum(), INSIDE),
    "frompyfunc.reduceat": (lambda x: product.reduceat(x, [0, 2]).sum(), "write it as a loop"),
}


MODES = {
    "forward": lambda f: wg.jacobian(f, X, mode="forward"),
    "reverse": lambda f: wg.jacobian(f, X, mode="reverse"),
    "nested": lambda f: wg.hessian(f, X),
}
REFUSALS = (wg.TracedValueError, wg.UnsupportedFunctionError)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", REFUSED)
def test_what_would_lose_the_derivative_is_refused_with_a_remedy(name, mode):
    f, message = REFUSED[name]
    with pytest.raises(REFUSALS, match=message):
        MODES[mode](f)


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("name", [name for name in REFUSED if "mask" in name or "matrix" in name])
def test_masked_arrays_and_matrices_are_refused_by_series_and_right_in_batches(name):
    f, _ = REFUSED[name]
    with pytest.raises(REFUSALS):
        wg.taylor(f, X, X, 1)
    assert np.array_equal(wg.vmap(f)(np.stack([X, 2 * X])), [f(X), f(2 * X)])


def test_overlapping_view_cannot_be_written_to():
    def f(x):
        as_strided(x.copy(), (3, 2), (8, 8))[0, 0] = 1.0

    with pytest.raises(ValueError, match="read-only"):
        wg.grad(f, X)


def test_frompyfunc_of_other_results_gives_object_arrays():
    text = np.frompyfunc(lambda a: f"{a:.1f}", 1, 1)
    assert wg.grad(lambda x: len("".join(text(x))) * x.sum(), X).tolist() == [12.0] * 4
    arrays = np.frompyfunc(lambda a: a * np.arange(2.0), 1, 1)
    assert wg.grad(lambda x: sum(arrays(x))[1], X).tolist() == [1.0] * 4
    with pytest.raises(ValueError, match="binary"):
        wg.grad(lambda x: square.reduce(x), X)


def test_function_behind_a_ufunc_is_found():
    assert python_ufuncs.function_of(filled_for_each) is filled
    assert python_ufuncs.function_of(np.sin) is python_ufuncs.function_of(abs) is None
    assert python_ufuncs.function_of(np.frompyfunc(abs, 1, 1)) is abs


scale = 2.0
scaled = np.frompyfunc(lambda a: scale * a, 1, 1)


def test_compiled_call_of_frompyfunc_watches_what_its_function_reads(monkeypatch):
    f = wg.compile(lambda x: scaled(x).sum())
    assert f(X) == 2 * X.sum()
    monkeypatch.setitem(globals(), "scale", 3.0)
    assert f(X) == 3 * X.sum()
