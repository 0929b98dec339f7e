"""Sparse derivatives: time to detect the pattern, to colour it, and to compute the first matrix and later ones."""

import wengert as wg
from benchmarks import measure, sparse, workloads

#: model, sizes (each has four times the nonzeros of the one before), and order of the derivative
PROBLEMS = {"Brusselator": (sparse.Brusselator, (64, 128, 256), 1), "chain": (sparse.Chained, (25_000, 100_000), 2)}
CASES = [f"{name} {n}" for name, (_, sizes, _) in PROBLEMS.items() for n in sizes]


class _Sparse:
    """A model, its derivative, and a point."""

    params = [CASES]
    param_names = ["problem"]
    timeout = 120

    def setup(self, case):
        name, _, n = case.partition(" ")
        model, _, self.order = PROBLEMS[name]
        self.model = model(int(n))
        self.f, self.x = self.model.loss, self.model.start
        self.derivative = self.new()
        matrix = self.derivative(self.x)
        self.nonzeros = matrix.nnz
        workloads.check_products(matrix, self.f if self.order == 1 else self.model.gradient, self.x)

    def new(self):
        return (wg.jacobian if self.order == 1 else wg.hessian)(self.f, sparse=True)


class Preparation(_Sparse):
    def setup(self, case):
        super().setup(case)
        self.pattern = self.model.pattern()

    def time_pattern(self, case):
        wg.sparsity(self.f, self.x, order=self.order)

    def time_colouring(self, case):
        wg.colouring(self.pattern, kind="column" if self.order == 1 else "star")

    def time_first(self, case):
        self.new()(self.x)

    def track_colours(self, case):
        return wg.colouring(self.pattern, kind="column" if self.order == 1 else "star").count

    def track_first(self, case):
        return measure.alternate(lambda: self.f(self.x), lambda: self.new()(self.x), pairs=3).ratio

    track_first.unit = "first derivative / f"


class Later(_Sparse):
    def time_derivative(self, case):
        self.derivative(self.x)

    def track_ratio(self, case):
        return measure.alternate(lambda: self.f(self.x), lambda: self.derivative(self.x)).ratio

    track_ratio.unit = "derivative / f"

    def track_nanoseconds_a_nonzero(self, case):
        taken = measure.alternate(lambda: self.f(self.x), lambda: self.derivative(self.x)).second
        return 1e9 * taken / self.nonzeros

    track_nanoseconds_a_nonzero.unit = "ns"


class Memory:
    """Memory of the first derivative, which must be linear in its nonzeros."""

    params = [CASES]
    param_names = ["problem"]
    timeout = 120

    def peakmem_first(self, case):
        first_nonzeros(case)

    def track_bytes_a_nonzero(self, case):
        """Resident memory of a fresh process beyond its imports, per nonzero."""
        before, after, nonzeros = measure.run_python(MEMORY, case)
        return (after - before) / nonzeros

    track_bytes_a_nonzero.unit = "bytes"


MEMORY = """
import sys
from benchmarks import bench_sparse, measure
bench_sparse.first_nonzeros("chain 100")
before = measure.peak_memory()
nonzeros = bench_sparse.first_nonzeros(sys.argv[1])
print(before, measure.peak_memory(), nonzeros)
"""


def first_nonzeros(case):
    """Return the number of nonzeros of a derivative that is computed twice."""
    name, _, n = case.partition(" ")
    model, _, order = PROBLEMS[name]
    made = model(int(n))
    derivative = (wg.jacobian if order == 1 else wg.hessian)(made.loss, sparse=True)
    derivative(made.start)
    return derivative(made.start).nnz
