"""Checks whether a GPU can be used; if not, reports the first cause found and how to fix it."""

from __future__ import annotations

import functools

from wengert.cuda.toolkit import INSTALL, dotted, name_of, numba_cuda, one_line, version_mismatch
from wengert.errors import CudaUnavailable

#: lowest compute capability that current CUDA toolkits support
MIN_CAPABILITY = (7, 5)


def is_available() -> bool:
    """Return whether a GPU and all packages needed to use it are available.

    Returns
    -------
    bool
        False if `why_not` returns a reason.

    Examples
    --------
    >>> import wengert.cuda
    >>> device = "GPU" if wengert.cuda.is_available() else "CPU"
    """
    return _obstacle() is None


def why_not() -> str | None:
    """Return why no GPU can be used, and how to fix it.

    If there is a device, the first call compiles and runs a small kernel, which takes about a second.

    Returns
    -------
    str or None
        None if a GPU is available.

    Examples
    --------
    >>> import wengert.cuda
    >>> assert wengert.cuda.is_available() == (wengert.cuda.why_not() is None)
    """
    found = _obstacle()
    return None if found is None else str(found)


def require() -> None:
    """Raise `CudaUnavailable` if no GPU can be used."""
    found = _obstacle()
    if found is not None:
        raise CudaUnavailable(found.reason, found.fix)


@functools.cache
def _obstacle() -> CudaUnavailable | None:
    """Return the first obstacle, checked once per process; None if there is none."""
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
    except Exception as error:  # the class differs between versions of numba-cuda
        raise _driver_error(error) from error
    if not count:
        raise _no_device_error()
    capability = tuple(cuda.get_current_device().compute_capability)
    if capability < MIN_CAPABILITY:
        raise CudaUnavailable(
            f"the GPU has compute capability {dotted(capability)}",
            f"{dotted(MIN_CAPABILITY)} or higher is needed (Turing)",
        )
    _try(cuda)


def _driver_error(error):
    text = one_line(error)
    if "NUMBA_DISABLE_CUDA" in text:
        return CudaUnavailable("CUDA is disabled by NUMBA_DISABLE_CUDA=1", "unset it")
    if name_of(error) == "NO_DEVICE":
        return _no_device_error()
    if "cannot be found" in text or "could not be found" in text:
        return CudaUnavailable(
            "NVIDIA's driver library (libcuda.so.1, nvcuda.dll) is missing",
            "install the driver; in a container, start it with access to the GPU (docker run --gpus all)",
        )
    return CudaUnavailable(f"the driver does not start ({text})", "check whether nvidia-smi works")


def _no_device_error():
    return CudaUnavailable(
        "there is a driver, but no GPU that this process may use",
        "check nvidia-smi and the variable CUDA_VISIBLE_DEVICES",
    )


def _try(cuda):
    """Compile, load and run a kernel the same way as all others."""
    from wengert.cuda import device  # imported only if there is a GPU

    try:
        device.try_out(cuda)
    except CudaUnavailable:
        raise
    except Exception as error:
        mismatch = version_mismatch(error, cuda)
        raise mismatch or CudaUnavailable(f"a kernel does not run ({one_line(error)})", INSTALL) from error
