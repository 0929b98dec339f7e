"""Pickles arrays and scalars as plain bytes, and checks such a pickle before loading it.

NumPy's own unpickling does not validate its input: a damaged pickle can make it read out of bounds.
"""

from __future__ import annotations

import functools
import importlib
import pickle
import sys

import numpy as np

from wengert.program.ir.verify import expect

#: dtype kinds whose arrays are pickled as bytes
_PLAIN = frozenset("biufc")


class Writer(pickle.Pickler):
    """Pickles arrays by bytes, dtype, shape and order, and ufuncs by module and name."""

    def reducer_override(self, x):
        if isinstance(x, np.dtype) and x.kind in _PLAIN:
            return np.dtype, (x.str,)
        if isinstance(x, np.generic) and x.dtype.kind in _PLAIN:
            return _scalar, (x.tobytes(), x.dtype.str)
        if type(x) is np.ndarray and x.dtype.kind in _PLAIN:
            order = "F" if x.flags.f_contiguous and not x.flags.c_contiguous else "C"
            return _array, (x.tobytes(order), x.dtype.str, x.shape, order)
        if isinstance(x, np.ufunc):  # the default would search every loaded module for it
            for home in ("numpy", "scipy.special"):
                if getattr(sys.modules.get(home), x.__name__, None) is x:
                    return _ufunc, (home, x.__name__)
        return NotImplemented


def _array(content, dtype, shape, order):
    return np.frombuffer(content, dtype).reshape(shape, order=order).copy(order)


def _ufunc(home, name):
    return getattr(importlib.import_module(home), name)


def _scalar(content, dtype):
    return np.frombuffer(content, dtype).reshape(())[()]


def loaded(content: bytes) -> object:
    """Unpickle the output of a `Writer`, after checking that no length stated in it exceeds its size.

    Opcodes that index pickle's memo explicitly are refused: a damaged index makes `pickle` allocate any amount of
    memory, and a `Writer` does not write them.
    """
    sizes, i = _sizes_of_opcodes(), 0
    while i < len(content):
        size, count = sizes.get(content[i], (0, -1))
        expect(count >= 0, f"this program is damaged: no byte {content[i]} is written at {i}")
        i += 1 + size + (int.from_bytes(content[i + 1 : i + 1 + count], "little") if count else 0)
    expect(i == len(content), "this program is damaged: it ends too early")
    return pickle.loads(content)


@functools.cache
def _sizes_of_opcodes():
    """Return, for each opcode that a `Writer` may emit, the size of its argument and of the length field in it."""
    tools = importlib.import_module("pickletools")  # slow to import and rarely needed
    counted = {tools.TAKEN_FROM_ARGUMENT1: 1, tools.TAKEN_FROM_ARGUMENT4: 4, tools.TAKEN_FROM_ARGUMENT4U: 4,
               tools.TAKEN_FROM_ARGUMENT8U: 8}  # fmt: skip
    found = {}
    for opcode in tools.opcodes:
        size = 0 if opcode.arg is None else opcode.arg.n
        count = counted.get(size, 0)
        if size != tools.UP_TO_NEWLINE and opcode.name != "LONG_BINPUT":
            found[ord(opcode.code)] = count or size, count
    return found
