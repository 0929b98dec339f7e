"""Gradients of functions that are called repeatedly by their formulas: programs replace the traces of the formulas."""

import gc
import subprocess
import sys
import warnings
import weakref

import numpy as np
import pytest
import scipy
import scipy.fft
import scipy.linalg
import scipy.ndimage
import scipy.signal
import scipy.spatial.distance
import scipy.special
import scipy.stats

import wengert as wg
from helpers import in_threads
from wengert.core.dispatch import repeated
from wengert.program.specialise import formulas

pytestmark = pytest.mark.skipif(
    tuple(map(int, scipy.__version__.split(".")[:2])) < (1, 17), reason="SciPy's own names need SciPy 1.17"
)

#: more calls than are traced before there is a program
CALLS = 80

S = np.diag([4.0, 5.0, 6.0, 7.0]) + np.arange(16.0).reshape(4, 4) / 20
P = np.arange(30.0).reshape(10, 3) ** 0.7
C = np.cos(np.arange(16.0)).reshape(4, 4)


@pytest.fixture
def replays(monkeypatch):
    """The values of the calls that programs computed; no count or program of other tests is used."""
    found = []
    entered = formulas.Formula.entered

    def noted(self, *args):
        y = entered(self, *args)
        found.append(y)
        return y

    monkeypatch.setattr(formulas.Formula, "entered", noted)
    repeated.clear_caches()
    yield found
    repeated.clear_caches()


FUNCTIONS = {
    "lfilter": lambda x: np.sum(scipy.signal.lfilter([0.2, 0.3], [1, -0.5], x) ** 2),
    "convolve1d": lambda x: np.sum(scipy.ndimage.convolve1d(x, [1, 2, 1.0]) ** 2),
    "uniform_filter": lambda x: np.sum(scipy.ndimage.uniform_filter(x.reshape(4, 4), 3) ** 2),
    "dct": lambda x: np.sum(scipy.fft.dct(x) ** 2),
    "cdist": lambda x: np.sum(scipy.spatial.distance.cdist(x[:12].reshape(4, 3), P)),
    "cosine": lambda x: scipy.spatial.distance.cosine(x, np.arange(16.0)),
    "zscore": lambda x: np.sum(scipy.stats.zscore(x)[:3]),
    "norm": lambda x: scipy.linalg.norm(x) ** 3,
    "det": lambda x: scipy.linalg.det(S + x.reshape(4, 4)),
    "solve": lambda x: np.sum(scipy.linalg.solve(S + x.reshape(4, 4), x[:4]) ** 2),
    "lu": lambda x: np.sum(scipy.linalg.lu(S + x.reshape(4, 4))[2] * C),
    "lu_solve": lambda x: np.sum(scipy.linalg.lu_solve(scipy.linalg.lu_factor(S + x.reshape(4, 4)), x[:4])),
    "qr": lambda x: np.sum(scipy.linalg.qr(S + x.reshape(4, 4))[1] * C),
    "numpy svd": lambda x: np.sum(np.linalg.svd(S + x.reshape(4, 4))[0] * C),
    "numpy eigh": lambda x: np.sum(np.linalg.eigh(S @ S.T + np.diag(x[:4]))[1] ** 2 * C),
    "numpy pinv": lambda x: np.sum(np.linalg.pinv(x.reshape(8, 2)) ** 2),
    "numpy slogdet": lambda x: np.linalg.slogdet(S + x.reshape(4, 4))[1],
    "numpy cov": lambda x: np.sum(np.cov(x.reshape(4, 4))[0]),
    "numpy polyfit": lambda x: np.sum(np.polyfit(np.linspace(0, 1, 16), x, 2) ** 2),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_of_repeated_calls_are_those_of_first_calls(name, replays):
    gradient = wg.grad(FUNCTIONS[name])
    rng = np.random.default_rng(0)
    points = [rng.uniform(-0.5, 0.5, 16) for _ in range(4)]
    first = [gradient(x) for x in points]
    assert not replays
    for _ in range(CALLS):
        gradient(points[0])
    assert replays
    for x, expected in zip(points, first):
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-13, atol=1e-13 * np.max(np.abs(expected)))


def test_programs_have_the_bits_of_traces(replays):
    gradient = wg.grad(FUNCTIONS["lfilter"])
    x = np.sin(np.arange(16.0))
    first = gradient(x)
    for _ in range(CALLS):
        assert np.array_equal(gradient(x), first)
    assert replays


PULLBACKS = {
    "gammainc": lambda x: np.sum(scipy.special.gammainc(1.0 + x[:8], 1.0 + x[8:])),
    "betainc": lambda x: np.sum(scipy.special.betainc(1.0 + x[:8], 1.5, 0.5 + x[8:] / 2)),
    "zeta": lambda x: np.sum(scipy.special.zeta(2.0 + x[:8], 1.0 + x[8:])),
    "erfcx": lambda x: np.sum(scipy.special.erfcx(x * 5.0)),
    "dawsn": lambda x: np.sum(scipy.special.dawsn(x * 20.0)),
    "binom": lambda x: np.sum(scipy.special.binom(4.0 + x[:8], 1.0 + x[8:])),
    "median": lambda x: np.median(x),
}


@pytest.mark.parametrize("name", PULLBACKS)
def test_programs_of_pullbacks_have_the_bits_of_their_rules(name, monkeypatch):
    found, pull = [], formulas.Pullback.__call__

    def noted(self, *args):
        found.append(pull(self, *args))
        return found[-1]

    monkeypatch.setattr(formulas.Pullback, "__call__", noted)
    repeated.clear_caches()
    gradient = wg.grad(PULLBACKS[name])
    points = [np.random.default_rng(k).uniform(-0.5, 0.5, 16) for k in range(4)]
    first = [gradient(x) for x in points]
    assert not found
    repeat(gradient, points[0])
    assert type(found[-1]) is np.ndarray
    assert all(np.array_equal(gradient(x), expected) for x, expected in zip(points, first))
    repeated.clear_caches()


def test_values_are_those_of_the_function(replays):
    def f(x):
        y = scipy.fft.dct(x)
        values.append(np.array(wg.stop_gradient(y)))
        return np.sum(y)

    values, x = [], np.sin(np.arange(16.0))
    for _ in range(CALLS):
        wg.grad(f, x)
    assert replays and all(np.array_equal(y, scipy.fft.dct(x)) for y in values)


def repeat(gradient, x):
    for _ in range(CALLS):
        gradient(x)


def test_other_shapes_and_options_have_programs_of_their_own(replays):
    def f(x, axis, kind):
        return np.sum(scipy.fft.dct(x, kind, axis=axis)[0])

    cases = [((4, 4), 0, 2), ((4, 4), 1, 2), ((4, 4), -1, 3), ((2, 8), 1, 2)]
    x = np.sin(np.arange(16.0))
    first = [wg.grad(f)(x.reshape(shape), axis, kind) for shape, axis, kind in cases]
    for shape, axis, kind in cases:
        for _ in range(CALLS):
            wg.grad(f)(x.reshape(shape), axis, kind)
    assert replays
    for expected, (shape, axis, kind) in zip(first, cases):
        assert np.array_equal(wg.grad(f)(x.reshape(shape), axis, kind), expected)


def test_other_branches_of_a_formula(replays):
    def f(x):
        return np.sum(scipy.linalg.lu(np.array([[x[0], 1.0], [2.0, x[1]]]))[2] ** 2)

    gradient = wg.grad(f)
    points = [np.array([3.0, 1.0]), np.array([1.0, 1.0]), np.array([5.0, -1.0]), np.array([-0.5, 3.0])]
    first = [gradient(x) for x in points]
    for _ in range(CALLS):
        for x, expected in zip(points, first):
            assert np.array_equal(gradient(x), expected)
    assert replays


def test_stores_before_and_after_a_call(replays):
    weights = np.array([1.0, 2.0, 1.0])

    def f(x):
        own = weights.copy()
        y = x.copy()
        y[0] = y[1] * 2
        z = scipy.ndimage.convolve1d(y, own)
        own[:] = 0.0
        y[1:3] = 7.0
        return np.sum(z**2) + np.sum(y * z)

    gradient = wg.grad(f)
    x = np.sin(np.arange(8.0))
    first = gradient(x)
    repeat(gradient, x)
    assert replays
    assert np.array_equal(gradient(x), first)
    weights[1] = 3.0  # a constant is no part of the program
    again = gradient(x)
    repeated.clear_caches()
    assert np.array_equal(gradient(x), again)


def test_operands_in_other_memory_order(replays):
    def f(x):
        return np.sum(scipy.linalg.det(S + x.reshape(4, 4).T)) + np.sum(scipy.fft.dct(x[::2])[:2])

    gradient = wg.grad(f)
    x = np.sin(np.arange(16.0))
    first = gradient(x)
    repeat(gradient, x)
    assert replays
    np.testing.assert_allclose(gradient(x), first, rtol=1e-13)


def test_traced_options_scalars_and_keywords(replays):
    def f(x):
        y = scipy.signal.lfilter(b=[x[0], 0.3], a=[1.0, x[1]], x=x)
        return np.sum(y) + scipy.stats.norm.logpdf(x[2], x[3], 2.0)

    gradient = wg.grad(f)
    x = 0.5 * np.sin(1 + np.arange(8.0))
    first = gradient(x)
    repeat(gradient, x)
    np.testing.assert_allclose(gradient(x), first, rtol=1e-13)


def test_errors_of_the_function_are_raised(replays):
    gradient = wg.grad(lambda x: np.sum(scipy.linalg.inv(x.reshape(2, 2))))
    repeat(gradient, np.array([2.0, 1.0, 1.0, 3.0]))
    assert replays
    with pytest.raises(np.linalg.LinAlgError):
        gradient(np.array([1.0, 1.0, 1.0, 1.0]))
    assert np.all(np.isfinite(gradient(np.array([2.0, 1.0, 1.0, 3.0]))))


def test_values_that_are_not_finite_warn_as_before(replays):
    gradient = wg.grad(lambda x: np.sum(scipy.stats.zscore(x)))
    repeat(gradient, np.array([1.0, 2.0, 4.0]))
    assert replays
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        gradient(np.array([1.0, 1.0, 1.0]))
    assert seen


def test_other_derivatives_are_traced(replays):
    f = FUNCTIONS["convolve1d"]
    x = np.sin(np.arange(16.0))
    derivatives = wg.hessian(f), wg.jacobian(wg.grad(f)), wg.jacobian(lambda x: scipy.fft.dct(x))
    expected = [derivative(x) for derivative in derivatives]
    for derivative, first in zip(derivatives, expected):
        repeat(derivative, x)
        assert np.array_equal(derivative(x), first)
    wg.jvp(f, x, x)
    assert not replays


def test_value_and_gradient_and_several_arguments(replays):
    f = lambda x, y: np.sum(scipy.ndimage.convolve1d(x, y) ** 2)
    both = wg.value_and_grad(f, argnums=(0, 1))
    x, y = np.sin(np.arange(8.0)), np.array([1.0, 2.0, 1.0])
    value, first = both(x, y)
    for _ in range(CALLS):
        again, gradient = both(x, y)
    assert replays and again == value
    assert all(np.array_equal(a, b) for a, b in zip(gradient, first))


def test_functions_with_results_of_views_stay_views(replays):
    def f(x):
        y = np.linalg.svd(x.reshape(2, 2))[1]
        y[0] = 0.0
        return np.sum(y)

    gradient = wg.grad(f)
    x = np.array([2.0, 1.0, 0.5, 3.0])
    first = gradient(x)
    repeat(gradient, x)
    assert replays
    assert np.array_equal(gradient(x), first)


def test_rules_that_branch_on_cotangents(replays):
    def f(x, weights):
        return np.sum(weights * scipy.linalg.qr(S + x.reshape(4, 4))[1])

    gradient = wg.grad(f)
    x, infinite = np.sin(np.arange(16.0)), C + np.diag([np.inf, 0.0, 0.0, 0.0])
    first = gradient(x, C), gradient(x, infinite)
    for _ in range(CALLS):
        gradient(x, C)
    assert replays
    np.testing.assert_array_equal(gradient(x, C), first[0])
    np.testing.assert_array_equal(gradient(x, infinite), first[1])


def test_results_of_other_classes_are_traced(replays):
    gradient = wg.grad(lambda x: scipy.stats.jarque_bera(x).statistic)
    x = np.sin(np.arange(16.0))
    first = gradient(x)
    repeat(gradient, x)
    assert np.array_equal(gradient(x), first)


def test_number_of_programs_is_bounded(replays):
    gradient = wg.grad(lambda x, axis: np.sum(scipy.ndimage.gaussian_filter1d(x, axis)))
    for sigma in np.linspace(0.5, 1.5, 600):
        gradient(np.sin(np.arange(8.0)), sigma)
    assert 0 < repeated.sizes()[0] <= 256
    wg.clear_caches()
    assert repeated.sizes() == (0, 0)


def test_programs_keep_no_argument_alive(replays):
    gradient = wg.grad(lambda x, weights: np.sum(scipy.ndimage.convolve1d(x, weights) ** 2))
    x, weights = np.sin(np.arange(16.0)), np.array([1.0, 2.0, 1.0])
    for _ in range(CALLS):
        gradient(x, weights)
    assert replays
    replays.clear()
    kept = weakref.ref(weights)
    del weights
    gc.collect()
    assert kept() is None


def test_in_threads(replays):
    gradient = wg.grad(FUNCTIONS["dct"])
    points = [np.sin(np.arange(16.0) + i) for i in range(4)]
    first = [gradient(x) for x in points]

    def run(_):
        for _ in range(CALLS):
            for x, expected in zip(points, first):
                assert np.array_equal(gradient(x), expected)

    in_threads(run, 4)
    assert replays


def test_few_calls_import_no_program():
    code = """
import sys, numpy as np, scipy.fft, wengert as wg
gradient = wg.grad(lambda x: np.sum(scipy.fft.dct(x) ** 2))
x = np.arange(8.0)
for _ in range(200):
    gradient(x)
assert "wengert.program.record" not in sys.modules
for _ in range(1000):
    gradient(x)
assert "wengert.program.specialise.formulas" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
