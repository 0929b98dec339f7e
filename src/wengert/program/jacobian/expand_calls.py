"""Expands opaque calls before Jacobian accumulation, into instructions with simpler partials.

Calls that join arrays become stores into one array; differences, cross products and similar functions become arithmetic
on views.
A view that repeats elements in many short rows, such as a broadcast operand, becomes a gather, because the VM takes ten
times as long on short rows.
Results differ from those of the calls by rounding, so the expanded program serves derivatives only.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.program.ir import access
from wengert.program.ir.call import Operand
from wengert.program.ir.call_rules import filled
from wengert.program.ir.call_rules import places as places_of
from wengert.program.ir.ir import Listing, kind_of, operands, overlaps
from wengert.program.ir.opcode_table import opcodes
from wengert.program.ir.opcodes import Op
from wengert.program.tracing.trace import listed

_FLOAT = np.dtype(float)
#: row length for which the elements of a row take the VM about as long as moving to the next row
_MIN_ROW_LENGTH = 32
#: opcodes that read the elements of strided arrays directly
_PLAIN = opcodes(access="elements")


def expand(code: Listing) -> tuple[Listing, np.ndarray]:
    """Return the expanded program, and an array of the new ids of the original values."""
    new, of = Listing(), np.arange(len(code), dtype=np.int32)
    repeated = _repeated_views(code)
    places = [i for i in np.flatnonzero(code.op == Op.CALL).tolist() if _is_expandable(code.calls[int(code.a[i])])]
    if not places and not repeated:
        return code, of
    start = 0
    for i in sorted([*places, *repeated]):
        new.take(code, np.arange(start, i, dtype=np.int32), of)
        start = i + 1
        if i in repeated:
            of[i] = gathered(new, int(of[code.a[i]]), repeated[i], kind_of(code, i)[0])
            continue
        call = code.calls[int(code.a[i])]
        found = _expansion(new, call, [int(of[v]) for v in call.operands], kind_of(code, i))
        if found is None:
            new.take(code, np.array([i], dtype=np.int32), of)
        else:
            of[i] = found
    new.take(code, np.arange(start, len(code), dtype=np.int32), of)
    new.inputs, new.outputs = [[int(of[v]) for v in values] for values in (code.inputs, code.outputs)]
    return new, of


# ---------------------------------------------------------------------------------------------- short rows


def has_short_rows(view: tuple) -> bool:
    """Return whether a view consists of short rows only, after merging axes with a common stride."""
    steps = [(n, step) for n, step in zip(*view[1:]) if n != 1]
    if not steps or 0 in view[1]:
        return False
    run, last = steps.pop()
    while steps and steps[-1][1] == last * run:
        run *= steps.pop()[0]
    return run < _MIN_ROW_LENGTH <= math.prod(view[1])


def gathered(new: Listing, v: int, view: tuple, dtype: np.dtype) -> int:
    """Gather the elements of a view."""
    index = new.constant_array(places_of(view, dtype).astype(np.int32))
    return new.add(Op.GATHER, (dtype, view[1], None), v, index)


def _repeated_views(code):
    """Return the views that repeat elements in short rows and are read by elementwise instructions and sums only."""
    columns = [column.tolist() for column in (code.op, code.a, code.b, code.type)]
    found = {}
    for i, (op, a, b, kind) in enumerate(zip(*columns)):
        if op == Op.VIEW and has_short_rows(code.views[b]) and overlaps(*code.views[b][1:]):
            if code.types[kind][0] == code.types[columns[3][a]][0]:
                found[i] = code.views[b]
    if found:
        for i, op in enumerate(columns[0]):
            is_plain = op in _PLAIN or (op == Op.PLACE and columns[1][i] not in found)
            for v in operands(code, i) if not is_plain else ():
                found.pop(v, None)
        for v in code.outputs:
            found.pop(v, None)
    return found


# ---------------------------------------------------------------------------------------------- calls


def _is_expandable(call):
    if call.row is None or access.heeds_memory(call):
        return False
    return call.row.expansion is not None or access.moves(call)


def _expansion(new, call, values, wanted):
    """Append the expansion of a call and return its result; None: the call stays."""
    if not _is_expandable(call) or wanted[0] != _FLOAT or any(kind_of(new, v)[0] != _FLOAT for v in values):
        return None
    if access.moves(call):
        return _joined(new, call, values, wanted)
    shapes = [kind_of(new, v)[1] for v in values]
    try:
        zeros = [np.broadcast_to(0.0, shape) for shape in shapes]  # views, which take no memory
        given = [zeros[x.position] if type(x) is Operand else x for x in call.args]
        function = call.row.expansion(*given, **call.kwargs)
    except (KeyError, TypeError):  # the expansion does not support these arguments
        return None
    if function is None:
        return None
    rng = np.random.default_rng(0)  # random matrices are regular
    examples = [rng.random(shape) if shape else np.float64(1.0) for shape in shapes]
    made = listed(lambda *x: [function(*[filled(argument, x) for argument in call.args])], examples, call.name)
    made = expand(made)[0]
    found = new.inline(made, [new.in_layout(values[int(made.a[v])], kind_of(made, v)) for v in made.inputs])[0]
    return new.in_layout(found, wanted) if kind_of(new, found)[1] == wanted[1] else None


# ---------------------------------------------------------------------------------------------- joins


def _joined(new, call, values, wanted):
    """Store operands into one array, each as a block; None if they are not whole blocks."""
    shape = wanted[1]
    starts = np.cumsum([1, *[math.prod(kind_of(new, v)[1]) for v in values]])

    def numbers(argument):
        if type(argument) is not Operand:
            return np.zeros(np.shape(argument), np.int64)
        own = kind_of(new, values[argument.position])[1]
        return starts[argument.position] + np.arange(math.prod(own)).reshape(own)

    where = np.ravel(access.rearranged(call, numbers, lambda _: None)) if shape else None
    if where is None or where.size != math.prod(shape) or where.size == 0:
        return None
    order = np.argsort(where, kind="stable")
    first = np.searchsorted(where[order], 1)
    if where.size - first != starts[-1] - 1 or (where[order[first:]] != np.arange(1, starts[-1])).any():
        return None  # an element is dropped or repeated
    views = []
    for v, start in zip(values, starts):
        own = kind_of(new, v)[1]
        size = math.prod(own)
        view = _block_view(order[first + start - 1 : first + start - 1 + size], own) if size else None
        if size and view is None:
            return None
        if size:
            views.append((view, v))
    zeros = [np.zeros(kind_of(new, v)[1]) for v in values]
    rest = np.asarray(call.compute(*[filled(x, zeros) for x in call.args], **call.kwargs), dtype=_FLOAT)
    dense = (_FLOAT, shape, None)
    found = -1 if len(order) == starts[-1] - 1 and len(views) == 1 else new.constant_array(np.ascontiguousarray(rest))
    for view, v in views:
        found = new.place(found, view, v, dense)
    return new.in_layout(found, wanted)


def _block_view(places, shape):
    """Return the view of a 1-D array whose elements are at these positions; None if they are not regular."""
    places = places.reshape(shape)
    offset = int(places.flat[0])
    steps = [int(np.take(places, 1, axis=d).flat[0]) - offset if n > 1 else 0 for d, n in enumerate(shape)]
    expected = np.array(offset)
    for n, step in zip(shape, steps):
        expected = expected[..., None] + step * np.arange(n)
    if (expected != places).any():
        return None
    return 8 * offset, shape, tuple(8 * step for step in steps)
