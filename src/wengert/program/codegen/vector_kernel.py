"""Generates machine code for vector kernels: one loop, with intermediate values in registers.

Sums add in the same order as the VM, whatever the width of the vector registers.
"""

from __future__ import annotations

import contextlib

import numpy as np

from wengert.program.codegen import llvm_jit
from wengert.program.codegen.llvm_function import Block, Function
from wengert.program.codegen.llvm_jit import Refused
from wengert.program.codegen.vm_kernels import Kernels

#: number of partial sums of a reduction, equal to that of the VM on every CPU
PARTIAL_SUMS = 8

#: VM opcodes with two code records, besides those with three operands
_TWO_RECORDS = ("loop", "exact", "fold", "sum_rows", "get_rows", "put_rows", "get_bool_rows", "put_bool_rows")

#: initial values of a sum, a maximum and a minimum
_INITIAL = (0.0, -np.inf, np.inf)

#: limit on the values in registers for which two vectors are processed at a time
MAX_LIVE_FOR_TWO_VECTORS = 12


class VectorKernel:
    """A vector kernel, compiled to a loop."""

    def __init__(self, given: Kernels, code, dims, strides, walk, number, fill, sums, first, chunks, rows, _, block):
        self.given = given
        self.code, self.dims, self.strides = code.tolist(), dims, strides
        self.walks = [w for w, _ in walk]
        self.numbers = [(chunk, given.constants.get(slot)) for chunk, slot in [*number, *fill]]
        self.sums, self.live = len(sums), chunks + len(number)
        #: addresses of arrays and of slots, passed at run time so that equal code is shared
        self.table = [*[array for _, array in walk], *[slot for _, slot in [*number, *fill]], *sums]
        self.parts = self._parts()
        self.blocks = dims, sums, block
        self.has_short_rows = rows > 1 and dims[-1] < PARTIAL_SUMS // 2
        if block:  # the range of the first axis to process
            self.table += [0, 0]
        self.key = repr((self.code, dims, strides, self.walks, self.numbers, self.sums, self.parts, block))

    def _parts(self):
        """Split the code into ranges, one loop each; a range ends at a reduction whose result is read later.

        Each range lists its reductions as (function, whether there is an earlier partial result, walk of the result);
        in place of a walk, -1 - k stands for sum k.
        """
        found: list = [[0, 0, []]]
        arrays, t = dict(zip(self.walks, self.table)), 0
        while t < len(self.code):
            code, _, b, y = self.code[t]
            op, arity = self.given.opcodes[code]
            if op in ("sum", "sum_rows"):
                found[-1][2].append((0, 1, -1 - b))
            elif op == "fold" and self.code[t + 1][3] == 0:
                found[-1][2].append((b >> 1, b & 1, y))
            is_read = op == "fold" and [*arrays.values()].count(arrays[y]) > 1
            if is_read and (self.code[t + 1][3] or self.dims[-1] > self.given.chunk):
                raise Refused("reduction whose result is read in the same kernel")
            t += 2 if arity == 3 or op in _TWO_RECORDS else 1
            found[-1][1] = t
            if is_read:
                found.append([t, t, []])
        return found

    def _read_and_written(self, first, last):
        """Return the slots that a range of the code reads before it writes them, and the slots it writes."""
        read, written, t = set(), set(), first
        while t < last:
            code, a, b, y = self.code[t]
            op, arity = self.given.opcodes[code]
            if op != "one":
                slots = [a] if arity == 1 or op in _TWO_RECORDS or op == "get" else [a, b]
                read |= {*slots, *([self.code[t + 1][1]] if arity == 3 else [])} - written
                written |= {y} if op not in ("sum", "sum_rows", "fold") else set()
            t += 2 if arity == 3 or op in _TWO_RECORDS else 1
        return read, written

    def write(self, function: Function) -> None:
        self.function = f = function
        firsts = [f.address(f.entry(i)) for i in range(len(self.walks))]
        read = len(firsts)
        numbers = {
            chunk: f.slot(f.entry(read + i)) if x is None else f.ir.Constant(f.double, x)
            for i, (chunk, x) in enumerate(self.numbers)
        }
        self.totals = [f.at(f.slots, f.entry(read + len(self.numbers) + i)) for i in range(self.sums)]
        self.buffers = self.allocate_buffers()
        for total in self.totals:
            f.builder.store(f.ir.Constant(f.double, 0.0), total)
        if 0 in self.dims:
            return
        *outer, length = self.dims
        self.splats: dict = {}
        for width in {PARTIAL_SUMS, self.width(length)}:
            self.splats[width] = {chunk: self.splat(x, width) for chunk, x in numbers.items()}
        span = [f.entry(len(self.table) - 2 + i) for i in (0, 1)] if self.blocks[-1] else None
        with contextlib.ExitStack() as stack:
            loops = [f.loop(n) if d or not span else f.loop_range(*span) for d, n in enumerate(outer)]
            indices = [stack.enter_context(loop) for loop in loops]
            self.rows = {
                w: f.at(first, f.affine(0, self.strides[w][:-1], indices), f.i8) for w, first in zip(self.walks, firsts)
            }
            folds = any(folds for _, _, folds in self.parts)
            if span and not outer:
                self.emit_row_range(*span, length, self.given.chunk if folds else max(self.splats))
            elif not folds:
                self.emit_row_part(f.int64(0), length)
            else:
                whole, rest = divmod(length, self.given.chunk)
                if whole:
                    with f.loop(whole, self.given.chunk) as start:
                        self.emit_row_part(start, self.given.chunk)
                if rest:
                    self.emit_row_part(f.int64(whole * self.given.chunk), rest)

    def emit_row_range(self, start, stop, length, unit):
        """Process the part of a row from `start` to `stop`, both multiples of `unit` unless at the end of the row."""
        f, b = self.function, self.function.builder
        whole = length // unit * unit
        last = b.select(b.icmp_signed("<", stop, f.int64(whole)), stop, f.int64(whole))
        with b.if_then(b.icmp_signed("<", start, last)), f.loop_range(start, last, unit) as place:
            self.emit_row_part(place, unit)
        if whole < length:
            with b.if_then(b.icmp_signed("==", stop, f.int64(length))):
                self.emit_row_part(f.int64(whole), length - whole)

    def allocate_buffers(self):
        """Allocate a row for each slot that one range of code writes and a later range reads."""
        f, written, kept = self.function, set(), set()
        for first, last, _ in self.parts:
            read, more = self._read_and_written(first, last)
            kept |= read & written
            written |= more
        kind = f.ir.ArrayType(f.double, self.given.chunk)
        made = {slot: f.builder.alloca(kind) for slot in sorted(kept - {*self.walks})}
        for pointer in made.values():
            pointer.type = f.pointer  # opaque pointer
        return made

    def width(self, length):
        """Return the elements per iteration: two vectors if the registers suffice, to hide latency."""
        width = 2 * llvm_jit.lanes()
        is_wide = width > PARTIAL_SUMS and self.live <= MAX_LIVE_FOR_TWO_VECTORS and length >= 2 * width
        return width if is_wide else PARTIAL_SUMS

    def emit_row_part(self, start, length):
        """Process `length` elements of a row from `start`: at most one chunk if there are reductions."""
        for part in self.parts:
            self.emit_loop(part, start, length)

    def emit_loop(self, part, start, length):
        """Emit the loop of one range of the code over part of a row, and finish its reductions."""
        f, b = self.function, self.function.builder
        folds = part[2]
        kind = f.ir.VectorType(f.double, PARTIAL_SUMS)
        parts = [f.ir.Constant(kind, _INITIAL[function]) for function, _, _ in folds]
        done = 0
        for width in sorted(self.splats, reverse=True):
            whole = (length - done) // width
            if whole:
                before, first = b.block, b.add(start, f.int64(done))
                with f.loop(whole, width) as index:
                    carried = [b.phi(x.type) for x in parts]
                    for phi, x in zip(carried, parts):
                        phi.add_incoming(x, before)
                    parts = self.emit_range(part, b.add(first, index), width, width, carried)
                    for phi, x in zip(carried, parts):
                        phi.add_incoming(x, b.block)
            done += whole * width
        if done < length:
            parts = self.emit_range(part, b.add(start, f.int64(done)), length - done, PARTIAL_SUMS, parts)
        for (function, is_more, w), x in zip(folds, parts):
            place = self.totals[-1 - w] if w < 0 else self.rows[w]
            for half in (4, 2, 1):
                x = self.combine(function, self.shuffle(x, range(half)), self.shuffle(x, range(half, 2 * half)))
            found = b.extract_element(x, f.ir.Constant(f.i32, 0))
            b.store(self.combine(function, b.load(place, typ=f.double), found) if is_more else found, place)

    def emit_range(self, part, place, count, width, parts):
        """Emit one range of the code for `count` elements from `place` on; return the partial reductions."""
        f = self.function
        block = Block(f, f.ir.VectorType(f.double, width), self.call_library)
        now: dict = {slot: block.define(("number", slot), lambda x=x: x) for slot, x in self.splats[width].items()}
        parts = list(parts)

        def read(slot):
            if slot not in now:
                step = 8 if slot in self.buffers else self.strides[slot][-1]  # 0: broadcast
                now[slot] = block.define(("walk", slot), lambda: self.load(slot, place, count, width, step, f.double))
            return now[slot]

        t, last, _ = part
        folded = 0
        while t < last:
            code, a, b, y = self.code[t]
            op, arity = self.given.opcodes[code]
            t += 1
            if op == "one":
                continue
            if op == "get" and a not in self.rows:  # a scalar, broadcast already
                x = read(a)
            elif op in ("get", "get_rows"):
                t += op != "get"
                x = block.define(("get", t), lambda a=a, b=b: self.load(a, place, count, width, b, f.double))
            elif op in ("get_bool", "get_bool_rows"):
                t += op != "get_bool"
                x = block.define(("get", t), lambda a=a, b=b: self.load_flags(a, place, count, width, b), is_flag=True)
            elif op == "gather":
                x = block.define(("gather", t), lambda a=a, b=b: self.gather(a, b, place, count, width))
            elif op in ("put", "put_bool", "put_rows", "put_bool_rows"):
                t += op in _TWO_RECORDS
                x = read(a)
                x = block.double(x) if "bool" not in op else f.builder.zext(block.flag(x), f.ir.VectorType(f.i8, width))
                self.store(x, y, place, count, b)
                continue
            elif op in ("sum", "sum_rows", "fold"):
                function, step = (b >> 1, self.code[t][3]) if op == "fold" else (0, 0)
                t += op != "sum"
                x = block.double(read(a))
                if step == 0:
                    parts[folded] = self.update_reduction(function, parts[folded], x, count)
                    folded += 1
                else:
                    there = self.load(y, place, count, width, step, f.double)
                    self.store(self.combine(function, there, x), y, place, count, step)
                continue
            elif isinstance(op, str) and op not in ("cube", "fourth", "root"):
                raise Refused("array function implemented by NumPy or SciPy only")
            else:
                slots = [a, b] if arity < 3 else [a, b, self.code[t][1]]
                t += arity == 3
                # an operand slot equal to the result slot means that the operand is not read
                x = block.apply(op, [None if arity == 3 and slot == y else read(slot) for slot in slots[:arity]])
            now[y] = x
            if y in self.rows or y in self.buffers:
                self.store(block.double(x), y, place, count, 8)
        return parts

    def call_library(self, builder, name, operands):
        """Call a C library function; refused on very short rows, where a vector call is mostly wasted."""
        if self.has_short_rows and name not in llvm_jit.INTRINSICS:
            raise Refused("functions on rows of two or three elements, which the VM batches")
        return llvm_jit.call(builder, name, operands)

    def update_reduction(self, function, part, x, count):
        """Update a partial reduction with a vector; lanes beyond `count` are neutral."""
        f = self.function
        if count < PARTIAL_SUMS:
            flags = f.ir.VectorType(f.ir.IntType(1), PARTIAL_SUMS)
            is_term = f.ir.Constant(flags, [i < count for i in range(PARTIAL_SUMS)])
            x = f.builder.select(is_term, x, f.ir.Constant(x.type, _INITIAL[function]))
        for i in range(0, x.type.count, PARTIAL_SUMS):
            some = x if x.type.count == PARTIAL_SUMS else self.shuffle(x, range(i, i + PARTIAL_SUMS))
            part = self.combine(function, part, some)
        return part

    def combine(self, function, x, y):
        """Combine two values: sum, maximum or minimum, NaN if either is NaN."""
        b = self.function.builder
        if function == 0:
            return b.fadd(x, y)
        is_y = b.or_(b.fcmp_ordered(">" if function == 1 else "<", y, x), b.fcmp_unordered("uno", y, y))
        return b.select(is_y, y, x)

    # ------------------------------------------------------------------------------------------ elements

    def splat(self, x, width):
        """Broadcast a scalar to a vector."""
        b, f = self.function.builder, self.function
        undefined = f.ir.Constant(f.ir.VectorType(x.type, width), f.ir.Undefined)
        one = b.insert_element(undefined, x, f.ir.Constant(f.i32, 0))
        return b.shuffle_vector(one, undefined, f.ir.Constant(f.ir.VectorType(f.i32, width), 0))

    def shuffle(self, x, places):
        """Select lanes of a vector."""
        f = self.function
        mask = f.ir.Constant(f.ir.VectorType(f.i32, len(places)), [*places])
        return f.builder.shuffle_vector(x, f.ir.Constant(x.type, f.ir.Undefined), mask)

    def addresses(self, w, place, count, stride):
        f, b = self.function, self.function.builder
        first = f.at(self.rows[w] if w in self.rows else self.buffers[w], b.mul(place, f.int64(stride)), f.i8)
        return [f.at(first, i * stride, f.i8) for i in range(count if stride else 1)]

    def load(self, w, place, count, width, stride, kind):
        """Load elements of an array; lanes beyond `count` repeat these."""
        f, b = self.function, self.function.builder
        size = 8 if kind is f.double else kind.width // 8
        places = self.addresses(w, place, count, stride)
        if stride == size and count == width:
            return b.load(places[0], align=size, typ=f.ir.VectorType(kind, width))
        if stride == size and count > 1:
            few = b.load(places[0], align=size, typ=f.ir.VectorType(kind, count))
            # repeating the first element only, LLVM 22 selects wrong lanes on CPUs with AVX-512
            return self.shuffle(few, [i % count for i in range(width)])
        return self.build_vector([b.load(p, align=size, typ=kind) for p in places], width)

    def build_vector(self, items, width):
        """Build a vector from scalars; missing lanes repeat the first one."""
        f = self.function
        found = self.splat(items[0], width)
        for i, x in enumerate(items[1:], 1):
            found = f.builder.insert_element(found, x, f.ir.Constant(f.i32, i))
        return found

    def load_flags(self, w, place, count, width, stride):
        f = self.function
        found = self.load(w, place, count, width, stride, f.i8)
        return f.builder.icmp_unsigned("!=", found, f.ir.Constant(found.type, 0))

    def gather(self, w, memory, place, count, width):
        f, b = self.function, self.function.builder
        items = []
        for p in self.addresses(w, place, count, 4):
            offset = b.sext(b.load(p, align=4, typ=f.i32), f.i64)
            items.append(b.load(f.at(self.rows[memory], offset), align=8, typ=f.double))
        return self.build_vector(items, width)

    def store(self, x, w, place, count, stride):
        f, b = self.function, self.function.builder
        size = 8 if x.type.element == f.double else 1
        if stride == size:
            first = self.addresses(w, place, 1, stride)[0]
            b.store(x if count == x.type.count else self.shuffle(x, range(count)), first, align=size)
            return
        for i, p in enumerate(self.addresses(w, place, count, stride)):
            b.store(b.extract_element(x, f.ir.Constant(f.i32, i)), p, align=size)
