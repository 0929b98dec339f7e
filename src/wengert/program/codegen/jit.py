"""Compiles VM kernels to machine code: the "llvm" tier.

Scalar and vector kernels become statements, by the formulas of `wengert.program.codegen.kernels`; these are compiled to
functions of the slots and the array addresses.
Kernels that differ only in their arrays share a function.
The VM runs all other kernels, and calls a compiled function as one kernel.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from wengert.program.codegen import llvm_jit
from wengert.program.codegen.llvm_function import Module
from wengert.program.codegen.llvm_jit import Refused
from wengert.program.codegen.scalar_code import ScalarCode, ScalarWriter
from wengert.program.codegen.vector_kernel import VectorKernel
from wengert.program.codegen.vm_kernels import Kernels

__all__ = ["Kernels", "Report", "compile_kernels"]


@dataclasses.dataclass
class Report:
    """Result of compilation: kernels compiled, scalar instructions emitted, and reasons why others were refused."""

    compiled: int = 0
    emitted: int = 0
    refused: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    is_from_disk: bool = False


def compile_kernels(given: Kernels, report: Report) -> tuple[list, int, object]:
    """Compile kernels where possible, and replace them by the compiled functions.

    Return the kernels, the number of workspace slots that the functions need, and the object that owns the code.
    A function is a tuple ``("compiled", address, table, work, dims, sums, block)``; the last three describe a vector
    kernel, and are empty for scalar code.
    """
    llvm_jit.llvm()  # raises ImportError if llvmlite is missing
    groups = [given.kernels[i:j] for i, j in _groups(given.kernels)]
    refused: dict = {}
    while (built := _build(given, groups, refused)) is None:
        pass
    module, functions, scalar_code = built
    report.refused += dict.fromkeys(refused.values())
    if not any(functions):
        return given.kernels, 0, None
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
    report.emitted = scalar_code.emitted
    return found, scalar_code.count if scalar_code.needed else 0, code


def _build(given, groups, refused):
    """Return a module, the function and table of each group of kernels, and the scalar code.

    Return None if one more group of scalar kernels is refused: the caller retries, since the other groups must then
    read its results from slots.
    """
    module = Module()
    functions: list = []
    shared: dict = {}
    try:
        scalar_code = ScalarCode(given, groups, refused)
    except Refused:
        return None
    writer = ScalarWriter(given, scalar_code)
    for i, (group, parts) in enumerate(zip(groups, scalar_code.groups)):
        functions.append(None)
        try:
            if parts is not None:
                with module.function() as made:
                    writer.write(made, parts)
                functions[i] = made.name, (), ([], [], 0)
            elif group[0][0] == "vector" and i not in refused:
                vector = VectorKernel(given, *group[0][1:])
                if vector.key not in shared:
                    with module.function() as made:
                        vector.write(made)
                    shared[vector.key] = made.name
                functions[i] = shared[vector.key], vector.table, vector.blocks
        except Refused as reason:
            refused[i] = str(reason)
            if parts is not None:
                return None
    return module, functions, scalar_code


def _groups(kernels):
    """Yield ranges of kernels that become one function: a vector kernel, or scalar kernels and their stores."""
    first = 0
    while first < len(kernels):
        last = first + 1
        if kernels[first][0] == "scalar":
            while last < len(kernels) and kernels[last][0] in ("scalar", "pack", "copy"):
                last += 1
            while kernels[last - 1][0] == "copy":
                last -= 1
        yield first, last
        first = last


def _work(kernel):
    """Return the number of operations, by which the VM decides whether to release the GIL."""
    kind, *facts = kernel
    if kind == "scalar":
        return facts[1]
    if kind == "vector":
        return len(facts[0]) * float(np.prod(facts[1]))
    return float(facts[-1] if kind == "copy" else len(facts[-1]))
