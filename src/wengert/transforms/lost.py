"""Detects results that lost their derivative, for example because a cache returns a value that a plain call stored.

The key of a cache may be an integer, a string, a rounded number, or a comparison with a tolerance.  All of these are
piecewise constant, so no single operation reveals the loss.  The result does: it carries no derivative, although plain
calls at nearby points return other values, and these change about in proportion to the distance, on both sides.
"""

from __future__ import annotations

import contextvars
import inspect
import types
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert import containers
from wengert.core import levels
from wengert.core.operands.var import has_searches, holds_traced, is_traced, plain
from wengert.core.tape.memory import Level
from wengert.errors import CachedValueWarning
from wengert.transforms.bounded import TooLong, bounded

__all__ = ["check"]

_OWN = f"{__name__.partition('.')[0]}."
_STEPS = 2.0**-10, 2.0**-17  # relative distances; at least one exceeds the rounding of a cache key
_MIN_RATIO, _MAX_RATIO = 1.5, 6.0  # change over a step / over half of it: 2, or 4 at an extremum; 1 at a jump
_NOISE = 1e-3  # allowed difference of equal calls, relative to the change over a step; caches have tolerances
_ALWAYS = 8  # number of results without derivative that are all checked; later only the 16th, 32nd, ...

#: whether a function is being evaluated to check its result; derivatives inside it are not checked then
_checks: contextvars.ContextVar = contextvars.ContextVar("wengert_checks", default=False)
_counts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # function -> number of results without derivative
_warned: dict = {}  # registry of `warnings` for the functions that have been warned about


def check(run: Any, f: Callable, args: tuple, kwargs: dict, positions: tuple, has_aux: bool) -> None:
    """Warn if a part of the result carries no derivative but depends on the arguments at `positions`.

    `run` is the recording of the call of f.
    The check evaluates f without derivatives, at two points if the result is constant.
    Results of functions that call `stop_gradient` or `passive` are not checked, since they are meant to be constant.
    """
    # If f is a derivative, the function that it differentiates was checked on its own.
    is_own = str(getattr(f, "__module__", "")).startswith(_OWN)
    if is_own or _checks.get() or run.stops not in (None, levels.stops()):
        return
    around = [level for recorder in levels.running.get() if (level := getattr(recorder, "level", recorder))]
    if levels.has_warned(run.level) or any(type(level) is Level and has_searches(level) for level in around):
        return  # another warning, with its own remedy, is or will be shown
    numbers = np.concatenate([[], *map(_numbers, run.outputs)])
    is_plain = np.concatenate([np.array([], bool), *map(_is_plain, run.outputs)])
    is_chosen = is_plain & np.isfinite(numbers)
    if not is_chosen.any() or not _is_due(f):
        return
    others = [x for k, x in enumerate(args) if k not in positions]
    if holds_traced([others, kwargs]):
        return
    stops, token, checking = levels.stops(), levels.running.set(()), _checks.set(True)
    try:
        with np.errstate(all="ignore"), bounded():
            is_lost = _is_lost(_Plain(f, args, kwargs, positions, has_aux), numbers, is_chosen)
    except (Exception, TooLong):  # f raises or does not end at a nearby point, or does not take plain values
        return
    finally:
        levels.running.reset(token)
        _checks.reset(checking)
    if is_lost and levels.stops() == stops:
        _warn(f, run.name)


class _Plain:
    """Evaluates a function with the arguments at `positions` moved by a relative step; returns a vector of numbers."""

    def __init__(self, f, args, kwargs, positions, has_aux):
        self.f, self.args, self.kwargs, self.positions, self.has_aux = f, args, kwargs, positions, has_aux

    def __call__(self, step):
        def moved(leaf):
            x = np.array(plain(leaf), dtype=np.result_type(plain(leaf), np.float32))
            return (x + step * np.where(x == 0, 1.0, x))[()]

        args = [*self.args]
        for k in self.positions:
            leaves, restore = containers.split(args[k])
            args[k] = restore([moved(leaf) for leaf in leaves])
        y = self.f(*containers.plain_copy(tuple(args)), **containers.plain_copy(self.kwargs))  # f may write into them
        leaves, _ = containers.split(y[0] if self.has_aux else y)
        return np.concatenate([[], *map(_numbers, leaves)])


def _numbers(leaf) -> np.ndarray:
    """Return the numbers in a leaf of a result, with NaN for anything else."""
    found = [plain(x) for x in leaf] if isinstance(leaf, (list, tuple)) else plain(leaf)
    found = np.ravel(np.asarray(found))
    return found if found.dtype.kind in "fc" else np.full(found.size, np.nan)


def _is_plain(leaf) -> np.ndarray:
    """Return which numbers in a leaf of a result carry no derivative."""
    if isinstance(leaf, (list, tuple)):
        return np.array([not is_traced(x) for x in leaf], bool)
    return np.full(np.size(plain(leaf)), not is_traced(leaf))


def _is_due(f) -> bool:
    key = f.__func__ if type(f) is types.MethodType else f
    try:
        count = _counts[key] = _counts.get(key, 0) + 1
    except TypeError:
        return True
    return count <= _ALWAYS or count & (count - 1) == 0


def _is_lost(evaluated, numbers, is_chosen) -> bool:
    """Return whether any chosen number changes smoothly; integers do not count, since they are often counters."""
    for step in _STEPS:
        further = evaluated(step)
        after = abs(further - numbers)
        if not (after[is_chosen] > 0).any():
            continue
        near, before = abs(evaluated(step / 2) - numbers), abs(evaluated(-step) - numbers)
        is_smooth = is_chosen & ((numbers != np.round(numbers)) | (further != np.round(further)))
        is_smooth &= (near > 0) & (_MIN_RATIO * near <= after) & (after <= _MAX_RATIO * near)
        is_smooth &= (before <= _MAX_RATIO * after) & (after <= _MAX_RATIO * before)
        if is_smooth.any() and np.all(abs(evaluated(0.0) - numbers) <= _NOISE * after, where=is_smooth):
            return True
    return False


def _warn(f: Any, name: str) -> None:
    fun = inspect.unwrap(getattr(f, "__func__", f))
    code = getattr(fun, "__code__", None) or getattr(vars(type(fun)).get("__call__"), "__code__", None)
    file, line = (code.co_filename, code.co_firstlineno) if code else ("an unknown file", 0)
    called = getattr(fun, "__qualname__", None) or type(fun).__qualname__
    warnings.warn_explicit(
        f"{name}: {called} ({file}:{line}) returns a value without derivative, but other values at points nearby. If "
        "it keeps results in a cache, those that an earlier plain call stored there count as constants: empty the "
        "cache before the derivative, or keep wengert.compile(f) in place of the cache. Where a constant is meant, "
        "return wengert.stop_gradient(value)",
        CachedValueWarning,
        file,
        line,
        registry=_warned,
    )
