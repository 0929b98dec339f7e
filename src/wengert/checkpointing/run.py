"""Checkpointed loops and calls: each is one tape entry, whose steps are recorded again, block by block, when swept.

In the forward run each step is recorded on a *tail*, a temporary extension of the tape, which is then dropped, so its
values cannot be used later.
In the reverse sweep the schedule determines which states to load and which steps to record: a block is recorded on a
tail, swept, and dropped.
The sweep of a block accumulates into the adjoints of the tape, which covers all values that a step reads from outside.

A current state is a list of leaves at the enclosing level: plain, or with tangents.

Reference: Griewank and Walther (2008), Evaluating Derivatives, chapter 12. doi:10.1137/1.9780898717761
"""

from __future__ import annotations

import bisect
import contextlib
import functools
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import wengert.numpy  # noqa: F401  (registers NumPy's functions for the rebinding of code)
from wengert.checkpointing import schedule as schedules
from wengert.checkpointing.keep import Slots
from wengert.checkpointing.state import (
    Form,
    are_equal,
    as_numpy,
    check_same,
    digest,
    generators_of,
    global_generator,
    global_rng_state,
    is_inexact,
    is_number,
    own,
    rewind,
    size_of,
    snapshot,
)
from wengert.core.levels import Watch, check_end, replaced, running
from wengert.core.modes.nested import NestedTape
from wengert.core.modes.pullback import add_loop, independent, open_tail, own_copy, pull_tail
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.core.tape.tape import Tape, attach, can_move, detach
from wengert.errors import ReplayMismatchError

#: maximum number of tape entries of a loop that is unrolled in a program
MAX_UNROLLED_ENTRIES = 2_000_000


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
    steps = _Steps("wengert.loop", step, args, cond, state, collect, verify, progress)
    recorder, k = _recorder()
    if recorder is None or n == 0:
        return steps.unrolled(state, n)
    leaves = steps.form.leaves(state)
    if recorder.forgets:
        return steps.results_only(recorder, leaves, n)
    entry = _Entry(steps, recorder, leaves, n)
    schedule = _schedule(steps, recorder, entry, n, k, checkpoints, memory, spill)
    if schedule is None or (n is not None and schedule.block >= n):
        return steps.unrolled(state, n)
    return entry.record(schedule, leaves, spill if k == 0 else None)


def checkpoint(f: Callable) -> Callable:
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
        return _Call(f, args, kwargs).record(recorder)

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
    steps = _Steps("wengert.loop", step, args, None, state, None, False, False)
    tape = Tape("measure")
    token = running.set((tape,))
    try:
        steps.step = rebound(step)
        leaves = [independent(tape, own_copy(leaf)) if is_inexact(leaf) else leaf for leaf in steps.form.leaves(state)]
        return _Entry(steps, tape, leaves, None).measured(0)
    finally:
        running.reset(token)
        tape.close()


def _recorder() -> tuple[Any, int]:
    """The innermost tape and the number of forward directions around it; None if steps must be unrolled.

    A tape is returned only if one reverse-mode derivative is running and it is the innermost one.
    """
    levels = running.get()
    if not levels or type(levels[-1]) not in (Tape, NestedTape) or levels[-1].recording:
        return None, 0
    if any(type(level) in (Tape, NestedTape, Watch) for level in levels[:-1]):
        return None, 0
    return levels[-1], sum(level.k for level in levels[:-1])


def _schedule(steps, recorder, entry, n, k, checkpoints, memory, spill):
    """Schedule for the user's options; None if there is no limit."""
    if isinstance(checkpoints, schedules.Schedule):
        if n is None or checkpoints.n != n:
            raise ValueError(f"wengert.loop: the schedule in checkpoints= has {checkpoints.n} steps, the loop {n}")
        return checkpoints
    limit = _parse_bytes(memory) if checkpoints is None else None
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


def _parse_bytes(memory):
    if memory is None or (isinstance(memory, (int, np.integer)) and not isinstance(memory, bool)):
        return memory
    found = re.fullmatch(r"\s*([0-9.]+)\s*([kMGT]?)(i?)B\s*", memory) if isinstance(memory, str) else None
    if not found:
        raise ValueError(f'wengert.loop: memory must be a number of bytes, or a string like "50MB", not {memory!r}')
    number, prefix, binary = found.groups()
    return int(float(number) * (1024 if binary else 1000) ** " kMGT".index(prefix or " "))


class _Replay:
    """Recomputation of steps on a tail of the tape, under the conditions of the first run."""

    def __init__(self, name: str, step: Callable, seen: list):
        self.name = name
        self.step = rebound(step) if running.get() else step
        self.levels = running.get()
        self.errstate = np.geterr()
        self.generators = generators_of(step, seen)

    @contextlib.contextmanager
    def tail(self, recorder, entry: int, forgets: bool) -> Iterator:
        """Open a tail of the tape that replaces its level while recording."""
        tail = open_tail(recorder, entry, f"a step of {self.name} in {recorder.level.name}", forgets)
        try:
            with replaced(self.levels, tail.recorder):
                yield tail
        finally:
            tail.cut()
        check_end(tail.level)

    @contextlib.contextmanager
    def again(self) -> Iterator[None]:
        """Restore the current states of the random generators on exit."""
        rng_states = snapshot(self.generators)
        try:
            yield
        finally:
            rewind(self.generators, rng_states)

    def mismatch(self, where: str) -> ReplayMismatchError:
        return ReplayMismatchError(
            f"{self.name}: {where} gave another result when run again: something it reads has changed, such as a "
            "variable that was assigned again, a counter, or an array that the step writes into; "
            "make it part of the state"
        )


class _State:
    """Leaves at the beginning of a step, and the states of the random generators."""

    def __init__(self, leaves: list, rng_states: list, is_own: bool):
        self.leaves = leaves
        self.rng_states = rng_states
        self.is_own = is_own  # no other references: a step may work in its memory


class _Steps(_Replay):
    """The steps of one loop."""

    def __init__(self, name, step, args, cond, state, collect, verify, progress):
        self.form = Form(state)
        super().__init__(name, step, [*self.form.leaves(state), *args])
        # copied containers must hold no traced values
        self.form = Form(self.form.restore([var.plain(leaf) for leaf in self.form.leaves(state)]))
        self.args = args
        self.cond = cond
        self.collect = collect
        self.hashes: list | None = [] if verify else None
        self.progress = progress
        self.traced: list = []  # (step, which leaves are traced from there on)

    # -- one step

    def call(self, operands: list) -> list:
        """Run one step; return copies of its leaves."""
        leaves = self.form.leaves(self.step(self.form.restore(operands), *self.args))
        if leaves is None:
            raise ValueError(f"{self.name}: the step returned a state of a different structure")
        check_same(self.form.names, operands, leaves, self.name)
        return self.owned(leaves)

    def owned(self, leaves: list) -> list:
        """Copies of leaves, into which a step may write traced values."""
        found = map(own, leaves)
        return [var.clean(x) if self.levels and type(x) is np.ndarray and is_inexact(x) else x for x in found]

    def continues(self, operands: list) -> bool:
        return self.cond is None or bool(self.cond(self.form.restore(operands), *self.args))

    def collected(self, k: int, operands: list) -> list | None:
        """Leaves of the item collected after step k - 1; None if there is none."""
        if self.collect is None or (not callable(self.collect) and k % self.collect):
            return None
        if not callable(self.collect):
            return [own(leaf) for leaf in operands]
        item = self.collect(self.form.restore(operands))
        self.history_form = Form(item)
        leaves = self.history_form.leaves(item)
        self.history_form = Form(self.history_form.restore([var.plain(leaf) for leaf in leaves]))
        return [own(leaf) for leaf in leaves]

    def columns(self, rows: list, leaves: list) -> list:
        """Collected items, each leaf stacked; `leaves` of the last state give the shapes if there are none."""
        if rows:
            return [np.stack(column) if is_number(column[0]) else list(column) for column in zip(*rows)]
        if callable(self.collect):
            self.history_form = Form(None)
            return [np.empty(0)]
        return [np.empty((0, *np.shape(x))) if is_number(x) else [] for x in leaves]

    def result(self, leaves: list, columns: list | None) -> Any:
        """Return value of the loop."""
        state = self.form.restore(leaves)
        if columns is None:
            return state
        return state, (self.history_form if callable(self.collect) else self.form).restore(columns)

    # -- all steps at once

    def unrolled(self, state, n):
        """Run all steps directly, recording them if a derivative is running."""
        levels = running.get()
        recorder = levels[-1] if levels and type(levels[-1]) in (Tape, NestedTape) else None
        operands = self.owned(self.form.leaves(state))
        rows = []
        k = 0
        with self.bar(n, "forwards") as advance:
            while k < n if n is not None else self.continues(operands):
                if recorder is not None:
                    recorder.next_step()
                    before = recorder.size
                operands = self.call(operands)
                k += 1
                row = self.collected(k, operands)
                if row is not None:
                    rows.append(row)
                if k == 1 and recorder is not None and recorder.recording:
                    self._check_program(recorder, before, n)
                advance(1)
        if recorder is not None:
            recorder.next_step()
        return self.result(operands, None if self.collect is None else self.columns(rows, operands))

    def _check_program(self, recorder, before, n):
        entries = (recorder.size - before) * (n or 0)
        if entries > MAX_UNROLLED_ENTRIES:
            from wengert.program.tracing.closure import NotReplayable

            raise NotReplayable(
                f"{self.name}: a program unrolls the loop, here into {entries} tape entries: "
                "compile the step instead"
            )

    def results_only(self, recorder, leaves, n):
        """Return the result alone, for a tape that will not be swept."""
        entry = _Entry(self, recorder, leaves, n)
        return entry.results(recorder, lambda values: [independent(recorder, value, True) for value in values])

    # -- steps from a current state

    def start(self, leaves: list) -> _State:
        return _State(leaves, snapshot(self.generators), False)

    def operands(self, tail, state: _State, k: int | None) -> list:
        """Operands of step k from a current state, traced as in the first run; all untraced if k is None."""
        found = state.leaves if state.is_own else [own_copy(leaf) for leaf in state.leaves]
        traced = [False] * len(found) if k is None else self.traced_at(k)
        return [
            independent(tail, as_numpy(x), True)
            if is_traced
            else var.clean(x)
            if type(x) is np.ndarray and is_inexact(x)
            else x
            for x, is_traced in zip(found, traced)
        ]

    def traced_at(self, k: int) -> list:
        """Whether each leaf is traced at the beginning of step k."""
        return self.traced[bisect.bisect_right(self.traced, k, key=lambda pair: pair[0]) - 1][1]

    def note_traced(self, k: int, operands: list) -> None:
        """Record which leaves are traced at the beginning of step k; this settles after a few steps."""
        found = [var.is_var(x) and is_inexact(x) and var.is_traced(x) for x in operands]
        if not self.traced or self.traced[-1][1] != found:
            self.traced.append((k, found))

    def first_run(self, recorder, state: _State, first: int, last: int, rows: list | None) -> tuple[_State, int]:
        """Run steps for the first time without keeping their tape; stop when the condition fails."""
        for k in range(first, last):
            with self.tail(recorder, -1, True) as tail:
                operands = self.operands(tail, state, k)
                if not self.continues(operands):
                    return state, k
                operands = self.call(operands)
                self.note(tail, k + 1, operands, rows)
                state = _State([var.lower(x, tail.level) for x in operands], snapshot(self.generators), True)
                del operands
        return state, last

    def note(self, tail, k: int, operands: list, rows: list | None) -> list | None:
        """Store the hash and the collected item of the state after step k - 1; return the item as operands."""
        self.note_traced(k, [x if _is_of(x, tail) else None for x in operands])
        if self.hashes is not None:
            self.hashes.append(digest(operands))
        self.advance(1)
        row = self.collected(k, operands) if rows is not None else None
        if row is not None:
            traced = [is_inexact(x) and _is_of(x, tail) for x in row]
            rows.append(([own_copy(var.lower(x, tail.level)) for x in row], traced))
        return row

    def record(self, recorder, state: _State, first: int, last: int, rows: list | None) -> tuple[_State, tuple]:
        """Like `first_run` for the steps swept first, but keep their tape: tail, entries, inputs and outputs."""
        with self.tail(recorder, -1, False) as tail:
            state.is_own = False
            inputs = operands = self.operands(tail, state, first)
            outputs = []
            for k in range(first, last):
                tail.next_step()
                operands = self.call(operands)
                row = self.note(tail, k + 1, operands, rows)
                if row is not None:
                    outputs.append((k + 1, row))
            leaves = [own_copy(var.lower(x, tail.level)) for x in operands]
            entries = detach(tail) if can_move(tail) else None
        block = entries and (tail, entries, inputs, operands, outputs, state.leaves)
        return _State(leaves, snapshot(self.generators), True), block

    def sweep_recorded(self, recorder, entry, block, cotangents, rows):
        """Sweep a block whose tape `record` kept."""
        tail, entries, inputs, operands, outputs = block
        attach(tail, recorder, entry, *entries)
        try:
            seeds = [c for k, _ in outputs for c in rows(k)]
            items = [x for _, row in outputs for x in row]
            return self.pulled(tail, inputs, [*operands, *items], [*cotangents, *seeds])
        finally:
            tail.cut()

    @staticmethod
    def pulled(tail, inputs, outputs, cotangents):
        """Cotangents of the leaves at the beginning of a block; None for untraced leaves."""
        places = [i for i, x in enumerate(inputs) if _is_of(x, tail)]
        back = [None] * len(inputs)
        for i, c in zip(places, pull_tail(tail, [inputs[i] for i in places], outputs, cotangents)):
            back[i] = c
        return back

    def rerun(self, recorder, entry: int, state: _State, first: int, last: int) -> _State:
        """Recompute steps; values from outside are traced, and the tape is dropped."""
        rewind(self.generators, state.rng_states)
        with np.errstate(**self.errstate):
            for k in range(first, last):
                with self.tail(recorder, entry, True) as tail:
                    operands = self.call(self.operands(tail, state, None))
                    state = _State([var.lower(x, tail.level) for x in operands], [], True)
                    del operands
                self.check_hash(k, state.leaves)
        state.rng_states = snapshot(self.generators)
        return state

    def sweep(self, recorder, entry, state, first, last, cotangents, rows, end):
        """Record a block of steps and sweep it; its final leaves must equal `end`.

        `cotangents` belong to the leaves at its end, ``rows(k)`` to the item collected after k steps.
        """
        rewind(self.generators, state.rng_states)
        with self.tail(recorder, entry, False) as tail:
            state.is_own = False
            inputs = operands = self.operands(tail, state, first)
            outputs, seeds = [], []
            with np.errstate(**self.errstate):
                for k in range(first, last):
                    tail.next_step()
                    operands = self.call(operands)
                    self.check_hash(k, operands)
                    row = self.collected(k + 1, operands)
                    if row is not None:
                        outputs += row
                        seeds += rows(k + 1)
            if not are_equal(operands, end):
                raise self.mismatch(f"one of the steps {first} to {last - 1}")
            return self.pulled(tail, inputs, [*operands, *outputs], [*cotangents, *seeds])

    def check_hash(self, k, leaves):
        if self.hashes is not None and self.hashes[k] != digest(leaves):
            raise self.mismatch(f"step {k}")

    # -- progress

    def advance(self, steps: int) -> None:
        """Move the progress bar, if one is shown."""

    @contextlib.contextmanager
    def bar(self, total, word) -> Iterator[Callable]:
        """Progress bar for `total` steps; yields the function that moves it."""
        if not self.progress:
            yield self.advance
            return
        try:
            from tqdm.auto import tqdm
        except ImportError:
            raise ImportError(f"{self.name}: progress=True needs tqdm: pip install tqdm") from None
        with tqdm(total=total, desc=f"{self.name} {word}", unit="step") as bar:
            self.advance = bar.update
            try:
                yield bar.update
            finally:
                del self.advance


def _is_of(x, tail) -> bool:
    return var.is_var(x) and var.level_of(x) is tail.level


class _Entry:
    """Tape entry of a loop: its stored states and its sweep."""

    def __init__(self, steps: _Steps, recorder, leaves: list, n: int | None):
        self.steps = steps
        self.n = n
        level = recorder.level
        steps.traced = []
        steps.note_traced(0, [x if var.is_var(x) and var.level_of(x) is level else None for x in leaves])
        self.initial = steps.start([own_copy(var.lower(x, level)) for x in leaves])
        self.recorder = recorder
        self.kept: tuple | None = None  # slots, the recorded block or its first state, current and remaining actions
        self.can_move = False

    def measured(self, k: int) -> dict:
        """Bytes of a state with k tangents, of the tape of its first step, and of the work buffers of a sweep."""
        steps, recorder = self.steps, self.recorder
        full_state = global_generator().get_state()
        before = global_rng_state()
        with steps.again(), steps.tail(recorder, -1, True) as tail:
            start = steps.operands(tail, self.initial, 0)
            operands = steps.call(start)
            tape, work = tail.held() * 21 // 20, 8 * (1 + k) * tail.elements  # allocators round up
            self.elements = tail.elements + tail.size
            self.can_move = type(recorder) is Tape and can_move(tail)
            size = size_of([var.lower(x, tail.level) for x in operands], k)
        if before != global_rng_state() and global_generator() not in steps.generators:
            warnings.warn(
                f"{steps.name}: the step draws from NumPy's global random generator, which is reset when steps are "
                "recomputed, for all its users: put a numpy.random.Generator into the state",
                stacklevel=4,
            )
            steps.generators.append(global_generator())
            global_generator().set_state(full_state)
            self.initial = steps.start(self.initial.leaves)
        return {"state_bytes": size, "tape_bytes": tape, "work_bytes": 6 * size + work}

    def record(self, schedule, leaves, spill):
        """Run the loop forward and append its entry; return the final state."""
        if not hasattr(self, "elements"):
            self.measured(0)
        self.schedule = schedule
        self.spill = spill
        steps, recorder = self.steps, self.recorder
        self.recorder = None
        inputs = [x for x, is_traced in zip(leaves, steps.traced_at(0)) if is_traced]
        elements = schedule.block * self.elements
        return self.results(recorder, lambda values: add_loop(recorder, self.pull, inputs, values, elements), True)

    def results(self, recorder, append, keeps=False):
        """Run the loop forward; ``append(values)`` returns the operands of the traced results."""
        steps = self.steps
        rows = None if steps.collect is None else []
        with steps.bar(self.n, "forwards"):
            if keeps:
                final = self._forwards(recorder, rows)
            elif self.n is not None:
                final, _ = steps.first_run(recorder, self.initial, 0, self.n, rows)
            else:
                final, self.n = steps.first_run(recorder, self.initial, 0, 1 << 62, rows)
        values = [x if final.is_own else own_copy(x) for x in final.leaves]
        self.is_traced = [*steps.traced_at(self.n)]
        if rows is not None:
            columns = steps.columns([row for row, _ in rows], values)
            values += columns
            self.is_traced += [any(column) for column in zip(*[traced for _, traced in rows])] or [False] * len(columns)
        traced = [as_numpy(x) for x, t in zip(values, self.is_traced) if t]
        if traced:
            operands = iter(append(traced))
            values = [next(operands) if t else x for x, t in zip(values, self.is_traced)]
        self.plain = [None if t else own_copy(x) for x, t in zip(final.leaves, self.is_traced)]
        count = len(final.leaves)
        return steps.result(values[:count], None if rows is None else values[count:])

    # -- actions

    def _forwards(self, recorder, rows, entry=-1):
        """Execute the actions before the first `Reverse`; return the final state and keep the stored states."""
        steps = self.steps
        actions = iter(self.schedule)
        slots = Slots(self.schedule, self.spill)
        current, block, k = self.initial, None, 0
        is_first = entry < 0
        run = steps.first_run if is_first else steps.rerun
        for action in actions:
            if isinstance(action, schedules.Reverse):
                break
            if isinstance(action, (schedules.Advance, schedules.Tape)):
                block = current if isinstance(action, schedules.Tape) else None
                if block is not None:
                    current.is_own = False
                if is_first and block is not None and self.can_move and action.last == self.n:
                    current, recorded = steps.record(recorder, current, action.first, action.last, rows)
                    block = recorded or block
                elif is_first:
                    current, k = run(recorder, current, action.first, action.last, rows)
                    if k < action.last:
                        self.schedule.finalize(k)
                        self.n = k
                else:
                    current = run(recorder, entry, current, action.first, action.last)
            elif isinstance(action, schedules.End):
                break
            else:
                current = slots.execute(action, current)
        self.kept = slots, block, action, actions
        return current

    def pull(self, recorder, entry, seeds, values):
        """Cotangents of the initial leaves from those of the results."""
        steps = self.steps
        seeds = iter(seeds)
        seeds = [next(seeds) if t else None for t in self.is_traced]
        finals = iter(values)
        end = [next(finals) if t else x for x, t in zip(self.plain, self.is_traced)]
        count = len(self.plain)
        cotangents, history = seeds[:count], seeds[count:]
        lead = 0 if type(recorder) is Tape and not recorder.stacked else 1

        def rows(k):
            j = (k if callable(steps.collect) else k // steps.collect) - 1
            return [None if c is None else c[(slice(None),) * lead + (j,)] for c in history]

        with steps.again():
            if self.kept is None:
                self._forwards(recorder, None, entry)
            slots, block, action, actions = self.kept
            self.kept = None
            current = None
            with steps.bar(self.n, "backwards"):
                while not isinstance(action, schedules.End):
                    if isinstance(action, schedules.Tape):
                        block = current
                    elif isinstance(action, schedules.Advance):
                        current = steps.rerun(recorder, entry, current, action.first, action.last)
                    elif isinstance(action, schedules.Reverse) and isinstance(block, tuple):
                        end = block[-1]
                        cotangents = steps.sweep_recorded(recorder, entry, block[:-1], cotangents, rows)
                        block = None
                        steps.advance(action.last - action.first)
                    elif isinstance(action, schedules.Reverse):
                        cotangents = steps.sweep(
                            recorder, entry, block, action.first, action.last, cotangents, rows, end
                        )
                        end, block = block.leaves, None
                        steps.advance(action.last - action.first)
                    else:
                        current = slots.execute(action, current)
                    action = next(actions)
            slots.close()
        return [c for c, t in zip(cotangents, steps.traced_at(0)) if t]


class _Call(_Replay):
    """A call that is recomputed."""

    def __init__(self, f, args, kwargs):
        name = getattr(f, "__qualname__", repr(f))
        super().__init__(f"checkpoint({name})", f, [*args, *kwargs.values()])
        self.rng_states = snapshot(self.generators)
        self.args, self.kwargs = args, kwargs

    def _leaves(self):
        y = self.step(*self.args, **self.kwargs)
        self.form = Form(y)
        leaves = [own(leaf) for leaf in self.form.leaves(y)]
        self.form = Form(self.form.restore([var.plain(leaf) for leaf in leaves]))
        return leaves

    def record(self, recorder):
        """Append an entry for the call and return its result."""
        with self.tail(recorder, -1, True) as tail:
            leaves = self._leaves()
            self.is_traced = [is_inexact(x) and _is_of(x, tail) for x in leaves]
            values = [var.lower(x, tail.level) for x in leaves]
            elements = tail.elements + tail.size
            del leaves
        if any(self.is_traced):
            traced = [x for x, t in zip(values, self.is_traced) if t]
            operands = iter(add_loop(recorder, self.pull, [], traced, elements))
            values = [next(operands) if t else x for x, t in zip(values, self.is_traced)]
        return self.form.restore(values)

    def pull(self, recorder, entry, seeds, values):
        with self.again(), self.tail(recorder, entry, False) as tail:
            rewind(self.generators, self.rng_states)
            with np.errstate(**self.errstate):
                leaves = [x for x, t in zip(self._leaves(), self.is_traced) if t]
            if not are_equal(leaves, values):
                raise self.mismatch("the call")
            pull_tail(tail, [], leaves, seeds)
        return []
