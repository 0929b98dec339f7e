"""Filters and spline interpolation of images: formulas for the compiled functions that ``scipy.ndimage`` calls.

`Compiled` has their names and signatures and computes with NumPy, so that a second copy of SciPy's Python code can call
it.  Boundary modes are maps of indices: a filter is a product with windows of the extended array.

References
----------
Thevenaz, Blu and Unser (2000), Interpolation revisited. doi:10.1109/42.875199
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from wengert.registry import constant
from wengert.rules.composed import as_array, dispatched, overrides_functions
from wengert.rules.scipy.functions import Functions

ndimage = Functions("scipy.ndimage")

NEAREST, WRAP, REFLECT, MIRROR, CONSTANT, GRID_WRAP, GRID_CONSTANT = range(7)

# ---- filters


def extended_places(n, before, after, mode):
    """Return the source index of each element of an extended axis, or -1 for the fill value."""
    i = np.arange(-before, n + after)
    if mode == NEAREST:
        return np.clip(i, 0, n - 1)
    if mode == WRAP:
        return i % n
    if mode == REFLECT:
        i = i % (2 * n)
        return np.where(i < n, i, 2 * n - 1 - i)
    if mode == MIRROR:
        i = i % max(2 * n - 2, 1)
        return np.where(i < n, i, 2 * n - 2 - i)
    return np.where((i < 0) | (i >= n), -1, i)


def extended(x, axis, before, after, mode, cval):
    """Extend x along an axis; negative counts drop elements."""
    place = extended_places(np.shape(x)[axis], before, after, mode)
    y = np.take(x, np.maximum(place, 0), axis)
    if mode != CONSTANT:
        return y
    outside = np.reshape(place < 0, (-1,) + (1,) * (np.ndim(x) - 1 - axis))
    return np.where(outside, cval, y)


def windows_along(x, axis, size, mode, cval, origin):
    """Return the windows of a 1-D filter along the last axis."""
    before = size // 2 + int(origin)
    y = extended(x, axis, before, size - 1 - before, mode, cval)
    return np.lib.stride_tricks.sliding_window_view(y, size, axis)


def windows(x, shape, mode, cval, origins):
    """Return the windows of a filter over all axes along the last axes."""
    for axis, (size, origin) in enumerate(zip(shape, origins, strict=True)):
        before = size // 2 + int(origin)
        x = extended(x, axis, before, size - 1 - before, mode, cval)
    return np.lib.stride_tricks.sliding_window_view(x, shape)


def footprint_windows(x, footprint, mode, cval, origins):
    """Return the elements under a footprint along the last axis."""
    return windows(x, np.shape(footprint), mode, cval, origins)[..., np.asarray(footprint, dtype=bool)]


class Compiled:
    """Formulas in place of ``scipy.ndimage._nd_image`` and ``_rank_filter_1d``; each stores into its `output`."""

    @staticmethod
    def correlate1d(x, weights, axis, output, mode, cval, origin):
        output[...] = windows_along(x, axis, len(weights), mode, cval, origin) @ weights

    @staticmethod
    def uniform_filter1d(x, size, axis, output, mode, cval, origin):
        output[...] = np.mean(windows_along(x, axis, int(size), mode, cval, origin), axis=-1)

    @staticmethod
    def correlate(x, weights, output, mode, cval, origins):
        axes = tuple(range(-np.ndim(x), 0))
        found = windows(x, np.shape(weights), mode, cval, origins)
        output[...] = np.sum(found * weights, axis=axes)

    @staticmethod
    def min_or_max_filter1d(x, size, axis, output, mode, cval, origin, is_minimum):
        select = np.min if is_minimum else np.max
        output[...] = select(windows_along(x, axis, int(size), mode, cval, origin), axis=-1)

    @staticmethod
    def min_or_max_filter(x, footprint, structure, output, mode, cval, origins, is_minimum):
        found = footprint_windows(x, footprint, mode, cval, origins)
        if structure is not None:
            kept = structure[np.asarray(footprint, dtype=bool)]
            found = found - kept if is_minimum else found + kept
        output[...] = (np.min if is_minimum else np.max)(found, axis=-1)

    @staticmethod
    def rank_filter(x, rank, footprint, output, mode, cval, origins=None, *rest):
        if rest or origins is None or np.ndim(footprint) == 0:  # of _rank_filter_1d: x, rank, size, output, ...
            found = windows_along(x, 0, int(footprint), mode, cval, 0 if origins is None else origins)
        else:
            found = footprint_windows(x, footprint, mode, cval, origins)
        output[...] = np.sort(found, axis=-1)[..., rank]

    @staticmethod
    def fourier_filter(x, parameters, n, axis, output, kind):
        name = ("gaussian", "uniform", "ellipsoid")[kind]
        if name == "ellipsoid":
            output[...] = x * fourier_factors(name, np.shape(x), parameters, n, axis)
            return
        for parameter, k in zip(parameters, frequencies(np.shape(x), n, axis), strict=True):
            x = x * (np.exp(-2 * (np.pi * k * parameter) ** 2) if name == "gaussian" else np.sinc(k * parameter))
        output[...] = x

    @staticmethod
    def fourier_shift(x, shifts, n, axis, output):
        pairs = zip(frequencies(np.shape(x), n, axis), shifts, strict=True)
        output[...] = x * np.exp(-2j * np.pi * sum(k * shift for k, shift in pairs))

    @staticmethod
    def spline_filter1d(x, order, axis, output, mode):
        matrix = spline_matrix(np.shape(x)[axis], order, mode)
        output[...] = np.moveaxis(np.moveaxis(x, axis, -1) @ matrix, -1, axis)

    @staticmethod
    def generic_filter(x, function, footprint, output, mode, cval, origins, arguments, keywords):
        found = footprint_windows(x, footprint, mode, cval, origins)
        values = [function(found[i], *arguments, **keywords) for i in np.ndindex(*np.shape(x))]
        output[...] = np.reshape(np.stack(values), np.shape(x))

    @staticmethod
    def generic_filter1d(x, function, size, axis, output, mode, cval, origin, arguments, keywords):
        before = size // 2 + int(origin)
        lines = np.moveaxis(extended(x, axis, before, size - 1 - before, mode, cval), axis, -1)
        shape = np.shape(np.moveaxis(x, axis, -1))
        values = []
        for i in np.ndindex(*shape[:-1]):
            values.append(np.zeros_like(x, shape=shape[-1]))
            function(lines[i], values[-1], *arguments, **keywords)
        output[...] = np.moveaxis(np.reshape(np.stack(values), shape), -1, axis)

    @staticmethod
    def geometric_transform(
        x, mapping, coordinates, matrix, shift, output, order, mode, cval, npad, arguments=(), keywords=None
    ):
        if mapping is not None:
            shape = np.shape(output)
            places = [np.stack([*mapping(i, *arguments, **keywords or {})]) for i in np.ndindex(*shape)]
            coordinates = np.reshape(np.transpose(np.stack(places)), (-1, *shape))
        if coordinates is not None:
            output[...] = evaluated(x, list(coordinates), order, mode, cval, npad)
            return
        grid = np.indices(np.shape(output)).reshape(np.ndim(output), -1)
        places = matrix @ grid + np.reshape(shift, (-1, 1))
        found = evaluated(x, list(places), order, mode, cval, npad)
        output[...] = np.reshape(found, np.shape(output))

    @staticmethod
    def zoom_shift(x, zoom, shift, output, order, mode, cval, npad, grid_mode):
        places = []
        for axis, n in enumerate(np.shape(output)):
            place = np.arange(n) + (0.0 if shift is None else shift[axis])
            if zoom is not None:
                place = zoom[axis] * (place + 0.5) - 0.5 if grid_mode else place * zoom[axis]
            places.append(np.reshape(place, (-1,) + (1,) * (np.ndim(output) - 1 - axis)))
        output[...] = evaluated(x, places, order, mode, cval, npad)


def frequencies(shape, n, axis):
    """Return the frequencies along each axis; those of a real transform along `axis` of n samples if n is not -1."""
    found = []
    for i, size in enumerate(shape):
        is_real = i == axis and n >= 0
        k = np.arange(size) / n if is_real else np.fft.fftfreq(size)
        found.append(np.reshape(k, (-1,) + (1,) * (len(shape) - 1 - i)))
    return found


@dispatched
def fourier_factors(name, shape, parameters, n, axis):
    return getattr(ndimage, f"fourier_{name}").__wrapped__(np.ones(shape), list(parameters), n, axis)


constant(fourier_factors)


def spline_matrix(n, order, mode):
    """Return the transposed matrix of the prefilter along an axis, which is linear."""
    names = ("nearest", "wrap", "reflect", "mirror", "constant", "grid-wrap", "grid-constant")
    return ndimage.spline_filter1d.__wrapped__(np.eye(n), order, 1, mode=names[mode])


# ---- splines at arbitrary coordinates


def place_map(x, n, mode):
    """Return, stacked, slope and offset of the map of x into [0, n - 1], and a mask of points outside."""
    x = np.asarray(x, dtype=float)
    slope, offset = np.ones_like(x), np.zeros_like(x)
    outside = (x < 0) | (x > n - 1)
    if mode == NEAREST:
        slope, offset = np.where(outside, 0.0, 1.0), np.where(x > n - 1, n - 1.0, 0.0)
    elif mode in (MIRROR, REFLECT):
        extra = 1 if mode == REFLECT else 0
        period = max(2 * n - 2 + 2 * extra, 1)
        turns = np.floor(x / period)
        rest = x - period * turns
        is_back = rest > n - 1 + extra / 2
        slope = np.where(is_back, -1.0, 1.0)
        offset = np.where(is_back, period * (turns + 1) - extra, -period * turns)
        slope, offset = np.where(outside, slope, 1.0), np.where(outside, offset, 0.0)
    elif mode in (WRAP, GRID_WRAP):
        period = max(n - 1 if mode == WRAP else n, 1)
        turns = np.where(x < 0, -(np.trunc(-x / period) + 1), np.trunc(x / period))
        offset = np.where(outside if mode == WRAP else (x < 0) | (x >= n), -period * turns, 0.0)
    is_lost = outside & (mode == CONSTANT)
    return np.stack([slope, offset, is_lost.astype(float)])


def first_place(x, order):
    return (np.floor(x) if order % 2 else np.floor(x + 0.5)).astype(int) - order // 2


@dispatched
def neighbourhood(x, n, order, mode):
    """Return, stacked, what is constant near each coordinate x along an axis of length n.

    These are slope and offset of the map of x into the grid, whether x is lost, the place of the first coefficient of
    the map of x, then for each of the order + 1 coefficients its index, and whether it is a fill value.
    """
    x = np.asarray(x, dtype=float)
    found = np.empty((4 + 2 * (order + 1), *np.shape(x)))
    is_inside = mode == GRID_CONSTANT or (np.size(x) and np.min(x) >= 0 and np.max(x) <= n - 1)
    if is_inside:
        found[0], found[1:3] = 1.0, 0.0
    else:
        found[:3] = place_map(x, n, mode)
    start = found[3] = first_place(x if is_inside else found[0] * x + found[1], order)
    place = found[4 : 5 + order]
    np.add(start, np.reshape(np.arange(order + 1), (-1,) + (1,) * np.ndim(x)), out=place)
    found[5 + order :] = (place < 0) | (place >= n) if mode == GRID_CONSTANT else 0.0
    if mode != GRID_CONSTANT and np.size(x) and (np.min(start) < 0 or np.max(start) + order >= n):
        turn, shift, _ = place_map(place, n, {CONSTANT: MIRROR, WRAP: MIRROR, NEAREST: REFLECT}.get(mode, mode))
        place[...] = np.rint(turn * place + shift)
    np.clip(place, 0, n - 1, out=place)
    return found


constant(neighbourhood)


def basis(x, order):
    """Return the centred B-spline of an order at x, by truncated powers."""
    half = (order + 1) / 2
    terms = [(-1) ** k * math.comb(order + 1, k) * np.maximum(x + half - k, 0) ** order for k in range(order + 1)]
    return sum(terms) / math.factorial(order)


def basis_near(x, start, order):
    """Return the order + 1 B-splines at x that are centred at start, start + 1, ..."""
    u = x - (start + order // 2)  # from the integer below for odd orders, from the nearest one for even orders
    v = 1 - u
    if order == 0:
        return [1.0]
    if order == 1:
        return [v, u]
    if order == 2:
        return [0.5 * (0.5 - u) ** 2, 0.75 - u * u, 0.5 * (0.5 + u) ** 2]
    if order == 3:
        return [v * v * v / 6, 2 / 3 - u * u * (2 - u) / 2, 2 / 3 - v * v * (2 - v) / 2, u * u * u / 6]
    return [basis(x - (start + k), order) for k in range(order + 1)]


def support(x, n, order, mode):
    """Return index, weight and mask of fill values of the order + 1 coefficients near x, and a mask of lost points."""
    found = neighbourhood(x, n, order, mode)
    slope, offset, is_lost, start = found[0], found[1], found[2], found[3]
    if mode != GRID_CONSTANT:
        x = slope * x + offset
    index = found[4 : 5 + order].astype(int)
    is_fill = found[5 + order :] > 0 if mode == GRID_CONSTANT else None
    return index, basis_near(x, start, order), is_fill, is_lost > 0 if mode == CONSTANT else None


@dispatched
def place_in(strides, *indices):
    """Return the place of elements in a flattened array."""
    return sum(index * stride for index, stride in zip(indices, strides, strict=True))


@dispatched
def taken(x, place):
    """Return elements of a plain array, at places that a program computes again."""
    return np.take(x, place)


constant(place_in, taken)


def evaluated(x, coordinates, order, mode, cval, npad):
    """Evaluate the spline with coefficients x at coordinates, one array per axis; the arrays broadcast."""
    found = [
        support(as_array(c) + npad, n, order, mode) for c, n in zip(coordinates, np.shape(x), strict=True)
    ]
    total, lost = 0.0, False
    for _, _, _, is_lost in found:
        lost = lost if is_lost is None else lost | is_lost
    flat, strides = np.reshape(x, -1), np.cumprod((1, *np.shape(x)[:0:-1]))[::-1]
    take = np.take if overrides_functions(x) else taken
    for taps in itertools.product(range(order + 1), repeat=len(found)):
        value = take(flat, place_in(strides, *[index[tap] for (index, *_), tap in zip(found, taps, strict=True)]))
        for (_, _, is_fill, _), tap in zip(found, taps, strict=True):
            if is_fill is not None:
                value = np.where(is_fill[tap], cval, value)
        weight = 1.0
        for (_, weights, _, _), tap in zip(found, taps, strict=True):
            weight = weight * weights[tap]
        total = total + value * weight
    return total if lost is False else np.where(lost, cval, total)


def is_piecewise_constant(name):
    """Return whether a function of the module returns labels, masks or indices."""
    return name.startswith("binary_") or name in CONSTANT_FUNCTIONS


CONSTANT_FUNCTIONS = frozenset(
    (
        "find_objects generate_binary_structure iterate_structure label maximum_position minimum_position "
        "value_indices watershed_ift"
    ).split()
)


#: functions that call a function of the user
OF_FUNCTIONS = frozenset(
    (
        "generic_filter generic_filter1d generic_gradient_magnitude generic_laplace geometric_transform "
        "labeled_comprehension vectorized_filter"
    ).split()
)

#: functions without a derivative, and what to use instead
REFUSED = {
    **dict.fromkeys(
        ("distance_transform_bf", "distance_transform_cdt", "distance_transform_edt"),
        "it reads truth values, and distances depend on sampling=; pass a boolean array and a plain sampling",
    ),
}
