"""Gradients of solutions of differential equations, relative to the time of the integration by SciPy."""

import itertools

import numpy as np
from scipy.integrate import solve_ivp

import wengert as wg
from benchmarks import measure, workloads

TOLERANCES = {"rtol": 1e-7, "atol": 1e-5}


def lotka_volterra(p, method):
    """Sum of squares at 21 times, in three rates."""

    def rate(t, y):
        return np.array([p[0] * y[0] - p[1] * y[0] * y[1], p[1] * y[0] * y[1] - p[2] * y[1]])

    found = solve_ivp(rate, (0.0, 10.0), [1.0, 1.0], method, np.linspace(0.0, 10.0, 21), **TOLERANCES)
    return np.sum(found.y**2)


def pollution(p, method):
    """Sum of squares of 20 species at 11 times, in factors of the 25 reactions; see `workloads.pollu`."""

    def rate(t, y):
        return workloads.pollu(y, p)

    start = np.zeros(20)
    start[[1, 3, 6, 7, 8, 16]] = 0.2, 0.04, 0.1, 0.3, 0.01, 0.007
    found = solve_ivp(rate, (0.0, 60.0), start, method, np.linspace(0.0, 60.0, 11), **TOLERANCES)
    return np.sum(found.y**2)


def brusselator_rate(t, y, p):
    """Reaction and diffusion of two species on a periodic square grid, with coefficients at the points."""
    size = y.size // 2
    n = round(size**0.5)
    u, v = y[:size].reshape(n, n), y[size:].reshape(n, n)
    a, b, d, e = (p[size * k : size * (k + 1)].reshape(n, n) for k in range(4))
    second = [np.roll(w, 1, 0) + np.roll(w, -1, 0) + np.roll(w, 1, 1) + np.roll(w, -1, 1) - 4 * w for w in (u, v)]
    change = b + u * u * v - (a + 1) * u + 100 * d * second[0]
    return np.concatenate([change.ravel(), (a * u - u * u * v + 100 * e * second[1]).ravel()])


def brusselator(p, method):
    """Sum of squares at 24 times of two species on a periodic 10 x 10 grid, in 400 coefficients at the points."""

    def rate(t, y):
        return brusselator_rate(t, y, p)

    x, y = np.meshgrid(np.linspace(0, 1, 10), np.linspace(0, 1, 10), indexing="ij")
    start = np.concatenate([22 * (y * (1 - y)).ravel() ** 1.5, 27 * (x * (1 - x)).ravel() ** 1.5])
    found = solve_ivp(rate, (0.0, 11.5), start, method, np.linspace(0.0, 11.5, 24), **TOLERANCES)
    return np.sum(found.y**2)


CASES = {
    "Lotka-Volterra, RK45": (lotka_volterra, np.array([1.5, 1.0, 3.0]), "RK45"),
    "Lotka-Volterra, DOP853": (lotka_volterra, np.array([1.5, 1.0, 3.0]), "DOP853"),
    "Lotka-Volterra, LSODA": (lotka_volterra, np.array([1.5, 1.0, 3.0]), "LSODA"),
    "pollution, BDF": (pollution, np.ones(25), "BDF"),
    "pollution, Radau": (pollution, np.ones(25), "Radau"),
    "Brusselator, BDF": (brusselator, np.repeat([3.4, 1.0, 1.0, 1.0], 100), "BDF"),
}


class Integration:
    """A sum of squares of the solution, and its gradient in the parameters by reverse mode."""

    params = [[*CASES]]
    param_names = ["problem"]

    def setup(self, name):
        f, self.p, method = CASES[name]
        self.value = lambda p: f(p, method)
        self.gradient = wg.grad(self.value)
        d = np.linspace(-1.0, 1.0, self.p.size)
        difference = (self.value(self.p + 1e-4 * d) - self.value(self.p - 1e-4 * d)) / 2e-4
        workloads.check(self.gradient(self.p) @ d, difference, rtol=1e-2)

    def time_value(self, name):
        self.value(self.p)

    def time_gradient(self, name):
        self.gradient(self.p)

    def track_gradient(self, name):
        return measure.alternate(lambda: self.value(self.p), lambda: self.gradient(self.p)).ratio

    track_gradient.unit = "gradient / integration"


class Compiled:
    """The same in compiled functions, which integrate without Python; not by LSODA."""

    params = [[name for name in CASES if "LSODA" not in name], ["vm", "llvm"]]
    param_names = ["problem", "tier"]

    def setup(self, name, tier):
        f, self.p, method = CASES[name]
        self.value = wg.compile(lambda p: f(p, method), tier=tier)
        self.gradient = wg.compile(wg.grad(lambda p: f(p, method)), tier=tier)
        workloads.check(self.gradient(self.p), wg.grad(lambda p: f(p, method), self.p), rtol=1e-2)
        self.value(self.p)
        self.points = itertools.cycle(self.p * (1 + 1e-3 * np.random.default_rng(0).random((16, self.p.size))))

    def time_value(self, name, tier):
        self.value(next(self.points))

    def time_gradient(self, name, tier):
        self.gradient(next(self.points))
