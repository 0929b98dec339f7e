"""Fit NIST's Thurber data with an exact Jacobian, and compare with finite differences.

The data are the electron mobility in a semiconductor against the logarithm of the density; the model is a
ratio of two cubics with seven parameters.  NIST certifies parameters and standard deviations to eleven digits
and rates the problem as one of higher difficulty.

Three fits are made from the same start: with the exact Jacobian, with finite differences under the same
tolerances, and with SciPy's defaults.  `least_squares` accepts a step when the cost falls, and rounding in
the cost hides changes in about the eighth digit of the parameters, on some processors already in the seventh.
The gradient J^T r still shows them: the first two fits continue to the point where their gradient is zero.

The exit status is 1 if the fit with the exact Jacobian agrees with NIST to fewer than 8 digits in a parameter
or to fewer than 7 in a standard deviation.

    python tests/applications/thurber_comparison.py [--figure FILE]

Reference: NIST/ITL StRD, Thurber, R. (197?), Semiconductor electron mobility modeling.
"""

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
from matplotlib.figure import Figure  # not pyplot: a separate Figure needs no display
from scipy.optimize import least_squares, root
from scipy.optimize._numdiff import approx_derivative  # least_squares calls this for jac="2-point"

import wengert

DATA = Path(__file__).resolve().parents[2] / "examples" / "data" / "thurber.csv"

mobility, log_density = np.loadtxt(DATA, delimiter=",", skiprows=1, unpack=True)

START = np.array([1000, 1000, 400, 40, 0.7, 0.3, 0.03])

CERTIFIED = np.array([
    1.2881396800e03, 1.4910792535e03, 5.8323836877e02, 7.5416644291e01,
    9.6629502864e-01, 3.9797285797e-01, 4.9727297349e-02,
])  # fmt: skip
CERTIFIED_DEVIATIONS = np.array([
    4.6647963344e00, 3.9571156086e01, 2.8698696102e01, 5.5675370270e00,
    3.1333340687e-02, 1.4984928198e-02, 6.5842344623e-03,
])  # fmt: skip
CERTIFIED_SUM_OF_SQUARES = 5.6427082397e03
CERTIFIED_DIGITS = 11

PARAMETER_DIGITS_REQUIRED = 8
DEVIATION_DIGITS_REQUIRED = 7


# ---- the model, in plain NumPy -------------------------------------------------------------------

calls = 0


def model(x, b):
    b1, b2, b3, b4, b5, b6, b7 = b
    return (b1 + b2 * x + b3 * x**2 + b4 * x**3) / (1 + b5 * x + b6 * x**2 + b7 * x**3)


def residual(b):
    global calls
    calls += 1
    return model(log_density, b) - mobility


exact_jacobian = wengert.jacobian(residual)


def difference_jacobian(b):
    return approx_derivative(residual, b, method="2-point", f0=residual(b))


# ---- the fits ------------------------------------------------------------------------------------


def zero_of_gradient(b, jacobian):
    """Return parameters near b at which the gradient of the sum of squares is zero."""
    scale = 1 / np.linalg.norm(jacobian(b), axis=0)  # the parameters span five orders of magnitude

    def gradient(q):
        return scale * (jacobian(scale * q).T @ residual(scale * q))

    return scale * root(gradient, b / scale, tol=1e-12).x


def standard_deviations(b, J):
    """Return the standard deviations of the parameters, from the Jacobian J of the residuals at b."""
    scale = np.linalg.norm(J, axis=0)
    inverse = np.linalg.inv(np.linalg.qr(J / scale, mode="r"))
    degrees_of_freedom = J.shape[0] - J.shape[1]
    variance = np.sum(residual(b) ** 2) / degrees_of_freedom
    return np.sqrt(variance) * np.linalg.norm(inverse, axis=1) / scale


def digits(values, certified):
    """Return the digits in agreement: minus the decimal logarithm of the relative error, at most the certified ones."""
    error = np.maximum(np.abs(values / certified - 1), 10.0**-CERTIFIED_DIGITS)
    return np.maximum(-np.log10(error), 0)


def median_time(function, b, repeats=51):
    """Median time of a call, in seconds."""
    times = []
    for _ in range(repeats):
        start = perf_counter()
        function(b)
        times.append(perf_counter() - start)
    return np.median(times)


class Fit:
    """A fit, and its results for the report."""

    def __init__(self, name, jacobian, *, on_to_zero_gradient, **options):
        global calls
        self.name = name

        calls = 0
        solution = least_squares(residual, START, **options)
        self.calls = calls
        self.least_squares_digits = digits(solution.x, CERTIFIED).min()

        self.parameters = solution.x
        self.more_calls = None
        if on_to_zero_gradient:
            calls = 0
            self.parameters = zero_of_gradient(solution.x, jacobian)
            self.more_calls = calls

        b = self.parameters
        self.sum_of_squares = np.sum(residual(b) ** 2)
        self.parameter_digits = digits(b, CERTIFIED)
        self.deviations = standard_deviations(b, exact_jacobian(b))
        self.deviation_digits = digits(self.deviations, CERTIFIED_DEVIATIONS)
        self.seconds = median_time(jacobian, b)


def fit_three_ways():
    tight = {"method": "trf", "x_scale": "jac", "xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15}
    return [
        Fit("exact Jacobian", exact_jacobian, on_to_zero_gradient=True, jac=exact_jacobian, **tight),
        Fit("finite differences", difference_jacobian, on_to_zero_gradient=True, jac="2-point", **tight),
        Fit("SciPy's defaults", difference_jacobian, on_to_zero_gradient=False),
    ]


# ---- the report ----------------------------------------------------------------------------------


def print_fit(fit):
    print(f"{fit.name:27}parameter{'':28}standard deviation (from the exact Jacobian)")
    print(f"{'':4}" + f"{'fitted':>20}{'certified':>18}{'digits':>8}" * 2)
    rows = zip(
        fit.parameters, CERTIFIED, fit.parameter_digits,
        fit.deviations, CERTIFIED_DEVIATIONS, fit.deviation_digits,
    )  # fmt: skip
    for i, (b, b_certified, b_digits, s, s_certified, s_digits) in enumerate(rows, start=1):
        print(
            f"  b{i}{b:20.11e}{b_certified:18.10e}{b_digits:8.1f}"
            f"{s:20.11e}{s_certified:18.10e}{s_digits:8.1f}"
        )
    print()


def print_comparison(fits):
    def row(name, entries):
        print(f"{name:45}" + "".join(f"{entry:>20}" for entry in entries))

    row("", [fit.name for fit in fits])
    print("minimum number of correct digits")
    row("  parameters", [f"{fit.parameter_digits.min():.1f}" for fit in fits])
    row("  parameters from least_squares", [f"{fit.least_squares_digits:.1f}" for fit in fits])
    row("  standard deviations", [f"{fit.deviation_digits.min():.1f}" for fit in fits])
    print("residual evaluations")
    row("  in least_squares", [fit.calls for fit in fits])
    row("  in refinement to zero gradient", ["-" if fit.more_calls is None else fit.more_calls for fit in fits])
    row("time per Jacobian, microseconds", [f"{1e6 * fit.seconds:.0f}" for fit in fits])
    row("residual sum of squares", [f"{fit.sum_of_squares:.7f}" for fit in fits])
    row("  certified", [f"{CERTIFIED_SUM_OF_SQUARES:.7f}" for _ in fits])
    print()


def draw(fit, path):
    figure = Figure(figsize=(7, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    x = np.linspace(log_density.min(), log_density.max(), 400)
    deviation = np.sqrt(fit.sum_of_squares / (mobility.size - START.size))

    above.plot(x, model(x, fit.parameters), color="C0", label="fit: ratio of two cubics")
    above.plot(log_density, mobility, "o", color="black", markersize=4, label="data: NIST StRD, Thurber")
    above.set_ylabel("electron mobility")
    above.set_title("Semiconductor electron mobility, fitted with the exact Jacobian")
    above.legend(loc="upper left", frameon=False)

    below.axhspan(-deviation, deviation, color="C0", alpha=0.15, linewidth=0)
    below.axhline(0, color="C0", linewidth=1)
    below.plot(log_density, mobility - model(log_density, fit.parameters), "o", color="black", markersize=4)
    below.set_ylabel("data - fit")
    below.set_xlabel("natural logarithm of the density")
    figure.align_ylabels()
    figure.supxlabel(
        f"NIST states no units.  Band: ± residual standard deviation, {deviation:.1f}.", fontsize="small"
    )

    figure.savefig(path, dpi=150)
    print(f"figure: {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", type=Path, default=Path("thurber_comparison.png"), help="file the figure goes to")
    path = parser.parse_args().figure

    fits = fit_three_ways()
    for fit in fits:
        print_fit(fit)
    print_comparison(fits)
    exact = fits[0]
    draw(exact, path)

    failed = False
    for what, reached, required in (
        ("parameters", exact.parameter_digits.min(), PARAMETER_DIGITS_REQUIRED),
        ("standard deviations", exact.deviation_digits.min(), DEVIATION_DIGITS_REQUIRED),
    ):
        if not reached >= required:
            failed = True
            print(f"failed: {what} correct to {reached:.1f} digits, {required} required", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
