# Indices are computed here, never supplied by a user, and Cython code divides by no user value:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Tangents and second derivatives of a tape: forward over reverse on one recording, k directions at once.

The forward sweep computes the tangents of all values (Griewank and Walther 2008, chapter 5).
The reverse sweep propagates the adjoint, in one direction, and the tangent of the adjoint, called *second* here and
stored in memory of the same layout with k directions.
Entries that are linear in their operands treat seconds as adjoints: the tape sweeps them with the two exchanged.

In-place stores are undone before the forward sweep, which redoes them for values and tangents.
At the end, also after an exception, each buffer holds the value that the function left in it.
"""

cimport cython
cimport numpy as cnp
from cpython.exc cimport PyErr_CheckSignals
from cpython.ref cimport Py_REFCNT
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

import numpy as np

from wengert.core.tape.memory cimport Block, Buffer, is_vector, owns_memory, same_shape, take, view_at
from wengert.core.modes.pullback cimport adjoint_of, seed
from wengert.core.tape.tape cimport (
    CALL, ELEMENTWISE, GATHER, REARRANGE, STORE, SUM, WG_A, WG_ADD, WG_B, WG_MULTIPLY, WG_Y, Node, Tape,
    move_adjoint, operand_value, product, pull_call, pull_node, pull_sum, source_indices, swap, wg_list, wg_range,
    wg_whole,
)
from wengert.core.operands.var cimport ArrayVar, ScalarVar

from wengert.core.modes.second_calls import (
    is_matmul, is_matrix_product, pull_cross, pull_matrices, push_matrices, recorded_pullbacks, tangent_of_call,
)
from wengert.core.dispatch.checks import check_defined, is_undefined
from wengert.core.tape.tape import kernel_rows
from wengert.errors import LevelError
from wengert.registry import strong

cnp.import_array()

cdef extern from "second_sweep.h" nogil:
    ctypedef struct wg_second:
        double *adjoint
        double *tangent
        double *second
        wg_range *tangents
        wg_range *seconds
        char **tangent_memory
        char **second_memory
        Py_ssize_t *unit

    const Py_ssize_t WG_NOT_UNIT

    ctypedef struct wg_term:
        const double *x
        const double *p
        const double *c
        Py_ssize_t x_step, c_step

    enum:
        WG_PA, WG_PB, WG_PAA, WG_PAB, WG_PBB

    wg_range wg_trimmed(const double *row, Py_ssize_t k)
    Py_ssize_t wg_tangents(const wg_list *t, const wg_second *s, Py_ssize_t i, Py_ssize_t n, Py_ssize_t k)
    Py_ssize_t wg_seconds(const wg_list *t, const wg_second *s, Py_ssize_t i, Py_ssize_t stop, Py_ssize_t k)
    Py_ssize_t wg_roll_back(const wg_list *t, Py_ssize_t i)
    void wg_column_vv(int op, int column, Py_ssize_t n, const double *a, const double *b, const double *y, double *out)
    void wg_column_vs(int op, int column, Py_ssize_t n, const double *a, const double *b, const double *y, double *out)
    void wg_column_sv(int op, int column, Py_ssize_t n, const double *a, const double *b, const double *y, double *out)
    bint wg_is_zero(int op, int column)
    bint wg_is_costly(int op)
    void wg_combine(Py_ssize_t k, Py_ssize_t n, const wg_term *terms, int count, int add, double *out,
                    Py_ssize_t out_step)
    void wg_add_sums(Py_ssize_t k, Py_ssize_t n, const double *x, Py_ssize_t x_step, const double *p, double *row)


cdef int reads[256][5]                  # operands that each column of a row reads: WG_A | WG_B | WG_Y
memset(reads, 0, sizeof(reads))

for _, _op, _, _a, _b in kernel_rows():
    reads[_op][WG_PA] = reads[_op][WG_PAA] = _a
    reads[_op][WG_PB] = reads[_op][WG_PBB] = _b
    reads[_op][WG_PAB] = _a | _b
reads[WG_MULTIPLY][WG_PAB] = 0          # d2(ab)/dadb is the constant 1


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class Jet:
    """Tangents and seconds of a buffer in k directions; None stands for 0."""
    cdef Block tangent
    cdef Block second               # tangent of the adjoint
    # Factors per element, the same in all directions, applied when tangent or second is read.
    # With them, several buffers share the memory of one tangent or second; None stands for 1.
    cdef Block weights, second_weights
    cdef Block slope_a, slope_b     # costly partials of the elementwise entry that produced the buffer
    cdef Py_ssize_t unit            # the tangent of element e is the unit vector e - unit, or WG_NOT_UNIT


cdef struct Operands:               # of an elementwise entry with contiguous arrays of equal shape
    const double *a
    const double *b
    const double *y
    double an, bn                   # values of scalar operands
    int form                        # 0: both arrays, 1: right operand scalar, 2: left operand scalar
    int scalars                     # which operands are scalars: WG_A | WG_B
    Py_ssize_t n
    double *scratch                 # memory for vectors of length n, `used` of them taken
    int used


cdef struct Factor:                 # of a term: a vector, or a scalar if p is NULL
    const double *p
    double c
    bint is_zero


@cython.final
cdef class Second:
    """The forward and reverse sweep of k directions over one tape."""

    cdef Tape tape
    cdef Py_ssize_t k
    cdef wg_second rows
    cdef Block block, scratch
    cdef Py_ssize_t position        # stores of the entries before it are in effect
    cdef bint swept                 # the reverse sweep reached the first entry
    cdef dict overwritten           # tangents overwritten by array stores, by entry
    cdef object doubtful            # a row without derivative, whose tangents are NaN, or None
    cdef set unneeded               # buffers of inputs, of which only the seconds are needed

    # ------------------------------------------------------------------------------------------ begin, end

    cdef int begin(self, Tape tape, Py_ssize_t k, bint backward) except -1:
        """Allocate zero tangents for all slots and for the buffers that scalar entries use."""
        cdef Py_ssize_t n = tape.n, m = len(tape.buffers), ranges = 2 * n * sizeof(wg_range)
        cdef Py_ssize_t pointers = 3 * m * sizeof(char *), row = n * k * sizeof(double)
        cdef Buffer buffer
        cdef Jet jet
        cdef char *data
        if tape.has_loops:
            raise LevelError(
                f"{tape.level.name}: a recorded loop or checkpointed call has no forward mode: use wengert.jvp, or "
                "pass memory=None to the loop")
        if tape.has_complex:        # callers check this
            raise LevelError(f"{tape.level.name}: recorded complex values have no forward mode")
        self.tape = tape
        self.k = k
        self.position = n
        self.swept = False
        self.overwritten = {}
        self.block = take(ranges + pointers + (2 if backward else 1) * row + 1)
        data = self.block.data
        self.rows.tangents = <wg_range *>data
        self.rows.seconds = self.rows.tangents + n
        self.rows.tangent_memory = <char **>(data + ranges)
        self.rows.second_memory = self.rows.tangent_memory + m
        self.rows.unit = <Py_ssize_t *>(self.rows.second_memory + m)
        self.rows.tangent = <double *>(data + ranges + pointers)
        self.rows.second = self.rows.tangent + n * k if backward else NULL
        memset(data, 0, self.block.size if k == 1 else ranges)      # rows of k > 1 are zeroed as their ranges grow
        tape.begin(1, False)
        self.rows.adjoint = tape.adjoint
        for buffer in tape.buffers:
            jet = jet_of(buffer)
            jet.tangent = self.zeros(buffer)
            self.rows.tangent_memory[buffer.id] = jet.tangent.data
            self.rows.unit[buffer.id] = WG_NOT_UNIT
            if backward:
                jet.second = self.zeros(buffer)
                self.rows.second_memory[buffer.id] = jet.second.data
        return 0

    cdef Block zeros(self, Buffer buffer):
        cdef Block block = take(max(1, self.k * buffer.span))
        memset(block.data, 0, self.k * buffer.span)
        return block

    cdef int end(self) except -1:
        """Redo all stores and drop all tangents and seconds."""
        cdef Buffer buffer
        cdef Node node
        self.tape.roll_forward(self.position)
        for buffer in self.tape.roots:
            buffer.jet = None
        for buffer in self.tape.buffers:
            buffer.jet = None
        if not self.swept:
            for node in self.tape.nodes:
                if node is not None:
                    for buffer in buffers_of(node):
                        buffer.jet = None
        self.tape.end()
        self.block = self.scratch = None
        self.overwritten = None
        return 0

    # ------------------------------------------------------------------------------------------ sweeps

    cdef int roll_back(self) except -1:
        """Undo all stores, so that buffers hold their values from the start of the tape."""
        cdef Py_ssize_t i = self.tape.n
        cdef Node node
        while i > 0 and self.tape.has_stores:
            i = wg_roll_back(&self.tape.entries, i)
            self.position = i + 1
            if i >= 0:
                node = <Node>self.tape.nodes[self.tape.entries.a[i]]
                if node is not None and node.kind == STORE:
                    swap(node)
        self.position = 0
        return 0

    cdef int forward(self) except -1:
        """Propagate tangents from the inputs to all values, from the first entry to the last."""
        cdef Py_ssize_t i = 0, stop, n = self.tape.n
        cdef Node node
        self.roll_back()
        while i < n:
            stop = min(n, i + PIECE)            # KeyboardInterrupt is raised between pieces
            if stop - i > 10000:
                with nogil:
                    i = wg_tangents(&self.tape.entries, &self.rows, i, stop, self.k)
            else:
                i = wg_tangents(&self.tape.entries, &self.rows, i, stop, self.k)
            self.position = i
            PyErr_CheckSignals()
            if i < stop:
                node = <Node>self.tape.nodes[self.tape.entries.a[i]]
                if node is not None:
                    self.push(node, i)
                i += 1
                self.position = i
        return 0

    cdef int backward(self) except -1:
        """Propagate adjoints and seconds from the result to the inputs, from the last entry to the first."""
        cdef Py_ssize_t i = self.tape.n, stop
        cdef Node node
        while i > 0:
            stop = max(0, i - PIECE)
            if i - stop > 10000:
                with nogil:
                    i = wg_seconds(&self.tape.entries, &self.rows, i, stop, self.k)
            else:
                i = wg_seconds(&self.tape.entries, &self.rows, i, stop, self.k)
            self.position = max(i + 1, stop)
            PyErr_CheckSignals()
            if i >= stop:
                node = <Node>self.tape.nodes[self.tape.entries.a[i]]
                if node is not None:
                    self.pull(node, i)
            i = self.position = max(i, stop)
        self.swept = self.tape.swept = True
        return 0

    # ------------------------------------------------------------------------------------------ tangents

    cdef object tangent_of(self, Buffer buffer, cnp.ndarray view, int32_t slot):
        """Tangents of an operand as an array with a leading axis of length k, or None if they are 0."""
        cdef cnp.npy_intp k = self.k
        cdef Jet jet
        if buffer is not None:
            jet = <Jet>buffer.jet
            if jet is None or jet.tangent is None:
                return None
            if jet.weights is not None:
                jet.tangent = self.product_of(buffer, jet.tangent, jet.weights)
                jet.weights = None
            return view_at(jet.tangent.data + (<char *>cnp.PyArray_DATA(view) - buffer.low), jet.tangent, view,
                           self.k, buffer.span)
        if not self.is_moving(slot):
            return None
        return cnp.PyArray_SimpleNewFromData(1, &k, cnp.NPY_DOUBLE,
                                             wg_whole(self.rows.tangent, self.rows.tangents, slot, self.k))

    cdef Block product_of(self, Buffer buffer, Block shared, Block weights):
        """Multiply out shared tangents or seconds of a buffer into newly allocated memory."""
        cdef Block block = take(max(1, self.k * buffer.span))
        cdef wg_term term = whole_term(<double *>shared.data, step(buffer), <double *>weights.data)
        wg_combine(self.k, step(buffer), &term, 1, False, <double *>block.data, step(buffer))
        return block

    cdef int own_second(self, Buffer buffer, Jet jet) except -1:
        if jet.second_weights is not None:
            jet.second = self.product_of(buffer, jet.second, jet.second_weights)
            jet.second_weights = None
        return 0

    cdef object unit_columns(self, Node node):
        """Columns of a matrix: tangents of its product with an input whose tangents are unit vectors. Else None."""
        cdef Buffer buffer
        cdef Py_ssize_t unit
        if len(node.sources) != 1 or not is_matmul(node.row, node.args):
            return None
        position, _, buffer, v, _ = node.sources[0]
        if position != 1 or buffer is None or buffer.jet is None or np.ndim(v) != 1 or v.strides != (v.itemsize,):
            return None
        unit = (<Jet>buffer.jet).unit if buffer.id < 0 else self.rows.unit[buffer.id]
        a = node.args[0]
        if unit < 0 or np.ndim(a) != 2 or v.nbytes != buffer.span or unit + self.k > len(v):
            return None
        return np.transpose(a[:, unit:unit + self.k])

    cdef bint is_moving(self, int32_t slot) noexcept:
        """Does a slot have a tangent?"""
        if self.k == 1:
            return self.rows.tangent[slot] != 0.0
        return self.rows.tangents[slot].low < self.rows.tangents[slot].high

    cdef list tangents_of(self, Node node):
        return [self.tangent_of(source[2], source[3], source[4]) for source in node.sources]

    cdef char *fresh(self, Buffer buffer) except NULL:
        """Memory for the tangents of a result, not initialised."""
        cdef Jet jet = jet_of(buffer)
        if jet.tangent is None:
            jet.tangent = take(max(1, self.k * buffer.span))
        return jet.tangent.data

    cdef int put(self, Buffer buffer, cnp.ndarray view, int32_t slot, object tangent, bint is_lent=False) except -1:
        """Set the tangents of a whole value from an array with a leading axis of length k.

        `is_lent`: nothing writes to the array until the sweep ends, so it may be used without a copy.
        """
        cdef cnp.ndarray row
        if buffer is not None:
            if (Py_REFCNT(tangent) == 1 or is_lent) and self.adopt(buffer, view, tangent, is_lent):
                return 0
            self.fresh(buffer)
            target = self.tangent_of(buffer, view, -1)
            target[...] = aligned(tangent, cnp.PyArray_NDIM(view))
            return 0
        row = <cnp.ndarray>np.ascontiguousarray(np.broadcast_to(np.reshape(tangent, -1), (self.k,)), dtype=np.float64)
        memcpy(self.rows.tangent + slot * self.k, cnp.PyArray_DATA(row), self.k * sizeof(double))
        self.rows.tangents[slot] = wg_trimmed(self.rows.tangent + slot * self.k, self.k)
        return 0

    cdef bint adopt(self, Buffer buffer, cnp.ndarray view, object tangent, bint is_lent) except -1:
        """Use an array that is lent, or not referenced elsewhere, as the tangents of a value of the same layout."""
        cdef Block block
        if (buffer.id >= 0 or type(tangent) is not np.ndarray or not is_vector(<cnp.ndarray>tangent)
                or not is_vector(view) or np.shape(tangent) != (self.k, *np.shape(view))
                or <Py_ssize_t>cnp.PyArray_NBYTES(view) != buffer.span
                or not is_lent and not (cnp.PyArray_ISWRITEABLE(<cnp.ndarray>tangent)
                                        and owns_memory(<cnp.ndarray>tangent))):
            return False
        block = Block.__new__(Block)
        block.data = <char *>cnp.PyArray_DATA(<cnp.ndarray>tangent)
        block.owner = tangent
        jet_of(buffer).tangent = block
        return True

    cdef int push(self, Node node, Py_ssize_t i) except -1:
        """Compute the tangents of the result of one array entry."""
        cdef list tangents
        if node.kind == ELEMENTWISE:
            return self.push_elementwise(node)
        if node.kind == SUM:
            return self.push_sum(node, i)
        if node.kind == STORE:
            return self.push_store(node, i)
        tangents = self.tangents_of(node)
        if not any_given(tangents):
            return 0
        if node.kind == GATHER:
            t = at_key(tangents[0], node.key)
        elif node.kind == REARRANGE:
            t = self.rearranged(node, tangents)
        else:
            self.tape.ignore_float_errors()
            y = node.y if node.y is not None else np.float64(self.tape.entries.v[i])
            if is_matrix_product(node.row, node.args):
                t = push_matrices(node.args, [source[0] for source in node.sources], tangents)
            else:
                t = self.unit_columns(node)
            if t is None:
                t = tangent_of_call(node.row, node.args, node.kwargs, operands_of(node), tangents, y)
            if t is None:
                return 0
            if node.row.undefined and is_undefined([y, *[given for given in tangents if given is not None]], t):
                self.doubtful = node.row
        return self.put(node.out, node.y, <int32_t>i, t)

    cdef object rearranged(self, Node node, list tangents):
        """Tangents of a rearrangement, gathered from those of the source elements."""
        cdef list parts = [np.zeros((self.k, 1))]
        where = source_indices(node)
        for source, t in zip(node.sources, tangents):
            size = np.size(source[3]) if source[2] is not None else 1
            parts.append(np.zeros((self.k, size)) if t is None else np.reshape(t, (self.k, size)))
        shape = (self.k,) if node.y is None else (self.k, *np.shape(node.y))
        return np.reshape(np.concatenate(parts, axis=1)[:, where], shape)

    cdef int push_sum(self, Node node, Py_ssize_t i) except -1:
        cdef double *row = self.rows.tangent + i * self.k
        cdef Jet jet = <Jet>node.abuf.jet
        if jet is None or jet.tangent is None:
            return 0
        if not is_vector(node.a):
            t = self.tangent_of(node.abuf, node.a, -1)
            return self.put(None, None, <int32_t>i, t.sum(axis=tuple(range(1, t.ndim))))
        memset(row, 0, self.k * sizeof(double))
        wg_add_sums(self.k, cnp.PyArray_SIZE(node.a), doubles(jet.tangent, node.abuf, node.a), step(node.abuf),
                    doubles(jet.weights, node.abuf, node.a), row)
        self.rows.tangents[i] = wg_trimmed(row, self.k)
        return 0

    cdef int push_store(self, Node node, Py_ssize_t i) except -1:
        """Redo a store, for the value and for its tangents."""
        cdef Jet jet = jet_of(node.out)
        t = self.tangent_of(node.sources[0][2], node.sources[0][3], node.sources[0][4]) if node.sources else None
        if jet.tangent is None and t is not None:
            jet.tangent = self.zeros(node.out)
        if jet.tangent is not None:
            place = self.tangent_of(node.out, node.y, -1)
            self.overwritten[i] = place.copy() if node.key is None else at_key(place, node.key)
            store_at(place, node.key, 0.0 if t is None else t)
            jet.unit = WG_NOT_UNIT
            if node.out.id >= 0:
                self.rows.unit[node.out.id] = WG_NOT_UNIT
        return swap(node)

    # ------------------------------------------------------------------------------------------ elementwise entries

    cdef bint find_operands(self, Node node, Operands *o) except -1:
        """Find the operands of an elementwise entry; False unless its arrays are contiguous and of equal shape."""
        cdef cnp.ndarray y = node.y
        cdef size_t size
        if not is_vector(y):
            return False
        if node.a is not None and not (is_vector(node.a) and same_shape(node.a, y)):
            return False
        if node.b is not None and not (is_vector(node.b) and same_shape(node.b, y)):
            return False
        o.n = cnp.PyArray_SIZE(y)
        size = max(1, MAX_VECTORS * o.n) * sizeof(double)
        if self.scratch is None or self.scratch.size < size:
            self.scratch = take(size)
        o.scratch = <double *>self.scratch.data
        o.used = 1                      # the first vector is a placeholder for view descriptors, which are not read
        o.scalars = 0
        o.y = o.scratch if node.descriptors & WG_Y else <double *>cnp.PyArray_DATA(y)
        if node.a is not None:
            o.a = o.scratch if node.descriptors & WG_A else <double *>cnp.PyArray_DATA(node.a)
        else:
            o.an = self.tape.entries.v[node.aslot] if node.aslot >= 0 else node.ac
            o.a = &o.an
            o.scalars |= WG_A
        if node.b is not None:
            o.b = o.scratch if node.descriptors & WG_B else <double *>cnp.PyArray_DATA(node.b)
        elif node.opcode < WG_ADD:
            o.b = o.a
        else:
            o.bn = self.tape.entries.v[node.bslot] if node.bslot >= 0 else node.bc
            o.b = &o.bn
            o.scalars |= WG_B
        o.form = 2 if o.scalars & WG_A else 1 if o.scalars & WG_B else 0
        return True

    cdef int find_slope(self, Node node, int side, Operands *o, Factor *f) except -1:
        """Partial in one operand; the forward sweep saves a costly one for the reverse sweep."""
        cdef int column = WG_PB if side else WG_PA
        cdef Block slope = None
        cdef Jet jet = <Jet>node.out.jet
        if self.rows.second == NULL or not wg_is_costly(node.opcode):
            return self.find_factor(node.opcode, column, o, f, NULL)
        if jet is not None:
            slope = jet.slope_b if side else jet.slope_a
        if slope is not None:
            f.p = <double *>slope.data
            f.is_zero = False
            return 0
        slope = take(max(1, o.n) * sizeof(double))
        self.find_factor(node.opcode, column, o, f, <double *>slope.data)
        if f.p == <double *>slope.data:
            jet = jet_of(node.out)
            if side:
                jet.slope_b = slope
            else:
                jet.slope_a = slope
        return 0

    cdef int find_factor(self, int op, int column, Operands *o, Factor *f, double *out) except -1:
        """Evaluate a column of the row of `op`: a scalar if it reads only scalar operands, else a vector.

        A vector is computed into `out`, or into scratch if that is NULL.
        """
        f.p = NULL
        f.is_zero = wg_is_zero(op, column)
        if f.is_zero:
            return 0
        if reads[op][column] & ~o.scalars == 0:
            wg_column_vv(op, column, 1, &o.an, &o.bn, &o.an, &f.c)
            f.is_zero = f.c == 0.0
        elif op == WG_MULTIPLY:
            f.p = o.b if column == WG_PA else o.a
        else:
            if out == NULL:
                out = o.scratch + o.used * o.n
                o.used += 1
            f.p = out
            if o.form == 0:
                wg_column_vv(op, column, o.n, o.a, o.b, o.y, out)
            elif o.form == 1:
                wg_column_vs(op, column, o.n, o.a, o.b, o.y, out)
            else:
                wg_column_sv(op, column, o.n, o.a, o.b, o.y, out)
        return 0

    cdef int add_term(self, Node node, int side, Operands *o, Factor *f, wg_term *terms, int count) except -1:
        """Append a term, `f` times the tangents of an operand, and return the number of terms."""
        cdef Buffer buffer = buffer_of(node, side)
        cdef int32_t slot = slot_of(node, side)
        cdef wg_term *term = &terms[count]
        cdef Jet jet
        cdef double *ones
        cdef Py_ssize_t e
        if f.is_zero:
            return count
        if buffer is not None:
            jet = <Jet>buffer.jet
            if jet is None or jet.tangent is None:
                return count
            term.x = doubles(jet.tangent, buffer, view_of(node, side))
            term.x_step = step(buffer)
            term.p = self.weighted(doubles(jet.weights, buffer, view_of(node, side)), f, o)
            term.c = &f.c
            term.c_step = 0
            return count + 1
        if slot < 0 or not self.is_moving(slot):
            return count
        term.c = wg_whole(self.rows.tangent, self.rows.tangents, slot, self.k)
        term.c_step = 1
        term.p = NULL
        term.x = f.p
        term.x_step = 0
        if f.p == NULL:
            ones = o.scratch + o.used * o.n
            o.used += 1
            for e in range(o.n):
                ones[e] = f.c
            term.x = ones
        return count + 1

    cdef const double *weighted(self, const double *weights, Factor *f, Operands *o):
        """Vector of a factor times `weights`, which may be NULL; NULL if the result is a scalar."""
        cdef wg_term term
        cdef double *w
        if weights == NULL:
            return f.p
        if f.p == NULL and f.c == 1.0:
            return weights
        w = o.scratch + o.used * o.n
        o.used += 1
        term = times_factor(weights, 0, f)
        wg_combine(1, o.n, &term, 1, False, w, 0)
        return w

    cdef Block shared_of(self, Node node, wg_term *terms, int count):
        """Find the block of which all terms are elementwise multiples, with equal factors in all directions, or None.

        Their sum is then stored as that memory and one vector of factors, and the k directions are multiplied only
        once, when they are read.
        """
        cdef Buffer buffer
        cdef Jet jet = <Jet>node.out.jet
        cdef int m, side
        if self.k < MIN_SHARED_DIRECTIONS:
            return None
        for m in range(count):
            if terms[m].x != terms[0].x or terms[m].x_step == 0:
                return None
        if jet is not None and jet.second_weights is not None and <double *>jet.second.data == terms[0].x:
            return jet.second
        for side in range(2):
            buffer = buffer_of(node, side)
            jet = None if buffer is None else <Jet>buffer.jet
            if (jet is not None and jet.tangent is not None and <double *>jet.tangent.data == terms[0].x
                    and not buffer.written and is_whole(buffer, view_of(node, side))):
                return jet.tangent
        return None

    cdef int push_elementwise(self, Node node) except -1:
        """Compute the tangent of the result: the sum of partial times tangent over the operands."""
        cdef Jet jet
        cdef Block shared
        cdef Operands o
        cdef Factor factors[2]
        cdef wg_term terms[2]
        cdef int side, count = 0
        if not self.find_operands(node, &o):
            total = None
            for side in range(2):
                t = self.side_tangent(node, side)
                if t is not None:
                    total = plus(total, product(t, self.column(node, WG_PB if side else WG_PA)))
            return 0 if total is None else self.put(node.out, node.y, -1, total)
        for side in range(2):
            if self.has_tangent(node, side):
                self.find_slope(node, side, &o, &factors[side])
                count = self.add_term(node, side, &o, &factors[side], terms, count)
        if not count:
            return 0
        shared = self.shared_of(node, terms, count) if is_whole(node.out, node.y) else None
        if shared is None:
            wg_combine(self.k, o.n, terms, count, False, <double *>self.fresh(node.out), step(node.out))
            return 0
        jet = jet_of(node.out)
        jet.tangent = shared
        jet.weights = take(max(1, node.out.span))
        add_weights(o.n, terms, count, False, <double *>jet.weights.data)
        return 0

    cdef bint has_tangent(self, Node node, int side) except -1:
        cdef Buffer buffer = buffer_of(node, side)
        cdef int32_t slot = slot_of(node, side)
        if buffer is not None:
            return buffer.jet is not None and (<Jet>buffer.jet).tangent is not None
        return slot >= 0 and self.is_moving(slot)

    cdef object side_tangent(self, Node node, int side):
        """Tangents of an operand, reshaped to as many axes as the result has; None if they are 0."""
        if not self.has_tangent(node, side):
            return None
        t = self.tangent_of(buffer_of(node, side), view_of(node, side), slot_of(node, side))
        return aligned(t, cnp.PyArray_NDIM(node.y))

    cdef object column(self, Node node, int column):
        """Evaluate a column of a row of kernels.h at operands of any layout: a scalar or an array."""
        cdef cnp.ndarray out, a, b, y
        cdef int need = reads[node.opcode][column]
        cdef double c, nothing = 0.0
        if need == 0:
            wg_column_vv(node.opcode, column, 1, &nothing, &nothing, &nothing, &c)
            return c
        out = <cnp.ndarray>np.zeros((<object>node.y).shape)
        a = broadcast(operand_value(self.tape, node, 0), out) if need & WG_A else out
        b = broadcast(operand_value(self.tape, node, 1), out) if need & WG_B else out
        y = broadcast(node.y, out) if need & WG_Y else out
        wg_column_vv(node.opcode, column, cnp.PyArray_SIZE(out), <double *>cnp.PyArray_DATA(a),
                     <double *>cnp.PyArray_DATA(b), <double *>cnp.PyArray_DATA(y), <double *>cnp.PyArray_DATA(out))
        return out

    cdef int pull_elementwise(self, Node node) except -1:
        """Add adjoint * partial to the adjoint of each operand, and to its second:
        second * partial + adjoint * (own second partial * tangent + mixed second partial * other tangent)."""
        cdef Operands o
        cdef Factor first[2]
        cdef Factor second[3]           # adjoint times second partial: in a twice, mixed, in b twice
        cdef wg_term terms[3]
        cdef wg_term weight
        cdef Jet jet = <Jet>node.out.jet
        cdef Block dual = jet.second if jet is not None else None
        cdef double *g = NULL
        cdef double *w
        cdef int side, m, count
        cdef bint is_last
        if not self.find_operands(node, &o):
            self.pull_broadcast(node)
            return pull_node(self.tape, node, -1)
        for m in range(3):
            second[m].is_zero = True
        if node.out.shadow is not None:
            g = doubles(node.out.shadow, node.out, node.y)
            for m in range(3):
                if not (m < 2 and self.has_tangent(node, 0) and has_operand(node, m)
                        or m > 0 and self.has_tangent(node, 1) and has_operand(node, m - 1)):
                    continue
                self.find_factor(node.opcode, WG_PAA + m, &o, &second[m], NULL)
                if second[m].is_zero:
                    continue
                if second[m].p == NULL and second[m].c == 1.0:
                    second[m].p = g
                    continue
                weight = times_factor(g, 0, &second[m])
                w = o.scratch + o.used * o.n
                o.used += 1
                wg_combine(1, o.n, &weight, 1, False, w, 0)
                second[m].p = w
        for side in range(1, -1, -1):
            if not has_operand(node, side):
                continue
            count = 0
            is_last = side == 0 or not has_operand(node, 0)
            self.find_slope(node, side, &o, &first[side])
            if dual is not None and not first[side].is_zero:
                terms[0] = times_factor(doubles(dual, node.out, node.y), step(node.out), &first[side])
                terms[0].p = self.weighted(doubles(jet.second_weights, node.out, node.y), &first[side], &o)
                count = 1
            count = self.add_term(node, side, &o, &second[2 if side else 0], terms, count)
            count = self.add_term(node, 1 - side, &o, &second[1], terms, count)
            if count:
                self.add_terms(node, side, &o, terms, count, is_last and dual is not None
                               and jet.second_weights is None and not first[side].is_zero)
        if g != NULL:       # last, since the adjoint is dead after it and its memory may be reused
            for side in range(1, -1, -1):
                if has_operand(node, side) and not first[side].is_zero:
                    self.add_adjoint(node, side, &o, times_factor(g, 0, &first[side]),
                                     side == 0 or not has_operand(node, 0))
        return self.tape.drop_shadow(node.out)

    cdef int add_adjoint(self, Node node, int side, Operands *o, wg_term term, bint give) except -1:
        """Add adjoint of the result * partial to the adjoint of an operand; `give` as in `add_terms`."""
        cdef Buffer buffer = buffer_of(node, side)
        cdef char *adjoint
        cdef double *w
        cdef bint add
        if self.tape.is_unneeded(buffer):
            return 0
        if buffer is None:
            w = o.scratch + o.used * o.n
            wg_combine(1, o.n, &term, 1, False, w, 0)
            wg_add_sums(1, o.n, w, 0, NULL, self.rows.adjoint + slot_of(node, side))
            return 0
        give = give and buffer.span == node.out.span
        add = self.tape.target(buffer, view_of(node, side), node.out.shadow if give else None, &adjoint)
        wg_combine(1, o.n, &term, 1, add, <double *>adjoint, 0)
        return 0

    cdef int add_terms(self, Node node, int side, Operands *o, wg_term *terms, int count, bint give) except -1:
        """Add terms to the second of an operand; for a scalar operand sum them over all elements.

        `give`: the first term is the second of the result, which is dead afterwards, so its memory may be reused.
        """
        cdef Buffer buffer = buffer_of(node, side)
        cdef cnp.ndarray view = view_of(node, side)
        cdef int32_t slot = slot_of(node, side)
        cdef Block block, shared
        cdef Jet jet
        cdef bint is_fresh
        if buffer is None:
            block = take(max(1, self.k * o.n) * sizeof(double))
            wg_combine(self.k, o.n, terms, count, False, <double *>block.data, o.n)
            wg_add_sums(self.k, o.n, <double *>block.data, o.n, NULL,
                        wg_whole(self.rows.second, self.rows.seconds, slot, self.k))
            return 0
        jet = jet_of(buffer)
        if is_whole(buffer, view) and (jet.second is None or jet.second_weights is not None):
            shared = self.shared_of(node, terms, count)
            if shared is not None and (jet.second is None or jet.second.data == shared.data):
                is_fresh = jet.second is None
                if is_fresh:
                    jet.second = shared
                    jet.second_weights = take(max(1, buffer.span))
                add_weights(o.n, terms, count, not is_fresh, <double *>jet.second_weights.data)
                return 0
        self.own_second(buffer, jet)
        is_fresh = (jet.second is None and <char *>cnp.PyArray_DATA(view) == buffer.low
                    and buffer.span == <Py_ssize_t>cnp.PyArray_NBYTES(view))
        if is_fresh and give and buffer.span == node.out.span:
            jet.second = (<Jet>node.out.jet).second     # elementwise, so it may overwrite its operand
        elif is_fresh:
            jet.second = take(max(1, self.k * buffer.span))
        elif jet.second is None:
            jet.second = self.zeros(buffer)
        wg_combine(self.k, o.n, terms, count, not is_fresh, doubles(jet.second, buffer, view), step(buffer))
        return 0

    cdef int pull_broadcast(self, Node node) except -1:
        """Do the same in NumPy, for operands that broadcast or are not contiguous."""
        cdef int side
        cdef Buffer buffer
        g = dual = None
        if node.out.shadow is not None:
            g = self.tape.adjoint_view(node.out, node.y)
        if node.out.jet is not None and (<Jet>node.out.jet).second is not None:
            dual = self.second_of(node)
        for side in range(1, -1, -1):       # the left operand comes last: it may reuse the memory of the second
            if not has_operand(node, side):
                continue
            total = None
            if dual is not None:
                total = product(dual, self.column(node, WG_PB if side else WG_PA))
            if g is not None:
                for own, t in ((True, self.side_tangent(node, side)), (False, self.side_tangent(node, 1 - side))):
                    column = (WG_PBB if side else WG_PAA) if own else WG_PAB
                    if t is not None and not wg_is_zero(node.opcode, column):
                        total = plus(total, strong(t, product(g, self.column(node, column))))
            if total is None:
                continue
            buffer = buffer_of(node, side)
            if total is dual and side == 0 and is_whole(buffer, node.a) and is_whole(node.out, node.y) \
                    and same_shape(node.a, node.y) and jet_of(buffer).second is None:
                jet_of(buffer).second = (<Jet>node.out.jet).second
            else:
                self.accumulate(buffer, view_of(node, side), slot_of(node, side), total, True)
        return 0

    # ------------------------------------------------------------------------------------------ seconds

    cdef object second_of(self, Node node):
        """Second of an array result, with a leading axis of length k."""
        cdef Jet jet = <Jet>node.out.jet
        self.own_second(node.out, jet)
        return view_at(<char *>doubles(jet.second, node.out, node.y), jet.second, node.y, self.k, node.out.span)

    cdef int enter(self, list buffers) except -1:
        """Make the tape sweep the seconds of these buffers, in k directions, in place of their adjoints."""
        self.tape.k = self.tape.width = self.k
        self.tape.stacked = True
        self.tape.unneeded = None
        self.tape.adjoint = self.rows.second
        self.tape.ranges = self.rows.seconds
        self.exchange(buffers)
        return 0

    cdef int leave(self, list buffers) except -1:
        self.tape.k = self.tape.width = 1
        self.tape.stacked = False
        self.tape.unneeded = self.unneeded
        self.tape.adjoint = self.rows.adjoint
        self.exchange(buffers)
        return 0

    cdef int exchange(self, list buffers) except -1:
        cdef Buffer buffer
        cdef Jet jet
        for buffer in buffers:
            jet = jet_of(buffer)
            self.own_second(buffer, jet)
            buffer.shadow, jet.second = jet.second, buffer.shadow
            if buffer.id >= 0:
                self.tape.entries.shadow[buffer.id] = NULL if buffer.shadow is None else buffer.shadow.data
                self.rows.second_memory[buffer.id] = NULL if jet.second is None else jet.second.data
        return 0

    cdef int accumulate(self, Buffer buffer, cnp.ndarray view, int32_t slot, object total,
                        bint owned=False) except -1:
        """Add to the second of an operand, summing over broadcast axes."""
        cdef list buffers = [] if buffer is None else [buffer]
        self.enter(buffers)
        self.tape.accumulate(buffer, view, slot, total, owned)
        return self.leave(buffers)

    cdef int pull(self, Node node, Py_ssize_t i) except -1:
        """Reverse one array entry: first the seconds, which need the adjoint of its result, then the adjoints."""
        cdef bint has_adjoint, has_second
        if node.out is None:
            has_adjoint = self.rows.adjoint[i] != 0.0
            has_second = (self.rows.second[i] != 0.0 if self.k == 1
                          else self.rows.seconds[i].low < self.rows.seconds[i].high)
        else:
            has_adjoint = node.out.shadow is not None
            has_second = node.out.jet is not None and (<Jet>node.out.jet).second is not None
        if node.kind == STORE:
            return self.pull_store(node, i, has_second)
        if node.kind == ELEMENTWISE:
            if has_adjoint or has_second:
                self.pull_elementwise(node)
        else:
            if node.kind == CALL and has_adjoint and node.row.curvature != "none":
                self.pull_curved(node, i, has_second)
            elif has_second:
                self.pull_linear(node, i)
            if has_adjoint:
                pull_node(self.tape, node, i)
        if node.out is not None:
            node.out.jet = None
        return 0

    cdef int pull_linear(self, Node node, Py_ssize_t i) except -1:
        """Apply the tape's adjoint rule for an entry to the seconds."""
        cdef list buffers = buffers_of(node)
        if node.out is None:
            wg_whole(self.rows.second, self.rows.seconds, i, self.k)
        self.enter(buffers)
        if node.kind == STORE:
            move_adjoint(self.tape, node)
        elif node.kind == SUM:
            pull_sum(self.tape, node, i)
        else:
            pull_call(self.tape, node, i)
        return self.leave(buffers)

    cdef int pull_store(self, Node node, Py_ssize_t i, bint has_second) except -1:
        if has_second:
            self.pull_linear(node, i)
        overwritten = self.overwritten.pop(i, None)
        if overwritten is not None:
            store_at(self.tangent_of(node.out, node.y, -1), node.key, overwritten)
        return pull_node(self.tape, node, i)

    cdef int pull_curved(self, Node node, Py_ssize_t i, bint has_second) except -1:
        """Seconds of a call with curvature, whose pullback depends on operands that have tangents."""
        cdef list tangents = self.tangents_of(node)
        cdef tuple source
        is_curved = any_given(tangents)
        self.tape.ignore_float_errors()
        if is_matrix_product(node.row, node.args):
            return self.pull_matrix_product(node, tangents, has_second)
        if has_second:
            self.pull_linear(node, i)
        if not is_curved:
            return 0
        y = node.y if node.y is not None else np.float64(self.tape.entries.v[i])
        g = self.tape.cotangent_of(node, i)
        if node.row.curvature == "cross" and node.row.kind != "elementwise":
            found = pull_cross(node.row, node.args, node.kwargs, operands_of(node), tangents, g, y)
        else:
            rule, inputs, moving, outputs = recorded_pullbacks(
                node.row, node.args, node.kwargs, operands_of(node), tangents, g, y,
                self.tangent_of(node.out, node.y, <int32_t>i))
            try:
                found = push_forward(rule, inputs, outputs, moving, self.k)
            finally:
                rule.close()
        for source, total in zip(node.sources, found):
            if total is not None:
                self.accumulate(source[2], source[3], source[4], total)
        return 0

    cdef int pull_matrix_product(self, Node node, list tangents, bint has_second) except -1:
        """Seconds and adjoints of a product of two matrices, computed as matrix products."""
        cdef list moving = [None, None]
        cdef tuple source
        for source, t in zip(node.sources, tangents):
            moving[source[0]] = t
        dual = self.second_of(node) if has_second else None
        g = self.tape.adjoint_view(node.out, node.y)
        for source in node.sources:
            total = pull_matrices(node.args, source[0], moving, g, dual)
            if total is not None:
                self.accumulate(source[2], source[3], source[4], total, True)
            if not self.tape.is_unneeded(source[2]):
                total = pull_matrices(node.args, source[0], [None, None], None, g)
                self.tape.accumulate(source[2], source[3], source[4], total, True)
        return self.tape.drop_shadow(node.out)

    # ------------------------------------------------------------------------------------------ seeds and results

    cdef list checked(self, list found):
        """Return the results; raise if one is the NaN of a row without derivative."""
        for t in found:
            check_defined(self.doubtful, t)
        return found

    cdef int seed_tangents(self, list inputs, object tangents) except -1:
        """Seed with one array per input, or with rows `first` to `last` of the identity for a pair of ints."""
        cdef Py_ssize_t first
        if type(tangents) is tuple:
            first = tangents[0]
            for x in inputs:
                if type(x) is ArrayVar and is_vector((<ArrayVar>x).v):
                    self.seed_units((<ArrayVar>x).buffer, cnp.PyArray_SIZE((<ArrayVar>x).v), first)
                else:
                    self.seed_tangent(x, np.eye(self.k, x.size, first).reshape((self.k, *x.shape)))
                first -= x.size
            return 0
        for x, t in zip(inputs, tangents):
            self.seed_tangent(x, t)
        return 0

    cdef int seed_units(self, Buffer buffer, Py_ssize_t size, Py_ssize_t first) except -1:
        """Seed direction j with the unit vector of element ``first + j``, if that exists."""
        cdef double *data = <double *>self.fresh(buffer)
        cdef Py_ssize_t j
        if buffer.id < 0:
            memset(data, 0, self.k * buffer.span)
        else:
            self.rows.unit[buffer.id] = first
        for j in range(max(0, -first), min(self.k, size - first)):
            data[j * size + first + j] = 1.0
        jet_of(buffer).unit = first
        return 0

    cdef int seed_tangent(self, object x, object tangent) except -1:
        if type(x) is ScalarVar:
            return self.put(None, None, (<ScalarVar>x).slot, tangent)
        return self.put((<ArrayVar>x).buffer, (<ArrayVar>x).v, -1, tangent, not (<ArrayVar>x).buffer.written)

    cdef int mark_unneeded_adjoints(self, list inputs) except -1:
        self.unneeded = {(<ArrayVar>x).buffer for x in inputs
                         if type(x) is ArrayVar and not (<ArrayVar>x).buffer.written}
        self.tape.unneeded = self.unneeded
        return 0

    cdef object tangent_of_output(self, object y):
        """Copy of the tangents of an output."""
        t = None
        if type(y) is list or type(y) is tuple:         # scalars that represent an array
            return np.stack([self.tangent_of_output(item) for item in y], axis=-1)
        if type(y) is ScalarVar:
            t = self.tangent_of(None, None, (<ScalarVar>y).slot)
        elif type(y) is ArrayVar and (<ArrayVar>y).buffer.level is self.tape.level:
            t = self.tangent_of((<ArrayVar>y).buffer, (<ArrayVar>y).v, -1)
        return np.zeros((self.k, *np.shape(y))) if t is None else t.copy()

    cdef list second_of_inputs(self, list inputs):
        """Second of each input, with a leading axis of length k."""
        cdef list buffers = [(<ArrayVar>x).buffer for x in inputs if type(x) is ArrayVar]
        self.enter(buffers)
        found = [adjoint_of(self.tape, x) for x in inputs]
        self.leave(buffers)
        return found


cdef enum:
    PIECE = 1000000         # entries swept between checks for KeyboardInterrupt
    MAX_VECTORS = 24        # capacity of the scratch: most partials, weights and constants of one elementwise entry
    MIN_SHARED_DIRECTIONS = 8   # with fewer directions tangents do not share memory


cdef inline Jet jet_of(Buffer buffer):
    if buffer.jet is None:
        buffer.jet = Jet.__new__(Jet)
        (<Jet>buffer.jet).unit = WG_NOT_UNIT
    return <Jet>buffer.jet


cdef inline bint is_whole(Buffer buffer, cnp.ndarray view):
    """Does a view cover its buffer, and does no scalar entry use it?"""
    return (buffer is not None and buffer.id < 0 and is_vector(view)
            and buffer.span == <Py_ssize_t>cnp.PyArray_NBYTES(view))


cdef inline double *doubles(Block block, Buffer buffer, cnp.ndarray view):
    """Address of a view in a block with its buffer's layout; NULL without a block."""
    return NULL if block is None else <double *>(block.data + (<char *>cnp.PyArray_DATA(view) - buffer.low))


cdef inline Py_ssize_t step(Buffer buffer):
    """Stride between directions, in doubles."""
    return buffer.span // <Py_ssize_t>sizeof(double)


cdef inline wg_term whole_term(const double *x, Py_ssize_t x_step, const double *p) noexcept:
    cdef wg_term term
    term.x = x
    term.x_step = x_step
    term.p = p
    term.c = NULL
    term.c_step = 0
    return term


cdef inline wg_term times_factor(const double *x, Py_ssize_t x_step, Factor *f) noexcept:
    cdef wg_term term = whole_term(x, x_step, f.p)
    term.c = &f.c
    return term


cdef void add_weights(Py_ssize_t n, const wg_term *terms, int count, bint add, double *out) noexcept:
    """out (+)= the sum of the factors of the terms."""
    cdef int m
    cdef Py_ssize_t i
    for m in range(count):
        for i in range(n):
            out[i] = (out[i] if add or m else 0.0) + (terms[m].c[0] if terms[m].p == NULL else terms[m].p[i])


cdef inline Buffer buffer_of(Node node, int side):
    return node.bbuf if side else node.abuf


cdef inline cnp.ndarray view_of(Node node, int side):
    return node.b if side else node.a


cdef inline int32_t slot_of(Node node, int side) noexcept:
    return node.bslot if side else node.aslot


cdef inline bint has_operand(Node node, int side):
    return buffer_of(node, side) is not None or slot_of(node, side) >= 0


cdef list buffers_of(Node node):
    """Distinct buffers that an entry refers to."""
    cdef list found = []
    for buffer in (node.out, node.abuf, node.bbuf, *[source[2] for source in node.sources or ()]):
        if buffer is not None and buffer not in found:
            found.append(buffer)
    return found


cdef list operands_of(Node node):
    return [(source[0], source[1]) for source in node.sources]


cdef object aligned(object t, int ndim):
    """Insert axes of length 1 after that of the directions, so that tangents broadcast with the result."""
    shape = t.shape
    if len(shape) == ndim + 1:
        return t
    return t.reshape(shape[:1] + (1,) * (ndim + 1 - len(shape)) + shape[1:])


cdef bint any_given(list items):
    for item in items:
        if item is not None:
            return True
    return False


cdef object plus(object total, object term):
    return term if total is None else total + term


cdef cnp.ndarray broadcast(object x, cnp.ndarray like):
    return <cnp.ndarray>np.ascontiguousarray(np.broadcast_to(x, (<object>like).shape))


cdef object at_key(object t, object key):
    """Elements at an index, taken per direction, since a leading axis would move the axes of some indices."""
    return np.stack([direction[key] for direction in t])


cdef int store_at(object place, object key, object t) except -1:
    cdef Py_ssize_t j
    if key is None:
        place[...] = t if np.ndim(t) == 0 else aligned(t, place.ndim - 1)
        return 0
    for j in range(len(place)):
        place[j, ...][key] = t if np.ndim(t) == 0 else t[j]
    return 0


def push_forward(Tape tape, list inputs, list outputs, tangents, Py_ssize_t k):
    """Tangents of the outputs for k tangents of each input, by one forward sweep; the leading axis is k long."""
    cdef Second sweep = Second.__new__(Second)
    sweep.begin(tape, k, False)
    try:
        sweep.seed_tangents(inputs, tangents)
        sweep.forward()
        return sweep.checked([sweep.tangent_of_output(y) for y in outputs])
    finally:
        sweep.end()


def hessian_products(Tape tape, list inputs, output, tangents, Py_ssize_t k):
    """Products of the Hessian of a scalar with k tangents: for each input an array with a leading axis of length k.

    `tangents` holds one array per input, or is a pair ``(first, last)``: rows of the identity over all elements.
    """
    cdef Second sweep = Second.__new__(Second)
    sweep.begin(tape, k, True)
    try:
        sweep.seed_tangents(inputs, tangents)
        sweep.forward()
        seed(tape, output, 1.0)
        sweep.mark_unneeded_adjoints(inputs)
        sweep.backward()
        return sweep.checked(sweep.second_of_inputs(inputs))
    finally:
        sweep.end()


def symmetrise(matrix):
    """Mean of a square matrix and its transpose, exactly symmetric; computed in place if possible."""
    cdef Py_ssize_t n = len(matrix), i, j, block, low
    cdef double *h
    cdef double mean
    if not is_vector(<cnp.ndarray?>matrix) or not cnp.PyArray_ISWRITEABLE(<cnp.ndarray>matrix):
        return 0.5 * (matrix + matrix.T)
    h = <double *>cnp.PyArray_DATA(<cnp.ndarray>matrix)
    for block in range(0, n, 16):               # blocks of columns that stay in cache
        for i in range(n):
            low = max(block, i + 1)
            for j in range(low, min(block + 16, n)):
                if h[i * n + j] != h[j * n + i]:
                    mean = 0.5 * h[i * n + j] + 0.5 * h[j * n + i]
                    h[i * n + j] = h[j * n + i] = mean
    return matrix


def kernel_second_partials(int opcode, double a, double b, double y):
    """Second partials of one row of ``kernels.h`` at one point: d2/da2, d2/dadb, d2/db2."""
    cdef double out[3]
    cdef int m
    for m in range(3):
        out[m] = 0.0
        if opcode >= WG_ADD or m == 0:
            wg_column_vv(opcode, WG_PAA + m, 1, &a, &b, &y, &out[m])
    return out[0], out[1], out[2]
