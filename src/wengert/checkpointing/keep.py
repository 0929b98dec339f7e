"""Storage of loop states in memory or as files in a folder."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from typing import Any

import numpy as np

from wengert.checkpointing import schedule as schedules


class Slots:
    """Stored states by slot; files are removed when their slot is freed, at the latest with this object."""

    def __init__(self, schedule: schedules.Schedule, spill: str | None):
        self._ram = schedule.ram
        self._states: dict[int, Any] = {}
        self._folder = None
        if spill is not None and schedule.disk:
            os.makedirs(spill, exist_ok=True)
            self._folder = tempfile.mkdtemp(prefix="wengert-", dir=spill)
            self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)

    def close(self):
        """Remove the folder and all stored states."""
        if self._folder is not None:
            self._remove()

    def execute(self, action, current):
        """Execute a `Store`, `Load` or `Free`; return the current state."""
        if isinstance(action, schedules.Store):
            self._states[action.slot] = self._put(action.slot, current)
        elif isinstance(action, schedules.Load):
            stored = self._states[action.slot]
            current = stored.load() if isinstance(stored, _File) else stored
            if not action.keep:
                del self._states[action.slot]
        elif isinstance(action, schedules.Free):
            del self._states[action.slot]
        return current

    def _put(self, slot, state):
        if self._folder is not None and slot >= self._ram:
            return _File(os.path.join(self._folder, f"{slot}.npz"), state)
        state.is_own = False
        return state


class _File:
    """A state whose arrays are stored in a file."""

    def __init__(self, path, state):
        self._path = path
        self._state = type(state)([None if type(x) is np.ndarray else x for x in state.leaves], state.rng_states, True)
        np.savez(path, **{str(i): x for i, x in enumerate(state.leaves) if type(x) is np.ndarray})

    def load(self):
        with np.load(self._path) as arrays:
            leaves = [arrays[str(i)] if str(i) in arrays else x for i, x in enumerate(self._state.leaves)]
        return type(self._state)(leaves, self._state.rng_states, True)

    def __del__(self):
        try:
            os.remove(self._path)
        except OSError:
            pass
