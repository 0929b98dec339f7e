"""Compiles kernels to machine code without a GPU: by Numba to PTX, by nvJitLink to a cubin, cached on disk."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from wengert.core.tape.tape import kernel_formulas, kernel_helpers
from wengert.cuda.toolkit import numba_cuda
from wengert.program.codegen import disk_cache, kernels, llvm_ir


@dataclasses.dataclass(frozen=True)
class Report:
    """Resources used by a compiled kernel.

    Attributes
    ----------
    name : str
    cc : tuple
        Compute capability of the target.
    dtype : str
    registers : int
        Registers per thread, at most 255.
    spill_bytes : int
        Bytes stored and reloaded because registers did not suffice; 0 for a good kernel.
    stack_bytes : int
        Stack size per thread: arrays of library functions, and spilled registers.
    statements, ptx_lines : int
    cost : int
        Approximate number of floating-point instructions per point.
    seconds : float
        Compilation time; 0 if the kernel was found on disk.
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


_BINARIES: dict[str, Binary] = {}


def binary(text: str, make: Callable, cc: tuple, fastmath: bool = False, **facts: Any) -> Binary:
    """Return a kernel for a compute capability, compiled or from the cache, in which `text` identifies it.

    ``make()`` returns the kernel, a function for Numba, and the types of its arguments. `facts` are the fields of the
    report that do not depend on compilation: name, dtype, statements, cost.
    """
    key = hashlib.sha256(repr((text, tuple(cc), fastmath, _versions())).encode()).hexdigest()
    if key not in _BINARIES:
        _BINARIES[key] = _from_disk(key) or _compiled(key, make, tuple(cc), fastmath, facts)
    return _BINARIES[key]


@functools.cache
def _versions():
    """Return the versions of everything that affects machine code: sources, formulas and packages."""
    files = [*Path(__file__).parent.glob("*.py"), *map(Path, (llvm_ir.__file__, kernels.__file__))]
    sources = b"".join(path.read_bytes() for path in sorted(files))
    formulas = repr((kernel_formulas(), kernel_helpers())).encode()
    found = {"sources": hashlib.sha256(sources + formulas).hexdigest()}
    compilers = ["nvidia-nvvm", "nvidia-nvjitlink", "nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink-cu12"]
    for name in ["wengert", "numba", "numba-cuda", "llvmlite", *compilers]:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def _compiled(key, make, cc, fastmath, facts):
    start = time.perf_counter()
    text = ptx(*make(), cc, fastmath)
    code, log = assembled(text, cc)
    seconds = time.perf_counter() - start
    spills = [int(a) + int(b) for a, b in re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)]
    registers, stack = re.findall(r"used (\d+) registers.*?(\d+) stack", log)[-1]
    resources = {"registers": int(registers), "spill_bytes": sum(spills), "stack_bytes": int(stack)}
    report = Report(cc=cc, ptx_lines=text.count("\n"), seconds=seconds, **resources, **facts)
    made = Binary(code, re.search(r"\.visible \.entry (\w+)", text)[1], report)
    _to_disk(key, made)
    return made


def ptx(kernel: Callable, signature: tuple, cc: tuple, fastmath: bool = False) -> str:
    compile = numba_cuda().compile
    return compile(kernel, signature, cc=cc, device=False, abi="numba", fastmath=fastmath, output="ptx")[0]


def assembled(text: str, cc: tuple) -> tuple[bytes, str]:
    """Assemble PTX to machine code; return it with the assembler's log. Needs no GPU."""
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


def _from_disk(key) -> Binary | None:
    found = disk_cache.read(f"{key}.kernel")
    try:
        state, code = found or ({}, b"")
        entry = state.pop("entry")
        return Binary(code, entry, Report(**{**state, "cc": tuple(state["cc"]), "seconds": 0.0}))
    except (KeyError, TypeError):  # not in the cache, or written by another version
        return None


def _to_disk(key, made):
    disk_cache.write(f"{key}.kernel", {**dataclasses.asdict(made.report), "entry": made.entry}, made.code)
