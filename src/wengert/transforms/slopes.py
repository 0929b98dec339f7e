"""Derivatives along directions by differences, extrapolated to a step of 0 with an estimate of their error."""

from __future__ import annotations

import math

import numpy as np


class Slopes:
    """Derivatives of a vector-valued function along k directions, by differences of shrinking steps.

    Central differences and the jump of one-sided ones are extrapolated to a step of 0 (Richardson); of the table of
    extrapolations the member counts, entry by entry, that differs least from its neighbours: that is its error.
    """

    name = "differences"

    def __init__(self, function, point, directions, precision=2.0**-52):
        middle = function(point)
        self.steps = 0.5 ** np.arange(3, 1 + max(8, round(-math.log2(5 * precision ** (1 / 3)))))
        found = [self._along(function, point, v, middle) for v in directions]
        self.values, self.errors, jumps, doubts = (np.stack(part) for part in zip(*found))
        self.noise = 8 * precision / self.steps[-1] * np.abs(middle)
        self.jumps = np.where(np.abs(jumps) > 10 * doubts + self.noise, jumps, 0.0)

    def _along(self, function, point, v, middle):
        with np.errstate(all="ignore"):
            pairs = [(function(point + h * v), function(point - h * v)) for h in self.steps]
            central = [(ahead - behind) / (2 * h) for h, (ahead, behind) in zip(self.steps, pairs)]
            one_sided = [(ahead - 2 * middle + behind) / h for h, (ahead, behind) in zip(self.steps, pairs)]
            return *_extrapolated(central, 2), *_extrapolated(one_sided, 1)


def _extrapolated(rows, power):
    """Limit of a sequence at steps 1, 1/2, 1/4, ... with errors of order power, power + 2, ... and its error."""
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
    # two rows can agree by chance where a jump lies within the step: a neighbour must agree too
    apart = np.abs(np.diff(values, axis=0))
    errors = np.maximum(errors, np.concatenate([apart, apart[-1:]]))
    errors[np.isnan(errors)] = np.inf
    chosen = len(errors) - 1 - errors[::-1].argmin(axis=0)[None]
    return np.take_along_axis(np.array(values), chosen, 0)[0], np.take_along_axis(errors, chosen, 0)[0]
