"""Arguments of kernels: told apart by where they lie, taken as they are, and given back as the kind that came.

An array on a device is known by ``__cuda_array_interface__`` or by DLPack.  Nothing is copied of it, also of one that
may only be read, and kernels run on the stream that it names; so what was queued there before is done before.
"""

from __future__ import annotations

import importlib
import itertools
import math
from typing import Any

import numpy as np

#: the pointer that stands for the default stream; 0 is not to be named in ``__cuda_array_interface__``
DEFAULT_STREAM = 1

#: DLPack's numbers of devices
_CPU, _CUDA, _MANAGED = 1, 2, 13


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

    def overlaps(self, other: Given) -> bool:
        """Whether another array lies, in part, in the same memory of the device."""
        if not other.on_device:
            return False
        mine, its = self._extent(), other._extent()
        return max(mine.start, its.start) < min(mine.stop, its.stop)

    def _extent(self):
        """The addresses from the lowest to the highest."""
        strides = self.value.get("strides") or _in_order(self.shape, self.dtype.itemsize)
        ends = [(n - 1) * step for n, step in zip(self.shape, strides)]
        low = self.pointer + sum(min(end, 0) for end in ends)
        high = self.pointer + sum(max(end, 0) for end in ends) + self.dtype.itemsize
        return range(low, low if 0 in self.shape else high)

    def layout(self, is_fixed: bool) -> str | None:
        """The letter that kernels know the order of elements by; None if they know no such order.

        C: a row of elements for each point; F: a row of points for each element; S: elements that all points share.
        """
        strides, itemsize = self.value.get("strides"), self.dtype.itemsize
        if strides is None or _alike(self.shape, strides, _in_order(self.shape, itemsize)):
            return "S" if is_fixed else "C"
        by_elements = (itemsize, *_in_order(self.shape[1:], self.shape[0] * itemsize))
        return "F" if not is_fixed and _alike(self.shape, strides, by_elements) else None

    def rows(self, is_fixed: bool = False) -> tuple[int, int, int]:
        """Elements of a point, and the steps, in elements, from point to point and from element to element."""
        itemsize = self.dtype.itemsize
        strides = self.value.get("strides") or _in_order(self.shape, itemsize)
        shape, steps = (self.shape, strides) if is_fixed else (self.shape[1:], strides[1:])
        step = _step(shape, steps, itemsize)
        if step is None or any(s % itemsize for s in strides):
            raise ValueError(
                f"an array on the device has shape {self.shape} and strides {strides}, so that the elements of a point "
                "are no row of equal steps: pass it in C order"
            )
        return math.prod(shape), 0 if is_fixed else strides[0] // itemsize, step // itemsize


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


def bytes_of(shape: tuple, dtype: Any) -> int:
    """Memory of an array."""
    return math.prod(shape) * np.dtype(dtype).itemsize
