# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The SSA container: straight-line code in which instruction i defines value i from earlier values.

Values are immutable: a function that writes into an array defines a new value for the array after the write.
Every pass therefore is a loop that appends to a new program, and a derivative extends its primal program.

A value is a scalar (float64 or bool) or an array, whose type holds dtype, shape and strides.
Instructions have three operand columns; anything larger is stored in side tables.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int16_t, int32_t
from libc.string cimport memcpy

import numpy as np

from wengert.core.tape.memory cimport Block, empty_array, take
from wengert.program.ir.opcodes cimport *

from wengert.program.ir import opcode_table

cnp.import_array()

cdef enum:
    MAX_INSTRUCTIONS = 1 << 30    # value ids are int32, and columns grow by doubling

for _op, _row in opcode_table.ROWS.items():
    traits[<int>_op] = _row.mask | sum([trait for trait, holds in (
        (IS_ELEMENTWISE, _op in opcode_table.ELEMENTWISE), (IS_FLAG, _op in opcode_table.FLAGS),
        (READS_ELEMENTS, _row.access == "elements"), (HAS_DERIVATIVE, _row.has_derivative),
        (IS_COMMUTATIVE, _row.is_commutative), (IS_FUNCTION, _row.cost == "function")) if holds])


@cython.final
cdef class Listing:
    """A program in SSA form: instructions as columns, and the tables that they index."""

    def __cinit__(self):
        self.types, self.constants, self.arrays, self.calls = [], [], [], []
        self.views, self.packs, self.guards = [], [], []
        self.inputs, self.outputs, self.numbers = [], [], {}
        self.type_of((np.dtype(float), (), None))
        self.type_of((np.dtype(bool), (), "flag"))

    cdef int grow(self) except -1:
        return self.reserve(max(64, 2 * self.capacity))

    cdef int reserve(self, Py_ssize_t capacity) except -1:
        """Grow the columns to hold `capacity` instructions."""
        if capacity > MAX_INSTRUCTIONS:
            raise MemoryError("the program has over 2**30 instructions: use array operations, not loops over elements")
        cdef Block room = take(max(1, capacity) * (4 * sizeof(int32_t) + sizeof(int16_t)))
        cdef int32_t *column = <int32_t *>room.data
        self.as_ = moved(column, self.as_, self.n)
        self.bs = moved(column + capacity, self.bs, self.n)
        self.cs = moved(column + 2 * capacity, self.cs, self.n)
        self.kinds = moved(column + 3 * capacity, self.kinds, self.n)
        if self.n:
            memcpy(column + 4 * capacity, self.ops, self.n * sizeof(int16_t))
        self.ops = <int16_t *>(column + 4 * capacity)
        self.room = room
        self.capacity = capacity
        return 0

    cpdef Listing successor(self, Py_ssize_t capacity=-1):
        """Return an empty program that shares the tables without value ids, so that `take` need not convert indices."""
        cdef Listing code = Listing.__new__(Listing)
        code.types, code.constants, code.arrays = self.types, self.constants, self.arrays
        code.views, code.guards, code.numbers = self.views, self.guards, self.numbers
        code.reserve(self.n + 64 if capacity < 0 else capacity)
        return code

    cdef Listing shortened(self, Py_ssize_t n):
        """Return a program of the first `n` instructions in the same memory; appending to it overwrites the others."""
        cdef Listing code = self.successor(0)
        cdef Py_ssize_t i
        code.room, code.capacity, code.n = self.room, self.capacity, n
        code.ops, code.as_, code.bs, code.cs, code.kinds = self.ops, self.as_, self.bs, self.cs, self.kinds
        for i in range(n):
            if code.ops[i] == CALL:
                code.calls.append(self.calls[code.as_[i]])
                code.as_[i] = len(code.calls) - 1
            elif code.ops[i] == PACK:
                code.packs.append(self.packs[code.bs[i]])
                code.bs[i] = len(code.packs) - 1
        return code

    cdef Listing copy(self):
        """Return a copy with spare capacity, to append to."""
        cdef Listing code = self.successor(3 * self.n + 64)
        code.calls, code.packs = list(self.calls), list(self.packs)
        code.inputs, code.outputs, code.n = list(self.inputs), list(self.outputs), self.n
        memcpy(code.ops, self.ops, self.n * sizeof(int16_t))
        memcpy(code.as_, self.as_, self.n * sizeof(int32_t))
        memcpy(code.bs, self.bs, self.n * sizeof(int32_t))
        memcpy(code.cs, self.cs, self.n * sizeof(int32_t))
        memcpy(code.kinds, self.kinds, self.n * sizeof(int32_t))
        return code

    cdef int32_t adopt(self, Listing other, Py_ssize_t i, const int32_t *of, const int32_t *kinds=NULL) except -1:
        """Append instruction `i` of a program with other tables; ``of[v]`` is the id in this program of its value `v`.

        `kinds` translates type ids, if the caller has computed it with `kinds_of`.
        """
        cdef int32_t v = copied(other, i, of, self)
        cdef int op = self.ops[v]
        self.kinds[v] = self.type_of(other.types[other.kinds[i]]) if kinds == NULL else kinds[other.kinds[i]]
        if op == CONST:
            flag = self.kinds[v]
            self.n = v
            self.constant(other.constants[other.as_[i]])
            self.kinds[v] = flag
        elif op == ARRAY:
            self.arrays.append(other.arrays[other.as_[i]])
            self.as_[v] = len(self.arrays) - 1
        elif op == VIEW or op == PLACE:
            self.bs[v] = self.entry(self.views, "view", other.views[other.bs[i]])
        elif op == GUARD:
            self.guards.append(other.guards[other.bs[i]])
            self.bs[v] = len(self.guards) - 1
        return v

    cdef cnp.ndarray kinds_of(self, Listing other):
        """Return an array that translates type ids of `other` to those of this program."""
        return np.array([self.type_of(type) for type in other.types], dtype=np.int32)

    # ------------------------------------------------------------------------------------------ tables

    cdef int32_t entry(self, list table, str name, object key) except -1:
        """Return the index of `key` in a table, appending it only if it is not there yet."""
        found = self.numbers.get((name, key))
        if found is None:
            found = self.numbers[name, key] = len(table)
            table.append(key)
        return found

    cdef int32_t type_of(self, tuple type) except -1:
        return self.entry(self.types, "type", type)

    cdef int32_t constant(self, double c) except -1:
        cdef bytes key = bits_of(c)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.constants)
            self.constants.append(c)
        return emit(self, CONST, found, -1, -1, SCALAR)

    def add(self, int op, tuple type, int32_t a, int32_t b=-1, int32_t c=-1):
        """Append an instruction; a, b and c are value ids or table indices of this program."""
        return emit(self, op, a, b, c, self.type_of(type))

    def take(self, Listing other, int32_t[::1] which, int32_t[::1] of):
        """Append the instructions `which` of another program and record in ``of[v]`` the new id of its value `v`."""
        cdef Py_ssize_t i
        cdef bint is_alike = self.types is other.types
        cdef cnp.ndarray table
        cdef const int32_t *kinds = NULL
        if not is_alike and which.shape[0] > len(other.types):
            table = self.kinds_of(other)
            kinds = <const int32_t *>cnp.PyArray_DATA(table)
        for i in range(which.shape[0]):
            if is_alike:
                of[which[i]] = copied(other, which[i], &of[0], self)
            else:
                of[which[i]] = self.adopt(other, which[i], &of[0], kinds)

    def inline(self, Listing other, values):
        """Append another program, given a value of this one for each of its inputs; return its outputs."""
        of = np.full(other.n, -1, dtype=np.int32)
        for v, w in zip(other.inputs, values):
            of[v] = w
        self.take(other, np.flatnonzero(of < 0).astype(np.int32), of)
        return [int(of[v]) for v in other.outputs]

    def input(self, tuple type):
        cdef int32_t v = emit(self, INPUT, len(self.inputs), -1, -1, self.type_of(type))
        self.inputs.append(v)
        return v

    def call(self, call, tuple type):
        """Append a call, whose result has this type."""
        self.calls.append(call)
        return emit(self, CALL, len(self.calls) - 1, -1, -1, self.type_of(type))

    def part(self, int32_t a, tuple view, dtype):
        """Append a view of an array; a view of one float64 becomes a scalar LOAD."""
        return self.view(a, view, dtype)

    def block(self, int32_t a, Py_ssize_t start, tuple shape):
        """Append the view of this shape that starts at element `start` of a float64 array in C order."""
        return self.view(a, (8 * start, shape, c_strides(shape, 8)), np.dtype(float))

    def place(self, int32_t a, tuple view, int32_t c, tuple type):
        """Append the array `a` with value `c` stored into a view of it; `a` = -1 starts from a new array."""
        return emit(self, PLACE, a, self.entry(self.views, "view", view), c, self.type_of(type))

    def in_layout(self, int32_t v, tuple type):
        """Return `v` if it has the layout of `type`, else append a copy that has it; dtype and shape must agree."""
        is_alike = type[1] == () or self.types[self.kinds[v]] == type
        return v if is_alike else self.place(-1, whole_view(type), v, type)

    def filled(self, double x, tuple shape):
        """Append a scalar constant, or an array filled with it."""
        cdef int32_t v = self.constant(x)
        type = (np.dtype(float), shape, None)
        return v if shape == () else self.place(-1, whole_view(type), v, type)

    def constant_array(self, array):
        """Append a constant array, which must be in C order."""
        self.arrays.append(array)
        return self.add(ARRAY, (array.dtype, array.shape, None), len(self.arrays) - 1)

    def guard(self, int32_t a, expected, str place, int32_t of=-1):
        """Append a guard on a value; the guard is dead if `of`, the value whose derivation needs it, is dead."""
        self.guards.append((expected, place))
        return emit(self, GUARD, a, len(self.guards) - 1, of, SCALAR)

    cdef int32_t as_type(self, int32_t a, tuple type) except -1:
        """Append a view that reinterprets the memory of `a` as another type, contiguous if its strides are None."""
        return emit(self, VIEW, a, self.entry(self.views, "view", whole_view(type)), -1, self.type_of(type))

    cdef int32_t view(self, int32_t a, tuple view, object dtype) except -1:
        """Append a view: `view` is (byte offset from the lowest address of `a`, shape, strides).

        A view of a broadcast view is rebased on the broadcast array, because the adjoint of an array stores each
        element separately.
        """
        cdef tuple outer
        if self.ops[a] == VIEW and dtype == self.types[self.kinds[a]][0] == self.types[self.kinds[self.as_[a]]][0]:
            outer = self.views[self.bs[a]]
            if overlaps(outer[1], outer[2]):
                low = outer[0] + sum([(n - 1) * s for n, s in zip(outer[1], outer[2]) if s < 0])
                a, view = self.as_[a], (low + view[0], *view[1:])
        if view[1] == () and dtype == np.float64:
            return emit(self, LOAD, a, view[0] // 8, -1, SCALAR)
        found = self.numbers.get((view, dtype))
        if found is None:
            kind = self.type_of((dtype, view[1], contiguous_or(view[2], view[1], dtype)))
            found = self.numbers[view, dtype] = self.entry(self.views, "view", view), kind
        return emit(self, VIEW, a, found[0], -1, found[1])

    # ------------------------------------------------------------------------------------------ columns

    cdef tuple columns(self):
        """Return the columns op, a, b, c and type in the memory of the program, which must not be written."""
        cdef Block room = self.room
        return (column_in(room, self.n, cnp.NPY_INT16, self.ops), column_in(room, self.n, cnp.NPY_INT32, self.as_),
                column_in(room, self.n, cnp.NPY_INT32, self.bs), column_in(room, self.n, cnp.NPY_INT32, self.cs),
                column_in(room, self.n, cnp.NPY_INT32, self.kinds))

    @property
    def op(self):
        cdef cnp.npy_intp n = self.n
        cdef cnp.ndarray array = empty_array(1, &n, cnp.NPY_INT16, sizeof(int16_t))
        if self.n:
            memcpy(cnp.PyArray_DATA(array), self.ops, self.n * sizeof(int16_t))
        return array

    @property
    def a(self):
        return int_array(self.as_, self.n)

    @property
    def b(self):
        return int_array(self.bs, self.n)

    @property
    def c(self):
        return int_array(self.cs, self.n)

    @property
    def type(self):
        return int_array(self.kinds, self.n)

    def __len__(self):
        return self.n

    def __reduce__(self):
        state = (self.op, self.a, self.b, self.c, self.type, self.types, self.constants, self.arrays, self.calls,
                 self.views, self.packs, self.guards, self.inputs, self.outputs)
        return restored, state


def restored(op, a, b, c, type, types, constants, arrays, calls, views, packs, guards, inputs, outputs):
    """Unpickle a program; the caller must verify it with `wengert.program.ir.verify.check`."""
    cdef Listing code = Listing.__new__(Listing)
    cdef const int32_t[::1] column
    cdef Py_ssize_t i, k, n = len(op)
    columns = [np.array(values, dtype=np.int32).ravel() for values in (op, a, b, c, type)]
    if any([len(values) != n for values in columns]) or n > 1 << 30:
        raise ValueError("the program is damaged: its columns have different lengths")
    for kind in types:
        code.type_of(kind)
    if len(code.types) != len(types):
        raise ValueError("the program is damaged: its type table has a duplicate")
    code.reserve(n)
    code.n = n
    for k in range(5):
        column = columns[k]
        for i in range(n):
            if k == 0:
                code.ops[i] = <int16_t>(column[i] if 0 <= column[i] < OPS else OPS)
            else:
                (code.as_ if k == 1 else code.bs if k == 2 else code.cs if k == 3 else code.kinds)[i] = column[i]
    # copy the tables, because derived programs share them and append to them
    code.constants, code.arrays, code.calls = list(constants), list(arrays), list(calls)
    code.views, code.packs, code.guards = list(views), list(packs), list(guards)
    code.inputs, code.outputs = list(inputs), list(outputs)
    code.numbers.update({("view", key): i for i, key in enumerate(views)})
    code.numbers.update({bits_of(x): i for i, x in enumerate(constants)})
    return code


cdef bytes bits_of(double x):
    """Return the hash key of a constant: its bits, which distinguish zeros of either sign and NaNs."""
    return (<char *>&x)[:sizeof(double)]


cdef cnp.ndarray int_array(const int32_t *column, cnp.npy_intp n):
    cdef cnp.ndarray array = empty_array(1, &n, cnp.NPY_INT32, sizeof(int32_t))
    if n:
        memcpy(cnp.PyArray_DATA(array), column, n * sizeof(int32_t))
    return array


cdef cnp.ndarray column_in(Block room, cnp.npy_intp n, int kind, void *column):
    """Return an array on the memory of a column; the array keeps the memory alive."""
    cdef cnp.ndarray array = cnp.PyArray_SimpleNewFromData(1, &n, kind, column)
    cnp.set_array_base(array, room)
    return array


cdef tuple contiguous_or(strides, shape, dtype):
    """Return the strides, or None if they are those of an array in C order."""
    step = dtype.itemsize
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n > 1 and stride != step:
            return strides
        step *= max(n, 1)
    return None


def columns_named(int op):
    """Return which of the columns a, b and c hold value ids, as bits 1 | 2 | 4."""
    return names(op)


cpdef tuple c_strides(shape, Py_ssize_t itemsize):
    """Return the strides of an array in C order."""
    cdef list steps = []
    for n in reversed(shape):
        steps.insert(0, itemsize)
        itemsize *= n
    return tuple(steps)


cpdef bint overlaps(shape, strides):
    """Return whether two elements of an array may share memory; conservative."""
    span = 0
    for stride, n in sorted(zip(map(abs, strides), shape)):
        if n > 1:
            if stride <= span:
                return True
            span += stride * (n - 1)
    return False


cdef tuple parted(tuple type):
    """Convert a complex type to real pairs along a new last axis."""
    dtype, shape, strides = type
    part = np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")
    return part, (*shape, 2), None if strides is None else (*strides, part.itemsize)


cdef tuple paired(tuple type):
    """Convert a real type to complex, joining adjacent pairs along the last axis; None if they are not adjacent."""
    cdef Py_ssize_t last = len(type[1]) - 1
    dtype, shape, strides = type
    if last < 0 or shape[last] % 2 or not (strides is None or strides[last] == dtype.itemsize and shape[last] == 2):
        return None
    both = np.dtype(f"{dtype.str[0]}c{2 * dtype.itemsize}")
    shape = shape[:last] if shape[last] == 2 else (*shape[:last], shape[last] // 2)
    return both, shape, None if strides is None else contiguous_or(strides[:last], shape, both)


cpdef tuple whole_view(tuple type):
    """Return the view descriptor that covers an array of a type."""
    dtype, shape, strides = type
    if strides is None or strides == "flag":
        return 0, shape, c_strides(shape, dtype.itemsize)
    return sum([-(n - 1) * s for n, s in zip(shape, strides) if s < 0 and n > 0]), shape, strides


# ---------------------------------------------------------------------------------------------- operands

def operands(Listing code, Py_ssize_t i):
    """Return the value ids that instruction i reads."""
    cdef int32_t[3] column
    cdef int k
    found = [column[k] for k in range(column_operands(code, i, column))]
    if code.ops[i] == PACK:
        found += code.packs[code.bs[i]][1].tolist()
    elif code.ops[i] == CALL:
        found += code.calls[code.as_[i]].operands
    return found


cdef int count_uses(Listing code, int32_t *counts) except -1:
    """Increase each value's count by the number of times that it is an operand or an output."""
    cdef cnp.ndarray packed
    cdef Py_ssize_t i, j
    cdef int32_t v
    cdef int columns
    for i in range(code.n):
        columns = names(code.ops[i])
        if columns & 1 and code.as_[i] >= 0:
            counts[code.as_[i]] += 1
        if columns & 2 and code.bs[i] >= 0:
            counts[code.bs[i]] += 1
        if columns & 4 and code.cs[i] >= 0:
            counts[code.cs[i]] += 1
        if code.ops[i] == PACK:
            packed = code.packs[code.bs[i]][1]
            for j in range(cnp.PyArray_SIZE(packed)):
                counts[(<int32_t *>cnp.PyArray_DATA(packed))[j]] += 1
        elif code.ops[i] == CALL:
            for v in code.calls[code.as_[i]].operands:
                counts[v] += 1
    for v in code.outputs:
        counts[v] += 1
    return 0


def dependent(Listing code, values, Py_ssize_t start=0):
    """Return a mask of the values that depend on `values`, including `values` and guards; false before `start`."""
    mask = np.zeros(code.n, dtype=bool)
    mask[values] = True
    cdef unsigned char[::1] found = mask.view(np.uint8)
    cdef Py_ssize_t i
    cdef int32_t v
    cdef int op, reads
    for i in range(start, code.n):
        op = code.ops[i]
        if found[i]:
            continue
        if op == PACK or op == CALL:
            for v in operands(code, i):
                found[i] |= found[v]
            continue
        reads = names(op)
        found[i] = ((reads & 1 and code.as_[i] >= 0 and found[code.as_[i]])
                    or (reads & 2 and code.bs[i] >= 0 and found[code.bs[i]])
                    or ((reads & 4 or op == GUARD) and code.cs[i] >= 0 and found[code.cs[i]]))
    return mask


def kind_of(Listing code, Py_ssize_t i):
    """Return dtype, shape and strides of a value."""
    return code.types[code.kinds[i]]


def stacked(Listing code, list items, tuple shape):
    """Return the program with one output, an array of this shape; each item is a float or the index of an output.

    Return None if one of these outputs is not a scalar.
    """
    cdef Listing found = code.copy()
    cdef list values = []
    for item in items:
        if type(item) is float:
            values.append(found.constant(item))
        elif code.kinds[<int32_t>code.outputs[item]] == SCALAR:
            values.append(code.outputs[item])
        else:
            return None
    if shape != ():
        found.packs.append((np.arange(len(values), dtype=np.int32), np.array(values, dtype=np.int32)))
        values = [emit(found, PACK, -1, len(found.packs) - 1, -1, found.type_of((np.dtype(float), shape, None)))]
    found.outputs = values
    return found


cdef inline int32_t *moved(int32_t *column, const int32_t *before, Py_ssize_t n) noexcept:
    """Copy the first n entries of `before` to `column`, and return `column`."""
    if n:
        memcpy(column, before, n * sizeof(int32_t))
    return column


cdef int32_t copied(Listing code, Py_ssize_t i, const int32_t *of, Listing target) except -1:
    """Append instruction i to `target`; ``of[v]`` is the id there of value `v`."""
    cdef int op = code.ops[i], mask = names(op)
    cdef int32_t a = code.as_[i], b = code.bs[i], c = code.cs[i]
    if mask & 1 and a >= 0:
        a = of[a]
    if mask & 2 and b >= 0:
        b = of[b]
    if (mask & 4 or op == GUARD) and c >= 0:
        c = of[c]
    if op == CALL:
        target.calls.append(code.calls[a].on([of[<int32_t>v] for v in code.calls[a].operands]))
        a = len(target.calls) - 1
    elif op == PACK:
        offsets, values = code.packs[b]
        target.packs.append((offsets, renamed(values, of)))
        b = len(target.packs) - 1
    return emit(target, op, a, b, c, code.kinds[i])


cdef int set_ends(Listing code, const int32_t *of, Listing target) except -1:
    """Give `target` the inputs and outputs of a program, whose value `v` has the id ``of[v]`` in `target`."""
    target.inputs = [of[<int32_t>v] for v in code.inputs]
    target.outputs = [of[<int32_t>v] for v in code.outputs]
    return 0


cdef Listing filtered(Listing code, const unsigned char *marks, bint keeps):
    """Return the program with only the marked instructions, or with only the others if `keeps` is false."""
    cdef Listing found = code.successor()
    cdef Py_ssize_t i
    cdef Block block = take(code.n * sizeof(int32_t))
    cdef int32_t *of = <int32_t *>block.data
    for i in range(code.n):
        of[i] = copied(code, i, of, found) if (marks[i] != 0) == keeps else -1
    set_ends(code, of, found)
    return found


def replaced(Listing code, places, make):
    """Return the program with each instruction i of `places`, in order, replaced by the value ``make(made, of, i)``.

    `made` is the new program so far, and ``of[v]`` the id there of value v. If the result is None, i is copied.
    """
    cdef Listing made = code.successor()
    cdef Py_ssize_t i, start = 0
    of = np.full(code.n, -1, dtype=np.int32)
    for i in places:
        made.take(code, np.arange(start, i, dtype=np.int32), of)
        start, found = i, make(made, of, i)
        if found is not None:
            of[i], start = found, i + 1
    made.take(code, np.arange(start, code.n, dtype=np.int32), of)
    made.inputs, made.outputs = of[code.inputs].tolist(), of[code.outputs].tolist()
    return made


cdef cnp.ndarray renamed(cnp.ndarray values, const int32_t *of):
    """Map an array of value ids through `of`."""
    cdef cnp.npy_intp i, n = cnp.PyArray_SIZE(values)
    cdef cnp.ndarray found = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
    cdef const int32_t *given = <const int32_t *>cnp.PyArray_DATA(values)
    for i in range(n):
        (<int32_t *>cnp.PyArray_DATA(found))[i] = of[given[i]]
    return found
