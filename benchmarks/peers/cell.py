"""Measure one package on one row in this process: `python -m benchmarks.peers.cell PACKAGE ROW SECONDS`.

Prints a line of JSON: the seconds of the first derivative, of f and of a later derivative, and the ratio of the
last two with its quartiles; or the reason why there are none.  Without a row: the version of the package.
"""

import itertools
import json
import sys
import time
import warnings
from importlib.metadata import PackageNotFoundError, version
from importlib.util import module_from_spec
from statistics import median

import numpy as np

from benchmarks import measure
from benchmarks.peers.packages import DISTRIBUTIONS, PACKAGES, NotAvailableError, TooSlowError
from benchmarks.peers.rewrites import REWRITES
from benchmarks.peers.rows import ROWS, module_of, problem

#: calls before a derivative is timed, because compiled functions compare their 2nd and 4th call with f
CALLS = 4


def own_problem(row, name, package):
    """Return the problem of the row with fresh copies of its functions, and with the package's arrays."""
    spec = module_of(row).__spec__
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    made = problem(row, module)
    if package.array and made.model:
        for attribute, value in vars(made.model).items():
            if isinstance(value, np.ndarray) and value.dtype == float:
                setattr(made.model, attribute, package.array(value))
    if package.numpy:
        module.np = package.numpy
    if package.root:
        module.root = package.root
    rewrite = REWRITES.get((name.partition("_")[0], row.name))
    return made._replace(f=rewrite(made.model)) if rewrite else made


def measured(row, name, seconds):
    """Time the package on the row; a derivative slower than `seconds` is called twice only."""
    plain = problem(row)
    package = PACKAGES[name]()
    own = own_problem(row, name, package)
    start = time.perf_counter()
    derivative = package.prepare(own)
    found = derivative(plain.x.copy())
    cold = time.perf_counter() - start
    plain.check(found, package.rtol)
    points = itertools.cycle([plain.x * (1.0 + 1e-4 * k) for k in range(1, 6)])

    def function():
        plain.f(next(points))

    def later():
        derivative(next(points))

    once, spent = measure.seconds_per_call(later, 1), 0.0
    if once > 4.0 * seconds:
        f = measure.seconds_per_call(function, measure.calls_for(function, 0.03))
        times = {"cold": cold, "f": f, "warm": once, "pace": measure.seconds_per_call(pace, 1)}
        return times | dict.fromkeys(("ratio", "low", "high"), once / f)
    for _ in range(CALLS):
        once = measure.seconds_per_call(later, 1)
        spent += once
        if spent > 2.0 * seconds:
            break
    calls = measure.calls_for(function, 0.03), measure.calls_for(later, 0.03)
    paces, samples = [], []
    for _ in range(min(11, max(3, int(seconds / max(once, 0.06))))):
        paces.append(measure.seconds_per_call(pace, 1))
        samples.append((measure.seconds_per_call(function, calls[0]), measure.seconds_per_call(later, calls[1])))
    found = measure.summary(samples)
    times = {"cold": cold, "f": found.first, "warm": found.second, "pace": median(paces)}
    return times | {"ratio": found.ratio, "low": found.low, "high": found.high}


def pace():
    """Time a fixed loop that no setting affects, to measure the speed of the machine."""
    total = 0
    for i in range(30_000):
        total += i * i
    return total


def in_short(error):
    """Shorten an error message."""
    first = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__


def installed(name):
    """Return the version of a distribution, or the package's own version if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return sys.modules[name].__version__


def main(name, key=None, seconds="1"):
    if key is None:
        try:
            PACKAGES[name]()
            return {"version": installed(DISTRIBUTIONS.get(name, name))}
        except ImportError as error:
            return {"missing": in_short(error)}
    measure.pin()
    row = next(row for row in ROWS if row.key == key)
    try:
        return measured(row, name, float(seconds))
    except NotAvailableError:
        return {"missing": "not available"}
    except TooSlowError as error:
        return {"missing": str(error)}
    except Exception as error:
        return {"fails": in_short(error)}


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        print(json.dumps(main(*sys.argv[1:])))
