"""A fake driver to test `wengert.cuda` without a GPU and without Numba.

`Cuda` replaces the module numba.cuda; its device arrays are NumPy arrays that claim to be on a device.
`Core` replaces cuda.core; it launches the Python form of kernels.
Work queued on a stream runs when the stream is synchronised, and not before.
"""

import ctypes
import itertools
from types import SimpleNamespace

import numpy as np

from wengert.cuda import points


class Stream:
    """Work that runs when the stream is synchronised."""

    numbers = itertools.count(1)

    def __init__(self, log, pointer=None):
        self.handle = next(self.numbers) if pointer is None else pointer
        self.log, self.waiting = log, []

    def queue(self, work):
        self.waiting.append(work)

    def synchronize(self):
        while self.waiting:
            self.waiting.pop(0)()


class DeviceArray:
    """A NumPy array that claims to be on a device."""

    kept: list = []  # memory that queued work may use: freeing it would synchronise

    def __init__(self, host, stream=None, is_read_only=False):
        self.host, self.stream, self.is_read_only = host, stream, is_read_only
        self.kept.append(host)

    shape = property(lambda self: self.host.shape)
    dtype = property(lambda self: self.host.dtype)

    @property
    def __cuda_array_interface__(self):
        found = dict(self.host.__array_interface__)
        return {
            "shape": found["shape"],
            "strides": found["strides"],
            "typestr": found["typestr"],
            "data": (found["data"][0], self.is_read_only),
            "version": 3,
            "stream": self.stream,
        }

    def __array__(self, dtype=None, copy=None):
        return self.host

    def __getitem__(self, key):
        return self.host[key]

    def __setitem__(self, key, value):
        self.host[key] = value

    def copy_to_host(self, out=None, stream=None):
        if out is None:
            out = np.full_like(self.host, np.nan if self.host.dtype.kind == "f" else -1)
        stream.queue(lambda: np.copyto(out, self.host))
        return out


class DriverError(Exception):
    """Raised by Numba and cuda.core for error codes of the driver."""

    def __init__(self, name):
        super().__init__(f"Call to cuSomething results in CUDA_ERROR_{name}")


class Cuda:
    """Replaces the module numba.cuda.

    `memory` bytes are free, but a single allocation beyond `limit` bytes fails anyway.
    """

    def __init__(self, memory=1 << 30, limit=None, devices=(0,), capability=(9, 0), simulator=False, driver=(13, 0)):
        self.memory, self.limit = memory, limit
        self.log = []
        self.streams = {}
        self.gpus, self.capability = devices, capability
        self.config = SimpleNamespace(ENABLE_CUDASIM=simulator)
        self.cudadrv = SimpleNamespace(driver=SimpleNamespace(get_version=lambda: driver))
        self.runtime = SimpleNamespace(get_version=lambda: (13, 4))

    def get_current_device(self):
        return SimpleNamespace(id=0, compute_capability=self.capability, MULTIPROCESSOR_COUNT=132)

    def current_context(self):
        return SimpleNamespace(get_memory_info=lambda: SimpleNamespace(free=self.memory, total=2 * self.memory))

    def stream(self):
        return Stream(self.log)

    def external_stream(self, pointer):
        return self.streams.setdefault(pointer, Stream(self.log, pointer))

    def device_array(self, shape, dtype=np.float64, stream=None):
        made = np.empty(shape, dtype)
        self.log.append(("allocate", made.nbytes))
        if self.limit is not None and made.nbytes > self.limit:
            raise DriverError("OUT_OF_MEMORY")
        return DeviceArray(made, None if stream is None else stream.handle)

    def to_device(self, x, stream=None):
        made = self.device_array(x.shape, x.dtype, stream)
        given = x.copy()
        if stream is None:
            made.host[...] = given
        else:
            stream.queue(lambda: np.copyto(made.host, given))
        return made

    def grid(self, axes):
        """Return the index of the running thread, for kernels in Python."""
        return self.thread


class Core:
    """Replaces the module cuda.core; its binaries are functions ``(n, pointers)``."""

    def __init__(self):
        self.launches = []  # number of points of each launch
        self.error = None
        self.ObjectCode = SimpleNamespace(from_cubin=lambda code: SimpleNamespace(get_kernel=lambda entry: code))
        self.LaunchConfig = lambda grid, block: (grid, block)

    def launch(self, stream, configuration, kernel, n, *pointers):
        blocks, threads = configuration
        assert n > (blocks - 1) * threads

        def work():
            if self.error is not None:
                raise self.error
            with np.errstate(all="ignore"):
                kernel(n, blocks * threads, *pointers)

        self.launches.append(n)
        stream.queue(work)


def compiled(body, layouts):
    """Return the binary of a body: its Python form on the arrays at given addresses."""
    sizes = [int(np.prod(shape, dtype=int)) for shape in (*body.inputs, *body.outputs)]
    run = body.function(layouts)

    def kernel(n, threads, *pointers):
        assert threads >= n
        assert len(pointers) == len(layouts) == len(sizes) + bool(body.guards)
        arrays = [at(x, body.dtype, n, size, letter) for x, size, letter in zip(pointers, sizes, layouts)]
        arrays += [at(x, np.int32, n) for x in pointers[len(sizes) :]]
        run(n, slice(0, n), *arrays)

    return kernel


def picking(name, dtype):
    """Return the binary of a kernel with point indices: the Python function, thread by thread."""
    cuda = Cuda()
    function = points.functions(cuda)[name]
    real = ctypes.c_double if np.dtype(dtype) == np.float64 else ctypes.c_float
    kinds = {"r": real, "i": ctypes.c_int64, "s": ctypes.c_int32}

    def kernel(n, threads, *args):
        letters = points.SIGNATURES[name][1:]
        assert len(args) == len(letters)
        given = [
            x if letter == "n" else ctypes.cast(x, ctypes.POINTER(kinds[letter])) for x, letter in zip(args, letters)
        ]
        for cuda.thread in range(threads):
            function(n, *given)

    return kernel


def at(pointer, dtype, n, size=None, letter="C"):
    """Return the array at an address, in a layout of kernels; without a size, one value per point."""
    shape = {"C": (n,) if size is None else (n, size), "F": (size, n), "S": (size,)}[letter]
    shown = {"shape": shape, "typestr": np.dtype(dtype).str, "data": (pointer, False), "version": 3}
    found = np.asarray(SimpleNamespace(__array_interface__=shown))
    return found.T if letter == "F" else found
