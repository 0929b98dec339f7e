"""``python -m benchmarks.calibrate``: measure the constants of ``wengert.transforms.costs``.

Each workload is timed as plain NumPy, recorded, swept with k rows, and run with k tangents.  Straight lines fitted
to the times over k give the cost of a pass and of each direction, in evaluations of the plain function.
Constants of sparse derivatives come from replayed programs in the same way; the work done in Python is expressed in
scalars that a program computes in the same time.
The median over the workloads is printed beside the constant in use.
Run it on an idle machine.
"""

import argparse
import copy
import os
import time
from statistics import median

import numpy as np
import scipy.sparse as sp
from wengert.core.modes.pullback import carried, pull_back

import wengert as wg
from benchmarks import measure, sparse, workloads
from wengert.sparse.drivers import SparseOperator
from wengert.sparse.pattern import program_of
from wengert.sparse.programs import Compressed
from wengert.transforms.costs import COSTS, SPARSE_COSTS
from wengert.transforms.products import push, record

DIRECTIONS = (1, 4, 16, 64)


def sines_of_sums(x):
    return np.sin(x[1:] + x[:-1]) * x[1:]


def assembled(x):
    """Fill an array element by element."""
    F = np.zeros(len(x))
    for i in range(1, len(x) - 1):
        F[i] = x[i] ** 2 - x[i - 1] * x[i + 1]
    return F


# name, function, point
WORKLOADS = [
    ("scalar loop, 20", workloads.rosenbrock_loop, workloads.points(20)),
    ("scalar loop, 200", workloads.rosenbrock_loop, workloads.points(200)),
    ("assembly, 100", assembled, workloads.points(100)),
    ("Robertson", workloads.robertson, workloads.ROBERTSON_START),
    ("pollution", workloads.pollu, workloads.POLLU_START),
    ("array code, 10", sines_of_sums, workloads.points(10)),
    ("array code, 1000", sines_of_sums, workloads.points(1000)),
    ("array code, 30000", sines_of_sums, workloads.points(30000)),
    ("products, 1000", workloads.array_ops(20), workloads.points(1000)),
]


SPARSE_WORKLOADS = [
    ("array code, 1000", sines_of_sums, workloads.points(1000)),
    ("array code, 30000", sines_of_sums, workloads.points(30000)),
    *[
        (name, model.loss, model.start)
        for name, model in (
            ("Brusselator, 32^2", sparse.Brusselator(32)),
            ("Brusselator, 64^2", sparse.Brusselator(64)),
            ("collocation, 300", sparse.Collocation(300)),
            ("cube, 20^3", sparse.Diffusion3D(20)),
        )
    ],
]


def recorded(f, x):
    return record(f, (x,), {}, (0,), False, "calibrate")


def seconds(call, rounds, per_round):
    """Return the time of a call as the minimum of several, because other processes can only add to it."""
    calls = measure.calls_for(call, per_round)
    return min(measure.seconds_per_call(call, calls) for _ in range(rounds))


def line(times):
    """Fit a line to times over `DIRECTIONS`, weighted by relative error; return its value at zero and its slope."""
    k = np.array(DIRECTIONS, dtype=float)
    t = np.array(times)
    slope, start = np.polyfit(k, t, 1, w=1 / t)
    return max(start, 0.0), max(slope, 0.0)


def constants(f, x, rounds, per_round):
    """Return the constants that one workload gives."""

    def sweep(k):
        cotangents = random.normal(size=(k, *np.shape(run.value())))
        return lambda: pull_back(run.tape, run.inputs, run.outputs, [cotangents], k, True, False)

    def tangents(k):
        directions = random.normal(size=(k, *x.shape))

        def trace(level, leaf, i):
            return carried(level, leaf, directions)

        return lambda: push(f, (x,), {}, (0,), False, "calibrate", k, trace).close()

    random = np.random.default_rng(1964)
    plain = seconds(lambda: f(x), rounds, per_round)
    record_time = seconds(lambda: recorded(f, x).close(), rounds, per_round)
    run = recorded(f, x)
    try:
        start, row = line([seconds(sweep(k), rounds, per_round) for k in DIRECTIONS])
    finally:
        run.close()
    first, column = line([seconds(tangents(k), rounds, per_round) for k in DIRECTIONS])
    parts = {"record": record_time, "sweep": start, "row": row, "push": first, "column": column}
    return {name: part / plain for name, part in parts.items()}


def products(program, side, size, k):
    """Return a function that multiplies a program with k seeds of columns or rows."""
    lines, groups = np.arange(size), np.arange(size) // k  # a group shares a row or column, so there are k colours
    places = (groups, lines) if side == "column" else (lines, groups)
    pattern = sp.csr_array((np.ones(size, bool), places))
    return Compressed(program, 0, "calibrate", wg.colouring(pattern, kind=side, method="natural"), side)


def sparse_constants(f, x, rounds, per_round):
    """Return the constants of sparse derivatives that one workload gives."""

    def taken(call):
        return seconds(call, rounds, per_round)

    program, small, band = (
        program_of(*of, {}) for of in ((f, (x,)), (np.sin, (np.ones(1),)), (sines_of_sums, (workloads.points(600),)))
    )
    leaves = program._example
    plain = taken(lambda: program._execute(leaves))
    number, lines = plain / program._operation_count, []
    for side, size in (("column", x.size), ("row", np.size(f(x)))):
        ways = [products(program, side, size, k) for k in DIRECTIONS]
        seeding = [taken(lambda way=way: way._directions(0, way._width)) for way in ways]
        lines += line([taken(lambda way=way: way._execute(leaves)) - s for way, s in zip(ways, seeding)])
        seed = seeding[0] / size
    one = SparseOperator(np.sin, 0, False, True, "csr", "forward", 1).of_program(small)
    call = taken(lambda: one._execute(small._example))
    ndarray, direct = band.jacobian(0), SparseOperator(sines_of_sums, 0, False, True, "csr", "auto", 1).of_program(band)
    full = [taken(lambda way=way: way._execute(band._example)) for way in (ndarray, direct)]
    data, source = np.ones(x.size), np.random.default_rng(1964).permutation(x.size)
    matrix = sp.eye_array(10, format="csr")
    parts = {
        "call": call,
        "seed": seed,
        "nonzero": taken(lambda: data.take(source)) / x.size,
        "array": taken(lambda: setattr(copy.copy(matrix), "data", matrix.data)),
        "zero": (full[0] - full[1]) / 600**2,
    }
    of_products = dict(zip(("tangents", "tangent", "cotangents", "cotangent"), (part / plain for part in lines)))
    return of_products | {name: part / number for name, part in parts.items()}


def table(found, in_use):
    """Print the constants of each workload, their medians, and those in use."""
    names = list(found[0][1])
    rows = [("workload", *names), *[(name, *map("{:.3g}".format, costs.values())) for name, costs in found]]
    rows.append(("median", *(f"{median([costs[name] for _, costs in found]):.2g}" for name in names)))
    rows.append(("in use", *(f"{getattr(in_use, name):.2g}" for name in names)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join(cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
        for row in rows
    ]
    return "\n".join([lines[0], *lines[1:-2], "", *lines[-2:]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7, help="times each thing is timed")
    parser.add_argument("--seconds", type=float, default=0.02, help="about how long each time takes")
    options = parser.parse_args()
    core = measure.pin()
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"wengert {wg.__version__}, numpy {np.__version__}, core {core}, load {load:.1f}, {time.strftime('%F')}")
    if load > 0.5:
        print("the machine is busy: these times are only a first guess")
    for of_workload, known, in_use in (
        (constants, WORKLOADS, COSTS),
        (sparse_constants, SPARSE_WORKLOADS, SPARSE_COSTS),
    ):
        print(table([(name, of_workload(f, x, options.rounds, options.seconds)) for name, f, x in known], in_use))
        print()


if __name__ == "__main__":
    main()
