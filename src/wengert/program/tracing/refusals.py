"""Exceptions that end a trace: the function cannot be replayed, or not as it was traced."""

from __future__ import annotations

__all__ = ["NotHere", "NotReplayable", "NotSeen", "Uncopied"]


class NotReplayable(BaseException):
    """f cannot be replayed, for example because it writes a global; the message says what to write instead.

    It is not an `Exception`, so that f does not catch it.
    """


class NotHere(NotReplayable):
    """f cannot be traced at these arguments, but perhaps at others."""


class Uncopied(NotHere):
    """A function ran instead of its copy during the trace, so that captured values would become constants."""


class NotSeen(NotHere):
    """During the trace, f calls code that did not run in the observed call."""
