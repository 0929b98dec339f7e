"""Devices that run kernels: memory, copies, launches, and error messages.

`Device` is the current GPU; `Host` has the same interface for NumPy arrays and kernels compiled for the CPU.
"""

from __future__ import annotations

import contextlib
import importlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert.cuda import interpreter, kernels, points
from wengert.cuda.arrays import DEFAULT_STREAM, Given, bytes_of
from wengert.cuda.toolkit import name_of, version_mismatch

#: threads per block: with 68 registers per thread, 7 blocks of 128 fit on a multiprocessor, but only 3 of 256
BLOCK_SIZE = 128

#: fraction of the free memory that a call may use
MAX_MEMORY_SHARE = 0.8

#: number of resident threads per multiprocessor in the interpreter, each with its own memory
RESIDENT_THREADS = 1024

#: names of errors after which the CUDA context of the process is unusable
_STICKY = {
    "ILLEGAL_ADDRESS",
    "LAUNCH_TIMEOUT",
    "ASSERT",
    "HARDWARE_STACK_ERROR",
    "ILLEGAL_INSTRUCTION",
    "MISALIGNED_ADDRESS",
    "INVALID_ADDRESS_SPACE",
    "INVALID_PC",
    "LAUNCH_FAILED",
}


class OutOfMemory(Exception):
    """The device has no memory left."""


def grid_of(n: int, block: int = BLOCK_SIZE) -> tuple[int, int]:
    """Return the number of blocks and threads per block, so that every point has a thread."""
    return -(-n // block), block


def points_at_once(n: int, each: int, free: int, most: Any = "auto") -> int:
    """Return how many of n points fit in `free` bytes at `each` bytes per point.

    `most` is the caller's choice, or "auto".
    """
    if most != "auto":
        if not isinstance(most, (int, np.integer)) or isinstance(most, bool) or most < 1:
            raise ValueError(f"chunk must be a positive number of points or 'auto', not {most!r}")
        return max(1, min(n, int(most)))
    fit = int(MAX_MEMORY_SHARE * free) // max(each, 1)
    if fit < 1:
        raise MemoryError(f"a single point needs {each} bytes on the GPU, {free} are free")
    return max(1, min(n, fit))


def slices(n: int, size: int) -> Iterator[slice]:
    """Yield slices of n points with `size` points each."""
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def memory_error(needed: int, free: int) -> MemoryError:
    return MemoryError(
        f"needs {_gigabytes(needed)} on the GPU, {_gigabytes(free)} are free: pass NumPy arrays, which are processed "
        "in chunks, or a smaller chunk="
    )


def _gigabytes(n):
    return f"{n / 1e9:.3g} GB"


@contextlib.contextmanager
def errors_explained(cuda: Any) -> Iterator[None]:
    """Replace driver errors by messages that say what to do."""
    try:
        yield
    except Exception as error:
        name = name_of(error)
        if name == "OUT_OF_MEMORY":
            raise OutOfMemory from error
        if name in _STICKY:
            raise RuntimeError(
                f"the GPU stopped with an error ({error}) and is unusable in this process: start another one; kernels "
                "run asynchronously, so an earlier one may be the cause: use debug=True to wait for each"
            ) from error
        mismatch = version_mismatch(error, cuda)
        if mismatch is not None:
            raise mismatch from error
        raise


class Device:
    """The current GPU: memory and streams by Numba, kernel launches by cuda.core, on which Numba is based."""

    on_device = True

    def __init__(self, cuda: Any):
        self.cuda = cuda
        self.number = cuda.get_current_device().id
        self.core = importlib.import_module("cuda.core")

    def free(self) -> int:
        return int(self.cuda.current_context().get_memory_info().free)

    def stream(self, pointer: int | None = None) -> Any:
        """Create a stream, or wrap the caller's."""
        return self.cuda.stream() if pointer is None else self.cuda.external_stream(pointer)

    def empty(self, shape: tuple, dtype: Any, stream: Any) -> Any:
        return self.cuda.device_array(shape, dtype, stream=stream)

    def to_device(self, x: np.ndarray, stream: Any) -> Any:
        return self.cuda.to_device(x, stream=stream)

    def placed(self, given: Given, is_fixed: bool, stream: Any) -> tuple[Any, str]:
        """Return an array on the device and its layout; other element orders are copied first."""
        letter = given.layout(is_fixed)
        if letter is not None:
            return given, letter
        return self._copy(given, is_fixed, stream), "S" if is_fixed else "C"

    def compiled(self, body: Any, layouts: str) -> Callable:
        """Load the kernel of a body; ``run(n, arrays, stream)`` launches it."""
        launch = self._loaded(kernels.binary(body, self._capability(), layouts))
        return lambda n, arrays, stream: launch(grid_of(n), stream, n, *map(_pointer, arrays))

    def interpreted(self, body: Any, layouts: str) -> Callable:
        """Load the interpreter for a body; ``run(n, arrays, stream)`` launches it."""
        launch = self._loaded(interpreter.binary(body.dtype, self._capability()))
        tables = interpreter.tables(body)
        at_once = self.cuda.get_current_device().MULTIPROCESSOR_COUNT * RESIDENT_THREADS
        default = self.stream(DEFAULT_STREAM)
        code, constants = (self.to_device(x, default) for x in (tables.code, tables.constants))
        self.wait(default)

        def run(n, arrays, stream):
            grid = grid_of(min(n, at_once))
            shape = tables.slots, math.prod(grid)
            needed, free = bytes_of(shape, body.dtype), self.free()
            if needed > free:
                raise memory_error(needed, free)
            places = interpreter.strides(body, n, layouts)
            places[:, 0] = [_pointer(x) for x in arrays]
            given = code, constants, self.to_device(places, stream), self.empty(shape, body.dtype, stream)
            launch(grid, stream, n, len(tables.code), *map(_pointer, given))

        return run

    def _capability(self):
        return tuple(self.cuda.get_current_device().compute_capability)

    def _loaded(self, binary):
        """Load machine code; return ``launch((blocks, threads), stream, *integers and pointers)``."""
        kernel = self.core.ObjectCode.from_cubin(binary.code).get_kernel(binary.entry)

        def launch(grid, stream, *args):
            config = self.core.LaunchConfig(grid=grid[0], block=grid[1])
            self.core.launch(stream, config, kernel, *args)

        return launch

    def to_host(self, x: Any, out: np.ndarray, stream: Any) -> None:
        """Queue a copy of rows to a host array on the stream."""
        if out.flags.c_contiguous:
            x.copy_to_host(out.reshape(x.shape), stream=stream)
        else:
            out[...] = self.copied(x, stream).reshape(out.shape)

    def copied(self, x: Any, stream: Any) -> np.ndarray:
        """Copy to the host and synchronise."""
        found = x.copy_to_host(stream=stream)
        stream.synchronize()
        return found

    def failures(self, status: Any, stream: Any) -> np.ndarray | None:
        """Return the numbers of failed guards, copied to the host only if any is nonzero; else None."""
        found = self.to_device(np.zeros(1, np.int32), stream)
        self._launch_points("any_failed", np.float64, status.shape[0], stream, status, found)
        return self.copied(status, stream) if self.copied(found, stream)[0] else None

    def taken(self, given: Given, indices: np.ndarray, stream: Any) -> Any:
        """Gather some points of a device array into an array in C order."""
        found = self.empty((len(indices), *given.shape[1:]), given.dtype, stream)
        rows = (*given.rows(), given, self.to_device(indices, stream))
        self._launch_points("take", given.dtype, len(indices), stream, *rows, found)
        return found

    def put(self, result: Given, indices: np.ndarray, part: Given, chosen: np.ndarray, stream: Any) -> None:
        """Scatter the points `chosen` of `part` to the points `indices` of `result`."""
        rows = (*result.rows(), result, self.to_device(indices, stream))
        self._launch_points("put", result.dtype, len(indices), stream, *rows, part, self.to_device(chosen, stream))

    def on_host(self, given: Given, stream: Any) -> np.ndarray:
        return self.copied(self._copy(given, True, stream), stream)

    def wait(self, stream: Any) -> None:
        stream.synchronize()

    def explained(self) -> Any:
        return errors_explained(self.cuda)

    def _copy(self, given, is_fixed, stream):
        """Copy a device array to C order."""
        found = self.empty(given.shape, given.dtype, stream)
        n = 1 if is_fixed else given.shape[0]
        self._launch_points("copy", given.dtype, n, stream, *given.rows(is_fixed), given, found)
        return found

    def _launch_points(self, name, dtype, n, stream, *args):
        key = self.number, name, np.dtype(dtype)
        if key not in _POINT_KERNELS:
            _POINT_KERNELS[key] = self._loaded(points.binary(name, dtype, self._capability()))
        _POINT_KERNELS[key](grid_of(n), stream, n, *[x if isinstance(x, int) else _pointer(x) for x in args])


def try_out(cuda: Any) -> None:
    """Compile, load and run a kernel."""
    device = Device(cuda)
    stream = device.stream()
    device.failures(device.to_device(np.zeros(1, np.int32), stream), stream)


#: loaded auxiliary kernels, by device, name and dtype
_POINT_KERNELS: dict = {}


def _pointer(x):
    """Return the address of the first element."""
    return x.pointer if isinstance(x, Given) else x.__cuda_array_interface__["data"][0]


class Host:
    """The CPU; kernels loop over all points in one call."""

    on_device = False
    number = None

    def stream(self, pointer: int | None = None) -> None:
        return None

    def empty(self, shape: tuple, dtype: Any, stream: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def to_device(self, x: np.ndarray, stream: Any) -> np.ndarray:
        return x

    def compiled(self, body: Any, layouts: str) -> Callable:
        kernel = kernels.kernel(body, layouts, "cpu")
        return lambda n, arrays, stream: kernel(n, *arrays)

    def interpreted(self, body: Any, layouts: str) -> Callable:
        tables = interpreter.tables(body)
        kernel = interpreter.kernel(body.dtype, "cpu")
        scratch = np.empty(tables.slots, body.dtype)

        def run(n, arrays, stream):
            places = interpreter.strides(body, n, layouts)
            places[:, 0] = [x.ctypes.data for x in arrays]
            kernel(n, len(tables.code), tables.code, tables.constants, places, scratch)

        return run

    def to_host(self, x: np.ndarray, out: np.ndarray, stream: Any) -> None:
        out[...] = x.reshape(out.shape)

    def copied(self, x: np.ndarray, stream: Any) -> np.ndarray:
        return x

    def failures(self, status: np.ndarray, stream: Any) -> np.ndarray | None:
        return status if status.any() else None

    def wait(self, stream: Any) -> None:
        pass

    def explained(self) -> Any:
        return contextlib.nullcontext()


def stream_of(device: Device | Host, pointer: int | None) -> Any:
    """Return the stream with a pointer, or the default stream, which applies to arrays that name none."""
    return device.stream(DEFAULT_STREAM if pointer is None else pointer)
