"""Exact derivatives of ordinary NumPy and SciPy code, at compiled speed.

``op(f)`` returns a callable, ``op(f, x)`` evaluates: `grad`, `jacobian`, `hessian`, `derivative`, `jvp`, `vjp`, `hvp`,
`linearize`.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from wengert.deferred import load as _load
from wengert.program import backends as _backends

if TYPE_CHECKING:
    from wengert import checkpointing as checkpointing
    from wengert import cuda as cuda
    from wengert import distributed as distributed
    from wengert import errors as errors
    from wengert import implicit as implicit
    from wengert import numpy as numpy
    from wengert import scipy as scipy
    from wengert import testing as testing
    from wengert import typing as typing
    from wengert import viz as viz
    from wengert.api import (
        clear_caches,
        compile,
        derivative,
        grad,
        gradient,
        hessian,
        hvp,
        jacfwd,
        jacobian,
        jacrev,
        jvp,
        linearize,
        primitive,
        record,
        sparsity,
        stop_gradient,
        taylor,
        value_and_grad,
        vjp,
        vmap,
    )
    from wengert.checkpointing.run import checkpoint, loop
    from wengert.config import show_config
    from wengert.containers import ravel, register_container
    from wengert.core.levels import passive
    from wengert.core.rebind.choose import follow
    from wengert.debug import detect_nan, probe
    from wengert.errors import (
        CachedValueWarning,
        CompileWarning,
        ComplexValueError,
        ConvergenceError,
        FiniteDifferenceWarning,
        GuardError,
        LevelError,
        MutatedInputWarning,
        NonSmoothError,
        PatternError,
        ReplayMismatchError,
        RootFindingWarning,
        RoundingWarning,
        SingularJacobianError,
        StaleProgramError,
        TextWarning,
        TracedValueError,
        UnsupportedFunctionError,
    )
    from wengert.program.program import Program
    from wengert.scipy.nonlinear_program import nlp
    from wengert.sparse.colours import colouring
    from wengert.testing import compare
    from wengert.transforms.explain import explain

__version__ = "0.2.0"

# The module that defines each public name; bound on first use, so that `import wengert` is cheap.
_HOMES = {
    "grad": "api",
    "gradient": "api",
    "value_and_grad": "api",
    "jacobian": "api",
    "derivative": "api",
    "hessian": "api",
    "hvp": "api",
    "jacfwd": "api",
    "jacrev": "api",
    "jvp": "api",
    "linearize": "api",
    "vjp": "api",
    "vmap": "api",
    "stop_gradient": "api",
    "taylor": "api",
    "primitive": "api",
    "compile": "api",
    "record": "api",
    "sparsity": "api",
    "Program": "program.program",
    "clear_caches": "api",
    "colouring": "sparse.colours",
    "checkpoint": "checkpointing.run",
    "loop": "checkpointing.run",
    "follow": "core.rebind.choose",
    "passive": "core.levels",
    "ravel": "containers",
    "register_container": "containers",
    "compare": "testing",
    "detect_nan": "debug",
    "probe": "debug",
    "explain": "transforms.explain",
    "nlp": "scipy.nonlinear_program",
    "show_config": "config",
    "CachedValueWarning": "errors",
    "CompileWarning": "errors",
    "ComplexValueError": "errors",
    "ConvergenceError": "errors",
    "FiniteDifferenceWarning": "errors",
    "GuardError": "errors",
    "LevelError": "errors",
    "MutatedInputWarning": "errors",
    "NonSmoothError": "errors",
    "PatternError": "errors",
    "ReplayMismatchError": "errors",
    "RootFindingWarning": "errors",
    "RoundingWarning": "errors",
    "SingularJacobianError": "errors",
    "StaleProgramError": "errors",
    "TextWarning": "errors",
    "TracedValueError": "errors",
    "UnsupportedFunctionError": "errors",
}

# Submodules and subpackages that are attributes, imported on first use.
_MODULES = ("checkpointing", "cuda", "distributed", "errors", "implicit", "numpy", "scipy", "testing", "typing", "viz")

__all__ = [
    "CachedValueWarning",
    "CompileWarning",
    "ComplexValueError",
    "ConvergenceError",
    "FiniteDifferenceWarning",
    "GuardError",
    "LevelError",
    "MutatedInputWarning",
    "NonSmoothError",
    "PatternError",
    "Program",
    "ReplayMismatchError",
    "RootFindingWarning",
    "RoundingWarning",
    "SingularJacobianError",
    "StaleProgramError",
    "TextWarning",
    "TracedValueError",
    "UnsupportedFunctionError",
    "checkpoint",
    "clear_caches",
    "colouring",
    "compare",
    "compile",
    "derivative",
    "detect_nan",
    "explain",
    "follow",
    "grad",
    "gradient",
    "hessian",
    "hvp",
    "jacfwd",
    "jacobian",
    "jacrev",
    "jvp",
    "linearize",
    "loop",
    "nlp",
    "passive",
    "primitive",
    "probe",
    "ravel",
    "record",
    "register_container",
    "show_config",
    "sparsity",
    "stop_gradient",
    "taylor",
    "value_and_grad",
    "vjp",
    "vmap",
]


if not TYPE_CHECKING:  # with a `__getattr__` every name would seem to exist

    def __getattr__(name):
        home = _HOMES.get(name)
        if home is not None:
            value = getattr(_load(f"wengert.{home}"), name)
        elif name in _MODULES:
            value = _load(f"wengert.{name}")
        else:
            raise AttributeError(f"module 'wengert' has no attribute {name!r}")
        globals()[name] = value
        return value


def _make_kernel(*args, **options):
    return _import_module("wengert.cuda.batch").Kernel(*args, **options)


def _stacked_jacobian(*args):
    return _import_module("wengert.program.swept").Stacked(*args)


_backends.make_kernel = _make_kernel
_backends.stacked_jacobian = _stacked_jacobian


def __dir__():
    return sorted({name for name in globals() if name.startswith("__")}.union(_HOMES, _MODULES))
