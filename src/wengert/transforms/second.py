"""Hessians, Hessian-vector products, and linearisation at a point.

All of them sweep one tape: forward with tangents and, for second derivatives, in reverse over the tangents.

Reference: Griewank and Walther (2008), Evaluating Derivatives, section 5.5. doi:10.1137/1.9780898717761
"""

from __future__ import annotations

import math
from _thread import allocate_lock  # `threading` takes 0.5 ms to import
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.containers import complex_output_message, leaves_like, plain_copy
from wengert.core.levels import outside, running
from wengert.core.modes.pullback import carried, pull_back
from wengert.core.operands.var import holds_traced
from wengert.core.rebind.rebind import rebound
from wengert.core.tape.tape import holds_complex
from wengert.deferred import deferred
from wengert.errors import ComplexValueError, LevelError
from wengert.transforms.dense import JVP, Gradient, Jacobian, check_single_number
from wengert.transforms.operators import Derivative, Operator, checked_chunk
from wengert.transforms.products import (
    Recording,
    as_directions,
    assemble_inputs,
    leaves_of_rows,
    push,
    shape_of,
    side_by_side,
    tangents,
)

modes = deferred("wengert.core.modes.second")

#: maximum bytes per sweep of the tangents and their adjoints, separately for scalars and for arrays. It may exceed a
#: cache: a scalar touches only the few directions it depends on, and matrix products are faster with many directions
MAX_SWEEP_BYTES = 1 << 25

def directions_at_once(run: Recording, m: int) -> int:
    """Number of directions per sweep for m directions."""
    return min(m, max(1, MAX_SWEEP_BYTES // (16 * (max(run.tape.size, run.tape.elements) + 1))))


#: "mixed" sweeps one tape; "forward" and "reverse" differentiate a gradient in that mode
_MODES = ("auto", "mixed", "forward", "reverse")


class Hessian(Derivative):
    """Hessian of a scalar-valued function, exactly symmetric; takes the arguments of the function.

    With ``out=``, it is written into that array.

    Attributes
    ----------
    fun : callable
        The function, which shares its evaluation with the Hessian at the same point.
    """

    word = "hessian"
    options = (*Derivative.options, "chunk", "mode")
    usual = {"mode": "auto"}
    sweeps = 2

    def __init__(self, f, argnums=0, value=False, has_aux=False, chunk=None, mode="auto"):
        super().__init__(f, argnums, value, has_aux)
        self.chunk = checked_chunk(self.word, chunk)
        if mode not in _MODES:
            raise ValueError(f"hessian: mode is one of {', '.join(map(repr, _MODES))}, not {mode!r}")
        self.mode = mode
        self._is_one_way = False  # whether a call found that the tape has no second-order sweep

    def _record(self, args, kwargs):
        """Record a tape to sweep; within another derivative or in other modes, nest two derivatives."""
        if self.mode in ("auto", "mixed") and not running.get() and not self._is_one_way:
            run = super()._record(args, kwargs)
            if not run.tape.is_one_way:
                return run
            self._is_one_way = True
            run.close()
        return self._composed(args, kwargs)

    def _composed(self, args, kwargs):
        mode = "reverse" if self.mode == "reverse" else "forward"
        inner = Gradient(self.f, self.argnums, True, self.has_aux)
        if self.mode == "forward":
            inner = Jacobian(_scalar_valued(self), self.argnums, True, self.has_aux, None, "forward")

        def gradient(*args, **kwargs):
            y, slope, *aux = inner(*args, **kwargs)
            return slope, (y, *aux)

        outer = Jacobian(gradient, self.argnums, False, True, self.chunk, mode)
        rows, (y, *aux) = outer(*args, **kwargs)
        return _Composed(rows, y, *aux)

    def _parts(self, run):
        if not isinstance(run, _Composed):
            return super()._parts(run)
        return (*((run.y,) if self.with_value else ()), run.rows, *((run.aux,) if self.has_aux else ()))

    def from_recording(self, run):
        if isinstance(run, _Composed):
            return run.rows
        check_single_number(run, "wengert.hessian of one element of it")
        inputs = run.inputs
        whole = modes.symmetrise(self._rows(run, sum([x.size for x in inputs])))
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
        """Hessian with respect to the concatenated inputs, from products with all n unit vectors."""
        k = self.chunk or directions_at_once(run, n)
        rows = np.empty((n, n), dtype=np.result_type(*[x.dtype for x in run.inputs])) if k < n else None
        for first in range(0, n, k or 1):
            last = min(first + k, n)
            found = modes.hessian_products(run.tape, run.inputs, run.outputs[0], (first, last), last - first)
            part = side_by_side(found, last - first)
            if rows is None:
                return part
            rows[first:last] = part
        return np.empty((0, 0)) if rows is None else rows

    def _stack(self, parts):
        if any(np.ndim(item) or isinstance(item, dict) for row in parts for item in row):
            raise TypeError(f"{self.name}: argnums={self.argnums!r} requires scalar arguments")
        return np.array(parts)


class _Composed:
    """A Hessian computed as the Jacobian of a gradient; takes the place of a recording."""

    def __init__(self, rows, y, aux=None):
        self.rows = _symmetric(rows)
        self.y = y
        self.aux = aux
        self.tape = self

    def value(self):
        return self.y

    def close(self):
        pass


def _symmetric(rows):
    """Mean of a Hessian of one array and its transpose; blocks of containers are returned unchanged."""
    if not isinstance(rows, (np.ndarray, np.generic)):
        return rows
    half = np.ndim(rows) // 2
    return 0.5 * (rows + np.transpose(rows, (*range(half, 2 * half), *range(half))))


def _scalar_valued(hessian):
    """Wrap f to check that it returns a scalar."""

    def checked(*args, **kwargs):
        y = rebound(hessian.f, True)(*args, **kwargs)
        if np.ndim(y[0] if hessian.has_aux else y):
            raise TypeError(f"{hessian.name}: the function must return a single number: use wengert.jacobian(f)")
        return y

    return checked


class HVP(Operator):
    """Product of the Hessian of a function with a vector.

    The vector `v` follows the first argument of the function, as ``scipy.optimize.minimize(hessp=)`` passes it.
    """

    word = "hvp"
    directions = ("v",)
    sweeps = 2
    takes_complex = True

    def __call__(self, x, v, *args, **kwargs):
        args = (x, *args)
        if running.get():  # within another derivative
            return self._composed(args, v, kwargs)
        run = self._record(args, kwargs)
        try:
            if run.tape.is_one_way:
                return self._composed(args, v, kwargs)
            check_single_number(run, "wengert.linearize(f, x)")
            single = self._single
            seeds = self._seeds(run, args, v)
            seeds, k, stacked = as_directions(seeds, [z.shape for z in run.inputs], run.name, "vector", "shape")
            found = self._products(run, seeds if stacked else [seed[None] for seed in seeds], k)
            found = [part if stacked else part[0] for part in found]
            return assemble_inputs(run, found, single)
        finally:
            run.close()

    def _composed(self, args, v, kwargs):
        gradient = Gradient(self.f, self.argnums)
        return JVP(gradient, self.argnums)(args[0], v, *args[1:], **kwargs)[1]

    def _seeds(self, run, args, v):
        """Leaves of `v`, which has the structure of the differentiated arguments."""
        positions = self.positions(args)
        parts = [v] if self._single else list(v)
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
            parts.append(modes.hessian_products(run.tape, run.inputs, run.outputs[0], some, len(some[0])))
        if len(parts) == 1:
            return parts[0]
        return [np.concatenate(pieces) for pieces in zip(*parts)] if parts else [np.empty_like(s) for s in seeds]


class Products(HVP):
    """`hvp` for solvers that request many products at a point: they share one recording.

    Only the point is compared; further arguments must stay the same.
    """

    options = ()
    _run: Recording | None = None
    _at = None

    def __call__(self, x, v, *args, **kwargs):
        if running.get():
            return super().__call__(x, v, *args, **kwargs)
        if self._run is None or not np.array_equal(self._at, x):
            self._close()
            self._run, self._at = self._record((x, *args), kwargs), np.copy(x)
            check_single_number(self._run, "wengert.linearize(f, x)")
        if self._run.tape.is_one_way:
            return self._composed((x, *args), v, kwargs)
        return self._products(self._run, [np.asarray(v, dtype=float)[None]], 1)[0][0]

    def _close(self):
        if self._run is not None:
            self._run.close()

    __del__ = _close


class Linearize(Operator):
    """Value of a function and its Jacobian as a linear operator, ``(y, J)``; takes the arguments of the function."""

    word = "linearize"
    options = ("argnums",)

    def __init__(self, f: Callable, argnums: Any = 0):
        super().__init__(f, argnums)
        self.__wrapped__ = f

    def __call__(self, *args, **kwargs):
        if any(map(holds_traced, (*args, *kwargs.values()))):
            raise LevelError(
                f"{self.name}: a LinearOperator carries no derivative, and the point is traced by "
                f"{running.get()[-1].level.name}: use wengert.jvp and wengert.vjp there"
            )
        with outside():
            run = self._record(args, kwargs)
        if any(map(holds_complex, run.outputs)):
            run.close()
            raise ComplexValueError(complex_output_message(run.name))
        again = None
        if run.tape.is_one_way:  # no forward sweep: evaluate f with tangents
            args, kwargs = plain_copy(args), plain_copy(kwargs)

            def again(tangents, k):
                return self._pushed(args, kwargs, tangents, k)

        return run.value(), _Linearised(run, again).operator()

    def _pushed(self, args, kwargs, seeds, k):
        """Tangents of the outputs, from an evaluation of f."""
        with outside():
            run = push(
                self.f, args, kwargs, self.positions(args), False, self.name, k,
                lambda level, leaf, i: carried(level, leaf, seeds[i]),
            )  # fmt: skip
            try:
                return [np.copy(tangents(run, y)) for y in run.outputs]
            finally:
                run.close()


class _Linearised:
    """Products of the Jacobian and its transpose with the columns of a matrix, by sweeps over one tape."""

    def __init__(self, run: Recording, push: Callable | None):
        self._run = run
        self._push = push or (lambda seeds, k: modes.push_forward(run.tape, run.inputs, run.outputs, seeds, k))
        self._lock = allocate_lock()
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
        return self._sweep(columns, self._inputs, self._push)

    def backward(self, columns):
        run = self._run

        def sweep(cotangents, k):
            return pull_back(run.tape, run.inputs, run.outputs, cotangents, k, True, False)

        return self._sweep(columns, self._outputs, sweep)

    def _sweep(self, columns, shapes, sweep):
        columns = np.asarray(columns)
        if columns.dtype.kind == "c":
            raise TypeError(f"{self._run.name}: the Jacobian is real: multiply real and imaginary parts separately")
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
