"""Products of arrays: matrix products and sums of products over chosen axes.

Every product of a cotangent with an operand is a strong product: an exact 0 times inf or NaN gives 0.
Batch axes broadcast, so cotangents are summed over the axes along which an operand was broadcast.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from wengert.dependence import Contraction
from wengert.features import has_matvec
from wengert.registry import facts, strong, strong_matmul, structural
from wengert.rules import expansions
from wengert.rules.broadcasting import aligned, conjugate
from wengert.rules.shapes import (
    lead_shape,
    leading,
    moved_axis,
    ndim_of,
    raveled,
    reshaped,
    shape_of,
    swapped_axes,
    unbroadcast,
)


def transposed(a):
    return swapped_axes(a, -1, -2)


def adjoint(a):
    """Return the conjugate transpose."""
    return conjugate(transposed(a))


# ---- labels of the axes of products, as in einsum (`wengert.dependence.Contraction`)


def axis_labels(*counts):
    """Return groups of distinct integer labels, of the given sizes."""
    numbers = itertools.count()
    return [[next(numbers) for _ in range(count)] for count in counts]


def two_factor_pattern(labels):
    """Pattern of a product of two factors whose axis labels depend only on the numbers of axes."""

    def rule(ndim, a, b, out=None):
        return (a, b), *labels(ndim(a), ndim(b))

    return Contraction(rule)


def matmul_labels(a, b):
    batch = max(a - 2, b - 2, 0)
    lead, (i, j, k) = axis_labels(batch, 3)
    left = [k] if a == 1 else [*lead[batch - (a - 2) :], i, k]
    right = [k] if b == 1 else [*lead[batch - (b - 2) :], k, j]
    return [left, right], [*lead, *([i] if a > 1 else []), *([j] if b > 1 else [])]


def dot_labels(a, b):
    if not a or not b:
        left, right = axis_labels(a, b)
        return [left, right], left + right
    left, right, (k,) = axis_labels(a - 1, b - 1, 1)
    at = max(b - 2, 0)
    return [[*left, k], [*right[:at], k, *right[at:]]], left + right


def inner_labels(a, b):
    if not a or not b:
        return dot_labels(a, b)
    left, right, (k,) = axis_labels(a - 1, b - 1, 1)
    return [[*left, k], [*right, k]], left + right


def matvec_labels(a, v):
    lead, (i, k) = axis_labels(max(a - 2, v - 1), 2)
    return [[*lead[len(lead) - (a - 2) :], i, k], [*lead[len(lead) - (v - 1) :], k]], [*lead, i]


def vecmat_labels(v, a):
    (matrix, vector), out = matvec_labels(a, v)
    return [vector, [*matrix[:-2], matrix[-1], matrix[-2]]], out


def vecdot_labels(ndim, x1, x2, out=None, *, axis=-1):
    lead, (k,) = axis_labels(max(ndim(x1), ndim(x2)) - 1, 1)
    labels = [lead[len(lead) - (ndim(x) - 1) :] for x in (x1, x2)]
    for x, names in zip((x1, x2), labels):
        names.insert(axis % ndim(x), k)
    return (x1, x2), labels, lead


def tensordot_labels(ndim, a, b, axes=2):
    left, right = axis_labels(ndim(a), ndim(b))
    pairs = list(zip(*contraction(len(left), len(right), axes)))
    for i, j in pairs:
        right[j] = left[i]
    summed = {left[i] for i, _ in pairs}
    return (a, b), [left, right], [x for x in left + right if x not in summed]


FLAT_OUTER = Contraction(lambda ndim, a, b, out=None: ((a, b), [[0], [1]], [0, 1]))
FLAT_INNER = Contraction(lambda ndim, a, b: ((a, b), [[0], [0]], []))


def bilinear(fun, wrt_left, wrt_right, push_left, push_right):
    """Declare a product of two operands, by its pullbacks and tangents."""
    structural(fun, wrt_left, wrt_right, jvp=(push_left, push_right), curvature="cross")


# ---- matrix products


def as_matrices(g, a, b):
    """Return cotangent and operands of ``a @ b`` as matrices: a 1-D `a` is a row, a 1-D `b` a column."""
    if ndim_of(b) == 1:
        b, g = b[:, None], g[..., None]
    if ndim_of(a) == 1:
        a, g = a[None, :], g[..., None, :]
    return g, a, b


def tall(z, lead):
    """Reshape a stack of matrices, behind the leading axes, to one tall matrix."""
    *stack, columns = shape_of(z)
    return reshaped(z, (*stack[:lead], math.prod(stack[lead:]), columns))


def matmul_wrt_left(ybar, y, a, b, out=None):
    if ndim_of(ybar) == 0:  # fast path of two vectors
        return strong(ybar, b)
    axes = ndim_of(ybar), ndim_of(a), ndim_of(b)
    if axes == (2, 2, 2):  # fast paths of the common cases
        return strong_matmul(ybar, transposed(b))
    if axes == (1, 1, 2):
        return strong_matmul(b, ybar)
    if axes == (1, 2, 1):
        return strong(ybar[:, None], b)
    if axes[1:] == (1, 1):
        return strong(ybar[..., None], b)
    lead = leading(ybar, y)
    g, left, right = as_matrices(ybar, a, b)
    if ndim_of(right) == 2:  # a stack times one matrix: a single product with the tall matrix
        rows = reshaped(g, (math.prod(shape_of(g)[:-1]), shape_of(g)[-1]))
        z = strong_matmul(rows, transposed(right))
        z = reshaped(z, shape_of(g)[:-1] + (shape_of(right)[0],))
    else:
        z = strong_matmul(g, transposed(right))
    z = unbroadcast(z, left, lead)
    return z[..., 0, :] if ndim_of(a) == 1 else z


def matmul_wrt_right(ybar, y, a, b, out=None):
    if ndim_of(ybar) == 0:
        return strong(ybar, a)
    axes = ndim_of(ybar), ndim_of(a), ndim_of(b)
    if axes == (2, 2, 2):
        return strong_matmul(transposed(a), ybar)
    if axes == (1, 1, 2):
        return strong(a[:, None], ybar)
    if axes[1:] == (1, 1):
        return strong(ybar[..., None], a)
    lead = leading(ybar, y)
    if ndim_of(b) == 1 and ndim_of(a) == 2:  # directions are rows of one matrix
        shape = shape_of(ybar)[:lead]
        z = strong_matmul(reshaped(ybar, (math.prod(shape), shape_of(a)[0])), a)
        return reshaped(z, shape + shape_of(b))
    g, left, right = as_matrices(ybar, a, b)
    if ndim_of(right) == 2 and ndim_of(left) > 2:  # a stack times one matrix: a single product with the tall matrix
        g, left = tall(g, lead), tall(left, 0)
    z = unbroadcast(strong_matmul(transposed(left), g), right, lead)
    return z[..., 0] if ndim_of(b) == 1 else z


def stacked_product(t, b):
    """Return t @ b for a tangent and one matrix or vector: the directions are further rows of one product."""
    return reshaped(strong_matmul(tall(t, 0), b), shape_of(t)[:-1] + shape_of(b)[1:])


def push_matmul_left(t, y, a, b, out=None):
    if ndim_of(b) <= 2:
        return stacked_product(t, b)
    if ndim_of(a) == 1:
        return strong_matmul(aligned(t[..., None, :], a[None, :], ndim_of(b)), b)[..., 0, :]
    return strong_matmul(aligned(t, a, ndim_of(b)), b)


def push_matmul_right(t, y, a, b, out=None):
    if ndim_of(b) == 1:
        if ndim_of(a) <= 2:
            return stacked_product(t, a.T)
        return strong_matmul(a, aligned(t[..., None], b[:, None], ndim_of(a)))[..., 0]
    if ndim_of(a) == 1:
        return strong_matmul(a[None, :], t)[..., 0, :]
    return strong_matmul(a, aligned(t, b, ndim_of(a)))


def rank_one(position, ybar, a, b, out=None):
    """Return the factors of the cotangent of a matrix in its product with a vector."""
    if position == 0:
        return (ybar, b) if ndim_of(a) == 2 and ndim_of(b) == 1 else None
    return (a, ybar) if ndim_of(a) == 1 and ndim_of(b) == 2 else None


for fun in {np.matmul, np.linalg.matmul}:
    bilinear(fun, matmul_wrt_left, matmul_wrt_right, push_matmul_left, push_matmul_right)
    facts(fun, dependence=two_factor_pattern(matmul_labels), scalars="matmul", batching=True, rank_one=rank_one)
    facts(fun, lowering="stacked product")


def matvec_wrt_matrix(ybar, y, a, v, out=None):
    return unbroadcast(strong(ybar[..., :, None], v[..., None, :]), a, leading(ybar, y))


def matvec_wrt_vector(ybar, y, a, v, out=None):
    z = strong_matmul(transposed(a), ybar[..., :, None])[..., 0]
    return unbroadcast(z, v, leading(ybar, y))


def vecmat_wrt_vector(ybar, y, v, a, out=None):
    return matvec_wrt_vector(ybar, y, transposed(a), v)


def vecmat_wrt_matrix(ybar, y, v, a, out=None):
    return unbroadcast(strong(v[..., :, None], ybar[..., None, :]), a, leading(ybar, y))


def push_matvec_matrix(t, y, a, v, out=None):
    if ndim_of(v) == 1:
        return stacked_product(t, v)
    return strong_matmul(aligned(t, a, ndim_of(v) + 1), v[..., :, None])[..., 0]


def push_matvec_vector(t, y, a, v, out=None):
    if ndim_of(a) == 2:
        return stacked_product(t, a.T)
    return strong_matmul(a, aligned(t, v, ndim_of(a) - 1)[..., None])[..., 0]


def push_vecmat_vector(t, y, v, a, out=None):
    return push_matvec_vector(t, y, transposed(a), v)


def push_vecmat_matrix(t, y, v, a, out=None):
    return push_matvec_matrix(transposed(t), y, transposed(a), v)


if has_matvec:
    bilinear(np.matvec, matvec_wrt_matrix, matvec_wrt_vector, push_matvec_matrix, push_matvec_vector)
    bilinear(np.vecmat, vecmat_wrt_vector, vecmat_wrt_matrix, push_vecmat_vector, push_vecmat_matrix)
    facts(np.matvec, dependence=two_factor_pattern(matvec_labels))
    facts(np.vecmat, dependence=two_factor_pattern(vecmat_labels))

# ---- sums of products over chosen axes


def contraction(na, nb, axes):
    """Return the axes that ``tensordot`` sums over, as two tuples of non-negative integers."""
    if isinstance(axes, (int, np.integer)):
        return tuple(range(na - axes, na)), tuple(range(axes))
    left, right = ((i,) if ndim_of(i) == 0 else tuple(i) for i in axes)
    return tuple(i % na for i in left), tuple(i % nb for i in right)


def sizes_along(x, axes):
    return tuple(shape_of(x)[i] for i in axes)


def rest_of(x, axes):
    return tuple(i for i in range(ndim_of(x)) if i not in axes)


def strong_tensordot(a, b, left, right):
    """Contract the axes `left` of `a` with the axes `right` of `b`, with 0 * inf = 0."""
    rows, columns = rest_of(a, left), rest_of(b, right)
    n = math.prod(sizes_along(a, left))
    flat_a = reshaped(np.transpose(a, rows + left), (math.prod(sizes_along(a, rows)), n))
    flat_b = reshaped(np.transpose(b, right + columns), (n, math.prod(sizes_along(b, columns))))
    return reshaped(strong_matmul(flat_a, flat_b), sizes_along(a, rows) + sizes_along(b, columns))


def partners(axes, others):
    """Return the axes contracted with `axes`, sorted by `axes`."""
    return tuple(other for _, other in sorted(zip(axes, others, strict=True)))


def undo_permutation(z, order, lead):
    """Undo a permutation: axis i of `z` behind the leading ones is axis ``order[i]`` of the operand."""
    return np.transpose(z, tuple(range(lead)) + tuple(lead + order.index(i) for i in range(len(order))))


def lead_to_front(z, at, lead):
    """Move the `lead` leading axes of a tangent or cotangent, which start at `at`, to the front of `z`."""
    return moved_axis(z, tuple(range(at, at + lead)), tuple(range(lead))) if lead else z


def tensordot_wrt_left(ybar, y, a, b, axes=2):
    left, right = contraction(ndim_of(a), ndim_of(b), axes)
    rows, columns = rest_of(a, left), rest_of(b, right)
    lead = leading(ybar, y)
    theirs = tuple(range(lead + len(rows), ndim_of(ybar)))
    return undo_permutation(strong_tensordot(ybar, b, theirs, columns), rows + partners(right, left), lead)


def tensordot_wrt_right(ybar, y, a, b, axes=2):
    left, right = contraction(ndim_of(a), ndim_of(b), axes)
    rows, columns = rest_of(a, left), rest_of(b, right)
    lead = leading(ybar, y)
    theirs = tuple(range(lead, lead + len(rows)))
    z = strong_tensordot(a, ybar, rows, theirs)
    return undo_permutation(lead_to_front(z, len(left), lead), partners(left, right) + columns, lead)


def push_tensordot_left(t, y, a, b, axes=2):
    left, right = contraction(ndim_of(a), ndim_of(b), axes)
    return strong_tensordot(t, b, tuple(leading(t, a) + i for i in left), right)


def push_tensordot_right(t, y, a, b, axes=2):
    left, right = contraction(ndim_of(a), ndim_of(b), axes)
    lead = leading(t, b)
    z = strong_tensordot(a, t, left, tuple(lead + i for i in right))
    return lead_to_front(z, ndim_of(a) - len(left), lead)


bilinear(np.tensordot, tensordot_wrt_left, tensordot_wrt_right, push_tensordot_left, push_tensordot_right)
if np.linalg.tensordot is not np.tensordot:
    bilinear(
        np.linalg.tensordot,
        lambda ybar, y, x1, x2, *, axes=2: tensordot_wrt_left(ybar, y, x1, x2, axes),
        lambda ybar, y, x1, x2, *, axes=2: tensordot_wrt_right(ybar, y, x1, x2, axes),
        lambda t, y, x1, x2, *, axes=2: push_tensordot_left(t, y, x1, x2, axes),
        lambda t, y, x1, x2, *, axes=2: push_tensordot_right(t, y, x1, x2, axes),
    )
facts(np.tensordot, np.linalg.tensordot, dependence=Contraction(tensordot_labels), work="contraction")


def dot_axes(a, b):
    """Return the axes that ``dot`` contracts: the last axis of `a`, and the last but one, or the only one, of `b`."""
    return (-1,), (-min(ndim_of(b), 2),)


def is_scaling(a, b):
    """Return whether ``dot`` or ``inner`` multiplies by a scalar."""
    return ndim_of(a) == 0 or ndim_of(b) == 0


def is_matmul(a, b, axes_of):
    """Return whether ``dot`` or ``inner`` is a matrix product, whose rules are cheaper."""
    return ndim_of(b) == 1 or (axes_of is dot_axes and ndim_of(b) == 2)


def pullback_of(axes_of, is_left, by_matmul, by_tensordot):
    def pullback(ybar, y, a, b, out=None):
        x, other = (a, b) if is_left else (b, a)
        if ndim_of(ybar) == 0:  # fast path of two vectors or scalars
            return strong(ybar, other)
        if is_scaling(a, b):
            return unbroadcast(strong(ybar, other), x, leading(ybar, y))
        return by_matmul(ybar, y, a, b) if is_matmul(a, b, axes_of) else by_tensordot(ybar, y, a, b, axes_of(a, b))

    return pullback


def push_of(axes_of, is_left, by_matmul, by_tensordot):
    def push(t, y, a, b, out=None):
        if is_scaling(a, b):
            x, other = (a, b) if is_left else (b, a)
            return strong(aligned(t, x, ndim_of(other)), other)
        return by_matmul(t, y, a, b) if is_matmul(a, b, axes_of) else by_tensordot(t, y, a, b, axes_of(a, b))

    return push


for fun, axes_of, labels in ((np.dot, dot_axes, dot_labels), (np.inner, lambda a, b: ((-1,), (-1,)), inner_labels)):
    bilinear(
        fun,
        pullback_of(axes_of, True, matmul_wrt_left, tensordot_wrt_left),
        pullback_of(axes_of, False, matmul_wrt_right, tensordot_wrt_right),
        push_of(axes_of, True, push_matmul_left, push_tensordot_left),
        push_of(axes_of, False, push_matmul_right, push_tensordot_right),
    )
    facts(fun, dependence=two_factor_pattern(labels))
facts(np.dot, scalars="dot", batching=True, rank_one=rank_one, lowering="stacked product")
facts(np.inner, scalars="inner")


def outer_wrt_left(ybar, y, a, b, out=None):
    return reshaped(strong_matmul(ybar, raveled(b)[:, None]), lead_shape(ybar, y) + shape_of(a))


def outer_wrt_right(ybar, y, a, b, out=None):
    return reshaped(strong_matmul(raveled(a)[None, :], ybar), lead_shape(ybar, y) + shape_of(b))


def push_outer_left(t, y, a, b, out=None):
    return strong(reshaped(t, (*lead_shape(t, a), np.size(a), 1)), raveled(b))


def push_outer_right(t, y, a, b, out=None):
    return strong(raveled(a)[:, None], reshaped(t, (*lead_shape(t, b), 1, np.size(b))))


for fun in (np.outer, np.linalg.outer):
    bilinear(fun, outer_wrt_left, outer_wrt_right, push_outer_left, push_outer_right)
    facts(fun, dependence=FLAT_OUTER)
facts(np.outer, expansion=expansions.outer, lowering="outer")


def vdot_wrt(ybar, x, other):
    """Cotangent of `x` in ``vdot``, which flattens both operands; without conjugation, as the operands are real."""
    if ndim_of(ybar) == 0 and shape_of(x) == shape_of(other):
        return strong(ybar, other)
    return reshaped(strong(ybar[..., None], raveled(other)), shape_of(ybar) + shape_of(x))


def push_vdot(t, x, other):
    return stacked_product(reshaped(t, (*lead_shape(t, x), np.size(x))), raveled(other))


def vdots_of_batch(a, b):
    left, right = reshaped(a, (len(a), -1)), reshaped(b, (len(b), -1))
    return np.sum(conjugate(left) * right, axis=1)


bilinear(
    np.vdot,
    lambda ybar, y, a, b: vdot_wrt(ybar, a, b),
    lambda ybar, y, a, b: vdot_wrt(ybar, b, a),
    lambda t, y, a, b: push_vdot(t, a, b),
    lambda t, y, a, b: push_vdot(t, b, a),
)
facts(np.vdot, dependence=FLAT_INNER, scalars="vdot", batching=vdots_of_batch)


def vecdot_wrt(ybar, y, x, other, axis):
    """Cotangent of `x`; the sum runs over `axis` of both operands, which broadcast along the other axes."""
    lead = leading(ybar, y)
    moved = moved_axis(x, axis, -1)
    z = unbroadcast(strong(ybar[..., None], moved_axis(other, axis, -1)), moved, lead)
    return moved_axis(z, -1, axis if axis < 0 else axis - ndim_of(x))


def push_vecdot(t, y, x, other, axis):
    moved = moved_axis(t, axis if axis < 0 else axis - ndim_of(x), -1)
    t = aligned(moved, moved_axis(x, axis, -1), ndim_of(other))
    return np.sum(strong(t, moved_axis(other, axis, -1)), axis=-1)


for fun in {np.vecdot, np.linalg.vecdot}:
    bilinear(
        fun,
        lambda ybar, y, x1, x2, *, axis=-1: vecdot_wrt(ybar, y, x1, x2, axis),
        lambda ybar, y, x1, x2, *, axis=-1: vecdot_wrt(ybar, y, x2, x1, axis),
        lambda t, y, x1, x2, *, axis=-1: push_vecdot(t, y, x1, x2, axis),
        lambda t, y, x1, x2, *, axis=-1: push_vecdot(t, y, x2, x1, axis),
    )
    facts(fun, dependence=Contraction(vecdot_labels))
facts(np.vecdot, scalars="vecdot")
