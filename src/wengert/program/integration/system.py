"""Differential equations as programs: the right-hand side, its tangents and its pullback."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.program.derive import source_transform
from wengert.program.ir.ir import Listing, kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.ir.verify import Verifier, check_fields, expect, is_count
from wengert.program.program import Program
from wengert.program.signature import Form, Result, Slot

_FLOAT = np.dtype(float)


class System:
    """A right-hand side with its tangents.

    Parameters
    ----------
    program : Program
        Its input is ``x = [t, y, p]`` for the right-hand side f(t, y, p), followed by ``[0, y_dot, p_dot]`` for each
        tangent, all in one array. It has an output of shape (states,) for each.
    copies, states : int
        Number of outputs, and of states in each.
    """

    def __init__(self, program: Program, copies: int, states: int, primal: System | None = None):
        self.program, self.copies, self.states = program, copies, states
        self.primal = self if primal is None else primal  # the system without tangents
        self._derived: dict[str, Any] = {}

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return self.program._example[0].size // self.copies - 1 - self.states

    def pushed(self) -> System:
        """Return the system with the tangent of each of its parts."""
        return self._memoised("pushed", self._pushed)

    def _pushed(self):
        code = self._timed()
        x, _ = code.inputs
        outputs = list(code.outputs)
        longer = source_transform.pushed_forward(code, [(x, 2)], outputs, self._timed_example())
        longer.outputs = [*outputs, *longer.outputs]
        (given,) = self.program._example
        made = Listing()
        x = made.add(Op.INPUT, (_FLOAT, (2 * given.size,), None), 0)
        made.inputs = [x]
        parts = [part(made, x, 0, given.size), part(made, x, 0, 1), part(made, x, given.size, given.size)]
        made = self._made("tangent", inlined(made, longer, parts), [np.concatenate([given, given])])
        return System(made, 2 * self.copies, self.states, self.primal)

    def pulled(self) -> Program:
        """Return the program from x and cotangents of all outputs to that of x."""
        return self._memoised("pulled", self._pulled)

    def _pulled(self):
        code, program = self._timed(), self.program
        x, _ = code.inputs
        seeds = [(y, 2 + k) for k, y in enumerate(code.outputs)]
        longer = source_transform.pulled_back(code, seeds, [x], self._timed_example(), program._exact)
        (given,) = program._example
        made = Listing()
        types = [(_FLOAT, given.shape, None), *self.copies * [(_FLOAT, (self.states,), None)]]
        made.inputs = [made.add(Op.INPUT, type, k) for k, type in enumerate(types)]
        x, *cotangents = made.inputs
        found = inlined(made, longer, [x, part(made, x, 0, 1), *cotangents])
        return self._made("pullback", found, [given, *np.ones((self.copies, self.states))])

    def _timed(self):
        """Return the IR with the time as a second input, so that nothing is differentiated in it."""
        code, made = self.program._differentiable_ir(), Listing()
        type = kind_of(code, code.inputs[0])
        made.inputs = [made.add(Op.INPUT, type, 0), made.add(Op.INPUT, (_FLOAT, (1,), None), 1)]
        return inlined(made, code, [made.place(made.inputs[0], (0, (1,), (8,)), made.inputs[1], type)])

    def _timed_example(self):
        (x,) = self.program._example
        return [x, x[:1].copy()]

    def jacobian(self) -> Program:
        """Return the program from the state and x to the Jacobian in the state, of a system without tangents."""
        return self._memoised("jacobian", self._jacobian)

    def _jacobian(self):
        code, n, made = self.program._differentiable_ir(), self.states, Listing()
        type = kind_of(code, code.inputs[0])
        made.inputs = [made.add(Op.INPUT, (_FLOAT, (n,), None), 0), made.add(Op.INPUT, type, 1)]
        found = inlined(made, code, [made.place(made.inputs[1], (8, (n,), (8,)), made.inputs[0], type)])
        (x,) = self.program._example
        return self._made("of the state", found, [x[1 : 1 + n].copy(), x]).jacobian()

    def tiered(self, tier: str) -> System:
        """Return this system on a tier of the VM."""
        primal = None if self.primal is self else self.primal.tiered(tier)
        return System(self.program.tiered(tier), self.copies, self.states, primal)

    def _made(self, word, listing, example):
        made = self.program._like(f"{word} of {self.program._name}", listing, Result(Slot(0)))
        made._form, made._example = Form(tuple(example), {}), example
        return made

    def _memoised(self, key: str, make: Callable) -> Any:
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    def __getstate__(self):
        return {**self.__dict__, "_derived": {}}

    def __deepcopy__(self, memo):
        return copy.copy(self)

    def check_parts(self, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the program has these copies and states; see `ir.verify`."""
        fields = {"program": Program, "copies": is_count, "states": is_count, "primal": System, "_derived": dict}
        check_fields(self, fields)
        if self.primal is not self:
            self.primal.check_parts(verifier)
            alike = self.primal.copies == 1, self.primal.states == self.states, self.primal.primal is self.primal
            expect(all(alike) and self.primal.parameters == self.parameters, "has tangents of another system")
        verifier.check(self.program)
        code = self.program._listing
        expect(not self._derived and self.copies > 0 and self.states > 0, "has a system without states")
        expect(len(code.inputs) == 1 and len(code.outputs) == self.copies, "has a system of another structure")
        dtype, shape, _ = kind_of(code, code.inputs[0])
        is_right = dtype == _FLOAT and len(shape) == 1 and shape[0] % self.copies == 0
        expect(is_right and shape[0] // self.copies > self.states, "has a system with other inputs")
        types = [kind_of(code, v)[:2] for v in code.outputs]
        expect(all(type == (_FLOAT, (self.states,)) for type in types), "has a system with other outputs")


def part(code: Listing, v: int, start: int, size: int) -> int:
    """Append a part of a vector."""
    return code.part(v, (8 * start, (size,), (8,)), _FLOAT)


def inlined(code: Listing, other: Listing, inputs: list) -> Listing:
    """Append a program whose inputs, in the order of their positions, are these values; its outputs become those."""
    of = np.full(len(other), -1, dtype=np.int32)
    for v in other.inputs:
        of[v] = inputs[int(other.a[v])]
    rest = np.setdiff1d(np.arange(len(other), dtype=np.int32), other.inputs)
    code.take(other, rest.astype(np.int32), of)
    code.outputs = [int(of[v]) for v in other.outputs]
    return code
