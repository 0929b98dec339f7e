# Lowers calls and elementwise entries to instructions; included by ssa.pyx.
#
# A call without an equivalent instruction remains an opaque CALL of the function. With `exact=True` a call is lowered
# only if the result is bit-identical to that of the eager engine.

#: comparisons and predicates with an opcode of their own, for scalars and arrays of equal shape
cdef dict FLAGS = {function(op): op for op in opcode_table.FLAGS}
#: opcodes of bitwise functions, applied to bools only, by the registry column ``lowering``
cdef dict OF_BOOLS = {"and": AND, "or": OR, "not": NOT}


cdef int32_t side_of(Definitions ssa, Buffer buffer, cnp.ndarray view, int32_t slot, double c) except -1:
    """Return one operand of an elementwise entry."""
    if buffer is not None:
        return ssa.read(buffer, view)
    if slot >= 0:
        return ssa.of_slot[slot]
    return ssa.code.constant(c) if view is None else ssa.kept(view)


cdef int32_t lower_elementwise(Definitions ssa, Node node) except -1:
    cdef int op = node.opcode
    cdef int32_t a = side_of(ssa, node.abuf, node.a, node.aslot, node.ac), b = -1, fitted_a, fitted_b
    cdef int32_t kind = kind_of(ssa, node.y)
    if op >= WG_ADD:
        b = side_of(ssa, node.bbuf, node.b, node.bslot, node.bc)
    if op and b >= 0 and node.y.dtype == DOUBLE and not ssa.exact:     # one may be a constant integer array
        a, b = as_doubles(ssa, a), as_doubles(ssa, b)
    fitted_a = fitted_to(ssa, a, node.y, kind)
    fitted_b = -1 if b < 0 else fitted_to(ssa, b, node.y, kind)
    if op and fitted_a >= 0 and (b < 0 or fitted_b >= 0):
        return emit(ssa.code, op, fitted_a, fitted_b, -1, kind)
    args = (Operand(0),) if b < 0 else (Operand(0), Operand(1))
    return emit_call(ssa, node.compute or node.row.fun, node.row, args, {}, [a] if b < 0 else [a, b], node.y)


cdef int32_t kind_of(Definitions ssa, cnp.ndarray y) except -1:
    """Return the type id of an array."""
    cdef tuple shape
    if y.dtype is not DOUBLE or not is_in_order(y):
        return ssa.code.type_of((y.dtype, *layout(y)))
    shape = (<object>y).shape
    found = ssa.kinds.get(shape)
    if found is None:
        found = ssa.kinds[shape] = ssa.code.type_of((DOUBLE, shape, None))
    return found


cdef int32_t kind_of_doubles(Definitions ssa, cnp.ndarray y) except -2:
    """Return the type id of a float64 result; -1 for other dtypes."""
    if y is None:
        return SCALAR
    return kind_of(ssa, y) if y.dtype == DOUBLE else -1


cdef int32_t as_doubles(Definitions ssa, int32_t value) except -1:
    """Convert a constant integer array to doubles if that is exact."""
    if ssa.code.ops[value] == ARRAY and ssa.code.types[ssa.code.kinds[value]][0].kind in "iub":
        array = ssa.code.arrays[ssa.code.as_[value]]
        if array.dtype.itemsize < 8 or not array.size or abs(array).max() <= 1 << 53:
            return ssa.plain(array.astype(float, order="C"))
    return value


cdef int32_t lower_float_function(Definitions ssa, list args, list values, Node node) except -2:
    """Emit a function of Python floats, such as ``math.sin``, as the equivalent ufunc; -1 if impossible."""
    cdef list found = []
    cdef int32_t v
    if ssa.exact or node.kwargs or node.y is not None:
        return -1
    for x in args:
        v = operand_of(ssa, x, values, ())
        if v < 0 or ssa.code.kinds[v] != SCALAR:
            return -1
        found.append(v)
    return emit(ssa.code, (<Kernel>kernels[node.row.fun]).opcode, found[0], found[1] if len(found) > 1 else -1, -1,
                SCALAR)


cdef int32_t fitted_to(Definitions ssa, int32_t value, cnp.ndarray y, int32_t kind) except -2:
    """Return an operand of an elementwise instruction with result `y`, broadcast if necessary; -1 if impossible."""
    if ssa.code.kinds[value] == kind or ssa.code.kinds[value] <= FLAG:
        return value
    return in_shape(ssa, value, (<object>y).shape)


cdef int32_t in_shape(Definitions ssa, int32_t value, tuple shape) except -2:
    """Broadcast an operand of an elementwise instruction to a shape with a view; -1 if no view does this."""
    cdef int32_t kind = ssa.code.kinds[value]
    if kind <= FLAG or ssa.code.types[kind][1] == shape:
        return value
    view = ssa.broadcasts.get((kind, shape), ssa)
    if view is ssa:
        view = ssa.broadcasts[kind, shape] = None if ssa.exact else spread_to(ssa.code.types[kind], shape)
    return -1 if view is None else ssa.code.view(value, view, ssa.code.types[kind][0])


cdef int32_t operand_of(Definitions ssa, x, list values, tuple shape) except -2:
    """Return an argument of a call as an operand broadcast to a shape; -1 if impossible."""
    if type(x) is Operand:
        return in_shape(ssa, values[x.position], shape)
    if isinstance(x, (bool, np.bool)) or np.asarray(x).dtype.kind not in "biuf":
        return -1
    if np.ndim(x) == 0:
        return ssa.code.constant(float(x))
    return -1 if np.asarray(x).dtype not in (DOUBLE, bool) else in_shape(ssa, ssa.plain(x), shape)


cdef bint lower_comparison(Definitions ssa, Node node) except -1:
    """Emit a comparison of two scalars; return False for any other tape entry."""
    cdef int32_t sides[2]
    cdef int k, op
    cdef Buffer buffer
    if node.kind != NodeKind.CALL or node.y is None or not is_truth(node.y) or len(node.args) != 2 or node.kwargs:
        return False
    op = FLAGS.get(node.row.fun, 0)
    if not LESS <= op <= NOT_EQUAL:
        return False
    sides[0] = sides[1] = -1
    for position, item, buffer, _, slot in node.sources:
        if buffer is not None or item >= 0:
            return False
        sides[<int>position] = ssa.of_slot[<int32_t>slot]
    for k in range(2):
        if sides[k] < 0:
            x = node.args[k]
            if type(x) is not float and type(x) is not np.float64 and type(x) is not int:
                return False
            sides[k] = ssa.code.constant(x)
    ssa.remember(node.out, ssa.passive(emit(ssa.code, op, sides[0], sides[1], -1, FLAG)), BOOL, (), None, 0)
    return True


#: preallocated operand placeholders of calls, and a cache of lowering rules by function
cdef list OPERANDS = [Operand(k) for k in range(16)]
cdef dict lowerings = {}
cdef enum:
    MAX_LOWERINGS = 1024


cdef object lowering_of(fun, row):
    """Return the rule that lowers calls of a function; None if they remain opaque calls."""
    if fun in lowerings:
        return lowerings[fun]
    if row.lowering is not None:
        rule = LOWERINGS[row.lowering]
    elif row.kind == "rearrangement":
        rule = lower_moved
    elif kernel_of(fun) is not None:
        rule = lower_ufunc
    else:
        rule = lower_flag if fun in FLAGS else None
    if row.kind != "custom" and len(lowerings) < MAX_LOWERINGS:
        lowerings[fun] = rule
    return rule


cdef int32_t lower_call(Definitions ssa, Node node) except -1:
    """Lower a call to instructions if possible, else emit it with operands in place of its traced arguments."""
    cdef list values = []
    cdef list args = list(node.args)
    fun = node.row.fun
    for position, item, buffer, view, slot in node.sources:
        values.append(ssa.of_slot[<int32_t>slot] if buffer is None else ssa.read(buffer, view))
        operand = OPERANDS[len(values) - 1] if len(values) <= 16 else Operand(len(values) - 1)
        if node.row.kind == "custom":
            args[item] = operand
        elif item < 0:
            args[position] = operand
        else:
            items = [*args[position]]
            items[item] = operand
            args[position] = tuple(items) if type(args[position]) is tuple else items
    rule = None
    if node.row.kind != "custom" or lookup(fun) is node.row:        # not overridden by a user's rule
        rule = lowering_of(fun, node.row)
    found = -1 if rule is None else rule(ssa, args, values, node)
    if found >= 0:
        return found
    return emit_call(ssa, node.compute or fun, node.row, tuple(args), node.kwargs or {}, values, node.y)


def lower_copy(Definitions ssa, list args, list values, Node node):
    if len(values) == 1 and ssa.code.kinds[<int32_t>values[0]] == SCALAR:
        return values[0]
    return lower_moved(ssa, args, values, node)


def lower_ufunc(Definitions ssa, list args, list values, Node node):
    """Lower a ufunc that has an opcode, or its counterpart for Python floats; -1 for other types."""
    found = lower_float_function(ssa, args, values, node) if getattr(node.compute, "is_kernel", False) else -1
    return found if found >= 0 else lower_kernel(ssa, args, values, node)


cdef int32_t lower_kernel(Definitions ssa, list args, list values, Node node) except -2:
    """Emit an elementwise function, with bool operands converted to doubles; -1 if it must remain a call.

    Handles calls with bool operands, 0-d arrays or scalar results, which are not elementwise tape entries.
    """
    cdef list found = []
    cdef int32_t v, kind = kind_of_doubles(ssa, node.y)
    result = () if node.y is None else (<object>node.y).shape
    if ssa.exact or node.kwargs or kind < 0:
        return -1
    for x in args:
        v = operand_of(ssa, x, values, result)
        if v < 0:
            return -1
        dtype, shape, _ = ssa.code.types[ssa.code.kinds[v]]
        if dtype != DOUBLE and (dtype != bool or len(args) == 1):
            return -1
        if dtype == bool:
            v = emit(ssa.code, SELECT, v, ssa.code.constant(1.0), ssa.code.constant(0.0),
                     SCALAR if shape == () else ssa.code.type_of((DOUBLE, shape, None)))
        found.append(v)
    cdef int op = (<Kernel>kernels[node.row.fun]).opcode
    return emit(ssa.code, op, found[0], found[1] if len(found) > 1 else -1, -1, kind)


def lower_stack(Definitions ssa, list args, list values, Node node):
    """Lower a stack of arrays as a move of elements, or a stack of scalars; -1 if neither is possible."""
    cdef int32_t moved = lower_moved(ssa, args, values, node), v
    cdef list found = []
    if moved >= 0:
        return moved
    if ssa.exact or node.kwargs or len(args) != 1 or node.y is None or node.y.ndim != 1 or node.y.dtype != DOUBLE:
        return -1
    for x in args[0]:
        v = operand_of(ssa, x, values, ())
        if v < 0 or ssa.code.kinds[v] != SCALAR:
            return -1
        found.append(v)
    return ssa.pack(found)


def lower_product(Definitions ssa, list args, list values, Node node):
    """Emit a product with strong zero, or a select if a factor is bool; -1 for other types."""
    cdef int32_t a, b, kind = kind_of_doubles(ssa, node.y)
    shape = () if node.y is None else (<object>node.y).shape
    a, b = [operand_of(ssa, x, values, shape) for x in args]
    if a < 0 or b < 0 or kind < 0:
        return -1
    of_a, of_b = [ssa.code.types[ssa.code.kinds[<int32_t>v]][0] for v in (a, b)]
    if of_a == of_b == DOUBLE:
        return emit(ssa.code, STRONG, a, b, -1, kind)
    if of_a == bool:
        a, b, of_a, of_b = b, a, of_b, of_a
    if ssa.exact or of_a != DOUBLE or of_b != bool:
        return -1
    return emit(ssa.code, SELECT, b, a, ssa.code.constant(0.0), kind)


def lower_where(Definitions ssa, list args, list values, Node node):
    """Emit `np.where` as a select; -1 for other types."""
    cdef int32_t mask, a, b, kind = kind_of_doubles(ssa, node.y)
    if len(args) != 3 or node.kwargs or type(args[0]) is not Operand:
        return -1
    shape = () if node.y is None else (<object>node.y).shape
    mask, a, b = [operand_of(ssa, x, values, shape) for x in args]
    if mask < 0 or a < 0 or b < 0 or kind < 0:
        return -1
    if [ssa.code.types[ssa.code.kinds[<int32_t>v]][0] for v in (mask, a, b)] != [bool, DOUBLE, DOUBLE]:
        return -1
    return emit(ssa.code, SELECT, mask, a, b, kind)


cdef list operands_of(Definitions ssa, list args, list values, Node node, tuple dtypes):
    """Return the operands of a predicate, broadcast to its result; None unless all have one of these dtypes."""
    cdef int32_t v
    if node.kwargs:
        return None
    found = [operand_of(ssa, x, values, (<object>node.y).shape) for x in args]
    for v in found:
        if v < 0 or ssa.code.types[ssa.code.kinds[v]][0] not in dtypes:
            return None
    return found


cdef int32_t emit_flag(Definitions ssa, int op, list operands, cnp.ndarray y) except -1:
    kind = FLAG if y.ndim == 0 else ssa.code.type_of((BOOL, *layout(y)))
    return emit(ssa.code, op, operands[0], operands[1] if len(operands) > 1 else -1, -1, kind)


def lower_flag(Definitions ssa, list args, list values, Node node):
    """Lower a comparison, predicate or logical function with an opcode; -1 if there is none for these operands."""
    found = operands_of(ssa, args, values, node, (DOUBLE, BOOL))
    return -1 if found is None else emit_flag(ssa, FLAGS[node.row.fun], found, node.y)


def lower_bitwise(Definitions ssa, list args, list values, Node node):
    """Lower a bitwise function of bools; -1 for integers."""
    found = operands_of(ssa, args, values, node, (BOOL,))
    return -1 if found is None else emit_flag(ssa, OF_BOOLS[node.row.lowering], found, node.y)


def lower_finite(Definitions ssa, list args, list values, Node node):
    """Lower ``isfinite`` and ``isinf``; -1 for other types. If x is not finite, x - x is NaN."""
    cdef int32_t a, v
    found = operands_of(ssa, args, values, node, (DOUBLE,))
    if found is None:
        return -1
    a = found[0]
    v = emit_flag(ssa, ISNAN, [emit(ssa.code, WG_SUBTRACT, a, a, -1, ssa.code.kinds[a])], node.y)
    if node.row.lowering == "finite":
        return emit_flag(ssa, NOT, [v], node.y)
    return emit_flag(ssa, AND, [v, emit_flag(ssa, NOT, [emit_flag(ssa, ISNAN, found, node.y)], node.y)], node.y)


def lower_outer(Definitions ssa, list args, list values, Node node):
    """Lower `np.outer` to a product of broadcasting views; -1 for other types."""
    cdef list found = []
    if ssa.exact or (<object>node.y).dtype != DOUBLE or node.kwargs or not (<object>node.y).size:
        return -1
    for x, d in zip(args, (0, 1)):
        v = values[x.position] if type(x) is Operand else ssa.plain(x) if type(x) is np.ndarray else -1
        kind = ssa.code.types[ssa.code.kinds[<int32_t>v]] if v >= 0 else None
        if v < 0 or kind[0] != DOUBLE or len(kind[1]) != 1:
            return -1
        first, _, (step,) = whole_view(kind)
        steps = (step, 0) if d == 0 else (0, step)
        found.append(ssa.code.view(v, (first, (<object>node.y).shape, steps), DOUBLE))
    return emit(ssa.code, WG_MULTIPLY, found[0], found[1], -1, kind_of(ssa, node.y))


def lower_stacked_product(Definitions ssa, list args, list values, Node node):
    """Lower a product of a stack of matrices with one matrix to a product of two matrices; -1 for other products.

    NumPy multiplies the matrices of the stack one by one.
    """
    cdef int32_t a, found
    if ssa.exact or node.kwargs or node.y is None or len(args) != 2 or type(args[0]) is not Operand:
        return -1
    a = values[0]
    dtype, shape, strides = ssa.code.types[ssa.code.kinds[a]]
    other = ssa.code.types[ssa.code.kinds[<int32_t>values[args[1].position]]][1] if type(args[1]) is Operand else \
        np.shape(args[1])
    if len(shape) < 3 or len(other) != 2 or strides is not None or dtype != DOUBLE or (<object>node.y).dtype != DOUBLE:
        return -1
    *stack, width = shape
    rows = math.prod(stack)
    if not (<object>node.y).size or not is_in_order(node.y):
        return -1
    operands = [ssa.code.block(a, 0, (rows, width)), *values[1:]]
    ssa.code.calls.append(Call(node.compute or node.row.fun, tuple(args), {}, operands, node.row))
    found = emit(ssa.code, CALL, len(ssa.code.calls) - 1, -1, -1, ssa.code.type_of((DOUBLE, (rows, other[1]), None)))
    return ssa.code.block(found, 0, (<object>node.y).shape)


def lower_diff(Definitions ssa, list args, list values, Node node):
    """Lower `np.diff` to a difference of two views; -1 for other orders and options."""
    given = {**dict(zip(("a", "n", "axis", "prepend", "append"), args)), **(node.kwargs or {})}
    if ssa.exact or type(given.pop("a", None)) is not Operand or len(values) != 1 or given.pop("n", 1) != 1:
        return -1
    axis = given.pop("axis", -1)
    dtype, shape, _ = kind = ssa.code.types[ssa.code.kinds[<int32_t>values[0]]]
    if any([x is not np._NoValue for x in given.values()]) or dtype != DOUBLE or not (<object>node.y).size:
        return -1
    first, _, strides = whole_view(kind)
    axis %= len(shape)
    part = shape[:axis] + (shape[axis] - 1,) + shape[axis + 1:]
    if (<object>node.y).shape != part:
        return -1
    low, high = [ssa.code.view(values[0], (first + k * strides[axis], part, strides), dtype) for k in (0, 1)]
    return emit(ssa.code, WG_SUBTRACT, high, low, -1, SCALAR if part == () else kind_of(ssa, node.y))


def lower_bincount(Definitions ssa, list args, list values, Node node):
    """Lower `np.bincount` with weights to a scatter; -1 if its indices are not constant."""
    cdef int32_t v
    given = {**dict(zip(("x", "weights", "minlength"), args)), **(node.kwargs or {})}
    if ssa.exact or type(given["x"]) is Operand or type(given.get("weights")) is not Operand or len(values) != 1:
        return -1
    v = values[0]
    where = np.ascontiguousarray(given["x"], dtype=np.int32)
    if ssa.code.types[ssa.code.kinds[v]] != (DOUBLE, where.shape, None) or (<object>node.y).dtype != DOUBLE:
        return -1
    if not where.size or not (<object>node.y).size:
        return -1
    return emit(ssa.code, SCATTER, v, ssa.constant_array(where), -1,
                ssa.code.type_of((DOUBLE, (<object>node.y).shape, None)))


cdef int32_t emit_call(Definitions ssa, compute, row, args, kwargs, list values, y) except -1:
    """Emit a call; `y` is an array with the type of its result, or None for a scalar."""
    ssa.code.calls.append(Call(compute, args, kwargs, values, row))
    kind = SCALAR
    if y is not None and is_in_order(y):
        kind = kind_of(ssa, y)
    elif y is not None:
        shape, strides = layout(y)
        strides = None if strides and overlaps(shape, strides) else strides
        kind = ssa.code.type_of(((<object>y).dtype, shape, strides))
    return emit(ssa.code, CALL, len(ssa.code.calls) - 1, -1, -1, kind)


cdef tuple spread_to(tuple type, tuple shape):
    """Return the view that broadcasts an array of this type to a shape; None if there is none."""
    dtype, own, _ = type
    cdef Py_ssize_t more = len(shape) - len(own)
    if own == () or dtype != DOUBLE and dtype != bool or more < 0:
        return None
    first, _, strides = whole_view(type)
    if not all([n == m or n == 1 for n, m in zip(own, shape[more:])]):
        return None
    return first, shape, (0,) * more + tuple([s if n == m else 0 for n, m, s in zip(own, shape[more:], strides)])


#: lowering rules by the registry column ``lowering``
cdef dict LOWERINGS = {
    "and": lower_bitwise, "bincount": lower_bincount, "copy": lower_copy, "diff": lower_diff, "finite": lower_finite,
    "infinite": lower_finite, "moved": lower_moved, "not": lower_bitwise, "or": lower_bitwise, "outer": lower_outer,
    "pad": lower_pad, "select": lower_where, "stack": lower_stack, "stacked product": lower_stacked_product,
    "strong": lower_product,
}
LOWERING_WORDS = frozenset(LOWERINGS)
