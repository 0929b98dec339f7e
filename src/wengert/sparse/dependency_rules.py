"""Which elements of a result depend on which of each operand: one row for each function that a list calls.

A rule takes a `Site` and gives the sets of the result, element by element, as an array of their numbers; operands are
arrays of numbers of sets, too, so a function that moves elements is its own rule.
A function without a row here is taken to mix everything: each element of the result depends on all of all operands.
That is too large, never too small.

How a function bends is said by the registry (`curvature`): a linear one adds no interactions, one with "cross" those
between different operands, any other those of all that an element depends on.
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from wengert.core.dispatch import matrices
from wengert.program.ir import access, contractions
from wengert.program.ir.call import Operand
from wengert.rules.interpolation import part_of_convolution, part_of_correlation

#: which second partials of an elementwise function may be other than 0: in (a, a), in (a, b), in (b, b)
AA, AB, BB = 1, 2, 4
BENDS = {"none": 0, "cross": AB, "full": AA | AB | BB}

#: functions that are curved, but linear in their first operand
_LINEAR_IN_FIRST = {"numpy.divide", "scipy.special.xlogy", "scipy.special.xlog1py"}

#: those that stay what they are for complex operands; of the others, as of the absolute value, all may be curved
_ANALYTIC = {f"numpy.{name}" for name in "add subtract multiply divide negative positive conjugate where".split()}

#: elements of an expanded product of two operands up to which interactions are found one by one
_MAX_EXPANDED = 20_000_000


def bends(row, is_complex: bool = False) -> int:
    """Which second partials of an elementwise row may be other than 0."""
    if row.name in _LINEAR_IN_FIRST:
        return AB | BB
    if is_complex and row.name not in _ANALYTIC:
        return BENDS["full"]
    return BENDS[row.curvature]


class Site:
    """A call, and what its operands depend on.

    Attributes
    ----------
    sets : Sets
        Of columns, by number.
    call : Call
    row : Primitive
        Of what is called.
    shape : tuple
        Of the result.
    operands : list of ndarray or None
        Sets of the elements of each operand; None of one that depends on nothing.
    shapes : list of tuple
        Of the operands.
    values : list of ndarray or None
        Values of the operands at the point, where the pattern is that of a point and they matter; constants.
    is_complex : bool
    """

    def __init__(self, sets, call, shape, operands, shapes, values, is_complex):
        self.sets, self.call, self.row, self.shape = sets, call, call.row, shape
        self.operands, self.shapes, self.values, self.is_complex = operands, shapes, values, is_complex
        self.is_done = False  # have interactions been entered?

    def ids(self, argument):
        """Sets of an argument; constants have empty ones."""
        if type(argument) is Operand:
            found = self.operands[argument.position]
            return np.zeros(self.shapes[argument.position], np.int32) if found is None else found
        return np.zeros(np.shape(argument), np.int32)

    def value(self, argument):
        """The value of an argument that is constant, or known at the point; None: of others."""
        return self.values[argument.position] if type(argument) is Operand else argument

    def depends(self, argument) -> bool:
        return type(argument) is Operand and self.operands[argument.position] is not None

    def argument(self, position, name, default=None):
        """An argument by position or keyword."""
        if position < len(self.call.args):
            return self.call.args[position]
        return self.call.kwargs.get(name, default)

    # ------------------------------------------------------------------------------------------ unions

    def united(self, parts):
        """Element by element the union of arrays that broadcast to the result."""
        parts = [np.broadcast_to(part, self.shape) for part in parts]
        lines = [np.ascontiguousarray(part, np.int32).reshape(-1) for part in parts]
        return self.sets.united(lines).reshape(self.shape) if lines else np.zeros(self.shape, np.int32)

    def along(self, ids, axes):
        """Unions along some axes, which stay with one element."""
        axes = tuple(sorted(axis % ids.ndim for axis in axes))
        if math.prod([ids.shape[axis] for axis in axes]) == 1:
            return ids
        rest = tuple(axis for axis in range(ids.ndim) if axis not in axes)
        lines = ids.transpose(rest + axes).reshape(math.prod([ids.shape[axis] for axis in rest]), -1)
        kept = tuple(1 if axis in axes else n for axis, n in enumerate(ids.shape))
        return self.grouped(lines).reshape(kept)

    def grouped(self, lines):
        """The union of each row of a matrix."""
        ends = np.arange(len(lines) + 1, dtype=np.int64) * lines.shape[1]
        return self.sets.groups(ends, np.ascontiguousarray(lines, np.int32).reshape(-1))

    def by_place(self, ids, places, size):
        return by_place(self.sets, ids, places, size)

    def total(self, ids):
        """The union of all."""
        return self.sets.total([np.ascontiguousarray(ids, np.int32).reshape(-1)])

    def interact(self, a, b):
        """Elements of two arrays of one shape interact, where interactions are asked for."""
        if self.sets.second:
            self.sets.interact(*(np.ascontiguousarray(x, np.int32).reshape(-1) for x in (a, b)))


def by_place(sets, ids, places, size):
    """The unions of the sets that belong to each of so many places; of a matrix those of each column."""
    order = np.argsort(places, kind="stable")
    ends = np.searchsorted(places[order], np.arange(size + 1)).astype(np.int64)
    if ids.ndim == 1:
        return sets.groups(ends, np.ascontiguousarray(ids[order], np.int32))
    columns = [sets.groups(ends, np.ascontiguousarray(column[order], np.int32)) for column in ids.T]
    return np.stack(columns, axis=-1) if columns else np.zeros((size, 0), np.int32)


def of_call(site: Site):
    """Sets of the elements of the result of a call, whose interactions are entered."""
    row = site.row
    rule = _BY_KIND.get(row.kind) or RULES.get(row.name)
    try:
        found = rule(site) if rule is not None else None
    except (IndexError, TypeError, ValueError):  # arguments in a form that the rule does not know
        found, site.is_done = None, False
    if found is None or np.size(found) != math.prod(site.shape):
        found = mixed(site)
    found = np.asarray(found, dtype=np.int32).reshape(site.shape)
    if not site.is_done and site.sets.second:
        if row.curvature == "cross":
            wholes = [np.array([site.total(ids)]) for ids in site.operands if ids is not None]
            for a, b in itertools.combinations(wholes, 2):
                site.interact(a, b)
        elif row.curvature != "none":
            site.interact(found, found)
    return found


def mixed(site):
    """Everything depends on everything."""
    whole = site.sets.total([np.ascontiguousarray(ids).reshape(-1) for ids in site.operands if ids is not None])
    return np.full(site.shape, whole, np.int32)


# ---------------------------------------------------------------------------------------------- element by element


def elementwise(site):
    """Of rows with partials: each element of its own of each operand that has one."""
    if {*site.call.kwargs} & {"where", "out"}:
        return None
    args = site.call.args
    if site.row.name in _CHOICES:
        return _chosen(site, args)
    moving = [
        x
        for x, partial in zip(args, site.row.partials)
        if site.depends(x) and partial is not None and not (isinstance(partial, float) and partial == 0)
    ]
    parts = [site.ids(x) for x in moving]
    if site.row.name == "numpy.multiply" and len(moving) == 1:
        factor = site.value(args[1] if moving[0] is args[0] else args[0])
        parts = parts if factor is None else [np.where(factor, parts[0], 0)]  # nothing depends on what 0 multiplies
    found = site.united(parts)
    if site.sets.second:
        _bend(site, found)
    return found


def _bend(site, found):
    site.is_done = True
    bits = bends(site.row, site.is_complex)
    if len(site.call.args) > 2:
        if bits:
            site.interact(found, found)
        return
    parts = [np.broadcast_to(site.ids(x), site.shape) for x in site.call.args]
    if bits & AA:
        site.interact(parts[0], parts[0])
    if len(parts) > 1 and bits & AB:
        site.interact(*parts)
    if len(parts) > 1 and bits & BB:
        site.interact(parts[1], parts[1])


def taken(name: str, values):
    """Which operands an elementwise choice takes at given values, as masks; both of a tie, and of what is no number."""
    if name == "where":
        mask = np.asarray(values[0], dtype=bool)
        return mask, ~mask
    a, b = values if name in ("maximum", "fmax") else values[::-1]
    with np.errstate(invalid="ignore"):
        return ~np.less(a, b), ~np.greater(a, b)


_CHOICES = {"numpy.where", "numpy.maximum", "numpy.minimum", "numpy.fmax", "numpy.fmin"}


def _chosen(site, args):
    name = site.row.name.rpartition(".")[2]
    values = [site.value(x) for x in (args[:1] if name == "where" else args)]
    parts = [site.ids(x) for x in args[-2:]]
    if all(value is not None for value in values):
        parts = [np.where(mask, part, 0) for mask, part in zip(taken(name, values), parts)]
    return site.united(parts)


def _clip(site):
    args = [*site.call.args, *[site.call.kwargs.get(name) for name in ("a_min", "a_max", "min", "max")]]
    return site.united([site.ids(x) for x in args if site.depends(x)])


def _custom(site):
    """Functions with a rule of their own: element by element, by a pattern for each argument, or everything."""
    given = site.row.sparsity
    args = [x for x in site.call.args if site.depends(x)]
    if isinstance(given, str):
        return site.united([site.ids(x) for x in args])
    if given is None:
        return None
    patterns = given if isinstance(given, tuple) else (given,)
    parts = []
    for position, x in enumerate(site.call.args):
        if site.depends(x):
            if position >= len(patterns):
                return None
            parts.append(_by_pattern(site, patterns[position], site.ids(x)))
    return None if any(part is None for part in parts) else site.united(parts)


def _by_pattern(site, pattern, ids):
    if not hasattr(pattern, "tocoo"):
        pattern = np.atleast_2d(np.asarray(pattern))
    if pattern.shape != (math.prod(site.shape), ids.size):
        return None
    rows, columns = _entries(pattern)
    return site.by_place(np.ravel(ids)[columns], rows, pattern.shape[0]).reshape(site.shape)


def _entries(pattern):
    """Rows and columns of the entries of a pattern; of a sparse one also of entries that are 0."""
    if hasattr(pattern, "tocoo"):
        coo = pattern.tocoo()
        return coo.row, coo.col
    return np.nonzero(pattern)


# ---------------------------------------------------------------------------------------------- moves


def moved(site):
    return access.rearranged(site.call, site.ids, lambda argument: _known(site, argument))


def _known(site, argument):
    """An argument with the values of operands; None where they are not known."""
    if type(argument) is Operand:
        return site.value(argument)
    if type(argument) in (list, tuple):
        found = [_known(site, item) if access.holds(item) else item for item in argument]
        return None if any(x is None and access.holds(y) for x, y in zip(found, argument)) else type(argument)(found)
    return argument


def _same(site):
    return site.ids(site.call.args[0])


# ---------------------------------------------------------------------------------------------- along axes


def _axes(axis, ndim):
    """Axes as a tuple; None stands for all."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(axis) if isinstance(axis, (tuple, list)) else (int(axis),)


def reduced(position, default=None):
    """Each element of the result has all along an axis, given by position; nothing but the first operand moves."""

    def rule(site):
        if any(map(site.depends, site.call.args[1:])):
            return None
        ids = site.ids(site.call.args[0])
        axis = site.argument(position, "axis", default) if position else site.call.kwargs.get("axis", default)
        return site.along(ids, _axes(axis, ids.ndim)) if ids.ndim else ids

    return rule


def spread(position, default=-1):
    """Each element of the result has all of the line along an axis in which it stands."""

    def rule(site):
        if any(map(site.depends, site.call.args[1:])):
            return None
        ids = site.ids(site.call.args[0])
        axis = site.argument(position, "axis", default)
        if axis is None:
            return np.full(site.shape, site.total(ids), np.int32)
        if len(site.shape) != ids.ndim:
            return None
        return np.broadcast_to(site.along(ids, _axes(axis, ids.ndim)), site.shape)

    return rule


def running(site):
    """Sums and products of the first, the first two, the first three, ... along an axis."""
    ids = site.ids(site.call.args[0])
    axis = site.argument(1, "axis")
    if axis is None:
        ids, axis = ids.reshape(-1), 0
    lines = np.moveaxis(ids, axis, -1)
    found = site.sets.running(np.ascontiguousarray(lines.reshape(-1, lines.shape[-1])))
    found = np.moveaxis(found.reshape(lines.shape), -1, axis)
    if site.call.kwargs.get("include_initial"):
        found = np.concatenate([np.zeros_like(np.take(found, [0], axis=axis)), found], axis=axis)
    return found


def _diff(site):
    ids = site.ids(site.call.args[0])
    n, axis = site.argument(1, "n", 1), site.argument(2, "axis", -1)
    lines = np.moveaxis(ids, axis, 0)

    def end(x):
        if x is np._NoValue:
            return lines[:0]
        own = site.ids(x)
        own = np.moveaxis(own, axis, 0) if own.ndim else own
        return np.broadcast_to(own, (len(own) if own.ndim else 1, *lines.shape[1:]))

    before, after = [end(site.argument(*where, np._NoValue)) for where in ((3, "prepend"), (4, "append"))]
    lines = np.concatenate([before, lines, after])
    for _ in range(n):
        pair = [np.ascontiguousarray(part).reshape(-1) for part in (lines[1:], lines[:-1])]
        lines = site.sets.united(pair).reshape(lines[1:].shape)
    return np.moveaxis(lines, 0, axis)


def _trace(last):
    def rule(site):
        names = (("offset", 0), ("axis1", -2), ("axis2", -1)) if last else (("offset", 0), ("axis1", 0), ("axis2", 1))
        given = [site.argument(k + 1, name, default) for k, (name, default) in enumerate(names)]
        return site.along(np.diagonal(site.ids(site.call.args[0]), *given), (-1,))

    return rule


def matrixwise(site):
    """Each matrix in the last two axes gives a result of its own."""
    ids = site.ids(site.call.args[0])
    if any(map(site.depends, site.call.args[1:])) or site.shape[: ids.ndim - 2] != ids.shape[:-2]:
        return None
    whole = site.along(ids, (-2, -1))[..., 0, 0]
    return np.broadcast_to(whole.reshape(whole.shape + (1,) * (len(site.shape) - whole.ndim)), site.shape)


def _solved(site):
    """The solution of each system has all of its matrix, and its right side."""
    a, b = map(site.ids, site.call.args[:2])
    is_vector = b.ndim == 1 or site.shape != np.broadcast_shapes(a.shape[:-2] + (1, 1), b.shape[-b.ndim :])
    if is_vector and b.ndim != 1:
        return None
    matrix = site.along(a, (-2, -1))
    if is_vector:
        return site.united([matrix[..., 0], site.along(b, (-1,))])
    return site.united([matrix, site.along(b, (-2,))])


# ---------------------------------------------------------------------------------------------- adding up by places


def _scattered(site):
    """`a` with `b` added at indices."""
    a, indices, b = site.call.args
    if access.holds(indices) and (indices := _known(site, indices)) is None:
        return None
    base = site.ids(a)
    places = np.arange(base.size).reshape(base.shape)[indices]
    added = np.broadcast_to(site.ids(b), np.shape(places))
    ids = np.concatenate([np.ravel(base), np.ravel(added)])
    return site.by_place(ids, np.concatenate([np.arange(base.size), np.ravel(places)]), base.size)


def _counted(site):
    """``bincount`` with weights."""
    places, weights = site.call.args[0], site.argument(1, "weights")
    if access.holds(places) and (places := _known(site, places)) is None:
        return None
    return site.by_place(np.ravel(site.ids(weights)), np.ravel(places), math.prod(site.shape))


def _segmented(site):
    """``add.reduceat``."""
    indices, axis = site.call.args[1], site.argument(2, "axis", 0)
    if access.holds(indices) and (indices := _known(site, indices)) is None:
        return None
    lines = np.moveaxis(site.ids(site.call.args[0]), axis, 0)
    starts = np.asarray(indices).tolist()
    stops = [*starts[1:], len(lines)]
    parts = [site.along(lines[i : max(i + 1, stop)], (0,))[0] for i, stop in zip(starts, stops)]
    return np.moveaxis(np.stack(parts), 0, axis)


def _interpolated(site):
    """Of a table that is no constant, all of it."""
    x, *table = site.call.args
    wholes = [np.int32(site.total(site.ids(part))) for part in table if site.depends(part)]
    return site.united([site.ids(x), *wholes])


# ---------------------------------------------------------------------------------------------- products


def _product(site):
    found = contractions.factors(site.call, lambda x: np.ndim(site.ids(x)))
    return None if found is None else contracted(site, *found)


def _sparse_product(site):
    """A constant sparse matrix times a vector or matrix."""
    x, matrix = site.call.args
    rows, columns = _entries(matrix)
    return site.by_place(site.ids(x)[columns], rows, matrix.shape[0])


def contracted(site, args, labels, out):
    """A product of operands with labelled axes, summed over the labels that are not in `out`."""
    shapes, factors = {}, []
    for x, names in zip(args, labels):
        ids, value = site.ids(x), None if site.depends(x) else site.value(x)
        is_flat = len(names) != ids.ndim
        ids, value = (np.ravel(ids), None if value is None else np.ravel(value)) if is_flat else (ids, value)
        for name, n in zip(names, ids.shape):
            shapes[name] = n if shapes.get(name, 1) == 1 else shapes[name]
        factors.append((ids, value, names, site.depends(x)))
    factors = [_of_labels(*factor, shapes) for factor in factors]
    moving = [k for k, factor in enumerate(factors) if factor[3]]
    parts = []
    for k in moving:
        ids, _, names, _ = factors[k]
        found = None
        if len(factors) == 2 and factors[1 - k][1] is not None:
            found = _masked(site, ids, names, *factors[1 - k][1:3], out, shapes)
        parts.append(_spread_over(site, ids, names, out, shapes) if found is None else found)
    if site.sets.second and site.row.curvature == "cross":
        site.is_done = True
        for k, m in itertools.combinations(moving, 2):
            _cross(site, factors[k], factors[m], shapes)
    whole = tuple(shapes[name] for name in out)
    return site.united([np.reshape(np.broadcast_to(part, whole), site.shape) for part in parts])


def _of_labels(ids, value, names, depends, shapes):
    """A factor with each label once, and without axes of length 1 that are broadcast."""
    index = tuple(0 if n == 1 != shapes[name] else slice(None) for name, n in zip(names, ids.shape))
    kept = [name for name, part in zip(names, index) if part != 0]
    ids, value = ids[index], None if value is None else np.asarray(value)[index]
    unique = list(dict.fromkeys(kept))
    if len(unique) < len(kept):
        numbers = {name: k for k, name in enumerate(unique)}
        way = [numbers[name] for name in kept], list(range(len(unique)))
        ids, value = np.einsum(ids, *way), None if value is None else np.einsum(value, *way)
    return ids, value, unique, depends


def _spread_over(site, ids, names, out, shapes):
    """Unions over the labels that are summed, with an axis for each label of the result."""
    summed = [axis for axis, name in enumerate(names) if name not in out]
    if summed:
        ids = site.along(ids, summed)
        ids = ids[tuple(0 if axis in summed else slice(None) for axis in range(ids.ndim))]
        names = [name for name in names if name in out]
    order = [names.index(name) for name in out if name in names]
    return np.transpose(ids, order).reshape([shapes[name] if name in names else 1 for name in out])


def _masked(site, ids, names, value, others, out, shapes):
    """The same where the other factor is a constant with zeros; None: it has none."""
    if np.all(value):
        return None
    if np.ndim(value) == 0:
        return _spread_over(site, np.zeros_like(ids), names, out, shapes)
    where = np.nonzero(value)
    early = [name for name in names if name not in out and name not in others]
    kept = [name for name in names if name not in early]
    extra = [name for name in kept if name not in others]
    ids = _spread_over(site, ids, names, kept, shapes)
    at = dict(zip(others, where))
    ids = np.transpose(ids, [kept.index(name) for name in kept if name in others] + [kept.index(n) for n in extra])
    picked = ids[tuple(at[name] for name in kept if name in others)]
    if not any(name in others for name in kept):
        picked = np.broadcast_to(ids, (len(where[0]), *ids.shape))
    picked = picked.reshape(len(where[0]), -1)
    lines = [name for name in out if name in others]
    size = math.prod([shapes[name] for name in lines])
    places = np.zeros(len(where[0]), np.intp)
    for name in lines:
        places = places * shapes[name] + at[name]
    found = site.by_place(picked, places, size).reshape([shapes[name] for name in (*lines, *extra)])
    order = [(lines + extra).index(name) for name in out if name in lines or name in extra]
    return np.transpose(found, order).reshape([shapes[name] if name in lines or name in extra else 1 for name in out])


def _cross(site, left, right, shapes):
    """Interactions of two factors, over all labels that either has."""
    names = list(dict.fromkeys([*left[2], *right[2]]))
    whole = [shapes[name] for name in names]
    if math.prod(whole) > _MAX_EXPANDED:
        site.interact(*[np.array([site.total(factor[0])]) for factor in (left, right)])
        return
    site.interact(
        *[np.broadcast_to(_spread_over(site, factor[0], factor[2], names, shapes), whole) for factor in (left, right)]
    )


def _kron(site):
    a, b = site.call.args[:2]
    parts = []
    for x, y, order in ((a, b, 1), (b, a, -1)):
        if site.depends(x):
            other = site.value(y) if not site.depends(y) else None
            factor = np.ones(site.ids(y).shape, np.int32) if other is None else np.not_equal(other, 0).astype(np.int32)
            parts.append(np.kron(*(site.ids(x), factor)[::order]))
    if len(parts) == 2:
        site.is_done = True
        site.interact(*parts)
    return site.united(parts)


def _convolved(default, begins, step):
    """Each element of ``convolve`` has those elements of either that meet with one of the other that is not 0.

    ``correlate`` is the same with its second operand backwards.
    """

    def rule(site):
        a, v = site.call.args[:2]
        sets = {0: np.ravel(site.ids(a)), 1: np.ravel(site.ids(v))[::step]}
        mode = site.argument(2, "mode", default)
        parts = []
        for i, (x, y) in enumerate(((a, v), (v, a))):
            if not site.depends(x):
                continue
            other = len(sets[1 - i])
            mask = np.not_equal(np.ravel(site.value(y)), 0) if not site.depends(y) else np.ones(other, bool)
            mask = mask[:: step if i == 0 else 1][::-1]
            margin = np.zeros(other - 1, np.int32)
            windows = np.lib.stride_tricks.sliding_window_view(np.concatenate([margin, sets[i], margin]), other)
            begin = begins(sets[0], sets[1], mode)
            parts.append(site.grouped(np.where(mask, windows[begin : begin + math.prod(site.shape)], 0)))
        if len(parts) == 2:
            site.is_done = True
            site.interact(*parts)
        return site.united(parts)

    return rule


def _crossed(site):
    """``cross`` of vectors along the last axis: a component has none of those along its own axis."""
    if {*site.call.kwargs} or len(site.call.args) > 2:
        return None
    a, b = [site.ids(x) for x in site.call.args]
    if a.shape[-1] == b.shape[-1] == 2:  # of vectors in the plane: a number
        products = [[(a[..., 0], b[..., 1]), (a[..., 1], b[..., 0])]]
    else:
        a, b = [x if x.shape[-1] == 3 else np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, 1)]) for x in (a, b)]
        pairs = ((1, 2), (2, 0), (0, 1))
        products = [[(a[..., i], b[..., j]), (a[..., j], b[..., i])] for i, j in pairs]
    site.is_done = True
    shape = np.broadcast_shapes(a.shape[:-1], b.shape[:-1])
    for pair in itertools.chain(*products):
        site.interact(*[np.broadcast_to(factor, shape) for factor in pair])
    components = [[np.broadcast_to(x, shape) for x in itertools.chain(*pairs)] for pairs in products]
    parts = [np.reshape(np.stack(part, axis=-1), site.shape) for part in zip(*components, strict=True)]
    return site.united(parts)


_BY_KIND = {"elementwise": elementwise, "view": moved, "rearrangement": moved, "custom": _custom}


def _named(module, names, rule):
    return {f"{module}.{name}": rule for name in names.split()}


RULES = {
    **dict.fromkeys(access.MOVING, moved),
    "numpy.astype": _same,
    "numpy.clip": _clip,
    **_named("numpy", "sum mean max min amax amin prod ptp var std", reduced(1)),
    **_named("numpy", "nansum nanmean nanmax nanmin median nanmedian", reduced(1)),
    **_named("wengert.rules.ufuncs", "hypot_reduce logaddexp_reduce logaddexp2_reduce", reduced(1, 0)),
    "numpy.linalg.norm": reduced(2),
    "numpy.linalg.vector_norm": reduced(0),
    "wengert.rules.special_python.log_sum": reduced(2),
    **_named("numpy", "cumsum cumprod cumulative_sum cumulative_prod", running),
    "numpy.sort": spread(1),
    "numpy.partition": spread(2),
    **_named("numpy.fft", "fft ifft rfft irfft", spread(2)),
    **_named("wengert.rules.special_python", "shares log_shares", spread(1, None)),
    "numpy.diff": _diff,
    "numpy.trace": _trace(False),
    "numpy.linalg.trace": _trace(True),
    **_named("numpy.linalg", "inv det cholesky eigvalsh svdvals matrix_power", matrixwise),
    "numpy.linalg.solve": _solved,
    "wengert.rules.ufuncs.scatter_add": _scattered,
    "wengert.rules.ufuncs.sums_of_segments": _segmented,
    "numpy.bincount": _counted,
    "numpy.interp": _interpolated,
    **dict.fromkeys(contractions.names(), _product),
    "numpy.kron": _kron,
    "numpy.convolve": _convolved("full", part_of_convolution, 1),
    "numpy.correlate": _convolved("valid", part_of_correlation, -1),
    "numpy.cross": _crossed,
    "numpy.linalg.cross": _crossed,
    matrices._times_row.name: _sparse_product,
}
