"""Compiled functions return the values, types and exceptions of plain functions for all argument types."""

import copy
import functools
import math
import numbers
import operator
import warnings

import numpy as np
import pytest

import wengert as wg

TIERS = ["vm", "llvm"]
RECHECKS = [None, "auto", 1]

float_constant, power = 2.5, 2.0
matrix = np.arange(6.0).reshape(2, 3)


def caught_division(s, t):
    try:
        return s / t
    except ZeroDivisionError:
        return -1.0


def caught_anything(s, t):
    try:
        return s**t
    except Exception:
        return "caught"


def caught_bare(s, t):
    try:
        return s**t
    except:  # noqa: E722
        return "caught"


def caught_overflow(s, t):
    try:
        return s**t
    except OverflowError:
        return math.inf


def raising_floating_point_errors(s, t):
    with np.errstate(all="raise"):
        try:
            return np.float64(1.0) * np.array([s])[0] / np.array([t])[0]
        except FloatingPointError:
            return -1.0


def warnings_as_errors(x, y):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return x / y
        except Warning:
            return -x


def caught_cholesky(A):
    try:
        return np.linalg.cholesky(A)
    except np.linalg.LinAlgError:
        return np.zeros_like(A)


def quietly(x, y):
    with np.errstate(divide="ignore", invalid="ignore"):
        return x / y


def matched(s):
    match s:
        case np.float64():
            return "float64"
        case float():
            return "float"
        case int():
            return "int"
    return "other"


@functools.singledispatch
def dispatched(s):
    return "object"


@dispatched.register
def _(s: float):
    return "float"


@dispatched.register
def _(s: np.ndarray):
    return "array"


def kinds(s):
    return (
        type(s) is float,
        type(s) in (float, int),
        type(s).__name__,
        isinstance(s, float),
        isinstance(s, np.floating),
        isinstance(s, np.generic),
        isinstance(s, numbers.Real),
        isinstance(s, (int, float)),
        s.__class__ is type(s),
        np.isscalar(s),
        np.ndim(s),
        hasattr(s, "dtype"),
        hasattr(s, "shape"),
        hasattr(s, "item"),
        hasattr(s, "is_integer"),
        hasattr(s, "nothing"),
        type(copy.copy(s)) is type(s),
        type(copy.deepcopy(s)) is type(s),
    )


def newton(s):
    x = s
    for _ in range(30):
        step = (x * x - s) / (2.0 * x)
        x = x - step
        if abs(step) < 1e-14 * x:
            break
    return x


FLOATS = [2.0, -4.0, 0.0, 2.0, 0.25]
#: functions of one scalar, at scalars of each type
OF_ONE = {
    "reciprocal": lambda s: 1 / s,
    "reciprocal with a float": lambda s: 1.0 / s,
    "square root by a power": lambda s: s**0.5,
    "square": lambda s: s**2,
    "inverse square": lambda s: s**-2,
    "power of minus one": lambda s: s**-1.0,
    "power of zero": lambda s: s**0,
    "power with itself": lambda s: s**s,
    "power of a number": lambda s: 2.0**s,
    "power of a negative number": lambda s: (-2.0) ** s,
    "power of an int": lambda s: 2**s,
    "product": lambda s: 3 * s + s * 1.5 - s,
    "remainder": lambda s: s % 3,
    "remainder of a number": lambda s: 7.5 % s,
    "floor": lambda s: s // 0.3,
    "floor of a number": lambda s: 7 // s,
    "both": lambda s: divmod(s, 0.7),
    "both of a number": lambda s: divmod(1, s),
    "sign": lambda s: (-s, +s, abs(s)),
    "comparisons": lambda s: (s > 0, s >= 0.25, s < 1, s <= 2, s == 2, s != 2),
    "identity of a comparison": lambda s: (s > 0) is True,
    "inverted comparison": lambda s: int(s > 0) + 1,
    "product with a comparison": lambda s: (s > 0) * 2.0,
    "chained": lambda s: 0 < s < 1,
    "with an array's comparison": lambda s: s == np.array([2.0, 0.0]),
    "comparison with other types": lambda s: (s == None, s == "a", s != [1.0], s is None),  # noqa: E711
    "truth": lambda s: 1.0 if s else 2.0,
    "not": lambda s: not s,
    "rounded": lambda s: round(s * 1.26),
    "rounded to digits": lambda s: round(s * 1.2649, 2),
    "integer": lambda s: int(s * 1.5),
    "floor and ceiling": lambda s: (math.floor(s / 3), math.ceil(s / 3)),
    "is integer": lambda s: s.is_integer(),
    "parts": lambda s: (s.real, s.imag, s.conjugate()),
    "text": lambda s: f"{s:.3f} {s}",
    "representation": lambda s: repr(s),
    "minimum": lambda s: min(s, 1.0) + max(s, 0.5),
    "sum": lambda s: sum([s, 1.0, 2]),
    "sorted": lambda s: sorted([s, 1.0])[0],
    "in": lambda s: s in (2.0, -4.0),
    "list": lambda s: [s, s * 2],
    "dict": lambda s: {"a": s, "b": (s + 1, 3.0)},
    "itself": lambda s: s,
    "constant": lambda s: 1.0,
    "sine": lambda s: np.sin(s),
    "maximum": lambda s: np.maximum(s, 1.0),
    "array": lambda s: np.array([s, 2.0]) * s,
    "full": lambda s: np.full(3, s),
    "linspace": lambda s: np.linspace(0.0, s, 3),
    "arange": lambda s: np.arange(0, 2, 0.5) * s,
    "stored": lambda s: _stored(s),
    "times a matrix": lambda s: matrix * s + s,
    "beside a captured float": lambda s: s / float_constant,
    "captured alone": lambda s: float_constant / power,
    "float32 array": lambda s: np.ones(2, np.float32) * s,
    "float32 array and a product": lambda s: np.ones(2, np.float32) ** (s * 2) + s,
    "float32 maximum": lambda s: np.maximum(np.ones(2, np.float32), s),
    "float32 where": lambda s: np.where([True, False], np.ones(2, np.float32), s),
    "float32 scalar": lambda s: np.float32(2) * s,
    "float32 dot": lambda s: np.dot(np.ones(2, np.float32), s),
    "integer array": lambda s: np.arange(3) * s,
    "float64 scalar": lambda s: np.float64(2) * s,
    "float64 scalar after": lambda s: s / np.float64(2),
    "array to a power": lambda s: np.array([1.5, 2.5]) ** s,
    "result type": lambda s: str(np.result_type(s, np.float32)),
    "complex": lambda s: np.exp(s * 1j),
    "types": kinds,
    "match": matched,
    "singledispatch": dispatched,
    "newton": lambda s: newton(abs(s) + 1.0),
    "nested": lambda s: wg.grad(lambda u: u**3 * s)(2.0),
    "nested in s": lambda s: wg.grad(lambda u: u**3)(s + 1),
    "mapped type": lambda s: list(map(type, [s])) == [float],
    "types of results": lambda s: (type(s * 2).__name__, type(np.sin(s)).__name__, type(s > 0).__name__),
    "unknown attribute": lambda s: s.nothing,
    "not callable": lambda s: s(),
    "subscript": lambda s: s[0],
    "length": lambda s: len(s),
    "operator": lambda s: operator.truediv(1, s),
}


def _stored(s):
    y = np.zeros(3)
    y[1] = s
    y[0] += s * s
    return y


NUMBERS = {
    "float": FLOATS,
    "float64": list(map(np.float64, FLOATS)),
    "int": [2, -4, 0],
    "float32": list(map(np.float32, FLOATS)),
    "0-d": list(map(np.array, FLOATS)),
    "mixed": [2.0, np.float64(2.0), 2, np.float32(2), 3.0, np.float64(0.0), 0.0],
}

a = np.array([1.0, -2.0, 3.0])
read_only = a.copy()
read_only.flags.writeable = False
big = np.arange(24.0).reshape(4, 6)
#: functions, and arguments that cross a boundary between types
OF_MORE = {
    "caught division": (caught_division, [(1.0, 2.0), (1.0, 0.0), (np.float64(1), 2.0), (1.0, 0)]),
    "caught anything": (caught_anything, [(4.0, 0.5), (-4.0, 0.5), (0.0, -1.0), (1e200, 2.0), (3.0, 2.0)]),
    "caught by a bare except": (caught_bare, [(4.0, 0.5), (-4.0, 0.5), (0.0, -1.0), (1e200, 2.0), (3.0, 2.0)]),
    "overflow": (caught_overflow, [(4.0, 2.0), (1e200, 2.0), (2.0, 3.0)]),
    "infinite": (lambda s, t: s**t, [(math.inf, 2.0), (math.nan, 0.0), (math.nan, 2.0), (2.0, math.inf), (2.0, 3.0)]),
    "large products": (lambda s, t: s * t, [(1e200, 1e200), (1.0, 2.0)]),
    "large integers": (lambda s, n: s < n, [(float(2**53), 2**53 + 1), (1.0, 2**53 + 1), (1.0, 3)]),
    "huge integers": (lambda s, n: s + n, [(1.0, 10**400), (1.0, 3)]),
    "negative zero": (lambda s, t: (s * t, s % t, s // t), [(0.0, -1.0), (-0.0, 1.0), (3.0, -2.0), (-3.0, 2.0)]),
    "errstate": (raising_floating_point_errors, [(1.0, 2.0), (1.0, 0.0), (1.0, 4.0)]),
    "warnings": (warnings_as_errors, [(a, a), (a, a * 0), (a, 2 * a)]),
    "quiet errstate": (quietly, [(a, a), (a, a * 0), (a, 2 * a)]),
    "mixed types": (lambda s, t: s / t, [(1.0, np.float64(0)), (np.float64(1), 0.0), (1.0, 0.0), (1, 2.0), (1.0, 2)]),
    "contiguous": (lambda x: x.sum() if x.flags.c_contiguous else -x.sum(), [(big,), (big.T,), (big[:, ::2],), (big,)]),
    "fortran": (lambda x: x * 2 if x.flags["F_CONTIGUOUS"] else x, [(big,), (np.asfortranarray(big),), (big[::2],)]),
    "writeable": (lambda x: x * 2 if x.flags.writeable else x, [(a,), (read_only,), (a,)]),
    "own data": (lambda x: x * 2 if x.flags.owndata else x, [(a,), (a[:],), (big[0],)]),
    "base": (lambda x: x * 2 if x.base is None else x, [(a,), (a[:],)]),
    "strides": (lambda x: x * x.strides[0], [(a,), (big[:3, 0],), (big[0, 2::-1],), (a[::-1],)]),
    "byte order": (lambda x: x * 2 if x.dtype.byteorder == "=" else x, [(a,), (a.astype(">f8"),)]),
    "dtype": (lambda x: x * 0.1 if x.dtype == np.float64 else x, [(a,), (a.astype("f"),), (a.astype(int),)]),
    "float32": (lambda x, s: x * s + s, [(a.astype("f"), 0.1), (a, 0.1), (a.astype("f"), np.float64(0.1))]),
    "float32 in place": (lambda x, s: _in_place(x, s), [(a.astype("f"), 0.1), (a, 0.1)]),
    "complex64": (lambda x, s: x * s, [(a.astype("F"), 0.1), (a.astype("D"), 0.1)]),
    "float16": (lambda x, s: x * s, [(a.astype("e"), 0.1), (a, 0.1)]),
    "memory": (lambda x, y: x + y if np.may_share_memory(x, y) else x - y, [(a, a), (a, a[::-1]), (a, a.copy())]),
    "the same array": (lambda x, y: x + y if x is y else x - y, [(a, a), (a, a.copy()), (a, a), (a.copy(), a)]),
    "one of three": (lambda x, y, z: x + (y is z) - (x is z), [(a, a, a), (a, a.copy(), a), (a.copy(), a, a)]),
    "another way": (lambda x, y=None: x if y is None or x is y else x - y, [(a,), (a, a), (a, a + 1)]),
    "power of arrays": (lambda x, p: x**p, [(a, 2.0), (a, 0.5), (a, 3.0), (a, -1.0), (a, 1.0), (a, 2)]),
    "infinite to a half": (lambda x, p: x**p, [(np.array([-np.inf]), 0.5), (np.array([-np.inf]), 2.0)]),
    "python complex": (lambda z: 1 / z, [(1j,), (0j,), (2 + 1j,)]),
    "numpy complex": (lambda z: 1 / z, [(np.complex128(1j),), (np.complex128(0),)]),
    "type of a complex": (lambda z: type(z) is complex, [(1j,), (np.complex128(1j),)]),
    "list of floats": (lambda v: [1 / s for s in v], [([1.0, 2.0],), ([1.0, 0.0],), ([np.float64(1), 2.0],)]),
    "dict of floats": (lambda d: d["a"] / d["b"], [({"a": 1.0, "b": 2.0},), ({"a": 1.0, "b": 0.0},)]),
    "caught by its class": (lambda A: caught_cholesky(A), [(np.eye(2),), (-np.eye(2),), (2 * np.eye(2),)]),
    "caught at first": (lambda A: caught_cholesky(A), [(-np.eye(2),), (np.eye(2),)]),
    "fails": (lambda x: x.reshape(2, 2), [(a,), (np.ones(4),)]),
    "key": (lambda x, n: {1: x}[n], [(a, 1), (a, 2)]),
    "assertion": (lambda s: _asserted(s), [(1.0,), (-1.0,), (2.0,)]),
    "conversion": (lambda s, x: x * float(s), [(1.0, a), (2.0, a), (np.float64(3), a)]),
    "index": (lambda x, s: x[int(s)], [(a, 1.0), (a, 2.5), (a, 7.0)]),
    "float index": (lambda x, s: x[s], [(a, 1.0)]),
    "list times": (lambda s: [1] * s, [(2.0,), (2,)]),
    "math": (lambda s: math.sqrt(abs(s)), [(4.0,), (np.float64(-9),), (2.0,)]),
    "isnan": (lambda s: 0.0 if math.isnan(s) else s, [(4.0,), (math.nan,), (2.0,)]),
    "truncated": (math.trunc, [(4.5,), (np.float64(-9.5),), (2,)]),
    "time steps": (lambda x, dt: _steps(x, dt), [(a, 0.1), (a, 0.0), (a, 0.2)]),
    "subtype": (lambda s: s * 2, [(_Celsius(2.0),) for _Celsius in [type("Celsius", (float,), {})]]),
}


def _in_place(x, s):
    y = x.copy()
    y *= s
    y[0] = s
    return y


def _asserted(s):
    assert s > 0, "positive"
    return s


def _steps(x, dt):
    t, n = 0.0, 0
    while t < 0.35 and n < 4:
        x, t, n = x - dt * x * (1 / (1 + t)), t + dt, n + 1
    return x


def outcome(f, args, kwargs=None):
    """Return the result of a call, or the exception that it raises."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return f(*args, **(kwargs or {}))
        except Exception as error:
            return type(error), str(error)


def check_same(got, expected):
    assert type(got) is type(expected), (got, expected)
    if isinstance(expected, (list, tuple)):
        assert len(got) == len(expected)
        for one, other in zip(got, expected):
            check_same(one, other)
    elif isinstance(expected, dict):
        assert got.keys() == expected.keys()
        check_same([*got.values()], [*expected.values()])
    elif isinstance(expected, (float, complex, np.ndarray, np.generic)):
        assert np.asarray(got).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(got, expected, rtol=2e-7 if np.asarray(got).dtype.char in "fFe" else 1e-13)
        np.testing.assert_array_equal(np.signbit(np.real(got)), np.signbit(np.real(expected)))
    else:
        assert got == expected


def check_calls(f, points, **options):
    g = wg.compile(f, **options)
    for args in points * 3:
        check_same(outcome(g, args), outcome(f, args))


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("name", OF_ONE)
def test_scalar_argument_keeps_its_type(name, kind):
    for recheck in RECHECKS if kind == "mixed" else [None]:
        check_calls(OF_ONE[name], [(s,) for s in NUMBERS[kind]], recheck=recheck, tier="vm")


@pytest.mark.parametrize("name", OF_ONE)
def test_scalar_argument_keeps_its_type_in_native_code(name):
    pytest.importorskip("llvmlite")
    check_calls(OF_ONE[name], [(s,) for s in NUMBERS["mixed"]], tier="llvm")


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", OF_MORE)
def test_arguments_keep_their_types(name, tier):
    if tier == "llvm":
        pytest.importorskip("llvmlite")
    f, points = OF_MORE[name]
    for recheck in RECHECKS if tier == "vm" else ["auto"]:
        check_calls(f, points, recheck=recheck, tier=tier)


#: functions of an array and further arguments, whose derivatives depend on the types of the latter
DERIVATIVES = {
    "division": (lambda x, s, t: np.sum(x**2) * (s / t), [(a, 1.0, 2.0), (a, 1.0, 0.0), (a, np.float64(1), 4.0)]),
    "power": (lambda x, s, t: np.sum(x**2) * abs(s**t), [(a, 4.0, 0.5), (a, -4.0, 0.5), (a, 4.0, 0.5), (a, 0.0, -1.0)]),
    "caught": (lambda x, s, t: np.sum(np.sin(x)) * caught_division(s, t), [(a, 1.0, 2.0), (a, 1.0, 0.0)]),
    "type": (lambda x, s: np.sum(x) * (2.0 if type(s) is float else 3.0), [(a, 1.0), (a, np.float64(1)), (a, 1)]),
    "exponent": (lambda x, p: np.sum(x**p), [(a, 2.0), (a, 3.0), (a, 1.0)]),
    "types of x": (lambda x: np.sum(x * x) if type(x) is np.ndarray and type(x[0]) is np.float64 else 0 * x[0], [(a,)]),
    "number": (lambda s, t: s**2 / t if isinstance(s, np.floating) else s, [(2.0, 4.0), (3.0, 4.0), (2, 4.0)]),
    "flags": (lambda x, y: np.sum(x * y) if y.flags.writeable else np.sum(x), [(a, a + 1), (a, read_only), (a, a)]),
    "same array": (lambda x, y, z: np.sum(x * y) if y is z else np.sum(x), [(a, a, a), (a, a.copy(), a)]),
    "container": (lambda d: d["a"] ** 2 * np.sum(d["b"]), [({"a": 2.0, "b": a},), ({"a": 3.0, "b": a + 1},)]),
    "rounded": (lambda x, s: np.sum(x * x) * round(s, 1), [(a, 1.26), (a, 2.34)]),
    "math": (lambda x, s: np.sum(x * x) * math.exp(s), [(a, 1.0), (a, 2.0)]),
    "float32": (lambda x, s: np.sum(x * x) * s, [(a.astype("f"), 0.1), (a, 0.1)]),
    "memory": (lambda x, y: np.sum(x * y) if y.base is None else np.sum(x), [(a, a), (a, a[:]), (a, a)]),
}


@pytest.mark.parametrize("recheck", RECHECKS)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_depend_on_types_of_other_arguments(name, recheck):
    f, points = DERIVATIVES[name]
    for transform in (wg.grad, functools.partial(wg.grad, value=True), wg.hessian):
        g, expected = transform(wg.compile(f, recheck=recheck)), transform(f)
        for args in points * 3:
            check_same(outcome(g, args), outcome(expected, args))


@pytest.mark.parametrize("name", DERIVATIVES)
def test_compiled_function_inside_derivative_acts_like_the_plain_one(name):
    f, points = DERIVATIVES[name]
    g = wg.compile(f)
    for args in points * 3:
        found, expected = (outcome(wg.grad(lambda *args, h=h: h(*args) * 2.0), args) for h in (g, f))
        check_same(found, expected)


class Meta(type):
    def __new__(cls, name, bases, space):
        return type.__new__(cls, name, bases, space)


class OfMeta(metaclass=Meta):
    pass


class Vector:
    def __init__(self, values):
        self.values = np.zeros(2)
        self.values[:] = values

    def __add__(self, other):
        return type(self)(self.values + other.values) if type(other) is Vector else NotImplemented


WHOLE = np.ones((2, 2))


def test_type_of_traced_value_is_plain_type_and_type_stays_a_class():
    def f(x, s=2.0):
        assert type(WHOLE) is np.ndarray and type(np.ones(3)) is np.ndarray and type(WHOLE.copy()) is np.ndarray
        assert type(x) is np.ndarray and type(x[:1]) is np.ndarray and type(x[0]) is np.float64
        assert type(s) in (float, int) and list(map(type, [x[0], s, 1])) == [np.float64, float, int]
        assert isinstance(Vector, type) and type(Vector) is type and type(OfMeta) is Meta and type(type) is type
        made = type("Made", (Vector,), {"a": 1})
        assert made.__module__ == __name__ and made.a == 1

        class Other(type):
            pass

        class OfOther(metaclass=Other):
            pass

        assert type(OfOther) is Other and type(OfOther()) is OfOther and issubclass(Other, type)
        assert type.mro(Vector) == [Vector, object] and type.__name__ == "type" and type[int].__origin__ is type
        v = Vector(x)
        assert type(v) is Vector and type(v + v) is Vector and type(v).__name__ == "Vector"
        try:
            type(1, 2)
        except TypeError:
            return np.sum((v + v).values ** 2) * s

    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(wg.grad(f)(x), 16 * x)
    np.testing.assert_array_equal(wg.grad(wg.compile(f))(x, 1.0), 8 * x)
    assert wg.compile(f)(x) == f(x) and wg.jvp(f, x, x)[0] == f(x)
    np.testing.assert_array_equal(wg.hessian(f, x), 16 * np.eye(2))
