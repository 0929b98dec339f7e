"""Inlines calls whose functions are array code, when no further derivative is taken.

Some derivatives of special functions are long sums, and they have rules of their own for further derivatives.
So their calls stay whole until a program is about to run.
Then their bodies, in the registry column `body`, are traced at the types of the operands and replace the calls.

Means, variances and standard deviations of large arrays become sums, which the VM fuses with the work around them.

Invariants: the bodies make no decisions on values, so the result has no guards; exact programs keep the bits.
Complexity: one trace for each function, its constant arguments and the types of its operands; the traces are cached.

Reference: Muchnick (1997), Advanced compiler design and implementation, chapter 15 (inline expansion).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np

from wengert.core.levels import outside, unnoted
from wengert.dependence import Reduced
from wengert.program.ir.call import is_function, static
from wengert.program.ir.call_rules import filled
from wengert.program.ir.ir import Listing, kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.passes import simplify
from wengert.program.tracing.trace import listed

_FLOAT = np.dtype(float)
#: maximum number of traced bodies that are cached
MAX_BODIES = 64
#: limit on the elements of the result, since a body has large arrays in between
MAX_ELEMENTS = 1 << 12
#: minimum number of elements that a reduction reads; small ones are native calls
MIN_REDUCED = 1 << 12

_bodies: dict = {}


def inline_calls(code: Listing, exact: bool, simplified: Callable[[Listing], Listing]) -> Listing:
    """Return the program with inlined calls; `simplified` optimises a traced body."""
    places = [i for i in np.flatnonzero(code.op == Op.CALL).tolist() if _has_body(code, i, exact)]
    bodies = {i: body for i in places if (body := _body(code, i, exact, simplified)) is not None}
    if not bodies:
        return code
    new, of = code.successor(), np.arange(len(code), dtype=np.int32)
    start = 0
    for i, body in bodies.items():
        new.take(code, np.arange(start, i, dtype=np.int32), of)
        start = i + 1
        values = [int(of[v]) for v in code.calls[int(code.a[i])].operands]
        inputs = [new.in_layout(values[int(body.a[v])], kind_of(body, v)) for v in body.inputs]
        of[i] = new.in_layout(new.inline(body, inputs)[0], kind_of(code, i))
    new.take(code, np.arange(start, len(code), dtype=np.int32), of)
    new.inputs, new.outputs = [[int(of[v]) for v in values] for values in (code.inputs, code.outputs)]
    return simplify.simplified(new, exact, fold=False)


def _has_body(code, i, exact):
    call, (dtype, shape, _) = code.calls[int(code.a[i])], kind_of(code, i)
    if not is_function(call) or call.row.body is None or dtype != _FLOAT:
        return False
    if isinstance(call.row.dependence, Reduced):
        has_size = not exact and all(np.prod(kind_of(code, v)[1]) >= MIN_REDUCED for v in call.operands)
    else:
        has_size = np.prod(shape) <= MAX_ELEMENTS
    return has_size and all(kind_of(code, v)[0] == _FLOAT for v in call.operands)


def _body(code, i, exact, simplified):
    """Return the traced body of a call, or None if it has none for these arguments."""
    call = code.calls[int(code.a[i])]
    shapes = [kind_of(code, v)[1] for v in call.operands]
    key = call.row, static(call.args), static(call.kwargs), *shapes, exact
    if key not in _bodies:
        while len(_bodies) >= MAX_BODIES:
            _bodies.pop(next(iter(_bodies)), None)
        found = None
        with contextlib.suppress(Exception), outside(), unnoted(), np.errstate(all="ignore"):
            examples = [np.ones(shape) if shape else np.float64(1.0) for shape in shapes]
            compute = lambda *x: [call.row.body(*[filled(argument, x) for argument in call.args], **call.kwargs)]
            found = simplified(listed(compute, examples, call.name, exact=exact, warns=False))
            if (found.op == Op.GUARD).any() or kind_of(found, found.outputs[0])[:2] != kind_of(code, i)[:2]:
                found = None
        _bodies[key] = found
    return _bodies[key]
