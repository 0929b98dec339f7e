"""Shared by several test files: tolerances, reference derivatives, and bitwise comparison."""

from __future__ import annotations

import ctypes
import mmap
import threading

import numpy as np
import numpy.fft
from wengert.program.ir.opcodes import Op

from wengert import registry
from wengert.program.passes.loop import is_loop

#: relative tolerance for derivatives that differ by rounding only, by dtype of the computation
ROUNDING = {np.dtype(np.float64): 1e-11, np.dtype(np.float32): 2e-4}

#: relative tolerance against central differences of a function with values near 1
DIFFERENCES = 3e-6


def complex_step(f, x):
    """Return the Jacobian of `f`, exact to rounding; `f` must accept complex input without branching on it."""
    x = np.asarray(x, dtype=float)
    columns = []
    for i in range(x.size):
        z = x.astype(complex)
        z.flat[i] += 1e-200j
        columns.append(np.imag(np.asarray(f(z))) / 1e-200)
    return np.stack(columns, axis=-1).reshape(np.shape(columns[0]) + x.shape)


def central_differences(f, x, h=1e-6):
    """Return the Jacobian of `f` to about nine digits."""
    x = np.asarray(x, dtype=float)
    columns = []
    for i in range(x.size):
        ahead, behind = x.copy(), x.copy()
        ahead.flat[i] += h
        behind.flat[i] -= h
        columns.append((np.asarray(f(ahead), dtype=float) - np.asarray(f(behind), dtype=float)) / (2 * h))
    return np.stack(columns, axis=-1).reshape(np.shape(columns[0]) + x.shape)


def fourth_order_difference(f, x, h=1e-4):
    """Derivative of a function of a float by central differences with four points."""
    steps = [f(x + k * h) for k in (-2, -1, 1, 2)]
    return (steps[0] - 8 * steps[1] + 8 * steps[2] - steps[3]) / (12 * h)


def assert_same_bits(got, expected, what=""):
    """Compare dtype, shape and every bit; containers item by item."""
    if isinstance(expected, dict):
        assert list(got) == list(expected), what
        for key in expected:
            assert_same_bits(got[key], expected[key], f"{what}[{key!r}]")
        return
    if isinstance(expected, (list, tuple)) and any(np.ndim(item) for item in expected):
        assert len(got) == len(expected), what
        for i, (one, other) in enumerate(zip(got, expected)):
            assert_same_bits(one, other, f"{what}[{i}]")
        return
    got, expected = np.asarray(got), np.asarray(expected)
    if np.iscomplexobj(got) and np.iscomplexobj(expected):
        assert_same_bits(got.real, expected.real, f"{what}: real part")
        assert_same_bits(got.imag, expected.imag, f"{what}: imaginary part")
        return
    if (
        expected.dtype.kind in "biu" and got.dtype.kind == "f"
    ):  # integer results become floats
        expected = expected.astype(float)
    assert got.dtype == expected.dtype, f"{what}: dtype {got.dtype}, expected {expected.dtype}"
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    np.testing.assert_array_equal(got, expected, err_msg=what, strict=True)
    zeros = expected == 0
    np.testing.assert_array_equal(
        np.signbit(got[zeros]), np.signbit(expected[zeros]), err_msg=f"{what}: sign of 0"
    )


def assert_rounding(got, expected, dtype=np.float64, scale=None, what=""):
    """Compare up to rounding relative to the largest entry."""
    got, expected = np.asarray(got, dtype=float), np.asarray(expected, dtype=float)
    assert got.shape == expected.shape, f"{what}: shape {got.shape}, expected {expected.shape}"
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(finite.max(initial=0.0), 1e-300) if scale is None else scale
    tolerance = ROUNDING[np.dtype(dtype)]
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * scale, err_msg=what)


def in_threads(work, count=8):
    """Run ``work(0)``, ``work(1)``, ... concurrently, each in a thread; re-raise an exception of any of them."""
    barrier, failures = threading.Barrier(count), []

    def run(i):
        try:
            barrier.wait()
            work(i)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def parts(z):
    """Return the real and the imaginary part of a complex result, stacked."""
    return np.stack([np.real(z), np.imag(z)])


def at_the_end_of_memory(x):
    """Copy an array so that it ends at an inaccessible page, if the operating system supports it."""
    protect = getattr(ctypes.CDLL(None), "mprotect", None) if hasattr(mmap, "PROT_READ") else None
    if protect is None:
        return x.copy()
    size = -(-max(x.nbytes, 1) // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, size + mmap.PAGESIZE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    assert protect(ctypes.c_void_p(start + size), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0
    copied = np.frombuffer(memory, x.dtype, x.size, size - x.nbytes).reshape(x.shape)
    copied[...] = x
    return copied


def loops_of(code):
    """Return the loops of an IR."""
    called = code.a[code.op == Op.CALL].tolist()
    return [code.calls[a].compute for a in called if is_loop(code.calls[a])]


def rows_of_numpy():
    """Rules by function, without those of SciPy functions that a test of this process may have loaded."""
    registry.declare_loaded()
    return {
        fun: row
        for fun, row in registry.rows.items()
        if not str(getattr(fun, "__module__", None)).startswith(("wengert.rules.scipy.", "wengert.scipy."))
        and not any(getattr(partial, "__module__", None) == "wengert.rules.scipy.stats" for partial in row.partials)
    }
