"""The rows of the comparison with other packages: eager derivatives, VM programs, and native code."""

import warnings

import wengert as wg
from benchmarks import measure
from benchmarks.peers.cell import CALLS, own_problem
from benchmarks.peers.packages import OURS, PACKAGES, takes
from benchmarks.peers.rows import ROWS, problem

KEYS = [row.key for row in ROWS]
#: time that the VM may take to prepare a derivative, beyond ten times f, in seconds
ALLOWED = 1e-3


def row_of(key):
    return ROWS[KEYS.index(key)]


class Rows:
    """Time of later derivatives."""

    params = [KEYS, list(OURS)]
    param_names = ["row", "way"]
    timeout = 120

    def setup(self, key, way):
        row = row_of(key)
        if not takes(way, row):
            raise NotImplementedError("sparse derivatives are replayed")
        plain = problem(row)
        try:
            package = PACKAGES[way]()
            derivative = package.prepare(own_problem(row, way, package))
        except ImportError as error:
            raise NotImplementedError(str(error)) from error
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # compile warns that it does not replay solvers
            plain.check(derivative(plain.x), package.rtol)
            for _ in range(CALLS):
                derivative(plain.x)
        self.f, self.derivative, self.x = plain.f, derivative, plain.x

    def time_derivative(self, key, way):
        self.derivative(self.x)

    def peakmem_derivative(self, key, way):
        self.derivative(self.x)

    def track_ratio(self, key, way):
        return measure.alternate(lambda: self.f(self.x), lambda: self.derivative(self.x), pairs=5).ratio

    track_ratio.unit = "derivative / f"


class Preparation:
    """Time of the first derivative: eager, or with recording and compilation of a program."""

    params = [KEYS, ["wengert", "vm"]]
    param_names = ["row", "way"]
    timeout = 120

    def setup(self, key, way):
        row, package = row_of(key), PACKAGES[way]()
        if not takes(way, row):
            raise NotImplementedError("sparse derivatives are replayed")
        if row.name == "Root" and way != "wengert":
            raise NotImplementedError("solvers are not replayed")
        plain, own = problem(row), own_problem(row, way, package)
        self.f, self.x = plain.f, plain.x

        def first():
            wg.clear_caches()
            return package.prepare(own)(self.x)

        plain.check(first(), package.rtol)
        self.first = first

    def track_preparation(self, key, way):
        """Time beyond a millisecond relative to f; the target is at most 10."""
        taken = measure.alternate(lambda: self.f(self.x), self.first, pairs=3)
        return max(0.0, taken.second - ALLOWED) / taken.first

    track_preparation.unit = "(first derivative - 1 ms) / f"
