"""Input of the code generator: VM instructions, and the slots they read and write."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Steps:
    """The VM instructions of a program, as lowering emits them.

    Attributes
    ----------
    steps : list of tuple
        Name and fields of each instruction. Python calls ("python") list the slots they read and write; "other"
        instructions, which are never compiled, have no fields.
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

    steps: list
    constants: dict
    results: list
    slots: int
    opcodes: dict
    chunk: int


def reads(step, given):
    """Return the slots that an instruction reads before it writes them; all slots if unknown."""
    kind, *facts = step
    if kind == "other":
        return range(given.slots)
    if kind == "python":
        return facts[0]
    if kind == "pack":
        return facts[2].tolist()
    if kind == "vector":
        return [slot for _, slot in [*facts[4], *facts[5]]]
    return _read_and_written(facts[0], given)[0] if kind == "scalar" else []


def writes(step, given):
    """Return the slots that an instruction writes; all slots if unknown."""
    kind, *facts = step
    if kind == "other":
        return range(given.slots)
    if kind == "python":
        return facts[1]
    if kind == "vector":
        return facts[6]
    return _read_and_written(facts[0], given)[1] if kind == "scalar" else []


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
