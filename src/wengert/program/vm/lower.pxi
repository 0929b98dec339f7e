# Lowering, included by machine.pyx: a program becomes VM instructions ("steps").
#
# 1. Scheduling: each IR instruction joins the latest step that its operands allow: scalar code a scalar step,
#    elementwise array code a vector step of the same shape.  Everything else is a step of its own.
# 2. Buffer allocation: a view lies in the allocation of its array; an instruction that overwrites elements of
#    an array reuses its allocation in place if nothing reads the array later, and copies it otherwise.
# 3. Slots of scalars and buffers of arrays are reused after their last use.
# 4. Instruction selection: code is emitted step by step.

cdef enum:
    DOUBLES, BOOLS, OTHER                   # classes of element types
    GIVEN, CONSTANT, WORK, FRESH, RESULT    # allocations: input, constant, workspace, new output, result of a call
    NUMBERS, VECTOR, PACKING, MOVING, PYTHON        # kinds of steps in the schedule
    CUBE = 1100, FOURTH, ROOT               # opcodes of powers with constant exponent
    END = 1 << 30                           # position of the last use of an output
    MIN_IN_WORKSPACE = 1 << 16              # bytes from which a call's result goes to the workspace, to reuse its pages

POWERS = {1.0: WG_POSITIVE, 2.0: WG_SQUARE, 3.0: CUBE, 4.0: FOURTH, 0.5: ROOT, -1.0: WG_RECIPROCAL}

#: functions besides ufuncs that accept out=
cdef frozenset WITH_OUT = frozenset([
    np.sum, np.prod, np.mean, np.max, np.min, np.amax, np.amin, np.cumsum, np.cumprod, np.dot, np.add.reduce])

#: products of matrices and vectors; the last two are lowered for vectors only
cdef frozenset PRODUCTS = frozenset([np.matmul, np.dot, np.vdot, np.inner])
#: multiplications up to which the VM computes a product faster than a call of BLAS
cdef int MAX_PRODUCT = 1 << 14

#: reductions of axes, with their number in WG_M_FOLD
cdef dict FOLDS = {np.sum: 0, np.add.reduce: 0, np.max: 1, np.amax: 1, np.min: 2, np.amin: 2}
cdef list FIRST = [0.0, -math.inf, math.inf]        # their neutral elements
cdef int MAX_STORES = 64            # consecutive stores to one array that are compared for overlap
cdef int MIN_CROWDED = 8            # additions per element from which a scatter uses two accumulators
cdef int MAX_SHORT_ROW = 64         # length of the inner axis up to which several rows share a chunk

cdef dict CONSTANT_POWERS = {CUBE: "CUBE", FOURTH: "FOURTH", ROOT: "ROOT"}


cdef dict named_ops():
    """Map opcodes of elementwise instructions outside ``kernels.h`` and of constant powers to VM opcodes."""
    cdef const wg_named_op *item = wg_named_ops
    cdef dict found = {}
    opcodes = {name: op for op, name in CONSTANT_POWERS.items()}
    own = [(op, row) for op, row in ROWS.items() if op >= Op.INPUT and row.lowering == "elementwise"]
    opcodes.update({row.name.upper(): op for op, row in own})
    while item.name != NULL:
        found[opcodes.pop(item.name.decode())] = item.op
        item += 1
    if opcodes:
        raise TypeError(f"the VM has no opcode for {', '.join(opcodes)}: see vm_loops.h")
    return found

cdef dict NAMED_OPS = named_ops()

#: opcodes that give the same bits for a single element as within a chunk
cdef set PLAIN = {op for op in range(256) if wg_is_correctly_rounded(op)} | (set(NAMED_OPS) - set(CONSTANT_POWERS)) | {
    <int>Op.PARTIAL + 2 * op + side for op in (WG_DIVIDE, WG_LOG, WG_SQUARE, WG_RECIPROCAL, WG_SQRT)
    for side in range(2 if op == WG_DIVIDE else 1)}

cdef int reads[2048]                # by opcode: which of a, b, c are values; bits 1, 2, 4
cdef int machine_op[2048]           # by opcode: VM opcode of an elementwise instruction, else -1
cdef dict row_kernels = {}          # by opcode: the Kernel of a row, created on first use


cdef int fill_tables() except -1:
    cdef int op
    for op in range(2048):
        reads[op] = 0
        machine_op[op] = wg_machine_op(op)
    for op, row in ROWS.items():
        reads[op] = row.mask
    for op, found in NAMED_OPS.items():
        machine_op[op] = found
    for op in CONSTANT_POWERS:
        reads[op] = 1
    return 0

fill_tables()


def opcodes_of_machine():
    """Return, by VM opcode, the IR opcode or name of its operation, and the number of operands."""
    cdef int op, code, k
    names = {op: name.lower() for op, name in CONSTANT_POWERS.items()}
    found = {
        WG_M_LOOP: ("loop", 2), WG_M_LOAD: ("load", 0), WG_M_LOAD_BOOL: ("load_bool", 0), WG_M_GUARD: ("guard", 2),
        WG_M_GUARD_INT: ("guard_int", 2), WG_M_END: ("end", 0), WG_M_EXACT: ("exact", 3), WG_M_GET: ("get", 1),
        WG_M_PUT: ("put", 1), WG_M_GET_BOOL: ("get_bool", 1), WG_M_PUT_BOOL: ("put_bool", 1), WG_M_SUM: ("sum", 1),
        WG_M_GATHER: ("gather", 2), WG_M_SUM_ROWS: ("sum_rows", 1), WG_M_ONE: ("one", 0),
        WG_M_FOLD: ("fold", 2), WG_M_GET_ROWS: ("get_rows", 2),
        WG_M_PUT_ROWS: ("put_rows", 2), WG_M_GET_BOOL_ROWS: ("get_bool_rows", 2),
        WG_M_PUT_BOOL_ROWS: ("put_bool_rows", 2)}
    for op in range(2048):
        code = machine_op[op]
        if code >= 0:
            for k in range(3 if reads[op] == 3 else 1):         # also the variants with one scalar operand
                found[code + k] = names.get(op, op), {1: 1, 3: 2, 7: 3}[reads[op]]
    return found


def scattered(x, places, Layout layout):
    """Add up elements by index into a new array of this layout."""
    memory = np.bincount(places.ravel(), x.ravel(), layout.span // layout.itemsize).astype(layout.dtype)
    return np.ndarray(layout.shape, layout.dtype, memory, layout.low, layout.strides)


cdef tuple product_sizes(tuple left, tuple right):
    """Return m, k and n of a product; a vector is a row on the left and a column on the right."""
    return left[0] if len(left) == 2 else 1, left[-1], right[1] if len(right) == 2 else 1


cdef object function_called(call):
    """Return the function of a call; for matrix products NumPy's own, which accepts out=."""
    return np.matmul if call.row is not None and call.row.fun is np.matmul else call.compute


cdef bint is_exact_double(expected):
    """Whether a double represents exactly what a guard expects."""
    if isinstance(expected, float):
        return True
    return isinstance(expected, (int, np.bool)) and abs(expected) <= 1 << 53


cdef Kernel kernel_of(int op):
    if op not in row_kernels:
        row_kernels[op] = by_opcode[op] if by_opcode[op] is not None else Kernel(function(op), op, 0, 0)
    return row_kernels[op]


cdef int kind_of_elements(cnp.dtype dtype) except -1:
    if dtype.type_num == cnp.NPY_DOUBLE and dtype.isnative:
        return DOUBLES
    return BOOLS if dtype.type_num == cnp.NPY_BOOL else OTHER


@cython.final
@cython.no_gc
cdef class Layout:
    """Element type, shape and strides of an array."""

    cdef cnp.dtype dtype
    cdef tuple shape, strides
    cdef int kind
    cdef Py_ssize_t size, itemsize
    cdef cnp.npy_intp dims[64]
    cdef cnp.npy_intp steps[64]
    cdef Py_ssize_t low             # bytes from the lowest address to the first element
    cdef Py_ssize_t span            # bytes from the lowest address to the end
    cdef bint is_c                  # contiguous in C order
    cdef int ndim

    def __init__(self, dtype, tuple shape, strides):
        cdef int d
        cdef Py_ssize_t step
        self.dtype = dtype = np.dtype(dtype)
        self.shape = shape
        self.ndim = len(shape)
        self.itemsize = dtype.itemsize
        self.kind = kind_of_elements(self.dtype)
        self.size = 1
        for d in range(self.ndim):
            self.dims[d] = shape[d]
            self.size *= self.dims[d]
        in_order = c_strides(shape, self.itemsize)
        self.strides = in_order if strides is None or self.size == 0 else tuple(strides)
        self.is_c = True
        self.span = self.itemsize if self.size else 0
        for d in range(self.ndim):
            self.steps[d] = step = self.strides[d]
            self.is_c &= self.dims[d] == 1 or step == in_order[d]
            if self.size:
                self.span += (self.dims[d] - 1) * abs(step)
                self.low -= (self.dims[d] - 1) * min(0, step)

    def __eq__(self, other):
        return (self.dtype, self.shape, self.strides) == (
            (<Layout>other).dtype, (<Layout>other).shape, (<Layout>other).strides)

    cdef tuple broadcast(self, tuple shape):
        """Return the strides broadcast to a shape."""
        cdef Py_ssize_t extra = len(self.shape) - len(shape)
        own, strides = self.shape[max(0, extra):], self.strides[max(0, extra):]
        if self.shape == shape:
            return self.strides
        return (0,) * max(0, -extra) + tuple([
            s if n == m else 0 for n, m, s in zip(own, shape[max(0, -extra):], strides)])


@cython.final
@cython.no_gc
cdef class Allocation:
    """An allocation, live from one step to another, that holds one or more arrays."""

    cdef int kind, number, which, born, last
    cdef Layout layout
    cdef Py_ssize_t place           # for WORK: offset in the workspace, in bytes
    cdef list arrays                # (index of array, offset of its first element from the lowest address)
    cdef int count                  # the same as C arrays
    cdef const int32_t *numbers
    cdef const int64_t *firsts


@cython.final
@cython.no_gc
cdef class Value:
    """Location of a value for Python: a scalar's slot, or an array."""

    cdef bint is_scalar, is_truth, is_whole
    cdef bint is_returned           # an output that returns its allocation instead of a copy
    cdef int where                  # slot, or index of the array
    cdef Py_ssize_t first           # offset in the allocation, in bytes
    cdef Layout layout
    cdef Allocation alloc


@cython.final
cdef class PythonStep:
    """A step run by Python: a call, a guard on an array, or moves of elements that are neither doubles nor bools."""

    cdef int op
    cdef object compute
    cdef tuple args
    cdef dict kwargs
    cdef list operands
    cdef Value y
    cdef bint takes_out             # whether the function writes its result to the workspace by out=
    cdef int guard
    cdef object expected


@cython.final
@cython.no_gc
cdef class Step:
    cdef int kind
    cdef tuple shape
    cdef const int32_t[::1] members     # IR instructions

    cdef list listed(self):
        cdef Py_ssize_t m
        return [self.members[m] for m in range(self.members.shape[0])]


@cython.final
cdef class Lowering:
    """Lowers a listing to steps, as data for `Machine`."""

    cdef object listing
    cdef bint exact
    cdef int16_t[::1] op
    cdef int32_t[::1] a, b, c, type
    cdef Py_ssize_t n
    cdef int32_t[::1] read          # operands of all instructions, concatenated
    cdef int32_t[::1] first         # operands of instruction i are read[first[i]:first[i + 1]]
    cdef int32_t[::1] count         # number of reads of a value; being an output counts as one
    cdef list layouts               # by type id; None for scalars
    cdef int32_t[::1] under         # the array below nested VIEWs, or the value itself
    cdef int64_t[::1] low           # offset of a view from that array, between lowest addresses, in bytes
    cdef int32_t[::1] step          # step that defines a value; -1: before all steps
    cdef int32_t[::1] last          # last use: of scalars a position, of arrays a step
    cdef char[::1] needed           # whether an array must be stored in memory
    cdef list steps
    cdef dict latest                # shape: latest vector step
    cdef list allocs
    cdef dict alloc_of              # value that is no view: its allocation
    cdef dict arrays                # (allocation, offset): index of array
    cdef int array_count
    cdef int32_t[::1] slot
    cdef int32_t[::1] free_slots    # a stack of `free` slots
    cdef Py_ssize_t free
    cdef int slots
    cdef dict folds                 # reduction call: (function, strides of the result along the operand's axes)
    cdef set fills                  # filled arrays whose elements are all overwritten
    cdef dict constants             # bits of a constant: its slot
    cdef list loops                 # kernels with ufunc loops that are used
    cdef list emitted
    cdef list inputs                # (index of input, Value)
    cdef list outputs               # Values
    cdef Py_ssize_t memory          # bytes of the workspace
    cdef int chunks, sums, pointers, axes   # maxima over vector steps
    cdef Py_ssize_t blocks          # maximum number of partial sums over blocks

    def __init__(self, listing, bint exact):
        self.listing = listing
        self.exact = exact
        self.op, self.a, self.b, self.c, self.type = listing.op, listing.a, listing.b, listing.c, listing.type
        self.n = self.op.shape[0]
        self.layouts = [None, None] + [Layout(*kind) for kind in listing.types[2:]]
        self.allocs, self.alloc_of, self.arrays = [], {}, {}
        self.loops, self.emitted = [], []
        self.free_slots = int32s(self.n)
        self.slots = 1                              # slot 0 stands for unused operands
        self.constants = {}
        self.chunks = self.sums = self.pointers = 1
        self.axes = 1
        self.under = np.arange(self.n, dtype=np.int32)
        self.low = np.zeros(self.n, np.int64)
        self.step = int32s(self.n, -1)
        self.slot = int32s(self.n)
        self.folds = {}
        self.fills = set()
        if not exact:
            self.find_powers()
            self.find_folds()
        self.find_operands()
        if self.drop_covered_fills():
            self.find_operands()
        self.schedule()
        self.find_last_uses()
        self.allocate_and_emit()
        self.place_allocs()

    # ------------------------------------------------------------------------------------------ questions

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
        self.read = int32s(3 * self.n + sum(map(len, lists.values())) + 1)
        read, first, count = &self.read[0], &self.first[0], &self.count[0]
        columns[0], columns[1], columns[2] = &self.a[0], &self.b[0], &self.c[0]
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

    cdef bint drop_covered_fills(self) except -1:
        """Drop fills of arrays whose elements are all stored later; return whether there are any."""
        cdef Py_ssize_t i, base
        cdef bint found = False
        cdef int32_t[::1] reader
        cdef char[::1] is_fill = np.zeros(self.n, np.int8)
        for i in range(self.n):
            if self.op[i] == Op.PLACE and self.a[i] < 0 and self.is_scalar(self.c[i]):
                is_fill[i] = found = True
        if not found:
            return False
        found = False
        reader = int32s(self.n, -1)
        for i in range(self.n):
            if self.op[i] == Op.PLACE and self.a[i] >= 0:
                reader[self.a[i]] = <int32_t>i
        for i in range(self.n):
            base = self.a[i] if self.op[i] == Op.PLACE else -1
            if base >= 0 and is_fill[base] and self.is_covered(i, reader):
                self.a[i] = -1
                self.fills.add(base)
                found = True
        return found

    cdef bint is_covered(self, Py_ssize_t i, int32_t[::1] reader) except -1:
        """Whether this store and the next ones cover the whole array before anything else reads it."""
        cdef Layout layout = self.layout(i)
        cdef Py_ssize_t left = layout.size
        cdef list views = []
        cdef tuple view
        while layout.is_c and len(views) < MAX_STORES:
            view = self.listing.views[self.b[i]]
            if overlaps(view[1], view[2]) or not all([apart(view, other, layout.itemsize) for other in views]):
                return False
            views.append(view)
            left -= math.prod(view[1])
            if left == 0:
                return True
            if self.count[i] != 1 or reader[i] < 0 or self.type[reader[i]] != self.type[i]:
                return False
            i = reader[i]
        return False

    cdef bint has_loop(self, int op) except -1:
        return kernel_of(op).loop != NULL

    cdef bint in_loop(self, int op, bint of_numbers) except -1:
        """Whether an opcode runs NumPy's ufunc loop."""
        if of_numbers and not self.exact and op != WG_ERFC:
            return False
        if op >= Op.PARTIAL or wg_is_correctly_rounded(op) or (of_numbers and op == WG_POW):
            return False
        return self.exact or op == WG_ERFC or not (of_numbers or wg_is_vector_code(op) or not self.has_loop(op))

    cdef bint is_scalar_code(self, Py_ssize_t i) except -1:
        cdef int op = self.op[i]
        cdef Py_ssize_t j
        cdef const int32_t *types = &self.type[0]
        cdef const int32_t *read = &self.read[0]
        if op == Op.LOAD:
            return self.layout(self.a[i]).kind != OTHER
        if op == Op.GUARD:
            return self.is_scalar(self.a[i]) and is_exact_double(self.listing.guards[self.b[i]][0])
        if types[i] > 1 or machine_op[op] < 0:
            return False
        for j in range(self.first[i], self.first[i + 1]):
            if types[read[j]] > 1:
                return False
        return not self.in_loop(op, True) or self.has_loop(op)

    cdef bint is_vector_code(self, Py_ssize_t i, list operands):
        cdef int op = self.op[i]
        cdef Layout layout
        if op == Op.SUM:
            return not self.exact and self.layout(self.a[i]).kind == DOUBLES
        if i in self.folds:
            return True
        if self.is_scalar(i):
            return False
        if op == Op.PLACE:
            if self.layout(i).kind == OTHER:
                return False
            return self.is_scalar(self.c[i]) or self.layout(self.c[i]).kind != OTHER
        layout = self.layout(i)
        if op == Op.GATHER:
            return layout.kind == DOUBLES and self.layout(self.a[i]).kind == DOUBLES
        if machine_op[op] < 0 or layout.kind == OTHER:
            return False
        if layout.kind == BOOLS and (op < Op.INPUT or op == Op.STRONG):
            return False
        for u in operands:
            if not self.is_scalar(u) and (self.layout(u).kind == OTHER or self.layout(u).shape != layout.shape):
                return False
        if self.in_loop(op, False):
            # chunks are in ascending order, and ufunc loops may round differently for negative strides
            return op != WG_POW and self.has_loop(op) and not (self.exact and self.runs_backwards(operands))
        return True

    cdef bint runs_backwards(self, list operands):
        for u in operands:
            if not self.is_scalar(u) and (self.layout(u).low > 0):
                return True
        return False

    # ------------------------------------------------------------------------------------------ schedule

    cdef int find_powers(self) except -1:
        """Replace constant powers by multiplications or square roots."""
        cdef Py_ssize_t i
        cdef int op
        for i in range(self.n):
            op = self.op[i]
            if (op != WG_POW and op != WG_POWER and op != <int>Op.PARTIAL + 2 * WG_POW
                    and op != <int>Op.PARTIAL + 2 * WG_POWER or self.b[i] < 0 or self.op[self.b[i]] != Op.CONST):
                continue
            power = self.listing.constants[self.a[self.b[i]]]
            if op == WG_POW or op == WG_POWER:
                found = POWERS.get(power)
                if found is not None and (self.is_scalar(i) or self.layout(i).kind == DOUBLES):
                    # NumPy's loops use sqrt for 0.5, but libm's pow differs from it at -inf and -0.0
                    is_root = found == ROOT and not (self.is_scalar(i) and op == WG_POW)
                    self.op[i] = WG_SQRT if is_root else found
            elif power == 2.0:
                self.op[i] = <int>Op.PARTIAL + 2 * WG_SQUARE
                self.b[i] = self.c[i] = -1
        return 0

    cdef int find_folds(self) except -1:
        """Find calls that reduce axes of an array: sums, maxima and minima."""
        cdef Py_ssize_t i
        for i in range(self.n):
            if self.op[i] == Op.CALL:
                found = self.fold(i)
                if found is not None:
                    self.folds[i] = found

    cdef tuple fold(self, Py_ssize_t i):
        """Return the function of a reduction and the strides of its result along the operand's axes; else None."""
        cdef Layout x, y
        call = self.listing.calls[self.a[i]]
        fold = FOLDS.get(call.compute) if call.row is not None and call.compute is call.row.fun else None
        given = {**dict(zip(("a", "axis"), call.args)), **call.kwargs}
        if fold is None or len(call.args) > 2 or len(call.operands) != 1 or type(given.pop("a", None)) is not Operand:
            return None
        u = call.operands[0]
        axes, keeps, dtype = given.pop("axis", None), given.pop("keepdims", False), given.pop("dtype", None)
        if self.is_scalar(u) or self.is_scalar(i) or given or not (dtype is None or np.dtype(dtype) == np.float64):
            return None
        x, y = self.layout(u), self.layout(i)
        if not (x.kind == DOUBLES or x.kind == BOOLS and fold == 0) or y.kind != DOUBLES or not (x.size and y.is_c):
            return None
        axes = range(x.ndim) if axes is None else axes if type(axes) is tuple else (axes,)
        axes = {operator.index(axis) % x.ndim for axis in axes}
        kept = [n for d, n in enumerate(x.shape) if keeps or d not in axes]
        if y.shape != tuple([1 if keeps and d in axes else n for d, n in enumerate(kept)]):
            return None
        left = iter(y.strides)
        steps = [next(left) if keeps or d not in axes else 0 for d in range(x.ndim)]
        return fold, tuple([0 if d in axes else step for d, step in enumerate(steps)])

    cdef bint is_row_of(self, Py_ssize_t u, tuple shape) except -1:
        """Whether a value is a reduction over the last axis, broadcast back, of rows that each fit in one chunk."""
        cdef Layout layout
        if u in self.folds or self.is_scalar(u):
            return False
        layout = self.layout(u)
        steps = self.folds[self.under[u]][1]
        return (layout.shape == shape == self.layout(self.read[self.first[self.under[u]]]).shape
                and 1 < shape[-1] <= WG_CHUNK and steps[-1] == 0 and self.low[u] == 0 and layout.strides == steps
                and all([n == 1 or step for n, step in zip(shape[:-1], steps)]))

    cdef Py_ssize_t new_step(self, int kind, tuple shape) except -1:
        cdef Step step = Step.__new__(Step)
        step.kind = kind
        step.shape = shape
        self.steps.append(step)
        return len(self.steps) - 1

    cdef int schedule(self) except -1:
        cdef Py_ssize_t i, j, s, numbers = -1
        cdef int op, need
        cdef list operands
        cdef Layout layout
        cdef int32_t[::1] member = int32s(self.n, -1), order, end
        cdef const int16_t *ops = &self.op[0]
        cdef const int32_t *first = &self.first[0]
        cdef const int32_t *read = &self.read[0]
        cdef int32_t *step = &self.step[0]
        self.steps = []
        self.latest = {}
        for i in range(self.n):
            op = ops[i]
            if op == Op.VIEW:
                layout = self.layout(i)
                self.under[i] = self.under[self.a[i]]
                self.low[i] = self.low[self.a[i]] + self.listing.views[self.b[i]][0] - layout.low
                self.step[i] = self.step[self.under[i]]
                continue
            if op == Op.INPUT or op == Op.CONST or op == Op.ARRAY or (not self.count[i] and i in self.fills):
                continue
            if self.is_scalar_code(i):
                need = -1
                for j in range(first[i], first[i + 1]):
                    need = max(need, step[read[j]])
                if numbers < 0 or numbers < need:
                    numbers = self.new_step(NUMBERS, None)
                s = numbers
            else:
                operands = self.operands(i)
                if self.is_vector_code(i, operands):
                    s = self.vector_step(i, operands)
                else:
                    s = self.new_step(self.kind_of_step(i), None)
            step[i] = member[i] = <int32_t>s
        if not self.exact and len(self.steps) > 1:
            self.sink(member)
        order, end = int32s(self.n), np.zeros(len(self.steps) + 1, np.int32)
        for i in range(self.n):
            if member[i] >= 0:
                end[member[i] + 1] += 1
        for s in range(len(self.steps)):
            end[s + 1] += end[s]
            (<Step>self.steps[s]).members = order[end[s]:end[s + 1]]
        for i in range(self.n):
            if member[i] >= 0:
                order[end[member[i]]] = <int32_t>i
                end[member[i]] += 1
        return 0

    cdef int sink(self, int32_t[::1] member) except -1:
        """Sink instructions to the only step that uses them if they read just one stored array: avoids a store."""
        cdef int32_t[::1] readers = int32s(self.n, -1)
        cdef int32_t *reader = &readers[0]              # the only step that reads a value; -1: none, -2: not sinkable
        cdef const int32_t *read = &self.read[0]
        cdef Py_ssize_t i, j, u
        cdef int32_t here
        cdef int op
        for u in self.listing.outputs:
            reader[u] = -2
        for i in range(self.n - 1, -1, -1):
            op, here = self.op[i], member[i]
            if reader[i] > here >= 0 and self.may_sink(i, here, reader[i]):
                self.step[i] = member[i] = here = reader[i]
            for j in range(self.first[i], self.first[i + 1]):
                u = read[j]
                if op == Op.VIEW or (op == Op.PLACE or op == Op.GATHER) and u == self.a[i]:
                    reader[u] = -2
                elif reader[u] != here:
                    reader[u] = here if reader[u] == -1 else -2
        return 0

    cdef bint may_sink(self, Py_ssize_t i, Py_ssize_t s, Py_ssize_t t) except -1:
        """Whether an instruction may move from vector step `s` to `t` without adding more than one array to read."""
        cdef Step here = self.steps[s], there = self.steps[t]
        cdef Py_ssize_t j, u, base = -1
        if here.kind != VECTOR or there.kind != VECTOR or machine_op[self.op[i]] < 0 or here.shape != there.shape:
            return False
        for j in range(self.first[i], self.first[i + 1]):
            u = self.read[j]
            if self.is_scalar(u):
                continue
            if self.step[u] >= s or base >= 0 and base != self.under[u]:
                return False
            base = self.under[u]
        return base >= 0

    cdef int kind_of_step(self, Py_ssize_t i) except -1:
        """Return the kind of step for an instruction that is neither scalar nor vector code."""
        if self.op[i] == Op.PACK and self.layout(i).kind == DOUBLES:
            return PACKING
        cdef Py_ssize_t source = self.c[i] if self.op[i] == Op.PUT else self.a[i]
        if self.op[i] == Op.SCATTER or self.op[i] == Op.PUT:
            if self.layout(i).kind == self.layout(source).kind == DOUBLES and self.layout(source).is_c:
                return MOVING
        return PYTHON

    cdef Py_ssize_t vector_step(self, Py_ssize_t i, list operands) except -1:
        """Return the latest vector step of this shape if the operands are available there, else a new one."""
        cdef int op = self.op[i]
        cdef Py_ssize_t u
        if op == Op.PLACE:
            shape = tuple(self.listing.views[self.b[i]][1])
        else:
            shape = self.layout(operands[0] if op == Op.SUM or op == Op.CALL else i).shape
        cdef Py_ssize_t s = self.latest.get(shape, -1)
        for u in operands:
            if s < self.step[u]:
                s = -1
            elif s == self.step[u]:
                # defined in the same step: usable only element by element, or as reductions of the same rows
                if (op == Op.PLACE or op == Op.GATHER) and u == self.a[i]:
                    s = s if op == Op.PLACE and self.stores_beside(i, s) else -1
                elif self.under[u] in self.folds:
                    if not self.is_row_of(u, shape):
                        s = -1
                elif (self.is_scalar(u) or self.under[u] != u or self.op[u] == Op.PLACE
                        or self.layout(u).shape != shape):
                    s = -1
        if s < 0:
            s = self.latest[shape] = self.new_step(VECTOR, shape)
        return s

    cdef bint stores_beside(self, Py_ssize_t i, Py_ssize_t s) except -1:
        """Whether a step stores only to other, disjoint elements of the same array before."""
        cdef Py_ssize_t base = self.a[i], parts = 0
        cdef tuple view = self.listing.views[self.b[i]]
        if overlaps(view[1], view[2]) or self.is_scalar(self.c[i]):
            return False
        while base >= 0 and self.step[base] == s:
            parts += 1
            if (parts > MAX_STORES or self.op[base] != Op.PLACE or self.count[base] != 1
                    or self.type[base] != self.type[i]
                    or not apart(view, self.listing.views[self.b[base]], self.layout(i).itemsize)):
                return False
            base = self.a[base]
        return True

    cdef int find_last_uses(self) except -1:
        cdef Py_ssize_t s, i, j, m, u, position = 0
        cdef Step step
        cdef int32_t *last
        cdef const int32_t *read = &self.read[0]
        cdef const int32_t *types = &self.type[0]
        self.last = int32s(self.n, -1)
        last = &self.last[0]
        self.needed = np.zeros(self.n, np.int8)
        for s in range(len(self.steps)):
            step = self.steps[s]
            if step.kind != NUMBERS:
                position += 1
            for m in range(step.members.shape[0]):
                i = step.members[m]
                if step.kind == NUMBERS:
                    position += 1
                for j in range(self.first[i], self.first[i + 1]):
                    u = read[j]
                    if types[u] <= 1:
                        last[u] = <int32_t>position         # positions ascend
                    else:
                        self.use(u, s, position)
        for u in self.listing.outputs:
            self.use(u, END, END)
        return 0

    cdef int use(self, Py_ssize_t u, Py_ssize_t s, Py_ssize_t position) except -1:
        cdef Py_ssize_t w = self.under[u]
        if self.is_scalar(u):
            self.last[u] = max(self.last[u], <int32_t>position)
            return 0
        self.last[w] = max(self.last[w], <int32_t>s)
        if w != u or s != self.step[w]:
            self.needed[w] = 1
        return 0

    # ------------------------------------------------------------------------------------------ memory

    cdef Allocation new_alloc(self, int kind, Py_ssize_t i, Py_ssize_t born, int which=0):
        cdef Allocation alloc = Allocation.__new__(Allocation)
        alloc.kind = kind
        alloc.number = len(self.allocs)
        alloc.which = which
        alloc.layout = self.layout(i)
        alloc.born = born
        alloc.last = max(self.last[i], born)
        alloc.arrays = []
        self.allocs.append(alloc)
        self.alloc_of[i] = alloc
        return alloc

    cdef int array_at(self, Allocation alloc, Py_ssize_t first) except -1:
        """Return the index of the arrays that start at this offset."""
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

    cdef int reuse_or_copy(self, Py_ssize_t i, Py_ssize_t s) except -1:
        """Set the allocation of an array with replaced elements: its base's, reused in place, or a copy."""
        cdef Py_ssize_t base = self.a[i], w
        cdef Allocation alloc, fresh
        cdef Layout layout = self.layout(i)
        if base >= 0:
            alloc = self.alloc_of[self.under[base]]
            if self.step[base] == s:            # this step has stored to other elements before
                self.alloc_of[i] = alloc
                alloc.last = max(alloc.last, self.last[i])
                return 0
            if (alloc.kind in (WORK, RESULT) and alloc.last <= s and self.is_whole(base) and layout == alloc.layout
                    and self.count_uses(alloc, s, i) == 1):
                self.alloc_of[i] = alloc
                alloc.last = max(alloc.last, self.last[i])
                return 0
        fresh = self.new_alloc(WORK, i, s)
        if base < 0 and self.op[i] == Op.PLACE and layout.is_c and not self.is_zeros(i):
            pass                                # all elements are stored
        elif base < 0:
            self.emitted.append((WG_COPY, self.array_at(fresh, 0), -1, layout.span))
        elif layout.low == 0 and layout.span <= 2 * layout.size * layout.itemsize and self.layout(base) == layout:
            self.emitted.append((WG_COPY, self.array(i), self.array(base), layout.span))
        elif layout.kind == OTHER:
            self.python(Op.PLACE, self.value(i), [self.value(base)])
        else:
            Chunks(self, layout.shape).copy(base, i)
        return 0

    cdef bint is_zero(self, Py_ssize_t u):
        """Whether a value is the constant 0.0, not -0.0."""
        return self.op[u] == Op.CONST and np.float64(self.listing.constants[self.a[u]]).tobytes() == bytes(8)

    cdef bint is_zeros(self, Py_ssize_t i):
        """Whether an instruction creates an array of zeros."""
        return self.op[i] == Op.PLACE and self.a[i] < 0 and self.is_zero(self.c[i])

    cdef int count_uses(self, Allocation alloc, Py_ssize_t s, Py_ssize_t y) except -1:
        """Count reads of an allocation within a step, except of elements that value `y` then overwrites one by one."""
        cdef int count = 0
        cdef Py_ssize_t written = y         # the instruction that computes the stored elements
        if self.op[y] == Op.PLACE and not self.is_scalar(self.c[y]) and self.step[self.c[y]] == s:
            written = self.c[y]
        for i in (<Step>self.steps[s]).listed():
            for u in self.operands(i):
                count += self.alloc_of.get(self.under[u]) is alloc and not (i <= written and self.is_placed_at(u, y))
        return count

    cdef bint is_placed_at(self, Py_ssize_t u, Py_ssize_t y) except -1:
        """Whether an operand views exactly the elements, in the same order, that PLACE `y` overwrites."""
        if self.op[y] != Op.PLACE or self.op[u] != Op.VIEW:
            return False
        offset, shape, strides = self.listing.views[self.b[y]]
        layout = self.layout(u)
        return (self.low[u] + (<Layout>layout).low == offset and (<Layout>layout).shape == shape
                and (<Layout>layout).strides == strides and not overlaps(shape, strides))

    cdef int place_allocs(self) except -1:
        """Make outputs new arrays, and assign the other live ranges to offsets in the workspace."""
        cdef Allocation alloc
        cdef Py_ssize_t size, s
        cdef list outputs = []
        cdef list ending = [[] for _ in range(len(self.steps) + 1)]
        cdef dict free = {}
        taken = set()
        for j, u in enumerate(self.listing.outputs):
            value = self.value(u)
            self.outputs.append(value)
            alloc = (<Value>value).alloc
            if alloc is not None and alloc.number not in taken and self.may_return(value):
                taken.add(alloc.number)
                (<Value>value).is_returned = alloc.kind in (WORK, RESULT)
                if alloc.kind == WORK:
                    alloc.kind = FRESH
                    alloc.which = j
                    alloc.layout = (<Value>value).layout
        for alloc in sorted([alloc for alloc in self.allocs if (<Allocation>alloc).kind == WORK],
                            key=lambda alloc: (<Allocation>alloc).born):
            outputs.append(alloc)
        s = 0
        for alloc in outputs:
            while s < alloc.born:
                for other in ending[s]:
                    free.setdefault((<Allocation>other).layout.span, []).append((<Allocation>other).place)
                s += 1
            size = alloc.layout.span
            if free.get(size):
                alloc.place = free[size].pop()
            else:
                alloc.place = self.memory
                self.memory += (size + 127) // 64 * 64
            if alloc.last < len(self.steps):
                ending[alloc.last].append(alloc)
        return 0

    cdef bint may_return(self, Value value):
        """Whether an output is the whole allocation; one from the workspace may have another shape."""
        cdef Layout layout = value.layout, own = value.alloc.layout
        return value.is_whole or (
            value.alloc.kind == WORK and layout.dtype == own.dtype and value.first == 0
            and layout.span == own.span == layout.size * layout.itemsize
            and not overlaps(layout.shape, layout.strides))

    # ------------------------------------------------------------------------------------------ numbers

    cdef int32_t constant(self, double x) except -1:
        """Return the slot of a constant."""
        cdef bytes bits = (<char *>&x)[:sizeof(double)]
        found = self.constants.get(bits)
        if found is None:
            found = self.constants[bits] = self.slots
            self.slots += 1
        return found

    cdef int32_t new_slot(self, Py_ssize_t i) except -1:
        if self.free:
            self.free -= 1
            self.slot[i] = self.free_slots[self.free]
        else:
            self.slot[i] = self.slots
            self.slots += 1
        return self.slot[i]

    cdef inline int release(self, Py_ssize_t u, Py_ssize_t position) except -1:
        """Free the slot of a scalar after its last use; constants keep theirs."""
        if self.is_scalar(u) and self.last[u] <= position and self.op[u] != Op.CONST:
            self.last[u] = END                  # so that it is freed once
            self.free_slots[self.free] = self.slot[u]
            self.free += 1
        return 0

    cdef int loop_number(self, int op) except -1:
        kernel = kernel_of(op)
        if kernel not in self.loops:
            self.loops.append(kernel)
        return self.loops.index(kernel)

    cdef Py_ssize_t emit_scalar_step(self, Step step, Py_ssize_t position) except -1:
        cdef Py_ssize_t t = 1, i, m
        cdef int op, mask
        cdef cnp.ndarray code
        cdef int32_t *words
        cdef const int16_t *ops = &self.op[0]
        cdef const int32_t *members = &step.members[0]
        cdef const int32_t *a = &self.a[0]
        cdef const int32_t *b = &self.b[0]
        cdef const int32_t *slot = &self.slot[0]
        for m in range(step.members.shape[0]):
            op = ops[members[m]]
            t += 2 if reads[op] & 4 or self.in_loop(op, True) else 1
        code = code_of(t)
        words = <int32_t *>cnp.PyArray_DATA(code)
        for m in range(step.members.shape[0]):
            i = members[m]
            position += 1
            op = ops[i]
            mask = reads[op]
            if op == Op.LOAD or op == Op.GUARD:
                self.emit_load_or_guard(i, words)
            else:
                words[0] = machine_op[op]
                words[1] = slot[a[i]] if a[i] >= 0 else 0
                if mask & 2 and b[i] >= 0:
                    words[2] = slot[b[i]]
                if mask & 4:
                    words[5] = slot[self.c[i]] if self.c[i] >= 0 else 0
                elif self.in_loop(op, True):
                    words[0] = WG_M_LOOP
                    words[5] = self.loop_number(op)
            self.release_operands(i, position)
            if op != Op.GUARD:
                words[3] = self.new_slot(i)
                self.release(i, position)
            words += 8 if mask & 4 or words[0] == WG_M_LOOP else 4
        words[0] = WG_M_END
        self.emitted.append((WG_NUMBERS, code, float(t - 1)))
        return position

    cdef int emit_load_or_guard(self, Py_ssize_t i, int32_t *words) except -1:
        cdef Layout layout
        if self.op[i] == Op.LOAD:
            layout = self.layout(self.a[i])
            words[0] = WG_M_LOAD if layout.kind == DOUBLES else WG_M_LOAD_BOOL
            words[1] = self.array(self.a[i])
            words[2] = self.b[i] - <int32_t>(layout.low // layout.itemsize)
        else:
            expected = self.listing.guards[self.b[i]][0]
            words[0] = WG_M_GUARD if isinstance(expected, float) else WG_M_GUARD_INT
            words[1] = self.slot[self.a[i]]
            words[2] = self.constant(expected)
            words[3] = self.b[i]
        return 0

    cdef inline int release_operands(self, Py_ssize_t i, Py_ssize_t position) except -1:
        cdef Py_ssize_t j
        cdef const int32_t *read = &self.read[0]
        for j in range(self.first[i], self.first[i + 1]):
            self.release(read[j], position)
        return 0

    # ------------------------------------------------------------------------------------------ all steps

    cdef int allocate_and_emit(self) except -1:
        cdef Py_ssize_t i, s, position = 0
        cdef Step step
        cdef list members
        self.inputs, self.outputs = [], []
        for i in range(self.n):
            if self.op[i] == Op.CONST:
                self.slot[i] = self.constant(self.listing.constants[self.a[i]])
            elif self.op[i] == Op.INPUT:
                if self.is_scalar(i):
                    self.new_slot(i)
                else:
                    self.new_alloc(GIVEN, i, -1, self.a[i])
                self.inputs.append((self.a[i], self.value(i)))
            elif self.op[i] == Op.ARRAY:
                self.new_alloc(CONSTANT, i, -1, self.a[i])
        for s in range(len(self.steps)):
            step = self.steps[s]
            if step.kind == NUMBERS:
                position = self.emit_scalar_step(step, position)
                continue
            position += 1
            members = step.listed()
            if not members:
                continue
            for i in members:
                if self.op[i] == Op.PLACE or self.op[i] == Op.PACK or self.op[i] == Op.PUT:
                    self.reuse_or_copy(i, s)
                elif self.is_scalar(i):
                    self.new_slot(i)
                elif step.kind == PYTHON and self.op[i] != Op.GUARD:
                    self.new_alloc(WORK if self.is_small_product(i) or self.takes_out(i) else RESULT, i, s)
                elif self.needed[i] or step.kind == MOVING:
                    self.new_alloc(WORK, i, s)
            if step.kind == VECTOR and len(members) == 1 and self.is_zeros(members[0]):
                pass                    # `reuse_or_copy` has emitted the zeros
            elif step.kind == VECTOR:
                Chunks(self, step.shape).emit(step)
            elif step.kind == PACKING:
                self.emit_pack(step.members[0])
            elif step.kind == MOVING:
                self.emit_moved(step.members[0])
            elif self.is_small_product(step.members[0]):
                self.emit_product(step.members[0])
            else:
                self.emit_python(step.members[0])
            for i in members:
                self.release_operands(i, position)
                if self.op[i] != Op.GUARD:
                    self.release(i, position)
        return 0

    cdef int emit_pack(self, Py_ssize_t i) except -1:
        cdef Layout layout = self.layout(i)
        cdef const int32_t[::1] places, values
        cdef int32_t[::1] offsets, slots
        cdef Py_ssize_t k
        cdef int32_t low = <int32_t>(layout.low // layout.itemsize)
        places, values = self.listing.packs[self.b[i]]
        offsets, slots = int32s(places.shape[0]), int32s(places.shape[0])
        for k in range(places.shape[0]):
            offsets[k], slots[k] = places[k] - low, self.slot[values[k]]
        self.emitted.append((WG_PACK, self.array(i), offsets.base, slots.base))
        return 0

    cdef int emit_moved(self, Py_ssize_t i) except -1:
        cdef int array = self.array_at(self.alloc_of[i], 0)
        places = self.listing.arrays[self.a[self.b[i]]].ravel()
        if self.op[i] == Op.PUT:
            self.emitted.append((WG_PUT, array, self.array(self.c[i]), places, 0))
        else:
            self.emitted.append((WG_COPY, array, -1, self.layout(i).span))
            size = self.layout(i).span // sizeof(double)
            are_few = not self.exact and size <= WG_CHUNK and len(places) >= MIN_CROWDED * size
            self.emitted.append((WG_SCATTER, array, self.array(self.a[i]), places, size if are_few else 0))
        return 0

    cdef bint is_small_product(self, Py_ssize_t i) except -1:
        """Whether a call is a product of matrices or vectors so small that the call costs more than the arithmetic."""
        if self.op[i] != Op.CALL or self.exact:
            return False
        if not self.is_scalar(i) and not (self.layout(i).kind == DOUBLES and self.layout(i).is_c):
            return False
        call = self.listing.calls[self.a[i]]
        if call.row is None or call.row.fun not in PRODUCTS or call.kwargs or len(call.args) != 2:
            return False
        found = self.factors(call)
        if None in found:
            return False
        if call.row.fun not in (np.matmul, np.dot) and max([len(shape) for _, _, shape, _ in found]) > 1:
            return False
        m, k, n = product_sizes(found[0][2], found[1][2])
        packed = k if m == 1 or n == 1 else k * n if found[1][3][1] != 1 else 0
        return 0 < m * k * n <= MAX_PRODUCT and packed <= WG_MAX_PACKED

    cdef list factors(self, call):
        """Return the factors of a product; `vdot` flattens its arrays."""
        found = [self.factor(argument, call.operands) for argument in call.args]
        if call.row.fun is np.vdot and None not in found:
            if all([len(shape) == 1 or steps == [shape[1], 1] for _, _, shape, steps in found]):
                found = [(u, constant, (math.prod(shape),), [1]) if len(shape) > 1 else (u, constant, shape, steps)
                         for u, constant, shape, steps in found]
        return found

    cdef tuple factor(self, argument, operands):
        """Return value or constant, shape, and strides in elements of a factor; None if it is no matrix of doubles."""
        cdef Layout layout
        if type(argument) is Operand:
            u = operands[argument.position]
            if self.is_scalar(u):
                return None
            layout = self.layout(u)
            if layout.kind != DOUBLES or not 0 < layout.ndim < 3 or any([step % 8 for step in layout.strides]):
                return None
            return u, None, layout.shape, [step // 8 for step in layout.strides]
        if type(argument) is not np.ndarray or argument.dtype != np.float64 or not 0 < argument.ndim < 3:
            return None
        return -1, argument, argument.shape, [*argument.shape[1:], 1]

    cdef int emit_product(self, Py_ssize_t i) except -1:
        call = self.listing.calls[self.a[i]]
        factors = []
        sides = self.factors(call)
        for side, (u, constant, shape, steps) in enumerate(sides):
            if len(steps) == 1:
                steps = [steps[0], 0] if side else [0, steps[0]]
            factors.append((-1 if constant is not None else self.array(u), constant, *steps))
        sizes = product_sizes(sides[0][2], sides[1][2])
        is_scalar = self.is_scalar(i)
        self.emitted.append((WG_PRODUCT, -1 if is_scalar else self.array(i), self.slot[i] if is_scalar else -1, factors,
                             sizes))
        return 0

    cdef int emit_python(self, Py_ssize_t i) except -1:
        cdef int op = self.op[i]
        cdef list operands = [self.value(u) for u in self.operands(i)]
        cdef Value y, base
        if op == Op.CALL:
            call = self.listing.calls[self.a[i]]
            takes_out = self.takes_out(i)
            self.python(op, self.value(i), operands, function_called(call) if takes_out else call.compute,
                        tuple(call.args), call.kwargs)
            (<PythonStep>self.emitted[-1][1]).takes_out = takes_out
        elif op == Op.GUARD:
            self.python(op, None, operands, None, (), None, self.b[i], self.listing.guards[self.b[i]][0])
        elif op == Op.PLACE:
            y = self.value(i)
            offset, shape, strides = self.listing.views[self.b[i]]
            y.layout = Layout(y.layout.dtype, shape, strides)
            y.where = self.array_at(y.alloc, offset)
            y.is_whole = False
            self.python(op, y, operands[-1:])
        elif op == Op.LOAD:
            self.python(op, self.value(i), [self.in_order(self.a[i])], operator.getitem, (Operand(0), self.b[i]))
        elif op == Op.PACK:
            y = self.in_order(i)
            count = len(self.listing.packs[self.b[i]][1])
            self.python(op, y, operands[:count], None, (np.asarray(self.listing.packs[self.b[i]][0]),))
        elif op == Op.GATHER:
            self.python(op, self.value(i), [self.in_order(self.a[i]), operands[1]], operator.getitem,
                        (Operand(0), Operand(1)))
        elif op == Op.PUT:
            self.python(op, self.in_order(i), operands[-2:])
        elif op == Op.SCATTER:
            self.python(op, self.value(i), operands, scattered, (Operand(0), Operand(1), self.layout(i)))
        elif op == Op.SUM:
            self.python(op, self.value(i), operands, np.add.reduce, (Operand(0),), {"axis": None})
        else:
            self.python(op, self.value(i), operands, function(op), tuple(map(Operand, range(len(operands)))), {})
        return 0

    cdef bint takes_out(self, Py_ssize_t i) except -1:
        """Whether a call's result is large enough to be written to the workspace, whose pages are already mapped."""
        cdef Layout layout = self.layout(i)
        if self.op[i] != Op.CALL or self.is_scalar(i) or not layout.is_c or layout.span < MIN_IN_WORKSPACE:
            return False
        call = self.listing.calls[self.a[i]]
        if "out" in call.kwargs or "where" in call.kwargs:
            return False
        fun = function_called(call)
        return fun in WITH_OUT or isinstance(fun, np.ufunc) and fun.nout == 1 and len(call.args) == fun.nin

    cdef Value in_order(self, Py_ssize_t u):
        """Return the elements of an array as a 1-D array from its lowest address."""
        cdef Value value = self.value(u)
        value.layout = Layout(value.layout.dtype, (value.layout.span // value.layout.itemsize,), None)
        value.where = self.array_at(value.alloc, self.low[u])
        value.is_whole = False
        return value

    cdef int python(self, int op, Value y, list operands, compute=None, tuple args=(), kwargs=None, int guard=-1,
                    expected=None) except -1:
        cdef PythonStep step = PythonStep.__new__(PythonStep)
        step.op = op
        step.y = y
        step.operands = operands
        step.compute = compute
        step.args = args
        step.kwargs = kwargs if kwargs else None
        step.guard = guard
        step.expected = expected
        self.emitted.append((WG_PYTHON, step))
        return 0


cdef cnp.ndarray code_of(cnp.npy_intp lines):
    """Allocate code for this number of VM instructions."""
    cdef cnp.npy_intp shape[2]
    shape[0], shape[1] = lines, 4
    return cnp.PyArray_ZEROS(2, shape, cnp.NPY_INT32, 0)


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
    cdef set ones                   # values that are constant along a chunk, of which only one element is computed
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
        """Whether an array is regularly strided across the rows of a chunk."""
        return self.rows == 1 or self.strides[w][-2] == self.inner[w] * self.dims[-1]

    cdef bint is_direct(self, int w) except -1:
        """Whether code accesses this array in place, without a temporary chunk."""
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
        return self.walks[u] if u not in self.place and self.is_one_a_row(u) else self.chunk_of(u)

    cdef bint is_one_a_row(self, Py_ssize_t u) except -1:
        """Whether an array is constant along the inner axis."""
        if u in self.place or u not in self.walks:
            return u in self.ones
        w = self.walks[u]
        return self.kinds[w] == DOUBLES and self.inner[w] == 0 and self.is_regular(w)

    cdef bint is_for_one(self, Py_ssize_t i, list operands) except -1:
        """Whether a result is constant along rows and never stored, so that one element suffices."""
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
        """Whether a scalar operand must fill a chunk; most operations accept one scalar beside an array."""
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
            self.code.append((0, low.loop_number(op), is_array[0] + 2 * is_array[-1], 0))
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
        self.more.append((chunk, self.low.constant(x)))
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
