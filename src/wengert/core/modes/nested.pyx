# cython: language_level=3
"""Reverse mode nested in another derivative: a tape of calls on operands of the enclosing level.

The tape of an outermost derivative works on plain values and is fast; this one works at any depth.
A value of this level is an operand of the enclosing level, or plain if it is constant there.
Registry rules run on such operands, and adjoints are such operands too. So the enclosing level records the sweep, and
higher derivatives come from the same rows.

Arrays keep their memory at all levels, so views need no entry here either.
The sweep undoes in-place stores by stores that the enclosing level records.
"""

cimport numpy as cnp

import math

import numpy as np

from wengert.core.tape.memory cimport Buffer, Level, view_at
from wengert.core.tape.tape cimport Tape
from wengert.core.operands.var cimport ArrayVar, array_var, last_written, level_of, store, wrap

from wengert.core import levels, messages
from wengert.core.operands import var
from wengert.core.modes.pullback import independent, own_copy, pull_back
from wengert.core.tape import local_derivatives
from wengert.core.tape.tape import holds_complex
from wengert.deferred import deferred
from wengert.errors import LevelError, ReplayMismatchError
from wengert.registry import Primitive, inverse_permutation, sums_by_place

nan_check = deferred("wengert.core.dispatch.nan_check")

cnp.import_array()


cdef class Entry:
    """One call, gather, rearrangement, loop or store."""
    cdef object row                 # None for a store
    cdef tuple args                 # at the enclosing level
    cdef dict kwargs
    cdef list sources               # ``(position, item, buffer, view)`` of the operands of this level
    cdef Buffer out
    cdef cnp.ndarray view           # of the result, or of the target of a store
    cdef object y                   # the result at the enclosing level; for a loop, the function that sweeps its steps
    cdef object key                 # index of a gather or a store
    cdef object index_map
    cdef Buffer under               # of a store: the target at the enclosing level
    cdef object saved               # values overwritten by a store; source indices of a rearrangement
    cdef object is_last                 # of a store at an advanced index: mask of the last store to each element
    cdef object place               # in a watched tape: user's line of the call


cdef object GETITEM = Primitive("indexing", "rearrangement")
cdef object SAME = Primitive("the same array", "rearrangement")
cdef object LOOP = Primitive("a loop", "call")


cdef class NestedTape:
    """The tape of a nested level."""

    cdef readonly Level level
    cdef list entries
    # By identity of the buffer: (buffer, operand of the enclosing level, None), where the operand has the memory layout
    # of the buffer, or (buffer, adjoint of a view of all of the buffer, that view). The latter is never written into.
    cdef dict adjoints
    cdef Py_ssize_t k
    cdef bint watched               # by `wengert.detect_nan`
    cdef readonly bint has_loops
    cdef public bint has_complex    # a value is or was complex
    cdef NestedTail tail            # the innermost open one, or None

    def __init__(self, str name, int depth):
        self.level = Level(name, depth, recorder=self)
        self.entries = []
        self.adjoints = {}
        self.watched = levels.is_watched()

    def close(self):
        """End the derivative."""
        self.level.close()
        self.entries = []

    @property
    def size(self):
        return len(self.entries)

    @property
    def is_one_way(self):
        return self.has_loops or self.has_complex

    @property
    def elements(self):
        return 0

    @property
    def recording(self):
        return self.level.recording

    @property
    def forgets(self):
        """Return whether a tail is open that will not be swept."""
        return self.tail is not None and self.tail.forgets

    def next_step(self):
        """Do nothing, since no loads are shared between steps here; see `Tape.next_step`."""

    @property
    def has_stores(self):
        return any([(<Entry>entry).row is None for entry in self.entries if entry is not None])

    def pause(self):
        """Begin a passive block and return the argument for `resume`."""
        return len(self.entries)

    def resume(self, Py_ssize_t start):
        """End a passive block: values recorded since `start` become constants, stores stay stores."""
        cdef Entry entry
        for i in range(start, len(self.entries)):
            entry = self.entries[i]
            if entry is not None and entry.row is None:
                entry.sources = []
            else:
                self.entries[i] = None

    # ------------------------------------------------------------------------------------------ recording

    def independent(self, value, owned=False):
        """Return a traced copy of an array or scalar as an independent variable; `owned`: use its memory uncopied."""
        x = wrap(self.level, value if owned else own_copy(value))
        (<ArrayVar>x).buffer.born = self.birth
        return x

    def record(self, row, args, kwargs, operands, y, index_map):
        """Append a call and return its result as an operand of this level."""
        cdef Entry entry = Entry.__new__(Entry)
        entry.row = row
        entry.args = args
        entry.kwargs = kwargs
        entry.sources = [(position, item, (<ArrayVar>x).buffer, (<ArrayVar>x).v) for position, item, x in operands]
        entry.index_map = index_map
        return self.result(entry, y)

    def gather(self, Buffer buffer, view, key, y):
        """Elements at an advanced index, or a single element, for which key is () and the view is 0-d."""
        cdef Entry entry = Entry.__new__(Entry)
        entry.row = GETITEM
        entry.sources = [(0, -1, buffer, view)]
        entry.key = key
        entry.index_map = index_of
        return self.result(entry, y)

    cdef result(self, Entry entry, y):
        cdef ArrayVar x = wrap(self.level, y)
        x.buffer.born = <int>len(self.entries) + 1
        entry.out = x.buffer
        entry.view = x.v
        entry.y = y
        self.append(entry)
        return x

    cdef int append(self, Entry entry) except -1:
        if self.watched:
            entry.place = nan_check.place(entry.row.name if entry.row is not None else "an assignment")
        self.entries.append(entry)
        return 0

    def rename(self, Buffer old, Buffer new, cnp.ndarray whole):
        """Replace a buffer by another one with the same memory, from here on."""
        cdef Entry entry = Entry.__new__(Entry)
        entry.row = SAME
        entry.sources = [(0, -1, old, whole)]
        entry.out = new
        entry.view = whole
        self.append(entry)

    def store(self, Buffer buffer, cnp.ndarray view, key, value, below):
        """Store into a view (or at an advanced index of it), saving the overwritten values."""
        cdef Entry entry = Entry.__new__(Entry)
        cdef Buffer under = <Buffer>buffer.under
        if self.tail is not None and buffer.born <= self.tail.mark:
            raise LevelError(messages.outside_message(self.level))
        entry.under = under
        entry.out = buffer
        entry.view = view
        entry.key = key
        entry.sources = []
        if level_of(value) is self.level:
            entry.sources = [(0, -1, (<ArrayVar>value).buffer, (<ArrayVar>value).v)]
            entry.is_last = None if key is None else last_written(view, key)
        entry.saved = np.copy(elements_at(under, view, key))
        store(under, view, key, below)
        self.append(entry)

    # ------------------------------------------------------------------------------------------ loops

    def open_tail(self, entry, name, forgets):
        """Return a tail that records until it is cut; `entry` is the entry of the loop being swept, or -1."""
        return NestedTail(self, entry, name, forgets)

    @property
    def birth(self):
        """Value of `born` for a buffer that no entry produces; inside a tail it makes the buffer part of the tail."""
        return 0 if self.tail is None else len(self.entries)

    def add_loop(self, compute, list inputs, list values):
        """See `wengert.core.modes.pullback.add_loop`."""
        cdef Entry entry = Entry.__new__(Entry)
        entry.row = LOOP
        entry.y = compute
        entry.sources = [(0, -1, (<ArrayVar>x).buffer, (<ArrayVar>x).v) for x in inputs]
        outputs = [self.independent(value, True) for value in values]
        for x in outputs:
            (<ArrayVar>x).buffer.born = <int>len(self.entries) + 1
        entry.args = tuple([((<ArrayVar>x).buffer, (<ArrayVar>x).v) for x in outputs])
        self.append(entry)
        self.has_loops = True
        return outputs

    cdef pull_loop(self, Entry entry, Py_ssize_t i):
        """Reverse a loop: record its steps again and pull back the cotangents of its results."""
        seeds = []
        for buffer, view in entry.args:
            c = self.adjoint(<Buffer>buffer, view)
            seeds.append(None if c is None else np.copy(c))
            self.adjoints.pop(id(buffer), None)
        if any([seed is not None for seed in seeds]):
            for source, c in zip(entry.sources, entry.y(self, i, seeds, [view for _, view in entry.args])):
                if c is not None:
                    self.accumulate(<Buffer>source[2], source[3], c)

    # ------------------------------------------------------------------------------------------ sweep

    def pull_back(self, list inputs, list outputs, cotangents, Py_ssize_t k, bint stacked, bint consume):
        """Return the cotangents of the inputs; see `wengert.core.modes.pullback.pull_back`."""
        cdef Py_ssize_t offset = 0, i
        cdef Entry entry
        self.k = k
        self.adjoints = {}
        with np.errstate(all="ignore"):
            for i, y in enumerate(outputs):
                if type(cotangents) is tuple:
                    shape = (len(y),) if isinstance(y, (list, tuple)) else np.shape(y)
                    rows = np.eye(k, math.prod(shape), cotangents[0] - offset)      # of the identity over all outputs
                    self.seed(y, np.reshape(rows, (k, *shape)))
                    offset += math.prod(shape)
                elif cotangents[i] is not None:
                    self.seed(y, cotangents[i] if stacked else np.reshape(cotangents[i], (1, *np.shape(cotangents[i]))))
            undone = len(self.entries)
            try:
                for i in range(len(self.entries) - 1, -1, -1):
                    undone = i
                    entry = self.entries[i]
                    if entry is not None:
                        if self.watched:
                            with nan_check.rule(entry.place):
                                self.pull(entry, i)
                        else:
                            self.pull(entry, i)
                found = [self.adjoint_of(x, stacked) for x in inputs]
            finally:
                self.adjoints = {}
                for i in range(undone, len(self.entries)):
                    entry = self.entries[i]
                    if entry is not None and entry.row is None:
                        swap(entry)
        return found

    cdef seed(self, y, cotangent):
        if isinstance(y, (list, tuple)):
            for i, x in enumerate(y):
                self.seed(x, cotangent[..., i])
        elif level_of(y) is self.level:
            self.accumulate((<ArrayVar>y).buffer, (<ArrayVar>y).v, cotangent)

    cdef adjoint_of(self, x, bint stacked):
        cdef ArrayVar v = <ArrayVar>x
        found = self.adjoint(v.buffer, v.v)
        if found is None:
            found = np.zeros((self.k, *v.shape), dtype=v.v.dtype)
        if not stacked:
            return np.copy(found[0]) if found.ndim > 1 else found[0]
        return found if self.has_memory(v.buffer) else np.copy(found)

    cdef adjoint(self, Buffer buffer, cnp.ndarray view):
        """Adjoint of a view, with a leading axis of directions, or None if nothing was accumulated."""
        cdef tuple found = self.adjoints.get(id(buffer))
        if found is None:
            return None
        return found[1] if found[2] is not None and is_same(found[2], view) else self.memory(buffer, view)

    cdef bint has_memory(self, Buffer buffer):
        cdef tuple found = self.adjoints.get(id(buffer))
        return found is None or found[2] is None

    cdef memory(self, Buffer buffer, cnp.ndarray view):
        """View of the memory that holds the adjoint of a buffer; it is made if necessary."""
        cdef tuple found = self.adjoints.get(id(buffer))
        cdef ArrayVar memory
        if found is None or found[2] is not None:
            like = view if found is None else found[2]
            zeros = np.zeros(max(1, self.k * buffer.span // like.itemsize), dtype=like.dtype)
            self.adjoints[id(buffer)] = (buffer, var.clean(zeros), None)
            if found is not None:
                whole = self.memory(buffer, like)
                whole += found[1]
            found = self.adjoints[id(buffer)]
        memory = <ArrayVar>found[1]
        return array_var(memory.buffer, view_at(
            <char *>cnp.PyArray_DATA(memory.v) + (<char *>cnp.PyArray_DATA(view) - buffer.low), memory.v, view,
            self.k, buffer.span))

    cdef accumulate(self, Buffer buffer, cnp.ndarray view, c):
        """Add a cotangent to the adjoint of a view, summing over broadcast axes."""
        cdef tuple found = self.adjoints.get(id(buffer))
        c = summed(c.real if self.has_complex and not cnp.PyArray_ISCOMPLEX(view) else c, view)
        if (is_same(found[2], view) if found is not None else is_whole(buffer, view)) and self.has_shape_of(view, c):
            total = c if found is None else found[1] + c
            self.adjoints[id(buffer)] = (buffer, total, view)
        else:
            total = self.memory(buffer, view)
            repeated = tuple([d + 1 for d in range(cnp.PyArray_NDIM(view))
                              if cnp.PyArray_STRIDE(view, d) == 0 and cnp.PyArray_DIM(view, d) > 1])
            if repeated:                # broadcast: several elements share memory
                c = np.sum(np.broadcast_to(c, total.shape), axis=repeated, keepdims=True)
                total = total[tuple([slice(0, 1) if d in repeated else slice(None) for d in range(total.ndim)])]
            total += c
        if self.watched:
            nan_check.check_adjoint(self.level.name, total, c)

    cdef bint has_shape_of(self, cnp.ndarray view, c):
        """Return whether a cotangent has the shape, after the axis of directions, and the dtype of a view."""
        return shape_of(c) == (self.k, *(<object>view).shape) and c.dtype == view.dtype

    cdef pull(self, Entry entry, Py_ssize_t i):
        """Reverse one entry, then drop the adjoint of its result."""
        if entry.row is None:
            return self.pull_store(entry)
        if entry.row is LOOP:
            return self.pull_loop(entry, i)
        ybar = self.adjoint(entry.out, entry.view)
        if ybar is None:
            return
        del self.adjoints[id(entry.out)]
        if entry.row is SAME:
            self.accumulate(<Buffer>entry.sources[0][2], entry.sources[0][3], ybar)
        elif entry.index_map is not None:
            self.pull_rearrangement(entry, ybar)
        else:
            self.pull_call(entry, ybar)

    cdef pull_store(self, Entry entry):
        if id(entry.out) in self.adjoints:
            target = self.memory(entry.out, entry.view)
            if entry.key is None:
                c = np.copy(target)
                target[...] = 0.0
            else:
                c = np.stack([np.copy(target[j][entry.key]) for j in range(self.k)])
                for j in range(self.k):
                    target[j][entry.key] = 0.0
                if entry.is_last is not None:
                    c = np.where(entry.is_last, c, 0.0)
            if entry.sources:
                _, _, buffer, view = entry.sources[0]
                # NumPy drops leading axes of length 1 of the assigned value
                if np.ndim(view) > np.ndim(c) - 1:
                    c = np.reshape(c, (self.k,) + (1,) * (np.ndim(view) - np.ndim(c) + 1) + np.shape(c)[1:])
                self.accumulate(<Buffer>buffer, view, c)
        swap(entry)

    cdef pull_rearrangement(self, Entry entry, ybar):
        """Scatter the cotangent to the source elements."""
        if entry.saved is None:
            entry.saved = np.ravel(entry.index_map(entry))
        count = 1 + sum([np.size(source[3]) for source in entry.sources])
        if not self.k or not np.size(entry.saved):
            return
        flat_bar = np.reshape(ybar, (self.k, -1))
        inverse = inverse_permutation(entry.saved, count - 1)
        if inverse is not None:
            total, start = np.take(flat_bar, inverse, axis=1), 0
        else:
            total, start = np.stack([sums_by_place(entry.saved, flat_bar[j], count) for j in range(self.k)]), 1
        for _, _, buffer, view in entry.sources:
            size = np.size(view)
            part = np.reshape(total[:, start:start + size], (self.k, *np.shape(view)))
            self.accumulate(<Buffer>buffer, view, part)
            start += size

    cdef pull_call(self, Entry entry, ybar):
        row = entry.row
        known = {}
        if self.has_complex and holds_complex((entry.y, entry.args)):
            adjoints = local_derivatives.Adjoints(row, ybar, entry.y, entry.args, entry.kwargs)
            for position, item, buffer, view in entry.sources:
                self.accumulate(<Buffer>buffer, view, adjoints.of(position, item, np.shape(view)))
            return
        for position, item, buffer, view in entry.sources:
            if row.kind == "elementwise":
                c = local_derivatives.pullback(row, position, ybar, entry.y, entry.args, entry.kwargs)
            else:
                if position not in known:
                    known[position] = self.by_rule(entry, position, ybar)
                c = known[position]
                if item >= 0:
                    c = c[item] if row.stacked else np.stack([one[item] for one in c])
                elif not row.stacked:
                    c = np.stack([np.broadcast_to(one, np.shape(view)) for one in c])
            self.accumulate(<Buffer>buffer, view, c)

    cdef by_rule(self, Entry entry, position, ybar):
        """Cotangents by the row's pullback: one array for all directions, or a list by direction if not stacked."""
        call = entry.y, entry.args, entry.kwargs
        if entry.row.stacked:
            return local_derivatives.pullback(entry.row, position, ybar, *call)
        return [local_derivatives.pullback(entry.row, position, ybar[j], *call) for j in range(self.k)]


cdef class NestedTail:
    """Entries of a tape since a mark, swept and dropped separately; see the tails of `Tape`."""

    cdef NestedTape tape
    cdef NestedTail before          # the tail that was open before this one
    cdef Py_ssize_t mark, gap       # it begins at `mark`; entries from `gap` to `mark` were swept already
    cdef list buffers               # buffers of its inputs
    cdef str name
    cdef readonly bint forgets

    def __init__(self, NestedTape tape, Py_ssize_t entry, str name, bint forgets):
        self.tape = tape
        self.before = tape.tail
        self.name = name
        self.forgets = forgets
        self.buffers = []
        self.mark = len(tape.entries)
        tape.entries.append(None)   # stands for the inputs
        self.gap = self.mark if entry < 0 else entry
        tape.tail = self

    @property
    def level(self):
        return self.tape.level

    @property
    def recorder(self):
        """The nested tape, which is what the stack of running derivatives holds."""
        return self.tape

    @property
    def size(self):
        """Number of entries."""
        return len(self.tape.entries) - self.mark

    @property
    def elements(self):
        """Total number of elements of the results."""
        return sum([np.size((<Entry>entry).view) for entry in self.tape.entries[self.mark:] if entry is not None])

    def held(self):
        """Estimated bytes of the results and the objects that hold them."""
        return sum([4096 + 2 * (<Entry>entry).view.nbytes for entry in self.tape.entries[self.mark:]
                    if entry is not None])

    def independent(self, value, owned):
        x = self.tape.independent(value, owned)
        self.buffers.append((<ArrayVar>x).buffer)
        return x

    def next_step(self):
        """Do nothing; see `NestedTape.next_step`."""

    def pull_tail(self, list inputs, list outputs, list cotangents):
        """See `wengert.core.modes.pullback.pull_tail`."""
        cdef NestedTape tape = self.tape
        cdef Py_ssize_t i
        self.check()
        for y, c in zip(outputs, cotangents):
            if c is not None:
                tape.seed(y, c)
        for i in range(len(tape.entries) - 1, self.mark - 1, -1):
            if tape.entries[i] is not None:
                tape.pull(<Entry>tape.entries[i], i)
        found = [tape.adjoint((<ArrayVar>x).buffer, (<ArrayVar>x).v) for x in inputs]
        return [None if c is None else np.copy(c) for c in found]

    cdef check(self):
        """Raise if an entry refers to a value recorded after the loop, whose adjoint has been swept already."""
        cdef Entry entry
        cdef NestedTail tail
        for entry in self.tape.entries[self.mark:]:
            for source in () if entry is None else entry.sources:
                born = (<Buffer>source[2]).born
                tail = self
                while tail is not None:
                    if tail.gap < born <= tail.mark:
                        raise ReplayMismatchError(messages.gone_message(self.name))
                    tail = tail.before

    def cut(self):
        """Drop the tail; its values then belong to an ended derivative."""
        cdef Entry entry
        cdef NestedTape tape = self.tape
        cdef Level past = Level(self.name, self.level.depth)
        past.remedy = messages.STEP_REMEDY
        past.close()
        self.buffers += [(<Entry>entry).out for entry in tape.entries[self.mark:] if entry is not None]
        for buffer in self.buffers:
            if buffer is not None:          # the entry of a loop has no buffer
                (<Buffer>buffer).level = past
                tape.adjoints.pop(id(buffer), None)
        del tape.entries[self.mark:]
        tape.tail = self.before


def index_of(Entry entry):
    """Source of each element at an index: the element's position, counted from 1."""
    view = entry.sources[0][3]
    places = np.arange(1, np.size(view) + 1).reshape(np.shape(view))
    return (var.clean(places) if var.holds_var(entry.key) else places)[entry.key]


cdef object elements_at(Buffer under, cnp.ndarray view, key):
    """Elements of a view (or at an index of it), at the enclosing level."""
    place = view if under.level is None else array_var(under, view)
    return place if key is None else place[key]


cdef swap(Entry entry):
    """Exchange the stored and the overwritten values, by a store that the enclosing level records."""
    other = np.copy(elements_at(entry.under, entry.view, entry.key))
    store(entry.under, entry.view, entry.key, entry.saved)
    entry.saved = other


cdef bint is_whole(Buffer buffer, cnp.ndarray view):
    """Return whether a view consists of all elements of a buffer, each of them once."""
    return cnp.PyArray_ISONESEGMENT(view) and cnp.PyArray_NBYTES(view) == buffer.span


cdef bint is_same(view, cnp.ndarray other):
    """Return whether two views of a buffer have the same elements in the same order; the first one may be None."""
    return view is other or (view is not None
                             and cnp.PyArray_DATA(<cnp.ndarray>view) == cnp.PyArray_DATA(other)
                             and (<object>view).dtype == (<object>other).dtype      # not the real parts
                             and (<object>view).shape == (<object>other).shape
                             and (<object>view).strides == (<object>other).strides)


cdef tuple shape_of(c):
    return () if type(c) is float else c.shape   # `np.shape` of an operand would pass through NumPy's dispatch


cdef object summed(c, cnp.ndarray view):
    """Sum a cotangent with a leading axis of directions over the axes along which its operand was broadcast."""
    cdef int ndim = cnp.PyArray_NDIM(view), d
    cdef tuple shape = shape_of(c)
    cdef Py_ssize_t extra = len(shape) - 1 - ndim
    if extra > 0:
        c = np.sum(c, axis=tuple(range(1, 1 + extra)))
    elif extra < 0 and shape:
        c = np.reshape(c, shape[:1] + (1,) * -extra + shape[1:])
    shape = shape_of(c)
    ones = tuple([d + 1 for d in range(ndim) if cnp.PyArray_DIM(view, d) == 1 != shape[d + 1]])
    return np.sum(c, axis=ones, keepdims=True) if ones else c


def transposed(pullback, name, y, t, values):
    """Return tangents of `y`: the transpose of a pullback applied to tangents `t` of its operand.

    `values` holds everything the pullback reads: plain values, or operands of an enclosing level.
    """
    if var.holds_traced(values):
        return transposed_on(NestedTape(f"the pullback of {name}", len(levels.running.get())), pullback, y, t)
    with levels.outside():
        return transposed_on(Tape(f"the pullback of {name}"), pullback, y, t)


def transposed_on(recorder, pullback, y, t):
    try:
        with levels.recording(recorder):
            zero = np.zeros(np.shape(y), dtype=y.dtype)
            ybar = independent(recorder, zero if np.ndim(y) else zero[()])
            xbar = pullback(ybar)
        levels.check_end(recorder.level)
        if level_of(xbar) is not recorder.level:        # no dependence on ybar: the pullback is 0
            np.asarray(var.plain(xbar))                 # raises if the pullback is not implemented
            return np.zeros((len(t), *np.shape(y)), dtype=y.dtype)
        found, = pull_back(recorder, [ybar], [xbar], [t], len(t), True, True)
        return found
    finally:
        recorder.close()
