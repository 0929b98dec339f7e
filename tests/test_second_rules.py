"""Rules differentiated again: pullbacks, tangents and partials run on traced values with correct derivatives.

Every rule is a function of the cotangent (or tangent) and of the operands.
Here it is differentiated in reverse mode and compared with differences, with mpmath or with closed forms.
"""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

import wengert as wg
import wengert.numpy
from primitive_cases import CALLS, ELEMENTWISE, call, resolve, val
from wengert.registry import lookup, strong

inf, nan = np.inf, np.nan


@pytest.fixture(autouse=True)
def quiet():
    """Rules are evaluated without floating-point warnings, as in the engine."""
    with np.errstate(all="ignore"):
        yield


# ---- pullbacks and tangents


def drawn_like(x, rng, lead=()):
    if isinstance(x, list):
        return [drawn_like(item, rng, lead) for item in x]
    return rng.uniform(-1, 1, (*lead, *np.shape(x)))


def along(x, v, h):
    """Return x + h v for arrays or lists of arrays; non-numeric objects are unchanged."""
    if isinstance(x, list):
        return [along(a, b, h) for a, b in zip(x, v, strict=True)]
    return x + h * np.where(np.isfinite(x), v, 0.0)


def paired(x, w):
    if isinstance(x, list):
        return sum(paired(a, b) for a, b in zip(x, w, strict=True))
    return np.sum(np.where(np.isfinite(x), w, 0.0) * np.where(np.isfinite(x), np.real(x), 0.0))


def rules_of(case):
    """Return each pullback and each tangent rule of a call with its position."""
    row = lookup(case.fun)
    for i in case.wrt:
        yield "vjp", i, (lambda *a, i=i, **k: row.variadic(i, *a, **k)) if row.variadic else row.vjps[i]
        if row.jvps:
            yield "jvp", i, (lambda *a, i=i, **k: row.jvps[None](i, *a, **k)) if row.variadic else row.jvps[i]


def assert_differentiable(case, lead, word, i, rule, traced):
    """Compare the derivative of a rule in its `traced` arguments with differences."""
    rng = np.random.default_rng(11)
    args = case.draw()
    fun = getattr(wengert.numpy, case.fun.__name__, case.fun)  # np.full does not accept a traced fill value
    g = drawn_like(case(*args) if word == "vjp" else args[i], rng, lead)
    at = [g, *(args[k] for k in case.wrt)]
    chosen = {"both": range(len(at)), "operands": range(1, len(at)), "g": (0,)}[traced]

    def run(moved):
        now = list(at)
        for k, x in zip(chosen, moved, strict=True):
            now[k] = x
        operands = list(args)
        for k, x in zip(case.wrt, now[1:], strict=True):
            operands[k] = x
        z = rule(now[0], fun(*operands, **case.kwargs), *operands, **case.kwargs)
        return paired(z, weights(z))

    def weights(z):
        return drawn_like(z, np.random.default_rng(12))

    point = [at[k] for k in chosen]
    v = [drawn_like(x, rng) for x in point]
    h = 1e-5
    ahead, behind = ([along(x, d, s) for x, d in zip(point, v, strict=True)] for s in (h, -h))
    expected = (run(ahead) - run(behind)) / (2 * h)
    found = sum(paired(x, d) for x, d in zip(wg.grad(lambda *p: run(p), argnums=tuple(range(len(point))))(*point), v))
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-6, err_msg=f"{word} {i} in {traced}")


@pytest.mark.parametrize(("lead", "traced"), [((), "both"), ((2,), "operands"), ((2,), "g")])
@pytest.mark.parametrize("case", CALLS, ids=lambda case: case.name)
def test_pullback_and_tangent_are_differentiable(case, lead, traced):
    for word, i, rule in rules_of(case):
        assert_differentiable(case, lead, word, i, rule, traced)


# ---- partials


def derivative_of_partial(fun, i, k, at):
    """Return the derivative in operand k of the partial in operand i, by reverse mode; 0 for a constant partial."""
    p = lookup(fun).partials[i]

    def slope(x):
        operands = [np.array([a]) for a in at]
        operands[k] = x
        return np.sum(p(fun(*operands), *operands)) + 0 * np.sum(np.where(True, 0, x))

    return wg.grad(slope)(np.array([at[k]]))[0] if callable(p) else 0.0


@pytest.mark.parametrize("case", ELEMENTWISE, ids=lambda case: case.name)
def test_second_derivatives_equal_closed_forms(case):
    fun = resolve(case.fun)
    for at in case.smooth_at:
        for i in range(len(at)):
            for k in range(len(at)):
                order = tuple(int(j == i) + int(j == k) for j in range(len(at)))
                with mp.workdps(25):
                    exact = float(mp.diff(case.f, tuple(map(mp.mpf, at)), order))
                found = derivative_of_partial(fun, i, k, at)
                assert abs(found - exact) <= 1e-11 * (1 + abs(exact)), (at, i, k)


EXPIT, XLOGY = "scipy.special.expit", "scipy.special.xlogy"

#: second derivatives in the first operand, mixed, and in the second, at limits of the formulas
KINKS = [
    (np.absolute, (0.0,), 0.0),
    (np.fabs, (-0.0,), 0.0),
    (np.sqrt, (0.0,), -inf),
    (np.cbrt, (0.0,), 0.0),  # -inf on the right, inf on the left
    (np.log, (0.0,), -inf),
    (np.log1p, (-1.0,), -inf),
    (np.square, (0.0,), 2.0),
    (np.power, (0.0, 2.0), (2.0, 0.0, 0.0)),
    (np.power, (0.0, 3.0), (0.0, 0.0, 0.0)),
    (np.power, (0.0, 4.0), (0.0, 0.0, 0.0)),
    (np.power, (0.0, 2.1), (0.0, 0.0, 0.0)),
    (np.power, (0.0, 0.5), (-inf, None, 0.0)),
    (np.power, (0.0, 1.5), (inf, 0.0, 0.0)),
    (np.power, (0.0, 1.0), (0.0, None, 0.0)),
    (np.power, (0.0, 0.0), (0.0, None, inf)),
    (np.power, (-2.0, 3.0), (-12.0, nan, nan)),
    (np.power, (-2.0, -1.0), (-0.25, nan, nan)),
    (np.float_power, (0.0, 2.0), (2.0, 0.0, 0.0)),
    (np.hypot, (0.0, 0.0), (0.0, 0.0, 0.0)),
    (np.hypot, (1e-200, 0.0), (0.0, 0.0, 1e200)),
    (np.arctan2, (0.0, 0.0), (0.0, 0.0, 0.0)),
    (np.arctan2, (1.0, inf), (0.0, 0.0, 0.0)),
    (np.tanh, (400.0,), 0.0),
    (np.tanh, (-720.0,), 0.0),
    (np.tanh, (1e300,), 0.0),
    (np.tanh, (-inf,), 0.0),
    (np.arctan, (1e200,), 0.0),
    (np.arcsinh, (1e200,), 0.0),
    (np.arcsin, (1.0,), inf),
    (np.arccosh, (1.0,), -inf),
    (np.arctanh, (1.0,), inf),
    (np.sinc, (0.0,), -np.pi**2 / 3),
    (np.maximum, (1.0, 1.0), (0.0, 0.0, 0.0)),
    (np.minimum, (nan, 1.0), (0.0, 0.0, 0.0)),
    (np.copysign, (0.0, -1.0), (0.0, 0.0, 0.0)),
    (np.logaddexp, (0.0, 400.0), (np.exp(-400.0), -np.exp(-400.0), np.exp(-400.0))),
    (np.logaddexp, (1e3, 0.0), (0.0, 0.0, 0.0)),
    (np.logaddexp, (-inf, -inf), (0.0, 0.0, 0.0)),
    (np.logaddexp, (inf, 1.0), (0.0, 0.0, 0.0)),
    (np.divide, (1.0, inf), (0.0, 0.0, 0.0)),
    (np.i0, (0.0,), 0.5),
    ("scipy.special.j0", (0.0,), -0.5),
    ("scipy.special.i0", (0.0,), 0.5),
    (EXPIT, (1e4,), 0.0),
    (EXPIT, (-500.0,), np.exp(-500.0)),
    ("scipy.special.log_expit", (-1e4,), 0.0),
    ("scipy.special.erf", (inf,), 0.0),
    ("scipy.special.erf", (1e200,), 0.0),
    ("scipy.special.log_ndtr", (-1e10,), -1.0),
    ("scipy.special.log_ndtr", (50.0,), 0.0),
    ("scipy.special.erfinv", (0.0,), 0.0),
    (XLOGY, (0.0, 2.0), (0.0, 0.5, 0.0)),
    ("scipy.special.rel_entr", (0.0, 2.0), (inf, -0.5, 0.0)),
    ("scipy.special.entr", (0.0,), -inf),
]


@pytest.mark.parametrize(("fun", "at", "expected"), KINKS)
def test_second_derivatives_at_kinks_and_limits_are_exact(fun, at, expected):
    """None marks a mixed derivative whose limits differ: either order of differentiation is accepted."""
    fun = resolve(fun)
    if len(at) == 1:
        found, expected = [derivative_of_partial(fun, 0, 0, at)], [expected]
    else:
        found = [derivative_of_partial(fun, i, k, at) for i, k in ((0, 0), (0, 1), (1, 0), (1, 1))]
        expected = [expected[0], expected[1], expected[1], expected[2]]
    for value, exact in zip(found, expected, strict=True):
        if exact is not None:
            np.testing.assert_allclose(value, exact, rtol=1e-13)


# ---- functions of many elements


def hessian_by_rules(case, x):
    """Return the Jacobian of the pullback of a scalar function of one array."""
    pull = lookup(case.fun).vjps[0]

    def slopes(x):
        y = case(x)
        return np.broadcast_to(pull(np.ones_like(y), y, x, *case.args[1:], **case.kwargs), np.shape(x))

    return wg.jacobian(slopes)(x).reshape(x.size, x.size)


def test_second_derivatives_of_products_with_zeros_are_products_of_the_rest():
    x = np.array([2.0, 0.0, 3.0, 0.0])
    expected = [[0.0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(4)] for i in range(4)]
    np.testing.assert_array_equal(hessian_by_rules(call(np.prod, val(x)), x), expected)


@pytest.mark.parametrize("fun", [np.linalg.norm, np.linalg.vector_norm, np.std, np.max, np.ptp])
def test_second_derivatives_are_zero_at_kinks(fun):
    np.testing.assert_array_equal(hessian_by_rules(call(fun, val(np.zeros(3))), np.zeros(3)), np.zeros((3, 3)))


def test_second_derivative_of_variance_at_its_minimum_is_exact():
    np.testing.assert_allclose(
        hessian_by_rules(call(np.var, val(np.zeros(3))), np.zeros(3)), 2 / 3 * (np.eye(3) - 1 / 3), atol=1e-15
    )


def test_strong_product_is_differentiated_correctly_beside_nan():
    """Only NaN is replaced by 0: the derivative of c p at p = 0 is c."""
    c, p = np.array([2.0, 0.0, 1.0]), np.array([0.0, inf, 3.0])
    np.testing.assert_array_equal(wg.grad(lambda p: np.sum(strong(c, p)))(p), [2.0, 0.0, 1.0])


@pytest.mark.parametrize("modes", [(a, b) for a in ("forward", "reverse") for b in ("forward", "reverse")])
@pytest.mark.parametrize(
    ("exponent", "xx", "xy"),
    [(0.25, -inf, -inf), (0.5, -inf, -inf), (1.0, 0.0, -inf), (1.5, inf, 0.0), (2.0, 2.0, 0.0), (3.0, 0.0, 0.0)],
)
def test_second_derivatives_of_a_power_of_zero_are_exact(exponent, xx, xy, modes):
    first, second = modes
    for f in (lambda u: u[0] ** u[1], lambda u: np.sum(np.power(u[:1], u[1:]))):
        found = wg.jacobian(wg.jacobian(f, mode=first), [0.0, exponent], mode=second)
        np.testing.assert_array_equal(found, [[xx, xy], [xy, 0.0]])
        np.testing.assert_array_equal(wg.hessian(f, [0.0, exponent], mode=first), [[xx, xy], [xy, 0.0]])
