# These programs are written as users write them, percent formats and index loops included:
# ruff: noqa: C416, C417, PT017, RUF007, RUF015, UP031, UP032
"""Operands in place of scalars and arrays: the same bits, types and attributes, and no silent loss of a derivative."""

import array
import collections
import copy
import decimal
import fractions
import json
import math
import numbers
import operator
import pickle
import struct
import warnings

import numpy as np
import pytest

import wengert as wg
from helpers import DIFFERENCES, assert_rounding, assert_same_bits, central_differences
from wengert.testing import check_derivatives

RNG = np.random.default_rng(60)
VALUES = np.exp(RNG.uniform(-2, 2, 24)) * RNG.choice([-1.0, 1.0], 24)
POSITIVE = np.abs(VALUES)


def laid_out(values, layout, dtype):
    """Return the same values in another memory layout."""
    flat = np.asarray(values, dtype=dtype)
    wide = np.zeros(2 * flat.size, dtype=dtype)
    wide[::2] = flat
    return {
        "0-d": lambda: flat[0].reshape(()).copy(),
        "one": lambda: flat[:1].copy(),
        "1-d": lambda: flat.copy(),
        "strided": lambda: wide[::2],
        "negative": lambda: flat.copy()[::-1],
        "negative strided": lambda: wide[::-2],
        "2-d": lambda: flat.reshape(4, 6).copy(),
        "fortran": lambda: np.asfortranarray(flat.reshape(4, 6)),
        "transposed": lambda: flat.reshape(6, 4).copy().T,
        "rows reversed": lambda: flat.reshape(4, 6).copy()[::-1],
        "columns reversed": lambda: flat.reshape(4, 6).copy()[:, ::-1],
        "block": lambda: np.tile(flat.reshape(4, 6), (2, 2))[:4, 3:9],
        "column": lambda: flat.reshape(24, 1).copy(),
        "empty": lambda: flat[:0].reshape(0, 3).copy(),
    }[layout]()


LAYOUTS = (
    "0-d|one|1-d|strided|negative|negative strided|2-d|fortran|transposed|rows reversed|columns "
    "reversed|block|column|empty"
).split("|")


def value_of(f, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return wg.vjp(f, x)[0]


def plain_value(f, x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return f(x)


UNARY = {
    name: (lambda x, fun=getattr(np, name): fun(x))
    for name in (
        "negative positive absolute fabs square sqrt cbrt exp exp2 expm1 log log2 log10 log1p sin cos tan "
        "arcsin arccos "
        "arctan sinh cosh tanh arcsinh arccosh arctanh deg2rad rad2deg degrees radians reciprocal sign "
        "floor ceil trunc "
        "rint conjugate sinc i0 isfinite signbit nan_to_num"
    ).split()
}
UNARY |= {
    "-x": lambda x: -x,
    "+x": lambda x: +x,
    "abs(x)": lambda x: abs(x),
    "x**2": lambda x: x**2,
    "x**2.0": lambda x: x**2.0,
    "x**3": lambda x: x**3,
    "x**-1": lambda x: x**-1,
    "x**0": lambda x: x**0,
    "x**1": lambda x: x**1,
    "x**0.5": lambda x: abs(x) ** 0.5,
    "x**float64": lambda x: x ** np.float64(2.0),
    "x**1.7": lambda x: abs(x) ** 1.7,
    "power(x, 2)": lambda x: np.power(x, 2),
    "power(x, 3)": lambda x: np.power(x, 3.0),
    "1.7**x": lambda x: 1.7**x,
    "2**x": lambda x: 2**x,
    "sum": lambda x: np.sum(x),
    "sum axis": lambda x: x.sum(axis=-1) if x.ndim else x.sum(),
    "mean": lambda x: x.mean(),
    "prod": lambda x: np.prod(x),
    "var": lambda x: x.var() if x.size else x.sum(),
    "max": lambda x: np.max(x) if x.size else x.sum(),
    "cumsum": lambda x: np.cumsum(x),
    "cumprod axis": lambda x: np.cumprod(x, axis=0) if x.ndim else x * 1,
    "dot": lambda x: np.dot(x, x.T),
    "matmul": lambda x: x @ x.T if x.ndim else x * x,
    "chain": lambda x: np.exp(-x * x) / (1 + np.sin(x) ** 2) + x,
    "in place": lambda x: (lambda a: [a.__imul__(3), a.__iadd__(x), a][-1])(x.copy()) if x.ndim else x * 3,
    "reversed": lambda x: np.exp(x[::-1]) if x.ndim else x * 1,
    "loop": lambda x: sum(v * v + 1 for v in x.ravel()),
    "copy": lambda x: x.copy(),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", UNARY)
def test_values_are_bit_identical_to_numpy_in_every_layout(name, dtype):
    f = UNARY[name]
    for layout in LAYOUTS:
        x = laid_out(VALUES, layout, dtype)
        assert_same_bits(value_of(f, x), plain_value(f, laid_out(VALUES, layout, dtype)), layout)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", UNARY)
def test_scalars_have_bits_and_type_of_numpy_scalars(name, dtype):
    f = UNARY[name]
    for v in VALUES[:12]:
        x = dtype(v)
        got, expected = value_of(f, x), plain_value(f, x)
        assert_same_bits(got, expected)
        if not isinstance(expected, (bool, np.bool)):
            assert type(got) is type(expected)


OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
    "%": operator.mod,
    "//": operator.floordiv,
    "add": lambda a, b: np.add(a, b),
    "subtract": lambda a, b: np.subtract(a, b),
    "multiply": lambda a, b: np.multiply(a, b),
    "divide": lambda a, b: np.divide(a, b),
    "power": lambda a, b: np.power(a, b),
    "remainder": lambda a, b: np.remainder(a, b),
    "fmod": lambda a, b: np.fmod(a, b),
    "maximum": lambda a, b: np.maximum(a, b),
    "minimum": lambda a, b: np.minimum(a, b),
    "fmax": lambda a, b: np.fmax(a, b),
    "fmin": lambda a, b: np.fmin(a, b),
    "hypot": lambda a, b: np.hypot(a, b),
    "arctan2": lambda a, b: np.arctan2(a, b),
    "logaddexp": lambda a, b: np.logaddexp(a, b),
    "copysign": lambda a, b: np.copysign(a, b),
    "where": lambda a, b: np.where(np.greater(a, b), a, b),
    "divmod": lambda a, b: np.stack(divmod(a, b)),
    "<": operator.lt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}

OTHERS = {
    "int": 3,
    "float": 2.7,
    "bool": True,
    "negative zero": -0.0,
    "float64": np.float64(2.7),
    "float32": np.float32(2.7),
    "float16": np.float16(2.7),
    "int64": np.int64(3),
    "uint8": np.uint8(3),
    "np.bool": np.True_,
    "0-d": np.array(2.7),
    "0-d int": np.array(3),
    "0-d float32": np.array(2.7, dtype=np.float32),
    "vector": np.array([0.4, 1.7, 2.0]),
    "reversed vector": np.array([0.4, 1.7, 2.0])[::-1],
    "column": np.array([[0.4], [1.7]]),
    "fortran": np.asfortranarray([[0.4, 1.7, 2.0], [3.0, 0.3, 1.0]]),
    "float32 vector": np.array([0.4, 1.7, 2.0], dtype=np.float32),
    "ints": np.array([1, 2, 3]),
    "bools": np.array([True, False, True]),
    "swapped": np.array([0.4, 1.7, 2.0]).astype(">f8"),
    "list": [0.4, 1.7, 2.0],
    "tuple": (1, 2, 3),
}

LEFT = {
    "scalar": np.float64(1.3),
    "float32 scalar": np.float32(1.3),
    "0-d array": np.array(1.3),
    "vector": np.array([0.7, 1.3, 2.9]),
    "matrix": np.array([[0.7, 1.3, 2.9], [1.1, 0.23, 4.9]]),
    "float32 matrix": np.array([[0.7, 1.3, 2.9], [1.1, 0.23, 4.9]], dtype=np.float32),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("op", OPERATORS)
def test_two_operands_mix_as_in_numpy(op, other):
    """Value and type are bit-identical, with the traced operand on either side."""
    f, b = OPERATORS[op], OTHERS[other]
    for name, x in LEFT.items():
        for g in (lambda x: f(x, b), lambda x: f(b, x)):
            try:
                expected = plain_value(g, x)
            except TypeError:
                continue
            got = value_of(g, x)
            assert_same_bits(got, expected, f"{name}")


@pytest.mark.parametrize(
    "other", [o for o in OTHERS if o not in ("float16", "float32", "0-d float32", "float32 vector")]
)
@pytest.mark.parametrize("op", [o for o in OPERATORS if o not in ("//", "divmod", "<", ">=", "==", "!=")])
def test_derivative_of_two_operands_equals_differences(op, other):
    f, b = OPERATORS[op], OTHERS[other]
    for name in ("scalar", "0-d array", "vector", "matrix"):
        x = LEFT[name]
        for g in (lambda x: f(x, b), lambda x: f(b, x)):
            try:
                y = plain_value(g, x[()])
            except TypeError:
                continue
            if not np.isfinite(y).all():  # a division by 0
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                expected = central_differences(lambda x: g(x[()]), x)
                J = wg.jacobian(g, x)
            np.testing.assert_allclose(J, expected, rtol=DIFFERENCES, atol=1e-7, err_msg=name)


@pytest.mark.parametrize("op", [o for o in OPERATORS if o not in ("<", ">=", "==", "!=")])
def test_derivative_of_two_traced_operands_equals_differences(op):
    f = OPERATORS[op]
    pairs = [
        (1.3, 0.7),
        (np.array([0.7, 1.3]), 2.1),
        (0.4, np.array([1.7, 1.3])),
        (np.array([[0.7], [2.3]]), np.array([1.9, 0.8])),
    ]
    for a, b in pairs:
        check_derivatives(f, a, args=(b,), argnums=(0, 1))
        check_derivatives(lambda a: f(a, a * a + 0.1), a)


def test_scalar_powers_equal_numpy_scalar_operator():
    """The operator on scalars and the ufunc differ in the last bit for a few percent of operands."""
    bases = np.exp(np.random.default_rng(61).uniform(-5, 3, 1500))
    forms = {
        "x**3": lambda x: x**3,
        "x**1.7": lambda x: x**1.7,
        "2.3**x": lambda x: 2.3**x,
        "float64**x": lambda x: np.float64(2.3) ** x,
        "float32**x": lambda x: np.float32(2.3) ** x,
        "int64**x": lambda x: np.int64(3) ** x,
        "x**float32": lambda x: x ** np.float32(1.7),
        "x**int64": lambda x: x ** np.int64(3),
        "power": lambda x: np.power(x, 1.7),
        "power of float64": lambda x: np.power(np.float64(2.3), x),
        "float_power": lambda x: np.float_power(x, 1.7),
        "vector base": lambda x: bases[:8] ** x,
        "vector exponent": lambda x: x ** bases[:8],
        "fast exponents": lambda x: np.stack(
            [(x * bases[:8]) ** p for p in (2, 2.0, np.float64(2.0), 0.5, -1, 1, 0)]
        ),
        "exponent of a traced scalar": lambda x: bases[:8] ** (0 * x + 2),
    }
    for name, f in forms.items():
        for v in bases[:400]:
            assert_same_bits(value_of(f, v), plain_value(f, np.float64(v)), name)


def test_long_arrays_are_bit_identical_to_numpy():
    """Long enough for vector loops, pairwise sums and blocked products."""
    x = np.random.default_rng(62).normal(size=20_001)
    forms = {
        "dot": lambda x: np.dot(x, x),
        "dot with a constant": lambda x: x @ np.cos(np.arange(x.size)),
        "sum": lambda x: x.sum(),
        "sum of a view": lambda x: x[::3].sum() + x[::-1].sum(),
        "exp": lambda x: np.exp(x),
        "exp backwards": lambda x: np.exp(x[::-1]),
        "tanh": lambda x: np.tanh(x),
        "chain": lambda x: np.exp(x) * 2 + x**3 - np.log(np.abs(x)) / (1 + x * x),
        "power": lambda x: np.abs(x) ** 1.3,
        "matmul": lambda x: x[:20000].reshape(100, 200) @ x[:20000].reshape(100, 200).T,
        "in place": lambda x: (lambda a: [a.__imul__(x), a.__iadd__(2.0), a[::2].__imul__(3.0), a][-1])(
            x.copy()
        ),
        "mean": lambda x: x[:20000].reshape(100, 200).mean(axis=0),
    }
    for layout in (x, x[::2], x[::-1], x[::-3], x[1:]):
        for name, f in forms.items():
            if "200" not in f.__code__.co_consts.__repr__() or layout.size >= 20000:
                assert_same_bits(value_of(f, layout), f(layout.copy() if layout is x else layout), name)
    for dtype in (np.float32,):
        for name, f in forms.items():
            assert_same_bits(value_of(f, x.astype(dtype)), f(x.astype(dtype)), name)


def test_intermediate_arrays_have_numpy_strides():
    seen = []

    def f(x):
        for y in (x, x.T, x * 2, np.exp(x.T), x + x.T.copy().T, x[::-1], x.copy(), x[:, ::2] * 1.0):
            seen.append(y.strides)
        return x.sum()

    for x in (
        VALUES.reshape(4, 6),
        np.asfortranarray(VALUES.reshape(4, 6)),
        VALUES.reshape(4, 6)[::-1, ::-1],
    ):
        del seen[:]
        f(x)
        expected = list(seen)
        del seen[:]
        wg.grad(f, x)
        assert seen == expected


# ---- every attribute


#: attribute of a traced float64: "traced" (a derivative follows), "plain" (constant, or metadata), "raises"
SCALAR_ATTRIBUTES = {
    "traced": "T clip conj conjugate copy cumprod cumsum flatten max mean min prod ravel real repeat "
    "reshape squeeze "
    "std sum take transpose var astype item",
    "plain": "all any argmax argmin argsort device dtype flags imag is_integer itemsize nbytes ndim round "
    "setflags shape size strides",
    "raises": "as_integer_ratio base byteswap choose compress data diagonal dump dumps fill fromhex "
    "getfield hex "
    "nonzero put resize searchsorted setfield sort swapaxes to_device tobytes tofile trace",
    "either": "flat tolist view",
}

ARRAY_ATTRIBUTES = {
    "traced": "T astype clip compress conj conjugate copy cumprod cumsum diagonal dot flatten item mT max mean "
    "min prod ravel "
    "real repeat reshape squeeze std sum swapaxes take trace transpose var view",
    "plain": "all any argmax argmin argpartition argsort device dtype fill flags imag itemsize nbytes ndim "
    "nonzero round "
    "searchsorted setflags shape size strides",
    "raises": "base byteswap choose ctypes data dump dumps getfield resize setfield tobytes tofile",
    "either": "flat partition put sort to_device tolist",
}

ARGUMENTS = {
    "astype": (np.float32,),
    "clip": (0.0, 1.0),
    "choose": ([np.ones((2, 2)), np.ones((2, 2))],),
    "compress": ([True, False], 0),
    "dot": (np.eye(2),),
    "dump": ("/nowhere/at/all",),
    "fill": (0.5,),
    "fromhex": ("0x1p0",),
    "getfield": (np.float64,),
    "item": (0,),
    "partition": (1,),
    "argpartition": (1,),
    "put": ([0], 1.0),
    "repeat": (2,),
    "reshape": (-1,),
    "resize": ((2, 2),),
    "searchsorted": (0.5,),
    "setfield": (1.0, np.float64),
    "swapaxes": (0, 1),
    "take": ([0],),
    "to_device": ("cpu",),
    "tofile": ("/nowhere/at/all",),
    "view": (),
}

MATRIX = np.array([[0.3, 1.2], [0.7, 2.1]])


def use(operand, name):
    attribute = getattr(operand, name)
    return attribute(*ARGUMENTS.get(name, ())) if callable(attribute) else attribute


def operand_of(kind, x):
    if kind == "scalar":
        return x[0, 1]
    return x[0] if isinstance(kind, str) and kind == "row" else x


@pytest.mark.parametrize(
    ("base", "table"),
    [(np.float64, SCALAR_ATTRIBUTES), (np.ndarray, ARRAY_ATTRIBUTES)],
    ids=["float64", "ndarray"],
)
def test_every_attribute_is_classified(base, table):
    names = [name for group in table.values() for name in group.split()]
    assert len(names) == len(set(names))
    public = {name for name in dir(base) if not name.startswith("_")}
    assert public - set(names) == set(), "attributes that no group holds"


def attribute_cases():
    for kind, table, base in (
        ("scalar", SCALAR_ATTRIBUTES, np.float64),
        ("array", ARRAY_ATTRIBUTES, np.ndarray),
    ):
        for group, names in table.items():
            for name in names.split():
                if hasattr(base, name):
                    yield pytest.param(kind, name, group, id=f"{kind}-{name}")


@pytest.mark.parametrize(("kind", "name", "group"), list(attribute_cases()))
def test_attribute_works_or_raises_but_never_loses_a_derivative(kind, name, group):
    matrix = MATRIX[0] if (kind, name) in {("array", "searchsorted")} else MATRIX

    def f(x):
        operand = x[0, 1] if kind == "scalar" else x.copy()
        seen.append(use(operand, name))
        return operand * 1.0

    seen = []
    try:
        wg.vjp(f, matrix)
    except (wg.UnsupportedFunctionError, wg.TracedValueError) as error:
        assert group in ("raises", "either"), error
        assert name in str(error)
        return
    except Exception as error:  # NumPy may raise where it raises for plain arrays
        assert not isinstance(error, AttributeError)
        with pytest.raises(type(error)):
            use(matrix[0, 1] if kind == "scalar" else matrix.copy(), name)
        return
    (result,) = seen
    plain = use(matrix[0, 1] if kind == "scalar" else matrix.copy(), name)
    assert group != "raises"
    if group == "plain":
        assert str(wg.stop_gradient(result)) == str(plain)
        return
    if isinstance(plain, np.ndarray | np.generic):
        assert_same_bits(wg.stop_gradient(result), plain)

    def follow(x):
        found = use(x[0, 1] if kind == "scalar" else x.copy(), name)
        return (
            np.stack(list(found))
            if name in ("flat",)
            else (np.array(found) if name == "tolist" else found * 1.0)
        )

    if plain is not None:
        tolerance = 1e-2 if name == "astype" else DIFFERENCES
        step = 1e-2 if name == "astype" else 1e-6
        np.testing.assert_allclose(
            wg.jacobian(follow, matrix),
            central_differences(follow, matrix, step),
            rtol=tolerance,
            atol=tolerance,
        )


def test_attributes_unknown_to_numpy_raise_attribute_error():
    for x in (np.ones(3), np.float64(1.0)):
        with pytest.raises(AttributeError, match="no attribute 'nope'"):
            wg.grad(lambda x: x.nope, x)
    assert wg.grad(lambda x: x * (2.0 if hasattr(x, "nope") else 3.0), 1.0) == 3.0


# ---- type queries on operands


def inside(check, x):
    """Run a check on the traced operand."""
    ran = []

    def f(x):
        check(x)
        ran.append(True)
        return np.sum(x)

    wg.grad(f, x)
    assert ran


def test_traced_scalar_is_an_instance_of_float64():
    def check(x):
        assert isinstance(x, np.float64) and isinstance(x, np.floating) and isinstance(x, float)
        assert isinstance(x, numbers.Real)
        assert not isinstance(x, (np.ndarray, int, np.integer, np.float32, str))
        assert x.__class__ is np.float64
        assert np.isscalar(x) and np.ndim(x) == 0 and np.shape(x) == () and np.size(x) == 1
        assert not np.iterable(x)
        assert type(x) is np.float64, "in followed code"

    inside(check, 1.5)
    inside(lambda x: check(x[1]), np.ones(3))
    inside(lambda x: check(np.sum(x)), np.ones(3))


def test_traced_single_precision_scalar_is_an_instance_of_float32():
    def check(x):
        assert isinstance(x, np.float32) and isinstance(x, np.floating)
        assert not isinstance(x, (np.ndarray, float))
        assert x.dtype == np.float32 and (x * x).dtype == np.float32 and (x * 2.5).dtype == np.float32
        assert (x * np.float64(2)).dtype == np.float64

    inside(check, np.float32(1.5))
    inside(lambda x: check(x[1]), np.ones(3, dtype=np.float32))


def test_traced_array_is_an_instance_of_ndarray():
    def check(x):
        assert isinstance(x, np.ndarray) and x.__class__ is np.ndarray
        assert not isinstance(x, (np.generic, float, list))
        assert x.shape == (2, 3) and x.ndim == 2 and x.size == 6 and len(x) == 2 and x.dtype == np.float64
        assert x[0].shape == (3,) and x.T.shape == (3, 2)
        assert np.iterable(x) and not np.isscalar(x)
        assert isinstance(x[0, 0], np.float64)
        assert isinstance(np.zeros(3), np.ndarray) and isinstance(np.zeros(3) * 2, np.ndarray)

    inside(check, np.ones((2, 3)))


def test_operands_print_and_format_as_numpy_prints_them():
    def check(x):
        assert repr(x) == repr(np.array([1.5, 2.0])) and str(x) == "[1.5 2. ]" and f"{x}" == "[1.5 2. ]"
        assert repr(x[0]) == repr(np.float64(1.5)) and str(x[0]) == "1.5"
        assert f"{x[0]:.3f}|{x[0]:>8}|{x[0]!r:}" == f"1.500|     1.5|{np.float64(1.5)!r}"
        assert "{:e}".format(x[0]) == "1.500000e+00" and "%s" % x[0] == "1.5"
        assert np.array2string(x) == "[1.5 2. ]"

    inside(check, np.array([1.5, 2.0]))


def test_comparisons_return_plain_bools_and_select_branches():
    def check(x):
        for result in (
            x[0] < x[1],
            x[0] == 1.0,
            1.0 >= x[0],
            x[0] != np.float64(2),
            x[0] < np.float32(2),
            x[0] > np.int64(0),
        ):
            assert type(result) is np.bool
        assert type(x < 2) is np.ndarray and (x < 2).dtype == bool
        assert (x == x).all() and not np.any(x != x)
        assert not (x[0] == None) and x[0] != "a"  # noqa: E711
        assert bool(x[0]) and not bool(x[0] * 0) and (x[0] and True) and not (not x[0])
        assert x[0] in [1.0, 2.0] and 1.0 in x and 7.0 not in x
        assert max(x) == 2.0 and min(x[0], 5) == 1.0 and sorted(x, reverse=True)[0] == 2.0

    inside(check, np.array([1.0, 2.0]))
    with pytest.raises(ValueError, match="truth value"):
        wg.grad(lambda x: np.sum(x) if x > 0 else 0.0, np.ones(2))


def test_conversions_of_traced_scalar_to_integers_are_plain():
    def check(x):
        v = x[0]
        for got, expected in (
            (int(v), 2),
            (round(v), 3),
            (round(v, 0), np.float64(3.0)),
            (math.floor(v), 2),
            (math.ceil(v), 3),
            (math.trunc(v), 2),
            (np.floor(v), np.float64(2)),
            (v // 1, np.float64(2)),
            ([10, 20, 30][int(v)], 30),
            (int(x.argmax()), 0),
        ):
            assert type(got) is type(expected)
            assert got == expected
        assert x[int(v) - 2] == v
        assert list(range(int(v))) == [0, 1]
        assert v.astype(int) == 2 and type(v.astype(int)) is np.int64
        assert x.astype(bool).dtype == bool

    inside(check, np.array([2.7, 0.4]))


def test_hashing_a_traced_value_raises():
    with pytest.raises(wg.TracedValueError, match=r"traced scalar cannot be hashed .*wengert\.stop_gradient"):
        wg.grad(lambda x: {x: 1.0}[x], 2.0)
    with pytest.raises(TypeError, match="unhashable"):
        wg.grad(lambda x: np.sum(x) * len({x}), np.ones(2))


# ---- Python builtins on operands


def numbers_of(x):
    return [v for v in x]


PYTHON = {
    "broadcast": lambda x: sum(a * b for a, b in np.broadcast(x, x[:2, None])) * np.broadcast(x, x[:2, None]).shape[1],
    "unpacking": lambda x: (lambda a, b, *rest: a * b + rest[0])(*x),
    "assignment": lambda x: (lambda v: v[0] * v[2])([a for a in x]),
    "enumerate": lambda x: sum(i * v * v for i, v in enumerate(x)),
    "zip": lambda x: sum(a * b for a, b in zip(x, x[1:])),
    "reversed": lambda x: sum((i + 1) * v for i, v in enumerate(reversed(x))),
    "map": lambda x: sum(map(lambda v: v**2, x)),
    "sum": lambda x: sum(x) * sum(x, start=x[0]),
    "max": lambda x: max(x) * max(x[0], 0.5, x[1]),
    "min": lambda x: min(x, key=lambda v: -v) + min(x) ** 2,
    "sorted": lambda x: sorted(x)[1] ** 2 * sorted(x, key=abs)[0],
    "abs": lambda x: abs(x[0]) * abs(x)[2],
    "pow": lambda x: pow(x[1], 3) + pow(2.0, x[0]),
    "divmod": lambda x: divmod(x[1], 0.5)[1] + divmod(5.0, x[1])[1] * divmod(x, 0.7)[1][0],
    "remainder": lambda x: x[1] % 0.5 + 3.7 % x[1] + (x % 0.7)[2] + np.fmod(x, 0.4)[0],
    "floor": lambda x: x[1] // 0.5 * x[0],
    "chained comparison": lambda x: x[0] if 0 < x[0] < 1 else x[1],
    "while": lambda x: (lambda v: [v := v * x[0] for _ in range(3)][-1])(x[1]),
    "list times": lambda x: (
        [1.0, 2.0, 3.0] @ x if hasattr(list, "__matmul__") else np.dot([1.0, 2.0, 3.0], x)
    ),
    "reduce": lambda x: __import__("functools").reduce(operator.mul, x),
    "reduce of ufunc": lambda x: __import__("functools").reduce(np.multiply, x),
    "itertools": lambda x: sum(__import__("itertools").accumulate(x)),
    "starred list": lambda x: np.sum(np.stack([*x, x[0] ** 2])),
    "copy": lambda x: copy.copy(x)[0] * copy.deepcopy(x)[1] * copy.copy(x[1]) * copy.deepcopy([x[2]])[0],
    "operator": lambda x: operator.itemgetter(0)(x) * operator.neg(x[1]) + operator.attrgetter("T")(x)[2],
    "ternary": lambda x: (x[0] if x[0] > x[1] else x[1]) ** 2,
    "and or": lambda x: (x[0] and x[1]) * (x[0] * 0 or x[2]),
    "generator": lambda x: sum(v for v in (w * w for w in x) if v > 0.2),
    "dict": lambda x: sum({name: v for name, v in zip("abc", x)}.values()),
    "namedtuple": lambda x: __import__("collections").namedtuple("P", "a b c")(*x).b ** 2,
    "walrus": lambda x: (a := x[0] * x[1]) * a,
    "try": lambda x: next(v for v in numbers_of(x) if v > 0.5) ** 2,
    "string formatting": lambda x: (lambda s: x[0] * len(s))(f"{x[0]:.3f}"),
    "nan test": lambda x: np.sum(np.where(np.isnan(x), 0.0, x * x)),
    "np.sum of a generator's list": lambda x: np.sum(np.array([v * v for v in x])),
}


@pytest.mark.parametrize("name", PYTHON)
def test_derivative_of_python_code_equals_differences(name):
    check_derivatives(PYTHON[name], np.array([0.83, 1.21, -0.67]))


# ---- conversions to plain values


WAYS_OUT = {
    "float": lambda x: float(x[0]),
    "float of an array of one": lambda x: float(x[:1]),
    "complex": lambda x: complex(x[0]).real,
    "math.sin": lambda x: math.sin(x[0]),
    "math.sqrt": lambda x: math.sqrt(abs(x[0])),
    "math.fsum": lambda x: math.fsum(x),
    "math.hypot": lambda x: math.hypot(x[0], x[1]),
    "math.pow": lambda x: math.pow(x[0], 2),
    "math.prod of floats": lambda x: math.prod(map(float, x)),
    "percent": lambda x: float("%.17g" % x[0]),
    "np.float64": lambda x: np.float64(x[0]),
    "np.float32": lambda x: np.float32(x[0]),
    "np.double": lambda x: np.double(x[0]),
    "item": lambda x: x[0].item() * 1.0,
    "array item": lambda x: x.item(0) * 1.0,
    "hex": lambda x: float.fromhex(x[0].hex()),
    "ratio": lambda x: (lambda p, q: p / q)(*x[0].as_integer_ratio()),
    "tobytes": lambda x: np.frombuffer(x.tobytes())[0],
    "memoryview": lambda x: memoryview(x)[0],
    "data": lambda x: x.data[0],
    "array interface": lambda x: x.__array_interface__ and 1.0,
    "array struct": lambda x: x.__array_struct__ and 1.0,
    "dlpack": lambda x: np.from_dlpack(x)[0],
    "buffer": lambda x: np.frombuffer(x)[0],
    "bytes": lambda x: np.frombuffer(bytes(x))[0],
    "object array": lambda x: np.array([x[0], x[1]], dtype=object)[0] * 1.0,
    "astype object": lambda x: x.astype(object)[0] * 1.0,
    "pickle": lambda x: pickle.loads(pickle.dumps(x))[0],
    "pickle of a number": lambda x: pickle.loads(pickle.dumps(x[0])),
    "json": lambda x: json.loads(json.dumps([x[0]]))[0],
    "fraction": lambda x: float(fractions.Fraction(x[0])),
    "fraction product": lambda x: fractions.Fraction(1, 2) * x[0] * 1.0,
    "decimal": lambda x: float(decimal.Decimal(x[0])),
    "statistics": lambda x: __import__("statistics").fmean(x),
    "struct": lambda x: struct.unpack("d", struct.pack("d", x[0]))[0],
    "array module": lambda x: __import__("array").array("d", x)[0],
    "vectorize": lambda x: np.vectorize(lambda v: v * v)(x)[0],
    "frompyfunc": lambda x: np.frompyfunc(lambda v: v * v, 1, 1)(x)[0],
    "apply_along_axis": lambda x: np.apply_along_axis(lambda v: v * v, 0, x)[0],
    "fromiter": lambda x: np.fromiter((v for v in x), float)[0],
    "complex result": lambda x: (x * 1j).imag[0],
    "astype complex": lambda x: x.astype(complex).real[0],
    "fft": lambda x: np.fft.fft(x).real[0],
    "view as integers": lambda x: x.view(np.int64).view(np.float64)[0],
    "unique": lambda x: np.unique(x)[0],
    "histogram": lambda x: np.histogram(x)[1][0],
    "random": lambda x: np.random.default_rng(0).normal(x[0]),
    "scipy": lambda x: __import__("scipy.linalg").linalg.solve(np.eye(3), x)[0],
    "sparse": lambda x: (__import__("scipy.sparse").sparse.eye_array(3, format="csr") @ x)[0],
    "interp1d": lambda x: np.interp(x[0], [0.0, 1.0], [0.0, 2.0]),
    "longdouble": lambda x: np.float64(x[0] * np.longdouble(2)),
    "type call": lambda x: type(x[0])(x[0]) * 1.0,
    "ndenumerate": lambda x: [v for _, v in np.ndenumerate(x)][0] * 1.0,
    "nditer": lambda x: [v * 1.0 for v in np.nditer(x)][0],
    "flat": lambda x: [v for v in x.flat][0] * 1.0,
    "broadcast": lambda x: [v for v, _ in np.broadcast(x, 1)][0] * 1.0,
    "masked array": lambda x: np.ma.array(x, mask=[False, True, False])[0] * 1.0,
    "masked product": lambda x: (np.ma.array([1.0, 2, 3]) * x)[0] * 1.0,
    "matrix": lambda x: float((np.asmatrix(np.eye(3)) * x[:, None])[0, 0]),
    "save": lambda x: np.save("/nowhere/at/all.npy", x) or 1.0,
    "stop_gradient of repr": lambda x: x[0] * 1.0,
}


@pytest.mark.parametrize("name", WAYS_OUT)
@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_no_conversion_to_plain_values_loses_a_derivative(name):
    """The derivative is that of plain NumPy, or a TypeError is raised; never zeros, never an AttributeError."""
    f, x = WAYS_OUT[name], np.array([0.83, 1.21, -0.67])
    try:
        g = wg.grad(f, x)
    except TypeError:
        return
    except (AttributeError, BufferError, ValueError, struct.error) as error:
        assert name in (
            "array interface",
            "array struct",
            "dlpack",
            "buffer",
            "nditer",
            "struct",
        ), error
        return
    tolerance = 0.05 if name == "np.float32" else DIFFERENCES
    np.testing.assert_allclose(g, central_differences(f, x), rtol=tolerance, atol=1e-8)


def test_type_of_operand_is_numpy_type():
    """In traced code; called elsewhere, the type creates no operands."""
    np.testing.assert_array_equal(wg.grad(lambda x: type(x[0])(3.0) * x[0], np.ones(2)), [3.0, 0.0])
    for x in (1.0, np.ones(2)):
        with pytest.raises(TypeError):
            wg.grad(lambda x: operator.call(type, x)(3.0), x)


def test_operands_have_no_extra_attributes():
    for set_it in (lambda x: setattr(x, "note", 1), lambda x: setattr(x[0], "note", 1)):
        with pytest.raises(AttributeError):
            wg.grad(lambda x: set_it(x) or np.sum(x), np.ones(2))


def test_indexing_equals_numpy():
    x = np.arange(24.0).reshape(2, 3, 4)
    keys = [
        0, -1, np.int64(1), np.uint8(1), np.array(1), True, np.True_, False, None, ..., (), (0,), (0, 1),
        (0, 1, 2), (..., 0),
        (0, ..., -1), (None, 0, None), slice(None), slice(None, None, -1), (slice(1, 0), 0), [], [0],
        [0, 0, 1],
        np.array([], dtype=int), np.array([[0, 1], [1, 1]]), ([0, 1], [1, 2]), ([0, 1], slice(None), [1, 2]),
        (0, [1, 2]), (slice(None), [0, 2, 2], 1), ([[0], [1]], [0, 2]), x > 5, x[:, 0, 0] > 3,
        (x[:, 0, 0] > 3, 1),
        (slice(None), np.array([True, False, True])), np.ix_([0, 1], [2, 0]), (None, [1]), ([1], None),
        (..., [0, 1]),
        (True, 0), range(2), (slice(None), range(2)), np.nonzero(x > 5), (np.array(1), 2),
        (np.int8(1), np.int8(-1)),
    ]  # fmt: skip
    for key in keys:
        expected = x[key]
        y, pullback = wg.vjp(lambda x: x[key] * 1.0, x)
        assert_same_bits(y, expected * 1.0, repr(key))
        seed = np.random.default_rng(63).uniform(size=np.shape(expected))
        x_bar = np.zeros_like(x)
        np.add.at(x_bar, key, seed)
        np.testing.assert_allclose(pullback(seed), x_bar, err_msg=repr(key))
        np.testing.assert_allclose(pullback(np.stack([seed, -seed]))[1], -x_bar, err_msg=repr(key))

        def write(x):
            a = x * 1.0
            a[key] = 2 * x[key]
            return a

        np.testing.assert_array_equal(wg.vjp(write, x)[0], write(x), err_msg=repr(key))


def test_zero_dimensional_masks_select_all_or_nothing():
    def stored(x, key):
        y = np.zeros(())
        y[key] = x * x
        return y * 3

    for key in (True, np.True_, np.False_, np.array(True), np.array(False), (np.True_,), (..., True), (None, True)):
        for mode in (wg.jacfwd, wg.jacrev):
            y = np.float64(1.5)[key]
            np.testing.assert_array_equal(mode(lambda x: x[key] * 2, 1.5), np.full(y.shape, 2.0), repr(key))
            np.testing.assert_array_equal(mode(stored, 1.5, args=(key,)), 9.0 * y.size, repr(key))
        f = wg.compile(lambda x: stored(x, key))
        assert [f(1.5), f(2.0), wg.grad(f)(2.0)] == [6.75 * y.size, 12.0 * y.size, 12.0 * y.size], repr(key)


def test_indices_that_numpy_rejects_raise():
    x = np.arange(6.0).reshape(2, 3)
    for key in (
        5,
        -3,
        (0, 9),
        (0, 0, 0),
        1.0,
        "a",
        [0.5],
        np.array([1.5]),
        (0, "b"),
        [7],
        10**30,
        object(),
        {1: 2},
    ):
        with pytest.raises(IndexError):
            x[key]
        with pytest.raises(IndexError):
            wg.grad(lambda x: np.sum(x[key]), x)


def test_zero_times_infinity_is_zero_in_every_product_of_a_derivative():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        for f, x in (
            (lambda x: np.where(x > 0, np.sqrt(x), 0.0), np.zeros(3)),
            (lambda x: np.where(x > 0, np.log(x), x), np.zeros(3)),
            (lambda x: np.where(x != 0, np.sin(x) / x, 1.0), np.zeros(3)),
        ):
            assert np.isfinite(wg.jacobian(f, x)).all()
            assert np.isfinite(wg.jacobian(lambda x: [f(v) for v in x], x)).all()
            assert np.isfinite(wg.jacobian(f, x, chunk=1)).all()
            assert np.isfinite(wg.jacobian(f, x.astype(np.float32))).all()
            assert np.isfinite(wg.vjp(f, x)[1](np.ones((2, 3)))).all()
        assert wg.grad(lambda x: 0.0 * np.sqrt(x), 0.0) == 0.0
        assert wg.grad(lambda x: np.sqrt(x) * 0.0 + x, 0.0) == 1.0
        assert wg.grad(np.sqrt, 0.0) == np.inf


def test_derivatives_at_kinks_follow_the_table():
    x0 = np.float64(0.0)
    for f, x, expected in (
        (abs, x0, 0.0),
        (np.abs, x0, 0.0),
        (lambda x: np.maximum(x, 0.0), x0, 0.5),
        (lambda x: np.minimum(0.0, x), x0, 0.5),
        (lambda x: max(x, 0.0), x0, 1.0),
        (lambda x: max(0.0, x), x0, 0.0),
        (lambda x: np.clip(x, 0.0, 1.0), x0, 1.0),
        (lambda x: np.sign(x) + x, x0, 1.0),
        (lambda x: np.floor(x) + x, x0, 1.0),
        (lambda x: np.heaviside(x, 0.5) + x, x0, 1.0),
        (lambda x: np.hypot(x, 0.0), x0, 0.0),
        (lambda x: np.arctan2(x, 0.0 * x), x0, 0.0),
        (lambda x: x**0, x0, 0.0),
        (lambda x: x**0.0, x0, 0.0),
        (lambda x: 0.0**x, np.float64(2.0), 0.0),
        (lambda x: 0**x, np.float64(0.5), 0.0),
        (lambda x: x**2, x0, 0.0),
        (lambda x: x**1, x0, 1.0),
        (lambda x: np.power(x, 3), x0, 0.0),
    ):
        assert wg.grad(f, x) == expected
    np.testing.assert_array_equal(wg.grad(np.linalg.norm, np.zeros(3)), 0)
    np.testing.assert_allclose(wg.grad(np.max, np.array([1.0, 3.0, 3.0, 3.0])), [0, 1 / 3, 1 / 3, 1 / 3])
    assert np.isnan(wg.grad(lambda x: x * x, np.nan))


def test_mixed_dtypes_promote_as_in_numpy_and_keep_derivative():
    a, b = np.array([0.3, 0.7]), np.array([1.5, 2.5], dtype=np.float32)
    f = lambda a, b: np.sum(np.sin(a * b) + b**2 / a)
    y, (ga, gb) = wg.grad(f, a, args=(b,), argnums=(0, 1), value=True)
    assert_same_bits(y, f(a, b))
    assert ga.dtype == np.float64 and gb.dtype == np.float32
    assert_rounding(ga, np.cos(a * b) * b - b**2 / a**2, np.float32)
    assert_rounding(gb, np.cos(a * b) * a + 2 * b / a, np.float32)


@pytest.mark.parametrize("fun", [np.sum, np.prod, np.mean])
def test_positional_options_after_out_are_kept(fun):
    x = np.arange(12.0).reshape(3, 4)
    y, _ = wg.vjp(lambda x: fun(x, -1, None, None, True), x)
    assert_same_bits(y, fun(x, -1, None, None, True))


METHODS_OF_CLASSES = {
    "ndarray.sum": (lambda x: np.ndarray.sum(x * x), lambda x: 2 * x),
    "ndarray.__mul__": (lambda x: np.ndarray.__mul__(x, x)[0], lambda x: [2 * x[0], 0]),
    "ndarray.reshape": (lambda x: np.ndarray.reshape(x, 2, 1)[1, 0], lambda x: [0, 1]),
    "ndarray.sum, mapped": (lambda x: sum(map(np.ndarray.sum, [x, x])), lambda x: [2, 2]),
    "ndarray.sum of a constant": (lambda x: np.ndarray.sum(CONSTANT) * x[0], lambda x: [3, 0]),
    "float64.__mul__": (lambda x: np.float64.__mul__(x[0], x[1]), lambda x: [x[1], x[0]]),
    "float64.fromhex": (lambda x: np.float64.fromhex("0x1p3") * x[0], lambda x: [8, 0]),
    "float.fromhex": (lambda x: float.fromhex("0x1p3") * x[0], lambda x: [8, 0]),
    "float.is_integer": (lambda x: x[0] if float.is_integer(wg.stop_gradient(x[1])) else 2 * x[0], lambda x: [1, 0]),
    "float.__floor__": (lambda x: x[0] * float.__floor__(wg.stop_gradient(x[1])), lambda x: [2, 0]),
    "float.__mul__ of constants": (lambda x: x[0] * float.__mul__(2.0, 4.0), lambda x: [8, 0]),
    "ndarray.__name__": (lambda x: x[0] * len(np.ndarray.__name__), lambda x: [7, 0]),
}
CONSTANT = np.array([1.0, 2.0])


@pytest.mark.parametrize("name", METHODS_OF_CLASSES)
def test_unbound_numpy_methods_accept_operands(name):
    f, expected = METHODS_OF_CLASSES[name]
    x = np.array([0.5, 2.0])
    assert np.array_equal(wg.grad(f, x), expected(x))
    assert np.array_equal(wg.jacobian(f, x, mode="forward"), expected(x))
    assert np.array_equal(wg.grad(wg.compile(f))(x), expected(x))
    assert wg.taylor(f, x, [1.0, 0.0], 1)[1] == expected(x)[0]
    assert np.array_equal(wg.vmap(f)(np.stack([x, 2 * x])), [f(x), f(2 * x)])


@pytest.mark.parametrize(
    "f", [lambda x: x**None, lambda x: None**x, lambda x: x ** object()], ids=["**", "r**", "object"]
)
@pytest.mark.parametrize("at", [2.0, np.ones(2)], ids=["scalar", "array"])
def test_powers_of_other_types_raise_as_in_plain_code(f, at):
    for use in (lambda: wg.vjp(f, at), lambda: wg.jvp(f, at, at), lambda: wg.compile(f)(at)):
        with pytest.raises(TypeError, match=r"\*\* or pow"):
            use()


def test_array_to_the_power_of_recorded_float():
    f = wg.compile(lambda s: np.sum(np.full(2, 3.0) ** s))
    assert f(2.0) == 18.0
    np.testing.assert_allclose(wg.grad(f)(2.0), 18 * np.log(3), rtol=1e-14)


MEMORY, NUMBERS = array.array("d", [1.0, 3.0]), collections.deque([1.0, 3.0])
PLANE = np.array([[1.0, 0.0], [2.0, 3.0]])
#: operators and functions of an operand x and an array-like
MIXED = {
    "array + x": lambda x: MEMORY + x,
    "x - array": lambda x: x - MEMORY,
    "array * number": lambda x: np.stack([MEMORY - x[0], x[0] / MEMORY]),
    "array @ x": lambda x: MEMORY @ x,
    "x ** array": lambda x: x**MEMORY,
    "array ** x": lambda x: MEMORY**x,
    "array % x": lambda x: x * (MEMORY % (x + 0.2)),
    "x // array": lambda x: x * ((x + 0.2) // MEMORY),
    "x += array": lambda x: operator.iadd(x * 1, MEMORY),
    "memoryview @ x": lambda x: memoryview(PLANE) @ x,
    "bytearray + x": lambda x: bytearray(b"ab") + x * x,
    "range - x": lambda x: range(2) - x * x,
    "deque * x": lambda x: NUMBERS * x * x,
    "deque of operands": lambda x: collections.deque([1.0, 2.0]) + x,
    "text != x": lambda x: x * (bytes(2) != x) + x * ("a" == x),
    "text != number": lambda x: x * (bytes(8) != x[0]) + x * (x[0] == "a"),
    "dot": lambda x: np.dot(MEMORY, x),
    "matmul": lambda x: np.matmul(memoryview(PLANE), x),
    "power": lambda x: np.power(x, MEMORY),
    "hypot": lambda x: np.hypot(x, NUMBERS),
    "convolve": lambda x: np.convolve(x, MEMORY),
    "interp": lambda x: np.interp(x, range(3), MEMORY + array.array("d", [4.0])),
    "clip": lambda x: x.clip(array.array("d", [0.0, 1.0]), MEMORY),
}


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("name", MIXED)
def test_buffers_and_sequences_are_accepted_as_in_numpy(name):
    f, x = MIXED[name], np.array([0.5, 2.5])
    value, expected = f(x), central_differences(f, x)
    for derive in (
        lambda: wg.jacobian(f, x, mode="forward", value=True),
        lambda: wg.jacobian(f, x, mode="reverse", value=True),
        lambda: wg.jacobian(wg.compile(f), x, value=True),
    ):
        y, jacobian = derive()
        np.testing.assert_array_equal(y, value)
        np.testing.assert_allclose(jacobian, expected, rtol=DIFFERENCES, atol=1e-8)
    np.testing.assert_allclose(wg.taylor(f, x, [1.0, 2.0], 1)[1], expected @ [1.0, 2.0], rtol=DIFFERENCES, atol=1e-8)
    np.testing.assert_array_equal(wg.vmap(f)(np.stack([x, x + 0.25])), [value, f(x + 0.25)])
    check_derivatives(lambda x: f(x * 1.0), x, order=2)


#: operators that plain code rejects
UNKNOWN = {
    "number ** None": lambda x: x[0] ** None,
    "None ** number": lambda x: None ** x[0],
    "array ** None": lambda x: x**None,
    "None ** array": lambda x: None**x,
    "array + object": lambda x: x + object(),
    "number * array of memory": lambda x: x[0] * MEMORY,
    "number * deque": lambda x: NUMBERS * x[0],
    "array + text": lambda x: "a" + x,
    "Decimal + number": lambda x: decimal.Decimal(1) + x[0],
}


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("name", UNKNOWN)
def test_unsupported_operator_raises_type_error_of_plain_code(name):
    def caught(x):
        try:
            return UNKNOWN[name](x)
        except TypeError:
            return x[0] * 3

    x = np.array([0.5, 2.5])
    with pytest.raises(TypeError):
        UNKNOWN[name](x)
    for derive in (
        wg.grad,
        lambda f, x: wg.jacobian(f, x, mode="forward"),
        lambda f, x: wg.grad(wg.compile(f))(x),
        lambda f, x: wg.vmap(wg.grad(f))(x[None])[0],
    ):
        with pytest.raises(TypeError):
            derive(UNKNOWN[name], x)
        assert np.array_equal(derive(caught, x), [3, 0])
    assert wg.taylor(caught, x, [1.0, 0.0], 1)[1] == 3


def test_compiled_power_of_array_and_python_float():
    f = wg.compile(lambda s: np.sum(np.array([2.0, 3.0]) ** s))
    for s in (2.0, 0.5, 2.0):
        assert f(s) == np.sum(np.array([2.0, 3.0]) ** s)
    np.testing.assert_allclose(wg.grad(f)(2.0), np.array([4.0, 9.0]) @ np.log([2.0, 3.0]), rtol=1e-14)


class Scale:
    """An object with reflected methods, which leaves operators to NumPy as the attributes of its subclasses say."""

    def __init__(self, factor):
        self.factor = factor

    def __rmul__(self, x):
        return Scaled(x * self.factor, type(np.asarray(wg.stop_gradient(x))).__name__, x)

    def __rsub__(self, x):
        return x - self.factor


class Scaled:
    def __init__(self, value, kind, given):
        self.value, self.kind, self.given = value, kind, given


class PriorScale(Scale):
    __array_priority__ = 10.0


class ExclusiveScale(Scale):
    __array_ufunc__ = None


class Vector:
    """An object that NumPy converts to an array."""

    def __init__(self, *items):
        self.items = items

    def __array__(self, dtype=None, copy=None):
        return np.array(self.items)


class Row:
    """A sequence, which NumPy converts to an array too."""

    def __init__(self, *items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, k):
        return self.items[k]


class Celsius(float):
    pass


class Doubled(float):
    def __rmul__(self, x):
        return 2.0 * float(self) * x


#: operators between a traced value and an object, with their derivatives
WITH_OBJECTS = {
    "a scalar and an object": (lambda x: (x[0] * Scale(3.0)).value, [3.0, 0.0]),
    "a scalar and an object of priority": (lambda x: (x[0] * PriorScale(3.0)).value, [3.0, 0.0]),
    "a Python float and an object": (lambda x: (float(x[0]) * Scale(3.0)).value + (x[1] - Scale(1.0)), [3.0, 1.0]),
    "an array and an object": (lambda x: (x * Scale(3.0))[1].value, [0.0, 3.0]),
    "an array minus an object": (lambda x: np.sum((x - Scale(3.0)) * x), [-2.0, 0.0]),
    "an array and an object of priority": (lambda x: (x * PriorScale(3.0)).value[1], [0.0, 3.0]),
    "an array and an exclusive object": (lambda x: (x * ExclusiveScale(3.0)).value[1], [0.0, 3.0]),
    "a scalar and a vector": (lambda x: np.sum(x[1] * Vector(1.0, 2.0)), [0.0, 3.0]),
    "an array and a vector": (lambda x: np.sum(x * Vector(1.0, 2.0)), [1.0, 2.0]),
    "an array and a sequence": (lambda x: np.sum(x * Row(1.0, 2.0)), [1.0, 2.0]),
    "a sequence of traced values": (lambda x: np.sum(x * Row(x[0], x[0])), [2.5, 0.5]),
    "vectors converted to arrays": (
        lambda x: np.sum(np.asarray(Vector(1.0, 2.0)) * x + np.array(Row(x[0], x[0]), dtype=float)),
        [3.0, 2.0],
    ),
    "a scalar and a float of another class": (lambda x: x[0] * Celsius(3.0) + Celsius(1.0) / x[1], [3.0, -1 / 2.25]),
    "a Python float and one of another class": (
        lambda x: float(x[0]) * Celsius(3.0) + float(x[1]) ** Celsius(2.0) * (float(x[0]) < Celsius(3.0)),
        [3.0, 3.0],
    ),
    "a Python float and one with a method": (lambda x: float(x[0]) * Doubled(3.0) + x[1] * Doubled(1.0), [6.0, 1.0]),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", WITH_OBJECTS)
def test_operators_with_objects_give_value_and_derivative_of_numpy(name, compiled):
    f, expected = WITH_OBJECTS[name]
    x = np.array([0.5, 1.5])
    y, g = wg.grad(wg.compile(f) if compiled else f, value=True)(x)
    assert y == f(x)
    assert_rounding(g, np.array(expected))


@pytest.mark.parametrize(
    ("operand", "f", "kind"),
    [
        (np.float64(0.5), lambda x: (x * Scale(3.0)).given, float),
        (np.float64(0.5), lambda x: (x * ExclusiveScale(3.0)).given, np.float64),
        (np.ones(2), lambda x: (x * Scale(3.0))[0].given, float),
        (np.ones(2), lambda x: (x * ExclusiveScale(3.0)).given, np.ndarray),
    ],
)
def test_reflected_methods_get_operands_of_the_types_that_numpy_passes(operand, f, kind):
    kinds = [type(f(operand))]
    wg.jacobian(lambda x: [kinds.append(f(x).__class__), f(x)][1])(operand)
    assert kinds == [kind, kind]
