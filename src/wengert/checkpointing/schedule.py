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

import itertools
import sys
from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from math import comb, floor

# ---- actions -------------------------------------------------------------------------------------


def _action(cls):
    """A frozen dataclass that is faster to make, by the million: its slots are written without asking `object`."""
    cls = dataclass(frozen=True, slots=True)(cls)
    names = cls.__slots__
    space = {f"set_{name}": vars(cls)[name].__set__ for name in names}
    body = "; ".join(f"set_{name}(self, {name})" for name in names) or "pass"
    exec(f"def __init__({', '.join(['self', *names])}): {body}", space)
    cls.__init__ = space["__init__"]
    return cls


@_action
class Store:
    """Copy the state in hand, which is that at the beginning of `step`, to the empty slot `slot`."""

    step: int
    slot: int


@_action
class Load:
    """Take in hand the state at the beginning of `step` from `slot`, which is empty after it unless `keep`."""

    step: int
    slot: int
    keep: bool


@_action
class Free:
    """Empty `slot`, whose state is not needed again."""

    slot: int


@_action
class Advance:
    """Run steps ``first .. last - 1`` without recording them."""

    first: int
    last: int


@_action
class Tape:
    """Run and record steps ``first .. last - 1``: the block that the next `Reverse` sweeps."""

    first: int
    last: int


@_action
class Discard:
    """Let the tape go without sweeping it; the state at its end stays in hand."""


@_action
class Reverse:
    """Sweep the block just taped, steps ``last - 1`` down to ``first``, and let its tape go."""

    first: int
    last: int


@_action
class End:
    """Every step has been swept, and no state is kept."""


# ---- a number of steps that is known -------------------------------------------------------------


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
        """Recomputation factor: steps run, taped or not, over n."""
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
        if self.n:
            yield from _sweep(self, 0, self.n, self._slot)
        yield End()

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
            parts.append(f"{self.peak_bytes / 1e6:.3g} MB")
        return f"<{type(self).__name__}: {', '.join(parts)}>"


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
            raise ValueError(f"{n} steps, {block} on a tape: at least one state has to be kept, and checkpoints=0")
        self.n, self.block = n, block
        self.ram = min(ram, slots)
        self.disk = slots - self.ram
        self.price = 0
        while self._most(slots, self.price) < n:
            self.price += 1
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
        if price == 1:  # most stretches
            return min(max(steps - self.block, self.block), self.block * free)
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


def _rooms(n, room, ram, disk=0):
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


def _sweep(tree, first, last, slot, is_kept=False):
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


def uniform(n, slots):
    """Keep up to `slots` states at equal distances, and tape all steps from one to the next.

    Parameters
    ----------
    n : int
        Steps.
    slots : int
        States kept, that at the beginning included.

    Returns
    -------
    Schedule
    """
    return Binomial(n, slots, block=max(1, -(-n // slots)))


def binomial(n, slots):
    """The fewest extra steps there can be with `slots` states kept and one step on the tape.

    Parameters
    ----------
    n : int
        Steps.
    slots : int
        States kept, that at the beginning included.

    Returns
    -------
    Schedule
    """
    return Binomial(n, slots)


def two_level(n, ram, disk):
    """The binomial schedule, the states that are used least often on disk.

    Parameters
    ----------
    n : int
        Steps.
    ram, disk : int
        States kept in memory and on disk.

    Returns
    -------
    Schedule
    """
    return Binomial(n, ram, disk)


def blocks(n, memory, state_bytes, tape_bytes, work_bytes=0, ram=None, disk=0):
    """The fewest extra steps there can be with states and tapes in `memory`, but for less than a room.

    Parameters
    ----------
    n : int
        Steps.
    memory : int
        Bytes for states in memory, the tape of a block, and `work_bytes`.
    state_bytes, tape_bytes : int
        Bytes of one state, and of the tape of one step.
    work_bytes : int
        Bytes needed all the time.
    ram, disk : int
        States kept at most in memory, by default any number, and on disk, where no more are kept than make every step
        run at most twice.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If no schedule fits; the message names the smallest memory that would do.
    """
    space, ram = memory - work_bytes, n if ram is None else ram

    def room(kept):
        return (space - kept * state_bytes) // tape_bytes

    _check_memory(memory, n, state_bytes if ram and not disk else 0, tape_bytes, work_bytes)
    rooms = _rooms(n, room, ram)
    disk = min(disk, -(min(0, sum(rooms) - n) // rooms[0]))
    if n > rooms[0] and not disk and len(rooms) == 1:
        raise ValueError(f"{n} steps, {rooms[0]} on a tape: at least one state has to be kept, and checkpoints=0")
    return Blocks(n, _rooms(n, room, ram, disk), disk)


def _check_memory(memory, n, state_bytes, tape_bytes, work_bytes):
    least = state_bytes + tape_bytes
    if n is not None:
        least = min(least, n * tape_bytes)
    if memory < work_bytes + least:
        raise ValueError(
            f"memory of {memory} bytes is too small: work buffers take {work_bytes}, a state {state_bytes} and the tape "
            f"of a step {tape_bytes}; give at least {work_bytes + least}"
        )


# ---- a number of steps that is not known ---------------------------------------------------------


class Online(Schedule):
    """A schedule for a run whose end is not known: `finalize` tells it, in the midst of the actions.

    Forwards, a state is kept every so many steps, and when all places are taken, every other state is dropped.
    The first steps are taped, in case there are no more.
    Backwards, each gap between two kept states has its own schedule, in the memory that is free by then.

    Parameters
    ----------
    ram, disk : int
        Slots in memory and on disk.
    hold : int, optional
        States kept in memory in the run forwards, at most `ram`.
    room : callable, optional
        Maps a number of states kept in memory to that of steps that can be taped; without it that is one step.

    Attributes
    ----------
    n : int or None
        Steps; None until `finalize`.
    """

    extra_steps = None

    def __init__(self, ram, disk=0, hold=None, room=None):
        if ram < 1:
            raise ValueError("a run whose end is not known needs at least one checkpoint")
        self.n, self.ram, self.disk = None, ram, disk
        self.hold, self._room = hold or ram, room
        self.block = room(0) if room else 1

    def finalize(self, n):
        """There are `n` steps.

        To be called once, as soon as it is known that step `n` is not to be run: before the first action, in the midst
        of the steps of an `Advance` or `Tape`, which stops there, or after them, before the next action.
        """
        if self.n not in (None, n):
            raise ValueError(f"the run has ended after {self.n} steps, it cannot end after {n}")
        self.n = n

    def __iter__(self):
        if self.n != 0:
            gap = self._room(self.hold) if self._room else 1
            yield Store(0, 0)
            yield Tape(0, self._until(gap))
            if self._until(gap + 1) <= gap:
                yield Free(0)
                if self.n:
                    yield Reverse(0, self.n)
            else:
                yield Discard()
                kept = yield from self._forwards(gap)
                yield from self._backwards(kept)
        yield End()

    def _until(self, step):
        return step if self.n is None else min(step, self.n)

    def _forwards(self, gap):
        """Run to the end; returns what is kept, (step, slot) in ascending order."""
        step, kept, empty = gap, [(0, 0)], []
        unused = itertools.chain(range(1, self.hold), range(self.ram, self.slots))
        while self._until(step + 1) > step:
            if len(kept) == self.hold + self.disk:
                gap *= 2
                empty += [slot for _, slot in kept[1::2]]
                yield from self._thin(kept)
            if step % gap == 0 and len(kept) < self.hold + self.disk:
                kept.append((step, empty.pop(0) if empty else next(unused)))
                yield Store(*kept[-1])
            following = step + gap - step % gap
            yield Advance(step, self._until(following))
            step = self._until(following)
        return kept

    def _thin(self, kept):
        """Drop every other state."""
        for _, slot in kept[1::2]:
            yield Free(slot)
        del kept[1::2]

    def _backwards(self, kept):
        if kept[-1][0] == self.n:
            yield Free(kept.pop()[1])
        while len(kept) > 1 and self._extra(kept[::2]) < self._extra(kept):
            yield from self._thin(kept)
        taken = {slot for _, slot in kept}
        for first, last, slot, tree in self._gaps(kept):
            empty = itertools.islice((slot for slot in range(self.ram) if slot not in taken), max(tree.slots - 1, 0))
            is_kept = last - first > tree.room(0)
            yield Load(first, slot, is_kept)
            yield from _sweep(tree, first, last, [slot, *empty].__getitem__, is_kept)
            taken.remove(slot)

    def _gaps(self, kept):
        """First and last step, slot and schedule of each gap, in the order of sweeping."""
        last, in_ram = self.n, sum(slot < self.ram for _, slot in kept)
        for first, slot in reversed(kept):
            on_disk = slot >= self.ram
            in_ram -= not on_disk
            yield first, last, slot, self._gap(last - first, in_ram, on_disk)
            last = first

    def _gap(self, steps, in_ram, on_disk):
        """Schedule of a gap while `in_ram` states before it are in memory."""
        free = self.ram - in_ram
        if not self._room:
            return Binomial(steps, free, on_disk)
        return Blocks(steps, _rooms(steps, lambda kept: self._room(in_ram + kept), free, on_disk))

    def _extra(self, kept):
        return sum(gap.extra_steps for *_, gap in self._gaps(kept))


# ---- the best for a budget -----------------------------------------------------------------------


def plan(n, *, checkpoints=None, memory=None, spill=None, state_bytes, tape_bytes, work_bytes=0):
    """The schedule with the fewest extra steps within a number of kept states, a number of bytes, or both.

    Parameters
    ----------
    n : int or None
        Steps; None where the run itself finds its end: the schedule is then `Online`.
    checkpoints : int, optional
        States kept at most in memory, that at the beginning included.
    memory : int, optional
        Bytes for states, the tape of a block, and `work_bytes`; without it one step is taped at a time.
    spill : int or True, optional
        Bytes on disk for further states; True for any number.
        No more is used than makes every step run at most twice.
    state_bytes, tape_bytes : int
        Bytes of one state, and of the tape of one step.
    work_bytes : int
        Bytes needed all the time: the state in hand, adjoints.

    Returns
    -------
    Schedule
        With `peak_bytes`.

    Raises
    ------
    ValueError
        If no schedule fits; the message names the smallest memory that would do.
    """
    if checkpoints is None and memory is None:
        raise ValueError("a schedule needs checkpoints, memory, or both")
    state_bytes, tape_bytes = max(state_bytes, 1), max(tape_bytes, 1)
    disk = sys.maxsize if spill is True else (spill or 0) // state_bytes
    if memory is None:
        schedule = Online(checkpoints, disk) if n is None else Binomial(n, checkpoints, disk)
    elif n is None:
        schedule = _online(memory, state_bytes, tape_bytes, work_bytes, checkpoints, disk)
    else:
        schedule = blocks(n, memory, state_bytes, tape_bytes, work_bytes, checkpoints, disk)
    schedule.peak_bytes = work_bytes + schedule.memory(state_bytes, tape_bytes)
    if memory is not None:
        schedule.peak_bytes = min(schedule.peak_bytes, memory)
    return schedule


def _online(memory, state_bytes, tape_bytes, work_bytes, checkpoints, disk):
    """Half of the memory for states in the run forwards: the product of their number and the room left is largest."""
    _check_memory(memory, None, state_bytes, tape_bytes, work_bytes)
    space, most = memory - work_bytes, memory if checkpoints is None else checkpoints
    gap = max(1, space // 2 // tape_bytes)
    hold = max(1, (space - gap * tape_bytes) // state_bytes)
    ram = (space - tape_bytes) // state_bytes
    return Online(min(ram, most), disk, min(hold, most), lambda kept: (space - kept * state_bytes) // tape_bytes)


# ---- the judge -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counts:
    """What carrying out a schedule came to.

    Attributes
    ----------
    advanced, taped : int
        Steps run without and with recording.
    stores, loads : int
        States copied to and from slots on disk.
    peak_ram, peak_disk : int
        Most states kept in memory and on disk.
    peak_tape : int
        Most steps on a tape.
    peak_bytes : int
        Most bytes that states in memory and the tape take at the same time.
    """

    advanced: int = 0
    taped: int = 0
    stores: int = 0
    loads: int = 0
    peak_ram: int = 0
    peak_disk: int = 0
    peak_tape: int = 0
    peak_bytes: int = 0


def simulate(schedule, state_bytes=0, tape_bytes=0, end=None):
    """Carry out a schedule on integers.

    Parameters
    ----------
    schedule : Schedule
        Or any iterable of actions with `n`, `ram` and `disk`.
    state_bytes, tape_bytes : int
        Bytes of one state, and of the tape of one step.
    end : int, optional
        Steps after which a schedule whose `n` is None is told that there are no more.

    Returns
    -------
    Counts

    Raises
    ------
    ValueError
        At an action that cannot be carried out, or where steps are not swept exactly once from the last to the first.
    """
    n = schedule.n
    hand, kept, tape, unswept = 0, {}, None, n  # state in hand; step by slot; steps on the tape; steps not swept
    disk = range(schedule.ram, schedule.ram + schedule.disk)
    total, peak = Counter(), Counter()
    action = None

    def require(claim, problem):
        if not claim:
            raise ValueError(f"{action}: {problem}")

    def run(first, last):
        """The step after which the run stops, which an unknown end decides."""
        nonlocal hand, n, unswept
        require(tape is None, f"steps {tape} are on the tape")
        require(hand == first, f"state {hand} is in hand")
        require(first < last, "no step is run")
        if n is None and end <= last:
            schedule.finalize(end)
            n = unswept = last = end
        require(n is None or last <= n, f"there are {n} steps")
        hand = last
        return last

    for action in schedule:
        require(unswept != -1, "after the end")
        match action:
            case Store(step, slot):
                require(tape is None, f"steps {tape} are on the tape")
                require(hand == step, f"state {hand} is in hand")
                require(slot not in kept, f"the slot holds state {kept.get(slot)}")
                require(0 <= slot < schedule.ram or slot in disk, "there is no such slot")
                kept[slot] = step
                total["stores"] += slot in disk
            case Load(step, slot, keep):
                require(tape is None, f"steps {tape} are on the tape")
                require(kept.get(slot) == step, f"the slot holds state {kept.get(slot)}")
                hand = step
                total["loads"] += slot in disk
                if not keep:
                    del kept[slot]
            case Free(slot):
                require(slot in kept, "the slot is empty")
                del kept[slot]
            case Advance(first, last):
                total["advanced"] += run(first, last) - first
            case Tape(first, last):
                tape = first, run(first, last)
                total["taped"] += tape[1] - first
            case Discard():
                require(tape is not None, "nothing is on the tape")
                tape = None
            case Reverse(first, last):
                require(tape == (first, last), f"steps {tape} are on the tape")
                require(last == unswept, f"{unswept} steps are not swept yet")
                tape, hand, unswept = None, None, first
            case End():
                require(unswept == 0, f"{unswept} steps are not swept yet")
                require(not kept, f"states {sorted(kept.values())} are kept")
                unswept = -1
            case _:
                require(False, "no action of a schedule")
        steps = tape[1] - tape[0] if tape else 0
        on_disk = sum(slot in disk for slot in kept)
        in_ram = len(kept) - on_disk
        now = {"ram": in_ram, "disk": on_disk, "tape": steps, "bytes": in_ram * state_bytes + steps * tape_bytes}
        for name, value in now.items():
            peak[f"peak_{name}"] = max(peak[f"peak_{name}"], value)
    require(unswept == -1, "the last action is not End")
    return Counts(**total, **peak)
