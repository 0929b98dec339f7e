"""Functions that move, repeat, join or drop elements.

Most rows only declare that the function is a `view` or a `rearrangement`.
For a view the engine takes the same view of the adjoint; for a rearrangement it applies the function to the integers
1, 2, 3, ... to find the source of each element.
That requires plain values for all other arguments, and 0 as padding.
The remaining functions have explicit rules.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.dependence import Along, Elementwise, Moved, Reduced, Scattered
from wengert.errors import UnsupportedFunctionError
from wengert.features import has_astype, has_unstack
from wengert.registry import composed, constant, facts, linear, rearrangement, strong, structural, view
from wengert.rules import taylor
from wengert.rules.broadcasting import (
    aligned,
    gather_from_source,
    scatter_to_source,
    segment_sum,
    source_ids,
    take_elements,
)
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.shapes import (
    from_end,
    is_kept,
    lead_shape,
    leading,
    length,
    moved_axis,
    ndim_of,
    raveled,
    reshaped,
    shape_of,
    swapped_axes,
    unbroadcast,
)

# ---- views

view(np.reshape, np.ravel, np.squeeze, np.expand_dims)
view(np.transpose, np.matrix_transpose, np.linalg.matrix_transpose, np.swapaxes, np.moveaxis, np.rollaxis)
view(np.flip, np.fliplr, np.flipud, np.rot90)
view(np.diagonal, np.linalg.diagonal, np.broadcast_to)
view(np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit)
if has_unstack:
    view(np.unstack)

# ---- batching rules of views: the batch axis comes first, so a view of each item is a view of the batch


def reshape_batch(x, shape, order="C"):
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    inner = np.size(x[0]) if len(x) else math.prod(shape_of(x)[1:])
    known = math.prod(n for n in shape if n != -1)
    if order != "C" or (-1 in shape and (not known or inner % known)) or (-1 not in shape and known != inner):
        return None  # NumPy raises its own error
    return reshaped(x, (len(x), *[inner // known if n == -1 else n for n in shape]))


def batch_axes(axes, ndim):
    """Convert axes of an item to axes of the batch; None if one is out of range."""
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    return [axis % ndim + 1 for axis in axes] if all(-ndim <= axis < ndim for axis in axes) else None


def transpose_batch(x, axes=None):
    ndim = ndim_of(x) - 1
    order = batch_axes(tuple(range(ndim))[::-1] if axes is None else axes, ndim)
    return None if order is None else np.transpose(x, (0, *order))


def swapaxes_batch(x, axis1, axis2):
    axes = batch_axes((axis1, axis2), ndim_of(x) - 1)
    return None if axes is None else swapped_axes(x, *axes)


def expand_dims_batch(x, axis):
    axes = None if isinstance(axis, tuple) else batch_axes(axis, ndim_of(x))
    return None if axes is None else np.expand_dims(x, *axes)


def broadcast_batch(x, shape):
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    own = shape_of(x)[1:]
    return np.broadcast_to(reshaped(x, (len(x), *(1,) * (len(shape) - len(own)), *own)), (len(x), *shape))


facts(np.reshape, batching=reshape_batch)
facts(np.ravel, batching=lambda x, order="C": reshape_batch(x, -1, order) if np.size(x) else None)
facts(np.transpose, batching=transpose_batch)
facts(np.swapaxes, batching=swapaxes_batch)
facts(np.expand_dims, batching=expand_dims_batch)
facts(np.broadcast_to, batching=broadcast_batch)

# ---- rearrangements


def copy_by_kernel(a, order="K", subok=False):
    """Copy a contiguous array by a ufunc, which has a VM kernel; return None for other arrays."""
    ndim = a.ndim if isinstance(a, np.ndarray) and a.dtype.kind in "fc" else 0
    return +a if ndim == 1 or (ndim and order != "F" and a.flags.c_contiguous) else None


def copy_of_batch(x, order="K"):
    """Copy a batch; each item has the memory layout that `copy` would give it alone."""
    if order == "A":
        order = "F" if ndim_of(x) > 1 and x[0].flags.fnc else "C"
    if order != "F":
        return np.copy(x, order=order)
    back = (0, *range(1, ndim_of(x))[::-1])
    return np.transpose(np.copy(np.transpose(x, back), order="C"), back)


rearrangement(np.copy, np.roll, np.tile, np.repeat, np.resize, np.delete, np.take, np.take_along_axis)
facts(np.copy, simpler=copy_by_kernel, batching=copy_of_batch, lowering="copy")
facts(np.take, choices=frozenset((1,)), native="take")
facts(np.take_along_axis, choices=frozenset((1,)), native="take_along_axis")
rearrangement(np.tril, np.triu, np.diag, np.diagflat)
facts(np.tril, np.triu, np.diag, np.diagflat, fills_zeros=True)
rearrangement(np.vstack, np.hstack, np.dstack, np.column_stack, sequence=True)

# ---- joining


def split_sizes(ybar, sizes, axis):
    """Split `ybar` along `axis`, counted from the end, into views of the given sizes."""
    parts, start = [], 0
    for size in sizes:
        parts.append(ybar[(..., slice(start, start + size), *(slice(None),) * (-1 - axis))])
        start += size
    return parts


def concatenate_wrt_arrays(ybar, y, arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    lead = shape_of(ybar)[: leading(ybar, y)]
    if axis is None:
        parts = split_sizes(ybar, [np.size(a) for a in arrays], -1)
        return [reshaped(part, lead + shape_of(a)) for part, a in zip(parts, arrays, strict=True)]
    (axis,) = from_end(axis, ndim_of(y))
    return split_sizes(ybar, [shape_of(a)[axis] for a in arrays], axis)


def stack_wrt_arrays(ybar, y, arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    (axis,) = from_end(axis, ndim_of(y))
    rest = (slice(None),) * (-1 - axis)
    return [ybar[(..., i, *rest)] for i in range(len(arrays))]


def push_concatenate(ts, y, arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    if axis is None:
        ts = [reshaped(t, (*lead_shape(t, a), np.size(a))) for t, a in zip(ts, arrays, strict=True)]
    return np.concatenate(ts, axis=-1 if axis is None else from_end(axis, ndim_of(y))[0])


def push_stack(ts, y, arrays, axis=0, out=None, *, dtype=None, casting="same_kind"):
    return np.stack(ts, axis=from_end(axis, ndim_of(y))[0])


def concatenate_batch(arrays, axis=0):
    axes = None if axis is None else batch_axes(axis, max(1, ndim_of(arrays[0]) - 1))
    return None if axes is None else np.concatenate(arrays, axis=axes[0])


def stack_batch(arrays, axis=0):
    axes = None if axis is None else batch_axes(axis, ndim_of(arrays[0]))
    return None if axes is None else np.stack(arrays, axis=axes[0])


structural(np.concatenate, concatenate_wrt_arrays, jvp=(push_concatenate,), sequence=True, curvature="none")
structural(
    np.stack,
    stack_wrt_arrays,
    jvp=(push_stack,),
    sequence=True,
    curvature="none",
)
facts(np.concatenate, batching=concatenate_batch, dependence=Moved(), lowering="moved")
facts(np.stack, batching=stack_batch, dependence=Moved(), lowering="stack")


def append_rules(which):
    """Pullback and tangent of ``append`` in operand `which`; without an axis it flattens both."""

    def pull(ybar, y, arr, values, axis=None):
        operands = (arr, values) if axis is not None else (raveled(arr), raveled(values))
        part = concatenate_wrt_arrays(ybar, y, operands, -1 if axis is None else axis)[which]
        return reshaped(part, lead_shape(ybar, y) + shape_of((arr, values)[which]))

    def push(t, y, arr, values, axis=None):
        own, other = (arr, values) if which == 0 else (values, arr)
        nothing = np.zeros(lead_shape(t, own) + shape_of(other), dtype=t.dtype)
        return push_concatenate((t, nothing) if which == 0 else (nothing, t), y, (arr, values), axis)

    return pull, push


pulls, pushes = zip(append_rules(0), append_rules(1))
structural(np.append, *pulls, jvp=pushes, curvature="none", dependence=Moved((0, 1)))

# ---- elements that are moved


def moving(fun, *sources, **columns):
    """Declare a function that moves elements of its arguments, by a function `source`, or None, for each argument.

    ``source(y, *args, **kwargs)`` returns a pair: the 1-based source of each element of the result, 0 for elements
    from elsewhere; and the argument.
    """

    def rules(source):
        def pull(ybar, y, *args, **kwargs):
            return scatter_to_source(ybar, *source(y, *args, **kwargs))

        def push(t, y, *args, **kwargs):
            return gather_from_source(t, *source(y, *args, **kwargs))

        return pull, push

    pulls, pushes = zip(*[(None, None) if source is None else rules(source) for source in sources])
    row = structural(fun, *pulls, jvp=pushes, curvature="none", **columns)
    row.signature = (1, *filter(None, sources))


def array_sources(y, arr, obj, values, axis=None):
    return np.insert(source_ids(arr), obj, np.zeros(shape_of(values), dtype=int), axis=axis), arr


def value_sources(y, arr, obj, values, axis=None):
    return np.insert(np.zeros(shape_of(arr), dtype=int), obj, source_ids(values), axis=axis), values


def compressed_sources(y, condition, a, axis=None, out=None):
    return np.compress(condition, source_ids(a), axis=axis), a


def extracted_sources(y, condition, arr):
    return np.extract(condition, source_ids(arr)), arr


moving(np.insert, array_sources, None, value_sources, dependence=Moved((0, 2)))
moving(np.compress, None, compressed_sources, condition=0, dependence=Moved((1,)))
moving(np.extract, None, extracted_sources, condition=0, dependence=Moved((1,)))

# ---- sorting: the derivative follows the permutation


def sorted_places(a, axis, **descending):
    """Return the 1-based source of each sorted element."""
    order = np.argsort(a, axis=axis, stable=True, **descending)
    if ndim_of(a) == 1:
        return order + 1
    if axis is None:
        return take_elements(np.ravel(source_ids(a)), order)
    return np.take_along_axis(source_ids(a), order, axis)


def sorted_sources(y, a, axis=-1, kind=None, order=None, *, stable=None, **descending):
    return sorted_places(a, axis, **descending), a


def partitioned_sources(y, a, kth, axis=-1, kind="introselect", order=None):
    """Return the sources of the elements of `y`: the k-th smallest of `y` is the k-th smallest of `a`."""
    line, axis = (raveled(a), -1) if axis is None else (a, axis)
    ranks = np.argsort(np.argsort(y, axis=axis, kind="stable"), axis=axis)
    return np.take_along_axis(sorted_places(line, axis), ranks, axis), a


moving(np.sort, sorted_sources, batching=True, dependence=Along(1), native="sort")
moving(np.partition, partitioned_sources, dependence=Along(2))


def ranked_places(a, axis):
    """Return the 1-based flat indices of the elements along the reduced axes, in increasing order of value."""
    axes = from_end(axis, ndim_of(a))
    moved = moved_axis(source_ids(a), axes, tuple(range(-len(axes), 0)))
    where = reshaped(moved, moved.shape[: moved.ndim - len(axes)] + (length(a, axis),))
    return np.take_along_axis(where, np.argsort(raveled(a)[where - 1], axis=-1, kind="stable"), -1)


@dispatched
def quantile_places(counts, q, method):
    """Return the fractional positions of quantiles among `counts` sorted elements."""
    q, counts = raveled(q), np.asarray(counts)
    if method == "linear":
        return np.multiply.outer(q, np.maximum(counts - 1, 0))
    places = np.zeros((len(q), *shape_of(counts)))
    for n in set(raveled(counts)) - {0}:
        places[:, counts == n] = np.quantile(np.arange(float(n)), q, method=method)[:, None]
    return places


#: d(position)/dq minus the number of elements; the positions of other methods are piecewise constant
POSITION_SLOPE_OFFSET = {
    "hazen": 0,
    "interpolated_inverted_cdf": 0,
    "weibull": 1,
    "median_unbiased": 1 / 3,
    "normal_unbiased": 1 / 4,
}


def position_slope(places, counts, method):
    """Return d(position)/dq; 0 where the position was clipped to the first or last element."""
    if method == "linear":
        return np.broadcast_to(counts - 1.0, shape_of(places))
    if method not in POSITION_SLOPE_OFFSET:
        return np.zeros(shape_of(places))
    is_cut = np.less_equal(places, 0) | np.greater_equal(places, counts - 1)
    return np.where(is_cut, 0, counts + POSITION_SLOPE_OFFSET[method])


def places_wrt_fraction(ybar, y, counts, q, method):
    terms = strong(ybar, position_slope(y, counts, method))
    return reshaped(np.sum(terms, axis=tuple(range(-ndim_of(counts), 0))), lead_shape(ybar, y) + shape_of(q))


def push_places(t, y, counts, q, method):
    t = reshaped(t, (*lead_shape(t, q), -1) + (1,) * ndim_of(counts))
    return strong(t, position_slope(y, counts, method))


structural(quantile_places, None, places_wrt_fraction, jvp=(None, push_places), curvature="none")


def count_all(a, axis):
    """Return the number of elements in each sample of which a quantile is taken."""
    reduced = from_end(axis, ndim_of(a))
    return np.full([n for i, n in enumerate(shape_of(a), -ndim_of(a)) if i not in reduced], length(a, axis))


def count_not_nan(a, axis):
    """Return the number of elements other than NaN, which sorting moves to the end."""
    return np.sum(~np.isnan(a), axis=axis)


def quantile_parts(y, a, q, axis, method, counts):
    """Return the sources of the neighbouring elements, the weight of the upper one, the positions and the counts."""
    ranked = moved_axis(ranked_places(a, axis), -1, 0)
    n, *lines = shape_of(ranked)
    if n == 0:
        nothing = np.zeros(shape_of(y))
        return nothing.astype(int), nothing.astype(int), nothing, nothing, counts
    counts = reshaped(counts, lines)
    places = quantile_places(counts, q, method)
    low = np.minimum(np.floor(places), np.maximum(counts - 2, 0)).astype(np.intp)
    parts = [np.take_along_axis(ranked, i, 0) for i in (low, np.minimum(low + 1, n - 1))]
    below, above, share = (reshaped(part, shape_of(y)) for part in (*parts, places - low))
    return below, above, np.where(np.isnan(y), np.nan, share), places, counts


def quantile_rules(counts_of, scale):
    """Pullbacks and tangents of a quantile in the elements and in `q`, which is in units of `scale`."""

    def parts(y, a, q, axis, method):
        if counts_of is count_not_nan and ndim_of(q) > 1:
            raise UnsupportedFunctionError("numpy.nanquantile with a 2-D q permutes its axes: pass raveled(q)")
        return quantile_parts(y, a, np.true_divide(q, scale), axis, method, counts_of(a, axis))

    def slope(y, a, q, axis, method):
        """dy/dq: the difference of the neighbouring elements times d(position)/dq."""
        below, above, _, places, counts = parts(y, a, q, axis, method)
        if np.size(a) == 0:
            return np.zeros_like(y)
        growth = reshaped(position_slope(places, counts, method), shape_of(y)) / scale
        line = raveled(a)
        return strong(take_elements(line, above - 1) - take_elements(line, below - 1), growth.astype(y.dtype))

    def pull(ybar, y, a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
        below, above, share, *_ = parts(y, a, q, axis, method)
        share = share.astype(ybar.dtype)
        return scatter_to_source(strong(ybar, 1 - share), below, a) + scatter_to_source(strong(ybar, share), above, a)

    def push(t, y, a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
        below, above, share, *_ = parts(y, a, q, axis, method)
        share = share.astype(t.dtype)
        return strong(gather_from_source(t, below, a), 1 - share) + strong(gather_from_source(t, above, a), share)

    def pull_fraction(ybar, y, a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
        terms = strong(ybar, slope(y, a, q, axis, method))
        return np.sum(terms, axis=tuple(range(ndim_of(q) - ndim_of(y), 0)))

    def push_fraction(t, y, a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
        t = reshaped(t, shape_of(t) + (1,) * (ndim_of(y) - ndim_of(q)))
        return strong(t, slope(y, a, q, axis, method))

    return (pull, pull_fraction), (push, push_fraction)


def quantile_pattern(deps, a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False):
    """Pattern of a quantile: all elements along the axis, and `q`; piecewise linear if `q` is constant."""
    ids, fractions = deps.ids(a), deps.ids(q)
    deps.is_done = not deps.depends(q)
    axes = from_end(axis, ids.ndim)
    reduced = deps.along(ids, axes)
    reduced = reduced if is_kept(keepdims) else np.squeeze(reduced, axes)
    return deps.united([reduced, reshaped(fractions, fractions.shape + (1,) * reduced.ndim)])


def median_rules(counts_of):
    (pull, _), (push, _) = quantile_rules(counts_of, 1)

    def pull_median(ybar, y, a, axis=None, out=None, overwrite_input=False, keepdims=False):
        return pull(ybar, y, a, 0.5, axis)

    def push_median(t, y, a, axis=None, out=None, overwrite_input=False, keepdims=False):
        return push(t, y, a, 0.5, axis)

    return (pull_median,), (push_median,)


for fun, (pulls, pushes) in {
    np.quantile: quantile_rules(count_all, 1),
    np.percentile: quantile_rules(count_all, 100),
    np.median: median_rules(count_all),
    np.nanquantile: quantile_rules(count_not_nan, 1),
    np.nanpercentile: quantile_rules(count_not_nan, 100),
    np.nanmedian: median_rules(count_not_nan),
}.items():
    is_median = len(pulls) == 1
    structural(
        fun,
        *pulls,
        jvp=pushes,
        curvature="none" if is_median else "full",
        dependence=Reduced() if is_median else quantile_pattern,
        batching=True if fun is np.median else None,
        taylor=None if is_median else taylor.PIECEWISE_LINEAR,
        native={np.median: "median", np.quantile: "quantile", np.percentile: "percentile"}.get(fun),
        unheeded=frozenset(("overwrite_input",)),  # the operand is kept for the pullback
    )

# ---- distinct elements: the derivative follows the first occurrence


@locally_constant
def part_of_unique(ar, part, options):
    """Return a part of ``numpy.unique``: first indices (1), inverse indices (2) or counts (3)."""
    return np.array(np.unique(ar, part == 1, part == 2, part == 3, **options)[1])


@composed(np.unique)
def _unique(ar, return_index=False, return_inverse=False, return_counts=False, axis=None, **options):
    ar = as_array(ar)
    options = {"axis": axis, **{name: x for name, x in options.items() if name != "sorted"}}
    places = np.array(part_of_unique(ar, 1, options))
    y = take_elements(raveled(ar), places) if axis is None else np.take(ar, places, axis)
    found = (y, places) if return_index else (y,)
    wanted = (part for part, is_wanted in ((2, return_inverse), (3, return_counts)) if is_wanted)
    found += tuple(np.array(part_of_unique(ar, part, options)) for part in wanted)
    return found if len(found) > 1 else y


composed(np.union1d, lambda ar1, ar2: _unique(np.concatenate([np.ravel(as_array(ar1)), np.ravel(as_array(ar2))])))

# ---- padding and filling

PAD_MODES = {"constant", "edge", "wrap", "reflect", "symmetric", "empty"}


def padded_sources(y, array, pad_width, mode="constant", **kwargs):
    if mode not in PAD_MODES or kwargs.get("reflect_type", "even") != "even":
        raise UnsupportedFunctionError(
            f"numpy.pad with mode={mode!r} computes the padding, which has no rule: "
            "compute it separately and join the parts with np.concatenate"
        )
    if mode in ("constant", "empty"):
        mode, kwargs = "constant", {}
    return np.pad(source_ids(array), pad_width, mode, **kwargs), array


def pads_by_moving(array, pad_width, mode="constant", reflect_type=None, **kwargs):
    """Return whether the padding consists of elements or constants."""
    return mode in PAD_MODES - {"empty"} and reflect_type is None


moving(np.pad, padded_sources, dependence=Moved((0,), pads_by_moving), lowering="pad")


def full_like_wrt_value(ybar, y, a, fill_value, dtype=None, order="K", subok=True, shape=None):
    return unbroadcast(ybar, fill_value, leading(ybar, y))


def push_full_like(t, y, a, fill_value, dtype=None, order="K", subok=True, shape=None):
    return aligned(t, fill_value, ndim_of(y))


structural(
    np.full_like, None, full_like_wrt_value, jvp=(None, push_full_like), curvature="none", dependence=Moved((0, 1))
)
structural(
    np.full,
    None,
    lambda ybar, y, shape, fill_value, dtype=None, order="C": unbroadcast(ybar, fill_value, leading(ybar, y)),
    jvp=(None, lambda t, y, shape, fill_value, dtype=None, order="C": aligned(t, fill_value, ndim_of(y))),
    curvature="none",
    dependence=Moved((1,)),
)
constant(np.zeros_like, np.ones_like, np.empty_like, static=True)

# ---- weighted counts: the transpose of indexing


structural(
    np.bincount,
    None,
    lambda ybar, y, x, weights=None, minlength=0: np.take(ybar, x, axis=-1),
    jvp=(None, lambda t, y, x, weights=None, minlength=0: segment_sum(t, x, np.size(y))),
    curvature="none",
    choices=frozenset((0,)),
    fits=lambda x, weights=None, minlength=0: np.all(np.less(x, minlength)),
)
facts(np.bincount, dependence=Scattered(None, 0, 1), native="bincount", lowering="bincount")

# ---- change of dtype

if has_astype:
    linear(
        np.astype, lambda ybar, x, dtype, *, copy=True, device=None: ybar, dependence=Elementwise(1), on_complex=True
    )
