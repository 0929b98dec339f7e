"""Input of the code generator: VM instructions, and the slots that they read and write."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass
class Steps:
    """The VM instructions of a program, as lowering emits them.

    Attributes
    ----------
    steps : list of tuple
        The name of an instruction and its fields.  Of calls of Python ("python") these are the slots that they read
        and write; "other" instructions, which stay as they are, have none.
    constants : dict
        Value of each slot that never changes.
    results : list of int
        Slots that are outputs.
    slots : int
        Number of slots.
    opcodes : dict
        For each VM opcode, the opcode of the IR or the name of what it does, and the number of operands.
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
    """Slots that an instruction reads before it writes them; all slots where that is not known."""
    kind, *facts = step
    if kind == "other":
        return range(given.slots)
    if kind == "python":
        return facts[0]
    if kind == "pack":
        return facts[2].tolist()
    if kind == "vector":
        return [slot for _, slot in [*facts[4], *facts[5]]]
    return _read_and_written(facts[0], given)[0] if kind == "numbers" else []


def writes(step, given):
    """Slots that an instruction writes; all slots where that is not known."""
    kind, *facts = step
    if kind == "other":
        return range(given.slots)
    if kind == "python":
        return facts[1]
    if kind == "vector":
        return facts[6]
    return _read_and_written(facts[0], given)[1] if kind == "numbers" else []


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
