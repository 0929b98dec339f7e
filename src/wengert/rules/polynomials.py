"""Polynomials given by coefficients, highest power first, evaluated in NumPy's order of operations."""

from __future__ import annotations

import math
import warnings

import numpy as np

from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.registry import composed, strong_matmul, structural
from wengert.rules.composed import as_array, as_dtype


def coefficients(p):
    """Return a 1-D array of coefficients; refuse ``poly1d``."""
    if isinstance(p, np.poly1d):
        raise UnsupportedFunctionError("numpy.poly1d objects are not traced: pass the coefficients p.coeffs")
    return np.atleast_1d(as_array(p))


def without_leading_zero(p):
    """Return coefficients for ``polymul``, which drops leading zeros: the length would depend on the values."""
    p = coefficients(p)
    if len(p) and p[0] == 0:
        raise UnsupportedFunctionError(
            "numpy.polymul drops leading zeros, so the length of its result depends on values: use numpy.convolve"
        )
    return p


@composed(np.polyval)
def _polyval(p, x):
    y = np.zeros_like(x)
    for coefficient in p.coeffs if isinstance(p, np.poly1d) else as_array(p):
        y = y * x + coefficient
    return y


def extended(p, n):
    """Prepend zeros to the coefficients up to a length of `n`."""
    missing = n - len(p)
    return np.concatenate([np.zeros(missing, p.dtype), p]) if missing > 0 else p


@composed(np.polyadd)
def _polyadd(a1, a2):
    a1, a2 = coefficients(a1), coefficients(a2)
    return extended(a1, len(a2)) + extended(a2, len(a1))


@composed(np.polysub)
def _polysub(a1, a2):
    a1, a2 = coefficients(a1), coefficients(a2)
    return extended(a1, len(a2)) - extended(a2, len(a1))


composed(np.polymul, lambda a1, a2: np.convolve(without_leading_zero(a1), without_leading_zero(a2)))


@composed(np.polydiv, replayed=True)
def _polydiv(u, v):
    u, v = coefficients(u) + 0.0, coefficients(v) + 0.0
    scale, n = 1.0 / v[0], len(v)
    quotient, rest = [], as_dtype(u, np.result_type(u, v))
    for k in range(len(u) - n + 1):
        factor = scale * rest[k]
        quotient.append(factor)
        rest = np.concatenate([rest[:k], rest[k : k + n] - factor * v, rest[k + n :]])
    while np.allclose(rest[0], 0, rtol=1e-14) and len(rest) > 1:
        rest = rest[1:]
    return np.stack(quotient) if quotient else np.zeros_like(rest[:1]), rest


@composed(np.polyder)
def _polyder(p, m=1):
    p = coefficients(p)
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    for _ in range(int(m)):
        p = p[:-1] * np.arange(len(p) - 1, 0, -1)
    return p


@composed(np.polyint)
def _polyint(p, m=1, k=None):
    p, m = coefficients(p), int(m)
    if m < 0:
        raise ValueError("Order of integral must be positive (see polyder)")
    k = np.zeros(m) if k is None else np.atleast_1d(as_array(k))
    if len(k) == 1 and m > 1:
        k = k[0] * np.ones(m)
    if len(k) < m:
        raise ValueError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(m):
        p = np.concatenate([p / np.arange(len(p), 0, -1), k[i : i + 1]])
    return p


@composed(np.poly, replayed=True)
def _poly(seq_of_zeros):
    zeros = coefficients(seq_of_zeros)
    if np.ndim(zeros) == 2:
        zeros = np.linalg.eigvals(zeros)
    one = np.ones(1, zeros.dtype)
    p = one
    for i in range(len(zeros)):
        p = np.convolve(p, np.concatenate([one, -zeros[i : i + 1]]), mode="full")
    if zeros.dtype.kind == "c" and np.all(np.sort(zeros) == np.sort(np.conjugate(zeros))):
        p = p.real.copy()
    return p


@composed(np.vander)
def _vander(x, N=None, increasing=False):
    x = as_array(x)
    if np.ndim(x) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    x = as_dtype(x, np.promote_types(x.dtype, int))
    columns = [np.ones_like(x)]
    for _ in range((len(x) if N is None else N) - 1):
        columns.append(columns[-1] * x)
    return np.stack(columns if increasing else columns[::-1], axis=1)[:, : len(x) if N is None else N]


@composed(np.polyfit, replayed=True)
def _polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    x, rhs = as_array(x) + 0.0, as_array(y) + 0.0
    if np.ndim(deg):
        raise UnsupportedFunctionError("numpy.polyfit has a rule for an integer deg only: use numpy.linalg.lstsq")
    if deg < 0:
        raise ValueError("expected deg >= 0")
    if np.ndim(x) != 1 or np.size(x) == 0 or np.ndim(rhs) not in (1, 2):
        raise TypeError("expected non-empty vector for x, and 1D or 2D array for y")
    if len(x) != len(rhs):
        raise TypeError("expected x and y to have same length")
    rcond = len(x) * np.finfo(x.dtype).eps if rcond is None else rcond
    lhs = np.vander(x, deg + 1)
    if w is not None:
        w = as_array(w) + 0.0
        if np.shape(w) != np.shape(x):
            raise TypeError("expected w and y to have the same length")
        lhs = as_dtype(lhs * w[:, None], lhs.dtype)
        rhs = as_dtype(rhs * (w if np.ndim(rhs) == 1 else w[:, None]), rhs.dtype)
    scale = np.sqrt((lhs * lhs).sum(axis=0))
    lhs = lhs / scale
    c, residuals, rank, s = np.linalg.lstsq(lhs, rhs, rcond)
    c = (c.T / scale).T
    if rank != deg + 1 and not full:
        warnings.warn("Polyfit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=2)
    if full:
        return c, residuals, rank, s, rcond
    if not cov:
        return c
    base = np.linalg.inv(np.dot(lhs.T, lhs)) / np.outer(scale, scale)
    if cov != "unscaled" and len(x) <= deg + 1:
        raise ValueError("the number of data points must exceed order to scale the covariance matrix")
    factor = 1 if cov == "unscaled" else residuals / (len(x) - (deg + 1))
    return c, (base if np.ndim(rhs) == 1 else base[:, :, None]) * factor


# ---- roots


def roots_slope(roots, p):
    """Return dr/dp_k = -r^k / p'(r), a row per root r and a column per coefficient p_k of r^k."""
    derivative = np.polyder(p)
    slope = np.polyval(derivative, roots)
    with np.errstate(all="ignore"):
        size = np.polyval(np.abs(derivative), np.abs(roots))
    if np.any(np.abs(slope) <= 8 * math.sqrt(np.finfo(slope.dtype).eps) * size):
        raise NonSmoothError("numpy.roots has no derivative here: a root is multiple, up to rounding")
    powers = as_dtype(np.vander(roots, np.shape(p)[0]), roots.dtype)  # NumPy computes them in double precision
    return -powers / as_dtype(slope, roots.dtype)[:, None]


structural(
    np.roots,
    lambda ybar, y, p: strong_matmul(ybar, roots_slope(y, p)),
    jvp=(lambda t, y, p: strong_matmul(t, np.transpose(roots_slope(y, p))),),
)
