# ruff: noqa: UP031
"""Exact error messages: what happened, at which line of the user's code, what to write instead; no state remains."""

import dataclasses
import decimal
import functools
import json
import math
import operator
import struct
import types
import zlib

import numpy as np
import pytest

import wengert as wg
from helpers import assert_rounding

X = np.array([0.3, 1.2, -0.7])


def line_of(f, offset=1):
    """Return the location where the body of `f` raises: `offset` lines below its ``def``."""
    return f"{__file__}:{f.__code__.co_firstlineno + offset}"


def check(error, text, call):
    """Check that the call raises `error` with exactly this text, twice, and that derivatives work afterwards."""
    for _ in range(2):
        with pytest.raises(error) as raised:
            call()
        assert str(raised.value) == text
        assert type(raised.value) is error
        assert_rounding(wg.grad(lambda x: np.sum(np.zeros(3) + x * x), X), 2 * X)
        import wengert.numpy as wnp

        assert type(wnp.ones(2)) is np.ndarray, "a derivative is still running"


# ---- no rule


def asking(name):
    """Return a function that dispatches on its operand as NumPy's functions do, but has no rule."""
    from numpy._core.overrides import array_function_dispatch

    def fun(a):
        return a

    fun.__name__ = name
    return array_function_dispatch(lambda a: (a,), module="numpy")(fun)


def test_function_without_rule_is_named_with_nearest_supported_one():
    far, near = asking("xxfftxx"), asking("cumsun")

    def f(x):
        return far(x)

    check(
        wg.UnsupportedFunctionError,
        f"numpy.xxfftxx has no derivative rule ({line_of(f)}): declare one with wengert.primitive(function, "
        f"vjp=...), "
        "or pass wengert.stop_gradient(x) where a constant is meant",
        lambda: wg.jacobian(f, X),
    )

    def g(x):
        return near(x)

    with pytest.raises(
        wg.UnsupportedFunctionError,
        match=r"numpy\.cumsun has no derivative rule .*: did you mean numpy\.cumsum\? Otherwise declare one",
    ):
        wg.grad(g, X)


def test_unsupported_function_states_reason():
    def f(x):
        return np.histogram(x)[0].sum()

    check(
        wg.UnsupportedFunctionError,
        "numpy.histogram has no derivative in its samples: counts jump from one integer to the next; "
        "use a smooth kernel density instead, or weights",
        lambda: wg.grad(f, X),
    )

    def g(x):
        return np.setdiff1d(x, x).sum()

    check(
        wg.UnsupportedFunctionError,
        "numpy.setdiff1d has no derivative: the selection of equal elements is discontinuous in the values; find their "
        f"indices with wengert.stop_gradient(x) and index x by them ({line_of(g)})",
        lambda: wg.grad(g, X),
    )


def test_unsupported_option_is_named():
    def f(x):
        return np.quantile(x, 0.5, weights=[1, 2, 3], method="inverted_cdf")

    check(
        wg.UnsupportedFunctionError,
        f"numpy.quantile has no derivative rule for the option weights ({line_of(f)}): "
        "leave it out, or write the operation with other NumPy functions",
        lambda: wg.grad(f, X),
    )


def test_arguments_are_differentiated_except_traced_indices():
    def f(x):
        return (
            np.ldexp(1.0, 2) * np.heaviside(0.0, x).sum() + np.interp(0.5, X, X) + np.bincount([0, 1, 1], weights=x)[0]
        )

    assert_rounding(wg.grad(f, X), [5, 4, 4])

    def g(x):
        return np.insert(X, x[:1], 1.0)

    with pytest.raises(TypeError):
        wg.grad(g, X)


def test_ufunc_method_without_rule_names_replacement():
    def f(x):
        return np.power.reduce(x)

    check(
        wg.UnsupportedFunctionError,
        f"numpy.power.reduce has no derivative rule ({line_of(f)}): write it as a loop over numpy.power, "
        "or declare a rule with wengert.primitive",
        lambda: wg.grad(f, X),
    )


# ---- traced values stored in plain memory

OUTSIDE = np.zeros(3)

NO_PLACE = (
    "The array was made where wengert does not see it, and the derivative would be lost. "
    "Make it with `import wengert.numpy as np`, or with np.zeros(n, like=x), or copy it with np.copy(a), or build "
    "a list and return it"
)


def test_element_of_plain_array_cannot_hold_traced_value():
    def f(x):
        OUTSIDE[0] = x[0]
        return OUTSIDE

    check(
        wg.TracedValueError,
        f"a traced value cannot be stored in a plain NumPy array: element assignment ({line_of(f)}). {NO_PLACE}",
        lambda: wg.jacobian(f, X),
    )


def test_plain_array_cannot_be_filled_with_traced_value():
    def f(x):
        OUTSIDE.fill(x[0])
        return OUTSIDE

    check(
        wg.TracedValueError,
        f"a traced value cannot be stored in a plain NumPy array: fill ({line_of(f)}). {NO_PLACE}",
        lambda: wg.jacobian(f, X),
    )


def test_slice_of_plain_array_cannot_hold_traced_values():
    def f(x):
        OUTSIDE[:2] = x[:2]
        return OUTSIDE

    check(
        wg.TracedValueError,
        f"a traced value cannot be stored in a plain NumPy array: slice assignment ({line_of(f)}). {NO_PLACE}",
        lambda: wg.jacobian(f, X),
    )


def test_plain_array_as_out_raises():
    def f(x):
        np.sin(x, out=OUTSIDE)
        return OUTSIDE

    check(
        wg.TracedValueError,
        f"a traced value cannot be stored in a plain NumPy array: out= of numpy.sin ({line_of(f)}). {NO_PLACE}",
        lambda: wg.jacobian(f, X),
    )


def test_augmented_assignment_to_plain_array_raises():
    def f(x):
        OUTSIDE.__imul__(x)
        return OUTSIDE

    check(
        wg.TracedValueError,
        f"a traced value cannot be stored in a plain NumPy array: out= of numpy.multiply ({line_of(f)}). {NO_PLACE}",
        lambda: wg.jacobian(f, X),
    )
    assert (OUTSIDE == 0).all()


def test_each_suggested_remedy_works():
    import wengert.numpy as wnp

    def by_import(x):
        F = wnp.zeros(3)
        F[0] = x[0]
        return F

    def by_like(x):
        F = np.zeros(3, like=x)
        F[0] = x[0]
        return F

    def by_list(x):
        return [x[0], 0.0, 0.0]

    for f in (by_import, by_like, by_list):
        assert_rounding(wg.jacobian(f, X), [[1, 0, 0], [0, 0, 0], [0, 0, 0]])


def test_array_handed_out_before_a_write_is_named_with_both_lines():
    def f(x):
        F = np.zeros(3)
        inner = memoryview(F.data)
        F[0] = x[0]
        return F * len(inner)

    with pytest.raises(wg.TracedValueError) as raised:
        wg.jacobian(f, X)
    assert str(raised.value) == (
        f"a traced value cannot be stored in this array ({line_of(f, 3)}): at {line_of(f, 2)} its memory "
        "was passed to code that wengert cannot trace, which would miss the derivative. Pass a copy of the array there"
    )


# ---- conversions to plain values

NO_FLOAT = (
    "its derivative would be lost. Call float(x) or math.sin(x) by its name in the function itself, "
    "or the NumPy function np.sin(x). Use wengert.stop_gradient(x) where a constant is meant"
)
NO_ARRAY = (
    "its derivative would be lost. Use np.stack([...]) to join traced values and NumPy functions "
    "(those of np.linalg) "
    "in place of SciPy's, or wengert.stop_gradient(x) where a constant is meant"
)


@pytest.mark.parametrize("convert", [float, math.sin, math.sqrt, complex, lambda v: "%f" % v])
def test_traced_scalar_cannot_become_a_float_where_names_are_not_followed(convert):
    def f(x):
        return fetched["convert"](x[1]) * x[0]

    fetched = types.MappingProxyType({"convert": functools.partial(convert)})

    with pytest.raises(wg.TracedValueError) as raised:
        wg.grad(f, X)
    text = str(raised.value)
    assert text.startswith(f"a traced value cannot become a Python float ({__file__}:")
    assert text.endswith(f": {NO_FLOAT}")


def test_math_functions_are_named_with_the_line():
    def f(x):
        return fetched["sin"](x)

    fetched = types.MappingProxyType({"sin": functools.partial(math.sin)})
    check(
        wg.TracedValueError,
        f"a traced value cannot become a Python float ({line_of(f)}): {NO_FLOAT}",
        lambda: wg.grad(f, 1.0),
    )


def test_traced_array_cannot_become_a_plain_one():
    asarray = np.asarray

    def f(x):
        return fetched["asarray"](x).sum()

    fetched = types.MappingProxyType({"asarray": functools.partial(asarray)})  # functions in it are not followed
    check(
        wg.TracedValueError,
        f"a traced value cannot become a plain NumPy array ({line_of(f)}): {NO_ARRAY}",
        lambda: wg.grad(f, X),
    )


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        (lambda a, x: a.dot(x), r"write a @ x, or numpy.dot\(a, x\), for a.dot\(x\)"),
        (lambda a, x: a.choose(x), r"plain values only: write numpy.choose\(a, ...\) for a.choose\(...\)"),
    ],
)
def test_method_of_a_plain_array_in_untraced_code_names_replacement(method, remedy):
    methods = {method}
    with pytest.raises(wg.TracedValueError, match=remedy):
        wg.jacobian(lambda x: operator.call(next(iter(methods)), np.arange(3), x), X)


def test_hash_and_pickle_name_remedy():
    import pickle

    def by_hash(x):
        return {x[0]: 1}[x[0]] * x[0]

    check(
        wg.TracedValueError,
        f"a traced scalar cannot be hashed ({line_of(by_hash)}): a cache could return it after its "
        f"derivative has ended. "
        "Use wengert.stop_gradient(x) as the key",
        lambda: wg.grad(by_hash, X),
    )

    def by_pickle(x):
        return pickle.loads(pickle.dumps(x))[0]

    with pytest.raises(wg.TracedValueError, match=r"traced array cannot be pickled: pass wengert\.stop_gradient"):
        wg.grad(by_pickle, X)


def test_attributes_exposing_memory_are_named():
    def f(x):
        return np.frombuffer(x.tobytes())[0]

    check(
        wg.TracedValueError,
        f"ndarray.tobytes would lose the derivative of a traced array ({line_of(f)}): "
        "pass wengert.stop_gradient(array) where a constant is meant",
        lambda: wg.grad(f, X),
    )


# ---- drivers


def vector(x):
    return x * 2


def test_gradient_of_array_output_names_shape_and_jacobian():
    check(
        TypeError,
        "grad(vector): the function must return a single number, its output has shape (3,): "
        "use wengert.jacobian(f), or wengert.vjp(f, x) with a seed",
        lambda: wg.grad(vector, X),
    )
    with pytest.raises(TypeError, match=r"its output has shape \(1,\): use wengert\.jacobian"):
        wg.grad(vector, X[:1])
    with pytest.raises(TypeError, match=r"must return a single number, it returned a container of 2 arrays"):
        wg.grad(lambda x: {"a": x, "b": x}, X)


def test_seed_of_wrong_shape_names_expected_shape():
    _, pullback = wg.vjp(vector, X)
    for seed, shape in (
        (np.ones(2), r"\(2,\)"),
        (1.0, r"\(\)"),
        (np.ones((2, 2)), r"\(2, 2\)"),
        (np.ones((1, 2, 3)), r"\(1, 2, 3\)"),
    ):
        with pytest.raises(ValueError, match=rf"^vjp\(vector\): the cotangent has shape {shape}, expected .*\(3,\)"):
            pullback(seed)
    with pytest.raises(ValueError, match="the cotangent has dtype complex128"):
        pullback(np.ones(3) * 1j)
    assert_rounding(pullback(np.ones(3)), 2 * np.ones(3))
    _, pullback = wg.vjp(lambda x: {"a": x, "b": x}, X)
    for wrong in ({"a": X}, {"a": X, "c": X}, {"a": X, "b": X[:2]}):
        with pytest.raises(ValueError, match=r"^vjp\("):
            pullback(wrong)


class Frame:
    """Stands in for a pandas object, so that pandas need not be installed."""

    __module__ = "pandas.core.frame"


LEFT_OUT = "; register your own class with wengert.register_container"


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (Frame(), r"cannot differentiate with respect to a pandas.core.frame.Frame: pass .to_numpy()"),
        (np.ma.array([1.0, 2.0]), "cannot differentiate with respect to a masked array: pass .filled(value)"),
        (
            np.array([1, "a"], dtype=object),
            "cannot differentiate with respect to an array of dtype object: pass float64 or float32",
        ),
        (
            np.array(["a", "b"]),
            "cannot differentiate with respect to an array of dtype <U1: pass float64 or float32",
        ),
        (
            "text",
            "cannot differentiate with respect to a builtins.str: pass a number, an array, or a dict, list "
            "or dataclass of arrays" + LEFT_OUT,
        ),
        (
            None,
            "cannot differentiate with respect to a builtins.NoneType: pass a number, an array, or a dict, "
            "list or dataclass of arrays" + LEFT_OUT,
        ),
        (
            {1.0, 2.0},
            "cannot differentiate with respect to a builtins.set: pass a number, an array, or a dict, list "
            "or dataclass of arrays" + LEFT_OUT,
        ),
        (
            np.longdouble(1),
            f"cannot differentiate with respect to an array of dtype {np.dtype(np.longdouble)}: pass "
            f"float64 or float32",
        ),
        (
            np.array(["2020-01-01"], dtype="M8[D]"),
            "cannot differentiate with respect to an array of dtype datetime64[D]: pass float64 or float32",
        ),
    ],
    ids=lambda x: type(x).__name__,
)
def test_non_differentiable_input_is_named_by_type(x, text):
    if isinstance(x, np.longdouble) and np.dtype(np.longdouble).itemsize == 8:
        pytest.skip("long double is double here")
    for driver, name in ((wg.grad, "grad"), (wg.jacobian, "jacobian"), (wg.vjp, "vjp")):
        with pytest.raises(TypeError) as raised:
            driver(vector, x)
        assert str(raised.value) == f"{name}(vector): {text}"


@dataclasses.dataclass
class Labelled:
    values: np.ndarray
    label: str
    order: int


def test_registered_class_excludes_non_numeric_fields():
    f, x = (lambda x: np.sum(x.values**x.order) * len(x.label)), Labelled(X, "ab", 3)
    with pytest.raises(TypeError, match=r"with wengert\.register_container"):
        wg.grad(f, x)
    wg.register_container(
        Labelled, lambda x: ([x.values], (x.label, x.order)), lambda parts, rest: Labelled(*parts, *rest)
    )
    for g in (f, wg.compile(f)):
        np.testing.assert_allclose(wg.grad(g)(x).values, 6 * X**2, rtol=1e-14)


def test_numpy_matrix_raises_and_is_named():
    with pytest.warns(PendingDeprecationWarning):
        x = np.asmatrix([1.0, 2.0])
    with pytest.raises(
        TypeError,
        match=r"^grad\(vector\): cannot differentiate with respect to a numpy\.matrix: pass "
        r"numpy\.asarray\(x\)$",
    ):
        wg.grad(vector, x)


@pytest.mark.parametrize("value", [None, "text", {1.0}, object(), Frame(), lambda x: x, iter([1.0])])
def test_non_numeric_output_is_named_by_type(value):
    for driver, name in ((wg.grad, "grad"), (wg.jacobian, "jacobian"), (wg.vjp, "vjp")):
        with pytest.raises(
            TypeError,
            match=rf"^{name}\(.*\): the function returned {type(value).__name__}, which is neither a number",
        ):
            driver(lambda x: value, X)


def test_ragged_input_and_output_are_containers():
    found = wg.grad(lambda rows: np.sum(rows[0] ** 2) * rows[1][0], [[1.0, 2.0], [3.0]])
    assert [part.tolist() for part in found] == [[6, 12], [5]]
    first, second = wg.jacobian(lambda x: [[x[0]], [x[1], x[2]]], X)
    assert np.array_equal(first, np.eye(3)[:1])
    assert np.array_equal(second, np.eye(3)[1:])
    mixed = wg.grad(lambda tree: tree[0] * tree[1][0] * tree[1][1], [2.0, [3.0, 4.0]])
    assert mixed[0] == 12
    assert mixed[1].tolist() == [8, 6]
    assert wg.jvp(lambda rows: rows[0] @ rows[0] + rows[1][0], ([1.0, 2.0], [3.0]), ([1.0, 0.0], [1.0])) == (8, 3)
    compiled = wg.compile(wg.grad(lambda rows: np.sum(rows[0] ** 2) * rows[1][0]))
    assert [part.tolist() for part in compiled([[1.0, 2.0], [3.0]])] == [[6, 12], [5]]


def test_mixing_values_of_two_derivatives_names_both():
    kept = []

    def outer(x):
        wg.grad(lambda z: kept.append(z) or z * z, 2.0)
        return kept[-1] * x[0]

    with pytest.raises(
        wg.LevelError, match=r"a value of grad\(.*outer.*lambda.*\), which has ended, was used in grad\(.*outer\)"
    ):
        wg.grad(outer, X)


def test_value_of_ended_derivative_names_it_and_remedy():
    kept = []

    def keeper(x):
        kept.append(x * 2)
        return x.sum()

    wg.grad(keeper, X)
    name = "grad(test_value_of_ended_derivative_names_it_and_remedy.<locals>.keeper)"
    check(
        wg.LevelError,
        f"a value of {name}, which has ended, was used in grad("
        "test_value_of_ended_derivative_names_it_and_remedy.<locals>.<lambda>.<locals>.<lambda>): "
        "keep wengert.stop_gradient(value) instead of the traced value",
        lambda: wg.grad(lambda x: np.sum(kept[0] * x), X),
    )


def test_errors_derive_from_standard_exceptions():
    assert issubclass(wg.UnsupportedFunctionError, TypeError)
    assert issubclass(wg.TracedValueError, TypeError)
    assert issubclass(wg.LevelError, ValueError)
    assert issubclass(wg.MutatedInputWarning, UserWarning)


# ---- errors raised by the function itself


class Own(Exception):
    pass


def test_exception_of_the_function_propagates_with_its_line():
    def f(x):
        F = np.zeros(3)
        F[0] = x[0]
        raise Own("message")

    for driver in (wg.grad, wg.jacobian, wg.vjp, wg.value_and_grad):
        with pytest.raises(Own) as raised:
            driver(f, X)
        assert raised.value.args == ("message",)
        last = raised.traceback[-1]
        assert (str(last.path), last.lineno + 1) == (__file__, f.__code__.co_firstlineno + 3)
        assert last.name == "f"


def test_numpy_errors_propagate_with_line_of_the_function():
    cases = {
        "shapes": (lambda x: x + np.ones(2), ValueError, "could not be broadcast together"),
        "index": (lambda x: x[7], IndexError, "out of bounds"),
        "matmul": (lambda x: x @ np.ones((2, 2)), ValueError, "matmul"),
        "attribute": (lambda x: x.summ(), AttributeError, "has no attribute 'summ'"),
        "numpy attribute": (lambda x: np.summ(x), AttributeError, "summ"),
        "argument": (lambda x: np.sum(x, axes=0), TypeError, "axes"),
        "axis": (lambda x: np.sum(x, axis=4), ValueError, "axis 4 is out of bounds"),
        "singular": (lambda x: np.linalg.inv(x[:, None] * x), np.linalg.LinAlgError, "Singular"),
        "reshape": (lambda x: x.reshape(2, 2), ValueError, "cannot reshape"),
        "key": (lambda x: {}["k"], KeyError, "k"),
        "store": (lambda x: np.zeros(2).__setitem__(slice(None), x), ValueError, "could not broadcast"),
        "name": (lambda x: undefined_name, NameError, "undefined_name"),  # noqa: F821
        "recursion": (lambda x: endless(x), RecursionError, "recursion"),
    }
    for name, (f, error, text) in cases.items():
        with pytest.raises(error, match=text):
            wg.jacobian(f, X if name != "singular" else np.zeros(3))
        assert_rounding(wg.grad(lambda x: np.sum(x * x), X), 2 * X)


def endless(x):
    return endless(x * 1.0)


# ---- errors raised by SciPy, NumPy and Python


K, M2 = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([[3.0, 1.0], [1.0, 2.0]])
TWO = np.array([1.0, 2.0])


NUMBERS = "use NumPy functions, or wengert.stop_gradient(x) where a constant is meant"
PLAIN = (
    "its derivative would be lost. Use it as it is, in A @ x, sums and multiples, or make a traced array of it with "
    "A.toarray()"
)
STORE = (
    "The array was made where wengert does not see it, and the derivative would be lost. "
    "Make it with `import wengert.numpy as np`, or with np.zeros(n, like=x), or copy it with np.copy(a), or build "
    "a list and return it"
)
outer_array = np.zeros(2)


def store_flat_item(x):
    outer_array.flat[0] = x[0]


def store_flat_slice(x):
    outer_array.flat[:] = x


def store_flat(x):
    outer_array.flat = x


SAID = [
    (
        lambda x: memoryview(x),
        "a traced value cannot go through memoryview ({}), which accepts plain values only. NumPy's views, such as "
        f"x[1:] and x.reshape(...), carry the derivative: {NUMBERS}",
    ),
    (
        lambda x: zlib.crc32(x),
        f"a traced value cannot go through zlib.crc32 ({{}}), which accepts plain values only. U{NUMBERS[1:]}",
    ),
    (
        lambda x: decimal.Decimal(x[0]),
        "a traced value cannot go through decimal.Decimal ({}), which accepts plain values only. Decimal computes with "
        f"decimal digits, which have no derivative: {NUMBERS}",
    ),
    (
        lambda x: json.dumps(x[0]),
        "a traced value cannot go through json ({}), which accepts plain values only. Text has no derivative: "
        f"{NUMBERS}",
    ),
    (
        lambda x: struct.pack("d", x[0]),
        "a traced value cannot become a Python float ({}): its derivative would be lost. Numbers packed by struct have "
        "no derivative. Use wengert.stop_gradient(x) where a constant is meant",
    ),
    (store_flat_item, f"a traced value cannot be stored in a plain NumPy array: element assignment ({{}}). {STORE}"),
    (store_flat_slice, f"a traced value cannot be stored in a plain NumPy array: slice assignment ({{}}). {STORE}"),
    (
        store_flat,
        "a traced value cannot be stored in a plain NumPy array: assignment to an attribute, such as y.flat ({}). "
        + STORE,
    ),
]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize(("f", "said"), SAID)
def test_untraced_code_is_named_with_exact_message(f, said, mode):
    with pytest.raises(wg.TracedValueError) as raised:
        wg.jacobian(f, TWO, mode=mode)
    offset = 1 if f.__name__.startswith("store") else 0
    found = str(raised.value)
    lines = [line_of(f, offset + further) for further in (0, 1)]
    assert found in [said.format(line) for line in lines]


@pytest.mark.parametrize("word", ["jvp", "hvp"])
def test_jax_style_tuple_arguments_are_explained(word):
    with pytest.raises(TypeError) as raised:
        getattr(wg, word)(lambda x: (x**2).sum(), (X,), (X,))
    assert str(raised.value) == (
        f"{word}(test_jax_style_tuple_arguments_are_explained.<locals>.<lambda>): the function failed on "
        "a tuple passed as its single argument: unsupported operand type(s) for ** or pow(): 'tuple' and 'int'. "
        f"Arguments are not wrapped in a tuple here: write {word}(f, x, v) for {word}(f, (x,), (v,)), and {word}(f, x, "
        "(v, w), "
        f"args=(y,), argnums=(0, 1)) for {word}(f, (x, y), (v, w))"
    )
    with pytest.raises(TypeError, match=r"Arguments are not wrapped in a tuple here"):
        getattr(wg, word)(lambda x, y: (x * y).sum(), (X, X), (X, X))


@pytest.mark.parametrize("word", ["grad", "jacobian", "hessian", "vjp", "linearize", "record", "jvp", "hvp"])
def test_jax_style_positional_arguments_are_explained(word):
    names = "f, x, v" if word in ("jvp", "hvp") else "f, x"
    with pytest.raises(TypeError) as raised:
        getattr(wg, word)(lambda x, y: (x * y).sum(), *[X] * names.count(","), X)
    assert str(raised.value) == (
        f"{word}({names}) was given {names.count(',') + 2} positional arguments; pass further arguments of the "
        "function "
        f"as args: write {word}({names}, args=(y,)) for {word}({names}, y)"
    )


def test_tuple_arguments_are_unchanged():
    assert wg.jvp(lambda pair: pair[0] @ pair[1], (X, X), (X, X))[1] == 2 * X @ X
    with pytest.raises(wg.TracedValueError, match=r"^a traced value cannot become a Python float"):
        wg.jvp(lambda pair: "%.17f" % pair[0][0], (X, X), (X, X))


# ---- errors of the function itself


def attribute_of(x):
    return x.missing


def own_error(x):
    raise ValueError("x must be negative")


@pytest.mark.parametrize("word", ["grad", "jacobian", "hessian", "vjp", "record", "jvp", "hvp", "taylor"])
@pytest.mark.parametrize(("g", "error"), [(attribute_of, AttributeError), (own_error, ValueError)])
def test_error_of_the_function_has_a_note(word, g, error):
    directions = {"jvp": (X,), "hvp": (X,), "taylor": (X, 2)}.get(word, ())
    with pytest.raises(error) as raised:
        getattr(wg, word)(lambda x: g(x), X, *directions)
    (note,) = raised.value.__notes__
    assert f" ran {g.__name__} ({line_of(g)}) with traced values in place of numbers. If it does not raise" in note
    assert note.endswith("or pass wengert.stop_gradient(x) where a constant is meant")


def test_plain_calls_and_our_own_errors_have_no_note():
    with pytest.raises(AttributeError) as raised:
        wg.compile(attribute_of)(X)
    assert not hasattr(raised.value, "__notes__")
    with pytest.raises(wg.TracedValueError) as raised:
        wg.grad(lambda x: "%.17f" % x[0], X)
    assert not hasattr(raised.value, "__notes__")
