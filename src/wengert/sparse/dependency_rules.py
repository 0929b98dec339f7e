"""Propagates index sets through single calls according to the dependence patterns of the registry.

Input: a call, and the id of a column set for each element of each operand. Output: such ids for the result.

This module interprets the patterns of `wengert.dependence`. If a row states no pattern, every element of the result
depends on all operands: a pattern may be too large, never too small.
Interactions, the pairs of columns whose second derivative may be nonzero, follow from `Primitive.curvature`.

Reference: Walther (2008), Computing sparse Hessians with automatic differentiation. doi:10.1145/1322436.1322439
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from wengert import dependence
from wengert.program.ir import access
from wengert.program.ir.call import Operand

#: bit mask of the second partials of an elementwise function that may be nonzero: (a, a), (a, b), (b, b)
AA, AB, BB = 1, 2, 4
CURVATURE = {"none": 0, "cross": AB, "second": AB | BB, "full": AA | AB | BB}

#: maximum number of elements of a product before summation; beyond it, the factors interact as wholes, not by element
MAX_EXPANDED = 20_000_000


def second_partials(row, is_complex: bool = False) -> int:
    """Bit mask of the second partials of an elementwise row that may be nonzero.

    The curvature of a row is stated for real operands. It also holds for complex ones if the function is analytic or
    real-linear.
    """
    if is_complex and row.on_complex is not True and any(map(callable, row.partials)):
        return CURVATURE["full"]
    return CURVATURE[row.curvature]


class CallDependence:
    """A call with the column sets of its operands.

    Attributes
    ----------
    sets : Sets
        Storage of the column sets.
    call : Call
    row : Primitive
        Row of the called function.
    shape : tuple
        Shape of the result.
    operands : list of ndarray or None
        Set ids of the elements of each operand; None for an operand that does not depend on the inputs.
    shapes : list of tuple
        Shapes of the operands.
    values : list of ndarray or None
        Values of the operands that are constant, or known because the pattern is local.
    is_complex : bool
        Whether any operand or the result is complex.
    """

    def __init__(self, sets, call, shape, operands, shapes, values, is_complex):
        self.sets, self.call, self.row, self.shape = sets, call, call.row, shape
        self.operands, self.shapes, self.values, self.is_complex = operands, shapes, values, is_complex
        self.is_done = False  # whether the rule has recorded the interactions

    def ids(self, argument):
        """Set ids of the elements of an argument; for a constant 0, the empty set."""
        if type(argument) is Operand:
            found = self.operands[argument.position]
            return np.zeros(self.shapes[argument.position], np.int32) if found is None else found
        return np.zeros(np.shape(argument), np.int32)

    def value(self, argument):
        """Value of an argument if it is constant or known; otherwise None."""
        return self.values[argument.position] if type(argument) is Operand else argument

    def depends(self, argument) -> bool:
        return type(argument) is Operand and self.operands[argument.position] is not None

    def known(self, argument):
        """Like `value`, also for operands inside lists and tuples; None if any of them is unknown."""
        if type(argument) is Operand:
            return self.value(argument)
        if type(argument) in (list, tuple):
            found = [self.known(item) if access.holds(item) else item for item in argument]
            return (
                None if any(x is None and access.holds(y) for x, y in zip(found, argument)) else type(argument)(found)
            )
        return argument

    # ------------------------------------------------------------------------------------------ unions

    def united(self, parts):
        """Elementwise union of arrays that broadcast to the shape of the result."""
        parts = [np.broadcast_to(part, self.shape) for part in parts]
        rows = [np.ascontiguousarray(part, np.int32).reshape(-1) for part in parts]
        return self.sets.united(rows).reshape(self.shape) if rows else np.zeros(self.shape, np.int32)

    def along(self, ids, axes):
        """Unions along some axes, which are kept with length 1."""
        axes = tuple(sorted(axis % ids.ndim for axis in axes))
        if math.prod([ids.shape[axis] for axis in axes]) == 1:
            return ids
        rest = tuple(axis for axis in range(ids.ndim) if axis not in axes)
        rows = ids.transpose(rest + axes).reshape(math.prod([ids.shape[axis] for axis in rest]), -1)
        kept = tuple(1 if axis in axes else n for axis, n in enumerate(ids.shape))
        return self.grouped(rows).reshape(kept)

    def grouped(self, rows):
        """Union of each row of a matrix."""
        ends = np.arange(len(rows) + 1, dtype=np.int64) * rows.shape[1]
        return self.sets.groups(ends, np.ascontiguousarray(rows, np.int32).reshape(-1))

    def pairwise(self, a, b):
        """Elementwise union of two arrays of the same shape."""
        rows = [np.ascontiguousarray(part, np.int32).reshape(-1) for part in (a, b)]
        return self.sets.united(rows).reshape(np.shape(a))

    def by_offset(self, ids, offsets, size):
        return by_offset(self.sets, ids, offsets, size)

    def total(self, ids):
        """Union of all elements."""
        return self.sets.total([np.ascontiguousarray(ids, np.int32).reshape(-1)])

    def interact(self, a, b):
        """Record that corresponding elements of two arrays interact; does nothing for first derivatives."""
        if self.sets.second:
            self.sets.interact(*(np.ascontiguousarray(x, np.int32).reshape(-1) for x in (a, b)))


def by_offset(sets, ids, offsets, size):
    """For each offset below `size`, the union of the sets at that offset; column by column if `ids` is a matrix."""
    order = np.argsort(offsets, kind="stable")
    ends = np.searchsorted(offsets[order], np.arange(size + 1)).astype(np.int64)
    if ids.ndim == 1:
        return sets.groups(ends, np.ascontiguousarray(ids[order], np.int32))
    columns = [sets.groups(ends, np.ascontiguousarray(column[order], np.int32)) for column in ids.T]
    return np.stack(columns, axis=-1) if columns else np.zeros((size, 0), np.int32)


def sets_of_call(deps: CallDependence):
    """Set ids of the result of a call; for second derivatives also records its interactions."""
    row = deps.row
    try:
        found = _by_pattern_of_row(deps)
    except (IndexError, TypeError, ValueError):  # the rule does not handle this form of the arguments
        found, deps.is_done = None, False
    if found is None or np.size(found) != math.prod(deps.shape):
        found = fully_dependent(deps)
    found = np.asarray(found, dtype=np.int32).reshape(deps.shape)
    if not deps.is_done and deps.sets.second:
        if row.curvature == "cross":
            wholes = [np.array([deps.total(ids)]) for ids in deps.operands if ids is not None]
            for a, b in itertools.combinations(wholes, 2):
                deps.interact(a, b)
        elif row.curvature != "none":
            deps.interact(found, found)
    return found


def _by_pattern_of_row(deps):
    """Return set ids by the pattern of the row; None if there is no pattern or it does not apply."""
    if deps.row.kind == "custom":
        return _custom(deps)
    pattern = deps.row.dependence
    rule = RULES.get(pattern if type(pattern) is str else type(pattern))
    if rule is not None:
        return rule(deps)
    return None if pattern is None else pattern(deps, *deps.call.args, **deps.call.kwargs)


def fully_dependent(deps):
    """Every element of the result depends on all operands."""
    whole = deps.sets.total([np.ascontiguousarray(ids).reshape(-1) for ids in deps.operands if ids is not None])
    return np.full(deps.shape, whole, np.int32)


# ---------------------------------------------------------------------------------------------- element by element


def elementwise(deps):
    """Propagate element by element; all elements of an argument beyond the first `operands` enter every element."""
    if deps.row.kind == "elementwise":
        return _by_partials(deps)
    count, args = deps.row.dependence.operands, deps.call.args
    count = len(args) if count is None else count
    tables = [np.int32(deps.total(deps.ids(x))) for x in args[count:] if deps.depends(x)]
    return deps.united([*(deps.ids(x) for x in args[:count] if deps.depends(x)), *tables])


def _by_partials(deps):
    """Propagate element by element through operands with a nonzero partial."""
    if {*deps.call.kwargs} & {"where", "out"}:
        return None
    args = deps.call.args
    if deps.row.selects is not None:
        return _selected(deps, args)
    moving = [
        x
        for x, partial in zip(args, deps.row.partials)
        if deps.depends(x) and partial is not None and not (isinstance(partial, float) and partial == 0)
    ]
    parts = [deps.ids(x) for x in moving]
    if deps.row.curvature == "cross" and len(moving) == 1:
        factor = deps.value(args[1] if moving[0] is args[0] else args[0])
        parts = parts if factor is None else [np.where(factor, parts[0], 0)]  # a product with 0 is constant
    found = deps.united(parts)
    if deps.sets.second:
        _record_interactions(deps, found)
    return found


def _record_interactions(deps, found):
    """Record the interactions of an elementwise function."""
    deps.is_done = True
    bits = second_partials(deps.row, deps.is_complex)
    if len(deps.call.args) > 2:
        if bits:
            deps.interact(found, found)
        return
    parts = [np.broadcast_to(deps.ids(x), deps.shape) for x in deps.call.args]
    if bits & AA:
        deps.interact(parts[0], parts[0])
    if len(parts) > 1 and bits & AB:
        deps.interact(*parts)
    if len(parts) > 1 and bits & BB:
        deps.interact(parts[1], parts[1])


def _selected(deps, args):
    """Propagate through a select between the last two operands: only the selected one, if the mask is known."""
    chooses = deps.row.partials[0] is None
    values = [deps.value(x) for x in (args[:1] if chooses else args)]
    parts = [deps.ids(x) for x in args[-2:]]
    if all(value is not None for value in values):
        parts = [np.where(mask, part, 0) for mask, part in zip(deps.row.selects(*values), parts)]
    return deps.united(parts)


def _custom(deps):
    """Propagate through a custom primitive: element by element, or by a matrix pattern for each argument."""
    given = deps.row.sparsity
    args = [x for x in deps.call.args if deps.depends(x)]
    if isinstance(given, str):
        return deps.united([deps.ids(x) for x in args])
    if given is None:
        return None
    patterns = given if isinstance(given, tuple) else (given,)
    parts = []
    for position, x in enumerate(deps.call.args):
        if deps.depends(x):
            if position >= len(patterns):
                return None
            parts.append(_by_pattern(deps, patterns[position], deps.ids(x)))
    return None if any(part is None for part in parts) else deps.united(parts)


def _by_pattern(deps, pattern, ids):
    if not hasattr(pattern, "tocoo"):
        pattern = np.atleast_2d(np.asarray(pattern))
    if pattern.shape != (math.prod(deps.shape), ids.size):
        return None
    rows, columns = _entries(pattern)
    return deps.by_offset(np.ravel(ids)[columns], rows, pattern.shape[0]).reshape(deps.shape)


def _entries(pattern):
    """Rows and columns of the entries of a pattern, including stored zeros of a sparse one."""
    if hasattr(pattern, "tocoo"):
        coo = pattern.tocoo()
        return coo.row, coo.col
    return np.nonzero(pattern)


# ---------------------------------------------------------------------------------------------- moves


def moved(deps):
    return access.rearranged(deps.call, deps.ids, deps.known)


# ---------------------------------------------------------------------------------------------- along axes


def reduced(deps):
    """Each element depends on all elements along the reduced axes; only the first argument may depend on the inputs."""
    if any(map(deps.depends, deps.call.args[1:])):
        return None
    ids = deps.ids(deps.call.args[0])
    return deps.along(ids, access.reduced_axes(deps.call, ids.ndim)) if ids.ndim else ids


def along(deps):
    """Each element depends on all elements along an axis that the result keeps."""
    if any(map(deps.depends, deps.call.args[1:])):
        return None
    ids = deps.ids(deps.call.args[0])
    axes = access.reduced_axes(deps.call, ids.ndim)
    if len(axes) == ids.ndim:
        return np.full(deps.shape, deps.total(ids), np.int32)
    if len(deps.shape) != ids.ndim:
        return None
    return np.broadcast_to(deps.along(ids, axes), deps.shape)


def cumulative(deps):
    """Cumulative unions along an axis."""
    ids = deps.ids(deps.call.args[0])
    position, default = deps.row.dependence
    axis = access.argument(deps.call, position, "axis", default)
    if axis is None:
        ids, axis = ids.reshape(-1), 0
    rows = np.moveaxis(ids, axis, -1)
    found = deps.sets.running(np.ascontiguousarray(rows.reshape(-1, rows.shape[-1])))
    found = np.moveaxis(found.reshape(rows.shape), -1, axis)
    if deps.call.kwargs.get("include_initial"):
        found = np.concatenate([np.zeros_like(np.take(found, [0], axis=axis)), found], axis=axis)
    return found


def matrixwise(deps):
    """Each element depends on the whole matrix, in the last two axes, with the same leading index."""
    ids = deps.ids(deps.call.args[0])
    if any(map(deps.depends, deps.call.args[1:])) or deps.shape[: ids.ndim - 2] != ids.shape[:-2]:
        return None
    whole = deps.along(ids, (-2, -1))[..., 0, 0]
    return np.broadcast_to(whole.reshape(whole.shape + (1,) * (len(deps.shape) - whole.ndim)), deps.shape)


def solved(deps):
    """Each solution depends on its whole matrix and on its column of the right-hand side."""
    a, b = map(deps.ids, deps.call.args[:2])
    is_vector = b.ndim == 1 or deps.shape != np.broadcast_shapes(a.shape[:-2] + (1, 1), b.shape[-b.ndim :])
    if is_vector and b.ndim != 1:
        return None
    matrix = deps.along(a, (-2, -1))
    if is_vector:
        return deps.united([matrix[..., 0], deps.along(b, (-1,))])
    return deps.united([matrix, deps.along(b, (-2,))])


# ---------------------------------------------------------------------------------------------- scattered


def scattered(deps):
    """Each element depends on the element of the base and on the values added to it."""
    base, at, values = deps.row.dependence
    indices = deps.known(deps.call.args[at])
    if indices is None:
        return None
    size = math.prod(deps.shape)
    offsets = np.arange(size).reshape(deps.shape)[indices]
    ids = np.ravel(np.broadcast_to(deps.ids(deps.call.args[values]), np.shape(offsets)))
    offsets = np.ravel(offsets)
    if base is not None:
        own = np.ravel(deps.ids(deps.call.args[base]))
        ids, offsets = np.concatenate([own, ids]), np.concatenate([np.arange(size), offsets])
    return deps.by_offset(ids, offsets, size)


# ---------------------------------------------------------------------------------------------- products


def product(deps):
    found = access.factors(deps.call, lambda x: x.ndim if hasattr(x, "tocoo") else np.ndim(deps.ids(x)))
    if found is None:
        return None
    args, labels, out = found
    if hasattr(args[0], "tocoo"):
        return _sparse_product(deps, *args)
    return contracted(deps, args, labels, out)


def _sparse_product(deps, matrix, x):
    """A constant sparse matrix times a vector or matrix."""
    rows, columns = _entries(matrix)
    return deps.by_offset(deps.ids(x)[columns], rows, matrix.shape[0])


def contracted(deps, args, labels, out):
    """Product of operands with labelled axes, summed over the labels absent from `out`, as in ``einsum``."""
    shapes, factors = {}, []
    for x, names in zip(args, labels):
        ids, value = deps.ids(x), None if deps.depends(x) else deps.value(x)
        is_flat = len(names) != ids.ndim
        ids, value = (np.ravel(ids), None if value is None else np.ravel(value)) if is_flat else (ids, value)
        for name, n in zip(names, ids.shape):
            shapes[name] = n if shapes.get(name, 1) == 1 else shapes[name]
        factors.append((ids, value, names, deps.depends(x)))
    factors = [_distinct_labels(*factor, shapes) for factor in factors]
    moving = [k for k, factor in enumerate(factors) if factor[3]]
    parts = []
    for k in moving:
        ids, _, names, _ = factors[k]
        found = None
        if len(factors) == 2 and factors[1 - k][1] is not None:
            found = _without_zero_terms(deps, ids, names, *factors[1 - k][1:3], out, shapes)
        parts.append(_spread_over(deps, ids, names, out, shapes) if found is None else found)
    if deps.sets.second and deps.row.curvature == "cross":
        deps.is_done = True
        for k, m in itertools.combinations(moving, 2):
            _cross(deps, factors[k], factors[m], shapes)
    whole = tuple(shapes[name] for name in out)
    return deps.united([np.reshape(np.broadcast_to(part, whole), deps.shape) for part in parts])


def _distinct_labels(ids, value, names, depends, shapes):
    """Reduce a factor to distinct labels: take the diagonal of repeated ones, and drop broadcast axes of length 1."""
    index = tuple(0 if n == 1 != shapes[name] else slice(None) for name, n in zip(names, ids.shape))
    kept = [name for name, part in zip(names, index) if part != 0]
    ids, value = ids[index], None if value is None else np.asarray(value)[index]
    unique = list(dict.fromkeys(kept))
    if len(unique) < len(kept):
        axes_by_name = {name: k for k, name in enumerate(unique)}
        way = [axes_by_name[name] for name in kept], list(range(len(unique)))
        ids, value = np.einsum(ids, *way), None if value is None else np.einsum(value, *way)
    return ids, value, unique, depends


def _spread_over(deps, ids, names, out, shapes):
    """Unions over the summed labels, with one axis for each label of the result."""
    summed = [axis for axis, name in enumerate(names) if name not in out]
    if summed:
        ids = deps.along(ids, summed)
        ids = ids[tuple(0 if axis in summed else slice(None) for axis in range(ids.ndim))]
        names = [name for name in names if name in out]
    order = [names.index(name) for name in out if name in names]
    return np.transpose(ids, order).reshape([shapes[name] if name in names else 1 for name in out])


def _without_zero_terms(deps, ids, names, value, others, out, shapes):
    """Like `_spread_over`, without elements multiplied by a zero of the constant factor; None if it has no zeros."""
    if np.all(value):
        return None
    if np.ndim(value) == 0:
        return _spread_over(deps, np.zeros_like(ids), names, out, shapes)
    where = np.nonzero(value)
    early = [name for name in names if name not in out and name not in others]
    kept = [name for name in names if name not in early]
    extra = [name for name in kept if name not in others]
    ids = _spread_over(deps, ids, names, kept, shapes)
    at = dict(zip(others, where))
    ids = np.transpose(ids, [kept.index(name) for name in kept if name in others] + [kept.index(n) for n in extra])
    picked = ids[tuple(at[name] for name in kept if name in others)]
    if not any(name in others for name in kept):
        picked = np.broadcast_to(ids, (len(where[0]), *ids.shape))
    picked = picked.reshape(len(where[0]), -1)
    shared = [name for name in out if name in others]
    size = math.prod([shapes[name] for name in shared])
    places = np.zeros(len(where[0]), np.intp)
    for name in shared:
        places = places * shapes[name] + at[name]
    found = deps.by_offset(picked, places, size).reshape([shapes[name] for name in (*shared, *extra)])
    order = [(shared + extra).index(name) for name in out if name in shared or name in extra]
    return np.transpose(found, order).reshape([shapes[name] if name in shared or name in extra else 1 for name in out])


def _cross(deps, left, right, shapes):
    """Record the interactions of two factors over all labels of either."""
    names = list(dict.fromkeys([*left[2], *right[2]]))
    whole = [shapes[name] for name in names]
    if math.prod(whole) > MAX_EXPANDED:
        deps.interact(*[np.array([deps.total(factor[0])]) for factor in (left, right)])
        return
    deps.interact(
        *[np.broadcast_to(_spread_over(deps, factor[0], factor[2], names, shapes), whole) for factor in (left, right)]
    )


#: propagation rules by dependence pattern
RULES = {
    dependence.Elementwise: elementwise,
    dependence.Moved: moved,
    dependence.Reduced: reduced,
    dependence.Along: along,
    dependence.Cumulative: cumulative,
    dependence.Contraction: product,
    dependence.Scattered: scattered,
    dependence.MATRIXWISE: matrixwise,
    dependence.SYSTEMS: solved,
}
