"""The CUDA packages for Python: finds numba-cuda, checks that it is the right one, and explains driver errors."""

from __future__ import annotations

import importlib
import importlib.util
import re
from typing import Any

from wengert.errors import CudaUnavailable

#: driver errors for machine code that was built for a newer driver
_VERSION_ERRORS = {"UNSUPPORTED_PTX_VERSION", "INVALID_IMAGE", "NO_BINARY_FOR_GPU", "SYSTEM_DRIVER_MISMATCH"}

INSTALL = 'pip install "wengert[cuda]" for drivers of CUDA 13 (580 or later), "wengert[cuda12]" for those of CUDA 12'


def numba_cuda() -> Any:
    """Import `numba.cuda` from the package numba-cuda; this works without a GPU."""
    if importlib.util.find_spec("numba_cuda") is None:
        if importlib.util.find_spec("numba") is None:
            raise CudaUnavailable("the package numba-cuda is not installed", INSTALL)
        raise CudaUnavailable("only the old numba.cuda that is part of numba is installed, not numba-cuda", INSTALL)
    try:
        cuda = importlib.import_module("numba.cuda")
    except ImportError as error:
        raise CudaUnavailable(f"numba-cuda cannot be imported ({one_line(error)})", INSTALL) from error
    if getattr(cuda, "implementation", "Built-in") != "NVIDIA":
        raise CudaUnavailable(
            "numba-cuda is installed, but `import numba.cuda` finds the old one that is part of numba",
            "install numba-cuda into site-packages, where Python reads .pth files, not with --target or PYTHONPATH",
        )
    return cuda


def version_mismatch(error: Exception, cuda: Any) -> CudaUnavailable | None:
    """Return an explanation if the compilers are newer than the driver; None for any other error."""
    if name_of(error) not in _VERSION_ERRORS and type(error).__name__ != "LinkerError":
        return None
    driver, toolkit = _version(cuda.cudadrv.driver.get_version), _version(cuda.runtime.get_version)
    pins = f'pip install "cuda-toolkit=={driver}.*" "nvidia-nvjitlink=={driver}.*"'
    return CudaUnavailable(
        f"the driver supports CUDA {driver} and cannot load code from the installed CUDA {toolkit} compilers "
        f"({one_line(error)})",
        f"{INSTALL if driver[:3] != toolkit[:3] else pins}, or a newer driver",
    )


def name_of(error: BaseException) -> str:
    """Return the name of a driver error without the prefix CUDA_ERROR_; empty for any other error."""
    found = re.search(r"CUDA_ERROR_(\w+)", str(error))
    return found[1] if found else ""


def _version(get):
    try:
        return dotted(get())
    except Exception:
        return "unknown version"


def dotted(version: tuple) -> str:
    """Format a version as major.minor."""
    return ".".join(map(str, version[:2]))


def one_line(error: BaseException) -> str:
    return " ".join(str(error).split())
