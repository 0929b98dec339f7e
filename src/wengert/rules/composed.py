"""NumPy functions composed of other NumPy functions; each body returns the same values as NumPy's, bit for bit."""

import functools
import sys

import numpy as np
from numpy.lib.array_utils import normalize_axis_index

from wengert import registry
from wengert.errors import UnsupportedFunctionError
from wengert.registry import analytic, composed, constant
from wengert.rules.broadcasting import take_elements
from wengert.rules.shapes import moved_axis, ndim_of, raveled, reshaped, shape_of, swapped_axes
from wengert.rules.taylor import COEFFICIENTWISE


@composed(np.block)
def _block(arrays):
    """Join the innermost lists along the last axis, the next enclosing level along the axis before it, and so on."""
    depth = _depth(arrays)
    ndim = max(depth, *[ndim_of(leaf) for leaf in _leaves(arrays)])

    def join(item, level):
        if not isinstance(item, list):
            return reshaped(item, (1,) * (ndim - ndim_of(item)) + shape_of(item))
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


@composed(np.copyto, watch="store")
def _copyto(dst, src, casting="same_kind", where=True):
    dst[...] = src if where is True else np.where(where, src, dst)


@composed(np.fill_diagonal, watch="store")
def _fill_diagonal(a, val, wrap=False):
    shape = shape_of(a)
    if len(shape) < 2 or (len(shape) > 2 and len(set(shape)) > 1):
        raise ValueError("array must be at least 2-d, and all dimensions of input must be of equal length")
    step = 1 + sum(np.cumprod(shape[:0:-1]).tolist())
    stop = None if len(shape) > 2 or wrap else shape[1] ** 2
    a.flat[:stop:step] = val


def store(a, places, values):
    """Store values, repeated cyclically to the length of `places`, at `places` of the flattened array."""
    if ndim_of(values) and shape_of(values) != shape_of(places):
        values = np.resize(values, shape_of(places))
    a = a if ndim_of(a) else reshaped(a, 1)  # a view
    a[np.unravel_index(places, shape_of(a))] = values


@composed(np.put, watch="store")
def _put(a, ind, v, mode="raise"):
    n, places = np.size(a), raveled(ind)
    if places.dtype.kind not in "biu":
        raise TypeError("numpy.put: ind must hold integers; convert it with ind.astype(int)")
    if mode == "raise":
        places = take_elements(np.arange(n), places)
    else:
        places = np.mod(places, n) if mode == "wrap" else np.clip(places, 0, n - 1)
    store(a, places, as_array(v))


@composed(np.putmask, watch="store")
def _putmask(a, mask, values):
    values = as_array(values)
    a[...] = np.where(mask, np.resize(values, shape_of(a)) if ndim_of(values) else values, a)


@composed(np.place, watch="store")
def _place(arr, mask, vals):
    places = np.flatnonzero(mask)
    if len(places):
        store(arr, places, as_array(vals))


@composed(np.put_along_axis, watch="store")
def _put_along_axis(arr, indices, values, axis):
    if axis is None:
        return store(arr, take_elements(np.arange(np.size(arr)), indices), values)
    axis = normalize_axis_index(axis, ndim_of(arr))
    index = list(np.ogrid[tuple(slice(n) for n in shape_of(arr))])
    index[axis] = indices
    arr[tuple(index)] = values


@composed(np.meshgrid)
def _meshgrid(*xi, copy=True, sparse=False, indexing="xy"):
    arrays = [reshaped(as_array(x), (1,) * i + (-1,) + (1,) * (len(xi) - 1 - i)) for i, x in enumerate(xi)]
    if indexing == "xy" and len(xi) > 1:
        arrays = [swapped_axes(x, 0, 1) for x in arrays]
    if not sparse:
        arrays = list(np.broadcast_arrays(*arrays))
    return tuple(np.copy(x, order="C") for x in arrays) if copy else tuple(arrays)


@composed(np.broadcast_arrays)
def _broadcast_arrays(*args, subok=False):
    args = [as_array(x) for x in args]
    shape = np.broadcast_shapes(*[shape_of(x) for x in args])
    return tuple(np.broadcast_to(x, shape) for x in args)


def _at_least(ndim):
    """Body of ``atleast_1d``, ``atleast_2d`` or ``atleast_3d``, for one array or several: a 1-D array becomes a row."""

    def extended(x):
        x = as_array(x)
        n = ndim_of(x)
        if n >= ndim:
            return x
        before = int(n == 1)
        return reshaped(x, (1,) * before + shape_of(x) + (1,) * (ndim - n - before))

    def body(*arys):
        parts = tuple(extended(x) for x in arys)
        return parts[0] if len(parts) == 1 else parts

    return body


@composed(np.select)
def _select(condlist, choicelist, default=0):
    result = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        choice = as_array(choice) if isinstance(choice, (list, tuple)) else choice
        result = np.where(condition, choice, result)
    return result


registry.facts(np.select, options={"default": lambda default, *args: _select(*args, default)})


@composed(np.piecewise)
def _piecewise(x, condlist, funclist, *args, **kw):
    x = as_array(x)
    of_x, is_number = shape_of(x), ndim_of(x) == 0
    if ndim_of(condlist) == 0 or (not isinstance(condlist[0], (list, np.ndarray)) and not is_number):
        condlist = [condlist]
    shape = shape_of(x) or (1,)
    conditions = [reshaped(np.not_equal(as_array(condition), 0), shape) for condition in condlist]
    if len(conditions) == len(funclist) - 1:
        conditions.append(~functools.reduce(np.logical_or, conditions))
    if len(conditions) != len(funclist):
        n = len(conditions)
        raise ValueError(f"with {n} condition(s), either {n} or {n + 1} functions are expected")
    x = reshaped(x, shape)
    y = np.zeros_like(x)
    for condition, function in zip(conditions, funclist):
        if callable(function):
            if not np.any(condition):
                continue
            found = np.broadcast_to(as_array(function(x[condition], *args, **kw)), np.sum(condition))
            if type(x) is not np.ndarray:  # y is traced like x, so it can be stored to through the mask
                y[condition] = as_dtype(found, x.dtype)
                continue
            places = reshaped(np.cumsum(condition) - 1, shape)  # no store: y may be plain although `found` is traced
            function = take_elements(found, np.maximum(places, 0))
        y = as_dtype(np.where(condition, function, y), x.dtype)
    return reshaped(y, of_x)


@composed(np.choose)
def _choose(a, choices, out=None, mode="raise"):
    index = as_array(a)
    choices = [as_array(choice) for choice in choices]
    if index.dtype.kind not in "biu":
        raise TypeError("numpy.choose: the index array must hold integers; convert it with a.astype(int)")
    if mode == "raise":
        if np.any((index < 0) | (index >= len(choices))):
            raise ValueError("invalid entry in choice array")
    else:
        index = np.mod(index, len(choices)) if mode == "wrap" else np.clip(index, 0, len(choices) - 1)
    y = choices[-1]
    for i, choice in enumerate(choices[:-1]):
        y = np.where(index == i, choice, y)
    return y[()] if len(choices) > 1 else np.broadcast_to(y, np.broadcast_shapes(shape_of(y), shape_of(index))) + 0.0


@composed(np.apply_along_axis)
def _apply_along_axis(func1d, axis, arr, *args, **kwargs):
    arr = as_array(arr)
    axis = normalize_axis_index(axis, ndim_of(arr))
    moved = moved_axis(arr, axis, -1)
    lines = [as_array(func1d(moved[i], *args, **kwargs)) for i in np.ndindex(*shape_of(moved)[:-1])]
    if not lines:
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    y = reshaped(np.stack(lines), shape_of(moved)[:-1] + shape_of(lines[0]))
    rest, own = ndim_of(moved) - 1, ndim_of(lines[0])
    return np.transpose(y, (*range(axis), *range(rest, rest + own), *range(axis, rest)))


@composed(np.apply_over_axes)
def _apply_over_axes(func, a, axes):
    y = as_array(a)
    n = ndim_of(y)
    for axis in np.atleast_1d(axes):
        axis = normalize_axis_index(axis, n)
        z = func(y, axis)
        y = z if ndim_of(z) == n else np.expand_dims(z, axis)
        if ndim_of(y) != n:
            raise ValueError("function is not returning an array of the correct shape")
    return y


@composed(np.trim_zeros)
def _trim_zeros(filt, trim="fb"):
    filt = as_array(filt)
    if ndim_of(filt) != 1:
        raise TypeError("numpy.trim_zeros supports traced arrays with one axis only; write a slice instead")
    places = np.flatnonzero(filt)
    start, stop = (places[0], places[-1] + 1) if len(places) else (len(filt), len(filt))
    trim = trim.lower()
    return filt[start if "f" in trim else 0 : stop if "b" in trim or ("f" in trim and not len(places)) else len(filt)]


@composed(np.modf)
def _modf(x):
    """Take the fraction from ``fmod``, which keeps the sign of zero; infinities have fraction 0."""
    x = as_array(x)
    fraction = np.where(np.isinf(x), np.copysign(0.0, x), np.fmod(x, 1.0))
    return as_dtype(fraction, x.dtype)[()], np.trunc(x)


@composed(np.nan_to_num)
def _nan_to_num(x, copy=True, nan=0.0, posinf=None, neginf=None):
    x = as_array(x)
    if x.dtype.kind == "c":
        y = reshaped(np.copy(x), shape_of(x)) if copy or ndim_of(x) == 0 else x
        y.real, y.imag = (_nan_to_num(part, True, nan, posinf, neginf) for part in (x.real, x.imag))
        return y if ndim_of(x) else y[()]
    limits = np.finfo(x.dtype)
    y = np.where(np.isnan(x), nan, x)
    y = np.where(np.isposinf(x), limits.max if posinf is None else posinf, y)
    y = np.where(np.isneginf(x), limits.min if neginf is None else neginf, y)
    y = as_dtype(y, x.dtype)
    if copy or ndim_of(x) == 0:
        return y if ndim_of(x) else y[()]
    x[...] = y
    return x


def as_array(x):
    """Convert a scalar, or a list or tuple with traced items, to an array; return an array itself."""
    if isinstance(x, (list, tuple)):
        return np.stack([as_array(item) for item in x])
    return x if hasattr(x, "dtype") else np.copy(x)  # unlike numpy.asarray, numpy.copy accepts traced floats


def as_dtype(x, dtype):
    return x if x.dtype == dtype else x.astype(dtype)


@composed(np.trapezoid)
def _trapezoid(y, x=None, dx=1.0, axis=-1):
    y = as_array(y)
    after, before, along = [slice(None)] * ndim_of(y), [slice(None)] * ndim_of(y), [1] * ndim_of(y)
    after[axis], before[axis], along[axis] = slice(1, None), slice(None, -1), -1
    if x is not None:
        x = as_array(x)
        dx = reshaped(np.diff(x), along) if ndim_of(x) == 1 else np.diff(x, axis=axis)
    return np.sum(dx * (y[tuple(after)] + y[tuple(before)]) / 2.0, axis=axis)


def complex_outside(fun, is_outside):
    """Body of a function of ``numpy.emath``, which makes a real operand complex where it has no real value."""

    def body(x):
        x = as_array(x)
        return fun(as_complex(x) if x.dtype.kind != "c" and np.any(is_outside(x)) else x)

    return body


def as_complex(x):
    return x.astype(np.complex64 if x.dtype == np.float32 else np.complex128)


def is_negative(x):
    return np.less(x, 0)


@composed(np.emath.power)
def _emath_power(x, p):
    x, p = as_array(x), as_array(p)
    if x.dtype.kind != "c" and np.any(is_negative(x)):
        x = as_complex(x)
    return np.power(x, p * 1.0 if p.dtype.kind == "i" and np.any(is_negative(p)) else p)


def _is_called_by_scipy():
    """Return whether SciPy makes the current call; its functions do not write into windows they request."""
    frame = sys._getframe(1)
    while frame is not None:
        package = frame.f_globals.get("__name__", "").partition(".")[0]
        if package not in ("numpy", "wengert"):
            return package == "scipy"
        frame = frame.f_back
    return False


@composed(np.lib.stride_tricks.sliding_window_view, taylor=COEFFICIENTWISE)
def _sliding_window_view(x, window_shape, axis=None, *, subok=False, writeable=False):
    if writeable and not _is_called_by_scipy():
        raise UnsupportedFunctionError(
            "numpy.lib.stride_tricks.sliding_window_view of a traced array cannot be written to: leave out "
            "writeable=True, and write to the array itself, which the windows follow"
        )
    places = np.lib.stride_tricks.sliding_window_view(np.arange(np.size(x)).reshape(shape_of(x)), window_shape, axis)
    windows = np.take(raveled(x), places)
    registry.note_windows(x, places, windows)
    return windows


for name in ("sqrt", "log", "log2", "log10"):
    composed(getattr(np.emath, name), complex_outside(getattr(np, name), is_negative), on_complex=True)
for name in ("arcsin", "arccos", "arctanh"):
    is_beyond_one = lambda x: np.greater(np.abs(x), 1)
    composed(getattr(np.emath, name), complex_outside(getattr(np, name), is_beyond_one), on_complex=True)
composed(np.emath.logn, lambda n, x: np.emath.log(x) / np.emath.log(n))
analytic(np.lib.stride_tricks.sliding_window_view, np.emath.logn, np.emath.power)
composed(np.atleast_1d, _at_least(1))
composed(np.atleast_2d, _at_least(2))
composed(np.atleast_3d, _at_least(3))
composed(np.divmod, lambda x1, x2: (np.floor_divide(x1, x2), np.remainder(x1, x2)))


# ---- functions that only rules and bodies call


def overrides_functions(x):
    """Return whether `x` overrides ``__array_function__``."""
    found = getattr(type(x), "__array_function__", None)
    return found is not None and found is not np.ndarray.__array_function__


def dispatched(fun):
    """Make `fun` dispatch on ``__array_function__`` as NumPy's functions do.

    A function that only rules and bodies call can then have a row of its own.
    """

    @functools.wraps(fun)
    def offering(*args, **kwargs):
        carriers = [x for x in args if type(x) is not np.ndarray and overrides_functions(x)]
        types = tuple({type(x): None for x in carriers})
        for x in carriers:
            y = x.__array_function__(offering, types, args, kwargs)
            if y is not NotImplemented:
                return y
        return fun(*args, **kwargs)

    return offering


def locally_constant(fun, **columns):
    """Make `fun` dispatch, as `dispatched` does, and declare that its derivative is zero."""
    made = dispatched(fun)
    constant(made, **columns)
    return made


@locally_constant
def exponent(x):
    """Return the exponent of ``frexp``."""
    return np.frexp(x)[1]


@composed(np.frexp)
def _frexp(x):
    x = as_array(x)
    power = exponent(x)
    return np.ldexp(x, -power), power
