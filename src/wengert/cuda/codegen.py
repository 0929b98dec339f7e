"""Code generation for kernels: scalar IR to statements, and statements to Python or LLVM IR.

A `Body` holds the statements of one kernel in static single assignment form, without common subexpressions.
It is emitted in two forms: as a Python function on NumPy arrays, which runs anywhere and in Numba's simulator, and as
LLVM IR in a single Numba intrinsic, for CUDA and for the CPU.
The intrinsic avoids Numba's type inference and lowering of thousands of lines, which takes seconds to minutes.

Numba is imported here only when code is generated.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from wengert.cuda.scalars import constants, interpreted
from wengert.program.codegen import kernels
from wengert.program.codegen.llvm_ir import Statements, emit_statements, external


class Body(Statements):
    """Statements that one thread executes, in order, on the inputs of one point.

    `inputs` and `outputs` hold the shapes at one point; for each of them, the kernel takes an array with a row per
    point. `guards` are the locations where the function branches on a scalar; `status` gets the number of the guard
    that fails at a point.
    """

    def __init__(self, name: str, dtype="float64"):
        super().__init__(dtype)
        self.name = name
        self.inputs: list = []
        self.outputs: list = []
        self.results: list = []  # for each output, the statements of its elements
        self.flags: dict = {}  # source location of each guard, by its statement

    # ------------------------------------------------------------------------------------------ building

    def input(self, shape: tuple):
        """Add an input; return it as a scalar or an array of scalars."""
        number = len(self.inputs)
        self.inputs.append(shape)
        found = np.empty(shape, object)
        found.reshape(-1)[:] = [self._statement(("input", number, k)) for k in range(found.size)]
        return found if shape else found[()]

    def output(self, y):
        """Add an output: a scalar or an array of scalars, with None for elements that another kernel writes."""
        self.outputs.append(np.shape(y))
        self.results.append([None if v is None else self.as_float(v).v for v in np.asarray(y, object).flat])

    def outputs_of(self, code, inputs: list) -> list:
        """Evaluate an IR on scalars of this body; its guards become guards of the body."""
        found, guards = interpreted(code, [constants(x, self) for x in inputs], self)
        for flag, place in guards:
            if self.value(flag) is not True and flag.v not in self.flags:
                self.flags[flag.v] = place
        return found

    @property
    def guards(self) -> list[str]:
        return [*self.flags.values()]

    # ------------------------------------------------------------------------------------------ properties

    @functools.cached_property
    def order(self) -> list:
        """Return pairs of an index and a statement in execution order, without dead code."""
        needed = {*self.flags}.union(*self.results) - {None}
        found = []
        for i in range(len(self._statements) - 1, -1, -1):
            if i in needed:
                name, *operands = self._statements[i]
                found.append((i, self._statements[i]))
                if name in kernels.ROWS:
                    needed.update(operands)
        return found[::-1]

    def interleave(self, count: int) -> None:
        """Move each statement to directly after its last dependency among the first `count` statements.

        Tangents then follow the values that they belong to. The new order is kept if it has fewer live values.
        """
        place: dict = {}
        for v, (name, *operands) in self.order:
            depends = name in kernels.ROWS and v >= count
            place[v] = max((place[x] for x in operands), default=v) if depends else v if name != "constant" else -1
        alive, order = self.alive(), self.order
        self.order = sorted(order, key=lambda item: (place[item[0]], item[0]))
        if self.alive() >= alive:
            self.order = order

    def alive(self) -> int:
        """Return the maximum number of live values."""
        is_kept = {v: name in kernels.ROWS and not kernels.ROWS[name].is_flag for v, (name, *_) in self.order}
        last = {x: i for i, (_, (name, *operands)) in enumerate(self.order) if name in kernels.ROWS for x in operands}
        count = most = 0
        for i, (v, (name, *operands)) in enumerate(self.order):
            count += is_kept[v] and v in last
            most = max(most, count)
            if name in kernels.ROWS:
                count -= sum(last[x] == i and is_kept[x] for x in {*operands})
        return most

    def __len__(self):
        """Return the number of statements other than inputs and constants."""
        return sum(name in kernels.ROWS for _, (name, *_) in self.order)

    def cost(self) -> int:
        """Return the approximate number of floating-point instructions per point."""
        rows = [kernels.ROWS.get(name) for _, (name, *_) in self.order]
        return sum(row.value.cost for row in rows if row is not None)

    def arrays(self) -> list[str]:
        """Return the names of the array arguments of the kernel, in order."""
        found = [f"x{i}" for i in range(len(self.inputs))] + [f"y{i}" for i in range(len(self.outputs))]
        return [*found, "status"] if self.guards else found

    # ------------------------------------------------------------------------------------------ Python

    def python(self, layouts: str = "") -> str:
        """Return the source of a Python function ``body(n, p, x0, ..., y0, ..., status)`` on NumPy arrays.

        `p` is the index of a point, or a slice of points.
        """
        shared = dict(zip(self.arrays(), layouts))
        place = lambda array, k: f"{array}[{k}]" if shared.get(array) == "S" else f"{array}[p, {k}]"
        lines = [f"def body(n, p, {', '.join(self.arrays())}):"]
        for v, (name, *operands) in self.order:
            if name == "constant":
                text = f"dtype({operands[0]!r})"
            elif name == "flag":
                text = f"np.bool({operands[0]})"
            elif name == "input":
                text = place(f"x{operands[0]}", operands[1])
            else:
                text = kernels.ROWS[name].value.python.format(*[f"v{x}" for x in operands])
            lines.append(f"v{v} = {text}")
        for i, values in enumerate(self.results):
            lines += [f"{place(f'y{i}', k)} = v{v}" for k, v in enumerate(values) if v is not None]
        if self.guards:
            status = "0"
            for number, flag in reversed([*enumerate(self.flags, 1)]):
                status = f"np.where(v{flag}, {status}, {number})"
            lines.append(f"status[p] = {status}")
        return "\n    ".join([*lines, "return"]) + "\n"

    def function(self, layouts: str = ""):
        """Compile the source returned by `python`."""
        import scipy.special

        space = {"np": np, "special": scipy.special, "dtype": self.dtype.type, "product_error": product_error}
        space |= {"strong": strong, "inf": np.inf, "nan": np.nan}
        exec(self.python(layouts), space)
        return space["body"]

    # ------------------------------------------------------------------------------------------ LLVM IR

    def emit(self, builder, point, n, pointers: dict, layouts: str, prefix: str) -> None:
        """Append the body to a function of LLVM IR.

        `point` and `n` are values of type i64; `pointers` holds the address of the first element of each array, by
        name. `layouts` has a letter for each array: C for a row of elements per point, F for a row of points per
        element, S for elements shared by all points. `prefix` precedes the names of C library functions: that
        of libdevice, or empty.
        """
        from llvmlite import ir

        real = ir.DoubleType() if self.dtype == np.float64 else ir.FloatType()
        i64, i32 = ir.IntType(64), ir.IntType(32)
        letters = dict(zip(self.arrays(), layouts))

        def address(array, k, size):
            if letters[array] == "S":
                offset = ir.Constant(i64, k)
            elif letters[array] == "C":
                offset = builder.add(builder.mul(point, ir.Constant(i64, size)), ir.Constant(i64, k))
            else:
                offset = builder.add(builder.mul(n, ir.Constant(i64, k)), point)
            return builder.gep(pointers[array], [offset])

        # store results as soon as they are computed, to free their registers
        places: dict = {}
        for i, values in enumerate(self.results):
            for k, v in enumerate(values):
                places.setdefault(v, []).append((f"y{i}", k, len(values)))
        found: dict = {}
        call = library(prefix, real)
        for v, (name, *operands) in self.order:
            if name == "input":
                array, k = operands
                found[v] = builder.load(address(f"x{array}", k, math.prod(self.inputs[array])))
            else:
                emit_statements(builder, [(v, (name, *operands))], found, real, call)
            for place in places.get(v, ()):
                builder.store(found[v], address(*place))
        if self.guards:
            status = ir.Constant(i32, 0)
            for number, flag in reversed([*enumerate(self.flags, 1)]):
                status = builder.select(found[flag], status, ir.Constant(i32, number))
            builder.store(status, builder.gep(pointers["status"], [point]))


def library(prefix: str, real) -> Callable:
    """Return a function that emits calls of C library or libdevice functions for a floating-point type."""
    suffix = "" if str(real) == "double" else "f"
    return lambda builder, name, operands: external(builder, prefix + name + suffix, operands)


def strong(a, b):
    """Multiply; a factor of exactly 0 gives 0."""
    product = np.multiply(a, b)
    return np.where((a == 0.0) | (b == 0.0), product.dtype.type(0.0), product)[()]


def product_error(a, b, product):
    """Return the exact rounding error of a product (Dekker 1971): NumPy has no FMA. doi:10.1007/BF01397083"""
    if np.result_type(a, b) == np.float32:
        return (np.float64(a) * np.float64(b) - np.float64(product)).astype(np.float32)
    with np.errstate(all="ignore"):
        (ah, al), (bh, bl) = _halves(a), _halves(b)
        return ((ah * bh - product) + ah * bl + al * bh) + al * bl


def _halves(a):
    """Split `a` into two numbers of half the precision."""
    high = a * 134217729.0
    high = high - (high - a)
    return high, a - high


# ---------------------------------------------------------------------------------------------- Numba intrinsics


def declaring(target: str) -> tuple:
    """Return Numba's types, its `intrinsic`, and the prefix of C library functions, for "cuda" or "cpu"."""
    if target == "cuda":
        from numba.cuda import types
        from numba.cuda.extending import intrinsic

        return types, intrinsic, "__nv_"
    from numba import types
    from numba.extending import intrinsic

    return types, intrinsic, ""


def integers_and_pointers(context, builder, kinds, args, count: int) -> list:
    """Convert the first `count` arguments of an intrinsic to 64-bit integers, the others to addresses."""
    from llvmlite import ir

    i64 = ir.IntType(64)
    found = [builder.sext(x, i64) if x.type.width < 64 else x for x in args[:count]]
    for kind, x in zip(kinds[count:], args[count:]):
        is_array = hasattr(kind, "layout")
        found.append(context.make_array(kind)(context, builder, x).data if is_array else x)
    return found


def intrinsic(body: Body, layouts: str, target: str):
    """Return the intrinsic ``body(n, p, x0, ..., status)`` for code compiled by Numba, for "cuda" or "cpu"."""
    types, declared, prefix = declaring(target)
    names = body.arrays()

    def typed(context, *kinds):
        def lowered(context, builder, signature, args):
            n, p, *pointers = integers_and_pointers(context, builder, signature.args, args, 2)
            body.emit(builder, p, n, dict(zip(names, pointers)), layouts, prefix)
            return context.get_dummy_value()

        return types.void(*kinds), lowered

    # an intrinsic must name as many parameters as its typing function
    space = {"typed": typed}
    given = ", ".join(["n", "p", *names])
    exec(f"def body(context, {given}):\n    return typed(context, {given})\n", space)
    return declared(space["body"])


def kernel_source(body: Body) -> str:
    """Return the source of the kernel, in which each thread runs the body on its point."""
    given = ", ".join(body.arrays())
    return f"def kernel(n, {given}):\n    p = cuda.grid(1)\n    if p < n:\n        body(n, p, {given})\n"
