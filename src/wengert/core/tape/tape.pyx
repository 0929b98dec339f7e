# Indices are computed here, never supplied by a user, and Cython code divides by no user value:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""The tape of reverse mode and its sweep: a Wengert list v_i = phi_i(earlier v_j) in flat arrays.

Entries stand in execution order (Griewank and Walther 2008, chapters 2 to 4) and come in two types:

* A *scalar entry* is an opcode, two operands and the value: 17 bytes, swept by the C loop in ``sweep.c``.
* An *array entry* (a `Node`) holds a registry row, its operands and its result, which are stored in `Buffer`\\ s.

The adjoint of a buffer is its *shadow*, memory of the same layout.
A view therefore needs no entry: its adjoint has the same offset and strides in the shadow.

An in-place store saves the values it overwrites.
The sweep swaps them back, so that each pullback sees the values its operation saw, and redoes the stores at its end,
also after an exception.

A sweep of k directions costs k times the operations of the tape, up to a small constant, and memory for k adjoints of
every value.

Invariants: entries refer to buffers, never to operands, so there is no reference cycle;
a level points to its tape without owning it;
between sweeps each buffer holds the value that the function left in it, and no buffer has a shadow.
"""

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.object cimport PyObject
from cpython.ref cimport Py_REFCNT
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcmp, memcpy, memset

from collections import Counter

import numpy as np

from wengert.core.tape.memory cimport (
    MIN_POOLED_BYTES, Block, Buffer, Level, empty_array, empty_pool, is_double, is_vector, kept, owns_memory,
    same_shape, take, view_at,
)

from wengert.core import levels
from wengert.core.tape.local_derivatives import Adjoints
from wengert.errors import LevelError, ReplayMismatchError
from wengert.features import float_errors, float_errors_with
from wengert.registry import strong

cnp.import_array()

cdef extern from "sweep.h" nogil:
    ctypedef struct wg_row:
        const char *name
        int opcode
        int operands
        int cheap
        int reads_a
        int reads_b
        const char *value
        const char *pa
        const char *pb

    const wg_row wg_rows[]

    Py_ssize_t wg_sweep(const wg_list *t, Py_ssize_t i, Py_ssize_t stop, double *adjoint, wg_range *ranges,
                        Py_ssize_t k, Py_ssize_t width)
    Py_ssize_t wg_roll_forward(const wg_list *t, Py_ssize_t i, Py_ssize_t n)
    void wg_pull_vv(int op, int side, int add, Py_ssize_t n, const double *g, const double *a, const double *b,
                    const double *y, double *adjoint)
    void wg_pull_vs(int op, int side, int add, Py_ssize_t n, const double *g, const double *a, const double *b,
                    const double *y, double *adjoint)
    void wg_pull_sv(int op, int side, int add, Py_ssize_t n, const double *g, const double *a, const double *b,
                    const double *y, double *adjoint)
    void wg_multiply_add(int add, Py_ssize_t n, const double *g, const double *p, double *adjoint)
    void wg_strong(Py_ssize_t n, const double *g, const double *p, double *y)
    void wg_strong_scalar(Py_ssize_t n, const double *g, double p, double *y)
    void wg_add_scalar(int add, Py_ssize_t n, double g, double *adjoint)
    void wg_partials(int op, double a, double b, double y, double *pa, double *pb)

cdef object np_add = np.add, np_add_at = np.add.at


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Node:
    """An array entry of the tape."""


cdef struct Spare:              # arrays of a closed tape, kept for reuse by the next one
    wg_list entries
    Py_ssize_t capacity, constants_capacity, buffers_capacity

cdef enum:
    MAX_SPARE_ENTRIES = 1 << 21     # largest capacity that is kept: 36 MB

cdef Spare spare

#: limits on the unread part of a recording tape; beyond them `reader` translates it and the entries are dropped
cdef Py_ssize_t MAX_UNREAD_NODES = 5000, MAX_UNREAD_ELEMENTS = 1 << 20
memset(&spare, 0, sizeof(spare))


def clear_caches():
    """Free the memory kept for future tapes."""
    global spare
    free_arrays(&spare.entries)
    spare.capacity = 0
    empty_pool()


cdef int free_arrays(wg_list *entries) noexcept:
    PyMem_RawFree(entries.op)
    PyMem_RawFree(entries.a)
    PyMem_RawFree(entries.b)
    PyMem_RawFree(entries.v)
    PyMem_RawFree(entries.constants)
    PyMem_RawFree(entries.memory)
    PyMem_RawFree(entries.shadow)
    PyMem_RawFree(entries.span)
    memset(entries, 0, sizeof(wg_list))
    return 0


@cython.final
cdef class Tape:
    """A tape with its values, recorded once and swept any number of times."""

    def __cinit__(self, str name="a derivative", bint recording=False, Tape head=None):
        global recordings
        self.level = Level.__new__(Level)
        self.level.name = name
        self.level.order = 1
        self.level.recording = self.recording = recording
        if recording:
            recordings += 1
            self.passive = []
            self.active = set()
            self.active_slots = bytearray()
        self.level.tape = <PyObject *>self
        self.constant_copies = {}
        self.version = 1
        if head is not None:
            self.head = head
            self.begin_tail()
            return
        self.nodes = []
        self.buffers = []
        self.roots = []
        self.reuse()

    def __dealloc__(self):
        if self.level is not None:
            self.level.tape = NULL
        self.stop_recording()
        self.free()

    cdef int stop_recording(self) noexcept:
        global recordings
        recordings -= self.recording
        self.recording = False
        return 0

    cdef int reuse(self) except -1:
        """Reuse the arrays of the most recently closed tape, or allocate new ones."""
        global spare
        if spare.capacity == 0:
            self.capacity = 256
            return self.grow()
        self.entries = spare.entries
        self.capacity = spare.capacity
        self.constants_capacity = spare.constants_capacity
        self.buffers_capacity = spare.buffers_capacity
        memset(&spare, 0, sizeof(spare))
        return 0

    cdef int free(self) noexcept:
        """Free the arrays, or keep them for the next tape, since growth and page faults are slow."""
        global spare
        if 0 < self.capacity <= MAX_SPARE_ENTRIES and spare.capacity < self.capacity:
            spare.entries, self.entries = self.entries, spare.entries
            spare.capacity, self.capacity = self.capacity, spare.capacity
            spare.constants_capacity = self.constants_capacity
            spare.buffers_capacity = self.buffers_capacity
        free_arrays(&self.entries)
        self.n = self.capacity = self.nconstants = self.constants_capacity = self.buffers_capacity = 0
        return 0

    def close(self):
        """End the derivative: its values become constants and its memory is freed."""
        self.level.tape = NULL
        if self.recording:
            self.level.recording = False
            self.stop_recording()
        self.active = None
        if self.nodes:
            self.nodes = []
        if self.constant_copies:
            self.constant_copies = {}
        self.buffers = []
        self.roots = []
        self.free()

    @property
    def is_one_way(self):
        """Is only the reverse sweep possible? True with loops (re-recorded when swept) and with complex values."""
        return self.has_loops or self.has_complex

    @property
    def size(self):
        """Number of entries, for a tail without those of its head."""
        return self.n - self.mark

    @property
    def nbytes(self):
        """Bytes used by the scalar entries, values included."""
        return self.n * (sizeof(uint8_t) + 2 * sizeof(int32_t) + sizeof(double)) + self.nconstants * sizeof(double)

    cdef int grow(self) except -1:
        cdef Py_ssize_t capacity = 2 * self.capacity
        if self.level.tape == NULL:         # checked only here: a closed tape has no capacity, so any push gets here
            raise LevelError(ended_message(self.level))
        if self.tail is not None:           # only a store gets here: the tail records all other operations
            raise LevelError(outside_message((<Tape>self.level.tape).level))
        if capacity > 0x7fffffff:
            raise MemoryError(f"{self.level.name}: more than 2**30 operations on scalars; use arrays or checkpoints")
        self.entries.op = <uint8_t *>resized(self.entries.op, capacity, sizeof(uint8_t))
        self.entries.a = <int32_t *>resized(self.entries.a, capacity, sizeof(int32_t))
        self.entries.b = <int32_t *>resized(self.entries.b, capacity, sizeof(int32_t))
        self.entries.v = <double *>resized(self.entries.v, capacity, sizeof(double))
        self.capacity = capacity
        return 0

    cdef int32_t grow_constants(self) except -1:
        cdef Py_ssize_t capacity = max(64, 2 * self.constants_capacity)
        self.entries.constants = <double *>resized(self.entries.constants, capacity, sizeof(double))
        self.constants_capacity = capacity
        return 0

    cdef int32_t other_constant(self, double c) except -1:
        """Slow path of `constant`: the array is full, or a tail records in place of this tape."""
        cdef Tape recorder = current(self)
        if recorder.nconstants == recorder.constants_capacity:
            recorder.grow_constants()
        return constant(recorder, c)

    cdef int32_t number(self, Buffer buffer, cnp.ndarray owner) except -1:
        """Id of a buffer whose elements are operands of scalar entries; `owner` is any view of it."""
        cdef Py_ssize_t i = len(self.buffers), capacity
        if buffer.id >= 0:
            return buffer.id
        if self.tail is not None:
            raise LevelError(outside_message((<Tape>self.level.tape).level))
        if i == self.buffers_capacity:
            capacity = max(8, 2 * i)
            self.entries.memory = <char **>resized(self.entries.memory, capacity, sizeof(char *))
            self.entries.shadow = <char **>resized(self.entries.shadow, capacity, sizeof(char *))
            self.entries.span = <Py_ssize_t *>resized(self.entries.span, capacity, sizeof(Py_ssize_t))
            self.buffers_capacity = capacity
        self.buffers.append(buffer)
        if buffer.owner is None:
            buffer.owner = owner
        self.entries.memory[i] = buffer.low
        self.entries.shadow[i] = NULL
        self.entries.span[i] = buffer.span
        buffer.id = <int32_t>i
        return buffer.id

    cdef int32_t add_node(self, Node node, double v) except -1:
        cdef int32_t slot = push(self, WG_NODE, <int32_t>len(self.nodes), 0, v)
        self.nodes.append(node)
        if node.kind == STORE:
            self.has_stores = True
            self.version += 1
            if self.recording:
                self.elements += cnp.PyArray_SIZE(node.y)
        elif node.y is not None:
            self.elements += cnp.PyArray_SIZE(node.y)
        if self.reader is not None and not self.is_full:
            self.is_full = (len(self.nodes) > self.read_nodes + MAX_UNREAD_NODES
                            or self.elements > self.read_elements + MAX_UNREAD_ELEMENTS)
        return slot

    cdef int flush(self) except -1:
        """Let the reader translate the entries of a full recording tape, then drop them; not inside an operation."""
        cdef Py_ssize_t i
        if self.paused:
            return 0
        self.analyse()
        self.reader()
        for i in range(self.read_nodes, len(self.nodes)):
            self.nodes[i] = None
        self.read_nodes, self.read_elements = len(self.nodes), self.elements
        self.is_full = False
        return 0

    def needs(self, Py_ssize_t elements):
        """Count doubles that the sweep of the last entry will allocate."""
        self.elements += elements

    def pause(self):
        """Begin a passive block and return the argument for `resume`."""
        self.paused += 1
        return self.n

    def resume(self, Py_ssize_t start):
        """End a passive block: values recorded since entry `start` become constants, stores stay stores."""
        cdef Py_ssize_t i
        cdef Node node
        self.paused -= 1
        self.version += 1       # no element load is shared across the end of the block
        if self.recording:      # the values differ between calls, so the entries stay
            self.passive.append((start, self.n))
            return
        for i in range(start, self.n):
            if self.entries.op[i] == WG_STORE:
                self.entries.a[i] = -1
            elif self.entries.op[i] == WG_NODE:
                node = <Node>self.nodes[self.entries.a[i]]
                if node is None:
                    continue        # a nested block removed it
                if node.kind == STORE:
                    node.sources = []
                else:
                    self.nodes[self.entries.a[i]] = None
                    if node.out is not None:
                        self.roots.append(node.out)     # now without a producing entry
            elif self.entries.op[i] != WG_TARGET:
                self.entries.op[i] = WG_INPUT

    # ------------------------------------------------------------------------------------------ activity

    cdef bint is_active(self, Buffer buffer, int32_t slot) except -1:
        """Does a value of a recording tape depend on the inputs? If not, Python code may read it."""
        self.analyse()
        return buffer in self.active if buffer is not None else self.active_slots[slot]

    cdef int analyse(self) except -1:
        """Extend the forward activity analysis to the last entry: a value is active if it depends on an input."""
        cdef Py_ssize_t i, first = len(self.active_slots)
        cdef int op, form
        cdef int32_t a, b
        cdef bint active
        cdef Node node
        cdef bytearray slots = self.active_slots
        slots.extend(bytes(self.n - first))
        for i in range(first, self.n):
            op, a, b = self.entries.op[i], self.entries.a[i], self.entries.b[i]
            if op == WG_INPUT:
                active = True
            elif op == WG_LOAD:
                active = self.buffers[a] in self.active
            elif op == WG_TARGET:
                active = False
            elif op == WG_STORE:
                active = a >= 0 and slots[a]
            elif op == WG_NODE:
                active = self.has_active_operand(<Node>self.nodes[a])
            else:
                form = 1 if op < WG_ADD else (op - WG_ADD) % 3      # 0: two operands, 1: only a, 2: only b
                active = (form != 2 and slots[a]) or (form != 1 and slots[b])
            if not active or in_ranges(i, self.passive):
                continue
            if op == WG_STORE:
                self.active.add(self.buffers[self.entries.a[i + 1]])
                continue
            node = <Node>self.nodes[a] if op == WG_NODE else None
            if node is not None and node.out is not None:
                self.active.add(node.out)
            else:
                slots[i] = True
        return 0

    cdef bint has_active_operand(self, Node node) except -1:
        if node.kind == GUARD or (node.row is not None and node.row.kind == "constant"):
            return False
        if node.kind == ELEMENTWISE or node.kind == SUM:
            for buffer, slot in ((node.abuf, node.aslot), (node.bbuf, node.bslot)):
                if buffer in self.active or (slot >= 0 and self.active_slots[slot]):
                    return True
            return False
        for _, _, buffer, _, slot in node.sources:
            if buffer in self.active or (slot >= 0 and self.active_slots[slot]):
                return True
        return False

    # ------------------------------------------------------------------------------------------ sweeps

    cdef int begin(self, Py_ssize_t k, bint stacked) except -1:
        """Allocate zero adjoints for all slots and for the buffers that scalar entries use."""
        cdef Py_ssize_t width = 1 if k == 1 else (k + WG_GROUP - 1) // WG_GROUP * WG_GROUP
        cdef Py_ssize_t rows = self.n * width * sizeof(double), ranges = self.n * sizeof(wg_range) if k != 1 else 0
        cdef Buffer buffer
        self.adjoint_capacity = self.n
        if self.recording:
            raise LevelError(f"{self.level.name} is a recording for replay and cannot be swept")
        self.k = k
        self.width = width
        self.stacked = stacked
        self.swept = False
        self.adjoint_block = take(max(1, rows + ranges))
        self.adjoint = <double *>self.adjoint_block.data
        self.ranges = <wg_range *>(self.adjoint_block.data + rows)
        if k == 1:
            memset(self.adjoint, 0, rows)
        else:                           # rows of k > 1 directions are zeroed as their ranges grow
            memset(self.ranges, 0, ranges)
        for buffer in self.buffers:
            self.shadow_of(buffer)
        return 0

    cdef int end(self) except -1:
        """Drop all adjoints."""
        cdef Buffer buffer
        cdef Node node
        cdef tuple source
        for buffer in self.roots:
            self.drop_shadow(buffer)
        for buffer in self.buffers:
            self.drop_shadow(buffer)
        if not self.swept:              # an exception ended the sweep early
            for node in self.nodes:
                if node is not None:
                    for buffer in (node.out, node.abuf, node.bbuf):
                        self.drop_shadow(buffer)
                    for source in node.sources or ():
                        self.drop_shadow(source[2])
        self.adjoint_block = None
        self.adjoint = NULL
        self.unneeded = None
        if self.float_errors_token is not None:
            token, self.float_errors_token = self.float_errors_token, None
            float_errors.reset(token)
        return 0

    cdef int ignore_float_errors(self) except -1:
        """Ignore floating-point errors until the sweep ends; called late, since entering np.errstate takes time."""
        if self.float_errors_token is None:
            self.float_errors_token = float_errors.set(float_errors_with(all="ignore"))
        return 0

    cdef int drop_shadow(self, Buffer buffer) except -1:
        if buffer is not None:
            buffer.shadow = None
            if buffer.id >= 0:
                self.entries.shadow[buffer.id] = NULL
        return 0

    cdef int sweep(self, bint consume) except -1:
        """Propagate adjoints from results to operands, from the last entry to the first.

        `consume`, for a tape that is swept once, drops each array entry and its saved values once it is swept.
        """
        cdef Py_ssize_t i = self.n, undone = self.n, stop
        cdef Node node
        try:
            while i > self.mark:
                stop = max(self.mark, i - 1000000)      # KeyboardInterrupt is raised between pieces of this length
                if i - stop > 10000:
                    with nogil:
                        i = wg_sweep(&self.entries, i, stop, self.adjoint, self.ranges, self.k, self.width)
                else:
                    i = wg_sweep(&self.entries, i, stop, self.adjoint, self.ranges, self.k, self.width)
                undone = max(i + 1, stop)
                PyErr_CheckSignals()
                if i >= stop:
                    node = <Node>self.nodes[self.entries.a[i]]
                    if node is not None:
                        self.pull(node, i)
                        if consume and (node.kind != STORE or self.head is not None):
                            self.nodes[self.entries.a[i]] = None
                i = undone = max(i, stop)
            self.swept = True
        finally:
            if self.head is None:       # a tail is dropped together with its stores
                self.roll_forward(undone)
        return 0

    cdef int roll_forward(self, Py_ssize_t start) except -1:
        """Redo the stores of the entries from `start` on, which the sweep has undone."""
        cdef Py_ssize_t i = start
        cdef Node node
        if not self.has_stores:
            return 0
        while True:
            i = wg_roll_forward(&self.entries, i, self.n)
            if i == self.n:
                return 0
            node = <Node>self.nodes[self.entries.a[i]]
            if node is not None and node.kind == STORE and node.saved is not None:
                swap(node)
            i += 1

    cdef char *shadow_of(self, Buffer buffer) except NULL:
        """Address of the shadow of a buffer, allocated at first use."""
        if buffer.shadow is None:
            buffer.shadow = take(max(1, self.k * buffer.span))
            memset(buffer.shadow.data, 0, self.k * buffer.span)
            if buffer.id >= 0:
                self.entries.shadow[buffer.id] = buffer.shadow.data
        return buffer.shadow.data

    cdef cnp.ndarray adjoint_view(self, Buffer buffer, cnp.ndarray view):
        """Adjoint of a view: its offset and strides applied to the shadow, with a leading axis if `stacked`."""
        cdef char *data = self.shadow_of(buffer) + (<char *>cnp.PyArray_DATA(view) - buffer.low)
        return view_at(data, buffer.shadow, view, self.k if self.stacked else 0, buffer.span)

    cdef int accumulate(self, Buffer buffer, cnp.ndarray view, int32_t slot, object cotangent,
                        bint owned=False) except -1:
        """Add a cotangent to the adjoint of an operand, summed over broadcast axes.

        `owned`: the caller holds the only reference, so a new adjoint may use its memory.
        """
        cdef cnp.ndarray target, total
        cdef Py_ssize_t j
        cdef double *row
        cdef int d, lead = 1 if self.stacked else 0, ndim
        self.ignore_float_errors()
        if buffer is None:
            total = <cnp.ndarray>np.asarray(cotangent)
            if not is_double(total):
                total = <cnp.ndarray>(<object>total).real.astype(np.float64)
            if cnp.PyArray_NDIM(total) > lead:
                total = <cnp.ndarray>np.asarray(total.sum(axis=tuple(range(lead, cnp.PyArray_NDIM(total)))))
            total = <cnp.ndarray>np.ravel(total)
            row = wg_whole(self.adjoint, self.ranges, slot, self.width)
            for j in range(self.k):
                row[j] += (<double *>cnp.PyArray_DATA(total))[
                    j if cnp.PyArray_SIZE(total) > 1 else 0]
            return 0
        total = <cnp.ndarray>np.asarray(cotangent)
        if owned and self.adopt(buffer, view, total):
            return 0
        target = self.adjoint_view(buffer, view)
        if cnp.PyArray_ISCOMPLEX(total) and not cnp.PyArray_ISCOMPLEX(target):
            total = <cnp.ndarray>(<object>total).real      # a real operand has a real adjoint
        if not same_shape(target, total):
            ndim = cnp.PyArray_NDIM(target)
            if cnp.PyArray_NDIM(total) > ndim:
                total = <cnp.ndarray>np.asarray(
                    total.sum(axis=tuple(range(lead, lead + cnp.PyArray_NDIM(total) - ndim))))
            extra = tuple([d for d in range(-cnp.PyArray_NDIM(total) + lead, 0)
                           if cnp.PyArray_DIM(target, ndim + d) == 1
                           and cnp.PyArray_DIM(total, cnp.PyArray_NDIM(total) + d) != 1])
            if extra:
                total = <cnp.ndarray>np.asarray(total.sum(axis=extra, keepdims=True))
            if lead and cnp.PyArray_NDIM(total) < ndim and cnp.PyArray_NDIM(total) > 0:
                # align trailing axes behind the axis of directions
                shape = (<object>total).shape
                total = (<object>total).reshape(shape[:1] + (1,) * (ndim - len(shape)) + shape[1:])
        if overlaps_itself(target):         # broadcast: several elements share memory
            add_in_order(target, total)
        else:
            np_add(target, total, out=target, casting="same_kind")
        return 0

    cdef bint adopt(self, Buffer buffer, cnp.ndarray view, cnp.ndarray total) except -1:
        """Use an owned array as the adjoint of a buffer without one if the layouts match."""
        cdef int d, lead = 1 if self.stacked else 0
        if (buffer.shadow is not None or buffer.id >= 0 or not is_vector(total) or not is_vector(view)
                or <char *>cnp.PyArray_DATA(view) != buffer.low
                or <Py_ssize_t>cnp.PyArray_NBYTES(view) != buffer.span
                or not cnp.PyArray_ISWRITEABLE(total) or not owns_memory(total)
                or cnp.PyArray_NDIM(total) != cnp.PyArray_NDIM(view) + lead
                or (lead and cnp.PyArray_DIM(total, 0) != self.k)):
            return False
        for d in range(cnp.PyArray_NDIM(view)):
            if cnp.PyArray_DIM(total, d + lead) != cnp.PyArray_DIM(view, d):
                return False
        buffer.shadow = Block.__new__(Block)
        buffer.shadow.data = <char *>cnp.PyArray_DATA(total)
        buffer.shadow.owner = total
        return True

    cdef int pull(self, Node node, Py_ssize_t i) except -1:
        """Reverse one array entry, then drop the adjoint of its result."""
        cdef Py_ssize_t j
        cdef double *row
        if node.kind == STORE:
            return self.pull_store(node)
        if node.kind == LOOP:
            return self.pull_loop(node, i)
        if node.out is None:
            row = wg_whole(self.adjoint, self.ranges, i, self.width)
            for j in range(self.k):
                if row[j] != 0.0:
                    break
            else:
                return 0
        elif node.out.shadow is None:
            return 0
        if node.kind == ELEMENTWISE:
            self.pull_elementwise(node, i)
        elif node.kind == SUM:
            self.pull_sum(node, i)
        else:
            self.pull_call(node, i)
        self.drop_shadow(node.out)
        return 0

    cdef object cotangent_of(self, Node node, Py_ssize_t i):
        """Cotangent of a node's result, as an array or a NumPy scalar."""
        cdef cnp.npy_intp k = self.k
        if node.out is not None:
            return self.adjoint_view(node.out, node.y)
        if not self.stacked:
            return np.float64(self.adjoint[i])
        return cnp.PyArray_SimpleNewFromData(1, &k, cnp.NPY_DOUBLE, self.adjoint + i * self.width)

    cdef int pull_elementwise(self, Node node, Py_ssize_t i) except -1:
        """Add cotangent * partial to the adjoint of each operand."""
        cdef bint left = node.abuf is not None or node.aslot >= 0
        cdef bint right = node.bbuf is not None or node.bslot >= 0
        cdef char *g = NULL
        if node.out is not None:
            g = node.out.shadow.data + (<char *>cnp.PyArray_DATA(node.y) - node.out.low)
        # The left operand comes last, when the cotangent is dead and its memory may become the new adjoint.
        if right:
            self.pull_operand(node, 1, g, node.out.span, not left)
        if left:
            self.pull_operand(node, 0, g, node.out.span, True)
        return 0

    cdef int pull_operand(self, Node node, int side, char *g, Py_ssize_t gspan, bint last) except -1:
        cdef Buffer buffer = node.bbuf if side else node.abuf
        cdef cnp.ndarray view = node.b if side else node.a, p, y = node.y
        cdef int32_t slot = node.bslot if side else node.aslot
        cdef Py_ssize_t n = cnp.PyArray_SIZE(y), j
        cdef bint add, fast, give
        cdef double an, bn
        cdef const double *a = NULL
        cdef const double *b = NULL
        cdef const double *yv
        cdef char *adjoint
        cdef int form = VECTORS
        if self.is_unneeded(buffer):
            return 0
        fast = buffer is not None and is_vector(y) and is_vector(view) and same_shape(view, y)
        if fast and node.opcode < WG_ADD:
            a = b = <double *>cnp.PyArray_DATA(node.a)
        elif fast and not opcode_reads[node.opcode][side]:
            a = b = <double *>g                 # the partial is constant: any readable memory will do
        elif fast:
            fast, form = self.kernel_operands(node, y, &an, &bn, &a, &b)
        # Memory behind a view descriptor is gone; the kernel ignores this operand, so any readable memory will do.
        yv = <double *>g if node.descriptors & WG_Y else <double *>cnp.PyArray_DATA(y)
        if node.descriptors & WG_A:
            a = <double *>g
        if node.descriptors & WG_B:
            b = <double *>g
        if fast:
            give = last and gspan == buffer.span and node.out.shadow.data == g
            add = self.target(buffer, view, node.out.shadow if give else None, &adjoint)
            if not is_cheap(node.opcode, n):
                p = self.partial(node, side)
                if is_vector(p) and same_shape(p, y):
                    for j in range(self.k):
                        wg_multiply_add(add, n, <double *>(g + j * gspan), <double *>cnp.PyArray_DATA(p),
                                        <double *>(adjoint + j * buffer.span))
                    return 0
            for j in range(self.k):
                times_partial(form, node.opcode, side, add, n, <double *>(g + j * gspan), a, b, yv,
                              <double *>(adjoint + j * buffer.span))
            return 0
        if not self.pull_rows(node, side, g, gspan):
            self.accumulate(buffer, view, slot, product(self.adjoint_view(node.out, y), self.partial(node, side)), True)
        return 0

    cdef bint pull_rows(self, Node node, int side, char *g, Py_ssize_t gspan) except -1:
        """Do the same row by row if the last axis is contiguous; return False if it is not."""
        cdef Buffer buffer = node.bbuf if side else node.abuf
        cdef cnp.ndarray view = node.b if side else node.a, y = node.y
        cdef int reads = opcode_reads[node.opcode][side] & ~node.descriptors, form = VECTORS
        cdef Py_ssize_t j, n = cnp.PyArray_SIZE(y)
        cdef double scalars[2]
        cdef Rows rows
        if (buffer is None or n == 0 or cnp.PyArray_NDIM(y) < 2 or not is_cheap(node.opcode, n)
                or not has_rows(y, y) or not has_rows(view, y) or overlaps_itself(view)):
            return False
        for j in range(5):                  # default for operands that the kernel ignores: any readable memory
            rows.at[j], rows.steps[j] = g, cnp.PyArray_STRIDES(y)
        if not self.find_rows(node, 0, reads, &rows, scalars) or not self.find_rows(node, 1, reads, &rows, scalars):
            return False
        if node.opcode < WG_ADD:
            rows.at[OF_B], rows.steps[OF_B] = rows.at[OF_A], rows.steps[OF_A]
        if reads & WG_Y:
            rows.at[OF_Y] = cnp.PyArray_BYTES(y)
        rows.at[ADJOINT] = self.shadow_of(buffer) + (cnp.PyArray_BYTES(view) - buffer.low)
        rows.steps[ADJOINT] = cnp.PyArray_STRIDES(view)
        if rows.steps[OF_A] == NULL or rows.steps[OF_B] == NULL:
            form = SCALAR_LEFT if rows.steps[OF_A] == NULL else SCALAR_RIGHT
        n = cnp.PyArray_DIM(y, cnp.PyArray_NDIM(y) - 1)
        memset(rows.index, 0, sizeof(rows.index))
        while True:
            for j in range(self.k):
                times_partial(form, node.opcode, side, True, n, <double *>(rows.at[COTANGENT] + j * gspan),
                              <double *>rows.at[OF_A], <double *>rows.at[OF_B], <double *>rows.at[OF_Y],
                              <double *>(rows.at[ADJOINT] + j * buffer.span))
            if not next_row(&rows, y):
                return True

    cdef bint find_rows(self, Node node, int side, int reads, Rows *rows, double *scalars):
        """Find the address or scalar of an operand that the partial reads; False if its rows are not contiguous."""
        cdef cnp.ndarray array = node.b if side else node.a
        cdef int32_t slot = node.bslot if side else node.aslot
        if not reads & (WG_B if side else WG_A):
            return True
        if array is None:
            scalars[side] = self.entries.v[slot] if slot >= 0 else node.bc if side else node.ac
            rows.at[OF_A + side], rows.steps[OF_A + side] = <char *>&scalars[side], NULL
            return True
        rows.at[OF_A + side], rows.steps[OF_A + side] = cnp.PyArray_BYTES(array), cnp.PyArray_STRIDES(array)
        return has_rows(array, node.y)

    cdef bint target(self, Buffer buffer, cnp.ndarray view, Block given, char **adjoint) except -1:
        """Set the address of the adjoint of a contiguous view; False if it is new: written, not added to.

        `given` is a dead cotangent whose memory a new adjoint of the same size may reuse.
        """
        cdef Py_ssize_t offset = <char *>cnp.PyArray_DATA(view) - buffer.low
        cdef bint fresh = (buffer.shadow is None and offset == 0
                           and buffer.span == <Py_ssize_t>cnp.PyArray_NBYTES(view))
        if fresh:
            buffer.shadow = given if given is not None else take(max(1, self.k * buffer.span))
            if buffer.id >= 0:
                self.entries.shadow[buffer.id] = buffer.shadow.data
        adjoint[0] = self.shadow_of(buffer) + offset
        return not fresh

    cdef int pull_sum(self, Node node, Py_ssize_t i) except -1:
        """Reverse a sum: add its cotangent to the adjoint of every element."""
        cdef char *adjoint
        cdef Py_ssize_t j, n = cnp.PyArray_SIZE(node.a)
        cdef bint add
        if self.is_unneeded(node.abuf):
            return 0
        if not is_vector(node.a):
            return self.accumulate(node.abuf, node.a, -1, np.reshape(
                self.cotangent_of(node, i), (self.k,) + (1,) * cnp.PyArray_NDIM(node.a) if self.stacked else ()))
        add = self.target(node.abuf, node.a, None, &adjoint)
        for j in range(self.k):
            wg_add_scalar(add, n, self.adjoint[i * self.width + j], <double *>(adjoint + j * node.abuf.span))
        return 0

    cdef (bint, int) kernel_operands(self, Node node, cnp.ndarray y, double *an, double *bn,
                                     const double **a, const double **b):
        """Operands of a binary kernel, each an array like y or a scalar; (False, 0) if the layouts do not allow it."""
        cdef bint av = node.a is not None, bv = node.b is not None
        if av and not (is_vector(node.a) and same_shape(node.a, y)):
            return False, 0
        if bv and not (is_vector(node.b) and same_shape(node.b, y)):
            return False, 0
        if av:
            a[0] = <double *>cnp.PyArray_DATA(node.a)
        else:
            an[0] = self.entries.v[node.aslot] if node.aslot >= 0 else node.ac
            a[0] = an
        if bv:
            b[0] = <double *>cnp.PyArray_DATA(node.b)
        else:
            bn[0] = self.entries.v[node.bslot] if node.bslot >= 0 else node.bc
            b[0] = bn
        return True, (VECTORS if av and bv else SCALAR_RIGHT if av else SCALAR_LEFT)

    cdef object operand(self, Node node, int side):
        cdef cnp.ndarray array = node.b if side else node.a
        cdef int32_t slot = node.bslot if side else node.aslot
        if node.descriptors & (WG_B if side else WG_A):
            return None
        if array is not None:
            return array
        if slot >= 0:
            return np.float64(self.entries.v[slot])
        return np.float64(node.bc if side else node.ac)

    cdef object partial(self, Node node, int side):
        """Partial of an elementwise entry by its NumPy rule: a scalar or an array."""
        partial = node.row.partials[side]
        self.ignore_float_errors()
        if not callable(partial):
            return partial
        y = None if node.descriptors & WG_Y else node.y
        if node.opcode < WG_ADD:
            return partial(y, self.operand(node, 0))
        return partial(y, self.operand(node, 0), self.operand(node, 1))

    cdef int pull_call(self, Node node, Py_ssize_t i) except -1:
        cdef object ybar, row = node.row, y = node.y
        cdef object shared = None, c
        cdef int position, shared_position = -1
        cdef Py_ssize_t d
        cdef Buffer buffer
        self.ignore_float_errors()
        ybar = self.cotangent_of(node, i)
        if node.kind == GATHER:
            return self.pull_gather(node, ybar)
        if node.kind == REARRANGE:
            return self.pull_rearrangement(node, ybar)
        if y is None:
            y = np.float64(self.entries.v[i])
        if self.has_complex and holds_complex((y, node.args)):
            return self.pull_complex(node, ybar, y)
        for source in node.sources:
            position = source[0]
            buffer = source[2]
            if self.is_unneeded(buffer):
                continue
            if row.kind == "elementwise":
                c = row.partials[position]
                c = product(ybar, c(y, *node.args) if callable(c) else c)
            else:
                if position != shared_position:         # one pullback gives the cotangents of all items of a sequence
                    shared_position = position
                    if not self.stacked or row.stacked:
                        shared = self.pullback_of(row, position, ybar, y, node)
                    else:
                        shared = [self.pullback_of(row, position, ybar[d], y, node) for d in range(self.k)]
                c = shared
                if source[1] >= 0:
                    c = ([item[source[1]] for item in shared] if self.stacked and not row.stacked
                         else shared[source[1]])
                if self.stacked and not row.stacked:
                    c = np.stack([np.broadcast_to(item, np.shape(source[3]) if buffer is not None else ())
                                  if np.ndim(item) < (source[3].ndim if buffer is not None else 0) else item
                                  for item in c])
            # c is owned if its only references are `c` and, when it is the same object, `shared`
            self.accumulate(buffer, source[3], source[4], c,
                            Py_REFCNT(c) <= (2 if c is shared else 1) and c is not ybar)
        return 0

    cdef int pull_complex(self, Node node, object ybar, object y) except -1:
        """Reverse a call with complex values."""
        adjoints = Adjoints(node.row, ybar if self.stacked else ybar[None], y, node.args, node.kwargs)
        for source in node.sources:
            if not self.is_unneeded(source[2]):
                shape = np.shape(source[3]) if source[2] is not None else ()
                c = adjoints.of(source[0], source[1], shape)
                self.accumulate(source[2], source[3], source[4], c if self.stacked else c[0])
        return 0

    cdef bint is_unneeded(self, Buffer buffer) except -1:
        return self.unneeded is not None and buffer is not None and buffer in self.unneeded

    cdef object pullback_of(self, object row, int position, object ybar, object y, Node node):
        if row.variadic is not None:
            return row.variadic(position, ybar, y, *node.args, **node.kwargs)
        return row.vjps[position](ybar, y, *node.args, **node.kwargs)

    cdef int pull_gather(self, Node node, object ybar) except -1:
        """adjoint[key] += cotangent, repeated indices included."""
        cdef Py_ssize_t j
        source = node.sources[0]
        if self.is_unneeded(source[2]):
            return 0
        target = self.adjoint_view(source[2], source[3])
        if not self.stacked:
            np_add_at(target, node.key, ybar)
            return 0
        for j in range(self.k):     # one direction at a time: a leading axis would move the axes of some keys
            np_add_at(target[j, ...], node.key, ybar[j])
        return 0

    cdef object source_indices(self, Node node):
        """Source index of each element of a rearrangement, computed by the first sweep of the tape."""
        if node.key is None:
            node.key = np.ravel(node.saved(node))
        return node.key

    cdef int pull_rearrangement(self, Node node, object ybar) except -1:
        """Scatter the cotangent to the source elements."""
        where = self.source_indices(node)
        count = sum([np.size(source[3]) if source[2] is not None else 1 for source in node.sources])
        flat = np.zeros((self.k, count + 1), dtype=np.asarray(ybar).dtype)
        stacked = np.reshape(ybar, (self.k, -1))
        for j in range(self.k):
            np_add_at(flat[j], where, stacked[j])
        start = 1
        for source in node.sources:
            shape = np.shape(source[3]) if source[2] is not None else ()
            size = int(np.prod(shape))
            part = flat[:, start:start + size].reshape((self.k, *shape))
            self.accumulate(source[2], source[3], source[4], part if self.stacked else part[0])
            start += size
        return 0

    cdef int pull_store(self, Node node) except -1:
        """Reverse a store: move the adjoint of the target to the stored value and restore what was overwritten."""
        self.move_adjoint(node)
        if node.is_first:
            self.drop_shadow(node.out)
        return swap(node)

    cdef int move_adjoint(self, Node node) except -1:
        cdef Py_ssize_t j
        if node.out.shadow is None:
            return 0
        target = self.adjoint_view(node.out, node.y)
        if node.key is None:
            cotangent = target.copy() if node.sources else None
            target[...] = 0
        else:
            cotangent = (np.stack([move_out(target[j, ...], node) for j in range(self.k)]) if self.stacked
                         else move_out(target, node))
        if node.sources:
            source = node.sources[0]
            self.accumulate(source[2], source[3], source[4], cotangent)
        return 0

    # ------------------------------------------------------------------------------------------ tails

    # A tail continues a tape, its head; it is swept and dropped separately, as one step of a checkpointed loop is.
    # While it is open it owns the head's arrays, and the levels of all tapes before it point to it.
    # Its values have their own level, so that using one after the tail is cut raises.

    def open_tail(self, str name, bint forgets):
        """Return a tape that continues this one until it is cut; `forgets`: it will not be swept."""
        cdef Tape tail = Tape.__new__(Tape, name, False, self)
        tail.forgets = forgets
        tail.level.remedy = STEP_REMEDY
        tail.level.order = self.level.order
        return tail

    cdef int begin_tail(self) except -1:
        cdef Tape head = self.head, tape = head
        self.nodes, self.buffers, self.roots = head.nodes, head.buffers, head.roots
        head.hand_over(self)
        self.mark = self.gap = self.n
        self.constants_mark = self.nconstants
        self.nodes_mark, self.buffers_mark, self.roots_mark = len(self.nodes), len(self.buffers), len(self.roots)
        head.tail = self
        while tape is not None:
            tape.level.tape = <PyObject *>self
            tape = tape.head
        return 0

    cdef int hand_over(self, Tape other) except -1:
        """Move the arrays, and the adjoints of a running sweep, to another tape."""
        other.entries, other.n, other.capacity = self.entries, self.n, self.capacity
        other.nconstants, other.constants_capacity = self.nconstants, self.constants_capacity
        other.buffers_capacity = self.buffers_capacity
        other.adjoint, other.ranges, other.adjoint_block, other.adjoint_capacity = (
            self.adjoint, self.ranges, self.adjoint_block, self.adjoint_capacity)
        other.k, other.width, other.stacked = self.k, self.width, self.stacked
        other.unneeded, other.float_errors_token = self.unneeded, self.float_errors_token
        memset(&self.entries, 0, sizeof(wg_list))
        self.n = self.capacity = self.nconstants = self.constants_capacity = self.buffers_capacity = 0
        self.adjoint_capacity = 0
        self.adjoint_block = self.unneeded = self.float_errors_token = None
        self.adjoint = NULL
        return 0

    @property
    def recorder(self):
        """The tape itself, which is what the stack of running derivatives holds."""
        return self

    def next_step(self):
        """Forget loaded elements, so that what the next step records does not depend on earlier steps."""
        self.version += 1

    def cut(self):
        """Drop the tail unless it was cut already; its values then belong to an ended derivative."""
        cdef Tape head = self.head, tape = head
        cdef Buffer buffer
        if head is None:
            return
        self.n = self.mark
        self.nconstants = self.constants_mark
        for buffer in self.buffers[self.buffers_mark:]:
            buffer.id = -1
        del self.buffers[self.buffers_mark:], self.nodes[self.nodes_mark:], self.roots[self.roots_mark:]
        self.hand_over(head)
        head.tail = self.head = None
        while tape is not None:
            tape.level.tape = <PyObject *>head
            tape = tape.head
        self.close()

    def can_move(self):
        """Can the entries of the tail be appended to another tape?

        They must use no slots and no numbered buffers of their own.
        An array that was clean until a step stored into it must not be referenced elsewhere, since it could then be
        changed before the sweep.
        """
        cdef Py_ssize_t i
        cdef Node node
        cdef Buffer buffer
        if len(self.buffers) > self.buffers_mark:
            return False
        references = Counter([id(buffer) for buffer in self.roots[self.roots_mark:]])
        for node in self.nodes[self.nodes_mark:]:
            if node is not None:
                for buffer in (node.out, node.abuf, node.bbuf, *[source[2] for source in node.sources or ()]):
                    references[id(buffer)] += 1
        for i in range(self.mark, self.n):
            if self.entries.op[i] != WG_NODE:
                return False
            node = <Node>self.nodes[self.entries.a[i]]
            if node is not None and (node.kind == LOOP or (node.kind != STORE and node.out is None)):
                return False
            if node is not None and node.is_first:
                buffer = node.out
                if Py_REFCNT(buffer) > references[id(buffer)] + 1:      # + 1: the local variable
                    return False
        return True

    def detach(self):
        """Cut the tail and return its entries as arguments for `attach`."""
        cdef Node node
        nodes, roots = self.nodes[self.nodes_mark:], self.roots[self.roots_mark:]
        for node in nodes:
            if node is not None and node.kind != STORE:
                node.out.born = 0
        self.cut()
        return nodes, roots

    def attach(self, Tape head, Py_ssize_t gap, list nodes, list roots):
        """Append the entries of a detached tail to a tape whose sweep is running."""
        self.head = head
        self.level.tape = <PyObject *>self
        self.begin_tail()
        self.gap = gap
        self.roots += roots
        for node in nodes:
            push(self, WG_NODE, <int32_t>len(self.nodes), 0, 0.0)
            self.nodes.append(node)

    def held(self):
        """Bytes of the tail and of its slots' adjoints, without adjoints of arrays, which live only during a sweep."""
        cdef Py_ssize_t total = (self.n - self.mark) * (sizeof(uint8_t) + 2 * sizeof(int32_t) + 2 * sizeof(double))
        cdef Py_ssize_t i
        cdef Node node
        seen = set()
        for i in range(self.nodes_mark, len(self.nodes)):
            node = <Node>self.nodes[i]
            if node is not None:
                total += NODE_BYTES + sum([
                    bytes_once(seen, x) for x in (node.y if not node.descriptors & WG_Y else None,
                                                  node.a if not node.descriptors & WG_A else None,
                                                  node.b if not node.descriptors & WG_B else None,
                                                  node.saved, node.key, *(node.args or ()))])
        return total + sum([(<Buffer>buffer).span for buffer in self.buffers[self.buffers_mark:]])

    cdef int begin_adjoints(self) except -1:
        """Allocate zero adjoints for the slots of a tail and for the buffers numbered in it."""
        cdef Py_ssize_t i, capacity = self.adjoint_capacity, row = self.width * sizeof(double)
        cdef Block block
        cdef Buffer buffer
        if self.n > capacity:
            capacity = self.n + (self.n - self.mark) // 2
            block = take(capacity * (row + sizeof(wg_range)))
            memcpy(block.data, self.adjoint, self.mark * row)
            if self.k != 1:
                memcpy(block.data + capacity * row, self.ranges, self.mark * sizeof(wg_range))
            self.adjoint_block = block
            self.adjoint = <double *>block.data
            self.ranges = <wg_range *>(block.data + capacity * row)
            self.adjoint_capacity = capacity
        if self.k == 1:
            memset(self.adjoint + self.mark, 0, (self.n - self.mark) * row)
        else:
            memset(self.ranges + self.mark, 0, (self.n - self.mark) * sizeof(wg_range))
        for i in range(self.buffers_mark, len(self.buffers)):
            buffer = <Buffer>self.buffers[i]
            self.entries.shadow[i] = self.shadow_of(buffer)
        return 0

    cdef int check_tail(self) except -1:
        """Raise if an entry refers to a value recorded after the loop, whose adjoint has been swept already."""
        cdef Py_ssize_t i
        cdef int op, form
        cdef int32_t a, b
        cdef bint gone
        for i in range(self.mark, self.n):
            op, a, b = self.entries.op[i], self.entries.a[i], self.entries.b[i]
            if op == WG_INPUT or op == WG_TARGET:
                continue
            elif op == WG_LOAD:
                gone = a < self.buffers_mark and self.is_gone((<Buffer>self.buffers[a]).born - 1)
            elif op == WG_STORE:
                gone = self.is_gone(a)
            elif op == WG_NODE:
                gone = self.refers_to_gone(<Node>self.nodes[a])
            else:
                form = 1 if op < WG_ADD else (op - WG_ADD) % 3      # 0: two operands, 1: only a, 2: only b
                gone = (form != 2 and self.is_gone(a)) or (form != 1 and self.is_gone(b))
            if gone:
                raise ReplayMismatchError(gone_message(self.level.name))
        return 0

    cdef bint is_gone(self, Py_ssize_t slot) noexcept:
        cdef Tape tape = self
        while tape is not None:
            if tape.gap <= slot < tape.mark:
                return True
            tape = tape.head
        return False

    cdef bint refers_to_gone(self, Node node):
        cdef Buffer buffer
        if node is None:
            return False
        if self.is_gone(node.aslot) or self.is_gone(node.bslot):
            return True
        for buffer in (node.abuf, node.bbuf):
            if buffer is not None and self.is_gone(buffer.born - 1):
                return True
        for _, _, found, _, slot in node.sources or ():
            if self.is_gone(slot) if found is None else self.is_gone((<Buffer>found).born - 1):
                return True
        return False

    cdef int pull_loop(self, Node node, Py_ssize_t i) except -1:
        """Reverse a loop: record its steps again and pull back the cotangents of its results."""
        cdef list seeds = [self.cotangent_at(buffer, view, slot) for buffer, view, slot in node.args]
        if all([seed is None for seed in seeds]):
            return 0
        values = [np.float64(self.entries.v[slot]) if buffer is None else view for buffer, view, slot in node.args]
        for source, c in zip(node.sources, node.compute(self, i, seeds, values)):
            if c is not None:
                self.accumulate(source[2], source[3], source[4], c)
        return 0

    cdef object cotangent_at(self, Buffer buffer, cnp.ndarray view, int32_t slot):
        """Copy of the cotangent of a loop's result, or None if it is 0; the adjoint of an array is dropped."""
        cdef double *row
        cdef cnp.ndarray c
        if buffer is not None:
            if buffer.shadow is None:
                return None
            c = self.adjoint_view(buffer, view).copy()
            self.drop_shadow(buffer)
        else:
            row = wg_whole(self.adjoint, self.ranges, slot, self.width)
            c = <cnp.ndarray>np.empty(self.k)
            memcpy(cnp.PyArray_DATA(c), row, self.k * sizeof(double))
            if not self.stacked:
                c = <cnp.ndarray>c.reshape(())
        return c if np.any(c) else None


cdef enum:
    NODE_BYTES = 800            # estimate for the Python objects of one array entry


cdef Py_ssize_t bytes_once(set seen, object x) except -1:
    """Bytes of the allocation that holds an array, or 0 if `seen` has it."""
    if not isinstance(x, np.ndarray):
        return 0
    while isinstance(x.base, np.ndarray):
        x = x.base
    if id(x) in seen:
        return 0
    seen.add(id(x))
    return x.nbytes


cdef bint in_ranges(Py_ssize_t i, list ranges) except -1:
    for start, stop in ranges:
        if start <= i < stop:
            return True
    return False


cdef int times_partial(int form, int op, int side, bint add, Py_ssize_t n, const double *g, const double *a,
                       const double *b, const double *y, double *out) noexcept nogil:
    if form == VECTORS:
        wg_pull_vv(op, side, add, n, g, a, b, y, out)
    elif form == SCALAR_RIGHT:
        wg_pull_vs(op, side, add, n, g, a, b, y, out)
    else:
        wg_pull_sv(op, side, add, n, g, a, b, y, out)
    return 0


cdef int times_array(bint add, Py_ssize_t n, const double *g, const double *p, double *out) noexcept:
    wg_multiply_add(add, n, g, p, out)
    return 0


cdef bint is_cheap(int op, Py_ssize_t n) noexcept:
    return n <= 256 or opcode_cheap[op]


def holds_complex(x):
    """Is `x` a complex scalar, array or operand, or a list or tuple that contains one?"""
    if isinstance(x, (list, tuple)):
        return any(map(holds_complex, x))
    dtype = getattr(x, "dtype", None)
    return isinstance(x, complex) if dtype is None else getattr(dtype, "kind", "") == "c"


def strong_product(a, b):
    """``registry.strong`` of contiguous arrays of equal shape, or of such and scalars; None for other operands."""
    cdef double x = 0.0, y = 0.0
    if type(a) is np.ndarray and type(b) is np.ndarray and is_vector(a) and is_vector(b) and same_shape(a, b):
        return strong_of_arrays(a, b) if cnp.PyArray_NDIM(a) else None
    if type(a) is np.ndarray and cnp.PyArray_NDIM(a) and is_vector(a) and is_one_double(b, cnp.PyArray_NDIM(a), &y):
        return strong_by_scalar(a, y)
    if type(b) is np.ndarray and cnp.PyArray_NDIM(b) and is_vector(b) and is_one_double(a, cnp.PyArray_NDIM(b), &x):
        return strong_by_scalar(b, x)
    if is_one_double(a, -1, &x) and is_one_double(b, -1, &y):
        wg_strong_scalar(1, &x, y, &x)
        return np.float64(x)
    return None


cdef cnp.ndarray strong_of_arrays(cnp.ndarray a, cnp.ndarray b):
    cdef cnp.ndarray found = empty_array(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a))
    wg_strong(cnp.PyArray_SIZE(a), <double *>cnp.PyArray_DATA(a), <double *>cnp.PyArray_DATA(b),
              <double *>cnp.PyArray_DATA(found))
    return found


cdef cnp.ndarray strong_by_scalar(cnp.ndarray a, double x):
    cdef cnp.ndarray found = empty_array(cnp.PyArray_NDIM(a), cnp.PyArray_DIMS(a))
    wg_strong_scalar(cnp.PyArray_SIZE(a), <double *>cnp.PyArray_DATA(a), x, <double *>cnp.PyArray_DATA(found))
    return found


cdef bint is_one_double(object x, int max_ndim, double *value):
    """Is `x` a scalar, or an array of one element with at most `max_ndim` axes?"""
    if type(x) is float or type(x) is np.float64:
        value[0] = x
        return True
    if type(x) is not np.ndarray or not is_double(x) or cnp.PyArray_SIZE(x) != 1 or cnp.PyArray_NDIM(x) > max_ndim:
        return False
    value[0] = (<double *>cnp.PyArray_DATA(<cnp.ndarray>x))[0]
    return True


cdef object product(object cotangent, object partial):
    """Cotangent times partial, where 0 times inf is 0; the cotangent itself where the partial is the float 1.0."""
    if type(partial) is float and partial == 1.0:
        return cotangent
    return strong(cotangent, partial)


cdef object move_out(object target, Node node):
    """Return the adjoint at an advanced index and set it to 0; at a repeated index the last store gets it."""
    cotangent = target[node.key]
    target[node.key] = 0
    return cotangent if node.args is None else np.where(node.args[0], cotangent, 0)


cdef int swap(Node node) except -1:
    """Exchange the values that a store wrote with those it overwrote."""
    place = node.y
    key = Ellipsis if node.key is None else node.key
    other = place[key].copy()
    place[key] = node.saved
    node.saved = other
    return 0


cdef inline bint has_rows(cnp.ndarray x, cnp.ndarray y):
    """Is `x` of doubles, with the shape of `y`, and contiguous along the last axis?"""
    return (is_double(x) and same_shape(x, y)
            and cnp.PyArray_STRIDE(x, cnp.PyArray_NDIM(x) - 1) == sizeof(double))


cdef bint next_row(Rows *rows, cnp.ndarray y) noexcept:
    """Advance to the next row of arrays with the shape of y; False after the last one."""
    cdef int d, m
    for d in range(cnp.PyArray_NDIM(y) - 2, -1, -1):
        rows.index[d] += 1
        for m in range(5):
            if rows.steps[m] != NULL:
                rows.at[m] += rows.steps[m][d]
        if rows.index[d] < cnp.PyArray_DIM(y, d):
            return True
        for m in range(5):
            if rows.steps[m] != NULL:
                rows.at[m] -= rows.steps[m][d] * rows.index[d]
        rows.index[d] = 0
    return False


cdef bint overlaps_itself(cnp.ndarray x):
    cdef int d
    for d in range(cnp.PyArray_NDIM(x)):
        if cnp.PyArray_STRIDE(x, d) == 0 and cnp.PyArray_DIM(x, d) > 1:
            return True
    return False


cdef int add_in_order(cnp.ndarray target, cnp.ndarray total) except -1:
    """target += total where some axes of the target have stride 0."""
    cdef int d
    cdef list index = []
    cdef int ndim = cnp.PyArray_NDIM(target)
    repeated = tuple([d for d in range(ndim)
                      if cnp.PyArray_STRIDE(target, d) == 0 and cnp.PyArray_DIM(target, d) > 1])
    total = <cnp.ndarray>np.broadcast_to(total, (<object>target).shape).sum(axis=repeated, keepdims=True)
    for d in range(ndim):
        index.append(slice(0, 1) if d in repeated else slice(None))
    place = target[tuple(index)]
    np_add(place, total, out=place, casting="same_kind")
    return 0


cdef enum:
    MIN_SHARED_BYTES = 512      # bytes: in a recording, copies of smaller constants are not shared


cdef cnp.ndarray kept_constant(Tape tape, cnp.ndarray x):
    """Copy a constant operand, since f may change it before the sweep.

    A larger one is compared with its last copy, which is reused while it is unchanged: a matrix used in every step of a
    loop is copied once. Recordings do this from `MIN_SHARED_BYTES` on, so that calls with equal constants become equal.
    """
    cdef cnp.ndarray copy
    cdef Py_ssize_t size = cnp.PyArray_NBYTES(x)
    cdef bint has_gaps = not (cnp.PyArray_IS_C_CONTIGUOUS(x) or cnp.PyArray_IS_F_CONTIGUOUS(x))
    if has_gaps or size < (MIN_SHARED_BYTES if tape.recording else MIN_POOLED_BYTES):
        return kept(x)
    key = (<size_t>cnp.PyArray_DATA(x), (<object>x).shape, (<object>x).strides, (<object>x).dtype.str)
    found = tape.constant_copies.get(key)
    if found is not None:
        copy = <cnp.ndarray>found[1]
        if memcmp(cnp.PyArray_DATA(copy), cnp.PyArray_DATA(x), size) == 0:
            return copy
    copy = kept(x)
    tape.constant_copies[key] = (x, copy)      # holds x, so that its address is not reused
    return copy


cdef str ended_message(Level level):
    running = [recorder.level.name for recorder in levels.running.get() if type(recorder) is not levels.Watch]
    where = " inside of ".join(reversed(running)) if running else "another computation"
    remedy = level.remedy or "keep wengert.stop_gradient(value) instead of the traced value"
    return f"a value of {level.name}, which has ended, was used in {where}: {remedy}"


cdef str STEP_REMEDY = "a value used after a step must be part of the state that the step returns"


cdef str gone_message(str name):
    return (f"{name} reads a value that was computed after the loop: a variable that it uses was assigned again; "
            "give the new value another name")


cdef str outside_message(Level level):
    return (f"{level.name} writes to a traced array created outside the step: an array that a step changes must be "
            "part of the state that it takes and returns")


cdef void *resized(void *memory, size_t count, size_t size) except NULL:
    cdef void *more = PyMem_RawRealloc(memory, count * size)
    if more == NULL:
        raise MemoryError(f"no memory for a tape of {count} entries")
    return more


# ---------------------------------------------------------------------------------------------- kernels, as data

cdef bint opcode_cheap[256]
cdef int opcode_reads[256][2]           # WG_A | WG_B | WG_Y, by the partial in a and in b
memset(opcode_cheap, 0, sizeof(opcode_cheap))
memset(opcode_reads, 0, sizeof(opcode_reads))


def kernel_rows():
    """Name, opcode, arity, and what each partial reads, of every row of ``kernels.h``."""
    cdef const wg_row *row = wg_rows
    cdef list found = []
    while row.name != NULL:
        opcode_cheap[row.opcode] = row.cheap
        opcode_reads[row.opcode][0], opcode_reads[row.opcode][1] = row.reads_a, row.reads_b
        found.append((row.name.decode(), row.opcode, row.operands, row.reads_a, row.reads_b))
        row += 1
    return found


def kernel_formulas():
    """C expressions of the value and first partials of each row of ``kernels.h``, by opcode."""
    cdef const wg_row *row = wg_rows
    cdef dict found = {}
    while row.name != NULL:
        found[row.opcode] = tuple([text.decode() for text in (row.value, row.pa, row.pb)[:1 + row.operands]])
        row += 1
    return found


def kernel_is_cheap(int opcode):
    """Are the partials of a row of ``kernels.h`` cheap in a scalar loop, or vectorised by this platform's libm?"""
    return opcode_cheap[opcode]


def kernel_partials(int opcode, double a, double b, double y):
    """Partials of one row of ``kernels.h`` at one point."""
    cdef double pa = 0.0, pb = 0.0
    wg_partials(opcode, a, b, y, &pa, &pb)
    return pa, pb


kernel_rows()


# ---------------------------------------------------------------------------------------------- a tape, as data

def entries(Tape tape):
    """Return the entries of a tape as dicts of their type, operands, result and the type's own fields.

    An operand or result is the index of a slot, ``(buffer, offset, shape, strides, dtype)`` with the buffer's index in
    this listing, or ``("number", c)``; `memory` of the first entry holds the current bytes of the buffers.
    """
    cdef Py_ssize_t i
    cdef int op
    cdef int32_t a, b
    cdef Node node
    cdef list found = []
    seen = {}
    for i in range(tape.n):
        op, a, b = tape.entries.op[i], tape.entries.a[i], tape.entries.b[i]
        entry = {"kind": "SCALAR", "opcode": op, "result": i, "value": tape.entries.v[i]}
        if op == WG_INPUT:
            entry["kind"] = "INPUT"
        elif op == WG_LOAD:
            entry.update(kind="LOAD", operands=[element_of(tape, seen, a, b)])
        elif op == WG_STORE:
            entry.update(kind="STORE", result=element_of(tape, seen, tape.entries.a[i + 1], b), key=None,
                         operands=[a] if a >= 0 else [], saved=tape.entries.v[i])
        elif op == WG_TARGET:
            entry["kind"] = "TARGET"
        elif op == WG_NODE:
            node = <Node>tape.nodes[a]
            entry.update(node_fields(seen, node, i))
        else:
            form = 1 if op < WG_ADD else (op - WG_ADD) % 3
            entry["operands"] = ([a if form != 2 else ("number", tape.entries.constants[a])]
                                 + ([] if op < WG_ADD else [b if form != 1 else ("number", tape.entries.constants[b])]))
        found.append(entry)
    if found:
        found[0]["memory"] = [bytes_of(buffer) for buffer in seen]
    return found


cdef dict node_fields(dict seen, Node node, Py_ssize_t i):
    entry = {"kind": NodeKind(node.kind).name, "row": node.row, "opcode": node.opcode, "args": node.args,
             "kwargs": node.kwargs, "compute": node.compute, "key": node.key, "saved": node.saved}
    if node.out is not None:
        entry["result"] = location_of(seen, node.out, node.y)
    if node.kind == ELEMENTWISE or node.kind == SUM:
        sides = [(node.abuf, node.a, node.aslot, node.ac)]
        if node.kind == ELEMENTWISE and node.opcode >= WG_ADD:
            sides.append((node.bbuf, node.b, node.bslot, node.bc))
        entry["operands"] = [location_of(seen, buffer, view) if buffer is not None else slot if slot >= 0
                             else ("number", c if view is None else view) for buffer, view, slot, c in sides]
    else:
        entry["operands"] = [(position, item, location_of(seen, buffer, view) if buffer is not None else slot)
                             for position, item, buffer, view, slot in node.sources]
    return entry


cdef tuple location_of(dict seen, Buffer buffer, cnp.ndarray view):
    return (seen.setdefault(buffer, len(seen)), <char *>cnp.PyArray_DATA(view) - buffer.low, (<object>view).shape,
            (<object>view).strides, (<object>view).dtype)


cdef bytes bytes_of(Buffer buffer):
    """Memory of a buffer, or zeros if it was freed: entries keep all memory that was stored into."""
    return buffer.low[:buffer.span] if buffer.written or buffer.owner is not None else bytes(buffer.span)


cdef tuple element_of(Tape tape, dict seen, int32_t buffer, int32_t offset):
    return seen.setdefault(tape.buffers[buffer], len(seen)), 8 * offset, (), (), np.dtype(np.float64)
