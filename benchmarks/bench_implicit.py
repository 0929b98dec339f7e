"""Derivatives of roots, relative to the time of finding them."""

import numpy as np

import wengert as wg
from benchmarks import equations, measure, workloads
from wengert.scipy import optimize


def broyden(x, p):
    """Broyden's tridiagonal equations; `p` weighs the nonlinear terms."""
    left, right = np.concatenate([[0.0], x[:-1]]), np.concatenate([x[1:], [0.0]])
    return (3 - 2 * p * x) * x - left - 2 * right + 1


class Root:
    """A functional of the root of n equations, in a parameter captured by a closure."""

    params = [[1, 20, 500]]
    param_names = ["unknowns"]

    def setup(self, n):
        start = -np.ones(n)
        self.value = lambda p: np.sum(wg.implicit.root(lambda x: broyden(x, p), start) ** 2)
        self.gradient = wg.grad(self.value)
        self.hessian = wg.hessian(self.value)
        difference = (self.value(1 + 1e-5) - self.value(1 - 1e-5)) / 2e-5
        workloads.check(self.gradient(1.0), difference, rtol=1e-7)
        second = (self.gradient(1 + 1e-5) - self.gradient(1 - 1e-5)) / 2e-5
        workloads.check(self.hessian(1.0), second, rtol=1e-7)

    def time_root(self, n):
        self.value(1.0)

    def time_gradient(self, n):
        self.gradient(1.0)

    def time_hessian(self, n):
        self.hessian(1.0)

    def track_gradient(self, n):
        return measure.alternate(lambda: self.value(1.0), lambda: self.gradient(1.0)).ratio

    track_gradient.unit = "gradient / root"

    def track_hessian(self, n):
        return measure.alternate(lambda: self.value(1.0), lambda: self.hessian(1.0)).ratio

    track_hessian.unit = "Hessian / root"


class Compiled:
    """The same with `wengert.compile`, which runs the solver on programs of the equations."""

    params = [[1, 20, 200]]
    param_names = ["unknowns"]

    def setup(self, n):
        start = -np.ones(n)
        f = wg.compile(lambda p: np.sum(wg.implicit.root(lambda x: broyden(x, p), start) ** 2))
        self.value, self.gradient, self.hessian = f, wg.grad(f), wg.hessian(f)
        difference = (f(1 + 1e-5) - f(1 - 1e-5)) / 2e-5
        workloads.check(self.gradient(1.0), difference, rtol=1e-7)
        second = (self.gradient(1 + 1e-5) - self.gradient(1 - 1e-5)) / 2e-5
        workloads.check(self.hessian(1.0), second, rtol=1e-7)

    def time_root(self, n):
        self.value(1.0)

    def time_gradient(self, n):
        self.gradient(1.0)

    def time_hessian(self, n):
        self.hessian(1.0)


class Newton:
    """Roots of the equations in `equations.Root`, by Newton's method in a compiled function, and their Jacobian."""

    params = [[2, 10, 200]]
    param_names = ["unknowns"]

    def setup(self, n):
        problem = equations.Root(n)
        start = -np.ones(n)
        self.p = problem.start
        self.root = wg.compile(lambda p: optimize.root(problem.residual, start, args=(p,), method="newton").x)
        self.jacobian = wg.jacobian(self.root)
        workloads.check(self.jacobian(self.p), problem.jacobian(self.p), rtol=1e-8)

    def time_root(self, n):
        self.root(self.p)

    def time_jacobian(self, n):
        self.jacobian(self.p)


class Batch:
    """The same for many systems at once, by `vmap`."""

    params = [[2, 4], [100, 10000]]
    param_names = ["unknowns", "systems"]

    def setup(self, n, count):
        problem = equations.Root(n)
        start = -np.ones(n)
        one = wg.compile(lambda p: optimize.root(problem.residual, start, args=(p,), method="newton").x)
        self.points = problem.start + 0.1 * np.random.default_rng(0).standard_normal((count, 3))
        self.roots, self.jacobians = wg.vmap(one), wg.vmap(wg.jacobian(one))
        workloads.check(self.roots(self.points)[-1], one(self.points[-1]), rtol=1e-10)
        workloads.check(self.jacobians(self.points)[-1], problem.jacobian(self.points[-1]), rtol=1e-8)

    def time_roots(self, n, count):
        self.roots(self.points)

    def time_jacobians(self, n, count):
        self.jacobians(self.points)
