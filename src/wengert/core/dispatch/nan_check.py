"""The first NaN of a derivative, by name and line: what `wengert.detect_nan` looks at.

A value is checked when a function has computed it, a tangent when a rule has given it, an adjoint whenever something
was added to it.
What a rule computes on the way is not checked: a NaN there that a factor of exactly 0 takes out is none.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from wengert.core.dispatch import dispatch
from wengert.core.operands import var


class Place(NamedTuple):
    """Where a call stands in the user's code."""

    name: str
    position: tuple | None

    def __str__(self):
        text = f"({dispatch.where(self.position)})"
        code = linecache.getline(*dispatch.file_and_line(self.position)).strip() if self.position else ""
        return f"{text}: {code}" if code else text


#: the call whose rule is at work
_at_work: ContextVar[Place | None] = ContextVar("wengert_at_work", default=None)


def place(name: str) -> Place:
    """Where the call stands that is being recorded; a call that a rule makes stands where that of the rule does."""
    around = _at_work.get()
    if around is None:
        return Place(name, dispatch.caller())
    return Place(f"{name} in the derivative of {around.name}", around.position)


@contextlib.contextmanager
def rule(at: Place) -> Iterator[None]:
    """While the rule of the call at this place is at work."""
    token = _at_work.set(at)
    try:
        yield
    finally:
        _at_work.reset(token)


def check_value(row, operands, y) -> None:
    """Raise if a call of f gave NaN."""
    index = None if _at_work.get() is not None else _nan(y)
    if index is None:
        return
    given = [f"operand {i} is NaN already" for i, x in enumerate(operands) if _nan(x) is not None]
    if not given and row.kind == "elementwise":
        given = [f"of {', '.join(_element(x, index, np.shape(y)) for x in operands)}"]
    raise FloatingPointError(f"the value of {row.name} is NaN{_at(index)}{_listed(given)} {place(row.name)}")


def check_tangent(t) -> None:
    """Raise if the rule at work gave a tangent that is NaN."""
    index = _nan(t)
    if index is not None:
        at = _at_work.get()
        raise FloatingPointError(f"the derivative of {at.name} is NaN: a tangent{_at(index[1:])} {at}")


def check_adjoint(name: str, total, part) -> None:
    """Raise if the cotangent `part` made an adjoint NaN: it comes from the rule at work, or was given to the sweep."""
    index = _nan(total)
    if index is None:
        return
    at = _at_work.get()
    if at is None:
        raise FloatingPointError(f"{name}: the cotangent of the result is NaN{_at(index[1:])}")
    if _nan(part) is not None:
        raise FloatingPointError(f"the derivative of {at.name} is NaN: a cotangent{_at(index[1:])} {at}")
    raise FloatingPointError(
        f"the derivative of {at.name} is infinite and meets an infinite one of the other sign: "
        f"their sum is NaN{_at(index[1:])} {at}"
    )


def check_inputs(name: str, level, inputs) -> None:
    """Raise if a derivative is asked for at NaN, or in the direction of NaN."""
    for i, x in enumerate(inputs):
        found = [("input", _nan(x))]
        if level.is_forward:
            index = _nan(var.tangents_of(x))
            found.append(("direction", None if index is None else index[1:]))
        for word, index in found:
            if index is not None:
                which = f"{word} {i}" if len(inputs) > 1 else f"the {word}"
                raise FloatingPointError(f"{name}: {which} is NaN{_at(index)}")


def _nan(x):
    """Index of the first NaN in an operand or array, or None."""
    x = np.asarray(var.plain(x)) if not isinstance(x, (list, tuple)) else np.asarray(0)
    if x.dtype.kind not in "fc" or not np.isnan(x).any():
        return None
    return tuple(int(i) for i in np.argwhere(np.isnan(x))[0])


def _at(index) -> str:
    return f" at index {index}" if index else ""


def _listed(given) -> str:
    return ", " + ", ".join(given) if given else ""


def _element(x, index, shape) -> str:
    """The element of an operand that the element of the result at an index was computed from."""
    return str(np.broadcast_to(var.plain(x), shape)[index])
