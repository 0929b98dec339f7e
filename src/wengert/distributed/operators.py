"""Jacobians, Hessians and batches whose directions, rows or elements are divided among workers: ``workers=``.

A Jacobian is divided into blocks of `COLUMNS` directions or `ROWS` rows, whatever the number of workers, so that its
bits do not depend on that number. Each block evaluates f again. The first call with arguments of new shapes measures
one evaluation of f; if workers are not estimated to be faster, the ordinary operator computes the derivative.
"""

from __future__ import annotations

import concurrent.futures
import math
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wengert.containers import children_of, input_leaf, output_leaf, plain_copy
from wengert.core.levels import running
from wengert.distributed.blas import one_blas_thread
from wengert.distributed.engines import Engine, Here, Submitted, cores, engine_of
from wengert.errors import ConvergenceError
from wengert.program.specialise.compiled import Compiled
from wengert.transforms.batch import Elements, Mapped
from wengert.transforms.costs import COSTS, forward_cost, is_forward, reverse_cost
from wengert.transforms.dense import JVP, VJP, Jacobian
from wengert.transforms.second import HVP, Hessian

#: directions and rows of a block; a block of rows must be wider, because it records f again
COLUMNS, ROWS = 32, 128

#: blocks of a batch per worker: several balance the load if some elements take longer than others
BLOCKS_PER_WORKER = 4

#: overheads in seconds: start of processes of our own, and a task in a thread and in a process
#: (``python -m benchmarks.distributed`` measures them)
START, IN_THREAD, IN_PROCESS = 2.0, 2e-4, 1e-3

#: bytes per second of pickled arguments and results
BYTES_PER_SECOND = 5e8

#: workers are used if they are estimated to take at most this part of the time
MAX_RELATIVE_TIME = 0.8


#: plans that an operator keeps, for arguments of different shapes
MAX_PLANS = 64


class WorkerPlan(NamedTuple):
    """How a call was divided among workers; `wengert.explain` prints it."""

    mode: str  # "forward" or "reverse"; "batch" for vmap
    blocks: int
    workers: int  # 0 if the blocks were computed in the calling thread
    seconds_here: float  # estimated time in the calling thread
    seconds_there: float  # estimated time with the workers
    reason: str


class Block:
    """Computes blocks of a derivative: products with some of the unit vectors."""

    def __init__(self, kind: str, f: Callable, argnums: int, shape: tuple, args: tuple, kwargs: dict):
        self.kind, self.f, self.argnums, self.shape, self.args, self.kwargs = kind, f, argnums, shape, args, kwargs

    def run(self, first: int, last: int) -> np.ndarray:
        """Return the products with the unit vectors `first` to `last`."""
        seeds = np.zeros((last - first, math.prod(self.shape)))
        seeds[range(last - first), range(first, last)] = 1.0
        seeds = np.reshape(seeds, (-1, *self.shape))
        x, *others = self.args
        with one_blas_thread():
            if self.kind == "rows":
                return VJP(_plain(self.f), self.argnums)(x, *others, **self.kwargs)[1](seeds)
            word = HVP if self.kind == "hessian" else JVP
            f, is_compiled = self.f, isinstance(self.f, Compiled)
            product = f.__wengert__(word, (self.argnums,)) if is_compiled else word(f, self.argnums)
            found = product(x, seeds, *others, **self.kwargs)
            return found if self.kind == "hessian" else found[1]


def _plain(f):
    return f.f if isinstance(f, Compiled) else f


def engine_for(f: Callable, workers: Any, name: str, runs_programs: bool = False) -> Engine:
    """Return the engine for an operator; threads if it runs programs, which do not need the interpreter."""
    runs_programs = runs_programs or isinstance(f, Compiled)
    if runs_programs and isinstance(workers, int) and not isinstance(workers, bool) and workers not in (0, 1):
        count = cores() if workers == -1 else workers
        if count > 1:
            return Threads(count)
    return engine_of(workers, name)


class Threads(Submitted):
    """Runs tasks on our own thread pool."""

    def __init__(self, count: int):
        super().__init__(concurrent.futures.ThreadPoolExecutor(count, "wengert"))
        self._count = count

    def close(self):
        self.executor.shutdown()
        self.executor = concurrent.futures.ThreadPoolExecutor(self._count, "wengert")


def choose(engine: Engine, here: float, tasks: int, nbytes: int) -> tuple[bool, float, str]:
    """Return whether to use the workers, the estimated time with them, and the reason."""
    if tasks < 2 or isinstance(engine, Here):
        return False, here, "one block" if tasks < 2 else "no workers"
    rounds = -(-tasks // engine.count) / tasks
    each = IN_THREAD if engine.is_local else IN_PROCESS
    moved = 0.0 if engine.is_local else nbytes / BYTES_PER_SECOND
    there = here * rounds + tasks * each + moved + (0.0 if engine.is_started else START)
    if there > MAX_RELATIVE_TIME * here:
        return False, there, "workers would not be faster"
    return True, there, "lower estimated time"


class _WithEngine:
    """Base class of operators on workers: `wengert.explain` and `close`."""

    def explained(self, args, kwargs, measure):
        self(*args, **kwargs)
        return Report(self.name, self.plan)

    def close(self) -> None:
        """End the workers that were started for this operator."""
        self.engine.close()


class _OnWorkers(_WithEngine):
    """Base class of Jacobians and Hessians on workers."""

    public = ("close", "fun", "plan")

    def _divided(self, engine: Engine):
        if self.has_aux or not self._single or self.holomorphic:
            raise ValueError(f"{self.word}: workers= needs a single argnums, and neither has_aux nor holomorphic")
        self.engine = engine
        self.plan: WorkerPlan | None = None
        self._plans: dict[tuple, tuple] = {}  # by shapes: the plan, the shape of the result, and the blocks

    @property
    def fun(self):
        """The function itself."""
        return self.f

    @property
    def _undivided(self):
        """The same derivative without workers."""
        cls, options = self.__reduce__()
        return self.f.__wengert__(cls, options[1:]) if isinstance(self.f, Compiled) else cls(*options)

    def __call__(self, *args, out=None, **kwargs):
        if running.get():  # within another derivative
            return self._undivided(*args, **kwargs)
        position = self.positions(args)[0] % len(args)
        if children_of(args[position]) is not None:
            raise TypeError(f"{self.name}: workers= needs an array as argument: see wengert.ravel for containers")
        x = input_leaf(args[position], self.name)
        args = (*args[:position], x, *args[position + 1 :])
        key = tuple(map(_shape_or_type, (*args, *kwargs.values())))
        if key not in self._plans:
            if len(self._plans) == MAX_PLANS:
                del self._plans[next(iter(self._plans))]
            self._plans[key] = self._planned(x, args, kwargs)
        self.plan, shape, kind, ends = self._plans[key]
        if not self.plan.workers:
            return self._undivided(*args, **({} if out is None else {"out": out}), **kwargs)
        size = x.shape if kind != "rows" else shape
        block = Block(kind, self.f if self.engine.is_local else _plain(self.f), self.argnums, size, args, kwargs)
        parts = np.concatenate(self.engine.in_order(block, ends, self.name))
        found = self._assembled(parts, kind, shape, x.shape)
        if out is not None:
            if np.shape(out) != np.shape(found):
                raise ValueError(f"{self.name}: out= has shape {np.shape(out)}, the result has shape {np.shape(found)}")
            out[...] = found
            found = out
        return (self.f(*plain_copy(args), **plain_copy(kwargs)), found) if self.with_value else found

    def _planned(self, x, args, kwargs):
        """Make the plan for arguments of these shapes, from the time of one evaluation of f."""
        self.f(*plain_copy(args), **plain_copy(kwargs))  # a compiled function is recorded here, not timed
        start = time.perf_counter()
        y = self.f(*plain_copy(args), **plain_copy(kwargs))
        seconds = time.perf_counter() - start
        if children_of(y) is not None:
            raise TypeError(f"{self.name}: workers= needs an array as result, not a {type(y).__name__}")
        y = output_leaf(y, self.name)
        mode, kind, size, cost, width = self._choice(x, y)
        width = self.chunk or width
        ends = [(first, min(first + width, size)) for first in range(0, size, width)]
        nbytes = 8 * size * (np.size(x) if kind != "columns" else np.size(y))
        nbytes += len(ends) * sum(each.nbytes for each in args if isinstance(each, np.ndarray))
        here = seconds * cost
        uses, there, reason = choose(self.engine, here, len(ends), nbytes)
        if uses and kind == "rows" and isinstance(self.f, Compiled) and self.engine.is_local:
            uses, reason = False, "the rows of a compiled function are one program"
        plan = WorkerPlan(mode, len(ends), self.engine.count if uses else 0, here, there, reason)
        return plan, np.shape(y), kind, ends


def _shape_or_type(x):
    return (x.shape, x.dtype) if isinstance(x, (np.ndarray, np.generic)) else type(x)


class JacobianOnWorkers(_OnWorkers, Jacobian):
    """Jacobian of a function whose columns or rows are divided among workers; takes the arguments of the function.

    Its `plan` has the blocks, workers and estimated times of the last call.
    """

    def __init__(self, f, argnums, value, has_aux, chunk, mode, holomorphic, engine):
        Jacobian.__init__(self, f, argnums, value, has_aux, chunk, mode, holomorphic)
        self._divided(engine)

    def __reduce__(self):  # without the engine, which is never sent
        return Jacobian, super().__reduce__()[1]

    def _choice(self, x, y):
        n, m = np.size(x), np.size(y)
        by_columns = self.mode == "forward" or (self.mode == "auto" and is_forward(n, m, COLUMNS))
        if by_columns:
            return "forward", "columns", n, forward_cost(n, COLUMNS), COLUMNS
        return "reverse", "rows", m, reverse_cost(m, ROWS) + COSTS.record * -(-m // ROWS), ROWS

    def _assembled(self, parts, kind, y_shape, x_shape):
        parts = np.moveaxis(parts, 0, -1) if kind == "columns" else parts
        return np.ascontiguousarray(np.reshape(parts, (*y_shape, *x_shape)))


class HessianOnWorkers(_OnWorkers, Hessian):
    """Hessian of a function whose columns are divided among workers; takes the arguments of the function.

    Its `plan` has the blocks, workers and estimated times of the last call.
    """

    def __init__(self, f, argnums, value, has_aux, chunk, mode, engine):
        Hessian.__init__(self, f, argnums, value, has_aux, chunk, mode)
        if mode not in ("auto", "mixed"):
            raise ValueError("hessian: workers= computes products with directions: mode is 'auto' or 'mixed'")
        self._divided(engine)

    def __reduce__(self):
        return Hessian, super().__reduce__()[1]

    def _choice(self, x, y):
        if np.ndim(y):
            raise TypeError(
                f"{self.name}: the function must return a single number, its output has shape {np.shape(y)}"
            )
        n = np.size(x)
        cost = -(-n // COLUMNS) * (COSTS.record + COSTS.sweep) + n * (COSTS.column + COSTS.row)
        return "mixed", "hessian", n, cost, COLUMNS

    def _assembled(self, parts, kind, y_shape, x_shape):
        matrix = np.reshape(parts, (len(parts), -1))
        return np.reshape(0.5 * (matrix + matrix.T), x_shape * 2)


class Batch:
    """Evaluates parts of a batch."""

    def __init__(self, f: Mapped, kwargs: dict):
        self.f, self.kwargs = f, kwargs

    def run(self, start: int, *args: Any) -> Any:
        """Return the results for some elements, the first of which has the index `start`."""
        with one_blas_thread():
            try:
                return self.f(*args, **self.kwargs)
            except ConvergenceError as error:
                if error.elements is None or not start:
                    raise
                shifted = ConvergenceError(f"among the elements from {start} on, counted from there: {error}")
                shifted.elements = error.elements + start
                raise shifted from None


class MappedOnWorkers(_WithEngine, Mapped):
    """A function vectorised over a batch axis that is divided among workers; takes its arguments, with that axis."""

    public = ("close", "plan")

    def __init__(self, f: Callable, in_axes: Any, out_axes: Any, engine: Engine):
        super().__init__(f, in_axes, out_axes)
        self.engine = engine
        self.plan: WorkerPlan | None = None
        self._undivided = Mapped(f, in_axes, out_axes)

    def __reduce__(self):
        return Mapped, (self.f, self.in_axes, self.out_axes)

    def __call__(self, *args, **kwargs):
        if running.get():  # within a derivative
            return self._undivided(*args, **kwargs)
        elements, engine = Elements(self, args), self.engine
        size = elements.size
        width = max(1, size // (BLOCKS_PER_WORKER * engine.count))
        ends = [(first, min(first + width, size)) for first in range(0, size, width)]
        if len(ends) == 1:
            return self._undivided(*args, **kwargs)
        block = Batch(self._undivided, kwargs)
        start = time.perf_counter()
        first = block.run(0, *elements.part(*ends[0]))
        here = (time.perf_counter() - start) * len(ends)
        nbytes = sum(each.nbytes for each in args if isinstance(each, np.ndarray))
        uses, there, reason = choose(engine, here, len(ends), nbytes)
        self.plan = WorkerPlan("batch", len(ends), engine.count if uses else 0, here, there, reason)
        if not uses:
            return self.joined([first, block.run(width, *elements.part(width, size))])
        others = ((each[0], *elements.part(*each)) for each in ends[1:])
        return self.joined([first, *engine.in_order(block, others, self.name)])


class Report:
    """Result of `wengert.explain`; its ``repr`` is a report."""

    def __init__(self, name: str, plan: WorkerPlan | None):
        self.name, self.plan = name, plan

    def __repr__(self):
        plan = self.plan
        if plan is None:
            return f"{self.name}: one element, no workers"
        where = f"{plan.workers} workers" if plan.workers else "this thread"
        return (
            f"{self.name}: {plan.blocks} blocks in {where}\n"
            f"  mode    {plan.mode}\n"
            f"  reason  {plan.reason}\n"
            f"  cost    {plan.seconds_here:.3g} s here, {plan.seconds_there:.3g} s with workers (estimated)"
        )
