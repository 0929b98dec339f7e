"""Cost of recording and sweeping one operation, in time and memory."""

import math
from statistics import median

import numpy as np

import wengert as wg
from benchmarks import measure, workloads
from wengert.transforms.products import record


def recorded(f, x):
    """Return the tape of one run of f as an open recording."""
    return record(f, (x,), {}, (0,), False, "benchmark")


def per_op(f, x, ops):
    """Return the seconds per operation for f itself, recorded, and swept."""
    compared = measure.alternate(lambda: f(x), lambda: recorded(f, x).close())
    _, pullback = wg.vjp(f, x)
    pullback(1.0)
    sweep = measure.alternate(lambda: f(x), lambda: pullback(1.0))
    return compared.first / ops, compared.second / ops, sweep.second / ops


class Scalars:
    """A loop of products and sums of traced scalars."""

    params = [[1_000, 100_000]]
    param_names = ["operations"]

    def setup(self, ops):
        self.ops = ops
        self.f = workloads.scalar_ops(ops)
        self.x = workloads.SCALARS
        expected = workloads.complex_step(self.f, self.x)
        workloads.check(wg.grad(self.f, self.x), expected)
        self.y, self.pullback = wg.vjp(self.f, self.x)
        workloads.check(self.pullback(1.0), expected)

    def time_record(self, ops):
        recorded(self.f, self.x).close()

    def time_sweep(self, ops):
        self.pullback(1.0)

    def track_record(self, ops):
        """Nanoseconds per operation, beyond the bare Python loop."""

        def bare():
            for _ in range(ops // 2):
                pass

        return 1e9 / ops * measure.difference(bare, lambda: recorded(self.f, self.x).close())

    track_record.unit = "ns"

    def track_sweep(self, ops):
        return 1e9 / ops * measure.alternate(lambda: self.f(self.x), lambda: self.pullback(1.0)).second

    track_sweep.unit = "ns"

    def track_gradient(self, ops):
        gradient = wg.grad(self.f)
        return measure.alternate(lambda: self.f(self.x), lambda: gradient(self.x)).ratio

    track_gradient.unit = "gradient / f"

    def track_bytes(self, ops):
        """Bytes of the tape and its adjoints per operation."""
        return scalar_bytes(self.f, self.x, ops)

    track_bytes.unit = "bytes"

    def track_entries(self, ops):
        run = recorded(self.f, self.x)
        try:
            return run.tape.size / ops
        finally:
            run.close()

    track_entries.unit = "entries per operation"


def scalar_bytes(f, x, ops):
    run = recorded(f, x)
    try:
        adjoints = 8 * run.tape.size
        return (run.tape.nbytes + adjoints) / ops
    finally:
        run.close()


class Arrays:
    """A loop of products and sums of small arrays."""

    params = [[10, 1_000]]
    param_names = ["n"]
    ops = 400

    def setup(self, n):
        self.f = workloads.array_ops(self.ops)
        self.x = np.linspace(0.2, 0.8, n)
        expected = workloads.array_ops_gradient(self.ops, self.x)
        self.gradient = wg.grad(self.f)
        workloads.check(self.gradient(self.x), expected)
        self.y, self.pullback = wg.vjp(self.f, self.x)
        workloads.check(self.pullback(1.0), expected)

    def time_record(self, n):
        recorded(self.f, self.x).close()

    def time_sweep(self, n):
        self.pullback(1.0)

    def track_record(self, n):
        return 1e9 * per_op(self.f, self.x, self.ops)[1]

    track_record.unit = "ns"

    def track_sweep(self, n):
        return 1e9 * per_op(self.f, self.x, self.ops)[2]

    track_sweep.unit = "ns"

    def track_gradient(self, n):
        return measure.alternate(lambda: self.f(self.x), lambda: self.gradient(self.x)).ratio

    track_gradient.unit = "gradient / f"


class Sine:
    """`np.sin` of one traced scalar, called 1e5 times: the overhead of recording."""

    params = [["math.sin", "bare loop"]]
    param_names = ["beyond"]
    n = 100_000

    def setup(self, beyond):
        self.f = workloads.sines(self.n)
        workloads.check(wg.grad(self.f, 0.7), math.cos(0.7))

    def time_record(self, beyond):
        recorded(self.f, 0.7).close()

    def track_record(self, beyond):
        return 1e9 * sine_cost(self.n, beyond)[2]

    track_record.unit = "ns"


def sine_cost(n, beyond, pairs=11):
    """Return seconds per call of two loops and their difference: `np.sin` of a scalar, recorded, and beyond."""
    f = workloads.sines(n)

    def plain():
        x = 0.7
        for _ in range(n):
            y = math.sin(x)
        return y

    def bare():
        y = x = 0.7
        for _ in range(n):
            y = x
        return y

    def recording():
        recorded(f, 0.7).close()

    first = plain if beyond == "math.sin" else bare
    first(), recording()
    samples = [
        (measure.seconds_per_call(first, 1) / n, measure.seconds_per_call(recording, 1) / n)
        for _ in range(pairs)
    ]
    return (
        median(one for one, _ in samples),
        median(two for _, two in samples),
        median(two - one for one, two in samples),
    )


class LongLoop:
    """A gradient through ten million scalar operations."""

    params = [[10_000_000]]
    param_names = ["operations"]
    timeout = 300

    def setup(self, ops):
        x = workloads.SCALARS
        short = workloads.scalar_ops(1000)
        workloads.check(wg.grad(short, x), workloads.complex_step(short, x))
        self.gradient = wg.grad(workloads.scalar_ops(ops))
        self.x = x

    def peakmem_gradient(self, ops):
        self.gradient(self.x)
