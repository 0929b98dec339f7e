"""Discrete Fourier transforms: linear maps, each declared by its transpose.

The matrix of a complex transform is symmetric, so the transform is its own transpose, up to elements that ``n=``
truncates or pads.
Transforms between real and complex arrays are linear over the reals only.
``rfft`` stores half of a Hermitian-symmetric spectrum, so every bin but the first (and the last for even length)
stands for two.
Transforms along several axes are composed of one-dimensional ones in NumPy's order.
"""

from __future__ import annotations

import numpy as np

from wengert.dependence import Along
from wengert.errors import UnsupportedFunctionError
from wengert.registry import analytic, composed, linear, on_complex, rearrangement
from wengert.rules.composed import as_array
from wengert.rules.shapes import from_end


def inverse_norm(norm):
    """Return the ``norm=`` for which the inverse transform has the scale factor that this one has with `norm`."""
    return {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)


def resized(z, length, axis):
    """Truncate `z`, or pad it with zeros, to a length along an axis: the transpose of ``n=``."""
    shape = list(np.shape(z))
    missing = length - shape[axis]
    if missing > 0:
        shape[axis] = missing
        return np.concatenate([z, np.zeros(shape, dtype=z.dtype)], axis=axis)
    return np.take(z, np.arange(length), axis=axis) if missing < 0 else z


def bin_multiplicity(n, axis, dtype):
    """Return the multiplicity of each stored bin of a spectrum of length `n`, shaped to broadcast along `axis` < 0."""
    counts = np.full(n // 2 + 1, 2, dtype=dtype)
    counts[0] = 1
    if n % 2 == 0:
        counts[-1] = 1
    return np.reshape(counts, (-1,) + (1,) * (-axis - 1))


def transpose_of(fun):
    """Return the transpose of a complex transform."""

    def transpose(ybar, a, n=None, axis=-1, norm=None, out=None):
        (axis,) = from_end(axis, np.ndim(a))
        return resized(fun(ybar, axis=axis, norm=norm), np.shape(a)[axis], axis)

    return transpose


def tangent_of(fun):
    """Return the tangent rule of a transform: the transform of all directions at once."""

    def push(t, y, a, n=None, axis=-1, norm=None, out=None):
        return fun(t, n, *from_end(axis, np.ndim(a)), norm)

    return push


def rfft_adjoint(ybar, a, n=None, axis=-1, norm=None, out=None):
    """Divide each stored bin by its multiplicity, which ``irfft`` multiplies in."""
    (axis,) = from_end(axis, np.ndim(a))
    n = np.shape(a)[axis] if n is None else n
    half = ybar / bin_multiplicity(n, axis, ybar.real.dtype)
    return resized(np.fft.irfft(half, n, axis, inverse_norm(norm)), np.shape(a)[axis], axis)


def irfft_adjoint(ybar, a, n=None, axis=-1, norm=None, out=None):
    (axis,) = from_end(axis, np.ndim(a))
    z = np.fft.rfft(ybar, axis=axis, norm=inverse_norm(norm))
    z = z * bin_multiplicity(np.shape(ybar)[axis], axis, ybar.dtype)
    return resized(z if a.dtype.kind == "c" else np.real(z), np.shape(a)[axis], axis)


for fun in (np.fft.fft, np.fft.ifft):
    linear(fun, transpose_of(fun), jvp=tangent_of(fun), dependence=Along(2), batching=True, native=fun.__name__)
    analytic(fun)
for fun, adjoint in ((np.fft.rfft, rfft_adjoint), (np.fft.irfft, irfft_adjoint)):
    row = linear(fun, adjoint, jvp=tangent_of(fun), dependence=Along(2), batching=True, native=fun.__name__)
    on_complex(fun, row.jvps[0], vjp=(row.vjps[0],))

# ---- transforms of Hermitian-symmetric sequences


@composed(np.fft.hfft)
def _hfft(a, n=None, axis=-1, norm=None, out=None):
    a = as_array(a)
    n = 2 * (np.shape(a)[axis] - 1) if n is None else n
    return np.fft.irfft(np.conjugate(a), n, axis, inverse_norm(norm))


@composed(np.fft.ihfft)
def _ihfft(a, n=None, axis=-1, norm=None, out=None):
    return np.conjugate(np.fft.rfft(as_array(a), n, axis, inverse_norm(norm)))


# ---- several axes


def lengths_and_axes(a, s, axes, is_half=False):
    """Return the transform length of each axis; with `is_half`, the last axis is half a Hermitian-symmetric one."""
    if axes is None:
        axes = range(-(np.ndim(a) if s is None else len(s)), 0)
    shape = np.shape(a)
    if s is None:
        s = [shape[axis] for axis in axes]
        if is_half:
            s[-1] = 2 * (s[-1] - 1)
    if len(s) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return [(shape[axis] if n == -1 else n, axis) for n, axis in zip(s, axes, strict=True)]


def along_axes(fun):
    def transform(a, s=None, axes=None, norm=None, out=None):
        a = as_array(a)
        given = lengths_and_axes(a, s, axes)
        if not given:  # NumPy returns the operand itself and leaves out= unwritten
            raise UnsupportedFunctionError("a Fourier transform with axes=() has no rule: remove the call")
        for n, axis in reversed(given):
            a = fun(a, n, axis, norm)
        return a

    return transform


def _rfftn(a, s=None, axes=None, norm=None, out=None):
    a = as_array(a)
    *others, last = lengths_and_axes(a, s, axes)
    a = np.fft.rfft(a, *last, norm)
    for n, axis in reversed(others):
        a = np.fft.fft(a, n, axis, norm)
    return a


def _irfftn(a, s=None, axes=None, norm=None, out=None):
    a = as_array(a)
    *others, last = lengths_and_axes(a, s, axes, is_half=True)
    for n, axis in others:
        a = np.fft.ifft(a, n, axis, norm)
    return np.fft.irfft(a, *last, norm)


def over_last_two_axes(transform):
    """Return the transform with the last two axes as the default."""
    return lambda a, s=None, axes=(-2, -1), norm=None, out=None: transform(a, s, axes, norm)


MULTIDIMENSIONAL = {
    (np.fft.fftn, np.fft.fft2): along_axes(np.fft.fft),
    (np.fft.ifftn, np.fft.ifft2): along_axes(np.fft.ifft),
    (np.fft.rfftn, np.fft.rfft2): _rfftn,
    (np.fft.irfftn, np.fft.irfft2): _irfftn,
}

analytic(np.fft.hfft, np.fft.ihfft)
for (of_all, of_two), body in MULTIDIMENSIONAL.items():
    composed(of_all, body)
    composed(of_two, over_last_two_axes(body))
    analytic(of_all, of_two)

rearrangement(np.fft.fftshift, np.fft.ifftshift)
