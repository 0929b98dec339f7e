# Bounds checks are off, since user indices are checked explicitly; C division is on, since users supply no divisors.
# With c_api_binop_methods, Cython also calls `__add__(left, right)` if only the right operand is of this class.
# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
# cython: c_api_binop_methods=True
"""Operands: the traced values that stand for the scalars and arrays of a differentiated function.

`ScalarVar` (reverse mode) and `ScalarDual` (forward mode) stand for a ``numpy.float64``, `ArrayVar` for an
``ndarray``, and `FloatVar`, which wraps a scalar, for a Python ``float``. ``__class__`` is the class that an operand
stands for, ``type()`` its own class.
Arithmetic computes the same bits as NumPy. In reverse mode it also appends an entry to the operand's tape, in forward
mode it computes the tangents of the result.

An `ArrayVar` has the level of its buffer: a tape, a forward level, a nested level (a derivative within another one), or
None if it is *clean*: a constant that records nothing until a traced value is stored into it.
A scalar of a nested level is a 0-d `ArrayVar`.

The included files define the operand classes and their operations. This file defines the functions on operands that
other modules call.
"""

cimport cython
cimport numpy as cnp
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_Check, PyLong_CheckExact
from cpython.number cimport PyIndex_Check, PyNumber_AsSsize_t
from cpython.object cimport (
    Py_EQ, Py_GE, Py_GT, Py_LE, Py_LT, Py_NE, PyObject, PyObject_RichCompare, PyObject_TypeCheck, PyTypeObject,
)
from libc.math cimport INFINITY, NAN, fabs, pow, sqrt
from libc.stdint cimport int32_t
from libc.string cimport memcpy, memset

import operator
import weakref

import numpy as np

from cpython.mem cimport PyMem_Free, PyMem_Malloc
from wengert.core.tape.kernel cimport Kernel, by_opcode, kernel_of, kernels
from wengert.core.tape.memory cimport (
    FORWARD, NESTED, REVERSE, Buffer, Level, empty_array, is_double, is_vector, new_buffer, view_descriptor,
    same_shape, view_at,
)
from wengert.core.tape.tape cimport *

from wengert import features
from wengert.core import frames, levels, messages
from wengert.core.rebind.follow import space_of
from wengert.core.tape.local_derivatives import elementwise, partial
from wengert.core.tape.memory import empty
from wengert.errors import LevelError, TracedValueError

cnp.import_array()

cdef extern from *:
    """
    /* float64 supports x[()] but is not a sequence; with sq_item set, NumPy's errors would mention sequences. */
    static void wg_not_a_sequence(PyTypeObject *type) {
        if (type->tp_as_sequence) type->tp_as_sequence->sq_item = NULL;
        PyType_Modified(type);
    }
    /* Set `__hash__` to None in the class dictionary, where `collections.abc.Hashable` looks it up: arrays are not
       hashable. The slot stays: it hashes 0-d arrays that stand for scalars, and raises an error for other arrays. */
    static int wg_not_hashable(PyTypeObject *type) {
        int failed = PyDict_SetItemString(type->tp_dict, "__hash__", Py_None);
        PyType_Modified(type);
        return failed;
    }
    /* `case [a, b]` matches an ndarray since NumPy 2.5, although it is no `collections.abc.Sequence`. */
    static void wg_match_like(PyTypeObject *type, PyTypeObject *other) {
        type->tp_flags |= other->tp_flags & Py_TPFLAGS_SEQUENCE;
        PyType_Modified(type);
    }
    /* Cython's `__getbuffer__` has already set view->obj, so release it first. */
    static int wg_get_buffer(PyObject *owner, Py_buffer *view, int flags) {
        Py_CLEAR(view->obj);
        return PyObject_GetBuffer(owner, view, flags);
    }
    """
    void wg_not_a_sequence(PyTypeObject *type)
    int wg_not_hashable(PyTypeObject *type) except -1
    void wg_match_like(PyTypeObject *type, PyTypeObject *other)
    int wg_get_buffer(object owner, Py_buffer *view, int flags) except -1

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
cdef object np_sum = np.sum, add_reduce = np.add.reduce
#: while a derivative is rerun: where arrays that are filled were made; buffer -> where it was made
cdef object filled_places = None, origins = None
cdef Kernel u_power = kernels[np.power]

# Modules of higher layers that operands call; set by `wengert.core.hooks`.
cdef object arguments = None, checks = None, dispatch = None, forward = None, matrices = None, methods = None
cdef object sparse_callers = None, subclasses = None, instances = None

cdef bint has_instances = False       # has a traced instance of a subclass of ndarray ever been made?


def set_modules(modules):
    """Set the modules of `core.dispatch` and `core.modes` that operands call."""
    global arguments, checks, dispatch, forward, matrices, methods, sparse_callers, subclasses, instances
    arguments, checks, dispatch, forward, matrices, methods, sparse_callers, subclasses, instances = modules


def note_instances():
    """Note that traced instances of subclasses of `ndarray` may occur."""
    global has_instances
    has_instances = True


cpdef bint may_hold_instances() noexcept:
    """Return whether traced instances of subclasses of `ndarray` may occur."""
    return has_instances


cdef enum:
    TESTS_OPERANDS, TESTS_SCALARS, WRITES_JSON

#: modules that test the class of a value, and for which purpose
cdef dict CLASS_TESTERS = {
    "scipy.sparse._base": TESTS_OPERANDS,
    "scipy.sparse._coo": TESTS_OPERANDS,
    "scipy.sparse._sputils": TESTS_OPERANDS,
    "numpy._core.numeric": TESTS_SCALARS,
    "numpy.core.numeric": TESTS_SCALARS,
    "abc": TESTS_SCALARS,
    "json.encoder": WRITES_JSON,
}


cdef bint reveals_own_class(object x, bint scalar) except -1:
    """Return whether `x` should reveal its own class to the calling code instead of the class it stands for.

    SciPy's sparse operators pass arrays to compiled code, but defer to operands of unknown classes.
    """
    cdef PyObject *space = PyEval_GetGlobals()
    cdef PyObject *name = NULL if space == NULL else PyDict_GetItem(<object>space, "__name__")
    cdef PyObject *asks = NULL if name == NULL else PyDict_GetItem(CLASS_TESTERS, <object>name)
    if asks == NULL:
        return False
    if <object>asks == WRITES_JSON:
        if scalar:
            checks.refuse_json(x)
        return False
    return (scalar or <object>asks == TESTS_OPERANDS) and sparse_callers.is_class_test()


cdef int fill_buffer(object x, Py_buffer *view, int flags) except -1:
    """Fill `view` with the buffer of the array that `x` converts to; raise wherever that conversion raises.

    NumPy requests a buffer before it calls ``__array__``.
    """
    if matrices.array_for_scipy(x) is not None:
        raise BufferError("no memory")
    return wg_get_buffer(x.__array__(), view, flags)


@cython.auto_pickle(False)
cdef class BufferExporter:
    """Base of Python classes whose ``_export_buffer()`` raises when code requests their memory."""

    def __getbuffer__(self, Py_buffer *view, int flags):
        self._export_buffer()
        raise BufferError("no memory")


include "searches.pxi"
include "scalars.pxi"


# ---------------------------------------------------------------------------------------------- buffers

cdef inline Tape tape_of(Buffer buffer):
    """Return the running tape that a buffer belongs to, or None if it is clean."""
    if buffer.level is None:
        return None
    if buffer.level.tape == NULL:
        check_ended(buffer)
        return None
    return <Tape>buffer.level.tape


cdef bint has_outer_reference(Buffer buffer):
    """Return whether an enclosing tape that is still recording refers to this buffer of a nested level."""
    while type(buffer.under) is Buffer:
        buffer = <Buffer>buffer.under
        if buffer.level is not None and buffer.level.tape != NULL:
            return True
    return False


cdef int check_ended(Buffer buffer) except -1:
    """Make a buffer of an ended derivative clean; raise if another derivative is running or refers to the buffer."""
    if buffer.level is None or buffer.level.tape != NULL or buffer.level.live:
        return 0
    if not has_ended(buffer.level) or has_outer_reference(buffer):
        raise LevelError(messages.ended_message(buffer.level))
    make_clean(buffer)
    return 0


cdef int make_clean(Buffer buffer) except -1:
    """Turn a buffer that outlived its derivative into plain memory, whose values are constants."""
    buffer.level = None
    buffer.id = -1
    buffer.owner = None
    buffer.written = False
    buffer.under = None
    buffer.tangent_owner = None
    return 0


cdef int return_to_outer(Buffer buffer) except -1:
    """Hand a buffer whose derivative has ended back to the enclosing level before it is overwritten as a whole."""
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
    """Return whether the buffer carries a derivative; an ended one counts while another runs: its use is an error."""
    if buffer.level is None:
        return False
    if (buffer.level.tape == NULL and not buffer.level.live and has_ended(buffer.level)
            and not has_outer_reference(buffer)):
        make_clean(buffer)
        return False
    return True


cdef inline bint is_forward(Buffer buffer) noexcept:
    """Return whether the buffer belongs to an outermost forward level, whose tangents are plain arrays."""
    return buffer.level is not None and buffer.level.kind == FORWARD and buffer.level.depth == 0 and buffer.level.live


cdef Tape common_tape(Tape one, Tape other):
    """Return the tape that records an operation on operands of two tapes; either may be None."""
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
            return messages.ended_message(level)
    return f"a value of {one.name} was combined with a value of {other.name}, which belongs to another derivative"


cdef object result(Tape tape, Node node, object y):
    """Append an entry with value `y`; return its operand: an array, a float64 scalar, or else a 0-d array."""
    cdef cnp.ndarray array
    cdef Buffer buffer
    if tape.is_full:
        tape.flush()
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
        array = <cnp.ndarray>array.copy()       # elements that share memory (stride 0) would share an adjoint
    buffer = new_buffer(array, tape.level)
    buffer.born = <int32_t>tape.n + 1
    node.out = buffer
    node.y = array
    tape.add_node(node, 0.0)
    x = array_var(buffer, array)
    x.scalar = scalar_like
    return x


cpdef int note_complex(Level level) except -1:
    """Note that a complex value occurs at this level, or at a level nested in it."""
    if level.kind == REVERSE and level.tape != NULL:
        (<Tape>level.tape).has_complex = True
    elif level.kind == NESTED:
        level.recorder.has_complex = True
    return 0


cdef ScalarVar append_scalar_slowly(Tape tape, int op, int32_t a, int32_t b, double y):
    """Append an entry when the tape is full or its tail records instead; return the operand of the entry."""
    cdef Tape recorder = current(tape)
    if recorder.n == recorder.capacity:
        recorder.grow()
    return scalar(recorder, push(recorder, op, a, b, y), y)


include "elementwise.pxi"
include "arrays.pxi"
include "stores.pxi"


# ---------------------------------------------------------------------------------------------- for Python code

cpdef object clean(array):
    """Wrap an array as an operand that records nothing until a traced value is stored into it."""
    return array_var(new_buffer(<cnp.ndarray>array, None), <cnp.ndarray>array)


cpdef bint is_var(x):
    """Return whether `x` is an operand: traced, or a clean array."""
    return type(x) is ScalarVar or type(x) is ArrayVar or type(x) is ScalarDual or type(x) is FloatVar


cdef inline bint is_scalar_var(x):
    """Return whether `x` is a float64 scalar of an outermost level."""
    return type(x) is ScalarVar or type(x) is ScalarDual


cpdef bint is_traced(x):
    """Return whether `x` carries a derivative."""
    if type(x) is ArrayVar:
        return is_live((<ArrayVar>x).buffer)
    return is_scalar_var(x) or type(x) is FloatVar


cpdef Level level_of(x):
    """Return the level of an operand, or None; raise if it has ended while another is running."""
    cdef Level level
    if type(x) is ScalarVar:
        level = active_level((<ScalarVar>x).tape.level)
    elif type(x) is ScalarDual:
        level = (<ScalarDual>x).level
    elif type(x) is ArrayVar:
        check_ended((<ArrayVar>x).buffer)
        return active_level((<ArrayVar>x).buffer.level)
    elif type(x) is FloatVar:
        return level_of((<FloatVar>x).x)
    else:
        return None
    if level.tape == NULL and not level.live:
        raise LevelError(messages.ended_message(level))
    return level


cpdef Level made_at(x):
    """Return the level at which an operand was made, running or ended."""
    if type(x) is ScalarVar:
        return (<ScalarVar>x).tape.level
    if type(x) is ScalarDual:
        return (<ScalarDual>x).level
    if type(x) is FloatVar:
        return made_at((<FloatVar>x).x)
    return (<ArrayVar>x).buffer.level if type(x) is ArrayVar else None


cpdef Level inner(Level one, Level other):
    """Return the inner of two levels, either of which may be None; raise if both have the same depth."""
    if one is None or one is other:
        return other
    if other is None:
        return one
    if one.depth == other.depth:
        raise LevelError(mixed_message(one, other))
    return one if one.depth > other.depth else other


cpdef Level innermost(x):
    """Return the innermost level of the operands in nested lists and tuples, or None if nothing is traced."""
    cdef Level level = None
    if isinstance(x, (list, tuple)):
        for item in x:
            level = inner(level, innermost(item))
        return level
    return level_of(x)


cpdef object lower(x, Level level):
    """Return `x` at the level enclosing `level`: its operands become their values there, clean arrays become plain."""
    cdef Buffer buffer
    cdef Level own
    x = as_numpy(x)
    if type(x) is ArrayVar:
        buffer = (<ArrayVar>x).buffer
        own = active_level(buffer.level)
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
    """Return whether `x` is an operand or a list or tuple that holds one at any depth."""
    if is_var(x):
        return True
    if isinstance(x, (list, tuple)):
        for item in x:
            if holds_var(item):
                return True
    return False


cpdef bint holds_traced(x):
    """Return whether `x`, or an item of its nested lists and tuples, carries a derivative."""
    if is_var(x):
        return is_traced(x)
    if isinstance(x, (list, tuple)):
        for item in x:
            if holds_traced(item):
                return True
    return False


cpdef object plain(x):
    """Replace every operand in `x`, including those in lists and tuples, by its plain value."""
    if is_var(x):
        return value_of(x)
    if (type(x) is list or type(x) is tuple) and holds_var(x):
        return type(x)([plain(item) for item in x])
    return x


def is_scalar(x):
    """Return whether `x` is a traced scalar of any dtype."""
    return is_scalar_var(x) or type(x) is FloatVar or (type(x) is ArrayVar and (<ArrayVar>x).scalar)


cdef object array_of_clean(ArrayVar x):
    """Return the array for which an operand stands if it carries no derivative, else the operand.

    Arrays that a function makes within a derivative, and keeps, stay operands when the derivative has ended.
    """
    return x if x.scalar or is_live(x.buffer) else x.v


cpdef object value_of(x):
    """Return the plain value of an operand: a NumPy scalar, or the array itself (not a copy)."""
    if type(x) is ScalarVar:
        return float64((<ScalarVar>x).v)
    if type(x) is ScalarDual:
        return float64((<ScalarDual>x).v)
    if type(x) is ArrayVar:
        return (<ArrayVar>x).v[()] if (<ArrayVar>x).scalar else (<ArrayVar>x).v
    if type(x) is FloatVar:
        return float(value_of((<FloatVar>x).x))
    return x


def view_of(ArrayVar x, view):
    """Return the operand for an array that shares the memory of `x`."""
    return array_var(x.buffer, <cnp.ndarray>view)


cpdef bint shares_memory(ArrayVar x, y):
    """Return whether the array `y` lies in the memory of `x`."""
    cdef cnp.ndarray array = <cnp.ndarray>y
    cdef char *data = <char *>cnp.PyArray_DATA(array)
    return (cnp.PyArray_SIZE(array) > 0 and data >= x.buffer.low and data < x.buffer.low + x.buffer.span)


def is_same(x, y):
    """Return whether two operands have the same value and the same derivatives.

    On a tape, only operands with the same slot or the same memory count as the same.
    """
    x, y = as_numpy(x), as_numpy(y)
    if x is y:
        return True
    if not (is_traced(x) or is_traced(y)):
        return bool(np.array_equal(x, y))
    if type(x) is not type(y) or level_of(x) is not level_of(y):
        return False
    if type(x) is ScalarVar:
        return (<ScalarVar>x).slot == (<ScalarVar>y).slot
    if type(x) is ArrayVar and (<ArrayVar>x).buffer is (<ArrayVar>y).buffer:
        a, b = (<ArrayVar>x).v, (<ArrayVar>y).v
        if a.ctypes.data == b.ctypes.data and a.shape == b.shape and a.strides == b.strides:
            return True
    level = level_of(x)
    if (<Level>level).kind != FORWARD:
        return False
    return is_same(tangents_of(x), tangents_of(y)) and is_same(lower(x, level), lower(y, level))


cpdef bint scalar_list(items):
    """Return whether `items` are float64 scalars, at least one of them traced by an outermost level."""
    cdef bint traced = False
    if not items:
        return False
    for x in items:
        if is_scalar_var(as_numpy(x)):
            traced = True
        elif not (type(x) is float or type(x) is float64 or type(x) is int):
            return False
    return traced


def stack_scalars(items):
    """Return ``np.array(items)`` for a list accepted by `scalar_list`; stores the elements one by one."""
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
            as_double(x, &c)
            data[i] = c
        i += 1
    return array_var(buffer, array)


def assign(ArrayVar x, value):
    """Assign ``x[...] = value``."""
    store(x.buffer, x.v, None, value)


def as_array(x):
    """Copy a traced scalar to a 0-d traced array."""
    return dispatch.function(np.copy, (x,), {})


def constant_copy(Level level not None, x):
    """Copy a constant array for a tape entry; entries share the copy while the array does not change."""
    if level.kind == REVERSE:
        return kept_constant(<Tape>level.tape, <cnp.ndarray>x)
    return x if level.kind == FORWARD else x.copy(order="K")


def record(Level level not None, row, tuple args, dict kwargs, list operands, y, index_map=None, compute=None):
    """Return the result of a call as an operand of `level`: append an entry, or compute its tangents.

    `operands` are the operands of `level`, as ``(position, item, operand)``. `args` and `y` are the arguments and the
    result at the enclosing level.
    ``index_map(entry)`` returns the source of each element of the result of a rearrangement.
    ``compute(*args, **kwargs)`` returns `y`, for a tape that is replayed.
    """
    cdef Node node
    cdef list sources = []
    cdef cnp.ndarray view
    cdef bint recording
    if holds_floats:
        operands = [(position, item, as_numpy(x)) for position, item, x in operands]
    if level.kind == FORWARD:
        return forward_call(level, row, args, kwargs, operands, y, index_map)
    if level.kind == NESTED:
        return level.recorder.record(row, args, kwargs, operands, y, index_map)
    recording = (<Tape>level.tape).recording
    for position, item, x in operands:
        if type(x) is ScalarVar:
            sources.append((position, item, None, None, (<ScalarVar>x).slot))
        else:
            view = (<ArrayVar>x).v
            if recording:
                view = view_descriptor(view, True)
            sources.append((position, item, (<ArrayVar>x).buffer, view, -1))
    if recording:               # the tape is replayed with other operands, never swept
        args = without_operands(args, operands, row.kind == "custom")
        index_map = None
    node = new_node(CALL if index_map is None else REARRANGE, row)
    node.args = args
    node.kwargs = kwargs
    node.sources = sources
    node.saved = index_map
    node.compute = compute
    x = result(<Tape>level.tape, node, y)
    if recording and node.y is not None:
        node.y = view_descriptor(node.y, True)
    return x


cdef tuple without_operands(args, list operands, bint is_custom):
    """Replace the operands among the arguments by None."""
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
    """Return the type that `x` has in plain code: the class that an operand or a proxy stands for."""
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
    is_ours = type(module) is str and module.startswith("wengert.")
    return x.__class__ if is_ours or reports_class(kind) else kind


@cython.final
@cython.auto_pickle(False)
cdef class Type:
    """Stands in for the builtin `type` in rebound code, for calls and attribute access.

    With `keeps_rebound`, used for ``type(self)(...)``, a call returns the class with rebound methods.
    Cython code has no frame, so a class created through it gets the caller's ``__module__``.
    """

    cdef bint keeps_rebound

    def __init__(self, keeps_rebound=False):
        self.keeps_rebound = keeps_rebound

    def __call__(self, *args, **kwargs):
        if len(args) != 1 or kwargs:
            return type(*args, **kwargs)
        found = class_of(args[0])
        is_kept = self.keeps_rebound and found is not ndarray and is_rebound_class(type(args[0]))
        return type(args[0]) if is_kept else found

    def __getattribute__(self, name):
        return getattr(type, name)


cdef bint is_rebound_class(kind):
    return hasattr(kind, "_wengert_original") or reports_class(kind)


cdef bint reports_class(kind):
    """Return whether instances report in ``__class__`` the class that they stand for."""
    return hasattr(kind, "_wengert_reports_class")


include "recorded.pxi"
include "floats.pxi"
include "dual.pxi"
include "carried.pxi"
