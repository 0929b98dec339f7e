"""Shapes that several chapters share: broadcasting undone, reduced axes put back, elements sent home.

Throughout, a cotangent or tangent may have `lead` more axes than the value it belongs to: several directions
are taken at once, and the extra axes come first.
So axes are counted from the end wherever one of them is meant.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.registry import sums_by_place


def leading(ybar, y) -> int:
    """Number of extra leading axes of the cotangent (or tangent) `ybar` of `y`."""
    return np.ndim(ybar) - np.ndim(y)


def front(t, x) -> tuple[int, ...]:
    """Lengths of the leading axes of the tangent (or cotangent) `t` of `x`."""
    return np.shape(t)[: leading(t, x)]


def aligned(t, x, ndim: int):
    """The tangent `t` of `x`, shaped to broadcast as `x` does against an array of `ndim` axes."""
    missing = ndim - np.ndim(x)
    return np.reshape(t, front(t, x) + (1,) * missing + np.shape(x)) if missing > 0 else t


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


def given(option) -> bool:
    """Whether an option was given; NumPy's "no value" marker and None are none."""
    return option is not np._NoValue and option is not None


def taken(z, where, other=0):
    """`z` where a reduction takes its elements, else another number; True and no value take all."""
    return np.where(where, z, other) if given(where) and where is not True else z


def restore(z, x, axis=None, keepdims=False):
    """`z` with the axes that a reduction of `x` removed, as axes of length 1."""
    if is_kept(keepdims) or np.ndim(x) == 0:
        return z
    return np.expand_dims(z, from_end(axis, np.ndim(x)))


def summed(t, x, axis=None, keepdims=False):
    """Sum of `t` over the axes that a reduction of `x` goes over."""
    return np.sum(t, axis=from_end(axis, np.ndim(x)), keepdims=is_kept(keepdims))


def numbers(x):
    """Integers 1, 2, 3, ... in the shape of `x`: sent through a rearrangement, they tell who went where."""
    return np.arange(1, np.size(x) + 1).reshape(np.shape(x))


def elements(a, places):
    """``a[places]`` of a line of numbers; NumPy does not ask places that are traced before it indexes an array."""
    if type(a) is not np.ndarray or isinstance(places, np.generic) or type(places) is np.ndarray:
        return a[places]
    return np.reshape(np.take_along_axis(a, np.ravel(places), 0), np.shape(places))


def gathered(z, places, n):
    """Sum of the elements of `z`, with leading axes, that belong to each of n places.

    ``bincount`` adds in float64 and takes no other dtype, hence the cast at the end.
    """
    lead = front(z, places)
    k = math.prod(lead)
    place = np.arange(k)[:, None] * n + np.ravel(places)
    total = sums_by_place(np.ravel(place), np.ravel(z), k * n)
    return np.reshape(total.astype(z.dtype, copy=False), (*lead, n))


def send_home(ybar, source, x):
    """Cotangent of `x`, of which element ``source[i]``, numbered from 1, went to place i; 0 is none."""
    total = gathered(ybar, source, np.size(x) + 1)
    return np.reshape(total[..., 1:], front(ybar, source) + np.shape(x))


def fetch(t, source, x):
    """Tangent of what was picked of `x`: the transpose of `send_home`."""
    lead = front(t, x)
    flat = np.reshape(t, (*lead, np.size(x)))
    nothing = np.zeros((*lead, 1), dtype=t.dtype)
    return np.take(np.concatenate([nothing, flat], axis=-1), source, axis=-1)
