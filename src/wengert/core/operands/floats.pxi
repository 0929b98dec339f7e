# Traced Python floats, with the semantics of Python's operators instead of NumPy's.
#
# They are the float inputs of a recording and, in any derivative, the results of `float` and `math`. Operators on
# Python floats and ints return a Python float, comparisons a plain bool. They raise or return a complex number where
# Python does; a recording ends there instead, by a guard or `levels.end_recording`. Combined with operands, NumPy
# scalars and arrays, a Python float follows NumPy's promotion: float32 stays float32.

cdef extern from "float.h":
    double DBL_MAX

cdef long long EXACT = 1 << 53      # integers up to this magnitude are exact doubles

cdef tuple POWERS = (2.0, 0.5, -1.0, 1.0, 0.0)      # exponents for which ** on arrays does not call ``np.power``


cdef inline bint is_python(object x):
    """Return whether `x` is a Python number, traced or not."""
    return type(x) is FloatVar or type(x) is float or PyLong_Check(x)


cdef bint holds_floats = False      # has a traced Python float ever been made?


cpdef bint may_hold_floats() noexcept:
    """Return whether traced Python floats may occur."""
    return holds_floats


cpdef object float_of(x):
    """Convert a traced float64 scalar to a traced Python float; return other values unchanged."""
    if not is_scalar_var(x) and not (type(x) is ArrayVar and (<ArrayVar>x).scalar and is_double((<ArrayVar>x).v)):
        return x
    return given_float(+x if is_input(x) else x)


cdef bint is_input(object x):
    """Return whether a scalar is an input of a recording."""
    if type(x) is not ScalarVar or not (<ScalarVar>x).tape.recording:
        return False
    return (<ScalarVar>x).tape.entries.op[(<ScalarVar>x).slot] == WG_INPUT


cpdef object given_float(x):
    """Wrap a traced scalar as a traced Python float; an input of a recording stays one, unlike in `float_of`."""
    global holds_floats
    cdef FloatVar y
    holds_floats = True
    y = FloatVar.__new__(FloatVar)
    y.x = x
    return y


cpdef object as_numpy(x):
    """Convert a traced Python float to a traced NumPy scalar; return other values unchanged."""
    return (<FloatVar>x).x if type(x) is FloatVar else x


cpdef bint holds_float(x):
    """Return whether `x` is a traced Python float or a list or tuple that holds one at any depth."""
    if type(x) is list or type(x) is tuple:
        for item in x:
            if holds_float(item):
                return True
    return type(x) is FloatVar


cdef tuple COMPARISONS = ("__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__")     # by CPython's number


cdef bint compares_as_float(object x, int op):
    """Return whether `x` is a float, perhaps of a subclass, whose class does not override the comparison `op`."""
    if not PyFloat_Check(x) or isinstance(x, np.generic):
        return False
    name = COMPARISONS[op]
    return getattr(type(x), name) is getattr(float, name)


cdef object promoted_with(object x, object other):
    """Convert a traced Python float to a scalar of the precision that promotion with `other` gives it."""
    if type(x) is not FloatVar:
        return x
    dtype = None if is_python(other) else getattr(other, "dtype", None)
    return (<FloatVar>x).x if dtype is None else arguments.promoted_float((<FloatVar>x).x, dtype)


cdef bint is_zero(object x) except -1:
    """Return whether a divisor is 0; a traced one leaves a guard."""
    return not as_bool((<FloatVar>x).x) if type(x) is FloatVar else not x


cdef object float_operator(int op, object left, object right):
    """Apply an operator with a traced Python float on at least one side."""
    cdef object other = right if type(left) is FloatVar else left
    if not is_python(other):
        return mixed_float_operator((<Kernel>by_opcode[op]).ufunc, left, right, op)
    if op == WG_DIVIDE and is_zero(right):
        return value_of(left) / value_of(right)         # raises Python's error
    if op == WG_POW:
        return float_power(left, right)
    return float_of(apply_operator(op, as_numpy(left), as_numpy(right)))


cdef object float_power(object left, object right):
    """Apply ``**`` as Python does: it may raise, and the power of a negative number may be complex."""
    cdef object value
    if not recordings:
        value = value_of(left) ** value_of(right)
        if type(value) is complex:
            return dispatch.ufunc(np.power, "__call__", (complex_of(left), as_numpy(right)), {}, operator.pow)
    y = apply_operator(WG_POW, as_numpy(left), as_numpy(right))
    check_finite(y, "{!r} ** {!r}", left, right)
    return float_of(y)


cdef object complex_of(object x):
    """Convert a real scalar to a complex one."""
    return as_numpy(x).astype(complex) if is_var(x) else np.complex128(x)


cpdef int check_finite(y, str text, left, right=None) except -1:
    """On a recording tape, guard that a result is finite; where it is not, Python would raise."""
    cdef double v
    if not recordings or recording_level(y) is None:
        return 0
    v = abs(value_of(y))
    if not (v <= DBL_MAX and observed(np.absolute(grounded(y)) <= DBL_MAX)):
        levels.end_recording(f"{text.format(value_of(left), value_of(right))} is not finite")
    return 0


cdef object mixed_float_operator(object fun, object left, object right, int op=-1, object compute=None):
    """Apply an operator whose other operand is not a Python number."""
    other = right if type(left) is FloatVar else left
    if isinstance(other, (list, tuple)):
        return NotImplemented
    if not (is_var(other) or isinstance(other, (ndarray, np.generic, complex))):
        return matrices.operate(fun, as_numpy(left), as_numpy(right))
    left, right = promoted_with(left, right), promoted_with(right, left)
    return apply_operator(op, left, right) if op >= 0 else compute(left, right)


cdef object exponent(FloatVar x):
    """Return the exponent of an array; an input in `POWERS`, for which ``**`` avoids ``np.power``, as a plain float."""
    if not is_input(x.x):       # a computed exponent has a derivative, which a constant would lose
        return x
    for c in POWERS:
        if x == c:
            return c
    return x


cdef object float_remainder(object fun, object compute, object left, object right):
    """Apply ``%`` or ``//``."""
    if not is_python(right if type(left) is FloatVar else left):
        return mixed_float_operator(fun, left, right, -1, compute)
    if is_zero(right):
        return compute(value_of(left), value_of(right))
    return float_of(methods.operate(fun, compute, as_numpy(left), as_numpy(right)))


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class FloatVar:
    """A traced scalar that stands for a Python ``float``."""

    def __init__(self, *args):
        raise TypeError("type(x)(...) cannot create a float from the class of traced floats: use x.__class__(...), "
                        "which is float")

    def __add__(left, right):
        return float_operator(WG_ADD, left, right)

    def __sub__(left, right):
        return float_operator(WG_SUBTRACT, left, right)

    def __mul__(left, right):
        return float_operator(WG_MULTIPLY, left, right)

    def __truediv__(left, right):
        return float_operator(WG_DIVIDE, left, right)

    def __pow__(left, right, modulo):
        return NotImplemented if modulo is not None else float_operator(WG_POW, left, right)

    def __mod__(left, right):
        return float_remainder(np.remainder, operator.mod, left, right)

    def __floordiv__(left, right):
        return float_remainder(np.floor_divide, operator.floordiv, left, right)

    def __divmod__(left, right):
        return left // right, left % right

    def __neg__(self):
        return float_of(-self.x)

    def __pos__(self):
        return self

    def __abs__(self):
        return float_of(abs(self.x))

    def __richcmp__(self, other, int op):
        if not is_python(other) and compares_as_float(other, op):
            other = float.__float__(other)
        if not is_python(other):
            if not (is_var(other) or isinstance(other, (ndarray, np.generic, complex))):
                return NotImplemented
            return PyObject_RichCompare(promoted_with(self, other), other, op)
        if PyLong_Check(other) and not -EXACT <= other <= EXACT:        # Python compares large integers exactly
            levels.end_recording("a float is compared with an integer that has no exact float")
        return bool(observed(PyObject_RichCompare(self.x, as_numpy(other), op)))

    def __hash__(self):
        return hash(self.x)

    def __bool__(self):
        return as_bool(self.x)

    def __int__(self):
        return int(self.x)

    __trunc__ = truncated

    def __floor__(self):
        return int(rounded_value(self.x, np.floor))

    def __ceil__(self):
        return int(rounded_value(self.x, np.ceil))

    def __round__(self, digits=None):
        if not is_recorded(self.x):
            checks.note_rounding(self.x, digits)
            return round(<double>value_of(self), digits)
        if digits is None:
            return round(self.x)
        return float_of(dispatch.record_constant(dispatch.constant_row, (self.x, digits), {}, rounded_float))

    def __float__(self):
        return float(self.x)

    __complex__ = as_complex

    def __array__(self, dtype=None, copy=None):
        return self.x.__array__(dtype, copy)

    def __reduce__(self):
        return self.x.__reduce__()

    __copy__ = itself
    __deepcopy__ = itself

    def __repr__(self):
        return checks.operand_text(self.x, repr(observed(self)))

    def __str__(self):
        return checks.operand_text(self.x, str(observed(self)))

    def __format__(self, spec):
        return checks.operand_text(self.x, format(observed(self), spec), spec)

    __array_ufunc__ = call_ufunc
    __array_function__ = call_function

    def __getattr__(self, name):
        if name.startswith("__") or not hasattr(float, name):
            raise AttributeError(f"'float' object has no attribute {name!r}")
        return getattr(self.x, name)

    @property
    def __class__(self):
        return FloatVar if reveals_own_class(self, True) else float

    real = property(itself)
    imag = 0.0
    conjugate = itself

    def is_integer(self):
        return bool(observed(self.x.__getattr__("is_integer")()))


def rounded_float(x, digits):
    """Round as Python floats do, which differs from NumPy's scalars."""
    return float64(round(float(x), digits))
