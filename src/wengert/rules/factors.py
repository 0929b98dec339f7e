"""Cholesky and QR factorisations; transposes are conjugate, so the rules hold for complex matrices too.

The rules follow Murray (2016), arXiv:1602.07527, for Cholesky and Walter and Lehmann (2010), arXiv:1001.1654, for QR.
"""

from __future__ import annotations

import numpy as np

from wengert.dependence import MATRIXWISE
from wengert.errors import UnsupportedFunctionError
from wengert.registry import composed, facts, strong_matmul, structural
from wengert.rules import taylor
from wengert.rules.composed import as_array, dispatched
from wengert.rules.linalg import (
    hermitian_read,
    hermitian_read_transpose,
    inverse,
    lower,
    lower_half,
    on_diagonal,
    packed,
    packed_tangents,
    raise_nonsmooth,
    rounding,
    size,
    solutions,
    symmetric,
    unpacked,
)
from wengert.rules.products import adjoint
from wengert.rules.shapes import leading, shape_of, unbroadcast

# ---- Cholesky factors

MAX_BLOCK_ORDER = 64  # maximum order of diagonal blocks that the recursion does not halve


def cholesky_tangent(t, factor):
    """dL = L P(L^-1 dA L^-H), where P takes the lower triangle and halves the diagonal."""
    lead = leading(t, factor)
    inner = adjoint(solutions(factor, t, lead))
    return strong_matmul(factor, lower_half(solutions(factor, inner, lead)))


@dispatched
def cholesky_adjoint(factor, g):
    """Return L^-H P(L^H tril(G)) L^-1, symmetrised: the transpose of `cholesky_tangent` for symmetric tangents."""
    return pulled_to_matrix(factor, g, np.matmul)


def pulled_to_matrix(factor, g, matmul):
    """Compute `cholesky_adjoint` with the function `matmul` for products of matrices.

    The recursion over halves takes n^3 instead of 3 n^3 operations, in a few products of large matrices.

    References
    ----------
    Murray (2016), Differentiation of the Cholesky decomposition, section 4. arXiv:1602.07527
    """
    whole = slice(0, shape_of(factor)[-1])
    for product in (matmul, strong_matmul):
        z, inverses = lower(g), {}
        invert_lower(factor, whole, inverses, False, product)
        pull_factor(factor, inverses, z, whole, product)
        if not np.isnan(np.vdot(z, z)):  # NaN if any element is
            break
    z *= 0.5
    return z


def halves(here):
    middle = (here.start + here.stop) // 2
    return slice(here.start, middle), slice(middle, here.stop)


def invert_lower(factor, here, inverses, is_needed, product):
    """Store the inverses of the diagonal blocks that `pull_factor` needs, and that of block `here` if `is_needed`."""
    if here.stop - here.start <= MAX_BLOCK_ORDER:
        inverses[here.start, here.stop] = inverse(lower(factor[..., here, here]))
        return
    first, second = halves(here)
    invert_lower(factor, first, inverses, True, product)
    invert_lower(factor, second, inverses, is_needed, product)
    if is_needed:
        top, end = inverses[first.start, first.stop], inverses[second.start, second.stop]
        found = np.zeros_like(factor[..., here, here])
        n = shape_of(top)[-1]
        found[..., :n, :n], found[..., n:, n:] = top, end
        found[..., n:, :n] = -product(product(end, factor[..., second, first]), top)
        inverses[here.start, here.stop] = found


def pull_factor(factor, inverses, z, here, product):
    """Replace the cotangent of a diagonal block of the factor in `z` by twice the symmetric cotangent of the matrix."""
    if here.stop - here.start <= MAX_BLOCK_ORDER:
        inverted = inverses[here.start, here.stop]
        inner = lower_half(product(adjoint(lower(factor[..., here, here])), z[..., here, here]))
        z[..., here, here] = product(adjoint(inverted), product(inner + adjoint(inner), inverted))
        return
    first, second = halves(here)
    below = factor[..., second, first]
    pull_factor(factor, inverses, z, second, product)
    inner = z[..., second, first] - product(z[..., second, second], below)
    inner = z[..., second, first] = product(inner, inverses[first.start, first.stop])
    z[..., first, second] = adjoint(inner)
    z[..., first, first] -= product(adjoint(inner), below)
    pull_factor(factor, inverses, z, first, product)


def cholesky_adjoint_wrt_factor(ybar, y, factor, g):
    """S(L, G) is linear in G; dS = -L^-H dL^H S - S dL L^-1, plus the contribution of dL through L^H G."""
    t = symmetric(ybar)
    lead = leading(ybar, y)
    half = solutions(factor, t, lead)
    middle = lower_half(solutions(factor, adjoint(half), lead))
    z = strong_matmul(np.tril(g), adjoint(middle)) - 2 * strong_matmul(y, adjoint(half))
    return unbroadcast(np.tril(z), factor, lead)


def cholesky_adjoint_wrt_cotangent(ybar, y, factor, g):
    return np.tril(cholesky_tangent(symmetric(ybar), factor))


structural(cholesky_adjoint, cholesky_adjoint_wrt_factor, cholesky_adjoint_wrt_cotangent, native="cholesky adjoint")


def cholesky_wrt_matrix(ybar, y, a, *, upper=False):
    z = cholesky_adjoint(adjoint(y), adjoint(ybar)) if upper else cholesky_adjoint(y, ybar)
    return hermitian_read_transpose(z, a, "U" if upper else "L")


def cholesky_along_matrix(t, y, a, *, upper=False):
    t = hermitian_read(t, a, "U" if upper else "L")
    return adjoint(cholesky_tangent(t, adjoint(y))) if upper else cholesky_tangent(t, y)


structural(np.linalg.cholesky, cholesky_wrt_matrix, jvp=(cholesky_along_matrix,), dependence=MATRIXWISE, batching=True)
facts(np.linalg.cholesky, taylor=taylor.cholesky, native="cholesky", work="factorisation")

# ---- QR

QRResult = type(np.linalg.qr(np.eye(1)))


def qr_shapes(a, mode):
    *batch, m, n = shape_of(a)
    k = m if mode == "complete" else min(m, n)
    return (*batch, m, k), (*batch, k, n)


@dispatched
def packed_qr(a, mode):
    return packed(*np.linalg.qr(a, mode))


def regular_triangle(name, r, k):
    """Return the first k columns of R; raise if that triangle is singular or its diagonal is not real."""
    d = np.diagonal(r, axis1=-2, axis2=-1)
    if np.any(d.imag):
        raise_nonsmooth(name, "the diagonal of r is not real: use numpy.linalg.cholesky(a.conj().T @ a)")
    d = np.abs(d)
    largest = size(d, -1)
    if np.any(np.isfinite(largest) & (d <= rounding(r) * largest)):
        raise_nonsmooth(name, "the columns of the matrix are linearly dependent: remove some, or use numpy.linalg.svd")
    return r[..., :k, :k]


def qr_wrt_matrix(ybar, y, a, mode):
    """Return (Qbar + Q S) R^-H, where S is the lower triangle of R Rbar^H - Qbar^H Q, mirrored to the upper one.

    For a wide matrix A = [A1, A2], R = [R1, R2] with R2 = Q^H A2.
    """
    m, n = shape_of(a)[-2:]
    k = min(m, n)
    q, r = unpacked(y, *qr_shapes(a, mode))
    qbar, rbar = unpacked(ybar, *qr_shapes(a, mode))
    if np.any(qbar[..., k:]):
        raise_nonsmooth("qr", "columns of q after the first n are an arbitrary basis of the null space: use q[:, :n]")
    q, qbar, rest, restbar = q[..., :k], qbar[..., :k], a[..., k:], rbar[..., :k, k:]
    r, rbar = regular_triangle("qr", r, k), rbar[..., :k, :k]
    if n > m:
        qbar = qbar + strong_matmul(rest, adjoint(restbar))
    inner = np.tril(strong_matmul(r, adjoint(rbar)) - strong_matmul(adjoint(qbar), q))
    inner = inner + adjoint(np.tril(inner, -1))
    inner = symmetric(inner) if inner.dtype.kind == "c" else inner  # the diagonal of R is real
    z = adjoint(solutions(r, adjoint(qbar + strong_matmul(q, inner)), leading(ybar, y)))
    return np.concatenate([z, strong_matmul(q, restbar)], axis=-1) if n > m else z


def qr_along_matrix(t, y, a, mode):
    """dQ = Q W + (1 - Q Q^H) dA R^-1 and dR = (Q^H dA R^-1 - W) R, with W skew-Hermitian and dR upper."""
    m, n = shape_of(a)[-2:]
    k = min(m, n)
    lead = leading(t, a)
    q, r = unpacked(y, *qr_shapes(a, mode))
    null = q[..., k:]
    q, r = q[..., :k], regular_triangle("qr", r, k)
    g = adjoint(solutions(adjoint(r), adjoint(t[..., :k]), lead))
    inner = strong_matmul(adjoint(q), g)
    turn = np.tril(inner, -1)
    turn = turn - adjoint(turn)
    if inner.dtype.kind == "c":  # the diagonal of R stays real
        turn = turn + 1j * on_diagonal(np.diagonal(inner, axis1=-2, axis2=-1).imag)
    dq = g + strong_matmul(q, turn - inner)
    dr = np.triu(strong_matmul(inner - turn, r))
    if n > m:
        behind = strong_matmul(adjoint(dq), a[..., k:]) + strong_matmul(adjoint(q), t[..., k:])
        dr = np.concatenate([dr, behind], axis=-1)
    if shape_of(null)[-1]:
        dq = np.concatenate([dq, np.full(shape_of(t)[:lead] + shape_of(null), np.nan, dq.dtype)], axis=-1)
        dr = np.concatenate([dr, np.zeros_like(dr, shape=(*shape_of(dr)[:-2], m - k, n))], axis=-2)
    return packed_tangents(lead, dq, dr)


@composed(np.linalg.qr, replayed=True)
def _qr(a, mode="reduced"):
    a = as_array(a)
    if mode == "r":
        return unpacked(packed_qr(a, "reduced"), *qr_shapes(a, "reduced"))[1]
    if mode not in ("reduced", "complete"):
        raise UnsupportedFunctionError(f"numpy.linalg.qr with mode={mode!r} has no derivative: use mode='reduced'")
    return QRResult(*unpacked(packed_qr(a, mode), *qr_shapes(a, mode)))


structural(packed_qr, qr_wrt_matrix, jvp=(qr_along_matrix,), native="qr", work="factorisation")
