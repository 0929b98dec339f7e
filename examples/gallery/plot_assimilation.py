"""
Data assimilation within a memory budget
========================================

The initial temperature of a rod is estimated from a few sensors (4D-Var).  `wengert.loop` keeps the gradient of 600
time steps within a given memory: it stores some states and computes the others again.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import wengert as wg

cells, steps, every = 100, 600, 60
x = np.linspace(0, 1, cells)
sensors = np.arange(5, cells, 15)


def step(state):
    left, right = np.concatenate([state[:1], state[:-1]]), np.concatenate([state[1:], state[-1:]])
    return state + 0.4 * (left - 2 * state + right) - 2e-4 * state**3


def readings(start):
    _, history = wg.loop(step, start, steps, memory="100kB", collect=every)
    return np.ravel(history[:, sensors])


truth = np.exp(-((x - 0.3) ** 2) / 0.01) + 0.6 * (np.abs(x - 0.75) < 0.1)
rng = np.random.default_rng(5)
data = readings(truth) + 0.01 * rng.normal(size=sensors.size * (steps // every))


def cost(start):
    return np.sum((readings(start) - data) ** 2) / 1e-4 + 20 * np.sum(np.diff(start) ** 2)


found = minimize(cost, np.full(cells, 0.3), jac=wg.grad(cost), method="L-BFGS-B", options={"maxiter": 25})
print(f"misfit {cost(np.full(cells, 0.3)):.0f} at the start, {found.fun:.0f} after {found.nit} iterations")

plt.plot(x, truth, "--", color="gray", label="true initial state")
plt.plot(x, found.x, label="estimate")
plt.plot(x[sensors], np.zeros(sensors.size), "^", color="gray", label="sensors")
plt.xlabel("position (m)")
plt.ylabel("temperature (K)")
plt.legend()
plt.show()

# %%
# The estimate is smooth between the sensors (triangles), since the cost penalises jumps.
