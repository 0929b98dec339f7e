"""Runs tasks in a worker, and keeps the kernels that they use.

A kernel is sent to each worker once. Tasks carry its key; a worker that does not hold the kernel says so, and the
driver sends the task again, with the kernel.
"""

from __future__ import annotations

import collections
import functools
import hashlib
import importlib
import io
import mmap
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
from typing import Any, NamedTuple

import numpy as np

#: maximum number of kernels that a worker keeps
MAX_KERNELS = 16

_kernels: collections.OrderedDict[str, Any] = collections.OrderedDict()
_lock = threading.Lock()


class Parcel(NamedTuple):
    """A pickled object, a key that identifies its content, and the version of this package that pickled it."""

    key: str
    content: bytes | None
    version: str


class Task(NamedTuple):
    """A call of a kernel's method ``run``; `kernel` and `arguments` are pickled for other processes."""

    kernel: Any
    number: int
    arguments: Any


class Missing(NamedTuple):
    """Answer of a worker that does not hold the kernel."""

    number: int


class Done(NamedTuple):
    """Answer of a worker, with the time that the task took there."""

    result: Any
    seconds: float


def run(task: Task) -> Done | Missing:
    start = time.perf_counter()
    if not isinstance(task.kernel, Parcel):
        return Done(task.kernel.run(*task.arguments), time.perf_counter() - start)
    kernel = held(task.kernel)
    if kernel is None:
        return Missing(task.number)
    try:
        return Done(kernel.run(*_arguments(task)), time.perf_counter() - start)
    except Exception as error:
        raise portable(error) from error.__cause__


def _arguments(task):
    try:
        return pickle.loads(task.arguments)
    except Exception as error:  # for example, the file that a chunk is mapped to is missing
        error.add_note(f"wengert.distributed: the task that starts at {task.number} cannot be unpickled by a worker")
        raise


def portable(error: Exception) -> Exception:
    """Return the error, or a `RuntimeError` with the same text if it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        made = RuntimeError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            made.add_note(note)
        return made.with_traceback(error.__traceback__)
    return error


def held(parcel: Parcel) -> Any:
    """Return the kernel of a parcel, from this worker's store if possible; None if the parcel has no content either."""
    with _lock:
        kernel = _kernels.get(parcel.key)
        if kernel is None and parcel.version != version():
            raise RuntimeError(
                f"a worker has version {version()} of wengert, and the driver has version {parcel.version}: install "
                "the same one for both"
            )
        if kernel is None and parcel.content is not None:
            kernel = _kernels[parcel.key] = _unpacked(parcel.content)
            while len(_kernels) > MAX_KERNELS:
                _kernels.popitem(last=False)
        elif kernel is not None:
            _kernels.move_to_end(parcel.key)
    return kernel


def _unpacked(content):
    try:
        return pickle.loads(content)
    except (AttributeError, ImportError) as error:
        raise TypeError(
            f"the function cannot be found by a worker ({error}): define it at the top of a module that workers can "
            "import, or install cloudpickle"
        ) from error


def start_worker() -> None:
    """Set up a process of our own pool, which ignores Ctrl-C: the driver handles it and ends its workers.

    A worker also ends by itself if its driver ends without ending it, because the driver was killed, or interrupted
    while it started the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_driver, daemon=True).start()


def _end_with_driver():
    multiprocessing.parent_process().join()
    os._exit(1)


# ---- pickling


def packed(x: Any, name: str) -> Parcel:
    """Pickle an object for workers; functions of ``__main__`` and lambdas are pickled by value, by cloudpickle."""
    content = dumped(x, name)
    return Parcel(hashlib.sha256(content).hexdigest(), content, version())


def version() -> str:
    """Return the version of this package."""
    return sys.modules["wengert"].__version__


def dumped(x: Any, name: str) -> bytes:
    """Pickle an object, or raise a TypeError that says what to do."""
    cloudpickle = _cloudpickle()
    try:
        content = _pickled(pickle.Pickler, x)
        if cloudpickle is None or b"__main__" not in content:
            return content
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        if cloudpickle is None:
            raise TypeError(
                f"{name} cannot be sent to workers ({error}): define functions at the top of a module, install "
                "cloudpickle, which sends lambdas and local functions too, or pass workers=None or a thread pool"
            ) from error
    try:
        return _pickled(cloudpickle.Pickler, x)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise TypeError(f"{name} cannot be sent to workers, not even by cloudpickle: {error}") from error


@functools.cache
def _cloudpickle():
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return None


def _pickled(pickler, x):
    class Writer(pickler):
        def reducer_override(self, x):
            if type(x) is np.memmap and (place := _place_in_file(x)) is not None:
                return _mapped, place
            found = getattr(super(), "reducer_override", None)
            return NotImplemented if found is None else found(x)

    content = io.BytesIO()
    Writer(content, protocol=5).dump(x)
    return content.getvalue()


def _place_in_file(x):
    """Return where a memory-mapped array lies: file, dtype, offset, shape and order; None if it is not in a file."""
    if x._mmap is None or x.filename is None or x.mode == "c" or not x.flags.forc:
        return None
    start = np.frombuffer(x._mmap, np.uint8).ctypes.data
    offset = x.offset - x.offset % mmap.ALLOCATIONGRANULARITY  # offset of the file mapping; x may be a slice of it
    return x.filename, x.dtype, offset + x.ctypes.data - start, x.shape, "C" if x.flags.c_contiguous else "F"


def _mapped(filename, dtype, offset, shape, order):
    return np.memmap(filename, dtype, "r", offset, shape, order)
