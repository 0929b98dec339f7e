"""Methods of ufuncs: ``reduce``, ``accumulate``, ``reduceat`` and ``at`` without an equivalent function.

Reductions and accumulations are composed of calls of the ufunc in NumPy's order, so every ufunc with partials has them.
There is a separate row where a closed formula is shorter, or where NumPy adds in another order.
"""

from __future__ import annotations

import functools

import numpy as np

from wengert.dependence import Reduced, Scattered
from wengert.errors import UnsupportedFunctionError
from wengert.registry import composed, facts, rows, structural, ufunc_methods
from wengert.rules import (
    elementwise,  # noqa: F401  (declares the rows that are used here)
    expansions,
)
from wengert.rules.broadcasting import aligned, is_given, masked, segment_sum, source_ids
from wengert.rules.composed import as_array, dispatched
from wengert.rules.reductions import by_slope
from wengert.rules.shapes import from_end, is_kept, lead_shape, ndim_of, restore, shape_of

#: ufuncs with partials, of one operand and of two operands
UNARY, BINARY = (
    [fun for fun in rows if isinstance(fun, np.ufunc) and rows[fun].kind == "elementwise" and loop in fun.types]
    for loop in ("d->d", "dd->d")
)


def declare(ufunc, method, body, **facts):
    """Declare a method of a ufunc as composed of other functions, by `body`."""
    ufunc_methods[ufunc, method] = body
    composed(body, body, **facts)


# ---- scatter-add


@dispatched
def scatter_add(a, indices, b):
    """Return a copy of `a` with `b` added at `indices`; repeated indices accumulate."""
    y = np.array(a)
    np.add.at(y, indices, b)
    return y


def places_of(indices, y):
    """Return the flat index of each indexed element."""
    return source_ids(y)[indices] - 1


def scatter_add_wrt_values(ybar, y, a, indices, b):
    """Cotangent of `b`: gather at the indices."""
    return np.take(np.reshape(ybar, (*lead_shape(ybar, y), np.size(y))), places_of(indices, y), axis=-1)


def push_added(t, y, a, indices, b):
    places = places_of(indices, y)
    spread = np.broadcast_to(aligned(t, b, ndim_of(places)), lead_shape(t, b) + shape_of(places))
    return np.reshape(segment_sum(spread, places, np.size(y)), lead_shape(t, b) + shape_of(y))


structural(
    scatter_add,
    lambda ybar, y, a, indices, b: ybar,
    None,
    scatter_add_wrt_values,
    jvp=(lambda t, y, a, indices, b: t, None, push_added),
    curvature="none",
    dependence=Scattered(0, 1, 2),
)


def _add_at(a, indices, b):
    a[...] = scatter_add(a, indices, b)


def _subtract_at(a, indices, b):
    a[...] = scatter_add(a, indices, np.negative(b))


def groups_without_repeats(places):
    """Split items into groups without repeated places: the first item at each place, the second, and so on."""
    order = np.argsort(places, kind="stable")
    line = places[order]
    starts = np.flatnonzero(np.append(True, line[1:] != line[:-1]))
    turn = np.empty(len(places), dtype=np.intp)
    turn[order] = np.arange(len(places)) - np.repeat(starts, np.diff(np.append(starts, len(places))))
    for k in range(turn.max(initial=-1) + 1):
        yield np.flatnonzero(turn == k)


def at_body(ufunc):
    """Body of ``ufunc.at``: items at one place are applied in order, those at distinct places at once."""

    def at(a, indices, *b):
        places = source_ids(a)[indices] - 1
        b = [np.ravel(np.broadcast_to(x, shape_of(places))) for x in b]
        places = np.ravel(places)
        for chosen in groups_without_repeats(places):
            where = np.unravel_index(places[chosen], shape_of(a))
            a[where] = ufunc(a[where], *[x[chosen] for x in b])

    return at


for ufunc in (*BINARY, *UNARY):
    declare(ufunc, "at", {np.add: _add_at, np.subtract: _subtract_at}.get(ufunc) or at_body(ufunc))

# ---- accumulations


def accumulation(ufunc):
    """Body of ``ufunc.accumulate``, in NumPy's order."""

    def accumulate(a, axis=0):
        a = as_array(a)
        y = np.empty_like(a)
        found, lines = np.moveaxis(y, axis, 0), np.moveaxis(a, axis, 0)
        found[:1] = lines[:1]
        for i in range(1, len(lines)):
            found[i] = ufunc(found[i - 1], lines[i])
        return y

    return accumulate


#: ufuncs whose reductions equal repeated calls; on some CPUs the SIMD loops of the others return only the last call
SEQUENTIAL = [fun for fun in BINARY if fun not in (np.arctan2, np.power, np.float_power)]

for ufunc in SEQUENTIAL:
    if (ufunc, "accumulate") not in ufunc_methods:
        declare(ufunc, "accumulate", accumulation(ufunc), replayed=True)

# ---- reductions


def reduction(ufunc):
    """Body of ``ufunc.reduce`` along one axis, in NumPy's order."""

    def reduce(a, axis=0, keepdims=False, initial=np._NoValue, where=True):
        a = as_array(a)
        axes = from_end(axis, ndim_of(a))
        lines = np.moveaxis(a, axes, range(len(axes)))
        if len(axes) != 1 or (not is_given(initial) and not (len(lines) and where is True)):
            ufunc.reduce(np.ones(shape_of(a)), axis, where=where)  # raises NumPy's own error
            raise UnsupportedFunctionError(f"numpy.{ufunc.__name__}.reduce has a rule for one axis only: pass axis=i")
        if is_given(initial):
            y = np.zeros(shape_of(lines)[1:], a.dtype) + initial
        else:
            y, lines = lines[0], lines[1:]
        masks = np.moveaxis(np.broadcast_to(where, shape_of(a)), axes, [0]) if where is not True else None
        for i, line in enumerate(lines):
            y = ufunc(y, line) if masks is None else np.where(masks[i], ufunc(y, line), y)
        y = np.copy(y) if not len(lines) and ndim_of(y) else y  # must not be a view of the operand
        return np.expand_dims(y, axes) if is_kept(keepdims) else y

    return reduce


def segments(indices, n):
    """Return start and stop of each slice of ``reduceat``; one element if the next index is not greater."""
    stops = [*indices[1:], n]
    return [(i, max(i + 1, stop)) for i, stop in zip(indices, stops)]


#: ufuncs whose reduction has its own row, or equals a function with a row
REDUCED_BY_ROW = (np.multiply, np.maximum, np.minimum, np.fmax, np.fmin)


def segment_reduction(ufunc):
    """Body of ``ufunc.reduceat``: reduce each slice separately."""

    def reduceat(a, indices, axis=0):
        lines = np.moveaxis(as_array(a), axis, 0)
        parts = [lines[first:last] for first, last in segments(np.asarray(indices).tolist(), len(lines))]
        y = np.stack([ufunc.reduce(p) if ufunc in REDUCED_BY_ROW else functools.reduce(ufunc, p) for p in parts])
        return np.moveaxis(y, 0, axis)

    return reduceat


for ufunc in SEQUENTIAL:
    if (ufunc, "reduce") not in ufunc_methods and ufunc.identity is None:
        declare(ufunc, "reduce", reduction(ufunc))
    if ufunc is not np.add:
        declare(ufunc, "reduceat", segment_reduction(ufunc))


@dispatched
def sums_of_segments(a, indices, axis=0):
    """``numpy.add.reduceat`` as a function with a row."""
    return np.add.reduceat(a, indices, axis)


def sums_of_segments_wrt_array(ybar, y, a, indices, axis=0):
    """Scatter the cotangent of each sum to the elements of its segment."""
    (axis,) = from_end(axis, ndim_of(a))
    bounds = segments(np.asarray(indices).tolist(), shape_of(a)[axis])
    places = np.concatenate([np.arange(*pair) for pair in bounds])
    owners = np.repeat(np.arange(len(bounds)), [last - first for first, last in bounds])
    sent = np.take(np.moveaxis(ybar, axis, -1), owners, axis=-1)
    return np.moveaxis(segment_sum(sent, places, shape_of(a)[axis]), -1, axis)


def segment_pattern(deps, a, indices, axis=0):
    """Pattern of ``reduceat``: all elements of a segment."""
    if (indices := deps.known(indices)) is None:
        return None
    rows = np.moveaxis(deps.ids(a), axis, 0)
    parts = [deps.along(rows[i:stop], (0,))[0] for i, stop in segments(np.asarray(indices).tolist(), len(rows))]
    return np.moveaxis(np.stack(parts), 0, axis)


structural(
    sums_of_segments,
    sums_of_segments_wrt_array,
    jvp=(lambda t, y, a, indices, axis=0: np.add.reduceat(t, indices, *from_end(axis, ndim_of(a))),),
    curvature="none",
)
facts(sums_of_segments, dependence=segment_pattern, expansion=expansions.segments)
ufunc_methods[np.add, "reduceat"] = sums_of_segments

# ---- reductions with a closed formula


def declare_reduce(ufunc, name, share):
    """Declare ``ufunc.reduce`` by dy/da, a function of ``(y, a, axis, initial, where)``."""

    def reduce(a, axis=0, dtype=None, out=None, keepdims=False, initial=np._NoValue, where=True):
        return ufunc.reduce(a, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)

    reduce.__name__ = reduce.__qualname__ = name
    reduce = dispatched(reduce)

    def slope(y, a, axis=0, dtype=None, out=None, keepdims=False, initial=np._NoValue, where=True):
        return share(restore(y, a, axis, keepdims), a, axis, initial, where), axis, keepdims

    by_slope(reduce, slope, dependence=Reduced(1, 0))
    ufunc_methods[ufunc, "reduce"] = reduce
    return reduce


def softmax_by(exp):
    """Return dy/da of a log-sum-exp, its softmax; computed without y, whose rounding error would be amplified."""

    def share(y, a, axis, initial, where):
        a = masked(a, where, -np.inf)
        least = {"initial": initial if is_given(initial) else -np.inf} if is_given(initial) or not np.size(a) else {}
        top = np.max(a, axis=axis, keepdims=True, **least)

        def weight(z):
            return exp(np.where(np.isinf(top) & (z == top), 0, z - top))

        weights = masked(weight(a), where)
        total = np.sum(weights, axis=axis, keepdims=True)
        return weights / (total + weight(initial) if is_given(initial) else total)

    return share


def leg_over_hypotenuse(y, a, axis, initial, where):
    return np.where(y == 0, 0, masked(a, where) / y)


logaddexp_reduce = declare_reduce(np.logaddexp, "logaddexp_reduce", softmax_by(np.exp))
facts(logaddexp_reduce, scalars="logaddexp of all")
logaddexp2_reduce = declare_reduce(np.logaddexp2, "logaddexp2_reduce", softmax_by(np.exp2))
hypot_reduce = declare_reduce(np.hypot, "hypot_reduce", leg_over_hypotenuse)
