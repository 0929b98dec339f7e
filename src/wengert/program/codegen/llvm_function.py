"""LLVM functions for VM instructions: modules, functions with loops and addressing, and blocks of statements."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable

from wengert.program.codegen import llvm_jit
from wengert.program.codegen.llvm_ir import NAMES, Statements, emit_statements
from wengert.program.codegen.llvm_jit import Refused
from wengert.program.ir.opcodes import Op


class Module:
    """Module of functions ``int32 f(double *slots, char **where, int32 *table)``; they return -1 or a failed guard."""

    def __init__(self):
        from llvmlite import ir

        self.ir = ir.Module()
        self.names: list = []
        self.count = itertools.count()

    @contextlib.contextmanager
    def function(self):
        """Create a function; it is removed again if the body raises `Refused`."""
        made = Function(self.ir, f"kernel_{next(self.count)}")
        try:
            yield made
        except Refused:
            made.remove()
            raise
        made.close()
        self.names.append(made.name)

    @property
    def externals(self):
        """Names of the C library functions that the module calls."""
        return [f.name for f in self.ir.functions if f.is_declaration and not f.name.startswith("llvm.")]

    def __str__(self):
        return str(self.ir)


class Function:
    """A function of an LLVM module, made of parts that run one after another, with the LLVM types that it uses."""

    def __init__(self, module, name):
        from llvmlite import ir

        self.ir, self.module, self.name = ir, module, name
        self.i64, self.i32, self.i8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)
        self.double, self.pointer = ir.DoubleType(), ir.PointerType()
        self.parts: list = []
        self.new_part()

    def new_part(self):
        """Start a new part, an internal function that runs after the previous ones."""
        if self.parts:
            self.end()
        kind = self.ir.FunctionType(self.i32, [self.pointer] * 3)
        made = self.ir.Function(self.module, kind, f"{self.name}_{len(self.parts)}")
        made.linkage = "internal"
        for x in made.args:
            x.add_attribute("noalias")
        self.parts.append(made)
        self.slots, self.where, self.table = made.args
        self.builder = self.ir.IRBuilder(made.append_basic_block())
        self.arrays: dict = {}

    def end(self):
        self.builder.ret(self.ir.Constant(self.i32, -1))

    def close(self):
        """Emit the function itself, which calls its parts and returns early if a guard fails."""
        self.end()
        kind = self.ir.FunctionType(self.i32, [self.pointer] * 3)
        made = self.ir.Function(self.module, kind, self.name)
        builder = self.ir.IRBuilder(made.append_basic_block())
        for part in self.parts:
            failed = builder.call(part, made.args)
            with builder.if_then(builder.icmp_signed(">=", failed, self.ir.Constant(self.i32, 0)), likely=False):
                builder.ret(failed)
        builder.ret(self.ir.Constant(self.i32, -1))

    def remove(self):
        for part in self.parts:
            del self.module.globals[part.name]

    # ------------------------------------------------------------------------------------------ addressing

    def int64(self, x):
        return self.ir.Constant(self.i64, x)

    def array(self, number):
        """Return the address of the first element of an array."""
        if number not in self.arrays:
            with self.builder.goto_entry_block():
                self.arrays[number] = self.address(self.int64(number))
        return self.arrays[number]

    def address(self, number):
        return self.builder.load(self.at(self.where, number, self.pointer), typ=self.pointer)

    def at(self, pointer, place, kind=None):
        """Return the address of an element of a type; `place` counts elements (bytes if the type is i8)."""
        place = self.int64(place) if isinstance(place, int) else place
        return self.builder.gep(pointer, [place], source_etype=kind or self.double)

    def entry(self, number):
        place = self.at(self.table, number, self.i32)
        return self.builder.sext(self.builder.load(place, typ=self.i32), self.i64)

    def slot(self, number):
        return self.builder.load(self.at(self.slots, number), typ=self.double)

    @contextlib.contextmanager
    def loop(self, times: int, step: int = 1):
        """Append a loop around the code of a ``with`` block; yield its induction variable, which grows by `step`."""
        with self.loop_range(self.int64(0), self.int64(times * step), step) as index:
            yield index

    @contextlib.contextmanager
    def loop_range(self, start, stop, step: int = 1):
        """Append a loop from `start` to `stop`, which must be larger, because the loop condition is tested last."""
        builder = self.builder
        before = builder.block
        body = builder.append_basic_block()
        builder.branch(body)
        builder.position_at_end(body)
        index = builder.phi(self.i64)
        index.add_incoming(start, before)
        yield index
        after = builder.add(index, self.int64(step))
        index.add_incoming(after, builder.block)
        end = builder.append_basic_block()
        builder.cbranch(builder.icmp_signed("<", after, stop), body, end)
        builder.position_at_end(end)

    def affine(self, base: int, steps: tuple, indices: list):
        """Emit base + steps . indices, where `indices` are induction variables."""
        found = None
        for step, index in zip(steps, indices):
            if step:
                moved = index if step == 1 else self.builder.mul(index, self.int64(step))
                found = moved if found is None else self.builder.add(found, moved)
        return self.int64(base) if found is None else self.builder.add(found, self.int64(base)) if base else found


class _Statements(Statements):
    """Statements that match the VM bit by bit: a strong product with 0 is +0, never -0, so it must not be folded."""

    def _known(self, name, operands):
        return None if name == "strong" else super()._known(name, operands)


class Block:
    """Statements on scalars or vectors that are appended to a function as they are created."""

    def __init__(self, function: Function, real, call: Callable = llvm_jit.call):
        self.of = _Statements()
        self.function = function
        self.real = real
        self.call = call
        self.found: dict = {}
        self.done = 0

    def define(self, key, make: Callable, is_flag=False):
        """Return a number whose LLVM value `make` emits, once for each key."""
        self.flush()
        number = self.of._statement(("given", *key), is_flag=is_flag)
        if number.v not in self.found:
            self.found[number.v] = make()
            self.done = number.v + 1
        return number

    def flush(self):
        new = [(v, self.of._statements[v]) for v in range(self.done, self.of.count)]
        self.done = self.of.count
        emit_statements(self.function.builder, new, self.found, self.real, self.call)

    def flag(self, number):
        number = self.of.as_flag(number)
        self.flush()
        return self.found[number.v]

    def double(self, number):
        """Return a number as an LLVM value of type double, or of vector type."""
        number = self.of.as_float(number)
        self.flush()
        return self.found[number.v]

    def apply(self, op, operands):
        """Apply an IR instruction to numbers; operands that it does not read may be None."""
        of, a = self.of, operands[0]
        if op == "cube":
            return of.as_symbol(a * a * a)
        if op == "fourth":
            return of.as_symbol((a * a) * (a * a))
        if op == "root":
            return of.apply("**", a, 0.5)
        if op in NAMES:
            return of.apply(NAMES[op], *operands)
        opcode, side = divmod(op - Op.PARTIAL, 2)
        return of.partial(opcode, side, *[None if x is None else of.as_float(x) for x in operands])
