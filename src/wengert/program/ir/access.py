"""Access analysis of calls: which operand elements each element of the result reads.

Applies the dependence patterns of registry rows (`wengert.dependence`) to single calls: rearrangements of elements,
alignment of operand axes with result axes, and axis labels of contractions.
Answers may overestimate the elements read, never underestimate them; without a pattern the answer is None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.dependence import MATRIXWISE, SYSTEMS, Along, Contraction, Cumulative, Elementwise, Moved, Reduced
from wengert.program.ir.call import Call, Operand

#: marks an operand axis that each element of the result reads completely
FREE = -1

# ---------------------------------------------------------------------------------------------- rearrangements

_MOVED_KEYWORDS = ("a", "arr", "array", "values", "fill_value", "constant_values")


def moves(call: Call) -> bool:
    """Return whether each element of the result is an element of an operand, or a constant."""
    return call.row is not None and type(call.row.dependence) is Moved


def heeds_memory(call: Call) -> bool:
    """Return whether the result of a call depends on the memory order of its operands (order "K" or "A")."""
    return bool({"K", "A"} & {x for x in (*call.args, *call.kwargs.values()) if type(x) is str})


def rearranged(call: Call, numbers: Callable, known: Callable) -> Any:
    """Evaluate a rearranging call on element indices instead of values.

    Parameters
    ----------
    call : Call
    numbers : callable
        Maps an argument to an integer array of its shape, zeros for a constant. If the call `heeds_memory`, the array
        must have the argument's memory order.
    known : callable
        Maps an argument that selects elements, such as an index, to its value, or None if the value is not known.

    Returns
    -------
    ndarray of integers or None
        None if the result depends on an unknown value.
    """
    positions, only_if = call.row.dependence
    if only_if is not None and not only_if(*call.args, **call.kwargs):
        return None
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


def holds(argument: Any) -> bool:
    """Return whether an argument contains an operand."""
    if type(argument) in (list, tuple):
        return any(map(holds, argument))
    return type(argument) is Operand


# ---------------------------------------------------------------------------------------------- aligned axes


def axes(call: Call, position: int, own: tuple, shape: tuple) -> tuple | None:
    """Return the result axis with which each axis of an operand is aligned.

    Parameters
    ----------
    call : Call
    position : int
        Index of the operand among the arguments.
    own, shape : tuple
        Shapes of the operand and of the result.

    Returns
    -------
    tuple of int or None
        An element of the result reads the operand elements with its own indices on aligned axes, and all elements
        along axes that are `FREE`.  None if the access is not known.
    """
    if call.row.kind == "elementwise" and {*call.kwargs} & {"where", "out"}:
        return None
    pattern = call.row.dependence
    rule = _AXES.get(pattern if type(pattern) is str else type(pattern))
    try:
        return None if rule is None else rule(call, position, own, shape)
    except (IndexError, TypeError, ValueError):  # an argument form that the rule does not cover
        return None


def _aligned(call, position, own, shape):
    """Align axes from the last one, as broadcasting does."""
    operands = call.row.dependence.operands
    missing = len(shape) - len(own)
    if missing < 0 or (operands is not None and position >= operands):
        return None
    return tuple(range(missing, len(shape)))


def argument(call: Call, position: int | None, name: str, default: Any = None) -> Any:
    """Return an argument by position or keyword."""
    if position is not None and position < len(call.args):
        return call.args[position]
    return call.kwargs.get(name, default)


def reduced_axes(call: Call, ndim: int) -> tuple:
    """Return the axes of the first argument that a call reduces or scans, by its dependence pattern.

    Parameters
    ----------
    call : Call
        Call of a function with the pattern `Reduced`, `Along` or `Cumulative`.
    ndim : int
        Number of axes of the first argument.

    Returns
    -------
    tuple of int
        Nonnegative; all axes if the argument `axis` is None.
    """
    position, default = call.row.dependence
    axis = argument(call, position, "axis", default)
    found = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted({int(d) % ndim for d in found}))


def _reduced(call, position, own, shape):
    """Reduced axes are read completely; the result drops them or keeps them with length 1."""
    if position or not own:
        return () if not own and not position else None
    gone = reduced_axes(call, len(own))
    if len(shape) == len(own):
        return tuple(FREE if d in gone else d for d in range(len(own)))
    if len(shape) != len(own) - len(gone):
        return None
    kept = iter(range(len(shape)))
    return tuple(FREE if d in gone else next(kept) for d in range(len(own)))


def _along(call, position, own, shape):
    """The axis of operation is read completely; the result has the operand's shape."""
    if position or len(shape) != len(own):
        return None
    lines = reduced_axes(call, len(own))
    return tuple(FREE if d in lines else d for d in range(len(own)))


def _along_curved(call, position, own, shape):
    """Apply `_along`; None for sorting and Fourier transforms, where batched directions are faster than partials."""
    return None if call.row.curvature == "none" else _along(call, position, own, shape)


def _matrixwise(call, position, own, shape):
    """Each matrix on the last two axes determines one result."""
    if position or shape[: len(own) - 2] != own[:-2]:
        return None
    return (*range(len(own) - 2), FREE, FREE)


def _solved(call, position, own, shape):
    """Linear systems: read the whole matrix and one column of the right-hand side."""
    if call.kwargs or position > 1:
        return None
    if len(own) == 1:  # one right-hand side, shared by all systems
        return (FREE,) if position else None
    is_vector = not position and len(shape) < len(own)
    lead = len(shape) - (1 if is_vector else 2)
    batch = range(lead - (len(own) - 2), lead)
    return (*batch, FREE, len(shape) - 1) if position else (*batch, FREE, FREE)


_AXES = {
    Elementwise: _aligned,
    Reduced: _reduced,
    Along: _along_curved,
    Cumulative: _along,
    MATRIXWISE: _matrixwise,
    SYSTEMS: _solved,
}

# ---------------------------------------------------------------------------------------------- contraction labels


def is_product(call: Call) -> bool:
    """Return whether a call is a contraction: a product of arrays summed over labelled axes."""
    return type(call.row.dependence) is Contraction


def factors(call: Call, ndim: Callable) -> tuple | None:
    """Return the factors of a contraction, the labels of their axes, and the labels of the result's axes.

    Parameters
    ----------
    call : Call
    ndim : callable
        Maps an argument to its number of axes.

    Returns
    -------
    (arguments, labels of each, labels of the result), or None
        As in `wengert.dependence.Contraction`; None if the call is not a contraction or has an unsupported form.
    """
    if not is_product(call):
        return None
    try:
        return call.row.dependence.labels(ndim, *call.args, **call.kwargs)
    except (IndexError, TypeError, ValueError):
        return None
