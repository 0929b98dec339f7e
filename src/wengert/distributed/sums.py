"""Sums over chunks of data as one differentiable operation: the implementation of `wengert.distributed.sum_over`.

The sum is one entry of the tape, from a vector to a vector. Its derivatives are sums over the same chunks, of the
derivatives of the summand (`kernels`), so that they are differentiable in turn.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sized
from typing import Any

import numpy as np

from wengert import registry
from wengert.containers import input_leaf
from wengert.core.dispatch import dispatch
from wengert.core.levels import end_recording, is_recording, outside
from wengert.core.operands import var
from wengert.core.tape.tape import holds_complex
from wengert.distributed import workers as remote
from wengert.distributed.chunks import check_chunks, sendable
from wengert.distributed.engines import TASKS_PER_WORKER, Here, engine_of
from wengert.distributed.kernels import WITH_GRADIENT, Kernel, Steps, Structure, Sum, check_alike, flattened
from wengert.distributed.reduction import PairwiseSum
from wengert.program.program import Program
from wengert.program.specialise.compiled import Compiled
from wengert.progress import progress_bar
from wengert.transforms.series import Series

#: seconds of work that a task should contain; shorter chunks are sent several at a time
SECONDS_PER_TASK = 0.05

#: maximum number of chunks in a task
MAX_CHUNKS_PER_TASK = 1024


class Pace:
    """Size of tasks, estimated from earlier ones."""

    def __init__(self):
        self.chunks_per_task = 1
        self.sent: dict[str, int] = {}  # tasks that were sent with a kernel, by its key


class SumOver:
    """A sum over chunks, as a function of the parameters; made by `sum_over`.

    It may be used as a context manager, which ends the processes that were started for it.

    Attributes
    ----------
    f : callable
        The summand.
    chunks : iterable or callable
        The chunks.
    """

    def __init__(self, f: Callable, chunks: Any, workers: Any = None, progress: bool = False):
        self.f = f.f if isinstance(f, Compiled) else f
        self.chunks = chunks
        self.__name__ = self.__qualname__ = f"sum_over({getattr(f, '__name__', type(f).__name__)})"
        if not callable(f):
            raise TypeError(f"sum_over: expected a function, got {type(f).__name__}")
        check_chunks(chunks)
        self._is_compiled = isinstance(f, Compiled)
        self._engine = engine_of(workers, self.__name__)
        self._progress = progress
        self.pace = Pace()
        self._kernels: dict[Any, Any] = {}  # by structure of the parameters
        if not self._engine.is_local:
            self._kernel(Structure(0.0, np.asarray))  # raises if f cannot be sent

    def __repr__(self):
        return self.__name__

    def __reduce__(self):  # to be sent as part of another sum; engines are never sent
        return SumOver, (Compiled(self.f) if self._is_compiled else self.f, self.chunks)

    def __call__(self, theta: Any) -> Any:
        structure = Structure(theta, self._leaf)
        point = flattened(theta, self.__name__, lambda leaf, name: self._leaf(leaf))
        call = _Call(self, self._kernel(structure))
        vector = call.apply((), point)
        return call.structure.restore(vector)

    def _leaf(self, leaf):
        """Return an array of theta as a traced value or a plain array of floats."""
        if isinstance(leaf, Series):
            raise TypeError(
                f"{self} has no Taylor series: take wengert.jvp or wengert.derivative of it as often as needed, or sum "
                "the series of the summand: sum_over(lambda x, chunk: wengert.taylor(f, x, v, order, args=(chunk,)), "
                "chunks)"
            )
        if holds_complex(leaf):
            raise TypeError(f"{self} takes real numbers: pass real and imaginary parts as parts of theta")
        return input_leaf(leaf, self.__name__)

    @property
    def refusal(self) -> str:
        """Why the sum cannot be recorded."""
        return (
            f"{self} is computed chunk by chunk and cannot be recorded: compile the summand instead, "
            "sum_over(wengert.compile(f), chunks)"
        )

    def has_all(self, kernel: Any) -> bool:
        """Return whether the kernel has been sent so often that most workers hold it."""
        count = self.pace.sent.get(kernel.key, 0)
        self.pace.sent[kernel.key] = count + 1
        return count >= TASKS_PER_WORKER * self._engine.count

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def close(self) -> None:
        """End the processes that were started for this sum; another call starts them again."""
        self._engine.close()

    # -- evaluation

    def _kernel(self, structure):
        """Return the kernel for parameters of this structure, pickled if it is sent to other processes."""
        key = structure.content
        found = self._kernels.get(key)
        if found is None:
            f = self.f.tiered("vm") if isinstance(self.f, Program) else self.f
            found = Kernel(f, self.__name__, structure, self._is_compiled)
            if not self._engine.is_local:
                found = remote.packed(found, self.__name__)
            if len(self._kernels) == remote.MAX_KERNELS:
                del self._kernels[next(iter(self._kernels))]
            if key is not None:
                self._kernels[key] = found
        return found

    def sum(self, kernel: Any, steps: Steps, point: np.ndarray) -> Sum:
        """Return the sum over all chunks of a derivative of the summand, as a single node."""
        name, total = self.__name__, PairwiseSum()
        tasks = _Tasks(self, kernel, steps, point)
        of_first: tuple = (-1, None)  # number of the first chunk whose sum has arrived, and that sum
        with (
            progress_bar(self._progress, name, name, tasks.total, "chunk") as advance,
            contextlib.closing(self._engine.results(remote.run, tasks)) as results,
        ):
            for task, done in results:
                if isinstance(done, remote.Missing):
                    tasks.again.append(task._replace(kernel=kernel))
                    continue
                count = tasks.finished(task.number, done.seconds)
                if of_first[0] < 0:
                    of_first = task.number, done.result
                check_alike(name, *of_first, task.number, done.result)
                if task.number < of_first[0]:
                    of_first = task.number, done.result
                for node in done.result.nodes:
                    total.add(*node)
                advance(count)
        if of_first[0] < 0:
            raise ValueError(f"{name}: there are no chunks, so the shape of the result is unknown")
        return of_first[1]._replace(nodes=[(0, 0, total.total())])


class _Tasks:
    """Iterator over the tasks of a sum; a task that is appended to `again` is returned once more.

    The number of chunks in a task follows their measured time. It is a power of 2, and so is the position of the first
    one, so that the worker computes nodes of the same tree.
    """

    def __init__(self, owner: SumOver, kernel: Any, steps: Steps, point: np.ndarray):
        chunks = owner.chunks() if callable(owner.chunks) else owner.chunks
        self.owner, self.kernel, self.steps, self.point = owner, kernel, steps, point
        self.total = len(chunks) if isinstance(chunks, Sized) else None
        self.again: list = []
        self._chunks = iter(chunks)
        self._is_local = owner._engine.is_local
        self._start = 0
        self._counts: dict[int, int] = {}  # of tasks in flight, by their first chunk
        self._most = MAX_CHUNKS_PER_TASK
        if isinstance(owner._engine, Here):
            self._most = 1  # larger tasks gain nothing here, and hold more chunks in memory
        elif self.total is not None:
            self._most = max(1, min(self._most, self.total // (4 * TASKS_PER_WORKER * owner._engine.count)))

    def __iter__(self):
        return self

    def __next__(self):
        if self.again:
            return self.again.pop()
        start, most = self._start, min(self._most, self.owner.pace.chunks_per_task)
        count = 1 << (most.bit_length() - 1)
        if start:
            count = min(count, start & -start)
        chunks = [chunk for _, chunk in zip(range(count), self._chunks)]
        if not chunks:
            raise StopIteration
        self._start += len(chunks)
        self._counts[start] = len(chunks)
        kernel, arguments = self.kernel, (self.steps, self.point, start, chunks)
        if not self._is_local:
            arguments = self._pickled((*arguments[:3], [sendable(chunk) for chunk in chunks]), start)
            if self.owner.has_all(kernel):
                kernel = kernel._replace(content=None)
        return remote.Task(kernel, start, arguments)

    def _pickled(self, arguments, start):
        try:
            return remote.dumped(arguments, f"chunk {start} of {self.owner.__name__}")
        except TypeError as error:
            raise TypeError(f"{error}; a chunk may be a file, or a function that loads it in the worker") from error

    def finished(self, first: int, seconds: float) -> int:
        """Note the time that a task took, and return the number of its chunks."""
        count = self._counts.pop(first)
        self.owner.pace.chunks_per_task = max(1, int(SECONDS_PER_TASK / max(seconds / count, 1e-6)))
        return count


class _Call:
    """One call of a sum: it applies the sum and its derivatives to operands of any level.

    In reverse mode, the first evaluation returns the gradient with the value if the sum is a scalar.  That gradient is
    used for every first-order derivative, and as the value of the gradient in second-order derivatives.
    """

    def __init__(self, owner: SumOver, kernel: Any):
        self.owner, self.kernel = owner, kernel
        self.structure: Structure | None = None  # of the result
        self._is_swept = False  # whether a derivative in reverse mode is running
        self._known: tuple | None = None  # a point, and the gradient there

    def apply(self, steps: Steps, point: Any) -> Any:
        """Return the sum of a derivative of the summand, recorded if the point is traced."""
        if not var.is_traced(point):
            with outside():
                return self._evaluated(steps, var.plain(point))
        if is_recording():
            end_recording(self.owner.refusal, True)
        self._is_swept |= not var.level_of(point).is_forward

        def lowered(point):
            return self.apply(steps, point)

        return dispatch.apply(self._row(steps), lowered, (point,), {}, lowered)

    def _row(self, steps):
        """Return the derivative rule of the sum: its derivatives are sums at longer points."""

        def pull(cotangent, y, point):
            m, lead = np.size(y), np.shape(cotangent)[:-1]
            step = ("pull", math.prod(lead), m)
            longer = np.concatenate([point, np.reshape(cotangent, -1)])
            return np.reshape(self.apply((*steps, step), longer), (*lead, np.size(point)))

        def push(tangents, y, point):
            k = np.shape(tangents)[0]
            longer = np.concatenate([point, np.reshape(tangents, -1)])
            return np.reshape(self.apply((*steps, ("push", k, 0)), longer), (k, np.size(y)))

        return registry.Primitive(self.owner.__name__, "structural", vjps={0: pull}, jvps={0: push}, stacked=True)

    def _evaluated(self, steps, point):
        known = self._from_gradient(steps, point)
        if known is not None:
            return known
        if steps:
            return self.owner.sum(self.kernel, steps, point).nodes[0][2]
        found = self.owner.sum(self.kernel, WITH_GRADIENT if self._is_swept else (), point)
        vector, self.structure = found.nodes[0][2], found.structure
        if vector.size > found.size:
            self._known = np.copy(point), vector[1:]
        return vector[: found.size]

    def _from_gradient(self, steps, point):
        """Return a first-order derivative computed from the known gradient, or None."""
        if self._known is None or len(steps) != 1:
            return None
        at, gradient = self._known
        ((name, k, m),) = steps
        if not np.array_equal(point[: at.size], at):
            return None
        seeds = point[at.size :]
        if name == "pull" and m == 1:
            return _strong(seeds[:, None], gradient).ravel()
        if name == "push":
            return np.sum(_strong(np.reshape(seeds, (k, -1)), gradient), axis=1)
        return None


def _strong(factors, gradient):
    """Multiply with strong zero: a factor of 0 gives 0."""
    with np.errstate(invalid="ignore"):
        return np.where(factors == 0, 0.0, factors * gradient)


def sum_over(f: Callable, chunks: Any, *, workers: Any = None, progress: bool = False) -> SumOver:
    """Sum a function of parameters and data over chunks of the data, as a differentiable function of the parameters.

    The sum and its derivatives of every order are computed chunk by chunk, by workers if there are any. Transforms
    apply to it as to any function: `grad`, `value_and_grad`, `jacobian`, `hessian`, `hvp`, `jvp`, `vjp`, `linearize`.

    Parameters
    ----------
    f : callable
        ``f(theta, chunk)`` returns a scalar, an array, or a container of them, with the same shapes for all chunks.
        A compiled function is compiled in each worker. A `Program` is sent as it is.
    chunks : iterable, or function that returns one
        The chunks, in the order of the sum. A chunk is an array or a container of arrays; a callable without arguments
        or the name of an ``.npy``, ``.npz``, ``.zarr`` or ``.parquet`` file, which the worker loads; a Dask collection,
        which the worker computes; or any other object that pickles.
        Arrays mapped to a file are opened by the worker, not sent. Arrays in chunks are read-only for `f`.
    workers : int, executor or map-like callable, optional
        None: this process, one chunk after the other. A number: that many processes, which are started by the first
        call and kept; -1 starts one for each core. Otherwise an object with ``submit`` (an executor of
        `concurrent.futures`, ``loky`` or ``mpi4py``, a client of Dask), or a function like `map`, such as ``pool.map``.
    progress : bool
        Show a progress bar for each sum, which requires tqdm.

    Returns
    -------
    SumOver
        A function of `theta`, an array, a scalar or a container of real numbers. ``close()`` ends the processes that
        were started for it, as does leaving a ``with`` block.

    Raises
    ------
    TypeError
        If `chunks` is an iterator, which can be read only once, or if `f` or a chunk cannot be pickled for a worker.
    ValueError
        If results of `f` differ in shape, or there are no chunks.
    concurrent.futures.BrokenExecutor
        If the processes that were started for it died four times during one sum.

    See Also
    --------
    split_rows : Chunks of arrays.
    simulate : Cost of a sum on many workers.
    wengert.vmap : Evaluate many points.

    Notes
    -----
    Chunks are added pairwise in a fixed order. A chunk is computed with one BLAS thread, and compiled programs agree
    with `f` bit for bit. So on machines of one type, the bits of a result do not depend on the workers.

    In reverse mode the value and the gradient of a scalar sum take one pass over the chunks; a Hessian or a product
    with it takes a second one. The Jacobian of a vector takes one pass for each block of rows or columns.

    An error that `f` raises carries a note that names the chunk.
    Differentiated values must reach `f` through `theta`; a traced value that `f` reads from elsewhere raises an error.
    Processes read what `f` reads from outside when they start; they do not see later changes.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> from wengert.distributed import split_rows, sum_over
    >>> x = np.linspace(0.0, 1.0, 1000)
    >>> def loss_of_chunk(theta, chunk):
    ...     x, y = chunk
    ...     return np.sum((theta[0] + theta[1] * x - y) ** 2)
    >>> loss = sum_over(loss_of_chunk, split_rows(x, 2.0 - x, rows=100))
    >>> wg.grad(loss, [2.0, -1.0])
    array([0., 0.])
    >>> wg.hessian(loss, [0.0, 0.0]).round(3)
    array([[2000.   , 1000.   ],
           [1000.   ,  667.001]])
    """
    return SumOver(f, chunks, workers, progress)
