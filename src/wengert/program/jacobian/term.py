"""Accumulated partials of a value, the data of Jacobian accumulation."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Refused(Exception):
    """Accumulation does not apply or is too expensive; the caller falls back to colouring."""


class Term(NamedTuple):
    """Accumulated partials of a value: some entries of its Jacobian.

    `coef` is a value of the program, scalar or array, or a constant: a float or a 1-D array.
    A scalar holds for all entries.
    If `rows` is None, the term is aligned: `coef` has the layout of the differentiated value and `cols` the column of
    each element by its offset in memory, -1 where there is no entry; `clean` says that the coefficient is 0 there.
    Otherwise the term is in coordinate form: `coef`, `rows` (offsets in that memory) and `cols` are 1-D arrays of equal
    length.
    """
    coef: int | float | np.ndarray
    cols: np.ndarray
    rows: np.ndarray | None = None
    clean: bool = True


def has_some(cols):
    """Return whether any entry is present."""
    return cols.size > 0 and bool(cols[0] >= 0 or cols[-1] >= 0 or cols.max() >= 0)


def has_gaps(cols):
    """Return whether any entry is missing (-1)."""
    return cols.size > 0 and bool(cols[0] < 0 or cols.min() < 0)
