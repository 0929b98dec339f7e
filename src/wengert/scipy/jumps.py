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

#: maximum number of subintervals that are examined, the narrowest ones, and of ends of all of them
MAX_INTERVALS, MAX_ENDS = 12, 100

#: differences below this fraction of the usual size of the function count as continuous
CONTINUOUS = 1e-3

#: relative difference between neighbouring numbers that may be rounding errors
ROUNDING = 1e-6

#: differences below this may be due to underflow
UNDERFLOW = 1e-290

#: second difference in an interval, relative to the first one, below which the function has no large jump there
CURVED = 0.1

#: elements below this fraction of the largest one may consist of rounding errors
NEGLIGIBLE = 1e-7

#: distance from the limits that is not examined, as a fraction of the outermost subintervals
INSIDE = 2.0**-20

#: relative change of parameters
CHANGE = 1e-6


def subintervals(report: Any, a: float, b: float) -> np.ndarray:
    """Return the final subintervals of an adaptive rule of `scipy.integrate`, given its report, the narrowest first.

    Their shape is (n, 2).
    """
    if isinstance(report, dict):  # of quad
        last = report.get("last", 0)
        found = np.reshape([report.get("alist", [])[:last], report.get("blist", [])[:last]], (2, -1)).T
    else:  # of quad_vec
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
    """Return the point in the middle of an interval, as adaptive rules map it."""
    if np.isfinite(a):
        return 0.5 * (a + b) if np.isfinite(b) else a + 1.0
    return b - 1.0 if np.isfinite(b) else 1.0


def is_continuous(f: Callable, x: float) -> bool:
    """Return whether f has the same values on both sides of x, up to rounding errors."""
    low, high = x - 8 * np.spacing(abs(x)), x + 8 * np.spacing(abs(x))
    y, z = f(low), f(high)
    return bool(np.all(abs(z - y) <= ROUNDING * (abs(y) + abs(z))))


def jump_at(f: Callable, limit: float, inside: float) -> float:
    """Return the distance from a limit within which f jumps and beyond which it does not; 0 if it does not jump.

    `inside` is a point within the interval.
    """
    step = 8 * np.spacing(abs(limit)) * np.sign(limit - inside)
    with np.errstate(all="ignore"):
        y, z, next_z = (np.asarray(f(limit - k * step)) for k in range(3))
        jumps = abs(y - z) > CONTINUOUS * (abs(y) + abs(z))
        continues = abs(z - next_z) <= ROUNDING * (abs(z) + abs(next_z))
    return float(step) if np.any(jumps & continues) else 0.0


def moving_jump(f: Callable, changed: Callable, intervals: np.ndarray) -> float | None:
    """Return a point where `f` jumps, and jumps elsewhere if its parameters change; None if there is no such point.

    Parameters
    ----------
    f : callable
        Maps a float to a 1-D array.
    changed : callable
        Returns `f` at slightly changed parameters.
    intervals : ndarray, shape (n, 2)
        Subintervals of an adaptive rule.
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


def moves(f: Callable, g: Callable, pair: tuple[float, float]) -> bool:
    """Return whether the jump of `f` between neighbouring numbers is elsewhere in `g`, its changed version."""
    low, high = pair
    with np.errstate(all="ignore"):
        before, after = f(low), f(high)
        moved = np.maximum(abs(g(low) - before), abs(g(high) - after))
        jumps = abs(after - before) > ROUNDING * (abs(before) + abs(after))
    return bool(np.any((moved > 0.5 * abs(after - before)) & jumps))


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

    def step(y, z, near=0.0):
        """Largest difference between the elements of f at two points, in units of one that counts."""
        excess = abs(z - y) / (CONTINUOUS * np.maximum(size, near) + ROUNDING * (abs(y) + abs(z)) + UNDERFLOW)
        return np.max(excess, where=np.isfinite(excess), initial=0.0)

    spans = intervals[:MAX_INTERVALS].tolist()
    for x in points:
        if step(f(x - 8 * np.spacing(abs(x))), f(x + 8 * np.spacing(abs(x)))) > 1:
            width = 0.25 * np.min(abs(ends - x), where=ends != x, initial=np.inf)
            spans.append((x - width, x + width))
    for low, high in spans:
        if (pair := _bisected(f, step, low, high)) is not None:
            yield pair


def _bisected(f, step, low, high):
    """Halve the interval towards the larger difference; None if f is continuous there."""
    y, z = f(low), f(high)
    near = np.maximum(abs(y), abs(z))
    while step(y, z, near) > 1:
        if high - low <= 16 * np.spacing(max(abs(low), abs(high))):
            return low, high
        x = 0.5 * (low + high)
        middle = f(x)
        if step(y, middle) > step(middle, z):
            high, z = x, middle
        else:
            low, y = x, middle
    return None


def jump_between(f: Callable, low: float, high: float) -> tuple[float, float] | None:
    """Return neighbouring numbers in a narrow interval between which f jumps; None if f is continuous there.

    A jump that is small beside the change of f in the interval is not looked for.
    """
    first, middle, last = (f(x) for x in (low, 0.5 * (low + high), high))
    size = np.maximum(abs(first), abs(last))
    size = np.maximum(size, NEGLIGIBLE * np.max(size, initial=0.0))
    curved = abs(first - 2 * middle + last) > CURVED * abs(last - first)
    if not np.any(curved & (abs(last - first) > CONTINUOUS * size)):
        return None

    def step(y, z, near=0.0):
        excess = abs(z - y) / (CONTINUOUS * np.maximum(size, near) + ROUNDING * (abs(y) + abs(z)) + UNDERFLOW)
        return np.max(excess, where=np.isfinite(excess), initial=0.0)

    with np.errstate(all="ignore"):
        return _bisected(f, step, low, high)


def change(p: Any) -> Any:
    """Return the parameters, each slightly changed."""
    p = np.asarray(p) + 0.0
    signs = np.cos(np.arange(1.0, p.size + 1)).reshape(p.shape)
    return (p + CHANGE * np.where(p == 0, 1.0, np.abs(p)) * signs)[()]
