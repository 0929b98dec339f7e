# Lowering, included by machine.pyx: a program becomes VM instructions ("steps").
#
# 1. Idioms (idioms.pxi): constant powers, reductions, and fills that are overwritten; native calls (native.pxi).
# 2. Scheduling (scheduling.pxi): instructions are grouped into steps.
# 3. Buffer allocation (allocation.pxi): arrays get allocations and scalars slots, reused after their last use.
# 4. Instruction selection (selection.pxi, vector_selection.pxi): code is emitted step by step.
#
# Phases 3 and 4 are interleaved, step by step; workspace offsets are assigned at the end.


@cython.final
cdef class Lowering:
    """Lowers a listing to VM instructions, as the data from which a `Machine` is built."""

    cdef object listing
    cdef bint exact
    cdef bint for_llvm              # lower for the LLVM tier, which gains nothing from paired operations
    cdef int16_t[::1] op
    cdef int32_t[::1] a, b, c, type
    cdef bint has_columns           # whether these columns are copies
    cdef Py_ssize_t n
    cdef int32_t[::1] read          # operands of all instructions, concatenated
    cdef int32_t[::1] first         # operands of instruction i are read[first[i]:first[i + 1]]
    cdef int32_t[::1] count         # number of reads of a value; being an output counts as one
    cdef list layouts               # by type id; None for scalars
    cdef int32_t[::1] under         # the array that nested VIEWs view, or the value itself
    cdef int64_t[::1] low           # bytes from the lowest address of that array to that of the view
    cdef int32_t[::1] step          # step that defines a value; -1: before all steps
    cdef int32_t[::1] last          # last use: a position for scalars, a step for arrays
    cdef char[::1] needed           # whether an array must be stored in memory
    cdef list steps
    cdef dict latest                # shape: latest vector step
    cdef list allocs
    cdef dict alloc_of              # value that is not a view: its allocation
    cdef dict arrays                # (allocation, offset): index of array
    cdef int array_count
    cdef int32_t[::1] slot
    cdef int32_t[::1] free_slots    # a stack of `free` slots
    cdef Py_ssize_t free
    cdef int slots
    cdef int32_t[::1] local         # number of a value in the latest vector step that uses it
    cdef dict folds                 # reduction call: (function, strides of the result along the operand's axes)
    cdef dict natives               # call or guard: the native call that computes it
    cdef set fills                  # filled arrays whose elements are all overwritten
    cdef dict constants             # bits of a constant: its slot
    cdef list loops                 # kernels whose ufunc loops are used
    cdef list emitted
    cdef list inputs                # (index of input, Value)
    cdef list outputs               # Values
    cdef Py_ssize_t memory          # bytes of the workspace
    cdef int chunks, sums, pointers, axes   # maxima over vector steps
    cdef Py_ssize_t blocks          # maximum number of partial sums over blocks

    def __init__(self, listing, bint exact, bint for_llvm=False):
        self.listing = listing
        self.exact, self.for_llvm = exact, for_llvm
        if isinstance(listing, Listing):        # tests pass other classes
            self.op, self.a, self.b, self.c, self.type = (<Listing>listing).columns()
        else:
            self.op, self.a, self.b, self.c, self.type = listing.op, listing.a, listing.b, listing.c, listing.type
        self.n = self.op.shape[0]
        self.layouts = [None, None] + [Layout(*kind) for kind in listing.types[2:]]
        self.allocs, self.alloc_of, self.arrays = [], {}, {}
        self.loops, self.emitted = [], []
        self.free_slots = int32s(256)
        self.slots = 1                              # slot 0 stands for unused operands
        self.constants = {}
        self.chunks = self.sums = self.pointers = 1
        self.axes = 1
        self.under = np.arange(self.n, dtype=np.int32)
        self.low = np.zeros(self.n, np.int64)
        self.step = int32s(self.n, -1)
        self.slot, self.local = int32s(self.n), int32s(self.n)
        self.folds = {}
        self.fills = set()
        self.natives = {}
        if not exact:
            find_powers(self)
            find_folds(self)
        find_native_calls(self)
        self.find_operands()
        if drop_covered_fills(self):
            self.find_operands()
        assign_steps(self)
        find_last_uses(self)
        allocate_and_emit(self)
        place_allocs(self)

    cdef int own_columns(self) except -1:
        """Copy the columns before the first change to them, because they belong to the listing."""
        if not self.has_columns:
            self.has_columns = True
            self.op, self.a = np.array(self.op), np.array(self.a)
            self.b, self.c = np.array(self.b), np.array(self.c)
        return 0

    cdef bint is_scalar(self, Py_ssize_t i) noexcept:
        return self.type[i] <= 1

    cdef Layout layout(self, Py_ssize_t i):
        return self.layouts[self.type[i]]

    cdef list operands(self, Py_ssize_t i):
        """Return the ids of an instruction's operands."""
        cdef Py_ssize_t j
        return [self.read[j] for j in range(self.first[i], self.first[i + 1])]

    cdef int find_operands(self) except -1:
        cdef Py_ssize_t i, j, n = 0
        cdef int mask, k, op
        cdef int32_t *read
        cdef int32_t *first
        cdef int32_t *count
        cdef const int16_t *ops = &self.op[0]
        cdef const int32_t *columns[3]
        cdef const int32_t[::1] many
        cdef dict lists = {}        # operands of calls and packs
        for i in range(self.n):
            if self.op[i] == Op.CALL:
                lists[i] = np.array(self.listing.calls[self.a[i]].operands, np.int32)
            elif self.op[i] == Op.PACK:
                lists[i] = np.asarray(self.listing.packs[self.b[i]][1], np.int32)
        self.first, self.count = int32s(self.n + 1), int32s(self.n)
        columns[0], columns[1], columns[2] = &self.a[0], &self.b[0], &self.c[0]
        for i in range(self.n):
            mask = reads[ops[i]]
            for k in range(3):
                if mask >> k & 1 and columns[k][i] >= 0:
                    n += 1
        self.read = int32s(n + sum(map(len, lists.values())) + 1)
        read, first, count = &self.read[0], &self.first[0], &self.count[0]
        n = 0
        for i in range(self.n):
            first[i] = <int32_t>n
            op = ops[i]
            mask = reads[op]
            if op == Op.CALL or op == Op.PACK:
                many = lists[i]
                for j in range(many.shape[0]):
                    read[n] = many[j]
                    n += 1
            for k in range(3):
                if mask >> k & 1 and columns[k][i] >= 0:
                    read[n] = columns[k][i]
                    n += 1
        first[self.n] = <int32_t>n
        for j in range(n):
            count[read[j]] += 1
        for i in self.listing.outputs:
            self.count[i] += 1
        return 0

    cdef bint has_loop(self, int op) except -1:
        return kernel_of(op).loop != NULL

    cdef bint in_loop(self, int op, bint of_numbers) except -1:
        """Return whether an opcode is executed by NumPy's ufunc loop."""
        if of_numbers and not self.exact and op != WG_ERFC:
            return False
        if op >= Op.PARTIAL or wg_is_correctly_rounded(op) or (of_numbers and op == WG_POW):
            return False
        return self.exact or op == WG_ERFC or not (of_numbers or wg_is_vector_code(op) or not self.has_loop(op))

    cdef int array_at(self, Allocation alloc, Py_ssize_t first) except -1:
        """Return the index, in the table of addresses, of arrays that start at this offset."""
        key = alloc.number, first
        found = self.arrays.get(key)
        if found is None:
            found = self.arrays[key] = self.array_count
            self.array_count += 1
            alloc.arrays.append((found, first))
        return found

    cdef int array(self, Py_ssize_t u) except -1:
        cdef Allocation alloc = self.alloc_of[self.under[u]]
        return self.array_at(alloc, self.low[u] + self.layout(u).low)

    cdef bint is_whole(self, Py_ssize_t u):
        cdef Allocation alloc = self.alloc_of[self.under[u]]
        return self.low[u] == 0 and self.layout(u) == alloc.layout

    cdef Value value(self, Py_ssize_t u):
        cdef Value value = Value.__new__(Value)
        value.is_scalar = self.is_scalar(u)
        value.is_truth = self.type[u] == 1
        if value.is_scalar:
            value.where = self.slot[u]
        else:
            value.where = self.array(u)
            value.layout = self.layout(u)
            value.alloc = self.alloc_of[self.under[u]]
            value.first = self.low[u]
            value.is_whole = self.is_whole(u)
        return value
