"""The actions of checkpoint schedules, and the judge of any schedule.

Step k takes state k to state k + 1.
One state is *in hand*; `Store` copies it to a slot, `Load` takes it from one, `Advance` runs steps on it, and `Tape`
runs steps on it and records them, a *block*, for the `Reverse` that sweeps them.
Steps are swept from n - 1 down to 0 and one block is held at a time, so the run forwards is everything up to the first
`Reverse`.
Slots ``0 .. ram - 1`` of a schedule are in memory, ``ram .. ram + disk - 1`` on disk.
"""

from collections import Counter
from dataclasses import dataclass


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
