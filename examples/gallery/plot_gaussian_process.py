"""
Gaussian process
================

The length scale, amplitude and noise of a Gaussian process maximise its likelihood, which is written with SciPy's
Cholesky factorisation.  Gradient and Hessian are exact.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize

import wengert as wg

rng = np.random.default_rng(6)
x = np.sort(rng.uniform(0, 10, 40))
y = np.sin(x) + 0.3 * x + 0.2 * rng.normal(size=x.size)


def kernel(a, b, log_p):
    length, amplitude = np.exp(log_p[:2])
    return amplitude**2 * np.exp(-0.5 * (a[:, None] - b) ** 2 / length**2)


def negative_log_likelihood(log_p):
    K = kernel(x, x, log_p) + np.exp(2 * log_p[2]) * np.eye(x.size)
    factor = cho_factor(K, lower=True)
    return 0.5 * y @ cho_solve(factor, y) + np.sum(np.log(np.diag(factor[0])))


best = minimize(
    negative_log_likelihood,
    np.zeros(3),
    jac=wg.grad(negative_log_likelihood),
    hess=wg.hessian(negative_log_likelihood),
    method="trust-exact",
)
length, amplitude, noise = np.exp(best.x)
print(f"length {length:.2f} m, amplitude {amplitude:.2f} K, noise {noise:.2f} K, in {best.nit} steps")

fine = np.linspace(0, 10, 200)
factor = cho_factor(kernel(x, x, best.x) + noise**2 * np.eye(x.size), lower=True)
across = kernel(fine, x, best.x)
mean = across @ cho_solve(factor, y)
variance = amplitude**2 - np.sum(across * cho_solve(factor, across.T).T, axis=1)
plt.plot(x, y, "o", markersize=3, color="gray", label="data")
plt.plot(fine, mean, label="mean")
plt.fill_between(fine, *(mean + s * np.sqrt(variance) for s in (-2, 2)), alpha=0.3, label="two deviations")
plt.xlabel("depth (m)")
plt.ylabel("temperature (K)")
plt.legend()
plt.show()

# %%
# The mean of the process, with two standard deviations on either side: it is least certain at the ends.
