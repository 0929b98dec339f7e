"""Caches the results of methods in their object."""

from __future__ import annotations

import functools
from collections.abc import Callable


def memoised(method: Callable) -> Callable:
    """Keep the results of a method, by its name and positional arguments, in the dict `_derived` of its object."""
    name, defaults = method.__name__, method.__defaults__ or ()

    @functools.wraps(method)
    def cached(self, *args):
        key = name, *(args or defaults)
        if key not in self._derived:
            self._derived[key] = method(self, *args)
        return self._derived[key]

    return cached
