"""Arrays on a GPU: told from others, taken as they are, and given back as the kind that came.

Data
    Given      an argument as it came: its shape and dtype, where it lies, and whose kind it is
    Device     what is asked of a machine: memory, copies, launches; a GPU by Numba
    Host       the same with NumPy arrays, for kernels that are compiled for the CPU

An array on a device is known by ``__cuda_array_interface__`` or by DLPack.  Nothing is copied of it, also of one that
may only be read, and the kernel runs on the stream that it names; so what was queued there before is done before.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert.cuda import kernels
from wengert.cuda.availability import code_of, of_versions

#: threads of a block: with 68 registers a thread 7 blocks of 128 fit on a multiprocessor, 3 of 256
BLOCK = 128

#: what of the free memory a call may take
SHARE = 0.8

_OUT_OF_MEMORY = 2

#: the pointer that stands for the default stream; 0 is not to be named in ``__cuda_array_interface__``
_DEFAULT = 1

#: errors after which no other call of this process succeeds
_STICKY = {700, 702, 710, 714, 715, 716, 717, 718, 719}

#: DLPack's numbers of devices
_CPU, _CUDA, _MANAGED = 1, 2, 13


class OutOfMemory(Exception):
    """The device has no memory left; what was taken is given back before another try."""


# ---------------------------------------------------------------------------------------------- arguments


class Given:
    """An argument of a call.

    Attributes
    ----------
    value : ndarray or dict
        The array itself, or where it lies on the device, as ``__cuda_array_interface__`` says.
    shape, dtype
    on_device, is_read_only : bool
    stream : int or None
        The stream of which it is part.
    owner : object
        What keeps the memory.
    """

    def __init__(self, x: Any, name: str):
        self.owner = x
        self.stream = None
        where = _interface(x, name)
        self.on_device = where is not None
        self.value = np.asarray(_on_host(x)) if where is None else where
        if where is None:
            self.shape, self.dtype = self.value.shape, self.value.dtype
        else:
            self.shape, self.dtype = tuple(where["shape"]), np.dtype(where["typestr"])
            self.stream = where.get("stream")
            self.owner = where.pop("owner", x)
        self.is_read_only = not self.value.flags.writeable if where is None else where["data"][1]
        if self.dtype.kind not in "fiu" or self.dtype.itemsize > 8:
            raise TypeError(f"{name} is an array of dtype {self.dtype}: pass floats")

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def pointer(self) -> int:
        return self.value["data"][0]

    def layout(self, is_fixed: bool) -> str | None:
        """The letter that kernels know the order of elements by; None if they know no such order.

        C: a row of elements for each point; F: a row of points for each element; S: elements that all points share.
        """
        strides, itemsize = self.value.get("strides"), self.dtype.itemsize
        if strides is None or _alike(self.shape, strides, _in_order(self.shape, itemsize)):
            return "S" if is_fixed else "C"
        by_elements = (itemsize, *_in_order(self.shape[1:], self.shape[0] * itemsize))
        return "F" if not is_fixed and _alike(self.shape, strides, by_elements) else None

    def rows(self, is_fixed: bool = False) -> dict:
        """Where the elements lie, as of a matrix with a row for each point."""
        shape = (1, *self.shape) if is_fixed else self.shape
        given = self.value.get("strides") or _in_order(self.shape, self.dtype.itemsize)
        step = _step(self.shape if is_fixed else self.shape[1:], given if is_fixed else given[1:], self.dtype.itemsize)
        if step is None:
            raise ValueError(
                f"an array on the device has shape {self.shape} and strides {given}, so that the elements of a point "
                "are no row of equal steps: pass it in C order"
            )
        strides = (0 if is_fixed else given[0], step)
        return {**self.value, "shape": (shape[0], math.prod(shape[1:])), "strides": strides}


def _in_order(shape, itemsize):
    """Strides of an array in C order."""
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _alike(shape, strides, others):
    """Do two sets of strides say the same?"""
    return 0 in shape or all(n == 1 or s == t for n, s, t in zip(shape, strides, others))


def _step(shape, strides, itemsize):
    """The step from one element to the next, in C order, or None if it is not the same everywhere."""
    long = [(n, s) for n, s in zip(shape, strides) if n != 1]
    for (_, outer), (n, inner) in itertools.pairwise(long):
        if outer != n * inner:
            return None
    return long[-1][1] if long else itemsize


def _interface(x, name):
    """Where an array lies on a device; None for one on the host."""
    if isinstance(x, (np.ndarray, np.generic, int, float, list, tuple)):
        return None
    found = getattr(x, "__cuda_array_interface__", None)
    if found is not None:
        if found.get("mask") is not None:
            raise TypeError(f"{name} is a masked array: pass its values")
        return dict(found)
    place = getattr(x, "__dlpack_device__", None)
    if place is None or place()[0] == _CPU:
        return None
    number = int(place()[0])
    if number not in (_CUDA, _MANAGED):
        raise TypeError(f"{name} lies on no GPU of NVIDIA (DLPack's device {number}): pass a NumPy array")
    return _unpacked(x)


def _unpacked(x):
    """The same of an array that has DLPack only; it is to be ready on the default stream."""
    view = importlib.import_module("cuda.core.utils").StridedMemoryView.from_dlpack(x, stream_ptr=_DEFAULT)
    dtype = np.dtype(view.dtype)
    strides = None if view.strides is None else tuple(dtype.itemsize * step for step in view.strides)
    return {
        "shape": tuple(view.shape),
        "strides": strides,
        "typestr": dtype.str,
        "data": (view.ptr, view.readonly),
        "stream": _DEFAULT,
        "owner": view,
    }


def _on_host(x):
    return np.from_dlpack(x) if hasattr(x, "__dlpack__") and not hasattr(x, "__array__") else x


def same_kind(x: Any, array: Any) -> Any:
    """An array on the device as an array of the library that made `x`, without a copy."""
    root = type(x).__module__.partition(".")[0]
    if root in _MAKERS:
        module, make = _MAKERS[root]
        return getattr(importlib.import_module(module), make)(array)
    return array


#: by the package of the class: what makes its arrays of any that has ``__cuda_array_interface__``
_MAKERS = {
    "cupy": ("cupy", "asarray"),
    "jax": ("jax.numpy", "asarray"),
    "jaxlib": ("jax.numpy", "asarray"),
    "torch": ("torch", "as_tensor"),
}


# ---------------------------------------------------------------------------------------------- launches


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
        code = code_of(error)
        if code == _OUT_OF_MEMORY:
            raise OutOfMemory from error
        if code in _STICKY:
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
        rows = self._matrix(given, is_fixed)
        found = self.empty(rows.shape, given.dtype, stream)
        self._call("copy", rows.shape[0], [rows, found], stream)
        return found, "S" if is_fixed else "C"

    def compiled(self, body: Any, layouts: str) -> Callable:
        """The kernel of a body, loaded; ``run(n, arrays, stream)`` launches it."""
        made = kernels.binary(body, tuple(self.cuda.get_current_device().compute_capability), layouts)
        code = self.core.ObjectCode.from_cubin(made.code)
        kernel = code.get_kernel(made.entry)

        def run(n, arrays, stream):
            blocks, threads = grid_of(n)
            config = self.core.LaunchConfig(grid=blocks, block=threads)
            self.core.launch(stream, config, kernel, n, *map(_pointer, arrays))

        return run

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
        self._call("any_failed", status.shape[0], [status, found], stream)
        return self.copied(status, stream) if self.copied(found, stream)[0] else None

    def taken(self, given: Given, indices: np.ndarray, stream: Any) -> Any:
        """Some points of an array on the device, as an array in C order."""
        found = self.empty((len(indices), *given.shape[1:]), given.dtype, stream)
        arrays = [self._matrix(given), self.to_device(indices, stream), self._matrix(Given(found, ""))]
        self._call("take", len(indices), arrays, stream)
        return found

    def put(self, result: Given, indices: np.ndarray, part: Given, chosen: np.ndarray, stream: Any) -> None:
        """Points of `part` that are chosen into their places among those of `result`."""
        arrays = [self._matrix(result), self._matrix(part), *[self.to_device(x, stream) for x in (indices, chosen)]]
        self._call("put", len(indices), arrays, stream)

    def on_host(self, given: Given, stream: Any) -> np.ndarray:
        """A copy of an array on the device."""
        rows = self._matrix(given, is_fixed=True)
        found = self.empty(rows.shape, given.dtype, stream)
        self._call("copy", 1, [rows, found], stream)
        return self.copied(found, stream).reshape(given.shape)

    def wait(self, stream: Any) -> None:
        stream.synchronize()

    def explained(self) -> Any:
        return errors_explained(self.cuda)

    def _matrix(self, given, is_fixed=False):
        """An array as Numba's kernels take it, with strides."""
        return self.cuda.from_cuda_array_interface(given.rows(is_fixed), owner=given.owner, sync=False)

    def _call(self, name, n, arrays, stream):
        blocks, threads = grid_of(n)
        _tools(self.cuda)[name][blocks, threads, stream](*arrays, n)


def _pointer(x):
    """The address of the first element."""
    return x.pointer if isinstance(x, Given) else x.__cuda_array_interface__["data"][0]


@functools.cache
def _tools(cuda):
    """Kernels that look for points and pick them, by name, made once."""

    def any_failed(status, found, n):
        p = cuda.grid(1)
        if p < n and status[p] != 0:
            found[0] = 1

    def copy(rows, found, n):
        p = cuda.grid(1)
        if p < n:
            for k in range(found.shape[1]):
                found[p, k] = rows[p, k]

    def take(rows, indices, found, n):
        p = cuda.grid(1)
        if p < n:
            for k in range(found.shape[1]):
                found[p, k] = rows[indices[p], k]

    def put(rows, part, indices, chosen, n):
        p = cuda.grid(1)
        if p < n:
            for k in range(part.shape[1]):
                rows[indices[p], k] = part[chosen[p], k]

    return {f.__name__: cuda.jit(f) for f in (any_failed, copy, take, put)}


class Host:
    """The CPU: kernels compiled for it run over all points in one call."""

    on_device = False

    def stream(self, pointer: int | None = None) -> None:
        return None

    def empty(self, shape: tuple, dtype: Any, stream: Any) -> np.ndarray:
        return np.empty(shape, dtype)

    def to_device(self, x: np.ndarray, stream: Any) -> np.ndarray:
        return x

    def compiled(self, body: Any, layouts: str) -> Callable:
        kernel = kernels.kernel(body, layouts, "cpu")
        return lambda n, arrays, stream: kernel(n, *arrays)

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
    return machine.stream(_DEFAULT if pointer is None else pointer)


def bytes_of(shape: tuple, dtype: Any) -> int:
    return math.prod(shape) * np.dtype(dtype).itemsize
