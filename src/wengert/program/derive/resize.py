"""Traces of derivative rules at small shapes, resized to the shapes of a program.

Tracing a rule means running it, which at full size takes as long as differentiating the call once.
Long axes are therefore replaced by short ones of distinct prime length, in the same order, and the trace is resized by
replacing each prime by the length that it stands for.
This is exact if the trace refers to lengths only by the shapes of its values, and to memory only by views of whole
axes: transposed, broadcast, or with axes of length 1 inserted.
Everything else is refused, and traced at full size: other views, constant arrays and indices, and constants and static
arguments that could be computed from a length.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from wengert.program.ir.call import Operand, is_function
from wengert.program.ir.ir import restored
from wengert.program.ir.opcode_table import marked
from wengert.program.ir.opcodes import Op

#: minimum ratio of the element counts of operands and stand-ins for which a smaller trace pays
MIN_REDUCTION = 4

#: axes up to this length keep their length. The primes that replace longer ones are far from these and from each other,
#: so that no difference of lengths could be mistaken for another number in the trace
MAX_KEPT = 3
PRIMES = (17, 23, 31, 41, 53, 67)

#: constants that no rule computes from a length
_NEUTRAL = frozenset((0.0, 0.5, 1.0, 2.0, math.inf))
_OTHER_MEMORY = marked(frozenset((Op.ARRAY, Op.PACK, Op.GATHER, Op.PUT, Op.SCATTER)))


class _Refused(Exception):
    pass


def _size_of(types):
    """Return the number of elements of operands of these types."""
    return sum([math.prod(shape) for _, shape, _ in types])


class StandIns:
    """Smaller types that stand in for those of a rule's operands; `lengths` maps their lengths to the original ones."""

    def __init__(self, types, lengths):
        self.lengths = lengths
        small = {length: stand_in for stand_in, length in lengths.items()}
        self.types = [_resized_type(type, small) for type in types]

    @classmethod
    def of(cls, call, given):
        """Return stand-ins for operands of these types; None if the rule of the call is traced at full size.

        `call` is None for a rule that refers to no static arguments.
        """
        if not (call is None or _is_sizeless_call(call)):
            return None
        every = sorted({n for _, shape, _ in given for n in shape})
        long = [n for n in every if n > MAX_KEPT]
        if len(long) > len(PRIMES) or 0 in every:
            return None
        lengths = {1: 1} | {n: n for n in every if n <= MAX_KEPT} | dict(zip(PRIMES, long))
        try:
            found = cls(given, lengths)
        except _Refused:
            return None
        return found if _size_of(given) >= MIN_REDUCTION * _size_of(found.types) else None

    def resized(self, code):
        """Convert a trace at the small types to the full types; None if that is not possible."""
        op, a, b, c, kinds, of_values, constants, arrays, calls, views, packs, guards, *ends = code.__reduce__()[1]
        is_sizeless = (
            not _OTHER_MEMORY[op].any()
            and not b[op == Op.LOAD].any()
            and all(map(_is_neutral, constants))
            and all(map(_is_sizeless_call, calls))
            and all(np.ndim(expected) == 0 for expected, _ in guards)
        )
        if not is_sizeless:
            return None
        try:
            of_values = [_resized_type(type, self.lengths) for type in of_values]
            items, uses = [8] * len(views), (op == Op.VIEW) | (op == Op.PLACE)
            for view, kind in zip(b[uses].tolist(), kinds[uses].tolist()):
                items[view] = of_values[kind][0].itemsize
            views = [_resized_view(view, item, self.lengths) for view, item in zip(views, items)]
            return restored(op, a, b, c, kinds, of_values, constants, arrays, calls, views, packs, guards, *ends)
        except (_Refused, ValueError):  # ValueError: two types have become equal
            return None


def _resized_shape(shape, lengths):
    if not all(n in lengths for n in shape):
        raise _Refused
    return tuple([lengths[n] for n in shape])


def _resized_type(type, lengths):
    dtype, shape, strides = type
    if strides is None or strides == "flag":
        return dtype, _resized_shape(shape, lengths), strides
    return dtype, *_resized_view((0, shape, strides), dtype.itemsize, lengths)[1:]


def _resized_view(view, itemsize, lengths):
    """Return a view of whole axes, which may be transposed or broadcast, with other lengths."""
    offset, shape, strides = view
    if offset:
        raise _Refused
    found, new = [0] * len(shape), _resized_shape(shape, lengths)
    before = after = itemsize
    steps = {0: 0, before: after}
    for k in sorted([k for k, n in enumerate(shape) if n > 1 and strides[k]], key=strides.__getitem__):
        if strides[k] != before:
            raise _Refused
        found[k] = after
        before, after = before * shape[k], after * new[k]
        steps[before] = after
    for k in [k for k, n in enumerate(shape) if n == 1]:
        if strides[k] not in steps:
            raise _Refused
        found[k] = steps[strides[k]]
    return 0, new, tuple(found)


def _is_neutral(x):
    return math.isnan(x) or abs(x) in _NEUTRAL


def _is_sizeless_call(call):
    """Return whether a call is to a function of a module, with static arguments that say nothing about lengths."""
    name = getattr(call.compute, "__qualname__", None) or getattr(call.compute, "__name__", ".")
    return (
        "." not in name
        and is_function(call)
        and all(map(_is_sizeless, itertools.chain(call.args, call.kwargs.values())))
    )


def _is_sizeless(x):
    if type(x) in (tuple, list):
        return all(map(_is_sizeless, x))
    if isinstance(x, (bool, np.bool, str, np.dtype, type, Operand)) or x is None or x is np._NoValue or x is ...:
        return True
    if isinstance(x, (int, np.integer)):
        return -MAX_KEPT - 1 <= x <= MAX_KEPT
    if isinstance(x, slice):
        return x == slice(None)
    return isinstance(x, float) and _is_neutral(x)
