# Arrays of forward and nested levels. Their values belong to the enclosing level: plain arrays, or operands there.
# Each store and each element read is therefore also a store or read at that level.

cdef ArrayVar wrap(Level level, object y):
    """Return the operand of a nested level for a value of the enclosing level."""
    cdef cnp.ndarray array
    cdef Buffer buffer
    cdef ArrayVar x
    if type(y) is ArrayVar:
        array = (<ArrayVar>y).v
        scalar_like = (<ArrayVar>y).scalar
        below = y if scalar_like else (<ArrayVar>y).buffer
    else:
        if not is_scalar_var(y) and not isinstance(y, (ndarray, np.generic, float)):
            raise TracedValueError(f"a function returned {type(y).__name__} where an array was expected")
        array = <cnp.ndarray>np.asarray(value_of(y))
        scalar_like = not isinstance(y, ndarray)
        below = y
    if array.dtype.kind != "f":
        if array.dtype.kind != "c":
            raise messages.dtype_error(None, array.dtype)
        note_complex(level)
    if not scalar_like and not cnp.PyArray_IS_C_CONTIGUOUS(array) and 0 in (<object>array).strides:
        return wrap(level, np.copy(y))
    buffer = new_buffer(array, level)
    if not scalar_like and type(below) is not Buffer:
        below = new_buffer(array, None)
    buffer.under = below
    x = array_var(buffer, array)
    x.scalar = scalar_like
    return x


cdef Buffer same_memory(Buffer buffer, Level level):
    cdef Buffer other = Buffer.__new__(Buffer)
    other.low = buffer.low
    other.span = buffer.span
    other.id = -1
    other.level = level
    return other


cdef int assign_level(Buffer buffer, Level level, cnp.ndarray view) except -1:
    """Assign a buffer to `level` because a value of that level is about to be stored into it.

    The enclosing level keeps its own buffer, ``buffer.under``.
    """
    cdef Buffer under
    check_ended(buffer)
    if buffer.level is level:
        return 0
    if buffer.level is None and buffer.escaped is not None:
        raise TracedValueError(messages.escaped_message(buffer.escaped))
    if buffer.level is None and filled_places is not None:
        note_filled(buffer)
    if level.depth > 0:
        under = same_memory(buffer, buffer.level)
        if buffer.level is not None:
            rename_for_outer(buffer, under, view)
        buffer.under = under
    buffer.level = level
    if level.kind == FORWARD:
        give_tangents(buffer, level, view)
    else:
        buffer.born = level.recorder.birth
    return 0


cdef int rename_for_outer(Buffer buffer, Buffer under, cnp.ndarray view) except -1:
    """Make the enclosing level refer to an array by `under` from now on."""
    cdef Level level = buffer.level
    cdef Tape tape
    cdef Node node
    cdef cnp.ndarray whole
    under.under = buffer.under
    under.tangent = buffer.tangent
    under.tangent_owner = buffer.tangent_owner
    under.written = buffer.written
    if level.kind == FORWARD:
        return 0
    whole = flat(buffer, view)
    if level.kind == NESTED:
        level.recorder.rename(buffer, under, whole)
        return 0
    tape = <Tape>level.tape
    node = new_node(ELEMENTWISE, (<Kernel>by_opcode[WG_POSITIVE]).row())
    node.opcode = WG_POSITIVE
    node.abuf = buffer
    node.a = node.y = whole
    node.out = under
    node.saved = view           # keeps the memory alive
    tape.add_node(node, 0.0)
    return 0


cdef cnp.ndarray flat(Buffer buffer, cnp.ndarray like):
    """Return the whole memory of a buffer as a 1-D array; the caller keeps it alive."""
    cdef cnp.npy_intp n = buffer.span // cnp.PyArray_ITEMSIZE(like)
    return <cnp.ndarray>cnp.PyArray_SimpleNewFromData(1, &n, cnp.PyArray_TYPE(like), buffer.low)


cdef int give_tangents(Buffer buffer, Level level, cnp.ndarray like) except -1:
    """Allocate zero tangents for an array."""
    cdef ArrayVar memory
    if level.depth == 0:
        return give_tangent(buffer, level)
    memory = <ArrayVar>clean(np.zeros(max(1, level.k * buffer.span // cnp.PyArray_ITEMSIZE(like)), dtype=like.dtype))
    buffer.tangent = <char *>cnp.PyArray_DATA(memory.v)
    buffer.tangent_owner = memory
    return 0


cdef object tangents_in(Buffer buffer, cnp.ndarray view):
    """Return the tangents of a view at the enclosing level, with a leading axis of directions."""
    cdef ArrayVar memory
    if buffer.level.depth == 0:
        return tangent_view(buffer, view)
    if buffer.level.k == 0:
        return np.zeros((0, *(<object>view).shape), dtype=view.dtype)
    memory = <ArrayVar>buffer.tangent_owner
    return array_var(memory.buffer, view_at(buffer.tangent + (<char *>cnp.PyArray_DATA(view) - buffer.low),
                                            memory.v, view, buffer.level.k, buffer.span))


cpdef object tangents_of(x):
    """Return the tangents of an operand of a forward level, at the enclosing level."""
    cdef cnp.npy_intp k
    cdef cnp.ndarray t
    x = as_numpy(x)
    if type(x) is ScalarDual:
        k = (<ScalarDual>x).level.k
        t = <cnp.ndarray>cnp.PyArray_EMPTY(1, &k, cnp.NPY_DOUBLE, 0)
        memcpy(cnp.PyArray_DATA(t), (<ScalarDual>x).t, k * sizeof(double))
        return t
    return tangents_in((<ArrayVar>x).buffer, (<ArrayVar>x).v)


cpdef object with_tangents(Level level, y, t):
    """Return the operand of a forward level for a value and its tangents; None means zero tangents."""
    cdef ArrayVar x
    if level.depth == 0:
        return dual(level, y, t)
    x = wrap(level, y)
    give_tangents(x.buffer, level, x.v)
    if t is not None and not level.silent:
        aligned_set(tangents_in(x.buffer, x.v), t)
    return x


cdef int aligned_set(object target, object t) except -1:
    """Assign ``target[...] = t`` on operands, where `t` may have fewer or more axes after the axis of directions."""
    shape = np.shape(t)
    missing = np.ndim(target) - len(shape)
    if missing and shape:
        t = np.reshape(t, shape[:1] + (1,) * missing + shape[1 + max(0, -missing):])
    target[...] = t
    return 0


cdef object forward_call(Level level, row, args, kwargs, operands, y, index_map):
    """Return the result of a call at a forward level, with its tangents."""
    if level.silent:
        return with_tangents(level, y, None)
    if not isinstance(y, (ndarray, np.generic, float)):
        raise TracedValueError(f"{messages.name_of(row)} returned {type(y).__name__} where an array was expected")
    if y.dtype.kind not in "fc":
        raise messages.dtype_error(row, y.dtype)
    sources = [(position, item, tangents_of(x)) for position, item, x in operands]
    t = forward.tangent(row, level.k, args, kwargs, sources, y, index_map)
    if y.dtype.kind == "f" and t.dtype.kind == "c":
        raise messages.no_complex_rule(row)
    if row.undefined and checks.is_undefined([y, *[source[2] for source in sources]], t):
        level.doubtful = row
    return with_tangents(level, y, t)


cdef int store_carried(Level level, Buffer buffer, cnp.ndarray view, object key, object value) except -1:
    """Store into a view, or at an advanced index of it, of an array of a forward or nested level."""
    cdef Py_ssize_t j
    assign_level(buffer, level, view)
    below = lower(value, level)
    buffer.written = True
    if level.kind == NESTED:
        level.recorder.store(buffer, view, key, value, below)
        return 0
    t = tangents_of(value) if level_of(value) is level and not level.silent else None
    target = tangents_in(buffer, view)
    if level.depth > 0:
        store(<Buffer>buffer.under, view, key, below)
    else:
        view[Ellipsis if key is None else key] = below
    if key is None:
        aligned_set(target, 0.0 if t is None else t)
        return 0
    for j in range(level.k):        # per direction: with a leading axis some advanced keys would permute axes
        target[j][key] = 0.0 if t is None else t[j]
    return 0


cdef object gather_carried(ArrayVar x, cnp.ndarray view, object key, object y):
    """Read an array of a forward or nested level: one element if `key` is (), else those at an advanced index."""
    cdef Level level = x.buffer.level
    cdef ArrayVar source = array_var(x.buffer, view)
    if level.depth > 0:
        below = lower(source, level)
        y = (clean(below) if type(below) is ndarray and holds_var(key) else below)[key]
    if level.kind == NESTED:
        return level.recorder.gather(x.buffer, view, key, y)
    t = tangents_of(source)
    if type(key) is not tuple or len(key):
        t = np.stack([t[j][key] for j in range(level.k)]) if level.k else np.zeros((0, *np.shape(y)), dtype=y.dtype)
    return with_tangents(level, y, t)
