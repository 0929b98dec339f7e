"""Batches in place of arrays: one call of a NumPy function for all elements, where it broadcasts.

A `Batch` holds the arrays of all elements along a first axis that the function does not see.
Ufuncs, and functions whose row states `batching`, take all elements in one call; others are called for each element.
A question that has no single answer for all elements, such as a branch on a value, ends the attempt with `Apart`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from wengert import registry
from wengert.core import levels
from wengert.core.dispatch import arguments, dispatch
from wengert.core.dispatch.lifted import LIKE, Lifted, holds_lifted
from wengert.dependence import MATRIXWISE, SYSTEMS, Along, Contraction, Cumulative, Elementwise, Reduced


class Apart(BaseException):
    """Signals that a batch must be run element by element. Not an `Exception`, so that `f` cannot catch it.

    Code in C may put another error in its place, so it is noted, too.
    """

    def __init__(self):
        super().__init__()
        for holder in levels.holders():
            if isinstance(holder, Maker):
                holder.is_apart = True


class Batch(Lifted):
    """An array for each element of a batch; in `v` they lie along the first axis."""

    __slots__ = ("v",)
    what = "a batch"

    def __init__(self, v):
        self.v = v

    @property
    def __class__(self):
        """A function that asks may go another way for arrays than for numbers."""
        if sys._getframe(1).f_globals.get("__name__", "").startswith("wengert."):
            return Batch
        raise Apart

    @property
    def shape(self):
        return np.shape(self.v)[1:]

    @property
    def dtype(self):
        return self.v.dtype

    def _raise_unsupported(self, where):
        raise Apart

    def __bool__(self):
        raise Apart

    def __index__(self):
        if self.ndim or self.dtype.kind not in "iu":
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        raise Apart

    def __repr__(self):
        raise Apart

    def __format__(self, spec):
        raise Apart

    def _call(self, fun, args, kwargs):
        with levels.lifting(None):
            return apply(fun, args, kwargs)

    def _sample(self):
        return np.zeros(self.shape, dtype=self.dtype)[()]

    def _item(self, key):
        v = self.v[_key(key)]
        is_number = np.ndim(v) == 1 and not any(part is Ellipsis for part in (key if type(key) is tuple else (key,)))
        return Batch(np.copy(v) if is_number else v)  # a number is no view

    def _store(self, key, value):
        key = _key(key)
        if isinstance(value, (list, tuple)) and holds_lifted(value):
            value = _joined(value)
        self.v[key] = _aligned(value, np.ndim(self.v[key]) - 1) if isinstance(value, Batch) else value

    def astype(self, dtype, copy=True, **options):
        if not copy and self.dtype == dtype:
            return self
        if np.dtype(dtype).kind not in "biufc":
            raise Apart
        return Batch(self.v.astype(dtype))


class Maker:
    """What makes arrays while a function runs on batches."""

    refused = spelled = None  # errors that were noted, see `wengert.core.levels.remember`
    is_apart = False  # must it be run element by element?

    def __init__(self, size: int):
        self.size = size

    def made(self, array):
        """A new array for each element, into which batches may be stored."""
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "fc":
            return array
        v = np.repeat(array[None], self.size, axis=0)
        return Batch(arguments.clean(v) if levels.is_tracing() else v)

    def enclose(self, name):
        """A Taylor series of each element."""
        raise Apart

    def array(self, x):
        return np.copy(x) if isinstance(x, Batch) else _joined(x)


def _joined(x):
    return np.stack([_joined(item) if isinstance(item, (list, tuple)) else item for item in x])


def _key(key):
    """An index behind the axis of the batch."""
    parts = key if type(key) is tuple else (key,)
    if holds_lifted(parts):
        raise Apart
    chosen = [i for i, part in enumerate(parts) if not (part is None or part is Ellipsis or isinstance(part, slice))]
    has_arrays = any(isinstance(parts[i], (np.ndarray, list)) for i in chosen)
    if has_arrays and chosen[-1] - chosen[0] >= len(chosen):
        raise Apart  # NumPy would put the axes of the indices in front
    return (slice(None), *parts)


def _array(x):
    """The arrays of all elements, or the one of a constant, which may be traced."""
    return x.v if isinstance(x, Batch) else np.asarray(x) if isinstance(x, (list, tuple)) else x


def _aligned(x, ndim):
    """A batch with axes of length 1 behind the first, so that it broadcasts as its elements do."""
    if not isinstance(x, Batch):
        return x
    return np.reshape(x.v, np.shape(x.v)[:1] + (1,) * (ndim - x.ndim) + x.shape)


def _behind(axis, ndim):
    """Axes of elements of so many axes as those of the batch; of wrong ones each element has its own error."""
    if isinstance(axis, tuple):
        return tuple([_behind(a, ndim) for a in axis])
    if not -ndim <= axis < ndim:
        raise Apart
    return axis % ndim + 1


# ---- functions


def takes_all(row: registry.Primitive) -> bool:
    """Whether one call of a function serves all elements."""
    return row.batching is not None or row.fun is registry.strong or _is_ufunc(row.fun)


def _is_ufunc(fun):
    return isinstance(fun, np.ufunc) and fun.signature is None and fun.nout == 1


def apply(fun: Callable, args: tuple, kwargs: dict):
    """A function of batches and constants."""
    if holds_lifted(tuple(kwargs.values())):
        raise Apart
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
    if row is None or row.kind == "view" or fun in dispatch.STORES:
        raise Apart
    return Batch(_each(fun, args, kwargs, size))


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


def _each(fun, args, kwargs, size):
    """A function of each element in turn."""
    found = [fun(*_element(args, i), **kwargs) for i in range(size)]
    if any(isinstance(y, (list, tuple, str)) for y in found) or len({np.shape(y) for y in found}) > 1:
        raise Apart
    return np.stack(found)


# ---- one call for all elements


def _at_once(fun, row, size, args, kwargs):
    """A function whose row states how one call serves a batch."""
    if kwargs.get("out") is not None:
        raise Apart
    if callable(row.batching):
        found = row.batching(*_with_batch_axis(row, size, args), **kwargs)
        if found is None:
            raise Apart
        return found
    pattern = row.dependence
    return _BY_PATTERN[pattern if type(pattern) is str else type(pattern)](fun, row, args, kwargs)


def _with_batch_axis(row, size, args):
    """Arguments with the axis of the batch in front, of length 1 where an operand is the same for all."""
    if row.sequence:
        parts = [x.v if isinstance(x, Batch) else np.broadcast_to(x, (size, *np.shape(x))) for x in args[0]]
        return parts, *args[1:]
    operands = row.vjps or (0,)
    found = [x.v if isinstance(x, Batch) else _array(x)[None] if i in operands else x for i, x in enumerate(args)]
    if holds_lifted(found):
        raise Apart
    return found


def _broadcast(fun, row, args, kwargs):
    """Element by element; a choice is none with another number of arguments."""
    if row.fits is not None and not row.fits(*args, **kwargs):
        raise Apart
    names = {"a_min": 1, "a_max": 2, **registry.positions.get(fun, {})}
    given = {names[name]: x for name, x in kwargs.items() if name in names}
    args = [*args, *[None] * (1 + max(given, default=-1) - len(args))]
    for i, x in given.items():
        args[i] = x
    return _elementwise(fun, args, {name: x for name, x in kwargs.items() if name not in names})


def _along_axes(fun, row, args, kwargs):
    """A reduction, or a function along an axis: that of an element is one further in the batch."""
    x, *rest = args
    position, default = row.dependence
    is_masked = kwargs.get("where", True) is not True
    if not isinstance(x, Batch) or is_masked or any(isinstance(y, (Batch, np.ndarray)) for y in rest):
        raise Apart
    is_given = len(rest) >= position
    axis = rest[position - 1] if is_given else kwargs.get("axis", default)
    keepdims = kwargs.get("keepdims", False)
    is_kept = keepdims is not np._NoValue and keepdims
    v = np.reshape(x.v, (len(x.v), -1)) if axis is None else x.v
    kwargs = {name: y for name, y in kwargs.items() if name not in ("axis", "keepdims", "where")}
    shifted = 1 if axis is None else _behind(axis, x.ndim)
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
        raise Apart
    return fun(args[0].v)


def _systems(fun, row, args, kwargs):
    """Linear systems, each with one right-hand side or several."""
    a, b = args
    if not all(1 <= d <= 2 for d in (np.ndim(a), np.ndim(b))):
        raise Apart
    left, right = _array(a), _array(b)
    return fun(left, right) if np.ndim(b) == 2 else fun(left, right[..., None])[..., 0]


def _product(fun, row, args, kwargs):
    """A product of vectors and matrices."""
    a, b = args
    dims = np.ndim(a), np.ndim(b)
    if not all(1 <= d <= 2 for d in dims):
        raise Apart
    left, right = _array(a), _array(b)
    if not isinstance(b, Batch) and dims == (2, 2):  # the rows of all elements times one matrix
        return np.reshape(np.matmul(np.reshape(left, (-1, left.shape[-1])), right), (*left.shape[:-1], -1))
    if not isinstance(a, Batch) and dims == (2, 1):
        return np.matmul(right, np.transpose(left))
    left = left[..., None, :] if dims[0] == 1 else left
    right = right[..., None] if dims[1] == 1 else right
    found = np.matmul(left, right)
    found = found[..., 0] if dims[1] == 1 else found
    return found[..., 0, :] if dims == (1, 2) else found[..., 0] if dims == (1, 1) else found


#: by dependence pattern: (function, row, args, kwargs) -> array with the axis of the batch first
_BY_PATTERN = {
    Elementwise: _broadcast,
    Reduced: _along_axes,
    Along: _along_axes,
    Cumulative: _along_axes,
    MATRIXWISE: _matrixwise,
    SYSTEMS: _systems,
    Contraction: _product,
}
