"""Reductions to simpler matrices: LDL^T, Hessenberg and Schur forms, null spaces, and functions by eigenvectors.

Values are SciPy's.  Pivots, signs and the order of eigenvalues are those that SciPy chose, and count as constants.
"""

from __future__ import annotations

import numpy as np

from wengert.registry import by_formula, composed, conjugated, facts, structural
from wengert.rules import spectra
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.linalg import hermitian_read_transpose, packed, unpacked
from wengert.rules.products import adjoint
from wengert.rules.scipy.factorisations import as_complex, like, plain
from wengert.rules.scipy.linalg import la, unsupported

# ---- LDL^T


@locally_constant
def ldl_blocks(a, lower):
    """Return where D has its blocks, of size 1 and 2."""
    beside = np.diagonal(np.asarray(la.ldl.__wrapped__(a, lower)[1]), -1) != 0
    return np.eye(np.shape(a)[0], dtype=bool) | np.diag(beside, 1) | np.diag(beside, -1)


@locally_constant
def ldl_order(a, lower):
    """Return the order of rows in which the outer factor is triangular."""
    return la.ldl.__wrapped__(a, lower)[2]


@dispatched
def packed_ldl(a, lower):
    """Return the outer factor, with its rows in the order that makes it triangular, and D."""
    factor, d, order = la.ldl.__wrapped__(a, lower)
    return packed(factor[order], d)


def ldl_shapes(a):
    return [np.shape(a)] * 2


def ldl_pull(ybar, y, a, lower):
    """Transpose of dL = L K and dD = the blocks of M = L^-1 dA L^-T, where K D is the rest of M in L's triangle."""
    l, d = unpacked(y, *ldl_shapes(a))
    lbar, dbar = unpacked(ybar, *ldl_shapes(a))
    blocks, order = ldl_blocks(a, lower), ldl_order(a, lower)
    triangle = np.tri(np.shape(a)[0], dtype=bool)
    beside = (triangle if lower else triangle.T) & ~blocks
    of_m = np.where(beside, adjoint(np.linalg.solve(adjoint(d), adjoint(adjoint(l) @ lbar))), 0)
    of_m = of_m + np.where(blocks, (dbar + adjoint(dbar)) / 2, 0)
    z = adjoint(np.linalg.solve(adjoint(l), adjoint(np.linalg.solve(adjoint(l), of_m))))
    back = np.argsort(order)
    z = z[back][:, back]
    return hermitian_read_transpose((z + adjoint(z)) / 2, a, "L" if lower else "U")


structural(packed_ldl, ldl_pull, stacked=False).name = "scipy.linalg.ldl"


@by_formula(la.ldl)
def _ldl(A, lower=True, hermitian=True, overwrite_a=False, check_finite=True):
    a = as_array(A)
    if a.dtype.kind == "c":
        raise unsupported("ldl", "complex matrices", "use scipy.linalg.cholesky or eigh")
    l, d = unpacked(packed_ldl(a, bool(lower)), *ldl_shapes(a))
    order = ldl_order(a, bool(lower))
    return l[np.argsort(order)], d, order


# ---- Hessenberg and Schur forms

hessenberg_plain, schur_plain = plain(la.hessenberg), plain(la.schur)


@by_formula(la.hessenberg)
def _hessenberg(a, calc_q=False, overwrite_a=False, check_finite=True):
    """Arnoldi's iteration from the first unit vector (Golub and Van Loan 2013, section 10.5), with SciPy's signs."""
    a = as_array(a)
    if np.ndim(a) != 2 or a.dtype.kind == "c":
        raise unsupported("hessenberg", "complex matrices or stacks", "loop over real matrices")
    n = np.shape(a)[0]
    reference = hessenberg_plain(1, a, True)
    basis = [np.eye(n)[0]]
    for k in range(1, n):
        v = a @ basis[-1]
        for _ in range(2):
            for q in basis:
                v = v - q * (q @ v)
        v = v / np.sqrt(v @ v)
        basis.append(like(v[:, None], reference[:, k : k + 1])[:, 0])
    q = np.stack(basis, axis=1)
    h = np.triu(adjoint(q) @ a @ q, -1)
    return (h, q) if calc_q else h


@locally_constant
def order_of(w, reference):
    """Return the permutation that brings distinct numbers into the order of `reference`."""
    left, found = np.array(w, dtype=complex), []
    for value in np.asarray(reference):
        found.append(int(np.nanargmin(np.abs(left - value))))
        left[found[-1]] = np.nan
    return np.array(found, dtype=int)


@by_formula(la.schur)
def _schur(a, output="real", lwork=None, overwrite_a=False, sort=None, check_finite=True):
    """Orthonormalise the eigenvectors in the order of SciPy's eigenvalues."""
    a = as_array(a)
    reference, z = (schur_plain(i, a, output, None, False, sort) for i in (0, 1))
    if a.dtype.kind == "c" or reference.dtype.kind == "c" or np.any(np.diagonal(reference, -1)):
        raise unsupported("schur", "complex eigenvalues", "use scipy.linalg.eig")
    w, v = np.linalg.eig(a)
    order = order_of(w, np.diagonal(reference))
    q = like(np.linalg.qr(np.real(v)[:, order])[0], z)
    t = np.triu(adjoint(q) @ a @ q)
    return (t, q) if sort is None else (t, q, schur_plain(2, a, output, None, False, sort)[()])


# ---- null spaces

null_space_plain = plain(la.null_space)


@by_formula(la.null_space)
def _null_space(A, rcond=None, overwrite_a=False, check_finite=True, lapack_driver="gesdd"):
    A = as_array(A)
    basis = null_space_plain(None, A, rcond)
    count = np.shape(basis)[1]
    if count != 1:
        return adjoint(la.svd(A, lapack_driver=lapack_driver)[2][np.shape(A)[1] - count :])
    z = basis - np.linalg.pinv(A) @ (A @ basis)
    return z / np.sqrt(np.sum(z * z))


# ---- functions by eigenvectors

eig_plain = plain(la.eig)


@dispatched
def packed_eig(a):
    """Return SciPy's own eigenvectors, since the signs of NumPy's may differ."""
    return packed(*la.eig.__wrapped__(a))


structural(packed_eig, spectra.eig_wrt_matrix, jvp=(spectra.eig_along_matrix,)).name = "scipy.linalg.eig"
conjugated(packed_eig)
facts(packed_eig, work="factorisation")


@composed(la.eig, on_complex=True, replayed=False)
def _eig(
    a,
    b=None,
    left=False,
    right=True,
    overwrite_a=False,
    overwrite_b=False,
    check_finite=True,
    homogeneous_eigvals=False,
):
    if homogeneous_eigvals:
        raise unsupported("eig", "homogeneous_eigvals=", "leave it out")
    a = as_array(a)
    if b is not None or left or not right:
        return other_eig(a, b, bool(left), bool(right))
    w, v = unpacked(packed_eig(a), *spectra.eigh_shapes(a))
    return w, np.real(v) if has_real_vectors(a, w) else v


def has_real_vectors(a, w):
    return a.dtype.kind != "c" and not np.any(w.imag)


@dispatched
def other_eig(a, b, left, right):
    return la.eig.__wrapped__(a, b, left, right)


def _other_eig(a, b, left, right):
    if b is not None:
        return _generalised(a, as_array(b), left, right)
    if not right and not left:
        return as_complex(np.linalg.eigvals(a))
    w, v = la.eig(a)
    w_left, u = np.linalg.eig(adjoint(a))
    u = u[:, order_of(np.conj(w_left), w)]
    u = like(np.real(u) if has_real_vectors(a, w) else u, eig_plain(1, a, None, True))
    return (w, u, v) if right else (w, u)


by_formula(other_eig, _other_eig, on_complex=True).name = "scipy.linalg.eig"


def _generalised(a, b, left, right):
    """Return the eigenvalues w of a v = w b v, and real eigenvectors of length 1."""
    w, v = np.linalg.eig(np.linalg.solve(b, a))
    found = eig_plain(None, a, b, left, right)
    reference = found if not (left or right) else found[0]
    order = order_of(w, reference)
    w = as_complex(w[order])
    if not (left or right):
        return w
    if a.dtype.kind == "c" or np.any(w.imag):
        raise unsupported("eig", "b= and complex eigenvalues", "use scipy.linalg.eig(numpy.linalg.solve(b, a))")
    parts = []
    if left:
        w_left, u = np.linalg.eig(np.linalg.solve(adjoint(b), adjoint(a)))
        parts.append(like(np.real(u)[:, order_of(w_left, w)], found[1]))
    if right:
        parts.append(like(np.real(v)[:, order], found[-1]))
    return (w, *parts)


@composed(la.funm, on_complex=True)  # not by_formula: SciPy cannot call a func that reads traced values
def _funm(A, func, disp=True):
    """f(A) = V f(w) V^-1."""
    A = as_array(A)
    w, v = np.linalg.eig(A)
    y = adjoint(np.linalg.solve(adjoint(v), adjoint(v * func(w))))
    y = np.real(y) if A.dtype.kind != "c" and not np.any(np.imag(y).round(8)) else y
    return y if disp else (y, 0.0)
