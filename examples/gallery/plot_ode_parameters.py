"""
Parameters of a differential equation
=====================================

Predator and prey (Lotka and Volterra): four rates are estimated from noisy counts.  The equations are integrated by
a Runge-Kutta method in plain NumPy, and the Jacobian goes through all of its steps.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import least_squares

import wengert as wg

steps, dt, every = 400, 0.05, 10
start = np.array([10.0, 5.0])


def rate(y, p):
    prey, predators = y
    return np.stack([p[0] * prey - p[1] * prey * predators, p[2] * prey * predators - p[3] * predators])


def simulate(p):
    y, found = start, []
    for k in range(steps):
        if k % every == 0:
            found.append(y)
        a = rate(y, p)
        b = rate(y + dt / 2 * a, p)
        c = rate(y + dt / 2 * b, p)
        d = rate(y + dt * c, p)
        y = y + dt / 6 * (a + 2 * b + 2 * c + d)
    return np.stack(found)


truth = np.array([1.1, 0.4, 0.1, 0.4])
rng = np.random.default_rng(2)
counts = simulate(truth) * np.exp(0.1 * rng.normal(size=(steps // every, 2)))


def residual(log_p):
    return np.ravel(np.log(simulate(np.exp(log_p))) - np.log(counts)) / 0.1


compiled = wg.compile(residual)
fit = least_squares(compiled, np.log([1.0, 0.5, 0.15, 0.5]), jac=wg.jacobian(compiled))
error = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
for name, value, relative in zip(("growth", "predation", "conversion", "death"), np.exp(fit.x), error):
    print(f"{name:10} {value:.3f} +- {value * relative:.3f}")

time = dt * every * np.arange(steps // every)
for k, name in enumerate(("prey", "predators")):
    plt.plot(time, counts[:, k], "o", markersize=3, color=f"C{k}")
    plt.plot(time, simulate(np.exp(fit.x))[:, k], color=f"C{k}", label=name)
plt.xlabel("time (years)")
plt.ylabel("population (thousands)")
plt.legend()
plt.show()
