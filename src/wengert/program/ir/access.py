"""Which elements of an operand a call reads for which of its result: by elements that move, and axes that go along.

What is said here may be too much, never too little; nothing is said of functions that are not known.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wengert.program.ir.call import Call, Operand

#: stands for the axis of the result, where each element reads all along an axis of the operand
FREE = -1

# ---------------------------------------------------------------------------------------------- elements that move

#: functions that move elements, beside the rows of the kinds "view" and "rearrangement"
MOVING = (
    *[f"numpy.{name}" for name in "concatenate stack append insert full full_like compress extract pad".split()],
    "wengert.program.ir.call_rules.placed",
    "_operator.getitem",
)
#: positions of the arguments whose elements are moved, where that is not the first
_MOVED = {
    "numpy.append": (0, 1),
    "numpy.insert": (0, 2),
    "numpy.full": (1,),
    "numpy.full_like": (0, 1),
    "numpy.compress": (1,),
    "numpy.extract": (1,),
    "wengert.program.ir.call_rules.placed": (0, 2),
}
_MOVED_KEYWORDS = ("a", "arr", "array", "values", "fill_value", "constant_values")
_PADDINGS = ("constant", "edge", "wrap", "reflect", "symmetric")


def moves(call: Call) -> bool:
    """Does a call move elements, and compute none?"""
    return call.row is not None and (call.row.kind in ("view", "rearrangement") or call.row.name in MOVING)


def heeds_memory(call: Call) -> bool:
    """Does a call go through elements in the order in which they lie in memory?"""
    return bool({"K", "A"} & {x for x in (*call.args, *call.kwargs.values()) if type(x) is str})


def rearranged(call: Call, numbers: Callable, known: Callable) -> Any:
    """What a call that moves elements gives for numbers in their place.

    Parameters
    ----------
    call : Call
    numbers : callable
        Gives an array of integers in the place of an argument, laid out in memory as that is where a call
        `heeds_memory`; of a constant, zeros.
    known : callable
        The value of an argument that chooses, such as an index; None where it is not known.

    Returns
    -------
    ndarray of integers or None
        None if it depends on what is not known.
    """
    if call.row.name == "numpy.pad" and not _is_moving(call):
        return None
    positions = _MOVED.get(call.row.name, (0,))
    args = []
    for position, argument in enumerate(call.args):
        if position in positions:
            is_sequence = type(argument) in (list, tuple)
            args.append([numbers(x) for x in argument] if is_sequence else numbers(argument))
        elif holds(argument) and (argument := known(argument)) is None:
            return None
        else:
            args.append(argument)
    kwargs = {key: 0 if key in _MOVED_KEYWORDS else value for key, value in call.kwargs.items() if key != "dtype"}
    return call.compute(*args, **kwargs)


def _is_moving(call):
    """Does ``pad`` repeat elements, or put constants around them?"""
    mode = call.kwargs.get("mode", call.args[2] if len(call.args) > 2 else "constant")
    return mode in _PADDINGS and "reflect_type" not in call.kwargs


def holds(argument: Any) -> bool:
    """Is there an operand in an argument?"""
    if type(argument) in (list, tuple):
        return any(map(holds, argument))
    return type(argument) is Operand


# ---------------------------------------------------------------------------------------------- axes that go along


def axes(call: Call, position: int, own: tuple, shape: tuple) -> tuple | None:
    """Along which axis of the result each axis of an operand goes.

    Parameters
    ----------
    call : Call
    position : int
        Of the operand, among the arguments.
    own, shape : tuple
        Shapes of the operand and of the result.

    Returns
    -------
    tuple of int or None
        An element of the result reads elements with its own indices on axes that go along, and all on those that are
        `FREE`. None: nothing is known.
    """
    if call.row.kind == "elementwise":
        return None if {*call.kwargs} & {"where", "out"} else _aligned(call, position, own, shape)
    rule = _AXES.get(call.row.name)
    try:
        return None if rule is None else rule(call, position, own, shape)
    except (IndexError, TypeError, ValueError):  # arguments in a form that the rule does not know
        return None


def _aligned(call, position, own, shape):
    """Element by element, operands broadcast."""
    missing = len(shape) - len(own)
    return tuple(range(missing, len(shape))) if missing >= 0 else None


def _first_aligned(call, position, own, shape):
    return _aligned(call, position, own, shape) if position == 0 else None


def _argument(call, position, name, default=None):
    return call.args[position] if position < len(call.args) else call.kwargs.get(name, default)


def _numbered(axis, ndim):
    """Axes as a set of numbers; None stands for all."""
    found = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return {int(d) % ndim for d in found}


def _reduced(at, default=None):
    """All along an axis, given by position or keyword, which the result has not, or with length 1."""

    def rule(call, position, own, shape):
        if position or not own:
            return () if not own and not position else None
        gone = _numbered(_argument(call, at, "axis", default), len(own))
        if len(shape) == len(own):
            return tuple(FREE if d in gone else d for d in range(len(own)))
        if len(shape) != len(own) - len(gone):
            return None
        kept = iter(range(len(shape)))
        return tuple(FREE if d in gone else next(kept) for d in range(len(own)))

    return rule


def _along(at, default):
    """The result has the shape of the operand; each element reads a line along an axis."""

    def rule(call, position, own, shape):
        if position or len(shape) != len(own):
            return None
        lines = _numbered(_argument(call, at, "axis", default), len(own))
        return tuple(FREE if d in lines else d for d in range(len(own)))

    return rule


def _matrixwise(call, position, own, shape):
    """Each matrix in the last two axes gives a result of its own."""
    if position or shape[: len(own) - 2] != own[:-2]:
        return None
    return (*range(len(own) - 2), FREE, FREE)


def _solved(call, position, own, shape):
    """Systems of equations: all of a matrix, of the right side a column."""
    if call.kwargs or position > 1:
        return None
    if len(own) == 1:  # the one right side of all systems
        return (FREE,) if position else None
    is_vector = not position and len(shape) < len(own)
    lead = len(shape) - (1 if is_vector else 2)
    batch = range(lead - (len(own) - 2), lead)
    return (*batch, FREE, len(shape) - 1) if position else (*batch, FREE, FREE)


def _named(module, names, rule):
    return {f"{module}.{name}": rule for name in names.split()}


_AXES = {
    **_named("numpy", "clip", _aligned),
    **_named("numpy", "interp nan_to_num", _first_aligned),
    **_named("numpy", "sum mean max min amax amin prod ptp var std", _reduced(1)),
    **_named("numpy", "nansum nanmean nanmax nanmin median nanmedian average", _reduced(1)),
    **_named("wengert.rules.ufuncs", "hypot_reduce logaddexp_reduce logaddexp2_reduce", _reduced(1, 0)),
    "numpy.linalg.norm": _reduced(2),
    "numpy.linalg.vector_norm": _reduced(math.inf),  # by keyword only
    "wengert.rules.special_python.log_sum": _reduced(2),
    **_named("numpy", "cumsum cumprod cumulative_sum cumulative_prod", _along(1, None)),
    **_named("wengert.rules.special_python", "shares log_shares", _along(1, None)),
    **_named("numpy.linalg", "inv det cholesky eigvalsh svdvals matrix_power", _matrixwise),
    "numpy.linalg.solve": _solved,
}
