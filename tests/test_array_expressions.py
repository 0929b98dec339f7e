"""Expressions of numexpr with traced operands, by the names that code uses for the function."""

import numpy as np
import pytest

import wengert as wg
from wengert import array_expressions

numexpr = pytest.importorskip("numexpr")
ne, evaluate = numexpr, numexpr.evaluate
SCALE = 3.0
X = np.array([0.5, 1.5, 2.0])


def of_locals_and_globals(x):
    y = np.sin(x)  # noqa: F841
    return ne.evaluate("2*y**2 + exp(-x)*SCALE")


def of_dictionaries(x):
    return evaluate("a*b + where(a > 1, a**2, 3*a)", {"a": x, "b": x[::-1]}, {})


def reduced(x):
    return numexpr.evaluate("sum(sqrt(abs(x)))") * x


def into_an_array(x):
    out = np.empty(3)
    ne.evaluate("x*x", out=out)
    return out * x


def of_constants(x):
    table = np.linspace(0.0, 1.0, 3)  # noqa: F841
    return ne.evaluate("2*table") * x


def of_a_constant_that_is_filled_later(x):
    out = np.ones(3)
    scale = ne.evaluate("2*out")
    out *= x
    return out * scale


def imported_inside(x):
    import numexpr as inner

    return inner.evaluate("arctan2(x, SCALE)")


@pytest.mark.filterwarnings("ignore::wengert.errors.CompileWarning")
@pytest.mark.parametrize(
    "f",
    [
        of_locals_and_globals,
        of_dictionaries,
        reduced,
        into_an_array,
        of_constants,
        of_a_constant_that_is_filled_later,
        imported_inside,
    ],
)
def test_expressions_have_derivatives(f):
    wg.testing.check_derivatives(f, X)
    compiled = wg.jacobian(wg.compile(f))
    for x in (X, X + 0.1):
        np.testing.assert_allclose(compiled(x), wg.jacobian(f)(x), rtol=1e-12)


@pytest.mark.filterwarnings("ignore::wengert.errors.CompileWarning")
def test_globals_of_expressions_are_read_at_each_call(monkeypatch):
    derivative = wg.grad(wg.compile(lambda x: np.sum(ne.evaluate("SCALE*x"))))
    for scale in (2.0, 5.0):
        monkeypatch.setitem(globals(), "SCALE", scale)
        np.testing.assert_array_equal(derivative(X), scale)


def test_errors_of_numexpr_are_raised():
    for text, error in (("x +", SyntaxError), ("missing*x", KeyError), ("x.__class__", ValueError)):
        with pytest.raises(error):
            evaluate(text, {"x": X})
        with pytest.raises(error):
            wg.jacobian(lambda x, text=text: ne.evaluate(text))(X)


def test_values_that_differ_from_numpy_raise(monkeypatch):
    wg.grad(lambda x: ne.evaluate("x*x"), 1.0)
    monkeypatch.setitem(array_expressions._FUNCTIONS, "tan", np.sin)
    with pytest.raises(wg.UnsupportedFunctionError, match=r"numexpr.evaluate\('tan\(x\)'\) has no derivative rule"):
        wg.jacobian(lambda x: ne.evaluate("tan(x)"), X)
