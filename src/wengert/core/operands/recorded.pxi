# Recording tapes. Values without derivative stay traced, since they change from call to call. A value that Python code
# reads leaves a guard, which a replay checks.

cdef dict NO_KEYWORDS = {}


cpdef bint may_record() noexcept:
    """Return whether a recording tape is open in any thread."""
    return recordings > 0


cpdef Level recording_level(x):
    """Return the innermost level of the operands in nested lists and tuples if it is recording, else None."""
    cdef Level level
    if not recordings:
        return None
    level = innermost(x)
    return level if level is not None and level.recording else None


cpdef object grounded(x):
    """Lower `x` to the outermost level: operands of its tape, or plain values; lists and tuples are searched."""
    cdef Level level = innermost(x)
    while level is not None and level.depth > 0:
        x = lower(x, level)
        level = innermost(x)
    return x


cpdef object observed(x):
    """Return the plain value for Python code and leave a guard for each operand: the only exit from a recording."""
    if type(x) is FloatVar:
        return float(observed((<FloatVar>x).x))
    if is_var(x):
        return leave_guard(grounded(x)) if is_recorded(x) else value_of(x)
    if (type(x) is list or type(x) is tuple) and holds_var(x):
        return type(x)([observed(item) for item in x])
    return x


cdef bint is_recorded(object x):
    """Return whether `x` is an operand of a recording tape, or of a level nested in one."""
    if not recordings:
        return False
    if type(x) is ScalarVar:
        return (<ScalarVar>x).tape.recording
    return type(x) is ArrayVar and (<ArrayVar>x).buffer.level is not None and (<ArrayVar>x).buffer.level.recording


cdef object leave_guard(object x):
    """Copy the value of an operand of an outermost level and append a guard to its tape."""
    cdef Level level = level_of(x)
    cdef Node node
    value = value_of(x)
    if level is None:           # a constant at the outermost level
        return value
    if isinstance(value, ndarray):
        value = value.copy(order="K")   # reductions with where= depend on the memory layout
    node = new_node(GUARD, None)
    node.sources = [source_of(0, -1, x)]
    node.saved = value
    node.key = frames.caller()
    (<Tape>level.tape).add_node(node, 0.0)
    return value.copy(order="K") if isinstance(value, ndarray) else value


cdef tuple source_of(position, item, x):
    """Return a tape entry's reference to an operand of its tape."""
    x = as_numpy(x)
    if type(x) is ScalarVar:
        return position, item, None, None, (<ScalarVar>x).slot
    return position, item, (<ArrayVar>x).buffer, (<ArrayVar>x).v, -1


# ---- values without derivatives

cdef bint is_discrete(ArrayVar x):
    """Return whether an operand holds integers or booleans."""
    return (cnp.PyArray_ISINTEGER(x.v) or cnp.PyArray_ISBOOL(x.v)) and is_live(x.buffer)


cpdef bint is_passive(x):
    """Return whether `x` is a value of a recording tape that carries no derivative."""
    cdef Level level
    if not recordings or not is_var(x):
        return False
    level = level_of(x)
    if level is None or not level.recording or level.kind != REVERSE:
        return False
    x = as_numpy(x)
    if type(x) is ScalarVar:
        return not is_active((<ScalarVar>x).tape, None, (<ScalarVar>x).slot)
    return is_discrete(<ArrayVar>x) or not is_active(<Tape>level.tape, (<ArrayVar>x).buffer, -1)


cdef bint is_constant_there(Tape tape, Node node, dtype):
    """Return whether the result of an entry may be integer or boolean; no derivative passes through such a result."""
    if dtype.kind not in "biu":
        return False
    if node.row is not None and node.row.kind == "constant":
        return True
    analyse(tape)
    return not has_active_operand(tape, node)


cdef bint is_mask(object x):
    return type(x) is ArrayVar and cnp.PyArray_ISBOOL((<ArrayVar>x).v) and not (<ArrayVar>x).scalar


# ---- comparisons and rounding

cdef object compare_recorded(object left, object right, int op):
    """Compare and record; the result is an operand, or plain if the types alone decide the comparison."""
    cdef ScalarVar x, z
    cdef Node node
    cdef double b
    if (op == Py_EQ or op == Py_NE) and type(left) is ArrayVar:
        checks.note_match(left, right)
    row, fun, compute = dispatch.comparison(op)
    right = promoted_with(right, left)
    if type(left) is ScalarVar:
        x = <ScalarVar>left
        node = new_node(CALL, row)
        if type(right) is ScalarVar and (<ScalarVar>right).tape is x.tape:
            z = <ScalarVar>right
            node.sources = [(0, -1, None, None, x.slot), (1, -1, None, None, z.slot)]
            node.args = (float64(x.v), float64(z.v))
        elif as_double(right, &b):
            node.sources = [(0, -1, None, None, x.slot)]
            node.args = (float64(x.v), right)
        if node.args is not None:
            if op != Py_EQ and op != Py_NE:
                watch_comparison(left, right)
            elif node.args[0] == node.args[1]:
                checks.note_scalar_match(left, right)
            node.compute = compute
            node.kwargs = NO_KEYWORDS
            return result(x.tape, node, compute(*node.args))
    if is_var(right) or isinstance(right, (ndarray, np.generic, int, float, complex, list, tuple)):
        return dispatch.function(fun, (left, right), {}, compute)
    return PyObject_RichCompare(value_of(left), right, op)


cdef object as_bool(object x):
    """Return ``bool(x)`` and, on a recording tape, leave a guard."""
    if type(x) is ArrayVar:
        if cnp.PyArray_SIZE((<ArrayVar>x).v) != 1:
            return bool(value_of(x))        # raises NumPy's error
        if cnp.PyArray_ISBOOL((<ArrayVar>x).v):
            return bool(observed(x))
    return bool(observed(x != 0))


cdef object rounded_value(object x, object fun):
    """Round `x` by `fun` to a plain value; on a recording tape, leave a guard."""
    if type(x) is ArrayVar and is_discrete(<ArrayVar>x):
        return observed(x)
    return observed(dispatch.function(fun, (x,), {})) if recordings and is_traced(x) else fun(value_of(x))


cdef object rounded(object x, object digits):
    """Implement ``round(x)``: without `digits` a plain integer, with them an operand."""
    if not (recordings and is_traced(x)):
        checks.note_rounding(x, digits)
        return round(value_of(x), digits)
    return int(rounded_value(x, np.rint)) if digits is None else dispatch.function(np.round, (x, digits), {}, round)


# ---- indices

cdef object get_recorded(ArrayVar x, object key):
    """Index by a key that holds operands: integer arrays stay traced, other operands are observed."""
    cdef Tape tape
    cdef Node node
    if type(key) is tuple:
        key = tuple([index_part(part) for part in key])
    else:
        key = index_part(key)
    if not holds_var(key):
        return get_item(x, key)
    if x.buffer.level is not None and x.buffer.level.kind != REVERSE:
        key = tuple([copied(part) for part in key]) if type(key) is tuple else copied(key)
        return gather_carried(x, x.v, key, x.v[stored_key(plain(key))])
    tape = tape_of(x.buffer)
    node = new_node(CALL if tape is None else GATHER, dispatch.constant_row if tape is None else dispatch.getitem_row)
    node.key = stored_key(plain(key))
    parts = enumerate(key) if type(key) is tuple else [(-1, key)]
    node.sources = [source_of(1, i, part) for i, part in parts if type(part) is ArrayVar]
    y = x.v[node.key]
    if tape is not None:
        node.sources.insert(0, source_of(0, -1, x))
    else:
        tape = <Tape>recording_level(key).tape
        node.args = (x.v.copy(), node.key)
        node.kwargs = NO_KEYWORDS
        node.compute = operator.getitem
    return result(tape, node, y)


cdef object index_part(object part):
    """Return an integer index array as an operand of the tape, any other key as a plain value."""
    part = grounded(part)
    if type(part) is ArrayVar and np.ndim(part) and cnp.PyArray_ISINTEGER((<ArrayVar>part).v):
        return part if is_live((<ArrayVar>part).buffer) else value_of(part)
    if type(part) is slice:
        return slice(observed(part.start), observed(part.stop), observed(part.step))
    return observed(part) if holds_var(part) and (not is_traced(part) or is_passive(part)) else part


cdef object copied(object part):
    return np.copy(part) if type(part) is ArrayVar else part
