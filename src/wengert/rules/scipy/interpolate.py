"""Piecewise polynomials and splines: formulas for the compiled functions that ``scipy.interpolate`` calls.

The interval that contains a point is plain, so the derivative at a breakpoint is that of the piece evaluated there.

References
----------
de Boor (2001), A practical guide to splines, chapters IX and X.
"""

from __future__ import annotations

import importlib
import math

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import by_formula, constant, structural
from wengert.rules.composed import as_array, dispatched

# ---- piecewise polynomials in the power basis


def original(name):
    return importlib.import_module(f"scipy.interpolate.{name}")


def fitpack():
    """Return SciPy's interface to FITPACK, which is in C since SciPy 1.18 and in Fortran before."""
    module = original("_fitpack2")
    return module.dfitpack if hasattr(module, "dfitpack") else module._fitpack


@dispatched
def piece_of(x, xp):
    """Return the index of the piece of each point; the last breakpoint belongs to the last piece."""
    x, xp = np.asarray(x), np.asarray(xp)
    m = len(x) - 1
    if x[-1] >= x[0]:
        return np.clip(np.searchsorted(x, xp, side="right") - 1, 0, m - 1)
    return np.clip(np.searchsorted(-x, -xp, side="right") - 1, 0, m - 1)


@dispatched
def is_beyond(x, xp):
    """Return whether each point lies outside of the breakpoints or is NaN."""
    low, high = min(x[0], x[-1]), max(x[0], x[-1])
    return ~((xp >= low) & (xp <= high))


constant(piece_of, is_beyond)


def differentiated(c, nu):
    """Return the coefficients of a derivative; highest powers come first."""
    k = np.shape(c)[0]
    if nu >= k:
        return np.zeros_like(c[:1])
    factors = [math.perm(k - 1 - i, nu) for i in range(k - nu)]
    return c[: k - nu] * np.reshape(np.array(factors, dtype=float), (-1,) + (1,) * (np.ndim(c) - 1))


def horner(c, z):
    y = c[0]
    for coefficient in c[1:]:
        y = y * z + coefficient
    return y


def evaluated(c, x, xp, nu):
    """Evaluate a piecewise polynomial; the result has one row per point."""
    i = piece_of(x, xp)
    c = differentiated(c, nu)[:, i, :]
    z = (xp - x[i])[:, None]
    return horner(c, z) + 0.0 * z


def or_nan(y, x, xp, extrapolate):
    return y if extrapolate else np.where(is_beyond(x, xp)[:, None], np.nan, y)


def compiled_values(name, c, x, xp, nu, extrapolate):
    """Evaluate a piecewise polynomial by a compiled function of SciPy."""
    c, x, xp = map(np.ascontiguousarray, (c, x, xp))
    out = np.empty((len(xp), c.shape[2]), dtype=c.dtype)
    getattr(original("_ppoly"), name)(c, x, xp, nu, extrapolate, out)
    return out


@dispatched
def polynomial_values(c, x, xp, nu, extrapolate):
    return compiled_values("evaluate", c, x, xp, nu, extrapolate)


by_formula(
    polynomial_values,
    lambda c, x, xp, nu, extrapolate: or_nan(evaluated(c, x, xp, nu), x, xp, extrapolate),
    on_complex=True,
)


def integrated(c):
    """Return the coefficients of an antiderivative that is zero at the start of each piece."""
    k = np.shape(c)[0]
    powers = np.reshape(1.0 / np.arange(k, 0, -1), (-1,) + (1,) * (np.ndim(c) - 1))
    return np.concatenate([c * powers, np.zeros_like(c[:1])])


def made_continuous(c, x, order):
    """Adjust low-order coefficients so that derivatives up to `order` are continuous."""
    k, h = np.shape(c)[0], np.diff(x)[:, None]
    rows = [c[i] for i in range(k)]
    for nu in range(order, -1, -1):
        rise = 0.0
        for power in range(nu + 1, k):
            rise = rise + rows[k - 1 - power] * h ** (power - nu) * math.comb(power, nu)
        first = rows[k - 1 - nu][:1]
        rows[k - 1 - nu] = np.concatenate([first, first + np.cumsum(rise[:-1], axis=0)])
    return np.stack(rows)


@dispatched
def continuous_values(c, x, order):
    c = np.array(c, order="C")
    original("_ppoly").fix_continuity(c, np.ascontiguousarray(x), order)
    return c


by_formula(continuous_values, made_continuous, on_complex=True)


@dispatched
def polynomial_integral(c, x, a, b, extrapolate):
    c = np.ascontiguousarray(c)
    out = np.empty(c.shape[2], dtype=c.dtype)
    original("_ppoly").integrate(c, np.ascontiguousarray(x), float(a), float(b), extrapolate, out)
    return out


def _integral(c, x, a, b, extrapolate):
    whole = made_continuous(integrated(c), x, 0)
    ends = np.stack([as_array(a) * 1.0, as_array(b) * 1.0])
    y = or_nan(evaluated(whole, x, ends, 0), x, ends, extrapolate)
    return y[1] - y[0]


by_formula(polynomial_integral, _integral, on_complex=True)


@dispatched
def plain_roots(c, x, y, discontinuity, extrapolate, column):
    c = np.ascontiguousarray(c[:, :, column : column + 1])
    return original("_ppoly").real_roots(c, np.ascontiguousarray(x), float(y), discontinuity, extrapolate)[0]


@dispatched
def at_jump(c, r, is_finite):
    """Return whether each reported root is a change of sign at a breakpoint rather than a zero."""
    slope, scale = horner(differentiated(c, 1), r), np.max(np.abs(c), axis=0)
    return is_finite & (np.abs(horner(c, r)) > 1e-6 * (scale + np.abs(slope)))


@dispatched
def distance(r, x, i):
    return r - np.asarray(x)[i]


constant(plain_roots, at_jump, distance)


@dispatched
def zero_of(c, z):
    """Return zeros z of polynomials, one in each column of coefficients."""
    return np.array(z)


def _powers(c, z):
    return np.stack([z**i for i in range(np.shape(c)[0] - 1, -1, -1)])


structural(
    zero_of,
    lambda zbar, y, c, z: -zbar * _powers(c, y) / horner(differentiated(c, 1), y),
    jvp=(lambda t, y, c, z: -np.sum(t * _powers(c, y), axis=-2) / horner(differentiated(c, 1), y),),
).name = "scipy.interpolate.PPoly.roots"


def roots(c, x, y, discontinuity, extrapolate, column):
    """Return where one column of piecewise polynomials has the value y; a jump across y moves with its breakpoint."""
    r = plain_roots(c, x, y, discontinuity, extrapolate, column)
    is_finite = np.isfinite(r)
    i = piece_of(x, np.where(is_finite, r, x[0]))
    pieces = c[:, i, column]
    pieces = np.concatenate([pieces[:-1], pieces[-1:] - y])
    z = distance(r, x, i)
    jump = at_jump(pieces, z, is_finite)
    z = zero_of(np.where(jump | ~is_finite, np.eye(np.shape(c)[0])[:, -2:-1], pieces), z)
    return np.where(jump, x[i], z + x[i]) if np.any(is_finite) else r


@dispatched
def bernstein_values(c, x, xp, nu, extrapolate):
    return compiled_values("evaluate_bernstein", c, x, xp, nu, extrapolate)


def _bernstein(c, x, xp, nu, extrapolate):
    i = piece_of(x, xp)
    h = (x[i + 1] - x[i])[:, None]
    s = (xp - x[i])[:, None] / h
    c = c[:, i, :]
    for _ in range(nu):
        k = np.shape(c)[0] - 1
        c = k * (c[1:] - c[:-1]) / h if k else 0.0 * c
    k = np.shape(c)[0] - 1
    y = sum(math.comb(k, j) * s**j * (1 - s) ** (k - j) * c[j] for j in range(k + 1))
    return or_nan(y, x, xp, extrapolate)


by_formula(bernstein_values, _bernstein, on_complex=True)


@dispatched
def tensor_polynomial(c, x, ks, xp, nu, extrapolate):
    c, xp = np.ascontiguousarray(c), np.ascontiguousarray(xp)
    out = np.empty((len(xp), c.shape[2]), dtype=c.dtype)
    original("_ppoly").evaluate_nd(c, tuple(map(np.ascontiguousarray, x)), ks, xp, nu, extrapolate, out)
    return out


def _tensor_polynomial(c, x, ks, xp, nu, extrapolate):
    """Sum products of powers along each axis; rows of c are powers, and its columns pieces."""
    piece, weights, beyond = 0, np.ones((1, np.shape(xp)[0])), False
    for axis, breaks in enumerate(x):
        i, k, order = piece_of(breaks, xp[:, axis]), int(ks[axis]), int(nu[axis])
        piece = piece * (len(breaks) - 1) + i
        powers = _powers(np.empty(k), xp[:, axis] - breaks[i])
        powers = np.concatenate([powers[order:], np.zeros_like(powers[: min(order, k)])])
        factors = np.array([math.perm(k - 1 - j, order) for j in range(k)], dtype=float)
        weights = np.reshape(weights[:, None] * (powers * factors[:, None]), (-1, np.shape(xp)[0]))
        beyond = beyond | is_beyond(breaks, xp[:, axis])
    y = np.sum(weights[:, :, None] * c[:, piece], axis=0)
    return y if extrapolate else np.where(beyond[:, None], np.nan, y)


by_formula(tensor_polynomial, _tensor_polynomial)


class PiecewisePolynomials:
    """Formulas in place of ``scipy.interpolate._ppoly``."""

    @staticmethod
    def evaluate(c, x, xp, nu, extrapolate, out):
        out[...] = polynomial_values(c, x, xp, nu, extrapolate)

    @staticmethod
    def fix_continuity(c, x, order):
        c[...] = continuous_values(c, x, order)

    @staticmethod
    def integrate(c, x, a, b, extrapolate, out):
        out[...] = polynomial_integral(c, x, a, b, extrapolate)

    @staticmethod
    def real_roots(c, x, y, discontinuity, extrapolate):
        return [roots(c, x, y, discontinuity, extrapolate, column) for column in range(np.shape(c)[2])]

    @staticmethod
    def evaluate_bernstein(c, x, xp, nu, extrapolate, out):
        out[...] = bernstein_values(c, x, xp, nu, extrapolate)

    @staticmethod
    def evaluate_nd(c, x, ks, xp, nu, extrapolate, out):
        out[...] = tensor_polynomial(c, x, ks, xp, nu, extrapolate)


# ---- B-splines


@dispatched
def knot_interval(t, k, x):
    """Return the index i with t[i] <= x < t[i + 1], clipped to the base interval of the spline."""
    t, x = np.asarray(t), np.asarray(x)
    n = len(t) - k - 1
    return np.clip(np.searchsorted(t, x, side="right") - 1, k, n - 1)


constant(knot_interval)


def basis(t, k, x, i):
    """Return the k + 1 B-splines that are nonzero in interval i along the last axis (de Boor, chapter X)."""
    columns = [np.ones(np.shape(x))]
    for j in range(1, k + 1):
        saved, found = 0.0, []
        for r in range(j):
            right, left = t[i + r + 1], t[i + 1 - j + r]
            is_empty = np.equal(right, left)
            term = np.where(is_empty, 0.0, columns[r] / np.where(is_empty, 1.0, right - left))
            found.append(saved + (right - x) * term)
            saved = (x - left) * term
        columns = [*found, saved]
    return np.stack(columns, axis=-1)


def derivative_coefficients(t, c, k, nu):
    """Return knots, coefficients and degree of a derivative of a spline."""
    for _ in range(nu):
        if k == 0:
            return t, 0.0 * c, 0
        n = np.shape(t)[0] - k - 1
        width = t[k + 1 : k + n] - t[1:n]
        is_empty = np.equal(width, 0)
        step = (c[1:n] - c[: n - 1]) * np.where(is_empty, 0.0, k / np.where(is_empty, 1.0, width))[:, None]
        t, c, k = t[1:-1], step, k - 1
    return t, c, k


def spline_formula(t, c, k, x, nu, extrapolate):
    beyond = is_beyond(t[k : np.shape(t)[0] - k], x)
    c = c[: np.shape(t)[0] - k - 1]
    t, c, k = derivative_coefficients(t, c, k, nu)
    i = knot_interval(t, k, x)
    weights = basis(t, k, x, i)
    y = np.sum(weights[:, :, None] * c[(i - k)[:, None] + np.arange(k + 1)], axis=1)
    return y if extrapolate else np.where(beyond[:, None], np.nan, y)


@dispatched
def spline_values(t, c, k, x, nu, extrapolate):
    arrays = [np.ascontiguousarray(z) for z in (t, c, x)]
    return original("_dierckx").evaluate_spline(arrays[0], arrays[1], k, arrays[2], nu, extrapolate)


by_formula(spline_values, spline_formula)


def design(t, k, x, nu=0):
    """Return the design matrix: all B-splines, or a derivative of them, at the given points."""
    return spline_formula(t, np.eye(np.shape(t)[0] - k - 1), k, x, nu, True)


@dispatched
def basis_values(t, k, x, left, nu):
    return original("_dierckx").evaluate_all_bspl(np.ascontiguousarray(t), k, float(x), left, nu)


def _basis_values(t, k, x, left, nu):
    return design(t, k, np.reshape(x, 1) * 1.0, nu)[0, left - k : left + 1]


by_formula(basis_values, _basis_values)


class Splines:
    """Formulas in place of ``scipy.interpolate._dierckx``."""

    @staticmethod
    def evaluate_spline(t, c, k, x, nu, extrapolate):
        return spline_values(t, c, k, x, nu, extrapolate)

    @staticmethod
    def find_interval(t, k, x, previous, extrapolate):
        return int(knot_interval(t, k, x))

    @staticmethod
    def evaluate_all_bspl(t, k, x, left, nu=0):
        return basis_values(t, k, as_array(x), left, nu)

    @staticmethod
    def _coloc(x, t, k, bands, offset):
        """Store the collocation matrix in LAPACK's banded form, transposed."""
        i = knot_interval(t, k, x)
        columns = (i - k)[:, None] + np.arange(k + 1)
        rows = np.arange(len(x))[:, None] + offset
        bands[columns, 2 * k + rows - columns] = basis(t, k, x, i)

    @staticmethod
    def data_matrix(x, t, k, w, extrapolate=False):
        i = knot_interval(t, k, x)
        return basis(t, k, x, i) * w[:, None], i - k, np.shape(t)[0] - k - 1


# ---- FITPACK


def padded(t, c, k):
    """Return the coefficients without FITPACK's padding, as a column."""
    return c[: np.shape(t)[0] - k - 1, None]


def fitpack_values(t, c, k, x, nu, ext):
    """Evaluate a spline as FITPACK does; `ext` selects what happens outside the knots, and 1 signals an error."""
    low, high = t[k], t[np.shape(t)[0] - k - 1]
    beyond = is_beyond(np.stack([low, high]), x)
    if ext == 2 and np.any(beyond):
        return None, 1
    if ext == 3:
        x = np.clip(x, low, high)
    y = fitpack_spline(t, c, k, x, nu, 0)
    return (np.where(beyond, 0.0, y) if ext == 1 else y), 0


@dispatched
def fitpack_spline(t, c, k, x, nu, ext):
    name = "_fitpack_impl"
    return original(name).splev(x, (t, c, k), nu, ext)


by_formula(fitpack_spline, lambda t, c, k, x, nu, ext: spline_formula(t, padded(t, c, k), k, x, nu, True)[:, 0])


@dispatched
def fitpack_derivatives(t, c, order, x):
    return fitpack().spalde(t, c, order, float(x))[0]


def _fitpack_derivatives(t, c, order, x):
    x, c = np.reshape(x, 1) * 1.0, padded(t, c, order - 1)
    return np.stack([spline_formula(t, c, order - 1, x, nu, True)[0, 0] for nu in range(order)])


by_formula(fitpack_derivatives, _fitpack_derivatives)


def antiderivative(t, c, k):
    """Return knots, coefficients and degree of the antiderivative that is zero at the first knot."""
    n = np.shape(t)[0] - k - 1
    rise = np.cumsum(c[:n] * (t[k + 1 :] - t[:n]) / (k + 1))
    zeros = np.zeros_like(rise[:1])
    return np.concatenate([t[:1], t, t[-1:]]), np.concatenate([zeros, rise]), k + 1


@dispatched
def fitpack_integral(t, c, k, a, b):
    return np.float64(original("_fitpack_impl").splint(float(a), float(b), (t, c, k)))


def _fitpack_integral(t, c, k, a, b):
    """Integrate a spline, which FITPACK treats as zero outside its base interval."""
    low, high = t[k], t[np.shape(t)[0] - k - 1]
    ends = np.clip(np.stack([as_array(a) * 1.0, as_array(b) * 1.0]), low, high)
    t, c, k = antiderivative(t, c, k)
    y = spline_formula(t, c[:, None], k, ends, 0, True)[:, 0]
    return y[1] - y[0]


by_formula(fitpack_integral, _fitpack_integral)


def interpolating_knots(x, k):
    """Return the knots of a spline through all points, as FITPACK and ``make_interp_spline`` choose them."""
    inner = x if k % 2 else (x[1:] + x[:-1]) / 2
    drop = (k + 1) // 2 if k % 2 else k // 2
    inner = inner[drop : np.shape(inner)[0] - drop]
    return np.concatenate([np.repeat(x[:1], k + 1), inner, np.repeat(x[-1:], k + 1)])


def fitted(x, y, w, t, k):
    """Return the coefficients of the spline with knots t that fits data by least squares, or interpolates them."""
    a = design(t, k, x)
    if np.shape(a)[0] == np.shape(a)[1]:
        return np.linalg.solve(a, y)
    a, y = (a, y) if w is None else (a * w[:, None], y * w)
    return np.linalg.solve(a.T @ a, a.T @ y)


def basis_integrals(t, k, ends):
    """Return the integral of each B-spline between two points."""
    low, high = t[k], t[np.shape(t)[0] - k - 1]
    n = np.shape(t)[0] - k - 1
    rises = np.tri(n) * (t[k + 1 :] - t[:n]) / (k + 1)
    knots = np.concatenate([t[:1], t, t[-1:]])
    y = spline_formula(knots, np.concatenate([np.zeros((1, n)), rises]), k + 1, np.clip(ends, low, high), 0, True)
    return y[1] - y[0]


@dispatched
def surface_integral(tx, ty, c, kx, ky, xa, xb, ya, yb):
    ends = (float(z) for z in (xa, xb, ya, yb))
    return np.float64(fitpack().dblint(tx, ty, c, kx, ky, *ends))


def _surface_integral(tx, ty, c, kx, ky, xa, xb, ya, yb):
    of_x, of_y = (
        basis_integrals(t, k, np.stack([as_array(a) * 1.0, as_array(b) * 1.0]))
        for t, k, a, b in ((tx, kx, xa, xb), (ty, ky, ya, yb))
    )
    return of_x @ np.reshape(c, (np.shape(of_x)[0], np.shape(of_y)[0])) @ of_y


by_formula(surface_integral, _surface_integral)


def inserted(t, c, k, x, count):
    """Return knots and coefficients after a knot is inserted several times (Boehm 1980)."""
    for _ in range(count):
        n = np.shape(t)[0] - k - 1
        left = knot_interval(t, k, x)
        i = np.arange(n + 1)
        width = t[np.minimum(i, n - 1) + k] - t[np.minimum(i, n)]
        inside = (left - k < i) & (i <= left)
        weight = np.where(inside, (x - t[np.minimum(i, n)]) / np.where(inside, width, 1.0), i <= left - k)
        c = weight * c[np.minimum(i, n - 1)] + (1 - weight) * c[np.maximum(i - 1, 0)]
        t = np.concatenate([t[: left + 1], np.reshape(x, 1), t[left + 1 :]])
    return t, c


@dispatched
def surface_derivative(tx, ty, c, kx, ky, nux, nuy):
    """Return the coefficients of a derivative of a surface, followed by zeros."""
    found = np.array(fitpack().pardtc(tx, ty, c, kx, ky, nux, nuy)[0])
    found[(len(tx) - nux - kx - 1) * (len(ty) - nuy - ky - 1) :] = 0.0
    return found


def _surface_derivative(tx, ty, c, kx, ky, nux, nuy):
    c = np.reshape(c, (np.shape(tx)[0] - kx - 1, np.shape(ty)[0] - ky - 1))
    c = np.transpose(derivative_coefficients(tx, c, kx, nux)[1])
    c = np.transpose(derivative_coefficients(ty, c, ky, nuy)[1])
    return np.concatenate([np.ravel(c), np.zeros((np.shape(tx)[0] - kx - 1) * (np.shape(ty)[0] - ky - 1) - np.size(c))])


by_formula(surface_derivative, _surface_derivative)


def surface(tx, ty, c, kx, ky, dx, dy, x, y, is_grid):
    """Evaluate a tensor product spline on a grid or at points."""
    c = np.reshape(c, (np.shape(tx)[0] - kx - 1, np.shape(ty)[0] - ky - 1))
    x = np.clip(x, tx[kx], tx[np.shape(tx)[0] - kx - 1])
    y = np.clip(y, ty[ky], ty[np.shape(ty)[0] - ky - 1])
    of_x, of_y = design(tx, kx, np.atleast_1d(x), dx), design(ty, ky, np.atleast_1d(y), dy)
    return of_x @ c @ of_y.T if is_grid else np.sum((of_x @ c) * of_y, axis=1)


@dispatched
def surface_values(tx, ty, c, kx, ky, dx, dy, x, y, is_grid):
    module = fitpack()
    if dx or dy:
        return (module.parder if is_grid else module.pardeu)(tx, ty, c, kx, ky, dx, dy, x, y)[0]
    return (module.bispev if is_grid else module.bispeu)(tx, ty, c, kx, ky, x, y)[0]


by_formula(surface_values, surface)


class Fitpack:
    """Formulas in place of FITPACK, ``scipy.interpolate._fitpack``; its other functions are SciPy's, of plain data."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_module"), name)

    @staticmethod
    def splev(t, c, k, x, ext):
        return fitpack_values(t, c, k, x, 0, ext)

    @staticmethod
    def splder(t, c, k, nu, x, ext):
        return fitpack_values(t, c, k, x, nu, ext)

    @staticmethod
    def splint(t, c, k, a, b):
        return fitpack_integral(t, c, k, a, b)

    @staticmethod
    def spalde(t, c, order, x):
        return fitpack_derivatives(t, c, order, as_array(x)), 0

    @staticmethod
    def bispev(tx, ty, c, kx, ky, x, y):
        return surface_values(tx, ty, c, kx, ky, 0, 0, x, y, True), 0

    @staticmethod
    def bispeu(tx, ty, c, kx, ky, x, y):
        return surface_values(tx, ty, c, kx, ky, 0, 0, x, y, False), 0

    @staticmethod
    def insert(per, t, c, k, x, m):
        if per:
            raise UnsupportedFunctionError("scipy.interpolate.insert with per= has no derivative rule: leave it out")
        knots, found = inserted(t, c[: np.shape(t)[0] - k - 1], k, as_array(x), m)
        return knots, np.concatenate([found, np.zeros(k + 1)]), 0

    @staticmethod
    def pardtc(tx, ty, c, kx, ky, nux, nuy):
        return surface_derivative(tx, ty, c, kx, ky, nux, nuy), 0

    @staticmethod
    def dblint(tx, ty, c, kx, ky, xa, xb, ya, yb):
        return surface_integral(tx, ty, c, kx, ky, xa, xb, ya, yb)

    @staticmethod
    def parder(tx, ty, c, kx, ky, dx, dy, x, y):
        return surface_values(tx, ty, c, kx, ky, dx, dy, x, y, True), 0

    @staticmethod
    def pardeu(tx, ty, c, kx, ky, dx, dy, x, y):
        return surface_values(tx, ty, c, kx, ky, dx, dy, x, y, False), 0


class FortranFitpack(Fitpack):
    """Formulas in place of FITPACK in Fortran, ``scipy.interpolate._dfitpack``, before SciPy 1.18."""

    @staticmethod
    def splder(t, c, k, x, nu, ext):
        return fitpack_values(t, c, k, x, nu, ext)

    @staticmethod
    def splint(t, c, k, a, b):
        return fitpack_integral(t, c, k, a, b), None

    @staticmethod
    def _insert(per, t, c, k, x, m):
        return Fitpack.insert(per, t, c, k, x, m)


def lagrange_coefficients(x, w):
    """Return the coefficients of the interpolating polynomial, highest power first."""
    total = 0.0
    for j in range(np.shape(x)[0]):
        c = w[j : j + 1]
        for k in range(np.shape(x)[0]):
            if k != j:
                rest = np.concatenate([c, np.zeros(1)]) - x[k] * np.concatenate([np.zeros(1), c])
                c = rest / (x[j] - x[k])
        total = total + c
    return total


# ---- scattered points in the plane


@dispatched
def gradient_system(points, starts, neighbours):
    """Return matrices K and B with K g = B f for the gradients g that minimise the curvature along all edges.

    References
    ----------
    Nielson (1983), A method for interpolating scattered data based upon a minimum norm network.
    """
    n = len(points)
    i, j = np.repeat(np.arange(n), np.diff(starts)), neighbours
    e = points[j] - points[i]
    cubed = np.linalg.norm(e, axis=1) ** 3
    outer, slope = e[:, :, None] * e[:, None, :] / cubed[:, None, None], 6 * e / cubed[:, None]
    k, b = np.zeros((n, 2, n, 2)), np.zeros((n, 2, n))
    np.add.at(k, (i, slice(None), i), 4 * outer)
    np.add.at(k, (i, slice(None), j), 2 * outer)
    np.add.at(b, (i, slice(None), j), slope)
    np.add.at(b, (i, slice(None), i), -slope)
    return np.concatenate([k.reshape(2 * n, 2 * n), b.reshape(2 * n, n)], axis=1)


constant(gradient_system)


def gradients(points, starts, neighbours, values):
    """Return the gradient at each point, along the last axis; values have one column per function."""
    n = len(points)
    both = gradient_system(points, starts, neighbours)
    g = np.linalg.solve(both[:, : 2 * n], both[:, 2 * n :] @ values)
    return np.swapaxes(np.reshape(g, (n, 2, -1)), 1, 2)


def ratios(triangulation, simplex):
    """Return, for each triangle and edge, where the normal derivative across the edge is taken to be linear."""
    found = []
    for k in range(3):
        beside = triangulation.neighbors[simplex, k]
        centre = triangulation.points[triangulation.simplices[beside]].mean(axis=1)
        transform = triangulation.transform[simplex]
        c = np.einsum("nij,nj->ni", transform[:, :2], centre - transform[:, 2])
        c = np.concatenate([c, 1 - c.sum(axis=1, keepdims=True)], axis=1)
        first, second = c[:, (k + 1) % 3], c[:, (k + 2) % 3]
        found.append(np.where(beside < 0, -0.5, (2 * second + first - 1) / (2 - 3 * second - 3 * first)))
    return np.stack(found)


def clough_tocher(points, g, b, f, df):
    """Evaluate the cubic of Clough and Tocher in triangles.

    Parameters
    ----------
    points : array of shape (n, 3, 2)
    g : array of shape (3, n)
        The `ratios`.
    b : array of shape (3, n)
        Barycentric coordinates.
    f : array of shape (3, n, m)
        Values at the corners.
    df : array of shape (3, n, m, 2)
        Gradients there.

    References
    ----------
    Alfeld (1984), A trivariate Clough-Tocher scheme for tetrahedral data. doi:10.1016/0167-8396(84)90029-3
    """
    b, g = b[:, :, None], g[:, :, None]
    inner, along = [None] * 3, {}
    for i in range(3):
        for j in range(3):
            if i != j:
                edge = (points[:, j] - points[:, i])[:, None, :]
                along[i, j] = f[i] + np.sum(df[i] * edge, axis=-1) / 3
    near = [(along[i, (i + 1) % 3] + along[i, (i + 2) % 3] + f[i]) / 3 for i in range(3)]
    for k in range(3):  # the edge opposite to corner k
        i, j = (k + 1) % 3, (k + 2) % 3
        bend = -f[i] + 3 * along[i, j] - 3 * along[j, i] + f[j]
        inner[k] = (g[k] * bend - f[i] + 2 * along[i, j] - along[j, i] + near[j] + near[i]) / 2
    middle = [(inner[(k + 1) % 3] + inner[(k + 2) % 3] + near[k]) / 3 for k in range(3)]
    centre = (middle[0] + middle[1] + middle[2]) / 3
    least = np.min(b, axis=0)
    b, rest = b - least, 3 * least
    y = centre * rest**3
    for i in range(3):
        y = y + b[i] ** 3 * f[i] + 3 * b[i] ** 2 * rest * near[i] + 3 * b[i] * rest**2 * middle[i]
        for j in range(3):
            if i != j:
                y = y + 3 * b[i] ** 2 * b[j] * along[i, j]
        y = y + 6 * b[(i + 1) % 3] * b[(i + 2) % 3] * rest * inner[i]
    return y


# ---- regular grids


def grid_places(grid, xi):
    """Return the cell index of each point along each axis, and the normalised distance within the cell."""
    cells, distances = [], []
    for points, x in zip(grid, xi, strict=True):
        if np.size(points) == 1:
            cells.append(np.full(np.shape(x), -1))
            distances.append(0.0 * x)
            continue
        i = piece_of(points, x)
        cells.append(i)
        distances.append((x - points[i]) / (points[i + 1] - points[i]))
    return np.stack(cells), np.stack(distances)


def points_of(points, ndim=None):
    """Return points with their coordinates along the last axis, as ``_ndim_coords_from_arrays`` does."""
    if isinstance(points, tuple):
        return np.stack(np.broadcast_arrays(*[as_array(p) * 1.0 for p in points]), axis=-1)
    points = as_array(points)
    return np.reshape(points, (-1, 1 if ndim is None else ndim)) if np.ndim(points) == 1 else points


def tensor_coefficients(knots, degrees, grid, values):
    """Return the coefficients of the tensor product spline that interpolates values on a grid."""
    for axis, (t, k, x) in enumerate(zip(knots, degrees, grid, strict=True)):
        lines = np.moveaxis(values, axis, 0)
        flat = np.linalg.solve(design(t, k, x), np.reshape(lines, (len(x), -1)))
        values = np.moveaxis(np.reshape(flat, np.shape(lines)), 0, axis)
    return values


def tensor_values(knots, degrees, c, xi, orders):
    """Evaluate a tensor product spline, or a derivative of it, at points."""
    y = None
    for axis, (t, k, nu) in enumerate(zip(knots, degrees, orders, strict=True)):
        row = design(t, k, xi[:, axis], nu)
        y = np.tensordot(row, c, 1) if y is None else np.sum(row[(..., *[None] * (np.ndim(y) - 2))] * y, axis=1)
    return y


def bilinear(values, cells, distances, grid, out):
    (i, j), (s, t) = cells, distances
    return (
        values[i, j] * (1 - s) * (1 - t)
        + values[i, j + 1] * (1 - s) * t
        + values[i + 1, j] * s * (1 - t)
        + values[i + 1, j + 1] * s * t
    )
