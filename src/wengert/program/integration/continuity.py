"""Finds where the right-hand side of a differential equation may jump, from the instructions of its program."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import numpy as np

from wengert.program.integration.system import System
from wengert.program.ir.call import FOLDS, PRODUCTS
from wengert.program.ir.ir import operands
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.passes.simplify import needed_for

#: opcodes without jumps: continuous functions, and moves of elements
CONTINUOUS = {
    *map(int, OPCODES.values()),
    *map(int, (Op.INPUT, Op.CONST, Op.ARRAY, Op.LOAD, Op.VIEW, Op.PACK, Op.PLACE, Op.PUT, Op.SUM)),
    *map(int, (Op.GATHER, Op.SCATTER)),
}


def has_fixed_jumps(system: System) -> bool:
    """Return whether a right-hand side can jump only at fixed times, which do not depend on parameters or states.

    Such jumps come from functions and branches that depend only on the time.  Other branches are guards: the program
    fails if another branch is taken, so it does not pass a jump there.
    """
    every = system, *system.others
    key = "fixed jumps", len(every)
    if key not in system._derived:
        system._derived[key] = all(_has_fixed_jumps(each.program._listing, len(every) > 1) for each in every)
    return system._derived[key]


def needed_values(code: Any, ends: list) -> list:
    """Return these values and all values that they are computed from, in program order."""
    return np.flatnonzero(np.frombuffer(needed_for(code, ends), np.uint8)).tolist()


def _has_fixed_jumps(code, has_branches):
    guarded = [int(code.a[v]) for v in np.flatnonzero(code.op == Op.GUARD)] if has_branches else []
    needed = needed_values(code, [*code.outputs, *guarded])
    of_time = _functions_of_time(code, needed)
    return all(v in of_time for v in guarded) and all(v in of_time or is_continuous(code, v, of_time) for v in needed)


def _functions_of_time(code, values):
    """Return those of `values`, given in program order, that depend only on the first element of x, the time."""
    found: set = set()
    starting = set(code.inputs)  # x, and views of its first elements
    for v in values:
        given = operands(code, v)
        if v in starting or (code.op[v] == Op.VIEW and given[0] in starting and _is_start(code, v)):
            starting.add(v)
        if v not in code.inputs and all(w in found or (w in starting and _is_first(code, v)) for w in given):
            found.add(v)
    return found


def _is_start(code, v):
    """Return whether a view consists of the first elements of its array, in order."""
    offset, shape, strides = code.views[code.b[v]]
    return offset == 0 and len(shape) == 1 and strides == (8,)


def _is_first(code, v):
    """Return whether an instruction reads only the first element of its array operand."""
    if code.op[v] == Op.LOAD:
        return code.b[v] == 0
    return code.op[v] == Op.VIEW and code.views[code.b[v]][0] == 0 and math.prod(code.views[code.b[v]][1]) == 1


def is_continuous(code: Any, v: int, of_time: Collection = ()) -> bool:
    """Return whether an instruction is continuous, with the values `of_time` taken as constants."""
    op = code.op[v]
    if op == Op.SELECT:
        return code.a[v] in of_time
    if op != Op.CALL:
        return int(op) in CONTINUOUS
    call = code.calls[code.a[v]]
    return call.row is not None and (
        call.row.scalars in PRODUCTS | FOLDS or call.row.is_continuous(call.args, call.kwargs)
    )
