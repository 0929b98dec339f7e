"""Replacements of functions of ``scipy.sparse`` for calls with traced values."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

from wengert.core.dispatch.lifted import Lifted
from wengert.core.dispatch.sparse_arrays import SparseVar
from wengert.core.operands import var


def holds_traced(x: Any) -> bool:
    """Return whether a value is traced, sparse or dense, or a sequence that holds a traced one."""
    if isinstance(x, (list, tuple)):
        return any(map(holds_traced, x))
    return type(x) is SparseVar or var.is_traced(x) or isinstance(x, Lifted)


def if_traced(module: types.ModuleType, name: str = "") -> Callable:
    """Decorate a replacement that handles traced arguments; other calls go to the function of `module` of that name."""

    def decorate(body):
        original = getattr(module, name or body.__name__)

        @functools.wraps(original, updated=())
        def call(*args, **options):
            return (body if holds_traced((*args, *options.values())) else original)(*args, **options)

        return call

    return decorate
