"""
A smooth curve through a model: splines in a fit
================================================

The unknown temperature of a furnace over time is a cubic spline; its values at knots are fitted to the weight that a
sample loses.  ``scipy.interpolate.CubicSpline`` is differentiated in the values.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicSpline
from scipy.optimize import least_squares

import wengert as wg

rng = np.random.default_rng(13)
hours = np.linspace(0, 8, 120)
knots = np.linspace(0, 8, 9)


def weight(temperature):
    rate = 2e4 * np.exp(-6000 / temperature)  # Arrhenius
    return 100 * np.exp(-cumulative_trapezoid(rate, hours, initial=0))


truth = 500 + 80 * np.sin(hours / 2) + 10 * hours
measured = weight(truth) + 0.2 * rng.normal(size=hours.size)


def residual(values):
    misfit = (weight(CubicSpline(knots, values)(hours)) - measured) / 0.2
    return np.concatenate([misfit, np.diff(values, 2) / 40])  # data, and smoothness


fit = least_squares(residual, np.full(9, 520.0), jac=wg.jacobian(residual))
error = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
print(f"largest error of the temperature: {np.max(np.abs(CubicSpline(knots, fit.x)(hours) - truth)):.0f} K")

plt.plot(hours, truth, "--", color="gray", label="true temperature")
plt.plot(hours, CubicSpline(knots, fit.x)(hours), label="spline")
plt.errorbar(knots, fit.x, 2 * error, fmt="o", markersize=4, label="knots, two deviations")
plt.xlabel("time (h)")
plt.ylabel("temperature (K)")
plt.legend()
plt.show()

# %%
# Late values have large errors, because little of the sample is left by then.
