"""Eigenvalues and singular values with their vectors, pseudo-inverse, least squares.

The vectors of equal eigenvalues or singular values, and of a null space, are any orthonormal basis of their space.
Results that depend on the choice of basis have no derivative, and the pullback raises.
In forward mode the tangents of such vectors are NaN, and the engine raises if a NaN reaches the derivative; tangents
of values and of other vectors are right.
The sign of a vector does not matter: an infinitesimal change never flips it.
The formulas for distinct values are those of Giles (2008), section 3, with conjugate transposes, so that they hold for
complex matrices too.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from wengert.dependence import MATRIXWISE
from wengert.features import cond_is_real, eig_is_complex, lapack_loop
from wengert.registry import composed, facts, strong, strong_matmul, structural
from wengert.rules.broadcasting import conjugate
from wengert.rules.composed import as_array, as_dtype, dispatched, locally_constant
from wengert.rules.linalg import (
    as_columns,
    as_right_side,
    hermitian_read,
    hermitian_read_transpose,
    inverse,
    is_small_system,
    is_zero_cotangent,
    memoised,
    on_diagonal,
    packed,
    packed_tangents,
    raise_nonsmooth,
    rounding,
    size,
    skew,
    symmetric,
    unpacked,
)
from wengert.rules.products import adjoint
from wengert.rules.reductions import diagonal_mask
from wengert.rules.shapes import leading, shape_of, swapped_axes

# ---- equal eigenvalues and singular values


def gaps(d):
    """Return d_j - d_i, and the mask of off-diagonal pairs that are equal to rounding."""
    gap = d[..., None, :] - d[..., :, None]
    return gap, (np.abs(gap) <= rounding(gap) * size(d, -1)[..., None]) & off_diagonal(shape_of(d)[-1])


@lru_cache(maxsize=8)
def off_diagonal(n):
    return ~np.eye(n, dtype=bool)


def divided_by_sum(z, total, is_left_out):
    """Return z / total, and 0 where `is_left_out`."""
    return strong(z, np.where(is_left_out, 0, 1 / np.where(is_left_out, 1, total)))


def divided(z, gap, is_left_out):
    """Return z / gap, and 0 on the diagonal and where `is_left_out`; False leaves out no other element."""
    on_diagonal = diagonal_mask(shape_of(gap)[-1], shape_of(gap)[-1], 0)
    return divided_by_sum(z, gap, on_diagonal if is_left_out is False else is_left_out | on_diagonal)


def is_nonzero(z, vbar):
    """Mask of inner products of vectors and cotangents that are nonzero beyond rounding."""
    return np.abs(z) > rounding(vbar) * size(vbar, (-2, -1))


def values_alone(name, values):
    """Advice for callers that need no vectors."""
    return f"For the {values} alone, use numpy.linalg.{'eigvalsh' if name == 'eigh' else 'svdvals'}"


def undefined(name, values):
    """Reason why tangents of vectors may be NaN, for the column `undefined`."""
    rest = " or of a null space" if name == "svd" else ""
    return (
        f"the result depends on the basis of the vectors of {values} that are equal up to rounding{rest}. "
        f"{values_alone(name, values)}; results that do not depend on the basis may have a derivative in reverse mode"
    )


def check_rotations(name, values, is_equal, dbar, inner, vbar, of_values):
    """Raise if cotangents of equal values and of their vectors have no derivative.

    A rotation of the vectors i and j changes the result by the skew part of ``inner[i, j]``.
    Results that no rotation changes are projectors, which are differentiable, and matrix functions V f(d) V^T, which
    are refused, as f'(d) cannot be recovered from (f(d_j) - f(d_i)) / (d_j - d_i).
    A projector is recognised by zero cotangents of the values.
    With `of_values`, the vectors come from the rule for values without vectors, to which this exception does not apply.
    """
    if not np.any(is_equal):
        return
    own = np.diagonal(inner, axis1=-2, axis2=-1)
    is_fixed = (not of_values) & np.equal(dbar, 0) & is_nonzero(own[..., None], vbar)[..., 0]
    is_projector = np.equal(dbar, 0)[..., None, :] & is_fixed[..., :, None]
    is_projector = is_projector | swapped_axes(is_projector, -1, -2)
    apart = np.abs(dbar[..., None, :] - dbar[..., :, None])
    is_apart = apart > rounding(apart) * size(dbar, -1)[..., None]
    is_turned = is_nonzero(skew(inner), vbar)
    is_seen = is_nonzero(symmetric(inner), vbar) & ~is_projector
    if np.any(is_equal & (is_apart | is_turned | is_seen)):
        raise_nonsmooth(
            name,
            f"two of the {values} are equal up to rounding. Only the sum of equal {values} has a derivative then, or a "
            f"function of the projector v @ v.T on their vectors that does not use the {values}. "
            f"{values_alone(name, values)}",
        )


# ---- phases of complex vectors

# An eigenvector or pair of singular vectors of a complex matrix is unique up to a phase. LAPACK makes one element real,
# which fixes the phase and so its derivative; if that element is 0, tangents have no component along the vector.


def real_element_mask(v, row):
    """Return the mask of the element of each column that LAPACK makes real: in `row`, or the largest real one."""
    is_real = (np.abs(v.imag) <= rounding(v)) & (np.abs(v) > rounding(v))
    if row is None:
        place = np.argmax(np.where(is_real, np.abs(v), 0), axis=-2)[..., None, :]
    else:
        place = row % shape_of(v)[-2]
    return is_real & np.equal(row_numbers(shape_of(v)[-2]), place)


@lru_cache(maxsize=8)
def row_numbers(n):
    return np.arange(n)[:, None]


def phase_rate(v, dv, is_held):
    """Return the rotation rate to subtract from each tangent so that the held element stays real."""
    return np.sum(np.where(is_held, dv.imag / np.where(is_held, v.real, 1), 0), axis=-2, keepdims=True)


def fix_tangent_phases(v, dv, angle):
    return dv - 1j * strong(v, angle)


def phase_derivative(v, vbar):
    """Derivative of the result in the phase of each vector."""
    return np.sum(strong(conjugate(v), vbar), axis=-2, keepdims=True).imag


def fix_cotangent_phases(name, v, vbar, turn, is_held):
    """Transpose of `fix_tangent_phases`: subtract the phase derivative `turn` at the held element of each vector."""
    is_free = ~np.any(is_held, axis=-2, keepdims=True)
    if np.any(is_free) and np.any(is_free & is_nonzero(turn, vbar)):
        raise_nonsmooth(name, "the result depends on the phase of a vector, which is arbitrary: use |v| or v @ v^H")
    return vbar - 1j * np.where(is_held, turn / np.where(is_held, v.real, 1), 0)


# ---- eigenvalues and eigenvectors of Hermitian matrices

EighResult = type(np.linalg.eigh(np.eye(1)))


def eigh_shapes(a):
    return shape_of(a)[:-1], shape_of(a)


@dispatched
def packed_eigh(a, UPLO, of_values=False):
    return packed(*np.linalg.eigh(a, UPLO))


def eigh_wrt_matrix(ybar, y, a, UPLO, of_values=False):
    """Abar = V (diag(wbar) + F * skew(V^H Vbar)) V^H with F_ij = 1 / (w_j - w_i)."""
    w, v = unpacked(y, *eigh_shapes(a))
    wbar, vbar = unpacked(ybar, *eigh_shapes(a))
    if v.dtype.kind == "c":
        vbar = fix_cotangent_phases("eigh", v, vbar, phase_derivative(v, vbar), real_element_mask(v, real_row(UPLO)))
    inner = strong_matmul(adjoint(v), vbar)
    gap, is_equal = gaps(w.real)
    check_rotations("eigh", "eigenvalues", is_equal, wbar.real, inner, vbar, of_values)
    middle = on_diagonal(wbar.real) + divided(skew(inner), gap, is_equal)
    return hermitian_read_transpose(strong_matmul(v, strong_matmul(middle, adjoint(v))), a, UPLO)


def real_row(UPLO):
    """Return the row of the eigenvectors that LAPACK's tridiagonal reduction leaves real."""
    return 0 if UPLO.upper() == "L" else -1


def eigh_along_matrix(t, y, a, UPLO, of_values=False):
    w, v = unpacked(y, *eigh_shapes(a))
    inner = strong_matmul(adjoint(v), strong_matmul(hermitian_read(t, a, UPLO), v))
    gap, is_equal = gaps(w.real)
    turn = divided(inner, gap, is_equal)
    turn = np.where(is_equal & is_nonzero(inner, inner), np.nan, turn)
    dv = strong_matmul(v, turn)
    if v.dtype.kind == "c":
        dv = fix_tangent_phases(v, dv, phase_rate(v, dv, real_element_mask(v, real_row(UPLO))))
    return packed_tangents(leading(t, a), np.diagonal(inner, axis1=-2, axis2=-1).real, dv)


def eigvalsh_wrt_matrix(ybar, y, a, UPLO="L"):
    """dw_i = v_i^H dA v_i; for equal eigenvalues with the eigenvectors that LAPACK returns."""
    _, v = unpacked(packed_eigh(a, UPLO, True), *eigh_shapes(a))
    return hermitian_read_transpose(strong_matmul(strong(v, ybar[..., None, :]), adjoint(v)), a, UPLO)


def eigvalsh_along_matrix(t, y, a, UPLO="L"):
    _, v = unpacked(packed_eigh(a, UPLO, True), *eigh_shapes(a))
    return np.sum(strong(conjugate(v), strong_matmul(hermitian_read(t, a, UPLO), v)).real, axis=-2)


@composed(np.linalg.eigh, replayed=True)
def _eigh(a, UPLO="L"):
    a = as_array(a)
    w, v = unpacked(packed_eigh(a, UPLO), *eigh_shapes(a))
    return EighResult(w.real, v)


row = structural(packed_eigh, eigh_wrt_matrix, jvp=(eigh_along_matrix,), undefined=undefined("eigh", "eigenvalues"))
row.name = "numpy.linalg.eigh"
structural(np.linalg.eigvalsh, eigvalsh_wrt_matrix, jvp=(eigvalsh_along_matrix,), batching=True, dependence=MATRIXWISE)
facts(packed_eigh, native="eigh", work="factorisation")
facts(np.linalg.eigvalsh, native="eigvalsh", work="factorisation")

# ---- eigenvalues and eigenvectors of general matrices

EigResult = type(np.linalg.eig(np.eye(1)))


@dispatched
def packed_eig(a):
    return packed(*general_eigen(a))


def general_eigen(a):
    """Return ``numpy.linalg.eig(a)``; the loop returns NaN if it does not converge."""
    if is_small_system(a) and eig_is_complex() and lapack_loop("eig") is not None and np.isfinite(a).all():
        w, v = lapack_loop("eig")(a)
        if not math.isnan(w[0].real):
            return w, v
    return np.linalg.eig(a)


def eig_parts(y, a):
    """Return eigenvalues, eigenvectors and differences of eigenvalues; raise if two eigenvalues are equal."""
    w, v = unpacked(y, *eigh_shapes(a))
    gap, is_equal = gaps(w)
    if np.any(is_equal):
        raise_nonsmooth("eig", "two of the eigenvalues are equal up to rounding: use numpy.linalg.eigh if symmetric")
    return w, v, gap


def length_preserving(v, z):
    """Project each column of `z` onto the changes that keep the length of the column of `v`."""
    return z - strong(v, np.sum(strong(conjugate(v), z).real, axis=-2, keepdims=True))


def eig_wrt_matrix(ybar, y, a):
    """Abar = V^-H (diag(wbar) + conj(F) * V^H Vbar) V^H with F_ij = 1 / (w_j - w_i).

    Eigenvectors have length 1, so Vbar is projected to be orthogonal to them; the largest element of each is real.
    """
    _, v, gap = eig_parts(y, a)
    wbar, vbar = unpacked(ybar, *eigh_shapes(a))
    middle = on_diagonal(wbar)
    if not is_zero_cotangent(vbar):
        along = np.sum(strong(conjugate(v), vbar), axis=-2, keepdims=True)
        if v.dtype.kind == "c":  # the imaginary parts are the derivatives in the phases
            vbar = fix_cotangent_phases("eig", v, vbar, along.imag, real_element_mask(v, None))
        inner = strong_matmul(adjoint(v), vbar - strong(v, along.real))
        middle = middle + divided(inner, conjugate(gap), False)
    return strong_matmul(adjoint(inverse(v)), strong_matmul(middle, adjoint(v)))


def eig_along_matrix(t, y, a):
    _, v, gap = eig_parts(y, a)
    inner = strong_matmul(inverse(v), strong_matmul(t, v))
    dv = length_preserving(v, strong_matmul(v, divided(inner, gap, False)))
    if v.dtype.kind == "c":
        dv = fix_tangent_phases(v, dv, phase_rate(v, dv, real_element_mask(v, None)))
    return packed_tangents(leading(t, a), np.diagonal(inner, axis1=-2, axis2=-1), dv)


def sorted_eigenvectors(y, a):
    """Return the eigenvectors in the order in which ``eigvals`` returned the eigenvalues."""
    w, v, _ = eig_parts(packed_eig(a), a)
    if not np.any(np.abs(w - y) > rounding(v) * size(w, -1)):
        return v
    order = np.argmin(np.abs(w[..., None, :] - y[..., :, None]), axis=-1)
    return np.take_along_axis(v, order[..., None, :], -1)


def eigvals_wrt_matrix(ybar, y, a):
    v = sorted_eigenvectors(y, a)
    return strong_matmul(adjoint(inverse(v)), strong(ybar[..., :, None], adjoint(v)))


def eigvals_along_matrix(t, y, a):
    v = sorted_eigenvectors(y, a)
    return np.diagonal(strong_matmul(inverse(v), strong_matmul(t, v)), axis1=-2, axis2=-1)


@composed(np.linalg.eig)
def _eig(a):
    a = as_array(a)
    return EigResult(*unpacked(packed_eig(a), *eigh_shapes(a)))


structural(packed_eig, eig_wrt_matrix, jvp=(eig_along_matrix,)).name = "numpy.linalg.eig"
structural(np.linalg.eigvals, eigvals_wrt_matrix, jvp=(eigvals_along_matrix,), dependence=MATRIXWISE)
facts(packed_eig, native="eig", work="factorisation")
facts(np.linalg.eigvals, native="eigvals", work="factorisation")

# ---- singular values and vectors

SVDResult = type(np.linalg.svd(np.eye(1)))


def svd_shapes(a, full_matrices):
    *batch, m, n = shape_of(a)
    k = min(m, n)
    return (*batch, m, m if full_matrices else k), (*batch, k), (*batch, n if full_matrices else k, n)


@dispatched
def packed_svd(a, full_matrices, of_values=False):
    return packed(*np.linalg.svd(a, full_matrices))


def svd_parts(flat, a, full_matrices):
    """Return U, s, V, and bases of both null spaces as columns."""
    u, s, vh = unpacked(flat, *svd_shapes(a, full_matrices))
    k, v = shape_of(s)[-1], adjoint(vh)
    return u[..., :k], s.real, v[..., :k], u[..., k:], v[..., k:]


def is_null(s):
    """Mask of singular values that are 0 to rounding."""
    return s <= rounding(s[..., None]) * size(s, -1)


def svd_gaps(s):
    """Return differences and sums of singular values, each with the mask of where it is 0 to rounding."""
    gap, is_equal = gaps(s)
    total = s[..., None, :] + s[..., :, None]
    return gap, is_equal, total, is_null(s)[..., None, :] & is_null(s)[..., :, None]


def orthogonal_cotangent(name, s, u, ubar, inner, null, nullbar):
    """Return (1 - U U^H) Ubar S^-1, the part of Ubar orthogonal to U, plus the contribution of the null space."""
    if shape_of(u)[-2] == shape_of(u)[-1]:
        return None
    z = ubar - strong_matmul(u, inner)
    turn = strong_matmul(adjoint(null), nullbar)
    if np.any(is_nonzero(skew(turn), nullbar)):
        raise_nonsmooth(name, "the vectors of a null space are an arbitrary basis: use full_matrices=False")
    z = z - strong_matmul(null, strong_matmul(adjoint(nullbar), u))
    if np.any(is_null(s)[..., None, :] & is_nonzero(z, np.concatenate([ubar, nullbar], axis=-1))):
        raise_nonsmooth(name, "a singular value is 0, and the result depends on its arbitrary vectors")
    return strong(z, reciprocal_or_zero(s)[..., None, :])


def reciprocal_or_zero(s):
    """Return 1 / s, and 0 where s is 0 to rounding."""
    return np.where(is_null(s), 0, 1 / np.where(is_null(s), 1, s))


def svd_wrt_matrix(ybar, y, a, full_matrices, of_values=False):
    """Cotangent from rotations within the spaces of U and V, and from components orthogonal to them.

    With P = U^H dA V, symmetric part X and skew part Y, U and V rotate by X / (s_j - s_i) +- Y / (s_i + s_j).
    This avoids s_j^2 - s_i^2, so that pairs of small singular values lose no accuracy.
    """
    u, s, v, u0, v0 = svd_parts(y, a, full_matrices)
    ubar, sbar, vbar, u0bar, v0bar = svd_parts(ybar, a, full_matrices)
    if u.dtype.kind == "c":
        ubar, vbar = fix_pair_phases(u, v, ubar, vbar)
    left, right = strong_matmul(adjoint(u), ubar), strong_matmul(adjoint(v), vbar)
    gap, is_equal, total, is_zero = svd_gaps(s)
    both = np.concatenate([ubar, vbar], axis=-2)
    check_rotations("svd", "singular values", is_equal, sbar, left + right, both, of_values)
    if np.any(is_zero & is_nonzero(skew(left - right), both)):
        raise_nonsmooth("svd", "two singular values are 0, and the result depends on their arbitrary vectors")
    middle = on_diagonal(sbar) + divided(skew(left + right), gap, is_equal)
    middle = middle + divided_by_sum(skew(left - right), total, is_zero)
    z = strong_matmul(u, middle)
    beyond = orthogonal_cotangent("svd", s, u, ubar, left, u0, u0bar)
    z = strong_matmul(z if beyond is None else z + beyond, adjoint(v))
    beyond = orthogonal_cotangent("svd", s, v, vbar, right, v0, v0bar)
    return z if beyond is None else z + strong_matmul(u, adjoint(beyond))


def right_phases_fixed(v):
    """Whether LAPACK fixed the phases by real first elements of the right vectors, rather than of the left ones."""
    return np.all(np.abs(v[..., :1, :].imag) <= rounding(v))


def fix_pair_phases(u, v, ubar, vbar):
    """Remove the derivative in the common phase of each pair of vectors from their cotangents."""
    turn = phase_derivative(u, ubar) + phase_derivative(v, vbar)
    if right_phases_fixed(v):
        return ubar, fix_cotangent_phases("svd", v, vbar, turn, real_element_mask(v, 0))
    return fix_cotangent_phases("svd", u, ubar, turn, real_element_mask(u, 0)), vbar


def svd_along_matrix(t, y, a, full_matrices, of_values=False):
    u, s, v, u0, v0 = svd_parts(y, a, full_matrices)
    tv, tu = strong_matmul(t, v), strong_matmul(adjoint(t), u)
    inner = strong_matmul(adjoint(u), tv)
    gap, is_equal, total, is_zero = svd_gaps(s)
    even = divided(symmetric(inner), gap, is_equal)
    even = np.where(is_equal & is_nonzero(symmetric(inner), inner), np.nan, even)
    odd = divided_by_sum(skew(inner), total, is_zero)
    odd = np.where(is_zero & is_nonzero(skew(inner), inner), np.nan, odd)
    du = singular_vectors_tangent(s, u, u0, even + odd, tv, inner)
    dv = singular_vectors_tangent(s, v, v0, even - odd, tu, adjoint(inner))
    if u.dtype.kind == "c":
        k = shape_of(s)[-1]
        one, done = (v, dv) if right_phases_fixed(v) else (u, du)
        angle = phase_rate(one, done[..., :k], real_element_mask(one, 0))
        pairs = ((u, du), (v, dv))
        du, dv = [np.concatenate([fix_tangent_phases(x, z[..., :k], angle), z[..., k:]], -1) for x, z in pairs]
    return packed_tangents(leading(t, a), du, np.diagonal(inner, axis1=-2, axis2=-1).real, adjoint(dv))


def singular_vectors_tangent(s, u, null, turn, g, inner):
    """Return the tangent of singular vectors: rotation among them, components orthogonal to them, and null space.

    If there is a null space, the vectors of singular values 0 belong to it.
    """
    du = strong_matmul(u, turn)
    if shape_of(u)[-2] != shape_of(u)[-1]:
        du = du + strong(g - strong_matmul(u, inner), reciprocal_or_zero(s)[..., None, :])
        is_moved = np.any(np.not_equal(g, 0), axis=(-2, -1), keepdims=True)
        du = np.where(is_null(s)[..., None, :] & is_moved, np.nan, du)
    count = shape_of(null)[-1]
    if count == 0:
        return du
    follow = -strong_matmul(u, strong_matmul(adjoint(du), null))
    is_one = count == 1 and u.dtype.kind != "c"  # a single real null vector is unique up to its sign
    return np.concatenate([du, follow if is_one else np.nan * follow], axis=-1)


def singular_vectors(x):
    """Return the singular vectors for the rule of ``svdvals``."""
    u, _, vh = unpacked(packed_svd(x, False, True), *svd_shapes(x, False))
    return u, vh


def svdvals_wrt_matrix(ybar, y, x):
    u, vh = singular_vectors(x)
    return strong_matmul(strong(u, ybar[..., None, :].real), vh)


def svdvals_along_matrix(t, y, x):
    u, vh = singular_vectors(x)
    return np.sum(strong(conjugate(u), strong_matmul(t, adjoint(vh))).real, axis=-2)


@composed(np.linalg.svd, replayed=True)
def _svd(a, full_matrices=True, compute_uv=True):
    a = as_array(a)
    if not compute_uv:
        return np.linalg.svdvals(a)
    u, s, vh = unpacked(packed_svd(a, bool(full_matrices)), *svd_shapes(a, full_matrices))
    return SVDResult(u, s.real, vh)


row = structural(packed_svd, svd_wrt_matrix, jvp=(svd_along_matrix,), undefined=undefined("svd", "singular values"))
row.name = "numpy.linalg.svd"
structural(np.linalg.svdvals, svdvals_wrt_matrix, jvp=(svdvals_along_matrix,), dependence=MATRIXWISE)
facts(packed_svd, native="svd", work="factorisation")
facts(np.linalg.svdvals, native="svdvals", work="factorisation")


@composed(np.linalg.cond, replayed=True)
def _cond(x, p=None):
    x = as_array(x)
    if p in (None, 2, -2):
        s = np.linalg.svdvals(x)
        if not np.all(s[..., -1]):
            raise_nonsmooth("cond", "the matrix is singular")
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    inverse = np.linalg.inv(as_dtype(x, np.result_type(x.dtype, float)))  # NumPy computes it in double precision
    dtype = x.real.dtype if cond_is_real() else x.dtype
    return as_dtype(np.linalg.norm(x, p, (-2, -1)) * np.linalg.norm(inverse, p, (-2, -1)), dtype)


# ---- pseudo-inverse and least squares


RCOND_REASON = "rcond discards singular values that are not 0: write it with numpy.linalg.svd"


@locally_constant
def is_cut(a, p):
    """Return whether the pseudo-inverse omits singular values that are not 0."""
    rest = size(a - np.matmul(a, np.matmul(p, a)), (-2, -1))
    condition = np.linalg.norm(p, axis=(-2, -1), keepdims=True) * np.linalg.norm(a, axis=(-2, -1), keepdims=True)
    return np.any(rest > rounding(a) * condition * size(a, (-2, -1)))


@dispatched
def pseudo_inverse(a, rcond, rtol):
    return np.linalg.pinv(a, rcond, rtol=rtol)


def pinv_wrt_matrix(ybar, y, a, rcond, rtol):
    """Cotangent of the matrix for perturbations of constant rank, as near a matrix of full rank.

    References
    ----------
    Golub and Pereyra (1973), The differentiation of pseudo-inverses, equation 4.12. doi:10.1137/0710036
    """
    g, yt = adjoint(ybar), adjoint(y)
    z = -strong_matmul(yt, strong_matmul(ybar, yt))
    columns = strong_matmul(g, strong_matmul(y, yt))
    rows = strong_matmul(strong_matmul(yt, y), g)
    z = z + columns - strong_matmul(a, strong_matmul(y, columns))
    return z + rows - strong_matmul(strong_matmul(rows, y), a)


def pinv_along_matrix(t, y, a, rcond, rtol):
    g, yt = adjoint(t), adjoint(y)
    z = -strong_matmul(y, strong_matmul(t, y))
    columns = strong_matmul(strong_matmul(y, yt), g)
    rows = strong_matmul(g, strong_matmul(yt, y))
    z = z + columns - strong_matmul(strong_matmul(columns, a), y)
    return z + rows - strong_matmul(y, strong_matmul(a, rows))


@dispatched
def hermitian_pseudo_inverse(a, rcond, rtol):
    return np.linalg.pinv(a, rcond, hermitian=True, rtol=rtol)


def hermitian_pinv_wrt_matrix(ybar, y, a, rcond, rtol):
    z = pinv_wrt_matrix(ybar, y, hermitian_read(a, a, "L"), rcond, rtol)
    return hermitian_read_transpose((z + adjoint(z)) / 2, a, "L")


def hermitian_pinv_along_matrix(t, y, a, rcond, rtol):
    return pinv_along_matrix(hermitian_read(t, a, "L"), y, hermitian_read(a, a, "L"), rcond, rtol)


@composed(np.linalg.pinv, replayed=True)
def _pinv(a, rcond=None, hermitian=False, *, rtol=np._NoValue):
    a = as_array(a)
    p = (hermitian_pseudo_inverse if hermitian else pseudo_inverse)(a, rcond, rtol)
    if is_cut(hermitian_read(a, a, "L") if hermitian else a, p):
        raise_nonsmooth("pinv", RCOND_REASON)
    return p


structural(pseudo_inverse, pinv_wrt_matrix, jvp=(pinv_along_matrix,), dependence=MATRIXWISE)
facts(pseudo_inverse, native="pinv", work="factorisation")
structural(
    hermitian_pseudo_inverse, hermitian_pinv_wrt_matrix, jvp=(hermitian_pinv_along_matrix,), dependence=MATRIXWISE
)
facts(hermitian_pseudo_inverse, work="factorisation")

# least squares; packed results are rank, solution, singular values, residual sums of squares


def lstsq_shapes(flat, a, b):
    """Return the shapes of the results; residual sums of squares are empty for some ranks."""
    m, n = shape_of(a)
    x, s = (n, *shape_of(b)[1:]), (min(m, n),)
    return (), x, s, (shape_of(flat)[-1] - 1 - math.prod(x) - min(m, n),)


@dispatched
def packed_lstsq(a, b, rcond):
    x, squares, rank, s = np.linalg.lstsq(a, b, rcond)
    return packed(np.full(1, rank, x.dtype), x, s, squares)


@memoised
def lstsq_inverse(bar, a, rcond):
    """Return the pseudo-inverse with the cutoff of ``lstsq``; `bar` keys the cache."""
    eps = float(np.finfo(a.dtype).eps)
    if rcond is None:
        rcond = max(shape_of(a)) * eps
    elif not 0 < rcond < 1:  # LAPACK's default
        rcond = eps
    return pseudo_inverse(a, rcond, np._NoValue)


def lstsq_cotangents(ybar, y, a, b):
    """Return solution, residual and cotangents of the results, as matrices."""
    _, x, _, _ = unpacked(y, *lstsq_shapes(y, a, b))
    _, xbar, sbar, squaresbar = unpacked(ybar, *lstsq_shapes(y, a, b))
    x, xbar = as_columns(x, b), as_columns(xbar, b)
    residual = as_columns(b, b) - np.matmul(a, x)
    # at the minimum the sums of squares do not depend on the solution to first order
    pull = strong(2 * residual, squaresbar.real[..., None, :]) if shape_of(squaresbar)[-1] else 0 * residual
    return x, residual, xbar, sbar, pull


def lstsq_wrt_matrix(ybar, y, a, b, rcond):
    """Pull the cotangents of all results of a least-squares solution back to the matrix; see `pinv_wrt_matrix`."""
    p = lstsq_inverse(ybar, a, rcond)
    x, residual, xbar, sbar, pull = lstsq_cotangents(ybar, y, a, b)
    pt, g = adjoint(p), adjoint(xbar)
    z = -strong_matmul(strong_matmul(pt, xbar) + pull, adjoint(x))
    z = z + strong_matmul(residual, strong_matmul(strong_matmul(g, p), pt))
    z = z + strong_matmul(strong_matmul(pt, x), g - strong_matmul(strong_matmul(g, p), a))
    return z if is_zero_cotangent(sbar) else z + svdvals_wrt_matrix(sbar, None, a)


def lstsq_wrt_right_side(ybar, y, a, b, rcond):
    p = lstsq_inverse(ybar, a, rcond)
    *_, xbar, _, pull = lstsq_cotangents(ybar, y, a, b)
    return as_right_side(strong_matmul(adjoint(p), xbar) + pull, b)


def lstsq_tangents(y, a, b, g, p):
    """Tangents of solution and sums of squares for a tangent `g` of the right-hand side."""
    _, x, _, squares = unpacked(y, *lstsq_shapes(y, a, b))
    residual = as_columns(b, b) - np.matmul(a, as_columns(x, b))
    along = strong(2 * conjugate(residual), g).real
    along = np.sum(along, axis=-2) if np.size(squares) else np.zeros_like(along[..., 0, :0])
    return strong_matmul(p, g), along


def lstsq_along_matrix(t, y, a, b, rcond):
    p, lead = lstsq_inverse(t, a, rcond), leading(t, a)
    x = as_columns(unpacked(y, *lstsq_shapes(y, a, b))[1], b)
    dx, along = lstsq_tangents(y, a, b, -strong_matmul(t, x), p)
    pt, g = adjoint(p), adjoint(t)
    dx = dx + strong_matmul(p, strong_matmul(pt, strong_matmul(g, as_columns(b, b) - np.matmul(a, x))))
    rows = strong_matmul(g, strong_matmul(pt, x))
    dx = dx + rows - strong_matmul(p, strong_matmul(a, rows))
    ds = svdvals_along_matrix(t, None, a)
    return packed_tangents(lead, np.zeros_like(ds[..., :1]), dx, ds, along)


def lstsq_along_right_side(t, y, a, b, rcond):
    p, lead = lstsq_inverse(t, a, rcond), leading(t, b)
    dx, along = lstsq_tangents(y, a, b, as_columns(t, b), p)
    ds = np.zeros_like(dx, shape=(*shape_of(t)[:lead], min(shape_of(a))))
    return packed_tangents(lead, np.zeros_like(ds[..., :1]), dx, ds, along)


@composed(np.linalg.lstsq, replayed=True)
def _lstsq(a, b, rcond=None):
    a, b = as_array(a), as_array(b)
    flat = packed_lstsq(a, b, rcond)
    rank, x, s, squares = unpacked(flat, *lstsq_shapes(flat, a, b))
    rank, s, squares = np.rint(rank.real), s.real, squares.real
    count, rank = rank.astype(np.int64), rank.astype(np.int32)  # the dtype of the VM, and of NumPy's result
    if np.any(s[count:] > rounding(a) * s[:1]):
        raise_nonsmooth("lstsq", RCOND_REASON)
    return x, squares, rank, s


tangents = (lstsq_along_matrix, lstsq_along_right_side)
structural(packed_lstsq, lstsq_wrt_matrix, lstsq_wrt_right_side, jvp=tangents, native="lstsq", work="factorisation")
