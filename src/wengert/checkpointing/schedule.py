"""Checkpoint schedules: which states of a run of n steps to store, and which steps to recompute, and when.

A schedule is an iterable of actions, which are frozen dataclasses of integers; it runs no model and knows no arrays.
`plan` returns the best schedule for a budget; `simulate` executes a schedule on integers and rejects an invalid one.

References
----------
Griewank and Walther (2000), Algorithm 799: revolve. doi:10.1145/347837.347846
Stumm and Walther (2009), MultiStage approaches for optimal offline checkpointing. doi:10.1137/080718036
"""

import sys

from .actions import Advance, Counts, Discard, End, Free, Load, Reverse, Store, Tape, simulate
from .online import Online
from .tree import Binomial, Blocks, Schedule, list_capacities

__all__ = [
    "Advance", "Binomial", "Blocks", "Counts", "Discard", "End", "Free", "Load", "Online", "Reverse", "Schedule",
    "Store", "Tape", "binomial", "blocks", "plan", "simulate", "two_level", "uniform",
]  # fmt: skip


def uniform(n, slots):
    """Schedule with up to `slots` equidistant checkpoints, and all steps between two of them taped at once.

    Parameters
    ----------
    n : int
        Number of steps.
    slots : int
        Number of stored states, including the initial one.

    Returns
    -------
    Schedule
    """
    return Binomial(n, slots, block=max(1, -(-n // slots)))


def binomial(n, slots):
    """Schedule with the fewest extra steps for `slots` stored states and one step on the tape (revolve).

    Parameters
    ----------
    n : int
        Number of steps.
    slots : int
        Number of stored states, including the initial one.

    Returns
    -------
    Schedule
    """
    return Binomial(n, slots)


def two_level(n, ram, disk):
    """Binomial schedule that stores the least used states on disk.

    Parameters
    ----------
    n : int
        Number of steps.
    ram, disk : int
        Number of states stored in memory and on disk.

    Returns
    -------
    Schedule
    """
    return Binomial(n, ram, disk)


def blocks(n, memory, state_bytes, tape_bytes, work_bytes=0, ram=None, disk=0):
    """Schedule with (almost) the fewest extra steps for states and tapes that share `memory`.

    Parameters
    ----------
    n : int
        Number of steps.
    memory : int
        Bytes for states in memory, the tape of a block, and `work_bytes`.
    state_bytes, tape_bytes : int
        Size of one state, and of the tape of one step, in bytes.
    work_bytes : int
        Bytes needed throughout.
    ram, disk : int
        Maximum number of states stored in memory, unlimited by default, and on disk. No more states are stored on disk
        than are needed to run every step at most twice.

    Returns
    -------
    Schedule

    Raises
    ------
    ValueError
        If no schedule fits; the message gives the smallest sufficient memory.
    """
    space, ram = memory - work_bytes, n if ram is None else ram
    _check_memory(memory, n, state_bytes, tape_bytes, work_bytes, is_on_disk=disk > 0)

    def capacity(kept):
        return (space - kept * state_bytes) // tape_bytes

    capacities = list_capacities(n, capacity, ram)
    disk = min(disk, -(min(0, sum(capacities) - n) // capacities[0]))
    return Blocks(n, list_capacities(n, capacity, ram, disk), disk)


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
    """Schedule with the fewest extra steps for a number of stored states, a number of bytes, or both.

    Parameters
    ----------
    n : int or None
        Number of steps; None if only the run determines it. The schedule is then `Online`.
    checkpoints : int, optional
        Maximum number of states stored in memory, including the initial one.
    memory : int, optional
        Bytes for states, the tape of a block, and `work_bytes`; if omitted, one step is taped at a time.
    spill : int or True, optional
        Bytes on disk for further states; True for no limit.
        No more are used than are needed to run every step at most twice.
    state_bytes, tape_bytes : int
        Size of one state, and of the tape of one step, in bytes.
    work_bytes : int
        Bytes needed throughout: the current state, adjoints.

    Returns
    -------
    Schedule
        With `peak_bytes`.

    Raises
    ------
    ValueError
        If no schedule fits; the message gives the smallest sufficient memory.
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
    """Online schedule with half the memory for states in the forward run, to maximise states times tape length."""
    _check_memory(memory, None, state_bytes, tape_bytes, work_bytes)
    space, most = memory - work_bytes, memory if checkpoints is None else checkpoints
    gap = max(1, space // 2 // tape_bytes)
    hold = max(1, (space - gap * tape_bytes) // state_bytes)
    ram = (space - tape_bytes) // state_bytes
    return Online(min(ram, most), disk, min(hold, most), lambda kept: (space - kept * state_bytes) // tape_bytes)
