# Assembly, included by machine.pyx: lowered instructions become the C structs that vm_loops.c executes.
#
# The VM owns the memory that the structs point to. Workspaces are created here too, with the sizes from lowering.

cdef size_t ARENA_BLOCK_BYTES = 1 << 12         # bytes of an arena block, which holds short tables of VM instructions


cdef int assemble(Machine vm, Lowering low, listing) except -1:
    cdef Py_ssize_t i
    cdef Kernel kernel
    if WG_DEBUG:
        if isinstance(listing, Listing):        # tests pass other classes
            check(listing)
        check_bounds(low)
    vm.exact = low.exact
    vm.spaces = []
    vm.kept, vm.left = [], 0
    vm.guards = list(listing.guards)
    vm.constants = list(listing.arrays)
    vm.allocs, vm.outputs = low.allocs, low.outputs
    vm.seen = [alloc for alloc in vm.allocs if (<Allocation>alloc).kind in (GIVEN, CONSTANT, FRESH)]
    vm.passing = [alloc for alloc in vm.allocs if (<Allocation>alloc).kind in (GIVEN, RESULT, FRESH)]
    vm.inputs = [None] * len(listing.inputs)
    for number, value in low.inputs:
        vm.inputs[number] = value
    cdef Allocation alloc
    for alloc in vm.allocs:
        alloc.count = len(alloc.arrays)
        alloc.numbers = <const int32_t *>keep_list(vm, [number for number, _ in alloc.arrays], sizeof(int32_t))
        alloc.firsts = <const int64_t *>keep_list(vm, [first for _, first in alloc.arrays], sizeof(int64_t))
    vm.numbers = np.zeros(low.slots)
    for bits, slot in low.constants.items():
        vm.numbers[slot] = np.frombuffer(bits)[0]
    vm.memory, vm.arrays = low.memory, low.array_count
    vm.chunks, vm.sums, vm.pointers, vm.axes = low.chunks, low.sums, low.pointers, low.axes
    vm.blocks = low.blocks
    vm.loops = <wg_loop *>PyMem_RawCalloc(len(low.loops) + 1, sizeof(wg_loop))
    for i in range(len(low.loops)):
        kernel = low.loops[i]
        vm.loops[i].run, vm.loops[i].data, vm.loops[i].nin = kernel.loop, kernel.loop_data, kernel.nin
    vm.count = len(low.emitted)
    vm.steps = <wg_step *>PyMem_RawCalloc(vm.count + 1, sizeof(wg_step))
    vm.work = <double *>PyMem_RawCalloc(vm.count + 1, sizeof(double))
    vm.python = [None] * vm.count
    for i in range(vm.count):
        set_step(vm, i, low.emitted[i])
    for i in range(vm.count - 1, -1, -1):
        if vm.steps[i].kind != WG_PYTHON:
            vm.work[i] = vm.steps[i].work + vm.work[i + 1]
    return 0


cdef char *keep_array(Machine vm, values, kind) except NULL:
    """Keep an array alive and return its address; convert it first if necessary."""
    if not len(values):
        return bytes_of(NOTHING)
    if type(values) is not np.ndarray or not (values.dtype == kind and values.flags.c_contiguous):
        values = np.ascontiguousarray(values, kind)
    vm.kept.append(values)
    return bytes_of(values)


cdef char *keep_list(Machine vm, values, size_t itemsize) except NULL:
    """Copy a list of integers, or of equally long rows, into an arena block; return its address."""
    cdef Py_ssize_t i
    cdef char *at
    cdef size_t size
    if not len(values):
        return bytes_of(NOTHING)
    if type(values[0]) in (tuple, list):
        values = [x for row in values for x in row]
    size = (len(values) * itemsize + 7) // 8 * 8
    if size > vm.left:
        vm.kept.append(take(size + ARENA_BLOCK_BYTES))
        vm.free = <char *>(<Block>vm.kept[-1]).data
        vm.left = size + ARENA_BLOCK_BYTES
    at = vm.free
    vm.free, vm.left = vm.free + size, vm.left - size
    for i, x in enumerate(values):
        if itemsize == sizeof(int32_t):
            (<int32_t *>at)[i] = x
        else:
            (<int64_t *>at)[i] = x
    return at


cdef const wg_product *keep_product(Machine vm, int slot, list factors, tuple sizes) except NULL:
    """Return the descriptor of a product; each factor is an array or a constant, with row and column strides."""
    cdef Block memory = take(sizeof(wg_product))
    cdef wg_product *product = <wg_product *>memory.data
    product.constants[0] = product.constants[1] = NULL
    cdef int side
    vm.kept.append(memory)
    product.slot = slot
    product.m, product.k, product.n = sizes
    for side in range(2):
        array, constant, _, _ = factors[side]
        if side == 0:
            product.left, product.left_row, product.left_column = array, factors[0][2], factors[0][3]
        else:
            product.right, product.right_row, product.right_column = array, factors[1][2], factors[1][3]
        if constant is not None:
            product.constants[side] = <const double *>keep_array(vm, constant, float)
    return product


cdef int set_step(Machine vm, Py_ssize_t i, tuple given) except -1:
    cdef wg_step *step = &vm.steps[i]
    cdef PythonStep python
    step.kind = given[0]
    if step.kind == WG_PYTHON:
        python = given[1]
        if type(python.compute) is Loop:
            python.compute = LoopKernel(python.compute, vm.tier, vm.disabled)
        elif hasattr(python.compute, "tiered"):
            python.compute = python.compute.tiered(vm.tier)
        vm.python[i] = python
    elif step.kind == WG_NATIVE:
        vm.python[i] = given[4]
        step.native = keep_native(vm, given[1], given[2], given[3])
        step.work = given[1].work
    elif step.kind == WG_NUMBERS:
        step.code = <const wg_code *>keep_array(vm, given[1], np.int32)
        step.work = given[2]
    elif step.kind == WG_COMPILED:
        _, address, table, step.work, dims, sums, step.block = given
        step.run = <compiled_step><size_t>address
        step.entries, step.table = len(table), <const int32_t *>keep_array(vm, table, np.int32)
        step.length = dims[0] if dims else 0
        step.sums, step.sum = len(sums), <const int32_t *>keep_list(vm, sums, sizeof(int32_t))
    elif step.kind == WG_COPY:
        _, step.array, step.source, step.size = given
        step.work = step.size / 16.0
    elif step.kind == WG_PACK:
        step.array = given[1]
        step.offsets = <const int32_t *>keep_array(vm, given[2], np.int32)
        step.slots = <const int32_t *>keep_array(vm, given[3], np.int32)
        step.size = len(given[2])
        step.work = step.size
    elif step.kind == WG_PRODUCT:
        _, step.array, slot, factors, sizes = given
        step.product = keep_product(vm, slot, factors, sizes)
        step.work = math.prod(sizes)
    elif step.kind == WG_PUT or step.kind == WG_SCATTER:
        _, step.array, step.source, offsets, step.count = given
        step.offsets = <const int32_t *>keep_array(vm, offsets, np.int32)
        step.size = len(offsets)
        step.work = step.size
    else:
        _, code, dims, strides, walk, number, fill, sums, step.first, step.chunks = given[:10]
        step.rows, step.pitch, step.block = given[10:]
        step.length = dims[0]
        step.code, step.count = <const wg_code *>keep_array(vm, code, np.int32), len(code)
        step.ndim, step.shape = len(dims), <const Py_ssize_t *>keep_list(vm, dims, sizeof(Py_ssize_t))
        step.strides = <const Py_ssize_t *>keep_list(vm, strides, sizeof(Py_ssize_t))
        step.walks, step.walk = len(walk), <const int32_t *>keep_list(vm, walk, sizeof(int32_t))
        step.numbers, step.number = len(number), <const int32_t *>keep_list(vm, number, sizeof(int32_t))
        step.fills, step.fill = len(fill), <const int32_t *>keep_list(vm, fill, sizeof(int32_t))
        step.sums, step.sum = len(sums), <const int32_t *>keep_list(vm, sums, sizeof(int32_t))
        step.work = <double>step.count * math.prod(dims)
    if step.block:
        vm.entries = max(vm.entries, step.entries)
        vm.wants_help = vm.wants_help or step.work >= WG_MIN_SHARED_WORK
    return 0


cdef int add_buffers(Machine vm, Workspace w, wg_space *space) except -1:
    """Allocate the buffers that are private to each thread of a run."""
    space.scratch = w.doubles(vm.chunks * WG_CHUNK_APART)
    space.chunk = <double **>w.doubles(vm.pointers + 1)
    space.index = <Py_ssize_t *>w.doubles(vm.axes)
    space.table = <int32_t *>w.doubles(vm.entries // 2 + 1)
    return 0


cdef Workspace new_workspace(Machine vm):
    cdef Workspace w = Workspace.__new__(Workspace)
    cdef wg_space *others
    cdef Allocation alloc
    cdef Py_ssize_t i
    w.kept = []
    w.objects = [None] * len(vm.allocs)
    w.bottom = <char **>PyMem_RawCalloc(len(vm.allocs) + 1, sizeof(char *))
    w.space.where = <char **>PyMem_RawCalloc(vm.arrays + 1, sizeof(char *))
    w.space.slots = w.doubles(vm.numbers.shape[0] + vm.blocks)
    w.space.blocks = w.space.slots + vm.numbers.shape[0]
    memcpy(w.space.slots, &vm.numbers[0], vm.numbers.shape[0] * sizeof(double))
    add_buffers(vm, w, &w.space)
    w.space.ones = w.doubles(WG_CHUNK)
    for i in range(WG_CHUNK):
        w.space.ones[i] = 1.0
    w.space.sums = w.doubles(vm.sums)
    w.space.native = <char *>w.doubles(vm.native_bytes // 8 + 1)
    w.space.loops = vm.loops
    w.space.partial = <wg_partial_loop>times_partial
    w.space.helpers = wg_call_helpers(helpers) if vm.wants_help else 0
    others = <wg_space *>w.doubles(w.space.helpers * sizeof(wg_space) // sizeof(double))
    for i in range(w.space.helpers):
        others[i] = w.space
        add_buffers(vm, w, &others[i])
    w.space.others = others
    w.memory = <char *>w.doubles(vm.memory // sizeof(double) + 8)
    for alloc in vm.allocs:
        if alloc.kind == WORK:
            put_alloc(w, alloc, w.fence(alloc.layout.span) if WG_DEBUG else w.memory + alloc.place)
        elif alloc.kind == CONSTANT:
            array = vm.constants[alloc.which]
            if not fits(array, alloc.layout):
                array = copied(array, alloc.layout)
            w.objects[alloc.number] = array
            put_alloc(w, alloc, bytes_of(array) - alloc.layout.low)
    return w
