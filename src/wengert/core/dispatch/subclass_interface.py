"""Operators, methods and attributes of `ndarray` on traced instances of its subclasses, computed on the operand.

`SubclassVar` needs them when the first traced class is made, so programs without subclasses never import this module.
"""

from __future__ import annotations

import operator
import types

import numpy as np

from wengert.core.dispatch import instances, mixed
from wengert.core.dispatch.instances import SubclassVar, instance, operand_of, sample, unwrapped
from wengert.core.dispatch.subclasses import as_instance, default_function, default_ufunc, defers, like, overrides
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.errors import UnsupportedFunctionError
from wengert.features import array_methods

#: attributes that describe the memory layout, or raise for a traced array
_DESCRIPTIONS = "shape dtype ndim size itemsize nbytes strides flags device flat base data ctypes".split()
_DESCRIPTIONS += ["__array_interface__", "__array_struct__"]
#: methods that NumPy computes by ufuncs, so that a class can change them through ``__array_ufunc__``
_BY_UFUNCS = {
    **array_methods(),
    "cumsum": lambda x, axis=None, dtype=None, out=None: _accumulated(np.add, x, axis, dtype, out),
    "cumprod": lambda x, axis=None, dtype=None, out=None: _accumulated(np.multiply, x, axis, dtype, out),
    "trace": lambda x, *args, **kwargs: np.add.reduce(x.diagonal(*args, **kwargs), -1),
    "round": lambda x, decimals=0, out=None: _rounded(x, decimals),
}

#: methods that convert or describe the operand
_OF_OPERAND = {
    "bool": bool, "complex": complex, "contains": operator.contains, "float": float, "format": format,
    "index": operator.index, "int": int, "len": len, "str": str,
}  # fmt: skip
_SHORT_POWERS = {-1: np.reciprocal, 0.5: np.sqrt, 1: np.positive, 2: np.square}


def _accumulated(fun, x, axis, dtype, out):
    options = {} if out is None else {"out": out}
    x, axis = (x.ravel(), 0) if axis is None else (x, axis)
    return fun.accumulate(x, axis, dtype, **options)


def _rounded(x, decimals):
    if decimals:
        raise UnsupportedFunctionError(f"ndarray.round with decimals has no rule for a {type(x).__name__}{at()}")
    return np.rint(x)


class _Interface:
    """Attributes of `SubclassVar`."""

    def __array_finalize__(self, obj):
        pass

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        ufunc = getattr(ufunc, "__wrapped__", ufunc)
        for x in (*inputs, *kwargs.get("out", ())):
            x = as_instance(x)
            if isinstance(x, SubclassVar):
                if overrides(type(x), "__array_ufunc__"):
                    return NotImplemented
            elif not instances.is_operand(x) and not _has_default_ufunc(x):
                return NotImplemented
        return default_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function, types, args, kwargs):
        return default_function(function, args, kwargs)

    def __array_wrap__(self, array, context=None, return_scalar=False):
        return array if type(array) is type(self) else instance(type(self), unwrapped(array), self)

    def __array__(self, dtype=None, copy=None):
        return operand_of(self).__array__(dtype, copy)

    def view(self, *args, **kwargs):
        cls, rest, named = instances.view_arguments(args, kwargs)
        x = operand_of(self).view(*rest, **named)
        if cls is np.ndarray:
            return x
        return instance(type(self) if cls is None else instances.traced_class(cls, x), x, self)

    def __getitem__(self, key):
        y = operand_of(self)[unwrapped(key)]
        return y if _is_element(y) else instance(type(self), y, self)

    def __setitem__(self, key, value):
        operand_of(self)[unwrapped(key)] = unwrapped(value)

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __repr__(self):
        return repr(instances.plain(self, mixed._plain))

    def __reduce__(self):
        return operand_of(self).__reduce__()

    def __reduce_ex__(self, protocol):
        return self.__reduce__()

    def __sizeof__(self):
        return object.__sizeof__(self)

    def __pow__(self, other, modulo=None):
        if modulo is not None or defers(self, other):
            return NotImplemented
        if overrides(type(self), "__array_ufunc__") or isinstance(as_instance(other), SubclassVar):
            short = _SHORT_POWERS.get(other) if type(other) in (int, float) else None
            return np.power(self, other) if short is None else short(self)
        return _by_operator(operator.pow, self, other)

    def __rpow__(self, other, modulo=None):
        return NotImplemented if modulo is not None or defers(self, other) else np.power(other, self)


def _by_operator(compute, left, right):
    """Apply an operator whose result differs from its ufunc's in the last bits."""
    y = compute(unwrapped(left), unwrapped(right))
    z = compute(sample(left), sample(right))
    return like(z, y)


def _is_element(y):
    """Return whether a part of an array is a scalar, which has no subclass."""
    return not isinstance(y, np.ndarray) if not var.is_var(y) else var.is_scalar(y)


def _has_default_ufunc(x):
    return getattr(type(x), "__array_ufunc__", np.ndarray.__array_ufunc__) is np.ndarray.__array_ufunc__


def _define_operators():
    binary = {name: fun for fun, (_, name, _) in mixed._OPERATORS.items()} | {"__rdivmod__": np.divmod}
    for name, fun in binary.items():
        name = name.removeprefix("__r").removesuffix("__")

        def forward(self, other, fun=fun):
            return NotImplemented if defers(self, other) else fun(self, other)

        def backward(self, other, fun=fun):
            return NotImplemented if defers(self, other) else fun(other, self)

        def in_place(self, other, fun=fun):
            return NotImplemented if defers(self, other, True) else fun(self, other, out=(self,))

        for word, method in ((name, forward), (f"r{name}", backward), (f"i{name}", in_place)):
            if f"__{word}__" not in vars(SubclassVar) and hasattr(np.ndarray, f"__{word}__"):
                setattr(SubclassVar, f"__{word}__", method)
    for name, fun in mixed.COMPARISONS.items():
        setattr(SubclassVar, f"__{name}__", lambda x, y, fun=fun: NotImplemented if defers(x, y) else fun(x, y))
    for name, fun in (mixed.UNARY | {"invert": np.invert}).items():
        setattr(SubclassVar, f"__{name}__", lambda x, fun=fun: fun(x))


def _method(name):
    def method(self, *args, **kwargs):
        by_ufuncs = _BY_UFUNCS.get(name)
        if by_ufuncs is not None and overrides(type(self), "__array_ufunc__"):
            return by_ufuncs(self, *args, **kwargs)
        y = getattr(operand_of(self), name)(*unwrapped(args), **unwrapped(kwargs))
        if (out := kwargs.get("out")) is not None:
            return out
        with np.errstate(all="ignore"):
            z = getattr(sample(self), name)(*sample(args), **sample(kwargs))
        return like(z, y)

    method.__name__ = method.__qualname__ = name
    return method


def _attribute(name):
    def read(self):
        y = getattr(operand_of(self), name)
        return like(getattr(sample(self), name), y)

    return property(read, lambda self, value: setattr(operand_of(self), name, unwrapped(value)))


def _description(name):
    return property(
        lambda self: getattr(operand_of(self), name), lambda self, value: setattr(operand_of(self), name, value)
    )


def define() -> None:
    """Define every attribute of `ndarray` on `SubclassVar`, so that none reaches the memory of an instance."""
    for name, value in vars(_Interface).items():
        if type(value) is types.FunctionType:
            setattr(SubclassVar, name, value)
    for name, fun in _OF_OPERAND.items():
        setattr(SubclassVar, f"__{name}__", lambda x, *args, fun=fun: fun(operand_of(x), *unwrapped(list(args))))
    _define_operators()
    for name in dir(np.ndarray):
        value = getattr(np.ndarray, name)
        if name in vars(SubclassVar) or (hasattr(object, name) and not name.startswith("__reduce")):
            continue
        if name in _DESCRIPTIONS:
            setattr(SubclassVar, name, _description(name))
        elif type(value) is types.GetSetDescriptorType:
            setattr(SubclassVar, name, _attribute(name))
        elif type(value) in (types.MethodDescriptorType, types.WrapperDescriptorType):
            setattr(SubclassVar, name, _method(name))
