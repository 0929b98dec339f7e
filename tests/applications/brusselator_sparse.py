"""A chemical clock on a square, by the stiff integrators of SciPy with a sparse exact Jacobian.

Two substances react and diffuse on the unit square, with periodic boundaries (all quantities dimensionless):

    du/dt = A + u^2 v - (B + 1) u + D (d2u/dx2 + d2u/dy2)
    dv/dt = B u - u^2 v           + D (d2v/dx2 + d2v/dy2)

On n x n cells, the five-point formula gives 2 n^2 equations.  `solve_ivp` runs both BDF and Radau with the
sparse Jacobian, and with finite differences on the same pattern; BDF also with its default, a dense matrix of
finite differences (omitted if larger than 1000 x 1000).

The script checks that the Jacobian equals the one derived by hand; it saves evaluations of the rates for the same
solution; and BDF and Radau agree within the tolerances.  The exit status is 1 if a check fails.

    python tests/applications/brusselator_sparse.py [--cells N] [--figure FILE]

Reference: Hairer and Wanner (1996), Solving ordinary differential equations II, section IV.10.
doi:10.1007/978-3-642-05221-7
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import scipy.sparse as sp
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display
from scipy.integrate import solve_ivp

import wengert as wg

A, B, D = 1.0, 3.4, 0.001
END = 6.0  # final time
RTOL, ATOL = 1e-5, 1e-7
LARGEST_DENSE = 1000

METHODS = ["BDF", "Radau"]
EXACT, SPARSE, DENSE = "sparse=True", "sparse differences", "dense differences"


# ---- the equations -------------------------------------------------------------------------------


def laplacian(u):
    n = len(u)
    around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
    return (around - 4 * u) * n**2


def rates(t, z):
    n = int(np.sqrt(z.size / 2))
    u, v = z.reshape(2, n, n)
    production = u**2 * v
    du = A + production - (B + 1) * u + D * laplacian(u)
    dv = B * u - production + D * laplacian(v)
    return np.concatenate([du.ravel(), dv.ravel()])


jacobian = wg.jacobian(rates, argnums=1, sparse=True, format="csc")


def jacobian_by_hand(z):
    u, v = z.reshape(2, -1)
    n = int(np.sqrt(u.size))
    ring = sp.diags_array([1.0, 1.0, -2.0, 1.0, 1.0], offsets=[1 - n, -1, 0, 1, n - 1], shape=(n, n)) * n**2
    diffusion = D * sp.kronsum(ring, ring)
    reaction = sp.block_array([
        [sp.diags_array(2 * u * v - (B + 1)), sp.diags_array(u**2)],
        [sp.diags_array(B - 2 * u * v), sp.diags_array(-(u**2))],
    ])  # fmt: skip
    return (sp.block_diag([diffusion, diffusion]) + reaction).tocsc()


def start(n):
    """Return a hill of u, and v that rises and falls towards the other corner: no symmetry between the two."""
    y, x = (np.mgrid[0:n, 0:n] + 0.5) / n
    u = 0.5 + 2 * np.sin(np.pi * y) ** 4 * np.sin(np.pi * x) ** 4
    v = 2 + np.sin(2 * np.pi * (y + 0.1)) + np.cos(2 * np.pi * x)
    return np.concatenate([u.ravel(), v.ravel()])


# ---- the solutions -------------------------------------------------------------------------------


class Solution:
    """A solution by `solve_ivp`, with its evaluations of the rates and its time."""

    def __init__(self, z, method, **options):
        self.calls = 0

        def counted(t, z):
            self.calls += 1
            return rates(t, z)

        began = perf_counter()
        self.found = solve_ivp(counted, (0, END), z, method, rtol=RTOL, atol=ATOL, **options)
        self.seconds = perf_counter() - began
        self.z = self.found.y[:, -1]

    def minus(self, other):
        """Return the root mean square of differences from another solution, each over the tolerance of a step."""
        return np.sqrt(np.mean(((self.z - other.z) / (ATOL + RTOL * np.abs(other.z))) ** 2))


def solve_all(z):
    """Return solutions by method and source of the Jacobian."""
    pattern = wg.sparsity(lambda z: rates(0.0, z), z)
    ways = {EXACT: {"jac": jacobian}, SPARSE: {"jac_sparsity": pattern}}
    solutions = {(method, way): Solution(z, method, **ways[way]) for method in METHODS for way in ways}
    if z.size <= LARGEST_DENSE:
        solutions["BDF", DENSE] = Solution(z, "BDF")
    return solutions


# ---- the report ----------------------------------------------------------------------------------


def print_comparison(solutions):
    columns = "evaluations", "Jacobians", "factorisations", "time, s", "error / tolerance, against sparse=True"
    print(f"{'':30}" + "".join(f"{name:>{len(name) + 3}}" for name in columns))
    for (method, way), s in solutions.items():
        entries = s.calls, s.found.njev, s.found.nlu, f"{s.seconds:.2f}", f"{s.minus(solutions[method, EXACT]):.1e}"
        shown = "".join(f"{entry:>{len(name) + 3}}" for name, entry in zip(columns, entries))
        print(f"{method + ', ' + way:30}{shown}")
    print()


def draw(z, path):
    n = int(np.sqrt(z.size / 2))
    figure = Figure(figsize=(12.5, 4), layout="constrained")
    *fields, pattern = figure.subplots(1, 3)
    for ax, name, values in zip(fields, "uv", z.reshape(2, n, n)):
        image = ax.imshow(values, extent=(0, 1, 0, 1), origin="lower", cmap="viridis")
        figure.colorbar(image, ax=ax, shrink=0.8)
        ax.set(title=f"{name} at t = {END:g}, {n} x {n} cells", xlabel="x", ylabel="y")
    small = wg.sparsity(lambda z: rates(0.0, z), start(6))
    wg.colouring(small).plot(pattern)
    pattern.set(title=f"Jacobian, 6 x 6 cells\n{pattern.get_title()}", xlabel="unknown", ylabel="equation")
    figure.supxlabel("All quantities are dimensionless.", fontsize="small")
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("brusselator_sparse.png"), help="file the figure goes to")
    parser.add_argument("--cells", type=int, default=22, help="along each edge, at least 3")
    options = parser.parse_args()

    solutions = solve_all(start(options.cells))
    print_comparison(solutions)
    print(f"Jacobian: {jacobian.plan}\n")

    bdf, radau = (solutions[method, EXACT] for method in METHODS)
    by_hand = jacobian_by_hand(bdf.z)
    claims = {
        "relative error of the Jacobian": (
            abs(jacobian(END, bdf.z) - by_hand).max() / abs(by_hand).max(),
            4 * np.finfo(float).eps,
        ),
        "relative difference of BDF and Radau": (np.max(np.abs(bdf.z - radau.z)) / np.max(radau.z), 1e-2),
    }
    for (method, way), s in solutions.items():
        if way != EXACT:
            exact = solutions[method, EXACT]
            claims[f"{method}, {way}: error / tolerance"] = s.minus(exact), 0.1
            claims[f"{method}, {way}: ratio of evaluations"] = exact.calls / s.calls, 0.99
    failures = [name for name, (error, bound) in claims.items() if not error <= bound]
    for name, (error, bound) in claims.items():
        print(f"{name:54}{error:10.1e}   bound {bound:7.1e}   {'FAIL' if name in failures else 'PASS'}")
    failures += [f"{', '.join(key)}: {s.found.message}" for key, s in solutions.items() if not s.found.success]
    print()

    draw(bdf.z, options.figure)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
