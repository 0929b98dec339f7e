"""Derivatives in many directions: the program of one direction, batched, and run one batch at a time.

Input: a program and the mode; output: a program of the derivatives in all directions, such as a dense Jacobian.
The width of a batch is chosen so that its largest array fits into a cache.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from wengert.deferred import deferred
from wengert.program.derivatives import FIRST_OUTPUT, NotDerivable
from wengert.program.derive import source_transform
from wengert.program.ir.ir import Listing, c_strides, kind_of
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.verify import check_fields, expect, is_a, is_count, is_shape
from wengert.program.program import Program

schedule = deferred("wengert.program.report.schedule")

#: Limit on the elements of the largest array in a batch of directions (1 MiB of float64, an L2 cache).
MAX_BATCH_ELEMENTS = 1 << 17
#: Minimum number of directions in a batch, even if its arrays are larger.
MIN_BATCH_WIDTH = 16

_FLOAT = np.dtype(float)


class Swept(Program):
    """A derivative in many directions: the program of one direction, batched, and run one batch at a time.

    Parameters
    ----------
    program : Program
    argnums : int
    by_rows : bool
        Whether directions are cotangents; they are tangents otherwise.
    count : int, optional
        Number of directions; by default the size of the result (by rows) or of the argument.
    name : str
    at_once : int, optional
        Limit on the directions of a batch; by default as many as fit into a cache.
    """

    _directs_units = False  # whether the directions are the unit vectors, in order

    def __init__(self, program, argnums, by_rows, name, count=None, at_once=None):
        code, y = program._differentiable("jacobian")
        number = program._input("jacobian", argnums)
        self._dtype, self._x, _ = kind_of(code, code.inputs[number])
        of_result, self._y, _ = kind_of(code, y)
        self._result_dtype = of_result
        self._by_rows = by_rows
        self._entries = np.result_type(of_result, self._dtype) if of_result.kind == "c" else self._dtype
        self._one = program.vjp(argnums) if by_rows else program.jvp(argnums)
        self._number = program._form.direction
        super().__init__(
            name, self._one._listing, program._form, FIRST_OUTPUT, program._exact, program._example, program._floats
        )
        self._disabled = program._disabled
        self._count = math.prod(self._lines) if count is None else count
        self._chunks = max(1, -(-self._count // (at_once or self._most_at_once())))
        self._width = -(-self._count // self._chunks)

    def _check_parts(self, verifier):
        super()._check_parts(verifier)
        counts = dict.fromkeys(("_number", "_count", "_chunks", "_width"), is_count)
        dtypes = dict.fromkeys(("_dtype", "_entries", "_result_dtype"), is_a(np.dtype))
        check_fields(self, {"_one": Program, "_x": is_shape, "_y": is_shape, "_by_rows": bool, **counts, **dtypes})
        verifier.check(self._one)
        code, one = self._listing, self._one._listing
        expect(one is code and len(code.outputs) == 2, "its IR differs from that of its program for one direction")
        expect(self._number < len(code.inputs), "its direction is not an input")
        types = [kind_of(code, v)[1] for v in (code.inputs[self._number], *code.outputs)]
        right = types == [self._lines, self._y, self._x if self._by_rows else self._y]
        expect(right, "its directions have another shape")
        expect(self._dtype.kind in "fc" and self._entries.kind in "fc", "its derivatives are not floats")
        expect(self._count <= max(1, math.prod(self._x), math.prod(self._y)), "it has too many directions")
        right = self._chunks >= 1 and self._width == -(-self._count // self._chunks)
        expect(right, "the number or size of its batches of directions is wrong")

    def _exampled(self):
        inputs = self._listing.inputs
        return inputs[: self._number] + inputs[self._number + 1 :]

    @property
    def _lines(self):
        """Shape of a direction."""
        return self._y if self._by_rows else self._x

    def _most_at_once(self):
        """Return the batch size for which the largest batched arrays fit into a cache; 1 if values must be exact."""
        if self._exact or "batching" in self._disabled:
            return 1
        code = self._listing
        many = source_transform.depends(code, [v for v in code.inputs if code.a[v] == self._number])
        largest = max([math.prod(kind_of(code, v)[1]) for v in range(len(code)) if many[v]], default=1)
        return max(MIN_BATCH_WIDTH, MAX_BATCH_ELEMENTS // max(1, largest))

    def _wide(self):
        """Return the IR batched over directions."""
        code = self._one._derivative_only()
        if self._width < 2:
            return code
        are_units = self._directs_units and self._width == self._count
        return self._passed("batch", code, batch=([self._number], self._width, self._one._example, are_units)).code

    def tiered(self, tier):
        made = super().tiered(tier)
        made._one = self._one.tiered(tier)
        return made

    def _lowering(self):
        code = self._memoised("wide", self._wide)
        return self._passed("run batch", code, runs=self._chunks)

    def _differentiable(self, word):
        raise NotDerivable(
            f"{word}({self._name}): this program computes a matrix row by row, and has no derivative: record the "
            "derivative function instead, wengert.record(wengert.jacobian(wengert.hessian(f)), x)"
        )

    @property
    def _output_shape(self):
        return self._y + self._x

    @property
    def _runs_per_call(self):
        return self._chunks

    @property
    def _operation_count(self):
        return self._chunks * sum(schedule.operations(self._lowered_ir()))

    @property
    def _estimated_time(self):
        return self._chunks * super()._estimated_time

    @property
    def _single_vm(self):
        return None

    @property
    def _execute(self):
        return functools.partial(self._into, self._vm.run)

    @property
    def _try_execute(self):
        return functools.partial(self._into, self._vm.attempt)

    def _into(self, run, leaves, out=None):
        found = self._filled(leaves, run)
        if out is None or type(found) is int:
            return found
        out[0][...] = found[0]
        return out

    def _filled(self, leaves, run):
        """Return the outputs, or the index of the guard that failed."""
        found, width = [], max(1, self._width)
        across = math.prod(self._x if self._by_rows else self._y)
        for outputs in self._outputs(leaves, run):
            if type(outputs) is int:
                return outputs
            found.append(outputs[0].reshape(width, across))
        products = found[0] if len(found) == 1 else np.concatenate(found)
        return [self._assembled(products[: self._count].astype(self._entries, copy=False))]

    def _outputs(self, leaves, run):
        """Yield the outputs of each run, or the index of the guard that failed."""
        for number in range(self._chunks):
            yield self._run_batch(number, leaves, run)

    def _run_batch(self, number, leaves, run):
        direction = self._memoised("directions", self._all_directions)[number]
        return run([*leaves[: self._number], direction, *leaves[self._number :]])

    def _all_directions(self):
        """Return the seeds of each run, the last padded with zeros.

        There is at least one run even without directions, so that guards are checked.
        """
        width, size = max(1, self._width), math.prod(self._lines)
        found = []
        for first in range(0, max(1, self._count), width):
            rows = self._directions(first, min(first + width, self._count))
            if len(rows) < width:
                rows = np.concatenate([rows, np.zeros((width - len(rows), size), self._dtype)])
            found.append(rows.reshape((width, *self._lines) if width > 1 else self._lines)[()])
        return found

    def _directions(self, first, stop):
        """Return directions `first` to `stop` as the rows of a matrix."""
        raise NotImplementedError

    def _assembled(self, products):
        """Return the result, given the derivatives in all directions as the rows of a matrix."""
        raise NotImplementedError


def _laid_out(code, v, shape):
    """Return a float64 value in C order, in another shape."""
    dtype, own, strides = kind_of(code, v)
    if strides is not None and own:
        v = code.place(-1, (0, own, c_strides(own, 8)), v, (dtype, own, None))
    if own == shape:
        return v
    if not own:
        return code.place(-1, (0, shape, c_strides(shape, 8)), v, (dtype, shape, None))
    return code.part(v, (0, shape, c_strides(shape, 8)), dtype)


class Stacked(Swept):
    """A dense Jacobian, by one pullback per row or one pushforward per column."""

    _directs_units = True

    def __init__(self, program, argnums, is_symmetric, name, by_rows, at_once=None):
        super().__init__(program, argnums, by_rows, name, at_once=at_once)
        self._is_symmetric = is_symmetric
        is_double = self._entries == self._dtype == self._result_dtype == _FLOAT
        self._is_whole = self._chunks == 1 and is_double  # one run yields the whole matrix

    def _check_parts(self, verifier):
        super()._check_parts(verifier)
        check_fields(self, {"_is_symmetric": bool, "_is_whole": bool})
        expect(not self._is_whole or self._chunks == 1, "it takes several runs")
        expect(self._count == math.prod(self._lines), "its number of directions is wrong")
        expect(not self._is_symmetric or self._x == self._y, "it is symmetric, but not square")

    def _lowering(self):
        return self._passed("run batch", self._whole_ir()) if self._is_whole else super()._lowering()

    @property
    def _single_vm(self):
        return self._vm if self._is_whole else None

    @property
    def _execute(self):
        return self._vm.run if self._is_whole else super()._execute

    @property
    def _try_execute(self):
        return self._vm.attempt if self._is_whole else super()._try_execute

    def _whole_ir(self) -> Listing:
        """Return the IR of the whole matrix, of shape ``y.shape + x.shape``, of a Jacobian that `_is_whole`."""
        return self._memoised("whole", self._made_whole)

    def _made_whole(self):
        wide, code, number = self._memoised("wide", self._wide), Listing(), self._number
        kinds = [kind_of(wide, v) for v in wide.inputs]
        if self._width < 2:
            direction = code.filled(1.0, self._lines)
        else:
            direction = code.constant_array(self._directions(0, self._count).reshape(kinds[number][1]))
        given = [direction if k == number else code.input(kind) for k, kind in enumerate(kinds)]
        found = code.inline(wide, [given[int(wide.a[v])] for v in wide.inputs])[0]
        across = math.prod(self._x if self._by_rows else self._y)
        found = _laid_out(code, found, (max(1, self._count), across))
        if not self._by_rows:
            view = 0, (across, self._count), (8, 8 * across)
            found = _laid_out(code, code.part(found, view, self._dtype), (across, self._count))
        if self._is_symmetric:
            kind = self._dtype, (across, across), None
            turned = _laid_out(code, code.part(found, (0, kind[1], (8, 8 * across)), self._dtype), kind[1])
            total = code.add(OPCODES["add"], kind, found, turned)
            found = code.add(OPCODES["multiply"], kind, total, code.filled(0.5, kind[1]))
        code.outputs = [_laid_out(code, found, self._y + self._x)]
        return code

    def _directions(self, first, stop):
        found = np.zeros((stop - first, self._count), self._dtype)
        found[np.arange(stop - first), np.arange(first, stop)] = 1.0
        return found

    def _assembled(self, products):
        found = products if self._by_rows else products.T
        if self._is_symmetric:
            found = found + found.T
            found *= 0.5
        return np.ascontiguousarray(found).reshape(self._y + self._x)[()]
