# Interface of tape.pyx, to be read first: the Wengert list and its sweeps.

cimport numpy as cnp
from libc.stdint cimport int32_t, uint8_t
from libc.string cimport memcmp

from wengert.core.tape.memory cimport Block, Buffer, Level


cdef extern from "list.h" nogil:
    ctypedef struct wg_list:
        uint8_t *op
        int32_t *a
        int32_t *b
        double *v
        double *constants
        char **memory
        char **shadow
        Py_ssize_t *span

    enum:
        WG_A, WG_B, WG_Y
        VECTORS "WG_VECTORS", SCALAR_RIGHT "WG_SCALAR_RIGHT", SCALAR_LEFT "WG_SCALAR_LEFT"
        WG_INPUT, WG_LOAD, WG_STORE, WG_TARGET, WG_NODE, WG_OPCODES
        WG_NEGATIVE, WG_POSITIVE, WG_SINGLE, WG_ABSOLUTE, WG_SQUARE, WG_RECIPROCAL, WG_SQRT
        WG_ADD, WG_ADD_VC, WG_SUBTRACT, WG_SUBTRACT_VC, WG_SUBTRACT_CV
        WG_MULTIPLY, WG_MULTIPLY_VC, WG_DIVIDE, WG_DIVIDE_VC, WG_DIVIDE_CV
        WG_POW, WG_POW_VC, WG_POW_CV

cdef extern from "rows.h" nogil:
    ctypedef struct wg_range:
        int32_t low, high

    enum:
        WG_GROUP

    void wg_widen(double *row, wg_range *r, wg_range other)
    wg_range wg_in_groups(wg_range r)
    double *wg_whole(double *rows, wg_range *ranges, Py_ssize_t i, Py_ssize_t k)


cdef int recordings                     # number of open recording tapes


cdef class Node:                        # an array entry: one primitive, its operands and its result
    cdef int opcode                     # row of kernels.h, or 0
    cdef int kind                       # a NodeKind
    cdef object row                     # the registry's Primitive
    cdef Buffer out                     # None: the result is the scalar slot of the entry
    cdef cnp.ndarray y                  # value of the result; of a STORE: the view written to
    cdef Buffer abuf, bbuf              # operands of ELEMENTWISE and SUM: a buffer and a view of it,
    cdef cnp.ndarray a, b
    cdef int32_t aslot, bslot           # a scalar slot,
    cdef double ac, bc                  # or a constant
    cdef int descriptors                # which of a, b, y are view descriptors: WG_A | WG_B | WG_Y
    cdef tuple args                     # other calls: arguments as plain values,
    cdef dict kwargs
    cdef list sources                   # and the traced ones: (position, item, buffer, view, slot)
    cdef object key                     # index of a gather or store; the map of a rearrangement; caller of a guard
    cdef bint is_first                  # of a store: the array was clean before, no entry refers to it
    cdef object saved                   # values overwritten by a store; the plain value that a guard returned
    # set on recording tapes, and for loops on any tape:
    cdef object compute                 # of a call: the function that computes y; operator.pow for ** on an array;
    #                                     of a loop: the function that sweeps its steps


cdef struct Recent:                     # a loaded element: its buffer and offset, and the slot that holds it
    int32_t version, buffer, offset, slot


cdef class Tape:
    cdef wg_list entries
    cdef Py_ssize_t n, capacity         # entries
    cdef Py_ssize_t nconstants, constants_capacity
    cdef list nodes                     # array entries
    cdef readonly Py_ssize_t elements   # total size of their results
    cdef list buffers                   # buffers that scalar entries use, by id
    cdef dict constant_copies           # copies of constant arrays, by address, shape and strides
    cdef list roots                     # buffers without a producing node: inputs, and clean ones stored into
    cdef Py_ssize_t buffers_capacity
    cdef readonly Level level
    cdef readonly bint recording        # will be replayed: records discrete values, guards plain values that f reads
    cdef readonly list passive          # of a recording tape: ranges of entries whose results carry no derivative
    cdef public object reader           # translates the entries to SSA, so that they can be dropped; or None
    cdef readonly bint is_full          # of a recording tape: the entries should be read now
    cdef Py_ssize_t read_nodes, read_elements       # number of nodes, and of elements in their results, read so far
    cdef int paused                     # number of open passive blocks
    cdef set active                     # activity analysis so far: active buffers, and a flag for each slot
    cdef bytearray active_slots
    cdef bint has_stores
    cdef Recent recent[64]              # direct-mapped cache of loaded elements, by offset
    cdef int32_t version                # of the memory of all buffers; a write increments it
    cdef double *adjoint                # rows of k directions, by slot (during a sweep),
    cdef wg_range *ranges               # and which directions may differ from 0; unused with k = 1
    cdef Block adjoint_block
    cdef Py_ssize_t k                   # directions of the running sweep,
    cdef Py_ssize_t width               # rounded up to whole groups: length of a row
    cdef readonly bint stacked          # cotangents have a leading axis of length k
    cdef bint swept                     # the sweep reached the first entry
    cdef set unneeded                   # buffers whose adjoint is not needed, or None
    cdef object float_errors_token      # token that restores floating-point errors after a sweep, or None
    cdef Py_ssize_t adjoint_capacity    # rows allocated for the adjoints
    cdef readonly bint has_loops        # an entry stands for steps that are recorded again when swept
    cdef readonly bint has_complex      # a value is or was complex
    # of tails:
    cdef Tape tail                      # the tape that records instead of this one, or None
    cdef Tape head                      # of a tail: the tape it continues; None once it is cut
    cdef readonly bint forgets          # of a tail: it will be cut without a sweep
    cdef Py_ssize_t mark, nodes_mark, buffers_mark, roots_mark, constants_mark      # where the tail begins
    cdef Py_ssize_t gap                 # entries from here to the mark are already swept; nothing may refer to them

    cdef int grow(self) except -1
    cdef int32_t grow_constants(self) except -1
    cdef int32_t other_constant(self, double c) except -1
    cdef int32_t number(self, Buffer buffer, cnp.ndarray owner) except -1
    cdef int32_t add_node(self, Node node, double v) except -1
    cdef int flush(self) except -1
    cdef char *shadow_of(self, Buffer buffer) except NULL
    cdef cnp.ndarray adjoint_view(self, Buffer buffer, cnp.ndarray view)
    cdef int accumulate(self, Buffer buffer, cnp.ndarray view, int32_t slot, object cotangent,
                        bint owned=*) except -1
    cdef bint add_vector(self, Buffer buffer, cnp.ndarray view, cnp.ndarray total) except -1
    cdef bint adopt(self, Buffer buffer, cnp.ndarray view, cnp.ndarray total) except -1
    cdef bint is_unneeded(self, Buffer buffer) except -1
    cdef object cotangent_of(self, Node node, Py_ssize_t i)
    cdef int begin(self, Py_ssize_t k, bint stacked) except -1
    cdef int sweep(self, bint consume) except -1
    cdef int roll_forward(self, Py_ssize_t start) except -1
    cdef int end(self) except -1
    cdef int reuse(self) except -1
    cdef int free(self) noexcept
    cdef int stop_recording(self) noexcept
    cdef int ignore_float_errors(self) except -1
    cdef int drop_shadow(self, Buffer buffer) except -1
    cdef bint target(self, Buffer buffer, cnp.ndarray view, Block given, char **adjoint) except -1


cdef bint is_active(Tape tape, Buffer buffer, int32_t slot) except -1
cdef int analyse(Tape tape) except -1
cdef bint has_active_operand(Tape tape, Node node) except -1

# adjoint rules of array entries
cdef int pull_node(Tape tape, Node node, Py_ssize_t i) except -1
cdef int pull_sum(Tape tape, Node node, Py_ssize_t i) except -1
cdef int pull_call(Tape tape, Node node, Py_ssize_t i) except -1
cdef int move_adjoint(Tape tape, Node node) except -1
cdef object operand_value(Tape tape, Node node, int side)
cdef (bint, int) kernel_operands(Tape tape, Node node, cnp.ndarray y, double *scalars, const double **operands)
cdef object source_indices(Node node)

# tails
cdef Tape new_tail(Tape tape, str name, bint forgets)
cdef int begin_adjoints(Tape tail) except -1
cdef int check_tail(Tape tail) except -1

cdef object product(object cotangent, object partial)          # strong zero; the cotangent itself if partial is 1.0
cdef int swap(Node node) except -1                          # exchange written and overwritten values of a store
cdef cnp.ndarray kept_constant(Tape tape, cnp.ndarray x)    # a copy, shared while x does not change

# out (+)= g * (partial of opcode `op` in operand `side`), over n elements
cdef int times_partial(int form, int op, int side, bint add, Py_ssize_t n, const double *g, const double *a,
                       const double *b, const double *y, double *out) noexcept nogil
cdef int times_array(bint add, Py_ssize_t n, const double *g, const double *p, double *out) noexcept
# y = g * p with strong zero, over n elements; the step of p is 1, or 0 for a scalar
cdef int strong_times(Py_ssize_t n, const double *g, const double *p, int step, double *y) noexcept
cdef bint is_cheap(int op, Py_ssize_t n) noexcept           # is the kernel's partial faster than the NumPy rule?


cdef inline int32_t push(Tape tape, int op, int32_t a, int32_t b, double v) except -1:
    """Append an entry and return its index, which is the slot it writes."""
    cdef Py_ssize_t i = tape.n
    if i == tape.capacity:
        tape.grow()
    tape.entries.op[i] = <uint8_t>op
    tape.entries.a[i] = a
    tape.entries.b[i] = b
    tape.entries.v[i] = v
    tape.n = i + 1
    return <int32_t>i


cdef inline Node new_node(int kind, object row):
    """Return a new array entry, without scalar operands so far."""
    cdef Node node = Node.__new__(Node)
    node.kind = kind
    node.row = row
    node.aslot = node.bslot = -1
    return node


cdef inline Tape current(Tape tape):
    """Tape that records operations on values of `tape`: itself, or its open tail."""
    return <Tape>tape.level.tape if tape.level.tape != NULL else tape


cdef inline int32_t load(Tape tape, int32_t buffer, Py_ssize_t offset, double v) except -1:
    """Slot of an element of a buffer; reuses a recent load if nothing was written since."""
    cdef Recent *recent = &tape.recent[offset & 63]
    if recent.version != tape.version or recent.offset != offset or recent.buffer != buffer:
        if offset > 0x7fffffff:
            raise OverflowError("element access in an array of more than 2**31 elements")
        recent.slot = push(tape, WG_LOAD, buffer, <int32_t>offset, v)
        recent.version = tape.version
        recent.offset = <int32_t>offset
        recent.buffer = buffer
    return recent.slot


cdef inline int32_t constant(Tape tape, double c) except -1:
    """Index of a constant, reusing one of the last four if it has the same bits."""
    cdef Py_ssize_t i = tape.nconstants, j
    for j in range(i - 1, max(i - 5, -1), -1):
        if memcmp(&tape.entries.constants[j], &c, sizeof(double)) == 0:     # == would merge 0.0 and -0.0
            return <int32_t>j
    if i == tape.constants_capacity:
        return tape.other_constant(c)
    tape.entries.constants[i] = c
    tape.nconstants = i + 1
    return <int32_t>i


cpdef enum NodeKind:
    ELEMENTWISE, SUM, CALL, GATHER, REARRANGE, STORE, GUARD, LOOP
