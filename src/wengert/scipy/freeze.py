"""Functions and arguments as a solver's iterations see them: plain numbers, whatever is traced around.

A solver of SciPy runs on plain numbers, and its result is differentiated by a rule of its own afterwards.
The functions handed to it may close over traced values all the same.
`frozen` makes copies of them that close over the plain values, so that the iterations run as they do where nothing is
traced: by the same fast classes, sharing evaluations, to the same last bit.

Traced values in other places, such as attributes of objects, stay where they are: then `Frozen` runs the functions
inside of the running derivatives, whose followed values are constants in a passive block.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from wengert.containers import plain_copy
from wengert.core.var import is_traced


def frozen(x: Any) -> Any:
    """`x` with plain numbers in the place of traced ones: in containers, partial functions, cells and defaults.

    What holds none is returned as it is; objects with attributes always are.
    """
    return _frozen(x, {})


def _frozen(x, memo):
    if is_traced(x):
        return plain_copy(x)
    kind = type(x)
    if kind not in _PARTS or id(x) in memo:
        return memo.get(id(x), x)
    memo[id(x)] = x  # what refers to itself keeps its traced values there
    memo[id(x)] = _PARTS[kind](x, lambda part: _frozen(part, memo))
    return memo[id(x)]


def _sequence(x, freeze):
    items = [freeze(item) for item in x]
    return x if _same(items, x) else type(x)(items)


def _mapping(x, freeze):
    items = {key: freeze(value) for key, value in x.items()}
    return x if _same(items.values(), x.values()) else items


def _partial(x, freeze):
    parts = [freeze(part) for part in (x.func, x.args, x.keywords)]
    return x if _same(parts, (x.func, x.args, x.keywords)) else functools.partial(parts[0], *parts[1], **parts[2])


def _function(f, freeze):
    """A copy of a function with cells of its own for what is frozen; it shares all other cells."""
    cells = tuple(_cell(cell, freeze) for cell in f.__closure__ or ())
    defaults, keywords = freeze(f.__defaults__), freeze(f.__kwdefaults__)
    if _same(cells, f.__closure__ or ()) and defaults is f.__defaults__ and keywords is f.__kwdefaults__:
        return f
    copy = types.FunctionType(f.__code__, f.__globals__, f.__name__, defaults, cells or None)
    copy.__kwdefaults__ = keywords
    copy.__qualname__, copy.__module__, copy.__doc__ = f.__qualname__, f.__module__, f.__doc__
    copy.__dict__.update(f.__dict__)
    return copy


def _cell(cell, freeze):
    try:
        held = cell.cell_contents
    except ValueError:  # not filled yet
        return cell
    value = freeze(held)
    return cell if value is held else types.CellType(value)


def _same(one, other):
    return all(a is b for a, b in zip(one, other))


_PARTS = {
    list: _sequence,
    tuple: _sequence,
    dict: _mapping,
    functools.partial: _partial,
    types.FunctionType: _function,
}
