"""Proxies of scalar and array classes: calls and methods such as ``float.hex`` accept traced values."""

from __future__ import annotations

import functools
import types

import numpy as np

from wengert.core.dispatch import instances, lifted, mixed, refusing, subclasses
from wengert.core.operands import var


class Methods:
    """Proxy of a scalar or array class whose methods also accept traced values.

    `others` maps names of methods to functions that replace them.
    """

    __slots__ = ("_wengert_of", "_wengert_others")

    def __init__(self, cls, others=types.MappingProxyType({})):
        self._wengert_of, self._wengert_others = cls, others

    def __getattribute__(self, name):
        cls = object.__getattribute__(self, "_wengert_of")
        method = getattr(cls, name)
        if (others := object.__getattribute__(self, "_wengert_others")) and name in others:
            return others[name]
        if type(method) not in (types.MethodDescriptorType, types.WrapperDescriptorType):
            return method

        @functools.wraps(method)
        def call(x, *args, **kwargs):
            if isinstance(x, instances.SubclassVar):
                return getattr(instances.SubclassVar, name)(x, *args, **kwargs)
            kind = _plain_class_of(x)
            if kind is None or not issubclass(kind, cls):
                return method(x, *args, **kwargs)
            if not (kind is cls or getattr(kind, name) is method or name in _DISCRETE):
                refusing.refuse(x, f"{cls.__name__}.{name}")
            return getattr(x, name)(*args, **kwargs)

        return call


#: piecewise constant methods of float that NumPy's scalars implement with the same result
_DISCRETE = frozenset("__bool__ __ceil__ __floor__ __int__ __trunc__ is_integer".split())


def _plain_class_of(x):
    """Return the class that an operand stands for, or None for a plain value."""
    if isinstance(x, lifted.Lifted):
        return np.ndarray if x.ndim else x.dtype.type
    return x.__class__ if var.is_var(x) else None


class ScalarClass(Methods):
    """Proxy of a scalar class whose calls convert a traced value and keep its derivative."""

    __slots__ = ("_wengert_convert",)

    def __init__(self, cls, convert, others=types.MappingProxyType({})):
        super().__init__(cls, others)
        self._wengert_convert = convert

    def __call__(self, *args, **kwargs):
        if len(args) == 1 and isinstance(args[0], instances.SubclassVar):
            args = (subclasses.number(args[0], _class_of(self)),)
        operands = (args, tuple(kwargs.values()))
        if (len(args) == 1 and var.is_var(args[0])) or var.holds_traced(operands) or lifted.holds_lifted(operands):
            return _convert_of(self)(*args, **kwargs)
        try:
            return _class_of(self)(*args, **kwargs)
        except TypeError:
            if (numbers := numbers_of(args, issubclass(_class_of(self), (complex, np.complexfloating)))) is None:
                raise
        return _convert_of(self)(*numbers, **kwargs)


def numbers_of(args, are_complex):
    """Return arguments with objects replaced by the traced numbers of their conversion methods; None without such."""
    found = [mixed.read_number(x, ("__complex__", "__float__") if are_complex else ("__float__",)) for x in args]
    return found if var.holds_traced(found) or lifted.holds_lifted(found) else None


_convert_of, _class_of = ScalarClass._wengert_convert.__get__, Methods._wengert_of.__get__
