"""Histograms: linear in the weights; programs find the bins of samples, in which derivatives are refused."""

from __future__ import annotations

import builtins
import functools
import operator

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import composed, structural, sums_by_place
from wengert.rules.broadcasting import gather_from_source, scatter_to_source
from wengert.rules.composed import as_array, as_dtype, dispatched, locally_constant
from wengert.rules.shapes import even_bins, ndim_of, raveled, reshaped, shape_of

COUNTS = (
    "numpy.histogram has no derivative in its samples: counts jump from one integer to the next; "
    "use a smooth kernel density instead, or weights"
)
BLOCK = 2**16  # numpy.histogram adds up so many samples before it adds their sums to those of earlier ones


# ---- bins


def has_length(bins):
    """Return whether `bins` are edges, or options of each axis, and not a number."""
    return isinstance(bins, (list, tuple)) or np.ndim(bins) > 0


@functools.partial(locally_constant, reason=COUNTS)
def bins_of(x, edges, is_even):
    """Return the 1-based bin of each sample, 0 outside all bins; the edges are equally spaced if `is_even`."""
    x, edges = np.asarray(x), np.asarray(edges)
    check_edges(edges, is_even)
    found = even_bins(np.ascontiguousarray(x), edges) if is_even else None
    return searched_bins(x, edges) if found is None else found


def searched_bins(x, edges):
    n = len(edges) - 1
    i = np.searchsorted(edges, x, side="right")
    i = np.where(x == edges[-1], n, i)  # the last bin is closed at both ends
    return np.where(i <= n, i, 0)


def check_edges(edges, is_even):
    """Raise the errors of ``numpy.histogram``."""
    low, high = edges[0], edges[-1]
    if is_even and not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"autodetected range of [{low}, {high}] is not finite")
    if is_even and low > high:
        raise ValueError("max must be larger than min in range parameter.")
    if is_even and np.any(edges[:-1] >= edges[1:]):
        raise ValueError(f"Too many bins for data range. Cannot create {len(edges) - 1} finite-sized bins.")
    if np.any(edges[:-1] > edges[1:]):
        raise ValueError("`bins` must increase monotonically, when an array")


def outer_edges(a, range):
    """Return the first and the last of equally spaced edges."""
    low, high = range if range is not None else (np.min(a), np.max(a)) if np.size(a) else (0.0, 1.0)
    return (low - 0.5, high + 0.5) if low == high else (low, high)


def even_edges(low, high, n):
    """Return ``numpy.linspace(low, high, n + 1)``."""
    if n < 1:
        raise ValueError("`bins` must be positive, when an integer")
    edges = np.arange(n + 1, dtype=np.result_type(low, high, 0.0)) * ((high - low) / n) + low
    return as_dtype(np.append(edges[:-1], high), edges.dtype)


@composed(np.histogram_bin_edges)
def _histogram_bin_edges(a, bins=10, range=None, weights=None):
    if isinstance(bins, str):
        raise UnsupportedFunctionError(
            f"numpy.histogram_bin_edges with bins={bins!r} has no derivative: "
            "the number of edges jumps with the values; pass a number of bins"
        )
    if has_length(bins):
        return as_array(bins)
    a = as_array(a)
    low, high = outer_edges(a, range)
    dtype = np.result_type(low, high, a)
    return as_dtype(even_edges(low, high, operator.index(bins)), dtype if dtype.kind == "f" else np.dtype(float))


# ---- counts


def blocks_of(n):
    return [slice(i, i + BLOCK) for i in builtins.range(0, n, BLOCK)]


@locally_constant
def order_in_blocks(x):
    """Return the indices that sort each block of samples."""
    return np.concatenate([np.arange(0), *[block.start + np.argsort(x[block]) for block in blocks_of(len(x))]])


@locally_constant
def counts_below(x, edges):
    """Return for each block of samples how many lie below each edge; for the last edge, those on it count too."""
    rows = [np.sort(x[block]) for block in blocks_of(len(x))]
    rows = [[*np.searchsorted(row, edges[:-1]), np.searchsorted(row, edges[-1], "right")] for row in rows]
    return np.reshape(np.array(rows, np.intp), (-1, len(edges)))


@dispatched
def weighted_counts(weights, places, order, below):
    """Return the sums of weights in bins of any width, as ``numpy.histogram`` does: by differences of cumulative sums.

    `places`, from `bins_of`, are the bins of the samples; `order` and `below` are from the two functions above.
    """
    total = np.zeros(below.shape[1], weights.dtype)
    for block, ends in zip(blocks_of(len(weights)), below):
        total += np.concatenate([[0], weights[order[block]].cumsum()], dtype=weights.dtype)[ends]
    return np.diff(total)


def wrt_weights(ybar, y, weights, places, order, below):
    """Return for each weight the cotangent of its bin."""
    return gather_from_source(ybar, places, y)


def push_counts(t, y, weights, places, order, below):
    return scatter_to_source(t, places, y)


structural(weighted_counts, wrt_weights, jvp=(push_counts,), curvature="none", choices=frozenset((1, 2, 3)))


def counts_of(places, n, weights):
    """Return the number of samples in each of n bins, or the sum of their weights, given the 1-based bins."""
    if weights is None:
        return np.bincount(places, None, n + 1)[1:]
    return sums_by_place(places, weights, n + 1)[1:]


def sums_of_blocks(places, n, weights):
    """Return the sums of weights in each of n bins, in the order of ``numpy.histogram``."""
    if not len(places):
        return np.zeros(n, weights.dtype)
    parts = [counts_of(places[block], n, weights[block]) for block in blocks_of(len(places))]
    parts = [as_dtype(part, weights.dtype) for part in parts]
    return sum(parts[1:], parts[0])


@composed(np.histogram)
def _histogram(a, bins=10, range=None, density=None, weights=None):
    a = as_array(a)
    if weights is not None:
        weights = as_array(weights)
        if shape_of(weights) != shape_of(a):
            raise ValueError("weights should have the same shape as a.")
        if isinstance(bins, str):
            raise TypeError("Automated estimation of the number of bins is not supported for weighted data")
        weights = raveled(weights)
    a = raveled(a)
    is_even = not has_length(bins)
    edges = np.histogram_bin_edges(a, bins, range) if is_even else as_array(bins)
    places, n = bins_of(a, edges, is_even), len(edges) - 1
    if weights is None:
        counts = counts_of(places, n, None)
    elif is_even:
        counts = sums_of_blocks(places, n, weights)
    else:
        counts = weighted_counts(weights, places, order_in_blocks(a), counts_below(a, edges))
    if density:
        counts = counts / np.diff(edges).astype(float) / np.sum(counts)
    return counts, edges


# ---- several dimensions


def edges_along(x, bins, range):
    """Return the edges of bins along one axis, and whether they are equally spaced."""
    if has_length(bins):
        return as_array(bins), False
    return even_edges(*outer_edges(x, range), operator.index(bins)), True


def per_axis(given, n, message):
    """Return an option of each of n axes."""
    if len(given) != n:
        raise ValueError(message)
    return given


@composed(np.histogramdd)
def _histogramdd(sample, bins=10, range=None, density=None, weights=None):
    if not isinstance(sample, (list, tuple)):
        sample = as_array(sample)
        sample = np.transpose(sample) if ndim_of(sample) > 1 else [sample]
    sample = [raveled(as_array(x)) for x in sample]
    d = len(sample)
    message = "The dimension of bins must be equal to the dimension of the sample x."
    bins = per_axis(bins, d, message) if has_length(bins) else [bins] * d
    range = [None] * d if range is None else per_axis(range, d, "range argument must have one entry per dimension")
    found = [edges_along(*options) for options in zip(sample, bins, range)]
    edges, shape = tuple(bounds for bounds, _ in found), tuple(len(bounds) - 1 for bounds, _ in found)
    place, *others = [bins_of(x, *bounds) for x, bounds in zip(sample, found)]
    for n, more in zip(shape[1:], others):
        place = np.where((place > 0) & (more > 0), (place - 1) * n + more, 0)
    weights = None if weights is None else raveled(as_array(weights))
    counts = reshaped(counts_of(place, int(np.prod(shape)), weights), shape)
    counts = counts.astype(float) if counts.dtype.kind in "iu" else counts
    if density:
        total = np.sum(counts)
        for axis, bounds in enumerate(edges):
            counts = counts / np.reshape(np.diff(bounds), (-1,) + (1,) * (d - 1 - axis))
        counts = counts / total
    return counts, edges


@composed(np.histogram2d)
def _histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    if has_length(bins) and len(bins) not in (1, 2):
        bins = [bins, bins]
    if np.size(x) != np.size(y):
        raise ValueError("x and y must have the same length.")
    counts, edges = _histogramdd([x, y], bins, range, density, weights)
    return (counts, *edges)
