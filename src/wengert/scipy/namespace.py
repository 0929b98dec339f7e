"""Public mirrors of SciPy's modules.

A mirror, ``wengert.scipy.<name>``, has every public name of ``scipy.<name>``: functions with a rule are proxies
(`wengert.rules.scipy`), classes may be replaced by those that the mirror defines, all others are SciPy's own objects.
Code under differentiation sees the mirror wherever its names hold the module, its functions or its classes.
"""

from __future__ import annotations

import functools
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from wengert.core.dispatch import dispatch, refusing
from wengert.core.frames import at
from wengert.core.operands import var
from wengert.core.rebind import follow, registration
from wengert.errors import UnsupportedFunctionError
from wengert.rules.scipy.functions import known
from wengert.scipy.copies import LazyClass, replaced_module
from wengert.scipy.objects import derived
from wengert.scipy.standin import ORIGINALS, is_stand_in


def install(name: str) -> None:
    """Fill the module ``wengert.scipy.<name>``, and register its functions and classes in place of SciPy's.

    Public names that the module defines itself replace SciPy's.
    """
    original = importlib.import_module(f"scipy.{name}")
    ours = sys.modules[f"wengert.scipy.{name}"]
    refusing.install_iterative(f"scipy.{name}")
    replaced = {word: vars(ours)[word] for word in public_names(original) if word in vars(ours)}
    replace(name, known(original) | replaced)
    for word in public_names(original):
        if word not in vars(ours) and not _is_later(value := _original_name(original, word), original):
            setattr(ours, word, follow.REGISTERED[id(value)][1] if registration.is_registered(value) else value)
    ours.__all__ = public_names(original)
    ours.__getattr__ = functools.partial(_missing_name, original, ours)
    ours.__dir__ = lambda: sorted({*vars(ours), *ours.__all__})
    registration.register(original, ours)


def install_later(name: str) -> None:
    """Load the module ``wengert.scipy.<name>``, which installs itself, when followed code first uses SciPy's."""
    load = functools.partial(importlib.import_module, f"wengert.scipy.{name}")
    registration.register_later(f"scipy.{name}", load)


def replace(name: str, values: dict[str, Any]) -> None:
    """Define public names of the module ``wengert.scipy.<name>``, and register their values in place of SciPy's."""
    original, ours = importlib.import_module(f"scipy.{name}"), sys.modules[f"wengert.scipy.{name}"]
    for word, value in values.items():
        theirs = getattr(original, word)
        if isinstance(theirs, type):
            is_ours = isinstance(value, LazyClass) or is_stand_in(value)
            registration.register_class(theirs, value, derived if is_ours else None)
            ORIGINALS.setdefault(value, theirs)
        else:
            registration.register(theirs, value)
        setattr(ours, word, value)


def replace_later(name: str, module: str, homes: str) -> None:
    """Call `replace` with the dict ``REPLACED`` of `module` when a member of SciPy's modules `homes` is first met."""

    def install():
        replace(name, importlib.import_module(module).REPLACED)

    for home in homes.split():
        registration.register_later(f"scipy.{name}.{home}", install)


def _is_later(value, package):
    """Return whether a value, its class or a base class is from a module of a package that is registered later."""
    homes = {registration.module_of(x) for x in (value, *(value if isinstance(value, type) else type(value)).__mro__)}
    return any(home.startswith(f"{package.__name__}.") for home in homes & registration.deferred.keys())


def _missing_name(original, ours, word):
    """``__getattr__`` of a mirror, for names that it does not define, or whose registration is deferred."""
    value = _original_name(original, word)
    registration.is_registered(value)
    return vars(ours).get(word, value)


def _original_name(original, word):
    """Return a member of a SciPy module; for a module, the replacement that second copies see."""
    value = getattr(original, word)
    return replaced_module(value) if isinstance(value, types.ModuleType) else value


def public_names(module: types.ModuleType) -> list[str]:
    """Return the public names of a module, without its modules unless it lists them."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if hasattr(module, name)]
    return [name for name, value in vars(module).items() if name[0] != "_" and not isinstance(value, types.ModuleType)]


def with_value(y: Any, value: Any) -> Any:
    """Return `value` with the derivative of `y`, which agrees with it within rounding; in a program, `y` itself."""
    if var.may_record() and var.recording_level(y) is not None:
        return y
    return dispatch.replaced_value(y, value)


def computed(fun: Callable, *args: Any) -> Any:
    """Call a function on plain values; a recorded program calls it again, or guards the values that it read."""
    if var.may_record() and var.recording_level(args) is not None:
        return dispatch.record_constant(dispatch.constant_row, args, {}, fun)
    return fun(*var.plain(args))


def refusing_class(original: type, remedy: str) -> type:
    """Return a class that creates SciPy's objects from plain arguments and refuses traced ones."""
    name = f"{original.__module__.partition('._')[0]}.{original.__name__}"

    def make(cls, *args, **options):
        if var.holds_traced((args, tuple(options.values()))):
            raise UnsupportedFunctionError(f"{name} has no derivative rule{at()}: {remedy}")
        return original(*args, **options)

    space = {"__new__": make, "__doc__": original.__doc__, "__module__": f"wengert.{name.rpartition('.')[0]}"}
    space["_wengert_remedy"] = remedy
    return type(original.__name__, (), space)
