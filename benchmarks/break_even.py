"""Number of calls after which compilation pays: `python -m benchmarks.break_even`.

Each function is differentiated in a new process by every tier.  `first` is the time of the first call, `later` the
median of later ones; compiled code breaks even with eager code after `(first - eager first) / (eager later - later)`
calls, rounded up.  Disk caches of machine code are cold.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
TIERS = ("eager", "vm", "llvm")


def rosenbrock_loop(x):
    s = 0.0
    for i in range(x.size - 1):
        s = s + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
    return s


def small_arrays(x):
    """Fifty steps of a linear recurrence with matrices of two rows."""
    A = np.array([[1.0, 0.1], [-0.1, 0.9]])
    u = x
    for _ in range(50):
        u = A @ u + 0.01 * np.tanh(u)
    return np.sum(u**2)


def long_arrays(x):
    return np.sum(np.log1p(np.exp(-x)) * np.cos(x))


def matrix_products(x):
    A = x.reshape(400, 400)
    return np.sum(np.tanh(A @ A.T))


FUNCTIONS = {
    "loop over 100 elements": (rosenbrock_loop, 100),
    "50 steps with 2 x 2 matrices": (small_arrays, 2),
    "elementwise, 1e5 elements": (long_arrays, 100_000),
    "product of 400 x 400 matrices": (matrix_products, 160_000),
}


def measure(name, tier):
    """Return the times of the first and of later calls of the gradient, in seconds."""
    import wengert as wg

    f, size = FUNCTIONS[name]
    wg.grad(np.sum, np.ones(2))  # imports
    if tier == "llvm":
        wg.grad(wg.compile(np.sum, tier="llvm"))(np.ones(3))  # imports and starts LLVM
    elif tier == "vm":
        wg.grad(wg.compile(np.sum, tier="vm"))(np.ones(3))
    points = np.random.default_rng(0).normal(size=(8, size))
    start = time.perf_counter()
    gradient = wg.grad(f if tier == "eager" else wg.compile(f, tier=tier))
    gradient(points[0])
    first = time.perf_counter() - start
    later = []
    begin = time.perf_counter()
    while len(later) < 2000 and time.perf_counter() - begin < 1.0:
        x = points[len(later) % len(points)]
        start = time.perf_counter()
        gradient(x)
        later.append(time.perf_counter() - start)
    return first, median(later)


def in_new_process(name, tier):
    with tempfile.TemporaryDirectory() as cache:
        settings = os.environ | {"WENGERT_CACHE_DIR": cache, "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "benchmarks.break_even", name, tier]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=settings, cwd=ROOT)
    return json.loads(done.stdout)


def shown(seconds):
    unit, scale = next((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("us", 0.0)) if seconds >= s)
    return f"{seconds / (scale or 1e-6):.3g} {unit}"


def main(repeats=5):
    if len(sys.argv) == 3:
        return print(json.dumps(measure(*sys.argv[1:])))
    print("| gradient of | tier | first call | later calls | breaks even after |\n|---|---|---:|---:|---:|")
    for name in FUNCTIONS:
        runs = {tier: [in_new_process(name, tier) for _ in range(repeats)] for tier in TIERS}
        times = {tier: [median(run[i] for run in of_tier) for i in (0, 1)] for tier, of_tier in runs.items()}
        for tier, (first, later) in times.items():
            gain = times["eager"][1] - later
            calls = max(1, int(np.ceil((first - times["eager"][0]) / gain)) + 1) if gain > 0 else None
            even = "" if tier == "eager" else f"{calls} calls" if calls else "never"
            print(f"| {name if tier == 'eager' else ''} | {tier} | {shown(first)} | {shown(later)} | {even} |")


if __name__ == "__main__":
    main()
