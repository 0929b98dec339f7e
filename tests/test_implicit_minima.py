"""`implicit.minimum`, `implicit.kkt` and `implicit.linear_solve`, against closed forms and equivalent equations."""

import numpy as np
import pytest
import scipy.optimize
from scipy.linalg import solveh_banded
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, cg

import wengert as wg
from wengert import implicit

MODES = ["forward", "reverse"]


# ---- minima


def spring(x, p):
    return np.sum(np.exp(x) + x**4 / 4 - p * x)


def by_equations(p):
    return implicit.root(lambda x: np.exp(x) + x**3 - p, np.ones(np.shape(p)))


@pytest.mark.parametrize("p", [2.0, np.array([2.0, 5.0]), np.array([[2.0, 5.0], [1.0, 9.0]])])
def test_minimum_has_the_derivatives_of_its_equations(p):
    def at(p):
        return implicit.minimum(lambda x: spring(x, p), np.zeros(np.shape(p)))

    def with_args(p):
        return implicit.minimum(spring, np.zeros(np.shape(p)), args=(p,))

    assert np.shape(at(p)) == np.shape(p) and np.allclose(at(p), by_equations(p), rtol=1e-9)
    for f in (at, with_args):
        for mode in MODES:
            assert np.allclose(wg.jacobian(f, mode=mode)(p), wg.jacobian(by_equations)(p), rtol=1e-12, atol=1e-14)
            second = wg.jacobian(wg.jacobian(f), mode=mode)(p)
            assert np.allclose(second, wg.jacobian(wg.jacobian(by_equations))(p), rtol=1e-10, atol=1e-12)
        assert np.array_equal(wg.vjp(f, p)[0], f(p))


def test_minimum_of_many_variables_uses_products():
    p = np.linspace(1.5, 4.0, 600)
    found, info = implicit.minimum(spring, np.zeros(600), args=(p,), has_info=True)
    assert np.allclose(found, by_equations(p), rtol=1e-8) and info.correction < 1e-6
    slopes = wg.grad(lambda p: implicit.minimum(spring, np.zeros(600), args=(p,)).sum())(p)
    assert np.allclose(slopes, 1 / (np.exp(found) + 3 * found**2), rtol=1e-7)


def test_minimum_decorates_a_solver():
    calls = []

    @implicit.minimum(spring)
    def solved(p):
        calls.append(p)
        return scipy.optimize.brentq(lambda x: np.exp(x) + x**3 - p, -5.0, 5.0)

    @implicit.minimum(spring, argnums=0)
    def from_start(p, start):
        return scipy.optimize.newton(lambda x: np.exp(x) + x**3 - p, start)

    assert np.isclose(wg.derivative(solved, 2.0), wg.derivative(by_equations, 2.0), rtol=1e-12)
    assert all(type(p) in (float, np.float64) for p in calls)
    assert wg.grad(from_start, argnums=(0, 1))(2.0, 0.3) == pytest.approx((wg.derivative(by_equations, 2.0), 0.0))
    with pytest.raises(TypeError, match="by position"):
        wg.grad(lambda p: solved(p=p))(2.0)


def test_own_solver_of_a_minimum_gets_plain_values():
    def at(p):
        return implicit.minimum(lambda x: spring(x, p), 0.0, solve=lambda f, x: scipy.optimize.minimize_scalar(f).x)

    assert np.isclose(wg.derivative(at, 2.0), wg.derivative(by_equations, 2.0), rtol=1e-12)


def test_stationary_points_that_are_no_minimum_raise():
    with pytest.raises(wg.SingularJacobianError, match="not positive definite"):
        wg.grad(lambda p: implicit.minimum(lambda x: p * x - x**3, 0.0, solve=lambda f, x: (2.0 / 3) ** 0.5))(2.0)
    with pytest.raises(wg.ConvergenceError, match="no minimum was found"):
        implicit.minimum(lambda x: x, 0.0)
    with pytest.raises(wg.SingularJacobianError):
        wg.jacobian(lambda p: implicit.minimum(lambda x: (x[0] + x[1] - p) ** 2, np.zeros(2)))(1.0)
    with pytest.raises(ValueError, match="polish is one of"):
        implicit.minimum(spring, polish="yes")


# ---- constraints


def hs71(p, **options):
    """Problem 71 of Hock and Schittkowski, with its constants as parameters."""
    return implicit.kkt(
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        [1.0, 5.0, 5.0, 1.0],
        eq=lambda x: x @ x - p[0],
        ineq=lambda x: np.prod(x) - p[1],
        bounds=[(1.0, 5.0)] * 4,
        **options,
    )


def test_sensitivities_of_hock_schittkowski_71():
    p = np.array([40.0, 25.0])
    x, multipliers = hs71(p)
    assert np.allclose(x, [1.0, 4.74299963, 3.82114998, 1.37940829], atol=1e-7)
    assert multipliers.ineq == pytest.approx(0.5522937, rel=1e-5) and multipliers.eq == pytest.approx(
        -0.1614686, rel=1e-4
    )
    assert multipliers.lower[0] == pytest.approx(1.0878712, rel=1e-6) and not multipliers.upper.any()

    def value(p):
        x = hs71(p)[0]
        return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]

    assert np.allclose(wg.grad(value)(p), [multipliers.eq[0], multipliers.ineq[0]], rtol=1e-9)
    J = wg.jacobian(lambda p: hs71(p)[0])(p)
    for i, step in enumerate(1e-4 * np.eye(2)):
        assert np.allclose(J[:, i], (hs71(p + step)[0] - hs71(p - step)[0]) / 2e-4, rtol=1e-5, atol=3e-4)


def rosen_suzuki(p):
    return implicit.kkt(
        lambda x: x @ x + x[2] ** 2 - 5 * (x[0] + x[1]) - 21 * x[2] + 7 * x[3],
        np.zeros(4),
        ineq=lambda x: np.stack([
            8 * p[0] - x @ x - x[0] + x[1] - x[2] + x[3],
            10 * p[1] - x @ x - x[1] ** 2 - x[3] ** 2 + x[0] + x[3],
            5 * p[2] - 2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3],
        ]),
    )  # fmt: skip


def test_sensitivities_of_rosen_and_suzuki():
    p = np.ones(3)
    x, multipliers = rosen_suzuki(p)
    assert np.allclose(x, [0, 1, 2, -1], atol=1e-7) and np.allclose(multipliers.ineq, [1, 0, 2], atol=1e-9)
    assert multipliers.eq.size == 0
    # the conditions of the first and third constraint, at x = (0, 1, 2, -1) with multipliers 1 and 2
    H = np.diag([2 + 2 + 8.0, 2 + 2 + 4, 4 + 2 + 4, 2 + 2])
    A = np.array([[-1.0, -1.0, -5.0, 3.0], [-2.0, -1.0, -4.0, 1.0]])
    K = np.block([[H, -A.T], [A, np.zeros((2, 2))]])
    expected = np.linalg.solve(K, np.concatenate([np.zeros((4, 2)), -np.diag([8.0, 5.0])]))
    J, dm = wg.jacobian(lambda p: (rosen_suzuki(p)[0], rosen_suzuki(p)[1].ineq))(p)
    assert np.allclose(J[:, [0, 2]], expected[:4], rtol=1e-9) and not J[:, 1].any()
    assert np.allclose(dm[[0, 2]][:, [0, 2]], expected[4:], rtol=1e-9) and not dm[1].any()


@pytest.mark.parametrize("mode", MODES)
def test_multipliers_of_bounds_and_their_derivatives(mode):
    def at(p):
        x, m = implicit.kkt(
            lambda x: np.sum((x - p[2:]) ** 2 * np.array([1.0, 2.0, 3.0])),
            np.zeros(3),
            bounds=[(p[0], None), (None, p[1]), (-9.0, 9.0)],
        )
        return x, m.lower, m.upper

    p = np.array([1.0, 2.0, 0.5, 4.0, 3.0])
    x, lower, upper = at(p)
    assert np.allclose(x, [1, 2, 3], atol=1e-9)
    assert np.allclose(lower, [1, 0, 0]) and np.allclose(upper, [0, 8, 0])
    dx, dl, du = wg.jacobian(at, mode=mode)(p)
    assert np.allclose(dx, [[1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0, 0, 1]])
    assert np.allclose(dl[0], [2, 0, -2, 0, 0]) and not dl[1:].any()
    assert np.allclose(du[1], [0, -4, 0, 4, 0]) and not du[[0, 2]].any()


def test_constrained_minimum_keeps_shape_and_second_derivatives():
    def at(p):
        return implicit.kkt(lambda x: np.sum((x - p) ** 2), np.ones((2, 2)), eq=lambda x: np.sum(x**2) - 1.0)[0]

    p = np.array([[1.0, 2.0], [2.0, 4.0]])
    assert np.allclose(at(p), p / 5)

    def expected(p):
        return p / np.sqrt(np.sum(p**2))

    assert np.allclose(wg.jacobian(at)(p), wg.jacobian(expected)(p), rtol=1e-9, atol=1e-10)
    assert np.allclose(wg.jacobian(wg.jacobian(at))(p), wg.jacobian(wg.jacobian(expected))(p), rtol=1e-6, atol=1e-8)
    scalar = wg.derivative(lambda p: implicit.kkt(lambda x: (x - p) ** 2, 0.0, ineq=lambda x: 1.0 - x)[0], 0.5)
    assert scalar == pytest.approx(1.0)


def test_kkt_decorates_a_solver_and_takes_one():
    @implicit.kkt(lambda x, p: np.sum((x - p) ** 2), eq=lambda x, p: x @ x - 1)
    def nearest(p):
        return p / np.sqrt(p @ p)

    p = np.array([3.0, 4.0])
    expected = np.array([[0.128, -0.096], [-0.096, 0.072]])
    assert np.allclose(wg.jacobian(nearest)(p), expected, rtol=1e-12)
    assert np.array_equal(nearest(p), p / 5)

    def by_own(p):
        return implicit.kkt(
            lambda x: np.sum((x - p) ** 2), p, eq=lambda x: x @ x - 1, solve=lambda f, x0: x0 / np.linalg.norm(x0)
        )[0]

    assert np.allclose(wg.jacobian(by_own)(p), expected, rtol=1e-12)


def test_undecided_dependent_and_infeasible_constraints_raise():
    def touching(p):
        return implicit.kkt(lambda x: (x - p) ** 2, 0.0, bounds=[(None, 1.0)])[0]

    assert touching(1.0) == pytest.approx(1.0)
    with pytest.raises(wg.NonSmoothError, match="bound of variable 0"):
        wg.grad(touching)(1.0)
    with pytest.raises(wg.SingularJacobianError, match="linearly dependent"):
        wg.jacobian(
            lambda p: implicit.kkt(
                lambda x: x @ x, [1.0, 1.0], ineq=lambda x: np.stack([x[0] - p, 2 * x[0] - 2 * p, x[0] + x[1] - 2])
            )[0]
        )(1.5)
    with pytest.raises(wg.SingularJacobianError, match="not positive definite along the active constraints"):
        wg.jacobian(  # the point of the circle that is farthest away
            lambda p: implicit.kkt(
                lambda x: np.sum((x - p) ** 2), p, eq=lambda x: x @ x - 1, solve=lambda f, x0: -x0 / np.linalg.norm(x0)
            )[0]
        )(np.array([3.0, 4.0]))
    with pytest.raises(wg.ConvergenceError, match=r"no solution: .*solve="):
        implicit.kkt(lambda x: x @ x, [1.0, 1.0], ineq=lambda x: np.stack([x[0] - 1, -x[0] - 1]))
    with pytest.raises(wg.ConvergenceError):
        implicit.kkt(lambda x: np.sum((x - 1) ** 2), [3.0, 4.0], eq=lambda x: x @ x + 1.0)
    with pytest.raises(wg.ConvergenceError, match=r"no point satisfies all constraints"):
        implicit.kkt(lambda x: (x[0] - 1) ** 2, [0.0], ineq=lambda x: np.stack([x[0] - 2, 1 - x[0]]))
    with pytest.raises(wg.ConvergenceError, match="no solution"):  # unbounded
        implicit.kkt(lambda x: -x[0], [1.0], ineq=lambda x: x[0])


def test_compiled_functions_solve_minima():
    f = wg.compile(lambda p: implicit.kkt(lambda x: (x - p) ** 2, 0.0, bounds=[(None, 1.0)])[0])
    assert wg.derivative(f)(0.5) == pytest.approx(1.0) and wg.derivative(f)(1.5) == pytest.approx(0.0)


# ---- linear equations

N = 6


def stiffness(p):
    return (2 + p[0]) * np.eye(N) - p[1] * np.eye(N, k=1) - np.eye(N, k=-1) * p[2]


def product(x, p):
    padded = np.concatenate([np.zeros(1), x, np.zeros(1)])
    return (2 + p[0]) * x - p[1] * padded[2:] - p[2] * padded[:-2]


def sloppy(A):
    return lambda b: np.linalg.solve(A, b) * (1 + 1e-8)


P, B = np.array([0.5, 0.9, 0.7]), np.linspace(1.0, 2.0, N)
PLAIN = stiffness(P)

#: the solution as a function of p and b
SYSTEMS = {
    "matrix": lambda p, b: implicit.linear_solve(stiffness(p), b),
    "matrix and solver": lambda p, b: implicit.linear_solve(
        stiffness(p),
        b,
        solve=lambda b: np.linalg.solve(PLAIN, b),
        transpose_solve=lambda b: np.linalg.solve(PLAIN.T, b),
    ),
    "function": lambda p, b: implicit.linear_solve(product, b, args=(p,)),
    "closure": lambda p, b: implicit.linear_solve(lambda x: product(x, p), b),
    "function and solver": lambda p, b: implicit.linear_solve(product, b, args=(p,), solve=sloppy(PLAIN)),
    "sloppy": lambda p, b: implicit.linear_solve(
        product, b, args=(p,), solve=sloppy(PLAIN), transpose_solve=sloppy(PLAIN.T)
    ),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", SYSTEMS)
def test_solutions_of_linear_equations_have_their_derivatives(name, mode):
    def expected(p, b):
        return np.linalg.solve(stiffness(p), b)

    solve = SYSTEMS[name]
    assert np.allclose(solve(P, B), expected(P, B), rtol=1e-7)
    for argnums in (0, 1):
        found = wg.jacobian(solve, argnums=argnums, mode=mode)(P, B)
        assert np.allclose(found, wg.jacobian(expected, argnums=argnums)(P, B), rtol=1e-8, atol=1e-9)
    second = wg.jacobian(wg.jacobian(solve), mode=mode)(P, B)
    assert np.allclose(second, wg.jacobian(wg.jacobian(expected))(P, B), rtol=1e-7, atol=1e-8)
    assert np.array_equal(wg.vjp(solve, P, args=(B,))[0], solve(P, B))


@pytest.mark.parametrize("kind", ["dense", "sparse", "operator", "list"])
def test_constant_matrices_need_a_right_hand_side_only(kind):
    A = {
        "dense": PLAIN,
        "sparse": csr_array(PLAIN),
        "operator": LinearOperator((N, N), matvec=PLAIN.dot, rmatvec=PLAIN.T.dot, dtype=float),
        "list": PLAIN.tolist(),
    }[kind]
    inverse = np.linalg.inv(PLAIN)
    for mode in MODES:
        assert np.allclose(wg.jacobian(lambda b: implicit.linear_solve(A, b), mode=mode)(B), inverse, rtol=1e-9)
    assert np.allclose(implicit.linear_solve(A, B), inverse @ B)


def test_decorated_solver_of_linear_equations():
    calls = []

    def chain(x, k):
        padded = np.concatenate([np.zeros(1), x, np.zeros(1)])
        return k * (2 * x - padded[:-2] - padded[2:])

    @implicit.linear_solve(chain, symmetric=True)
    def positions(forces, k, check_finite=True):
        calls.append(check_finite)
        bands = k * np.array([[0.0, *-np.ones(N - 1)], 2 * np.ones(N)])
        return solveh_banded(bands, forces, check_finite=check_finite)

    @implicit.linear_solve(product, transpose_solve=lambda b, p: np.linalg.solve(stiffness(p).T, b))
    def general(b, p):
        return np.linalg.solve(stiffness(p), b)

    x = positions(B, 2.0)
    assert np.allclose(wg.jacobian(positions, argnums=1)(B, 2.0), -x / 2, rtol=1e-12)
    assert np.allclose(wg.grad(lambda b: positions(b, 2.0, check_finite=False).sum())(B), positions(np.ones(N), 2.0))
    assert False in calls
    expected = wg.jacobian(lambda p: np.linalg.solve(stiffness(p), B))(P)
    assert np.allclose(wg.jacobian(general, argnums=1)(B, P), expected, rtol=1e-12)
    with pytest.raises(TypeError, match="by position"):
        wg.grad(lambda k: positions(B, k=k).sum())(2.0)


def test_large_system_by_conjugate_gradients():
    n = 5000
    A = diags_array([-1.0, 2.1, -1.0], offsets=[-1, 0, 1], shape=(n, n), format="csr")

    def solved(b):
        x, failed = cg(A, b, rtol=1e-12)
        assert not failed
        return x

    def energy(b):
        x = implicit.linear_solve(lambda x: A @ x, b, solve=solved, symmetric=True)
        return b @ x / 2

    b = np.sin(np.arange(n))
    assert np.allclose(wg.grad(energy)(b), solved(b), rtol=1e-8, atol=1e-10)


def test_start_of_an_undetermined_minimum_is_not_lost():
    def anywhere(p):
        return implicit.kkt(lambda x: (x[0] + x[1] - 1) ** 2, np.stack([p, 0.0]), bounds=[(-9, 9)] * 2)[0][0]

    assert np.isfinite(anywhere(0.3))
    with pytest.raises(wg.SingularJacobianError):
        wg.grad(anywhere)(0.3)
    assert wg.grad(lambda p: implicit.kkt(lambda x: (x[0] - 1) ** 2, np.stack([p]), bounds=[(-9, 9)])[0][0])(0.3) == 0


def test_wrong_solutions_of_linear_equations_raise():
    with pytest.raises(wg.ConvergenceError, match="not solved"):  # the matrix is not symmetric
        wg.jacobian(
            lambda b: implicit.linear_solve(
                lambda x: product(x, P), b, solve=lambda b: np.linalg.solve(PLAIN, b), symmetric=True
            ),
            mode="reverse",
        )(B)
    with pytest.raises(wg.ConvergenceError, match="no solution: the residual"):
        wg.jacobian(lambda b: implicit.linear_solve(PLAIN, b, solve=lambda b: 2 * b))(B)
    with pytest.raises(wg.ConvergenceError, match="not solved"):
        wg.jacobian(
            lambda b: implicit.linear_solve(PLAIN, b, solve=sloppy(PLAIN), transpose_solve=sloppy(PLAIN)),
            mode="reverse",
        )(B)
    with pytest.raises((wg.SingularJacobianError, np.linalg.LinAlgError)):
        wg.jacobian(lambda b: implicit.linear_solve(np.ones((2, 2)), b))(np.ones(2))
