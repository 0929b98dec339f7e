"""Validation of colourings: a description of the first nonzero that cannot be recovered, or None.

Definitions: Gebremedhin, Manne and Pothen (2005), What color is your Jacobian? doi:10.1137/S0036144504444711
"""

from __future__ import annotations

import numpy as np

from wengert.sparse.recovery import alone, elimination, improper


def count_of(colours: np.ndarray | None) -> int:
    """Number of colours."""
    return int(colours.max(initial=-1)) + 1 if colours is not None else 0


def read_by(s, rows, columns):
    """Masks of the nonzeros that column products determine, and of those that row products determine."""
    by_column = alone(s.ptr, s.idx, columns, count_of(columns)).astype(bool)
    by_row = np.empty(len(s), bool)
    by_row[s.t_place] = alone(s.t_ptr, s.t_idx, rows, count_of(rows))
    return by_column, by_row


def _column_complaint(s, rows, columns, name="column", other="row"):
    lost = np.flatnonzero(alone(s.ptr, s.idx, columns, count_of(columns)) == 0)
    if not len(lost):
        return None
    i, j = int(s.rows[lost[0]]), int(s.idx[lost[0]])
    if columns[j] < 0:
        return f"{name} {j} has no colour, but a nonzero in {other} {i}"
    beside = s.idx[s.ptr[i] : s.ptr[i + 1]]
    j2 = int(beside[(columns[beside] == columns[j]) & (beside != j)][0])
    return f"{name}s {min(j, j2)} and {max(j, j2)} both have colour {columns[j]} and a nonzero in {other} {i}"


def _row_complaint(s, rows, columns):
    return _column_complaint(s.transpose, None, rows, "row", "column")


def _bidirectional_complaint(s, rows, columns):
    lost = np.flatnonzero(~np.logical_or(*read_by(s, rows, columns)))
    if not len(lost):
        return None
    i, j = int(s.rows[lost[0]]), int(s.idx[lost[0]])
    reasons = []
    for name, of, colours, line in (
        ("column", j, columns, s.idx[s.ptr[i] : s.ptr[i + 1]]),
        ("row", i, rows, s.t_idx[s.t_ptr[j] : s.t_ptr[j + 1]]),
    ):
        same = line[(colours[line] == colours[of]) & (line != of)]
        reasons.append(f"{name} {of} has " + ("no colour" if colours[of] < 0 else f"the colour of {name} {same[0]}"))
    return f"the nonzero ({i}, {j}) cannot be recovered: {' and '.join(reasons)}"


def _improper_complaint(s, columns):
    """Describe the first uncoloured vertex, or pair of adjacent vertices of the same colour; None if there is none."""
    p = improper(s.ptr, s.idx, columns)
    if p < 0:
        return None
    i, j = int(s.rows[p]), int(s.idx[p])
    if columns[i] < 0:
        return f"vertex {i} has no colour, but its row has nonzeros"
    return f"vertices {i} and {j} both have colour {columns[i]}, but ({i}, {j}) is a nonzero"


def _star_complaint(s, rows, columns):
    complaint = _improper_complaint(s, columns)
    if complaint:
        return complaint
    read = alone(s.ptr, s.idx, columns, count_of(columns))
    lost = np.flatnonzero((read | read[s.t_place]) == 0)
    if not len(lost):
        return None
    i, j = int(s.rows[lost[0]]), int(s.idx[lost[0]])
    ends = []
    for v, w in ((i, j), (j, i)):
        beside = s.idx[s.ptr[v] : s.ptr[v + 1]]
        ends.append(int(beside[(columns[beside] == columns[w]) & (beside != w)][0]))
    return f"{ends[0]} - {i} - {j} - {ends[1]} is a path of four vertices in colours {columns[j]} and {columns[i]}"


def acyclic_complaint(s, rows, columns):
    complaint = _improper_complaint(s, columns)
    if complaint:
        return complaint
    _, left = elimination(s.ptr, s.idx, s.t_place, columns, count_of(columns))
    lost = np.flatnonzero(left)
    if not len(lost):
        return None
    i, j = s.rows[lost[0]], s.idx[lost[0]]
    return f"the nonzero ({i}, {j}) is on a cycle of vertices in colours {columns[i]} and {columns[j]}"


COMPLAINTS = {
    "column": _column_complaint,
    "row": _row_complaint,
    "bidirectional": _bidirectional_complaint,
    "star": _star_complaint,
    "acyclic": acyclic_complaint,
}
