# Ufuncs with a kernel on operands, and powers.

cdef object unary(Kernel u, object operand):
    """Apply a unary ufunc to an operand and record it."""
    cdef ArrayVar x
    cdef Tape tape
    cdef Node node
    if type(operand) is ScalarVar:
        return unary_value(u, operand, u.value1((<ScalarVar>operand).v))
    if type(operand) is ScalarDual:
        return unary_value(u, operand, u.value1((<ScalarDual>operand).v))
    x = <ArrayVar>operand
    tape = tape_of(x.buffer)
    if tape is None and is_forward(x.buffer) and is_double(x.v) and cnp.PyArray_NDIM(x.v) > 0:
        return forward_unary(u, x)
    if tape is None or not is_double(x.v) or cnp.PyArray_NDIM(x.v) == 0:
        return dispatch.ufunc(u.ufunc, "__call__", (operand,), {})
    node = new_node(ELEMENTWISE, u.row())
    node.opcode = u.opcode
    node.abuf = x.buffer
    return append_elementwise(tape, node, u.reads_a, x.v, None, u.array_value(x.v, None, 0.0, 0.0, False))


cdef object unary_value(Kernel u, object x, double y):
    """Record a unary ufunc of a `ScalarVar` or `ScalarDual` with a given value."""
    if type(x) is ScalarVar:
        return append_scalar((<ScalarVar>x).tape, u.opcode, (<ScalarVar>x).slot, 0, y)
    return dual1(<ScalarDual>x, u.opcode, y)


cdef object append_elementwise(Tape tape, Node node, int reads, cnp.ndarray a, cnp.ndarray b, object y):
    """Append an elementwise entry; keep only the arrays that its partials read, and view descriptors of the others."""
    node.a = a
    node.b = b
    if tape.recording:          # replayed, never swept: of traced operands only the layout matters
        reads = (WG_A if node.abuf is None else 0) | (WG_B if node.bbuf is None else 0)
    if a is not None and not reads & WG_A:
        node.descriptors |= WG_A
        node.a = view_descriptor(a, tape.recording)
    if b is not None and not reads & WG_B:
        node.descriptors |= WG_B
        node.b = view_descriptor(b, tape.recording)
    x = result(tape, node, y)
    if node.y is not None and not reads & WG_Y:
        node.descriptors |= WG_Y
        node.y = view_descriptor(node.y, tape.recording)
    return x


cdef enum:
    MAX_CONVERTED = 4096        # elements; a larger constant is kept in its own dtype, which may take less memory


cdef inline object as_doubles(object x, object other):
    """Convert a small plain array of booleans or integers to float64, as NumPy does when combining it with float64."""
    if type(other) is ArrayVar and not is_double((<ArrayVar>other).v):
        return x
    if type(x) is not ndarray or not (cnp.PyArray_ISBOOL(<cnp.ndarray>x) or cnp.PyArray_ISINTEGER(<cnp.ndarray>x)):
        return x
    if cnp.PyArray_NDIM(<cnp.ndarray>x) == 0 or cnp.PyArray_SIZE(<cnp.ndarray>x) > MAX_CONVERTED or recordings:
        return x
    return cnp.PyArray_Cast(<cnp.ndarray>x, cnp.NPY_DOUBLE)


cdef struct Side:               # one operand of a binary operation; references are borrowed
    PyObject *owner             # its tape, or its level in forward mode; NULL: a constant
    PyObject *buffer
    PyObject *array             # NULL: a scalar
    int32_t slot                # of a scalar on a tape
    double *t                   # tangents of a scalar in forward mode
    double c
    bint strong                 # a float64 in NumPy's promotion, not a weakly typed Python float


cdef inline int classify_operand(object x, Side *side) except -1:
    """Classify an operand; return 0 if it needs the general path."""
    cdef ArrayVar v
    cdef Tape tape
    memset(side, 0, sizeof(Side))
    side.slot = -1
    if type(x) is ArrayVar:
        v = <ArrayVar>x
        if not is_double(v.v) or cnp.PyArray_NDIM(v.v) == 0:
            return 0
        side.array = <PyObject *>v.v
        tape = tape_of(v.buffer)
        if tape is not None:
            side.owner = <PyObject *>tape
            side.buffer = <PyObject *>v.buffer
        elif v.buffer.level is not None:        # of a forward or nested level
            return 0
        return 1
    if type(x) is ScalarVar:
        side.owner = (<ScalarVar>x).tape.level.tape
        if side.owner == NULL:
            side.owner = <PyObject *>(<ScalarVar>x).tape
        side.slot = (<ScalarVar>x).slot
        side.c = (<ScalarVar>x).v
        side.strong = True
        return 1
    return classify_constant(x, side)


cdef inline int classify_constant(object x, Side *side) except -1:
    if type(x) is ndarray:
        if not is_double(<cnp.ndarray>x) or cnp.PyArray_NDIM(<cnp.ndarray>x) == 0:
            return 0
        side.array = <PyObject *>x
        return 1
    if as_double(x, &side.c):
        side.strong = type(x) is float64
        return 1
    return 0


cdef inline cnp.ndarray array_of(Side *side):
    return <cnp.ndarray>side.array if side.array != NULL else None


cdef inline object value_of_side(Side *side):
    if side.array != NULL:
        return <object>side.array
    return float64(side.c) if side.strong else side.c


cdef object binary(Kernel u, object left, object right):
    """Apply a binary ufunc to two operands, at least one of them traced or clean, and record it."""
    return binary_any(u, left, right, False)


cdef inline object binary_any(Kernel u, object left, object right, bint is_operator):
    """Apply a binary ufunc, or the operator that corresponds to it, and record it."""
    if holds_floats and (type(left) is FloatVar or type(right) is FloatVar):
        return binary_any(u, promoted_with(left, right), promoted_with(right, left), is_operator)
    left, right = as_doubles(left, right), as_doubles(right, left)
    if is_scalar_var(left) or is_scalar_var(right):
        if (is_scalar_var(left) or not isinstance(left, ndarray)) and (
                is_scalar_var(right) or not isinstance(right, ndarray)):
            scalars = scalar_ufunc(u, left, right, NULL)
            if scalars is not None:
                return scalars
    found = array_binary(u, left, right, None)
    if found is not None:
        return found
    if is_operator and (is_complex(left) or is_complex(right)):
        return complex_operator(u, left, right)
    return dispatch.ufunc(u.ufunc, "__call__", (left, right), {})


cdef inline object array_binary(Kernel u, object left, object right, object compute):
    """Apply a binary ufunc, or its operator `compute`, to float64 arrays and scalars; None for other operands."""
    cdef Side l, r
    if not (classify_operand(left, &l) and classify_operand(right, &r)) or l.array == r.array == NULL:
        return forward_binary(u, left, right, compute)
    if l.owner == r.owner == NULL:
        return arguments.clean((compute or u.ufunc)(value_of_side(&l), value_of_side(&r)))
    if compute is None:
        y = u.array_value(array_of(&l), array_of(&r), l.c, r.c, l.strong or r.strong)
    else:
        y = compute(value_of_side(&l), value_of_side(&r))
    return record_binary(u, &l, &r, y, compute)


cdef object record_binary(Kernel u, Side *l, Side *r, object y, object compute):
    cdef Node node = new_node(ELEMENTWISE, u.row())
    cdef Tape tape
    cdef cnp.ndarray a = array_of(l), b = array_of(r)
    cdef int reads = (u.reads_a if l.owner != NULL else 0) | (u.reads_b if r.owner != NULL else 0)
    if l.owner != NULL and r.owner != NULL and l.owner != r.owner:
        raise LevelError(mixed_message((<Tape>l.owner).level, (<Tape>r.owner).level))
    tape = <Tape>(l.owner if l.owner != NULL else r.owner)
    if tape.recording:                  # a replay needs constants even if no partial reads them
        reads |= (0 if l.owner != NULL else WG_A) | (0 if r.owner != NULL else WG_B)
        node.compute = compute
    node.opcode = u.opcode
    # copy a constant array that a partial reads, as f may overwrite it later
    if l.buffer != NULL:
        node.abuf = <Buffer>l.buffer
    elif a is not None and reads & WG_A:
        a = kept_constant(tape, a)
    if r.buffer != NULL:
        node.bbuf = <Buffer>r.buffer
    elif b is not None and reads & WG_B:
        b = kept_constant(tape, b)
    node.aslot = l.slot
    node.bslot = r.slot
    node.ac = l.c
    node.bc = r.c
    return append_elementwise(tape, node, reads, a, b, y)


cdef object scalar_ufunc(Kernel u, object left, object right, const double *value):
    """Apply a binary ufunc to two scalars; return None if one is not a supported scalar.

    The result is computed by the ufunc's own loop unless `value` holds it.
    """
    cdef double a, b
    cdef Tape tape
    if type(left) is ScalarVar and type(right) is ScalarVar:
        tape = common_tape((<ScalarVar>left).tape, (<ScalarVar>right).tape)
        return append_scalar(tape, u.opcode, (<ScalarVar>left).slot, (<ScalarVar>right).slot,
                             result_of(u, (<ScalarVar>left).v, (<ScalarVar>right).v, value))
    if type(left) is ScalarVar and as_double(right, &b):
        tape = (<ScalarVar>left).tape
        return append_scalar(tape, u.opcode + 1, (<ScalarVar>left).slot, constant(tape, b),
                             result_of(u, (<ScalarVar>left).v, b, value))
    if type(right) is ScalarVar and as_double(left, &a):
        tape = (<ScalarVar>right).tape
        return append_scalar(tape, u.opcode + 2, constant(tape, a), (<ScalarVar>right).slot,
                             result_of(u, a, (<ScalarVar>right).v, value))
    if type(left) is ScalarDual and type(right) is ScalarDual:
        if (<ScalarDual>left).level is (<ScalarDual>right).level:
            return dual2(<ScalarDual>left, <ScalarDual>right, u.opcode,
                         result_of(u, (<ScalarDual>left).v, (<ScalarDual>right).v, value))
    elif type(left) is ScalarDual and as_double(right, &b):
        return dual_left_number(<ScalarDual>left, b, u.opcode + 1, result_of(u, (<ScalarDual>left).v, b, value))
    elif type(right) is ScalarDual and as_double(left, &a):
        return dual_right_number(a, <ScalarDual>right, u.opcode + 2, result_of(u, a, (<ScalarDual>right).v, value))
    return None


cdef inline double result_of(Kernel u, double a, double b, const double *value) except? -1.0:
    return value[0] if value != NULL else u.value2(a, b)


cdef bint power_is_operator_only = features.power_is_operator_only
#: exponents for which NumPy's ** on arrays calls another ufunc
cdef dict SHORT_POWERS = {-1: np.reciprocal, 0.5: np.sqrt, 2: np.square}


cdef object power(object left, object right):
    """Apply ``**`` to arrays; unlike ``np.power`` it has shortcuts for some exponents."""
    cdef double c
    if (type(left) is ArrayVar and as_double(right, &c) and c == 2.0 and type(right) is not float64
            and not ((<ArrayVar>left).scalar and cnp.PyArray_ISCOMPLEX((<ArrayVar>left).v))):
        return unary(<Kernel>by_opcode[WG_SQUARE], left)
    if power_is_operator_only and type(left) is ArrayVar and as_double(right, &c) and c in SHORT_POWERS:
        if not (<ArrayVar>left).scalar and cnp.PyArray_TYPE((<ArrayVar>left).v) == cnp.NPY_DOUBLE:
            return unary(<Kernel>kernels[SHORT_POWERS[c]], left)
    found = array_binary(u_power, left, right, operator.pow)
    if found is not None:
        return found
    if is_complex(left) and not is_scalar(left) and (type(right) is int or type(right) is float):
        short = SHORT_POWERS.get(right)
        if short is not None:
            return dispatch.ufunc(short, "__call__", (left,), {})
    return dispatch.ufunc(np.power, "__call__", (left, right), {}, operator.pow)


cdef object power_of_scalars(object left, object right):
    """Return ``left ** right`` for a call made by the operator of a NumPy scalar."""
    if isinstance(left, np.generic) and is_scalar_var(right):
        return float(left) ** right
    return binary(u_power, left, right)


cdef object array_ufunc(object ufunc, str method, object x0, object x1, tuple rest, object out, object where,
                        dict kwargs):
    """Implement ``__array_ufunc__``: a plain call uses the ufunc's kernel, any other goes through the registry."""
    cdef Kernel u
    if holds_floats and holds_float((x0, x1, rest, out, where)):
        return dispatch.ufunc(ufunc, method, (x0, x1, *rest) if x1 is not None else (x0, *rest),
                              with_options(kwargs, out, where))
    if out is None and where is True and not kwargs and method == "__call__":
        u = kernel_of(ufunc)
        if u is not None:
            if x1 is None:
                return unary(u, x0)
            if u is u_power and (is_scalar_var(x0) or is_scalar_var(x1)) and frames.is_operator():
                return power_of_scalars(x0, x1)     # np.float64(2) ** x calls libm's pow, not the ufunc
            return binary(u, x0, x1)
    inputs = (x0,) + rest if x1 is None else (x0, x1) + rest
    return dispatch.ufunc(ufunc, method, inputs, with_options(kwargs, out, where))


cdef dict with_options(dict kwargs, object out, object where):
    if out is not None:
        kwargs["out"] = out
    if where is not True:
        kwargs["where"] = where
    return kwargs
