"""Schedules for a known number of steps, as optimal binary trees.

Design
------
A. *A schedule is a binary tree.*
   A *segment* is a range of steps to be swept, whose first state is current.
   If it fits on a tape, it is taped and swept at once. Otherwise its first state is stored, its left part is advanced
   over, its right part is processed, and the state is loaded to process the left part.
   The right part has one more stored state; the steps of the left part have been run one more time.
   The number of extra steps is the sum over blocks of their steps times the number of left turns that lead to them.
B. *Tape capacity.*
   ``capacity(q)`` is the number of steps that can be taped while q states are stored. It is constant if slots are
   counted, and falls with q if bytes are, because tapes and states share them.
   Memory that no state needs any more is thus used for longer tapes.
C. *Prices.*
   Let covering a step be worth p extra steps, where p is the *price*.
   A block reached by k left turns is then worth (p - k) capacity(q). A segment is divided if its parts are worth more
   than its own tape: at each q from a threshold price on that does not depend on k, see `_thresholds`.
   The optimal p is the smallest one at which the tree covers n steps. n lies between the steps covered just below p and
   at p, `fewest` and `most`; a segment is divided so that the same holds for both of its parts.
   With constant capacity this is the binomial schedule of Griewank and Walther, `most` is a binomial coefficient and
   every decision a formula. With capacities that fall by one per slot it is the mixed schedule of Maddison.
   The number of extra steps equals that of dynamic programming, or exceeds it by at most the decrease of a capacity.

References
----------
Griewank and Walther (2000), Algorithm 799: revolve. doi:10.1145/347837.347846
Stumm and Walther (2009), MultiStage approaches for optimal offline checkpointing. doi:10.1137/080718036
Maddison (2024), Step-based checkpointing with high-level algorithmic differentiation. doi:10.1016/j.jocs.2024.102405
"""

import itertools
import sys
from bisect import bisect_left
from fractions import Fraction
from math import comb, floor

from .actions import Advance, End, Load, Reverse, Store, Tape, count


class Schedule:
    """Iterable of actions, which may be iterated any number of times.

    Attributes
    ----------
    n : int
        Number of steps.
    ram, disk : int
        Number of slots in memory and on disk.
    block : int
        Maximum number of steps taped at a time.
    extra_steps : int
        Number of steps advanced over; in addition each of the n steps is taped once.
    peak_bytes : int or None
        Maximum memory in bytes, if `plan` was given the sizes of a state and a tape.
    """

    peak_bytes = None

    @property
    def slots(self):
        """Number of slots, including those on disk."""
        return self.ram + self.disk

    @property
    def factor(self):
        """Recomputation factor: executed steps, taped or not, divided by n; None while n is not known."""
        if self.extra_steps is None:
            return None
        return (self.n + self.extra_steps) / self.n if self.n else 1.0

    def memory(self, state_bytes, tape_bytes):
        """Return the maximum number of bytes of the states stored in memory and the tape of a block.

        Parameters
        ----------
        state_bytes, tape_bytes : int
            Size of one state, and of the tape of one step, in bytes.

        Returns
        -------
        int
            Excludes the current state and the work buffers of a sweep.
        """
        return self.ram * state_bytes + self.block * tape_bytes

    def __iter__(self):
        return itertools.chain(sweep(self, 0, self.n, self._slot) if self.n else (), (End(),))

    def _slot(self, kept):
        """Return the slot of a state that is stored while `kept` others are stored.

        The states stored first are used least often, so they are on disk: the multistage rule of Stumm and Walther.
        """
        return self.ram + kept if kept < self.disk else kept - self.disk

    def __repr__(self):
        parts = [count("?" if self.n is None else self.n, "step"), count(self.ram, "state") + " in memory"]
        if self.disk:
            parts.append(f"{'any number' if self.disk == sys.maxsize else self.disk} on disk")
        parts.append(count(self.block, "step") + " on a tape")
        if self.extra_steps is not None:
            parts.append(count(self.extra_steps, "extra step") + f" (factor {self.factor:.3g})")
        if self.peak_bytes is not None:
            parts.append(f"at most {_size(self.peak_bytes)}")
        return f"<{type(self).__name__}: {', '.join(parts)}>"


def _size(number):
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.4g} {unit}"
        number /= 1000
    return f"{number:.4g} GB"


class Binomial(Schedule):
    """Schedule with a constant tape capacity of `block` steps; every decision is a formula.

    Up to `ram` and `disk` states, including the initial one, are stored in memory and on disk.
    """

    def __init__(self, n, ram, disk=0, block=1):
        slots = max(0, min(ram + disk, -(-n // block) - 1))
        if n > block and not slots:
            raise ValueError(_no_state(n, block))
        self.n, self.block = n, block
        self.ram = min(ram, slots)
        self.disk = slots - self.ram
        ceiling = 1
        while self._covered(slots, ceiling) < n:
            ceiling *= 2
        self.price = bisect_left(range(ceiling), n, key=lambda price: self._covered(slots, price))
        self.extra_steps = self.price * n - block * comb(slots + self.price, slots + 1)

    def _covered(self, free, price):
        """Return the number of steps covered at a price with `free` slots."""
        return self.block * comb(free + price, price)

    def capacity(self, kept):
        """Return the number of steps that can be taped while `kept` states are stored."""
        return self.block

    def right(self, steps, kept, price):
        """Return the number of steps in the right part of a segment that is divided."""
        free = self.slots - kept  # for the segment itself and its right part
        if price == 1:  # the most frequent case, without calls
            most = self.block * free
            return most if steps - self.block > most else max(steps - self.block, self.block)
        return min(max(steps - self._covered(free, price - 2), self.block), self._covered(free - 1, price))


class Blocks(Schedule):
    """Schedule whose tape capacity falls as states are stored.

    ``capacities[k]`` is the number of steps that can be taped while k states are stored; capacities are positive and do
    not increase. The first `disk` states are stored on disk. Tables hold the number of steps that can be reversed, by
    cost and number of stored states.
    """

    def __init__(self, n, capacities, disk=0):
        if n > capacities[0] and len(capacities) == 1:
            raise ValueError(_no_state(n, capacities[0]))
        self.n, self.capacities, self.block = n, capacities, min(capacities[0], n)
        thresholds = _thresholds(capacities)
        # A price has two parts: its integer part (the row), and the rank of its fraction among those of the thresholds.
        fractions = sorted({threshold % 1 for threshold in thresholds})
        ranks = {fraction: rank for rank, fraction in enumerate(fractions)}

        def divided_from(rank):
            """Return the first row in which a segment is divided, per number of stored states."""
            return [floor(threshold) + (ranks[threshold % 1] > rank) for threshold in thresholds]

        def cover(rank):
            return _cover(capacities, divided_from(rank), lambda rows: len(rows) > self.price)

        self.price = len(_cover(capacities, divided_from(len(ranks)), lambda rows: rows[-1][0] >= n)) - 1
        rank = bisect_left(range(len(ranks) - 1), True, key=lambda rank: cover(rank)[-1][0] >= n)
        self.most, self.fewest = cover(rank), cover(rank - 1)
        depth = next((kept for kept, row in enumerate(divided_from(rank)) if row > self.price), len(thresholds))
        self.disk = min(disk, depth)
        self.ram = depth - self.disk
        self.extra_steps = self._extra(divided_from(rank), divided_from(rank - 1))

    def _extra(self, *divided_from):
        """Return the extra steps; one part of each division is as long as possible, so only the other is followed."""
        most, fewest = (_costs(rows, start) for rows, start in zip((self.most, self.fewest), divided_from))
        steps, kept, price, extra = self.n, 0, self.price, 0
        while steps > self.capacities[kept]:
            right = self.right(steps, kept, price)
            left = steps - right
            extra += left
            if right == self.capacities[kept + 1]:
                steps, price = left, price - 1
            elif left == self.fewest[price - 1][kept]:
                extra += fewest[price - 1][kept]
                steps, kept = right, kept + 1
            else:
                extra += most[price][kept + 1]
                steps, price = left, price - 1
        return extra

    def capacity(self, kept):
        return self.capacities[kept]

    def right(self, steps, kept, price):
        left = self.fewest[price - 1][kept]
        return min(max(steps - left, self.capacities[kept + 1]), self.most[price][kept + 1])

    def memory(self, state_bytes, tape_bytes):
        capacities = self.capacities[: self.slots + 1]
        return max(
            max(kept - self.disk, 0) * state_bytes + min(capacity, self.n) * tape_bytes
            for kept, capacity in enumerate(capacities)
        )


def _no_state(n, block):
    return f"{count(n, 'step')} need at least one checkpoint, since a tape holds only {count(block, 'step')}"


def list_capacities(n, capacity, ram, disk=0):
    """Return the tape capacities per number of stored states that n steps can need; `disk` states are on disk."""
    capacities = [capacity(0)] * (disk + 1)
    covered = capacities[0] * len(capacities)
    while covered < n and len(capacities) <= ram + disk and capacity(len(capacities) - disk) > 0:
        capacities.append(capacity(len(capacities) - disk))
        covered += capacities[-1]
    return capacities


def _thresholds(capacities):
    """Return, per number of stored states, the price above which a segment is divided rather than taped.

    A segment with capacity w_0 that is divided down to capacity w_j, its left parts taped, covers w_0 + ... + w_j steps
    and costs w_0 + ... + w_(j - 1) extra ones. The smallest price at which some j beats w_0 at no cost is the minimum
    of (w_0 + ... + w_(j - 1)) / (w_1 + ... + w_j) over j. Pooling neighbours from the right finds it.
    """
    pools, found = [], []
    for capacity, following in zip(capacities[-2::-1], capacities[:0:-1]):
        cost, gain = capacity, following
        while pools and pools[-1][0] * gain < cost * pools[-1][1]:
            cost, gain = (a + b for a, b in zip(pools.pop(), (cost, gain)))
        pools.append((cost, gain))
        found.append(Fraction(cost, gain))
    return found[::-1]


def _cover(capacities, divided_from, is_enough):
    """Return rows of covered steps per number of stored states, for increasing prices until `is_enough`."""
    rows = [capacities]
    while not is_enough(rows):
        row, left = capacities.copy(), rows[-1]
        for kept in range(len(divided_from) - 1, -1, -1):
            if len(rows) >= divided_from[kept]:
                row[kept] = row[kept + 1] + left[kept]
        rows.append(row)
    return rows


def _costs(rows, divided_from):
    """Return the extra steps of the segments whose covered steps are the `rows` of `_cover`, in the same layout."""
    costs = [[0] * len(rows[0])]
    for price in range(1, len(rows)):
        row = [0] * len(rows[0])
        for kept in range(len(divided_from) - 1, -1, -1):
            if price >= divided_from[kept]:
                row[kept] = row[kept + 1] + costs[-1][kept] + rows[price - 1][kept]
        costs.append(row)
    return costs


def sweep(tree, first, last, slot, is_kept=False):
    """Yield actions that sweep the segment of steps ``first .. last - 1``, whose first state is current.

    ``slot(depth)`` is the slot of the state that is stored while `depth` others of the segment are; with `is_kept` the
    first state is already in ``slot(0)``.
    """
    capacity, right = tree.capacity, tree.right
    price, depth, where = tree.price, 0, slot(0)
    kept = []  # first step, price and slot of each divided segment whose right part is being swept
    while True:
        while last - first > capacity(depth):
            if not is_kept:
                where = slot(depth)
                yield Store(first, where)
            kept.append((first, price, where))
            middle = last - right(last - first, depth, price)
            yield Advance(first, middle)
            first, is_kept = middle, False
            depth += 1
        yield Tape(first, last)
        yield Reverse(first, last)
        while not is_kept:
            if not kept:
                return
            last = first
            first, price, where = kept.pop()
            price -= 1
            depth -= 1
            is_kept = last - first > capacity(depth)
            yield Load(first, where, is_kept)
            if not is_kept:
                yield Tape(first, last)
                yield Reverse(first, last)
