"""Transforms of ``scipy.fftpack``, SciPy's older interface, expressed by functions of NumPy and ``scipy.fft``.

Its real transform stores real and imaginary parts alternately.  Its pseudo-differential operators, such as ``diff``,
are circular convolutions, whose kernel is what they return for a unit impulse.
"""

from __future__ import annotations

import numpy as np

from wengert.registry import by_formula, composed, constant
from wengert.rules.composed import as_array
from wengert.rules.scipy.fft import fft
from wengert.rules.scipy.functions import Functions

fftpack = Functions("scipy.fftpack")


def of_fourier(name):
    """Declare a Fourier transform by the function of the same name in ``scipy.fft``."""
    transform = getattr(fft, name)

    def along_one(x, n=None, axis=-1, overwrite_x=False):
        return transform(x, n, axis)

    def along_two(x, shape=None, axes=(-2, -1), overwrite_x=False):
        return transform(x, shape, axes)

    def along_all(x, shape=None, axes=None, overwrite_x=False):
        return transform(x, shape, axes)

    body = {"2": along_two, "n": along_all}.get(name[-1], along_one)
    by_formula(getattr(fftpack, name), body, on_complex=True)


def of_cosines(name):
    """Declare a cosine or sine transform by the function of the same name in ``scipy.fft``."""
    transform = getattr(fft, name)

    def along_one(x, type=2, n=None, axis=-1, norm=None, overwrite_x=False):
        return transform(x, type, n, axis, norm)

    def along_several(x, type=2, shape=None, axes=None, norm=None, overwrite_x=False):
        return transform(x, type, shape, axes, norm)

    by_formula(getattr(fftpack, name), along_several if name[-1] == "n" else along_one, on_complex=True)


for name in "fft ifft fft2 ifft2 fftn ifftn".split():
    of_fourier(name)
for name in "dct idct dst idst dctn idctn dstn idstn".split():
    of_cosines(name)


@by_formula(fftpack.rfft)
def to_packed(x, n=None, axis=-1, overwrite_x=False):
    """Return the real transform with alternating real and imaginary parts."""
    x = as_array(x)
    n = np.shape(x)[axis] if n is None else n
    z = np.moveaxis(np.fft.rfft(x, n, axis), axis, -1)
    parts = np.reshape(np.stack([z.real, z.imag], axis=-1), (*np.shape(z)[:-1], -1))
    return np.moveaxis(np.concatenate([parts[..., :1], parts[..., 2 : n + 1]], axis=-1), -1, axis)


@by_formula(fftpack.irfft)
def from_packed(x, n=None, axis=-1, overwrite_x=False):
    """Return the inverse of `to_packed`."""
    x = np.moveaxis(as_array(x), axis, -1)
    m = np.shape(x)[-1]
    n = m if n is None else n
    x = x[..., :n] if n < m else np.concatenate([x, np.zeros((*np.shape(x)[:-1], n - m))], axis=-1)
    zero = np.zeros_like(x[..., :1])
    parts = np.concatenate([x[..., :1], zero, x[..., 1:], *([zero] if n % 2 == 0 else [])], axis=-1)
    pairs = np.reshape(parts, (*np.shape(x)[:-1], -1, 2))
    return np.moveaxis(np.fft.irfft(pairs[..., 0] + 1j * pairs[..., 1], n, axis=-1), -1, axis)


def by_convolution(name):
    """Declare a pseudo-differential operator."""
    operator = getattr(fftpack, name)

    def body(x, *parameters, **options):
        x = as_array(x)
        if x.dtype.kind == "c":
            return body(np.real(x), *parameters, **options) + 1j * body(np.imag(x), *parameters, **options)
        impulse = np.zeros(len(x))
        impulse[:1] = 1.0
        spectrum = np.fft.rfft(operator(impulse, *parameters, **options))
        return np.fft.irfft(np.fft.rfft(x) * spectrum, len(x))

    by_formula(operator, body, on_complex=True)


for name in "diff tilbert itilbert hilbert ihilbert cs_diff sc_diff ss_diff cc_diff shift".split():
    by_convolution(name)

composed(fftpack.rfftfreq, lambda n, d=1.0: fftpack.rfftfreq(n) / d)
constant(fftpack.next_fast_len)
