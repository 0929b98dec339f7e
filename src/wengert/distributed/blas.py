"""Limits the BLAS of NumPy and SciPy to one thread, since the bits of a product depend on the number of threads."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import threading
from collections.abc import Callable, Iterator

_NAMES = ("scipy_openblas_{}_num_threads64_", "scipy_openblas_{}_num_threads", "openblas_{}_num_threads64_",
          "openblas_{}_num_threads", "MKL_{}_Max_Threads")  # fmt: skip

_lock = threading.Lock()
_depth = 0  # number of open `one_blas_thread` blocks, in all threads
_before: list[int] = []


@functools.cache
def _controls() -> list[tuple[Callable, Callable]]:
    """Return functions that get and set the number of threads, for each BLAS that NumPy and SciPy load.

    A library handle also finds the symbols of the libraries that it depends on, except on Windows.
    """
    found = {}
    for module in ("numpy.linalg._umath_linalg", "scipy.linalg._fblas"):
        with contextlib.suppress(ImportError, OSError):
            library = ctypes.CDLL(importlib.import_module(module).__file__)
            for name in _NAMES:
                get = getattr(library, name.format("get" if "MKL" not in name else "Get"), None)
                set_name = name.format("set") if "MKL" not in name else "MKL_Set_Num_Threads"
                set_ = getattr(library, set_name, None)
                if get is not None and set_ is not None:
                    get.restype, set_.argtypes = ctypes.c_int, [ctypes.c_int]
                    found[ctypes.cast(set_, ctypes.c_void_p).value] = get, set_
                    break
    return [*found.values()]


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in the whole process within a ``with`` block; blocks of several threads may overlap."""
    global _depth, _before
    with _lock:
        if not _depth:
            _before = [get() for get, _ in _controls()]
            for _, set_ in _controls():
                set_(1)
        _depth += 1
    try:
        yield
    finally:
        with _lock:
            _depth -= 1
            if not _depth:
                for (_, set_), count in zip(_controls(), _before):
                    set_(count)
