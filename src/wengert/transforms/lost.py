"""Detects results that lost their derivative, for example because a cache returns a value that a plain call stored.

A key of a cache may be an integer, a text, a rounded number, or a comparison with a tolerance, all of which are
piecewise constant, so that no single operation shows the loss.  It shows in the result: it carries no derivative,
although plain calls at points nearby return other values, and those on both sides differ by about the distance.
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
_STEPS = 2.0**-10, 2.0**-17  # relative distances: keys of caches are rounded more finely than one of them
_MIN_RATIO, _MAX_RATIO = 1.5, 6.0  # of the changes at a step and at half of it: 2, or 4 at an extremum; 1 at a jump
_NOISE = 1e-3  # change of the result from call to call, relative to that at a step: caches have tolerances
_ALWAYS = 8  # the first results of a function without derivative that are checked; then the 16th, 32nd, ... are

#: whether a function is being evaluated to check its result; derivatives inside it are not checked then
_checks: contextvars.ContextVar = contextvars.ContextVar("wengert_checks", default=False)
_counts: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()  # function -> number of results without derivative
_warned: dict = {}  # registry of `warnings` for the functions that have been warned about


def check(run: Any, f: Callable, args: tuple, kwargs: dict, positions: tuple, has_aux: bool) -> None:
    """Warn if a part of the result without derivative depends on the arguments at `positions`.

    `run` is the recording of the call of f.
    It evaluates f without derivatives, mostly at two points, since f is rarely the function of a derivative where its
    result is constant; functions that call `stop_gradient` or `passive` mean what they return.
    """
    # If f is a derivative, the function that it differentiates was checked on its own.
    is_own = str(getattr(f, "__module__", "")).startswith(_OWN)
    if is_own or _checks.get() or run.stops not in (None, levels.stops()):
        return
    around = [level for recorder in levels.running.get() if (level := getattr(recorder, "level", recorder))]
    if levels.has_warned(run.level) or any(type(level) is Level and has_searches(level) for level in around):
        return  # there is, or will be, a warning with another remedy
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
    except (Exception, TooLong):  # f raises or does not end at a point nearby, or takes no plain values
        return
    finally:
        levels.running.reset(token)
        _checks.reset(checking)
    if is_lost and levels.stops() == stops:
        _warn(f, run.name)


class _Plain:
    """Return the numbers that a function returns for plain arguments, with the arguments at `positions` scaled."""

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
