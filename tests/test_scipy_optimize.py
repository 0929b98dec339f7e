"""The mirror of scipy.optimize: SciPy's signatures and bits, exact derivatives for solvers and of solutions.

Derivatives of solutions are compared with closed forms and with mpmath's roots in 40 digits, to third order.
"""

import functools
import inspect
import math
import subprocess
import sys
import types

import mpmath
import numpy as np
import pytest
import scipy.optimize

import wengert as wg
from wengert.core import frames
from wengert.scipy import optimize

ROOT_METHODS = ["hybr", "lm", "broyden1", "broyden2", "anderson", "diagbroyden", "krylov", "df-sane"]
BRACKETING = ["bisect", "brenth", "brentq", "ridder", "toms748"]
WITH_HESSIAN = ["Newton-CG", "dogleg", "trust-ncg", "trust-krylov", "trust-exact", "trust-constr"]
WITH_GRADIENT = ["BFGS", "CG", "L-BFGS-B", "TNC", "SLSQP"]
WITHOUT = ["Nelder-Mead", "Powell", "COBYLA"]
if hasattr(scipy.optimize, "_cobyqa_py"):  # SciPy 1.14
    WITHOUT.append("COBYQA")
OURS = {"on_failure": "raise", "on_singular": "raise", "polish": "auto", "derivs": "auto"}


def counted(f):
    """Return f with a count of its calls."""

    @functools.wraps(f)
    def run(*args):
        run.calls += 1
        return f(*args)

    run.calls = 0
    return run


# ---- the problems: x(p) by a solver, and by mpmath ----------------------------------------------


def scalar(x, p):
    return np.exp(x) + x * p - 2


def scalar_slope(x, p):
    return np.exp(x) + p


def system(x, p):
    """A badly scaled pair: the first equation and the second unknown are a million times larger."""
    u, v = x[0], 1e-6 * x[1]
    return np.array([1e6 * (u**2 + v * p - 3), np.sin(u) + v**3 - p])


def system_as_list(x, p):
    return [1e6 * (x[0] ** 2 + 1e-6 * x[1] * p - 3), np.sin(x[0]) + (1e-6 * x[1]) ** 3 - p]


def contraction(x, p):
    return np.cos(x) * p / 2


def valley(x, p):
    """Convex, with coupled variables."""
    return np.exp(x[0] - p) - x[0] + np.exp(-x[1]) * (1 + p**2) + x[1] + (x[0] * x[1] - p) ** 2


def misfit(x, p):
    """More residuals than unknowns, nonlinear, and far from zero at the minimum."""
    return np.array([np.exp(x[0]) - p, x[0] * x[1] - 2, x[1] ** 2 - p * x[0], np.sin(x[1] + p)])


def by_mpmath(residual, start, p, orders=3):
    """Return value and derivatives to third order of the solution of residual(x, p) = 0, to 20 digits."""
    with mpmath.workdps(60):
        at = lambda q: mpmath.findroot(lambda *x: residual(x, q), start, tol=1e-100, verify=False, maxsteps=60)
        p, h = mpmath.mpf(p), mpmath.mpf(10) ** -12
        points = {k: at(p + k * h) for k in range(-3, 4)}
        weights = {  # central differences of sixth, sixth, fourth and fourth order
            0: {0: 1},
            1: {-3: -1, -2: 9, -1: -45, 1: 45, 2: -9, 3: 1},
            2: {-3: 2, -2: -27, -1: 270, 0: -490, 1: 270, 2: -27, 3: 2},
            3: {-3: 1, -2: -8, -1: 13, 1: -13, 2: 8, 3: -1},
        }
        below = {0: 1, 1: 60 * h, 2: 180 * h**2, 3: 8 * h**3}
        n = len(points[0])
        return [
            np.array([float(sum(w * points[k][i] for k, w in weights[order].items()) / below[order]) for i in range(n)])
            for order in range(orders + 1)
        ]


def mp_scalar(x, p):
    return [mpmath.exp(x[0]) + x[0] * p - 2]


def mp_system(x, p):
    return [x[0] ** 2 + x[1] * p / 10**6 - 3, mpmath.sin(x[0]) + (x[1] / 10**6) ** 3 - p]


def mp_contraction(x, p):
    return [x[0] - mpmath.cos(x[0]) * p / 2]


def mp_valley(x, p):
    """Gradient of `valley`."""
    u, v = x
    cross = 2 * (u * v - p)
    return [mpmath.exp(u - p) - 1 + cross * v, -mpmath.exp(-v) * (1 + p**2) + 1 + cross * u]


def mp_misfit(x, p):
    """J^T r of `misfit`."""
    u, v = x
    r = [mpmath.exp(u) - p, u * v - 2, v**2 - p * u, mpmath.sin(v + p)]
    return [r[0] * mpmath.exp(u) + r[1] * v - r[2] * p, r[1] * u + r[2] * 2 * v + r[3] * mpmath.cos(v + p)]


def coupled(x, p):
    return np.array([x[0] + 0.3 * np.sin(x[1]) - p, x[1] - 0.2 * x[0] ** 2 + p * x[0] / 2])


def mp_coupled(x, p):
    return [x[0] + mpmath.mpf(0.3) * mpmath.sin(x[1]) - p, x[1] - mpmath.mpf(0.2) * x[0] ** 2 + p * x[0] / 2]


def closing(solver, f, *start, pick="x", **options):
    """Return the solution as a function of p, which `f` reads through a closure."""
    return lambda p: _picked(solver(lambda x: f(x, p), *start, **options), pick)


def with_args(solver, f, *start, pick="x", **options):
    """Return the same with p passed in ``args=``."""
    return lambda p: _picked(solver(f, *start, args=(p,), **options), pick)


def _picked(found, pick):
    return np.atleast_1d(getattr(found, pick) if pick else found)


#: name: solution as a function of p, equations for mpmath, start, p
PROBLEMS = {
    **{
        f"root {method}": (with_args(optimize.root, coupled, [0.5, 0.2], method=method), mp_coupled, [0.5, 0.0], 0.9)
        for method in ROOT_METHODS
    },
    "root badly scaled": (with_args(optimize.root, system, [1.0, 1e6]), mp_system, [1.3, 8e5], 1.5),
    "root list": (closing(optimize.root, system_as_list, [1.0, 1e6]), mp_system, [1.3, 8e5], 1.5),
    "fsolve": (closing(optimize.fsolve, coupled, [0.5, 0.2], pick=None), mp_coupled, [0.5, 0.0], 0.9),
    **{
        name: (with_args(getattr(optimize, name), scalar, 0.0, 1.0, pick=None), mp_scalar, [0.4], 1.5)
        for name in BRACKETING
    },
    **{
        f"root_scalar {name}": (
            closing(optimize.root_scalar, scalar, method=name, bracket=(0.0, 1.0), pick="root"), mp_scalar, [0.4], 1.5,
        )
        for name in BRACKETING
    },
    "root_scalar newton": (with_args(optimize.root_scalar, scalar, x0=0.0, pick="root"), mp_scalar, [0.4], 1.5),
    **{
        f"root_scalar {name}": (
            with_args(optimize.root_scalar, scalar, x0=0.0, x1=1.0, method=name, pick="root"), mp_scalar, [0.4], 1.5,
        )
        for name in ("secant", "halley")
    },
    "newton": (closing(optimize.newton, scalar, 0.0, pick=None), mp_scalar, [0.4], 1.5),
    "newton secant": (closing(optimize.newton, scalar, 0.0, x1=1.0, pick=None), mp_scalar, [0.4], 1.5),
    "newton Halley": (
        closing(optimize.newton, scalar, 0.0, fprime2=lambda x: np.exp(x), pick=None), mp_scalar, [0.4], 1.5,
    ),
    "fixed_point": (closing(optimize.fixed_point, contraction, 0.5, pick=None), mp_contraction, [0.5], 1.5),
    "fixed_point iteration": (
        with_args(optimize.fixed_point, contraction, 0.5, method="iteration", pick=None), mp_contraction, [0.5], 1.5,
    ),
    **{
        f"least_squares {method}": (
            with_args(optimize.least_squares, misfit, [0.5, 1.0], method=method), mp_misfit, [0.5, 1.0], 0.8,
        )
        for method in ("trf", "dogbox", "lm")
    },
    **{
        f"minimize {method}": (
            with_args(optimize.minimize, valley, [0.5, 0.5], method=method), mp_valley, [0.5, 0.5], 0.7,
        )
        for method in (*WITH_GRADIENT, *WITH_HESSIAN, *WITHOUT)
    },
    "minimize": (closing(optimize.minimize, valley, [0.5, 0.5]), mp_valley, [0.5, 0.5], 0.7),
}  # fmt: skip


# ---- signatures, imports


SOLVERS = [name for name in optimize.__all__ if callable(f := getattr(optimize, name)) and not isinstance(f, type)]
SOLVERS.remove("linear_sum_assignment")  # a function with a rule


def test_mirrored_names_match_those_in_messages():
    assert set(SOLVERS) == frames.MIRRORED


@pytest.mark.parametrize("name", SOLVERS)
def test_signatures_are_those_of_scipy_plus_four_keywords(name):
    parameters = dict(inspect.signature(getattr(optimize, name)).parameters)
    expected = inspect.signature(getattr(scipy.optimize, name)).parameters
    ours = {key: parameters.pop(key) for key in OURS if key not in expected}
    assert {key: p.default for key, p in ours.items()} == {key: OURS[key] for key in ours}
    assert len(ours) == 4 - (name == "differential_evolution")  # SciPy's own ``polish``
    assert all(p.kind is p.KEYWORD_ONLY for p in ours.values())
    assert list(parameters) == list(expected)
    for key, parameter in expected.items():
        assert parameters[key].kind is parameter.kind
        assert parameters[key].default is parameter.default or parameters[key].default == parameter.default
    assert getattr(optimize, name).__name__ == name and name in getattr(optimize, name).__doc__


def test_scipy_is_imported_at_first_use_of_the_mirror():
    code = (
        "import sys, wengert; wengert.scipy; assert 'scipy' not in sys.modules; "
        "found = wengert.scipy.optimize.brentq(lambda x: x * x - 4, 0.0, 3.0); assert abs(found - 2) < 1e-9"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    from wengert.scipy.optimize import brentq

    assert brentq is optimize.brentq


@pytest.mark.parametrize("options", [{"derivs": "numeric"}, {"on_failure": None}, {"on_singular": 0}, {"polish": 2}])
def test_unknown_keyword_value_raises(options):
    (name,) = options
    with pytest.raises(ValueError, match=f"wengert.scipy.optimize.root: {name} is one of"):
        optimize.root(coupled, [0.5, 0.2], args=(1.0,), **options)


def test_wrong_argument_raises_type_error():
    with pytest.raises(TypeError, match="'fan'"):
        optimize.root(coupled, [0.5, 0.2], fan=1)


# ---- bits


def gradient(f):
    return {"jac": wg.grad(f)}


def with_hessian(f):
    return {"jac": wg.grad(f), "hess": wg.hessian(f)}


def slope(f):
    return {"fprime": wg.derivative(f)}


#: name: solver, positional arguments with p last among ``args``, derivatives passed to SciPy, options
BITS = {
    **{
        f"root {method}": ("root", (coupled, [0.5, 0.2]), lambda f: {"jac": wg.jacobian(f)}, {"method": method}, 0.9)
        for method in ("hybr", "lm")
    },
    **{
        f"root {method}": ("root", (coupled, [0.5, 0.2]), None, {"method": method}, 0.9)
        for method in ("broyden1", "krylov", "df-sane")
    },
    "fsolve": ("fsolve", (coupled, [0.5, 0.2]), lambda f: {"fprime": wg.jacobian(f)}, {}, 0.9),
    "fsolve full": (
        "fsolve", (coupled, [0.5, 0.2]), lambda f: {"fprime": wg.jacobian(f)}, {"full_output": True}, 0.9,
    ),
    **{name: (name, (scalar, 0.0, 1.0), None, {}, 1.5) for name in BRACKETING},
    **{f"{name} full": (name, (scalar, 0.0, 1.0), None, {"full_output": True}, 1.5) for name in BRACKETING},
    "newton": ("newton", (scalar, 0.0), slope, {}, 1.5),
    "newton full": ("newton", (scalar, 0.0), slope, {"full_output": True}, 1.5),
    "newton vector": ("newton", (scalar, np.linspace(-1, 1, 5)), slope, {}, 1.5),
    "newton vector full": ("newton", (scalar, np.linspace(-1, 1, 5)), slope, {"full_output": True}, 1.5),
    "newton secant": ("newton", (scalar, 0.0), None, {"x1": 1.0}, 1.5),
    "root_scalar": ("root_scalar", (scalar,), slope, {"x0": 0.0}, 1.5),
    "root_scalar halley": (
        "root_scalar", (scalar,), lambda f: {**slope(f), "fprime2": wg.derivative(f, order=2)},
        {"x0": 0.0, "method": "halley"}, 1.5,
    ),
    "root_scalar secant": ("root_scalar", (scalar,), None, {"x0": 0.0, "x1": 1.0}, 1.5),
    "root_scalar brentq": ("root_scalar", (scalar,), None, {"bracket": (0.0, 1.0)}, 1.5),
    "fixed_point": ("fixed_point", (contraction, np.array([0.5, 0.6])), None, {}, 1.5),
    **{
        f"least_squares {method}": (
            "least_squares", (misfit, [0.5, 1.0]), lambda f: {"jac": wg.jacobian(f)}, {"method": method}, 0.8,
        )
        for method in ("trf", "dogbox", "lm")
    },
    "least_squares soft_l1": (
        "least_squares", (misfit, [0.5, 1.0]), lambda f: {"jac": wg.jacobian(f)}, {"loss": "soft_l1"}, 0.8,
    ),
    **{f"minimize {m}": ("minimize", (valley, [0.5, 0.5]), gradient, {"method": m}, 0.7) for m in WITH_GRADIENT},
    **{f"minimize {m}": ("minimize", (valley, [0.5, 0.5]), with_hessian, {"method": m}, 0.7) for m in WITH_HESSIAN},
    **{f"minimize {m}": ("minimize", (valley, [0.5, 0.5]), None, {"method": m}, 0.7) for m in WITHOUT},
    "minimize": ("minimize", (valley, [0.5, 0.5]), gradient, {}, 0.7),
}  # fmt: skip

#: result fields that are not differentiated, and times
LEFT_OUT = ("execution_time",)


def assert_same_result(got, expected, is_traced=False):
    """Compare all fields; inside a derivative some are missing, but none is changed."""
    if isinstance(expected, dict):
        names = got.keys() - {"info"} if is_traced else expected.keys()
        assert is_traced or got.keys() == expected.keys()
        for name in names - set(LEFT_OUT):
            assert_same_result(wg.stop_gradient(got[name]), expected[name], is_traced)
    elif isinstance(expected, tuple):
        assert len(got) == len(expected)
        for one, other in zip(got, expected):
            assert_same_result(wg.stop_gradient(one), other, is_traced)
    elif isinstance(expected, (np.ndarray, float)):
        assert np.array_equal(wg.stop_gradient(got), expected, equal_nan=True)
    elif isinstance(expected, (bool, int, str, np.number)):
        assert got == expected


@pytest.mark.parametrize("name", BITS)
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0:UserWarning")
def test_results_equal_scipy_with_same_derivatives(name):
    solver, given, derivatives, options, p = BITS[name]
    f, *rest = given
    supplied = derivatives(f) if derivatives else {}
    expected = getattr(scipy.optimize, solver)(f, *rest, args=(p,), **supplied, **options)
    mirror = getattr(optimize, solver)
    assert_same_result(mirror(f, *rest, args=(p,), **options), expected)

    def by_args(q):
        found.append(mirror(f, *rest, args=(q,), **options))
        assert_same_result(found[-1], expected, True)
        return q * q

    def by_closure(q):
        found.append(mirror(lambda x: f(x, q), *rest, **options))
        assert_same_result(found[-1], expected, True)
        return q * q

    for solve in (by_args, by_closure):
        for operator in (wg.grad, wg.hessian, functools.partial(wg.jacobian, mode="forward")):
            found = []
            operator(solve, p)
            assert found


@functools.cache
def exact(equations, start, p):
    return by_mpmath(equations, list(start), p)


@pytest.mark.parametrize("name", PROBLEMS)
def test_derivatives_of_solutions_to_third_order(name):
    solve, equations, start, p = PROBLEMS[name]
    x, first, second, third = exact(equations, tuple(start), p)
    jacobian = wg.jacobian(solve, mode="reverse")
    close = functools.partial(np.testing.assert_allclose, rtol=1e-9)
    assert np.all(abs(solve(p) - x) <= 2e-4 * abs(x))  # tolerance of the solver
    close(wg.jacobian(solve, mode="forward")(p), first)
    close(jacobian(p), first)
    close(wg.jacobian(wg.jacobian(solve, mode="forward"), mode="forward")(p), second)
    close(wg.jacobian(jacobian, mode="reverse")(p), second)
    close(wg.hessian(lambda p: solve(p)[0], p), second[0])
    close(wg.jacobian(wg.jacobian(jacobian, mode="forward"), mode="forward")(p), third)


# ---- further uses: systems, parameters in several arguments, nested solvers


def kepler(E, e, M):
    return E - e * np.sin(E) - M


def kepler_derivatives(E, e):
    """Return dE/dM, dE/de, and the second derivatives of E in M, in M and e, and in e."""
    r = 1 - e * np.cos(E)
    dM, de = 1 / r, np.sin(E) / r
    dMM = -e * np.sin(E) / r**3
    dMe = (np.cos(E) - e * np.sin(E) * de) / r**2
    dee = (2 * np.cos(E) * np.sin(E) - e * np.sin(E) ** 2 * de) / r**2
    return dM, de, dMM, dMe, dee


ECCENTRICITY, ANOMALIES = 0.8, np.linspace(0.05, 3.1, 7)


@pytest.mark.parametrize("fprime2", [None, lambda E, e, M: e * np.sin(E)], ids=["newton", "halley"])
def test_newton_of_array_is_elementwise(fprime2):
    def solve(e, M):
        return optimize.newton(kepler, np.full(7, np.pi), fprime2=fprime2, args=(e, M), maxiter=100)

    E = solve(ECCENTRICITY, ANOMALIES)
    np.testing.assert_allclose(kepler(E, ECCENTRICITY, ANOMALIES), 0, atol=1e-14)
    dM, de, dMM, dMe, dee = kepler_derivatives(E, ECCENTRICITY)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-11)
    for mode in ("forward", "reverse"):
        by_e, by_M = wg.jacobian(solve, argnums=(0, 1), mode=mode)(ECCENTRICITY, ANOMALIES)
        close(by_e, de)
        close(by_M, np.diag(dM))
        close(wg.jacobian(wg.jacobian(solve, mode=mode), mode="forward")(ECCENTRICITY, ANOMALIES), dee)
    H = wg.hessian(lambda M: solve(ECCENTRICITY, M).sum(), ANOMALIES)
    close(H, np.diag(dMM))
    close(wg.jacobian(wg.grad(lambda e, M: solve(e, M).sum()), argnums=1)(ECCENTRICITY, ANOMALIES), dMe)


def test_newton_of_array_evaluates_one_slope_for_any_size():
    kepler_counted = counted(kepler)
    M = np.linspace(0.1, 3, 20000)
    y, pullback = wg.vjp(lambda e: optimize.newton(kepler_counted, np.full(M.size, np.pi), args=(e, M)), 0.5)
    slope = np.sin(y) / (1 - 0.5 * np.cos(y))
    np.testing.assert_allclose(pullback(np.ones(M.size)), slope.sum(), rtol=1e-12)
    assert kepler_counted.calls < 30


class Model:
    def __init__(self, p):
        self.p = p

    def residual(self, x):
        return coupled(x, self.p)

    def height(self, x):
        return valley(x, self.p)


def through_a_model(p):
    model = Model(p)
    return optimize.root(lambda x: model.residual(x), [0.5, 0.2]).x


def through_inner_functions(p):
    values = {"p": [p]}

    def inner(x, q=p):
        return coupled(x, values["p"][0]) + 0 * q

    return optimize.root(functools.partial(lambda g, x: g(x), inner), [0.5, 0.2]).x


def through_keywords(p):
    r = optimize.least_squares(lambda x, q=1.0: coupled(x, q), [0.5, 0.2], kwargs={"q": p}, xtol=1e-15, gtol=1e-15)
    return r.x


@pytest.mark.parametrize(
    "solve",
    [
        through_a_model,
        through_inner_functions,
        through_keywords,
        lambda p: optimize.root(Model(p).residual, [0.5, 0.2]).x,
    ],
)
def test_parameters_may_be_passed_in_any_way(solve):
    _, first, second, _ = exact(mp_coupled, (0.5, 0.0), 0.9)
    close = functools.partial(np.testing.assert_allclose, rtol=1e-9)
    close(wg.jacobian(solve, mode="forward")(0.9), first)
    close(wg.jacobian(solve, mode="reverse")(0.9), first)
    close(wg.jacobian(wg.jacobian(solve))(0.9), second)


@pytest.mark.parametrize("method", ["BFGS", "trust-exact", "Newton-CG", "Nelder-Mead"])
def test_minimum_of_bound_method_is_differentiated(method):
    _, first, _, _ = exact(mp_valley, (0.5, 0.5), 0.7)
    found = wg.jacobian(lambda p: optimize.minimize(Model(p).height, [0.5, 0.5], method=method).x)(0.7)
    np.testing.assert_allclose(found, first, rtol=1e-9)


def test_nested_solvers_inside_derivative():
    """x solves x = q(x) p with q the root of q^3 + q = x: so q^3 + q = q p, and x = p sqrt(p - 1)."""

    def inner(x):
        return optimize.brentq(lambda q: q**3 + q - x, 0.0, 5.0)

    def outer(p):
        return optimize.newton(lambda x: x - inner(x) * p, 2.0)

    p = 2.5
    assert outer(p) == pytest.approx(p * math.sqrt(p - 1), rel=1e-12)
    first = math.sqrt(p - 1) + p / 2 / math.sqrt(p - 1)
    second = 1 / math.sqrt(p - 1) - p / 4 / (p - 1) ** 1.5
    assert wg.grad(outer, p) == pytest.approx(first, rel=1e-11)
    assert wg.jvp(outer, p, 1.0)[1] == pytest.approx(first, rel=1e-11)
    assert wg.hessian(outer, p) == pytest.approx(second, rel=1e-10)


def test_initial_guess_has_zero_derivative():
    def f(p):
        return (
            optimize.brentq(lambda x: x**3 - 2, p - 1, p + 1)
            + optimize.newton(lambda x: x**3 - 2, p, tol=1e-9 * p)
            + optimize.root(lambda x: x**3 - 2, [p, p], options={"xtol": 1e-10 * p}).x.sum()
        )

    assert wg.grad(f, 1.5) == wg.hessian(f, 1.5) == 0
    assert f(1.5) == pytest.approx(4 * 2 ** (1 / 3))


def test_linear_system_of_condition_number_1e6():
    """A solver of normal equations loses all digits here: their condition number is 10^12."""
    rng = np.random.default_rng(5)
    left, right = (np.linalg.qr(rng.normal(size=(8, 8)))[0] for _ in range(2))
    A = left * np.logspace(0, -6, 8) @ right
    p = rng.normal(size=8)
    for method in ("hybr", "lm"):
        found = wg.jacobian(lambda p: optimize.root(lambda x: A @ x - p, np.zeros(8), method=method).x)(p)
        np.testing.assert_allclose(found, np.linalg.inv(A), rtol=1e-8, atol=1e-8 * 1e6)


def test_solution_inside_compiled_function_is_the_same():
    f = wg.compile(lambda p: optimize.root(coupled, [0.5, 0.2], args=(p,)).x)
    plain = optimize.root(coupled, [0.5, 0.2], args=(0.9,)).x
    for _ in range(3):
        np.testing.assert_allclose(f(0.9), plain, rtol=1e-14)
    with pytest.raises(TypeError, match=r"wengert\.scipy\.optimize\.minimize runs a solver"):
        wg.record(lambda p: optimize.minimize(lambda x: np.sum((x - p) ** 2), [0.5, 0.2]).x, 0.9)


def test_compiled_function_is_solved_with_compiled_jacobian():
    f = wg.compile(coupled)
    _, first, _, _ = exact(mp_coupled, (0.5, 0.0), 0.9)
    assert np.array_equal(
        optimize.root(f, [0.5, 0.2], args=(0.9,)).x, optimize.root(coupled, [0.5, 0.2], args=(0.9,)).x
    )
    np.testing.assert_allclose(wg.jacobian(lambda p: optimize.root(f, [0.5, 0.2], args=(p,)).x)(0.9), first, rtol=1e-9)


# ---- derivatives for the solvers


def broyden_tridiagonal(x):
    F = (3 - 2 * x) * x + 1
    F[1:] -= x[:-1]
    F[:-1] -= 2 * x[1:]
    return F


def rosenbrock(x):
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def test_root_of_broydens_tridiagonal_system_in_20_calls():
    f = counted(broyden_tridiagonal)
    found = optimize.root(f, -np.ones(500))
    assert found.success and abs(broyden_tridiagonal(found.x)).max() < 1e-7
    assert f.calls <= 20


def test_bfgs_on_the_extended_rosenbrock_function_in_1000_calls():
    f = counted(rosenbrock)
    found = optimize.minimize(f, np.tile([-1.2, 1.0], 50), method="BFGS")
    assert found.success and found.fun < 1e-8
    assert f.calls <= 1000


@pytest.mark.parametrize("n", [6, 700])
@pytest.mark.parametrize("method", ["Newton-CG", "trust-ncg", "trust-krylov"])
def test_hessian_products_share_one_recording(method, n):
    f = counted(lambda x: np.sum(np.cosh(x - 1)) + 0.1 * np.sum(x[1:] * x[:-1]) + np.sum(x) ** 2 / n)
    found = optimize.minimize(f, np.zeros(n), method=method, tol=1e-8)
    np.testing.assert_allclose(wg.grad(f)(found.x), 0, atol=1e-5)
    assert f.calls <= found.nfev + found.nhev + found.nit + 5


@pytest.mark.parametrize("name", ["root", "fsolve", "least_squares", "newton", "minimize"])
def test_function_runs_once_per_point(name):
    points = []

    def noted(f):
        def run(x, p):
            points.append(np.array(wg.stop_gradient(x)).tobytes())
            return f(x, p)

        return run

    f, x0 = {"newton": (scalar, 0.0), "minimize": (valley, [0.5, 0.5])}.get(name, (coupled, [0.5, 0.2]))
    getattr(optimize, name)(noted(f), x0, args=(0.9,))
    assert len(points) == len(set(points)) > 1


def test_derivatives_given_by_the_caller_take_precedence():
    J, g, slope_ = counted(wg.jacobian(coupled)), counted(wg.grad(valley)), counted(wg.derivative(scalar))
    optimize.root(coupled, [0.5, 0.2], args=(0.9,), jac=J)
    optimize.minimize(valley, [0.5, 0.5], args=(0.7,), jac=g)
    optimize.newton(scalar, 0.0, args=(1.5,), fprime=slope_)
    assert J.calls and g.calls and slope_.calls
    f = counted(valley)
    differences = optimize.minimize(f, [0.5, 0.5], args=(0.7,), jac="2-point")
    assert f.calls == differences.nfev > 2 * optimize.minimize(valley, [0.5, 0.5], args=(0.7,)).nfev
    f = counted(misfit)
    optimize.least_squares(f, [0.5, 1.0], jac="3-point", args=(0.8,))
    assert f.calls > 2 * optimize.least_squares(misfit, [0.5, 1.0], args=(0.8,)).nfev


def test_function_returning_value_and_gradient_is_accepted():
    _, first, second, _ = exact(mp_valley, (0.5, 0.5), 0.7)
    both = wg.value_and_grad(valley)
    for method in ("BFGS", "trust-exact", "Newton-CG"):
        solve = lambda p: optimize.minimize(lambda x: both(x, p), [0.5, 0.5], jac=True, method=method).x
        np.testing.assert_allclose(wg.jacobian(solve)(0.7), first, rtol=1e-9)
    np.testing.assert_allclose(wg.jacobian(wg.jacobian(solve))(0.7), second, rtol=1e-8)

    def with_jacobian(x, p):
        return coupled(x, p), np.array([[1, 0.3 * np.cos(x[1])], [-0.4 * x[0] + p / 2, 1.0]])

    _, first, _, _ = exact(mp_coupled, (0.5, 0.0), 0.9)
    found = wg.jacobian(lambda p: optimize.root(with_jacobian, [0.5, 0.2], args=(p,), jac=True).x)(0.9)
    np.testing.assert_allclose(found, first, rtol=1e-9)
    found = wg.grad(
        lambda p: optimize.root_scalar(lambda x: (scalar(x, p), np.exp(x) + p), x0=0.0, fprime=True).root, 1.5
    )
    np.testing.assert_allclose(found, exact(mp_scalar, (0.4,), 1.5)[1], rtol=1e-9)


@pytest.mark.parametrize("name", BITS)
@pytest.mark.filterwarnings("ignore:delta_grad == 0.0:UserWarning")
def test_derivs_scipy_equals_scipy(name):
    solver, (f, *rest), derivatives, options, p = BITS[name]
    own = {} if name.split()[-1] not in WITH_HESSIAN and "halley" not in name else derivatives(f)
    expected = getattr(scipy.optimize, solver)(f, *rest, args=(p,), **own, **options)
    assert_same_result(getattr(optimize, solver)(f, *rest, args=(p,), derivs="scipy", **own, **options), expected)


def test_col_deriv_gives_transposed_jacobian():
    expected = optimize.root(coupled, [0.5, 0.2], args=(0.9,))
    assert np.array_equal(optimize.root(coupled, [0.5, 0.2], args=(0.9,), options={"col_deriv": 1}).x, expected.x)
    assert np.array_equal(optimize.fsolve(coupled, [0.5, 0.2], args=(0.9,), col_deriv=1), expected.x)


def test_jac_sparsity_keeps_least_squares_sparse():
    from scipy.sparse import diags_array

    def bidiagonal(x):
        return np.concatenate([10 * (x[1:] - x[:-1] ** 2), 1 - x[:-1]])

    pattern = diags_array([np.ones(9), np.ones(10)], offsets=[1, 0], shape=(18, 10))
    pattern = np.abs(wg.jacobian(bidiagonal)(np.linspace(1, 2, 10))) > 0
    found = optimize.least_squares(bidiagonal, np.full(10, 0.5), jac_sparsity=pattern)
    assert found.jac.format == "csr"
    np.testing.assert_allclose(found.x, 1, rtol=1e-6)


def test_bounds_and_constraints_get_exact_derivatives():
    f, disc = counted(rosenbrock), counted(lambda x: 1.5 - x[0] ** 2 - x[1] ** 2)
    found = optimize.minimize(f, [0.0, 0.0], constraints={"type": "ineq", "fun": disc}, tol=1e-10)
    other, other_disc = counted(rosenbrock), counted(disc.__wrapped__)
    by_scipy = optimize.minimize(
        other, [0.0, 0.0], constraints={"type": "ineq", "fun": other_disc}, tol=1e-10, derivs="scipy"
    )
    np.testing.assert_allclose(found.x, by_scipy.x, rtol=1e-4)
    assert f.calls < other.calls and disc.calls < other_disc.calls
    assert abs(disc(found.x)) < 1e-8
    found = optimize.minimize(rosenbrock, [0.0, 0.0], bounds=[(None, 0.5), (0, None)])
    np.testing.assert_allclose(found.x, [0.5, 0.25], rtol=1e-6)


def test_objective_may_return_array_of_one_element():
    assert optimize.minimize(lambda x: (x - 1) ** 2, [3.0]).x == pytest.approx(1)
    found = wg.jacobian(lambda p: optimize.minimize(lambda x: (x - p) ** 2, [3.0]).x)(2.0)
    np.testing.assert_allclose(found, [1.0])


def test_callbacks_and_custom_methods_receive_plain_values():
    seen = []

    def method(fun, x0, args=(), jac=None, **options):
        seen.extend([x0, *args, fun(x0, *args), jac(x0, *args)])
        return scipy.optimize.minimize(fun, x0, args=args, jac=jac)

    def f(p):
        optimize.minimize(valley, [0.5, 0.5], args=(p,), callback=seen.append)
        optimize.root(coupled, [0.5, 0.2], args=(p,), method="krylov", callback=lambda x, r: seen.append(x))
        return optimize.minimize(valley, [0.5, 0.5 * p], args=(p,), method=method).x

    np.testing.assert_allclose(wg.jacobian(f)(0.7), exact(mp_valley, (0.5, 0.5), 0.7)[1], rtol=1e-9)
    assert len(seen) > 6
    assert all(type(x) in (np.ndarray, np.float64, float) for x in seen)


# ---- results


def test_result_fields_are_traced_constant_or_raise():
    def f(p, *more):
        found = optimize.least_squares(misfit, [0.5, 1.0], args=(p,), xtol=1e-14, ftol=1e-14, gtol=1e-14)
        assert isinstance(found, scipy.optimize.OptimizeResult) and found.success and found["nfev"] > 2
        assert not any(found[name] is None for name in more)
        with pytest.raises(AttributeError):
            getattr(found, "no_such_field")  # noqa: B009
        assert "x:" in repr(found)
        return np.concatenate([found.fun, [found.cost], found.grad])

    x, first, _, _ = exact(mp_misfit, (0.5, 1.0), 0.8)
    by_x, by_p = wg.jacobian(misfit, argnums=(0, 1))(x, 0.8)
    slope = by_x @ first + by_p
    expected = np.concatenate([slope, [misfit(x, 0.8) @ slope], [0, 0]])
    np.testing.assert_allclose(wg.jacobian(f)(0.8), expected, rtol=1e-5, atol=1e-9)
    with pytest.raises(wg.TracedValueError, match=r"'jac' of this result .* wengert\.jacobian"):
        wg.jacobian(f)(0.8, "jac")


def test_minimum_value_has_envelope_derivative():
    def least(p, *more):
        found = optimize.minimize(valley, [0.5, 0.5], args=(p,), tol=1e-12)
        assert not any(getattr(found, name) is None for name in more)
        assert type(found.jac) is np.ndarray
        return found.fun

    x, first, _, _ = exact(mp_valley, (0.5, 0.5), 0.7)
    _, by_p = wg.jacobian(valley, argnums=(0, 1))(x, 0.7)
    assert wg.grad(least, 0.7) == pytest.approx(by_p, rel=1e-8)
    H = wg.hessian(valley, argnums=(0, 1))(x, 0.7)
    assert wg.hessian(least, 0.7) == pytest.approx(H[1][1] + H[1][0] @ first, rel=1e-6)
    with pytest.raises(wg.TracedValueError, match="hess_inv"):
        wg.grad(least)(0.7, "hess_inv")


def test_polish_moves_point_of_differentiation_only():
    def solve(p, polish):
        return optimize.minimize(valley, [0.5, 0.5], args=(p,), method="Nelder-Mead", polish=polish).x

    _, first, _, _ = exact(mp_valley, (0.5, 0.5), 0.7)
    error = {}
    for polish in ("auto", True, False):
        slope = wg.jacobian(solve)(0.7, polish)
        error[polish] = np.max(np.abs(slope / first - 1))
        value, _ = wg.jvp(functools.partial(solve, polish=polish), 0.7, 1.0)
        assert np.array_equal(value, solve(0.7, "auto"))
    assert error["auto"] < 1e-11 and error[True] < 1e-8
    assert 1e-7 < error[False] < 1e-3


def test_result_fields_of_root_finders_are_those_of_scipy():
    def f(p, *more):
        found = optimize.root(coupled, [0.5, 0.2], args=(p,))
        assert type(found.fun) is np.ndarray and found.success
        x, infodict, status, message = optimize.fsolve(coupled, [0.5, 0.2], args=(p,), full_output=True)
        assert status == 1 and "converged" in message and infodict["nfev"] > 2
        assert not any(getattr(found, name, None) is infodict[name] for name in more)
        y, details = optimize.brentq(scalar, 0.0, 1.0, args=(p,), full_output=True)
        assert details.converged and details.root is y
        for info in (found.info, infodict["info"], details.info):
            assert info.correction < 1e-6 < info.rcond and info.steps == order
        return x.sum() + found.x.sum() + y

    order = 1
    parts = exact(mp_coupled, (0.5, 0.0), 0.9)[1], exact(mp_scalar, (0.4,), 0.9)[1]
    assert wg.grad(f, 0.9) == pytest.approx(2 * parts[0].sum() + parts[1][0], rel=1e-9)
    for name in ("fjac", "qtf"):
        with pytest.raises(wg.TracedValueError, match=name):
            wg.grad(f)(0.9, name)
    order = 2
    wg.hessian(f, 0.9)


# ---- least squares


def rational_decay(b, x):
    return b[0] * (1 - np.exp(-b[1] * x))


def misra1a():
    """Return NIST's Misra1a: x, y, certified parameters."""
    x = "77.6 114.9 141.1 190.8 239.9 289.0 332.8 378.4 434.8 477.3 536.8 593.1 689.1 760.0"
    y = "10.07 14.73 17.94 23.93 29.61 35.18 40.02 44.82 50.76 55.05 61.01 66.40 75.47 81.78"
    return np.array(x.split(), float), np.array(y.split(), float), np.array([2.3894212918e02, 5.5015643181e-04])


def test_influence_of_observations_needs_second_derivatives_of_residuals():
    x, y, certified = misra1a()

    def fit(y):
        options = {"x_scale": "jac", "xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
        return optimize.least_squares(lambda b: rational_decay(b, x) - y, [250, 5e-4], **options).x

    np.testing.assert_allclose(fit(y), certified, rtol=1e-6)
    with mpmath.workdps(50):
        b1, b2 = mpmath.mpf(certified[0]), mpmath.mpf(certified[1])

        def slopes(y):
            def equations(b1, b2):
                r = [b1 * (1 - mpmath.exp(-b2 * s)) - t for s, t in zip(x, y)]
                by_b1 = mpmath.fsum(q * (1 - mpmath.exp(-b2 * s)) for q, s in zip(r, x))
                return by_b1, mpmath.fsum(q * b1 * s * mpmath.exp(-b2 * s) for q, s in zip(r, x))

            return mpmath.findroot(equations, (b1, b2), tol=1e-80, verify=False)

        step = mpmath.mpf(10) ** -15
        moved = [[t + (step if i == k else 0) * sign for i, t in enumerate(map(mpmath.mpf, y))]
                 for k in (0, 13) for sign in (1, -1)]  # fmt: skip
        found = [slopes(row) for row in moved]
        expected = [[float((one[i] - other[i]) / (2 * step)) for one, other in (found[:2], found[2:])] for i in (0, 1)]

    for mode in ("forward", "reverse"):
        influence = wg.jacobian(fit, mode=mode)(y)[:, [0, 13]]
        np.testing.assert_allclose(influence, expected, rtol=1e-9)
    J = wg.jacobian(rational_decay)(fit(y), x)
    gauss_newton = np.linalg.pinv(J)[:, [0, 13]]
    assert np.max(np.abs(gauss_newton / expected - 1)) > 2e-3


LOSSES = {
    "linear": lambda z: z,
    "soft_l1": lambda z: 2 * (mpmath.sqrt(1 + z) - 1),
    "huber": lambda z: z if z <= 1 else 2 * mpmath.sqrt(z) - 1,
    "cauchy": lambda z: mpmath.log(1 + z),
    "arctan": lambda z: mpmath.atan(z),
}


def own_loss(z):
    """Return the Geman-McClure loss and its derivatives in SciPy's format."""
    rho = np.empty((3, z.size))
    rho[0], rho[1], rho[2] = z / (1 + z), 1 / (1 + z) ** 2, -2 / (1 + z) ** 3
    return rho


@pytest.mark.parametrize("loss", [*LOSSES, own_loss])
@pytest.mark.parametrize("method", ["trf", "dogbox"])
def test_robust_losses_and_f_scale_have_derivatives(loss, method):
    """Fit a line with one outlier; differentiate in the data and in the scale of the loss."""
    t = np.arange(5.0)
    y = np.array([0.1, 0.9, 2.2, 2.8, 5.5])
    rho = LOSSES.get(loss, lambda z: z / (1 + z)) if isinstance(loss, str) else lambda z: z / (1 + z)

    def fit(y, scale):
        return optimize.least_squares(
            lambda b: b[0] + b[1] * t - y, [0.0, 1.0], loss=loss, f_scale=scale, method=method,
            xtol=1e-12, ftol=1e-12, gtol=1e-12,
        ).x  # fmt: skip

    def by_mpmath(y4, scale):
        data = [mpmath.mpf(v) for v in y[:4]] + [y4]

        def cost(a, b):
            return scale**2 * mpmath.fsum(rho(((a + b * s - v) / scale) ** 2) for s, v in zip(t, data))

        def equations(a, b):
            h = mpmath.mpf(10) ** -20
            return (cost(a + h, b) - cost(a - h, b)) / h, (cost(a, b + h) - cost(a, b - h)) / h

        return mpmath.findroot(equations, tuple(fit(y, 0.3)), tol=1e-40, verify=False)

    with mpmath.workdps(60):
        h, scale, last = mpmath.mpf(10) ** -8, mpmath.mpf(0.3), mpmath.mpf(5.5)
        central = lambda one, other: np.array([float((a - b) / (2 * h)) for a, b in zip(one, other)])
        by_data = central(by_mpmath(last + h, scale), by_mpmath(last - h, scale))
        by_scale = central(by_mpmath(last, scale + h), by_mpmath(last, scale - h))
    in_data, in_scale = wg.jacobian(fit, argnums=(0, 1))(y, 0.3)
    np.testing.assert_allclose(in_data[:, 4], by_data, rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(in_scale, by_scale, rtol=1e-7, atol=1e-10)


def bounded(p, upper, target=1.0):
    """Minimise (x0 - p)^2 + (x1 + x0 - 3 p)^2 + (x0 - target)^2 with x0 at most `upper`."""
    return optimize.least_squares(
        lambda x: np.array([x[0] - p, x[1] + x[0] - 3 * p, x[0] - target]), [0.0, 0.0], bounds=(-9, [upper, 9.0]),
        xtol=1e-12, ftol=1e-12, gtol=1e-12, method="dogbox",
    ).x  # fmt: skip


def test_active_bound_fixes_its_variable():
    np.testing.assert_allclose(wg.jacobian(bounded)(2.0, 5.0), [0.5, 2.5], rtol=1e-9)  # x0 = (p + 1) / 2
    np.testing.assert_allclose(bounded(2.0, 1.0), [1, 5])
    np.testing.assert_allclose(wg.jacobian(bounded)(2.0, 1.0), [0, 3], rtol=1e-9, atol=1e-12)
    with pytest.raises(wg.NonSmoothError, match="bound of variable 0"):
        wg.jacobian(bounded)(1.0, 1.0)
    np.testing.assert_allclose(wg.jacobian(bounded, argnums=1)(2.0, 1.0), [1, -1], rtol=1e-9)
    np.testing.assert_allclose(wg.jacobian(bounded, argnums=1)(2.0, 5.0), 0)


# ---- errors


def parabola(x, p):
    return x**2 + p


FAILURES = {
    "newton": lambda p, **k: optimize.newton(parabola, 1.0, args=(p,), **k),
    "newton vector": lambda p, **k: optimize.newton(parabola, np.ones(2), args=(p,), **k),
    "root": lambda p, **k: optimize.root(parabola, [1.0], args=(p,), **k).x,
    "fsolve": lambda p, **k: optimize.fsolve(parabola, [1.0], args=(p,), **k),
    "brentq": lambda p, **k: optimize.brentq(lambda x: x**3 - p, 0.0, 3.0, maxiter=3, **k),
    "root_scalar": lambda p, **k: optimize.root_scalar(lambda x: x**3 - p, bracket=(0.0, 3.0), maxiter=3, **k).root,
    "minimize": lambda p, **k: optimize.minimize(valley, [0.5, 0.5], args=(p,), options={"maxiter": 2}, **k).x,
    "least_squares": lambda p, **k: optimize.least_squares(misfit, [0.5, 1.0], args=(p,), max_nfev=2, **k).x,
    "fixed_point": lambda p, **k: optimize.fixed_point(lambda x: x * x + p, 1.0, maxiter=30, **k),
}


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_unconverged_solution_raises(name):
    solve = FAILURES[name]
    solver = name.split()[0]
    for operator in (wg.jacobian, functools.partial(wg.jacobian, mode="forward")):
        with pytest.raises(wg.ConvergenceError, match=f"wengert.scipy.optimize.{solver} has not converged") as error:
            operator(solve)(0.8)
        assert "on_failure='warn'" in str(error.value)
        has_value = name not in ("fixed_point", "newton vector")
        assert "in its largest element" in str(error.value) or not has_value
    if has_value:
        assert np.isnan(wg.jacobian(functools.partial(solve, on_failure="nan"))(0.8)).all()
        value, _ = wg.value_and_grad(lambda p: np.sum(solve(p, on_failure="nan")), 0.8)
        assert np.isfinite(value)


def test_unconverged_solution_warns_on_request():
    solve = functools.partial(FAILURES["minimize"], on_failure="warn")
    with pytest.warns(RuntimeWarning, match="minimize has not converged.*the gradient is"):
        slope = wg.jacobian(solve)(0.7)
    np.testing.assert_allclose(slope, exact(mp_valley, (0.5, 0.5), 0.7)[1], rtol=1)


def test_only_unconverged_elements_are_nan():
    def solve(p):
        return optimize.newton(lambda x, p: x**2 - p, np.ones(3), args=(p,), on_failure="nan")

    p = np.array([1.5, -1.0, 2.0])
    with pytest.warns(RuntimeWarning):
        J = wg.jacobian(solve)(p)
    expected = np.diag([0.5 / math.sqrt(1.5), np.nan, 0.5 / math.sqrt(2)])
    np.testing.assert_allclose(J, expected, rtol=1e-12)


def test_failures_outside_derivatives_equal_scipy():
    assert not optimize.root(parabola, [1.0], args=(1.0,)).success
    assert not optimize.minimize(valley, [0.5, 0.5], args=(0.7,), options={"maxiter": 1}).success
    with pytest.raises(RuntimeError, match="Derivative was zero"):
        optimize.newton(parabola, 1.0, args=(1.0,))
    assert wg.grad(lambda p: p * optimize.root(parabola, [1.0], args=(1.0,)).nfev, 1.0) > 1  # reads no traced value
    with pytest.raises(ValueError, match="different signs"):
        wg.grad(lambda p: optimize.brentq(parabola, 0.0, 1.0, args=(p,)), 1.0)


@pytest.mark.parametrize(
    "solve",
    [
        lambda p, **k: optimize.newton(lambda x: (x - p) ** 2, 0.0, maxiter=200, **k),
        lambda p, **k: optimize.root(lambda x: (x - p) ** 2, [0.0], **k).x,
        lambda p, **k: optimize.root(lambda x: x**2 + p, [1.0], method="lm", **k).x,  # "converged", but no root exists
        lambda p, **k: optimize.minimize(lambda x: (x[0] + x[1] - p) ** 2, [1.0, 2.0], **k).x,
        lambda p, **k: optimize.minimize(lambda x: x[0] ** 2 - (x[1] - p) ** 2, [1.0, 1.0], **k).x,  # a saddle point
        lambda p, **k: optimize.least_squares(lambda x: np.array([x[0] + x[1] - p, 0 * x[0]]), [1.0, 2.0], **k).x,
    ],
    ids=["double root", "double root of a system", "no root", "valley without a lowest point", "saddle", "gauge"],
)
def test_singular_equations_raise(solve):
    with pytest.raises(wg.SingularJacobianError, match=r"wengert\.scipy\.optimize"):
        wg.jacobian(solve)(1.0)
    assert np.isnan(wg.jacobian(functools.partial(solve, on_singular="nan"))(1.0)).all()


def test_least_norm_derivative_on_a_line_of_solutions():
    def solve(p):
        return optimize.minimize(lambda x: (x[0] + x[1] - p) ** 2, [1.0, 2.0], on_singular="lstsq").x

    np.testing.assert_allclose(wg.jacobian(solve)(1.0), [0.5, 0.5], rtol=1e-9)


def test_more_equations_than_unknowns_raise():
    with pytest.raises(ValueError, match=r"4 equations for 2 unknowns.*least_squares"):
        wg.jacobian(lambda p: optimize.root(misfit, [0.5, 1.0], args=(p,), method="lm").x)(0.8)


@pytest.mark.parametrize("name", ["root", "fsolve", "newton", "least_squares", "minimize", "root_scalar"])
def test_untraceable_function_is_named_in_error(name):
    def f(x):
        return table["cos"](np.ravel(x)[0])

    table = types.MappingProxyType({"cos": functools.partial(math.cos)})  # functions in it are not followed
    start = {"x0": 1.0} if name in ("newton", "root_scalar") else {"x0": [1.0]}
    solver = getattr(optimize, name)
    with pytest.raises(wg.TracedValueError, match=f"wengert.scipy.optimize.{name}.*cannot be diff.*derivs='scipy'"):
        solver(f, **start)
    solver(f, **start, derivs="scipy")


@pytest.mark.parametrize("name", ["root", "fsolve", "newton", "least_squares", "minimize", "root_scalar"])
def test_errors_of_the_function_surface_unchanged(name):
    def f(x, p):
        raise ZeroDivisionError("of mine")

    start = {"x0": 1.0} if name in ("newton", "root_scalar") else {"x0": [1.0]}
    solver = getattr(optimize, name)
    with pytest.raises(ZeroDivisionError, match="of mine"):
        solver(f, args=(1.0,), **start)
    with pytest.raises(ZeroDivisionError, match="of mine"):
        wg.grad(lambda p: solver(f, args=(p,), **start), 1.0)


# ---- SciPy's own names


def of_scipy(name, get=getattr):
    """Return calls of SciPy's solvers with a traced value, through arguments and through a closure."""
    solver = get(scipy.optimize, name)
    if name == "linprog":
        return (
            lambda p: solver(np.stack([p, 1.0]), -np.eye(2), -np.ones(2)).fun,
            lambda p: solver(np.ones(2), -np.eye(2), -np.stack([p, 1.0])).fun,
        )
    if name in ("lsq_linear", "nnls"):
        A = np.array([[2.0, 1.0], [0.5, 3.0]])
        return (
            lambda p: solved(solver(np.stack([p * A[0], A[1]]), np.ones(2))),
            lambda p: solved(solver(A, np.stack([p, 1.0]))),
        )
    f = {"minimize": valley, "least_squares": misfit, "leastsq": misfit, "fixed_point": contraction}.get(name, scalar)
    f = coupled if name in ("root", "fsolve") else f
    start = [0.5, 0.2]
    if name in BRACKETING:
        start = (0.0, 1.0)
    elif name in ("newton", "fixed_point"):
        start = (0.5,)
    elif name in ("root_scalar", "minimize_scalar"):
        start = ()
    else:
        start = (start,)
    options = {"bracket": (0.0, 1.0)} if name in ("root_scalar", "minimize_scalar") else {}
    names = list(inspect.signature(getattr(scipy.optimize, name)).parameters)
    at = dict(zip(names[1:], start))
    return (
        lambda p: solved(solver(f, args=(p,), **at, **options)),
        lambda p: solved(solver(lambda x: f(x, p), **at, **options)),
    )


def solved(found):
    """Return a number that depends on the solution."""
    found = getattr(found, "x", getattr(found, "root", found))
    return np.sum((found[0] if isinstance(found, tuple) else found) * 1.0)


def text_of(error):
    """Return the messages of an exception and of its causes."""
    text = ""
    while error is not None:
        text, error = text + str(error), error.__cause__ or error.__context__
    return text


#: solvers covered by `of_scipy`; test_fits_and_searches.py covers the others
PLAIN_SOLVERS = [
    *("root", "fsolve", "root_scalar", *BRACKETING, "newton", "fixed_point", "least_squares", "leastsq", "minimize"),
    *("lsq_linear", "nnls", "linprog"),
]


@pytest.mark.parametrize("operator", [wg.grad, wg.hessian, functools.partial(wg.jacobian, mode="forward")])
@pytest.mark.parametrize("name", PLAIN_SOLVERS)
def test_followed_code_calls_scipy_under_its_own_names(name, operator):
    by_mirror = functools.partial(getattr(optimize, name), derivs="scipy")
    for call, expected in zip(of_scipy(name), of_scipy(name, lambda *_: by_mirror)):
        assert np.all(np.isfinite(found := operator(call)(0.9)))
        assert np.array_equal(found, operator(expected)(0.9))
        assert wg.vjp(call, 0.9)[0] == call(0.9)


@pytest.mark.parametrize("name", PLAIN_SOLVERS)
def test_compiled_code_calls_scipy_under_its_own_names(name):
    for call in of_scipy(name):
        compiled = wg.compile(call)
        for p in (0.9, 0.95):
            assert compiled(p) == pytest.approx(call(p), rel=1e-14)
            assert wg.grad(compiled)(p) == pytest.approx(wg.grad(call)(p), rel=1e-9)


def hidden(module, name):
    """Return a call of a solver that followed code does not see."""
    held = {getattr(module, name)}
    return lambda *args, **options: next(iter(held))(*args, **options)


@pytest.mark.parametrize("name", PLAIN_SOLVERS)
@pytest.mark.parametrize("operator", [wg.grad, wg.hessian, functools.partial(wg.jacobian, mode="forward")])
def test_traced_value_passed_to_unseen_solver_names_the_mirror(name, operator):
    for call in of_scipy(name, hidden):
        with pytest.raises((TypeError, ValueError), match=r".") as error:  # SciPy's error, or wengert's
            operator(call)(0.9)
        assert f"Use wengert.scipy.optimize.{name}," in text_of(error.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda p, newton=hidden(scipy.optimize, "newton"): newton(scalar, 0.0, args=(p,), fprime=scalar_slope),
        lambda p, newton=hidden(scipy.optimize, "newton"): newton(lambda x: scalar(x, 1.5), p),
        lambda p, solve=hidden(scipy.optimize, "root_scalar"): solve(scalar, args=(p,), x0=0.0, x1=1.0).root,
    ],
)
def test_newton_iterations_are_not_traced(call):
    with pytest.raises(wg.TracedValueError, match=r"Use wengert\.scipy\.optimize"):
        wg.grad(call, 1.5)


class Hidden:
    """Computes a number that a function reads from an object which reads another one."""

    def __init__(self, p):
        self.values = {"inner": iter, "get": [lambda: p]}

    def __getattr__(self, name):
        return self.values["get"][0]()


@pytest.mark.parametrize("catches", [False, True])
def test_hidden_traced_values_reach_solvers_under_scipys_names(catches):
    def f(p):
        held = Hidden(p)

        def cubic(x):
            return x**3 - held.anything

        if catches:  # compiled code replaces the errors of its callbacks
            return scipy.optimize.fsolve(lambda x: cubic(x), [1.0])[0]
        return scipy.optimize.brentq(cubic, 0.0, 3.0)

    assert wg.grad(f, 8.0) == pytest.approx(1 / 12)
    assert wg.vjp(f, 8.0)[0] == f(8.0)


def test_scipy_under_its_own_name_refuses_keywords_of_wengert():
    with pytest.raises(TypeError, match="polish"):
        wg.grad(lambda p: scipy.optimize.brentq(lambda x: x - p, 0.0, 2.0, polish=False), 1.0)


def test_imports_inside_followed_functions_find_solvers():
    def f(p):
        from scipy import optimize as solvers
        from scipy.optimize import brentq

        return brentq(lambda x: x**2 - p, 0.0, 3.0) + solvers.newton(lambda x: x**3 - p, 1.0)

    assert wg.grad(f, 4.0) == pytest.approx(0.25 + 4 ** (-2 / 3) / 3)


def test_scipy_on_plain_values_inside_derivative_is_unchanged():
    def f(p):
        return p * scipy.optimize.brentq(lambda x: x**2 - 2, 0, 2) + p * scipy.optimize.newton(lambda x: x**2 - 2, 1.0)

    assert wg.grad(f, 1.0) == pytest.approx(2 * math.sqrt(2))


def test_rosenbrocks_function_is_differentiated_under_its_name():
    from scipy.optimize import rosen, rosen_der, rosen_hess

    x = np.array([1.3, 0.7, 0.8, 1.9])
    assert optimize.rosen(x) == rosen(x) and np.array_equal(optimize.rosen_der(x), rosen_der(x))
    assert np.array_equal(optimize.rosen(np.ones((3, 4))), rosen(np.ones((3, 4))))
    for operator, exact in ((wg.grad, rosen_der), (wg.hessian, rosen_hess)):
        np.testing.assert_allclose(operator(rosen)(x), exact(x), rtol=1e-13)
        np.testing.assert_allclose(operator(wg.compile(lambda x: rosen(x)))(x), exact(x), rtol=1e-13)
    np.testing.assert_allclose(wg.jacobian(lambda x: rosen_der(x))(x), rosen_hess(x), rtol=1e-13)
