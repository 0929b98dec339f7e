"""Calls of solvers at many points at once, in batched programs.

A call in the program of one point becomes a single call in the batched program, see `passes.batching`: its batched
operands and its result have a leading axis.  Its derivatives are the batched derivatives of the call at one point.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.errors import ConvergenceError
from wengert.program.ir.call import Call
from wengert.program.ir.ir import Listing, c_strides, kind_of, whole_view
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import example_of
from wengert.program.ir.verify import Verifier, check_fields, expect, is_count
from wengert.program.passes.batching import batch_program

_FLOAT = np.dtype(float)

#: maximum number of elements that an error lists
MAX_LISTED = 10


class Batched:
    """A call at `count` points; ``is_batched[j]`` states whether operand j has a leading axis.

    Parameters
    ----------
    one : callable
        The call at one point. It has the methods ``tangent``, ``adjoints``, ``check_call``, and further
        ``examples(call)``, which returns values of the result and the operands for tracing, and
        ``many(count, *arguments)``, which computes the results at all points.
    row : Primitive
        Its registry row.
    """

    def __init__(self, one: Any, row: Any, is_batched: tuple, count: int):
        self.one, self.row, self.is_batched, self.count = one, row, is_batched, count
        self.__name__ = self.__qualname__ = f"{one.__name__} at {count} points"

    def __call__(self, *arguments):
        return self.one.many(self.count, *arguments)

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the call is valid at each point; see `ir.verify`."""
        check_fields(self, {"is_batched": tuple, "count": is_count})
        expect(len(self.is_batched) == len(types) and any(self.is_batched), "has other operands than at one point")
        leading = [kind, *[type for type, batched in zip(types, self.is_batched) if batched]]
        expect(all(shape[:1] == (self.count,) for _, shape, _ in leading), "has a batch with another number of points")
        own = [self.at_one(type) if batched else type for type, batched in zip(types, self.is_batched)]
        self.one.check_call(self.of_one(call), own, self.at_one(kind), verifier)

    @staticmethod
    def at_one(type):
        return type[0], type[1][1:], None

    def of_one(self, call):
        return Call(self.one, call.args, call.kwargs, call.operands, self.row)

    def batched(self, call: Call, is_batched: list, count: int) -> Listing:
        """Return the IR at `count` times as many points; see `wengert.program.passes.batching`."""
        result, *operands = self.one.examples(self.of_one(call))
        code, total = Listing(), count * self.count
        values = []
        for j, (outer, inner) in enumerate(zip(is_batched, self.is_batched)):
            shape = (count,) * outer + (self.count,) * inner + np.shape(operands[j])
            v = code.input((_FLOAT, shape, None))
            values.append(self.at_all(code, v, outer, inner, count) if outer or inner else v)
        many = Batched(self.one, self.row, tuple(map(max, is_batched, self.is_batched)), total)
        made = Call(many, call.args, call.kwargs, values, self.row)
        y = code.call(made, (_FLOAT, (total, *np.shape(result)), None))
        code.outputs = [code.block(y, 0, (count, self.count, *np.shape(result)))]
        return code

    def at_all(self, code, v, outer, inner, count):
        """Return an operand with one leading axis for the points of both batches."""
        _, shape, _ = kind_of(code, v)
        own = shape[outer + inner :]
        if not (outer and inner):
            lead = 8 * math.prod(own)
            view = 0, (count, self.count, *own), (lead * outer, lead * inner, *c_strides(own, 8))
            every = (_FLOAT, view[1], None)
            v = code.place(-1, whole_view(every), code.part(v, view, _FLOAT), every)
        return code.block(v, 0, (count * self.count, *own))

    # -- derivatives

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        made = self.one.tangent(self.of_one(call), moved, [])
        return self.at_all_points(made, call, [self.is_batched[j] for j in moved])

    def adjoints(self, call: Call, wanted: list, known: list) -> Listing:
        """Return the IR of the adjoints, summed over the points for an operand that they share."""
        made = self.at_all_points(self.one.adjoints(self.of_one(call), wanted, []), call, [True])
        made.outputs = [v if self.is_batched[j] else _summed(made, v, self.count) for j, v in zip(wanted, made.outputs)]
        return made

    def at_all_points(self, code, call, directions):
        """Return the batched program of a derivative; `directions` states which of its first inputs are batched."""
        batched = [*directions, True, *self.is_batched]
        numbers = [int(code.a[v]) for v in code.inputs if batched[int(code.a[v])]]
        examples = [example_of(kind_of(code, v)) for v in code.inputs[: len(directions)]]
        return batch_program(code, numbers, self.count, [*examples, *self.one.examples(self.of_one(call))])


def _summed(code, v, count):
    """Append the sum of a batched value over its points."""
    _, (_, *shape), _ = kind_of(code, v)
    if not shape:
        return code.add(Op.SUM, (_FLOAT, (), None), v)
    size = math.prod(shape)
    index = np.tile(np.arange(size, dtype=np.int32).reshape(shape), (count, *[1] * len(shape)))
    dense = _FLOAT, (count, *shape), None
    v = code.place(-1, whole_view(dense), v, dense)
    return code.add(Op.SCATTER, (_FLOAT, tuple(shape), None), v, code.constant_array(index))


def batched_call(one: Any, row: Any, call: Call, shapes: list, shape: tuple, is_batched: list, count: int) -> Listing:
    """Return the IR of a call at many points; `shapes` and `shape` belong to operands and result at one point."""
    code = Listing()
    for own, batched in zip(shapes, is_batched):
        code.input((_FLOAT, (count, *own) if batched else own, None))
    many = Batched(one, row, tuple(is_batched), count)
    code.outputs = [code.call(Call(many, call.args, {}, [*code.inputs], row), (_FLOAT, (count, *shape), None))]
    return code


def unsolved(name: str, count: int, failures: list) -> ConvergenceError:
    """Return the error for a batch that is not solved at some of its points, given as pairs of index and message."""
    numbers = [k for k, _ in failures]
    listed = ", ".join(map(str, numbers[:MAX_LISTED]))
    if len(numbers) > MAX_LISTED:
        listed += f" and {len(numbers) - MAX_LISTED} more"
    start, are = (f"element {listed}", "is") if len(numbers) == 1 else (f"elements {listed}", "are")
    first = "" if len(numbers) == 1 else f" element {numbers[0]}:"
    error = ConvergenceError(
        f"{name}: {start} of a batch of {count} {are} not solved:{first} {failures[0][1].rstrip('.')}. Start nearer to "
        "the roots, leave these elements out (`elements` of this error holds their indices), or call the function on "
        "one of them alone to see why"
    )
    error.elements = np.array(numbers)
    error.is_final = True  # do not retry the batch in another way
    return error
