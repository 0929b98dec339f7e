"""Re-rolls straight-line scalar code into loops for the LLVM back end.

An item is one instruction or loop.
Its *key* holds everything that does not change between iterations; its *base* holds the integers that do: its own
position first, then the positions of its operands and offsets in arrays.
Unrolled code is periodic: after L items the keys repeat, and each integer grows by the same step in every period.
Such a run becomes one item, whose key holds the keys of one period, the number of periods and the steps, and whose base
is that of the first period. Loops are items of the next round, so nested loops are found in the same way.
"""

from __future__ import annotations

import collections
import math
from typing import NamedTuple

import numpy as np

#: minimum number of iterations of a loop, and of instructions that it saves
_MIN_ITERATIONS, _MIN_SAVED = 3, 24

#: limit on the items in a loop body
_MAX_PERIOD = 1024

#: if a round leaves more than this share of the instructions, further rounds are not expected to help
_MAX_PROGRESS = 0.9

#: once a period covers this share of the code, longer ones are not tried
_SUFFICIENT_COVERAGE = 0.3


class Loop(NamedTuple):
    """The key of a loop: number of iterations, keys in the body, lengths of their bases, step per integer."""

    times: int
    keys: tuple
    widths: tuple
    steps: tuple


class Item(NamedTuple):
    key: object
    base: list
    size: int  # unrolled instructions
    left: int = 1  # instructions to emit, with loop bodies counted once


def rolled(items: list[Item], most: float = math.inf) -> list[Item]:
    """Replace repeated items by loops until none repeats, or until more than `most` items are expected to remain."""
    numbers: dict = {}
    left = count(items)
    while (found := _round(items, numbers)) is not None:
        items, before, left = found, left, count(found)
        if left > max(2 * most, _MAX_PROGRESS * before):
            break
    return items


def _round(items, numbers):
    """Roll the shortest period that covers much of the code, else the best period; None if nothing repeats."""
    keys = np.array([numbers.setdefault(item.key, len(numbers)) for item in items])
    hashes = _linear_hashes([item.base for item in items])
    weight = np.concatenate([[0], np.cumsum([item.left for item in items])])
    most, best = 0, None
    for period in range(1, min(_MAX_PERIOD, len(items) // _MIN_ITERATIONS) + 1):
        runs = _runs(keys, hashes, weight, period)
        covered = sum(period * times for _, times in runs)
        if covered > most:
            most, best = covered, (period, runs)
        if covered > _SUFFICIENT_COVERAGE * len(items):
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


_WEIGHTS = np.random.default_rng(0).integers(1, 1 << 63, 64).astype(np.uint64)


def _linear_hashes(bases):
    """Hash each base linearly: hashes of successive bases differ by a constant if all their integers do."""
    found, alike = np.zeros(len(bases), np.uint64), collections.defaultdict(list)
    for i, base in enumerate(bases):
        alike[len(base)].append(i)
    for n, places in alike.items():
        numbers = np.array([bases[i] for i in places], np.int64).astype(np.uint64).reshape(-1, n)
        found[places] = (numbers * np.resize(_WEIGHTS, n)).sum(axis=1, dtype=np.uint64)
    return found


def _runs(keys, hashes, weight, period):
    """Return the runs of repeated items, as pairs of a start and a number of periods."""
    is_same = keys[period:] == keys[:-period]
    moved = hashes[period:] - hashes[:-period]
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
        if times >= _MIN_ITERATIONS and weight[after] - weight[start + period] >= _MIN_SAVED:
            found.append((start, times))
            end = after
    return found


def _loop(items, period):
    """Return the items of a run as one loop; None if the steps are not constant after all."""
    rows = [[v for x in items[i : i + period] for v in x.base] for i in range(0, len(items), period)]
    bases = np.array(rows, np.int64)
    moved = np.diff(bases, axis=0)
    if (moved != moved[0]).any():
        return None
    keys, widths = tuple([x.key for x in items[:period]]), tuple([len(x.base) for x in items[:period]])
    key = Loop(len(rows), keys, widths, tuple(moved[0].tolist()))
    return Item(key, rows[0], sum(x.size for x in items), count(items[:period]))


def count(items: list[Item]) -> int:
    """Count the instructions to emit, with loop bodies counted once."""
    return sum([item.left for item in items])
