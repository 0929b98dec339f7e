"""Helpers for shapes in rules: transpose of broadcasting, restored axes of reductions, gather and scatter.

A cotangent or tangent may have `lead` more axes than the value it belongs to: it then stacks several directions,
and the extra axes come first.
Rules therefore count axes from the end.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.registry import sums_by_place
from wengert.rules.shapes import from_end, is_kept, lead_shape, moved_axis, ndim_of, raveled, reshaped, shape_of


def conjugate(z):
    """Return the complex conjugate of a complex array; return a real array itself."""
    return np.conj(z) if z.dtype.kind == "c" else z


def aligned(t, x, ndim: int):
    """Reshape the tangent `t` of `x` so that it broadcasts as `x` does against an array of `ndim` axes."""
    missing = ndim - ndim_of(x)
    return reshaped(t, lead_shape(t, x) + (1,) * missing + shape_of(x)) if missing > 0 else t


def is_given(option) -> bool:
    """Return whether an option was passed: neither NumPy's ``_NoValue`` marker nor None."""
    return option is not np._NoValue and option is not None


def masked(z, where, other=0):
    """Return `z` with `other` where the mask `where` of a reduction excludes elements; an absent mask excludes none."""
    return np.where(where, z, other) if is_given(where) and where is not True else z


def sum_reduced(t, x, axis=None, keepdims=False):
    """Sum `t` over the axes that a reduction of `x` goes over."""
    return np.sum(t, axis=from_end(axis, ndim_of(x)), keepdims=is_kept(keepdims))


def source_ids(x):
    """Return 1, 2, 3, ... in the shape of `x`, so that a rearrangement shows the source of each element."""
    return np.arange(1, np.size(x) + 1).reshape(shape_of(x))


def take_elements(a, places):
    """Return ``a[places]`` of a 1-D array; a plain array cannot be indexed by traced `places`, hence the function."""
    if type(a) is not np.ndarray or isinstance(places, np.generic) or type(places) is np.ndarray:
        return a[places]
    return reshaped(np.take_along_axis(a, raveled(places), 0), shape_of(places))


def segment_sum(z, places, n):
    """Return n sums per leading direction: element i sums the elements of `z` whose index in `places` is i.

    ``bincount`` accumulates in float64 only, hence the cast at the end.
    """
    lead = lead_shape(z, places)
    if not lead:
        return sums_by_place(raveled(places), raveled(z), n).astype(z.dtype, copy=False)
    k = math.prod(lead)
    place = np.arange(k)[:, None] * n + raveled(places)
    total = sums_by_place(raveled(place), raveled(z), k * n)
    return reshaped(total.astype(z.dtype, copy=False), (*lead, n))


def scatter_to_source(ybar, source, x):
    """Scatter the cotangent back to `x`: element i of the result came from element ``source[i]`` (1-based; 0: none)."""
    total = segment_sum(ybar, source, np.size(x) + 1)
    return reshaped(total[..., 1:], lead_shape(ybar, source) + shape_of(x))


def gather_from_source(t, source, x):
    """Gather the tangent of elements of `x` by their 1-based `source`: the transpose of `scatter_to_source`."""
    lead = lead_shape(t, x)
    flat = reshaped(t, (*lead, np.size(x)))
    nothing = np.zeros((*lead, 1), dtype=t.dtype)
    return np.take(np.concatenate([nothing, flat], axis=-1), source, axis=-1)


def columnwise(fun, x, axis):
    """Apply a function along an axis; it takes one vector, or a matrix whose columns are vectors."""
    columns = moved_axis(x, axis, 0)
    beside = shape_of(columns)[1:]
    shape = -1 if np.prod(beside, dtype=int) == 1 else (shape_of(columns)[0], -1)
    return moved_axis(reshaped(fun(reshaped(columns, shape)), (-1, *beside)), 0, axis)
