"""Closed forms of `scipy.fft` and `scipy.integrate`."""

from __future__ import annotations

import itertools

import mpmath as mp
import numpy as np
import scipy.fft
import scipy.integrate

from .engine import Row, elements

fft, integrate = scipy.fft, scipy.integrate

P4, P5 = [0.3, -1.2, 0.7, 2.1], [0.3, -1.2, 0.7, 2.1, 0.4]


# ---- Fourier transforms


def fourier(x, sign=-1):
    n = len(x)
    return [mp.fsum(x[j] * mp.expj(sign * 2 * mp.pi * j * k / n) for j in range(n)) for k in range(n)]


def fourier2(x):
    rows = [fourier(row) for row in x]
    return list(zip(*map(fourier, zip(*rows))))


def inverse_fourier(x):
    return [y / len(x) for y in fourier(x, 1)]


def squares(x):
    return [abs(y) ** 2 for y in elements(x)]


def cosines(x, kind):
    """Return the transforms of types 1 to 4 (Makhoul 1980, as in FFTW)."""
    n = len(x)
    if kind == 1:
        inner = [[2 * mp.cos(mp.pi * j * k / (n - 1)) for j in range(1, n - 1)] for k in range(n)]
        return [x[0] + (-1) ** k * x[-1] + mp.fdot(inner[k], x[1:-1]) for k in range(n)]
    if kind == 3:
        return [
            x[0] + 2 * mp.fsum(x[j] * mp.cos(mp.pi * j * (2 * k + 1) / (2 * n)) for j in range(1, n)) for k in range(n)
        ]
    shift = 0 if kind == 2 else 1
    return [
        2 * mp.fsum(x[j] * mp.cos(mp.pi * (2 * k + shift) * (2 * j + 1) / (4 * n)) for j in range(n)) for k in range(n)
    ]


def sines(x, kind):
    n = len(x)
    if kind == 1:
        return [
            2 * mp.fsum(x[j] * mp.sin(mp.pi * (j + 1) * (k + 1) / (n + 1)) for j in range(n)) for k in range(n)
        ]
    if kind == 3:
        rest = [
            2 * mp.fsum(x[j] * mp.sin(mp.pi * (j + 1) * (2 * k + 1) / (2 * n)) for j in range(n - 1)) for k in range(n)
        ]
        return [(-1) ** k * x[-1] + rest[k] for k in range(n)]
    shift = 2 if kind == 2 else 1
    return [
        2 * mp.fsum(x[j] * mp.sin(mp.pi * (2 * k + shift) * (2 * j + 1) / (4 * n)) for j in range(n)) for k in range(n)
    ]


def transform(fun, form, point=P4, **options):
    """Return the row of the squares of a linear transform, which have second derivatives."""
    return Row(lambda p: np.abs(fun(p)) ** 2, lambda *p: squares(form(p)), point, **options)


def pairs(p):
    return [(p[0], p[1]), (p[2], p[3])]


FFT = {
    "fft": {"": transform(fft.fft, fourier), "odd": transform(fft.fft, fourier, P5)},
    "ifft": {"": transform(fft.ifft, inverse_fourier)},
    "rfft": {
        "": transform(fft.rfft, lambda x: fourier(x)[:3]),
        "odd": transform(fft.rfft, lambda x: fourier(x)[:3], P5),
    },
    "irfft": {
        "": transform(
            lambda p: fft.irfft(p[:3] + 1j * p[[4, 3, 4]] * np.array([0, 1, 0]), 4),
            lambda x: inverse_fourier([x[0], x[1] + 1j * x[3], x[2], x[1] - 1j * x[3]]),
            P5,
        )
    },
    "hfft": {"": transform(lambda p: fft.hfft(p[:3]), lambda x: fourier([x[0], x[1], x[2], x[1]]), P4[:3])},
    "ihfft": {"": transform(fft.ihfft, lambda x: inverse_fourier(x)[:3])},
    "fft2": {"": transform(lambda p: fft.fft2(p.reshape(2, 2)), lambda x: fourier2(pairs(x)))},
    "ifftn": {"": transform(lambda p: 4 * fft.ifftn(p.reshape(2, 2)), lambda x: fourier2(pairs(x)))},
    "dct": {str(k): transform(lambda p, k=k: fft.dct(p, k), lambda x, k=k: cosines(x, k)) for k in (1, 2, 3, 4)},
    "dst": {str(k): transform(lambda p, k=k: fft.dst(p, k), lambda x, k=k: sines(x, k)) for k in (1, 2, 3, 4)},
    "idct": {
        str(k): transform(
            lambda p, k=k: fft.idct(p, k), lambda x, k=k: [y / (6 if k == 1 else 8) for y in cosines(x, k)]
        )
        for k in (1, 4)
    }
    | {"2": transform(fft.idct, lambda x: [y / 8 for y in cosines(x, 3)])},
    "idst": {"2": transform(fft.idst, lambda x: [y / 8 for y in sines(x, 3)])},
    "dctn": {
        "": transform(
            lambda p: fft.dctn(p.reshape(2, 2)),
            lambda x: list(zip(*(cosines(column, 2) for column in zip(*(cosines(row, 2) for row in pairs(x)))))),
        )
    },
    "fftshift": {"": Row(lambda p: fft.fftshift(p) ** 2, lambda *p: [x * x for x in (*p[2:], *p[:2])], P4)},
}


# ---- integration


def simpson(y, x):
    """Integrate by parabolas through three points each."""
    found = []
    for i in range(0, len(y) - 2, 2):
        h, k = x[i + 1] - x[i], x[i + 2] - x[i + 1]
        found.append((h + k) / 6 * ((2 - k / h) * y[i] + (h + k) ** 2 / (h * k) * y[i + 1] + (2 - h / k) * y[i + 2]))
    return mp.fsum(found)


def gauss(f, a, b):
    nodes = [mp.findroot(lambda x: mp.legendre(4, x), guess) for guess in (-0.86, -0.34, 0.34, 0.86)]
    weights = [2 * (1 - x * x) / (5 * mp.legendre(5, x)) ** 2 for x in nodes]
    return (b - a) / 2 * mp.fsum(w * f((b - a) / 2 * x + (a + b) / 2) for w, x in zip(weights, nodes))


def trapezoids(y, x):
    return [(x[i + 1] - x[i]) * (y[i] + y[i + 1]) / 2 for i in range(len(y) - 1)]


def places(p):
    return list(itertools.accumulate(p))


INTEGRATE = {
    "fixed_quad": {
        "": Row(
            lambda p: integrate.fixed_quad(lambda x: np.exp(-p[0] * x) * x, p[1], p[2], n=4)[0],
            lambda k, a, b: gauss(lambda x: mp.exp(-k * x) * x, a, b),
            [0.8, 0.2, 1.9],
        )
    },
    "simpson": {
        "": Row(
            lambda p: integrate.simpson(p[:3], x=np.cumsum(p[2:])),
            lambda *p: simpson(p[:3], places(p[2:])),
            [0.3, 1.2, 0.7, 0.5, 0.9],
        ),
        "even": Row(
            lambda p: integrate.simpson(p[:4] ** 2, dx=p[4]),
            lambda *p: _simpson_even([x * x for x in p[:4]], p[4]),
            P5,
            second=1e-12,
        ),
    },
    "trapezoid": {
        "": Row(
            lambda p: integrate.trapezoid(p[:3], x=np.cumsum(p[2:])),
            lambda *p: mp.fsum(trapezoids(p[:3], places(p[2:]))),
            P5,
        )
    },
    "cumulative_trapezoid": {
        "": Row(
            lambda p: integrate.cumulative_trapezoid(p[:3], x=np.cumsum(p[2:])),
            lambda *p: places(trapezoids(p[:3], places(p[2:]))),
            P5,
        )
    },
    "cumulative_simpson": {
        "": Row(
            lambda p: integrate.cumulative_simpson(p[:3] ** 2, dx=p[3]),
            lambda *p: _cumulative_simpson([x * x for x in p[:3]], p[3]),
            P4,
        )
    },
    "romb": {
        "": Row(
            lambda p: integrate.romb(p**2, dx=0.5),
            lambda *p: mp.fdot((7, 32, 12, 32, 7), [x * x for x in p]) / 45,
            P5,
        )
    },
}


def _cumulative_simpson(y, h):
    first = h / 12 * (5 * y[0] + 8 * y[1] - y[2])
    return [first, h / 3 * (y[0] + 4 * y[1] + y[2])]


def _simpson_even(y, h):
    """Apply Simpson's rule to the first interval pair, and to the last interval the parabola through its neighbours."""
    return h / 3 * (y[0] + 4 * y[1] + y[2]) + h / 12 * (5 * y[3] + 8 * y[2] - y[1])
