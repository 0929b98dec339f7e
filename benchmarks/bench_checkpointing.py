"""Checkpoint schedules: planning, iteration, and total cost of a gradient."""

from collections import deque

import numpy as np

import wengert as wg
from benchmarks import measure, workloads
from wengert.checkpointing.schedule import binomial, plan

MANY = 1_000_000


class Schedules:
    """Schedules of a million steps in closed form."""

    params = [10, 100, 1000]
    param_names = ["slots"]

    def setup(self, slots):
        self.schedule = binomial(MANY, slots)

    def time_count_and_first_action(self, slots):
        schedule = binomial(MANY, slots)
        return schedule.extra_steps, next(iter(schedule))

    def time_all_actions(self, slots):
        deque(self.schedule, maxlen=0)


class Plans:
    """Memory shared by states and tapes, in units of a state."""

    params = [[(1000, 20, 1), (10_000, 1000, 5), (100_000, 1000, 5), (1_000_000, 20_000, 5)]]
    param_names = ["steps, memory, tape"]

    def plan(self, case):
        steps, memory, tape = case
        return plan(steps, memory=memory, state_bytes=1, tape_bytes=tape)

    def time_plan(self, case):
        self.plan(case)

    def track_factor(self, case):
        return self.plan(case).factor

    track_factor.unit = "steps run / steps"


class ReactionDiffusion:
    """Gradient in the initial state of 2000 steps on 64 x 64 cells."""

    params = [["6MB", "50MB", "2GB"], ["plain", "compiled"]]
    param_names = ["memory", "step"]

    @staticmethod
    def step(u):
        p = np.zeros((66, 66))
        p[1:-1, 1:-1] = u
        laplacian = p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u
        return u + 0.1 * laplacian + 0.01 * u * (1 - u)

    def prepare(self, kind):
        y, x = self.places = np.mgrid[0:64, 0:64] / 64
        self.u = np.exp(-((x - 0.4) ** 2 + (y - 0.5) ** 2) / 0.02)
        self.taken = wg.compile(self.step) if kind == "compiled" else self.step
        self.gradient = wg.grad(self.run)

    def setup(self, memory, kind):
        self.prepare(kind)
        y, x = self.places
        direction = np.sin(7 * x + 11 * y)
        slope = wg.jvp(self.run, self.u, direction, args=(memory, 50))[1]
        workloads.check(np.sum(self.gradient(self.u, memory, 50) * direction), slope, rtol=1e-10)

    def run(self, u, memory, steps=2000):
        return np.sum(wg.loop(self.taken, u, steps, memory=memory) ** 2)

    def time_function(self, memory, kind):
        self.run(self.u, memory)

    def time_gradient(self, memory, kind):
        self.gradient(self.u, memory)

    def track_ratio(self, memory, kind):
        return measure.alternate(lambda: self.run(self.u, memory), lambda: self.gradient(self.u, memory)).ratio

    track_ratio.unit = "gradient / f"

    def track_megabytes(self, memory, kind):
        """Return by how much the gradient raises the peak of memory of a fresh process."""
        before, after = measure.run_python(MEMORY, memory, kind)
        return (after - before) / 1e6

    track_megabytes.unit = "MB"

    def track_steps(self, memory, kind):
        """Return how many steps the gradient runs for each step of the function."""
        taken, runs, steps = self.taken, [], 2000

        def counted(u):
            runs.append(None)
            return taken(u)

        wg.grad(lambda u: np.sum(wg.loop(counted, u, steps, memory=memory) ** 2))(self.u)
        return len(runs) / steps

    track_steps.unit = "steps run / steps"


MEMORY = """
import sys
from benchmarks import bench_checkpointing, measure
memory, kind = sys.argv[1:]
model = bench_checkpointing.ReactionDiffusion()
model.prepare(kind)
model.gradient(model.u, memory, 2)
model.run(model.u, memory)
before = measure.peak_memory()
model.gradient(model.u, memory)
print(before, measure.peak_memory())
"""
