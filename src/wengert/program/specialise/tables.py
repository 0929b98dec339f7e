"""Cache of specialisations: a table for each set of functions and objects among the arguments.

A full table evicts its oldest entry.
"""

from __future__ import annotations

from typing import Any

from wengert.program.specialise.fast_call import Path

#: cache sizes: sets of objects among the arguments, keys per set, specialisations per key
MAX_TABLES = MAX_KEYS = 64
MAX_PATHS = 16


class Table:
    """Captured state of f, and its specialisations by key, most recently used first."""

    __slots__ = ("captures", "frozen", "paths", "refused")

    def __init__(self, captures):
        self.captures = captures
        self.paths: dict[Any, tuple[Path, ...]] = {}
        self.frozen: dict[Any, frozenset] = {}  # by key: indices of leaves that are part of the key too
        self.refused: dict[Any, None] = {}  # keys of calls that cannot be traced


def insert(table, key, value, most):
    """Add an entry to a table, evicting the oldest if it is full."""
    table.pop(key, None)
    while len(table) >= most:
        table.pop(next(iter(table)))
    table[key] = value
