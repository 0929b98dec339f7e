"""Derivatives of solutions of boundary value problems by `solve_bvp`, against closed forms."""

import numpy as np
import pytest
import scipy.integrate
from scipy.integrate import solve_bvp

import wengert as wg

pytest.importorskip("scipy", minversion="1.17")  # the mirrors need it


def error(found, exact):
    return np.max(np.abs(np.asarray(found) - np.asarray(exact))) / np.max(np.abs(exact))


def oscillator(x, nodes=11, tol=1e-8, **options):
    """Solve y'' = -w^2 y with y(0) = 0 and y(end) = value."""
    w, value, end = x
    return solve_bvp(
        lambda t, y: np.stack([y[1], -(w**2) * y[0]]), lambda a, b: np.stack([a[0], b[0] - value]),
        np.linspace(0, 1, nodes) * end, np.zeros((2, nodes)), tol=tol, **options,
    )  # fmt: skip


def outputs(x):
    found = oscillator(x)
    later = found.sol(np.array([0.25, 0.5]))
    return np.stack([found.sol(0.5)[0], later[0, 0], later[1, 1], found.y[1, -1], found.yp[1, -1], found.x[-1]])


def outputs_exact(x):
    w, value, end = x
    scale = value / np.sin(w * end)
    return np.stack([
        scale * np.sin(0.5 * w), scale * np.sin(0.25 * w), scale * w * np.cos(0.5 * w), scale * w * np.cos(w * end),
        -w * w * value, end,
    ])  # fmt: skip


X = np.array([1.1, 0.7, 1.0])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_parameters_boundary_values_and_ends(mode):
    assert error(wg.jacobian(outputs, X, mode=mode), wg.jacobian(outputs_exact, X)) < 1e-8


def test_values_are_those_of_scipy():
    assert np.array_equal(wg.jvp(outputs, X, X)[0], outputs(X))
    assert np.array_equal(wg.vjp(outputs, X)[0], outputs(X))


def test_second_derivatives_equal_those_of_the_formula():
    def slope(x):
        return oscillator(np.stack([x[0], x[1], 1.0])).y[1, -1]

    def exact(x):
        return x[1] * x[0] / np.tan(x[0])

    assert error(wg.hessian(slope, X[:2]), wg.hessian(exact, X[:2])) < 1e-7


def test_unknown_parameters_have_derivatives():
    def eigenvalue(c):
        found = solve_bvp(
            lambda t, y, p: np.stack([y[1], -(p[0] ** 2) * c * y[0]]),
            lambda a, b, p: np.stack([a[0], b[0], a[1] - p[0]]),
            np.linspace(0, 1, 5), np.array([[0.0, 1.0, 0.0, -1.0, 0.0], np.zeros(5)]), p=[6.0], tol=1e-6,
        )  # fmt: skip
        return found.p[0]

    assert wg.grad(eigenvalue, 1.0) == pytest.approx(-np.pi, rel=1e-6)     # 2 pi / sqrt(c)


def test_solution_of_nonlinear_equation_has_derivatives():
    def peak(a):
        found = solve_bvp(
            lambda t, y: np.stack([y[1], -a * np.exp(y[0])]), lambda p, q: np.stack([p[0], q[0]]),
            np.linspace(0, 1, 5), np.zeros((2, 5)), tol=1e-8,
        )  # fmt: skip
        return found.sol(0.5)[0]

    def equation(theta, a):  # of Bratu's problem
        return theta - np.sqrt(2 * a) * np.cosh(theta / 4)

    def exact(a):
        return 2 * np.log(np.cosh(wg.implicit.root(equation, 1.0, args=(a,)) / 4))

    assert peak(1.0) == pytest.approx(exact(1.0), rel=1e-7)
    assert wg.grad(peak, 1.0) == pytest.approx(wg.grad(exact, 1.0), rel=1e-7)


def test_problem_with_many_nodes_has_derivatives():
    found = wg.grad(lambda w: oscillator(np.stack([w, 1.0, 1.0]), 400, 1e-6).y[1, -1], 1.1)
    assert found == pytest.approx(wg.grad(lambda w: w / np.tan(w), 1.1), rel=1e-8)


def test_jacobians_of_the_user_are_accepted():
    options = {
        "fun_jac": lambda t, y: np.tile(np.array([[0.0, 1.0], [-1.21, 0.0]])[:, :, None], t.size),
        "bc_jac": lambda a, b: (np.array([[1.0, 0.0], [0.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 0.0]])),
    }
    found = wg.grad(lambda w: oscillator(np.stack([w, 1.0, 1.0]), **options).y[1, -1], 1.1)
    assert found == pytest.approx(wg.grad(lambda w: w / np.tan(w), 1.1), rel=1e-8)


class Holder:
    value = 0.0


def test_parameters_may_be_in_an_attribute():
    def slope(w):
        Holder.value = w
        found = solve_bvp(
            lambda t, y: np.stack([y[1], -(Holder.value**2) * y[0]]), lambda a, b: np.stack([a[0], b[0] - 1.0]),
            np.linspace(0, 1, 11), np.zeros((2, 11)), tol=1e-8,
        )  # fmt: skip
        Holder.value = 0.0
        return found.y[1, -1]

    assert wg.grad(slope, 1.1) == pytest.approx(wg.grad(lambda w: w / np.tan(w), 1.1), rel=1e-8)


def test_plain_calls_are_those_of_scipy():
    import wengert.scipy.integrate as mirror

    def rate(t, y):
        return np.stack([y[1], -y[0]])

    arguments = rate, lambda a, b: np.stack([a[0], b[0] - 1]), [0, 0.5, 1], np.zeros((2, 3))
    ours, theirs = mirror.solve_bvp(*arguments), scipy.integrate.solve_bvp(*arguments)
    assert type(ours) is type(theirs)
    assert np.array_equal(ours.y, theirs.y)


def blow_up(a):
    return solve_bvp(
        lambda t, y: np.stack([y[1], -a * np.exp(y[0])]), lambda p, q: np.stack([p[0], q[0]]), np.linspace(0, 1, 5),
        np.zeros((2, 5)),
    ).y[0, 2]  # fmt: skip


# ---- a singular term


def membrane(x):
    """Amplitude at the middle of a vibrating membrane: y'' + y' / r + k^2 y = 0, of the amplitude q at the radius R."""
    k, q, radius = x
    found = solve_bvp(
        lambda r, y: np.stack([y[1], -(k**2) * y[0]]), lambda a, b: np.stack([a[1], b[0] - q]),
        np.linspace(0, 1, 11) * radius, np.ones((2, 11)), S=np.array([[0.0, 0.0], [0.0, -1.0]]), tol=1e-8,
    )  # fmt: skip
    return found.sol(0.0)[0]


def test_equation_with_singular_term_has_derivatives():
    """The solution is q J0(k r) / J0(k R)."""
    x = np.array([1.3, 0.7, 1.1])

    def exact(x):
        return x[1] / wg.scipy.special.j0(x[0] * x[2])

    for derivative in (wg.grad(membrane), wg.jacfwd(membrane)):
        assert derivative(x) == pytest.approx(wg.grad(exact, x), rel=1e-7)
    assert wg.hessian(membrane)(x) == pytest.approx(wg.hessian(exact)(x), rel=1e-5)


ERRORS = {
    "no solution": (
        lambda: wg.grad(blow_up, 10.0), wg.ConvergenceError, r"solve_bvp: no solution was found: .*max_nodes",
    ),
    "tolerance": (
        lambda: wg.grad(lambda a: oscillator(np.stack([a, 1.0, 1.0]), tol=1e-3 * a).y[1, -1], 1.0), wg.TracedValueError,
        r"solve_bvp: tol is traced, but",
    ),
    "singular term": (
        lambda: wg.grad(lambda a: oscillator(np.stack([a, 1.0, 1.0]), S=a * np.zeros((2, 2))).y[1, -1], 1.0),
        wg.TracedValueError, r"solve_bvp: S is traced, but",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ERRORS)
def test_errors_name_the_cause(name):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message):
        call()
