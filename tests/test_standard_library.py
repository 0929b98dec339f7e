"""Python's math, cmath, statistics and conversions in followed code: values, derivatives, exceptions, and types."""

import builtins
import cmath
import fractions
import functools
import math
import math as m
import operator
import pickle
import statistics
import sys
import types
from math import sin as sine
from statistics import NormalDist, fmean

import numpy as np
import pytest

import wengert as wg
from helpers import DIFFERENCES, assert_rounding, assert_same_bits, central_differences
from wengert import standard_library as library

X = np.array([0.31, 0.72, 0.45])
MODULES = (math, cmath, statistics)
fetched = types.MappingProxyType({"sin": functools.partial(math.sin)})  # functions in it are not followed


standard = NormalDist()
density = standard.pdf
half = fractions.Fraction(1, 2)
OPERATORS = {"rsub": float.__rsub__, "neg": float.__neg__}
times, divided = float.__mul__, float.__divmod__


def inside(x):
    import cmath as c
    import math
    from math import exp

    return exp(x[0]) * math.cos(x[1]) + c.exp(x[2]).real


def in_closure(x):
    s = math.sin

    def term(v):
        return s(v) * sine(v)

    return term(x[0]) + sum(map(math.cos, x))


class Angle:
    """An object that a class of units or of intervals could have made."""

    def __init__(self, value):
        self.value = value

    def __float__(self):
        return float(self.value)


class Phasor(Angle):
    def __complex__(self):
        return complex(self.value, 1.0)


def newton(x):
    e = x[1]
    for _ in range(20):
        e = e - (e - x[0] * math.sin(e) - x[1]) / (1 - x[0] * math.cos(e))
    return float(e)


CASES = {
    "imports": lambda x: math.sin(x[0]) * sine(x[1]) + m.tan(x[2]),
    "imports inside": inside,
    "closure": in_closure,
    "newton": newton,
    "inverse": lambda x: math.acos(x[0]) + math.asin(x[1]) * math.atan(x[2]) + math.atan2(x[0], x[1]),
    "hyperbolic": lambda x: (
        math.sinh(x[0]) * math.cosh(x[1]) * math.tanh(x[2]) + math.asinh(x[0]) + math.acosh(1 + x[1]) + math.atanh(x[2])
    ),
    "exponentials": lambda x: math.exp(x[0]) + math.expm1(x[1]) + math.exp2(x[2]) + math.cbrt(x[0]),
    "logarithms": lambda x: (
        math.log(x[0]) + math.log2(x[1]) * math.log10(x[2]) + math.log1p(x[0]) + math.log(x[1], 3) + math.log(3, x[2])
    ),
    "powers": lambda x: math.pow(x[0], x[1]) + math.pow(2, x[2]) + math.pow(x[2], 2) + math.sqrt(x[0]),
    "distances": lambda x: (
        math.hypot(x[0], x[1]) + math.hypot(*x) * math.hypot(x[0]) + math.dist(x, [1, 2, 3]) + math.dist([x[0]], [x[1]])
    ),
    "special": lambda x: math.erf(x[0]) + math.erfc(x[1]) * math.gamma(x[2]) + math.lgamma(x[0]),
    "sums": lambda x: math.fsum(x) * math.prod(x) + math.fsum(v * v for v in x) + math.prod(map(float, x), start=2.0),
    "parts": lambda x: math.modf(5.3 * x[0])[0] * math.frexp(x[1])[0] * math.frexp(x[1])[1] + math.ldexp(x[2], 3),
    "remainders": lambda x: math.fmod(x[1], 0.2) + math.remainder(x[0], x[2]) + math.fmod(5.0, x[0]),
    "signs": lambda x: math.copysign(x[0], -1) * math.fabs(-x[1]),
    "angles": lambda x: math.degrees(x[0]) + math.radians(x[1]),
    "steps": lambda x: (
        x[0] * (math.floor(x[1] * 9) + math.ceil(x[2] * 5) + math.trunc(x[0] * 7) + int(x[1] * 5))
        + x[1] * math.modf(7 * x[0])[1]
    ),
    "predicates": lambda x: (
        x[0] * (2 + math.isnan(x[0]) + math.isclose(x[0], x[1]) + math.isfinite(x[1]) + math.ulp(x[0]))
    ),
    "float": lambda x: float(x[0]) * float(x[1]) ** 2 + sum(map(float, x)) + float(x[:1][0]),
    "item": lambda x: x[0].item() * x.item(1) + x.tolist()[2] * x[1].tolist() + x.reshape(3, 1).item(2, 0),
    "float64": lambda x: np.float64(x[1]) * np.float64(float(x[0])) + np.double(x[2]) + np.sum(np.float64(x)),
    "complex": lambda x: (complex(x[0], x[1]) ** 2 * complex(x[2])).real + complex(1j * x[0]).imag,
    "cmath": lambda x: (
        abs(cmath.exp(1j * x[0]) + cmath.log(complex(x[0], x[1])) * cmath.log(x[0], 2)) + cmath.sqrt(x[0] - 1).imag
    ),
    "polar": lambda x: (
        cmath.phase(complex(x[0], x[1])) + cmath.polar(complex(x[0], x[1]))[0] + cmath.rect(x[0], x[1]).imag
    ),
    "operator": lambda x: operator.add(math.sin(x[0]), x[1]) * operator.pow(float(x[2]), 2) / operator.truediv(1, x[1]),
    "builtins": lambda x: (
        max(math.sin(v) for v in x) * min(x) + abs(-math.sin(x[0])) + pow(math.sin(x[0]), 2)
        + divmod(5 * math.sin(x[1]), 0.3)[1] * round(math.sin(x[0]), 1) + float(x[1]) % 0.25 + float(x[1]) // 0.25
    ),
    "count of comparisons": lambda x: x[0] * ((math.sin(x[0]) > 0) + (float(x[1]) > 0)),
    "objects": lambda x: (
        math.sin(Angle(x[0])) * float(Angle(x[1])) + math.hypot(Angle(x[2]), x[0]) + np.float64(Angle(x[1]))
        + math.fsum([Angle(x[0]), 1.0]) + math.pow(Angle(x[0]), 2) + math.fmod(Angle(x[1]), Angle(0.2))
        + cmath.exp(Phasor(x[0])).real + abs(complex(Phasor(x[1]))) + math.exp(Phasor(x[2])) + complex(Angle(x[0])).real
    ),
    "mixed with arrays": lambda x: np.sum(math.exp(x[0]) * x ** float(x[1])) + np.sum([math.sin(v) for v in x]),
    "mean": lambda x: (
        statistics.mean(x) * fmean(x) + statistics.mean(map(math.sin, x)) + fmean(x, weights=[1, 2, x[0]])
    ),
    "spread": lambda x: (
        statistics.stdev(x) + statistics.variance(x) + statistics.pstdev(x) * statistics.pvariance(x)
        + statistics.variance(x, 0.3) + statistics.stdev(x, x[0] + 0.1)
    ),
    "other means": lambda x: (
        statistics.geometric_mean(x) + statistics.harmonic_mean(x) + statistics.harmonic_mean(x, weights=[1, 2, x[0]])
    ),
    "order statistics": lambda x: (
        statistics.median(x) * statistics.median_low(x) + statistics.quantiles(x)[0] + statistics.median_grouped(x)
    ),
    "normal distribution": lambda x: (
        statistics.NormalDist(x[0], x[1]).pdf(0.7) + NormalDist(0.0, x[1]).cdf(x[2]) + NormalDist().inv_cdf(x[2])
        + NormalDist(x[0], x[1]).inv_cdf(x[2]) * (NormalDist(x[0], x[1]) * x[2]).stdev
        + NormalDist.from_samples(x).overlap(NormalDist(x[0], 2.0)) + NormalDist(x[0], x[1]).zscore(0.3)
    ),
    "methods held by code": lambda x: density(x[0]) * standard.cdf(x[1]) + standard.inv_cdf(x[2]),
    "operators of float": lambda x: (
        times(float(x[0]), x[1]) + OPERATORS["rsub"](float(x[1]), 1) + OPERATORS["neg"](math.sin(x[2]))
        + float.__pow__(float(x[0]), x[1]) + float.__add__(x[0], 1) * float.__lt__(x[0], x[1])
        + divided(float(x[1]), 0.2)[1] + float.__abs__(float(x[0])) * float.__bool__(math.cos(x[0]))
    ),
    "fractions": lambda x: x[0] * half + (x * half)[1] * math.sin((half * x)[2]) + (x - half)[0],
    "pairs": lambda x: (
        statistics.covariance(x, x * x) + statistics.correlation(x, [1, 5, 2])
        + statistics.linear_regression(x, [1, 5, 2]).slope
    ),
}  # fmt: skip
if sys.version_info >= (3, 12):
    CASES["sumprod"] = lambda x: math.sumprod(x, [1, 2, x[0]])
    CASES["sum of floats"] = lambda x: sum([1e16, math.sin(x[0]), -1e16, float(x[1])])
if sys.version_info >= (3, 13):
    CASES["fma"] = lambda x: math.fma(x[0], x[1], x[2]) ** 2
    CASES["kde"] = lambda x: statistics.kde(x, 0.5)(x[0] + 0.1)


def stored(x):
    F = np.empty(4)
    F[:2] = [math.sin(v) for v in x[:2]]
    F[2] = math.sin(x[2])
    F[3:] = 0.0
    return F


def added(x):
    F = np.zeros(3)
    np.add.at(F, [0, 1, 2], [math.sin(v) for v in x])
    return F


#: ways into an array for Python floats; the elements of the array add up to the sum of sines
INTO_ARRAYS = {
    "array": lambda x: np.array([math.sin(v) for v in x]),
    "array of a tuple": lambda x: np.array(tuple(map(math.sin, x)), dtype=float),
    "array of rows": lambda x: np.array([[math.sin(x[0]), math.sin(x[1])], [math.sin(x[2]), 0.0]]),
    "asarray": lambda x: np.asarray([math.sin(v) for v in x]),
    "stack": lambda x: np.stack([math.sin(v) for v in x]),
    "hstack": lambda x: np.hstack([math.sin(v) for v in x]),
    "concatenate": lambda x: np.concatenate([[math.sin(v)] for v in x]),
    "append": lambda x: np.append([math.sin(x[0]), math.sin(x[1])], math.sin(x[2])),
    "fromiter": lambda x: np.fromiter((math.sin(v) for v in x), float),
    "stores": stored,
    "add.at": added,
    "where": lambda x: np.where([True, True, True], [math.sin(v) for v in x], 0.0),
    "operator": lambda x: np.zeros(3) + [math.sin(v) for v in x],
    "vectorize": lambda x: np.vectorize(math.sin)(x),
    "frompyfunc": lambda x: np.frompyfunc(math.sin, 1, 1)(x).astype(float),
    "apply_along_axis": lambda x: np.apply_along_axis(lambda row: math.sin(row[0]), 1, x[:, None]),
    "apply_along_axis, lists": lambda x: np.apply_along_axis(lambda row: [math.sin(v) for v in row], 0, x),
    "piecewise": lambda x: np.piecewise(x, [x < 0.4], [lambda v: [math.sin(u) for u in v], np.sin]),
    "vmap": lambda x: wg.vmap(lambda v: math.sin(v))(x),
    "diag": lambda x: np.diag([math.sin(v) for v in x]),
    "full": lambda x: np.concatenate([np.full(1, math.sin(v)) for v in x]),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("way", INTO_ARRAYS)
def test_python_floats_in_arrays_keep_first_and_second_derivatives(way, compiled):
    def f(x):
        return np.sum(INTO_ARRAYS[way](x))

    g = wg.compile(f) if compiled else f
    for _ in range(2):
        assert_rounding(wg.grad(g)(X), np.cos(X))
        assert_rounding(wg.hessian(g)(X), -np.diag(np.sin(X)))
        assert_rounding(wg.hvp(g)(X, X), -np.sin(X) * X)
        for outer in ("forward", "reverse"):
            for inner in ("forward", "reverse"):
                second = wg.jacobian(wg.jacobian(g, mode=inner), mode=outer)
                assert_rounding(second(X), -np.diag(np.sin(X)))


@pytest.mark.parametrize("name", CASES)
def test_value_has_bits_of_plain_call_and_derivatives_agree_in_all_modes(name):
    f = CASES[name]
    y, g = wg.grad(f, X, value=True)
    assert_same_bits(np.float64(y), np.float64(f(X)))
    np.testing.assert_allclose(g, central_differences(f, X), rtol=DIFFERENCES, atol=1e-8)
    assert_rounding(wg.jacobian(f, X, mode="forward"), g)
    assert_same_bits(np.float64(wg.jvp(f, X, X)[0]), np.float64(f(X)))
    second = wg.hessian(f, X)
    assert np.allclose(second, central_differences(wg.grad(f), X), rtol=1e-5, atol=1e-6)
    for nested in (wg.jacobian(wg.grad(f)), wg.jacobian(wg.jacobian(f, mode="forward"), mode="forward")):
        assert_rounding(nested(X), second, scale=1.0 + np.abs(second).max())


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_compiled_function_equals_function(name, exact):
    f = CASES[name]
    g = wg.compile(f, exact=exact)
    for x in (X, X, 1.001 * X, X[::-1].copy()):
        if exact:
            assert_same_bits(np.float64(g(x)), np.float64(f(x)))
        assert_rounding(g(x), f(x))
        assert_rounding(wg.grad(g)(x), wg.grad(f, x))


@pytest.mark.parametrize("name", ["imports", "closure", "logarithms", "sums", "special"])
def test_functions_have_batches_series_and_products(name):
    f = CASES[name]
    assert_same_bits(wg.vmap(f)(np.stack([X, 0.9 * X])), np.array([f(X), f(0.9 * X)]))
    assert_rounding(wg.vmap(wg.grad(f))(np.stack([X, 0.9 * X])), np.stack([wg.grad(f, X), wg.grad(f, 0.9 * X)]))
    assert_rounding(wg.hvp(f)(X, X), wg.hessian(f, X) @ X)


def test_series_of_math_has_the_plain_value():
    c = wg.taylor(lambda t: math.exp(t) * math.sin(t), 0.3, 1.0, 3)
    assert_same_bits(c[0], np.float64(math.exp(0.3) * math.sin(0.3)))
    assert_rounding(c, wg.taylor(lambda t: np.exp(t) * np.sin(t), 0.3, 1.0, 3))


# ---- exceptions

RAISES = {
    "sqrt": (lambda v: math.sqrt(v), -1.0, ValueError),
    "log": (lambda v: math.log(v), 0.0, ValueError),
    "log with a base": (lambda v: math.log(2.0, v), 1.0, ZeroDivisionError),
    "exp": (lambda v: math.exp(v), 1000.0, OverflowError),
    "pow": (lambda v: math.pow(v, 0.5), -1.0, ValueError),
    "sin": (lambda v: math.sin(v), math.inf, ValueError),
    "gamma": (lambda v: math.gamma(v), -1.0, ValueError),
    "fmod": (lambda v: math.fmod(v, 0.0), 1.0, ValueError),
    "ldexp": (lambda v: math.ldexp(v, 5000), 1.0, OverflowError),
    "atanh": (lambda v: math.atanh(v), 1.0, ValueError),
    "wrong number of arguments": (lambda v: math.sin(v, v), 1.0, TypeError),
    "integers only": (lambda v: math.factorial(v), 1.0, TypeError),
    "fsum": (lambda v: math.fsum([v, -math.inf]), math.inf, ValueError),
    "cmath": (lambda v: cmath.log(v), 0.0, ValueError),
    "floor": (lambda v: math.floor(v), math.nan, ValueError),
    "division": (lambda v: 1 / math.sin(v), 0.0, ZeroDivisionError),
    "remainder": (lambda v: 1 % float(v), 0.0, ZeroDivisionError),
    "overflow": (lambda v: float(v) ** 2, 1e200, OverflowError),
    "mean of nothing": (lambda v: v * statistics.mean([]), 1.0, statistics.StatisticsError),
    "variance of one": (lambda v: statistics.variance([v]), 1.0, statistics.StatisticsError),
    "lengths": (lambda v: math.dist([v], [v, v]), 1.0, ValueError),
}


@pytest.mark.parametrize("name", RAISES)
def test_exceptions_are_those_of_the_plain_call(name):
    f, v, error = RAISES[name]
    with pytest.raises(error) as plain:
        f(np.float64(v))
    g = wg.compile(f)
    for derivative in (wg.grad(f), wg.jacobian(f, mode="forward"), wg.grad(wg.grad(f)), wg.grad(g), g):
        with pytest.raises(error) as traced:
            derivative(v)
        assert type(traced.value) is type(plain.value)
    if name not in ("wrong number of arguments", "integers only"):
        assert str(traced.value) == str(plain.value)


def guarded(v):
    try:
        return math.sqrt(v)
    except ValueError:
        return -v * v


def test_caught_exception_takes_the_plain_branch():
    assert wg.grad(guarded, 4.0) == 0.25 and wg.grad(guarded, -3.0) == 6.0
    g = wg.compile(guarded)
    for v in (4.0, -3.0, 9.0, -2.0, 4.0):
        assert g(v) == guarded(v)
        assert wg.grad(g)(v) == wg.grad(guarded, v)


def test_negative_power_is_complex():
    assert wg.grad(lambda v: (float(v) ** 0.5).imag, -4.0) == -0.25
    assert ((-4.0) ** 0.5).imag == 2.0


# ---- types

TYPES = {
    "sin": lambda v: math.sin(v),
    "float": lambda v: float(v),
    "item": lambda v: v.item(),
    "fsum": lambda v: math.fsum([v, 1]),
    "hypot": lambda v: math.hypot(v, v, v),
    "atan2": lambda v: math.atan2(v, 1),
    "float64": lambda v: np.float64(float(v)),
    "float32": lambda v: np.float32(float(v)),
    "float32 array": lambda v: math.sin(v) * np.ones(2, np.float32),
    "mean": lambda v: statistics.mean([v, v]),
    "mean of floats": lambda v: statistics.mean([float(v), 1]),
    "fmean": lambda v: statistics.fmean([v, v]),
    "polar": lambda v: cmath.polar(v)[0],
    "floor": lambda v: math.floor(v),
    "frexp": lambda v: math.frexp(v)[1],
    "comparison": lambda v: math.sin(v) > 0.5,
    "sum": lambda v: math.sin(v) + 1,
    "numpy": lambda v: np.sin(math.sin(v)),
    "tolist": lambda v: v.tolist(),
    "round": lambda v: round(math.sin(v)),
}


@pytest.mark.parametrize("name", TYPES)
def test_types_are_those_of_the_plain_call(name):
    f, v = TYPES[name], np.float64(0.7)

    def seen(v):
        y = f(v)
        found.append((type(y), getattr(y, "dtype", None)))
        return v * 1.0

    found = []
    seen(v)
    for derivative in (wg.grad(seen), wg.jacobian(seen, mode="forward"), wg.grad(wg.grad(seen))):
        derivative(v)
    assert len(found) == 4 and len(set(found)) == 1
    compiled = wg.compile(f)
    assert [type(compiled(v)) for _ in range(2)] == [type(f(v))] * 2


def test_nothing_is_patched_and_plain_calls_are_unchanged():
    originals = [(module, dict(vars(module))) for module in (*MODULES, builtins)]
    for f in CASES.values():
        wg.grad(f, X)
    for module, names in originals:
        assert all(vars(module)[name] is value for name, value in names.items())
    assert type(math.sin(np.float64(1.0))) is float

    def plain(x):
        found.extend((math.sin(0.5), statistics.mean([1, 2]), float("2"), complex(1, 2), float(3), cmath.sqrt(-1)))
        return x * 1.0

    found = []
    wg.grad(plain, 1.0)
    plain(1.0)
    assert [*map(type, found[:6])] == [*map(type, found[6:])] and found[:6] == found[6:]


def test_classes_stay_themselves_where_they_are_not_called():
    def f(x):
        assert isinstance(x, float) and issubclass(np.float64, float) and type(float(x)) is float
        assert isinstance(math.sin(x), float) and not isinstance(math.sin(x), np.floating)
        return float(x) * np.zeros(2, dtype=float)[0] + {float: 3.0}[float] * x

    assert wg.grad(f, 2.0) == 3.0


def test_functions_can_be_passed_compared_and_pickled():
    def f(x):
        assert math.sin == sine and math.sin.__name__ == "sin" and pickle.loads(pickle.dumps(math.sin)) == math.sin
        return [g(x) for g in (math.sin, math.cos)][1]

    assert_rounding(wg.grad(f, 0.5), -np.sin(0.5))


def test_saved_program_keeps_exact_values(tmp_path):
    program = wg.record(CASES["logarithms"], X, exact=True)
    program.save(tmp_path / "program")
    loaded = wg.Program.load(tmp_path / "program")
    assert_same_bits(np.float64(loaded(0.9 * X)), np.float64(CASES["logarithms"](0.9 * X)))


def test_compiled_steps_are_guarded():
    def f(v):
        return v * math.floor(v) + math.modf(v)[1] + (1.0 if math.isclose(v, 2.0) else 0.0) + math.frexp(v)[1]

    g = wg.compile(f)
    for v in (1.5, 2.5, 2.0, 1.7, 0.25):
        assert g(np.float64(v)) == f(np.float64(v))
        assert wg.grad(g)(v) == wg.grad(f, v)


# ---- refused, and not followed

REFUSED = {
    "nextafter": (lambda x: math.nextafter(x[0], 1.0), "math.nextafter has no derivative .*write x \\+ math.ulp"),
    "mode": (lambda x: statistics.mode(x), "statistics.mode has no derivative .*stop_gradient"),
    "multimode": (lambda x: statistics.multimode(v for v in x)[0], "statistics.multimode has no derivative"),
    "not followed": (lambda x: fetched["sin"](x[0]), "cannot become a Python float .*by its name in the function"),
    "complex to float": (lambda x: float(x[0] * 1j), "drop the imaginary part.*x.real"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_refused_call_names_the_remedy(name):
    f, message = REFUSED[name]
    for derivative in (wg.grad(f), wg.jacobian(f, mode="forward")):
        with pytest.raises(TypeError, match=message):
            derivative(X)


# ---- completeness


def public(module):
    names = module.__all__ if module is statistics else [name for name in dir(module) if not name.startswith("_")]
    found = {name for name in names if callable(getattr(module, name))}
    return {name for name in found if not isinstance(getattr(module, name), type) or name == "NormalDist"}


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_function_is_in_one_group(module):
    groups = [table[module.__name__] for table in (library.DIFFERENTIABLE, library.CONSTANT, library.REFUSED)]
    named = [name for group in groups for name in group]
    assert len(named) == len(set(named))
    assert public(module) - set(named) == set()


BINARY = {"atan2", "copysign", "fmod", "ldexp", "pow"}
UNARY = sorted(name for name in library._UFUNCS if hasattr(math, name) and name not in BINARY)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_float_have_derivatives(name):
    fun, v = getattr(math, name), 1.3 if name == "acosh" else 0.3
    y, g = wg.grad(lambda x: fun(x), v, value=True)
    assert_same_bits(y, np.float64(fun(v)))
    np.testing.assert_allclose(g, (fun(v + 1e-6) - fun(v - 1e-6)) / 2e-6, rtol=DIFFERENCES)
    assert_rounding(wg.jacobian(lambda x: fun(x), v, mode="forward"), g)


@pytest.mark.parametrize("name", sorted(library._COMPLEX_UFUNCS))
def test_functions_of_one_complex_number_have_derivatives(name):
    fun, z = getattr(cmath, name), 0.3 + 0.4j
    y, t = wg.jvp(lambda z: fun(z), z, 1.0 + 0j)
    assert_same_bits(y, np.complex128(fun(z)))
    np.testing.assert_allclose(t, (fun(z + 1e-6) - fun(z - 1e-6)) / 2e-6, rtol=DIFFERENCES)


@pytest.mark.parametrize("container", [list, tuple])
def test_list_of_results_keeps_its_derivative(container):
    def f(x):
        return container([math.exp(x[0]), math.exp(x[1])])

    x = np.array([0.3, 0.5])
    for derivative in (wg.jacobian(f, mode="forward"), wg.jacobian(f, mode="reverse"), wg.jacobian(wg.compile(f))):
        np.testing.assert_allclose(derivative(x), np.diag(np.exp(x)), rtol=1e-15)
    np.testing.assert_allclose(wg.vjp(f, x)[1](np.ones(2)), np.exp(x), rtol=1e-15)
    np.testing.assert_allclose(wg.hessian(lambda x: sum(f(x)))(x), np.diag(np.exp(x)), rtol=1e-15)
