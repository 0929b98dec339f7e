"""SciPy's older minimisers and quasi-Newton methods: points and values with the derivatives of their equations."""

import warnings

import numpy as np
import pytest
import scipy.optimize

import wengert as wg
from wengert.scipy import optimize

P = np.array([1.1, 0.7])


def bowl(x, p):
    return np.sum(np.exp(x) - p * x) + 0.5 * (x[0] - x[1]) ** 2


def slope(x, p):
    return np.exp(x) - p + (x[0] - x[1]) * np.array([1.0, -1.0])


def minimum(p):
    return wg.implicit.root(lambda x: slope(x, p), np.zeros(2))


QUIET = {"disp": False}
#: solver of `bowl`, further arguments
MINIMISERS = {
    "fmin": {"xtol": 1e-10, "ftol": 1e-14, **QUIET},
    "fmin_powell": {"xtol": 1e-10, "ftol": 1e-14, **QUIET},
    "fmin_bfgs": {"gtol": 1e-8, **QUIET},
    "fmin_cg": {"gtol": 1e-8, **QUIET},
    "fmin_ncg": {"fprime": slope, "avextol": 1e-12, **QUIET},
    "fmin_l_bfgs_b": {"fprime": slope, "pgtol": 1e-10, "factr": 10.0},
    "fmin_tnc": {"fprime": slope, "disp": 0},
}
EQUATIONS = [
    *("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing", "newton_krylov"),
]
OLDER = [*MINIMISERS, *EQUATIONS, "brent", "golden", "fminbound", "fmin_slsqp", "fmin_cobyla"]


def solve(name, p, module=optimize, f=bowl, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = getattr(module, name)(f, np.zeros(2), args=(p,), **{**MINIMISERS[name], **options})
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("name", MINIMISERS)
def test_older_minimisers_have_the_derivatives_of_the_minimum(name):
    expected = wg.jacobian(minimum)(P)
    for mode in ("forward", "reverse"):
        assert np.allclose(wg.jacobian(lambda p: solve(name, p), mode=mode)(P), expected, rtol=1e-8)
    assert np.allclose(wg.jacobian(lambda p: solve(name, p, scipy.optimize))(P), expected, rtol=1e-8)
    assert np.array_equal(wg.vjp(lambda p: solve(name, p, scipy.optimize), P)[0], solve(name, P, scipy.optimize))
    closed = wg.jacobian(lambda q: solve(name, 0, f=lambda x, _: bowl(x, q * P), fprime=lambda x, _: slope(x, q * P)))
    if "fprime" in MINIMISERS[name]:
        assert np.allclose(closed(1.0), wg.jacobian(lambda q: minimum(q * P))(1.0), rtol=1e-8)


def test_values_and_bounds_of_older_minimisers():
    def value(p):
        return optimize.fmin(bowl, np.zeros(2), args=(p,), full_output=True, **MINIMISERS["fmin"])[1]

    def at_bound(q):
        x, f, details = optimize.fmin_l_bfgs_b(
            bowl, np.zeros(2), args=(P,), bounds=[(None, q), (None, None)], fprime=slope
        )
        assert details["warnflag"] == 0
        return np.array([x[0], f])

    def with_pair(p):
        return optimize.fmin_l_bfgs_b(lambda x: (bowl(x, p), slope(x, p)), np.zeros(2), pgtol=1e-10, factr=10.0)[0]

    x = minimum(P)
    assert np.allclose(wg.grad(value)(P), -x, rtol=1e-8)
    rate = wg.jacobian(at_bound)(-0.5)
    assert rate[0] == 1 and rate[1] < 0
    assert np.allclose(wg.jacobian(with_pair)(P), wg.jacobian(minimum)(P), rtol=1e-8)
    tnc = wg.jacobian(
        lambda q: optimize.fmin_tnc(bowl, np.zeros(2), slope, args=(P,), bounds=[(None, q)] * 2, disp=0)[0]
    )
    assert np.allclose(tnc(-0.5), 1.0)


@pytest.mark.parametrize("module", [optimize, scipy.optimize])
@pytest.mark.parametrize("is_compiled", [False, True])
def test_older_constrained_minimisers_have_the_derivatives_of_the_minimum(module, is_compiled):
    """The minimum of (x - a)^2 + (y - 1)^2 on the line x + y = b, given in different ways."""

    def bowl(x, a):
        return (x[0] - a) ** 2 + (x[1] - 1) ** 2

    def slsqp(p, a=None, **given):
        return module.fmin_slsqp(bowl, [0.0, 0.0], args=(p[0],), iprint=0, acc=1e-12, **given)

    def full(p):
        x, value, *_ = slsqp(p, eqcons=[lambda x, a: x[0] + x[1] - p[1]], full_output=True)
        return np.stack([x[0], value])

    solvers = {
        "equation": lambda p: slsqp(p, f_eqcons=lambda x, a: x[0] + x[1] - p[1]),
        "inequalities": lambda p: slsqp(p, ieqcons=[lambda x, a: p[1] - x[0] - x[1], lambda x, a: x[0] + 50]),
        "their array": lambda p: slsqp(p, f_ieqcons=lambda x, a: np.stack([p[1] - x[0] - x[1]])),
        "cobyla": lambda p: module.fmin_cobyla(
            bowl, [0.0, 0.0], lambda x: p[1] - x[0] - x[1], (p[0],), (), rhoend=1e-8
        ),
        "cobyla with arguments": lambda p: module.fmin_cobyla(
            bowl, [0.0, 0.0], [lambda x, b: b - x[0] - x[1]], (p[0],), (p[1],), rhoend=1e-8
        ),
    }
    p = np.array([1.2, 1.5])
    for name, f in solvers.items():
        J = wg.jacobian(wg.compile(f) if is_compiled else f)
        np.testing.assert_allclose(J(p), [[0.5, 0.5], [-0.5, 0.5]], rtol=1e-9, err_msg=name)
    gap = (p[0] + 1 - p[1]) / 2
    np.testing.assert_allclose(wg.jacobian(full)(p), [[0.5, 0.5], [2 * gap, -2 * gap]], rtol=1e-6)
    at_bound = lambda p: slsqp(p, bounds=[(None, p[1] / 3), (None, None)])
    np.testing.assert_allclose(wg.jacobian(at_bound)(p), [[0, 1 / 3], [0, 0]], atol=1e-9)
    with pytest.raises(wg.ConvergenceError, match="fmin_slsqp has not converged"):
        wg.jacobian(lambda p: slsqp(p, iter=1, f_eqcons=lambda x, a: x[0] ** 2 + x[1] - p[1]))(p)


def test_arrays_of_full_output_are_refused():
    for name in ("fmin_bfgs", "fmin_powell"):
        with pytest.raises(wg.UnsupportedFunctionError, match="full output has arrays"):
            wg.jacobian(lambda p, name=name: solve(name, p, full_output=True))(P)
    with pytest.raises(wg.TracedValueError, match="'grad' of this result"):
        wg.jacobian(lambda p: optimize.fmin_l_bfgs_b(bowl, np.zeros(2), slope, args=(p,))[2]["grad"])(P)


@pytest.mark.parametrize("name", ["fmin_bfgs", "fmin_cg"])
def test_line_search_that_stalls_has_found_the_minimum(name):
    found = wg.jacobian(lambda p: solve(name, p, scipy.optimize, gtol=1e-15))(P)
    np.testing.assert_allclose(found, wg.jacobian(minimum)(P), rtol=1e-8)


def test_failed_searches_raise():
    with pytest.raises(wg.ConvergenceError, match="fmin has not converged"):
        wg.jacobian(lambda p: optimize.fmin(bowl, np.zeros(2), args=(p,), maxiter=2, disp=False))(P)


@pytest.mark.parametrize("name", ["brent", "golden", "fminbound"])
def test_scalar_minimisers_have_the_derivative_of_the_minimum(name):
    def at(p, **options):
        ends = (-2.0, 3.0) if name == "fminbound" else ()
        return getattr(optimize, name)(lambda x: np.exp(x) - p * x, *ends, **options)

    assert wg.derivative(at)(2.0) == pytest.approx(0.5, rel=1e-9)
    assert wg.derivative(lambda p: at(p, full_output=True)[1])(2.0) == pytest.approx(-np.log(2), rel=1e-9)
    assert wg.vjp(at, 2.0)[0] == at(2.0)
    bound = wg.derivative(lambda p: optimize.fminbound(lambda x: (x - 5) ** 2, 0.0, p))
    assert bound(2.0) == pytest.approx(1.0)


@pytest.mark.parametrize("name", EQUATIONS)
def test_quasi_newton_methods_have_the_derivatives_of_the_root(name):
    def root(p, module=optimize):
        is_mixing = name in ("excitingmixing", "linearmixing")
        sign, options = (-1, {"maxiter": 300, "alpha": 0.1}) if is_mixing else (1, {})
        f = lambda x: sign * (2 * (x - p) + 0.1 * np.tanh(x[::-1]))
        return getattr(module, name)(f, np.zeros(2), f_tol=1e-9, **options)

    expected = wg.jacobian(lambda p: wg.implicit.root(lambda x: 2 * (x - p) + 0.1 * np.tanh(x[::-1]), np.zeros(2)))(P)
    for module in (optimize, scipy.optimize):
        assert np.allclose(wg.jacobian(lambda p, m=module: root(p, m))(P), expected, rtol=1e-9)
    assert np.array_equal(wg.vjp(root, P)[0], root(P))
