"""Turns loops over small arrays whose iterations are independent, but for running sums, into array expressions.

Input: the body of a loop, in which each carried value is unchanged or a running sum that nothing else reads; output:
instructions that compute all iterations at once, with a leading axis, and add up the terms of the running sums.
`loop_recovery` finds the loops, which are rows of a triangle or of a product that plain code adds up one by one.

References
----------
Allen and Kennedy (1987), Automatic translation of FORTRAN programs to vector form. doi:10.1145/29873.29875
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from wengert.program.ir.call import Call, Operand
from wengert.program.ir.ir import Listing, kind_of, operands, whole_view
from wengert.program.ir.opcode_table import ELEMENTWISE
from wengert.program.ir.opcodes import Op
from wengert.program.passes import simplify
from wengert.program.passes.batching import batch_program
from wengert.registry import lookup

_FLOAT = np.dtype(float)
#: instructions of bodies that may be batched, besides elementwise ones
_BATCHED = frozenset((Op.INPUT, Op.CONST, Op.ARRAY, Op.LOAD, Op.VIEW, Op.SUM, Op.PLACE, Op.PACK))
#: limit on the elements of all iterations of a value, so that they stay in the cache
_MAX_ELEMENTS = 1 << 16


def pays(body: Listing, steps: int, carried: int) -> bool:
    """Return whether all iterations can be computed at once, and should be."""
    ops = body.op.tolist()
    if not all(op in ELEMENTWISE or op in _BATCHED for op in ops):
        return False
    sizes = [math.prod(kind_of(body, v)[1]) for v, op in enumerate(ops) if op in ELEMENTWISE]
    if not sizes or max(sizes) < 2 or steps * max(sizes) > _MAX_ELEMENTS:
        return False
    uses = simplify.uses(body)
    sums = [y for v, y in zip(body.inputs[:carried], body.outputs) if v != y]
    return all(uses[y] == 1 for y in sums)


def appended(new: Listing, body: Listing, steps: int, carried: int, first: int, values: list) -> Callable:
    """Append all iterations of a loop to a program.

    Parameters
    ----------
    new : Listing
    body : Listing
        As in `Loop`.
    steps, carried, first : int
        Number of iterations, of carried values, and of operands before the slices.
    values : list
        The operands, as of a call of the loop.

    Returns
    -------
    callable
        Maps a part of the loop's result, as in `Loop.results`, to a value, and to its view of that value; None for all
        of it.
    """
    terms, functions = _terms(body, carried)
    batched = simplify.simplified(batch_program(terms, range(first, len(values)), steps, []), False)
    matters = simplify.layout_matters(batched)
    given = [
        new.in_layout(v, kind_of(batched, u)) if k >= first and matters[u] else v
        for k, (v, u) in enumerate(zip(values, batched.inputs))
    ]
    outputs = new.inline(batched, given)

    def part(word, number):
        v = outputs[number]
        if word == "stack":
            return v, whole_view(kind_of(new, v))
        function = functions[number]
        return values[number] if function is None else _total(new, function, values[number], v), None

    return part


def _terms(body, carried):
    """Return a program of the terms of the running sums and of the stacks, and the opcode of each sum.

    The opcode of a carried value that does not change is None.
    """
    found, of = Listing(), np.full(len(body), -1, dtype=np.int32)
    found.take(body, np.arange(len(body), dtype=np.int32), of)
    outputs, functions = list(body.outputs), []
    for k, v in enumerate(body.inputs[:carried]):
        y = outputs[k]
        functions.append(None if y == v else int(body.op[y]))
        if y != v:
            outputs[k] = next(term for term in operands(body, y) if term != v)
    found.inputs, found.outputs = of[body.inputs].tolist(), of[outputs].tolist()
    return simplify.live(found), functions


def _total(new, function, start, terms):
    """Append the last value of a running sum of terms along the leading axis."""
    shape = kind_of(new, terms)[1][1:]
    type = _FLOAT, shape, None
    if shape:
        call = Call(np.sum, (Operand(0),), {"axis": 0}, [terms], lookup(np.sum))
        total = new.call(call, type)
    else:
        total = new.add(Op.SUM, type, terms)
    return new.add(function, type, start, total)
