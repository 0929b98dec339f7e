"""The verifier of the IR: checks programs and the objects that they call.

Input: a program in any state. Output: none, or `MalformedProgram`, which names the instruction and the fault.
Passes, derivatives and the VM rely on these invariants without testing them: every value is defined before its use;
every index lies within its table; every view lies within its array; the type of each value follows from its
instruction and the operand types.
A program that passes cannot make the VM access memory outside its buffers, whatever values it computes.
The verifier runs on every unpickled program, and between passes in tests.

The opcode table declares the operand columns of each instruction; `_RULES` holds the checks of single opcodes.
Checks that need only the columns are vectorised over all instructions.

Callables in a program check themselves in a method ``check_call(call, types, kind, verifier)``, and objects around
programs in ``check_parts(verifier)``, both with `expect` and `check_fields`.
"""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from wengert.core.tape.tape import kernel_rows
from wengert.program.ir.call import Call, Operand, product_of
from wengert.program.ir.ir import Listing, c_strides, overlaps
from wengert.program.ir.opcode_table import ELEMENTWISE, FLAGS, ROWS, TABLES, marked, opcodes
from wengert.program.ir.opcodes import Op
from wengert.registry import Primitive

#: version of the pickle format; raise it when the meaning of a program changes (other versions are rejected on load)
VERSION = 3

SCALAR, FLAG = 0, 1
_FLOAT, _BOOL = np.dtype(float), np.dtype(bool)
#: NumPy kind codes of the dtypes that values may have
_KINDS = frozenset("biufcmMSU")

#: the VM's limit on array axes, and a limit on bytes per array that keeps sums of sizes from overflowing
_MAX_AXES, _MAX_BYTES = 64, 1 << 46
#: nesting limit of containers, and of programs within programs
_MAX_DEPTH = 100

#: back ends that can run a program
TIERS = ("auto", "vm", "llvm")

#: contents of a column: nothing, a value id, a value id or -1, or an index
_NONE, _VALUE, _MAYBE, _INDEX = range(4)
_HOLDS = {"": _NONE, "value": _VALUE, "value?": _MAYBE, "about": _MAYBE}

#: contents by column and opcode, as an array; index `Op.OPS` stands for invalid opcodes
_COLUMNS = np.zeros((3, Op.OPS + 1), np.int8)
for _opcode, _row in ROWS.items():
    _COLUMNS[:, _opcode] = [_HOLDS.get(holds, _INDEX) for holds in _row.columns]
_IS_KNOWN, _IS_FLAG = marked(frozenset(ROWS)), marked(FLAGS)
_IS_ELEMENTWISE = marked(ELEMENTWISE | opcodes(result="operand"))
#: for each opcode with a table index: its column and the table
_TABLES = {op: (k, holds) for op, row in ROWS.items() for k, holds in enumerate(row.columns) if holds in TABLES}

#: instructions per vectorised check, which bounds temporary memory
_BLOCK = 1 << 13


class MalformedProgram(ValueError):
    """Raised for a malformed program; the message names the instruction and the reason."""


@functools.cache
def form() -> str:
    """Return the pickle format: the version and a checksum of all opcodes, which pickled programs contain."""
    rows = [row[:2] for row in kernel_rows()], [(op.name, int(op)) for op in Op]
    return f"{VERSION}-{zlib.crc32(repr(rows).encode()):08x}"


def check_form(found: Any, name: str) -> None:
    """Raise ValueError if the pickle format `found` is not the current one."""
    if found != form():
        known = f"in format {found}" if type(found) is str else "by another version of wengert"
        raise ValueError(f"{name} was saved {known}, but this version reads format {form()}: record it again")


def check(program: Any) -> None:
    """Raise `MalformedProgram` unless a program, including everything that it calls, is well-formed."""
    try:
        Verifier().check(program)
    except (MalformedProgram, MemoryError):
        raise
    except Exception as error:  # a damaged pickle may hold objects of any type where a number or tuple belongs
        raise MalformedProgram(f"{type(error).__name__}: {error}") from error


def expect(holds: Any, what: str) -> None:
    """Raise `MalformedProgram` with the message `what` unless `holds`."""
    if not holds:
        raise MalformedProgram(what)


def check_fields(x: Any, required: dict[str, Any], optional: dict[str, Any] | None = None) -> None:
    """Raise `MalformedProgram` unless an object has the required attributes, of the right types.

    A class in `required` or `optional` must be the exact type; a function is a predicate on the attribute.
    """
    name, has = type(x).__name__, vars(x)
    for key, kind in {**required, **(optional or {})}.items():
        expect(key in has or key not in required, f"{name} has no {key}")
        if key in has:
            holds = type(has[key]) is kind if isinstance(kind, type) else kind(has[key])
            expect(holds, f"{name}.{key} is a {type(has[key]).__name__}: invalid type or value")


def is_a(*kinds: type) -> Callable[[Any], bool]:
    """Return a predicate for `check_fields` that accepts instances of `kinds`, subclasses included."""
    return lambda x: isinstance(x, kinds)


def is_count(x: Any) -> bool:
    """Return whether `x` is a nonnegative int."""
    return type(x) is int and x >= 0


def is_shape(x: Any) -> bool:
    """Return whether `x` is a valid array shape."""
    is_sizes = type(x) is tuple and len(x) <= _MAX_AXES and all(map(is_count, x))
    return is_sizes and math.prod([max(1, n) for n in x]) < _MAX_BYTES


class Verifier:
    """Visits each part of a program once, and rejects cycles."""

    def __init__(self):
        self.known: dict[int, Any] = {}  # by id; holds the objects, so that no id is reused
        self.around: set[int] = set()

    def check(self, x: Any) -> None:
        """Check an instruction list, or a program or another object that has ``_check_parts``."""
        expect(id(x) not in self.around, "it contains itself")
        if id(x) in self.known:
            return
        expect(len(self.around) < _MAX_DEPTH, "it is nested too deeply")
        self.around.add(id(x))
        if type(x) is Listing:
            _Checked(x, self)
        else:
            x._check_parts(self)
        self.around.remove(id(x))
        self.known[id(x)] = x

    def constant(self, x: Any, depth: int = 0) -> None:
        """Check a constant argument of a call: containers must be finite, sparse matrices well-formed."""
        if isinstance(x, (list, tuple, set, frozenset, dict)):
            expect(depth < _MAX_DEPTH, "an argument is nested too deeply")
            if id(x) in self.known:
                return
            for item in (*x, *x.values()) if isinstance(x, dict) else x:
                self.constant(item, depth + 1)
            self.known[id(x)] = x
        elif hasattr(x, "nnz"):
            check_sparse(x)


def check_sparse(x: Any) -> None:
    """Raise `MalformedProgram` unless the indices of a sparse matrix are in bounds; SciPy's kernels do not check."""
    try:
        expect(is_shape(tuple(map(int, x.shape))), "its shape is invalid")
        if hasattr(x, "check_format"):
            x.check_format(full_check=True)
        elif x.format == "coo":
            coords = x.coords if hasattr(x, "coords") else (x.row, x.col)
            expect(len(coords) == len(x.shape) and x.data.ndim == 1, "its axes are inconsistent")
            for places, size in zip(coords, x.shape):
                expect(places.shape == x.data.shape and places.dtype.kind in "iu", "its indices are invalid")
                expect(not len(places) or (0 <= places.min() and places.max() < size), "an index is out of bounds")
        elif x.format == "dia":
            is_valid = x.data.ndim == 2 and x.offsets.shape == x.data.shape[:1] and x.offsets.dtype.kind == "i"
            expect(is_valid, "its axes are inconsistent")
    except Exception as error:
        raise MalformedProgram(f"a sparse matrix is not well-formed: {error}") from None


class _Checked:
    """Checks one program in its constructor."""

    def __init__(self, code, verifier):
        self.code, self.verifier = code, verifier
        self.n = len(code)
        self.op, self.kind = code.op, code.type
        self.kinds = self.kind.tolist()
        self.columns = np.array([code.a, code.b, code.c])
        self.guards = np.flatnonzero(self.op == Op.GUARD)
        self.views = {}
        self.check_tables()
        parts = [slice(first, min(first + _BLOCK, self.n)) for first in range(0, self.n, _BLOCK)]
        for part in parts:
            self.check_columns(part)
        self.check_indices()
        self.check_numbers()
        for op in sorted(set(np.unique(self.op).tolist()) & _RULES.keys()):
            at = np.flatnonzero(self.op == op)
            for i, row in zip(at.tolist(), self.columns[:, at].T.tolist()):
                try:
                    _RULES[op](self, i, *row, self.kinds[i])
                except MalformedProgram as error:
                    raise MalformedProgram(f"{self.name(i)} {error}") from None
        shapes = self.shapes[self.kind]
        for part in parts:
            self.check_elementwise(part.start + np.flatnonzero(_IS_ELEMENTWISE[self.op[part]]), shapes)
        self.check_ends()

    def name(self, i):
        """Return the name of an instruction for messages."""
        op = int(self.op[i])
        return f"instruction {i} ({ROWS[op].name if op in ROWS else op})"

    def expect_all(self, holds, what, at, values=None):
        """Raise for the first instruction of `at` where `holds` is false; ``{v}`` in `what` is its item of `values`."""
        if not holds.all():
            k = int(np.argmin(holds))
            raise MalformedProgram(f"{self.name(at[k])} {what if values is None else what.format(v=f'v{values[k]}')}")

    # ------------------------------------------------------------------------------------------ tables

    def check_tables(self):
        code = self.code
        for name in ("types", "constants", "arrays", "calls", "views", "packs", "guards", "inputs", "outputs"):
            expect(type(getattr(code, name)) is list, f"its {name} are not a list")
        starts_right = code.types[:2] == [(_FLOAT, (), None), (_BOOL, (), "flag")]
        expect(starts_right, "its type table does not start with float64 and bool")
        self.sizes = np.array([_elements(*kind) for kind in code.types])
        dtypes, shapes = {}, {}
        self.dtypes = np.array([dtypes.setdefault(dtype, len(dtypes)) for dtype, *_ in code.types])
        self.shapes = np.array([shapes.setdefault(shape, len(shapes)) for _, shape, _ in code.types])
        expect(all(type(x) is float for x in code.constants), "a constant is not a float")
        for view in code.views:
            holds = type(view) is tuple and len(view) == 3 and type(view[0]) is int and is_shape(view[1])
            expect(holds and _are_strides(view[2], view[1]), f"a view descriptor is invalid: {view!r}")

    def check_ends(self):
        code = self.code
        for name in ("inputs", "outputs"):
            values = getattr(code, name)
            right = all(type(v) is int and 0 <= v < self.n for v in values)
            expect(right and not (self.op[values] == Op.GUARD).any(), f"its {name} are not ids of its {self.n} values")
        found = np.flatnonzero(self.op == Op.INPUT).tolist()
        expect(sorted(code.inputs) == found, "its inputs are not its INPUT instructions")
        expect(self.columns[0][code.inputs].tolist() == list(range(len(found))), "its inputs are out of order")

    # ------------------------------------------------------------------------------------------ columns

    def check_columns(self, part):
        """Check opcodes, type ids and operands: each operand must be defined before its use."""
        op, kind, at = self.op[part], self.kind[part], np.arange(part.start, part.stop, dtype=np.int32)
        self.expect_all(_IS_KNOWN[op.clip(0, Op.OPS)] & (op >= 0), "has an unknown opcode", at)
        self.expect_all((kind >= 0) & (kind < len(self.code.types)), "has a type id outside the type table", at)
        for column, holds in zip(self.columns[:, part], _COLUMNS[:, op]):
            is_missing = column == -1
            self.expect_all(is_missing | (holds != _NONE), "has an operand in an unused column", at)
            self.expect_all(~is_missing | (holds != _VALUE), "lacks a required operand", at)
            is_value = (holds == _VALUE) | ((holds == _MAYBE) & ~is_missing)
            self.expect_all(~is_value | ((column >= 0) & (column < at)), "reads {v} before it is defined", at, column)
            if len(self.guards):
                reads_guard = is_value & np.isin(column, self.guards)
                self.expect_all(~reads_guard, "reads {v}, a guard, which has no value", at, column)

    def check_indices(self):
        """Check that every index points into its table."""
        for op, (k, table) in _TABLES.items():
            at = np.flatnonzero(self.op == op)
            right = (self.columns[k][at] >= 0) & (self.columns[k][at] < len(getattr(self.code, table)))
            self.expect_all(right, f"has an index outside the table of {table}", at)

    def check_elementwise(self, at, shapes):
        """Check that operands are scalars or arrays of the result's shape, and that scalars alone give a scalar."""
        own, number = shapes[at], self.shapes[SCALAR]
        has, reads, fits = own == number, np.zeros(len(at), bool), np.ones(len(at), bool)
        for column in self.columns[:, at]:
            is_value = column >= 0
            other = shapes[column]
            is_own = is_value & (other == own)
            fits &= ~is_value | is_own | (other == number)
            has |= is_own
            reads |= is_value
        self.expect_all(fits, "has another shape than its operands", at)
        self.expect_all(has | ~reads, "is an array computed from scalars only", at)
        right = ~_IS_FLAG[self.op[at]] | (self.dtypes[self.kind[at]] == self.dtypes[FLAG])
        self.expect_all(right, "is a comparison and must be of type bool", at)

    def check_numbers(self):
        """Check constants, loads of single elements, and instructions that keep the type of their operand."""
        at = np.flatnonzero(self.op == Op.SELECT)
        own, b, c = self.dtypes[self.kind[[at, *self.columns[1:, at]]]]
        self.expect_all((own == b) & (own == c), "selects between values of another dtype than its own", at)
        at = np.flatnonzero(self.op == Op.STOP)
        right = self.kind[at] == self.kind[self.columns[0, at]]
        self.expect_all(right, "changes the type of its operand", at)
        at = np.flatnonzero(self.op == Op.CONST)
        self.expect_all(self.kind[at] <= FLAG, "is a scalar constant and must be float64 or bool", at)
        at = np.flatnonzero(self.op == Op.LOAD)
        own, of, place = self.kind[at], self.kind[self.columns[0, at]], self.columns[1, at]
        right = (own <= FLAG) & (of > FLAG) & (self.dtypes[of] == self.dtypes[own])
        self.expect_all(right, "loads a scalar from a value that is not an array of its dtype", at)
        self.expect_all((place >= 0) & (place < self.sizes[of]), "loads an element outside of its array", at)

    def type(self, v):
        return self.code.types[self.kinds[v]]

    def is_array(self, v):
        return self.kinds[v] > FLAG

    # ------------------------------------------------------------------------------------------ values

    def sum(self, i, a, b, c, kind):
        expect(self.is_array(a) and self.type(a)[0].kind == "f", "must sum an array of floats")
        expect(kind == SCALAR, "is a sum and must be a float64 scalar")

    def array(self, i, a, b, c, kind):
        content = self.code.arrays[a]
        right = type(content) is np.ndarray and (content.dtype, content.shape) == self.code.types[kind][:2]
        expect(kind > FLAG and right, "is a constant array of another type than declared")

    def guard(self, i, a, b, c, kind):
        found = self.code.guards[b]
        expect(kind == SCALAR and type(found) is tuple and len(found) == 2, "is a guard without an expected value")
        expected, place = found
        expect(type(place) is str, "is a guard without a source location")
        expect(np.shape(expected) == self.type(a)[1], "expects a value of another shape")
        expect(c < a, "refers to a value that is not defined before the guarded one")

    # ------------------------------------------------------------------------------------------ calls

    def call(self, i, a, b, c, kind):
        call = self.code.calls[a]
        expect(type(call) is Call and callable(call.compute), "has no callable")
        right = type(call.args) is tuple and type(call.kwargs) is dict and type(call.operands) is list
        expect(right and all(type(key) is str for key in call.kwargs), "has malformed arguments")
        expect(call.row is None or type(call.row) is Primitive, "has an invalid registry row")
        for v in call.operands:
            expect(type(v) is int and 0 <= v < i, f"reads v{v} before it is defined")
            expect(self.op[v] != Op.GUARD, f"reads v{v}, a guard, which has no value")
        for argument in _leaves(call.args):
            if type(argument) is Operand:
                is_own = is_count(argument.position) and argument.position < len(call.operands)
                expect(is_own, "has an argument that refers to a missing operand")
            else:
                self.verifier.constant(argument)
        self.verifier.constant(call.kwargs)
        types = [self.type(v) for v in call.operands]
        check_call = getattr(type(call.compute), "check_call", None)
        if check_call is not None:
            check_call(call.compute, call, types, self.code.types[kind], self.verifier)
        elif product_of(call) not in (None, "vecdot"):  # no VM kernel computes vecdot
            self.product(call, types, self.code.types[kind][1])

    def product(self, call, types, shape):
        """Check the operand shapes of a matrix product, from which the VM kernel derives all its sizes."""
        left, right = [types[x.position][1] if type(x) is Operand else np.shape(x) for x in call.args]
        if call.row.scalars == "vdot":
            expect(math.prod(left) == math.prod(right) and shape == (), "multiplies arrays of mismatched sizes")
        elif 0 < len(left) < 3 and 0 < len(right) < 3:
            is_inner = call.row.scalars == "inner"
            summed, *others = reversed(right) if is_inner else right
            expect(left[-1] == summed and shape == (*left[:-1], *others), "multiplies arrays of mismatched shapes")

    # ------------------------------------------------------------------------------------------ memory

    def within(self, index, kind, dtype):
        """Check that a view of a dtype lies within an array of a type; return its shape and strides."""
        key = index, kind, dtype
        if key not in self.views:
            offset, shape, strides = self.code.views[index]
            is_aligned = all(step % dtype.alignment == 0 for step in (offset, *strides))
            expect(is_aligned, "has a view that is not aligned to elements")
            ends = [0] if 0 in shape else [(n - 1) * step for n, step in zip(shape, strides)]
            low, high = (offset + sum([extreme(0, end) for end in ends]) for extreme in (min, max))
            size = self.sizes[kind] * self.code.types[kind][0].itemsize
            expect(0 in shape or (low >= 0 and high + dtype.itemsize <= size), "has a view outside of its array")
            self.views[key] = shape, strides
        return self.views[key]

    def view(self, i, a, b, c, kind):
        expect(self.is_array(a) and kind > FLAG, "is a view whose operand or result is a scalar")
        dtype, own, _ = self.code.types[kind]
        of = self.type(a)[0]
        expect(dtype == of or {dtype.kind, of.kind} == {"c", "f"}, "is a view of an array of another dtype")
        shape, strides = self.within(b, self.kinds[a], dtype)
        expect(own == shape, "has another shape than its view")
        expect(_is_laid(self.code.types[kind], strides), "has other strides than its view")

    def is_like(self, a, kind):
        """Return whether `kind` is an array type with the dtype and shape of value a, if a >= 0; strides may differ."""
        return kind > FLAG and (a < 0 or self.type(a)[:2] == self.code.types[kind][:2])

    def pack(self, i, a, b, c, kind):
        expect(self.is_like(a, kind), "stores into an array of another type")
        found = self.code.packs[b]
        right = type(found) is tuple and len(found) == 2 and all(map(_is_row, found)) and len(found[0]) == len(found[1])
        expect(right, "has malformed offsets or values")
        offsets, values = found
        if len(offsets):
            expect(len(np.unique(offsets)) == len(offsets), "stores an element twice")
            expect(offsets.min() >= 0 and offsets.max() < self.sizes[kind], "stores an element outside of its array")
            expect(values.min() >= 0 and values.max() < i, "reads a value before it is defined")
            expect(not (self.op[values] == Op.GUARD).any(), "reads a guard")
            expect((self.kind[values] <= FLAG).all(), "stores an array as an element")

    def place(self, i, a, b, c, kind):
        expect(self.is_like(a, kind), "stores into an array of another type")
        dtype, own, _ = self.code.types[kind]
        shape, strides = self.within(b, kind, dtype)
        is_all = math.prod(shape) >= math.prod(own) and (0 in shape or not overlaps(shape, strides))
        expect(a >= 0 or is_all, "leaves elements of a new array undefined")
        given = self.type(c)[1]
        kept = given[max(0, len(given) - len(shape)) :]
        expect(math.prod(given) == math.prod(kept), "stores a value with more axes than its view")
        right = all(n in (1, m) for n, m in zip(reversed(kept), reversed(shape)))
        expect(right, "stores a value that cannot be broadcast to its view")

    def gather(self, i, a, b, c, kind):
        self.moved(a, b, self.kinds[a], kind, self.code.types[kind][1])

    def put(self, i, a, b, c, kind):
        expect(a < 0 or self.kinds[a] == kind, "stores into an array of another type")
        self.moved(c, b, kind, kind, self.type(c)[1])

    def scatter(self, i, a, b, c, kind):
        self.moved(a, b, kind, kind, self.type(a)[1])

    def moved(self, a, b, memory, kind, shape):
        """Check a gather, put or scatter: indices must have the shape of the elements and lie within the memory."""
        expect(kind > FLAG and self.is_array(a), "moves elements of a scalar")
        expect(self.op[b] == Op.ARRAY, "has indices that are not a constant array")
        places, of_places = self.code.arrays[self.columns[0][b]], self.type(b)
        in_order = _is_laid(of_places, c_strides(of_places[1], 4))
        expect(in_order and of_places[0] == np.int32, "has indices that are not int32 in C order")
        inside = not places.size or (0 <= places.min() and places.max() < self.sizes[memory])
        expect(inside, "moves an element outside of its array")
        right = of_places[1] == shape and self.type(a)[0] == self.code.types[kind][0]
        expect(right, "moves elements of another shape or dtype")


def _elements(dtype, shape, strides):
    """Return how many elements an array type spans in memory; raise if the type is invalid."""
    kind = f"{dtype!r}, {shape!r}, {strides!r}"
    is_valid = isinstance(dtype, np.dtype) and dtype.kind in _KINDS and dtype.itemsize
    expect(is_valid, f"a type has an invalid dtype: {kind}")
    expect(is_shape(shape) and math.prod(shape) * dtype.itemsize < _MAX_BYTES, f"a type has an invalid shape: {kind}")
    if strides is None or strides == "flag":
        return math.prod(shape)
    expect(_are_strides(strides, shape), f"a type has invalid strides: {kind}")
    is_aligned = all(step % dtype.alignment == 0 for step in strides)
    expect(is_aligned, f"a type has strides that are not aligned to elements: {kind}")
    return 0 if 0 in shape else 1 + sum([(n - 1) * abs(step) for n, step in zip(shape, strides)]) // dtype.itemsize


def _are_strides(strides, shape):
    """Return whether `strides` is a valid tuple of strides for the shape."""
    are_steps = type(strides) is tuple and len(strides) == len(shape) and all(type(step) is int for step in strides)
    return are_steps and sum([max(1, n) * abs(step) for n, step in zip(shape, strides)]) < _MAX_BYTES


def _is_laid(kind, strides):
    """Return whether an array type has these strides, disregarding axes of length 1."""
    dtype, shape, steps = kind
    if steps is None:
        steps = c_strides(shape, dtype.itemsize)
    return steps == strides or 0 in shape or all(n == 1 or a == b for n, a, b in zip(shape, steps, strides))


def _is_row(x):
    """Return whether `x` is a contiguous 1-D array of int32."""
    return type(x) is np.ndarray and x.dtype == np.int32 and x.ndim == 1 and x.flags.c_contiguous


def _leaves(args, depth=0) -> Iterable:
    expect(depth < _MAX_DEPTH, "has arguments that are nested too deeply")
    for argument in args:
        if type(argument) in (list, tuple):
            yield from _leaves(argument, depth + 1)
        else:
            yield argument


#: checks of the opcodes whose result type does not follow from the operand types alone
_RULES = {op: getattr(_Checked, ROWS[op].name) for op in opcodes(result=("declared", "scalar"))}
