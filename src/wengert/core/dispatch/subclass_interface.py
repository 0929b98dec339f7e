"""Operators, methods and attributes of `ndarray` on traced instances of its subclasses.

`SubclassVar` needs them when the first traced class is made, so programs without subclasses never import this module.
"""

from __future__ import annotations

import types

import numpy as np

from wengert.core.dispatch import mixed
from wengert.core.dispatch.subclasses import SubclassVar, defers, like, operand_of, overrides, sample, unwrapped
from wengert.core.frames import at
from wengert.errors import UnsupportedFunctionError
from wengert.features import array_methods

#: attributes that describe the memory layout, or raise for a traced array
_DESCRIPTIONS = "shape dtype ndim size itemsize nbytes strides flags device flat base data ctypes".split()
_DESCRIPTIONS += ["__array_interface__", "__array_struct__"]
#: methods that NumPy computes by ufuncs, which a class with ``__array_ufunc__`` redefines
_BY_UFUNCS = {
    **array_methods(),
    "cumsum": lambda x, axis=None, dtype=None, out=None: _accumulated(np.add, x, axis, dtype, out),
    "cumprod": lambda x, axis=None, dtype=None, out=None: _accumulated(np.multiply, x, axis, dtype, out),
    "trace": lambda x, *args, **kwargs: np.add.reduce(x.diagonal(*args, **kwargs), -1),
    "round": lambda x, decimals=0, out=None: _rounded(x, decimals),
}


def _accumulated(fun, x, axis, dtype, out):
    options = {} if out is None else {"out": out}
    x, axis = (x.ravel(), 0) if axis is None else (x, axis)
    return fun.accumulate(x, axis, dtype, **options)


def _rounded(x, decimals):
    if decimals:
        raise UnsupportedFunctionError(f"ndarray.round with decimals has no rule for a {type(x).__name__}{at()}")
    return np.rint(x)


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
