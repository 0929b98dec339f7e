"""Kernels of a program: selects the statements that each thread executes, splits them, and compiles them.

A mode (`value`, `grad`, `jacobian`, `jvp`, `vjp`, `hvp`) combines the IR of a program and of its derivatives in one
`Body`, in which common subexpressions are computed once.
Jacobians are computed by columns in forward mode or by rows in reverse mode, whichever costs less. They are split into
several kernels if one would need more registers than a thread has.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from wengert.cuda import binaries
from wengert.cuda.codegen import Body, intrinsic, kernel_source
from wengert.cuda.scalars import scalarised
from wengert.cuda.toolkit import numba_cuda
from wengert.program.ir.ir import kind_of
from wengert.program.program import Program

#: maximum number of live values per thread, by dtype: a thread has 255 registers of 32 bits
MAX_LIVE_VALUES = {np.dtype(np.float64): 130, np.dtype(np.float32): 260}

#: maximum number of statements of a kernel that can be split; in longer ones the assembler's reordering causes spills
MAX_SPLIT_STATEMENTS = 1500

MODES = ("value", "grad", "jacobian", "jvp", "vjp", "hvp")


# ---------------------------------------------------------------------------------------------- modes


def scalarised_program(program: Program) -> Program:
    """Return the program with all arrays scalarised; cached."""
    if "scalarised" not in program._derived:
        made = program._like(program._name, scalarised(program._listing), program._result)
        made._rolls = False
        made._example = [np.array(x, dtype=float, order="C")[()] for x in program._example]
        program._derived["scalarised"] = made
    return program._derived["scalarised"]


def bodies(program: Program, mode: str = "value", argnums: int = 0, dtype="float64") -> tuple[Body, ...]:
    """Return the body of a kernel, or of several kernels that share their arrays.

    Inputs and outputs of the program are scalars or small arrays. The modes are "value": the outputs; "grad" and
    "jacobian": also the derivative with respect to the argument `argnums`; "jvp" and "vjp": value and derivative for a
    direction or cotangent, which is an additional input; "hvp": Hessian times a direction. All arrays and the
    computation are of type `dtype`.

    The kernels have the inputs and outputs of the mode's program, in its order. If there are several kernels, each
    writes its part of the last output, and the first one all other outputs.
    """
    key = "bodies", mode, argnums, np.dtype(dtype)
    if key not in program._derived:
        program._derived[key] = _bodies(scalarised_program(program), mode, argnums, dtype)
    return program._derived[key]


def _bodies(program, mode, argnums, dtype):
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: must be one of {', '.join(MODES)}")
    if mode == "jacobian":
        return _jacobian(program, argnums, dtype)
    body = Body(f"{mode} of {program._name}", dtype)
    if mode in ("value", "grad"):
        inputs = _inputs(body, program._listing)
        made = [program, program.grad(argnums)] if mode == "grad" else [program]
        found = [y for one in made for y in body.outputs_of(one._listing, inputs)]
    else:
        made = getattr(program, mode)(argnums)
        inputs = _inputs(body, made._listing)
        number = program._form.direction
        base = program.grad(argnums) if mode == "hvp" else program
        body.outputs_of(base._listing, [*inputs[:number], *inputs[number + 1 :]])
        count = body.count
        found = body.outputs_of(made._listing, inputs)
    for y in found:
        body.output(y)
    if mode in ("jvp", "hvp"):
        body.interleave(count)
    return (body,)


def _inputs(body, listing):
    return [body.input(kind_of(listing, v)[1]) for v in listing.inputs]


def _jacobian(program, argnums, dtype):
    """Return rows or columns of a Jacobian, in the smallest number of kernels whose live values fit in registers."""
    value = program._one_array("jacobian")
    shapes = [kind_of(value, v)[1] for v in (value.outputs[0], value.inputs[program._input("jacobian", argnums)])]
    m, n = (math.prod(shape) for shape in shapes)

    def part(by_rows, first, count, with_value=False):
        lines = range(first, min(first + count, m if by_rows else n))
        return _part(program, value, shapes, argnums, dtype, by_rows, lines, with_value or first == 0)

    base = part(False, 0, 0)  # value only
    single = [part(by_rows, (m if by_rows else n) // 2, 1, with_value=True) for by_rows in (False, True)]
    by_rows = m * (single[1].cost() - base.cost()) < n * (single[0].cost() - base.cost())
    most = max(1, m if by_rows else n)
    together = max(MAX_SPLIT_STATEMENTS, 2 * len(base))
    width = (together - len(base)) // max(1, len(single[by_rows]) - len(base))
    width = max(1, min(most, width))
    while part(by_rows, 0, width).alive() > MAX_LIVE_VALUES[np.dtype(dtype)] and width > 1:
        width = (width + 1) // 2
    width = -(-most // -(-most // width))  # parts of equal size
    return tuple(part(by_rows, first, width) for first in range(0, most, width))


def _part(program, value, shapes, argnums, dtype, by_rows, lines, with_value):
    """Return a body that computes some rows or columns of a Jacobian, and the value."""
    made = program.vjp(argnums) if by_rows else program.jvp(argnums)
    body = Body(f"jacobian of {program._name}", dtype)
    inputs = _inputs(body, value)
    (y,) = body.outputs_of(value, inputs)
    count = body.count
    shape = shapes[0] if by_rows else shapes[1]
    J = np.full([math.prod(shape) for shape in shapes], None)
    number = program._form.direction
    for line in lines:
        unit = [body.constant(1.0) if i == line else body.nothing for i in range(math.prod(shape))]
        direction = np.array(unit, object).reshape(shape)[()]
        _, found = body.outputs_of(made._listing, [*inputs[:number], direction, *inputs[number:]])
        J[line if by_rows else (slice(None), line)] = np.ravel(found)
    body.output(y if with_value else np.full(shapes[0], None))
    body.output(J.reshape(shapes[0] + shapes[1]))
    if not by_rows:
        body.interleave(count)
    return body


# ---------------------------------------------------------------------------------------------- kernels


def kernel(body: Body, layouts: str = "", target: str = "cuda") -> Callable:
    """Return the kernel of a body as a Python function ``kernel(n, x0, ..., y0, ..., status)``.

    `layouts` has a letter for each of ``body.arrays()``: "C", the default: a row of elements per point; "F": a row of
    points per element; "S": elements shared by all points. The targets are "cuda": a kernel for Numba, on pointers or
    contiguous arrays; "cpu": compiled for this machine, with a loop over the points; "simulator": for ``cuda.jit`` in
    Numba's simulator; "python": for whole NumPy arrays.
    """
    layouts = layouts or "C" * len(body.arrays())
    if target == "python":
        run = body.function(layouts)
        return lambda n, *arrays: run(n, slice(0, n), *arrays)
    if target == "cpu":
        import numba

        given = ", ".join(body.arrays())
        space = {"body": intrinsic(body, layouts, "cpu")}
        exec(f"def kernel(n, {given}):\n    for p in range(n):\n        body(n, p, {given})\n", space)
        return numba.njit(error_model="numpy")(space["kernel"])
    if target == "simulator":
        from numba import cuda

        space = {"cuda": cuda, "body": body.function(layouts)}
    elif target == "cuda":
        space = {"cuda": numba_cuda(), "body": intrinsic(body, layouts, "cuda")}
    else:
        raise ValueError(f"target={target!r}: must be one of cuda, cpu, simulator, python")
    exec(kernel_source(body), space)
    return space["kernel"]


def signature(body: Body) -> tuple:
    """Return the Numba types of a kernel's arguments: the number of points, and a pointer for each array."""
    from numba.cuda import types

    real = types.CPointer(types.float64 if body.dtype == np.float64 else types.float32)
    kinds = [types.CPointer(types.int32) if name == "status" else real for name in body.arrays()]
    return (types.int64, *kinds)


def ptx(body: Body, cc: tuple = (9, 0), layouts: str = "", fastmath: bool = False) -> str:
    """Compile the kernel to PTX for a compute capability; needs no GPU."""
    return binaries.ptx(kernel(body, layouts), signature(body), cc, fastmath)


def binary(body: Body, cc: tuple = (9, 0), layouts: str = "", fastmath: bool = False) -> binaries.Binary:
    """Compile and assemble the kernel for a compute capability; cached in memory and on disk."""
    layouts = layouts or "C" * len(body.arrays())
    text = repr((body.name, body.python(layouts), body.inputs, body.outputs, body.dtype.str, layouts))
    facts = {"name": body.name, "dtype": body.dtype.name, "statements": len(body), "cost": body.cost()}
    return binaries.binary(text, lambda: (kernel(body, layouts), signature(body)), cc, fastmath, **facts)


def report(body: Body, cc: tuple = (9, 0), layouts: str = "", fastmath: bool = False) -> binaries.Report:
    """Return the resources that the kernel uses at a compute capability; needs no GPU."""
    return binary(body, cc, layouts, fastmath).report
