"""A loop in a program: the function of a CALL, which runs a body of instructions once per iteration.

The operands are the initial carried values, the invariants, and the arrays to slice along their first axis.
The result is one 1-D float64 array, which concatenates all results.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from wengert.program.ir.call import Call, Operand
from wengert.program.ir.ir import Listing, c_strides, kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.ir.verify import Verifier, check_fields, expect, is_count
from wengert.program.passes import vectorise

__all__ = ["Loop", "call_of", "is_loop", "type_of_result"]

_FLOAT = np.dtype(float)
#: instructions that a loop may execute in total, equal to the limit on the length of a program
_MAX_UNROLLED_LENGTH = 1 << 30


class Loop:
    """A loop whose body runs `steps` times.

    Attributes
    ----------
    body : Listing
        Its inputs are the carried values, the invariants and the slices of this iteration; its first outputs are the
        carried values of the next iteration.
    steps : int
        Number of iterations.
    carried, kept : int
        Number of carried and of invariant inputs; the other inputs are slices.
    results : tuple of (word, number)
        The parts of the result: ("last", k) the final carried value k; ("stack", k) output k of all iterations;
        ("entry", k) carried value k at the start of all iterations; ("zeros", n) n bytes of zeros.
    checks : bool
        Whether the body contains guards.
    backward : bool
        Whether slices are read, and stacks filled, from the last to the first.
    """

    #: compiles a loop for the VM; set by `wengert.program.vm`, which imports this package
    kernel: Callable[[Loop], Callable]

    def __init__(self, body, steps, carried, kept, results, backward=False):
        self.body, self.steps, self.carried, self.kept = body, steps, carried, kept
        self.results, self.backward = tuple(results), backward
        self.checks = bool((body.op == Op.GUARD).any()) or any(call.checks for call in body.calls)

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the loop is well-formed and matches its operand and result types."""
        counts = dict.fromkeys(("steps", "carried", "kept"), is_count)
        flags = dict.fromkeys(("checks", "backward"), bool)
        check_fields(self, {"body": Listing, "results": tuple, **counts, **flags})
        code, steps, carried, first = self.body, self.steps, self.carried, self.carried + self.kept
        verifier.check(code)
        in_range = 0 < steps and steps * len(code) <= _MAX_UNROLLED_LENGTH
        expect(in_range, f"is a loop whose number of iterations is out of range: {steps}")
        inputs, outputs = ([kind_of(code, v)[:2] for v in values] for values in (code.inputs, code.outputs))
        has_all = first <= len(inputs) and carried <= len(outputs)
        expect(has_all, "is a loop with more carried values than inputs or outputs")
        expect(inputs[:carried] == outputs[:carried], "is a loop that changes the type of a carried value")
        are_floats = all(dtype == _FLOAT for dtype, _ in (*inputs[first:], *outputs))
        expect(are_floats, "is a loop with a slice or output that is not float64")
        in_order = call.args == tuple(map(Operand, range(len(types)))) and not call.kwargs
        expect(in_order, "is a loop whose arguments are not its operands in order")
        taken = [*inputs[:first], *[(dtype, (steps, *shape)) for dtype, shape in inputs[first:]]]
        expect([each[:2] for each in types] == taken, "is a loop whose operands have other types than its inputs")
        expect(len(set(self.results)) == len(self.results), "is a loop with a duplicate result")
        numbers = {"last": range(carried), "entry": range(carried), "stack": range(carried, len(outputs))}
        for word, number in self.results:
            right = is_count(number) and (number % 8 == 0 if word == "zeros" else number in numbers[word])
            expect(right, f"is a loop with an invalid result ({word}, {number})")
        expect(kind == type_of_result(self), "is a loop whose result has another type")

    def __repr__(self):
        return f"loop[length={self.steps}{', reverse' if self.backward else ''}]"

    def __call__(self, *values):
        return Loop.kernel(self)(*values)

    @property
    def loop_bodies(self) -> list[tuple]:
        """Return the number of iterations and the vectorised body, for the printer and reports."""
        return [(self.steps, vectorise.vectorise_scalars(self.body))]

    @property
    def count(self) -> int:
        """Number of float64 elements of the result."""
        return sum(self.length(*result) for result in self.results)

    def type_of(self, word: str, number: int) -> tuple:
        """Return dtype, shape and strides of one iteration's value in a result part."""
        v = self.body.inputs[number] if word == "entry" else self.body.outputs[number]
        return kind_of(self.body, v)

    def length(self, word: str, number: int) -> int:
        """Return the number of float64 elements of a result part."""
        if word == "zeros":
            return number // 8
        size = math.prod(self.type_of(word, number)[1])
        return size if word == "last" else self.steps * size

    def place(self, word: str, number: int) -> int:
        """Return the byte offset of a result part."""
        position = self.results.index((word, number))
        return 8 * sum(self.length(*result) for result in self.results[:position])

    def view(self, word: str, number: int) -> tuple:
        """Return the view descriptor of a result part: byte offset, shape and strides."""
        shape = self.type_of(word, number)[1]
        shape = shape if word == "last" else (self.steps, *shape)
        return self.place(word, number), shape, c_strides(shape, 8)

    def with_entries(self, numbers) -> Loop:
        """Return the loop with "entry" stacks of these carried values appended; other parts keep their offsets."""
        more = [("entry", k) for k in numbers if ("entry", k) not in self.results]
        if not more:
            return self
        return Loop(self.body, self.steps, self.carried, self.kept, (*self.results, *more), self.backward)

    def example(self, values: list) -> list:
        """Return the inputs of the body in the first iteration."""
        first = self.carried + self.kept
        return [*values[:first], *[x[-1 if self.backward else 0] for x in values[first:]]]


def is_loop(call) -> bool:
    """Return whether a call is a loop."""
    return type(call.compute) is Loop


def call_of(loop: Loop, values: list) -> Call:
    """Return the call of a loop on values of a program."""
    return Call(loop, tuple(map(Operand, range(len(values)))), {}, list(values))


def type_of_result(loop: Loop) -> tuple:
    """Return the type of a loop's result: a 1-D array of float64."""
    return _FLOAT, (loop.count,), None
