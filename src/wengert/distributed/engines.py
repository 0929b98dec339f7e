"""Engines: where tasks run, and how many of them at a time.

An engine is what ``workers=`` stands for: this process, a pool of our own, an object with ``submit``, as in
`concurrent.futures`, or a function like `map`. Each of them yields the results of tasks in any order, keeps a bounded
number of tasks in flight, and leaves no task behind when it is closed early.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import multiprocessing
import multiprocessing.pool
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from wengert.distributed import workers as remote

#: tasks in flight per worker: one runs and one waits, so that the worker is never idle
TASKS_PER_WORKER = 2

#: tasks that a function like `map` gets at once
TASKS_PER_MAP = 64

#: maximum number of restarts of our own pool in one sum before an error is raised
MAX_RESTARTS = 3


def engine_of(workers: Any, name: str) -> Engine:
    """Return the engine for the argument ``workers=``."""
    if isinstance(workers, Engine):
        return workers
    if workers is None or workers is map:
        return Here()
    if isinstance(workers, int) and not isinstance(workers, bool):
        if workers == 0 or workers < -1:
            raise ValueError(f"{name}: workers is a positive number, -1 for all cores, or a function like map")
        workers = cores() if workers == -1 else workers
        return Here() if workers == 1 else Processes(workers)
    if hasattr(workers, "get_executor"):  # a Dask client, which must not merge equal tasks
        workers = workers.get_executor(pure=False)
    if hasattr(workers, "submit"):
        return Submitted(workers)
    if callable(workers):
        return Mapped(workers)
    raise TypeError(
        f"{name}: workers is a number, an executor with submit(), or a function like map, not {type(workers).__name__}"
    )


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Engine:
    """Base class of engines, which run tasks."""

    #: whether tasks run in this process without pickling
    is_local = False

    #: number of workers, where it is known
    count = 1

    #: whether its workers have been started, or need no start
    is_started = True

    def results(self, run: Callable, tasks: Iterable) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of a task and ``run(task)``, in any order."""
        raise NotImplementedError

    def in_order(self, kernel: Any, arguments: Iterable[tuple], name: str) -> list:
        """Return ``kernel.run(*each)`` for each of the arguments, in their order."""
        sent = kernel if self.is_local else remote.packed(kernel, name)

        def tasks():
            for number, each in enumerate(arguments):
                yield remote.Task(sent, number, each if self.is_local else remote.dumped(each, name))

        found = {}
        with contextlib.closing(self.results(remote.run, tasks())) as results:
            for task, done in results:
                found[task.number] = done.result
        return [found[number] for number in range(len(found))]

    def close(self) -> None:
        """Release what belongs to the engine."""


class Here(Engine):
    """Runs tasks in the calling thread."""

    is_local = True

    def results(self, run, tasks):
        for task in tasks:
            yield task, run(task)


class Submitted(Engine):
    """Runs tasks on a user's executor, or on any object whose ``submit`` returns futures with ``result``."""

    def __init__(self, executor: Any):
        self.executor = executor
        self.is_local = isinstance(executor, concurrent.futures.ThreadPoolExecutor)

    @property
    def count(self):
        return count_of(self.executor)

    def results(self, run, tasks):
        flight, restarts = _Flight(tasks), 0
        while True:
            try:
                yield from flight.results(self._started(), run, TASKS_PER_WORKER * self.count)
                return
            except concurrent.futures.BrokenExecutor as error:
                self._start_again(error)
                lost = flight.recover()
                restarts += 1
                if restarts > MAX_RESTARTS:
                    raise type(error)(_lost_message(restarts, lost)) from error
            except Exception:
                raise
            except BaseException as error:  # Ctrl-C, also in the middle of `submit`, or a caller that gives up
                if flight.futures or not isinstance(error, GeneratorExit):
                    self._give_up()
                raise

    def _started(self):
        return self.executor

    def _start_again(self, error):
        """Replace the broken executor, or raise its error if that is not possible."""
        executor = _started_again(self.executor)
        if executor is None:
            error.add_note(
                "wengert.distributed: this executor cannot be started again; workers= as a number starts processes "
                "that are replaced if they end"
            )
            raise error
        self.executor = executor

    def _give_up(self):
        """End tasks that nobody waits for."""


def _started_again(executor):
    """Return a replacement for a broken executor if it is loky's reusable one; None for any other."""
    module = sys.modules[type(executor).__module__]
    make = getattr(module, "get_reusable_executor", None)
    if make is None:
        return None
    options = {name: getattr(executor, f"_{name}", None) for name in ("timeout", "context", "initializer", "env")}
    return make(executor._max_workers, initargs=getattr(executor, "_initargs", ()), **options)


class _Flight:
    """Tasks in flight; if an executor breaks, they can be submitted to another one."""

    def __init__(self, tasks: Iterable):
        self._tasks = iter(tasks)
        self._again: list = []
        self.futures: dict[Any, Any] = {}

    def results(self, executor, run, limit):
        ended: queue.SimpleQueue = queue.SimpleQueue()
        try:
            while True:
                while len(self.futures) < limit and (task := self._next()) is not None:
                    self._again.append(task)  # kept in case `submit` raises
                    future = executor.submit(run, task)
                    self.futures[future] = self._again.pop()
                    future.add_done_callback(ended.put)
                if not self.futures:
                    return
                future = _next_of(ended)
                result = future.result()
                yield self.futures.pop(future), result
        finally:
            for future in self.futures:
                future.cancel()

    def _next(self):
        return self._again.pop() if self._again else next(self._tasks, None)

    def recover(self):
        """Take back the tasks in flight; return them."""
        lost = [*self.futures.values()]
        self._again += reversed(lost)
        self.futures = {}
        return lost


def _next_of(ended):
    """Wait for an item of a queue, with a timeout, so that Ctrl-C ends the wait on every platform."""
    while True:
        with contextlib.suppress(queue.Empty):
            return ended.get(timeout=0.2)


def count_of(executor: Any) -> int:
    """Return the number of workers of an executor, or the number of local cores if that is not known."""
    client = getattr(executor, "_client", None)
    if hasattr(client, "ncores"):  # Dask
        return max(1, sum(client.ncores().values()))
    for name in ("num_workers", "_max_workers", "max_workers"):
        found = getattr(executor, name, None)
        if isinstance(found, int) and found > 0:
            return found
    return cores()


class Mapped(Engine):
    """Runs tasks by a function like `map`, a few at a time because it may consume all of them before it returns."""

    def __init__(self, function: Callable):
        self.function = function
        pool = getattr(function, "__self__", None)
        self.is_local = isinstance(pool, (concurrent.futures.ThreadPoolExecutor, multiprocessing.pool.ThreadPool))

    @property
    def count(self):
        pool = getattr(self.function, "__self__", None)
        found = getattr(pool, "_processes", None)
        return (
            found if isinstance(found, int) else TASKS_PER_MAP // TASKS_PER_WORKER if pool is None else count_of(pool)
        )

    def results(self, run, tasks):
        tasks = iter(tasks)
        size = max(TASKS_PER_MAP, TASKS_PER_WORKER * self.count)
        while some := [task for _, task in zip(range(size), tasks)]:
            yield from zip(some, self.function(run, some), strict=True)


class Processes(Submitted):
    """Runs tasks on our own process pool, started when needed and kept until it is closed or garbage-collected."""

    def __init__(self, count: int):
        self._count = count
        self.is_local = False
        self._lock = threading.Lock()
        self._pool: Any = None
        self._end: Any = None

    @property
    def count(self):
        return self._count

    @property
    def is_started(self):
        return self._pool is not None

    def _started(self):
        with self._lock:
            if self._pool is None:
                method = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
                context = multiprocessing.get_context(method)
                self._pool = concurrent.futures.ProcessPoolExecutor(self._count, context, remote.start_worker)
                self._end = weakref.finalize(self, self._pool.shutdown, wait=True, cancel_futures=True)
            return self._pool

    def _start_again(self, error):
        self.close()

    def _give_up(self):  # so that no worker stays busy
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None:
            self._end.detach()
            processes = [*(pool._processes or {}).values()]
            pool.shutdown(wait=False, cancel_futures=True)
            for process in processes:
                process.terminate()
            for process in processes:
                process.join()

    def close(self):
        if self._pool is not None:
            self._end()
            self._pool = None


def _lost_message(restarts, lost):
    firsts = sorted(task.number for task in lost)
    where = f" They were computing the tasks that start at {' and '.join(map(str, firsts[:4]))}." if firsts else ""
    return (
        f"worker processes ended {restarts} times without an error of Python, as when memory runs out.{where} "
        'A script that starts processes must be a file, and start them under `if __name__ == "__main__":`'
    )
