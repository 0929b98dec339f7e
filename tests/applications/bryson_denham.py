"""Optimal control by collocation, with sparse exact first and second derivatives and the shadow price of a limit.

A unit mass on a line starts at x = 0 with speed 1 and must return with speed -1 after a time of 1, without
passing x = l, by a force a(t) of minimum effort (Bryson and Denham; all quantities dimensionless):

    minimise w(1),   dx/dt = v,   dv/dt = a,   dw/dt = a^2 / 2,   x <= l,
    x(0) = x(1) = 0,   v(0) = 1,   v(1) = -1,   w(0) = 0

The unknowns are x, v and w at the ends of N intervals, and a there and at the midpoints; the Hermite-Simpson
formula turns the differential equations into 3 N equations.  SciPy's `minimize(method="trust-constr")` receives their
sparse Jacobian and the sparse Hessian of multipliers times equations; the comparison uses finite differences with
the same pattern, and BFGS.

The minimum effort is known to be 4 / (9 l) for l <= 1/6, so its derivative by l is -4 / (9 l^2): 4 and -36 for l = 1/9.
The multipliers of x <= l give that derivative from a single solution.  The force is linear until the mass reaches the
limit at t = 3 l = 1/3, zero until it leaves at 2/3, and linear again: if intervals end there, collocation is exact.

The script checks that the effort, its derivative and x(t) have these values and that the sparse
derivatives are correct.  The exit status is 1 if a check fails.

    python tests/applications/bryson_denham.py [--intervals N] [--figure FILE]

Reference: Bryson, Denham and Dreyfus (1963), Optimal programming problems with inequality constraints I: necessary
conditions for extremal solutions. doi:10.2514/3.2107
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display
from scipy.optimize import BFGS, Bounds, NonlinearConstraint, minimize

import wengert as wg

LIMIT = 1 / 9


# ---- the problem ---------------------------------------------------------------------------------


def states_and_force(z):
    """Return x, v and w as rows at the ends of intervals, and the force at ends and midpoints alternately."""
    ends = (z.size + 1) // 5
    return z[: 3 * ends].reshape(3, ends), z[3 * ends :]


def rates(states, a):
    return np.stack([states[1], a, a**2 / 2])


def equations(z):
    y, a = states_and_force(z)
    h = 1 / (y.shape[1] - 1)
    at_ends = rates(y, a[::2])
    left, right = at_ends[:, :-1], at_ends[:, 1:]
    middle = rates((y[:, :-1] + y[:, 1:]) / 2 + h / 8 * (left - right), a[1::2])
    defects = y[:, 1:] - y[:, :-1] - h / 6 * (left + 4 * middle + right)
    (x, v, w) = y
    return np.concatenate([defects.ravel(), [x[0], x[-1], v[0] - 1, v[-1] + 1, w[0]]])


def effort(z):
    return states_and_force(z)[0][2, -1]


jacobian = wg.jacobian(equations, sparse=True)
multiplied_hessian = wg.hessian(lambda z, multipliers: multipliers @ equations(z), sparse=True)
effort_gradient = wg.grad(effort)
effort_hessian = wg.hessian(effort, sparse=True)  # no nonzeros: the effort is one of the unknowns


def hessian_by_hand(z, multipliers):
    """Only the equations for w are nonlinear: h/6 times a^2 / 2 at both ends, and four times that at the midpoint."""
    _, a = states_and_force(z)
    n = a.size // 2
    diagonal = np.zeros(z.size)
    of_w = multipliers[2 * n : 3 * n]
    forces = diagonal[-a.size :]
    forces[1::2] = -4 / (6 * n) * of_w
    forces[:-1:2] -= of_w / (6 * n)
    forces[2::2] -= of_w / (6 * n)
    return diagonal


# ---- the solution --------------------------------------------------------------------------------


class Solution:
    """The minimum effort below a limit, with the calls and time of `minimize`."""

    def __init__(self, n, limit, exact=True):
        self.calls = 0
        self.limit = limit
        t = np.linspace(0, 1, n + 1)
        start = np.concatenate([limit * np.sin(np.pi * t), 1 - 2 * t, 2 * t, np.full(2 * n + 1, -2.0)])
        upper = np.full(start.size, np.inf)
        upper[1:n] = limit

        def counted(z):
            self.calls += 1
            return equations(z)

        if exact:
            of_equations = {"jac": jacobian, "hess": multiplied_hessian}
        else:
            of_equations = {"jac": "2-point", "hess": BFGS(), "finite_diff_jac_sparsity": wg.sparsity(equations, start)}
        began = perf_counter()
        self.found = minimize(
            effort,
            start,
            jac=effort_gradient,
            hess=effort_hessian,
            method="trust-constr",
            bounds=Bounds(-np.inf, upper),
            constraints=NonlinearConstraint(counted, 0, 0, **of_equations),
            options={"gtol": 1e-10, "xtol": 1e-12, "barrier_tol": 1e-9, "maxiter": 200},
        )
        self.seconds = perf_counter() - began
        self.z = self.found.x
        self.multipliers, self.of_bounds = self.found.v

    @property
    def price(self):
        """Return the derivative of the effort by the limit."""
        return -self.of_bounds.sum()


def x_in_closed_form(t):
    """Return the solution of the continuous problem: towards the limit, at the limit, and back."""
    return LIMIT * (1 - np.maximum(0, 1 - np.minimum(t, 1 - t) / (3 * LIMIT)) ** 3)


def force_in_closed_form(t):
    return -2 / (3 * LIMIT) * np.maximum(0, 1 - np.minimum(t, 1 - t) / (3 * LIMIT))


# ---- the report ----------------------------------------------------------------------------------


def print_comparison(exact, differences):
    def row(name, entries):
        print(f"{name:40}{entries[0]:>18}{entries[1]:>20}")

    both = exact, differences
    row("", ["sparse=True", "finite differences"])
    row("iterations", [s.found.nit for s in both])
    row("function evaluations", [s.calls for s in both])
    row("time, s", [f"{s.seconds:.2f}" for s in both])
    row("error of the effort", [f"{s.found.fun - 4 / (9 * LIMIT):.1e}" for s in both])
    row("d effort / d limit", [f"{s.price:.4f}" for s in both])
    row("max constraint violation", [f"{np.max(np.abs(equations(s.z))):.1e}" for s in both])
    print()


def draw(z, path):
    y, a = states_and_force(z)
    t, t_force = np.linspace(0, 1, y.shape[1]), np.linspace(0, 1, a.size)
    figure = Figure(figsize=(12.5, 4.2), layout="constrained")
    state, force, pattern = figure.subplots(1, 3, width_ratios=[1, 1, 1.4])
    state.plot(t, x_in_closed_form(t), color="C0", label="closed form")
    state.plot(t, y[0], ".", color="black", label="collocation")
    state.axhline(LIMIT, color="C3", linestyle=":", label="limit")
    state.set(title="position", xlabel="time t", ylabel="x")
    force.plot(t_force, force_in_closed_form(t_force), color="C0")
    force.plot(t_force, a, ".", color="black")
    force.set(title="force", xlabel="time t", ylabel="a")
    figure.legend(loc="outside lower left", ncols=3, frameon=False)
    wg.colouring(jacobian.pattern).plot(pattern)
    pattern.set(xlabel="unknown", ylabel="equation", title=f"Jacobian; {pattern.get_title()}")
    figure.supxlabel("All quantities are dimensionless.", fontsize="small")
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("bryson_denham.png"), help="file the figure goes to")
    parser.add_argument("--intervals", type=int, default=30, help="a multiple of 3")
    options = parser.parse_args()
    n = options.intervals

    exact = Solution(n, LIMIT)
    print_comparison(exact, Solution(n, LIMIT, exact=False))
    print(f"Jacobian: {jacobian.plan}")
    print(f"Hessian of the constraints: {multiplied_hessian.plan}\n")

    z, multipliers = exact.z, exact.multipliers
    p = np.random.default_rng(1963).standard_normal(z.size)
    across = (equations(z + p) - equations(z - p)) / 2  # exact up to rounding: the equations are quadratic
    by_hand = np.diag(hessian_by_hand(z, multipliers))
    apart = 1e-3 * LIMIT
    again = (Solution(n, LIMIT + apart).found.fun - Solution(n, LIMIT - apart).found.fun) / (2 * apart)
    x = states_and_force(z)[0][0]
    claims = {
        "J @ p against differences": (np.max(np.abs(jacobian(z) @ p - across)), 1e-12),
        "error of the Hessian": (np.max(np.abs(multiplied_hessian(z, multipliers) - by_hand)), 1e-14),
        "error of the effort": (abs(exact.found.fun - 4 / (9 * LIMIT)), 1e-6),
        "d effort / d limit: relative error": (abs(exact.price / (-4 / (9 * LIMIT**2)) - 1), 1e-3),
        "d effort / d limit: re-solving, relative": (abs(again / exact.price - 1), 1e-2),
        "error of the position": (np.max(np.abs(x - x_in_closed_form(np.linspace(0, 1, n + 1)))), 1e-4),
        "gradient of the Lagrangian": (exact.found.optimality, 1e-6),
    }
    failures = [name for name, (error, bound) in claims.items() if not error <= bound]
    for name, (error, bound) in claims.items():
        print(f"{name:48}{error:10.1e}   bound {bound:7.1e}   {'FAIL' if name in failures else 'PASS'}")
    print()

    draw(z, options.figure)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
