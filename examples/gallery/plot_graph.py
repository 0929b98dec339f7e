"""
Message passing on a graph
==========================

Nodes exchange messages along the edges of a graph, by indexing and ``np.add.at``.  The weights of the messages are
trained so that each node learns its distance from a source.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import minimize
from scipy.sparse import coo_array
from scipy.sparse.csgraph import shortest_path

import wengert as wg

rng = np.random.default_rng(11)
places = rng.uniform(size=(60, 2))
length = np.linalg.norm(places[:, None] - places, axis=2)
source, target = np.nonzero((length < 0.22) & (length > 0))
graph = coo_array((length[source, target], (source, target)), shape=(60, 60))
distance = shortest_path(graph, indices=0)
reached = np.isfinite(distance)


def passed(p, rounds=10):
    state = np.full(60, 3.0)
    state[0] = 0.0
    for _ in range(rounds):
        message = state[source] + p[0] + p[1] * length[source, target]
        weight = np.exp(-np.exp(p[2]) * message)  # a soft minimum
        total, norm = np.zeros(60), np.full(60, 1e-30)
        np.add.at(total, target, weight * message)
        np.add.at(norm, target, weight)
        new = total / norm
        state = np.where(np.arange(60) == 0, 0.0, np.minimum(state, new))
    return state


def loss(p):
    return np.mean((passed(p) - distance)[reached] ** 2)


start = np.array([0.1, 0.3, 1.0])
best = minimize(loss, start, jac=wg.grad(loss), method="L-BFGS-B")
print(f"error {np.sqrt(loss(start)):.3f} before training, {np.sqrt(best.fun):.3f} after")

plt.plot(places[[source, target], 0], places[[source, target], 1], color="gray", linewidth=0.3)
plt.scatter(*places.T, c=passed(best.x), s=30, zorder=2)
plt.colorbar(label="distance found")
plt.xlabel("east (km)")
plt.ylabel("north (km)")
plt.show()

# %%
# Nodes, coloured by the distance that they have learned; the two yellow ones cannot be reached.
