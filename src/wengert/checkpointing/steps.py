"""Steps of a checkpointed loop: each is recorded on a *tail*, a temporary extension of the tape.

`Replay` recomputes a call under the conditions of its first run; `Steps` runs, reruns and sweeps the steps of a loop
from a current state, a list of leaves at the enclosing level: plain, or with tangents.
"""

from __future__ import annotations

import bisect
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert.checkpointing import state as states
from wengert.core.levels import check_end, replaced, running
from wengert.core.modes.nested import NestedTape
from wengert.core.modes.pullback import independent, open_tail, own_copy, pull_tail
from wengert.core.operands import var
from wengert.core.rebind.rebind import rebound
from wengert.core.tape.tape import Tape, attach, can_move, detach
from wengert.errors import ReplayMismatchError
from wengert.progress import progress_bar

#: maximum number of tape entries of a loop that is unrolled in a program
MAX_UNROLLED_ENTRIES = 2_000_000


class Replay:
    """Recomputation of steps on a tail of the tape, under the conditions of the first run."""

    def __init__(self, name: str, step: Callable, seen: list):
        self.name = name
        self.step = rebound(step) if running.get() else step
        self.levels = running.get()
        self.errstate = np.geterr()
        self.generators = states.generators_of(step, seen)

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
        rng_states = states.snapshot(self.generators)
        try:
            yield
        finally:
            states.rewind(self.generators, rng_states)

    def mismatch(self, where: str) -> ReplayMismatchError:
        return ReplayMismatchError(
            f"{self.name}: {where} gave another result when run again: something it reads has changed, such as a "
            "variable that was assigned again, a counter, or an array that the step writes into; "
            "make it part of the state"
        )


class StepState:
    """Leaves at the beginning of a step, and the states of the random generators."""

    def __init__(self, leaves: list, rng_states: list, is_own: bool):
        self.leaves = leaves
        self.rng_states = rng_states
        self.is_own = is_own  # no other references: a step may work in its memory


class Steps(Replay):
    """The steps of one loop."""

    def __init__(self, name, step, args, cond, state, collect, verify, progress):
        self.form = states.Form(state)
        super().__init__(name, step, [*self.form.leaves(state), *args])
        # copied containers must hold no traced values
        self.form = states.Form(self.form.restore([var.plain(leaf) for leaf in self.form.leaves(state)]))
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
        states.check_same(self.form.names, operands, leaves, self.name)
        return self.owned(leaves)

    def owned(self, leaves: list) -> list:
        """Return copies of leaves into which a step may write traced values."""
        found = map(states.own, leaves)
        return [var.clean(x) if self.levels and type(x) is np.ndarray and states.is_inexact(x) else x for x in found]

    def continues(self, operands: list) -> bool:
        return self.cond is None or bool(self.cond(self.form.restore(operands), *self.args))

    def collected(self, k: int, operands: list) -> list | None:
        """Return the leaves of the item collected after step k - 1; None if there is none."""
        if self.collect is None or (not callable(self.collect) and k % self.collect):
            return None
        if not callable(self.collect):
            return [states.own(leaf) for leaf in operands]
        item = self.collect(self.form.restore(operands))
        self.history_form = states.Form(item)
        leaves = self.history_form.leaves(item)
        self.history_form = states.Form(self.history_form.restore([var.plain(leaf) for leaf in leaves]))
        return [states.own(leaf) for leaf in leaves]

    def columns(self, rows: list, leaves: list) -> list:
        """Return the collected items, stacked leaf by leaf; without any, `leaves` of the last state give the shapes."""
        if rows:
            return [np.stack(column) if states.is_number(column[0]) else list(column) for column in zip(*rows)]
        if callable(self.collect):
            self.history_form = states.Form(None)
            return [np.empty(0)]
        return [np.empty((0, *np.shape(x))) if states.is_number(x) else [] for x in leaves]

    def result(self, leaves: list, columns: list | None) -> Any:
        """Build the value that the loop returns."""
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
            from wengert.program.tracing.refusals import NotReplayable

            raise NotReplayable(
                f"{self.name}: a program unrolls the loop, here into {entries} tape entries: compile the step instead"
            )

    # -- steps from a current state

    def start(self, leaves: list) -> StepState:
        return StepState(leaves, states.snapshot(self.generators), False)

    def operands(self, tail, state: StepState, k: int | None) -> list:
        """Return the operands of step k from a current state, traced as in the first run; untraced if k is None."""
        found = state.leaves if state.is_own else [own_copy(leaf) for leaf in state.leaves]
        traced = [False] * len(found) if k is None else self.traced_at(k)
        return [
            independent(tail, states.as_numpy(x), True)
            if is_traced
            else var.clean(x)
            if type(x) is np.ndarray and states.is_inexact(x)
            else x
            for x, is_traced in zip(found, traced)
        ]

    def traced_at(self, k: int) -> list:
        """Return whether each leaf is traced at the beginning of step k."""
        return self.traced[bisect.bisect_right(self.traced, k, key=lambda pair: pair[0]) - 1][1]

    def note_traced(self, k: int, operands: list) -> None:
        """Record which leaves are traced at the beginning of step k; this settles after a few steps."""
        found = [var.is_var(x) and states.is_inexact(x) and var.is_traced(x) for x in operands]
        if not self.traced or self.traced[-1][1] != found:
            self.traced.append((k, found))

    def first_run(self, recorder, state: StepState, first: int, last: int, rows: list | None) -> tuple[StepState, int]:
        """Run steps for the first time without keeping their tape; stop when the condition fails."""
        for k in range(first, last):
            with self.tail(recorder, -1, True) as tail:
                operands = self.operands(tail, state, k)
                if not self.continues(operands):
                    return state, k
                operands = self.call(operands)
                self.note(tail, k + 1, operands, rows)
                state = StepState([var.lower(x, tail.level) for x in operands], states.snapshot(self.generators), True)
                del operands
        return state, last

    def note(self, tail, k: int, operands: list, rows: list | None) -> list | None:
        """Store the hash and the collected item of the state after step k - 1; return the item as operands."""
        self.note_traced(k, [x if is_of(x, tail) else None for x in operands])
        if self.hashes is not None:
            self.hashes.append(states.digest(operands))
        self.advance(1)
        row = self.collected(k, operands) if rows is not None else None
        if row is not None:
            traced = [states.is_inexact(x) and is_of(x, tail) for x in row]
            rows.append(([own_copy(var.lower(x, tail.level)) for x in row], traced))
        return row

    def record(self, recorder, state: StepState, first: int, last: int, rows: list | None) -> tuple[StepState, tuple]:
        """Like `first_run`, for the steps that are swept first, but keep and return their tape."""
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
        return StepState(leaves, states.snapshot(self.generators), True), block

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
        """Return the cotangents of the leaves at the beginning of a block; None for untraced leaves."""
        places = [i for i, x in enumerate(inputs) if is_of(x, tail)]
        back = [None] * len(inputs)
        for i, c in zip(places, pull_tail(tail, [inputs[i] for i in places], outputs, cotangents)):
            back[i] = c
        return back

    def rerun(self, recorder, entry: int, state: StepState, first: int, last: int) -> StepState:
        """Recompute steps; values from outside are traced, and the tape is dropped."""
        states.rewind(self.generators, state.rng_states)
        with np.errstate(**self.errstate):
            for k in range(first, last):
                with self.tail(recorder, entry, True) as tail:
                    operands = self.call(self.operands(tail, state, None))
                    state = StepState([var.lower(x, tail.level) for x in operands], [], True)
                    del operands
                self.check_hash(k, state.leaves)
        state.rng_states = states.snapshot(self.generators)
        return state

    def sweep(self, recorder, entry, state, first, last, cotangents, rows, end):
        """Record a block of steps and sweep it; its final leaves must equal `end`.

        `cotangents` belong to the leaves at its end, ``rows(k)`` to the item collected after k steps.
        """
        states.rewind(self.generators, state.rng_states)
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
            if not states.are_equal(operands, end):
                raise self.mismatch(f"one of the steps {first} to {last - 1}")
            return self.pulled(tail, inputs, [*operands, *outputs], [*cotangents, *seeds])

    def check_hash(self, k, leaves):
        if self.hashes is not None and self.hashes[k] != states.digest(leaves):
            raise self.mismatch(f"step {k}")

    # -- progress

    def advance(self, steps: int) -> None:
        """Move the progress bar, if one is shown."""

    @contextlib.contextmanager
    def bar(self, total, word) -> Iterator[Callable]:
        """Progress bar for `total` steps; yields the function that moves it."""
        with progress_bar(self.progress, self.name, f"{self.name} {word}", total, "step") as move:
            self.advance = move
            try:
                yield move
            finally:
                del self.advance


def is_of(x, tail) -> bool:
    return var.is_var(x) and var.level_of(x) is tail.level
