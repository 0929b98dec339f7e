"""
Regularisation chosen by a gradient
===================================

A spectrum is unfolded into nonnegative components.  How strongly each is pulled to zero is chosen such that data which
the fit has not seen are predicted best: a minimum inside a minimum, differentiated through nonnegative least squares.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize, nnls

import wengert as wg

rng = np.random.default_rng(3)
energy = np.linspace(0, 10, 60)
centres = np.linspace(0.5, 9.5, 25)
peaks = np.exp(-(((energy[:, None] - centres) / 0.6) ** 2))
true = np.zeros(25)
true[[3, 11, 12, 20]] = 4.0, 2.0, 3.0, 1.5
measured = peaks @ true + 0.15 * rng.standard_normal(60)
train, test = np.arange(60) % 2 == 0, np.arange(60) % 2 == 1


def components(strength):
    """Nonnegative components that fit the training data, each with its own penalty."""
    A = np.vstack([peaks[train], np.diag(np.exp(strength))])
    return nnls(A, np.concatenate([measured[train], np.zeros(25)]))[0]


def loss(strength):
    prior = 1e-3 * np.sum((strength + 2) ** 2)
    return np.mean((peaks[test] @ components(strength) - measured[test]) ** 2) + prior


start = np.full(25, -2.0)
best = minimize(loss, start, jac=wg.grad(loss), method="L-BFGS-B", options={"maxiter": 40})
print(f"error of prediction: {loss(start):.4f} with equal penalties, {best.fun:.4f} with chosen ones")

fig, (above, below) = plt.subplots(2, 1, figsize=(4.8, 6.4), layout="constrained")
above.plot(energy[train], measured[train], "o", markersize=3, label="measured, fitted")
above.plot(energy[test], measured[test], "x", markersize=4, label="measured, predicted")
above.plot(energy, peaks @ components(best.x), label="spectrum of the components")
above.set(xlabel="energy (keV)", ylabel="counts (1000/s)", ylim=(-0.6, 7.5))
above.legend(loc="upper right")
below.bar(centres - 0.09, components(start), 0.16, label="equal penalties")
below.bar(centres + 0.09, components(best.x), 0.16, label="chosen penalties")
below.plot(centres, true, "_", color="gray", markersize=9, label="true")
below.set(xlabel="energy (keV)", ylabel="component")
below.legend()
plt.show()

# %%
# Above: the components also describe the measurements that were not fitted.  Below: with the chosen penalties they
# are closer to the true ones (grey).
