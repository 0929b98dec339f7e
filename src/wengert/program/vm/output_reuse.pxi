# Reuse of outputs, included by machine.pyx: a run with unchanged inputs returns copies of the previous outputs.
#
# Enabled if it is much cheaper to compare the inputs that the program reads bit for bit than to run it, for example
# for the Jacobian of a linear function, which reads none.

cdef Py_ssize_t MAX_KEPT_ITEMS = 1 << 22        # doubles compared and copied to reuse the outputs of the previous run
cdef double MIN_WORK_PER_ITEM = 8.0             # minimum number of operations per such double for which reuse pays
cdef int MAX_CHANGES = 8                        # consecutive runs without reuse after which reuse is disabled


cdef bint is_known(PythonStep step) except -1:
    """Return whether a Python step only moves elements or runs a loop without calls: its result cannot vary."""
    if step.op != Op.CALL:
        return True
    return type(step.compute) is LoopKernel and not (step.compute.loop.body.op == Op.CALL).any()


cdef bint has_bits(x, known, Value value) except -1:
    """Return whether an input is bit-identical to its copy."""
    cdef double a, b
    if value.is_scalar:
        a, b = x, known
        return memcmp(&a, &b, sizeof(double)) == 0
    if not cnp.PyArray_Check(x) or not fits(x, value.layout):
        return False
    return memcmp(bytes_of(x), bytes_of(known), value.layout.span) == 0


cdef tuple inputs_to_compare(Machine vm, Lowering low):
    """Return the indices of the inputs that are read, if comparing them is much cheaper than a run; else None."""
    cdef Value value
    cdef list found = []
    cdef double size = 0.0, work = 0.0
    cdef Py_ssize_t i
    for i in range(low.n):
        if low.op[i] == Op.INPUT and low.last[i] >= 0:
            found.append(low.a[i])
    if len(found) == len(vm.inputs):
        return None
    for value in [vm.inputs[j] for j in found] + vm.outputs:
        if not value.is_scalar and not (value.layout.kind == DOUBLES and value.layout.is_c and value.layout.ndim):
            return None
        size += 1 if value.is_scalar else value.layout.size
    for i in range(vm.count):
        if vm.python[i] is not None and not is_known(vm.python[i]):
            return None
        work += vm.steps[i].work if vm.python[i] is None else math.inf
    pays = size < MAX_KEPT_ITEMS and work > MIN_WORK_PER_ITEM * (size + MIN_WORK_PER_ITEM)
    return tuple(sorted(found)) if pays else None


@cython.wraparound(False)
cdef object kept_outputs(Machine vm, tuple read, inputs):
    """Return the outputs of the previous run if the inputs that are read are bit-identical; else None."""
    cdef list found = []
    cdef Py_ssize_t j
    cdef Value value
    inputs = list(inputs)
    if not is_kept(vm, read, PySequence_Fast_ITEMS(inputs), len(inputs)):
        return None
    for j in range(len(vm.outputs)):
        value = vm.outputs[j]
        found.append(vm.kept_run[1][j] if value.is_scalar else copied(vm.kept_run[1][j], value.layout))
    return found


@cython.wraparound(False)
cdef bint is_kept(Machine vm, tuple read, PyObject **inputs, Py_ssize_t count) except -1:
    """Return whether outputs are kept and the inputs that are read are bit-identical."""
    cdef list known
    cdef Py_ssize_t j, k
    if vm.kept_run is None or count != len(vm.inputs):
        return False
    known = vm.kept_run[0]
    for j in range(len(read)):
        k = read[j]
        if not has_bits(<object>inputs[k], known[j], <Value>vm.inputs[k]):
            return False
    vm.changes = 0
    return True


cdef int keep_outputs(Machine vm, tuple read, inputs, list outputs) except -1:
    """Keep outputs for reuse; disable reuse after `MAX_CHANGES` consecutive runs without it."""
    cdef Value value
    cdef Py_ssize_t j
    cdef list given = []
    vm.changes += 1
    if vm.changes > MAX_CHANGES:
        vm.read = vm.kept_run = None
        return 0
    for j in read:
        value = vm.inputs[j]
        given.append(<double>inputs[j] if value.is_scalar else copied(inputs[j], value.layout))   # may be a 0-d array
    vm.kept_run = given, [y.copy() if type(y) is np.ndarray else y for y in outputs]
    return 0
