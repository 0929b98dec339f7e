"""
Optimal control by IPOPT
========================

The Van der Pol oscillator is brought to rest with a bounded force.  Its states and controls at 201 times are unknowns,
tied by the trapezoidal rule: plain NumPy.  ``wengert.nlp`` gives the solver exact sparse derivatives, and the patterns
of both matrices.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import wengert as wg

n, h = 200, 10.0 / 200


def split(z):
    return z.reshape(n + 1, 3).T


def effort(z):
    x, v, u = split(z)
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
    z, _, status = ipyopt.Problem(**program.ipyopt(), ipopt_options={"print_level": 0, "sb": "yes"}).solve(program.x0)
    assert status == 0
print(f"effort {effort(z):.4f}, largest defect {np.abs(defects(z)).max():.1e}")

fig, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained", width_ratios=(1.6, 1))
time = h * np.arange(n + 1)
for values, label in zip(split(z), ("speed", "displacement", "force")):
    left.plot(time, values, label=label)
left.axhline(-0.25, color="gray", linestyle=":", linewidth=1)
left.set(xlabel="time (s)", ylabel="state, force")
left.legend()
right.plot(*program.jacobianstructure()[::-1], ".", markersize=1, label="Jacobian")
right.set(xlabel="variable", ylabel="constraint", title="nonzeros of the Jacobian")
right.invert_yaxis()
plt.show()
