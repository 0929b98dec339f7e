"""Calls of ufuncs made by ``numpy.frompyfunc`` or ``numba.vectorize`` with traced arguments, element by element.

NumPy returns object arrays.  Here traced scalars form an array of floats, so that functions and methods such as
``astype(float)`` carry the derivative; any other results are object arrays.
"""

from __future__ import annotations

import functools

import numpy as np

from wengert.core.dispatch import mixed
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.core.rebind.follow import function_of_ufunc
from wengert.core.rebind.rebind import rebound
from wengert.errors import UnsupportedFunctionError


def function_of(fun):
    """Return the Python function that a ufunc calls for each element, or None."""
    is_ufunc = type(fun) is np.ufunc or type(fun).__module__ == "numba.np.ufunc.dufunc"
    return function_of_ufunc(fun) if is_ufunc else None


def call(fun, f, args, **options):
    """Call `f` for each element of the broadcast arguments."""
    if options:
        raise UnsupportedFunctionError(
            f"{fun.__name__} has no derivative rule for the option {', '.join(options)}{at()}: write numpy.where"
        )
    return _call(fun, rebound(f), args)


def _call(fun, run, args):
    arrays = np.broadcast_arrays(*map(_elements, args))
    shape = np.shape(arrays[0])
    found = [run(*(array[i] for array in arrays)) for i in np.ndindex(*shape)]
    if not shape:
        return found[0]
    if not found:
        raise UnsupportedFunctionError(f"{fun.__name__} has no rule for empty arrays{at()}: return a constant")
    if fun.nout == 1:
        return _stacked(fun, found, shape)
    return tuple(_stacked(fun, column, shape) for column in zip(*found))


def _elements(x):
    """Convert an argument to an array whose elements are what NumPy passes to the function."""
    if var.holds_traced(x) or mixed.is_lifted(x):
        return np.stack(x) if isinstance(x, (list, tuple)) else x
    return np.asarray(var.plain(x), dtype=object)


def _stacked(fun, items, shape):
    items = list(items)
    is_own = [var.is_scalar(x) or (mixed.is_lifted(x) and not x.ndim) for x in items]
    if (any(is_own) or type(fun) is not np.ufunc) and all(map(_is_scalar, items, is_own)):
        return np.reshape(var.stack_scalars(items) if var.scalar_list(items) else np.stack(items), shape)
    out = np.empty(shape, dtype=object)
    for i, x in zip(np.ndindex(*shape), items):
        out[i] = x
    return out


def _is_scalar(x, is_own):
    return is_own or isinstance(x, (int, float, complex, np.number))


def _reduce(fun, f, x, axis=0, *, keepdims=False, initial=None):
    items = _along(fun, x, axis)
    total = functools.reduce(lambda y, item: call(fun, f, (y, item)), items if initial is None else [initial, *items])
    return np.expand_dims(total, axis or 0) if keepdims else total


def _accumulate(fun, f, x, axis=0):
    totals = []
    for item in _along(fun, x, axis):
        totals.append(call(fun, f, (totals[-1], item)) if totals else item)
    return np.stack(totals, axis)


def _along(fun, x, axis):
    """Return the slices of an array along an axis; ``axis=None`` flattens the array first."""
    if fun.nin != 2 or fun.nout != 1:
        raise ValueError("reduce and accumulate are only supported for binary functions")
    if isinstance(axis, tuple) or not np.size(x):
        raise UnsupportedFunctionError(f"{fun.__name__} has no rule for this axis{at()}: write a loop over one axis")
    x = np.stack(x) if isinstance(x, (list, tuple)) else x
    return list(np.ravel(x) if axis is None else np.moveaxis(x, axis, 0))


#: ufunc methods that have a rule, as ``method(ufunc, function, *args, **kwargs)``
METHODS = {"accumulate": _accumulate, "reduce": _reduce}
