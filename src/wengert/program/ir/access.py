"""Which elements of its operands a call reads for each element of its result.

Interprets the dependence patterns that rows state (`wengert.dependence`) for single calls: which elements are moved,
which axes of an operand are aligned with axes of the result, and the axis labels of products.
An answer may be too large, never too small; there is none for functions whose rows state no pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.dependence import MATRIXWISE, SYSTEMS, Along, Contraction, Cumulative, Elementwise, Moved, Reduced
from wengert.program.ir.call import Call, Operand

#: stands for the axis of the result, where each element reads all along an axis of the operand
FREE = -1

# ---------------------------------------------------------------------------------------------- moved elements

_MOVED_KEYWORDS = ("a", "arr", "array", "values", "fill_value", "constant_values")


def moves(call: Call) -> bool:
    """Whether each element of the result is an element of an operand, or a constant."""
    return call.row is not None and type(call.row.dependence) is Moved


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
    """Is there an operand in an argument?"""
    if type(argument) in (list, tuple):
        return any(map(holds, argument))
    return type(argument) is Operand


# ---------------------------------------------------------------------------------------------- aligned axes


def axes(call: Call, position: int, own: tuple, shape: tuple) -> tuple | None:
    """With which axis of the result each axis of an operand is aligned.

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
        An element of the result reads the elements with its own indices on aligned axes, and all along those that are
        `FREE`.  None: nothing is known.
    """
    if call.row.kind == "elementwise" and {*call.kwargs} & {"where", "out"}:
        return None
    pattern = call.row.dependence
    rule = _AXES.get(pattern if type(pattern) is str else type(pattern))
    try:
        return None if rule is None else rule(call, position, own, shape)
    except (IndexError, TypeError, ValueError):  # arguments in a form that the rule does not know
        return None


def _aligned(call, position, own, shape):
    """Aligned at the last axis, as operands are broadcast."""
    operands = call.row.dependence.operands
    missing = len(shape) - len(own)
    if missing < 0 or (operands is not None and position >= operands):
        return None
    return tuple(range(missing, len(shape)))


def argument(call: Call, position: int | None, name: str, default: Any = None) -> Any:
    """An argument by position, or by keyword."""
    if position is not None and position < len(call.args):
        return call.args[position]
    return call.kwargs.get(name, default)


def reduced_axes(call: Call, ndim: int) -> tuple:
    """The axes of its first argument that a call reduces, or along which it goes, as its dependence pattern says.

    Parameters
    ----------
    call : Call
        Of a function with the pattern `Reduced`, `Along` or `Cumulative`.
    ndim : int
        Number of axes of the first argument.

    Returns
    -------
    tuple of int
        Nonnegative; all axes where the argument `axis` is None.
    """
    position, default = call.row.dependence
    axis = argument(call, position, "axis", default)
    found = range(ndim) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    return tuple(sorted({int(d) % ndim for d in found}))


def _reduced(call, position, own, shape):
    """All along the axes that are reduced, which the result has not, or with length 1."""
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
    """All along an axis of the operand, whose shape the result has."""
    if position or len(shape) != len(own):
        return None
    lines = reduced_axes(call, len(own))
    return tuple(FREE if d in lines else d for d in range(len(own)))


def _along_curved(call, position, own, shape):
    """The same, but for sorting and Fourier transforms: many directions at once are faster there than partials."""
    return None if call.row.curvature == "none" else _along(call, position, own, shape)


def _matrixwise(call, position, own, shape):
    """Each matrix in the last two axes gives a result of its own."""
    if position or shape[: len(own) - 2] != own[:-2]:
        return None
    return (*range(len(own) - 2), FREE, FREE)


def _solved(call, position, own, shape):
    """Linear systems: all of the matrix, and a column of the right-hand side."""
    if call.kwargs or position > 1:
        return None
    if len(own) == 1:  # the one right-hand side of all systems
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

# ---------------------------------------------------------------------------------------------- labels of products


def is_product(call: Call) -> bool:
    """Whether the function of a call is a product of arrays, summed over labelled axes."""
    return type(call.row.dependence) is Contraction


def factors(call: Call, ndim: Callable) -> tuple | None:
    """The factors of a product, the labels of their axes, and those of the axes of the result.

    Parameters
    ----------
    call : Call
    ndim : callable
        Gives the number of axes of an argument.

    Returns
    -------
    (arguments, labels of each, labels of the result), or None
        As `wengert.dependence.Contraction` has it; None if the call is no product, or in a form that is not known.
    """
    if not is_product(call):
        return None
    try:
        return call.row.dependence.labels(ndim, *call.args, **call.kwargs)
    except (IndexError, TypeError, ValueError):
        return None
