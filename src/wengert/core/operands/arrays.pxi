# `ArrayVar`: indexing, views, and stores, which save the values they overwrite.

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


cdef bint has_sum_entry(ArrayVar x) except -1:
    """Return whether the sum of all elements is recorded by an entry of its own, without the registry."""
    if not is_live(x.buffer) or not is_double(x.v):
        return False
    return tape_of(x.buffer) is not None or is_forward(x.buffer)


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class ArrayVar:
    """A traced array, or a clean one that may become traced; stands for an ``ndarray``."""

    def __init__(self, *args):
        raise TypeError("type(x)(...) cannot create an array from the class of traced arrays: use numpy.empty(shape)")

    # -- operators

    def __add__(self, other):
        return array_operator(WG_ADD, self, other)

    def __radd__(self, other):
        return array_operator(WG_ADD, other, self)

    def __sub__(self, other):
        return array_operator(WG_SUBTRACT, self, other)

    def __rsub__(self, other):
        return array_operator(WG_SUBTRACT, other, self)

    def __mul__(self, other):
        return array_operator(WG_MULTIPLY, self, other)

    def __rmul__(self, other):
        return array_operator(WG_MULTIPLY, other, self)

    def __truediv__(self, other):
        return array_operator(WG_DIVIDE, self, other)

    def __rtruediv__(self, other):
        return array_operator(WG_DIVIDE, other, self)

    def __pow__(self, other, modulo):
        if modulo is not None:
            return NotImplemented
        return array_operator(WG_POW, self, other)

    def __rpow__(self, other, modulo):
        if modulo is not None:
            return NotImplemented
        return array_operator(WG_POW, other, self)

    def __iadd__(self, other):
        return in_place(self, self.__add__(other))

    def __isub__(self, other):
        return in_place(self, self.__sub__(other))

    def __imul__(self, other):
        return in_place(self, self.__mul__(other))

    def __itruediv__(self, other):
        return in_place(self, self.__truediv__(other))

    def __ipow__(self, other):
        return in_place(self, array_operator(WG_POW, self, other))

    def __imod__(self, other):
        return in_place(self, self.__mod__(other))

    def __ifloordiv__(self, other):
        return in_place(self, self.__floordiv__(other))

    def __imatmul__(self, other):
        return in_place(self, self.__matmul__(other))

    def __neg__(self):
        return unary(<Kernel>by_opcode[WG_NEGATIVE], self)

    def __pos__(self):
        return unary(<Kernel>by_opcode[WG_POSITIVE], self)

    def __abs__(self):
        if self.scalar and cnp.PyArray_ISCOMPLEX(self.v):       # abs() rounds differently from the ufunc
            return dispatch.ufunc(np.absolute, "__call__", (self,), {}, operator.abs)
        return unary(<Kernel>by_opcode[WG_ABSOLUTE], self)

    def __matmul__(self, other):
        return methods.operate(np.matmul, matmul, self, other)

    def __rmatmul__(self, other):
        return methods.operate(np.matmul, matmul, other, self)

    def __mod__(self, other):
        return methods.operate(np.remainder, operator.mod, self, other)

    def __rmod__(self, other):
        return methods.operate(np.remainder, operator.mod, other, self)

    def __floordiv__(self, other):
        return methods.operate(np.floor_divide, operator.floordiv, self, other)

    def __rfloordiv__(self, other):
        return methods.operate(np.floor_divide, operator.floordiv, other, self)

    def __divmod__(self, other):
        return self // other, self % other

    def __rdivmod__(self, other):
        return other // self, other % self

    def __and__(self, other):
        return methods.operate(np.bitwise_and, operator.and_, self, other)

    def __rand__(self, other):
        return methods.operate(np.bitwise_and, operator.and_, other, self)

    def __iand__(self, other):
        return in_place(self, self.__and__(other))

    def __or__(self, other):
        return methods.operate(np.bitwise_or, operator.or_, self, other)

    def __ror__(self, other):
        return methods.operate(np.bitwise_or, operator.or_, other, self)

    def __ior__(self, other):
        return in_place(self, self.__or__(other))

    def __xor__(self, other):
        return methods.operate(np.bitwise_xor, operator.xor, self, other)

    def __rxor__(self, other):
        return methods.operate(np.bitwise_xor, operator.xor, other, self)

    def __ixor__(self, other):
        return in_place(self, self.__xor__(other))

    def __lshift__(self, other):
        return methods.operate(np.left_shift, operator.lshift, self, other)

    def __rlshift__(self, other):
        return methods.operate(np.left_shift, operator.lshift, other, self)

    def __ilshift__(self, other):
        return in_place(self, self.__lshift__(other))

    def __rshift__(self, other):
        return methods.operate(np.right_shift, operator.rshift, self, other)

    def __rrshift__(self, other):
        return methods.operate(np.right_shift, operator.rshift, other, self)

    def __irshift__(self, other):
        return in_place(self, self.__rshift__(other))

    def __invert__(self):
        return dispatch.function(np.invert, (self,), {}, operator.invert)

    def __richcmp__(self, other, int op):
        if recordings:
            return compare_recorded(self, other, op)
        if op != Py_EQ and op != Py_NE:
            watch_comparison(self, other)
        else:
            checks.note_match(self, other)
        return compare(self.v, plain(other), op)

    def __hash__(self):
        if self.scalar:
            if is_passive(self):
                return hash(observed(self))
            raise checks.refusal(self, messages.hash_message("scalar"))
        raise TypeError("unhashable type: 'numpy.ndarray'")

    # -- elements and views

    def __len__(self):
        return len(self.v)

    def __iter__(self):
        if cnp.PyArray_NDIM(self.v) == 0:
            raise TypeError("iteration over a 0-d array")
        if recordings and is_discrete(self):
            return iter(observed(self))
        return PySeqIter_New(self)

    def __contains__(self, item):
        if recordings:
            return bool(np.any(self == item))
        return plain(item) in self.v

    def __getitem__(self, key):
        cdef char *place = place_of(self.v, key)
        cdef double value
        cdef Tape tape
        cdef int32_t slot
        cdef Buffer buffer = self.buffer
        if place == NULL:
            return get_item(self, key)
        value = (<double *>place)[0]
        tape = tape_of(buffer)
        if tape is None:
            if buffer.level is None:
                return float64(value)
            if is_forward(buffer):
                return dual_element(buffer, place)
            return get_item(self, key)
        slot = load(tape, buffer.id if buffer.id >= 0 else tape.number(buffer, self.v),
                    (place - buffer.low) // <Py_ssize_t>sizeof(double), value)
        return scalar(tape, slot, value)

    def __setitem__(self, key, value):
        cdef double c
        cdef ScalarVar s
        cdef Tape tape
        cdef char *place = place_of(self.v, key)
        if place != NULL and cnp.PyArray_ISWRITEABLE(self.v) and self.buffer.windows is None:
            if type(value) is ScalarVar:
                s = <ScalarVar>value
                if self.buffer.level is s.tape.level:
                    store_element(s.tape, self.buffer, self.v, place, s.slot, s.v)
                    return
                tape = current(s.tape)
                if activate(self.buffer, tape.level):
                    store_element(tape, self.buffer, self.v, place, s.slot, s.v)
                    return
            elif type(value) is ScalarDual:
                if self.buffer.level is (<ScalarDual>value).level or activate(self.buffer, (<ScalarDual>value).level):
                    store_dual(self.buffer, place, <ScalarDual>value)
                    return
            elif as_double(value, &c):
                tape = tape_of(self.buffer)
                if tape is not None:
                    if tape.head is not None:
                        activate(self.buffer, tape.level)
                    store_element(tape, self.buffer, self.v, place, -1, c)
                    return
                if self.buffer.level is None:
                    (<double *>place)[0] = c
                    return
            elif type(value) is FloatVar:
                self[key] = (<FloatVar>value).x
                return
        set_item(self, key, value)

    # -- conversions that would lose the derivative

    def __array__(self, dtype=None, copy=None):
        handed = matrices.array_for_scipy(self)
        return escaping_array(self, dtype, copy) if handed is None else handed

    def __getbuffer__(self, Py_buffer *view, int flags):
        fill_buffer(self, view, flags)

    def __dlpack__(self, **kwargs):
        return escaping_array(self, None, None).__dlpack__(**kwargs)

    def __dlpack_device__(self):
        return self.v.__dlpack_device__()

    def __float__(self):
        if not is_live(self.buffer):
            return float(self.v)
        if is_passive(self) or frames.is_asserted():
            return float(observed(self))
        raise checks.refusal(self, messages.float_message())

    def __complex__(self):
        return complex(self.v) if not is_live(self.buffer) else complex(float(self))

    def __index__(self):
        if self.v.dtype.kind not in "iu" or cnp.PyArray_NDIM(self.v) > 0:
            raise TypeError("only integer scalar arrays can be converted to a scalar index")
        return operator.index(observed(self))

    def __int__(self):
        return int(rounded_value(self, np.trunc))

    def __round__(self, digits=None):
        return rounded(self, digits)

    def __trunc__(self):
        return int(self)

    def __floor__(self):
        return int(rounded_value(self, np.floor))

    def __ceil__(self):
        return int(rounded_value(self, np.ceil))

    def __bool__(self):
        return as_bool(self) if recordings else bool(self.v)

    def __reduce__(self):
        if not is_live(self.buffer):
            return self.v.__reduce__()
        if is_passive(self):
            return observed(self).__reduce__()
        raise checks.refusal(self, "a traced array cannot be pickled: pass wengert.stop_gradient(array)")

    def __copy__(self):
        return self if self.scalar else dispatch.function(np.copy, (self,), {})

    def __deepcopy__(self, memo):
        return self.__copy__()

    # -- other attributes of ndarray

    def __repr__(self):
        return checks.operand_text(self, repr(observed(self) if recordings else self.v))

    def __str__(self):
        return checks.operand_text(self, str(observed(self) if recordings else self.v))

    def __format__(self, spec):
        value = observed(self) if recordings else self.v
        return checks.operand_text(self, format(value[()] if self.v.ndim == 0 else value, spec), spec)

    def __array_ufunc__(self, ufunc, method, x0, x1=None, *rest, out=None, where=True, **kwargs):
        return array_ufunc(ufunc, method, x0, x1, rest, out, where, kwargs)

    def __array_namespace__(self, *, api_version=None):
        return methods.array_namespace(self, api_version)

    def __array_function__(self, function, types, args, kwargs):
        return dispatch.function(function, args, kwargs)

    def __getattr__(self, name):
        return methods.scalar_attribute(self, name) if self.scalar else methods.array_attribute(self, name)

    def sum(self, *args, **kwargs):
        """Return the sum; the sum of all elements of a float64 array has its own kind of tape entry."""
        cdef Node node
        if args or kwargs or not has_sum_entry(self):
            return dispatch.function(np_sum, (self, *args), kwargs)
        tape = tape_of(self.buffer)
        if tape is None:
            return forward_sum(self)
        node = Node.__new__(Node)
        node.kind = SUM
        node.abuf = self.buffer
        node.a = view_descriptor(self.v, tape.recording)
        node.aslot = node.bslot = -1
        return result(tape, node, add_reduce(self.v, None))

    @property
    def __class__(self):
        if reveals_own_class(self, self.scalar):
            return ArrayVar
        return type(self.v[()]) if self.scalar else ndarray

    @property
    def shape(self):
        return (<object>self.v).shape

    @shape.setter
    def shape(self, shape):
        view = self.v.view()
        view.shape = shape
        self.v = view

    @property
    def ndim(self):
        return cnp.PyArray_NDIM(self.v)

    @property
    def size(self):
        return cnp.PyArray_SIZE(self.v)

    @property
    def dtype(self):
        return (<object>self.v).dtype

    @property
    def flat(self):
        return methods.Flat(as_array(self) if self.scalar else self)

    @flat.setter
    def flat(self, value):
        self.flat[:] = value

    @property
    def T(self):
        return self if self.scalar else array_var(self.buffer, <cnp.ndarray>(<object>self.v).T)

    @property
    def real(self):
        return part(self, "real") if cnp.PyArray_ISCOMPLEX(self.v) else self

    @real.setter
    def real(self, value):
        self.real[...] = value

    @property
    def imag(self):
        return part(self, "imag") if cnp.PyArray_ISCOMPLEX(self.v) else np.imag(value_of(self))

    @imag.setter
    def imag(self, value):
        if not cnp.PyArray_ISCOMPLEX(self.v):
            raise TypeError("cannot set imaginary part of real array")
        self.imag[...] = value


wg_not_hashable(<PyTypeObject *>ArrayVar)


cdef object part(ArrayVar x, str name):
    """Return the real or imaginary part; for an array a view, whose tangents are views of its tangents."""
    cdef Level level = level_of(x)
    cdef ArrayVar view = array_var(x.buffer, <cnp.ndarray>getattr(x.v, name))
    if not x.scalar:
        return view
    if level is None or level.depth == 0:
        return get_item(view, ())
    value = getattr(lower(x, level), name)
    if level.kind == NESTED:
        return level.recorder.gather(x.buffer, view.v, (), value)
    return with_tangents(level, value, getattr(tangents_of(x), name).copy())


def matmul(a, b):
    """Return ``a @ b``; the product of two float64 matrices takes memory from the pool."""
    if (type(a) is ndarray and type(b) is ndarray and cnp.PyArray_NDIM(a) == 2 and cnp.PyArray_NDIM(b) == 2
            and is_double(a) and is_double(b)):
        return np.matmul(a, b, out=empty((len(a), b.shape[1])))
    return a @ b


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


cdef object array_operator(int op, object left, object right):
    other = right if type(left) is ArrayVar else left
    if type(other) is FloatVar:
        if op == WG_POW and other is right:
            other = exponent(<FloatVar>other)
        other = promoted_with(other, right if other is left else left)
        left, right = (other, right) if type(right) is ArrayVar else (left, other)
    if not isinstance(other, (ndarray, list, tuple, np.generic, int, float, complex)):
        return matrices.operate((<Kernel>by_opcode[op]).ufunc, left, right)
    if is_subclass(other) and subclasses.is_handled((other,)):
        return subclasses.operate((<Kernel>by_opcode[op]).ufunc, left, right)
    if op == WG_POW:
        return power(left, right)
    return binary_any(<Kernel>by_opcode[op], left, right, True)


cdef inline bint is_subclass(object x):
    """Return whether `x` is an instance of a proper subclass of `ndarray`, traced or not."""
    return type(x) is not ndarray and PyObject_TypeCheck(x, <PyTypeObject *>ndarray)


cdef object in_place(ArrayVar target, object value):
    """Store the result of an augmented assignment."""
    if value is NotImplemented or target.scalar:
        return value
    if instances:
        value = subclasses.stored(value)
    if not cnp.PyArray_ISCOMPLEX(target.v) and is_complex(value):
        raise TracedValueError(messages.complex_store_message(target.v.dtype))
    if np.shape(value) != np.shape(target):
        np.broadcast_shapes(np.shape(value), np.shape(target))
        if np.broadcast_shapes(np.shape(value), np.shape(target)) != np.shape(target):
            raise ValueError(f"non-broadcastable output operand with shape {np.shape(target)} doesn't match the "
                             f"broadcast shape {np.shape(value)}")
    store(target.buffer, target.v, None, value)
    return target


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
    """Write a value into a view, or at an advanced index of it, and into windows of the array."""
    write(buffer, view, key, value)
    if buffer.windows is not None:
        update_windows(buffer)
    return 0


def note_windows(x, places, windows):
    """Let `windows`, copies of the elements at `places` of `x`, follow later stores into the memory of `x`.

    So they are views, as those of NumPy are, except that they cannot be written to.
    """
    cdef Buffer buffer
    if type(x) is ArrayVar and type(windows) is ArrayVar:
        buffer = (<ArrayVar>x).buffer
        noted = [entry for entry in buffer.windows or () if entry[0]() is not None]
        view = (<object>(<ArrayVar>windows).v)[...]     # of which the caller cannot make a read-only array
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
    """Write a value into a view, or at an advanced index of it, and save the values it overwrites."""
    cdef Tape tape, source_tape = None
    cdef Node node
    cdef Level level
    cdef tuple source = None
    cdef bint is_first
    if (buffer.level is not None and buffer.level.tape == NULL and not buffer.level.live and key is None
            and <Py_ssize_t>cnp.PyArray_NBYTES(view) == buffer.span):
        return_to_outer(buffer)           # a work array of an ended derivative is overwritten as a whole
    if instances:
        value = subclasses.unwrapped(value)
    if not is_var(value) and not isinstance(value, PLAIN_VALUES):
        value = dispatch.mixed.read_object(value)
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
    node = Node.__new__(Node)
    node.kind = STORE
    node.is_first = is_first
    node.out = buffer
    node.y = view
    node.key = key
    node.aslot = node.bslot = -1
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
    if is_basic(key):
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
    node = Node.__new__(Node)
    node.kind = GATHER
    node.row = dispatch.getitem_row
    node.key = key
    node.aslot = node.bslot = -1
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
    if not is_basic(key):
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
    cdef int d
    if (value.buffer is not buffer or cnp.PyArray_DATA(value.v) != cnp.PyArray_DATA(view)
            or cnp.PyArray_NDIM(value.v) != cnp.PyArray_NDIM(view)):
        return False
    for d in range(cnp.PyArray_NDIM(view)):
        if (cnp.PyArray_DIM(value.v, d) != cnp.PyArray_DIM(view, d)
                or cnp.PyArray_STRIDE(value.v, d) != cnp.PyArray_STRIDE(view, d)):
            return False
    return True


cdef object escaping_array(ArrayVar x, object dtype, object copy):
    """Return the ndarray of a clean array and mark it as escaped, since NumPy or C code may keep a reference."""
    if is_live(x.buffer):
        check_ended(x.buffer)            # raises if its derivative has ended
        if is_passive(x) or frames.is_asserted():
            return np.array(observed(x), dtype=dtype)
        if copy is None and messages.calls_for_array():
            return x if dtype is None else x.astype(dtype)
        raise checks.refusal(x, messages.array_message())
    if copy or (dtype is not None and dtype != x.v.dtype):
        return np.array(x.v, dtype=dtype, copy=True)
    if x.buffer.escaped is None:
        x.buffer.escaped = frames.caller()
    return x.v
