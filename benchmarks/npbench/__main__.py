"""Table of gradients of NPBench's kernels: `python -m benchmarks.npbench PATH [kernels] [--check] [--tiers vm llvm]`.

PATH is a checkout of github.com/spcl/npbench, whose modules are imported as they are.
The gradient of a weighted sum of the squares of the results is checked against differences, with `--check` in every
array of floats, otherwise in one, and timed in that one: eagerly, compiled, and by JAX (`jit`) where the kernel has a
version for it, in alternation, at new points in every call, on one core.
Each kernel runs in a process of its own.
A kernel whose gradient is the same at all points is marked with `=`, and not averaged.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.measure import shown
from benchmarks.npbench.kernels import described

ROOT = Path(__file__).resolve().parents[2]
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}


def outcome(path, name, options, limit):
    """Run a kernel in a process of its own; return what it reports."""
    command = [sys.executable, "-m", "benchmarks.npbench.worker", str(path), name, json.dumps(options)]
    where = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]))
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD | {"PYTHONPATH": where},
            timeout=limit,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"kernel": name, "failed": f"more than {limit} s"}
    lines = done.stdout.splitlines()
    return json.loads(lines[-1]) if lines else {"kernel": name, "failed": f"exit status {done.returncode}"}


def row(found):
    """Return the cells of a kernel: f, then each engine's time over f, its first call, and ratios to JAX."""
    name = found["kernel"] + (" =" if found.get("remembered") else "")
    if "failed" in found or "skipped" in found:
        return [name, found.get("failed", found.get("skipped"))]
    verdicts = {why for each in found["verdicts"].values() for why in each.values() if why != "right"}
    cells = [name, "; ".join(sorted(verdicts)) or "right"]
    if "times" not in found:
        return cells
    times, first, notes = found["times"], found["first"], found["notes"]
    cells.append(shown(times["f"]))
    for engine in ("eager", "vm", "llvm", "jax"):
        if engine in times:
            cells.append(f"{shown(times[engine])} ({times[engine] / times['f']:.2g} f)")
        else:
            cells.append(notes.get(engine, "-").partition(":")[0])
    cells += [shown(first[engine]) if engine in first else "-" for engine in ("vm", "llvm", "jax")]
    best = compiled_time(found)
    cells.append(f"{best / times['jax']:.2f}" if "jax" in times and best else "-")
    return cells


def compiled_time(found):
    """Return the time of the faster compiled tier."""
    return min((found["times"][tier] for tier in ("vm", "llvm") if tier in found.get("times", {})), default=None)


HEAD = ["kernel", "check", "f", "eager", "VM", "llvm", "JAX", "first VM", "first llvm", "first JAX", "compiled/JAX"]


def summary(outcomes):
    """Return the lines of averages over the kernels that both engines run, without those marked `=`."""
    ratios = [
        (found["times"]["jax"] / compiled_time(found))
        for found in outcomes
        if "jax" in found.get("times", {}) and compiled_time(found) and not found["remembered"]
    ]
    if not ratios:
        return ["No kernel was timed by both."]
    geometric = math.exp(sum(map(math.log, ratios)) / len(ratios))
    mean, rest = sum(ratios) / len(ratios), sorted(ratios)[:-1]
    line = f"JAX over compiled, {len(ratios)} kernels: geometric mean {geometric:.2f}, mean {mean:.2f}"
    return [f"{line} ({sum(rest) / len(rest):.2f} without the largest)" if rest else line]


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m benchmarks.npbench", description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("kernels", nargs="*")
    parser.add_argument("--check", action="store_true", help="check in every array, and time nothing")
    parser.add_argument("--tiers", nargs="+", default=["vm", "llvm"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--limit", type=float, default=600, help="seconds for each kernel")
    parser.add_argument("--sizes", type=json.loads, default={}, help="JSON: parameters by kernel")
    given = parser.parse_args(arguments)
    print("| " + " | ".join(HEAD[:2] if given.check else HEAD) + " |")
    print("|" + " --- |" * (2 if given.check else len(HEAD)))
    outcomes = []
    for name in given.kernels or described(given.path):
        options = {"sizes": given.sizes.get(name), "rounds": given.rounds, "modes": ["eager", *given.tiers]}
        options |= {"check": True, "all": True} if given.check else {"time": True, "jax": has_jax()}
        outcomes.append(outcome(given.path, name, options, given.limit))
        print("| " + " | ".join(row(outcomes[-1])) + " |", flush=True)
    if not given.check:
        print("", *summary(outcomes), sep="\n")
    return outcomes


def has_jax():
    """Return whether JAX is installed beside this package."""
    import importlib.util

    return importlib.util.find_spec("jax") is not None


if __name__ == "__main__":
    main()
