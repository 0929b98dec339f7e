"""First gradients in fresh processes that have imported everything, side by side with other packages.

`python benchmarks/peers/cold.py`, with the packages to compare installed: autograd, torch (CPU), casadi; those
that are missing are left out.  Each measurement is a process of its own, limited to one thread; the packages take
turns.  All results are checked against a derivative by hand or by complex steps.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
import types
from importlib.util import find_spec
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[2]
THREADS = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
ROWS = [
    ("rosenbrock_loop", 10),
    ("rosenbrock_loop", 100),
    ("rosenbrock_loop", 1000),
    ("rosenbrock_sliced", 1000),
    ("rosenbrock_sliced", 100_000),
    ("robertson", 3),
    ("pollu", 20),
]

# ------------------------------------------------------------------------------------------------ packages
# Each imports all it needs and returns derivative(f, x, is_gradient), and what the workloads' `np` becomes.


def wengert_package():
    import wengert as wg

    def derivative(f, x, is_gradient):
        return (wg.grad if is_gradient else wg.jacobian)(f, x)

    wg.grad, wg.jacobian  # noqa: B018  (imports the drivers)
    return derivative, None


def autograd_package():
    import autograd
    import autograd.numpy as anp

    def derivative(f, x, is_gradient):
        if is_gradient:
            return autograd.grad(f)(x)
        return autograd.jacobian(lambda x: anp.array(f(x)))(x)

    return derivative, anp


def torch_package():
    import torch

    torch.set_num_threads(1)

    def stack(values):
        return torch.stack(values) if isinstance(values, list) else values

    def derivative(f, x, is_gradient):
        x = torch.tensor(x, requires_grad=is_gradient)
        if is_gradient:
            f(x).backward()
            return x.grad.numpy()
        return torch.autograd.functional.jacobian(lambda x: stack(f(x)), x).numpy()

    return derivative, types.SimpleNamespace(sum=torch.sum, array=stack)


def casadi_package():
    import casadi
    import numpy as np

    def stack(values):
        return casadi.vertcat(*values) if isinstance(values, list) else values

    def derivative(f, x, is_gradient):
        sliced = f.__name__ == "rosenbrock_sliced"  # whole arrays, as MX; else an SX for each element
        symbols = (casadi.MX if sliced else casadi.SX).sym("x", x.size)
        y = stack(f(symbols if sliced else casadi.vertsplit(symbols)))
        made = casadi.gradient(y, symbols) if is_gradient else casadi.densify(casadi.jacobian(y, symbols))
        function = casadi.Function("derivative", [symbols], [made])
        result = np.zeros(made.numel())
        buffer, run = function.buffer()
        buffer.set_arg(0, memoryview(x))
        buffer.set_res(0, memoryview(result))
        run()
        return result if is_gradient else result.reshape(made.shape, order="F")

    return derivative, types.SimpleNamespace(sum=casadi.sum1, array=stack)


PACKAGES = {
    "wengert": wengert_package,
    "autograd": autograd_package,
    "torch": torch_package,
    "casadi": casadi_package,
}


# ----------------------------------------------------------------------------------------- one measurement


def load_workloads():
    """The module of the functions, anew: its functions have not been seen by anyone."""
    sys.modules.pop("benchmarks.workloads", None)
    return importlib.import_module("benchmarks.workloads")


def measure_once(package, name, n):
    """Print the seconds of the first derivative, and of the first one of the same function made anew."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    sys.path.insert(0, str(ROOT))
    plain = load_workloads()
    derivative, replacement = PACKAGES[package]()
    is_gradient = name.startswith("rosenbrock")
    x = plain.start(name, n)
    expected = plain.rosenbrock_gradient(x) if is_gradient else plain.complex_step(getattr(plain, name), x)
    taken = []
    for _ in range(2):
        workloads = load_workloads()
        if replacement is not None:
            workloads.np = replacement
        f = getattr(workloads, name)
        start = time.perf_counter()
        found = derivative(f, x.copy(), is_gradient)
        taken.append(time.perf_counter() - start)
        plain.check(found, expected)
    print(json.dumps(taken))


def run_once(package, name, n):
    command = [sys.executable, __file__, "--measure", package, name, str(n)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=os.environ | THREADS)
    return json.loads(done.stdout)


# ----------------------------------------------------------------------------------------------- the table


def milliseconds(value):
    return f"{1e3 * value:.3g}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9, help="processes a figure, at least 7 (default: 9)")
    parser.add_argument("--json", metavar="PATH", type=Path, help="write the figures there too")
    parser.add_argument("--measure", nargs=3, metavar=("PACKAGE", "FUNCTION", "N"), help="one measurement")
    options = parser.parse_args()
    if options.measure:
        package, name, n = options.measure
        return measure_once(package, name, int(n))
    if options.repeats < 7:
        parser.error("--repeats is at least 7")
    packages = [package for package in PACKAGES if find_spec(package)]
    malloc = [f"{k}={v}" for k, v in os.environ.items() if k.startswith(("MALLOC_", "GLIBC_TUNABLES"))]
    print(
        "First derivative of all in a process, in ms (in brackets: of a function made anew, in that process)."
    )
    print(
        f"One core, one thread, malloc: {', '.join(malloc) or 'default'}; {options.repeats} processes each."
    )
    print(f"{'':18} {'n':>6}" + "".join(f"{package:>20}" for package in packages) + "   ratio to best peer")
    table = []
    for name, n in ROWS:
        samples = {package: [] for package in packages}
        for _ in range(options.repeats):
            for package in packages:
                samples[package].append(run_once(package, name, n))
        first = {package: median(one for one, _ in samples[package]) for package in packages}
        anew = {package: median(two for _, two in samples[package]) for package in packages}
        cells = [f"{milliseconds(first[p])} ({milliseconds(anew[p])})" for p in packages]
        peers = [p for p in packages if p != "wengert"]
        ratios = [values["wengert"] / min(values[p] for p in peers) for values in (first, anew) if peers]
        met = "".join(f"{ratio:8.3f}" for ratio in ratios) + (
            "" if max(ratios, default=0) < 1 else "  NOT below"
        )
        print(f"{name:18} {n:>6}" + "".join(f"{cell:>20}" for cell in cells) + f"   {met}", flush=True)
        table.append({"function": name, "n": n, "first": first, "anew": anew, "ratios": ratios})
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    return None


if __name__ == "__main__":
    main()
