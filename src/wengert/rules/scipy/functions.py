"""Proxies of SciPy functions that dispatch on ``__array_function__``, as NumPy's functions do.

``la = Functions("scipy.linalg")`` makes them: ``la.solve`` has SciPy's signature and computes SciPy's values, and rules
are declared for it by the functions of `wengert.registry`.
"""

from __future__ import annotations

import functools
import importlib
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from wengert import registry
from wengert.rules.composed import overrides_functions

_PLAIN = frozenset((np.ndarray, np.float64, float, int, bool, complex, str, type(None), slice, np.dtype))
_CODE = (types.FunctionType, types.MethodType, functools.partial)

#: classes of second copies of SciPy's code (`wengert.scipy.copies`)
copied: set[type] = set()

#: proxies by the identity of SciPy's function
_proxies: dict[int, Callable] = {}


def carriers(values: Iterable) -> Iterator:
    """Yield the values that override NumPy's functions, including those in lists, tuples and dictionaries."""
    for x in values:
        kind = type(x)
        if kind in _PLAIN:
            continue
        if isinstance(x, (list, tuple)):
            yield from carriers(x)
        elif kind is dict:
            yield from carriers(x.values())
        elif overrides_functions(x):
            yield x


def proxy_of(fun: Callable, module: str, name: str) -> Callable:
    """Return the proxy of a SciPy function, published as ``wengert.<module>.<name>``.

    A call dispatches to operands that override NumPy's functions; without such operands it goes to SciPy.
    A composed function always runs its body if an argument may hold hidden traced values: if it is a function, or an
    object of a class that was copied from SciPy.
    """
    if id(fun) in _proxies:
        return _proxies[id(fun)]

    @functools.wraps(fun, updated=())
    def proxy(*args, **kwargs):
        given = (*args, *kwargs.values()) if kwargs else args
        found = [*carriers(given)]
        kinds = tuple({type(x): None for x in found})
        for x in found:
            y = x.__array_function__(proxy, kinds, args, kwargs)
            if y is not NotImplemented:
                return y
        if any(isinstance(x, _CODE) or type(x) in copied for x in given):
            row = registry.rows.get(proxy)
            if row is not None and row.kind == "composed":
                return row.variadic(*args, **kwargs)
        return fun(*args, **kwargs)

    proxy.__module__, proxy.__name__, proxy.__qualname__ = f"wengert.{module}", name, name
    return _proxies.setdefault(id(fun), proxy)


class Functions:
    """Namespace of the proxies of a SciPy module's functions, each created on first access."""

    def __init__(self, module: str):
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        fun = getattr(importlib.import_module(self._module), name)
        found = self.__dict__[name] = proxy_of(fun, self._module, name)
        return found

    def has(self, name: str) -> bool:
        """Return whether this version of SciPy has the function."""
        return hasattr(importlib.import_module(self._module), name)


def with_rule(fun: Any) -> Callable | None:
    """Return the proxy of a function if it has a rule."""
    proxy = _proxies.get(id(fun))
    return proxy if proxy in registry.rows else None


def known(module: types.ModuleType) -> dict[str, Callable]:
    """Return the proxies of a module's functions that have a rule, by name."""
    return {name: proxy for name, value in vars(module).items() if (proxy := with_rule(value)) is not None}
