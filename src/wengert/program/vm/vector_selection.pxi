# Instruction selection of vector steps, included by machine.pyx: elementwise array code that runs chunk by chunk.
#
# Axes are ordered by stride and merged where all arrays are contiguous. An operand is used in place if its elements are
# adjacent, and otherwise copied to a temporary chunk, which is reused after its last use within the step.

cdef int MAX_SHORT_ROW = 64         # length of the inner axis up to which several rows share a chunk
cdef list FIRST = [0.0, -math.inf, math.inf]        # neutral elements of the reductions of WG_M_FOLD


@cython.final
cdef class Chunks:
    """Emits the code of one vector step.

    Slots are numbered: arrays that are walked, then scalars, then temporary chunks.
    """

    cdef Lowering low
    cdef tuple shape
    cdef dict walks                 # array that is read or written: index of its walk
    cdef list arrays, strides, kinds
    cdef list dims
    cdef list inner                 # by walk: stride along the inner axis
    cdef dict numbers               # scalar: index among the scalars
    cdef dict fills                 # scalar that must fill a chunk: its slot
    cdef dict place                 # value: slot that holds its current chunk
    cdef dict target                # value: walk into which it is computed directly
    cdef dict last                  # value: last member that reads it
    cdef list free, code, sums
    cdef list more                  # constants that fill a chunk: (slot of chunk, slot of scalar)
    cdef int chunks                 # number of temporary chunks
    cdef int rows                   # rows per chunk if the inner axis is short, else 1
    cdef set folded                 # reduced axes
    cdef set ones                   # values constant along a chunk: only one element is computed
    cdef int places                 # walk of the indices of a gather; -1: none
    cdef list written               # pairs (walk that is written, whether it is the result of a reduction)

    def __init__(self, low, shape):
        self.written = []
        self.places = -1
        self.rows = 1
        self.more = []
        self.folded = set()
        self.ones = set()
        self.low, self.shape = low, shape
        self.walks, self.numbers, self.fills, self.place, self.target, self.last = {}, {}, {}, {}, {}, {}
        self.arrays, self.strides, self.kinds, self.free, self.code, self.sums = [], [], [], [], [], []

    cdef int walk(self, key, int array, tuple strides, int kind) except -1:
        if key not in self.walks:
            self.walks[key] = len(self.arrays)
            self.arrays.append(array)
            self.strides.append(strides)
            self.kinds.append(kind)
        return 0

    cdef int walk_value(self, Py_ssize_t u) except -1:
        cdef Layout layout
        if u in self.walks:
            return 0
        layout = self.low.layout(u)
        return self.walk(u, self.low.array(u), layout.broadcast(self.shape), layout.kind)

    cdef int order_axes(self) except -1:
        """Order the axes by stride, and merge axes that are contiguous in every array.

        With reductions the order of axes depends only on the shape, so that rounding does not depend on strides.
        """
        cdef list joined = [], axes
        if len(self.shape) == 1:
            self.dims = [self.shape[0]]
            self.strides = self.strides if self.shape[0] != 1 else [(8,)] * len(self.strides)
            self.inner = [s[0] for s in self.strides]
            return 0
        axes = [d for d in range(len(self.shape)) if self.shape[d] != 1]
        if self.strides and not self.folded:        # gather indices are read sequentially
            order = self.strides[self.places if self.places >= 0 else -1]
            axes.sort(key=lambda d: -abs(order[d]))
        for d in axes:
            if joined:
                before = joined[-1][-1]
                is_folded = before in self.folded and d in self.folded
                if not is_folded and all([s[before] == s[d] * self.shape[d] for s in self.strides]):
                    joined[-1].append(d)
                    continue
            joined.append([d])
        self.dims = [math.prod([self.shape[d] for d in group]) for group in joined] or [1]
        self.strides = [[s[group[-1]] for group in joined] or [8] for s in self.strides]
        self.inner = [s[-1] for s in self.strides]
        if len(self.dims) > 1 and 0 < self.dims[-1] <= MAX_SHORT_ROW and self.places < 0 and not self.low.exact:
            self.rows = WG_CHUNK // self.dims[-1]
        return 0

    cdef bint is_regular(self, int w) except -1:
        """Return whether an array is regularly strided across the rows of a chunk."""
        return self.rows == 1 or self.strides[w][-2] == self.inner[w] * self.dims[-1]

    cdef bint is_direct(self, int w) except -1:
        """Return whether code accesses this array in place, without a temporary chunk."""
        return self.kinds[w] == DOUBLES and self.inner[w] == sizeof(double) and self.is_regular(w)

    cdef int new_chunk(self) except -1:
        if self.free:
            return self.free.pop()
        self.chunks += 1
        return len(self.walks) + len(self.numbers) + self.chunks - 1

    cdef int number(self, Py_ssize_t u) except -1:
        return len(self.walks) + <int>self.numbers[u]

    cdef int chunk_of(self, Py_ssize_t u) except -1:
        """Return the slot of an operand as a full chunk."""
        cdef int w
        if self.low.is_scalar(u):
            return self.fills[u]
        if u in self.ones:
            self.ones.discard(u)
            slot, self.place[u] = self.place[u], self.new_chunk()
            self.code.append((WG_M_GET, slot, 0, self.place[u]))
            self.free.append(slot)
        if u in self.place:
            return self.place[u]
        w = self.walks[u]
        if self.is_direct(w):
            self.place[u] = w
        else:
            self.place[u] = self.new_chunk()
            self.move(WG_M_GET if self.kinds[w] == DOUBLES else WG_M_GET_BOOL, w, w, self.place[u])
        return self.place[u]

    cdef int move(self, int op, int w, int source, int target) except -1:
        """Copy elements from a walk to a chunk or back."""
        if self.is_regular(w):
            self.code.append((op, source, self.inner[w], target))
        else:
            self.code.append((op + WG_M_GET_ROWS - WG_M_GET, source, self.inner[w], target))
            self.code.append((0, self.dims[-1], self.strides[w][-2], 0))
        return 0

    cdef int put(self, int slot, int w) except -1:
        """Store a chunk to an array."""
        if self.is_direct(w):
            if slot != w:
                self.code.append((WG_M_POSITIVE, slot, slot, w))
        else:
            self.move(WG_M_PUT if self.kinds[w] == DOUBLES else WG_M_PUT_BOOL, w, slot, w)
        return 0

    cdef int release(self, Py_ssize_t u, Py_ssize_t t) except -1:
        if self.last.get(u, -1) <= t and u in self.place:
            slot = self.place.pop(u)
            if slot >= len(self.walks) + len(self.numbers):
                self.free.append(slot)
        return 0

    cdef int slot_of(self, Py_ssize_t u) except -1:
        """Return the slot of an operand as it is: a scalar, one element per row, or a chunk."""
        if self.low.is_scalar(u) and u not in self.fills:
            return self.number(u)
        if u in self.ones:
            return self.place[u]
        return self.walks[u] if self.is_one_a_row(u) else self.chunk_of(u)

    cdef bint is_one_a_row(self, Py_ssize_t u) except -1:
        """Return whether an array is constant along the inner axis, also if a chunk holds it."""
        if u not in self.walks:
            return u in self.ones
        w = self.walks[u]
        return self.kinds[w] == DOUBLES and self.inner[w] == 0 and self.is_regular(w)

    cdef bint is_for_one(self, Py_ssize_t i, list operands) except -1:
        """Return whether a result is constant along rows and never stored, so that one element suffices."""
        cdef Lowering low = self.low
        cdef int op = low.op[i]
        cdef Py_ssize_t u
        if i in self.walks or i in self.target or low.exact or op not in PLAIN:
            return False
        for u in operands:
            if not low.is_scalar(u) and not self.is_one_a_row(u):
                return False
        return True

    cdef bint needs_chunk(self, Py_ssize_t i, list operands, Py_ssize_t u):
        """Return whether a scalar operand must fill a chunk; most operations accept one scalar beside an array."""
        cdef int op = self.low.op[i]
        if op == Op.PLACE or reads[op] != 3 and not (self.low.exact and reads[op] == 7 and op != Op.SELECT):
            return True
        return all([self.low.is_scalar(v) for v in operands])

    cdef int emit(self, Step step) except -1:
        cdef Py_ssize_t i, u, t
        cdef int op, w
        cdef Lowering low = self.low
        cdef list operands
        cdef list members = step.listed()
        cdef set here = set(members)
        cdef list wanted = []
        for t, i in enumerate(members):
            op = low.op[i]
            operands = low.operands(i)
            if op == Op.PLACE:
                operands = [low.c[i]]
            for u in operands:
                self.last[u] = t
                if low.is_scalar(u):
                    self.numbers.setdefault(u, len(self.numbers))
                    if self.needs_chunk(i, operands, u):
                        wanted.append(u)
                elif op == Op.GATHER and u == low.a[i]:         # from its lowest address
                    self.walk(("memory", u), low.array_at(low.alloc_of[low.under[u]], low.low[u]),
                              (0,) * len(self.shape), OTHER)
                elif u not in here:
                    self.walk_value(u)
                    if op == Op.GATHER:
                        self.places = self.walks[u]
        for i in members:
            op = low.op[i]
            if op == Op.PLACE:
                offset, shape, strides = low.listing.views[low.b[i]]
                self.walk(i, low.array_at(low.alloc_of[i], offset), strides, low.layout(i).kind)
                self.written.append((self.walks[i], False))
            elif i in low.folds:
                steps = low.folds[i][1]
                self.folded.update([d for d, stride in enumerate(steps) if stride == 0])
                self.walk(i, low.array(i), steps, DOUBLES)
                self.written.append((self.walks[i], True))
            elif op != Op.SUM and low.needed[i]:
                self.walk_value(i)
                self.written.append((self.walks[i], False))
        self.order_axes()
        for u in wanted:
            if u not in self.fills:
                self.fills[u] = self.new_chunk()
        for i in members:
            if low.op[i] == Op.PLACE and not low.is_scalar(low.c[i]):
                w = self.walks[i]
                u = low.c[i]
                if u in here and not low.needed[u] and self.is_direct(w) and low.layout(u).kind == DOUBLES:
                    self.target.setdefault(u, w)
            elif low.op[i] != Op.SUM and i not in low.folds and low.needed[i] and self.is_direct(self.walks[i]):
                self.target[i] = self.walks[i]
        for t, i in enumerate(members):
            self.emit_one(i, t)
        self.finish()
        return 0

    cdef int emit_one(self, Py_ssize_t i, Py_ssize_t t) except -1:
        cdef Lowering low = self.low
        cdef int op = low.op[i], code, y, extra = 0
        cdef Py_ssize_t u
        cdef list operands = low.operands(i), slots
        cdef bint exact_partial = low.exact and Op.PARTIAL <= op < Op.INPUT
        if op == Op.SUM:
            code = WG_M_SUM if self.rows == 1 else WG_M_SUM_ROWS
            self.code.append((code, self.chunk_of(low.a[i]), len(self.sums), 0))
            if self.rows > 1:
                self.code.append((0, self.dims[-1], 0, 0))
            self.sums.append(low.slot[i])
            self.release(low.a[i], t)
            return 0
        if i in low.folds:
            self.fold(i)
            self.release(operands[0], t)
            return 0
        if op == Op.PLACE:
            self.put(self.chunk_of(low.c[i]), self.walks[i])
            self.release(low.c[i], t)
            return 0
        if op == Op.GATHER:
            y = self.target[i] if i in self.target else self.new_chunk()
            self.place[i] = y
            self.code.append((WG_M_GATHER, self.walks[low.b[i]], self.walks["memory", low.a[i]], y))
            if i in self.walks and i not in self.target:
                self.put(y, self.walks[i])
            self.release(i, t)
            return 0
        is_array = [not low.is_scalar(u) or u in self.fills for u in operands]
        slots = [0] * len(operands)
        for m in (0, 1) if reads[op] == 3 else ():      # a row-constant operand beside an array counts as scalar
            if is_array[m] and is_array[1 - m] and operands[m] != operands[1 - m]:
                is_array[m] = not self.is_one_a_row(operands[m])
        is_one = self.is_for_one(i, operands)
        slots = [self.chunk_of(u) if is_it and not is_one else self.slot_of(u) for u, is_it in zip(operands, is_array)]
        code = machine_op[op]
        loop = low.in_loop(op, False)
        if not (loop or exact_partial or reads[op] == 7):   # the result may reuse the chunk of an operand
            for u in operands:
                self.release(u, t)
        y = self.target[i] if i in self.target else self.new_chunk()
        self.place[i] = y
        if is_one:
            self.ones.add(i)
            self.code.append((WG_M_ONE, 0, 0, y))
        if reads[op] == 7:
            # unused operands need a valid pointer too
            full = [slots.pop(0) if v >= 0 else y for v in (low.a[i], low.b[i], low.c[i])]
            if exact_partial:
                both = dict(zip(operands, is_array))
                form = 1 if not both.get(low.b[i], True) else 2 if not both.get(low.a[i], True) else 0
                row, side = divmod(op - Op.PARTIAL, 2)
                self.code.append((WG_M_EXACT, full[0], full[1], y))
                self.code.append((0, full[2], 2 * form + side, row))
            else:
                self.code.append((code, full[0], full[1], y))
                self.code.append((0, full[2], 0, 0))
        elif loop:
            self.code.append((WG_M_LOOP, slots[0], slots[-1], y))
            self.code.append((0, loop_number(low, op), is_array[0] + 2 * is_array[-1], 0))
        else:
            if len(operands) == 2:
                code += 0 if is_array[0] and is_array[1] else 1 if is_array[0] else 2
            self.code.append((code, slots[0], slots[-1], y))
        for u in operands:
            self.release(u, t)
        if i in self.walks and i not in self.target:
            self.put(y, self.walks[i])
        self.release(i, t)
        return 0

    cdef int fold(self, Py_ssize_t i) except -1:
        """Emit a reduction; it stores its result if a chunk holds whole rows, and otherwise accumulates."""
        cdef Lowering low = self.low
        cdef int w = self.walks[i], fold = low.folds[i][0]
        cdef bint is_all = (self.inner[w] == 0 and 0 not in self.strides[w][:-1]
                            and (self.rows > 1 or self.dims[-1] <= WG_CHUNK))
        self.code.append((WG_M_FOLD, self.chunk_of(low.read[low.first[i]]), 2 * fold + (not is_all), w))
        self.code.append((0, self.dims[-1] if self.rows > 1 else 0, self.strides[w][-2] if self.rows > 1 else 0,
                          self.inner[w]))
        if not is_all:
            Chunks(low, low.layout(i).shape).fill(i, FIRST[fold])
        return 0

    cdef int fill(self, Py_ssize_t target, double x) except -1:
        """Emit a step that fills an array with a scalar."""
        self.walk_value(target)
        self.written.append((self.walks[target], False))
        self.order_axes()
        chunk = self.new_chunk()
        self.more.append((chunk, slot_of_constant(self.low, x)))
        self.put(chunk, self.walks[target])
        self.finish()
        return 0

    cdef int copy(self, Py_ssize_t source, Py_ssize_t target) except -1:
        """Emit a step that copies an array."""
        self.walk_value(source)
        self.walk_value(target)
        self.written.append((self.walks[target], False))
        self.order_axes()
        self.put(self.chunk_of(source), self.walks[target])
        self.finish()
        return 0

    cdef int finish(self) except -1:
        cdef Lowering low = self.low
        cdef int first = len(self.walks) + len(self.numbers)
        cdef cnp.ndarray code = code_of(len(self.code))
        cdef int32_t *words = <int32_t *>cnp.PyArray_DATA(code)
        cdef tuple line
        for line in self.code:
            words[0], words[1], words[2], words[3] = line
            words += 4
        low.chunks = max(low.chunks, self.chunks)
        low.pointers = max(low.pointers, first + self.chunks)
        low.sums = max(low.sums, len(self.sums))
        low.axes = max(low.axes, len(self.dims))
        walk = tuple(enumerate(self.arrays))
        number = tuple([(self.number(u), low.slot[u]) for u in self.numbers])
        fill = tuple([(chunk, low.slot[u]) for u, chunk in self.fills.items()] + self.more)
        block = self.block()
        if block:
            low.blocks = max(low.blocks, (self.dims[0] // block + 1) * len(self.sums))
        # tuples of integers, which the garbage collector untracks
        low.emitted.append((WG_VECTOR, code, tuple(self.dims), tuple([tuple(s) for s in self.strides]), walk, number,
                            fill, tuple(self.sums), first, self.chunks, self.rows, block))
        return 0

    cdef Py_ssize_t block(self) except -1:
        """Return the block size on the first axis; 0 (no blocks) if there are few elements or blocks would overlap."""
        cdef Py_ssize_t size = math.prod(self.dims), count, unit
        if size < 2 * WG_BLOCK:
            return 0
        for w, is_folded in self.written:
            axes = [d for d in range(len(self.dims)) if self.strides[w][d] or not is_folded]
            if 0 not in axes or overlaps([self.dims[d] for d in axes], [self.strides[w][d] for d in axes]):
                return 0
        count = max(1, WG_BLOCK * self.dims[0] // size)
        if len(self.dims) == (2 if self.rows > 1 else 1):
            unit = self.rows if self.rows > 1 else WG_CHUNK
            count = (count + unit - 1) // unit * unit
        return count if count < self.dims[0] else 0
