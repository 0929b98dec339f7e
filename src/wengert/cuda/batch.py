"""A program at many points at once: one kernel for each of value, gradient, Jacobian and Hessian product.

Data
    Kernel    a program, and the kernels made of it; called with arrays that have an axis of points in front
    Batch     the arguments of one call: which have that axis, which are the same for all points, where they lie

A kernel reads one array for each argument, and writes one for each result, in the layouts that `Given.layout` names.
Beside the results it writes a status for each point: the number of the guard that failed there, counted from 1, or 0.

What lies on the host goes through the device in parts, each copied while the one before is computed.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.cuda import availability, kernels
from wengert.cuda.device import (
    Device,
    Given,
    Host,
    OutOfMemory,
    bytes_of,
    points_at_once,
    same_kind,
    slices,
    stream_of,
    told,
)
from wengert.errors import GuardError
from wengert.program.leaves import key_of
from wengert.program.listing import kind_of
from wengert.program.program import NotDerivable, Program, Result, Slot, refuse_traced

#: points at once of arrays on the host: few enough that copies and kernels overlap
_PART = 1 << 20

#: failed points that a message names
_NAMED = 5

#: modes of kernels, by the names that they have here
_MODES = {"value": "value", "value_and_grad": "grad", "value_and_jacobian": "jacobian", "hvp": "hvp"}

_DTYPES = (np.dtype(np.float64), np.dtype(np.float32))


class Kernel:
    """A program at many points at once, on a GPU: one thread a point.

    Made by `Program.to_cuda`.  Arguments have an axis of points in front of the shape that they had when the program
    was recorded; one of just that shape is the same for all points.  What comes in comes out: results are NumPy
    arrays, or lie on the device as arrays of the library that made the first argument that does.

    Kernels are compiled at first use, one for each of the methods and each dtype.

    Raises
    ------
    CudaUnavailable
        By a call, if there is no GPU; nothing is computed on the CPU instead.
    GuardError
        By a call, if at some points the function takes another branch than at the point of the recording.
        Use `wengert.cuda.vmap`, which records each branch.
    MemoryError
        If the results do not fit into the memory of the GPU, with the numbers.

    Examples
    --------
    >>> import numpy as np, wengert as wg
    >>> g = wg.record(lambda x: np.sin(x[0]) * x[1], [0.0, 2.0]).to_cuda()
    >>> g
    <kernel of <lambda>: x float64[2], result float64>
    """

    def __init__(
        self,
        program: Program,
        dtype: Any = None,
        compile: str = "auto",
        chunk: int | str = "auto",
        debug: bool = False,
        target: str = "cuda",
    ):
        if compile not in ("auto", "never"):
            raise ValueError(f"to_cuda: compile is 'auto' or 'never', not {compile!r}")
        if target not in ("cuda", "cpu"):
            raise ValueError(f"to_cuda: target is 'cuda' or 'cpu', not {target!r}")
        self._dtype = None if dtype is None else np.dtype(dtype)
        if self._dtype not in (None, *_DTYPES):
            raise TypeError(f"to_cuda: dtype is float64 or float32, not {self._dtype}")
        points_at_once(1, 1, 1 << 30, chunk)  # is that a chunk?
        self._program = _of_one_array(program)
        self._compile, self._chunk, self._debug, self._target = compile, chunk, debug, target
        self._name = program._name
        self._specs = _specs(program)
        self._result = _result(self._program)
        self._loaded: dict = {}

    def __repr__(self):
        shapes = [f"{name} {_typed(kind)}" for name, kind in zip("xyzuvw", self._kinds())]
        return f"<kernel of {self._name}: {', '.join([*shapes, f'result {_typed(self._result)}'])}>"

    # ------------------------------------------------------------------------------------------ calls

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """What the function gives at each point, of shape ``(N, *y.shape)``."""
        return self._called("value", args, out)[0]

    def value_and_grad(self, *args: Any, out: Any = None) -> tuple:
        """Values, of shape ``(N,)``, and gradients in the first argument, ``(N, *x.shape)``."""
        self._check_number("value_and_grad", "value_and_jacobian")
        return self._called("value_and_grad", args, out)

    def value_and_jacobian(self, *args: Any, out: Any = None) -> tuple:
        """Values, of shape ``(N, *y.shape)``, and Jacobians in the first argument, ``(N, *y.shape, *x.shape)``."""
        return self._called("value_and_jacobian", args, out)

    def hvp(self, x: Any, v: Any, *args: Any, out: Any = None) -> Any:
        """Products of the Hessian in the first argument with `v`, an array like it, of shape ``(N, *x.shape)``."""
        self._check_number("hvp", "value_and_jacobian")
        return self._called("hvp", (x, v, *args), out)[0]

    def report(self, mode: str = "value_and_grad", cc: tuple = (9, 0)) -> Any:
        """Registers, bytes spilled and lines of a kernel, compiled for a compute capability; needs no GPU.

        Parameters
        ----------
        mode : {"value", "value_and_grad", "value_and_jacobian", "hvp"}
        cc : tuple of int
            Compute capability: (8, 0) is A100, (9, 0) H100 and H200.

        Raises
        ------
        CudaUnavailable
            If numba-cuda is not installed.
        """
        availability.numba_cuda()
        found = self._bodies(mode, self._dtype or _DTYPES[0])
        return [kernels.report(body, tuple(cc)) for body in found]

    # ------------------------------------------------------------------------------------------ one call

    def _called(self, mode, args, out):
        refuse_traced(repr(self), args, {})
        run = self.attempt(mode, args, out)
        if run.failed is not None:
            raise GuardError(self._failure(run))
        return run.returned()

    def attempt(self, mode: str, args: tuple, out: Any = None) -> Run:
        """The run of a call, done; `failed` says at which points its results are those of another path."""
        batch = Batch(self._name, self._specs_of(mode), args, self._dtype)
        machine = machine_of(self._target)
        guards = self._bodies(mode, batch.dtype)[0].guards
        found = self._kernels(mode, batch.dtype, machine)
        run = Run(machine, found, guards, batch, self._shapes_of(mode), out, self._debug)
        run.carry_out(self._chunk)
        return run

    def _bodies(self, mode, dtype):
        return kernels.bodies(self._program, _MODES[mode], dtype=dtype)

    def _kernels(self, mode, dtype, machine):
        """Gives, for the layouts of the arrays, what to launch; compiled once."""

        def kernels_for(letters):
            found = []
            for number, body in enumerate(self._bodies(mode, dtype)):
                layouts = letters + "C" * bool(body.guards)
                key = mode, dtype, layouts, number
                if key not in self._loaded:
                    self._loaded[key] = machine.compiled(body, layouts)
                found.append((self._loaded[key], bool(body.guards)))
            return found

        return kernels_for

    def _kinds(self):
        return [spec for spec in self._specs if type(spec) is tuple]

    def _specs_of(self, mode):
        """What each argument of a call is; a direction is one more, the second."""
        return [self._specs[0], self._specs[0], *self._specs[1:]] if mode == "hvp" else self._specs

    def _shapes_of(self, mode):
        """Shapes of the results of one point."""
        x, y = self._specs[0][1], self._result[1]
        return {"value": [y], "value_and_grad": [y, x], "value_and_jacobian": [y, y + x], "hvp": [x]}[mode]

    def _check_number(self, word, instead):
        if self._result[1] != ():
            raise TypeError(
                f"{word}({self._name}): the function must return a single number, its output has shape "
                f"{self._result[1]}: use {instead}"
            )

    def _failure(self, run):
        left = run.points_left()
        place = run.guards[run.failed[left[0]] - 1]
        return (
            f"{self._name}: at {len(left)} of {run.batch.n} points the function takes another branch than where it was "
            f"recorded, first at {place}, as at {first_of(left)}: use wengert.cuda.vmap, which records each branch, or "
            "write numpy.where"
        )


def machine_of(target: str) -> Device | Host:
    """Where kernels run; `CudaUnavailable` if that is a GPU and there is none."""
    if target == "cpu":
        return Host()
    availability.require()
    return Device(availability.numba_cuda())


def first_of(indices: np.ndarray) -> str:
    """The first of some points, for a message."""
    named = ", ".join(map(str, indices[:_NAMED].tolist()))
    return f"point{'' if len(indices) == 1 else 's'} {named}{', ...' if len(indices) > _NAMED else ''}"


def _specs(program):
    """What each argument was when it was recorded: (dtype, shape) of an array or number, or the key of what is none."""
    code, form = program._listing, program._form
    if form.keywords or not form.templates:
        raise NotDerivable(f"to_cuda({program._name}): record it with all its arguments by position")
    found: list = []
    for i, (template, key) in enumerate(zip(form.templates, form.key[0])):
        if type(template) is Slot:
            found.append(kind_of(code, code.inputs[template.number])[:2])
        elif form.inputs_of(i):
            raise NotDerivable(f"to_cuda({program._name}): argument {i} is a container: pass arrays and numbers")
        else:
            found.append(_Fixed(key))
    if type(found[0]) is _Fixed:
        raise NotDerivable(f"to_cuda({program._name}): the first argument is to be an array or number of floats")
    return found


def _of_one_array(program):
    """The program that returns its result as one array or number."""
    code = program._one_array("to_cuda")
    return program if code is program._listing else program._like(program._name, code, Result(Slot(0)))


def _result(program):
    """Dtype and shape of the one result."""
    dtype, shape, _ = kind_of(program._listing, program._listing.outputs[0])
    if dtype.kind != "f":
        raise NotDerivable(f"to_cuda({program._name}): the result is of dtype {dtype}: return floats")
    return dtype, shape


def _typed(kind):
    dtype, shape = kind
    return f"{dtype}{list(shape) if shape else ''}"


class _Fixed:
    """An argument that is part of the recording: its key."""

    def __init__(self, key):
        self.key = key


# ---------------------------------------------------------------------------------------------- arguments


class Batch:
    """The arguments of one call, in the form of a program.

    Attributes
    ----------
    n : int
        Number of points.
    given : list of Given
    is_fixed : list of bool
        Whether an argument is the same for all points.
    dtype : dtype
        In which is computed.
    like : object
        The first argument that lies on the device; None if all lie on the host.
    stream : int or None
        The stream that its kind computes on.
    """

    def __init__(self, name: str, specs: list, args: tuple, dtype: Any):
        if len(args) != len(specs):
            raise TypeError(f"{name}: {len(specs)} arguments are needed, {len(args)} were given")
        self.name = name
        self.given: list[Given] = []
        self.shapes: list[tuple] = []
        self.is_fixed: list[bool] = []
        self.like = self.stream = None
        counts = {}
        for i, (spec, x) in enumerate(zip(specs, args)):
            if type(spec) is _Fixed:
                if key_of(x, [], []) != spec.key:
                    raise ValueError(f"{name}: argument {i} has another value than where it was recorded: record again")
                continue
            given, shape = Given(x, f"{name}: argument {i}"), spec[1]
            if given.shape != shape and given.shape[1:] != shape:
                wanted = ", ".join(["N", *map(str, shape)])
                raise ValueError(
                    f"{name}: argument {i} has shape {given.shape}: ({wanted}) is needed, or {shape} for all points"
                )
            is_fixed = given.ndim == len(shape)
            if not is_fixed:
                counts.setdefault(given.shape[0], i)
            if given.on_device and self.like is None:
                self.like, self.stream = x, given.stream
            self.given.append(given)
            self.shapes.append(shape)
            self.is_fixed.append(is_fixed)
        if not counts:
            raise ValueError(f"{name}: no argument has an axis of points in front: call the program itself")
        if len(counts) > 1:
            (m, i), (n, j) = list(counts.items())[:2]
            raise ValueError(f"{name}: argument {i} has {m} points, argument {j} has {n}")
        self.n = next(iter(counts))
        self.dtype = dtype or (_DTYPES[1] if self.given[0].dtype == _DTYPES[1] else _DTYPES[0])
        for i, given in enumerate(self.given):
            if given.on_device and given.dtype != self.dtype:
                raise TypeError(
                    f"{name}: argument {i} lies on the device as {given.dtype}, and is computed in {self.dtype}: "
                    f"convert it there, or give to_cuda(dtype=...)"
                )

    def bytes_a_point(self) -> int:
        """Of what is copied to the device."""
        return sum(
            bytes_of(shape, self.dtype)
            for given, shape, is_fixed in zip(self.given, self.shapes, self.is_fixed)
            if not (is_fixed or given.on_device)
        )


# ---------------------------------------------------------------------------------------------- one run


class _Part:
    """Some of the points, while they are computed: on a stream, with what is still to be copied back."""

    def __init__(self, where, stream, arrays, results, failed):
        self.where, self.stream = where, stream
        self.arrays = arrays  # kept until the kernel is done
        self.results, self.failed = results, failed
        self.n = where.stop - where.start


class Run:
    """One call of one kernel: where its arguments and results lie, and how they get there.

    Attributes
    ----------
    results : list
        Arrays of shape ``(N, *shape)``; on the device each is a `Given`.
    failed : ndarray of int or None
        For each point the number of the guard that failed there, counted from 1, or 0; None if none did at any.
    """

    def __init__(self, machine, kernels_for, guards, batch, shapes, out, debug):
        self.machine, self.kernels_for, self.guards = machine, kernels_for, guards
        self.batch, self.debug = batch, debug
        self.shapes = shapes
        self.on_device = batch.like is not None
        if self.on_device and not machine.on_device:
            raise TypeError("an argument lies on a GPU, and target='cpu' computes on the CPU: pass NumPy arrays")
        self.out = self._given_out(out)
        self.results: list = []
        self.failed: np.ndarray | None = None

    def _given_out(self, out):
        """The arrays that the caller wants results in."""
        count = len(self.shapes)
        if out is None:
            return [None] * count
        found = out if isinstance(out, tuple) else (out,)
        if len(found) != count:
            raise TypeError(f"out= is to be {'one array' if count == 1 else f'a tuple of {count} arrays'}")
        for array, shape in zip(found, self.shapes):
            if array is None:
                continue
            given = Given(array, "out=")
            if given.on_device != self.on_device or given.dtype != self.batch.dtype:
                place = "on the device" if self.on_device else "a NumPy array"
                raise TypeError(f"out= is to be {place}, of dtype {self.batch.dtype}")
            if given.is_read_only or (given.on_device and given.layout(False) is None):
                raise ValueError("out= is to be writeable, and on the device in C order")
            if given.shape != (self.batch.n, *shape):
                raise ValueError(f"out= has shape {given.shape}, the result has shape {(self.batch.n, *shape)}")
        return list(found)

    def returned(self):
        """The results as the caller gets them."""
        if not self.on_device:
            return tuple(self.results)
        return tuple(
            same_kind(self.batch.like, made.owner) if given is None else given
            for made, given in zip(self.results, self.out)
        )

    def points_left(self):
        """Where a guard failed."""
        return np.zeros(0, np.intp) if self.failed is None else np.flatnonzero(self.failed)

    def put(self, indices, part, chosen):
        """Take results of some points from another run, in which they are those that are chosen."""
        for result, some in zip(self.results, part.results):
            if self.on_device:
                self.machine.put(result, indices, some, chosen, self._stream())
            else:
                result[indices] = some[chosen]

    def carry_out(self, chunk):
        """Compute all points."""
        if not self.batch.n:
            self.results = [self._result(shape, given, None) for shape, given in zip(self.shapes, self.out)]
            return
        n, batch, machine = self.batch.n, self.batch, self.machine
        each = sum(bytes_of(shape, batch.dtype) for shape in self.shapes) + 4 + batch.bytes_a_point()
        size = self._size(chunk, each)
        for is_last in (False, True):
            try:
                with machine.explained():
                    self.failed = self._over(list(slices(n, size)))
                return
            except OutOfMemory:
                self.results = []
            if is_last or self.on_device or size <= 1:
                break
            size //= 2
        raise told(each * (n if self.on_device else size), machine.free())

    def _size(self, chunk, each):
        """How many points at once."""
        n, machine = self.batch.n, self.machine
        if self.on_device or not machine.on_device:
            return n
        streams = 2
        with machine.explained():
            free = machine.free()
        size = points_at_once(n, streams * each, free, chunk)
        return size if chunk != "auto" else min(size, _PART)

    def _over(self, wheres):
        """Compute part after part; what is copied back waits until the next part is under way."""
        batch, machine = self.batch, self.machine
        streams = [self._stream()] if self.on_device else [machine.stream() for _ in wheres[:2]]
        self.results = [self._result(shape, given, streams[0]) for shape, given in zip(self.shapes, self.out)]
        placed = [self._placed(x, is_fixed, streams[0]) for x, is_fixed in zip(batch.given, batch.is_fixed)]
        parts: list = []
        for i, where in enumerate(wheres):
            parts.append(self._started(where, streams[i % len(streams)], placed))
            if i:
                self._collect(parts[i - 1])
        self._collect(parts[-1])
        if all(part.failed is None for part in parts):
            return None
        return np.concatenate([np.zeros(part.n, np.int32) if part.failed is None else part.failed for part in parts])

    def _stream(self):
        """The stream that the caller's arrays belong to."""
        return stream_of(self.machine, self.batch.stream)

    def _result(self, shape, given, stream):
        """An array for a result: the caller's, or a new one."""
        whole = (self.batch.n, *shape)
        if not self.on_device:
            return np.empty(whole, self.batch.dtype) if given is None else given
        return Given(self.machine.empty(whole, self.batch.dtype, stream) if given is None else given, "out=")

    def _placed(self, given, is_fixed, stream):
        """An argument that is on the device before any part is computed, and its layout; None for one in parts."""
        if given.on_device:
            return self.machine.placed(given, is_fixed, stream)
        if not is_fixed:
            return None
        shared = self.machine.to_device(np.array(given.value, self.batch.dtype).ravel(), stream)
        self.machine.wait(stream)
        return shared, "S"

    def _started(self, where, stream, placed):
        """Copy some points to the device and launch the kernels on them."""
        machine, dtype = self.machine, self.batch.dtype
        n = where.stop - where.start
        arrays = []
        for given, found, shape in zip(self.batch.given, placed, self.batch.shapes):
            if found is None:
                part = np.ascontiguousarray(given.value[where], dtype).reshape(n, math.prod(shape))
                found = machine.to_device(part, stream), "C"
            arrays.append(found)
        if self.on_device:
            results = [(x, x.layout(False)) for x in self.results]
        else:
            results = [(machine.empty((n, math.prod(shape)), dtype, stream), "C") for shape in self.shapes]
        status = machine.empty((n,), np.int32, stream) if self.guards else None
        given, letters = zip(*arrays, *results)
        for launch, is_guarded in self.kernels_for("".join(letters)):
            launch(n, [*given, status] if is_guarded else given, stream)
        return _Part(where, stream, given, given[len(arrays) :], status)

    def _collect(self, part):
        """Copy the results of some points back, and which guards failed there."""
        machine, where = self.machine, part.where
        if not self.on_device:
            for x, result in zip(part.results, self.results):
                machine.to_host(x, result[where], part.stream)
        if part.failed is not None:
            part.failed = machine.failures(part.failed, part.stream)
        if self.debug:
            machine.wait(part.stream)
            self._check_finite(part)
        elif not self.on_device:
            machine.wait(part.stream)
        part.arrays = part.results = None

    def _check_finite(self, part):
        """Raise where results are not finite."""
        is_bad = np.zeros(part.n, bool)
        for x in part.results:
            values = self.machine.on_host(x, part.stream) if self.on_device else self.machine.copied(x, part.stream)
            is_bad |= ~np.isfinite(values).reshape(part.n, -1).all(axis=1)
        if part.failed is not None:
            is_bad &= part.failed == 0
        if is_bad.any():
            bad = np.flatnonzero(is_bad) + part.where.start
            raise FloatingPointError(
                f"{self.batch.name}: results are not finite at {len(bad)} points, first at point {bad[0]}"
            )
