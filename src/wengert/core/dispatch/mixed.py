"""Operators between a traced value and a value of a type that no rule accepts.

NumPy converts buffers and ranges to arrays, and so do these operators.
Any other type is asked first for an operator of its own, as with NumPy's scalars.
Where no operator is found but plain code computes a result, Python's own TypeError would leave no note at the
derivative (0055), so the operator refuses.
"""

from __future__ import annotations

import array
import collections
import operator

import numpy as np

from wengert.core.dispatch.arguments import clean
from wengert.core.dispatch.checks import refusal
from wengert.core.messages import operator_message
from wengert.core.operands import var

#: the operators by their ufunc: the function that computes them, their reflected method and their sign
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
#: types besides lists and tuples that NumPy converts to arrays
ARRAY_LIKE = _SEQUENCES | {array.array, bytearray, memoryview}


def operate(fun: np.ufunc, left, right):
    """``left op right``, one of them traced; NotImplemented where plain code raises a TypeError as well."""
    is_left = _is_operand(left)
    x, other = (left, right) if is_left else (right, left)
    compute, reflected, sign = _OPERATORS[fun]
    if is_left and (method := getattr(type(other), reflected, None)) is not None:
        found = method(other, x)
        if found is not NotImplemented:
            return found
    try:
        compute(_plain(left), _plain(right))
    except TypeError:
        return NotImplemented
    except Exception:  # plain code raises it as well; in a batch, perhaps for one element alone
        if not _is_lifted(x):
            raise
    converted = as_array_like(other)
    if converted is not other:
        return compute(x, converted) if is_left else compute(converted, x)
    if _is_lifted(x):
        x._leave(f"the operator {sign} with a {type(other).__name__}")
    if var.is_traced(x) and not var.is_passive(x):
        raise refusal(x, operator_message(sign, type(other)))
    return clean(compute(var.observed(left), var.observed(right)))


def compare_with_text(fun: np.ufunc, shape: tuple, other) -> object:
    """``==`` or ``!=`` of an array of this shape with text; NumPy's result does not depend on the elements."""
    return (operator.eq if fun is np.equal else operator.ne)(np.zeros(shape)[()], other)


def as_array_like(x):
    """A buffer of numbers as an array and a sequence as a list, as NumPy converts them; other values as they are."""
    if type(x) not in ARRAY_LIKE:
        return x
    if type(x) in _SEQUENCES:
        return list(x)
    made = np.asarray(x)
    return made if made.dtype.kind in "biufc" else x


def _is_operand(x) -> bool:
    return var.is_var(x) or _is_lifted(x)


def _is_lifted(x) -> bool:
    return hasattr(type(x), "_call")


def _plain(x):
    """A plain value of the same type and shape."""
    if _is_lifted(x):
        return x._sample()
    return [_plain(item) for item in x] if type(x) in _SEQUENCES else var.plain(x)
