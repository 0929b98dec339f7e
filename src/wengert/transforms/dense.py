"""Dense gradients, Jacobians and first derivatives as callables: `grad`, `jacobian`, `derivative`, `jvp`, `vjp`.

A Jacobian is computed by rows, sweeping one tape with k cotangents at a time, or by columns, evaluating f with k
tangents at a time. `wengert.transforms.costs` chooses.

Reference: Griewank and Walther (2008), Evaluating Derivatives, chapter 3. doi:10.1137/1.9780898717761
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.dispatch.checks import check_defined
from wengert.core.modes.pullback import carried, carried_identity, columns, pull_back, quick_push
from wengert.core.operands.var import holds_traced, plain
from wengert.core.rebind.new_arrays import may_rerun, rerun
from wengert.core.rebind.rebind import rebound
from wengert.core.tape.tape import holds_complex
from wengert.errors import NonSmoothError, TracedValueError
from wengert.transforms.analytic import (
    MAX_COMPLEX_ELEMENTS,
    check_analytic,
    check_complex_leaf,
    complex_rows,
    holomorphic_jacobians,
    holomorphic_rows,
    push_complex,
)
from wengert.transforms.costs import MAX_TANGENTS, Plan, is_forward, is_forward_at_once
from wengert.transforms.operators import Derivative, Operator, checked_chunk
from wengert.transforms.products import (
    Directions,
    Pullback,
    Recording,
    assemble_inputs,
    push,
    record,
    resumed,
    shape_of,
    size_of_inputs,
    tangents,
)

#: bytes of adjoints per sweep of a Jacobian, about the size of a second-level cache
CACHE_BYTES = 1 << 21

#: directions per sweep that are worth while even if their adjoints exceed `CACHE_BYTES`, since they share the overhead
#: of the sweep; the limit in bytes is then `MAX_SWEEP_BYTES`
MIN_DIRECTIONS = 16
MAX_SWEEP_BYTES = 1 << 28


def check_single_number(run: Recording, instead: str) -> None:
    """Raise unless the function returned a scalar."""
    outputs = run.outputs
    if len(outputs) != 1 or shape_of(outputs[0]) != ():
        several = f"it returned a container of {len(outputs)} arrays"
        got = f"its output has shape {shape_of(outputs[0])}" if len(outputs) == 1 else several
        raise TypeError(f"{run.name}: the function must return a single number, {got}: use {instead}")


def directions_at_once(run: Recording, m: int) -> int:
    """Number of directions per sweep for m directions: as many as fit, since each sweep passes over the whole tape."""
    row = 8 * (run.tape.size + run.tape.elements + 1)
    if m * row <= CACHE_BYTES:
        return m
    return min(m, max(1, CACHE_BYTES // row, min(MIN_DIRECTIONS, MAX_SWEEP_BYTES // row)))


class Gradient(Derivative):
    """Gradient of a scalar-valued function; takes the arguments of the function.

    With ``out=``, it is written into that array.

    Attributes
    ----------
    fun : callable
        The function, which shares its evaluation with the gradient at the same point.
    """

    word = "grad"
    options = (*Derivative.options, "holomorphic")
    takes_complex = is_gradient = True

    def __init__(self, f, argnums=0, value=False, has_aux=False, holomorphic=False):
        super().__init__(f, argnums, value, has_aux)
        self.holomorphic = holomorphic
        self._size = -1 if holomorphic else 0

    def from_recording(self, run):
        check_single_number(run, "wengert.jacobian(f), or wengert.vjp(f, x) with a seed")
        if self.holomorphic:
            rows = [row[0] for row in holomorphic_rows(run, 0, 1, True)]
            return assemble_inputs(run, rows, self._single)
        if holds_complex(run.outputs[0]):
            raise TypeError(
                f"{run.name}: the function returned a complex number, which has no gradient: pass holomorphic=True "
                "for the derivative of an analytic function, or take its real part or absolute value"
            )
        found = pull_back(run.tape, run.inputs, run.outputs, [1.0], 1, False, True)
        return found[0] if run.restore_inputs is None and self._single else assemble_inputs(run, found, self._single)


MODES = ("auto", "forward", "reverse")


class Jacobian(Derivative):
    """Jacobian of a function, by rows or by columns; takes the arguments of the function.

    With ``out=``, it is written into that array.

    Attributes
    ----------
    fun : callable
        The function, which shares its evaluation with the Jacobian at the same point, as in
        ``root(J.fun, x0, jac=J)``.
    plan : Plan or None
        Mode and number of sweeps of the last call.
    """

    word = "jacobian"
    public = ("fun", "plan")
    options = (*Derivative.options, "chunk", "mode", "holomorphic")
    usual = {"mode": "auto"}

    def __init__(self, f, argnums=0, value=False, has_aux=False, chunk=None, mode="auto", holomorphic=False):
        super().__init__(f, argnums, value, has_aux)
        self.holomorphic = self.takes_complex = holomorphic
        if mode not in MODES:
            raise ValueError(f"jacobian: mode is one of {', '.join(map(repr, MODES))}, not {mode!r}")
        self.chunk = checked_chunk(self.word, chunk)
        self.mode = mode
        self.plan: Plan | None = None  # plan of the last call
        self._m = 0  # number of output elements in the last call

    def _record(self, args, kwargs):
        """Evaluate f, recorded or with tangents; the output size of the last call decides in advance."""
        if self.holomorphic and self.mode != "reverse":
            return self._push_complex(args, kwargs)
        positions = self.positions(args)
        if self.mode != "reverse":
            n = size_of_inputs(args, positions)
            if self._is_forward(n, self._m, False):
                return self._push(args, kwargs, positions, n)
        run = record(self.f, args, kwargs, positions, self.has_aux, self.name, 1, self.takes_complex)
        return self._in_cheaper_mode(run, args, kwargs)

    def _in_cheaper_mode(self, run, args, kwargs):
        if self.mode == "auto":
            n = sum([x.size for x in run.inputs])
            self._m = sum([(1 + holds_complex(y)) * math.prod(shape_of(y)) for y in run.outputs])  # rows to sweep
            if self._is_forward(n, self._m, True):
                run.close()
                positions = self.positions(args)
                return self._push(args, kwargs, positions, n, "; f was also recorded, to determine m")
        return run

    def _may_use_quick(self, args):
        if self.mode == "forward" or self.chunk is not None or self.holomorphic:
            return False
        if self.mode == "reverse":
            return True
        x = args[self.argnums] if -len(args) <= self.argnums < len(args) else None
        return type(x) is np.ndarray and self._m == 0 and not is_forward_at_once(x.size)

    def _accept(self, n, m, size):
        """Accept reverse mode in one sweep for this shape, and store the shape so that the next call need not check."""
        if m == 0 or 8 * m * (size + 1) > CACHE_BYTES or (self.mode == "auto" and self._is_forward(n, m, False)):
            return False
        self._m = m
        self._n, self._size = n, m
        self.plan = Plan("reverse", n, m, 1, 1, m, self._reason("reverse"))
        return True

    def _is_forward(self, n, m, recorded):
        if self.mode == "forward":
            return True
        width = self.chunk or MAX_TANGENTS
        return is_forward_at_once(n, width) if m == 0 else is_forward(n, m, width, recorded)

    def _push(self, args, kwargs, positions, n, recorded=""):
        """Compute columns by evaluating f with k tangents at a time; value and aux are those of the first evaluation.

        `recorded` is a remark for the plan if `f` was recorded before to count its outputs.
        """
        k = min(self.chunk or MAX_TANGENTS, n)
        if n <= k:
            kept = push(self.f, args, kwargs, positions, self.has_aux, self.name, n, _Identity(0))
            kept.matrices = self._columns(kept)
        else:
            kept = None
            parts = []
            for first in range(0, n, k):
                width = min(k, n - first)
                run = push(self.f, args, kwargs, positions, self.has_aux, self.name, width, _Identity(first))
                parts.append(self._columns(run))
                if kept is None:
                    kept = run
                else:
                    run.close()
            kept.matrices = [np.concatenate(found, axis=1) for found in zip(*parts)]
        self._m = sum([np.shape(matrix)[0] for matrix in kept.matrices])
        runs = (-(-n // k) if k else 1) + bool(recorded)
        self.plan = Plan("forward", n, self._m, runs, 0, k, self._reason("forward") + recorded)
        return kept

    def _columns(self, run):
        found = [columns(run.level, y) for y in run.outputs]
        try:
            for matrix in found:
                check_defined(run.level.doubtful, matrix)
        except NonSmoothError:
            run.close()
            raise
        return found

    def _push_complex(self, args, kwargs):
        """Compute columns of a holomorphic function."""
        run = push_complex(self, args, kwargs, self.chunk)
        n = sum([x.size for x in run.inputs])
        k = min(self.chunk or MAX_COMPLEX_ELEMENTS, n)
        m = sum([len(along) for along, _ in run.matrices])
        self.plan = Plan("forward", n, m, -(-n // k) if k else 1, 0, 2 * k, "holomorphic=True was requested")
        return run

    def _reason(self, mode):
        return f"mode={mode!r} was requested" if self.mode != "auto" else "lower estimated cost"

    def from_recording(self, run):
        shapes = [shape_of(y) for y in run.outputs]
        if run.matrices is not None:
            if self.holomorphic:
                run.matrices = holomorphic_jacobians(run)
            return self._from_columns(run, shapes)
        if len(run.outputs) == 1:
            shape = shapes[0]
            if len(shape) == 1 and run.restore_output is None and run.restore_inputs is None and self._single:
                return self._rows(run, shape[0])[0]
            rows = self._rows(run, math.prod(shape))
            block = self._block(run, rows, shape)
            return run.restore_output([block]) if run.restore_output else block
        rows = self._rows(run, sum([math.prod(shape) for shape in shapes]))
        blocks = []
        first = 0
        for y, shape in zip(run.outputs, shapes):
            last = first + math.prod(shape)
            part = [row[first:last] for row in rows]
            if not (self.holomorphic or holds_complex(y)):
                part = [row.real for row in part]
            blocks.append(self._block(run, part, shape))
            first = last
        return run.restore_output(blocks)

    def _from_columns(self, run, shapes):
        """Jacobian blocks from a matrix for each output, whose columns correspond to all input elements."""
        if len(shapes) == len(run.inputs) == 1 and run.restore_output is None and run.restore_inputs is None:
            matrix = _of_type(run.matrices[0], run.inputs[0].dtype)
            shape = shapes[0] + run.inputs[0].shape
            matrix = matrix if matrix.shape == shape else np.reshape(matrix, shape)
            return matrix if self._single else (matrix,)
        blocks = []
        for matrix, shape in zip(run.matrices, shapes):
            lines = []
            first = 0
            for x in run.inputs:
                last = first + math.prod(x.shape)
                part = _of_type(matrix[:, first:last], x.dtype)
                lines.append(np.reshape(part, (np.shape(matrix)[0], *x.shape)))
                first = last
            blocks.append(self._block(run, lines, shape))
        return run.restore_output(blocks) if run.restore_output else blocks[0]

    def _rows(self, run, m):
        """Derivatives of all m output elements, an array of shape (m, *S) for each input."""
        k = self.chunk or directions_at_once(run, m)
        self._n = self._size = -1
        n = sum([math.prod(x.shape) for x in run.inputs])
        recorded = self.mode == "auto" and self._is_forward(n, m, False)
        reason = self._reason("reverse") + (", given the tape; the next call uses forward mode" if recorded else "")
        is_complex = any(map(holds_complex, run.outputs))
        self.plan = Plan("reverse", n, m, 1, (1 + is_complex) * (-(-m // k) if k else 0), k, reason)
        sweep = holomorphic_rows if self.holomorphic else complex_rows if is_complex else rows
        if 0 < m <= k:
            return sweep(run, 0, m, True)
        parts = []
        for first in range(0, m, k or 1):
            last = min(first + k, m)
            parts.append(sweep(run, first, last, last == m))
        if not parts:
            return [np.empty((0, *x.shape), dtype=x.dtype) for x in run.inputs]
        return [np.concatenate(found) for found in zip(*parts)]

    def _block(self, run, rows, shape):
        """Rows of one output, with the shape of the output and the structure of the arguments."""
        if len(shape) != 1:
            rows = [np.reshape(row, shape + row.shape[1:]) for row in rows]
        rows = [row if row.ndim else row[()] for row in rows]      # 0-d arrays become scalars
        return assemble_inputs(run, rows, self._single)


def rows(run, first, last, consume):
    """Rows `first` to `last` of the Jacobian, an array for each input."""
    if run.level.depth and len(run.outputs) == 1 and shape_of(run.outputs[0]) == ():
        # A sweep without an axis for rows takes fewer calls, all of which the enclosing derivative records.
        return [row[np.newaxis] for row in pull_back(run.tape, run.inputs, run.outputs, [1.0], 1, False, consume)]
    return pull_back(run.tape, run.inputs, run.outputs, (first, last), last - first, True, consume)


def _of_type(matrix, dtype):
    """Convert a matrix to the dtype of the inputs unless it is complex, and to C order unless it is traced."""
    dtype = matrix.dtype if matrix.dtype.kind == "c" else dtype
    if holds_traced(matrix):
        return matrix if matrix.dtype == dtype else matrix.astype(dtype)
    return np.ascontiguousarray(matrix, dtype=dtype)


class VJP(Operator):
    """Value of a function and its pullback, ``(y, pullback)``; takes the arguments of the function.

    ``pullback(ybar)`` multiplies a cotangent by the transposed Jacobian.
    """

    word = "vjp"
    takes_complex = True

    def __init__(self, f: Callable, argnums: Any = 0, has_aux: bool = False):
        super().__init__(f, argnums, has_aux)
        self.__wrapped__ = f  # so that inspect.signature returns that of f

    def __call__(self, *args, **kwargs):
        run = self._record(args, kwargs)
        pullback = Pullback(run, self._single)
        return (run.value(), pullback, run.aux) if self.has_aux else (run.value(), pullback)


class _Identity:
    """Seeds inputs with rows of the identity over all input elements, from row `first` on."""

    def __init__(self, first):
        self._first = self._next = first

    def __call__(self, level, leaf, i):
        first = self._first if i == 0 else self._next  # f may be run again
        self._next = first - np.size(leaf)
        return carried_identity(level, leaf, first)


class JVP(Operator):
    """Value of a function and its derivative along a direction, ``(y, dy)``.

    The direction `v` follows the first argument of the function.
    """

    word = "jvp"
    directions = ("v",)

    def __call__(self, x, v, *args, **kwargs):
        args = (x, *args)
        found = None
        if self._bare and self._positions == (0,):  # fast path
            try:
                found = quick_push(rebound(self.f, True), self.name, args, kwargs, v)
            except TracedValueError as error:
                if not may_rerun(error):
                    raise
                return rerun(error, self, x, v, *args[1:], **kwargs)
            if found is not None and len(found) == 2:
                return found
        if found is not None:
            run, k, is_stacked = resumed(self.f, *found, self.name, args, kwargs, (0,)), 1, False
        else:
            positions = self.positions(args)
            directions = Directions(args, positions, v, self._single, self.name)
            k, is_stacked = directions.k, directions.stacked
            run = push(self.f, args, kwargs, positions, self.has_aux, self.name, max(1, k), directions, True)
        try:
            found = [np.copy(tangents(run, y)) for y in run.outputs]
            for t in found:
                check_defined(run.level.doubtful, t)
            found = [t[:k] for t in found] if is_stacked else [t[0] for t in found]
            dy = run.restore_output(found) if run.restore_output else found[0]
            return (run.value(), dy, run.aux) if self.has_aux else (run.value(), dy)
        finally:
            run.close()


class Elementwise(Derivative):
    """Derivative of a function of one scalar, or of an elementwise function; takes the arguments of the function.

    Attributes
    ----------
    fun : callable
        The function, which shares its evaluation with the derivative at the same point.
    """

    word = "derivative"
    options = (*Derivative.options, "order", "holomorphic")
    usual = {"order": 1}

    def __init__(self, f, argnums=0, value=False, has_aux=False, order=1, holomorphic=False):
        super().__init__(f, argnums, value, has_aux)
        self.holomorphic = holomorphic
        if not isinstance(order, (int, np.integer)) or order < 1:
            raise ValueError(f"derivative: order must be a positive integer, not {order!r}")
        if not self._single:
            raise TypeError(f"derivative: argnums must be a single position, not {argnums!r}")
        self.order = int(order)
        if holomorphic and order > 1:
            raise ValueError("derivative: holomorphic=True gives the first derivative only, not order > 1")
        self._random = np.random.default_rng(1964)

    def _record(self, args, kwargs):
        """Evaluate with tangents: one direction for a scalar, two for an array (see `_seed`)."""
        positions = self.positions(args)
        k = 1 if np.ndim(args[positions[0]]) == 0 else 2
        if self.holomorphic:
            k, options = k + 1, (self._complex_seed, True)
            return push(self.f, args, kwargs, positions, self.has_aux, self.name, k, *options)
        if self.order == 1:
            return push(self.f, args, kwargs, positions, self.has_aux, self.name, k, self._seed)
        return push(self._lower_order, args, kwargs, positions, True, self.name, k, self._seed)

    @property
    def _lower_order(self):
        """Derivative of the next lower order, as a function that returns the value of `f` and aux as its own aux."""
        inner = Elementwise(self.f, self.argnums, True, self.has_aux, self.order - 1)

        def lower(*args, **kwargs):
            y, derivative, *aux = inner(*args, **kwargs)
            return derivative, (y, *aux)

        return lower

    def _seed(self, level, leaf, i):
        """Seed with ones; for an array also with powers of 2 in random order, which show whether elements are mixed."""
        if np.ndim(leaf) == 0:
            return carried(level, leaf, np.ones(1, dtype=leaf.dtype))
        weights = self._weights(leaf)
        return carried(level, leaf, np.stack([np.ones_like(weights), weights]))

    def _complex_seed(self, level, leaf, i):
        """Seed as `_seed` does, and also with i."""
        check_complex_leaf(self.name, leaf)
        ones = np.ones_like(leaf)
        seeds = [ones, 1j * ones] if np.ndim(leaf) == 0 else [ones, self._weights(leaf), 1j * ones]
        return carried(level, leaf, np.stack(seeds))

    def _weights(self, leaf):
        powers = self._random.permutation(np.size(leaf)) % 40 - 20
        return np.reshape(2.0**powers, np.shape(leaf)).astype(leaf.dtype)

    def from_recording(self, run):
        if len(run.inputs) != 1:
            raise TypeError(f"{self.name}: expected one number or array, got a container of {len(run.inputs)} arrays")
        found = [self._checked(run, y) for y in run.outputs]
        return run.restore_output(found) if run.restore_output else found[0]

    def _checked(self, run, y):
        t = tangents(run, y)
        check_defined(run.level.doubtful, t)
        (x,) = run.inputs
        if self.holomorphic:
            along, across = plain(t[0]), plain(t[-1])
            check_analytic(self.name, np.reshape(along, (-1, 1)), np.reshape(across, (-1, 1)))
        if np.ndim(x) == 0:
            return t[0]
        found, weights = plain(t), plain(tangents(run, x))[1]
        is_elementwise = shape_of(y) == x.shape and np.allclose(
            found[1], weights * found[0], 8 * np.finfo(weights.dtype).eps, 0.0, equal_nan=True
        )
        if not is_elementwise:
            raise ValueError(
                f"{self.name}: the function is not elementwise, or changes the shape of its argument: "
                "derivative() is for elementwise functions; use wengert.jacobian(f, x)"
            )
        return t[0]

    def _parts(self, run):
        result = self.from_recording(run)
        y, aux = (run.value(), run.aux) if self.order == 1 else (run.aux[0], run.aux[1:])
        aux = (aux,) if self.order == 1 else tuple(aux)
        return (*((y,) if self.with_value else ()), result, *(aux if self.has_aux else ()))
