"""Linear systems and spectra of sparse matrices: the cotangent of a matrix has its sparsity pattern.

A system is solved by a function of SciPy, and its adjoint by the same function with the transposed matrix.
"""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import splu

from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.registry import conjugated, structural
from wengert.rules.broadcasting import columnwise, conjugate
from wengert.rules.composed import dispatched


class Pattern:
    """Row and column indices of the entries of a sparse matrix; duplicates are summed.

    ``solve(A, b)`` solves a system with a SciPy matrix of the given format. Systems of derivatives are solved by
    ``solve_derived(A, b, is_transposed)``, or with one common factorisation if the method is direct.
    """

    def __init__(self, row, col, shape, solve, format="csc", is_direct=False, solve_derived=None):
        self.row, self.col, self.shape, self.solve, self.format = row, col, shape, solve, format
        self.solve_derived = solve_derived
        self.is_direct, self.is_derived, self.is_transposed = is_direct, False, False
        self._relatives = {}
        self._factors = [None, None]

    def _relative(self, is_transposed):
        """Return the pattern of the same matrix, or its transpose, for systems of derivatives."""
        if is_transposed not in self._relatives:
            row, col, shape = self.row, self.col, self.shape
            if is_transposed != self.is_transposed:
                row, col, shape = col, row, shape[::-1]
            new = Pattern(row, col, shape, self.solve, self.format, self.is_direct, self.solve_derived)
            new.is_derived, new.is_transposed = True, is_transposed
            new._relatives, new._factors = self._relatives, self._factors
            self._relatives[is_transposed] = new
        return self._relatives[is_transposed]

    @property
    def transposed(self):
        return self._relative(not self.is_transposed)

    @property
    def derived(self):
        return self._relative(self.is_transposed)

    def matrix(self, entries):
        coo = scipy.sparse.coo_array((np.asarray(entries), (self.row, self.col)), shape=self.shape)
        return coo.asformat(self.format)

    def solved(self, entries, b):
        b = np.ascontiguousarray(b)
        if self.is_derived and self.solve_derived is not None:
            return self.solve_derived(self.matrix(entries), b, self.is_transposed)
        if not (self.is_derived and self.is_direct):
            return self.solve(self.matrix(entries), b)
        known, factors = self._factors
        if known is None or not np.array_equal(known, entries):
            matrix = self.matrix(entries)
            factors = splu((matrix.T if self.is_transposed else matrix).tocsc())
            self._factors[:] = np.array(entries), factors
        if np.iscomplexobj(b) and not np.iscomplexobj(entries):
            return self.solved(entries, b.real) + 1j * self.solved(entries, b.imag)
        b = b.astype(np.result_type(b, entries), copy=False)
        return factors.solve(b, "T" if self.is_transposed else "N")


@dispatched
def solution(entries, b, pattern):
    """Solve a sparse system for one right-hand side or several."""
    return np.array(pattern.solved(entries, b))  # a solver may return b itself


def solved(entries, b, pattern, ndim):
    """Solve for right-hand sides with `ndim` axes, preceded by axes of directions."""
    return columnwise(lambda columns: solution(entries, columns, pattern), b, -ndim)


def outer_at(pattern, u, v):
    """Return u_i v_j for each entry (i, j), summed over the columns of v; u may have leading axes of directions."""
    if np.ndim(v) == 1:
        return u[..., pattern.row] * v[pattern.col]
    return np.sum(u[..., pattern.row, :] * v[pattern.col], axis=-1)


def product_at(pattern, entries, x):
    """Return the product of a sparse matrix and x; `entries` may have leading axes of directions."""
    picked = x[pattern.col]
    terms = (entries[..., None] if np.ndim(x) == 2 else entries) * picked
    count = len(pattern.row)
    sums = scipy.sparse.csc_array((np.ones(count), pattern.row, np.arange(count + 1)), (pattern.shape[0], count))
    return columnwise(lambda b: applied(b, lambda b: sums @ b, lambda b: sums.T @ b), terms, -np.ndim(x))


def solution_wrt_entries(ybar, y, entries, b, pattern):
    return outer_at(pattern, -solution_wrt_right_side(ybar, y, entries, b, pattern), conjugate(y))


def solution_wrt_right_side(ybar, y, entries, b, pattern):
    """Solve with the conjugate transpose, by the factors of the transpose."""
    return conjugate(solved(entries, conjugate(ybar), pattern.transposed, np.ndim(y)))


structural(
    solution,
    solution_wrt_entries,
    solution_wrt_right_side,
    jvp=(
        lambda t, y, entries, b, pattern: solved(entries, -product_at(pattern, t, y), pattern.derived, np.ndim(y)),
        lambda t, y, entries, b, pattern: solved(entries, t, pattern.derived, np.ndim(y)),
    ),
).name = "scipy.sparse.linalg.spsolve"
conjugated(solution)


# ---- least squares


@dispatched
def least_squares(entries, b, pattern):
    """Minimise |Ax - b|, and |x| among the minima."""
    return np.array(pattern.solved(entries, b))


def least_squares_wrt_entries(ybar, y, entries, b, pattern):
    """Cotangent of the entries for full rank (Golub and Pereyra 1973, Differentiation of pseudo-inverses, eq. 4.12)."""
    u = least_squares(entries, ybar, pattern.transposed)
    found = outer_at(pattern, -u, y)
    if pattern.shape[0] >= pattern.shape[1]:  # full column rank
        r = b - product_at(pattern, entries, y)
        return found + outer_at(pattern, r, least_squares(entries, u, pattern.derived))
    beyond = ybar - product_at(pattern.transposed, entries, u)
    return found + outer_at(pattern, least_squares(entries, y, pattern.transposed), beyond)


structural(
    least_squares,
    least_squares_wrt_entries,
    lambda ybar, y, entries, b, pattern: least_squares(entries, ybar, pattern.transposed),
    stacked=False,
).name = "scipy.sparse.linalg.lsqr"


@dispatched
def estimate(entries, b, value):
    """Return an estimate that a solver reports, which has no derivative."""
    return np.asarray(value)


def _no_derivative(*args):
    raise UnsupportedFunctionError(
        "an estimate that scipy.sparse.linalg.lsqr and lsmr report has no derivative: compute the norm by NumPy"
    )


def _unknown(t, y, entries, b, value):
    return np.full(np.shape(t)[: np.ndim(t) - 1] + np.shape(y), np.nan)


row = structural(estimate, _no_derivative, _no_derivative, jvp=(_unknown, _unknown), stacked=False)
row.name = "scipy.sparse.linalg.lsqr"


# ---- eigenvalues and singular values


class Spectrum:
    """Function that computes some eigenpairs or singular triplets of a sparse matrix, and the matrix's pattern.

    ``compute(A, M)`` returns the values and the vectors, stacked to an array of shape (1 + n, k); for singular values
    n is the sum of both dimensions. The last result is kept.
    """

    def __init__(self, pattern, compute, mass=None):
        self.pattern, self.mass = pattern, mass
        self._compute = compute
        self._last = None

    def __call__(self, entries, mass_entries):
        given = [np.array(entries), np.array(mass_entries)]
        if self._last is None or not all(map(np.array_equal, given, self._last[0])):
            mass = None if self.mass is None else self.mass.matrix(given[1])
            self._last = given, self._compute(self.pattern.matrix(given[0]), mass)
        return self._last[1].copy()


@dispatched
def eigenpairs(entries, mass_entries, spectrum):
    """Return eigenvalues w and vectors with A v = w M v, v^T M v = 1, as an array with the eigenvalues in row 0."""
    return spectrum(entries, mass_entries)


@dispatched
def eigenvalues(entries, mass_entries, spectrum):
    return spectrum(entries, mass_entries)[0]


def _mass_times(mass_entries, spectrum, v):
    return v if spectrum.mass is None else product_at(spectrum.mass, mass_entries, v)


def _multipliers(zbar, z, entries, mass_entries, spectrum):
    """Solve the transposed linearisation of A v - w M v = 0, (1 - v^T M v) / 2 = 0 for each eigenpair."""
    a, m = spectrum.pattern, spectrum.mass
    n = a.shape[0]
    every, zeros = np.arange(n), np.zeros(n, int)
    row = np.concatenate([a.row, every if m is None else m.row, every, zeros + n])
    col = np.concatenate([a.col + 1, (every if m is None else m.col) + 1, zeros, every + 1])
    found = []
    for j in range(np.shape(z)[1]):
        w, v = z[0, j], z[1:, j]
        Mv = _mass_times(mass_entries, spectrum, v)
        mass = np.full(n, -1.0) * w if m is None else -w * mass_entries
        bordered = np.concatenate([entries, mass, -Mv, -Mv])
        system = Pattern(row, col, (n + 1, n + 1), None, solve_derived=_spsolve("eigsh"))
        found.append(solution(bordered, zbar[:, j], system.transposed))
    return np.stack(found, axis=1)


def _spsolve(name):
    def solve(A, b, is_transposed):
        """Solve a system that is singular if an eigenvalue or singular value is repeated."""
        try:
            x = splu(A.tocsc()).solve(b)
        except RuntimeError:
            x = np.full(np.shape(b), np.inf)
        if not np.linalg.norm(x) * abs(A).max() < 1e12 * max(np.linalg.norm(b), 1e-300):
            raise NonSmoothError(
                f"scipy.sparse.linalg.{name}: the derivative of vectors of equal values does not exist: use a "
                "function of the matrix"
            )
        return x

    return solve


def eigenpairs_wrt_entries(zbar, z, entries, mass_entries, spectrum):
    mu = _multipliers(zbar, z, entries, mass_entries, spectrum)
    return -outer_at(spectrum.pattern, mu[:-1], z[1:])


def eigenpairs_wrt_mass(zbar, z, entries, mass_entries, spectrum):
    mu = _multipliers(zbar, z, entries, mass_entries, spectrum)
    v = z[1:]
    return outer_at(spectrum.mass, mu[:-1] * z[0], v) + outer_at(spectrum.mass, v, v * mu[-1]) / 2


def eigenvalues_wrt_entries(wbar, w, entries, mass_entries, spectrum):
    v = eigenpairs(entries, mass_entries, spectrum)[1:]
    return outer_at(spectrum.pattern, v, v * wbar)


def eigenvalues_wrt_mass(wbar, w, entries, mass_entries, spectrum):
    v = eigenpairs(entries, mass_entries, spectrum)[1:]
    return -outer_at(spectrum.mass, v, v * (w * wbar))


structural(eigenpairs, eigenpairs_wrt_entries, eigenpairs_wrt_mass, stacked=False).name = "scipy.sparse.linalg.eigsh"
structural(eigenvalues, eigenvalues_wrt_entries, eigenvalues_wrt_mass, stacked=False).name = "scipy.sparse.linalg.eigsh"


@dispatched
def singular_triplets(entries, spectrum):
    """Return s, U and V as an array with s in row 0, and the vectors u and v in the columns below."""
    return spectrum(entries, ())


@dispatched
def singular_values(entries, spectrum):
    return spectrum(entries, ())[0]


def triplets_wrt_entries(zbar, z, entries, spectrum):
    """Solve the transposed linearisation of A v - s u = 0, A^T u - s v = 0, (1 - u^T u) / 2 = 0 for each triplet."""
    a = spectrum.pattern
    m, n = a.shape
    of_u, of_v, last = np.arange(m), m + np.arange(n), m + n
    row = np.concatenate([a.row, m + a.col, of_u, of_v, of_u, of_v, np.full(m, last)])
    col = np.concatenate([1 + m + a.col, 1 + a.row, 1 + of_u, 1 + of_v, 0 * of_u, 0 * of_v, 1 + of_u])
    found = 0.0
    for j in range(np.shape(z)[1]):
        s, u, v = z[0, j], z[1 : m + 1, j], z[m + 1 :, j]
        bordered = np.concatenate([entries, entries, np.full(m + n, -1.0) * s, -u, -v, -u])
        system = Pattern(row, col, (last + 1, last + 1), None, solve_derived=_spsolve("svds"))
        mu = solution(bordered, zbar[:, j], system.transposed)
        found = found - outer_at(a, mu[:m], v) - outer_at(a, u, mu[m:last])
    return found


def singular_values_wrt_entries(sbar, s, entries, spectrum):
    z = singular_triplets(entries, spectrum)
    m = spectrum.pattern.shape[0]
    return outer_at(spectrum.pattern, z[1 : m + 1] * sbar, z[m + 1 :])


structural(singular_triplets, triplets_wrt_entries, stacked=False).name = "scipy.sparse.linalg.svds"
structural(singular_values, singular_values_wrt_entries, stacked=False).name = "scipy.sparse.linalg.svds"


# ---- linear maps


@dispatched
def applied(b, apply, adjoint):
    """Apply a linear function of SciPy to a vector or columns; `adjoint` is its adjoint, the conjugate transpose."""
    return np.array(apply(np.ascontiguousarray(b)))


structural(
    applied,
    lambda ybar, y, b, apply, adjoint: columnwise(lambda c: applied(c, adjoint, apply), ybar, -np.ndim(y)),
    jvp=(lambda t, y, b, apply, adjoint: columnwise(lambda c: applied(c, apply, adjoint), t, -np.ndim(y)),),
    curvature="none",
)
conjugated(applied)
