"""SciPy functions that NumPy's protocols do not reach: the same signatures and results, with derivatives.

``from wengert.scipy import optimize``; neither this package nor `wengert` imports SciPy before it is used.
"""

from importlib import import_module as _import_module

__all__ = [
    "cluster", "constants", "fft", "fftpack", "integrate", "interpolate", "linalg", "ndimage", "optimize", "signal",
    "sparse", "spatial", "special", "stats",
]  # fmt: skip


def __getattr__(name):
    if name in __all__:
        return _import_module(f"wengert.scipy.{name}")
    raise AttributeError(f"module 'wengert.scipy' has no attribute {name!r}")


def __dir__():
    return [*globals(), *__all__]
