"""Functions that a SciPy solver calls many times: they are compiled to bit-identical programs once that pays.

A solver on plain values spends most of its time in Python code of small functions. `OftenCalled` calls its function
until this has taken about as much time as compilation will, and compiles it then: at most about twice the time of the
better choice, whatever the number of calls (ski rental: Karlin, Manasse, Rudolph and Sleator (1988), Competitive snoopy
caching. doi:10.1007/BF01762111). Programs are exact, so the solution does not depend on when this happens.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.program.specialise.compiled import Compiled
from wengert.program.tracing.observer import is_observed

#: a function is compiled after this many calls and seconds in them, about the time that compilation takes
CALLS, SECONDS = 50, 0.02


class OftenCalled:
    """A function of plain values that is compiled once its calls have taken some time.

    Functions whose calls cannot be replayed, such as those with side effects, are called as before.
    """

    def __init__(self, f: Callable):
        self.f = f
        self.calls, self.seconds = 0, 0.0
        self._current = f if isinstance(f, Compiled) or _is_watched() else self._timed
        functools.update_wrapper(self, f, updated=())

    def __call__(self, *args: Any) -> Any:
        return self._current(*args)

    def _timed(self, *args):
        start = time.perf_counter()
        found = self.f(*args)
        self.seconds += time.perf_counter() - start
        self.calls += 1
        if self.calls >= CALLS and self.seconds > SECONDS:
            self._compiled = Compiled(self.f, exact=True)
            self._compiled.is_quiet = True
            self._current = self._replayed
        return found

    def _replayed(self, *args):
        found = self._compiled(*args)
        return found if np.isfinite(found).all() else self.f(*args)  # f warns, which a replay does not


def _is_watched():
    """Return whether code is observed, or handles floating-point errors, which a replay would change."""
    return is_observed() or any(mode in ("raise", "call", "log", "print") for mode in np.geterr().values())
