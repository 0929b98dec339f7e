"""``python -m benchmarks.sparse_plans``: is the plan of ``sparse="auto"`` the fastest?

Each plan is run in turn on functions with sparse and dense derivatives, and the results are compared with each other.
Times are processor times, which other processes disturb least.
A line has medians, the chosen plan, and its time relative to the minimum.
The exit status is 1 if that ratio exceeds 1.5 somewhere and the two times differ by more than 20 microseconds.
"""

import os

os.environ["OPENBLAS_NUM_THREADS"] = "1"

import argparse
import sys
import time
from statistics import median
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from benchmarks import measure, sparse, workloads
from wengert.program.derivatives import NotDerivable
from wengert.program.program import Program
from wengert.sparse.drivers import SparseOperator
from wengert.sparse.pattern import program_of

MODES = ("direct", "forward", "reverse", "mixed", "dense")
ALLOWED, UNSEEN = 1.5, 20e-6
#: maximum elements of an ndarray result, and maximum scalars computed by a plan that is timed
MOST, LONGEST = 10_000_000, 1_000_000_000


class Shape(NamedTuple):
    name: str
    order: int  # of the derivative: a Jacobian or a Hessian
    f: object
    x: np.ndarray


def shape_of(name, model, order=1):
    return Shape(name, order, model.loss, model.start)


def line(x):
    return np.concatenate([x[:1], x[:-2] - 2.0 * x[1:-1] + x[2:] + np.exp(x[1:-1]), x[-1:]])


def ring(x):
    return np.roll(x, 1) * np.roll(x, -1) - x**3


def cube(x):
    n = round(x.size ** (1 / 3))
    u = x.reshape(n, n, n)
    around = sum(np.roll(u, k, axis) for axis in range(3) for k in (1, -1))
    return (around - 6.0 * u + np.exp(u)).ravel()


def nine_points(x):
    n = round(x.size**0.5)
    p = np.zeros((n + 2, n + 2))
    p[1:-1, 1:-1] = x.reshape(n, n)
    q = p[:-2] + p[1:-1] + p[2:]
    return ((q[:, :-2] + q[:, 1:-1] + q[:, 2:]) * x.reshape(n, n)).ravel()


def arrow(x):
    return np.concatenate([np.array([np.sum(x**2)]), x[1:] ** 3 + x[0] * x[1:]])


def band(x):
    y = x[5:-5] ** 2
    for k in range(1, 6):
        y = y + x[5 - k : -5 - k] * x[5 + k : x.size - 5 + k]
    return y


def blocks(x):
    """Chemical kinetics in cells: each species depends on those of its cell."""
    y = x.reshape(-1, 6)
    a, b, c, d, e, g = (y[:, i] for i in range(6))
    rates = [a * b - c, b * c - d * a, c * d - e, d * e - g * b, e * g - a, g * a - c * e]
    return np.stack(rates, axis=1).ravel()


MIXING = np.random.default_rng(0).normal(size=(12, 12))
WIDE, TALL, SQUARE = (np.random.default_rng(0).normal(size=s) / 10.0 for s in ((20, 400), (3000, 20), (300, 300)))
NETWORK = sp.random_array((2000, 2000), density=0.002, rng=1, format="csr") + sp.eye_array(2000, format="csr")
PAIRS = np.random.default_rng(2).integers(5000, size=(2, 4000))


def mixed_blocks(x):
    """The same by a matrix product."""
    return np.tanh(x.reshape(-1, 12) @ MIXING).ravel()


def solved_blocks(x):
    """Solve small linear systems."""
    y = x.reshape(-1, 4)
    A = 5.0 * np.eye(4) + y[:, :, None] * y[:, None, :]
    return np.linalg.solve(A, y[:, :, None]).ravel()


def network(x):
    return NETWORK @ np.sin(x) - x**2


def pairs(x):
    return np.sin(x[PAIRS[0]] * x[PAIRS[1]])


def segments(x):
    return np.sum(np.exp(x.reshape(20, -1)), axis=1)


def groups(p):
    """Residuals of 40 decays, 100 times each."""
    a, b = p[:40, None], p[40:, None]
    return (a * np.exp(-b * np.linspace(0.0, 1.0, 100))).ravel()


def two_decays(p):
    t = np.linspace(0.0, 1.0, 20_000)
    return np.concatenate([p[0] * np.exp(-p[1] * t), p[2] * np.exp(-p[3] * t)])


def shared(x):
    """All results depend on values computed from all variables, so rows are full, but there are few."""
    y = x * np.sin(x)
    y[:3] = SQUARE[:3, : x.size] @ y
    return y


def steps(x):
    """Explicit time steps of a nonlinear equation: each step widens the dependence."""
    n = round(x.size**0.5)
    u = x.reshape(n, n)
    for _ in range(4):
        around = np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1)
        u = u + 0.1 * (around - 4.0 * u) + 0.1 * u * np.exp(-u)
    return u.ravel()


def chain(x):
    """Many operations on a few elements."""
    y = x[:-2] * x[1:-1] - x[2:]
    for _ in range(10):
        y = np.sin(y) * np.exp(-y * y) + 0.1 * y
    return y


def loop(x):
    F = np.zeros(x.size)
    for i in range(1, x.size - 1):
        F[i] = x[i] ** 2 - x[i - 1] * x[i + 1]
    return F


def two_blocks(x):
    n = x.size // 2
    return np.concatenate([np.tanh(SQUARE[:n, :n] @ part) for part in (x[:n], x[n:])])


def halves(x):
    n = x.size // 2
    return np.array([np.sum(np.exp(x[:n])), np.sum(np.sin(x[n:]))])


def surface(x):
    n = round(x.size**0.5)
    u = x.reshape(n, n)
    dx, dy = u[1:, :-1] - u[:-1, :-1], u[:-1, 1:] - u[:-1, :-1]
    return np.sum(np.sqrt(1.0 + dx**2 + dy**2))


def logistic(w):
    return np.sum(np.log1p(np.exp(TALL @ w))) + 0.5 * np.sum(w * w)


def squares(x):
    """Least squares of a network; the Hessian is the normal matrix."""
    return np.sum((NETWORK @ x - np.sin(x)) ** 2)


def smooth(x):
    """An objective with a matrix product, and sparse otherwise."""
    return np.sum((x.reshape(-1, 12) @ MIXING) ** 4) + np.sum(x[1:] * x[:-1])


def points(n):
    return workloads.points(n) - 0.5


SHAPES = [
    Shape("line, 10", 1, line, points(10)),
    Shape("line, 40", 1, line, points(40)),
    Shape("line, 1000", 1, line, points(1000)),
    Shape("ring, 100000", 1, ring, points(100_000)),
    Shape("nine points of a square, 60^2", 1, nine_points, points(3600)),
    shape_of("Brusselator, 6^2", sparse.Brusselator(6)),
    shape_of("Brusselator, 64^2", sparse.Brusselator(64)),
    Shape("periodic cube, 20^3", 1, cube, points(8000)),
    shape_of("diffusion in a cube, 12^3", sparse.Diffusion3D(12)),
    Shape("arrow head, 40", 1, arrow, points(40)),
    Shape("arrow head, 2000", 1, arrow, points(2000)),
    Shape("band of 11, 3000", 1, band, points(3000)),
    Shape("blocks of 6, 1200", 1, blocks, points(1200)),
    Shape("blocks of 12 by matmul, 60", 1, mixed_blocks, points(60)),
    Shape("blocks of 12 by matmul, 2400", 1, mixed_blocks, points(2400)),
    Shape("blocks of 4 by solve, 800", 1, solved_blocks, points(800)),
    shape_of("collocation, 100 steps", sparse.Collocation(100)),
    shape_of("bundle adjustment, 300 pictures", sparse.BundleAdjustment(5, 100, 300)),
    Shape("random network, 2000", 1, network, points(2000)),
    Shape("random pairs, 4000 x 5000", 1, pairs, points(5000)),
    Shape("segments, 20 x 4000", 1, segments, points(4000)),
    Shape("decays of 40, 4000 x 80", 1, groups, points(80)),
    Shape("two decays, 40000 x 4", 1, two_decays, points(4)),
    Shape("halves, 2 x 100000", 1, halves, points(100_000)),
    Shape("three full rows, 300", 1, shared, points(300)),
    Shape("two blocks by matmul, 120", 1, two_blocks, points(120)),
    Shape("two blocks by matmul, 600", 1, two_blocks, points(600)),
    Shape("four steps of diffusion, 30^2", 1, steps, points(900)),
    Shape("chain of operations, 3000", 1, chain, points(3000)),
    Shape("assembly loop, 200", 1, loop, points(200)),
    Shape("dense by matmul, 20 x 400", 1, lambda x: np.tanh(WIDE @ x), points(400)),
    Shape("dense by matmul, 3000 x 20", 1, lambda x: np.tanh(TALL @ x), points(20)),
    Shape("dense by matmul, 300", 1, lambda x: np.tanh(SQUARE @ x), points(300)),
    Shape("dense elementwise, 60", 1, lambda x: np.sin(x * x[:, None]).sum(axis=0), points(60)),
    shape_of("chain, Hessian, 50", sparse.Chained(50), 2),
    shape_of("chain, Hessian, 20000", sparse.Chained(20_000), 2),
    shape_of("arrow head, Hessian, 20000", sparse.ArrowHead(20_000), 2),
    Shape("surface, Hessian, 60^2", 2, surface, points(3600)),
    Shape("logistic regression, Hessian, 20", 2, logistic, points(20)),
    Shape("network, Hessian, 2000", 2, squares, points(2000)),
    Shape("blocks by matmul and a chain, Hessian, 600", 2, smooth, points(600)),
]


def programs(shape):
    """Return the program of each available plan, and the chosen mode."""
    program = program_of(shape.f, (shape.x,), {})
    picked = SparseOperator(shape.f, 0, False, "auto", "csr", "auto", shape.order).of_program(program)._result.plan.mode
    found = {}
    for mode in ("direct", "mixed") if shape.order == 2 else MODES[:4]:
        made = SparseOperator(shape.f, 0, False, True, "csr", mode, shape.order).of_program(program)
        found.setdefault(made._result.plan.mode, made)
    m, n = made._result.plan.pattern.shape
    if m * n <= MOST:
        try:
            found["dense"] = dense(program, shape.order)
        except NotDerivable:
            pass
    return {mode: made for mode, made in found.items() if made._operation_count < LONGEST}, picked


def dense(program: Program, order):
    return program.hessian(0) if order == 2 else program.jacobian(0)


def called(made, x):
    """Return a program's result as the user gets it: an array, or the matrix assembled from its values."""
    y = made(x)
    return y if isinstance(y, np.ndarray) else y[0].matrix(y[1])


def as_array(matrix, columns):
    """Return a derivative as a sparse array."""
    return sp.csr_array(matrix if sp.issparse(matrix) else matrix.reshape(-1, columns))


def times_of(shape, runs):
    """Return the median time of each plan, and the chosen one."""
    found, picked = programs(shape)
    calls, samples, first = {}, {mode: [] for mode in found}, None
    for mode, made in found.items():
        matrix = as_array(called(made, shape.x), shape.x.size)
        first = matrix if first is None else first
        scale = max(1.0, abs(first).max())
        if not abs(matrix - first).max() <= 1e-10 * scale:
            raise AssertionError(f"{shape.name}: {mode} gives another derivative")
        calls[mode] = measure.calls_for(lambda made=made: called(made, shape.x), 0.01)
    for _ in range(runs):
        for mode, made in found.items():
            samples[mode].append(processor_time(made, shape.x, calls[mode]))
    return {mode: median(taken) for mode, taken in samples.items()}, picked


def processor_time(made, x, calls):
    start = time.process_time()
    for _ in range(calls):
        called(made, x)
    return (time.process_time() - start) / calls


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.sparse_plans", description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", metavar="PART", help="shapes whose name contains this")
    parser.add_argument("--runs", type=int, default=5, help="times each plan is timed (default: 5)")
    options = parser.parse_args()
    measure.pin()
    print(f"| derivative | {' | '.join(MODES)} | picked | over the best |")
    print("|---|" + "---:|" * len(MODES) + "---|---:|")
    worst = 0.0
    for shape in SHAPES:
        if options.only not in shape.name:
            continue
        for runs in (options.runs, 5 * options.runs):  # a bad result is measured again for longer before it counts
            times, picked = times_of(shape, runs)
            least = min(times.values())
            if times[picked] <= max(ALLOWED * least, least + UNSEEN):
                break
        ratio = times[picked] / least
        if times[picked] - least > UNSEEN:
            worst = max(worst, ratio)
        columns = [measure.shown(times[mode]) if mode in times else "" for mode in MODES]
        print(f"| {shape.name} | {' | '.join(columns)} | {picked} | {ratio:.2f} |", flush=True)
    print(f"\nWorst, where more than 20 us apart: {worst:.2f}")
    return int(worst > ALLOWED)


if __name__ == "__main__":
    sys.exit(main())
