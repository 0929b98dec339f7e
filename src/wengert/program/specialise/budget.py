"""Budget of recordings: whether another one is expected to pay off."""

from __future__ import annotations

#: a trace takes about as long as this many calls of f, so one trace per this many replays pays off
MIN_REPLAYS_PER_TRACE = 16

#: number of further traces that are allowed, before any replay
MAX_FREE_TRACES = 32

#: after this many traces without a replay, calls run uncompiled for a while, and for longer after each further trace
MAX_IDLE_TRACES = 4

#: after a pause of at least this many calls, recordings are reported not to pay off
LONG_PAUSE = 8


class Budget:
    """Recordings of one compiled function, compared with their replays.

    If all calls differ, for example in a mask computed from the arguments, recordings become ever rarer, so that calls
    cost little more than without compilation.

    Attributes
    ----------
    recordings : int
        Number of recordings.
    is_low : bool
        Whether the latest denial was due to many recordings that were not replayed, and not to a short pause.
    is_closed : bool
        Whether no more recordings are made inside derivatives.
    """

    __slots__ = ("_idle", "_left", "_pause", "_seen", "is_closed", "is_low", "recordings")

    def __init__(self):
        self.recordings = 0
        self.is_low = self.is_closed = False
        self._idle = 0  # recordings since the last replay
        self._seen = 0  # replays at the last recording
        self._pause = self._left = 0  # calls that run uncompiled after a recording: in total, and still to come

    def count(self, replays: int) -> None:
        """Note a recording, made after this number of replays."""
        self._idle = self._idle + 1 if replays == self._seen else 1
        self._seen = replays
        self.recordings += 1
        self._set_pause()

    def expect_no_replays(self) -> None:
        """Pause as after `MAX_IDLE_TRACES` recordings without a replay."""
        if self._idle < MAX_IDLE_TRACES:
            self._idle = MAX_IDLE_TRACES
            self._set_pause()

    def _set_pause(self):
        self._pause = self._left = 2 ** (self._idle - MAX_IDLE_TRACES + 1) if self._idle >= MAX_IDLE_TRACES else 0

    def allows(self, replays: int, in_derivative: bool) -> bool:
        """Return whether a call may be recorded.

        Inside derivatives a denial is permanent, and no call pauses, since a recomputed step must take the same path.
        """
        is_spent = self.recordings >= MAX_FREE_TRACES + replays // MIN_REPLAYS_PER_TRACE
        if in_derivative:
            self.is_closed |= is_spent
            self.is_low = self.is_closed
            return not self.is_closed
        pauses = self._left > 0 and replays == self._seen
        self._left -= pauses
        self.is_low = is_spent or (pauses and self._pause >= LONG_PAUSE)
        return not (is_spent or pauses)
