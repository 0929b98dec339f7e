"""Reports the plan of a sparse derivative, with its cost and the costs of the alternatives."""

from __future__ import annotations

import dataclasses
import math
from statistics import median
from time import perf_counter
from typing import Any

from wengert.program.derivatives import NotDerivable
from wengert.program.program import Program
from wengert.sparse.pattern import program_of
from wengert.sparse.plan import Plan
from wengert.transforms.explain import counted, size_of
from wengert.transforms.operators import Derivative

#: maximum number of elements of a dense matrix computed for comparison
_MAX_DENSE_ELEMENTS = 4_000_000
#: number of timed runs
_TIMED_RUNS = 5


@dataclasses.dataclass(frozen=True)
class MethodCost:
    """Cost of one method of computing the nonzeros.

    Attributes
    ----------
    plan : Plan
    operations : float
        Scalar operations relative to those of f, not counting operations inside NumPy calls.
    nbytes : int
        Size of the workspace in bytes.
    estimate : float
        Estimated seconds of one call, the sum over its instructions; "auto" compares these estimates.
    seconds : float or None
        Measured seconds of one call, if requested.
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
        return f"{self.operations:.3g} evaluations of f, {size_of(self.nbytes)} workspace{colours}, {estimate}{time}"


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """Result of `wengert.explain` for a sparse derivative; its ``repr`` is a report.

    Attributes
    ----------
    name : str
    plan : Plan
        The plan in use.
    methods : dict
        Cost of each method, by mode.
    workers : str
        How products were divided among workers; empty without ``workers=``.
    """

    name: str
    plan: Plan
    methods: dict[str, MethodCost]
    workers: str = ""

    def __repr__(self):
        m, n = self.plan.pattern.shape
        nnz = self.plan.pattern.nnz
        rows = [
            f"{self.name}: {m} x {n}, {counted(nnz, 'nonzero')} ({nnz / max(1, m * n):.2%})",
            f"  plan     {self.plan.mode}: {self.plan.reason}",
        ]
        rows += [f"  {mode:8} {cost}" for mode, cost in self.methods.items()]
        return "\n".join([*rows, self.workers] if self.workers else rows)


def explained(derivative: Derivative, args: tuple, kwargs: dict, measure: bool) -> Explanation:
    """Explain a sparse derivative at a point; see `wengert.explain`."""
    derivative(*args, **kwargs)
    op = derivative.replayed.f
    program = program_of(op.f, args, kwargs)
    leaves = program._example
    f_alone = max(1, program._operation_count)
    methods = {}
    for mode in ("auto", "direct", "mixed") if op.order == 2 else ("auto", "direct", "forward", "reverse", "mixed"):
        made = op.alternative(mode).of_program(program)
        plan = made._result.plan
        methods.setdefault(plan.mode, _method_cost(plan, made, f_alone, leaves, measure))
    shape = derivative.plan.pattern.shape
    if math.prod(shape) <= _MAX_DENSE_ELEMENTS:
        try:
            dense = (program.hessian if op.order == 2 else program.jacobian)(op.argnums)
            plan = Plan("dense", derivative.plan.pattern, None, "returns an ndarray")
            methods["dense"] = _method_cost(plan, dense, f_alone, leaves, measure)
        except NotDerivable:
            pass
    return Explanation(derivative.name, derivative.plan, methods)


def _method_cost(plan: Plan, made: Program, f_alone: int, leaves: list, measure: bool) -> MethodCost:
    seconds = _seconds(made, leaves) if measure else None
    multiple = made._operation_count / f_alone
    return MethodCost(plan, multiple, made._workspace_bytes, made._estimated_time * 1e-9, seconds)


def _seconds(made: Program, leaves: list[Any]) -> float:
    """Return the median time of a call in seconds."""
    made._execute(leaves)
    times = []
    for _ in range(_TIMED_RUNS):
        start = perf_counter()
        made._execute(leaves)
        times.append(perf_counter() - start)
    return median(times)
