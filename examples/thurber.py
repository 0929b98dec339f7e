"""Fit NIST's Thurber data, electron mobility against the logarithm of density, with an exact Jacobian.

    python examples/thurber.py [--figure FILE]

The exit status is 1 if a parameter agrees with NIST's certified value to fewer than 8 digits, or its standard deviation
to fewer than 7.  Reference: NIST/ITL StRD, Thurber, R. (197?), Semiconductor electron mobility modeling.
"""

import argparse
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import wengert as wg

DATA = Path(__file__).parent / "data" / "thurber.csv"
PARAMETERS = [1288.13968, 1491.0792535, 583.23836877, 75.416644291, 0.96629502864, 0.39797285797, 0.049727297349]
DEVIATIONS = [4.6647963344, 39.571156086, 28.698696102, 5.567537027, 0.031333340687, 0.014984928198, 0.0065842344623]

mobility, log_density = np.loadtxt(DATA, delimiter=",", skiprows=1, unpack=True)


def model(x, b):
    return (b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3) / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


def residual(b):
    return model(log_density, b) - mobility


def cost(b):
    return 0.5 * np.sum(residual(b) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--figure", default=Path(__file__).with_suffix(".png"), help="file of the figure")
    path = parser.parse_args().figure
    b = least_squares(residual, [1000, 1000, 400, 40, 0.7, 0.3, 0.03], jac=wg.jacobian(residual), x_scale="jac").x
    for _ in range(3):  # Newton's method reaches the last digits, which rounding of the cost hides
        b = b - np.linalg.solve(wg.hessian(cost, b), wg.grad(cost, b))
    J = wg.jacobian(residual, b)
    deviations = np.sqrt(2 * cost(b) / (mobility.size - b.size) * np.diag(np.linalg.inv(J.T @ J)))
    digits = [-np.log10(np.abs(b / PARAMETERS - 1)), -np.log10(np.abs(deviations / DEVIATIONS - 1))]
    for i, (value, deviation, *agree) in enumerate(zip(b, deviations, *digits), 1):
        print(f"b{i} = {value:.10e} +- {deviation:.10e}, {agree[0]:.1f} and {agree[1]:.1f} digits as certified")
    x = np.linspace(log_density.min(), log_density.max(), 400)
    plt.plot(log_density, mobility, "o", color="black", markersize=4, label="data: NIST StRD, Thurber")
    plt.plot(x, model(x, b), label="fit: ratio of two cubics")
    plt.gca().set(xlabel="natural logarithm of the density (NIST states no units)", ylabel="electron mobility")
    plt.legend()
    plt.savefig(path, dpi=150)
    return 0 if digits[0].min() >= 8 and digits[1].min() >= 7 else 1


if __name__ == "__main__":
    sys.exit(main())
