"""Which derivative is running here, and blocks that it does not follow.

Operands carry their tape, so no rule asks what is current.
Only two things do: creation functions (an array made inside a derivative may receive traced values later)
and `passive`.
The answer is a context variable: each thread and each task has its own.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

#: the derivatives that are running in this context, the innermost last: tapes, lists, forward levels
running: ContextVar = ContextVar("wengert_running", default=())


#: what makes arrays for code that runs on lifted values (series, batches): see `wengert.core.lifted`
_lifting: ContextVar = ContextVar("wengert_lifting", default=None)


@contextlib.contextmanager
def lifting(maker) -> Iterator[None]:
    """Block in which creation functions make what `maker` makes of their arrays; not in derivatives inside of it."""
    token = _lifting.set((maker, running.get()))
    try:
        yield
    finally:
        _lifting.reset(token)


def lifted_by():
    """What makes arrays here, if the code runs on lifted values."""
    found = _lifting.get()
    return found[0] if found is not None and found[1] is running.get() else None


def lifted_around():
    """The same of code around this, too, with derivatives between the two."""
    found = _lifting.get()
    return None if found is None else found[0]


@contextlib.contextmanager
def recording(recorder) -> Iterator[None]:
    """Make `recorder` the innermost running one; the former one is restored, whatever happens."""
    token = running.set((*running.get(), recorder))
    try:
        yield
    finally:
        running.reset(token)


class Unrecorded(BaseException):
    """A function goes a way at its arguments that no recording can follow: this call of it is to run as it is.

    No `Exception`, for the function must not catch it; one that does is remembered, see `until_recorded`.
    `is_lasting` says that other values of the same arguments do not lead elsewhere.
    """

    def __init__(self, reason: str, is_lasting: bool = False):
        super().__init__(reason)
        self.is_lasting = is_lasting


_ended: ContextVar = ContextVar("wengert_ended", default=None)


def unrecorded(reason: str, is_lasting: bool = False) -> Unrecorded:
    """The error that ends a recording; noted, it is raised at the end whether it is raised now or not."""
    error = Unrecorded(reason, is_lasting)
    if (errors := _ended.get()) is not None:
        errors.append(error)
    return error


@contextlib.contextmanager
def until_recorded() -> Iterator[None]:
    """Block that records, at whose end an `Unrecorded` is raised that the function has caught."""
    errors: list = []
    token = _ended.set(errors)
    try:
        yield
    finally:
        _ended.reset(token)
    if errors:
        raise errors[0]


@contextlib.contextmanager
def within(recorders: tuple) -> Iterator[None]:
    """Block in which these derivatives are running, as seen by what asks."""
    token = running.set(recorders)
    try:
        yield
    finally:
        running.reset(token)


def outside() -> contextlib.AbstractContextManager:
    """Block in which no derivative is running."""
    return within(())


def is_recording() -> bool:
    """Is what runs here recorded in order to be replayed?"""
    return any(recorder.level.recording for recorder in running.get() if type(recorder) is not Watch)


class Watch:
    """Stands among the running derivatives where `wengert.detect_nan` was entered.

    It takes the place of a derivative around those that start inside: they are recorded by the general classes,
    which can be asked to look at every number, and the fast ones know nothing of it.
    """

    def pause(self) -> None:
        """A passive block is watched like any other."""

    def resume(self, was: None) -> None:
        """See `pause`."""


def is_watched() -> bool:
    """Is there a `wengert.detect_nan` around what is running?"""
    for recorder in running.get():
        if type(recorder) is Watch:
            return True
    return False


@contextlib.contextmanager
def passive() -> Iterator[None]:
    """Block whose operations are constants of the derivative that is running.

    Values computed inside keep their numbers and lose their derivative, as if each had passed through
    `stop_gradient`; so do values stored into arrays inside.
    Outside of a derivative the block does nothing.

    Yields
    ------
    None

    Examples
    --------
    >>> import wengert as wg
    >>> def f(x):
    ...     with wg.passive():
    ...         scale = x * x        # not followed
    ...     return scale * x
    >>> wg.grad(f, 3.0)
    np.float64(9.0)
    """
    paused = [(recorder, recorder.pause()) for recorder in running.get()]
    try:
        yield
    finally:
        for recorder, start in reversed(paused):
            recorder.resume(start)
