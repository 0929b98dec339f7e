"""Is there a GPU to compute on, and if not, why: the first of a chain of causes, with what to do about it."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import re
from typing import Any

from wengert.errors import CudaUnavailable

#: lowest compute capability for which current toolkits compile
LOWEST = (7, 5)

#: what a driver says to machine code that is made for later ones
_OTHER_VERSION = {"UNSUPPORTED_PTX_VERSION", "INVALID_IMAGE", "NO_BINARY_FOR_GPU", "SYSTEM_DRIVER_MISMATCH"}

_INSTALL = 'pip install "wengert[cuda]" for drivers of CUDA 13 (580 or later), "wengert[cuda12]" for those of CUDA 12'


def is_available() -> bool:
    """Whether there is a GPU, with all that is needed to compute on it.

    Returns
    -------
    bool
        False where `why_not` gives a reason.

    Examples
    --------
    >>> import wengert.cuda
    >>> device = "GPU" if wengert.cuda.is_available() else "CPU"
    """
    return _obstacle() is None


def why_not() -> str | None:
    """Why there is no GPU to compute on, and what to do.

    The first call compiles and runs a small kernel where there is a device, which takes about a second.

    Returns
    -------
    str or None
        None where there is one.

    Examples
    --------
    >>> import wengert.cuda
    >>> assert wengert.cuda.is_available() == (wengert.cuda.why_not() is None)
    """
    found = _obstacle()
    return None if found is None else str(found)


def require() -> None:
    """Raise `CudaUnavailable` unless there is a GPU."""
    found = _obstacle()
    if found is not None:
        raise CudaUnavailable(found.reason, found.fix)


def numba_cuda() -> Any:
    """The module `numba.cuda` of the package numba-cuda, with or without a GPU."""
    if importlib.util.find_spec("numba_cuda") is None:
        if importlib.util.find_spec("numba") is None:
            raise CudaUnavailable("the package numba-cuda is not installed", _INSTALL)
        raise CudaUnavailable("only the old numba.cuda that is built into numba is installed, not numba-cuda", _INSTALL)
    try:
        cuda = importlib.import_module("numba.cuda")
    except ImportError as error:
        raise CudaUnavailable(f"numba-cuda cannot be imported ({_line(error)})", _INSTALL) from error
    if getattr(cuda, "implementation", "Built-in") != "NVIDIA":
        raise CudaUnavailable(
            "numba-cuda is installed, but numba.cuda is the old one that is built into numba",
            "install numba-cuda into site-packages, whose .pth files Python reads, not by --target or PYTHONPATH",
        )
    return cuda


@functools.cache
def _obstacle() -> CudaUnavailable | None:
    """What stands in the way; looked for once in a process."""
    try:
        _check(numba_cuda())
    except CudaUnavailable as error:
        return error
    return None


def _check(cuda):
    """Raise unless a kernel runs on the current device."""
    if cuda.config.ENABLE_CUDASIM:
        raise CudaUnavailable(
            "numba.cuda is Numba's simulator, which runs no compiled code", "unset NUMBA_ENABLE_CUDASIM"
        )
    try:
        count = len(cuda.gpus)
    except Exception as error:  # of classes that differ between versions
        raise _of_driver(error) from error
    if not count:
        raise _no_device()
    capability = tuple(cuda.get_current_device().compute_capability)
    if capability < LOWEST:
        raise CudaUnavailable(
            f"the GPU has compute capability {_dotted(capability)}", f"{_dotted(LOWEST)} or higher is needed (Turing)"
        )
    _try(cuda)


def _of_driver(error):
    text = _line(error)
    if "NUMBA_DISABLE_CUDA" in text:
        return CudaUnavailable("CUDA is switched off by NUMBA_DISABLE_CUDA=1", "unset it")
    if name_of(error) == "NO_DEVICE":
        return _no_device()
    if "cannot be found" in text or "could not be found" in text:
        return CudaUnavailable(
            "NVIDIA's driver library (libcuda.so.1, nvcuda.dll) is missing",
            "install the driver; in a container, start it with access to the GPU (docker run --gpus all)",
        )
    return CudaUnavailable(f"the driver does not start ({text})", "see whether nvidia-smi works")


def _no_device():
    return CudaUnavailable(
        "there is a driver, but no GPU that this process may use",
        "see nvidia-smi, and the variable CUDA_VISIBLE_DEVICES",
    )


def _try(cuda):
    """Compile, load and run a kernel, in the way of all others."""
    device = importlib.import_module("wengert.cuda.device")  # which stands on this module
    try:
        device.try_out(cuda)
    except CudaUnavailable:
        raise
    except Exception as error:
        mismatch = of_versions(error, cuda)
        raise mismatch or CudaUnavailable(f"a kernel does not run ({_line(error)})", _INSTALL) from error


def of_versions(error: Exception, cuda: Any) -> CudaUnavailable | None:
    """What to say if an error comes of compilers that are newer than the driver; None for another error."""
    if name_of(error) not in _OTHER_VERSION and type(error).__name__ != "LinkerError":
        return None
    driver, toolkit = _version(cuda.cudadrv.driver.get_version), _version(cuda.runtime.get_version)
    pins = f'pip install "cuda-toolkit=={driver}.*" "nvidia-nvjitlink=={driver}.*"'
    return CudaUnavailable(
        f"the driver is of CUDA {driver} and does not load what the installed compilers, of CUDA {toolkit}, make "
        f"({_line(error)})",
        f"{_INSTALL if driver[:3] != toolkit[:3] else pins}, or a newer driver",
    )


def name_of(error: BaseException) -> str:
    """What the driver calls an error, without CUDA_ERROR_; empty for another one."""
    found = re.search(r"CUDA_ERROR_(\w+)", str(error))
    return found[1] if found else ""


def _version(get):
    try:
        return _dotted(get())
    except Exception:
        return "unknown version"


def _dotted(version):
    return ".".join(map(str, version[:2]))


def _line(error):
    """The message of an error, in one line."""
    return " ".join(str(error).split())
