"""Closed forms of `scipy.signal`."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import scipy.signal

from .engine import Row
from .transforms import P4, P5, fourier, inverse_fourier, squares

signal = scipy.signal
windows = scipy.signal.windows

X8 = [0.3, -1.2, 0.7, 2.1, 0.4, 1.3, -0.6, 0.9]
FILTER = [0.3, 1.2, -0.4]


def one(x):
    """Return the coefficients of a denominator of order 1."""
    return np.stack([np.ones(()), x])


def filtered(b, a, x, before=(0, 0)):
    """Return the result of a recursive filter of order 1, after an input and an output."""
    y = []
    for value in x:
        y.append(b[0] * value + b[1] * before[0] - a * before[1])
        before = value, y[-1]
    return y


def steady(b, a, x):
    return filtered(b, a, x, (x[0], (b[0] + b[1]) / (1 + a) * x[0]))


def both_ways(b, a, x):
    return steady(b, a, steady(b, a, x)[::-1])[::-1]


def section(s, x):
    """Return the result of a recursive filter of order 2."""
    y = []
    for k in range(len(x)):
        terms = [s[i] * x[k - i] for i in range(3) if k >= i] + [-s[2 + i] * y[k - i] for i in (1, 2) if k >= i]
        y.append(mp.fsum(terms))
    return y


def convolved(x, y):
    return [mp.fsum(x[j] * y[k - j] for j in range(len(x)) if 0 <= k - j < len(y)) for k in range(len(x) + len(y) - 1)]


def response(b, a, w):
    above, below = (mp.fsum(x * mp.expj(-k * w) for k, x in enumerate(part)) for part in (b, a))
    return above / below


def analytic(x):
    n = len(x)
    spectrum = fourier(x)
    kept = [y * (1 if k in (0, n // 2) else 2 if k < n // 2 else 0) for k, y in enumerate(spectrum)]
    return inverse_fourier(kept)


def resampled(x, n):
    """Pad the spectrum of an even number of points."""
    m, spectrum = len(x), fourier(x)
    padded = [mp.mpf(0)] * n
    for k in range(m // 2):
        padded[k] = spectrum[k]
        padded[-k if k else 0] = spectrum[-k if k else 0]
    padded[m // 2] = padded[-(m // 2)] = spectrum[m // 2] / 2
    return [y * n / m for y in inverse_fourier(padded)]


def without_line(x):
    n = len(x)
    place = [mp.mpf(i) - mp.mpf(n - 1) / 2 for i in range(n)]
    middle, slope = mp.fsum(x) / n, mp.fdot(place, x) / mp.fdot(place, place)
    return [y - middle - slope * u for u, y in zip(place, x)]


def density(x, window, rate):
    """Return the one-sided density of power of one segment."""
    n = len(x)
    power = squares(fourier([a * b for a, b in zip(x, window)])[: n // 2 + 1])
    scale = rate * mp.fdot(window, window)
    return [y * (1 if k in (0, n // 2) else 2) / scale for k, y in enumerate(power)]


def hann(n):
    return [(1 - mp.cos(2 * mp.pi * k / n)) / 2 for k in range(n)]


def centred(n):
    return [mp.mpf(k) - mp.mpf(n - 1) / 2 for k in range(n)]


def tukey(n, a):
    last = mp.mpf(n - 1)

    def at(k):
        k = min(k, n - 1 - k)
        return (1 - mp.cos(2 * mp.pi * k / (a * last))) / 2 if k < a * last / 2 else mp.mpf(1)

    return [at(k) for k in range(n)]


def kaiser(n, beta):
    return [mp.besseli(0, beta * mp.sqrt(1 - (2 * u / (n - 1)) ** 2)) / mp.besseli(0, beta) for u in centred(n)]


def window(fun, form, point, **options):
    return {"": Row(lambda p: fun(6, p[0]), lambda x: form(6, x), [point], **options)}


def butterworth(w, warp=True):
    """Return the low-pass filter of order 2 by the bilinear transformation."""
    k = mp.tan(mp.pi * w / 2)
    scale = 1 + mp.sqrt(2) * k + k * k
    b = k * k / scale
    return [b, 2 * b, b], [1, 2 * (k * k - 1) / scale, (1 - mp.sqrt(2) * k + k * k) / scale]


def high_butterworth(w):
    k = mp.tan(mp.pi * w / 2)
    scale = 1 + mp.sqrt(2) * k + k * k
    return [1 / scale, -2 / scale, 1 / scale], butterworth(w)[1]


def chebyshev(w, ripple):
    """Return the first analog filter of order 1 with a ripple in decibels."""
    pole = w / mp.sqrt(mp.power(10, ripple / 10) - 1)
    return [pole], [1, pole]


def pulse(t, fc, bw):
    a = -((mp.pi * fc * bw) ** 2) / (4 * mp.log(mp.power(10, mp.mpf(-6) / 20)))
    return mp.exp(-a * t * t) * mp.cos(2 * mp.pi * fc * t)


def discretised(a, b, dt):
    """Return the state and input matrices of a scalar system, with the input held."""
    return mp.exp(a * dt), mp.expm1(a * dt) / a * b


def firwin(n, cutoff):
    """Return the low-pass filter with a Hamming window, scaled at frequency zero."""
    taps = [
        cutoff * mp.sincpi(cutoff * u) * (mp.mpf(0.54) - mp.mpf(0.46) * mp.cos(2 * mp.pi * k / (n - 1)))
        for k, u in enumerate(centred(n))
    ]
    return [t / mp.fsum(taps) for t in taps]


def savgol(x):
    """Smooth the inner points by parabolas through five points."""
    weights = [mp.mpf(w) / 35 for w in (-3, 12, 17, 12, -3)]
    return [mp.fdot(weights, x[k : k + 5]) ** 2 for k in range(len(x) - 4)]


def lomb(x, y, w):
    """Return the periodogram of Lomb (1976) at one frequency."""
    tau = mp.atan2(mp.fsum(mp.sin(2 * w * t) for t in x), mp.fsum(mp.cos(2 * w * t) for t in x)) / (2 * w)
    c, s = ([f(w * (t - tau)) for t in x] for f in (mp.cos, mp.sin))
    return (mp.fdot(y, c) ** 2 / mp.fdot(c, c) + mp.fdot(y, s) ** 2 / mp.fdot(s, s)) / 2


CASES = {
    "lfilter": {
        "": Row(
            lambda p: signal.lfilter(p[:2], one(p[2]), p[3:]),
            lambda *p: filtered(p[:2], p[2], p[3:]),
            [*FILTER, 0.7, 2.1, 0.5],
        ),
        "initial state": Row(
            lambda p: signal.lfilter(p[:2], one(p[2]), p[3:6], zi=p[6:])[0],
            lambda *p: filtered(p[:2], p[2], p[3:6], (p[6] / p[1], 0)),
            [*FILTER, 0.7, 2.1, 0.5, 0.9],
        ),
    },
    "lfilter_zi": {
        "": Row(
            lambda p: signal.lfilter_zi(p[:2], one(p[2])), lambda b, c, a: (c - a * b) / (1 + a), FILTER
        )
    },
    "filtfilt": {
        "": Row(
            lambda p: signal.filtfilt(p[:2], one(p[2]), p[3:], padtype=None),
            lambda *p: both_ways(p[:2], p[2], p[3:]),
            [*FILTER, 0.7, 2.1, 0.5],
        )
    },
    "sosfilt": {
        "": Row(
            lambda p: signal.sosfilt(np.concatenate([p[:3], np.ones(1), p[3:5]])[None], p[5:]),
            lambda *p: section(p[:5], p[5:]),
            [0.3, 1.2, -0.4, -0.5, 0.2, 0.7, 2.1, 0.5],
        )
    },
    "convolve": {
        method: Row(
            lambda p, method=method: signal.convolve(p[:3], p[2:], method=method),
            lambda *p: convolved(p[:3], p[2:]),
            P5,
        )
        for method in ("direct", "fft")
    },
    "fftconvolve": {
        "": Row(lambda p: signal.fftconvolve(p[:3], p[2:]), lambda *p: convolved(p[:3], p[2:]), P5)
    },
    "oaconvolve": {"": Row(lambda p: signal.oaconvolve(p[:3], p[2:]), lambda *p: convolved(p[:3], p[2:]), P5)},
    "correlate": {
        "": Row(lambda p: signal.correlate(p[:3], p[2:]), lambda *p: convolved(p[:3], p[:1:-1]), P5)
    },
    "convolve2d": {
        "": Row(
            lambda p: signal.convolve2d(p[None, :3], p[None, 2:]), lambda *p: convolved(p[:3], p[2:]), P5
        )
    },
    "upfirdn": {
        "": Row(
            lambda p: signal.upfirdn(p[:2], p[2:], up=2),
            lambda *p: convolved(p[:2], [y for x in p[2:] for y in (x, 0)][:-1]),
            P5,
        )
    },
    "savgol_filter": {"": Row(lambda p: signal.savgol_filter(p, 5, 2)[2:-2] ** 2, lambda *p: savgol(p), X8)},
    "hilbert": {"": Row(lambda p: np.abs(signal.hilbert(p)), lambda *p: [abs(y) for y in analytic(p)], P4)},
    "envelope": {
        "": Row(
            lambda p: signal.envelope(p, bp_in=(None, None), residual=None),
            lambda *p: [abs(y) for y in analytic(p)],
            X8,
        )
    },
    "resample": {
        "": Row(lambda p: signal.resample(p, 6) ** 2, lambda *p: [y.real**2 for y in resampled(p, 6)], P4)
    },
    "detrend": {
        "linear": Row(lambda p: signal.detrend(p) ** 2, lambda *p: [y * y for y in without_line(p)], P5),
        "constant": Row(
            lambda p: signal.detrend(p, type="constant") ** 2,
            lambda *p: [(y - mp.fsum(p) / 5) ** 2 for y in p],
            P5,
        ),
    },
    "periodogram": {
        "": Row(
            lambda p: signal.periodogram(p, 2.0, detrend=False)[1], lambda *p: density(p, [mp.mpf(1)] * 8, 2), X8
        )
    },
    "welch": {
        "": Row(
            lambda p: signal.welch(p, nperseg=4, noverlap=0, detrend=False)[1],
            lambda *p: [(a + b) / 2 for a, b in zip(density(p[:4], hann(4), 1), density(p[4:], hann(4), 1))],
            X8,
        )
    },
    "lombscargle": {
        "": Row(
            lambda p: signal.lombscargle(np.cumsum(p[:3]), p[3:6], p[6:]),
            lambda *p: lomb((p[0], p[0] + p[1], p[0] + p[1] + p[2]), p[3:6], p[6]),
            [0.3, 1.2, 0.7, 2.1, 0.4, -0.5, 1.7],
            first=1e-12,
            second=1e-11,
        )
    },
    "freqz": {
        "": Row(
            lambda p: np.abs(signal.freqz(p[:2], one(p[2]), worN=[0.7])[1][0]),
            lambda b, c, a: abs(response((b, c), (1, a), mp.mpf(0.7))),
            FILTER,
        )
    },
    "freqs": {
        "": Row(
            lambda p: np.abs(signal.freqs(p[:2], one(p[2]), worN=[0.7])[1][0]),
            lambda b, c, a: abs((b * mp.mpc(0, 0.7) + c) / (mp.mpc(0, 0.7) + a)),
            FILTER,
        )
    },
    "group_delay": {
        "": Row(
            lambda p: signal.group_delay((p[:2], one(p[2])), w=[0.7])[1][0],
            lambda b, c, a: mp.re(c * mp.expj(-mp.mpf(0.7)) / (b + c * mp.expj(-mp.mpf(0.7))))
            - mp.re(a * mp.expj(-mp.mpf(0.7)) / (1 + a * mp.expj(-mp.mpf(0.7)))),
            FILTER,
        )
    },
    "butter": {
        "low": Row(lambda p: signal.butter(2, p[0]), lambda w: butterworth(w), [0.3], value=1e-11),
        "high": Row(lambda p: signal.butter(2, p[0], "high"), lambda w: high_butterworth(w), [0.3], value=1e-11),
        "analog": Row(
            lambda p: signal.butter(2, p[0], analog=True), lambda w: [w * w, 1, mp.sqrt(2) * w, w * w], [0.3]
        ),
    },
    "cheby1": {
        "analog": Row(
            lambda p: signal.cheby1(1, p[1], p[0], analog=True), lambda w, r: chebyshev(w, r), [0.3, 1.7]
        )
    },
    "bilinear": {
        "": Row(
            lambda p: signal.bilinear(p[:1], one(p[1]), 0.5),
            lambda b, a: [b / (1 + a), b / (1 + a), 1, (a - 1) / (1 + a)],
            [0.3, 1.2],
        )
    },
    "firwin": {"": Row(lambda p: signal.firwin(5, p[0]), lambda c: firwin(5, c), [0.3])},
    "chirp": {
        "linear": Row(
            lambda p: signal.chirp(p[0], p[1], p[2], p[3]),
            lambda t, f0, t1, f1: mp.cos(2 * mp.pi * (f0 * t + (f1 - f0) * t * t / (2 * t1))),
            [0.3, 1.2, 2.0, 2.1],
        ),
        "logarithmic": Row(
            lambda p: signal.chirp(p[0], p[1], p[2], p[3], method="logarithmic"),
            lambda t, f0, t1, f1: mp.cos(
                2 * mp.pi * t1 * f0 / mp.log(f1 / f0) * ((f1 / f0) ** (t / t1) - 1)
            ),
            [0.3, 1.2, 2.0, 2.1],
            second=1e-12,
        ),
    },
    "gausspulse": {
        "": Row(lambda p: signal.gausspulse(p[0], p[1], p[2]), lambda t, f, b: pulse(t, f, b), [0.1, 1.2, 0.5])
    },
    "cont2discrete": {
        "held input": Row(
            lambda p: signal.cont2discrete((p[:1, None], p[1:2, None], np.ones((1, 1)), np.zeros((1, 1))), 0.5)[:2],
            lambda a, b: discretised(a, b, mp.mpf(0.5)),
            [-0.3, 1.2],
        ),
        "bilinear": Row(
            lambda p: signal.cont2discrete(
                (p[:1, None], p[1:2, None], np.ones((1, 1)), np.zeros((1, 1))), 0.5, method="bilinear"
            )[:2],
            lambda a, b: ((1 + a / 4) / (1 - a / 4), b / 2 / (1 - a / 4)),
            [-0.3, 1.2],
        ),
    },
    "zpk2tf": {
        "": Row(
            lambda p: signal.zpk2tf(p[:1], p[1:3], p[3]),
            lambda z, a, b, k: [k, -k * z, 1, -a - b, a * b],
            [0.3, -1.2, 0.7, 2.1],
        )
    },
    "czt": {"": Row(lambda p: np.abs(signal.czt(p)) ** 2, lambda *p: squares(fourier(p)), P4, second=1e-12)},
    "zoom_fft": {
        "": Row(
            lambda p: np.abs(signal.zoom_fft(p, [0, 2], m=4)) ** 2, lambda *p: squares(fourier(p)), P4, second=1e-12
        )
    },
    "deconvolve": {
        "": Row(
            lambda p: signal.deconvolve(p[:3], p[3:]),
            lambda a, b, c, d, e: [a / d, (b - a / d * e) / d, 0, 0, c - (b - a / d * e) / d * e],
            P5,
        )
    },
    "windows.gaussian": window(
        windows.gaussian, lambda n, s: [mp.exp(-u * u / (2 * s * s)) for u in centred(n)], 1.3
    ),
    "windows.kaiser": window(windows.kaiser, kaiser, 2.3),
    "windows.tukey": window(windows.tukey, tukey, 0.7),
    "windows.exponential": window(
        lambda n, t: windows.exponential(n, tau=t), lambda n, t: [mp.exp(-abs(u) / t) for u in centred(n)], 1.3
    ),
    "windows.general_hamming": window(
        windows.general_hamming,
        lambda n, a: [a - (1 - a) * mp.cos(2 * mp.pi * k / (n - 1)) for k in range(n)],
        0.6,
    ),
    "windows.general_gaussian": {
        "": Row(
            lambda p: windows.general_gaussian(6, p[0], p[1]),
            lambda q, s: [mp.exp(-(abs(u / s) ** (2 * q)) / 2) for u in centred(6)],
            [1.4, 1.7],
        )
    },
}
