# Indices are computed here, never given by users, and no Cython code divides by a user's value:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Converts a tape to SSA form: every in-place write defines a new value.

Processes the tape entries in order after restoring memory to its state before them.
Each buffer is tracked as an SSA value plus the scalar values known for its elements, so that loads are replaced by the
stored scalars (store-to-load forwarding).
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t
from cpython.mem cimport PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.ref cimport Py_REFCNT
from libc.string cimport memcmp, memset

import itertools
import math
import operator

import numpy as np

from wengert.core.tape.kernel cimport Kernel, kernels
from wengert.core.tape.memory cimport Buffer
from wengert.core.tape.tape cimport (
    Node, NodeKind, Tape, swap, wg_list, WG_ABSOLUTE, WG_ADD, WG_DIVIDE, WG_INPUT, WG_LOAD, WG_MULTIPLY, WG_NEGATIVE,
    WG_NODE, WG_POSITIVE, WG_STORE, WG_SUBTRACT, WG_TARGET,
)
from wengert.core.operands.var cimport ArrayVar, ScalarVar, as_numpy
from wengert.program.ir.ir cimport (
    FLAG, SCALAR, Listing, c_strides, emit, overlaps, paired, parted, whole_view,
)
from wengert.program.ir.opcodes cimport *

from wengert.core import frames
from wengert.core.dispatch.arguments import numbers_like
from wengert.core.operands import var
from wengert.program.ir.call import Call, Operand, static
from wengert.program.tracing.closure import NotReplayable
from wengert.program.ir import call_rules, opcode_table
from wengert.program.ir.call_rules import getitem_row, placed, placed_row
from wengert.program.ir.opcode_table import OPCODES, function
from wengert.registry import strong
from wengert.standard_library import Value

cnp.import_array()

include "complex_pairs.pxi"

cdef extern from "list.h" nogil:
    void wg_swap(const wg_list *t, Py_ssize_t i)

#: comparisons and predicates with an opcode of their own, for scalars and arrays of equal shape
cdef dict FLAGS = {function(op): op for op in opcode_table.FLAGS} | {np.isfinite: ISNAN, np.isinf: ISNAN}
#: the same for logical functions of bools
cdef dict OF_BOOLS = {np.bitwise_and: AND, np.bitwise_or: OR, np.invert: NOT}
#: scipy.special functions of one argument with an opcode
cdef dict SPECIAL = {name: opcode for name, opcode in OPCODES.items() if "." in name}
cdef object DOUBLE = np.dtype(float), BOOL = np.dtype(bool)
#: functions without row kind "rearrangement" that only move elements
cdef tuple MOVING = (np.concatenate, np.stack, np.pad)
#: limit on the strided views from which a moved array is assembled; beyond it a gather is emitted
cdef int MAX_VIEWS = 8
cdef tuple NEVER = (1 << 62, 1 << 62)


@cython.final
@cython.no_gc
cdef class Memory:
    """The contents of a buffer as SSA values."""

    cdef int32_t value              # the whole contents; -1 if not yet defined
    cdef object dtype
    cdef tuple shape, strides       # of the value; strides are None for C order
    cdef Py_ssize_t first           # offset of its first element from the lowest address, in bytes
    cdef int32_t *elements          # scalar value of each element, -1 if unknown; NULL if none is known
    cdef Py_ssize_t count           # number of elements
    cdef list changed               # indices of elements written since `value`; None if there are none
    cdef int32_t other_view         # the contents viewed as pairs of floats, or as complex; -1 if not created

    def __dealloc__(self):
        PyMem_Free(self.elements)

    cdef int drop_elements(self) except -1:
        """Drop all scalar values of elements."""
        PyMem_Free(self.elements)
        self.elements = NULL
        return 0

    cdef int know(self, Py_ssize_t count) except -1:
        """Allocate the scalar values of elements."""
        if self.elements == NULL:
            self.elements = <int32_t *>PyMem_Malloc((count if count else 1) * sizeof(int32_t))
            if self.elements == NULL:
                raise MemoryError()
            memset(self.elements, 0xff, count * sizeof(int32_t))
            self.count = count
        return 0


@cython.final
cdef class Definitions:
    """One conversion of a tape to SSA form, possibly in several `run` calls."""

    cdef Tape tape
    cdef Listing code
    cdef dict memories              # id of buffer: (buffer, Memory)
    cdef list numbered              # Memory of each of the tape's numbered buffers; None if not yet seen
    cdef int32_t *of_slot
    cdef Py_ssize_t capacity        # capacity of `of_slot`
    cdef Py_ssize_t processed       # number of entries processed
    cdef bint is_passive            # in a passive block, whose results carry no derivative
    cdef dict kinds                 # shape: type id of a C-ordered double array
    cdef dict broadcasts            # (type id, shape): broadcasting view, None if there is none
    cdef dict moves                 # static key of a call that only moves elements: where they come from
    cdef dict guard_lines           # (id of code, instruction): (code, "file:line") of a guard
    cdef bint exact                 # emit an instruction per entry, so that adjoints add up in the eager order

    def __cinit__(self, Tape tape, bint exact=False):
        self.exact = exact
        self.tape = tape
        self.code = Listing()
        self.memories = {}
        self.kinds = {}
        self.moves = {}
        self.broadcasts = {}
        self.guard_lines = {}
        self.numbered = []

    def __dealloc__(self):
        PyMem_Free(self.of_slot)

    # ------------------------------------------------------------------------------------------ memory

    cdef Memory memory(self, Buffer buffer, cnp.ndarray view):
        """Return the contents of a buffer; one that no entry created was constant when it was first written."""
        cdef Memory memory
        found = self.memories.get(id(buffer))
        if found is not None:
            return <Memory>found[1]
        memory = self.remember(buffer, -1, (<object>view).dtype, (buffer.span // cnp.PyArray_ITEMSIZE(view),), None, 0)
        if memory.dtype.kind in "fc" and is_zero(buffer.low, buffer.span):
            memory.value = self.filled(memory.dtype, memory.shape, self.code.constant(0.0))
        else:
            memory.value = self.constant_array(np.array(bytes_at(buffer.low, buffer.span).view(memory.dtype)))
        return memory

    cdef Memory remember(self, Buffer buffer, int32_t value, dtype, shape, strides, Py_ssize_t first):
        """Set the contents of a buffer to a value of this layout."""
        cdef Memory memory
        found = self.memories.get(id(buffer))
        memory = Memory.__new__(Memory) if found is None else <Memory>found[1]
        memory.value = value
        memory.dtype = dtype
        memory.shape = shape
        memory.strides = strides
        memory.first = first
        memory.changed = None
        memory.drop_elements()
        memory.other_view = -1
        if found is None:
            self.memories[id(buffer)] = (buffer, memory)
        return memory

    cdef int32_t define(self, Buffer buffer, cnp.ndarray view, int32_t value) except -1:
        """Record that a buffer was created or fully overwritten with this value, of the view's shape."""
        shape, strides = layout(view)
        self.remember(buffer, value, (<object>view).dtype, shape, strides,
                      <char *>cnp.PyArray_DATA(view) - buffer.low)
        return value

    cdef int view_as(self, Memory memory, dtype) except -1:
        """View complex contents as pairs of floats for access to real or imaginary parts, or the reverse."""
        cdef int32_t value
        cdef tuple type
        if memory.dtype is dtype or {memory.dtype.kind, dtype.kind} != {"c", "f"}:
            return 0
        value = self.whole(memory)
        if memory.other_view >= 0:
            type = self.code.types[self.code.kinds[memory.other_view]]
        else:
            type = (memory.dtype, memory.shape, memory.strides)
            type = parted(type) if memory.dtype.kind == "c" else paired(type)
        if type is None or type[0] != dtype:
            raise NotReplayable(f"memory of dtype {memory.dtype} is viewed as {dtype} in an unsupported way")
        if memory.other_view < 0:
            memory.other_view = self.code.as_type(value, type)
        memory.value, memory.other_view = memory.other_view, value
        memory.dtype, memory.shape, memory.strides = type
        memory.drop_elements()
        return 0

    cdef int32_t whole(self, Memory memory) except -1:
        """Return the value of the whole contents, packing the elements written one by one."""
        cdef cnp.npy_intp n
        cdef Py_ssize_t k
        cdef cnp.ndarray offsets, values
        cdef int32_t offset
        if memory.changed is None:
            return memory.value
        if memory.shape == ():
            memory.value = memory.elements[0]
            memory.changed = None
            return memory.value
        if not is_ascending(memory.changed):
            memory.changed = sorted(set(memory.changed))
        n = len(memory.changed)
        offsets = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
        values = cnp.PyArray_EMPTY(1, &n, cnp.NPY_INT32, 0)
        for k in range(n):
            offset = memory.changed[k]
            (<int32_t *>cnp.PyArray_DATA(offsets))[k] = offset
            (<int32_t *>cnp.PyArray_DATA(values))[k] = memory.elements[offset]
        self.code.packs.append((offsets, values))
        memory.value = emit(self.code, PACK, -1 if n == memory.count else memory.value, len(self.code.packs) - 1, -1,
                            self.code.type_of((memory.dtype, memory.shape, memory.strides)))
        memory.changed = None
        memory.other_view = -1
        return memory.value

    cdef int32_t read(self, Buffer buffer, cnp.ndarray view) except -1:
        """Return the current value of a view."""
        cdef Memory memory = self.memory(buffer, view)
        self.view_as(memory, (<object>view).dtype)
        cdef int32_t value = self.whole(memory)
        cdef Py_ssize_t offset = <char *>cnp.PyArray_DATA(view) - buffer.low
        if offset == memory.first and has_layout(view, memory.shape, memory.strides):
            return value
        shape = (<object>view).shape
        if self.code.kinds[value] <= FLAG:          # a scalar filling an array
            return self.filled((<object>view).dtype, shape, value)
        return self.code.view(value, (offset, shape, (<object>view).strides), (<object>view).dtype)

    cdef Memory scalars(self, int32_t number):
        """Return the contents of a buffer that scalar entries access."""
        cdef Memory memory = <Memory>self.numbered[number]
        cdef Buffer buffer
        if memory is None:
            buffer = <Buffer>self.tape.buffers[number]
            memory = self.numbered[number] = self.memory(buffer, buffer.owner)
        self.view_as(memory, DOUBLE)
        if memory.elements == NULL:
            self.known(memory, <Buffer>self.tape.buffers[number])
        return memory

    cdef int known(self, Memory memory, Buffer buffer) except -1:
        """Allocate the scalar values of a buffer's elements."""
        return memory.know(buffer.span // <Py_ssize_t>sizeof(double))

    cdef int32_t element(self, Memory memory, Py_ssize_t offset) except -1:
        """Return the value of one element."""
        cdef int32_t value = memory.elements[offset]
        if value >= 0:
            return emit(self.code, WG_POSITIVE, value, -1, -1, SCALAR) if self.exact else value
        value = memory.value
        if self.code.kinds[value] != SCALAR:
            value = emit(self.code, LOAD, value, <int32_t>offset, -1, SCALAR)
        if not self.exact:
            memory.elements[offset] = value
        return value

    cdef int write_element(self, Memory memory, Py_ssize_t offset, int32_t value) except -1:
        """Record a write to one element."""
        if self.exact and self.code.ops[value] != CONST:
            value = emit(self.code, WG_POSITIVE, value, -1, -1, SCALAR)
        memory.elements[offset] = value
        if memory.changed is None:
            memory.changed = [offset]
        else:
            memory.changed.append(offset)
        return 0

    cdef int write(self, Node node) except -1:
        """Record an assignment to a view, or to an advanced index of it."""
        cdef Buffer buffer = node.out
        cdef cnp.ndarray view = node.y
        cdef Memory memory = self.memory(buffer, view)
        cdef int32_t source, value
        if not self.exact and node.key is None and is_complex_number(view) and self.write_number(node, memory):
            return 0
        shape, strides = layout(view)
        source = self.passive(self.stored(node))
        self.view_as(memory, (<object>view).dtype)       # last, since reading the source may change how memory is seen
        if shape == () and node.key is None and self.code.types[self.code.kinds[source]][0] == memory.dtype == float:
            if self.code.kinds[source] != SCALAR:       # an array of one element
                source = emit(self.code, LOAD, source, 0, -1, SCALAR)
        if (node.key is None and cnp.PyArray_SIZE(view) == 1 and self.code.kinds[source] == SCALAR
                and memory.dtype == float):
            self.known(memory, buffer)
            return self.write_element(
                memory, (<char *>cnp.PyArray_DATA(view) - buffer.low) // <Py_ssize_t>sizeof(double), source)
        if node.key is not None:
            value = self.call(placed, placed_row, (Operand(0), node.key, Operand(1)), {},
                              [self.read(buffer, view), source], view)
        else:
            value = source
        whole = (<Py_ssize_t>cnp.PyArray_NBYTES(view) == buffer.span)
        if whole and node.key is None and self.code.types[self.code.kinds[value]] == (memory.dtype, shape, strides):
            self.define(buffer, view, value)
            return 0
        base = -1 if whole else self.whole(memory)
        index = self.code.entry(self.code.views, "view", (<char *>cnp.PyArray_DATA(view) - buffer.low, shape,
                                                          (<object>view).strides))
        if whole:
            memory.shape, memory.strides = shape, strides
            memory.first = <char *>cnp.PyArray_DATA(view) - buffer.low
        memory.value = emit(self.code, PLACE, base, index, value,
                            self.code.type_of((memory.dtype, memory.shape, memory.strides)))
        memory.drop_elements()
        memory.changed = None
        memory.other_view = -1
        return 0

    cdef bint write_number(self, Node node, Memory memory) except -1:
        """Record a write to one complex element by its parts; False if the parts of the value are unknown."""
        cdef Buffer buffer = node.out
        cdef Py_ssize_t offset = (<char *>cnp.PyArray_DATA(node.y) - buffer.low) // <Py_ssize_t>sizeof(double)
        found = self.parts(node.sources[0]) if node.sources else self.constant_parts(node.saved)
        if found is None:
            return False
        self.view_as(memory, DOUBLE)
        self.known(memory, buffer)
        self.write_element(memory, offset, self.passive(found[0]))
        self.write_element(memory, offset + 1, self.passive(found[1]))
        return True

    cdef int32_t stored(self, Node node) except -1:
        """Return the value that an assignment wrote."""
        if node.sources:
            _, _, buffer, view, slot = node.sources[0]
            return self.of_slot[<int32_t>slot] if buffer is None else self.read(buffer, view)
        return self.plain(node.saved)       # the tape was rolled back, so `saved` holds the written constant

    cdef int32_t passive(self, int32_t value) except -1:
        """Return a value without derivative inside a passive block, else the value itself."""
        return emit(self.code, STOP, value, -1, -1, self.code.kinds[value]) if self.is_passive else value

    # ------------------------------------------------------------------------------------------ constants

    cdef int32_t constant_array(self, content) except -1:
        self.code.arrays.append(content)
        return emit(self.code, ARRAY, len(self.code.arrays) - 1, -1, -1,
                    self.code.type_of((content.dtype, *layout(content))))

    cdef int32_t filled(self, dtype, shape, int32_t value) except -1:
        """Return an array filled with one scalar."""
        kind = self.code.type_of((dtype, shape, None))
        if kind <= FLAG:
            return value
        steps = c_strides(shape, dtype.itemsize) or (dtype.itemsize,)
        return emit(self.code, PLACE, -1, self.code.entry(self.code.views, "view", (0, shape, steps)), value, kind)

    cdef int32_t plain(self, x) except -1:
        """Return the value of a constant."""
        if type(x) is float or type(x) is np.float64 or type(x) is int:
            return self.code.constant(x)
        x = np.asarray(x)
        if x.ndim == 0 and x.dtype == DOUBLE:
            return self.code.constant(x[()])
        if x.size and x.dtype == DOUBLE and is_flat(x) and not np.signbit(x).any():
            return self.filled(x.dtype, x.shape, self.code.constant(x.flat[0]))
        return self.constant_array(x.copy(order="K"))

    # ------------------------------------------------------------------------------------------ entries

    def run(self):
        """Process new entries. Memory is restored to its final state even on error."""
        cdef Tape tape = self.tape
        cdef Py_ssize_t i, start = self.processed
        self.grow()
        for i in range(tape.n - 1, start - 1, -1):
            if tape.entries.op[i] == WG_STORE:
                wg_swap(&tape.entries, i)
            elif tape.entries.op[i] == WG_NODE:
                node = tape.nodes[tape.entries.a[i]]
                if node is not None and (<Node>node).kind == NodeKind.STORE:
                    swap(<Node>node)
        ranges = iter(tape.passive or ())
        first, last = next(ranges, NEVER)
        try:
            for i in range(start, tape.n):
                self.processed = i
                while i >= last:
                    first, last = next(ranges, NEVER)
                self.is_passive = first <= i
                self.entry(i)
                self.processed = i + 1
        finally:
            tape.roll_forward(self.processed)

    cdef int grow(self) except -1:
        """Grow the per-slot tables to the size of the tape."""
        cdef Tape tape = self.tape
        cdef int32_t *longer
        if tape.n > self.capacity:
            longer = <int32_t *>PyMem_Realloc(self.of_slot, tape.capacity * sizeof(int32_t))
            if longer == NULL:
                raise MemoryError()
            memset(longer + self.capacity, 0xff, (tape.capacity - self.capacity) * sizeof(int32_t))
            self.of_slot, self.capacity = longer, tape.capacity
        self.numbered += [None] * (len(tape.buffers) - len(self.numbered))
        return 0

    def process_new(self):
        """Process the entries so far, so that the tape can free their arrays, and drop buffers that are unreachable.

        An unreachable buffer has only the references of the pair here, of the loop variable and of the tape's set.
        """
        cdef Tape tape = self.tape
        self.run()
        for key, pair in list(self.memories.items()):
            buffer = pair[0]
            if Py_REFCNT(buffer) <= 2 + (buffer in tape.active):
                del self.memories[key]
                tape.active.discard(buffer)

    cdef int entry(self, Py_ssize_t i) except -1:
        cdef Tape tape = self.tape
        cdef int op = tape.entries.op[i], base
        cdef int32_t a = tape.entries.a[i], b = tape.entries.b[i]
        cdef Node node
        cdef Memory memory
        if op == WG_NODE:
            node = tape.nodes[a]
            if node is not None:
                self.node(node, i)
        elif op == WG_LOAD:
            self.of_slot[i] = self.passive(self.element(self.scalars(a), b))
        elif op == WG_STORE:
            memory = self.scalars(tape.entries.a[i + 1])
            self.write_element(memory, b, self.passive(self.of_slot[a]) if a >= 0
                               else self.code.constant(tape.entries.v[i]))
            wg_swap(&tape.entries, i)
        elif op != WG_TARGET and op != WG_INPUT:
            if op < WG_ADD:
                self.of_slot[i] = emit(self.code, op, self.of_slot[a], -1, -1, SCALAR)
            else:
                base = op - (op - WG_ADD) % 3
                a = self.code.constant(tape.entries.constants[a]) if op == base + 2 else self.of_slot[a]
                b = self.code.constant(tape.entries.constants[b]) if op == base + 1 else self.of_slot[b]
                self.of_slot[i] = emit(self.code, base, a, b, -1, SCALAR)
            self.of_slot[i] = self.passive(self.of_slot[i])
        return 0

    cdef int node(self, Node node, Py_ssize_t i) except -1:
        if node.kind == NodeKind.STORE:
            self.write(node)
            swap(node)
        elif node.kind == NodeKind.ELEMENTWISE:
            self.define(node.out, node.y, self.passive(self.elementwise(node)))
        elif node.kind == NodeKind.SUM:
            self.of_slot[i] = self.passive(self.sum(self.read(node.abuf, node.a), node.a))
        elif node.kind == NodeKind.GUARD:
            self.guard(node)
        elif self.compared(node) or self.in_parts(node, i):
            pass
        elif node.kind == NodeKind.GATHER:
            self.result(node, i, self.gathered(node))
        else:
            self.result(node, i, self.called(node))
        return 0

    cdef bint in_parts(self, Node node, Py_ssize_t i) except -1:
        """Lower a complex scalar operation to real instructions; False if it must remain a call."""
        cdef list operands = []
        cdef dict traced
        if self.exact or node.kwargs or (node.out is not None and not is_complex_number(node.y)):
            return False
        if node.kind == NodeKind.GATHER:
            rule, args = _same if type(node.key) is tuple and not node.key else None, (None,)
        else:
            rule, args = PARTS.get(node.row.fun), node.args
        if rule is None or (node.out is None) != (rule is _absolute):
            return False
        traced = {source[0]: source for source in node.sources}
        for position, x in enumerate(args):
            operands.append(self.parts(traced[position]) if position in traced else self.constant_parts(x))
        if None in operands:
            return False
        found = rule(self.code, *operands)
        if found is None:
            return False
        if node.out is None:
            self.of_slot[i] = self.passive(found)
        else:
            self.define_parts(node.out, [self.passive(v) for v in found])
        return True

    cdef tuple parts(self, tuple source):
        """Return the real and imaginary part of a scalar; None unless it has double precision."""
        cdef Memory memory
        cdef Py_ssize_t offset
        cdef Buffer buffer = source[2]
        cdef cnp.ndarray view = source[3]
        if buffer is None:
            return self.of_slot[<int32_t>source[4]], self.code.constant(0.0)
        if not is_complex_number(view):
            return None
        memory = self.memory(buffer, view)
        self.view_as(memory, DOUBLE)
        self.known(memory, buffer)
        offset = (<char *>cnp.PyArray_DATA(view) - buffer.low) // <Py_ssize_t>sizeof(double)
        return self.element(memory, offset), self.element(memory, offset + 1)

    cdef tuple constant_parts(self, x):
        if isinstance(x, (np.ndarray, np.generic)):
            if x.ndim or x.dtype.char not in "dDbBhHiIlLqQ?":
                return None
            x = x.item()
        return self.code.constant(x.real), self.code.constant(x.imag)

    cdef int define_parts(self, Buffer buffer, list parts) except -1:
        """Set the contents of a buffer to a complex scalar given by its parts."""
        cdef Memory memory = self.remember(buffer, -1, DOUBLE, (2,), None, 0)
        memory.know(2)
        memory.elements[0], memory.elements[1] = parts
        memory.changed = [0, 1]
        return 0

    cdef int32_t sum(self, int32_t value, cnp.ndarray view) except -1:
        if self.code.kinds[value] <= FLAG:          # a scalar filling an array
            if cnp.PyArray_SIZE(view) == 1:
                return value
            value = self.filled((<object>view).dtype, (<object>view).shape, value)
        return emit(self.code, SUM, value, -1, -1, SCALAR)

    cdef bint compared(self, Node node) except -1:
        """Emit a comparison of two scalars; False if the entry is another call."""
        cdef int32_t sides[2]
        cdef int k, op
        cdef Buffer buffer
        if node.kind != NodeKind.CALL or node.y is None or not is_truth(node.y) or len(node.args) != 2 or node.kwargs:
            return False
        op = FLAGS.get(node.row.fun, 0)
        if not LESS <= op <= NOT_EQUAL:
            return False
        sides[0] = sides[1] = -1
        for position, item, buffer, _, slot in node.sources:
            if buffer is not None or item >= 0:
                return False
            sides[<int>position] = self.of_slot[<int32_t>slot]
        for k in range(2):
            if sides[k] < 0:
                x = node.args[k]
                if type(x) is not float and type(x) is not np.float64 and type(x) is not int:
                    return False
                sides[k] = self.code.constant(x)
        self.remember(node.out, self.passive(emit(self.code, op, sides[0], sides[1], -1, FLAG)), BOOL, (), None, 0)
        return True

    cdef int result(self, Node node, Py_ssize_t i, int32_t value) except -1:
        value = self.passive(value)
        if node.out is None:
            self.of_slot[i] = value
        elif 0 in (<object>node.y).strides and cnp.PyArray_SIZE(node.y) and self.code.kinds[value] > FLAG:
            self.define_once(node.out, node.y, value)
        else:
            self.define(node.out, node.y, value)
        return 0

    cdef int32_t define_once(self, Buffer buffer, y, int32_t value) except -1:
        """Define a buffer with zero strides, which stores each element once, from its index-0 elements."""
        dtype, shape, _ = self.code.types[self.code.kinds[value]]
        steps = np.empty(shape, dtype).strides
        first = y[tuple([slice(0, 1 if stride == 0 else None) for stride in y.strides])]
        value = self.code.view(value, (0, first.shape, steps), dtype)
        kind = self.code.type_of((dtype, *layout(first)))
        if self.code.kinds[value] != kind:
            low = first.__array_interface__["data"][0] - <size_t>buffer.low
            view = self.code.entry(self.code.views, "view", (low, first.shape, first.strides))
            value = emit(self.code, PLACE, -1, view, value, kind)
        return self.define(buffer, first, value)

    cdef int32_t side(self, Buffer buffer, cnp.ndarray view, int32_t slot, double c) except -1:
        """Return one operand of an elementwise entry."""
        if buffer is not None:
            return self.read(buffer, view)
        if slot >= 0:
            return self.of_slot[slot]
        return self.code.constant(c) if view is None else self.plain(view)

    cdef int32_t elementwise(self, Node node) except -1:
        cdef int op = node.opcode
        cdef int32_t a = self.side(node.abuf, node.a, node.aslot, node.ac), b = -1, fitted_a, fitted_b
        cdef int32_t kind = self.kind_of(node.y)
        if op >= WG_ADD:
            b = self.side(node.bbuf, node.b, node.bslot, node.bc)
        if op and b >= 0 and node.y.dtype == DOUBLE and not self.exact:     # the other may be constant integers
            a, b = self.as_doubles(a), self.as_doubles(b)
        fitted_a = self.fitted(a, node.y, kind)
        fitted_b = -1 if b < 0 else self.fitted(b, node.y, kind)
        if op and fitted_a >= 0 and (b < 0 or fitted_b >= 0):
            return emit(self.code, op, fitted_a, fitted_b, -1, kind)
        args = (Operand(0),) if b < 0 else (Operand(0), Operand(1))
        return self.call(node.compute or node.row.fun, node.row, args, {}, [a] if b < 0 else [a, b], node.y)

    cdef int32_t kind_of(self, cnp.ndarray y) except -1:
        """Return the type id of an array."""
        cdef tuple shape
        if y.dtype is not DOUBLE or not is_in_order(y):
            return self.code.type_of((y.dtype, *layout(y)))
        shape = (<object>y).shape
        found = self.kinds.get(shape)
        if found is None:
            found = self.kinds[shape] = self.code.type_of((DOUBLE, shape, None))
        return found

    cdef int32_t as_doubles(self, int32_t value) except -1:
        """Convert a constant integer array to doubles if that is exact."""
        if self.code.ops[value] == ARRAY and self.code.types[self.code.kinds[value]][0].kind in "iub":
            array = self.code.arrays[self.code.as_[value]]
            if array.dtype.itemsize < 8 or not array.size or abs(array).max() <= 1 << 53:
                return self.plain(array.astype(float, order="C"))
        return value

    cdef int32_t of_bools(self, list args, list values, Node node) except -2:
        """Emit a binary elementwise function with bool operands converted to doubles; -1 if it must remain a call."""
        cdef list found = []
        cdef int32_t v
        if self.exact or node.kwargs or (<object>node.y).dtype != DOUBLE:
            return -1
        for x in args:
            v = self.operand(x, values, (<object>node.y).shape)
            if v < 0 or self.code.kinds[v] == FLAG:
                return -1
            dtype, shape, _ = self.code.types[self.code.kinds[v]]
            if dtype != bool and dtype != DOUBLE:
                return -1
            if dtype == bool:
                v = emit(self.code, SELECT, v, self.code.constant(1.0), self.code.constant(0.0),
                         self.code.type_of((DOUBLE, shape, None)))
            found.append(v)
        return emit(self.code, (<Kernel>kernels[node.row.fun]).opcode, found[0], found[1], -1,
                    self.code.type_of((DOUBLE, *layout(node.y))))

    cdef int32_t of_scalars(self, list args, list values, Node node) except -2:
        """Emit a function of Python floats, such as ``math.sin``, as the ufunc of its rule; -1 if impossible."""
        cdef list found = []
        cdef int32_t v
        if self.exact or node.kwargs or node.y is not None:
            return -1
        for x in args:
            v = self.operand(x, values, ())
            if v < 0 or self.code.kinds[v] != SCALAR:
                return -1
            found.append(v)
        return emit(self.code, (<Kernel>kernels[node.row.fun]).opcode, found[0], found[1] if len(found) > 1 else -1, -1,
                    SCALAR)

    cdef int32_t fitted(self, int32_t value, cnp.ndarray y, int32_t kind) except -2:
        """Return an operand of an elementwise instruction with result `y`, broadcast if necessary; -1 if impossible."""
        if self.code.kinds[value] == kind or self.code.kinds[value] <= FLAG:
            return value
        return self.in_shape(value, (<object>y).shape)

    cdef int32_t in_shape(self, int32_t value, tuple shape) except -2:
        """Broadcast an operand of an elementwise instruction to a shape by a view; -1 if there is none."""
        cdef int32_t kind = self.code.kinds[value]
        if kind <= FLAG or self.code.types[kind][1] == shape:
            return value
        view = self.broadcasts.get((kind, shape), self)
        if view is self:
            view = self.broadcasts[kind, shape] = None if self.exact else spread_to(self.code.types[kind], shape)
        return -1 if view is None else self.code.view(value, view, self.code.types[kind][0])

    cdef int32_t operand(self, x, list values, tuple shape) except -2:
        """Return an argument of a call as an operand broadcast to a shape; -1 if impossible."""
        if type(x) is Operand:
            return self.in_shape(values[x.position], shape)
        if isinstance(x, (bool, np.bool)) or np.asarray(x).dtype.kind not in "biuf":
            return -1
        if np.ndim(x) == 0:
            return self.code.constant(float(x))
        return -1 if np.asarray(x).dtype not in (DOUBLE, bool) else self.in_shape(self.plain(x), shape)

    cdef int32_t called(self, Node node) except -1:
        """Lower a call to instructions if possible, else emit it with operands in place of its traced arguments."""
        cdef list values = []
        cdef list args = list(node.args)
        fun = node.row.fun
        for position, item, buffer, view, slot in node.sources:
            values.append(self.of_slot[<int32_t>slot] if buffer is None else self.read(buffer, view))
            operand = Operand(len(values) - 1)
            if node.row.kind == "custom":
                args[item] = operand
            elif item < 0:
                args[position] = operand
            else:
                items = [*args[position]]
                items[item] = operand
                args[position] = tuple(items) if type(args[position]) is tuple else items
        if fun is np.copy and len(values) == 1 and self.code.kinds[<int32_t>values[0]] == SCALAR:
            return values[0]
        if fun is strong:
            found = self.product(args, values, node)
            if found >= 0:
                return found
        op = SPECIAL.get(node.row.name)
        if op and not (self.exact or node.kwargs):
            dtype, shape, _ = self.code.types[self.code.kinds[<int32_t>values[0]]]
            kind = (np.dtype(float), (), None) if node.y is None else (node.y.dtype, *layout(node.y))
            if dtype == kind[0] == float and shape == kind[1]:
                return emit(self.code, op, values[0], -1, -1, self.code.type_of(kind))
        if type(node.compute) is Value and fun in kernels:
            found = self.of_scalars(args, values, node)
            if found >= 0:
                return found
        if (node.row.kind == "rearrangement" or fun in MOVING) and not self.exact:
            found = self.rearranged(node, args, values)
            if found >= 0:
                return found
        rule = OF_VIEWS.get(fun)
        if rule is not None and not self.exact:
            found = rule(self, args, values, node)
            if found >= 0:
                return found
        if fun in kernels and len(args) == 2 and node.y is not None:
            found = self.of_bools(args, values, node)
            if found >= 0:
                return found
        if fun is np.where:
            found = self.chosen(args, values, node)
            if found >= 0:
                return found
        if (fun in FLAGS or fun in OF_BOOLS) and not node.kwargs:
            found = self.flag(fun, args, values, node.y)
            if found >= 0:
                return found
        return self.call(node.compute or fun, node.row, tuple(args), node.kwargs or {}, values, node.y)

    cdef int32_t gathered(self, Node node) except -1:
        """Emit indexing; the index may contain operands."""
        cdef list values = []
        key = node.key
        for position, item, buffer, view, slot in node.sources:
            values.append(self.of_slot[<int32_t>slot] if buffer is None else self.read(buffer, view))
            if position and type(key) is tuple:
                key = (*key[:item], Operand(len(values) - 1), *key[item + 1:])
            elif position:
                key = Operand(len(values) - 1)
        if len(values) == 1 and node.y is not None and not self.exact:
            view = node.sources[0][3]
            found = self.moved(("item", static(key), view.shape, view.strides),
                               lambda: numbers_like(view, 1)[key], values, node.y)
            if found >= 0:
                return found
        return self.call(operator.getitem, getitem_row, (Operand(0), key), {}, values, node.y)

    cdef int32_t rearranged(self, Node node, list args, list values) except -2:
        """Emit a call whose result consists of elements of its operands; -1 if no instruction does this."""
        cdef Py_ssize_t start = 1
        cdef list arrays = []
        if node.y is None or node.row.fun is np.pad and not is_moving_pad(args, node.kwargs or {}):
            return -1
        for position, _, buffer, view, _ in node.sources:
            if buffer is None or position in node.row.choices:
                return -1
            arrays.append(numbers_like(view, start))
            start += (<object>view).size
        fun = node.compute or node.row.fun
        key = (static(fun), static(args), static(node.kwargs), tuple([(x.shape, x.strides) for x in arrays]))
        return self.moved(key, lambda: fun(*numbered(args, arrays), **node.kwargs or {}), values, node.y)

    cdef int32_t moved(self, key, numbers, list values, y) except -2:
        """Emit an array of elements of others; -1 if no instruction does this.

        `numbers` returns for each result element its index in the concatenated operands, from 1, or 0 for a zero.
        The indices are cached by `key`.  Few strided pieces become views and placements, other indices a gather.
        """
        cdef int32_t v, found
        cdef tuple double = (DOUBLE, (<object>y).shape, None)
        for v in values:
            if self.code.types[self.code.kinds[v]][0] != DOUBLE or self.code.kinds[v] <= FLAG:
                return -1
        if (<object>y).dtype != DOUBLE or not (<object>y).flags.c_contiguous or not (<object>y).size or y.ndim == 0:
            return -1
        if key not in self.moves:
            where = numbers()
            sizes = [math.prod(self.code.types[self.code.kinds[<int32_t>v]][1]) for v in values]
            pieces = regular_pieces(where, np.cumsum([1, *sizes]))
            if pieces is None and len(values) == 1 and sizes[0] <= 0x7fffffff and where.min() > 0:
                pieces = self.constant_array(np.ascontiguousarray(where - 1, dtype=np.int32))
            self.moves[key] = pieces
        pieces = self.moves[key]
        if pieces is None:
            return -1
        values = [self.in_order(v) for v in values]
        if type(pieces) is not list:
            return emit(self.code, GATHER, values[0], pieces, -1, self.code.type_of(double))
        is_whole = len(pieces) == 1 and pieces[0][2][1] == double[1]
        found = -1 if is_whole else self.code.filled(0.0, double[1])
        for source, view, place in pieces:
            found = self.code.place(found, place, self.code.view(values[source], view, DOUBLE), double)
        return found

    cdef int32_t in_order(self, int32_t value) except -1:
        """Return an array copied to C order if it has another."""
        dtype, shape, strides = self.code.types[self.code.kinds[value]]
        if strides is None:
            return value
        return self.code.place(-1, (0, shape, c_strides(shape, dtype.itemsize)), value, (dtype, shape, None))

    def outer(self, args, values, node):
        """Lower `np.outer` to a product of broadcasting views; -1 for other types."""
        cdef list found = []
        cdef Node entry = node
        if (<object>entry.y).dtype != DOUBLE or entry.kwargs or not (<object>entry.y).size:
            return -1
        for x, d in zip(args, (0, 1)):
            v = values[x.position] if type(x) is Operand else self.plain(x) if type(x) is np.ndarray else -1
            kind = self.code.types[self.code.kinds[<int32_t>v]] if v >= 0 else None
            if v < 0 or kind[0] != DOUBLE or len(kind[1]) != 1:
                return -1
            first, _, (step,) = whole_view(kind)
            steps = (step, 0) if d == 0 else (0, step)
            found.append(self.code.view(v, (first, (<object>entry.y).shape, steps), DOUBLE))
        return emit(self.code, WG_MULTIPLY, found[0], found[1], -1, self.code.type_of((DOUBLE, *layout(entry.y))))

    def difference(self, args, values, node):
        """Lower `np.diff` to a difference of two views; -1 for other orders and options."""
        cdef Node entry = node
        given = {**dict(zip(("a", "n", "axis", "prepend", "append"), args)), **(entry.kwargs or {})}
        if type(given.pop("a", None)) is not Operand or len(values) != 1 or given.pop("n", 1) != 1:
            return -1
        axis = given.pop("axis", -1)
        dtype, shape, _ = kind = self.code.types[self.code.kinds[<int32_t>values[0]]]
        if any([x is not np._NoValue for x in given.values()]) or dtype != DOUBLE or not (<object>entry.y).size:
            return -1
        first, _, strides = whole_view(kind)
        axis %= len(shape)
        part = shape[:axis] + (shape[axis] - 1,) + shape[axis + 1:]
        if (<object>entry.y).shape != part:
            return -1
        low, high = [self.code.view(values[0], (first + k * strides[axis], part, strides), dtype) for k in (0, 1)]
        return emit(self.code, WG_SUBTRACT, high, low, -1, SCALAR if part == () else
                    self.code.type_of((DOUBLE, *layout(entry.y))))

    def counted(self, args, values, node):
        """Lower `np.bincount` with weights to a scatter; -1 if its indices are not constant."""
        cdef Node entry = node
        cdef int32_t v
        given = {**dict(zip(("x", "weights", "minlength"), args)), **(entry.kwargs or {})}
        if type(given["x"]) is Operand or type(given.get("weights")) is not Operand or len(values) != 1:
            return -1
        v = values[0]
        where = np.ascontiguousarray(given["x"], dtype=np.int32)
        if self.code.types[self.code.kinds[v]] != (DOUBLE, where.shape, None) or (<object>entry.y).dtype != DOUBLE:
            return -1
        if not where.size or not (<object>entry.y).size:
            return -1
        return emit(self.code, SCATTER, v, self.constant_array(where), -1,
                    self.code.type_of((DOUBLE, (<object>entry.y).shape, None)))

    cdef int32_t product(self, list args, list values, Node node) except -2:
        """Emit a product with strong zero, or a select if a factor is bool; -1 for other types."""
        cdef int32_t a, b, kind
        shape = () if node.y is None else (<object>node.y).shape
        a, b = [self.operand(x, values, shape) for x in args]
        if a < 0 or b < 0 or node.y is not None and (<object>node.y).dtype != DOUBLE:
            return -1
        kind = SCALAR if node.y is None else self.code.type_of((DOUBLE, *layout(node.y)))
        of_a, of_b = [self.code.types[self.code.kinds[<int32_t>v]][0] for v in (a, b)]
        if of_a == of_b == DOUBLE:
            return emit(self.code, STRONG, a, b, -1, kind)
        if of_a == bool:
            a, b, of_a, of_b = b, a, of_b, of_a
        if self.exact or of_a != DOUBLE or of_b != bool:
            return -1
        return emit(self.code, SELECT, b, a, self.code.constant(0.0), kind)

    cdef int32_t chosen(self, list args, list values, Node node) except -2:
        """Emit `np.where` as a select; -1 for other types."""
        cdef int32_t mask, a, b
        if len(args) != 3 or node.kwargs or type(args[0]) is not Operand:
            return -1
        shape = () if node.y is None else (<object>node.y).shape
        mask, a, b = [self.operand(x, values, shape) for x in args]
        types = [None if v < 0 else self.code.types[self.code.kinds[<int32_t>v]][0] for v in (mask, a, b)]
        if types != [bool, DOUBLE, DOUBLE] or node.y is not None and (<object>node.y).dtype != DOUBLE:
            return -1
        return emit(self.code, SELECT, mask, a, b, SCALAR if node.y is None else
                    self.code.type_of((DOUBLE, *layout(node.y))))

    cdef int32_t flag(self, fun, list args, list values, cnp.ndarray y) except -2:
        """Emit a comparison, predicate or logical function by its opcode; -1 if there is none for these operands."""
        cdef int32_t v, a, kind
        cdef bint of_bools = fun in OF_BOOLS
        cdef list found = [self.operand(x, values, (<object>y).shape) for x in args]
        for v in found:
            if v < 0:
                return -1
            dtype = self.code.types[self.code.kinds[v]][0]
            if dtype != bool if of_bools else dtype not in (DOUBLE, np.bool):
                return -1
        kind = FLAG if (<object>y).ndim == 0 else self.code.type_of((np.dtype(bool), *layout(y)))
        a = found[0]
        if fun is np.isfinite or fun is np.isinf:       # x - x is NaN if x is not finite
            if self.code.types[self.code.kinds[a]][0] != DOUBLE:
                return -1
            v = emit(self.code, ISNAN, emit(self.code, WG_SUBTRACT, a, a, -1, self.code.kinds[a]), -1, -1, kind)
            if fun is np.isfinite:
                return emit(self.code, NOT, v, -1, -1, kind)
            a = emit(self.code, NOT, emit(self.code, ISNAN, a, -1, -1, kind), -1, -1, kind)
            return emit(self.code, AND, v, a, -1, kind)
        return emit(self.code, <int>(OF_BOOLS if of_bools else FLAGS)[fun], a, found[1] if len(found) > 1 else -1, -1,
                    kind)

    cdef int32_t call(self, compute, row, args, kwargs, list values, y) except -1:
        """Emit a call; `y` shows the type of its result, None for a scalar."""
        self.code.calls.append(Call(compute, args, kwargs, values, row))
        kind = SCALAR
        if y is not None:
            shape, strides = layout(y)
            strides = None if strides and overlaps(shape, strides) else strides
            kind = self.code.type_of(((<object>y).dtype, shape, strides))
        return emit(self.code, CALL, len(self.code.calls) - 1, -1, -1, kind)

    cdef int guard(self, Node node) except -1:
        cdef int32_t value
        _, _, buffer, view, slot = node.sources[0]
        value = self.of_slot[<int32_t>slot] if buffer is None else self.truth(buffer, view)
        self.code.guard(value, node.saved, self.line(node.key))
        return 0

    cdef int32_t truth(self, Buffer buffer, cnp.ndarray view) except -1:
        """Return the contents of a buffer for a guard; a 0-d bool needs no view."""
        found = self.memories.get(id(buffer))
        if found is None or not is_truth(view) or (<Memory>found[1]).changed is not None:
            return self.read(buffer, view)
        return (<Memory>found[1]).value if (<Memory>found[1]).shape == () else self.read(buffer, view)

    cdef str line(self, position):
        """Return file and line of a guard, cached: finding the line takes time linear in the size of the function."""
        if position is None:
            return frames.where(position)
        place = id(position[0]), position[1]
        found = self.guard_lines.get(place)
        if found is None:
            found = self.guard_lines[place] = position[0], frames.where(position)
        return found[1]

    # ------------------------------------------------------------------------------------------ ends

    def take_input(self, x, number):
        """Make an operand that no entry created a new input."""
        if type(x) is ScalarVar:
            value = emit(self.code, INPUT, number, -1, -1, SCALAR)
        else:
            shape, strides = layout((<ArrayVar>x).v)
            value = emit(self.code, INPUT, number, -1, -1, self.code.type_of(((<ArrayVar>x).v.dtype, shape, strides)))
        self.code.inputs.append(value)
        self.name(x, value)

    def name(self, x, int32_t value):
        """Bind an operand that no entry created to a value."""
        self.grow()
        if type(x) is ScalarVar:
            self.of_slot[(<ScalarVar>x).slot] = value
        else:
            self.define((<ArrayVar>x).buffer, (<ArrayVar>x).v, value)

    @property
    def is_paused(self):
        """Whether the tape is paused."""
        return self.tape.paused > 0

    def output(self, y):
        """Return the value of an output."""
        y = as_numpy(y)
        if type(y) is ScalarVar:
            return self.of_slot[(<ScalarVar>y).slot]
        if type(y) is ArrayVar and (<ArrayVar>y).buffer.level is self.tape.level:
            return self.read((<ArrayVar>y).buffer, (<ArrayVar>y).v)
        if type(y) is list or type(y) is tuple:
            values = [self.output(item) for item in y]
            self.code.packs.append((np.arange(len(y), dtype=np.int32), np.array(values, dtype=np.int32)))
            return emit(self.code, PACK, -1, len(self.code.packs) - 1, -1,
                        self.code.type_of((np.dtype(float), (len(y),), None)))
        return self.plain(var.plain(y))

    @property
    def listing(self):
        return self.code


cdef bint is_moving_pad(list args, dict kwargs) except -1:
    """Whether ``np.pad`` only moves elements or adds zeros."""
    mode = kwargs.get("mode", args[2] if len(args) > 2 else "constant")
    return not {*kwargs} - {"mode", "pad_width"} and mode in ("constant", "edge", "wrap", "reflect", "symmetric")


cdef list numbered(args, list arrays):
    """Replace operands among arguments by their arrays of indices, and other items of a sequence by -1."""
    cdef list found = []
    for x in args:
        if type(x) is Operand:
            found.append(arrays[x.position])
        elif type(x) in (list, tuple) and any([type(item) is Operand for item in x]):
            found.append([arrays[item.position] if type(item) is Operand else np.full(np.shape(item), -1, dtype=np.intp)
                          for item in x])
        else:
            found.append(x)
    return found


cdef list regular_pieces(where, firsts):
    """Cut an array of element indices into rectangular pieces with constant strides.

    Each piece is the index of its source array, the view of the source, and the view of the result that it fills.
    Returns None if there are too many pieces, or elements from outside the arrays.
    """
    cdef list cuts = [], found = []
    least = where.min()
    if least < 0 or not where.any() or (least > 0 and is_irregular(where)):
        return None
    inside = [np.flatnonzero((where > 0).any(axis=tuple([d for d in range(where.ndim) if d != axis])))
              for axis in range(where.ndim)]
    box = [(int(line.min()), int(line.max()) + 1) for line in inside]        # bounding box of the nonzero indices
    strides = c_strides(where.shape, sizeof(double))
    first_place = sum([low * s for (low, _), s in zip(box, strides)])
    where = where[tuple([slice(*ends) for ends in box])]
    if not where.all():
        return None
    owner = np.searchsorted(firsts, where, side="right") if len(firsts) > 2 else None
    for axis in range(where.ndim):
        steps = np.moveaxis(np.diff(where, axis=axis), axis, 0)
        is_break = steps != (np.sort(steps.reshape(len(steps), -1)[:, 0])[len(steps) // 2] if len(steps) else 0)
        if owner is not None:
            is_break |= np.moveaxis(np.diff(owner, axis=axis), axis, 0) != 0
        breaks = np.flatnonzero(is_break.any(axis=tuple(range(1, where.ndim))))
        cuts.append([0, *[int(b) + 1 for b in breaks[:MAX_VIEWS]], where.shape[axis]])
    if math.prod([len(cut) - 1 for cut in cuts]) > MAX_VIEWS:
        return None
    for bounds in itertools.product(*[list(zip(cut, cut[1:])) for cut in cuts]):
        part = where[tuple([slice(*ends) for ends in bounds])]
        first = int(part.flat[0])
        source = int(np.searchsorted(firsts, first, side="right")) - 1
        inner = [sizeof(double) * (int(part[tuple([int(d == axis) for d in range(part.ndim)])]) - first) if n > 1
                 else strides[axis] for axis, n in enumerate(part.shape)]
        view = (sizeof(double) * (first - int(firsts[source])), part.shape, tuple(inner))
        if 0 in inner or not (call_rules.places(view, DOUBLE) + int(firsts[source]) == part).all():
            return None
        place = first_place + sum([ends[0] * s for ends, s in zip(bounds, strides)])
        found.append((source, view, (place, part.shape, strides)))
    return found


cdef bint is_irregular(where) except -1:
    """Cheap test on the first column: does it alone have too many pieces?"""
    steps = np.diff(where.reshape(len(where), -1)[:, 0])
    return steps.size >= MAX_VIEWS and np.count_nonzero(steps != np.sort(steps)[len(steps) // 2]) >= MAX_VIEWS


cdef bytes_at(char *low, Py_ssize_t span):
    cdef cnp.npy_intp n = span
    return <object>cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT8, low)


cdef inline bint is_truth(cnp.ndarray x) noexcept:
    """Whether this is a 0-d bool array."""
    return cnp.PyArray_NDIM(x) == 0 and cnp.PyArray_ISBOOL(x)


cdef bint is_complex_number(cnp.ndarray x) except -1:
    """Whether this is a 0-d array of complex128."""
    return x is not None and cnp.PyArray_NDIM(x) == 0 and cnp.PyArray_TYPE(x) == cnp.NPY_COMPLEX128


cdef tuple layout(cnp.ndarray x):
    """Return shape and strides of an array; strides are None for C order."""
    return (<object>x).shape, None if is_in_order(x) else (<object>x).strides


cdef bint is_in_order(cnp.ndarray x) noexcept:
    """Whether elements are contiguous in C order; the strides of axes of length 1 are ignored."""
    cdef int d
    cdef Py_ssize_t step = cnp.PyArray_ITEMSIZE(x)
    for d in range(cnp.PyArray_NDIM(x) - 1, -1, -1):
        if cnp.PyArray_DIM(x, d) > 1:
            if cnp.PyArray_STRIDE(x, d) != step:
                return False
            step *= cnp.PyArray_DIM(x, d)
    return True


cdef bint has_layout(cnp.ndarray x, tuple shape, tuple strides) except -1:
    """Whether an array has this layout."""
    cdef int d
    if len(shape) != cnp.PyArray_NDIM(x) or is_in_order(x) != (strides is None):
        return False
    for d in range(cnp.PyArray_NDIM(x)):
        if <Py_ssize_t>shape[d] != cnp.PyArray_DIM(x, d):
            return False
        if strides is not None and <Py_ssize_t>strides[d] != cnp.PyArray_STRIDE(x, d):
            return False
    return True


cdef bint is_zero(const char *low, Py_ssize_t span) noexcept:
    """Whether all these bytes are 0."""
    return span == 0 or (low[0] == 0 and memcmp(low, low + 1, span - 1) == 0)


cdef tuple spread_to(tuple type, tuple shape):
    """Return the view that broadcasts an array of this type to a shape; None if there is none."""
    dtype, own, _ = type
    cdef Py_ssize_t more = len(shape) - len(own)
    if own == () or dtype != DOUBLE and dtype != bool or more < 0:
        return None
    first, _, strides = whole_view(type)
    if not all([n == m or n == 1 for n, m in zip(own, shape[more:])]):
        return None
    return first, shape, (0,) * more + tuple([s if n == m else 0 for n, m, s in zip(own, shape[more:], strides)])


cdef bint is_flat(x) except -1:
    """Whether all elements are equal."""
    first = x.flat[0]
    return first == x.flat[x.size - 1] and (x == first).all()


cdef bint is_ascending(list numbers) except -1:
    """Whether a list is strictly increasing."""
    cdef Py_ssize_t i
    for i in range(1, len(numbers)):
        if <Py_ssize_t>numbers[i] <= <Py_ssize_t>numbers[i - 1]:
            return False
    return True


#: calls that become instructions on views of their operands
cdef dict OF_VIEWS = {
    np.outer: Definitions.outer, np.diff: Definitions.difference, np.bincount: Definitions.counted,
}
