"""Caches the results of methods in their object."""

from __future__ import annotations

import functools
from collections.abc import Callable


def memoised(method: Callable) -> Callable:
    """Cache results of a method in the dict `_derived` of its object, by the method's name and positional arguments."""
    name, defaults = method.__name__, method.__defaults__ or ()

    @functools.wraps(method)
    def cached(self, *args):
        key = name, *(args or defaults)
        if key not in self._derived:
            self._derived[key] = method(self, *args)
        return self._derived[key]

    return cached
