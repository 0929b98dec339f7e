"""Filters and spline interpolation of images: formulas for the compiled functions that ``scipy.ndimage`` calls.

`Compiled` has their names and signatures and computes with NumPy, so that a second copy of SciPy's Python code can call
it.  Boundary modes are maps of indices: a filter is a product with windows of the extended array.

References
----------
Thevenaz, Blu and Unser (2000), Interpolation revisited. doi:10.1109/42.875199
"""

from __future__ import annotations

import functools
import math
import operator

import numpy as np

from wengert.rules.composed import as_array, locally_constant, overrides_functions
from wengert.rules.scipy import spline_places
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
        if rest or origins is None or np.ndim(footprint) == 0:  # `_rank_filter_1d`: x, rank, size, output, ...
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
    """Return the frequencies along each axis; unless n is -1, `axis` is that of a real transform of n samples."""
    found = []
    for i, size in enumerate(shape):
        is_real = i == axis and n >= 0
        k = np.arange(size) / n if is_real else np.fft.fftfreq(size)
        found.append(np.reshape(k, (-1,) + (1,) * (len(shape) - 1 - i)))
    return found


@locally_constant
def fourier_factors(name, shape, parameters, n, axis):
    return getattr(ndimage, f"fourier_{name}").__wrapped__(np.ones(shape), list(parameters), n, axis)


def spline_matrix(n, order, mode):
    """Return the transposed matrix of the prefilter along an axis, which is linear."""
    names = ("nearest", "wrap", "reflect", "mirror", "constant", "grid-wrap", "grid-constant")
    return ndimage.spline_filter1d.__wrapped__(np.eye(n), order, 1, mode=names[mode])


# ---- splines at arbitrary coordinates


@locally_constant
def neighbourhood(x, n, order, mode):
    return spline_places.neighbourhood(x, n, order, mode)


@locally_constant
def coefficient_places(shape, order, mode, *starts):
    return spline_places.coefficient_places(shape, order, mode, starts)


def padded_shape(place, ndim):
    """Insert axes of length 1 after the first axis of a shape, so that `ndim` axes follow the first."""
    return np.shape(place)[:1] + (1,) * (ndim + 1 - np.ndim(place)) + np.shape(place)[1:]


def of_axis(place, axis, count):
    """Replace the first axis by `count` axes of length 1, except number `axis`, which keeps its length."""
    return np.reshape(place, (1,) * axis + np.shape(place)[:1] + (1,) * (count - 1 - axis) + np.shape(place)[1:])


@locally_constant
def is_outside(shape, order, *starts):
    """Return 1 for each coefficient near points that is beyond the array, and 0 for the others."""
    ndim, found = max(map(np.ndim, starts)), False
    for axis, (start, n) in enumerate(zip(starts, shape, strict=True)):
        place = np.stack([start + k for k in range(order + 1)])
        place = of_axis(np.reshape(place, padded_shape(place, ndim)), axis, len(shape))
        found = found | (place < 0) | (place >= n)
    return found.astype(float)


@locally_constant
def taken(x, place):
    """Return elements of a plain array, at indices that a program recomputes."""
    return np.take(x, place)


def basis(x, order):
    """Return the centred B-spline of an order at x, by truncated powers."""
    half = (order + 1) / 2
    terms = [(-1) ** k * math.comb(order + 1, k) * np.maximum(x + half - k, 0) ** order for k in range(order + 1)]
    return sum(terms) / math.factorial(order)


def basis_near(u, order):
    """Return the order + 1 B-splines near x in the order of their centres.

    u is the distance of x from the centre at or below it for odd orders, from the nearest centre for even orders.
    """
    v = 1 - u
    if order == 0:
        return [1.0]
    if order == 1:
        return [v, u]
    if order == 2:
        return [0.5 * (0.5 - u) ** 2, 0.75 - u * u, 0.5 * (0.5 + u) ** 2]
    if order == 3:
        return [v * v * v / 6, 2 / 3 - u * u * (2 - u) / 2, 2 / 3 - v * v * (2 - v) / 2, u * u * u / 6]
    return [basis(u + order // 2 - k, order) for k in range(order + 1)]


def support(x, n, order, mode):
    """Return the index of the first coefficient near x, the weights, and a mask of points with the fill value."""
    start, shift, slope, is_lost = neighbourhood(x, n, order, mode)
    u = slope * x + shift if mode in (MIRROR, REFLECT) else x + shift
    return start, basis_near(u, order), is_lost > 0 if mode == CONSTANT else None


def contracted(values, weights):
    """Return the sum of values, with one axis for each list of weights, times the weights along the axes."""
    if not weights:
        return values
    parts = [contracted(value, weights[1:]) for value in values]
    if len(parts) == 2:
        return parts[0] + weights[0][1] * (parts[1] - parts[0])
    return sum(part * weight for part, weight in zip(parts, weights[0], strict=True))


def evaluated(x, coordinates, order, mode, cval, npad):
    """Evaluate the spline with coefficients x at coordinates, one array per axis; the arrays broadcast."""
    shape = np.shape(x)
    coordinates = [as_array(c) + npad if npad else as_array(c) for c in coordinates]
    found = [support(c, n, order, mode) for c, n in zip(coordinates, shape, strict=True)]
    starts, weights, lost = zip(*found, strict=True)
    take = np.take if overrides_functions(x) else taken
    values = take(np.reshape(x, -1), coefficient_places(shape, order, mode, *starts))
    if mode == GRID_CONSTANT:
        values = np.where(is_outside(shape, order, *starts) > 0, cval, values)
    y = contracted(values, weights)
    return np.where(functools.reduce(operator.or_, lost), cval, y) if mode == CONSTANT else y


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
    )
}
