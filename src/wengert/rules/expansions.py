"""Expansions of functions into simpler operations, for Jacobian accumulation by elimination.

A row states its expansion in the column ``expansion``, a function of the arguments of a call, with arrays of zeros in
place of traced operands.
It returns the function in arithmetic, slices and products, or None if the call should stay as it is.
Values agree with those of the function up to rounding.
"""

from __future__ import annotations

import functools
import itertools

import numpy as np

from wengert.rules.shapes import ndim_of, shape_of

#: maximum order of a matrix for which `solve` is expanded into a product with the inverse
MAX_INVERSE_ORDER = 5
#: length of an axis up to which a product or accumulation over it is unrolled
MAX_SLICES = 8
#: number of terms up to which a convolution is unrolled
MAX_TERMS = 16


def cross(a, b, *more, **options):
    if more or options or shape_of(a)[-1] != 3 or shape_of(b)[-1] != 3:
        return None

    def expanded(a, b):
        u, v = [[x[..., k] for k in range(3)] for x in (a, b)]
        return np.stack([u[k - 2] * v[k - 1] - u[k - 1] * v[k - 2] for k in range(3)], axis=-1)

    return expanded


def diff(a, n=1, axis=-1, prepend=None, append=None):
    def joined(a, prepend, append):
        ends = [None if end is None or end is np._NoValue else end for end in (prepend, append)]
        one = list(shape_of(a))
        one[axis] = 1
        ends = [np.broadcast_to(end, one) if end is not None and ndim_of(end) == 0 else end for end in ends]
        parts = [part for part in (ends[0], a, ends[1]) if part is not None]
        return np.concatenate(parts, axis=axis) if len(parts) > 1 else a

    def expanded(a, n=n, axis=axis, prepend=prepend, append=append):
        a = joined(a, prepend, append)
        for _ in range(n):
            count = shape_of(a)[axis]
            low, high = [[slice(None)] * ndim_of(a) for _ in range(2)]
            low[axis], high[axis] = slice(0, count - 1), slice(1, count)
            a = a[tuple(high)] - a[tuple(low)]
        return a

    return expanded if 0 < n < min(4, shape_of(a)[axis]) else None


def unrolled_slices(a, axis):
    """Return the index of each slice along an axis, or None if there are more than `MAX_SLICES`."""
    if (axis is None and ndim_of(a) != 1) or not ndim_of(a):
        return None
    axis = (axis or 0) % ndim_of(a)
    index = (slice(None),) * axis
    return [(*index, k) for k in range(shape_of(a)[axis])] if shape_of(a)[axis] <= MAX_SLICES else None


def prod(a, axis=None, **options):
    slices = None if options or isinstance(axis, tuple) else unrolled_slices(a, axis)
    return (lambda a, *_: functools.reduce(np.multiply, [a[k] for k in slices])) if slices else None


def accumulate(ufunc):
    def rule(a, axis=None, **options):
        slices = None if options else unrolled_slices(a, axis)

        def expanded(a, *_):
            return np.stack(list(itertools.accumulate([a[k] for k in slices], ufunc)), axis=axis or 0)

        return expanded if slices else None

    return rule


def segments(a, indices, axis=0, **options):
    """Expand ``ufunc.reduceat`` for consecutive segments into sums by ``bincount``."""
    starts = np.asarray(indices)
    if options or ndim_of(a) != 1 or starts.dtype.kind not in "iu":  # traced indices appear as floats here
        return None
    lengths = np.diff(starts, append=np.size(a))
    if np.any(lengths <= 0):
        return None
    which = np.repeat(np.arange(starts.size), lengths)
    return lambda a, *_: np.bincount(which, a[starts[0] :], starts.size)


def trace(a, offset=0, axis1=0, axis2=1, **options):
    return None if options else lambda a, *_: np.sum(np.diagonal(a, offset, axis1, axis2), axis=-1)


def trace_of_last(a, **options):
    return trace(a, options.pop("offset", 0), -2, -1, **options)


def multi_dot(arrays, **options):
    return None if options else lambda arrays: functools.reduce(np.matmul, arrays)


def solve(a, b, **options):
    """Multiply by the inverse of a small matrix; the partials of the inverse are products of its elements."""
    return None if options or shape_of(a)[-1] > MAX_INVERSE_ORDER else lambda a, b: np.matmul(np.linalg.inv(a), b)


def kron(a, b):
    n = max(ndim_of(a), ndim_of(b))

    def expanded(a, b):
        first, second = [(1,) * (n - ndim_of(x)) + shape_of(x) for x in (a, b)]
        a = np.reshape(a, [m for k in first for m in (k, 1)])
        b = np.reshape(b, [m for k in second for m in (1, k)])
        return np.reshape(a * b, [k * m for k, m in zip(first, second)])

    return expanded


def outer(a, b):
    return lambda a, b: np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1))


def convolve(a, v, mode="full"):
    short, count = sorted((np.size(a), np.size(v)))
    before = {"full": short - 1, "same": short - 1 - (short - 1) // 2, "valid": 0}[mode]
    after = {"full": short - 1, "same": (short - 1) // 2, "valid": 0}[mode]

    def expanded(a, v, *_):
        a, v = (a, v) if np.size(v) == short else (v, a)
        a = np.pad(a, (before, after)) if before or after else a
        n = count + before + after - short + 1
        is_there = [True] + [type(v) is not np.ndarray or v[short - 1 - k] != 0 for k in range(1, short)]
        parts = [v[short - 1 - k] * a[k : k + n] for k in range(short) if is_there[k]]
        return functools.reduce(np.add, parts)

    return expanded if short <= MAX_TERMS and np.ndim(a) == np.ndim(v) == 1 else None


def correlate(a, v, mode="valid"):
    found = convolve(a, v, mode) if np.size(v) <= np.size(a) else None
    return None if found is None else lambda a, v, *_: found(a, v[::-1])
