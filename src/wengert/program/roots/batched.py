"""Calls of solvers at many points at once, in batched programs.

A call in the program of one point becomes a single call in the batched program, see `passes.batching`: its batched
operands and its result have a leading axis.  Its derivatives are those of one point, batched.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.errors import ConvergenceError
from wengert.program.ir.call import Call
from wengert.program.ir.ir import Listing, c_strides, kind_of
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import example_of
from wengert.program.ir.verify import Verifier, check_fields, expect, is_count
from wengert.program.passes.batching import batch_program

_FLOAT = np.dtype(float)


class Batched:
    """Call at `count` points; ``is_batched[j]`` tells whether operand j has a leading axis.

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
        expect(all(shape[:1] == (self.count,) for _, shape, _ in leading), "is not at as many points")
        own = [self.at_one(type) if batched else type for type, batched in zip(types, self.is_batched)]
        self.one.check_call(self.of_one(call), own, self.at_one(kind), verifier)

    @staticmethod
    def at_one(type):
        return type[0], type[1][1:], None

    def of_one(self, call):
        return Call(self.one, call.args, call.kwargs, call.operands, self.row)

    # -- derivatives

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        """Return the IR of the tangent; see `wengert.program.ir.call.is_solution`."""
        made = self.one.tangent(self.of_one(call), moved, [])
        return self.at_all_points(made, call, [self.is_batched[j] for j in moved])

    def adjoints(self, call: Call, wanted: list, known: list) -> Listing:
        """Return the IR of the adjoints, summed over the points for an operand that they share."""
        made = self.at_all_points(self.one.adjoints(self.of_one(call), wanted, []), call, [True])
        made.outputs = [v if self.is_batched[j] else _summed(made, v, self.count) for j, v in zip(wanted, made.outputs)]
        return made

    def at_all_points(self, code, call, directions):
        """Return the batched program of a derivative; `directions` tells which of its first inputs are batched."""
        batched = [*directions, True, *self.is_batched]
        numbers = [int(code.a[v]) for v in code.inputs if batched[int(code.a[v])]]
        examples = [example_of(kind_of(code, v)) for v in code.inputs[: len(directions)]]
        return batch_program(code, numbers, self.count, [*examples, *self.one.examples(self.of_one(call))])


def _summed(code, v, count):
    """Append the sum of a batched value over its points."""
    _, (_, *shape), _ = kind_of(code, v)
    if not shape:
        return int(code.add(Op.SUM, (_FLOAT, (), None), v))
    size = math.prod(shape)
    index = np.tile(np.arange(size, dtype=np.int32).reshape(shape), (count, *[1] * len(shape)))
    dense = code.place(-1, (0, (count, *shape), c_strides((count, *shape), 8)), v, (_FLOAT, (count, *shape), None))
    return int(code.add(Op.SCATTER, (_FLOAT, tuple(shape), None), dense, code.constant_array(index)))


def batched_call(one: Any, row: Any, call: Call, shapes: list, shape: tuple, is_batched: list, count: int) -> Listing:
    """Return the IR of a call at many points; `shapes` and `shape` are those of operands and result at one point."""
    code = Listing()
    code.inputs = [
        code.add(Op.INPUT, (_FLOAT, (count, *own) if batched else own, None), j)
        for j, (own, batched) in enumerate(zip(shapes, is_batched))
    ]
    many = Batched(one, row, tuple(is_batched), count)
    made = Call(many, call.args, {}, [int(v) for v in code.inputs], row)
    code.outputs = [code.add(Op.CALL, (_FLOAT, (count, *shape), None), code.call(made))]
    return code


def unsolved(message: str) -> ConvergenceError:
    """Return the error for a batch that is not solved at one of its points."""
    error = ConvergenceError(f"{message} Start nearer to its root, or solve this element alone to see why")
    error.is_final = True  # the batch is not tried in another way
    return error
