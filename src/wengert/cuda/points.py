"""Auxiliary kernels that find and gather points: for regrouping by path, and for arrays in other orders.

An array is given by its address and two strides in elements: from point to point, and from element to element.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.cuda import binaries
from wengert.cuda.toolkit import numba_cuda


def functions(cuda: Any) -> dict:
    """Return the kernels as Python functions, by name."""

    def any_failed(n, status, found):
        p = cuda.grid(1)
        if p < n and status[p] != 0:
            found[0] = 1

    def copy(n, size, step, stride, rows, found):
        p = cuda.grid(1)
        if p < n:
            for k in range(size):
                found[p * size + k] = rows[p * step + k * stride]

    def take(n, size, step, stride, rows, indices, found):
        p = cuda.grid(1)
        if p < n:
            for k in range(size):
                found[p * size + k] = rows[indices[p] * step + k * stride]

    def put(n, size, step, stride, rows, indices, part, chosen):
        p = cuda.grid(1)
        if p < n:
            for k in range(size):
                rows[indices[p] * step + k * stride] = part[chosen[p] * size + k]

    return {f.__name__: f for f in (any_failed, copy, take, put)}


#: argument types: n an integer, i and s pointers to 64-bit and 32-bit integers, r a pointer to array elements
SIGNATURES = {"any_failed": "nss", "copy": "nnnnrr", "take": "nnnnrir", "put": "nnnnriri"}


def binary(name: str, dtype: Any, cc: tuple) -> binaries.Binary:
    """Compile one of the kernels."""
    dtype = np.dtype(dtype)

    def make():
        from numba.cuda import types

        real = types.float64 if dtype == np.float64 else types.float32
        kinds = {"n": types.int64, "r": types.CPointer(real)}
        kinds |= {"i": types.CPointer(types.int64), "s": types.CPointer(types.int32)}
        return functions(numba_cuda())[name], tuple(kinds[letter] for letter in SIGNATURES[name])

    return binaries.binary(f"points 1 {name} {dtype}", make, cc, name=name, dtype=dtype.name, statements=1, cost=0)
