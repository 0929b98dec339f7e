"""Costs of a program: operations, bytes, and the VM instructions that run it."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from wengert.program.ir.ir import Listing, kind_of, operands
from wengert.program.ir.opcode_table import ELEMENTWISE, marked, opcodes
from wengert.program.ir.opcodes import Op
from wengert.program.ir.printer import bodies, name_of, rows
from wengert.program.passes import vectorise
from wengert.program.vm import machine
from wengert.transforms.explain import counted

_IS_ELEMENTWISE = marked(ELEMENTWISE)
_COUNTED_BY_OPERAND = [Op.SUM, Op.SCATTER]  # each element of the operand is an operation
_STORED = opcodes(is_stored=True)


@dataclasses.dataclass(frozen=True)
class Step:
    """A VM instruction, which runs one or more program instructions.

    Attributes
    ----------
    kind : str
        "numbers": scalar instructions, one after another.
        "vector": fused array instructions, run in chunks of a few hundred elements.
        "pack": stores scalars into an array; "move": stores elements at positions of an array, or adds them there.
        "call": a Python call, for example of a NumPy function.
        "loop": a body that runs many times.
    instructions : list of int
    elements : int
        Elements of a vector instruction, of a moved array, or scalars that are packed; iterations of a loop; else 1.
    operations : int
        Per element or iteration; for "numbers", the total.
    read, written : int
        Bytes per element of a vector instruction: of arrays from elsewhere, and of results that are kept.
    share : float or None
        Share of the estimated run time without calls; None for a call.
    name : str
        Name of the called function.
    """

    kind: str
    instructions: list
    elements: int
    operations: int
    read: int
    written: int
    share: float | None
    name: str = ""

    def __str__(self):
        if self.kind == "numbers":
            return f"numbers: {counted(len(self.instructions), 'instruction')}"
        if self.kind == "call":
            return f"Python: {self.name}"
        if self.kind == "vector":
            return (
                f"vector, {counted(self.elements, 'element')}: {counted(self.operations, 'operation')}, "
                f"{self.read} bytes read and {self.written} written for each"
            )
        if self.kind == "loop":
            return f"loop, {self.elements} times: {counted(self.operations, 'operation')} each"
        return f"{self.kind}: {counted(self.elements, 'element')}"


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A program as the VM runs it: instructions, scalar slots, and bytes of memory besides inputs and outputs."""

    listing: Listing
    steps: list[Step]
    slots: int
    nbytes: int


def schedule(code: Listing, exact: bool) -> Schedule:
    """Return the VM instructions of a program, with their costs."""
    found, slots, nbytes = machine.schedule(code, exact)
    table = rows(code)
    ops = [op for op, *_ in table]
    of_step = {i: number for number, (_, _, members) in enumerate(found) for i in members}
    kept = _kept(code, ops, of_step)
    costs = _costs(code, table)
    total = sum(costs) or 1.0
    done = operations(code)
    steps = []
    for number, (kind, shape, members) in enumerate(found):
        first = members[0]
        op, a, _, c, _ = table[first]
        elements, read, written, name = 1, 0, 0, ""
        work = sum(done[i] for i in members)
        share = sum(costs[i] for i in members) / total
        if kind == "vector":
            elements = math.prod(shape)
            work = work // elements if elements else 0
            outside = {v for i in members for v in _read(code, ops, i) if of_step.get(v) != number}
            read = sum(_itemsize(code, v) for v in outside)
            written = sum(_itemsize(code, i) for i in members if i in kept)
        elif kind == "pack":
            elements = len(operands(code, first)) - (a >= 0)
        elif kind == "move":
            elements = _size(code, c if op == Op.PUT else a)
        elif op == Op.CALL and bodies(code.calls[a]):
            kind, elements = "loop", sum(times for times, _ in bodies(code.calls[a]))
            work //= elements
        elif kind == "call":
            share = None if op == Op.CALL else share
            name = code.calls[a].name if op == Op.CALL else name_of(op)
        steps.append(Step(kind, members, elements, work, read, written, share, name))
    return Schedule(code, steps, slots, nbytes)


def _costs(code, table):
    """Return the estimated time of each instruction in nanoseconds; 0 for calls other than loops."""
    found = vectorise.costs(code)
    for i, (op, a, *_) in enumerate(table):
        if op == Op.CALL:
            found[i] = sum(times * sum(_costs(body, rows(body))) for times, body in bodies(code.calls[a]))
    return found


def _read(code, ops, i):
    """Return the arrays whose elements an instruction reads; an overwritten array is not read."""
    given = operands(code, i)
    if ops[i] == Op.PLACE:
        given = given[-1:]
    return [v for v in given if kind_of(code, v)[1]]


def _kept(code, ops, of_step):
    """Return the arrays that other VM instructions or the caller read, and those stored into (PLACE)."""
    kept = set(code.outputs)
    for i in range(len(ops)):
        for v in operands(code, i):
            if of_step.get(i, -1) != of_step.get(v):
                kept.add(v)
    kept.update(i for i, op in enumerate(ops) if op == Op.PLACE)
    return {v for v in kept if kind_of(code, v)[1]}


# ---------------------------------------------------------------------------------------------- counts


def operations(code: Listing) -> list[int]:
    """Return the number of scalar operations of each instruction; calls and moves have none."""
    ops, a = code.op, code.a
    sizes = np.array([math.prod(shape) for _, shape, _ in code.types])[code.type]
    found = np.where(_IS_ELEMENTWISE[ops], sizes, 0)
    of_operand = np.flatnonzero(np.isin(ops, _COUNTED_BY_OPERAND))
    found[of_operand] = sizes[a[of_operand]]
    for i in np.flatnonzero(ops == Op.CALL).tolist():
        found[i] = sum(times * sum(operations(body)) for times, body in bodies(code.calls[int(a[i])]))
    return found.tolist()


def peak_bytes(code: Listing) -> int:
    """Return the peak memory of values in bytes; inputs, constants and views own no memory."""
    ops = code.op.tolist()
    last = dict.fromkeys(code.outputs, len(ops))
    reads = [operands(code, i) for i in range(len(ops))]
    for i, given in enumerate(reads):
        for v in given:
            last[v] = max(last.get(v, -1), i)
    alive = most = 0
    sizes = {}
    for i, op in enumerate(ops):
        if op in _STORED and i in last:
            sizes[i] = _size(code, i) * _itemsize(code, i)
            alive += sizes[i]
            most = max(most, alive)
        alive -= sum(sizes.pop(v, 0) for v in {*reads[i]} if last[v] == i)
    return most


def _size(code, i):
    return math.prod(kind_of(code, i)[1])


def _itemsize(code, i):
    return kind_of(code, i)[0].itemsize
