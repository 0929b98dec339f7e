"""Functions written in terms of others: each body gives the values of NumPy's own, bit for bit."""

import functools

import numpy as np

from wengert import registry
from wengert.registry import composed, structural
from wengert.rules.broadcasting import aligned, front, gathered, numbers


def _block(arrays):
    """Join the innermost lists along the last axis, those around them along the last but one, and so on."""
    depth = _depth(arrays)
    ndim = max(depth, *[np.ndim(leaf) for leaf in _leaves(arrays)])

    def join(item, level):
        if not isinstance(item, list):
            return np.reshape(item, (1,) * (ndim - np.ndim(item)) + np.shape(item))
        return np.concatenate([join(part, level + 1) for part in item], axis=level - depth)

    return join(arrays, 0)


def _depth(item):
    return 1 + max((_depth(part) for part in item), default=0) if isinstance(item, list) else 0


def _leaves(item):
    if isinstance(item, list):
        for part in item:
            yield from _leaves(part)
    else:
        yield item


def _copyto(dst, src, casting="same_kind", where=True):
    dst[...] = src if where is True else np.where(where, src, dst)


def _fill_diagonal(a, val, wrap=False):
    if np.ndim(a) != 2 or wrap:
        raise TypeError(
            "numpy.fill_diagonal of a traced array: two axes and wrap=False only; write a[i, i] = val"
        )
    i = np.arange(min(np.shape(a)))
    a[i, i] = val


def _meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    arrays = [np.reshape(x, (1,) * i + (-1,) + (1,) * (len(xi) - 1 - i)) for i, x in enumerate(xi)]
    if indexing == "xy" and len(xi) > 1:
        arrays = [np.swapaxes(x, 0, 1) for x in arrays]
    if not sparse:
        arrays = list(np.broadcast_arrays(*arrays))
    return tuple(np.copy(x, order="C") for x in arrays) if copy else tuple(arrays)


def _broadcast_arrays(*args, subok=False):
    shape = np.broadcast_shapes(*[np.shape(x) for x in args])
    return tuple(np.broadcast_to(x, shape) for x in args)


def _at_least(ndim):
    """``atleast_1d`` and its relatives, of one array or of several: a vector becomes a row."""

    def reshaped(x):
        n = np.ndim(x)
        if n >= ndim:
            return as_array(x)
        before = int(n == 1)
        return np.reshape(x, (1,) * before + np.shape(x) + (1,) * (ndim - n - before))

    def body(*arys):
        parts = tuple(reshaped(x) for x in arys)
        return parts[0] if len(parts) == 1 else parts

    return body


def _select(condlist, choicelist, default=0):
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        result = np.where(condition, choice, result)
    return result


def _polyval(p, x):
    y = np.zeros_like(x)
    for coefficient in as_array(p):
        y = y * x + coefficient
    return y


def _nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    x = as_array(x)
    limits = np.finfo(x.dtype)
    y = np.where(np.isnan(x), nan, x)
    y = np.where(np.isposinf(x), limits.max if posinf is None else posinf, y)
    y = np.where(np.isneginf(x), limits.min if neginf is None else neginf, y)
    y = of_dtype(y, x.dtype)
    if copy or np.ndim(x) == 0:
        return y if np.ndim(x) else y[()]
    x[...] = y
    return x


def as_array(x):
    """A number, or a list or tuple of which items may be traced, as an array; arrays as they are."""
    if isinstance(x, (list, tuple)):
        return np.stack([as_array(item) for item in x])
    return x if hasattr(x, "dtype") else np.asarray(x)


def of_dtype(x, dtype):
    return x if x.dtype == dtype else x.astype(dtype)


def _trapezoid(y, x=None, dx=1.0, axis=-1):
    y = np.moveaxis(as_array(y), axis, -1)
    if x is not None:
        x = as_array(x)
        dx = np.diff(x) if np.ndim(x) == 1 else np.diff(np.moveaxis(x, axis, -1))
    return np.sum(dx * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)


composed(np.block, _block)
composed(np.copyto, _copyto)
composed(np.fill_diagonal, _fill_diagonal)
composed(np.meshgrid, _meshgrid)
composed(np.broadcast_arrays, _broadcast_arrays)
composed(np.atleast_1d, _at_least(1))
composed(np.atleast_2d, _at_least(2))
composed(np.atleast_3d, _at_least(3))
composed(np.select, _select)
composed(np.trapezoid, _trapezoid)
composed(np.nan_to_num, _nan_to_num)
composed(np.polyval, _polyval)
composed(np.divmod, lambda x1, x2: (np.floor_divide(x1, x2), np.remainder(x1, x2)))


# ------------------------------------------------------------------------------------------ functions of our own


def offered(fun):
    """`fun`, which is not NumPy's, offered to its operands first as NumPy offers its own functions to them.

    So a function that only rules and bodies call may have a row.
    """

    @functools.wraps(fun)
    def offering(*args, **kwargs):
        carriers = [x for x in args if type(x) is not np.ndarray and hasattr(x, "__array_function__")]
        types = tuple({type(x): None for x in carriers})
        for x in carriers:
            y = x.__array_function__(offering, types, args, kwargs)
            if y is not NotImplemented:
                return y
        return fun(*args, **kwargs)

    return offering


# ------------------------------------------------------------------------------------------ ufunc.at


@offered
def scatter_add(a, indices, b):
    """A copy of `a` to which `b` was added at `indices`, repeated ones included."""
    y = np.array(a)
    np.add.at(y, indices, b)
    return y


def places_of(indices, y):
    """Number of each element that is picked, in the flattened array."""
    return numbers(y)[indices] - 1


def picked(ybar, y, a, indices, b):
    """What was added at each place."""
    return np.take(np.reshape(ybar, (*front(ybar, y), np.size(y))), places_of(indices, y), axis=-1)


def push_added(t, y, a, indices, b):
    places = places_of(indices, y)
    spread = np.broadcast_to(aligned(t, b, np.ndim(places)), front(t, b) + np.shape(places))
    return np.reshape(gathered(spread, places, np.size(y)), front(t, b) + np.shape(y))


structural(
    scatter_add,
    lambda ybar, y, a, indices, b: ybar,
    None,
    picked,
    jvp=(lambda t, y, a, indices, b: t, None, push_added),
    stacked=True,
    curvature="none",
)


def _add_at(a, indices, b):
    a[...] = scatter_add(a, indices, b)


def _subtract_at(a, indices, b):
    a[...] = scatter_add(a, indices, np.negative(b))


for ufunc, body in ((np.add, _add_at), (np.subtract, _subtract_at)):
    registry.ufunc_methods[(ufunc, "at")] = body
    composed(body, body)
