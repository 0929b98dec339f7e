"""The compiled tier: steps of the machine as machine code.

A step is what `wengert.program.vm.machine` makes of a list: code on numbers in slots, or code on arrays, chunk by
chunk.
Its instructions become statements by the formulas that kernels for GPUs are made of, and these a function of the slots
and of the addresses of the arrays:

    code on arrays    one loop, some elements at a time, in which nothing lies in memory between the instructions;
                      sums add up in the order of the machine; steps that differ in their arrays alone share a function
    code on numbers   a straight list; a long one with loops for what is repeated, see
                      `wengert.program.codegen.reroll`, whose values lie in a workspace, each in a place of its own

All else stays with the machine, which calls such a function as one of its steps.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Callable

import numpy as np

from wengert.program.codegen import llvm_jit, reroll
from wengert.program.codegen.llvm_ir import NAMES, Statements, appended
from wengert.program.codegen.llvm_jit import Refused
from wengert.program.ir.opcodes import Op

#: numbers that a sum is kept in, as the machine does, on every CPU
PARTS = 8

#: instructions with a second record, beside those with three operands
_LONG = ("loop", "exact", "fold", "sum_rows", "get_rows", "put_rows", "get_bool_rows", "put_bool_rows")

#: what a sum, the largest and the smallest number begin with
_FIRST = (0.0, -np.inf, np.inf)

#: values alive in a loop up to which there are registers for two vectors at a time
_MAX_ALIVE_FOR_TWO = 12

#: statements of one LLVM function; longer code becomes several, since LLVM takes more than linear time
_MAX_FUNCTION_LENGTH = 400

#: statements of one VM instruction after re-rolling, beyond which LLVM takes too long: see decision 0029
MAX_STATEMENTS = 6000


@dataclasses.dataclass
class Steps:
    """What the machine runs, as its lowering gives it.

    Attributes
    ----------
    steps : list of tuple
        The name of a kind, and what belongs to it; of steps for Python, and others that stay as
        they are, the slots that they read and write, and of "other" ones nothing.
    constants : dict
        Value of each slot that never changes.
    results : list of int
        Slots that are read in the end.
    slots : int
        How many there are.
    opcodes : dict
        For each opcode of the machine what it does, an instruction of lists or a name, and how many operands it has.
    chunk : int
        Elements of an array at a time.
    """

    steps: list
    constants: dict
    results: list
    slots: int
    opcodes: dict
    chunk: int


@dataclasses.dataclass
class Report:
    """What became of the steps: how many are compiled, of how many instructions on numbers, and why others are not."""

    compiled: int = 0
    written: int = 0
    refused: list = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    is_from_disk: bool = False


def hastened(given: Steps, report: Report) -> tuple[list, int, object]:
    """The steps with functions for those that can be compiled, the numbers that these need, and what holds them.

    A function is a tuple ``("compiled", address, table, work, dims, sums, block)``; the last three as of vectors.
    """
    llvm_jit.llvm()  # or an error that says what to install
    groups = [given.steps[i:j] for i, j in _groups(given.steps)]
    refused: dict = {}
    while (built := _built(given, groups, refused)) is None:
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
    report.written = numbers.written
    return found, numbers.count if numbers.needed else 0, code


def _built(given, groups, refused):
    """A module, of each group of steps the name of its function and its table, and the lists.

    None if one more list is refused: what it writes is then no longer where other lists look for it.
    """
    module = _Module()
    functions: list = []
    shared: dict = {}
    try:
        numbers = _Numbers(given, groups, refused)
    except Refused:
        return None
    writer = _Writer(given, numbers)
    for i, (group, lists) in enumerate(zip(groups, numbers.groups)):
        functions.append(None)
        try:
            if lists is not None:
                with module.function() as made:
                    writer.write(made, lists)
                functions[i] = made.name, (), ([], [], 0)
            elif group[0][0] == "vector" and i not in refused:
                vector = _Vector(given, *group[0][1:])
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
    """Ranges of steps that become one function: vectors alone, numbers with what packs them."""
    first = 0
    while first < len(steps):
        last = first + 1
        if steps[first][0] == "numbers":
            while last < len(steps) and steps[last][0] in ("numbers", "pack", "copy"):
                last += 1
            while steps[last - 1][0] == "copy":
                last -= 1
        yield first, last
        first = last


def _work(step):
    """Operations, for the decision whether other threads may run meanwhile."""
    kind, *facts = step
    if kind == "numbers":
        return facts[1]
    if kind == "vector":
        return len(facts[0]) * float(np.prod(facts[1]))
    return float(facts[-1] if kind == "copy" else len(facts[-1]))


# ---------------------------------------------------------------------------------------------- functions


class _Module:
    """Functions ``int32 f(double *slots, char **where, int32 *table)``: -1, or the number of a guard that failed."""

    def __init__(self):
        from llvmlite import ir

        self.ir = ir.Module()
        self.names: list = []
        self.count = itertools.count()

    @contextlib.contextmanager
    def function(self):
        """A new function, which is not there if its making is refused."""
        made = _Function(self.ir, f"step_{next(self.count)}")
        try:
            yield made
        except Refused:
            made.remove()
            raise
        made.close()
        self.names.append(made.name)

    @property
    def externals(self):
        """Names of the functions of the C library."""
        return [f.name for f in self.ir.functions if f.is_declaration and not f.name.startswith("llvm.")]

    def __str__(self):
        return str(self.ir)


class _Function:
    """One of them, its parts, and the constants of their types."""

    def __init__(self, module, name):
        from llvmlite import ir

        self.ir, self.module, self.name = ir, module, name
        self.i64, self.i32, self.i8 = ir.IntType(64), ir.IntType(32), ir.IntType(8)
        self.double, self.pointer = ir.DoubleType(), ir.PointerType()
        self.parts: list = []
        self.part()

    def part(self):
        """Go on in a new function, which is called after those before it."""
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
        """The function itself: its parts, one after the other."""
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

    # ------------------------------------------------------------------------------------------ small things

    def whole(self, x):
        return self.ir.Constant(self.i64, x)

    def array(self, number):
        """Address of the first element of an array."""
        if number not in self.arrays:
            with self.builder.goto_entry_block():
                self.arrays[number] = self.address(self.whole(number))
        return self.arrays[number]

    def address(self, number):
        return self.builder.load(self.at(self.where, number, self.pointer), typ=self.pointer)

    def at(self, pointer, place, kind=None):
        """The address of an element, given its number, or so many bytes away."""
        place = self.whole(place) if isinstance(place, int) else place
        return self.builder.gep(pointer, [place], source_etype=kind or self.double)

    def entry(self, number):
        """An entry of the table."""
        place = self.at(self.table, number, self.i32)
        return self.builder.sext(self.builder.load(place, typ=self.i32), self.i64)

    def slot(self, number):
        return self.builder.load(self.at(self.slots, number), typ=self.double)

    @contextlib.contextmanager
    def loop(self, times: int, step: int = 1):
        """What is appended meanwhile is repeated; gives the number of the turn, times `step`."""
        with self.between(self.whole(0), self.whole(times * step), step) as turn:
            yield turn

    @contextlib.contextmanager
    def between(self, start, stop, step: int = 1):
        """The same from one number to another, which is larger."""
        builder = self.builder
        before = builder.block
        body = builder.append_basic_block()
        builder.branch(body)
        builder.position_at_end(body)
        turn = builder.phi(self.i64)
        turn.add_incoming(start, before)
        yield turn
        after = builder.add(turn, self.whole(step))
        turn.add_incoming(after, builder.block)
        end = builder.append_basic_block()
        builder.cbranch(builder.icmp_signed("<", after, stop), body, end)
        builder.position_at_end(end)

    def affine(self, base: int, steps: tuple, turns: list):
        """base + steps . turns"""
        found = None
        for step, turn in zip(steps, turns):
            if step:
                moved = turn if step == 1 else self.builder.mul(turn, self.whole(step))
                found = moved if found is None else self.builder.add(found, moved)
        return self.whole(base) if found is None else self.builder.add(found, self.whole(base)) if base else found


# ---------------------------------------------------------------------------------------------- statements


class _Statements(Statements):
    """Statements that have the bits of the machine: a strong product with 0 is 0, never -0."""

    def _known(self, name, operands):
        return None if name == "strong" else super()._known(name, operands)


class _Block:
    """Statements of numbers, or of vectors of them, that are appended to a function as they are made."""

    def __init__(self, function: _Function, real, call: Callable = llvm_jit.call):
        self.of = _Statements()
        self.function = function
        self.real = real
        self.call = call
        self.found: dict = {}
        self.done = 0

    def given(self, key, make: Callable, is_flag=False):
        """A number that is no statement: what `make` appends, once for each key."""
        self.flush()
        number = self.of._statement(("given", *key), is_flag=is_flag)
        if number.v not in self.found:
            self.found[number.v] = make()
            self.done = number.v + 1
        return number

    def flush(self):
        new = [(v, self.of._statements[v]) for v in range(self.done, self.of.count)]
        self.done = self.of.count
        appended(self.function.builder, new, self.found, self.real, self.call)

    def flag(self, number):
        """A flag as a value of LLVM."""
        number = self.of.as_flag(number)
        self.flush()
        return self.found[number.v]

    def double(self, number):
        """A number as a value of LLVM."""
        number = self.of.as_float(number)
        self.flush()
        return self.found[number.v]

    def applied(self, op, operands):
        """The value of an instruction at numbers; those that it does not read may be None."""
        of, a = self.of, operands[0]
        if op == "cube":
            return of.number(a * a * a)
        if op == "fourth":
            return of.number((a * a) * (a * a))
        if op == "root":
            return of.apply("**", a, 0.5)
        if op in NAMES:
            return of.apply(NAMES[op], *operands)
        opcode, side = divmod(op - Op.PARTIAL, 2)
        return of.partial(opcode, side, *[None if x is None else of.as_float(x) for x in operands])


# ---------------------------------------------------------------------------------------------- arrays


class _Vector:
    """A step on arrays as a loop."""

    def __init__(self, given: Steps, code, dims, strides, walk, number, fill, sums, first, chunks, rows, block):
        self.given = given
        self.code, self.dims, self.strides = code.tolist(), dims, strides
        self.walks = [w for w, _ in walk]
        self.numbers = [(chunk, given.constants.get(slot)) for chunk, slot in [*number, *fill]]
        self.sums, self.kept = len(sums), chunks + len(number)
        #: numbers of the arrays, and of the slots that are read and written, which are not part of the code
        self.table = [*[array for _, array in walk], *[slot for _, slot in [*number, *fill]], *sums]
        self.parts = self._parts()
        self.blocks = dims, sums, block
        self.has_few = rows > 1 and dims[-1] < PARTS // 2
        if block:  # from where to where the first axis is done
            self.table += [0, 0]
        self.key = repr((self.code, dims, strides, self.walks, self.numbers, self.sums, self.parts, block))

    def _parts(self):
        """Ranges of the code, each a loop of its own: one ends where a row is folded to what is read behind it.

        With each what it folds: function, is there something already, and walk of the result or, of a sum, -1 - number.
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
                raise Refused("arrays that are folded, and read again with the result")
            t += 2 if arity == 3 or op in _LONG else 1
            found[-1][1] = t
            if is_read:
                found.append([t, t, []])
        return found

    def _read_and_written(self, first, last):
        """Slots that a range of the code reads before it writes them, and slots that it writes."""
        read, written, t = set(), set(), first
        while t < last:
            code, a, b, y = self.code[t]
            op, arity = self.given.opcodes[code]
            if op != "one":
                slots = [a] if arity == 1 or op in _LONG or op == "get" else [a, b]
                read |= {*slots, *([self.code[t + 1][1]] if arity == 3 else [])} - written
                written |= {y} if op not in ("sum", "sum_rows", "fold") else set()
            t += 2 if arity == 3 or op in _LONG else 1
        return read, written

    def write(self, function: _Function) -> None:
        """Append the loop."""
        self.function = f = function
        firsts = [f.address(f.entry(i)) for i in range(len(self.walks))]
        read = len(firsts)
        numbers = {
            chunk: f.slot(f.entry(read + i)) if x is None else f.ir.Constant(f.double, x)
            for i, (chunk, x) in enumerate(self.numbers)
        }
        self.totals = [f.at(f.slots, f.entry(read + len(self.numbers) + i)) for i in range(self.sums)]
        self.buffers = self._buffers()
        for total in self.totals:
            f.builder.store(f.ir.Constant(f.double, 0.0), total)
        if 0 in self.dims:
            return
        *outer, length = self.dims
        self.splats: dict = {}
        for width in {PARTS, self.width(length)}:
            self.splats[width] = {chunk: self.splat(x, width) for chunk, x in numbers.items()}
        span = [f.entry(len(self.table) - 2 + i) for i in (0, 1)] if self.blocks[-1] else None
        with contextlib.ExitStack() as stack:
            turns = [stack.enter_context(f.loop(n) if d or not span else f.between(*span)) for d, n in enumerate(outer)]
            self.rows = {
                w: f.at(first, f.affine(0, self.strides[w][:-1], turns), f.i8) for w, first in zip(self.walks, firsts)
            }
            folds = any(folds for _, _, folds in self.parts)
            if span and not outer:
                self.span(*span, length, self.given.chunk if folds else max(self.splats))
            elif not folds:
                self.stretch(f.whole(0), length)
            else:
                whole, rest = divmod(length, self.given.chunk)
                if whole:
                    with f.loop(whole, self.given.chunk) as start:
                        self.stretch(start, self.given.chunk)
                if rest:
                    self.stretch(f.whole(whole * self.given.chunk), rest)

    def span(self, start, stop, length, unit):
        """A part of a row that the table tells, whose end is that of the row or so many units from its start."""
        f, b = self.function, self.function.builder
        whole = length // unit * unit
        last = b.select(b.icmp_signed("<", stop, f.whole(whole)), stop, f.whole(whole))
        with b.if_then(b.icmp_signed("<", start, last)), f.between(start, last, unit) as place:
            self.stretch(place, unit)
        if whole < length:
            with b.if_then(b.icmp_signed("==", stop, f.whole(length))):
                self.stretch(f.whole(whole), length - whole)

    def _buffers(self):
        """Memory of a row for each slot that one loop writes and a later one reads."""
        f, written, kept = self.function, set(), set()
        for first, last, _ in self.parts:
            read, more = self._read_and_written(first, last)
            kept |= read & written
            written |= more
        kind = f.ir.ArrayType(f.double, self.given.chunk)
        made = {slot: f.builder.alloca(kind) for slot in sorted(kept - {*self.walks})}
        for pointer in made.values():
            pointer.type = f.pointer  # to anything
        return made

    def width(self, length):
        """How many elements at a time: two vectors, where there are registers, so that one need not wait."""
        width = 2 * llvm_jit.lanes()
        return width if width > PARTS and self.kept <= _MAX_ALIVE_FOR_TWO and length >= 2 * width else PARTS

    def stretch(self, start, length):
        """A part of a row, at most a chunk where something is folded."""
        for part in self.parts:
            self.looped(part, start, length)

    def looped(self, part, start, length):
        """A loop over it by a range of the code."""
        f, b = self.function, self.function.builder
        folds = part[2]
        kind = f.ir.VectorType(f.double, PARTS)
        parts = [f.ir.Constant(kind, _FIRST[function]) for function, _, _ in folds]
        done = 0
        for width in sorted(self.splats, reverse=True):
            whole = (length - done) // width
            if whole:
                before, first = b.block, b.add(start, f.whole(done))
                with f.loop(whole, width) as turn:
                    carried = [b.phi(x.type) for x in parts]
                    for phi, x in zip(carried, parts):
                        phi.add_incoming(x, before)
                    parts = self.some(part, b.add(first, turn), width, width, carried)
                    for phi, x in zip(carried, parts):
                        phi.add_incoming(x, b.block)
            done += whole * width
        if done < length:
            parts = self.some(part, b.add(start, f.whole(done)), length - done, PARTS, parts)
        for (function, is_more, w), x in zip(folds, parts):
            place = self.totals[-1 - w] if w < 0 else self.rows[w]
            for half in (4, 2, 1):
                x = self.both(function, self.taken(x, range(half)), self.taken(x, range(half, 2 * half)))
            found = b.extract_element(x, f.ir.Constant(f.i32, 0))
            b.store(self.both(function, b.load(place, typ=f.double), found) if is_more else found, place)

    def some(self, part, place, count, width, parts):
        """The instructions of a range on so many elements from a place on, in vectors of a width."""
        f = self.function
        block = _Block(f, f.ir.VectorType(f.double, width), self.called)
        now: dict = {slot: block.given(("number", slot), lambda x=x: x) for slot, x in self.splats[width].items()}
        parts = list(parts)

        def read(slot):
            if slot not in now:
                step = 8 if slot in self.buffers else self.strides[slot][-1]  # 0: one for all
                now[slot] = block.given(("walk", slot), lambda: self.loaded(slot, place, count, width, step, f.double))
            return now[slot]

        t, last, _ = part
        folded = 0
        while t < last:
            code, a, b, y = self.code[t]
            op, arity = self.given.opcodes[code]
            t += 1
            if op == "one":
                continue
            if op == "get" and a not in self.rows:  # one element, which is here in all places
                x = read(a)
            elif op in ("get", "get_rows"):
                t += op != "get"
                x = block.given(("get", t), lambda a=a, b=b: self.loaded(a, place, count, width, b, f.double))
            elif op in ("get_bool", "get_bool_rows"):
                t += op != "get_bool"
                x = block.given(("get", t), lambda a=a, b=b: self.truths(a, place, count, width, b), is_flag=True)
            elif op == "gather":
                x = block.given(("gather", t), lambda a=a, b=b: self.gathered(a, b, place, count, width))
            elif op in ("put", "put_bool", "put_rows", "put_bool_rows"):
                t += op in _LONG
                x = read(a)
                x = block.double(x) if "bool" not in op else f.builder.zext(block.flag(x), f.ir.VectorType(f.i8, width))
                self.stored(x, y, place, count, b)
                continue
            elif op in ("sum", "sum_rows", "fold"):
                function, step = (b >> 1, self.code[t][3]) if op == "fold" else (0, 0)
                t += op != "sum"
                x = block.double(read(a))
                if step == 0:
                    parts[folded] = self.folded(function, parts[folded], x, count)
                    folded += 1
                else:
                    there = self.loaded(y, place, count, width, step, f.double)
                    self.stored(self.both(function, there, x), y, place, count, step)
                continue
            elif isinstance(op, str) and op not in ("cube", "fourth", "root"):
                raise Refused("functions on arrays that NumPy or SciPy runs")
            else:
                slots = [a, b] if arity < 3 else [a, b, self.code[t][1]]
                t += arity == 3
                # an operand that is not read is the result
                x = block.applied(op, [None if arity == 3 and slot == y else read(slot) for slot in slots[:arity]])
            now[y] = x
            if y in self.rows or y in self.buffers:
                self.stored(block.double(x), y, place, count, 8)
        return parts

    def called(self, builder, name, operands):
        """A function of the C library: of a vector it takes as long where few of its elements count."""
        if self.has_few and name not in llvm_jit.INTRINSICS:
            raise Refused("functions on rows of two or three elements, of which the machine does many at a time")
        return llvm_jit.call(builder, name, operands)

    def folded(self, function, part, x, count):
        """A sum, or what else is folded, with some more terms: those beyond the end are no terms."""
        f = self.function
        if count < PARTS:
            is_term = f.ir.Constant(f.ir.VectorType(f.ir.IntType(1), PARTS), [i < count for i in range(PARTS)])
            x = f.builder.select(is_term, x, f.ir.Constant(x.type, _FIRST[function]))
        for i in range(0, x.type.count, PARTS):
            part = self.both(function, part, x if x.type.count == PARTS else self.taken(x, range(i, i + PARTS)))
        return part

    def both(self, function, x, y):
        """What two numbers fold to: their sum, or the larger or smaller, NaN if either is."""
        b = self.function.builder
        if function == 0:
            return b.fadd(x, y)
        is_y = b.or_(b.fcmp_ordered(">" if function == 1 else "<", y, x), b.fcmp_unordered("uno", y, y))
        return b.select(is_y, y, x)

    # ------------------------------------------------------------------------------------------ elements

    def splat(self, x, width):
        """A number as a vector."""
        b, f = self.function.builder, self.function
        undefined = f.ir.Constant(f.ir.VectorType(x.type, width), f.ir.Undefined)
        one = b.insert_element(undefined, x, f.ir.Constant(f.i32, 0))
        return b.shuffle_vector(one, undefined, f.ir.Constant(f.ir.VectorType(f.i32, width), 0))

    def taken(self, x, places):
        """Some elements of a vector."""
        f = self.function
        mask = f.ir.Constant(f.ir.VectorType(f.i32, len(places)), [*places])
        return f.builder.shuffle_vector(x, f.ir.Constant(x.type, f.ir.Undefined), mask)

    def addresses(self, w, place, count, stride):
        f, b = self.function, self.function.builder
        first = f.at(self.rows[w] if w in self.rows else self.buffers[w], b.mul(place, f.whole(stride)), f.i8)
        return [f.at(first, i * stride, f.i8) for i in range(count if stride else 1)]

    def loaded(self, w, place, count, width, stride, kind):
        """Elements of an array; those beyond the end are the first one."""
        f, b = self.function, self.function.builder
        size = 8 if kind is f.double else kind.width // 8
        places = self.addresses(w, place, count, stride)
        if stride == size and count == width:
            return b.load(places[0], align=size, typ=f.ir.VectorType(kind, width))
        if stride == size and count > 1:
            few = b.load(places[0], align=size, typ=f.ir.VectorType(kind, count))
            return self.taken(few, [*range(count), *[0] * (width - count)])
        return self.joined([b.load(p, align=size, typ=kind) for p in places], width)

    def joined(self, items, width):
        """Numbers as a vector; the first one stands for those that are missing."""
        f = self.function
        found = self.splat(items[0], width)
        for i, x in enumerate(items[1:], 1):
            found = f.builder.insert_element(found, x, f.ir.Constant(f.i32, i))
        return found

    def truths(self, w, place, count, width, stride):
        f = self.function
        found = self.loaded(w, place, count, width, stride, f.i8)
        return f.builder.icmp_unsigned("!=", found, f.ir.Constant(found.type, 0))

    def gathered(self, w, memory, place, count, width):
        f, b = self.function, self.function.builder
        items = []
        for p in self.addresses(w, place, count, 4):
            offset = b.sext(b.load(p, align=4, typ=f.i32), f.i64)
            items.append(b.load(f.at(self.rows[memory], offset), align=8, typ=f.double))
        return self.joined(items, width)

    def stored(self, x, w, place, count, stride):
        f, b = self.function, self.function.builder
        size = 8 if x.type.element == f.double else 1
        if stride == size:
            first = self.addresses(w, place, 1, stride)[0]
            b.store(x if count == x.type.count else self.taken(x, range(count)), first, align=size)
            return
        for i, p in enumerate(self.addresses(w, place, count, stride)):
            b.store(b.extract_element(x, f.ir.Constant(f.i32, i)), p, align=size)


# ---------------------------------------------------------------------------------------------- numbers


class _Numbers:
    """Steps on numbers as lists of instructions: each has a place of its own in the program, and so has its value.

    Attributes
    ----------
    groups : list
        For each group of steps its list in parts, with loops where it repeats itself; None for other steps.
    needed : set of int
        Instructions, by their order as they are written, whose values are read elsewhere than right there.
    count, written : int
        Of all instructions, and of those that are to be written.
    constants : list
        Numbers that instructions read.
    """

    def __init__(self, given: Steps, groups: list, refused: dict):
        self.given = given
        self.constants: list = []  # each as often as it is read
        self.groups: list = []
        self.place: dict = {}  # of the value that a slot holds now
        self.count = self.written = 0
        self.uses: list = []  # places of an instruction and of a value that it reads, and as which operand
        later = [{*given.results}]  # slots that are read behind each group, by what is no list
        for i in range(len(groups) - 1, 0, -1):
            is_list = groups[i][0][0] == "numbers" and i not in refused
            here = [] if is_list else [slot for step in groups[i] for slot in _reads(step, given)]
            later.append(later[-1].union(here) if here else later[-1])
        for i, group in enumerate(groups):
            if group[0][0] == "numbers" and i not in refused:
                try:
                    self.groups.append(self._parts_of(group, later[-1 - i]))
                except Refused as reason:
                    refused[i] = str(reason)
                    raise
            else:
                self.groups.append(None)
                for slot in [slot for step in group for slot in _writes(step, given)]:
                    self.place.pop(slot, None)
        self.needed = self._needed()

    def _parts_of(self, group, later):
        """The list of a group, given the slots that are read behind it."""
        self.items: list = []
        self.own: set = set()  # slots written here
        for kind, *facts in group:
            getattr(self, f"_read_{kind}")(*facts)
        for slot in sorted(later & self.own):
            self.add(("keep",), [slot], [slot])
        items = self.items
        if len(items) > _MAX_FUNCTION_LENGTH:
            items = reroll.rolled(items)
        left = reroll.count(items)
        if left > MAX_STATEMENTS:
            raise Refused(f"{left} instructions on numbers, without loops, take LLVM too long")
        self.written += left
        return _parts(items)

    def _needed(self):
        written, turns = [], []
        first = turn = 0
        for part in [part for parts in self.groups if parts for part in parts]:
            home, turn = turn, turn + 1
            for item in part:
                numbers, first = _written(item.key, first)
                places, turn = _turned(item.key, home, turn)
                written.append(numbers)
                turns.append(places)
        if not self.uses:
            return set()
        number, of_turn = np.concatenate(written), np.concatenate(turns)
        user, used, operand = np.array(self.uses).T
        # an operand may be what other instructions wrote in other turns, though each in the turn that reads it
        _, reading = np.unique(number[user] * (operand.max() + 1) + operand, return_inverse=True)
        source = np.zeros(len(user), np.int64)
        source[reading] = number[used]
        varies = np.zeros(len(user), bool)
        varies[reading[number[used] != source[reading]]] = True
        return {*number[used[(of_turn[user] != of_turn[used]) | varies[reading]]].tolist()}

    # ------------------------------------------------------------------------------------------ instructions

    def add(self, key, integers=(), slots=()):
        """One more instruction: what it is, integers that move, and slots that it reads, None for none."""
        base, kinds = [self.count, *integers], []
        for slot in slots:
            if slot in self.place:
                kinds.append("value")
                base.append(self.place[slot])
                self.uses.append((self.count, self.place[slot], len(kinds)))
            elif slot in self.given.constants:
                kinds.append("constant")
                base.append(len(self.constants))
                self.constants.append(self.given.constants[slot])
            else:
                kinds.append(slot)
        self.items.append(reroll.Item((*key, *kinds), base, 1))
        self.count += 1

    def _read_numbers(self, code, work):
        code = code.tolist()
        t = 0
        while True:
            number, a, b, y = code[t]
            op, arity = self.given.opcodes[number]
            t += 1
            if op == "end":
                return
            if op in ("load", "load_bool"):
                self.add((op, a), [b])
            elif op in ("guard", "guard_int"):
                self.add((op,), [y], [a, b])
                continue
            elif op == "loop":
                raise Refused("a function on numbers that NumPy or SciPy runs")
            else:
                slots = [a, b]
                if arity == 3:
                    slots = [x or None for x in (a, b, code[t][1])]
                    t += 1
                self.add((op,), [], slots[:arity])
            self.place[y] = self.count - 1
            self.own.add(y)

    def _read_pack(self, array, offsets, slots):
        for offset, slot in zip(offsets.tolist(), slots.tolist()):
            self.add(("store", array), [offset], [slot])

    def _read_copy(self, array, source, size):
        self.add(("copy", array, source, size))


class _Writer:
    """Lists of instructions as code, in the order of the program."""

    def __init__(self, given: Steps, numbers: _Numbers):
        self.given = given
        self.needed = numbers.needed
        self.constants = np.array(numbers.constants, float)
        self.times: list = []  # turns of the loops around
        self.static = 0  # the number of the next instruction, as they are written
        self.version = 0  # of what the arrays hold

    def write(self, function: _Function, parts) -> None:
        """Append the parts of a list."""
        self.function = function
        for i, part in enumerate(parts):
            if i:
                function.part()
            block = _Block(function, function.double)
            self._append([(x.key, [(v, ()) for v in x.base]) for x in part], [], block)

    def _append(self, items, turns, block):
        """Instructions and loops; a base is a list of pairs, a number and its steps from turn to turn."""
        f = self.function
        values: dict = {}
        for key, base in items:
            if isinstance(key, reroll.Loop):
                moved = [(x, (*steps, step)) for (x, steps), step in zip(base, key.steps)]
                ends = np.cumsum([0, *key.widths]).tolist()
                inner = [(k, moved[i:j]) for k, i, j in zip(key.keys, ends, ends[1:])]
                self.times.append(key.times)
                with f.loop(key.times) as turn:
                    self._append(inner, [*turns, turn], _Block(f, f.double))
                self.times.pop()
                continue
            self._append_one(key, base, turns, block, values)
            self.static += 1

    def _append_one(self, key, base, turns, block, values):
        f, b = self.function, self.function.builder
        op, place, rest = key[0], base[0], base[1:]

        def address(pointer, moving, by=0, kind=None):
            return f.at(pointer, f.affine(by + moving[0], moving[1], turns), kind)

        def operands(kinds, moving):
            moving = iter(moving)
            return [None if kind is None else operand(kind, moving) for kind in kinds]

        def operand(kind, moving):
            if type(kind) is int:
                return block.given(("slot", kind), lambda: f.slot(kind))
            x = next(moving)
            if kind == "constant":
                return self._constant(x, turns, block)
            if x in values:
                return values[x]
            return block.given(("value", x), lambda: b.load(address(f.slots, x, self.given.slots), typ=f.double))

        if op == "load" or op == "load_bool":
            is_flag = op == "load_bool"
            kind = f.i8 if is_flag else f.double

            def load():
                x = b.load(address(f.array(key[1]), rest[0], kind=kind), typ=kind)
                return b.icmp_unsigned("!=", x, f.ir.Constant(kind, 0)) if is_flag else x

            found = block.given(("load", key[1], rest[0], self.version), load, is_flag)
        elif op == "copy":
            self._append_copy(*key[1:])
            return
        elif op == "store" or op == "keep":
            (x,) = operands(key[-1:], rest[1:])
            b.store(block.double(x), address(f.array(key[1]) if op == "store" else f.slots, rest[0]))
            self.version += op == "store"
            return
        elif op == "guard" or op == "guard_int":
            x, expected = [block.double(x) for x in operands(key[1:], rest[1:])]
            with b.if_then(b.not_(self._is_same(x, expected, op == "guard")), likely=False):
                b.ret(b.trunc(f.affine(*rest[0], turns), f.i32))
            return
        else:
            found = block.applied(op, operands(key[1:], rest))
        values[place] = found
        if self.static in self.needed:
            b.store(block.double(found), address(f.slots, place, self.given.slots))

    def _constant(self, moving, turns, block):
        """A constant, or one of a list of them, if it differs from turn to turn."""
        f, ir = self.function, self.function.ir
        places = np.array(moving[0])
        for step, times in zip(moving[1], self.times):
            places = places[..., None] + step * np.arange(times)
        found = self.constants[places]
        bits = found.view(np.int64)
        if (bits == bits.flat[0]).all():
            return block.of.constant(found.flat[0])

        def load():
            kind = ir.ArrayType(f.double, found.size)
            table = ir.GlobalVariable(f.module, kind, f.module.get_unique_name("constants"))
            table.linkage, table.global_constant = "internal", True
            table.initializer = ir.Constant(kind, found.ravel().tolist())
            steps = tuple(step // found.itemsize for step in found.strides)
            return f.builder.load(f.at(table, f.affine(0, steps, turns)), typ=f.double)

        return block.given(("constant", moving), load)

    def _append_copy(self, array, source, size):
        f, b = self.function, self.function.builder
        ir, flag = f.ir, f.ir.IntType(1)
        name, kind = ("memset", f.i8) if source < 0 else ("memcpy", f.pointer)
        name = f"llvm.{name}.p0.{'p0.' if source >= 0 else ''}i64"
        kinds = ir.FunctionType(ir.VoidType(), [f.pointer, kind, f.i64, flag])
        function = f.module.globals.get(name) or ir.Function(f.module, kinds, name)
        x = ir.Constant(f.i8, 0) if source < 0 else f.array(source)
        b.call(function, [f.array(array), x, f.whole(size), ir.Constant(flag, 0)])
        self.version += 1

    def _is_same(self, x, expected, are_bits):
        """Does a guard hold?  Zeros of either sign are equal as integers only; NaN is NaN."""
        f, b = self.function, self.function.builder
        if not are_bits:
            return b.fcmp_ordered("==", x, expected)
        is_equal = b.icmp_unsigned("==", b.bitcast(x, f.i64), b.bitcast(expected, f.i64))
        return b.or_(is_equal, b.and_(b.fcmp_unordered("uno", x, x), b.fcmp_unordered("uno", expected, expected)))


def _reads(step, given):
    """Slots that a step reads; of numbers, before it writes them; all, where that is not known."""
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


def _writes(step, given):
    """Slots that a step writes; all, where that is not known."""
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


def _parts(items):
    """The list in pieces, each a function, of about as many instructions."""
    found: list = [[]]
    size = 0
    for item in items:
        more = reroll.count([item])
        if size + more > _MAX_FUNCTION_LENGTH and found[-1]:
            found.append([])
            size = 0
        found[-1].append(item)
        size += more
    return found


def _written(key, first):
    """For each instruction that a key stands for, its number as it is written; and the next number."""
    if not isinstance(key, reroll.Loop):
        return np.array([first]), first + 1
    found = []
    for inner in key.keys:
        numbers, first = _written(inner, first)
        found.append(numbers)
    return np.tile(np.concatenate(found), key.times), first


def _turned(key, home, turn):
    """The same for the turn of a loop in which each is, `home` outside of all; and the number of the next turn."""
    if not isinstance(key, reroll.Loop):
        return np.array([home]), turn
    found = []
    for _ in range(key.times):
        here, turn = turn, turn + 1
        for inner in key.keys:
            places, turn = _turned(inner, here, turn)
            found.append(places)
    return np.concatenate(found), turn
