"""Imports at first use, so that a first derivative loads no more code than it needs."""

import gc
from importlib import import_module

__all__ = ["deferred", "load", "load_all"]

_names: set[str] = set()


def load(name: str):
    """Import a module without garbage collections, which would take a fifth of the time and free nothing.

    They would walk through all new objects of the module, and of NumPy if that was imported just before.
    `gc.unfreeze` moves objects to the oldest generation, where the next full collection finds them.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return import_module(name)
    finally:
        if not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        if was_enabled:
            gc.enable()


class _Deferred:
    __slots__ = ("_module", "_name")

    def __init__(self, name):
        self._name, self._module = name, None

    def __getattr__(self, attribute):
        if self._module is None:
            self._module = load(self._name)  # waits if another thread is importing it
        return getattr(self._module, attribute)

    def __repr__(self):
        return f"<deferred module {self._name!r}>"


def deferred(name: str):
    """Return an object with the attributes of a module, which is imported when one of them is first read.

    For modules that most programs never need, such as those that write advice for errors.
    Attributes are looked up at every access (about 0.2 microseconds), so they may be rebound in the module.
    """
    _names.add(name)
    return _Deferred(name)


def load_all() -> None:
    """Import all modules that are deferred, for example before a process forks or a first call is timed."""
    loaded: set[str] = set()
    while names := _names - loaded:  # loading a module may defer further ones
        for name in names:
            load(name)
        loaded |= names
