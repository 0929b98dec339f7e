"""Where kernels run: memory, copies, launches, and what is said where these fail.

`Device` is the current GPU, `Host` the same with NumPy arrays, for kernels that are compiled for the CPU.
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
from wengert.cuda.toolkit import name_of, of_versions

#: threads of a block: with 68 registers a thread 7 blocks of 128 fit on a multiprocessor, 3 of 256
BLOCK = 128

#: what of the free memory a call may take
SHARE = 0.8

#: threads that a multiprocessor holds while it interprets, each of which has memory of its own
_RESIDENT = 1024

#: errors after which no other call of this process succeeds
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
    """The device has no memory left; what was taken is given back before another try."""


def grid_of(n: int, block: int = BLOCK) -> tuple[int, int]:
    """Blocks, and threads of each, so that every point has a thread."""
    return -(-n // block), block


def points_at_once(n: int, each: int, free: int, most: Any = "auto") -> int:
    """How many of n points go into the memory that is free, at so many bytes each.

    `most` is the caller's choice, or "auto".
    """
    if most != "auto":
        if not isinstance(most, (int, np.integer)) or isinstance(most, bool) or most < 1:
            raise ValueError(f"chunk is the number of points at once, at least 1, or 'auto', not {most!r}")
        return max(1, min(n, int(most)))
    fit = int(SHARE * free) // max(each, 1)
    if fit < 1:
        raise MemoryError(f"a single point needs {each} bytes on the GPU, {free} are free")
    return max(1, min(n, fit))


def slices(n: int, size: int) -> Iterator[slice]:
    """The ranges of n points, so many at once."""
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def told(needed: int, free: int) -> MemoryError:
    """What to say where memory does not suffice."""
    return MemoryError(
        f"needs {_gigabytes(needed)} on the GPU, {_gigabytes(free)} are free: pass NumPy arrays, which go through it "
        "in parts, or a lower chunk="
    )


def _gigabytes(n):
    return f"{n / 1e9:.3g} GB"


@contextlib.contextmanager
def errors_explained(cuda: Any) -> Iterator[None]:
    """Errors of the driver in words that say what to do."""
    try:
        yield
    except Exception as error:
        name = name_of(error)
        if name == "OUT_OF_MEMORY":
            raise OutOfMemory from error
        if name in _STICKY:
            raise RuntimeError(
                f"the GPU stopped with an error ({error}), after which nothing runs in this process: start another; "
                "kernels run behind the calls, so an earlier one may be the cause: debug=True waits for each"
            ) from error
        mismatch = of_versions(error, cuda)
        if mismatch is not None:
            raise mismatch from error
        raise


class Device:
    """The current GPU: memory and streams by Numba, compiled kernels by cuda.core, on which Numba stands."""

    on_device = True

    def __init__(self, cuda: Any):
        self.cuda = cuda
        self.number = cuda.get_current_device().id
        self.core = importlib.import_module("cuda.core")

    def free(self) -> int:
        """Bytes of memory that are free."""
        return int(self.cuda.current_context().get_memory_info().free)

    def stream(self, pointer: int | None = None) -> Any:
        """A new stream, or that of the caller."""
        return self.cuda.stream() if pointer is None else self.cuda.external_stream(pointer)

    def empty(self, shape: tuple, dtype: Any, stream: Any) -> Any:
        return self.cuda.device_array(shape, dtype, stream=stream)

    def to_device(self, x: np.ndarray, stream: Any) -> Any:
        return self.cuda.to_device(x, stream=stream)

    def placed(self, given: Given, is_fixed: bool, stream: Any) -> tuple[Any, str]:
        """An array on the device as kernels take it, and its layout; one that they do not know is copied first."""
        letter = given.layout(is_fixed)
        if letter is not None:
            return given, letter
        return self._copy(given, is_fixed, stream), "S" if is_fixed else "C"

    def compiled(self, body: Any, layouts: str) -> Callable:
        """The kernel of a body, loaded; ``run(n, arrays, stream)`` launches it."""
        launch = self._loaded(kernels.binary(body, self._capability(), layouts))
        return lambda n, arrays, stream: launch(grid_of(n), stream, n, *map(_pointer, arrays))

    def interpreted(self, body: Any, layouts: str) -> Callable:
        """The interpreter for a body; the same ``run(n, arrays, stream)``."""
        launch = self._loaded(interpreter.binary(body.dtype, self._capability()))
        tables = interpreter.tables(body)
        at_once = self.cuda.get_current_device().MULTIPROCESSOR_COUNT * _RESIDENT
        default = self.stream(DEFAULT_STREAM)
        code, constants = (self.to_device(x, default) for x in (tables.code, tables.constants))
        self.wait(default)

        def run(n, arrays, stream):
            grid = grid_of(min(n, at_once))
            shape = tables.slots, math.prod(grid)
            needed, free = bytes_of(shape, body.dtype), self.free()
            if needed > free:
                raise told(needed, free)
            places = interpreter.strides(body, n, layouts)
            places[:, 0] = [_pointer(x) for x in arrays]
            given = code, constants, self.to_device(places, stream), self.empty(shape, body.dtype, stream)
            launch(grid, stream, n, len(tables.code), *map(_pointer, given))

        return run

    def _capability(self):
        return tuple(self.cuda.get_current_device().compute_capability)

    def _loaded(self, binary):
        """What launches machine code: ``launch((blocks, threads), stream, *numbers and addresses)``."""
        kernel = self.core.ObjectCode.from_cubin(binary.code).get_kernel(binary.entry)

        def launch(grid, stream, *args):
            config = self.core.LaunchConfig(grid=grid[0], block=grid[1])
            self.core.launch(stream, config, kernel, *args)

        return launch

    def to_host(self, x: Any, out: np.ndarray, stream: Any) -> None:
        """Copy rows into an array, when the stream comes to it."""
        if out.flags.c_contiguous:
            x.copy_to_host(out.reshape(x.shape), stream=stream)
        else:
            out[...] = self.copied(x, stream).reshape(out.shape)

    def copied(self, x: Any, stream: Any) -> np.ndarray:
        """A copy on the host, ready to be read."""
        found = x.copy_to_host(stream=stream)
        stream.synchronize()
        return found

    def failures(self, status: Any, stream: Any) -> np.ndarray | None:
        """Numbers of guards, copied to the host if any is not 0."""
        found = self.to_device(np.zeros(1, np.int32), stream)
        self._pick("any_failed", np.float64, status.shape[0], stream, status, found)
        return self.copied(status, stream) if self.copied(found, stream)[0] else None

    def taken(self, given: Given, indices: np.ndarray, stream: Any) -> Any:
        """Some points of an array on the device, as an array in C order."""
        found = self.empty((len(indices), *given.shape[1:]), given.dtype, stream)
        rows = given.rows()
        self._pick("take", given.dtype, len(indices), stream, *rows, given, self.to_device(indices, stream), found)
        return found

    def put(self, result: Given, indices: np.ndarray, part: Given, chosen: np.ndarray, stream: Any) -> None:
        """Points of `part` that are chosen into their places among those of `result`."""
        rows = (*result.rows(), result, self.to_device(indices, stream))
        self._pick("put", result.dtype, len(indices), stream, *rows, part, self.to_device(chosen, stream))

    def on_host(self, given: Given, stream: Any) -> np.ndarray:
        """A copy of an array on the device."""
        return self.copied(self._copy(given, True, stream), stream)

    def wait(self, stream: Any) -> None:
        stream.synchronize()

    def explained(self) -> Any:
        return errors_explained(self.cuda)

    def _copy(self, given, is_fixed, stream):
        """The same array in C order."""
        found = self.empty(given.shape, given.dtype, stream)
        n = 1 if is_fixed else given.shape[0]
        self._pick("copy", given.dtype, n, stream, *given.rows(is_fixed), given, found)
        return found

    def _pick(self, name, dtype, n, stream, *args):
        key = self.number, name, np.dtype(dtype)
        if key not in _PICKING:
            _PICKING[key] = self._loaded(points.binary(name, dtype, self._capability()))
        _PICKING[key](grid_of(n), stream, n, *[x if isinstance(x, int) else _pointer(x) for x in args])


def try_out(cuda: Any) -> None:
    """Compile, load and run a kernel."""
    machine = Device(cuda)
    stream = machine.stream()
    machine.failures(machine.to_device(np.zeros(1, np.int32), stream), stream)


#: kernels that pick points, loaded, by device, name and dtype
_PICKING: dict = {}


def _pointer(x):
    """The address of the first element."""
    return x.pointer if isinstance(x, Given) else x.__cuda_array_interface__["data"][0]


class Host:
    """The CPU: kernels compiled for it run over all points in one call."""

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


def stream_of(machine: Device | Host, pointer: int | None) -> Any:
    """The stream with a pointer, or the default one, which arrays are on that name none."""
    return machine.stream(DEFAULT_STREAM if pointer is None else pointer)
