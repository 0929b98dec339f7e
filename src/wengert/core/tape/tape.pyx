# Bounds checks are off, since users supply no indices here; C division is on, since they supply no divisors:
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
    MIN_POOLED_BYTES, Block, Buffer, Level, empty_pool, is_double, is_vector, kept, owns_memory, same_shape, take,
    view_at,
)

from wengert.core import messages
from wengert.core.tape.local_derivatives import Adjoints
from wengert.errors import LevelError, ReplayMismatchError
from wengert.features import float_errors, float_errors_with
from wengert.registry import strong

cnp.import_array()

cdef extern from "sweep.h" nogil:
    Py_ssize_t wg_sweep(const wg_list *t, Py_ssize_t i, Py_ssize_t stop, double *adjoint, wg_range *ranges,
                        Py_ssize_t k, Py_ssize_t width)
    Py_ssize_t wg_roll_forward(const wg_list *t, Py_ssize_t i, Py_ssize_t n)

cdef object np_add = np.add
cdef type ndarray = np.ndarray, float64 = np.float64


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

#: ``repeated_pullback(row, position, ybar, y, args, kwargs)`` of `wengert.core.dispatch.repeated`, set by `hooks`
cdef object repeated_pullback = None


def set_repeated_pullback(pullback):
    """Set the function that computes pullbacks of rows with `replayed`, or returns `NotImplemented`."""
    global repeated_pullback
    repeated_pullback = pullback


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
            begin_tail(self)
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
        """Whether only reverse sweeps are possible: the tape has loops, which are recorded again, or complex values."""
        return self.has_loops or self.has_complex

    @property
    def size(self):
        """Number of entries; a tail does not count those of its head."""
        return self.n - self.mark

    @property
    def nbytes(self):
        """Bytes used by the scalar entries, values included."""
        return self.n * (sizeof(uint8_t) + 2 * sizeof(int32_t) + sizeof(double)) + self.nconstants * sizeof(double)

    cdef int grow(self) except -1:
        cdef Py_ssize_t capacity = 2 * self.capacity
        if self.level.tape == NULL:         # checked only here: a closed tape has no capacity, so any push ends up here
            raise LevelError(messages.ended_message(self.level))
        if self.tail is not None:           # only a store gets here: the tail records all other operations
            raise LevelError(messages.outside_message((<Tape>self.level.tape).level))
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
        """Slow path of `constant`: the array is full, or a tail records instead of this tape."""
        cdef Tape recorder = current(self)
        if recorder.nconstants == recorder.constants_capacity:
            recorder.grow_constants()
        return constant(recorder, c)

    cdef int32_t number(self, Buffer buffer, cnp.ndarray owner) except -1:
        """Return the id that scalar entries use for a buffer, assigning one if needed; `owner` is any view of it."""
        cdef Py_ssize_t i = len(self.buffers), capacity
        if buffer.id >= 0:
            return buffer.id
        if self.tail is not None:
            raise LevelError(messages.outside_message((<Tape>self.level.tape).level))
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
        """Let the reader translate the entries of a full recording tape, then drop them; never during an operation."""
        cdef Py_ssize_t i
        if self.paused:
            return 0
        analyse(self)
        self.reader()
        for i in range(self.read_nodes, len(self.nodes)):
            self.nodes[i] = None
        self.read_nodes, self.read_elements = len(self.nodes), self.elements
        self.is_full = False
        return 0

    def needs(self, Py_ssize_t elements):
        """Add to `elements` the number of doubles that sweeping the last entry will allocate."""
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
                        pull_node(self, node, i)
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
        cdef char *place
        cdef int d, lead = 1 if self.stacked else 0, ndim
        if buffer is None:
            if not self.stacked and type(cotangent) is float64:
                wg_whole(self.adjoint, self.ranges, slot, self.width)[0] += <double>cotangent
                return 0
        elif type(cotangent) is ndarray:
            if owned and self.adopt(buffer, view, <cnp.ndarray>cotangent):
                return 0
            if self.add_vector(buffer, view, <cnp.ndarray>cotangent):
                return 0
        elif not self.stacked and type(cotangent) is float64 and is_vector(view):
            place = self.shadow_of(buffer) + (<char *>cnp.PyArray_DATA(view) - buffer.low)
            wg_add_scalar(True, cnp.PyArray_SIZE(view), <double>cotangent, <double *>place)
            return 0
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

    cdef bint add_vector(self, Buffer buffer, cnp.ndarray view, cnp.ndarray total) except -1:
        """Add contiguous doubles to the adjoint of a contiguous view of the same shape; False for other layouts."""
        cdef Py_ssize_t i, j, n = cnp.PyArray_SIZE(view)
        cdef double *adjoint
        cdef const double *source
        cdef char *place
        if (not is_vector(view) or not is_vector(total) or cnp.PyArray_SIZE(total) != self.k * n
                or not has_trailing_shape(total, view, self.stacked)):
            return False
        place = self.shadow_of(buffer) + (<char *>cnp.PyArray_DATA(view) - buffer.low)
        source = <double *>cnp.PyArray_DATA(total)
        for j in range(self.k):
            adjoint = <double *>(place + j * buffer.span)
            for i in range(n):
                adjoint[i] += source[j * n + i]
        return True

    cdef bint adopt(self, Buffer buffer, cnp.ndarray view, cnp.ndarray total) except -1:
        """Use an owned array as the adjoint of a buffer without one if the layouts match."""
        cdef int lead = 1 if self.stacked else 0
        if (buffer.shadow is not None or buffer.id >= 0 or not is_vector(total) or not is_vector(view)
                or <char *>cnp.PyArray_DATA(view) != buffer.low
                or <Py_ssize_t>cnp.PyArray_NBYTES(view) != buffer.span
                or not cnp.PyArray_ISWRITEABLE(total) or not owns_memory(total)
                or not has_trailing_shape(total, view, lead)
                or (lead and cnp.PyArray_DIM(total, 0) != self.k)):
            return False
        buffer.shadow = Block.__new__(Block)
        buffer.shadow.data = <char *>cnp.PyArray_DATA(total)
        buffer.shadow.owner = total
        return True

    cdef object cotangent_of(self, Node node, Py_ssize_t i):
        """Cotangent of a node's result, as an array or a NumPy scalar."""
        cdef cnp.npy_intp k = self.k
        if node.out is not None:
            return self.adjoint_view(node.out, node.y)
        if not self.stacked:
            return np.float64(self.adjoint[i])
        return cnp.PyArray_SimpleNewFromData(1, &k, cnp.NPY_DOUBLE, self.adjoint + i * self.width)

    cdef bint target(self, Buffer buffer, cnp.ndarray view, Block given, char **adjoint) except -1:
        """Set `adjoint` to the adjoint of a contiguous view; return False if it is new: written, not added to.

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

    cdef bint is_unneeded(self, Buffer buffer) except -1:
        return self.unneeded is not None and buffer is not None and buffer in self.unneeded

    # ------------------------------------------------------------------------------------------ as a tail

    @property
    def recorder(self):
        """The tape itself, which is what the stack of running derivatives holds."""
        return self

    def next_step(self):
        """Forget loaded elements, so that what the next step records does not depend on earlier steps."""
        self.version += 1

    def cut(self):
        """Drop the tail unless it was cut already; its values then belong to an ended derivative."""
        cut_tail(self)

    def held(self):
        """Bytes of the tail and of its slots' adjoints, without adjoints of arrays, which live only during a sweep."""
        return held_bytes(self)


def holds_complex(x):
    """Return whether `x` is a complex scalar, array or operand, or a list or tuple that contains one."""
    if isinstance(x, (list, tuple)):
        return any(map(holds_complex, x))
    dtype = getattr(x, "dtype", None)
    return isinstance(x, complex) if dtype is None else getattr(dtype, "kind", "") == "c"


cdef bint has_trailing_shape(cnp.ndarray total, cnp.ndarray view, int lead):
    """Return whether a cotangent has the shape of a view, behind `lead` axes."""
    cdef int ndim = cnp.PyArray_NDIM(view)
    return (cnp.PyArray_NDIM(total) == ndim + lead
            and cnp.PyArray_CompareLists(cnp.PyArray_DIMS(total) + lead, cnp.PyArray_DIMS(view), ndim))


cdef bint overlaps_itself(cnp.ndarray x):
    cdef int d
    for d in range(cnp.PyArray_NDIM(x)):
        if cnp.PyArray_STRIDE(x, d) == 0 and cnp.PyArray_DIM(x, d) > 1:
            return True
    return False


cdef int add_in_order(cnp.ndarray target, cnp.ndarray total) except -1:
    """target += total where some axes of the target have stride 0."""
    cdef int d, ndim = cnp.PyArray_NDIM(target)
    repeated = tuple([d for d in range(ndim)
                      if cnp.PyArray_STRIDE(target, d) == 0 and cnp.PyArray_DIM(target, d) > 1])
    total = <cnp.ndarray>np.broadcast_to(total, (<object>target).shape).sum(axis=repeated, keepdims=True)
    place = target[tuple([slice(0, 1) if d in repeated else slice(None) for d in range(ndim)])]
    np_add(place, total, out=place, casting="same_kind")
    return 0


cdef enum:
    MIN_SHARED_BYTES = 512      # a recording does not share copies of smaller constants


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


cdef void *resized(void *memory, size_t count, size_t size) except NULL:
    cdef void *more = PyMem_RawRealloc(memory, count * size)
    if more == NULL:
        raise MemoryError(f"no memory for a tape of {count} entries")
    return more


include "adjoint_rules.pxi"
include "activity.pxi"
include "tails.pxi"
include "kernel_table.pxi"
include "entries.pxi"
