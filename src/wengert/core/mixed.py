"""Operators between a traced value and a value of a type that no rule knows.

NumPy makes arrays of memory and of ranges, and so do these operators.
Everything else has the first word, as it has with NumPy's scalars.
Where nobody knows the two, but plain code computes a result, Python's own TypeError would leave no note at the
derivative (0055), so the operator refuses.
"""

from __future__ import annotations

import array
import collections
import operator

import numpy as np

from wengert.core import dispatch, instead, var

#: the operators by their ufunc: what computes them, their method for operands the other way round, and their sign
_OPERATORS = {
    fun: (getattr(operator, f"__{name}__"), f"__r{name}__", sign)
    for fun, name, sign in (
        (np.add, "add", "+"),
        (np.subtract, "sub", "-"),
        (np.multiply, "mul", "*"),
        (np.divide, "truediv", "/"),
        (np.power, "pow", "**"),
        (np.matmul, "matmul", "@"),
        (np.remainder, "mod", "%"),
        (np.floor_divide, "floordiv", "//"),
        (np.bitwise_and, "and", "&"),
        (np.bitwise_or, "or", "|"),
        (np.bitwise_xor, "xor", "^"),
        (np.left_shift, "lshift", "<<"),
        (np.right_shift, "rshift", ">>"),
    )
}
_SEQUENCES = frozenset((range, collections.deque, collections.UserList))
#: types that are no arrays, and that NumPy takes as such
SIMILAR = _SEQUENCES | {array.array, bytearray, memoryview}


def operate(fun: np.ufunc, left, right):
    """``left op right``, one of them traced; NotImplemented where plain code raises a TypeError as well."""
    is_left = _is_ours(left)
    x, other = (left, right) if is_left else (right, left)
    compute, reflected, sign = _OPERATORS[fun]
    if is_left and (method := getattr(type(other), reflected, None)) is not None:
        found = method(other, x)
        if found is not NotImplemented:
            return found
    taken = as_numpy_takes(other)
    taken = None if taken is other else taken
    try:
        compute(_plain(left), _plain(right))
    except TypeError:
        return NotImplemented
    except Exception:  # as plain code does; of a batch, perhaps for one element alone
        if not hasattr(type(x), "_call"):
            raise
    if taken is not None:
        return compute(x, taken) if is_left else compute(taken, x)
    if hasattr(type(x), "_call"):
        x._leave(f"the operator {sign} with a {type(other).__name__}")
    if var.is_traced(x) and not var.is_passive(x):
        place = dispatch.where(dispatch.caller())
        raise dispatch.refusal(x, instead.between(sign, type(other), place))
    return dispatch.clean(compute(var.observed(left), var.observed(right)))


def compare_with_text(fun: np.ufunc, shape: tuple, other) -> object:
    """``==`` or ``!=`` of an array of this shape and of text, which NumPy answers without a look at the numbers."""
    return (operator.eq if fun is np.equal else operator.ne)(np.zeros(shape)[()], other)


def _is_ours(x) -> bool:
    return var.is_var(x) or hasattr(type(x), "_call")


def as_numpy_takes(x):
    """The array, or the list of items, that NumPy makes of memory and sequences with numbers; all else as it is."""
    if type(x) not in SIMILAR:
        return x
    if type(x) in _SEQUENCES:
        return list(x)
    made = np.asarray(x)
    return made if made.dtype.kind in "biufc" else x


def _plain(x):
    """A plain value of the type and shape of one side."""
    if hasattr(type(x), "_call"):
        return x._sample()
    return [_plain(item) for item in x] if type(x) in _SEQUENCES else var.plain(x)
