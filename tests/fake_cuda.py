"""What tests of `wengert.cuda` run without a GPU and without Numba: programs point by point, and a make-believe driver.

`replayed` is a kernel that runs a program at one point after the other, by the machine of programs.
`Cuda` is a module in the place of numba.cuda, whose device arrays are NumPy arrays that say they lie on a device.
"""

import itertools
from types import SimpleNamespace

import numpy as np


class Replayed:
    """A kernel: ``kernel(*inputs, *results, [failed], n)`` on arrays of shape ``(n, elements)``."""

    def __init__(self, program, mode):
        self.guards = program._listing.guards
        self.program, self.derived = program, None
        if mode == "value_and_grad":
            self.derived = program.grad()
        elif mode == "value_and_jacobian":
            self.derived = program.jacobian()
        elif mode == "hvp":
            self.program = program.hvp()
        self.calls = 0

    def __call__(self, *arrays):
        self.calls += 1
        *arrays, n = map(np.asarray, arrays)
        failed = arrays.pop() if self.guards else None
        leaves = self.program._example
        inputs, results = arrays[: len(leaves)], arrays[len(leaves) :]
        for p in range(int(n)):
            point = [np.reshape(x[p].astype(float), np.shape(leaf))[()] for x, leaf in zip(inputs, leaves)]
            y = self.program.attempt(point)
            if failed is not None:
                failed[p] = 0 if type(y) is list else y + 1
            if type(y) is not list:
                for result in results:
                    result[p] = -7.0  # what must not be seen
                continue
            found = [self._one(y, self.program)]
            if self.derived is not None:
                found.append(self._one(self.derived.attempt(point), self.derived))
            for result, value in zip(results, found):
                result[p] = np.ravel(value)

    @staticmethod
    def _one(y, program):
        return y[0] if program.restore is None else program.restore(y)

    def __getitem__(self, configuration):
        blocks, threads, stream = configuration

        def launch(*arrays):
            assert blocks * threads >= arrays[-1] > (blocks - 1) * threads
            stream.queue(lambda: self(*arrays))

        return launch


class Stream:
    """Work that is done when someone waits for it."""

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
    """An array that says that it lies on a device."""

    def __init__(self, host, stream=None, is_read_only=False):
        self.host, self.stream, self.is_read_only = host, stream, is_read_only

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

    def reshape(self, *shape):
        return DeviceArray(self.host.reshape(*shape), self.stream)

    def copy_to_host(self, out=None, stream=None):
        if out is None:
            out = np.full_like(self.host, np.nan if self.host.dtype.kind == "f" else -1)
        stream.queue(lambda: np.copyto(out, self.host))
        return out


class DriverError(Exception):
    """As Numba raises for what the driver returns."""

    def __init__(self, code):
        super().__init__(code, "Call to cuMemAlloc failed")
        self.code = code


class Cuda:
    """A module in the place of numba.cuda.

    `memory` bytes are free, and allocations beyond `limit` bytes at once fail although they are.
    """

    def __init__(self, memory=1 << 30, limit=None):
        self.memory, self.limit = memory, limit
        self.log = []
        self.streams = {}
        self.owners = []
        self.cudadrv = SimpleNamespace(driver=SimpleNamespace(get_version=lambda: (13, 0)))
        self.runtime = SimpleNamespace(get_version=lambda: (13, 0))
        self._point = None

    def current_context(self):
        return SimpleNamespace(get_memory_info=lambda: SimpleNamespace(free=self.memory, total=2 * self.memory))

    def stream(self):
        return Stream(self.log)

    def default_stream(self):
        return self.external_stream(0)

    def external_stream(self, pointer):
        return self.streams.setdefault(pointer, Stream(self.log, pointer))

    def device_array(self, shape, dtype=np.float64, stream=None):
        made = np.empty(shape, dtype)
        self.log.append(("allocate", made.nbytes))
        if self.limit is not None and made.nbytes > self.limit:
            raise DriverError(2)
        return DeviceArray(made)

    def to_device(self, x, stream=None):
        made = self.device_array(x.shape, x.dtype)
        given = x.copy()
        if stream is None:
            made.host[...] = given
        else:
            stream.queue(lambda: np.copyto(made.host, given))
        return made

    def from_cuda_array_interface(self, found, owner=None, sync=True):
        assert not sync
        self.owners.append(owner)
        shown = {**found, "version": 3, "data": (found["data"][0], False)}
        shown.pop("stream", None)
        return DeviceArray(np.asarray(SimpleNamespace(__array_interface__=shown, owner=owner)))

    # kernels in Python, one point after the other

    def grid(self, axes):
        return self._point

    def jit(self, kernel):
        def configured(configuration):
            _, _, stream = configuration

            def launch(*arrays):
                def run():
                    for self._point in range(arrays[-1] + 3):  # the last block has threads without a point
                        kernel(*arrays)

                stream.queue(run)

            return launch

        return type("Jitted", (), {"__getitem__": lambda _, configuration: configured(configuration)})()
