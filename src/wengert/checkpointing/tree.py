"""Schedules for a known number of steps: binary trees, and how they are divided best.

Design
------
A. *A schedule is a binary tree.*
   A *stretch* is a run of steps still to be swept whose first state is in hand.
   It is taped and swept at once if it fits; else its first state is kept, the first part is advanced over, the right
   part is done, and the state is loaded for the left part.
   Right, one state more is kept; left, every step has been run once more.
   The extra steps of a schedule are the steps of each block times the left turns that lead to it.
B. *Rooms.*
   ``room(q)`` is how many steps can be taped while q states are kept: constant if slots are counted, falling with q if
   bytes are, because tapes and states share them.
   Memory that no state needs any more is thus used for longer tapes.
C. *Prices.*
   Let a step that is covered be worth p extra steps.
   A block reached by k left turns is then worth (p - k) room(q), and a stretch is divided where its parts are worth
   more than it would be worth taped: at each q from a price on that does not depend on k, see `_thresholds`.
   The right p is the least one at which the tree covers n steps; n lies between what it covers just below p and at p,
   `fewest` and `most`, and a stretch is divided so that both parts lie between theirs.
   With constant rooms this is the binomial schedule of Griewank and Walther, `most` a binomial coefficient and every
   decision a formula; with rooms that fall by one a slot it is the mixed schedule of Maddison.
   Counts equal those of dynamic programming, or are above them by at most the fall of a room, where n divides badly.

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

from .actions import Advance, End, Load, Reverse, Store, Tape


class Schedule:
    """An iterable of actions, any number of times.

    Attributes
    ----------
    n : int
        Steps.
    ram, disk : int
        Slots in memory and on disk.
    block : int
        Largest number of steps taped at a time.
    extra_steps : int
        Steps that are run beyond n: each of the n is taped once, and these are advanced over.
    peak_bytes : int or None
        Most memory needed at any time, where `plan` was told what a state and a tape take.
    """

    peak_bytes = None

    @property
    def slots(self):
        """Slots, those on disk included."""
        return self.ram + self.disk

    @property
    def factor(self):
        """Recomputation factor: steps run, taped or not, over n; None while n is not known."""
        if self.extra_steps is None:
            return None
        return (self.n + self.extra_steps) / self.n if self.n else 1.0

    def memory(self, state_bytes, tape_bytes):
        """Most bytes that states kept in memory and the tape of a block take at any time.

        Parameters
        ----------
        state_bytes, tape_bytes : int
            Bytes of one state, and of the tape of one step.

        Returns
        -------
        int
            The state in hand and what a sweep works on are not counted.
        """
        return self.ram * state_bytes + self.block * tape_bytes

    def __iter__(self):
        return itertools.chain(sweep(self, 0, self.n, self._slot) if self.n else (), (End(),))

    def _slot(self, kept):
        """Slot of a state that is kept while `kept` others are.

        What was kept first is used least often, so that is on disk: the multistage rule of Stumm and Walther.
        """
        return self.ram + kept if kept < self.disk else kept - self.disk

    def __repr__(self):
        parts = [f"{'?' if self.n is None else self.n} steps", f"{self.ram} states in memory"]
        if self.disk:
            parts.append(f"{'any number' if self.disk == sys.maxsize else self.disk} on disk")
        parts.append(f"{self.block} steps on a tape")
        if self.extra_steps is not None:
            parts.append(f"{self.extra_steps} extra steps (factor {self.factor:.3g})")
        if self.peak_bytes is not None:
            parts.append(f"at most {_size(self.peak_bytes)}")
        return f"<{type(self).__name__}: {', '.join(parts)}>"


def _size(number):
    """Bytes in the unit that one would choose."""
    for unit in ("bytes", "kB", "MB"):
        if number < 1000:
            return f"{number:.4g} {unit}"
        number /= 1000
    return f"{number:.4g} GB"


class Binomial(Schedule):
    """Rooms of `block` steps: every decision is a formula.

    Parameters
    ----------
    n : int
        Steps.
    ram, disk : int
        States kept at most in memory and on disk, that at the beginning included.
    block : int
        Steps taped at a time.
    """

    def __init__(self, n, ram, disk=0, block=1):
        slots = max(0, min(ram + disk, -(-n // block) - 1))
        if n > block and not slots:
            raise ValueError(_no_state(n, block))
        self.n, self.block = n, block
        self.ram = min(ram, slots)
        self.disk = slots - self.ram
        ceiling = 1
        while self._most(slots, ceiling) < n:
            ceiling *= 2
        self.price = bisect_left(range(ceiling), n, key=lambda price: self._most(slots, price))
        self.extra_steps = self.price * n - block * comb(slots + self.price, slots + 1)

    def _most(self, free, price):
        """Steps covered at a price with some slots free."""
        return self.block * comb(free + price, price)

    def room(self, kept):
        """Steps that can be taped while `kept` states are kept."""
        return self.block

    def right(self, steps, kept, price):
        """Steps of the right part of a stretch that is divided."""
        free = self.slots - kept  # for the stretch itself and its right part
        if price == 1:  # most stretches, so without calls
            most = self.block * free
            return most if steps - self.block > most else max(steps - self.block, self.block)
        return min(max(steps - self._most(free, price - 2), self.block), self._most(free - 1, price))


class Blocks(Schedule):
    """Rooms that fall as states are kept: tables of what is covered, a row a price, a column a number of states.

    Parameters
    ----------
    n : int
        Steps.
    rooms : list of int
        Steps that can be taped while 0, 1, ... states are kept; positive and not increasing.
    disk : int
        How many of the states that are kept first are on disk.
    """

    def __init__(self, n, rooms, disk=0):
        if n > rooms[0] and len(rooms) == 1:
            raise ValueError(_no_state(n, rooms[0]))
        self.n, self.rooms, self.block = n, rooms, min(rooms[0], n)
        thresholds = _thresholds(rooms)
        # A price is a row, its whole part, and the rank of its fraction among those at which a stretch changes.
        fractions = sorted({threshold % 1 for threshold in thresholds})
        ranks = {fraction: rank for rank, fraction in enumerate(fractions)}

        def divided_from(rank):
            """Row from which on a stretch is divided, per number of states kept."""
            return [floor(threshold) + (ranks[threshold % 1] > rank) for threshold in thresholds]

        def cover(rank):
            return _cover(rooms, divided_from(rank), lambda rows: len(rows) > self.price)

        self.price = len(_cover(rooms, divided_from(len(ranks)), lambda rows: rows[-1][0] >= n)) - 1
        rank = bisect_left(range(len(ranks) - 1), True, key=lambda rank: cover(rank)[-1][0] >= n)
        self.most, self.fewest = cover(rank), cover(rank - 1)
        depth = next((kept for kept, row in enumerate(divided_from(rank)) if row > self.price), len(thresholds))
        self.disk = min(disk, depth)
        self.ram = depth - self.disk
        self.extra_steps = self._extra(divided_from(rank), divided_from(rank - 1))

    def _extra(self, *divided_from):
        """Extra steps: of two parts one covers all that it can at its price, so only the other is divided again."""
        most, fewest = (_costs(rows, start) for rows, start in zip((self.most, self.fewest), divided_from))
        steps, kept, price, extra = self.n, 0, self.price, 0
        while steps > self.rooms[kept]:
            right = self.right(steps, kept, price)
            left = steps - right
            extra += left
            if right == self.rooms[kept + 1]:
                steps, price = left, price - 1
            elif left == self.fewest[price - 1][kept]:
                extra += fewest[price - 1][kept]
                steps, kept = right, kept + 1
            else:
                extra += most[price][kept + 1]
                steps, price = left, price - 1
        return extra

    def room(self, kept):
        """Steps that can be taped while `kept` states are kept."""
        return self.rooms[kept]

    def right(self, steps, kept, price):
        """Steps of the right part of a stretch that is divided."""
        left = self.fewest[price - 1][kept]
        return min(max(steps - left, self.rooms[kept + 1]), self.most[price][kept + 1])

    def memory(self, state_bytes, tape_bytes):
        rooms = self.rooms[: self.slots + 1]
        return max(
            max(kept - self.disk, 0) * state_bytes + min(room, self.n) * tape_bytes for kept, room in enumerate(rooms)
        )


def _no_state(n, block):
    return f"{n} steps, of which {block} fit on a tape, need at least one checkpoint"


def list_rooms(n, room, ram, disk=0):
    """As many rooms as n steps can need, the first states on disk."""
    rooms = [room(0)] * (disk + 1)
    covered = rooms[0] * len(rooms)
    while covered < n and len(rooms) <= ram + disk and room(len(rooms) - disk) > 0:
        rooms.append(room(len(rooms) - disk))
        covered += rooms[-1]
    return rooms


def _thresholds(rooms):
    """Price from which on a stretch is divided rather than taped, per number of states kept.

    A stretch with room w_0 that is divided along to room w_j, its left parts taped, covers w_0 + ... + w_j steps and
    costs w_0 + ... + w_(j - 1) extra ones.  The least price at which that is better than w_0 at no cost, for some j, is
    the least (w_0 + ... + w_(j - 1)) / (w_1 + ... + w_j).  Neighbours are pooled from the right to find it.
    """
    pools, found = [], []
    for room, following in zip(rooms[-2::-1], rooms[:0:-1]):
        cost, gain = room, following
        while pools and pools[-1][0] * gain < cost * pools[-1][1]:
            cost, gain = (a + b for a, b in zip(pools.pop(), (cost, gain)))
        pools.append((cost, gain))
        found.append(Fraction(cost, gain))
    return found[::-1]


def _cover(rooms, divided_from, is_enough):
    """Rows of the steps that a stretch covers, per number of states kept; prices rise until it is enough."""
    rows = [rooms]
    while not is_enough(rows):
        row, left = rooms.copy(), rows[-1]
        for kept in range(len(divided_from) - 1, -1, -1):
            if len(rows) >= divided_from[kept]:
                row[kept] = row[kept + 1] + left[kept]
        rows.append(row)
    return rows


def _costs(rows, divided_from):
    """Rows of the extra steps of stretches that cover what the rows of `_cover` say."""
    costs = [[0] * len(rows[0])]
    for price in range(1, len(rows)):
        row = [0] * len(rows[0])
        for kept in range(len(divided_from) - 1, -1, -1):
            if price >= divided_from[kept]:
                row[kept] = row[kept + 1] + costs[-1][kept] + rows[price - 1][kept]
        costs.append(row)
    return costs


def sweep(tree, first, last, slot, is_kept=False):
    """Actions that sweep the stretch of steps ``first .. last - 1``, whose first state is in hand.

    ``slot(depth)`` is for the state that is kept while `depth` others of the stretch are; with `is_kept` the first
    state is already in ``slot(0)``.
    """
    room, right = tree.room, tree.right
    price, depth, where = tree.price, 0, slot(0)
    kept = []  # first step, price and slot of the stretches that are divided and whose right part is under way
    while True:
        while last - first > room(depth):
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
            is_kept = last - first > room(depth)
            yield Load(first, where, is_kept)
            if not is_kept:
                yield Tape(first, last)
                yield Reverse(first, last)
