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
_NAMES = {
    "api": "grad gradient value_and_grad jacobian derivative hessian hvp jacfwd jacrev jvp linearize vjp vmap "
    "stop_gradient taylor primitive compile record sparsity clear_caches",
    "program.program": "Program",
    "sparse.colours": "colouring",
    "checkpointing.run": "checkpoint loop",
    "core.rebind.choose": "follow",
    "core.levels": "passive",
    "containers": "ravel register_container",
    "testing": "compare",
    "debug": "detect_nan probe",
    "transforms.explain": "explain",
    "scipy.nonlinear_program": "nlp",
    "config": "show_config",
    "errors": "CachedValueWarning CompileWarning ComplexValueError ConvergenceError FiniteDifferenceWarning GuardError "
    "LevelError MutatedInputWarning NonSmoothError PatternError ReplayMismatchError RootFindingWarning RoundingWarning "
    "SingularJacobianError StaleProgramError TextWarning TracedValueError UnsupportedFunctionError",
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names.split()}

# Submodules and subpackages that are attributes, imported on first use.
_MODULES = ("checkpointing", "cuda", "distributed", "errors", "implicit", "numpy", "scipy", "testing", "typing", "viz")

__all__ = [
    "CachedValueWarning", "CompileWarning", "ComplexValueError", "ConvergenceError", "FiniteDifferenceWarning",
    "GuardError", "LevelError", "MutatedInputWarning", "NonSmoothError", "PatternError", "Program",
    "ReplayMismatchError", "RootFindingWarning", "RoundingWarning", "SingularJacobianError", "StaleProgramError",
    "TextWarning", "TracedValueError", "UnsupportedFunctionError", "checkpoint", "clear_caches", "colouring",
    "compare", "compile", "derivative", "detect_nan", "explain", "follow", "grad", "gradient", "hessian", "hvp",
    "jacfwd", "jacobian", "jacrev", "jvp", "linearize", "loop", "nlp", "passive", "primitive", "probe", "ravel",
    "record", "register_container", "show_config", "sparsity", "stop_gradient", "taylor", "value_and_grad", "vjp",
    "vmap",
]  # fmt: skip


if not TYPE_CHECKING:  # with `__getattr__`, type checkers would accept every name

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


_backends.make_kernel = lambda *args, **options: _import_module("wengert.cuda.batch").Kernel(*args, **options)
_backends.stacked_jacobian = lambda *args: _import_module("wengert.program.swept").Stacked(*args)


def __dir__():
    return sorted({name for name in globals() if name.startswith("__")}.union(_HOMES, _MODULES))
