# Instruction selection of vector steps, included by machine.pyx: elementwise array code that runs chunk by chunk.
#
# Axes are ordered by stride and merged where all arrays are contiguous. An operand is used in place if its elements are
# adjacent, and otherwise copied to a temporary chunk, which is reused after its last use within the step.

cdef int MAX_SHORT_ROW = 64         # maximum length of the inner axis for which several rows share a chunk
cdef double MOVE_ROWS = 2.5         # cost of copying rows to or from a chunk, relative to the cost of an operation
cdef list FIRST = [0.0, -math.inf, math.inf]        # neutral elements of the reductions of WG_M_FOLD


cdef struct InStep:
    # a value that a vector step reads or computes; -1 in fields that do not apply
    int32_t value
    int32_t walk                # walk over its elements
    int32_t memory              # walk from its lowest address, for gathers
    int32_t number              # index among the scalars
    int32_t fill                # slot of the chunk that a scalar fills
    int32_t place               # slot of the chunk that holds it
    int32_t target              # walk into which it is directly computed
    int32_t last                # last member that reads it
    bint is_member              # whether the step computes it
    bint is_one                 # whether it is constant along a chunk, so that only one element is computed


cdef struct Walk:
    int32_t array
    int kind
    Py_ssize_t inner            # stride along the inner axis
    bint is_written, is_folded  # is_folded: result of a reduction


@cython.final
@cython.no_gc
cdef class Chunks:
    """Emits the code of one vector step.

    Slots are numbered: arrays that are walked, then scalars, then temporary chunks.
    """

    cdef Lowering low
    cdef tuple shape
    cdef Block room                 # memory of the C arrays
    cdef InStep *values
    cdef Walk *walks
    cdef int32_t *numbers           # the scalars
    cdef int32_t *free              # a stack of unused chunks
    cdef int value_count, walk_count, number_count, free_count
    cdef Block code                 # instructions of four integers
    cdef Py_ssize_t lines
    cdef list strides               # by walk
    cdef list dims
    cdef list fills                 # scalars that fill a chunk
    cdef list sums
    cdef list more                  # constants that fill a chunk: (slot of chunk, slot of scalar)
    cdef int chunks                 # number of temporary chunks
    cdef int rows                   # rows per chunk if the inner axis is short, else 1
    cdef Py_ssize_t pitch           # distance between the starts of these rows, in elements
    cdef Py_ssize_t members         # number of instructions, if rows may have gaps between them
    cdef set folded                 # reduced axes
    cdef int places                 # walk of the indices of a gather; -1: none
    cdef int32_t computed           # the last member that is a binary operation, and its line of code
    cdef Py_ssize_t computed_at

    def __init__(self, Lowering low, tuple shape, Step step=None):
        cdef Py_ssize_t m, count = 2        # limit on the number of values
        cdef char *data
        if step is not None:
            for m in range(step.members.shape[0]):
                count += 1 + low.first[step.members[m] + 1] - low.first[step.members[m]]
        self.low, self.shape = low, shape
        self.places, self.rows, self.computed_at = -1, 1, -1
        self.strides, self.fills, self.sums = [], [], []
        # at most two walks per value (`walk` and `memory`), and four chunks
        self.room = take(count * (sizeof(InStep) + 2 * sizeof(Walk) + 5 * sizeof(int32_t)))
        data = self.room.data
        self.walks = <Walk *>data
        data += 2 * count * sizeof(Walk)
        self.values = <InStep *>data
        data += count * sizeof(InStep)
        self.numbers = <int32_t *>data
        self.free = self.numbers + count
        self.code = take(8 * count * sizeof(wg_code))

    cdef InStep *at(self, Py_ssize_t u) noexcept:
        """Return the entry of a value, which is created on first use."""
        cdef int32_t k = self.low.local[u]
        cdef InStep *v
        if k < self.value_count and self.values[k].value == u:
            return &self.values[k]
        self.low.local[u] = self.value_count
        v = &self.values[self.value_count]
        self.value_count += 1
        v.value = <int32_t>u
        v.walk = v.memory = v.number = v.fill = v.place = v.target = v.last = -1
        v.is_member = v.is_one = False
        return v

    cdef int line(self, int32_t op, int32_t a, int32_t b, int32_t y) except -1:
        cdef Block longer
        cdef wg_code *words
        if (self.lines + 1) * sizeof(wg_code) > self.code.size:
            longer = take(2 * self.code.size)
            memcpy(longer.data, self.code.data, self.lines * sizeof(wg_code))
            self.code = longer
        words = <wg_code *>self.code.data + self.lines
        words.op, words.a, words.b, words.y = op, a, b, y
        self.lines += 1
        return 0

    cdef int walk(self, int array, tuple strides, int kind) except -1:
        """Add a walk over an array; return its number."""
        cdef Walk *walk = &self.walks[self.walk_count]
        self.strides.append(strides)
        walk.array, walk.kind = array, kind
        walk.is_written = walk.is_folded = False
        self.walk_count += 1
        return self.walk_count - 1

    cdef int walk_whole(self, Py_ssize_t u) except -1:
        """Add a walk over the whole array of a value; return its number."""
        cdef Layout layout = self.low.layout(u)
        return self.walk(self.low.array(u), layout.broadcast(self.shape), layout.kind)

    cdef int write(self, int w, bint is_folded=False) noexcept:
        """Note that an array is written."""
        self.walks[w].is_written, self.walks[w].is_folded = True, is_folded
        return w

    cdef int order_axes(self) except -1:
        """Order the axes by stride, and merge axes that are contiguous in every array.

        With reductions the order of axes depends only on the shape, so that rounding does not depend on strides.
        """
        cdef list joined = [], axes
        if len(self.shape) == 1:
            self.dims = [self.shape[0]]
            self.strides = self.strides if self.shape[0] != 1 else [(8,)] * len(self.strides)
            return self.set_inner()
        axes = [d for d in range(len(self.shape)) if self.shape[d] != 1]
        if self.strides and not self.folded:        # gather indices are read sequentially
            order = self.strides[self.places if self.places >= 0 else -1]
            axes.sort(key=lambda d: -abs(order[d]))
        for d in axes:
            if joined:
                before = joined[-1][-1]
                is_folded = self.folded and before in self.folded and d in self.folded
                if not is_folded and all([s[before] == s[d] * self.shape[d] for s in self.strides]):
                    joined[-1].append(d)
                    continue
            joined.append([d])
        self.dims = [math.prod([self.shape[d] for d in group]) for group in joined] or [1]
        self.strides = [[s[group[-1]] for group in joined] or [8] for s in self.strides]
        self.set_inner()
        if len(self.dims) > 1 and 0 < self.dims[-1] <= MAX_SHORT_ROW and self.places < 0 and not self.low.exact:
            self.set_pitch()
        return 0

    cdef int set_pitch(self) except -1:
        """Choose the pitch of a chunk: the distance between the starts of its rows.

        Arrays with the same row pitch are read in place, including the gaps between rows; this suits the shifted
        views of stencils. Results are not stored in the gaps.
        """
        cdef Py_ssize_t width = self.dims[-1], pitch
        cdef int w
        cdef double least = 0.0, cost
        cdef Py_ssize_t best = width
        pitches = {width}
        if self.members and not self.folded:
            for w in range(self.walk_count):
                if not self.walks[w].is_written and self.walks[w].inner == 8 and self.strides[w][-2] % 8 == 0:
                    pitches.add(self.strides[w][-2] // 8)
        for pitch in sorted(pitches):
            if width <= pitch <= min(2 * width, WG_CHUNK // 2):
                self.pitch = pitch
                cost = 0.0
                for w in range(self.walk_count):
                    cost += 0.0 if self.is_direct(w, self.walks[w].is_written) else MOVE_ROWS
                cost += self.members * (<double>pitch / width)
                if least == 0.0 or cost < least:
                    least, best = cost, pitch
        self.pitch = best
        self.rows = (WG_CHUNK - width) // self.pitch + 1
        return 0

    cdef int set_inner(self) except -1:
        cdef int w
        for w in range(self.walk_count):
            self.walks[w].inner = self.strides[w][-1]
        return 0

    cdef bint is_regular(self, int w) except -1:
        """Return whether an array is regularly strided across the rows of a chunk."""
        return self.pitch == 0 or self.strides[w][-2] == self.walks[w].inner * self.pitch

    cdef bint has_gaps(self) except -1:
        """Return whether the rows of a chunk have gaps between them, which must not be stored."""
        return self.pitch != 0 and self.pitch != self.dims[-1]

    cdef bint is_direct(self, int w, bint is_target) except -1:
        """Return whether code accesses this array in place, without a temporary chunk."""
        return (self.walks[w].kind == DOUBLES and self.walks[w].inner == sizeof(double) and self.is_regular(w)
                and not (is_target and self.has_gaps()))

    cdef int new_chunk(self) noexcept:
        if self.free_count:
            self.free_count -= 1
            return self.free[self.free_count]
        self.chunks += 1
        return self.walk_count + self.number_count + self.chunks - 1

    cdef int free_chunk(self, int slot) noexcept:
        self.free[self.free_count] = slot
        self.free_count += 1
        return 0

    cdef int chunk_of(self, Py_ssize_t u) except -1:
        """Return the slot of an operand as a full chunk."""
        cdef InStep *v = self.at(u)
        cdef int slot
        if self.low.is_scalar(u):
            return v.fill
        if v.is_one:
            v.is_one = False
            slot, v.place = v.place, self.new_chunk()
            self.line(WG_M_GET, slot, 0, v.place)
            self.free_chunk(slot)
        if v.place < 0:
            v.place = self.chunk_at(v.walk)
        return v.place

    cdef int chunk_at(self, int w) except -1:
        """Return a slot with the elements of walk `w`: the walk itself, or a chunk loaded from it."""
        cdef int slot = w
        if not self.is_direct(w, False):
            slot = self.new_chunk()
            self.move(WG_M_GET if self.walks[w].kind == DOUBLES else WG_M_GET_BOOL, w, w, slot)
        return slot

    cdef int move(self, int op, int w, int source, int target) except -1:
        """Copy elements from a walk to a chunk or back."""
        if self.is_regular(w) and not (self.has_gaps() and op in (WG_M_PUT, WG_M_PUT_BOOL)):
            self.line(op, source, <int32_t>self.walks[w].inner, target)
        else:
            self.line(op + WG_M_GET_ROWS - WG_M_GET, source, <int32_t>self.walks[w].inner, target)
            self.line(0, self.dims[-1], self.strides[w][-2], <int32_t>self.pitch)
        return 0

    cdef int put(self, int slot, int w) except -1:
        """Store a chunk to an array."""
        if self.is_direct(w, True):
            if slot != w:
                self.line(WG_M_POSITIVE, slot, slot, w)
        else:
            self.move(WG_M_PUT if self.walks[w].kind == DOUBLES else WG_M_PUT_BOOL, w, slot, w)
        return 0

    cdef int release(self, Py_ssize_t u, Py_ssize_t t) noexcept:
        cdef InStep *v = self.at(u)
        if v.last <= t and v.place >= 0:
            if v.place >= self.walk_count + self.number_count:
                self.free_chunk(v.place)
            v.place = -1
        return 0

    cdef int slot_of(self, Py_ssize_t u) except -1:
        """Return the slot of an operand without expanding it: a scalar, one element per row, or a chunk."""
        cdef InStep *v = self.at(u)
        if self.low.is_scalar(u) and v.fill < 0:
            return self.walk_count + v.number
        if v.is_one:
            return v.place
        return v.walk if self.is_one_a_row(u) else self.chunk_of(u)

    cdef bint is_one_a_row(self, Py_ssize_t u) except -1:
        """Return whether a value is constant along the inner axis, whether in an array or a chunk."""
        cdef InStep *v = self.at(u)
        if v.walk < 0:
            return v.is_one
        return self.walks[v.walk].kind == DOUBLES and self.walks[v.walk].inner == 0 and self.is_regular(v.walk)

    cdef bint is_for_one(self, Py_ssize_t i) except -1:
        """Return whether a result is constant along rows and never stored, so that one element suffices."""
        cdef Lowering low = self.low
        cdef InStep *v = self.at(i)
        cdef Py_ssize_t j
        if v.walk >= 0 or v.target >= 0 or low.exact:
            return False
        for j in range(low.first[i], low.first[i + 1]):
            if not low.is_scalar(low.read[j]) and not self.is_one_a_row(low.read[j]):
                return False
        return <int>low.op[i] in PLAIN

    cdef bint has_scalar_divisor(self, Py_ssize_t i) except -1:
        """Return whether a member is the partial of a quotient by a divisor that is constant along rows."""
        cdef Lowering low = self.low
        return (low.op[i] == Op.PARTIAL + 2 * WG_DIVIDE + 1 and not low.exact and not low.for_llvm
                and (low.is_scalar(low.b[i]) or self.is_one_a_row(low.b[i])))

    cdef bint needs_chunk(self, Py_ssize_t i) noexcept:
        """Return whether scalar operands must fill a chunk; most operations accept a scalar paired with an array."""
        cdef Lowering low = self.low
        cdef int op = low.op[i]
        cdef Py_ssize_t j
        if op == Op.PLACE or reads[op] != 3 and not (low.exact and reads[op] == 7 and op != Op.SELECT):
            return True
        for j in range(low.first[i], low.first[i + 1]):
            if not low.is_scalar(low.read[j]):
                return False
        return True

    cdef int emit(self, Step step) except -1:
        cdef Py_ssize_t t
        cdef bint has_sum = False
        cdef int32_t u
        cdef InStep *v
        for t in range(step.members.shape[0]):
            self.at(step.members[t]).is_member = True
        for t in range(step.members.shape[0]):
            self.find_operands(step.members[t], t)
        for t in range(step.members.shape[0]):
            self.find_results(step.members[t])
            has_sum = has_sum or self.low.op[step.members[t]] == Op.SUM
        self.members = 0 if has_sum or self.low.for_llvm else step.members.shape[0]
        self.order_axes()
        for u in self.fills:
            v = self.at(u)
            v.fill = self.new_chunk()
        for t in range(step.members.shape[0]):
            self.find_target(step.members[t])
        for t in range(step.members.shape[0]):
            self.emit_one(step.members[t], t)
        self.finish()
        return 0

    cdef int find_operands(self, Py_ssize_t i, Py_ssize_t t) except -1:
        """Assign walks and scalar numbers to the operands of member `t`."""
        cdef Lowering low = self.low
        cdef int op = low.op[i]
        cdef Py_ssize_t j, u
        cdef InStep *v
        # a store reads only the stored value, its last operand
        for j in range(low.first[i + 1] - 1 if op == Op.PLACE else low.first[i], low.first[i + 1]):
            u = low.read[j]
            v = self.at(u)
            v.last = <int32_t>t
            if low.is_scalar(u):
                if v.number < 0:
                    v.number = self.number_count
                    self.numbers[self.number_count] = <int32_t>u
                    self.number_count += 1
                if self.needs_chunk(i) and u not in self.fills:
                    self.fills.append(u)
            elif op == Op.GATHER and u == low.a[i]:             # gathers index from the lowest address
                if v.memory < 0:
                    v.memory = self.walk(low.array_at(low.alloc_of[low.under[u]], low.low[u]),
                                         (0,) * len(self.shape), OTHER)
            elif not v.is_member:
                if v.walk < 0:
                    v.walk = self.walk_whole(u)
                if op == Op.GATHER:
                    self.places = v.walk
        return 0

    cdef int find_results(self, Py_ssize_t i) except -1:
        """Assign a walk to the array that a member stores, if any."""
        cdef Lowering low = self.low
        cdef int op = low.op[i]
        cdef InStep *v = self.at(i)
        if op == Op.PLACE:
            offset, shape, strides = low.listing.views[low.b[i]]
            v.walk = self.write(self.walk(low.array_at(low.alloc_of[i], offset), strides, low.layout(i).kind))
        elif op == Op.CALL:                                     # a reduction
            steps = low.folds[i][1]
            self.folded = (self.folded or set()) | {d for d, stride in enumerate(steps) if stride == 0}
            v.walk = self.write(self.walk(low.array(i), steps, DOUBLES), True)
        elif op != Op.SUM and low.needed[i]:
            v.walk = self.write(self.walk_whole(i))
        return 0

    cdef int find_target(self, Py_ssize_t i) except -1:
        """Let a value be computed directly in the array in which it is stored, if possible."""
        cdef Lowering low = self.low
        cdef int op = low.op[i]
        cdef InStep *v = self.at(i)
        cdef InStep *stored
        if op == Op.PLACE:
            if not low.is_scalar(low.c[i]):
                stored = self.at(low.c[i])
                if (stored.is_member and stored.target < 0 and not low.needed[low.c[i]] and self.is_direct(v.walk, True)
                        and low.layout(low.c[i]).kind == DOUBLES):
                    stored.target = v.walk
        elif op != Op.SUM and op != Op.CALL and low.needed[i] and self.is_direct(v.walk, True):
            v.target = v.walk
        return 0

    cdef int emit_one(self, Py_ssize_t i, Py_ssize_t t) except -1:
        cdef Lowering low = self.low
        cdef int op = low.op[i]
        cdef InStep *v = self.at(i)
        if op == Op.SUM:
            self.line(WG_M_SUM if self.rows == 1 else WG_M_SUM_ROWS, self.chunk_of(low.a[i]), len(self.sums), 0)
            if self.rows > 1:
                self.line(0, self.dims[-1], 0, 0)
            self.sums.append(low.slot[i])
            self.release(low.a[i], t)
        elif op == Op.CALL:
            self.fold(i)
            self.release(low.read[low.first[i]], t)
        elif op == Op.PLACE:
            self.put(self.chunk_of(low.c[i]), v.walk)
            self.release(low.c[i], t)
        else:
            if op == Op.GATHER:
                v.place = v.target if v.target >= 0 else self.new_chunk()
                self.line(WG_M_GATHER, self.at(low.b[i]).walk, self.at(low.a[i]).memory, v.place)
            else:
                self.emit_elementwise(i, t)
            if v.walk >= 0 and v.target < 0:
                self.put(v.place, v.walk)
            self.release(i, t)
        return 0

    cdef int emit_elementwise(self, Py_ssize_t i, Py_ssize_t t) except -1:
        cdef Lowering low = self.low
        cdef int op = low.op[i], m, n = low.first[i + 1] - low.first[i], code = machine_op[op]
        cdef InStep *v = self.at(i)
        cdef const int32_t *operands = &low.read[low.first[i]]
        cdef int slots[3]
        cdef bint is_array[3]
        cdef bint is_one = self.is_for_one(i), loop = low.in_loop(op, False)
        cdef bint by_scalar = self.has_scalar_divisor(i) and not is_one
        cdef Py_ssize_t start = self.lines
        for m in range(n):
            is_array[m] = not low.is_scalar(operands[m]) or self.at(operands[m]).fill >= 0
        if reads[op] == 3 and operands[0] != operands[1]:   # beside an array, a row-constant operand counts as scalar
            for m in range(2):
                if is_array[m] and is_array[1 - m]:
                    is_array[m] = not self.is_one_a_row(operands[m])
        for m in range(n):
            if is_array[m] and not is_one and not (by_scalar and m == 0):
                slots[m] = self.chunk_of(operands[m])
            else:
                slots[m] = self.slot_of(operands[m])
        if not (loop or reads[op] == 7 or low.exact and Op.PARTIAL <= op < Op.INPUT):
            for m in range(n):                              # the result may reuse the chunk of an operand
                self.release(operands[m], t)
        v.place = v.target if v.target >= 0 else self.new_chunk()
        if is_one:
            v.is_one = True
            self.line(WG_M_ONE, 0, 0, v.place)
        if by_scalar:
            self.line(WG_M_QUOTIENT, slots[1], slots[0], v.place)
        elif reads[op] == 7:
            self.emit_ternary(i, slots, is_array)
        elif loop:
            self.line(WG_M_LOOP, slots[0], slots[n - 1], v.place)
            self.line(0, loop_number(low, op), is_array[0] + 2 * is_array[n - 1], 0)
        else:
            if n == 2:
                code += 0 if is_array[0] and is_array[1] else 1 if is_array[0] else 2
                if code == WG_M_ADD + 2 or code == WG_M_MULTIPLY + 2 or code == WG_M_STRONG + 2:    # swap operands
                    code, slots[0], slots[1] = code - 1, slots[1], slots[0]
            if n != 2 or is_one:
                self.line(code, slots[0], slots[1 if n == 2 else 0], v.place)
            elif not self.pair(code, slots, t, start, v.place):
                self.line(code, slots[0], slots[1], v.place)
                self.computed, self.computed_at = <int32_t>i, self.lines - 1
        for m in range(n):
            self.release(operands[m], t)
        return 0

    cdef bint pair(self, int code, const int *slots, Py_ssize_t t, Py_ssize_t start, int place) except -1:
        """Fuse member `t` with the previous operation if nothing else reads that result; return whether it did.

        Lines of code from `start` on load the operands of member `t`.
        """
        cdef wg_code *words = <wg_code *>self.code.data
        cdef wg_code first
        cdef InStep *v
        cdef int op
        cdef Py_ssize_t k
        if self.computed_at != start - 1 or start == 0 or slots[0] == slots[1] or self.low.for_llvm:
            return False
        first, v = words[start - 1], self.at(self.computed)
        if v.last != t or v.target >= 0 or first.y != slots[0] and first.y != slots[1]:
            return False
        op = wg_pair_op(first.op, code, first.y == slots[1])
        if op < 0:
            return False
        for k in range(start, self.lines):                  # a load may have overwritten the chunk of a or b
            if words[k].y >= self.walk_count + self.number_count and words[k].y in (first.a, first.b):
                return False
        for k in range(start, self.lines):
            words[k - 1] = words[k]
        self.lines -= 1
        self.line(op, first.a, first.b, place)
        self.line(0, slots[1] if first.y == slots[0] else slots[0], 0, 0)
        return True

    cdef int emit_ternary(self, Py_ssize_t i, const int *slots, const bint *is_array) except -1:
        """Emit an operation with three operand fields; unused ones also need a valid slot."""
        cdef Lowering low = self.low
        cdef int op = low.op[i], m, k = 0, form = 0, y = self.at(i).place
        cdef int32_t[3] columns = [low.a[i], low.b[i], low.c[i]]
        cdef int full[3]
        cdef bint both[3]
        for m in range(3):
            full[m], both[m] = y, True
            if columns[m] >= 0:
                full[m], both[m] = slots[k], is_array[k]
                k += 1
        if low.exact and Op.PARTIAL <= op < Op.INPUT:
            form = 1 if not both[1] else 2 if not both[0] else 0
            self.line(WG_M_EXACT, full[0], full[1], y)
            self.line(0, full[2], 2 * form + (op - Op.PARTIAL) % 2, (op - Op.PARTIAL) // 2)
        else:
            self.line(machine_op[op], full[0], full[1], y)
            self.line(0, full[2], 0, 0)
        return 0

    cdef int fold(self, Py_ssize_t i) except -1:
        """Emit a reduction, which stores its result if chunks hold whole rows, and accumulates otherwise."""
        cdef Lowering low = self.low
        cdef int w = self.at(i).walk, fold = low.folds[i][0]
        cdef bint is_all = (self.walks[w].inner == 0 and 0 not in self.strides[w][:-1]
                            and (self.rows > 1 or self.dims[-1] <= WG_CHUNK))
        self.line(WG_M_FOLD, self.chunk_of(low.read[low.first[i]]), 2 * fold + (not is_all), w)
        self.line(0, self.dims[-1] if self.rows > 1 else 0, self.strides[w][-2] if self.rows > 1 else 0,
                  <int32_t>self.walks[w].inner)
        if not is_all:
            Chunks(low, low.layout(i).shape).fill(i, FIRST[fold])
        return 0

    cdef int fill(self, Py_ssize_t target, double x) except -1:
        """Emit a step that fills an array with a scalar."""
        cdef int w = self.write(self.walk_whole(target)), chunk
        self.order_axes()
        chunk = self.new_chunk()
        self.more = [(chunk, slot_of_constant(self.low, x))]
        self.put(chunk, w)
        self.finish()
        return 0

    cdef int copy(self, Py_ssize_t source, Py_ssize_t target) except -1:
        """Emit a step that copies an array."""
        cdef int from_ = self.walk_whole(source), to = self.write(self.walk_whole(target))
        self.order_axes()
        self.put(self.chunk_at(from_), to)
        self.finish()
        return 0

    cdef int finish(self) except -1:
        cdef Lowering low = self.low
        cdef int first = self.walk_count + self.number_count, m
        cdef cnp.ndarray code = code_of(self.lines)
        cdef list fill = self.more or []
        cdef int32_t u
        memcpy(cnp.PyArray_DATA(code), self.code.data, self.lines * sizeof(wg_code))
        low.chunks = max(low.chunks, self.chunks)
        low.pointers = max(low.pointers, first + self.chunks)
        low.sums = max(low.sums, len(self.sums))
        low.axes = max(low.axes, len(self.dims))
        walk = tuple([(m, self.walks[m].array) for m in range(self.walk_count)])
        number = tuple([(self.walk_count + m, low.slot[self.numbers[m]]) for m in range(self.number_count)])
        for u in self.fills:
            fill.append((self.at(u).fill, low.slot[u]))
        block = self.block()
        if block:
            low.blocks = max(low.blocks, (self.dims[0] // block + 1) * len(self.sums))
        # as tuples of integers, which the garbage collector does not track
        low.emitted.append((WG_VECTOR, code, tuple(self.dims), tuple([tuple(s) for s in self.strides]), walk, number,
                            tuple(fill), tuple(self.sums), first, self.chunks, self.rows, self.pitch, block))
        return 0

    cdef Py_ssize_t block(self) except -1:
        """Return the block size on the first axis; 0 (no blocks) if there are few elements or blocks would overlap."""
        cdef Py_ssize_t size = math.prod(self.dims), count, unit
        cdef int w
        if size < 2 * WG_BLOCK:
            return 0
        for w in range(self.walk_count):
            if not self.walks[w].is_written:
                continue
            axes = [d for d in range(len(self.dims)) if self.strides[w][d] or not self.walks[w].is_folded]
            if 0 not in axes or overlaps([self.dims[d] for d in axes], [self.strides[w][d] for d in axes]):
                return 0
        count = max(1, WG_BLOCK * self.dims[0] // size)
        if len(self.dims) == (2 if self.rows > 1 else 1):
            unit = self.rows if self.rows > 1 else WG_CHUNK
            count = (count + unit - 1) // unit * unit
        return count if count < self.dims[0] else 0
