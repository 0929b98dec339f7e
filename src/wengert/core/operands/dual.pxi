# Forward mode at an outermost level: scalars with inline tangents, and arrays through the kernels of the tape sweep.

cdef enum:
    INLINE = 8                  # number of tangents stored in the object itself


@cython.final
@cython.no_gc
@cython.freelist(1024)
cdef class ScalarDual:
    """A dual number with k tangents; stands for a ``numpy.float64``."""

    def __init__(self, *args):
        raise TypeError("type(x)(...) cannot create a scalar from the class of traced scalars: use x.__class__(...), "
                        "which is numpy.float64")

    def __dealloc__(self):
        if self.t != self.few:
            PyMem_Free(self.t)

    def __add__(left, right):
        return dual_operator(WG_ADD, left, right)

    def __sub__(left, right):
        return dual_operator(WG_SUBTRACT, left, right)

    def __mul__(left, right):
        return dual_operator(WG_MULTIPLY, left, right)

    def __truediv__(left, right):
        return dual_operator(WG_DIVIDE, left, right)

    def __pow__(left, right, modulo):
        return NotImplemented if modulo is not None else dual_operator(WG_POW, left, right)

    def __neg__(self):
        return dual1(self, WG_NEGATIVE, -self.v)

    def __pos__(self):
        return dual1(self, WG_POSITIVE, self.v)

    def __abs__(self):
        return dual1(self, WG_ABSOLUTE, fabs(self.v))

    def __mod__(left, right):
        return methods.operate(np.remainder, operator.mod, left, right)

    def __floordiv__(left, right):
        return methods.operate(np.floor_divide, operator.floordiv, left, right)

    def __divmod__(left, right):
        return left // right, left % right

    def __richcmp__(self, other, int op):
        return compare_scalar(self, self.level, self.v, other, op)

    def __hash__(self):
        raise checks.refusal(self, messages.hash_message("scalar"))

    def __bool__(self):
        return self.v != 0.0

    # piecewise constant functions: plain results

    def __int__(self):
        return int(self.v)

    __trunc__ = truncated

    def __floor__(self):
        return operator.index(int(np.floor(self.v)))

    def __ceil__(self):
        return operator.index(int(np.ceil(self.v)))

    def __round__(self, digits=None):
        checks.note_rounding(self, digits)
        return round(float64(self.v), digits)

    # conversions that would lose the derivative

    def __float__(self):
        if scalar_has_ended(self) or frames.is_asserted():
            return self.v
        raise checks.refusal(self, messages.float_message())

    __complex__ = as_complex

    def __array__(self, dtype=None, copy=None):
        handed = matrices.array_for_scipy(self)
        if handed is not None:
            return handed
        if scalar_has_ended(self) or frames.is_asserted():
            return np.array(self.v, dtype=dtype)
        raise checks.refusal(self, messages.array_message())

    def __getbuffer__(self, Py_buffer *view, int flags):
        fill_buffer(self, view, flags)

    def __reduce__(self):
        raise checks.refusal(self, "a traced value cannot be pickled: pass wengert.stop_gradient(value)")

    __copy__ = itself
    __deepcopy__ = itself

    # other attributes of np.float64

    def __repr__(self):
        return checks.operand_text(self, repr(float64(self.v)))

    def __str__(self):
        return checks.operand_text(self, str(float64(self.v)))

    def __format__(self, spec):
        return checks.operand_text(self, format(float64(self.v), spec), spec)

    def __getitem__(self, key):
        if key is Ellipsis or (type(key) is tuple and not key):
            return self
        return as_array(self)[key]

    def __getattr__(self, name):
        return methods.scalar_attribute(self, name)

    @property
    def __class__(self):
        return ScalarDual if reveals_own_class(self, True) else float64

    shape = ()
    ndim = 0
    size = 1
    dtype = np.dtype(float64)
    T = property(itself)
    real = property(itself)
    __array_ufunc__ = call_ufunc
    __array_function__ = call_function
    __array_namespace__ = namespace_of


wg_not_a_sequence(<PyTypeObject *>ScalarDual)


cdef ScalarDual new_dual(Level level, double v):
    """Allocate a dual number; the caller writes its tangents."""
    cdef ScalarDual x = ScalarDual.__new__(ScalarDual)
    x.level = level
    x.v = v
    x.t = x.few
    if level.k > INLINE:
        x.t = <double *>PyMem_Malloc(level.k * sizeof(double))
        if x.t == NULL:
            raise MemoryError(f"no memory for {level.k} tangents")
    return x


cdef inline ScalarDual dual_result(Level level, double y, int op, double a, double b, double *ta, double *tb):
    cdef ScalarDual x = new_dual(level, y)
    if level.silent:
        memset(x.t, 0, level.k * sizeof(double))
    else:
        wg_dual(op, a, b, y, ta, tb, x.t, level.k)
    return x


cdef inline ScalarDual dual1(ScalarDual x, int op, double y):
    return dual_result(x.level, y, op, x.v, 0.0, x.t, NULL)


cdef inline ScalarDual dual2(ScalarDual x, ScalarDual o, int op, double y):
    return dual_result(x.level, y, op, x.v, o.v, x.t, o.t)


cdef inline ScalarDual dual_left_number(ScalarDual x, double b, int op, double y):
    return dual_result(x.level, y, op, x.v, b, x.t, NULL)


cdef inline ScalarDual dual_right_number(double a, ScalarDual x, int op, double y):
    return dual_result(x.level, y, op, a, x.v, NULL, x.t)


cdef inline object dual_left(ScalarDual x, object other, int op):
    """Compute ``x op other``."""
    cdef double b
    if type(other) is ScalarDual:
        if (<ScalarDual>other).level is x.level:
            return dual2(x, <ScalarDual>other, op, evaluate(op, x.v, (<ScalarDual>other).v))
    elif as_double(other, &b):
        return dual_left_number(x, b, op + 1, evaluate(op, x.v, b))
    return binary_operator(op, x, other)


cdef inline object dual_right(ScalarDual x, object other, int op):
    """Compute ``other op x``."""
    cdef double a
    if as_double(other, &a):
        return dual_right_number(a, x, op + 2, evaluate(op, a, x.v))
    return binary_operator(op, other, x)


cdef inline object dual_operator(int op, object left, object right):
    """Apply an operator with a `ScalarDual` on at least one side."""
    if type(left) is ScalarDual:
        return dual_left(<ScalarDual>left, right, op)
    return dual_right(<ScalarDual>right, left, op)


# ---- elements of arrays

cdef inline ScalarDual dual_element(Buffer buffer, char *place):
    cdef ScalarDual x = new_dual(buffer.level, (<double *>place)[0])
    cdef char *t = buffer.tangent + (place - buffer.low)
    cdef Py_ssize_t j
    for j in range(buffer.level.k):
        x.t[j] = 0.0 if buffer.level.silent else (<double *>(t + j * buffer.span))[0]
    return x


cdef inline int store_dual(Buffer buffer, char *place, ScalarDual x) except -1:
    cdef char *t = buffer.tangent + (place - buffer.low)
    cdef Py_ssize_t j
    for j in range(buffer.level.k):
        (<double *>(t + j * buffer.span))[0] = 0.0 if buffer.level.silent else x.t[j]
    (<double *>place)[0] = x.v
    buffer.written = True
    return 0


# ---- arrays

cdef int give_tangent(Buffer buffer, Level level) except -1:
    """Allocate zero tangents for an array of an outermost level."""
    cdef cnp.npy_intp size = max(1, level.k * buffer.span)
    cdef cnp.ndarray memory = <cnp.ndarray>cnp.PyArray_ZEROS(1, &size, cnp.NPY_UINT8, 0)
    buffer.tangent = <char *>cnp.PyArray_DATA(memory)
    buffer.tangent_owner = memory
    return 0


cdef cnp.ndarray tangent_view(Buffer buffer, cnp.ndarray view):
    """Return the tangents of a view at an outermost level: same offset and strides, after an axis of directions."""
    if buffer.level.k == 0:
        return <cnp.ndarray>np.zeros((0, *(<object>view).shape), dtype=view.dtype)
    return view_at(buffer.tangent + (<char *>cnp.PyArray_DATA(view) - buffer.low), buffer.tangent_owner, view,
                   buffer.level.k, buffer.span)


cdef cnp.ndarray empty_tangent(Level level, cnp.ndarray y):
    cdef cnp.npy_intp shape[65]
    shape[0] = level.k
    memcpy(&shape[1], cnp.PyArray_DIMS(y), cnp.PyArray_NDIM(y) * sizeof(cnp.npy_intp))
    return empty_array(cnp.PyArray_NDIM(y) + 1, shape)


cdef ArrayVar dual_array(Level level, cnp.ndarray y, cnp.ndarray t):
    """Return the operand for a contiguous array and its tangents, both of which own their memory."""
    cdef Buffer buffer = new_buffer(y, level)
    buffer.tangent = <char *>cnp.PyArray_DATA(t)
    buffer.tangent_owner = t
    return array_var(buffer, y)


cdef object dual(Level level, object y, object t):
    """Return the operand of an outermost level for a value and its tangents; None means zero tangents."""
    cdef cnp.ndarray array
    cdef ScalarDual x
    cdef ArrayVar operand
    if level.silent:
        t = None
    if type(y) is float64:
        x = new_dual(level, y)
        if t is None:
            memset(x.t, 0, level.k * sizeof(double))
        else:
            array = <cnp.ndarray>t if type(t) is ndarray else None
            if array is None or not is_vector(array) or cnp.PyArray_SIZE(array) != level.k:
                array = <cnp.ndarray>np.ascontiguousarray(np.broadcast_to(t, (level.k,)), dtype=float64)
            memcpy(x.t, cnp.PyArray_DATA(array), level.k * sizeof(double))
        return x
    scalar_like = not isinstance(y, ndarray)
    array = <cnp.ndarray>np.asarray(y)
    if not cnp.PyArray_IS_C_CONTIGUOUS(array) and 0 in (<object>array).strides:
        array = <cnp.ndarray>array.copy()
    if type(t) is ndarray and is_adoptable(array, <cnp.ndarray>t, level.k):
        operand = dual_array(level, array, <cnp.ndarray>t)
    else:
        operand = array_var(new_buffer(array, level), array)
        give_tangent(operand.buffer, level)
        if t is not None:
            aligned_set(tangent_view(operand.buffer, array), t)
    operand.scalar = scalar_like
    return operand


cdef bint is_adoptable(cnp.ndarray y, cnp.ndarray t, Py_ssize_t k):
    """Return whether the tangents own their memory and have the layout of `y`, so that they need no copy."""
    cdef int ndim = cnp.PyArray_NDIM(y)
    return (cnp.PyArray_IS_C_CONTIGUOUS(y) and cnp.PyArray_IS_C_CONTIGUOUS(t)
            and cnp.PyArray_CHKFLAGS(t, cnp.NPY_ARRAY_OWNDATA | cnp.NPY_ARRAY_WRITEABLE)
            and cnp.PyArray_TYPE(t) == cnp.PyArray_TYPE(y) and cnp.PyArray_ISNOTSWAPPED(t)
            and cnp.PyArray_NDIM(t) == ndim + 1 and cnp.PyArray_DIM(t, 0) == k
            and cnp.PyArray_CompareLists(cnp.PyArray_DIMS(t) + 1, cnp.PyArray_DIMS(y), ndim))


cdef object forward_unary(Kernel u, ArrayVar x):
    cdef Level level = x.buffer.level
    cdef cnp.ndarray y = <cnp.ndarray>u.array_value(x.v, None, 0.0, 0.0, False), t
    cdef Py_ssize_t n = cnp.PyArray_SIZE(y), j
    cdef char *g = x.buffer.tangent + (<char *>cnp.PyArray_DATA(x.v) - x.buffer.low)
    if not is_vector(x.v) or not is_vector(y) or level.silent:
        return dual(level, y, elementwise(
            u.row(), y, (x.v,), [(0, -1, tangent_view(x.buffer, x.v))]))
    t = empty_tangent(level, y)
    forward_side(u, 0, VECTORS, False, g, x.buffer.span, level.k, x.v, None, y, <double *>cnp.PyArray_DATA(x.v),
                 NULL, t)
    return dual_array(level, y, t)


cdef int forward_side(Kernel u, int side, int form, bint add, char *g, Py_ssize_t span, Py_ssize_t k, object a,
                      object b, cnp.ndarray y, const double *av, const double *bv, cnp.ndarray t) except -1:
    """Write the tangents of one operand times its partial to `t`, or add them if `add` is set."""
    cdef Py_ssize_t n = cnp.PyArray_SIZE(y), j
    cdef double *out = <double *>cnp.PyArray_DATA(t)
    cdef cnp.ndarray p
    if not is_cheap(u.opcode, n):
        p = <cnp.ndarray>np.asarray(partial(u.row(), side, y, (a,) if u.nin == 1 else (a, b)))
        if is_vector(p) and same_shape(p, y):
            for j in range(k):
                times_array(add, n, <double *>(g + j * span), <double *>cnp.PyArray_DATA(p), out + j * n)
            return 0
    for j in range(k):
        times_partial(form, u.opcode, side, add, n, <double *>(g + j * span), av, bv,
                      <double *>cnp.PyArray_DATA(y), out + j * n)
    return 0


cdef inline double *side_tangent(Side *side, Py_ssize_t j) noexcept:
    """Return a pointer to tangent `j` of an array."""
    cdef Buffer buffer = <Buffer>side.buffer
    return <double *>(buffer.tangent + j * buffer.span
                      + (<char *>cnp.PyArray_DATA(<cnp.ndarray>side.array) - buffer.low))


cdef int classify_dual_operand(object x, Side *side) except -1:
    """Classify an operand; return 0 if it needs the general path."""
    cdef ArrayVar v
    memset(side, 0, sizeof(Side))
    if type(x) is ArrayVar:
        v = <ArrayVar>x
        if not is_double(v.v) or cnp.PyArray_NDIM(v.v) == 0:
            return 0
        check_ended(v.buffer)
        side.array = <PyObject *>v.v
        if v.buffer.level is not None:
            if not is_forward(v.buffer):
                return 0
            side.owner = <PyObject *>v.buffer.level
            side.buffer = <PyObject *>v.buffer
        return 1
    if type(x) is ScalarDual:
        side.owner = <PyObject *>(<ScalarDual>x).level
        side.t = (<ScalarDual>x).t
        side.c = (<ScalarDual>x).v
        side.strong = True
        return 1
    return classify_constant(x, side)


cdef object forward_binary(Kernel u, object left, object right, object compute):
    """Apply a binary ufunc at an outermost forward level, with an array operand; return None if it cannot."""
    cdef Side sides[2]
    cdef Level level
    cdef cnp.ndarray y, t, a, b
    cdef const double *av
    cdef const double *bv
    cdef Py_ssize_t n, j
    cdef bint add = False, fast
    cdef int form, side
    cdef Side *s
    if not (classify_dual_operand(left, &sides[0]) and classify_dual_operand(right, &sides[1])):
        return None
    if sides[0].array == sides[1].array == NULL or sides[0].owner == sides[1].owner == NULL:
        return None
    if sides[0].owner != NULL and sides[1].owner != NULL and sides[0].owner != sides[1].owner:
        return None
    level = <Level>(sides[0].owner if sides[0].owner != NULL else sides[1].owner)
    a, b = array_of(&sides[0]), array_of(&sides[1])
    x, z = value_of_side(&sides[0]), value_of_side(&sides[1])
    if compute is None:
        y = <cnp.ndarray>u.array_value(a, b, sides[0].c, sides[1].c, sides[0].strong or sides[1].strong)
    else:
        y = <cnp.ndarray>compute(x, z)
    fast = (is_vector(y) and (a is None or (is_vector(a) and same_shape(a, y)))
            and (b is None or (is_vector(b) and same_shape(b, y))) and not level.silent)
    if not fast:
        sources = [(side, -1, tangents_of((left, right)[side])) for side in range(2) if sides[side].owner != NULL]
        return dual(level, y, elementwise(u.row(), y, (x, z), sources))
    form = VECTORS if a is not None and b is not None else SCALAR_RIGHT if a is not None else SCALAR_LEFT
    av = <double *>cnp.PyArray_DATA(a) if a is not None else &sides[0].c
    bv = <double *>cnp.PyArray_DATA(b) if b is not None else &sides[1].c
    n = cnp.PyArray_SIZE(y)
    t = empty_tangent(level, y)
    if sides[0].buffer != NULL and sides[1].buffer != NULL and is_cheap(u.opcode, n):
        for j in range(level.k):
            wg_push_vv(u.opcode, n, side_tangent(&sides[0], j), side_tangent(&sides[1], j), av, bv,
                       <double *>cnp.PyArray_DATA(y), <double *>cnp.PyArray_DATA(t) + j * n)
        return dual_array(level, y, t)
    for side in range(2):
        s = &sides[side]
        if s.owner == NULL:
            continue
        if s.array != NULL:
            forward_side(u, side, form, add, <char *>side_tangent(s, 0), (<Buffer>s.buffer).span, level.k, x, z, y,
                         av, bv, t)
        else:
            spread(partial(u.row(), side, y, (x, z)), s.t, level.k, n, add,
                   <double *>cnp.PyArray_DATA(t))
        add = True
    return dual_array(level, y, t)


cdef int spread(object partial, const double *t, Py_ssize_t k, Py_ssize_t n, bint add, double *out) except -1:
    """Write the tangents of a scalar operand times its partial to `out`, or add them if `add` is set."""
    cdef cnp.ndarray p = <cnp.ndarray>np.ascontiguousarray(partial, dtype=float64)
    cdef const double *pv = <double *>cnp.PyArray_DATA(p)
    cdef Py_ssize_t i, j, step = 1 if cnp.PyArray_SIZE(p) == n else 0
    cdef double q
    for j in range(k):
        for i in range(n):
            q = 0.0 if t[j] == 0.0 or pv[i * step] == 0.0 else t[j] * pv[i * step]
            out[j * n + i] = out[j * n + i] + q if add else q
    return 0


cdef object forward_sum(ArrayVar x):
    """Sum all elements of an array of an outermost level."""
    cdef Level level = x.buffer.level
    cdef char *place = x.buffer.tangent + (<char *>cnp.PyArray_DATA(x.v) - x.buffer.low)
    cdef ScalarDual total
    cdef Py_ssize_t j
    y = add_reduce(x.v, None)
    if not is_vector(x.v) or type(y) is not float64 or level.silent:
        t = tangent_view(x.buffer, x.v)
        return dual(level, y, add_reduce(t, tuple(range(1, t.ndim))) if t.ndim > 1 else t)
    total = new_dual(level, y)
    for j in range(level.k):
        total.t[j] = wg_sum(cnp.PyArray_SIZE(x.v), <double *>(place + j * x.buffer.span))
    return total
