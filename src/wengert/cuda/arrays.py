"""Arguments of kernels: finds them on host or device, uses them without copies, and returns the caller's array type.

An array on a device is recognised by ``__cuda_array_interface__`` or DLPack. It is not copied, even if it is
read-only, and kernels run on the stream that it names, so work queued on that stream before is finished first.
"""

from __future__ import annotations

import importlib
import itertools
import math
from typing import Any

import numpy as np

#: pointer value of the default stream; ``__cuda_array_interface__`` does not allow 0
DEFAULT_STREAM = 1

#: device types of DLPack
_CPU, _CUDA, _MANAGED = 1, 2, 13


class Given:
    """An argument or output array of a call.

    Its `value` is the array itself, or the ``__cuda_array_interface__`` dict of an array on the device; `stream` is
    the array's stream, or None, and `owner` keeps the memory alive.
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

    def overlaps(self, other: Given) -> bool:
        """Return whether another array overlaps with this one in device memory."""
        if not other.on_device:
            return False
        mine, its = self._extent(), other._extent()
        return max(mine.start, its.start) < min(mine.stop, its.stop)

    def _extent(self):
        strides = self.value.get("strides") or _in_order(self.shape, self.dtype.itemsize)
        ends = [(n - 1) * step for n, step in zip(self.shape, strides)]
        low = self.pointer + sum(min(end, 0) for end in ends)
        high = self.pointer + sum(max(end, 0) for end in ends) + self.dtype.itemsize
        return range(low, low if 0 in self.shape else high)

    def layout(self, is_fixed: bool) -> str | None:
        """Return the letter by which kernels denote the element order; None for any other order.

        C: a row of elements per point; F: a row of points per element; S: elements shared by all points.
        """
        strides, itemsize = self.value.get("strides"), self.dtype.itemsize
        if strides is None or _alike(self.shape, strides, _in_order(self.shape, itemsize)):
            return "S" if is_fixed else "C"
        by_elements = (itemsize, *_in_order(self.shape[1:], self.shape[0] * itemsize))
        return "F" if not is_fixed and _alike(self.shape, strides, by_elements) else None

    def rows(self, is_fixed: bool = False) -> tuple[int, int, int]:
        """Return the number of elements per point, and the strides in elements between points and between elements."""
        itemsize = self.dtype.itemsize
        strides = self.value.get("strides") or _in_order(self.shape, itemsize)
        shape, steps = (self.shape, strides) if is_fixed else (self.shape[1:], strides[1:])
        step = _step(shape, steps, itemsize)
        if step is None or any(s % itemsize for s in strides):
            raise ValueError(
                f"an array on the device has shape {self.shape} and strides {strides}, so the elements of a point are "
                "not equally spaced: pass it in C order"
            )
        return math.prod(shape), 0 if is_fixed else strides[0] // itemsize, step // itemsize


def _in_order(shape, itemsize):
    return tuple(itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _alike(shape, strides, others):
    return 0 in shape or all(n == 1 or s == t for n, s, t in zip(shape, strides, others))


def _step(shape, strides, itemsize):
    """Return the stride between consecutive elements in C order; None if it is not constant."""
    long = [(n, s) for n, s in zip(shape, strides) if n != 1]
    for (_, outer), (n, inner) in itertools.pairwise(long):
        if outer != n * inner:
            return None
    return long[-1][1] if long else itemsize


def _interface(x, name):
    """Return the interface dict of an array on a device; None for an array on the host."""
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
        raise TypeError(f"{name} is not on an NVIDIA GPU (DLPack device {number}): pass a NumPy array")
    return _unpacked(x)


def _unpacked(x):
    """Return the interface dict of an array that supports DLPack only, synchronised with the default stream."""
    view = importlib.import_module("cuda.core.utils").StridedMemoryView.from_dlpack(x, stream_ptr=DEFAULT_STREAM)
    dtype = np.dtype(view.dtype)
    strides = None if view.strides is None else tuple(dtype.itemsize * step for step in view.strides)
    return {
        "shape": tuple(view.shape),
        "strides": strides,
        "typestr": dtype.str,
        "data": (view.ptr, view.readonly),
        "stream": DEFAULT_STREAM,
        "owner": view,
    }


def _on_host(x):
    return np.from_dlpack(x) if hasattr(x, "__dlpack__") and not hasattr(x, "__array__") else x


def same_kind(x: Any, array: Any) -> Any:
    """Convert an array on the device to the library of `x`, without a copy."""
    root = type(x).__module__.partition(".")[0]
    if root in _MAKERS:
        module, make = _MAKERS[root]
        return getattr(importlib.import_module(module), make)(array)
    return array


#: functions that wrap an array with ``__cuda_array_interface__``, by the package of the argument's class
_MAKERS = {
    "cupy": ("cupy", "asarray"),
    "jax": ("jax.numpy", "asarray"),
    "jaxlib": ("jax.numpy", "asarray"),
    "torch": ("torch", "as_tensor"),
}


def bytes_of(shape: tuple, dtype: Any) -> int:
    """Return the size of an array in bytes."""
    return math.prod(shape) * np.dtype(dtype).itemsize
