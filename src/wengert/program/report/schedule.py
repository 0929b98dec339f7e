"""Costs of a program: operations, bytes, and the VM kernels that run it."""

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
class Kernel:
    """A VM kernel, which executes one or more instructions of the program.

    Attributes
    ----------
    kind : str
        "scalar": scalar instructions in sequence.
        "vector": fused array instructions, run in chunks of a few hundred elements.
        "pack": stores scalars to an array.
        "scatter": stores or adds elements at given indices of an array.
        "native": a function of small arrays, computed in C without Python.
        "call": a Python call, for example of a NumPy function.
        "loop": a program that runs once per iteration.
    instructions : list of int
    elements : int
        Elements of a vector kernel or of a scattered array, packed scalars, iterations of a loop; else 1.
    operations : int
        Scalar operations per element or iteration; the total for "scalar".
    read, written : int
        Bytes loaded and stored per element of a vector kernel; intermediates that stay in chunks do not count.
    share : float or None
        Share of the estimated run time, calls excluded; None for a call.
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
        if self.kind == "scalar":
            return f"scalar: {counted(len(self.instructions), 'instruction')}"
        if self.kind in ("call", "native"):
            return f"{'Python' if self.kind == 'call' else 'native'} call: {self.name}"
        if self.kind == "vector":
            return (
                f"vector, {counted(self.elements, 'element')}: {counted(self.operations, 'operation')}, "
                f"{self.read} bytes read, {self.written} bytes written per element"
            )
        if self.kind == "loop":
            size = counted(self.elements, "iteration")
            return f"loop, {size}: {counted(self.operations, 'operation')} per iteration"
        return f"{self.kind}: {counted(self.elements, 'element')}"


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A program as lowered for the VM: kernels, scalar registers, and bytes of workspace."""

    listing: Listing
    kernels: list[Kernel]
    registers: int
    nbytes: int


def schedule(code: Listing, exact: bool) -> Schedule:
    """Return the VM kernels of a program, with their costs."""
    found, registers, nbytes = machine.schedule(code, exact)
    table = rows(code)
    ops = [op for op, *_ in table]
    kernel_of = {i: number for number, (_, _, members) in enumerate(found) for i in members}
    stored = _stored(code, ops, kernel_of)
    costs = _costs(code, table)
    total = sum(costs) or 1.0
    done = operations(code)
    kernels = []
    for number, (kind, shape, members) in enumerate(found):
        first = members[0]
        op, a, _, c, _ = table[first]
        elements, read, written, name = 1, 0, 0, ""
        work = sum(done[i] for i in members)
        share = sum(costs[i] for i in members) / total
        if kind == "vector":
            elements = math.prod(shape)
            work = work // elements if elements else 0
            outside = {v for i in members for v in _read(code, ops, i) if kernel_of.get(v) != number}
            read = sum(_itemsize(code, v) for v in outside)
            written = sum(_itemsize(code, i) for i in members if i in stored)
        elif kind == "pack":
            elements = len(operands(code, first)) - (a >= 0)
        elif kind == "scatter":
            elements = _size(code, c if op == Op.PUT else a)
        elif op == Op.CALL and bodies(code.calls[a]):
            kind, elements = "loop", sum(times for times, _ in bodies(code.calls[a]))
            work //= elements
        elif kind in ("call", "native"):
            share = None if op == Op.CALL else share
            name = code.calls[a].name if op == Op.CALL else name_of(op)
        kernels.append(Kernel(kind, members, elements, work, read, written, share, name))
    return Schedule(code, kernels, registers, nbytes)


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


def _stored(code, ops, kernel_of):
    """Return the arrays that are stored to memory: those read by other kernels or the caller, and results of PLACE."""
    stored = set(code.outputs)
    for i in range(len(ops)):
        for v in operands(code, i):
            if kernel_of.get(i, -1) != kernel_of.get(v):
                stored.add(v)
    stored.update(i for i, op in enumerate(ops) if op == Op.PLACE)
    return {v for v in stored if kind_of(code, v)[1]}


# ---------------------------------------------------------------------------------------------- counts


def operations(code: Listing) -> list[int]:
    """Return the number of scalar operations of each instruction; calls and data movement have none."""
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
    alive = peak = 0
    sizes = {}
    for i, op in enumerate(ops):
        if op in _STORED and i in last:
            sizes[i] = _size(code, i) * _itemsize(code, i)
            alive += sizes[i]
            peak = max(peak, alive)
        alive -= sum(sizes.pop(v, 0) for v in {*reads[i]} if last[v] == i)
    return peak


def _size(code, i):
    return math.prod(kind_of(code, i)[1])


def _itemsize(code, i):
    return kind_of(code, i)[0].itemsize
