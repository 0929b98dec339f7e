"""Batches of MINPACK's hybrid method: its steps side by side, with the roots that it finds for each element."""

import numpy as np
import pytest
import scipy.optimize as plain

import wengert as wg
from wengert.scipy import optimize, recorded

RNG = np.random.default_rng(1)

#: equations, start; parameters are near 1
SYSTEMS = {
    "mild": (lambda x, p: [x[0] + 0.3 * np.exp(0.5 * x[1]) - p[0], x[1] + 0.2 * x[0] ** 2 - p[1]], [1.0, 1.0]),
    "one unknown": (lambda x, p: p[0] * x**3 + p[1] * x - 5, [0.5]),
    "badly scaled": (
        lambda x, p: [1e4 * x[0] * x[1] - p[0], np.exp(-x[0]) + np.exp(-x[1]) - 1.0001 * p[1]], [0.0, 1.0]
    ),
    "valley": (lambda x, p: [10 * (x[1] - p[0] * x[0] ** 2), 1 - p[1] * x[0]], [-1.2, 1.0]),
    "far": (lambda x, p: [x[0] ** 2 + x[1] ** 2 - 4 * p[0], x[0] * x[1] - p[1]], [30.0, -7.0]),
    "helix": (
        lambda x, p: [
            10 * (x[2] - 10 * p[0] * np.arctan2(x[1], x[0]) / (2 * np.pi)), 10 * (np.hypot(x[0], x[1]) - p[1]), x[2]
        ],
        [-1.0, 0.2, 0.0],
    ),
    "six": (lambda x, p: (3 - 2 * p[0] * x) * x - p[1] * np.roll(x, 1) - 2 * np.tanh(np.roll(x, -1)) + 1, [-1.0] * 6),
    "zero at the start": (lambda x, p: [p[0] * x[0] + x[1] ** 2, p[1] * x[1] - x[0] ** 3], [0.0, 0.0]),
}  # fmt: skip


def solver(name, how, module=optimize, **options):
    f, x0 = SYSTEMS[name]
    if how == "fsolve":
        return lambda p: module.fsolve(f, x0, args=(p,), **options)
    return lambda p: module.root(f, x0, args=(p,), **options).x


def solvable(name, p):
    return plain.root(SYSTEMS[name][0], SYSTEMS[name][1], args=(p,)).success and (
        optimize.root(SYSTEMS[name][0], SYSTEMS[name][1], args=(p,)).success
    )


def points_of(name, count=24):
    points = 1 + 0.1 * RNG.standard_normal((3 * count, 2))
    return np.array([p for p in points if solvable(name, p)][:count])


@pytest.fixture
def calls(monkeypatch):
    """Names of the solvers of SciPy that programs called."""
    found = []
    for kind in (recorded.Root, recorded.Fsolve):

        def counted(self, *args, original=kind.__call__):
            found.append(type(self).__name__)
            return original(self, *args)

        monkeypatch.setattr(kind, "__call__", counted)
    return found


@pytest.mark.parametrize("how", ["root", "fsolve"])
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.filterwarnings("ignore:The iteration is not making good progress")
def test_batch_has_the_roots_of_minpack(name, how, calls):
    points = points_of(name)
    assert len(points) > 8
    for module in (optimize, plain):  # exact Jacobians, and differences
        f = solver(name, how, module)
        expected = np.array([f(p) for p in points])
        mapped = wg.vmap(wg.compile(f))
        mapped(points)
        calls.clear()
        np.testing.assert_allclose(mapped(points), expected, rtol=1e-9, atol=1e-11)
        assert len(calls) <= 1
        J = wg.vmap(wg.jacobian(wg.compile(f)))(points[:5])
        np.testing.assert_allclose(J, [wg.jacobian(f)(p) for p in points[:5]], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("how", ["root", "fsolve"])
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.filterwarnings("ignore:The iteration is not making good progress")
def test_compiled_function_has_the_roots_of_minpack_without_calling_it(name, how, calls):
    points = points_of(name, 8)
    for module in (optimize, plain):
        f = solver(name, how, module)
        compiled = wg.compile(f)
        compiled(points[0])
        calls.clear()
        np.testing.assert_allclose([compiled(p) for p in points], [f(p) for p in points], rtol=1e-9, atol=1e-11)
        assert not calls and compiled.paths == 1
        np.testing.assert_allclose(wg.jacobian(compiled)(points[0]), wg.jacobian(f)(points[0]), rtol=1e-7, atol=1e-9)


def test_compiled_function_leaves_failures_and_bits_to_minpack(calls):
    f = lambda p: optimize.root(lambda x: [x[0] ** 2 + p, x[1] - x[0]], [3.0, 1.0]).x
    compiled = wg.compile(f)
    np.testing.assert_allclose(compiled(-2.0), 2**0.5, rtol=1e-10)
    calls.clear()
    np.testing.assert_array_equal(compiled(1.0), f(1.0))  # there is no root
    assert calls
    with pytest.raises(wg.ConvergenceError, match="has not converged"):
        wg.jacobian(compiled)(1.0)
    exact = wg.compile(solver("mild", "root"), exact=True)
    points = points_of("mild", 5)
    for p in points:
        assert np.array_equal(exact(p), solver("mild", "root")(p))


def test_options_are_those_of_minpack(calls):
    points = points_of("valley")
    given = {"factor": 0.5, "xtol": 1e-4}, {"eps": 1e-6, "maxfev": 40}
    for options in ({"tol": 1e-3}, *({"options": each} for each in given)):
        for module in (optimize, plain):
            if module is optimize and "eps" in options.get("options", {}):
                continue
            f = solver("valley", "root", module, **options)
            expected = np.array([f(p) for p in points])
            np.testing.assert_allclose(wg.vmap(wg.compile(f))(points), expected, rtol=1e-9, atol=1e-11)
    calls.clear()
    f = solver("mild", "fsolve", diag=(1.0, 2.0))
    mapped = wg.vmap(wg.compile(f))
    np.testing.assert_allclose(mapped(points), [f(p) for p in points], rtol=1e-9)
    assert len(calls) >= len(points)  # SciPy solves each


@pytest.mark.filterwarnings("ignore:The iteration is not making good progress")
def test_elements_that_minpack_does_not_solve_are_named():
    f = lambda p: optimize.root(lambda x: [x[0] ** 2 + p, x[1] - x[0]], [3.0, 1.0]).x
    points = np.full(9, -2.0)
    mapped = wg.vmap(wg.compile(f))
    np.testing.assert_allclose(mapped(points), 2**0.5, rtol=1e-10)
    points[[2, 6]] = 1.0  # there is no root
    with pytest.raises(wg.ConvergenceError, match=r"elements 2, 6 of a batch of 9 .* not solved.*progress") as caught:
        mapped(points)
    assert caught.value.elements.tolist() == [2, 6]


def test_elements_with_a_singular_start_are_left_to_scipy(calls):
    points = np.array([1.5, 1.6, 2.0, 3.0])
    for start, left in ((lambda p: [0.0, 1.0], 4), (lambda p: [p - 1.5, 1.0], 1)):
        f = lambda p, start=start: optimize.root(lambda x: [x[0] ** 2 * p - 1 + x[1], x[1] - 0.5], start(p)).x
        mapped = wg.vmap(wg.compile(f))
        mapped(points)
        calls.clear()
        np.testing.assert_allclose(mapped(points), [f(p) for p in points], rtol=1e-9)
        assert len(calls) == left


def test_elements_may_take_different_branches():
    f = lambda p: optimize.fsolve(lambda x: 2 * x + x**3 - p if x[0] > 1 else 3 * x - p, [0.5])
    points = np.array([0.5, 5.0, 0.7, 9.0])
    np.testing.assert_allclose(wg.vmap(wg.compile(f))(points), [f(p) for p in points], rtol=1e-8)


# ---- single systems with more unknowns

SIZES = 9, 18, 60, 200


def sines(x, p):
    k = np.arange(x.size)
    return x + p[0] / x.size * np.sin(np.cos(0.7 * np.subtract.outer(k, k)) @ x) - p[1] * np.cos(k)


def star(x, p):
    y = p[0] * x**3 + x - p[1]
    y[0] = y[0] + 0.1 * np.sum(x)
    y[1:] = y[1:] + 0.3 * x[0] ** 2
    return y


def boundary_value(x, p):
    h = 1 / (x.size + 1)
    t = h * np.arange(1, x.size + 1)
    return 2 * x - np.append(0.0, x[:-1]) - np.append(x[1:], 0.0) + p[0] * h * h * (x + t + p[1]) ** 3 / 2


#: equations and the value of all unknowns at the start
LARGE_SYSTEMS = {
    "tridiagonal": (
        lambda x, p: (3 - 2 * p[0] * x) * x - np.append(0.0, x[:-1]) - 2 * np.append(x[1:], 0.0) + p[1], -1.0
    ),
    "boundary value": (boundary_value, -0.2),
    "arrow": (star, 1.0),
    "dense": (sines, 0.0),
    "dogleg": (lambda x, p: p[0] * np.exp(0.3 * x) - 1.5 * p[1] + 0.1 * np.roll(x, 1), 6.0),
    "long band": (lambda x, p: x + p[0] * np.tanh(np.roll(x, 9)) - 0.2 * x * np.roll(x, -7) - p[1], 0.5),
}  # fmt: skip


@pytest.mark.parametrize("module", [optimize, plain], ids=["exact Jacobian", "differences"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", LARGE_SYSTEMS)
def test_large_systems_have_the_roots_of_minpack(name, n, module, calls):
    equations, start = LARGE_SYSTEMS[name]
    f = lambda p: module.root(equations, np.full(n, start), args=(p,)).x
    compiled, J = wg.compile(f), wg.jacobian(wg.compile(f))
    points = [np.array(p) for p in ([1.0, 1.0], [0.97, 1.02], [1.05, 0.9])]
    compiled(points[0])
    calls.clear()
    found = compiled(points[1])
    assert not calls and compiled.paths == 1
    np.testing.assert_allclose(found, f(points[1]), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(compiled(points[2]), f(points[2]), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(J(points[1]), wg.jacobian(f)(points[1]), rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("module", [optimize, plain], ids=["exact Jacobian", "differences"])
@pytest.mark.parametrize("name", LARGE_SYSTEMS)
def test_small_sparse_systems_are_solved_side_by_side(name, module, calls):
    equations, start = LARGE_SYSTEMS[name]
    f = lambda p: module.root(equations, np.full(10, start), args=(p,)).x
    points = 1 + 0.05 * RNG.standard_normal((20, 2))
    mapped = wg.vmap(wg.compile(f))
    mapped(points)
    calls.clear()
    np.testing.assert_allclose(mapped(points[::-1]), [f(p) for p in points[::-1]], rtol=1e-8, atol=1e-10)
    assert not calls
    slopes = wg.vmap(wg.jacobian(wg.compile(f)))(points[:4])
    np.testing.assert_allclose(slopes, [wg.jacobian(f)(p) for p in points[:4]], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("name", "nnz"), [("tridiagonal", 28), ("arrow", 28), ("dense", 100)])
def test_small_jacobians_keep_their_pattern(name, nnz):
    equations, start = LARGE_SYSTEMS[name]
    program = wg.record(lambda p: optimize.root(equations, np.full(10, start), args=(p,)).x, np.ones(2))
    linear = program._listing.calls[0].compute.paths.systems()[0].linear
    assert (linear.nnz, linear.is_banded) == (nnz, name == "tridiagonal")


def test_large_systems_without_a_root_are_left_to_minpack(calls):
    f = lambda p: optimize.root(lambda x: x**2 + p, np.linspace(1.0, 3.0, 40)).x
    compiled = wg.compile(f)
    np.testing.assert_allclose(compiled(-2.0), np.full(40, 2**0.5), rtol=1e-8)
    calls.clear()
    np.testing.assert_array_equal(compiled(1.0), f(1.0))
    assert calls


@pytest.mark.parametrize("module", [optimize, plain], ids=["exact Jacobian", "differences"])
@pytest.mark.parametrize("name", LARGE_SYSTEMS)
def test_large_systems_take_the_steps_of_minpack(name, module, calls):
    """A coarse tolerance ends after a few steps, at a point that depends on the Jacobian and its updates."""
    equations, start = LARGE_SYSTEMS[name]
    f = lambda p: module.root(equations, np.full(40, start), args=(p,), tol=0.03).x
    compiled, p = wg.compile(f), np.array([0.97, 1.02])
    compiled(np.ones(2))
    calls.clear()
    np.testing.assert_allclose(compiled(p), f(p), rtol=1e-8, atol=1e-12)
    assert not calls


def test_derivative_at_a_root_where_equations_with_other_patterns_meet():
    def equations(x, p):
        if x[0] > 1.0:
            return x**3 - p - 0.1 * np.append(x[1:], 0.0)
        return x**3 - p - 0.1 * np.append(0.0, x[:-1]) - 0.1 * np.append(x[2:], [0.0, 0.0])

    f = lambda p: plain.root(equations, np.full(40, 1.4), args=(p,), tol=1e-3).x
    J = wg.jacobian(wg.compile(f))
    for p in (np.float64(1.3), np.float64(1.2), np.float64(0.95), np.float64(0.91)):
        np.testing.assert_allclose(J(p), wg.jacobian(f)(p), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("n", [2, 40])
def test_small_equations_have_the_roots_of_minpack(n, calls):
    f = lambda p: plain.root(lambda x: 1e-200 * (x**2 - p * np.arange(1.0, n + 1)), np.ones(n)).x
    compiled = wg.compile(f)
    compiled(1.0)
    calls.clear()
    np.testing.assert_allclose(compiled(2.0), f(2.0), rtol=1e-8)
    assert not calls
