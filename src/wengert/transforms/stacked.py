"""Batches in place of arrays: one call of a NumPy function for all elements, where it broadcasts.

A `Batch` holds the arrays of all elements along a first axis that the function does not see.
Elementwise functions, reductions, products and solvers take all of them at once, other functions one after the other.
What cannot be told of all elements at once, such as a branch on a value, ends the attempt with `Apart`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np

from wengert import registry
from wengert.core import levels
from wengert.core.dispatch import arguments
from wengert.core.dispatch.lifted import Lifted, holds_lifted


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

    def _leave(self, where):
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


def takes_all(fun: Callable) -> bool:
    """Is one call of a function enough for all elements?"""
    return fun in RULES or (isinstance(fun, np.ufunc) and fun.signature is None and fun.nout == 1)


def apply(fun: Callable, args: tuple, kwargs: dict):
    """A function of batches and constants."""
    if holds_lifted(tuple(kwargs.values())):
        raise Apart
    size = len(_batches(args)[0].v)
    rule = RULES.get(fun)
    if rule is not None:
        found = rule(size, *args, **kwargs)
    elif fun in _LIKE:
        return Maker(size).made(fun(*_element(args, 0), **kwargs))
    elif isinstance(fun, np.ufunc) and fun.signature is None and fun.nout == 1:
        found = _elementwise(fun, args, kwargs)
    else:
        row = registry.lookup(fun)
        if row is not None and row.static:
            return fun(*_element(args, 0), **kwargs)
        if row is None or row.kind == "view" or fun in _WRITING:
            raise Apart
        found = _each(fun, args, kwargs, size)
    return Batch(found)


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


#: rules by function: (size of the batch, *args, **kwargs) -> array with the batch first
RULES: dict[Callable, Callable] = {}

_LIKE = frozenset((np.zeros_like, np.empty_like, np.ones_like))
_WRITING = frozenset((np.copyto, np.put, np.putmask, np.place, np.fill_diagonal, np.put_along_axis))


def _reduction(fun, axis=None):
    def reduced(size, x, axis=axis, keepdims=False, **kwargs):
        v = x.v
        if axis is None:
            v, axis = np.reshape(v, (size, -1)), 1
            found = fun(v, axis=axis, **kwargs)
            return np.reshape(found, (size,) + (1,) * x.ndim) if keepdims and keepdims is not np._NoValue else found
        if keepdims and keepdims is not np._NoValue:
            kwargs["keepdims"] = True
        return fun(v, axis=_behind(axis, x.ndim), **kwargs)

    RULES[fun] = reduced


for _fun in (np.sum, np.prod, np.mean, np.max, np.min, np.amax, np.amin, np.any, np.all, np.std, np.var, np.median):
    _reduction(_fun)
for _fun in (np.argmax, np.argmin, np.cumsum, np.cumprod):
    _reduction(_fun)
for _fun in (np.sort, np.argsort):
    _reduction(_fun, -1)


def rule(*funs):
    def declare(body):
        RULES.update(dict.fromkeys(funs, body))
        return body

    return declare


@rule(np.where)
def _where(size, *args):
    if len(args) != 3:
        raise Apart
    return _elementwise(np.where, args, {})


@rule(np.clip)
def _clip(size, x, a_min=None, a_max=None, *, min=None, max=None):
    return _elementwise(np.clip, (x, a_min if min is None else min, a_max if max is None else max), {})


@rule(np.linalg.norm)
def _norm(size, x, ord=None, axis=None, keepdims=False):
    if ord is not None or axis is not None or keepdims:
        raise Apart
    return np.sqrt(np.sum(np.square(np.reshape(x.v, (size, -1))), axis=1))


@rule(registry.strong)
def _strong(size, a, b):
    return _elementwise(registry.strong, (a, b), {})


@rule(np.vdot)
def _vdot(size, a, b):
    left, right = [np.reshape(_array(x), (size if isinstance(x, Batch) else 1, -1)) for x in (a, b)]
    left = np.conj(left) if left.dtype.kind == "c" else left
    return np.sum(left * right, axis=1)


@rule(np.matmul, np.dot)
def _matmul(size, a, b):
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


@rule(np.linalg.solve)
def _solve(size, a, b):
    if not all(1 <= d <= 2 for d in (np.ndim(a), np.ndim(b))):
        raise Apart
    left, right = _array(a), _array(b)
    return np.linalg.solve(left, right) if np.ndim(b) == 2 else np.linalg.solve(left, right[..., None])[..., 0]


for _fun in (np.linalg.inv, np.linalg.det, np.linalg.cholesky, np.linalg.eigvalsh):
    RULES[_fun] = lambda size, a, fun=_fun: fun(a.v)


def _transform(fun):
    def transformed(size, a, n=None, axis=-1, norm=None, out=None):
        if out is not None:
            raise Apart
        return fun(a.v, n, _behind(axis, a.ndim), norm)

    RULES[fun] = transformed


for _fun in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.irfft):
    _transform(_fun)


# ---- shapes: views of an element are views of the batch


@rule(np.reshape)
def _reshape(size, x, shape, order="C"):
    if order != "C":
        raise Apart
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    inner = x.size
    known = int(np.prod([d for d in shape if d != -1], dtype=int))
    if (-1 in shape and (not known or inner % known)) or (-1 not in shape and known != inner):
        raise Apart  # its own error
    return np.reshape(x.v, (size, *[inner // known if d == -1 else d for d in shape]))


@rule(np.ravel)
def _ravel(size, x, order="C"):
    return _reshape(size, x, x.size, order)


@rule(np.transpose)
def _transpose(size, x, axes=None):
    axes = tuple(range(x.ndim))[::-1] if axes is None else tuple(axes)
    return np.transpose(x.v, (0, *_behind(axes, x.ndim)))


@rule(np.swapaxes)
def _swapaxes(size, x, axis1, axis2):
    return np.swapaxes(x.v, _behind(axis1, x.ndim), _behind(axis2, x.ndim))


@rule(np.expand_dims)
def _expand_dims(size, x, axis):
    if isinstance(axis, tuple):
        raise Apart
    return np.expand_dims(x.v, _behind(axis, x.ndim + 1))


@rule(np.copy)
def _copy(size, x, order="K"):
    return np.copy(x.v)


@rule(np.broadcast_to)
def _broadcast_to(size, x, shape):
    shape = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    return np.broadcast_to(_aligned(x, len(shape)), (size, *shape))


def _of_sequence(fun, new):
    """A function that joins arrays along an axis; `new` is 1 where that is an axis they do not have."""

    def joined(size, arrays, axis=0):
        if axis is None:
            raise Apart
        parts = [x.v if isinstance(x, Batch) else np.broadcast_to(x, (size, *np.shape(x))) for x in arrays]
        return fun(parts, axis=_behind(axis, max(1, np.ndim(parts[0]) - 1 + new)))

    RULES[fun] = joined


_of_sequence(np.concatenate, 0)
_of_sequence(np.stack, 1)
