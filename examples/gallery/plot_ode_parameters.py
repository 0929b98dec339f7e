"""
Parameters of a differential equation
=====================================

Predator and prey (Lotka and Volterra): four rates are estimated from noisy counts.  SciPy integrates the equations,
and the Jacobian is that of its solution.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import wengert as wg

start, time = np.array([10.0, 5.0]), np.arange(0.0, 20.0, 0.5)


def rate(t, y, p):
    prey, predators = y
    return np.stack([p[0] * prey - p[1] * prey * predators, p[2] * prey * predators - p[3] * predators])


def simulate(p, times=time):
    return solve_ivp(rate, (0.0, 20.0), start, args=(p,), t_eval=times, rtol=1e-6).y


truth = np.array([1.1, 0.4, 0.1, 0.4])
rng = np.random.default_rng(2)
counts = simulate(truth) * np.exp(0.1 * rng.normal(size=(2, time.size)))


def residual(log_p):
    return np.ravel(np.log(simulate(np.exp(log_p))) - np.log(counts)) / 0.1


fit = least_squares(residual, np.log([1.0, 0.5, 0.15, 0.5]), jac=wg.jacobian(residual))
error = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
for name, value, relative in zip(("growth", "predation", "conversion", "death"), np.exp(fit.x), error):
    print(f"{name:10} {value:.3f} +- {value * relative:.3f}")

fine = np.linspace(0.0, 20.0, 200)
for k, name in enumerate(("prey", "predators")):
    plt.plot(time, counts[k], "o", markersize=3, color=f"C{k}")
    plt.plot(fine, simulate(np.exp(fit.x), fine)[k], color=f"C{k}", label=name)
plt.xlabel("time (years)")
plt.ylabel("population (thousands)")
plt.legend()
plt.show()

# %%
# Counts (dots), and the solution with the fitted rates (lines).
