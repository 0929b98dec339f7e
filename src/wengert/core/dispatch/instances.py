"""Instances of user-defined subclasses of `numpy.ndarray` that hold traced values.

``x.view(Field)`` of a traced array `x` is an instance of a *traced class*: a subclass of `Field`, or of the copy of
`Field` whose methods are followed, and of `SubclassVar`.  Its traced value is an operand in a slot.  `SubclassVar`
comes after the user's classes and before `ndarray` in the MRO and implements all attributes of `ndarray` on that
operand, so the methods of the user, their ``super()`` calls and ``__array_ufunc__`` work as on plain instances.

The memory of the instance belongs to C code, which would miss the derivative: it is an object array whose elements
raise for everything.
"""

from __future__ import annotations

import functools
import types
import weakref
from _thread import RLock  # `threading` takes 0.5 ms to import
from collections import deque

import numpy as np

from wengert.core import levels
from wengert.core.dispatch import mixed
from wengert.core.dispatch.arguments import clean
from wengert.core.dispatch.checks import refusal
from wengert.core.frames import at
from wengert.core.messages import array_message, subclass_message
from wengert.core.operands import var
from wengert.core.rebind import follow, rebind, registration
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.features import compares_names, is_made_in_python

MAX_KEPT = 64  # number of traced classes kept for the next derivative

# -------------------------------------------------------------------------------------------- memory without values


class _NoValue:
    """Element of the memory of a traced instance: raises for everything that C code could do with a number."""

    __slots__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise TracedValueError(array_message())


def _raise(*args):
    raise TracedValueError(array_message())


for _name in (
    "float int complex bool index hash reduce_ex neg pos abs invert round lt le gt ge eq ne call len iter str repr "
    "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod "
    "radd rsub rmul rtruediv rfloordiv rmod rpow rmatmul rand ror rxor rlshift rrshift rdivmod"
).split():
    setattr(_NoValue, f"__{_name}__", _raise)

_cell = np.empty((), dtype=object)
_cell[()] = _NoValue()


@functools.lru_cache(256)
def _memory(shape):
    return np.broadcast_to(_cell, shape)


# ---------------------------------------------------------------------------------------------- classes


def is_subclass(cls: type) -> bool:
    """Return whether a class is one whose instances keep their class when they are traced."""
    if cls is np.ndarray or not issubclass(cls, np.ndarray):
        return False
    return issubclass(cls, SubclassVar) or follow.why_unfollowed(cls.__module__) is None


def original(cls):
    """Return the user's class of a traced class or of a class with followed methods."""
    cls = vars(cls).get("_wengert_plain", cls)
    return vars(cls).get("_wengert_original", cls)


def refuse_class(cls: type, x) -> None:
    """Raise if traced values cannot be viewed as instances of this subclass of `ndarray`."""
    message = subclass_message(cls)
    if message is None and not is_subclass(cls):
        reason = follow.why_unfollowed(cls.__module__)
        message = (
            f"a traced value cannot become a {cls.__module__}.{cls.__qualname__}{at()}: its code is not followed, "
            f"since {reason}. Keep it as an array, or pass wengert.stop_gradient(x) where a constant is meant"
        )
    if message is None and not all(base is np.ndarray or is_made_in_python(base) for base in user_classes(cls)):
        message = (
            f"a traced value cannot become a {cls.__module__}.{cls.__qualname__}{at()}: it has methods in C, which "
            "would miss the derivative. Keep it as an array"
        )
    if message is not None:
        raise refusal(x, message, UnsupportedFunctionError)


def user_classes(cls):
    """Return the classes between `cls` and `ndarray` in the MRO, without those of this package."""
    own = (np.ndarray, object, SubclassVar, ArrayBase)
    return [base for base in cls.__mro__ if base not in own and not issubclass(base, SubclassVar)]


_traced_classes: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # id(class) -> traced class
_kept: deque = deque(maxlen=MAX_KEPT)
_lock = RLock()

#: defines the attributes of `SubclassVar` before the first traced class is made; set by `wengert.core.hooks`
define_interface = None


def traced_class(cls: type, x=None) -> type:
    """Return the class of traced instances of a subclass of `ndarray`."""
    if issubclass(cls, SubclassVar):
        return cls
    if "_wengert_original" not in vars(cls):
        refuse_class(cls, x)
        cls = rebind.in_use(cls)
    found = _traced_classes.get(id(cls))
    if found is not None and found._wengert_plain is cls:
        return found
    with _lock:
        found = _traced_classes.get(id(cls))  # another thread may have made it
        if found is None or found._wengert_plain is not cls:
            if not var.may_hold_instances():
                define_interface()
                var.note_instances()
            found = _traced_classes[id(cls)] = _made_class(cls)
            _kept.append(found)
    return found


@functools.cache
def _meta(kind):
    """Return the metaclass of traced classes whose plain classes have the metaclass `kind`."""
    body = {
        "__new__": type.__new__,
        "__init__": lambda cls, *args: None,
        "__call__": type.__call__,
        "__eq__": type.__eq__,
        "__hash__": type.__hash__,
        "__setattr__": lambda cls, name, value: setattr(cls._wengert_plain, name, value),
        "__delattr__": lambda cls, name: delattr(cls._wengert_plain, name),
        "__instancecheck__": type.__instancecheck__,  # NumPy orders overrides by it
        "__subclasscheck__": type.__subclasscheck__,
    }
    return type("TracedClass", (kind,), body)


def _made_class(cls):
    shown = original(cls)
    body = {
        "__slots__": ("_wengert_operand",),
        "__module__": __name__,
        "__qualname__": cls.__qualname__,
        "__doc__": cls.__doc__,
        "__class__": property(lambda self: shown),
        "__array_finalize__": _finalize,
        "__array_ufunc__": _call_array_ufunc,
        "__array_function__": _call_array_function,
        "_wengert_plain": cls,
        "_wengert_original": None,  # unlike a proxy, an instance shares no state with a plain one
    }
    if not follow.has_subclass_hook(cls):
        return type.__new__(_meta(type(cls)), cls.__name__, (cls, SubclassVar), body)
    made = type.__new__(_meta(type(cls)), cls.__name__, (SubclassVar,), body)
    type.__dict__["__bases__"].__set__(made, (cls, SubclassVar))  # set later, so that the hook does not run
    return made


def _finalize(self, obj):
    """``__array_finalize__`` of a traced class: calls the user's method, except while only the memory is made."""
    if _has_operand(self) or not _is_memory(self):
        kind = type(self)
        user = super(owner(kind), self).__array_finalize__
        if user is not None:
            user(obj)


def _call_array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """``__array_ufunc__`` of a traced class: calls the user's method, in which names refer to replaced ufuncs."""
    ufunc = follow.REGISTERED.get(id(ufunc), (ufunc, ufunc))[1]
    y = super(owner(type(self)), self).__array_ufunc__(ufunc, method, *inputs, **kwargs)
    if y is NotImplemented and not kwargs and method != "at":
        with levels.outside(), np.errstate(all="ignore"):  # raises the error of plain code, if there is one
            getattr(getattr(ufunc, "__wrapped__", ufunc), method)(*plain_sample(inputs))
    return y


def _call_array_function(self, function, types, args, kwargs):
    """``__array_function__`` of a traced class: calls the user's method.

    A method that compares functions by name runs unchanged: in its followed copy, names refer to replacements.
    """
    kind = owner(type(self))
    for base in user_classes(kind):
        method = vars(base).get("__array_function__")
        if method is not None and "_wengert_original" not in vars(base):
            if _compares_functions(method, kind):
                return method(self, function, types, args, kwargs)
            break
    return super(kind, self).__array_function__(function, types, args, kwargs)


def _compares_functions(method, kind):
    """Return whether a method, or a function that it calls by a global name, compares NumPy functions by identity."""
    names = getattr(getattr(method, "__code__", None), "co_names", ())
    called = [method, *(f for name in names if type(f := method.__globals__.get(name)) is types.FunctionType)]
    spaces = [vars(base) for base in user_classes(kind) if "_wengert_original" not in vars(base)]
    own = [f for space in spaces for name in names if type(f := space.get(name)) is types.FunctionType]
    own = [f for f in own if f.__name__ != method.__name__]
    if any(compares_names(f, _is_registered) for f in own):
        raise UnsupportedFunctionError(
            f"{kind.__qualname__}.__array_function__ calls a method that compares functions by name{at()}, and within "
            "a derivative names hold replacements: compare them in __array_function__ itself"
        )
    return any(compares_names(f, _is_registered) for f in called)


def _is_registered(value):
    return id(value) in follow.REGISTERED


def owner(kind):
    """Return the traced class in the MRO of a class: itself, unless the user derived another one in the function."""
    return next(base for base in kind.__mro__ if "_wengert_plain" in vars(base))


def _is_memory(x):
    return dtype_of.__get__(x).kind == "O"


dtype_of = np.ndarray.__dict__["dtype"]


def _slot(x):
    return owner(type(x)).__dict__["_wengert_operand"]


def _has_operand(x):
    try:
        _slot(x).__get__(x)
    except AttributeError:
        return False
    return True


def operand_of(x):
    """Return the operand of a traced instance."""
    try:
        return _slot(x).__get__(x)
    except AttributeError:
        if _is_memory(x):  # C code copied the memory of a traced instance
            raise refusal((), array_message()) from None
    operand = clean(np.array(x, copy=False, subok=False))
    _slot(x).__set__(x, operand)
    return operand


class ArrayBase(np.ndarray):
    """Base of the classes with followed methods: creates traced instances over the memory of traced arrays."""

    def __new__(cls, shape, dtype=float, buffer=None, offset=0, strides=None, order=None):
        return new(cls, shape, dtype, buffer, offset, strides, order)


registration.set_array_base(ArrayBase)


class SubclassVar(ArrayBase):
    """Base of all traced classes; `wengert.core.dispatch.subclass_interface` defines its attributes."""

    __hash__ = None


# ---------------------------------------------------------------------------------------------- instances


def is_operand(x):
    return var.is_var(x) or mixed.is_lifted(x)


def view(x, args, kwargs):
    """Return ``x.view(...)`` to a subclass of `ndarray`, or NotImplemented for any other view."""
    cls, rest, named = view_arguments(args, kwargs)
    if cls is None or cls is np.ndarray:
        return NotImplemented
    x = x if not (rest or named) else x.view(*rest, **named)
    if var.is_scalar(x):
        raise refusal(x, f"a traced scalar cannot become a {cls.__name__}{at()}: write np.asarray(x).view(...)")
    return instance(traced_class(cls, x), x.view(), x)


def view_arguments(args, kwargs):
    """Return the class among the arguments of ``view``, and the other arguments."""
    named = {name: value for name, value in kwargs.items() if not _is_array_class(value)}
    rest = [value for value in args if not _is_array_class(value)]
    found = [value for value in (*args, *kwargs.values()) if _is_array_class(value)]
    return found[-1] if found else None, rest, named


def _is_array_class(value):
    return isinstance(value, type) and issubclass(value, np.ndarray)


def holding(kind, value):
    """Return an instance of a traced class that holds an operand or a constant array."""
    made = np.ndarray.view(_memory(np.shape(value)), kind)
    _slot(made).__set__(made, value)
    return made


def instance(kind, y, obj):
    """Return `y`, an operand or a plain array, as an instance of `kind`; ``__array_finalize__`` is passed `obj`."""
    if isinstance(y, tuple):
        return y
    if not is_operand(y) or (not mixed.is_lifted(y) and var.value_of(y).dtype.kind not in "fc" and not _keeps(y)):
        return _plain_instance(owner(kind)._wengert_plain, y, obj)
    made = holding(kind, y if mixed.is_lifted(y) or not var.is_scalar(y) else var.as_array(y))
    made.__array_finalize__(obj)
    return made


def _keeps(y):
    """Return whether an operand of an integer or boolean dtype is a value of a recording."""
    return var.recording_level(y) is not None


def _plain_instance(cls, y, obj):
    """Return a plain array as an instance of `cls`; ``__array_finalize__`` runs only once, and is passed `obj`."""
    made = _as_class(np.asarray(var.plain(y)), cls)
    if made.__array_finalize__ is not None:
        made.__array_finalize__(obj)
    return made


def _as_class(array, cls):
    """View a plain array as an instance of a class, without calling its ``__array_finalize__``."""
    made = array.view(_unfinished(cls))
    object.__dict__["__class__"].__set__(made, cls)
    return made


def _unfinished(cls):
    """Return a class of the same layout whose ``__array_finalize__`` does nothing."""
    body = {"__array_finalize__": lambda self, obj: None, **({} if cls.__dictoffset__ else {"__slots__": ()})}
    return type.__new__(_meta(type(cls)), cls.__name__, _bases_like(cls), body)


def _bases_like(cls):
    return (cls,) if not follow.has_subclass_hook(cls) else (np.ndarray,)


def new(cls, shape, dtype=float, buffer=None, offset=0, strides=None, order=None):
    """Implement ``numpy.ndarray.__new__`` for a subclass and a buffer that may be traced."""
    if isinstance(buffer, SubclassVar):
        buffer = operand_of(buffer)
    if not is_operand(buffer):
        is_filled_later = buffer is None and np.dtype(dtype).kind in "fc" and levels.is_tracing()
        if issubclass(cls, SubclassVar):
            cls = cls._wengert_plain
        if not is_filled_later or cls is np.ndarray or not is_subclass(original(cls)):
            return np.ndarray.__new__(cls, shape, dtype, buffer, offset, strides, order)
        y = clean(np.ndarray(shape, dtype, None, offset, strides, order))
        return instance(traced_class(cls), y, None)
    y = _over(buffer, shape, dtype, offset, strides, order)
    return y if cls is np.ndarray else instance(traced_class(cls, buffer), y, None)


def _over(buffer, shape, dtype, offset, strides, order):
    """Return the operand for an array over the memory of a traced one."""
    if mixed.is_lifted(buffer):
        if offset or strides is not None or order == "F" or np.dtype(dtype) != buffer.dtype:
            buffer._raise_unsupported("numpy.ndarray with these arguments")
        return np.reshape(buffer, shape)
    value = np.asarray(var.value_of(buffer))
    y = np.ndarray(shape, dtype, value, offset, strides, order)
    if y.dtype != value.dtype or strides is not None or var.is_scalar(buffer):
        raise UnsupportedFunctionError(
            f"numpy.ndarray over the memory of a traced array has no rule for another dtype or strides{at()}: write "
            "x.astype(dtype) or a slice"
        )
    return var.view_of(buffer, y)


def unwrapped(x):
    """Replace traced instances, also in lists, tuples and dicts, by their operands."""
    if isinstance(x, SubclassVar):
        return operand_of(x)
    if type(x) in (list, tuple):
        return type(x)([unwrapped(item) for item in x])
    if type(x) is dict:
        return {name: unwrapped(item) for name, item in x.items()}
    return x


def holds_instance(x) -> bool:
    """Return whether `x` is a traced instance, or a list or tuple that holds one at any depth."""
    if isinstance(x, (list, tuple)):
        return any(map(holds_instance, x))
    return isinstance(x, SubclassVar)


def plain(x, value_of=var.plain):
    """Return a copy of a traced instance that holds ``value_of(operand)``, with the same attributes."""
    kind = owner(type(x))
    value = value_of(operand_of(x))
    if is_operand(value):
        made = holding(type(x), value)
    else:
        value = np.asarray(value)
        cls = original(kind)
        made = _as_class(value.copy(order="K"), cls)
    vars(made).update(vars(x))
    return made


class Restored:
    """Gives the array that a replay returns the class and attributes of the recorded result."""

    def __init__(self, x):
        self.cls = original(owner(type(x)))
        self.attributes = dict(vars(x))

    def __call__(self, value):
        made = _as_class(np.asarray(value), self.cls)
        vars(made).update(self.attributes)
        return made


# ---------------------------------------------------------------------------------------------- samples


class Sample(np.ndarray):
    """A plain array that refers to the instance it was made from; its subclasses mirror the user's."""

    def __array_finalize__(self, obj):
        self.source = getattr(obj, "source", None)


_sample_classes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # class -> sample class


def _sample_class(cls):
    found = _sample_classes.get(cls)
    if found is None:
        bases = tuple(_sample_class(base) for base in cls.__bases__ if issubclass(base, np.ndarray))
        body = {name: vars(cls)[name] for name in ("__array_priority__",) if name in vars(cls)}
        if cls is np.ndarray:
            return Sample
        found = _sample_classes[cls] = type(cls.__name__, bases, body)
    return found


def sample(x):
    """Return plain values of the same types and shapes; arrays are copied, since a call may write to them."""
    if isinstance(x, SubclassVar):
        cls = original(owner(type(x)))
        value = np.asarray(mixed._plain(operand_of(x)))
        made = value.copy(order="K").view(_sample_class(cls))
        made.source = x
        return made
    if type(x) in (list, tuple):
        return type(x)([sample(item) for item in x])
    if type(x) is dict:
        return {name: sample(item) for name, item in x.items()}
    if is_operand(x):
        value = mixed._plain(x)
        return value.copy(order="K") if isinstance(value, np.ndarray) else value
    return x.copy(order="K") if type(x) is np.ndarray else x


def plain_sample(x):
    if isinstance(x, SubclassVar):
        return plain(x, mixed._plain)
    if type(x) in (list, tuple):
        return type(x)([plain_sample(item) for item in x])
    if type(x) is dict:
        return {name: plain_sample(item) for name, item in x.items()}
    return sample(x)
