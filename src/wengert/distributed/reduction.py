"""Pairwise summation in a fixed order, and its cost on many workers.

The summands are the leaves of a binary tree whose shape depends only on their number.
A node covers ``2**level`` consecutive summands; it is the sum of its left and its right half, in that order.
The nodes that remain, one for each set bit of the number of summands, are added from right to left.
Who computes a node, and when, changes nothing: sums are equal to the last bit for any number of workers.

The error of a sum of n terms is bounded by ``log2(n)`` roundings. ``log2(n)`` nodes are stored if summands arrive in
order, and at most ``log2(n)`` more for each summand that is still missing to the left of others.

Reference: Higham (1993), The accuracy of floating point summation, section 3. doi:10.1137/0914050
"""

from __future__ import annotations

import heapq
import math
from typing import Any, NamedTuple

import numpy as np


class PairwiseSum:
    """Sum of arrays that arrive in any order; complete siblings are added at once."""

    def __init__(self):
        self._nodes: dict[tuple[int, int], Any] = {}
        self.max_nodes = 0

    def add(self, level: int, index: int, value: np.ndarray) -> None:
        """Add the sum of ``2**level`` summands, beginning with summand ``index * 2**level``.

        The array belongs to this object from then on, which may overwrite it.
        """
        while (other := self._nodes.pop((level, index ^ 1), None)) is not None:
            left, right = (other, value) if index & 1 else (value, other)
            value = added(left, right)
            level, index = level + 1, index >> 1
        self._nodes[level, index] = value
        self.max_nodes = max(self.max_nodes, len(self._nodes))

    def nodes(self) -> list[tuple[int, int, np.ndarray]]:
        """Return the nodes without a sibling so far, from left to right, as (level, index, sum)."""
        return [(*place, self._nodes[place]) for place in sorted(self._nodes, key=_first)]

    def total(self) -> np.ndarray:
        """Return the sum of all summands."""
        nodes = self.nodes()
        total = nodes.pop()[2]
        for _, _, value in reversed(nodes):
            total = added(value, total)
        return total


def _first(place):
    level, index = place
    return index << level


def added(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the sum of two arrays, in the memory of the first one."""
    return np.add(left, right, out=left)


class Cost(NamedTuple):
    """Cost of one sum on a cluster; see `simulate`."""

    seconds: float  # time from the first task to the sum
    efficiency: float  # time of one worker without communication, divided by workers times `seconds`
    sent: int  # bytes that the driver sends
    received: int  # bytes that the driver receives
    depth: int  # additions on the longest path from a summand to the sum
    max_nodes: int  # arrays that the driver holds at once


def simulate(
    chunks: int,
    workers: int,
    *,
    seconds: float,
    size: int,
    per_task: int = 1,
    latency: float = 1e-3,
    bandwidth: float = 1e9,
    jitter: float = 0.0,
    seed: int = 0,
) -> Cost:
    """Simulate one sum: workers that compute chunks, and a driver that sends points and adds results, one at a time.

    Parameters
    ----------
    chunks : int
        Number of chunks.
    workers : int
        Number of workers.
    seconds : float
        Time to compute one chunk.
    size : int
        Bytes of the point, and of the result of a task.
    per_task : int
        Number of consecutive chunks that a worker adds up itself, a power of 2.
    latency : float
        Time that the driver spends on a task, besides the transfer of its data.
    bandwidth : float
        Bytes that the driver sends or receives per second.
    jitter : float
        Standard deviation of the time of a chunk, relative to it.
    seed : int
        Seed of the random times.

    Returns
    -------
    Cost
        Time, efficiency, transferred bytes, depth of the sum, and arrays in the memory of the driver.

    Examples
    --------
    >>> from wengert.distributed import simulate
    >>> plan = simulate(1000, 1000, seconds=10.0, size=8 * 10**4)
    >>> plan.depth, plan.sent, plan.efficiency > 0.8
    (10, 80000000, True)
    """
    if per_task < 1 or per_task & (per_task - 1):
        raise ValueError(f"simulate: per_task must be a power of 2, not {per_task}")
    random = np.random.default_rng(seed)
    level = per_task.bit_length() - 1
    tasks = -(-chunks // per_task)
    transfer = size / bandwidth
    total = PairwiseSum()
    clock = work = 0.0
    running: list[tuple[float, int]] = []
    for task in range(tasks + 1):
        while running and (task == tasks or len(running) == workers):
            ended, index = heapq.heappop(running)
            clock = max(clock, ended) + latency + transfer
            for place in _nodes_of(index * per_task, min(chunks, (index + 1) * per_task), level):
                total.add(*place, np.zeros(1))
        if task < tasks:
            count = min(chunks, (task + 1) * per_task) - task * per_task
            spent = count * seconds * max(0.1, 1 + jitter * random.standard_normal() / math.sqrt(count))
            work += spent
            clock += transfer
            heapq.heappush(running, (clock + spent, task))
    depth = max(0, chunks - 1).bit_length()
    return Cost(clock, work / (workers * clock), tasks * size, tasks * size, depth, total.max_nodes)


def _nodes_of(first, last, level):
    """Return the nodes of the summands from `first` to `last`; `first` is where a node of the given level starts."""
    while first < last:
        while first + (1 << level) > last:
            level -= 1
        yield level, first >> level
        first += 1 << level
