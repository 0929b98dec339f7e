"""Compiles LLVM modules for the host CPU, caches the object code on disk, and loads it.

llvmlite is imported when the first module is compiled, never before.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import sys
import threading
import time

from wengert.program.codegen import disk_cache
from wengert.program.codegen.llvm_ir import external, intrinsic

#: C library functions that are LLVM intrinsics
INTRINSICS = {"fabs", "sqrt", "floor", "ceil", "trunc", "rint", "copysign"}

_LOCK = threading.Lock()


class Refused(Exception):
    """An instruction cannot be compiled, for the reason in the message; the VM runs it."""


@functools.cache
def llvm():
    """Return llvmlite's binding, initialised for the host."""
    try:
        import llvmlite.binding as found
    except ImportError:
        raise ImportError("the llvm tier needs llvmlite: pip install wengert[jit]") from None
    found.initialize_native_target()
    found.initialize_native_asmprinter()
    return found


@functools.cache
def features() -> str:
    """Return the features of the host CPU in LLVM's syntax."""
    return llvm().get_host_cpu_features().flatten()


@functools.cache
def lanes() -> int:
    """Return the number of doubles in a vector register."""
    given = features().split(",")
    return 8 if "+avx512f" in given else 4 if "+avx2" in given else 2


def _machine():
    """Return a new target machine: the engine that runs a module takes ownership of it."""
    target = llvm().Target.from_default_triple()
    return target.create_target_machine(llvm().get_host_cpu_name(), features(), opt=2, jit=True)


# ---------------------------------------------------------------------------------------------- the C library


@functools.cache
def _libraries():
    """Load libm and, on Linux, glibc's vector library libmvec; None if one is missing."""
    found = []
    on_linux = sys.platform == "linux"  # find_library starts another process there
    for name in ("libm.so.6" if on_linux else ctypes.util.find_library("m"), "libmvec.so.1" if on_linux else None):
        try:
            found.append(ctypes.CDLL(name) if name else None)
        except OSError:
            found.append(None)
    return found


@functools.cache
def _address(name):
    for library in _libraries():
        try:
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
        except AttributeError:
            pass
    return None


def _vector_name(name, count):
    letter = {2: "b", 4: "d", 8: "e"}[count]
    return f"_ZGV{letter}N{count}{'vv' if name in ('pow', 'hypot') else 'v'}_{name}"


def call(builder, name, operands):
    """Call a C library function on scalars or vectors; vectors are split, since libmvec takes at most `lanes`."""
    from llvmlite import ir

    kind = operands[0].type
    is_vector = isinstance(kind, ir.VectorType)
    if name in INTRINSICS:
        return intrinsic(builder, name, operands)
    if not is_vector:
        if _address(name) is None:
            raise Refused(f"no {name} in the C library")
        return external(builder, name, operands)
    count = min(kind.count, lanes())
    vector = _vector_name(name, count)
    if _address(vector) is None:
        raise Refused(f"no vectorised {name} in the C library")
    parts = []
    for first in range(0, kind.count, count):
        places = ir.Constant(ir.VectorType(ir.IntType(32), count), [*range(first, first + count)])
        given = [builder.shuffle_vector(x, ir.Constant(kind, ir.Undefined), places) for x in operands]
        parts.append(external(builder, vector, given))
    while len(parts) > 1:
        parts = [
            builder.shuffle_vector(
                a, b, ir.Constant(ir.VectorType(ir.IntType(32), 2 * a.type.count), [*range(2 * a.type.count)])
            )
            for a, b in zip(parts[::2], parts[1::2])
        ]
    return parts[0]


# ---------------------------------------------------------------------------------------------- machine code


class Code:
    """A module loaded into memory; its functions are valid as long as this object lives.

    No IR passes are run: the generator has merged common subexpressions and folded constants already.
    """

    def __init__(self, text: str, names: list[str], externals: list[str]):
        start = time.perf_counter()
        binding = llvm()
        facts = text, binding.llvm_version_info, binding.get_host_cpu_name(), features()
        name = hashlib.sha256(repr(facts).encode()).hexdigest() + ".object"
        with _LOCK:
            found = disk_cache.read(name)
            code = _object(text) if found is None else found[1]
            if found is None:
                disk_cache.write(name, {}, code)
            for external_name in externals:
                binding.add_symbol(external_name, _address(external_name))
            self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine())
            self._engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
            self._engine.finalize_object()
            self.addresses = [self._engine.get_function_address(each) for each in names]
        self.is_from_disk = found is not None
        self.seconds = time.perf_counter() - start


def _object(text):
    """Compile a module to an object file."""
    module, machine = llvm().parse_assembly(text), _machine()
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    return machine.emit_object(module)
