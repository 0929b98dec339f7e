"""Native calls on elements and rows: ufuncs, reductions, sorts, and functions that move or choose elements."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from wengert.program.ir import access
from wengert.program.ir.call import Operand
from wengert.program.ir.native_operands import (
    BOOL,
    COMPLEX,
    DOUBLE,
    FUNCTION,
    INT,
    MAX_PRODUCTS,
    MAX_SORTED,
    MOVED,
    PRODUCT,
    TYPES,
    NativeCall,
    Packed,
    Unsupported,
    bits,
    options_of,
    packed,
    rows_of,
)

#: functions of a reduction, as numbered in native.c
_ANY, _ALL, _COUNT, _MAX, _MIN, _ADD, _MULTIPLY, _LARGEST, _LEAST, _SUM, _LENGTH, _MEAN = range(12)
#: reductions that only compare elements
EXACT_FOLDS = frozenset((_MAX, _MIN, _LARGEST, _LEAST))
#: elementwise functions, as numbered in native.c
_SINC, _ROUND, _POSITIVE_INFINITE, _NEGATIVE_INFINITE = range(4)


# ---------------------------------------------------------------------------------------------- ufuncs


def ufunc_call(fun, call, given, dtype, shape):
    """Run the inner loop that NumPy selects."""
    if call.kwargs or fun.nout != 1 or len(call.args) != fun.nin:
        return None
    types = [given(x)[0] for x in call.args]
    signature = _loop_of(fun, tuple([type(x) if type(x) in (int, float, complex) else t
                                     for x, t in zip(call.args, types)]))  # fmt: skip
    if signature is None or signature[-1] != dtype:
        return None
    operands = [packed(given, x, t, shape) for x, t in zip(call.args, signature)]
    n, steps = math.prod(shape), [t.itemsize for t in signature]
    params = 0, 1, 1, 0, n, *steps
    return NativeCall("loop", (*operands,), params, dtype, loops=((fun, signature),), work=FUNCTION * n)


@functools.lru_cache(1000)
def _loop_of(fun, types):
    """Return the dtypes of the loop that a ufunc selects for operands of these dtypes or Python types, or None."""
    try:
        found = fun.resolve_dtypes((*types, None))
    except (TypeError, ValueError):
        return None
    word = "".join([t.char for t in found])
    return found if all(t in TYPES for t in found) and f"{word[:-1]}->{word[-1]}" in fun.types else None


def conversion(call, given, dtype, shape):
    """Convert to another dtype, as ``astype`` does."""
    x, to = call.args
    found, n = given(x)[0], math.prod(shape)
    if found == DOUBLE and dtype == to == INT:
        return NativeCall("truncate", (packed(given, x, DOUBLE, shape),), (n,), INT, work=MOVED * n)
    if dtype != to or found == dtype or dtype not in (INT, DOUBLE):
        return None
    loop, steps = (np.positive, (dtype, dtype)), (dtype.itemsize, dtype.itemsize)
    return NativeCall("loop", (packed(given, x, dtype, shape),), (0, 1, 1, 0, n, *steps), dtype, loops=(loop,), work=n)


# ---------------------------------------------------------------------------------------------- rows of an array


def _logical(number):
    def rule(call, given, dtype, shape):
        options = options_of(call, "a", "axis", "out", "keepdims")
        operand, _, rows, n = rows_of(given, options["a"], options.get("axis"), BOOL)
        made = INT if number == _COUNT else BOOL
        return NativeCall("count", (operand,), (rows, n, number), made, work=MOVED * rows * n)

    return rule


def _fold(number, first):
    def rule(call, given, dtype, shape):
        options = options_of(call, "a", "axis", "out", "keepdims", "initial")
        initial = options.get("initial")
        if number == _ADD and dtype == INT:
            return _logical(_COUNT)(call, given, dtype, shape)
        if number == _ADD and dtype == COMPLEX and initial is None:
            return _complex_fold(given, options["a"], options.get("axis"), number, dtype)
        if type(initial) not in (type(None), int, float, np.float64):
            return None
        operand, _, rows, n = rows_of(given, options["a"], options.get("axis"))
        start = first if initial is None else float(initial)
        if n == 0:
            return None
        return NativeCall("fold", (operand,), (rows, n, number, bits(start)), work=2 * PRODUCT * rows * n)

    return rule


def _complex_fold(given, argument, axis, number, dtype):
    operand, _, rows, n = rows_of(given, argument, axis, COMPLEX)
    return NativeCall("complex fold", (operand,), (rows, n, number), dtype, work=FUNCTION * rows * n)


def _size(call, given, dtype, shape):
    options = options_of(call, "x", "axis")
    if given(options["x"])[0] == COMPLEX:
        return _complex_fold(given, options["x"], options["axis"], _LARGEST, dtype)
    operand, _, rows, n = rows_of(given, options["x"], options["axis"])
    return NativeCall("fold", (operand,), (rows, n, _LARGEST, bits(0.0)), work=2 * PRODUCT * rows * n)


def _norm(call, given, dtype, shape):
    """Compute norms of vectors, and Frobenius norms of matrices."""
    options = options_of(call, "x", "ord", "axis", "keepdims")
    order, axis = options.get("ord"), options.get("axis")
    operand, _, rows, n = rows_of(given, options["x"], axis)
    is_matrix = (len(operand.shape) if axis is None else len(axis) if type(axis) is tuple else 1) == 2
    known = {None: _LENGTH, "fro": _LENGTH} if is_matrix else _NORMS
    if type(order) not in (type(None), str, int, float) or order not in known or (order is not None and n == 0):
        return None
    if order is not None and not is_matrix and axis is None and len(operand.shape) != 1:
        return None
    number = known[order]
    first = math.inf if number == _LEAST else 0.0
    return NativeCall("fold", (operand,), (rows, n, number, bits(first)), work=2 * PRODUCT * rows * n)


_NORMS: dict = {None: _LENGTH, 2: _LENGTH, 1: _SUM, math.inf: _LARGEST, -math.inf: _LEAST}


def _accumulation(number):
    def rule(call, given, dtype, shape):
        options = options_of(call, "a", "axis")
        axis = options.get("axis")
        operand, others, rows, n = rows_of(given, options["a"], axis)
        axes = None if axis is None else (*others, axis % len(shape))
        return NativeCall("accumulate", (operand,), (rows, n, number), axes=axes, work=2 * PRODUCT * rows * n)

    return rule


def _sorting(kernel, dtype):
    def rule(call, given, _, shape):
        options = options_of(call, "a", "axis", "kind", "order", "stable")
        axis = options.get("axis", -1)
        if options.get("order") is not None:
            return None
        operand, others, rows, n = rows_of(given, options["a"], axis)
        axes = None if axis is None else (*others, axis % len(shape))
        is_stable = options.get("kind") in ("stable", "mergesort") or options.get("stable") is True
        if n > MAX_SORTED:
            return None
        return NativeCall(kernel, (operand,), (rows, n, not is_stable), dtype, axes, work=PRODUCT * rows * n * n / 2)

    return rule


def _median(call, given, dtype, shape):
    options = options_of(call, "a", "axis", "out", "overwrite_input", "keepdims")
    operand, _, rows, n = rows_of(given, options["a"], options.get("axis"))
    if not 0 < n <= MAX_SORTED:
        return None
    return NativeCall("median", (operand,), (rows, n), spare=n, work=PRODUCT * rows * n * n / 2)


def _quantile(scale):
    def rule(call, given, dtype, shape):
        names = "a", "q", "axis", "out", "overwrite_input", "method", "keepdims"
        options = options_of(call, *names)
        operand, _, rows, n = rows_of(given, options["a"], options.get("axis"))
        q = packed(given, options["q"], DOUBLE)
        if options.get("method", "linear") != "linear" or not 0 < n <= MAX_SORTED:
            return None
        params = rows, n, math.prod(q.shape), scale
        return NativeCall("quantile", (operand, q), params, spare=n, work=PRODUCT * rows * n * n / 2)

    return rule


def _argmax(is_min):
    def rule(call, given, dtype, shape):
        options = options_of(call, "a", "axis", "out", "keepdims")
        operand, _, rows, n = rows_of(given, options["a"], options.get("axis"))
        return NativeCall("argmax", (operand,), (rows, n, is_min), INT, work=PRODUCT * rows * n) if n else None

    return rule


def _searchsorted(call, given, dtype, shape):
    options = options_of(call, "a", "v", "side", "sorter")
    if options.get("sorter") is not None or options.get("side", "left") not in ("left", "right"):
        return None
    return _search(given, options["a"], options["v"], options.get("side", "left") == "right")


def _search(given, line, x, is_right):
    """Find the place of each element of x in a sorted row."""
    operands = packed(given, line, DOUBLE), packed(given, x, DOUBLE)
    n, count = math.prod(operands[0].shape), math.prod(operands[1].shape)
    if len(operands[0].shape) != 1 or n * count > MAX_PRODUCTS:
        return None
    return NativeCall("search", operands, (n, count, is_right), INT, work=PRODUCT * n * count)


def _interp(call, given, dtype, shape):
    options = options_of(call, "x", "xp", "fp", "left", "right", "period")
    if any(options.get(key) is not None for key in ("left", "right", "period")):
        return None
    operands = [packed(given, options[key], DOUBLE) for key in ("x", "xp", "fp")]
    count, n = math.prod(operands[0].shape), math.prod(operands[1].shape)
    if len(operands[1].shape) != 1 or operands[1].shape != operands[2].shape or n < 2 or n * count > MAX_PRODUCTS:
        return None
    return NativeCall("interp", (*operands,), (count, n), work=PRODUCT * n * count + 5.0 * count)


def _digitize(call, given, dtype, shape):
    options = options_of(call, "x", "bins", "right")
    return _search(given, options["bins"], options["x"], not options.get("right"))


def _difference(call, given, dtype, shape):
    options = options_of(call, "a", "n", "axis")
    order, axis = options.get("n", 1), options.get("axis", -1)
    operand, others, rows, n = rows_of(given, options["a"], axis)
    if type(order) is not int or not 0 < order < n:
        return None
    axes = *others, axis % len(shape)
    return NativeCall("difference", (operand,), (rows, n, order), axes=axes, spare=n, work=MOVED * rows * n * order)


# ---------------------------------------------------------------------------------------------- elementwise functions


def _elementwise(number, dtype=DOUBLE):
    def rule(call, given, _, shape):
        operand = packed(given, *options_of(call, "x").values(), DOUBLE)
        n = math.prod(shape)
        return NativeCall("elementwise", (operand,), (n, number), dtype, work=FUNCTION * n)

    return rule


def _round(call, given, dtype, shape):
    options = options_of(call, "a", "decimals", "out")
    decimals, n = options.get("decimals", 0), math.prod(shape)
    if type(decimals) is not int or not 0 <= decimals < 20:
        return None
    operand = packed(given, options["a"], DOUBLE)
    return NativeCall("elementwise", (operand,), (n, _ROUND, bits(10.0**decimals)), work=FUNCTION * n)


def _clip(call, given, dtype, shape):
    """Run the loop of NumPy's internal ``clip`` ufunc."""
    options = options_of(call, "a", "a_min", "a_max")
    fun = getattr(getattr(getattr(np, "_core", None), "umath", None), "clip", None)
    word = f"{dtype.char * 3}->{dtype.char}"
    if any(x is None for x in (options.get("a_min"), options.get("a_max"), fun)) or word not in fun.types:
        return None
    operands = [packed(given, options[key], dtype, shape) for key in ("a", "a_min", "a_max")]
    n = math.prod(shape)
    params = 0, 1, 1, 0, n, *[dtype.itemsize] * 4
    return NativeCall("loop", (*operands,), params, dtype, loops=((fun, (dtype,) * 4),), work=PRODUCT * n)


def _all_close(call, given, dtype, shape):
    options = options_of(call, "a", "b", "rtol", "atol", "equal_nan")
    tolerances = options.get("rtol", 1e-5), options.get("atol", 1e-8)
    whole = np.broadcast_shapes(*[given(options[key])[1] for key in ("a", "b")])
    if any(type(x) is not float and type(x) is not int for x in tolerances):
        return None
    operands = [packed(given, options[key], DOUBLE, whole) for key in ("a", "b")]
    n = math.prod(whole)
    params = n, *map(bits, map(float, tolerances)), bool(options.get("equal_nan"))
    return NativeCall("all close", (*operands,), params, BOOL, work=MOVED * n)


# ---------------------------------------------------------------------------------------------- moved elements


def _take_along_axis(call, given, dtype, shape):
    options = options_of(call, "arr", "indices", "axis")
    axis = options.get("axis", -1)
    (_, own), (_, places) = given(options["arr"]), given(options["indices"])
    if axis is None:
        axis = 0 if len(own) == 1 else len(own)  # flattened
    if len(own) != len(places) or not -len(own) <= axis < len(own):
        return None
    axes = (*[d for d in range(len(own)) if d != axis % len(own)], axis % len(own))
    lines = tuple([shape[d] for d in axes[:-1]])
    operands = [
        packed(given, options["arr"], dtype, (*lines, own[axis]), axes),
        packed(given, options["indices"], INT, (*lines, places[axis]), axes),
    ]
    params = math.prod(lines), own[axis], places[axis], dtype.itemsize
    return NativeCall("take", (*operands,), params, dtype, axes, work=MOVED * math.prod(shape))


def _take(call, given, dtype, shape):
    """Take elements at indices that are operands; for constant indices, return a rearrangement."""
    options = options_of(call, "a", "indices", "axis", "out", "mode")
    if options.get("mode", "raise") != "raise":
        return None
    if type(options["indices"]) is not Operand:
        return rearrangement(call, given, dtype, shape)
    axis, (_, own), (_, places) = options.get("axis"), given(options["a"]), given(options["indices"])
    if axis is not None and axis not in (-1, len(own) - 1):
        return None
    lines = own[:-1] if axis is not None else ()
    n = own[-1] if axis is not None else math.prod(own)
    operands = packed(given, options["a"], dtype), packed(given, options["indices"], INT, (*lines, *places))
    params = math.prod(lines), n, math.prod(places), dtype.itemsize
    return NativeCall("take", operands, params, dtype, work=MOVED * math.prod(shape))


def _getitem(call, given, dtype, shape):
    """Take elements, or slices along the first axis, at an array of integers."""
    if len(call.args) != 2 or type(call.args[1]) not in (Operand, np.ndarray) or given(call.args[1])[0] != INT:
        return rearrangement(call, given, dtype, shape) if access.moves(call) else None
    (_, own), (_, places) = map(given, call.args)
    if not own:
        return None
    operands = packed(given, call.args[0], dtype), packed(given, call.args[1], INT)
    item = dtype.itemsize * math.prod(own[1:])
    return NativeCall("take", operands, (1, own[0], math.prod(places), item), dtype, work=MOVED * math.prod(shape))


def rearrangement(call, given, dtype, shape):
    """Copy elements from known sources, found by applying the call to element numbers."""
    operands, starts = [], [1]

    def numbers(argument):
        if type(argument) in (list, tuple):
            raise Unsupported
        operands.append(packed(given, argument, dtype))
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
    if not where.all():  # elements that come from no operand; only zeros are supported
        if call.kwargs or not call.row.fills_zeros:
            return None
        operands.append(Packed(np.zeros(1, dtype), dtype, (1,)))
        where = np.where(where == 0, starts[-1], where)
        starts.append(starts[-1] + 1)
    which = np.searchsorted(starts, where, "right") - 1
    pairs = np.stack([which, where - np.array(starts)[which]], axis=-1)
    params = dtype.itemsize, where.size, *np.ravel(pairs).tolist()
    return NativeCall("rearrange", (*operands,), params, dtype, work=MOVED * where.size)


def _bincount(call, given, dtype, shape):
    options = options_of(call, "x", "weights", "minlength")
    if options.get("weights") is None or options.get("minlength", 0) != math.prod(shape):
        return None
    operands = packed(given, options["x"], INT), packed(given, options["weights"], DOUBLE)
    if len(operands[0].shape) != 1 or operands[0].shape != operands[1].shape:
        return None
    return NativeCall("bincount", operands, (*operands[0].shape, *shape), work=MOVED * math.prod(operands[0].shape))


def _where(call, given, dtype, shape):
    if len(call.args) != 3 or call.kwargs:
        return None
    operands = [packed(given, x, t, shape) for x, t in zip(call.args, (BOOL, dtype, dtype))]
    n = math.prod(shape)
    return NativeCall("select", (*operands,), (n, dtype.itemsize), dtype, work=MOVED * n)


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
}
