"""Gradients of solutions of differential equations, relative to the time of the integration by SciPy."""

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


CASES = {
    "Lotka-Volterra, RK45": (lotka_volterra, np.array([1.5, 1.0, 3.0]), "RK45"),
    "Lotka-Volterra, DOP853": (lotka_volterra, np.array([1.5, 1.0, 3.0]), "DOP853"),
    "Lotka-Volterra, LSODA": (lotka_volterra, np.array([1.5, 1.0, 3.0]), "LSODA"),
    "pollution, BDF": (pollution, np.ones(25), "BDF"),
    "pollution, Radau": (pollution, np.ones(25), "Radau"),
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
