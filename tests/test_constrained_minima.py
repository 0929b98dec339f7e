"""Derivatives of minima at bounds and under constraints, against closed forms and differences of solved conditions."""

import functools

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse

import wengert as wg
from wengert.scipy import optimize

COBYQA = ["COBYQA"] if hasattr(scipy.optimize, "_cobyqa_py") else []  # SciPy 1.14
METHODS = ["SLSQP", "trust-constr", *COBYQA]
inf = np.inf


def above(f):
    """Return the constraint f(x) >= 0."""
    return {"type": "ineq", "fun": f}


def equal(f):
    """Return the constraint f(x) = 0."""
    return {"type": "eq", "fun": f}


#: Hock and Schittkowski (1981), Test Examples for Nonlinear Programming Codes, with parameters in place of constants.
#: name: objective, constraints and bounds as functions of p; start, p, solution
PROBLEMS = {
    "HS6": (
        lambda x, p: (p[0] - x[0]) ** 2,
        lambda p: [equal(lambda x: 10 * (x[1] - p[1] * x[0] ** 2))],
        None, [-1.2, 1.0], [1.0, 1.0], [1.0, 1.0],
    ),
    "HS7": (
        lambda x, p: np.log(p[0] + x[0] ** 2) - x[1],
        lambda p: [equal(lambda x: (1 + x[0] ** 2) ** 2 + x[1] ** 2 - p[1])],
        None, [2.0, 2.0], [1.0, 4.0], [0.0, 3**0.5],
    ),
    "HS10": (
        lambda x, p: x[0] - p[0] * x[1],
        lambda p: [above(lambda x: -3 * x[0] ** 2 + 2 * x[0] * x[1] - x[1] ** 2 + p[1])],
        None, [-10.0, 10.0], [1.0, 1.0], [0.0, 1.0],
    ),
    "HS12": (
        lambda x, p: x[0] ** 2 / 2 + x[1] ** 2 - x[0] * x[1] - p[0] * x[0] - 7 * x[1],
        lambda p: [above(lambda x: p[1] - 4 * x[0] ** 2 - x[1] ** 2)],
        None, [0.0, 0.0], [7.0, 25.0], [2.0, 3.0],
    ),
    "HS21": (
        lambda x, p: 0.01 * x[0] ** 2 + x[1] ** 2 - 100,
        lambda p: [above(lambda x: p[1] * x[0] - x[1] - 10)],
        lambda p: [(p[0], 50), (-50, 50)], [3.0, -1.0], [2.0, 10.0], [2.0, 0.0],
    ),
    "HS28": (
        lambda x, p: (x[0] + x[1]) ** 2 + (p[0] * x[1] + x[2]) ** 2,
        lambda p: [equal(lambda x: x[0] + 2 * x[1] + 3 * x[2] - p[1])],
        None, [-4.0, 1.0, 1.0], [1.0, 1.0], [0.5, -0.5, 0.5],
    ),
    "HS35": (
        lambda x, p: 9 - p[0] * x[0] - 6 * x[1] - 4 * x[2] + 2 * x[0] ** 2 + 2 * x[1] ** 2 + x[2] ** 2
        + 2 * x[0] * x[1] + 2 * x[0] * x[2],
        lambda p: [above(lambda x: p[1] - x[0] - x[1] - 2 * x[2])],
        lambda p: [(0, None)] * 3, [0.5, 0.5, 0.5], [8.0, 3.0], [4 / 3, 7 / 9, 4 / 9],
    ),
    "HS43, Rosen-Suzuki": (
        lambda x, p: x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - p[0] * x[2] + 7 * x[3],
        lambda p: [
            above(lambda x: p[1] - x @ x - x[0] + x[1] - x[2] + x[3]),
            above(lambda x: 10 - x[0] ** 2 - 2 * x[1] ** 2 - x[2] ** 2 - 2 * x[3] ** 2 + x[0] + x[3]),
            above(lambda x: 5 - 2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3]),
        ],
        None, [0.0, 0.0, 0.0, 0.0], [21.0, 8.0], [0.0, 1.0, 2.0, -1.0],
    ),
    "HS71": (
        lambda x, p: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        lambda p: [above(lambda x: np.prod(x) - p[0]), equal(lambda x: x @ x - p[1])],
        lambda p: [(1, 5)] * 4, [1.0, 5.0, 5.0, 1.0], [25.0, 40.0], [1.0, 4.7429994, 3.8211503, 1.3794082],
    ),
    "HS76": (
        lambda x, p: x[0] ** 2 + x[1] ** 2 / 2 + x[2] ** 2 + x[3] ** 2 / 2 - x[0] * x[2] + x[2] * x[3] - x[0]
        - p[0] * x[1] + x[2] - x[3],
        lambda p: [
            optimize.LinearConstraint([[1, 2, 1, 1], [3, 1, 2, -1.0]], -inf, np.stack([p[1], 4.0])),
            optimize.LinearConstraint([[0, 1.0, 4, 0]], 1.5, inf),
        ],
        lambda p: [(0, None)] * 4, [0.5, 0.5, 0.5, 0.5], [3.0, 5.0], [0.2727273, 2.090909, 0.0, 0.5454545],
    ),
}  # fmt: skip


def solve(name, p, method="SLSQP", **options):
    objective, constraints, bounds, start, *_ = PROBLEMS[name]
    return optimize.minimize(
        objective, start, args=(p,), method=method, constraints=constraints(p), bounds=bounds and bounds(p), **options
    )


def by_differences(name, p):
    """Return the derivatives of the solution and of the minimum by differences of nearby problems solved tightly."""

    def at(q):
        found = solve(name, q, options={"ftol": 1e-15, "maxiter": 500})
        return np.append(found.x, found.fun)

    h = 1e-3
    columns = [
        (8 * (at(p + h * e) - at(p - h * e)) - at(p + 2 * h * e) + at(p - 2 * h * e)) / (12 * h) for e in np.eye(2)
    ]
    found = np.array(columns).T
    return found[:-1], found[-1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_derivatives_of_hock_schittkowski_problems(name, method):
    *_, p, x = PROBLEMS[name]
    p = np.array(p)
    options = {"options": {"gtol": 1e-10, "xtol": 1e-12, "maxiter": 3000}} if method == "trust-constr" else {}
    found = solve(name, p, method, **options)
    np.testing.assert_allclose(found.x, x, rtol=1e-3, atol=1e-3)
    of_x = lambda p: solve(name, p, method, **options).x
    of_fun = lambda p: solve(name, p, method, **options).fun
    forward, reverse = (wg.jacobian(of_x, mode=mode)(p) for mode in ("forward", "reverse"))
    np.testing.assert_allclose(forward, reverse, rtol=1e-8, atol=1e-10)
    expected, slope = by_differences(name, p)
    np.testing.assert_allclose(forward, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(wg.grad(of_fun)(p), slope, rtol=1e-5, atol=1e-6)
    curvature = wg.hessian(of_fun)(p)
    np.testing.assert_allclose(curvature, wg.jacobian(wg.grad(lambda p: solve(name, p).fun))(p), rtol=1e-6, atol=1e-7)

    def bits(q):
        inside = solve(name, q, method, **options)
        assert np.array_equal(wg.stop_gradient(inside.x), found.x)
        assert wg.stop_gradient(inside.fun) == found.fun
        return inside.fun

    wg.grad(bits)(p)


def test_slsqp_receives_exact_derivatives_and_returns_bits_of_scipy():
    p = np.array([25.0, 40.0])
    objective, constraints, bounds, start, *_ = PROBLEMS["HS71"]
    exact = [{**c, "jac": wg.jacobian(c["fun"])} for c in constraints(p)]
    expected = scipy.optimize.minimize(
        objective, start, args=(p,), jac=wg.grad(objective), bounds=bounds(p), constraints=exact, method="SLSQP"
    )
    assert np.array_equal(solve("HS71", p).x, expected.x) and solve("HS71", p).nfev == expected.nfev
    nonlinear = scipy.optimize.NonlinearConstraint(lambda x: np.prod(x), 25.0, inf)
    with_exact = scipy.optimize.NonlinearConstraint(lambda x: np.prod(x), 25.0, inf, jac=wg.jacobian(np.prod))
    found, expected = (
        solver(objective, start, args=(p,), jac=wg.grad(objective), bounds=bounds(p), constraints=c, method="SLSQP").x
        for solver, c in ((optimize.minimize, nonlinear), (scipy.optimize.minimize, with_exact))
    )
    assert np.array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:delta_grad:UserWarning")
def test_trust_constr_receives_exact_hessians_of_constraints():
    def ring(x):
        return [x @ x, x[0] * x[1] ** 3]

    def weighted(x, multipliers):
        return multipliers[0] * (x @ x) + multipliers[1] * x[0] * x[1] ** 3

    def distance(x):
        return (x[0] - 2) ** 2 + (x[1] + 1) ** 4

    exact = scipy.optimize.NonlinearConstraint(
        ring, [0.5, -1.0], [1.0, 1.0], jac=wg.jacobian(ring), hess=wg.hessian(weighted)
    )
    by_updates = scipy.optimize.NonlinearConstraint(ring, [0.5, -1.0], [1.0, 1.0], hess=scipy.optimize.SR1())
    default = scipy.optimize.NonlinearConstraint(ring, [0.5, -1.0], [1.0, 1.0])
    options = {"method": "trust-constr", "options": {"gtol": 1e-10, "xtol": 1e-12}}
    expected = scipy.optimize.minimize(
        distance, [0.5, 0.5], jac=wg.grad(distance), hess=wg.hessian(distance), constraints=exact, **options
    )
    found = optimize.minimize(distance, [0.5, 0.5], constraints=default, **options)
    assert np.array_equal(found.x, expected.x) and found.nit == expected.nit
    other = optimize.minimize(distance, [0.5, 0.5], constraints=by_updates, **options)
    assert other.nit != found.nit and np.allclose(other.x, found.x, atol=1e-4)


# ---- closed forms


def projection(p, method="SLSQP", **options):
    """Nearest point to the first two of p on the circle with radius p[2]."""
    circle = optimize.NonlinearConstraint(lambda x: x @ x, -inf, p[2] ** 2)
    return optimize.minimize(
        lambda x: np.sum((x - p[:2]) ** 2), [0.1, 0.2], method=method, constraints=circle, **options
    )


@pytest.mark.parametrize("method", [*METHODS, "COBYLA"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_projection_onto_circle_to_third_order(method):
    p = np.array([3.0, 4.0, 2.0])
    exact = lambda p: p[2] * p[:2] / np.sqrt(p[0] ** 2 + p[1] ** 2)
    found = lambda p: projection(p, method).x
    for _ in range(3):
        exact, found = wg.jacobian(exact), wg.jacobian(found)
        np.testing.assert_allclose(found(p), exact(p), rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(wg.grad(lambda p: projection(p, method).fun)(p), [3.6, 4.8, -6], rtol=1e-8)
    np.testing.assert_allclose(
        wg.hessian(lambda p: projection(p, method).fun)(p),
        wg.hessian(lambda p: (np.sqrt(p[0] ** 2 + p[1] ** 2) - p[2]) ** 2)(p),
        rtol=1e-7, atol=1e-9,
    )  # fmt: skip


@pytest.mark.parametrize(
    "method", ["L-BFGS-B", "TNC", "SLSQP", "Nelder-Mead", "Powell", "trust-constr", "COBYLA", *COBYQA]
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_traced_bounds_in_every_method_that_takes_them(method):
    def found(p, what="x"):
        bounds = optimize.Bounds([-9.0, -9.0], [p[1], 9.0])
        options = {"maxiter": 2000} if method == "trust-constr" else {}
        return optimize.minimize(
            lambda x: (x[0] - p[0]) ** 2 + (x[1] - x[0] ** 2) ** 2,
            [0.0, 0.0],
            bounds=bounds,
            method=method,
            options=options,
        )[what]

    p = np.array([3.0, 1.5])  # x = (p1, p1^2), fun = (p1 - p0)^2
    np.testing.assert_allclose(wg.jacobian(found)(p), [[0, 1], [0, 3]], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(wg.jacobian(wg.jacobian(found))(p)[:, 1, 1], [0, 2], rtol=1e-8, atol=1e-10)
    fun = functools.partial(found, what="fun")
    np.testing.assert_allclose(wg.grad(fun)(p), [3, -3], rtol=1e-5)
    np.testing.assert_allclose(wg.hessian(fun)(p), [[2, -2], [-2, 2]], rtol=1e-7, atol=1e-9)
    q = np.array([1.0, 1.5])  # no bound is active
    np.testing.assert_allclose(wg.jacobian(found)(q), [[1, 0], [2, 0]], rtol=1e-8, atol=1e-8)


def test_vertex_of_linear_program():
    """With as many active constraints as variables, the solution follows the constraints alone."""

    def vertex(p):
        plane = optimize.LinearConstraint(
            np.stack([np.stack([1.0, p[0]]), np.array([3.0, 1.0])]), -inf, np.stack([p[1], 6.0])
        )
        return optimize.minimize(
            lambda x: -x[0] - x[1], [0.1, 0.1], method="SLSQP", constraints=plane, bounds=[(0, None)] * 2
        ).x

    exact = lambda p: np.linalg.solve(np.stack([np.stack([1.0, p[0]]), np.array([3.0, 1.0])]), np.stack([p[1], 6.0]))
    p = np.array([2.0, 4.0])
    np.testing.assert_allclose(wg.jacobian(vertex)(p), wg.jacobian(exact)(p), rtol=1e-9)


def test_minimum_with_constant_solution_has_derivative_of_its_value():
    assert wg.grad(lambda p: optimize.minimize(lambda x: (x[0] - 1) ** 2 + p**2, [0.0]).fun, 3.0) == 6
    bounded = lambda p: optimize.minimize(lambda x: (x[0] - 1) ** 2 + p**2, [0.0], bounds=[(2, 3)]).fun
    assert wg.grad(bounded, 3.0) == 6


def test_bounds_from_an_iterator():
    found = lambda p: optimize.minimize(lambda x: (x[0] - 2) ** 2, [0.6], bounds=zip([-1], [p])).x
    np.testing.assert_allclose(wg.jacobian(found)(1.0), [1])


def test_other_methods_ignore_bounds():
    with pytest.warns(RuntimeWarning, match="cannot handle bounds"):
        found = wg.jacobian(
            lambda p: optimize.minimize(lambda x: (x[0] - p) ** 2, [0.0], method="BFGS", bounds=[(0, 1)]).x
        )(2.0)
    np.testing.assert_allclose(found, [1])


def test_fixed_variable_has_derivative_of_its_value():
    def found(p):
        bounds = optimize.Bounds(np.stack([p, -9.0]), np.stack([p, 9.0]))
        return optimize.minimize(lambda x: np.sum((x - 2) ** 2) + x[0] * x[1], [0.3, 0.1], bounds=bounds).x

    np.testing.assert_allclose(wg.jacobian(found)(1.0), [1, -0.5], rtol=1e-9)


def test_global_value_in_constraint():
    class Held:
        p = 1.0

    def found(p):
        Held.p = p
        half = above(lambda x: Held.p - x[0] - x[1])
        return optimize.minimize(lambda x: np.sum((x - Held.p) ** 2), [0.3, 0.1], method="SLSQP", constraints=half).x

    np.testing.assert_allclose(wg.jacobian(found)(2.0), [0.5, 0.5], rtol=1e-9)


# ---- points without derivatives


def nearest(p, constraints, **options):
    return optimize.minimize(
        lambda x: np.sum((x - p) ** 2), [0.3, 0.1], constraints=constraints, method="SLSQP", **options
    ).x


def test_weakly_active_constraint_raises():
    touching = above(lambda x: 2 - x[0] - x[1])
    np.testing.assert_allclose(wg.jacobian(nearest)(0.9, touching), [1, 1], rtol=1e-9)
    np.testing.assert_allclose(wg.jacobian(nearest)(1.1, touching), [0, 0], atol=1e-9)
    with pytest.raises(wg.NonSmoothError, match="undecided whether constraint 0 is active"):
        wg.jacobian(nearest)(1.0, touching)
    with pytest.raises(wg.NonSmoothError, match="undecided whether the bound of variable 0 is active"):
        wg.jacobian(nearest)(1.0, (), bounds=[(1, 2), (0, 2)])


def test_bound_that_meets_the_other_one_raises():
    def low_and_high(p):
        return optimize.minimize(lambda x: np.sum((x - 3.0) ** 2), [1.0, 0.0], bounds=[(1.0, p), (0.0, None)]).fun

    def linear(p):
        return optimize.linprog([1.0, 1.0], bounds=[(p, 1.0), (0.0, 2.0)]).fun

    def arrays(p):
        bounds = optimize.Bounds([0.0, 0.5], np.stack([1.0, p / 2]))
        return optimize.minimize(lambda x: np.sum((x - 3.0) ** 2), [1.0, 0.5], bounds=bounds).fun

    def integers(p):
        return optimize.milp([1.0], integrality=0, bounds=optimize.Bounds(p, 1.0)).fun

    with pytest.raises(wg.NonSmoothError, match="bounds of variable 1 are equal, and only one of them is traced"):
        wg.grad(arrays)(1.0)
    assert wg.grad(arrays)(2.0) == pytest.approx(-2.0)
    for f in (low_and_high, linear, integers):
        with pytest.raises(wg.NonSmoothError, match="bounds of variable 0 are equal, and only one of them is traced"):
            wg.grad(f)(1.0)
    fixed = lambda p: optimize.minimize(lambda x: np.sum((x - 3.0) ** 2), [1.0, 0.0], bounds=[(1.0, 1.0), (0.0, p)])
    np.testing.assert_allclose(wg.jacobian(lambda p: fixed(p).x)(2.0), [0.0, 1.0], atol=1e-12)
    mixed = lambda p: optimize.linprog([1.0, 1.0], bounds=[(1.0, 1.0), (p, None)]).x
    np.testing.assert_allclose(wg.jacobian(mixed)(2.0), [0.0, 1.0], atol=1e-12)


def plane(x):
    return np.sum((x - 3.0) ** 2) + x[0] * x[1]


MEETING = {
    "pairs": lambda a, b: optimize.minimize(plane, [1.0, 0.0], bounds=[(a, b), (0, 9)]).x,
    "arrays": lambda a, b: optimize.minimize(
        plane, [1.0, 0.0], bounds=optimize.Bounds(np.stack([a, 0.0]), np.stack([b, 9.0]))
    ).x,
    "limits": lambda a, b: optimize.minimize(
        plane, [1.0, 0.0], method="SLSQP", constraints=optimize.LinearConstraint([[1.0, 0.0]], a, b)
    ).x,
    "scalar": lambda a, b: np.stack([optimize.minimize_scalar(lambda x: (x - 3) ** 2, bounds=(a, b)).x, 0.0]),
    "linear program": lambda a, b: optimize.linprog([1.0, 1.0], bounds=[(a, b), (0.0, 2.0)]).x,
    "integer program": lambda a, b: optimize.milp([1.0, 1.0], bounds=optimize.Bounds(a, b)).x,
    "conditions": lambda a, b: wg.implicit.kkt(plane, np.zeros(2), bounds=[(a, b), (0.0, 9.0)])[0],
}


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", MEETING)
def test_limits_that_meet_move_together_or_raise(name, mode):
    solve = MEETING[name]
    with pytest.raises(wg.NonSmoothError, match="are equal, but they are different traced values"):
        wg.jacobian(lambda p: solve(p[0], p[1]), mode=mode)(np.array([1.0, 1.0]))
    if name == "arrays" and mode == "reverse":  # joined twice, the value is a new one
        return
    found = wg.jacobian(lambda p: solve(p, p), mode=mode)(1.0)
    free = {"integer program": 1.0, "linear program": 0.0, "scalar": 0.0}.get(name, -0.5)
    np.testing.assert_allclose(found, [1.0, free], atol=1e-9)


def test_equal_limits_in_one_argument_are_an_equation():
    def solve(p):
        fixed = optimize.LinearConstraint([[1.0, 0.0]], p[:1], p[:1])
        return optimize.minimize(plane, [1.0, 0.0], method="SLSQP", constraints=fixed).x

    def at(p):
        return optimize.minimize(plane, [1.0, 0.0], bounds=optimize.Bounds(p, p)).x

    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(wg.jacobian(solve, mode=mode)(np.array([1.0])), [[1.0], [-0.5]], rtol=1e-9)
        np.testing.assert_allclose(wg.jacobian(at, mode=mode)(np.array([1.0, 2.0])), np.eye(2), atol=1e-12)


def test_dependent_constraints_raise():
    twice = [above(lambda x: 1 - x[0] - x[1]), above(lambda x: 2 - 2 * x[0] - 2 * x[1])]
    with pytest.raises(wg.SingularJacobianError, match="linearly dependent"):
        wg.jacobian(nearest)(2.0, twice)
    np.testing.assert_allclose(wg.jacobian(lambda p: nearest(p, twice, on_singular="lstsq"))(2.0), [0, 0], atol=1e-9)
    equations = [equal(lambda x: x[0] + x[1] - 1), equal(lambda x: 2 * x[0] + 2 * x[1] - 2)]
    with pytest.raises((wg.SingularJacobianError, wg.ConvergenceError)):
        wg.jacobian(nearest)(2.0, equations)


def test_undetermined_minimum_raises():
    flat = lambda p: (
        optimize.minimize(
            lambda x: (x[0] - p) ** 2, [0.0, 0.0, 0.5], method="SLSQP", constraints=equal(lambda x: x[1] + x[2] - 1)
        ).x
    )
    with pytest.raises(wg.SingularJacobianError):
        wg.jacobian(flat)(2.0)


def test_search_that_stops_early_raises():
    early = {"options": {"maxiter": 2}}
    with pytest.raises(wg.ConvergenceError, match="has not converged"):
        wg.grad(lambda p: solve("HS71", p, **early).fun)(np.array([25.0, 40.0]))
    with pytest.warns(RuntimeWarning, match="has not converged"):
        wg.grad(lambda p: solve("HS71", p, on_failure="warn", **early).fun)(np.array([25.0, 40.0]))
    unknown = wg.jacobian(lambda p: solve("HS71", p, on_failure="nan", **early).x)(np.array([25.0, 40.0]))
    assert np.isnan(unknown).any()


def test_line_search_that_stalls_at_a_solution_has_found_it():
    def rosen_suzuki(p):
        conditions = lambda x: [
            8 * p[0] - x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - x[3] ** 2 - x[0] + x[1] - x[2] + x[3],
            10 - x[0] ** 2 - 2 * x[1] ** 2 - x[2] ** 2 - 2 * x[3] ** 2 + p[1] * x[0] + x[3],
            5 - 2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3],
        ]
        return scipy.optimize.minimize(
            lambda x: x[0] ** 2 + x[1] ** 2 + 2 * x[2] ** 2 + x[3] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
            np.zeros(4),
            method="SLSQP",
            constraints=above(conditions),
            options={"ftol": 1e-15},
        )

    np.testing.assert_allclose(wg.grad(lambda p: rosen_suzuki(p).fun)(np.ones(2)), [-8.0, 0.0], atol=1e-6)

    def bowl(p):
        A = np.array([[1.0, 10.0], [-1.0, 1.0]])
        z = lambda x: A @ x - np.stack([p, 0.0])
        slope = lambda x: A.T @ np.expm1(z(x)) + 1e-13  # never below the tolerance, so that the search must stall
        options = {"gtol": 1e-15}
        return scipy.optimize.minimize(lambda x: np.sum(np.exp(z(x)) - z(x)), [0.3, -0.1], jac=slope, options=options)

    assert not bowl(0.0).success
    np.testing.assert_allclose(wg.jacobian(lambda p: bowl(p).x)(0.0), [1 / 11, 1 / 11], rtol=1e-9)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYLA"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_error_names_a_violated_constraint(method):
    contradiction = [above(lambda x: x[0] - 2), above(lambda x: 1 - x[0])]
    with pytest.raises(wg.ConvergenceError, match=r"constraint [01] is violated by .*relax them, or let slack"):
        wg.jacobian(
            lambda p: optimize.minimize(
                lambda x: p * np.sum(x**2), [1.0, 1.0], method=method, constraints=contradiction
            ).x
        )(1.0)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "Nelder-Mead", "SLSQP"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_error_says_that_an_objective_may_be_unbounded(method):
    with pytest.raises(wg.ConvergenceError, match=r"may be unbounded: add bounds"):
        wg.jacobian(
            lambda p: (
                optimize.minimize(lambda x: p * x[0] + x[1] ** 2, [1.0, 1.0], method=method, options={"maxiter": 9}).x
            )
        )(1.0)


@pytest.mark.parametrize("method", ["BFGS", "L-BFGS-B", "CG", "trust-ncg", "dogleg"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_objective_that_is_nan_is_no_minimum(method):
    with pytest.raises(wg.ConvergenceError, match=r"the objective is nan at the (solution|start)"):
        wg.jacobian(lambda p: optimize.minimize(lambda x: p * np.sum(x**2) + np.nan, [1.0, 1.0], method=method).x)(1.0)


def test_fields_of_results_at_constraints_raise():
    with pytest.raises(wg.TracedValueError, match="'jac' of this result is not differentiated"):
        wg.grad(lambda p: solve("HS71", p)["jac"][0])(np.array([25.0, 40.0]))
    found = scipy.optimize.minimize(lambda x: x @ x, [1.0], method="SLSQP")
    if "multipliers" in found:  # SciPy 1.16
        with pytest.raises(wg.TracedValueError, match=r"'multipliers' of this result.*implicit.kkt"):
            wg.grad(lambda p: solve("HS71", p)["multipliers"][0])(np.array([25.0, 40.0]))


# ---- values where the solution has a kink


def projected(p):
    """Distance of p from the half-space x <= 0, squared: max(p, 0)**2, whose slope has a kink at 0."""
    return optimize.minimize(lambda x: (x[0] - p) ** 2, [-0.5], bounds=[(None, 0.0)], tol=1e-12)


def on_a_line(p):
    """The same by a constraint, beside another variable."""
    constraint = {"type": "ineq", "fun": lambda x: -x[0] - x[1]}
    return optimize.minimize(lambda x: np.sum((x - p) ** 2), [-0.5, 0.0], constraints=constraint, tol=1e-12)


def moved_limit(p):
    """Minimise x**2 subject to x >= p."""
    return optimize.minimize(lambda x: x[0] ** 2, [0.5], bounds=[(p, None)], tol=1e-12)


@pytest.mark.parametrize("f", [projected, on_a_line, moved_limit])
def test_value_has_a_derivative_at_a_weakly_active_constraint(f):
    assert wg.derivative(lambda p: f(p).fun, 0.0) == pytest.approx(0.0, abs=1e-7)
    shifted = wg.derivative(lambda p: f(p - 1e-9).fun + 3 * p, 0.0)
    assert shifted == pytest.approx(3.0, abs=1e-7)
    with pytest.raises(wg.NonSmoothError, match="undecided whether"):
        wg.jacobian(lambda p: f(p).x)(0.0)
    with pytest.raises(wg.NonSmoothError, match="undecided whether"):
        wg.derivative(lambda p: f(p).fun, 0.0, order=2)
    with pytest.raises(wg.NonSmoothError, match="undecided whether"):
        wg.hessian(lambda p: f(p[0]).fun)(np.zeros(1))


def test_value_at_a_weak_constraint_depends_on_other_parameters():
    def value(p):
        return optimize.minimize(
            lambda x: (x[0] - p[0]) ** 2 + p[1] * np.cosh(x[1] - p[2]), [-0.5, 1.0], bounds=[(None, 0.0), (None, None)]
        ).fun

    slopes = wg.grad(value)(np.array([0.0, 2.0, 0.7]))
    np.testing.assert_allclose(slopes, [0.0, 1.0, 0.0], atol=1e-6)


def test_value_of_a_linear_program_with_many_solutions_follows_the_limits():
    A = np.array([[1.0, 1.0], [0.0, 1.0]])

    def program(b, c):
        return optimize.linprog(c, A_ub=A, b_ub=b)

    b, c = np.array([4.0, 3.0]), np.array([-1.0, -1.0])  # any point of the line x + y = 4 is a solution
    np.testing.assert_allclose(wg.grad(lambda b: program(b, c).fun)(b), [-1.0, 0.0], atol=1e-12)
    with pytest.raises(wg.NonSmoothError, match="undecided whether"):
        wg.jacobian(lambda b: program(b, c).x)(b)
    with pytest.raises(wg.SingularJacobianError, match="do not determine x"):
        wg.grad(lambda c: program(b, c).fun)(c)


def test_value_of_a_degenerate_linear_program_is_refused():
    A = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # three constraints meet in (1, 1)
    b, c = np.array([1.0, 1.0, 2.0]), np.array([-1.0, -1.0])
    with pytest.raises(wg.SingularJacobianError, match="linearly dependent"):
        wg.grad(lambda b: optimize.linprog(c, A_ub=A, b_ub=b).fun)(b)


#: edges of a network with their capacities, from node 0 to node 3
NETWORK = [(0, 1), (0, 2), (1, 2), (1, 3), (2, 3)]


def largest_flow(capacities):
    """Return the linear program of the largest flow, whose solution is not unique."""
    A = np.zeros((2, len(NETWORK)))
    for k, ends in enumerate(NETWORK):
        for node in {1, 2} & {*ends}:
            A[node - 1, k] = 1.0 if ends[1] == node else -1.0
    cost = [-1.0 if start == 0 else 0.0 for start, _ in NETWORK]
    return optimize.linprog(cost, A_eq=A, b_eq=[0.0, 0.0], bounds=[(0.0, c) for c in capacities])


def test_value_of_a_degenerate_linear_program_follows_limits_with_unique_multipliers():
    def value(q):
        return largest_flow([q[0], 2.0, 1.0, q[1], 2.0]).fun

    q = np.array([3.0, 1.5])  # the smallest cut consists of the edges that enter node 3
    for f in (value, wg.compile(value)):
        np.testing.assert_allclose(wg.grad(f)(q), [0.0, -1.0], atol=1e-12)
        np.testing.assert_allclose(wg.hessian(f)(q), np.zeros((2, 2)), atol=1e-12)
    with pytest.raises(wg.NonSmoothError, match=r"not unique, or has a kink.*The value has a derivative in the limits"):
        wg.jacobian(lambda q: largest_flow([q[0], 2.0, 1.0, q[1], 2.0]).x)(q)
    with pytest.raises((wg.SingularJacobianError, wg.NonSmoothError)):  # two cuts are the smallest
        wg.grad(lambda q: largest_flow([q[0], 0.5, 1.0, 1.5, q[1]]).fun)(np.array([1.5, 0.5]))


def test_violated_constraint_is_added_to_the_active_set():
    def inaccurate(fun, x0, args=(), **options):
        return scipy.optimize.OptimizeResult(x=np.array([0.995]), fun=0.0, success=True, message="")

    def f(p, solver):
        return optimize.minimize(lambda x: (x[0] - 2.0 * p[1]) ** 2, [0.0], bounds=[(None, p[0])], method=solver).x

    slopes = wg.jacobian(lambda p: f(p, inaccurate))(np.ones(2))  # the solver stops too far from the bound to see it
    np.testing.assert_allclose(slopes, [[1.0, 0.0]], atol=1e-12)


def test_violated_constraints_are_added_one_after_the_other():
    def inaccurate(fun, x0, args=(), **options):
        return scipy.optimize.OptimizeResult(x=np.array([0.996, 0.997]), fun=0.0, success=True, message="")

    def f(p):
        constraint = {"type": "ineq", "fun": lambda x: p[:2] - x}
        return optimize.minimize(
            lambda x: np.sum((x - 3.0 * p[2]) ** 2), np.zeros(2), constraints=constraint, method=inaccurate
        ).x

    np.testing.assert_allclose(wg.jacobian(f)(np.ones(3)), [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], atol=1e-12)


# ---- problems without a minimum


@pytest.mark.parametrize("method", ["L-BFGS-B", "COBYQA", None])
def test_unbounded_objective_is_no_minimum(method):
    def lowest(p):
        return optimize.minimize(lambda x: p * x[0] + x[1] ** 2, [1.0, 1.0], method=method).fun

    with pytest.raises(
        (wg.SingularJacobianError, wg.ConvergenceError), match=r"objective may be unbounded|has not converged"
    ):
        wg.derivative(lowest)(0.5)


def test_linear_programs_without_a_solution_say_what_to_do():
    with pytest.raises(wg.ConvergenceError, match=r"the problem is infeasible.*Relax them"):
        wg.derivative(lambda p: optimize.linprog([1.0, 1.0], A_ub=[[1.0, 0.0]], b_ub=[-p]).fun)(1.0)
    with pytest.raises(wg.ConvergenceError, match=r"the problem is unbounded.*Add bounds"):
        wg.derivative(lambda p: optimize.linprog(np.stack([-p, 1.0])).fun)(1.0)
    integers = {"integrality": 1, "constraints": ([[1.0, 1.0]], 0.2, 0.8)}
    with pytest.raises(wg.ConvergenceError, match="milp: the problem is infeasible"):
        wg.derivative(lambda p: optimize.milp(np.stack([p, 1.0]), **integers).fun)(1.0)


def test_infeasible_global_search_says_what_to_do():
    beyond = above(lambda x: x[0] - 2)
    with pytest.raises(wg.ConvergenceError, match=r"shgo has not converged.*relax them"):
        wg.derivative(lambda p: optimize.shgo(lambda x: (x[0] - p) ** 2, [(0.0, 1.0)], constraints=beyond).x)(1.0)


# ---- large problems


@pytest.fixture
def large(monkeypatch):
    """Treat problems from four variables on as large."""
    monkeypatch.setattr("wengert.scipy.large_minima.MIN_PROGRAM_SIZE", 4)


def chain(x, p=1.0):
    return np.sum((x - p) ** 2 + x**4)


SUM = equal(lambda x, total=2.0: np.sum(x) - total)
CHAINS = {
    "dictionaries": [SUM, above(lambda x: x[1:] - x[:-1] - 0.1)],
    "function": scipy.optimize.NonlinearConstraint(lambda x: [x[0] * x[1], x[2] ** 2], [0.1, 0.0], [0.2, 0.3]),
    "linear and a function": [
        scipy.optimize.LinearConstraint(np.ones((1, 6)), 2.0, 2.0),
        {"type": "ineq", "fun": lambda x, q: q - x[0] * x[1], "args": (0.05,)},
    ],
    "linear": scipy.optimize.LinearConstraint(np.ones((1, 6)), 2.0, 2.0),
}


@pytest.mark.parametrize("name", CHAINS)
def test_large_problems_have_sparse_derivatives_of_one_program(name, large):
    def solve(p=1.0, method="trust-constr", **options):
        return optimize.minimize(
            chain, np.full(6, 0.3), args=p, method=method, constraints=CHAINS[name], bounds=[(-1, 1)] * 6,
            options=options,
        )  # fmt: skip

    found, expected = solve(gtol=1e-10, xtol=1e-12), solve(method="SLSQP", ftol=1e-14)
    assert all(isinstance(J, scipy.sparse.csr_array) for J in found.jac)
    assert len(found.jac) == len(np.atleast_1d(CHAINS[name])) + 1
    np.testing.assert_allclose(found.x, expected.x, atol=1e-3)
    derivative = wg.jacobian(lambda p: solve(p, gtol=1e-10, xtol=1e-12).x)(1.0)
    np.testing.assert_allclose(derivative, wg.jacobian(lambda p: solve(p, "SLSQP").x)(1.0), atol=1e-8)


def with_state(x):
    seen.append(float(np.sum(x)))
    return np.sum(x**2)


seen: list = []
OWN = {
    "gradient": {"jac": lambda x: 2 * x},
    "hessian": {"hess": lambda x: 2 * np.eye(6)},
    "jacobian": {"constraints": {**SUM, "jac": lambda x: np.ones((1, 6))}},
    "dense": {"options": {"sparse_jacobian": False}},
    "state": {"fun": with_state},
}


@pytest.mark.filterwarnings("ignore:delta_grad == 0.0:UserWarning")
@pytest.mark.parametrize("name", OWN)
def test_large_problems_with_own_derivatives_keep_them(name, large):
    given = {"fun": lambda x: np.sum(x**2), "constraints": SUM, **OWN[name]}
    found = optimize.minimize(x0=np.arange(6.0), method="trust-constr", **given)
    assert all(isinstance(J, np.ndarray) for J in found.jac)
    np.testing.assert_allclose(found.x, 1 / 3, atol=1e-6)
