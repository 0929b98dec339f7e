"""Compiled functions inside a derivative: a call becomes one tape entry, whose derivatives are programs too.

This applies to first-order derivatives; in all others the function runs eagerly.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np

from wengert import registry
from wengert.core.dispatch import arguments
from wengert.core.levels import Watch, running
from wengert.core.operands import var
from wengert.program.derivatives import NotDerivable
from wengert.program.derive import source_transform
from wengert.program.ir.ir import kind_of
from wengert.program.ir.reference import of_type
from wengert.program.program import Program

#: limit on the derivatives kept per program, one for each combination of branches in derivative rules
_MAX_DERIVATIVES = 4

_DOUBLE = np.dtype(float)


def takes_programs(levels: tuple) -> bool:
    """Return whether the only active transform is a first-order derivative that is not being traced itself."""
    if len(levels) != 1 or type(levels[0]) is Watch:
        return False
    level = levels[0].level
    return level.order == 1 and not level.recording


def entered(program: Program, leaves: list, operands: list, outputs: list) -> list | None:
    """Return a program's outputs as operands of the enclosing derivative; None if the program has no derivative.

    Parameters
    ----------
    leaves, operands : list
        The inputs, as plain values and as operands.
    outputs : list
        The program's outputs at these inputs.
    """
    traced = tuple(i for i, x in enumerate(operands) if var.is_traced(x))
    if not traced:
        return arguments.clean(outputs)
    level = var.innermost([operands[i] for i in traced])
    key = "entry", traced, level.is_forward
    entry = program._memoised(key, lambda: _entry(program, traced, level.is_forward, leaves))
    return entry and entry.append(level, leaves, operands, outputs)


def _entry(program, traced, is_forward, leaves):
    try:
        return Entry(program, traced, is_forward, leaves)
    except NotDerivable:
        return None


class Entry:
    """A program as a primitive, differentiable in some of its inputs.

    Its result is the concatenation of the outputs that depend on these inputs.
    """

    def __init__(self, program: Program, traced: tuple, is_forward: bool, leaves: list):
        self.traced = traced
        self.exact = program._exact
        self.code = code = program._differentiable_ir()
        self.inputs = [kind_of(code, v) for v in code.inputs]
        depends = source_transform.depends(code, [code.inputs[i] for i in traced])
        self.places = [i for i, v in enumerate(code.outputs) if depends[v]]
        results = [kind_of(code, code.outputs[i]) for i in self.places]
        if {dtype for dtype, _, _ in [*self.inputs, *results]} != {_DOUBLE}:
            raise NotDerivable(f"{program!r}: only float64 inputs and outputs are supported here")
        self.results = Parts([shape for _, shape, _ in results])
        make, given = (self._forth, [self.inputs[i] for i in traced]) if is_forward else (self._back, results)
        self.derived = _Derived(program, make, [*self.inputs, *[(_DOUBLE, shape, None) for _, shape, _ in given]])
        self.derived.make_at([*map(of_type, leaves, self.inputs)])
        self.work = 0 if is_forward else (program._vm.bytes + self.derived.known[0]._vm.bytes) // 8
        self.row = registry.Primitive(repr(program), "custom", vjps={0: self.pull}, jvps={0: self.push}, sequence=True)

    def append(self, level, leaves: list, operands: list, outputs: list) -> list:
        """Append a call to the tape; return the outputs, as operands if they depend on traced inputs."""
        found = arguments.clean(outputs)
        if self.places:
            sources = [(0, i, operands[i]) for i in self.traced]
            saved = [x if i in self.traced else arguments.kept_operand(level, x) for i, x in enumerate(leaves)]
            y = self.results.joined([outputs[i] for i in self.places])
            y = var.record(level, self.row, tuple(saved), {}, sources, y, None, None)
            if self.work:
                running.get()[-1].needs(self.work)
            for i, x in zip(self.places, self.results.parted(y)):
                found[i] = x
        return found

    def pull(self, ybar, y, *leaves):
        """Return the cotangents of the inputs, None for inputs that are not traced."""
        found = iter(self.derived(leaves, self.results.parted(ybar)))
        return [next(found) if i in self.traced else None for i in range(len(leaves))]

    def push(self, tangents, y, *leaves):
        """Return the tangents of the result; tangents have a leading axis of directions."""
        traced = [tangents[i] for i in self.traced]
        return np.stack([self.results.joined(self.derived(leaves, directions)) for directions in zip(*traced)])

    def _back(self, example):
        n, code = len(self.inputs), self.code
        seeds = [(code.outputs[i], n + j) for j, i in enumerate(self.places)]
        return source_transform.pulled_back(code, seeds, [code.inputs[i] for i in self.traced], example, self.exact)

    def _forth(self, example):
        n, code = len(self.inputs), self.code
        seeds = [(code.inputs[i], n + j) for j, i in enumerate(self.traced)]
        return source_transform.pushed_forward(code, seeds, [code.outputs[i] for i in self.places], example)


class _Derived:
    """A derivative of a program, with directions as further inputs; derived anew when rules branch differently."""

    def __init__(self, program: Program, make: Callable, kinds: list):
        self.program = program
        self.make = make
        self.kinds = kinds
        self.known: list[Program] = []

    def __call__(self, leaves, directions):
        given = [*map(of_type, [*leaves, *directions], self.kinds)]
        for derived in self.known:
            found = derived._try_execute(given)
            if type(found) is not int:  # an int is the index of a failed guard
                return found
        return self.make_at(given[: len(leaves)])._execute(given)

    def make_at(self, leaves):
        """Derive a program with the branches that derivative rules take at this point."""
        derived = self.program._with_ir(self.make(leaves))
        self.known = [derived, *self.known[: _MAX_DERIVATIVES - 1]]
        return derived


class Parts:
    """Concatenates scalars and arrays into one 1-D array and splits it again; a single value stays unchanged."""

    def __init__(self, shapes: list):
        self.shapes = shapes
        self.ends = [*itertools.accumulate(map(math.prod, shapes), initial=0)]

    def joined(self, values):
        return values[0] if len(self.shapes) == 1 else np.concatenate(values, axis=None)

    def parted(self, y):
        if len(self.shapes) == 1:
            return [y]
        spans = zip(self.ends, self.ends[1:], self.shapes)
        return [y[first:last].reshape(shape) if shape else y[first] for first, last, shape in spans]
