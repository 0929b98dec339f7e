"""Public mirrors of SciPy's modules, and second copies of SciPy's Python code that compute with traced values.

A mirror, ``wengert.scipy.<name>``, has every public name of ``scipy.<name>``: functions with a rule are proxies
(`wengert.rules.scipy`), classes may be replaced by those that the mirror defines, all others are SciPy's own objects.
Code under differentiation sees the mirror wherever its names hold the module, its functions or its classes.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

import wengert.numpy  # noqa: F401  (registers NumPy's functions)
from wengert.core.dispatch import refusing
from wengert.core.rebind import rebind
from wengert.rules.scipy import functions


def install(name: str) -> None:
    """Fill the module ``wengert.scipy.<name>``, and register its functions and classes in place of SciPy's.

    The names that the module defines itself, other than those with an underscore, replace SciPy's of the same name.
    """
    original = importlib.import_module(f"scipy.{name}")
    ours = sys.modules[f"wengert.scipy.{name}"]
    refusing.install_iterative(f"scipy.{name}")
    replaced = {word: vars(ours)[word] for word in public_names(original) if word in vars(ours)}
    for word, value in (functions.known(original) | replaced).items():
        theirs = getattr(original, word)
        register = rebind.register_class if isinstance(theirs, type) else rebind.register
        register(theirs, value)
        setattr(ours, word, value)
    for word in public_names(original):
        if word not in vars(ours):
            value = getattr(original, word)
            setattr(ours, word, rebind.REGISTERED[id(value)][1] if rebind.is_registered(value) else value)
    ours.__all__ = [*public_names(original)]
    rebind.register(original, ours)


def public_names(module: types.ModuleType) -> list[str]:
    """Return the public names of a module, without its modules unless it lists them."""
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return [name for name in listed if hasattr(module, name)]
    return [name for name, value in vars(module).items() if name[0] != "_" and not isinstance(value, types.ModuleType)]


def register_object(cls: type, convert: Callable[[Any], Any]) -> None:
    """Replace objects of a class of SciPy, wherever followed code finds them, by ``convert(object)``."""
    rebind.register_wrapper(cls, type, lambda value, _: convert(value))


# ---- second copies of SciPy's code

_copies: dict[str, types.ModuleType] = {}


def second_copy(name: str, **names: Any) -> types.ModuleType:
    """Execute the source of a SciPy module once more, with differentiable functions in place of registered ones.

    Parameters
    ----------
    name : str
        Of a module written in Python, such as ``"scipy.signal._signaltools"``.
    **names
        Further replacements of what the module imports or defines, by the name that it has there.

    Notes
    -----
    NumPy, functions with a rule and classes of mirrors are replaced in all imports, also those inside functions, and
    imports from a module that has a second copy yield that of the copy.
    """
    if name in _copies:
        return _copies[name]
    original = importlib.import_module(name)
    copy = types.ModuleType(original.__name__)
    space = vars(copy)
    space |= {key: vars(original)[key] for key in ("__file__", "__package__", "__spec__", "__doc__")}
    space["__builtins__"] = {**vars(builtins), "__import__": _import}
    _copies[name] = copy
    with open(original.__file__, encoding="utf-8") as file:
        source = file.read()
    exec(compile(source, original.__file__, "exec", dont_inherit=True), space)
    space.update(names)
    return copy


def _import(name, space=None, local=None, fromlist=(), level=0):
    """``__import__`` for second copies."""
    return replaced(builtins.__import__(name, space, local, fromlist, level))


class _Replaced(types.ModuleType):
    """A module as second copies see it: registered objects and copied modules are replaced."""

    __slots__ = ("_wengert_of",)

    def __init__(self, module):
        _of.__set__(self, module)

    def __getattribute__(self, name):
        module = _of.__get__(self)
        if (copy := _copies.get(module.__name__)) is not None and name in vars(copy) and name != "__dict__":
            return vars(copy)[name]
        return replaced(getattr(module, name))


_of = _Replaced._wengert_of


def replaced(value: Any) -> Any:
    """Return what code under differentiation sees in place of an object."""
    if type(value) in rebind.INERT:
        return value
    if rebind.is_registered(value):
        return rebind.REGISTERED[id(value)][1]
    if isinstance(value, types.ModuleType) and value.__name__.partition(".")[0] == "scipy":
        return _Replaced(value)
    return value
