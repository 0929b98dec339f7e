"""B-splines and the functions of FITPACK: formulas for the compiled functions that ``scipy.interpolate`` calls.

References
----------
de Boor (2001), A practical guide to splines, chapters IX and X.
"""

from __future__ import annotations

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import by_formula
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.scipy.interpolate import fitpack, is_beyond, original

# ---- B-splines


@locally_constant
def knot_interval(t, k, x):
    """Return the index i with t[i] <= x < t[i + 1], clipped to the base interval of the spline."""
    t, x = np.asarray(t), np.asarray(x)
    n = len(t) - k - 1
    return np.clip(np.searchsorted(t, x, side="right") - 1, k, n - 1)


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


by_formula(basis_values, lambda t, k, x, left, nu: design(t, k, np.reshape(x, 1) * 1.0, nu)[0, left - k : left + 1])


class Splines:
    """Formulas in place of ``scipy.interpolate._dierckx``."""

    evaluate_spline = staticmethod(lambda t, c, k, x, nu, extrapolate: spline_values(t, c, k, x, nu, extrapolate))
    find_interval = staticmethod(lambda t, k, x, previous, extrapolate: int(knot_interval(t, k, x)))
    evaluate_all_bspl = staticmethod(lambda t, k, x, left, nu=0: basis_values(t, k, as_array(x), left, nu))

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


# ---- products of B-splines on regular grids


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


# ---- FITPACK


def padded(t, c, k):
    """Return the coefficients without FITPACK's padding, as a column."""
    return c[: np.shape(t)[0] - k - 1, None]


def fitpack_values(t, c, k, x, nu, ext):
    """Evaluate a spline as FITPACK does, with its error code; `ext` selects what happens outside the knots."""
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
    return original("_fitpack_impl").splev(x, (t, c, k), nu, ext)


by_formula(fitpack_spline, lambda t, c, k, x, nu, ext: spline_formula(t, padded(t, c, k), k, x, nu, True)[:, 0])


@dispatched
def fitpack_derivatives(t, c, order, x):
    return fitpack().spalde(t, c, order, float(x))[0]


@by_formula(fitpack_derivatives)
def _fitpack_derivatives(t, c, order, x):
    x, c = np.reshape(x, 1) * 1.0, padded(t, c, order - 1)
    return np.stack([spline_formula(t, c, order - 1, x, nu, True)[0, 0] for nu in range(order)])


def antiderivative(t, c, k):
    """Return knots, coefficients and degree of the antiderivative that is zero at the first knot."""
    n = np.shape(t)[0] - k - 1
    rise = np.cumsum(c[:n] * (t[k + 1 :] - t[:n]) / (k + 1))
    zeros = np.zeros_like(rise[:1])
    return np.concatenate([t[:1], t, t[-1:]]), np.concatenate([zeros, rise]), k + 1


@dispatched
def fitpack_integral(t, c, k, a, b):
    return np.float64(original("_fitpack_impl").splint(float(a), float(b), (t, c, k)))


@by_formula(fitpack_integral)
def _fitpack_integral(t, c, k, a, b):
    """Integrate a spline, which FITPACK treats as zero outside its base interval."""
    low, high = t[k], t[np.shape(t)[0] - k - 1]
    ends = np.clip(np.stack([as_array(a) * 1.0, as_array(b) * 1.0]), low, high)
    t, c, k = antiderivative(t, c, k)
    y = spline_formula(t, c[:, None], k, ends, 0, True)[:, 0]
    return y[1] - y[0]


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


@by_formula(surface_integral)
def _surface_integral(tx, ty, c, kx, ky, xa, xb, ya, yb):
    of_x, of_y = (
        basis_integrals(t, k, np.stack([as_array(a) * 1.0, as_array(b) * 1.0]))
        for t, k, a, b in ((tx, kx, xa, xb), (ty, ky, ya, yb))
    )
    return of_x @ np.reshape(c, (np.shape(of_x)[0], np.shape(of_y)[0])) @ of_y


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


@by_formula(surface_derivative)
def _surface_derivative(tx, ty, c, kx, ky, nux, nuy):
    c = np.reshape(c, (np.shape(tx)[0] - kx - 1, np.shape(ty)[0] - ky - 1))
    c = np.transpose(derivative_coefficients(tx, c, kx, nux)[1])
    c = np.transpose(derivative_coefficients(ty, c, ky, nuy)[1])
    return np.concatenate([np.ravel(c), np.zeros((np.shape(tx)[0] - kx - 1) * (np.shape(ty)[0] - ky - 1) - np.size(c))])


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
    """Formulas in place of FITPACK, ``scipy.interpolate._fitpack``; other functions stay SciPy's, for plain data."""

    def __init__(self, module):
        self._module = module

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "_module"), name)

    splev = staticmethod(lambda t, c, k, x, ext: fitpack_values(t, c, k, x, 0, ext))
    splder = staticmethod(lambda t, c, k, nu, x, ext: fitpack_values(t, c, k, x, nu, ext))
    splint = staticmethod(lambda t, c, k, a, b: fitpack_integral(t, c, k, a, b))
    spalde = staticmethod(lambda t, c, order, x: (fitpack_derivatives(t, c, order, as_array(x)), 0))
    bispev = staticmethod(lambda tx, ty, c, kx, ky, x, y: (surface_values(tx, ty, c, kx, ky, 0, 0, x, y, True), 0))
    bispeu = staticmethod(lambda tx, ty, c, kx, ky, x, y: (surface_values(tx, ty, c, kx, ky, 0, 0, x, y, False), 0))

    @staticmethod
    def insert(per, t, c, k, x, m):
        if per:
            raise UnsupportedFunctionError("scipy.interpolate.insert with per= has no derivative rule: leave it out")
        knots, found = inserted(t, c[: np.shape(t)[0] - k - 1], k, as_array(x), m)
        return knots, np.concatenate([found, np.zeros(k + 1)]), 0

    pardtc = staticmethod(lambda tx, ty, c, kx, ky, nux, nuy: (surface_derivative(tx, ty, c, kx, ky, nux, nuy), 0))
    dblint = staticmethod(lambda tx, ty, c, kx, ky, xa, xb, ya, yb: surface_integral(tx, ty, c, kx, ky, xa, xb, ya, yb))
    parder = staticmethod(lambda *surface_and_points: (surface_values(*surface_and_points, True), 0))
    pardeu = staticmethod(lambda *surface_and_points: (surface_values(*surface_and_points, False), 0))


class FortranFitpack(Fitpack):
    """Formulas in place of FITPACK in Fortran, ``scipy.interpolate._dfitpack``, before SciPy 1.18."""

    splder = staticmethod(lambda t, c, k, x, nu, ext: fitpack_values(t, c, k, x, nu, ext))
    splint = staticmethod(lambda t, c, k, a, b: (fitpack_integral(t, c, k, a, b), None))
    _insert = staticmethod(lambda per, t, c, k, x, m: Fitpack.insert(per, t, c, k, x, m))
