"""Taylor coefficients to order 20 against mpmath and closed forms; programs, matrices, outer derivatives."""

import functools
import math
import types
import warnings

import mpmath
import numpy as np
import pytest
import scipy.sparse
import scipy.special as sc
from numpy.polynomial.legendre import legval
from numpy.polynomial.polynomial import polygrid2d

import wengert as wg
from helpers import assert_rounding

ORDER = 20

#: function, its mpmath counterpart, points
FUNCTIONS = {
    "exp": (np.exp, mpmath.exp, (0.3, -2.0)),
    "exp2": (np.exp2, lambda x: mpmath.mpf(2) ** x, (0.3,)),
    "expm1": (np.expm1, mpmath.expm1, (0.3,)),
    "log": (np.log, mpmath.log, (0.5, 3.0)),
    "log2": (np.log2, lambda x: mpmath.log(x, 2), (0.7,)),
    "log10": (np.log10, mpmath.log10, (0.7,)),
    "log1p": (np.log1p, mpmath.log1p, (-0.5,)),
    "sqrt": (np.sqrt, mpmath.sqrt, (0.5,)),
    "cbrt": (np.cbrt, mpmath.cbrt, (0.7,)),
    "reciprocal": (np.reciprocal, lambda x: 1 / x, (0.7,)),
    "square": (np.square, lambda x: x * x, (0.7,)),
    "sin": (np.sin, mpmath.sin, (0.3, 4.0)),
    "cos": (np.cos, mpmath.cos, (0.3,)),
    "tan": (np.tan, mpmath.tan, (0.3, 1.0)),
    "arcsin": (np.arcsin, mpmath.asin, (-0.8,)),
    "arccos": (np.arccos, mpmath.acos, (0.3,)),
    "arctan": (np.arctan, mpmath.atan, (0.3, 5.0)),
    "sinh": (np.sinh, mpmath.sinh, (0.3,)),
    "cosh": (np.cosh, mpmath.cosh, (0.3,)),
    "tanh": (np.tanh, mpmath.tanh, (0.3, 8.0)),
    "arcsinh": (np.arcsinh, mpmath.asinh, (0.3,)),
    "arccosh": (np.arccosh, mpmath.acosh, (1.5,)),
    "arctanh": (np.arctanh, mpmath.atanh, (0.3,)),
    "sinc": (np.sinc, mpmath.sincpi, (0.3, 0.0, 1.5)),
    "power": (lambda x: x**2.5, lambda x: x ** mpmath.mpf(2.5), (0.7,)),
    "cube": (lambda x: x**3, lambda x: x**3, (0.0, -1.0)),
    "square by a varying exponent": (lambda x: np.power(x, 2.0 + 0 * x), lambda x: x * x, (0.0, -1.0)),
    "negative power": (lambda x: x**-3, lambda x: x**-3, (-1.5,)),
    "power of a number": (lambda x: 2.0**x, lambda x: mpmath.mpf(2) ** x, (0.7,)),
    "x**x": (lambda x: x**x, lambda x: x**x, (0.7,)),
    "quotient": (lambda x: np.sin(x) / (1 + x * x), lambda x: mpmath.sin(x) / (1 + x * x), (0.7,)),
    "hypot": (lambda x: np.hypot(x, 2 * x + 1), lambda x: mpmath.sqrt(x * x + (2 * x + 1) ** 2), (0.7,)),
    "arctan2": (lambda x: np.arctan2(np.sin(x), 1 + x), lambda x: mpmath.atan2(mpmath.sin(x), 1 + x), (0.7,)),
    "composed": (lambda x: np.exp(np.sin(x)) ** 0.5, lambda x: mpmath.exp(mpmath.sin(x) / 2), (0.7,)),
    "absolute": (lambda x: abs(np.sin(x) - 1), lambda x: 1 - mpmath.sin(x), (0.7,)),
    "maximum": (lambda x: np.maximum(np.exp(x), 1 + x), mpmath.exp, (0.7,)),
    "where": (lambda x: np.where(x > 0, np.cos(x), np.sqrt(-x)), mpmath.cos, (0.7,)),
    "remainder": (lambda x: np.sin(x) % 0.5, lambda x: mpmath.sin(x) - mpmath.mpf(0.5), (0.7,)),
}


def expected(f, x, order):
    with mpmath.workdps(50):
        return np.array([float(c) for c in mpmath.taylor(f, mpmath.mpf(x), order)])


def cases(table):
    return [pytest.param(f, m, x, id=f"{name} at {x}") for name, (f, m, points) in table.items() for x in points]


@pytest.mark.parametrize(("f", "in_mpmath", "x"), cases(FUNCTIONS))
def test_recurrences_are_accurate_to_order_20(f, in_mpmath, x):
    right = expected(in_mpmath, x, ORDER)
    found = wg.taylor(f, x, 1.0, ORDER)
    # relative to the largest coefficient so far, scaled by the radius of convergence
    scale = np.maximum(np.maximum.accumulate(np.abs(right)), 1e-300)
    assert found.shape == (ORDER + 1,)
    assert np.max(np.abs(found - right) / scale) < 1e-13
    along = wg.taylor(f, np.array([x, x]), np.array([0.5, 0.0]), ORDER)
    assert np.max(np.abs(along[:, 0] - right * 0.5 ** np.arange(ORDER + 1)) / scale) < 1e-13
    assert not along[1:, 1].any()


#: expanded by the partials of their rules
SPECIAL = {
    "erf": (sc.erf, mpmath.erf, (0.3,)),
    "expit": (sc.expit, lambda x: 1 / (1 + mpmath.exp(-x)), (0.3,)),
    "ndtr": (sc.ndtr, mpmath.ncdf, (0.3,)),
    "j1": (sc.j1, lambda x: mpmath.besselj(1, x), (1.3,)),
    "xlogy": (lambda x: sc.xlogy(x, x), lambda x: x * mpmath.log(x), (0.7,)),
    "logaddexp": (
        lambda x: np.logaddexp(x, 2 * x),
        lambda x: mpmath.log(mpmath.exp(x) + mpmath.exp(2 * x)),
        (0.3,),
    ),
}


@pytest.mark.parametrize(("f", "in_mpmath", "x"), cases(SPECIAL))
def test_functions_are_expanded_by_partials_of_their_rules(f, in_mpmath, x):
    order = 12
    right = expected(in_mpmath, x, order)
    assert np.max(np.abs(wg.taylor(f, x, 1.0, order) - right) / np.maximum.accumulate(np.abs(right))) < 1e-12


def test_gammaln_has_series_by_polygamma():
    right = [sc.gammaln(1.3), *[sc.polygamma(k - 1, 1.3) / math.factorial(k) for k in range(1, ORDER + 1)]]
    assert np.max(np.abs(wg.taylor(sc.gammaln, 1.3, 1.0, ORDER) / right - 1)) < 1e-13


# ---- programs, against polynomials in t and nested derivatives

RNG = np.random.default_rng(63)
X, V = RNG.uniform(0.5, 1.5, 4), RNG.standard_normal(4)
A = RNG.standard_normal((4, 4)) + 4 * np.eye(4)
B = RNG.standard_normal((4, 4))
SPARSE = scipy.sparse.csr_array(B * (B > 0))


def assigning(x):
    out = np.zeros(4)
    for i in range(4):
        out[i] = x[i] ** 2 * np.sin(x[i - 1])
    out[1:] += x[:-1]
    part = out[::2]
    part *= x[0]
    return out


def polynomial(x):
    y = 0.0
    for c in (1.0, -2.0, 0.5):
        y = y * x + c
    return np.array([y.sum(), np.dot(x, x), x[0] * x[1]])


def layouts(x):
    """Write through views that exist only for the memory layout that NumPy gives each array."""
    m, total = np.outer(x, x)[:2], 0.0
    for y in (
        m.T.copy(), m.copy("F").T, m.T.astype(float, "C"), np.asarray(m.T, order="C"), np.abs(m.T), np.sort(m.T),
        np.array([m.T, m.T]), np.where(m.T > 0, m.T, x[0]), np.flip(m.T).copy(), np.pad(m, 1).T[1:-1, 1:-1],
    ):
        y.reshape(-1)[0] = 7 * x[1]
        y.reshape(-1, order="F")[1] = 9 * x[2]
        total = total + y
    return total


def copied_constant(x):
    y, z = np.copy(B), np.zeros(4)
    y[0] = x
    y[1] *= x[0]
    z.real = x**2
    return y + z


PROGRAMS = {
    "assigning": assigning,
    "memory layouts": layouts,
    "copied constant": copied_constant,
    "polynomial": polynomial,
    "polynomials of NumPy": lambda x: polygrid2d(x[:2], x[2:], np.outer(x, x)) * legval(x[:2], B[:3, :2]),
    "product": lambda x: B @ np.exp(x),
    "of matrices": lambda x: np.outer(x, x) @ B @ np.diag(x),
    "sparse matrix": lambda x: SPARSE @ np.sin(x) + x @ SPARSE,
    "sparse matrix made in the function": lambda x: scipy.sparse.csr_array(np.array([[0.0, 2.0], [1.0, 3.0]])) @ x[:2],
    "product of a scalar": lambda x: np.prod(x[0], axis=0) * x,
    "rounded": lambda x: x * (int(x[0] * 10) + round(x[1], 0)),
    "einsum": lambda x: np.einsum("i,ij,j->i", x, B, np.sin(x)),
    "three at once": lambda x: np.einsum("i,i,i->", x, x, x),
    "solve": lambda x: np.linalg.solve(A + np.outer(x, x), np.sin(x)),
    "constant matrix": lambda x: np.linalg.solve(A, x**3),
    "constant right side": lambda x: np.linalg.solve(A * x, np.ones(4)),
    "inverse": lambda x: np.linalg.inv(A * x),
    "determinant": lambda x: np.linalg.det(A * x),
    "logarithm of it": lambda x: np.linalg.slogdet(A * x)[1],
    "cholesky": lambda x: np.linalg.cholesky(A @ A.T + np.outer(x, x)),
    "matrix power": lambda x: np.linalg.matrix_power(A * x / 10, 3),
    "norm": lambda x: np.linalg.norm(np.exp(x)),
    "sums from an initial value": lambda x: (
        np.sum(np.outer(x, x), 0, initial=2.0, where=B > 0) + np.add.reduce(x * x, initial=3.0)
    ),
    "one right side for a stack": lambda x: np.linalg.solve(np.stack([A * x, A.T + np.outer(x, x)]), np.sin(x)),
    "prod": lambda x: np.prod(x),
    "cumulative products": lambda x: np.cumprod(np.sin(x)) * np.cumprod(np.outer(x, x), axis=1)[:, 2],
    "cumulative product of nothing": lambda x: np.append(np.cumprod(x[:0]), x),
    "quantiles": lambda x: np.quantile(x * x, [0.3, 0.9]) * np.percentile(np.outer(x, x), 40, axis=0)[0],
    "std": lambda x: np.std(x * x) + np.var(x, ddof=1),
    "sums": lambda x: np.cumsum(x**2) - x.mean() + np.max(x),
    "sorting": lambda x: np.sort(x**2)[::-1],
    "shapes": lambda x: np.concatenate([x.reshape(2, 2).T.ravel(), np.stack([x[0], 1.0]), np.zeros(2)]),
    "clip and interp": lambda x: np.clip(x, 0.7, 1.2) ** 2 + np.interp(x, [0.0, 1.0, 2.0], [0.0, 2.0, 1.0]),
    "a median that may overwrite": lambda x: np.median(x * 1, overwrite_input=True) * x,
    "average": lambda x: np.multiply(*np.average(np.outer(x, x), 1, np.exp(x), True)) * np.average(x, returned=True)[1],
    "lists": lambda x: np.concatenate([[x[0], np.sum([x[1], x[2]])], np.dot([x[1], 1], x[:2]) * np.array([x[0], 1.0])]),
    "nested lists": lambda x: np.einsum("ij,j", [[x[0], 1], [2, x[1]]], [x[2], x[3]]) + np.vstack([[x[0], 1], x[2:]]),
    "iteration and concatenation": lambda x: np.r_[x[0], np.fromiter((v * v for v in x), float), 1],
    "sums of exponentials": lambda x: sc.logsumexp(np.outer(x, x), axis=1) * sc.softmax(x) + sc.log_softmax(3 * x),
    "conditions on scalars": lambda x: np.where(x - X[0], x**2, 1.0) + np.compress(x, x) * np.extract(x, x.conj()),
    "a branch": lambda x: np.sin(x) if x[0] > 0 else x,
    "gradient": lambda x: np.gradient(np.sin(x)) + np.append(np.diff(x), 1.0),
    "logsumexp": lambda x: np.log(np.sum(np.exp(x))),
    "ufunc methods": lambda x: np.multiply.outer(x, x).sum() + np.add.reduce(x * x) + np.add.reduceat(x, [0, 2]).sum(),
    "out": lambda x: np.exp(x, out=np.zeros(4)),
    "list of numbers": lambda x: [x[0] * x[1], np.sin(x[2]), 2.0],
    "a constant": lambda x: np.ones(3),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_agree_with_nested_derivatives(name):
    f = PROGRAMS[name]

    def along(t):
        return f(X + t * V)

    g = along
    right = [np.asarray(f(X.copy()), dtype=float)]
    for k in range(1, 4):
        g = wg.jacfwd(g)
        right.append(np.asarray(g(0.0)) / math.factorial(k))
    found = wg.taylor(f, X, V, 3)
    assert found.shape == (4, *right[0].shape)
    for k in range(4):
        assert_rounding(found[k], right[k], scale=max(1.0, np.max(np.abs(right[k]))))
    assert_rounding(wg.taylor(f, X, V, 0)[0], right[0])


def test_intermediate_values_may_be_complex():
    w = np.array([1, 1j, 1 + 2j, -1])
    f = (lambda x: np.linalg.norm(w * np.exp(1j * x) + x), lambda x: np.var(w * x + x * x), lambda x: np.std(w * x))
    for g in f:
        second = wg.derivative(lambda t: g(X + t * V), 0.0, order=2)
        assert_rounding(wg.taylor(g, X, V, 2), [g(X), wg.jvp(g, X, V)[1], second / 2])
    with pytest.raises(wg.UnsupportedFunctionError, match="complex"):
        wg.taylor(lambda x: np.linalg.cholesky(np.diag(w * w.conj() * x)), X, V, 1)
    found = wg.taylor(lambda x: np.real(np.exp(1j * x) * np.conj(np.exp(2j * x))), X, V, ORDER)
    assert_rounding(found, wg.taylor(np.cos, X, V, ORDER))
    assert wg.taylor(lambda x: np.exp(1j * x), 0.0, 1.0, 2).tolist() == [1, 1j, -0.5]


# ---- arguments, results, outer derivatives


def test_expansion_with_containers_further_arguments_and_argnums():
    def f(p, k, *, shift=0.0):
        return {"a": p["x"] * p["y"] * k + shift, "b": p["y"]}

    p, v = {"x": X, "y": 2.0}, {"x": np.ones(4), "y": 1.0}
    out = wg.taylor(f, p, v, 2, args=(3.0,), kwargs={"shift": 1.0})
    assert_rounding(out["a"], [6 * X + 1, 3 * X + 6, 3 * np.ones(4)])
    assert np.array_equal(out["b"], [2, 1, 0])
    assert np.array_equal(wg.taylor(lambda a, b: a * b, 2.0, (1.0, 1.0), 2, args=(3.0,), argnums=(0, 1)), [6, 5, 1])
    assert np.array_equal(wg.taylor(np.square)(3.0, 1.0, 2), [9, 6, 1])
    assert np.array_equal(wg.taylor(lambda a, b: a / b, 1.0, 1.0, 2, args=(0.5,), argnums=1), [2, -4, 8])
    x = X.copy()
    wg.taylor(lambda x: x.__imul__(2).sum(), x, V, 2)
    assert np.array_equal(x, X)
    assert wg.taylor(np.exp, np.float32(0.5), np.float32(1), 3).dtype == np.float32


def test_coefficients_have_derivatives():
    def f(x):
        return np.sum(np.exp(np.sin(x)) * x[::-1])

    def third(x):
        return wg.taylor(f, x, V, 3)[3]

    def nested(x):
        return wg.derivative(lambda t: f(x + t * V), 0.0, order=3) / 6

    assert_rounding(wg.grad(third, X), wg.grad(nested, X))
    assert_rounding(wg.jacfwd(third, X), wg.grad(nested, X))
    assert_rounding(wg.hessian(third, X), wg.hessian(nested, X))
    assert_rounding(wg.compile(third)(1.1 * X), nested(1.1 * X))
    assert_rounding(wg.grad(wg.compile(third))(X), wg.grad(nested, X))
    assert_rounding(wg.vmap(lambda x: wg.taylor(f, x, V, 2))(np.stack([X, 2 * X]))[1], wg.taylor(f, 2 * X, V, 2))


def test_values_of_outer_derivative_are_constants():
    def f(p):
        c = wg.taylor(lambda x: p * np.sin(x * p) + np.dot(np.stack([p, p]), np.stack([x, x])), 0.3, 1.0, 2)
        return c[2]

    def nested(p):
        return wg.derivative(lambda x: p * np.sin(x * p) + 2 * p * x, 0.3, order=2) / 2

    assert_rounding(wg.derivative(f, 0.7), wg.derivative(nested, 0.7))
    assert_rounding(wg.grad(f, 0.7), wg.grad(nested, 0.7))


def test_zero_factor_is_strong_zero():
    with np.errstate(all="ignore"):
        found = wg.taylor(lambda x: np.where(x > 0, np.sqrt(x), 0.0), np.array([0.0, 4.0]), np.array([1.0, 1.0]), 2)
    assert_rounding(found, [[0, 2], [0, 0.25], [0, -1 / 64]])
    assert not wg.taylor(np.sqrt, 0.0, 0.0, 3).any()


@pytest.mark.parametrize("f", [np.cbrt, lambda x: x**0.4, lambda x: np.power(x, 0.4 + 0 * x)])
def test_roots_are_infinitely_steep_at_zero(f):
    with np.errstate(all="ignore"):
        found = wg.taylor(f, np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0]), 2)
        assert np.array_equal(found, [[0, 0, 1], [np.inf, 0, 0], [-np.inf, 0, 0]])
        assert wg.taylor(lambda x: x**2.5, 0.0, 2.0, 3).tolist() == [0, 0, 0, np.inf]


def test_nan_and_infinite_values_equal_numpy():
    for f in (lambda x: np.cov(x[:1]), lambda x: np.std(x[:1], ddof=1), lambda x: (x - x) * np.inf):
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            assert np.isnan(wg.taylor(f, X, V, 2)[0]).all()


def test_scalar_series_is_a_float_instance():
    def check(x):
        assert isinstance(x[0], float) and isinstance(x.sum(), float) and not isinstance(x[0], np.ndarray)
        assert isinstance(x, np.ndarray) and isinstance(x.reshape(2, 2)[1, :1], np.ndarray)
        return x

    wg.taylor(check, X, V, 1)


# functions in it are not followed, nor are partials
fetched = types.MappingProxyType({"exp": functools.partial(math.exp), "sin": functools.partial(math.sin)})
REFUSED = {
    "eigenvalues": (lambda x: np.linalg.eigvalsh(np.outer(x, x)), wg.UnsupportedFunctionError, "eigvalsh has no"),
    "histogram": (lambda x: np.histogram(x)[0], wg.UnsupportedFunctionError, "histogram has no derivative"),
    "sparse entries": (lambda x: scipy.sparse.csr_array(np.diag(x)) @ x, wg.TracedValueError, "through a sparse array"),
    "reduction by a ufunc": (np.hypot.reduce, wg.UnsupportedFunctionError, "^numpy.hypot.reduce has no"),
    "singular matrix": (lambda x: np.linalg.det(np.outer(x, 0 * x)), np.linalg.LinAlgError, "linalg.det has Taylor"),
    "a decomposition": (lambda x: np.linalg.qr(np.outer(x, x)), wg.UnsupportedFunctionError, "linalg.qr has no"),
    "a quantile at x": (lambda x: np.quantile(x, x[0] / 2), wg.UnsupportedFunctionError, "quantile has no"),
    "an option": (lambda x: np.sin(x, dtype=np.float64), wg.UnsupportedFunctionError, "no Taylor rule|dtype"),
    "a Python float": (lambda x: fetched["sin"](x[0]), wg.TracedValueError, "Python float"),
    "compiled code": (lambda x: np.asarray(memoryview(x)), TypeError, "memoryview"),
    "a plain array": (lambda x: np.exp(x, out=X), wg.TracedValueError, "plain array"),
    "a derivative inside": (lambda x: wg.grad(lambda z: np.sum(z**2))(x), TypeError, "."),
    "absolute of complex": (lambda x: np.abs(np.exp(1j * x)), wg.UnsupportedFunctionError, "complex"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_function_without_taylor_rule_raises(name):
    f, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        wg.taylor(f, X, V, 2)


def test_invalid_arguments_raise():
    with pytest.raises(ValueError, match="the direction has shape"):
        wg.taylor(np.sin, X, V[:2], 2)
    with pytest.raises(ValueError, match="order must be nonnegative, not -1"):
        wg.taylor(np.sin, X, V, -1)
    with pytest.raises(TypeError, match="missing the direction or the order"):
        wg.taylor(np.sin, X, V)
