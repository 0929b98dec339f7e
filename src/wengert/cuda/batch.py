"""Batched evaluation of a program: one kernel each for value, gradient, Jacobian and Hessian-vector product.

A kernel reads one array per argument and writes one per result, in the layouts that `Given.layout` names.
It also writes a status for each point: the number of the guard that failed there, counted from 1, or 0.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from wengert.cuda import availability, kernels, toolkit
from wengert.cuda.calls import DTYPES, Batch, Constant, Run
from wengert.cuda.device import Device, Host, points_at_once
from wengert.errors import GuardError
from wengert.program.derivatives import NotDerivable
from wengert.program.ir.ir import kind_of
from wengert.program.program import Program
from wengert.program.signature import Result, Slot, refuse_traced
from wengert.program.swept import Stacked

#: maximum number of statements of a compiled kernel; longer ones would take minutes to compile and are interpreted
_MAX_COMPILED_STATEMENTS = 20_000

#: maximum number of failed points listed in a message
_MAX_LISTED_POINTS = 5

#: modes of `wengert.cuda.kernels`, by method
_MODES = {"value": "value", "value_and_grad": "grad", "value_and_jacobian": "jacobian", "hvp": "hvp"}


class Kernel:
    """A program compiled for a GPU, evaluated at many points at once by one thread per point.

    Created by `Program.to_cuda`. Arguments have a leading batch axis in addition to the shape that they had when the
    program was recorded; an argument without it is the same for all points. NumPy arguments give NumPy results; if an
    argument is on the device, results stay there, as arrays of the library of the first such argument.

    Kernels are compiled on first use, separately for each method and dtype.

    Raises
    ------
    CudaUnavailable
        By a call, if there is no GPU; there is no fallback to the CPU.
    GuardError
        By a call, if the function takes another branch at some points than when it was recorded.
        Use `wengert.cuda.vmap`, which records each branch.
    MemoryError
        By a call, if the results do not fit in the memory of the GPU.

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
        compile: Literal["auto", "never"] = "auto",
        chunk: int | str = "auto",
        debug: bool = False,
        target: Literal["cuda", "cpu"] = "cuda",
    ):
        if compile not in ("auto", "never"):
            raise ValueError(f"to_cuda: compile must be 'auto' or 'never', not {compile!r}")
        if target not in ("cuda", "cpu"):
            raise ValueError(f"to_cuda: target must be 'cuda' or 'cpu', not {target!r}")
        self._dtype = None if dtype is None else np.dtype(dtype)
        if self._dtype not in (None, *DTYPES):
            raise TypeError(f"to_cuda: dtype must be float64 or float32, not {self._dtype}")
        points_at_once(1, 1, 1 << 30, chunk)  # validates chunk
        self._compile, self._chunk, self._debug, self._target = compile, chunk, debug, target
        self._name = program._name
        self._specs = _specs(program)
        self._program = _of_one_array(program)
        self._result = _result(self._program)
        self._loaded: dict = {}

    def __repr__(self):
        kinds = [spec for spec in self._specs if type(spec) is tuple]
        shapes = [f"{name} {_typed(kind)}" for name, kind in zip("xyzuvw", kinds)]
        return f"<kernel of {self._name}: {', '.join([*shapes, f'result {_typed(self._result)}'])}>"

    # ------------------------------------------------------------------------------------------ calls

    def __call__(self, *args: Any, out: Any = None) -> Any:
        """Return the values at all points, of shape ``(N, *y.shape)``."""
        return self._called("value", args, out)[0]

    def value_and_grad(self, *args: Any, out: Any = None) -> tuple:
        """Return values, of shape ``(N,)``, and gradients in the first argument, ``(N, *x.shape)``."""
        self._check_number("value_and_grad")
        return self._called("value_and_grad", args, out)

    def value_and_jacobian(self, *args: Any, out: Any = None) -> tuple:
        """Return values ``(N, *y.shape)`` and Jacobians in the first argument ``(N, *y.shape, *x.shape)``."""
        return self._called("value_and_jacobian", args, out)

    def hvp(self, x: Any, v: Any, *args: Any, out: Any = None) -> Any:
        """Return products of the Hessian in the first argument with `v`, an array like `x`: ``(N, *x.shape)``."""
        self._check_number("hvp")
        return self._called("hvp", (x, v, *args), out)[0]

    def report(self, mode: str | None = None, cc: tuple = (9, 0)) -> list:
        """Return registers, spilled bytes and more of the kernels of a method, compiled for a compute capability.

        Needs no GPU. A Jacobian is split into several kernels if a single one would need too many registers.

        Parameters
        ----------
        mode : {"value", "value_and_grad", "value_and_jacobian", "hvp"}
            The method; "value" is the call itself. The default is value and gradient, or Jacobian for an array result.
        cc : tuple of int
            Compute capability: (8, 0) is A100, (9, 0) H100 and H200.

        Returns
        -------
        list of wengert.cuda.binaries.Report

        Raises
        ------
        CudaUnavailable
            If numba-cuda is not installed.
        """
        toolkit.numba_cuda()
        mode = mode or ("value_and_jacobian" if self._result[1] else "value_and_grad")
        found = self._bodies(mode, self._dtype or DTYPES[0])
        return [kernels.report(body, tuple(cc)) for body in found]

    # ------------------------------------------------------------------------------------------ one call

    def _called(self, mode, args, out):
        refuse_traced(repr(self), args, {})
        run = self.attempt(mode, args, out)
        if run.failed is not None:
            raise GuardError(self._failure(run))
        return run.returned()

    def attempt(self, mode: str, args: tuple, out: Any = None) -> Run:
        """Evaluate a method and return the run; `failed` marks points that take another path."""
        batch = Batch(self._name, self._specs_of(mode), args, self._dtype)
        device = device_of(self._target)
        guards = self._bodies(mode, batch.dtype)[0].guards
        found = self._kernels(mode, batch.dtype, device)
        run = Run(device, found, guards, batch, self._shapes_of(mode), out, self._debug)
        run.carry_out(self._chunk)
        return run

    def _bodies(self, mode, dtype):
        return kernels.bodies(self._program, _MODES[mode], dtype=dtype)

    def _kernels(self, mode, dtype, device):
        """Return a function that maps the layouts of the arrays to the kernels to launch, each compiled once."""

        def kernels_for(letters):
            found = []
            for number, body in enumerate(self._bodies(mode, dtype)):
                layouts = letters + "C" * bool(body.guards)
                key = device.number, mode, dtype, layouts, number
                if key not in self._loaded:
                    is_long = self._compile == "never" or len(body) > _MAX_COMPILED_STATEMENTS
                    self._loaded[key] = (device.interpreted if is_long else device.compiled)(body, layouts)
                found.append((self._loaded[key], bool(body.guards)))
            return found

        return kernels_for

    def _specs_of(self, mode):
        """Return the specs of a call's arguments; "hvp" takes the direction as its second argument."""
        return [self._specs[0], self._specs[0], *self._specs[1:]] if mode == "hvp" else self._specs

    def _shapes_of(self, mode):
        x, y = self._specs[0][1], self._result[1]
        return {"value": [y], "value_and_grad": [y, x], "value_and_jacobian": [y, y + x], "hvp": [x]}[mode]

    def _check_number(self, word):
        if self._result[1] != ():
            raise TypeError(
                f"{word}({self._name}): the function must return a single number, its output has shape "
                f"{self._result[1]}: use value_and_jacobian"
            )

    def _failure(self, run):
        left = np.flatnonzero(run.failed)
        place = run.guards[run.failed[left[0]] - 1]
        return (
            f"{self._name}: at {len(left)} of {run.batch.n} points the function takes another branch than the recorded "
            f"one, first at {place}, for example at {first_of(left)}: use wengert.cuda.vmap, which records each "
            "branch, or write numpy.where"
        )


def device_of(target: str) -> Device | Host:
    """Return the device for a target; raise `CudaUnavailable` if it is a GPU and there is none."""
    if target == "cpu":
        return Host()
    availability.require()
    return Device(toolkit.numba_cuda())


def first_of(indices: np.ndarray) -> str:
    """Format the first few points for a message."""
    named = ", ".join(map(str, indices[:_MAX_LISTED_POINTS].tolist()))
    return f"point{'' if len(indices) == 1 else 's'} {named}{', ...' if len(indices) > _MAX_LISTED_POINTS else ''}"


def _specs(program):
    """Return, for each argument, (dtype, shape) of an array or scalar, or else the key of its recorded value."""
    code, form = program._listing, program._form
    if isinstance(program, Stacked):
        raise NotDerivable(
            f"to_cuda({program._name}): this program is a loop over the rows of a matrix: call to_cuda on the program "
            "of the function itself, and use value_and_jacobian or hvp of the kernel"
        )
    if form.keywords or not form.templates:
        raise NotDerivable(f"to_cuda({program._name}): record it with all its arguments by position")
    found: list = []
    for i, (template, key) in enumerate(zip(form.templates, form.key[0])):
        if type(template) is Slot:
            found.append(kind_of(code, code.inputs[template.number])[:2])
        elif form.inputs_of(i):
            raise NotDerivable(f"to_cuda({program._name}): argument {i} is a container: pass arrays and scalars")
        else:
            found.append(Constant(key))
    if type(found[0]) is Constant:
        raise NotDerivable(f"to_cuda({program._name}): the first argument must be a float or an array of floats")
    return found


def _of_one_array(program):
    code = program._one_array("to_cuda")
    return program if code is program._listing else program._like(program._name, code, Result(Slot(0)))


def _result(program):
    dtype, shape, _ = kind_of(program._listing, program._listing.outputs[0])
    if dtype.kind != "f":
        raise NotDerivable(f"to_cuda({program._name}): the result is of dtype {dtype}: return floats")
    return dtype, shape


def _typed(kind):
    dtype, shape = kind
    return f"{dtype}{list(shape) if shape else ''}"
