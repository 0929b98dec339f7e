# Loops, included by machine.pyx: runs the VM of a loop body once per iteration.
#
# An iteration accesses its operands and results in place in the stacked arrays of the loop: the addresses of the body's
# inputs and outputs ("ports") move from slice to slice. Carried values alternate between two buffers.

cdef struct Port:                   # an input or output of a loop body, whose address changes in each iteration
    int32_t slot                    # slot of a scalar; -1 for an array
    int count                       # number of arrays in the allocation
    const int32_t *numbers
    const int64_t *firsts
    char *at                        # lowest address in the current iteration
    char *stack                     # lowest address of the values of all iterations, or NULL
    Py_ssize_t stride
    Py_ssize_t size
    int32_t source                  # array to copy an output from if it is not computed in place; -1: none

cdef Py_ssize_t MIN_HUGE_ITEMS = 1 << 19        # elements of a loop's result for which NumPy requests large pages


class LoopKernel:
    """A loop in executable form; the VM of its body is built on first use."""

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


cdef object run_loop(Machine vm, Workspace w, loop, tuple values):
    cdef Py_ssize_t inputs = len(vm.inputs), outputs = len(vm.outputs), carried = loop.carried
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
        held = enter_loop(vm, w, loop, values, ins)        # keeps the memory of the ports alive
        held.append(leave_loop(vm, loop, bytes_of(result), ins, outs, ends, entries))
        repeat_body(vm, w, loop, ins, outs, ends, entries)
        return result
    finally:
        PyMem_RawFree(ins)
        PyMem_RawFree(ends)


cdef int set_port(Port *port, Value value) except -1:
    port.slot = value.where if value.is_scalar else -1
    port.source = -1
    port.stack = NULL
    port.size = sizeof(double) if value.is_scalar else value.layout.span
    if not value.is_scalar:
        port.count, port.numbers, port.firsts = value.alloc.count, value.alloc.numbers, value.alloc.firsts
    return 0


cdef list enter_loop(Machine vm, Workspace w, loop, tuple values, Port *ins):
    """Set the ports of the inputs; return the arrays that they point to."""
    cdef Py_ssize_t carried = loop.carried, first = carried + loop.kept, k
    cdef cnp.ndarray array
    cdef Value value
    cdef list held = []
    for k in range(len(vm.inputs)):
        value = vm.inputs[k]
        set_port(&ins[k], value)
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


cdef cnp.ndarray leave_loop(Machine vm, loop, char *line, Port *ins, Port *outs, char **ends, char **entries):
    """Point the ports of the outputs into the result; return a buffer for outputs that are not stacked there."""
    cdef Py_ssize_t outputs = len(vm.outputs), carried = loop.carried, place = 0, k, last
    cdef cnp.ndarray spare
    cdef char *room
    cdef Value value
    for k in range(outputs):
        value = vm.outputs[k]
        if not value.is_scalar and not (value.layout.is_c and value.layout.kind == DOUBLES):
            raise TypeError("a result of a loop must be float64 in C order")
        set_port(&outs[k], value)
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


cdef int repeat_body(Machine vm, Workspace w, loop, Port *ins, Port *outs, char **ends, char **entries) except -1:
    """Run the body `loop.steps` times, without the GIL if it has no Python steps."""
    cdef Py_ssize_t steps = loop.steps, carried = loop.carried, i = 0, j
    cdef Py_ssize_t inputs = len(vm.inputs), outputs = len(vm.outputs)
    cdef Py_ssize_t block = <Py_ssize_t>max(1.0, 1e8 / (vm.work[0] + 100.0))
    cdef bint backward = loop.backward
    cdef bint quiet = all([step is None or (<PythonStep>step).is_native for step in vm.python])
    cdef Py_ssize_t at
    cdef int32_t failed = -1
    while i < steps:
        if quiet:
            block = min(block, steps - i)
            with nogil:
                for j in range(i, i + block):
                    enter(&w.space, ins, inputs, outs, outputs, carried, ends, entries, j, steps, backward)
                    at = wg_run(vm.steps, 0, vm.count, &w.space, &failed)
                    if failed < 0 and at < vm.count:        # a kernel declined
                        with gil:
                            failed = vm.run_from(w, at, True)
                    if failed >= 0:
                        break
                    leave(&w.space, outs, outputs)
                    carry(ins, outs, carried)
            i += block
            PyErr_CheckSignals()
        else:
            enter(&w.space, ins, inputs, outs, outputs, carried, ends, entries, i, steps, backward)
            failed = vm.run_steps(w)
            if failed < 0:
                leave(&w.space, outs, outputs)
                carry(ins, outs, carried)
            i += 1
        if failed >= 0:
            expected, where = vm.guards[failed][:2]
            raise GuardError(f"{where}: the recorded path needs {expected!r} here")
    return 0


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
