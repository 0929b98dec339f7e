"""Drivers as a user calls them: arguments, containers, options, repr, pickle, threads, no leaks."""

import collections
import copy
import dataclasses
import functools
import gc
import inspect
import math
import operator
import pickle
import sys
import threading
import tracemalloc
import types
import warnings

import numpy as np
import pytest
from wengert.core.operands.var import is_var

import wengert as wg
from helpers import assert_rounding, assert_same_bits, complex_step

X = np.array([0.3, 1.2, -0.7])


def product(x, a, b=2.0, *, c=1.0):
    """Take every kind of argument."""
    return np.sum(a * x**2) * b + c


def squares(x):
    return x * x


def model(x, a, b):
    return a * np.exp(b * x)


# ---- calls


def test_driver_without_point_returns_callable():
    for op in (wg.grad, wg.gradient, wg.value_and_grad, wg.jacobian, wg.vjp):
        assert callable(op(squares))
    assert_same_bits(wg.jacobian(squares)(X), wg.jacobian(squares, X))


def test_args_and_kwargs_reach_the_function():
    expected = 2 * 3.0 * X * 4.0
    assert_rounding(wg.grad(product, X, args=(3.0, 4.0)), expected)
    assert_rounding(wg.grad(product, X, args=(3.0,), kwargs={"b": 4.0, "c": 9.0}), expected)
    assert_rounding(wg.grad(product)(X, 3.0, 4.0), expected)
    assert_rounding(wg.grad(product)(X, 3.0, b=4.0, c=0.0), expected)
    assert_rounding(wg.grad(product)(X, a=3.0, b=4.0), expected)
    y, pullback = wg.vjp(product, X, args=(3.0,), kwargs={"c": 9.0})
    assert_rounding(y, np.sum(3 * X**2) * 2 + 9)
    assert_rounding(pullback(1.0), 2 * 3.0 * X * 2)


def test_argnums_selects_the_arguments():
    at = (2.0, 3.0, X)
    f = lambda a, b, x: np.sum(a * b**2 * x)
    grads = (9 * X.sum(), 12 * X.sum(), 18.0 * np.ones(3))
    for i in range(3):
        assert_rounding(wg.grad(f, argnums=i)(*at), grads[i])
        assert_rounding(wg.grad(f, argnums=i - 3)(*at), grads[i])
        assert_rounding(wg.grad(f, argnums=np.int64(i))(*at), grads[i])
    for chosen in ((0, 1, 2), (2, 0), (1,), (-1, 0), ()):
        found = wg.grad(f, argnums=chosen)(*at)
        assert type(found) is tuple and len(found) == len(chosen)
        for i, g in zip(chosen, found):
            assert_rounding(g, grads[i])
    assert_rounding(wg.grad(f, argnums=[0, 2])(*at)[1], grads[2])


def test_slice_of_scalar_arguments_gives_array_with_trailing_axis():
    x = np.linspace(0, 1, 5)
    J = wg.jacobian(model, argnums=slice(1, None))
    expected = np.stack([np.exp(0.5 * x), 2.0 * x * np.exp(0.5 * x)], axis=-1)
    assert_rounding(J(x, 2.0, 0.5), expected)
    assert_rounding(wg.grad(lambda a, b, c: a * b * c, argnums=slice(0, 2))(2.0, 3.0, 5.0), [15.0, 10.0])
    value, D = wg.jacobian(model, argnums=slice(1, None), value=True)(x, 2.0, 0.5)
    assert_same_bits(value, model(x, np.float64(2.0), np.float64(0.5)))
    assert_rounding(D, expected)


@pytest.mark.parametrize("argnums", [3, -4, (0, 3), 1.5, "x", None, (0, 0), (0, -3), (0, 1.5)])
def test_invalid_or_repeated_argnums_raise(argnums):
    with pytest.raises((TypeError, ValueError), match="argnums"):
        wg.grad(lambda a, b, c: a * b * c, argnums=argnums)(1.0, 2.0, 3.0)


def test_differentiated_arguments_are_positional():
    with pytest.raises(
        TypeError, match=r"grad\(squares\): argnums=0, but the call has 0 positional arguments"
    ):
        wg.grad(squares)(x=X)
    with pytest.raises(TypeError, match="args and kwargs require a point"):
        wg.grad(squares, args=(1.0,))


def test_same_array_as_two_arguments_is_two_variables():
    a, b = wg.grad(lambda a, b: np.sum(a * b**2), X, args=(X,), argnums=(0, 1))
    assert_rounding(a, X**2)
    assert_rounding(b, 2 * X * X)
    container = {"a": X, "b": X}
    g = wg.grad(lambda p: np.sum(p["a"] * p["b"] ** 2), container)
    assert_rounding(g["b"], 2 * X * X)


def test_value_and_aux_are_returned_in_order():
    f = lambda x: (np.sum(x * x), {"twice": 2 * x, "text": "t", "none": None, "list": [x[0], 1]})
    y, g, aux = wg.grad(f, X, value=True, has_aux=True)
    assert_same_bits(y, np.sum(X * X))
    assert_rounding(g, 2 * X)
    assert_same_bits(aux["twice"], 2 * X)
    assert type(aux["twice"]) is np.ndarray and type(aux["list"][0]) is np.float64
    assert aux["text"] == "t" and aux["none"] is None and aux["list"] == [X[0], 1]
    g, aux = wg.grad(f, X, has_aux=True)
    assert_rounding(g, 2 * X)
    y, g = wg.value_and_grad(lambda x: f(x)[0], X)
    assert_rounding(g, 2 * X)
    assert type(y) is np.float64
    _, pullback, aux = wg.vjp(f, X, has_aux=True)
    assert aux["text"] == "t"
    assert_rounding(pullback(2.0), 4 * X)
    for returned in (lambda x: x[0], lambda x: [x[0], 1], lambda x: (x[0], 1, 2)):
        with pytest.raises(TypeError, match="has_aux=True the function must return a pair"):
            wg.grad(returned, X, has_aux=True)


def test_out_receives_the_derivative():
    out = np.full((3, 3), 7.0)
    J = wg.jacobian(squares)
    assert J(X, out=out) is out
    assert_rounding(out, np.diag(2 * X))
    view = np.full((6, 3), 7.0)
    J(X, out=view[::2])
    assert_rounding(view[::2], np.diag(2 * X))
    assert (view[1::2] == 7).all()
    g = np.empty(3)
    _, found = wg.grad(lambda x: np.sum(x * x), value=True)(X, out=g)
    assert found is g
    for wrong in (np.zeros((2, 3)), np.zeros(3), np.zeros((3, 3, 1))):
        with pytest.raises(ValueError, match=r"out= has shape .* the result has shape \(3, 3\)"):
            J(X, out=wrong)
    with pytest.raises(TypeError):
        J(X, out=np.zeros((3, 3), dtype=int))
    with pytest.raises(TypeError, match="out= needs a single array"):
        wg.jacobian(lambda p: p["x"])({"x": X}, out=np.zeros((3, 3)))


def test_jacobian_shape_is_output_shape_then_input_shape():
    x = np.arange(6.0).reshape(2, 3)
    for f, shape in (
        (lambda x: x.sum(), (2, 3)),
        (lambda x: x[0], (3, 2, 3)),
        (lambda x: x.T, (3, 2, 2, 3)),
        (lambda x: x[:, :, None] * np.ones(4), (2, 3, 4, 2, 3)),
        (lambda x: [x[0, 0], x[1, 1]], (2, 2, 3)),
        (lambda x: [[x[0, 0]], [x[1, 1] * 2]], (2, 1, 2, 3)),
        (lambda x: (x[0, 0], 1.0, x[1, 2]), (3, 2, 3)),
        (lambda x: x[:0], (0, 3, 2, 3)),
        (lambda x: [], (0, 2, 3)),
        (lambda x: np.ones((4, 1)), (4, 1, 2, 3)),
        (lambda x: 3.0, (2, 3)),
        (lambda x: 3, (2, 3)),
        (lambda x: x[0, 0] > 1, (2, 3)),
        (lambda x: [1, 2], (2, 2, 3)),
        (lambda x: x.sum().reshape(1, 1), (1, 1, 2, 3)),
    ):
        J = wg.jacobian(f, x)
        assert np.shape(J) == shape
        assert np.asarray(J).dtype == np.float64
    assert np.shape(wg.jacobian(lambda x: x * np.ones(3), 2.0)) == (3,)
    assert type(wg.jacobian(lambda x: x * x, 2.0)) is np.float64
    assert type(wg.grad(lambda x: x * x, 2)) is np.float64
    assert type(wg.grad(lambda x: x * x, np.float32(2))) is np.float32


def test_empty_arrays_have_empty_derivatives():
    assert wg.grad(lambda x: np.sum(x), np.zeros((0, 3))).shape == (0, 3)
    assert wg.jacobian(lambda x: x * 2, np.zeros(0)).shape == (0, 0)
    assert wg.jacobian(lambda x: np.ones(2), np.zeros(0)).shape == (2, 0)
    _, pullback = wg.vjp(lambda x: x * 2, np.zeros((2, 0)))
    assert pullback(np.zeros((2, 0))).shape == (2, 0) and pullback(np.zeros((5, 2, 0))).shape == (5, 2, 0)
    assert wg.vjp(squares, X)[1](np.zeros((0, 3))).shape == (0, 3)
    assert_rounding(wg.grad(lambda x: np.sum(x) + np.sum(x[5:] * 2) + np.prod(x[:0]), X), np.ones(3))


def test_integers_and_booleans_are_promoted():
    for x in ([1, 2, 3], np.array([1, 2, 3]), np.array([1, 2, 3], dtype=np.int8), (1, 2, 3)):
        g = wg.grad(lambda x: np.sum(x**2), x)
        assert_same_bits(g, np.array([2.0, 4.0, 6.0]))
    assert wg.grad(lambda x: x * 2.5, True) == 2.5
    seen = []
    wg.grad(lambda x: seen.append((x.dtype, x.__class__)) or x * 1.0, 3)
    assert seen == [(np.dtype(float), np.float64)]
    assert wg.grad(lambda x: np.sum(x), np.ones(2, dtype=np.float32)).dtype == np.float32
    assert wg.grad(lambda x: np.sum(x), np.ones(2).astype(">f8")).dtype == np.dtype(float)


# ---- containers

Pair = collections.namedtuple("Pair", "left right")


@dataclasses.dataclass
class Record:
    x: np.ndarray
    k: float


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: np.ndarray
    k: float


@dataclasses.dataclass(slots=True)
class Slotted:
    x: np.ndarray
    k: float


def total(x, k):
    return np.sum(x * x) * k


@pytest.mark.parametrize(
    ("point", "f"),
    [
        ({"x": X, "k": 2.0}, lambda p: total(p["x"], p["k"])),
        (collections.OrderedDict(x=X, k=2.0), lambda p: total(p["x"], p["k"])),
        (Pair(X, 2.0), lambda p: total(p.left, p.right)),
        ([X, 2.0], lambda p: total(p[0], p[1])),
        ((X, 2.0), lambda p: total(*p)),
        (Record(X, 2.0), lambda p: total(p.x, p.k)),
        (Frozen(X, 2.0), lambda p: total(p.x, p.k)),
        (Slotted(X, 2.0), lambda p: total(p.x, p.k)),
        (types.SimpleNamespace(x=X, k=2.0), lambda p: total(p.x, p.k)),
        ({"a": [X], "b": (Pair(2.0, {"c": np.ones(2)}),)}, lambda p: total(p["a"][0], p["b"][0].left)),
    ],
    ids=lambda p: type(p).__name__,
)
def test_result_has_container_type_of_the_input(point, f):
    g = wg.grad(f, point)
    assert type(g) is type(point)
    from wengert.containers import split

    leaves, originals = split(g)[0], split(point)[0]
    assert len(leaves) == len(originals)
    assert_rounding(leaves[0], 2 * X * 2.0)
    assert_rounding(leaves[1], np.sum(X * X))
    assert [np.shape(leaf) for leaf in leaves] == [np.shape(leaf) for leaf in originals]


def test_jacobian_blocks_nest_output_outside_and_input_inside():
    J = wg.jacobian(lambda p: {"u": p[0] * p[1], "v": [p[0], p[1] ** 2]}, [X, 2.0])
    assert_rounding(J["u"][0], 2 * np.eye(3))
    assert_rounding(J["u"][1], X)
    assert_rounding(J["v"][0][0], np.eye(3))
    assert_rounding(J["v"][0][1], np.zeros(3))
    assert_rounding(J["v"][1][0], np.zeros(3))
    assert_rounding(J["v"][1][1], 4.0)


def test_pullback_takes_cotangent_with_structure_of_output():
    _, pullback = wg.vjp(lambda x: {"a": x, "b": 3 * x, "c": x[0]}, X)
    one = {"a": np.ones(3), "b": np.zeros(3), "c": 0.0}
    assert_rounding(pullback(one), np.ones(3))
    assert_rounding(pullback(dict(reversed(one.items()))), np.ones(3))
    stacked = {"a": np.ones((2, 3)), "b": np.zeros((2, 3)), "c": np.array([0.0, 5.0])}
    assert_rounding(pullback(stacked), [[1, 1, 1], [6, 1, 1]])
    for wrong in (
        {"a": np.ones(3), "b": np.zeros(3)},
        {"p": np.ones(3), "q": np.zeros(3), "r": 1.0},
        np.ones(3),
    ):
        with pytest.raises((TypeError, ValueError)):
            pullback(wrong)
    y, pullback = wg.vjp(lambda x: [x[0], x[1] * x[2]], X)
    assert type(y) is np.ndarray
    assert_rounding(pullback([1.0, 0.0]), [1, 0, 0])
    assert_rounding(pullback(np.array([0, 1])), [0, X[2], X[1]])


# ---- the shared evaluation


def test_fun_shares_its_evaluation_with_the_derivative():
    calls = []

    def f(x, k):
        calls.append(1)
        return k * x * x

    J = wg.jacobian(f)
    for point in (X, X + 1):
        del calls[:]
        y = J.fun(point, 2.0)
        assert_same_bits(y, 2.0 * point * point)
        assert_rounding(J(point, 2.0), np.diag(4 * point))
        assert len(calls) == 1
    J.fun(X, 2.0)
    assert_rounding(J(X, 3.0), np.diag(6 * X))
    assert_rounding(J(X + 1, 2.0), np.diag(4 * (X + 1)))
    x = X.copy()
    first = J.fun(x, 2.0)
    x[0] = 9.0
    assert_rounding(J(x, 2.0), np.diag(4 * x), what="the key is the contents, not the object")
    first[:] = 0
    J.fun(X, 2.0)[:] = 0
    assert_same_bits(J.fun(X, 2.0), 2.0 * X * X)


def test_fun_distinguishes_signed_zeros_and_dtypes():
    J = wg.jacobian(lambda x: np.copysign(1.0, x) * x * x)
    J.fun(np.array([0.0, 1.0]))
    assert_same_bits(J.fun(np.array([-0.0, 1.0])), np.array([-0.0, 1.0]))
    J.fun(np.array([0.5, 1.0]))
    assert J.fun(np.array([0.5, 1.0], dtype=np.float32)).dtype == np.float32


def test_fun_stops_recording_while_no_derivative_is_requested():
    kinds = []

    def f(x):
        kinds.append(not is_var(x))
        return np.sin(x) * x[0]

    J = wg.jacobian(f)

    def points(count):
        for _ in range(count):
            x = X + 0.1 * len(kinds)
            assert_same_bits(J.fun(x), np.sin(x) * x[0])
        return x

    points(5)
    assert kinds == [False, False, False, True, True]
    x = points(1)
    np.testing.assert_allclose(J(x), wg.jacobian(lambda x: np.sin(x) * x[0])(x), rtol=1e-14)
    del kinds[:]
    x = points(1)
    J(x)
    assert kinds == [False]  # one recording, made by the derivative


def test_threads_share_one_callable_and_its_fun():
    def f(x):
        s = x[0]
        for _ in range(3):
            s = s * 0.9999 + x[1]
        return [s, x[0]]

    J = wg.jacobian(f)
    points = [np.array([1.0 + k, 2.0]) for k in range(3)]
    values, matrices = [np.array(f(x)) for x in points], [wg.jacobian(f, x) for x in points]
    failures = []

    def work(k):
        x = points[k % 3]
        for i in range(200):
            try:
                for got, expected in (
                    (J.fun(x), values[k % 3]),
                    (J(x), matrices[k % 3]),
                    (J.fun(x), values[k % 3]),
                ):
                    if not np.array_equal(got, expected):
                        failures.append((k, i, got))
            except BaseException as error:
                failures.append((k, i, error))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failures


def in_place(x):
    F = np.zeros(50)
    for i in range(50):
        F[i] = x[i % 3] * x[(i + 1) % 3]
    F *= 1.5
    F[1:] += F[:-1]
    return np.exp(-F * F)


def test_eight_threads_compute_the_same_bits():
    J, g = wg.jacobian(in_place, X), wg.grad(lambda x: in_place(x).sum(), X)
    failures = []

    def work():
        for _ in range(15):
            if not (
                np.array_equal(wg.jacobian(in_place, X), J)
                and np.array_equal(wg.grad(lambda x: in_place(x).sum(), X), g)
            ):
                failures.append(1)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures


# ---- callables


def test_repr_names_operation_function_and_options():
    assert repr(wg.grad(squares)) == "grad(squares)"
    assert (
        repr(wg.jacobian(squares, argnums=(0, 1), value=True))
        == "jacobian(squares, argnums=(0, 1), value=True)"
    )
    assert repr(wg.vjp(squares)) == "vjp(squares)"
    assert "pullback" in repr(wg.vjp(squares, X)[1]) and "squares" in repr(wg.vjp(squares, X)[1])
    assert "sin" in repr(wg.grad(np.sin))
    assert repr(wg.grad(functools.partial(product, a=1.0)))


def test_callables_have_signature_and_docstring_of_the_function():
    for op in (wg.grad, wg.jacobian, wg.vjp):
        assert inspect.signature(op(product)) == inspect.signature(product)
    assert "every kind of argument" in wg.grad(product).__doc__
    assert wg.grad(product).__wrapped__ is product
    assert "product" in wg.grad(product).__name__


@pytest.mark.parametrize(
    "make", [wg.grad, wg.jacobian, wg.vjp, functools.partial(wg.jacobian, argnums=(0,), value=True, chunk=2)]
)
def test_callables_of_module_functions_can_be_pickled_and_copied(make):
    derivative = make(product if make is wg.grad else squares)
    args = (X, 3.0) if make is wg.grad else (X,)
    for twin in (pickle.loads(pickle.dumps(derivative)), copy.copy(derivative), copy.deepcopy(derivative)):
        assert repr(twin) == repr(derivative)
        got, expected = twin(*args), derivative(*args)
        if make is wg.vjp:
            got, expected = got[0], expected[0]
        if isinstance(got, tuple):
            got, expected = got[0], expected[0]
        assert_same_bits(got, expected)


def test_non_callable_raises_at_once():
    for op in (wg.grad, wg.jacobian, wg.vjp):
        with pytest.raises(TypeError, match="expected a function, got float"):
            op(3.0)


@pytest.mark.parametrize("chunk", [0, -1, 1.5, "all"])
def test_invalid_chunk_raises(chunk):
    with pytest.raises((TypeError, ValueError), match="chunk"):
        wg.jacobian(squares, chunk=chunk)(X)


class Stateful:
    def __init__(self):
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return np.sum(x**2) * self.calls

    @classmethod
    def of_class(cls, x):
        F = np.zeros(2)
        F[0] = x[0] ** 2
        return F

    @staticmethod
    def static(x):
        F = np.zeros(2)
        F[1] = x[1] ** 2
        return F

    @property
    def bound(self):
        return lambda x: x[0] * self.calls


def test_all_kinds_of_callables_are_accepted():
    square = lambda x: np.sum(x**2)
    wrapped = functools.wraps(square)(lambda *args: square(*args))
    cached = Stateful()
    for f in (
        square,
        wrapped,
        functools.partial(lambda k, x: k * np.sum(x**2), 1.0),
        cached,
        Stateful().__call__,
    ):
        assert_rounding(wg.grad(f, X), 2 * X)
    assert cached.calls == 1
    assert_rounding(wg.jacobian(Stateful.of_class, X)[0], [2 * X[0], 0, 0])
    assert_rounding(wg.jacobian(Stateful().static, X)[1], [0, 2 * X[1], 0])

    class HasEveryAttribute:
        def __getattr__(self, name):
            return lambda *args: 7.0

        def __call__(self, x):
            return np.sum(x**2)

    assert_rounding(wg.grad(HasEveryAttribute(), X), 2 * X)
    assert_rounding(wg.record(HasEveryAttribute(), X).grad()(X), 2 * X)
    assert_rounding(wg.grad(np.linalg.norm, X), X / np.linalg.norm(X))
    assert_rounding(wg.grad(sum, X), np.ones(3))
    assert_rounding(wg.grad(np.prod, X), np.prod(X) / X)
    assert_rounding(wg.jacobian(np.exp, X), np.diag(np.exp(X)))
    assert_rounding(wg.jacobian(operator.itemgetter(1), X), [0, 1, 0])
    assert_rounding(wg.grad(eval("lambda x: np.sum(np.zeros(3) + x)", {"np": np}), X), np.ones(3))
    namespace = {}
    exec("import numpy as q\ndef f(x):\n    F = q.zeros(3)\n    F[1] = x[0]\n    return F", namespace)
    assert_rounding(wg.jacobian(namespace["f"], X)[1], [1, 0, 0])


def test_arrays_from_numpy_imported_in_any_way_accept_traced_scalars():
    def inside(x):
        import numpy as m
        from numpy import ones

        F = m.zeros(3)
        F[0] = x[0]
        G = ones(3)
        G[1] = x[1]
        return F + G

    assert_rounding(wg.jacobian(inside, X), np.diag([1.0, 1, 0]))

    zeros, alias = np.zeros, np

    def by_cell(x):
        F = zeros(3)
        F[0] = x[0]
        F += alias.full(3, x[1])
        return F

    assert_rounding(wg.jacobian(by_cell, X), [[1, 1, 0], [0, 1, 0], [0, 1, 0]])


def test_plain_numpy_is_unchanged_after_and_outside_derivatives():
    wg.jacobian(in_place, X)
    assert type(np.zeros(2)) is np.ndarray
    assert type(in_place(X)) is np.ndarray
    import wengert.numpy as wnp

    assert type(wnp.zeros(2)) is np.ndarray and wnp.pi is np.pi
    assert wnp.sin(0.5) == np.sin(0.5)


# ---- requested constants


def test_stop_gradient_makes_constants():
    assert_rounding(wg.grad(lambda x: np.sum(x * wg.stop_gradient(x)), X), X)
    assert type(wg.stop_gradient(X)) is np.ndarray
    kinds = []
    wg.grad(
        lambda x: kinds.append([type(wg.stop_gradient(v)) for v in (x, x[0], [x[0]], {"a": x})]) or np.sum(x),
        X,
    )
    assert kinds == [[np.ndarray, np.float64, list, dict]]

    def f(x):
        frozen = wg.stop_gradient(x)
        x = x * 2
        frozen[0] = 100.0
        return x * frozen

    assert_rounding(np.diag(wg.jacobian(f, X)), 2 * np.array([100.0, X[1], X[2]]))


def test_passive_block_computes_constants_and_keeps_writes():
    def f(x):
        F = np.zeros(3)
        with wg.passive():
            F[0] = x[0]
            F[1:] = x[1:]
            s = np.sum(x)
            t = x[0] * x[1]
        F[0] += x[1]
        return F * x * s * t

    def twin(x, c):
        F = c.copy() + 0 * x
        F = np.concatenate([F[:1] + x[1:2], F[1:]])
        return F * x * c.sum() * c[0] * c[1]

    y, J = wg.jacobian(f, X, value=True)
    assert_same_bits(y, f(X))
    assert_rounding(J, complex_step(lambda x: twin(x, X), X))
    with pytest.raises(ZeroDivisionError):
        wg.grad(failing_inside_passive, X)
    assert_rounding(wg.grad(lambda x: np.sum(x * x), X), 2 * X)
    with wg.passive():
        assert_rounding(wg.grad(lambda x: np.sum(x * x), X), 2 * X)


def test_passive_blocks_nest():
    def f(x):
        with wg.passive():
            with wg.passive():
                y = np.exp(x)
            y *= 2.0
        return np.sum(y * x)

    assert_rounding(wg.grad(f, X), 2 * np.exp(X))


def failing_inside_passive(x):
    with wg.passive():
        x[0] / 0.5
        raise ZeroDivisionError
    return x


def test_user_primitive_is_opaque_and_exact():
    seen = []

    @wg.primitive(vjp=lambda ybar, y, x, k: (ybar * k * np.cos(x), None))
    def scaled_sine(x, k):
        seen.append(type(x))
        return k * np.array([math.sin(v) for v in x])

    assert_rounding(wg.jacobian(lambda x: scaled_sine(x * x, 3.0), X), np.diag(3 * np.cos(X * X) * 2 * X))
    assert seen == [np.ndarray]
    assert_same_bits(scaled_sine(X, 2.0), 2.0 * np.array([math.sin(v) for v in X]))
    with pytest.raises(TypeError, match="returns no cotangent for argument 1"):
        wg.grad(lambda x: scaled_sine(X, x).sum(), 2.0)
    with pytest.raises(TypeError, match="by position"):
        wg.grad(lambda x: scaled_sine(X, k=x).sum(), 2.0)
    with pytest.raises(TypeError, match="give its rule as vjp="):
        wg.primitive(math.sin)
    _, pullback = wg.vjp(lambda x: scaled_sine(x, 1.0), X)
    assert_rounding(pullback(np.eye(3)), np.diag(np.cos(X)))


@pytest.mark.parametrize(
    ("rule", "error", "text"),
    [
        (lambda ybar, y, a, b: ybar, TypeError, "must return 2 cotangents"),
        (lambda ybar, y, a, b: (ybar,), TypeError, "must return 2 cotangents"),
        (lambda ybar, y, a, b: (ybar[:2], ybar), ValueError, r"shape \(2,\)"),
        (lambda ybar, y, a, b: (None, ybar), TypeError, "returns no cotangent for argument 0"),
    ],
)
def test_rule_with_wrong_result_raises(rule, error, text):
    f = wg.primitive(lambda a, b: a * b, vjp=rule)
    with pytest.raises(error, match=text):
        wg.jacobian(lambda x: f(x, np.ones(3)), X)
    assert_rounding(wg.grad(lambda x: np.sum(x * x), X), 2 * X)


def test_primitive_keeps_arguments_of_its_call():
    f = wg.primitive(
        lambda x, w, scale=None: x * w * scale, vjp=lambda ybar, y, x, w, scale=None: (ybar * w * scale, None)
    )

    def g(x):
        w, scale = np.array([1.0, 2.0, 3.0]), np.array([2.0])
        y = f(x, w, scale=scale)
        w[:] = 0
        scale[:] = 0
        return y

    assert_rounding(wg.jacobian(g, X), np.diag([2.0, 4, 6]))


def test_comparison_with_differences_counts_digits():
    report = wg.compare(lambda x: np.sin(x) * x[0], X)
    assert report.digits > 6
    assert_rounding(report.exact, wg.jacobian(lambda x: np.sin(x) * x[0], X))
    assert "digits" in str(report)
    wrong = wg.primitive(lambda x: x * x, vjp=lambda ybar, y, x: ybar * x)
    assert wg.compare(lambda x: wrong(x), X).digits < 1


# ---- functions that write into their input


def test_write_into_argument_warns_once_and_leaves_the_argument():
    def f(x):
        x[0] = 2 * x[1]
        return np.sum(x * x)

    x = X.copy()
    with pytest.warns(
        wg.MutatedInputWarning, match="wrote into its argument; the caller's array was left"
    ) as told:
        g = wg.grad(f, x)
    assert told[0].filename == __file__
    assert_rounding(g, [0, 10 * X[1], 2 * X[2]])
    assert_same_bits(x, X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wg.grad(f, x)
        wg.jacobian(f, x)

    def view(x):
        x[1:] *= 2
        return np.sum(x)

    with pytest.warns(wg.MutatedInputWarning) as told:
        wg.grad(view)(x)
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wg.grad(lambda x: (lambda a: a.__imul__(2).sum())(x.copy()), x)
        wg.grad(lambda x: (lambda a: operator.imul(a, 2))(x[0]), x)


# ---- no growth


def mixed(x):
    F = np.zeros(5)
    for i in range(5):
        F[i] = x[i % 3] * x[i % 2]
    F[1:3] += x[:2]
    F = F[[0, 0, 1, 2]]
    G = np.concatenate([F, np.take(x, [0, 1])])
    return np.exp(-G) @ np.ones(6) + np.sum(np.stack([x[0], x[1]]) ** 2)


def raising(x):
    F = np.zeros(3)
    F[0] = x[0] * 2
    raise ZeroDivisionError


def many_calls(count):
    J = wg.jacobian(mixed)
    for _ in range(count):
        wg.grad(mixed, X)
        J(X)
        J.fun(X)
        wg.vjp(mixed, X)[1](1.0)
        wg.vjp(mixed, X)
        wg.grad(lambda x: np.sum(x * x), X)
        with pytest.raises(ZeroDivisionError):
            wg.grad(raising, X)


def test_no_growth_over_two_thousand_calls():
    found = []  # bytes and objects
    tracemalloc.start()
    try:
        many_calls(300)  # fills the caches, which are bounded, so that they are not counted
        for calls in (0, 100, 100, 100):
            many_calls(calls)
            gc.collect()
            found.append((tracemalloc.get_traced_memory()[0], len(gc.get_objects())))
    finally:
        tracemalloc.stop()
    grown, objects = np.diff(found, axis=0).min(axis=0)  # minimum: a large dict may be reallocated once
    assert grown < 6_000
    assert objects < 70


def test_arguments_and_constants_are_not_kept_alive():
    w = np.ones(1000)
    x = np.linspace(0, 1, 1000)
    counts = sys.getrefcount(w), sys.getrefcount(x)
    for _ in range(10):
        wg.grad(lambda x: np.sum(x * w) + np.dot(x, w), x)
        y, pullback = wg.vjp(lambda x: x * w, x)
        pullback(np.ones(1000))
        del y, pullback
    gc.collect()
    assert (sys.getrefcount(w), sys.getrefcount(x)) == counts


def test_memory_is_freed_without_garbage_collector():
    class Marker:
        pass

    import weakref

    gc.collect()
    gc.disable()
    try:
        marker = Marker()
        alive = weakref.ref(marker)

        def f(x, marker):
            F = np.zeros(3)
            F[:] = x * x
            return np.sum(np.take(F, [0, 1, 2]) * np.sort(x))

        y, pullback = wg.vjp(lambda x, marker=marker: f(x, marker), X)
        pullback(1.0)
        wg.grad(lambda x, marker=marker: f(x, marker), X)
        del pullback, marker, y
        assert alive() is None
    finally:
        gc.enable()


# ---- derivatives inside derivatives: an error or the right value, never a wrong one


def test_inner_derivative_at_plain_point_is_constant():
    assert wg.grad(lambda x: wg.grad(lambda z: z * z)(3.0) * x, 2.0) == 6.0
    assert wg.grad(lambda x: wg.jacobian(squares, X).sum() * x, 2.0) == pytest.approx(2 * X.sum())


@pytest.mark.parametrize(
    "f",
    [
        lambda x: wg.grad(lambda z: z * z)(x[0]),
        lambda x: wg.grad(lambda z: np.sum(z * z))(x)[0],
        lambda x: wg.jacobian(lambda z: z * z)([x[0], x[1]])[0, 0],
        lambda x: wg.grad(lambda p: np.sum(p["a"] * p["b"]))({"a": x, "b": 1.0})["b"],
        lambda x: wg.grad(lambda z: z * z * x[0])(3.0),
        lambda x: wg.grad(lambda z, k: z * z * k, 3.0, args=(x[0],)),
        lambda x: np.sum(wg.grad(lambda z: np.sum(z * z * x))(np.ones(3))),
        lambda x: wg.grad(lambda z: x[0], 1.0) * x[0],
        lambda x: wg.grad(lambda z: x[0], 1.0, value=True)[0] * x[0],
        lambda x: wg.jacobian(lambda z: x, 1.0, value=True)[0][0] * x[0],
        lambda x: wg.jacobian(lambda z: [z, x[0]], 1.0)[1] * x[0],
        lambda x: wg.grad(lambda z: (z, x[0]), 1.0, has_aux=True)[1] * x[0],
        lambda x: wg.vjp(lambda z: x * 2.0, 1.0)[0][0] * x[0],
        lambda x: wg.jacobian(lambda z: z * x[0]).fun(2.0) * x[0],
        lambda x: wg.vjp(lambda z: z * z, 3.0)[1](x[0]),
    ],
    ids=range(15),
)
def test_outer_value_inside_inner_derivative_keeps_its_derivative(f):
    """Compare each use of the outer variable with differences of plain values."""
    h = 1e-6
    steps = h * np.eye(X.size)
    expected = np.array([(f(X + step) - f(X - step)) / (2 * h) for step in steps])
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(wg.jacobian(f, X, mode=mode), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, kept: kept[0],
        lambda x, kept: kept[0] * x,
        lambda x, kept: x * kept[0],
        lambda x, kept: [x, kept[0]],
        lambda x, kept: np.stack([x, kept[0]]),
        lambda x, kept: np.sin(kept[0]),
        lambda x, kept: kept[1],
        lambda x, kept: kept[1] * x,
        lambda x, kept: kept[1][0],
        lambda x, kept: np.sum(kept[1]) + x,
        lambda x, kept: kept[1].__setitem__(0, x) or x,
        lambda x, kept: np.concatenate([kept[1], kept[1]]),
        lambda x, kept: np.maximum(x, kept[0]),
        lambda x, kept: kept[0] ** x,
        lambda x, kept: np.arctan2(kept[0], x),
        lambda x, kept: {"a": kept[1]},
        lambda x, kept: -kept[0],
        lambda x, kept: kept[0] + 1.0,
    ],
    ids=range(18),
)
def test_value_of_ended_derivative_raises(f):
    kept = []
    wg.grad(lambda x: kept.extend([x * 2.0, x * np.ones(2)]) or x * x, 3.0)
    with pytest.raises(wg.LevelError, match=r"grad\(.*lambda.*\).*ended"):
        wg.jacobian(lambda x: f(x, kept), 5.0)
    _, pullback = wg.vjp(lambda x: kept.clear() or kept.extend([x * 2.0, x * np.ones(2)]) or x * x, 3.0)
    with pytest.raises(wg.LevelError):
        wg.jacobian(lambda x: f(x, kept), 5.0)
    assert_rounding(pullback(1.0), 6.0)


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(("of_x", "of_y"), [("f4", "f8"), ("f8", "f4")])
def test_jacobian_has_dtype_of_the_variables(mode, of_x, of_y):
    J = wg.jacobian(lambda x: x.astype(of_y) ** 2, np.array([1.0, 2.0], of_x), mode=mode)
    np.testing.assert_array_equal(J, [[2.0, 0.0], [0.0, 4.0]])
    assert J.dtype == of_x
