"""Input of the code generator: VM kernels, and the slots that they read and write."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Kernels:
    """The VM kernels of a program, as lowering emits them.

    Attributes
    ----------
    kernels : list of tuple
        Name and fields of each kernel. Python calls ("python") list the slots that they read and write; "other"
        kernels, which are never compiled, have no fields.
    constants : dict
        Value of each slot that never changes.
    results : list of int
        Slots that are outputs.
    slots : int
        Number of slots.
    opcodes : dict
        For each VM opcode, the IR opcode or a name, and the number of operands.
    chunk : int
        Elements of an array that the VM processes at a time.
    """

    kernels: list
    constants: dict
    results: list
    slots: int
    opcodes: dict
    chunk: int


def accesses(kernel, given):
    """Return the slots that a kernel reads before writing them, and the slots it writes; all slots if unknown."""
    kind, *facts = kernel
    if kind == "other":
        return range(given.slots), range(given.slots)
    if kind == "python":
        return facts[0], facts[1]
    if kind == "pack":
        return facts[2].tolist(), []
    if kind == "vector":
        return [slot for _, slot in [*facts[4], *facts[5]]], facts[6]
    return _read_and_written(facts[0], given) if kind == "scalar" else ([], [])


def _read_and_written(code, given):
    read, written = set(), set()
    code = code.tolist()
    t = 0
    while t < len(code):
        number, a, b, y = code[t]
        op, arity = given.opcodes[number]
        t += 1
        slots = [a, b][:arity]
        if arity == 3 or op == "loop":
            slots = [a, b, code[t][1] if arity == 3 else a]
            t += 1
        read.update(x for x in slots if x not in written)
        if op not in ("guard", "guard_int", "end"):
            written.add(y)
    return read, written
