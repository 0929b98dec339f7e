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
    """While f is traced, a function runs instead of its copy, so that it treats captured values as constants."""


class NotSeen(NotHere):
    """f calls code while it is traced that did not run before."""
