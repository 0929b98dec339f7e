"""Checkpointed loops and calls: each is one tape entry, whose steps are recorded again, block by block, when swept.

In the forward run each step is recorded on a *tail*, a temporary extension of the tape, which is then dropped, so its
values cannot be used later.
In the reverse sweep the schedule determines which states to load and which steps to record: a block is recorded on a
tail, swept, and dropped.
The sweep of a block accumulates into the adjoints of the tape, which covers all values that a step reads from outside.

Reference: Griewank and Walther (2008), Evaluating Derivatives, chapter 12. doi:10.1137/1.9780898717761
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

import wengert.numpy  # noqa: F401  (registers NumPy's functions for the rebinding of code)
from wengert.checkpointing import schedule as schedules
from wengert.checkpointing.entry import CallEntry, LoopEntry
from wengert.checkpointing.state import is_inexact
from wengert.checkpointing.steps import Steps
from wengert.core.levels import Watch, running
from wengert.core.modes.nested import NestedTape
from wengert.core.modes.pullback import independent, own_copy
from wengert.core.rebind.rebind import rebound
from wengert.core.tape.tape import Tape

P = ParamSpec("P")
R = TypeVar("R")


def loop(
    step: Callable,
    state: Any,
    n: int | None = None,
    *,
    args: tuple = (),
    cond: Callable | None = None,
    checkpoints: int | schedules.Schedule | None = None,
    memory: str | int | None = "2GB",
    spill: str | None = None,
    collect: int | Callable | None = None,
    verify: bool = False,
    progress: bool = False,
) -> Any:
    """Run ``state = step(state, *args)`` n times; its reverse-mode derivative takes bounded memory.

    Few states are stored, and steps are recomputed in the reverse sweep.

    Parameters
    ----------
    step : callable
        Maps a state to a state of the same structure and shapes. It may work in place, and it may read traced
        variables from outside, which are differentiated like `args`.
    state : array, scalar or container
        Dicts, dataclasses, lists and tuples of arrays, of scalars, and of any other objects, which are kept unchanged.
        The state itself is not changed: each step gets a copy.
    n : int, optional
        Number of steps. Exactly one of `n` and `cond` is given.
    args : tuple
        Further arguments of `step` and `cond`.
    cond : callable, optional
        The loop runs while ``cond(state, *args)`` is true.
    checkpoints : int or Schedule, optional
        Maximum number of stored states, or a schedule made by `wengert.checkpointing`.
    memory : str, int or None
        Bytes for states, recorded steps and work buffers, such as ``"50MB"``. None: no limit.
    spill : str, optional
        Folder for states that exceed the memory; its files are removed afterwards.
        Not used for states with tangents, in second derivatives.
    collect : int or callable, optional
        Also return a history: the state after every `collect` steps, or ``collect(state)`` after every step.
    verify : bool
        Compare every recomputed step with its first run, by a hash of the state.
    progress : bool
        Show a progress bar, which requires tqdm.

    Returns
    -------
    state
        The state after the last step; with `collect` a pair ``(state, history)``, where each leaf has a leading axis.

    Raises
    ------
    LevelError
        If a value made in a step is used outside it, or a step writes into a traced array that is not in its state.
    ReplayMismatchError
        If a recomputed step gives another result.
    ValueError
        If the memory is too small, or the shapes of the state change.

    See Also
    --------
    checkpoint : Recompute a single call.
    wengert.implicit.root : Differentiate a converged iteration without its steps.

    Notes
    -----
    A loop that fits in memory is recorded without checkpoints. Gradients do not depend on the schedule, to the last
    bit.

    Random generators in the state, in `args` and in variables that `step` reads are reset when steps are recomputed.
    Output, to the screen or to files, is repeated.

    Memory is bounded for reverse mode and for forward over reverse, as in `hessian` and `hvp`. For reverse over reverse
    and in programs the steps are unrolled.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> def f(rate):
    ...     return np.sum(wg.loop(lambda u: u - rate * u**2, np.ones(3), 1000, checkpoints=10))
    >>> float(round(wg.grad(f, 0.01), 4))
    -24.1573
    """
    if (n is None) == (cond is None):
        raise TypeError("wengert.loop: give either the number of steps n or the condition cond")
    if n is not None and (isinstance(n, bool) or not isinstance(n, (int, np.integer)) or n < 0):
        raise ValueError(f"wengert.loop: n must be a number of steps, not {n!r}")
    if collect is not None and not callable(collect) and (not isinstance(collect, (int, np.integer)) or collect < 1):
        raise ValueError(f"wengert.loop: collect must be a number of steps or a function of the state, not {collect!r}")
    steps = Steps("wengert.loop", step, args, cond, state, collect, verify, progress)
    recorder, k = _recorder()
    if recorder is None or n == 0:
        return steps.unrolled(state, n)
    leaves = steps.form.leaves(state)
    entry = LoopEntry(steps, recorder, leaves, n)
    if recorder.forgets:
        return entry.results_only(recorder)
    schedule = _schedule(entry, n, k, checkpoints, memory, spill)
    if schedule is None or (n is not None and schedule.block >= n):
        return steps.unrolled(state, n)
    return entry.record(schedule, leaves, spill if k == 0 else None)


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """Recompute and record a call when it is swept; until then only its result takes memory.

    Parameters
    ----------
    f : callable
        Its arguments and the variables that it reads are differentiated as usual. It must not change them.

    Returns
    -------
    callable
        With the signature of `f`.

    Raises
    ------
    LevelError
        If a value made inside is used outside and was not returned, or `f` writes into an array passed to it.
    ReplayMismatchError
        If the recomputed call gives another result.

    See Also
    --------
    loop : Checkpointed loop within a memory limit.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> @wg.checkpoint
    ... def layer(u, w):
    ...     return np.tanh(w @ u)
    >>> w = np.eye(2)
    >>> wg.grad(lambda u: np.sum(layer(layer(u, w), w)), [0.0, 0.0])
    array([1., 1.])
    """
    if not callable(f):
        raise TypeError(f"checkpoint: expected a function, got {type(f).__name__}")

    @functools.wraps(f)
    def call(*args, **kwargs):
        recorder, _ = _recorder()
        if recorder is None or recorder.forgets:
            return (f if not running.get() else rebound(f))(*args, **kwargs)
        return CallEntry(f, args, kwargs).record(recorder)

    return call


def measure(step: Callable, state: Any, *, args: tuple = ()) -> dict:
    """Return the bytes of one state, of the tape of one step, and of the work buffers of a sweep, for use by `plan`.

    Parameters
    ----------
    step, state, args
        As for `wengert.loop`.

    Returns
    -------
    dict
        With the keys ``state_bytes``, ``tape_bytes`` and ``work_bytes``.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from wengert.checkpointing import measure, plan
    >>> plan(1000, memory=100_000, **measure(lambda u: np.sin(u) * u, np.ones(100))).factor < 3
    True
    """
    steps = Steps("wengert.loop", step, args, None, state, None, False, False)
    tape = Tape("measure")
    token = running.set((tape,))
    try:
        steps.step = rebound(step)
        leaves = [independent(tape, own_copy(leaf)) if is_inexact(leaf) else leaf for leaf in steps.form.leaves(state)]
        return LoopEntry(steps, tape, leaves, None).measured(0)
    finally:
        running.reset(token)
        tape.close()


def _recorder() -> tuple[Any, int]:
    """Return the innermost tape and the number of forward directions around it; (None, 0) if steps must be unrolled.

    A tape is returned only if one reverse-mode derivative is running and it is the innermost one.
    """
    levels = running.get()
    if not levels or type(levels[-1]) not in (Tape, NestedTape) or levels[-1].recording:
        return None, 0
    if any(type(level) in (Tape, NestedTape, Watch) for level in levels[:-1]):
        return None, 0
    return levels[-1], sum(level.k for level in levels[:-1])


def _schedule(entry, n, k, checkpoints, memory, spill):
    """Return the schedule for the user's options; None if there is no limit."""
    if isinstance(checkpoints, schedules.Schedule):
        if n is None or checkpoints.n != n:
            raise ValueError(f"wengert.loop: the schedule in checkpoints= has {checkpoints.n} steps, the loop {n}")
        return checkpoints
    limit = parse_bytes("wengert.loop", memory) if checkpoints is None else None
    if limit is None and checkpoints is None:
        if n is None:
            raise ValueError("wengert.loop: with cond=, give memory= or checkpoints=")
        return None
    if checkpoints is not None and (isinstance(checkpoints, bool) or checkpoints < 1):
        raise ValueError(f"wengert.loop: checkpoints must be a positive number of states, not {checkpoints!r}")
    sizes = entry.measured(k)
    try:
        return schedules.plan(
            n, checkpoints=checkpoints, memory=limit, spill=None if spill is None or k else True, **sizes
        )
    except ValueError as error:
        raise ValueError(f"wengert.loop: {error}") from None


def parse_bytes(name: str, memory: str | int | None) -> int | None:
    """Return a number of bytes, given as a number or as a string such as "50MB"."""
    if memory is None or (isinstance(memory, (int, np.integer)) and not isinstance(memory, bool)):
        return memory
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?)(i?)B\s*", memory) if isinstance(memory, str) else None
    if not found:
        raise ValueError(f'{name}: memory must be a number of bytes, or a string like "50MB", not {memory!r}')
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kMGT".index(prefix or " "))
