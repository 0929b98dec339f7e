"""Gradients of functions of many variables, relative to the time of the function."""

import numpy as np

import wengert as wg
from benchmarks import measure, workloads


class _Gradient:
    """A function, its hand-written gradient, and a point."""

    timeout = 300

    def prepare(self, f, reference, x):
        self.f = f
        self.x = x
        self.gradient = wg.grad(f)
        workloads.check(self.gradient(x), reference(x))

    def time_function(self, size):
        self.f(self.x)

    def time_gradient(self, size):
        self.gradient(self.x)

    def peakmem_gradient(self, size):
        self.gradient(self.x)

    def track_ratio(self, size):
        return measure.alternate(lambda: self.f(self.x), lambda: self.gradient(self.x)).ratio

    track_ratio.unit = "gradient / f"


class RosenbrockLoop(_Gradient):
    params = [[10, 100, 1000]]
    param_names = ["n"]

    def setup(self, n):
        self.prepare(workloads.rosenbrock_loop, workloads.rosenbrock_gradient, workloads.points(n))


class RosenbrockSliced(_Gradient):
    params = [[1_000, 100_000, 1_000_000]]
    param_names = ["n"]

    def setup(self, n):
        self.prepare(workloads.rosenbrock_sliced, workloads.rosenbrock_gradient, workloads.points(n))


class Assembly(_Gradient):
    """Elementwise assembly into an array; the gradient must be linear in n."""

    params = [[1_000, 10_000, 100_000]]
    param_names = ["n"]

    def setup(self, n):
        self.prepare(workloads.assembly, workloads.assembly_gradient, workloads.points(n))

    def track_per_element(self, n):
        return 1e9 * measure.alternate(lambda: self.f(self.x), lambda: self.gradient(self.x)).second / n

    track_per_element.unit = "ns"


class MLP(_Gradient):
    params = [[10_000, 100_000]]
    param_names = ["weights"]

    def setup(self, weights):
        model = workloads.MLP(weights)
        step = 1e-6 * np.random.default_rng(1).normal(size=model.start.size)
        slope = model.loss(model.start + step) - model.loss(model.start - step)
        workloads.check(model.gradient(model.start) @ step, slope / 2, rtol=1e-6)
        self.prepare(model.loss, model.gradient, model.start)
