"""Time of import, and of the first derivative of a function."""

from statistics import median

from benchmarks import measure, workloads

IMPORT = """
import sys, time
import numpy
start = time.perf_counter()
import wengert
if sys.argv[1] == "drivers":
    wengert.grad
print(time.perf_counter() - start)
"""

FIRST = """
import sys, time
import numpy as np
import wengert as wg
from benchmarks import workloads
name, n, warm = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "later"
wg.grad, wg.jacobian
x = workloads.start(name, n)
derivative = wg.grad if name.startswith("rosenbrock") else wg.jacobian
if warm:
    wg.grad(workloads.assembly, workloads.points(5))
    wg.jacobian(workloads.pair, workloads.PAIR_START)
start = time.perf_counter()
found = derivative(getattr(workloads, name), x)
taken = time.perf_counter() - start
reference = workloads.rosenbrock_gradient(x) if derivative is wg.grad else workloads.complex_step(
    getattr(workloads, name), x)
workloads.check(found, reference)
print(taken)
"""


def import_time(what):
    """Return the seconds beyond `import numpy`, in a new process."""
    return measure.run_python(IMPORT, what)[0]


def first_time(name, n, when="first"):
    """Return the seconds of the first derivative of a function in a process that has imported everything.

    "later": the process has computed derivatives of other functions before.
    """
    return measure.run_python(FIRST, name, n, when)[0]


class Import:
    params = [["wengert", "drivers"]]
    param_names = ["what"]

    def track_import(self, what):
        return median(import_time(what) for _ in range(5))

    track_import.unit = "s"


class First:
    params = [
        ["first", "later"],
        [("rosenbrock_loop", 10), ("rosenbrock_sliced", 1000), ("robertson", 3), ("pollu", 20)],
    ]
    param_names = ["when", "function"]

    def setup(self, when, function):
        first_time(*function, when)

    def track_first(self, when, function):
        return median(first_time(*function, when) for _ in range(5))

    track_first.unit = "s"

    def track_ratio(self, when, function):
        """Time of the first derivative relative to one later call of the function itself."""
        name, n = function
        f = getattr(workloads, name)
        x = workloads.start(name, n)
        return self.track_first(when, function) / measure.alternate(lambda: f(x), lambda: f(x)).first

    track_ratio.unit = "first derivative / f"
