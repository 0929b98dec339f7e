"""Calls of NumPy functions on instances of user-defined subclasses of `numpy.ndarray`.

The class of a result, and the array passed to its ``__array_finalize__``, are found by the same call on *samples*:
plain arrays whose classes have the same inheritance and ``__array_priority__``, and which remember the instance that
they were made from.

A subclass that redefines methods or operators of `ndarray` may change what NumPy's Python functions compute.  These
functions then run on the instances themselves.  If they convert the instances to plain arrays, they run on operands
instead, and the result is compared with that of plain code.
"""

from __future__ import annotations

import functools
import types

import numpy as np

from wengert.core import levels
from wengert.core.dispatch import instances, mixed
from wengert.core.dispatch.arguments import clean
from wengert.core.dispatch.checks import refusal
from wengert.core.dispatch.instances import SubclassVar, instance, is_operand, operand_of, owner, sample, unwrapped
from wengert.core.frames import at
from wengert.core.messages import subclass_message
from wengert.core.operands import var
from wengert.errors import TracedValueError, UnsupportedFunctionError
from wengert.features import clip_ufunc, is_masked_array, parameters_of

# ---------------------------------------------------------------------------------------------- dispatch


def overrides(kind, name):
    """Return whether the user's classes define an attribute of `ndarray`."""
    return getattr(owner(kind)._wengert_plain, name, None) is not getattr(np.ndarray, name, None)


#: attributes of `ndarray` that a subclass may define without changing what NumPy's functions compute
_PASSIVE = frozenset(
    "__new__ __init__ __array_finalize__ __array_priority__ __doc__ __module__ __dict__ __weakref__ __repr__ __str__ "
    "__format__ __reduce__ __reduce_ex__ __setstate__ __getstate__ __init_subclass__ __class_getitem__ __class__ "
    "__hash__ __dir__ __sizeof__ __slots__ __getattribute__ __setattr__ __delattr__ __subclasshook__ "
    "__array_ufunc__ __array_function__".split()
)


@functools.lru_cache(instances.MAX_KEPT)
def _is_active(kind):
    """Return whether a class redefines a method or an operator that NumPy's Python functions may call."""
    names = {name for base in instances.user_classes(kind) for name in vars(base)}
    return overrides(kind, "__array_ufunc__") or any(hasattr(np.ndarray, name) for name in names - _PASSIVE)


_NUMBERS = "biufc"


def as_instance(x):
    """Convert a plain instance of a followed subclass to a traced class, with a constant operand.

    A masked array without masked elements is converted to an array.
    """
    kind = type(x)
    if kind is np.ndarray or not isinstance(x, np.ndarray) or is_operand(x) or isinstance(x, SubclassVar):
        return x
    if is_unmasked(x):
        return np.ndarray.view(x, np.ndarray)
    if not instances.is_subclass(instances.original(kind)) or instances.dtype_of.__get__(x).kind not in _NUMBERS:
        return x
    kind = instances.traced_class(kind, x)
    made = instances.holding(kind, np.ndarray.view(x, np.ndarray))
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
        if isinstance(x, np.ndarray) and type(x) is not np.ndarray and not is_operand(x):
            if is_unmasked(x):
                found = True
                continue
            if (message := subclass_message(type(x))) is not None:
                raise refusal(args, message, UnsupportedFunctionError)
            has_numbers = isinstance(x, SubclassVar) or instances.dtype_of.__get__(x).kind in _NUMBERS
            found = found or (has_numbers and instances.is_subclass(instances.original(type(x))))
    return found


def is_unmasked(x) -> bool:
    """Return whether an array is a masked array without masked elements, which is treated as its data."""
    return is_masked_array(type(x)) and not np.ma.getmaskarray(x).any()


def call(fun, args, kwargs):
    """Call a NumPy function on operands and instances of subclasses, by NumPy's protocols."""
    args = tuple(map(as_instance, args))
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
    inputs = tuple(map(as_instance, inputs))
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


def _in_order(given):
    """Return one instance of each class in the order in which NumPy asks them: subclasses first."""
    found: list = []
    for x in given:
        if type(x) in map(type, found):
            continue
        place = next((i for i, y in enumerate(found) if issubclass(_user(x), _user(y))), len(found))
        found.insert(place, x)
    return found


def _user(x):
    return owner(type(x))._wengert_plain


def operate(fun, left, right):
    """Apply an operator to an operand and an instance of a subclass: its reflected method goes first, if redefined."""
    right = as_instance(right)
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
    """Return the value that ``cls(x)`` converts: the result of the user's own conversion method, or the operand."""
    name = f"__{cls.__name__}__"
    return getattr(x, name)() if overrides(type(x), name) else operand_of(x)


def default_ufunc(fun, method, inputs, kwargs):
    """Implement ``ndarray.__array_ufunc__`` for arguments that do not override it."""
    given = dict(kwargs)
    out = given.pop("out", None)
    if out is not None:
        given["out"] = tuple(unwrapped(y) for y in out)
    keeps_class = given.pop("subok", True)
    inputs = tuple(map(as_instance, inputs))
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


def default_function(fun, args, kwargs):
    """Implement ``ndarray.__array_function__``."""
    args = tuple(map(as_instance, args))
    given = [x for x in _leaves((args, kwargs)) if isinstance(x, SubclassVar)]
    is_active = any(_is_active(owner(type(x))) for x in given)
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
        _check_as_plain(fun, args, kwargs, y, given)
    return y


def _without_defaults(fun, kwargs):
    """Drop options that have their default values, since NumPy's functions pass these on to each other."""
    defaults = {each.name: each.default for each in parameters_of(fun) or ()}
    return {name: value for name, value in kwargs.items() if not _is_default(value, defaults.get(name, kwargs))}


def _is_default(value, default):
    return value is default or (type(value) is str and value == default)


def _check_as_plain(fun, args, kwargs, y, given):
    """Raise if the function calls redefined methods of plain instances: the result on operands would differ."""
    with np.errstate(all="ignore"), levels.outside():
        wanted = fun(*instances.plain_sample(args), **instances.plain_sample(kwargs))
    if not _is_equal(wanted, y):
        names = sorted({type(x).__name__ for x in given})
        raise refusal(
            [operand_of(x) for x in given],
            f"numpy.{fun.__name__} of a {' and a '.join(names)} has no derivative rule{at()}: it calls methods that "
            f"the class redefines. Pass numpy.asarray(x)",
            UnsupportedFunctionError,
        )


def _is_equal(wanted, y):
    if isinstance(wanted, (list, tuple)):
        return isinstance(y, (list, tuple)) and len(y) == len(wanted) and all(map(_is_equal, wanted, y))
    is_instance = isinstance(wanted, np.ndarray) and type(wanted) is not np.ndarray
    if is_instance != (isinstance(y, np.ndarray) and not is_operand(y) and type(y) is not np.ndarray):
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


def like(z, y, context=None):
    """Return `y` with the classes of `z`, the result of the same call on samples."""
    if isinstance(z, instances.Sample):
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
    """Call the user's ``__array_wrap__`` on a result, a new array that may be 0-d."""
    y = var.as_array(y) if var.is_var(y) and var.is_scalar(y) else y if is_operand(y) else clean(np.asarray(y))
    try:
        return template.__array_wrap__(y, context, is_scalar)
    except TypeError:
        return template.__array_wrap__(y, context)  # the signature before NumPy 2


def defers(x, other, in_place=False):
    """Return whether an operator of an array leaves the computation to the other operand."""
    if other is None or type(other) is type(x) or type(other) is np.ndarray or is_operand(other):
        return False
    if isinstance(other, (bool, int, float, complex, np.generic, list, tuple)):
        return False
    if hasattr(type(other), "__array_ufunc__"):
        return not in_place and type(other).__array_ufunc__ is None
    priority = getattr(other, "__array_priority__", -1000000.0)
    return getattr(x, "__array_priority__", 0.0) < priority
