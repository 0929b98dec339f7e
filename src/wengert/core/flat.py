"""``x.flat`` of a traced array: its elements in a row, read and written as NumPy does."""

from __future__ import annotations

import numpy as np


class Flat:
    """The elements of an array in C order; a write goes to the array, a read is a copy."""

    def __init__(self, base):
        self.base = base

    @property
    def __class__(self):
        return np.flatiter

    def __len__(self):
        return np.size(self.base)

    def __iter__(self):
        return iter(self.copy())

    def __getitem__(self, key):
        return self.copy()[key]

    def __setitem__(self, key, value):
        """Store values, which are taken in a row too and repeated as often as needed."""
        places = np.arange(len(self))[key]
        count = len(value) if isinstance(value, (list, tuple)) else np.size(value)
        if not np.ndim(places) and count != 1:
            raise ValueError("Error setting single item of array.")
        if np.size(places) and not count:
            raise ValueError("Cannot copy from an empty array to elements of x.flat")
        if np.size(places):
            np.put(self.base, places, value)

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.copy(), dtype=dtype)

    def copy(self):
        return np.ravel(self.base).copy()
