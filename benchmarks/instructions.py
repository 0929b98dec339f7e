"""Instructions per operation of the hot paths, counted by callgrind, which a busy machine does not disturb.

    python -m benchmarks.instructions [case ...]

The script runs itself under valgrind, which must be installed, in about a minute.  Each case runs with two repetition
counts, and the difference of their instructions is divided by that of their operations, which excludes imports and
first calls.  To compare two builds, run it with either first on PYTHONPATH.
Valgrind does not support AVX-512: numeric kernels are counted in their AVX2 form.
"""

import math
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COUNTS = 5, 25
UNITS = {
    "record": "scalar operation recorded by vjp",
    "sweep": "scalar operation in a pullback",
    "sweep rows": "scalar operation of a Jacobian, 16 directions at once",
    "forward": "scalar operation with a tangent",
    "second": "scalar operation of a Hessian-vector product",
    "elements": "element that is computed and stored, in a gradient",
    "small arrays": "operation on 8 elements, in a gradient",
    "call": "compiled call of a function of two scalars",
    "replay": "compiled gradient of 60 scalar operations",
    "replay arrays": "compiled gradient of 12 operations on 300 elements",
    "compile": "scalar operation traced and compiled",
}


def scalars(a, b):
    for _ in range(20):
        a, b = a * b, np.sin(a) + b
    return a


def elements(u):
    F = np.zeros(20)
    for i in range(20):
        F[i] = u[i] ** 2 - 2.0 * u[i - 1]
    return F.sum()


def arrays(u):
    for _ in range(4):
        u = np.exp(-u) * u + 1.0
    return u.sum()


def cases():
    """Return for each case the repeated call and its number of operations."""
    import wengert as wg

    def of_pair(x):
        return scalars(x[0], x[1])

    def of_rows(x):
        return np.stack([scalars(x[i], x[i - 1]) for i in range(x.size)])

    pair, direction = np.array([0.5, 0.25]), np.ones(2)
    eight, sixteen, twenty, long = (np.linspace(0.1, 0.9, n) for n in (8, 16, 20, 300))
    _, pullback = wg.vjp(of_pair, pair)
    call = wg.compile(lambda a, b: a * b + math.pi)
    replay, replay_arrays = wg.grad(wg.compile(of_pair)), wg.grad(wg.compile(arrays))
    return {
        "record": (lambda: wg.vjp(of_pair, pair), 60),
        "sweep": (lambda: pullback(1.0), 60),
        "sweep rows": (lambda: wg.jacrev(of_rows)(sixteen), 960),
        "forward": (lambda: wg.jvp(of_pair, pair, direction), 60),
        "second": (lambda: wg.hvp(of_pair, pair, direction), 60),
        "elements": (lambda: wg.grad(elements)(twenty), 20),
        "small arrays": (lambda: wg.grad(arrays)(eight), 16),
        "call": (lambda: call(0.5, 0.25), 1),
        "replay": (lambda: replay(pair), 1),
        "replay arrays": (lambda: replay_arrays(long), 1),
        "compile": (lambda: wg.record(of_pair, pair), 60),
    }


def work(names):
    """Run the cases; each call of nice() ends a section of the profile."""
    import gc

    repeated = cases()
    gc.disable()
    for name in names:
        run = repeated[name][0]
        for _ in range(3):
            run()
        os.nice(0)
        for count in COUNTS:
            for _ in range(count):
                run()
            os.nice(0)


def main(names):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "profile")
        command = ["valgrind", "--tool=callgrind", "--dump-before=nice", f"--callgrind-out-file={out}"]
        subprocess.run(
            [*command, sys.executable, "-m", "benchmarks.instructions", "--work", *names],
            check=True,
            env={**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"},
            stderr=subprocess.DEVNULL,
        )
        parts = [
            int(re.search(r"^totals: (\d+)", Path(f"{out}.{part + 1}").read_text(), re.M)[1])
            for part in range(3 * len(names))
        ]
    operations = {name: case[1] for name, case in cases().items()}
    for i, name in enumerate(names):
        _, few, many = parts[3 * i : 3 * i + 3]
        each = (many - few) / (COUNTS[1] - COUNTS[0]) / operations[name]
        print(f"{name:14} {each:10.1f}  instructions per {UNITS[name]}")


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["--work"]:
        work(given[1:])
    else:
        main(given or list(UNITS))
