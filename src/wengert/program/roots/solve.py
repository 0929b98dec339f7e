"""Linear equations with the Jacobian of other equations, as single IR instructions with derivatives of any order."""

from __future__ import annotations

import numpy as np

from wengert.program.derivatives import program_row
from wengert.program.ir.call import Call, Operand, called
from wengert.program.ir.ir import Listing
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.ir.verify import Verifier, check_fields, expect
from wengert.program.roots.batched import batched_call
from wengert.program.roots.linear import Linear

_FLOAT = np.dtype(float)


class Solve:
    """A call that returns u with ``J u = v``, given the nonzeros of J, and v.

    Parameters
    ----------
    linear : Linear
    transposed : bool
        Whether to solve with the transpose of J.
    """

    def __init__(self, linear: Linear, transposed: bool):
        self.linear, self.transposed = linear, transposed
        self.__name__ = self.__qualname__ = "solve"

    def __call__(self, data: np.ndarray, v: np.ndarray) -> np.ndarray:
        return self.linear.solve(data, v, self.transposed)

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the call has nonzeros and a right-hand side; see `ir.verify`."""
        check_fields(self, {"linear": Linear, "transposed": bool})
        right = (_FLOAT, (self.linear.n,))
        expect(call.args == (Operand(0), Operand(1)), "has other arguments than a matrix and a right-hand side")
        found = [types[0][:2], types[1][:2], kind[:2]]
        expect(found == [(_FLOAT, (self.linear.nnz,)), right, right], "solves equations of another size")

    def examples(self, call: Call) -> list:
        """Return values of the result and the operands at which the equations can be solved."""
        identity = (self.linear.rows == self.linear.columns).astype(float)
        return [np.ones(self.linear.n), identity, np.ones(self.linear.n)]

    def many(self, count: int, data: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Return the solutions at many points; see `wengert.program.roots.batched`."""
        return self.linear.solve(data, v, self.transposed)

    def batched(self, call: Call, is_batched: list, count: int) -> Listing:
        """Return the IR of the solutions at many points; see `wengert.program.passes.batching`."""
        shapes = [(self.linear.nnz,), (self.linear.n,)]
        return batched_call(self, solve_row, call, shapes, shapes[1], is_batched, count)

    # -- derivatives

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        """Return the IR of the tangent, ``J u_dot = v_dot - J_dot u``; see `wengert.program.ir.call.is_solution`."""
        made = _Builder(self, ["matrix" if j == 0 else "vector" for j in moved])
        directions, (u, data, _) = made.inputs[:-3], made.inputs[-3:]
        given = dict(zip(moved, directions))
        right = given.get(1)
        if 0 in given:
            change = made.scattered(made.product(given[0], made.gathered(u, not self.transposed)), self.transposed)
            right = made.negative(change) if right is None else made.difference(right, change)
        made.code.outputs = [made.solved(data, right, self.transposed)]
        return made.code

    def adjoints(self, call: Call, wanted: list, known: list) -> Listing:
        made = _Builder(self, ["vector"])
        g, u, data, _ = made.inputs
        w = made.solved(data, g, not self.transposed)
        of_matrix = -1
        if 0 in wanted:
            factors = made.gathered(w, self.transposed), made.gathered(u, not self.transposed)
            of_matrix = made.negative(made.product(*factors), self.linear.nnz)
        made.code.outputs = [w if j else of_matrix for j in wanted]
        return made.code


class _Builder:
    """Builds the IR of a derivative; `given` lists the kinds of its inputs that precede result and operands."""

    def __init__(self, solve, given):
        self.linear, self.code = solve.linear, Listing()
        for kind in [*given, "vector", "matrix", "vector"]:
            self.code.input((_FLOAT, (self.linear.nnz if kind == "matrix" else self.linear.n,), None))
        self.inputs = self.code.inputs

    def index(self, by_columns):
        return self.code.constant_array(np.array(self.linear.columns if by_columns else self.linear.rows, np.int32))

    def gathered(self, v, by_columns):
        return self.code.add(Op.GATHER, (_FLOAT, (self.linear.nnz,), None), v, self.index(by_columns))

    def scattered(self, v, by_columns):
        return self.code.add(Op.SCATTER, (_FLOAT, (self.linear.n,), None), v, self.index(by_columns))

    def product(self, a, b):
        return self.code.add(OPCODES["multiply"], (_FLOAT, (self.linear.nnz,), None), a, b)

    def negative(self, v, size=0):
        return self.code.add(OPCODES["negative"], (_FLOAT, (size or self.linear.n,), None), v)

    def difference(self, a, b):
        return self.code.add(OPCODES["subtract"], (_FLOAT, (self.linear.n,), None), a, b)

    def solved(self, data, v, transposed):
        return called(self.code, Solve(self.linear, transposed), [data, v], (self.linear.n,), solve_row)


solve_row = program_row("solve", f"{__name__}.solve_row")
