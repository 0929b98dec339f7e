"""``x.flat`` of a traced array, for reading and writing."""

from __future__ import annotations

import operator

import numpy as np

from wengert.core.dispatch.checks import refuse_overlap
from wengert.core.dispatch.dispatch import from_list


class Flat:
    """Stands in for ``numpy.flatiter``: the elements of an array in C order. Reading copies."""

    def __init__(self, base):
        self.base = base
        self.index = 0

    @property
    def __class__(self):
        return np.flatiter

    def __len__(self):
        return np.size(self.base)

    def __iter__(self):
        return self

    def __next__(self):
        if self.index >= len(self):
            self.index = 0
            raise StopIteration
        self.index += 1
        return self[self.index - 1]

    @property
    def coords(self):
        """Index of the next element; after the last element, the index of the first."""
        shape = np.shape(self.base)
        return tuple(map(int, np.unravel_index(self.index % len(self), shape))) if shape and len(self) else ()

    def copy(self):
        return np.copy(np.ravel(self.base))

    def __getitem__(self, key):
        y = np.ravel(self.base)[key]
        return np.copy(y) if np.ndim(y) else y

    def __setitem__(self, key, value):
        """Store values, repeated or truncated to the number of selected elements as NumPy does."""
        positions = np.arange(len(self))[key]
        where = np.unravel_index(positions, np.shape(self.base)) if np.ndim(self.base) else ()
        value = from_list(value)
        if np.ndim(value):
            refuse_overlap(self.base, where, value, "a store through .flat")
            value = np.resize(value, np.size(positions)) if np.size(value) != np.size(positions) else np.ravel(value)
            value = value if np.ndim(positions) else value[0]
        self.base[where] = value

    # NumPy functions convert it to an array

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.copy(), dtype=dtype)

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        return getattr(ufunc, method)(*(x.copy() if type(x) is Flat else x for x in inputs), **kwargs)

    def __array_function__(self, function, types, args, kwargs):
        args = tuple(x.copy() if type(x) is Flat else x for x in args)
        return function(*args, **{name: x.copy() if type(x) is Flat else x for name, x in kwargs.items()})


def _comparison(compare):
    return lambda self, other: compare(self.copy(), other)


for name in ("lt", "le", "eq", "ne", "gt", "ge"):
    setattr(Flat, f"__{name}__", _comparison(getattr(operator, name)))
