"""Checks lower and upper limits that coincide: a derivative exists only if both are one value and move together."""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.containers import plain_copy
from wengert.core.operands import var
from wengert.core.operands.var import holds_traced
from wengert.errors import NonSmoothError


def check_bounds(name: str, bounds: Any) -> None:
    """Raise if bounds, an object or a sequence of pairs, are equal for a variable, but do not move together."""
    if hasattr(bounds, "lb"):
        check_closed(name, bounds.lb, bounds.ub)
    elif bounds is not None:
        pairs = [(low, high) for low, high in bounds]
        check_closed(name, [pair[0] for pair in pairs], [pair[1] for pair in pairs])


def check_closed(name: str, low: Any, high: Any, limits: str = "bounds of variable", owner: str = "") -> None:
    """Raise if lower and upper limits meet, but do not move together: there is no solution where they cross.

    The limits are numbers, arrays, or lists of numbers. All elements of a traced array count as traced.
    """
    if low is high or not holds_traced((low, high)):
        return
    n = len(low) if isinstance(low, list) else max(np.size(low), np.size(high))
    for i, (a, b) in enumerate(zip(_elements(low, n), _elements(high, n))):
        if a is b or a is None or b is None or plain_copy(a) != plain_copy(b) or var.is_same(a, b):
            continue
        count = holds_traced(a) + holds_traced(b)
        if count:
            are = "and only one of them is traced" if count == 1 else "but they are different traced values"
            raise NonSmoothError(
                f"{name} has no derivative here: the {limits} {i}{owner and ' '}{owner} are equal, {are}: there is no "
                "solution if one of them moves beyond the other. Pass the same value twice to fix the variable, or "
                "wengert.stop_gradient of the limits; if this element is constant, pass pairs: "
                "bounds=[(low, high), ...]"
            )


def _elements(end, n):
    """Return n limits as a sequence that can be indexed."""
    if isinstance(end, list):
        return end
    return end + np.zeros(n) if np.size(end) < n else np.reshape(end, (-1,))
