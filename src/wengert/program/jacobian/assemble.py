"""Assembles a Jacobian from the accumulated terms of its result: CSR data, a dense matrix, or chosen entries.

Constant entries are the initial data of the result; all others are stored into it, by a view where their positions are
regular, or added where several coefficients belong to one entry.
A symmetric matrix is computed as its lower triangle and mirrored.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from wengert.program.ir.ir import c_strides
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.jacobian.csr import sort_by_rows
from wengert.program.jacobian.term import Refused
from wengert.program.passes import simplify, vectorise

_FLOAT = np.dtype(float)
_NONE = np.zeros(0, np.int32)
_ADD, _MULTIPLY = OPCODES["add"], OPCODES["multiply"]

#: minimum length of the last axis for which regular positions are written as a view, not by PUT
_MIN_VIEW_LENGTH = 32
#: limit on the share of nonzero constants that are stored one by one into zeros
_MAX_SCATTERED_SHARE = 0.1


class Entries(NamedTuple):
    """A program whose output is the data of a sorted CSR matrix, and the structure of that matrix."""

    code: Any
    indptr: np.ndarray
    indices: np.ndarray


def assembled(p, symmetric, dense, wanted):
    """Return the program of all entries in row order, or in the order of `wanted`."""
    n, m = [math.prod(p.type(v)[1]) for v in (p.x, p.y)]
    parts, may_be_whole = _result_entries(p, m, symmetric), symmetric and wanted is None
    if any(_is_one_entry(rows, cols) for _, rows, cols in parts):
        parts = _merged_single_entries(p, parts)
    # if the rows of each part ascend, entries are probably not sums: mirror before sorting
    is_whole = may_be_whole and all(rows is None or (rows[1:] > rows[:-1]).all() for _, rows, _ in parts)
    coefs, entries = _sorted_parts(p, parts, is_whole, m, n)
    if not entries.are_distinct:
        parts, is_whole = _merged_single_entries(p, parts), False
        coefs, entries = _sorted_parts(p, parts, False, m, n)
    if may_be_whole and not is_whole and entries.are_distinct:
        is_whole = True
        coefs, entries = _sorted_parts(p, parts, True, m, n)
    is_half = symmetric and not is_whole
    if wanted is not None:
        return _in_wanted_order(p, coefs, entries, wanted, symmetric)
    if dense:
        places = [entries.keys[where] for where in entries.places]
        return _whole_matrix(p, _filled_data(p, coefs, places, m * n, entries.are_distinct), is_half, m, n)
    data = _filled_data(p, coefs, entries.places, len(entries.columns), entries.are_distinct)
    starts, columns = entries.starts, entries.columns
    if is_half:
        starts, columns, data = _mirrored(p, entries, data)
    return _program(p, data, starts, columns)


def _program(p, data, indptr=_NONE, indices=_NONE):
    """Return the simplified program that computes the data of a matrix."""
    p.code.outputs = [data]
    return Entries(simplify.simplified(p.code, False), indptr, indices)


def _sorted_parts(p, parts, is_whole, m, n):
    """Sort the entries of parts by rows; mirror them first if `is_whole`."""
    if is_whole:
        parts = [part for one in parts for part in _with_mirror(p, *one)]
    return [coef for coef, *_ in parts], SortedEntries(parts, m, n)


def _result_entries(p, m, symmetric):
    """Return coefficients, rows and columns of all entries; rows are None if entry e is in row e.

    If symmetric, return only the entries on and below the diagonal.
    """
    y, parts = p.y, []
    is_dense = p.type(y)[2] is None
    row_of = None if is_dense else p.element_indices(y).astype(np.int32)
    for t in p.terms.get(y, ()):
        t = p.in_coordinates(t)
        coef, rows, cols = t.coef, t.rows if is_dense else row_of[t.rows], t.cols
        if symmetric:
            is_below = cols <= rows
            if not is_below.all():
                which = np.flatnonzero(is_below)
                coef, rows, cols = p.selected(coef, which), rows[which], cols[which]
        if rows.size:
            parts.append((coef, None if rows is p.aranges.get(m) else rows, cols))
    return parts


def _in_wanted_order(p, coefs, entries, wanted, symmetric):
    """Return the program of the wanted entries, in their order.

    If both (i, j) and (j, i) of a symmetric matrix are wanted, the entry is computed once and copied.
    """
    n = math.prod(p.type(p.x)[1])
    rows, cols = [np.asarray(part, np.int64) for part in wanted]
    if symmetric:
        rows, cols = np.maximum(rows, cols), np.minimum(rows, cols)
    keys, number = np.unique(rows * n + cols, return_inverse=True)
    found = entries.keys
    at = np.searchsorted(keys, found)
    is_there = at < keys.size
    is_there[is_there] = keys[at[is_there]] == found[is_there]
    if not is_there.all():
        i, j = divmod(int(found[~is_there][0]), n)
        raise Refused(f"({i}, {j}) is not in the given pattern")
    are_read_once = keys.size == number.size
    if are_read_once:
        target = np.empty(keys.size, np.int64)
        target[number] = np.arange(number.size)
        at = target[at]
    data = _filled_data(p, coefs, [at[where] for where in entries.places], keys.size, entries.are_distinct)
    if not are_read_once:
        index = p.code.constant_array(number.astype(np.int32))
        data = p.code.add(Op.GATHER, (_FLOAT, (number.size,), None), data, index)
    return _program(p, data)


def _whole_matrix(p, data, symmetric, m, n):
    """Return the program of the whole matrix, in the shape of the derivative."""
    if symmetric:
        rows, cols = np.divmod(np.arange(m * n), n)
        index = p.code.constant_array((np.maximum(rows, cols) * n + np.minimum(rows, cols)).astype(np.int32))
        data = p.code.add(Op.GATHER, (_FLOAT, (m * n,), None), data, index)
    shape = p.type(p.y)[1] + p.type(p.x)[1]
    view = (0, shape, c_strides(shape, 8))
    return _program(p, data if shape == (m * n,) else p.code.part(data, view, _FLOAT))


def _filled_data(p, coefs, places, count, are_distinct):
    """Return the data array: constants are initial values; other coefficients are stored, or added if shared."""
    constant, used = np.zeros(count), np.zeros(0 if are_distinct else count, bool)
    for coef, where in zip(coefs, places):
        if not p.is_value(coef) and are_distinct:
            constant[where] = coef
        elif not p.is_value(coef):
            np.add.at(constant, where, coef)
            used[where] = True
    type = (_FLOAT, (count,), None)
    data = _constant_data(p, constant, type)
    added = []
    for coef, where in zip(coefs, places):
        if not p.is_value(coef):
            continue
        is_new = are_distinct or (not used[where].any() and np.bincount(where, minlength=1).max() <= 1)
        if not are_distinct:
            used[where] = True
        if is_new:
            data = _put_at(p, data, where, coef, type)
        else:
            added.append((coef, where))
    return p.code.add(_ADD, type, data, sum_at_places(p, added, type)) if added else data


def _constant_data(p, constant, type):
    """Return a constant 1-D array, stored sparsely if nearly all of it is 0."""
    where = np.flatnonzero(constant)
    if constant.size < _MIN_VIEW_LENGTH or where.size > _MAX_SCATTERED_SHARE * constant.size:
        return p.code.constant_array(constant)
    data = p.code.filled(0.0, constant.shape)
    return _put_at(p, data, where, p.code.constant_array(constant[where]), type) if where.size else data


def _put_at(p, data, where, coef, type):
    """Store a coefficient into the data: through a view if the positions are regular, otherwise by PUT."""
    axes = vectorise.lattice(where) if where.size else None
    if axes is not None and axes[-1] >= _MIN_VIEW_LENGTH:
        if p.is_array(coef):
            coef = p.code.block(_as_row(p, coef, where.size), 0, axes)
        steps = vectorise.strides_in(where, axes)
        return p.code.place(data, (8 * int(where[0]), axes, tuple([8 * step for step in steps])), coef, type)
    if not where.size:
        return data
    index = p.code.constant_array(where.astype(np.int32))
    return p.code.add(Op.PUT, type, data, index, _as_row(p, coef, where.size))


def _as_row(p, coef, count):
    """Return a coefficient as a 1-D array of this length."""
    line = (_FLOAT, (count,), None)
    return coef if p.type(coef) == line else p.code.place(-1, p.whole(line), coef, line)


def sum_at_places(p, parts, type):
    """Add coefficients at their positions, by one SCATTER of their concatenation."""
    where = np.concatenate([where for _, where in parts])
    line, start = (_FLOAT, (where.size,), None), 0
    found = p.code.place(-1, p.whole(line), p.zero, line) if len(parts) > 1 else -1
    for coef, places in parts:
        found = p.code.place(found, (8 * start, (places.size,), (8,)), coef, line)
        start += places.size
    return p.code.add(Op.SCATTER, type, found, p.code.constant_array(where.astype(np.int32)))


def _merged_single_entries(p, parts):
    """Replace the parts that each belong to a single matrix entry by one scalar per such entry."""
    rest, totals = [], {}
    for coef, rows, cols in parts:
        if len(cols) == 1 or _is_one_entry(rows, cols):
            key = 0 if rows is None else int(rows[0]), int(cols[0])
            totals.setdefault(key, []).append(_total(p, coef, len(cols)))
        else:
            rest.append((coef, rows, cols))
    for key, terms in totals.items():
        known = sum([float(term) for term in terms if not p.is_value(term)])
        values = [term for term in terms if p.is_value(term)]
        if values:
            values += [p.code.filled(known, ())] if known else []
            known = functools.reduce(lambda a, b: p.code.add(_ADD, p.type(p.one), a, b), values)
        rest.append((known, *[np.array([k], np.int32) for k in key]))
    return rest


def _total(p, coef, count):
    """Sum a coefficient over `count` positions; a scalar is multiplied by the count."""
    if not p.is_value(coef):
        return float(np.sum(np.broadcast_to(coef, (count,))))
    if p.is_array(coef):
        return p.code.add(Op.SUM, p.type(p.one), coef)
    count = p.code.filled(float(count), ())
    return p.code.add(_MULTIPLY, p.type(p.one), coef, count)


def _with_mirror(p, coef, rows, cols):
    """Return a part of the lower triangle and its mirror image without the diagonal."""
    own = p.arange(len(cols)) if rows is None else rows
    is_off = own != cols
    if is_off.all():
        return [(coef, rows, cols), (coef, cols, own)]
    off = np.flatnonzero(is_off)
    above = [(p.selected(coef, off), cols[off], own[off])] if off.size else []
    return [(coef, rows, cols), *above]


def _mirrored(p, entries, data):
    """Return CSR starts, columns and data of a symmetric matrix, given those of its lower triangle."""
    rows, columns = entries.rows, entries.columns
    off = np.flatnonzero(rows != columns)
    starts, found, places, _ = sort_by_rows([rows, columns[off]], [columns, rows[off]], len(entries.starts) - 1)
    source = np.empty(len(found), np.int32)
    for where, which in zip(places, (p.arange(len(rows)), off)):
        source[where] = which
    if source.size:
        data = p.code.add(Op.GATHER, (_FLOAT, (source.size,), None), data, p.code.constant_array(source))
    return starts, found, data


class SortedEntries:
    """Entries of parts, given as (coefficient, rows, columns), sorted as an m x n CSR matrix.

    `places` has the sorted index of each entry, by part; equal entries share one unless they `are_distinct`.
    """

    def __init__(self, parts, m, n):
        as_int32 = functools.partial(np.ascontiguousarray, dtype=np.int32)
        rows = [part if part is None else as_int32(part) for _, part, _ in parts]
        cols = [as_int32(part) for *_, part in parts]
        self.starts, self.columns, self.places, self.are_distinct = sort_by_rows(rows, cols, m)
        self.n = n

    @functools.cached_property
    def rows(self):
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    @functools.cached_property
    def keys(self):
        """Row-major indices in the full matrix."""
        return self.rows * np.int64(self.n) + self.columns


def _is_one_entry(rows, cols):
    """Return whether there are two or more entries, all at the same row and column."""
    if rows is None or len(cols) < 2 or rows[0] != rows[1] or cols[0] != cols[1]:
        return False
    return bool((rows == rows[0]).all() and (cols == cols[0]).all())
