"""Operators between a traced value and a value of a type that no rule accepts.

An operand of another type is treated as NumPy does [1]_.  A scalar leaves the operation to the reflected method of that
type, which gets a Python float unless the type sets ``__array_ufunc__`` or ``__array_priority__``.  An array does so
only if the type sets one of them.  Otherwise it converts the other operand to a numeric array, or if that is impossible
applies the operator element by element.
If no method exists but plain code would compute a result, the operator raises an error that is also noted at the
derivative: f could catch Python's own TypeError and silently lose the derivative.

References
----------
.. [1] NEP 13, behavior in combination with Python's binary operations.
"""

from __future__ import annotations

import collections
import operator
import sys
import types

import numpy as np

from wengert.core.dispatch.arguments import clean
from wengert.core.dispatch.checks import refusal
from wengert.core.messages import operator_message
from wengert.core.operands import var
from wengert.features import is_made_in_python

#: ufuncs of comparisons, in CPython's order, and of unary operators, by the name of the method without underscores
COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNARY = {"neg": np.negative, "pos": np.positive, "abs": np.absolute}

#: binary operators: ufunc, name of the method without underscores, and symbol
ARITHMETIC = (
    (np.add, "add", "+"),
    (np.subtract, "sub", "-"),
    (np.multiply, "mul", "*"),
    (np.divide, "truediv", "/"),
    (np.power, "pow", "**"),
    (np.matmul, "matmul", "@"),
    (np.remainder, "mod", "%"),
    (np.floor_divide, "floordiv", "//"),
)
_BITWISE = (
    (np.bitwise_and, "and", "&"),
    (np.bitwise_or, "or", "|"),
    (np.bitwise_xor, "xor", "^"),
    (np.left_shift, "lshift", "<<"),
    (np.right_shift, "rshift", ">>"),
)
#: by ufunc: function of the operator, reflected method, and symbol
_OPERATORS = {
    fun: (getattr(operator, f"__{name}__"), f"__r{name}__", sign) for fun, name, sign in ARITHMETIC + _BITWISE
}
_SEQUENCES = frozenset((range, collections.deque, collections.UserList))
_ARRAY_LIKE = _SEQUENCES | {bytearray, memoryview}


def is_array_like(kind: type) -> bool:
    """Return whether NumPy converts values of this type, other than lists and tuples, to arrays."""
    return kind in _ARRAY_LIKE or kind is getattr(sys.modules.get("array"), "array", None)


def operate(fun: np.ufunc, left, right):
    """Return ``left op right`` with one side traced; NotImplemented if plain values would raise a TypeError too."""
    is_left = _is_operand(left)
    x, other = (left, right) if is_left else (right, left)
    compute, reflected, sign = _OPERATORS[fun]
    if is_fraction(other):  # its methods are not followed, and would convert the other operand
        return compute(x, float(other)) if is_left else compute(float(other), x)
    if is_left and (is_lifted(x) or var.is_scalar(x) or defers_to(other)):
        method = getattr(type(other), reflected, None)
        found = NotImplemented if method is None else method(other, x if defers_to(other) else var.float_of(x))
        if found is not NotImplemented:
            return found
    converted = float.__float__(other) if isinstance(other, float) else read_object(other)
    if converted is not other:
        return compute(x, converted) if is_left else compute(converted, x)
    try:
        compute(_plain(left), _plain(right))
    except TypeError:
        return NotImplemented
    except Exception:  # plain values raise it too; in a batch it may concern only some elements
        if not is_lifted(x):
            raise
    converted = as_array_like(other)
    if converted is not other:
        return compute(x, converted) if is_left else compute(converted, x)
    if var.is_traced(x) and not var.is_scalar(x) and is_made_in_python(type(other)):
        return _by_elements(compute, left, right, is_left)
    if is_lifted(x):
        x._raise_unsupported(f"the operator {sign} with a {type(other).__name__}")
    if var.is_traced(x) and not var.is_passive(x):
        raise refusal(x, operator_message(sign, type(other)))
    return clean(compute(var.observed(left), var.observed(right)))


def compare_with_text(fun: np.ufunc, shape: tuple, other) -> object:
    """Compare an array of this shape with text by ``==`` or ``!=``; the result does not depend on the elements."""
    return (operator.eq if fun is np.equal else operator.ne)(np.zeros(shape)[()], other)


def as_array_like(x):
    """Convert a numeric buffer to an array and a sequence to a list, as NumPy does; return other values as they are."""
    if not is_array_like(type(x)):
        return x
    if type(x) in _SEQUENCES:
        return list(x)
    made = np.asarray(x)
    return made if made.dtype.kind in "biufc" else x


def read_object(x):
    """Return an object of a class written in Python as the array or list that NumPy reads; other values unchanged."""
    kind = type(x)
    if _is_function(getattr(kind, "__array__", None)):
        return x.__array__()
    is_sequence = _is_function(getattr(kind, "__len__", None)) and _is_function(getattr(kind, "__getitem__", None))
    return list(x) if is_sequence and not isinstance(x, (dict, list, tuple, str, np.ndarray)) else x


def read_number(x, names=("__float__",)):
    """Return the result of the first of these methods that the class of an object has in Python, else the object."""
    for name in names:
        method = getattr(type(x), name, None)
        if type(method) in (types.FunctionType, types.MethodType):
            return method(x)
    return x


def _is_function(x) -> bool:
    return type(x) is types.FunctionType


def is_fraction(x) -> bool:
    module = sys.modules.get("fractions")
    return module is not None and isinstance(x, module.Fraction)


def defers_to(other) -> bool:
    """Return whether the operators of NumPy's arrays leave the operation to the methods of `other`."""
    kind = type(other)
    if hasattr(kind, "__array_ufunc__"):
        return kind.__array_ufunc__ is None
    return getattr(kind, "__array_priority__", 0.0) > 0.0


def _by_elements(compute, left, right, is_left):
    """Apply an operator to an object and each element of an array, taken as a Python float.

    Return an array of objects, or of numbers if all results are numbers.
    """
    x = left if is_left else right
    found = np.empty(np.shape(x), dtype=object)
    for i in np.ndindex(*np.shape(x)):
        item = var.float_of(x[i])
        found[i] = compute(item, right) if is_left else compute(left, item)
    if found.size and all(var.is_scalar(y) or isinstance(y, (int, float)) for y in found.flat):
        return np.reshape(np.stack([*found.flat]), found.shape)
    return found


def _is_operand(x) -> bool:
    return var.is_var(x) or is_lifted(x)


def is_lifted(x) -> bool:
    return hasattr(type(x), "_call")


def _plain(x):
    """Return a plain value of the same type and shape."""
    if is_lifted(x):
        return x._sample()
    return [_plain(item) for item in x] if type(x) in _SEQUENCES else var.plain(x)
