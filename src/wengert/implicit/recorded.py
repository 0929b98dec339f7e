"""Solvers within a program: the traced equations, and one instruction that runs the solver on them.

While a function is recorded, the equations passed to a solver are traced at an unknown of the same recording.
The instructions that depend on the unknown are sliced into a program of their own.
At recording time and in each replay the solver calls the program of the equations and that of their Jacobian.
If the outcome differs from the recorded one, by a branch of the equations or for lack of convergence, the replay fails
like a guard, and the function is recorded again or runs eagerly.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection
from contextlib import nullcontext
from typing import Any

import numpy as np

from wengert.core.levels import caught, outside, running, within
from wengert.core.operands import var
from wengert.errors import (
    ConvergenceError,
    GuardError,
    SingularJacobianError,
    TracedValueError,
    UnsupportedFunctionError,
)
from wengert.features import quietly
from wengert.implicit.factors import Diagonal, Matrix, Sparse
from wengert.implicit.theorem import LIMITS, Equations, settle, weights
from wengert.program.derivatives import NotDerivable
from wengert.program.implicit_op import Paths, Settled, Solution, settled_row, shaped, solution_row
from wengert.program.ir.call import Call, Operand
from wengert.program.ir.ir import Listing, c_strides, dependent, kind_of, operands
from wengert.program.ir.opcodes import Op
from wengert.program.ir.verify import check_fields, expect, is_a, is_shape
from wengert.program.passes import pipeline
from wengert.program.program import Program
from wengert.program.roots.batched import batched_call, unsolved
from wengert.program.signature import Form, Result, Slot
from wengert.program.tracing.refusals import NotHere, NotReplayable
from wengert.program.tracing.trace import recording

__all__ = ["NotConverged", "Part", "recorded", "sliced"]

#: relative Newton correction below which the result counts as a solution although the solver reports failure
CONVERGED_CORRECTION = 1e-6

#: maximum number of unknowns in a program: with a dense Jacobian, and with a solver that can use a sparse one
MAX_UNKNOWNS, MAX_SPARSE_UNKNOWNS = 500, 100_000

_FLOAT, _COMPLEX = np.dtype(float), np.dtype(complex)
_INCLUDED_OPS = {Op.CONST, Op.ARRAY, Op.LOAD, Op.VIEW}


class Solved(Solution):
    """Call of a solver, ``solve(value, slopes, *starts)``, which can be pickled.

    It returns the solution and the outcome that each replay must reproduce.
    """

    def __init__(self, solve: Callable, paths: Paths, shape: tuple, first: int, name: str):
        super().__init__(paths, shape, first, name)
        self.solve = solve
        self.outcome: Any = None

    @property
    def is_native(self) -> bool:
        """Whether the solver runs without Python."""
        return getattr(self.solve, "native", None) is not None

    def check_call(self, call, types, kind, verifier):
        check_fields(self, {"solve": lambda solve: callable(solve) or callable(getattr(solve, "native", None))})
        super().check_call(call, types, kind, verifier)

    def __call__(self, *arguments):
        if self.is_native:
            found = self.natively(self.solve.native, arguments)
            if found is not None:
                return self.ended(*found)
        failed: list = []
        bound = self.paths.take(arguments[self.first :])
        value, slopes = _kept(bound.evaluated, failed), _kept(bound.differentiated, failed)
        with outside() if running.get() else nullcontext():
            try:
                x, outcome = self.solve(value, slopes, *arguments[: self.first])
            except Exception:
                if not failed:
                    raise
        if failed:
            raise failed[0]
        self.paths.give(bound)
        return self.ended(x, outcome)

    def natively(self, native, arguments):
        """Run a solver that calls the programs without Python; return the solution and the outcome."""
        bound = self.paths.take(arguments[self.first :])
        found = _alone(native, bound, *arguments[: self.first])
        self.paths.give(bound)
        return found

    def ended(self, x, outcome):
        """Return the solution, after checking that the solver has ended as in the recording."""
        if self.outcome is None:
            self.outcome = outcome
        elif outcome != self.outcome:
            raise OtherOutcome(self.name, outcome, self.outcome)
        return shaped(x, self.shape)

    # -- many systems

    def batched(self, call, is_batched, count):
        """Return the IR of the solutions at many points; see `wengert.program.passes.batching`."""
        shapes = self.operand_shapes(call.args, [*[self.shape] * self.first, *self.paths.systems()[0].shapes[1:]])
        return batched_call(self, solution_row, call, shapes, self.shape, is_batched, count)

    def examples(self, call):
        """Return values of the result and the operands, for tracing."""
        return self.operand_examples(call.args, self.first)

    def many(self, count, *arguments):
        """Return the solutions at many points; a `ConvergenceError` names those at which the solver fails."""
        starts, leaves = arguments[: self.first], arguments[self.first :]
        found, failures, rest = np.empty((count, *self.shape)), [], range(count)
        side_by_side = getattr(self.solve, "native_many", None)
        if side_by_side is not None and (self.outcome is None or self.outcome[0]):
            solved = _alone(side_by_side, self.paths, count, starts, leaves)
            if solved is not None:
                x, failures, *others = solved
                found, rest = x.reshape(count, *self.shape), others[0] if others else ()
        shapes = [*[self.shape] * self.first, *self.paths.systems()[0].shapes[1:]]
        given = [x if np.ndim(x) > len(shape) else None for x, shape in zip(arguments, shapes)]
        for k in rest:
            try:
                found[k] = self(*(one if many is None else many[k] for one, many in zip(arguments, given)))
            except OtherOutcome as error:
                failures.append((k, str(error.outcome[-1])))
            except (NotConverged, ValueError) as error:  # SciPy's error for a bracket without a change of sign
                failures.append((k, str(error)))
        self.check_members(count, failures)
        return found

    def check_members(self, count, outcomes):
        """Raise unless the solver ended as in the recording; `outcomes` has pairs of index and outcome or message."""
        failures = [(k, x if type(x) is str else str(x[-1])) for k, x in outcomes if x != self.outcome]
        if failures:
            raise unsolved(self.name, count, failures)


class OtherOutcome(GuardError):
    """A solver ended in another way than in the recording."""

    def __init__(self, name, outcome, recorded):
        super().__init__(f"{name} ended with {outcome}, not {recorded} as recorded")
        self.outcome = outcome


class NotConverged(GuardError):
    """A solver that reports no outcome did not converge."""


def _alone(run, *arguments):
    """Call a function that runs programs where no derivative is running, without floating-point warnings."""
    if not running.get():
        return quietly(run, *arguments)
    with outside():
        return quietly(run, *arguments)


def _kept(f, failed):
    """Wrap a function to remember its exceptions, since compiled code may raise others instead."""

    def kept(x):
        try:
            return f(x)
        except BaseException as error:
            failed.append(error)
            raise

    return kept


class SettledAndChecked(Settled):
    """Newton steps from the solution to the point where the derivative is taken, with all checks of a derivative."""

    def __init__(self, solution: Solved, polish: Any):
        self.solution, self.shape, self.polish = solution, solution.shape, polish
        self.__name__ = self.__qualname__ = f"settled({solution.name})"

    def check_call(self, call, types, kind, verifier):
        check_fields(self, {"solution": is_a(Solution), "shape": is_shape})
        super().check_call(call, types, kind, verifier)
        expect(self.solution.shape == self.shape, "is the point of another solution")
        self.solution.check_leaves(call.args[1:], types, verifier)

    def batched(self, call, is_batched, count):
        """Return the IR of the points of many solutions; see `wengert.program.passes.batching`."""
        shapes = self.solution.operand_shapes(call.args, self.solution.paths.systems()[0].shapes)
        return batched_call(self, settled_row, call, shapes, self.shape, is_batched, count)

    def examples(self, call):
        return self.solution.operand_examples(call.args, 1)

    def many(self, count, *arguments):
        found, is_found = self.side_by_side(count, *arguments)
        shapes = self.solution.paths.systems()[0].shapes
        given = [[x] * count if np.ndim(x) == len(shape) else x for x, shape in zip(arguments, shapes)]
        for k in np.flatnonzero(~is_found).tolist():
            try:
                found[k] = self(*[x[k] for x in given])
            except GuardError as error:
                raise GuardError(f"element {k} of a batch of {count}: {error}") from None
        return found

    def side_by_side(self, count, x, *leaves):
        """Return the points of many small solutions, and which of them have passed all checks."""
        found, accepted = np.empty((count, *self.shape)), np.zeros(count, bool)
        system = self.solution.paths.systems()[0]
        differs, rows, shared = system.arranged(count, x, leaves)
        lanes = system.lanes(differs, count)
        if lanes is not None:
            limits = self.polish, LIMITS, weights((system.linear.n,))
            if quietly(lanes.check, system.dense[1], rows, shared, *limits, found.reshape(count, -1), accepted):
                system.give(lanes, differs)
            else:  # the systems take different branches
                accepted[:] = False
        return found, accepted

    def __call__(self, x, *leaves):
        bound = self.solution.paths.take(leaves)
        found = _alone(bound.settled, x, self.polish, LIMITS, weights((bound.n,)))
        self.solution.paths.give(bound)
        if found is not None:
            return found[0].reshape(self.shape)[()]
        value, slopes = self.solution.functions(leaves)
        if len(weights((bound.n,))) > MAX_UNKNOWNS:
            slopes = functools.partial(self.sparse_slopes, leaves)
        equations = Recorded(value, slopes, self.shape, self.solution.name)
        with outside() if running.get() else nullcontext():
            x = np.asarray(x, dtype=float)[()]
            try:
                point = settle(equations, x, "raise", "raise", self.polish)
            except (ConvergenceError, SingularJacobianError) as error:
                raise GuardError(str(error)) from None
        if not (self.solution.outcome[0] or point.correction <= CONVERGED_CORRECTION):
            raise GuardError(f"{self.solution.name}: the solver has not converged")
        return np.array(point.at)[()]

    def sparse_slopes(self, leaves, x):
        from scipy.sparse import csc_array

        bound = self.solution.paths.take(leaves)
        data, linear = bound.nonzeros(x)
        self.solution.paths.give(bound)
        return csc_array((data, (linear.rows, linear.columns)), (linear.n, linear.n))


class Recorded(Equations):
    """Equations and their Jacobian, given as functions of plain values."""

    keeps_factor = True

    def __init__(self, value: Callable, slopes: Callable, shape: tuple, name: str):
        self.residual, self.slopes, self.shape, self.name = value, slopes, shape, name
        self.n = int(np.prod(shape, dtype=int))
        self.symmetric, self.elementwise = False, shape == ()

    def value(self, x):
        y = self.residual(x)
        return y if self.shape else np.float64(y)

    def linearised(self, x):
        slopes = self.slopes(x)
        if hasattr(slopes, "tocsc"):
            return self.value(x), Sparse(slopes)
        factor = Diagonal(slopes) if self.elementwise else Matrix(np.reshape(slopes, (self.n, self.n)))
        return self.value(x), factor


def recorded(solve: Callable, equations: Callable, starts: tuple, name: str, shape: tuple, polish: Any) -> tuple:
    """Append an instruction to the recording that solves ``equations(x) = 0`` by `solve`, a solver as in `Solved`.

    `equations` maps an array of the given shape, or a scalar, to the same, and may read traced values; the starts are
    scalars and arrays of that shape, possibly traced. `name` names the function in error messages, and `polish` is as
    for `wengert.implicit.root`.

    It returns the solution, which is traced unless no recorded value is read, and the outcome.
    """
    most = MAX_SPARSE_UNKNOWNS if getattr(solve, "takes_sparse", False) else MAX_UNKNOWNS
    if not 0 < np.prod(shape, dtype=int) <= most:
        raise NotReplayable(f"{name} has no unknowns, or more than {most}: such a solver cannot be recorded")
    if any(np.iscomplexobj(var.plain(x)) or (np.ndim(x) and not shape) for x in starts):
        raise NotReplayable(
            f"{name} starts at a complex value, or at an array for a scalar: such a solver cannot be recorded"
        )
    around = recording.get()
    begin = [_plain_float(var.plain(x)) for x in starts]
    slices = _Slices(around, equations, shape, name)
    paths = Paths(slices.program)
    slices.paths = paths
    paths.more([shaped(begin[0], shape)])
    if np.prod(shape, dtype=int) > MAX_UNKNOWNS:
        try:
            paths.systems()
        except NotDerivable as error:
            raise NotReplayable(f"{name}: {error}") from None
    solution = Solved(solve, paths, shape, len(starts), name)
    try:
        x = slices.evaluated(solution, begin)
    except GuardError as error:
        raise _unsolved(f"{name}: {error}") from None
    except (NotDerivable, UnsupportedFunctionError) as error:
        raise _NotTraceable(f"{name}: {error}") from error
    is_found = solution.outcome[0]
    settled = SettledAndChecked(solution, polish)
    with caught(Exception) as failure:  # reported when the derivative of f is taken
        z = slices.evaluated(settled, [x])
    if failure.error is None:
        solution.path = paths.number([z, *slices.leaf_values()])
        solution.settled = settled
    elif not is_found:
        raise _unsolved(f"{name} does not converge here")
    else:
        solution.refusal = str(failure.error)
    paths.record = None
    return slices.operand(solution, starts, begin, x), solution.outcome


def _unsolved(message):
    """Return the exception for a call that cannot be recorded since the solver fails here."""
    error = NotHere(message)
    error.is_unsolved = True
    return error


class _Slices:
    """Slices of the recorded IR: the values that depend on an unknown of the equations, and their operands.

    There is one slice per path through the branches. The values that a slice reads from before it are its leaves.
    """

    def __init__(self, around, equations, shape, name):
        self.around, self.equations, self.shape, self.name = around, equations, shape, name
        self.recorders = running.get()
        self.leaves: list[int] = []
        self.parts: list[tuple] = []
        self.paths: Any = None

    def leaf_values(self):
        return [_plain_float(self.around.value(v)) for v in self.leaves]

    def evaluated(self, call, first):
        """Evaluate a call at plain values; repeat it if another path adds leaves."""
        while True:
            try:
                return np.array(call(*first, *self.leaf_values()))[()]
            except _MoreLeaves:
                pass

    def program(self, inputs):
        """Trace the equations at the unknowns `inputs[0]` and return the program of this path."""
        x = inputs[0]
        with within(self.recorders):
            part = sliced(self.around, self.equations, x, self.shape, self.name)
        self.parts.append((x, part))
        known, self.leaves = self.leaves, sorted({*self.leaves, *part.leaves})
        if self.leaves == known or len(self.parts) == 1:
            return self.made(x, part)
        self.paths.programs[:] = [self.made(*each) for each in self.parts]
        raise _MoreLeaves

    def made(self, x, part):
        leaves = self.leaf_values()
        for k, leaf in enumerate(leaves):
            if not isinstance(leaf, np.ndarray):
                leaves[k] = np.float64(leaf)
        listing = part.listing(self.around.code.listing, self.leaves)
        return program_of(self.around, self.name, listing, (x, *leaves))

    def operand(self, solution, starts, begin, x):
        """Append the call to the recording as an instruction and return its result."""
        code = self.around.code
        values, args = [], []
        code.run()
        for start, number in zip(starts, begin):
            args.append(Operand(len(values)) if var.is_traced(start) else number)
            values += [code.output(start)] if var.is_traced(start) else []
        args += [Operand(len(values) + k) for k in range(len(self.leaves))]
        values += self.leaves
        if not values:
            return x
        call = Call(solution, tuple(args), {}, values, solution_row)
        return self.around.called(call, (_FLOAT, self.shape, None), np.float64(x) if not self.shape else x)


def program_of(around: Any, name: str, listing: Listing, inputs: tuple) -> Program:
    """Return the program of an IR that was traced within a recording, with the options of the recording."""
    listing = pipeline.run("trace", listing, pipeline.Options(around.exact, disabled=around.disabled)).code
    made = Program(name, listing, Form(inputs, {}), Result(Slot(0)), around.exact, [*inputs])
    made._disabled = around.disabled
    return made


def sliced(
    around: Any, f: Callable, x: Any, shape: tuple, name: str, takes_complex: bool = False, known: Collection = ()
) -> Part:
    """Trace `f` at a new unknown of a recording, and return the slice that computes its result, of the given shape.

    `f` maps the unknown, whose value is `x`, to an array or a scalar, and may read traced values, complex ones with
    `takes_complex`. The slice reads the `known` values instead of computing them from others by views. `name` names
    the function in error messages.
    """
    code = around.code
    code.run()
    start = len(code.listing)
    try:
        r = var.as_numpy(f(around.unknown(x.copy() if np.ndim(x) else np.float64(x))))
    except (TracedValueError, UnsupportedFunctionError) as error:
        raise _NotTraceable(f"{name}: {error}") from error
    code.run()
    if not var.is_traced(r) or np.shape(r) != shape or r.dtype != np.float64:
        raise NotReplayable(f"{name}: the equations must be as many float64 values as there are unknowns")
    return Part(code.listing, start, code.output(r), around.unknowns, takes_complex, known)


class _MoreLeaves(BaseException):
    """Raised when a slice has more leaves than the running call was given; solvers do not catch a BaseException."""


class Part:
    """A slice of the IR: the instructions that compute one value from one unknown and earlier values.

    Constants, views and values that are not floats are included, so all leaves are arrays of floats, or of complex
    numbers if the slice takes these.
    """

    def __init__(self, code, start, out, unknowns, takes_complex=False, known=()):
        dtypes = (_FLOAT, _COMPLEX) if takes_complex else (_FLOAT,)
        depends = dependent(code, [start], start)
        others = [v for v in unknowns if v > start]  # unknowns of nested solvers
        if others:
            depends &= ~dependent(code, others, start)
        op = code.op
        guards = [i for i in range(start, len(code)) if op[i] == Op.GUARD and depends[i]]
        self.start, self.out = start, out
        needed: set = set()
        leaves: set = set()
        todo = [out, *guards]
        while todo:
            v = todo.pop()
            if v in needed or v in leaves:
                continue
            if v in known or (v < start and op[v] not in _INCLUDED_OPS and kind_of(code, v)[0] in dtypes):
                leaves.add(v)
            elif op[v] == Op.INPUT and v != start:
                raise NotReplayable("the equations read values other than float64, or unknowns of other equations")
            else:
                needed.add(v)
                todo += operands(code, v)
        self.which, self.leaves = sorted(needed - {start}), sorted(leaves)

    def listing(self, code, leaves):
        """Return the slice as an IR whose inputs are the unknowns and all leaves."""
        found = Listing()
        types = [kind_of(code, v) for v in (self.start, *leaves)]
        found.inputs = [found.add(Op.INPUT, (type[0], type[1], None), k) for k, type in enumerate(types)]
        return self.appended_to(found, code, leaves, found.inputs)

    def joined(self, code, leaves):
        """Return the IR of the slice; its inputs are an array of the unknowns and all leaves, complex ones as pairs."""
        found, place = Listing(), 0
        types = [kind_of(code, v)[:2] for v in (self.start, *leaves)]
        count = sum(math.prod(shape) * (dtype.itemsize // 8) for dtype, shape in types)
        x = found.add(Op.INPUT, (_FLOAT, (count,), None), 0)
        found.inputs, given = [x], []
        for dtype, shape in types:
            own = (*shape, 2) if dtype == _COMPLEX else shape
            v = found.part(x, (8 * place, own, c_strides(own, 8)), _FLOAT)
            if dtype == _COMPLEX:  # through an aligned copy
                v = found.place(-1, (0, own, c_strides(own, 8)), v, (_FLOAT, own, None))
                v = found.part(v, (0, shape, c_strides(shape, 16)), _COMPLEX)
            given.append(v)
            place += math.prod(own)
        return self.appended_to(found, code, leaves, given)

    def appended_to(self, found, code, leaves, given):
        """Append the slice to an IR in which `given` are the unknowns and the leaves."""
        of = np.full(len(code), -1, dtype=np.int32)
        for v, made in zip((self.start, *leaves), given):
            dtype, shape, strides = kind_of(code, v)
            if strides is not None and shape:
                made = found.place(-1, _whole(shape, strides), made, (dtype, shape, strides))
            of[v] = made
        found.take(code, np.array(self.which, dtype=np.int32), of)
        found.outputs = [int(of[self.out])]
        return found


def _whole(shape, strides):
    """Return the view descriptor (offset, shape, strides) that covers a whole array with these strides."""
    return sum(-(n - 1) * s for n, s in zip(shape, strides) if s < 0), shape, strides


class _NotTraceable(TracedValueError):
    """The equations accept plain values only; f runs eagerly unless it can be traced with some inputs held constant."""

    runs_as_it_is = True


def _plain_float(x):
    """Return a scalar, or a copy of an array in C order."""
    return np.array(x, dtype=float, order="C")[()]
