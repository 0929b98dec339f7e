"""Batches of roots: `vmap` of compiled functions that solve equations, and linear equations of one pattern."""

import pickle

import numpy as np
import pytest
from scipy import optimize as plain
from wengert.program.roots.linear import Linear

import wengert as wg
from wengert.errors import GuardError
from wengert.program.specialise.batches import MIN_COMPILED
from wengert.scipy import optimize

RNG = np.random.default_rng(0)


def pair(x, p):
    return np.stack([x[0] ** 2 + p[0] * x[1] - 2.0, np.exp(-x[1]) + x[0] * p[1] - 1.5])


def pair_root(p):
    return optimize.root(pair, np.array([1.0, 0.5]), args=(p,), method="newton").x


def damped_root(p):
    """A start from which full steps diverge."""
    return optimize.root(lambda x: np.arctan(p * x), [3.0], method="newton").x


def shared_root(p, A):
    """Equations of three unknowns with a matrix that all elements share."""
    return optimize.root(lambda x: A @ x + 0.1 * x**3 - p, np.zeros(3), method="newton").x


def joined_root(p):
    """Equations with a joined array, which has to become scalars."""

    def residual(x):
        left, right = np.concatenate([np.zeros(1), x[:-1]]), np.concatenate([x[1:], np.zeros(1)])
        return (3.0 - 2.0 * p * x) * x - left - 2.0 * right + 1.0

    return optimize.root(residual, -np.ones(4), method="newton").x


def scalar_root(p):
    return optimize.root_scalar(lambda x: x**3 + p * x - 2, x0=1.0, method="newton").root


def secant_root(p):
    return optimize.newton(lambda x: x**3 + p * x - 2, 1.0)


def bracketed_root(p):
    return optimize.brentq(lambda x: x**3 + p * x - 2, 0.0, 3.0)


def of_scalar(name, **options):
    """Return the root of a cubic by a solver of one equation."""
    return lambda p: getattr(optimize, name)(lambda x: x**3 + p * x - 2, **options)


def by_method(solver=optimize, **options):
    return lambda p: solver.root_scalar(lambda x: np.exp(x) - 3 * p - x**2, **options).root


def hybr_root(p):
    return optimize.root(pair, np.array([1.0, 0.5]), args=(p,), tol=1e-13).x


POINTS = 1 + 0.1 * RNG.standard_normal((300, 2))
def minimum(p):
    """Minimise a function of two variables, as the root of its gradient."""

    def objective(x):
        return (x[0] - p) ** 2 + x[0] ** 4 + np.cosh(x[1] - x[0])

    return optimize.root(wg.grad(objective), np.ones(2), method="newton").x


A = np.array([[3.0, 1.0, 0.0], [1.0, 4.0, 1.0], [0.0, 1.0, 5.0]])

#: function of one element, batched argument, further arguments that the elements share
BATCHES = {
    "two unknowns": (pair_root, POINTS, ()),
    "damped": (damped_root, np.linspace(0.5, 2.0, 40), ()),
    "shared matrix": (shared_root, RNG.standard_normal((50, 3)), (A,)),
    "joined": (joined_root, np.linspace(0.8, 1.2, 30), ()),
    "root_scalar": (scalar_root, np.linspace(0.5, 2.0, 20), ()),
    "newton": (secant_root, np.linspace(0.5, 2.0, 20), ()),
    "brentq": (bracketed_root, np.linspace(0.5, 2.0, 20), ()),
    "brenth": (of_scalar("brenth", a=0.0, b=3.0), np.linspace(0.5, 2.0, 20), ()),
    "bisect": (of_scalar("bisect", a=0.0, b=3.0, rtol=1e-14), np.linspace(0.5, 2.0, 20), ()),
    "ridder": (of_scalar("ridder", a=0.0, b=3.0), np.linspace(0.5, 2.0, 20), ()),
    "toms748": (of_scalar("toms748", a=0.0, b=3.0), np.linspace(0.5, 2.0, 20), ()),
    "secant": (of_scalar("newton", x0=1.0, x1=1.3, tol=1e-13), np.linspace(0.5, 2.0, 20), ()),
    "traced bracket": (lambda p: optimize.brentq(lambda x: x**3 - p, 0.0, 3 * p), np.linspace(0.6, 2.0, 20), ()),
    "root_scalar brentq": (by_method(bracket=(0.0, 3.0)), np.linspace(0.5, 2.0, 20), ()),
    "root_scalar secant": (by_method(x0=1.0, x1=1.5, xtol=1e-13), np.linspace(0.5, 2.0, 20), ()),
    "root_scalar bisect": (
        by_method(bracket=(0.0, 3.0), method="bisect", options={"xtol": 1e-13}), np.linspace(0.5, 2.0, 20), ()
    ),
    "hybr": (hybr_root, POINTS[:20], ()),
    "minimum": (minimum, np.linspace(0.5, 2.0, 20), ()),
}  # fmt: skip


def looped(f, batch, rest):
    return np.array([f(p, *rest) for p in batch])


@pytest.mark.parametrize("name", BATCHES)
def test_batch_returns_the_roots_of_its_elements(name):
    f, batch, rest = BATCHES[name]
    mapped = wg.vmap(wg.compile(f), in_axes=(0, *[None] * len(rest)))
    for _ in range(5):
        np.testing.assert_allclose(mapped(batch, *rest), looped(f, batch, rest), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(mapped(batch[::-1].copy(), *rest), looped(f, batch[::-1], rest), rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("name", BATCHES)
def test_batch_of_derivatives_is_that_of_its_elements(name):
    f, batch, rest = BATCHES[name]
    batch = batch[:12]
    J = wg.vmap(wg.jacobian(wg.compile(f)), in_axes=(0, *[None] * len(rest)))
    expected = looped(wg.jacobian(f), batch, rest)
    for _ in range(3):
        np.testing.assert_allclose(J(batch, *rest), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name, (_, batch, _) in BATCHES.items() if batch.ndim == 1])
def test_batch_has_derivatives_by_one_scalar(name):
    f, batch, rest = BATCHES[name]
    for order in (1, 2) if np.ndim(f(batch[0])) == 0 else (1,):
        mapped = wg.vmap(wg.derivative(wg.compile(f), order=order))
        expected = looped(wg.derivative(f, order=order), batch[:5], rest)
        np.testing.assert_allclose(mapped(batch[:5]), expected, rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("name", ["two unknowns", "shared matrix"])
def test_sums_over_a_batch_have_gradients_and_hessians(name):
    f, batch, rest = BATCHES[name]
    batch = batch[:6]
    mapped = wg.vmap(wg.compile(f), in_axes=(0, *[None] * len(rest)))
    mapped(batch, *rest)

    def total(batch, *rest):
        return np.sum(mapped(batch, *rest) ** 2)

    def by_elements(batch, *rest):
        return np.sum(np.stack([f(p, *rest) for p in batch]) ** 2)

    for argnum in range(1 + len(rest)):
        expected = wg.grad(by_elements, argnums=argnum)(batch, *rest)
        np.testing.assert_allclose(wg.grad(total, argnums=argnum)(batch, *rest), expected, rtol=1e-9)


@pytest.mark.parametrize("name", ["two unknowns", "shared matrix", "joined", "minimum"])
def test_small_systems_run_side_by_side(name):
    f, batch, rest = BATCHES[name]
    call = wg.record(lambda p: f(p, *rest), batch[0])._listing.calls[0].compute
    (system,) = call.paths.systems()
    lanes = system.lanes((True,) * (len(system.shapes) - 1), 8)
    assert lanes is not None and lanes.width == 8 and lanes.n == system.linear.n


def test_batch_has_second_derivatives():
    f = wg.compile(lambda p: np.sum(pair_root(p) ** 2))
    H = wg.vmap(wg.hessian(f))
    expected = [wg.hessian(lambda p: np.sum(pair_root(p) ** 2))(p) for p in POINTS[:5]]
    np.testing.assert_allclose(H(POINTS[:5]), expected, rtol=1e-8)


def test_elements_may_take_different_branches():
    def f(p):
        return optimize.root(lambda x: 2 * x + x**3 - p if x[0] > 1 else 3 * x - p, [0.5], method="newton").x

    points = np.array([0.5, 5.0, 0.7, 9.0])
    np.testing.assert_allclose(wg.vmap(wg.compile(f))(points), looped(f, points, ()), rtol=1e-10)


@pytest.mark.parametrize("failing", [[0], [3], [7], [1, 2, 5]])
def test_elements_that_do_not_converge_are_named(failing):
    def f(p):
        return optimize.root(lambda x: x**2 + p, [3.0], method="newton").x

    points = np.full(9, -2.0)
    mapped = wg.vmap(wg.compile(f))
    np.testing.assert_allclose(mapped(points), 2**0.5, rtol=1e-10)
    points[failing] = 1.0  # there is no root
    words = f"element {failing[0]} of a batch of 9 is" if len(failing) == 1 else "elements 1, 2, 5 of a batch of 9 are"
    with pytest.raises(wg.ConvergenceError, match=f"{words} not solved.*leave these elements out") as caught:
        mapped(points)
    assert caught.value.elements.tolist() == failing
    kept = np.delete(points, caught.value.elements)
    np.testing.assert_allclose(mapped(kept), 2**0.5, rtol=1e-10)


def test_many_elements_that_do_not_converge_are_counted():
    mapped = wg.vmap(wg.compile(lambda p: optimize.root(lambda x: x**2 + p, [3.0], method="newton").x))
    mapped(np.full(40, -2.0))
    points = np.where(np.arange(40) < 15, 1.0, -2.0)
    with pytest.raises(wg.ConvergenceError, match="elements 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 5 more of a batch of 40"):
        mapped(points)


def test_bracket_without_a_root_is_named():
    mapped = wg.vmap(wg.compile(bracketed_root))
    points = np.linspace(0.5, 2.0, 20)
    mapped(points)
    points[4] = -20.0
    with pytest.raises(wg.ConvergenceError, match=r"element 4 of a batch of 20 is not solved: .*different signs"):
        mapped(points)


#: equations of one unknown, with the ends of a bracket
SCALAR = {
    "cubic": (lambda x, p: x**3 + p * x - 2, 0.0, 3.0),
    "exponential": (lambda x, p: np.exp(x) - 3 * p, -1.0, 4.0),
    "cosine": (lambda x, p: np.cos(x) - p * x / 2, 3.0, 0.0),
    "flat": (lambda x, p: x * x * x * x * x - p, -1.0, 3.0),
    "bounded": (lambda x, p: np.arctan(x - p), -5.0, 9.0),
    "linear": (lambda x, p: x - p, 0.25, 2.5),
    "root at the end": (lambda x, p: p * x, 0.0, 1.0),
    "root at the other end": (lambda x, p: p * (x - 1.0), 0.0, 1.0),
    "three roots": (lambda x, p: (x - p) * (x - 5.0) * (x + 2.0), -3.0, 7.0),
}


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("solver", ["brentq", "brenth", "bisect", "ridder", "toms748"])
def test_bracketing_methods_in_programs_take_the_iterates_of_scipy(name, solver):
    f, a, b = SCALAR[name]
    a, b = (min(a, b), max(a, b)) if solver == "toms748" else (a, b)
    points = np.linspace(0.5, 2.0, 7)
    for options in ({}, {"xtol": 1e-3, "rtol": 1e-4}):
        found = wg.compile(lambda p, o=options: getattr(optimize, solver)(f, a, b, args=(p,), **o), exact=True)
        expected = [getattr(plain, solver)(f, a, b, args=(p,), **options) for p in points]
        assert [found(p) for p in points] == expected and found.paths == 1


@pytest.mark.parametrize("name", SCALAR)
@pytest.mark.parametrize("solver", ["ridder", "toms748"])
def test_batches_of_bracketing_methods_end_where_scipy_does(name, solver):
    f, *ends = SCALAR[name]
    points = np.linspace(0.5, 2.0, 70)
    for options in ({}, {"xtol": 1e-3, "rtol": 1e-4}, {"xtol": 1e-14, "maxiter": 90}):
        root = lambda p, o=options: getattr(plain, solver)(f, *sorted(ends), args=(p,), **o)
        found = wg.vmap(wg.compile(root))(points)
        np.testing.assert_allclose(found, [root(p) for p in points], rtol=1e-14, atol=options.get("xtol", 2e-12))


@pytest.mark.parametrize("name", ["cubic", "exponential", "flat", "linear"])
def test_newton_and_secant_methods_in_programs_take_the_iterates_of_scipy(name):
    f = SCALAR[name][0]
    slope = wg.derivative(f)
    for given, plainly in (({}, {"fprime": slope}), ({"x1": 1.5}, {"x1": 1.5})):
        found = wg.compile(lambda p, g=given: optimize.newton(f, 1.3, args=(p,), tol=1e-4, **g), exact=True)
        expected = [plain.newton(f, 1.3, args=(p,), tol=1e-4, **plainly) for p in np.linspace(0.5, 2.0, 7)]
        assert [found(p) for p in np.linspace(0.5, 2.0, 7)] == expected and found.paths == 1


FAILING = {
    "signs": (lambda p: optimize.brentq(lambda x: x**2 - p, 0.0, 3.0), -1.0, "different signs"),
    "signs by toms748": (lambda p: optimize.toms748(lambda x: x**2 - p, 0.0, 3.0), -1.0, "different signs"),
    "infinite": (lambda p: optimize.toms748(lambda x: 1 / (x - p) + 0.1, 0.0, 2.0), 2.0, "not finite"),
    "no interval": (lambda p: optimize.toms748(lambda x: x - 2.0, p, 3.0), 4.0, "not an interval"),
    "signs by ridder": (lambda p: optimize.ridder(lambda x: x**2 - p, 0.0, 3.0), -1.0, "different signs"),
    "NaN": (lambda p: optimize.brentq(lambda x: np.log(x + p) - 1.0, 0.0, 3.0), -1.0, "NaN"),
    "iterations": (lambda p: optimize.bisect(lambda x: x - p, 0.0, 3.0, rtol=1e-2, maxiter=12), 1e-6, "maxiter"),
    "slope": (lambda p: optimize.newton(lambda x: x**2 - p, p - 1.5), 1.5, "derivative is zero"),
    "newton": (lambda p: optimize.newton(lambda x: x**2 - p, 1.3), -1.0, "maxiter"),
    "secant": (lambda p: optimize.newton(lambda x: x**2 - p, p, x1=-1.5, tol=1e-9), 1.5, "equal values"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAILING)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_failures_of_scalar_solvers_are_named_in_batches(name):
    f, failing, words = FAILING[name]
    mapped = wg.vmap(wg.compile(f))
    points = np.linspace(1.0, 1.4, 8)
    mapped(points)
    points[5] = failing
    with pytest.raises(wg.ConvergenceError, match=f"element 5 of a batch of 8 is not solved: .*{words}"):
        mapped(points)


def test_invalid_tolerances_raise_scipys_error():
    for options in ({"xtol": -1.0}, {"rtol": 1e-20}, {"maxiter": 0.5}):
        with pytest.raises((ValueError, TypeError), match=r"too small|integer"):
            wg.compile(lambda p, o=options: optimize.brentq(lambda x: x - p, 0.0, 2.0, **o))(1.0)


# ---- functions that are not compiled


def at_many(batch):
    """Repeat the elements of a batch, so that it is solved at once."""
    return np.concatenate([batch] * (MIN_COMPILED // len(batch) + 1))


@pytest.mark.parametrize("name", BATCHES)
def test_function_that_is_not_compiled_takes_batches(name):
    f, batch, rest = BATCHES[name]
    batch = at_many(batch[:12])
    axes = (0, *[None] * len(rest))
    mapped = wg.vmap(f, in_axes=axes)
    expected = looped(f, batch[:12], rest)
    for _ in range(2):
        np.testing.assert_allclose(mapped(batch, *rest)[:12], expected, rtol=1e-11, atol=1e-14)
    assert mapped._compiled.paths == 1
    slopes = looped(wg.jacobian(f), batch[:12], rest)
    np.testing.assert_allclose(wg.vmap(wg.jacobian(f), axes)(batch, *rest)[:12], slopes, rtol=1e-9, atol=1e-12)
    J = wg.jacobian(lambda batch: mapped(batch, *rest))(batch)[:12]
    for k in range(12):
        np.testing.assert_allclose(
            J[k, ..., k] if batch.ndim == 1 else J[k, ..., k, :], slopes[k], rtol=1e-9, atol=1e-12
        )


@pytest.mark.parametrize("name", BATCHES)
def test_compiled_function_contains_a_batch(name):
    f, batch, rest = BATCHES[name]
    batch = batch[:12]

    def total(batch, *rest):
        return np.sum(wg.vmap(f, in_axes=(0, *[None] * len(rest)))(batch, *rest) ** 2)

    compiled = wg.compile(total)
    (call,) = [x for x in wg.record(total, batch, args=rest)._listing.calls if "at 12 points" in x.compute.__name__]
    assert call.compute.count == 12
    expected = np.sum(looped(f, batch, rest) ** 2)
    for _ in range(3):
        np.testing.assert_allclose(compiled(batch, *rest), expected, rtol=1e-11, atol=1e-30)
    gradient = [2 * f(p, *rest) @ wg.jacobian(f)(p, *rest) if np.ndim(f(p, *rest)) else
                2 * f(p, *rest) * wg.jacobian(f)(p, *rest) for p in batch]  # fmt: skip
    np.testing.assert_allclose(wg.grad(compiled)(batch, *rest), gradient, rtol=1e-9, atol=1e-12)


def test_batch_within_a_program_reads_traced_values_of_the_function_around():
    def total(q, batch):
        return np.sum(wg.vmap(lambda p: pair_root(p * q))(batch) ** 2)

    batch, step = POINTS[:70], 1e-6
    expected = (total(1.1 + step, batch) - total(1.1 - step, batch)) / (2 * step)
    for f in (total, wg.compile(total)):
        np.testing.assert_allclose(wg.derivative(f)(1.1, batch), expected, rtol=1e-7)


def test_function_that_is_not_compiled_decides_about_elements_without_a_root():
    def f(p):
        found = optimize.root(lambda x: x**2 + p, [3.0], method="newton")
        return found.x if found.success else [np.nan]

    points = np.full(MIN_COMPILED, -2.0)
    points[5] = 1.0
    found = wg.vmap(f)(points)
    assert np.flatnonzero(np.isnan(found[:, 0])).tolist() == [5]


def test_scipys_own_names_take_batches():
    points = np.linspace(0.5, 2.0, MIN_COMPILED)
    for solver in (by_method(plain, bracket=(0.0, 3.0)), lambda p: plain.newton(lambda x: x**3 + p * x - 2, 1.0)):
        mapped = wg.vmap(solver)
        np.testing.assert_allclose(mapped(points), looped(solver, points, ()), rtol=1e-11)
        assert mapped._compiled.paths == 1


# ---- linear equations


PATTERNS = {
    "one": (1, None, False),
    "small": (5, None, False),
    "estimated": (16, None, False),
    "lapack": (40, None, False),
    "band": (60, (2, 1), True),
    "upper band": (30, (0, 3), True),
    "lower band": (30, (3, 0), True),
    "wide band": (90, (20, 15), True),
    "scattered": (60, (2, 1), False),
    "sparse": (60, (2, 1), None),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_linear_systems_are_solved_for_each_pattern(name):
    n, band, is_banded = PATTERNS[name]
    dense = RNG.standard_normal((n, n)) + 4 * np.eye(n)
    dense *= 10.0 ** RNG.uniform(-3, 3, (n, 1))
    rows = columns = None
    if band:
        dense = np.tril(np.triu(dense, -band[0]), band[1])
        rows, columns = np.nonzero(dense)
    linear = Linear(n, rows, columns, bool(is_banded), is_banded is None)
    data = dense[linear.rows, linear.columns]
    b = RNG.standard_normal((3, n))
    for _ in range(2):
        np.testing.assert_allclose(linear.solve(data, b, False), np.linalg.solve(dense, b.T).T, rtol=1e-8)
        np.testing.assert_allclose(linear.solve(data, b, True), np.linalg.solve(dense.T, b.T).T, rtol=1e-8)
    many = np.stack([data, 2 * data, -data])
    expected = np.linalg.solve(dense, b.T).T * [[1.0], [0.5], [-1.0]]
    np.testing.assert_allclose(linear.solve(many, b, False), expected, rtol=1e-8)
    restored = pickle.loads(pickle.dumps(linear))
    np.testing.assert_array_equal(restored.solve(data, b, False), linear.solve(data, b, False))
    with pytest.raises(GuardError, match="Singular"):
        linear.solve(0 * data, b, False)


def test_linear_equations_refuse_a_pattern_out_of_range():
    with pytest.raises(ValueError, match="out of range"):
        Linear(3, [0, 3], [0, 0])


# ---- SciPy's own names


@pytest.mark.parametrize("method", ["hybr", "lm"])
def test_compiled_functions_record_roots_under_the_name_of_scipy(method):
    def f(p):
        return plain.root(pair, np.array([1.0, 0.5]), args=(p,), method=method).x

    compiled = wg.compile(f)
    for p in POINTS[:6]:
        np.testing.assert_allclose(compiled(p), f(p), rtol=1e-12)
    assert compiled.paths == 1
    J = wg.jacobian(compiled)
    for p in POINTS[:6]:
        np.testing.assert_allclose(J(p), wg.jacobian(hybr_root)(p), rtol=1e-7)
    assert J.paths == 1


def test_compiled_functions_record_fsolve_under_the_name_of_scipy():
    compiled = wg.compile(lambda p: plain.fsolve(pair, np.array([1.0, 0.5]), args=(p,)))
    for p in POINTS[:6]:
        np.testing.assert_allclose(compiled(p), plain.fsolve(pair, np.array([1.0, 0.5]), args=(p,)), rtol=1e-12)
    assert compiled.paths == 1
    np.testing.assert_allclose(wg.jacobian(compiled)(POINTS[0]), wg.jacobian(hybr_root)(POINTS[0]), rtol=1e-7)
