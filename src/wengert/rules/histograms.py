"""Histograms: linear in the weights; derivatives in the samples, where counts jump, are refused."""

from __future__ import annotations

import numpy as np

from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.registry import composed, linear
from wengert.rules.broadcasting import gather_from_source, scatter_to_source
from wengert.rules.composed import as_array, dispatched

COUNTS = "counts jump from one integer to the next; use a smooth kernel density instead, or weights"


def bin_indices(samples, edges):
    """Return the index of the bin of each sample, 1-based in the flattened histogram; 0 if outside all bins."""
    place = np.zeros(len(samples[0]), dtype=np.intp)
    is_inside = np.full(len(place), True)
    for x, bounds in zip(samples, edges, strict=True):
        n = len(bounds) - 1
        i = np.searchsorted(bounds, x, side="right") - 1
        i = np.where(x == bounds[-1], n - 1, i)  # the last bin is closed at both ends
        is_inside &= (i >= 0) & (i < n)
        place = place * n + i
    return np.where(is_inside, place + 1, 0)


def edges_of(samples, bins, range):
    if len(samples) == 1:
        return [np.histogram_bin_edges(samples[0], bins, range)]
    return np.histogramdd(samples, bins, range)[1]


@dispatched
def weighted_counts(weights, samples, bins, range):
    """Return the weighted histogram, with one dimension per array in `samples`."""
    if len(samples) == 1:
        return np.histogram(samples[0], bins, range, weights=weights)[0]
    return np.histogramdd(samples, bins, range, weights=weights)[0]


def counts_transpose(ybar, weights, samples, bins, range):
    """Return for each weight the cotangent of its bin."""
    edges = edges_of(samples, bins, range)
    counts = np.empty([len(bounds) - 1 for bounds in edges])
    return gather_from_source(ybar, np.reshape(bin_indices(samples, edges), np.shape(weights)), counts)


def push_counts(t, y, weights, samples, bins, range):
    places = np.reshape(bin_indices(samples, edges_of(samples, bins, range)), np.shape(weights))
    return scatter_to_source(t, places, y)


linear(weighted_counts, counts_transpose, jvp=push_counts)


def as_plain(x):
    """Return samples, edges and bounds as plain arrays; raise TracedValueError if one is traced."""
    if isinstance(x, (list, tuple)):
        return [as_plain(item) for item in x]
    return np.array(x)[()] if hasattr(x, "dtype") else x


def counts_and_edges(name, samples, bins, range, weights):
    """Return weighted counts and the bin edges; refuse traced samples."""
    try:
        samples, bins, range = as_plain((samples, bins, range))
    except TracedValueError:
        weights = None
    if weights is None:
        raise UnsupportedFunctionError(f"numpy.{name} has no derivative in its samples: {COUNTS}")
    samples = [np.ravel(x) for x in samples]
    return weighted_counts(as_array(weights), samples, bins, range), edges_of(samples, bins, range)


@composed(np.histogram)
def _histogram(a, bins=10, range=None, density=None, weights=None):
    weights = as_array(weights) if weights is not None else None
    counts, (edges,) = counts_and_edges("histogram", [a], bins, range, None if weights is None else np.ravel(weights))
    if density:
        counts = counts / np.diff(edges).astype(float) / np.sum(counts)
    return counts, edges


@composed(np.histogramdd)
def _histogramdd(sample, bins=10, range=None, density=None, weights=None, name="histogramdd"):
    sample = sample if isinstance(sample, (list, tuple)) else np.transpose(as_array(sample))
    counts, edges = counts_and_edges(name, list(sample), bins, range, weights)
    if density:
        total = np.sum(counts)
        for axis, bounds in enumerate(edges):
            counts = counts / np.reshape(np.diff(bounds), (-1,) + (1,) * (len(edges) - 1 - axis))
        counts = counts / total
    return counts, tuple(edges)


@composed(np.histogram2d)
def _histogram2d(x, y, bins=10, range=None, density=None, weights=None):
    if np.ndim(bins) == 1 and len(bins) not in (1, 2):
        bins = [bins, bins]
    counts, edges = _histogramdd([x, y], bins, range, density, weights, "histogram2d")
    return (counts, *edges)


@composed(np.histogram_bin_edges)
def _histogram_bin_edges(a, bins=10, range=None, weights=None):
    if isinstance(bins, str):
        raise UnsupportedFunctionError(
            f"numpy.histogram_bin_edges with bins={bins!r} has no derivative: "
            "the number of edges jumps with the values; pass a number of bins"
        )
    if np.ndim(bins):
        return as_array(bins)
    a = as_array(a)
    low, high = range or ((np.min(a), np.max(a)) if np.size(a) else (0.0, 1.0))
    if low == high:
        low, high = low - 0.5, high + 0.5
    edges = np.arange(bins + 1, dtype=np.result_type(a, 0.0)) * ((high - low) / bins) + low
    return np.append(edges[:-1], high)  # the last edge is exact, as in linspace
