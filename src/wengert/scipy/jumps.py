"""Finds jumps of an integrand that move with its parameters, where Leibniz's rule lacks a term.

The adaptive rule has bisected the interval around each jump, so the narrow subintervals and the ends of all others are
examined: a subinterval is bisected further until the two sides of the jump are neighbouring numbers.
A jump remains there, while a steep but continuous function does not differ between neighbours.
A jump moves if a small change of the parameters moves one of the sides across it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.program.integration.jumps import CONTINUOUS, ROUNDING, bisected, difference, moves

#: maximum number of subintervals that are examined, narrowest first, and of ends of subintervals
MAX_INTERVALS, MAX_ENDS = 12, 100

#: distance from the limits that is not examined, as a fraction of the outermost subintervals
INSIDE = 2.0**-20

def subintervals(report: Any, a: float, b: float) -> np.ndarray:
    """Return the final subintervals of an adaptive rule of `scipy.integrate`, narrowest first, from its report.

    Their shape is (n, 2).
    """
    if isinstance(report, dict):  # report of `quad`
        last = report.get("last", 0)
        found = np.reshape([report.get("alist", [])[:last], report.get("blist", [])[:last]], (2, -1)).T
    else:  # report of `quad_vec`
        found = np.reshape(report.intervals, (-1, 2))
    found = found[np.argsort(found[:, 1] - found[:, 0])]
    if np.isfinite(a) and np.isfinite(b):
        return found
    with np.errstate(all="ignore"):  # infinite intervals are mapped to (0, 1], or to [-1, 1]
        found = np.sort((1 - np.abs(found)) / found, axis=1)
    if np.isfinite(a):
        return a + found
    if np.isfinite(b):
        return b - found[:, ::-1]
    return np.reshape(np.stack([found, -found[:, ::-1]], axis=1), (-1, 2))


def breakpoints(intervals: np.ndarray) -> np.ndarray:
    """Return the interior ends of subintervals of a finite interval; none if it is infinite."""
    return np.unique(intervals)[1:-1] if np.isfinite(intervals).all() else np.empty(0)


def middle(a: float, b: float) -> float:
    """Return the midpoint of an interval; of an infinite one, after the mapping that adaptive rules use."""
    if np.isfinite(a):
        return 0.5 * (a + b) if np.isfinite(b) else a + 1.0
    return b - 1.0 if np.isfinite(b) else 1.0


def is_continuous(f: Callable, x: float) -> bool:
    """Return whether f has the same values on both sides of x, up to rounding errors."""
    low, high = x - 8 * np.spacing(abs(x)), x + 8 * np.spacing(abs(x))
    y, z = f(low), f(high)
    return bool(np.all(abs(z - y) <= ROUNDING * (abs(y) + abs(z))))


def jump_at(f: Callable, limit: float, inside: float) -> float:
    """Return the distance from a limit beyond which f no longer jumps; 0 if it does not jump at all.

    `inside` is a point within the interval.
    """
    step = 8 * np.spacing(abs(limit)) * np.sign(limit - inside)
    with np.errstate(all="ignore"):
        y, z, next_z = (np.asarray(f(limit - k * step)) for k in range(3))
        jumps = abs(y - z) > CONTINUOUS * (abs(y) + abs(z))
        continues = abs(z - next_z) <= ROUNDING * (abs(z) + abs(next_z))
    return float(step) if np.any(jumps & continues) else 0.0


def moving_jump(f: Callable, changed: Callable, intervals: np.ndarray) -> float | None:
    """Return a point at which `f` jumps and that moves with the parameters; None if there is no such point.

    `f` maps a float to a 1-D array, and ``changed()`` returns it at slightly changed parameters. The intervals, of
    shape (n, 2), are the subintervals of an adaptive rule.
    """
    if not len(intervals):
        return None
    with np.errstate(all="ignore"):
        g = None
        for low, high in _jumps(f, intervals):
            g = g or changed()
            if moves(f, g, (low, high)):
                return 0.5 * (low + high)
    return None


def _jumps(f, intervals):
    """Yield pairs of neighbouring numbers between which f jumps."""
    intervals = intervals[np.isfinite(intervals).all(axis=1)]
    ends = np.unique(intervals)
    margin = INSIDE * (intervals[:, 1:] - intervals[:, :1])  # f may be undefined at the limits
    intervals = np.clip(intervals, ends[0] + margin, ends[-1] - margin)
    points = [*(ends[1:-1] if len(ends) <= MAX_ENDS else ()), *intervals.mean(axis=1)[:MAX_INTERVALS]]
    inside = [low + u * (high - low) for low, high in intervals[:MAX_INTERVALS] for u in (0.2113, 0.7887)]
    sizes = np.abs([f(x) for x in inside])  # not at the middle, where an odd function vanishes
    median = np.median(sizes, axis=0)
    size = np.where(median > 0, median, sizes.mean(axis=0))

    step = difference(size)
    spans = intervals[:MAX_INTERVALS].tolist()
    for x in points:
        if step(f(x - 8 * np.spacing(abs(x))), f(x + 8 * np.spacing(abs(x)))) > 1:
            width = 0.25 * np.min(abs(ends - x), where=ends != x, initial=np.inf)
            spans.append((x - width, x + width))
    for low, high in spans:
        if (pair := bisected(f, step, low, high)) is not None:
            yield pair
