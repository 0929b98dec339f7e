"""Time of import, and of the first derivative of a function.

``python -m benchmarks.bench_import`` prints the processor time of short programs in fresh processes, side by side.
"""

import importlib.util
import math
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


#: short programs with the package that they are compared with; each prints a derivative
PROGRAMS = {
    "numpy": "import numpy as np; print(0.0)",
    "gradient": "import numpy as np, wengert as wg; print(*wg.grad(lambda x: np.sum(np.sin(x) * x))(np.ones(3)))",
    "compiled gradient": "import numpy as np, wengert as wg\n"
    "print(*wg.compile(wg.grad(lambda x: np.sum(np.sin(x) * x)))(np.ones(3)))",
    "gradient by autograd": "import numpy, autograd, autograd.numpy as np\n"
    "print(*autograd.grad(lambda x: np.sum(np.sin(x) * x))(numpy.ones(3)))",
    "root of scipy": "import numpy as np; from scipy.optimize import root\n"
    "print(*root(lambda x: x**3 - np.array([2.0, 3.0]), [1.0, 1.0]).x)",
    "root of wengert.scipy": "import numpy as np; from wengert.scipy.optimize import root\n"
    "print(*root(lambda x: x**3 - np.array([2.0, 3.0]), [1.0, 1.0]).x)",
}
TIMED = "import sys, time; exec(sys.argv[1]); print(time.process_time())"
RESULTS = {"gradient": [math.sin(1) + math.cos(1)] * 3, "root": [2 ** (1 / 3), 3 ** (1 / 3)], "numpy": [0.0]}


def processor_time(name):
    """Return the processor time in seconds of a program in a new process, imports included; its result is checked."""
    *result, taken = measure.run_python(TIMED, PROGRAMS[name])
    expected = next(RESULTS[word] for word in RESULTS if word in name)
    assert all(abs(x - y) < 1e-6 for x, y in zip(result, expected, strict=True)), (name, result)
    return taken


class Process:
    params = [[name for name in PROGRAMS if name != "numpy"]]
    param_names = ["program"]

    def track_processor_time(self, program):
        """Processor time beyond that of `import numpy`."""
        if "autograd" in program and importlib.util.find_spec("autograd") is None:
            return float("nan")
        pairs = [(processor_time(program), processor_time("numpy")) for _ in range(9)]
        return median(own for own, _ in pairs) - median(numpy for _, numpy in pairs)

    track_processor_time.unit = "s"


if __name__ == "__main__":
    found = {name: [] for name in PROGRAMS if "autograd" not in name or importlib.util.find_spec("autograd")}
    for _ in range(9):  # alternating, as other programs may slow some of them
        for name, times in found.items():
            times.append(processor_time(name))
    start = median(found.pop("numpy"))
    for name, times in found.items():
        print(f"{name:22} {1e3 * (median(times) - start):6.1f} ms of processor time beyond `import numpy`")
