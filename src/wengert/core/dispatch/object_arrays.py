"""Object arrays of traced values: plain NumPy arrays, whose operators call those of their elements."""

from __future__ import annotations

import numpy as np

from wengert.core.dispatch import mixed
from wengert.core.operands import var


class _Item:
    """Hides a traced scalar from NumPy, which would look for a sequence in it."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value


def made(value, order="K", ndmin=0):
    """Return ``numpy.array(value, dtype=object)`` of a traced value, or of lists that hold traced values."""
    traced: dict = {}
    result = np.array(_hidden(value, traced), dtype=object, order=order, ndmin=ndmin)
    for index in np.ndindex(result.shape):
        item = result[index]
        if type(item) is _Item:
            result[index] = item.value
        elif id(item) in traced:  # arrays of different lengths are elements themselves
            result[index] = traced[id(item)][1]
    return result


def _hidden(value, traced):
    """Return a value with items in place of traced scalars; arrays of items are noted in `traced` with their array."""
    if isinstance(value, (list, tuple)):
        return [_hidden(each, traced) for each in value]
    if not (var.is_var(value) or mixed.is_lifted(value)):
        return value
    if np.ndim(value) == 0:
        return _Item(value)
    items = np.empty(np.size(value), dtype=object)
    for k, item in enumerate(np.ravel(value).tolist()):
        items[k] = _Item(item)
    items = items.reshape(np.shape(value))
    traced[id(items)] = items, value
    return items
