"""Products of vectors as sums of products of their elements.

A loop that factors a matrix, or solves a triangular system, calls ``a[i, :k] @ a[:k, j]`` for thousands of short
vectors, no two calls of which may have the same length.
As a multiplication and a sum such a call is a step of the machine beside others and costs no call of Python, its
derivative needs no rule that is run for each length, and loops over calls of equal lengths may become arrays.

The sum has the terms of the product in another order.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.core.tape.tape import kernel_rows
from wengert.program.ir.call import Operand
from wengert.program.ir.ir import Listing, kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.passes import simplify

_FLOAT = np.dtype(float)
_MULTIPLY = next(opcode for name, opcode, *_ in kernel_rows() if name == "multiply")
#: words of `Primitive.scalars` for products of two arrays
_PRODUCTS = ("matmul", "dot", "inner")
#: elements from which on a library for products gains more than a call of Python costs
_LONG = 1000


def multiplied_out(code: Listing, and_checks: bool = False) -> Listing:
    """The list with sums in the place of products of two vectors; the same one where there are none.

    Sums of squares by ``np.vdot`` stay unless `and_checks`: derivatives and `regroup` know by them the guards that
    rules have against NaN.
    """
    if not any(call.row is not None and call.row.scalars in _PRODUCTS for call in code.calls):
        return code
    places = np.flatnonzero(code.op == Op.CALL)
    calls = [(i, code.calls[a]) for i, a in zip(places.tolist(), code.a[places].tolist())]
    found = [(i, call) for i, call in calls if _is_product(code, call) and (and_checks or not _is_check(call))]
    if not found:
        return code
    made, of, start = code.beginning(), np.full(len(code), -1, dtype=np.int32), 0
    for i, call in found:
        made.take(code, np.arange(start, i, dtype=np.int32), of)
        of[i], start = _sum_of_products(made, call, of), i + 1
    made.take(code, np.arange(start, len(code), dtype=np.int32), of)
    made.inputs, made.outputs = of[code.inputs].tolist(), of[code.outputs].tolist()
    return simplify.live(made)


def _is_check(call):
    return call.row.fun is np.vdot and len(set(call.operands)) == 1


def _is_product(code, call):
    if call.row is None or call.row.scalars not in _PRODUCTS or call.kwargs or len(call.args) != 2:
        return False
    (dtype, shape), other = (_kind(code, call, argument) for argument in call.args)
    is_vector = len(shape) == 1 or call.row.fun is np.vdot
    return dtype == _FLOAT and is_vector and math.prod(shape) < _LONG and other == (dtype, shape)


def _kind(code, call, argument):
    """Dtype and shape of a factor."""
    if type(argument) is Operand:
        return kind_of(code, call.operands[argument.position])[:2]
    return getattr(argument, "dtype", None), np.shape(argument)


def _sum_of_products(made, call, of):
    factors = []
    for argument in call.args:
        if type(argument) is Operand:
            factors.append(int(of[call.operands[argument.position]]))
        else:
            factors.append(made.constant_array(np.ascontiguousarray(argument)))
    shape = kind_of(made, factors[0])[1]
    product = made.add(_MULTIPLY, (_FLOAT, shape, None), *factors)
    return made.add(Op.SUM, (_FLOAT, (), None), product)
