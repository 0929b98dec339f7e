# Reads of array elements at an index, and stores, which save the values that they overwrite.

cdef bint is_basic(object key):
    """Return whether an index selects a view, as integers, slices, None and Ellipsis do."""
    if type(key) is tuple:
        for k in key:
            if not is_basic_part(k):
                return False
        return True
    return is_basic_part(key)


cdef inline bint is_basic_part(object k):
    return (PyLong_CheckExact(k) or type(k) is slice or k is None or k is Ellipsis
            or (type(k) is not ArrayVar and isinstance(k, np.integer)))


cdef object with_integers(object key):
    """Return an index with the integers of objects that define ``__index__``."""
    if type(key) is tuple:
        return tuple([with_integers(k) for k in key])
    is_other = is_basic_part(key) or is_var(key) or isinstance(key, (ndarray, np.generic, bool))
    return key if is_other or not PyIndex_Check(key) else operator.index(key)


cdef object stored_key(object key):
    """Copy an advanced index, since f may modify its arrays afterwards."""
    if type(key) is tuple:
        return tuple([stored_key(k) for k in key])
    if is_basic_part(key) or isinstance(key, (bool, np.bool)):
        return key
    if is_var(key):
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    key = np.array(key)
    return key.astype(np.intp) if key.size == 0 and key.dtype.kind == "f" else key


cdef char *place_of(cnp.ndarray v, object key) except? NULL:
    """Return the address of the double selected by integers, or NULL for any other key."""
    cdef char *place = cnp.PyArray_BYTES(v)
    cdef int d, ndim = cnp.PyArray_NDIM(v)
    if ndim == 0 or not is_double(v):
        return NULL
    if type(key) is not tuple:
        return place + offset(v, 0, key) if ndim == 1 and is_integer(key) else NULL
    if len(<tuple>key) != ndim:
        return NULL
    for d in range(ndim):
        k = (<tuple>key)[d]
        if not is_integer(k):
            return NULL
        place += offset(v, d, k)
    return place


cdef inline bint is_integer(object k):
    return PyLong_CheckExact(k) or PyObject_TypeCheck(k, <PyTypeObject *>np_integer)


cdef inline Py_ssize_t offset(cnp.ndarray v, int d, object k) except? -1:
    """Return the offset in bytes of index `k` along an axis."""
    cdef Py_ssize_t n = cnp.PyArray_DIM(v, d), i = PyNumber_AsSsize_t(k, IndexError)
    cdef Py_ssize_t j = i + n if i < 0 else i
    if j < 0 or j >= n:
        raise IndexError(f"index {i} is out of bounds for axis {d} with size {n}")
    return j * cnp.PyArray_STRIDE(v, d)


def watch_filled(places):
    """From now on, add the places of arrays that are filled with traced values to a set; None ends that.

    They are the places at which the arrays were made, as far as `note_origin` was told of them.
    """
    global filled_places, origins
    filled_places, origins = places, None if places is None else weakref.WeakKeyDictionary()


def note_origin(x, place):
    """Note the place at which an array was made, while `watch_filled` is in effect."""
    if filled_places is not None and (<ArrayVar?>x).buffer.level is None:
        origins.setdefault((<ArrayVar>x).buffer, place)


cdef int note_filled(Buffer buffer) except -1:
    """Note that the first traced value is about to be stored in a buffer."""
    cdef object places = filled_places      # another thread may end the watch
    place = None if origins is None else origins.get(buffer)
    if not (place is None or places is None):
        places.add(place)
    return 0


cdef bint activate(Buffer buffer, Level level) except -1:
    """Assign a clean buffer to the outermost level of a value about to be stored.

    Returns False if the buffer belongs to another, nested level, which needs the general path.
    """
    check_ended(buffer)
    if buffer.level is not None:
        if buffer.level is not level and buffer.level.depth == level.depth:
            if level.tape != NULL and buffer.level.tape == level.tape:
                raise LevelError(messages.outside_message(level))
            raise LevelError(mixed_message(buffer.level, level))
        return buffer.level is level
    if buffer.escaped is not None:
        raise TracedValueError(messages.escaped_message(buffer.escaped))
    if filled_places is not None:
        note_filled(buffer)
    if level.kind == REVERSE:
        if level.tape == NULL:
            raise LevelError(messages.ended_message(level))
        (<Tape>level.tape).roots.append(buffer)
    elif level.depth == 0:
        give_tangent(buffer, level)
    buffer.level = level
    return True


cdef inline int store_element(Tape tape, Buffer buffer, cnp.ndarray view, char *place, int32_t slot,
                              double c) except -1:
    cdef Py_ssize_t offset = (place - buffer.low) // <Py_ssize_t>sizeof(double)
    cdef int32_t number = tape.number(buffer, view)
    push(tape, WG_STORE, slot, <int32_t>offset, (<double *>place)[0])
    push(tape, WG_TARGET, number, 0, 0.0)
    tape.has_stores = True
    tape.version += 1
    buffer.written = True
    (<double *>place)[0] = c
    return 0


cdef tuple PLAIN_VALUES = (ndarray, np.generic, float, int, complex)


cdef int store(Buffer buffer, cnp.ndarray view, object key, object value) except -1:
    """Write a value into a view, or into elements of it at an advanced index, and update windows of the array."""
    write(buffer, view, key, value)
    if buffer.windows is not None:
        update_windows(buffer)
    return 0


def note_windows(x, places, windows):
    """Update `windows`, copies of the elements of `x` at `places`, after each later store into the memory of `x`.

    They then behave like the views that NumPy returns, except that they are read-only.
    """
    cdef Buffer buffer
    if type(x) is ArrayVar and type(windows) is ArrayVar:
        buffer = (<ArrayVar>x).buffer
        noted = [entry for entry in buffer.windows or () if entry[0]() is not None]
        view = (<object>(<ArrayVar>windows).v)[...]     # stays writeable if the caller's array does not
        buffer.windows = [*noted, (weakref.ref((<ArrayVar>windows).buffer), view, (<ArrayVar>x).v, places)]


cdef int update_windows(Buffer buffer) except -1:
    """Copy elements to the windows that are still in use."""
    cdef list noted = buffer.windows
    buffer.windows = None
    try:
        noted = [entry for entry in noted if entry[0]() is not None]
        for alive, view, source, places in noted:
            store(alive(), view, None, np.take(np.ravel(array_var(buffer, source)), places))
    finally:
        buffer.windows = noted or None
    return 0


cdef int write(Buffer buffer, cnp.ndarray view, object key, object value) except -1:
    """Write a value into a view, or into elements of it at an advanced index, and save the values it overwrites."""
    cdef Tape tape, source_tape = None
    cdef Node node
    cdef Level level
    cdef tuple source = None
    cdef bint is_first
    if (buffer.level is not None and buffer.level.tape == NULL and not buffer.level.live and key is None
            and <Py_ssize_t>cnp.PyArray_NBYTES(view) == buffer.span):
        return_to_outer(buffer)           # a work array of an ended derivative is overwritten as a whole
    if has_instances:
        value = instances.unwrapped(value)
    if not is_var(value) and not isinstance(value, PLAIN_VALUES):
        value = dispatch.mixed.read_number(dispatch.mixed.read_object(value))
    if isinstance(value, (list, tuple)):
        value = dispatch.stacked(value)
    value = as_numpy(value)
    tape = tape_of(buffer)
    level = inner(active_level(buffer.level), level_of(value))
    if level is not None and (cnp.PyArray_ISCOMPLEX(view) or (type(value) is ArrayVar and is_complex(value))):
        note_complex(level)
        if not cnp.PyArray_ISCOMPLEX(view):
            raise TracedValueError(messages.complex_store_message(view.dtype))
    if level is not None and level.kind != REVERSE:
        return store_carried(level, buffer, view, key, value)
    if recordings and view.dtype.kind in "biu" and np.ndim(value) and is_traced(value) and not is_passive(value):
        raise TracedValueError(messages.assignment_message(f"an array of {view.dtype}"))
    if type(value) is ScalarVar:
        source_tape = current((<ScalarVar>value).tape)
        source = (0, -1, None, None, (<ScalarVar>value).slot)
        plain = (<ScalarVar>value).v
    elif type(value) is ArrayVar:
        plain = (<ArrayVar>value).v
        source_tape = tape_of((<ArrayVar>value).buffer)
        if source_tape is not None:
            source = (0, -1, (<ArrayVar>value).buffer, view_descriptor(<cnp.ndarray>plain), -1)
    else:
        plain = value
    place = Ellipsis if key is None else key
    if tape is None and source_tape is None:
        view[place] = plain
        return 0
    tape = common_tape(tape, source_tape)
    if tape.is_full:
        tape.flush()
    is_first = buffer.level is None
    activate(buffer, tape.level)
    node = new_node(STORE, None)
    node.is_first = is_first
    node.out = buffer
    node.y = view
    node.key = key
    node.sources = [] if source is None else [source]
    if source is not None and source[2] is not None and np.ndim(view[place]) < np.ndim(plain):
        # NumPy drops leading axes of length 1 from the assigned value, so its adjoint must have them dropped too
        plain = plain.reshape(np.shape(plain)[np.ndim(plain) - np.ndim(view[place]):])
        node.sources = [(0, -1, source[2], view_descriptor(<cnp.ndarray>plain), -1)]
    saved = view[place].copy()
    view[place] = plain
    node.saved = saved
    if key is not None and source is not None:
        won = last_written(view, key)
        if won is not None:
            node.args = (won,)
    buffer.written = True
    tape.add_node(node, 0.0)
    return 0


cdef object last_written(cnp.ndarray view, object key):
    """Return a mask of the writes that survive when an advanced index repeats an element; None without repeats."""
    ids = np.zeros((<object>view).shape, dtype=np.intp)
    count = np.arange(ids[key].size).reshape(ids[key].shape)
    ids[key] = count
    won = ids[key] == count
    return None if won.all() else won


cdef object get_item(ArrayVar x, object key):
    cdef Tape tape
    cdef cnp.ndarray view
    cdef Py_ssize_t offset
    cdef Node node
    if x.scalar:
        return x if key is Ellipsis or (type(key) is tuple and len(key) == 0) else as_array(x)[key]
    if is_basic(key) or is_basic(key := with_integers(key)):
        y = x.v[key]
        if type(y) is ndarray:
            return array_var(x.buffer, <cnp.ndarray>y)
        # a single element: NumPy returns a scalar, which is a copy
        tape = tape_of(x.buffer)
        if x.buffer.level is None:
            return y
        view = <cnp.ndarray>x.v[(*key, Ellipsis) if type(key) is tuple else (key, Ellipsis)]
        if tape is not None and type(y) is float64:
            offset = (<char *>cnp.PyArray_DATA(view) - x.buffer.low) // <Py_ssize_t>sizeof(double)
            return scalar(tape, load(tape, tape.number(x.buffer, view), offset, y), y)
        key = ()
    else:
        if recordings and holds_var(key):
            return get_recorded(x, key)
        tape = tape_of(x.buffer)
        view = x.v
        key = stored_key(key)
        y = view[key]
        if x.buffer.level is None:
            return clean(y) if isinstance(y, ndarray) else y
    if tape is None:
        return gather_carried(x, view, key, y)
    node = new_node(GATHER, dispatch.getitem_row)
    node.key = key
    node.sources = [(0, -1, x.buffer, view_descriptor(view, tape.recording), -1)]
    found = result(tape, node, y)
    if tape.recording and node.y is not None:
        node.y = view_descriptor(node.y, True)
    return found


cdef int set_item(ArrayVar x, object key, object value) except -1:
    cdef cnp.ndarray view
    if x.scalar:
        raise TypeError(f"'{type(x.v[()]).__name__}' object does not support item assignment")
    if recordings and holds_var(key):
        if is_mask(key) and np.shape(key) == np.shape(x) and np.ndim(value) == 0:
            return store(x.buffer, x.v, None, np.where(key, value, x))
        key = observed(key)
    if not is_basic(key) and not is_basic(key := with_integers(key)):
        if cnp.PyArray_NDIM(x.v) == 0:      # a 0-d mask selects everything or nothing
            if not x.v[key].size:
                return 0
            return store(x.buffer, x.v, None, np.reshape(value, ()) if np.ndim(value) else value)
        if type(key) is ndarray and cnp.PyArray_ISBOOL(key) and cnp.PyArray_NDIM(key) == cnp.PyArray_NDIM(x.v):
            checks.refuse_overlap(x, key, value, "a store at a mask")
        return store(x.buffer, x.v, stored_key(key), value)
    y = x.v[key]
    if type(y) is ndarray:
        view = <cnp.ndarray>y
    else:
        view = <cnp.ndarray>x.v[(*key, Ellipsis) if type(key) is tuple else (key, Ellipsis)]
    if type(value) is ArrayVar and is_same_view((<ArrayVar>value), x.buffer, view):
        return 0            # x[i] += y has already stored in place, then assigns the view to itself
    if type(value) is ArrayVar and (<ArrayVar>value).buffer is x.buffer and PyLong_CheckExact(key):
        checks.check_row_store(x)
    return store(x.buffer, view, None, value)


cdef bint is_same_view(ArrayVar value, Buffer buffer, cnp.ndarray view):
    return (value.buffer is buffer and cnp.PyArray_DATA(value.v) == cnp.PyArray_DATA(view)
            and same_shape(value.v, view) and cnp.PyArray_CompareLists(
                cnp.PyArray_STRIDES(value.v), cnp.PyArray_STRIDES(view), cnp.PyArray_NDIM(view)))
