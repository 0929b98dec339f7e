"""Factorisations, eigenvalues and singular values of ``scipy.linalg``.

Values are SciPy's.  Eigenvectors, singular vectors and triangular factors are unique up to signs; where a formula
computes them by another LAPACK routine, they get SciPy's signs (`like`).  Points without a derivative, such as those
with equal eigenvalues, raise as in the rules of NumPy's functions.
"""

from __future__ import annotations

import functools
import importlib

import numpy as np

from wengert.dependence import MATRIXWISE
from wengert.errors import UnsupportedFunctionError
from wengert.registry import by_formula, composed, conjugated, facts, structural
from wengert.rules import spectra, taylor
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.factors import (
    cholesky_adjoint_wrt_cotangent,
    cholesky_adjoint_wrt_factor,
    cholesky_along_matrix,
    pulled_to_matrix,
)
from wengert.rules.linalg import hermitian_read_transpose, packed, unpacked
from wengert.rules.products import adjoint
from wengert.rules.scipy.linalg import (
    dense_from_bands,
    formula,
    hermitian_from,
    la,
    solve_triangular,
    triangle,
    unsupported,
)


def plain(fun):
    """Return a piecewise constant function that computes one item of SciPy's result."""

    @locally_constant
    def part(index, *args):
        found = fun.__wrapped__(*args)
        return found if index is None else np.asarray(found[index])

    return part


@locally_constant
def signs(v, reference):
    """Return for each column of `v` the sign with which it matches the column of `reference`."""
    inner = np.sum(np.conj(v) * reference, axis=-2)
    return np.where(inner.real < 0, -1.0, 1.0)


def like(v, reference):
    return v * signs(v, reference)[..., None, :]


# ---- Cholesky


@dispatched
def cholesky_factor(a, lower):
    return la.cholesky.__wrapped__(a, lower)


@dispatched
def cholesky_adjoint(factor, g):
    """Like NumPy's rule, with products by SciPy's BLAS, since it also factorised: two thread pools are slow."""
    return pulled_to_matrix(factor, g, matmul)


def matmul(a, b):
    """Multiply matrices by SciPy's BLAS; arrays are in Fortran order there, so the transposes are multiplied."""
    if not (np.ndim(a) == np.ndim(b) == 2 and a.dtype == b.dtype == np.float64):
        return np.matmul(a, b)
    return importlib.import_module("scipy.linalg.blas").dgemm(1.0, b.T, a.T).T


def cholesky_wrt_matrix(ybar, y, a, lower):
    z = cholesky_adjoint(y, ybar) if lower else cholesky_adjoint(adjoint(y), adjoint(ybar))
    return hermitian_read_transpose(z, a, "L" if lower else "U")


def cholesky_series(series, order, a, lower):
    found = taylor.cholesky(series, order, a)
    return found if lower else series([adjoint(c) for c in found.c])


structural(
    cholesky_factor, cholesky_wrt_matrix, jvp=(lambda t, y, a, lower: cholesky_along_matrix(t, y, a, upper=not lower),)
).name = "scipy.linalg.cholesky"
facts(cholesky_factor, dependence=MATRIXWISE, batching=True, taylor=cholesky_series, native="cholesky of triangle")
structural(cholesky_adjoint, cholesky_adjoint_wrt_factor, cholesky_adjoint_wrt_cotangent).name = "scipy.linalg.cholesky"
facts(cholesky_adjoint, native="cholesky adjoint")
conjugated(cholesky_factor, cholesky_adjoint)


@composed(la.cholesky, on_complex=True)
def _cholesky(a, lower=False, overwrite_a=False, check_finite=True):
    return cholesky_factor(as_array(a), bool(lower))


@composed(la.cho_factor, on_complex=True)
def _cho_factor(a, lower=False, overwrite_a=False, check_finite=True):
    a = as_array(a)
    factor = cholesky_factor(a, bool(lower))
    is_used = np.tri(np.shape(a)[-1], dtype=bool)
    return np.where(is_used if lower else is_used.T, factor, a if keeps_unused_triangle() else 0), lower


@functools.cache
def keeps_unused_triangle():
    """Return whether the unused triangle of the result of ``cho_factor`` holds elements of the matrix."""
    return bool(la.cho_factor.__wrapped__(np.array([[4.0, 1.0], [0.5, 3.0]]))[0][1, 0])


@formula("cho_solve")
def _cho_solve(c_and_lower, b, overwrite_b=False, check_finite=True):
    c, lower = c_and_lower
    for trans in "NC" if lower else "CN":
        b = solve_triangular(c, b, trans, lower)
    return b


# ---- LU with plain pivots


def is_plain_matrix(a):
    """Return whether LAPACK's function for float64 factors `a` as SciPy does, without SciPy's preparation."""
    return type(a) is np.ndarray and a.dtype == np.float64 and a.ndim == 2 and a.size > 0


def lapack_factors(a):
    """Return L and U, packed in one array, the row exchanges, and LAPACK's status."""
    return importlib.import_module("scipy.linalg.lapack").dgetrf(a)


@dispatched
def eliminated(b):
    """Return L and U, packed in one array, of a square matrix that needs no row exchanges."""
    n = np.shape(b)[-1]
    if is_plain_matrix(b):
        return lapack_factors(b)[0]
    _, l, u = la.lu.__wrapped__(b)
    return np.tril(l, -1)[..., :n, :n] + u


def lu_parts(y):
    return triangle(y, True, True), np.triu(y)


def with_unit_pivot(u):
    """Return U with 1 as its last pivot, which may be 0 and by which the derivative does not divide."""
    is_last = np.zeros(np.shape(u)[-2:], bool)
    is_last[-1:, -1:] = True
    return np.where(is_last, 1.0, u)


def eliminated_tangent(t, y, b):
    """dL = L K and dU = triu(L^-1 dB - K U), with K = tril(L^-1 dB U^-1, -1)."""
    l, u = lu_parts(y)
    x, v = np.linalg.solve(l, t), with_unit_pivot(u)
    inner = np.tril(np.swapaxes(np.linalg.solve(np.swapaxes(v, -1, -2), np.swapaxes(x, -1, -2)), -1, -2), -1)
    return l @ inner + np.triu(x - inner @ u)


def eliminated_pull(ybar, y, b):
    """Transpose of `eliminated_tangent`."""
    l, u = lu_parts(y)
    ubar = np.triu(ybar)
    inner = np.tril(adjoint(l) @ np.tril(ybar, -1) - ubar @ adjoint(u), -1)
    return np.linalg.solve(adjoint(l), ubar + adjoint(np.linalg.solve(with_unit_pivot(u), adjoint(inner))))


row = structural(eliminated, eliminated_pull, stacked=False)
row.on_complex, row.adjoints = {0: eliminated_tangent}, {0: eliminated_pull}
row.name = "scipy.linalg.lu"


@locally_constant
def row_order(a):
    """Return the row permutation of SciPy's LU factorisation."""
    if is_plain_matrix(a):
        order = np.arange(len(a))
        for i, j in enumerate(lapack_factors(a)[1].tolist()):
            if i != j:
                order[[i, j]] = order[[j, i]]
        return order
    p, _, _ = la.lu.__wrapped__(a)
    return np.argmax(p, axis=-2)


def factors(a):
    """Return the row permutation and the factors L and U of a matrix of any shape."""
    a = as_array(a)
    if np.ndim(a) != 2:
        raise UnsupportedFunctionError("scipy.linalg.lu of a stack of matrices has no rule: loop over the matrices")
    m, n = np.shape(a)
    k = min(m, n)
    order = row_order(a)
    b = a[order]
    l, u = lu_parts(eliminated(b[:k, :k]))
    if m > n:
        l = np.concatenate([l, adjoint(np.linalg.solve(adjoint(u), adjoint(b[k:, :])))])
    if n > m:
        u = np.concatenate([u, np.linalg.solve(l, b[:, k:])], axis=1)
    return order, l, u


@formula("lu")
def _lu(a, permute_l=False, overwrite_a=False, check_finite=True, p_indices=False):
    order, l, u = factors(a)
    places = np.argsort(order)
    if permute_l:
        return l[places], u
    return (places if p_indices else np.eye(len(order))[places]), l, u  # a = P L U


@formula("lu_factor")
def _lu_factor(a, overwrite_a=False, check_finite=True):
    a = as_array(a)
    _, l, u = factors(a)
    m, n = np.shape(a)
    k = min(m, n)
    below = np.concatenate([np.tril(l, -1), np.zeros((m, n - k), l.dtype)], axis=1)
    y = below + np.concatenate([u, np.zeros((m - k, n), u.dtype)])
    return y, pivots(None, a)


@locally_constant
def pivots(_, a):
    return la.lu_factor.__wrapped__(a)[1]


@formula("lu_solve")
def _lu_solve(lu_and_piv, b, trans=0, overwrite_b=False, check_finite=True):
    lu, piv = lu_and_piv
    lu, b = as_array(lu), as_array(b)
    order = np.arange(np.shape(lu)[-1])
    for i, j in enumerate(piv):
        order[[i, j]] = order[[j, i]]
    rows = 0 if np.ndim(b) == 1 else -2
    if trans == 0:
        return solve_triangular(lu, solve_triangular(lu, np.take(b, order, rows), 0, True, True), 0, False)
    x = solve_triangular(lu, solve_triangular(lu, b, trans, False), trans, True, True)
    return np.take(x, np.argsort(order), rows)


# ---- QR and RQ


@formula("qr")
def _qr(a, overwrite_a=False, lwork=None, mode="full", pivoting=False, check_finite=True):
    a = as_array(a)
    if mode not in ("full", "r", "economic"):
        raise unsupported("qr", f"mode={mode!r}", "use mode='economic'")
    order = column_order(None, a) if pivoting else None
    a = a if order is None else a[..., order]
    if mode == "r":
        m, n = np.shape(a)[-2:]
        r = np.linalg.qr(a)[1]
        r = np.concatenate([r, np.zeros((*np.shape(a)[:-2], max(m - n, 0), n), r.dtype)], axis=-2)
        return (r,) if order is None else (r, order)
    q, r = np.linalg.qr(a, "complete" if mode == "full" else "reduced")
    return (q, r) if order is None else (q, r, order)


@formula("qr_multiply")
def _qr_multiply(a, c, mode="right", pivoting=False, conjugate=False, overwrite_a=False, overwrite_c=False):
    c = as_array(c)
    q, *others = _qr(a, mode="economic", pivoting=pivoting)
    q = np.conj(q) if conjugate else q
    product = c @ q if mode == "right" else (q @ c[:, None] if np.ndim(c) == 1 else q @ c)
    return (np.ravel(product) if np.ndim(c) == 1 else product, *others)


@locally_constant
def column_order(_, a):
    return la.qr.__wrapped__(a, mode="r", pivoting=True)[-1]


@by_formula(la.rq)
def _rq(a, overwrite_a=False, lwork=None, mode="full", check_finite=True):
    a = as_array(a)
    if np.ndim(a) > 2:
        raise unsupported("rq", "a stack of matrices", "loop over the matrices")
    m, n = np.shape(a)
    if mode not in ("full", "r", "economic") or m > n or (mode == "full" and m < n):
        raise unsupported("rq", f"mode={mode!r} of this shape", "use scipy.linalg.qr of the reversed transpose")
    q, r = np.linalg.qr(np.transpose(a[::-1]))
    q, r = np.transpose(q)[::-1], np.transpose(r)[::-1, ::-1]
    sign = signs(np.transpose(q), np.transpose(rq_plain(1, a)))
    return r * sign if mode == "r" else (r * sign, q * sign[:, None])


@locally_constant
def rq_plain(index, a):
    return la.rq.__wrapped__(a, mode="economic")[index]


# ---- singular values


@dispatched
def packed_svd(a, full_matrices, lapack_driver):
    return packed(*la.svd.__wrapped__(a, full_matrices, lapack_driver=lapack_driver))


structural(
    packed_svd,
    lambda ybar, y, a, full_matrices, lapack_driver: spectra.svd_wrt_matrix(ybar, y, a, full_matrices),
    jvp=(lambda t, y, a, full_matrices, lapack_driver: spectra.svd_along_matrix(t, y, a, full_matrices),),
    undefined=spectra.undefined("svd", "singular values"),
).name = "scipy.linalg.svd"
conjugated(packed_svd)


@composed(la.svd, on_complex=True)
def _svd(a, full_matrices=True, compute_uv=True, overwrite_a=False, check_finite=True, lapack_driver="gesdd"):
    a = as_array(a)
    if not compute_uv:
        return la.svdvals(a)
    full_matrices = bool(full_matrices)
    u, s, vh = unpacked(packed_svd(a, full_matrices, lapack_driver), *spectra.svd_shapes(a, full_matrices))
    return u, s.real, vh


formula("svdvals", lambda a, overwrite_a=False, check_finite=True: np.linalg.svdvals(as_array(a)))


@formula("diagsvd")
def _diagsvd(s, M, N):
    s = as_array(s)
    k, typ = np.shape(s)[0], s.dtype
    if k not in (M, N):
        raise ValueError("Length of s must be M or N.")
    beside = np.concatenate([np.diag(s), np.zeros((k, max(N - k, 0)), typ)], axis=1)
    return np.concatenate([beside, np.zeros((max(M - k, 0), max(k, N)), typ)])[:M, :N]


@by_formula(la.orth)
def _orth(A, rcond=None):
    A = as_array(A)
    rank = np.shape(orth_plain(None, A, rcond))[-1]
    return la.svd(A, full_matrices=False)[0][:, :rank]


orth_plain = plain(la.orth)


@formula("polar")
def _polar(a, side="right"):
    a = as_array(a)
    m, n = np.shape(a)
    if m > n or (m == n and side == "right"):
        p = la.sqrtm(adjoint(a) @ a)
        u = adjoint(np.linalg.solve(p, adjoint(a)))
        return u, p if side == "right" else u @ p @ adjoint(u)
    p = la.sqrtm(a @ adjoint(a))
    u = np.linalg.solve(p, a)
    return u, p if side == "left" else adjoint(u) @ p @ u


@by_formula(la.orthogonal_procrustes)
def _orthogonal_procrustes(A, B, check_finite=True):
    m = np.transpose(as_array(A)) @ as_array(B)
    return la.polar(m)[0], np.sum(np.linalg.svdvals(m))


@by_formula(la.subspace_angles)
def _subspace_angles(A, B):
    """Compute small angles from sines and large ones from cosines (Knyazev and Argentati 2002, algorithm 3.1)."""
    p, q = (np.linalg.qr(as_array(x))[0] for x in (A, B))
    inner = adjoint(p) @ q
    cosine = np.linalg.svdvals(inner)
    rest = q - p @ inner if np.shape(p)[1] >= np.shape(q)[1] else p - q @ adjoint(inner)
    sine = np.linalg.svdvals(rest)[::-1]
    count = np.shape(cosine)[0]
    is_large = cosine**2 >= 0.5
    sine = np.clip(sine[:count], -1.0, 1.0)
    angles = np.where(is_large, np.arcsin(np.where(is_large, sine, 0)), np.arccos(np.where(is_large, 0, cosine)))
    return angles[::-1]


# ---- eigenvalues of Hermitian matrices


@dispatched
def packed_eigh(a, UPLO):
    return packed(*la.eigh.__wrapped__(a, lower=UPLO == "L"))


structural(
    packed_eigh,
    lambda ybar, y, a, UPLO: spectra.eigh_wrt_matrix(ybar, y, a, UPLO),
    jvp=(lambda t, y, a, UPLO: spectra.eigh_along_matrix(t, y, a, UPLO),),
    undefined=spectra.undefined("eigh", "eigenvalues"),
).name = "scipy.linalg.eigh"
conjugated(packed_eigh)


@dispatched
def packed_pencil(a, b, UPLO):
    return packed(*la.eigh.__wrapped__(a, b, lower=UPLO == "L"))


def pencil_cotangents(ybar, y, a):
    """Return eigenvalues, eigenvectors and the cotangents of V^T dA V and V^T dB V, for V^T B V = 1."""
    w, v = unpacked(y, *spectra.eigh_shapes(a))
    wbar, vbar = unpacked(ybar, *spectra.eigh_shapes(a))
    inner = adjoint(v) @ vbar
    gap, is_equal = spectra.gaps(w)
    spectra.check_rotations("eigh", "eigenvalues", is_equal, wbar, inner, vbar, False)
    of_a = np.where(np.eye(np.shape(w)[-1], dtype=bool), wbar[..., None, :], 0) + spectra.divided(inner, gap, is_equal)
    own = np.where(np.eye(np.shape(w)[-1], dtype=bool), inner / 2, 0)
    return v, of_a, -of_a * w[..., None, :] - own


def pencil_wrt(which):
    """Pullback in a (`which` 0) or b (1)."""

    def pull(ybar, y, a, b, UPLO):
        v, *parts = pencil_cotangents(ybar, y, a)
        z = v @ parts[which] @ adjoint(v)
        return hermitian_read_transpose((z + adjoint(z)) / 2, (a, b)[which], UPLO)

    return pull


structural(packed_pencil, pencil_wrt(0), pencil_wrt(1), stacked=False).name = "scipy.linalg.eigh"


@formula("eigh")
def _eigh(
    a,
    b=None,
    *,
    lower=True,
    eigvals_only=False,
    overwrite_a=False,
    overwrite_b=False,
    type=1,
    check_finite=True,
    subset_by_index=None,
    subset_by_value=None,
    driver=None,
):
    a, UPLO = as_array(a), "L" if lower else "U"
    if type != 1:
        raise unsupported("eigh", f"type={type}", "transform the problem to type=1")
    if b is not None:
        w, v = unpacked(packed_pencil(a, as_array(b), UPLO), *spectra.eigh_shapes(a))
    elif eigvals_only:
        w, v = np.linalg.eigvalsh(a, UPLO), None
    else:
        w, v = unpacked(packed_eigh(a, UPLO), *spectra.eigh_shapes(a))
        w = w.real
    if subset_by_index is not None or subset_by_value is not None:
        part = chosen(w, subset_by_index, subset_by_value)
        w, v = w[part], None if v is None else v[:, part]
    if eigvals_only:
        return w
    if subset_by_index is not None or subset_by_value is not None or driver is not None:
        options = {"subset_by_index": subset_by_index, "subset_by_value": subset_by_value, "driver": driver}
        v = like(v, eigenvectors_of(a, b, bool(lower), options))
    return w, v


@locally_constant
def eigenvectors_of(a, b, lower, options):
    return la.eigh.__wrapped__(a, b, lower=lower, **options)[1]


@locally_constant
def chosen(w, by_index, by_value):
    """Return the indices of the eigenvalues in a range of indices or values."""
    if by_index is not None:
        return np.arange(int(by_index[0]), int(by_index[1]) + 1)
    return np.flatnonzero((w > by_value[0]) & (w <= by_value[1]))


formula("eigvalsh", lambda a, b=None, **options: _eigh(a, b, eigvals_only=True, **options))


def tridiagonal(d, e):
    d, e = as_array(d), as_array(e)
    i, j = np.ogrid[: len(d), : len(d)]
    beside = e[np.clip(np.minimum(i, j), 0, len(d) - 2)] if len(d) > 1 else 0.0
    return np.where(i == j, d[i + 0 * j], np.where(abs(i - j) == 1, beside, 0.0))


def part_of_spectrum(a, select, select_range, reference):
    """Return selected eigenvalues and eigenvectors; the vectors have the signs of `reference` if it is given."""
    w, v = np.linalg.eigh(a)
    if select not in ("a", "all", 0):
        by_index = select_range if select in ("i", "index", 2) else None
        part = chosen(w, by_index, None if by_index is not None else select_range)
        w, v = w[part], v[:, part]
    return w, v if reference is None else like(v, reference)


@by_formula(la.eigh_tridiagonal)
def _eigh_tridiagonal(
    d, e, eigvals_only=False, select="a", select_range=None, check_finite=True, tol=0.0, lapack_driver="auto"
):
    if eigvals_only:
        return part_of_spectrum(tridiagonal(d, e), select, select_range, None)[0]
    reference = tridiagonal_plain(1, d, e, False, select, select_range, True, tol, lapack_driver)
    return part_of_spectrum(tridiagonal(d, e), select, select_range, reference)


tridiagonal_plain, banded_plain = plain(la.eigh_tridiagonal), plain(la.eig_banded)
by_formula(
    la.eigvalsh_tridiagonal,
    lambda d, e, select="a", select_range=None, check_finite=True, tol=0.0, lapack_driver="auto": _eigh_tridiagonal(
        d, e, True, select, select_range
    ),
)


@by_formula(la.eig_banded)
def _eig_banded(
    a_band,
    lower=False,
    eigvals_only=False,
    overwrite_a_band=False,
    select="a",
    select_range=None,
    max_ev=0,
    check_finite=True,
):
    bands = as_array(a_band)
    a = hermitian_from(dense_from_bands(bands, lower), "L" if lower else "U")
    if eigvals_only:
        return part_of_spectrum(a, select, select_range, None)[0]
    return part_of_spectrum(
        a, select, select_range, banded_plain(1, bands, lower, False, False, select, select_range, max_ev)
    )


by_formula(
    la.eigvals_banded,
    lambda a_band, lower=False, overwrite_a_band=False, select="a", select_range=None, check_finite=True: _eig_banded(
        a_band, lower, True, False, select, select_range
    ),
)

# ---- eigenvalues of general matrices


def as_complex(w):
    return w if w.dtype.kind == "c" else w * (1 + 0j)


@formula("eigvals")
def _eigvals(a, b=None, overwrite_a=False, overwrite_b=False, check_finite=True, homogeneous_eigvals=False):
    if homogeneous_eigvals:
        raise unsupported("eigvals", "homogeneous_eigvals=", "leave it out")
    a = as_array(a)
    return as_complex(np.linalg.eigvals(a if b is None else np.linalg.solve(as_array(b), a)))
