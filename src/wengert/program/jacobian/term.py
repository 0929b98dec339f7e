"""What the entries of a derivative are made of, value by value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Refused(Exception):
    """The entries are not products of a few partials: colours are better."""


class Term(NamedTuple):
    """Coefficients of some entries.

    `coef` is a value of the list, a number for all entries or an array, or the same as a constant: a float, or a line.
    Without `rows`, that has the layout of the value whose derivative it is, and `cols` are the columns by places in its
    memory, -1 where there is no entry; `clean`: the coefficient is 0 there.
    With them, `coef`, `rows`, places in that memory, and `cols` are lines of one length.
    """

    coef: int | float | np.ndarray
    cols: np.ndarray
    rows: np.ndarray | None = None
    clean: bool = True
