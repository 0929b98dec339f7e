"""Base class of functions with their own derivative rule that solvers create for one call, such as integrals."""

from __future__ import annotations

from typing import Any

from wengert import registry
from wengert.core.dispatch import dispatch
from wengert.core.operands import var

__all__ = ["OwnRule"]


class OwnRule:
    """A function with its own rule; a subclass defines `value`, its value at plain operands, `push` and `pull`."""

    value: Any
    push: Any
    pull: Any

    def __init__(self, name: str):
        rules = {"vjps": {0: self.pull}, "jvps": {0: self.push}}
        self.row = registry.Primitive(OwnRule.evaluate, "custom", **rules, sequence=True)
        self.row.name = self.__name__ = self.__qualname__ = name

    def __call__(self, *operands: Any) -> Any:
        if not var.holds_traced(operands):
            return self.value(*operands)
        return dispatch.apply(self.row, self, operands, {}, self.evaluate)

    def evaluate(self, *operands: Any) -> Any:
        """Value at operands of the enclosing level."""
        return self(*operands) if var.holds_traced(operands) else self.value(*operands)
