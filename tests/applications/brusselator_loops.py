"""Steady state of a one-dimensional Brusselator: loops in a class, solved with an exact Jacobian.

Two substances react and diffuse in a closed tube of length L (all quantities dimensionless):

    du/dt = A - (B + 1) u + u^2 v + D_u d2u/dx2        no flux through the ends
    dv/dt =      B u      - u^2 v + D_v d2v/dx2

The uniform state u = A, v = B/A is steady.  At the chosen values it is unstable (Turing), and a pattern is
another steady state.  The tube is divided into cells of equal width.

Every steady state satisfies two identities: summed over the tube the diffusion terms cancel, so
mean(u) = A and mean(u^2 v) = A B.  The Jacobian is compared with one derived by hand.
The exit status is 1 if a comparison fails.

    python tests/applications/brusselator_loops.py [--figure FILE]

Reference: Prigogine and Lefever (1968), Symmetry breaking instabilities in dissipative systems II.
doi:10.1063/1.1668896
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display
from scipy.optimize import root
from scipy.optimize._numdiff import approx_derivative

import wengert


class Brusselator:
    """The Brusselator in n cells; the unknowns are z = (u_1 ... u_n, v_1 ... v_n)."""

    def __init__(self, n=100, length=24.0, A=2.0, B=3.6, D_u=1.0, D_v=8.0):
        self.n = n
        self.length = length
        self.h = length / n
        self.A = A
        self.B = B
        self.D_u = D_u
        self.D_v = D_v
        self.calls = 0

    def laplacian(self, u):
        d2u = np.zeros(self.n)
        for i in range(self.n):
            if i == 0:  # no flux through the left end
                d2u[i] = (u[1] - u[0]) / self.h**2
            elif i == self.n - 1:
                d2u[i] = (u[i - 1] - u[i]) / self.h**2
            else:
                d2u[i] = (u[i - 1] - 2 * u[i] + u[i + 1]) / self.h**2
        return d2u

    def residual(self, z):
        """Return the rates of change of u and v, which are zero in a steady state."""
        self.calls += 1
        u, v = z[: self.n], z[self.n :]
        d2u, d2v = self.laplacian(u), self.laplacian(v)
        F = np.zeros(self.n)
        G = np.zeros(self.n)
        for i in range(self.n):
            production = u[i] ** 2 * v[i]
            F[i] = self.A - (self.B + 1) * u[i] + production + self.D_u * d2u[i]
            G[i] = self.B * u[i] - production + self.D_v * d2v[i]
        return [*F, *G]

    # -- references for the derivative and the root

    def jacobian_by_hand(self, z):
        u, v = z[: self.n], z[self.n :]
        diagonal = np.full(self.n, -2.0)
        diagonal[[0, -1]] = -1.0
        L = (np.diag(diagonal) + np.eye(self.n, k=1) + np.eye(self.n, k=-1)) / self.h**2
        return np.block([
            [self.D_u * L + np.diag(2 * u * v - (self.B + 1)), np.diag(u**2)],
            [np.diag(self.B - 2 * u * v), self.D_v * L - np.diag(u**2)],
        ])  # fmt: skip

    def centres(self):
        return (np.arange(self.n) + 0.5) * self.h

    def start(self):
        """Return the uniform state with two superimposed waves."""
        wave = np.cos(4 * np.pi * self.centres() / self.length)
        return np.concatenate([self.A + wave, self.B / self.A - 0.3 * wave])


def median_time(function, z, repeats=11):
    """Median time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function(z)
        times.append(perf_counter() - start)
    return np.median(times)


class Solution:
    """A solution by `root`, with its calls of the residual and its time."""

    def __init__(self, model, jac):
        model.calls = 0
        start = perf_counter()
        self.found = root(model.residual, model.start(), jac=jac)
        self.seconds = perf_counter() - start
        self.calls = model.calls
        self.largest_rate = np.max(np.abs(self.found.fun))


def print_comparison(exact, differences, seconds_exact, seconds_differences):
    def row(name, one, other):
        print(f"{name:40}{one:>18}{other:>20}")

    row("", "exact Jacobian", "finite differences")
    row("residual evaluations", exact.calls, differences.calls)
    row("solution time, ms", f"{1e3 * exact.seconds:.1f}", f"{1e3 * differences.seconds:.1f}")
    row("time per Jacobian, ms", f"{1e3 * seconds_exact:.2f}", f"{1e3 * seconds_differences:.2f}")
    row("max norm of the residual", f"{exact.largest_rate:.1e}", f"{differences.largest_rate:.1e}")
    print()


def draw(model, z, path):
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    x = model.centres()
    axes.plot(x, z[: model.n], ".-", color="C0", label="u")
    axes.plot(x, z[model.n :], ".-", color="C1", label="v")
    axes.axhline(model.A, color="C0", linestyle=":", linewidth=1, label="u = A, uniform state")
    axes.axhline(model.B / model.A, color="C1", linestyle=":", linewidth=1, label="v = B/A, uniform state")
    axes.set_xlim(0, model.length)
    axes.set_xlabel("position x (dimensionless)")
    axes.set_ylabel("concentration (dimensionless)")
    axes.set_title(f"Steady pattern of the Brusselator, A = {model.A:g}, B = {model.B:g}, {model.n} cells")
    figure.legend(loc="outside lower center", ncols=4, frameon=False)
    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--figure", type=Path, default=Path("brusselator_loops.png"), help="file the figure goes to"
    )
    path = parser.parse_args().figure

    model = Brusselator()
    jacobian = wengert.jacobian(model.residual)

    def difference_jacobian(z):
        return approx_derivative(model.residual, z, method="2-point")

    exact = Solution(model, jacobian)
    differences = Solution(model, None)
    z = exact.found.x
    u, v = z[: model.n], z[model.n :]
    seconds = median_time(jacobian, z), median_time(difference_jacobian, z)
    print_comparison(exact, differences, *seconds)

    # An entry is a sum of a few terms, none larger than the largest entry: 4 roundings of it are allowed.
    by_hand = model.jacobian_by_hand(z)
    rounding = np.finfo(float).eps * np.max(np.abs(by_hand))
    claims = {
        "Jacobian error / (eps * largest entry)": (np.max(np.abs(jacobian(z) - by_hand)) / rounding, 4),
        "mean(u) - A": (abs(np.mean(u) - model.A), 1e-12),
        "mean(u^2 v) - A B": (abs(np.mean(u**2 * v) - model.A * model.B), 1e-7),
        "max difference of the two solutions": (np.max(np.abs(z - differences.found.x)), 1e-6),
    }
    failures = [name for name, (error, bound) in claims.items() if not error <= bound]
    for name, (error, bound) in claims.items():
        print(f"{name:48}{error:10.1e}   bound {bound:7.0e}   {'FAIL' if name in failures else 'PASS'}")

    if not exact.found.success:
        failures.append(exact.found.message)
    if not np.ptp(u) > 1:  # the uniform state satisfies all of the above
        failures.append("the solution is the uniform state")
    print(f"{'amplitude, max(u) - min(u)':48}{np.ptp(u):10.2f}\n")

    draw(model, z, path)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
