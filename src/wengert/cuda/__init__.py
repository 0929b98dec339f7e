"""Evaluation of programs at many points on a GPU: one kernel, one thread per point.

Numba is imported only when a kernel is compiled; without a GPU, calling a kernel raises `CudaUnavailable`.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wengert.cuda.availability import is_available, why_not
    from wengert.cuda.batch import Kernel
    from wengert.cuda.paths import vmap
    from wengert.errors import CudaUnavailable

_HOMES = {
    "CudaUnavailable": "wengert.errors", "Kernel": "wengert.cuda.batch", "vmap": "wengert.cuda.paths",
    "is_available": "wengert.cuda.availability", "why_not": "wengert.cuda.availability",
}  # fmt: skip

__all__ = ["CudaUnavailable", "Kernel", "is_available", "vmap", "why_not"]


if not TYPE_CHECKING:  # a `__getattr__` would make type checkers accept any name

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'wengert.cuda' has no attribute {name!r}")
        value = globals()[name] = getattr(_import_module(_HOMES[name]), name)
        return value


def __dir__():
    return sorted(__all__)
