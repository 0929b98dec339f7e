"""Discrete Fourier transforms are linear: tangents are transforms of directions, pullbacks are adjoints."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg

OF_REAL = ("rfft", "rfftn", "rfft2", "ihfft")
ALONG_ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")

#: shape and options of transforms along one axis: truncated, zero-padded, even and odd lengths, length one
ONE = [
    ((5,), {}),
    ((6,), {"norm": "ortho"}),
    ((1,), {"n": 1}),
    ((5,), {"n": 3, "norm": "forward"}),
    ((5,), {"n": 8}),
    ((5,), {"n": 9, "norm": "backward"}),
    ((7,), {"norm": "forward"}),
    ((4,), {"norm": None}),
    ((3, 4), {"axis": 0}),
    ((2, 3, 4), {"axis": 1, "n": 5}),
    ((2, 3, 4), {"axis": -2, "n": 2, "norm": "forward"}),
]

#: along several axes: all, some, permuted, one axis twice, with lengths
SEVERAL = [
    ((3, 4), {}),
    ((2, 3, 4), {"norm": "ortho"}),
    ((2, 3, 4), {"axes": (0, 2)}),
    ((2, 3, 4), {"axes": (-1, 0), "norm": "forward"}),
    ((3, 4), {"axes": (1, 1)}),
    ((2, 3, 4), {"s": (2, 5), "axes": (2, 0)}),
    ((2, 3, 4), {"s": (-1, 6), "axes": (1, 2)}),
]

CASES = [
    *((name, shape, kwargs) for name in ALONG_ONE for shape, kwargs in ONE),
    *(
        (name, shape, kwargs)
        for name in ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2")
        for shape, kwargs in SEVERAL
    ),
    *(
        (name, shape, {"axes": axes})
        for name in ("fftshift", "ifftshift")
        for shape, axes in (((5,), None), ((3, 4), 1))
    ),
]
every = pytest.mark.parametrize(("name", "shape", "kwargs"), CASES, ids=str)


def drawn(shape, is_complex, rng):
    x = rng.normal(size=shape)
    return x + 1j * rng.normal(size=shape) if is_complex else x


def operands(name, shape, rng):
    """Return an operand and a direction: real if the transform requires it, else complex as well."""
    for is_complex in (False,) if name in OF_REAL else (False, True):
        yield drawn(shape, is_complex, rng), drawn(shape, is_complex, rng)


def close(found, expected, dtype=float):
    rtol = 1e-13 if np.dtype(dtype) == float else 1e-5
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max(initial=1.0))


@every
def test_tangent_is_transform_of_direction(name, shape, kwargs):
    fun = getattr(np.fft, name)
    for x, v in operands(name, shape, np.random.default_rng(1)):
        y, t = wg.jvp(lambda x: fun(x, **kwargs), x, v)
        assert np.array_equal(y, fun(x, **kwargs)) and y.dtype == fun(x, **kwargs).dtype
        close(t, fun(v, **kwargs))
        stack = np.stack([v, 2 * v, x])
        _, t = wg.jvp(lambda x: fun(x, **kwargs), x, stack)
        close(t, np.stack([fun(w, **kwargs) for w in stack]))
        single = x.astype(np.complex64 if np.iscomplexobj(x) else np.float32)
        y, t = wg.jvp(lambda x: fun(x, **kwargs), single, single)
        assert y.dtype == t.dtype == fun(single, **kwargs).dtype
        assert y.dtype in (np.float32, np.complex64)


def paired(a, b):
    return np.sum(np.conj(a) * b).real


@every
def test_pullback_is_the_adjoint(name, shape, kwargs):
    """Use the pairing Re(sum(conj(a) b)), for one cotangent and for several."""
    fun = getattr(np.fft, name)
    rng = np.random.default_rng(2)
    for x, v in operands(name, shape, rng):
        y, pullback = wg.vjp(lambda x: fun(x, **kwargs), x)
        ybar = drawn((3, *np.shape(y)), np.iscomplexobj(y), rng)
        xbar = pullback(ybar)
        assert xbar.shape == (3, *shape) and xbar.dtype == x.dtype
        for row, g in zip(xbar, ybar):
            close(paired(row, v), paired(g, fun(v, **kwargs)))
            close(row, pullback(g))


@every
def test_energies_of_transforms_have_gradients_and_hessians(name, shape, kwargs):
    """For half the sum of w |A x|^2 they are A* (w A x) and A* w A."""
    fun = getattr(np.fft, name)
    x, v = next(operands(name, shape, np.random.default_rng(5)))
    y, pullback = wg.vjp(lambda x: fun(x, **kwargs), x)
    w = np.cos(np.arange(np.size(y))).reshape(np.shape(y))

    def energy(x):
        return 0.5 * np.sum(w * np.abs(fun(x, **kwargs)) ** 2)

    close(wg.grad(energy, x), pullback(w * y))
    curvature = pullback(w * fun(v, **kwargs))
    close(wg.hvp(energy, x, v), curvature)
    close(wg.jvp(wg.grad(energy), x, v)[1], curvature)
    close(wg.grad(lambda x: np.sum(wg.grad(energy)(x) * v), x), curvature)


def test_half_spectrum_counts_twice_except_at_the_ends():
    for n in (1, 2, 5, 6):
        x = np.random.default_rng(3).normal(size=n)
        half = np.fft.rfft(x)
        counts = 2.0 * np.ones(n // 2 + 1)
        counts[0] = 1
        if n % 2 == 0:
            counts[-1] = 1
        t = wg.jvp(lambda x: np.sum(counts * np.abs(np.fft.rfft(x)) ** 2) / n, x, np.eye(n))[1]  # Parseval's theorem
        close(t, 2 * x)
        close(np.fft.irfft(half, n), x)


@pytest.mark.parametrize("name", ["irfft", "hfft", "irfft2", "irfftn"])
def test_half_spectrum_input_may_be_real(name):
    fun, x = getattr(np.fft, name), np.random.default_rng(6).normal(size=(3, 4))
    energy = lambda x: np.sum(np.sin(fun(x)))
    slope, h = wg.grad(energy), 1e-4
    v = np.cos(np.arange(12.0)).reshape(3, 4)
    expected = (8 * (slope(x + h * v) - slope(x - h * v)) - (slope(x + 2 * h * v) - slope(x - 2 * h * v))) / (12 * h)
    for found in (wg.hvp(energy, x, v), wg.jvp(slope, x, v)[1], wg.vjp(slope, x)[1](v)):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def test_frequencies_are_constants_and_vary_with_their_spacing():
    def spectral_slope(x, d):
        k = np.fft.fftfreq(len(x), d)
        k[0] = 0.0 * x[0]  # allocated from x, so that it can hold traced values
        return np.fft.ifft(2j * np.pi * k * np.fft.fft(x)).real

    x = np.cos(2 * np.pi * np.arange(8) / 8)
    slope = -2 * np.pi * np.sin(2 * np.pi * np.arange(8) / 8)
    y, t = wg.jvp(lambda x: spectral_slope(x, 1 / 8), x, x)
    close(y, slope)
    close(t, slope)
    close(wg.derivative(lambda d: np.fft.fftfreq(5, d), 0.5), -np.fft.fftfreq(5, 0.5) / 0.5)
    close(wg.derivative(lambda d: np.fft.rfftfreq(5, d=d), 0.5), -np.fft.rfftfreq(5, 0.5) / 0.5)


@pytest.mark.parametrize("f", [np.fft.fft, np.fft.rfft])
def test_gradients_transform_a_real_array_once(f, monkeypatch):
    module, computed = np.fft._pocketfft, []
    compute = module._raw_fft
    monkeypatch.setattr(module, "_raw_fft", lambda *args, **options: computed.append(args) or compute(*args, **options))
    wg.grad(lambda x: np.sum(np.abs(f(x)) ** 2))(np.arange(8.0))
    assert len(computed) == 2  # one is that of the pullback


def test_transforms_accept_lists_and_write_to_out():
    x = np.random.default_rng(4).normal(size=4)

    def f(x):
        out = np.zeros(3, dtype=complex)
        np.fft.rfft(x, out=out)
        return out * np.fft.fft([x[0], x[1], 2.0])

    y, t = wg.jvp(f, x, x)
    assert np.array_equal(y, f(x))
    close(t, np.fft.rfft(x) * (np.fft.fft([x[0], x[1], 2.0]) + np.fft.fft([x[0], x[1], 0.0])))
    for name in ("fft", "hfft"):
        with pytest.raises(ValueError, match="Invalid norm"):
            wg.jvp(lambda x, name=name: getattr(np.fft, name)(x, norm="unit"), x, x)
    with pytest.raises(TypeError):
        wg.jvp(lambda x: np.fft.rfft(x + 1j), x, x)
