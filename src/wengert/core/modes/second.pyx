# Bounds checks are off, since users supply no indices here; C division is on, since they supply no divisors:
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
    CALL, ELEMENTWISE, GATHER, REARRANGE, STORE, SUM, VECTORS, WG_A, WG_ADD, WG_B, WG_MULTIPLY, WG_Y, Node, Tape,
    kernel_operands, move_adjoint, operand_value, product, pull_call, pull_node, pull_sum, source_indices, swap,
    wg_list, wg_range, wg_whole,
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

    wg_range wg_trimmed(const double *row, Py_ssize_t k)
    Py_ssize_t wg_tangents(const wg_list *t, const wg_second *s, Py_ssize_t i, Py_ssize_t n, Py_ssize_t k)
    Py_ssize_t wg_seconds(const wg_list *t, const wg_second *s, Py_ssize_t i, Py_ssize_t stop, Py_ssize_t k)
    Py_ssize_t wg_roll_back(const wg_list *t, Py_ssize_t i)
    void wg_combine(Py_ssize_t k, Py_ssize_t n, const wg_term *terms, int count, int add, double *out,
                    Py_ssize_t out_step)
    void wg_add_sums(Py_ssize_t k, Py_ssize_t n, const double *x, Py_ssize_t x_step, const double *p, double *row)


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
    cdef Py_ssize_t unit            # the tangent of element e is unit vector number e - unit; or WG_NOT_UNIT


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
    cdef object doubtful            # row of a function without derivative here, whose tangents are NaN; or None
    cdef set unneeded               # buffers of inputs whose adjoints are not needed, only their seconds

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
        """Restore the final contents of all arrays, and forget tangents and second-order adjoints."""
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
        """Return the tangents of ``A @ v`` as columns of A if the tangents of v are unit vectors, else None."""
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
        """Return whether a slot has a tangent."""
        if self.k == 1:
            return self.rows.tangent[slot] != 0.0
        return self.rows.tangents[slot].low < self.rows.tangents[slot].high

    cdef list tangents_of(self, Node node):
        return [self.tangent_of(source[2], source[3], source[4]) for source in node.sources]

    cdef char *fresh(self, Buffer buffer) except NULL:
        """Return uninitialised memory for the tangents of a result."""
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
        """Use an array as the tangents of a value of the same layout, if the array is lent or referenced only here."""
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
            return push_elementwise(self, node)
        if node.kind == SUM:
            return self.push_sum(node, i)
        if node.kind == STORE:
            return self.push_store(node, i)
        tangents = self.tangents_of(node)
        if all([t is None for t in tangents]):
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
        """Tangents of a rearrangement, gathered from the tangents of the source elements."""
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

    # ------------------------------------------------------------------------------------------ seconds

    cdef object second_of(self, Node node):
        """Second of an array result, with a leading axis of length k."""
        cdef Jet jet = <Jet>node.out.jet
        self.own_second(node.out, jet)
        return view_at(<char *>doubles(jet.second, node.out, node.y), jet.second, node.y, self.k, node.out.span)

    cdef int enter(self, list buffers) except -1:
        """Make the tape sweep the seconds of these buffers, in k directions, instead of their adjoints."""
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
                pull_elementwise(self, node)
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
        self.tape.ignore_float_errors()
        if is_matrix_product(node.row, node.args):
            return self.pull_matrix_product(node, tangents, has_second)
        if has_second:
            self.pull_linear(node, i)
        if all([t is None for t in tangents]):
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
        """Return the results; raise if one is NaN because a function has no derivative at this point."""
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


cdef inline Jet jet_of(Buffer buffer):
    if buffer.jet is None:
        buffer.jet = Jet.__new__(Jet)
        (<Jet>buffer.jet).unit = WG_NOT_UNIT
    return <Jet>buffer.jet


cdef inline bint is_whole(Buffer buffer, cnp.ndarray view):
    """Return whether a view covers its buffer and no scalar entry uses it."""
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
    """Insert axes of length 1 after the axis of directions, so that tangents broadcast with the result."""
    shape = t.shape
    if len(shape) == ndim + 1:
        return t
    return t.reshape(shape[:1] + (1,) * (ndim + 1 - len(shape)) + shape[1:])


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


include "second_elementwise.pxi"
