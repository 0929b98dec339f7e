"""Bratu's problem by Newton's method with a sparse direct solver, up to the fold beyond which no solution exists.

A slab heats itself, faster the hotter it is; its edges are held at 0 (all quantities dimensionless):

    d2u/dx2 + d2u/dy2 + lambda exp(u) = 0        on the unit square

The five-point formula gives n x n unknowns.  Each step of Newton's method solves linear equations with the sparse
Jacobian; the comparison uses SciPy's finite differences with the same pattern.

Up to lambda = 6.808 there are two solutions, which meet in a fold.  The Jacobian is singular there, so the branch is
followed, on a coarser grid, by the height s of the solution: lambda becomes an unknown, and u = s at the centre an
additional equation.  The Jacobian of the extended system gives d lambda / ds, which is zero at the fold.

The script checks that the Jacobian equals the one derived by hand; convergence is quadratic; and the fold, extrapolated
from two grids, has the value known from the literature.  The exit status is 1 if a check fails.

    python tests/applications/bratu_newton.py [--points N] [--fold-points N] [--figure FILE]

Reference: Bolstad and Keller (1986), A multigrid continuation method for elliptic problems with folds.
doi:10.1137/0907074
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display
from scipy.optimize import brentq
from scipy.optimize._numdiff import approx_derivative, group_columns  # solvers call these with jac_sparsity
from scipy.sparse.linalg import spsolve

import wengert as wg

LAMBDA = 6.0
FOLD = 6.808124423  # of the continuous problem, by Bolstad and Keller


# ---- the equations -------------------------------------------------------------------------------


def bratu(u, parameter):
    n = int(np.sqrt(u.size))
    p = np.zeros((n + 2, n + 2))
    p[1:-1, 1:-1] = u.reshape(n, n)
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return ((around - 4 * p[1:-1, 1:-1]) * (n + 1) ** 2 + parameter * np.exp(p[1:-1, 1:-1])).ravel()


def branch(z, height):
    """Return the equations for z = (u, lambda) at which u has this height at the centre."""
    u = z[:-1]
    return np.append(bratu(u, z[-1]), u[centre(u.size)] - height)


def centre(size):
    n = int(np.sqrt(size))
    return n // 2 * (n + 1)


def jacobian_by_hand(u, parameter):
    n = int(np.sqrt(u.size))
    second = sp.diags_array([1.0, -2.0, 1.0], offsets=[-1, 0, 1], shape=(n, n)) * (n + 1) ** 2
    return (sp.kronsum(second, second) + sp.diags_array(parameter * np.exp(u))).tocsr()


jacobian = wg.jacobian(bratu, sparse=True)
branch_jacobian = wg.jacobian(branch, sparse=True)


def solve(A, b):
    return spsolve(A.tocsc(), b, permc_spec="MMD_AT_PLUS_A")  # less fill than the default for a symmetric pattern


# ---- Newton's method -----------------------------------------------------------------------------


class Newton:
    """Newton's method from u = 0, with the sizes of its steps and the time of each part."""

    def __init__(self, n, jac, steps=20):
        self.steps = []
        self.jacobians = []  # seconds
        self.solves = []
        self.u = np.zeros(n * n)
        while len(self.steps) < steps and (not self.steps or self.steps[-1] > 1e-11):
            start = perf_counter()
            J = jac(self.u, LAMBDA)
            between = perf_counter()
            step = solve(J, bratu(self.u, LAMBDA))
            self.u = self.u - step
            self.jacobians.append(between - start)
            self.solves.append(perf_counter() - between)
            self.steps.append(np.max(np.abs(step)))

    def order(self):
        """Return the order of convergence, from the last three steps above rounding."""
        first, second, third = np.log([step for step in self.steps if step > 1e-11][-3:])
        return (third - second) / (second - first)


# ---- the fold ------------------------------------------------------------------------------------


def on_branch(z, height):
    """Return the point of the branch with this height, from a nearby point, and d lambda / d height."""
    z = z.copy()
    for _ in range(20):
        step = spsolve(branch_jacobian(z, height).tocsc(), branch(z, height))
        z -= step
        if np.max(np.abs(step)) < 1e-10:
            break
    along = np.zeros(z.size)
    along[-1] = 1.0
    return z, spsolve(branch_jacobian(z, height).tocsc(), along)[-1]


def follow(n, heights):
    """Return points z = (u, lambda) of the branch at these heights, and height and lambda at the fold."""
    points, slopes = [], []
    z = np.zeros(n * n + 1)
    for height in heights:
        z, slope = on_branch(z, height)
        points.append(z)
        slopes.append(slope)
    i = next(i for i, slope in enumerate(slopes) if slope < 0)
    height = brentq(lambda s: on_branch(points[i], s)[1], heights[i - 1], heights[i], xtol=1e-8)
    return points, height, on_branch(points[i], height)[0][-1]


# ---- the report ----------------------------------------------------------------------------------


def print_comparison(exact, differences, calls):
    def row(name, one, other):
        print(f"{name:40}{one:>18}{other:>20}")

    row("", "sparse=True", "finite differences")
    row("Newton steps", len(exact.steps), len(differences.steps))
    row("function evaluations per Jacobian", 0, calls)
    row("first Jacobian, ms", f"{1e3 * exact.jacobians[0]:.1f}", f"{1e3 * differences.jacobians[0]:.1f}")
    for name, part in ("later Jacobians, median, ms", "jacobians"), ("linear solve, median, ms", "solves"):
        row(name, *(f"{1e3 * np.median(getattr(run, part)[1:]):.1f}" for run in (exact, differences)))
    for i in range(max(len(exact.steps), len(differences.steps))):
        shown = (f"{run.steps[i]:.1e}" if i < len(run.steps) else "-" for run in (exact, differences))
        row(f"max change of u in step {i + 1}", *shown)
    print()


def draw(exact, differences, heights, lambdas, fold, path):
    figure = Figure(figsize=(12, 3.9), layout="constrained")
    field, steps, curve = figure.subplots(1, 3)
    n = int(np.sqrt(exact.u.size))
    image = field.imshow(exact.u.reshape(n, n), extent=(0, 1, 0, 1), origin="lower", cmap="inferno")
    figure.colorbar(image, ax=field, label="u")
    field.set(title=f"lower solution, lambda = {LAMBDA:g}", xlabel="x", ylabel="y")

    for run, line, name in (exact, "o-", "sparse=True"), (differences, "s--", "finite differences"):
        steps.semilogy(range(1, len(run.steps) + 1), run.steps, line, mfc="none", label=name)
    steps.set(title=f"Newton's method, {n * n} unknowns", xlabel="step", ylabel="max change of u")
    steps.legend(frameon=False)

    curve.plot(lambdas, heights, ".-")
    curve.plot(fold[1], fold[0], "o", color="black", label=f"fold, lambda = {fold[1]:.4f}")
    curve.set(title="lower and upper solution", xlabel="lambda", ylabel="u at the centre")
    curve.legend(frameon=False)
    figure.supxlabel("All quantities are dimensionless.", fontsize="small")
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("bratu_newton.png"), help="file the figure goes to")
    parser.add_argument("--points", type=int, default=100, help="along each edge; 316 for 10^5 unknowns")
    parser.add_argument("--fold-points", type=int, default=47, help="along each edge where the fold is sought; odd")
    options = parser.parse_args()
    n = options.points

    pattern = wg.sparsity(bratu, np.zeros(n * n), args=(LAMBDA,))
    groups = group_columns(pattern)

    def difference_jacobian(u, parameter):
        return approx_derivative(bratu, u, method="2-point", sparsity=(pattern, groups), args=(parameter,))

    exact = Newton(n, jacobian)
    print(f"{n * n} unknowns, {jacobian.pattern.nnz} nonzeros: {jacobian.plan}\n")
    differences = Newton(n, difference_jacobian)
    print_comparison(exact, differences, groups.max() + 2)

    heights = np.linspace(0.25, 4, 16)
    finer, coarser = options.fold_points, (options.fold_points - 1) // 2  # half the points: twice the grid spacing
    points, *fold = follow(finer, heights)
    _, _, coarse_fold = follow(coarser, heights)
    extrapolated = (4 * fold[1] - coarse_fold) / 3
    print(f"fold at lambda = {coarse_fold:.6f} with {coarser}^2, {fold[1]:.6f} with {finer}^2 unknowns,")
    print(f"extrapolated {extrapolated:.6f}, known {FOLD}; height {fold[0]:.4f}\n")

    by_hand = jacobian_by_hand(exact.u, LAMBDA)
    claims = {
        "relative error of the Jacobian": (
            abs(jacobian(exact.u, LAMBDA) - by_hand).max() / abs(by_hand).max(),
            4 * np.finfo(float).eps,
        ),
        "2 - order of convergence": (2 - exact.order(), 0.1),
        "max change of u in the last step": (exact.steps[-1], 1e-11),
        "max difference of the two solutions": (np.max(np.abs(exact.u - differences.u)), 1e-8),
        "error of extrapolated lambda at the fold": (abs(extrapolated - FOLD), 40 / finer**4),
    }
    failures = [name for name, (error, bound) in claims.items() if not error <= bound]
    for name, (error, bound) in claims.items():
        print(f"{name:48}{error:10.1e}   bound {bound:7.1e}   {'FAIL' if name in failures else 'PASS'}")
    print()

    draw(exact, differences, heights, [z[-1] for z in points], fold, options.figure)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
