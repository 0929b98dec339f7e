"""LLVM for this machine: modules become machine code, which is kept on disk, and is called by address.

llvmlite is imported when the first module is made, never before.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import hashlib
import importlib.util
import threading
import time

from wengert.program import disk
from wengert.program.emit import external

#: functions that LLVM has itself
INTRINSICS = {
    "fabs": "fabs",
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "rint": "rint",
    "copysign": "copysign",
}

_LOCK = threading.Lock()


class Refused(Exception):
    """This step has no machine code: the message says why."""


def is_there() -> bool:
    """Can llvmlite be imported?"""
    return importlib.util.find_spec("llvmlite") is not None


@functools.cache
def llvm():
    """llvmlite's binding, made ready for this machine."""
    try:
        import llvmlite.binding as found
    except ImportError:
        raise ImportError('tier="llvm" needs llvmlite: pip install wengert[jit]') from None
    if found.llvm_version_info[0] < 20:  # later ones do it themselves, and refuse the call
        found.initialize()
    found.initialize_native_target()
    found.initialize_native_asmprinter()
    return found


@functools.cache
def features() -> str:
    """What the CPU can do, in LLVM's words."""
    return llvm().get_host_cpu_features().flatten()


@functools.cache
def lanes() -> int:
    """Doubles in a register."""
    given = features().split(",")
    return 8 if "+avx512f" in given else 4 if "+avx2" in given else 2


def _machine(opt):
    """A new one for each module: who runs the code owns it."""
    target = llvm().Target.from_default_triple()
    return target.create_target_machine(llvm().get_host_cpu_name(), features(), opt=opt, jit=True)


# ---------------------------------------------------------------------------------------------- the C library


@functools.cache
def _libraries():
    """The C library of numbers, and glibc's of vectors; none where they are not found."""
    found = []
    for name in (ctypes.util.find_library("m"), "libmvec.so.1"):
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
    """A function of the C library, of numbers or of vectors of eight."""
    from llvmlite import ir

    kind = operands[0].type
    is_vector = isinstance(kind, ir.VectorType)
    if name in INTRINSICS:
        return external(builder, f"llvm.{INTRINSICS[name]}.{f'v{kind.count}' if is_vector else ''}f64", operands)
    if not is_vector:
        if _address(name) is None:
            raise Refused(f"the C library has no {name}")
        return external(builder, name, operands)
    count = min(kind.count, lanes())
    vector = _vector_name(name, count)
    if _address(vector) is None:
        raise Refused(f"the C library has no {name} of vectors")
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
    """The functions of a module in memory; they are there as long as this object."""

    def __init__(self, text: str, names: list[str], externals: list[str], opt: int = 2):
        start = time.perf_counter()
        binding = llvm()
        facts = text, names, opt, binding.llvm_version_info, binding.get_host_cpu_name(), features()
        name = hashlib.sha256(repr(facts).encode()).hexdigest() + ".object"
        with _LOCK:
            for external_name in externals:
                binding.add_symbol(external_name, _address(external_name))
            found = disk.read(name)
            self.is_from_disk = found is not None
            self._load(_object(text, opt) if found is None else found[1])
            if found is None:
                disk.write(name, {}, self._bytes)
            self.addresses = [self._engine.get_function_address(each) for each in names]
        self.seconds = time.perf_counter() - start

    def _load(self, code):
        binding = llvm()
        self._bytes = code
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), _machine(2))
        self._engine.add_object_file(binding.object_file.ObjectFileRef.from_data(code))
        self._engine.finalize_object()


def _object(text, opt):
    binding = llvm()
    module = binding.parse_assembly(text)
    machine = _machine(opt)
    options = binding.create_pipeline_tuning_options(speed_level=min(opt, 2))
    options.loop_vectorization = options.slp_vectorization = False
    module.triple, module.data_layout = machine.triple, str(machine.target_data)
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)
