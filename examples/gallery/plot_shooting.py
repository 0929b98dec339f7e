"""
Optimal control by single shooting
==================================

A crane moves a load of 1 m and brings it to rest within 4 s.  The acceleration of the trolley is constant in each of 20
intervals; SciPy integrates the equations of motion, and SLSQP gets exact derivatives of the final state.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import wengert as wg

duration, count, length = 4.0, 20, 1.0  # s, intervals, m
target = np.array([1.0, 0.0, 0.0, 0.0])  # position (m), speed (m/s), angle (rad), its rate (rad/s)
step = duration / count


def motion(t, y, u):
    return np.array([y[1], u, y[3], -(9.81 * np.sin(y[2]) + u * np.cos(y[2])) / length])


def trajectory(u):
    states = [np.zeros(4)]
    for acceleration in u:
        found = solve_ivp(motion, (0.0, step), states[-1], args=(acceleration,), rtol=1e-8, atol=1e-10)
        states.append(found.y[:, -1])
    return np.array(states)


def miss(u):
    return trajectory(u)[-1] - target


found = minimize(
    lambda u: step * np.sum(u**2),
    np.zeros(count),
    jac=lambda u: 2 * step * u,
    method="SLSQP",
    bounds=[(-0.5, 0.5)] * count,
    constraints={"type": "eq", "fun": miss, "jac": wg.jacobian(miss)},
)
print(f"{found.message} after {found.nit} iterations; the load misses by {np.abs(miss(found.x)).max():.1e}")

time, states = np.linspace(0.0, duration, count + 1), trajectory(found.x)
fig, (above, below) = plt.subplots(2, 1, sharex=True, layout="constrained")
above.stairs(found.x, time, baseline=None)
above.set_ylabel("acceleration (m/s²)")
below.plot(time, states[:, 0], label="trolley")
below.plot(time, states[:, 0] + length * np.sin(states[:, 2]), label="load")
below.set_ylabel("position (m)")
below.set_xlabel("time (s)")
below.legend()
plt.show()

# %%
# Above: the acceleration in each interval.  Below: the load swings behind the trolley, and both come to rest at 1 m.
