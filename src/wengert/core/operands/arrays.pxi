# `ArrayVar`, the operand that stands for an array, and its operators.

cdef bint has_sum_entry(ArrayVar x) except -1:
    """Return whether the sum of all elements bypasses the registry: it has its own tape entry and forward rule."""
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

    def __add__(left, right):
        return array_operator(WG_ADD, left, right)

    def __sub__(left, right):
        return array_operator(WG_SUBTRACT, left, right)

    def __mul__(left, right):
        return array_operator(WG_MULTIPLY, left, right)

    def __truediv__(left, right):
        return array_operator(WG_DIVIDE, left, right)

    def __pow__(left, right, modulo):
        return NotImplemented if modulo is not None else array_operator(WG_POW, left, right)

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

    def __matmul__(left, right):
        return methods.operate(np.matmul, matmul, left, right)

    def __mod__(left, right):
        return methods.operate(np.remainder, operator.mod, left, right)

    def __floordiv__(left, right):
        return methods.operate(np.floor_divide, operator.floordiv, left, right)

    def __divmod__(left, right):
        return left // right, left % right

    def __and__(left, right):
        return methods.operate(np.bitwise_and, operator.and_, left, right)

    def __iand__(self, other):
        return in_place(self, self.__and__(other))

    def __or__(left, right):
        return methods.operate(np.bitwise_or, operator.or_, left, right)

    def __ior__(self, other):
        return in_place(self, self.__or__(other))

    def __xor__(left, right):
        return methods.operate(np.bitwise_xor, operator.xor, left, right)

    def __ixor__(self, other):
        return in_place(self, self.__xor__(other))

    def __lshift__(left, right):
        return methods.operate(np.left_shift, operator.lshift, left, right)

    def __ilshift__(self, other):
        return in_place(self, self.__lshift__(other))

    def __rshift__(left, right):
        return methods.operate(np.right_shift, operator.rshift, left, right)

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
        return PyObject_RichCompare(self.v, plain(other), op)

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

    __trunc__ = truncated

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

    __array_ufunc__ = call_ufunc
    __array_function__ = call_function
    __array_namespace__ = namespace_of

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
        node = new_node(SUM, None)
        node.abuf = self.buffer
        node.a = view_descriptor(self.v, tape.recording)
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
wg_match_like(<PyTypeObject *>ArrayVar, <PyTypeObject *>np.ndarray)


cdef object part(ArrayVar x, str name):
    """Return the real or imaginary part; the part of an array is a view, and so are its tangents."""
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
    if has_instances:
        value = subclasses.stored(value)
    if not cnp.PyArray_ISCOMPLEX(target.v) and is_complex(value):
        raise TracedValueError(messages.complex_store_message(target.v.dtype))
    shape, own = np.shape(value), np.shape(target)
    if shape != own and np.broadcast_shapes(shape, own) != own:
        raise ValueError(f"non-broadcastable output operand with shape {own} doesn't match the broadcast shape {shape}")
    store(target.buffer, target.v, None, value)
    return target


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
