"""Adaptive quadrature: derivatives in parameters and limits against closed forms, and what is refused."""

import ctypes
import dataclasses
import math
import sys
import warnings

import mpmath as mp
import numpy as np
import pytest
import scipy
import scipy.integrate
from scipy import integrate
from scipy.integrate import IntegrationWarning, dblquad, nquad, quad, quad_vec, tplquad
from scipy.interpolate import CubicSpline

import wengert as wg
from helpers import assert_same_bits
from wengert.errors import (
    CompileWarning,
    NonSmoothError,
    ReplayMismatchError,
    TracedValueError,
    UnsupportedFunctionError,
)

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it
cubature, tanhsinh, mirrored_quad = integrate.cubature, integrate.tanhsinh, wg.scipy.integrate.quad


def decay(t, rate):
    return np.exp(-rate * t)


class Model:
    """An integrand as a method that reads attributes."""

    __slots__ = ("__dict__", "rate")

    def __init__(self, rate, amplitude=2.0):
        self.rate, self.amplitude = rate, amplitude

    def at(self, t):
        return self.amplitude * np.exp(-self.rate * t)


def log_weighted(low, high):
    """The integral of log(x - low) (x - low)**-0.5 (high - x)**0.3 over the interval."""
    length = high - low
    beta = mp.beta(0.5, 1.3)
    return length**0.8 * beta * (mp.log(length) + mp.psi(0, 0.5) - mp.psi(0, 1.8))


def principal_value(p, low, high):
    log = mp.log((high - 0.3) / (0.3 - low))
    return p * ((high**2 - low**2) / 2 + 0.3 * (high - low) + 0.09 * log) + log


PLANE = [-np.inf, -np.inf], [np.inf, np.inf]

#: the integral as a function of an array, the point, and its closed form in mpmath
CASES = {
    "a parameter in a closure": (
        lambda p: quad(lambda t: np.exp(-p[0] * t), 0, 2)[0],
        [0.7],
        lambda a: (1 - mp.exp(-2 * a)) / a,
    ),
    "a parameter in args": (
        lambda p: quad(decay, 0, 2, args=(p[0],))[0],
        [0.7],
        lambda a: (1 - mp.exp(-2 * a)) / a,
    ),
    "a parameter as args": (
        lambda p: quad(decay, 0, 2, args=p[0])[0],
        [0.7],
        lambda a: (1 - mp.exp(-2 * a)) / a,
    ),
    "an attribute": (
        lambda p: quad(Model(p[0]).at, 0, p[1])[0],
        [0.7, 1.1],
        lambda a, b: 2 * (1 - mp.exp(-a * b)) / a,
    ),
    "a default": (
        lambda p: quad(lambda t, a=p[0]: np.exp(-a * t), 0, 2)[0],
        [0.7],
        lambda a: (1 - mp.exp(-2 * a)) / a,
    ),
    "a spline": (
        lambda p: quad(CubicSpline([0.0, 0.5, 1.0, 1.5], p), 0, 1)[0],
        [0.7, 1.1, 0.4, 0.9],
        lambda *p: CubicSpline([0.0, 0.5, 1.0, 1.5], np.eye(4)).integrate(0, 1) @ np.array(p),
    ),
    "the limits": (lambda p: quad(np.exp, p[0], p[1])[0], [0.2, 1.1], lambda a, b: mp.exp(b) - mp.exp(a)),
    "reversed limits": (lambda p: quad(np.exp, p[0], p[1])[0], [1.1, 0.2], lambda a, b: mp.exp(b) - mp.exp(a)),
    "parameters and limits": (
        lambda p: integrate.quad(lambda t: p[0] * np.exp(-p[1] * t), p[2], p[3])[0],
        [1.5, 0.7, -0.3, 1.2],
        lambda c, a, low, high: c / a * (mp.exp(-a * low) - mp.exp(-a * high)),
    ),
    "math in the integrand": (
        lambda p: quad(lambda t: math.exp(-p[0] * t) if t < 1 else 0.0, 0, 2, points=[1.0])[0],
        [0.7],
        lambda a: (1 - mp.exp(-a)) / a,
    ),
    "more parameters than tangents": (
        lambda p: quad(lambda t: np.sum(p * t ** np.arange(40.0)), 0, 0.9)[0],
        np.cos(np.arange(40.0)),
        lambda *p: sum(c * mp.mpf("0.9") ** (k + 1) / (k + 1) for k, c in enumerate(p)),
    ),
    "an infinite upper limit": (
        lambda p: quad(decay, p[1], np.inf, args=(p[0],))[0],
        [0.7, 0.4],
        lambda a, b: mp.exp(-a * b) / a,
    ),
    "an infinite lower limit": (
        lambda p: scipy.integrate.quad(lambda t: np.exp(p[0] * t), -np.inf, p[1])[0],
        [0.7, 0.4],
        lambda a, b: mp.exp(a * b) / a,
    ),
    "the whole line": (
        lambda p: quad(lambda t: np.exp(-p[0] * t**2 + p[1] * t), -np.inf, np.inf)[0],
        [1.3, 0.4],
        lambda a, b: mp.sqrt(mp.pi / a) * mp.exp(b**2 / (4 * a)),
    ),
    "weight cos": (
        lambda p: quad(decay, 0, p[1], args=(p[0],), weight="cos", wvar=3.0)[0],
        [0.7, 2.1],
        lambda a, b: ((1 - mp.exp((3j - a) * b)) / (a - 3j)).real,
    ),
    "weight sin over an infinite interval": (
        lambda p: quad(decay, 0, np.inf, args=(p[0],), weight="sin", wvar=3.0)[0],
        [0.7],
        lambda a: 3 / (a**2 + 9),
    ),
    "weight alg": (
        lambda p: quad(lambda t: 1 + p[0] ** 2 * t, 0, 1, weight="alg", wvar=(-0.5, 0.3))[0],
        [0.7],
        lambda a: mp.beta(0.5, 1.3) + a**2 * mp.beta(1.5, 1.3),
    ),
    "weight alg over traced limits": (
        lambda p: quad(lambda t: p[0] ** 2, p[1], p[2], weight="alg", wvar=(-0.5, 0.3))[0],
        [0.7, 0.2, 0.9],
        lambda c, a, b: c**2 * (b - a) ** 0.8 * mp.beta(0.5, 1.3),
    ),
    "weight alg-loga over traced limits": (
        lambda p: quad(lambda t: 1.0, p[0], p[1], weight="alg-loga", wvar=(-0.5, 0.3))[0],
        [0.2, 0.9],
        log_weighted,
    ),
    "weight alg-logb over reversed limits": (
        lambda p: quad(lambda t: 1.0, p[0], p[1], weight="alg-logb", wvar=(0.3, -0.5))[0],
        [0.9, 0.2],
        lambda a, b: -log_weighted(b, a),
    ),
    "weight alg-log over traced limits": (
        lambda p: quad(lambda t: 1.0, p[0], p[1], weight="alg-log", wvar=(0.0, 0.0))[0],
        [0.2, 0.9],
        lambda a, b: (b - a) * (mp.log(b - a) ** 2 - 2 * mp.log(b - a) + 2 - mp.pi**2 / 6),
    ),
    "weight cauchy": (
        lambda p: quad(lambda t: p[0] * t**2 + 1, p[1], p[2], weight="cauchy", wvar=0.3)[0],
        [0.7, -0.2, 0.9],
        principal_value,
    ),
    "points": (
        lambda p: quad(lambda t: p[0] ** 2 * abs(t - 0.3), 0, p[1], points=[0.3])[0],
        [0.7, 0.9],
        lambda a, b: a**2 * (mp.mpf("0.3") ** 2 + (b - mp.mpf("0.3")) ** 2) / 2,
    ),
    "a complex integrand": (
        lambda p: np.imag(quad(lambda t: np.exp(1j * p[0] * t), 0, p[1], complex_func=True)[0]),
        [0.7, 0.9],
        lambda a, b: (1 - mp.cos(a * b)) / a,
    ),
    "an integral as limit and parameter": (
        lambda p: quad(decay, 0, quad(np.exp, 0, p[0])[0], args=(quad(np.cos, 0, p[1])[0],))[0],
        [0.7, 0.9],
        lambda a, b: (1 - mp.exp(-mp.sin(b) * (mp.exp(a) - 1))) / mp.sin(b),
    ),
    "an integral within an integral": (
        lambda p: quad(lambda x: quad(lambda y: p[0] ** 2 * x * y, 0, p[1] * x)[0], 0, p[1])[0],
        [0.7, 0.9],
        lambda c, b: c**2 * b**6 / 8,
    ),
    "a singularity at the lower limit": (
        lambda p: quad(lambda t: p[0] ** 2 / np.sqrt(t), 0, p[1])[0],
        [0.7, 0.9],
        lambda a, b: 2 * a**2 * mp.sqrt(b),
    ),
    "a steep integrand": (
        lambda p: quad(lambda t: np.tanh((t - p[0]) / 1e-4), 0, 1)[0],
        [0.37],
        lambda a: 1 - 2 * a,
    ),
    "dblquad with traced inner limits": (
        lambda p: dblquad(lambda y, x: x * y, 0, p[0], lambda x: p[1] * x, lambda x: p[2])[0],
        [0.9, 0.2, 1.3],
        lambda b, c, d: d**2 * b**2 / 4 - c**2 * b**4 / 8,
    ),
    "dblquad with scalar limits and args": (
        lambda p: dblquad(lambda y, x, c: c**2 * x * y, 0, 1, p[0], p[1], args=(p[2],))[0],
        [0.2, 1.3, 0.7],
        lambda low, high, c: c**2 * (high**2 - low**2) / 4,
    ),
    "tplquad": (
        lambda p: tplquad(
            lambda z, y, x: z, 0, p[0], lambda x: 0.0, lambda x: p[1] * x, 0.0, lambda x, y: p[2] * (x + y)
        )[0],
        [0.9, 0.4, 1.3],
        lambda a, b, c: c**2 / 6 * ((1 + b) ** 3 - 1) * a**4 / 4,
    ),
    "nquad with options": (
        lambda p: nquad(
            lambda x, y, c: c**2 * abs(x - 0.3) * y,
            [lambda y, c: (0, 1), (0, p[0])],
            args=(p[1],),
            opts=[{"points": [0.3]}, {}],
        )[0],
        [0.9, 0.7],
        lambda b, c: c**2 * mp.mpf("0.29") * b**2 / 2,
    ),
    "nquad over one variable": (lambda p: nquad(lambda x: x**2, [(0, p[0])])[0], [0.9], lambda b: b**3 / 3),
    "quad_vec": (
        lambda p: np.sum(quad_vec(lambda t: p[0] * np.array([[t, t**2]]) ** 2, 0, p[1])[0] * [1.0, 2.0]),
        [0.7, 0.9],
        lambda a, b: a * (b**3 / 3 + 2 * b**5 / 5),
    ),
    "quad_vec of a scalar": (
        lambda p: quad_vec(decay, 0, np.inf, args=(p[0],), points=[1.0])[0],
        [0.7],
        lambda a: 1 / a,
    ),
    "cubature": (
        lambda p: cubature(lambda x: np.exp(-p[0] * x[:, 0]) * x[:, 1], [0, 0], [1, 2]).estimate,
        [0.7],
        lambda a: 2 * (1 - mp.exp(-a)) / a,
    ),
    "cubature over traced limits": (
        lambda p: cubature(lambda x: p[0] ** 2 * x[:, 0] * x[:, 1], [p[1], 0], [1, p[2]], points=[[0.5, 0.1]]).estimate,
        [0.7, 0.2, 0.9],
        lambda c, a, b: c**2 * (1 - a**2) * b**2 / 4,
    ),
    "cubature over the plane": (
        lambda p: cubature(lambda x, c: np.exp(-c * np.sum(x**2, axis=1)), *PLANE, args=(p[0],)).estimate,
        [0.7],
        lambda c: mp.pi / c,
    ),
    "cubature of arrays with vanishing partials": (
        lambda p: cubature(lambda x: np.stack([1 + p[0] * x[:, 0], p[0] ** 3 + x[:, 0]], 1), [-1], [1]).estimate[1],
        [0.7],
        lambda a: 2 * a**3,
    ),
    "tanhsinh": (
        lambda p: tanhsinh(lambda x: np.exp(-p[0] * x), p[1], np.inf).integral,
        [0.7, 0.4],
        lambda a, b: mp.exp(-a * b) / a,
    ),
    "tanhsinh of arrays": (
        lambda p: np.sum(
            tanhsinh(lambda x, a: p[1] ** 2 * np.exp(-a * x), 0, [[1.0], [p[2]]], args=(p[:1] * [1.0, 2.0],)).integral
        ),
        [0.7, 1.3, 2.0],
        lambda a, c, b: c**2 * sum((1 - mp.exp(-k * a * x)) / (k * a) for k in (1, 2) for x in (1, b)),
    ),
    "tanhsinh of an odd partial": (
        lambda p: tanhsinh(lambda x: np.cos(x) + p[0] * x**3, -1, 1).integral + p[0] ** 2,
        [0.7],
        lambda a: 2 * mp.sin(1) + a**2,
    ),
    "quad_vec of complex arrays": (
        lambda p: np.real(np.sum(quad_vec(lambda t: np.exp(1j * t * np.array([p[0], 2 * p[0]])), 0, p[1])[0])),
        [0.7, 0.9],
        lambda a, b: (mp.sin(a * b) + mp.sin(2 * a * b) / 2) / a,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_have_the_bits_of_scipy(name):
    f, p, _ = CASES[name]
    p = np.array(p)
    assert_same_bits(wg.value_and_grad(f)(p)[0], f(p))
    assert_same_bits(wg.jvp(f, p, np.ones(p.size))[0], f(p))


@pytest.mark.parametrize("name", CASES)
def test_gradients_of_both_modes_agree_with_closed_forms(name):
    f, p, closed = CASES[name]
    p = np.array(p)
    with mp.workdps(30):
        expected = [float(mp.diff(closed, tuple(p), unit)) for unit in _units(p.size)]
    np.testing.assert_allclose(wg.grad(f)(p), expected, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(wg.jacobian(f, mode="forward")(p), expected, rtol=1e-8, atol=1e-10)


#: without those that take long
TWICE = [name for name, case in CASES.items() if len(case[1]) < 5 and name not in ("tplquad", "a steep integrand")]


@pytest.mark.parametrize("name", TWICE)
def test_hessians_agree_with_closed_forms(name):
    f, p, closed = CASES[name]
    p = np.array(p)
    with mp.workdps(40):
        expected = [
            [float(mp.diff(closed, tuple(p), tuple(np.add(a, b)))) for b in _units(p.size)] for a in _units(p.size)
        ]
    scale = max(1.0, np.max(np.abs(expected)))
    np.testing.assert_allclose(wg.hessian(f)(p), expected, rtol=1e-7, atol=1e-7 * scale)
    forward = wg.jacobian(wg.jacobian(f, mode="forward"), mode="forward")(p)
    np.testing.assert_allclose(forward, expected, rtol=1e-7, atol=1e-7 * scale)
    direction = np.cos(np.arange(p.size))
    np.testing.assert_allclose(wg.hvp(f)(p, direction), expected @ direction, rtol=1e-7, atol=1e-7 * scale)


def _units(n):
    return [tuple(row) for row in np.eye(n, dtype=int).tolist()]


#: programs contain them only as eager calls
EAGER = {
    **{name: "algebraic weight" for name in CASES if name.startswith("weight alg") and "limits" in name},
    **{name: "reports on a single run" for name in CASES if name.startswith(("cubature", "tanhsinh"))},
}


@pytest.mark.parametrize("name", [name for name in CASES if name not in EAGER])
def test_programs_repeat_the_integral(name):
    f, p, _ = CASES[name]
    p = np.array(p)
    value, gradient = wg.compile(f), wg.compile(wg.grad(f))  # a CompileWarning would fail the test
    for x in (p, 1.02 * p, 0.97 * p):
        np.testing.assert_allclose(value(x), f(x), rtol=1e-14)
        np.testing.assert_allclose(gradient(x), wg.grad(f)(x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", EAGER)
def test_some_integrals_run_uncompiled(name):
    f, p, _ = CASES[name]
    gradient = wg.compile(wg.grad(f))
    with pytest.warns(CompileWarning, match=EAGER[name]):
        found = [gradient(np.array(p)) for _ in range(3)][-1]
    np.testing.assert_array_equal(found, wg.grad(f)(np.array(p)))


RATE = 2.0


def of_global(p):
    return quad(lambda t: p * np.exp(-RATE * t), 0, 1)[0]


def test_programs_read_globals_of_the_integrand_at_every_call(monkeypatch):
    value, gradient = wg.compile(of_global), wg.compile(wg.grad(of_global))
    for rate in (2.0, 3.0):
        monkeypatch.setitem(globals(), "RATE", rate)
        integral = -np.expm1(-rate) / rate
        np.testing.assert_allclose([value(1.5), gradient(1.5)], [1.5 * integral, integral], rtol=1e-12)


def test_programs_read_attributes_of_an_object_at_every_call():
    model = Model(2.0)
    value = wg.compile(lambda p: quad(model.at, 0, p)[0])
    for model.rate in (2.0, 3.0):
        np.testing.assert_allclose(value(0.5), 2 * -np.expm1(-0.5 * model.rate) / model.rate, rtol=1e-12)


def test_programs_recompute_the_error_estimate():
    def with_error(p):
        return quad(lambda t: np.exp(-p * t), 0, 1)

    program = wg.compile(with_error)
    for p in (0.7, 20.0):
        np.testing.assert_allclose(program(p), with_error(p), rtol=1e-6)


def _slices(p):
    a, b = p[:2], p[2:]
    return quad(lambda t: np.exp(-a[0] * t) * b[0] + a[1], 0, 1)[0]


def _nested(p):
    return quad(lambda x: quad(lambda y: p[0] * np.exp(-p[1] * x * y), 0, 1 + x)[0], 0, p[2])[0]


#: integrals, of which programs evaluate the integrand in C
IN_C = {
    "closure": lambda p: quad(lambda t: p[0] * np.exp(-p[1] * t**2), 0, p[2])[0],
    "args": lambda p: quad(lambda t, a, b: a * np.exp(-b * t**2), -np.inf, np.inf, args=(p[0], p[1]))[0],
    "views": _slices,
    "weight": lambda p: quad(lambda t: np.exp(-p[0] * t), 0, p[1], weight="cos", wvar=2.0)[0],
    "points": lambda p: quad(lambda t: np.abs(t - 0.5) ** (1 + p[0]), 0, 1, points=[0.5])[0],
    "complex": lambda p: abs(quad(lambda t: np.exp(1j * p[0] * t - p[1] * t), 0, 1, complex_func=True)[0]),
    "nested": _nested,
    "dblquad": lambda p: dblquad(lambda y, x: p[0] * np.exp(-p[1] * x * y), 0, p[2], 0, lambda x: 1 + x)[0],
    "nquad": lambda p: nquad(lambda x, y, z: p[0] * x * np.exp(p[1] * y * z), [(0, 1), (0, p[2]), (0, 1)])[0],
}


@pytest.mark.parametrize("name", IN_C)
def test_programs_integrate_partials_without_python_code_of_the_integrand(name):
    f, p = IN_C[name], np.array([0.7, 1.2, 0.9])
    gradient, ran = wg.compile(wg.grad(f)), set()
    gradient(p)
    sys.setprofile(lambda frame, event, arg: ran.add((frame.f_code.co_filename, frame.f_code.co_name)))
    try:
        found = gradient(1.1 * p)
    finally:
        sys.setprofile(None)
    np.testing.assert_allclose(found, wg.grad(f)(1.1 * p), rtol=1e-9)
    assert (__file__, "<lambda>") not in ran


def test_nested_partials_call_the_integrand_rarely_in_eager_mode():
    calls = []

    def integrand(y, x, p):
        calls.append(x)
        return p[0] * np.exp(-p[1] * x * y)

    def f(p):
        return dblquad(integrand, 0, 1, 0, 1, args=(p,))[0]

    p = np.array([0.7, 1.2])
    f(p)
    count = len(calls)
    calls.clear()
    g = wg.grad(f)(p)
    assert len(calls) < 1.5 * count
    exact = quad(lambda x: quad(lambda y: np.exp(-p[1] * x * y), 0, 1)[0], 0, 1)[0]
    np.testing.assert_allclose(g[0], exact, rtol=1e-9)


def test_warnings_of_inner_integrals_in_c_pass_through():
    def f(p):
        return quad(lambda x: quad(lambda y: p * np.sin(x / y) / y, 0, 1, limit=2)[0], 0.5, 1)[0]

    program = wg.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program(0.7)
    with pytest.raises(IntegrationWarning):
        program(0.8)


def test_reports_are_not_compiled():
    program = wg.compile(lambda p: quad(lambda t: np.exp(-p * t), 0, 1, full_output=True)[2]["neval"] * p)
    with pytest.warns(CompileWarning, match="reports on a single run"):
        assert [program(0.7) for _ in range(3)] == 3 * [21 * 0.7]
    assert program(200.0) > 21 * 200.0


def test_integrals_have_batches_and_sparse_derivatives():
    def integrals(p):
        return np.stack([quad(decay, 0, 1, args=(rate,))[0] for rate in p])

    p = np.array([0.3, 0.7, 1.1])
    expected = np.exp(-p) / p - (1 - np.exp(-p)) / p**2
    np.testing.assert_allclose(wg.jacobian(integrals, sparse=True)(p).toarray(), np.diag(expected), rtol=1e-9)
    np.testing.assert_array_equal(wg.vmap(lambda rate: quad(decay, 0, 1, args=(rate,))[0])(p), integrals(p))


def test_third_derivative_is_exact():
    found = wg.derivative(lambda a: quad(lambda t: np.exp(-a * t), 0, 1)[0], 0.7, order=3)
    with mp.workdps(30):
        expected = mp.diff(lambda a: (1 - mp.exp(-a)) / a, 0.7, 3)
    np.testing.assert_allclose(found, float(expected), rtol=1e-9)


def test_complex_parameter_has_a_derivative():
    def f(z):
        return quad(lambda t: np.real(np.exp(-z * t)), 0, 1)[0]

    z = 0.7 + 0.4j
    slope = (np.exp(-z) * (1 + z) - 1) / z**2
    np.testing.assert_allclose(wg.grad(f)(z), np.conj(slope), rtol=1e-9)


def test_passive_integrals_are_constants():
    def f(a):
        with wg.passive():
            scale = quad(decay, 0, 1, args=(a,))[0]
        return scale * a

    assert wg.grad(f)(0.7) == quad(decay, 0, 1, args=(0.7,))[0]


def test_variables_may_change_after_the_integral():
    def powers(p):
        total = 0.0
        for k in range(3):

            def power(t):
                return t**k

            total = total + quad(lambda t: p * power(t), 0, 1)[0] + quad(power, 0, p)[0]
            total = total + tanhsinh(lambda t: p * power(t), 0, 1).integral
            total = total + cubature(lambda x: p * power(x[:, 0]), [0], [1]).estimate
        return total

    expected = 3 * (1 + 1 / 2 + 1 / 3) + 1 + 0.7 + 0.7**2
    np.testing.assert_allclose(wg.grad(powers)(0.7), expected, rtol=1e-12)
    np.testing.assert_allclose(wg.derivative(powers, 0.7), expected, rtol=1e-12)


CHANGING = {
    "quad": lambda p, w: quad(lambda t: p * w[0] * t, 0, 1)[0],
    "a limit of quad": lambda p, w: quad(lambda t: w[0] * t, 0, p)[0],
    "quad_vec": lambda p, w: quad_vec(lambda t: p * w[0] * t, 0, 1)[0],
    "nquad": lambda p, w: nquad(lambda t: p * w[0] * t, [(0, 1)])[0],
    "dblquad": lambda p, w: dblquad(lambda y, x: p * w[0] * x, 0, 1, 0, 1)[0],
    "cubature": lambda p, w: cubature(lambda x: p * w[0] * x[:, 0], [0], [1]).estimate,
    "tanhsinh": lambda p, w: tanhsinh(lambda t: p * w[0] * t, 0, 1).integral,
}


@pytest.mark.parametrize("name", CHANGING)
def test_sweeps_notice_other_state_that_changed(name):
    def f(p):
        w = np.ones(1)
        y = CHANGING[name](p, w)
        w[0] = 2.0
        return y

    assert np.isclose(wg.derivative(f, 0.7), 0.7 if "limit" in name else 0.5)
    with pytest.raises(ReplayMismatchError, match="the integrand has changed since the integral was computed"):
        wg.grad(f)(0.7)


def test_integrands_may_assign_variables():
    def f(p):
        count = 0

        def integrand(t):
            nonlocal count
            count += 1
            return p * t

        y = quad(integrand, 0, 1)[0]
        assert count == 21
        return y

    assert np.isclose(wg.grad(f)(0.7), 0.5)


# ---- the form of results


def test_results_keep_the_form_of_scipy():
    seen = []

    def f(p):
        seen.append([
            quad(decay, 0, 1, args=(p,)),
            quad(decay, 0, 1, args=(p,), full_output=1),
            quad(lambda t: np.exp(1j * p * t), 0, 1, complex_func=True, full_output=1),
            quad_vec(decay, 0, 1, args=(p,), full_output=True),
            nquad(decay, [(0, 1)], args=(p,), full_output=True),
            dblquad(lambda y, x: x * y * p, 0, 1, 0, 1),
        ])
        return seen[-1][0][0]

    wg.grad(f)(0.7)
    f(0.7)
    for inside, outside in zip(*seen, strict=True):
        assert type(inside) is tuple and len(inside) == len(outside)
        assert type(inside[1]) is type(outside[1]) and inside[1] == outside[1]
    assert seen[0][1][2]["neval"] == 21 and seen[0][2][2]["imag"][0]["neval"] == 21
    assert seen[0][3][2].neval == seen[1][3][2].neval and seen[0][4][2] == {"neval": 21}


def test_limits_of_an_empty_interval_have_derivatives():
    found = wg.grad(lambda p: quad(np.exp, p[0], p[1])[0])(np.array([0.5, 0.5]))
    assert found.tolist() == [-math.exp(0.5), math.exp(0.5)]


def test_infinite_traced_limit_has_no_term():
    assert wg.grad(lambda b: quad(lambda t: np.exp(-t), 0, b)[0])(np.inf) == 0


def test_integrals_without_traced_values_are_plain():
    assert wg.grad(lambda p: p * quad(np.exp, 0, 1)[0])(2.0) == quad(np.exp, 0, 1)[0]


def test_mirrors_accept_scipys_calls():
    a = wg.scipy.integrate
    assert a.quad(np.exp, 0, b=1) == quad(np.exp, 0, 1)
    assert wg.grad(lambda p: a.quad(a=0, func=np.exp, b=p)[0])(0.5) == math.exp(0.5)
    for wrong in (((np.exp, 0), {}), ((np.exp, 0, 1), {"b": 2}), ((np.exp, 0, 1), {"unknown": 2})):
        with pytest.raises(TypeError):
            wg.grad(lambda p, wrong=wrong: p * a.quad(*wrong[0], **wrong[1])[0])(0.5)


def test_programs_call_mirrors_by_name():
    program = wg.compile(lambda p: mirrored_quad(decay, 0, 1, args=(p,))[0])
    assert program(0.7) == program(0.7) == quad(decay, 0, 1, args=(0.7,))[0]


# ---- what is refused

REFUSED = {
    "epsabs": lambda p: quad(np.exp, 0, 1, epsabs=p),
    "limit": lambda p: quad(np.exp, 0, 1, limit=[p]),
    "wvar": lambda p: quad(np.exp, 0, 1, weight="alg", wvar=(p, 0.0)),
    "points": lambda p: quad(np.exp, 0, 1, points=[p]),
    "epsrel": lambda p: quad_vec(np.exp, 0, 1, epsrel=p),
    "rtol": lambda p: (cubature(lambda x: x[:, 0], [0], [1], rtol=p).estimate,),
    "atol": lambda p: (tanhsinh(np.exp, 0, 1, atol=p).integral,),
    "opts": lambda p: nquad(np.exp, [(0, 1)], opts={"points": [p]}),
}


@pytest.mark.parametrize("name", REFUSED)
def test_traced_options_are_refused(name):
    with pytest.raises(TracedValueError, match=rf"^scipy\.integrate\.\w+: {name} is traced, .*stop_gradient"):
        wg.grad(lambda p: REFUSED[name](p)[0])(0.5)


HELD = []


def test_traced_values_that_cannot_be_found_are_refused():
    with pytest.raises(TracedValueError, match="neither in its closure nor in args: pass the value in args="):
        wg.grad(lambda p: HELD.append(p) or quad(lambda t: HELD[-1] * t, 0, 1)[0])(0.5)


def test_limits_are_scalars():
    assert wg.grad(lambda p: quad(np.exp, 0, p)[0])(np.array([0.5])) == [math.exp(0.5)]
    with pytest.raises(ValueError, match=r"a limit is a scalar, not an array of shape \(2,\)"):
        wg.jacobian(lambda p: quad(np.exp, 0, p)[0])(np.ones(2))


def test_compiled_integrand_has_no_value_at_a_traced_limit():
    cosine = ctypes.CDLL(None).cos
    cosine.restype, cosine.argtypes = ctypes.c_double, (ctypes.c_double,)
    function = scipy.LowLevelCallable(cosine)
    assert wg.grad(lambda p: p * quad(function, 0, 1)[0])(2.0) == quad(function, 0, 1)[0]
    with pytest.raises(UnsupportedFunctionError, match="pass a Python function"):
        wg.grad(lambda p: quad(function, 0, p)[0])(0.5)
    with_count = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, ctypes.c_double)(lambda count, x: count + x)
    assert wg.grad(lambda p: p * quad(with_count, 0, 1)[0])(2.0) == quad(with_count, 0, 1)[0]
    for f in (lambda p: quad(with_count, 0, 1, args=(p,))[0], lambda p: quad(with_count, 0, p)[0]):
        with pytest.raises(UnsupportedFunctionError, match="pass a Python function"):
            wg.grad(f)(0.5)


MOVING = {
    "at the middle": (lambda p: quad(lambda t: np.heaviside(p - t, 0.5), 0, 1)[0], 0.5, 1),
    "at a bisection": (lambda p: quad(lambda t: 1.0 if t < p else 0.0, 0, 1)[0], 0.5, 1),
    "elsewhere": (lambda p: quad(lambda t: np.where(t < p, 1.0, 0.0), 0, 1)[0], 0.3, 1),
    "beside a fixed one": (lambda p: quad(lambda t: 1.0 * (t < 0.3) + (t < p), 0, 1)[0], 0.77, 1),
    "a small one": (lambda p: quad(lambda t: 1 + 0.01 * (t < p), 0, 1)[0], 0.77, 1),
    "over a half line": (lambda p: quad(lambda t: np.exp(-t) * (t > p), 0, np.inf)[0], 1.37, 1),
    "over the other half line": (lambda p: quad(lambda t: np.exp(t) * (t > p), -np.inf, 0)[0], -1.37, 1),
    "over the whole line": (lambda p: quad(lambda t: np.exp(-t * t) * (t > p), -np.inf, np.inf)[0], -0.37, 1),
    "of an array": (lambda p: quad_vec(lambda t: np.array([1.0 * (t < p), p]), 0, 1)[0][0], 0.37, 1),
    "of several variables": (lambda p: cubature(lambda x: x[:, 1] * (x[:, 0] < p), [0, 0], [1, 1]).estimate, 0.375, 1),
    "of a partial derivative": (lambda p: quad(lambda t: np.maximum(t - p, 0.0), 0, 1)[0], 0.3, 2),
}


@pytest.mark.parametrize("name", MOVING)
def test_jumps_that_move_are_refused(name):
    f, p, order = MOVING[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IntegrationWarning)
        with pytest.raises(NonSmoothError, match=r"jumps at x.* = .*with the traced location as a limit of both parts"):
            wg.derivative(f, p, order=order)


SMOOTH = {
    "a jump that stays": (lambda p: quad(lambda t: np.where(t < 0.3, p, 0.0), 0, 1)[0], 0.3),
    "a kink that moves": (lambda p: quad(lambda t: np.maximum(t - p, 0.0), 0, 1)[0], -0.7),
    "a jump at a limit": (
        lambda p: quad(lambda t: 1.0 if t < p else 0.0, 0, p)[0] + quad(lambda t: 1.0 if t < p else 0.0, p, 1)[0],
        1.0,
    ),
    "a zero that moves": (lambda p: quad(lambda t: t - p, 0, 0.6)[0], -0.6),
    "an odd integrand": (lambda p: quad(lambda t: p * np.sin(t), -1, 1)[0], 0.0),
    "an integrand that is undefined at the limits": (lambda p: quad(lambda t: p * math.log(t) / 1.0, 0, 1)[0], -1.0),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_other_discontinuities_are_not(name):
    f, expected = SMOOTH[name]
    np.testing.assert_allclose(wg.derivative(f, 0.3), expected, rtol=1e-9, atol=1e-12)


# ---- integrals that do not converge


def test_warnings_of_scipy_pass_through():
    def f(p):
        return quad(lambda t: p / (t - 0.3), 0, 1)[0]

    with warnings.catch_warnings(record=True) as plain:
        warnings.simplefilter("always")
        f(2.0)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        wg.grad(f)(2.0)
    assert [str(w.message) for w in plain] == [str(found[0].message)] and found[0].category is IntegrationWarning
    assert found[0].filename == __file__


@pytest.mark.parametrize("integral", [quad, quad_vec])
def test_partials_that_do_not_converge_warn_with_a_remedy(integral):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        wg.grad(lambda p: integral(lambda t: t ** (p - 1.0), 0, 1, limit=6)[0])(0.05)
    (ours,) = [w for w in found if "wengert" not in w.filename and "partial derivative" in str(w.message)]
    assert ours.category is IntegrationWarning and ours.filename == __file__
    assert str(ours.message).startswith(f"scipy.integrate.{integral.__name__}: the integral of a partial derivative")
    assert "has not converged" in str(ours.message) and "(points=), or raise limit" in str(ours.message)


def test_tanhsinh_warns_of_jumps():
    with pytest.warns(IntegrationWarning, match="tanhsinh: the integral has not converged.*derivative may be wrong"):
        wg.grad(lambda p: tanhsinh(lambda x: 1.0 * (x < p), 0, 1).integral)(0.37)


UNSUPPORTED = {
    "log=": lambda p: tanhsinh(lambda x: p * x, 0, 1, log=True).integral,
    "preserve_shape=": lambda p: tanhsinh(lambda x: p * x, 0, 1, preserve_shape=True).integral,
    r"numpy\.imag": lambda p: tanhsinh(lambda x: np.exp(1j * p * x), 0, 1).integral.real,
    r"numpy\.real": lambda p: cubature(lambda x: np.exp(1j * p * x[:, 0]), [0], [1]).estimate.real,
}


@pytest.mark.filterwarnings("ignore:Casting complex")
@pytest.mark.parametrize("remedy", UNSUPPORTED)
def test_unsupported_options_are_refused(remedy):
    with pytest.raises(UnsupportedFunctionError, match=remedy):
        wg.grad(UNSUPPORTED[remedy])(0.5)


def test_results_of_tanhsinh_and_cubature_keep_their_fields():
    seen = []

    def f(p):
        seen.append((tanhsinh(decay, 0, 1, args=(p,)), cubature(lambda x: decay(x[:, 0], p), [0], [1])))
        return seen[-1][0].integral + seen[-1][1].estimate

    wg.grad(f)(0.7)
    f(0.7)
    for inside, outside in zip(*seen, strict=True):
        assert type(inside) is type(outside)
    assert seen[0][0].nfev == seen[1][0].nfev and seen[0][0].error == seen[1][0].error
    assert seen[0][1].error == seen[1][1].error and seen[0][1].status == "converged"
    assert wg.grad(lambda p: p * tanhsinh(np.exp, 0, 1).integral)(2.0) == tanhsinh(np.exp, 0, 1).integral


def test_rules_in_programs_do_not_warn_of_integrals_at_other_operands():
    """The rule may be traced at an exponent of -1, where the integral of a partial derivative diverges."""

    def f(x):
        return quad(lambda t: t ** (-x[1]) * np.exp(-x[0] * t), 0, 1)[0]

    x = np.array([2.0, 0.7])
    by_rate = -quad(lambda t: t**0.3 * np.exp(-2 * t), 0, 1)[0]
    by_power = -quad(lambda t: t**-0.7 * np.log(t) * np.exp(-2 * t), 0, 1)[0]
    for derivative in (wg.grad, wg.jacobian):
        np.testing.assert_allclose(wg.compile(derivative(f))(x), [by_rate, by_power], rtol=1e-7)


def cauchy_principal_value(p):
    """Return the principal value of the integral of 1 / (t - c) + t - c, in closed form."""
    squares = ((2.0 - p[1]) ** 2 - (p[0] - p[1]) ** 2) / 2
    return np.log((2.0 - p[1]) / (p[1] - p[0])) + squares


#: integral in a parameter and the variable of the weight, and its closed form
MOVED_WEIGHTS = {
    "cos": (
        lambda p: quad(lambda t, a: np.exp(-a * t), 0, np.inf, args=(p[0],), weight="cos", wvar=p[1])[0],
        lambda p: p[0] / (p[0] ** 2 + p[1] ** 2),
    ),
    "sin": (
        lambda p: quad(lambda t: p[0] * t, 0, p[0], weight="sin", wvar=p[1])[0],
        lambda p: p[0] * (np.sin(p[0] * p[1]) / p[1] ** 2 - p[0] * np.cos(p[0] * p[1]) / p[1]),
    ),
    "cauchy": (
        lambda p: quad(lambda t: 1 + (t - p[1]) ** 2, p[0], 2.0, weight="cauchy", wvar=p[1])[0],
        cauchy_principal_value,
    ),
}


@pytest.mark.parametrize("weight", MOVED_WEIGHTS)
def test_weights_with_traced_variables(weight):
    f, closed = MOVED_WEIGHTS[weight]
    p = np.array([0.4, 1.3])
    assert f(p) == pytest.approx(closed(p), rel=1e-9)
    for derivative in (wg.grad(f), wg.jacobian(f, mode="forward"), wg.compile(wg.grad(f))):
        np.testing.assert_allclose(derivative(p), wg.grad(closed, p), rtol=1e-7)
    np.testing.assert_allclose(wg.hessian(f, p), wg.hessian(closed, p), rtol=1e-6)
    value, _ = wg.value_and_grad(f, p)
    assert value == f(p)
    with pytest.raises(TracedValueError, match="a frequency wvar of zero"):
        wg.grad(lambda w: quad(np.exp, 0, 1, weight="sin", wvar=w)[0])(0.0)


@dataclasses.dataclass
class Retention:
    """A dataclass that integrates while it is initialised."""

    alpha: float
    total: float = dataclasses.field(init=False)
    rest: float = dataclasses.field(init=False)

    def __post_init__(self):
        self.total = quad(lambda t: np.exp(-self.alpha * t), 0.0, 1.0)[0]
        self.rest = 1.0 - self.total


def test_integrands_may_read_a_dataclass_that_lacks_fields():
    exact = 1.0 / 4.0 - np.exp(-2.0) * (1.0 / 2.0 + 1.0 / 4.0)
    for derivative in (wg.grad(lambda a: Retention(a).rest), wg.grad(wg.compile(lambda a: Retention(a).rest))):
        for _ in range(2):
            np.testing.assert_allclose(derivative(2.0), exact, rtol=1e-9)
