"""Checkpoint schedules for a number of steps that is not known in advance.

Reference for online checkpointing: Wang, Moin and Iaccarino (2009), Minimal repetition dynamic checkpointing algorithm
for unsteady adjoint calculation. doi:10.1137/080727890. This schedule instead doubles the distance between checkpoints.
"""

import itertools

from .actions import Advance, Discard, End, Free, Load, Reverse, Store, Tape
from .tree import Binomial, Blocks, Schedule, list_capacities, sweep


class Online(Schedule):
    """Schedule whose number of steps `n`, at first None, is set by `finalize` while the actions are executed.

    In the forward run a state is stored at regular intervals. When all slots are full, every other state is dropped and
    the interval is doubled. The first steps are taped, in case there are no more. In the reverse run each interval
    between two stored states has its own schedule for the memory that is then free.

    The forward run uses at most `hold` of the `ram` slots in memory. ``capacity(kept)`` is the number of steps that can
    be taped while that many states are stored in memory; if omitted, one step.
    """

    extra_steps = None

    def __init__(self, ram, disk=0, hold=None, capacity=None):
        if ram < 1:
            raise ValueError("a run of unknown length needs at least one checkpoint")
        self.n, self.ram, self.disk = None, ram, disk
        self.hold, self._capacity = hold or ram, capacity
        self.block = capacity(0) if capacity else 1

    def finalize(self, n):
        """Set the number of steps.

        Call it once, as soon as it is known that step `n` will not run: before the first action, while an `Advance` or
        `Tape` is executed, which then stops, or between two actions.
        """
        if self.n not in (None, n):
            raise ValueError(f"the number of steps is {self.n} already, and cannot be set to {n}")
        self.n = n

    def __iter__(self):
        if self.n != 0:
            gap = self._capacity(self.hold) if self._capacity else 1
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
        """Run to the end; return the stored states as (step, slot) in ascending order."""
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
            is_kept = last - first > tree.capacity(0)
            yield Load(first, slot, is_kept)
            yield from sweep(tree, first, last, [slot, *empty].__getitem__, is_kept)
            taken.remove(slot)

    def _gaps(self, kept):
        """Yield first and last step, slot and schedule of each interval, in the order of sweeping."""
        last, in_ram = self.n, sum(slot < self.ram for _, slot in kept)
        for first, slot in reversed(kept):
            on_disk = slot >= self.ram
            in_ram -= not on_disk
            yield first, last, slot, self._gap(last - first, in_ram, on_disk)
            last = first

    def _gap(self, steps, in_ram, on_disk):
        """Return the schedule of an interval while `in_ram` states before it are in memory."""
        free = self.ram - in_ram
        if not self._capacity:
            return Binomial(steps, free, on_disk)
        return Blocks(steps, list_capacities(steps, lambda kept: self._capacity(in_ram + kept), free, on_disk))

    def _extra(self, kept):
        return sum(gap.extra_steps for *_, gap in self._gaps(kept))
