"""Nested derivatives: every pair and triple of modes, without confusion of levels."""

import functools
import gc
import itertools
import math
import threading
import types
import warnings
from concurrent.futures import ThreadPoolExecutor

import mpmath as mp
import numpy as np
import pytest
from scipy.interpolate import CubicSpline
from scipy.optimize import brentq

import wengert as wg
from array_programs import PROGRAMS, X
from helpers import assert_rounding, assert_same_bits, complex_step
from primitive_cases import ELEMENTWISE, resolve
from scenarios import TABLE
from test_primitives import as_function, every_case, is_several, like, numbers_for
from test_scenarios import named
from wengert import registry
from wengert.core import levels


@pytest.fixture(autouse=True)
def quiet():
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", wg.MutatedInputWarning)
        yield
    assert levels.running.get() == ()


def forward(f, **options):
    return wg.jacobian(f, mode="forward", **options)


def reverse(f, **options):
    return wg.jacobian(f, mode="reverse", **options)


def by_jvp(f):
    """Return the Jacobian column by column, or the derivative of a function of a scalar."""

    def columns(x):
        if np.ndim(x) == 0:
            return wg.jvp(f, x, 1.0)[1]
        return np.stack([wg.jvp(f, x, e)[1] for e in np.eye(len(x))], axis=-1)

    return columns


def by_vjp(f):
    """Return the Jacobian row by row."""

    def rows(x):
        y, pullback = wg.vjp(f, x)
        shape = np.shape(y)
        if shape == ():
            return pullback(1.0)
        found = [pullback(np.reshape(e, shape)) for e in np.eye(math.prod(shape))]
        return np.reshape(np.stack(found), shape + np.shape(x))

    return rows


MODES = {"forward": forward, "reverse": reverse}
WAYS = {**MODES, "jvp": by_jvp, "vjp": by_vjp}
SCALAR_WAYS = {**WAYS, "grad": wg.grad, "derivative": wg.derivative}


def in_modes(depth=2, modes=MODES):
    chosen = list(itertools.product(modes.values(), repeat=depth))
    names = ["-".join(names) for names in itertools.product(modes, repeat=depth)]
    return pytest.mark.parametrize("D", chosen, ids=names)


def second_by_differences(f, x, h=1e-3):
    """Differentiate the Jacobian by the complex step and differences, to about ten digits."""
    columns = []
    for e in np.eye(x.size):
        J = [complex_step(f, x + t * h * e) for t in (1, -1, 2, -2)]
        columns.append((8 * (J[0] - J[1]) - (J[2] - J[3])) / (12 * h))
    return np.stack(columns, axis=-1)


# ---- functions of one scalar

NUMBERS = {
    "sin": (np.sin, mp.sin),
    "fifth power": (lambda x: x**5, lambda x: x**5),
    "tanh": (np.tanh, mp.tanh),
    "power": (lambda x: x**2.5, lambda x: x ** mp.mpf(2.5)),
    "power of a number": (lambda x: 2.0**x, lambda x: mp.mpf(2) ** x),
    "power of itself": (lambda x: x**x, lambda x: x**x),
    "reciprocal": (lambda x: 3 / x - x / 3, lambda x: 3 / x - x / 3),
    "absolute": (lambda x: abs(x) * x, lambda x: x * x),
    "composite": (
        lambda x: np.exp(np.sin(x) * x) / (1 + x * x),
        lambda x: mp.exp(mp.sin(x) * x) / (1 + x * x),
    ),
    "product of elements": (
        lambda x: np.prod(np.stack([x, x * x, np.exp(x)])),
        lambda x: x**3 * mp.exp(x),
    ),
    "rounded factor": (lambda x: round(x * 10) * math.floor(x * 7) * x**3, lambda x: 28 * x**3),
    "truncated factor": (lambda x: math.trunc(x * 7) * math.ceil(x) * x**3, lambda x: 4 * x**3),
}


@pytest.mark.parametrize("name", NUMBERS)
@in_modes(2, SCALAR_WAYS)
def test_second_derivatives_of_scalars_equal_mpmath(name, D):
    f, exact = NUMBERS[name]
    outer, inner = D
    np.testing.assert_allclose(outer(inner(f))(0.7), float(mp.diff(exact, mp.mpf(0.7), 2)), rtol=1e-12)


@pytest.mark.parametrize("name", NUMBERS)
@in_modes(3)
def test_third_derivatives_of_scalars_equal_mpmath(name, D):
    f, exact = NUMBERS[name]
    first, second, third = D
    np.testing.assert_allclose(first(second(third(f)))(0.7), float(mp.diff(exact, mp.mpf(0.7), 3)), rtol=1e-11)


@pytest.mark.parametrize("order", range(1, 7))
def test_derivatives_of_any_order_are_exact(order):
    at = np.array([0.3, -0.4])
    np.testing.assert_allclose(wg.derivative(np.exp, 0.3, order=order), np.exp(0.3), rtol=1e-13)
    np.testing.assert_allclose(wg.derivative(np.exp, at, order=order), np.exp(at), rtol=1e-13)


@pytest.mark.parametrize("case", ELEMENTWISE, ids=[e.name for e in ELEMENTWISE])
@in_modes(2)
def test_second_partials_of_elementwise_functions_equal_mpmath(case, D):
    fun, (outer, inner) = resolve(case.fun), D
    for at in case.smooth_at:
        for i, j in itertools.product(range(len(at)), repeat=2):
            counts = tuple((i == k) + (j == k) for k in range(len(at)))
            point = tuple(mp.mpf(a) for a in at)
            exact = mp.diff(case.f, point if len(at) > 1 else point[0], counts if len(at) > 1 else counts[0])

            def along(x, j=j, at=at):
                return fun(*(x if k == j else a for k, a in enumerate(at)))

            def gradient(x, i=i, j=j, at=at):
                """Return partial j as a function of operand i."""
                at = tuple(x if k == i else a for k, a in enumerate(at))
                return inner(lambda z: along(z, j, at))(at[j])

            np.testing.assert_allclose(float(outer(gradient)(at[i])), float(mp.re(exact)), rtol=1e-8, atol=1e-12)


# ---- programs


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_second_derivatives_of_programs_that_write_in_place(f):
    exact = second_by_differences(f, X)
    first = None
    for outer, inner in [*itertools.product(MODES.values(), repeat=2), (by_jvp, by_vjp), (by_vjp, by_jvp)]:
        found = outer(inner(f))(X)
        first = found if first is None else first
        np.testing.assert_allclose(found, exact, rtol=1e-7, atol=1e-8)
        assert_rounding(found, first)


@named([s for s in TABLE if not s.containers and s.dtype == np.float64])
def test_second_derivatives_of_the_scenarios_agree_in_all_modes(s):
    found = [outer(inner(s.f))(s.x, *s.args) for outer, inner in itertools.product(MODES.values(), repeat=2)]
    for other in found[1:]:
        assert_rounding(other, found[0], scale=max(1.0, np.abs(found[0]).max()))
    if np.shape(s.x) and np.shape(s.exact()) == np.shape(s.x):  # for a scalar function this is symmetric
        n = np.size(s.x)
        matrix = np.reshape(found[0], (n, n))
        assert_rounding(matrix, matrix.T, scale=max(1.0, np.abs(matrix).max()))


@named([s for s in TABLE if s.dtype == np.float32])
def test_single_precision_stays_single_in_second_derivatives(s):
    for outer, inner in itertools.product(MODES.values(), repeat=2):
        assert outer(inner(s.f))(s.x, *s.args).dtype == np.float32


def weighted(case):
    """Return a scalar function of one vector of all operands of a call, its point, and a direction."""
    f, leaves = as_function(case), numbers_for(case)
    y = f(*leaves)
    rng = np.random.default_rng(1)
    weights = like(y, lambda shape: rng.uniform(-1, 1, shape))
    shapes = [np.shape(x) for x in leaves]
    ends = np.cumsum([math.prod(shape) for shape in shapes])

    def loss(z):
        parts = [z[end - math.prod(shape) : end] for end, shape in zip(ends, shapes)]
        y = f(*(np.reshape(part, shape) if shape else part[0] for part, shape in zip(parts, shapes)))
        pairs = zip(y, weights) if is_several(y) else [(y, weights)]
        return sum(np.sum(np.sin(part) * weight) for part, weight in pairs)

    z = np.concatenate([np.ravel(x) for x in leaves]).astype(float)
    return loss, z, np.where(np.isfinite(z), rng.uniform(-1, 1, z.size), 0.0)


#: rules of triangular matrices do not see differences in the other triangle
TRIANGULAR = {"wengert.rules.factors.cholesky_adjoint"}


@every_case
def test_second_derivatives_of_calls(case):
    if registry.dotted_name(case.fun) in TRIANGULAR:
        pytest.skip("its operand is triangular; test_linalg differentiates cholesky itself twice")
    loss, z, v = weighted(case)
    h = 1e-4
    g = [wg.grad(loss)(z + t * h * v) for t in (1, -1, 2, -2)]
    exact = np.nan_to_num((8 * (g[0] - g[1]) - (g[2] - g[3])) / (12 * h))
    scale = np.abs(exact).max(initial=1.0)
    ways = {
        "jvp of grad": wg.jvp(wg.grad(loss), z, v)[1],
        "jacobian of jvp": forward(lambda z: wg.jvp(loss, z, v)[1])(z),
        "grad of jvp": wg.grad(lambda z: wg.jvp(loss, z, v)[1], z),
        "grad of grad": wg.grad(lambda z: np.sum(wg.grad(loss)(z) * v), z),
        "vjp of grad": wg.vjp(wg.grad(loss), z)[1](v),
    }
    for name, found in ways.items():
        found = np.nan_to_num(found)
        np.testing.assert_allclose(found, exact, rtol=1e-6, atol=1e-6 * scale, err_msg=name)
        assert_rounding(found, np.nan_to_num(ways["grad of grad"]), scale=scale, what=name)


#: memory layouts of operands, and the two derivatives around them
LAYOUTS = {
    "F": (lambda x: np.asfortranarray(x) if np.ndim(x) else x, (forward, reverse)),
    "negative strides": (lambda x: np.flip(np.flip(x).copy()) if np.ndim(x) else x, (reverse, forward)),
    "single": (np.float32, (forward, reverse)),
}


def values_in(outer, inner, f, leaves):
    """Return the values that `f` computes at the point, inside two derivatives."""
    wrt = tuple(range(len(leaves)))
    ones = tuple(np.ones_like(x) for x in leaves)

    def value(mode, f):
        if mode is forward:
            return lambda *xs: wg.jvp(f, xs[0], ones, args=xs[1:], argnums=wrt)[0]
        return lambda *xs: wg.vjp(f, xs[0], args=xs[1:], argnums=wrt)[0]

    return value(outer, value(inner, f))(*leaves)


@pytest.mark.parametrize("layout", LAYOUTS)
@every_case
def test_values_inside_two_derivatives_equal_plain_numpy(case, layout):
    laid_out, modes = LAYOUTS[layout]
    f, leaves = as_function(case), [laid_out(x) for x in numbers_for(case)]
    assert_same_bits(values_in(*modes, f, leaves), f(*leaves))


# ---- perturbation confusion: each program takes the two derivatives, and only one value is right


def shift_twice(A, B):
    """Apply the derivative of the shift operator twice; a derivative returns closures."""

    def slope(D, f):
        return lambda x: D(lambda u: f(x + u))(0.0)

    return slope(A, slope(B, np.exp))(1.0)


def product_in_a_loop(A, B):
    def f(x):
        total = x
        for _ in range(3):
            total = total * B(lambda y: y * y * total)(x)
        return total

    return A(f)(1.1)


def branch_on_a_derivative(A, B):
    def f(x):
        slope = B(lambda y: y**3)(x)
        return slope * x if slope > 5 else -x

    return A(f)(2.0)


def newton(A, B):
    def f(a):
        x = a * 0 + 1.0
        for _ in range(30):
            g = lambda t: t * t - a
            step = g(x) / B(g)(x)
            x = x - step
            if abs(step) < 1e-15:
                break
        return x

    return A(f)(2.0)


def from_a_generator(A, B):
    def slopes(x):
        for k in range(1, 4):
            yield B(lambda y: y**k * x)(x)

    return A(lambda x: sum(slopes(x)))(2.0)


def by_recursion(A, B):
    def derived(n, f):
        return f if n == 0 else B(derived(n - 1, f))

    return A(lambda x: derived(3, lambda y: x * y**4)(x))(1.5)


CONFUSIONS = {
    "x d/dy (x + y)": (lambda A, B: A(lambda x: x * B(lambda y: x + y)(1.0))(1.0), 1.0),
    "x d/dy (x y)": (lambda A, B: A(lambda x: x * B(lambda y: x * y)(2.0))(3.0), 6.0),
    "at the outer point": (lambda A, B: A(lambda x: x * B(lambda y: x * y * y)(x))(3.0), 54.0),
    "d/dx d/dy x y": (lambda A, B: A(lambda x: B(lambda y: x * y)(2.0))(3.0), 1.0),
    "inner independent of outer": (lambda A, B: A(lambda x: x * x + B(lambda y: y * y)(2.0))(3.0), 6.0),
    "inner ignores its argument": (lambda A, B: A(lambda x: x + B(lambda y: x * x)(x))(3.0), 1.0),
    "inner returns a literal": (lambda A, B: A(lambda x: x + B(lambda y: 5.0)(x))(3.0), 1.0),
    "inner is linear": (lambda A, B: A(lambda x: x + B(lambda y: 3 * y)(x))(3.0), 1.0),
    "closures returned": (shift_twice, math.e),
    "product in a loop": (product_in_a_loop, 15 * 128 * 1.1**14),
    "branch on a derivative": (branch_on_a_derivative, 36.0),
    "Newton's method": (newton, 0.5 / math.sqrt(2.0)),
    "generator": (from_a_generator, 1 + 8 + 36.0),
    "recursion": (by_recursion, 72.0),
    "inner value of the outer point": (lambda A, B: A(lambda x: B(lambda y: [x, y * x, 1.0])(x)[1])(3.0), 1.0),
    "inner at a list": (lambda A, B: A(lambda x: B(lambda y: y[0] * y[1])([x, 2.0])[1])(3.0), 1.0),
    "inner at a dict": (lambda A, B: A(lambda x: B(lambda p: p["a"] * p["b"])({"a": x, "b": x * x})["a"])(3.0), 6.0),
    "inner with args": (lambda A, B: A(lambda x: B(lambda y, k: k * y * y)(x, x))(3.0), 12.0),
    "inner value": (lambda A, B: A(lambda x: B(lambda y: y**3, value=True)(x)[0])(2.0), 12.0),
    "inner aux": (lambda A, B: A(lambda x: B(lambda y: (y**3, y * y), has_aux=True)(x)[1])(2.0), 4.0),
    "inner fun": (lambda A, B: A(lambda x: (lambda J: J.fun(x) * J(x))(B(lambda y: y**3)))(2.0), 15 * 16.0),
}


@pytest.mark.parametrize(("run", "expected"), CONFUSIONS.values(), ids=CONFUSIONS.keys())
@in_modes(2)
def test_perturbations_are_not_confused(run, expected, D):
    np.testing.assert_allclose(run(*D), expected, rtol=1e-12)


@in_modes(3)
def test_perturbations_of_three_levels_are_not_confused(D):
    A, B, C = D
    assert A(lambda x: B(lambda y: C(lambda z: x * y * z)(2.0))(3.0))(4.0) == 1.0
    found = A(lambda x: B(lambda y: C(lambda z: x * x * y * z)(x * y))(0.2) * x)(0.5)
    np.testing.assert_allclose(found, 3 * 0.5**2)


# ---- arrays of one level used in another

# the gradient in x of d/dy of (y x1)^2 + (y x1)^2 + (x2 + x0 y^2)^2 at y = 2
AT = np.array([1.0, 2.0, 3.0])
MIXED = np.array([4 * 2.0 * (AT[2] + 2 * 4 * AT[0]), 16 * AT[1], 8 * AT[0]])


def buffer_inside(A, B):
    def f(x):
        def g(y):
            F = np.zeros(3)
            F[:] = x
            F[0] = y * x[1]
            F[1] *= y
            F[2] += x[0] * y * y
            return np.sum(F * F)

        return B(g)(2.0)

    return A(f)(AT)


def buffer_captured(A, B):
    def f(x):
        F = np.zeros(3)

        def g(y):
            F[:] = x
            F[0] = y * x[1]
            F[1] *= y
            F[2] += x[0] * y * y
            return np.sum(F * F)

        return B(g)(2.0)

    return A(f)(AT)


def traced_array_captured(A, B):
    def f(x):
        F = x * 1.0

        def g(y):
            F[0] = y * x[1]
            F[1] *= y
            F[2] += x[0] * y * y
            return np.sum(F * F)

        return B(g)(2.0)

    return A(f)(AT)


def view_captured(A, B):
    def f(x):
        F = np.zeros(5)
        v = F[1:4]
        v[:] = x

        def g(y):
            F[1] = y * x[1]
            v[1] *= y
            F[3] += x[0] * y * y
            return np.sum(v * v)

        return B(g)(2.0)

    return A(f)(AT)


def outer_value_stored_from_inside(A, B):
    def f(x):
        F = np.zeros(3)

        def g(y):
            F[:] = x * x
            return y * y * x[0]

        F[0] = B(g)(2.0) + F[1]
        return F

    return A(f)(AT).sum(axis=0)


def outer_array_changed_after_its_use(A, B):
    def f(x):
        F = x * 1.0

        def g(y):
            z = y * F
            F[0] = 7.0
            F[1:] *= x[0]
            return np.sum(z * y)

        return B(g)(x)

    return A(f)(AT).sum(axis=0)


def outer_matrix_changed_after_its_use(A, B):
    def f(x):
        F = np.outer(x, x)

        def g(y):
            z = F @ y
            F[...] = 0.0
            return z @ z

        return B(g)(x)

    return A(f)(AT).sum(axis=0)


def work_array_of_several_inner_derivatives(A, B):
    def f(x):
        w = np.zeros(3)
        total = 0.0
        for i in range(3):

            def g(y):
                w[:] = y * x
                w[0] *= w[1]
                return np.sum(w * w)

            total = total + B(g)(x)[i]
        return total

    return A(f)(AT)


def work_array_twin(x):
    return 2 * x[0] ** 3 * x[1] ** 4 + 2 * x[1] ** 3 * x[0] ** 4 + 2 * x[1] ** 3 + 2 * x[2] ** 3


def pullback_called_again(A, B):
    def f(x):
        def in_place(z):
            F = z * z
            F[0] = F[1] * F[0]
            F *= z[2]
            return F

        y, pullback = wg.vjp(in_place, x)
        a, b = pullback(x), pullback(y * x)
        a[0] = b[1]
        y[1] = 0.0
        return a * b * pullback(x)

    return A(f)(AT).sum(axis=0)


def pullback_twin(x):
    def pullback(c):
        return [
            c[0] * 2 * x[0] * x[1] ** 2 * x[2],
            c[0] * 2 * x[1] * x[0] ** 2 * x[2] + c[1] * 2 * x[1] * x[2],
            c[0] * x[0] ** 2 * x[1] ** 2 + c[1] * x[1] ** 2 + c[2] * 3 * x[2] ** 2,
        ]

    a, b, c = pullback(x), pullback([x[0] ** 3 * x[1] ** 2 * x[2], x[1] ** 3 * x[2], x[2] ** 4]), pullback(x)
    return b[1] * b[0] * c[0] + a[1] * b[1] * c[1] + a[2] * b[2] * c[2]


def result_written(A, B):
    def f(x):
        y, g = B(lambda z: np.sum(z**3), value=True)(x)
        g[0] = 5.0
        g *= x
        g[1] += y
        return g

    return A(f)(AT).sum(axis=0)


SQUARED = float(AT @ AT)
CAPTURED = {
    "buffer made inside": (buffer_inside, MIXED),
    "buffer captured": (buffer_captured, MIXED),
    "traced array captured": (traced_array_captured, MIXED),
    "view captured": (view_captured, MIXED),
    "outer value stored from inside": (outer_value_stored_from_inside, 4 * np.eye(3)[0] + 2 * AT * [0, 2, 1]),
    "outer array changed after its use": (outer_array_changed_after_its_use, 4 * AT),
    "outer matrix changed after its use": (
        outer_matrix_changed_after_its_use,
        2 * SQUARED**2 + 8 * SQUARED * AT * AT.sum(),
    ),
    "work array": (work_array_of_several_inner_derivatives, complex_step(work_array_twin, AT)),
    "pullback called again": (pullback_called_again, complex_step(pullback_twin, AT)),
    "result written": (
        result_written,
        complex_step(lambda x: 5 * x[0] + 3 * x[1] ** 3 + np.sum(x**3) + 3 * x[2] ** 3, AT),
    ),
}


@pytest.mark.parametrize(("run", "expected"), CAPTURED.values(), ids=CAPTURED.keys())
@in_modes(2)
def test_arrays_of_one_level_may_be_used_in_another(run, expected, D):
    np.testing.assert_allclose(run(*D), expected, rtol=1e-12)


@in_modes(2)
def test_overwritten_work_array_returns_to_outer_derivative(D):
    A, B = D

    def f(x):
        w = x * 1.0
        s = w[0] * w[1] + np.sum(w**3)

        def g(y):
            w[0] = y[0] * x[1]  # only one element: the outer derivative wrote the others
            return w[0] * y[1] + np.sum(w * w)

        for _ in range(2):
            slope = np.sum(B(g)(x))
            w[:] = 5.0
            s = s + slope
        w[:] = x * x
        return s + w[0] * w[2] + np.sum(w)

    # s = x0 x1 + sum(x**3), slopes x1**2 + x0 x1 + 2 x0 x1**2 (twice), and the last line
    x0, x1, x2 = x = np.array([1.0, 2.0, 3.0])
    slope = [x1 + 2 * x1**2, 2 * x1 + x0 + 4 * x0 * x1, 0.0]
    expected = 3 * x**2 + 2 * x + 2 * np.array(slope) + [x1 + 2 * x0 * x2**2, x0, 2 * x2 * x0**2]
    assert_rounding(A(f)(x), expected)


@in_modes(1)
def test_buffer_of_object_survives_derivatives_of_several_orders(D):
    class Model:
        buffer = None

        def __call__(self, x):
            if self.buffer is None:
                self.buffer = np.zeros(3)
            self.buffer[:] = x * x
            self.buffer[0] *= self.buffer[1]
            return self.buffer * 1.0

    (d,) = D
    model = Model()
    twin = lambda x: np.stack([x[0] ** 2 * x[1] ** 2, x[1] ** 2, x[2] ** 2])
    for _ in range(2):
        assert_rounding(d(model)(X), complex_step(twin, X))
        np.testing.assert_allclose(d(d(model))(X), second_by_differences(twin, X), rtol=1e-8, atol=1e-8)


# ---- values that leave their level


def keep(kept, value):
    kept.append(value)
    return value


LEAKS = {
    "number": lambda kept, F, x: x * kept[0][0],
    "array": lambda kept, F, x: x * kept[0],
    "returned": lambda kept, F, x: kept[0],
    "element stored": lambda kept, F, x: F.__setitem__(0, kept[0][0]) or F,
    "array stored": lambda kept, F, x: F.__setitem__(slice(None), kept[0]) or F,
    "buffer written inside": lambda kept, F, x: kept[1] * x,
    "traced array written inside": lambda kept, F, x: kept[2] * x,
    "another inner derivative": lambda kept, F, x: wg.grad(lambda y: np.sum(y * kept[0]))(x),
}


@pytest.mark.parametrize("use", LEAKS.values(), ids=LEAKS.keys())
@in_modes(2)
def test_value_of_ended_level_raises_and_names_both_derivatives(use, D):
    A, B = D

    def the_outer_one(x):
        kept, F, written, traced = [], np.zeros(3), np.zeros(3), x * 1.0

        def the_inner_one(y):
            kept.extend([y * x, written, traced])
            written[0] = y[0]
            traced[1:] = y[1:]
            return np.sum(y * y)

        the_inner_one.__qualname__ = "the_inner_one"
        B(the_inner_one)(x)
        return use(kept, F, x)

    the_outer_one.__qualname__ = "the_outer_one"
    with pytest.raises(wg.LevelError, match=r"(?s)the_inner_one.*the_outer_one|the_outer_one.*the_inner_one"):
        A(the_outer_one)(X)
    assert_rounding(A(lambda x: x * x)(X), np.diag(2 * X))


@pytest.mark.parametrize("use", [lambda a: a + 1, lambda a: a[0]], ids=["+", "[]"])
def test_array_written_by_two_derivatives_is_held_by_outer_pullback(use):
    kept = []

    def f(x):
        a = x * 1.0
        s = a[0] * a[1]  # scalar loads make the outer tape number the array

        def inner(y):
            a[0] = y * y
            return np.sum(a * a)

        slope = wg.grad(inner)(x[2])
        kept.append(a)
        return s + slope

    _, pullback = wg.vjp(f, X)
    expected = [X[1], X[0], 12 * X[2] ** 2]
    assert_rounding(pullback(1.0), expected)
    with pytest.raises(wg.LevelError, match="inner"):
        use(kept[0])
    assert_rounding(pullback(1.0), expected)
    del pullback
    assert_rounding(np.asarray(kept[0] + 1), [X[2] ** 2 + 1, X[1] + 1, X[2] + 1])


def test_linearize_inside_outer_derivative_raises():
    def outer(x):
        def inner(y):
            _, J = wg.linearize(lambda z: y * np.ones(2), np.ones(2))
            return np.sum(J @ np.ones(2)) * y

        return wg.grad(inner)(x)

    for D in (wg.grad, wg.derivative):
        with pytest.raises(wg.LevelError, match="linearize"):
            D(outer)(2.0)
    with pytest.raises(wg.LevelError, match="LinearOperator"):
        wg.grad(lambda x: wg.linearize(lambda z, k=1.0: k * z, np.ones(2), kwargs={"k": x})[0].sum())(2.0)


def test_mixing_values_of_sibling_derivatives_names_both():
    met, kept, asked = threading.Event(), {}, threading.Event()

    def first(x):
        kept["x"] = x
        asked.set()
        met.wait(10)
        return x * x

    def other():
        asked.wait(10)
        try:
            wg.derivative(lambda y: y * kept["x"], 2.0)
        except wg.LevelError as error:
            kept["error"] = str(error)
        met.set()

    thread = threading.Thread(target=other)
    thread.start()
    assert wg.derivative(first, 3.0) == 6.0
    thread.join()
    assert "first" in kept["error"]
    assert "lambda" in kept["error"]


# functions in a mapping proxy are not followed
OUTSIDE = types.MappingProxyType(
    {"array": np.zeros(3), "float": functools.partial(float), "sin": functools.partial(math.sin)}
)

WAYS_OUT = {
    "float": lambda y: OUTSIDE["float"](y),
    "math": lambda y: OUTSIDE["sin"](y),
    "hash": lambda y: hash(y) * y,
    "set": lambda y: len({y}) * y,
    "outer array": lambda y: OUTSIDE["array"].__setitem__(0, y) or y,
    "ratio": lambda y: y.as_integer_ratio()[0] * y,
}


@pytest.mark.parametrize("use", WAYS_OUT.values(), ids=WAYS_OUT.keys())
@in_modes(2)
def test_conversions_to_plain_values_raise_inside_two_derivatives(use, D):
    A, B = D
    for f, x in ((lambda x: B(lambda y: use(y) * x)(2.0), 3.0), (B(use), 2.0)):
        with pytest.raises(wg.TracedValueError):  # even where NumPy's assignment wraps the error in its own
            A(f)(x)


@in_modes(2)
def test_conversions_by_name_carry_two_derivatives(D):
    A, B = D
    for use in (lambda y: float(y) ** 3, lambda y: y.item() ** 3, lambda y: complex(y).real ** 3):
        assert A(B(use))(2.0) == 12.0
    np.testing.assert_allclose(A(B(lambda y: math.sin(y)))(2.0), -math.sin(2.0), rtol=1e-14)


def test_scalars_of_all_levels_have_the_same_attributes():
    def outcome(x, name):
        try:
            found = hash(x) if name == "__hash__" else getattr(x, name)
            return type(found() if callable(found) else found).__name__.replace("ScalarDual", "ArrayVar")
        except Exception as error:
            return type(error).__name__

    of_arrays = {"compress", "fill", "fromhex", "view"}
    public = {name for name in dir(np.float64) if not name.startswith("_")}
    names = sorted((public | {"__round__", "__floor__", "__trunc__", "__hash__"}) - of_arrays)
    found = []

    def collect(x):
        with levels.unnoted():  # the test expects the errors
            found.append({name: outcome(x, name) for name in names})
        return x * x

    wg.derivative(collect, 1.3)
    wg.derivative(collect, 1.3, order=2)
    wg.grad(wg.grad(collect), 1.3)
    for other in found[1:]:
        assert other == found[0]


# ---- traced directions and cotangents

PRODUCTS = {
    "direction": (lambda v: wg.jvp(lambda x: x**3, X, v)[1], np.diag(3 * X**2)),
    "point and direction": (lambda v: wg.jvp(lambda x: x**3, v, v)[1], np.diag(9 * X**2)),
    "stacked directions": (
        lambda v: wg.jvp(lambda x: x**3, X, np.stack([v, 2 * v]))[1],
        np.stack([np.diag(3 * X**2), np.diag(6 * X**2)]),
    ),
    "direction as a list": (lambda v: wg.jvp(lambda x: x**3, X, [v[0], v[1], 1.0])[1], np.diag(3 * X**2 * [1, 1, 0])),
    "cotangent": (lambda v: wg.vjp(lambda x: x**3, X)[1](v), np.diag(3 * X**2)),
    "stacked cotangents": (
        lambda v: wg.vjp(lambda x: x**3, X)[1](np.stack([v, v])),
        np.stack([np.diag(3 * X**2)] * 2),
    ),
    "cotangent as a list": (
        lambda v: wg.vjp(lambda x: [x[0] * x[1], x[2]], X)[1]([v[0], v[1]]),
        np.array([[X[1], 0, 0], [X[0], 0, 0], [0, 1, 0]]),
    ),
    "point as a list": (
        lambda v: np.stack([wg.grad(lambda y: y[0] * y[1])([v[0], v[1] * v[2]])[0], v[0]]),
        np.array([[0, X[2], X[1]], [1, 0, 0]]),
    ),
    "point as a list, forward": (
        lambda v: np.stack([forward(lambda y: y[0] * y[1])([v[0], v[1] * v[2]])[0], v[0]]),
        np.array([[0, X[2], X[1]], [1, 0, 0]]),
    ),
}


@pytest.mark.parametrize(("f", "expected"), PRODUCTS.values(), ids=PRODUCTS.keys())
@in_modes(1)
def test_traced_directions_cotangents_and_points(f, expected, D):
    (d,) = D
    assert_rounding(d(f)(X), expected)


@in_modes(1)
def test_traced_cotangent_of_outer_pullback_is_differentiated_or_raises(D):
    (d,) = D
    _, pullback = wg.vjp(lambda x: x**2, X)
    try:
        found = d(lambda c: pullback(c * c))(X)
    except wg.TracedValueError:
        return
    assert_rounding(found, np.diag(4 * X * X))


# ---- constants, user rules, strong zero


@wg.primitive(vjp=lambda ybar, y, x: ybar * np.cos(x))
def sine(x):
    return math.sin(x) if np.ndim(x) == 0 else np.array([math.sin(v) for v in x])


@wg.primitive(vjp=lambda ybar, y, x: ybar * y)
def exponential(x):
    return np.exp(np.asarray(x))


@wg.primitive(vjp=lambda ybar, y, a, b: (np.outer(ybar, b), a.T @ ybar))
def matrix_vector(a, b):
    return np.asarray(a) @ np.asarray(b)


@wg.primitive(vjp=lambda ybar, y, x: ybar * wg.derivative(np.sin)(x))
def sine_by_derivatives(x):
    return wg.derivative(lambda t: -np.cos(t))(x)


@wg.primitive(vjp=lambda ybar, y, a: ybar / (3 * y**2 + 1))
def cubic_root(a):
    return brentq(lambda u: u**3 + u - a, -5, 5, xtol=1e-15, rtol=1e-15)


def polished(a):
    """Solve with plain values, then take two steps of Newton's method."""
    u = cubic_root(wg.stop_gradient(a))
    for _ in range(2):
        u = u - (u**3 + u - a) / (3 * u**2 + 1)
    return u


def half_paused(x):
    with wg.passive():
        s = x * x
    return s * x


TIMES = np.linspace(0, 1, 5)


def spline_factor(x):
    t = np.linspace(0, 1, 5)
    return x * x * CubicSpline(t, np.sin(t))(0.5)


ROOT = cubic_root(0.9)
ROOT_SECOND = -6 * ROOT / (3 * ROOT**2 + 1) ** 3
N = float(X @ X)
CONSTANTS = {
    "rule": (sine, 0.7, -np.sin(0.7)),
    "rule of an array": (lambda x: np.sum(sine(x)), X, np.diag(-np.sin(X))),
    "rule in the result": (lambda x: np.sum(exponential(x)), X, np.diag(np.exp(X))),
    "rule of two operands": (
        lambda x: np.sum(matrix_vector(np.outer(x, x), x) ** 2),
        X,
        6 * N**2 * np.eye(3) + 24 * N * np.outer(X, X),
    ),
    "rule that differentiates": (sine_by_derivatives, 0.7, -np.sin(0.7)),
    "rule of a solver": (cubic_root, 0.9, ROOT_SECOND),
    "steps after a solver": (polished, 0.9, ROOT_SECOND),
    "SciPy on plain values": (spline_factor, 0.9, 2 * CubicSpline(TIMES, np.sin(TIMES))(0.5)),
    "passive": (half_paused, 3.0, 0.0),
    "passive, array": (lambda x: np.sum(half_paused(x)), X, np.zeros((3, 3))),
    "stop_gradient": (lambda x: x * wg.stop_gradient(x), 3.0, 0.0),
    "where at 0": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0.0),
    "where with a dead branch": (
        lambda x: np.sum(np.where(x > 0, np.sqrt(x), 0.0)),
        np.array([0.0, 4.0]),
        np.diag([0.0, -1 / 32]),
    ),
    "entropy with a zero, where log is zero": (
        lambda x: np.sum(np.where(x == 0, 0.0, x * np.log(x))),
        np.array([0.0, 1.0]),
        np.diag([0.0, 1.0]),
    ),
    "norm kept from the origin": (
        lambda x: np.where(np.sum(x * x) > 0, np.sqrt(np.sum(x * x)), 0.0),
        np.zeros(2),
        np.zeros((2, 2)),
    ),
    "determinant of a singular matrix": (
        lambda x: np.linalg.det(np.array([[x[0], x[1]], [x[1], x[2]]])),
        np.array([1.0, 2.0, 4.0]),
        np.array([[0, 0, 1.0], [0, -2, 0], [1, 0, 0]]),
    ),
    "empty": (lambda x: np.sum(x * x), np.zeros(0), np.zeros((0, 0))),
}


@pytest.mark.parametrize(("f", "x", "expected"), CONSTANTS.values(), ids=CONSTANTS.keys())
@in_modes(2)
def test_second_derivatives_with_rules_constants_and_zeros(f, x, expected, D):
    outer, inner = D
    assert_rounding(outer(inner(f))(x), expected, scale=1.0)


@in_modes(2)
def test_outer_values_are_constants_of_inner_derivative(D):
    A, B = D

    def paused_around(x):
        with wg.passive():
            d = B(lambda y: y**3 * x)(x)
        return d * x

    assert A(paused_around)(2.0) == 24.0
    assert A(lambda x: x * B(lambda y: wg.stop_gradient(x) * y)(1.0))(2.0) == 2.0
    assert A(lambda x: B(lambda y: wg.stop_gradient(x * y) * y)(1.0))(2.0) == 0.0


KINKS = {
    "abs": (np.abs, 0.0),
    "power 0": (lambda x: x**0, 0.0),
    "power 1": (lambda x: x**1.0, 0.0),
    "power 2": (lambda x: x**2.0, 0.0),
    "power of 0": (lambda x: 0.0**x, 1.5),
    "negative base": (lambda x: x**3.0, -2.0),
    "tie": (lambda x: np.maximum(x, 2 * x - 1), 1.0),
    "clip": (lambda x: np.clip(x, 0, 1), 1.0),
    "sign": (lambda x: np.sign(x) * x, 0.0),
    "hypot": (lambda x: np.hypot(x, x), 0.0),
    "arctan2": (lambda x: np.arctan2(x, x), 0.0),
    "norm": (lambda x: np.linalg.norm(np.stack([x, x])), 0.0),
    "sqrt": (np.sqrt, 0.0),
    "log": (np.log, 0.0),
    "remainder": (lambda x: x % 1.0, 2.5),
    "product": (lambda x: np.prod(np.stack([x, x, x + 1])), 0.0),
    "nan": (lambda x: x * np.nan, 1.0),
    "tanh of a large value": (np.tanh, 800.0),
}


@pytest.mark.parametrize(("f", "x"), KINKS.values(), ids=KINKS.keys())
def test_derivatives_at_kinks_agree_in_all_modes(f, x):
    for depth in (1, 2):
        found = []
        for chosen in itertools.product(MODES.values(), repeat=depth):
            g = f
            for d in chosen:
                g = d(g)
            found.append(g(x))
        for other in found[1:]:
            np.testing.assert_array_equal(other, found[0])


# ---- exceptions, threads, memory


class Interrupted(Exception):
    pass


@wg.primitive(vjp=lambda ybar, y, x: interrupt())
def interrupted_rule(x):
    return np.asarray(x) * 2.0


def interrupt():
    raise Interrupted


@in_modes(2)
def test_exception_in_inner_derivative_leaves_outer_intact(D):
    A, B = D

    def fails_in_f(x):
        def g(y):
            F = np.zeros(3)
            F[:] = y * x
            raise Interrupted

        with pytest.raises(Interrupted):
            B(g)(x)
        return x * x

    def fails_in_the_sweep(x):
        F = x * x
        F[0] *= F[1]
        with pytest.raises(Interrupted):
            wg.grad(lambda y: np.sum(interrupted_rule(y * x) * F))(x)
        F[1] *= F[0]
        return F

    assert_rounding(A(fails_in_f)(X), np.diag(2 * X))
    twin = lambda x: np.stack([x[0] ** 2 * x[1] ** 2, x[1] ** 4 * x[0] ** 2, x[2] ** 2])
    assert_rounding(A(fails_in_the_sweep)(X), complex_step(twin, X))

    def fails(x):
        B(lambda y: np.sum(y * x))(x)
        raise Interrupted

    with pytest.raises(Interrupted):
        A(fails)(X)
    assert levels.running.get() == ()


def in_place(x):
    F = np.zeros(3)
    F[:] = x
    F[0] *= x[1]
    F[1:] += F[:-1]
    return np.sum(np.sin(F) * F)


def test_nested_derivatives_run_in_threads():
    ways = [(outer, inner) for outer in MODES.values() for inner in MODES.values()]
    expected = [outer(inner(in_place))(X) for outer, inner in ways]

    def work(i):
        outer, inner = ways[i % 4]
        return outer(inner(in_place))(X)

    with ThreadPoolExecutor(4) as pool:
        for i, found in enumerate(pool.map(work, range(80))):
            assert_same_bits(found, expected[i % 4])


def leaking(x):
    kept = []

    def g(y):
        kept.append((x, y, kept))
        return np.sum(y * x)

    return wg.grad(g)(x) @ x


def raising(x):
    def g(y):
        F = y * x
        F[0] = F[1]
        raise Interrupted

    try:
        wg.grad(g)(x)
    except Interrupted:
        return np.sum(x)


REPEATED = {
    **{f"{a} {b}": (lambda a=a, b=b: MODES[a](MODES[b](in_place))(X)) for a in MODES for b in MODES},
    "pullback": lambda: forward(lambda x: wg.vjp(in_place, x)[1](1.0))(X),
    "rule": lambda: forward(reverse(lambda x: np.sum(exponential(x))))(X),
    "raising": lambda: wg.grad(raising)(X),
}


@pytest.mark.parametrize("call", REPEATED.values(), ids=REPEATED.keys())
def test_repeated_nested_derivatives_leak_nothing(call):
    for _ in range(5):
        call()
    gc.collect()
    before = len(gc.get_objects())
    gc.disable()
    try:
        for _ in range(20):
            call()
        assert gc.collect() < 20
        assert len(gc.get_objects()) - before < 20
    finally:
        gc.enable()


def test_leaked_traced_values_do_not_accumulate():
    for _ in range(5):
        wg.grad(leaking)(X)
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        wg.grad(leaking)(X)
    gc.collect()
    assert len(gc.get_objects()) - before < 20


@pytest.mark.parametrize("inner", [wg.grad, wg.derivative, lambda f: lambda t: wg.jvp(f, t, 1.0)[1]])
@pytest.mark.parametrize("outer", [wg.grad, wg.derivative])
def test_array_may_be_written_by_four_levels(outer, inner):
    """Outer levels keep track of their elements after the inner ones have ended."""

    def f(x):
        def g(t):
            v = np.zeros(3)
            v[0] = x[3] * x[0]
            y = np.sin(v[:1])
            v[0] *= x[2]
            v[1] = t * x[1]
            v[2] = y[0] * v[0]
            return t**3 * v[1] * v[2]

        return outer(inner(g))(1.0)

    direct = lambda x: 12 * x[1] * x[2] * np.sin(x[3] * x[0]) * x[3] * x[0]
    x = np.array([0.3, 0.5, -0.2, 0.7])
    for modes in (("reverse", "reverse"), ("forward", "reverse"), ("reverse", "forward")):
        H = wg.jacobian(wg.jacobian(f, mode=modes[0]), x, mode=modes[1])
        np.testing.assert_allclose(H, wg.hessian(direct, x), rtol=1e-12, atol=1e-15)


def test_jacobians_of_single_numbers_within_derivatives_are_swept_as_gradients():
    def potential(x):
        return np.sum(1 / np.sqrt(np.sum((x - np.array([[10.0, 0.0], [0.0, 7.0]])) ** 2, axis=1)))

    def length(operator):
        field = operator(potential)
        return lambda x: np.sum(np.exp(3.0 * field(x)))

    x = np.array([0.5, -1.5])
    assert len(wg.record(length(reverse), x)) == len(wg.record(length(wg.grad), x))
    assert_same_bits(wg.hessian(length(reverse))(x), wg.hessian(length(wg.grad))(x))
