"""Dense Jacobians of small systems, relative to the function and to finite differences."""

from scipy.optimize import approx_fprime

import wengert as wg
from benchmarks import measure, workloads


class _Jacobian:
    """A function, its reference Jacobian, and a point."""

    def prepare(self, f, x):
        self.f = f
        self.x = x
        self.jacobian = wg.jacobian(f)
        workloads.check(self.jacobian(x), workloads.complex_step(f, x))

    def time_function(self, *_):
        self.f(self.x)

    def time_jacobian(self, *_):
        self.jacobian(self.x)

    def track_ratio(self, *_):
        return measure.alternate(lambda: self.f(self.x), lambda: self.jacobian(self.x)).ratio

    track_ratio.unit = "Jacobian / f"


class Kinetics(_Jacobian):
    params = [["robertson", "pollu"]]
    param_names = ["system"]
    systems = {
        "robertson": (workloads.robertson, workloads.ROBERTSON_START),
        "pollu": (workloads.pollu, workloads.POLLU_START),
    }

    def setup(self, system):
        self.prepare(*self.systems[system])


class Pair(_Jacobian):
    """Two values of two variables: the size that favours finite differences most."""

    params = [["scipy"]]
    param_names = ["differences"]

    def setup(self, differences):
        self.prepare(workloads.pair, workloads.PAIR_START)
        workloads.check(approx_fprime(self.x, self.f), self.jacobian(self.x), rtol=1e-6)

    def time_differences(self, differences):
        approx_fprime(self.x, self.f)

    def track_differences(self, differences):
        return measure.alternate(lambda: approx_fprime(self.x, self.f), lambda: self.jacobian(self.x)).ratio

    track_differences.unit = "Jacobian / differences"
