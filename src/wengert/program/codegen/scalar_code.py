"""Generates machine code for scalar kernels: straight-line code, re-rolled into loops where it repeats.

A value that is read outside the loop iteration that computes it goes through a workspace slot of its own.
"""

from __future__ import annotations

import numpy as np

from wengert.program.codegen import reroll
from wengert.program.codegen.llvm_function import Block, Function
from wengert.program.codegen.llvm_jit import Refused
from wengert.program.codegen.vm_kernels import Kernels, accesses

#: limit on the statements in one function; longer code is split, because LLVM's compile time is superlinear
MAX_STATEMENTS_OF_FUNCTION = 400

#: limit on the statements of a program's scalar code after re-rolling; more would take too long to compile
MAX_STATEMENTS = 6000


class ScalarCode:
    """Scalar kernels in SSA form: the position of an instruction in the program also identifies its value.

    Attributes
    ----------
    groups : list
        For each group of kernels, its re-rolled items, split into parts; None if it is not scalar code.
    needed : set of int
        Emitted instructions, by number, whose values must be stored to the workspace.
    count, emitted : int
        Number of all instructions, and of those that are emitted after re-rolling.
    constants : list
        Constant operands.
    """

    def __init__(self, given: Kernels, groups: list, refused: dict):
        self.given = given
        self.constants: list = []  # one for each read
        self.groups: list = []
        self.position: dict = {}  # slot -> position of the value that it currently holds
        self.count = self.emitted = 0
        self.uses: list = []  # (position of an instruction, position of a value that it reads, operand number)
        later = [{*given.results}]  # for each group, last first: slots that non-scalar code reads after it
        for i in range(len(groups) - 1, 0, -1):
            is_scalar = groups[i][0][0] == "scalar" and i not in refused
            here = [] if is_scalar else [slot for kernel in groups[i] for slot in accesses(kernel, given)[0]]
            later.append(later[-1].union(here) if here else later[-1])
        for i, group in enumerate(groups):
            if group[0][0] == "scalar" and i not in refused:
                try:
                    self.groups.append(self._parts_of(group, later[-1 - i]))
                except Refused as reason:
                    refused[i] = str(reason)
                    raise
            else:
                self.groups.append(None)
                for slot in [slot for kernel in group for slot in accesses(kernel, given)[1]]:
                    self.position.pop(slot, None)
        self.needed = self._needed()

    def _parts_of(self, group, later):
        """Return the parts of a group; `later` are the slots that are read after it."""
        self.items: list = []
        self.written_slots: set = set()
        for kind, *facts in group:
            getattr(self, f"_read_{kind}")(*facts)
        for slot in sorted(later & self.written_slots):
            self.add(("keep",), [slot], [slot])
        items = self.items
        if len(items) > MAX_STATEMENTS_OF_FUNCTION:
            items = reroll.rolled(items, MAX_STATEMENTS)
        left = reroll.count(items)
        if left > MAX_STATEMENTS:
            raise Refused(f"{left} scalar instructions outside loops, limit {MAX_STATEMENTS}")
        self.emitted += left
        return _parts(items)

    def _needed(self):
        written, indices = [], []
        first = index = 0
        for part in [part for parts in self.groups if parts for part in parts]:
            home, index = index, index + 1
            for item in part:
                numbers, first = _emitted_numbers(item.key, first)
                places, index = _iterations(item.key, home, index)
                written.append(numbers)
                indices.append(places)
        if not self.uses:
            return set()
        number, of_iteration = np.concatenate(written), np.concatenate(indices)
        user, used, operand = np.array(self.uses).T
        # an operand that comes from different instructions in different iterations of a loop must be in memory
        _, reading = np.unique(number[user] * (operand.max() + 1) + operand, return_inverse=True)
        source = np.zeros(len(user), np.int64)
        source[reading] = number[used]
        varies = np.zeros(len(user), bool)
        varies[reading[number[used] != source[reading]]] = True
        return {*number[used[(of_iteration[user] != of_iteration[used]) | varies[reading]]].tolist()}

    # ------------------------------------------------------------------------------------------ instructions

    def add(self, key, integers=(), slots=()):
        """Append an instruction: its constant key, integers that vary, and slots that it reads (None: no operand)."""
        base, kinds = [self.count, *integers], []
        for slot in slots:
            if slot in self.position:
                kinds.append("value")
                base.append(self.position[slot])
                self.uses.append((self.count, self.position[slot], len(kinds)))
            elif slot in self.given.constants:
                kinds.append("constant")
                base.append(len(self.constants))
                self.constants.append(self.given.constants[slot])
            else:
                kinds.append(slot)
        self.items.append(reroll.Item((*key, *kinds), base, 1))
        self.count += 1

    def _read_scalar(self, code, work):
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
                raise Refused("scalar function implemented by NumPy or SciPy only")
            else:
                slots = [a, b]
                if arity == 3:
                    slots = [x or None for x in (a, b, code[t][1])]
                    t += 1
                self.add((op,), [], slots[:arity])
            self.position[y] = self.count - 1
            self.written_slots.add(y)

    def _read_pack(self, array, offsets, slots):
        for offset, slot in zip(offsets.tolist(), slots.tolist()):
            self.add(("store", array), [offset], [slot])

    def _read_copy(self, array, source, size):
        self.add(("copy", array, source, size))


class ScalarWriter:
    """Emits the items of `ScalarCode` in program order."""

    def __init__(self, given: Kernels, code: ScalarCode):
        self.given = given
        self.needed = code.needed
        self.constants = np.array(code.constants, float)
        self.times: list = []  # iteration counts of the enclosing loops
        self.next_emitted = 0  # number of the next emitted instruction
        self.version = 0  # increases with each store to an array, after which loads must be repeated

    def write(self, function: Function, parts) -> None:
        self.function = function
        for i, part in enumerate(parts):
            if i:
                function.new_part()
            block = Block(function, function.double)
            self._append([(x.key, [(v, ()) for v in x.base]) for x in part], [], block)

    def _append(self, items, indices, block):
        """Emit instructions and loops; each integer of a base is a pair (first value, steps in the enclosing loops)."""
        f = self.function
        values: dict = {}
        for key, base in items:
            if isinstance(key, reroll.Loop):
                moved = [(x, (*steps, step)) for (x, steps), step in zip(base, key.steps)]
                ends = np.cumsum([0, *key.widths]).tolist()
                inner = [(k, moved[i:j]) for k, i, j in zip(key.keys, ends, ends[1:])]
                self.times.append(key.times)
                with f.loop(key.times) as index:
                    self._append(inner, [*indices, index], Block(f, f.double))
                self.times.pop()
                continue
            self._append_one(key, base, indices, block, values)
            self.next_emitted += 1

    def _append_one(self, key, base, indices, block, values):
        f, b = self.function, self.function.builder
        op, place, rest = key[0], base[0], base[1:]

        def address(pointer, varying, by=0, kind=None):
            return f.at(pointer, f.affine(by + varying[0], varying[1], indices), kind)

        def operands(kinds, varying):
            varying = iter(varying)
            return [None if kind is None else operand(kind, varying) for kind in kinds]

        def operand(kind, varying):
            if type(kind) is int:
                return block.define(("slot", kind), lambda: f.slot(kind))
            x = next(varying)
            if kind == "constant":
                return self._constant(x, indices, block)
            if x in values:
                return values[x]
            return block.define(("value", x), lambda: b.load(address(f.slots, x, self.given.slots), typ=f.double))

        if op == "load" or op == "load_bool":
            is_flag = op == "load_bool"
            kind = f.i8 if is_flag else f.double

            def load():
                x = b.load(address(f.array(key[1]), rest[0], kind=kind), typ=kind)
                return b.icmp_unsigned("!=", x, f.ir.Constant(kind, 0)) if is_flag else x

            found = block.define(("load", key[1], rest[0], self.version), load, is_flag)
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
                b.ret(b.trunc(f.affine(*rest[0], indices), f.i32))
            return
        else:
            found = block.apply(op, operands(key[1:], rest))
        values[place] = found
        if self.next_emitted in self.needed:
            b.store(block.double(found), address(f.slots, place, self.given.slots))

    def _constant(self, varying, indices, block):
        """Return a constant, or load it from a table if it varies between iterations."""
        f, ir = self.function, self.function.ir
        places = np.array(varying[0])
        for step, times in zip(varying[1], self.times):
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
            return f.builder.load(f.at(table, f.affine(0, steps, indices)), typ=f.double)

        return block.define(("constant", varying), load)

    def _append_copy(self, array, source, size):
        f, b = self.function, self.function.builder
        ir, flag = f.ir, f.ir.IntType(1)
        name, kind = ("memset", f.i8) if source < 0 else ("memcpy", f.pointer)
        name = f"llvm.{name}.p0.{'p0.' if source >= 0 else ''}i64"
        kinds = ir.FunctionType(ir.VoidType(), [f.pointer, kind, f.i64, flag])
        function = f.module.globals.get(name) or ir.Function(f.module, kinds, name)
        x = ir.Constant(f.i8, 0) if source < 0 else f.array(source)
        b.call(function, [f.array(array), x, f.int64(size), ir.Constant(flag, 0)])
        self.version += 1

    def _is_same(self, x, expected, are_bits):
        """Compare for a guard: floats by bits, any NaN equal to any other; integers by value, so -0 equals 0."""
        f, b = self.function, self.function.builder
        if not are_bits:
            return b.fcmp_ordered("==", x, expected)
        is_equal = b.icmp_unsigned("==", b.bitcast(x, f.i64), b.bitcast(expected, f.i64))
        return b.or_(is_equal, b.and_(b.fcmp_unordered("uno", x, x), b.fcmp_unordered("uno", expected, expected)))


def _parts(items):
    """Split items into parts of at most `MAX_STATEMENTS_OF_FUNCTION`, each of which becomes a function."""
    found: list = [[]]
    size = 0
    for item in items:
        more = reroll.count([item])
        if size + more > MAX_STATEMENTS_OF_FUNCTION and found[-1]:
            found.append([])
            size = 0
        found[-1].append(item)
        size += more
    return found


def _emitted_numbers(key, first):
    """Return the number in the emitted code of each instruction of an unrolled item, and the next free number."""
    if not isinstance(key, reroll.Loop):
        return np.array([first]), first + 1
    found = []
    for inner in key.keys:
        numbers, first = _emitted_numbers(inner, first)
        found.append(numbers)
    return np.tile(np.concatenate(found), key.times), first


def _iterations(key, home, index):
    """Return the number of the loop iteration of each instruction (`home` outside loops), and the next free number."""
    if not isinstance(key, reroll.Loop):
        return np.array([home]), index
    found = []
    for _ in range(key.times):
        here, index = index, index + 1
        for inner in key.keys:
            places, index = _iterations(inner, here, index)
            found.append(places)
    return np.concatenate(found), index
