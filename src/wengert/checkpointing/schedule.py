"""Checkpoint schedules: which states of a run of n steps to keep, which steps to run again, and when.

A schedule is an iterable of actions, frozen dataclasses of integers; it runs no model and knows no arrays.
Step k takes state k to state k + 1.
One state is *in hand*; `Store` copies it to a slot, `Load` takes it from one, `Advance` runs steps on it, and `Tape`
runs steps on it and records them, a *block*, for the `Reverse` that sweeps them.
Steps are swept from n - 1 down to 0, one block is held at a time, and nothing has been swept before the run first comes
to its end: up to the first `Reverse`, a schedule is the run forwards.
Slots ``0 .. ram - 1`` are in memory, ``ram .. ram + disk - 1`` on disk.
`simulate` carries out any schedule on integers and refuses an invalid one.

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
   Counts equal those of dynamic programming but for less than the fall of a room, where n divides badly.

References
----------
Griewank and Walther (2000), Algorithm 799: revolve. doi:10.1145/347837.347846
Stumm and Walther (2009), MultiStage approaches for optimal offline checkpointing. doi:10.1137/080718036
Maddison (2024), Step-based checkpointing with high-level algorithmic differentiation. doi:10.1016/j.jocs.2024.102405
"""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from math import comb, floor

# ---- actions -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Store:
    """Copy the state in hand, which is that at the beginning of `step`, to the empty slot `slot`."""

    step: int
    slot: int


@dataclass(frozen=True, slots=True)
class Load:
    """Take in hand the state at the beginning of `step` from `slot`, which is empty after it unless `keep`."""

    step: int
    slot: int
    keep: bool


@dataclass(frozen=True, slots=True)
class Free:
    """Empty `slot`, whose state is not needed again."""

    slot: int


@dataclass(frozen=True, slots=True)
class Advance:
    """Run steps ``first .. last - 1`` without recording them."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Tape:
    """Run and record steps ``first .. last - 1``: the block that the next `Reverse` sweeps."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Discard:
    """Let the tape go without sweeping it; the state at its end stays in hand."""


@dataclass(frozen=True, slots=True)
class Reverse:
    """Sweep the block just taped, steps ``last - 1`` down to ``first``, and let its tape go."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class End:
    """Every step has been swept, and no state is kept."""


# ---- schedules -----------------------------------------------------------------------------------


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
        Steps run beyond n: each of the n is taped once, others are advanced over.
    peak_bytes : int or None
        Most memory needed at any time, if `plan` was told what a state and a tape take.
    """

    peak_bytes = None

    @property
    def slots(self):
        """Slots, those on disk included."""
        return self.ram + self.disk

    @property
    def factor(self):
        """Recomputation factor: steps run, taped or not, over n."""
        return (self.n + self.extra_steps) / self.n if self.n else 1.0

    def slot(self, kept):
        """Slot of a state that is kept while `kept` others are.

        What was kept first is loaded least often, so that goes to disk: the multistage rule of Stumm and Walther.
        """
        return self.ram + kept if kept < self.disk else kept - self.disk

    def __iter__(self):
        if self.n:
            yield from _sweep(self, 0, self.n, self.slot)
        yield End()

    def __repr__(self):
        if self.n is None:
            text = f"any number of steps: at most {self.ram} states kept"
        else:
            text = f"{self.n} steps: {self.ram} states kept"
        if self.disk:
            text += f" and {self.disk} on disk"
        text += f", {self.block} steps taped at a time"
        if self.n:
            text += f", {self.extra_steps} extra steps, recomputation factor {self.factor:.3g}"
        if self.peak_bytes is not None:
            text += f", {self.peak_bytes / 1e6:.3g} MB"
        return f"<{type(self).__name__} of {text}>"


class Binomial(Schedule):
    """Rooms of `block` steps: every decision is in closed form, and memory is that of the states that are kept."""

    def __init__(self, n, ram, disk=0, block=1):
        self.n, self.block = n, min(block, n)
        slots = min(ram + disk, -(-n // block) - 1) if n else 0
        if n > block and not slots:
            raise ValueError(f"{n} steps cannot be swept {block} at a time without a state kept: allow one checkpoint")
        self.ram = min(ram, slots)
        self.disk = slots - self.ram
        self.price = 0
        while block * comb(slots + self.price, slots) < n:
            self.price += 1
        self.extra_steps = self.price * n - block * comb(slots + self.price, slots + 1)

    def room(self, kept):
        return self.block

    def right(self, steps, kept, price):
        """Steps of the right part of a stretch that is divided."""
        free = self.slots - kept  # that of the stretch itself included
        fewest = self.block * comb(free + price - 2, free) if price > 1 else self.block  # on the left
        return min(max(steps - fewest, self.block), self.block * comb(free + price - 1, price))

    def memory(self, state_bytes, tape_bytes):
        """Most bytes that kept states in memory and the tape of a block take at any time.

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


class Blocks(Schedule):
    """Rooms that fall as states are kept: tables of `fewest` and `most`, a row a price, a column a number of states."""

    def __init__(self, n, rooms, disk=0):
        self.n, self.rooms, self.block = n, rooms, min(rooms[0], n)
        thresholds = _thresholds(rooms)
        fractions = sorted({threshold % 1 for threshold in thresholds})
        ranks = {fraction: rank for rank, fraction in enumerate(fractions)}

        def divided_from(rank):
            """Per number of states kept: the row from which on it divides, for prices of that rank of fraction."""
            return [floor(threshold) + (ranks[threshold % 1] > rank) for threshold in thresholds]

        whole = _cover(rooms, divided_from(len(fractions)), lambda rows: rows[-1][0] >= n)
        self.price = len(whole) - 1
        enough = lambda rows: len(rows) > self.price
        rank = bisect_left(
            range(len(fractions) - 1), True, key=lambda rank: _cover(rooms, divided_from(rank), enough)[-1][0] >= n
        )
        above, below = divided_from(rank), divided_from(rank - 1)
        self.most, self.fewest = _cover(rooms, above, enough), _cover(rooms, below, enough)
        depth = next((q for q, row in enumerate(above) if row > self.price), len(above))
        self.disk = min(disk, depth)
        self.ram = depth - self.disk
        self.extra_steps = self._extra(_costs(self.most, above), _costs(self.fewest, below))

    def _extra(self, most, fewest):
        """Extra steps; of two parts one covers all that it can at its price, so only the other is divided further."""
        steps, kept, price, extra = self.n, 0, self.price, 0
        while steps > self.rooms[kept]:
            right = self.right(steps, kept, price)
            left = steps - right
            extra += left
            if left == self.fewest[price - 1][kept] and right > self.rooms[kept + 1]:
                extra += fewest[price - 1][kept]
                steps, kept = right, kept + 1
            else:
                extra += most[price][kept + 1] if right > self.rooms[kept + 1] else 0
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
        return max(
            max(kept - self.disk, 0) * state_bytes + min(room, self.n) * tape_bytes
            for kept, room in enumerate(self.rooms[: self.slots + 1])
        )


def _thresholds(rooms):
    """Price from which on a stretch is divided rather than taped, per number of states kept but the last.

    A stretch with room w_0 that is divided along to room w_j, its left parts taped, covers w_0 + ... + w_j steps, and
    costs w_0 + ... + w_(j - 1) extra ones; the least price that makes this better than w_0 at no cost, for any j, is
    the least of (w_0 + ... + w_(j - 1)) / (w_1 + ... + w_j).  Neighbours are pooled from the right to find it.
    """
    pools, found = [], []
    for room, following in zip(rooms[-2::-1], rooms[:0:-1]):
        cost, gain = room, following
        while pools and pools[-1][0] * gain < cost * pools[-1][1]:
            cost, gain = (a + b for a, b in zip(pools.pop(), (cost, gain)))
        pools.append((cost, gain))
        found.append(Fraction(cost, gain))
    return found[::-1]


def _cover(rooms, divided_from, enough):
    """Rows of the steps that a stretch covers at each price, from the lowest on until there are enough."""
    rows = [rooms]
    while not enough(rows):
        row, left = rooms.copy(), rows[-1]
        for kept in range(len(divided_from) - 1, -1, -1):
            if len(rows) >= divided_from[kept]:
                row[kept] = row[kept + 1] + left[kept]
        rows.append(row)
    return rows


def _costs(rows, divided_from):
    """Rows of the extra steps of stretches that cover what those of `_cover` say."""
    costs = [[0] * len(rows[0])]
    for price in range(1, len(rows)):
        row = [0] * len(rows[0])
        for kept in range(len(divided_from) - 1, -1, -1):
            if price >= divided_from[kept]:
                row[kept] = row[kept + 1] + costs[-1][kept] + rows[price - 1][kept]
        costs.append(row)
    return costs


def _sweep(tree, first, last, slot, fresh=True):
    """Actions that sweep a stretch whose first state is in hand.

    Parameters
    ----------
    tree : Schedule
        Its `price`, `room` and `right` decide.
    first, last : int
        The stretch is steps ``first .. last - 1``.
    slot : callable
        Slot of a state that is kept while that many others of this stretch are.
    fresh : bool
        Whether the first state is yet to be kept; otherwise it is in ``slot(0)``.
    """
    room, right = tree.room, tree.right
    price, depth = tree.price, 0
    kept = []  # first step and price of the stretches divided, whose right part is under way
    while True:
        if last - first <= room(depth):
            yield Tape(first, last)
            yield Reverse(first, last)
            if not kept:
                return
            last = first
            first, price = kept.pop()
            depth -= 1
            price -= 1
            fresh = last - first <= room(depth)  # its slot is free for the tape
            yield Load(first, slot(depth), not fresh)
        else:
            if fresh:
                yield Store(first, slot(depth))
            kept.append((first, price))
            middle = last - right(last - first, depth, price)
            yield Advance(first, middle)
            first, fresh = middle, True
            depth += 1


def rooms_of(n, memory, state_bytes, tape_bytes, ram=None, disk=0):
    rooms, covered = [], 0
    while covered < n and (ram is None or len(rooms) <= ram + disk):
        room = (memory - max(len(rooms) - disk, 0) * state_bytes) // tape_bytes
        if room < 1:
            break
        rooms.append(room)
        covered += room
    return rooms


@dataclass(frozen=True)
class Counts:
    advanced: int
    taped: int
    peak_ram: int
    peak_disk: int
    peak_tape: int
    peak_bytes: int


def simulate(schedule, state_bytes=0, tape_bytes=0):
    hand, slots, tape, left = 0, {}, None, schedule.n
    advanced = taped = peak_ram = peak_disk = peak_tape = peak_bytes = 0
    for action in schedule:
        match action:
            case Store(step, slot):
                if hand != step or slot in slots or slot >= schedule.slots:
                    raise ValueError(f"{action}: state {hand} is in hand, and slots {sorted(slots)} are taken")
                slots[slot] = step
            case Load(step, slot, keep):
                if slots.get(slot) != step:
                    raise ValueError(f"{action}: the slot holds {slots.get(slot)}")
                hand = step
                if not keep:
                    del slots[slot]
            case Free(slot):
                del slots[slot]
            case Advance(first, last):
                if hand != first or not first < last:
                    raise ValueError(f"{action}: state {hand} is in hand")
                hand = last
                advanced += last - first
            case Tape(first, last):
                if hand != first or tape or last != left or not first < last:
                    raise ValueError(f"{action}: state {hand} is in hand, step {left - 1} is to be swept next")
                tape, hand = (first, last), last
                taped += last - first
                peak_tape = max(peak_tape, last - first)
            case Reverse(first, last):
                if tape != (first, last):
                    raise ValueError(f"{action}: the tape holds {tape}")
                tape, left, hand = None, first, None
            case End():
                if left or slots or tape:
                    raise ValueError(f"{action}: {left} steps are left")
        in_ram = sum(slot < schedule.ram for slot in slots)
        peak_disk = max(peak_disk, len(slots) - in_ram)
        peak_ram = max(peak_ram, in_ram)
        peak_bytes = max(peak_bytes, in_ram * state_bytes + (tape[1] - tape[0] if tape else 0) * tape_bytes)
    return Counts(advanced, taped, peak_ram, peak_disk, peak_tape, peak_bytes)
