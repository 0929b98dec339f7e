"""Operands of native calls: arguments in the order, shape and dtype in which a C kernel reads them."""

from __future__ import annotations

import math
import struct
from typing import Any, NamedTuple

import numpy as np

from wengert.program.ir import access
from wengert.program.ir.call import Operand

#: limit on the elements of an operand or result: for larger arrays, the overhead of a Python call hardly matters
MAX_ELEMENTS = 1024
#: limit on the length of a sorted row, because insertion sort takes quadratic time
MAX_SORTED = 64
#: limit on the order of a matrix that is factored
MAX_ORDER = 16
#: limit on the multiplications of a contraction or convolution
MAX_PRODUCTS = 1 << 14
#: limit on the operands of a call
MAX_OPERANDS = 64
#: limit on the axes of an operand
MAX_AXES = 16

BOOL, INT, DOUBLE, COMPLEX = map(np.dtype, (bool, np.int64, float, complex))

#: nanoseconds per multiplication, per moved element, and per function value
PRODUCT, MOVED, FUNCTION = 0.5, 1.0, 10.0


class Packed(NamedTuple):
    """An operand of a kernel: an argument with its axes permuted, then broadcast, in C order and of a given dtype."""

    argument: Any  # Operand, array or scalar
    dtype: np.dtype
    shape: tuple
    axes: tuple | None = None


class NativeCall(NamedTuple):
    """A call in the form that a kernel takes: operands, parameters, and the result that it writes."""

    kernel: str
    operands: tuple
    params: tuple = ()
    dtype: np.dtype = DOUBLE
    axes: tuple | None = None  # the order of the result's axes in which the kernel writes
    spare: int = 0  # scratch memory for the kernel, in doubles
    loops: tuple = ()  # ufuncs, with the dtypes of their inner loops that the kernel runs
    is_strided: bool = False  # whether operands are read in place, with their strides as parameters
    work: float = 0.0  # nanoseconds, without packing


class Unsupported(Exception):
    """Raised for an argument whose type or size no kernel supports."""


TYPES = (BOOL, INT, DOUBLE, COMPLEX)
#: by target dtype: other dtypes that packing converts to it
_CONVERTED = {BOOL: (DOUBLE,), INT: (BOOL,), DOUBLE: (BOOL, INT), COMPLEX: (DOUBLE,)}


def type_of(types, argument):
    """Return dtype and shape of an argument."""
    if type(argument) is Operand:
        found, shape = types[argument.position]
    elif isinstance(argument, (np.ndarray, np.generic, bool, int, float, complex)):
        found, shape = np.result_type(argument), np.shape(argument)
    elif type(argument) in (list, tuple) and not access.holds(argument):
        made = np.asarray(argument)
        found, shape = made.dtype, made.shape
    else:
        raise Unsupported
    if found not in TYPES or math.prod(shape) > MAX_ELEMENTS or len(shape) > MAX_AXES:
        raise Unsupported
    return found, shape


def packed(given, argument, dtype, shape=None, axes=None):
    """Return an operand that is broadcast to `shape` after its axes were permuted."""
    found, own = given(argument)
    if found != dtype and found not in _CONVERTED[dtype]:
        raise Unsupported
    own = own if axes is None else tuple([own[d] for d in axes])
    shape = own if shape is None else shape
    if not _broadcasts(own, shape) or len(shape) > MAX_AXES:
        raise Unsupported
    return Packed(argument, dtype, shape, axes)


def _broadcasts(own, shape):
    return len(own) <= len(shape) and all(n in (1, m) for n, m in zip(own[::-1], shape[::-1]))


def is_small(operand):
    return math.prod(operand.shape) <= MAX_ELEMENTS


def options_of(call, *names):
    """Return the arguments of a call by name; raise `Unsupported` if there are others or an array `out`."""
    if len(call.args) > len(names) or call.kwargs.keys() - {*names} or {*names[: len(call.args)]} & call.kwargs.keys():
        raise Unsupported
    found = {key: x for key, x in {**dict(zip(names, call.args)), **call.kwargs}.items() if x is not np._NoValue}
    if found.get("out") is not None or any(access.holds(x) for x in found.values() if type(x) in (list, tuple)):
        raise Unsupported
    return found


def bits(x):
    """Return a double as an integer parameter."""
    return struct.unpack("q", struct.pack("d", x))[0]


def rows_of(given, argument, axes, dtype=DOUBLE):
    """Return an operand with `axes` moved last as rows, its other axes, and the number and length of the rows."""
    _, shape = given(argument)
    ndim = len(shape)
    axes = range(ndim) if axes is None else axes if type(axes) is tuple else (axes,)
    if not all(isinstance(d, (int, np.integer)) and -ndim <= d < ndim for d in axes):
        raise Unsupported
    last = [int(d) % ndim for d in axes]
    others = [d for d in range(ndim) if d not in last]
    operand = packed(given, argument, dtype, axes=(*others, *last))
    return operand, others, math.prod([shape[d] for d in others]), math.prod([shape[d] for d in last])
