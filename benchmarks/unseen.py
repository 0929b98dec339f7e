"""Functions for which nothing here was tuned: simulations and their fits, in plain NumPy.

They are kept as first written, slow parts included.
"""

import numpy as np


class Lorenz96:
    """Sum of squares after some Runge-Kutta steps, as a function of the initial state.

    References
    ----------
    Lorenz (1996), Predictability: a problem partly solved. ECMWF Seminar on Predictability, volume 1.
    """

    def __init__(self, n, steps):
        self.n, self.steps, self.h, self.force = n, steps, 0.01, 8.0
        self.start = 8.0 + np.sin(np.arange(n))

    def rate(self, x):
        n = self.n
        return np.array([(x[(i + 1) % n] - x[i - 2]) * x[i - 1] - x[i] + self.force for i in range(n)])

    def loss(self, x):
        h = self.h
        for _ in range(self.steps):
            k1 = self.rate(x)
            k2 = self.rate(x + 0.5 * h * k1)
            k3 = self.rate(x + 0.5 * h * k2)
            k4 = self.rate(x + h * k3)
            x = x + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        return np.sum(x**2)


class Bodies:
    """Potential energy of n masses, pair by pair, as a function of their positions."""

    def __init__(self, n, seed=0):
        rng = np.random.default_rng(seed)
        self.n = n
        self.masses = rng.uniform(0.5, 1.5, size=n)
        self.start = rng.normal(size=(n, 3))

    def loss(self, x):
        energy = 0.0
        for i in range(self.n):
            for j in range(i):
                dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
                energy = energy - self.masses[i] * self.masses[j] / np.sqrt(dx * dx + dy * dy + dz * dz + 0.01)
        return energy

    def gradient(self, x):
        d = x[:, None] - x
        cubes = (np.sum(d * d, axis=2) + 0.01) ** 1.5
        return np.sum((self.masses[:, None] * self.masses / cubes)[..., None] * d, axis=1)


class EnzymeFit:
    """Squared misfit of two consecutive reactions and a decay to observations, in five rate constants."""

    def __init__(self, observations, steps):
        self.steps, self.h = steps, 0.02
        self.first = np.array([1.0, 0.1, 0.0])
        self.seen = np.random.default_rng(0).uniform(0.1, 0.9, size=(observations, 3))
        self.start = np.array([1.2, 0.4, 0.8, 0.3, 0.1])

    def rate(self, y, p):
        first = p[0] * y[0] / (p[1] + y[0])
        second = p[2] * y[1] / (p[3] + y[1])
        return np.array([-first, first - second, second - p[4] * y[2]])

    def loss(self, p):
        y, h, misfit = self.first, self.h, 0.0
        for seen in self.seen:
            for _ in range(self.steps):
                k1 = self.rate(y, p)
                k2 = self.rate(y + 0.5 * h * k1, p)
                k3 = self.rate(y + 0.5 * h * k2, p)
                k4 = self.rate(y + h * k3, p)
                y = y + h / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
            misfit = misfit + np.sum((y - seen) ** 2)
        return misfit
