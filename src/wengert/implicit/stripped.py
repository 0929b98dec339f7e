"""Remove traced values from functions: from closure cells and defaults, objects and containers.

Iterations of a solver, and the Jacobian at a solution, need plain values only.
If a traced value is held elsewhere, the function runs under the derivative, which is slower.
"""

from __future__ import annotations

import copy
import functools
import types
from typing import Any

from wengert.containers import children_of, plain_copy
from wengert.core.levels import caught
from wengert.core.operands import var
from wengert.features import is_made_in_python
from wengert.transforms.dense import Operator

#: maximum number of items of a container, or attributes of an object, that are inspected
MAX_ITEMS = 64


def stripped(x: Any, memo: dict | None = None) -> Any:
    """Return `x` with plain values in place of traced ones; `x` itself if it holds none."""
    if var.is_var(x):
        return plain_copy(x) if var.is_traced(x) else x
    memo = {} if memo is None else memo
    if id(x) not in memo:
        memo[id(x)] = x, x  # a cycle returns x unchanged; the tuple keeps x alive, so that its id stays unique
        memo[id(x)] = x, _rebuilt(x, memo)
    return memo[id(x)][1]


def _rebuilt(x, memo):
    kind = type(x)
    if kind is types.FunctionType:
        return _function(x, memo)
    if kind is types.MethodType:
        parts = _changed([x.__func__, x.__self__], memo)
        return x if parts is None else types.MethodType(*parts)
    if kind is functools.partial:
        parts = _changed([x.func, x.args, x.keywords], memo)
        return x if parts is None else functools.partial(parts[0], *parts[1], **parts[2])
    if isinstance(x, Operator):
        made, (f, *options) = x.__reduce__()
        inner = stripped(f, memo)
        return x if inner is f else made(inner, *options)
    if hasattr(kind, "__wengert__"):  # compiled; compiling the stripped function again would not pay
        inner = stripped(x.f, memo)
        return x if inner is x.f else inner
    found = children_of(x)
    if found is not None or kind in (list, tuple):
        items, restore = found or (list(x), kind)
        items = _changed(items, memo)
        return x if items is None else restore(items)
    if is_made_in_python(kind) and not isinstance(x, type):
        return _object(x, memo)
    return x


def _changed(items, memo):
    """Return the items stripped; None if none changed, or if there are too many to inspect."""
    if len(items) > MAX_ITEMS and not var.holds_traced(items):
        return None
    found = [stripped(item, memo) for item in items]
    return found if any(new is not old for new, old in zip(found, items)) else None


def _function(f, memo):
    cells = [cell for cell in f.__closure__ or () if cell != _EMPTY]
    contents = [cell.cell_contents for cell in cells]
    parts = _changed([contents, f.__defaults__, f.__kwdefaults__], memo)
    if parts is None:
        return f
    held = {
        id(cell): types.CellType(new) for cell, old, new in zip(cells, contents, parts[0]) if new is not old or old is f
    }
    closure = tuple(held.get(id(cell), cell) for cell in f.__closure__ or ())
    made = types.FunctionType(f.__code__, f.__globals__, f.__name__, parts[1], closure or None)
    made.__kwdefaults__ = parts[2]
    for cell in held.values():
        if cell.cell_contents is f:  # recursive function
            cell.cell_contents = made
    return functools.update_wrapper(made, f)


_EMPTY = types.CellType()


def _object(x, memo):
    space = getattr(x, "__dict__", {})
    values = _changed([*space.values()], memo)
    if values is None:
        return x
    made = None
    with caught(Exception):  # an object that cannot be copied stays as it is
        made = copy.copy(x)
    if made is None:
        return x
    made.__dict__.update(zip(space, values))
    return made
