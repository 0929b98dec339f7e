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

from wengert.core.tape.kernel cimport Kernel, kernel_of, kernels
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
from wengert.program.tracing.refusals import NotReplayable
from wengert.program.ir import call_rules, opcode_table
from wengert.program.ir.call_rules import getitem_row, placed, placed_row
from wengert.program.ir.opcode_table import function
from wengert.registry import lookup

cnp.import_array()

cdef extern from "list.h" nogil:
    void wg_swap(const wg_list *t, Py_ssize_t i)

cdef object DOUBLE = np.dtype(float), BOOL = np.dtype(bool)
cdef enum:
    MAX_SHARED_BYTES = 1024         # size up to which equal constant arrays are shared

cdef tuple NEVER = (1 << 62, 1 << 62)


@cython.final
@cython.no_gc
cdef class Memory:
    """The contents of a buffer as SSA values."""

    cdef int32_t value              # the whole contents; -1 if not yet defined
    cdef object dtype
    cdef tuple shape, strides       # of the value; strides are None for C order
    cdef Py_ssize_t first           # offset of its first element from the buffer's lowest address, in bytes
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
        """Allocate `elements`, all unknown, if there are none yet."""
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
    cdef dict constants             # (type id, bytes): number of a small constant array
    cdef dict kept_arrays           # (shape, bytes) of a small constant operand: its value
    cdef dict kinds                 # shape: type id of a C-ordered double array
    cdef dict broadcasts            # (type id, shape): broadcasting view, None if there is none
    cdef dict moves                 # static key of a call that only moves elements: its pieces or gather indices
    cdef dict guard_lines           # (id of code, instruction): (code, "file:line") of a guard
    cdef bint exact                 # emit an instruction per entry, so that adjoints add up in the eager order

    def __cinit__(self, Tape tape, bint exact=False):
        self.exact = exact
        self.tape = tape
        self.code = Listing()
        self.memories = {}
        self.kinds = {}
        self.constants = {}
        self.kept_arrays = {}
        self.moves = {}
        self.broadcasts = {}
        self.guard_lines = {}
        self.numbered = []

    def __dealloc__(self):
        PyMem_Free(self.of_slot)

    # ------------------------------------------------------------------------------------------ memory

    cdef Memory memory(self, Buffer buffer, cnp.ndarray view):
        """Return the contents of a buffer; if no entry created it, they start as a constant."""
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
        if not self.exact and node.key is None and is_complex_number(view) and write_parts(self, node, memory):
            return 0
        shape, strides = layout(view)
        source = self.passive(self.stored(node))
        self.view_as(memory, (<object>view).dtype)       # last, since reading the source may change its dtype
        if shape == () and node.key is None and self.code.types[self.code.kinds[source]][0] == memory.dtype == float:
            if self.code.kinds[source] != SCALAR:       # an array of one element
                source = emit(self.code, LOAD, source, 0, -1, SCALAR)
        if (node.key is None and cnp.PyArray_SIZE(view) == 1 and self.code.kinds[source] == SCALAR
                and memory.dtype == float):
            self.known(memory, buffer)
            return self.write_element(
                memory, (<char *>cnp.PyArray_DATA(view) - buffer.low) // <Py_ssize_t>sizeof(double), source)
        if node.key is not None:
            value = emit_call(self, placed, placed_row, (Operand(0), node.key, Operand(1)), {},
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

    cdef int32_t stored(self, Node node) except -1:
        """Return the value that an assignment wrote."""
        if node.sources:
            _, _, buffer, view, slot = node.sources[0]
            return self.of_slot[<int32_t>slot] if buffer is None else self.read(buffer, view)
        return self.plain(node.saved)       # the tape was rolled back, so `saved` holds the written constant

    cdef int32_t passive(self, int32_t value) except -1:
        """Return the value itself, but inside a passive block a copy that carries no derivative."""
        return emit(self.code, STOP, value, -1, -1, self.code.kinds[value]) if self.is_passive else value

    # ------------------------------------------------------------------------------------------ constants

    cdef int32_t constant_array(self, content) except -1:
        """Return a constant array; small ones with the same content share their entry."""
        cdef int32_t kind = self.code.type_of((content.dtype, *layout(content)))
        cdef Py_ssize_t number = len(self.code.arrays)
        if content.nbytes <= MAX_SHARED_BYTES and content.dtype != object:
            number = self.constants.setdefault((kind, content.tobytes()), number)
        if number == len(self.code.arrays):
            self.code.arrays.append(content)
        return emit(self.code, ARRAY, number, -1, -1, kind)

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

    cdef int32_t kept(self, cnp.ndarray x) except -1:
        """Return the value of a constant operand; small arrays with the same content share one value."""
        if not cnp.PyArray_IS_C_CONTIGUOUS(x) or cnp.PyArray_NBYTES(x) > MAX_SHARED_BYTES or x.dtype is not DOUBLE:
            return self.plain(x)
        key = (<object>x).shape, (<char *>cnp.PyArray_DATA(x))[:cnp.PyArray_NBYTES(x)]
        found = self.kept_arrays.get(key)
        if found is None:
            found = self.kept_arrays[key] = self.plain(x)
        return found

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

        An unreachable buffer is referenced only by the pair in `memories`, the loop variable and the tape's set.
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
            self.define(node.out, node.y, self.passive(lower_elementwise(self, node)))
        elif node.kind == NodeKind.SUM:
            self.of_slot[i] = self.passive(self.sum(self.read(node.abuf, node.a), node.a))
        elif node.kind == NodeKind.GUARD:
            self.guard(node)
        elif lower_comparison(self, node) or lower_in_parts(self, node, i):
            pass
        elif node.kind == NodeKind.GATHER:
            self.result(node, i, lower_index(self, node))
        else:
            self.result(node, i, lower_call(self, node))
        return 0

    cdef int32_t sum(self, int32_t value, cnp.ndarray view) except -1:
        if self.code.kinds[value] <= FLAG:          # a scalar filling an array
            if cnp.PyArray_SIZE(view) == 1:
                return value
            value = self.filled((<object>view).dtype, (<object>view).shape, value)
        return emit(self.code, SUM, value, -1, -1, SCALAR)

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
        """Define a buffer with zero strides by the elements at index 0 of the broadcast axes, the only ones stored."""
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
        """Return file and line of a guard; cached, since finding a line takes time linear in the function's size."""
        if position is None:
            return frames.where(position)
        place = id(position[0]), position[1]
        found = self.guard_lines.get(place)
        if found is None:
            found = self.guard_lines[place] = position[0], frames.where(position)
        return found[1]

    # ------------------------------------------------------------------------------------------ inputs and outputs

    def take_input(self, x, number):
        """Append an input instruction for an operand that no tape entry computes."""
        if type(x) is ScalarVar:
            value = emit(self.code, INPUT, number, -1, -1, SCALAR)
        else:
            shape, strides = layout((<ArrayVar>x).v)
            value = emit(self.code, INPUT, number, -1, -1, self.code.type_of(((<ArrayVar>x).v.dtype, shape, strides)))
        self.code.inputs.append(value)
        self.name(x, value)

    def name(self, x, int32_t value):
        """Bind an operand that no tape entry computes to an SSA value."""
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
        y = as_numpy(y)
        if type(y) is ScalarVar:
            return self.of_slot[(<ScalarVar>y).slot]
        if type(y) is ArrayVar and (<ArrayVar>y).buffer.level is self.tape.level:
            return self.read((<ArrayVar>y).buffer, (<ArrayVar>y).v)
        if type(y) is list or type(y) is tuple:
            return self.pack([self.output(item) for item in y])
        return self.plain(var.plain(y))

    cdef int32_t pack(self, list values) except -1:
        """Emit an array of scalars."""
        self.code.packs.append((np.arange(len(values), dtype=np.int32), np.array(values, dtype=np.int32)))
        return emit(self.code, PACK, -1, len(self.code.packs) - 1, -1,
                    self.code.type_of((DOUBLE, (len(values),), None)))

    @property
    def listing(self):
        return self.code


include "moved_elements.pxi"
include "call_lowering.pxi"
include "complex_pairs.pxi"


cdef bytes_at(char *low, Py_ssize_t span):
    cdef cnp.npy_intp n = span
    return <object>cnp.PyArray_SimpleNewFromData(1, &n, cnp.NPY_UINT8, low)


cdef inline bint is_truth(cnp.ndarray x) noexcept:
    """Return whether this is a 0-d bool array."""
    return cnp.PyArray_NDIM(x) == 0 and cnp.PyArray_ISBOOL(x)


cdef tuple layout(cnp.ndarray x):
    """Return shape and strides of an array; strides are None for C order."""
    return (<object>x).shape, None if is_in_order(x) else (<object>x).strides


cdef bint is_in_order(cnp.ndarray x) noexcept:
    """Return whether elements are contiguous in C order; the strides of axes of length 1 are ignored."""
    cdef int d
    cdef Py_ssize_t step = cnp.PyArray_ITEMSIZE(x)
    for d in range(cnp.PyArray_NDIM(x) - 1, -1, -1):
        if cnp.PyArray_DIM(x, d) > 1:
            if cnp.PyArray_STRIDE(x, d) != step:
                return False
            step *= cnp.PyArray_DIM(x, d)
    return True


cdef bint has_layout(cnp.ndarray x, tuple shape, tuple strides) except -1:
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
    """Return whether all these bytes are 0."""
    return span == 0 or (low[0] == 0 and memcmp(low, low + 1, span - 1) == 0)


cdef bint is_flat(x) except -1:
    """Return whether all elements are equal."""
    first = x.flat[0]
    return first == x.flat[x.size - 1] and (x == first).all()


cdef bint is_ascending(list numbers) except -1:
    cdef Py_ssize_t i
    for i in range(1, len(numbers)):
        if <Py_ssize_t>numbers[i] <= <Py_ssize_t>numbers[i - 1]:
            return False
    return True
