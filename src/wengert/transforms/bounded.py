"""Aborts the evaluation of a function after a maximum number of jumps and calls of its Python code, or after a time.

A loop that terminates at one point may run forever at a nearby one.  `sys.monitoring` counts the jumps and calls;
before Python 3.12, or if debuggers and profilers occupy its tools, there is no limit.
"""

from __future__ import annotations

import contextlib
import sys
import time
from _thread import get_ident
from collections.abc import Callable
from typing import Any

__all__ = ["TooLong", "bounded"]

_MAX_EVENTS, _MAX_SECONDS = 5_000_000, 5.0
_EVERY = 256  # the clock is read once per this many events
_TOOLS = 4, 3  # tool ids that `sys.monitoring` leaves free for any use
_NAME = __name__.partition(".")[0]


class TooLong(BaseException):
    """Aborts an evaluation. Not an `Exception`, so that the evaluated function does not catch it."""


class bounded:
    """Context in which Python code of this thread raises `TooLong` after `limit` jumps and calls, or `seconds`."""

    def __init__(self, limit: int = _MAX_EVENTS, seconds: float = _MAX_SECONDS):
        self.limit, self.seconds = limit, seconds
        self.monitoring: Any = getattr(sys, "monitoring", None)
        self.tool: int | None = None

    def __enter__(self) -> None:
        self.tool = _free_tool(self.monitoring)
        if self.tool is not None:
            self._watch(self._counter())
            self.monitoring.set_events(self.tool, sum(self._events()))

    def __exit__(self, *error: object) -> None:  # does not raise `TooLong`, see `_counter`
        if self.tool is not None:
            self.monitoring.set_events(self.tool, 0)
            self._watch(None)
            self.monitoring.free_tool_id(self.tool)

    def _events(self) -> tuple[int, ...]:
        return self.monitoring.events.JUMP, self.monitoring.events.PY_START

    def _watch(self, callback: Callable | None) -> None:
        for event in self._events():
            self.monitoring.register_callback(self.tool, event, callback)

    def _counter(self) -> Callable:
        count, thread, end, limit = 0, get_ident(), time.monotonic() + self.seconds, self.limit
        leaving = bounded.__exit__.__code__

        def counted(code, *event):
            nonlocal count
            if get_ident() == thread and code is not leaving:
                count += 1
                if count > limit or (count % _EVERY == 0 and time.monotonic() > end):
                    raise TooLong

        return counted


def _free_tool(monitoring: Any) -> int | None:
    """Reserve a tool of `sys.monitoring`, and return its number."""
    for tool in _TOOLS if monitoring is not None else ():
        with contextlib.suppress(ValueError):  # another thread or package uses it
            monitoring.use_tool_id(tool, _NAME)
            return tool
    return None
