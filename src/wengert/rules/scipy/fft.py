"""Fourier, cosine and sine transforms of ``scipy.fft``.

Fourier transforms have the rules of NumPy's.  Cosine and sine transforms are Fourier transforms of a sequence that
is extended or multiplied by phases (Makhoul 1980, A fast cosine transform in one and two dimensions), so their
derivatives take O(n log n) operations.
"""

from __future__ import annotations

import numpy as np

from wengert.registry import by_formula, composed, constant
from wengert.rules.composed import as_array
from wengert.rules.scipy.functions import Functions
from wengert.rules.shapes import from_end

fft = Functions("scipy.fft")

# ---- Fourier transforms


def of_numpy(name):
    """Declare a Fourier transform by NumPy's function of the same name."""
    transform = getattr(np.fft, name)

    def along_one(x, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, *, plan=None):
        return transform(as_array(x), n, axis, norm)

    def along_two(x, s=None, axes=(-2, -1), norm=None, overwrite_x=False, workers=None, *, plan=None):
        return along_all(x, s, axes, norm)

    def along_all(x, s=None, axes=None, norm=None, overwrite_x=False, workers=None, *, plan=None):
        x = as_array(x)
        if s is not None and axes is None:
            axes = range(-len(np.atleast_1d(s)), 0)
        axes = range(-np.ndim(x), 0) if axes is None else np.atleast_1d(axes).tolist()
        if s is not None:
            s = [np.shape(x)[axis] if n is None else n for n, axis in zip(np.atleast_1d(s).tolist(), axes)]
        return transform(x, s, list(axes), norm)

    body = {"2": along_two, "n": along_all}.get(name[-1], along_one)
    by_formula(getattr(fft, name), body, on_complex=True)


for name in "fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 fftn ifftn rfftn irfftn".split():
    of_numpy(name)


def hermitian(inverse):
    """Return the body of ``hfftn`` or ``ihfftn``, transforms of Hermitian-symmetric sequences."""

    def body(x, s=None, axes=None, norm=None, overwrite_x=False, workers=None, *, plan=None):
        x = as_array(x)
        swapped = {None: "forward", "backward": "forward", "forward": "backward"}.get(norm, norm)
        if inverse:
            return np.conj(fft.rfftn(x, s, axes, swapped))
        return fft.irfftn(np.conj(x), s, axes, swapped)

    return body


def of_two(body):
    def along_two(x, s=None, axes=(-2, -1), norm=None, overwrite_x=False, workers=None, *, plan=None):
        return body(x, s, axes, norm)

    return along_two


by_formula(fft.hfftn, hermitian(False), on_complex=True)
by_formula(fft.ihfftn, hermitian(True), on_complex=True)
by_formula(fft.hfft2, of_two(hermitian(False)), on_complex=True)
by_formula(fft.ihfft2, of_two(hermitian(True)), on_complex=True)
composed(fft.fftshift, lambda x, axes=None: np.fft.fftshift(x, axes), on_complex=True)
composed(fft.ifftshift, lambda x, axes=None: np.fft.ifftshift(x, axes), on_complex=True)

# ---- cosine and sine transforms along the last axis


def turned(x, shift, count):
    """Return the transform of length 2 n of x_j exp(-i pi (j + shift) / 2n), stored at indices j + shift."""
    n = np.shape(x)[-1]
    z = x * np.exp(-0.5j * np.pi * (np.arange(n) + shift) / n)
    if shift:
        z = np.concatenate([np.zeros_like(z[..., :shift]), z], axis=-1)
    return np.fft.fft(z, 2 * n, axis=-1)[..., :count]


def scaled_at(x, places, factor):
    scale = np.ones(np.shape(x)[-1])
    scale[places] = factor
    return x * scale


def cosine_1(x):
    return np.fft.rfft(np.concatenate([x, x[..., -2:0:-1]], axis=-1)).real


def cosine_2(x):
    n = np.shape(x)[-1]
    y = np.fft.fft(np.concatenate([x, x[..., ::-1]], axis=-1))[..., :n]
    return (y * np.exp(-0.5j * np.pi * np.arange(n) / n)).real


def cosine_3(x):
    return 2 * turned(scaled_at(x, [0], 0.5), 0, np.shape(x)[-1]).real


def quarter(x):
    n = np.shape(x)[-1]
    return 2 * turned(x, 0, n) * np.exp(-0.25j * np.pi * (2 * np.arange(n) + 1) / n)


def sine_1(x):
    n = np.shape(x)[-1]
    z = np.concatenate([np.zeros_like(x[..., :1]), x], axis=-1)
    return -2 * np.fft.fft(z, 2 * n + 2, axis=-1)[..., 1 : n + 1].imag


def sine_2(x):
    n = np.shape(x)[-1]
    y = np.fft.fft(x, 2 * n, axis=-1)[..., 1 : n + 1]
    return -2 * (y * np.exp(-0.5j * np.pi * np.arange(1, n + 1) / n)).imag


def sine_3(x):
    return -2 * turned(scaled_at(x, [-1], 0.5), 1, np.shape(x)[-1]).imag


COSINE = {1: cosine_1, 2: cosine_2, 3: cosine_3, 4: lambda x: quarter(x).real}
SINE = {1: sine_1, 2: sine_2, 3: sine_3, 4: lambda x: -quarter(x).imag}
_INVERSE = {1: 1, 2: 3, 3: 2, 4: 4}
_OPPOSITE = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def unscaled(x, type, is_sine, orthogonalize):
    """Return the transform without normalisation; `orthogonalize` makes its matrix a multiple of an orthogonal one."""
    first = [-1] if is_sine else [0]
    ends = [0, -1] if type == 1 and not is_sine else first
    if orthogonalize and (type == 3 or (type == 1 and not is_sine)):
        x = scaled_at(x, ends, np.sqrt(2))
    y = (SINE if is_sine else COSINE)[type](x)
    if orthogonalize and (type == 2 or (type == 1 and not is_sine)):
        y = scaled_at(y, ends, np.sqrt(0.5))
    return y


def transform(x, type, n, axis, norm, orthogonalize, is_sine):
    x = as_array(x)
    if x.dtype.kind == "c":
        parts = [transform(part, type, n, axis, norm, orthogonalize, is_sine) for part in (np.real(x), np.imag(x))]
        return parts[0] + 1j * parts[1]
    (axis,) = from_end(axis, np.ndim(x))
    x = np.moveaxis(x, axis, -1)
    x = x if x.dtype.kind == "f" else x * 1.0
    if n is not None and n != np.shape(x)[-1]:
        m = np.shape(x)[-1]
        x = x[..., :n] if n < m else np.concatenate([x, np.zeros((*np.shape(x)[:-1], n - m))], axis=-1)
    n = np.shape(x)[-1]
    orthogonalize = norm == "ortho" if orthogonalize is None else orthogonalize
    y = unscaled(x, type, is_sine, orthogonalize)
    length = 2 * (n + (0 if type != 1 else 1 if is_sine else -1))
    factor = {"ortho": length**-0.5, "forward": 1 / length}.get(norm, 1.0)
    return np.moveaxis(y * factor, -1, axis)


def along_one(is_sine, is_inverse):
    def body(x, type=2, n=None, axis=-1, norm=None, overwrite_x=False, workers=None, orthogonalize=None):
        if is_inverse:
            type, norm = _INVERSE[type], _OPPOSITE[norm]
        return transform(x, type, n, axis, norm, orthogonalize, is_sine)

    return body


def along_several(is_sine, is_inverse):
    def body(x, type=2, s=None, axes=None, norm=None, overwrite_x=False, workers=None, *, orthogonalize=None):
        x = as_array(x)
        axes = range(-len(np.atleast_1d(s)), 0) if axes is None and s is not None else axes
        axes = range(np.ndim(x)) if axes is None else np.atleast_1d(axes).tolist()
        lengths = [None] * len(axes) if s is None else np.atleast_1d(s).tolist()
        orthogonalize = norm == "ortho" if orthogonalize is None else orthogonalize
        if is_inverse:
            type, norm = _INVERSE[type], _OPPOSITE[norm]
        for n, axis in zip(lengths, axes, strict=True):
            x = transform(x, type, n, axis, norm, orthogonalize, is_sine)
        return x

    return body


for is_sine, word in ((False, "ct"), (True, "st")):
    for is_inverse, name in ((False, f"d{word}"), (True, f"id{word}")):
        by_formula(getattr(fft, name), along_one(is_sine, is_inverse), on_complex=True)
        by_formula(getattr(fft, f"{name}n"), along_several(is_sine, is_inverse), on_complex=True)

# ---- lengths and settings

constant(*[getattr(fft, name) for name in ("next_fast_len", "prev_fast_len") if fft.has(name)])
constant(fft.get_workers, static=True)
