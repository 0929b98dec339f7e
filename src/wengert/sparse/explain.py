"""What a sparse derivative does at a point, and what the other ways to it would take."""

from __future__ import annotations

import dataclasses
import math
from statistics import median
from time import perf_counter
from typing import Any

from wengert.program.program import NotDerivable, Program
from wengert.sparse.pattern import program_of
from wengert.sparse.plan import Plan
from wengert.transforms.dense import Derivative
from wengert.transforms.explain import counted, size_of

#: elements of a dense matrix that is made for comparison
_MAX_ELEMENTS = 4_000_000
#: runs that are timed
_RUNS = 5


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to the nonzeros.

    Attributes
    ----------
    plan : Plan
    operations : float
        Numbers that are computed, in those of one evaluation of f; what NumPy is called for is not among them.
    nbytes : int
        Of the workspace.
    estimate : float
        Seconds of one call, by what its instructions take one by one: what "auto" chooses between entries and colours
        by.
    seconds : float or None
        Of one call, where it was measured.
    """

    plan: Plan
    operations: float
    nbytes: int
    estimate: float
    seconds: float | None

    def __str__(self):
        colours = "" if self.plan.colours is None else f", {counted(self.plan.colours.count, 'colour')}"
        time = "" if self.seconds is None else f", measured {self.seconds * 1e6:.3g} us"
        estimate = f"estimated {self.estimate * 1e6:.3g} us"
        return f"{self.operations:.3g} evaluations of f, {size_of(self.nbytes)}{colours}, {estimate}{time}"


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """What `wengert.explain` found of a sparse derivative; print it.

    Attributes
    ----------
    name : str
    plan : Plan
        What is done.
    ways : dict
        What each way takes, by mode.
    """

    name: str
    plan: Plan
    ways: dict[str, Way]

    def __repr__(self):
        m, n = self.plan.pattern.shape
        nnz = self.plan.pattern.nnz
        rows = [
            f"{self.name}: {m} x {n}, {counted(nnz, 'nonzero')}, {nnz / max(1, m * n):.2%}",
            f"  plan     {self.plan.mode}: {self.plan.reason}",
        ]
        return "\n".join([*rows, *[f"  {mode:8} {way}" for mode, way in self.ways.items()]])


def explained(derivative: Derivative, args: tuple, kwargs: dict, measure: bool) -> Explanation:
    """What a sparse derivative does at a point; see `wengert.explain`."""
    derivative(*args, **kwargs)
    op = derivative.replayed.f
    program = program_of(op.f, args, kwargs)
    leaves = program._example
    f_alone = max(1, program._operation_count)
    ways = {}
    for mode in ("auto", "direct", "mixed") if op.order == 2 else ("auto", "direct", "forward", "reverse", "mixed"):
        made = op.alternative(mode).of_program(program)
        plan = made._result.plan
        ways.setdefault(plan.mode, _way(plan, made, f_alone, leaves, measure))
    shape = derivative.plan.pattern.shape
    if math.prod(shape) <= _MAX_ELEMENTS:
        try:
            dense = (program.hessian if op.order == 2 else program.jacobian)(op.argnums)
            plan = Plan("dense", derivative.plan.pattern, None, "an ndarray")
            ways["dense"] = _way(plan, dense, f_alone, leaves, measure)
        except NotDerivable:
            pass
    return Explanation(derivative.name, derivative.plan, ways)


def _way(plan: Plan, made: Program, f_alone: int, leaves: list, measure: bool) -> Way:
    seconds = _seconds(made, leaves) if measure else None
    return Way(plan, made._operation_count / f_alone, made._workspace_bytes, made._estimated_time * 1e-9, seconds)


def _seconds(made: Program, leaves: list[Any]) -> float:
    """Of a call, the median of some."""
    made._execute(leaves)
    times = []
    for _ in range(_RUNS):
        start = perf_counter()
        made._execute(leaves)
        times.append(perf_counter() - start)
    return median(times)
