"""
Training a neural network
=========================

A network in plain NumPy learns to tell two spirals apart.  Gradients of minibatches are accumulated and clipped, and
Adam updates the weights; the parameters are a dictionary of arrays.
"""

import matplotlib.pyplot as plt
import numpy as np

import wengert as wg

rng = np.random.default_rng(8)
angle = np.sqrt(rng.uniform(0.05, 1, 400)) * 3 * np.pi
side = np.sign(rng.normal(size=400))
points = (side * angle / 9 * np.stack([np.cos(angle), np.sin(angle)])).T + 0.02 * rng.normal(size=(400, 2))

params = {}
for k, (m, n) in enumerate([(2, 32), (32, 32), (32, 1)]):
    params |= {f"W{k}": rng.normal(size=(m, n)) / np.sqrt(m), f"b{k}": np.zeros(n)}


def network(params, x):
    for k in range(2):
        x = np.tanh(3 * x @ params[f"W{k}"] + params[f"b{k}"])
    return (x @ params["W2"] + params["b2"])[:, 0]


def loss(params, x, target):
    return np.mean(np.logaddexp(0, -target * network(params, x)))


gradient = wg.compile(wg.grad(loss))
first, second = {}, {}
for step in range(1, 601):
    total = dict.fromkeys(params, 0.0)
    for _ in range(2):  # two minibatches for each update
        batch = rng.choice(400, 50, replace=False)
        found = gradient(params, points[batch], side[batch])
        total = {name: total[name] + found[name] / 2 for name in params}
    norm = np.sqrt(sum(np.sum(g**2) for g in total.values()))
    for name, g in total.items():
        g = g * min(1, 1 / norm)  # clipping
        first[name] = 0.9 * first.get(name, 0) + 0.1 * g
        second[name] = 0.99 * second.get(name, 0) + 0.01 * g**2
        mean, square = first[name] / (1 - 0.9**step), second[name] / (1 - 0.99**step)
        params[name] = params[name] - 0.01 * mean / (np.sqrt(square) + 1e-8)
print(f"right for {np.mean(np.sign(network(params, points)) == side):.1%} of the points")

grid = np.stack(np.meshgrid(*2 * [np.linspace(-1.2, 1.2, 80)]), -1)
plt.contourf(grid[..., 0], grid[..., 1], network(params, grid.reshape(-1, 2)).reshape(80, 80) > 0, alpha=0.4)
plt.scatter(*points.T, c=side, s=6)
plt.gca().set_aspect("equal")
plt.xlabel("$x_1$")
plt.ylabel("$x_2$")
plt.show()

# %%
# The training points, and the regions in which the network predicts each spiral.
