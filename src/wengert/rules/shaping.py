"""Functions that move, repeat, join or drop elements.

Most rows are a word: the engine takes a view of the adjoint where NumPy takes a view of the value, and for a
rearrangement it sends integers, numbered from 1, through the function itself, to learn who went where.
That works where every other argument is plain and where what is filled in is 0.
The rest is spelt out.
"""

from __future__ import annotations

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import constant, linear, rearrangement, strong, structural, view
from wengert.rules.broadcasting import from_end, leading, length, numbers, send_home, unbroadcast

# ---- views

view(np.reshape, np.ravel, np.squeeze, np.expand_dims)
view(np.transpose, np.matrix_transpose, np.linalg.matrix_transpose, np.swapaxes, np.moveaxis, np.rollaxis)
view(np.flip, np.fliplr, np.flipud, np.rot90)
view(np.diagonal, np.linalg.diagonal, np.broadcast_to)
view(np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit)
view(np.real, np.real_if_close)  # of real operands
if hasattr(np, "unstack"):  # NumPy 2.1
    view(np.unstack)

# ---- rearrangements

rearrangement(np.copy, np.roll, np.tile, np.repeat, np.resize, np.delete, np.take, np.take_along_axis)
rearrangement(np.tril, np.triu, np.diag, np.diagflat)
rearrangement(np.vstack, np.hstack, np.dstack, np.column_stack, sequence=True)

# ---- joining


def pieces(ybar, sizes, axis):
    """`ybar` cut along `axis` into pieces of the given sizes; views."""
    return np.split(ybar, np.cumsum(sizes)[:-1], axis=axis)


def concatenate_wrt_arrays(ybar, y, arrays, axis=0, out=None, *, dtype=None):
    lead = np.shape(ybar)[: leading(ybar, y)]
    if axis is None:
        parts = pieces(ybar, [np.size(a) for a in arrays], -1)
        return [np.reshape(part, lead + np.shape(a)) for part, a in zip(parts, arrays, strict=True)]
    (axis,) = from_end(axis, np.ndim(y))
    return pieces(ybar, [np.shape(a)[axis] for a in arrays], axis)


def stack_wrt_arrays(ybar, y, arrays, axis=0, out=None, *, dtype=None):
    (axis,) = from_end(axis, np.ndim(y))
    moved = np.moveaxis(ybar, axis, 0)
    return [moved[i] for i in range(len(arrays))]


structural(np.concatenate, concatenate_wrt_arrays, sequence=True, stacked=True, curvature="none")
structural(np.stack, stack_wrt_arrays, sequence=True, stacked=True, curvature="none")


def append_parts(ybar, y, arr, values, axis):
    """Cotangents of both parts; without an axis both are flattened."""
    if axis is None:
        arr, values = np.ravel(arr), np.ravel(values)
    return concatenate_wrt_arrays(ybar, y, (arr, values), -1 if axis is None else axis)


def append_wrt_array(ybar, y, arr, values, axis=None):
    lead = np.shape(ybar)[: leading(ybar, y)]
    return np.reshape(append_parts(ybar, y, arr, values, axis)[0], lead + np.shape(arr))


def append_wrt_values(ybar, y, arr, values, axis=None):
    lead = np.shape(ybar)[: leading(ybar, y)]
    return np.reshape(append_parts(ybar, y, arr, values, axis)[1], lead + np.shape(values))


structural(np.append, append_wrt_array, append_wrt_values, stacked=True, curvature="none")


def insert_wrt_array(ybar, y, arr, obj, values, axis=None):
    return send_home(ybar, np.insert(numbers(arr), obj, 0, axis=axis), arr)


def insert_wrt_values(ybar, y, arr, obj, values, axis=None):
    nowhere = np.zeros(np.shape(arr), dtype=int)
    return send_home(ybar, np.insert(nowhere, obj, numbers(values), axis=axis), values)


structural(np.insert, insert_wrt_array, None, insert_wrt_values, stacked=True, curvature="none")

# ---- picking by a condition, which comes first


def compress_wrt_array(ybar, y, condition, a, axis=None, out=None):
    return send_home(ybar, np.compress(condition, numbers(a), axis=axis), a)


def extract_wrt_array(ybar, y, condition, arr):
    return send_home(ybar, np.extract(condition, numbers(arr)), arr)


structural(np.compress, None, compress_wrt_array, stacked=True, curvature="none")
structural(np.extract, None, extract_wrt_array, stacked=True, curvature="none")

# ---- order: the branch taken


def sort_wrt_array(ybar, y, a, axis=-1, kind=None, order=None, *, stable=None):
    order = np.argsort(a, axis=axis, kind="stable")
    source = (
        np.ravel(numbers(a))[np.ravel(order)] if axis is None else np.take_along_axis(numbers(a), order, axis)
    )
    return send_home(ybar, source, a)


structural(np.sort, sort_wrt_array, stacked=True, curvature="none")


def ranked_places(a, axis):
    """Where the elements along the reduced axes are, smallest first, numbered from 1 over the whole array."""
    axes = from_end(axis, np.ndim(a))
    moved = np.moveaxis(numbers(a), axes, tuple(range(-len(axes), 0)))
    where = np.reshape(moved, moved.shape[: moved.ndim - len(axes)] + (length(a, axis),))
    return np.take_along_axis(where, np.argsort(np.ravel(a)[where - 1], axis=-1, kind="stable"), -1)


def median_wrt_array(ybar, y, a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """The middle element, or half of each of the middle two; NaN where the median is NaN."""
    if np.size(a) == 0:
        return np.zeros(np.shape(ybar)[: leading(ybar, y)] + np.shape(a), dtype=ybar.dtype)
    ranked = ranked_places(a, axis)
    n = ranked.shape[-1]
    lead = np.shape(ybar)[: leading(ybar, y)]
    half = np.reshape(strong(ybar, np.where(np.isnan(y), y, 0.5 * np.ones_like(y))), lead + ranked.shape[:-1])
    return send_home(half, ranked[..., (n - 1) // 2], a) + send_home(half, ranked[..., n // 2], a)


def quantile_wrt_array(
    ybar, y, a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False
):
    """The shares of the two elements that a quantile lies between."""
    if method != "linear":
        raise UnsupportedFunctionError(
            f"numpy.quantile with method={method!r} has no rule: leave it out, or pick elements of "
            "numpy.sort(a)"
        )
    ranked = ranked_places(a, axis)
    n = ranked.shape[-1]
    place = np.ravel(q) * (n - 1)
    low = np.floor(place).astype(np.intp)
    lead = np.shape(ybar)[: leading(ybar, y)]
    shape = (len(place), *ranked.shape[:-1])
    g = np.reshape(ybar, lead + shape)
    share = np.reshape(place - low, (-1,) + (1,) * (len(shape) - 1))
    share = np.where(np.isnan(np.reshape(y, shape)), np.nan, share)
    below, above = (np.moveaxis(ranked[..., i], -1, 0) for i in (low, np.minimum(low + 1, n - 1)))
    total = send_home(strong(g, 1 - share), below, a) + send_home(strong(g, share), above, a)
    return total.astype(ybar.dtype, copy=False)


def percentile_wrt_array(
    ybar, y, a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False
):
    return quantile_wrt_array(ybar, y, a, np.true_divide(q, 100), axis, method=method)


structural(np.quantile, quantile_wrt_array, stacked=True, curvature="none")
structural(np.percentile, percentile_wrt_array, stacked=True, curvature="none")
structural(np.median, median_wrt_array, stacked=True, curvature="none")

# ---- filling

FILLED = {"constant", "edge", "wrap", "reflect", "symmetric", "empty"}


def pad_wrt_array(ybar, y, array, pad_width, mode="constant", **kwargs):
    if mode not in FILLED or kwargs.get("reflect_type", "even") != "even":
        raise UnsupportedFunctionError(
            f"numpy.pad with mode={mode!r} computes what it fills in, which has no rule: "
            "join the parts with np.concatenate"
        )
    if mode in ("constant", "empty"):
        mode, kwargs = "constant", {}
    return send_home(ybar, np.pad(numbers(array), pad_width, mode, **kwargs), array)


def full_like_wrt_value(ybar, y, a, fill_value, dtype=None, order="K", subok=True, shape=None):
    return unbroadcast(ybar, fill_value, leading(ybar, y))


def full_wrt_value(ybar, y, shape, fill_value, dtype=None, order="C"):
    return unbroadcast(ybar, fill_value, leading(ybar, y))


structural(np.pad, pad_wrt_array, stacked=True, curvature="none")
structural(np.full_like, None, full_like_wrt_value, stacked=True, curvature="none")
structural(np.full, None, full_wrt_value, stacked=True, curvature="none")
constant(np.zeros_like, np.ones_like, np.empty_like, np.imag)  # imag of real operands

# ---- counting with weights: the transpose of picking by index


def bincount_wrt_weights(ybar, y, x, weights=None, minlength=0):
    return np.take(ybar, x, axis=-1)


structural(np.bincount, None, bincount_wrt_weights, stacked=True, curvature="none")

# ---- change of dtype

if hasattr(np, "astype"):  # NumPy 2.1
    linear(np.astype, lambda ybar, x, dtype, *, copy=True, device=None: ybar, stacked=True)
