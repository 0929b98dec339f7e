"""A call of kernels: finds the batched arguments and transfers data to and from the device.

Host arrays are transferred in chunks; each chunk is copied while the previous one is computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.cuda.arrays import Given, bytes_of, same_kind
from wengert.cuda.device import OutOfMemory, memory_error, points_at_once, slices, stream_of
from wengert.program.tracing.pytree import key_of

#: maximum number of points per chunk of host arrays, so that copies and kernels overlap
MAX_CHUNK = 1 << 20

DTYPES = (np.dtype(np.float64), np.dtype(np.float32))


class Constant:
    """Key of an argument that is a constant of the recording."""

    def __init__(self, key):
        self.key = key


class Batch:
    """Arguments of one call at `n` points, flattened as in the program.

    The lists `given`, `shapes` (at one point) and `is_fixed` (whether it is the same for all points) have an item for
    each argument. `dtype` is the precision of the computation, `like` the first argument on the device, or None if all
    are on the host, and `stream` the first stream that an argument names, or None.
    """

    def __init__(self, name: str, specs: list, args: tuple, dtype: Any):
        if len(args) != len(specs):
            raise TypeError(f"{name}: {len(specs)} arguments expected, got {len(args)}")
        self.name = name
        self.given: list[Given] = []
        self.shapes: list[tuple] = []
        self.is_fixed: list[bool] = []
        self.like = self.stream = None
        counts = {}
        for i, (spec, x) in enumerate(zip(specs, args)):
            if type(spec) is Constant:
                if key_of(x, [], []) != spec.key:
                    raise ValueError(f"{name}: argument {i} differs from the recorded value: record again")
                continue
            given, shape = Given(x, f"{name}: argument {i}"), spec[1]
            if given.shape != shape and given.shape[1:] != shape:
                wanted = ", ".join(["N", *map(str, shape)])
                raise ValueError(
                    f"{name}: argument {i} has shape {given.shape}: expected ({wanted}), or {shape} for all points"
                )
            is_fixed = given.ndim == len(shape)
            if not is_fixed:
                counts.setdefault(given.shape[0], i)
            if given.on_device:
                self.like = x if self.like is None else self.like
                self.stream = given.stream if self.stream is None else self.stream
            self.given.append(given)
            self.shapes.append(shape)
            self.is_fixed.append(is_fixed)
        if not counts:
            raise ValueError(f"{name}: no argument has a batch axis: call the program itself")
        if len(counts) > 1:
            (m, i), (n, j) = list(counts.items())[:2]
            raise ValueError(f"{name}: argument {i} has {m} points, argument {j} has {n}")
        self.n = next(iter(counts))
        self.dtype = dtype or (DTYPES[1] if self.given[0].dtype == DTYPES[1] else DTYPES[0])
        for i, given in enumerate(self.given):
            if given.on_device and given.dtype != self.dtype:
                raise TypeError(
                    f"{name}: argument {i} is on the device as {given.dtype}, but the computation is in {self.dtype}: "
                    "convert it there, or pass to_cuda(dtype=...)"
                )

    def bytes_per_point(self) -> int:
        return sum(
            bytes_of(shape, self.dtype)
            for given, shape, is_fixed in zip(self.given, self.shapes, self.is_fixed)
            if not (is_fixed or given.on_device)
        )


class _Chunk:
    """A chunk of points in progress: its stream, and the arrays to be copied back."""

    def __init__(self, where, stream, arrays, results, failed):
        self.where, self.stream = where, stream
        self.arrays = arrays  # kept alive until the kernel is done
        self.results, self.failed = results, failed
        self.n = where.stop - where.start


class Run:
    """One call of one kernel: its arguments, its results and their transfers.

    The `results` are arrays of shape ``(N, *shape)``, each a `Given` on the device. For each point, `failed` has the
    number of the guard that failed there, counted from 1, or 0; it is None if no guard failed.
    """

    def __init__(self, device, kernels_for, guards, batch, shapes, out, debug):
        self.device, self.kernels_for, self.guards = device, kernels_for, guards
        self.batch, self.debug = batch, debug
        self.shapes = shapes
        self.on_device = batch.like is not None
        if self.on_device and not device.on_device:
            raise TypeError("an argument is on a GPU, but target='cpu' computes on the CPU: pass NumPy arrays")
        self.out = self._given_out(out)
        self.results: list = []
        self.failed: np.ndarray | None = None

    def _given_out(self, out):
        """Validate the output arrays of the caller."""
        count = len(self.shapes)
        if out is None:
            return [None] * count
        found = out if isinstance(out, tuple) else (out,)
        if len(found) != count:
            raise TypeError(f"out= must be {'one array' if count == 1 else f'a tuple of {count} arrays'}")
        for array, shape in zip(found, self.shapes):
            if array is None:
                continue
            given = Given(array, "out=")
            if given.on_device != self.on_device or given.dtype != self.batch.dtype:
                place = "on the device" if self.on_device else "a NumPy array"
                raise TypeError(f"out= must be {place}, of dtype {self.batch.dtype}")
            if given.is_read_only or (given.on_device and given.layout(False) is None):
                raise ValueError("out= must be writeable, and in C order on the device")
            if given.on_device and any(given.overlaps(x) for x in self.batch.given):
                raise ValueError("out= shares memory with an argument")
            if given.shape != (self.batch.n, *shape):
                raise ValueError(f"out= has shape {given.shape}, the result has shape {(self.batch.n, *shape)}")
        return list(found)

    def returned(self):
        """Return the results as arrays of the caller's library."""
        if not self.on_device:
            return tuple(self.results)
        return tuple(
            same_kind(self.batch.like, made.owner) if given is None else given
            for made, given in zip(self.results, self.out)
        )

    def put(self, indices, part, chosen):
        """Copy results of the points `chosen` of another run to the points `indices`."""
        for result, some in zip(self.results, part.results):
            if self.on_device:
                self.device.put(result, indices, some, chosen, self._stream())
            else:
                result[indices] = some[chosen]

    def carry_out(self, chunk):
        """Compute all points, in smaller chunks if memory does not suffice."""
        if not self.batch.n:
            self.results = [self._result(shape, given, None) for shape, given in zip(self.shapes, self.out)]
            return
        n, batch, device = self.batch.n, self.batch, self.device
        each = sum(bytes_of(shape, batch.dtype) for shape in self.shapes) + 4 + batch.bytes_per_point()
        size = self._size(chunk, each)
        for is_last in (False, True):
            try:
                with device.explained():
                    self.failed = self._compute(list(slices(n, size)))
                return
            except OutOfMemory:
                self.results = []
            if is_last or self.on_device or size <= 1:
                break
            size //= 2
        raise memory_error(each * (n if self.on_device else size), device.free())

    def _size(self, chunk, each):
        n, device = self.batch.n, self.device
        if self.on_device or not device.on_device:
            return n
        streams = 2
        with device.explained():
            free = device.free()
        size = points_at_once(n, streams * each, free, chunk)
        return size if chunk != "auto" else min(size, MAX_CHUNK)

    def _compute(self, wheres):
        """Compute the chunks; copy each back after the next one has started."""
        batch, device = self.batch, self.device
        for other in {given.stream for given in batch.given} - {None, batch.stream}:
            device.wait(device.stream(other))
        streams = [self._stream()] if self.on_device else [device.stream() for _ in wheres[:2]]
        self.results = [self._result(shape, given, streams[0]) for shape, given in zip(self.shapes, self.out)]
        placed = [self._place(x, is_fixed, streams[0]) for x, is_fixed in zip(batch.given, batch.is_fixed)]
        parts: list = []
        for i, where in enumerate(wheres):
            parts.append(self._start(where, streams[i % len(streams)], placed))
            if i:
                self._collect(parts[i - 1])
        self._collect(parts[-1])
        if all(part.failed is None for part in parts):
            return None
        return np.concatenate([np.zeros(part.n, np.int32) if part.failed is None else part.failed for part in parts])

    def _stream(self):
        return stream_of(self.device, self.batch.stream)

    def _result(self, shape, given, stream):
        """Return the array for a result: the caller's, or a new one."""
        whole = (self.batch.n, *shape)
        if not self.on_device:
            return np.empty(whole, self.batch.dtype) if given is None else given
        return Given(self.device.empty(whole, self.batch.dtype, stream) if given is None else given, "out=")

    def _place(self, given, is_fixed, stream):
        """Return a device or shared argument with its layout; None for one that is transferred in chunks."""
        if given.on_device:
            return self.device.placed(given, is_fixed, stream)
        if not is_fixed:
            return None
        shared = self.device.to_device(np.array(given.value, self.batch.dtype).ravel(), stream)
        self.device.wait(stream)
        return shared, "S"

    def _start(self, where, stream, placed):
        """Copy a chunk to the device and launch the kernels on it."""
        device, dtype = self.device, self.batch.dtype
        n = where.stop - where.start
        arrays = []
        for given, found, shape in zip(self.batch.given, placed, self.batch.shapes):
            if found is None:
                part = np.ascontiguousarray(given.value[where], dtype).reshape(n, math.prod(shape))
                found = device.to_device(part, stream), "C"
            arrays.append(found)
        if self.on_device:
            results = [(x, x.layout(False)) for x in self.results]
        else:
            results = [(device.empty((n, math.prod(shape)), dtype, stream), "C") for shape in self.shapes]
        status = device.empty((n,), np.int32, stream) if self.guards else None
        given, letters = zip(*arrays, *results)
        for launch, is_guarded in self.kernels_for("".join(letters)):
            launch(n, [*given, status] if is_guarded else given, stream)
        return _Chunk(where, stream, given, given[len(arrays) :], status)

    def _collect(self, part):
        """Copy the results and failed guards of a chunk back."""
        device, where = self.device, part.where
        if not self.on_device:
            for x, result in zip(part.results, self.results):
                device.to_host(x, result[where], part.stream)
        if part.failed is not None:
            part.failed = device.failures(part.failed, part.stream)
        if self.debug:
            device.wait(part.stream)
            self._check_finite(part)
        elif not self.on_device:
            device.wait(part.stream)
        part.arrays = part.results = None

    def _check_finite(self, part):
        is_bad = np.zeros(part.n, bool)
        for x in part.results:
            values = self.device.on_host(x, part.stream) if self.on_device else self.device.copied(x, part.stream)
            is_bad |= ~np.isfinite(values).reshape(part.n, -1).all(axis=1)
        if part.failed is not None:
            is_bad &= part.failed == 0
        if is_bad.any():
            bad = np.flatnonzero(is_bad) + part.where.start
            raise FloatingPointError(
                f"{self.batch.name}: results are not finite at {len(bad)} points, first at point {bad[0]}"
            )
