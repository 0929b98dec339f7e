"""The stack of running derivatives, and the errors that were raised and caught inside them.

Operands refer to their tape, so rules need no current tape.
Only three users look at the stack: creation functions (an array made inside a derivative may receive traced values
later), `passive`, and the errors of traced values.
The stack is a context variable, so each thread and each task has its own.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from contextvars import ContextVar

from wengert.core.frames import at, caller, where
from wengert.deferred import deferred
from wengert.errors import (
    CachedValueWarning,
    Refusal,
    RootFindingWarning,
    RoundingWarning,
    TextWarning,
    TracedValueError,
)

advice = deferred("wengert.core.advice")

#: recorders of the derivatives running in this context, the innermost last
running: ContextVar = ContextVar("wengert_running", default=())

#: function that lifts new arrays, for code that runs on lifted values (series, batches): `core.dispatch.lifted`
_lifting: ContextVar = ContextVar("wengert_lifting", default=None)


@contextlib.contextmanager
def lifting(maker) -> Iterator[None]:
    """Block in which creation functions return ``maker(array)``, except in derivatives inside the block."""
    token = _lifting.set((maker, running.get(), _lifting.get()))
    try:
        yield
    finally:
        _lifting.reset(token)


def lifted_by():
    """Function that lifts new arrays in the running code, or None if it does not run on lifted values."""
    found = _lifting.get()
    return found[0] if found is not None and found[1] is running.get() else None


def lifted_around():
    """Return the function of the innermost enclosing `lifting` block, even from a derivative inside it; or None."""
    found = _lifting.get()
    return None if found is None else found[0]


def is_lifting() -> bool:
    """Return whether a block of `lifting` encloses the running code."""
    return _lifting.get() is not None


def recording(recorder):
    """Block in which `recorder` is the innermost running one."""
    return within((*running.get(), recorder))


class Unrecorded(BaseException):
    """Ends a recording that cannot represent what the function does: this call falls back to eager execution.

    It is not an `Exception`, so that the function does not catch it; if it does, `until_recorded` raises it again.
    `is_lasting`: it would occur for any values of the arguments.
    """

    def __init__(self, reason: str, is_lasting: bool = False):
        super().__init__(reason)
        self.is_lasting = is_lasting


_ended: ContextVar = ContextVar("wengert_ended", default=None)


def unrecorded(reason: str, is_lasting: bool = False) -> Unrecorded:
    """Return an error that ends the recording; if the caller does not raise it, `until_recorded` does."""
    error = Unrecorded(reason, is_lasting)
    if (errors := _ended.get()) is not None:
        errors.append(error)
    return error


def end_recording(reason: str, is_lasting: bool = False):
    """Raise `Unrecorded` with the user's line."""
    raise unrecorded(f"{reason}{at()}", is_lasting)


@contextlib.contextmanager
def until_recorded() -> Iterator[None]:
    """A block that records; at its end it raises any `Unrecorded` that was created inside it and caught there."""
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


#: enclosing derivatives that `outside` and `replaced` removed from the stack; they still note errors
_behind: ContextVar = ContextVar("wengert_behind", default=())


def outside():
    """Block in which no derivative is running."""
    return _hiding(running.get(), ())


def replaced(recorders: tuple, recorder):
    """Block in which these derivatives are running, with the innermost one replaced by `recorder`."""
    return _hiding(recorders[-1:], (*recorders[:-1], recorder))


@contextlib.contextmanager
def _hiding(hidden: tuple, recorders: tuple) -> Iterator[None]:
    """Block in which exactly these derivatives are running, and the hidden ones enclose them."""
    behind = _behind.set((*_behind.get(), *hidden))
    try:
        with within(recorders):
            yield
    finally:
        _behind.reset(behind)


def called_apart(f, args: tuple, kwargs: dict):
    """Call f where no derivative is running and nothing is lifted."""
    running_token, behind_token, lifting_token = running.set(()), _behind.set(()), _lifting.set(None)
    try:
        return f(*args, **kwargs)
    finally:
        running.reset(running_token)
        _behind.reset(behind_token)
        _lifting.reset(lifting_token)


def is_tracing() -> bool:
    """Return whether a derivative is being recorded in this context."""
    found = running.get()
    return bool(found) and (len(found) > 1 or type(found[0]) is not Watch)


def is_outermost() -> bool:
    """Return whether no derivative and no block of `lifting` encloses the running code."""
    return not (is_tracing() or is_lifting() or _behind.get())


def is_recording() -> bool:
    """Return whether a program is being recorded for replay in this context."""
    return any(recorder.level.recording for recorder in running.get() if type(recorder) is not Watch)


class Watch:
    """Entry on the stack of derivatives for an active `wengert.detect_nan`.

    It counts as an enclosing derivative, so that derivatives inside it are recorded by the general classes, which can
    check every value, and not by the fast ones.
    """

    def pause(self) -> None:
        """Do nothing, since a passive block is checked like any other."""

    def resume(self, was: None) -> None:
        """See `pause`."""


def is_watched() -> bool:
    """Return whether a `wengert.detect_nan` is active."""
    for recorder in running.get():
        if type(recorder) is Watch:
            return True
    return False


def note_stop() -> None:
    """Count a request for a constant: by `passive`, `stop_gradient`, or a nested derivative that may return one."""
    _stops[0] += 1


def stops() -> int:
    """Return how often code asked for constants, in all threads."""
    return _stops[0]


_stops = [0]


@contextlib.contextmanager
def passive() -> Iterator[None]:
    """Block whose operations are constants of the running derivative.

    Results computed inside keep their value and lose their derivative, as if each had passed through
    `stop_gradient`; so do values stored into arrays inside.
    Outside a derivative the block does nothing.

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
    note_stop()
    paused = [(recorder, recorder.pause()) for recorder in running.get()]
    try:
        yield
    finally:
        for recorder, start in reversed(paused):
            recorder.resume(start)


# ---------------------------------------------------------------------------------------- errors that were caught

# A function may catch the error of a traced value and continue without its derivative.  Each `Refusal` is therefore
# noted when it is created, as text (the error itself would keep traced values alive), and a derivative whose function
# returns normally raises if there is a note.  Without notes this costs one attribute access.


def remember(error: Refusal, *others) -> None:
    """Note an error at the enclosing derivatives, or at `others` if given."""
    found = set(others or holders())
    if others:  # the enclosing derivatives noted it when it was created
        found.difference_update(holders())
    if found:
        text, place = str(error), where(caller())
        noted = type(error), text if place in text else f"{text} ({place})"
        for holder in found:
            holder.refused = [*(holder.refused or ()), noted]


def holders() -> list:
    """Levels of the enclosing derivatives, and the enclosing functions that lift new arrays."""
    found = [level for recorder in (*_behind.get(), *running.get()) if (level := getattr(recorder, "level", None))]
    lifted = _lifting.get()
    while lifted is not None:
        maker, _, lifted = lifted
        if maker is not None:
            found.append(maker)
    return found


def swallowed(holder, name: str) -> TracedValueError:
    """Error for a derivative whose function caught a noted error."""
    kind, text = holder.refused[0]
    kind = kind if issubclass(kind, TypeError) else TracedValueError
    return kind(
        f"{name}: the function caught an error that only traced values raise, and continued without the derivative. "
        "Let it propagate: catch only errors that plain code raises, or try the differentiable version first. "
        f"The error was: {text}"
    )


_at_end: dict = {}  # (id of a holder, key) -> the holder, and a function to be called at its end
_MAX_AT_END = 1000  # some derivatives may end otherwise


def at_end(key, call) -> None:
    """Call a function when the function of the outermost derivative returns or raises, once for each key.

    A step that is recomputed runs after that, so the function is also called at its end.
    """
    found = holders()
    for holder in {*found[:1], *(found[-1:] if _behind.get() else ())}:
        if holder.refused is None:
            holder.refused = []  # no error, but `check_end` is called
        if len(_at_end) >= _MAX_AT_END:
            _at_end.clear()
        _at_end[id(holder), key] = holder, call


def _run_at_end(holder) -> None:
    if _at_end:
        for key in [key for key, (each, _) in [*_at_end.items()] if each is holder]:
            _, call = _at_end.pop(key, (None, None))
            if call is not None:
                call()


def check_end(holder, name: str = "") -> None:
    """When a function returns, raise if it caught a noted error, and warn if it converted values to text."""
    name = name or holder.name
    _run_at_end(holder)
    if holder.refused:
        raise swallowed(holder, name)
    if holder.spelled:
        file, line = holder.spelled
        _warn(
            TextWarning,
            (file, line),
            f"{name}: a traced value was converted to text at full precision ({file}:{line}), and a number parsed "
            "from that text has no derivative: use the value itself, or show fewer digits, such as "
            'f"{x:.6g}"',
        )


def has_warned(level) -> bool:
    """Return whether the derivative of a level has warned that it may be lost."""
    return level.spelled is not None or any(level is each for each in _warned_at)


_warned_at: list = []  # levels of the derivatives that the latest warning concerns


def warn_search(name: str, file: str, line: int, *levels) -> None:
    """Warn that the loop at this line finds a root without its derivative."""
    _warned_at[:] = levels
    _warn(
        RootFindingWarning,
        (file, line),
        f"{name}: a loop ({file}:{line}) drives a traced value to zero but not its derivative, as bisection does: it "
        "finds a root or a minimum, and the derivative of what it returns is not that of the solution. Use "
        "wengert.implicit.root(f, x0), or decorate the function that solves with wengert.implicit.defines_root(f)",
    )


def warn_match(file: str, line: int) -> None:
    """Warn that the comparison at this line found a traced value equal to a plain one."""
    _warned_at[:] = holders()
    _warn(
        CachedValueWarning,
        (file, line),
        f"a traced value equals a plain one ({file}:{line}): if the comparison looks up a cache, values that an "
        "earlier plain call stored there count as constants, and the derivative is lost. Empty the cache before the "
        "derivative, or keep wengert.compile(f) in place of the cache",
    )


def warn_rounding(decimals: int, file: str, line: int) -> None:
    """Warn that this line rounds a traced value."""
    _warned_at[:] = holders()
    _warn(
        RoundingWarning,
        (file, line),
        f"a traced value was rounded to {decimals} decimals ({file}:{line}), and the result has a derivative of zero: "
        "round after the derivative, or give the function that rounds its result a rule by wengert.primitive. As a key "
        "of a cache, a rounded value finds constants that an earlier plain call stored: empty the cache before",
    )


def _warn(category, place, message):
    """Warn once about a line of the user's code."""
    warnings.warn_explicit(message, category, *place, registry=_warned)


#: registry of `warnings` for the lines that have been warned about
_warned: dict = {}


def spell(file: str, line: int, *others) -> None:
    """Note at the given and the enclosing derivatives that a value was converted to text at full precision."""
    for holder in {*others, *holders()}:
        holder.spelled = holder.spelled or (file, line)


def explain(level, error: BaseException, name: str | None = None) -> None:
    """Replace an error that a function raised because of traced values by a clear one, or add a note to it.

    C code, and code that catches errors and raises others, replaces our errors by ones that do not mention the
    derivative.
    """
    _run_at_end(level)
    if isinstance(error, Refusal) or not isinstance(error, Exception):
        return
    if level.refused:
        kind, text = level.refused[0]
        raise (kind if issubclass(kind, TypeError) else TracedValueError)(text) from error
    if (text := advice.of_error(error)) is not None:
        raise TracedValueError(text) from error
    if isinstance(error, (AttributeError, TypeError, ValueError)) and not hasattr(error, "__notes__"):
        if (text := advice.note_of(error, name or level.name)) is not None:
            error.add_note(text)


def noted() -> list:
    """Snapshot of the notes, to be passed to `forget`."""
    return [(holder, holder.refused) for holder in holders()]


def forget(before: list) -> None:
    """Drop the notes made since `before`, whose errors the caller handles."""
    for holder, refused in before:
        holder.refused = refused


class Caught:
    """Holds the error that ended a block of `caught`."""

    error: BaseException | None = None


@contextlib.contextmanager
def caught(*kinds: type[BaseException]) -> Iterator[Caught]:
    """A block that suppresses errors of these types, which the caller handles, and drops their notes."""
    before, found = noted(), Caught()
    try:
        yield found
    except kinds as error:
        found.error = error
        forget(before)


@contextlib.contextmanager
def unnoted() -> Iterator[None]:
    """Block whose errors leave no note, since the caller handles them."""
    before = noted()
    try:
        yield
    finally:
        forget(before)
