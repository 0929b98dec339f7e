"""Propagates accumulated partials through calls.

The dependence pattern of a function states which elements of an operand each element of the result reads: on aligned
axes only those at its own index, on free axes all of them (`wengert.program.ir.access`).
The partials are therefore a few arrays: one in the shape of the result for each index on the free axes, or one in the
shape of the operand for each index on the result's axes with which no operand axis is aligned.
For a product they are views of its other factors; for any other function the rule of the call computes them, as
tangents or cotangents for seeds of ones and zeros.
A constant matrix contributes one term for each of its nonzeros.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.dependence import Scattered
from wengert.program.ir import access, call_rules
from wengert.program.ir.access import FREE
from wengert.program.ir.call import Call, Operand, static
from wengert.program.ir.call_rules import places as places_of
from wengert.program.ir.identity import Same
from wengert.program.ir.ir import kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import of_type
from wengert.program.jacobian.partial_terms import (
    CallPartials,
    free_axes,
    in_layout,
    indices_on,
    mark_broadcast,
    operand_view,
    partial_counts,
    terms_by_partials,
    unaligned_axes,
)
from wengert.program.jacobian.product_partials import (
    MAX_COMPUTED,
    constant_matrix,
    factors_of,
    may_have_partials,
    partials_of_product,
    terms_by_slope,
    times_matrix,
)
from wengert.program.jacobian.term import Refused, Term
from wengert.program.passes import simplify
from wengert.program.passes.loop import is_loop
from wengert.program.tracing.trace import listed

_FLOAT = np.dtype(float)


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
    has_partials = may_have_partials if access.is_product(call) else lambda *given: _axes_of(*given) is not None
    if not all(has_partials(p, i, call, j) for j, v in enumerate(call.operands) if depends[v]):
        raise Refused(call.row.name)


def _by_dependence(p, i, call, j):
    """Return the terms of a call that follow from the function's dependence pattern."""
    v = call.operands[j]
    own, shape = p.type(v)[1], p.type(i)[1]
    found, are_values = factors_of(p, call), True
    if found is not None:
        factors, out = found
        k = [factor.operand for factor in factors].index(j)
        others = factors[:k] + factors[k + 1 :]
        matrix = constant_matrix(p, i, factors[k], others, out)
        if matrix is not None:
            return times_matrix(p, i, v, *matrix)
        axes = mark_broadcast(tuple(out.index(x) if x in out else FREE for x in factors[k].names), own, shape)
        partials = partials_of_product(p, i, axes, factors[k], others, out) or _by_rule(p, i, call, j, axes)
        are_values = any(other.value is not None for other in others)
    else:
        axes = _axes_of(p, i, call, j)
        partials = None if axes is None else _by_rule(p, i, call, j, axes)
    if partials is None:
        raise Refused(call.name)
    if partials.forward is not None:
        count = sum(t.rows is None and _is_product(p, t.coef, are_values) for t in p.terms[v])
        p.check_operations(count * math.prod([own[d] for d in free_axes(axes)]) * math.prod(shape))
    return [t for term in p.terms[v] for t in terms_by_partials(p, i, v, term, partials)]


def _axes_of(p, i, call, j):
    """Return the result axes aligned with those of an operand; None if unknown or too many are free."""
    own, shape = p.type(call.operands[j])[1], p.type(i)[1]
    position, item = call_rules.place_in(call.args, j)
    axes = access.axes(call, position, own, shape) if item < 0 else None
    axes = None if axes is None else mark_broadcast(axes, own, shape)
    return axes if axes is not None and min(partial_counts(own, shape, axes)) <= MAX_COMPUTED else None


def _is_product(p, coef, by_value):
    """Return whether multiplying a coefficient takes an instruction."""
    return p.is_value(coef) or (by_value and not (isinstance(coef, float) and coef == 1.0))


# ---------------------------------------------------------------------------------------------- partials by rules


def _by_rule(p, i, call, j, axes):
    own, shape = p.type(call.operands[j])[1], p.type(i)[1]
    free, rest = free_axes(axes), unaligned_axes(axes, shape)
    forward, backward = partial_counts(own, shape, axes)
    if not forward or not backward:
        return CallPartials(axes, lambda: [], None)
    if backward < forward:
        if backward > MAX_COMPUTED:
            return None
        indices = list(indices_on(shape, rest))
        found = _by_seeds(p, i, call, j, _seeds(shape, rest, indices), True)
        if backward == 1 and forward <= MAX_COMPUTED:
            return CallPartials(
                axes, lambda: _operand_views(p, i, call.operands[j], axes, found[0]), lambda: zip(indices, found)
            )
        return CallPartials(axes, None, lambda: zip(indices, found))
    if forward > MAX_COMPUTED:
        return None
    indices = list(indices_on(own, free))
    found = _by_seeds(p, i, call, j, _seeds(own, free, indices), False)
    return CallPartials(axes, lambda: zip(indices, found), None)


def _seeds(shape, axes, indices):
    """Yield, for each index on `axes`, an array that is 1 at this index and 0 elsewhere."""
    for index in indices:
        seed = np.zeros(shape)
        at = dict(zip(axes, index))
        seed[tuple(at.get(d, slice(None)) for d in range(len(shape)))] = 1.0
        yield seed


def _operand_views(p, i, v, axes, slope):
    """Yield partials in the shape of the result, as views of a partial in the shape of the operand."""
    own, shape = p.type(v)[1], p.type(i)[1]
    slope = in_layout(p, slope, v)
    for index in indices_on(own, free_axes(axes)):
        view = operand_view(p, v, axes, index, shape)
        if isinstance(slope, np.ndarray):
            yield index, p.constant_by_offset(slope[places_of(view, _FLOAT)], i)
        else:
            yield index, p.part(slope, view) if p.is_array(slope) else slope


def _by_seeds(p, i, call, j, seeds, is_backward):
    """Return coefficients: tangents of a call for seeds of operand j, or cotangents of j for seeds of the result."""
    seeds = [seed if seed.shape else np.float64(seed) for seed in seeds]
    values = [i, *call.operands]
    code = _derivatives(p, call, j, seeds, values, is_backward)
    found = p.code.inline(code, [p.code.in_layout(values[int(code.a[v])], kind_of(code, v)) for v in code.inputs])
    target = call.operands[j] if is_backward else i
    return [_as_coefficient(p, code, v, w, target) for v, w in zip(code.outputs, found)]


def _derivatives(p, call, j, seeds, values, is_backward):
    """Trace the derivatives of a call for these seeds; cached unless the rule branches on values."""
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
    """Return output v of `code`, inlined here as value w, as a coefficient; constants stay constants."""
    dtype, shape, _ = kind_of(code, v)
    if dtype != _FLOAT:
        raise Refused(f"values of dtype {dtype} are not supported")
    if code.op[v] == Op.CONST:
        return float(code.constants[code.a[v]])
    if code.op[v] == Op.ARRAY:
        found = code.arrays[code.a[v]]
        return p.constant_by_offset(found, i) if shape else float(found)
    return w


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
    if math.prod(shape) // math.prod(kept) > MAX_COMPUTED or any(t.rows is not None for t in p.terms[v]):
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
    coef = p.code.in_layout(coef, (_FLOAT, p.type(coef)[1], None))
    shape = p.type(i)[1]
    return p.broadcast(p.code.block(coef, 0, shape), i)


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
        return terms_by_slope
    return {"sum": _summed(False), "mean": _summed(True)}.get(call.row.scalars)
