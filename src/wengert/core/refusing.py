"""Functions and classes in C that know numbers by their type alone: called by followed code, they refuse traced values.

``decimal.Decimal(x)`` takes floats and whatever is a subclass of them, and asks nothing else of what it is given.
Its own error leaves no note at a derivative, which a function that catches it would lose without a word (0055).
So followed code has a stand-in.
Where a class is not called, read from or mapped it is itself, as `type` is (0052).
"""

from __future__ import annotations

import sys
import types

from wengert.core import dispatch, lifted, rebind, var

#: functions and classes that take numbers, by module; then the alternative constructors of such classes
NAMES = {
    "datetime": ("date", "datetime", "timedelta"),
    "decimal": ("Decimal",),
    "time": ("ctime", "gmtime", "localtime", "sleep"),
}
_MAKERS = ("from_float", "from_number", "fromtimestamp", "utcfromtimestamp")


class Refusing:
    """Stand-in for a function or class that refuses traced arguments and otherwise behaves like the original."""

    __slots__ = ("_wengert_name", "_wengert_of")

    def __init__(self, value, name):
        self._wengert_of, self._wengert_name = value, name

    def __call__(self, *args, **kwargs):
        name = _own(self, "_wengert_name")
        args, kwargs = [_plain(x, name) for x in args], {word: _plain(x, name) for word, x in kwargs.items()}
        return _own(self, "_wengert_of")(*args, **kwargs)

    def __getattribute__(self, name):
        value = getattr(_own(self, "_wengert_of"), name)
        return Refusing(value, f"{_own(self, '_wengert_name')}.{name}") if name in _MAKERS else value


_own = object.__getattribute__


def _plain(x, name):
    """Return the plain value of an argument, or raise if it carries a derivative."""
    if not (var.is_scalar(x) or (isinstance(x, lifted.Lifted) and not x.ndim)):
        return x
    refuse(x, name)
    return var.observed(x)


def refuse(x, name: str) -> None:
    """Raise if an operand that reaches a function of this name carries a derivative."""
    if isinstance(x, lifted.Lifted):
        x._leave(name)
    if var.is_traced(x) and not var.is_passive(x):
        raise dispatch.refusal(x, dispatch.call_message(name))


def heir(cls: type) -> Refusing | None:
    """Stand-in for a subclass of such a class, if its constructor is that of the class in C."""
    made = type(cls), type(cls.__new__), type(cls.__init__)
    is_in_c = made == (type, types.BuiltinFunctionType, types.WrapperDescriptorType)
    return Refusing(cls, cls.__qualname__) if is_in_c else None


def install(package: str) -> None:
    """Register stand-ins for the functions and classes of a module listed in `NAMES`, and for subclasses of these."""
    module = sys.modules[package]
    for name in NAMES[package]:
        value = getattr(module, name)
        stand_in = Refusing(value, f"{package}.{name}")
        if isinstance(value, type):
            rebind.register_class(value, stand_in, heir)
        else:
            rebind.register(value, stand_in)
    rebind.register_library(module)
