"""Builds the program of a batch from that of one element, for functions that solve equations.

Input: `wengert.vmap` of a function or a derivative, and its arguments. Output: the program of the first element,
batched by `passes.batching`, in which the solver runs at all elements at once.
Other functions are traced on batches, which expands nothing and calls each function once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.program.ir.ir import Listing, kind_of
from wengert.program.passes import pipeline
from wengert.program.passes.batching import batch_program
from wengert.program.program import Program
from wengert.program.roots.batched import unsolved
from wengert.program.signature import Form, Result, Slot
from wengert.program.swept import Stacked
from wengert.program.tracing.pytree import mapped
from wengert.program.tracing.refusals import NotHere, NotReplayable

#: limit on the elements of a batch that are traced one by one instead, each with its own solver
MAX_TRACED = 64


class _NotBatchable(Exception):
    """No program of the batch can be made from that of one element."""


class _OfElement:
    """The captured values of a mapped function, as seen by the function of one element."""

    def __init__(self, reading: Any):
        self.leaves, self.aliases, self.operands = reading.leaves, reading.aliases, reading.operands
        self._reading = reading

    def without(self, leaves):
        return _OfElement(self._reading.without(leaves))

    def bound(self, operands):
        return self._reading.bound(operands).f


def of_elements(trace: Any, f: Any, args: tuple, kwargs: dict, reading: Any, disabled: frozenset) -> Program | None:
    """Return the program of a mapped function that solves equations; None for another function.

    Parameters
    ----------
    trace : callable
        `wengert.program.record.trace`.
    f : Mapped
    args, kwargs, reading, disabled
        As for `trace`.

    Raises
    ------
    ConvergenceError
        If the solver does not converge at an element, which the message names.
    NotReplayable
        If a large batch of solvers has no program, as they take different branches.
    """
    axes = f.in_axes if isinstance(f.in_axes, (list, tuple)) else [f.in_axes] * len(args)
    is_simple = not kwargs and type(f.out_axes) is int and f.out_axes == 0 and "batching" not in disabled
    if not is_simple or len(axes) != len(args) or not all(axis is None or type(axis) is int for axis in axes):
        return None
    form = Form(args, kwargs)
    counts = {np.shape(form.leaves[i])[:1] for k, axis in enumerate(axes) if axis == 0 for i in form.inputs_of(k)}
    if any(axes) or len(counts) != 1 or not all(counts) or (count := counts.pop()[0]) < 2:
        return None
    try:
        one = trace(f.f, f.first(args), {}, _OfElement(reading), False, disabled)
    except NotHere as error:
        if getattr(error, "is_unsolved", False):
            raise unsolved(f.name, count, [(0, str(error))]) from None
        raise
    if not any(hasattr(call.compute, "many") for call in one._listing.calls):
        return None
    try:
        made = _batched(one, f, axes, count, form, [*form.leaves, *reading.leaves], disabled)
        if type(made._try_execute([*form.leaves, *reading.leaves])) is not int:
            return made
    except _NotBatchable:
        pass
    if count > MAX_TRACED:
        raise NotReplayable(f"the {count} elements of a batch solve equations, but not by the same steps")
    return None


def _batched(one, f, axes, count, form, leaves, disabled):
    code = _whole(one)
    numbers = [i for k, axis in enumerate(axes) if axis == 0 for i in one._form.inputs_of(k)]
    many = batch_program(code, numbers, count, one._example)
    if [kind_of(many, v) for v in many.inputs] != [(np.asarray(x).dtype, np.shape(x), _strides(x)) for x in leaves]:
        raise _NotBatchable
    run = pipeline.run("trace", many, pipeline.Options(disabled=disabled))
    made = Program(f.name, run.code, form, Result(mapped(one._result.template, _slot)), False, leaves)
    made._disabled, made._history, made._searches = disabled, tuple(run.log), one._searches
    return made


def _whole(one: Program) -> Listing:
    """Return the IR that computes a program's outputs in one run."""
    if type(one) is Program:
        return one._listing
    if type(one) is Stacked and one._is_whole:
        return one._whole_ir()
    raise _NotBatchable


def _strides(x):
    """Return the strides of an input in the IR."""
    return None if np.ndim(x) == 0 or x.flags.c_contiguous else x.strides


def _slot(leaf):
    if type(leaf) is not Slot:  # a constant, which would have to be repeated
        raise _NotBatchable
    return Slot(leaf.number)
