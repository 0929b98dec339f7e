"""
Stiff chemical kinetics
=======================

Robertson's reactions run at rates that differ by nine orders of magnitude.  Their three constants are estimated from
noisy concentrations: SciPy integrates by BDF, and the Jacobian of the residual is exact for its steps.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import wengert as wg

time = np.geomspace(1e-4, 1e4, 40)


def rate(t, y, k):
    slow, fast, back = k[0] * y[0], k[1] * y[1] ** 2, k[2] * y[1] * y[2]
    return np.array([back - slow, slow - back - fast, fast])


def simulate(log_k):
    k = np.exp(log_k)
    return solve_ivp(rate, (0.0, 1e4), [1.0, 0.0, 0.0], "BDF", time, args=(k,), rtol=1e-7, atol=1e-11).y


truth = np.log([0.04, 3e7, 1e4])
scale = np.array([[1.0], [3e-5], [1.0]])  # largest concentrations
rng = np.random.default_rng(0)
measured = simulate(truth) + 0.02 * scale * rng.normal(size=(3, time.size))


def residual(log_k):
    return np.ravel((simulate(log_k) - measured) / (0.02 * scale))


fit = least_squares(residual, truth + [0.5, -1.0, 0.7], jac=wg.jacobian(residual))
error = np.sqrt(np.diag(np.linalg.inv(fit.jac.T @ fit.jac)))
for k, (value, relative) in enumerate(zip(np.exp(fit.x), error), 1):
    print(f"k{k} = {value:.3g} +- {value * relative:.1g}  (true: {np.exp(truth[k - 1]):.3g})")
print(f"{fit.nfev} residuals, {fit.njev} Jacobians")

for k, name in enumerate("ABC"):
    plt.semilogx(time, measured[k] / scale[k], "o", markersize=3, color=f"C{k}")
    plt.semilogx(time, simulate(fit.x)[k] / scale[k], color=f"C{k}", label=f"{name} / {scale[k, 0]:g}")
plt.xlabel("time (s)")
plt.ylabel("scaled concentration")
plt.legend()
plt.show()

# %%
# Measurements (dots) and fitted concentrations (lines), divided by the largest concentration of each species.
