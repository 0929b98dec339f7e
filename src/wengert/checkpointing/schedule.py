"""Checkpoint schedules: which states of a run of n steps to keep, which steps to run again, and when.

A schedule is an iterable of actions, frozen dataclasses of integers; it runs no model and knows no arrays.
Step k takes state k to state k + 1.
One state is *in hand*; `Store` copies it to a slot, `Load` takes it from one, `Advance` runs steps on it, and `Tape`
runs steps on it and records them, a *block*, for the `Reverse` that sweeps them.
`Reverse` actions go from step n - 1 down to 0; one block is held at a time, and the first is taped when the run first
comes to its end, so everything up to the first `Tape` is the run forwards.
Slots ``0 .. ram - 1`` are in memory, ``ram .. ram + disk - 1`` on disk.
`simulate` carries out any schedule on integers and refuses an invalid one.
"""

from dataclasses import dataclass
from math import comb


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
class Reverse:
    """Sweep the block just taped, steps ``last - 1`` down to ``first``, and let its tape go."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class End:
    """Every step has been swept."""


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
        Steps run without being taped; every step is taped once more.
    """

    def __init__(self, n, ram, disk, block, extra_steps):
        self.n, self.ram, self.disk, self.block, self.extra_steps = n, ram, disk, block, extra_steps

    @property
    def slots(self):
        """Slots, those on disk included."""
        return self.ram + self.disk

    @property
    def factor(self):
        """Recomputation factor: steps run, taped or not, over n."""
        return (self.n + self.extra_steps) / self.n if self.n else 1.0

    def memory(self, state_bytes, tape_bytes):
        """Most bytes that kept states in memory and the tapes of a block of steps take at any time.

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
        raise NotImplementedError


class Binomial(Schedule):
    """Griewank and Walther's schedule over blocks of steps, every decision in closed form."""

    def __init__(self, n, slots, block=1):
        reps = _repetitions(n, slots, block)
        extra = reps * n - block * comb(slots + reps, slots + 1) if reps else 0
        super().__init__(n, slots, 0, block, extra)

    def _split(self, steps, slots):
        """Steps to advance before the next state is kept; `slots` are free, that of the present state among them."""
        block = self.block
        reps = _repetitions(steps, slots, block)
        left = block * comb(slots + reps - 1, slots)
        right = block * comb(slots + reps - 2, slots - 1)
        return min(left, steps - right)

    def __iter__(self):
        stack = []
        first, last = 0, self.n
        while last:
            if last - first <= self.block:
                yield Tape(first, last)
                yield Reverse(first, last)
                last = first
                if stack:
                    first = stack[-1]
                    slot = len(stack) - 1
                    keep = last - first > self.block
                    yield Load(first, slot, keep)
                    if not keep:
                        stack.pop()
                continue
            if not stack or stack[-1] != first:
                yield Store(first, len(stack))
                stack.append(first)
            middle = first + self._split(last - first, self.ram - len(stack) + 1)
            yield Advance(first, middle)
            first = middle
        yield End()


def _repetitions(steps, slots, block):
    """Times that a step is advanced at most, in the cheapest schedule."""
    reps = 0
    while block * comb(slots + reps, slots) < steps:
        reps += 1
    return reps


def uniform(n, slots):
    """Keep `slots` states at equal distances, and tape from one to the next."""
    return Binomial(n, slots, -(-n // slots))


def binomial(n, slots):
    """The fewest extra steps possible with `slots` states kept, that at the beginning included."""
    return Binomial(n, slots)


def plan(n, *, checkpoints=None, memory=None, spill=None, state_bytes, tape_bytes, work_bytes=0):
    """The cheapest schedule for n steps within a number of kept states, or of bytes.

    Parameters
    ----------
    n : int or None
        Steps; None where their number is found while they run: the result is then an `Online` schedule.
    checkpoints : int, optional
        States kept at most.
    memory : int, optional
        Bytes for kept states, the tapes of a block, and `work_bytes`.
    spill : int or True, optional
        Bytes, or any number of them, of disk for states that memory has no room for.
    state_bytes, tape_bytes : int
        Bytes of one state, and of the tape of one step.
    work_bytes : int
        Bytes needed all the time: the state in hand, adjoints.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If no schedule fits: the message names the smallest budget that would do.
    """
    if checkpoints is not None:
        return binomial(n, checkpoints)
    room = memory - work_bytes
    choices = [Binomial(n, 0, n)] if n * tape_bytes <= room else []
    for block in range(1, room // tape_bytes + 1):
        slots = (room - block * tape_bytes) // state_bytes
        if slots:
            choices.append(Binomial(n, slots, block))
    if not choices:
        raise ValueError(f"{state_bytes + tape_bytes + work_bytes} bytes are the least that do")
    return min(choices, key=lambda s: s.extra_steps)


@dataclass(frozen=True)
class Counts:
    """What a schedule did: steps advanced and taped, most slots in use and most steps on a tape at any time."""

    advanced: int
    taped: int
    peak_ram: int
    peak_disk: int
    peak_tape: int


def simulate(schedule):
    """Carry out a schedule on integers.

    Parameters
    ----------
    schedule : Schedule

    Returns
    -------
    Counts

    Raises
    ------
    ValueError
        At the first action that cannot be carried out, and where an end comes too early.
    """
    hand, slots, tape, left = 0, {}, None, schedule.n
    advanced = taped = peak_ram = peak_disk = peak_tape = 0
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
        peak_disk = max(peak_disk, sum(slot >= schedule.ram for slot in slots))
        peak_ram = max(peak_ram, sum(slot < schedule.ram for slot in slots))
    return Counts(advanced, taped, peak_ram, peak_disk, peak_tape)
