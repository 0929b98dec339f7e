"""Checkpoint schedules: which states of a run of n steps to keep, which steps to run again, and when.

A schedule is an iterable of actions, frozen dataclasses of integers; it runs no model and knows no arrays.
`plan` chooses the best one for a budget; `simulate` carries out any schedule on integers and refuses an invalid one.
"""

import sys

from .actions import Advance, Counts, Discard, End, Free, Load, Reverse, Store, Tape, simulate
from .online import Online
from .tree import Binomial, Blocks, Schedule, list_rooms

__all__ = [
    "Advance",
    "Binomial",
    "Blocks",
    "Counts",
    "Discard",
    "End",
    "Free",
    "Load",
    "Online",
    "Reverse",
    "Schedule",
    "Store",
    "Tape",
    "binomial",
    "blocks",
    "plan",
    "simulate",
    "two_level",
    "uniform",
]


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
    """The fewest extra steps there can be with states and tapes in `memory`, or at most the fall of a room more.

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
    _check_memory(memory, n, state_bytes, tape_bytes, work_bytes, is_on_disk=disk > 0)

    def room(kept):
        return (space - kept * state_bytes) // tape_bytes

    rooms = list_rooms(n, room, ram)
    disk = min(disk, -(min(0, sum(rooms) - n) // rooms[0]))
    return Blocks(n, list_rooms(n, room, ram, disk), disk)


def _check_memory(memory, n, state_bytes, tape_bytes, work_bytes, is_on_disk=False):
    least = tape_bytes if is_on_disk else state_bytes + tape_bytes
    if n is not None:
        least = min(least, n * tape_bytes)
    if memory < work_bytes + least:
        raise ValueError(
            f"memory of {memory} bytes is too small: a state takes {state_bytes}, the tape of a step {tape_bytes}, and "
            f"work buffers {work_bytes}; give at least {work_bytes + least}"
        )


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
