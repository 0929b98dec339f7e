# Scalars of reverse mode: `ScalarVar`, and operators that append a scalar entry.

cdef inline int as_double(object o, double *c) except -1:
    """Convert a Python number, float64 or bool to double; return 0 for anything else, including other NumPy scalars."""
    if PyFloat_Check(o):
        c[0] = PyFloat_AS_DOUBLE(o)
        return 1
    if PyLong_Check(o):
        c[0] = PyLong_AsDouble(o)
        return 1
    return 0


cdef inline double evaluate(int op, double a, double b) noexcept:
    """Compute a binary operator as NumPy's scalars do: C arithmetic, and libm's pow."""
    if op == WG_ADD:
        return a + b
    if op == WG_SUBTRACT:
        return a - b
    if op == WG_MULTIPLY:
        return a * b
    if op == WG_DIVIDE:
        return a / b
    return pow(a, b)


cdef inline object scalar_left(ScalarVar x, object other, int op):
    """Compute ``x op other``."""
    cdef double b, y
    cdef ScalarVar o
    if type(other) is ScalarVar:
        o = <ScalarVar>other
        if o.tape is x.tape:
            y = evaluate(op, x.v, o.v)
            return append_scalar(x.tape, op, x.slot, o.slot, y)
    elif as_double(other, &b):
        y = evaluate(op, x.v, b)
        return append_scalar(x.tape, op + 1, x.slot, constant(x.tape, b), y)
    return binary_operator(op, x, other)


cdef inline object scalar_right(ScalarVar x, object other, int op):
    """Compute ``other op x``."""
    cdef double a, y
    if as_double(other, &a):
        y = evaluate(op, a, x.v)
        return append_scalar(x.tape, op + 2, constant(x.tape, a), x.slot, y)
    return binary_operator(op, other, x)


cdef inline object scalar_operator(int op, object left, object right):
    """Apply an operator with a `ScalarVar` on at least one side."""
    if type(left) is ScalarVar:
        return scalar_left(<ScalarVar>left, right, op)
    return scalar_right(<ScalarVar>right, left, op)


cdef object binary_operator(int op, object left, object right):
    """Apply an operator when one operand is neither a scalar of the same tape nor a plain number."""
    cdef Tape tape
    cdef double y
    if type(left) is FloatVar or type(right) is FloatVar:
        return apply_operator(op, promoted_with(left, right), promoted_with(right, left))
    if type(left) is ScalarVar and type(right) is ScalarVar:
        tape = common_tape((<ScalarVar>left).tape, (<ScalarVar>right).tape)
        y = evaluate(op, (<ScalarVar>left).v, (<ScalarVar>right).v)
        return append_scalar(tape, op, (<ScalarVar>left).slot, (<ScalarVar>right).slot, y)
    for x, is_left in ((left, True), (right, False)):
        if is_var(x):
            continue
        if isinstance(x, (np.integer, np.floating, np.bool)) and x.dtype.itemsize <= 8 and type(x) is not float64:
            if is_scalar_var(left) or is_scalar_var(right):
                return apply_operator(op, float(x), right) if is_left else apply_operator(op, left, float(x))
        elif not isinstance(x, (ndarray, list, tuple, np.generic, int, float, complex)):
            return matrices.operate((<Kernel>by_opcode[op]).ufunc, left, right)
    if op == WG_POW:
        return power(left, right)
    return binary_any(<Kernel>by_opcode[op], left, right, True)


cdef inline bint is_complex(object x):
    """Return whether `x` is a complex scalar, array or operand."""
    if type(x) is ArrayVar:
        return cnp.PyArray_ISCOMPLEX((<ArrayVar>x).v)
    return isinstance(x, complex) or (isinstance(x, (ndarray, np.generic)) and x.dtype.kind == "c")


cdef object complex_operator(Kernel u, object left, object right):
    """Apply an operator to complex operands; on two scalars Python's operator rounds differently from the ufunc."""
    compute = (operator.add if u.opcode == WG_ADD else operator.sub if u.opcode == WG_SUBTRACT else
               operator.mul if u.opcode == WG_MULTIPLY else operator.truediv)
    return dispatch.ufunc(u.ufunc, "__call__", (left, right), {}, compute)


cdef object apply_operator(int op, object left, object right):
    if op == WG_ADD:
        return left + right
    if op == WG_SUBTRACT:
        return left - right
    if op == WG_MULTIPLY:
        return left * right
    if op == WG_DIVIDE:
        return left / right
    return left ** right


cdef object compare_scalar(object x, Level level, double a, object other, int op):
    """Compare a traced scalar, whose value is `a`; the result is a plain bool."""
    cdef double b
    cdef bint answer
    if type(other) is ScalarVar:
        b = (<ScalarVar>other).v
    elif type(other) is ScalarDual:
        b = (<ScalarDual>other).v
    elif not as_double(other, &b):
        return PyObject_RichCompare(float64(a), plain(other), op)
    if op == Py_EQ or op == Py_NE:
        if a == b and a != 0.0:
            checks.note_scalar_match(x, other)
    elif is_watched(level, a - b):
        watch_scalars(x, other, a - b)
    if op == Py_LT:
        answer = a < b
    elif op == Py_GT:
        answer = a > b
    elif op == Py_LE:
        answer = a <= b
    elif op == Py_GE:
        answer = a >= b
    elif op == Py_EQ:
        answer = a == b
    else:
        answer = a != b
    return true if answer else false


# ---- methods shared by the operand classes (a method with a type slot cannot be shared)

def itself(x, memo=None):
    """Return the operand itself: a scalar is immutable, so it is its own copy, real part and transpose."""
    return x


def truncated(x):
    return int(x)


def as_complex(x):
    return complex(float(x))


def call_ufunc(x, ufunc, method, x0, x1=None, *rest, out=None, where=True, **kwargs):
    """Implement ``__array_ufunc__``."""
    return array_ufunc(ufunc, method, x0, x1, rest, out, where, kwargs)


def call_function(x, function, types, args, kwargs):
    """Implement ``__array_function__``."""
    return dispatch.function(function, args, kwargs)


def namespace_of(x, *, api_version=None):
    """Implement ``__array_namespace__``."""
    return methods.array_namespace(x, api_version)


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class ScalarVar:
    """A traced scalar of reverse mode, standing for a ``numpy.float64``."""

    def __init__(self, *args):
        raise TypeError("type(x)(...) cannot create a scalar from the class of traced scalars: use x.__class__(...), "
                        "which is numpy.float64")

    def __add__(left, right):
        return scalar_operator(WG_ADD, left, right)

    def __sub__(left, right):
        return scalar_operator(WG_SUBTRACT, left, right)

    def __mul__(left, right):
        return scalar_operator(WG_MULTIPLY, left, right)

    def __truediv__(left, right):
        return scalar_operator(WG_DIVIDE, left, right)

    def __pow__(left, right, modulo):
        return NotImplemented if modulo is not None else scalar_operator(WG_POW, left, right)

    def __neg__(self):
        return append_scalar(self.tape, WG_NEGATIVE, self.slot, 0, -self.v)

    def __pos__(self):
        return append_scalar(self.tape, WG_POSITIVE, self.slot, 0, self.v)

    def __abs__(self):
        return append_scalar(self.tape, WG_ABSOLUTE, self.slot, 0, fabs(self.v))

    def __mod__(left, right):
        return methods.operate(np.remainder, operator.mod, left, right)

    def __floordiv__(left, right):
        return methods.operate(np.floor_divide, operator.floordiv, left, right)

    def __divmod__(left, right):
        return left // right, left % right

    def __richcmp__(self, other, int op):
        if self.tape.recording:
            return compare_recorded(self, other, op)
        return compare_scalar(self, self.tape.level, self.v, other, op)

    def __hash__(self):
        if is_passive(self):
            return hash(observed(self))
        raise checks.refusal(self, messages.hash_message("scalar"))

    def __bool__(self):
        return as_bool(self) if self.tape.recording else self.v != 0.0

    # piecewise constant functions: plain results

    def __int__(self):
        return int(rounded_value(self, np.trunc) if self.tape.recording else self.v)

    __trunc__ = truncated

    def __floor__(self):
        return int(rounded_value(self, np.floor))

    def __ceil__(self):
        return int(rounded_value(self, np.ceil))

    def __round__(self, digits=None):
        if self.tape.recording:
            return rounded(self, digits)
        checks.note_rounding(self, digits)
        return round(float64(self.v), digits)

    # conversions that would lose the derivative

    def __float__(self):
        if scalar_has_ended(self):
            return self.v
        if is_passive(self) or frames.is_asserted():
            return float(observed(self))
        raise checks.refusal(self, messages.float_message())

    __complex__ = as_complex

    def __array__(self, dtype=None, copy=None):
        handed = matrices.array_for_scipy(self)
        if handed is not None:
            return handed
        if scalar_has_ended(self):
            return np.array(self.v, dtype=dtype)
        if is_passive(self) or frames.is_asserted():
            return np.array(observed(self), dtype=dtype)
        raise checks.refusal(self, messages.array_message())

    def __getbuffer__(self, Py_buffer *view, int flags):
        fill_buffer(self, view, flags)

    def __reduce__(self):
        if is_passive(self):
            return observed(self).__reduce__()
        raise checks.refusal(self, "a traced value cannot be pickled: pass wengert.stop_gradient(value)")

    __copy__ = itself
    __deepcopy__ = itself

    # other attributes of np.float64

    def __repr__(self):
        return checks.operand_text(self, repr(observed(self)))

    def __str__(self):
        return checks.operand_text(self, str(observed(self)))

    def __format__(self, spec):
        return checks.operand_text(self, format(observed(self), spec), spec)

    def __getitem__(self, key):
        if key is Ellipsis or (type(key) is tuple and not key):
            return self
        return as_array(self)[key]

    def __getattr__(self, name):
        return methods.scalar_attribute(self, name)

    @property
    def __class__(self):
        return ScalarVar if reveals_own_class(self, True) else float64

    shape = ()
    ndim = 0
    size = 1
    dtype = np.dtype(float64)
    T = property(itself)
    real = property(itself)
    __array_ufunc__ = call_ufunc
    __array_function__ = call_function
    __array_namespace__ = namespace_of


wg_not_a_sequence(<PyTypeObject *>ScalarVar)


cdef bint has_ended(Level level):
    """Return whether a level has ended and no derivative is running: its values then convert like plain scalars."""
    return level.tape == NULL and not level.live and not levels.is_tracing()


cdef bint scalar_has_ended(object x):
    return has_ended((<ScalarVar>x).tape.level if type(x) is ScalarVar else (<ScalarDual>x).level)
