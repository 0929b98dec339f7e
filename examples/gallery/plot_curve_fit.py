"""
Curve fit with uncertainties
============================

A decay with a background is fitted with the exact Jacobian, which also gives the covariance of the parameters and
the standard deviation of the curve.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import wengert as wg

rng = np.random.default_rng(0)
time = np.linspace(0, 10, 40)
noise = 0.1
counts = 3.0 * np.exp(-time / 2.5) + 0.5 + noise * rng.normal(size=time.size)


def model(p, time):
    amplitude, lifetime, background = p
    return amplitude * np.exp(-time / lifetime) + background


def residual(p):
    return (model(p, time) - counts) / noise


fit = least_squares(residual, [1.0, 1.0, 0.0], jac=wg.jacobian(residual))
covariance = np.linalg.inv(fit.jac.T @ fit.jac)
for name, value, error in zip(("amplitude", "lifetime", "background"), fit.x, np.sqrt(np.diag(covariance))):
    print(f"{name:10} {value:.3f} +- {error:.3f}")

# %%
# The variance of the curve at each time is :math:`J C J^T`, with the Jacobian of the model in the parameters.

fine = np.linspace(0, 10, 200)
J = wg.jacobian(model, fit.x, args=(fine,))
deviation = np.sqrt(np.sum((J @ covariance) * J, axis=1))

plt.errorbar(time, counts, noise, fmt="o", markersize=3, color="gray", label="data")
plt.plot(fine, model(fit.x, fine), label="fit")
plt.fill_between(fine, *(model(fit.x, fine) + s * deviation for s in (-2, 2)), alpha=0.3, label="two deviations")
plt.xlabel("time (s)")
plt.ylabel("counts (1000/s)")
plt.legend()
plt.show()

# %%
# Measurements with their standard deviation, and the fitted decay with two standard deviations on either side.
