"""Propagates the terms of an operand through a call, given the partials of the call in that operand."""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from wengert.program.ir.access import FREE
from wengert.program.ir.call_rules import places as places_of
from wengert.program.jacobian.term import Refused, Term

_FLOAT = np.dtype(float)


class CallPartials(NamedTuple):
    """Partials of a call in one operand.

    `axes` gives the aligned result axis, or FREE, for each axis of the operand.
    `forward` yields (index, partial) for each index on the free axes, in the shape of the result; `backward` for each
    index on the unaligned axes of the result, in the shape of the operand.
    One of them may be None: unavailable or too expensive.
    """

    axes: tuple
    forward: Any
    backward: Any


def terms_by_partials(p, i, v, t, partials):
    """Return the terms of result i that follow from the term t of operand v."""
    if partials.forward is not None and t.rows is None:
        return _aligned_forward(p, i, v, t, partials)
    if partials.backward is not None:
        return _coordinate_backward(p, i, v, t, partials)
    if partials.forward is not None:
        return _coordinate_forward(p, i, v, t, partials)
    raise Refused("too many partials")


def _aligned_forward(p, i, v, t, partials):
    """Return aligned terms of the result, one for each index on the free axes."""
    shape, type = p.type(i)[1], p.type(i)
    found = []
    for index, slope in partials.forward():
        view = operand_view(p, v, partials.axes, index, shape)
        places = places_of(view, _FLOAT)
        coef = t.coef
        if isinstance(coef, np.ndarray):
            coef = p.constant_by_offset(coef[places], i)
        elif p.is_array(coef):
            coef = p.part(coef, view)
        line = p.by_offset(i, t.cols[places])
        if not p.is_value(slope):
            line = np.where(slope == 0, np.int32(-1), line)
        coef = in_layout(p, p.product(coef, slope, type), i)
        found.append(Term(coef, line, None, t.clean and p.is_clean(coef, line)))
    return found


def _coordinate_backward(p, i, v, t, partials):
    """Return coordinate-form terms of the result, one for each index on its unaligned axes."""
    t = p.in_coordinates(t)
    elements = _unravelled(p.element_indices(v)[t.rows], p.type(v)[1])
    found = []
    for index, slope in partials.backward():
        at = dict(zip(unaligned_axes(partials.axes, p.type(i)[1]), index))
        at.update({r: elements[d] for d, r in enumerate(partials.axes) if r != FREE})
        target = _places(p, i, at, t.cols.shape)
        coef = p.product(t.coef, p.selected(in_layout(p, slope, v), t.rows), (_FLOAT, (t.cols.size,), None))
        found.append(_without_zeros(p, Term(coef, t.cols, target), slope, t.rows))
    return found


def _coordinate_forward(p, i, v, t, partials):
    """Return coordinate-form terms of the result, given partials in the shape of the result."""
    own, shape, axes = p.type(v)[1], p.type(i)[1], partials.axes
    elements = _unravelled(p.element_indices(v)[t.rows], own)
    rest = unaligned_axes(axes, shape)
    others = list(indices_on(shape, rest))
    found = []
    for index, slope in partials.forward():
        is_here = np.ones(t.cols.size, bool)
        for d, k in zip(free_axes(axes), index):
            is_here &= elements[d] == k
        which = np.flatnonzero(is_here)
        p.coefficients_left -= which.size * len(others)
        if p.coefficients_left < 0:
            raise Refused("too many terms")
        for other in others if which.size else ():
            at = dict(zip(rest, other))
            at.update({r: elements[d][which] for d, r in enumerate(axes) if r != FREE})
            target = _places(p, i, at, which.shape)
            line = (_FLOAT, (which.size,), None)
            coef = p.product(p.selected(t.coef, which), p.selected(in_layout(p, slope, i), target), line)
            found.append(_without_zeros(p, Term(coef, t.cols[which], target), slope, target))
    return [t for t in found if t.cols.size]


def _without_zeros(p, t, slope, places):
    """Drop the entries whose constant partial is 0."""
    if not isinstance(slope, np.ndarray) or np.all(is_some := slope[places] != 0):
        return t
    which = np.flatnonzero(is_some)
    return Term(p.selected(t.coef, which), t.cols[which], t.rows[which])


def _places(p, i, at, shape):
    """Return the offsets of elements of value i, given their index on each axis."""
    return np.broadcast_to(p.offsets(i)[tuple(at[r] for r in range(len(at)))], shape)


def _unravelled(numbers, shape):
    return np.unravel_index(numbers, shape) if shape else ()


def operand_view(p, v, axes, index, shape):
    """Return the view of an operand at an index on its free axes, in the shape of the result."""
    low, own, strides = p.whole(p.type(v))
    steps = [0] * len(shape)
    for d, r in enumerate(axes):
        if r != FREE and own[d] > 1:
            steps[r] = strides[d]
    return low + sum(k * strides[d] for d, k in zip(free_axes(axes), index)), shape, tuple(steps)


def in_layout(p, coef, i):
    """Convert an array coefficient to the layout of value i, after copying it if its elements share memory."""
    return p.in_layout(p.without_overlap(coef), i) if p.is_array(coef) else coef


def mark_broadcast(axes, own, shape):
    return tuple(FREE if r != FREE and own[d] == 1 != shape[r] else r for d, r in enumerate(axes))


def partial_counts(own, shape, axes):
    """Return the number of indices on the free axes of an operand, and on the unaligned axes of the result."""
    return math.prod([own[d] for d in free_axes(axes)]), math.prod([shape[r] for r in unaligned_axes(axes, shape)])


def indices_on(shape, axes):
    """Yield the indices on some axes of an array."""
    return itertools.product(*[range(shape[d]) for d in axes])


def free_axes(axes):
    return [d for d, r in enumerate(axes) if r == FREE]


def unaligned_axes(axes, shape):
    """Return the axes of the result that no operand axis is aligned with."""
    return [r for r in range(len(shape)) if r not in axes]
