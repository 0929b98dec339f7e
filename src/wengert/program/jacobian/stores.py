"""Jacobian accumulation through stores: terms of an array into which elements of another are stored.

Each rule takes the accumulation `p` and an instruction, and returns the terms of its result.
An aligned term of the array and one of the stored elements are merged into one array of coefficients where possible;
terms in coordinate form lose the entries that are overwritten.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from wengert.program.ir.call_rules import places as places_of
from wengert.program.ir.ir import overlaps
from wengert.program.ir.opcodes import Op
from wengert.program.jacobian.coefficients import viewed
from wengert.program.jacobian.term import Refused, Term, has_some

_FLOAT = np.dtype(float)


def place(p, i, a, b, c):
    view = p.code.views[b]
    if overlaps(view[1], view[2]):
        raise Refused("a store through a view that overlaps itself")
    is_whole = math.prod(view[1]) == math.prod(p.type(i)[1])
    type = p.type(i)
    put = lambda base, coef: p.record_origin(
        p.code.place(-1 if is_whole else base, view, coef, type), coef, view, is_part=False
    )
    return _stored(p, i, a, c, _ViewPositions(view), put)


def put(p, i, a, b, c):
    target = _Positions(p.code.arrays[p.table[1][b]])
    put = lambda base, coef: p.code.add(Op.PUT, p.type(i), base, b, p.broadcast(coef, c))
    return _stored(p, i, a, c, target, put)


def _stored(p, i, a, c, target, put):
    """Return the terms of an array a into which the elements of c are stored at `target`."""
    bases = p.terms.get(a, []) if a >= 0 else []
    parts = p.terms.get(c, [])
    count = math.prod(p.type(c)[1])
    is_final = i in p.finals and count == target.size
    above = [] if is_final else [t for t in bases if t.rows is None]
    if is_final:
        parts = [p.in_coordinates(t) for t in parts]
    below = [t for t in parts if t.rows is None]
    found = [_stored_term(p, i, a, c, base, part, target, put) for base, part in _paired(above, below, target)]
    if len(above) < len(bases):
        is_left = np.ones(p.extent(i), bool)
        target.store(is_left, np.False_)
        lines = bases if is_final else [t for t in bases if t.rows is not None]
        found += [left for t in lines for left in _not_overwritten(p, t, a, i, is_left)]
    for t in parts:
        if t.rows is not None:
            if count != target.size:
                spread = np.broadcast_to(_without_ones(p.offsets(c), len(target.shape)), target.shape)
                found.append(p.coordinate_part(t, spread, target.places))
                continue
            elements = t.rows if p.type(c)[2] is None else p.element_indices(c)[t.rows]
            places = target.places if p.is_whole_range(elements) else target.places[elements]
            found.append(t._replace(rows=places))
    return found


def _not_overwritten(p, t, a, i, is_left):
    """Restrict a term of a to elements of i that are not overwritten, in coordinate form; empty if none."""
    if t.rows is None and p.type(a) == p.type(i):
        which = np.flatnonzero((t.cols >= 0) & is_left).astype(np.int32)
        return [Term(p.selected(t.coef, which), t.cols[which], which)] if which.size else []
    t = p.in_coordinates(t)
    rows = p.moved_offsets(t.rows, a, i)
    which = np.flatnonzero(is_left[rows])
    if which.size == rows.size:
        return [t._replace(rows=rows)]
    return [Term(p.selected(t.coef, which), t.cols[which], rows[which])] if which.size else []


def _stored_term(p, i, a, c, base, part, target, put):
    """Store a term of c into a term of a; either may be None."""
    under, coef, cols = 0.0, 0.0, np.int32(-1)
    if base is None:
        line = np.full(p.extent(i), -1, np.int32)
    else:
        line = base.cols.copy() if p.type(a) == p.type(i) else p.by_offset(i, p.in_shape(base.cols, a))
        under = p.relaid(base.coef, a, i)
    if part is not None:
        cols, coef = p.in_shape(part.cols, c), part.coef
    target.store(line, cols)
    clean = (base is None or base.clean) and (part is None or part.clean)
    if not p.is_value(under) and not p.is_value(coef):
        if isinstance(under, float) and isinstance(coef, float) and (base is None or part is None or under == coef):
            found = under if part is None else coef
            return Term(found, line, None, clean and p.is_clean(found, line))
        found = np.array(np.broadcast_to(under, line.shape))
        is_line = isinstance(coef, np.ndarray) and p.type(c)[1] != ()
        target.store(found, p.in_shape(coef, c) if is_line else np.float64(coef))
        return Term(found, line, None, clean)
    return Term(put(p.broadcast(under, i), p.as_value(coef, p.type(c))), line, None, clean)


def _paired(bases, parts, target):
    """Pair the terms of an array with the stored terms, preferring pairs with equal differences of column and row."""

    def lag(t, place):
        if not has_some(t.cols):
            return 0
        first = int(np.argmax(t.cols >= 0))
        return int(t.cols[first]) - place(first)

    rest = list(parts)
    pairs = []
    for base in bases:
        own = lag(base, int)
        match = next((k for k, part in enumerate(rest) if lag(part, target.place) == own), None)
        pairs.append([base, None if match is None else rest.pop(match)])
    for pair in pairs:
        if pair[1] is None and rest:
            pair[1] = rest.pop(0)
    return [*map(tuple, pairs), *[(None, part) for part in rest]]


def pack(p, i, a, b, c):
    offsets, values = p.code.packs[b]
    found, lined = [], []
    for offset, v in zip(offsets.tolist(), values.tolist()):
        k = 0
        for t in p.terms.get(v, ()):
            if t.rows is not None:
                found.append(t._replace(rows=np.full(t.cols.size, offset)))
                continue
            if k == len(lined):
                lined.append({})
            lined[k][offset] = t
            k += 1
    bases = p.terms.get(a, []) if a >= 0 else []
    for t in bases:
        if t.rows is not None:
            which = np.flatnonzero(~np.isin(t.rows, offsets))
            if which.size:
                found.append(Term(p.selected(t.coef, which), t.cols[which], t.rows[which]))
    bases = [t for t in bases if t.rows is None]
    for k in range(max(len(bases), len(lined))):
        line = bases[k].cols.copy() if k < len(bases) else np.full(p.extent(i), -1, np.int32)
        line[offsets] = -1
        put = lined[k] if k < len(lined) else {}
        coefs = []
        for offset in offsets.tolist():
            t = put.get(offset)
            coefs.append(p.zero if t is None else p.as_value(t.coef, p.type(p.one)))
            if t is not None:
                line[offset] = t.cols[0]
        p.code.packs.append((offsets, np.array(coefs, dtype=np.int32)))
        base = p.broadcast(bases[k].coef, i) if k < len(bases) else -1
        coef = p.code.add(Op.PACK, p.type(i), base, len(p.code.packs) - 1)
        found.append(Term(coef, line, None, k >= len(bases) or bases[k].clean))
    return found


class _Positions:
    """Offsets in a 1-D array, given explicitly."""

    def __init__(self, places):
        self.shape, self.size, self.places = places.shape, places.size, places.ravel()

    def place(self, k):
        """Return the k-th offset, or the first if there are fewer."""
        return int(self.places[k if k < self.size else 0])

    def store(self, line, elements):
        line[self.places] = np.broadcast_to(_without_ones(elements, len(self.shape)), self.shape).ravel()


class _ViewPositions(_Positions):
    """Offsets of a view whose elements do not share memory."""

    def __init__(self, view):
        self.view, self.shape, self.size = view, view[1], math.prod(view[1])

    @functools.cached_property
    def places(self):
        return places_of(self.view, _FLOAT).ravel()

    def place(self, k):
        offset, shape, strides = self.view
        index = np.unravel_index(k if k < self.size else 0, shape) if shape else ()
        return (offset + sum([int(j) * step for j, step in zip(index, strides)])) // 8

    def store(self, line, elements):
        viewed(line, self.view)[...] = _without_ones(elements, len(self.shape))


def _without_ones(elements, ndim):
    """Drop leading axes of length 1 so that the elements broadcast to `ndim` axes."""
    while elements.ndim > ndim:
        elements = elements[0]
    return elements
