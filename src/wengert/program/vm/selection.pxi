# Instruction selection, included by machine.pyx: emits VM instructions for each step, as data for `Machine`.
#
# Scalar steps become sequences of `wg_code`; a small matrix product or a move of elements becomes one instruction;
# vector_selection.pxi emits vector steps. Everything else becomes a `PythonStep`.

#: functions besides ufuncs that accept out=
cdef frozenset WITH_OUT = frozenset([
    np.sum, np.prod, np.mean, np.max, np.min, np.amax, np.amin, np.cumsum, np.cumprod, np.dot, np.add.reduce])

#: number of multiplications up to which the VM computes a matrix product faster than BLAS
cdef int MAX_PRODUCT = 1 << 14
cdef int MIN_CROWDED = 8            # minimum number of additions per element for which a scatter uses two accumulators


def scattered(x, places, Layout layout):
    """Scatter-add the elements of `x` into a new array of this layout, at the indices `places`."""
    memory = np.bincount(places.ravel(), x.ravel(), layout.span // layout.itemsize).astype(layout.dtype)
    return np.ndarray(layout.shape, layout.dtype, memory, layout.low, layout.strides)


cdef tuple product_sizes(tuple left, tuple right):
    """Return m, k and n of a product; a vector is a row on the left and a column on the right."""
    return left[0] if len(left) == 2 else 1, left[-1], right[1] if len(right) == 2 else 1


cdef object function_called(call):
    """Return the function of a call; for a matrix product `np.matmul`, which accepts out=."""
    return np.matmul if call.row is not None and call.row.scalars == "matmul" else call.compute


cdef cnp.ndarray code_of(cnp.npy_intp lines):
    """Allocate this number of `wg_code` records."""
    cdef cnp.npy_intp shape[2]
    shape[0], shape[1] = lines, 4
    return cnp.PyArray_ZEROS(2, shape, cnp.NPY_INT32, 0)


cdef int allocate_and_emit(Lowering low) except -1:
    cdef Py_ssize_t i, s, position = 0
    cdef Step step
    cdef list members
    low.inputs, low.outputs = [], []
    for i in range(low.n):
        if low.op[i] == Op.CONST:
            low.slot[i] = slot_of_constant(low, low.listing.constants[low.a[i]])
        elif low.op[i] == Op.INPUT:
            if low.is_scalar(i):
                new_slot(low, i)
            else:
                new_alloc(low, GIVEN, i, -1, low.a[i])
            low.inputs.append((low.a[i], low.value(i)))
        elif low.op[i] == Op.ARRAY:
            new_alloc(low, CONSTANT, i, -1, low.a[i])
    for s in range(len(low.steps)):
        step = low.steps[s]
        if step.kind == NUMBERS:
            position = emit_scalar_step(low, step, position)
            continue
        position += 1
        members = step.listed()
        if not members:
            continue
        for i in members:
            if low.op[i] == Op.PLACE or step.kind != NATIVE and (low.op[i] == Op.PACK or low.op[i] == Op.PUT):
                reuse_or_copy(low, i, s)
            elif low.is_scalar(i):
                if low.op[i] != Op.GUARD:
                    new_slot(low, i)
            elif step.kind == NATIVE:
                new_alloc(low, WORK, i, s)
            elif step.kind == PYTHON and low.op[i] != Op.GUARD:
                new_alloc(low, WORK if may_take_out(low, i) else RESULT, i, s)
            elif low.needed[i] or step.kind == MOVING:
                new_alloc(low, WORK, i, s)
        if step.kind == VECTOR and len(members) == 1 and is_zeros(low, members[0]):
            pass                    # `reuse_or_copy` has emitted the zeros
        elif step.kind == VECTOR:
            Chunks(low, step.shape, step).emit(step)
        elif step.kind == PACKING:
            emit_pack(low, step.members[0])
        elif step.kind == MOVING:
            emit_moved(low, step.members[0])
        elif step.kind == NATIVE and step.members[0] in low.natives:
            emit_native(low, step.members[0])
        elif step.kind == NATIVE:
            emit_product(low, step.members[0])
        else:
            emit_python(low, step.members[0])
        for i in members:
            release_operands(low, i, position)
            if low.op[i] != Op.GUARD:
                release_slot(low, i, position)
    return 0


cdef Py_ssize_t emit_scalar_step(Lowering low, Step step, Py_ssize_t position) except -1:
    cdef Py_ssize_t t = 1, i, m
    cdef int op, mask
    cdef cnp.ndarray code
    cdef int32_t *words
    cdef const int16_t *ops = &low.op[0]
    cdef const int32_t *members = &step.members[0]
    cdef const int32_t *a = &low.a[0]
    cdef const int32_t *b = &low.b[0]
    cdef const int32_t *slot = &low.slot[0]
    for m in range(step.members.shape[0]):
        op = ops[members[m]]
        t += 2 if reads[op] & 4 or low.in_loop(op, True) else 1
    code = code_of(t)
    words = <int32_t *>cnp.PyArray_DATA(code)
    for m in range(step.members.shape[0]):
        i = members[m]
        position += 1
        op = ops[i]
        mask = reads[op]
        if op == Op.LOAD or op == Op.GUARD:
            emit_load_or_guard(low, i, words)
        else:
            words[0] = machine_op[op]
            words[1] = slot[a[i]] if a[i] >= 0 else 0
            if mask & 2 and b[i] >= 0:
                words[2] = slot[b[i]]
            if mask & 4:
                words[5] = slot[low.c[i]] if low.c[i] >= 0 else 0
            elif low.in_loop(op, True):
                words[0] = WG_M_LOOP
                words[5] = loop_number(low, op)
        release_operands(low, i, position)
        if op != Op.GUARD:
            words[3] = new_slot(low, i)
            release_slot(low, i, position)
        words += 8 if mask & 4 or words[0] == WG_M_LOOP else 4
    words[0] = WG_M_END
    low.emitted.append((WG_NUMBERS, code, float(t - 1)))
    return position


cdef int loop_number(Lowering low, int op) except -1:
    kernel = kernel_of(op)
    if kernel not in low.loops:
        low.loops.append(kernel)
    return low.loops.index(kernel)


cdef int emit_load_or_guard(Lowering low, Py_ssize_t i, int32_t *words) except -1:
    cdef Layout layout
    if low.op[i] == Op.LOAD:
        layout = low.layout(low.a[i])
        words[0] = WG_M_LOAD if layout.kind == DOUBLES else WG_M_LOAD_BOOL
        words[1] = low.array(low.a[i])
        words[2] = low.b[i] - <int32_t>(layout.low // layout.itemsize)
    else:
        expected = low.listing.guards[low.b[i]][0]
        words[0] = WG_M_GUARD if isinstance(expected, float) else WG_M_GUARD_INT
        words[1] = low.slot[low.a[i]]
        words[2] = slot_of_constant(low, expected)
        words[3] = low.b[i]
    return 0


cdef int emit_pack(Lowering low, Py_ssize_t i) except -1:
    cdef Layout layout = low.layout(i)
    cdef const int32_t[::1] places, values
    cdef int32_t[::1] offsets, slots
    cdef Py_ssize_t k
    cdef int32_t before = <int32_t>(layout.low // layout.itemsize)
    places, values = low.listing.packs[low.b[i]]
    offsets, slots = int32s(places.shape[0]), int32s(places.shape[0])
    for k in range(places.shape[0]):
        offsets[k], slots[k] = places[k] - before, low.slot[values[k]]
    low.emitted.append((WG_PACK, low.array(i), offsets.base, slots.base))
    return 0


cdef int emit_moved(Lowering low, Py_ssize_t i) except -1:
    cdef int array = low.array_at(low.alloc_of[i], 0)
    places = low.listing.arrays[low.a[low.b[i]]].ravel()
    if low.op[i] == Op.PUT:
        low.emitted.append((WG_PUT, array, low.array(low.c[i]), places, 0))
    else:
        low.emitted.append((WG_COPY, array, -1, low.layout(i).span))
        size = low.layout(i).span // sizeof(double)
        are_few = not low.exact and size <= WG_CHUNK and len(places) >= MIN_CROWDED * size
        low.emitted.append((WG_SCATTER, array, low.array(low.a[i]), places, size if are_few else 0))
    return 0


cdef bint is_small_product(Lowering low, Py_ssize_t i) except -1:
    """Return whether a call is a matrix product so small that the overhead of BLAS exceeds the arithmetic."""
    if low.op[i] != Op.CALL or low.exact:
        return False
    if not low.is_scalar(i) and not (low.layout(i).kind == DOUBLES and low.layout(i).is_c):
        return False
    call = low.listing.calls[low.a[i]]
    product = product_of(call)
    if product is None or product == "vecdot":
        return False
    found = factors_of(low, call)
    if None in found:
        return False
    if product not in ("matmul", "dot") and max([len(shape) for _, _, shape, _ in found]) > 1:
        return False
    m, k, n = product_sizes(found[0][2], found[1][2])
    packed = k if m == 1 or n == 1 else k * n if found[1][3][1] != 1 else 0
    return 0 < m * k * n <= MAX_PRODUCT and packed <= WG_MAX_PACKED


cdef list factors_of(Lowering low, call):
    """Return the factors of a product; `vdot` flattens its arrays."""
    found = [factor_of(low, argument, call.operands) for argument in call.args]
    if product_of(call) == "vdot" and None not in found:
        if all([len(shape) == 1 or steps == [shape[1], 1] for _, _, shape, steps in found]):
            found = [(u, constant, (math.prod(shape),), [1]) if len(shape) > 1 else (u, constant, shape, steps)
                     for u, constant, shape, steps in found]
    return found


cdef tuple factor_of(Lowering low, argument, operands):
    """Return a factor as (value, constant, shape, strides in elements); None if it is not a matrix of doubles.

    Leading axes of length 1 are dropped.
    """
    cdef Layout layout
    if type(argument) is Operand:
        u = operands[argument.position]
        if low.is_scalar(u):
            return None
        layout = low.layout(u)
        constant, shape, strides = None, layout.shape, layout.strides
        if layout.kind != DOUBLES or any([step % 8 for step in strides]):
            return None
    elif type(argument) is np.ndarray and argument.dtype == np.float64:
        u, constant, shape, strides = -1, argument, argument.shape, c_strides(argument.shape, 8)
    else:
        return None
    while len(shape) > 2 and shape[0] == 1:
        shape, strides = shape[1:], strides[1:]
    if not 0 < len(shape) < 3:
        return None
    return u, constant, shape, [step // 8 for step in strides]


cdef int emit_product(Lowering low, Py_ssize_t i) except -1:
    call = low.listing.calls[low.a[i]]
    factors = []
    sides = factors_of(low, call)
    for side, (u, constant, shape, steps) in enumerate(sides):
        if len(steps) == 1:
            steps = [steps[0], 0] if side else [0, steps[0]]
        factors.append((-1 if constant is not None else low.array(u), constant, *steps))
    sizes = product_sizes(sides[0][2], sides[1][2])
    is_scalar = low.is_scalar(i)
    low.emitted.append((WG_PRODUCT, -1 if is_scalar else low.array(i), low.slot[i] if is_scalar else -1, factors,
                        sizes))
    return 0


cdef int emit_python(Lowering low, Py_ssize_t i) except -1:
    cdef int op = low.op[i]
    cdef list operands = [low.value(u) for u in low.operands(i)]
    cdef Value y
    if op == Op.CALL:
        call = low.listing.calls[low.a[i]]
        takes_out = may_take_out(low, i)
        emit_python_step(low, op, low.value(i), operands, function_called(call) if takes_out else call.compute,
                         tuple(call.args), call.kwargs)
        (<PythonStep>low.emitted[-1][1]).takes_out = takes_out
    elif op == Op.GUARD:
        emit_python_step(low, op, None, operands, None, (), None, low.b[i], low.listing.guards[low.b[i]][0])
    elif op == Op.PLACE:
        y = low.value(i)
        y.layout, y.where = stored_part(low, i)
        y.is_whole = False
        emit_python_step(low, op, y, operands[-1:])
    elif op == Op.LOAD:
        emit_python_step(low, op, low.value(i), [flat_value(low, low.a[i])], operator.getitem, (Operand(0), low.b[i]))
    elif op == Op.PACK:
        y = flat_value(low, i)
        count = len(low.listing.packs[low.b[i]][1])
        emit_python_step(low, op, y, operands[:count], None, (np.asarray(low.listing.packs[low.b[i]][0]),))
    elif op == Op.GATHER:
        emit_python_step(low, op, low.value(i), [flat_value(low, low.a[i]), operands[1]], operator.getitem,
                         (Operand(0), Operand(1)))
    elif op == Op.PUT:
        emit_python_step(low, op, flat_value(low, i), operands[-2:])
    elif op == Op.SCATTER:
        emit_python_step(low, op, low.value(i), operands, scattered, (Operand(0), Operand(1), low.layout(i)))
    elif op == Op.SUM:
        emit_python_step(low, op, low.value(i), operands, np.add.reduce, (Operand(0),), {"axis": None})
    else:
        emit_python_step(low, op, low.value(i), operands, function(op), tuple(map(Operand, range(len(operands)))), {})
    return 0


cdef tuple stored_part(Lowering low, Py_ssize_t i):
    """Return the layout of the elements that a PLACE stores, and the index of the array that starts there."""
    offset, shape, strides = low.listing.views[low.b[i]]
    return Layout(low.layout(i).dtype, shape, strides), low.array_at(low.alloc_of[i], offset)


cdef bint may_take_out(Lowering low, Py_ssize_t i) except -1:
    """Return whether a call accepts out= and its result is large enough to go to the workspace."""
    cdef Layout layout = low.layout(i)
    if low.op[i] != Op.CALL or low.is_scalar(i) or not layout.is_c or layout.span < MIN_IN_WORKSPACE:
        return False
    call = low.listing.calls[low.a[i]]
    if "out" in call.kwargs or "where" in call.kwargs:
        return False
    fun = function_called(call)
    return fun in WITH_OUT or isinstance(fun, np.ufunc) and fun.nout == 1 and len(call.args) == fun.nin


cdef Value flat_value(Lowering low, Py_ssize_t u):
    """Return the elements of an array as a 1-D array from its lowest address."""
    cdef Value value = low.value(u)
    value.layout = Layout(value.layout.dtype, (value.layout.span // value.layout.itemsize,), None)
    value.where = low.array_at(value.alloc, low.low[u])
    value.is_whole = False
    return value


cdef int emit_python_step(Lowering low, int op, Value y, list operands, compute=None, tuple args=(), kwargs=None,
                          int guard=-1, expected=None) except -1:
    cdef PythonStep step = PythonStep.__new__(PythonStep)
    step.op = op
    step.y = y
    step.operands = operands
    step.compute = compute
    step.args = args
    step.kwargs = kwargs if kwargs else None
    step.guard = guard
    step.expected = expected
    low.emitted.append((WG_PYTHON, step))
    return 0
