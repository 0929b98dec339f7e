# Arrays are made contiguous and of one size in Python before they reach the loops, which run without the GIL:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Indices of the spline coefficients near points, under the boundary modes of ``scipy.ndimage``."""

from libc.math cimport fabs, floor, isnan, rint, trunc
from libc.stdint cimport int64_t

import numpy as np

cdef enum Mode:
    NEAREST
    WRAP
    REFLECT
    MIRROR
    CONSTANT
    GRID_WRAP
    GRID_CONSTANT

# points that are treated together, so that their places along all axes stay in the cache
cdef enum:
    BLOCK = 256


cdef inline double integer_below(double x) noexcept nogil:
    """The floor of x, by the conversion to an integer, which unlike floor() is one instruction on every processor."""
    if not fabs(x) < 2.0**52:                           # an integer, or NaN
        return x
    cdef double y = <double>(<int64_t>x)
    return y - 1 if y > x else y


cdef bint map_outside(double x, double n, int mode, double* slope, double* offset) noexcept nogil:
    """Write slope and offset of the map that takes x into [0, n - 1]; return whether the mode has no such map for x."""
    cdef double extra = 1 if mode == REFLECT else 0, period, turns
    slope[0], offset[0] = 1, 0
    if mode == MIRROR or mode == REFLECT:
        period = max(2 * n - 2 + 2 * extra, 1)
        turns = floor(x / period)
        if x - period * turns > n - 1 + extra / 2:
            slope[0], offset[0] = -1, period * (turns + 1) - extra
        else:
            offset[0] = -period * turns
    elif mode == WRAP or (mode == GRID_WRAP and not 0 <= x < n):
        period = max(n - 1 if mode == WRAP else n, 1)
        turns = -(trunc(-x / period) + 1) if x < 0 else trunc(x / period)
        offset[0] = -period * turns
    return mode == CONSTANT and (x < 0 or x > n - 1)


def neighbourhood(x, Py_ssize_t n, int order, int mode):
    """Return start, shift, slope and a flag, stacked, for each coordinate x along an axis of length n.

    The first coefficient near x is at place `start`, and ``slope * x + shift`` is the distance of x from a coefficient:
    the one at or below it for odd orders, the nearest one for even orders. The flag marks x with the fill value.
    """
    cdef double place, slope, offset, half = 0 if order % 2 else 0.5
    cdef int centre = order // 2
    cdef double[::1] given = np.ascontiguousarray(x, dtype=float).reshape(-1)
    found = np.empty((4, *np.shape(x)))
    cdef double[:, ::1] out = found.reshape(4, -1)
    cdef Py_ssize_t i
    with nogil:
        for i in range(given.shape[0]):
            slope, offset, place, out[3, i] = 1, 0, given[i], 0
            if not 0 <= place <= n - 1:                 # also if it is NaN
                out[3, i] = map_outside(place, n, mode, &slope, &offset)
                place = slope * place + offset
            place = integer_below(place + half)
            out[0, i], out[1, i], out[2, i] = place - centre, offset - place, slope
    return found


cdef inline Py_ssize_t source(double place, Py_ssize_t n, int mode) noexcept nogil:
    """Return the index of the array element that holds the coefficient at an integer place."""
    cdef double slope, offset
    if isnan(place):
        return 0
    if not 0 <= place <= n - 1:
        map_outside(place, n, MIRROR if mode == CONSTANT or mode == WRAP else mode, &slope, &offset)
        place = rint(slope * place + offset)
        place = min(max(place, 0), n - 1)
    return <Py_ssize_t>place


def coefficient_places(shape, int order, int mode, starts):
    """Return the places, in the flattened array, of coefficients near points, with one axis per axis of `shape`.

    `starts` has the place of the first one along each axis; the mode maps places beyond the array into it.
    """
    cdef int ndim = len(shape), width = order + 1, axis, k, digits
    cdef Py_ssize_t count, begin = 0, size, i, row, n, stride
    cdef double start
    whole = np.broadcast_shapes(*[x.shape for x in starts])
    stacked = np.empty((ndim, *whole))
    for axis in range(ndim):
        stacked[axis] = starts[axis]
    found = np.empty((width,) * ndim + whole, np.intp)
    cdef double[:, ::1] first = stacked.reshape(ndim, -1)
    count = first.shape[1]
    cdef Py_ssize_t[:, ::1] out = found.reshape(-1, count)
    cdef Py_ssize_t[:, :, ::1] part = np.empty((ndim, width, BLOCK), np.intp)
    cdef Py_ssize_t[::1] sizes = np.array(shape, np.intp)
    with nogil:
        while begin < count:
            size = min(<Py_ssize_t>BLOCK, count - begin)
            stride = 1
            for axis in range(ndim - 1, -1, -1):
                n = sizes[axis]
                for i in range(size):
                    part[axis, 0, i] = stride * <Py_ssize_t>min(max(first[axis, begin + i], -width), n)
                for k in range(1, width):
                    for i in range(size):
                        part[axis, k, i] = part[axis, 0, i] + k * stride
                for i in range(size):
                    start = first[axis, begin + i]
                    if not 0 <= start <= n - width:     # some coefficients lie beyond the array
                        for k in range(width):
                            part[axis, k, i] = stride * source(start + k, n, mode)
                stride *= n
            for row in range(out.shape[0]):
                digits = row
                for i in range(size):
                    out[row, begin + i] = part[ndim - 1, digits % width, i]
                for axis in range(ndim - 2, -1, -1):
                    digits = digits // width
                    for i in range(size):
                        out[row, begin + i] += part[axis, digits % width, i]
            begin += size
    return found
