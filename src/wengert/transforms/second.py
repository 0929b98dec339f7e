"""Second derivatives and linear operators: Hessians, their products with vectors, and f linearised at a point.

All of them sweep one recording, forward with tangents and, for second derivatives, back over the tangents.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import leaves_like
from wengert.core.pullback import pull_back
from wengert.core.second import hessian_products, push_forward, symmetrise
from wengert.transforms.dense import Derivative, check_single_number, checked_chunk
from wengert.transforms.products import (
    as_directions,
    assemble_inputs,
    leaves_of_rows,
    Recording,
    shape_of,
    side_by_side,
)

#: bytes that the tangents and their adjoints of all numbers may take in one sweep: of scalars, which touch the few
#: directions that they depend on, and of arrays, in which matrix products want many directions
_SCALAR_BYTES = 1 << 25
_ARRAY_BYTES = 1 << 25


def directions_at_once(run: Recording, m: int) -> int:
    """How many of m directions are swept at once."""
    scalars, elements = 16 * (run.tape.size + 1), 16 * (run.tape.elements + 1)
    return min(m, max(1, min(_SCALAR_BYTES // scalars, _ARRAY_BYTES // elements)))


class Hessian(Derivative):
    """Hessian of a function with one scalar output; exactly symmetric."""

    word = "hessian"

    def __init__(self, f, argnums=0, value=False, has_aux=False, chunk=None):
        super().__init__(f, argnums, value, has_aux)
        self.chunk = checked_chunk(self.word, chunk)

    def __reduce__(self):
        return type(self), (self.f, self.argnums, self.with_value, self.has_aux, self.chunk)

    def of(self, run):
        check_single_number(run, "wengert.hessian of one element of it")
        inputs = run.inputs
        whole = symmetrise(self._rows(run, sum([x.size for x in inputs])))
        if len(inputs) == 1 and run.restore_inputs is None and self._single:
            return whole.reshape(inputs[0].shape * 2)
        ends = np.cumsum([0, *[x.size for x in inputs]])
        places = [(slice(first, last), x.shape) for first, last, x in zip(ends, ends[1:], inputs)]
        rows = []
        for i, shape in places:
            blocks = [whole[i, j].reshape(shape + other) for j, other in places]
            blocks = [block if block.ndim else block[()] for block in blocks]
            rows.append(assemble_inputs(run, blocks, self._single))
        return assemble_inputs(run, rows, self._single)

    def _rows(self, run, n):
        """Products with all n unit vectors, those of all inputs side by side."""
        k = self.chunk or directions_at_once(run, n)
        rows = np.empty((n, n), dtype=np.result_type(*[x.dtype for x in run.inputs])) if k < n else None
        for first in range(0, n, k or 1):
            last = min(first + k, n)
            found = hessian_products(run.tape, run.inputs, run.outputs[0], (first, last), last - first)
            part = side_by_side(found, last - first)
            if rows is None:
                return part
            rows[first:last] = part
        return np.empty((0, 0)) if rows is None else rows

    def _stack(self, parts):
        if any(np.ndim(item) or isinstance(item, dict) for row in parts for item in row):
            raise TypeError(f"{self.name}: argnums={self.argnums!r} needs numbers as arguments")
        return np.array(parts)


class HVP:
    """Products of the Hessian with vectors: a callable of the point, the vector and further arguments."""

    def __init__(self, f: Callable, argnums: Any = 0):
        self._recorder = Derivative(f, argnums)
        self._recorder.name = self._recorder.name.replace(Derivative.word, "hvp", 1)
        self.f = f

    def __reduce__(self):
        return type(self), (self.f, self._recorder.argnums)

    def __repr__(self):
        return self._recorder.name

    def __call__(self, x, v, *args, **kwargs):
        args = (x, *args)
        run = self._recorder._record(args, kwargs)
        try:
            check_single_number(run, "wengert.linearize(f, x)")
            single = self._recorder._single
            seeds = self._seeds(run, args, v)
            seeds, k, stacked = as_directions(seeds, [z.shape for z in run.inputs], run.name, "vector", "shape")
            found = self._products(run, seeds if stacked else [seed[None] for seed in seeds], k)
            found = [part if stacked else part[0] for part in found]
            return assemble_inputs(run, found, single)
        finally:
            run.close()

    def _seeds(self, run, args, v):
        """Leaves of `v`, which has the form of the differentiated arguments."""
        positions = self._recorder.positions(args)
        parts = [v] if self._recorder._single else list(v)
        if len(parts) != len(positions):
            raise ValueError(f"{run.name}: {len(parts)} vectors for {len(positions)} arguments")
        pairs = zip(positions, parts)
        return [leaf for position, part in pairs for leaf in leaves_like(args[position], part, run.name)]

    @staticmethod
    def _products(run, seeds, k):
        at_once = max(1, directions_at_once(run, k))
        parts = []
        for first in range(0, k, at_once):
            some = [seed[first : first + at_once] for seed in seeds]
            parts.append(hessian_products(run.tape, run.inputs, run.outputs[0], some, len(some[0])))
        if len(parts) == 1:
            return parts[0]
        return [np.concatenate(pieces) for pieces in zip(*parts)] if parts else [np.empty_like(s) for s in seeds]


class Linearize:
    """Value of a function at a point and its Jacobian there as a linear operator."""

    def __init__(self, f: Callable, argnums: Any = 0):
        self._recorder = Derivative(f, argnums)
        self._recorder.name = self._recorder.name.replace(Derivative.word, "linearize", 1)
        self.f = f
        self.__wrapped__ = f

    def __reduce__(self):
        return type(self), (self.f, self._recorder.argnums)

    def __repr__(self):
        return self._recorder.name

    def __call__(self, *args, **kwargs):
        run = self._recorder._record(args, kwargs)
        return run.value(), _Linearised(run).operator()


class _Linearised:
    """Products of the Jacobian and its transpose with columns of matrices, by sweeps of one recording."""

    def __init__(self, run: Recording):
        self._run = run
        self._lock = threading.Lock()
        self._outputs = [shape_of(y) for y in run.outputs]
        self._inputs = [x.shape for x in run.inputs]

    def operator(self):
        from scipy.sparse.linalg import LinearOperator

        shape = tuple(sum(map(math.prod, shapes)) for shapes in (self._outputs, self._inputs))
        return LinearOperator(
            shape,
            dtype=np.result_type(np.float32, *[x.dtype for x in self._run.inputs]),
            matvec=lambda v: self.forward(np.reshape(v, (-1, 1)))[:, 0],
            rmatvec=lambda u: self.backward(np.reshape(u, (-1, 1)))[:, 0],
            matmat=self.forward,
            rmatmat=self.backward,
        )

    def forward(self, columns):
        run = self._run

        def sweep(tangents, k):
            return push_forward(run.tape, run.inputs, run.outputs, tangents, k)

        return self._sweep(columns, self._inputs, sweep)

    def backward(self, columns):
        run = self._run

        def sweep(cotangents, k):
            return pull_back(run.tape, run.inputs, run.outputs, cotangents, k, True, False)

        return self._sweep(columns, self._outputs, sweep)

    def _sweep(self, columns, shapes, sweep):
        columns = np.asarray(columns)
        if columns.dtype.kind == "c":
            raise TypeError(f"{self._run.name}: the Jacobian is real: multiply real and imaginary parts one by one")
        n = columns.shape[1]
        at_once = max(1, directions_at_once(self._run, n))
        parts = []
        with self._lock:
            for first in range(0, n, at_once):
                rows = columns[:, first : first + at_once].T
                parts.append(side_by_side(sweep(leaves_of_rows(rows, shapes), len(rows)), len(rows)))
        return np.concatenate(parts).T if parts else np.empty((0, 0))

    def __del__(self):
        self._run.close()
