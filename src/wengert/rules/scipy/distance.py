"""Distances between vectors (``scipy.spatial.distance``): one formula per metric, over the last axis.

The formulas serve the metric of two vectors, the pairs of `cdist` and those of `pdist`.
At coincident points a norm has the derivative 0, as in ``numpy.linalg.norm``.
"""

from __future__ import annotations

import functools
import importlib

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import by_formula, composed, constant, refuse
from wengert.rules.composed import as_array, dispatched, locally_constant, overrides_functions
from wengert.rules.scipy.functions import Functions
from wengert.rules.special import sp

distance = Functions("scipy.spatial.distance")

# ---- metrics


def normalised(w):
    return w / np.sum(w)


def weighted(d, w):
    return d if w is None else w * d


def sqeuclidean(u, v, w=None):
    return np.sum(weighted((u - v) ** 2, w), axis=-1)


def minkowski(u, v, p=2, w=None):
    d = u - v
    if w is not None:
        d = (np.not_equal(w, 0) if np.isinf(p) else w ** (1 / p)) * d
    return np.linalg.norm(d, ord=p, axis=-1) if p >= 1 else np.sum(np.abs(d) ** p, axis=-1) ** (1 / p)


def euclidean(u, v, w=None):
    return minkowski(u, v, 2, w)


def cityblock(u, v, w=None):
    return np.sum(weighted(np.abs(u - v), w), axis=-1)


def chebyshev(u, v, w=None):
    return np.max(weighted(np.abs(u - v), None if w is None else np.greater(w, 0)), axis=-1)


def seuclidean(u, v, V):
    return np.sqrt(np.sum((u - v) ** 2 / V, axis=-1))


def mahalanobis(u, v, VI):
    d = u - v
    return np.sqrt(np.sum((d @ VI) * d, axis=-1))


def cosine(u, v, w=None):
    uw, vw = (u, v) if w is None else (u * w, v * w)
    cosine = np.sum(u * vw, axis=-1) / np.sqrt(np.sum(u * uw, axis=-1) * np.sum(v * vw, axis=-1))
    return 1.0 - cosine


def correlation(u, v, w=None, centered=True):
    if not centered:
        return cosine(u, v, w)
    if w is None:
        return cosine(u - np.mean(u, axis=-1, keepdims=True), v - np.mean(v, axis=-1, keepdims=True))
    w = normalised(w)
    return cosine(u - np.sum(u * w, axis=-1, keepdims=True), v - np.sum(v * w, axis=-1, keepdims=True), w)


def canberra(u, v, w=None):
    size = np.abs(u) + np.abs(v)
    is_zero = np.equal(size, 0)
    return np.sum(weighted(np.where(is_zero, 0.0, np.abs(u - v) / np.where(is_zero, 1.0, size)), w), axis=-1)


def braycurtis(u, v, w=None):
    return np.sum(weighted(np.abs(u - v), w), axis=-1) / np.sum(weighted(np.abs(u + v), w), axis=-1)


def jensenshannon(p, q, base=None, *, axis=-1, keepdims=False):
    p, q = (x / np.sum(x, axis=axis, keepdims=True) for x in (p, q))
    m = (p + q) / 2.0
    found = np.sum(sp.rel_entr(p, m) + sp.rel_entr(q, m), axis=axis, keepdims=keepdims)
    return np.sqrt((found if base is None else found / np.log(base)) / 2.0)


#: metrics of real vectors, by SciPy's names
METRICS = {
    name: globals()[name]
    for name in (
        "braycurtis canberra chebyshev cityblock correlation cosine euclidean jensenshannon mahalanobis minkowski "
        "seuclidean sqeuclidean"
    ).split()
}


def _jensenshannon(p, q, base=None, *, axis=0, keepdims=False):
    return jensenshannon(p, q, base, axis=axis, keepdims=keepdims)


def of_arrays(metric):
    """Return a metric that also takes lists."""

    @functools.wraps(metric)
    def body(*args, **options):
        return metric(*map(from_list, args), **{key: from_list(x) for key, x in options.items()})

    return body


def from_list(x):
    return as_array(x) if isinstance(x, (list, tuple)) else x


for name, metric in METRICS.items():
    by_formula(getattr(distance, name), of_arrays(_jensenshannon if metric is jensenshannon else metric))

#: metrics that count unequal elements: piecewise constant in the vectors, smooth in the weights
COUNTING = frozenset(("hamming", "jaccard"))
#: metrics of truth values, which SciPy extends to numbers
OF_TRUTH_VALUES = frozenset("dice rogerstanimoto russellrao sokalsneath yule".split())
_BOOLEAN = "it compares truth values; pass boolean arrays, such as u != 0"


def check_weights(name, w):
    if overrides_functions(w):
        raise UnsupportedFunctionError(
            f"scipy.spatial.distance.{name} has no derivative in its weights: write the weighted mean of u != v"
        )


def counting(name):
    """Return the body of a counting metric, which is piecewise constant in the vectors."""
    metric = getattr(distance, name).__wrapped__

    @locally_constant
    def count(u, v, w):
        return np.float64(metric(u, v, w))

    def body(u, v, w=None):
        check_weights(name, w)
        return count(u, v, w)

    return body


for name in sorted(COUNTING):
    composed(getattr(distance, name), counting(name))
for name in sorted(OF_TRUTH_VALUES):
    refuse(getattr(distance, name), _BOOLEAN)
constant(distance.is_valid_dm, distance.is_valid_y, distance.num_obs_dm, distance.num_obs_y)

# ---- distances of all pairs


def supported(metric):
    """Return the canonical name of a metric; raise if the metric has no derivative."""
    found = importlib.import_module("scipy.spatial.distance")._METRIC_ALIAS.get(metric.lower())
    if found is None:
        raise ValueError(f"Unknown Distance Metric: {metric}")
    if found.canonical_name in OF_TRUTH_VALUES:
        raise UnsupportedFunctionError(f"scipy.spatial.distance.{found.canonical_name} has no derivative: {_BOOLEAN}")
    return found.canonical_name


def of_pairs(u, v, metric, data, options):
    """Return distances between broadcast vectors; ``data()`` is the sample that supplies default variances."""
    if metric == "seuclidean" and options.get("V") is None:
        options = options | {"V": np.var(data(), axis=0, ddof=1)}
    if metric == "mahalanobis" and options.get("VI") is None:
        options = options | {"VI": np.transpose(np.linalg.inv(np.atleast_2d(np.cov(np.transpose(data())))))}
    return METRICS[metric](u, v, **options)


@dispatched
def cdist_by_name(XA, XB, metric, options, *arrays):
    """``cdist`` for a metric given by name, with keyword names in `options` and their values in `arrays`."""
    return distance.cdist.__wrapped__(XA, XB, metric, **dict(zip(options, arrays)))


@dispatched
def pdist_by_name(X, metric, options, *arrays):
    return distance.pdist.__wrapped__(X, metric, **dict(zip(options, arrays)))


@locally_constant
def plain_cdist(XA, XB, metric, **options):
    return distance.cdist.__wrapped__(XA, XB, metric, **options)


@locally_constant
def plain_pdist(X, metric, **options):
    return distance.pdist.__wrapped__(X, metric, **options)


@by_formula(cdist_by_name)
def cdist_formula(XA, XB, metric, options, *arrays):
    options = dict(zip(options, arrays))
    return of_pairs(XA[:, None, :], XB[None, :, :], metric, lambda: np.concatenate([XA, XB]), options)


@by_formula(pdist_by_name)
def pdist_formula(X, metric, options, *arrays):
    i, j = np.triu_indices(np.shape(X)[0], 1)
    return of_pairs(X[i], X[j], metric, lambda: X, dict(zip(options, arrays)))


def without_none(options):
    return {name: value for name, value in options.items() if value is not None}


@composed(distance.cdist)
def _cdist(XA, XB, metric="euclidean", *, p=None, V=None, VI=None, w=None, base=None, centered=None):
    options = without_none({"p": p, "V": V, "VI": VI, "w": w, "base": base, "centered": centered})
    XA, XB = as_array(XA), as_array(XB)
    if callable(metric):
        return np.reshape(np.stack([metric(u, v, **options) for u in XA for v in XB]), (len(XA), len(XB)))
    if (name := supported(metric)) in COUNTING:
        check_weights(name, w)
        return plain_cdist(XA, XB, name, **options)
    return cdist_by_name(XA, XB, name, [*options], *options.values())


@composed(distance.pdist)
def _pdist(X, metric="euclidean", *, p=None, V=None, VI=None, w=None, base=None, centered=None):
    options = without_none({"p": p, "V": V, "VI": VI, "w": w, "base": base, "centered": centered})
    X = as_array(X)
    if callable(metric):
        n = len(X)
        return np.stack([metric(X[i], X[j], **options) for i in range(n) for j in range(i + 1, n)])
    if (name := supported(metric)) in COUNTING:
        check_weights(name, w)
        return plain_pdist(X, name, **options)
    return pdist_by_name(X, name, [*options], *options.values())


# ---- square form


@composed(distance.squareform)
def _squareform(X, force="no", checks=True):
    """Convert between condensed and square distance matrices by indexing."""
    X = as_array(X)
    if np.ndim(X) == 1 and force.lower() != "tovector":
        n = int(np.ceil(np.sqrt(2 * len(X))))
        if n * (n - 1) != 2 * len(X):
            raise ValueError(
                "Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= 2."
            )
        place = np.zeros((n, n), dtype=int)
        place[np.triu_indices(n, 1)] = np.arange(1, len(X) + 1)
        return np.concatenate([np.zeros(1, X.dtype), X])[place + place.T]
    if np.ndim(X) != 2 or force.lower() == "tomatrix":
        raise ValueError("The first argument must be one or two dimensional array, as force= asks for.")
    if checks:
        distance.is_valid_dm(X, throw=True, name="X")
    return X[np.triu_indices(np.shape(X)[0], 1)]


@composed(distance.directed_hausdorff)
def _directed_hausdorff(u, v, rng=0):
    """Return the distance between the pair of points that SciPy selects, and their indices."""
    u, v = as_array(u), as_array(v)
    i, j = hausdorff_pair(u, v, rng)
    return distance.euclidean(u[i], v[j]), i, j


@locally_constant
def hausdorff_pair(u, v, rng):
    return np.array(distance.directed_hausdorff.__wrapped__(u, v, rng)[1:])
