# Indices are computed here, never given by users, and no Cython code divides by a user's value:
# cython: language_level=3, boundscheck=False, initializedcheck=False, cdivision=True
"""The virtual machine that runs a listing.

A `Machine` is built once and runs any number of times, in any number of threads at once: the state of a run is in a
workspace, and idle workspaces wait on a stack.
Only calls and guards on arrays need Python; the VM instructions between them run in C, and long ones release the GIL.
A run allocates only outputs and the results of calls; a call must not keep or change its operands.
"""

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree, PyMem_RawMalloc
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_INCREF, Py_REFCNT
from libc.stdint cimport int16_t, int32_t, int64_t
from libc.string cimport memcmp, memcpy, memset

import math
import operator
import os

import numpy as np

from wengert.core.tape.kernel cimport Kernel, by_opcode, loop_function
from wengert.core.tape.memory cimport Block, empty_array, int32s, owns_memory, take
from wengert.core.tape.tape cimport WG_POSITIVE, WG_POW, WG_SQUARE, times_partial
from wengert.program.ir.ir cimport Listing, c_strides, overlaps
from wengert.program.ir.opcodes cimport Op
from wengert.program.vm.runner cimport Run

from wengert.errors import GuardError
from wengert.program.ir.call import Operand
from wengert.program.ir.opcode_table import ROWS, function
from wengert.program.ir.verify import check
from wengert.program.passes import cost, pipeline
from wengert.program.passes.loop_recovery import Loop
from wengert.program.passes.simplify import apart

cnp.import_array()

cdef extern from "Python.h":
    PyObject **PySequence_Fast_ITEMS(object items)

cdef extern from "numpy/arrayobject.h":
    object PyArray_NewFromDescr(PyTypeObject *subtype, cnp.dtype descr, int nd, const cnp.npy_intp *dims,
                                const cnp.npy_intp *strides, void *data, int flags, PyObject *obj)
    int PyArray_SetBaseObject(cnp.ndarray array, object base) except -1
    object PyArray_Scalar(void *data, cnp.dtype descr, object base)

ctypedef int32_t (*compiled_step)(double *slots, char **where, const int32_t *table) noexcept nogil

cdef extern from "vm_loops.h" nogil:
    ctypedef struct wg_code:
        int32_t op, a, b, y

    ctypedef struct wg_loop:
        loop_function run
        void *data
        int nin

    ctypedef int (*wg_partial_loop)(int form, int op, int side, int add, Py_ssize_t n, const double *g,
                                    const double *a, const double *b, const double *y, double *out) noexcept nogil

    ctypedef struct wg_product:
        int32_t left, right, slot
        const double *constants[2]
        Py_ssize_t m, k, n, left_row, left_column, right_row, right_column

    ctypedef struct wg_step:
        int kind
        const wg_code *code
        Py_ssize_t count
        double work
        int ndim, first, chunks, walks, numbers, fills, sums, rows
        const Py_ssize_t *shape
        const Py_ssize_t *strides
        const int32_t *walk
        const int32_t *number
        const int32_t *fill
        const int32_t *sum
        int32_t array, source
        Py_ssize_t size
        const int32_t *offsets
        const int32_t *slots
        const wg_product *product
        compiled_step run
        const int32_t *table
        Py_ssize_t entries, block, length

    ctypedef struct wg_space:
        double *slots
        char **where
        double *scratch
        double **chunk
        Py_ssize_t *index
        double *ones
        double *sums
        const wg_loop *loops
        wg_partial_loop partial
        double *blocks
        int32_t *table
        const wg_space *others
        int helpers

    enum:
        WG_CHUNK, WG_CHUNK_APART, WG_BLOCK, WG_MIN_SHARED_WORK, WG_MAX_HELPERS
        WG_NUMBERS, WG_VECTOR, WG_COPY, WG_PACK, WG_PUT, WG_SCATTER, WG_PRODUCT, WG_COMPILED, WG_PYTHON
        WG_MAX_PACKED
        WG_M_POSITIVE, WG_M_LOOP, WG_M_LOAD, WG_M_LOAD_BOOL, WG_M_GUARD, WG_M_GUARD_INT, WG_M_END
        WG_ERFC, WG_POWER, WG_SQRT, WG_RECIPROCAL, WG_DIVIDE, WG_LOG
        WG_M_EXACT, WG_M_GET, WG_M_PUT, WG_M_GET_BOOL, WG_M_PUT_BOOL, WG_M_SUM, WG_M_GATHER
        WG_M_ONE, WG_M_FOLD, WG_M_SUM_ROWS, WG_M_GET_ROWS, WG_M_PUT_ROWS, WG_M_GET_BOOL_ROWS, WG_M_PUT_BOOL_ROWS

    enum:
        WG_DEBUG, WG_FENCE

    Py_ssize_t wg_run(const wg_step *steps, Py_ssize_t i, Py_ssize_t count, const wg_space *w, int32_t *failed)
    ctypedef struct wg_named_op:
        const char *name
        int op

    const wg_named_op wg_named_ops[]
    int wg_machine_op(int op)
    bint wg_is_vector_code(int op)
    bint wg_is_correctly_rounded(int op)
    int wg_call_helpers(int wanted)
    void wg_forget_helpers()
    Py_ssize_t wg_tasks
    void wg_values(int op, Py_ssize_t n, double *a, double *b, double *y)

include "lower.pxi"
include "bounds.pxi"

cdef struct Port:                   # an input or output of a loop body, at another address in each iteration
    int32_t slot                    # slot of a scalar; -1 for an array
    int count                       # number of arrays in its allocation
    const int32_t *numbers
    const int64_t *firsts
    char *at                        # lowest address in the current iteration
    char *stack                     # lowest address of the values of all iterations, or NULL
    Py_ssize_t stride
    Py_ssize_t size
    int32_t source                  # array to copy an output from if it is not computed in place; -1: none


cdef Py_ssize_t MIN_HUGE_ITEMS = 1 << 19        # elements of a loop's result for which NumPy requests large pages
cdef Py_ssize_t MAX_KEPT_ITEMS = 1 << 22        # doubles compared and copied to reuse the outputs of the previous run
cdef double MIN_WORK_PER_ITEM = 8.0             # operations per such double from which reuse pays
cdef int MAX_CHANGES = 8                        # consecutive runs without reuse after which it is given up
cdef size_t ARENA_BLOCK_BYTES = 1 << 12         # bytes of an arena block for short tables of VM instructions
cdef char CANARY = -1                           # byte of which a double is NaN
cdef double MIN_WORK_WITHOUT_GIL = 20000.0      # operations before the next Python call from which to release the GIL
cdef cnp.dtype FLOAT = np.dtype(np.float64)
cdef cnp.dtype BOOL = np.dtype(np.bool)
cdef cnp.ndarray NOTHING = np.zeros(1)


# costs in nanoseconds
cdef double COMPILE = cost.COMPILE, COMPILE_STATEMENT = cost.COMPILE_STATEMENT, TRACE_STATEMENT = cost.TRACE_STATEMENT
cdef double SAVED_SCALAR = cost.SAVED_SCALAR, SAVED_ELEMENT = cost.SAVED_ELEMENT, SAVED_CHUNK = cost.SAVED_CHUNK
cdef double COMPILED_STATEMENTS = cost.COMPILED_STATEMENTS

cdef int helpers = 0                # additional threads that share blocks of long VM instructions


def forget_helpers():
    """Forget the helper threads in the child of a fork, which does not inherit them; it then runs alone."""
    wg_forget_helpers()


def use_threads(count):
    """Let VMs that are built from now on share long VM instructions among `count` threads."""
    global helpers
    helpers = count - 1


def tasks_shared():
    """Return the number of VM instructions that were shared among threads in this process."""
    return wg_tasks


cdef int threads_of_environment() except -1:
    text = os.environ.get("WENGERT_NUM_THREADS", "1")
    if not text.isascii() or not text.isdigit() or not 0 < int(text) <= WG_MAX_HELPERS:
        raise ValueError(f"WENGERT_NUM_THREADS={text}: set it to the number of threads that may share an "
                         f"instruction of a program, from 1 to {WG_MAX_HELPERS}")
    return int(text)


use_threads(threads_of_environment())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget_helpers)


STEP_NAMES = {WG_NUMBERS: "scalar", WG_VECTOR: "vector", WG_COPY: "copy", WG_PACK: "pack", WG_PUT: "put",
              WG_SCATTER: "scatter"}
OPCODES = opcodes_of_machine()


cdef tuple described(tuple given):
    """Return a lowered VM instruction in the form that the LLVM tier reads."""
    cdef PythonStep step
    if given[0] == WG_PYTHON:
        step = given[1]
        return "python", slots_of(step.operands), slots_of([step.y] if step.y is not None else [])
    if given[0] == WG_PRODUCT:
        return "python", [], [given[2]] if given[2] >= 0 else []        # not compiled either
    return (STEP_NAMES[given[0]], *given[1:]) if given[0] in STEP_NAMES else ("other",)


cdef list slots_of(list values):
    """Return the slots of the scalars among some values."""
    cdef Value value
    cdef list found = []
    for value in values:
        if value.is_scalar:
            found.append(value.where)
    return found


cdef bint is_known(PythonStep step) except -1:
    """Whether a Python step only moves elements or runs a loop without calls, so that its values cannot change."""
    if step.op != Op.CALL:
        return True
    return type(step.compute) is LoopKernel and not (step.compute.loop.body.op == Op.CALL).any()


cdef bint has_bits(x, known, Value value) except -1:
    """Whether an input is bit-identical to its copy."""
    cdef double a, b
    if value.is_scalar:
        a, b = x, known
        return memcmp(&a, &b, sizeof(double)) == 0
    if not cnp.PyArray_Check(x) or not fits(x, value.layout):
        return False
    return memcmp(bytes_of(x), bytes_of(known), value.layout.span) == 0


cdef char *bytes_of(array) except NULL:
    return <char *>cnp.PyArray_DATA(<cnp.ndarray>array)


@cython.final
cdef class Workspace:
    """The state of one run: slots, chunks, memory of arrays, and the addresses of all arrays."""

    cdef wg_space space
    cdef list kept                  # owners of memory
    cdef list fenced                # in a debug build: address and size of each buffer
    cdef char *memory
    cdef list objects               # by allocation: the array that owns it
    cdef char **bottom              # by allocation: its lowest address

    def __dealloc__(self):
        PyMem_RawFree(self.space.where)
        PyMem_RawFree(self.bottom)
        for address, _ in self.fenced or ():
            PyMem_RawFree(<void *><size_t>address)

    cdef char *fence(self, Py_ssize_t size) except NULL:
        """Allocate a buffer of exactly this size between canaries, in a debug build."""
        cdef char *memory = <char *>PyMem_RawMalloc(size + 2 * WG_FENCE + 1)
        if memory == NULL:
            raise MemoryError()
        memset(memory, CANARY, size + 2 * WG_FENCE)         # a read of uninitialised memory gives NaN
        self.fenced = self.fenced or []
        self.fenced.append((<size_t>memory, size))
        return memory + WG_FENCE

    cdef int check_fences(self) except -1:
        """Raise if a canary was overwritten."""
        cdef const char *memory
        cdef Py_ssize_t i, n
        for address, size in self.fenced or ():
            memory, n = <const char *><size_t>address, size
            for i in range(WG_FENCE):
                if memory[i] != CANARY or memory[WG_FENCE + n + i] != CANARY:
                    raise SystemError(f"an instruction wrote outside a buffer of {n} bytes")
        return 0

    cdef double *doubles(self, Py_ssize_t n) except NULL:
        if WG_DEBUG:
            return <double *>self.fence(n * <Py_ssize_t>sizeof(double))
        cdef cnp.ndarray memory = np.empty(n + 8)
        self.kept.append(memory)
        return <double *>((<size_t>cnp.PyArray_DATA(memory) + 63) // 64 * 64)


cdef bint fits(cnp.ndarray x, Layout layout):
    """Whether an array has this dtype, shape and these strides."""
    cdef int d
    if <object>cnp.PyArray_DESCR(x) is not layout.dtype and x.dtype != layout.dtype or not cnp.PyArray_ISALIGNED(x):
        return False
    if cnp.PyArray_NDIM(x) != layout.ndim:
        return False
    for d in range(layout.ndim):
        if cnp.PyArray_DIM(x, d) != layout.dims[d]:
            return False
        if layout.dims[d] > 1 and layout.size and cnp.PyArray_STRIDE(x, d) != layout.steps[d]:
            return False
    return True


cdef cnp.ndarray array_at(char *first, Layout layout, object owner):
    cdef cnp.ndarray array
    Py_INCREF(layout.dtype)
    array = <cnp.ndarray>PyArray_NewFromDescr(<PyTypeObject *>cnp.ndarray, layout.dtype, layout.ndim, layout.dims,
                                              layout.steps, first, cnp.NPY_ARRAY_WRITEABLE, NULL)
    Py_INCREF(owner)
    PyArray_SetBaseObject(array, owner)         # steals the reference
    return array


cdef cnp.ndarray new_array(Layout layout):
    cdef cnp.ndarray memory
    if layout.is_c and layout.kind == DOUBLES:
        return empty_array(layout.ndim, layout.dims)
    if layout.is_c:
        return np.empty(layout.shape, layout.dtype)
    memory = np.empty(layout.span, np.uint8)
    return array_at(<char *>cnp.PyArray_DATA(memory) + layout.low, layout, memory)


cdef cnp.ndarray copied(x, Layout layout):
    cdef cnp.ndarray array = new_array(layout)
    if layout.is_c and cnp.PyArray_CheckExact(x) and fits(<cnp.ndarray>x, layout):
        memcpy(bytes_of(array), bytes_of(x), layout.span)
    else:
        array[...] = x
    return array


cdef object filled(template, list values):
    """Return arguments with `Operand` placeholders replaced by values."""
    cdef list found = []
    for given in template:
        if type(given) is Operand:
            found.append(values[given.position])
        elif type(given) is list:
            found.append(filled(given, values))
        elif type(given) is tuple:
            found.append(tuple(filled(given, values)))
        else:
            found.append(given)
    return found


class LoopKernel:
    """A loop as the VM runs it; the VM of its body is built on first use."""

    def __init__(self, loop, tier="auto", disabled=frozenset()):
        self.loop, self._tier, self._disabled = loop, tier, disabled
        self._machine = None

    def __repr__(self):
        return repr(self.loop)

    def __call__(self, *values):
        return self.machine.loop(self.loop, values)

    @property
    def machine(self):
        """The VM of the loop body."""
        if self._machine is None:
            is_compiled = self._tier == "llvm"
            options = pipeline.Options(is_compiled=is_compiled, runs=self.loop.steps, disabled=self._disabled)
            code = pipeline.run("loop body", self.loop.body, options).code
            self._machine = Machine(code, False, self._tier, self._disabled)
        return self._machine


Loop.kernel = LoopKernel


@cython.final
cdef class Machine(Run):
    """A listing lowered to VM instructions, with the workspaces to run them.

    `exact`: elementwise instructions run the same loops as the eager engine, and sums keep NumPy's order.
    `disabled`: passes disabled in what is built later: loop bodies, and the code for LLVM.
    """

    cdef readonly bint exact
    cdef wg_step *steps
    cdef wg_loop *loops
    cdef double *work               # by VM instruction: operations from there until the next Python step
    cdef list kept                  # owners of memory that VM instructions point to
    cdef char *free                 # free part of the current arena block
    cdef size_t left                # and its size
    cdef list python                # by VM instruction: the Python step, or None
    cdef list allocs, constants, guards
    cdef list seen                  # allocations visible to users: inputs, constants, outputs
    cdef list passing               # allocations that belong to one run
    cdef list inputs, outputs       # Values
    cdef double[::1] numbers        # initial contents of the slots
    cdef Py_ssize_t memory, arrays, chunks, sums, pointers, axes, blocks, entries
    cdef bint wants_help            # whether an instruction is long enough to be shared among threads
    cdef list spaces
    cdef readonly str tier          # "auto", "vm" or "llvm"
    cdef object disabled            # names of disabled passes
    cdef readonly object report     # of the LLVM tier: which VM instructions were compiled
    cdef Machine llvm_vm            # the VM of the LLVM tier
    cdef object listing             # until the LLVM tier is built
    cdef readonly Py_ssize_t runs, due  # runs so far, and the run before which the LLVM tier is built; 0: never
    cdef readonly Py_ssize_t count
    cdef tuple read                 # indices of the inputs that are read, if outputs are reused by later runs
    cdef tuple kept_run             # copies of these inputs, and the outputs
    cdef int changes                # consecutive runs for which these inputs had changed

    def __init__(self, listing, exact=False, tier="vm", disabled=frozenset()):
        cdef Lowering low = Lowering(listing, exact)
        self.tier, self.disabled = tier, disabled
        self.build(low, listing)
        self.read = self.inputs_to_compare(low)
        if tier != "vm":
            self.listing = listing
        if tier == "llvm":
            self.build_llvm()
        elif tier == "auto" and not exact:
            self.due = self.runs_to_pay()

    cdef int build(self, Lowering low, listing) except -1:
        cdef Py_ssize_t i
        cdef Kernel kernel
        if WG_DEBUG:
            if isinstance(listing, Listing):        # tests pass other classes
                check(listing)
            check_bounds(low)
        self.exact = low.exact
        self.spaces = []
        self.kept, self.left = [], 0
        self.guards = list(listing.guards)
        self.constants = list(listing.arrays)
        self.allocs, self.outputs = low.allocs, low.outputs
        self.seen = [alloc for alloc in self.allocs if (<Allocation>alloc).kind in (GIVEN, CONSTANT, FRESH)]
        self.passing = [alloc for alloc in self.allocs if (<Allocation>alloc).kind in (GIVEN, RESULT, FRESH)]
        self.inputs = [None] * len(listing.inputs)
        for number, value in low.inputs:
            self.inputs[number] = value
        cdef Allocation alloc
        for alloc in self.allocs:
            alloc.count = len(alloc.arrays)
            alloc.numbers = <const int32_t *>self.keep_list([number for number, _ in alloc.arrays], sizeof(int32_t))
            alloc.firsts = <const int64_t *>self.keep_list([first for _, first in alloc.arrays], sizeof(int64_t))
        self.numbers = np.zeros(low.slots)
        for bits, slot in low.constants.items():
            self.numbers[slot] = np.frombuffer(bits)[0]
        self.memory, self.arrays = low.memory, low.array_count
        self.chunks, self.sums, self.pointers, self.axes = low.chunks, low.sums, low.pointers, low.axes
        self.blocks = low.blocks
        self.loops = <wg_loop *>PyMem_RawCalloc(len(low.loops) + 1, sizeof(wg_loop))
        for i in range(len(low.loops)):
            kernel = low.loops[i]
            self.loops[i].run, self.loops[i].data, self.loops[i].nin = kernel.loop, kernel.loop_data, kernel.nin
        self.count = len(low.emitted)
        self.steps = <wg_step *>PyMem_RawCalloc(self.count + 1, sizeof(wg_step))
        self.work = <double *>PyMem_RawCalloc(self.count + 1, sizeof(double))
        self.python = [None] * self.count
        for i in range(self.count):
            self.set_step(i, low.emitted[i])
        for i in range(self.count - 1, -1, -1):
            if self.steps[i].kind != WG_PYTHON:
                self.work[i] = self.steps[i].work + self.work[i + 1]
        return 0

    def __dealloc__(self):
        PyMem_RawFree(self.steps)
        PyMem_RawFree(self.loops)
        PyMem_RawFree(self.work)

    cdef char *keep(self, values, kind) except NULL:
        """Keep an array alive and return its address; convert it first if necessary."""
        if not len(values):
            return bytes_of(NOTHING)
        if type(values) is not np.ndarray or not (values.dtype == kind and values.flags.c_contiguous):
            values = np.ascontiguousarray(values, kind)
        self.kept.append(values)
        return bytes_of(values)

    cdef char *keep_list(self, values, size_t itemsize) except NULL:
        """Copy a list of integers, or of equally long rows, into an arena block; return its address."""
        cdef Py_ssize_t n = len(values), width = 1, i = 0
        cdef bint is_nested = False
        cdef char *at
        cdef size_t size
        if n == 0:
            return bytes_of(NOTHING)
        if type(values[0]) in (tuple, list):
            is_nested, width = True, len(values[0])
        size = (n * width * itemsize + 7) // 8 * 8
        if size > self.left:
            self.kept.append(take(size + ARENA_BLOCK_BYTES))
            self.free = <char *>(<Block>self.kept[-1]).data
            self.left = size + ARENA_BLOCK_BYTES
        at = self.free
        self.free, self.left = self.free + size, self.left - size
        if itemsize == sizeof(int32_t):
            for row in values:
                for x in row if is_nested else (row,):
                    (<int32_t *>at)[i] = x
                    i += 1
        else:
            for row in values:
                for x in row if is_nested else (row,):
                    (<int64_t *>at)[i] = x
                    i += 1
        return at

    cdef const wg_product *keep_product(self, int slot, list factors, tuple sizes) except NULL:
        """Return the descriptor of a product; each factor is an array or a constant, with row and column strides."""
        cdef Block memory = take(sizeof(wg_product))
        cdef wg_product *product = <wg_product *>memory.data
        product.constants[0] = product.constants[1] = NULL
        cdef int side
        self.kept.append(memory)
        product.slot = slot
        product.m, product.k, product.n = sizes
        for side in range(2):
            array, constant, _, _ = factors[side]
            if side == 0:
                product.left, product.left_row, product.left_column = array, factors[0][2], factors[0][3]
            else:
                product.right, product.right_row, product.right_column = array, factors[1][2], factors[1][3]
            if constant is not None:
                product.constants[side] = <const double *>self.keep(constant, float)
        return product

    cdef int set_step(self, Py_ssize_t i, tuple given) except -1:
        cdef wg_step *step = &self.steps[i]
        cdef PythonStep python
        step.kind = given[0]
        if step.kind == WG_PYTHON:
            python = given[1]
            if type(python.compute) is Loop:
                python.compute = LoopKernel(python.compute, self.tier, self.disabled)
            self.python[i] = python
        elif step.kind == WG_NUMBERS:
            step.code = <const wg_code *>self.keep(given[1], np.int32)
            step.work = given[2]
        elif step.kind == WG_COMPILED:
            _, address, table, step.work, dims, sums, step.block = given
            step.run = <compiled_step><size_t>address
            step.entries, step.table = len(table), <const int32_t *>self.keep(table, np.int32)
            step.length = dims[0] if dims else 0
            step.sums, step.sum = len(sums), <const int32_t *>self.keep_list(sums, sizeof(int32_t))
        elif step.kind == WG_COPY:
            _, step.array, step.source, step.size = given
            step.work = step.size / 16.0
        elif step.kind == WG_PACK:
            step.array = given[1]
            step.offsets = <const int32_t *>self.keep(given[2], np.int32)
            step.slots = <const int32_t *>self.keep(given[3], np.int32)
            step.size = len(given[2])
            step.work = step.size
        elif step.kind == WG_PRODUCT:
            _, step.array, slot, factors, sizes = given
            step.product = self.keep_product(slot, factors, sizes)
            step.work = math.prod(sizes)
        elif step.kind == WG_PUT or step.kind == WG_SCATTER:
            _, step.array, step.source, offsets, step.count = given
            step.offsets = <const int32_t *>self.keep(offsets, np.int32)
            step.size = len(offsets)
            step.work = step.size
        else:
            _, code, dims, strides, walk, number, fill, sums, step.first, step.chunks, step.rows, step.block = given
            step.length = dims[0]
            step.code, step.count = <const wg_code *>self.keep(code, np.int32), len(code)
            step.ndim, step.shape = len(dims), <const Py_ssize_t *>self.keep_list(dims, sizeof(Py_ssize_t))
            step.strides = <const Py_ssize_t *>self.keep_list(strides, sizeof(Py_ssize_t))
            step.walks, step.walk = len(walk), <const int32_t *>self.keep_list(walk, sizeof(int32_t))
            step.numbers, step.number = len(number), <const int32_t *>self.keep_list(number, sizeof(int32_t))
            step.fills, step.fill = len(fill), <const int32_t *>self.keep_list(fill, sizeof(int32_t))
            step.sums, step.sum = len(sums), <const int32_t *>self.keep_list(sums, sizeof(int32_t))
            step.work = <double>step.count * math.prod(dims)
        if step.block:
            self.entries = max(self.entries, step.entries)
            self.wants_help = self.wants_help or step.work >= WG_MIN_SHARED_WORK
        return 0

    @property
    def bodies(self):
        """VMs of the loop bodies."""
        if self.llvm_vm is not None:
            return self.llvm_vm.bodies
        return [(<PythonStep>step).compute.machine for step in self.python
                if step is not None and type((<PythonStep>step).compute) is LoopKernel]

    # ------------------------------------------------------------------------------------------ compiled steps

    cdef Py_ssize_t runs_to_pay(self) except -1:
        """Return the run from which on compiling pays: the time saved until then equals the time to compile."""
        cdef double lost = 0.0, spent = COMPILE
        cdef Py_ssize_t i
        for i in range(self.count):
            if self.steps[i].kind == WG_NUMBERS:
                lost += self.steps[i].work * SAVED_SCALAR
                spent += self.steps[i].work * TRACE_STATEMENT
                spent += min(self.steps[i].work, COMPILED_STATEMENTS) * COMPILE_STATEMENT
            elif self.steps[i].kind == WG_VECTOR:
                lost += self.steps[i].work * SAVED_ELEMENT
                lost += self.steps[i].count * SAVED_CHUNK
                spent += self.steps[i].count * COMPILE_STATEMENT
        return <Py_ssize_t>(spent / lost) + 2 if lost > 0.0 else 0

    cdef int build_llvm(self) except -1:
        """Build the LLVM tier."""
        listing, self.listing = self.listing, None
        self.due = 0
        if listing is None:             # another thread is building it
            return 0
        from wengert.program.codegen import jit  # rarely needed and slow to import

        self.report = jit.Report()
        if self.exact:
            self.report.refused.append("exact programs run NumPy's own loops")
            return 0
        listing = pipeline.run("llvm", listing, pipeline.Options(disabled=self.disabled)).code
        cdef Lowering low = Lowering(listing, False)
        cdef list steps = [described(given) for given in low.emitted]
        emitted, extra, code = jit.compile_kernels(jit.Kernels(
            steps,
            {slot: np.frombuffer(bits)[0] for bits, slot in low.constants.items()},
            slots_of(low.outputs), low.slots, OPCODES, WG_CHUNK), self.report)
        if code is None:
            return 0
        own = {id(step): given for step, given in zip(steps, low.emitted)}
        low.emitted = [(WG_COMPILED, *step[1:]) if step[0] == "compiled" else own[id(step)] for step in emitted]
        low.slots += extra
        cdef Machine llvm_vm = Machine.__new__(Machine)
        llvm_vm.tier, llvm_vm.disabled = "llvm", self.disabled
        llvm_vm.build(low, listing)
        llvm_vm.kept.append(code)
        self.llvm_vm = llvm_vm
        self.spaces = []
        return 0

    cdef int try_build_llvm(self) except -1:
        """Build the LLVM tier during an ordinary run, which must not fail if that does."""
        try:
            return self.build_llvm()
        except Exception as reason:
            self.report.refused.append(f"{type(reason).__name__}: {reason}")
            return 0

    # ------------------------------------------------------------------------------------------ workspaces

    @property
    def bytes(self):
        """Bytes of arrays in a workspace."""
        return self.memory

    cdef int add_buffers(self, Workspace w, wg_space *space) except -1:
        """Allocate the buffers that each thread of a run needs for itself."""
        space.scratch = w.doubles(self.chunks * WG_CHUNK_APART)
        space.chunk = <double **>w.doubles(self.pointers + 1)
        space.index = <Py_ssize_t *>w.doubles(self.axes)
        space.table = <int32_t *>w.doubles(self.entries // 2 + 1)
        return 0

    cdef Workspace new_space(self):
        cdef Workspace w = Workspace.__new__(Workspace)
        cdef wg_space *others
        cdef Allocation alloc
        cdef Py_ssize_t i
        w.kept = []
        w.objects = [None] * len(self.allocs)
        w.bottom = <char **>PyMem_RawCalloc(len(self.allocs) + 1, sizeof(char *))
        w.space.where = <char **>PyMem_RawCalloc(self.arrays + 1, sizeof(char *))
        w.space.slots = w.doubles(self.numbers.shape[0] + self.blocks)
        w.space.blocks = w.space.slots + self.numbers.shape[0]
        memcpy(w.space.slots, &self.numbers[0], self.numbers.shape[0] * sizeof(double))
        self.add_buffers(w, &w.space)
        w.space.ones = w.doubles(WG_CHUNK)
        for i in range(WG_CHUNK):
            w.space.ones[i] = 1.0
        w.space.sums = w.doubles(self.sums)
        w.space.loops = self.loops
        w.space.partial = <wg_partial_loop>times_partial
        w.space.helpers = wg_call_helpers(helpers) if self.wants_help else 0
        others = <wg_space *>w.doubles(w.space.helpers * sizeof(wg_space) // sizeof(double))
        for i in range(w.space.helpers):
            others[i] = w.space
            self.add_buffers(w, &others[i])
        w.space.others = others
        w.memory = <char *>w.doubles(self.memory // sizeof(double) + 8)
        for alloc in self.allocs:
            if alloc.kind == WORK:
                put_alloc(w, alloc, w.fence(alloc.layout.span) if WG_DEBUG else w.memory + alloc.place)
            elif alloc.kind == CONSTANT:
                array = self.constants[alloc.which]
                if not fits(array, alloc.layout):
                    array = copied(array, alloc.layout)
                w.objects[alloc.number] = array
                put_alloc(w, alloc, bytes_of(array) - alloc.layout.low)
        return w

    # ------------------------------------------------------------------------------------------ runs

    def run(self, inputs, list out=None):
        """Return the outputs: new arrays and NumPy scalars, or the arrays of `out`, written in place."""
        result = self.completed(inputs, out)
        if type(result) is int:
            expected, place = self.guards[result][:2]
            raise GuardError(f"{place}: the recorded path needs {expected!r} here")
        return result

    def attempt(self, inputs, list out=None):
        """Like `run`, but return an int if it fails: the index of the guard, or -1 for a result of another shape."""
        try:
            return self.completed(inputs, out)
        except GuardError:
            return -1

    @cython.wraparound(False)
    cdef object completed(self, inputs, list out):
        cdef object found
        cdef Py_ssize_t j
        cdef tuple read = self.read
        if read is None:
            return self.computed(inputs, out)
        found = self.kept_outputs(read, inputs)
        if found is None:
            found = self.computed(inputs, None)
            if type(found) is not list:
                return found
            self.keep_outputs(read, inputs, found)
        if out is not None:
            for j in range(len(found)):
                if out[j] is not None:
                    out[j][...] = found[j]
                    found[j] = out[j]
        return found

    @cython.wraparound(False)
    cdef object computed(self, inputs, list out):
        if self.llvm_vm is not None:
            return self.llvm_vm.computed(inputs, out)
        if self.due > 0:
            self.runs += 1
            if self.runs >= self.due:
                self.try_build_llvm()
                return self.computed(inputs, out)
        cdef Workspace w = self.spaces.pop() if self.spaces else self.new_space()
        cdef Allocation alloc
        cdef Py_ssize_t j
        cdef int32_t failed
        cdef list results
        try:
            inputs = list(inputs)
            failed = self.run_in(w, PySequence_Fast_ITEMS(inputs), len(inputs),
                                 NULL if out is None else PySequence_Fast_ITEMS(out))
            if failed >= 0:
                return failed
            results = [self.result(w, value) for value in self.outputs]
        finally:
            for alloc in self.passing:
                w.objects[alloc.number] = None
            self.spaces.append(w)
        if out is not None:
            for j in range(len(results)):
                if out[j] is not None and out[j] is not results[j]:
                    results[j] = written(out[j], results[j])
        return results

    cdef object single(self, PyObject **inputs, Py_ssize_t count, given):
        cdef Workspace w
        cdef Allocation alloc
        cdef Value value
        cdef PyObject *out = <PyObject *>given
        cdef int32_t failed
        if self.read is not None:
            if given is None and self.is_kept(self.read, inputs, count):
                value = self.outputs[0]
                return self.kept_run[1][0] if value.is_scalar else copied(self.kept_run[1][0], value.layout)
            found = self.completed([<object>inputs[j] for j in range(count)], None if given is None else [given])
            return found if type(found) is int else found[0]
        if self.llvm_vm is not None:
            return self.llvm_vm.single(inputs, count, given)
        if self.due > 0:
            self.runs += 1
            if self.runs >= self.due:
                self.try_build_llvm()
                return self.single(inputs, count, given)
        w = self.spaces.pop() if self.spaces else self.new_space()
        try:
            failed = self.run_in(w, inputs, count, &out)
            if failed >= 0:
                return failed
            value = self.outputs[0]
            y = self.result(w, value)
        finally:
            for alloc in self.passing:
                w.objects[alloc.number] = None
            self.spaces.append(w)
        return y if given is None or given is y else written(given, y)

    @cython.wraparound(False)
    cdef int32_t run_in(self, Workspace w, PyObject **inputs, Py_ssize_t count, PyObject **out) except -2:
        """Run all VM instructions; return the index of a failed guard, or -1. `out` may hold arrays for the outputs."""
        cdef Value value
        cdef Allocation alloc
        cdef Py_ssize_t j
        if count != len(self.inputs):
            raise ValueError(f"the program takes {len(self.inputs)} inputs, got {count}")
        for j in range(count):
            value = self.inputs[j]
            if value is not None:
                set_input(w, value, <object>inputs[j], j)
        for j in range(len(self.outputs)):
            value = self.outputs[j]
            if value.is_returned and value.alloc.kind == FRESH:
                alloc = value.alloc
                given = <object>out[j] if out != NULL else None
                if given is None or not self.may_write(w, given, alloc):
                    given = new_array(alloc.layout)
                w.objects[alloc.number] = given
                put_alloc(w, alloc, bytes_of(given) - alloc.layout.low)
        return self.run_steps(w)

    # ------------------------------------------------------------------------------------------ outputs that stay

    @property
    def keeps(self):
        """Whether outputs, which depend only on some inputs, are reused while those inputs do not change."""
        return self.read is not None

    cdef tuple inputs_to_compare(self, Lowering low):
        """Return the indices of the inputs that are read, if comparing them is much cheaper than a run; else None."""
        cdef Value value
        cdef list found = []
        cdef double size = 0.0, work = 0.0
        cdef Py_ssize_t i
        for i in range(low.n):
            if low.op[i] == Op.INPUT and low.last[i] >= 0:
                found.append(low.a[i])
        if len(found) == len(self.inputs):
            return None
        for value in [self.inputs[j] for j in found] + self.outputs:
            if not value.is_scalar and not (value.layout.kind == DOUBLES and value.layout.is_c and value.layout.ndim):
                return None
            size += 1 if value.is_scalar else value.layout.size
        for i in range(self.count):
            if self.python[i] is not None and not is_known(self.python[i]):
                return None
            work += self.steps[i].work if self.python[i] is None else math.inf
        pays = size < MAX_KEPT_ITEMS and work > MIN_WORK_PER_ITEM * (size + MIN_WORK_PER_ITEM)
        return tuple(sorted(found)) if pays else None

    @cython.wraparound(False)
    cdef object kept_outputs(self, tuple read, inputs):
        """Return the outputs of the previous run if the inputs that are read are bit-identical; else None."""
        cdef list found = []
        cdef Py_ssize_t j
        cdef Value value
        inputs = list(inputs)
        if not self.is_kept(read, PySequence_Fast_ITEMS(inputs), len(inputs)):
            return None
        for j in range(len(self.outputs)):
            value = self.outputs[j]
            found.append(self.kept_run[1][j] if value.is_scalar else copied(self.kept_run[1][j], value.layout))
        return found

    @cython.wraparound(False)
    cdef bint is_kept(self, tuple read, PyObject **inputs, Py_ssize_t count) except -1:
        """Whether there are kept outputs, for bit-identical inputs."""
        cdef list known
        cdef Py_ssize_t j, k
        if self.kept_run is None or count != len(self.inputs):
            return False
        known = self.kept_run[0]
        for j in range(len(read)):
            k = read[j]
            if not has_bits(<object>inputs[k], known[j], <Value>self.inputs[k]):
                return False
        self.changes = 0
        return True

    cdef int keep_outputs(self, tuple read, inputs, list outputs) except -1:
        """Keep outputs for reuse; give up after `MAX_CHANGES` runs without any."""
        cdef Value value
        cdef Py_ssize_t j
        cdef list given = []
        self.changes += 1
        if self.changes > MAX_CHANGES:
            self.read = self.kept_run = None
            return 0
        for j in read:
            value = self.inputs[j]
            given.append(inputs[j] if value.is_scalar else copied(inputs[j], value.layout))
        self.kept_run = given, [y.copy() if type(y) is np.ndarray else y for y in outputs]
        return 0

    # ------------------------------------------------------------------------------------------ loops

    @cython.wraparound(False)
    def loop(self, loop, tuple values):
        """Return the result of a loop whose body this VM runs."""
        if self.llvm_vm is not None:
            return self.llvm_vm.loop(loop, values)
        if self.due > 0:
            self.runs += loop.steps
            if self.runs >= self.due:
                self.try_build_llvm()
                return self.loop(loop, values)
        cdef Workspace w = self.spaces.pop() if self.spaces else self.new_space()
        cdef Allocation alloc
        try:
            return self.loop_in(w, loop, values)
        finally:
            for alloc in self.passing:
                w.objects[alloc.number] = None
            self.spaces.append(w)

    cdef int set_port(self, Port *port, Value value) except -1:
        port.slot = value.where if value.is_scalar else -1
        port.source = -1
        port.stack = NULL
        port.size = sizeof(double) if value.is_scalar else value.layout.span
        if not value.is_scalar:
            port.count, port.numbers, port.firsts = value.alloc.count, value.alloc.numbers, value.alloc.firsts
        return 0

    cdef object loop_in(self, Workspace w, loop, tuple values):
        cdef Py_ssize_t inputs = len(self.inputs), outputs = len(self.outputs), carried = loop.carried
        cdef Port *ins = <Port *>PyMem_RawCalloc(inputs + outputs + 1, sizeof(Port))
        cdef Port *outs = ins + inputs
        cdef char **ends = <char **>PyMem_RawCalloc(2 * carried + 1, sizeof(char *))    # final carried values,
        cdef char **entries = ends + carried                                            # and stacks of carried values
        cdef cnp.npy_intp count = loop.count
        cdef cnp.ndarray result
        cdef list held
        if ins == NULL or ends == NULL:
            PyMem_RawFree(ins)
            PyMem_RawFree(ends)
            raise MemoryError()
        try:
            if len(values) != inputs:
                raise ValueError(f"the loop takes {inputs} operands, got {len(values)}")
            # np.empty requests large pages for large arrays, which take less time to map
            result = empty_array(1, &count) if count < MIN_HUGE_ITEMS else np.empty(count)
            held = self.enter_loop(w, loop, values, ins)        # keeps the memory of the ports alive
            held.append(self.leave_loop(loop, bytes_of(result), ins, outs, ends, entries))
            self.repeat(w, loop, ins, outs, ends, entries)
            return result
        finally:
            PyMem_RawFree(ins)
            PyMem_RawFree(ends)

    cdef list enter_loop(self, Workspace w, loop, tuple values, Port *ins):
        """Set the ports of the inputs; return the arrays that they point to."""
        cdef Py_ssize_t carried = loop.carried, first = carried + loop.kept, k
        cdef cnp.ndarray array
        cdef Value value
        cdef list held = []
        for k in range(len(self.inputs)):
            value = self.inputs[k]
            self.set_port(&ins[k], value)
            if first > k >= carried and not value.is_scalar:
                set_input(w, value, values[k], k)
                continue
            array = np.asarray(values[k], dtype=None if value.layout is not None else float)
            if first > k >= carried:        # an invariant scalar: set in each iteration, since its slot may be reused
                ins[k].stack = bytes_of(array)
            elif k < carried:
                if value.layout is not None and not fits(array, value.layout):
                    array = copied(array, value.layout)
                ins[k].at = bytes_of(array)
            else:
                array = slices(array, loop.steps, value.layout)
                ins[k].stride = cnp.PyArray_STRIDE(array, 0)
                ins[k].stack = bytes_of(array) - (0 if value.layout is None else value.layout.low)
            held.append(array)
        return held

    cdef cnp.ndarray leave_loop(self, loop, char *line, Port *ins, Port *outs, char **ends, char **entries):
        """Set the ports of the outputs in the memory of the result; return memory for the outputs of one iteration."""
        cdef Py_ssize_t outputs = len(self.outputs), carried = loop.carried, place = 0, k, last
        cdef cnp.ndarray spare
        cdef char *room
        cdef Value value
        for k in range(outputs):
            value = self.outputs[k]
            if not value.is_scalar and not (value.layout.is_c and value.layout.kind == DOUBLES):
                raise TypeError("a result of a loop must be float64 in C order")
            self.set_port(&outs[k], value)
            if not value.is_scalar and not (value.is_returned and value.alloc.kind == FRESH):
                outs[k].source = value.where
                outs[k].count = 0
            place += 2 * ((outs[k].size + 63) // 64 * 64)
        spare = np.empty(place + 64, np.uint8)
        room = <char *>((<size_t>bytes_of(spare) + 63) // 64 * 64)
        for word, number in loop.results:
            k = number
            if word == "zeros":
                memset(line, 0, k)
            elif word == "last":
                ends[k] = line
            elif word == "entry":
                entries[k] = line
            else:
                outs[k].stack, outs[k].stride = line, outs[k].size
            line += <Py_ssize_t>loop.length(word, number) * <Py_ssize_t>sizeof(double)
        for k in range(outputs):
            outs[k].at = room
            if k < carried:                 # double buffer: one is read while the other is written
                outs[k].stride = (outs[k].size + 63) // 64 * 64
                room += outs[k].stride
            room += (outs[k].size + 63) // 64 * 64
        for k in range(carried):
            if entries[k] != NULL:
                ends[k] = outs[k].at if ends[k] == NULL else ends[k]
                outs[k].stack = entries[k]
                last = loop.steps - 1 if loop.backward else 0
                memcpy(entries[k] + last * outs[k].size, ins[k].at, outs[k].size)
                ins[k].at = entries[k] + last * outs[k].size
        return spare

    cdef int repeat(self, Workspace w, loop, Port *ins, Port *outs, char **ends, char **entries) except -1:
        """Run the body `loop.steps` times, without the GIL if it has no Python steps."""
        cdef Py_ssize_t steps = loop.steps, carried = loop.carried, i = 0, j
        cdef Py_ssize_t inputs = len(self.inputs), outputs = len(self.outputs)
        cdef Py_ssize_t block = <Py_ssize_t>max(1.0, 1e8 / (self.work[0] + 100.0))
        cdef bint backward = loop.backward, quiet = not any([step is not None for step in self.python])
        cdef int32_t failed = -1
        while i < steps:
            if quiet:
                block = min(block, steps - i)
                with nogil:
                    for j in range(i, i + block):
                        enter(&w.space, ins, inputs, outs, outputs, carried, ends, entries, j, steps, backward)
                        wg_run(self.steps, 0, self.count, &w.space, &failed)
                        if failed >= 0:
                            break
                        leave(&w.space, outs, outputs)
                        carry(ins, outs, carried)
                i += block
                PyErr_CheckSignals()
            else:
                enter(&w.space, ins, inputs, outs, outputs, carried, ends, entries, i, steps, backward)
                failed = self.run_steps(w)
                if failed < 0:
                    leave(&w.space, outs, outputs)
                    carry(ins, outs, carried)
                i += 1
            if failed >= 0:
                expected, where = self.guards[failed][:2]
                raise GuardError(f"{where}: the recorded path needs {expected!r} here")
        return 0

    cdef int run_steps(self, Workspace w) except -2:
        """Run all VM instructions; return the index of a failed guard, or -1."""
        cdef Py_ssize_t i = 0
        cdef int32_t failed = -1
        while True:
            if self.work[i] > MIN_WORK_WITHOUT_GIL:
                with nogil:
                    i = wg_run(self.steps, i, self.count, &w.space, &failed)
            else:
                i = wg_run(self.steps, i, self.count, &w.space, &failed)
            if WG_DEBUG:
                w.check_fences()
            if failed >= 0 or i == self.count:
                return failed
            failed = self.run_python(w, self.python[i])
            if failed >= 0:
                return failed
            i += 1

    cdef bint may_write(self, Workspace w, given, Allocation alloc) except -1:
        """Whether an output can be computed directly in this array: it fits and overlaps no other visible array."""
        cdef Allocation other
        cdef char *low
        if not cnp.PyArray_Check(given) or not fits(given, alloc.layout) or not cnp.PyArray_ISWRITEABLE(given):
            return False
        low = bytes_of(given) - alloc.layout.low
        for other in self.seen:
            if other.kind != FRESH or other.which < alloc.which:
                if (low < w.bottom[other.number] + other.layout.span
                        and w.bottom[other.number] < low + alloc.layout.span):
                    return False
        return True

    cdef object result(self, Workspace w, Value value):
        if value.is_scalar:
            return number(w, value)
        if value.is_returned:
            y = w.objects[value.alloc.number]
        else:
            y = copied(array_at(w.space.where[value.where], value.layout, w), value.layout)
        return y[()] if value.layout.ndim == 0 else y       # a complex scalar, or one of another precision

    cdef int run_python(self, Workspace w, PythonStep step) except -2:
        """Run a Python step; return the index of a failed guard, or -1."""
        cdef list values = [operand(w, value) for value in step.operands]
        if step.op == Op.GUARD:
            return -1 if agrees(values[0], step.expected) else step.guard
        if step.op == Op.PLACE:
            array_at(w.space.where[step.y.where], step.y.layout, w)[...] = values[0]
        elif step.op == Op.PACK:
            array_at(w.space.where[step.y.where], step.y.layout, w)[step.args[0]] = values
        elif step.op == Op.PUT:
            array_at(w.space.where[step.y.where], step.y.layout, w)[values[0]] = values[1]
        else:
            arguments = filled(step.args, values)
            del values
            if step.takes_out:
                y = array_at(w.space.where[step.y.where], step.y.layout, w)
                step.compute(*arguments, out=y, **(step.kwargs or {}))
                return -1
            if step.kwargs is None:
                y = step.compute(*arguments)
            else:
                y = step.compute(*arguments, **step.kwargs)
            del arguments
            if step.y.is_scalar:
                w.space.slots[step.y.where] = y
            else:
                self.set_result(w, step, y)
        return -1

    cdef int set_result(self, Workspace w, PythonStep step, y) except -1:
        """Store the result of a call, copied if it may be visible elsewhere."""
        cdef Layout layout = step.y.layout
        cdef Allocation alloc = step.y.alloc
        cdef cnp.ndarray array
        if np.shape(y) != layout.shape or np.asarray(y).dtype != layout.dtype:
            raise GuardError(f"{step.compute!r} returned {np.asarray(y).dtype} of shape {np.shape(y)}; "
                             f"the recorded path needs {layout.dtype} of shape {layout.shape}")
        if (type(y) is np.ndarray and fits(y, layout) and owns_memory(y)
                and cnp.PyArray_ISWRITEABLE(y) and Py_REFCNT(y) == 1):
            array = y
        else:
            array = copied(y, layout)
        w.objects[alloc.number] = array
        put_alloc(w, alloc, bytes_of(array) - layout.low)
        return 0


cdef object written(out, y):
    out[...] = y
    return out


cdef inline void point(const wg_space *w, const Port *port) noexcept nogil:
    """Set the current address of a port's value; copy a scalar to its slot."""
    cdef int i
    if port.slot >= 0:
        w.slots[port.slot] = (<double *>port.at)[0]
    else:
        for i in range(port.count):
            w.where[port.numbers[i]] = port.at + port.firsts[i]


cdef void enter(const wg_space *w, Port *ins, Py_ssize_t inputs, Port *outs, Py_ssize_t outputs, Py_ssize_t carried,
                char **ends, char **entries, Py_ssize_t j, Py_ssize_t steps, bint backward) noexcept nogil:
    """Set the addresses of inputs and outputs for iteration j."""
    cdef Py_ssize_t i, k = steps - 1 - j if backward else j, later = k - 1 if backward else k + 1
    for i in range(carried):
        point(w, &ins[i])
        if j == steps - 1 and ends[i] != NULL:
            outs[i].at = ends[i]
        elif entries[i] != NULL and j < steps - 1:
            outs[i].at = entries[i] + later * outs[i].size
    for i in range(carried, inputs):
        if ins[i].stack != NULL:
            ins[i].at = ins[i].stack + k * ins[i].stride
            point(w, &ins[i])
    for i in range(outputs):
        if i >= carried and outs[i].stack != NULL:
            outs[i].at = outs[i].stack + k * outs[i].stride
        if outs[i].slot < 0:
            point(w, &outs[i])


cdef void leave(const wg_space *w, Port *outs, Py_ssize_t outputs) noexcept nogil:
    """Copy outputs that were not computed in place to their addresses."""
    cdef Py_ssize_t i
    for i in range(outputs):
        if outs[i].slot >= 0:
            (<double *>outs[i].at)[0] = w.slots[outs[i].slot]
        elif outs[i].source >= 0:
            memcpy(outs[i].at, w.where[outs[i].source], outs[i].size)


cdef void carry(Port *ins, Port *outs, Py_ssize_t carried) noexcept nogil:
    """Make carried outputs the inputs of the next iteration."""
    cdef Py_ssize_t i
    for i in range(carried):
        ins[i].at = outs[i].at
        if outs[i].stack == NULL:       # swap the two buffers
            outs[i].at += outs[i].stride
            outs[i].stride = -outs[i].stride


cdef cnp.ndarray slices(cnp.ndarray array, Py_ssize_t steps, Layout layout):
    """Return an array with iterations as first axis whose slices have the layout that the body expects."""
    cdef int d
    cdef Py_ssize_t inner = 0 if layout is None else layout.ndim
    if array.ndim != inner + 1 or len(array) != steps:
        raise ValueError(f"expected one slice for each of {steps} iterations, got an array of shape {np.shape(array)}")
    for d in range(inner):
        if cnp.PyArray_DIM(array, d + 1) != layout.dims[d]:
            raise ValueError(f"expected slices of shape {layout.shape}, got {np.shape(array)[1:]}")
    if array.dtype == np.float64:
        for d in range(inner):
            if layout.dims[d] > 1 and cnp.PyArray_STRIDE(array, d + 1) != layout.steps[d]:
                break
        else:
            return array
    if layout is None or layout.is_c:
        return np.ascontiguousarray(array, dtype=float)
    found = np.empty((steps, layout.span), np.uint8)
    made = np.ndarray(np.shape(array), float, found, layout.low, (layout.span, *layout.strides))
    made[...] = array
    return made


cdef int put_alloc(Workspace w, Allocation alloc, char *bottom) except -1:
    """Set the address of an allocation and of all arrays in it."""
    cdef int i
    w.bottom[alloc.number] = bottom
    for i in range(alloc.count):
        w.space.where[alloc.numbers[i]] = bottom + alloc.firsts[i]
    return 0


cdef int set_input(Workspace w, Value value, x, Py_ssize_t j) except -1:
    cdef cnp.ndarray array
    if value.is_scalar:
        w.space.slots[value.where] = x
        return 0
    if not cnp.PyArray_Check(x) or not fits(x, value.layout):
        if np.shape(x) != value.layout.shape:
            raise ValueError(f"input {j} has shape {np.shape(x)}, the program was recorded for {value.layout.shape}")
        x = copied(x, value.layout)
    array = x
    w.objects[value.alloc.number] = array
    return put_alloc(w, value.alloc, bytes_of(array) - value.layout.low)


cdef object number(Workspace w, Value value):
    """Return a scalar as a NumPy scalar."""
    cdef double x = w.space.slots[value.where]
    cdef char truth = x != 0.0
    return PyArray_Scalar(&truth, BOOL, None) if value.is_truth else PyArray_Scalar(&x, FLOAT, None)


cdef object operand(Workspace w, Value value):
    """Return a value for Python; 0-d arrays of other types become NumPy scalars."""
    if value.is_scalar:
        return number(w, value)
    owner = w.objects[value.alloc.number]
    if owner is None or not value.is_whole or value.layout is not value.alloc.layout:
        owner = array_at(w.space.where[value.where], value.layout, w if owner is None else owner)
    return owner[()] if value.layout.ndim == 0 and value.layout.kind == OTHER else owner


cdef bint agrees(value, expected):
    """Whether a value equals what a guard expects; NaN equals NaN."""
    value, expected = np.asarray(value), np.asarray(expected)
    if value.shape != expected.shape:
        return False
    return bool(np.all((value == expected) | ((value != value) & (expected != expected))))


#: names of the kernel types in a schedule
KERNEL_NAMES = {NUMBERS: "scalar", VECTOR: "vector", PACKING: "pack", MOVING: "scatter", PYTHON: "call"}


def schedule(listing, bint exact=False):
    """Return the kernels to which the VM lowers a program.

    Returns
    -------
    kernels : list of (str, tuple, list of int)
        Type, iteration shape of a vector kernel, and instructions.
    registers : int
        Number of scalar registers.
    memory : int
        Bytes of a workspace: registers, chunks, and arrays that are neither inputs nor outputs.
    """
    cdef Lowering low = Lowering(listing, exact)
    steps = [((<Step>step).kind, (<Step>step).shape, np.asarray((<Step>step).members)) for step in low.steps
             if (<Step>step).members.shape[0]]
    memory = low.memory + sizeof(double) * (low.slots + WG_CHUNK * (low.chunks + 1))
    return [(KERNEL_NAMES[kind], shape, members.tolist()) for kind, shape, members in steps], low.slots, memory


def row_values(int opcode, a, b):
    """Evaluate one row of ``kernels.h`` as vector steps do."""
    cdef cnp.ndarray x = np.ascontiguousarray(a, float)
    cdef cnp.ndarray z = np.ascontiguousarray(b, float)
    cdef cnp.ndarray y = np.empty(x.size)
    wg_values(opcode, x.size, <double *>cnp.PyArray_DATA(x), <double *>cnp.PyArray_DATA(z),
              <double *>cnp.PyArray_DATA(y))
    return y
