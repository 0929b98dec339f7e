"""
Stiff reaction and diffusion with a sparse Jacobian
===================================================

The Brusselator on a line, integrated by BDF.  The Jacobian has four or five nonzeros a row, found from the right-hand
side, and takes a few sweeps for any number of cells.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp

import wengert as wg

n = 100
D = 0.02 * (n + 1) ** 2


def rate(t, y):
    u, v = y[:n], y[n:]
    u_ext = np.concatenate([[1.0], u, [1.0]])
    v_ext = np.concatenate([[3.0], v, [3.0]])
    du = 1 + u**2 * v - 4 * u + D * (u_ext[:-2] - 2 * u + u_ext[2:])
    dv = 3 * u - u**2 * v + D * (v_ext[:-2] - 2 * v + v_ext[2:])
    return np.concatenate([du, dv])


x = np.linspace(0, 1, n + 2)[1:-1]
start = np.concatenate([1 + np.sin(2 * np.pi * x), np.full(n, 3.0)])
jacobian = wg.jacobian(rate, argnums=1, sparse=True)
print(f"{jacobian(0.0, start).nnz} nonzeros of {(2 * n) ** 2}")

solution = solve_ivp(rate, (0, 10), start, method="BDF", jac=jacobian, t_eval=np.linspace(0, 10, 100))
print(f"{solution.nfev} right-hand sides, {solution.njev} Jacobians, {solution.nlu} factorisations")

plt.pcolormesh(solution.t, x, solution.y[:n], shading="auto")
plt.colorbar(label="concentration of $u$")
plt.xlabel("time")
plt.ylabel("position")
plt.show()

# %%
# Concentration of :math:`u` over time and position; all quantities are dimensionless.
