"""Expands dot products of two short vectors into sums of elementwise products.

Input: a program; output: the program with ``sum(a * b)`` in place of each such call, or the same one.
Factorisations and triangular solves written as loops call ``a[i, :k] @ a[:k, j]`` on thousands of vectors of different
lengths.
The expansion saves a Python call, can be fused by the VM, needs no derivative rule per length, and lets loops over
dot products of equal length be vectorised.

The order of summation, and hence rounding, changes.

References
----------
Muchnick (1997), Advanced compiler design and implementation, chapter 15 (inline expansion).
"""

from __future__ import annotations

import math

import numpy as np

from wengert.program.ir.call import Operand, product_of
from wengert.program.ir.ir import Listing, kind_of, replaced
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.passes import simplify

_FLOAT = np.dtype(float)
_MULTIPLY = OPCODES["multiply"]
#: element count from which BLAS saves more time than the Python call costs
_MIN_BLAS_LENGTH = 1000


def expand_dot_products(code: Listing, expand_checks: bool = False) -> Listing:
    """Return the program with dot products expanded; the same program if there are none.

    Sums of squares ``np.vdot(x, x)`` are kept, because source transformation and `reassociate` recognise the NaN checks
    of derivative rules by them. With `expand_checks`, only those are kept that the VM computes as one product.
    """
    if not any(map(product_of, code.calls)):
        return code
    places = np.flatnonzero(code.op == Op.CALL)
    calls = [(i, code.calls[a]) for i, a in zip(places.tolist(), code.a[places].tolist())]
    found = {i: call for i, call in calls if _is_product(code, call) and not _is_kept(code, call, expand_checks)}
    if not found:
        return code
    return simplify.live(replaced(code, found, lambda made, of, i: _sum_of_products(made, found[i], of)))


def _is_kept(code, call, expand_checks):
    """Return whether a call is a NaN check that stays a product."""
    if product_of(call) != "vdot" or len(set(call.operands)) != 1:
        return False
    _, shape, strides = kind_of(code, call.operands[0])
    return not expand_checks or (strides is None and len(shape) in (1, 2))


def _is_product(code, call):
    product = product_of(call)
    if product is None:
        return False
    (dtype, shape), other = [
        kind_of(code, call.operands[x.position])[:2] if type(x) is Operand else (getattr(x, "dtype", None), np.shape(x))
        for x in call.args
    ]
    is_vector = len(shape) == 1 or (product == "vdot" and shape != ())
    return dtype == _FLOAT and is_vector and math.prod(shape) < _MIN_BLAS_LENGTH and other == (dtype, shape)


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
