"""Loops found again in long lists of numbers, for machine code.

An instruction is a *key*, all that is the same wherever it stands, and a *base*, integers that move: its own place
first, then the places of the values that it reads and offsets in arrays.
A list that a loop has left is periodic: after L instructions the keys come again, and each integer has moved by the
same step as in the period before.
Such a run becomes one item, whose key holds the keys of the period, the number of periods and the steps, and whose
base is that of its first period.  So a loop is an instruction of the next round, and loops over loops are found alike.
"""

from __future__ import annotations

import itertools
import operator
from typing import NamedTuple

import numpy as np

#: a loop has so many periods at least, and saves so many instructions
_TIMES, _GAIN = 3, 24

#: the longest period, in items
_LONGEST = 1024

#: a period that covers this part of the list is taken before longer ones are tried
_COVER = 0.3


class Loop(NamedTuple):
    """Key of a loop: how often, the keys of what is repeated, sizes of their bases, and a step for each integer."""

    times: int
    keys: tuple
    widths: tuple
    steps: tuple


class Item(NamedTuple):
    key: object
    base: list
    size: int  # instructions


def rolled(items: list[Item]) -> list[Item]:
    """The list with loops for what is repeated."""
    numbers: dict = {}
    while True:
        found = _round(items, numbers)
        if found is None:
            return items
        items = found


def _round(items, numbers):
    """The list with the loops of one period, the shortest that covers much of it; None if there are none."""
    keys = np.array([numbers.setdefault(item.key, len(numbers)) for item in items])
    marks = np.array([_mark(item.base) for item in items], np.uint64)
    weight = np.concatenate([[0], np.cumsum([_count(item.key) for item in items])])
    most, best = 0, None
    for period in range(1, min(_LONGEST, len(items) // _TIMES) + 1):
        runs = _runs(keys, marks, weight, period)
        covered = sum(period * times for _, times in runs)
        if covered > most:
            most, best = covered, (period, runs)
        if covered > _COVER * len(items):
            break
    if best is None:
        return None
    found = []
    end = 0
    for start, times in best[1]:
        loop = _loop(items[start : start + best[0] * times], best[0])
        if loop is not None:
            found += [*items[end:start], loop]
            end = start + best[0] * times
    return [*found, *items[end:]] if found else None


_WEIGHTS = np.random.default_rng(0).integers(1, 1 << 63, 64).tolist()


def _mark(base):
    """A number that moves by a constant if all integers do; hardly ever otherwise."""
    return sum(map(operator.mul, base, itertools.cycle(_WEIGHTS))) & 0xFFFFFFFFFFFFFFFF


def _runs(keys, marks, weight, period):
    """Where the list repeats itself: pairs of a start and a number of periods."""
    is_same = keys[period:] == keys[:-period]
    moved = marks[period:] - marks[:-period]
    good = is_same[period:] & is_same[:-period] & (moved[period:] == moved[:-period])
    if not good.any():
        return []
    edges = np.flatnonzero(np.diff(np.concatenate([[False], good, [False]])))
    found = []
    end = 0
    for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist()):
        start = max(start, end)
        times = (stop - start) // period + 2
        after = start + times * period
        if times >= _TIMES and weight[after] - weight[start + period] >= _GAIN:
            found.append((start, times))
            end = after
    return found


def _loop(items, period):
    """The items of a run as one; None if they do not move as it seemed."""
    rows = [[v for x in items[i : i + period] for v in x.base] for i in range(0, len(items), period)]
    bases = np.array(rows, np.int64)
    moved = np.diff(bases, axis=0)
    if (moved != moved[0]).any():
        return None
    keys, widths = tuple([x.key for x in items[:period]]), tuple([len(x.base) for x in items[:period]])
    key = Loop(len(rows), keys, widths, tuple(moved[0].tolist()))
    return Item(key, rows[0], sum(x.size for x in items))


def count(items: list[Item]) -> int:
    """Instructions that are left to be written."""
    return sum(_count(item.key) for item in items)


def _count(key):
    return sum(map(_count, key.keys)) if isinstance(key, Loop) else 1
