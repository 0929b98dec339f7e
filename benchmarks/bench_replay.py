"""Cost of programs: replay per operation, preparation per recorded operation, and the overhead of a call."""

import importlib.util
import os
import tempfile
import time
import unittest.mock

import numpy as np

import wengert as wg
from benchmarks import measure, workloads
from wengert.program.vm import machine


class Scalars:
    """The gradient of a loop of products and sums of scalars."""

    params = [[1_000, 100_000]]
    param_names = ["operations"]

    def setup(self, ops):
        self.f = workloads.scalar_ops(ops)
        self.x = workloads.SCALARS
        self.program = wg.record(self.f, self.x)
        self.gradient = self.program.grad()
        workloads.check(self.gradient(self.x), workloads.complex_step(self.f, self.x))

    def time_replay(self, ops):
        self.program(self.x)

    def time_gradient(self, ops):
        self.gradient(self.x)

    def peakmem_gradient(self, ops):
        self.gradient(self.x)

    def track_replay(self, ops):
        """Nanoseconds per instruction of the gradient."""
        taken = measure.alternate(lambda: self.f(self.x), lambda: self.gradient(self.x)).second
        return 1e9 * taken / len(self.gradient)

    track_replay.unit = "ns"

    def track_preparation(self, ops):
        """Time of the first call, with recording, relative to f."""
        return measure.alternate(lambda: self.f(self.x), lambda: first_gradient(self.f, self.x), pairs=5).ratio

    track_preparation.unit = "first call / f"

    def track_preparation_per_op(self, ops):
        return 1e9 / ops * measure.difference(lambda: None, lambda: first_gradient(self.f, self.x), pairs=5)

    track_preparation_per_op.unit = "ns"


def first_gradient(f, x):
    return wg.record(f, x).grad()(x)


class Loop:
    """Preparation of code that loads scalars from an array and has many constants."""

    params = [[12_500]]
    param_names = ["n"]

    def setup(self, n):
        self.f, self.x = workloads.rosenbrock_loop, workloads.points(n)
        workloads.check(first_gradient(self.f, self.x), workloads.rosenbrock_gradient(self.x))

    def time_first_call(self, n):
        first_gradient(self.f, self.x)

    def peakmem_first_call(self, n):
        first_gradient(self.f, self.x)

    def track_preparation(self, n):
        return measure.alternate(lambda: self.f(self.x), lambda: first_gradient(self.f, self.x), pairs=5).ratio

    track_preparation.unit = "first call / f"


class Chunks:
    """Fused elementwise operations on arrays: value and gradient."""

    params = [["black_scholes", "waves"], [1_000, 1_000_000]]
    param_names = ["function", "n"]

    def setup(self, name, n):
        f = getattr(workloads, name)
        self.f, self.x = f, np.linspace(0.6, 1.6, n)
        self.program = wg.record(f, self.x)
        self.gradient = wg.record(lambda x: np.sum(f(x)), self.x).grad()
        workloads.check(self.program(self.x), f(self.x), 1e-13)
        workloads.check(self.gradient(self.x), workloads.elementwise_slope(f, self.x))

    def time_value(self, name, n):
        self.program(self.x)

    def time_gradient(self, name, n):
        self.gradient(self.x)

    def peakmem_gradient(self, name, n):
        self.gradient(self.x)

    def track_value(self, name, n):
        return measure.alternate(lambda: self.f(self.x), lambda: self.program(self.x)).ratio

    track_value.unit = "value / f"

    def track_gradient(self, name, n):
        return measure.alternate(lambda: self.f(self.x), lambda: self.gradient(self.x)).ratio

    track_gradient.unit = "gradient / f"


class Calls:
    """The Jacobian of three equations through every way to call it; the program is the same each time."""

    def setup(self):
        f, self.x = workloads.robertson, workloads.ROBERTSON_START
        self.out = np.empty((3, 3))
        self.compiled = wg.jacobian(wg.compile(f, recheck=None))
        self.program = wg.record(f, self.x).jacobian()
        expected = workloads.complex_step(f, self.x)
        for way in (self.compiled, self.program):
            for _ in range(2):
                workloads.check(way(self.x), expected)
                workloads.check(way(self.x, out=self.out), expected)

    def time_compiled(self):
        self.compiled(self.x)

    def time_compiled_out(self):
        self.compiled(self.x, out=self.out)

    def time_program(self):
        self.program(self.x)

    def time_program_out(self):
        self.program(self.x, out=self.out)


class Tiers:
    """Gradients by native code: run time relative to the VM, and compile time."""

    params = [["rosenbrock_loop", "seidel_2d", "waves"]]
    param_names = ["function"]

    def setup(self, name):
        if importlib.util.find_spec("llvmlite") is None:
            raise NotImplementedError("llvmlite is not installed")
        kernel = workloads.Seidel2D(24, 2)
        f, self.x = {
            "rosenbrock_loop": (workloads.rosenbrock_loop, workloads.points(1000)),
            "seidel_2d": (kernel.loss, kernel.start),
            "waves": (lambda x: np.sum(workloads.waves(x)), np.linspace(0.6, 1.6, 1000)),
        }[name]
        self.program = wg.record(f, self.x).grad()
        self.vm, self.llvm = (self.program.tiered(tier) for tier in ("vm", "llvm"))
        workloads.check(self.llvm(self.x), self.vm(self.x))

    def time_gradient(self, name):
        self.llvm(self.x)

    def track_gradient(self, name):
        return measure.alternate(lambda: self.vm(self.x), lambda: self.llvm(self.x)).ratio

    track_gradient.unit = "llvm / vm"

    def track_making(self, name):
        """Milliseconds of compilation without the disk cache."""
        self.program.tiered("llvm")(self.x)  # one-time initialisation of the process
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, WENGERT_CACHE_DIR=folder):
            start = time.perf_counter()
            self.program.tiered("llvm")(self.x)
            return 1e3 * (time.perf_counter() - start)

    track_making.unit = "ms"


class Threads:
    """Gradients of long vectors, whose kernels threads share; the machine should have enough idle cores."""

    params = [["waves", "black_scholes"], ["vm", "llvm"], [2, 4]]
    param_names = ["function", "tier", "threads"]

    def setup(self, name, tier, threads):
        if tier == "llvm" and importlib.util.find_spec("llvmlite") is None:
            raise NotImplementedError("llvmlite is not installed")
        f, self.x = getattr(workloads, name), np.linspace(0.6, 1.6, 1_000_000)
        program = wg.record(lambda x: np.sum(f(x)), self.x).grad()
        expected = workloads.elementwise_slope(f, self.x)
        self.gradients = []
        for count in (1, threads):
            machine.use_threads(count)
            self.gradients.append(program.tiered(tier))
            workloads.check(self.gradients[-1](self.x), expected)
        machine.use_threads(1)
        if not np.array_equal(*[gradient(self.x) for gradient in self.gradients]):
            raise ArithmeticError("threads change the result")

    def track_gradient(self, name, tier, threads):
        alone, shared = self.gradients
        return measure.alternate(lambda: alone(self.x), lambda: shared(self.x)).ratio

    track_gradient.unit = "threads / alone"


class TimeLoops:
    """The gradient of a time loop in its initial state, recorded and replayed."""

    params = [["slices", "rolls"], [300, 2000]]
    param_names = ["written with", "steps"]

    def setup(self, way, steps):
        self.f = workloads.reaction_diffusion(way, steps)
        self.x = np.random.default_rng(1).normal(size=(64, 64))
        self.gradient = wg.record(self.f, self.x).grad()
        short = workloads.reaction_diffusion(way, 20)
        workloads.check(wg.record(short, self.x).grad()(self.x), wg.grad(short, self.x))

    def time_gradient(self, way, steps):
        self.gradient(self.x)

    def track_gradient(self, way, steps):
        return measure.alternate(lambda: self.f(self.x), lambda: self.gradient(self.x), pairs=5).ratio

    track_gradient.unit = "gradient / f"

    def time_preparation(self, way, steps):
        wg.record(self.f, self.x).grad()

    def peakmem_gradient(self, way, steps):
        self.gradient(self.x)

    def peakmem_recording(self, way, steps):
        wg.record(self.f, self.x)
