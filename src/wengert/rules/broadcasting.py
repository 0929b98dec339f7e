"""Helpers for shapes in rules: transpose of broadcasting, restored axes of reductions, gather and scatter.

A cotangent or tangent may have `lead` more axes than the value it belongs to: it then stacks several directions,
and the extra axes come first.
Rules therefore count axes from the end.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.registry import sums_by_place


def conjugate(z):
    """Return the complex conjugate of a complex array; return a real array itself."""
    return np.conj(z) if z.dtype.kind == "c" else z


def leading(ybar, y) -> int:
    """Return the number of extra leading axes of the cotangent (or tangent) `ybar` of `y`."""
    return np.ndim(ybar) - np.ndim(y)


def lead_shape(t, x) -> tuple[int, ...]:
    """Return the shape of the extra leading axes of the tangent (or cotangent) `t` of `x`."""
    return np.shape(t)[: leading(t, x)]


def aligned(t, x, ndim: int):
    """Reshape the tangent `t` of `x` so that it broadcasts as `x` does against an array of `ndim` axes."""
    missing = ndim - np.ndim(x)
    return np.reshape(t, lead_shape(t, x) + (1,) * missing + np.shape(x)) if missing > 0 else t


def unbroadcast(z, x, lead: int = 0):
    """Sum `z` over the axes along which `x` was broadcast: the transpose of broadcasting."""
    shape = np.shape(x)
    extra = np.ndim(z) - lead - len(shape)
    if extra > 0:
        z = np.sum(z, axis=tuple(range(lead, lead + extra)))
    ones = tuple(i for i in range(-len(shape), 0) if shape[i] == 1 != np.shape(z)[i])
    return np.sum(z, axis=ones, keepdims=True) if ones else z


def from_end(axis, ndim: int) -> tuple[int, ...]:
    """Return axes as a tuple of negative integers; None selects all, and a 0-d array ignores `axis`."""
    if axis is None or ndim == 0:
        return tuple(range(-ndim, 0))
    axes = axis if isinstance(axis, tuple) else (axis,)
    return tuple(i if i < 0 else i - ndim for i in axes)


def length(x, axis) -> int:
    """Return the number of elements along the axes that a reduction of `x` goes over."""
    shape = np.shape(x)
    count = 1
    for i in from_end(axis, len(shape)):
        count *= shape[i]
    return count


def is_kept(keepdims) -> bool:
    """Return whether a reduction keeps its axes; NumPy's ``_NoValue`` marker is truthy but means no."""
    return keepdims is not np._NoValue and bool(keepdims)


def is_given(option) -> bool:
    """Return whether an option was passed: neither NumPy's ``_NoValue`` marker nor None."""
    return option is not np._NoValue and option is not None


def masked(z, where, other=0):
    """Return `z` with `other` where the mask `where` of a reduction excludes elements; an absent mask excludes none."""
    return np.where(where, z, other) if is_given(where) and where is not True else z


def restore(z, x, axis=None, keepdims=False):
    """Reinsert into `z` the axes that a reduction of `x` removed, with length 1."""
    if is_kept(keepdims) or np.ndim(x) == 0:
        return z
    return np.expand_dims(z, from_end(axis, np.ndim(x)))


def sum_reduced(t, x, axis=None, keepdims=False):
    """Sum `t` over the axes that a reduction of `x` goes over."""
    return np.sum(t, axis=from_end(axis, np.ndim(x)), keepdims=is_kept(keepdims))


def source_ids(x):
    """Return 1, 2, 3, ... in the shape of `x`: a rearrangement of it shows the source of each element."""
    return np.arange(1, np.size(x) + 1).reshape(np.shape(x))


def take_elements(a, places):
    """Return ``a[places]`` of a 1-D array; a plain array cannot be indexed by traced `places`, hence the function."""
    if type(a) is not np.ndarray or isinstance(places, np.generic) or type(places) is np.ndarray:
        return a[places]
    return np.reshape(np.take_along_axis(a, np.ravel(places), 0), np.shape(places))


def segment_sum(z, places, n):
    """Return n sums per leading direction: element i sums the elements of `z` whose index in `places` is i.

    ``bincount`` accumulates in float64 only, hence the cast at the end.
    """
    lead = lead_shape(z, places)
    k = math.prod(lead)
    place = np.arange(k)[:, None] * n + np.ravel(places)
    total = sums_by_place(np.ravel(place), np.ravel(z), k * n)
    return np.reshape(total.astype(z.dtype, copy=False), (*lead, n))


def scatter_to_source(ybar, source, x):
    """Scatter the cotangent back to `x`: element i of the result came from element ``source[i]`` (1-based; 0: none)."""
    total = segment_sum(ybar, source, np.size(x) + 1)
    return np.reshape(total[..., 1:], lead_shape(ybar, source) + np.shape(x))


def gather_from_source(t, source, x):
    """Gather the tangent of elements of `x` by their 1-based `source`: the transpose of `scatter_to_source`."""
    lead = lead_shape(t, x)
    flat = np.reshape(t, (*lead, np.size(x)))
    nothing = np.zeros((*lead, 1), dtype=t.dtype)
    return np.take(np.concatenate([nothing, flat], axis=-1), source, axis=-1)


def columnwise(fun, x, axis):
    """Apply a function along an axis; it takes one vector, or a matrix whose columns are vectors."""
    columns = np.moveaxis(x, axis, 0)
    beside = np.shape(columns)[1:]
    if np.prod(beside, dtype=int) == 1:
        return np.moveaxis(np.reshape(fun(np.reshape(columns, -1)), (-1, *beside)), 0, axis)
    found = fun(np.reshape(columns, (np.shape(columns)[0], -1)))
    return np.moveaxis(np.reshape(found, (-1, *beside)), 0, axis)
