"""Propagates accumulated partials through calls.

The dependence pattern of a function states which elements of an operand each element of the result reads: on some axes
those with its own index, and all along the others, the free axes (`wengert.program.ir.access`).
So the partials are a few arrays: in the shape of the result, one for each index on the free axes; or in the shape of
the operand, one for each index on the result's axes that no operand axis is aligned with.
For a product they are views of its other factors; for any other function the rule of the call computes them, as
tangents or cotangents for seeds of ones and zeros.
A constant matrix contributes one term for each of its nonzeros.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dispatch import matrices
from wengert.dependence import Scattered
from wengert.program.ir import access, call_rules
from wengert.program.ir.access import FREE
from wengert.program.ir.call import Call, Operand, static
from wengert.program.ir.call_rules import places as places_of
from wengert.program.ir.identity import Same
from wengert.program.ir.ir import c_strides, kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import of_type
from wengert.program.jacobian.expand_calls import in_type
from wengert.program.jacobian.term import Refused, Term
from wengert.program.passes import simplify
from wengert.program.passes.loop import is_loop
from wengert.program.tracing.trace import listed

_FLOAT = np.dtype(float)
#: partials of a call in one operand, if they are computed, and if they are views of one array
_MAX_COMPUTED, _MAX_VIEWS = 9, 32
#: more views than that are used if partials times terms of the operand do not exceed this
_MAX_PRODUCTS = 96
#: elements of a constant matrix without zeros, each of which adds a coefficient
_MAX_DENSE_CONSTANT = 10_000
#: share of nonzeros from which on a matrix counts as one without zeros
_MIN_FULL_SHARE = 0.25


def call(p: Any, i: int, a: int, b: int, c: int) -> list[Term]:
    """Return the terms of the result of a call."""
    call = p.code.calls[a]
    live = [j for j, v in enumerate(call.operands) if p.terms.get(v)]
    if not live or (call.row is not None and call.row.kind == "constant"):
        return []
    _require_local(call)
    rule = _special_rule(call) or (_rearranged if access.moves(call) else _by_dependence)
    return [t for j in live for t in rule(p, i, call, j)]


def _require_local(call):
    if call.row is None or is_loop(call) or access.heeds_memory(call):
        raise Refused(call.name)


def require_rule(p: Any, i: int, call: Call, depends: list) -> None:
    """Refuse a call that depends on the input through an operand whose partials are unknown or too many."""
    if call.row is not None and call.row.kind == "constant":
        return
    _require_local(call)
    if _special_rule(call) is not None or access.moves(call):
        return
    has_partials = _may_have_partials if access.is_product(call) else _has_axes
    if not all(has_partials(p, i, call, j) for j, v in enumerate(call.operands) if depends[v]):
        raise Refused(call.row.name)


def _has_axes(p, i, call, j):
    return _axes_of(p, i, call, j) is not None


def _may_have_partials(p, i, call, j):
    """Return whether a product may have few enough partials in a factor; False only if any term of it is refused."""
    found = _factors(p, call)
    if found is None or not all(f.value is not None or f.operand == j or _is_full(f.constant) for f in found[0]):
        return True  # a constant matrix may be sparse
    factors, out = found
    names = next((f.names for f in factors if f.operand == j), None)
    if names is None:
        return True
    own, shape = p.type(call.operands[j])[1], p.type(i)[1]
    axes = _mark_broadcast(tuple(out.index(x) if x in out else FREE for x in names), own, shape)
    forward, backward = _counts(own, shape, axes)
    return forward <= _MAX_PRODUCTS or backward <= _MAX_COMPUTED


def _is_full(constant):
    """Return whether a constant matrix is large, and has no sparsity of which coordinate form takes advantage."""
    if matrices.is_sparse(constant) or constant.size <= _MAX_DENSE_CONSTANT:
        return False
    return np.count_nonzero(constant) > _MIN_FULL_SHARE * constant.size


class _CallPartials(NamedTuple):
    """Partials of a call in one operand.

    `axes` gives the aligned result axis, or FREE, for each axis of the operand.
    `forward` yields (index, partial) for each index on the free axes, in the shape of the result; `backward` for each
    index on the unaligned axes of the result, in the shape of the operand.
    One of them may be None: unavailable or too expensive.
    """

    axes: tuple
    forward: Any
    backward: Any


def _by_dependence(p, i, call, j):
    """Return the terms by a function's dependence pattern."""
    v = call.operands[j]
    own, shape = p.type(v)[1], p.type(i)[1]
    found, are_values = _factors(p, call), True
    if found is not None:
        factors, out = found
        k = [factor.operand for factor in factors].index(j)
        others = factors[:k] + factors[k + 1 :]
        matrix = _constant_matrix(p, i, factors[k], others, out)
        if matrix is not None:
            return _times_matrix(p, i, v, *matrix)
        axes = _mark_broadcast(tuple(out.index(x) if x in out else FREE for x in factors[k].names), own, shape)
        partials = _of_product(p, i, axes, factors[k], others, out) or _by_rule(p, i, call, j, axes)
        are_values = any(other.value is not None for other in others)
    else:
        axes = _axes_of(p, i, call, j)
        partials = None if axes is None else _by_rule(p, i, call, j, axes)
    if partials is None:
        raise Refused(call.name)
    if partials.forward is not None:
        count = sum(t.rows is None and _is_product(p, t.coef, are_values) for t in p.terms[v])
        p.check_operations(count * math.prod([own[d] for d in _free_axes(axes)]) * math.prod(shape))
    return [t for term in p.terms[v] for t in _by_partials(p, i, v, term, partials)]


def _axes_of(p, i, call, j):
    """Return the result axes aligned with those of an operand; None if unknown or too many are free."""
    own, shape = p.type(call.operands[j])[1], p.type(i)[1]
    position, item = call_rules.place_in(call.args, j)
    axes = access.axes(call, position, own, shape) if item < 0 else None
    axes = None if axes is None else _mark_broadcast(axes, own, shape)
    return axes if axes is not None and min(_counts(own, shape, axes)) <= _MAX_COMPUTED else None


def _counts(own, shape, axes):
    """Return the number of indices on the free axes of an operand, and on the unaligned axes of the result."""
    return math.prod([own[d] for d in _free_axes(axes)]), math.prod([shape[r] for r in _unaligned(axes, shape)])


def _is_product(p, coef, by_value):
    """Return whether multiplying a coefficient takes an instruction."""
    return p.is_value(coef) or (by_value and not (isinstance(coef, float) and coef == 1.0))


def _by_partials(p, i, v, t, partials):
    if partials.forward is not None and t.rows is None:
        return _aligned_forward(p, i, v, t, partials)
    if partials.backward is not None:
        return _coordinate_backward(p, i, v, t, partials)
    if partials.forward is not None:
        return _coordinate_forward(p, i, v, t, partials)
    raise Refused("too many partials")


def _mark_broadcast(axes, own, shape):
    """Mark broadcast axes (length 1) as free."""
    return tuple(FREE if r != FREE and own[d] == 1 != shape[r] else r for d, r in enumerate(axes))


def _indices(shape, axes):
    return itertools.product(*[range(shape[d]) for d in axes])


def _free_axes(axes):
    return [d for d, r in enumerate(axes) if r == FREE]


def _unaligned(axes, shape):
    return [r for r in range(len(shape)) if r not in axes]


# ---------------------------------------------------------------------------------------------- terms by partials


def _operand_view(p, v, axes, index, shape):
    """Return the view of an operand at an index on its free axes, in the shape of the result."""
    low, own, strides = p.whole(p.type(v))
    steps = [0] * len(shape)
    for d, r in enumerate(axes):
        if r != FREE and own[d] > 1:
            steps[r] = strides[d]
    return low + sum(k * strides[d] for d, k in zip(_free_axes(axes), index)), shape, tuple(steps)


def _aligned_forward(p, i, v, t, partials):
    """Return aligned terms of the result, one for each index on the free axes."""
    shape, type = p.type(i)[1], p.type(i)
    found = []
    for index, slope in partials.forward():
        view = _operand_view(p, v, partials.axes, index, shape)
        places = places_of(view, _FLOAT)
        coef = t.coef
        if isinstance(coef, np.ndarray):
            coef = p.constant_by_offset(coef[places], i)
        elif p.is_array(coef):
            coef = p.part(coef, view)
        line = p.by_offset(i, t.cols[places])
        if not p.is_value(slope):
            line = np.where(slope == 0, np.int32(-1), line)
        coef = _in_layout(p, p.product(coef, slope, type), i)
        found.append(Term(coef, line, None, t.clean and p.is_clean(coef, line)))
    return found


def _coordinate_backward(p, i, v, t, partials):
    """Return coordinate-form terms of the result, one for each index on its unaligned axes."""
    t = p.in_coordinates(t, v)
    elements = _unravelled(p.element_indices(v)[t.rows], p.type(v)[1])
    found = []
    for index, slope in partials.backward():
        at = dict(zip(_unaligned(partials.axes, p.type(i)[1]), index))
        at.update({r: elements[d] for d, r in enumerate(partials.axes) if r != FREE})
        target = _places(p, i, at, t.cols.shape)
        coef = p.product(t.coef, p.selected(_in_layout(p, slope, v), t.rows), (_FLOAT, (t.cols.size,), None))
        found.append(_without_zeros(p, Term(coef, t.cols, target), slope, t.rows))
    return found


def _places(p, i, at, shape):
    """Return the offsets of elements of value i, given their index on each axis."""
    return np.broadcast_to(p.offsets(i)[tuple(at[r] for r in range(len(at)))], shape)


def _unravelled(numbers, shape):
    return np.unravel_index(numbers, shape) if shape else ()


def _coordinate_forward(p, i, v, t, partials):
    """Return coordinate-form terms of the result, from the partials in its shape."""
    own, shape, axes = p.type(v)[1], p.type(i)[1], partials.axes
    elements = _unravelled(p.element_indices(v)[t.rows], own)
    rest = _unaligned(axes, shape)
    others = list(_indices(shape, rest))
    found = []
    for index, slope in partials.forward():
        is_here = np.ones(t.cols.size, bool)
        for d, k in zip(_free_axes(axes), index):
            is_here &= elements[d] == k
        which = np.flatnonzero(is_here)
        p.coefficients_left -= which.size * len(others)
        if p.coefficients_left < 0:
            raise Refused("too many terms")
        for other in others if which.size else ():
            at = dict(zip(rest, other))
            at.update({r: elements[d][which] for d, r in enumerate(axes) if r != FREE})
            target = _places(p, i, at, which.shape)
            line = (_FLOAT, (which.size,), None)
            coef = p.product(p.selected(t.coef, which), p.selected(_in_layout(p, slope, i), target), line)
            found.append(_without_zeros(p, Term(coef, t.cols[which], target), slope, target))
    return [t for t in found if t.cols.size]


def _without_zeros(p, t, slope, places):
    """Drop the entries whose constant partial is 0."""
    if not isinstance(slope, np.ndarray) or np.all(is_some := slope[places] != 0):
        return t
    which = np.flatnonzero(is_some)
    return Term(p.selected(t.coef, which), t.cols[which], t.rows[which])


# ---------------------------------------------------------------------------------------------- partials by rules


def _by_rule(p, i, call, j, axes):
    own, shape = p.type(call.operands[j])[1], p.type(i)[1]
    free, rest = _free_axes(axes), _unaligned(axes, shape)
    forward, backward = _counts(own, shape, axes)
    if not forward or not backward:
        return _CallPartials(axes, lambda: [], None)
    if backward < forward:
        if backward > _MAX_COMPUTED:
            return None
        indices = list(_indices(shape, rest))
        found = _by_seeds(p, i, call, j, _seeds(shape, rest, indices), True)
        if backward == 1 and forward <= _MAX_COMPUTED:
            return _CallPartials(
                axes, lambda: _operand_views(p, i, call.operands[j], axes, found[0]), lambda: zip(indices, found)
            )
        return _CallPartials(axes, None, lambda: zip(indices, found))
    if forward > _MAX_COMPUTED:
        return None
    indices = list(_indices(own, free))
    found = _by_seeds(p, i, call, j, _seeds(own, free, indices), False)
    return _CallPartials(axes, lambda: zip(indices, found), None)


def _seeds(shape, axes, indices):
    """Yield arrays that are 1 at one index on some axes and 0 at the others."""
    for index in indices:
        seed = np.zeros(shape)
        at = dict(zip(axes, index))
        seed[tuple(at.get(d, slice(None)) for d in range(len(shape)))] = 1.0
        yield seed


def _operand_views(p, i, v, axes, slope):
    """Yield partials in the shape of the result, as views of a partial in the shape of the operand."""
    own, shape = p.type(v)[1], p.type(i)[1]
    slope = _in_layout(p, slope, v)
    for index in _indices(own, _free_axes(axes)):
        view = _operand_view(p, v, axes, index, shape)
        if isinstance(slope, np.ndarray):
            yield index, p.constant_by_offset(slope[places_of(view, _FLOAT)], i)
        else:
            yield index, p.part(slope, view) if p.is_array(slope) else slope


def _in_layout(p, coef, i):
    """Convert an array coefficient to the layout of value i; its elements do not share memory."""
    return p.in_layout(p.without_overlap(coef), i) if p.is_array(coef) else coef


def _by_seeds(p, i, call, j, seeds, is_backward):
    """Return tangents of a call for seeds of an operand, or cotangents of the operand, as coefficients."""
    seeds = [seed if seed.shape else np.float64(seed) for seed in seeds]
    values = [i, *call.operands]
    code = _derivatives(p, call, j, seeds, values, is_backward)
    of = np.full(len(code), -1, dtype=np.int32)
    for v in code.inputs:
        of[v] = in_type(p.code, values[int(code.a[v])], kind_of(code, v))
    p.code.take(code, np.setdiff1d(np.arange(len(code), dtype=np.int32), code.inputs).astype(np.int32), of)
    target = call.operands[j] if is_backward else i
    return [_as_coefficient(p, code, v, int(of[v]), target) for v in code.outputs]


def _derivatives(p, call, j, seeds, values, is_backward):
    """Trace these derivatives; cached by call and types unless the rule branches on values."""
    types = [kind_of(p.code, v) for v in values]
    alike = Same(call.row), Same(call.compute), static(call.args), static(call.kwargs)
    key = *alike, j, is_backward, *types, *[(np.shape(seed), seed.tobytes()) for seed in seeds]
    code = p.rules.get(key)
    if code is not None:
        return code

    def found(y, *operands):
        if is_backward:
            return [call_rules.pullback(call, [j], seed, y, *operands)[0] for seed in seeds]
        return [call_rules.pushforward(call, [j], [seed], y, operands) for seed in seeds]

    with np.errstate(all="ignore"):
        examples = [of_type(p.example_value(v), type) for v, type in zip(values, types)]
        code = simplify.folded(listed(found, examples, "a derivative"))
    if not (code.op == Op.GUARD).any():
        p.rules[key] = code
    return code


def _as_coefficient(p, code, v, w, i):
    """Return output v of an inlined program, value w here, as a coefficient; constants stay constants."""
    dtype, shape, _ = kind_of(code, v)
    if dtype != _FLOAT:
        raise Refused(f"values of dtype {dtype} are not supported")
    if code.op[v] == Op.CONST:
        return float(code.constants[code.a[v]])
    if code.op[v] == Op.ARRAY:
        found = code.arrays[code.a[v]]
        return p.constant_by_offset(found, i) if shape else float(found)
    return w


# ---------------------------------------------------------------------------------------------- products


class _Factor(NamedTuple):
    """A factor of a product: a value or a constant, with a label for each axis.

    `operand` is its position among the operands of the call.
    """

    operand: int | None
    value: int | None
    constant: Any
    names: list
    shape: tuple


def _factors(p, call):
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


def _of_product(p, i, axes, factor, others, out):
    """Return the partials in a factor as views of the others; None if another factor has a summed axis of its own."""
    _, v, _, names, own = factor
    shape = p.type(i)[1]
    if any({*other.names} - {*out} - {*names} or matrices.is_sparse(other.constant) for other in others):
        return None
    lengths = {name: n for other in others for name, n in zip(other.names, other.shape) if n > 1}
    if any(n == 1 != lengths.get(name, 1) and name not in out for name, n in zip(names, own)):
        return None  # a broadcast axis that is summed
    free, rest = _free_axes(axes), _unaligned(axes, shape)

    def forward():
        for index in _indices(own, free):
            at = {names[d]: k for d, k in zip(free, index) if names[d] not in out}
            yield index, _product_of(p, others, out, at, i)

    def backward():
        for index in _indices(shape, rest):
            yield index, _product_of(p, others, names, {out[r]: k for r, k in zip(rest, index)}, v)

    count = math.prod(own[d] for d in free)
    has_forward = count <= _MAX_VIEWS or count * len(p.terms[v]) <= _MAX_PRODUCTS
    has_backward = math.prod(shape[r] for r in rest) <= _MAX_COMPUTED
    if not (has_forward or has_backward):
        return None
    return _CallPartials(axes, forward if has_forward else None, backward if has_backward else None)


def _product_of(p, factors, targets, at, i):
    """Return the product of some factors, at an index on some axes, in the shape of value i, as a coefficient."""
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


def _by_slope(p, i, call, j):
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
    partials = _CallPartials((*lead, FREE, FREE), forward, None)
    return [t for term in p.terms[call.operands[j]] for t in _by_partials(p, i, call.operands[j], term, partials)]


def _constant_matrix(p, i, factor, others, out):
    """Return the constant matrix that an operand is multiplied by, if it is sparse or large, in coordinate form.

    Rows and columns are C-order indices in the result and in the operand. None if this form does not pay or apply.
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
            summed <= _MAX_COMPUTED
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


def _times_matrix(p, i, v, rows, columns, numbers):
    """Return the terms of a constant sparse matrix times value v."""
    from scipy.sparse import csc_array

    size = math.prod(p.type(i)[1]), math.prod(p.type(v)[1])
    matrix = csc_array((numbers, (rows, columns)), shape=size)
    matrix.eliminate_zeros()
    target, own = p.offsets(i).ravel(), p.element_indices(v)
    found = []
    for t in p.terms[v]:
        t = p.in_coordinates(t, v)
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


# ---------------------------------------------------------------------------------------------- sums and moves


def _summed(is_mean):
    """Return the rule of a sum or mean along axes."""

    def rule(p, i, call, j):
        if {*call.kwargs} - {"axis", "keepdims"} or len(call.args) > 2:
            return _by_dependence(p, i, call, j)
        default = 0 if np.add.reduce in (call.compute, call.row.fun) else None
        axes = call.args[1] if len(call.args) > 1 else call.kwargs.get("axis", default)
        found = _axis_sum(p, i, call.operands[j], axes)
        count = math.prod(p.type(call.operands[j])[1]) // max(1, math.prod(p.type(i)[1]))
        return [p.scaled(t, i, i, 1.0 / max(1, count)) for t in found] if is_mean else found

    return rule


def _axis_sum(p, i, v, axis):
    shape = p.type(v)[1]
    axes = range(len(shape)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not shape:
        return p.terms[v]
    axes = tuple(d % len(shape) for d in axes)
    kept = tuple(1 if d in axes else n for d, n in enumerate(shape))
    if not math.prod(kept):
        return []
    target = p.offsets(i).reshape(kept)
    if math.prod(shape) // math.prod(kept) > _MAX_COMPUTED or any(t.rows is not None for t in p.terms[v]):
        return p.summed(p.terms[v], v, i, np.broadcast_to(target, shape))
    found = []
    base, _, strides = p.whole(p.type(v))
    rest = [d for d in range(len(shape)) if d not in axes]
    for index in np.ndindex(*[shape[d] for d in axes]):
        offset = base + sum(k * strides[d] for k, d in zip(index, axes))
        view = offset, tuple(shape[d] for d in rest), tuple(strides[d] for d in rest)
        places = places_of(view, _FLOAT)
        for t in p.terms[v]:
            coef = t.coef
            if isinstance(coef, np.ndarray):
                coef = p.constant_by_offset(coef[places], i)
            if p.is_array(coef):
                coef = p.code.part(coef, view, _FLOAT)
                if p.is_array(coef) and p.type(coef) != p.type(i):
                    coef = _reshaped(p, coef, i)
            found.append(Term(coef, p.by_offset(i, t.cols[places]), None, t.clean))
    return found


def _reshaped(p, coef, i):
    """Reshape an array coefficient to the shape of value i."""
    type = p.type(coef)
    dense = (_FLOAT, type[1], None)
    if type != dense:
        coef = p.code.place(-1, p.whole(dense), coef, dense)
    shape = p.type(i)[1]
    return p.broadcast(p.code.part(coef, (0, shape, c_strides(shape, 8)), _FLOAT), i)


def _rearranged(p, i, call, j):
    """Return terms of a call whose result elements are elements of operands, or constants."""
    v = call.operands[j]

    def numbers(argument):
        own = p.type(call.operands[argument.position])[1] if type(argument) is Operand else np.shape(argument)
        if type(argument) is Operand and argument.position == j:
            return np.arange(1, math.prod(own) + 1).reshape(own)
        return np.zeros(own, np.int64)

    def known(argument):
        if type(argument) is not Operand:
            return None
        w = call.operands[argument.position]
        return p.code.arrays[p.table[1][w]] if p.table[0][w] == Op.ARRAY else None

    where = access.rearranged(call, numbers, known)
    shape = p.type(i)[1]
    if where is None or np.shape(where) != shape:
        raise Refused(call.name)
    return p.moved_elements(p.terms[v], v, i, np.asarray(where) - 1)


def _scatter_added(p, i, call, j):
    """Return terms of a scatter-add at constant indices, in the values or in the base array."""
    base, at, values = call.row.dependence
    v, (position, _) = call.operands[j], call_rules.place_in(call.args, j)
    if position == base:
        return [p.scaled(t, v, i, 1.0) for t in p.terms[v]]
    if position != values or access.holds(call.args[at]):
        raise Refused(call.name)
    offsets = p.offsets(i)[call.args[at]]
    if np.shape(offsets) != p.type(v)[1]:
        raise Refused(call.name)
    return p.summed(p.terms[v], v, i, offsets)


def _special_rule(call):
    """Return the special rule for a call; None if the general one applies."""
    if type(call.row.dependence) is Scattered:
        return _scatter_added
    if call.row.slope is not None:
        return _by_slope
    return {"sum": _summed(False), "mean": _summed(True)}.get(call.row.scalars)
