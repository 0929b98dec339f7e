"""Compiles VM instructions to machine code: the "llvm" tier.

Instructions on scalars and arrays become statements, by the formulas of `wengert.program.codegen.kernels`; these are
compiled to functions of the slots and the array addresses.
Instructions that differ only in their arrays share a function.
All other instructions stay with the VM, which calls a compiled function as one instruction.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from wengert.program.codegen import llvm_jit
from wengert.program.codegen.llvm_function import Module
from wengert.program.codegen.llvm_jit import Refused
from wengert.program.codegen.scalar_steps import ScalarSteps, ScalarWriter
from wengert.program.codegen.vector_steps import VectorStep
from wengert.program.codegen.vm_steps import Steps

__all__ = ["Report", "Steps", "compile_steps"]


@dataclasses.dataclass
class Report:
    """Result of compilation: instructions compiled, scalar operations emitted, and reasons for the others."""

    compiled: int = 0
    emitted: int = 0
    refused: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    is_from_disk: bool = False


def compile_steps(given: Steps, report: Report) -> tuple[list, int, object]:
    """Replace the instructions that can be compiled by functions.

    Return the instructions, the number of workspace slots that the functions need, and the object that owns the code.
    A function is a tuple ``("compiled", address, table, work, dims, sums, block)``; the last three are those of a
    vector instruction, and empty for scalar code.
    """
    llvm_jit.llvm()  # raises ImportError if llvmlite is missing
    groups = [given.steps[i:j] for i, j in _groups(given.steps)]
    refused: dict = {}
    while (built := _build(given, groups, refused)) is None:
        pass
    module, functions, numbers = built
    report.refused += dict.fromkeys(refused.values())
    if not any(functions):
        return given.steps, 0, None
    code = llvm_jit.Code(str(module), module.names, module.externals)
    report.seconds, report.is_from_disk = code.seconds, code.is_from_disk
    addresses = dict(zip(module.names, code.addresses))
    found = []
    for group, function in zip(groups, functions):
        if function is None:
            found += group
        else:
            report.compiled += len(group)
            name, table, blocks = function
            found.append(("compiled", addresses[name], table, sum(map(_work, group)), *blocks))
    report.emitted = numbers.emitted
    return found, numbers.count if numbers.needed else 0, code


def _build(given, groups, refused):
    """Return a module, for each group of instructions its function and table, and the scalar code.

    None if another group of scalar instructions is refused: the caller retries, since other groups must then read its
    results from slots.
    """
    module = Module()
    functions: list = []
    shared: dict = {}
    try:
        numbers = ScalarSteps(given, groups, refused)
    except Refused:
        return None
    writer = ScalarWriter(given, numbers)
    for i, (group, lists) in enumerate(zip(groups, numbers.groups)):
        functions.append(None)
        try:
            if lists is not None:
                with module.function() as made:
                    writer.write(made, lists)
                functions[i] = made.name, (), ([], [], 0)
            elif group[0][0] == "vector" and i not in refused:
                vector = VectorStep(given, *group[0][1:])
                if vector.key not in shared:
                    with module.function() as made:
                        vector.write(made)
                    shared[vector.key] = made.name
                functions[i] = shared[vector.key], vector.table, vector.blocks
        except Refused as reason:
            refused[i] = str(reason)
            if lists is not None:
                return None
    return module, functions, numbers


def _groups(steps):
    """Yield ranges of instructions that become one function: a vector instruction, or scalar code and its stores."""
    first = 0
    while first < len(steps):
        last = first + 1
        if steps[first][0] == "scalar":
            while last < len(steps) and steps[last][0] in ("scalar", "pack", "copy"):
                last += 1
            while steps[last - 1][0] == "copy":
                last -= 1
        yield first, last
        first = last


def _work(step):
    """Return the number of operations, by which the VM decides whether to release the GIL."""
    kind, *facts = step
    if kind == "scalar":
        return facts[1]
    if kind == "vector":
        return len(facts[0]) * float(np.prod(facts[1]))
    return float(facts[-1] if kind == "copy" else len(facts[-1]))
