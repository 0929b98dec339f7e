"""Python functions of ``scipy.special`` in every call form, with every option."""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest
import scipy
import scipy.special
import scipy.special as sc
from scipy import special
from scipy.special import log_softmax, logsumexp, softmax

import wengert as wg
import wengert.scipy.special
from wengert.errors import UnsupportedFunctionError

X = np.random.default_rng(0).uniform(-2, 2, (2, 3, 4))
B = np.random.default_rng(1).uniform(0.5, 2, (3, 4))


def imported_inside(x):
    from scipy.special import logsumexp

    return logsumexp(x)


def module_inside(x):
    import scipy.special as functions

    return functions.logsumexp(x)


def package_inside(x):
    import scipy

    return scipy.special.logsumexp(x)


FORMS = {
    "package": lambda x: scipy.special.logsumexp(x),
    "alias": lambda x: sc.logsumexp(x),
    "from package": lambda x: special.logsumexp(x),
    "name": lambda x: logsumexp(x),
    "function": scipy.special.logsumexp,
    "partial": functools.partial(logsumexp, axis=None),
    "import inside": imported_inside,
    "module inside": module_inside,
    "package inside": package_inside,
    "ours": lambda x: wengert.scipy.special.logsumexp(x),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_call_signature_is_differentiated(form):
    x = np.array([0.3, 1.2, -0.7])
    np.testing.assert_allclose(wg.grad(FORMS[form])(x), softmax(x), rtol=1e-15)


@pytest.mark.parametrize("options", [{}, {"axis": 0}, {"b": 2.0}, {"keepdims": True}, {"return_sign": True}])
def test_logsumexp_of_a_scalar_has_its_shape(options):
    def f(x):
        y = logsumexp(x, **options)
        return y[0] if options.get("return_sign") else y

    for x in (0.3, np.array(0.3)):
        value, slope = wg.jvp(f, x, 1.0)
        assert np.shape(value) == np.shape(slope) == np.shape(f(x))
        np.testing.assert_allclose([value, slope], [f(x), np.ones_like(value)], rtol=1e-15)


def test_module_imported_inside_function_is_known_at_first_call():
    code = (
        "import sys, numpy as np, wengert as wg\n"
        "def f(x):\n"
        "    from scipy.special import logsumexp\n"
        "    return logsumexp(x)\n"
        "assert 'scipy' not in sys.modules\n"
        "print(wg.grad(f)(np.zeros(2)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[0.5 0.5]"


def naive_sum(x, axis=None, b=1.0, keepdims=False):
    return np.log(np.sum(b * np.exp(x), axis=axis, keepdims=keepdims))


def naive_shares(x, axis=None):
    return np.exp(x) / np.sum(np.exp(x), axis=axis, keepdims=True)


OPTIONS = [
    (logsumexp, naive_sum, {}),
    (logsumexp, naive_sum, {"axis": 1}),
    (logsumexp, naive_sum, {"axis": (0, -1), "keepdims": True}),
    (logsumexp, naive_sum, {"axis": -1, "b": B}),
    (logsumexp, naive_sum, {"b": 2.0}),
    (softmax, naive_shares, {}),
    (softmax, naive_shares, {"axis": 1}),
    (softmax, naive_shares, {"axis": (0, 2)}),
    (log_softmax, lambda x, axis=None: np.log(naive_shares(x, axis)), {"axis": -1}),
    (log_softmax, lambda x, axis=None: np.log(naive_shares(x, axis)), {}),
]


@pytest.mark.parametrize(("f", "naive", "options"), OPTIONS)
def test_options_match_scipy(f, naive, options):
    y, _ = wg.vjp(lambda x: f(x, **options), X)
    np.testing.assert_array_equal(y, f(X, **options))
    w = np.random.default_rng(2).uniform(-1, 1, np.shape(y))

    def pair(g):
        return lambda x: np.sum(w * g(x, **options))

    np.testing.assert_allclose(wg.grad(pair(f))(X), wg.grad(pair(naive))(X), rtol=1e-12, atol=1e-15)
    v = np.cos(X)
    np.testing.assert_allclose(wg.hvp(pair(f), X, v), wg.hvp(pair(naive), X, v), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(
        wg.jvp(lambda x: f(x, **options), X, v)[1],
        wg.jvp(lambda x: naive(x, **options), X, v)[1],
        rtol=1e-12,
        atol=1e-15,
    )
    program = wg.record(pair(f), X)
    np.testing.assert_allclose(program.grad()(0.9 * X), wg.grad(pair(f))(0.9 * X), rtol=1e-13)


def test_logsumexp_differentiates_factors_and_returns_sign():
    x, b = np.array([0.2, 1.0, -0.5]), np.array([1.0, -2.0, 0.0])

    def f(x, b):
        y, sign = logsumexp(x, b=b, return_sign=True)
        assert sign == -1
        return y

    def naive(x, b):
        return np.log(-np.sum(b * np.exp(x)))

    for i in (0, 1):
        np.testing.assert_allclose(wg.grad(f, argnums=i)(x, b), wg.grad(naive, argnums=i)(x, b), rtol=1e-14)
    np.testing.assert_allclose(wg.hessian(f, argnums=1)(x, b), wg.hessian(naive, argnums=1)(x, b), rtol=1e-13)
    assert np.isnan(wg.value_and_grad(logsumexp)(x, b=b)[0])


def test_elements_of_very_different_size_keep_precision():
    np.testing.assert_array_equal(wg.grad(logsumexp)(np.array([-np.inf, 0.0])), [0, 1])
    np.testing.assert_array_equal(wg.grad(logsumexp)(np.array([1e4, -1e4])), [1, 0])
    x = np.array([1000.0, 999.0, 990.3])
    np.testing.assert_allclose(wg.grad(logsumexp)(x), wg.grad(logsumexp)(x - 1000), rtol=1e-15)
    np.testing.assert_array_equal(wg.jacobian(log_softmax)(np.array([0.0, -1e3])), [[0, 0], [-1, 1]])


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("shape", [(0, 2), (2, 0)])
def test_logsumexp_of_empty_rows_has_an_empty_gradient(shape, keepdims):
    def f(x):
        return np.sum(logsumexp(x, axis=1, keepdims=keepdims))

    x = np.zeros(shape)
    for g in (wg.value_and_grad(f), wg.value_and_grad(wg.compile(f))):
        value, gradient = g(x)
        assert value == f(x) and gradient.shape == shape


def test_single_precision_stays_single():
    x = X.astype(np.float32)

    def f(x):
        return np.sum(logsumexp(x, axis=1)) + np.sum(softmax(x)[0]) + np.sum(log_softmax(x, axis=-1)[0])

    assert wg.grad(f)(x).dtype == np.float32
    n = np.float32(0.4)
    of_array, of_number = wg.jvp(sc.factorial, x, x), wg.jvp(sc.factorial, n, n)  # as in SciPy
    assert of_array[0].dtype == sc.factorial(x).dtype == np.float64
    assert of_number[0].dtype == sc.factorial(n).dtype == np.float32
    np.testing.assert_array_equal(of_array[0], sc.factorial(x))


def test_exact_integer_counts_raise():
    for f in (lambda x: sc.comb(x, 2, exact=True), lambda x: sc.factorial(x, exact=True)):
        with pytest.raises(UnsupportedFunctionError, match="exact=True"):
            wg.grad(f)(3.0)


def test_function_outside_derivative_is_scipy_function():
    assert wengert.scipy.special.logsumexp([0.0, 0.0]) == np.log(2)
    assert wengert.scipy.special.erf is scipy.special.erf
