"""Complex values: tangents against differences, closed forms and mpmath; pullbacks as adjoints; second derivatives."""

from __future__ import annotations

import pickle
import re

import mpmath
import numpy as np
import pytest

import helpers
import wengert as wg
from helpers import rows_of_numpy
from wengert import features, registry
from wengert.core.dispatch import dispatch
from wengert.errors import ComplexValueError, TracedValueError, UnsupportedFunctionError
from wengert.rules.factors import cholesky_adjoint


def parts(x):
    """Return real and imaginary parts side by side, because the helpers take real arrays."""
    x = np.asarray(x)
    return np.stack([x.real, x.imag]) if np.iscomplexobj(x) else x


def assert_rounding(found, expected):
    """Compare relative to the modulus: the parts of a complex value have no better accuracy."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape
    if not np.iscomplexobj(found):
        helpers.assert_rounding(found, expected)
    else:
        assert np.all(np.abs(found - expected) <= 1e-14 * np.abs(expected)), (found, expected)


def assert_same_bits(found, expected):
    helpers.assert_same_bits(parts(found), parts(expected))


def numbers(*shape, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def by_differences(f, x, v):
    """Return the derivative along a real line, extrapolated to about ten digits."""
    d = [(np.asarray(f(x + h * v)) - np.asarray(f(x - h * v))) / (2 * h) for h in (1e-3, 2e-3, 4e-3)]
    e = [(4 * d[i] - d[i + 1]) / 3 for i in (0, 1)]
    return (16 * e[0] - e[1]) / 15


def check_directions(f, x, seed=0, rtol=1e-8):
    """Compare tangents at x, real or complex, with differences along 1, along i, and along a combination."""
    w = numbers(*np.shape(x), seed=seed)
    y = f(x)
    for v in (w, 1j * w, w.real + 0j) if np.iscomplexobj(x) else (w.real, w.imag):
        value, t = wg.jvp(f, x, v)
        assert_same_bits(np.asarray(value), np.asarray(y))
        expected = by_differences(f, x, v)
        assert np.shape(t) == np.shape(y) and np.iscomplexobj(t) == np.iscomplexobj(y)
        scale = max(1.0, np.max(np.abs(expected)))
        assert np.allclose(t, expected, rtol=rtol, atol=rtol * scale), (t, expected)


def pairing(a, b):
    return np.sum(np.conj(a) * b).real


def paired(f, x, seed=5):
    """Return the pairing of f with a constant: a real function that uses every element of f."""
    y = f(x)
    w = numbers(*np.shape(y), seed=seed)
    w = w if np.iscomplexobj(y) else w.real
    return lambda x: np.sum((np.conj(w) * f(x)).real)


def check_adjoint(f, x, rtol=1e-12):
    """Check that the pullback is adjoint to the tangents, for one and several cotangents, repeatedly."""
    y, pullback = wg.vjp(f, x)
    assert_same_bits(np.asarray(y), np.asarray(f(x)))
    w = numbers(2, *np.shape(y), seed=7)
    w = w if np.iscomplexobj(y) else w.real
    both = pullback(w)
    for v in (numbers(*np.shape(x), seed=8), 1j * numbers(*np.shape(x), seed=9)):
        v = v if np.iscomplexobj(x) else (v + 0.5 * np.ones_like(v)).real
        t = wg.jvp(f, x, v)[1]
        for one, g in zip(w, both):
            assert np.shape(g) == np.shape(x) and np.iscomplexobj(g) == np.iscomplexobj(x)
            scale = np.sum(np.abs(np.conj(one) * t)) + np.sum(np.abs(np.conj(g) * v))
            assert abs(pairing(one, t) - pairing(g, v)) <= rtol * scale
    assert np.allclose(pullback(w[0]), both[0], rtol=1e-13, atol=1e-13 * np.max(np.abs(both[0]), initial=1.0))
    assert_same_bits(np.asarray(y), np.asarray(f(x)))


def check_second(f, x, rtol=1e-7):
    """Compare second derivatives (forward and reverse over reverse, and over forward) with differences."""
    phi = paired(f, x)
    v = numbers(*np.shape(x), seed=4)
    v = v if np.iscomplexobj(x) else v.real
    expected = by_differences(wg.grad(phi), x, v)
    tolerance = {"rtol": rtol, "atol": rtol * max(1.0, np.max(np.abs(expected)))}
    assert np.allclose(wg.hvp(phi, x, v), expected, **tolerance)
    slope = lambda x: np.sum((np.conj(v) * wg.grad(phi)(x)).real)
    assert np.allclose(wg.grad(slope, x), expected, **tolerance)
    along = lambda x: wg.jvp(phi, x, v)[1]
    assert np.allclose(wg.grad(along, x), expected, **tolerance)
    assert np.allclose(wg.jvp(along, x, v)[1], pairing(expected, v), **tolerance)


# ---- elementwise functions

MP = {
    "exp": mpmath.exp,
    "log": mpmath.log,
    "log2": lambda z: mpmath.log(z) / mpmath.log(2),
    "log10": lambda z: mpmath.log(z) / mpmath.log(10),
    "log1p": lambda z: mpmath.log(1 + z),
    "exp2": lambda z: mpmath.exp(z * mpmath.log(2)),
    "expm1": lambda z: mpmath.exp(z) - 1,
    "sqrt": mpmath.sqrt,
    "square": lambda z: z * z,
    "reciprocal": lambda z: 1 / z,
    "negative": lambda z: -z,
    "positive": lambda z: z,
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "tan": mpmath.tan,
    "sinh": mpmath.sinh,
    "cosh": mpmath.cosh,
    "tanh": mpmath.tanh,
    "arcsin": mpmath.asin,
    "arccos": mpmath.acos,
    "arctan": mpmath.atan,
    "arcsinh": mpmath.asinh,
    "arccosh": mpmath.acosh,
    "arctanh": mpmath.atanh,
}

#: all quadrants, small and large moduli, points near branch points, and beyond overflow of exp
POINTS = [
    0.3 + 0.4j, -1.7 + 0.6j, -0.2 - 2.5j, 3.1 - 0.7j, 1e-9 + 1e-8j, 1.0000001 + 1e-7j, 1e-7 - 0.9999999j,
    -1.0000001 - 1e-7j, 0.5 + 20j, 18.0 - 1.1j, 1e3 + 2e3j, -4.0 + 1e-12j,
]  # fmt: skip


def exact_slope(name, z):
    with mpmath.workdps(60):
        d = mpmath.diff(MP[name], mpmath.mpc(z), h=mpmath.mpf(10) ** -25)
        return complex(d)


@pytest.mark.parametrize("name", MP)
def test_derivatives_of_analytic_functions_equal_mpmath(name):
    fun = getattr(np, name)
    for z in POINTS:
        with np.errstate(all="ignore"):
            if not np.isfinite(fun(z)):
                continue
            expected = exact_slope(name, z)
            found = wg.derivative(fun, z, holomorphic=True)
            array = wg.derivative(fun, np.array([z, z]), holomorphic=True)
        if expected == 0 or abs(expected) < 1e-290:
            assert abs(found) < 1e-290
            continue
        digits = 2e-14 if name != "exp2" else 2e-14 * (1 + abs(z) / 10)  # NumPy's value has no better accuracy
        assert abs(found - expected) <= digits * abs(expected), (z, found, expected)
        assert_rounding(array, np.array([found, found]))


@pytest.mark.parametrize("name", sorted(MP))
def test_list_of_analytic_functions_is_complete(name):
    assert registry.lookup(getattr(np, name)).on_complex


def test_every_function_of_one_operand_is_tested_or_refused():
    known = {*MP, "absolute", "conjugate"}  # `test_special_census.py` compares functions of SciPy with differences
    for fun, row in list(rows_of_numpy().items()):
        of_numpy = isinstance(fun, np.ufunc) and not row.name.startswith("scipy.")
        if row.kind == "elementwise" and of_numpy and fun.nin == 1 and fun.__name__ not in known:
            assert not row.on_complex, fun
            with pytest.raises((UnsupportedFunctionError, TypeError)):
                wg.jvp(fun, 0.3 + 0.2j, 1.0)


CUTS = {
    "sqrt": [-2.0],
    "log": [-2.0],
    "arcsin": [2.0, -2.0],
    "arccos": [2.0, -2.0],
    "arctanh": [2.0, -2.0],
    "arccosh": [0.5, -2.0],
    "arcsinh": [2.0j, -2.0j],
    "arctan": [2.0j, -2.0j],
}


@pytest.mark.parametrize("name", CUTS)
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_derivative_on_branch_cut_belongs_to_side_of_value(name, side):
    fun = getattr(np, name)
    for x in CUTS[name]:
        on = complex(x.real, side * 0.0) if isinstance(x, float) else complex(side * 0.0, x.imag)
        near = complex(x.real, side * 1e-9) if isinstance(x, float) else complex(side * 1e-9, x.imag)
        assert abs(fun(on) - fun(near)) < 1e-7
        assert abs(wg.derivative(fun, on, holomorphic=True) - exact_slope(name, near)) < 1e-7


def test_tangents_are_zero_beyond_overflow_of_exp():
    assert wg.derivative(np.tanh, 800 + 1j, holomorphic=True) == 0
    assert wg.derivative(np.tan, 1 + 800j, holomorphic=True) == 0
    assert np.isnan(wg.derivative(np.tan, complex(np.nan, 1), holomorphic=True))


A, B, C = numbers(3, seed=1), numbers(3, seed=2), numbers(3, 3, seed=3) + 2 * np.eye(3)
R = np.array([0.7, 1.3, 0.4])


def own_part_stored(x):
    """Overwrite complex values by a part of themselves."""
    x = x.copy()
    x[::-1] = x.imag
    return x * 2j


#: complex x of shape (3,)
PROGRAMS = {
    "arithmetic": lambda x: (x + A) * x / (B - x) - x**2 + 1j * x,
    "operators with numbers": lambda x: 2.0 / x + (1 + 2j) * x - 3 + x / 1j,
    "powers": lambda x: x**3 + x**-1 + x**0.5 + x ** (0.3 + 0.2j),
    "powers of constants": lambda x: 2.0**x + (1 + 1j) ** x + np.power(R, x) + np.power(-R, x),
    "both in the power": lambda x: x**x[::-1],
    "float_power": lambda x: np.float_power(x, 1.5),
    "numbers": lambda x: x[0] * x[1] / x[2] + x[0] ** 2 - 1j * x[1] ** x[2] + abs(x[0]),
    "real and imag": lambda x: x.real * x.imag[::-1],
    "own part stored": own_part_stored,
    "np.real and np.imag": lambda x: np.real(x) + 2 * np.imag(x) ** 2,
    "real_if_close": lambda x: np.real_if_close(np.conj(x) * x) * np.real_if_close(x),
    "of a number": lambda x: x[0].real * x[1].imag + x[2].conjugate(),
    "conj": lambda x: x.conj() * x**2 + np.conj(x) + x.conjugate(),
    "abs": lambda x: abs(x) + np.abs(x) * x,
    "angle": lambda x: np.angle(x) + np.angle(x, deg=True),
    "sum and mean": lambda x: np.sum(x**2) + x.mean() * 1j + np.sum(x, keepdims=True),
    "prod": lambda x: np.prod(x) + np.cumprod(x),
    "cumsum and diff": lambda x: np.cumsum(x)[:2] * np.diff(x),
    "dot": lambda x: np.dot(x, x) + x @ A + C @ x + np.inner(A, x),
    "vdot": lambda x: np.vdot(x, A) + np.vdot(A, x) * np.vdot(x, x),
    "vecdot": lambda x: np.vecdot(x, A) + np.vecdot(A, x) + np.linalg.vecdot(x, x),
    "matmul": lambda x: (C * x) @ (x[:, None] * C),
    "einsum": lambda x: np.einsum("i,ij,j->i", x, C, x),
    "outer": lambda x: np.outer(x, A) + np.kron(x, B).reshape(3, 3) + np.tensordot(x, x, 0),
    "where": lambda x: np.where(np.abs(x) > 1, x**2, 1 / x) + np.where(x.real > 0, x, 0.0),
    "stack": lambda x: np.stack([x, A, x.real]) * np.concatenate([x, R, x[:3]]).reshape(3, 3),
    "lists": lambda x: np.array([x[0], 1.0, 2j, x[1].real]) * np.array([[x[0], x[1]], [x[2], 1j]]).ravel(),
    "vstack": lambda x: np.vstack([x, x.conj()]).T.ravel()[::2],
    "append and insert": lambda x: np.append(x, 1j) * np.insert(x, 1, 2.0),
    "pad": lambda x: np.pad(x, 1) + np.pad(x, 1, "edge"),
    "indexing": lambda x: x[::-1] * x[[2, 0, 0]] + x[x.real > -9] * x[None, :][0],
    "reshape": lambda x: (x.reshape(3, 1) * x.T).swapaxes(0, 1).ravel(),
    "tril and roll": lambda x: np.tril(np.outer(x, x)) + np.roll(x, 1) + np.repeat(x[:1], 3) + np.tile(x, 1),
    "diag and trace": lambda x: np.diag(x) * np.trace(np.outer(x, C[0])),
    "polyval": lambda x: np.polyval(x, 0.3 + 1j) + np.polyval([1j, 2.0], x),
    "solve": lambda x: np.linalg.solve(C + np.diag(x), x),
    "solve many": lambda x: np.linalg.solve(C * x, C + x),
    "inv": lambda x: np.linalg.inv(C + np.diag(x)),
    "det": lambda x: np.linalg.det(C * x) + np.linalg.det(np.stack([C + np.diag(x), C])),
    "matrix_power": lambda x: np.linalg.matrix_power(C + np.diag(x), 3) + np.linalg.matrix_power(C * x, -2),
    "multi_dot": lambda x: np.linalg.multi_dot([x, C, C, x]),
    "round": lambda x: np.round(x, 0) * x,
    "copy": lambda x: x.copy() * np.copy(x) + np.array(x) + np.asarray(x, dtype=complex),
    "broadcast": lambda x: np.broadcast_to(x, (2, 3)) * np.meshgrid(x, x[:2])[0],
    "iteration": lambda x: sum(z * z.conj() for z in x),
    "as real pairs": lambda x: np.hypot(x.real, x.imag) + np.arctan2(x.imag, x.real),
    "fourier sum": lambda x: np.exp(-2j * np.pi * np.outer(np.arange(3), np.arange(3)) / 3) @ x,
    "var and std": lambda x: np.var(x) + np.std(np.outer(x, A), axis=0, ddof=1),
    "sums and products without NaN": lambda x: np.nansum(x) * np.nancumsum(x) + np.nanprod(x) * np.nancumprod(x),
    "means": lambda x: np.nanmean(x) + np.average(x, weights=R) * np.average(A, weights=x),
    "integrals and slopes": lambda x: np.trapezoid(x, R) + np.gradient(x) + np.gradient(x, R) + np.ediff1d(x, 1j),
    "interp": lambda x: np.interp([0.3, 1.7], [0.0, 1.0, 2.0], x) * np.interp(x[:2].real, [-3.0, 0.0, 9.0], A),
    "convolve": lambda x: np.convolve(x, A) * np.convolve(B[:2], x * x[0])[0] + np.convolve(x, x),
    "correlate": lambda x: np.correlate(x, A, "full") * np.correlate(B, x, "full") + np.correlate(x, x),
    "cov": lambda x: np.cov(np.outer(x, A), x),
    "pieces": lambda x: np.piecewise(x, [x.real > 1, x.real <= 1], [lambda z: z * z, lambda z: -z]) * np.trim_zeros(x),
    "polynomials": lambda x: np.polymul(x, A)[1:4] * np.polyadd(x, B) + np.polysub(x, 1j) * np.polyint(x)[:3],
    "more polynomials": lambda x: np.polyder(x)[0] * np.polydiv(B, x[:2])[0] + np.vander(x, 2)[0] * 1j,
    "fit of a polynomial": lambda x: np.polyfit(R, x, 1) * x[0],
    "roots": lambda x: np.roots(x) ** 2,
    "choose": lambda x: np.choose([0, 1, 1], [x, x * 1j]) * np.apply_along_axis(lambda v: v * v[0], 0, x),
    "methods of ufuncs": lambda x: np.subtract.accumulate(x) * np.divide.reduce(x) * np.multiply.outer(x, A)[0],
    "segments": lambda x: np.add.reduceat(x, [0, 2]) * np.multiply.reduceat(x, [1, 0]) + np.add.reduce(x),
    "order": lambda x: np.sort(x) * np.partition(x, 1) + np.max(x) - np.ptp(x) * np.amin(x) + np.unique(x),
    "medians": lambda x: np.median(x) * np.nanmedian(np.outer(x, A), axis=0) + np.nanmax(x) * np.nanmin(x),
    "greater and less": lambda x: np.maximum(x, A) * np.minimum(x, 0.3) + np.fmax(x, B) * np.fmin(1j, x),
    "clip": lambda x: np.clip(x, -1, 0.5j) * np.clip(A, x, 2) * np.clip(x, None, x[0]),
    "sign and sinc": lambda x: np.sign(x) * np.sign(x[0]) + np.sinc(x) * np.sinc(0.1 * x),
    "numbers kept": lambda x: np.nan_to_num(x) * np.real_if_close(x) + np.real_if_close(x + x.conj()),
    "sort_complex": lambda x: np.sort_complex(x) * np.sort_complex(x.real),
    "spreads": lambda x: np.nanvar(x) * np.nanstd(np.outer(x, A), axis=0) + np.corrcoef(C * x)[0],
    "polynomials by their roots": lambda x: np.poly(x)[1:] * np.poly(C * x)[1:],
    "weighted counts": lambda x: np.histogram(R, 3, weights=x)[0] * x,
    "cross": lambda x: np.cross(x, A) * np.cross(A, x * x),
    "matvec": lambda x: np.matvec(C, x) + np.vecmat(x, C) * np.vecmat(A, np.outer(x, x)),
    "transforms": lambda x: np.fft.fft(x) * np.fft.ifft(x, 5)[:3] + np.fft.irfft(x, 5)[1:4] * np.fft.hfft(x)[:3],
    "puts": lambda x: puts(x),
    "masks and indices": lambda x: masked(x),
    "rows exchanged": lambda x: exchanged(x),
    "copyto and out": lambda x: into_arrays(x),
    "real pairs written": lambda x: pairs_written(x),
    "real pairs viewed": lambda x: viewed(x),
    "augmented": lambda x: augmented(x),
    "buffer": lambda x: buffer(x),
    "real parts written": lambda x: real_parts_written(x),
    "writes into x": lambda x: writes(x.copy()),
}  # fmt: skip

#: real x of shape (3,)
OF_REAL = {
    "exp(i x)": lambda x: np.exp(1j * x),
    "numbers": lambda x: 1j * x[0] + x[1] * (2 + 1j) - x[2] / 1j + (1 + 1j) ** x[0] + x[0] ** 1j + (1j - x[0]),
    "float64 and complex128": lambda x: np.complex128(1 + 2j) * x[0] + x[1] ** np.complex128(2j),
    "size": lambda x: np.abs(np.sum(np.exp(1j * x))) ** 2,
    "complex and back": lambda x: (x * (1 + 2j)).real + (x * 1j).imag,
    "astype": lambda x: x.astype(complex) ** 2 * 1j,
    "array of type complex": lambda x: np.array([x[0], x[1]], dtype=complex) * np.array([x[0], 1j * x[1]]),
    "x in a complex buffer": lambda x: buffer(x),
    "complex powers of negative numbers": lambda x: np.power(-np.abs(x), 0.5 + 0j),
    "solve": lambda x: np.linalg.solve(C, x) + np.linalg.solve(C + np.diag(x), A),
    "einsum": lambda x: np.einsum("i,ij,j", x, C, x * 1j),
    "full": lambda x: np.full(2, x[0] * 1j) + np.full_like(A[:2], x[1]),
    "where": lambda x: np.where(x > 0, x, 1j * x),
    "transforms": lambda x: np.fft.rfft(x, 5) * np.fft.fft(x) + np.fft.ihfft(x, 4),
    "transforms and back": lambda x: np.fft.irfft(np.fft.rfft(x) * A[:2], 3) * np.abs(np.fft.fft(x)) ** 2,
    "roots": lambda x: np.roots(x),
    "correlate": lambda x: np.correlate(x, A) * np.convolve(A, x)[0],
    "cov": lambda x: np.cov(np.outer(x, A)),
    "eigenvalues": lambda x: np.linalg.eigvals(TURN * x) ** 2,
    "eigenvectors": lambda x: np.linalg.eig(TURN * x)[1] ** 2,
    "mixed shapes": lambda x: x[:, None] * (A + x[0] * 1j) + np.outer(x, B),
}
if not features.has_matvec:
    del PROGRAMS["matvec"]

TURN = np.array([[0.3, 2.0, 0.1], [-1.5, 0.4, 0.2], [0.1, -0.3, 1.1]])  # two complex eigenvalues for the scales in use


def hermitian(a):
    return (a + a.conj().T) / 2


#: complex matrices
MATRICES = {
    "slogdet": (lambda a: both_parts(*np.linalg.slogdet(np.stack([a, a @ a]))), (3, 3)),
    "norms": (lambda a: np.linalg.norm(a) * np.linalg.norm(a, 1, axis=0) + np.linalg.norm(a, 3, axis=1), (3, 3)),
    "largest": (lambda a: np.linalg.norm(a, np.inf, axis=0) + np.linalg.norm(a, 1) + np.linalg.norm(a, np.inf), (3, 3)),
    "norms of matrices": (lambda a: np.linalg.norm(a, 2) * np.linalg.norm(a, "nuc"), (3, 3)),
    "cond": (lambda a: np.linalg.cond(a) + np.linalg.cond(a, 1), (3, 3)),
    "eigvals": (np.linalg.eigvals, (3, 3)),
    "eig": (lambda a: np.linalg.eig(a)[1] * np.linalg.eig(a)[0], (3, 3)),
    "eigvalsh": (lambda a: np.linalg.eigvalsh(hermitian(a)), (3, 3)),
    "eigh": (lambda a: np.linalg.eigh(hermitian(a))[1] * np.linalg.eigh(hermitian(a))[0], (3, 3)),
    "eigh, upper": (lambda a: np.linalg.eigh(hermitian(a), "U")[1], (3, 3)),
    "svdvals": (lambda a: np.linalg.svd(a, compute_uv=False), (4, 3)),
    "left vectors": (lambda a: np.linalg.svd(a, full_matrices=False)[0], (4, 3)),
    "right vectors": (lambda a: np.linalg.svd(a, full_matrices=False)[2], (4, 3)),
    "left vectors, wide": (lambda a: np.linalg.svd(a, full_matrices=False)[0], (3, 4)),
    "right vectors, very tall": (lambda a: np.linalg.svd(a, full_matrices=False)[2], (20, 2)),
    "low rank": (lambda a: low_rank(*np.linalg.svd(a)), (4, 3)),
    "pinv": (np.linalg.pinv, (4, 3)),
    "lstsq": (lambda a: np.linalg.lstsq(a, a[:, 0] * 1j + 1, rcond=None)[0], (4, 3)),
    "squares": (lambda a: np.prod(np.linalg.lstsq(a, np.ones(4), rcond=None)[1]), (4, 3)),
    "cholesky": (lambda a: np.linalg.cholesky(a @ a.conj().T), (3, 3)),
    "q": (lambda a: np.linalg.qr(a)[0], (4, 3)),
    "r": (lambda a: np.linalg.qr(a)[1], (3, 4)),
}  # fmt: skip


def both_parts(sign, logarithm):
    return sign * logarithm


def low_rank(u, s, vh):
    return (u[:, :2] * s[:2]) @ vh[:2]


@pytest.mark.parametrize("name", MATRICES)
def test_complex_linear_algebra_has_second_derivatives(name):
    f, shape = MATRICES[name]
    x = numbers(*shape, seed=3) + 2 * np.eye(*shape)
    check_directions(f, x)
    check_adjoint(f, x, 1e-11)
    check_second(f, x)


def test_eigenvectors_with_free_phase_have_derivative_of_phase_invariants():
    a = np.diag([1.0, 2.0, 4.0]) + 0j
    f = lambda a: np.abs(np.linalg.eigh(hermitian(a))[1][:, 1]) ** 2 @ R

    def projector(a):
        v = np.linalg.eigh(hermitian(a))[1][:, 1:]
        return v @ v.conj().T

    for g in (f, projector):
        check_directions(g, a)
        check_adjoint(g, a)
    with pytest.raises(wg.NonSmoothError, match="eigh has no derivative here: the result depends on the phase"):
        wg.grad(lambda a: np.sum(np.linalg.eigh(hermitian(a))[1][:, 1].imag), a)
    with pytest.raises(wg.NonSmoothError, match="svd has no derivative here"):
        wg.grad(lambda a: np.linalg.svd(a)[0][2, 0].imag, a)
    with pytest.raises(wg.NonSmoothError, match="a root is multiple"):
        wg.grad(lambda p: np.abs(np.roots(p)[0]), np.array([1.0, -2 - 2j, 2j]))
    with pytest.raises(wg.NonSmoothError, match="two of the eigenvalues are equal"):
        wg.grad(lambda a: np.abs(np.linalg.eigvals(a)[0]), np.eye(2) + 0j)


def puts(x):
    z = x * 1
    np.put(z, [0, 1], x[1:])
    np.putmask(z, z.imag > 0, x * 1j)
    np.place(z, [True, False, True], x[:2])
    np.add.at(z, [0, 0, 2], x)
    np.put_along_axis(z, np.array([1]), x[2:] * 1j, 0)
    return z * x


def masked(x):
    z = np.zeros(5, dtype=complex)
    z[[0, 0, 1]] = x
    z[[2, 3]] += x[1:] * 1j
    z[[2, 2]] *= x[0]
    z[z.real > 1] *= x[1]
    z[z.imag < 0] = 1j
    return z * z[::-1]


def exchanged(x):
    z = np.outer(x, A)
    z[[0, 1]] = z[[1, 0]]
    z[0], z[2] = z[2].copy(), z[0].copy()
    z.T[1] += 1j * z[0, 0]
    z[::-1, 0].imag[:] = z[:, 1].real
    return z * z


def into_arrays(x):
    z, size = np.zeros(3, dtype=complex), np.empty(3)
    np.copyto(z, x.real)
    np.copyto(z, x * 1j, where=np.array([True, False, True]))
    np.multiply(z, x, out=z)
    np.abs(z, out=size)
    return np.exp(z / 9, out=z) * size


def pairs_written(x):
    r = np.zeros((3, 2))
    r[:, 0], r[:, 1] = x.real, x.imag
    z = r[:, 0] + 1j * r[:, 1]
    z.real[2], z.imag[2] = z.imag[2], z.real[2]
    z.imag[1] = sum(z.real[i] * z.imag[i - 1] for i in range(3))
    part = z.imag
    part += z.real
    part[::2] = 1.0
    return z * x


def viewed(x):
    pairs = (x * 2).view(float)
    pairs[::2] *= pairs[1::2]
    return pairs.view(complex) * x + pairs.reshape(3, 2)[:, 1]


def augmented(x):
    y = x * 1j
    y += x
    y *= y[::-1]
    y /= 2 + x
    y -= x[0]
    y **= 2
    return y


def buffer(x):
    y = np.zeros(5, dtype=complex)
    y[0] = x[0]
    y[1:3] = x[1:] * 1j
    y[[3, 4]] = x[:2].real
    y[0] *= y[1]
    work = np.zeros_like(y)
    work[...] = y
    return work * y


def real_parts_written(x):
    y = np.zeros(3, dtype=complex)
    y.real[:] = x.imag
    y.imag[1] = x[0].real
    y.real = x.real * y.real
    return y * x


def writes(x):
    x[0] = x[1] * x[2]
    x.imag[1] = 3 * x[0].real
    return x**2


@pytest.mark.parametrize("name", PROGRAMS)
def test_complex_arguments_have_second_derivatives(name):
    f, x = PROGRAMS[name], numbers(3, seed=11) + 1.5
    check_directions(f, x)
    check_adjoint(f, x)
    check_second(f, x)


@pytest.mark.parametrize("name", OF_REAL)
def test_complex_results_of_real_arguments_need_no_flag(name):
    f, x = OF_REAL[name], np.array([0.8, -0.6, 1.7])
    check_directions(f, x)
    check_adjoint(f, x)
    check_second(f, x)
    J = wg.jacobian(f, x)
    columns = [wg.jvp(f, x, e)[1] for e in np.eye(3)]
    assert J.dtype == np.asarray(f(x)).dtype
    assert_rounding(J, np.stack(columns, axis=-1))


@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_complex_jacobians_by_rows_equal_those_by_columns(mode):
    x = np.linspace(0.1, 2, 150)
    J = wg.jacobian(lambda x: np.exp(1j * x) * x[0], mode=mode)
    expected = np.diag(1j * np.exp(1j * x)) * x[0]
    expected[:, 0] += np.exp(1j * x)
    for _ in range(2):
        assert_rounding(J(x), expected)
        assert mode in ("auto", J.plan.mode)
    both = wg.jacobian(lambda x: {"z": np.sum(np.exp(1j * x)), "r": np.sum(x)}, x, mode=mode)
    assert_rounding(both["z"], 1j * np.exp(1j * x))
    assert_rounding(both["r"], np.ones(150))
    some = wg.jacobian(lambda x: x[:70] * 1j, x, mode="reverse", chunk=20)
    assert_rounding(some, 1j * np.eye(70, 150))


@pytest.mark.parametrize("name", ["det", "singular"])
def test_derivatives_of_determinants_are_cofactors(name):
    a = numbers(3, 3, seed=5)
    if name == "singular":
        a[2] = a[0] * (1 + 2j) - a[1]
    slope = wg.grad(np.linalg.det, a, holomorphic=True)
    minor = lambda i, j: np.linalg.det(np.delete(np.delete(a, i, 0), j, 1))
    cofactors = [[(-1) ** (i + j) * minor(i, j) for j in range(3)] for i in range(3)]
    assert np.allclose(slope, cofactors, rtol=1e-12, atol=1e-12)


# ---- drivers

Z = np.array([1 + 2j, -0.5 + 0.3j, 2.0 - 1j])

HOLOMORPHIC = {
    "powers": (lambda z: z**2 * z[0], lambda z: np.diag(2 * z * z[0]) + np.outer(z**2, [1, 0, 0])),
    "in pairs": (lambda z: z.real + 1j * z.imag, lambda z: np.eye(3, dtype=complex)),
    "one number": (lambda z: np.sum(np.exp(z)), np.exp),
}


@pytest.mark.parametrize("name", HOLOMORPHIC)
@pytest.mark.parametrize("chunk", [None, 2])
@pytest.mark.parametrize("mode", ["auto", "reverse"])
def test_jacobian_of_analytic_functions(name, chunk, mode):
    f, exact = HOLOMORPHIC[name]
    assert_rounding(wg.jacobian(f, Z, holomorphic=True, chunk=chunk, mode=mode), exact(Z))
    assert wg.jacobian(f, Z, holomorphic=True, mode="forward").dtype == complex


def test_jacobian_may_exceed_one_chunk():
    z = numbers(75, seed=9)
    y, J = wg.jacobian(lambda z: np.sin(z) * z[-1], z, holomorphic=True, value=True)
    expected = np.diag(np.cos(z)) * z[-1]
    expected[:, -1] += np.sin(z)
    assert_rounding(J, expected)
    assert_rounding(y, np.sin(z) * z[-1])


def test_gradient_of_a_real_function_points_uphill():
    g = wg.grad(lambda z: np.sum(np.abs(z) ** 2), Z)
    assert_rounding(g, 2 * Z)
    f = lambda z: np.abs(np.sum(z**2 * A)) + np.sum(z.real * z.imag[::-1])
    g = wg.grad(f, Z)
    for seed in range(3):
        dz = numbers(3, seed=seed)
        assert np.allclose(np.sum(np.conj(g) * dz).real, wg.jvp(f, Z, dz)[1], rtol=1e-13)
        assert np.allclose(np.sum(np.conj(g) * dz).real, by_differences(f, Z, dz), rtol=1e-9)
    value, g1 = wg.value_and_grad(f, Z)
    assert value == f(Z) and np.array_equal(g, g1)
    assert_rounding(wg.grad(np.abs, 3 + 4j), 0.6 + 0.8j)
    assert wg.grad(np.abs, np.complex64(3 + 4j)).dtype == np.complex64


#: real functions of a real x of shape (3,) with complex intermediates, and the same written with pairs of reals
SPLIT = {
    "impedance": (
        lambda x: np.abs(1 / (1 / x[0] + 1j * x[1]) + 2j * x[2]) ** 2,
        lambda x: (
            (x[0] / (1 + (x[0] * x[1]) ** 2)) ** 2
            + (2 * x[2] - x[0] ** 2 * x[1] / (1 + (x[0] * x[1]) ** 2)) ** 2
        ),
    ),
    "phases": (
        lambda x: np.abs(np.sum(np.exp(1j * x) * x)) ** 2,
        lambda x: np.sum(np.cos(x) * x) ** 2 + np.sum(np.sin(x) * x) ** 2,
    ),
    "scalars": (
        lambda x: ((x[0] + 1j * x[1]) ** 3 / (x[2] - 1j)).imag,
        lambda x: (
            (3 * x[0] ** 2 * x[1] - x[1] ** 3) * x[2] + (x[0] ** 3 - 3 * x[0] * x[1] ** 2)
        ) / (x[2] ** 2 + 1),
    ),
    "written": (
        lambda x: written(x),
        lambda x: x[0] ** 2 * (x[1] ** 2 + x[2] ** 2) + x[0] * x[1] - x[2] ** 2,
    ),
    "steps": (
        lambda x: np.sum(np.abs(wg.loop(lambda z: z * z * 1j + x, x * (1 + 1j), 3, checkpoints=1)) ** 2),
        lambda x: np.sum(steps(x) ** 2),
    ),
    "checkpoint": (
        lambda x: np.abs(wg.checkpoint(lambda z: np.sum(z * z))(x * 1j + 1)) ** 2,
        lambda x: np.sum(1 - x * x) ** 2 + 4 * np.sum(x) ** 2,
    ),
}  # fmt: skip


def written(x):
    z = np.zeros(2, dtype=complex)
    z[0] = x[0] * 1j
    z.real[1] = x[1]
    z.imag[1:] += x[2]
    w = z * z[::-1]
    z *= 0
    return np.abs(w[0]) ** 2 + x[0] * x[1] - x[2] ** 2 + z[0].real


def steps(x):
    a, b = x, x
    for _ in range(3):
        a, b = -2 * a * b + x, a * a - b * b
    return np.stack([a, b])


@pytest.mark.parametrize("name", SPLIT)
def test_real_functions_with_complex_intermediates_equal_real_pairs(name):
    f, split = SPLIT[name]
    x, v = np.array([0.8, -0.6, 1.7]), np.array([0.3, 1.0, -0.4])
    close = lambda found, expected: np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    close(f(x), split(x))
    close(wg.grad(f, x), wg.grad(split, x))
    close(wg.jacobian(lambda x: np.stack([f(x), x[0]]), x, mode="reverse")[0], wg.grad(split, x))
    H = wg.hessian(split, x)
    for mode in ("auto", "forward", "reverse"):
        close(wg.hessian(f, x, mode=mode), H)
    close(wg.hvp(f, x, v), H @ v)
    _, J = wg.linearize(lambda x: np.stack([f(x)]), x)
    close(J @ v, [wg.grad(split, x) @ v])
    close(J.T @ np.ones(1), wg.grad(split, x))
    T = wg.jacobian(wg.hessian(split), x)
    close(wg.jacobian(wg.hessian(f), x), T)
    with wg.detect_nan():
        close(wg.grad(f, x), wg.grad(split, x))


def test_derivatives_of_any_order_of_complex_functions_of_a_scalar():
    for order in (1, 2, 3):
        found = wg.derivative(lambda x: np.exp(2j * x) + x**3, 0.3, order=order)
        expected = (2j) ** order * np.exp(0.6j) + [0, 3 * 0.09, 6 * 0.3, 6][order]
        assert abs(found - expected) < 1e-14


def test_nested_derivatives_in_complex_arguments():
    inner = lambda a: wg.grad(lambda z: np.abs(z * a) ** 2, 1 + 1j)  # 2 z a^2
    assert_rounding(wg.jacobian(inner, 3.0), 12 * (1 + 1j))
    assert_rounding(wg.grad(lambda a: np.abs(inner(a)) ** 2, 3.0), 16 * 2 * 27.0)
    slope = lambda a: wg.derivative(lambda z: z**2 * a, 2j, holomorphic=True)  # 2 z a
    assert_rounding(wg.derivative(slope, 0.7), 4j)
    assert_rounding(wg.grad(lambda a: np.abs(wg.grad(lambda z: z**2 * a, 2j, holomorphic=True)), 0.7), 4.0)
    pulled = lambda x: np.sum(wg.vjp(lambda x: x * np.exp(1j * x), x)[1](np.exp(2j * x)))
    x = np.array([0.8, -0.6])  # Re(conj((1 + i x) e^(i x)) e^(2 i x)) = cos x + x sin x
    assert_rounding(wg.grad(pulled, x), x * np.cos(x))


def test_gradient_accepts_containers_and_several_arguments():
    p = {"w": Z, "b": np.array([0.5, 2.0]), "c": 1j}
    g = wg.grad(lambda p: np.sum(np.abs(p["w"]) ** 2) * p["b"][0] + p["c"].imag * p["b"][1], p)
    assert_rounding(g["w"], 2 * Z * 0.5)
    assert_rounding(g["b"], np.array([np.sum(np.abs(Z) ** 2), 1.0]))
    assert g["b"].dtype == float and g["c"] == 2j
    a, b = wg.grad(lambda z, x: np.abs(z) ** 2 * x, 1 + 1j, args=(3.0,), argnums=(0, 1))
    assert_rounding(np.array([a, b]), np.array([6 + 6j, 2.0]))
    assert b.dtype == float


def test_derivative_of_analytic_functions():
    assert_rounding(wg.derivative(lambda z: z**3, 1 + 1j, holomorphic=True), 3 * (1 + 1j) ** 2)
    y, d, aux = wg.derivative(lambda z: (np.log(z), z.real), Z, holomorphic=True, value=True, has_aux=True)
    assert_rounding(d, 1 / Z)
    assert_same_bits(y, np.log(Z))
    assert_same_bits(aux, Z.real)
    assert_rounding(wg.derivative(lambda x: np.exp(1j * x), 0.3), 1j * np.exp(0.3j))
    with pytest.raises(ValueError, match="is not elementwise"):
        wg.derivative(lambda z: z * z[0], Z, holomorphic=True)
    assert_rounding(wg.grad(lambda z: np.sum(z**2), Z, holomorphic=True), 2 * Z)


def test_directions_of_complex_arguments():
    f = lambda z: z**2
    V = numbers(4, 3, seed=4)
    assert_rounding(wg.jvp(f, Z, V)[1], 2 * Z * V)
    assert_rounding(wg.jvp(f, Z, np.ones(3))[1], 2 * Z)
    assert_rounding(wg.jvp(f, [1j, 2.0], [1.0, 1j])[1], np.array([2j, 4j]))
    assert wg.jvp(f, Z, np.zeros((0, 3)))[1].shape == (0, 3)
    with pytest.raises(ValueError, match="the direction has dtype complex128, expected real numbers"):
        wg.jvp(f, Z.real, 1j * Z)
    with pytest.raises(ValueError, match="complex128, expected real numbers for a real argument"):
        wg.jvp(lambda p: p["z"] * p["x"], {"z": 1j, "x": 1.0}, {"z": 1j, "x": 1j})


# pickle searches every module for a ufunc without __module__, and mpmath warns when searched
@pytest.mark.filterwarnings("ignore:.* module is deprecated:DeprecationWarning")
def test_callables_have_repr_and_pickle():
    for op in (wg.grad, wg.jacobian, wg.derivative):
        d = op(np.sin, holomorphic=True)
        assert repr(d) == f"{op.__name__}(sin, holomorphic=True)"
        d = pickle.loads(pickle.dumps(d))
        assert_rounding(np.asarray(d(1j)), np.asarray(np.cos(1j)))


# ---- kinks, zeros and types


def test_abs_and_angle_at_the_origin():
    z = np.array([0j, 3 + 4j])
    assert_same_bits(wg.jvp(np.abs, z, np.array([1j, 1j]))[1], np.array([0.0, 0.8]))
    assert_same_bits(wg.jvp(np.angle, z, np.array([1j, 1j]))[1], np.array([0.0, 3 / 25]))


STRONG = {
    "sqrt": lambda z: np.where(z == 0, 0, np.sqrt(z)),
    "log": lambda z: np.where(z == 0, 0, np.log(z)),
    "reciprocal": lambda z: np.where(z == 0, 0, 1 / z),
    "power": lambda z: np.where(z == 0, 0, z**-1.5),
}


@pytest.mark.parametrize("name", STRONG)
def test_zero_derivative_stays_zero(name):
    z = np.array([0j, 1 + 1j])
    with np.errstate(all="ignore"):
        t = wg.jvp(STRONG[name], z, np.array([1j, 0.0]))[1]
        assert_same_bits(np.abs(t), np.zeros(2))
        g = wg.vjp(STRONG[name], z)[1](np.array([1.0, 0.0]))
        assert_same_bits(np.abs(g), np.zeros(2))
        t = wg.jvp(getattr(np, name), z, np.array([0.0, 1.0]))[1] if name != "power" else np.zeros(2)
    assert t[0] == 0


def test_single_precision_stays():
    z = Z.astype(np.complex64)
    y, t = wg.jvp(lambda z: np.exp(z) * z[0], z, z)
    assert y.dtype == t.dtype == np.complex64
    assert wg.jacobian(lambda z: z**2, z, holomorphic=True).dtype == np.complex64
    assert wg.jvp(np.abs, z, z)[1].dtype == np.float32
    assert wg.grad(lambda z: np.sum(np.abs(np.exp(z) * z[0])), z).dtype == np.complex64
    x = np.array([0.3, 0.7], dtype=np.float32)
    assert wg.grad(lambda x: np.sum(np.abs(np.exp(1j * x) * x[0]) ** 2), x).dtype == np.float32
    assert wg.hessian(lambda x: np.sum(np.abs(np.exp(1j * x) * x[0]) ** 2), x).dtype == np.float32


def test_operands_have_numpy_types():
    def f(z):
        assert isinstance(z, np.ndarray) and isinstance(z[0], np.complex128) and isinstance(z[0], complex)
        assert z[0].shape == () and z.dtype == complex and np.iscomplexobj(z) and not np.isrealobj(z)
        assert isinstance(z[0].real, float) and isinstance(z.real, np.ndarray) and z.real.dtype == float
        assert z[0] == Z[0] and bool(z[0]) and np.isfinite(z).all() and np.isclose(z, Z).all()
        assert z.real.imag[0] == 0 and np.real(z[0]) == 1
        return z * wg.stop_gradient(z)

    _, t = wg.jvp(f, Z, np.ones(3))
    assert_same_bits(t, Z)

    def passive(z):
        with wg.passive():
            scale = z * z
        return scale * z

    assert_rounding(wg.jvp(passive, Z, 1j * Z)[1], 1j * Z**3)


# ---- errors

NOT_HOLOMORPHIC = {
    "conj": np.conj,
    "abs": np.abs,
    "real": np.real,
    "mixed": lambda z: z**2 + 1e-6 * np.conj(z),
    "small beside large": lambda z: np.stack([1e12 * z, np.conj(z)])[1],
    "zero along 1": lambda z: 1j * np.imag(z),
    "vdot": lambda z: z * np.vdot(z, z),
}


@pytest.mark.parametrize("name", NOT_HOLOMORPHIC)
def test_non_holomorphic_functions_raise(name):
    f = NOT_HOLOMORPHIC[name]
    label = getattr(f, "__name__", "")
    text = re.escape(f"({getattr(f, '__qualname__', None) or label}): the function is not holomorphic here")
    for d in (wg.jacobian, wg.derivative):
        with pytest.raises(ValueError, match=text):
            d(f, 1 + 2j, holomorphic=True)
    with pytest.raises(ValueError, match="the function is not holomorphic here"):
        wg.grad(lambda z: f(z[1]), Z, holomorphic=True)


def test_small_non_holomorphic_row_is_found_beside_a_large_one():
    with pytest.raises(ValueError, match="not holomorphic"):
        wg.jacobian(lambda z: np.stack([1e12 * z[0], np.conj(z[1])]), Z, holomorphic=True)


INPUT = "complex input is supported by wengert.jvp and wengert.vjp, by wengert.grad and wengert.hvp for a real function"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: wg.jacobian(np.sin, Z), TypeError, INPUT),
        (lambda: wg.derivative(np.sin, 1j), TypeError, INPUT),
        (lambda: wg.derivative(np.sin, 1j, order=2), TypeError, INPUT),
        (lambda: wg.hessian(lambda z: np.abs(z), 1j), TypeError, INPUT),
        (lambda: wg.linearize(np.sin, Z), TypeError, INPUT),
        (lambda: wg.jacrev(np.sin, Z), TypeError, INPUT),
        (lambda: wg.derivative(lambda x: wg.derivative(np.sin, x * 1j), 1.0), TypeError, INPUT),
        (lambda: wg.grad(lambda x: wg.jacobian(np.sin, x * 1j).real, 1.0), TypeError, INPUT),
        (lambda: wg.hessian(lambda x: 1j * x, 1.0), TypeError, "returned a complex number, which has no gradient"),
        (lambda: wg.hvp(lambda x: 1j * x, 1.0, 1.0), TypeError, "returned a complex number, which has no gradient"),
        (lambda: wg.grad(lambda x: 1j * x, 1.0), TypeError, "returned a complex number, which has no gradient"),
        (lambda: wg.linearize(lambda x: 1j * x, 1.0), ComplexValueError, "complex output is supported by wengert.jvp"),
        (lambda: wg.vjp(np.abs, Z)[1](Z), ValueError, "cotangent has dtype complex128, expected real numbers"),
        (lambda: wg.grad(lambda w: wg_pullback(w).real, 1.0), ComplexValueError, "does not accept traced cotangents"),
        (lambda: wg.grad(np.sin, 1j), TypeError, "returned a complex number, which has no gradient: pass holomorphic"),
        (lambda: wg.grad(np.sin, Z), TypeError, "must return a single number"),
        (lambda: wg.grad(np.sin, Z, holomorphic=True), TypeError, "must return a single number"),
        (lambda: wg.jacobian(np.sin, 1.0, holomorphic=True), TypeError, "requires complex arguments.*pass x [+] 0j"),
        (lambda: wg.derivative(np.sin, 1j, order=2, holomorphic=True), ValueError, "first derivative only"),
        (lambda: wg.jvp(np.sin, np.clongdouble(1j), 1.0), TypeError, "array of dtype"),
        (lambda: wg.jvp(lambda z: wg.grad(lambda x: x * z, 1.0), 1j, 1.0), TypeError, "returned a complex number"),
        (lambda: wg.jvp(lambda z: z.astype(float), Z, Z), TracedValueError, "drop the imaginary part"),
        (lambda: wg.jvp(lambda z: float(z[0]), Z, Z), TracedValueError, "drop the imaginary part"),
        (lambda: wg.jvp(into_real, Z, Z), TracedValueError, "cannot be stored in an array of float64.*dtype=complex"),
        (lambda: wg.jvp(in_place_into_real, Z, Z), TracedValueError, "cannot be stored in an array of float64"),
    ],
)  # fmt: skip
def test_unsupported_uses_of_complex_values_raise(call, error, text):
    with pytest.raises(error, match=text):
        call()


def wg_pullback(w):
    return PULLBACK(w * (1 + 1j))


PULLBACK = wg.vjp(lambda x: 1j * x, 1.0)[1]


def into_real(z):
    y = np.zeros(3)
    y[0] = z[0]
    return y


def in_place_into_real(z):
    y = z.real * 1
    y += z
    return y


REFUSED = {
    "primitive": wg.primitive(lambda z: z * 2, vjp=lambda ybar, y, z: ybar * 2),
    "sum into a real": lambda z: np.sum(z, dtype=float),
    "unwrap": np.unwrap,
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_functions_without_complex_rule_raise(name):
    text = r"has no derivative rule for complex values .*x\.real and x\.imag"
    with pytest.raises(UnsupportedFunctionError, match=text):
        wg.jvp(REFUSED[name], Z, Z)


#: functions that read one triangle of a matrix
READ_BY_HALVES = (np.linalg.eigvalsh, np.linalg.cholesky, cholesky_adjoint)


@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_only_verified_rules_are_applied_to_complex_values():
    """Call every function with a rule on complex operands: it agrees with differences or raises."""
    z = numbers(3, 3, seed=21) + 2 * np.eye(3)
    for fun, row in list(rows_of_numpy().items()):
        if row.kind in ("composed", "constant", "refuse", "custom") or fun in READ_BY_HALVES:
            continue
        for form in (lambda x: fun(x), lambda x: fun(x, x + 1), lambda x: fun([x, x]), lambda x: fun(x, 1)):
            try:
                y = form(z)
                assert isinstance(y, (np.ndarray, np.number))
            except Exception:
                continue
            try:
                t = wg.jvp(form, z, z[::-1] * 1j)[1]
            except (UnsupportedFunctionError, TracedValueError):
                continue
            expected = by_differences(form, z, z[::-1] * 1j)
            assert np.allclose(t, expected, rtol=1e-7, atol=1e-7 * (1 + np.max(np.abs(expected)))), row


def test_real_derivatives_with_complex_constants():
    phases = np.exp(1j * np.arange(3))

    def f(x):
        table = np.zeros(3, dtype=complex)
        table[:] = phases
        table[1] *= 2j
        return np.sum(x * table.real) + np.sum(np.abs(table)) * x[0]

    expected = (phases * [1, 2j, 1]).real + np.array([4.0, 0, 0])
    x = np.array([1.0, 2.0, 3.0])
    assert_rounding(wg.grad(f, x), expected)
    assert_rounding(wg.jacobian(f, x, mode="forward"), expected)
    assert np.allclose(wg.hessian(lambda x: f(x * x), x), np.diag(2 * expected))


def test_callables_share_one_evaluation_and_accept_empty_arrays():
    J = wg.jacobian(lambda z: z**2, holomorphic=True)
    assert_same_bits(J.fun(Z), Z**2)
    assert_rounding(J(Z), np.diag(2 * Z))
    assert J.plan.mode == "forward" and J.plan.runs == 1
    assert wg.jacobian(lambda z: z**2, Z[:0], holomorphic=True).shape == (0, 0)
    assert wg.grad(lambda z: np.sum(np.abs(z)), Z[:0]).shape == (0,)
    out = np.empty((3, 3), dtype=complex)
    assert J(Z, out=out) is out
    both = wg.jacobian(lambda z, w: {"p": z * w, "q": z}, (1j), args=(2j,), argnums=(0, 1), holomorphic=True)
    assert both == {"p": (2j, 1j), "q": (1, 0)}


def test_argument_is_unchanged():
    z = Z.copy()

    def f(z):
        z[0] = 2 * z[0]
        return z

    with pytest.warns(wg.errors.MutatedInputWarning):
        assert_rounding(wg.jvp(f, z, np.ones(3))[1], np.array([2, 1, 1]) + 0j)
    assert_same_bits(z, Z)


#: functions that permute all elements, by strides and by indices
PERMUTED = {
    "transpose": lambda z: np.reshape(np.transpose(np.reshape(z, (2, 3, 4)), (1, 0, 2)), 24),
    "roll": lambda z: np.roll(z, 5),
    "flip": lambda z: np.flip(np.reshape(z, (4, 6)), 1).T,
    "index": lambda z: z[np.arange(24) * 7 % 24],
    "part": lambda z: np.roll(z, 3)[:7],
}


@pytest.mark.parametrize("name", PERMUTED)
def test_adjoints_of_permutations_are_permutations(name):
    f = PERMUTED[name]
    z = np.exp(1j * np.arange(24.0)) * np.linspace(1.0, 2.0, 24)
    w = np.conj(f(z)) * (1.0 + np.arange(f(z).size).reshape(f(z).shape))

    def loss(z):
        return np.sum(w * f(z) ** 2).real

    places = f(np.arange(24))
    expected = np.zeros(24, complex)
    np.add.at(expected, places, np.conj(2.0 * w * f(z)))
    gradient, compiled = wg.grad(loss), wg.compile(wg.grad(loss))
    np.testing.assert_allclose(gradient(z), expected, rtol=1e-14)
    for at in (z, 1j * z):
        np.testing.assert_allclose(compiled(at), gradient(at), rtol=1e-14)
    assert name == "part" or "bincount" not in str(wg.record(gradient, z))
    np.testing.assert_allclose(wg.hvp(loss, z, 1j * z), np.conj(1j * np.conj(expected)), rtol=1e-13)


def test_gradients_through_complex_arrays_take_the_direct_path(monkeypatch):
    gradient = wg.grad(lambda x: np.sum(np.abs(np.exp(1j * x) * x - np.fft.fft(x) / (2 + 1j)) ** 3))
    expected = gradient(np.arange(5.0))
    monkeypatch.setattr(dispatch, "apply", None)
    assert_same_bits(gradient(np.arange(5.0)), expected)
