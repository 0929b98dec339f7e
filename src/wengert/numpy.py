"""Drop-in replacement of NumPy for differentiated functions, with creation functions that return clean arrays.

A clean array is an untraced constant into which traced values may be stored.
``import wengert.numpy as np`` selects these versions for a module. A function under differentiation uses them anyway,
wherever its names refer to NumPy.
Outside derivatives every function here behaves as NumPy's does.
"""

from __future__ import annotations

import builtins as _builtins
import functools as _functools
import importlib as _importlib
import itertools as _itertools
import operator as _operator
import sys as _sys
import types as _types

import numpy as _np

from wengert import errors as _errors
from wengert import features as _features
from wengert import registry as _registry
from wengert import rules as _rules  # noqa: F401  (registers the rules)
from wengert.core import frames as _frames
from wengert.core import levels as _levels
from wengert.core.dispatch import arguments as _arguments
from wengert.core.dispatch import cached as _cached  # noqa: F401  (functions with a cache)
from wengert.core.dispatch import direct as _direct
from wengert.core.dispatch import dispatch as _dispatch
from wengert.core.dispatch import instances as _instances
from wengert.core.dispatch import lifted as _lifted
from wengert.core.dispatch import methods as _methods
from wengert.core.dispatch import mixed as _mixed
from wengert.core.dispatch import refusing as _refusing
from wengert.core.dispatch import subclasses as _subclasses
from wengert.core.dispatch.class_proxies import Methods as _Methods
from wengert.core.dispatch.class_proxies import ScalarClass as _ScalarClass
from wengert.core.dispatch.ufunc import ScalarFunction as _ScalarFunction
from wengert.core.dispatch.ufunc import proxy as _proxy
from wengert.core.modes import own_copies as _own_copies  # noqa: F401  (arguments that a function writes into)
from wengert.core.operands import var as _var
from wengert.core.rebind import identity as _identity
from wengert.core.rebind import new_arrays as _new_arrays
from wengert.core.rebind import registration as _registration
from wengert.core.rebind import rename as _rename
from wengert.core.rebind import results as _results
from wengert.deferred import deferred as _deferred

_copy = _deferred("copy")
_machinery = _deferred("importlib.machinery")
_object_arrays = _deferred("wengert.core.dispatch.object_arrays")
_util = _deferred("importlib.util")


def __dir__():
    return dir(_np)


def _made(array):
    """Wrap a new array for the running derivative: clean, lifted or plain."""
    array = array.view(_np.ndarray) if type(array) is _Constant else array
    lift = _levels.lifted_by()
    if lift is not None:
        return lift.made(array)
    return _arguments.clean(array) if _levels.is_tracing() else array


def _named_like(fun, call):
    """Give `call` the name and documentation of `fun`, in half the time that `functools.wraps` takes."""
    call.__module__, call.__name__, call.__qualname__ = fun.__module__, fun.__name__, fun.__name__
    call.__doc__, call.__wrapped__ = fun.__doc__, fun
    return call


def _creation(name):
    """Wrap a NumPy function that creates an array from untraced arguments."""
    fun = getattr(_np, name)

    def create(*args, **kwargs):
        kwargs.pop("like", None)
        if _var.may_record():
            first = args[:1] if name.endswith("_like") else ()
            args = first + tuple(map(_arguments.observed_if_passive, args[len(first) :]))
            kwargs = {key: _arguments.observed_if_passive(value) for key, value in kwargs.items()}
        if _var.holds_traced(args[1:] if name.endswith("_like") else args) or _var.holds_traced(
            tuple(kwargs.values())
        ):
            raise _errors.UnsupportedFunctionError(
                f"numpy.{name} has no derivative with respect to its arguments: build the array from a constant one, "
                "such as start + (stop - start) * numpy.linspace(0, 1, n)"
            )
        result = fun(*_var.plain(args), **{key: _var.plain(value) for key, value in kwargs.items()})
        return _made(result)

    return _named_like(fun, create)


def full(shape, fill_value, dtype=None, order="C", *, device=None, like=None):
    """``numpy.full`` with a possibly traced fill value."""
    if _lifted.holds_lifted(fill_value):
        out = _made(_np.zeros(shape, dtype, order))
        out[...] = fill_value
        return out
    if not _var.holds_traced(fill_value):
        result = _np.full(shape, _var.plain(fill_value), dtype, order)
        return _made(result)
    if dtype is not None and _np.dtype(dtype).kind in "biu":  # truncation is locally constant
        return _np.full(shape, _var.observed(fill_value), dtype, order)
    is_list = isinstance(fill_value, (list, tuple))
    fill_value = _dispatch.stacked(fill_value) if is_list else _var.as_numpy(fill_value)
    out = _var.clean(_np.empty(shape, fill_value.dtype if dtype is None else dtype, order))
    out[...] = fill_value
    return out


def full_like(a, fill_value, dtype=None, order="K", subok=True, shape=None, *, device=None):
    """``numpy.full_like`` with a possibly traced fill value."""
    out = _np.empty_like(_var.plain(a), dtype=dtype, order=order, shape=shape)
    out = out.view(_np.ndarray) if type(out) is _Constant else out
    if not _var.holds_traced(fill_value) or out.dtype.kind in "biu":
        out[...] = _var.observed(fill_value)
        return _made(out)
    out = _var.clean(out)
    out[...] = fill_value
    return out


_plain_linspace = _creation("linspace")


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0, *, device=None):
    """``numpy.linspace`` with possibly traced end points."""
    if not _var.holds_traced((start, stop)):
        return _plain_linspace(start, stop, num, endpoint, retstep, dtype, axis)
    start, stop = (_dispatch.from_list(end) for end in (start, stop))
    num, delta = _operator.index(num), _np.subtract(stop, start)
    steps = (num - 1 if endpoint else num) or 1
    y = _np.reshape(_np.arange(num, dtype=delta.dtype), (-1,) + (1,) * _np.ndim(delta))
    step = delta / steps
    # as in NumPy, which guards against underflow of the step
    y = y / steps * delta + start if _np.any(_np.equal(step, 0)) else y * step + start
    if endpoint and num > 1:
        y[-1, ...] = stop
    y = _np.moveaxis(y, 0, axis) if axis else y
    if dtype is not None:
        y = (_np.floor(y) if _np.issubdtype(dtype, _np.integer) else y).astype(dtype, copy=False)
    return (y, step) if retstep else y


_plain_arange, _plain_logspace, _plain_geomspace, _plain_fromiter = map(
    _creation, ("arange", "logspace", "geomspace", "fromiter")
)


def arange(*args, **kwargs):
    """``numpy.arange`` with possibly traced bounds and step; the number of elements is constant."""
    if _var.may_record():
        args = tuple(map(_arguments.observed_if_passive, args))
    if not _var.holds_traced(args):
        return _plain_arange(*args, **kwargs)
    start, stop, step = (0, *args, 1) if len(args) == 1 else (*args, 1)[:3]
    dtype = _np.arange(*_var.plain(args), **kwargs).dtype
    number = _builtins.max(int(_np.ceil((stop - start) / step)), 0)
    # as in NumPy, the increment is the difference of the first two elements
    return asarray(start + _np.arange(number, dtype=dtype) * ((start + step) - start), dtype)


def logspace(start, stop, num=50, endpoint=True, base=10.0, dtype=None, axis=0):
    """``numpy.logspace`` with possibly traced end points and base."""
    if not _var.holds_traced((start, stop, base)) or _np.ndim(base):
        return _plain_logspace(start, stop, num, endpoint, base, dtype, axis)
    return asarray(_np.power(base, linspace(start, stop, num, endpoint, axis=axis)), dtype)


def fromiter(iter, dtype, count=-1, *, like=None):
    """``numpy.fromiter`` for possibly traced scalars."""
    items = list(iter if count < 0 else _itertools.islice(iter, count))
    has_own = _var.holds_traced(items) or _lifted.holds_lifted(items)
    return array(items, dtype) if has_own else _plain_fromiter(items, dtype, count)


def _by_protocol(object):
    """Replace objects by the traced arrays that their ``__array__`` returns, which NumPy does not accept.

    A list or tuple that holds such objects becomes a list; any other object is returned unchanged.
    """
    if type(object) in (list, tuple):
        items = [*map(_by_protocol, object)]
        is_same = _builtins.all(map(_operator.is_, items, object))
        return object if is_same else items
    if _var.is_var(object) or isinstance(getattr(type(object), "__array__", None), _C_METHODS):
        return object
    made = object.__array__() if hasattr(type(object), "__array__") else object
    return made if _var.is_var(made) or isinstance(made, _lifted.Lifted) else object


_C_METHODS = (_types.MethodDescriptorType, _types.WrapperDescriptorType)
_IF_NEEDED = _np._CopyMode.IF_NEEDED  # means the same as None, but has no truth value


def array(object, dtype=None, *, copy=True, order="K", subok=False, ndmin=0, ndmax=0, like=None):
    """``numpy.array`` for arguments that may hold traced values."""
    if dtype is None and ndmin <= 1 and type(object) in (list, tuple) and _var.scalar_list(object):
        return _var.stack_scalars(object)
    if copy is _IF_NEEDED:
        copy = None
    if _var.may_hold_instances() and _instances.holds_instance(object):
        if subok and isinstance(object, _instances.SubclassVar):
            return _subclasses.array_like(object, array, dtype, copy=copy, order=order, ndmin=ndmin)
        object = _instances.unwrapped(object)
    of_objects = type(object) is _np.ndarray and object.dtype.kind == "O"
    if dtype is not None and of_objects != (_np.dtype(dtype).kind == "O"):
        items = object.tolist() if of_objects else object
        if _var.holds_var(items) or _lifted.holds_lifted(items):
            if not of_objects:
                return _object_arrays.made(object, order, ndmin)
            object = items
    try:
        return _array(object, dtype, copy, order, subok, ndmin)
    except ValueError:
        if (traced := _by_protocol(object)) is object:
            raise
    return _array(traced, dtype, copy, order, subok, ndmin)


def _array(object, dtype, copy, order, subok, ndmin):
    if (lift := _levels.lifted_by()) is not None:
        if _lifted.holds_lifted(object):
            is_kept = isinstance(object, _lifted.Lifted) and not copy and dtype in (None, object.dtype)
            result = object if is_kept else lift.array(object)
            result = result if dtype in (None, result.dtype) else result.astype(dtype)
            if order in ("C", "F") and not result._is_contiguous(order):
                result = _np.copy(result, order=order)
            missing = ndmin - _np.ndim(result)
            return _np.reshape(result, (1,) * missing + _np.shape(result)) if missing > 0 else result
        if copy and not _var.holds_var(object):
            return lift.made(_np.array(object, dtype, order=order, subok=subok, ndmin=ndmin))
    if not _var.holds_var(object):
        if _levels.is_tracing() and (read := _mixed.read_object(object)) is not object:
            return array(read, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)
        result = _np.array(object, dtype, copy=copy, order=order, subok=subok, ndmin=ndmin)
        if result is object or not _levels.is_tracing() or _np.may_share_memory(result, object):
            return result
        return _arguments.clean(result)
    if _var.is_var(object):
        result = _copied(object, order) if copy or _var.is_scalar(object) else object
    else:
        result = _dispatch.stacked(object)
    if dtype is not None and _np.dtype(dtype) != result.dtype:
        result = result.astype(dtype)
    if order in ("C", "F") and not getattr(result.flags, f"{order.lower()}_contiguous"):
        result = _copied(result, order)
    if _np.ndim(result) < ndmin:
        result = _np.reshape(result, (1,) * (ndmin - _np.ndim(result)) + _np.shape(result))
    return result


def _called_ndarray(shape, dtype=float, buffer=None, offset=0, strides=None, order=None):
    """``numpy.ndarray`` as a callable; elsewhere the name refers to the class."""
    result = _np.ndarray(shape, dtype, buffer, offset, strides, order)
    return _made(result) if buffer is None else result


#: classes of NumPy scalars that a traced value can be converted to
_SCALAR_CLASSES = frozenset((_np.float16, _np.float32, _np.float64, _np.complex64, _np.complex128))


def _conversion_to(cls):
    """Return the function that converts traced values like a call of a scalar class of NumPy."""

    def convert(x, /):
        if isinstance(x, _lifted.Lifted):
            return x.astype(cls)
        return asarray(x).astype(cls)[()] if not _var.is_scalar(x) else _var.as_numpy(x).astype(cls)

    return convert


def _of_library(name):
    """Return the function of this name in `standard_library`, which is imported by the first call."""
    found = None

    def convert(*args, **kwargs):
        nonlocal found
        if found is None:
            _registration.register_deferred("math")
            found = getattr(_importlib.import_module("wengert.standard_library"), name)
        return found(*args, **kwargs)

    return convert


def _operator_of_float(name):
    """Return the function for a method of ``float`` that is an operator, such as ``float.__mul__``."""
    return _ScalarFunction(getattr(float, name), _functools.partial(_of_library("float_method"), name))


_BINARY = "add sub mul truediv floordiv mod divmod pow".split()
_OTHER = "neg pos abs bool float lt le eq ne gt ge".split()
_operators_of_float = {
    f"__{name}__": _operator_of_float(f"__{name}__") for name in [*_BINARY, *(f"r{name}" for name in _BINARY), *_OTHER]
}

#: whether ``sum`` compensates for rounding errors when it adds floats, as it does from Python 3.12 on
_adds_floats_exactly = _builtins.sum([1e16, 1.0, -1e16]) == 1.0


def _sum(iterable, /, start=0):
    """``sum``, also of traced Python floats."""
    return (_sum_of_floats if _var.may_hold_floats() else _builtins.sum)(iterable, start)


_sum_of_floats = _of_library("total")
_read_ndarray = _Methods(_np.ndarray, {"__new__": _instances.new})
_read_float64 = _Methods(_np.float64)


def _operands(pair):
    """Return the operands of an operator, the right one first, in the form in which they can meet traced values."""
    left, right = pair
    new_left, new_right = _as_operand(left, right), _as_operand(right, left)
    if new_left is not left or new_right is not right:
        _new_arrays.note_operand(_sys._getframe(1))
    return new_right, new_left


def _as_operand(value, other):
    """Return an array for a list or tuple of traced values that meets an array, or a scalar that counts as one.

    Return the data of a masked array without masked elements that meets a traced value.
    """
    if type(value) in (list, tuple):
        is_array = isinstance(other, (_np.ndarray, _np.inexact)) and _var.holds_var(value)
        return _dispatch.stacked(value) if is_array else value
    is_plain = type(value) is _np.ndarray or not isinstance(value, _np.ndarray) or not _var.holds_var(other)
    return value if is_plain or not _subclasses.is_unmasked(value) else value.data


class _Constant(_np.ndarray):
    """View of a plain array that f reads from outside; copies and results of operations are clean arrays."""

    _wengert_original = _np.ndarray
    _wengert_whole = property(lambda self: vars(self).get("plain", self))  # see `identity.whole`
    __class__ = property(lambda self: _np.ndarray)

    def copy(self, order="C"):
        return array(self, order=order)

    def astype(self, dtype, order="K", casting="unsafe", subok=True, copy=True):
        found = self.view(_np.ndarray).astype(dtype, order, casting, subok, copy)
        return _seen(found) if _np.may_share_memory(found, self) else _computed(found)

    def flatten(self, order="C"):
        return _computed(self.view(_np.ndarray).flatten(order))

    def dot(self, b, out=None):
        plain = self.view(_np.ndarray)
        if _holds_own((b, out)):
            return dot(plain, b, out) if out is not None else dot(plain, b)  # noqa: F821  (defined by `_install`)
        result = plain.dot(b, out)
        return _computed(result) if out is None and isinstance(result, _np.ndarray) else result

    def __copy__(self, memo=None):
        return self.copy("K")

    __deepcopy__ = __copy__

    def __array_wrap__(self, result, context=None, return_scalar=False):
        if type(result) is not _np.ndarray:  # out= or an in-place operation
            return result
        return result[()] if return_scalar else _computed(result)

    def __reduce_ex__(self, protocol):
        return self.view(_np.ndarray).__reduce_ex__(protocol)

    def __repr__(self):
        return repr(self.view(_np.ndarray))


def _holds_own(x):
    return _var.holds_var(x) or _lifted.holds_lifted(x)


def _method_by_function(name):
    """Return a method of `_Constant` that passes traced arguments to the function of this name."""
    plain = getattr(_np.ndarray, name)

    def method(self, *args, **kwargs):
        if _holds_own((*args, *kwargs.values())):
            return globals()[name](self.view(_np.ndarray), *args, **kwargs)
        return plain(self, *args, **kwargs)

    return method


for _name in "choose max mean min prod searchsorted std sum var".split():
    setattr(_Constant, _name, _method_by_function(_name))


def _receiver(value):
    """Return a plain array as an object whose methods accept traced values; other values unchanged."""
    return _seen(value) if type(value) is _np.ndarray and value.dtype.kind in "fciub" else value


def _computed(result):
    """Wrap a new array that is computed from constants: clean, or if it holds integers or booleans, a constant."""
    return _made(result) if result.dtype.kind in "fc" else _seen(result)


def _copy_of(x):
    """``copy.copy`` for arrays from outside: the copy may receive traced values."""
    return _copy.copy(_registration.constant(x))


def _deep_copy_of(x, memo=None, **options):
    """``copy.deepcopy``; copies of arrays, also of those in containers and attributes, may receive traced values."""
    memo, waiting, met = {} if memo is None else memo, [x], set()
    while waiting:
        item = waiting.pop()
        if _is_copied(item):
            memo.setdefault(id(item), _made(item.copy("K")))
        elif id(item) not in met and not isinstance(item, (str, type, _types.FunctionType, _types.ModuleType)):
            met.add(id(item))
            held = item if isinstance(item, (list, tuple, dict)) else getattr(item, "__dict__", ())
            waiting += held.values() if isinstance(held, dict) else held
    return _copy.deepcopy(x, memo, **options)


def _is_copied(value):
    return type(value) is _np.ndarray and value.dtype.kind in "fciub"


def _seen(value):
    view = value.view(_Constant)
    view.plain = value
    return view


def _as_plain(value):
    is_constant = _var.is_var(value) and not _var.is_scalar(value) and not _var.is_traced(value)
    return _np.asarray(value) if is_constant else value


def _copied(x, order):
    return _dispatch.function(_np.copy, (x,), {"order": order or "K"})


def asarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    """``numpy.asarray`` of an argument that may hold traced values; a traced array is returned unchanged."""
    if _var.is_var(a) and not _var.is_scalar(a) and not copy and dtype in (None, a.dtype) and order in (None, "K", "A"):
        return a
    return array(a, dtype, copy=copy, order=order or "K")


def asanyarray(a, dtype=None, order=None, *, device=None, copy=None, like=None):
    """``numpy.asanyarray`` of an argument that may hold traced values."""
    if isinstance(a, _np.ndarray) and not _var.is_var(a) and dtype is None:
        return a
    return array(a, dtype, copy=copy, order=order or "K", subok=True)


def _contiguous(fun, a, dtype, order):
    """Apply ``numpy.ascontiguousarray`` or ``asfortranarray`` to an argument that may hold traced values."""
    a = _instances.unwrapped(a) if _var.may_hold_instances() else a
    if not _var.holds_var(a):
        result = fun(a, dtype)
        fresh = not _np.may_share_memory(result, a) and _levels.is_tracing()
        return _arguments.clean(result) if fresh else result
    result = asarray(a, dtype)
    return result if _var.plain(result).flags[f"{order}_CONTIGUOUS"] else _np.copy(result, order=order)


def ascontiguousarray(a, dtype=None, *, like=None):
    """``numpy.ascontiguousarray`` of an argument that may hold traced values."""
    result = _contiguous(_np.ascontiguousarray, a, dtype, "C")
    return result if result.ndim else _np.reshape(_np.copy(result, order="C"), (1,))


def asfortranarray(a, dtype=None, *, like=None):
    """``numpy.asfortranarray`` of an argument that may hold traced values."""
    return _contiguous(_np.asfortranarray, a, dtype, "F")


def from_dlpack(x, /, *, device=None, copy=None):
    """``numpy.from_dlpack``; a traced array is returned itself, or copied if `copy` is true."""
    if not (_var.is_var(x) or isinstance(x, _lifted.Lifted)):
        return _np.from_dlpack(x, device=device, copy=copy)
    if device is not None:
        x.to_device(device)
    return _np.copy(x) if copy else x


def _as_strided(x, shape=None, strides=None, subok=False, writeable=True):
    """``numpy.lib.stride_tricks.as_strided`` for a possibly traced array.

    The result is a view; if its elements overlap, it cannot be written to.
    """
    if not _var.holds_var(x):
        return _np.lib.stride_tricks.as_strided(x, shape, strides, subok, writeable)
    x = asarray(x)
    plain = _var.plain(x)
    view = _np.lib.stride_tricks.as_strided(plain, shape, strides, writeable=writeable)
    numbers = _arguments.numbers_like(plain, 0)
    low, high = _np.lib.array_utils.byte_bounds(plain)
    first, last = _np.lib.array_utils.byte_bounds(view) if view.size else (low, high)
    if first < low or last > high:
        raise _errors.UnsupportedFunctionError(
            "numpy.lib.stride_tricks.as_strided reads memory outside of a traced array: pass the array that owns it"
        )
    steps = [step // plain.itemsize * numbers.itemsize for step in view.strides]
    places = _np.lib.stride_tricks.as_strided(numbers, view.shape, steps)
    if _np.unique(places).size == places.size and not _var.is_scalar(x):
        return _var.view_of(x, view)
    result = _np.take(_np.ravel(x), places)
    _registry.note_windows(x, places, result)
    _var.plain(result).flags.writeable = False
    return result


def _hasattr(x, name, /):
    """``hasattr``; for a traced value it answers as for the plain value, without reading the attribute."""
    if not (_var.is_var(x) and isinstance(name, str)):
        return hasattr(x, name)
    return _builtins.any(name in vars(base) for base in _var.class_of(x).__mro__)


def asarray_chkfinite(a, dtype=None, order=None):
    """``numpy.asarray_chkfinite`` of an argument that may hold traced values."""
    result = asarray(a, dtype, order)
    if not _np.all(_np.isfinite(result)):
        _np.asarray_chkfinite(_var.plain(result))
    return result


class _StandIn(type):
    """Metaclass of a subclass of a NumPy class; instances of the NumPy class count as instances."""

    def __instancecheck__(cls, x):
        return isinstance(x, cls.__base__)


class ndenumerate(_np.ndenumerate, metaclass=_StandIn):
    """``numpy.ndenumerate`` for a possibly traced array."""

    def __init__(self, arr):
        self.iter = asarray(arr).flat


class _IteratorType(type):
    """Metaclass of `nditer`; instances of NumPy's class, which cannot be subclassed, count as instances."""

    def __instancecheck__(cls, x):
        return isinstance(x, (_np.nditer, _Elements))


class nditer(metaclass=_IteratorType):
    """``numpy.nditer`` for possibly traced arrays; its elements are views."""

    def __new__(cls, op, flags=None, op_flags=None, op_dtypes=None, order="K", casting="safe", op_axes=None,
                itershape=None, buffersize=0):  # fmt: skip
        operands = list(op) if isinstance(op, (list, tuple)) else [op]
        if not _var.holds_var(operands):
            return _np.nditer(op, flags, op_flags, op_dtypes, order, casting, op_axes, itershape, buffersize)
        flags = set(flags or ()) - {"refs_ok", "zerosize_ok", "grow_inner", "delay_bufalloc", "common_dtype"}
        if flags - {"multi_index", "c_index", "f_index", "external_loop"} or op_dtypes or op_axes or itershape:
            raise _errors.UnsupportedFunctionError(
                "numpy.nditer over traced values has no buffers, dtypes, axes or shape of its own: write a loop over "
                "numpy.ndindex"
            )
        return _Elements(operands, flags, op_flags, order)


def _flags_of(op_flags, operands):
    """Return a list of flags for each operand of an iterator; `op_flags` is None, one list for all, or a list each."""
    if op_flags is None:
        return [["readonly"] if x is not None else ["writeonly"] for x in operands]
    return [op_flags] * len(operands) if op_flags and isinstance(op_flags[0], str) else op_flags


class _Elements:
    """Iterator over the elements of traced arrays in the order of a NumPy iterator.

    The NumPy iterator runs over arrays of indices with the strides of the operands.
    With ``external_loop`` the values are chunks, gathered by those indices, and read-only.
    """

    def __init__(self, operands, flags, op_flags, order):
        operands = [x if x is None or _var.is_var(x) else asarray(x) for x in operands]
        op_flags = _flags_of(op_flags, operands)
        op_flags = [["allocate", *each] if x is None else each for x, each in zip(operands, op_flags)]
        indices = [x if x is None else _arguments.numbers_like(_np.asarray(_var.plain(x)), 0) for x in operands]
        self._is_chunked = "external_loop" in flags
        flags = flags if self._is_chunked else {*flags, "multi_index"}
        self._iterator = _np.nditer(indices, [*flags], op_flags, [_np.intp] * len(indices), order)
        dtype = _np.result_type(*(x.dtype for x in operands if x is not None))
        shapes = [_np.shape(x) for x in self._iterator.operands]
        made = [_made(_np.empty(shape, dtype)) if x is None else x for x, shape in zip(operands, shapes)]
        self.operands = tuple(made)
        is_written = [not {"writeonly", "readwrite"}.isdisjoint(each) for each in op_flags]
        self._check(is_written)
        if not self._is_chunked:
            shape = self._iterator.shape
            made = [x if writes else _np.broadcast_to(x, shape) for x, writes in zip(made, is_written)]
        self._sources = made

    def _check(self, is_written):
        """Raise if an operand that is written to cannot receive traced values."""
        if self._is_chunked and True in is_written:
            raise _errors.UnsupportedFunctionError(
                "numpy.nditer with external_loop cannot write to traced arrays: leave the flag out, or write a loop"
            )
        for x, writes in zip(self.operands, is_written):
            if writes and not _var.is_var(x):
                raise _errors.TracedValueError(
                    "numpy.nditer cannot write traced values to a plain array: make the array with numpy.empty inside "
                    "of the function"
                )

    def __getattr__(self, name):
        if name in ("itviews", "copy", "remove_axis", "remove_multi_index", "enable_external_loop", "reset"):
            raise _errors.UnsupportedFunctionError(f"numpy.nditer.{name} has no rule for a traced array")
        return getattr(self._iterator, name)

    def __getitem__(self, index):
        return self._values()[index]

    def __setitem__(self, index, value):
        self[index][...] = value

    def __len__(self):
        return len(self.operands)

    def __iter__(self):
        while not self._iterator.finished:
            yield self.value
            self._iterator.iternext()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._iterator.close()

    def _values(self):
        if self._is_chunked:
            return tuple(_np.ravel(x)[self._iterator[k]] for k, x in enumerate(self._sources))
        return tuple(x[(*self._iterator.multi_index, ...)] for x in self._sources)

    @property
    def value(self):
        found = self._values()
        return found if len(found) > 1 else found[0]


class poly1d(_np.poly1d, metaclass=_StandIn):
    """``numpy.poly1d`` for coefficients or roots that may hold traced values."""

    def __init__(self, c_or_r, r=False, variable=None):
        c_or_r = asarray(c_or_r) if type(c_or_r) in (list, tuple) else c_or_r
        if not r and _var.is_traced(c_or_r) and _np.size(c_or_r) > 1 and _var.plain(_np.ravel(c_or_r)[0]) == 0:
            raise _errors.NonSmoothError(
                f"numpy.poly1d drops a leading coefficient that is 0{_frames.at()}, and its derivative with it: "
                "use numpy.polyval(coefficients, x)"
            )
        super().__init__(c_or_r, r, variable)


class _BroadcastType(type):
    """Metaclass of `broadcast`; NumPy's class cannot be subclassed."""

    def __call__(cls, *args):
        return super().__call__(*args) if _var.holds_var(args) else _np.broadcast(*args)

    def __instancecheck__(cls, x):
        return type(x) in (cls, _np.broadcast)


class broadcast(metaclass=_BroadcastType):
    """``numpy.broadcast`` for possibly traced arrays."""

    def __init__(self, *args):
        self.iters = tuple(x.flat for x in _np.broadcast_arrays(*map(asarray, args)))
        plain = _np.broadcast(*_var.plain(args))
        self.shape, self.size, self.numiter = plain.shape, plain.size, plain.numiter
        self.nd = self.ndim = plain.ndim

    def __iter__(self):
        return zip(*self.iters)


class vectorize(_np.vectorize, metaclass=_StandIn):
    """``numpy.vectorize`` for possibly traced arrays, by a loop over their elements."""

    def __call__(self, *args, **kwargs):
        given = [*((i, x) for i, x in enumerate(args) if i not in self.excluded)]
        given += [(name, x) for name, x in kwargs.items() if name not in self.excluded]
        is_called_here = given and self.signature is None and self.pyfunc is not _np._NoValue
        is_traced = _levels.is_tracing() or _levels.lifted_by() is not None
        if not is_called_here or not is_traced:  # pyfunc may still read traced values
            return super().__call__(*args, **kwargs)
        arrays = _np.broadcast_arrays(*(asarray(x) for _, x in given))
        shape, found = _np.shape(arrays[0]), []
        for i in _np.ndindex(*shape):
            now = {key: array[i] for (key, _), array in zip(given, arrays)}
            positional = (now.get(k, x) for k, x in enumerate(args))
            found.append(self.pyfunc(*positional, **{name: now.get(name, x) for name, x in kwargs.items()}))
        has_one_output = self.otypes is not None and len(self.otypes) == 1
        if not found and not _var.holds_traced([x for _, x in given]):
            return super().__call__(*args, **kwargs)
        if not found and has_one_output:
            return _np.empty(shape, self.otypes)
        if not found:
            raise _errors.UnsupportedFunctionError("numpy.vectorize has no rule for empty arrays: return a constant")
        if has_one_output or not isinstance(found[0], tuple):
            return self._filled(found, shape, 0)
        return tuple(self._filled(column, shape, k) for k, column in enumerate(zip(*found)))

    def _vectorize_call_with_signature(self, func, args):
        """Run NumPy's loop with output arrays that may receive traced values."""
        return _loop_of_vectorize()(self, func, args)

    def _filled(self, values, shape, k):
        """Stack results in the dtype given by `otypes`, or else that of the first result, as NumPy does."""
        dtype = _np.dtype(self.otypes[k]) if self.otypes is not None else asarray(values[0]).dtype
        if dtype.kind == "O":  # a plain array holds any objects, such as traced values and tuples of them
            y = _np.empty(len(values), object)
            for i, value in enumerate(values):
                y[i] = value
            return y.reshape(shape)
        dtype = _np.dtype(dtype.char) if dtype.kind in "SU" else dtype  # strings of any length
        y = _np.reshape(array(list(values)), shape)
        return y if y.dtype == dtype else y.astype(dtype)

    @staticmethod
    def _around(original, pyfunc):
        """Return a copy of `original` that vectorises `pyfunc`, its Python function with rebound names."""
        options = {name: getattr(original, name) for name in ("otypes", "excluded", "cache", "signature")}
        return vectorize(pyfunc, **options)


def _with_our_functions(fun, **names):
    """Copy a Python function of NumPy, with its globals replaced by the functions of this module."""
    module = _sys.modules[__name__]
    space = {**fun.__globals__, "np": module, "_nx": module}

    def copy(f):
        found = _types.FunctionType(f.__code__, space, f.__name__, f.__defaults__, f.__closure__)
        found.__kwdefaults__ = f.__kwdefaults__
        return found

    for name, value in fun.__globals__.items():
        value = getattr(value, "__wrapped__", value)
        if type(value) is _types.FunctionType and value.__globals__ is fun.__globals__:
            space[name] = copy(value)
    space.update(names)
    return copy(fun)


@_functools.cache
def _loop_of_vectorize():
    return _with_our_functions(_np.vectorize._vectorize_call_with_signature, asanyarray=asanyarray)


def geomspace(start, stop, num=50, endpoint=True, dtype=None, axis=0):
    """``numpy.geomspace`` with possibly traced end points."""
    if not _var.holds_traced((start, stop)):
        return _plain_geomspace(start, stop, num, endpoint, dtype, axis)
    return _geomspace_by_parts()(asarray(start), asarray(stop), num, endpoint, dtype, axis)


@_functools.cache
def _geomspace_by_parts():
    return _with_our_functions(_np.geomspace.__wrapped__, asanyarray=asanyarray, logspace=logspace)


def _rebound_indexer(original, *names, **body):
    """Copy an indexing object of NumPy, such as ``r_``, so that it calls the functions of this module."""
    base = type(original).__base__
    body["__getitem__"] = _with_our_functions(base.__getitem__, array=array, linspace=linspace)
    made = type(type(original).__name__, (base,), body)
    return made(*(getattr(original, name) for name in names))


_plain_kaiser = _creation("kaiser")


def kaiser(M, beta):
    """``numpy.kaiser`` with a possibly traced shape parameter."""
    if not _var.holds_traced(beta):
        return _plain_kaiser(M, beta)
    if M == 1:
        return _plain_kaiser(1, 0.0)
    places = _np.arange(0, _np.float64(M))
    alpha = (M - 1) / 2.0
    return _np.i0(beta * _np.sqrt(1 - ((places - alpha) / alpha) ** 2.0)) / _np.i0(beta)


def require(a, dtype=None, requirements=None, *, like=None):
    """``numpy.require`` for a possibly traced array."""
    if not _var.holds_var(a):
        return _np.require(a, dtype, requirements)
    wanted = {str(name).upper()[:1] for name in requirements or ()}  # C, F, A, W, O, E; the last four always hold
    result = asarray(a, dtype)
    for order in sorted(wanted & {"C", "F"}):
        if not _var.plain(result).flags[f"{order}_CONTIGUOUS"]:
            result = _np.copy(result, order=order)
    return result


def _frequencies(fun):
    """Wrap ``numpy.fft.fftfreq`` or ``rfftfreq`` to return clean arrays; NumPy itself handles a traced spacing."""

    @_functools.wraps(fun)
    def frequencies(n, d=1.0, device=None):
        result = fun(n, d)
        return _arguments.clean(result) if type(result) is _np.ndarray and _levels.is_tracing() else result

    return frequencies


#: functions whose results are clean arrays under differentiation, since code often stores into them
_FRESH = frozenset("append concatenate copy diag hstack insert repeat resize stack tile vstack".split())


def _stack_lifted(x):
    """Convert a list that holds lifted values to a lifted array; return other values unchanged."""
    return array(x) if isinstance(x, (list, tuple)) and _lifted.holds_lifted(x) else x


def _taking_lists(fun):
    """Wrap a NumPy function so that it also dispatches on traced values in lists, unlike ``__array_function__``."""

    def call(*args, **kwargs):
        y = recorded(fun, args, kwargs)
        if y is not NotImplemented:
            return y
        for argument in (*args, *kwargs.values()) if kwargs else args:
            is_list = type(argument) in (list, tuple)
            if _var.holds_traced(argument) if is_list else chooses and _var.is_var(argument):
                return _dispatch.function(fun, args, kwargs)
        if _levels.is_lifting() and _lifted.holds_lifted((*args, *kwargs.values())):
            with _levels.caught(_errors.TracedValueError):
                return fun(*args, **kwargs)
            args, kwargs = [*map(_stack_lifted, args)], {name: _stack_lifted(x) for name, x in kwargs.items()}
        try:
            result = fun(*args, **kwargs)
        except ValueError:
            traced = [*map(_by_protocol, args)]
            if _builtins.all(map(_operator.is_, traced, args)):
                raise
            result = fun(*traced, **kwargs)
        if copies and type(result) is _np.ndarray and (lift := _levels.lifted_by()) is not None:
            return lift.made(result)
        if fresh and type(result) is _np.ndarray and _levels.is_tracing():
            return _arguments.clean(result)
        return result

    recorded = _direct.recorded
    row = _registry.rows[fun]
    # np.take does not dispatch on its indices, np.interp not on the values beyond the table
    chooses = bool(row.choices or row.options) or fun is _np.interp
    fresh = fun.__name__ in _FRESH
    copies = fun is _np.copy
    return _named_like(fun, call)


_interp, _average = _taking_lists(_np.interp), _taking_lists(_np.average)


def interp(x, xp, fp, left=None, right=None, period=None):
    """``numpy.interp``; with `period`, the table is extended periodically at both ends."""
    if period is None:
        return _interp(x, xp, fp, left, right)
    if not _var.holds_traced((x, xp, fp, period)):
        return _np.interp(*_var.plain((x, xp, fp, left, right, period)))
    if _np.equal(period, 0):
        raise ValueError("period must be a non-zero value")
    period = _np.abs(period)
    x, xp, fp = (asarray(z) for z in (x, xp, fp))
    x, xp = x % period, xp % period
    order = _np.argsort(xp)
    xp, fp = xp[order], fp[order]
    xp = _np.concatenate((xp[-1:] - period, xp, xp[:1] + period))
    return _interp(x, xp, _np.concatenate((fp[-1:], fp, fp[:1])))


def average(a, axis=None, weights=None, returned=False, *, keepdims=_np._NoValue):
    """``numpy.average``, which may also return the sum of the weights."""
    options = {} if keepdims is _np._NoValue else {"keepdims": keepdims}
    mean = _average(a, axis, weights, **options)
    if not returned:
        return mean
    total = _np.size(a) / _np.size(mean) if weights is None else asarray(weights)
    if weights is not None:
        total = _np.sum(total, axis, **options) if _np.shape(total) == _np.shape(a) else _np.sum(total)
    return mean, _np.broadcast_to(asarray(total, mean.dtype), _np.shape(mean)).copy()[()]


_pad, _pad_by_parts = _taking_lists(_np.pad), _with_our_functions(_np.pad.__wrapped__)


def _moves_elements(array, pad_width, mode="constant", **kwargs):
    """Return whether the row of ``numpy.pad`` holds: the padding consists of elements and of plain values."""
    options = list(kwargs.values())
    is_moved = mode in ("constant", "edge", "wrap", "reflect", "symmetric", "empty") and "odd" not in options
    return is_moved and not _var.holds_traced(options)


def _computed_padding(*args, **kwargs):
    return None if _moves_elements(*args, **kwargs) else _pad_by_parts(*args, **kwargs)


_registry.facts(_np.pad, simpler=_computed_padding)


def pad(array, pad_width, mode="constant", **kwargs):
    """``numpy.pad`` with possibly traced fill values."""
    return (_pad_by_parts if _var.holds_traced(list(kwargs.values())) else _pad)(array, pad_width, mode, **kwargs)


def _calling_back(fun):
    """Wrap a NumPy function with a callback, which may use traced values of the enclosing function."""
    body = _registry.rows[fun].variadic

    @_functools.wraps(fun)
    def call(*args, **kwargs):
        return (body if _levels.is_tracing() else fun)(*args, **kwargs)

    return call


apply_along_axis, piecewise = _calling_back(_np.apply_along_axis), _calling_back(_np.piecewise)


class _Submodule(_types.ModuleType):
    """A NumPy submodule, imported on first use; wrapped functions are set as its attributes."""

    def __getattr__(self, name):
        _registration.register_deferred(self.__name__)
        if name in vars(self):
            return vars(self)[name]
        value = getattr(_importlib.import_module(self.__name__), name)
        setattr(self, name, value)
        return value

    def __dir__(self):
        return dir(_importlib.import_module(self.__name__))


class _Polynomials(_types.ModuleType):
    """A copy of ``numpy.polynomial`` whose code calls the functions of this module."""

    def __getattr__(self, name):
        return getattr(_polynomials(), name)

    def __dir__(self):
        return dir(_np.polynomial)


@_functools.cache
def _polynomials():
    """Load a second copy of `numpy.polynomial`, whose ``np`` is this module, and register it as a replacement."""
    import numpy.polynomial as original

    name = _lifted.POLYNOMIALS
    spec = _machinery.ModuleSpec(name, _machinery.SourceFileLoader(name, original.__file__), is_package=True)
    spec.submodule_search_locations[:] = original.__path__
    package = _sys.modules[name] = _util.module_from_spec(spec)
    spec.loader.exec_module(package)
    _registration.register(original, package)
    for part in [key.rpartition(".")[2] for key in list(_sys.modules) if key.startswith(name + ".")]:
        ours, theirs = _sys.modules[f"{name}.{part}"], _sys.modules[f"numpy.polynomial.{part}"]
        ours.np, ours.la = _sys.modules[__name__], _sys.modules[__name__].linalg
        for key, value in list(vars(ours).items()):  # remove NumPy's dispatch decorators
            setattr(ours, key, getattr(value, "__wrapped__", value))
        _registration.register(theirs, ours)
        for key, value in vars(theirs).items():
            if getattr(value, "__module__", "").startswith("numpy.polynomial") and callable(value):
                _registration.register(value, getattr(ours, key))
                if isinstance(value, type):
                    getattr(ours, key).register(value)  # instances of the original count as instances
                    _registration.register_wrapper(value, type, _polynomial_like)
    return package


def _polynomial_like(original, cls):
    """Convert a polynomial created by NumPy's class to the class of the second copy; they share their arrays."""
    new = object.__new__(cls)
    vars(new).update(vars(original))
    return new


#: attributes of NumPy with underscores: its version, and those of a namespace of the array API
_DUNDERS = ("__version__", "__array_api_version__", "__array_namespace_info__")

#: SciPy modules that have a mirror in `wengert.scipy`, imported when code under differentiation first refers to them
_MIRRORS = "cluster constants fft fftpack integrate interpolate linalg ndimage signal sparse spatial stats".split()


def _load_mirror(name):
    """Load the mirror of a module of SciPy, or only its refusals for an older SciPy."""
    if _features.has_mirrors():
        _importlib.import_module(f"wengert.scipy.{name}")
    else:
        _refusing.install_iterative(f"scipy.{name}")


def _install_functions(module) -> None:
    """Register the functions above for dispatch and for rebinding, and proxies of NumPy's ufuncs."""
    names = (
        "zeros ones empty eye identity tri fromfunction frombuffer indices "
        "zeros_like ones_like empty_like loadtxt genfromtxt hanning hamming bartlett blackman"
    ).split()
    for name in names:
        setattr(module, name, _creation(name))
    names += "arange logspace geomspace fromiter full full_like linspace array asarray asanyarray".split()
    names += "ascontiguousarray asfortranarray asarray_chkfinite kaiser require".split()
    for name in names:
        _dispatch.creation[getattr(_np, name)] = getattr(module, name)
    for name in ("r_", "c_"):
        joined = staticmethod(lambda arrays, axis: module.concatenate(arrays, axis))
        options = ("axis", "matrix", "ndmin", "trans1d")
        setattr(module, name, _rebound_indexer(getattr(_np, name), *options, concatenate=joined))
    for name in ("mgrid", "ogrid"):
        setattr(module, name, _rebound_indexer(getattr(_np, name), "sparse"))
    names += "apply_along_axis average broadcast interp from_dlpack ndenumerate nditer pad piecewise poly1d".split()
    names += ["vectorize"]
    for name in [*names, *"r_ c_ mgrid ogrid".split()]:
        _registration.register(getattr(_np, name), getattr(module, name))
    _registration.register_wrapper(_np.vectorize, lambda value: value.pyfunc, vectorize._around)
    for name, fun in vars(_np).items():
        if isinstance(fun, _np.ufunc) and fun in _registry.rows:
            made = vars(module).get(fun.__name__) or _proxy(fun)  # `abs` and `absolute` are the same object
            setattr(module, name, made)
            _registration.register(fun, made)


def _install_namespaces(module) -> None:
    """Define the submodules and the remaining names of NumPy, and register the functions that have a rule."""
    module.polynomial = _Polynomials("numpy.polynomial")
    _registration.register_later("numpy.polynomial", _polynomials)
    module.lib = _Submodule("numpy.lib")
    module.lib.stride_tricks = _Submodule("numpy.lib.stride_tricks")
    module.lib.stride_tricks.as_strided = _as_strided
    _registration.register(_np.lib, module.lib)
    _registration.register(_np.lib.stride_tricks, module.lib.stride_tricks)
    _registration.register(_np.lib.stride_tricks.as_strided, _as_strided)
    _registration.register(hasattr, _hasattr)
    _install_dispatching(module, _np)
    module.fft, module.linalg, module.ma = map(_Submodule, ("numpy.fft", "numpy.linalg", "numpy.ma"))
    _registration.register_later("numpy.fft", lambda: _install_part(module.fft, _np.fft, "fftfreq", "rfftfreq"))
    _registration.register_later("numpy.linalg", lambda: _install_part(module.linalg, _np.linalg))
    masked = "wengert.masked_arrays"  # loads `numpy.ma`, which is slow
    _registration.register_later("numpy.ma", lambda: _importlib.import_module(masked).install(module.ma))
    # copy the remaining names from NumPy; a module-level __getattr__ would make every np.name slower
    for name in dir(_np):
        if name in vars(module) or (name.startswith("__") and name not in _DUNDERS):
            continue
        setattr(module, name, vars(_np)[name] if name in vars(_np) else _Submodule(f"numpy.{name}"))
    _registration.register(_np, module)
    _methods.namespace = module


def _install_dispatching(home, original) -> None:
    """Define the functions of a namespace of NumPy that have a rule, and register them."""
    for name, fun in vars(original).items():
        if name.startswith("_") or name in vars(home) or isinstance(fun, (type, _np.ufunc)) or not callable(fun):
            continue
        if fun in _registry.rows:
            setattr(home, name, _taking_lists(fun))
            _registration.register(fun, getattr(home, name))


def _install_part(home, original, *frequencies) -> None:
    """Define the functions of `numpy.fft` or `numpy.linalg`, and register them."""
    for name in frequencies:
        setattr(home, name, _frequencies(getattr(original, name)))
        _registration.register(getattr(original, name), getattr(home, name))
    _registry.declare_loaded()
    _install_dispatching(home, original)
    _registration.register(original, home)


def _install_copy() -> None:
    """Register the functions of `copy`."""
    import copy as original

    copies = _types.ModuleType("copy")
    vars(copies).update(vars(original), copy=_copy_of, deepcopy=_deep_copy_of)
    for fun in (original.copy, original.deepcopy):
        _registration.register(fun, getattr(copies, fun.__name__))
    _registration.register(original, copies)


def _install_builtins(module) -> None:
    """Register the classes of Python's and NumPy's scalars, and functions of the standard library."""
    _registration.register_type(_var.Type(), _var.Type(True))
    made = _ScalarClass(float, _of_library("to_float"), _operators_of_float)
    _registration.register_class(float, made, is_dtype=True)
    for name, made in _operators_of_float.items():  # code may hold them in tables
        _registration.register(getattr(float, name), made)
    _registration.register_class(complex, _ScalarClass(complex, _of_library("to_complex")), is_dtype=True)
    for name, cls in vars(_np).items():
        if isinstance(cls, type) and cls in _SCALAR_CLASSES:
            made = vars(module).get(f"_called_{cls.__name__}") or _ScalarClass(cls, _conversion_to(cls))
            setattr(module, f"_called_{name}", made)
            if name == cls.__name__:
                _registration.register_class(cls, made, is_dtype=True)
    if _adds_floats_exactly:
        _registration.register(_builtins.sum, _sum)
    _registration.register(id, _identity.identity)


def _install_later() -> None:
    """Register functions of packages when followed code first meets them."""
    homes = {"math": "standard_library", "cmath": "standard_library", "statistics": "standard_statistics"}
    homes |= {"scipy": "scipy.standin", "scipy.special": "scipy.special", "scipy.optimize": "scipy.optimize"}
    for package, home in homes.items():
        _registration.register_later(package, _functools.partial(_importlib.import_module, f"wengert.{home}"))
    _registration.register_later("copy", _install_copy)
    for package in _refusing.ITERATIVE:
        if package.count(".") == 1 and package != "scipy.optimize":
            _registration.register_later(package, _functools.partial(_refusing.install_iterative, package))
    for name in _MIRRORS:
        _registration.register_later(f"scipy.{name}", _functools.partial(_load_mirror, name))
    numba_ufuncs = "wengert.core.dispatch.compiled_ufuncs"
    _registration.register_later("numba.np", lambda: _importlib.import_module(numba_ufuncs).install())
    expressions = "wengert.array_expressions"
    for package in ("numexpr", "numexpr.necompiler"):
        _registration.register_later(package, lambda: _importlib.import_module(expressions).install())
    for package in _refusing.NAMES:
        _registration.register_later(package, _functools.partial(_refusing.install, package))


_install_functions(_sys.modules[__name__])
_install_namespaces(_sys.modules[__name__])
_install_builtins(_sys.modules[__name__])
_install_later()
_registration.see_constants(_np.ndarray, _is_copied, _seen, _as_plain)
_rename.BUILTINS[_rename.RESULT], _rename.BUILTINS[_rename.RESULTS] = _results.filled, _results.filled_items
_rename.BUILTINS[_rename.RECEIVER], _rename.BUILTINS[_rename.OPERANDS] = _receiver, _operands
_results.set_wrapper(_made, _var.ArrayVar, _var.note_origin)
_new_arrays.set_watch(_var.watch_filled)
