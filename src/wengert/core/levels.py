"""The stack of running derivatives, and the errors that were raised and caught inside of them.

Operands refer to their tape, so rules need no current tape.
Only creation functions (an array made inside a derivative may receive traced values later), `passive` and the errors
of traced values ask which derivatives are running.
The stack is a context variable: each thread and each task has its own.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

from wengert.core import advice
from wengert.core.frames import at, caller, where
from wengert.errors import Refusal, TextWarning, TracedValueError

#: the recorders of the derivatives that are running in this context, the innermost last
running: ContextVar = ContextVar("wengert_running", default=())

#: the maker of arrays for code that runs on lifted values (series, batches), see `wengert.core.dispatch.lifted`
_lifting: ContextVar = ContextVar("wengert_lifting", default=None)


@contextlib.contextmanager
def lifting(maker) -> Iterator[None]:
    """Block in which creation functions return `maker` of their arrays, except in derivatives inside of it."""
    token = _lifting.set((maker, running.get(), _lifting.get()))
    try:
        yield
    finally:
        _lifting.reset(token)


def lifted_by():
    """The maker of arrays for the code that runs here; None if it does not run on lifted values."""
    found = _lifting.get()
    return found[0] if found is not None and found[1] is running.get() else None


def lifted_around():
    """The innermost maker of arrays, also where a derivative runs inside of its block."""
    found = _lifting.get()
    return None if found is None else found[0]


def is_lifting() -> bool:
    """Is this inside of a block of `lifting`?"""
    return _lifting.get() is not None


@contextlib.contextmanager
def recording(recorder) -> Iterator[None]:
    """Block in which `recorder` is the innermost running one."""
    token = running.set((*running.get(), recorder))
    try:
        yield
    finally:
        running.reset(token)


class Unrecorded(BaseException):
    """Ends a recording that cannot represent what the function does: this call falls back to eager execution.

    It is no `Exception`, so that the function does not catch it; if it does, `until_recorded` raises it again.
    `is_lasting` says that no other values of the arguments would avoid it.
    """

    def __init__(self, reason: str, is_lasting: bool = False):
        super().__init__(reason)
        self.is_lasting = is_lasting


_ended: ContextVar = ContextVar("wengert_ended", default=None)


def unrecorded(reason: str, is_lasting: bool = False) -> Unrecorded:
    """The error that ends a recording; `until_recorded` raises it even if the caller does not."""
    error = Unrecorded(reason, is_lasting)
    if (errors := _ended.get()) is not None:
        errors.append(error)
    return error


def end_recording(reason: str, is_lasting: bool = False):
    """Raise `Unrecorded` with the user's line."""
    raise unrecorded(f"{reason}{at()}", is_lasting)


@contextlib.contextmanager
def until_recorded() -> Iterator[None]:
    """Block that records; at its end an `Unrecorded` that was made inside and caught is raised again."""
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
    """Block in which exactly these derivatives are running."""
    token = running.set(recorders)
    try:
        yield
    finally:
        running.reset(token)


#: enclosing derivatives that `outside` and `replaced` have taken off the stack
_behind: ContextVar = ContextVar("wengert_behind", default=())


@contextlib.contextmanager
def outside() -> Iterator[None]:
    """Block in which no derivative is running."""
    behind = _behind.set((*_behind.get(), *running.get()))
    token = running.set(())
    try:
        yield
    finally:
        running.reset(token)
        _behind.reset(behind)


@contextlib.contextmanager
def replaced(recorders: tuple, recorder) -> Iterator[None]:
    """Block in which these derivatives are running, the innermost one replaced by `recorder`."""
    behind = _behind.set((*_behind.get(), *recorders[-1:]))
    token = running.set((*recorders[:-1], recorder))
    try:
        yield
    finally:
        running.reset(token)
        _behind.reset(behind)


def is_tracing() -> bool:
    """Is a derivative being recorded in this context?"""
    found = running.get()
    return bool(found) and (len(found) > 1 or type(found[0]) is not Watch)


def is_recording() -> bool:
    """Is a program being recorded here, to be replayed?"""
    return any(recorder.level.recording for recorder in running.get() if type(recorder) is not Watch)


class Watch:
    """Marks on the stack of derivatives where `wengert.detect_nan` was entered.

    It counts as an enclosing derivative, so that those inside are recorded by the general classes: these can check
    every value, the fast ones cannot.
    """

    def pause(self) -> None:
        """Do nothing: a passive block is watched like any other."""

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


# ---------------------------------------------------------------------------------------- errors that were caught

# A function may catch the error of a traced value and go on without its derivative.  So each `Refusal` is noted when it
# is made, as text (the error itself would keep traced values alive), and a derivative whose function returns normally
# raises if something was noted.  Where nothing was, the cost is one attribute.


def remember(error: Refusal, *others) -> None:
    """Note an error at the enclosing derivatives, or at those whose values were refused."""
    found = set(others or holders())
    if others:  # the running ones noted it when it was made
        found.difference_update(holders())
    if found:
        text, place = str(error), where(caller())
        noted = type(error), text if place in text else f"{text} ({place})"
        for holder in found:
            holder.refused = [*(holder.refused or ()), noted]


def holders() -> list:
    """The levels of the enclosing derivatives, and the enclosing makers of lifted values."""
    found = [level for recorder in (*_behind.get(), *running.get()) if (level := getattr(recorder, "level", None))]
    lifted = _lifting.get()
    while lifted is not None:
        maker, _, lifted = lifted
        if maker is not None:
            found.append(maker)
    return found


def swallowed(holder, name: str) -> TracedValueError:
    """The error of a derivative whose function caught one that was noted."""
    kind, text = holder.refused[0]
    kind = kind if issubclass(kind, TypeError) else TracedValueError
    return kind(
        f"{name}: the function caught an error that only a derivative meets, and went on without the derivative. Let "
        "it out: catch the errors of plain code alone, or take the way that carries a derivative first, as np.exp(x) "
        f"before math.exp(x). The error was: {text}"
    )


def check_end(holder, name: str = "") -> None:
    """At the return of a function: raise if it caught a noted error, warn if it wrote values as text."""
    name = name or holder.name
    if holder.refused:
        raise swallowed(holder, name)
    if holder.spelled:
        file, line = holder.spelled
        warnings.warn_explicit(
            f"{name}: a traced value was written as text to full precision ({file}:{line}), and a number that is "
            "made of the text has no derivative: use the value as it is, or write fewer digits, as "
            'f"{x:.6g}", to show it',
            TextWarning,
            file,
            line,
            registry=_told,
        )


#: the registry of `warnings` for lines that were warned of
_told: dict = {}


def spell(file: str, line: int, *others) -> None:
    """Note at its derivative and at the enclosing ones that a value was written as text to full precision."""
    for holder in {*others, *holders()}:
        holder.spelled = holder.spelled or (file, line)


def explain(level, error: BaseException) -> None:
    """Raise a clear error in place of one that a function raised because of its traced values.

    C code, and code that catches errors and raises others, replace ours by errors that do not mention the derivative.
    """
    if isinstance(error, Refusal) or not isinstance(error, Exception):
        return
    if level.refused:
        kind, text = level.refused[0]
        raise (kind if issubclass(kind, TypeError) else TracedValueError)(text) from error
    if (text := advice.of_error(error)) is not None:
        raise TracedValueError(text) from error


def noted() -> list:
    """The notes so far, for `forget`."""
    return [(holder, holder.refused) for holder in holders()]


def forget(before: list) -> None:
    """Drop the notes made since `before`: the caller handles those errors."""
    for holder, refused in before:
        holder.refused = refused


class Caught:
    """Holds the error that ended a block of `caught`."""

    error: BaseException | None = None


@contextlib.contextmanager
def caught(*kinds: type[BaseException]) -> Iterator[Caught]:
    """Block that ends at errors of these kinds, which the caller handles, and drops their notes."""
    before, found = noted(), Caught()
    try:
        yield found
    except kinds as error:
        found.error = error
        forget(before)


@contextlib.contextmanager
def unnoted() -> Iterator[None]:
    """Block whose errors leave no note: the caller handles them."""
    before = noted()
    try:
        yield
    finally:
        forget(before)

