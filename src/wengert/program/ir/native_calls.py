"""Native calls: calls on small arrays that the VM computes by a C kernel, without Python.

Input: a call and the types of its operands. Output: a `NativeCall`, or None if the call must stay a Python call.
A function names its rule in the registry column ``native`` or ``scalars``; ufuncs, contractions and rearrangements need
no entry. Rules are in `native_elements` and `native_matrices`, the kernels in ``program/vm/native.c`` and
``native_linalg.c``; one kernel runs inner loops of ufuncs, by which NumPy also computes eigenvalues and Fourier
transforms.
A kernel declines what it cannot compute as NumPy does, such as a singular matrix: then the VM calls the function.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.dispatch.methods import converted
from wengert.program.ir import access, native_elements, native_matrices
from wengert.program.ir.call import Call, Operand, product_of
from wengert.program.ir.native_operands import (
    BOOL,
    INT,
    MAX_AXES,
    MAX_ELEMENTS,
    MAX_OPERANDS,
    MOVED,
    TYPES,
    NativeCall,
    Packed,
    Unsupported,
    is_small,
    packed,
    type_of,
)

#: maximum number of calls whose kernels are cached
MAX_REMEMBERED = 4096


def native_call(
    call: Call, types: list, dtype: np.dtype, shape: tuple, exact: bool = False
) -> NativeCall | None:
    """Return a call in the form that a kernel takes; None if there is no kernel.

    Parameters
    ----------
    call : Call
    types : list of (dtype, tuple)
        Dtype and shape of each operand.
    dtype, shape
        Dtype and shape of the result.
    exact : bool
        Prefer a kernel that computes the bits of the function.

    Examples
    --------
    >>> import numpy as np
    >>> from wengert.program.ir.call import Call, Operand
    >>> from wengert.registry import lookup
    >>> call = Call(np.sort, (Operand(0),), {}, [0], lookup(np.sort))
    >>> native_call(call, [(np.dtype(float), (5,))], np.dtype(float), (5,)).kernel
    'sort'
    """
    if call.row is None or dtype not in TYPES or math.prod(shape) > MAX_ELEMENTS or len(shape) > MAX_AXES:
        return None
    is_plain = not call.kwargs and all(type(x) is Operand for x in call.args)
    key = call.compute, call.row, (*call.args,) if is_plain else id(call.args), (*types,), dtype, shape, exact
    known = _found.get(key)  # a program has many similar calls, and passes look each copy of a call up again
    if known is not None and (is_plain or (known[1] is call.args and known[2] is call.kwargs)):
        return known[0]
    found = _native_call(call, types, dtype, shape, exact)
    if found is not None or is_plain:  # otherwise the cache might keep large array arguments alive
        if len(_found) >= MAX_REMEMBERED:
            _found.clear()
        _found[key] = found, call.args, call.kwargs
    return found


#: native calls and their arguments; the key is the callee, the values or identities of its arguments, and all types
_found: dict = {}


def _native_call(call, types, dtype, shape, exact):
    row = call.row
    fun = _OPERATORS.get(call.compute, call.compute)
    if fun is not row.fun and call.compute not in _OPERATORS and fun is not converted and product_of(call) is None:
        return None
    found = None
    is_ufunc = isinstance(fun, np.ufunc) and not fun.signature
    word = "getitem" if fun is operator.getitem else row.native or row.scalars
    given = functools.partial(type_of, types)
    try:
        if math.prod(shape) == 0:
            is_known = is_ufunc or access.is_product(call) or access.moves(call)
            return NativeCall("rearrange", (), (1, 0), dtype) if is_known else None
        if fun is converted:
            found = native_elements.conversion(call, given, dtype, shape)
        elif (rule := (exact and EXACT_RULES.get(word)) or RULES.get(word)) is not None:
            found = rule(call, given, dtype, shape)
        elif is_ufunc:
            found = native_elements.ufunc_call(fun, call, given, dtype, shape)
        elif access.is_product(call):
            found = native_matrices.contraction(call, given, dtype, shape)
        elif access.moves(call) and not access.heeds_memory(call):
            found = native_elements.rearrangement(call, given, dtype, shape)
    except Unsupported:
        return None
    if found is None or found.dtype != dtype or len(found.operands) > MAX_OPERANDS:
        return None
    return found if all(map(is_small, found.operands)) else None


def native_pack(given: int, has_base: bool, offsets: Any, dtype: np.dtype, shape: tuple) -> NativeCall | None:
    """Return the call that stores `given` scalars at offsets of a C-order array of bools; None for other arrays.

    The operands are the scalars, then, if `has_base`, the array whose other elements are kept; else these are False.
    """
    size = math.prod(shape)
    if dtype != BOOL or given > MAX_OPERANDS - 1 or not 0 < size <= MAX_ELEMENTS:
        return None
    operands = [Packed(Operand(k), BOOL, ()) for k in range(given)]
    rest = Packed(Operand(given), BOOL, shape) if has_base else Packed(np.zeros(size, bool), BOOL, (size,))
    pairs = np.full((size, 2), given)
    pairs[:, 1] = np.arange(size)
    pairs[np.asarray(offsets)] = np.stack([np.arange(given), np.zeros(given, int)], axis=-1)
    params = 1, size, *np.ravel(pairs).tolist()
    return NativeCall("rearrange", (*operands, rest), params, BOOL, work=MOVED * size)


def native_place(stored: tuple, dtype: np.dtype, shape: tuple) -> NativeCall | None:
    """Return the call that stores a value of type `stored` into a part of an array of `dtype`; None for large parts."""
    if dtype not in TYPES or math.prod(shape) > MAX_ELEMENTS or len(shape) > MAX_AXES:
        return None
    try:
        operand = packed(functools.partial(type_of, [stored]), Operand(0), dtype, shape)
    except Unsupported:
        return None
    size = math.prod(shape) * dtype.itemsize
    return NativeCall("copy", (operand,), (size,), dtype, work=MOVED * math.prod(shape))


def native_guard(expected: Any, dtype: np.dtype, shape: tuple) -> NativeCall | None:
    """Return the comparison of a guard on an array of bools or integers; None for others."""
    if dtype not in (BOOL, INT) or not 0 < math.prod(shape) <= MAX_ELEMENTS or np.shape(expected) != shape:
        return None
    wanted = np.asarray(expected)
    if wanted.dtype.kind not in "biu" or not np.array_equal(wanted, wanted.astype(dtype)):
        return None
    operands = Packed(Operand(0), dtype, shape), Packed(wanted.astype(dtype), dtype, shape)
    return NativeCall("equals", operands, (math.prod(shape) * dtype.itemsize,), work=MOVED * math.prod(shape))


#: by function of the module ``operator``: the function whose rule applies
_OPERATORS: dict = {
    getattr(operator, name): ufunc
    for name, ufunc in (
        *(("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.divide), ("neg", np.negative)),
        *(("floordiv", np.floor_divide), ("mod", np.remainder), ("pow", np.power), ("abs", np.absolute)),
        *(("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)),
        *(("eq", np.equal), ("ne", np.not_equal), ("getitem", operator.getitem)),
    )
}


#: rules by the registry column ``native``, or else by ``scalars``
RULES: dict[str, Callable] = {**native_elements.RULES, **native_matrices.RULES}
#: rules that exact programs use in their place
EXACT_RULES = native_matrices.EXACT_RULES
