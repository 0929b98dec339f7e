"""
Optimal control by IPOPT
========================

The Van der Pol oscillator is brought to rest with a bounded force.  Its states and controls at 201 times are unknowns,
tied by the trapezoidal rule.  ``wengert.nlp`` gives the solver exact sparse derivatives and their patterns.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import wengert as wg

n, h = 200, 10.0 / 200


def split(z):
    return z.reshape(n + 1, 3).T


def effort(z):
    v, x, u = split(z)
    density = x**2 + v**2 + u**2
    return h * (np.sum(density) - 0.5 * (density[0] + density[-1]))


def defects(z):  # of the trapezoidal rule, and of the initial state
    v, x, u = split(z)
    acceleration = (1 - x**2) * v - x + u
    by_speed = v[1:] - v[:-1] - h / 2 * (acceleration[1:] + acceleration[:-1])
    by_place = x[1:] - x[:-1] - h / 2 * (v[1:] + v[:-1])
    return np.concatenate([by_speed, by_place, [v[0], x[0] - 1]])


bounds = [(-0.25, None), (None, None), (-1, 1)] * (n + 1)
program = wg.nlp(effort, (defects, 0, 0), np.zeros(3 * (n + 1)), bounds)
print(program)

try:
    import ipyopt
except ImportError:  # pip install ipyopt
    z = minimize(**program.scipy(), options={"maxiter": 200, "gtol": 1e-6}).x
else:
    z, *_ = ipyopt.Problem(**program.ipyopt(), ipopt_options={"print_level": 0, "sb": "yes"}).solve(program.x0)
print(f"effort {effort(z):.4f}, largest defect {np.abs(defects(z)).max():.1e}")

fig, (above, below) = plt.subplots(2, 1, figsize=(4.8, 6), layout="constrained")
time = h * np.arange(n + 1)
for values, label in zip(split(z), ("speed", "displacement", "force")):
    above.plot(time, values, label=label)
above.axhline(-0.25, color="gray", linestyle=":", linewidth=1)
above.set(xlabel="time (s)", ylabel="state, force")
above.legend()
below.plot(*program.jacobianstructure()[::-1], ".", markersize=1)
below.set(xlabel="variable", ylabel="constraint", ylim=(2 * n + 2, -1))
plt.show()

# %%
# Above: the optimal motion and force; the speed respects its bound (dotted).  Below: the pattern from ``wengert.nlp``.
