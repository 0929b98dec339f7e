"""Batched values for `vmap`: one NumPy call processes all elements of a batch where the function allows it.

A `Batch` stacks the arrays of all elements along a leading axis that is hidden from the function.
Ufuncs, and functions whose registry row states `batching`, are called once on the stacked array; other functions are
called once per element. An operation without a common answer for all elements, such as a branch on a value, raises
`NotBatchable`, and `vmap` then runs the function element by element.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from wengert import registry
from wengert.core import levels
from wengert.core.dispatch import arguments
from wengert.core.dispatch.lifted import LIKE, POLYNOMIALS, Lifted, holds_lifted, in_c_order
from wengert.core.operands import var
from wengert.dependence import MATRIXWISE, SYSTEMS, Along, Contraction, Cumulative, Elementwise, Reduced


def _laid_out(v, strides):
    """Copy a batch so that each of its elements has the memory layout of an array with these strides."""
    axes = 1 + np.argsort([-abs(step) for step in strides], kind="stable")
    return np.transpose(np.copy(np.transpose(v, (0, *axes)), order="C"), (0, *1 + np.argsort(axes)))


class NotBatchable(BaseException):
    """Signals that a batch must be run element by element. Not an `Exception`, so that `f` cannot catch it.

    C code may replace it by another error, so it also sets a flag on every active `Maker`.
    """

    def __init__(self):
        super().__init__()
        for holder in levels.holders():
            if isinstance(holder, Maker):
                holder.is_unbatchable = True


class Batch(Lifted):
    """An array as the function sees it for one batch element; `v` stacks the arrays of all elements."""

    __slots__ = ("v",)
    what = "a batch"

    def __init__(self, v):
        self.v = v

    @property
    def __class__(self):
        """Raise `NotBatchable` if user code asks for the type, since it may treat arrays and scalars differently."""
        module = sys._getframe(1).f_globals.get("__name__", "")
        if module.startswith(POLYNOMIALS):
            return np.ndarray if self.ndim else np.float64
        if module.startswith("wengert."):
            return Batch
        raise NotBatchable

    @property
    def shape(self):
        return np.shape(self.v)[1:]

    @property
    def dtype(self):
        return self.v.dtype

    def _refuse(self, *args):
        raise NotBatchable

    _raise_unsupported = __bool__ = __repr__ = __format__ = _refuse

    def __index__(self):
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        raise NotBatchable

    def _call(self, fun, args, kwargs):
        with levels.lifting(None):
            return apply(fun, args, kwargs)

    def _sample(self):
        return np.zeros(self.shape, dtype=self.dtype)[()]

    def _is_contiguous(self, order):
        return np.asarray(var.plain(self.v)[0]).flags[f"{order}_CONTIGUOUS"]

    def _item(self, key):
        parts = key if type(key) is tuple else (key,)
        v = self.v[_batched_index(key)]
        is_copied = np.ndim(v) > 2 and any(isinstance(part, (np.ndarray, list)) for part in parts)
        if is_copied and not var.plain(v).flags.c_contiguous:
            v = _laid_out(v, var.plain(self.v)[0][key].strides)
        is_number = np.ndim(v) == 1 and not any(part is Ellipsis for part in parts)
        return Batch(np.copy(v) if is_number else v)  # a scalar read from an array is a copy, not a view

    def _store(self, key, value):
        key = _batched_index(key)
        if isinstance(value, (list, tuple)) and holds_lifted(value):
            value = _joined(value)
        self.v[key] = _aligned(value, np.ndim(self.v[key]) - 1) if isinstance(value, Batch) else value

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        if self.dtype == dtype and (self.ndim or not copy):
            return np.copy(self, order=order) if copy else self
        if np.dtype(dtype).kind not in "biufc":
            raise NotBatchable
        made = Batch(self.v.astype(dtype))
        return made if order == "K" else np.copy(made, order=order)


class Maker:
    """Creates arrays while a function runs on batches."""

    refused = spelled = None  # errors that were noted, see `wengert.core.levels.remember`
    is_unbatchable = False  # whether `NotBatchable` was raised
    solve_together = None  # set by a solver called on a batch: function that solves for all elements

    def __init__(self, size: int):
        self.size = size

    def made(self, array):
        """Repeat a new float array for each element, so that batches can be stored into it."""
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fc":
            return array
        v = _laid_out(np.broadcast_to(array, (self.size, *array.shape)), array.strides)
        return Batch(arguments.clean(v) if levels.is_tracing() else v)

    def enclose(self, name):
        """Refuse a Taylor expansion inside a batch."""
        raise NotBatchable

    def array(self, x):
        return np.copy(x) if isinstance(x, Batch) else _joined(x)


def _joined(x):
    return in_c_order(np.stack([_joined(item) if isinstance(item, (list, tuple)) else item for item in x]))


def _batched_index(key):
    """Shift an index by the batch axis."""
    parts = key if type(key) is tuple else (key,)
    if holds_lifted(parts):
        raise NotBatchable
    chosen = [i for i, part in enumerate(parts) if not (part is None or part is Ellipsis or isinstance(part, slice))]
    has_arrays = any(isinstance(parts[i], (np.ndarray, list)) for i in chosen)
    if has_arrays and chosen[-1] - chosen[0] >= len(chosen):
        raise NotBatchable  # NumPy moves the axes of separated advanced indices to the front
    return (slice(None), *parts)


def _array(x):
    """The stacked array of a batch; a constant, possibly traced, as an array."""
    return x.v if isinstance(x, Batch) else np.asarray(x) if isinstance(x, (list, tuple)) else x


def _aligned(x, ndim):
    """Insert axes of length 1 after the batch axis, so that the stacked array broadcasts as its elements do."""
    if not isinstance(x, Batch):
        return x
    return np.reshape(x.v, np.shape(x.v)[:1] + (1,) * (ndim - x.ndim) + x.shape)


def _shifted_axis(axis, ndim):
    """Shift axes of an element with `ndim` axes by the batch axis; invalid axes raise later, in calls per element."""
    if isinstance(axis, tuple):
        return tuple([_shifted_axis(a, ndim) for a in axis])
    if not -ndim <= axis < ndim:
        raise NotBatchable
    return axis % ndim + 1


# ---- functions


def is_batchable(row: registry.Primitive) -> bool:
    """Return whether one call of a function processes a whole batch."""
    return row.batching is not None or row.fun is registry.strong or _is_ufunc(row.fun)


def _is_ufunc(fun):
    return isinstance(fun, np.ufunc) and fun.signature is None and fun.nout == 1


def apply(fun: Callable, args: tuple, kwargs: dict):
    """Apply a function to batches and constants."""
    if holds_lifted(tuple(kwargs.values())):
        raise NotBatchable
    size = len(_batches(args)[0].v)
    row = registry.lookup(fun)
    if row is not None and row.batching is not None:
        return Batch(_at_once(fun, row, size, args, kwargs))
    if _is_ufunc(fun) or fun is registry.strong:
        return Batch(_elementwise(fun, args, kwargs))
    if fun in LIKE:
        return Maker(size).made(fun(*_element(args, 0), **kwargs))
    if row is not None and row.static:
        return fun(*_element(args, 0), **kwargs)
    if row is None or row.kind == "view" or row.watch == "store":
        raise NotBatchable
    return Batch(_per_element(fun, args, kwargs, size))


def _batches(x):
    if isinstance(x, (list, tuple)):
        return [batch for item in x for batch in _batches(item)]
    return [x] if isinstance(x, Batch) else []


def _element(x, i):
    if isinstance(x, Batch):
        return x.v[i]
    return type(x)([_element(item, i) for item in x]) if isinstance(x, (list, tuple)) else x


def _elementwise(fun, args, kwargs):
    args = [_joined(x) if isinstance(x, (list, tuple)) and holds_lifted(x) else x for x in args]
    ndim = max(map(np.ndim, args))
    return fun(*[_aligned(x, ndim) for x in args], **kwargs)


def _per_element(fun, args, kwargs, size):
    """Call a function for each element and stack the results; refuse views, through which f may write."""
    found = [fun(*_element(args, i), **kwargs) for i in range(size)]
    if any(isinstance(y, (list, tuple, str)) for y in found) or len({np.shape(y) for y in found}) > 1:
        raise NotBatchable
    first = var.plain(found[0])
    if np.ndim(first) and any(np.may_share_memory(first, var.plain(x.v)) for x in _batches(args)):
        raise NotBatchable
    return np.stack(found)


# ---- one call for all elements


def _at_once(fun, row, size, args, kwargs):
    """Apply a function to the whole batch, by the batching rule of its row."""
    if kwargs.get("out") is not None:
        raise NotBatchable
    if callable(row.batching):
        found = row.batching(*_with_batch_axis(row, size, args), **kwargs)
        if found is None:
            raise NotBatchable
        return found
    pattern = row.dependence
    return _BY_PATTERN[pattern if type(pattern) is str else type(pattern)](fun, row, args, kwargs)


def _with_batch_axis(row, size, args):
    """Arguments with a leading batch axis, of length 1 for constants."""
    if row.sequence:
        parts = [x.v if isinstance(x, Batch) else np.broadcast_to(x, (size, *np.shape(x))) for x in args[0]]
        return parts, *args[1:]
    operands = row.vjps or (0,)
    found = [x.v if isinstance(x, Batch) else _array(x)[None] if i in operands else x for i, x in enumerate(args)]
    if holds_lifted(found):
        raise NotBatchable
    return found


def _broadcast(fun, row, args, kwargs):
    """Apply an elementwise function, unless its row does not fit these arguments."""
    if row.fits is not None and not row.fits(*args, **kwargs):
        raise NotBatchable
    names = {"a_min": 1, "a_max": 2, **registry.positions.get(fun, {})}
    given = {names[name]: x for name, x in kwargs.items() if name in names}
    args = [*args, *[None] * (1 + max(given, default=-1) - len(args))]
    for i, x in given.items():
        args[i] = x
    return _elementwise(fun, args, {name: x for name, x in kwargs.items() if name not in names})


def _along_axes(fun, row, args, kwargs):
    """Apply a reduction, or a function along an axis, with the axis shifted by the batch axis."""
    x, *rest = args
    position, default = row.dependence
    is_masked = kwargs.get("where", True) is not True
    if not isinstance(x, Batch) or is_masked or any(isinstance(y, (Batch, np.ndarray)) for y in rest):
        raise NotBatchable
    is_given = len(rest) >= position
    axis = rest[position - 1] if is_given else kwargs.get("axis", default)
    keepdims = kwargs.get("keepdims", False)
    is_kept = keepdims is not np._NoValue and keepdims
    v = np.reshape(x.v, (len(x.v), -1)) if axis is None else x.v
    kwargs = {name: y for name, y in kwargs.items() if name not in ("axis", "keepdims", "where")}
    shifted = 1 if axis is None else _shifted_axis(axis, x.ndim)
    if is_given:
        rest[position - 1] = shifted
    else:
        kwargs["axis"] = shifted
    if is_kept and axis is not None:
        kwargs["keepdims"] = True
    found = fun(v, *rest, **kwargs)
    return np.reshape(found, (len(v),) + (1,) * x.ndim) if is_kept and axis is None else found


def _matrixwise(fun, row, args, kwargs):
    if len(args) > 1 or kwargs:
        raise NotBatchable
    return fun(args[0].v)


def _systems(fun, row, args, kwargs):
    """Solve linear systems, each with one right-hand side or several."""
    a, b = args
    if not all(1 <= d <= 2 for d in (np.ndim(a), np.ndim(b))):
        raise NotBatchable
    left, right = _array(a), _array(b)
    return fun(left, right) if np.ndim(b) == 2 else fun(left, right[..., None])[..., 0]


def _product(fun, row, args, kwargs):
    """Multiply vectors and matrices."""
    a, b = args
    dims = np.ndim(a), np.ndim(b)
    if not all(1 <= d <= 2 for d in dims):
        raise NotBatchable
    left, right = _array(a), _array(b)
    if not isinstance(b, Batch) and dims == (2, 2):  # one product with all rows, faster than a batched one
        return np.reshape(np.matmul(np.reshape(left, (-1, left.shape[-1])), right), (*left.shape[:-1], -1))
    if not isinstance(a, Batch) and dims == (2, 1):
        return np.matmul(right, np.transpose(left))
    left = left[..., None, :] if dims[0] == 1 else left
    right = right[..., None] if dims[1] == 1 else right
    found = np.matmul(left, right)
    found = found[..., 0] if dims[1] == 1 else found
    return found[..., 0, :] if dims == (1, 2) else found[..., 0] if dims == (1, 1) else found


#: implementations by dependence pattern: (function, row, args, kwargs) -> array with a leading batch axis
_BY_PATTERN = {
    Elementwise: _broadcast,
    Reduced: _along_axes,
    Along: _along_axes,
    Cumulative: _along_axes,
    MATRIXWISE: _matrixwise,
    SYSTEMS: _systems,
    Contraction: _product,
}
