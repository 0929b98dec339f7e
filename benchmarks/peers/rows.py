"""The benchmark rows: a function, a size and a kind of derivative each, with the derivative to check against."""

from typing import Any, NamedTuple

import numpy as np

from benchmarks import equations, sparse, unseen, workloads


class Row(NamedTuple):
    """One row of the table; `name` is a function or class of one of MODULES."""

    title: str
    size: str
    kind: str  # one of KINDS
    name: str
    arguments: tuple

    @property
    def key(self):
        """Return the name of the row on the command line."""
        return "-".join([self.name, *map(str, self.arguments), self.kind])

    @property
    def is_sparse(self):
        return self.kind.startswith("sparse")

    @property
    def is_linear(self):
        """Whether f is linear: compiled derivatives are constant, and later calls return the first result."""
        return self.name in ("Jacobi1D", "Jacobi2D", "Seidel2D")


def of_size(title, kind, name, *sizes):
    """Return a row for each number of variables."""
    for n in sizes:
        size = f"{n}" if n <= 1000 else f"{n:.0e}".replace("+0", "")
        yield Row(f"{title}, {KINDS[kind]}", size, kind, name, (n,))


KINDS = {
    "gradient": "gradient",
    "jacobian": "dense Jacobian",
    "hessian": "dense Hessian",
    "hvp": "Hessian-vector product",
    "sparse_jacobian": "sparse Jacobian",
    "sparse_hessian": "sparse Hessian",
}
MODULES = (workloads, equations, unseen, sparse)
ROWS = [
    *of_size("Rosenbrock, loop over x[i]", "gradient", "rosenbrock_loop", 10, 100, 1000),
    *of_size("Rosenbrock, slices", "gradient", "rosenbrock_sliced", 1000, 100_000, 1_000_000),
    *of_size("kinetics, Robertson", "jacobian", "robertson", 3),
    *of_size("kinetics, POLLU", "jacobian", "pollu", 20),
    Row("Gaussian mixture, gradient", "d10 K25 N1000", "gradient", "Mixture", (10, 25, 1000)),
    Row("Gaussian mixture, gradient", "d64 K25 N1000", "gradient", "Mixture", (64, 25, 1000)),
    *of_size("logistic regression", "hessian", "LogisticRegression", 50, 200),
    *of_size("Rosenbrock, slices", "hessian", "rosenbrock_sliced", 50, 200),
    *of_size("Rosenbrock, loop over x[i]", "hessian", "rosenbrock_loop", 50, 200),
    *of_size("MLP, batch 128", "hvp", "MLP", 10_000, 100_000),
    *of_size("Gaussian process, likelihood", "gradient", "GaussianProcess", 200, 1000),
    Row("jacobi_1d, 100 steps, gradient", "3200", "gradient", "Jacobi1D", (3200, 100)),
    Row("jacobi_2d, 50 steps, gradient", "150^2", "gradient", "Jacobi2D", (150, 50)),
    Row("seidel_2d, scalar loops, 2 steps, gradient", "24^2", "gradient", "Seidel2D", (24, 2)),
    Row("gemver, gradient", "600^2", "gradient", "Gemver", (600,)),
    Row("softmax, gradient", "512^2", "gradient", "Softmax", (512,)),
    Row("reaction-diffusion, 2000 steps, gradient", "64^2", "gradient", "ReactionDiffusion", (64, 2000)),
    *of_size("root of Broyden's equations in 3 constants", "jacobian", "Root", 10, 200),
    Row("Lorenz-96, loops over x[i], 20 steps, gradient", "40", "gradient", "Lorenz96", (40, 20)),
    Row("energy of n bodies, loops over pairs, gradient", "30", "gradient", "Bodies", (30,)),
    Row("fit of enzyme kinetics, 200 steps, gradient", "5", "gradient", "EnzymeFit", (20, 10)),
    *(
        Row("2-D Brusselator, sparse Jacobian", f"{n}^2", "sparse_jacobian", "Brusselator", (n,))
        for n in (32, 128, 256)
    ),
    *of_size("chained objective", "sparse_hessian", "Chained", 10_000, 100_000),
    *of_size("arrow head", "sparse_hessian", "ArrowHead", 10_000, 100_000),
    Row(
        "bundle adjustment, sparse Jacobian",
        "20 cameras, 1000 points, 5000 pictures",
        "sparse_jacobian",
        "BundleAdjustment",
        (20, 1000, 5000),
    ),
    Row("collocation of a cart with a pole, sparse Jacobian", "1000 steps", "sparse_jacobian", "Collocation", (1000,)),
    Row("3-D nonlinear diffusion, sparse Jacobian", "32^3", "sparse_jacobian", "Diffusion3D", (32,)),
]


def module_of(row):
    """Return the module of the row's function."""
    return next(module for module in MODULES if hasattr(module, row.name))


class Problem(NamedTuple):
    """A row's function, a point, and, for a Hessian-vector product, a vector."""

    kind: str
    name: str
    model: Any  # the object whose method f is, or None
    f: Any
    x: np.ndarray
    v: np.ndarray | None
    gradient: Any  # hand-written, or None
    jacobian: Any  # the same

    def check(self, found, rtol):
        """Raise for a wrong derivative; `rtol` is relative to the largest element, or to a slope's sum of |terms|."""
        f, x = self.f, self.x
        if self.kind == "gradient" and self.gradient is None:
            workloads.check_slopes(found, f, x, rtol)
            return
        if self.kind.startswith("sparse"):
            workloads.check_products(found, self.gradient if self.kind == "sparse_hessian" else f, x, rtol)
            return
        expected = {
            "gradient": lambda: self.gradient(x),
            "jacobian": lambda: self.jacobian(x) if self.jacobian else workloads.complex_step(f, x),
            "hessian": lambda: workloads.complex_step(self.gradient, x),
            "hvp": lambda: workloads.complex_slope(self.gradient, x, self.v),
        }[self.kind]()
        workloads.check(found, expected, rtol)


def problem(row, module=None):
    """Return the problem of a row, from the module of its function or a copy of it."""
    module = module or module_of(row)
    made = getattr(module, row.name)
    if isinstance(made, type):
        model = made(*row.arguments)
        f, x = model.loss, model.start
        gradient, jacobian = getattr(model, "gradient", None), getattr(model, "jacobian", None)
    else:
        model, f, x, jacobian = None, made, module.start(row.name, *row.arguments), None
        gradient = module.rosenbrock_gradient if row.name.startswith("rosenbrock") else None
    v = np.random.default_rng(1).normal(size=x.shape) if row.kind == "hvp" else None
    return Problem(row.kind, row.name, model, f, x, v, gradient, jacobian)
