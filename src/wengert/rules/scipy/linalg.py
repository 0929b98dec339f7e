"""Linear systems, inverses, determinants and norms of ``scipy.linalg``.

Dense functions use NumPy's rules, applied to the matrix that SciPy reads: one triangle for ``assume_a="pos"``.
A matrix that is symmetric and read in one triangle gets a symmetric gradient, as in ``numpy.linalg.cholesky``.
"""

from __future__ import annotations

import functools
import importlib

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import by_formula, composed, conjugated, or_decorator, structural
from wengert.rules.broadcasting import columnwise, conjugate
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.linalg import hermitian_read, hermitian_read_transpose
from wengert.rules.products import adjoint
from wengert.rules.scipy.functions import Functions

la = Functions("scipy.linalg")


@or_decorator
def formula(name, body, on_complex=True):
    """Declare a function of the module by a formula, if this version of SciPy has it."""
    if la.has(name):
        by_formula(getattr(la, name), body, on_complex=on_complex)


def unsupported(name, option, instead):
    return UnsupportedFunctionError(f"scipy.linalg.{name} with {option} has no derivative rule: {instead}")


# ---- matrices that SciPy reads from one triangle


@dispatched
def hermitian_from(a, UPLO):
    """Return the Hermitian matrix with the given triangle of `a`."""
    is_kept = np.tri(np.shape(a)[-1], dtype=bool)
    is_kept = is_kept if UPLO == "L" else is_kept.T
    return np.where(is_kept, a, adjoint(a))


structural(
    hermitian_from,
    lambda ybar, y, a, UPLO: hermitian_read_transpose((ybar + adjoint(ybar)) / 2, a, UPLO),
    jvp=(lambda t, y, a, UPLO: hermitian_read(t, a, UPLO),),
    curvature="none",
    on_complex=True,
)


def symmetric_from(a, UPLO):
    """Return the symmetric matrix with the given triangle of `a`, complex or not."""
    if a.dtype.kind != "c":
        return hermitian_from(a, UPLO)
    is_kept = np.tri(np.shape(a)[-1], dtype=bool)
    return np.where(is_kept if UPLO == "L" else is_kept.T, a, np.swapaxes(a, -1, -2))


def triangle(a, is_lower, has_unit_diagonal=False):
    a = np.tril(a) if is_lower else np.triu(a)
    return np.where(np.eye(np.shape(a)[-1], dtype=bool), 1.0, a) if has_unit_diagonal else a


def matrix_read(a, assume_a, lower):
    """Return the matrix that SciPy reads under an assumption about its structure."""
    UPLO = "L" if lower else "U"
    match assume_a:
        case None | "gen" | "general" | "banded":
            return a
        case "tridiagonal":
            return np.triu(np.tril(a, 1), -1)
        case "sym" | "symmetric":
            return symmetric_from(a, UPLO)
        case "her" | "hermitian" | "pos" | "positive definite":
            return hermitian_from(a, UPLO)
        case "diagonal":
            return np.where(np.eye(np.shape(a)[-1], dtype=bool), a, 0)
        case "upper triangular":
            return np.triu(a)
        case "lower triangular":
            return np.tril(a)
    raise unsupported("solve", f"assume_a={assume_a!r}", "use another value")


# ---- dense systems


@formula("solve")
def _solve(a, b, lower=False, overwrite_a=False, overwrite_b=False, check_finite=True, assume_a=None, transposed=False):
    a = matrix_read(as_array(a), assume_a, lower)
    return np.linalg.solve(np.swapaxes(a, -1, -2) if transposed else a, as_array(b))


@formula("inv")
def _inv(a, overwrite_a=False, check_finite=True, *, assume_a=None, lower=False):
    return np.linalg.inv(matrix_read(as_array(a), assume_a, lower))


#: minimum size for which LAPACK's triangular solver is used; programs solve smaller systems faster by LU
MIN_TRIANGULAR = 16


@formula("solve_triangular")
def solve_triangular(a, b, trans=0, lower=False, unit_diagonal=False, overwrite_b=False, check_finite=True):
    a, b, trans = as_array(a), as_array(b), {0: "N", 1: "T", 2: "C"}.get(trans, trans)
    if np.ndim(a) == 2 and np.ndim(b) <= 2 and np.shape(a)[0] >= MIN_TRIANGULAR:
        return triangular_solution(a, b, trans, bool(lower), bool(unit_diagonal))
    a = triangle(a, lower, unit_diagonal)
    if trans != "N":
        a = np.swapaxes(a, -1, -2) if trans == "T" else adjoint(a)
    return np.linalg.solve(a, b)


@dispatched
def triangular_solution(a, b, trans, lower, has_unit_diagonal):
    """Solve op(A) x = b for the triangle A of `a`, where op is the identity, the transpose or its conjugate."""
    return la.solve_triangular.__wrapped__(a, b, trans, lower, has_unit_diagonal)


def triangle_read(t, lower, has_unit_diagonal):
    return np.tril(t, -int(has_unit_diagonal)) if lower else np.triu(t, int(has_unit_diagonal))


def triangular_wrt_right_side(ybar, y, a, b, trans, lower, has_unit_diagonal):
    a, turned = (np.conj(a), "N") if trans == "T" and a.dtype.kind == "c" else (a, "N" if trans != "N" else "C")
    return triangular_along_right_side(ybar, y, a, b, turned, lower, has_unit_diagonal)


def triangular_wrt_matrix(ybar, y, a, b, trans, lower, has_unit_diagonal):
    bbar = triangular_wrt_right_side(ybar, y, a, b, trans, lower, has_unit_diagonal)
    factors = {"N": (bbar, conjugate(y)), "T": (conjugate(y), bbar), "C": (y, conjugate(bbar))}
    left, right = factors[trans]
    if np.ndim(y) == 1:  # a product of matrices would wake the threads of NumPy's BLAS in addition to SciPy's
        abar = left[..., :, None] * right[..., None, :]
    else:
        abar = left @ np.swapaxes(right, -1, -2)
    return -triangle_read(abar, lower, has_unit_diagonal)


def triangular_along_matrix(t, y, a, b, trans, lower, has_unit_diagonal):
    t = triangle_read(t, lower, has_unit_diagonal)
    t = {"N": lambda: t, "T": lambda: np.swapaxes(t, -1, -2), "C": lambda: adjoint(t)}[trans]()
    return triangular_along_right_side(-(t @ y), y, a, b, trans, lower, has_unit_diagonal)


def triangular_along_right_side(t, y, a, b, trans, lower, has_unit_diagonal):
    if np.ndim(t) == np.ndim(y):
        return triangular_solution(a, t, trans, lower, has_unit_diagonal)
    return np.stack([triangular_solution(a, part, trans, lower, has_unit_diagonal) for part in t])


row = structural(triangular_solution, triangular_wrt_matrix, triangular_wrt_right_side, stacked=False)
row.on_complex = {0: triangular_along_matrix, 1: triangular_along_right_side}
row.adjoints = {0: triangular_wrt_matrix, 1: triangular_wrt_right_side}
row.name = "scipy.linalg.solve_triangular"


formula("det", lambda a, overwrite_a=False, check_finite=True: np.linalg.det(as_array(a)))


@formula("norm")
def _norm(a, ord=None, axis=None, keepdims=False, check_finite=True):
    return np.linalg.norm(as_array(a), ord, axis, keepdims)


@formula("lstsq")
def _lstsq(a, b, cond=None, overwrite_a=False, overwrite_b=False, check_finite=True, lapack_driver=None):
    a, b = as_array(a), as_array(b)
    if np.ndim(a) > 2 or np.ndim(b) > 2:
        raise unsupported("lstsq", "a stack of systems", "loop over the systems")
    x, squares, rank, s = np.linalg.lstsq(a, b, -1 if cond is None else cond)
    if lapack_driver == "gelsy":
        squares = np.zeros(0)
    elif np.size(squares) == 0 and np.shape(a)[0] > np.shape(a)[1]:
        squares = np.full(np.shape(b)[1:], np.nan)  # as SciPy does for a matrix without full rank
    elif np.ndim(b) == 1 and np.size(squares) == 1:
        squares = squares[0]
    return x, squares, rank, None if lapack_driver == "gelsy" else s


@formula("pinv")
def _pinv(a, *, atol=None, rtol=None, return_rank=False, check_finite=True):
    a = as_array(a)
    if atol is not None:
        raise unsupported("pinv", "atol=", "pass rtol=, or write it with scipy.linalg.svd")
    y = np.linalg.pinv(a) if rtol is None else np.linalg.pinv(a, rtol=rtol)
    return (y, rank_of(a, rtol)) if return_rank else y


@formula("pinvh")
def _pinvh(a, atol=None, rtol=None, lower=True, return_rank=False, check_finite=True):
    a = hermitian_from(as_array(a), "L" if lower else "U")
    return _pinv(a, atol=atol, rtol=rtol, return_rank=return_rank)


@locally_constant
def rank_of(a, rtol):
    return la.pinv.__wrapped__(a, rtol=rtol, return_rank=True)[1]


# ---- banded systems, in the diagonal ordered form ab[u + i - j, j] = a[i, j]


def moved(x, d):
    """Return x shifted by d along the last axis, x[j + d] at index j, with zeros shifted in."""
    n = np.shape(x)[-1]
    if abs(d) >= n:
        return np.zeros_like(x)
    rest = np.zeros_like(x, shape=(*np.shape(x)[:-1], abs(d)))
    return np.concatenate([x[..., d:], rest] if d >= 0 else [rest, x[..., :d]], axis=-1)


def transposed_bands(ab, l, u):
    """Return the bands of the transposed matrix, which has l upper and u lower diagonals."""
    return np.stack([moved(ab[l + u - r], r - l) for r in range(l + u + 1)])


@dispatched
def banded_solution(ab, b, l, u):
    is_plain = np.ndim(ab) == 2 and np.ndim(b) <= 2 and np.size(b) and ab.dtype == b.dtype == np.float64
    if is_plain and l == u == 1 and np.shape(ab) == (3, np.shape(b)[0]) and np.shape(b)[0] > 1:
        found, info = _lapack().dgtsv(ab[2, :-1], ab[1], ab[0, 1:], b)[3:]  # as SciPy does, in a quarter of the time
        if info == 0:
            return found
    return la.solve_banded.__wrapped__((l, u), ab, b, check_finite=False)  # the public function has checked them


@functools.cache
def _lapack():
    return importlib.import_module("scipy.linalg.lapack")


def banded_wrt_bands(ybar, y, ab, b, l, u):
    z = banded_wrt_right_side(ybar, y, ab, b, l, u)
    z, x = (np.swapaxes(v, -1, -2) if np.ndim(b) > 1 else v[..., None, :] for v in (z, conjugate(y)))
    return np.stack([-np.sum(moved(z, r - u) * x, axis=-2) for r in range(l + u + 1)], axis=-2)


def banded_wrt_right_side(ybar, y, ab, b, l, u):
    return banded_along_right_side(ybar, y, conjugate(transposed_bands(ab, l, u)), b, u, l)


def banded_along_bands(t, y, ab, b, l, u):
    """Solve for minus the product of the matrix with bands t and the solution."""
    x = np.swapaxes(y, -1, -2) if np.ndim(y) > 1 else y
    lines = [t[..., r, None, :] if np.ndim(y) > 1 else t[..., r, :] for r in range(l + u + 1)]
    product = sum(moved(line * x, u - r) for r, line in enumerate(lines))
    product = np.swapaxes(product, -1, -2) if np.ndim(y) > 1 else product
    return banded_along_right_side(-product, y, ab, b, l, u)


def banded_along_right_side(t, y, ab, b, l, u):
    return columnwise(lambda columns: banded_solution(ab, columns, l, u), t, -np.ndim(y))


structural(
    banded_solution, banded_wrt_bands, banded_wrt_right_side, jvp=(banded_along_bands, banded_along_right_side)
).name = "scipy.linalg.solve_banded"
conjugated(banded_solution)


@formula("solve_banded")
def _solve_banded(l_and_u, ab, b, overwrite_ab=False, overwrite_b=False, check_finite=True):
    l, u = map(int, l_and_u)
    return banded_solution(*one_system("solve_banded", ab, b), l, u)


def one_system(name, ab, b):
    """Return bands and right-hand sides as arrays; a stack of systems raises."""
    ab, b = as_array(ab), as_array(b)
    if np.ndim(ab) > 2 or np.ndim(b) > 2:
        raise unsupported(name, "a stack of systems", "loop over the systems")
    return ab, b


def symmetric_bands(ab, lower):
    """Return all bands of the Hermitian matrix whose lower or upper bands are given."""
    k = np.shape(ab)[0] - 1
    if not k:
        return ab
    mirrored = [moved(ab[d], -d) for d in range(k, 0, -1)] if lower else [moved(ab[k - d], d) for d in range(1, k + 1)]
    mirrored = conjugate(np.stack(mirrored))
    return np.concatenate([mirrored, ab] if lower else [ab, mirrored])


@formula("solveh_banded")
def _solveh_banded(ab, b, overwrite_ab=False, overwrite_b=False, lower=False, check_finite=True):
    ab, b = one_system("solveh_banded", ab, b)
    k = np.shape(ab)[0] - 1
    return banded_solution(symmetric_bands(ab, lower), b, k, k)


def dense_from_bands(ab, lower):
    """Return the dense lower or upper triangle stored in banded form."""
    n, k = np.shape(ab)[-1], np.shape(ab)[0] - 1
    i, j = np.ogrid[:n, :n]
    row = i - j if lower else k + i - j
    return np.where((row >= 0) & (row <= k), ab[np.clip(row, 0, k), j + 0 * i], 0)


def bands_from_dense(a, ab, lower):
    """Return a triangle in banded form; elements of `ab` outside the matrix are kept."""
    n, k = np.shape(ab)[-1], np.shape(ab)[0] - 1
    r, j = np.ogrid[: k + 1, :n]
    i = j + r if lower else j + r - k
    return np.where((i >= 0) & (i < n), a[np.clip(i, 0, n - 1), j + 0 * r], ab)


@formula("cholesky_banded", on_complex=False)
def _cholesky_banded(ab, overwrite_ab=False, lower=False, check_finite=True):
    ab = as_array(ab)
    part = dense_from_bands(ab, lower)
    full = part + adjoint(part) - np.where(np.eye(np.shape(part)[-1], dtype=bool), part, 0)
    return bands_from_dense(np.linalg.cholesky(full, upper=not lower), ab, lower)


@formula("cho_solve_banded", on_complex=False)
def _cho_solve_banded(cb_and_lower, b, overwrite_b=False, check_finite=True):
    cb, lower = cb_and_lower
    cb, b = one_system("cho_solve_banded", cb, b)
    k = np.shape(cb)[0] - 1
    first, second = (k, 0), (0, k)
    other = transposed_bands(np.conj(cb), *(first if lower else second))
    low, up = (cb, other) if lower else (other, cb)
    return banded_solution(up, banded_solution(low, b, k, 0), 0, k)


# ---- Toeplitz and circulant systems, structured matrices, and column-wise Kronecker products


def structured(name):
    """Return a decorator that declares a function of the module by its body, if this version of SciPy has it."""
    return composed(getattr(la, name), on_complex=True) if la.has(name) else lambda body: body


def column_and_row(c_or_cr):
    if isinstance(c_or_cr, tuple):
        return map(as_array, c_or_cr)
    c = as_array(c_or_cr)
    return c, np.conj(c)


def _toeplitz(c, r):
    """Return the matrix with first column c and first row r."""
    c, r = np.ravel(c), np.ravel(r)
    n = np.shape(c)[0]
    values = np.concatenate([c[::-1], r[1:]])
    i, j = np.ogrid[:n, : np.shape(r)[0]]
    return values[n - 1 - i + j]


@formula("solve_toeplitz")
def _solve_toeplitz(c_or_cr, b, check_finite=True):
    return np.linalg.solve(_toeplitz(*column_and_row(c_or_cr)), as_array(b))


@formula("matmul_toeplitz")
def _matmul_toeplitz(c_or_cr, x, check_finite=False, workers=None):
    return _toeplitz(*column_and_row(c_or_cr)) @ as_array(x)


@formula("solve_circulant")
def _solve_circulant(c, b, singular="raise", tol=None, caxis=-1, baxis=0, outaxis=0):
    c, b = as_array(c), as_array(b)
    if singular != "raise" or np.ndim(c) != 1 or baxis != 0 or outaxis != 0:
        raise unsupported("solve_circulant", "these options", "use scipy.linalg.solve(circulant(c), b)")
    factors = np.reshape(np.fft.fft(c), (-1,) + (1,) * (np.ndim(b) - 1))
    x = np.fft.ifft(np.fft.fft(b, axis=0) / factors, axis=0)
    return x if c.dtype.kind == "c" or b.dtype.kind == "c" else np.real(x)


@structured("circulant")
def _circulant(c):
    c = as_array(c)
    n = np.shape(c)[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)) % n]


@structured("hankel")
def _hankel(c, r=None):
    c = np.ravel(as_array(c))
    r = np.zeros_like(c) if r is None else np.ravel(as_array(r))
    i, j = np.ogrid[: len(c), : len(r)]
    return np.concatenate([c, r[1:]])[i + j]


@structured("toeplitz")
def _public_toeplitz(c, r=None):
    c = as_array(c)
    return _toeplitz(c, np.conj(c) if r is None else as_array(r))


@structured("convolution_matrix")
def _convolution_matrix(a, n, mode="full"):
    a = as_array(a)
    m = np.shape(a)[0]
    start, count = {
        "full": (0, m + n - 1),
        "same": ((min(m, n) - 1) // 2, max(m, n)),
        "valid": (min(m, n) - 1, max(m, n) - min(m, n) + 1),
    }[mode]
    place = np.arange(start, start + count)[:, None] - np.arange(n)
    return np.where((place >= 0) & (place < m), a[np.clip(place, 0, m - 1)], 0)


@structured("khatri_rao")
def _khatri_rao(a, b):
    a, b = as_array(a), as_array(b)
    c = a[..., :, None, :] * b[..., None, :, :]
    return np.reshape(c, (*np.shape(c)[:-3], -1, np.shape(c)[-1]))
