"""Proxies of C functions and classes that read a scalar without calling any conversion method.

``decimal.Decimal(x)`` accepts floats by their type and reads the value directly, so a traced scalar cannot intervene.
If it raises instead, the error is not noted at a derivative, and a function that catches it would silently lose the
derivative. Code with rebound names calls a proxy, which raises for traced arguments.
Code sees the class itself unless it calls the class, reads an attribute of it or passes it to ``map``.
"""

from __future__ import annotations

import functools
import sys
import types

from wengert.core.dispatch import arguments, lifted
from wengert.core.dispatch.checks import refusal
from wengert.core.frames import ITERATIVE
from wengert.core.messages import call_message, solver_message
from wengert.core.operands import var
from wengert.core.rebind import modules, registration

#: functions and classes that take scalars, by module; below, the alternative constructors of these classes
NAMES = {
    "datetime": ("date", "datetime", "timedelta"),
    "decimal": ("Decimal",),
    "time": ("ctime", "gmtime", "localtime", "sleep"),
}
_CONSTRUCTORS = ("from_float", "from_number", "fromtimestamp", "utcfromtimestamp")


class Refusing:
    """Proxy of a function or class that raises for traced arguments and otherwise behaves like the original."""

    __slots__ = ("_wengert_name", "_wengert_of")

    def __init__(self, value, name):
        self._wengert_of, self._wengert_name = value, name

    def __call__(self, *args, **kwargs):
        name = _get(self, "_wengert_name")
        args, kwargs = [_plain(x, name) for x in args], {word: _plain(x, name) for word, x in kwargs.items()}
        return _get(self, "_wengert_of")(*args, **kwargs)

    def __getattribute__(self, name):
        value = getattr(_get(self, "_wengert_of"), name)
        return Refusing(value, f"{_get(self, '_wengert_name')}.{name}") if name in _CONSTRUCTORS else value


class Iterative(Refusing):
    """Proxy of a function that iterates to convergence; raises for traced arguments and traced results of callbacks."""

    __slots__ = ()

    def __call__(self, *args, **kwargs):
        def checked(x):
            if isinstance(x, types.FunctionType | types.MethodType | functools.partial):
                return lambda *a, **k: refused(x(*a, **k))
            return refused(x)

        def refused(x):
            if var.holds_traced(x) and not arguments.all_passive(x):
                raise refusal(x, solver_message(name))
            return var.observed(x)

        name = _get(self, "_wengert_name").rpartition(".")[2]
        args, kwargs = [*map(checked, args)], {word: checked(x) for word, x in kwargs.items()}
        return _get(self, "_wengert_of")(*args, **kwargs)


_get = object.__getattribute__


def _plain(x, name):
    """Return the plain value of an argument, or raise if it carries a derivative."""
    if not (var.is_scalar(x) or (isinstance(x, lifted.Lifted) and not x.ndim)):
        return x
    refuse(x, name)
    return var.observed(x)


def refuse(x, name: str) -> None:
    """Raise if an operand passed to a function of this name carries a derivative."""
    if isinstance(x, lifted.Lifted):
        x._raise_unsupported(name)
    if var.is_traced(x) and not var.is_passive(x):
        raise refusal(x, call_message(name))


def proxy_of_subclass(cls: type) -> Refusing | None:
    """Return a proxy of a subclass of a registered class if it inherits the constructor in C, else None."""
    made = type(cls), type(cls.__new__), type(cls.__init__)
    is_in_c = made == (type, types.BuiltinFunctionType, types.WrapperDescriptorType)
    return Refusing(cls, cls.__qualname__) if is_in_c else None


def install_iterative(package: str) -> None:
    """Register proxies of the functions that `ITERATIVE` lists for a SciPy package and its modules."""
    for place, names in ITERATIVE.items():
        module = sys.modules.get(place)
        if module is None or not f"{place}.".startswith(f"{package}."):
            continue
        for name in names:
            value = getattr(module, name, None)  # older versions of SciPy have fewer
            if value is not None and registration.module_of(value) not in registration.deferred:
                registration.register(value, Iterative(value, f"{place}.{name}"))
        modules.register_library(module)


_installed: set[tuple[str, str]] = set()  # module and name of registered functions and classes


def install(package: str) -> None:
    """Register proxies of the functions and classes of a module listed in `NAMES`, and of their subclasses.

    A function that the user has patched is left alone, and registered when the module is next met without the patch.
    """
    module = sys.modules[package]
    own = {name: value for name in NAMES[package] if (value := getattr(module, name)).__module__ == package}
    for name, value in own.items():
        if (package, name) in _installed:
            continue
        _installed.add((package, name))
        proxy = Refusing(value, f"{package}.{name}")
        if isinstance(value, type):
            registration.register_class(value, proxy, proxy_of_subclass)
        else:
            registration.register(value, proxy)
    if len(own) == len(NAMES[package]):
        modules.register_library(module)
    else:
        registration.register_later(package, functools.partial(install, package))
