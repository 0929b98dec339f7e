"""
Orbit of a planet, through Kepler's equation
============================================

Kepler's equation :math:`E - e \\sin E = M` has no closed solution.  `wengert.implicit.root` solves it and
differentiates the solution by the implicit function theorem, inside a fit of the radial velocity of a star.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import wengert as wg

rng = np.random.default_rng(3)
days = np.sort(rng.uniform(0, 200, 60))


def kepler(E, M, e):
    return E - e * np.sin(E) - M


def velocity(p, days):
    """Radial velocity in m/s; p has period in days, phase, eccentricity, direction of periapsis, and amplitude."""
    period, phase, e, omega, amplitude = p
    M = 2 * np.pi * days / period + phase
    E = wg.implicit.root(kepler, M, args=(M, e))
    anomaly = 2 * np.arctan2(np.sqrt(1 + e) * np.sin(E / 2), np.sqrt(1 - e) * np.cos(E / 2))
    return amplitude * (np.cos(anomaly + omega) + e * np.cos(omega))


truth = np.array([42.0, 0.6, 0.45, 1.1, 55.0])
measured = velocity(truth, days) + 4 * rng.normal(size=days.size)


def residual(p):
    return (velocity(p, days) - measured) / 4


bounds = ([1, -4, 0, -4, 0], [100, 4, 0.95, 4, 200])
fit = least_squares(residual, [41.8, 0.4, 0.3, 1.3, 45.0], jac=wg.jacobian(residual), bounds=bounds)
error = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
print(f"period {fit.x[0]:.2f} +- {error[0]:.2f} days, eccentricity {fit.x[2]:.3f} +- {error[2]:.3f}")

fine = np.linspace(0, 200, 600)
plt.errorbar(days, measured, 4, fmt="o", markersize=3, color="gray", label="data")
plt.plot(fine, velocity(fit.x, fine), label="fit")
plt.xlabel("time (days)")
plt.ylabel("radial velocity (m/s)")
plt.ylim(-65, 115)
plt.legend(loc="upper center", ncols=2)
plt.show()

# %%
# Measurements with their standard deviation, and the fitted orbit.
