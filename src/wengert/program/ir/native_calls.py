"""Native calls: calls on small arrays that the VM computes by a C kernel, without Python.

Input: a call and the types of its operands. Output: a `NativeCall`, or None if the call must stay a Python call.
A function names its rule in the registry column ``native`` or ``scalars``; ufuncs, contractions and rearrangements need
no entry. The kernels are in ``program/vm/native.c`` and ``native_linalg.c``; one of them runs the inner loop of a
ufunc, with which NumPy computes eigenvalues and Fourier transforms.
A kernel declines what it cannot compute as NumPy does, such as a singular matrix: then the VM calls the function.
"""

from __future__ import annotations

import functools
import math
import operator
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wengert.program.ir import access
from wengert.program.ir.call import Call, Operand

#: elements of an operand or a result; a call on larger arrays takes longer than Python needs for it
MAX_ELEMENTS = 1024
#: elements of a sorted row, since insertion takes quadratic time
MAX_SORTED = 64
#: order of a matrix that is factored
MAX_ORDER = 16
#: multiplications of a contraction or convolution
MAX_PRODUCTS = 1 << 14
#: operands of a call
MAX_OPERANDS = 64
#: calls of which the kernel is remembered
MAX_REMEMBERED = 4096
#: axes of an operand
MAX_AXES = 16

BOOL, INT, DOUBLE, COMPLEX = map(np.dtype, (bool, np.int64, float, complex))

#: nanoseconds per multiplication, moved element, and value of a function
_PRODUCT, _MOVED, _FUNCTION = 0.5, 1.0, 10.0

#: functions of a reduction, as numbered in native.c
_ANY, _ALL, _COUNT, _MAX, _MIN, _ADD, _MULTIPLY, _LARGEST, _LEAST, _SUM, _LENGTH, _MEAN = range(12)
#: elementwise functions, as numbered there
_SINC, _ROUND, _POSITIVE_INFINITE, _NEGATIVE_INFINITE = range(4)


class Packed(NamedTuple):
    """An operand of a kernel: an argument with its axes permuted, then broadcast, in C order and of a given dtype."""

    argument: Any  # Operand, array or scalar
    dtype: np.dtype
    shape: tuple
    axes: tuple | None = None


class NativeCall(NamedTuple):
    """A call as a kernel computes it: its operands and parameters, and the result that it writes."""

    kernel: str
    operands: tuple
    params: tuple = ()
    dtype: np.dtype = DOUBLE
    axes: tuple | None = None  # order of the result's axes in which the kernel writes its elements
    spare: int = 0  # doubles of memory for the kernel
    loop: tuple | None = None  # ufunc and signature, for the kernel "loop"
    work: float = 0.0  # nanoseconds, without packing


def native_call(call: Call, types: list, dtype: np.dtype, shape: tuple) -> NativeCall | None:
    """Return a call as a kernel computes it; None if there is no kernel.

    Parameters
    ----------
    call : Call
    types : list of (dtype, tuple)
        Dtype and shape of each operand.
    dtype, shape
        Those of the result.

    Examples
    --------
    >>> import numpy as np
    >>> from wengert.program.ir.call import Call, Operand
    >>> from wengert.registry import lookup
    >>> call = Call(np.sort, (Operand(0),), {}, [0], lookup(np.sort))
    >>> native_call(call, [(np.dtype(float), (5,))], np.dtype(float), (5,)).kernel
    'sort'
    """
    if call.row is None or dtype not in _TYPES or math.prod(shape) > MAX_ELEMENTS or len(shape) > MAX_AXES:
        return None
    is_plain = not call.kwargs and all(type(x) is Operand for x in call.args)
    key = call.compute, call.row, (*call.args,) if is_plain else id(call.args), (*types,), dtype, shape
    known = _found.get(key)  # a program has many calls alike, and passes ask again for each copy of a call
    if known is not None and (is_plain or (known[1] is call.args and known[2] is call.kwargs)):
        return known[0]
    found = _native_call(call, types, dtype, shape)
    if found is not None:
        if len(_found) >= MAX_REMEMBERED:
            _found.clear()
        _found[key] = found, call.args, call.kwargs
    return found


#: native calls, with the arguments to which they belong, by the callee, its arguments or their identity, and all types
_found: dict = {}


def _native_call(call, types, dtype, shape):
    row = call.row
    fun = _OPERATORS.get(call.compute, call.compute)
    if fun is not row.fun and call.compute not in _OPERATORS:
        return None
    found = None
    is_ufunc = isinstance(fun, np.ufunc) and not fun.signature
    word = "getitem" if fun is operator.getitem else row.native or row.scalars
    given = functools.partial(_type_of, types)
    try:
        if math.prod(shape) == 0:
            is_known = is_ufunc or access.is_product(call) or access.moves(call)
            return NativeCall("rearrange", (), (1, 0), dtype) if is_known else None
        if (rule := RULES.get(word)) is not None:
            found = rule(call, given, dtype, shape)
        elif is_ufunc:
            found = _ufunc(fun, call, given, dtype, shape)
        elif access.is_product(call):
            found = _contraction(call, given, dtype, shape)
        elif access.moves(call) and not access.heeds_memory(call):
            found = _rearrangement(call, given, dtype, shape)
    except _Unsupported:
        return None
    if found is None or found.dtype != dtype or len(found.operands) > MAX_OPERANDS:
        return None
    return found if all(map(_is_small, found.operands)) else None


def native_pack(given: int, has_base: bool, offsets: Any, dtype: np.dtype, shape: tuple) -> NativeCall | None:
    """Return the storing of `given` scalars at offsets of an array of bools in C order; None for others.

    The operands are the scalars, then the array whose other elements are kept; without one these are False.
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
    return NativeCall("rearrange", (*operands, rest), params, BOOL, work=_MOVED * size)


def native_guard(expected: Any, dtype: np.dtype, shape: tuple) -> NativeCall | None:
    """Return the comparison of a guard on an array of bools or integers; None for others."""
    if dtype not in (BOOL, INT) or not 0 < math.prod(shape) <= MAX_ELEMENTS or np.shape(expected) != shape:
        return None
    wanted = np.asarray(expected)
    if wanted.dtype.kind not in "biu" or not np.array_equal(wanted, wanted.astype(dtype)):
        return None
    operands = Packed(Operand(0), dtype, shape), Packed(wanted.astype(dtype), dtype, shape)
    return NativeCall("equals", operands, (math.prod(shape) * dtype.itemsize,), work=_MOVED * math.prod(shape))


#: functions of operators by what computes them
_OPERATORS: dict = {
    getattr(operator, name): ufunc
    for name, ufunc in (
        *(("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("truediv", np.divide), ("neg", np.negative)),
        *(("floordiv", np.floor_divide), ("mod", np.remainder), ("pow", np.power), ("abs", np.absolute)),
        *(("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)),
        *(("eq", np.equal), ("ne", np.not_equal), ("getitem", operator.getitem)),
    )
}


class _Unsupported(Exception):
    """Raised for an argument of another type or size."""


_TYPES = (BOOL, INT, DOUBLE, COMPLEX)
#: dtypes that packing converts, to each dtype
_CONVERTED = {BOOL: (DOUBLE,), INT: (BOOL,), DOUBLE: (BOOL, INT), COMPLEX: (DOUBLE,)}


def _type_of(types, argument):
    """Return dtype and shape of an argument."""
    if type(argument) is Operand:
        found, shape = types[argument.position]
    elif isinstance(argument, (np.ndarray, np.generic, bool, int, float, complex)):
        found, shape = np.result_type(argument), np.shape(argument)
    elif type(argument) in (list, tuple) and not access.holds(argument):
        made = np.asarray(argument)
        found, shape = made.dtype, made.shape
    else:
        raise _Unsupported
    if found not in _TYPES or math.prod(shape) > MAX_ELEMENTS or len(shape) > MAX_AXES:
        raise _Unsupported
    return found, shape


def _packed(given, argument, dtype, shape=None, axes=None):
    """Return an operand; `shape` is what it is broadcast to after its axes were permuted."""
    found, own = given(argument)
    if found != dtype and found not in _CONVERTED[dtype]:
        raise _Unsupported
    own = own if axes is None else tuple([own[d] for d in axes])
    shape = own if shape is None else shape
    if not _broadcasts(own, shape) or len(shape) > MAX_AXES:
        raise _Unsupported
    return Packed(argument, dtype, shape, axes)


def _broadcasts(own, shape):
    return len(own) <= len(shape) and all(n in (1, m) for n, m in zip(own[::-1], shape[::-1]))


def _is_small(operand):
    return math.prod(operand.shape) <= MAX_ELEMENTS


def _options(call, *names):
    """Return the arguments of a call by name; the call has no others."""
    if len(call.args) > len(names) or call.kwargs.keys() - {*names} or {*names[: len(call.args)]} & call.kwargs.keys():
        raise _Unsupported
    found = {key: x for key, x in {**dict(zip(names, call.args)), **call.kwargs}.items() if x is not np._NoValue}
    if any(access.holds(x) for x in found.values() if type(x) in (list, tuple)):
        raise _Unsupported
    return found


def _bits(x):
    """Return a double as an integer parameter."""
    return struct.unpack("q", struct.pack("d", x))[0]


# ---------------------------------------------------------------------------------------------- ufuncs


def _ufunc(fun, call, given, dtype, shape):
    """Run the inner loop that NumPy selects."""
    if call.kwargs or fun.nout != 1 or len(call.args) != fun.nin:
        return None
    types = [given(x)[0] for x in call.args]
    signature = _loop_of(fun, tuple([type(x) if type(x) in (int, float, complex) else t
                                     for x, t in zip(call.args, types)]))  # fmt: skip
    if signature is None or signature[-1] != dtype:
        return None
    operands = [_packed(given, x, t, shape) for x, t in zip(call.args, signature)]
    n, steps = math.prod(shape), [t.itemsize for t in signature]
    params = 0, 1, 1, 0, n, *steps
    return NativeCall("loop", (*operands,), params, dtype, loop=(fun, signature), work=_FUNCTION * n)


@functools.lru_cache(1000)
def _loop_of(fun, types):
    """Return the dtypes of the loop that a ufunc selects for operands of these dtypes or Python types, or None."""
    try:
        found = fun.resolve_dtypes((*types, None))
    except (AttributeError, TypeError, ValueError):  # NumPy 1.24 has no such method
        return None
    word = "".join([t.char for t in found])
    return found if all(t in _TYPES for t in found) and f"{word[:-1]}->{word[-1]}" in fun.types else None


# ---------------------------------------------------------------------------------------------- rows of an array


def _rows(given, argument, axes, dtype=DOUBLE):
    """Return an operand with some axes last, which form the rows; the other axes, and the number and length of rows."""
    _, shape = given(argument)
    ndim = len(shape)
    axes = range(ndim) if axes is None else axes if type(axes) is tuple else (axes,)
    if not all(isinstance(d, (int, np.integer)) and -ndim <= d < ndim for d in axes):
        raise _Unsupported
    last = [int(d) % ndim for d in axes]
    others = [d for d in range(ndim) if d not in last]
    operand = _packed(given, argument, dtype, axes=(*others, *last))
    return operand, others, math.prod([shape[d] for d in others]), math.prod([shape[d] for d in last])


def _logical(number):
    def rule(call, given, dtype, shape):
        options = _options(call, "a", "axis", "out", "keepdims")
        if options.get("out") is not None:
            return None
        operand, _, rows, n = _rows(given, options["a"], options.get("axis"), BOOL)
        made = INT if number == _COUNT else BOOL
        return NativeCall("count", (operand,), (rows, n, number), made, work=_MOVED * rows * n)

    return rule


def _fold(number, first):
    def rule(call, given, dtype, shape):
        options = _options(call, "a", "axis", "out", "keepdims", "initial")
        initial = options.get("initial")
        if number == _ADD and dtype == INT:
            return _logical(_COUNT)(call, given, dtype, shape)
        if options.get("out") is not None or type(initial) not in (type(None), int, float, np.float64):
            return None
        operand, _, rows, n = _rows(given, options["a"], options.get("axis"))
        start = first if initial is None else float(initial)
        if n == 0:
            return None
        return NativeCall("fold", (operand,), (rows, n, number, _bits(start)), work=2 * _PRODUCT * rows * n)

    return rule


def _size(call, given, dtype, shape):
    options = _options(call, "x", "axis")
    operand, _, rows, n = _rows(given, options["x"], options["axis"])
    return NativeCall("fold", (operand,), (rows, n, _LARGEST, _bits(0.0)), work=2 * _PRODUCT * rows * n)


def _norm(call, given, dtype, shape):
    """Norms of vectors, and of matrices as vectors."""
    options = _options(call, "x", "ord", "axis", "keepdims")
    order, axis = options.get("ord"), options.get("axis")
    operand, _, rows, n = _rows(given, options["x"], axis)
    is_matrix = (len(operand.shape) if axis is None else len(axis) if type(axis) is tuple else 1) == 2
    known = {None: _LENGTH, "fro": _LENGTH} if is_matrix else _NORMS
    if type(order) not in (type(None), str, int, float) or order not in known or (order is not None and n == 0):
        return None
    if order is not None and not is_matrix and axis is None and len(operand.shape) != 1:
        return None
    number = known[order]
    first = math.inf if number == _LEAST else 0.0
    return NativeCall("fold", (operand,), (rows, n, number, _bits(first)), work=2 * _PRODUCT * rows * n)


_NORMS: dict = {None: _LENGTH, 2: _LENGTH, 1: _SUM, math.inf: _LARGEST, -math.inf: _LEAST}


def _accumulation(number):
    def rule(call, given, dtype, shape):
        options = _options(call, "a", "axis")
        axis = options.get("axis")
        operand, others, rows, n = _rows(given, options["a"], axis)
        axes = None if axis is None else (*others, axis % len(shape))
        return NativeCall("accumulate", (operand,), (rows, n, number), axes=axes, work=2 * _PRODUCT * rows * n)

    return rule


def _sorting(kernel, dtype):
    def rule(call, given, _, shape):
        options = _options(call, "a", "axis", "kind", "order", "stable")
        axis = options.get("axis", -1)
        if options.get("order") is not None:
            return None
        operand, others, rows, n = _rows(given, options["a"], axis)
        axes = None if axis is None else (*others, axis % len(shape))
        is_stable = options.get("kind") in ("stable", "mergesort") or options.get("stable") is True
        if n > MAX_SORTED:
            return None
        return NativeCall(kernel, (operand,), (rows, n, not is_stable), dtype, axes, work=_PRODUCT * rows * n * n / 2)

    return rule


def _median(call, given, dtype, shape):
    options = _options(call, "a", "axis", "out", "overwrite_input", "keepdims")
    operand, _, rows, n = _rows(given, options["a"], options.get("axis"))
    if options.get("out") is not None or not 0 < n <= MAX_SORTED:
        return None
    return NativeCall("median", (operand,), (rows, n), spare=n, work=_PRODUCT * rows * n * n / 2)


def _quantile(scale):
    def rule(call, given, dtype, shape):
        names = "a", "q", "axis", "out", "overwrite_input", "method", "keepdims"
        options = _options(call, *names)
        operand, _, rows, n = _rows(given, options["a"], options.get("axis"))
        q = _packed(given, options["q"], DOUBLE)
        if options.get("out") is not None or options.get("method", "linear") != "linear" or not 0 < n <= MAX_SORTED:
            return None
        params = rows, n, math.prod(q.shape), scale
        return NativeCall("quantile", (operand, q), params, spare=n, work=_PRODUCT * rows * n * n / 2)

    return rule


def _argmax(is_min):
    def rule(call, given, dtype, shape):
        options = _options(call, "a", "axis", "out", "keepdims")
        if options.get("out") is not None:
            return None
        operand, _, rows, n = _rows(given, options["a"], options.get("axis"))
        return NativeCall("argmax", (operand,), (rows, n, is_min), INT, work=_PRODUCT * rows * n) if n else None

    return rule


def _searchsorted(call, given, dtype, shape):
    options = _options(call, "a", "v", "side", "sorter")
    operands = [_packed(given, options[key], DOUBLE) for key in ("a", "v")]
    n, count = math.prod(operands[0].shape), math.prod(operands[1].shape)
    if options.get("sorter") is not None or options.get("side", "left") not in ("left", "right"):
        return None
    if len(operands[0].shape) != 1 or n * count > MAX_PRODUCTS:
        return None
    params = n, count, options.get("side", "left") == "right"
    return NativeCall("search", (*operands,), params, INT, work=_PRODUCT * n * count)


def _interp(call, given, dtype, shape):
    options = _options(call, "x", "xp", "fp", "left", "right", "period")
    if any(options.get(key) is not None for key in ("left", "right", "period")):
        return None
    operands = [_packed(given, options[key], DOUBLE) for key in ("x", "xp", "fp")]
    count, n = math.prod(operands[0].shape), math.prod(operands[1].shape)
    if len(operands[1].shape) != 1 or operands[1].shape != operands[2].shape or n < 2 or n * count > MAX_PRODUCTS:
        return None
    return NativeCall("interp", (*operands,), (count, n), work=_PRODUCT * n * count + 5.0 * count)


def _digitize(call, given, dtype, shape):
    options = _options(call, "x", "bins", "right")
    operands = [_packed(given, options[key], DOUBLE) for key in ("bins", "x")]
    n, count = math.prod(operands[0].shape), math.prod(operands[1].shape)
    if len(operands[0].shape) != 1 or n * count > MAX_PRODUCTS:
        return None
    return NativeCall("search", (*operands,), (n, count, not options.get("right")), INT, work=_PRODUCT * n * count)


def _difference(call, given, dtype, shape):
    options = _options(call, "a", "n", "axis")
    order, axis = options.get("n", 1), options.get("axis", -1)
    operand, others, rows, n = _rows(given, options["a"], axis)
    if type(order) is not int or not 0 < order < n:
        return None
    axes = *others, axis % len(shape)
    return NativeCall("difference", (operand,), (rows, n, order), axes=axes, spare=n, work=_MOVED * rows * n * order)


# ---------------------------------------------------------------------------------------------- elementwise functions


def _elementwise(number, dtype=DOUBLE):
    def rule(call, given, _, shape):
        operand = _packed(given, *_options(call, "x").values(), DOUBLE)
        n = math.prod(shape)
        return NativeCall("elementwise", (operand,), (n, number), dtype, work=_FUNCTION * n)

    return rule


def _round(call, given, dtype, shape):
    options = _options(call, "a", "decimals", "out")
    decimals, n = options.get("decimals", 0), math.prod(shape)
    if options.get("out") is not None or type(decimals) is not int or not 0 <= decimals < 20:
        return None
    operand = _packed(given, options["a"], DOUBLE)
    return NativeCall("elementwise", (operand,), (n, _ROUND, _bits(10.0**decimals)), work=_FUNCTION * n)


def _clip(call, given, dtype, shape):
    """Run the loop of the ufunc that NumPy has for it."""
    options = _options(call, "a", "a_min", "a_max")
    fun = getattr(getattr(getattr(np, "_core", None), "umath", None), "clip", None)
    word = f"{dtype.char * 3}->{dtype.char}"
    if any(x is None for x in (options.get("a_min"), options.get("a_max"), fun)) or word not in fun.types:
        return None
    operands = [_packed(given, options[key], dtype, shape) for key in ("a", "a_min", "a_max")]
    n = math.prod(shape)
    params = 0, 1, 1, 0, n, *[dtype.itemsize] * 4
    return NativeCall("loop", (*operands,), params, dtype, loop=(fun, (dtype,) * 4), work=_PRODUCT * n)


def _all_close(call, given, dtype, shape):
    options = _options(call, "a", "b", "rtol", "atol", "equal_nan")
    tolerances = options.get("rtol", 1e-5), options.get("atol", 1e-8)
    whole = np.broadcast_shapes(*[given(options[key])[1] for key in ("a", "b")])
    if any(type(x) is not float and type(x) is not int for x in tolerances):
        return None
    operands = [_packed(given, options[key], DOUBLE, whole) for key in ("a", "b")]
    n = math.prod(whole)
    params = n, *map(_bits, map(float, tolerances)), bool(options.get("equal_nan"))
    return NativeCall("all close", (*operands,), params, BOOL, work=_MOVED * n)


# ---------------------------------------------------------------------------------------------- moved elements


def _take_along_axis(call, given, dtype, shape):
    options = _options(call, "arr", "indices", "axis")
    axis = options.get("axis", -1)
    (_, own), (_, places) = given(options["arr"]), given(options["indices"])
    if axis is None:
        axis = 0 if len(own) == 1 else len(own)  # flattened
    if len(own) != len(places) or not -len(own) <= axis < len(own):
        return None
    axes = (*[d for d in range(len(own)) if d != axis % len(own)], axis % len(own))
    lines = tuple([shape[d] for d in axes[:-1]])
    operands = [
        _packed(given, options["arr"], dtype, (*lines, own[axis]), axes),
        _packed(given, options["indices"], INT, (*lines, places[axis]), axes),
    ]
    params = math.prod(lines), own[axis], places[axis], dtype.itemsize
    return NativeCall("take", (*operands,), params, dtype, axes, work=_MOVED * math.prod(shape))


def _take(call, given, dtype, shape):
    """Take elements at indices that are not constant; those at constant ones are rearranged."""
    options = _options(call, "a", "indices", "axis", "out", "mode")
    if options.get("out") is not None or options.get("mode", "raise") != "raise":
        return None
    if type(options["indices"]) is not Operand:
        return _rearrangement(call, given, dtype, shape)
    axis, (_, own), (_, places) = options.get("axis"), given(options["a"]), given(options["indices"])
    if axis is not None and axis not in (-1, len(own) - 1):
        return None
    lines = own[:-1] if axis is not None else ()
    n = own[-1] if axis is not None else math.prod(own)
    operands = _packed(given, options["a"], dtype), _packed(given, options["indices"], INT, (*lines, *places))
    params = math.prod(lines), n, math.prod(places), dtype.itemsize
    return NativeCall("take", operands, params, dtype, work=_MOVED * math.prod(shape))


def _getitem(call, given, dtype, shape):
    """Take elements, or slices along the first axis, at an array of integers."""
    if len(call.args) != 2 or type(call.args[1]) not in (Operand, np.ndarray) or given(call.args[1])[0] != INT:
        return _rearrangement(call, given, dtype, shape) if access.moves(call) else None
    (_, own), (_, places) = map(given, call.args)
    if not own:
        return None
    operands = _packed(given, call.args[0], dtype), _packed(given, call.args[1], INT)
    item = dtype.itemsize * math.prod(own[1:])
    return NativeCall("take", operands, (1, own[0], math.prod(places), item), dtype, work=_MOVED * math.prod(shape))


def _rearrangement(call, given, dtype, shape):
    """Copy elements whose source is known, found by the same call on their numbers."""
    operands, starts = [], [1]

    def numbers(argument):
        if type(argument) in (list, tuple):
            raise _Unsupported
        operands.append(_packed(given, argument, dtype))
        count = math.prod(operands[-1].shape)
        starts.append(starts[-1] + count)
        return np.arange(starts[-2], starts[-1]).reshape(operands[-1].shape)

    try:
        where = access.rearranged(call, numbers, lambda _: None)
    except (TypeError, ValueError, IndexError):
        return None
    if where is None or np.shape(where) != shape or np.asarray(where).dtype.kind != "i":
        return None
    where = np.ravel(where)
    if not where.all():  # elements of no operand, of which only zeros are known here
        if not _fills_with_zeros(call):
            return None
        operands.append(Packed(np.zeros(1, dtype), dtype, (1,)))
        where = np.where(where == 0, starts[-1], where)
        starts.append(starts[-1] + 1)
    which = np.searchsorted(starts, where, "right") - 1
    pairs = np.stack([which, where - np.array(starts)[which]], axis=-1)
    params = dtype.itemsize, where.size, *np.ravel(pairs).tolist()
    return NativeCall("rearrange", (*operands,), params, dtype, work=_MOVED * where.size)


def _fills_with_zeros(call):
    return not call.kwargs and call.row.fun in (np.diag, np.diagflat, np.tril, np.triu, np.zeros_like)


def _bincount(call, given, dtype, shape):
    options = _options(call, "x", "weights", "minlength")
    if options.get("weights") is None or options.get("minlength", 0) != math.prod(shape):
        return None
    operands = _packed(given, options["x"], INT), _packed(given, options["weights"], DOUBLE)
    if len(operands[0].shape) != 1 or operands[0].shape != operands[1].shape:
        return None
    return NativeCall("bincount", operands, (*operands[0].shape, *shape), work=_MOVED * math.prod(operands[0].shape))


def _where(call, given, dtype, shape):
    if len(call.args) != 3 or call.kwargs:
        return None
    operands = [_packed(given, x, t, shape) for x, t in zip(call.args, (BOOL, dtype, dtype))]
    n = math.prod(shape)
    return NativeCall("select", (*operands,), (n, dtype.itemsize), dtype, work=_MOVED * n)


# ---------------------------------------------------------------------------------------------- products


def _strong(call, given, dtype, shape):
    if dtype not in (DOUBLE, COMPLEX) or len(call.args) != 2 or call.kwargs:
        return None
    operands = [_packed(given, x, dtype, shape) for x in call.args]
    params = math.prod(shape), dtype == COMPLEX
    return NativeCall("strong", (*operands,), params, dtype, work=2 * _PRODUCT * math.prod(shape))


def _convolution(is_correlation):
    def rule(call, given, dtype, shape):
        options = _options(call, "a", "v", "mode")
        operands = [_packed(given, options[key], DOUBLE) for key in ("a", "v")]
        mode = options.get("mode", "valid" if is_correlation else "full")
        if any(len(x.shape) != 1 for x in operands) or mode not in ("full", "same", "valid"):
            return None
        if operands[0].shape < operands[1].shape:
            if is_correlation:
                return None
            operands.reverse()
        (m,), (n,) = operands[0].shape, operands[1].shape
        if is_correlation:
            shift, way = {"full": 1 - n, "same": -(n // 2), "valid": 0}[mode], 1
        else:
            shift, way = {"full": 0, "same": (n - 1) // 2, "valid": n - 1}[mode], -1
        if not n or n * shape[0] > MAX_PRODUCTS:
            return None
        return NativeCall("convolve", (*operands,), (m, n, *shape, shift, way), work=_PRODUCT * n * shape[0])

    return rule


def _contraction(call, given, dtype, shape):
    """Sum products over the labels of a contraction."""
    found = access.factors(call, lambda x: len(given(x)[1]))
    return _sum_of_products(given, *found, dtype, shape) if found is not None else None


def _kron(call, given, dtype, shape):
    a, b = _options(call, "a", "b").values()
    if len(given(a)[1]) != 2 or len(given(b)[1]) != 2:
        return None
    return _sum_of_products(given, (a, b), ((0, 1), (2, 3)), (0, 2, 1, 3), dtype, shape)


def _sum_of_products(given, arguments, labels, result, dtype, shape):
    if dtype != DOUBLE:
        return None
    operands = [_packed(given, x, DOUBLE) for x in arguments]
    shapes = [x.shape if len(word) == len(x.shape) else (math.prod(x.shape),) for word, x in zip(labels, operands)]
    if any(len(word) != len(own) for word, own in zip(labels, shapes)):
        return None
    sizes: dict = {}
    for word, own in zip(labels, shapes):
        for label, n in zip(word, own):
            sizes[label] = n if n != 1 else sizes.get(label, 1)
    result = [*result]
    order = [*result, *[label for label in sizes if label not in result]]
    regular = all(n in (1, sizes[label]) for word, own in zip(labels, shapes) for label, n in zip(word, own))
    if len({*result}) < len(result) or not {*result} <= sizes.keys() or not regular or len(order) > MAX_AXES:
        return None
    count = math.prod(sizes.values())
    if count > MAX_PRODUCTS or math.prod([sizes[label] for label in result]) != math.prod(shape):
        return None
    steps = _label_steps(result, [sizes[label] for label in result], order)
    for word, own in zip(labels, shapes):
        steps += _label_steps(word, own, order)
    params = len(order), math.prod(shape), *[sizes[label] for label in order], *steps
    return NativeCall("contract", (*operands,), params, work=2 * _PRODUCT * count * len(operands))


def _label_steps(word, shape, order):
    """Return the stride, in elements, of each label in an array in C order."""
    steps = dict.fromkeys(order, 0)
    step = 1
    for label, n in zip(reversed([*word]), reversed(shape)):
        steps[label] += step if n > 1 else 0
        step *= n
    return [steps[label] for label in order]


# ---------------------------------------------------------------------------------------------- linear algebra


def _matrices(given, argument):
    """Return an operand that is a stack of small square matrices, their number, and their order."""
    operand = _packed(given, argument, DOUBLE)
    if len(operand.shape) < 2 or operand.shape[-1] != operand.shape[-2] or not 0 < operand.shape[-1] <= MAX_ORDER:
        raise _Unsupported
    return operand, math.prod(operand.shape[:-2]), operand.shape[-1]


def _cubes(count, n, factor=1.0):
    """Estimate the time to factor matrices."""
    return factor * count * (n**3 * _PRODUCT + 5.0 * n)


def _solve(call, given, dtype, shape):
    a, b = _options(call, "a", "b").values()
    _, _, n = _matrices(given, a)
    own = given(b)[1]
    lines, m = (shape[:-2], shape[-1]) if len(own) > 1 else (shape[:-1], 1)
    operands = _packed(given, a, DOUBLE, (*lines, n, n)), _packed(given, b, DOUBLE, shape)
    if shape != ((*lines, n, m) if len(own) > 1 else (*lines, n)):
        return None
    count = math.prod(lines)
    return NativeCall("solve", operands, (count, n, m), spare=n * n + n, work=_cubes(count, n) + count * n * n * m)


def _matrixwise(kernel, *params, spare=True):
    def rule(call, given, dtype, shape):
        operand, count, n = _matrices(given, *_options(call, "a").values())
        spared = n * n + n if spare else 0
        return NativeCall(kernel, (operand,), (count, n, *params), spare=spared, work=_cubes(count, n, 2.0))

    return rule


def _cholesky(call, given, dtype, shape):
    options = _options(call, "a", "upper")
    operand, count, n = _matrices(given, options["a"])
    is_upper = options.get("upper", False)
    return NativeCall("cholesky", (operand,), (count, n, is_upper is True), work=_cubes(count, n))


def _cholesky_adjoint(call, given, dtype, shape):
    operands = [_packed(given, x, DOUBLE, shape) for x in _options(call, "factor", "g").values()]
    _, count, n = _matrices(lambda _: (DOUBLE, shape), None)
    return NativeCall("cholesky adjoint", (*operands,), (count, n), work=_cubes(count, n, 3.0))


def _qr(call, given, dtype, shape):
    options = _options(call, "a", "mode")
    operand = _packed(given, options["a"], DOUBLE)
    if len(operand.shape) != 2 or not 0 < max(operand.shape) <= MAX_ORDER or not min(operand.shape):
        return None
    m, n = operand.shape
    width = m if options["mode"] == "complete" else min(m, n)
    if options["mode"] not in ("reduced", "complete"):
        return None
    return NativeCall("qr", (operand,), (m, n, width), spare=m * n + n + m, work=_cubes(1, max(m, n), 4.0))


def _linalg_loop(name, operand, sizes, results):
    """Run a loop of NumPy on one matrix, as the signs of singular vectors depend on the algorithm.

    `sizes` are the dimensions of its signature, `results` the shapes of its results, which are packed.
    """
    fun = getattr(getattr(np.linalg, "_umath_linalg", None), name, None)
    if fun is None or f"d->{'d' * len(results)}" not in fun.types:
        return None
    counts = [*map(math.prod, results)]
    offsets = [8 * sum(counts[:k]) for k in range(len(counts))]
    steps = [8 * d for shape in (operand.shape, *results) for d in ((shape[1], 1) if len(shape) == 2 else (1,))]
    params = 1, len(results), 1 + len(sizes), *offsets, 1, *sizes, *[0] * (1 + len(results)), *steps
    loop = fun, (DOUBLE,) * (1 + len(results))
    return NativeCall("loop", (operand,), params, loop=loop, work=1000.0 + _cubes(1, max(sizes), 20.0))


def _eigh(with_vectors):
    def rule(call, given, dtype, shape):
        options = _options(call, "a", "UPLO", "of_values")
        operand, _, n = _matrices(given, options["a"])
        triangle = _TRIANGLES.get(options.get("UPLO", "L"))
        if triangle is None or len(operand.shape) != 2:
            return None
        if not with_vectors:
            return _linalg_loop(f"eigvalsh_{triangle}", operand, (n,), [(n,)])
        return _linalg_loop(f"eigh_{triangle}", operand, (n,), [(n,), (n, n)])

    return rule


def _svd(call, given, dtype, shape):
    options = _options(call, "a", "full_matrices", "of_values")
    operand = _packed(given, options["a"], DOUBLE)
    if len(operand.shape) != 2 or not 0 < min(operand.shape) <= max(operand.shape) <= MAX_ORDER:
        return None
    (m, n), k = operand.shape, min(operand.shape)
    if options["full_matrices"]:
        return _linalg_loop("svd_f", operand, (m, n, k), [(m, m), (k,), (n, n)])
    return _linalg_loop("svd_s", operand, (m, n, k), [(m, k), (k,), (k, n)])


def _svdvals(call, given, dtype, shape):
    operand = _packed(given, *_options(call, "x").values(), DOUBLE)
    if len(operand.shape) != 2 or not 0 < min(operand.shape) <= max(operand.shape) <= MAX_ORDER:
        return None
    return _linalg_loop("svd", operand, (*operand.shape, min(operand.shape)), [(min(operand.shape),)])


_TRIANGLES = {"L": "lo", "U": "up", "l": "lo", "u": "up"}


# ---------------------------------------------------------------------------------------------- Fourier transforms


def _transform(name):
    """Run NumPy's own loop of a Fourier transform along one axis; NumPy 1 has none."""

    def rule(call, given, dtype, shape):
        options = _options(call, "a", "n", "axis", "norm")
        axis = options.get("axis", -1)
        kind = DOUBLE if name == "rfft" else COMPLEX
        operand, others, rows, own = _rows(given, options["a"], axis, kind)
        axis = axis % len(shape)
        length = shape[axis] if name != "rfft" else options.get("n")
        length = own if length is None else length
        fun = _fourier(name if name != "rfft" else f"rfft_n_{'odd' if length % 2 else 'even'}")
        signature = (kind, DOUBLE, dtype)
        if fun is None or type(length) is not int or not own or dtype != (DOUBLE if name == "irfft" else COMPLEX):
            return None
        norm = options.get("norm") or "backward"
        if norm not in ("backward", "ortho", "forward"):
            return None
        divides = norm == ("forward" if name in ("fft", "rfft") else "backward")
        factor = 1.0 / math.sqrt(length) if norm == "ortho" else 1.0 / length if divides else 1.0
        step_in, step_out, count = kind.itemsize, dtype.itemsize, shape[axis]
        params = (0, 1, 3, 0, rows, own, count, step_in * own, 0, step_out * count, step_in, step_out)
        operands = operand, Packed(np.array(factor), DOUBLE, ())
        work = 300.0 + _PRODUCT * rows * length * math.log2(length + 1) * 4
        return NativeCall("loop", operands, params, dtype, (*others, axis), loop=(fun, signature), work=work)

    return rule


def _fourier(name):
    try:
        from numpy.fft import _pocketfft_umath
    except ImportError:
        return None
    return getattr(_pocketfft_umath, name, None)


#: rules by the registry column ``native``, or else by ``scalars``
RULES: dict[str, Callable] = {
    "any": _logical(_ANY),
    "all": _logical(_ALL),
    "max": _fold(_MAX, -math.inf),
    "min": _fold(_MIN, math.inf),
    "prod": _fold(_MULTIPLY, 1.0),
    "sum": _fold(_ADD, 0.0),
    "mean": _fold(_MEAN, 0.0),
    "size": _size,
    "cumsum": _accumulation(_ADD),
    "cumprod": _accumulation(_MULTIPLY),
    "sort": _sorting("sort", DOUBLE),
    "argsort": _sorting("argsort", INT),
    "median": _median,
    "argmax": _argmax(False),
    "argmin": _argmax(True),
    "searchsorted": _searchsorted,
    "take_along_axis": _take_along_axis,
    "take": _take,
    "bincount": _bincount,
    "where": _where,
    "strong": _strong,
    "convolve": _convolution(False),
    "correlate": _convolution(True),
    "solve": _solve,
    "inverse": _matrixwise("inverse"),
    "determinant": _matrixwise("determinant", 0),
    "log determinant": _matrixwise("determinant", 1),
    "cholesky": _cholesky,
    "cholesky adjoint": _cholesky_adjoint,
    "qr": _qr,
    "eigh": _eigh(True),
    "eigvalsh": _eigh(False),
    "svd": _svd,
    "svdvals": _svdvals,
    "count_nonzero": _logical(_COUNT),
    "norm": _norm,
    "quantile": _quantile(1),
    "percentile": _quantile(100),
    "digitize": _digitize,
    "interp": _interp,
    "diff": _difference,
    "sinc": _elementwise(_SINC),
    "isposinf": _elementwise(_POSITIVE_INFINITE, BOOL),
    "isneginf": _elementwise(_NEGATIVE_INFINITE, BOOL),
    "round": _round,
    "clip": _clip,
    "allclose": _all_close,
    "getitem": _getitem,
    "kron": _kron,
    **{name: _transform(name) for name in ("fft", "ifft", "rfft", "irfft")},
}
