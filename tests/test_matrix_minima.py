"""Derivatives of linear programs and fits, and of `minimize_scalar`, against differences of solved problems."""

import numpy as np
import pytest
import scipy.optimize
from scipy.sparse import csr_array

import wengert as wg
from wengert.scipy import optimize

A = np.array([[1.0, 2.0, 0.5], [3.0, 1.0, -1.0], [0.2, 0.4, 2.0], [1.0, -1.0, 1.0]])
B = np.array([1.0, 2.0, -3.0, 0.5])
inf = np.inf


def stacked(p):
    """Return A with p in one element."""
    return A + p * np.eye(4, 3)


def box(p):
    return optimize.Bounds(-p * np.ones(3), p * np.ones(3))


def lp(p, what="x", **options):
    """Two goods with two resources; both are used up."""
    given = {"c": np.stack([-1.0, -p[0]]), "A_ub": [[1.0, 2.0], [3.0, p[1]]], "b_ub": np.stack([4.0, p[2]]), **options}
    return optimize.linprog(**given)[what]


def plan(p, **options):
    """A mixed-integer program, whose first variable is an integer."""
    given = {"integrality": [1, 0, 0], "bounds": optimize.Bounds(0, 4)}
    A, b = np.stack([np.stack([1.0, 2.0, 1.0]), np.stack([3.0, 1.0, 0.5 * p[1]])]), np.stack([p[2], 8.1])
    given["constraints"] = optimize.LinearConstraint(A, -inf, b)
    return optimize.milp(np.stack([-p[0], -1.2, -0.7]), **{**given, **options})


#: sums over rows and columns of two by two choices
CHOICES = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 1, 0], [0, 1, 0, 1]])

#: solution as a function of p, and p
CASES = {
    "lsq_linear A": (lambda p: optimize.lsq_linear(stacked(p), B).x, 0.3),
    "lsq_linear b": (lambda p: optimize.lsq_linear(A, p * B).x, 0.3),
    "lsq_linear bounds": (lambda p: optimize.lsq_linear(A, B, bounds=(-p, [p, inf, inf]), tol=1e-14).x, 0.3),
    "lsq_linear bvls": (lambda p: optimize.lsq_linear(stacked(p), B, bounds=(-p, p), method="bvls").x, 0.3),
    "lsq_linear Bounds": (lambda p: optimize.lsq_linear(A, B, bounds=box(p), tol=1e-14).x, 0.3),
    "lsq_linear sparse": (lambda p: optimize.lsq_linear(csr_array(A), p * B, bounds=(-1, 1), tol=1e-14).x, 1.3),
    "lsq_linear cost": (lambda p: optimize.lsq_linear(A, p * B, bounds=(-1, 1), tol=1e-14).cost, 1.3),
    "nnls A": (lambda p: optimize.nnls(stacked(p), B)[0], 0.3),
    "lsq_linear cost of fixed x": (lambda p: optimize.lsq_linear(A, [p, -9.0, -9.0, -9.0], bounds=(7, 8)).cost, 1.3),
    "nnls norm of zeros": (lambda p: optimize.nnls(-abs(A), np.stack([p, 1.0, 1.0, 1.0]))[1], 1.3),
    "nnls b": (lambda p: optimize.nnls(A, B + p)[0], 0.3),
    "nnls norm": (lambda p: optimize.nnls(stacked(p), B * p)[1], 0.3),
    "linprog x": (lambda p: lp(p), np.array([0.8, 1.0, 6.0])),
    "linprog fun": (lambda p: lp(p, "fun"), np.array([0.8, 1.0, 6.0])),
    "linprog bound": (lambda p: lp(np.array([0.8, 1.0, 6.0]), bounds=[(0, p), (0, None)]), 1.0),
    "linprog one pair": (lambda p: lp(np.array([0.8, 1.0, 6.0]), bounds=(0, p)), 1.0),
    "linprog equations": (
        lambda p: optimize.linprog([1.0, 2.0, 3.0], A_eq=np.ones((1, 3)), b_eq=[p], bounds=[(0, 1), (0, 2), (0, 3)]).x,
        2.5,
    ),
    "linprog integer": (lambda p: lp(p, integrality=[1, 0]), np.array([0.8, 1.0, 6.5])),
    "linprog integer's fun": (lambda p: lp(p, "fun", integrality=[1, 0]), np.array([0.8, 1.0, 6.5])),
    "milp": (lambda p: plan(p).x, np.array([1.1, 1.2, 5.3])),
    "milp fun": (lambda p: plan(p).fun, np.array([1.1, 1.2, 5.3])),
    "milp continuous": (lambda p: plan(p, integrality=None).x, np.array([1.1, 1.2, 5.3])),
    "milp without constraints": (lambda p: optimize.milp([-p, 1.0], bounds=optimize.Bounds(0.0, p)).x, 1.3),
    "milp pairs": (lambda p: optimize.milp([-p, -1.0], bounds=([0, 0], [p, 2.5]), integrality=[0, 1]).x, 1.3),
    "milp tuple": (lambda p: optimize.milp(-np.ones(2), constraints=(p * np.eye(2), -inf, [2.0, 3.0])).x, 1.3),
    "milp tuples": (
        lambda p: optimize.milp(-np.ones(2), constraints=[(p * np.eye(1, 2), 0.0, 2.0), ([[0.0, p]], 0.0, 3.0)]).x, 1.3
    ),
    "milp sparse": (
        lambda p: optimize.milp(np.stack([-p, -1.0]), constraints=(csr_array([[2.0, 1.0], [1.0, 3.0]]), 0, [2, 3])).fun,
        1.3,
    ),
    "milp semi-continuous": (
        lambda p: optimize.milp([1.0, -1.0, 2.0], integrality=2, bounds=optimize.Bounds(1.0, [2.0, p, 3.0])).x, 4.0
    ),
    "milp all integers": (
        lambda p: optimize.milp(np.stack([p, -1.0]), integrality=1, bounds=optimize.Bounds(1, 3)).fun, 1.3
    ),
    "milp assignment": (
        lambda p: optimize.milp([p, 1.0, 3.0, 0.5], integrality=1, constraints=(CHOICES, 1, 1)).fun, 1.3
    ),
    "minimize_scalar": (lambda p: optimize.minimize_scalar(lambda x: np.exp(x) - p * x).x, 2.0),
    "minimize_scalar golden": (lambda p: optimize.minimize_scalar(lambda x: np.exp(x) - p * x, method="golden").x, 2.0),
    "minimize_scalar args": (lambda p: optimize.minimize_scalar(lambda x, q: np.exp(x) - q * x, args=(p,)).fun, 2.0),
    "minimize_scalar inside": (lambda p: optimize.minimize_scalar(lambda x: np.exp(x) - p * x, bounds=(0, 3)).x, 2.0),
    "minimize_scalar at bound": (lambda p: optimize.minimize_scalar(lambda x: (x - 5) ** 2, bounds=(0, p)).x, 2.0),
    "minimize_scalar bound's fun": (lambda p: optimize.minimize_scalar(lambda x: (x - 5) ** 2, bounds=(0, p)).fun, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("name", CASES)
def test_derivatives_equal_differences(name, mode):
    f, p = CASES[name]
    h = 1e-4
    p = np.asarray(p, dtype=float)
    directions = np.eye(p.size).reshape(p.size, *p.shape) if p.ndim else np.ones(1)
    expected = np.moveaxis(np.array([(f(p + h * e) - f(p - h * e)) / (2 * h) for e in directions]), 0, -1)
    found = wg.jacobian(f, mode=mode)(p[()])
    np.testing.assert_allclose(np.reshape(found, expected.shape), expected, rtol=1e-4, atol=1e-4)
    assert np.abs(expected).max() > 1e-3


@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_scipy(name):
    f, p = CASES[name]
    plain = f(p)

    def inside(q):
        found = f(q)
        assert np.array_equal(wg.stop_gradient(found), plain)
        return np.sum(found)

    wg.grad(inside)(p)


def test_marginals_are_the_derivatives_of_the_value_of_a_linear_program():
    p = np.array([0.8, 1.0, 6.0])
    plain = scipy.optimize.linprog([-1.0, -0.8], A_ub=[[1.0, 2.0], [3.0, 1.0]], b_ub=[4.0, 6.0])
    np.testing.assert_allclose(wg.grad(lambda p: lp(p, "fun"))(p)[2], plain.ineqlin.marginals[1], rtol=1e-9)


def test_linear_programs_without_unique_solution_raise():
    with pytest.raises((wg.NonSmoothError, wg.SingularJacobianError)):
        wg.jacobian(lp)(np.array([1 / 3, 1.0, 6.0]))  # the objective is parallel to a constraint
    with pytest.raises((wg.NonSmoothError, wg.SingularJacobianError)):
        wg.jacobian(
            lambda b: optimize.linprog([-1.0, -1.0], A_ub=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], b_ub=[1.0, 1.0, b]).x
        )(2.0)
    with pytest.raises(wg.ConvergenceError, match="unbounded"):
        wg.jacobian(lambda p: optimize.linprog(np.stack([-p, -1.0])).x)(1.0)


def test_integer_programs_that_jump_or_fail_raise():
    def knapsack(b):
        return optimize.milp([-1.0, -1.0], integrality=1, constraints=([[1.0, 1.0]], 0.0, b)).fun

    assert wg.grad(lambda b: knapsack([b]))(2.5) == 0
    with pytest.raises(wg.NonSmoothError, match="integer variables alone"):
        wg.grad(lambda b: knapsack([b]))(3.0)
    with pytest.raises(wg.ConvergenceError, match="infeasible"):
        wg.grad(lambda b: knapsack([b]))(-1.0)

    def largest(p, **options):
        return optimize.milp([-1.0], bounds=optimize.Bounds(0.0, p), integrality=1, **options).fun

    assert wg.grad(largest)(2.5) == 0
    with pytest.raises(wg.NonSmoothError, match="integer variable 0 is at a traced bound"):
        wg.grad(largest)(3.0)


def test_undecided_bounds_raise():
    with pytest.raises(wg.NonSmoothError):
        wg.jacobian(lambda p: optimize.nnls(np.eye(2), np.stack([p, 1.0]))[0])(0.0)
    with pytest.raises(wg.SingularJacobianError):
        wg.jacobian(lambda p: optimize.lsq_linear([[1.0, 1.0], [2.0, 2.0]], np.stack([p, 1.0])).x)(1.0)


# ---- vertices where more constraints meet than there are variables


#: three constraints meet in (1, 1); a third variable has limits of its own
CORNER = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0]])


def corner(c=(-1.0, -1.5, -2.0), b=(1.0, 1.0, 2.0), top=3.0, **options):
    bounds = [(0, None), (0, None), (0, top)]
    return optimize.linprog(c, A_ub=CORNER, b_ub=b, bounds=bounds, **options)


def test_degenerate_vertex_follows_limits_of_independent_constraints():
    np.testing.assert_allclose(wg.derivative(lambda p: corner(top=p).x)(3.0), [0.0, 0.0, 1.0], atol=1e-12)
    np.testing.assert_allclose(wg.derivative(lambda p: corner(top=p**2).fun, order=2)(1.5), -4.0, rtol=1e-9)

    def mixed(p):
        row = np.stack([np.stack([1.0, p, p**2])])
        return optimize.linprog(np.stack([-p, -1.0, -2.0]), A_ub=CORNER, b_ub=[1, 1, 2], A_eq=row, b_eq=[9 * p])

    step = 1e-6
    for what in ("x", "fun", "slack", "con"):
        expected = (mixed(1.2 + step)[what] - mixed(1.2 - step)[what]) / (2 * step)
        found = wg.jacobian(lambda p, what=what: mixed(p)[what])(1.2)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


def test_degenerate_vertex_stays_if_only_the_objective_changes():
    c = np.array([-1.0, -1.5, -2.0])
    np.testing.assert_allclose(wg.grad(lambda c: corner(c).fun)(c), [1.0, 1.0, 3.0], rtol=1e-12)
    np.testing.assert_array_equal(wg.jacobian(lambda c: corner(c).x)(c), np.zeros((3, 3)))


def test_degenerate_vertex_with_a_kink_is_refused():
    b = np.array([1.0, 1.0, 2.0])
    with pytest.raises(wg.SingularJacobianError, match=r"linearly dependent.*constraint 0, constraint 1, constraint 2"):
        wg.grad(lambda b: corner(b=b).fun)(b)
    with pytest.raises(wg.TracedValueError, match=r"'marginals' of this result is not differentiated.*not unique"):
        wg.derivative(lambda p: corner(top=p).ineqlin.marginals)(3.0)
    with pytest.raises((wg.NonSmoothError, wg.SingularJacobianError)):  # the whole edge x + y = 2 is a solution
        wg.jacobian(lambda c: optimize.linprog(c, A_ub=[[1.0, 1.0], [2.0, 2.0]], b_ub=[2, 4]).x)(np.array([-1.0, -1.0]))


def priced(p):
    return optimize.linprog(
        np.stack([p, 2.0, 3 * p**2]), A_eq=np.stack([np.stack([1.0, p, 1.0])]), b_eq=[2 * p],
        A_ub=[[-1, 1, 0], [9, 9, 9]], b_ub=np.stack([-p / 2, 99.0]), bounds=[(0, None), (0, 3 * p), (0.1 * p, None)],
    )  # fmt: skip


@pytest.mark.parametrize("field", ["slack", "con", "ineqlin", "eqlin", "lower", "upper"])
def test_slacks_and_marginals_have_derivatives(field):
    parts = ("residual", "marginals") if field not in ("slack", "con") else (None,)
    for part in parts:
        value = lambda p, part=part: priced(p)[field] if part is None else priced(p)[field][part]
        step, p = 1e-6, 1.1
        with np.errstate(invalid="ignore"):
            expected = np.nan_to_num((value(p + step) - value(p - step)) / (2 * step))
        for mode in ("forward", "reverse"):
            np.testing.assert_allclose(wg.jacobian(value, mode=mode)(p), expected, rtol=1e-6, atol=1e-8)

        def bits(q, value=value, plain=value(p)):
            assert np.array_equal(wg.stop_gradient(value(q)), plain)
            return q

        wg.grad(bits)(p)


# ---- equations that follow from others


#: flows from two sources to two sinks: what leaves the sources arrives at the sinks, so any equation can be left out
FLOWS = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0]])
COSTS = np.array([1.0, 2.0, 3.0, 1.5])


def flows(costs=COSTS, moved=0.0, keep=slice(None), **options):
    """`moved` changes the second supply and the second demand."""
    ends = np.array([4.0, 5.0, 3.0, 6.0]) + moved * np.array([0.0, 1.0, 0.0, 1.0])
    return optimize.linprog(costs, A_eq=FLOWS[keep], b_eq=ends[keep], **options)


def test_constant_equations_may_follow_from_others():
    np.testing.assert_allclose(wg.grad(lambda c: flows(c).fun)(COSTS), flows().x, rtol=1e-12)
    np.testing.assert_array_equal(wg.jacobian(lambda c: flows(c).x)(COSTS), np.zeros((4, 4)))

    def limited(p):
        return flows(bounds=[(0, p), (0, None), (0, None), (0, None)])

    step = 1e-6
    for what in ("x", "fun"):
        expected = (limited(2.5 + step)[what] - limited(2.5 - step)[what]) / (2 * step)
        np.testing.assert_allclose(wg.jacobian(lambda p, what=what: limited(p)[what])(2.5), expected, atol=1e-8)


def test_traced_equations_that_follow_from_others_are_refused_by_number():
    with pytest.raises(wg.SingularJacobianError, match=r"equation 3 is a combination of others \(0, 1, 2\).*Leave out"):
        wg.derivative(lambda p: flows(moved=p).fun)(0.1)
    for options in ({"keep": [0, 1, 2]}, {"on_singular": "lstsq"}):
        np.testing.assert_allclose(wg.derivative(lambda p, o=options: flows(moved=p, **o).fun)(0.1), 1.5, rtol=1e-9)
        slope = wg.derivative(lambda p, o=options: flows(moved=p, **o).x)(0.1)
        np.testing.assert_allclose(slope, [0.0, 0.0, 0.0, 1.0], atol=1e-9)
