"""User rules: one rule serves both modes, by tracing or column by column; finite differences as a fallback."""

import ctypes
import ctypes.util
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

import wengert as wg
from helpers import assert_rounding
from wengert.testing import check_derivatives

X = np.array([0.3, 0.7, 1.1])
W = np.array([[1.0, 2.0, 0.5], [0.2, -1.0, 3.0]])

libm = ctypes.CDLL(ctypes.util.find_library("m"))
for name in ("erf", "exp", "sin", "cos"):
    getattr(libm, name).restype, getattr(libm, name).argtypes = ctypes.c_double, [ctypes.c_double]


def each(function, x):
    """Apply a compiled scalar function to each element."""
    return np.array([function(v) for v in x])


def plain_model(x, w):
    return np.array([libm.sin(v) for v in w @ x]) + libm.exp(x[0])


def jvp_compiled(t, y, x, w):
    """A rule that cannot be traced."""
    moved = np.array([float(v) for v in t[1] @ x + w @ t[0]])
    return each(libm.cos, w @ x) * moved + libm.exp(x[0]) * float(t[0][0])


def traced_model(x, w):
    return np.sin(w @ x) + np.exp(x[0])


def test_compiled_jvp_serves_reverse_mode():
    model = wg.primitive(plain_model, jvp=jvp_compiled)
    for argnums, at in ((0, (X, W)), (1, (X, W))):
        expected = wg.jacobian(traced_model, *at[:1], args=at[1:], argnums=argnums)
        for mode in ("forward", "reverse"):
            assert_rounding(wg.jacobian(model, *at[:1], args=at[1:], argnums=argnums, mode=mode), expected)
    check_derivatives(lambda x: model(x * x, W), X, order=1)


def test_check_derivatives_finds_wrong_rule_in_either_mode():
    right = {"jvp": lambda t, y, x: t * np.cos(x), "vjp": lambda ybar, y, x: ybar * np.cos(x)}
    check_derivatives(wg.primitive(np.sin, **right), X)
    for word in right:
        wrong = wg.primitive(np.sin, **{**right, word: lambda z, y, x: 1.001 * z * np.cos(x)})
        with pytest.raises(AssertionError):
            check_derivatives(wrong, X)


# ---- sparsity


def banded(x):
    """Each element depends on its neighbours; the function counts its calls."""
    return np.array([libm.exp(x[i]) * x[(i + 1) % x.size] for i in range(x.size)])


def calls_of(sparsity, n=12):
    calls = []

    def jvp(t, y, x):
        calls.append(1)
        t = np.array([float(v) for v in t])
        return np.exp(x) * (t * np.roll(x, -1) + np.roll(t, -1))

    f = wg.primitive(banded, jvp=jvp, sparsity=sparsity)
    x = np.linspace(0, 1, n)
    J = wg.jacrev(lambda x: f(x) * 1.0, x)
    assert_rounding(J, wg.jacobian(lambda x: np.exp(x) * np.roll(x, -1), x))
    return len(calls)


def test_pattern_saves_directions():
    n = 12
    pattern = np.eye(n) + np.roll(np.eye(n), 1, axis=1)
    rows = calls_of(None)
    assert calls_of(pattern) <= rows * 2 / n + 1
    assert calls_of(sp.csr_array(pattern)) == calls_of(pattern)
    with pytest.raises(ValueError, match="lacks"):
        calls_of(np.eye(n))
    with pytest.raises(ValueError, match="lacks"):
        calls_of("elementwise")
    with pytest.raises(ValueError, match=r"has shape \(2, 2\)"):
        calls_of(np.eye(2))
    with pytest.raises(ValueError, match="'elementwise' or a pattern"):
        calls_of("diagonal")


def test_elementwise_functions_of_several_arguments_broadcast():
    def jvp(t, y, a, b):
        ta, tb = (np.array(z.tolist()) for z in t)  # opaque
        return ta * b + a * tb

    f = wg.primitive(lambda a, b: a * b, jvp=jvp, sparsity="elementwise")
    for argnums in (0, 1):
        expected = wg.jacobian(lambda a, b: a * b, W, args=(X,), argnums=argnums)
        assert_rounding(wg.jacobian(f, W, args=(X,), argnums=argnums, mode="reverse"), expected)


# ---- finite differences

FUNCTIONS = {
    "erf": (lambda x: each(libm.erf, x), lambda x: np.diag(2 / math.sqrt(math.pi) * np.exp(-x * x)), X),
    "product": (lambda x: np.array(libm.exp(x[0]) * x[1]), lambda x: np.exp(x[0]) * np.array([x[1], 1, 0]), X),
    "small": (lambda x: 1e-9 * np.sqrt(np.array(x)), lambda x: np.diag(5e-10 / np.sqrt(x)), X * 1e-6),
    "at 0": (lambda x: np.array([libm.sin(v) for v in x]), lambda x: np.eye(3), np.zeros(3)),
    "constant": (lambda x: np.ones(2), lambda x: np.zeros((2, 3)), X),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_finite_differences_are_accurate(name):
    plain, exact, x = FUNCTIONS[name]
    f = wg.primitive(plain, jvp="fd")
    expected = exact(x)
    scale = max(np.max(np.abs(expected)), 1e-300)
    with pytest.warns(wg.FiniteDifferenceWarning, match="a finite difference with a relative error of about"):
        forward = wg.jacfwd(f, x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the warning was shown before
        reverse = wg.jacrev(lambda x: f(1.0 * x) * 1.0, x)
        replayed = wg.compile(wg.jacobian(f), constant="libm")(x)
    for found in (forward, reverse, replayed):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8 * scale)


def test_finite_differences_of_several_arguments_and_location_of_warning():
    f = wg.primitive(plain_model, jvp="fd")
    with pytest.warns(wg.FiniteDifferenceWarning) as told:
        found = wg.jacobian(f, X, args=(W,), argnums=(0, 1))
    assert told[0].filename == __file__
    for one, expected in zip(found, wg.jacobian(traced_model, X, args=(W,), argnums=(0, 1))):
        np.testing.assert_allclose(one, expected, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-5, 1e-9])
def test_error_estimate_is_reliable_near_a_kink(distance):
    f = wg.primitive(lambda x: np.array(abs(float(x) - 0.3)), jvp="fd")
    with pytest.warns(wg.FiniteDifferenceWarning) as told:
        found = wg.derivative(f, 0.3 + distance)
    estimate = float(str(told[0].message).split("about ")[1].split()[0])
    assert abs(found - 1) <= 100 * estimate + 1e-9


def test_second_derivatives_by_finite_differences_raise():
    f = wg.primitive(lambda x: np.sin(np.array(x)), jvp="fd")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wg.FiniteDifferenceWarning)
        for derivative in (
            lambda g: wg.hessian(g, X),
            lambda g: wg.jacfwd(wg.jacfwd(g))(X),
            lambda g: wg.jacrev(wg.jacrev(g))(X),
            lambda g: wg.hvp(g, X, X),
        ):
            with pytest.raises(wg.UnsupportedFunctionError, match="first derivatives only"):
                derivative(lambda x: np.sum(f(x)))


def test_given_rule_takes_precedence_over_finite_differences():
    f = wg.primitive(lambda x: np.sin(np.array(x)), jvp="fd", vjp=lambda ybar, y, x: ybar * np.cos(x))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_rounding(wg.grad(lambda x: np.sum(f(x)), X), np.cos(X))
    with pytest.raises(ValueError, match="a function or 'fd'"):
        wg.primitive(np.sin, jvp="differences")
