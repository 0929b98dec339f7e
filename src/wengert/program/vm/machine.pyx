# cython: language_level=3, boundscheck=False, initializedcheck=False, cdivision=True
"""The virtual machine that runs a listing.

A `Machine` is built once and runs any number of times, in any number of threads at once: each run has its own
workspace, and idle workspaces are kept for later runs.
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
from wengert.program.vm.runner cimport Repeated, Run

from wengert.errors import GuardError
from wengert.program.ir.call import Call, Operand, fold_of, product_of
from wengert.program.ir.native_calls import native_call, native_guard, native_pack, native_place
from wengert.program.ir.native_elements import EXACT_FOLDS
from wengert.program.ir.native_operands import PRODUCT, NativeCall, Packed
from wengert.program.ir.opcode_table import ROWS, function
from wengert.program.ir.verify import check
from wengert.program.passes import cost, pipeline
from wengert.program.passes.loop import Loop
from wengert.program.ir.view_overlap import disjoint
from wengert.registry import lookup

cnp.import_array()

cdef extern from "Python.h":
    PyObject **PySequence_Fast_ITEMS(object items)

cdef extern from "numpy/ufuncobject.h":
    ctypedef struct PyUFuncObject:
        int nargs, ntypes
        loop_function *functions
        void *const *data
        const char *types

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

    ctypedef int (*wg_kernel)(const wg_native *call, char **operands, char *out, char *spare) noexcept nogil

    ctypedef struct wg_operand:
        int32_t array, slot
        const char *constant
        int conversion, ndim, is_packed
        const Py_ssize_t *shape
        const Py_ssize_t *strides
        Py_ssize_t size, bytes

    ctypedef struct wg_inner_loop:
        loop_function run
        void *data

    ctypedef struct wg_native:
        wg_kernel run
        const int64_t *params
        int count
        const wg_operand *operands
        wg_operand result
        Py_ssize_t spare
        wg_inner_loop loops[2]

    ctypedef struct wg_named_kernel:
        const char *name
        wg_kernel run

    const wg_named_kernel wg_named_kernels[]

    enum:
        WG_T_BOOL, WG_T_INT, WG_T_DOUBLE, WG_T_COMPLEX
        WG_SAME_1, WG_SAME_8, WG_SAME_16, WG_BOOL_INT, WG_BOOL_DOUBLE, WG_INT_DOUBLE, WG_DOUBLE_COMPLEX, WG_DOUBLE_BOOL,
        WG_DOUBLE_INT

    ctypedef struct wg_product:
        int32_t left, right, slot
        const double *constants[2]
        Py_ssize_t m, k, n, left_row, left_column, right_row, right_column

    ctypedef struct wg_step:
        int kind
        const wg_code *code
        Py_ssize_t count
        double work
        int ndim, first, chunks, walks, numbers, fills, sums, rows, pitch
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
        const wg_native *native
        compiled_step run
        const int32_t *table
        Py_ssize_t entries, block, length

    ctypedef struct wg_space:
        double *slots
        char **where
        double *scratch
        double **chunk
        Py_ssize_t *index
        char *native
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
        WG_NUMBERS, WG_VECTOR, WG_COPY, WG_PACK, WG_PUT, WG_SCATTER, WG_PRODUCT, WG_COMPILED, WG_NATIVE, WG_PYTHON
        WG_MAX_PACKED
        WG_M_POSITIVE, WG_M_LOOP, WG_M_LOAD, WG_M_LOAD_BOOL, WG_M_GUARD, WG_M_GUARD_INT, WG_M_END
        WG_ERFC, WG_POWER, WG_SQRT, WG_RECIPROCAL, WG_DIVIDE, WG_LOG
        WG_M_EXACT, WG_M_GET, WG_M_PUT, WG_M_GET_BOOL, WG_M_PUT_BOOL, WG_M_SUM, WG_M_GATHER
        WG_M_ONE, WG_M_FOLD, WG_M_SUM_ROWS, WG_M_GET_ROWS, WG_M_PUT_ROWS, WG_M_GET_BOOL_ROWS, WG_M_PUT_BOOL_ROWS
        WG_M_ADD, WG_M_MULTIPLY, WG_M_STRONG, WG_M_QUOTIENT

    enum:
        WG_DEBUG, WG_FENCE

    Py_ssize_t wg_run(const wg_step *steps, Py_ssize_t i, Py_ssize_t count, const wg_space *w, int32_t *failed)
    ctypedef struct wg_named_op:
        const char *name
        int op

    const wg_named_op wg_named_ops[]
    int wg_machine_op(int op)
    int wg_pair_op(int first, int second, int side)
    bint wg_is_vector_code(int op)
    bint wg_is_correctly_rounded(int op)
    int wg_call_helpers(int wanted)
    void wg_forget_helpers()
    long wg_shared_tasks()

# lowering of a listing
include "vm_opcodes.pxi"
include "values.pxi"
include "lower.pxi"
include "idioms.pxi"
include "scheduling.pxi"
include "allocation.pxi"
include "selection.pxi"
include "vector_selection.pxi"
include "bounds.pxi"
# parts of the VM
include "threads.pxi"
include "workspace.pxi"
include "native.pxi"

cdef double MIN_WORK_WITHOUT_GIL = 20000.0      # release the GIL for at least this many operations without Python


@cython.final
cdef class Machine(Run):
    """A listing lowered to VM instructions, with the workspaces to run them.

    `exact`: elementwise instructions run the same loops as the eager engine, and sums keep NumPy's order.
    `disabled`: passes disabled for parts that are built later: loop bodies and the LLVM tier.
    """

    cdef readonly bint exact
    cdef wg_step *steps
    cdef wg_loop *loops
    cdef double *work               # by VM instruction: operations from there until the next Python step
    cdef list kept                  # owners of memory that VM instructions point to
    cdef char *free                 # free part of the current arena block
    cdef size_t left                # its size in bytes
    cdef list python                # by VM instruction: the Python step, or None
    cdef list allocs, constants
    cdef readonly list guards
    cdef list seen                  # allocations visible to users: inputs, constants, outputs
    cdef list passing               # allocations that belong to one run
    cdef list inputs, outputs       # Values
    cdef double[::1] numbers        # initial contents of the slots
    cdef Py_ssize_t memory, arrays, chunks, sums, pointers, axes, blocks, entries, native_bytes
    cdef bint wants_help            # whether an instruction is long enough to be shared among threads
    cdef list spaces
    cdef readonly str tier          # "auto", "vm" or "llvm"
    cdef object disabled            # names of disabled passes
    cdef readonly object report     # of the LLVM tier: which VM instructions were compiled
    cdef Machine llvm_vm            # the VM of the LLVM tier
    cdef object listing             # until the LLVM tier is built
    cdef readonly Py_ssize_t runs, due  # runs so far, and the run before which the LLVM tier is built; 0: never
    cdef readonly Py_ssize_t count
    cdef tuple read                 # indices of the inputs that are read, if later runs may reuse outputs; else None
    cdef tuple kept_run             # copies of these inputs, and the outputs
    cdef int changes                # consecutive runs in which these inputs had changed

    def __init__(self, listing, exact=False, tier="vm", disabled=frozenset()):
        cdef Lowering low = Lowering(listing, exact)
        self.tier, self.disabled = tier, disabled
        assemble(self, low, listing)
        self.read = inputs_to_compare(self, low)
        if tier != "vm":
            self.listing = listing
        if tier == "llvm":
            build_llvm(self)
        elif tier == "auto" and not exact:
            self.due = runs_to_pay(self)

    def __dealloc__(self):
        PyMem_RawFree(self.steps)
        PyMem_RawFree(self.loops)
        PyMem_RawFree(self.work)

    @property
    def bodies(self):
        """VMs of the loop bodies."""
        if self.llvm_vm is not None:
            return self.llvm_vm.bodies
        return [(<PythonStep>step).compute.machine for step in self.python
                if step is not None and type((<PythonStep>step).compute) is LoopKernel]

    @property
    def bytes(self):
        """Bytes of arrays in a workspace."""
        return self.memory

    # ------------------------------------------------------------------------------------------ runs

    def run(self, inputs, list out=None):
        """Return the outputs: new arrays and NumPy scalars, or the arrays of `out`, written in place."""
        result = self.completed(inputs, out)
        if type(result) is int:
            expected, place = self.guards[result][:2]
            raise GuardError(f"{place}: the recorded path needs {expected!r} here")
        return result

    def attempt(self, inputs, list out=None):
        """Like `run`, but return an int on failure: the index of a guard, or -1 if a call raises `GuardError`."""
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
        found = kept_outputs(self, read, inputs)
        if found is None:
            found = self.computed(inputs, None)
            if type(found) is not list:
                return found
            keep_outputs(self, read, inputs, found)
        if out is not None:
            for j in range(len(found)):
                if out[j] is not None:
                    out[j][...] = found[j]
                    found[j] = out[j]
        return found

    @cython.wraparound(False)
    cdef object computed(self, inputs, list out):
        if self.is_replaced(1):
            return self.llvm_vm.computed(inputs, out)
        cdef Workspace w = self.spaces.pop() if self.spaces else new_workspace(self)
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
            self.put_back(w)
        if out is not None:
            for j in range(len(results)):
                if out[j] is not None and out[j] is not results[j]:
                    results[j] = written(out[j], results[j])
        return results

    cdef object single(self, PyObject **inputs, Py_ssize_t count, given):
        cdef Workspace w
        cdef Value value
        cdef PyObject *out = <PyObject *>given
        cdef int32_t failed
        if self.read is not None:
            if given is None and is_kept(self, self.read, inputs, count):
                value = self.outputs[0]
                return self.kept_run[1][0] if value.is_scalar else copied(self.kept_run[1][0], value.layout)
            found = self.completed([<object>inputs[j] for j in range(count)], None if given is None else [given])
            return found if type(found) is int else found[0]
        if self.is_replaced(1):
            return self.llvm_vm.single(inputs, count, given)
        w = self.spaces.pop() if self.spaces else new_workspace(self)
        try:
            failed = self.run_in(w, inputs, count, &out)
            if failed >= 0:
                return failed
            value = self.outputs[0]
            y = self.result(w, value)
        finally:
            self.put_back(w)
        return y if given is None or given is y else written(given, y)

    cdef bint is_replaced(self, Py_ssize_t runs) except -1:
        """Count runs, build the LLVM tier when it is due, and return whether it replaces this VM."""
        if self.llvm_vm is None and self.due > 0:
            self.runs += runs
            if self.runs >= self.due:
                try_build_llvm(self)
        return self.llvm_vm is not None

    cdef int put_back(self, Workspace w) except -1:
        """Drop the arrays of a run but keep its workspace for later runs."""
        cdef Allocation alloc
        for alloc in self.passing:
            w.objects[alloc.number] = None
        self.spaces.append(w)
        return 0

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

    @property
    def keeps(self):
        """Whether a run reuses the previous outputs if the inputs that it reads have not changed."""
        return self.read is not None

    # ------------------------------------------------------------------------------------------ loops

    @cython.wraparound(False)
    def loop(self, loop, tuple values):
        """Return the result of a loop whose body this VM runs."""
        if self.is_replaced(loop.steps):
            return self.llvm_vm.loop(loop, values)
        cdef Workspace w = self.spaces.pop() if self.spaces else new_workspace(self)
        try:
            return run_loop(self, w, loop, values)
        finally:
            self.put_back(w)

    def bound(self, list inputs, list outputs):
        """Return a `BoundRun` on these arrays."""
        self.is_replaced(0)
        return BoundRun(self, inputs, outputs)

    cdef int run_steps(self, Workspace w) except -2:
        """Run all VM instructions; return the index of a failed guard, or -1."""
        return self.run_from(w, 0, False)

    cdef int run_from(self, Workspace w, Py_ssize_t i, bint is_declined) except -2:
        """Like `run_steps`, but start at instruction `i`; with `is_declined`, run that one in Python."""
        cdef int32_t failed = -1
        while True:
            if is_declined:
                is_declined = False
            elif self.work[i] > MIN_WORK_WITHOUT_GIL:
                with nogil:
                    i = wg_run(self.steps, i, self.count, &w.space, &failed)
            else:
                i = wg_run(self.steps, i, self.count, &w.space, &failed)
            if WG_DEBUG:
                w.check_fences()
            if failed >= 0 or i == self.count:
                return failed
            failed = run_python(self, w, self.python[i])
            if failed >= 0:
                return failed
            i += 1

    cdef bint may_write(self, Workspace w, given, Allocation alloc) except -1:
        """Return whether an output can be computed directly in an array: it fits and overlaps no visible array."""
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
        return y[()] if value.layout.ndim == 0 else y       # a scalar of another dtype


include "assembly.pxi"
include "python_steps.pxi"
include "output_reuse.pxi"
include "llvm_tier.pxi"
include "loop_runs.pxi"
include "bound_runs.pxi"


cdef object written(out, y):
    out[...] = y
    return out


#: names of the kernel types in a schedule
KERNEL_NAMES = {NUMBERS: "scalar", VECTOR: "vector", PACKING: "pack", MOVING: "scatter", NATIVE: "native",
                PYTHON: "call"}


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
    kernels = [(KERNEL_NAMES[(<Step>step).kind], (<Step>step).shape, (<Step>step).listed()) for step in low.steps
               if (<Step>step).members.shape[0]]
    return kernels, low.slots, low.memory + sizeof(double) * (low.slots + WG_CHUNK * (low.chunks + 1))
