"""Rules of ``scipy.special``: against mpmath, in both modes, to second order, and as Programs.

The calls are in ``special_cases.py``, their derivatives in ``data/special.json``.
Functions of one and two operands whose partials are known to a few ulp are in ``primitive_cases.py``.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.special

import wengert as wg
from special_cases import CASES, DATA, WAVES

REFERENCES = json.loads(DATA.read_text())


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"):
        yield


every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.label)


def test_reference_file_matches_case_table():
    assert list(REFERENCES) == [case.key for case in CASES]


@pytest.mark.parametrize("case", CASES[::53], ids=lambda case: case.label)
def test_references_equal_mpmath(case):
    first = case.references()["first"]
    np.testing.assert_allclose(REFERENCES[case.key]["first"], first, rtol=1e-15)


@every_case
def test_both_modes_give_the_reference_derivative(case):
    x = case.points
    exact = np.array(REFERENCES[case.key]["first"])
    reverse = wg.grad(lambda x: np.sum(case.call(x)))(x)
    for found, expected in zip(reverse, exact, strict=True):
        # near a zero of the derivative the error is relative to its terms
        scale = min(np.abs(expected).max() * 1e-3, 1e-3)
        np.testing.assert_allclose(found, expected, rtol=case.rtol, atol=case.rtol * scale)
    for row in range(len(x)):
        v = np.zeros_like(x)
        v[row] = 1
        np.testing.assert_allclose(wg.jvp(case.call, x, v)[1], reverse[row], rtol=1e-15)


@pytest.mark.parametrize("case", [case for case in CASES if case.second], ids=lambda case: case.label)
def test_second_derivative_follows_from_the_rule(case):
    x = case.points
    exact = np.array(REFERENCES[case.key]["second"])
    for row in range(len(x)):
        v = np.zeros_like(x)
        v[row] = 1
        found = wg.jvp(wg.grad(lambda x: np.sum(case.call(x))), x, v)[1]
        np.testing.assert_allclose(found, exact[row], rtol=case.second, atol=case.second)


#: one case for each function and result
FIRST = {case.label: case for case in reversed(CASES)}


@pytest.mark.parametrize("label", FIRST)
def test_program_equals_eager_mode(label):
    case = FIRST[label]
    x = case.points
    program = wg.record(lambda x: np.sum(case.call(x)), x)
    at = x * (1 - 1e-3)
    np.testing.assert_allclose(program(at), np.sum(case.call(at)), rtol=1e-13)
    expected = wg.grad(lambda x: np.sum(case.call(x)))(at)
    scale = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
    np.testing.assert_allclose(program.grad()(at), expected, rtol=1e-13, atol=1e-15 * scale)


@pytest.mark.parametrize(("name", "operands", "results"), WAVES, ids=[name for name, *_ in WAVES])
def test_solutions_of_differential_equations_have_the_derivatives_scipy_returns(name, operands, results):
    *fixed, x = operands

    def f(x, part):
        return getattr(scipy.special, name)(*fixed, x)[part]

    for part in range(results):
        h = 1e-3 * x
        first = (8 * (f(x + h, part) - f(x - h, part)) - (f(x + 2 * h, part) - f(x - 2 * h, part))) / (12 * h)
        slope = wg.grad(f)
        np.testing.assert_allclose(slope(x, part), first, rtol=1e-5)
        assert wg.jvp(f, x, 1.0, args=(part,))[1] == slope(x, part)
        second = (slope(x + h, part) - slope(x - h, part)) / (2 * h)
        np.testing.assert_allclose(wg.derivative(f, x, args=(part,), order=2), second, rtol=1e-4)
        program = wg.record(lambda x, part=part: f(x, part), x)
        np.testing.assert_allclose(program.grad()(x), slope(x, part), rtol=1e-14)


def test_distribution_function_is_constant_outside_support():
    for f, at in ((scipy.special.kolmogorov, (-1.0, 0.0, 1e3, np.inf)), (scipy.special.tklmbda, (-9.0, 9.0))):
        operands = () if f is scipy.special.kolmogorov else (0.5,)
        np.testing.assert_array_equal([wg.grad(f)(x, *operands) for x in at], 0)
    np.testing.assert_array_equal(wg.jacobian(lambda p: scipy.special.pdtrik(p[0], p[1]))(np.array([0.01, 0.5])), 0)
    assert wg.grad(scipy.special.chndtrinc, argnums=2)(1.5, 1.5, 0.9) == 0  # larger than without noncentrality
    for x in (0.0, 1.0):
        np.testing.assert_array_equal(wg.grad(scipy.special.betainc, argnums=(0, 1, 2))(2.0, 3.0, x), 0)


def test_search_that_ended_at_a_bound_raises():
    p, t = 0.3, np.array([0.2, 1.5])  # no degrees of freedom give this value
    assert np.all(np.abs(np.log10(np.abs(scipy.special.stdtridf(p, t)))) > 99)
    assert np.all(np.isnan(wg.jvp(lambda t: scipy.special.stdtridf(p, t), t, np.ones(2))[1]))
    assert np.isnan(wg.grad(lambda p: scipy.special.stdtridf(p, 1.5), p))


def test_modified_fresnel_derivatives_match_installed_scipy():
    for fun in (scipy.special.modfresnelp, scipy.special.modfresnelm):
        for x in (0.3, 1.1):
            slopes = (np.array(fun(x + 1e-5)) - np.array(fun(x - 1e-5))) / 2e-5
            np.testing.assert_allclose(wg.jvp(lambda x, fun=fun: np.array(fun(x)), x, 1.0)[1], slopes, rtol=1e-8)


def test_cancelling_series_raises():
    for f, operands, i in (
        (scipy.special.hyp0f1, (1.5, -400.0), 0),
        (scipy.special.hyp1f1, (-20.5, 1.5, 30.0), 0),
        (scipy.special.hyp2f1, (0.5, 0.7, 1.5, 0.99999), 2),
    ):
        with pytest.raises(wg.UnsupportedFunctionError, match="terms of its series cancel or converge too slowly"):
            wg.grad(f, argnums=i)(*operands)
    with pytest.raises(wg.UnsupportedFunctionError, match="no known derivative in its parameters twice"):
        wg.derivative(lambda a: scipy.special.hyp1f1(a, 1.5, 0.3), 0.7, order=2)
    f, at = scipy.special.hyp2f1, (0.5, 0.7, 1.5, 0.3)
    mixed = [wg.grad(wg.grad(f, argnums=i), argnums=k)(*at) for i, k in ((3, 1), (1, 3))]
    np.testing.assert_allclose(*mixed, rtol=1e-13)


def test_rules_keep_shape_and_precision():
    a, x = np.array([[0.5], [2.0], [11.0]], dtype=np.float32), np.array([0.3, 1.0, 4.0], dtype=np.float32)
    for f in (scipy.special.gammainc, scipy.special.kv, lambda a, x: scipy.special.betainc(a, a, x / 5)):
        by_a, by_x = wg.grad(lambda a, x: np.sum(f(a, x)), argnums=(0, 1))(a, x)
        assert by_a.shape == a.shape and by_x.shape == x.shape
        assert by_a.dtype == by_x.dtype == np.float32
    nothing = np.zeros(0)
    assert wg.grad(lambda a: np.sum(scipy.special.elliprd(a, 2.0, nothing)))(nothing).shape == (0,)


def test_inlined_bodies_belong_to_their_constants():
    a, constants = np.linspace(1.0, 2.0, 2000), [np.linspace(1.0, 2.0, 2000) for _ in range(2)]
    constants[1][5:-5] += 0.3  # both are printed alike
    for x in constants:
        f = lambda a, x=x: np.sum(scipy.special.gammainc(a, x))
        np.testing.assert_allclose(wg.record(f, a).grad()(a), wg.grad(f, a), rtol=1e-12)


def test_struve_functions_of_order_0_have_second_derivatives_at_0():
    for f in (scipy.special.struve, scipy.special.modstruve):
        np.testing.assert_allclose(wg.derivative(lambda x, f=f: f(0, x), 0.0), 2 / np.pi, rtol=1e-15)
        assert wg.derivative(lambda x, f=f: f(0, x), 0.0, order=2) == 0.0


def test_powers_of_zero_have_derivatives_in_the_exponent():
    for f, x in ((scipy.special.boxcox, 0.0), (scipy.special.boxcox1p, -1.0)):  # -1 / a
        np.testing.assert_allclose(wg.grad(f, argnums=1)(x, 3.0), 1 / 9, rtol=1e-15)
        np.testing.assert_allclose(wg.derivative(lambda a, f=f, x=x: f(x, a), 3.0, order=2), -2 / 27, rtol=1e-15)
