"""
Optimal control
===============

A cart is driven to rest at the origin with little effort, while a wind blows.  The controls at all times are the
unknowns, and SciPy's minimiser gets the exact gradient of the cost through the simulation.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import wengert as wg

steps, dt = 80, 0.05


def trajectory(force):
    position, speed, found = 1.0, 0.0, []
    for k in range(steps):
        found.append(position)
        drag = 0.3 * speed * np.abs(speed)
        wind = 0.5 * np.sin(2 * dt * k)
        speed = speed + dt * (force[k] + wind - drag)
        position = position + dt * speed
    return np.stack([*found, position]), speed


def cost(force):
    position, speed = trajectory(force)
    return dt * np.sum(force**2) * 0.1 + dt * np.sum(position**2) + 20 * (position[-1] ** 2 + speed**2)


compiled = wg.compile(cost)
best = minimize(compiled, np.zeros(steps), jac=wg.grad(compiled), method="L-BFGS-B")
position, speed = trajectory(best.x)
print(f"cost {cost(np.zeros(steps)):.3f} without control, {best.fun:.3f} with it, in {best.nit} steps")
print(f"at the end: position {position[-1]:.4f} m, speed {speed:.4f} m/s")

time = dt * np.arange(steps + 1)
plt.plot(time, position, label="position (m)")
plt.step(time[:-1], best.x, where="post", label="force (N)")
plt.xlabel("time (s)")
plt.legend()
plt.show()

# %%
# The force is largest at the start and then works against the wind.
