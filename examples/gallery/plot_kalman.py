"""
Likelihood of a Kalman filter
=============================

The variances of a random walk and of its measurements are estimated by maximum likelihood.  The filter is an ordinary
loop; compiled, its gradient costs about as much as a few evaluations.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize

import wengert as wg

rng = np.random.default_rng(7)
level = np.cumsum(0.3 * rng.normal(size=200))
data = level + 1.0 * rng.normal(size=200)


def filtered(log_q, log_r):
    mean, variance, likelihood, means = 0.0, 10.0, 0.0, []
    for y in data:
        variance = variance + np.exp(log_q)
        total = variance + np.exp(log_r)
        innovation, gain = y - mean, variance / total
        likelihood = likelihood + 0.5 * np.log(total) + 0.5 * innovation**2 / total
        mean, variance = mean + gain * innovation, (1 - gain) * variance
        means.append(mean)
    return likelihood, means


@wg.compile
def negative_log_likelihood(p):
    return filtered(p[0], p[1])[0]


best = minimize(
    negative_log_likelihood,
    np.zeros(2),
    jac=wg.grad(negative_log_likelihood),
    hess=wg.hessian(negative_log_likelihood),
    method="Newton-CG",
)
walk, noise = np.exp(best.x / 2)
error = 0.5 * np.sqrt(np.diag(np.linalg.inv(wg.hessian(negative_log_likelihood, best.x))))
print(f"steps of the walk {walk:.2f} +- {walk * error[0]:.2f}, noise {noise:.2f} +- {noise * error[1]:.2f}")

plt.plot(data, ".", markersize=3, color="gray", label="data")
plt.plot(level, "--", label="true level")
plt.plot(filtered(*best.x)[1], label="filtered")
plt.xlabel("time (days)")
plt.ylabel("water level (m)")
plt.legend()
plt.show()

# %%
# Measurements, the true water level, and the level that the filter finds with the estimated variances.
