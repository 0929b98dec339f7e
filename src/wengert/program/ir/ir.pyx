# Indices are made here, never by a user, and no division by a user's number happens in Cython code:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""A program as a list: instruction i defines value i, from values that stand before it.

Nothing is written twice and nothing in place: an array into which a function wrote is one value before and another
one after.
So every pass over a list is a loop that appends to a new one, and a derivative is a longer list.

A value is a number (a double in a slot of its own, or a bool) or an array, whose type says dtype, shape and strides.
What does not fit into three columns lies in tables.
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

for _op, _row in opcode_table.ROWS.items():
    traits[<int>_op] = _row.mask | sum([trait for trait, holds in (
        (IS_ELEMENTWISE, _op in opcode_table.ELEMENTWISE), (IS_FLAG, _op in opcode_table.FLAGS),
        (READS_ELEMENTS, _row.access == "elements"), (HAS_DERIVATIVE, _row.has_derivative),
        (IS_COMMUTATIVE, _row.is_commutative), (IS_FUNCTION, _row.cost == "function")) if holds])


@cython.final
cdef class Listing:
    """Instructions in columns, and the tables that they point into."""

    def __cinit__(self):
        self.types = []
        self.constants = []
        self.arrays = []
        self.calls = []
        self.views = []
        self.packs = []
        self.guards = []
        self.inputs = []
        self.outputs = []
        self.numbers = {}
        self.type_of((np.dtype(float), (), None))
        self.type_of((np.dtype(bool), (), "flag"))

    cdef int grow(self) except -1:
        return self.reserve(max(64, 2 * self.capacity))

    cdef int reserve(self, Py_ssize_t capacity) except -1:
        """Make room for so many instructions."""
        if capacity > 0x7fffffff:
            raise MemoryError("a program of more than 2**30 instructions: write loops with arrays, or record a part")
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

    cdef Listing successor(self, Py_ssize_t capacity=-1):
        """An empty list that shares the tables in which no values are named."""
        cdef Listing code = Listing.__new__(Listing)
        code.types = self.types
        code.constants = self.constants
        code.arrays = self.arrays
        code.views = self.views
        code.guards = self.guards
        code.numbers = self.numbers
        code.reserve(self.n + 64 if capacity < 0 else capacity)
        return code

    cdef Listing shortened(self, Py_ssize_t n):
        """The first instructions, in the memory of this list: what is appended is written over those that follow."""
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
        """The same list, to be made longer."""
        cdef Listing code = self.successor(3 * self.n + 64)
        code.calls = list(self.calls)
        code.packs = list(self.packs)
        code.inputs = list(self.inputs)
        code.outputs = list(self.outputs)
        code.n = self.n
        memcpy(code.ops, self.ops, self.n * sizeof(int16_t))
        memcpy(code.as_, self.as_, self.n * sizeof(int32_t))
        memcpy(code.bs, self.bs, self.n * sizeof(int32_t))
        memcpy(code.cs, self.cs, self.n * sizeof(int32_t))
        memcpy(code.kinds, self.kinds, self.n * sizeof(int32_t))
        return code

    cdef int32_t adopt(self, Listing other, Py_ssize_t i, const int32_t *of, const int32_t *kinds=NULL) except -1:
        """Append an instruction of a list with other tables, where its value v is ``of[v]``.

        `kinds` are those of its types here, where they are known: see `kinds_of`.
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
        """The types of another list, as numbers of this one's."""
        return np.array([self.type_of(type) for type in other.types], dtype=np.int32)

    # ------------------------------------------------------------------------------------------ tables

    cdef int32_t entry(self, list table, str name, object key) except -1:
        """Index of a table's entry; the same thing is not entered twice."""
        found = self.numbers.get((name, key))
        if found is None:
            found = self.numbers[name, key] = len(table)
            table.append(key)
        return found

    cdef int32_t type_of(self, tuple type) except -1:
        return self.entry(self.types, "type", type)

    cdef int32_t constant(self, double c) except -1:
        """The value that is a constant number."""
        cdef bytes key = bits_of(c)
        found = self.numbers.get(key)
        if found is None:
            found = self.numbers[key] = len(self.constants)
            self.constants.append(c)
        return emit(self, CONST, found, -1, -1, SCALAR)

    def add(self, int op, tuple type, int32_t a, int32_t b=-1, int32_t c=-1):
        """Append an instruction; its operands and entries are values of this list and numbers in its tables."""
        return emit(self, op, a, b, c, self.type_of(type))

    def take(self, Listing other, int32_t[::1] which, int32_t[::1] of):
        """Append these instructions of another list, where its value v is ``of[v]``."""
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

    def beginning(self):
        """An empty list that shares the tables in which no values are named: what is taken of this one is copied."""
        return self.successor()

    def call(self, call):
        """Index of one more call."""
        self.calls.append(call)
        return len(self.calls) - 1

    def part(self, int32_t a, tuple view, dtype):
        """A view of an array value, a number where that is one."""
        return self.view(a, view, dtype)

    def place(self, int32_t a, tuple view, int32_t c, tuple type):
        """An array value with a view of it overwritten; -1: a new one."""
        return emit(self, PLACE, a, self.entry(self.views, "view", view), c, self.type_of(type))

    def filled(self, double x, tuple shape):
        """A number, or an array of it."""
        cdef int32_t v = self.constant(x)
        type = (np.dtype(float), shape, None)
        return v if shape == () else self.place(-1, whole_view(type), v, type)

    def constant_array(self, array):
        """An array in C order as a value."""
        self.arrays.append(array)
        return self.add(ARRAY, (array.dtype, array.shape, None), len(self.arrays) - 1)

    def guard(self, int32_t a, expected, str place, int32_t of=-1):
        """Append a guard on a value; `of`: the value that it says how to compute, and without which it falls away."""
        self.guards.append((expected, place))
        return emit(self, GUARD, a, len(self.guards) - 1, of, SCALAR)

    cdef int32_t as_type(self, int32_t a, tuple type) except -1:
        """The memory of an array value as an array of another type, without gaps where that has none."""
        return emit(self, VIEW, a, self.entry(self.views, "view", whole_view(type)), -1, self.type_of(type))

    cdef int32_t view(self, int32_t a, tuple view, object dtype) except -1:
        """A view of an array value: `view` is the offset in bytes from its lowest address, the shape, the strides.

        Of a view that repeats elements it is one of what that is of: in an adjoint, each element has its own place.
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
    """A list from its columns and tables, which `wengert.program.ir.verify.check` is to look at before it is used."""
    cdef Listing code = Listing.__new__(Listing)
    cdef const int32_t[::1] column
    cdef Py_ssize_t i, k, n = len(op)
    columns = [np.array(values, dtype=np.int32).ravel() for values in (op, a, b, c, type)]
    if any([len(values) != n for values in columns]) or n > 1 << 30:
        raise ValueError("the program is damaged: its columns have different lengths")
    for kind in types:
        code.type_of(kind)
    if len(code.types) != len(types):
        raise ValueError("the program is damaged: a type is in its table twice")
    code.reserve(n)
    code.n = n
    for k in range(5):
        column = columns[k]
        for i in range(n):
            if k == 0:
                code.ops[i] = <int16_t>(column[i] if 0 <= column[i] < OPS else OPS)
            else:
                (code.as_ if k == 1 else code.bs if k == 2 else code.cs if k == 3 else code.kinds)[i] = column[i]
    # a list of its own for each table: lists derived of this one append to them
    code.constants, code.arrays, code.calls = list(constants), list(arrays), list(calls)
    code.views, code.packs, code.guards = list(views), list(packs), list(guards)
    code.inputs, code.outputs = list(inputs), list(outputs)
    code.numbers.update({("view", key): i for i, key in enumerate(views)})
    code.numbers.update({bits_of(x): i for i, x in enumerate(constants)})
    return code


cdef bytes bits_of(double x):
    """What tells constants apart: zeros of either sign, and NaNs."""
    return (<char *>&x)[:sizeof(double)]


cdef cnp.ndarray int_array(const int32_t *column, cnp.npy_intp n):
    cdef cnp.ndarray array = empty_array(1, &n, cnp.NPY_INT32, sizeof(int32_t))
    if n:
        memcpy(cnp.PyArray_DATA(array), column, n * sizeof(int32_t))
    return array


cdef tuple contiguous_or(strides, shape, dtype):
    """The strides, or None where they are those of an array in C order."""
    step = dtype.itemsize
    for n, stride in zip(reversed(shape), reversed(strides)):
        if n > 1 and stride != step:
            return strides
        step *= max(n, 1)
    return None


def columns_named(int op):
    """Which of the columns a, b and c of an instruction name values: 1 | 2 | 4."""
    return names(op)


cpdef tuple c_strides(shape, Py_ssize_t itemsize):
    """Of an array in C order."""
    cdef list steps = []
    for n in reversed(shape):
        steps.insert(0, itemsize)
        itemsize *= n
    return tuple(steps)


cpdef bint overlaps(shape, strides):
    """May elements of an array share memory?"""
    span = 0
    for stride, n in sorted(zip(map(abs, strides), shape)):
        if n > 1:
            if stride <= span:
                return True
            span += stride * (n - 1)
    return False


cdef tuple parted(tuple type):
    """The type of complex numbers as that of pairs of real ones, which lie along a last axis."""
    dtype, shape, strides = type
    part = np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")
    return part, (*shape, 2), None if strides is None else (*strides, part.itemsize)


cdef tuple paired(tuple type):
    """The type of real numbers as that of complex ones, each two that follow one another; None if they do not."""
    cdef Py_ssize_t last = len(type[1]) - 1
    dtype, shape, strides = type
    if last < 0 or shape[last] % 2 or not (strides is None or strides[last] == dtype.itemsize and shape[last] == 2):
        return None
    both = np.dtype(f"{dtype.str[0]}c{2 * dtype.itemsize}")
    shape = shape[:last] if shape[last] == 2 else (*shape[:last], shape[last] // 2)
    return both, shape, None if strides is None else contiguous_or(strides[:last], shape, both)


cdef tuple whole_view(tuple type):
    """All of an array of a type, as a view."""
    dtype, shape, strides = type
    if strides is None:
        return 0, shape, c_strides(shape, dtype.itemsize)
    return sum([-(n - 1) * s for n, s in zip(shape, strides) if s < 0 and n > 0]), shape, strides


# ---------------------------------------------------------------------------------------------- operands

def operands(Listing code, Py_ssize_t i):
    """The values that instruction i reads."""
    cdef int mask = names(code.ops[i])
    found = [v for bit, v in ((1, code.as_[i]), (2, code.bs[i]), (4, code.cs[i])) if mask & bit and v >= 0]
    if code.ops[i] == PACK:
        found += code.packs[code.bs[i]][1].tolist()
    elif code.ops[i] == CALL:
        found += code.calls[code.as_[i]].operands
    return found


def kind_of(Listing code, Py_ssize_t i):
    """Dtype, shape and strides of a value."""
    return code.types[code.kinds[i]]


def stacked(Listing code, list items, tuple shape):
    """The list with one output: an array of numbers, each a constant float, or an output given by its index.

    None where such an output is no number.
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
    """A column with its first n entries."""
    if n:
        memcpy(column, before, n * sizeof(int32_t))
    return column


cdef int32_t copied(Listing code, Py_ssize_t i, const int32_t *of, Listing target) except -1:
    """Append instruction i to another list, where value v is ``of[v]``."""
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


cdef cnp.ndarray renamed(cnp.ndarray values, const int32_t *of):
    """An array of values in the names of another list."""
    cdef cnp.npy_intp i, n = cnp.PyArray_SIZE(values)
    cdef cnp.ndarray found = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
    cdef const int32_t *given = <const int32_t *>cnp.PyArray_DATA(values)
    for i in range(n):
        (<int32_t *>cnp.PyArray_DATA(found))[i] = of[given[i]]
    return found
