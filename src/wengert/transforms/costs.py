"""What the modes cost, in evaluations of f: the one table by which ``mode="auto"`` chooses.

``python -m benchmarks.calibrate`` measures the constants anew and prints them beside these.
"""

from __future__ import annotations

from typing import NamedTuple


class Costs(NamedTuple):
    """Constants of the cost model, in evaluations of f."""

    record: float = 1.2  # one run of f that is recorded
    sweep: float = 0.4  # one pass backwards over the list,
    row: float = 0.05  # and each direction it carries
    push: float = 1.5  # one run of f with tangents,
    column: float = 0.1  # and each direction it carries


COSTS = Costs()

#: most tangents carried through f at once
WIDEST = 64


class Plan(NamedTuple):
    """How a derivative was computed: what `explain` prints."""

    mode: str  # "forward", "reverse" or "mixed"
    n: int  # elements of the inputs
    m: int  # elements of the outputs
    runs: int  # evaluations of f, recorded or with tangents
    sweeps: int  # passes over the list
    width: int  # directions carried at once
    reason: str


def forward_cost(n: int, width: int = WIDEST) -> float:
    """Columns by tangents: f is run anew for each `width` of them, nothing is recorded."""
    return COSTS.push * max(1, -(-n // width)) + COSTS.column * n


def reverse_cost(m: int, width: int = WIDEST) -> float:
    """Rows by sweeps, `width` at once, over a list that is recorded already."""
    return COSTS.sweep * -(-m // width) + COSTS.row * m


def is_forward_at_once(n: int, width: int = WIDEST) -> bool:
    """Are there so few variables that tangents cost less than recording and a single sweep?"""
    return forward_cost(n, width) <= COSTS.record + reverse_cost(1, 1)


def is_forward(n: int, m: int, width: int = WIDEST, recorded: bool = False) -> bool:
    """Do n columns cost less than m rows?"""
    return forward_cost(n, width) < reverse_cost(m, width) + (0.0 if recorded else COSTS.record)
