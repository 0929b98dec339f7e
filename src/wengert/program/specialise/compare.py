"""Measures the difference of two results in units in the last place, and checks Hessians in one direction."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.containers import children_of
from wengert.transforms.operators import Operator
from wengert.transforms.second import HVP, Hessian

#: minimum number of rows of a Hessian that is checked by one product, which takes as long as a few gradients
_MIN_ROWS = 4
#: number of elements that are compared at a time, so that they stay in cache
_PART = 1 << 13


class HessianProduct:
    """The product of a Hessian with an arbitrary vector, evaluated eagerly to check a Hessian.

    Attributes
    ----------
    direction, value : ndarray
    """

    __slots__ = ("direction", "value")

    def __init__(self, direction, value):
        self.direction, self.value = direction, value

    @classmethod
    def of(cls, f: Any, args: tuple, kwargs: dict) -> HessianProduct | None:
        """Return the product for a call of `f`; None unless `f` is a dense Hessian in one array argument."""
        if type(f) is not Hessian or isinstance(f.f, Operator) or type(f.argnums) is not int:
            return None
        if f.has_aux or f.with_value or not 0 <= f.argnums < len(args):
            return None
        x = args[f.argnums]
        if type(x) is not np.ndarray or x.dtype != float or x.size < _MIN_ROWS:
            return None
        direction = np.random.default_rng(0).uniform(0.5, 1.5, x.shape)
        return cls(direction, HVP(f.f, f.argnums)(args[0], direction, *args[1:], **kwargs))

    def with_matrix(self, matrix: Any) -> Any:
        """Return the product of a matrix, of the Hessian's shape, with the direction."""
        shape = self.direction.shape
        if np.shape(matrix) != shape * 2:
            return None
        with np.errstate(all="ignore"):
            return np.tensordot(matrix, self.direction, len(shape))


def difference(got: Any, expected: Any) -> float:
    """Return the largest difference of two results, in ulps of the largest magnitude; inf if structures differ."""
    one, other = _leaves_of(got), _leaves_of(expected)
    return max(map(_distance, one, other), default=0.0) if len(one) == len(other) else np.inf


def is_unchanged(array: np.ndarray, before: np.ndarray) -> bool:
    """Return whether an array equals an earlier copy of it."""
    is_plain = array.dtype == before.dtype == float and array.flags.c_contiguous and before.flags.c_contiguous
    if is_plain and np.array_equal(array.view(np.int64), before.view(np.int64)):
        return True  # takes a third of the time of `difference`
    return not difference(array, before)


def distance(got: Any, expected: Any) -> float:
    """Return the largest absolute difference of two results; inf if structures differ or only one is finite."""
    one, other = _leaves_of(got), _leaves_of(expected)
    if len(one) != len(other) or any(np.shape(a) != np.shape(b) for a, b in zip(one, other)):
        return np.inf
    pairs = [(np.asarray(a), np.asarray(b)) for a, b in zip(one, other)]
    if any(a.dtype.kind not in "fc" or b.dtype.kind not in "fc" for a, b in pairs):
        return np.inf
    return max([_absolute(one, other) for a, b in pairs for one, other in _parts(a, b)], default=0.0)


def _absolute(a, b):
    """Return the largest absolute difference of two arrays of equal shape; inf if only one is finite."""
    with np.errstate(all="ignore"):
        found = float(np.max(np.abs(a - b), initial=0.0))
        if math.isfinite(found):
            return found
        is_finite = np.isfinite(a)
        if (is_finite != np.isfinite(b)).any():
            return np.inf
        return float(np.max(np.abs(a - b), where=is_finite, initial=0.0))


def _leaves_of(y):
    found = (list(y), None) if type(y) in (list, tuple) else children_of(y)
    return [y] if found is None else [leaf for item in found[0] for leaf in _leaves_of(item)]


def _distance(got, expected):
    a, b = np.asarray(got), np.asarray(expected)
    if a.shape != b.shape or a.dtype != b.dtype or b.dtype.kind not in "fc":
        return 0.0 if np.array_equal(a, b) and a.dtype == b.dtype else np.inf
    largest = scale = 0.0
    with np.errstate(all="ignore"):
        for one, other in _parts(a, b):
            apart = float(np.max(np.abs(one - other), initial=0.0))
            if not math.isfinite(apart):
                return _distance_of_any(a, b)
            largest, scale = max(largest, apart), max(scale, float(np.max(np.abs(other), initial=0.0)))
    if largest == 0.0:
        return 0.0
    return largest / scale / float(np.finfo(b.dtype).eps) if scale else np.inf


def _parts(a, b):
    """Yield both arrays in parts that stay in cache if they are contiguous."""
    if a.size <= _PART or not (a.flags.c_contiguous and b.flags.c_contiguous):
        yield a, b
        return
    a, b = a.reshape(-1), b.reshape(-1)
    for first in range(0, a.size, _PART):
        yield a[first : first + _PART], b[first : first + _PART]


def _distance_of_any(a, b):
    """Return the same as `_distance` for arrays that may contain NaN and infinities."""
    differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not differ.any():
        return 0.0
    scale = np.max(np.abs(b), where=np.isfinite(b), initial=0.0)
    if not (np.isfinite(a) & np.isfinite(b))[differ].all() or scale == 0:
        return np.inf
    return float(np.max(np.abs(a - b)[differ]) / scale / np.finfo(b.dtype).eps)
