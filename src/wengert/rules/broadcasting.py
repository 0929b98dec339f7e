"""Shapes that several chapters share: broadcasting undone, reduced axes put back, elements sent home.

Throughout, a cotangent may have `lead` more axes than the value it belongs to: several directions are pulled
back at once, and the extra axes come first.
So axes are counted from the end wherever a cotangent is meant.
"""

from __future__ import annotations

import numpy as np


def leading(ybar, y) -> int:
    """Number of extra leading axes of the cotangent `ybar` of `y`."""
    return np.ndim(ybar) - np.ndim(y)


def unbroadcast(z, x, lead: int = 0):
    """Sum of `z` over the axes along which `x` was broadcast: the transpose of broadcasting."""
    shape = np.shape(x)
    extra = np.ndim(z) - lead - len(shape)
    if extra > 0:
        z = np.sum(z, axis=tuple(range(lead, lead + extra)))
    ones = tuple(i for i in range(-len(shape), 0) if shape[i] == 1 != np.shape(z)[i])
    return np.sum(z, axis=ones, keepdims=True) if ones else z


def from_end(axis, ndim: int) -> tuple[int, ...]:
    """Axes as a tuple of negative numbers; None means all, and so does any axis of a number: it has none."""
    if axis is None or ndim == 0:
        return tuple(range(-ndim, 0))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(i if i < 0 else i - ndim for i in axes)


def length(x, axis) -> int:
    """Number of elements along the axes that a reduction goes over."""
    shape = np.shape(x)
    count = 1
    for i in from_end(axis, len(shape)):
        count *= shape[i]
    return count


def is_kept(keepdims) -> bool:
    """Whether a reduction keeps its axes; NumPy's "no value" marker is true as a bool and means no."""
    return keepdims is not np._NoValue and bool(keepdims)


def restore(z, x, axis=None, keepdims=False):
    """`z` with the axes that a reduction of `x` removed, as axes of length 1."""
    if is_kept(keepdims) or np.ndim(x) == 0:
        return z
    return np.expand_dims(z, from_end(axis, np.ndim(x)))


def numbers(x):
    """Integers 1, 2, 3, ... in the shape of `x`: sent through a rearrangement, they tell who went where."""
    return np.arange(1, np.size(x) + 1).reshape(np.shape(x))


def send_home(ybar, source, x):
    """Cotangent of `x`, of which element ``source[i]``, numbered from 1, went to place i; 0 is none.

    ``bincount`` adds in float64 and takes no other dtype, hence the cast at the end.
    """
    count = np.size(x) + 1
    lead = np.shape(ybar)[: np.ndim(ybar) - np.ndim(source)]
    k = int(np.prod(lead))
    place = np.arange(k)[:, None] * count + np.ravel(source)
    total = np.bincount(np.ravel(place), weights=np.ravel(ybar), minlength=k * count)
    total = total.astype(ybar.dtype, copy=False).reshape(k, count)
    return total[:, 1:].reshape(lead + np.shape(x))
