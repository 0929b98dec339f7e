"""Piecewise polynomials and interpolants: formulas for the compiled functions that ``scipy.interpolate`` calls.

The interval that contains a point is plain, so the derivative at a breakpoint is that of the piece evaluated there.
"""

from __future__ import annotations

import importlib
import math

import numpy as np

from wengert.registry import by_formula, structural
from wengert.rules.composed import as_array, dispatched, locally_constant

# ---- piecewise polynomials in the power basis


def original(name):
    return importlib.import_module(f"scipy.interpolate.{name}")


def fitpack():
    """Return SciPy's interface to FITPACK, which is in C since SciPy 1.18 and in Fortran before."""
    module = original("_fitpack2")
    return module.dfitpack if hasattr(module, "dfitpack") else module._fitpack


@locally_constant
def piece_of(x, xp):
    """Return the index of the piece of each point; the last breakpoint belongs to the last piece."""
    x, xp = np.asarray(x), np.asarray(xp)
    m = len(x) - 1
    if x[-1] >= x[0]:
        return np.clip(np.searchsorted(x, xp, side="right") - 1, 0, m - 1)
    return np.clip(np.searchsorted(-x, -xp, side="right") - 1, 0, m - 1)


@locally_constant
def is_beyond(x, xp):
    """Return whether each point lies outside of the breakpoints or is NaN."""
    low, high = min(x[0], x[-1]), max(x[0], x[-1])
    return ~((xp >= low) & (xp <= high))


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


@by_formula(polynomial_integral, on_complex=True)
def _integral(c, x, a, b, extrapolate):
    whole = made_continuous(integrated(c), x, 0)
    ends = np.stack([as_array(a) * 1.0, as_array(b) * 1.0])
    y = or_nan(evaluated(whole, x, ends, 0), x, ends, extrapolate)
    return y[1] - y[0]


@locally_constant
def plain_roots(c, x, y, discontinuity, extrapolate, column):
    c = np.ascontiguousarray(c[:, :, column : column + 1])
    return original("_ppoly").real_roots(c, np.ascontiguousarray(x), float(y), discontinuity, extrapolate)[0]


@locally_constant
def at_jump(c, r, is_finite):
    """Return whether each reported root is a change of sign at a breakpoint rather than a zero."""
    slope, scale = horner(differentiated(c, 1), r), np.max(np.abs(c), axis=0)
    return is_finite & (np.abs(horner(c, r)) > 1e-6 * (scale + np.abs(slope)))


@locally_constant
def distance(r, x, i):
    return r - np.asarray(x)[i]


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
    stacked=False,
).name = "scipy.interpolate.PPoly.roots"


def roots(c, x, y, discontinuity, extrapolate, column):
    """Return where a column of piecewise polynomials has the value y; a jump across y moves with its breakpoint."""
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


@by_formula(bernstein_values, on_complex=True)
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


@dispatched
def tensor_polynomial(c, x, ks, xp, nu, extrapolate):
    c, xp = np.ascontiguousarray(c), np.ascontiguousarray(xp)
    out = np.empty((len(xp), c.shape[2]), dtype=c.dtype)
    original("_ppoly").evaluate_nd(c, tuple(map(np.ascontiguousarray, x)), ks, xp, nu, extrapolate, out)
    return out


@by_formula(tensor_polynomial)
def _tensor_polynomial(c, x, ks, xp, nu, extrapolate):
    """Sum products of powers along each axis; the rows of c are powers, its columns are pieces."""
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


# ---- polynomials through points


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


@locally_constant
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


def gradients(points, starts, neighbours, values):
    """Return the gradient at each point, along the last axis; values have one column per function."""
    n = len(points)
    both = gradient_system(points, starts, neighbours)
    g = np.linalg.solve(both[:, : 2 * n], both[:, 2 * n :] @ values)
    return np.swapaxes(np.reshape(g, (n, 2, -1)), 1, 2)


def ratios(triangulation, simplex):
    """Return for each edge of each triangle the ratio that sets the direction whose derivative is linear there."""
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


def bilinear(values, cells, distances, grid, out):
    (i, j), (s, t) = cells, distances
    return (
        values[i, j] * (1 - s) * (1 - t)
        + values[i, j + 1] * (1 - s) * t
        + values[i + 1, j] * s * (1 - t)
        + values[i + 1, j + 1] * s * t
    )
