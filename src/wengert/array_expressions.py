"""Evaluates the expressions of `numexpr`, texts whose names are variables of the caller, in NumPy for traced operands.

`numexpr` computes the plain value too, since it checks the expression, and its operators may not be NumPy's.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import wengert.numpy
from wengert.core.operands import var
from wengert.core.rebind import modules, registration
from wengert.errors import UnsupportedFunctionError

_FUNCTIONS = {"complex": lambda x, y: x + 1j * y}
_ROUNDINGS = 1e4  # a sum of many elements may be computed in another order


def evaluate(
    ex: str,
    local_dict: Any = None,
    global_dict: Any = None,
    out: Any = None,
    order: str = "K",
    casting: str = "safe",
    **options: Any,
) -> Any:
    """Evaluate an expression as `numexpr.evaluate` does."""
    original = sys.modules["numexpr"].evaluate
    frame = sys._getframe(1)
    inner = frame.f_locals if local_dict is None else local_dict
    outer = frame.f_globals if global_dict is None else global_dict
    code = compile(ex.strip(), "<expression>", "eval")
    names = [name for name in code.co_names if name in inner or (name in outer and name not in _FUNCTIONS)]
    operands = {name: inner[name] if name in inner else outer[name] for name in names}
    if not var.holds_traced([*operands.values()]):
        operands = {name: var.observed(x) for name, x in operands.items()}  # it keeps none of them
        return original(ex, operands, {}, out, order, casting, **options)
    plain = {name: var.observed(x) if var.is_traced(x) else x for name, x in operands.items()}
    expected = original(ex, plain, {}, order=order, casting=casting, **options)
    found = wengert.numpy.asarray(eval(code, {"__builtins__": {}, **_FUNCTIONS, **operands}))
    value = var.observed(found) if var.is_traced(found) else found
    rtol = _ROUNDINGS * np.finfo(np.result_type(expected.dtype, np.float16)).eps
    if np.shape(value) != expected.shape or not np.allclose(value, expected, rtol, atol=0, equal_nan=True):
        raise UnsupportedFunctionError(
            f"numexpr.evaluate({ex!r}) has no derivative rule: NumPy's operators give other values for these operands: "
            "write the expression with NumPy"
        )
    if out is None:
        return found
    out[...] = found
    return out


def install() -> None:
    """Register `evaluate` to replace the function of `numexpr`."""
    package = sys.modules["numexpr"]
    _FUNCTIONS.update((name, getattr(np, name)) for name in package.expressions.functions if hasattr(np, name))
    registration.register(package.evaluate, evaluate)
    modules.register_library(package)
