"""Traced values as instances of user-defined subclasses of `numpy.ndarray`.

``x.view(Field)`` of a traced array `x` is an instance of a *traced class*: a subclass of `Field`, or of the copy of
`Field` whose methods are followed, and of `SubclassVar`.  Its traced value is an operand in a slot.  `SubclassVar`
comes after the user's classes and before `ndarray` in the MRO and implements all attributes of `ndarray` on that
operand, so the methods of the user, their ``super()`` calls and ``__array_ufunc__`` work as on plain instances.

The memory of the instance belongs to C code, which would miss the derivative: it is an object array whose elements
raise for everything.

The class of a result, and the array that its ``__array_finalize__`` gets, are those of NumPy's own call on *samples*:
plain values seen as instances of classes with the same inheritance and ``__array_priority__``, which note the array
that they were made from.

A subclass that redefines methods or operators of `ndarray` may change what NumPy's Python functions compute.  For it
they run on the instances themselves or, where they convert to plain arrays, on operands; the result is then compared
with that of plain code.
"""

from __future__ import annotations

import functools
import operator
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
from wengert.features import clip_ufunc, compares_names, is_made_in_python, is_masked_array, parameters_of

_MAX_KEPT = 64  # traced classes of classes without followed methods, kept for the next derivative

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


def _original(cls):
    """Return the user's class of a traced class or of a class with followed methods."""
    cls = vars(cls).get("_wengert_plain", cls)
    return vars(cls).get("_wengert_original", cls)


def refuse_class(cls: type, x) -> None:
    """Raise if traced values cannot be seen as instances of this subclass of `ndarray`."""
    message = subclass_message(cls)
    if message is None and not is_subclass(cls):
        reason = follow.why_unfollowed(cls.__module__)
        message = (
            f"a traced value cannot become a {cls.__module__}.{cls.__qualname__}{at()}: its code is not followed, "
            f"since {reason}. Keep it as an array, or pass wengert.stop_gradient(x) where a constant is meant"
        )
    if message is None and not all(base is np.ndarray or is_made_in_python(base) for base in _user_classes(cls)):
        message = (
            f"a traced value cannot become a {cls.__module__}.{cls.__qualname__}{at()}: it has methods in C, which "
            "would miss the derivative. Keep it as an array"
        )
    if message is not None:
        raise refusal(x, message, UnsupportedFunctionError)


def _user_classes(cls):
    """Return the classes between `cls` and `ndarray` in the MRO, without those of this package."""
    own = (np.ndarray, object, SubclassVar, ArrayBase)
    return [base for base in cls.__mro__ if base not in own and not issubclass(base, SubclassVar)]


_traced_classes: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # id(class) -> traced class
_kept: deque = deque(maxlen=_MAX_KEPT)
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
        if not var.may_hold_instances():
            define_interface()
            var.note_instances()
        found = _traced_classes[id(cls)] = _made_class(cls)
        _kept.append(found)
    return found


@functools.cache
def _meta(kind):
    """Return the metaclass of traced classes, for the metaclass of the plain class."""
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
    shown = _original(cls)
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
    """``__array_finalize__`` of a traced class: calls that of the user, except when only the memory is made."""
    if _has_operand(self) or not _is_memory(self):
        kind = type(self)
        user = super(_owner(kind), self).__array_finalize__
        if user is not None:
            user(obj)


def _call_array_ufunc(self, ufunc, method, *inputs, **kwargs):
    """``__array_ufunc__`` of a traced class: calls that of the user, whose names hold replacements of ufuncs."""
    ufunc = follow.REGISTERED.get(id(ufunc), (ufunc, ufunc))[1]
    y = super(_owner(type(self)), self).__array_ufunc__(ufunc, method, *inputs, **kwargs)
    if y is NotImplemented and not kwargs and method != "at":
        with levels.outside(), np.errstate(all="ignore"):  # raises the error of plain code, if there is one
            getattr(getattr(ufunc, "__wrapped__", ufunc), method)(*_plain_sample(inputs))
    return y


def _call_array_function(self, function, types, args, kwargs):
    """``__array_function__`` of a traced class: calls that of the user.

    If it compares the function with others by name, it runs as it is, since its copy names replacements.
    """
    kind = _owner(type(self))
    for base in _user_classes(kind):
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
    spaces = [vars(base) for base in _user_classes(kind) if "_wengert_original" not in vars(base)]
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


def _owner(kind):
    """Return the traced class in the MRO of a class: itself, unless the user derived another one in the function."""
    return next(base for base in kind.__mro__ if "_wengert_plain" in vars(base))


def _is_memory(x):
    return _dtype_of.__get__(x).kind == "O"


_dtype_of = np.ndarray.__dict__["dtype"]


def _slot(x):
    return _owner(type(x)).__dict__["_wengert_operand"]


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


# ---------------------------------------------------------------------------------------------- instances


def _is_operand(x):
    return var.is_var(x) or mixed.is_lifted(x)


def view(x, args, kwargs):
    """Return ``x.view(...)`` to a subclass of `ndarray`, or NotImplemented for any other view."""
    cls, rest, named = _view_arguments(args, kwargs)
    if cls is None or cls is np.ndarray:
        return NotImplemented
    x = x if not (rest or named) else x.view(*rest, **named)
    if var.is_scalar(x):
        raise refusal(x, f"a traced scalar cannot become a {cls.__name__}{at()}: write np.asarray(x).view(...)")
    return instance(traced_class(cls, x), x.view(), x)


def _view_arguments(args, kwargs):
    """Return the class among the arguments of ``view``, and the other arguments."""
    named = {name: value for name, value in kwargs.items() if not _is_array_class(value)}
    rest = [value for value in args if not _is_array_class(value)]
    found = [value for value in (*args, *kwargs.values()) if _is_array_class(value)]
    return found[-1] if found else None, rest, named


def _is_array_class(value):
    return isinstance(value, type) and issubclass(value, np.ndarray)


def instance(kind, y, obj):
    """Return `y`, an operand or a plain array, as an instance of a class, made from `obj`."""
    if isinstance(y, tuple):
        return y
    if not _is_operand(y) or (not mixed.is_lifted(y) and var.value_of(y).dtype.kind not in "fc" and not _keeps(y)):
        return _plain_instance(_owner(kind)._wengert_plain, y, obj)
    made = np.ndarray.view(_memory(np.shape(y)), kind)
    _slot(made).__set__(made, y if mixed.is_lifted(y) or not var.is_scalar(y) else var.as_array(y))
    made.__array_finalize__(obj)
    return made


def _keeps(y):
    """Return whether an operand of an integer or boolean dtype is a value of a recording."""
    return var.recording_level(y) is not None


def _plain_instance(cls, y, obj):
    """Return a plain array as an instance of a class made from `obj`, whose ``__array_finalize__`` runs only once."""
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
    """Return a subclass without ``__array_finalize__``, of the same layout."""
    body = {"__array_finalize__": lambda self, obj: None, **({} if cls.__dictoffset__ else {"__slots__": ()})}
    return type.__new__(_meta(type(cls)), cls.__name__, _bases_like(cls), body)


def _bases_like(cls):
    return (cls,) if not follow.has_subclass_hook(cls) else (np.ndarray,)


def new(cls, shape, dtype=float, buffer=None, offset=0, strides=None, order=None):
    """``numpy.ndarray.__new__`` for a subclass and a buffer that may be traced."""
    if isinstance(buffer, SubclassVar):
        buffer = operand_of(buffer)
    if not _is_operand(buffer):
        is_filled_later = buffer is None and np.dtype(dtype).kind in "fc" and levels.is_tracing()
        if issubclass(cls, SubclassVar):
            cls = cls._wengert_plain
        if not is_filled_later or cls is np.ndarray or not is_subclass(_original(cls)):
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
    """Return a traced instance with ``value_of(operand)`` in place of its operand, and the same attributes."""
    kind = _owner(type(x))
    value = value_of(operand_of(x))
    if _is_operand(value):
        made = np.ndarray.view(_memory(np.shape(value)), type(x))
        _slot(made).__set__(made, value)
    else:
        value = np.asarray(value)
        cls = _original(kind)
        made = _as_class(value.copy(order="K"), cls)
    vars(made).update(vars(x))
    return made


class Restored:
    """Makes the instances that a recorded function returns: arrays with the class and attributes of the recording."""

    def __init__(self, x):
        self.cls = _original(_owner(type(x)))
        self.attributes = dict(vars(x))

    def __call__(self, value):
        made = _as_class(np.asarray(value), self.cls)
        vars(made).update(self.attributes)
        return made


# ---------------------------------------------------------------------------------------------- samples


class _Sample(np.ndarray):
    """Plain array that notes the instance it was made from; its subclasses mirror those of the user."""

    def __array_finalize__(self, obj):
        self.source = getattr(obj, "source", None)


_sample_classes: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # class -> sample class


def _sample_class(cls):
    found = _sample_classes.get(cls)
    if found is None:
        bases = tuple(_sample_class(base) for base in cls.__bases__ if issubclass(base, np.ndarray))
        body = {name: vars(cls)[name] for name in ("__array_priority__",) if name in vars(cls)}
        if cls is np.ndarray:
            return _Sample
        found = _sample_classes[cls] = type(cls.__name__, bases, body)
    return found


def sample(x):
    """Return plain values of the same types and shapes; arrays are copied, since a call may write to them."""
    if isinstance(x, SubclassVar):
        cls = _original(_owner(type(x)))
        value = np.asarray(mixed._plain(operand_of(x)))
        made = value.copy(order="K").view(_sample_class(cls))
        made.source = x
        return made
    if type(x) in (list, tuple):
        return type(x)([sample(item) for item in x])
    if type(x) is dict:
        return {name: sample(item) for name, item in x.items()}
    if _is_operand(x):
        value = mixed._plain(x)
        return value.copy(order="K") if isinstance(value, np.ndarray) else value
    return x.copy(order="K") if type(x) is np.ndarray else x


def like(z, y, context=None):
    """Return `y` with the classes of `z`, the result of the same call on samples."""
    if isinstance(z, _Sample):
        if z.source is None:
            raise UnsupportedFunctionError(
                f"the result of this call belongs to no argument{at()}: pass numpy.asarray(x) of the subclass"
            )
        kind = type(z.source)
        if overrides(kind, "__array_wrap__"):
            return _wrapped(z.source, y, context, z.ndim == 0)
        return instance(kind, y, z.source)
    if isinstance(z, (list, tuple)) and isinstance(y, (list, tuple)) and len(z) == len(y):
        items = [like(*pair, context) for pair in zip(z, y)]
        return type(y)(*items) if hasattr(y, "_fields") else type(y)(items)
    return y


def _wrapped(template, y, context, is_scalar):
    """Call the user's ``__array_wrap__`` on a result, an array of its own that may be 0-d."""
    y = var.as_array(y) if var.is_var(y) and var.is_scalar(y) else y if _is_operand(y) else clean(np.asarray(y))
    try:
        return template.__array_wrap__(y, context, is_scalar)
    except TypeError:
        return template.__array_wrap__(y, context)  # the signature before NumPy 2


# ---------------------------------------------------------------------------------------------- dispatch


def overrides(kind, name):
    """Return whether the user's classes define an attribute of `ndarray`."""
    return getattr(_owner(kind)._wengert_plain, name, None) is not getattr(np.ndarray, name, None)


#: attributes of `ndarray` that a subclass may define without changing what NumPy's functions compute
_PASSIVE = frozenset(
    "__new__ __init__ __array_finalize__ __array_priority__ __doc__ __module__ __dict__ __weakref__ __repr__ __str__ "
    "__format__ __reduce__ __reduce_ex__ __setstate__ __getstate__ __init_subclass__ __class_getitem__ __class__ "
    "__hash__ __dir__ __sizeof__ __slots__ __getattribute__ __setattr__ __delattr__ __subclasshook__ "
    "__array_ufunc__ __array_function__".split()
)


@functools.lru_cache(_MAX_KEPT)
def _is_active(kind):
    """Return whether a class redefines a method or an operator that NumPy's Python functions may call."""
    names = {name for base in _user_classes(kind) for name in vars(base)}
    return overrides(kind, "__array_ufunc__") or any(hasattr(np.ndarray, name) for name in names - _PASSIVE)


def _lifted(x):
    """Convert a plain instance of a followed subclass to a traced class, with a constant operand.

    A masked array without masked elements is converted to an array.
    """
    kind = type(x)
    if kind is np.ndarray or not isinstance(x, np.ndarray) or _is_operand(x) or isinstance(x, SubclassVar):
        return x
    if _is_unmasked(x):
        return np.ndarray.view(x, np.ndarray)
    if not is_subclass(_original(kind)) or _dtype_of.__get__(x).kind not in "biufc":
        return x
    kind = traced_class(kind, x)
    made = np.ndarray.view(_memory(x.shape), kind)
    _slot(made).__set__(made, np.ndarray.view(x, np.ndarray))
    if getattr(x, "__dict__", None):
        object.__setattr__(made, "__dict__", x.__dict__)
    return made


def is_handled(args) -> bool:
    """Return whether an argument is an instance of a subclass, so that `call` handles the call.

    Raises for a masked array with masked elements and for a matrix, whose functions and operators differ from those of
    plain arrays.
    """
    found = False
    for x in args:
        if isinstance(x, np.ndarray) and type(x) is not np.ndarray and not _is_operand(x):
            if _is_unmasked(x):
                found = True
                continue
            if (message := subclass_message(type(x))) is not None:
                raise refusal(args, message, UnsupportedFunctionError)
            kind = type(x)
            found = found or is_subclass(_original(kind))
    return found


def _is_unmasked(x) -> bool:
    """Return whether an array is a masked array without masked elements, which counts as its data."""
    return is_masked_array(type(x)) and not np.ma.getmaskarray(x).any()


def call(fun, args, kwargs):
    """Call a NumPy function on operands and instances of subclasses, by NumPy's protocols."""
    args = tuple(map(_lifted, args))
    if isinstance(fun, np.ufunc):
        return call_ufunc(fun, "__call__", args, kwargs)
    found = [x for x in _leaves((args, kwargs)) if isinstance(x, SubclassVar)]
    if not found:
        return fun(*args, **kwargs)
    for x in _in_order(found):
        y = type(x).__array_function__(x, fun, tuple({type(z) for z in found}), args, kwargs)
        if y is not NotImplemented:
            return y
    raise TypeError(f"no implementation found for 'numpy.{fun.__name__}' on types that implement __array_function__")


def call_ufunc(fun, method, inputs, kwargs):
    """Call a method of a ufunc on operands and instances of subclasses, by NumPy's protocol."""
    inputs = tuple(map(_lifted, inputs))
    out = kwargs.get("out")
    outs = out if isinstance(out, tuple) else (out,)
    found = [x for x in (*inputs, *outs) if isinstance(x, SubclassVar)]
    if not found:
        return getattr(fun, method)(*inputs, **kwargs)
    for x in _in_order(found):
        y = type(x).__array_ufunc__(x, fun, method, *inputs, **kwargs)
        if y is not NotImplemented:
            return y
    raise TypeError(
        f"operand type(s) all returned NotImplemented from __array_ufunc__({fun!r}, {method!r}, ...): "
        f"{', '.join(type(x).__name__ for x in inputs)}"
    )


def _in_order(instances):
    """Return one instance of each class in the order in which NumPy asks them: subclasses first."""
    found: list = []
    for x in instances:
        if type(x) in map(type, found):
            continue
        place = next((i for i, y in enumerate(found) if issubclass(_user(x), _user(y))), len(found))
        found.insert(place, x)
    return found


def _user(x):
    return _owner(type(x))._wengert_plain


def operate(fun, left, right):
    """Apply an operator to an operand and an instance of a subclass: its reflected method goes first, if redefined."""
    right = _lifted(right)
    name = mixed._OPERATORS[fun][1]
    if isinstance(right, SubclassVar) and overrides(type(right), name):
        y = getattr(type(right), name)(right, left)
        if y is not NotImplemented:
            return y
    return call(fun, (left, right), {})


def stored(y):
    """Return the operand of the result of an augmented assignment to an array."""
    if isinstance(y, SubclassVar) and overrides(type(y), "__array_ufunc__"):
        raise refusal(
            operand_of(y),
            f"an augmented assignment to an array with a {type(y).__name__} has no derivative rule{at()}: write "
            "x = x + y in place of x += y",
            UnsupportedFunctionError,
        )
    return unwrapped(y)


def array_like(x, array, dtype, **options):
    """Return ``np.array(x, subok=True, ...)``."""
    operand = operand_of(x)
    y = array(operand, dtype, **options)
    return x if y is operand else instance(type(x), y, x)


def number(x, cls):
    """Return the argument of a conversion of a traced instance to a Python or NumPy scalar."""
    name = f"__{cls.__name__}__"
    return getattr(x, name)() if overrides(type(x), name) else operand_of(x)


def _default_ufunc(fun, method, inputs, kwargs):
    """``ndarray.__array_ufunc__`` where no argument overrides it."""
    given = dict(kwargs)
    out = given.pop("out", None)
    if out is not None:
        given["out"] = tuple(unwrapped(y) for y in out)
    keeps_class = given.pop("subok", True)
    inputs = tuple(map(_lifted, inputs))
    compute = np.clip if fun is clip_ufunc and method == "__call__" else getattr(fun, method)
    y = compute(*unwrapped(inputs), **given)
    if method == "at":
        return None
    if out is not None and any(o is not None for o in out):
        return _into(out, y)
    if not keeps_class:
        return y
    with np.errstate(all="ignore"):
        z = getattr(fun, method)(*sample(inputs), **sample(given))
    return like(z, y, (fun, inputs, 0))


def _into(out, y):
    """Return the arrays that results were stored into, after the user's ``__array_wrap__``."""
    made = [x if o is None else o for o, x in zip(out, y if len(out) > 1 else (y,))]
    for i, o in enumerate(made):
        if isinstance(o, SubclassVar) and overrides(type(o), "__array_wrap__"):
            made[i] = o.__array_wrap__(o, None, False)
    return made[0] if len(made) == 1 else tuple(made)


def _default_function(fun, args, kwargs):
    """``ndarray.__array_function__``."""
    args = tuple(map(_lifted, args))
    instances = [x for x in _leaves((args, kwargs)) if isinstance(x, SubclassVar)]
    is_active = any(_is_active(_owner(type(x))) for x in instances)
    body = getattr(fun, "_implementation", None)
    if is_active and type(body) is types.FunctionType:
        with levels.caught(TracedValueError, UnsupportedFunctionError):
            return body(*args, **kwargs)
    out = kwargs.get("out")
    y = fun(*unwrapped(args), **unwrapped(_without_defaults(fun, kwargs)))
    if out is not None:
        return out
    with np.errstate(all="ignore"):
        z = fun(*sample(args), **sample(kwargs))
    y = like(z, y)
    if is_active:
        _check_as_plain(fun, args, kwargs, y, instances)
    return y


def _without_defaults(fun, kwargs):
    """Leave out options with their default values, which NumPy's functions pass on to each other."""
    defaults = {each.name: each.default for each in parameters_of(fun) or ()}
    return {name: value for name, value in kwargs.items() if not _is_default(value, defaults.get(name, kwargs))}


def _is_default(value, default):
    return value is default or (type(value) is str and value == default)


def _check_as_plain(fun, args, kwargs, y, instances):
    """Raise if the function calls redefined methods of plain instances: the result on operands would differ."""
    with np.errstate(all="ignore"), levels.outside():
        wanted = fun(*_plain_sample(args), **_plain_sample(kwargs))
    if not _is_equal(wanted, y):
        names = sorted({type(x).__name__ for x in instances})
        raise refusal(
            [operand_of(x) for x in instances],
            f"numpy.{fun.__name__} of a {' and a '.join(names)} has no derivative rule{at()}: it calls methods that "
            f"the class redefines. Pass numpy.asarray(x)",
            UnsupportedFunctionError,
        )


def _plain_sample(x):
    if isinstance(x, SubclassVar):
        return plain(x, mixed._plain)
    if type(x) in (list, tuple):
        return type(x)([_plain_sample(item) for item in x])
    if type(x) is dict:
        return {name: _plain_sample(item) for name, item in x.items()}
    return sample(x)


def _is_equal(wanted, y):
    if isinstance(wanted, (list, tuple)):
        return isinstance(y, (list, tuple)) and len(y) == len(wanted) and all(map(_is_equal, wanted, y))
    is_instance = isinstance(wanted, np.ndarray) and type(wanted) is not np.ndarray
    if is_instance != (isinstance(y, np.ndarray) and not _is_operand(y) and type(y) is not np.ndarray):
        return False
    if wanted is None or isinstance(wanted, (bool, int, str, tuple)):
        return wanted == y
    value = np.asarray(mixed._plain(unwrapped(y)))
    wanted = np.asarray(wanted)
    return value.shape == wanted.shape and value.dtype == wanted.dtype and np.array_equal(
        value, wanted, equal_nan=value.dtype.kind in "fc"
    )


def _leaves(x):
    if isinstance(x, dict):
        x = list(x.values())
    if isinstance(x, (list, tuple)):
        for item in x:
            yield from _leaves(item)
    else:
        yield x


# ---------------------------------------------------------------------------------------------- the interface of arrays


class ArrayBase(np.ndarray):
    """Base of the classes with followed methods: creates traced instances over the memory of traced arrays."""

    def __new__(cls, shape, dtype=float, buffer=None, offset=0, strides=None, order=None):
        return new(cls, shape, dtype, buffer, offset, strides, order)


registration.set_array_base(ArrayBase)


class SubclassVar(ArrayBase):
    """Base of all traced classes: the attributes of `ndarray`, on the operand; most come from `subclass_interface`."""

    def __array_finalize__(self, obj):
        pass

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        ufunc = getattr(ufunc, "__wrapped__", ufunc)
        for x in (*inputs, *kwargs.get("out", ())):
            x = _lifted(x)
            if isinstance(x, SubclassVar):
                if overrides(type(x), "__array_ufunc__"):
                    return NotImplemented
            elif not _is_operand(x) and not _has_default_ufunc(x):
                return NotImplemented
        return _default_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return _default_function(function, args, kwargs)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array if type(array) is type(self) else instance(type(self), unwrapped(array), self)

    def __array__(self, dtype=None, copy=None):
        return operand_of(self).__array__(dtype, copy)

    def view(self, *args, **kwargs):
        cls, rest, named = _view_arguments(args, kwargs)
        x = operand_of(self).view(*rest, **named)
        if cls is np.ndarray:
            return x
        return instance(type(self) if cls is None else traced_class(cls, x), x, self)

    def __getitem__(self, key):
        y = operand_of(self)[unwrapped(key)]
        return y if _is_element(y) else instance(type(self), y, self)

    def __setitem__(self, key, value):
        operand_of(self)[unwrapped(key)] = unwrapped(value)

    def __len__(self):
        return len(operand_of(self))

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __contains__(self, item):
        return unwrapped(item) in operand_of(self)

    def __float__(self):
        return float(operand_of(self))

    def __complex__(self):
        return complex(operand_of(self))

    def __int__(self):
        return int(operand_of(self))

    def __index__(self):
        return operator.index(operand_of(self))

    def __bool__(self):
        return bool(operand_of(self))

    def __repr__(self):
        return repr(plain(self, mixed._plain))

    def __str__(self):
        return str(operand_of(self))

    def __format__(self, spec):
        return format(operand_of(self), spec)

    def __reduce__(self):
        return operand_of(self).__reduce__()

    def __reduce_ex__(self, protocol):
        return self.__reduce__()

    def __sizeof__(self):
        return object.__sizeof__(self)

    def __pow__(self, other, modulo=None):
        if modulo is not None or defers(self, other):
            return NotImplemented
        if overrides(type(self), "__array_ufunc__") or isinstance(_lifted(other), SubclassVar):
            short = _SHORT_POWERS.get(other) if type(other) in (int, float) else None
            return np.power(self, other) if short is None else short(self)
        return _by_operator(operator.pow, self, other)

    def __rpow__(self, other, modulo=None):
        return NotImplemented if modulo is not None or defers(self, other) else np.power(other, self)

    __hash__ = None


_SHORT_POWERS = {-1: np.reciprocal, 0.5: np.sqrt, 1: np.positive, 2: np.square}


def _by_operator(compute, left, right):
    """Apply an operator whose value differs from that of its ufunc in the last bits."""
    y = compute(unwrapped(left), unwrapped(right))
    z = compute(sample(left), sample(right))
    return like(z, y)


def _is_element(y):
    """Return whether a part of an array is a scalar, which has no subclass."""
    return not isinstance(y, np.ndarray) if not var.is_var(y) else var.is_scalar(y)


def _has_default_ufunc(x):
    return getattr(type(x), "__array_ufunc__", np.ndarray.__array_ufunc__) is np.ndarray.__array_ufunc__


def defers(x, other, in_place=False):
    """Return whether an operator of an array leaves the computation to the other operand."""
    if other is None or type(other) is type(x) or type(other) is np.ndarray or _is_operand(other):
        return False
    if isinstance(other, (bool, int, float, complex, np.generic, list, tuple)):
        return False
    if hasattr(type(other), "__array_ufunc__"):
        return not in_place and type(other).__array_ufunc__ is None
    priority = getattr(other, "__array_priority__", -1000000.0)
    return getattr(x, "__array_priority__", 0.0) < priority
