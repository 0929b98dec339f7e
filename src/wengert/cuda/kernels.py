"""From a program to kernels: what is computed for each point, in how many kernels, and how these are compiled.

A mode (`value`, `grad`, `jacobian`, `jvp`, `vjp`, `hvp`) puts the listings of a program and of its derivatives side by
side into one `Body`, where what they share is computed once.
Jacobians go forward by columns or backward by rows, whichever costs less, in several kernels where one would keep more
values alive than a thread has registers.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from wengert.cuda.availability import numba_cuda
from wengert.cuda.codegen import Body, intrinsic, kernel_source
from wengert.cuda.scalars import scalarised
from wengert.program.listing import kind_of
from wengert.program.program import NotDerivable, Program

#: values that one thread may keep alive, by dtype: a thread has 255 registers of 32 bits
MOST_ALIVE = {np.dtype(np.float64): 130, np.dtype(np.float32): 260}

MODES = ("value", "grad", "jacobian", "jvp", "vjp", "hvp")


# ---------------------------------------------------------------------------------------------- modes


def of_numbers(program: Program) -> Program:
    """The same program on numbers alone, made once."""
    if "of numbers" not in program._derived:
        program._derived["of numbers"] = program._like(program._name, scalarised(program._listing), program._result)
    return program._derived["of numbers"]


def bodies(program: Program, mode: str = "value", argnums: int = 0, dtype="float64") -> tuple[Body, ...]:
    """What is computed for each point, as the bodies of one kernel or of several that share their arrays.

    Parameters
    ----------
    program : Program
        Its inputs and outputs are numbers or small arrays.
    mode : str
        "value": the outputs; "grad" and "jacobian": these and the derivative in one argument; "jvp" and "vjp": value
        and derivative for a direction or cotangent, which is one more input; "hvp": Hessian times a direction.
    argnums : int
        The argument that is differentiated.
    dtype : dtype
        Of all arrays, and of the computation.

    Returns
    -------
    tuple of Body
        Their inputs are those of the program of the mode, in its order, and so are their outputs.
        Where there are several, each writes its part of the last output, and the first all else.
    """
    key = "bodies", mode, argnums, np.dtype(dtype)
    if key not in program._derived:
        program._derived[key] = _bodies(of_numbers(program), mode, argnums, dtype)
    return program._derived[key]


def _bodies(program, mode, argnums, dtype):
    if mode not in MODES:
        raise ValueError(f"mode={mode!r}: one of {', '.join(MODES)}")
    if mode == "jacobian":
        return _jacobian(program, argnums, dtype)
    body = Body(f"{mode} of {program._name}", dtype)
    if mode in ("value", "grad"):
        inputs = _inputs(body, program._listing)
        made = [program, program.grad(argnums)] if mode == "grad" else [program]
        found = [y for one in made for y in body.outputs_of(one._listing, inputs)]
    else:
        made = getattr(program, mode)(argnums)
        inputs = _inputs(body, made._listing)
        number = program._form.direction
        base = program.grad(argnums) if mode == "hvp" else program
        body.outputs_of(base._listing, [*inputs[:number], *inputs[number + 1 :]])
        count = body.count
        found = body.outputs_of(made._listing, inputs)
    for y in found:
        body.output(y)
    if mode in ("jvp", "hvp"):
        body.interleave(count)
    return (body,)


def _inputs(body, listing):
    return [body.input(kind_of(listing, v)[1]) for v in listing.inputs]


def _jacobian(program, argnums, dtype):
    """Rows or columns, in as few kernels as keep no more values alive than there are registers."""
    code, y = program._differentiable("jacobian")
    shape, wrt = kind_of(code, y)[1], kind_of(code, code.inputs[program._input("jacobian", argnums)])[1]
    m, n = int(np.prod(shape, dtype=int)), int(np.prod(wrt, dtype=int))

    def parts(by_rows, count):
        lines = [part.tolist() for part in np.array_split(range(m if by_rows else n), count)]
        return tuple(
            _part(program, argnums, dtype, shape, wrt, by_rows, part, is_first=part is lines[0]) for part in lines
        )

    # the narrower side is by far the cheaper one, if there is one
    sides = [m < n] if max(m, n) > 4 * min(m, n) else [False, True]
    by_rows = min(sides, key=lambda by_rows: parts(by_rows, 1)[0].cost())
    most = m if by_rows else n
    count = 1
    found = parts(by_rows, count)
    while count < most and max(body.alive() for body in found) > MOST_ALIVE[np.dtype(dtype)]:
        count = min(most, 2 * count)
        found = parts(by_rows, count)
    return found


def _part(program, argnums, dtype, shape, wrt, by_rows, lines, is_first):
    """The body that gives some rows or columns of a Jacobian; the first one gives the value as well."""
    made = program.vjp(argnums) if by_rows else program.jvp(argnums)
    body = Body(f"jacobian of {program._name}", dtype)
    inputs = _inputs(body, program._listing)
    y = body.outputs_of(program._listing, inputs)
    count = body.count
    if len(y) > 1 or np.shape(y[0]) != shape:  # numbers that were returned one by one
        y = [np.array([v for x in y for v in np.ravel(x)], object).reshape(shape)]
    size = int(np.prod(shape if by_rows else wrt, dtype=int))
    J = np.full((int(np.prod(shape, dtype=int)), int(np.prod(wrt, dtype=int))), None)
    number = program._form.direction
    for line in lines:
        unit = [body.constant(1.0) if i == line else body.nothing for i in range(size)]
        direction = np.array([*unit, None], object)[:-1].reshape(shape if by_rows else wrt)
        direction = direction if direction.shape else direction.item()
        found = body.outputs_of(made._listing, [*inputs[:number], direction, *inputs[number:]])[1]
        J[line if by_rows else (slice(None), line)] = np.ravel(np.asarray(found, object))
    body.output(y[0] if is_first else np.full(shape, None))
    body.output(J.reshape(shape + wrt))
    if not by_rows:
        body.interleave(count)
    return body


# ---------------------------------------------------------------------------------------------- kernels


def kernel(body: Body, layouts: str = "", target: str = "cuda") -> Callable:
    """The kernel of a body as a Python function ``kernel(n, x0, ..., y0, ..., status)``.

    Parameters
    ----------
    body : Body
    layouts : str
        A letter for each of ``body.arrays()``: "C": a row of elements for each point; "F": a row of points for each
        element; "S": one element for all points.  All are C by default.
    target : str
        "cuda": to be compiled by Numba, for pointers or contiguous arrays; "cpu": compiled for this machine, a loop
        over the points; "simulator": for ``cuda.jit`` in Numba's simulator; "python": for whole NumPy arrays.
    """
    layouts = layouts or "C" * len(body.arrays())
    if target == "python":
        run = body.function(layouts)
        return lambda n, *arrays: run(n, slice(0, n), *arrays)
    if target == "cpu":
        import numba

        given = ", ".join(body.arrays())
        space = {"body": intrinsic(body, layouts, "cpu")}
        exec(f"def kernel(n, {given}):\n    for p in range(n):\n        body(n, p, {given})\n", space)
        return numba.njit(error_model="numpy")(space["kernel"])
    if target == "simulator":
        from numba import cuda

        space = {"cuda": cuda, "body": body.function(layouts)}
    elif target == "cuda":
        space = {"cuda": numba_cuda(), "body": intrinsic(body, layouts, "cuda")}
    else:
        raise ValueError(f"target={target!r}: one of cuda, cpu, simulator, python")
    exec(kernel_source(body), space)
    return space["kernel"]


def signature(body: Body) -> tuple:
    """Numba's types of the arguments of a kernel: the number of points, and a pointer for each array."""
    from numba.cuda import types

    real = types.CPointer(types.float64 if body.dtype == np.float64 else types.float32)
    kinds = [types.CPointer(types.int32) if name == "status" else real for name in body.arrays()]
    return (types.int64, *kinds)


def ptx(body: Body, cc: tuple = (9, 0), layouts: str = "", fastmath: bool = False) -> str:
    """The kernel as PTX for a compute capability; needs no GPU."""
    cuda = numba_cuda()
    found, _ = cuda.compile(
        kernel(body, layouts), signature(body), cc=cc, device=False, abi="numba", fastmath=fastmath, output="ptx"
    )
    return found


# ---------------------------------------------------------------------------------------------- binaries


@dataclasses.dataclass(frozen=True)
class Report:
    """What a compiled kernel takes of a GPU.

    Attributes
    ----------
    name : str
    cc : tuple
        Compute capability for which it was compiled.
    dtype : str
    registers : int
        For each thread, of 255.
    spill_bytes : int
        Written to memory and read again because registers did not suffice: 0 for a good kernel.
    stack_bytes : int
        For each thread: arrays of the library's functions, and what was spilled.
    statements, ptx_lines : int
    cost : int
        Floating-point instructions for each point, roughly.
    seconds : float
        That compilation took; 0 if the kernel was found on disk.
    """

    name: str
    cc: tuple
    dtype: str
    registers: int
    spill_bytes: int
    stack_bytes: int
    statements: int
    ptx_lines: int
    cost: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class Binary:
    """A compiled kernel: its machine code, the name of its entry, and a report."""

    code: bytes = dataclasses.field(repr=False)
    entry: str
    report: Report


def report(body: Body, cc: tuple = (9, 0), layouts: str = "", fastmath: bool = False) -> Report:
    """What the kernel takes of a GPU of a compute capability, which need not be there."""
    return binary(body, cc, layouts, fastmath).report


def binary(body: Body, cc: tuple = (9, 0), layouts: str = "", fastmath: bool = False) -> Binary:
    """The kernel, compiled and assembled for a compute capability; kept in memory and on disk."""
    layouts = layouts or "C" * len(body.arrays())
    key = _key(body, cc, layouts, fastmath)
    if key not in _BINARIES:
        _BINARIES[key] = _from_disk(key) or _compiled(body, cc, layouts, fastmath, key)
    return _BINARIES[key]


_BINARIES: dict[str, Binary] = {}


def _key(body, cc, layouts, fastmath):
    """A hash of all that decides what the machine code is."""
    text = repr((body.python(layouts), body.inputs, body.outputs, body.dtype.str, cc, layouts, fastmath, _versions()))
    return hashlib.sha256(text.encode()).hexdigest()


@functools.cache
def _versions():
    found = {}
    for name in ("wengert", "numba", "numba-cuda", "llvmlite", "nvidia-nvvm", "nvidia-nvjitlink"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _compiled(body, cc, layouts, fastmath, key):
    start = time.perf_counter()
    text = ptx(body, cc, layouts, fastmath)
    code, log = assembled(text, cc)
    seconds = time.perf_counter() - start
    entry = re.search(r"\.visible \.entry (\w+)", text)[1]
    spills = [int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)]
    registers, stack = re.findall(r"used (\d+) registers.*?(\d+) stack", log)[-1]
    found = Report(
        body.name, tuple(cc), body.dtype.name, int(registers), sum(spills), int(stack), len(body),
        text.count("\n"), body.cost(), seconds,
    )  # fmt: skip
    _to_disk(key, Binary(code, entry, found))
    return Binary(code, entry, found)


def assembled(text: str, cc: tuple) -> tuple[bytes, str]:
    """Machine code of PTX, and what the assembler says about it; needs no GPU."""
    from cuda.bindings import nvjitlink

    options = [f"-arch=sm_{cc[0]}{cc[1]}", "-verbose"]
    handle = nvjitlink.create(len(options), options)
    try:
        source = text.encode()
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, source, len(source), "kernel.ptx")
        nvjitlink.complete(handle)
        log = bytearray(nvjitlink.get_info_log_size(handle))
        nvjitlink.get_info_log(handle, log)
        code = bytearray(nvjitlink.get_linked_cubin_size(handle))
        nvjitlink.get_linked_cubin(handle, code)
    finally:
        nvjitlink.destroy(handle)
    return bytes(code), log.decode()


# ---------------------------------------------------------------------------------------------- on disk


def cache_folder() -> Path:
    """Where compiled kernels are kept: WENGERT_CACHE_DIR, or below the user's folder of caches."""
    given = os.environ.get("WENGERT_CACHE_DIR")
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wengert"


def _from_disk(key) -> Binary | None:
    try:
        head, _, code = (cache_folder() / f"{key}.kernel").read_bytes().partition(b"\n")
        state: dict[str, Any] = json.loads(head)
        if hashlib.sha256(code).hexdigest() != state.pop("sha256"):
            return None
        entry = state.pop("entry")
        return Binary(code, entry, Report(**{**state, "cc": tuple(state["cc"]), "seconds": 0.0}))
    except (OSError, ValueError, KeyError, TypeError):  # not there, not readable, or not whole
        return None


def _to_disk(key, made):
    """Keep a kernel; where nothing can be written it is compiled again in the next process."""
    state = {**dataclasses.asdict(made.report), "entry": made.entry, "sha256": hashlib.sha256(made.code).hexdigest()}
    try:
        folder = cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as file:
            file.write(json.dumps(state).encode() + b"\n" + made.code)
        os.replace(file.name, folder / f"{key}.kernel")
    except OSError:
        pass
