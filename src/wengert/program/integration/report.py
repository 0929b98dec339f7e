"""Reports how integrations are differentiated: sensitivities, method, steps, and memory."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

from wengert.program.integration import methods
from wengert.transforms.explain import counted, size_of

#: how the derivative of each kind is computed, with a name for the items that are counted
_KINDS = {
    "none": ("no derivative", ""),
    "forward": ("forward sensitivities, {} in the control of steps", "tangent"),
    "discrete": ("discrete adjoint of the steps, for {}", "number"),
    "adjoint": ("adjoint differential equation, for {}", "number"),
    "replay": ("discrete", ""),
}


class Taken(NamedTuple):
    """Report of an integration: method, number of steps (None if not known), bytes kept, and `stride`.

    Every `stride`-th state is kept; with a stride of 0 all states and stages are.
    """

    method: str
    steps: int | None
    nbytes: int = 0
    stride: int = 0

    def __str__(self):
        texts = [described(self.method)]
        texts += [] if self.steps is None else [counted(self.steps, "step")]
        if self.nbytes:
            texts.append(f"{size_of(self.nbytes)} kept")
        if self.stride:
            every = "every state" if self.stride == 1 else f"one state in {self.stride}"
            texts.append(f"{every} a checkpoint, the steps in between computed again")
        return ", ".join(texts)


@dataclasses.dataclass(frozen=True)
class Report:
    """How an integration is differentiated; its `str` is the text in reports of `wengert.explain`.

    Attributes
    ----------
    name : str
        Name of SciPy's function.
    sensitivity : {"forward", "discrete", "adjoint", "replay", "none"}
    reason : str
        Why this sensitivity is used; empty without a derivative.
    states, parameters : int
        Numbers of states, and of the scalars that the right-hand side reads.
    count : int
        Number of initial states and parameters that are differentiated, or of tangents; 0 for a replay.
    taken : Taken or None
        The last integration, if there was one.
    """

    name: str
    sensitivity: str
    reason: str
    states: int
    parameters: int
    count: int
    taken: Taken | None

    def __str__(self):
        sizes = f"{counted(self.states, 'state')}, {counted(self.parameters, 'parameter')}"
        text, noun = _KINDS[self.sensitivity]
        text = text.format(counted(self.count, noun)) + (f" ({self.reason})" if self.reason else "")
        return f"{self.name}, {sizes}: {text}" + ("" if self.taken is None else f"; {self.taken}")


#: reason for tangents in forward mode
FORWARD_MODE = "forward mode"


def described(method: str) -> str:
    """Return a description of a method."""
    factor = methods.TOLERANCES.get(method)
    name = {methods.ACCURATE: "DOP853", methods.ACCURATE_IMPLICIT: "Radau"}.get(method, method)
    return name if factor is None else f"{name} at {factor:g} times the tolerances"
