"""Verifies lists of instructions: what passes, derivatives and the VM rely on without a look.

Input: a list, in any state; output: nothing, or `MalformedProgram` that names the instruction and what is wrong.
Every value is defined before it is read, every index points into its table, each view and each place lies within its
array, and the type of each value is the one that its instruction gives to operands of their types.
A list that passes cannot make the VM read or write outside of its buffers, whatever its numbers are.
It runs whenever a program is unpickled, and takes one look at each instruction and each entry of a table; bodies of
loops are lists too.
"""

from __future__ import annotations

import functools
import math
import operator
import zlib
from typing import Any

import numpy as np

from wengert.core.tape import kernel_rows
from wengert.program.calls import Call, Operand
from wengert.program.listing import Listing, c_strides, operands
from wengert.program.opcodes import Op
from wengert.registry import Primitive

#: of the pickled form, to be raised when what a list means changes; another one is refused with what to do
VERSION = 2

#: number of operands of each elementwise row
ARITIES = {opcode: arity for _, opcode, arity, *_ in kernel_rows()}

SCALAR, FLAG = 0, 1
FLAGS = range(Op.LESS, Op.ISNAN + 1)
OF_TWO = {*range(Op.LESS, Op.NOT), Op.AND, Op.OR, Op.STRONG}
OF_ONE = {Op.NOT, Op.ISNAN, Op.SUM, Op.STOP}


#: axes of an array that the VM has room for, and bytes of an array, so that no sum of sizes overflows
_MAX_AXES, _MAX_BYTES = 64, 1 << 46


class MalformedProgram(ValueError):
    """A list that no pass makes; it says which instruction, and why."""


@functools.cache
def form() -> str:
    """The pickled form: lists hold numbers of instructions, which are others where there are other rows."""
    rows = [row[:2] for row in kernel_rows()], [(op.name, int(op)) for op in Op]
    return f"{VERSION}-{zlib.crc32(repr(rows).encode()):08x}"


def check_form(found: Any, name: str) -> None:
    """Raise ValueError if what was pickled has another form."""
    if found != form():
        known = f"in form {found}" if type(found) is str else "by another version of wengert"
        raise ValueError(f"{name} was saved {known}, and this version reads form {form()}: record it again")


def check(program) -> None:
    """Raise `MalformedProgram` unless the list of a program, or a list itself, is well-formed."""
    checked = _Checked(getattr(program, "_listing", program))
    try:
        checked.all()
    except MalformedProgram:
        raise
    except Exception as error:  # what should be a number or a tuple may be anything
        checked.refuse(f"{type(error).__name__}: {error}", error)


def _is_sizes(x):
    return type(x) is tuple and all(type(n) is int and n >= 0 for n in x)


def _is_steps(x):
    return type(x) is tuple and all(type(n) is int for n in x)


def _is_places(x):
    """Is this a row of numbers as the VM reads it?"""
    return type(x) is np.ndarray and x.dtype == np.int32 and x.ndim == 1 and x.flags.c_contiguous


def laid(type: tuple) -> tuple:
    """What tells layouts of arrays apart: dtype and shape, and the strides of axes along which there are several."""
    dtype, shape, strides = type
    steps = c_strides(shape, dtype.itemsize) if strides is None or 0 in shape else strides
    return dtype, shape, tuple([0 if n == 1 else step for n, step in zip(shape, steps)])


class _Checked:
    def __init__(self, code):
        self.code = code
        self.i = self.n = -1
        self.rows = []

    def all(self):
        code = self.code
        self.expect(type(code) is Listing, "no list of instructions")
        tables = (code.types, code.constants, code.arrays, code.calls, code.views, code.packs, code.guards)
        are_lists = all(type(table) is list for table in (*tables, code.inputs, code.outputs))
        self.expect(are_lists, "a table that is no list")
        self.n = len(code)
        self.rows = list(zip(code.op.tolist(), code.a.tolist(), code.b.tolist(), code.c.tolist(), code.type.tolist()))
        self.expect(code.types[:2] == [(np.dtype(float), (), None), (np.dtype(bool), (), "flag")], "types begin anew")
        for kind in code.types[2:]:
            self.type(*kind)
        for view in code.views:
            offset, shape, strides = view
            holds = type(view) is tuple and type(offset) is int and _is_sizes(shape) and _is_steps(strides)
            self.expect(holds and len(shape) == len(strides) <= _MAX_AXES, f"no view: {view!r}")
        self.expect(all(type(x) is float for x in code.constants), "a constant that is no float")
        for i in np.flatnonzero(~self.plain()).tolist():
            self.i = i
            self.instruction(*self.rows[i])
        self.i = self.n
        self.expect(all(type(v) is int for v in (*code.inputs, *code.outputs)), "an output or input that is no value")
        self.expect(
            all(0 <= v < self.n and self.rows[v][0] != Op.GUARD for v in code.outputs), "an output that is none"
        )
        found = [i for i, row in enumerate(self.rows) if row[0] == Op.INPUT]
        self.expect(sorted(code.inputs) == found, "inputs are not those of the list")
        self.expect([self.rows[v][1] for v in code.inputs] == list(range(len(found))), "inputs out of order")

    def plain(self):
        """Which instructions are right at a glance: scalar arithmetic, constants, and loads from arrays of doubles."""
        code, line = self.code, np.arange(self.n)
        op, a, b, c, kind = (x.astype(np.int64) for x in (code.op, code.a, code.b, code.c, code.type))
        row = np.where((op >= 0) & (op < Op.OPS), op, Op.OPS)
        given = (a >= 0) + 2 * (b >= 0) + 4 * (c >= 0)
        found = (given > 0) & (given & ~_MAY_READ[row] == 0) & (_MUST_READ[row] & ~given == 0)
        found &= kind == np.where((op >= Op.LESS) & (op <= Op.ISNAN), FLAG, SCALAR)
        is_scalar = (kind >= SCALAR) & (kind <= FLAG) & (op != Op.GUARD)
        for v in (a, b, c):
            found &= (v < 0) | ((v < line) & is_scalar[np.minimum(np.maximum(v, 0), self.n - 1)])
        found |= (op == Op.CONST) & (kind == SCALAR) & (a >= 0) & (a < len(code.constants))
        sizes = [self.size(k) if k > FLAG and dtype == np.float64 else 0 for k, (dtype, *_) in enumerate(code.types)]
        inside = np.array(sizes, dtype=np.int64)[np.minimum(np.maximum(kind, 0), len(sizes) - 1)]
        inside = inside[np.minimum(np.maximum(a, 0), self.n - 1)]
        return found | ((op == Op.LOAD) & (kind == SCALAR) & (a >= 0) & (a < line) & (b >= 0) & (b < inside))

    def type(self, dtype, shape, strides):
        """A type of the table."""
        kind = f"{dtype!r}, {shape!r}, {strides!r}"
        self.expect(isinstance(dtype, np.dtype) and dtype.itemsize > 0, f"no type: {kind}")
        self.expect(not dtype.hasobject, f"objects in an array: {kind}")
        self.expect(_is_sizes(shape) and len(shape) <= _MAX_AXES, f"no shape: {kind}")
        steps = c_strides(shape, dtype.itemsize) if strides is None else strides
        self.expect(_is_steps(steps) and len(steps) == len(shape), f"no strides: {kind}")
        self.expect(all(step % dtype.alignment == 0 for step in steps), f"strides that part an element: {kind}")
        span = sum(n * abs(step) for n, step in zip(shape, steps))
        self.expect(dtype.itemsize * math.prod(shape) < _MAX_BYTES and span < _MAX_BYTES, f"too large: {kind}")

    def expect(self, holds, what):
        if not holds:
            self.refuse(what)

    def refuse(self, what, cause=None):
        where = f"instruction {self.i}, {self.rows[self.i]}" if 0 <= self.i < self.n else "the list"
        raise MalformedProgram(f"{where}: {what}") from cause

    def instruction(self, op, a, b, c, kind):
        self.expect(0 <= kind < len(self.code.types), "a type that is not in the table")
        if op in _NEEDED:
            self.expect(a >= 0 and (b >= 0 or op not in _NEED_TWO), "operands are missing")
        if op in (Op.CONST, Op.ARRAY, Op.CALL, Op.INPUT):
            table = {Op.CONST: self.code.constants, Op.ARRAY: self.code.arrays, Op.CALL: self.code.calls}.get(op)
            self.expect(a >= 0 and (table is None or a < len(table)), "an entry that is not in its table")
        if op == Op.PACK:
            self.expect(0 <= b < len(self.code.packs), "an entry that is not in its table")
            pack = self.code.packs[b]
            holds = type(pack) is tuple and len(pack) == 2 and all(map(_is_places, pack))
            self.expect(holds, "elements that are no numbers")
        for v in operands(self.code, self.i):
            self.expect(0 <= operator.index(v) < self.i, f"v{v} is read before it is defined")
            self.expect(self.rows[v][0] != Op.GUARD, f"v{v} is a guard and has no value")
        if op < Op.INPUT or op in OF_TWO or op in OF_ONE or op == Op.SELECT:
            self.computation(op, a, b, c, kind)
        else:
            self.expect(op in _RULES, "no such instruction")
            _RULES[op](self, a, b, c, kind)

    # ------------------------------------------------------------------------------------------ computations

    def computation(self, op, a, b, c, kind):
        """Elementwise, on numbers and arrays of one shape; a sum; a mark."""
        given = (a >= 0, b >= 0, c >= 0)
        if op < Op.PARTIAL:
            self.expect(op in ARITIES and given == (True, ARITIES[op] == 2, False), "operands of another row")
        elif op < Op.INPUT:
            self.expect((op - Op.PARTIAL) % 2 < ARITIES.get((op - Op.PARTIAL) // 2, 0), "the partial of no row")
        else:
            expected = (True, op in OF_TWO or op == Op.SELECT, op == Op.SELECT)
            self.expect(given == expected, "operands of another instruction")
        dtype, shape, _ = self.code.types[kind]
        if op == Op.SUM:
            self.expect(kind == SCALAR and self.is_array(a) and self.dtype(a).kind == "f", "a sum is a number")
            return
        shapes = [self.shape(v) for v in (a, b, c) if v >= 0]
        self.expect(all(s in ((), shape) for s in shapes), f"shapes {shapes} give {shape}")
        self.expect(shape == () or shape in shapes or not shapes, "an array of numbers alone")
        if op in FLAGS:
            self.expect(dtype.kind == "b", "a comparison is of type bool")
        elif op == Op.SELECT:
            self.expect(dtype == self.dtype(b) == self.dtype(c), "alternatives of other types")
        elif op == Op.STOP:
            self.expect(kind == self.rows[a][4], "a mark changes no type")

    def shape(self, v):
        return self.code.types[self.rows[v][4]][1]

    def dtype(self, v):
        return self.code.types[self.rows[v][4]][0]

    # ------------------------------------------------------------------------------------------ values

    def is_array(self, v):
        return self.rows[v][4] > FLAG

    def nothing(self, a, b, c, kind):
        self.expect(b == c == -1, "columns that this instruction has not")

    def const(self, a, b, c, kind):
        self.expect(kind in (SCALAR, FLAG), "a constant number is one number")

    def array(self, a, b, c, kind):
        dtype, shape, _ = self.code.types[kind]
        content = self.code.arrays[a]
        self.expect(kind > FLAG and type(content) is np.ndarray, "a constant that is no array")
        self.expect((content.dtype, content.shape) == (dtype, shape), "the constant is of another type")

    def call(self, a, b, c, kind):
        call = self.code.calls[a]
        self.expect(type(call) is Call and callable(call.compute), "no call")
        self.expect(type(call.args) is tuple and type(call.kwargs) is dict, "no arguments of a call")
        self.expect(call.row is None or isinstance(call.row, Primitive), "a call of no row")
        named = {operator.index(x.position) for x in _leaves(call.args) if type(x) is Operand}
        self.expect(named <= set(range(len(call.operands))), "an operand that is not among the call's")
        for argument in _leaves((call.args, *call.kwargs.values())):
            if hasattr(argument, "check_format"):  # a sparse matrix, which SciPy reads without a look
                argument.check_format(full_check=True)
        if hasattr(call.compute, "mismatch"):  # a loop, whose body reads operands as they are
            check(call.compute.body)
            found = call.compute.mismatch([self.code.types[self.rows[v][4]] for v in call.operands])
            self.expect(not found, found)
            of_result = (np.dtype(float), (call.compute.count,), None)
            self.expect(self.code.types[kind] == of_result, "a loop whose results have another length")

    def guard(self, a, b, c, kind):
        self.expect(0 <= b < len(self.code.guards) and kind == SCALAR, "an entry that is not in its table")
        self.expect(type(self.code.guards[b]) is tuple, "no guard")
        expected, place = self.code.guards[b]
        self.expect(type(place) is str, "a guard says where it stands")
        self.expect(np.shape(expected) == self.shape(a), "a guard on a value of another shape")
        self.expect(-1 <= c < a, "a guard that says how a later value is computed")

    # ------------------------------------------------------------------------------------------ memory

    def size(self, kind):
        """Elements of the memory of a type, from its lowest address on."""
        dtype, shape, strides = self.code.types[kind]
        if strides is None or 0 in shape:
            return math.prod(shape)
        return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, strides)) // dtype.itemsize

    def load(self, a, b, c, kind):
        self.expect(kind in (SCALAR, FLAG) and self.is_array(a), "a load makes a number of an array")
        self.expect(self.dtype(a) == self.code.types[kind][0], "a load makes a number of one of another type")
        self.expect(0 <= b < self.size(self.rows[a][4]), "an element outside of its array")

    def within(self, index, kind, dtype):
        """A view of a dtype lies inside of an array of a type."""
        self.expect(0 <= index < len(self.code.views), "an entry that is not in its table")
        offset, shape, strides = self.code.views[index]
        parts = dtype.alignment > 1 and any(step % dtype.alignment for step in (offset, *strides))
        self.expect(not parts, "a view that parts an element")
        if 0 not in shape:
            low = offset + sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
            high = offset + sum((n - 1) * s for n, s in zip(shape, strides) if s > 0) + dtype.itemsize
            size = self.size(kind) * self.code.types[kind][0].itemsize
            self.expect(0 <= low and high <= size, "a view outside of its array")
        return shape

    def view(self, a, b, c, kind):
        self.expect(self.is_array(a) and kind > FLAG, "a view of a number, or that is one")
        dtype = self.code.types[kind][0]
        shape = self.within(b, self.rows[a][4], dtype)
        strides = self.code.views[b][2]
        self.expect(0 in shape or laid(self.code.types[kind]) == laid((dtype, shape, strides)), "a view laid otherwise")
        is_other = {dtype.kind, self.dtype(a).kind} != {"c", "f"} and dtype != self.dtype(a)
        self.expect(self.code.types[kind][1] == shape and not is_other, "a view of another type")

    def pack(self, a, b, c, kind):
        self.expect(
            kind > FLAG and (a < 0 or self.code.types[self.rows[a][4]][:2] == self.code.types[kind][:2]),
            "elements are put into an array of another type",
        )
        offsets, values = self.code.packs[b]
        self.expect(len(offsets) == len(values) == len(set(offsets.tolist())), "an element twice")
        self.expect(
            all(0 <= offset < self.size(kind) for offset in offsets.tolist()), "an element outside of its array"
        )
        self.expect(not any(self.is_array(v) for v in values.tolist()), "an element that is an array")

    def place(self, a, b, c, kind):
        self.expect(
            kind > FLAG and (a < 0 or self.code.types[self.rows[a][4]][:2] == self.code.types[kind][:2]),
            "a view is written of an array of another type",
        )
        shape = self.within(b, kind, self.code.types[kind][0])
        kept = self.shape(c)[max(0, len(self.shape(c)) - len(shape)) :]
        self.expect(a >= 0 or math.prod(shape) >= math.prod(self.code.types[kind][1]), "elements that nothing defines")
        self.expect(math.prod(self.shape(c)) == math.prod(kept), "a value of more axes than the view")
        self.expect(np.broadcast_shapes(kept, shape) == shape, "a value that does not fit into the view")

    def gather(self, a, b, c, kind):
        self.expect(kind > FLAG, "a number that is made of an array")
        self.moved(a, b, self.rows[a][4], kind, b)

    def put(self, a, b, c, kind):
        self.expect(kind > FLAG and c >= 0, "a number that is made of an array")
        self.expect(a < 0 or self.code.types[self.rows[a][4]] == self.code.types[kind], "elements of another type")
        self.moved(c, b, kind, kind, c)

    def scatter(self, a, b, c, kind):
        self.expect(kind > FLAG, "a number that is made of an array")
        self.moved(a, b, kind, kind, a)

    def moved(self, a, b, memory, kind, like):
        """Elements of a memory are taken from places, or put there; `like` has the shape of what is moved."""
        self.expect(self.is_array(a) and self.rows[b][0] == Op.ARRAY, "places are a constant array")
        places = self.code.arrays[self.rows[b][1]]
        of_places = self.code.types[self.rows[b][4]]
        in_order = laid(of_places) == laid((*of_places[:2], None))
        self.expect(places.dtype == np.int32 and in_order, "places are of type int32 and in C order")
        inside = not places.size or (0 <= places.min() and places.max() < self.size(memory))
        self.expect(inside, "an element outside of its array")
        other = self.code.types[kind][1] if like == b else self.shape(like)
        self.expect(self.shape(b) == other and self.dtype(a) == self.code.types[kind][0], "a value of another type")


#: by opcode: columns of scalar arithmetic that may name values, bits 1, 2 and 4, and those that have to
_MAY_READ, _MUST_READ = np.zeros((2, Op.OPS + 1), dtype=np.int64)
for _opcode, _arity in ARITIES.items():
    _MAY_READ[_opcode] = _MUST_READ[_opcode] = 2**_arity - 1
    _MAY_READ[Op.PARTIAL + 2 * _opcode : Op.PARTIAL + 2 * _opcode + _arity] = 7
_MAY_READ[list(OF_TWO)] = _MUST_READ[list(OF_TWO)] = 3
_MAY_READ[[Op.NOT, Op.ISNAN]] = _MUST_READ[[Op.NOT, Op.ISNAN]] = 1

#: instructions that read a, and those that read b too
_NEED_TWO = {Op.GATHER, Op.SCATTER}
_NEEDED = {Op.LOAD, Op.VIEW, Op.SUM, Op.GUARD, Op.STOP, *_NEED_TWO}


def _leaves(args):
    for argument in args:
        if type(argument) in (list, tuple):
            yield from _leaves(argument)
        else:
            yield argument


_RULES = {
    Op.INPUT: _Checked.nothing,
    Op.CONST: _Checked.const,
    Op.ARRAY: _Checked.array,
    Op.LOAD: _Checked.load,
    Op.VIEW: _Checked.view,
    Op.PACK: _Checked.pack,
    Op.PLACE: _Checked.place,
    Op.CALL: _Checked.call,
    Op.GUARD: _Checked.guard,
    Op.GATHER: _Checked.gather,
    Op.PUT: _Checked.put,
    Op.SCATTER: _Checked.scatter,
}
