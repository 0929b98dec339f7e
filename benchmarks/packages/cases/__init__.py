"""Functions that call a published package, one file for each package.

Each function is written as a user would write it, and does not mention wengert.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Case(NamedTuple):
    """A function of a float or a float array, and the point at which it is differentiated."""

    name: str
    f: Callable
    point: float | np.ndarray
    step: float  # largest step of the differences, relative to each coordinate
    rtol: float  # relative to the largest entry of a row of the Jacobian
    undefined: str | None  # why there is no derivative


class Cases(list):
    """The cases of a file: a list whose call is the decorator that appends to it."""

    def __call__(self, point, step=1e-2, rtol=1e-6, undefined=None):
        def add(f):
            x = np.array(point, dtype=float) if isinstance(point, list | tuple | np.ndarray) else float(point)
            self.append(Case(f.__name__, f, x, step, rtol, undefined))
            return f

        return add
