"""Sparse derivatives whose products with the seeds of a colouring are divided among workers: ``workers=``.

Input: a function, and an engine. Output: a `SparseDerivative` that computes batches of seeds in the workers. Batches
have at most `wengert.sparse.programs.MAX_SHARED_WIDTH` seeds whatever the number of workers, which thus does not affect
the bits. Derivatives that are accumulated directly take one sweep, which is not divided.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

from wengert.distributed import operators
from wengert.distributed.blas import one_blas_thread
from wengert.distributed.engines import Engine
from wengert.distributed.operators import WorkerPlan
from wengert.sparse.drivers import SparseDerivative
from wengert.sparse.programs import Compressed


class Batches:
    """Computes products with the batches of seeds of a program."""

    def __init__(self, program: Compressed):
        self.program = program

    def run(self, number: int, leaves: list) -> list | int:
        """Return the products of a batch, or the index of the guard that failed."""
        with one_blas_thread():
            return self.program._run_batch(number, leaves, self.program._vm.attempt)


class SharedBatches:
    """The batches of seeds of one program, in this thread or in the workers, whichever was estimated to be faster."""

    def __init__(self, engine: Engine, program: Compressed):
        self.engine, self.kernel = engine, Batches(program)
        self.plan: WorkerPlan | None = None  # made by the second call, which is timed: the first one builds the VM
        self._is_built = False

    def outputs(self, leaves: list, run: Callable) -> list:
        """Return the outputs of all batches, up to the first one whose guard failed."""
        if self.plan is not None and self.plan.workers:
            given = ((number, leaves) for number in range(self.plan.blocks))
            found = self.engine.in_order(self.kernel, given, self.kernel.program._name)
            if not any(type(outputs) is int for outputs in found):
                return found
        start = time.perf_counter()
        found = []
        for number in range(self.kernel.program._chunks):
            found.append(self.kernel.program._run_batch(number, leaves, run))
            if type(found[-1]) is int:
                return found
        if self.plan is None and self._is_built:
            self.plan = self._planned(time.perf_counter() - start, leaves, found)
        self._is_built = True
        return found

    def _planned(self, here, leaves, found):
        nbytes = sum(outputs[0].nbytes for outputs in found)
        nbytes += len(found) * sum(getattr(leaf, "nbytes", 8) for leaf in leaves)
        uses, there, reason = operators.choose(self.engine, here, len(found), nbytes)
        mode = "reverse" if self.kernel.program._by_rows else "forward"
        return WorkerPlan(mode, len(found), self.engine.count if uses else 0, here, there, reason)


class SparseOnWorkers(SparseDerivative):
    """Sparse Jacobian or Hessian whose products with seeds are divided among workers; see `SparseDerivative`."""

    public = (*SparseDerivative.public, "close", "divisions")

    def __init__(self, *options, engine: Engine):
        super().__init__(*options)
        self.engine = engine
        self.replayed.f.share = functools.partial(SharedBatches, engine)

    def __reduce__(self):  # without the engine, which is never sent
        return SparseDerivative, super().__reduce__()[1]

    def compiled(self, fun: Callable) -> SparseOnWorkers:
        """Return the same derivative of the compiled function."""
        return SparseOnWorkers(fun, *self.__reduce__()[1][1:], engine=self.engine)

    @property
    def divisions(self) -> list[WorkerPlan]:
        """How the products of the last call were divided among workers."""
        if self._last is None or self._last.program is None:
            return []
        shared = [part._shared for part in compressed_parts(self._last.program)]
        return [each.plan for each in shared if each is not None and each.plan is not None]

    def explained(self, args: tuple, kwargs: dict, measure: bool) -> Any:
        """Return the explanation that `wengert.explain` prints."""
        found = super().explained(args, kwargs, measure)
        lines = [str(operators.Report(f"{each.mode} products", each)) for each in self.divisions]
        return dataclasses.replace(found, workers="\n".join(lines or ["no products to divide among workers"]))

    def close(self) -> None:
        """End the workers that were started for this operator."""
        self.engine.close()


def compressed_parts(program: Any) -> list[Compressed]:
    """Return the parts of a program that compute products with the seeds of a colouring."""
    if isinstance(program, Compressed):
        return [program]
    return [each for part in getattr(program, "_parts", ()) for each in compressed_parts(part)]
