"""Functions of `numpy.ma` that make masked arrays: a traced array without masked elements counts as its data.

With masked elements, they raise as for any other conversion of a traced value.
"""

from __future__ import annotations

import functools
import inspect
import types
from typing import Any

import numpy as np
import numpy.ma as original

import wengert.numpy
from wengert.core.operands import var
from wengert.core.rebind import registration


def _mask_given(given: dict[str, Any]) -> Any:
    return given.get("mask", False)


def _maker(fun: Any, signature: inspect.Signature, mask_of: Any) -> Any:
    """Wrap `fun` so that traced data without masked elements is returned as a traced array; else `fun` is called."""

    @functools.wraps(fun, updated=())
    def make(*args, **options):
        if not var.holds_var((args, [*options.values()])):
            return fun(*args, **options)
        given = signature.bind(*args, **options).arguments
        data = given["data" if "data" in given else "a"]
        if not var.holds_var(data) or np.any(mask_of(given)):
            return fun(*args, **options)
        options = {"ndmin": given.get("ndmin", 0), "order": given.get("order") or "K"}
        return wengert.numpy.array(data, given.get("dtype"), copy=given.get("copy") or None, **options)

    return make


class _Class:
    """Proxy for the class of masked arrays where it is called or an attribute of it is read."""

    __slots__ = ()

    _make = staticmethod(_maker(original.MaskedArray, inspect.signature(original.MaskedArray), _mask_given))

    def __call__(self, *args, **options):
        return self._make(*args, **options)

    def __getattr__(self, name):
        return getattr(original.MaskedArray, name)


def install(home: types.ModuleType) -> None:
    """Define the functions in `home`, the proxy of the module `numpy.ma`, and register them to replace NumPy's."""
    masks = dict.fromkeys(("array", "asarray", "asanyarray"), _mask_given)
    masks["masked_invalid"] = lambda given: ~np.isfinite(given["a"])
    masks["masked_where"] = lambda given: given["condition"]
    for name, mask_of in masks.items():
        fun = getattr(original, name)
        setattr(home, name, _maker(fun, inspect.signature(fun), mask_of))
        registration.register(fun, getattr(home, name))
    made = _Class()
    registration.register_class(original.MaskedArray, made)
    for name in ("MaskedArray", "masked_array"):
        setattr(home, f"_called_{name}", made)
    registration.register(original, home)
