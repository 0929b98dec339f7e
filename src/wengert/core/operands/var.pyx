# Indices are checked where they come from a user; no division by a user's number happens in Cython code:
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Operands: what a function sees in place of the numbers and arrays that it is differentiated in.

`ScalarVar` (reverse) and `ScalarDual` (forward) stand for a ``numpy.float64``, `ArrayVar` for an ``ndarray``,
`FloatVar` (on recording tapes alone) for a Python ``float``;
``__class__`` says so, ``type()`` does not lie.
Arithmetic on them computes the very value NumPy would, and appends an entry to the tape they belong to or computes
the tangents of the result.

What an `ArrayVar` is, its buffer says: of a tape, of a forward level, of a derivative inside another one, or *clean*:
a constant that records nothing until a traced value is stored.
A scalar of a derivative inside another one is an `ArrayVar` without axes.
"""

cimport cython
cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_Check, PyLong_CheckExact
from cpython.number cimport PyNumber_AsSsize_t
from cpython.object cimport Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, PyObject, PyObject_TypeCheck, PyTypeObject
from libc.math cimport fabs, pow
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

import operator

import numpy as np

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from wengert.core.tape.kernel cimport Kernel, by_opcode, kernels
from wengert.core.tape.memory cimport (
    FORWARD, NESTED, REVERSE, Buffer, Level, empty_array, is_double, is_vector, new_buffer, outline,
    same_shape, view_at,
)
from wengert.core.tape.tape cimport *

from wengert.core import frames, levels, messages
from wengert.core.tape.local_derivatives import elementwise, partial
from wengert.core.tape.memory import empty
from wengert.errors import LevelError, TracedValueError

cnp.import_array()

cdef extern from *:
    """
    /* v[()] is defined, yet a scalar is no sequence: NumPy would answer with a message about sequences. */
    static void wg_not_a_sequence(PyTypeObject *type) {
        if (type->tp_as_sequence) type->tp_as_sequence->sq_item = NULL;
        PyType_Modified(type);
    }
    /* What Cython's `__getbuffer__` has put there for an owner goes first. */
    static int wg_lend(PyObject *owner, Py_buffer *view, int flags) {
        Py_CLEAR(view->obj);
        return PyObject_GetBuffer(owner, view, flags);
    }
    """
    void wg_not_a_sequence(PyTypeObject *type)
    int wg_lend(object owner, Py_buffer *view, int flags) except -1

cdef extern from "dual.h" nogil:
    void wg_dual(int op, double a, double b, double y, const double *ta, const double *tb, double *t, Py_ssize_t k)
    void wg_push_vv(int op, Py_ssize_t n, const double *ta, const double *tb, const double *a, const double *b,
                    const double *y, double *t)
    double wg_sum(Py_ssize_t n, const double *x)

cdef extern from "Python.h":
    double PyLong_AsDouble(object o) except? -1.0
    object PySeqIter_New(object o)
    PyObject *PyEval_GetGlobals()
    PyObject *PyDict_GetItem(object mapping, object key)

cdef type np_integer = np.integer
cdef object float64 = np.float64, ndarray = np.ndarray, true = np.True_, false = np.False_
cdef object np_sum = np.sum, np_shape = np.shape, np_ndim = np.ndim, add_reduce = np.add.reduce
cdef Kernel u_power = kernels[np.power]

# Modules above this one that operands call into; `wengert.core.hooks` sets them.
cdef object arguments = None, checks = None, dispatch = None, forward = None, matrices = None, methods = None


def set_modules(modules):
    """Set the modules of `core.dispatch` and `core.modes` that operands call into."""
    global arguments, checks, dispatch, forward, matrices, methods
    arguments, checks, dispatch, forward, matrices, methods = modules


cdef enum:
    ASKS_OPERANDS, ASKS_SCALARS, WRITES_JSON

#: modules that ask for the class of a value, and what for
cdef dict ASKING = {
    "scipy.sparse._base": ASKS_OPERANDS,
    "scipy.sparse._coo": ASKS_OPERANDS,
    "scipy.sparse._sputils": ASKS_OPERANDS,
    "numpy._core.numeric": ASKS_SCALARS,
    "numpy.core.numeric": ASKS_SCALARS,
    "abc": ASKS_SCALARS,
    "json.encoder": WRITES_JSON,
}


cdef bint is_hidden(object x, bint scalar) except -1:
    """Should `x` hide the class that it stands for?

    An array an operator of SciPy's sparse arrays would hand to compiled code; to what it does not know it leaves the
    operation.
    """
    cdef PyObject *space = PyEval_GetGlobals()
    cdef PyObject *name = NULL if space == NULL else PyDict_GetItem(<object>space, "__name__")
    cdef PyObject *asks = NULL if name == NULL else PyDict_GetItem(ASKING, <object>name)
    if asks == NULL:
        return False
    if <object>asks == WRITES_JSON:
        if scalar:
            checks.refuse_json(x)
        return False
    return (scalar or <object>asks == ASKS_OPERANDS) and matrices.is_asking()


cdef int lend(object x, Py_buffer *view, int flags) except -1:
    """Buffer of the array that `x` converts to; refused wherever that conversion is refused.

    NumPy asks for memory first, and for an array afterwards.
    """
    if matrices.handed_over(x) is not None:
        raise BufferError("no memory")
    return wg_lend(x.__array__(), view, flags)


@cython.auto_pickle(False)
cdef class Lender:
    """A class in Python that is asked for memory: its ``_lend()`` raises."""

    def __getbuffer__(self, Py_buffer *view, int flags):
        self._lend()
        raise BufferError("no memory")


# ---------------------------------------------------------------------------------------------- scalars

cdef inline int number(object o, double *c) except -1:
    """Is `o` a Python number, a float64 or a bool? Other NumPy scalars take the slower way."""
    if PyFloat_Check(o):
        c[0] = PyFloat_AS_DOUBLE(o)
        return 1
    if PyLong_Check(o):
        c[0] = PyLong_AsDouble(o)
        return 1
    return 0


cdef inline double evaluate(int op, double a, double b) noexcept:
    """What NumPy's scalars compute for an operator: C arithmetic, and libm's pow."""
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
    """x op other."""
    cdef double b, y
    cdef ScalarVar o
    if type(other) is ScalarVar:
        o = <ScalarVar>other
        if o.tape is x.tape:
            y = evaluate(op, x.v, o.v)
            return entered(x.tape, op, x.slot, o.slot, y)
    elif number(other, &b):
        y = evaluate(op, x.v, b)
        return entered(x.tape, op + 1, x.slot, constant(x.tape, b), y)
    return binary_operator(op, x, other)


cdef inline object scalar_right(ScalarVar x, object other, int op):
    """other op x."""
    cdef double a, y
    if number(other, &a):
        y = evaluate(op, a, x.v)
        return entered(x.tape, op + 2, constant(x.tape, a), x.slot, y)
    return binary_operator(op, other, x)


cdef object binary_operator(int op, object left, object right):
    """The operator where one side is no scalar of this tape and no plain number."""
    cdef Tape tape
    cdef double y
    if type(left) is FloatVar or type(right) is FloatVar:
        return apply_operator(op, beside(left, right), beside(right, left))
    if type(left) is ScalarVar and type(right) is ScalarVar:
        tape = common_tape((<ScalarVar>left).tape, (<ScalarVar>right).tape)
        y = evaluate(op, (<ScalarVar>left).v, (<ScalarVar>right).v)
        return entered(tape, op, (<ScalarVar>left).slot, (<ScalarVar>right).slot, y)
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
    """Is this a complex number, array or operand?"""
    if type(x) is ArrayVar:
        return cnp.PyArray_ISCOMPLEX((<ArrayVar>x).v)
    return isinstance(x, complex) or (isinstance(x, (ndarray, np.generic)) and x.dtype.kind == "c")


cdef object complex_operator(Kernel u, object left, object right):
    """An operator of complex operands: of two numbers it rounds otherwise than the ufunc."""
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


cdef object compare_scalar(double a, object other, int op):
    """A comparison of a traced scalar: a plain answer."""
    cdef double b
    cdef bint answer
    if type(other) is ScalarVar:
        b = (<ScalarVar>other).v
    elif type(other) is ScalarDual:
        b = (<ScalarDual>other).v
    elif not number(other, &b):
        return compare(float64(a), plain(other), op)
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


@cython.final
@cython.no_gc
@cython.freelist(4096)
cdef class ScalarVar:
    """A traced number, standing for a ``numpy.float64``."""

    def __init__(self, *args):
        raise TypeError("type(x) of a traced scalar makes no numbers: use x.__class__(...), which is numpy.float64")

    def __add__(self, other):
        return scalar_left(self, other, WG_ADD)

    def __radd__(self, other):
        return scalar_right(self, other, WG_ADD)

    def __sub__(self, other):
        return scalar_left(self, other, WG_SUBTRACT)

    def __rsub__(self, other):
        return scalar_right(self, other, WG_SUBTRACT)

    def __mul__(self, other):
        return scalar_left(self, other, WG_MULTIPLY)

    def __rmul__(self, other):
        return scalar_right(self, other, WG_MULTIPLY)

    def __truediv__(self, other):
        return scalar_left(self, other, WG_DIVIDE)

    def __rtruediv__(self, other):
        return scalar_right(self, other, WG_DIVIDE)

    def __pow__(self, other, modulo):
        if modulo is not None:
            return NotImplemented
        return scalar_left(self, other, WG_POW)

    def __rpow__(self, other, modulo):
        if modulo is not None:
            return NotImplemented
        return scalar_right(self, other, WG_POW)

    def __neg__(self):
        return entered(self.tape, WG_NEGATIVE, self.slot, 0, -self.v)

    def __pos__(self):
        return entered(self.tape, WG_POSITIVE, self.slot, 0, self.v)

    def __abs__(self):
        return entered(self.tape, WG_ABSOLUTE, self.slot, 0, fabs(self.v))

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

    def __richcmp__(self, other, int op):
        if self.tape.recording:
            return compare_recorded(self, other, op)
        return compare_scalar(self.v, other, op)

    def __hash__(self):
        if is_passive(self):
            return hash(observed(self))
        raise checks.refusal(self, messages.hash_message("scalar"))

    def __bool__(self):
        return as_bool(self) if self.tape.recording else self.v != 0.0

    # piecewise constant: a plain result

    def __int__(self):
        return int(whole(self, np.trunc) if self.tape.recording else self.v)

    def __trunc__(self):
        return int(self)

    def __floor__(self):
        return int(whole(self, np.floor))

    def __ceil__(self):
        return int(whole(self, np.ceil))

    def __round__(self, digits=None):
        if self.tape.recording:
            return rounded(self, digits)
        return round(float64(self.v), digits)

    # ways out, on which the derivative would be lost

    def __float__(self):
        if scalar_has_ended(self):
            return self.v
        if is_passive(self) or frames.is_asserted():
            return float(observed(self))
        raise checks.refusal(self, messages.float_message())

    def __complex__(self):
        return complex(float(self))

    def __array__(self, dtype=None, copy=None):
        handed = matrices.handed_over(self)
        if handed is not None:
            return handed
        if scalar_has_ended(self):
            return np.array(self.v, dtype=dtype)
        if is_passive(self) or frames.is_asserted():
            return np.array(observed(self), dtype=dtype)
        raise checks.refusal(self, messages.array_message())

    def __getbuffer__(self, Py_buffer *view, int flags):
        lend(self, view, flags)

    def __reduce__(self):
        if is_passive(self):
            return observed(self).__reduce__()
        raise checks.refusal(self, "a traced value cannot be pickled: pass wengert.stop_gradient(value)")

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self

    # what np.float64 has besides

    def __repr__(self):
        return checks.spelled(self, repr(observed(self)))

    def __str__(self):
        return checks.spelled(self, str(observed(self)))

    def __format__(self, spec):
        return checks.spelled(self, format(observed(self), spec), spec)

    def __getitem__(self, key):
        if key is Ellipsis or (type(key) is tuple and not key):
            return self
        return as_array(self)[key]

    def __array_ufunc__(self, ufunc, method, x0, x1=None, *rest, out=None, where=True, **kwargs):
        return array_ufunc(ufunc, method, x0, x1, rest, out, where, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return dispatch.function(function, args, kwargs)

    def __getattr__(self, name):
        return methods.scalar_attribute(self, name)

    @property
    def __class__(self):
        return ScalarVar if is_hidden(self, True) else float64

    @property
    def shape(self):
        return ()

    @property
    def ndim(self):
        return 0

    @property
    def size(self):
        return 1

    @property
    def dtype(self):
        return np.dtype(float64)

    @property
    def T(self):
        return self

    @property
    def real(self):
        return self


wg_not_a_sequence(<PyTypeObject *>ScalarVar)


cdef bint has_ended(Level level):
    """Is this a value that the function kept after its derivative? Outside of others it converts like any number."""
    return level.tape == NULL and not level.live and not levels.is_tracing()


cdef bint scalar_has_ended(object x):
    return has_ended((<ScalarVar>x).tape.level if type(x) is ScalarVar else (<ScalarDual>x).level)


cdef object compare(object left, object right, int op):
    if op == Py_LT:
        return left < right
    if op == Py_GT:
        return left > right
    if op == Py_LE:
        return left <= right
    if op == Py_GE:
        return left >= right
    if op == Py_EQ:
        return left == right
    return left != right


# ---------------------------------------------------------------------------------------------- arrays

cdef inline Tape tape_of(Buffer buffer):
    """The running tape a buffer belongs to; None for a clean one."""
    if buffer.level is None:
        return None
    if buffer.level.tape == NULL:
        settle(buffer)
        return None
    return <Tape>buffer.level.tape


cdef bint is_held(Buffer buffer):
    """Do entries of a tape that is still open refer to a buffer of a derivative inside of that one?"""
    while type(buffer.under) is Buffer:
        buffer = <Buffer>buffer.under
        if buffer.level is not None and buffer.level.tape != NULL:
            return True
    return False


cdef int settle(Buffer buffer) except -1:
    """Make clean what belongs to a derivative that has ended, or raise; one without a tape may be running."""
    if buffer.level is None or buffer.level.tape != NULL or buffer.level.live:
        return 0
    if not has_ended(buffer.level) or is_held(buffer):
        raise LevelError(ended_message(buffer.level))
    make_clean(buffer)
    return 0


cdef int make_clean(Buffer buffer) except -1:
    """Make plain memory of a buffer that outlived its derivative: its values are constants of the past."""
    buffer.level = None
    buffer.id = -1
    buffer.owner = None
    buffer.written = False
    buffer.under = None
    buffer.tangent_owner = None
    return 0


cdef int give_back(Buffer buffer) except -1:
    """Give what belongs to a derivative that has ended to the one around it: it is about to be overwritten."""
    cdef Buffer under
    while buffer.level is not None and buffer.level.tape == NULL and not buffer.level.live:
        if type(buffer.under) is not Buffer:
            return make_clean(buffer)
        under = <Buffer>buffer.under
        buffer.level = under.level
        buffer.under = under.under
        buffer.written = under.written
        buffer.tangent = under.tangent
        buffer.tangent_owner = under.tangent_owner
    return 0


cdef inline bint is_live(Buffer buffer) except -1:
    """Does the buffer carry a derivative? One that has ended counts while another is running: using it is an error."""
    if buffer.level is None:
        return False
    if buffer.level.tape == NULL and not buffer.level.live and has_ended(buffer.level) and not is_held(buffer):
        make_clean(buffer)
        return False
    return True


cdef inline bint is_forward(Buffer buffer) noexcept:
    """Does the buffer belong to an outermost forward level, with tangents that are plain numbers?"""
    return buffer.level is not None and buffer.level.kind == FORWARD and buffer.level.depth == 0 and buffer.level.live


cdef Tape common_tape(Tape one, Tape other):
    """The tape that records what two operands meet in."""
    if one is None or one is other:
        return other
    if other is None:
        return one
    if current(one) is not current(other):
        raise LevelError(mixed_message(one.level, other.level))
    return current(one)


cdef str mixed_message(Level one, Level other):
    for level in (one, other):
        if (<Level>level).tape == NULL and not (<Level>level).live:
            return ended_message(level)
    return f"a value of {one.name} met a value of {other.name}: each belongs to its own derivative"


cdef object result(Tape tape, Node node, object y):
    """The operand for the value `y` of a new entry: an array, a scalar slot, or a 0-d array for other dtypes."""
    cdef cnp.ndarray array
    cdef Buffer buffer
    if tape.is_full:
        tape.make_room()
    if type(y) is float64:
        node.y = None
        return scalar(tape, tape.add_node(node, y), y)
    if not isinstance(y, (ndarray, np.generic)):
        raise TracedValueError(f"{messages.name_of(node.row)} returned {type(y).__name__} where an array was expected")
    if y.dtype.kind != "f":
        if y.dtype.kind == "c":
            note_complex(tape.level)
        elif not (tape.recording and is_constant_there(tape, node, y.dtype)):
            raise messages.dtype_error(node.row, y.dtype)
    scalar_like = not isinstance(y, ndarray)
    array = <cnp.ndarray>np.asarray(y)
    if not cnp.PyArray_IS_C_CONTIGUOUS(array) and 0 in y.strides:
        array = <cnp.ndarray>array.copy()       # one place for many elements could have one adjoint only
    buffer = new_buffer(array, tape.level)
    buffer.born = <int32_t>tape.n + 1
    node.out = buffer
    node.y = array
    tape.add_node(node, 0.0)
    x = array_var(buffer, array)
    x.scalar = scalar_like
    return x


cpdef int note_complex(Level level) except -1:
    """A value of this level is complex, or of one that uses it."""
    if level.kind == REVERSE and level.tape != NULL:
        (<Tape>level.tape).has_complex = True
    elif level.kind == NESTED:
        level.recorder.has_complex = True
    return 0


cdef ScalarVar entered_elsewhere(Tape tape, int op, int32_t a, int32_t b, double y):
    """The operand of a new entry where the list has no room, or a tail records in the place of the tape."""
    cdef Tape recorder = current(tape)
    if recorder.n == recorder.capacity:
        recorder.grow()
    return scalar(recorder, push(recorder, op, a, b, y), y)


cdef object unary(Kernel u, object operand):
    """A ufunc of one operand, recorded."""
    cdef ScalarVar s
    cdef ScalarDual d
    cdef ArrayVar x
    cdef Tape tape
    cdef Node node
    cdef double y
    if type(operand) is ScalarVar:
        s = <ScalarVar>operand
        y = u.value1(s.v)
        return entered(s.tape, u.opcode, s.slot, 0, y)
    if type(operand) is ScalarDual:
        d = <ScalarDual>operand
        return dual1(d, u.opcode, u.value1(d.v))
    x = <ArrayVar>operand
    tape = tape_of(x.buffer)
    if tape is None and is_forward(x.buffer) and is_double(x.v) and cnp.PyArray_NDIM(x.v) > 0:
        return forward_unary(u, x)
    if tape is None or not is_double(x.v) or cnp.PyArray_NDIM(x.v) == 0:
        return dispatch.ufunc(u.ufunc, "__call__", (operand,), {})
    node = Node.__new__(Node)
    node.kind = ELEMENTWISE
    node.opcode = u.opcode
    node.row = u.row()
    node.abuf = x.buffer
    node.aslot = node.bslot = -1
    return trimmed(tape, node, u.reads_a, x.v, None, u.array_value(x.v, None, 0.0, 0.0, False))


cdef object trimmed(Tape tape, Node node, int reads, cnp.ndarray a, cnp.ndarray b, object y):
    """Append an elementwise entry that keeps only what its partials read."""
    node.a = a
    node.b = b
    if tape.recording:          # is not swept: of values only the layout is asked for
        reads = (WG_A if node.abuf is None else 0) | (WG_B if node.bbuf is None else 0)
    if a is not None and not reads & WG_A:
        node.outlines |= WG_A
        node.a = outline(a, tape.recording)
    if b is not None and not reads & WG_B:
        node.outlines |= WG_B
        node.b = outline(b, tape.recording)
    x = result(tape, node, y)
    if node.y is not None and not reads & WG_Y:
        node.outlines |= WG_Y
        node.y = outline(node.y, tape.recording)
    return x


cdef struct Side:               # one operand of a binary entry; references are borrowed
    PyObject *tape              # NULL: a constant
    PyObject *buffer
    PyObject *array             # NULL: a scalar slot or a number
    int32_t slot
    double c
    bint strong                 # enters NumPy as a float64, not as a Python float


cdef inline int read_side(object x, Side *side) except -1:
    """Classify an operand; 0 where the general way must be taken."""
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
            side.tape = <PyObject *>tape
            side.buffer = <PyObject *>v.buffer
        elif v.buffer.level is not None:        # of a forward or nested level
            return 0
        return 1
    if type(x) is ScalarVar:
        side.tape = (<ScalarVar>x).tape.level.tape
        if side.tape == NULL:
            side.tape = <PyObject *>(<ScalarVar>x).tape
        side.slot = (<ScalarVar>x).slot
        side.c = (<ScalarVar>x).v
        side.strong = True
        return 1
    if type(x) is ndarray:
        if not is_double(<cnp.ndarray>x) or cnp.PyArray_NDIM(<cnp.ndarray>x) == 0:
            return 0
        side.array = <PyObject *>x
        return 1
    if number(x, &side.c):
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
    """A ufunc of two operands, at least one of them traced or clean, recorded."""
    return binary_any(u, left, right, False)


cdef inline object binary_any(Kernel u, object left, object right, bint is_operator):
    """The same, of a ufunc or the operator that stands for it."""
    cdef Side l, r
    if recordings and (type(left) is FloatVar or type(right) is FloatVar):
        return binary_any(u, beside(left, right), beside(right, left), is_operator)
    if is_scalar_var(left) or is_scalar_var(right):
        if (is_scalar_var(left) or not isinstance(left, ndarray)) and (
                is_scalar_var(right) or not isinstance(right, ndarray)):
            scalars = scalar_ufunc(u, left, right)
            if scalars is not None:
                return scalars
    if not (read_side(left, &l) and read_side(right, &r)) or l.array == r.array == NULL:
        duals = forward_binary(u, left, right, None)
        if duals is not None:
            return duals
        if is_operator and (is_complex(left) or is_complex(right)):
            return complex_operator(u, left, right)
        return dispatch.ufunc(u.ufunc, "__call__", (left, right), {})
    if l.tape == r.tape == NULL:
        return arguments.clean(u.ufunc(value_of_side(&l), value_of_side(&r)))
    return record_binary(u, &l, &r, u.array_value(array_of(&l), array_of(&r), l.c, r.c, l.strong or r.strong))


cdef object record_binary(Kernel u, Side *l, Side *r, object y, object compute=None):
    cdef Node node = Node.__new__(Node)
    cdef Tape tape
    cdef cnp.ndarray a = array_of(l), b = array_of(r)
    cdef int reads = (u.reads_a if l.tape != NULL else 0) | (u.reads_b if r.tape != NULL else 0)
    if l.tape != NULL and r.tape != NULL and l.tape != r.tape:
        raise LevelError(mixed_message((<Tape>l.tape).level, (<Tape>r.tape).level))
    tape = <Tape>(l.tape if l.tape != NULL else r.tape)
    if tape.recording:                  # constants are kept, whether a partial reads them or not
        reads |= (0 if l.tape != NULL else WG_A) | (0 if r.tape != NULL else WG_B)
        node.compute = compute
    node.kind = ELEMENTWISE
    node.opcode = u.opcode
    node.row = u.row()
    # a constant array that a partial reads is kept as it is now: f may write into it later
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
    return trimmed(tape, node, reads, a, b, y)


cdef object scalar_ufunc(Kernel u, object left, object right):
    """A two-operand ufunc of scalars, as a function call: the ufunc's own loop. None if one is no number."""
    cdef double a, b, y
    cdef Tape tape
    if type(left) is ScalarVar and type(right) is ScalarVar:
        tape = common_tape((<ScalarVar>left).tape, (<ScalarVar>right).tape)
        y = u.value2((<ScalarVar>left).v, (<ScalarVar>right).v)
        return entered(tape, u.opcode, (<ScalarVar>left).slot, (<ScalarVar>right).slot, y)
    if type(left) is ScalarVar and number(right, &b):
        tape = (<ScalarVar>left).tape
        y = u.value2((<ScalarVar>left).v, b)
        return entered(tape, u.opcode + 1, (<ScalarVar>left).slot, constant(tape, b), y)
    if type(right) is ScalarVar and number(left, &a):
        tape = (<ScalarVar>right).tape
        y = u.value2(a, (<ScalarVar>right).v)
        return entered(tape, u.opcode + 2, constant(tape, a), (<ScalarVar>right).slot, y)
    if type(left) is ScalarDual and type(right) is ScalarDual:
        if (<ScalarDual>left).level is (<ScalarDual>right).level:
            return dual2(<ScalarDual>left, <ScalarDual>right, u.opcode,
                         u.value2((<ScalarDual>left).v, (<ScalarDual>right).v))
    elif type(left) is ScalarDual and number(right, &b):
        return dual_left_number(<ScalarDual>left, b, u.opcode + 1, u.value2((<ScalarDual>left).v, b))
    elif type(right) is ScalarDual and number(left, &a):
        return dual_right_number(a, <ScalarDual>right, u.opcode + 2, u.value2(a, (<ScalarDual>right).v))
    return None


cdef dict SHORT_POWERS = {-1: np.reciprocal, 0.5: np.sqrt}      # what NumPy's operator takes for complex arrays


cdef object power(object left, object right):
    """The operator ** on arrays, which has shorter ways for some exponents than ``np.power``."""
    cdef Side l, r
    cdef double c
    if (type(left) is ArrayVar and number(right, &c) and c == 2.0 and type(right) is not float64
            and not ((<ArrayVar>left).scalar and cnp.PyArray_ISCOMPLEX((<ArrayVar>left).v))):
        return unary(<Kernel>by_opcode[WG_SQUARE], left)
    if not (read_side(left, &l) and read_side(right, &r)) or l.array == r.array == NULL:
        duals = forward_binary(u_power, left, right, operator.pow)
        if duals is not None:
            return duals
        if is_complex(left) and not is_scalar(left) and (type(right) is int or type(right) is float):
            short = SHORT_POWERS.get(right)
            if short is not None:
                return dispatch.ufunc(short, "__call__", (left,), {})
        return dispatch.ufunc(np.power, "__call__", (left, right), {}, operator.pow)
    if l.tape == r.tape == NULL:
        return arguments.clean(value_of_side(&l) ** value_of_side(&r))
    return record_binary(u_power, &l, &r, value_of_side(&l) ** value_of_side(&r), operator.pow)


cdef object power_of_scalars(object left, object right):
    """left ** right where an operator of NumPy's scalars asked for it."""
    if isinstance(left, np.generic) and is_scalar_var(right):
        return float(left) ** right
    return binary(u_power, left, right)


cdef object array_ufunc(object ufunc, str method, object x0, object x1, tuple rest, object out, object where,
                        dict kwargs):
    """NumPy's ufunc protocol: straight to a kernel for a plain call, else through the registry."""
    cdef Kernel u
    if recordings and holds_float((x0, x1, rest, out, where)):
        return dispatch.ufunc(ufunc, method, (x0, x1, *rest) if x1 is not None else (x0, *rest),
                              with_options(kwargs, out, where))
    if out is None and where is True and not kwargs and method == "__call__":
        u = <Kernel>kernels.get(ufunc)
        if u is not None:
            if x1 is None:
                return unary(u, x0)
            if u is u_power and (is_scalar_var(x0) or is_scalar_var(x1)) and frames.is_operator():
                return power_of_scalars(x0, x1)     # np.float64(2) ** x comes by here: libm's pow, not the ufunc
            return binary(u, x0, x1)
    inputs = (x0,) + rest if x1 is None else (x0, x1) + rest
    return dispatch.ufunc(ufunc, method, inputs, with_options(kwargs, out, where))


cdef dict with_options(dict kwargs, object out, object where):
    if out is not None:
        kwargs["out"] = out
    if where is not True:
        kwargs["where"] = where
    return kwargs


cdef bint is_basic(object key):
    """Does an index select a view? Then it is made of integers, slices, None and Ellipsis alone."""
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
    """A copy of an advanced index, so that f may change its arrays afterwards."""
    if type(key) is tuple:
        return tuple([stored_key(k) for k in key])
    if is_basic_part(key) or isinstance(key, (bool, np.bool)):
        return key
    if is_var(key):
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    key = np.array(key)
    return key.astype(np.intp) if key.size == 0 and key.dtype.kind == "f" else key


@cython.final
@cython.no_gc
@cython.freelist(256)
cdef class ArrayVar:
    """A traced array, or a clean one that may become traced, standing for an ``ndarray``."""

    def __init__(self, *args):
        raise TypeError("type(x) of a traced array makes no arrays: use numpy.empty(shape)")

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
        if self.scalar and cnp.PyArray_ISCOMPLEX(self.v):       # rounds otherwise than the ufunc
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
        if place != NULL and cnp.PyArray_ISWRITEABLE(self.v):
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
            elif number(value, &c):
                tape = tape_of(self.buffer)
                if tape is not None:
                    if tape.head is not None:
                        activate(self.buffer, tape.level)
                    store_element(tape, self.buffer, self.v, place, -1, c)
                    return
                if self.buffer.level is None:
                    (<double *>place)[0] = c
                    return
        set_item(self, key, value)

    # -- ways out, on which the derivative would be lost

    def __array__(self, dtype=None, copy=None):
        handed = matrices.handed_over(self)
        return hand_out(self, dtype, copy) if handed is None else handed

    def __getbuffer__(self, Py_buffer *view, int flags):
        lend(self, view, flags)

    def __dlpack__(self, **kwargs):
        return hand_out(self, None, None).__dlpack__(**kwargs)

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
        return int(whole(self, np.trunc))

    def __round__(self, digits=None):
        return rounded(self, digits)

    def __trunc__(self):
        return int(self)

    def __floor__(self):
        return int(whole(self, np.floor))

    def __ceil__(self):
        return int(whole(self, np.ceil))

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

    # -- what an ndarray has besides

    def __repr__(self):
        return checks.spelled(self, repr(observed(self) if recordings else self.v))

    def __str__(self):
        return checks.spelled(self, str(observed(self) if recordings else self.v))

    def __format__(self, spec):
        value = observed(self) if recordings else self.v
        return checks.spelled(self, format(value[()] if self.v.ndim == 0 else value, spec), spec)

    def __array_ufunc__(self, ufunc, method, x0, x1=None, *rest, out=None, where=True, **kwargs):
        return array_ufunc(ufunc, method, x0, x1, rest, out, where, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        if len(args) == 1 and not kwargs and args[0] is self:
            if function is np_ndim:
                return cnp.PyArray_NDIM(self.v)
            if function is np_shape:
                return (<object>self.v).shape
            if function is np_sum:
                return self.sum()
        return dispatch.function(function, args, kwargs)

    def __getattr__(self, name):
        return methods.scalar_attribute(self, name) if self.scalar else methods.array_attribute(self, name)

    def sum(self, *args, **kwargs):
        """Sum of the elements; the sum of all has an entry of its own."""
        cdef Node node
        if args or kwargs or not is_live(self.buffer) or not is_double(self.v):
            return dispatch.function(np_sum, (self, *args), kwargs)
        tape = tape_of(self.buffer)
        if tape is None:
            if is_forward(self.buffer):
                return forward_sum(self)
            return dispatch.function(np_sum, (self,), {})
        node = Node.__new__(Node)
        node.kind = SUM
        node.abuf = self.buffer
        node.a = outline(self.v, tape.recording)
        node.aslot = node.bslot = -1
        return result(tape, node, add_reduce(self.v, None))

    @property
    def __class__(self):
        if is_hidden(self, self.scalar):
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


cdef object part(ArrayVar x, str name):
    """Real or imaginary part of complex numbers: of an array a view, whose tangents are the parts of its tangents."""
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
    """a @ b, of two float64 matrices into memory from the pool."""
    if (type(a) is ndarray and type(b) is ndarray and cnp.PyArray_NDIM(a) == 2 and cnp.PyArray_NDIM(b) == 2
            and is_double(a) and is_double(b)):
        return np.matmul(a, b, out=empty((len(a), b.shape[1])))
    return a @ b


cdef char *place_of(cnp.ndarray v, object key) except? NULL:
    """Where the double lies that integers select; NULL: they select none, or something else does."""
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
    """Bytes from the first to the k-th place along an axis."""
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
        other = beside(other, right if other is left else left)
        left, right = (other, right) if type(right) is ArrayVar else (left, other)
    if not isinstance(other, (ndarray, list, tuple, np.generic, int, float, complex)):
        return matrices.operate((<Kernel>by_opcode[op]).ufunc, left, right)
    if op == WG_POW:
        return power(left, right)
    return binary_any(<Kernel>by_opcode[op], left, right, True)


cdef object in_place(ArrayVar target, object value):
    """An augmented assignment: the value was computed aside and is stored."""
    if value is NotImplemented or target.scalar:
        return value
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
    """A value of an outermost level is about to be stored: the buffer belongs to it from now on.

    False if it belongs to a level inside of that: then the general way is taken.
    """
    settle(buffer)
    if buffer.level is not None:
        if buffer.level is not level and buffer.level.depth == level.depth:
            if level.tape != NULL and buffer.level.tape == level.tape:
                raise LevelError(outside_message(level))
            raise LevelError(mixed_message(buffer.level, level))
        return buffer.level is level
    if buffer.escaped is not None:
        raise TracedValueError(messages.escaped_message(buffer.escaped))
    if level.kind == REVERSE:
        if level.tape == NULL:
            raise LevelError(ended_message(level))
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


cdef int store(Buffer buffer, cnp.ndarray view, object key, object value) except -1:
    """Write a value into a view (or at an advanced index of it), keeping what it overwrites."""
    cdef Tape tape, source_tape = None
    cdef Node node
    cdef Level level
    cdef tuple source = None
    cdef bint is_first
    if (buffer.level is not None and buffer.level.tape == NULL and not buffer.level.live and key is None
            and <Py_ssize_t>cnp.PyArray_NBYTES(view) == buffer.span):
        give_back(buffer)           # a work array kept from an earlier call, overwritten before it is read
    if isinstance(value, (list, tuple)):
        value = dispatch.stacked(value)
    value = as_numpy(value)
    tape = tape_of(buffer)
    level = inner(standing(buffer.level), level_of(value))
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
            source = (0, -1, (<ArrayVar>value).buffer, outline(<cnp.ndarray>plain), -1)
    else:
        plain = value
    place = Ellipsis if key is None else key
    if tape is None and source_tape is None:
        view[place] = plain
        return 0
    tape = common_tape(tape, source_tape)
    if tape.is_full:
        tape.make_room()
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
        # NumPy drops leading axes of length 1 of what is assigned: so must the adjoint see it
        plain = plain.reshape(np.shape(plain)[np.ndim(plain) - np.ndim(view[place]):])
        node.sources = [(0, -1, source[2], outline(<cnp.ndarray>plain), -1)]
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
    """At an advanced index with repeats: which of the writes is the one that stayed. None without repeats."""
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
        # one element: what NumPy returns is a scalar, a copy
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
    node.sources = [(0, -1, x.buffer, outline(view, tape.recording), -1)]
    found = result(tape, node, y)
    if tape.recording and node.y is not None:
        node.y = outline(node.y, True)
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
        if cnp.PyArray_NDIM(x.v) == 0:      # a mask of no axes: all or nothing
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
        return 0            # x[i] += y writes in place and then assigns the view to itself
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


cdef object hand_out(ArrayVar x, object dtype, object copy):
    """The ndarray of a clean array, which is then marked: NumPy or C code may keep it."""
    if is_live(x.buffer):
        settle(x.buffer)            # its own error if it has ended
        if is_passive(x) or frames.is_asserted():
            return np.array(observed(x), dtype=dtype)
        raise checks.refusal(x, messages.array_message())
    if copy or (dtype is not None and dtype != x.v.dtype):
        return np.array(x.v, dtype=dtype, copy=True)
    if x.buffer.escaped is None:
        x.buffer.escaped = frames.caller()
    return x.v


# ---------------------------------------------------------------------------------------------- for Python code

cpdef object clean(array):
    """An array that records nothing until a traced value is stored into it."""
    return array_var(new_buffer(<cnp.ndarray>array, None), <cnp.ndarray>array)


cpdef bint is_var(x):
    """Is `x` traced, or a clean array?"""
    return type(x) is ScalarVar or type(x) is ArrayVar or type(x) is ScalarDual or type(x) is FloatVar


cdef inline bint is_scalar_var(x):
    """Is `x` a scalar of an outermost level?"""
    return type(x) is ScalarVar or type(x) is ScalarDual


cpdef bint is_traced(x):
    """Does `x` carry a derivative?"""
    if type(x) is ArrayVar:
        return is_live((<ArrayVar>x).buffer)
    return is_scalar_var(x) or type(x) is FloatVar


cdef inline Level standing(Level level):
    """The level of the tape that records what happens to values of `level`: its own, or that of a tail."""
    return level if level is None or level.tape == NULL else (<Tape>level.tape).level


cpdef Level level_of(x):
    """Level that an operand belongs to, or None; one that has ended is an error while another is running."""
    cdef Level level
    if type(x) is ScalarVar:
        level = standing((<ScalarVar>x).tape.level)
    elif type(x) is ScalarDual:
        level = (<ScalarDual>x).level
    elif type(x) is ArrayVar:
        settle((<ArrayVar>x).buffer)
        return standing((<ArrayVar>x).buffer.level)
    elif type(x) is FloatVar:
        return level_of((<FloatVar>x).x)
    else:
        return None
    if level.tape == NULL and not level.live:
        raise LevelError(ended_message(level))
    return level


cpdef Level made_at(x):
    """Level at which an operand was made, whether or not it has ended."""
    if type(x) is ScalarVar:
        return (<ScalarVar>x).tape.level
    if type(x) is ScalarDual:
        return (<ScalarDual>x).level
    if type(x) is FloatVar:
        return made_at((<FloatVar>x).x)
    return (<ArrayVar>x).buffer.level if type(x) is ArrayVar else None


cpdef Level inner(Level one, Level other):
    """The inner of two levels, either of which may be None; two at one depth never meet."""
    if one is None or one is other:
        return other
    if other is None:
        return one
    if one.depth == other.depth:
        raise LevelError(mixed_message(one, other))
    return one if one.depth > other.depth else other


cpdef Level innermost(x):
    """The innermost level of the operands in nested lists and tuples; None if nothing is traced."""
    cdef Level level = None
    if isinstance(x, (list, tuple)):
        for item in x:
            level = inner(level, innermost(item))
        return level
    return level_of(x)


cpdef object lower(x, Level level):
    """`x` as the level around `level` sees it: values of `level` become what they are there, clean arrays plain."""
    cdef Buffer buffer
    cdef Level own
    x = as_numpy(x)
    if type(x) is ArrayVar:
        buffer = (<ArrayVar>x).buffer
        own = standing(buffer.level)
        if own is None or (own is level and buffer.under is None):
            return value_of(x)
        if own is not level:
            return x
        if type(buffer.under) is not Buffer:
            return buffer.under
        if (<Buffer>buffer.under).level is None:
            return (<ArrayVar>x).v
        return array_var(<Buffer>buffer.under, (<ArrayVar>x).v)
    if is_scalar_var(x):
        return value_of(x) if level_of(x) is level else x
    if (type(x) is list or type(x) is tuple) and holds_var(x):
        return type(x)([lower(item, level) for item in x])
    return x


cpdef bint holds_var(x):
    """Is there an operand in `x`, or in the lists and tuples of `x`?"""
    if is_var(x):
        return True
    if isinstance(x, (list, tuple)):
        for item in x:
            if holds_var(item):
                return True
    return False


cpdef bint holds_traced(x):
    """Is there a value in `x` that carries a derivative?"""
    if is_var(x):
        return is_traced(x)
    if isinstance(x, (list, tuple)):
        for item in x:
            if holds_traced(item):
                return True
    return False


cpdef object plain(x):
    """`x` with every operand in it replaced by its value; lists and tuples are searched."""
    if is_var(x):
        return value_of(x)
    if (type(x) is list or type(x) is tuple) and holds_var(x):
        return type(x)([plain(item) for item in x])
    return x


def is_scalar(x):
    """Is `x` a traced scalar, of whatever dtype?"""
    return is_scalar_var(x) or type(x) is FloatVar or (type(x) is ArrayVar and (<ArrayVar>x).scalar)


cpdef object value_of(x):
    """Plain value of an operand: a NumPy scalar, or the array itself (not a copy)."""
    if type(x) is ScalarVar:
        return float64((<ScalarVar>x).v)
    if type(x) is ScalarDual:
        return float64((<ScalarDual>x).v)
    if type(x) is ArrayVar:
        return (<ArrayVar>x).v[()] if (<ArrayVar>x).scalar else (<ArrayVar>x).v
    if type(x) is FloatVar:
        return (<FloatVar>x).x.v
    return x


def view_of(ArrayVar x, view):
    """The operand for an array that shares the memory of `x`."""
    return array_var(x.buffer, <cnp.ndarray>view)


cpdef bint shares_memory(ArrayVar x, y):
    """Does the array `y` lie in the memory of `x`?"""
    cdef cnp.ndarray array = <cnp.ndarray>y
    cdef char *data = <char *>cnp.PyArray_DATA(array)
    return (cnp.PyArray_SIZE(array) > 0 and data >= x.buffer.low and data < x.buffer.low + x.buffer.span)


cpdef bint scalar_list(items):
    """Is this a list or tuple of float64 scalars, at least one of them traced by an outermost level?"""
    cdef bint traced = False
    if not items:
        return False
    for x in items:
        if is_scalar_var(x) or type(x) is FloatVar:
            traced = True
        elif not (type(x) is float or type(x) is float64 or type(x) is int):
            return False
    return traced


def stack_scalars(items):
    """The array that ``np.array`` would make of such a list: one write an element."""
    cdef cnp.npy_intp n = len(items), i = 0
    cdef cnp.ndarray array = empty_array(1, &n)
    cdef double *data = <double *>cnp.PyArray_DATA(array)
    cdef Buffer buffer = new_buffer(array, None)
    cdef double c = 0.0
    cdef ScalarVar s
    cdef Tape tape
    memset(data, 0, n * sizeof(double))
    for x in items:
        x = as_numpy(x)
        if type(x) is ScalarVar:
            s = <ScalarVar>x
            tape = current(s.tape)
            if buffer.level is not tape.level:
                activate(buffer, tape.level)
            store_element(tape, buffer, array, <char *>(data + i), s.slot, s.v)
        elif type(x) is ScalarDual:
            if buffer.level is not (<ScalarDual>x).level:
                activate(buffer, (<ScalarDual>x).level)
            store_dual(buffer, <char *>(data + i), <ScalarDual>x)
        else:
            number(x, &c)
            data[i] = c
        i += 1
    return array_var(buffer, array)


def assign(ArrayVar x, value):
    """x[...] = value."""
    store(x.buffer, x.v, None, value)


def as_array(x):
    """A traced scalar as a 0-d traced array, a copy."""
    return dispatch.function(np.copy, (x,), {})


def constant_copy(Level level not None, x):
    """A copy of a constant array that an entry refers to, made once while the array does not change."""
    if level.kind == REVERSE:
        return kept_constant(<Tape>level.tape, <cnp.ndarray>x)
    return x if level.kind == FORWARD else x.copy(order="K")


def record(Level level not None, row, tuple args, dict kwargs, list operands, y, index_map=None, compute=None):
    """The result of a call as an operand of `level`: an entry is appended, or its tangents are computed.

    `operands` are ``(position, item, operand)``, those of `level`; `args` the arguments and `y` the result as the
    level around sees them.
    `index_map` says for a rearrangement, when called with the entry, where each element of the result came from.
    `compute`, of `args` and `kwargs`, gives `y` again: for a list that is replayed.
    """
    cdef Node node
    cdef list sources = []
    cdef cnp.ndarray view
    cdef bint recording
    if level.kind == FORWARD:
        return forward_call(level, row, args, kwargs, operands, y, index_map)
    if level.kind == NESTED:
        return level.recorder.record(row, args, kwargs, operands, y, index_map)
    node = Node.__new__(Node)
    recording = (<Tape>level.tape).recording
    for position, item, x in operands:
        x = as_numpy(x)
        if type(x) is ScalarVar:
            sources.append((position, item, None, None, (<ScalarVar>x).slot))
        else:
            view = (<ArrayVar>x).v
            sources.append((position, item, (<ArrayVar>x).buffer, outline(view, True) if recording else view, -1))
    if recording:               # is not swept: the operands will be other ones
        args = without(args, operands, row.kind == "custom")
        index_map = None
    node.kind = CALL if index_map is None else REARRANGE
    node.row = row
    node.args = args
    node.kwargs = kwargs
    node.sources = sources
    node.saved = index_map
    node.compute = compute
    node.aslot = node.bslot = -1
    x = result(<Tape>level.tape, node, y)
    if recording and node.y is not None:
        node.y = outline(node.y, True)
    return x


cdef tuple without(args, list operands, bint is_custom):
    """Arguments without the operands among them."""
    cdef list found = list(args)
    for position, item, _ in operands:
        if item < 0 or is_custom:
            found[position if item < 0 else item] = None
        else:
            items = [*found[position]]
            items[item] = None
            found[position] = items if type(found[position]) is list else tuple(items)
    return tuple(found)


cpdef object class_of(x):
    """The type of a value as plain code would see it: of what an operand or a twin stands for."""
    kind = type(x)
    if kind is ScalarVar or kind is ScalarDual:
        return float64
    if kind is FloatVar:
        return float
    if kind is ArrayVar:
        return (<ArrayVar>x).v.dtype.type if (<ArrayVar>x).scalar else ndarray
    original = getattr(kind, "_wengert_original", None)
    if original is not None:
        return original
    module = kind.__module__
    return x.__class__ if type(module) is str and module.startswith("wengert.") else kind


@cython.final
@cython.auto_pickle(False)
cdef class Type:
    """What the name `type` holds in followed code where it is called, or read from.

    One that `keeps_twins` is for ``type(self)(...)``: it gives the class whose methods are followed.
    This module has no frames: a class made here is of the caller's module.
    """

    cdef bint keeps_twins

    def __init__(self, keeps_twins=False):
        self.keeps_twins = keeps_twins

    def __call__(self, *args, **kwargs):
        if len(args) != 1 or kwargs:
            return type(*args, **kwargs)
        found = class_of(args[0])
        return type(args[0]) if self.keeps_twins and found is not ndarray and is_twin(type(args[0])) else found

    def __getattribute__(self, name):
        return getattr(type, name)


cdef bint is_twin(kind):
    return hasattr(kind, "_wengert_original")


include "recorded.pxi"
include "floats.pxi"
include "dual.pxi"
include "carried.pxi"
