"""`wengert.explain`: reports the mode, the sweeps, the tape length and the estimated costs of a derivative."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from wengert.core.rebind.choose import survey
from wengert.transforms import costs
from wengert.transforms.costs import Plan
from wengert.transforms.dense import JVP, VJP, Gradient, Jacobian
from wengert.transforms.operators import Derivative, Operator
from wengert.transforms.products import Pullback, shape_of
from wengert.transforms.second import Hessian, directions_at_once

# operators without a choice of mode: mode, sweeps over the tape, reason
_FIXED: dict[str, tuple] = {
    "grad": ("reverse", 1, "scalar output, so one sweep yields the gradient"),
    "derivative": ("forward", 0, "elementwise, so one tangent suffices; for arrays, a second one checks this"),
    "jvp": ("forward", 0, "one tangent is propagated through f"),
    "vjp": ("reverse", 1, "one sweep per call of the pullback"),
    "hvp": ("mixed", 1, "forward over reverse: one tangent is propagated through f and the sweep"),
}
# modes of Hessians
_HESSIANS = {
    "mixed": "forward over reverse: tangents are propagated through f and the sweep",
    "forward": "forward over forward",
    "reverse": "reverse over reverse",
}

#: reports by solvers on how they are differentiated, as dict keys; None unless `explain` is running
_remarks: ContextVar[dict | None] = ContextVar("remarks", default=None)


def remark(make: Callable, *args: Any) -> None:
    """Add a report, ``make(*args)``, to the explanation of the current derivative, if it is being explained."""
    found = _remarks.get()
    if found is not None:
        found[make(*args)] = None

@contextmanager
def _collected() -> Iterator[dict]:
    """Context manager that yields a dict whose keys are the reports made by solvers in the block."""
    found: dict = {}
    token = _remarks.set(found)
    try:
        yield found
    finally:
        _remarks.reset(token)


@dataclasses.dataclass(frozen=True, repr=False)
class Explanation:
    """Result of `explain`; its ``repr`` is a report.

    Attributes
    ----------
    name : str
        The derivative, as in ``jacobian(f)``.
    plan : Plan
        Mode, number of elements of the inputs (n) and outputs (m), evaluations of f, sweeps, directions per sweep
        (width), and the reason.
    inputs, outputs : list of tuple
        Shapes.
    entries, nbytes : int
        Length of the tape, and the memory in bytes that it and the results of its array operations take;
        0 in forward mode.
    costs : dict
        Estimated cost of the derivative in each mode, in evaluations of f.
    followed, unfollowed : dict
        Packages whose code f reaches, see `wengert.follow`: the number of functions that are followed, and the reason
        why others are not.
    integrations : list
        How solutions of differential equations are differentiated; see
        `wengert.program.integration.report.Report`.
    """

    name: str
    plan: Plan
    inputs: list
    outputs: list
    entries: int
    nbytes: int
    costs: dict
    followed: dict
    unfollowed: dict
    integrations: list = dataclasses.field(default_factory=list)

    def __repr__(self):
        plan = self.plan
        evaluations = f"{counted(plan.runs, 'evaluation')} of f"
        if plan.mode == "forward":
            passes = f"{evaluations} with {counted(plan.width, 'tangent')}, no tape"
        else:
            sweeps = f"{counted(plan.sweeps, 'reverse sweep')} with {counted(plan.width, 'direction')}"
            passes = f"{evaluations}, recorded; {sweeps}"
        rows = [
            f"{self.name}: {_shapes(self.inputs)} -> {_shapes(self.outputs)}, n = {plan.n}, m = {plan.m}",
            f"  mode    {plan.mode}: {plan.reason}",
            f"  passes  {passes}",
        ]
        if plan.mode != "forward":
            rows.append(f"  tape    {counted(self.entries, 'entry', 'entries')}, {size_of(self.nbytes)}")
        if self.costs:
            listed = ", ".join(f"{mode} {cost:.3g}" for mode, cost in self.costs.items())
            rows.append(f"  cost    {listed} evaluations of f (estimated)")
        rows += [f"  solves  {report}" for report in self.integrations]
        rows += [f"  follows {text}" for text in following(self.followed, self.unfollowed)]
        return "\n".join(rows)


def explain(
    f: Callable, x: Any, /, *, args: tuple = (), kwargs: dict | None = None, measure: bool = False
) -> Explanation:
    """Report the method that computes a derivative at a point, its cost, and the reason for choosing it.

    The derivative is evaluated once.

    Parameters
    ----------
    f : callable
        A transformed function such as ``wg.grad(f)`` or ``wg.jacobian(f, mode="forward")``.
        A plain function stands for ``wg.jacobian(f)``.
    x : array_like or container
        Point of evaluation.
    args, kwargs : tuple, dict
        Further arguments of `f`.
    measure : bool
        Time each method, for sparse derivatives only.

    Returns
    -------
    Explanation
        Mode and reason, evaluations of `f`, sweeps and directions, the length of the tape, and the cost of each mode;
        its ``repr`` is a short report. For a sparse derivative, the plan and the cost of each method.

    Raises
    ------
    TypeError
        If the derivative does not exist at `x`, as for the derivative itself.

    See Also
    --------
    jacobian : ``mode="auto"`` uses the same costs.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> wg.explain(wg.jacobian(np.sin), np.ones(3))
    jacobian(sin): (3,) -> (3,), n = 3, m = 3
      mode    reverse: lower estimated cost
      passes  1 evaluation of f, recorded; 1 reverse sweep with 3 directions
      tape    1 entry, 41 bytes
      cost    forward 1.8, reverse 1.75 evaluations of f (estimated)
    """
    if hasattr(type(f), "explained"):  # sparse
        return f.explained((x, *args), kwargs or {}, measure)
    if measure:
        raise ValueError(f"explain: measure= is for sparse derivatives, not for {f!r}")
    if hasattr(type(f), "__wengert__"):  # compiled: a function, or a derivative
        f = f.f
    known = f if isinstance(f, (Derivative, JVP, VJP)) else Jacobian(f)
    with _collected() as reports:
        plan, shapes, entries, nbytes = _evaluated(known, (x, *args), kwargs or {})
    estimates = _costs(known.word, plan.n, plan.m)
    return Explanation(known.name, plan, *shapes, entries, nbytes, estimates, *_reached(known), [*reports])


def _evaluated(known, args, kwargs):
    """Return the plan of a derivative, the shapes of inputs and outputs, and the entries and bytes of its tape."""
    if isinstance(known, Hessian):  # may be a composition of two derivatives, which keeps no recording
        known(*args, **kwargs)
        run = Gradient(known.f, known.argnums, has_aux=known.has_aux)._record(args, kwargs)
    else:
        run = known._record(args, kwargs)
    try:
        inputs, outputs = [leaf.shape for leaf in run.inputs], [shape_of(y) for y in run.outputs]
        n, m = sum(map(math.prod, inputs)), sum(map(math.prod, outputs))
        if isinstance(known, VJP):
            Pullback(run, known._single)(run.value())
        elif isinstance(known, JVP):
            known(args[0], args[0], *args[1:], **kwargs)
        elif isinstance(known, Derivative) and not isinstance(known, Hessian):
            known._parts(run)
        plan = _plan(known, run, n, m)
        recorded = plan.mode != "forward"
        entries = run.tape.size if recorded else 0
        nbytes = run.tape.nbytes + 8 * run.tape.elements if recorded else 0
    finally:
        run.close()
    return plan, (inputs, outputs), entries, nbytes


def _plan(known, run, n, m):
    """Return the plan of a derivative that was evaluated; `run` is the recording."""
    if isinstance(known, Hessian):
        mode, width = "mixed" if known.mode == "auto" else known.mode, known.chunk or directions_at_once(run, n)
        return Plan(mode, n, m, 1, math.ceil(n / (width or 1)), width, _HESSIANS[mode])
    if known.word in _FIXED:
        mode, sweeps, reason = _FIXED[known.word]
        return Plan(mode, n, m, 1, sweeps, run.level.k if run.level.is_forward else 1, reason)
    return known.plan


def _costs(word: str, n: int, m: int) -> dict:
    """Evaluations of f in each mode; the cost model does not cover second derivatives."""
    directions = {"grad": (n, 1), "jacobian": (n, m), "derivative": (1, m), "jvp": (1, m), "vjp": (n, 1)}
    if word not in directions:
        return {}
    columns, rows = directions[word]
    return {"forward": costs.forward_cost(columns), "reverse": costs.COSTS.record + costs.reverse_cost(rows)}


def _reached(f):
    """Return the packages that the function inside the operators reaches, followed ones and others."""
    while isinstance(f, Operator):
        f = f.f
    return survey(f)


def following(followed: dict, unfollowed: dict) -> list[str]:
    """Return lines of text that say which packages are followed; none if the function reaches only one package."""
    texts = [f"{package}, {counted(count, 'function')}" for package, count in followed.items()]
    texts = texts if len(texts) > 1 or unfollowed else []
    return texts + [f"not {package}: {reason}" for package, reason in unfollowed.items()]


def counted(count: int, one: str, several: str = "") -> str:
    """Return a count and its noun, in the singular or plural."""
    return f"{count} {one if count == 1 else several or one + 's'}"


def _shapes(shapes: list) -> str:
    return ", ".join(map(str, shapes))


def size_of(nbytes: int) -> str:
    """Return a number of bytes with a unit."""
    for unit in ("bytes", "kB", "MB"):
        if nbytes < 1000:
            return f"{nbytes:.3g} {unit}"
        nbytes = nbytes / 1000
    return f"{nbytes:.3g} GB"
