"""Rewrites ufunc calls with ``dtype=``, ``casting=``, ``order=`` or ``axes=`` as calls without these options.

Operands are converted to the types of the ufunc loop that NumPy resolves.
"""

from __future__ import annotations

import numpy as np

from wengert.core.operands import var

#: options that select the loop of a ufunc
LOOP = ("dtype", "signature", "sig", "casting")


def simplified(call, fun, inputs, kwargs):
    """Evaluate a ufunc with options; ``call(fun, "__call__", inputs, kwargs)`` handles the remaining ones."""
    kwargs = {name: value for name, value in kwargs.items() if name != "subok"}  # operands have no subclasses
    order = kwargs.pop("order", "K")
    loop = {name: kwargs.pop(name) for name in LOOP if name in kwargs}
    if loop:
        inputs = converted(fun, inputs, **loop)
    if "axes" in kwargs:
        return in_order(along_axes(call, fun, inputs, **kwargs), order)
    keepdims = kwargs.pop("keepdims", False)
    y = call(fun, "__call__", inputs, kwargs)
    y = np.expand_dims(y, kwargs.get("axis", -1)) if keepdims else y
    return in_order(y, order)


def converted(fun, inputs, dtype=None, signature=None, sig=None, casting="same_kind"):
    """Convert operands to the types of the loop that NumPy resolves; NumPy raises if there is none."""
    found = None if dtype is None else np.dtype(dtype)
    signature = signature or sig or (None,) * fun.nin + (found,) * fun.nout
    inputs = [as_operand(x) for x in inputs]
    given = tuple(getattr(x, "dtype", type(x)) for x in inputs)
    loop = fun.resolve_dtypes(given + (None,) * fun.nout, signature=signature, casting=casting)
    return tuple(as_type(x, dtype) for x, dtype in zip(inputs, loop))


def as_operand(x):
    """Convert lists to arrays and bools to NumPy's; other Python scalars stay, as they have no dtype."""
    if isinstance(x, (list, tuple)):
        return np.stack([as_operand(item) for item in x]) if var.holds_var(x) else np.asarray(x)
    return np.bool_(x) if type(x) is bool else x


def as_type(x, dtype):
    if not hasattr(x, "dtype"):
        return dtype.type(x)
    return x if x.dtype == dtype else x.astype(dtype)


def along_axes(call, fun, inputs, axes, **kwargs):
    """Evaluate a generalised ufunc with ``axes=``: move the core axes to the end and back."""
    axes = [(axis,) if isinstance(axis, int) else tuple(axis) for axis in axes]
    moved = (np.moveaxis(x, at, range(-len(at), 0)) for x, at in zip(inputs, axes))
    y = call(fun, "__call__", tuple(moved), kwargs)
    at = axes[fun.nin] if len(axes) > fun.nin else ()
    return np.moveaxis(y, range(-len(at), 0), at)


def in_order(y, order):
    """Return the result in the memory layout of ``order=``."""
    if order not in ("C", "F") or not np.ndim(y) or var.value_of(y).flags[f"{order}_CONTIGUOUS"]:
        return y
    return np.copy(y, order=order)
