"""Partials of products with respect to one factor: views of the other factors, or nonzeros of a constant matrix."""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dispatch import matrices
from wengert.program.ir import access
from wengert.program.ir.access import FREE
from wengert.program.ir.call import Operand
from wengert.program.jacobian.partial_terms import (
    CallPartials,
    free_axes,
    indices_on,
    mark_broadcast,
    partial_counts,
    terms_by_partials,
    unaligned_axes,
)
from wengert.program.jacobian.term import Refused, Term

_FLOAT = np.dtype(float)
#: limit on the partials of a call in one operand: if they are computed, and if they are views of one array
MAX_COMPUTED, _MAX_VIEWS = 9, 32
#: `_MAX_VIEWS` may be exceeded if the partials times the terms of the operand are at most this many
_MAX_PRODUCTS = 96
#: limit on the elements of a constant matrix with few zeros, each of which adds a coefficient
_MAX_DENSE_CONSTANT = 10_000
#: a matrix with a larger share of nonzeros than this does not count as sparse
_MIN_FULL_SHARE = 0.25


class _Factor(NamedTuple):
    """A factor of a product: a value or a constant, with a label for each axis.

    `operand` is its position among the operands of the call.
    """

    operand: int | None
    value: int | None
    constant: Any
    names: list
    shape: tuple


def factors_of(p, call):
    """Return the factors of a product and the labels of the result's axes; None if it is not a known product."""
    shapes = {x.position: p.type(call.operands[x.position])[1] for x in _operands_in(call.args)}

    def shape_of(x):
        return shapes[x.position] if type(x) is Operand else np.shape(x)

    args, labels, out = access.factors(call, lambda x: len(shape_of(x))) or ((), (), ())
    factors = []
    for x, names in zip(args, labels):
        operand, value, constant, shape = None, None, None, shape_of(x)
        if len(names) != len(shape) or len({*names}) < len(names):
            return None
        if type(x) is Operand:
            operand, value = x.position, call.operands[x.position]
            constant = p.constant(value)
        if constant is not None:
            value, constant = None, np.reshape(constant, shape)
        elif value is None:
            constant = x if matrices.is_sparse(x) else np.asarray(x)
            if constant.dtype.kind == "c":
                raise Refused("complex values are not supported")
        factors.append(_Factor(operand, value, constant, names, shape))
    return (factors, out) if factors else None


def _operands_in(argument):
    if type(argument) is Operand:
        yield argument
    elif type(argument) in (list, tuple):
        for item in argument:
            yield from _operands_in(item)


def partials_of_product(p, i, axes, factor, others, out):
    """Return the partials in a factor as views of the others; None if another factor has a summed axis of its own."""
    _, v, _, names, own = factor
    shape = p.type(i)[1]
    if any({*other.names} - {*out} - {*names} or matrices.is_sparse(other.constant) for other in others):
        return None
    lengths = {name: n for other in others for name, n in zip(other.names, other.shape) if n > 1}
    if any(n == 1 != lengths.get(name, 1) and name not in out for name, n in zip(names, own)):
        return None  # a broadcast axis that is summed
    free, rest = free_axes(axes), unaligned_axes(axes, shape)

    def forward():
        for index in indices_on(own, free):
            at = {names[d]: k for d, k in zip(free, index) if names[d] not in out}
            yield index, _product_of(p, others, out, at, i)

    def backward():
        for index in indices_on(shape, rest):
            yield index, _product_of(p, others, names, {out[r]: k for r, k in zip(rest, index)}, v)

    count = math.prod(own[d] for d in free)
    has_forward = count <= _MAX_VIEWS or count * len(p.terms[v]) <= _MAX_PRODUCTS
    has_backward = math.prod(shape[r] for r in rest) <= MAX_COMPUTED
    if not (has_forward or has_backward):
        return None
    return CallPartials(axes, forward if has_forward else None, backward if has_backward else None)


def _product_of(p, factors, targets, at, i):
    """Return the product of factors at the index `at` of some axes, as a coefficient in the shape of value i."""
    found, type = 1.0, p.type(i)
    for factor in factors:
        if factor.value is None:
            part = _part_of_constant(p, factor, targets, at, i)
        else:
            part = _part_of_value(p, factor, targets, at, type[1])
        found = p.product(found, part, type)
    return found


def _part_of_value(p, factor, targets, at, shape):
    v = p.without_overlap(factor.value)
    if p.is_scalar(v):
        return v
    low, own, strides = p.whole(p.type(v))
    steps = [0] * len(shape)
    for name, n, stride in zip(factor.names, own, strides):
        if n > 1 and name in at:
            low += at[name] * stride
        elif n > 1:
            steps[targets.index(name)] = stride
    return p.part(v, (low, shape, tuple(steps)))


def _part_of_constant(p, factor, targets, at, i):
    shape = p.type(i)[1]
    index = tuple(
        slice(None) if name not in at else at[name] if n > 1 else 0 for name, n in zip(factor.names, factor.shape)
    )
    part = factor.constant.astype(float)[index]
    left = [name for name in factor.names if name not in at]
    part = part.transpose([left.index(name) for name in targets if name in left])
    lengths = iter(part.shape)
    part = part.reshape([next(lengths) if name in left else 1 for name in targets])
    return p.constant_by_offset(np.broadcast_to(part, shape), i) if shape else float(part)


def terms_by_slope(p, i, call, j):
    """Return terms of a function of small matrices whose partials are products of result elements (`slope`)."""
    shape = p.type(i)[1]
    lead = [*range(len(shape) - 2)]
    sign, *names = re.fullmatch("(-?)(..),(..)", call.row.slope).groups()
    left, right = [_Factor(None, i, None, [*lead, *pair], shape) for pair in names]

    def forward():
        for index in itertools.product(range(shape[-1]), repeat=2):
            slope = _product_of(p, [left, right], [*lead, "i", "j"], dict(zip("kl", index)), i)
            yield index, p.negated(slope) if sign else slope

    if shape[-1] ** 2 > _MAX_VIEWS:
        raise Refused(call.name)
    partials = CallPartials((*lead, FREE, FREE), forward, None)
    return [t for term in p.terms[call.operands[j]] for t in terms_by_partials(p, i, call.operands[j], term, partials)]


def constant_matrix(p, i, factor, others, out):
    """Return, in coordinate form, the constant matrix that an operand is multiplied by, if it is sparse or large.

    Rows and columns are C-order indices in the result and in the operand. Returns None if this does not apply or pay.
    """
    *_, names, own = factor
    shape = p.type(i)[1]
    if len(others) != 1 or others[0].value is not None or {*others[0].names} - {*out} - {*names}:
        return None
    *_, constant, of, lengths = others[0]
    known = {**dict(zip(names, own)), **dict(zip(out, shape))}
    if any(known[name] != n for name, n in (*zip(of, lengths), *zip(names, own))):
        return None  # broadcast
    if matrices.is_sparse(constant):
        coo = constant.tocoo()
        where, numbers = (coo.row, coo.col), coo.data
    else:
        summed = math.prod(n for name, n in zip(names, own) if name not in out)
        is_full = np.count_nonzero(constant) > _MIN_FULL_SHARE * constant.size
        if (
            summed <= MAX_COMPUTED
            or (is_full and summed <= _MAX_VIEWS)
            or (is_full and constant.size > _MAX_DENSE_CONSTANT)
        ):
            return None
        where = np.nonzero(constant)
        numbers = constant[where]
    rest = [name for name in known if name not in of]
    sizes = [known[name] for name in rest]
    count = len(numbers), math.prod(sizes)
    if math.prod(count) > p.coefficients_left:
        raise Refused("too many terms")
    at = {name: part[:, None] for name, part in zip(of, where)}
    at.update(zip(rest, np.indices(sizes).reshape(len(sizes), 1, count[1])))

    def number(labels):
        found = np.zeros(count, np.int64)
        for name in labels:
            found = found * known[name] + at[name]
        return found.ravel()

    return number(out), number(names), np.repeat(np.asarray(numbers, float), count[1])


def times_matrix(p, i, v, rows, columns, numbers):
    """Return the terms of a constant sparse matrix times value v."""
    from scipy.sparse import csc_array

    size = math.prod(p.type(i)[1]), math.prod(p.type(v)[1])
    matrix = csc_array((numbers, (rows, columns)), shape=size)
    matrix.eliminate_zeros()
    target, own = p.offsets(i).ravel(), p.element_indices(v)
    found = []
    for t in p.terms[v]:
        t = p.in_coordinates(t)
        columns = own[t.rows]
        counts = np.diff(matrix.indptr)[columns]
        which = np.repeat(np.arange(t.cols.size), counts)
        p.coefficients_left -= which.size
        if p.coefficients_left < 0:
            raise Refused("too many terms")
        if not which.size:
            continue
        steps = np.arange(which.size) - np.repeat(np.cumsum(counts) - counts, counts)
        source = matrix.indptr[columns[which]] + steps
        coef = p.product(p.selected(t.coef, which), matrix.data[source], (_FLOAT, (which.size,), None))
        found.append(Term(coef, t.cols[which], target[matrix.indices[source]]))
    return found


def may_have_partials(p, i, call, j):
    """Return whether a product may have few enough partials in operand j; if False, all its terms would be refused."""
    found = factors_of(p, call)
    if found is None or not all(f.value is not None or f.operand == j or _is_full(f.constant) for f in found[0]):
        return True  # a constant matrix may be sparse
    factors, out = found
    names = next((f.names for f in factors if f.operand == j), None)
    if names is None:
        return True
    own, shape = p.type(call.operands[j])[1], p.type(i)[1]
    axes = mark_broadcast(tuple(out.index(x) if x in out else FREE for x in names), own, shape)
    forward, backward = partial_counts(own, shape, axes)
    return forward <= _MAX_PRODUCTS or backward <= MAX_COMPUTED


def _is_full(constant):
    """Return whether a constant matrix is large and has too many nonzeros for coordinate form to pay."""
    if matrices.is_sparse(constant) or constant.size <= _MAX_DENSE_CONSTANT:
        return False
    return np.count_nonzero(constant) > _MIN_FULL_SHARE * constant.size
