"""`nlp`: values and sparse derivatives of nonlinear programs in the forms of solvers, against dense derivatives."""

import functools
import types

import numpy as np
import pytest
import scipy.optimize
from scipy.sparse import coo_array, csr_array

import wengert as wg

scale = 1.0


def objective(x):
    return scale * np.sum((x[1:] - x[:-1] ** 2) ** 2) + np.prod(x[:2])


def coupled(x):
    g = np.zeros(x.size - 2)
    for i in range(g.size):
        g[i] = np.sin(x[i]) * x[i + 1] + x[i + 2] ** 2
    return g


N = 8
X0 = np.linspace(0.5, 1.2, N)
A = np.zeros((2, N))
A[0, :3], A[1, 5] = 1.0, -2.0

#: constraints, the same as one function, and their limits
FORMS = {
    "none": ((), lambda x: np.zeros(0), [], []),
    "None": ([], lambda x: np.zeros(0), [], []),
    "function": ((coupled, 0.0, np.inf), coupled, [0] * 6, [np.inf] * 6),
    "scalar": ((lambda x: x @ x, 1.0, 2.0), lambda x: np.stack([x @ x]), [1], [2]),
    "list": ((lambda x: [x[0] * x[1], x[2]], [0, 1], [2, 3]), lambda x: np.stack([x[0] * x[1], x[2]]), [0, 1], [2, 3]),
    "dictionaries": (
        [{"type": "eq", "fun": lambda x, p: x @ x - p, "args": (2.0,)}, {"type": "ineq", "fun": coupled}],
        lambda x: np.concatenate([[x @ x - 2.0], coupled(x)]),
        [0] * 7,
        [0] + [np.inf] * 6,
    ),
    "objects": (
        [
            scipy.optimize.LinearConstraint(A, [-np.inf, 0.0], 3.0),
            scipy.optimize.NonlinearConstraint(coupled, -1.0, np.arange(6.0)),
            (lambda x: x[0] ** 3, 0.0, 0.0),
        ],
        lambda x: np.concatenate([A @ x, coupled(x), [x[0] ** 3]]),
        [-np.inf, 0] + [-1] * 6 + [0],
        [3, 3, 0, 1, 2, 3, 4, 5, 0],
    ),
    "sparse": (scipy.optimize.LinearConstraint(csr_array(A), -1.0, 3.0), lambda x: A @ x, [-1, -1], [3, 3]),
}


def dense(structure, values, shape):
    found = coo_array((values, structure), shape=shape)
    assert found.nnz == len({*zip(*structure)})
    return found.toarray()


@pytest.mark.parametrize("tier", ["vm", "auto"])
@pytest.mark.parametrize("name", FORMS)
def test_values_and_derivatives_equal_dense_ones(name, tier):
    given, g, low, high = FORMS[name]
    program = wg.nlp(objective, given, X0, [(0, None)] * 4 + [(None, 2)] * 4, tier=tier)
    m = len(low)
    assert (program.n, program.m) == (N, m)
    assert np.array_equal(program.constraint_low, low) and np.array_equal(program.constraint_high, high)
    assert np.array_equal(program.low, [0] * 4 + [-np.inf] * 4) and np.array_equal(program.high, [np.inf] * 4 + [2] * 4)
    for x in (X0, X0[::-1] + 0.1):
        multipliers = np.cos(np.arange(m))
        assert program.objective(x) == pytest.approx(objective(x), rel=1e-14) and type(program.objective(x)) is float
        assert np.allclose(program.constraints(x), g(x), rtol=1e-14)
        assert np.allclose(program.gradient(x), wg.grad(objective)(x), rtol=1e-13)
        J = dense(program.jacobianstructure(), program.jacobian(x), (m, N))
        assert np.allclose(J, wg.jacobian(g)(x), rtol=1e-13)
        H = wg.hessian(lambda x: 0.7 * objective(x) + multipliers @ g(x))(x)
        lower = dense(program.hessianstructure(), program.hessian(x, multipliers, 0.7), (N, N))
        assert np.allclose(lower, np.tril(H), rtol=1e-12, atol=1e-12)


def test_patterns_hold_structural_nonzeros_only():
    linear = wg.nlp(objective, scipy.optimize.LinearConstraint(A, 0.0, 1.0), X0)
    assert linear.jacobian(X0).tolist() == [1.0, 1.0, 1.0, -2.0]
    program = wg.nlp(objective, (coupled, 0.0, 1.0), X0)
    assert program.jacobian(X0).size == 3 * 6 and program.hessian(X0, np.ones(6)).size < 3 * N
    rows, columns = program.hessianstructure()
    assert np.all(rows >= columns)
    assert repr(program).startswith("<nonlinear program: 8 variables, 6 constraints, 18 nonzeros in the Jacobian")


class Model:
    """A model whose objective is a method and depends on a parameter."""

    def __init__(self, weight):
        self.weight = weight

    def cost(self, x):
        out = np.zeros(1)
        out[0] = self.weight * np.sum(x**2)
        return out

    def __call__(self, x):
        return self.weight * np.sum(x**2)


@pytest.mark.parametrize(
    "f",
    [Model(2.0).cost, Model(2.0), functools.partial(lambda w, x: w * x @ x, 2.0), wg.compile(Model(2.0)), np.sum],
)
def test_objectives_may_be_any_callable(f):
    program = wg.nlp(f, (coupled, 0.0, 1.0), X0)
    expected = np.ones(N) if f is np.sum else 4 * X0
    assert np.allclose(program.gradient(X0), expected) and program.objective(X0) == pytest.approx(float(np.sum(f(X0))))


def test_results_are_copies_that_later_calls_leave_alone():
    program = wg.nlp(objective, (coupled, 0.0, 1.0), X0)
    x = X0.copy()
    kept = [program.constraints(x), program.jacobian(x), program.gradient(x)]
    saved = [values.copy() for values in kept]
    x += 1.0  # in place, as solvers do
    assert not np.allclose(program.constraints(x), saved[0])
    for values in (program.constraints(x), program.jacobian(x), program.gradient(x)):
        values[:] = np.nan
    assert np.allclose(program.constraints(x), coupled(x))
    assert all(np.array_equal(a, b) for a, b in zip(kept, saved))


def test_changed_state_is_used_at_the_next_point(monkeypatch):
    program = wg.nlp(objective, (), X0)
    before = program.objective(X0)
    monkeypatch.setitem(globals(), "scale", 3.0)
    assert program.objective(X0 + 1e-9) > 1.5 * before
    assert np.allclose(program.gradient(X0), wg.grad(objective)(X0))


def test_branches_have_their_own_programs():
    program = wg.nlp(lambda x: x[0] ** 2 if x[0] > 0 else x[0] ** 2 * x[1], None, np.array([1.0, 2.0]))
    assert np.array_equal(program.gradient(np.array([1.0, 2.0])), [2.0, 0.0])
    with pytest.raises(wg.PatternError):
        program.hessian(np.array([-1.0, 2.0]), np.zeros(0))


def test_further_arguments_reach_objective_and_constraint():
    program = wg.nlp(lambda x, p: p * x @ x, (lambda x, p: x - p, 0.0, 0.0), X0, args=(3.0,))
    assert program.objective(X0) == pytest.approx(3 * X0 @ X0) and np.allclose(program.constraints(X0), X0 - 3)


@pytest.mark.filterwarnings("ignore:delta_grad:UserWarning")
@pytest.mark.parametrize("method", ["trust-constr", "SLSQP"])
def test_scipy_solves_the_program(method):
    program = wg.nlp(
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        (lambda x: np.stack([np.prod(x), x @ x]), [25, 40], [np.inf, 40]),
        [1.0, 5.0, 5.0, 1.0],
        [(1, 5)] * 4,
    )
    found = scipy.optimize.minimize(**program.scipy(method))
    assert np.allclose(found.x, [1.0, 4.74299963, 3.82114998, 1.37940829], atol=1e-4)
    with pytest.raises(ValueError, match="trust-constr"):
        program.scipy("BFGS")


def test_scipy_solves_a_program_without_constraints():
    found = scipy.optimize.minimize(**wg.nlp(objective, (), X0).scipy())
    assert np.max(np.abs(wg.grad(objective)(found.x))) < 1e-6


class Cyipopt:
    """The calls that `cyipopt.Problem` makes of its `problem_obj`, with the arguments that it passes."""

    def __init__(self, n, m, problem_obj, lb, ub, cl, cu):
        assert lb.shape == ub.shape == (n,) and cl.shape == cu.shape == (m,)
        self.problem, self.n, self.m = problem_obj, n, m

    def evaluate(self, x):
        p, multipliers, factor = self.problem, np.ones(self.m), 1.0
        J = coo_array((p.jacobian(x), p.jacobianstructure()), shape=(self.m, self.n))
        H = coo_array((p.hessian(x, multipliers, factor), p.hessianstructure()), shape=(self.n, self.n))
        return p.objective(x), p.gradient(x), p.constraints(x), J.toarray(), H.toarray()


def test_object_has_the_methods_of_cyipopt():
    program = wg.nlp(objective, (coupled, 0.0, 1.0), X0)
    _, slope, _, J, H = Cyipopt(**program.cyipopt()).evaluate(X0)
    assert np.allclose(slope, wg.grad(objective)(X0)) and np.allclose(J, wg.jacobian(coupled)(X0))
    expected = wg.hessian(lambda x: objective(x) + np.sum(coupled(x)))(X0)
    assert np.allclose(H, np.tril(expected))


def test_callbacks_of_ipyopt_write_into_its_arrays():
    program = wg.nlp(objective, (coupled, 0.0, 1.0), X0)
    given = types.SimpleNamespace(**program.ipyopt())
    out = np.empty(6), np.empty(18), np.empty(N), np.empty(program.hessianstructure()[0].size)
    given.eval_g(X0, out[0]), given.eval_jac_g(X0, out[1]), given.eval_grad_f(X0, out[2])
    given.eval_h(X0, np.ones(6), 0.5, out[3])
    for found, expected in zip(
        out,
        (program.constraints(X0), program.jacobian(X0), program.gradient(X0), program.hessian(X0, np.ones(6), 0.5)),
    ):
        assert np.array_equal(found, expected)


def test_ipopt_solves_an_optimal_control_problem():
    ipyopt = pytest.importorskip("ipyopt", reason="ipyopt is not installed: pip install ipyopt")
    n = 100
    h = 1.0 / n

    def cost(z):
        return h * np.sum(z[n + 1 :] ** 2)

    def steps(z):
        x, u = z[: n + 1], z[n + 1 :]
        return np.concatenate([x[1:] - x[:-1] - h * u, [x[0], x[-1] - 1.0]])

    program = wg.nlp(cost, (steps, 0.0, 0.0), np.zeros(2 * n + 1))
    z, value, status = ipyopt.Problem(**program.ipyopt(), ipopt_options={"print_level": 0, "sb": "yes"}).solve(
        program.x0
    )
    assert status == 0 and value == pytest.approx(1.0) and np.allclose(z[n + 1 :], 1.0)


def nlp_of(f, constraints):
    return wg.nlp(f, constraints, X0).constraints(X0).sum()


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: wg.nlp(objective, ()), TypeError, "x0"),
        (lambda: wg.nlp(objective, (), np.ones((2, 2))), ValueError, "x0 is a 1-D array"),
        (lambda: wg.nlp(objective, coupled, X0), ValueError, r"a constraint is \(function, lower, upper\)"),
        (lambda: wg.grad(lambda p: wg.nlp(objective, (), p * X0).objective(X0))(1.0), wg.TracedValueError, "minimize"),
        (lambda: wg.grad(lambda p: nlp_of(lambda x: p * x @ x, ()))(1.0), wg.TracedValueError, "minimize"),
        (lambda: wg.grad(lambda p: nlp_of(objective, (lambda x: p * x, 0, 1)))(1.0), wg.TracedValueError, "minimize"),
        (lambda: wg.grad(lambda p: nlp_of(objective, (coupled, 0, p)))(1.0), wg.TracedValueError, "minimize"),
    ],
)
def test_bad_arguments_raise(call, error, match):
    with pytest.raises(error, match=match):
        call()
