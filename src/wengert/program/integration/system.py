"""Differential equations as programs: the right-hand side, its tangents and its pullback."""

from __future__ import annotations

import copy
import functools
import math
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from wengert.core.levels import caught
from wengert.errors import GuardError
from wengert.program.derive import source_transform
from wengert.program.integration.pattern import Pattern
from wengert.program.ir.ir import Listing, kind_of
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.ir.verify import Verifier, check_fields, expect, is_count
from wengert.program.jacobian import accumulate
from wengert.program.memo import memoised
from wengert.program.passes import scalarise
from wengert.program.passes.batching import batch_program
from wengert.program.program import Program
from wengert.program.signature import Form, Result, Slot

_FLOAT = np.dtype(float)
_POSITIVE = int(OPCODES["positive"])


class MissingBranch(GuardError):
    """The right-hand side takes a branch that was not recorded, at `x`."""

    def __init__(self, x: np.ndarray):
        super().__init__("the right-hand side takes a branch that was not recorded")
        self.x = x


class WiderPattern(GuardError):
    """The Jacobian has nonzeros in other places where the right-hand side takes other branches."""

    def __init__(self):
        super().__init__("the Jacobian has other nonzeros where the right-hand side takes other branches")


class System:
    """A right-hand side with its tangents.

    Parameters
    ----------
    program : Program
        Its input is ``x = [t, y, p]`` for the right-hand side f(t, y, p), followed by ``[0, y_dot, p_dot]`` for each
        tangent, all in one array. Its outputs are the slopes, of shape (states,), and for each differentiation of the
        system the slopes of the new copies, of shape (count, states), or (states,) for a single one.
    states : int
        Number of states, in each of these copies of the system.
    directions : tuple of int
        Number of directions of each differentiation of the system. A differentiation appends the tangents of all
        copies so far in its first direction, then those in the second one, and so on.
    primal : System, optional
        The system without tangents; by default this one.

    Attributes
    ----------
    others : list of System
        The same system for other branches of the right-hand side; used by primal systems only.
    record : callable or None
        Returns the program for the branches taken at x.
    """

    #: maximum number of combinations of branches
    limit = 16

    def __init__(self, program: Program, states: int, directions: tuple = (), primal: System | None = None):
        self.program, self.states, self.directions = program, states, directions
        self.primal = self if primal is None else primal
        self.others: list[System] = []
        self.record: Callable | None = None
        self.integrations: weakref.WeakValueDictionary = weakref.WeakValueDictionary()  # by their settings
        self.spare: dict[Any, list] = {}  # right-hand sides for further integrations; see `field.bound`
        self._derived: dict[Any, Any] = {}

    @functools.cached_property
    def copies(self) -> int:
        """Number of copies of the system: itself and its tangents."""
        return math.prod(1 + count for count in self.directions)

    @property
    def _starts(self):
        """Number of copies before each differentiation of the system."""
        return [math.prod(1 + count for count in self.directions[:k]) for k in range(len(self.directions))]

    @property
    def _shapes(self):
        rows = [1] + [count * start for count, start in zip(self.directions, self._starts)]
        return [(r, self.states) if r > 1 else (self.states,) for r in rows]

    @functools.cached_property
    def tangents(self) -> tuple[np.ndarray, np.ndarray]:
        """For each copy, its first-order tangents by direction (0: none), and its order, which is their number."""
        starts = np.array(self._starts, np.intp)
        digits = np.arange(self.copies)[:, None] // starts % (1 + np.array(self.directions, np.intp))
        return np.ascontiguousarray(digits * starts), np.count_nonzero(digits, axis=1).astype(np.intp)

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.program._example[0].size // self.copies - 1 - self.states

    def branch(self, k: int, x: np.ndarray) -> System:
        """Return this system for the `k`-th combination of branches; a new one is recorded at x = [t, y, p].

        Raises
        ------
        MissingBranch
            If it cannot be recorded.
        """
        primal = self.primal
        if k > len(primal.others):
            program = None if primal.record is None else primal.record(x)
            if program is None:
                raise MissingBranch(x.copy())
            primal.others.append(System(program, self.states))
        found = primal.others[k - 1] if k else primal
        for count in self.directions:
            found = found.pushed(count)
        return found

    @memoised
    def pushed(self, count: int = 1) -> System:
        """Return the system with tangents of each of its copies in `count` directions."""
        code, (given,) = self._timed(), self.program._example
        example = [*self._timed_example(), given]
        tangents = source_transform.pushed_forward(code, [(code.inputs[0], 2)], list(code.outputs), example[:2])
        if count > 1:
            tangents = batch_program(tangents, [2], count, example)
        made, size = Listing(), given.size
        x = made.input((_FLOAT, ((1 + count) * size,), None))
        own = [made.block(x, 0, (size,)), made.block(x, 0, (1,))]
        moved = made.block(x, size, (count, size) if count > 1 else (size,))
        primal = inlined(made, code, own).outputs
        found = inlined(made, tangents, [*own, moved]).outputs
        made.outputs = [*primal, self._block(made, found, count)]
        made = self._made("tangents", made, [np.concatenate([given] * (1 + count))])
        return System(made, self.states, (*self.directions, count), self.primal)

    def _block(self, code, tangents, count):
        """Append an array of the tangents of all copies, given those of each output in all directions."""
        n, q = self.states, self.copies
        if q == 1:
            return tangents[0]
        made, start = -1, 0
        for v, own in zip(tangents, self._shapes):
            r = math.prod(own) // n
            shape = count, r, n
            v = code.block(v, 0, shape)
            made = code.place(made, (8 * start * n, shape, (8 * q * n, 8 * n, 8)), v, (_FLOAT, (count * q, n), None))
            start += r
        return made

    @memoised
    def pulled(self) -> Program:
        """Return the program that maps x and cotangents of all outputs to the cotangent of x."""
        code, program = self._timed(), self.program
        x, _ = code.inputs
        seeds = [(y, 2 + k) for k, y in enumerate(code.outputs)]
        longer = source_transform.pulled_back(code, seeds, [x], self._timed_example(), program._exact)
        (given,) = program._example
        made = Listing()
        x, *cotangents = [made.input((_FLOAT, shape, None)) for shape in (given.shape, *self._shapes)]
        found = inlined(made, longer, [x, made.block(x, 0, (1,)), *cotangents])
        return self._made("pullback", found, [given, *map(np.ones, self._shapes)])

    def _timed(self):
        """Return the IR with the time as a separate second input, so that it is not differentiated."""
        code, made = self.program._differentiable_ir(), Listing()
        type = kind_of(code, code.inputs[0])
        x, t = made.input(type), made.input((_FLOAT, (1,), None))
        return parted(made, code, x, (0, (1,), (8,)), t)

    def _timed_example(self):
        (x,) = self.program._example
        return [x, x[:1].copy()]

    @memoised
    def jacobian(self) -> tuple[Program, Pattern]:
        """Return the program from the state and x to the nonzeros of the Jacobian in the state, and their pattern.

        The system must have no tangents.
        """
        code, n, made = self.program._differentiable_ir(), self.states, Listing()
        type = kind_of(code, code.inputs[0])
        state, x = made.input((_FLOAT, (n,), None)), made.input(type)
        found = parted(made, code, x, (8, (n,), (8,)), state)
        (x,) = self.program._example
        made = self._made("of the state", found, [x[1 : 1 + n].copy(), x])
        if made._exact or "accumulate" in made._disabled:
            return made.jacobian(), Pattern(n)
        with caught(accumulate.Refused):
            code, y = made._differentiable("jacobian")
            entries = accumulate.entries(code, code.inputs[0], y, made._example)
            rows = np.repeat(np.arange(n), np.diff(entries.indptr))
            return made._with_nonzeros(made._name, entries.code), Pattern(n, rows, entries.indices)
        return made.jacobian(), Pattern(n)

    def pattern(self) -> Pattern:
        """Return the nonzeros of the Jacobian in all branches so far, of a system without tangents."""
        return self._derived.get("pattern") or self.jacobian()[1]

    def places(self, pattern: Pattern) -> np.ndarray | None:
        """Return the positions of a branch's nonzeros among those of all branches; None if both are the same.

        Raises
        ------
        WiderPattern
            If some nonzeros are new; they are added to the pattern before the exception is raised.
        """
        every = self.pattern()
        if every.is_like(pattern):
            return None
        found = every.places_of(pattern)
        if found is None:
            self._derived["pattern"] = every.joined(pattern)
            raise WiderPattern
        return found

    def tiered(self, tier: str) -> System:
        """Return this system on a tier of the VM."""
        primal = None if self.primal is self else self.primal.tiered(tier)
        made = System(self.program.tiered(tier), self.states, self.directions, primal)
        made.others = [other.tiered(tier) for other in self.others]
        return made

    def _made(self, word, listing, example):
        if not (self.program._exact or "scalarise" in self.program._disabled):
            scalars = scalarise.replace_small_arrays(listing)
            if scalarise.nanoseconds(scalars) <= scalarise.nanoseconds(listing):
                listing = scalars
        made = self.program._like(f"{word} of {self.program._name}", listing, Result(Slot(0)))
        made._form, made._example = Form(tuple(example), {}), example
        return made

    def __getstate__(self):
        kept = "program", "states", "directions", "primal", "others"
        return {**{name: self.__dict__[name] for name in kept}, "record": None, "_derived": {}}

    def __setstate__(self, state):
        self.__dict__.update(state, integrations=weakref.WeakValueDictionary(), spare={})

    def __deepcopy__(self, memo):
        return copy.copy(self)

    def check_parts(self, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the program has these copies and states; see `ir.verify`."""
        fields = {"program": Program, "states": is_count, "directions": tuple, "primal": System, "others": list}
        check_fields(self, {**fields, "record": type(None), "_derived": dict})
        expect(all(is_count(count) and count > 0 for count in self.directions), "has an invalid number of directions")
        if self.primal is self:
            expect(not self.directions, "has a program with tangents, where the plain one is expected")
        else:
            self.primal.check_parts(verifier)
            alike = not self.primal.directions, self.primal.states == self.states, self.primal.primal is self.primal
            expect(all(alike) and self.primal.parameters == self.parameters, "has tangents of another system")
        verifier.check(self.program)
        for other in self.others:
            expect(type(other) is System and self.primal is self is not other, "has branches of another system")
            alike = other.primal is other, other.states == self.states, other.parameters == self.parameters
            expect(all(alike) and not other.others, "has branches of another system")
            other.check_parts(verifier)
        code = self.program._listing
        expect(not self._derived and self.states > 0, "has a system without states")
        expect(len(code.inputs) == 1 and len(code.outputs) == len(self._shapes), "has a system of another structure")
        dtype, shape, _ = kind_of(code, code.inputs[0])
        is_right = dtype == _FLOAT and len(shape) == 1 and shape[0] % self.copies == 0
        expect(is_right and shape[0] // self.copies > self.states, "has a system with other inputs")
        types = [kind_of(code, v)[:2] for v in code.outputs]
        expect(types == [(_FLOAT, shape) for shape in self._shapes], "has a system with other outputs")


def inlined(code: Listing, other: Listing, inputs: list, known: dict | None = None) -> Listing:
    """Append the program `other` with the values `inputs` as its inputs, by position; return its outputs.

    `known` maps values of `other` to existing values of `code` that replace them.
    """
    of = np.full(len(other), -1, dtype=np.int32)
    for v in other.inputs:
        of[v] = inputs[int(other.a[v])]
    for v, found in (known or {}).items():
        of[v] = found
    rest = np.flatnonzero(of < 0).astype(np.int32)
    code.take(other, rest.astype(np.int32), of)
    code.outputs = [int(of[v]) for v in other.outputs]
    return code


def parted(code: Listing, other: Listing, x: int, place: tuple, value: int) -> Listing:
    """Append `other`, a program of one array, applied to x with `value` stored at a contiguous place.

    Reads go directly to x or to the value where possible, which mostly avoids a copy of the array.
    """
    start, (size,), _ = place
    known, stop = {}, start + 8 * size
    for v, (offset, shape, strides) in parts_of(other, other.inputs[0], range(len(other))).items():
        steps = [(n - 1) * s for n, s in zip(shape, strides)]
        low, high = offset + sum(s for s in steps if s < 0), offset + sum(s for s in steps if s > 0)
        if start <= low and high < stop:
            known[v] = code.part(value, (offset - start, shape, strides), _FLOAT)
        elif high < start or stop <= low:
            known[v] = code.part(x, (offset, shape, strides), _FLOAT)
    return inlined(code, other, [code.place(x, place, value, kind_of(code, x))], known)


def parts_of(code: Listing, x: int, values: Iterable) -> dict[int, tuple]:
    """Return, by value, the view descriptors of those of `values` that are parts of the array `x`."""
    found: dict = {}
    starts = {int(x): 0}  # in bytes, of x and its contiguous parts
    op, a, b = code.op.tolist(), code.a.tolist(), code.b.tolist()
    for v in values:
        start = starts.get(a[v])
        if start is None or kind_of(code, v)[0] != _FLOAT or v == x:
            continue
        if op[v] == Op.LOAD:
            found[v] = start + 8 * b[v], (), ()
        elif op[v] == Op.VIEW:
            offset, shape, strides = code.views[b[v]]
            found[v] = start + offset, shape, strides
        elif op[v] == _POSITIVE and a[v] != x:  # a copy
            found[v] = found[a[v]]
        if v in found and found[v][2] == (8,):
            starts[v] = found[v][0]
    return found
