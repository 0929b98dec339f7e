"""
Robust fit
==========

A pseudo-Huber loss gives outliers little weight.  Its gradient and Hessian are exact, so that Newton's method in a
trust region converges in a few steps.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import wengert as wg

rng = np.random.default_rng(1)
x = np.linspace(0, 5, 40)
y = 0.7 * x + 1.0 + 0.2 * rng.normal(size=x.size)
y[::7] += 4.0  # outliers


def loss(p, scale):
    r = (y - p[0] * x - p[1]) / scale
    return np.sum(np.sqrt(1 + r**2) - 1)


def fitted(scale):
    return minimize(
        loss, [0.0, 0.0], args=(scale,), jac=wg.grad(loss), hess=wg.hessian(loss), method="trust-exact"
    )


robust, squares = fitted(0.2), fitted(1e3)
print(f"robust loss:   slope {robust.x[0]:.3f} in {robust.nit} steps")
print(f"least squares: slope {squares.x[0]:.3f}; the data were made with 0.7")

plt.plot(x, y, "o", markersize=4, color="gray", label="data")
plt.plot(x, squares.x[0] * x + squares.x[1], "--", label="least squares")
plt.plot(x, robust.x[0] * x + robust.x[1], label="robust loss")
plt.xlabel("length (m)")
plt.ylabel("load (N)")
plt.legend()
plt.show()

# %%
# The robust loss follows the bulk of the data, while least squares are pulled towards the outliers.
