"""Linear algebra: powers, multiple products, linear systems, inverses, determinants.

The formulas are those of Giles (2008), Collected matrix derivative results for forward and reverse mode algorithmic
differentiation.
A tangent or cotangent may have leading axes (directions), which broadcast against the matrices of the call.
Rules that solve a linear system detect triangular matrices, which need no factorisation.
"""

from __future__ import annotations

import functools
import math
import weakref
from functools import lru_cache, reduce

import numpy as np

from wengert.dependence import MATRIXWISE, SYSTEMS, Contraction
from wengert.errors import NonSmoothError
from wengert.features import lapack_loop
from wengert.registry import composed, facts, strong, strong_matmul, structural
from wengert.rules import expansions, taylor
from wengert.rules.broadcasting import aligned, conjugate
from wengert.rules.composed import as_array, dispatched, locally_constant
from wengert.rules.products import adjoint, transposed
from wengert.rules.reductions import diagonal_mask, products_of_others
from wengert.rules.shapes import leading, moved_axis, ndim_of, raveled, reshaped, shape_of, unbroadcast

# ---- parts of square matrices


def on_diagonal(d):
    """Return diagonal matrices with diagonal `d`."""
    return np.where(diagonal_mask(shape_of(d)[-1], shape_of(d)[-1], 0), d[..., None, :], 0)


def symmetric(z):
    """Return the Hermitian part of z."""
    return (z + adjoint(z)) / 2


def skew(z):
    return (z - adjoint(z)) / 2


def lower_half(z):
    """Return the lower triangle with its diagonal halved: L with L + L^T = z for symmetric z."""
    return strong(z, half_weights(shape_of(z)[-1], z.dtype))


@lru_cache(maxsize=8)
def above_diagonal(n):
    return ~np.tri(n, dtype=bool)


def lower(z):
    """Return the lower triangle including the diagonal, as a new array."""
    return np.where(above_diagonal(shape_of(z)[-1]), z.dtype.type(0), z)


@lru_cache(maxsize=8)
def half_weights(n, dtype):
    return np.tri(n, dtype=dtype) - 0.5 * np.eye(n, dtype=dtype)


@lru_cache(maxsize=8)
def tolerance(dtype):
    return np.sqrt(np.finfo(dtype).eps)


@lru_cache(maxsize=8)
def epsilon(dtype):
    return float(np.finfo(dtype).eps)


def triangle_weights(a, UPLO):
    """Return the weight of each element of a matrix that NumPy takes to be Hermitian, reading only one triangle.

    If the matrix is Hermitian, both triangles get weight 1/2, so that the gradient is Hermitian too.
    """
    lower = half_weights(shape_of(a)[-1], a.dtype)
    lower = lower if UPLO.upper() == "L" else lower.T
    if type(a) is np.ndarray and a.ndim == 2 and a.size:
        noise = tolerance(a.dtype) * np.abs(a).max()
        return a.dtype.type(0.5) if np.abs(a - adjoint(a)).max() <= noise else lower
    noise = tolerance(a.dtype) * np.max(np.abs(a), axis=(-2, -1), keepdims=True, initial=0)
    is_hermitian = np.all(np.abs(a - adjoint(a)) <= noise, axis=(-2, -1), keepdims=True)
    return np.where(is_hermitian, a.dtype.type(0.5), lower)


def hermitian_read(t, a, UPLO):
    """Tangent of the Hermitian matrix that NumPy reads from one triangle of `a`."""
    t = strong(t, triangle_weights(a, UPLO))
    return t + adjoint(t)


def hermitian_read_transpose(z, a, UPLO):
    """Transpose of `hermitian_read`, for Hermitian z."""
    return strong(2 * z, triangle_weights(a, UPLO))


# ---- several results packed into one array


def packed(*parts):
    """Concatenate flattened arrays: a tape entry has one result."""
    return np.concatenate([raveled(part) for part in parts])


def unpacked(flat, *shapes):
    """Split the last axis of a packed array into views of the given shapes, behind the leading axes."""
    parts, start = [], 0
    for shape in shapes:
        stop = start + math.prod(shape)
        part = flat[..., start:stop]
        parts.append(reshaped(part, shape_of(flat)[:-1] + shape) if shape else part[..., 0])
        start = stop
    return parts


def packed_tangents(lead, *parts):
    """Pack tangents of several results, behind their leading axes."""
    return np.concatenate([reshaped(part, (*shape_of(part)[:lead], -1)) for part in parts], axis=-1)


# ---- points without a derivative


def raise_nonsmooth(name, why):
    raise NonSmoothError(f"numpy.linalg.{name} has no derivative here: {why}")


def rounding(x):
    """Bound on the relative rounding error of eigenvalues and eigenvectors of a matrix like `x`."""
    return 8 * max(shape_of(x)[-2:]) * epsilon(x.dtype)


@locally_constant
def size(x, axis):
    """Return the largest absolute value along `axis`, which is kept; a constant for differentiation."""
    return np.abs(x).max(axis, keepdims=True, initial=0)


facts(size, native="size")


# ---- powers and multiple products


def power_tangent(t, a, n):
    """d(A^n) = sum over k of A^k dA A^(n-1-k), by repeated squaring; a negative power is a power of the inverse."""
    if n < 0:
        inverse = np.linalg.inv(a)
        return power_tangent(inv_tangent(t, inverse, a), inverse, -n)
    if n == 0:
        return np.zeros_like(t)
    if n == 1:
        return t
    if n % 2:
        rest = np.linalg.matrix_power(a, n - 1)
        return strong_matmul(t, rest) + strong_matmul(a, power_tangent(t, a, n - 1))
    half, t = np.linalg.matrix_power(a, n // 2), power_tangent(t, a, n // 2)
    return strong_matmul(t, half) + strong_matmul(half, t)


def multi_dot_wrt_arrays(ybar, y, arrays, *, out=None):
    """Cotangent of each factor from the products of the factors on its left and on its right."""
    lead = leading(ybar, y)
    g = ybar[..., None] if ndim_of(arrays[-1]) == 1 else ybar
    g = g[..., None, :] if ndim_of(arrays[0]) == 1 else g
    factors = as_factors(arrays)
    result = []
    for i in range(len(factors)):
        z = g
        if i > 0:
            z = strong_matmul(transposed(reduce(np.matmul, factors[:i])), z)
        if i < len(factors) - 1:
            z = strong_matmul(z, transposed(reduce(np.matmul, factors[i + 1 :])))
        result.append(reshaped(z, shape_of(ybar)[:lead] + shape_of(arrays[i])))
    return result


def as_factors(arrays):
    """Return the factors as matrices: a 1-D array is a row if first, a column if last."""
    return [np.atleast_2d(arrays[0]), *arrays[1:-1], arrays[-1][:, None] if ndim_of(arrays[-1]) == 1 else arrays[-1]]


def multi_dot_tangent(tangents, y, arrays, *, out=None):
    """Sum of the products with one factor replaced by its tangent; factors with tangent None are constant."""
    factors, terms = as_factors(arrays), []
    for i, t in enumerate(tangents):
        if t is not None:
            lead = shape_of(t)[: leading(t, arrays[i])]
            t = reshaped(t, lead + shape_of(factors[i]))
            terms.append(reshaped(reduce(strong_matmul, [*factors[:i], t, *factors[i + 1 :]]), lead + shape_of(y)))
    return reduce(np.add, terms)


structural(
    np.linalg.matrix_power,
    lambda ybar, y, a, n: power_tangent(ybar, transposed(a), n),
    jvp=(lambda t, y, a, n: power_tangent(t, a, n),),
    dependence=MATRIXWISE,
    taylor=taylor.matrix_power,
)


def multi_dot_labels(ndim, arrays):
    labels = [[k, k + 1] for k in range(len(arrays))]
    out = [0, len(arrays)]
    if ndim(arrays[0]) == 1:
        labels[0], out = [1], out[1:]
    if ndim(arrays[-1]) == 1:
        labels[-1], out = labels[-1][:1], out[:-1]
    return arrays, labels, out


structural(np.linalg.multi_dot, multi_dot_wrt_arrays, jvp=(multi_dot_tangent,), sequence=True, curvature="cross")
facts(np.linalg.multi_dot, dependence=Contraction(multi_dot_labels), expansion=expansions.multi_dot)

# ---- linear systems

MIN_SPLIT_ORDER = 64  # order below which splitting a matrix does not pay


def is_lower(a):
    """Whether all elements above the diagonal are 0; recursive over quarters, without a copy, with early exit."""
    n = shape_of(a)[-1]
    if n <= 2 * MIN_SPLIT_ORDER:
        return not np.any((a != 0) & above_diagonal(n))
    h = n // 2
    return not np.any(a[..., :h, h:]) and is_lower(a[..., :h, :h]) and is_lower(a[..., h:, h:])


def solve_triangular(a, b, is_lower):
    """Solve a x = b with a triangular matrix, recursively by halves."""
    n = shape_of(a)[-1]
    if n <= MIN_SPLIT_ORDER:
        return np.linalg.solve(a, b)
    top, bottom = slice(n // 2), slice(n // 2, n)
    first, second = (top, bottom) if is_lower else (bottom, top)
    x = solve_triangular(a[..., first, first], b[..., first, :], is_lower)
    rest = b[..., second, :] - np.matmul(a[..., second, first], x)
    parts = [x, solve_triangular(a[..., second, second], rest, is_lower)]
    return np.concatenate(parts if is_lower else parts[::-1], axis=-2)


def is_small_system(a, kinds="d"):
    """Return whether a LAPACK loop can be called on the matrix directly, without the checks of `numpy.linalg`."""
    return type(a) is np.ndarray and a.ndim == 2 and a.dtype.char in kinds and a.shape[0] == a.shape[1] > 0


def inverse(a):
    """Return ``numpy.linalg.inv(a)``; the loop fills the result with NaN if the matrix is singular."""
    if is_small_system(a, "dD") and lapack_loop("inv") is not None:
        y = lapack_loop("inv")(a)
        if not math.isnan(y[0, 0].real):
            return y
    return np.linalg.inv(a)


def solved(a, b):
    """Return ``numpy.linalg.solve(a, b)`` for a `b` with at least two axes."""
    is_plain = is_small_system(a) and type(b) is np.ndarray and b.ndim == 2 and b.dtype == np.float64
    if is_plain and b.size and len(a) == len(b) and lapack_loop("solve") is not None:
        y = lapack_loop("solve")(a, b)
        if not math.isnan(y[0, 0]):
            return y
    return np.linalg.solve(a, b)


@dispatched
def solution(a, b):
    """Solve a x = b for `b` with at least two axes; n^2 operations per column if `a` is triangular."""
    if shape_of(a)[-1] > MIN_SPLIT_ORDER and np.isfinite(np.sum(a)):
        if is_lower(a):
            return solve_triangular(a, b, True)
        if is_lower(transposed(a)):
            return solve_triangular(a, b, False)
    return solved(a, b)


def solutions(a, g, lead):
    """Solve a z = g; directions become columns of one system, so that the matrix is factorised only once.

    A direction that is 0 has the solution 0, even if the matrix is singular.
    """
    try:
        if lead == 0 or ndim_of(a) > 2:
            z = solution(a, g)
        else:
            columns = moved_axis(g, -2, 0)
            z = solution(a, reshaped(columns, (shape_of(a)[-1], math.prod(shape_of(columns)[1:]))))
            z = moved_axis(reshaped(z, shape_of(columns)), 0, -2)
    except np.linalg.LinAlgError:  # singular, such as a matrix with infinite elements
        if not is_zero_cotangent(g):
            raise
        return np.zeros_like(g)
    # vdot is NaN if any element is: one pass without a temporary
    return np.where(np.any(g, axis=-2, keepdims=True), z, 0) if np.isnan(np.vdot(z, z)) else z


def memoised(fun):
    """Memoise a function of a cotangent and operands that the pullbacks of several operands share.

    An entry is dropped when its cotangent is freed; every tape entry has a new cotangent in each sweep.
    """
    found = {}

    @functools.wraps(fun)
    def remembering(ybar, *args):
        key = id(ybar)
        kept = found.get(key)
        if kept is not None and all(x is y for x, y in zip(kept[1], args)):
            return kept[2]
        result = fun(ybar, *args)
        try:
            found[key] = weakref.ref(ybar, lambda _: found.pop(key, None)), args, result
        except TypeError:  # ybar does not support weak references
            pass
        return result

    return remembering


def is_zero_cotangent(g):
    """Return whether a cotangent is identically 0; a traced one that is 0 may still have a derivative."""
    return type(g) is np.ndarray and not np.any(g)


def as_columns(g, b):
    """Return a 1-D right-hand side as a column; NumPy 2 treats any other shape as a stack of matrices."""
    return g[..., None] if ndim_of(b) == 1 else g


def as_right_side(z, b):
    return z[..., 0] if ndim_of(b) == 1 else z


@memoised
def solve_adjoint(ybar, y, a, b):
    return solutions(transposed(a), as_columns(ybar, b), leading(ybar, y))


def solve_wrt_matrix(ybar, y, a, b):
    """Abar = -z x^T with z = A^-T xbar, the cotangent of b (Giles 2008, section 2.3)."""
    z = solve_adjoint(ybar, y, a, b)
    return unbroadcast(-strong_matmul(z, transposed(as_columns(y, b))), a, leading(ybar, y))


def solve_wrt_right_side(ybar, y, a, b):
    return unbroadcast(as_right_side(solve_adjoint(ybar, y, a, b), b), b, leading(ybar, y))


def solve_along_matrix(t, y, a, b):
    x = as_columns(y, b)
    g = strong_matmul(aligned(t, a, ndim_of(x)), x)
    return as_right_side(-solutions(a, g, leading(t, a)), b)


def solve_along_right_side(t, y, a, b):
    g = as_columns(aligned(t, b, ndim_of(y)), b)
    return as_right_side(solutions(a, g, leading(t, b)), b)


def inv_tangent(t, y, a):
    return -strong_matmul(y, strong_matmul(t, y))


for fun in (np.linalg.solve, solution):
    tangents = (solve_along_matrix, solve_along_right_side)
    structural(fun, solve_wrt_matrix, solve_wrt_right_side, jvp=tangents, dependence=SYSTEMS, on_complex=True)
    facts(fun, expansion=expansions.solve, scalars="solve", work="factorisation", continuous=True)
facts(np.linalg.solve, batching=True, taylor=taylor.solve)
structural(np.linalg.inv, lambda ybar, y, a: inv_tangent(ybar, transposed(y), a), jvp=(inv_tangent,), slope="-ik,lj")
facts(np.linalg.inv, scalars="inverse", taylor=taylor.inverse)


@composed(np.linalg.tensorsolve, replayed=True)
def _tensorsolve(a, b, axes=None):
    a, b = as_array(a), as_array(b)
    if axes is not None:
        a = moved_axis(a, axes, range(-len(axes), 0))
    shape = shape_of(a)[ndim_of(b) :]
    x = np.linalg.solve(reshaped(a, (np.size(b), -1)), raveled(b))
    return reshaped(x, shape)


@composed(np.linalg.tensorinv, replayed=True)
def _tensorinv(a, ind=2):
    if ind <= 0:
        raise ValueError("numpy.linalg.tensorinv: ind must be positive")
    a = as_array(a)
    shape = shape_of(a)
    inverse = np.linalg.inv(reshaped(a, (math.prod(shape[ind:]), -1)))
    return reshaped(inverse, shape[ind:] + shape[:ind])


# ---- determinants


def as_scalars(z):
    """Append two axes of length 1 to per-matrix scalars, to broadcast against the matrices."""
    return z[..., None, None]


def cofactors(a):
    """Matrix of cofactors, also of singular matrices: det(U) det(V^H) conj(U cof(S) V^H) with a = U S V^H.

    Matrices with infinite or NaN elements give NaN.
    """
    is_finite = np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    u, s, vh = np.linalg.svd(np.where(is_finite, a, 0))
    phase = np.linalg.det(u) * np.linalg.det(vh)
    phase = phase if phase.dtype.kind == "c" else np.rint(phase)
    slope = as_scalars(phase) * np.matmul(conjugate(u) * products_of_others(s)[..., None, :], conjugate(vh))
    return np.where(is_finite, slope, np.nan)


def det_slope(y, a):
    """d det(A) / dA = det(A) inv(A)^T if all matrices are regular (differentiable again), else the cofactors."""
    if type(y) is np.float64:
        is_regular = y != 0 and math.isfinite(y)
    else:
        is_regular = np.all(np.not_equal(y, 0) & np.isfinite(y))
    return as_scalars(y) * transposed(inverse(a)) if is_regular else cofactors(a)


structural(
    np.linalg.det,
    lambda ybar, y, a: strong(as_scalars(ybar), det_slope(y, a)),
    jvp=(lambda t, y, a: np.sum(strong(t, det_slope(y, a)), axis=(-2, -1)),),
    scalars="determinant",
    taylor=taylor.determinant,
)
facts(np.linalg.inv, np.linalg.det, work="factorisation", dependence=MATRIXWISE, batching=True, continuous=True)


@dispatched
def packed_slogdet(a):
    return packed(*np.linalg.slogdet(a))


def slogdet_shapes(a):
    return shape_of(a)[:-2], shape_of(a)[:-2]


def slogdet_wrt_matrix(ybar, y, a):
    """d log|det A| = tr(inv(A) dA); a real sign is constant, a complex one rotates with the phase of det A."""
    signbar, g = unpacked(ybar, *slogdet_shapes(a))
    if y.dtype.kind == "c":
        sign, _ = unpacked(y, *slogdet_shapes(a))
        g = g.real + 1j * (np.conj(sign) * signbar).imag
    return strong(as_scalars(g), adjoint(inverse(a)))


def slogdet_tangent(t, y, a):
    slope = np.sum(strong(t, transposed(inverse(a))), axis=(-2, -1))
    flat = reshaped(slope, shape_of(t)[: leading(t, a)] + (-1,))
    if y.dtype.kind != "c":
        return np.concatenate([np.zeros_like(flat), flat], axis=-1)
    sign, _ = unpacked(y, *slogdet_shapes(a))
    return np.concatenate([1j * raveled(sign) * flat.imag, flat.real], axis=-1)


SlogdetResult = type(np.linalg.slogdet(np.eye(1)))


@composed(np.linalg.slogdet, replayed=True, taylor=taylor.log_determinant)
def _slogdet(a):
    a = as_array(a)
    sign, logarithm = unpacked(packed_slogdet(a), *slogdet_shapes(a))
    sign = sign if sign.dtype.kind == "c" else np.sign(sign)
    return SlogdetResult(sign[()], logarithm.real[()])  # [()]: scalars for a single matrix


structural(packed_slogdet, slogdet_wrt_matrix, jvp=(slogdet_tangent,), scalars="log determinant", work="factorisation")
