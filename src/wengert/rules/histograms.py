"""Histograms: linear in the weights; derivatives in the samples, where counts jump, are refused."""

from __future__ import annotations

import numpy as np

from wengert import registry
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.registry import composed, structural
from wengert.rules.broadcasting import gather_from_source, scatter_to_source
from wengert.rules.composed import as_array, dispatched, locally_constant

COUNTS = "counts jump from one integer to the next; use a smooth kernel density instead, or weights"


def bin_indices(samples, edges):
    """Return the index of the bin of each sample, 1-based in the flattened histogram; 0 if outside all bins."""
    place, is_inside = 0, True
    for x, bounds in zip(samples, edges, strict=True):
        n = len(bounds) - 1
        i = np.searchsorted(bounds, x, side="right") - 1
        i = np.where(x == bounds[-1], n - 1, i)  # the last bin is closed at both ends
        is_inside = is_inside & (i >= 0) & (i < n)
        place = place * n + i
    return np.where(is_inside, place + 1, 0)


@dispatched
def weighted_counts(weights, samples, bins, range):
    return np.histogram(samples, bins, range, weights=weights)[0]


@dispatched
def weighted_counts_of_points(weights, samples, bins, range):
    """Return the weighted histogram in as many dimensions as there are arrays in `samples`."""
    return np.histogramdd(samples, bins, range, weights=weights)[0]


def bins_of(samples, bins, range):
    """Return the bin of each sample, see `bin_indices`, and an array of the histogram's shape."""
    if isinstance(samples, list):
        edges = np.histogramdd(samples, bins, range)[1]
    else:
        samples, edges = [samples], [np.histogram_bin_edges(samples, bins, range)]
    return bin_indices(samples, edges), np.empty([len(bounds) - 1 for bounds in edges])


def wrt_weights(ybar, y, weights, samples, bins, range):
    """Return for each weight the cotangent of its bin."""
    places, counts = bins_of(samples, bins, range)
    return gather_from_source(ybar, np.reshape(places, np.shape(weights)), counts)


def push_counts(t, y, weights, samples, bins, range):
    places, _ = bins_of(samples, bins, range)
    return scatter_to_source(t, np.reshape(places, np.shape(weights)), y)


def no_derivative(name):
    return UnsupportedFunctionError(f"numpy.{name} has no derivative in its samples: {COUNTS}")


def wrt_samples(*args):
    """Raise an error: only values of a program that carry no derivative are samples."""
    raise no_derivative("histogram")


structural(weighted_counts, wrt_weights, wrt_samples, curvature="none")
structural(weighted_counts_of_points, wrt_weights, jvp=(push_counts,), curvature="none")


@locally_constant
def plain_counts(samples, bins, range):
    return np.histogram(samples, bins, range)[0]


def as_plain(x):
    """Return samples, edges and bounds as plain arrays; raise TracedValueError if one is traced."""
    if isinstance(x, (list, tuple)):
        return [as_plain(item) for item in x]
    return np.array(x)[()] if hasattr(x, "dtype") else x


@composed(np.histogram)
def _histogram(a, bins=10, range=None, density=None, weights=None):
    weights = np.ravel(as_array(weights)) if weights is not None else None
    a = np.ravel(as_array(a))
    try:
        bins, range = as_plain((bins, range))
        a = a if registry.is_passive(a) else as_plain(a)
    except TracedValueError:
        raise no_derivative("histogram") from None
    counts = plain_counts(a, bins, range) if weights is None else weighted_counts(weights, a, bins, range)
    edges = np.histogram_bin_edges(a, bins, range)
    if density:
        counts = counts / np.diff(edges).astype(float) / np.sum(counts)
    return counts, edges


def counts_and_edges(name, samples, bins, range, weights):
    """Return weighted counts and the bin edges in several dimensions; refuse traced samples."""
    try:
        samples, bins, range = as_plain((samples, bins, range))
    except TracedValueError:
        weights = None
    if weights is None:
        raise no_derivative(name)
    samples = [np.ravel(x) for x in samples]
    counts = weighted_counts_of_points(as_array(weights), samples, bins, range)
    return counts, np.histogramdd(samples, bins, range)[1]


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
