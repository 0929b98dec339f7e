"""Raises at the first NaN in a derivative computation and names the function and line (see `wengert.detect_nan`).

It checks the value of each call, the tangent returned by each rule, and each adjoint after a cotangent is added.
Intermediate results within rules are not checked: a NaN there may be multiplied by an exact 0, which gives 0.
"""

from __future__ import annotations

import contextlib
import linecache
from collections.abc import Iterator
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

from wengert.core import frames
from wengert.core.operands import var


class Place(NamedTuple):
    """Name and position of a call in the user's code."""

    name: str
    position: tuple | None

    def __str__(self):
        text = f"({frames.where(self.position)})"
        code = linecache.getline(*frames.file_and_line(self.position)).strip() if self.position else ""
        return f"{text}: {code}" if code else text


#: the call whose derivative rule is running
_running_call: ContextVar[Place | None] = ContextVar("wengert_at_work", default=None)


def place(name: str) -> Place:
    """Return the place of the call being recorded; a call within a rule gets the place of the rule's call."""
    around = _running_call.get()
    if around is None:
        return Place(name, frames.caller())
    return Place(f"{name} in the derivative of {around.name}", around.position)


@contextlib.contextmanager
def rule(at: Place) -> Iterator[None]:
    """Context manager within which the rule of the call at this place runs."""
    token = _running_call.set(at)
    try:
        yield
    finally:
        _running_call.reset(token)


def check_value(row, operands, y) -> None:
    """Raise if the value of a call of f contains NaN."""
    index = None if _running_call.get() is not None else _nan(y)
    if index is None:
        return
    given = [f"operand {i} is NaN already" for i, x in enumerate(operands) if _nan(x) is not None]
    if not given and row.kind == "elementwise":
        given = [f"computed from {', '.join(_element(x, index, np.shape(y)) for x in operands)}"]
    raise FloatingPointError(f"the value of {row.name} is NaN{_at(index)}{_listed(given)} {place(row.name)}")


def check_tangent(t) -> None:
    """Raise if the tangent returned by the running rule contains NaN."""
    index = _nan(t)
    if index is not None:
        at = _running_call.get()
        raise FloatingPointError(f"the derivative of {at.name} is NaN: a tangent{_at(index[1:])} {at}")


def check_adjoint(name: str, total, part) -> None:
    """Raise if an adjoint is NaN after adding the cotangent `part`, from the running rule or from the seed."""
    index = _nan(total)
    if index is None:
        return
    at = _running_call.get()
    if at is None:
        raise FloatingPointError(f"{name}: the cotangent of the result is NaN{_at(index[1:])}")
    if _nan(part) is not None:
        raise FloatingPointError(f"the derivative of {at.name} is NaN: a cotangent{_at(index[1:])} {at}")
    raise FloatingPointError(
        f"the derivative of {at.name} is infinite, and its sum with an infinite one of opposite sign is "
        f"NaN{_at(index[1:])} {at}"
    )


def check_inputs(name: str, level, inputs) -> None:
    """Raise if an input or a direction of a derivative contains NaN."""
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
    """Return the index of the first NaN in an operand or array, or None."""
    x = np.asarray(var.plain(x)) if not isinstance(x, (list, tuple)) else np.asarray(0)
    if x.dtype.kind not in "fc" or not np.isnan(x).any():
        return None
    return tuple(int(i) for i in np.argwhere(np.isnan(x))[0])


def _at(index) -> str:
    return f" at index {index}" if index else ""


def _listed(given) -> str:
    return ", " + ", ".join(given) if given else ""


def _element(x, index, shape) -> str:
    """Format the element of an operand that broadcasts to `index` of the result."""
    return str(np.broadcast_to(var.plain(x), shape)[index])
