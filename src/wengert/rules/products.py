"""Products of arrays: matrix products, contractions, einsum, Kronecker and cross products.

Every product of a cotangent with an operand is a strong product: an exact 0 times inf or NaN gives 0.
Batch axes broadcast, so cotangents are summed over the axes along which an operand was broadcast.
"""

from __future__ import annotations

import itertools
import math
from functools import lru_cache, reduce

import numpy as np

from wengert.dependence import Contraction
from wengert.features import has_matvec
from wengert.registry import facts, strong, strong_matmul, structural
from wengert.rules import expansions
from wengert.rules.broadcasting import aligned, conjugate
from wengert.rules.shapes import (
    from_end,
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

#: letters of labels in einsum's subscripts
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


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


def einsum_labels(ndim, *args, optimize=False, dtype=None, order="K", casting="safe"):
    inputs, output, operands = einsum_form(args)
    inputs, output, _ = expand_ellipses(tuple(inputs), output, tuple(map(ndim, operands)), 0)
    return operands, [list(names) for names in inputs], list(output)


FLAT_OUTER = Contraction(lambda ndim, a, b, out=None: ((a, b), [[0], [1]], [0, 1]))
FLAT_INNER = Contraction(lambda ndim, a, b: ((a, b), [[0], [0]], []))
VECDOT = Contraction(vecdot_labels)
TENSORDOT = Contraction(tensordot_labels)

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
    structural(
        fun,
        matmul_wrt_left,
        matmul_wrt_right,
        jvp=(push_matmul_left, push_matmul_right),
        stacked=True,
        curvature="cross",
        dependence=two_factor_pattern(matmul_labels),
        rank_one=rank_one,
    )


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
    structural(
        np.matvec,
        matvec_wrt_matrix,
        matvec_wrt_vector,
        jvp=(push_matvec_matrix, push_matvec_vector),
        stacked=True,
        curvature="cross",
        dependence=two_factor_pattern(matvec_labels),
    )
    structural(
        np.vecmat,
        vecmat_wrt_vector,
        vecmat_wrt_matrix,
        jvp=(push_vecmat_vector, push_vecmat_matrix),
        stacked=True,
        curvature="cross",
        dependence=two_factor_pattern(vecmat_labels),
    )

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


structural(
    np.tensordot,
    tensordot_wrt_left,
    tensordot_wrt_right,
    jvp=(push_tensordot_left, push_tensordot_right),
    stacked=True,
    curvature="cross",
    dependence=TENSORDOT,
)
if np.linalg.tensordot is not np.tensordot:
    structural(
        np.linalg.tensordot,
        lambda ybar, y, x1, x2, *, axes=2: tensordot_wrt_left(ybar, y, x1, x2, axes),
        lambda ybar, y, x1, x2, *, axes=2: tensordot_wrt_right(ybar, y, x1, x2, axes),
        jvp=(
            lambda t, y, x1, x2, *, axes=2: push_tensordot_left(t, y, x1, x2, axes),
            lambda t, y, x1, x2, *, axes=2: push_tensordot_right(t, y, x1, x2, axes),
        ),
        stacked=True,
        curvature="cross",
        dependence=TENSORDOT,
    )


def dot_axes(a, b):
    """Axes that ``dot`` contracts: the last one of `a` with the last but one of `b`, or its only one."""
    return (-1,), (-min(ndim_of(b), 2),)


def inner_axes(a, b):
    return (-1,), (-1,)


def is_scaling(a, b):
    """Return whether ``dot`` or ``inner`` multiplies by a scalar."""
    return ndim_of(a) == 0 or ndim_of(b) == 0


def scaling_wrt(ybar, y, x, other):
    return unbroadcast(strong(ybar, other), x, leading(ybar, y))


def push_scaling(t, x, other):
    return strong(aligned(t, x, ndim_of(other)), other)


def is_matmul(a, b, axes_of):
    """Return whether ``dot`` or ``inner`` is a matrix product, whose rules are cheaper."""
    return ndim_of(b) == 1 or (axes_of is dot_axes and ndim_of(b) == 2)


def wrt_left(axes_of):
    def pullback(ybar, y, a, b, out=None):
        if is_scaling(a, b):
            return scaling_wrt(ybar, y, a, b)
        if is_matmul(a, b, axes_of):
            return matmul_wrt_left(ybar, y, a, b)
        return tensordot_wrt_left(ybar, y, a, b, axes_of(a, b))

    return pullback


def wrt_right(axes_of):
    def pullback(ybar, y, a, b, out=None):
        if is_scaling(a, b):
            return scaling_wrt(ybar, y, b, a)
        if is_matmul(a, b, axes_of):
            return matmul_wrt_right(ybar, y, a, b)
        return tensordot_wrt_right(ybar, y, a, b, axes_of(a, b))

    return pullback


def push_left(axes_of):
    def push(t, y, a, b, out=None):
        if is_scaling(a, b):
            return push_scaling(t, a, b)
        if is_matmul(a, b, axes_of):
            return push_matmul_left(t, y, a, b)
        return push_tensordot_left(t, y, a, b, axes_of(a, b))

    return push


def push_right(axes_of):
    def push(t, y, a, b, out=None):
        if is_scaling(a, b):
            return push_scaling(t, b, a)
        if is_matmul(a, b, axes_of):
            return push_matmul_right(t, y, a, b)
        return push_tensordot_right(t, y, a, b, axes_of(a, b))

    return push


for fun, axes_of, labels in ((np.dot, dot_axes, dot_labels), (np.inner, inner_axes, inner_labels)):
    structural(
        fun,
        wrt_left(axes_of),
        wrt_right(axes_of),
        jvp=(push_left(axes_of), push_right(axes_of)),
        stacked=True,
        curvature="cross",
        dependence=two_factor_pattern(labels),
    )
facts(np.matmul, scalars="matmul", batching=True)
facts(np.dot, scalars="dot", batching=True, rank_one=rank_one)
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
    structural(
        fun,
        outer_wrt_left,
        outer_wrt_right,
        jvp=(push_outer_left, push_outer_right),
        stacked=True,
        curvature="cross",
        dependence=FLAT_OUTER,
    )
facts(np.outer, expansion=expansions.outer, lowering="outer")


def vdot_wrt(ybar, x, other):
    """Both operands are flattened; conjugation is omitted, as this rule is for real operands."""
    return reshaped(strong(ybar[..., None], raveled(other)), shape_of(ybar) + shape_of(x))


def push_vdot(t, x, other):
    return stacked_product(reshaped(t, (*lead_shape(t, x), np.size(x))), raveled(other))


def vdots_of_batch(a, b):
    left, right = reshaped(a, (len(a), -1)), reshaped(b, (len(b), -1))
    return np.sum(conjugate(left) * right, axis=1)


structural(
    np.vdot,
    lambda ybar, y, a, b: vdot_wrt(ybar, a, b),
    lambda ybar, y, a, b: vdot_wrt(ybar, b, a),
    jvp=(lambda t, y, a, b: push_vdot(t, a, b), lambda t, y, a, b: push_vdot(t, b, a)),
    stacked=True,
    curvature="cross",
    dependence=FLAT_INNER,
    scalars="vdot",
    batching=vdots_of_batch,
)


def vecdot_wrt(ybar, y, x, other, axis):
    """The sum runs over `axis` of both operands, which broadcast along the other axes."""
    lead = leading(ybar, y)
    moved = moved_axis(x, axis, -1)
    z = unbroadcast(strong(ybar[..., None], moved_axis(other, axis, -1)), moved, lead)
    return moved_axis(z, -1, axis if axis < 0 else axis - ndim_of(x))


def push_vecdot(t, y, x, other, axis):
    moved = moved_axis(t, axis if axis < 0 else axis - ndim_of(x), -1)
    t = aligned(moved, moved_axis(x, axis, -1), ndim_of(other))
    return np.sum(strong(t, moved_axis(other, axis, -1)), axis=-1)


for fun in {np.vecdot, np.linalg.vecdot}:
    structural(
        fun,
        lambda ybar, y, x1, x2, *, axis=-1: vecdot_wrt(ybar, y, x1, x2, axis),
        lambda ybar, y, x1, x2, *, axis=-1: vecdot_wrt(ybar, y, x2, x1, axis),
        jvp=(
            lambda t, y, x1, x2, *, axis=-1: push_vecdot(t, y, x1, x2, axis),
            lambda t, y, x1, x2, *, axis=-1: push_vecdot(t, y, x2, x1, axis),
        ),
        stacked=True,
        curvature="cross",
        dependence=VECDOT,
    )
facts(np.vecdot, scalars="vecdot")

# ---- einsum


def label_letters(labels):
    """Convert the integer labels of einsum's interleaved form to letters."""
    return "".join("..." if label is Ellipsis else _LETTERS[label] for label in labels)


@lru_cache(maxsize=1024)
def split_subscripts(subscripts):
    """Return the subscripts of operands, and of the result or None if they are implicit."""
    inputs, arrow, output = subscripts.replace(" ", "").partition("->")
    return inputs.split(","), output if arrow else None


def einsum_form(args):
    """Return the subscripts of operands and result (None if implicit) and the operands, for either calling form."""
    if isinstance(args[0], str):
        return *split_subscripts(args[0]), list(args[1:])
    count = len(args) // 2
    output = label_letters(args[-1]) if len(args) % 2 else None
    return [label_letters(args[2 * i + 1]) for i in range(count)], output, list(args[0 : 2 * count : 2])


def einsum_letters(args, lead):
    """Return subscripts without ellipses, and fresh letters for the `lead` leading axes of the cotangent."""
    inputs, output, operands = einsum_form(args)
    inputs, output, first = expand_ellipses(tuple(inputs), output, tuple(map(ndim_of, operands)), lead)
    return list(inputs), output, first, operands


@lru_cache(maxsize=1024)
def expand_ellipses(inputs, output, ndims, lead):
    """Expand ellipses in subscripts, given the number of axes of each operand, and pick letters for leading axes.

    An implicit result has the ellipsis first, then the letters that occur once, in alphabetical order.
    """
    if output is None:
        seen = "".join(inputs).replace(".", "")
        output = "..." * any("..." in s for s in inputs) + "".join(
            sorted(c for c in set(seen) if seen.count(c) == 1)
        )
    fresh = [c for c in _LETTERS if c not in "".join(inputs) + output]
    dots = [ndim - len(s.replace("...", "")) for s, ndim in zip(inputs, ndims, strict=True) if "..." in s]
    ellipsis = "".join(fresh[lead : lead + max(dots, default=0)])

    def spell(s, ndim):
        count = ndim - len(s.replace("...", ""))
        return s.replace("...", ellipsis[len(ellipsis) - count :])

    inputs = tuple(spell(s, ndim) for s, ndim in zip(inputs, ndims, strict=True))
    return inputs, output.replace("...", ellipsis), "".join(fresh[:lead])


#: Limits on direct sums, below which they are cheaper than the search for a contraction order: the elements of two
#: operands, and the terms of a sum of products of more.
MAX_DIRECT_SIZE, MAX_DIRECT_TERMS = 4096, 10_000
#: three operands with so few elements have fewer terms than that
FEW = 64


def is_direct(inputs, operands):
    """Return whether a sum of products is evaluated directly, term by term."""
    count = 0
    for x in operands:
        count += x.size if type(x) is np.ndarray else np.size(x)
    if len(operands) <= 2 or (len(operands) == 3 and count <= FEW):
        return count <= MAX_DIRECT_SIZE
    sizes: dict = {}
    for letters, x in zip(inputs, operands):
        sizes.update(zip(letters, shape_of(x)))
    return math.prod(sizes.values()) <= MAX_DIRECT_TERMS


#: NumPy's function without its dispatch
_plain_einsum = getattr(np.einsum, "__wrapped__", np.einsum)


def contracted(subscripts, inputs, operands):
    """Return ``numpy.einsum(subscripts, *operands)``; `inputs` are the subscripts of the operands."""
    for x in operands:
        if type(x) is not np.ndarray and type(x) is not np.float64:
            return np.einsum(subscripts, *operands, optimize=not is_direct(inputs, operands))
    return _plain_einsum(subscripts, *operands, optimize=not is_direct(inputs, operands))


def strong_einsum(inputs, output, operands):
    """Evaluate ``einsum`` with 0 * inf = 0; if NaN occurs, evaluate again with fully broadcast strong products."""
    y = contracted(",".join(inputs) + "->" + output, inputs, operands)
    if not np.isnan(np.add.reduce(y, axis=None)) or all(np.isfinite(x).all() for x in operands):
        return y
    letters = output + "".join(sorted(set("".join(inputs)) - set(output)))
    spread = [
        np.einsum(s + "->" + "".join(c for c in letters if c in s), x) for s, x in zip(inputs, operands)
    ]
    index = [tuple(slice(None) if c in s else None for c in letters) for s in inputs]
    product = reduce(strong, [x[i] for x, i in zip(spread, index, strict=True)])
    return np.sum(product, axis=tuple(range(len(output), len(letters))))


def einsum_place(i, args):
    """Return the operand number of argument i of the call."""
    return i - 1 if isinstance(args[0], str) else i // 2


def einsum_wrt(i, ybar, y, *args, optimize=False, dtype=None, order="K", casting="safe"):
    """Contract the cotangent in place of operand i with the other operands.

    A letter that only this operand has was summed alone: its axis is restored with length 1 and broadcasts.
    A letter that occurs twice in it selects a diagonal: the cotangent is placed on that diagonal.
    """
    lead = leading(ybar, y)
    if isinstance(args[0], str):
        form, operands, i = str(args[0]), args[1:], i - 1
    else:
        inputs, output, operands = einsum_form(args)
        form, i = (tuple(inputs), output), i // 2
    letters, kept, alone, own = contraction_without(form, tuple([ndim_of(x) for x in operands]), lead, i)
    z = strong_einsum(letters, kept, [ybar, *operands[:i], *operands[i + 1 :]])
    if alone:
        z = np.expand_dims(z, alone)
    return unbroadcast(z, operands[i], lead) if own is None else on_diagonals(z, own, operands[i], lead)


@lru_cache(maxsize=1024)
def contraction_without(form, ndims, lead, i):
    """Return how the cotangent is contracted with all operands but operand i.

    Parameters
    ----------
    form : str or tuple
        Subscripts, as one string or as those of the operands and the result.
    ndims : tuple of int
        Number of axes of each operand.
    lead : int
        Number of leading axes of the cotangent.

    Returns
    -------
    letters, kept : tuple of str, str
        Subscripts of the cotangent and of the other operands, and of the result.
    alone : tuple of int
        Axes of operand i that are missing in the result.
    own : str or None
        Subscripts of operand i if it has a letter twice.
    """
    inputs, output = split_subscripts(form) if type(form) is str else form
    inputs, output, first = expand_ellipses(tuple(inputs), output, ndims, lead)
    own, others = inputs[i], inputs[:i] + inputs[i + 1 :]
    known = set(output).union(*others)
    unique = "".join(dict.fromkeys(own))
    alone = tuple(len(first) + j for j, c in enumerate(unique) if c not in known)
    kept = first + "".join(c for c in unique if c in known)
    return (first + output, *others), kept, alone, own if unique != own else None


def on_diagonals(z, own, x, lead):
    """Expand `z`, with one axis per distinct letter, to nonzeros where the indices of equal letters agree."""
    repeats = tuple(j for j, c in enumerate(own) if c in own[:j])
    z = np.expand_dims(z, tuple(lead + j for j in repeats))
    for j in repeats:
        shape = [1] * len(own)
        shape[own.index(own[j])] = shape[j] = shape_of(x)[j]
        z = np.where(reshaped(np.eye(shape_of(x)[j], dtype=bool), shape), z, 0)
    return z


def push_einsum(i, t, y, *args, optimize=False, dtype=None, order="K", casting="safe"):
    """Replace operand i by its tangent, with the leading axes in front."""
    inputs, output, first, operands = einsum_letters(args, leading(t, args[i]))
    i = einsum_place(i, args)
    inputs[i], operands[i] = first + inputs[i], t
    return strong_einsum(inputs, first + output, operands)


structural(
    np.einsum,
    variadic=einsum_wrt,
    jvp=push_einsum,
    stacked=True,
    curvature="cross",
    dependence=Contraction(einsum_labels),
    scalars="einsum",
)

# ---- Kronecker and cross products


def kron_blocks(z, a, b, lead):
    """Reshape `z`, of the shape of ``kron(a, b)``, to matrices with rows for `a` and columns for `b`."""
    n = max(ndim_of(a), ndim_of(b))
    outer = (1,) * (n - ndim_of(a)) + shape_of(a)
    inner = (1,) * (n - ndim_of(b)) + shape_of(b)
    z = reshaped(z, lead + tuple(m for pair in zip(outer, inner, strict=True) for m in pair))
    k = len(lead)
    order = (*range(k), *range(k, k + 2 * n, 2), *range(k + 1, k + 2 * n, 2))
    return reshaped(np.transpose(z, order), (*lead, np.size(a), np.size(b)))


def kron_wrt_left(ybar, y, a, b):
    lead = shape_of(ybar)[: leading(ybar, y)]
    z = strong_matmul(kron_blocks(ybar, a, b, lead), raveled(b)[:, None])
    return reshaped(z, lead + shape_of(a))


def kron_wrt_right(ybar, y, a, b):
    lead = shape_of(ybar)[: leading(ybar, y)]
    z = strong_matmul(raveled(a)[None, :], kron_blocks(ybar, a, b, lead))
    return reshaped(z, lead + shape_of(b))


def kron_pattern(deps, a, b):
    """Pattern of ``kron``: elements of either factor where the other is nonzero or traced."""
    parts = []
    for x, y, order in ((a, b, 1), (b, a, -1)):
        if deps.depends(x):
            factor = np.ones(deps.ids(y).shape, bool) if deps.depends(y) else np.not_equal(deps.value(y), 0)
            parts.append(np.kron(*(deps.ids(x), factor.astype(np.int32))[::order]))
    if len(parts) == 2:
        deps.is_done = True
        deps.interact(*parts)
    return deps.united(parts)


structural(
    np.kron,
    kron_wrt_left,
    kron_wrt_right,
    stacked=True,
    curvature="cross",
    dependence=kron_pattern,
    expansion=expansions.kron,
    native="kron",
)


def strong_cross(u, v):
    """Return the cross product along the last axis, with 0 * inf = 0."""
    after, before = (1, 2, 0), (2, 0, 1)
    return np.stack(
        [
            strong(u[..., i], v[..., j]) - strong(u[..., j], v[..., i])
            for i, j in zip(after, before, strict=True)
        ],
        axis=-1,
    )


def cross_axes(axisa, axisb, axisc, axis):
    return (axisa, axisb, axisc) if axis is None else (axis, axis, axis)


def as_3d_vectors(v):
    """Extend 2-D vectors in the last axis by a zero third component."""
    return v if shape_of(v)[-1] == 3 else np.concatenate([v, np.zeros_like(v[..., :1])], axis=-1)


def cross_wrt(ybar, y, x, other, axes, sign):
    """d(a x b) paired with g: the cotangent of `a` is b x g, that of `b` is g x a."""
    axis_x, axis_other, axis_y = axes
    own, u = moved_axis(x, axis_x, -1), moved_axis(other, axis_other, -1)
    if shape_of(own)[-1] == shape_of(u)[-1] == 2:  # the result is the third component, without an axis
        g = np.stack([np.zeros_like(ybar), np.zeros_like(ybar), ybar], axis=-1)
    else:
        g = moved_axis(ybar, from_end(axis_y, ndim_of(y))[0], -1)
    u = as_3d_vectors(u)
    z = strong_cross(u, g) if sign > 0 else strong_cross(g, u)
    z = unbroadcast(z[..., : shape_of(own)[-1]], own, leading(ybar, y))
    return moved_axis(z, -1, from_end(axis_x, ndim_of(x))[0])


def cross_wrt_left(ybar, y, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    axisa, axisb, axisc = cross_axes(axisa, axisb, axisc, axis)
    return cross_wrt(ybar, y, a, b, (axisa, axisb, axisc), 1)


def cross_wrt_right(ybar, y, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    axisa, axisb, axisc = cross_axes(axisa, axisb, axisc, axis)
    return cross_wrt(ybar, y, b, a, (axisb, axisa, axisc), -1)


def cross_pattern(deps, a, b, axisa=-1, axisb=-1, axisc=-1, axis=None):
    """Pattern of a cross product: each component depends on the other two of both operands."""
    axisa, axisb, axisc = cross_axes(axisa, axisb, axisc, axis)
    a, b = moved_axis(deps.ids(a), axisa, -1), moved_axis(deps.ids(b), axisb, -1)
    is_plane = a.shape[-1] == b.shape[-1] == 2  # the result is the third component, without an axis
    pairs = ((0, 1),) if is_plane else ((1, 2), (2, 0), (0, 1))
    a, b = as_3d_vectors(a), as_3d_vectors(b)
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    a, b = [[np.broadcast_to(x[..., k], shape) for k in range(3)] for x in (a, b)]
    deps.is_done = True
    components = []
    for i, j in pairs:
        deps.interact(a[i], b[j])
        deps.interact(a[j], b[i])
        components.append((a[i], b[j], a[j], b[i]))
    if is_plane:
        return deps.united(components[0])
    return deps.united([moved_axis(np.stack(part, axis=-1), -1, axisc) for part in zip(*components)])


structural(
    np.cross,
    cross_wrt_left,
    cross_wrt_right,
    stacked=True,
    curvature="cross",
    dependence=cross_pattern,
    expansion=expansions.cross,
    scalars="cross",
)
structural(
    np.linalg.cross,
    lambda ybar, y, x1, x2, *, axis=-1: cross_wrt(ybar, y, x1, x2, (axis, axis, axis), 1),
    lambda ybar, y, x1, x2, *, axis=-1: cross_wrt(ybar, y, x2, x1, (axis, axis, axis), -1),
    stacked=True,
    curvature="cross",
    dependence=lambda deps, x1, x2, *, axis=-1: cross_pattern(deps, x1, x2, axis=axis),
    expansion=expansions.cross,
    scalars="cross",
)
