"""What is differentiated: one row a function, size and kind of derivative, with the derivative it is checked with."""

from typing import Any, NamedTuple

import numpy as np

from benchmarks import workloads


class Row(NamedTuple):
    """One line of the table; `name` is that of a function or class of `benchmarks.workloads`."""

    title: str
    size: str
    kind: str  # "gradient", "jacobian", "hessian" or "hvp"
    name: str
    arguments: tuple

    @property
    def key(self):
        """What the row is called on the command line."""
        return "-".join([self.name, *map(str, self.arguments), self.kind])


ROWS = [
    *(
        Row("Rosenbrock, loop over x[i], gradient", f"{n}", "gradient", "rosenbrock_loop", (n,))
        for n in (10, 100, 1000)
    ),
    *(
        Row(
            "Rosenbrock, slices, gradient",
            f"{n:.0e}".replace("+0", ""),
            "gradient",
            "rosenbrock_sliced",
            (n,),
        )
        for n in (1000, 100_000, 1_000_000)
    ),
    Row("kinetics, Robertson, dense Jacobian", "3", "jacobian", "robertson", (3,)),
    Row("kinetics, POLLU, dense Jacobian", "20", "jacobian", "pollu", (20,)),
    *(
        Row("Gaussian mixture, gradient", f"d{d} K25 N1000", "gradient", "Mixture", (d, 25, 1000))
        for d in (10, 64)
    ),
    *(
        Row(f"{title}, dense Hessian", f"{n}", "hessian", name, (n,))
        for title, name in (
            ("logistic regression", "LogisticRegression"),
            ("Rosenbrock, slices", "rosenbrock_sliced"),
            ("Rosenbrock, loop over x[i]", "rosenbrock_loop"),
        )
        for n in (50, 200)
    ),
    *(
        Row("MLP, Hessian-vector product", f"{n:.0e}".replace("+0", ""), "hvp", "MLP", (n,))
        for n in (10_000, 100_000)
    ),
    *(
        Row("Gaussian process, likelihood, gradient", f"{n}", "gradient", "GaussianProcess", (n,))
        for n in (200, 1000)
    ),
    Row("jacobi_1d, 100 steps, gradient", "3200", "gradient", "Jacobi1D", (3200, 100)),
    Row("jacobi_2d, 50 steps, gradient", "150^2", "gradient", "Jacobi2D", (150, 50)),
    Row("seidel_2d, scalar loops, 2 steps, gradient", "24^2", "gradient", "Seidel2D", (24, 2)),
    Row("gemver, gradient", "600^2", "gradient", "Gemver", (600,)),
    Row("softmax, gradient", "512^2", "gradient", "Softmax", (512,)),
    Row("reaction-diffusion, 2000 steps, gradient", "64^2", "gradient", "ReactionDiffusion", (64, 2000)),
]


class Problem(NamedTuple):
    """A row's function, a point, and, for a Hessian-vector product, a vector."""

    kind: str
    name: str
    model: Any  # what f is a method of, or None
    f: Any
    x: np.ndarray
    v: np.ndarray | None
    gradient: Any  # by hand, or None

    def check(self, found, rtol):
        """Refuse a wrong derivative; `rtol` is relative to the largest element, or to the sum of all of a slope."""
        f, x = self.f, self.x
        if self.kind == "gradient" and self.gradient is None:
            workloads.check_slopes(found, f, x, rtol)
            return
        expected = {
            "gradient": lambda: self.gradient(x),
            "jacobian": lambda: workloads.complex_step(f, x),
            "hessian": lambda: workloads.complex_step(self.gradient, x),
            "hvp": lambda: workloads.complex_slope(self.gradient, x, self.v),
        }[self.kind]()
        workloads.check(found, expected, rtol)


def problem(row, module=workloads):
    """The problem of a row, by `benchmarks.workloads` or a copy of that module."""
    made = getattr(module, row.name)
    if isinstance(made, type):
        model = made(*row.arguments)
        f, x, gradient = model.loss, model.start, getattr(model, "gradient", None)
    else:
        model, f, x = None, made, module.start(row.name, *row.arguments)
        gradient = module.rosenbrock_gradient if row.name.startswith("rosenbrock") else None
    v = np.random.default_rng(1).normal(size=x.shape) if row.kind == "hvp" else None
    return Problem(row.kind, row.name, model, f, x, v, gradient)
