"""Filters, convolutions, spectra, filter design and linear systems of ``scipy.signal``."""

import numpy as np
import pytest
from scipy import signal

import wengert as wg
from scipy_cases import check
from wengert.errors import UnsupportedFunctionError

X = np.sin(np.arange(1.0, 41.0) ** 1.3)
x = X
b, a = signal.butter(3, 0.3)
sos = signal.butter(4, 0.3, output="sos")
WAVE = 20 * np.sin(0.8 * np.arange(40))
PEAKS = signal.find_peaks(WAVE)[0]

CASES = {
    "kaiserord": lambda t: np.asarray(signal.kaiserord(40 * t[0] + 30, 0.1)[1]),
    "lfilter": lambda x: signal.lfilter(b, a, x),
    "filtfilt": lambda x: signal.filtfilt(b, a, x),
    "filtfilt gust": lambda x: signal.filtfilt(b, a, x, method='gust'),
    "sosfilt": lambda x: signal.sosfilt(sos, x),
    "sosfiltfilt": lambda x: signal.sosfiltfilt(sos, x),
    "convolve": lambda x: signal.convolve(x, x[:5]),
    "fftconvolve": lambda x: signal.fftconvolve(x, x[:5], 'same'),
    "oaconvolve": lambda x: signal.oaconvolve(x, x[:5], 'same'),
    "correlate": lambda x: signal.correlate(x, x[:7]),
    "convolve2d": lambda x: signal.convolve2d(x.reshape(5, 8), x[:4].reshape(2, 2), boundary='symm', mode='same'),
    "correlate2d": lambda x: signal.correlate2d(x.reshape(5, 8), x[:4].reshape(2, 2), boundary='wrap'),
    "convolve nd": lambda x: signal.convolve(x.reshape(5, 8), x[:6].reshape(2, 3), mode='same', method='direct'),
    "savgol": lambda x: signal.savgol_filter(x, 7, 2),
    "savgolnear": lambda x: signal.savgol_filter(x, 7, 2, deriv=1, mode='nearest'),
    "hilbert": lambda x: np.abs(signal.hilbert(x)),
    "envelope": lambda x: signal.envelope(x)[0],
    "resample": lambda x: signal.resample(x, 30),
    "resample_poly": lambda x: signal.resample_poly(x, 3, 2),
    "decimate": lambda x: signal.decimate(x, 2),
    "decimatefir": lambda x: signal.decimate(x, 2, ftype='fir'),
    "upfirdn": lambda x: signal.upfirdn([1, 0.5, 0.2], x, 2, 3),
    "detrend": lambda x: signal.detrend(x),
    "welch": lambda x: signal.welch(x, nperseg=16)[1],
    "csd": lambda x: np.abs(signal.csd(x, x ** 2, nperseg=16)[1]),
    "coh": lambda x: signal.coherence(x, x ** 2, nperseg=16)[1],
    "periodogram": lambda x: signal.periodogram(x)[1][1:],
    "spectrogram": lambda x: signal.spectrogram(x, nperseg=16)[2],
    "stft": lambda x: np.abs(signal.stft(x, nperseg=16)[2]) ** 2,
    "istft": lambda x: signal.istft(signal.stft(x, nperseg=16)[2])[1],
    "freqz": lambda t: np.abs(signal.freqz(t[:3], 1 + t[3:6] * 0.1 + 0.5, worN=8)[1]),
    "freqz2": lambda t: np.abs(signal.freqz([1.0, t[0]], [1.0, 0.3], worN=512)[1]),
    "freqs": lambda t: np.abs(signal.freqs([1.0], [1.0, t[0]], worN=np.arange(1.0, 5))[1]),
    "butter": lambda t: signal.butter(3, 0.3 + 0.01 * t[1])[0],
    "butter sos": lambda t: signal.butter(4, 0.3 + 0.01 * t[1], output='sos'),
    "butter fs": lambda t: signal.butter(2, 10 + t[1], fs=100.0)[1],
    "cheby1": lambda t: signal.cheby1(3, 1.0, 0.3 + 0.01 * t[1])[1],
    "cheby2": lambda t: signal.cheby2(3, 20.0, 0.3 + 0.01 * t[1])[1],
    "ellip": lambda t: signal.ellip(3, 1.0, 20.0, 0.3 + 0.01 * t[1])[1],
    "bessel": lambda t: signal.bessel(3, 0.3 + 0.01 * t[1])[1],
    "iirnotch": lambda t: signal.iirnotch(0.3 + 0.01 * t[1], 30.0)[0],
    "iirpeak": lambda t: signal.iirpeak(0.3 + 0.01 * t[1], 30.0)[1],
    "firls": lambda t: signal.firls(9, [0, 0.3, 0.5, 1.0], [1.0, t[1] * 1.0, 0.0, 0]),
    "bilinear": lambda t: signal.bilinear([1.0], [1.0, t[1]])[0],
    "zpk2tf": lambda t: signal.zpk2tf([t[1]], [0.3], 1.0)[0],
    "tf2zpk": lambda t: signal.tf2zpk([1.0, t[1]], [1.0, 0.3, 0.02])[0].real,
    "tf2ss": lambda t: signal.tf2ss([1.0, t[1]], [1.0, 0.3, 0.02])[2],
    "ss2tf": lambda t: signal.ss2tf([[t[1], 1], [0.0, -1]], [[0], [1.0]], [[1.0, 0]], [[0.0]])[1],
    "zpk2sos": lambda t: signal.zpk2sos([t[1] * 0.5], [0.3], 1.0),
    "sos2tf": lambda t: signal.sos2tf(sos * t[1])[0],
    "kaiser": lambda t: signal.windows.kaiser(9, 3 + t[1]),
    "gaussian": lambda t: signal.windows.gaussian(9, 3 + t[1]),
    "tukey": lambda t: signal.windows.tukey(9, 0.5 + 0.1 * t[1]),
    "get_window": lambda t: signal.get_window(('kaiser', 3 + t[1]), 9),
    "hann": lambda x: x * signal.windows.hann(40),
    "chirp": lambda t: signal.chirp(np.arange(5.0) * t[1], 1.0, 2.0, 3.0),
    "gausspulse": lambda t: signal.gausspulse(np.arange(5.0) * 0.1 * t[1], fc=5),
    "lsim": lambda t: signal.lsim(([[-t[1]]], [[1.0]], [[1.0]], [[0.0]]), x, np.arange(40.0) * 0.1)[1],
    "impulse": lambda t: signal.impulse(([1.0], [1.0, 1 + t[1]]), T=np.arange(5.0))[1],
    "step": lambda t: signal.step(([1.0], [1.0, 1 + t[1]]), T=np.arange(5.0))[1],
    "ltistep": lambda t: signal.lti([1.0], [1.0, 1 + t[1]]).step(T=np.arange(5.0))[1],
    "tf": lambda t: signal.TransferFunction([1.0], [1.0, 1 + t[1]]).to_ss().A,
    "dlsim": lambda t: signal.dlsim(([[0.5 * t[1]]], [[1.0]], [[1.0]], [[0.0]], 0.1), x)[1],
    "bode": lambda t: signal.bode(([1.0], [1.0, 1 + t[1]]), w=np.arange(1.0, 5))[1],
    "dstep": lambda t: signal.dstep(([0.5], [1.0, 0.2 * t[1]], 1.0), n=5)[1][0],
    "freqresp": lambda t: np.abs(signal.freqresp(([1.0], [1.0, 1 + t[1]]), w=np.arange(1.0, 5))[1]),
    "czt": lambda x: np.abs(signal.czt(x, 8)),
    "zoom_fft": lambda x: np.abs(signal.zoom_fft(x, 0.3, 8)),
    "deconvolve": lambda x: signal.deconvolve(x, [1.0, 0.5])[0],
    "lfilter_zi": lambda t: signal.lfilter_zi(b, a * np.array([1.0, 1, 1, t[1]])),
    "lfiltic": lambda t: signal.lfiltic(b, a, t[:3]),
    "vectorstrength": lambda x: signal.vectorstrength(x, 1.3)[0],
    "cspline1d": lambda x: signal.cspline1d(x),
    "cspline_eval": lambda x: signal.cspline1d_eval(x, np.array([1.2, 3.4])),
    "gauss_spline": lambda x: signal.gauss_spline(x, 3),
    "stftobj": lambda x: np.abs(signal.ShortTimeFFT(np.hanning(8), 4, 1.0).stft(x)) ** 2,
    "savgol_coeffs": lambda t: signal.savgol_coeffs(5, 2, delta=1 + 0.1 * t[1], deriv=1),
    "zi": lambda x: signal.lfilter(b, a, x, zi=x[:3])[1],
    "iircomb": lambda t: signal.iircomb(0.25, 30.0 + t[1])[0],
    "normalize": lambda t: signal.normalize([1.0, t[1]], [2.0, 1.0])[0],
    "firwin": lambda t: signal.firwin(9, 0.3 + 0.01 * t[1]),
    "firwin bandpass": lambda t: signal.firwin(11, [4 + t[1], 9.0], pass_zero=False, fs=40),
    "firwin2": lambda t: signal.firwin2(7, [0, 0.4, 0.6, 1], [1.0, 2 + t[1], 0.5, 0]),
    "minimum_phase": lambda t: signal.minimum_phase(signal.firwin(9, 0.4 + 0.01 * t[1]), n_fft=256),
    "wiener": lambda x: signal.wiener(x, 3),
    "order_filter": lambda x: signal.order_filter(x, np.ones(3), 1),
    "medfilt": lambda x: signal.medfilt(x, 3),
    "medfilt2d": lambda x: signal.medfilt2d(x.reshape(5, 8), 3),
    "lombscargle": lambda x: signal.lombscargle(np.arange(40) + 0.1 * x, x, np.array([0.5, 1.3])),
    "lombscargle normalised": lambda x: signal.lombscargle(
        np.arange(40.0), x, np.array([0.5, 1.3]), normalize=True, floating_mean=True
    ),
    "residue": lambda t: signal.residue([1.0, t[1]], [1.0, 3.0, 2 + 0.1 * t[0]])[0],
    "residuez": lambda t: signal.residuez([1.0, t[1]], [1.0, -0.3, -0.2 + 0.01 * t[0]])[0],
    "invres": lambda t: signal.invres([t[0], 1.0], [-1.0, -3 + t[1]], [])[0],
    "unique_roots": lambda t: signal.unique_roots(t[:4] * np.arange(1.0, 5))[0],
    "peak_prominences": lambda x: signal.peak_prominences(0.1 * x + WAVE, PEAKS)[0],
    "peak_widths": lambda x: signal.peak_widths(0.1 * x + WAVE, PEAKS)[0],
    "ends of peaks": lambda x: signal.peak_widths(0.1 * x + WAVE, PEAKS, rel_height=0.7)[3],
    "find_peaks with width": lambda x: signal.find_peaks(0.1 * x + WAVE, width=1.5)[1]["widths"],
    "upfirdn mode": lambda x: signal.upfirdn([1, 0.5, 0.2, 0.1, 0.3], x[:9], 2, 3, mode="symmetric"),
    **{
        f"upfirdn {mode}": lambda x, mode=mode: signal.upfirdn([1, 0.5, 0.2, 0.1, 0.3], x[:9], 2, 3, mode=mode)
        for mode in ("line", "smooth", "antisymmetric", "antireflect")
    },
    "resample_poly along a line": lambda x: signal.resample_poly(x, 3, 2, padtype="line"),
    "upfirdn fill": lambda x: signal.upfirdn([1, 0.5, 0.2], x[:9], 3, 2, mode="constant", cval=0.7),
    "system object": lambda t: signal.lsim(signal.lti([1.0], [1.0, 1 + t[1]]), x, np.arange(40.0) * 0.1)[1],
    "discrete system object": lambda t: signal.dstep(signal.dlti([1.0], [1.0, 0.2 * t[1]], dt=0.1), n=6)[1][0],
    "long lfilter": lambda x: signal.lfilter(x[:12], [1.0], x),
    "complex lfilter": lambda x: np.abs(signal.lfilter([1.0, 0.5j], [1.0, 0.3 + 0.2j], x + 1j * x**2)),
}


@pytest.mark.parametrize("name", CASES)
def test_filters_and_transforms_have_their_derivatives(name):
    check(CASES[name], X, order=1, batches=False, sparse=False)


SECOND = ["lfilter", "filtfilt", "sosfilt", "convolve", "savgol", "welch", "butter", "resample_poly", "upfirdn", "zi"]


@pytest.mark.parametrize("name", SECOND)
def test_functions_have_second_derivatives_and_batches(name):
    f = CASES[name]
    check(lambda x: f(x) ** 2, X[:20], compiled=False, sparse=False)


COEFFICIENTS = {
    "lfilter": (lambda b, a, x: signal.lfilter(b, a, x), b, a, X[:12]),
    "lfilter with a leading coefficient": (lambda b, a, x: signal.lfilter(b, 2 * a, x), b, a, X[:12]),
    "lfilter with a state": (lambda b, a, x, z: signal.lfilter(b, a, x, zi=z)[0], b, a, X[:12], X[:3].copy()),
    "final state": (lambda b, a, x, z: signal.lfilter(b, a, x, zi=z)[1], b, a, X[:12], X[:3].copy()),
    "lfilter along an axis": (lambda b, x: signal.lfilter(b, a, x, axis=0), b, X[:24].reshape(12, 2)),
    "filtfilt": (lambda b, a: signal.filtfilt(b, a, X), b, a),
    "sections": (lambda n, x: signal.sosfilt(np.concatenate([n, sos[:, 3:]], axis=1), x), sos[:, :3].copy(), X[:12]),
    "poles of sections": (
        lambda d: signal.sosfilt(np.concatenate([sos[:, :4], d], axis=1), X[:12]),
        sos[:, 4:].copy(),
    ),
}


@pytest.mark.parametrize("name", COEFFICIENTS)
def test_filters_have_derivatives_in_their_coefficients(name):
    f, *operands = COEFFICIENTS[name]
    check(f, *operands, batches=False, sparse=False)


def test_peaks_are_indices_and_their_heights_are_differentiated():
    def f(x):
        _, found = signal.find_peaks(x, height=0.0, prominence=0.1)
        return np.sum(found["peak_heights"] ** 2) + np.sum(found["prominences"])

    h, v = 1e-6, np.cos(np.arange(40.0))
    np.testing.assert_allclose(wg.grad(f)(X) @ v, (f(X + h * v) - f(X - h * v)) / (2 * h), rtol=1e-7)


REFUSED = {
    "remez": lambda t: signal.remez(5, [0, 0.1 + t[0] * 0, 0.2, 0.5], [1, 0]),
    "place_poles": lambda t: signal.place_poles([[0, 1], [t[0], 1]], [[0], [1]], [-1, -2]).gain_matrix,
}


@pytest.mark.parametrize("name", REFUSED)
def test_functions_without_rule_are_refused_by_name(name):
    with pytest.raises(UnsupportedFunctionError, match=rf"scipy\.signal\.{name}"):
        wg.grad(lambda t: np.sum(REFUSED[name](t)))(X)
