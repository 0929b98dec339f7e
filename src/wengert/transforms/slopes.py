"""Directional derivatives by finite differences with Richardson extrapolation, which also estimates their error.

Reference: Ridders (1982), Accurate computation of F'(x). doi:10.1016/S0141-1195(82)80057-0
"""

from __future__ import annotations

import math

import numpy as np

#: assumed size of the terms that cancel in an element, relative to the largest element
CANCELLED = 1e-2


class Slopes:
    """Derivatives of a vector-valued function along k directions.

    Central differences, and the jumps between one-sided differences, are extrapolated to step 0. For each element the
    table entry that differs least from its neighbours is selected; this difference is the error estimate.
    """

    name = "differences"

    def __init__(self, function, point, directions, precision=2.0**-52):
        middle = function(point)
        self.steps = 0.5 ** np.arange(3, 1 + max(8, round(-math.log2(5 * precision ** (1 / 3)))))
        found = [self._along(function, point, v, middle) for v in directions]
        self.values, self.errors, jumps, doubts = (np.stack(part) for part in zip(*found))
        sizes = np.abs(middle)  # smaller than the terms of an element if these cancel, hence `CANCELLED`
        largest = np.max(sizes, initial=0.0, where=np.isfinite(sizes))
        self.noise = 8 * precision / self.steps[-1] * np.maximum(sizes, CANCELLED * largest)
        self.jumps = np.where(np.abs(jumps) > 10 * doubts + self.noise, jumps, 0.0)

    def _along(self, function, point, v, middle):
        with np.errstate(all="ignore"):
            pairs = [(function(point + h * v), function(point - h * v)) for h in self.steps]
            central = [(ahead - behind) / (2 * h) for h, (ahead, behind) in zip(self.steps, pairs)]
            one_sided = [(ahead - 2 * middle + behind) / h for h, (ahead, behind) in zip(self.steps, pairs)]
            return *_extrapolated(central, 2), *_extrapolated(one_sided, 1)


def _extrapolated(rows, power):
    """Limit of a sequence for steps 1, 1/2, 1/4, ... with errors of order power, power + 2, ...; and its error."""
    values = []
    errors = []
    before = [rows[0]]
    for row in rows[1:]:
        line = [row]
        best, error = row, np.full(row.shape, np.inf)
        for j, old in enumerate(before):
            gain = 2.0 ** (power + 2 * j)
            line.append((gain * line[j] - old) / (gain - 1))
            change = np.maximum(np.abs(line[j + 1] - line[j]), np.abs(line[j + 1] - old))
            best, error = np.where(change <= error, line[j + 1], best), np.fmin(change, error)
        values.append(best)
        errors.append(error)
        before = line
    # two rows can agree by chance if a jump lies within the step, so a neighbouring row must agree too
    gap = np.abs(np.diff(values, axis=0))
    errors = np.maximum(errors, np.concatenate([gap, gap[-1:]]))
    errors[np.isnan(errors)] = np.inf
    chosen = len(errors) - 1 - errors[::-1].argmin(axis=0)[None]
    return np.take_along_axis(np.array(values), chosen, 0)[0], np.take_along_axis(errors, chosen, 0)[0]
