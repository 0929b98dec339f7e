# Native calls, included by machine.pyx: calls on small arrays and guards that a C kernel computes.
#
# Each has a Python step that runs if the kernel declines.

cdef dict NATIVE_TYPES = {BOOL: WG_T_BOOL, np.dtype(np.int64): WG_T_INT, FLOAT: WG_T_DOUBLE,
                          np.dtype(complex): WG_T_COMPLEX}
#: how packing converts elements, by the types before and after
cdef dict CONVERSIONS = {
    (WG_T_BOOL, WG_T_BOOL): WG_SAME_1, (WG_T_INT, WG_T_INT): WG_SAME_8, (WG_T_DOUBLE, WG_T_DOUBLE): WG_SAME_8,
    (WG_T_COMPLEX, WG_T_COMPLEX): WG_SAME_16, (WG_T_BOOL, WG_T_INT): WG_BOOL_INT,
    (WG_T_BOOL, WG_T_DOUBLE): WG_BOOL_DOUBLE, (WG_T_INT, WG_T_DOUBLE): WG_INT_DOUBLE,
    (WG_T_DOUBLE, WG_T_COMPLEX): WG_DOUBLE_COMPLEX, (WG_T_DOUBLE, WG_T_BOOL): WG_DOUBLE_BOOL,
    (WG_T_DOUBLE, WG_T_INT): WG_DOUBLE_INT}


cdef dict kernels_by_name():
    cdef const wg_named_kernel *item = wg_named_kernels
    cdef dict found = {}
    while item.name != NULL:
        found[item.name.decode()] = <size_t>item.run
        item += 1
    return found


cdef dict NATIVE_KERNELS = kernels_by_name()


#: kernels that only move, compare or count elements, without rounding, add them in NumPy's order, or run its loop
cdef frozenset EXACT_KERNELS = frozenset({
    "rearrange", "take", "copy", "equals", "select", "count", "sort", "argsort", "argmax", "search", "bincount",
    "accumulate", "lstsq", "eigen", "qr by loops"})
#: functions whose results IEEE 754 defines, of complex numbers and of others
cdef frozenset EXACT_COMPLEX = frozenset({np.positive, np.negative, np.conjugate, np.add, np.subtract})
cdef frozenset EXACT_FUNCTIONS = EXACT_COMPLEX | {
    np.multiply, np.divide, np.sqrt, np.square, np.reciprocal, np.absolute, np.maximum, np.minimum, np.floor, np.ceil,
    np.trunc, np.rint, np.sign}


cdef bint keeps_bits(found) except -1:
    """Return whether a kernel computes the bits of the function, as exact programs require.

    Other loops of NumPy over elements may depend on strides, which kernels change.
    """
    if found.kernel == "loop":
        fun, types = found.loops[0]
        if fun.signature is not None or found.dtype == BOOL or getattr(np, fun.__name__, None) is not fun:
            return True
        return fun in (EXACT_COMPLEX if any([dtype.kind == "c" for dtype in types]) else EXACT_FUNCTIONS)
    if found.kernel == "fold":
        return found.params[2] in EXACT_FOLDS
    return found.kernel in EXACT_KERNELS or (found.kernel == "strong" and found.dtype == FLOAT)


cdef int find_native_calls(Lowering low) except -1:
    """Find the calls and guards that a native kernel can compute."""
    cdef Py_ssize_t i
    cdef int op
    for i in range(low.n):
        op = low.op[i]
        if op == Op.CALL and i not in low.folds and not is_small_product(low, i):
            call = low.listing.calls[low.a[i]]
            types = [type_of_value(low, u) for u in call.operands]
            found = native_call(call, types, *type_of_value(low, i), low.exact) or matrix_product(low, i, call)
        elif op == Op.PACK and low.layout(i).kind == BOOLS and low.layout(i).is_c:
            offsets, values = low.listing.packs[low.b[i]]
            if low.a[i] >= 0 and not (low.layout(low.a[i]).is_c and low.layout(low.a[i]).kind == BOOLS):
                continue
            found = native_pack(len(values), low.a[i] >= 0, offsets, *type_of_value(low, i))
        elif op == Op.PLACE and low.layout(i).kind == OTHER:
            shape = tuple(low.listing.views[low.b[i]][1])
            found = native_place(type_of_value(low, low.c[i]), low.layout(i).dtype, shape)
        elif op == Op.GUARD and not low.is_scalar(low.a[i]):
            found = native_guard(low.listing.guards[low.b[i]][0], *type_of_value(low, low.a[i]))
        else:
            continue
        if found is not None and not (low.exact and not keeps_bits(found)):
            low.natives[i] = found


cdef object matrix_product(Lowering low, Py_ssize_t i, call):
    """Return a native call of `numpy.matmul`'s inner loop (which calls BLAS) for a matrix product, else None."""
    cdef Py_ssize_t m, k, n
    product = product_of(call)
    if product not in ("matmul", "dot", "vdot") or not (low.is_scalar(i) or low.layout(i).is_c):
        return None
    if low.exact and product == "dot":      # may call another function of BLAS
        return None
    left, right = [factor_of(low, argument, call.operands) for argument in call.args]
    if left is None or right is None:
        return None
    if product == "vdot":
        left, right = factors_of(low, call)
        if len(left[2]) > 1 or len(right[2]) > 1:
            return None
    m, k, n = product_sizes(left[2], right[2])
    if k == 0 or m * n != (1 if low.is_scalar(i) else math.prod(low.layout(i).shape)):
        return None
    rows = left[3] if len(left[3]) == 2 else [k * left[3][0], left[3][0]]
    columns = right[3] if len(right[3]) == 2 else [right[3][0], 1]
    steps = 0, 0, 0, *rows, *columns, n, 1
    operands = [Packed(argument if constant is None else constant.reshape(shape), FLOAT, shape)
                for argument, (_, constant, shape, _) in zip(call.args, (left, right))]
    return NativeCall("loop", (*operands,), (0, 1, 4, 0, 1, m, k, n, *[8 * step for step in steps]), FLOAT,
                      loops=((np.matmul, (FLOAT,) * 3),), is_strided=True, work=PRODUCT * m * k * n)


cdef bint is_native_function(Lowering low, Py_ssize_t i) except -1:
    """Return whether a kernel computes an elementwise instruction that is neither scalar nor vector code."""
    cdef int op = low.op[i]
    if low.exact or not ROWS[op].function or ROWS[op].result not in ("elementwise", "flags"):
        return False
    operands = low.operands(i)
    fun = function(op)
    call = Call(fun, tuple(map(Operand, range(len(operands)))), {}, operands, lookup(fun))
    found = native_call(call, [type_of_value(low, u) for u in operands], *type_of_value(low, i))
    if found is not None:
        low.natives[i] = found
    return found is not None


cdef tuple type_of_value(Lowering low, Py_ssize_t i):
    if low.is_scalar(i):
        return BOOL if low.type[i] == 1 else FLOAT, ()
    return low.layout(i).dtype, low.layout(i).shape


cdef int emit_native(Lowering low, Py_ssize_t i) except -1:
    """Emit a native call: its operands and result as tuples, and the Python step to fall back to."""
    found = low.natives[i]
    values = low.operands(i)
    if low.op[i] == Op.CALL:
        values = low.listing.calls[low.a[i]].operands
    elif low.op[i] == Op.PLACE:
        values = [low.c[i]]
    result = native_result(low, i, found) if low.op[i] != Op.GUARD else None
    operands = [native_operand(low, given, values) for given in found.operands]
    if found.is_strided:
        operands = [(*operand[:-1], True) for operand in operands]
    emit_python(low, i)
    step = low.emitted.pop()[1]
    (<PythonStep>step).is_native = True
    low.emitted.append((WG_NATIVE, found, operands, result, step))
    return 0


cdef tuple native_operand(Lowering low, given, values):
    """Return an operand as (array, slot, constant, conversion, shape, strides, whether it needs no packing)."""
    cdef Layout layout
    cdef int before
    kind = NATIVE_TYPES[given.dtype]
    if type(given.argument) is not Operand:
        array = np.asarray(given.argument)
        array = array if given.axes is None else array.transpose(given.axes)
        constant = np.ascontiguousarray(np.broadcast_to(array, given.shape), given.dtype)
        return -1, -1, constant, CONVERSIONS[kind, kind], given.shape, (), True
    u = values[given.argument.position]
    if low.is_scalar(u):
        before = WG_T_DOUBLE        # slots hold flags as doubles
        is_packed = kind == WG_T_DOUBLE and math.prod(given.shape) == 1
        return -1, low.slot[u], None, CONVERSIONS[before, kind], given.shape, (0,) * len(given.shape), is_packed
    layout = low.layout(u)
    shape, strides = layout.shape, layout.strides
    if given.axes is not None:
        shape, strides = [tuple([line[d] for d in given.axes]) for line in (shape, strides)]
    missing = len(given.shape) - len(shape)
    strides = (0,) * missing + tuple([s if n == m else 0 for n, m, s in zip(shape, given.shape[missing:], strides)])
    before = NATIVE_TYPES[layout.dtype]
    is_packed = before == kind and is_contiguous(given.shape, strides, layout.itemsize)
    return low.array(u), -1, None, CONVERSIONS[before, kind], given.shape, strides, is_packed


cdef bint is_contiguous(tuple shape, tuple strides, Py_ssize_t itemsize):
    return all([n == 1 or step == own for n, step, own in zip(shape, strides, c_strides(shape, itemsize))])


cdef tuple native_result(Lowering low, Py_ssize_t i, found):
    """Return the location of a result as a tuple like `native_operand`, with axes in the kernel's order."""
    cdef Layout layout
    cdef int array
    if low.is_scalar(i):
        is_flag = low.type[i] == 1
        return -1, low.slot[i], None, WG_SAME_1 if is_flag else WG_SAME_8, (), (), not is_flag
    if low.op[i] == Op.PLACE:
        layout, array = stored_part(low, i)
    else:
        layout, array = low.layout(i), low.array(i)
    axes = range(layout.ndim) if found.axes is None else found.axes
    shape, strides = [tuple([line[d] for d in axes]) for line in (layout.shape, layout.strides)]
    kind = NATIVE_TYPES[layout.dtype]
    is_packed = is_contiguous(shape, strides, layout.itemsize)
    return array, -1, None, CONVERSIONS[kind, kind], shape, strides, is_packed


# ---------------------------------------------------------------------------------------------- assembly


cdef const wg_native *keep_native(Machine vm, found, list operands, result) except NULL:
    cdef Block memory = take(sizeof(wg_native) + len(operands) * sizeof(wg_operand))
    cdef wg_native *native = <wg_native *>memory.data
    cdef wg_operand *line = <wg_operand *>(native + 1)
    cdef Py_ssize_t k, size = 0
    vm.kept.append(memory)
    memset(native, 0, sizeof(wg_native) + len(operands) * sizeof(wg_operand))
    native.run = <wg_kernel><size_t>NATIVE_KERNELS[found.kernel]
    native.params = <const int64_t *>keep_list(vm, [*map(int, found.params)], sizeof(int64_t))
    native.count, native.operands = <int>len(operands), line
    for k in range(len(operands)):
        size += keep_operand(vm, &line[k], operands[k], found.operands[k].dtype.itemsize)
    if result is not None:
        size += keep_operand(vm, &native.result, result, found.dtype.itemsize)
    else:
        native.result.is_packed, native.result.array = True, -1
    native.spare = size
    vm.native_bytes = max(vm.native_bytes, size + 8 * <Py_ssize_t>found.spare)
    for k in range(len(found.loops)):
        find_loop(&native.loops[k], found.loops[k][0], found.loops[k][1])
    return native


cdef Py_ssize_t keep_operand(Machine vm, wg_operand *x, tuple given, Py_ssize_t itemsize) except -1:
    """Fill the descriptor of an operand; return the bytes that it needs when packed."""
    array, slot, constant, conversion, shape, strides, is_packed = given
    x.array, x.slot, x.conversion, x.is_packed = array, slot, conversion, is_packed
    x.constant = keep_array(vm, constant.ravel(), constant.dtype) if constant is not None else NULL
    x.ndim, x.size = <int>len(shape), math.prod(shape)
    x.shape = <const Py_ssize_t *>keep_list(vm, shape, sizeof(Py_ssize_t))
    x.strides = <const Py_ssize_t *>keep_list(vm, strides, sizeof(Py_ssize_t))
    x.bytes = 0 if is_packed else (x.size * itemsize + 15) // 16 * 16
    return x.bytes


cdef int find_loop(wg_inner_loop *loop, ufunc, tuple dtypes) except -1:
    """Set the inner loop of a ufunc for these dtypes."""
    cdef PyUFuncObject *u = <PyUFuncObject *><PyObject *>ufunc
    cdef bytes wanted = bytes([dtype.num for dtype in dtypes])
    cdef const char *types = wanted
    cdef int i
    for i in range(u.ntypes):
        if memcmp(u.types + i * u.nargs, types, u.nargs) == 0:
            loop.run = u.functions[i]
            loop.data = u.data[i] if u.data != NULL else NULL
            return 0
    raise TypeError(f"{ufunc!r} has no loop for {dtypes}")
