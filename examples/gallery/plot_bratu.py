"""
Newton's method for Bratu's equation
====================================

The equation :math:`u'' + \\lambda e^u = 0` has two solutions for small :math:`\\lambda` and none beyond a fold.  Its
residual is written with a loop, and its sparse Jacobian is found and coloured from the function.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.sparse.linalg import spsolve

import wengert as wg

n = 200
h = 1 / (n + 1)


def residual(u, strength):
    F = np.zeros(n)
    for i in range(n):
        left = u[i - 1] if i > 0 else 0.0
        right = u[i + 1] if i < n - 1 else 0.0
        F[i] = (left - 2 * u[i] + right) / h**2 + strength * np.exp(u[i])
    return F


jacobian = wg.jacobian(residual, sparse=True)
x = np.linspace(h, 1 - h, n)


def newton(u, strength):
    for step in range(50):
        F = residual(u, strength)
        if np.linalg.norm(F) < 1e-8 * n**1.5:
            return u, step
        u = u - spsolve(jacobian(u, strength).tocsc(), F)
    raise RuntimeError("no convergence")


for color, strength in enumerate((1.0, 2.0, 3.4)):
    for start, style in ((0.1, "-"), (4.0, "--")):
        u, steps = newton(start * np.sin(np.pi * x), strength)
        print(f"strength {strength}: maximum {u.max():.4f} after {steps} steps")
        plt.plot(x, u, style, color=f"C{color}", label=rf"$\lambda = {strength}$" if style == "-" else None)
plt.xlabel("position")
plt.ylabel("temperature $u$")
plt.legend()
plt.show()

# %%
# Solutions from a small start (solid) and from a large one (dashed).  They approach each other towards the fold.
