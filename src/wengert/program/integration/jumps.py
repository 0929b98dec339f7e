"""Finds jumps of functions between neighbouring floats, and checks whether these move with parameters.

If the right-hand side of a differential equation jumps at a time that depends on the parameters, the derivative of the
solution has a term that tangents lack.  The step-size control rejects a step there, which shows where to look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

#: differences below this fraction of the usual size of the function count as continuous
CONTINUOUS = 1e-3

#: relative difference between neighbouring floats that may be due to rounding
ROUNDING = 1e-6

#: differences below this may be due to underflow
UNDERFLOW = 1e-290

#: second difference in an interval, relative to the first one, below which the function has no large jump there
CURVED = 0.1

#: elements below this fraction of the largest one may consist of rounding errors
NEGLIGIBLE = 1e-7

#: relative change of parameters
CHANGE = 1e-6

#: smallest scale of the change of an element, relative to the largest element of the state
SMALL = 1e-3


def moves(f: Callable, g: Callable, pair: tuple[float, float]) -> bool:
    """Return whether the jump of `f` between two neighbouring floats is elsewhere in `g`, the perturbed function."""
    low, high = pair
    with np.errstate(all="ignore"):
        before, after = f(low), f(high)
        moved = np.maximum(abs(g(low) - before), abs(g(high) - after))
        jumps = abs(after - before) > ROUNDING * (abs(before) + abs(after))
    return bool(np.any((moved > 0.5 * abs(after - before)) & jumps))


def difference(size: np.ndarray) -> Callable:
    """Return a function for `bisected` that measures the difference of two vectors in units of a significant one.

    It takes the largest difference of an element, relative to `size`, the magnitudes of the elements.
    """

    def step(y, z, near=0.0):
        excess = abs(z - y) / (CONTINUOUS * np.maximum(size, near) + ROUNDING * (abs(y) + abs(z)) + UNDERFLOW)
        return np.max(excess, where=np.isfinite(excess), initial=0.0)

    return step


def bisected(f: Callable, step: Callable, low: float, high: float) -> tuple[float, float] | None:
    """Bisect towards the larger difference; return the neighbouring floats at a jump, or None if f is continuous."""
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
    """Return neighbouring floats in a narrow interval between which f jumps; None if f is continuous there.

    Jumps that are small compared with the change of f over the interval are ignored.
    """
    first, middle, last = (f(x) for x in (low, 0.5 * (low + high), high))
    size = np.maximum(abs(first), abs(last))
    size = np.maximum(size, NEGLIGIBLE * np.max(size, initial=0.0))
    curved = abs(first - 2 * middle + last) > CURVED * abs(last - first)
    if not np.any(curved & (abs(last - first) > CONTINUOUS * size)):
        return None

    with np.errstate(all="ignore"):
        return bisected(f, difference(size), low, high)


def change(p: Any, size: Any = None) -> Any:
    """Return `p` with each element slightly changed, relative to `size`, by default the element's own magnitude."""
    p = np.asarray(p) + 0.0
    size = np.abs(p) if size is None else size
    signs = np.cos(np.arange(1.0, p.size + 1)).reshape(p.shape)
    return (p + CHANGE * np.where(size == 0, 1.0, size) * signs)[()]


def along(f: Callable, start: float, y: np.ndarray, end: float, z: np.ndarray) -> Callable:
    """Return a right-hand side as a function of time along a step, with the state interpolated linearly."""
    return lambda t: np.asarray(f(t, y + (t - start) / (end - start) * (z - y)))


def moving_jump(f: Callable, g: Callable, steps: list, start: float | None = None) -> float | None:
    """Return the time of a jump of the right-hand side that a small perturbation moves; None if there is none.

    Parameters
    ----------
    f, g : callable
        The right-hand side with given and with changed parameters, as functions of time and state.
    steps : list of tuple
        ``(start, y, end, z)``: from state y to z.
    start : float, optional
        A time at which the state is not perturbed: the start, if the initial state is constant (e.g. at rest).
    """
    for step in steps:
        pair = jump_between(along(f, *step), step[0], step[2])
        if pair is None:
            continue
        size = np.maximum(abs(step[1]), abs(step[3]))
        size = np.maximum(size, SMALL * np.max(size, initial=0.0))  # an element may vanish at the jump, in a short step
        changed = g if pair[0] == start else (lambda t, y, size=size: g(t, change(y, size)))
        if moves(along(f, *step), along(changed, *step), pair):
            return pair[0]
    return None
