"""Sensitivities of problems of Hock and Schittkowski (1981), Test Examples for Nonlinear Programming Codes.

Each has a parameter in place of a constant. The derivatives of solution and minimum are compared with differences of
nearby problems, whose optimality conditions are solved by Newton's method to rounding.
"""

import numpy as np
import pytest

import wengert as wg
from wengert.scipy import optimize

exp, sqrt = np.exp, np.sqrt
STEP = 1e-5

#: objective, equations, inequalities, bounds, start, parameter
PROBLEMS = {
    "HS3": (
        lambda x, p: x[1] + 0.01 * p * (x[1] - x[0]) ** 2 + (x[0] - p) ** 2,
        None,
        None,
        [(None, None), (0, None)],
        [10, 1.0],
        1.0,
    ),
    "HS11": (
        lambda x, p: (x[0] - 5 * p) ** 2 + x[1] ** 2 - 25,
        None,
        lambda x, p: [-x[0] ** 2 + x[1]],
        None,
        [4.9, 0.1],
        1.0,
    ),
    "HS14": (
        lambda x, p: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        lambda x, p: [x[0] - 2 * x[1] + p],
        lambda x, p: [-0.25 * x[0] ** 2 - x[1] ** 2 + p ** 2],
        None,
        [2, 2.0],
        1.0,
    ),
    "HS22": (
        lambda x, p: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        None,
        lambda x, p: [-x[0] - x[1] + 2 * p, -x[0] ** 2 + x[1]],
        None,
        [2, 2.0],
        1.0,
    ),
    "HS24": (
        lambda x, p: ((x[0] - 3) ** 2 - 9) * x[1] ** 3 / (27 * sqrt(3)),
        None,
        lambda x, p: [x[0] / sqrt(3) - x[1], x[0] + sqrt(3) * x[1], -x[0] - sqrt(3) * x[1] + 6 * p],
        [(0, None)] * 2,
        [1, 0.5],
        1.0,
    ),
    "HS30": (
        lambda x, p: x[0] ** 2 + x[1] ** 2 + x[2] ** 2 + p * x[1],
        None,
        lambda x, p: [x[0] ** 2 + x[1] ** 2 - 1],
        [(1, 10), (-10, 10), (-10, 10)],
        [1, 1, 1.0],
        0.3,
    ),
    "HS31": (
        lambda x, p: 9 * x[0] ** 2 + x[1] ** 2 + 9 * x[2] ** 2,
        None,
        lambda x, p: [x[0] * x[1] - p],
        [(-10, 10), (1, 10), (-10, 1)],
        [1, 1, 1.0],
        1.0,
    ),
    "HS34": (
        lambda x, p: -x[0],
        None,
        lambda x, p: [x[1] - exp(x[0]), x[2] - exp(x[1])],
        lambda p: [(0, 100), (0, 100), (0, 10 * p)],
        [0, 1.05, 2.9],
        1.0,
    ),
    "HS36": (
        lambda x, p: -x[0] * x[1] * x[2],
        None,
        lambda x, p: [72 * p - x[0] - 2 * x[1] - 2 * x[2]],
        [(0, 20), (0, 11), (0, 42)],
        [10, 10, 10.0],
        1.0,
    ),
    "HS38": (
        lambda x, p: 100 * (x[1] - x[0] ** 2) ** 2 + (p - x[0]) ** 2 + 90 * (x[3] - x[2] ** 2) ** 2 + (1 - x[2]) ** 2
        + 10.1 * ((x[1] - 1) ** 2 + (x[3] - 1) ** 2) + 19.8 * (x[1] - 1) * (x[3] - 1),
        None,
        None,
        [(-10, 10)] * 4,
        [-3, -1, -3, -1.0],
        1.0,
    ),
    "HS39": (
        lambda x, p: -x[0],
        lambda x, p: [x[1] - x[0] ** 3 - x[2] ** 2, x[0] ** 2 - x[1] - p * x[3] ** 2],
        None,
        None,
        [2, 2, 2, 2.0],
        1.0,
    ),
    "HS40": (
        lambda x, p: -x[0] * x[1] * x[2] * x[3],
        lambda x, p: [x[0] ** 3 + x[1] ** 2 - p, x[0] ** 2 * x[3] - x[2], x[3] ** 2 - x[1]],
        None,
        None,
        [0.8] * 4,
        1.0,
    ),
    "HS42": (
        lambda x, p: (x[0] - 1) ** 2 + (x[1] - 2) ** 2 + (x[2] - 3) ** 2 + (x[3] - 4) ** 2,
        lambda x, p: [x[0] - 2, x[2] ** 2 + x[3] ** 2 - 2 * p],
        None,
        None,
        [1, 1, 1, 1.0],
        1.0,
    ),
    "HS48": (
        lambda x, p: (x[0] - p) ** 2 + (x[1] - x[2]) ** 2 + (x[3] - x[4]) ** 2,
        lambda x, p: [np.sum(x) - 5, x[2] - 2 * (x[3] + x[4]) + 3 * p],
        None,
        None,
        [3, 5, -3, 2, -2.0],
        1.0,
    ),
    "HS50": (
        lambda x, p: (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 2 + (x[2] - x[3]) ** 4 + (x[3] - x[4]) ** 2 + p * x[4],
        lambda x, p: [x[0] + 2 * x[1] + 3 * x[2] - 6, x[1] + 2 * x[2] + 3 * x[3] - 6, x[2] + 2 * x[3] + 3 * x[4] - 6],
        None,
        None,
        [35, -31, 11, 5, -5.0],
        0.5,
    ),
    "HS60": (
        lambda x, p: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4,
        lambda x, p: [x[0] * (1 + x[1] ** 2) + x[2] ** 4 - 4 * p - 3 * sqrt(2)],
        None,
        [(-10, 10)] * 3,
        [2, 2, 2.0],
        1.0,
    ),
    "HS61": (
        lambda x, p: 4 * x[0] ** 2 + 2 * x[1] ** 2 + 2 * x[2] ** 2 - 33 * p * x[0] + 16 * x[1] - 24 * x[2],
        lambda x, p: [3 * x[0] - 2 * x[1] ** 2 - 7, 4 * x[0] - x[2] ** 2 - 11],
        None,
        None,
        [5.3, -2.1, 3.2],
        1.0,
    ),
    "HS63": (
        lambda x, p: 1000 - x[0] ** 2 - 2 * x[1] ** 2 - x[2] ** 2 - x[0] * x[1] - x[0] * x[2],
        lambda x, p: [8 * x[0] + 14 * x[1] + 7 * x[2] - 56, x[0] ** 2 + x[1] ** 2 + x[2] ** 2 - 25 * p],
        None,
        [(0, None)] * 3,
        [2, 2, 2.0],
        1.0,
    ),
    "HS65": (
        lambda x, p: (x[0] - x[1]) ** 2 + (x[0] + x[1] - 10) ** 2 / 9 + (x[2] - 5) ** 2,
        None,
        lambda x, p: [48 * p - x[0] ** 2 - x[1] ** 2 - x[2] ** 2],
        [(-4.5, 4.5), (-4.5, 4.5), (-5, 5)],
        [-1, 1, 1.0],
        1.0,
    ),
    "HS66": (
        lambda x, p: 0.2 * x[2] - 0.8 * x[0],
        None,
        lambda x, p: [x[1] - exp(x[0]), x[2] - exp(p * x[1])],
        [(0, 100), (0, 100), (0, 10)],
        [0, 1.05, 2.9],
        1.0,
    ),
    "HS77": (
        lambda x, p: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[2] - 1) ** 2 + (x[3] - 1) ** 4 + (x[4] - 1) ** 6,
        lambda x, p: [x[0] ** 2 * x[3] + np.sin(x[3] - x[4]) - 2 * sqrt(2) * p, x[1] + x[2] ** 4 * x[3] ** 2 - 8 -
        sqrt(2)],
        None,
        None,
        [2.0] * 5,
        1.0,
    ),
    "HS78": (
        lambda x, p: x[0] * x[1] * x[2] * x[3] * x[4],
        lambda x, p: [np.sum(x ** 2) - 10 * p, x[1] * x[2] - 5 * x[3] * x[4], x[0] ** 3 + x[1] ** 3 + 1],
        None,
        None,
        [-2, 1.5, 2, -1, -1.0],
        1.0,
    ),
    "HS79": (
        lambda x, p: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 2 + (x[2] - x[3]) ** 4 + (x[3] - x[4]) **
        4,
        lambda x, p: [x[0] + x[1] ** 2 + x[2] ** 3 - 2 - 3 * sqrt(2), x[1] - x[2] ** 2 + x[3] + 2 - 2 * sqrt(2), x[0]
        * x[4] - 2 * p],
        None,
        None,
        [2.0] * 5,
        1.0,
    ),
    "HS80": (
        lambda x, p: exp(x[0] * x[1] * x[2] * x[3] * x[4]),
        lambda x, p: [np.sum(x ** 2) - 10 * p, x[1] * x[2] - 5 * x[3] * x[4], x[0] ** 3 + x[1] ** 3 + 1],
        None,
        [(-2.3, 2.3)] * 2 + [(-3.2, 3.2)] * 3,
        [-2, 2, 2, -1, -1.0],
        1.0,
    ),
    "HS93": (
        lambda x, p: 0.0204 * x[0] * x[3] * (x[0] + x[1] + x[2]) + 0.0187 * x[1] * x[2] * (x[0] + 1.57 * x[1] + x[3])
        + 0.0607 * x[0] * x[3] * x[4] ** 2 * (x[0] + x[1] + x[2]) + 0.0437 * x[1] * x[2] * x[5] ** 2 * (x[0] + 1.57 *
        x[1] + x[3]),
        None,
        lambda x, p: [0.001 * x[0] * x[1] * x[2] * x[3] * x[4] * x[5] - 2.07 * p, 1 - 0.00062 * x[0] * x[3] * x[4] **
        2 * (x[0] + x[1] + x[2]) - 0.00058 * x[1] * x[2] * x[5] ** 2 * (x[0] + 1.57 * x[1] + x[3])],
        [(0, None)] * 6,
        [5.54, 4.4, 12.02, 11.82, 0.702, 0.852],
        1.0,
    ),
    "HS100": (
        lambda x, p: (x[0] - 10) ** 2 + 5 * (x[1] - 12) ** 2 + x[2] ** 4 + 3 * (x[3] - 11) ** 2 + 10 * x[4] ** 6 + 7 *
        x[5] ** 2 + x[6] ** 4 - 4 * x[5] * x[6] - 10 * x[5] - 8 * x[6],
        None,
        lambda x, p: [127 * p - 2 * x[0] ** 2 - 3 * x[1] ** 4 - x[2] - 4 * x[3] ** 2 - 5 * x[4], 282 - 7 * x[0] - 3 *
        x[1] - 10 * x[2] ** 2 - x[3] + x[4], 196 - 23 * x[0] - x[1] ** 2 - 6 * x[5] ** 2 + 8 * x[6], -4 * x[0] ** 2 -
        x[1] ** 2 + 3 * x[0] * x[1] - 2 * x[2] ** 2 - 5 * x[5] + 11 * x[6]],
        None,
        [1, 2, 0, 4, 0, 1, 1.0],
        1.0,
    ),
}  # fmt: skip


def parts(name, p):
    """Return functions of x: objective, equations, inequalities; and the bounds."""
    objective, equations, inequalities, bounds, *_ = PROBLEMS[name]
    listed = [g and (lambda x, g=g: np.stack(g(x, p))) for g in (equations, inequalities)]
    return (lambda x: objective(x, p)), *listed, bounds(p) if callable(bounds) else bounds


def solve(name, p, method="SLSQP", **options):
    objective, equations, inequalities, bounds = parts(name, p)
    constraints = [{"type": "eq", "fun": equations}] if equations else []
    constraints += [{"type": "ineq", "fun": inequalities}] if inequalities else []
    given = {"constraints": constraints} if constraints else {}
    start = np.array(PROBLEMS[name][4], float)
    return optimize.minimize(objective, start, method=method, bounds=bounds, **given, **options)


def active(name, p, x):
    """Return the function of the equations and active inequalities at x."""
    _, equations, inequalities, bounds = parts(name, p)
    found = []
    for i, (low, high) in enumerate(bounds or ()):
        found += [] if low is None or x[i] - low > 1e-5 else [lambda x, q, i=i: x[i] - limits(name, q)[i][0]]
        found += [] if high is None or high - x[i] > 1e-5 else [lambda x, q, i=i: limits(name, q)[i][1] - x[i]]
    for k, slack in enumerate(inequalities(x) if inequalities else ()):
        found += [] if slack > 1e-5 * np.max(np.abs(x)) else [lambda x, q, k=k: parts(name, q)[2](x)[k]]
    for k in range(len(equations(x)) if equations else 0):
        found.append(lambda x, q, k=k: parts(name, q)[1](x)[k])
    return (lambda x, q: np.stack([g(x, q) for g in found])) if found else (lambda x, q: np.zeros(0))


def limits(name, p):
    return parts(name, p)[3]


def by_differences(name):
    """Return the derivatives of solution and minimum in the parameter."""
    p = PROBLEMS[name][-1]
    x = solve(name, p, tol=1e-15, options={"maxiter": 2000}).x
    n, constraint = x.size, active(name, p, x)

    def solved(q):
        objective, at = parts(name, q)[0], x
        rows = np.reshape(wg.jacobian(lambda x: constraint(x, q) + 0 * x[0])(at), (-1, n))
        multipliers = np.linalg.lstsq(rows.T, wg.grad(objective)(at), rcond=None)[0]
        for _ in range(12):
            lagrangian = lambda x, m=multipliers: objective(x) - np.sum(m * constraint(x, q))
            rows = np.reshape(wg.jacobian(lambda x: constraint(x, q) + 0 * x[0])(at), (-1, n))
            matrix = np.block([[wg.hessian(lagrangian)(at), -rows.T], [rows, np.zeros((len(rows), len(rows)))]])
            residual = np.concatenate([wg.grad(lagrangian)(at), constraint(at, q)])
            step = np.linalg.lstsq(matrix, -residual, rcond=None)[0]
            at, multipliers = at + step[:n], multipliers + step[n:]
        return np.append(at, objective(at))

    slopes = (solved(p + STEP) - solved(p - STEP)) / (2 * STEP)
    return slopes[:-1], slopes[-1]


@pytest.mark.parametrize("name", PROBLEMS)
def test_sensitivities_equal_differences_of_polished_solutions(name):
    p = PROBLEMS[name][-1]
    of_x, of_fun = by_differences(name)
    size = max(1.0, np.max(np.abs(of_x)))
    for method in ["SLSQP"] if PROBLEMS[name][1] or PROBLEMS[name][2] else ["SLSQP", "L-BFGS-B", "TNC"]:
        x = wg.derivative(lambda p, m=method: solve(name, p, m).x, p)
        np.testing.assert_allclose(x, of_x, rtol=0, atol=1e-8 * size)
        fun = wg.grad(lambda p, m=method: solve(name, p, m).fun, p)
        assert fun == pytest.approx(of_fun, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("name", ["HS34", "HS39", "HS63", "HS80", "HS100"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sensitivities_by_an_interior_point_method(name):
    of_x, _ = by_differences(name)
    found = wg.derivative(lambda p: solve(name, p, "trust-constr").x, PROBLEMS[name][-1])
    np.testing.assert_allclose(found, of_x, rtol=0, atol=1e-8 * max(1.0, np.max(np.abs(of_x))))
