"""Which derivative is running here, and blocks that it does not follow.

Operands carry their tape, so no rule asks what is current.
Only two things do: creation functions (an array made inside a derivative may receive traced values later)
and `passive`.
The answer is a context variable: each thread and each task has its own.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

from wengert.errors import Refusal, TextWarning, TracedValueError

#: the derivatives that are running in this context, the innermost last: tapes, lists, forward levels
running: ContextVar = ContextVar("wengert_running", default=())


#: what makes arrays for code that runs on lifted values (series, batches): see `wengert.core.dispatch.lifted`
_lifting: ContextVar = ContextVar("wengert_lifting", default=None)


@contextlib.contextmanager
def lifting(maker) -> Iterator[None]:
    """Block in which creation functions make what `maker` makes of their arrays; not in derivatives inside of it."""
    token = _lifting.set((maker, running.get(), _lifting.get()))
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


def is_lifting() -> bool:
    """Does a function run on lifted values around this, or a rule on what they are made of?"""
    return _lifting.get() is not None


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


#: the derivatives that do not follow what runs here, though it is called inside of them: see `outside`
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
    """Block in which `recorder` stands in the place of the innermost of these derivatives."""
    behind = _behind.set((*_behind.get(), *recorders[-1:]))
    token = running.set((*recorders[:-1], recorder))
    try:
        yield
    finally:
        running.reset(token)
        _behind.reset(behind)


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


# ---------------------------------------------------------------------------------------- errors that were caught

# A derivative must not lose a value because its function catches the error that says so.  Each `Refusal` is noted when
# it is made, as text: the error itself would keep traced values alive.  A derivative whose function has returned though
# something was noted raises.  Where nothing is refused, the cost is a look at one field.


def remember(error: Refusal, *others) -> None:
    """Note an error on the enclosing derivatives, or on those whose values were refused."""
    found = set(others or holders())
    if others:  # what is running has noted it when it was made
        found.difference_update(holders())
    if found:
        from wengert.core.dispatch import dispatch  # which knows what the user's code is, and imports this

        text, at = str(error), dispatch.where(dispatch.caller())
        noted = type(error), text if at in text else f"{text} ({at})"
        for holder in found:
            holder.refused = [*(holder.refused or ()), noted]


def holders() -> list:
    """The levels, and what makes lifted values, of everything that is running around this."""
    found = [level for recorder in (*_behind.get(), *running.get()) if (level := getattr(recorder, "level", None))]
    lifted = _lifting.get()
    while lifted is not None:
        maker, _, lifted = lifted
        if maker is not None:
            found.append(maker)
    return found


def swallowed(holder, name: str) -> TracedValueError:
    """The error of a derivative whose function has caught one that was noted."""
    kind, text = holder.refused[0]
    kind = kind if issubclass(kind, TypeError) else TracedValueError
    return kind(
        f"{name}: the function caught an error that only a derivative meets, and went on without the derivative. Let "
        "it out: catch the errors of plain code alone, or take the way that carries a derivative first, as np.exp(x) "
        f"before math.exp(x). The error was: {text}"
    )


def check_end(holder, name: str = "") -> None:
    """Raise if a function that has returned caught an error that was noted; warn if it wrote values as text."""
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


#: lines of which that was said, for the filters of `warnings`
_told: dict = {}


def spell(file: str, line: int, *others) -> None:
    """Note that a value was written as text to full precision, at its derivative and at those around this."""
    for holder in {*others, *holders()}:
        holder.spelled = holder.spelled or (file, line)


def explain(level, error: BaseException) -> None:
    """Raise a clear error in the place of one that has come out of a function because of its traced values.

    Code in C, and code that catches errors and raises others, put errors in the place of ours that say nothing of it.
    """
    if isinstance(error, Refusal) or not isinstance(error, Exception):
        return
    if level.refused:
        kind, text = level.refused[0]
        raise (kind if issubclass(kind, TypeError) else TracedValueError)(text) from error
    from wengert.core.dispatch import advice  # as above

    if (text := advice.of_error(error)) is not None:
        raise TracedValueError(text) from error


def noted() -> list:
    """What has been noted so far, for `forget`."""
    return [(holder, holder.refused) for holder in holders()]


def forget(before: list) -> None:
    """Forget what has been noted since then: code of ours deals with it."""
    for holder, refused in before:
        holder.refused = refused


class Caught:
    """What `caught` has caught."""

    error: BaseException | None = None


@contextlib.contextmanager
def caught(*kinds: type[BaseException]) -> Iterator[Caught]:
    """Block of ours that deals with its errors: those of these kinds end it, and what was noted in it is forgotten."""
    before, found = noted(), Caught()
    try:
        yield found
    except kinds as error:
        found.error = error
        forget(before)


@contextlib.contextmanager
def unnoted() -> Iterator[None]:
    """Block whose errors leave no note: what becomes of them is decided behind it."""
    before = noted()
    try:
        yield
    finally:
        forget(before)


Refusal.remember = staticmethod(remember)
