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

#: the tape that is recording in this context, or None
running: ContextVar = ContextVar("wengert_running", default=None)


@contextlib.contextmanager
def recording(tape) -> Iterator[None]:
    """Make `tape` the running one; the former one is restored, whatever happens."""
    token = running.set(tape)
    try:
        yield
    finally:
        running.reset(token)


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
    tape = running.get()
    start = tape.size if tape is not None else 0
    try:
        yield
    finally:
        if tape is not None:
            tape.silence(start)
