"""Tape entries of checkpointed loops and calls, and their sweeps.

An entry executes the actions of its schedule: those before the first `Reverse` in the forward run, the rest in a sweep.
"""

from __future__ import annotations

import warnings

import numpy as np

from wengert.checkpointing import schedule as schedules
from wengert.checkpointing import state as states
from wengert.checkpointing.keep import Slots
from wengert.checkpointing.steps import Replay, Steps, is_of
from wengert.core.modes.pullback import add_loop, independent, own_copy, pull_tail
from wengert.core.operands import var
from wengert.core.tape.tape import Tape, can_move


class LoopEntry:
    """Tape entry of a loop: its stored states and its sweep."""

    def __init__(self, steps: Steps, recorder, leaves: list, n: int | None):
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
        """Return the bytes of a state with k tangents, of the tape of its first step, and of a sweep's work buffers."""
        steps, recorder = self.steps, self.recorder
        full_state = states.global_generator().get_state()
        before = states.global_rng_state()
        with steps.again(), steps.tail(recorder, -1, True) as tail:
            start = steps.operands(tail, self.initial, 0)
            operands = steps.call(start)
            tape, work = tail.held() * 21 // 20, 8 * (1 + k) * tail.elements  # allocators round up
            self.elements = tail.elements + tail.size
            self.can_move = type(recorder) is Tape and can_move(tail)
            size = states.size_of([var.lower(x, tail.level) for x in operands], k)
        if before != states.global_rng_state() and states.global_generator() not in steps.generators:
            warnings.warn(
                f"{steps.name}: the step draws from NumPy's global random generator, which is reset when steps are "
                "recomputed, for all its users: put a numpy.random.Generator into the state",
                stacklevel=4,
            )
            steps.generators.append(states.global_generator())
            states.global_generator().set_state(full_state)
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

    def results_only(self, recorder):
        """Return only the result, for a tape that will not be swept."""
        return self.results(recorder, lambda values: [independent(recorder, value, True) for value in values])

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
        traced = [states.as_numpy(x) for x, t in zip(values, self.is_traced) if t]
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
        """Return the cotangents of the initial leaves, given those of the results."""
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


class CallEntry(Replay):
    """Tape entry of a call that is recomputed when it is swept."""

    def __init__(self, f, args, kwargs):
        name = getattr(f, "__qualname__", None) or repr(f)  # `repr` of a method runs that of its object
        super().__init__(f"checkpoint({name})", f, [*args, *kwargs.values()])
        self.rng_states = states.snapshot(self.generators)
        self.args, self.kwargs = args, kwargs

    def _leaves(self):
        y = self.step(*self.args, **self.kwargs)
        self.form = states.Form(y)
        leaves = [states.own(leaf) for leaf in self.form.leaves(y)]
        self.form = states.Form(self.form.restore([var.plain(leaf) for leaf in leaves]))
        return leaves

    def record(self, recorder):
        """Append an entry for the call and return its result."""
        with self.tail(recorder, -1, True) as tail:
            leaves = self._leaves()
            self.is_traced = [states.is_inexact(x) and is_of(x, tail) for x in leaves]
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
            states.rewind(self.generators, self.rng_states)
            with np.errstate(**self.errstate):
                leaves = [x for x, t in zip(self._leaves(), self.is_traced) if t]
            if not states.are_equal(leaves, values):
                raise self.mismatch("the call")
            pull_tail(tail, [], leaves, seeds)
        return []
