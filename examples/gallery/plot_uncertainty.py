"""
Uncertainty of a computed quantity
==================================

The period of a large pendulum swing depends on its length, the angle and gravity.  The Jacobian propagates their
covariance to first order, the Hessian gives the shift of the mean; samples confirm both.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import ellipk

import wengert as wg


def period(p):
    length, angle, gravity = p
    return 4 * np.sqrt(length / gravity) * ellipk(np.sin(angle / 2) ** 2)


mean = np.array([1.20, 1.5, 9.81])  # m, rad, m/s^2
covariance = np.diag([0.01, 0.12, 0.02]) ** 2

gradient, hessian = wg.grad(period, mean), wg.hessian(period, mean)
deviation = np.sqrt(gradient @ covariance @ gradient)
shift = 0.5 * np.sum(hessian * covariance)

rng = np.random.default_rng(9)
samples = np.array([period(p) for p in rng.multivariate_normal(mean, covariance, 20000)])
print(f"derivatives: {period(mean) + shift:.4f} +- {deviation:.4f} s")
print(f"samples:     {samples.mean():.4f} +- {samples.std():.4f} s")
share = (gradient**2 * np.diag(covariance)) / deviation**2
print("share of the variance:", ", ".join(f"{n} {s:.0%}" for n, s in zip(("length", "angle", "gravity"), share)))

values = np.linspace(samples.min(), samples.max(), 200)
density = np.exp(-0.5 * ((values - period(mean) - shift) / deviation) ** 2) / deviation / np.sqrt(2 * np.pi)
plt.hist(samples, 60, density=True, alpha=0.4, label="samples")
plt.plot(values, density, label="from derivatives")
plt.xlabel("period (s)")
plt.ylabel("density (1/s)")
plt.legend()
plt.show()

# %%
# The density by first and second derivatives, over a histogram of the samples, which is slightly skewed.
