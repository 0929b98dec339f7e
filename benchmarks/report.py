"""Table of the figures with performance targets: `python benchmarks/report.py [--json PATH]`.

Two times are compared in one process, strictly alternating, each a median; a ratio is the median over pairs, with
its quartiles.  Every derivative is checked before it is timed.  On a busy machine only the ratios are
meaningful.
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from statistics import median
from typing import NamedTuple

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")  # must be set before NumPy is imported
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np  # noqa: E402
import scipy  # noqa: E402
from scipy.optimize import approx_fprime  # noqa: E402

import wengert as wg  # noqa: E402
from benchmarks import bench_import, bench_recording, measure, workloads  # noqa: E402

LONG_LOOP = """
import sys
import numpy as np
import wengert as wg
from benchmarks import measure, workloads
ops = int(sys.argv[1])
wg.grad(workloads.scalar_ops(10), workloads.SCALARS)
before = measure.peak_memory()
wg.grad(workloads.scalar_ops(ops), workloads.SCALARS)
print(before, measure.peak_memory())
"""


class Row(NamedTuple):
    """One figure: what is measured, the size, the times behind it, and the target."""

    what: str
    size: str
    base: float | None  # seconds: of f, or of the method that the derivative is compared with
    ours: float | None  # seconds
    figure: float
    unit: str  # "x": ours over base
    target: float | None
    spread: str = ""

    @property
    def met(self):
        """Return whether the figure, as printed, reaches its target."""
        return None if self.target is None else float(f"{self.figure:.3g}") <= self.target


def compared(what, size, comparison, target):
    spread = f"{comparison.low:.2f}-{comparison.high:.2f}"
    return Row(what, size, comparison.first, comparison.second, comparison.ratio, "x", target, spread)


def over_function(what, size, derivative, f, reference, x, target, pairs):
    """Time a derivative relative to f."""
    workloads.check(derivative(x), reference(x))
    return compared(what, size, measure.alternate(lambda: f(x), lambda: derivative(x), pairs), target)


def gradient_row(what, size, f, reference, x, target, pairs):
    return over_function(what, size, wg.grad(f), f, reference, x, target, pairs)


def jacobian_row(what, size, f, x, target, pairs):
    def reference(x):
        return workloads.complex_step(f, x)

    return over_function(what, size, wg.jacobian(f), f, reference, x, target, pairs)


def gradients(pairs):
    """Gradients relative to f."""
    w = workloads
    for n in (10, 100, 1000):
        functions = w.rosenbrock_loop, w.rosenbrock_gradient
        yield gradient_row("Rosenbrock loop, gradient", f"{n}", *functions, w.points(n), 1.0, pairs)
    for n, target in ((1000, 2.5), (100_000, 3.5), (1_000_000, 3.5)):
        functions = w.rosenbrock_sliced, w.rosenbrock_gradient
        yield gradient_row("Rosenbrock sliced, gradient", f"{n:.0e}", *functions, w.points(n), target, pairs)
    costs = {}
    for n in (1000, 10_000, 100_000):
        functions = w.assembly, w.assembly_gradient
        row = gradient_row("assembly loop, gradient", f"{n:.0e}", *functions, w.points(n), 1.0, pairs)
        costs[n] = row.ours / n
        yield row
    growth = costs[100_000] / costs[1000]
    yield Row(
        "the same an element, 1e5 over 1e3", "1e5 : 1e3", costs[1000], costs[100_000], growth, "x", 1.25
    )
    for weights in (10_000, 100_000):
        model = w.MLP(weights)
        yield gradient_row(
            "MLP batch 128, gradient", f"{weights:.0e}", model.loss, model.gradient, model.start, 3.5, pairs
        )


def jacobians(pairs):
    """Jacobians relative to f and to finite differences."""
    w = workloads
    yield jacobian_row("kinetics Robertson, Jacobian", "3", w.robertson, w.ROBERTSON_START, 6.0, pairs)
    yield jacobian_row("kinetics POLLU, Jacobian", "20", w.pollu, w.POLLU_START, 2.0, pairs)
    f, x = w.pair, w.PAIR_START
    yield jacobian_row("Jacobian of a 2-vector", "2", f, x, None, pairs)
    jacobian = wg.jacobian(f)
    comparison = measure.alternate(lambda: approx_fprime(x, f), lambda: jacobian(x), pairs)
    yield compared("the same over SciPy's 2-point differences", "2", comparison, 1.0)


def operations(pairs):
    """Cost of single operations."""
    ops, x = 100_000, workloads.SCALARS
    f = workloads.scalar_ops(ops)
    gradient = wg.grad(f)
    _, pullback = wg.vjp(f, x)
    workloads.check(gradient(x), workloads.complex_step(f, x))
    workloads.check(pullback(1.0), workloads.complex_step(f, x))

    def loop():
        for _ in range(ops // 2):
            pass

    def record():
        bench_recording.recorded(f, x).close()

    spent = measure.alternate(loop, record, pairs)
    net = measure.difference(loop, record, pairs)
    what = "scalar op recorded, beyond the bare loop"
    yield Row(what, "1e5 ops", spent.first / ops, spent.second / ops, 1e9 * net / ops, "ns", 25)
    swept = measure.alternate(lambda: f(x), lambda: pullback(1.0), pairs)
    cost = swept.second / ops
    yield Row("scalar op swept", "1e5 ops", swept.first / ops, cost, 1e9 * cost, "ns", 3)
    yield compared(
        "scalar ops, gradient", "1e5 ops", measure.alternate(lambda: f(x), lambda: gradient(x), pairs), 1.0
    )
    for beyond, target in (("math.sin", 40), ("bare loop", None)):
        first, second, cost = bench_recording.sine_cost(100_000, beyond, 3 * pairs)
        yield Row(f"np.sin of a scalar, beyond {beyond}", "1e5 ops", first, second, 1e9 * cost, "ns", target)
    for n in (10, 1000):
        yield from array_operations(n, pairs)


def array_operations(n, pairs):
    """Record at most at twice the time of NumPy's operation, and compute the gradient in at most 3.5 times f."""
    x, ops = np.linspace(0.2, 0.8, n), 400
    f = workloads.array_ops(ops)
    plain, recorded, swept = bench_recording.per_op(f, x, ops)
    yield Row(f"array op recorded, n={n}", f"{ops} ops", plain, recorded, recorded / plain, "x", 2)
    yield Row(f"array op swept, n={n}", f"{ops} ops", plain, swept, swept / plain, "x", None)

    def reference(x):
        return workloads.array_ops_gradient(ops, x)

    yield gradient_row(f"array ops, gradient, n={n}", f"{ops} ops", f, reference, x, 3.5, pairs)


def memory(pairs):
    """Bytes of the tape, and peak memory of a long loop."""
    x, ops = workloads.SCALARS, 100_000
    listed = bench_recording.scalar_bytes(workloads.scalar_ops(ops), x, ops)
    yield Row("list and adjoints, one scalar op", "1e5 ops", None, None, listed, "B", 25)
    n = 10_000
    listed = bench_recording.scalar_bytes(workloads.rosenbrock_loop, workloads.points(n), 8 * (n - 1))
    yield Row("the same, Rosenbrock loop, loads included", f"{n:.0e}", None, None, listed, "B", 25)
    ops = 10_000_000
    before, peak = measure.run_python(LONG_LOOP, ops)
    yield Row("gradient of a loop, peak memory", "1e7 ops", None, None, peak / 1e6, "MB", 400)
    yield Row("the same, growth an op", "1e7 ops", None, None, (peak - before) / ops, "B", 25)


def starting(pairs):
    """Import, and first derivatives."""
    for what, name, target in (
        ("wengert", "import wengert beyond numpy", 100.0),
        ("drivers", "the same, with the drivers", 100.0),
    ):
        cost = 1e3 * median(bench_import.import_time(what) for _ in range(pairs))
        yield Row(name, "", None, None, cost, "ms", target)
    for name, n in (
        ("rosenbrock_loop", 10),
        ("rosenbrock_loop", 1000),
        ("rosenbrock_sliced", 1000),
        ("robertson", 3),
        ("pollu", 20),
    ):
        for when in ("first", "later"):
            cost = 1e3 * median(bench_import.first_time(name, n, when) for _ in range(pairs))
            what = f"{name}, first derivative, " + ("of all" if when == "first" else "after others")
            yield Row(what, f"{n}", None, None, cost, "ms", None)


def line(row):
    figure = f"{row.figure:.3g} {row.unit}"
    base, ours = ("" if value is None else measure.shown(value) for value in (row.base, row.ours))
    target = "" if row.target is None else f"{row.target:g} {row.unit}"
    met = {None: "", True: "yes", False: "NO"}[row.met]
    return (
        f"{row.what:42} {row.size:>9} {base:>9} {ours:>9} {figure:>9} {row.spread:>11} {target:>8} {met:>3}"
    ).rstrip()


GROUPS = {
    "gradients": gradients,
    "jacobians": jacobians,
    "operations": operations,
    "memory": memory,
    "starting": starting,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("groups", nargs="*", help=f"of {', '.join(GROUPS)}; all by default")
    parser.add_argument("--json", metavar="PATH", type=Path, help="write the rows there too")
    parser.add_argument("--pairs", type=int, default=11, help="samples of a figure, at least 9 (default: 11)")
    options = parser.parse_args()
    if not set(options.groups) <= set(GROUPS):
        parser.error(f"groups are {', '.join(GROUPS)}")
    if options.pairs < 9:
        parser.error("--pairs is at least 9")
    setting = {
        "core": measure.pin(),
        "threads": os.environ["OMP_NUM_THREADS"],
        "malloc": measure.malloc_setting(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "wengert": wg.__version__,
    }
    print(", ".join(f"{name}: {value}" for name, value in setting.items()))
    print(f"{'':42} {'size':>9} {'f, base':>9} {'ours':>9} {'figure':>9} {'quartiles':>11} {'target':>8} met")
    rows = []
    for group in options.groups or GROUPS:
        for row in GROUPS[group](options.pairs):
            rows.append(row)
            print(line(row), flush=True)
    missed = [row for row in rows if row.met is False]
    print(f"{len(missed)} of {sum(row.met is not None for row in rows)} targets missed")
    print("First derivatives are to be below the fastest peer: `python -m benchmarks.peers` compares them.")
    if options.json:
        table = [row._asdict() | {"met": row.met} for row in rows]
        options.json.write_text(json.dumps({"setting": setting, "rows": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
