"""Functions decorated by `functools.lru_cache`, for code under differentiation.

A call whose arguments hold no traced value is a call of the function itself, cache included: it finds the objects,
tables and random draws that plain calls find, and leaves its own result to them.  It runs outside of all derivatives.
If the function needs a traced value nevertheless, or its arguments hold one, the followed copy runs; likewise for a
result from the cache if the copy's depends on traced values, as of a global.  Results of the copy must
not outlive the derivative, so they are kept only until the outermost such call returns, or while a function is
recorded: a recursion computes each of them once, as it does in plain code.
"""

from __future__ import annotations

import contextvars
import types
from collections import deque
from typing import Any

import numpy as np

from wengert.core.dispatch.lifted import Lifted
from wengert.core.levels import called_apart, forget, lifted_around, noted, running
from wengert.core.operands import var
from wengert.core.rebind import follow
from wengert.core.rebind.assigned import own_object
from wengert.core.rebind.identity import whole
from wengert.core.rebind.registration import lookup, register_wrapper, running_plan
from wengert.errors import Refusal

__all__ = ["CachedFunction"]

_MAX_OBJECTS = 200  # number of objects in which traced values are looked for
_SEQUENCES = (list, tuple, set, frozenset, deque)
_FUNCTIONS = (types.FunctionType, types.MethodType)
_CLOSED = (types.ModuleType, np.ndarray, np.generic, type)

#: results of followed copies in the outermost call that runs in this context
_results: contextvars.ContextVar = contextvars.ContextVar("wengert_cached_results", default=None)


def _may_hold_traced(values: tuple, by_default: bool) -> bool:
    """Return whether a value, or what it holds, is an operand; `by_default` if there are functions or too many."""
    if follow.DATA.issuperset(map(type, values)):
        return False
    waiting, met = [*values], set()
    for value in waiting:
        kind = type(value)
        if kind in follow.DATA or id(value) in met:
            continue
        if var.is_var(value) or isinstance(value, Lifted):
            return True
        met.add(id(value))
        if kind is types.FunctionType and not value.__closure__:
            waiting += [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
            continue  # its result shows whether it reads traced globals
        if len(met) > _MAX_OBJECTS or kind in _FUNCTIONS:
            return by_default
        if isinstance(value, _SEQUENCES):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
        elif not isinstance(value, _CLOSED):
            waiting += [*follow.space_of(value).values(), *follow.slot_contents(value)]
    return False


def _contents(value):
    """Return a copy of an array, and whether it is traced; None for other values."""
    return (np.copy(var.plain(value)), var.is_traced(value)) if isinstance(value, np.ndarray) else None


def changed(results: dict) -> Any:
    """Return the first cached function with an array among its results that was written into; None if there is none."""
    for (of, *_), (y, _, _, before) in results.items():
        if before is not None:
            array, was_traced = before
            if was_traced != var.is_traced(y) or not np.array_equal(array, var.plain(y), equal_nan=True):
                return of
    return None


class CachedFunction:
    """Stands for a cached function; `copy` is its followed copy."""

    __slots__ = ("__wrapped__", "_wengert_of")
    __class__ = property(lambda self: follow.LRU)

    def __init__(self, f, copy):
        object.__setattr__(self, "_wengert_of", f)
        object.__setattr__(self, "__wrapped__", copy)

    def __getattr__(self, name):  # `cache_clear` and others
        return getattr(self._wengert_of, name)

    def __setattr__(self, name, value):
        setattr(self._wengert_of, name, value)

    def __eq__(self, other):
        return self._wengert_of is whole(other)

    def __hash__(self):
        return hash(self._wengert_of)

    def __get__(self, owner, cls=None):
        return self if owner is None else types.MethodType(self, owner)

    def __call__(self, *args, **kwargs):
        f, plan = self._wengert_of, running_plan.get()
        given = *map(own_object, args), *map(own_object, kwargs.values())
        if (plan is None or id(f) in plan.steady) and not _may_hold_traced(given, True):
            notes, misses = noted(), f.cache_info().misses
            try:
                y = called_apart(f, given[: len(args)], dict(zip(kwargs, given[len(args) :])))
            except Refusal:  # it needs a traced value
                forget(notes)
                return self._of_copy(args, kwargs)
            if _may_hold_traced((y,), False):
                f.cache_clear()  # they would outlive the derivative
            elif plan is None and f.cache_info().misses == misses and self._is_outdated(args, kwargs):
                return self._of_copy(args, kwargs)
            return y if type(y) in follow.DATA else lookup.replaced(y)
        return self._of_copy(args, kwargs)

    def _is_outdated(self, args, kwargs):
        """Return whether a result from the cache was computed from values that are traced now, such as globals.

        The copy runs outside of all derivatives, where new arrays are plain unless they depend on such values.
        """
        try:
            return _may_hold_traced((called_apart(self._of_copy, (args, kwargs), {}),), False)
        except Refusal:
            return True  # the copy raises it again
        except Exception:  # of code that plain calls do not run again, such as the reading of a file
            return False

    def _of_copy(self, args: tuple, kwargs: dict) -> Any:
        """Call the copy, or return its result for the same arguments in this plan or in the outermost call."""
        plan = running_plan.get()
        results = plan.of_caches if plan is not None else _results.get()
        if results is None:
            token = _results.set({})
            try:
                return self.__wrapped__(*args, **kwargs)
            finally:
                _results.reset(token)
        given, around = (*args, *kwargs.values()), (running.get(), lifted_around())
        key = self, *map(id, around), *kwargs, *[(type(x), x) if type(x) in follow.DATA else id(x) for x in given]
        if key not in results:
            y = self.__wrapped__(*args, **kwargs)
            results[key] = y, given, around, plan and _contents(y)
        return results[key][0]


register_wrapper(follow.LRU, lambda f: f.__wrapped__, CachedFunction)
