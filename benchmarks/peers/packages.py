"""How each package computes a derivative: NumPy array in, NumPy array out.

A package is imported when its function here is called.  Each defines `prepare(problem)`, which returns the
derivative as a callable of x.  If a package cannot differentiate NumPy, it replaces `np` in the workloads and their
data arrays by its own; likewise `root`.
"""

import functools
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np


class Package(NamedTuple):
    """An imported package."""

    prepare: Callable
    numpy: Any = None  # replaces `np` in the workloads, unless None
    array: Callable | None = None  # converts data arrays
    rtol: float = 1e-10  # of the derivatives
    root: Callable | None = None  # replaces `scipy.optimize.root`


#: time limit for a call of finite differences, in seconds
LONGEST = 8.0


class TooSlowError(Exception):
    """A call would exceed the time limit."""


class NotAvailableError(Exception):
    """The package does not offer the derivative, or nobody has written a function for it."""


class Numpy:
    """Functions of an array package under NumPy's names: the given ones, else its own."""

    def __init__(self, package, **names):
        self.__dict__.update(names)
        self.package = package

    def __getattr__(self, name):
        return getattr(self.package, name)


def wengert(transform=None):
    import wengert as wg
    from wengert.deferred import load_all
    from wengert.scipy.optimize import root

    names = {"gradient": "grad", "jacobian": "jacobian", "hessian": "hessian", "hvp": "hvp"}
    operators = {kind: getattr(wg, name, None) for kind, name in names.items()}  # imports the drivers
    if transform is not None:
        import_module("wengert.sparse.drivers")
        operators |= {
            f"sparse_{kind}": functools.partial(operators[kind], sparse=True) for kind in ("jacobian", "hessian")
        }
    load_all()
    wg.numpy.linalg.solve  # noqa: B018 - declares the rules of its module

    def prepare(problem):
        operator = operators.get(problem.kind)
        if operator is None:
            raise NotAvailableError
        derivative = operator(transform(problem.f) if transform else problem.f)
        return (lambda x: derivative(x, problem.v)) if problem.kind == "hvp" else derivative

    return Package(prepare, root=root)


def vm():
    import wengert as wg

    import_module("wengert.program.specialise.compiled")
    return wengert(wg.compile(tier="vm"))


def llvm():
    import wengert as wg

    for name in ("llvmlite.binding", "wengert.program.specialise.compiled", "wengert.program.codegen.jit"):
        import_module(name)
    return wengert(wg.compile(tier="llvm"))


def hand():
    """Hand-written derivatives in Numba or NumPy: the remaining potential for speed."""
    import numba  # noqa: F401 - counts as import time

    from benchmarks.peers import limits

    def prepare(problem):
        try:
            return getattr(limits, f"{problem.name.lower()}_{problem.kind}")(problem)
        except AttributeError:
            raise NotAvailableError from None

    return Package(prepare)


def differences():
    from scipy.optimize._numdiff import approx_derivative, group_columns

    h = np.finfo(float).eps ** 0.25

    def steps(f, x):
        """Return the change of f when an element of x grows by h."""
        changed = np.empty(x.size)
        for i in range(x.size):
            stepped = x.copy()
            stepped[i] += h
            changed[i] = f(stepped)
        return changed - f(x)

    def hessian(f, x):
        here = steps(f, x)
        return np.array([steps(f, x + h * unit) - here for unit in np.eye(x.size)]) / h**2

    def grouped(f, pattern):
        """Return differences in the combined directions that the pattern allows."""
        groups = group_columns(pattern)
        return lambda x: approx_derivative(f, x, method="2-point", sparsity=(pattern, groups))

    def prepare(problem):
        f, v, shape = problem.f, problem.v, problem.x.shape
        n = problem.x.size
        pattern = problem.model.pattern() if problem.kind.startswith("sparse") else None
        if pattern is not None:
            f = problem.gradient if problem.kind == "sparse_hessian" else f
            n = int(np.max(np.diff(pattern.indptr)))  # minimum number of groups
        runs = {"hessian": n * n, "hvp": 2 * n}.get(problem.kind, n)
        start = time.perf_counter()
        f(problem.x)
        expected = runs * (time.perf_counter() - start)
        if expected > LONGEST:
            raise TooSlowError(f"about {expected:.0f} s a call")
        if pattern is not None:
            return grouped(f, pattern)
        if problem.kind == "hessian":
            return lambda x: hessian(f, x)
        if problem.kind == "hvp":
            return lambda x: (steps(f, x + h * v) - steps(f, x)) / h**2

        def derivative(x):
            found = approx_derivative(lambda z: f(z.reshape(shape)), x.ravel(), method="2-point")
            return found if problem.kind == "jacobian" else found.reshape(shape)

        return derivative

    return Package(prepare, rtol=1e-2)


def autograd():
    import autograd
    import autograd.numpy as anp

    def prepare(problem):
        f = problem.f
        if problem.kind == "hvp":
            product = autograd.hessian_vector_product(f)
            return lambda x: product(x, problem.v)
        if problem.kind == "jacobian":
            return autograd.jacobian(lambda x: anp.array(f(x)))
        return {"gradient": autograd.grad, "hessian": autograd.hessian}[problem.kind](f)

    return Package(prepare, anp)


def advect(stages=False):
    import advect

    def prepare(problem):
        f = problem.f
        derivative = {
            "gradient": lambda: advect.grad(f),
            "jacobian": lambda: advect.jacobian(lambda x: np.stack(y) if isinstance(y := f(x), list) else y),
            "hessian": lambda: advect.hessian(f),
            "hvp": lambda: lambda x: product(f, x, problem.v),
        }[problem.kind]()
        return advect.stage(derivative, problem.x) if stages else derivative

    def product(f, x, v):
        return advect.hvp(f)(x, vectors=v)[1]

    return Package(prepare)


def advect_staged():
    return advect(stages=True)


def torch():
    import torch
    import torch.func

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    torch.func.hessian(torch.sum)(torch.ones(1))  # imports most of torch, which is not part of a first derivative

    def stack(values):
        return torch.stack(values) if isinstance(values, list) else values

    def gradient(f, x):
        x = torch.from_numpy(x).requires_grad_()
        f(x).backward()
        return x.grad.numpy()

    def product(f, v):
        gradient = torch.func.grad(f)
        return lambda x: torch.func.jvp(gradient, (x,), (v,))[1]

    def prepare(problem):
        f = problem.f
        if problem.kind == "gradient":
            return lambda x: gradient(f, x)
        derivative = {
            "jacobian": lambda: torch.func.jacrev(lambda x: stack(f(x))),
            "hessian": lambda: torch.func.hessian(f),
            "hvp": lambda: product(f, torch.from_numpy(problem.v)),
        }[problem.kind]()
        return lambda x: derivative(torch.from_numpy(x)).numpy()

    names = {
        "array": stack,
        "max": torch.amax,
        "copy": torch.clone,
        "concatenate": torch.cat,
        "split": torch.tensor_split,
    }
    return Package(prepare, Numpy(torch, **names), torch.from_numpy)


def jax():
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    jnp.zeros(1).block_until_ready()  # starts the backend, which counts as import time

    def prepare(problem):
        f = problem.f
        derivative = {
            "gradient": lambda: jax.grad(f),
            "jacobian": lambda: jax.jacfwd(lambda x: jnp.array(f(x))),
            "hessian": lambda: jax.hessian(f),
            "hvp": lambda: lambda x, v: jax.jvp(jax.grad(f), (x,), (v,))[1],
        }[problem.kind]()
        compiled = jax.jit(derivative)
        directions = [problem.v] if problem.kind == "hvp" else []  # not a constant, as for the other packages
        return lambda x: np.asarray(compiled(x, *directions))

    return Package(prepare, jnp, jnp.asarray)


def asdex():
    made = jax()

    import asdex
    import jax as own
    import scipy.sparse as sp

    def prepare(problem):
        kind = problem.kind.removeprefix("sparse_")
        colouring = getattr(asdex, f"{kind}_coloring")(problem.f, problem.x)
        derivative = getattr(asdex, f"{kind}_from_coloring")(problem.f, colouring)
        compiled = own.jit(lambda x: derivative(x).data)
        s = colouring.sparsity
        matrix = sp.coo_array((np.zeros(s.nnz), (np.asarray(s.rows), np.asarray(s.cols))), s.shape)

        def values(x):
            matrix.data = np.asarray(compiled(x))
            return matrix

        return values

    return made._replace(prepare=prepare)


#: functions that casadi can expand into scalar operations
SCALAR_CODE = ("rosenbrock_loop", "robertson", "pollu", "Seidel2D", "Lorenz96", "Bodies", "EnzymeFit")


def casadi(options=None, sparse="SX"):
    import casadi
    import scipy.sparse as sp

    # NumPy functions of symbols as in casadi, without a warning
    casadi.GlobalOptions.setNumpyMode(-1)

    def symbols(problem):
        """Return variables and f of them: an SX per element for scalar code, one MX for whole arrays."""
        shape, name = problem.x.shape, problem.name
        if name in SCALAR_CODE:
            x = casadi.SX.sym("x", problem.x.size)
            elements = np.empty(problem.x.size, dtype=object)
            elements[:] = casadi.vertsplit(x)
            y = problem.f(elements.reshape(shape))
            return x, casadi.vertcat(*y) if problem.kind == "jacobian" else y
        if name == "GaussianProcess":
            raise NotAvailableError  # no dense factorisation
        if problem.kind.startswith("sparse"):
            x = getattr(casadi, sparse).sym("x", problem.x.size)
            return x, problem.f(x)
        by_numbers = name == "rosenbrock_sliced" and (problem.kind == "hessian" or (options and problem.x.size <= 1000))
        if options and not by_numbers:
            raise NotAvailableError  # C code for whole arrays would call the functions that casadi runs anyway
        x = (casadi.SX if by_numbers else casadi.MX).sym("x", problem.x.size)
        return x, problem.f(casadi.reshape(x, shape[1], shape[0]).T if len(shape) == 2 else x)

    def prepare(problem):
        x, y = symbols(problem)
        v = type(x).sym("v", x.shape)
        made = {
            "gradient": lambda: casadi.gradient(y, x),
            "jacobian": lambda: casadi.jacobian(y, x),
            "hessian": lambda: casadi.hessian(y, x)[0],
            "hvp": lambda: casadi.jtimes(casadi.gradient(y, x), x, v),
        }[problem.kind.removeprefix("sparse_")]()
        is_sparse = problem.kind.startswith("sparse")
        made = made if is_sparse else casadi.densify(made)
        inputs = [x, v] if problem.kind == "hvp" else [x]
        function = casadi.Function("derivative", inputs, [made], options or {})
        buffer, run = function.buffer()
        flat = np.zeros(made.nnz())
        buffer.set_res(0, memoryview(flat))
        if is_sparse:
            columns, rows = made.sparsity().get_ccs()
            result = sp.csc_array((flat, rows, columns), made.shape)
        else:
            is_matrix = problem.kind in ("jacobian", "hessian")
            result = flat.reshape(made.shape, order="F") if is_matrix else flat.reshape(problem.x.shape)

        def derivative(x):
            buffer.set_arg(0, memoryview(x.ravel()))
            if problem.kind == "hvp":
                buffer.set_arg(1, memoryview(problem.v.ravel()))
            run()
            return result

        return derivative

    return Package(prepare)


def casadi_mx():
    return casadi(sparse="MX")


def casadi_jit():
    import shutil

    if not shutil.which("gcc"):
        raise ImportError("gcc is not installed")
    flags = {"flags": ["-O3", "-march=native"], "verbose": False}
    return casadi({"jit": True, "compiler": "shell", "jit_options": flags})


PACKAGES = {
    "wengert": wengert,
    "vm": vm,
    "llvm": llvm,
    "hand": hand,
    "differences": differences,
    "autograd": autograd,
    "advect": advect,
    "advect_staged": advect_staged,
    "torch": torch,
    "jax": jax,
    "asdex": asdex,
    "casadi": casadi,
    "casadi_mx": casadi_mx,
    "casadi_jit": casadi_jit,
}
#: packages with sparse derivatives, and packages with nothing else
SPARSE = ("vm", "llvm", "hand", "differences", "asdex", "casadi", "casadi_mx")
SPARSE_ALONE = ("asdex", "casadi_mx")


def takes(package, row):
    """Return whether the table of the row has a column for the package."""
    return package in SPARSE if row.is_sparse else package not in SPARSE_ALONE


#: columns of wengert's
OURS = ("wengert", "vm", "llvm")
TITLES = {
    "wengert": "eager",
    "vm": "VM",
    "llvm": "LLVM",
    "hand": "hand-written",
    "differences": "finite differences",
    "advect_staged": "advect, staged",
    "asdex": "jax + asdex",
    "casadi_mx": "casadi MX",
    "casadi_jit": "casadi + gcc",
}
#: distribution that gives the version of a column, if named differently
DISTRIBUTIONS = {
    "vm": "wengert",
    "llvm": "llvmlite",
    "hand": "numba",
    "differences": "scipy",
    "advect_staged": "advect",
    "casadi_mx": "casadi",
    "casadi_jit": "casadi",
}
