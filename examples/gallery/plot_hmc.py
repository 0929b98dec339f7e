"""
Hamiltonian Monte Carlo
=======================

A sampler of twenty lines needs only the gradient of a log density; here that of a curved ("banana") distribution.
"""

import matplotlib.pyplot as plt
import numpy as np

import wengert as wg


@wg.compile
def log_density(q):
    return -0.5 * q[0] ** 2 - 2 * (q[1] - 0.5 * q[0] ** 2) ** 2


gradient = wg.grad(log_density)
rng = np.random.default_rng(10)


def sample(q, count, step=0.2, leaps=15):
    samples, accepted = [], 0
    for _ in range(count):
        p = rng.normal(size=q.size)
        energy = 0.5 * p @ p - log_density(q)
        new, momentum = q, p + step / 2 * gradient(q)
        for leap in range(leaps):
            new = new + step * momentum
            momentum = momentum + (step if leap < leaps - 1 else step / 2) * gradient(new)
        if rng.uniform() < np.exp(energy - 0.5 * momentum @ momentum + log_density(new)):
            q, accepted = new, accepted + 1
        samples.append(q)
    return np.array(samples), accepted / count


samples, rate = sample(np.zeros(2), 3000)
first = samples[:, 0]
print(f"accepted: {rate:.0%}; mean of the first coordinate {first.mean():.2f}, variance {first.var():.2f}")

plt.plot(*samples.T, ".", markersize=2, alpha=0.5)
plt.xlabel("$q_1$")
plt.ylabel("$q_2$")
plt.show()

# %%
# 3000 samples of the density, whose coordinates are dimensionless.
