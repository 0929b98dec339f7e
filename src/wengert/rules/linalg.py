"""Linear algebra: traces, powers, linear equations, determinants, factors, norms."""

from __future__ import annotations

from functools import reduce

import numpy as np

from wengert.errors import UnsupportedFunctionError
from wengert.registry import composed, constant, linear, strong, structural
from wengert.rules.broadcasting import from_end, leading, restore, unbroadcast
from wengert.rules.composed import as_array
from wengert.rules.products import strong_matmul, transposed
from wengert.rules.reductions import extreme_share, products_of_others

# ---- trace, powers and products of many matrices


def trace_transpose(ybar, a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    i, j = from_end((axis1, axis2), np.ndim(a))
    line = np.eye(np.shape(a)[i], np.shape(a)[j], k=offset, dtype=bool)
    z = np.where(line, ybar[..., None, None], 0)
    return np.moveaxis(z, (-2, -1), (i, j))


linear(np.trace, trace_transpose, stacked=True)
linear(
    np.linalg.trace,
    lambda ybar, x, *, offset=0, dtype=None: trace_transpose(ybar, x, offset, -2, -1),
    stacked=True,
)


def matrix_power_wrt_matrix(ybar, y, a, n):
    """Sum over the places of one factor; a negative power is one of the inverse."""
    if n < 0:
        inverse = np.linalg.inv(a)
        return inv_wrt_matrix(matrix_power_wrt_matrix(ybar, y, inverse, -n), inverse, a)
    powers = [np.linalg.matrix_power(transposed(a), k) for k in range(n)]
    terms = [strong_matmul(strong_matmul(powers[k], ybar), powers[n - 1 - k]) for k in range(n)]
    return reduce(np.add, terms) if terms else np.zeros_like(ybar)


def multi_dot_wrt_arrays(ybar, y, arrays, *, out=None):
    """Each factor's cotangent from the products of those to its left and to its right."""
    lead = leading(ybar, y)
    first, last = np.ndim(arrays[0]) == 1, np.ndim(arrays[-1]) == 1
    g = ybar[..., None] if last else ybar
    g = g[..., None, :] if first else g
    factors = [np.atleast_2d(arrays[0]), *arrays[1:-1], arrays[-1][:, None] if last else arrays[-1]]
    result = []
    for i in range(len(factors)):
        z = g
        if i > 0:
            z = strong_matmul(transposed(reduce(np.matmul, factors[:i])), z)
        if i < len(factors) - 1:
            z = strong_matmul(z, transposed(reduce(np.matmul, factors[i + 1 :])))
        result.append(np.reshape(z, np.shape(ybar)[:lead] + np.shape(arrays[i])))
    return result


structural(np.linalg.matrix_power, matrix_power_wrt_matrix, stacked=True)
structural(np.linalg.multi_dot, multi_dot_wrt_arrays, sequence=True, stacked=True, curvature="cross")

# ---- linear equations


def solve_transposed(a, g, lead):
    """Solution of a^T z = g; the directions of one matrix become columns, so that it is factorised once.

    A direction that is 0 has the solution 0, whatever the matrix.
    """
    if lead == 0 or np.ndim(a) > 2:
        z = np.linalg.solve(transposed(a), g)
    else:
        columns = np.moveaxis(g, -2, 0)
        z = np.linalg.solve(transposed(a), np.reshape(columns, (np.shape(a)[-1], -1)))
        z = np.moveaxis(np.reshape(z, np.shape(columns)), 0, -2)
    return np.where(np.any(g, axis=-2, keepdims=True), z, 0) if np.isnan(z).any() else z


def as_columns(g, b):
    """A right-hand side with one axis is a column; NumPy 2 takes any other for a stack of matrices."""
    return g[..., None] if np.ndim(b) == 1 else g


def solve_wrt_matrix(ybar, y, a, b):
    """-z y^T, where z is the cotangent of b."""
    lead = leading(ybar, y)
    z = solve_transposed(a, as_columns(ybar, b), lead)
    return unbroadcast(-strong_matmul(z, transposed(as_columns(y, b))), a, lead)


def solve_wrt_right_side(ybar, y, a, b):
    lead = leading(ybar, y)
    z = solve_transposed(a, as_columns(ybar, b), lead)
    return unbroadcast(z[..., 0] if np.ndim(b) == 1 else z, b, lead)


def inv_wrt_matrix(ybar, y, a):
    return -strong_matmul(transposed(y), strong_matmul(ybar, transposed(y)))


structural(np.linalg.solve, solve_wrt_matrix, solve_wrt_right_side, stacked=True)
structural(np.linalg.inv, inv_wrt_matrix, stacked=True)

# ---- determinant and Cholesky factor


def cofactors(a):
    """Matrix of cofactors, of singular matrices too: those of U, S and V in the decomposition a = U S V^T.

    Those of a matrix that is not finite are NaN.
    """
    is_finite = np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    u, s, vt = np.linalg.svd(np.where(is_finite, a, 0))
    sign = np.rint(np.linalg.det(u) * np.linalg.det(vt))
    slope = sign[..., None, None] * np.matmul(u * products_of_others(s)[..., None, :], vt)
    return np.where(is_finite, slope, np.nan)


def det_wrt_matrix(ybar, y, a):
    """Cofactors: det(a) a^-T where every matrix is regular, which can be differentiated again."""
    is_regular = np.all(np.not_equal(y, 0) & np.isfinite(y))
    slope = as_scalars(y) * transposed(np.linalg.inv(a)) if is_regular else cofactors(a)
    return strong(as_scalars(ybar), slope)


def as_scalars(z):
    """Scalars, one a matrix, to broadcast against matrices."""
    return z[..., None, None]


def cholesky_wrt_matrix(ybar, y, a, *, upper=False):
    """L^-T P(L^T g) L^-1 made symmetric, where P takes the lower triangle and halves the diagonal.

    NumPy reads one triangle only; as the matrix is symmetric, both get their half of the cotangent.

    References
    ----------
    Murray (2016), Differentiation of the Cholesky decomposition, equation 10. arXiv:1602.07527
    """
    factor, g = (transposed(y), transposed(ybar)) if upper else (y, ybar)
    inner = np.tril(strong_matmul(transposed(factor), np.tril(g)))
    inner = inner - np.eye(np.shape(a)[-1], dtype=inner.dtype) * inner / 2
    inverse = np.linalg.inv(factor)
    z = strong_matmul(transposed(inverse), strong_matmul(inner, inverse))
    return (z + transposed(z)) / 2


def log_abs_det(a):
    """The second of the two results of ``slogdet``."""
    return np.linalg.slogdet(a)[1]


def sign_of_det(a):
    return np.linalg.slogdet(a)[0]


def log_abs_det_wrt_matrix(ybar, y, a):
    return strong(as_scalars(ybar), transposed(np.linalg.inv(a)))


def _slogdet(a):
    # neither function is NumPy's, so they are offered to the operand here
    a = as_array(a)
    sign, logarithm = (a.__array_function__(fun, (type(a),), (a,), {}) for fun in (sign_of_det, log_abs_det))
    return type(np.linalg.slogdet(np.eye(1)))(sign, logarithm)


structural(log_abs_det, log_abs_det_wrt_matrix, stacked=True)
constant(sign_of_det)
composed(np.linalg.slogdet, _slogdet)
structural(np.linalg.det, det_wrt_matrix, stacked=True)
structural(np.linalg.cholesky, cholesky_wrt_matrix, stacked=True)

# ---- norms


def unit(x, size):
    """x / size, and 0 where size is 0: the kink of every norm at the origin."""
    return np.where(np.equal(size, 0), 0, x / size)


def vector_norm_slope(x, size, order, axis):
    """Derivative of the vector norm of the given order; a sum of |x|^p is taken relative to its size."""
    if order is None or order == 2:
        return unit(x, size)
    if order == 1:
        return np.sign(x)
    if np.isinf(order):
        return strong(np.sign(x), extreme_share(np.abs(x), size, axis))
    if order == 0:
        return np.zeros_like(x)
    return strong(np.sign(x), np.power(unit(np.abs(x), size), order - 1))


def norm_wrt_array(ybar, y, x, ord=None, axis=None, keepdims=False):
    ndim = np.ndim(x) if axis is None else len(from_end(axis, np.ndim(x)))
    if ord == "fro" or (ndim != 1 and ord is None):
        ord = 2
    elif ndim != 1:
        refuse_matrix_norm(ord)
    slope = vector_norm_slope(x, restore(y, x, axis, keepdims), ord, axis)
    return strong(restore(ybar, x, axis, keepdims), slope)


def vector_norm_wrt_array(ybar, y, x, *, axis=None, keepdims=False, ord=2):
    slope = vector_norm_slope(x, restore(y, x, axis, keepdims), ord, axis)
    return strong(restore(ybar, x, axis, keepdims), slope)


def matrix_norm_wrt_array(ybar, y, x, *, keepdims=False, ord="fro"):
    return norm_wrt_array(ybar, y, x, ord, (-2, -1), keepdims)


def refuse_matrix_norm(order):
    raise UnsupportedFunctionError(
        f"the matrix norm of order {order!r} has no rule: write it out, as in "
        "np.abs(a).sum(axis=0).max() for order 1, or use the Frobenius norm"
    )


structural(np.linalg.norm, norm_wrt_array, stacked=True)
structural(np.linalg.vector_norm, vector_norm_wrt_array, stacked=True)
structural(np.linalg.matrix_norm, matrix_norm_wrt_array, stacked=True)
