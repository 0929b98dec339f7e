"""Implicitly defined functions: roots, fixed points and minima, differentiated by the implicit function theorem."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wengert.implicit.linear import linear_solve
    from wengert.implicit.minima import Multipliers, kkt, minimum
    from wengert.implicit.solve import defines_root, fixed_point, root
    from wengert.implicit.theorem import Info

_HOMES = {
    "Info": "theorem", "Multipliers": "minima", "defines_root": "solve", "fixed_point": "solve", "kkt": "minima",
    "linear_solve": "linear", "minimum": "minima", "root": "solve",
}  # fmt: skip

__all__ = ["Info", "Multipliers", "defines_root", "fixed_point", "kkt", "linear_solve", "minimum", "root"]


if not TYPE_CHECKING:  # a `__getattr__` would make type checkers accept any name

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module 'wengert.implicit' has no attribute {name!r}")
        value = globals()[name] = getattr(_import_module(f"wengert.implicit.{_HOMES[name]}"), name)
        return value


def __dir__():
    return sorted(__all__)
