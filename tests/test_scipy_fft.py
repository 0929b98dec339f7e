"""Transforms of ``scipy.fft`` and ``scipy.fftpack``."""

import numpy as np
import pytest
import scipy.fft as fft
import scipy.fftpack as fftpack

from helpers import parts
from scipy_cases import check

RNG = np.random.default_rng(5)
X, Y, T = RNG.uniform(-1, 1, 7), RNG.uniform(-1, 1, 6), RNG.uniform(-1, 1, (3, 4))
NORMS = (None, "ortho", "forward")


CASES = {
    "fft": (lambda x: parts(fft.fft(x)), X),
    "ifft": (lambda x: parts(fft.ifft(x, n=9, norm="ortho")), X),
    "fft of complex": (lambda x: np.abs(fft.fft(x + 1j * x**2)), X),
    "rfft": (lambda x: parts(fft.rfft(x, workers=1)), X),
    "irfft": (lambda x: fft.irfft(x + 0.5j * x, n=8), X),
    "hfft": (lambda x: fft.hfft(x, 9), X),
    "ihfft": (lambda x: parts(fft.ihfft(x)), X),
    "fft2": (lambda x: parts(fft.fft2(x)), T),
    "ifft2": (lambda x: parts(fft.ifft2(x, s=(4, 3))), T),
    "rfft2": (lambda x: parts(fft.rfft2(x)), T),
    "irfft2": (lambda x: fft.irfft2(x + 0j), T),
    "fftn": (lambda x: parts(fft.fftn(x, axes=(0,))), T),
    "ifftn": (lambda x: parts(fft.ifftn(x)), T),
    "rfftn": (lambda x: parts(fft.rfftn(x)), T),
    "irfftn": (lambda x: fft.irfftn(x + 1j * x), T),
    "hfftn": (lambda x: fft.hfftn(x + 0.3j * x), T),
    "ihfftn": (lambda x: parts(fft.ihfftn(x)), T),
    "fftshift": (fft.fftshift, X),
    "ifftshift": (lambda x: fft.ifftshift(x, axes=1), T),
    **{
        f"{name} {type} {norm}": (lambda x, f=getattr(fft, name), t=type, m=norm: f(x, t, norm=m), X)
        for name in ("dct", "idct", "dst", "idst")
        for type in (1, 2, 3, 4)
        for norm in NORMS
    },
    "dct along an axis": (lambda x: fft.dct(x, n=5, axis=0), T),
    "dct truncated": (lambda x: fft.dct(x, n=2), T),
    "dct without scaling": (lambda x: fft.dct(x, norm="ortho", orthogonalize=False), X),
    "dct of complex": (lambda x: parts(fft.dct(x * (1 + 2j) + 1j * x**2)), X),
    "dctn": (lambda x: fft.dctn(x, norm="ortho"), T),
    "idctn": (lambda x: fft.idctn(x, s=(4, 5)), T),
    "dstn": (lambda x: fft.dstn(x, axes=1), T),
    "idstn": (lambda x: fft.idstn(x, 3), T),
    "fht": (lambda a: fft.fht(a, 0.1, 0.5, bias=0.2), Y),
    "ifht": (lambda a: fft.ifht(a, 0.1, 1.5), Y),
    "older fft": (lambda x: parts(fftpack.fft(x, 9)), X),
    "older ifft": (lambda x: parts(fftpack.ifft(x, axis=0)), T),
    "older fft2": (lambda x: parts(fftpack.fft2(x)), T),
    "older ifft2": (lambda x: parts(fftpack.ifft2(x, (4, 3))), T),
    "older fftn": (lambda x: parts(fftpack.fftn(x, axes=(0,))), T),
    "older ifftn": (lambda x: parts(fftpack.ifftn(x)), T),
    **{
        f"older {name} {n}": (lambda x, f=getattr(fftpack, name), n=n: f(x, n, axis=0), T)
        for name in ("rfft", "irfft")
        for n in (None, 2, 3, 4, 5)
    },
    **{
        f"older {name} {type}": (lambda x, f=getattr(fftpack, name), t=type: f(x, t, norm="ortho"), X)
        for name in ("dct", "idct", "dst", "idst")
        for type in (1, 2, 3)
    },
    "older dctn": (lambda x: fftpack.dctn(x, shape=(4, 5)), T),
    "older idstn": (lambda x: fftpack.idstn(x, norm="ortho", axes=(1,)), T),
    "older diff": (lambda x: fftpack.diff(x**2, 3, period=20.0), X),
    "older diff, even": (lambda x: fftpack.diff(x, period=2.0) * x, Y),
    "older diff of complex": (lambda x: parts(fftpack.diff(x * (1 + 2j) + 1j * x**2)), X),
    "older shift": (lambda x: fftpack.shift(x, 0.3), X),
    **{f"older {name}": (lambda x, f=getattr(fftpack, name): f(x), X) for name in ("hilbert", "ihilbert")},
    **{f"older {name}": (lambda x, f=getattr(fftpack, name): f(x, 0.4), Y) for name in ("tilbert", "itilbert")},
    **{
        f"older {name}": (lambda x, f=getattr(fftpack, name): f(x, 0.4, 0.7, period=3.0), Y)
        for name in ("cs_diff", "sc_diff", "ss_diff", "cc_diff")
    },
    "older rfftfreq": (lambda d: fftpack.rfftfreq(6, d), 0.3),
    "convolution": (lambda x: fft.irfft(fft.rfft(x, 16) * fft.rfft(x[::-1], 16), 16)[:7], X),
}


@pytest.mark.parametrize("name", CASES)
def test_functions_have_derivatives(name):
    f, *operands = CASES[name]
    check(f, *operands, sparse=False)
