"""Solutions of equations as single IR instructions: a call that runs a solver, and IR for its derivatives.

A solution is ``x`` with ``F(x, p) = 0``, where F is a traced function: a program of the unknowns and of every value
that it reads, its *leaves*.  In the IR it is one call, whose operands are the leaves that depend on inputs.
Its derivative does not differentiate the solver; it follows from the implicit function theorem.  With J = dF/dx and
F_p = dF/dp at the solution ::

    tangent = -inv(J) F_p p_dot,    adjoint of p = -F_p^T inv(J)^T x_bar

Differentiation inlines the IR of these formulas.  It consists of ordinary instructions, so that derivatives of any
order follow from the rules of F and of linear equations (`roots.solve`).
If x is less accurate than it could be, they are taken at a point close to x: see `Settled`.

Invariants
- If F takes a branch that was not traced, the call fails like a guard, and nothing is computed.
- A pickled solution runs the same programs.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from wengert.errors import GuardError
from wengert.program.derivatives import NotDerivable, program_row
from wengert.program.derive import source_transform
from wengert.program.ir.call import Call, Operand, called
from wengert.program.ir.ir import Listing, kind_of
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.ir.verify import Verifier, check_fields, expect, is_a, is_count, is_shape
from wengert.program.program import Program
from wengert.program.roots.equations import Bound
from wengert.program.roots.solve import Solve, solve_row
from wengert.program.roots.system import System

_FLOAT = np.dtype(float)

#: maximum number of specialisations of one function that a solver may meet
_MAX_PATHS = 16


class Paths:
    """A function of unknowns and leaves as programs, one per branch combination met so far.

    Parameters
    ----------
    record : callable or None
        Traces the program at given inputs, unknowns and leaves; None if no more may be traced.
    """

    def __init__(self, record: Callable | None):
        self.record = record
        self.programs: list[Program] = []
        self._bound: list[Bound] = []  # equations that no solver is using

    def systems(self) -> list[System]:
        """Return the `System` of each branch combination: the equations and their Jacobian as programs of one array."""
        return [program._memoised("system", functools.partial(System, program)) for program in self.programs]

    def take(self, leaves: Iterable) -> Bound:
        """Return the equations at these leaves, for native solvers; the caller gives them back afterwards."""
        bound = self._bound.pop() if self._bound else None
        if bound is None or not bound.is_current:
            bound = Bound(self)
        bound.set_leaves(leaves)
        return bound

    def give(self, bound: Bound) -> None:
        """Take back equations that were used without an error."""
        if bound.settle():
            self._bound.append(bound)

    def value(self, inputs: list) -> Any:
        """Return F at these inputs, an array of the unknowns' shape."""
        for program in self.programs:
            found = program._try_execute(inputs)
            if type(found) is not int:  # an int is the index of a failed guard
                return found[0]
        return self.more(inputs)._execute(inputs)[0]

    def slopes(self, inputs: list) -> Any:
        """Return the Jacobian of F in the unknowns, of shape ``x.shape + x.shape``."""
        for program in self.programs:
            found = program.jacobian()._try_execute(inputs)
            if type(found) is not int:
                return found[0]
        return self.more(inputs).jacobian()._execute(inputs)[0]

    def more(self, inputs: list) -> Program:
        """Trace a program for the branches taken at these inputs."""
        if self.record is None or len(self.programs) == _MAX_PATHS:
            raise GuardError("the equations take a branch that was not recorded")
        program = self.record(inputs)
        self.programs.append(program)
        return program

    def number(self, inputs: list) -> int:
        """Return the index of the program whose branches are taken at these inputs."""
        self.value(inputs)
        return next(i for i, p in enumerate(self.programs) if type(p._try_execute(inputs)) is not int)

    def __getstate__(self):
        return {"record": None, "programs": self.programs, "_bound": []}

    def check_parts(self, shapes: list, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless programs take these shapes and return the first; see `ir.verify`."""
        check_fields(self, {"programs": list, "_bound": list})
        expect(all(type(x) is Bound for x in self._bound), "has equations bound to other objects")
        for program in self.programs:
            expect(type(program) is Program, "has equations that are not programs")
            verifier.check(program)
            code = program._listing
            expect(len(code.outputs) == 1, "has equations with more than one result")
            found = [kind_of(code, v)[1] for v in (*code.inputs, *code.outputs)]
            expect(found == [*shapes, shapes[0]], "has equations with other shapes")


class Solution:
    """A call that returns x with F(x, leaves) = 0; nondifferentiable arguments come first, then the leaves.

    Parameters
    ----------
    paths : Paths
        Programs of F.
    shape : tuple
        Shape of x and of F.
    first : int
        Number of arguments before the leaves.
    name : str
    """

    #: call that returns the point at which the derivative is taken
    settled: Settled | None = None

    #: reason if the solution is not differentiable
    refusal = ""

    def __init__(self, paths: Paths, shape: tuple, first: int, name: str):
        self.paths, self.shape, self.first, self.name = paths, shape, first, name
        self.__name__ = self.__qualname__ = name
        self.path = 0  # index of the program used for the derivative

    def __call__(self, *arguments: Any) -> Any:
        raise NotImplementedError

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the call has valid operands and the type of x; see `ir.verify`."""
        parts = {"paths": Paths, "shape": is_shape, "first": is_count, "path": is_count}
        check_fields(self, parts | {"name": str}, {"settled": is_a(Settled), "refusal": str})
        self.check_leaves(call.args[self.first :], types, verifier)
        expect(self.path < len(self.paths.programs) and kind[:2] == (_FLOAT, self.shape), "solves for another type")

    def check_leaves(self, leaves: Iterable, types: list, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the programs take these leaves, given as arguments of a call."""
        shapes = [types[x.position][1] if type(x) is Operand else np.shape(x) for x in leaves]
        self.paths.check_parts([self.shape, *shapes], verifier)

    def functions(self, leaves: Iterable) -> tuple[Callable, Callable]:
        """Return F and its Jacobian as functions of the unknowns, given in any shape."""
        paths, shape = self.paths, self.shape
        given = [x if type(x) is not np.ndarray or x.flags.c_contiguous else x.copy() for x in leaves]

        def value(x):
            return paths.value([shaped(x, shape), *given])

        def slopes(x):
            return paths.slopes([shaped(x, shape), *given])

        return value, slopes

    @staticmethod
    def operand_shapes(args: tuple, shapes: list) -> list:
        """Return the shapes of the operands of a call, given those of all arguments."""
        found = {x.position: shape for x, shape in zip(args, shapes) if type(x) is Operand}
        return [found[j] for j in range(len(found))]

    def operand_examples(self, args: tuple, first: int) -> list:
        """Return examples of a result and of the operands of a call, whose `first` leading arguments are unknowns."""
        x, *leaves = self.paths.programs[self.path]._example
        return [x, *self.operand_shapes(args, [*[x] * first, *leaves])]

    # -- derivatives

    @property
    def parts(self) -> tuple:
        """Calls in a derivative whose results the next order reuses: the one that returns the point."""
        return (self.settled,)

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        return _Derived(self, call, moved, known).tangent()

    def adjoints(self, call: Call, wanted: list, known: list) -> Listing:
        return _Derived(self, call, wanted, known).adjoints()


class Settled:
    """A call that returns the point near a solution at which its derivative is taken, given solution and leaves.

    The point and the solution are the same function of the leaves, so they have the same derivatives.
    """

    shape: tuple = ()

    def check_call(self, call: Call, types: list, kind: tuple, verifier: Verifier) -> None:
        """Raise `MalformedProgram` unless the call returns a point of the solution's shape; see `ir.verify`."""
        expect(is_shape(self.shape) and kind[:2] == (_FLOAT, self.shape), "returns a point of another type")
        is_same = type(call.args[0]) is Operand and types[call.args[0].position][1] == self.shape
        expect(is_same, "is for a point of another shape")

    def tangent(self, call: Call, moved: list, known: list) -> Listing:
        """Return the IR of the tangent, which is that of the solution."""
        code = Listing()
        if 0 in moved:
            code.inputs = [code.add(Op.INPUT, (_FLOAT, self.shape, None), moved.index(0))]
        code.outputs = code.inputs or [code.filled(0.0, self.shape)]
        return code

    def adjoints(self, call: Call, wanted: list, known: list) -> Listing:
        """Return the IR of the adjoints: the whole cotangent goes to the solution."""
        code = Listing()
        g = code.input((_FLOAT, self.shape, None))
        code.outputs = [g if j == 0 else code.filled(0.0, ()) for j in wanted]
        return code


def shaped(x: Any, shape: tuple) -> Any:
    """Return a float or an array of this shape."""
    if type(x) is np.ndarray and x.shape == shape:
        return x
    if shape:
        return np.reshape(x, shape)
    return x if type(x) is float else float(x if np.ndim(x) == 0 else np.reshape(x, ()))


class _Derived:
    """Builds the IR of one derivative of a solution."""

    def __init__(self, solution, call, moved, known):
        self.count = len(known)
        if solution.refusal:
            raise NotDerivable(solution.refusal)
        self.solution, self.moved = solution, moved
        self.program = solution.paths.programs[solution.path]
        self.function = self.program._differentiable_ir()
        self.types = [kind_of(self.function, v) for v in self.function.inputs]
        self.code, self.operands = Listing(), {}
        self.positions = {x.position: k for k, x in enumerate(call.args) if type(x) is Operand}
        self.call = call

    def leaf(self, k):
        """Return the index of the input of F for operand k; 0 if the operand has no derivative."""
        return max(0, self.positions[k] - self.solution.first + 1)

    def begin(self, directions):
        """Create the inputs (directions, solution, operands, known values); return the directions and F's inputs."""
        given = [self.code.input(kind) for kind in directions]  # Python 3.12.1 would take `type` for a local below
        y = self.code.input(self.types[0])
        operands = [self.code.input(self.types[self.leaf(k)]) for k in range(len(self.positions))]
        leaves = [
            operands[x.position] if type(x) is Operand else self.constant(x)
            for x in self.call.args[self.solution.first :]
        ]
        if self.count:
            z = self.code.input(self.types[0])
        else:
            z = called(self.code, self.solution.settled, [y, *leaves], self.types[0][1], settled_row)
        return given, [z, *leaves]

    def constant(self, x):
        return self.code.constant_array(np.array(x, order="C")) if np.ndim(x) else self.code.filled(float(x), ())

    def inlined(self, other, values):
        """Inline `other` with these values as its inputs; return its outputs."""
        code = self.code
        return code.inline(other, [code.in_layout(values[int(other.a[v])], kind_of(other, v)) for v in other.inputs])

    def reshaped(self, v, shape):
        _, own, _ = kind_of(self.code, v)
        v = self.code.in_layout(v, (_FLOAT, own, None))
        return v if own == shape else self.code.block(v, 0, shape)

    def slopes(self, inputs, system):
        """Return J as a scalar, or the vector of its nonzeros."""
        shape, n = self.solution.shape, math.prod(self.solution.shape)
        if system.nonzeros is not None:
            (found,) = self.inlined(system.nonzeros, inputs)
            return self.reshaped(found, (system.linear.nnz,)) if shape else found
        program = self.program.jacobian()
        if program._runs_per_call > 1:
            raise NotDerivable(f"{self.solution.name}: the Jacobian has too many columns")
        (found,) = self.inlined(program._whole_ir(), inputs)
        return self.reshaped(found, (n * n,)) if shape else found

    def solved(self, inputs, v, transposed):
        """Return the solution of J u = -v, or of the transposed equations."""
        shape, system = self.solution.shape, self.solution.paths.systems()[self.solution.path]
        slopes = self.slopes(inputs, system)
        if not shape:
            quotient = self.code.add(OPCODES["divide"], self.types[0], v, slopes)
            return self.code.add(OPCODES["negative"], self.types[0], quotient)
        vector = (_FLOAT, (math.prod(shape),), None)
        v = self.code.add(OPCODES["negative"], vector, self.reshaped(v, vector[1]))
        found = called(self.code, Solve(system.linear, transposed), [slopes, v], vector[1], solve_row)
        return self.reshaped(found, shape)

    def tangent(self):
        moved = [j for j in self.moved if self.leaf(j)]
        directions, inputs = self.begin([self.types[self.leaf(j)] for j in self.moved])
        directions = [t for j, t in zip(self.moved, directions) if self.leaf(j)]
        if not moved:
            self.code.outputs = [self.code.filled(0.0, self.solution.shape)]
            return self.code
        f, count = self.function, len(self.types)
        seeds = [(f.inputs[self.leaf(j)], count + k) for k, j in enumerate(moved)]
        pushed = source_transform.pushed_forward(f, seeds, f.outputs[:1], self.program._example)
        (t,) = self.inlined(pushed, [*inputs, *directions])
        self.code.outputs = [self.solved(inputs, t, False)]
        return self.code

    def adjoints(self):
        (g,), inputs = self.begin([self.types[0]])
        g = self.solved(inputs, g, True)
        f, count = self.function, len(self.types)
        wanted = [j for j in self.moved if self.leaf(j)]
        wrt = [f.inputs[self.leaf(j)] for j in wanted]
        found = {}
        if wanted:
            cotangents = [(f.outputs[0], count)]
            pulled = source_transform.pulled_back(f, cotangents, wrt, self.program._example, self.program._exact)
            found = dict(zip(wanted, self.inlined(pulled, [*inputs, g])))
        zero = self.code.filled(0.0, ())
        self.code.outputs = [found.get(j, zero) for j in self.moved]
        return self.code


solution_row = program_row("root", f"{__name__}.solution_row")
settled_row = program_row("settled", f"{__name__}.settled_row")
