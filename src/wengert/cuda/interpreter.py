"""Interpreter kernel: executes any body from a table of statements, all threads in lockstep.

It runs programs that are too long to be compiled, or that run once. Values that compiled code keeps in registers are
stored in memory slots here, separately for each thread. A slot is reused when its value is dead.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from wengert.cuda import binaries
from wengert.cuda.codegen import Body, declaring, integers_and_pointers, library
from wengert.cuda.toolkit import numba_cuda
from wengert.program.codegen import kernels
from wengert.program.codegen.llvm_ir import emit_statement

#: opcodes of the table, see `Tables`
LOAD, STORE, CHECK = range(3)
OPCODES = {name: i for i, name in enumerate(kernels.PRIMITIVES, 3)}


@dataclasses.dataclass(frozen=True)
class Tables:
    """A body as data for the interpreter, which needs `slots` of memory per thread.

    A row of `code` has an opcode, the slot of the result, and three operands: slots, or ``~i`` for constant i. Other
    operands: LOAD: array and element; STORE: value, array and element; CHECK: flag, array and number of the guard.
    """

    code: np.ndarray
    constants: np.ndarray
    slots: int


def tables(body: Body) -> Tables:
    """Convert a body to tables, with linear-scan allocation of slots."""
    order, names = body.order, body.arrays()
    last = {x: i for i, (_, (name, *operands)) in enumerate(order) if name in kernels.ROWS for x in operands}
    kept = {v for values in [*body.results, body.flags] for v in values if v is not None}
    place: dict = {}
    constants: list = []
    free: list = []
    slots = 0
    code: list = []
    for i, (v, (name, *operands)) in enumerate(order):
        if name in ("constant", "flag"):
            constants.append(float(operands[0]))
            place[v] = ~(len(constants) - 1)
            continue
        given = [place[x] for x in operands] if name in kernels.ROWS else operands
        if name in kernels.ROWS:
            free += [place[x] for x in {*operands} if last[x] == i and x not in kept and place[x] >= 0]
        if not free:
            free.append(slots)
            slots += 1
        place[v] = free.pop()
        opcode = OPCODES[name] if name in kernels.ROWS else LOAD
        code.append([opcode, place[v], *given, *[0] * (3 - len(given))])
    for number, values in enumerate(body.results):
        array = names.index(f"y{number}")
        code += [[STORE, 0, place[v], array, k] for k, v in enumerate(values) if v is not None]
    if body.flags:
        constants.append(0.0)  # the first check always fails, to initialise the status to 0: no guard failed
        checks = [(0, ~(len(constants) - 1)), *[(i, place[v]) for i, v in reversed([*enumerate(body.flags, 1)])]]
        code += [[CHECK, 0, flag, len(names) - 1, i] for i, flag in checks]
    return Tables(np.array(code, dtype=np.int32).reshape(-1, 5), np.array(constants, dtype=body.dtype), slots)


def strides(body: Body, n: int, layouts: str = "") -> np.ndarray:
    """Return a row per array: 0, to be replaced by its address, and strides between points and between elements."""
    names = body.arrays()
    sizes = [int(np.prod(shape, dtype=int)) for shape in [*body.inputs, *body.outputs]]
    found = []
    for name, letter, size in zip(names, layouts or "C" * len(names), [*sizes, 1]):
        step = (1, 0) if name == "status" else {"C": (size, 1), "F": (1, n), "S": (0, 1)}[letter]
        found.append((0, *step))
    return np.array(found, dtype=np.int64)


#: each thread processes every `threads`-th point (a grid-stride loop)
SOURCE = """
def kernel(n, count, code, constants, arrays, scratch):
    thread = {thread}
    threads = {threads}
    p = thread
    while p < n:
        for i in range(count):
            step(i, p, thread, threads, code, constants, arrays, scratch)
        p += threads
"""


def kernel(dtype, target: str = "cuda"):
    """Return the interpreter ``kernel(n, count, code, constants, arrays, scratch)``, for "cuda" or "cpu".

    `arrays` are the `strides` with addresses filled in; `scratch` holds ``slots`` values for each thread.
    """
    dtype = np.dtype(dtype)
    if target == "cpu":
        import numba

        space = {"step": _step(dtype, target)}
        exec(SOURCE.format(thread="0", threads="1"), space)
        return numba.njit(error_model="numpy")(space["kernel"])
    space = {"step": _step(dtype, target), "cuda": numba_cuda()}
    exec(SOURCE.format(thread="cuda.grid(1)", threads="cuda.gridsize(1)"), space)
    return space["kernel"]


def signature(dtype) -> tuple:
    """Return the Numba types of the interpreter's arguments."""
    from numba.cuda import types

    real = types.CPointer(types.float64 if np.dtype(dtype) == np.float64 else types.float32)
    integers = types.CPointer(types.int32), types.CPointer(types.int64)
    return (types.int64, types.int64, integers[0], real, integers[1], real)


def binary(dtype, cc: tuple = (9, 0)) -> binaries.Binary:
    """Return the compiled interpreter for a compute capability."""
    name = np.dtype(dtype).name
    facts = {"name": "interpreter", "dtype": name, "statements": len(OPCODES), "cost": 0}
    return binaries.binary(f"interpreter {name}", lambda: (kernel(dtype), signature(dtype)), cc, **facts)


def _step(dtype, target):
    """Return an intrinsic that executes one statement for one thread: a switch with a case for each opcode."""
    types, declared, prefix = declaring(target)

    @declared
    def step(context, i, p, thread, threads, code, constants, arrays, scratch):
        def lowered(context, builder, kinds, args):
            _emit_step(builder, dtype, prefix, *integers_and_pointers(context, builder, kinds.args, args, 4))
            return context.get_dummy_value()

        return types.void(i, p, thread, threads, code, constants, arrays, scratch), lowered

    return step


def _emit_step(builder, dtype, prefix, i, p, thread, threads, code, constants, arrays, scratch):
    from llvmlite import ir

    real = ir.DoubleType() if dtype == np.float64 else ir.FloatType()
    i64, i32, zero = ir.IntType(64), ir.IntType(32), ir.Constant(real, 0.0)
    call = library(prefix, real)

    def whole(x):
        return ir.Constant(i64, x)

    def column(k):
        where = builder.add(builder.mul(i, whole(5)), whole(k))
        return builder.sext(builder.load(builder.gep(code, [where])), i64)

    def slot(k):
        return builder.gep(scratch, [builder.add(builder.mul(k, threads), thread)])

    def operand(k):
        is_slot = builder.icmp_signed(">=", k, whole(0))
        return builder.load(builder.select(is_slot, slot(k), builder.gep(constants, [builder.not_(k)])))

    def element(array, k, kind):
        address, step, inner = (
            builder.load(builder.gep(arrays, [builder.add(builder.mul(array, whole(3)), whole(j))])) for j in range(3)
        )
        where = builder.add(builder.mul(p, step), builder.mul(k, inner))
        return builder.gep(builder.inttoptr(address, kind.as_pointer()), [where])

    op, y, a, b, c = map(column, range(5))
    end = builder.append_basic_block("end")
    switch = builder.switch(op, end)

    def case(number):
        block = builder.append_basic_block()
        switch.add_case(whole(number), block)
        builder.position_at_end(block)

    case(LOAD)
    builder.store(builder.load(element(a, b, real)), slot(y))
    builder.branch(end)
    case(STORE)
    builder.store(operand(a), element(b, c, real))
    builder.branch(end)
    case(CHECK)
    with builder.if_then(builder.fcmp_ordered("==", operand(a), zero)):
        builder.store(builder.trunc(c, i32), element(b, whole(0), i32))
    builder.branch(end)
    for name, opcode in OPCODES.items():
        row = kernels.ROWS[name]
        case(opcode)
        given = [operand(k) for k in (a, b, c)[: row.value.python.count("{}")]]
        if name == "where":
            given[0] = builder.fcmp_unordered("!=", given[0], zero)
        elif name.startswith("logical"):
            given = [builder.fcmp_unordered("!=", x, zero) for x in given]
        found = emit_statement(builder, row.value, given, real, call)
        builder.store(builder.uitofp(found, real) if row.is_flag else found, slot(y))
        builder.branch(end)
    builder.position_at_end(end)
