"""Actions of a checkpoint schedule, and `simulate`, which validates a schedule and counts its cost.

Step k maps state k to state k + 1.
There is one *current state*. `Store` copies it to a slot and `Load` restores it from one. `Advance` runs steps on it.
`Tape` runs steps and records them as a *block*, which `Reverse` sweeps.
Steps are swept from n - 1 down to 0 and one block is held at a time, so the forward run consists of the actions before
the first `Reverse`.
Slots ``0 .. ram - 1`` of a schedule are in memory, ``ram .. ram + disk - 1`` on disk.
"""

from collections import Counter
from dataclasses import dataclass


def _action(cls):
    """Make a frozen dataclass with a fast constructor that sets slots directly; schedules have millions of actions."""
    cls = dataclass(frozen=True, slots=True)(cls)
    names = cls.__slots__
    space = {f"set_{name}": vars(cls)[name].__set__ for name in names}
    body = "; ".join(f"set_{name}(self, {name})" for name in names) or "pass"
    exec(f"def __init__({', '.join(['self', *names])}): {body}", space)
    cls.__init__ = space["__init__"]
    return cls


@_action
class Store:
    """Copy the current state, the one before step `step`, to the empty slot `slot`."""

    step: int
    slot: int


@_action
class Load:
    """Restore the state before step `step` from `slot`, and empty the slot unless `keep`."""

    step: int
    slot: int
    keep: bool


@_action
class Free:
    """Empty `slot`; its state is not needed again."""

    slot: int


@_action
class Advance:
    """Run steps ``first .. last - 1`` without recording them."""

    first: int
    last: int


@_action
class Tape:
    """Run and record steps ``first .. last - 1`` as the block that the next `Reverse` sweeps."""

    first: int
    last: int


@_action
class Discard:
    """Release the tape without sweeping it; the state at its end remains current."""


@_action
class Reverse:
    """Sweep the recorded block, steps ``last - 1`` down to ``first``, and release its tape."""

    first: int
    last: int


@_action
class End:
    """Mark the end: every step has been swept, and all slots are empty."""


@dataclass(frozen=True)
class Counts:
    """Cost of executing a schedule.

    Attributes
    ----------
    advanced, taped : int
        Steps run without and with recording.
    stores, loads : int
        Number of states copied to and from slots on disk.
    peak_ram, peak_disk : int
        Maximum number of states in memory and on disk.
    peak_tape : int
        Maximum number of steps on a tape.
    peak_bytes : int
        Maximum number of bytes of states in memory and the tape together.
    """

    advanced: int = 0
    taped: int = 0
    stores: int = 0
    loads: int = 0
    peak_ram: int = 0
    peak_disk: int = 0
    peak_tape: int = 0
    peak_bytes: int = 0


def count(number, noun) -> str:
    """Format a number with a noun, in the plural unless the number is 1."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def simulate(schedule, state_bytes=0, tape_bytes=0, end=None):
    """Execute a schedule on integers, validating every action.

    Parameters
    ----------
    schedule : Schedule
        Or any iterable of actions with `n`, `ram` and `disk`.
    state_bytes, tape_bytes : int
        Size of one state, and of the tape of one step, in bytes.
    end : int, optional
        Number of steps after which a schedule whose `n` is None is finalised.

    Returns
    -------
    Counts

    Raises
    ------
    ValueError
        If an action cannot be executed, or steps are not swept exactly once from the last to the first.
    """
    n = schedule.n
    current, stored = 0, {}  # current state; stored state by slot
    tape, unswept = None, n  # steps on the tape; number of steps not yet swept
    disk = range(schedule.ram, schedule.ram + schedule.disk)
    total, peak = Counter(), Counter()
    action = None

    def require(claim, problem):
        if not claim:
            raise ValueError(f"{action}: {problem}")

    def run(first, last):
        """Run steps; return the step after the last one, which is earlier than `last` if the run ends before."""
        nonlocal current, n, unswept
        require(tape is None, f"steps {tape} are on the tape")
        require(current == first, f"the current state is {current}")
        require(first < last, "no step is run")
        if n is None and end <= last:
            schedule.finalize(end)
            n = unswept = last = end
        require(n is None or last <= n, f"the schedule has {count(n, 'step')}")
        current = last
        return last

    for action in schedule:
        require(unswept != -1, "after the end")
        match action:
            case Store(step, slot):
                require(tape is None, f"steps {tape} are on the tape")
                require(current == step, f"the current state is {current}")
                require(slot not in stored, f"the slot holds state {stored.get(slot)}")
                require(0 <= slot < schedule.ram or slot in disk, "there is no such slot")
                stored[slot] = step
                total["stores"] += slot in disk
            case Load(step, slot, keep):
                require(tape is None, f"steps {tape} are on the tape")
                require(stored.get(slot) == step, f"the slot holds state {stored.get(slot)}")
                current = step
                total["loads"] += slot in disk
                if not keep:
                    del stored[slot]
            case Free(slot):
                require(slot in stored, "the slot is empty")
                del stored[slot]
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
                require(last == unswept, f"{count(unswept, 'step')} left to sweep")
                tape, current, unswept = None, None, first
            case End():
                require(unswept == 0, f"{count(unswept, 'step')} left to sweep")
                require(not stored, f"states {sorted(stored.values())} are still stored")
                unswept = -1
            case _:
                require(False, "not an action of a schedule")
        steps = tape[1] - tape[0] if tape else 0
        on_disk = sum(slot in disk for slot in stored)
        in_ram = len(stored) - on_disk
        now = {"ram": in_ram, "disk": on_disk, "tape": steps, "bytes": in_ram * state_bytes + steps * tape_bytes}
        for name, value in now.items():
            peak[f"peak_{name}"] = max(peak[f"peak_{name}"], value)
    require(unswept == -1, "the last action is not End")
    return Counts(**total, **peak)
