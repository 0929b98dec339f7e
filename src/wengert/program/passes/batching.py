"""Batches a program over several points: values that depend on the batched inputs get a leading axis.

Input: a program and the inputs to batch; output: the batched program.
A scalar becomes a 1-D array, an array a stacked array, and an instruction operates on all points at once; values that
depend on no batched input are computed once.
A NumPy call becomes one call on the stacked arrays if the function supports that (`transforms.stacked`), otherwise one
call per point.
A callee may supply the batched IR itself in a method ``batched(call, is_batched, count)``: its inputs are the operands,
with the leading axis where `is_batched` is true, and its output has that axis; it may return None.
Values equal those at each point, up to the rounding of sums and matrix products.

References
----------
Frostig, Johnson and Leary (2018), Compiling machine learning programs via high-level tracing, SysML.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.program.ir.call import Operand, product_of
from wengert.program.ir.call_rules import filled
from wengert.program.ir.ir import Listing, c_strides, kind_of, operands, whole_view
from wengert.program.ir.opcode_table import ELEMENTWISE, OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import evaluated, example_of, of_type
from wengert.program.tracing.trace import listed
from wengert.transforms import stacked

#: ``**`` on scalars has a different opcode from ``power`` on arrays
_POW, _POWER = OPCODES["**"], OPCODES["power"]
_ARRAY_OPCODE = {_POW: _POWER, Op.PARTIAL + 2 * _POW: Op.PARTIAL + 2 * _POWER,
                 Op.PARTIAL + 2 * _POW + 1: Op.PARTIAL + 2 * _POWER + 1}  # fmt: skip


def batch_program(code: Listing, numbers, count: int, example: list, are_units: bool = False) -> Listing:
    """Return the program batched over `count` points, at least two.

    Parameters
    ----------
    code : Listing
    numbers : collection of int
        Indices of the batched inputs.
    count : int
        Number of points, the length of the leading axis.
    example : list
        Inputs at one point, at which calls are traced.
    are_units : bool
        The only batched input is the identity matrix: it has `count` elements, and at point j it is unit vector j.
        It is then not read, and products with it become rows or columns of the other factor.

    Returns
    -------
    Listing
        All outputs have the leading axis.
    """
    return _Batcher(code, frozenset(numbers), count, example, are_units).run()


def _depends_on(code: Listing, numbers) -> list[bool]:
    """Return which values depend on the inputs `numbers`, whether differentiably or not."""
    found: list[bool] = []
    for i, (op, a) in enumerate(zip(code.op.tolist(), code.a.tolist())):
        found.append(a in numbers if op == Op.INPUT else any(found[v] for v in operands(code, i)))
    return found


class _Batcher:
    """Builds the new program; ``of[v]`` is the new id of value v, with a leading axis if ``is_batched[v]``."""

    def __init__(self, code, numbers, count, example, are_units):
        self.code, self.count, self.example = code, count, example
        self.new = Listing()
        self.of = np.full(len(code), -1, dtype=np.int32)
        self.is_batched = np.array(_depends_on(code, numbers), dtype=bool)
        self.are_units = are_units
        self.units: set = set()  # values that hold the unit vectors, in element order
        self.values: list = []  # values at the example, computed on demand for calls

    def run(self):
        code, new = self.code, self.new
        columns = (code.op.tolist(), code.a.tolist(), code.b.tolist(), code.c.tolist())
        inputs: dict = {}
        start = 0  # first instruction that is not copied yet
        for i in np.flatnonzero(self.is_batched).tolist():
            op, a, b, c = [column[i] for column in columns]
            new.take(code, np.arange(start, i, dtype=np.int32), self.of)
            start = i + 1
            if op == Op.INPUT:
                inputs[i] = new.add(Op.INPUT, self.type(i), a)
                self.of[i] = self.unit(i) if self.are_units and self.type(i)[2] is None else inputs[i]
            else:
                self.of[i] = self.instruction(op, i, a, b, c)
        new.take(code, np.arange(start, len(code), dtype=np.int32), self.of)
        new.inputs = [inputs.get(v, int(self.of[v])) for v in code.inputs]
        new.outputs = [self.stack(v) for v in code.outputs]
        return new

    # ------------------------------------------------------------------------------------------ values

    def unit(self, i):
        """Return the identity matrix, in the shape of a batched input."""
        dtype, shape, _ = self.type(i)
        self.units.add(i)
        return self.new.constant_array(np.eye(self.count, dtype=dtype).reshape(shape))

    def type(self, v):
        """Return the type of a value with the leading axis, which has the largest stride."""
        dtype, shape, strides = kind_of(self.code, v)
        if strides == "flag" or strides is None or 0 in shape:
            return dtype, (self.count, *shape), None
        span = dtype.itemsize + sum((n - 1) * abs(s) for n, s in zip(shape, strides))
        return dtype, (self.count, *shape), (span, *strides)

    def lead_stride(self, v):
        """Return the stride in bytes of the leading axis of a batched value."""
        return whole_view(kind_of(self.new, int(self.of[v])))[2][0]

    def strides(self, v):
        return whole_view(kind_of(self.code, v))[2]

    def first_offset(self, v):
        """Return the bytes from the lowest address of an array to its first element."""
        return whole_view(kind_of(self.code, v))[0]

    def broadcast(self, v, shape):
        """Return an operand of an elementwise instruction, broadcast to the result's `shape` at each point."""
        dtype, own, _ = kind_of(self.code, v)
        if self.is_batched[v]:
            if own == shape:
                return self.of[v]
            strides = (self.lead_stride(v),) + (0,) * len(shape)
            return self.new.part(self.of[v], (0, (self.count, *shape), strides), dtype)
        if own == ():
            return self.of[v]
        return self.new.part(self.of[v], (self.first_offset(v), (self.count, *own), (0, *self.strides(v))), dtype)

    def stack(self, v):
        """Return a value with the leading axis, repeated for each point if it is not batched."""
        if self.is_batched[v]:
            return int(self.of[v])
        type = self.type(v)
        return self.new.place(-1, whole_view(type), self.of[v], type)

    # ------------------------------------------------------------------------------------------ instructions

    def instruction(self, op, i, a, b, c):
        """Append the batched form of an instruction with a batched operand."""
        if op in ELEMENTWISE:
            shape = kind_of(self.code, i)[1]
            return self.new.add(_ARRAY_OPCODE.get(op, op), self.type(i),
                                *[self.broadcast(v, shape) if v >= 0 else -1 for v in (a, b, c)])  # fmt: skip
        return _RULES[op](self, i, a, b, c)

    def load(self, i, a, b, c):
        dtype = kind_of(self.code, a)[0]
        return self.new.part(self.of[a], (b * dtype.itemsize, (self.count,), (self.lead_stride(a),)), dtype)

    def view(self, i, a, b, c):
        offset, shape, strides = self.code.views[b]
        view = offset, (self.count, *shape), (self.lead_stride(a), *strides)
        if a in self.units and _covers_all(self.count, shape, strides):
            self.units.add(i)
        return self.new.part(self.of[a], view, kind_of(self.code, i)[0])

    def pack(self, i, a, b, c):
        """Pack all unbatched scalars in one instruction, then store the batched ones along the leading axis."""
        type = self.type(i)
        offsets, values = self.code.packs[b]
        batched = self.is_batched[values]
        if a < 0 or not self.is_batched[a]:
            self.new.packs.append((offsets[~batched], self.of[values[~batched]]))
            alike = kind_of(self.code, i)
            base = self.new.add(Op.PACK, alike, -1 if a < 0 else self.of[a], len(self.new.packs) - 1)
            base = self.new.place(-1, whole_view(type), base, type)
        else:
            base = self.of[a]
            batched = np.ones(len(values), dtype=bool)
        lead, itemsize = whole_view(type)[2][0], type[0].itemsize
        for offset, v in zip(offsets[batched].tolist(), values[batched].tolist()):
            base = self.new.place(base, (offset * itemsize, (self.count,), (lead,)), self.of[v], type)
        return base

    def place(self, i, a, b, c):
        type = self.type(i)
        offset, shape, strides = self.code.views[b]
        view = offset, (self.count, *shape), (whole_view(type)[2][0], *strides)
        value = self.of[c]
        if self.is_batched[c]:  # if the value has fewer axes than the view, insert axes of length 1 after the first
            dtype, own, _ = kind_of(self.code, c)
            more = max(0, len(own) - len(shape))  # leading axes of length 1 are dropped, as assignment does
            own, steps = own[more:], self.strides(c)[more:]
            missing = len(shape) - len(own)
            if missing or more:
                laid = (self.count, *(1,) * missing, *own), (self.lead_stride(c), *(0,) * missing, *steps)
                value = self.new.part(value, (self.first_offset(c), *laid), dtype)
        return self.new.place(-1 if a < 0 else self.stack(a), view, value, type)

    def sum(self, i, a, b, c):
        return self.traced(lambda x: np.sum(np.reshape(x, (self.count, -1)), axis=1), [a], None)

    def stop(self, i, a, b, c):
        return self.new.add(Op.STOP, kind_of(self.new, int(self.of[a])), self.of[a])

    def guard(self, i, a, b, c):
        expected, place = self.code.guards[b]
        expected = np.broadcast_to(np.asarray(expected), (self.count, *np.shape(expected)))
        return self.new.guard(self.of[a], np.array(expected), place, self.of[c] if c >= 0 else -1)

    # ------------------------------------------------------------------------------------------ indexed elements

    def offsets(self, b, itemsize, lead):
        """Return element offsets within one point's array as offsets within the batched array."""
        inner = self.code.arrays[int(self.code.a[b])]
        steps = np.arange(self.count).reshape(-1, *(1,) * inner.ndim) * (lead // itemsize)
        found = inner + steps
        if found.size and found.max() > np.iinfo(np.int32).max:
            raise MemoryError(f"a batch of {self.count} points needs an array of over 2**31 elements: use fewer points")
        return self.new.constant_array(found.astype(np.int32))

    def gather(self, i, a, b, c):
        type = self.type(i)
        return self.new.add(Op.GATHER, type, self.of[a], self.offsets(b, type[0].itemsize, self.lead_stride(a)))

    def put(self, i, a, b, c):
        type = self.type(i)
        where = self.offsets(b, type[0].itemsize, whole_view(type)[2][0])
        return self.new.add(Op.PUT, type, -1 if a < 0 else self.stack(a), where, self.stack(c))

    def scatter(self, i, a, b, c):
        type = self.type(i)
        where = self.offsets(b, type[0].itemsize, whole_view(type)[2][0])
        return self.new.add(Op.SCATTER, type, self.of[a], where)

    # ------------------------------------------------------------------------------------------ calls

    def call(self, i, a, b, c):
        """Call the function on all points at once if it supports that, else once per point."""
        call = self.code.calls[a]
        row = call.row
        if hasattr(call.compute, "batched"):
            found = call.compute.batched(call, self.is_batched[call.operands].tolist(), self.count)
            if found is not None:
                return self.inlined(found, [int(self.of[v]) for v in call.operands])
        if self.units.intersection(call.operands):
            found = self.unit_product(i, call)
            if found is not None:
                return found
        if row is None or not stacked.is_batchable(row):
            return self.call_per_point(i, call)

        def apply(*values):
            given = [stacked.Batch(x) if self.is_batched[v] else x for x, v in zip(values, call.operands)]
            args = tuple([filled(argument, given) for argument in call.args])
            return stacked.apply(row.fun, args, call.kwargs).v

        try:
            return self.traced(apply, call.operands, i)
        except (stacked.NotBatchable, Exception):  # an error of f itself is raised again by the call per point
            return self.call_per_point(i, call)

    def unit_product(self, i, call):
        """Return the rows or columns of a matrix for its product with all unit vectors; None for any other call."""
        if product_of(call) not in ("matmul", "dot"):
            return None
        is_unit = [type(x) is Operand and call.operands[x.position] in self.units for x in call.args]
        if is_unit[0] == is_unit[1]:
            return None
        unit, matrix = call.args if is_unit[0] else call.args[::-1]
        v = call.operands[matrix.position] if type(matrix) is Operand else -1
        if v >= 0 and self.is_batched[v]:
            return None
        dtype, shape, _ = kind_of(self.code, v) if v >= 0 else (matrix.dtype, matrix.shape, None)
        own = kind_of(self.code, call.operands[unit.position])[1]
        along = len(own) - 1 if is_unit[0] or len(own) == 1 else len(own) - 2
        if dtype != np.float64 or len(shape) != 2 or own[along] != self.count:
            return None
        found = (self.count, *kind_of(self.code, i)[1])
        if v < 0:
            return self.new.constant_array(np.array((matrix if is_unit[0] else matrix.T).reshape(found), order="C"))
        rows, steps = (shape, self.strides(v)) if is_unit[0] else (shape[::-1], self.strides(v)[::-1])
        matrix_rows = self.new.part(self.of[v], (self.first_offset(v), rows, steps), dtype)
        matrix_rows = self.new.in_layout(matrix_rows, (dtype, rows, None))
        return self.new.part(matrix_rows, whole_view((dtype, found, None)), dtype)

    def traced(self, function, values, i):
        """Append the program of a function of values, traced on batched arguments."""
        taken = [int(self.of[v]) for v in values]
        examples = []
        for v, w in zip(values, taken):
            type = kind_of(self.new, w)
            x = self.example_value(v) if i is not None else example_of(kind_of(self.code, v))
            examples.append(of_type(np.broadcast_to(x, (self.count, *np.shape(x))) if self.is_batched[v] else x, type))
        code = listed(lambda *x: [function(*x)], examples, "a batch")
        found = self.inlined(code, taken)
        wanted = self.type(i) if i is not None else (np.dtype(float), (self.count,), None)
        if kind_of(self.new, found)[:2] != wanted[:2]:
            raise stacked.NotBatchable
        return self.new.in_layout(found, wanted)

    def inlined(self, code, values):
        """Append the instructions of a program with these inputs; return its output."""
        given = [self.new.in_layout(values[int(code.a[v])], kind_of(code, v)) for v in code.inputs]
        return self.new.inline(code, given)[0]

    def call_per_point(self, i, call):
        type, alike = self.type(i), kind_of(self.code, i)
        if type[0].kind in "fc":
            low = self.first_offset(i)
            found = self.new.place(-1, whole_view(type), self.new.filled(0.0, ()), type)
        else:
            low, type = 0, (type[0], type[1], None)
            found = self.new.constant_array(np.zeros(type[1], type[0]))
        lead, own = whole_view(type)[2][0], self.strides(i) if type[2] is not None else None
        for j in range(self.count):
            values = [self.at_point(v, j) if self.is_batched[v] else int(self.of[v]) for v in call.operands]
            y = self.new.call(call.on(values), alike)
            inner = c_strides(alike[1], alike[0].itemsize) if own is None else own
            found = self.new.place(found, (low + j * lead, alike[1], inner), y, type)
        return found

    def at_point(self, v, j):
        dtype, shape, _ = kind_of(self.code, v)
        offset = self.first_offset(v) + j * self.lead_stride(v)
        return self.new.part(self.of[v], (offset, shape, self.strides(v)), dtype)

    def example_value(self, v):
        if v >= len(self.values):
            evaluated(self.code, self.example, v + 1, self.values)
        return self.values[v]


def _covers_all(count, shape, strides):
    """Return whether a view covers an array of `count` floats in C order."""
    inner = [(n, s) for n, s in zip(shape, strides) if n != 1]
    lengths = tuple([n for n, _ in inner])
    return math.prod(lengths) == count and tuple([s for _, s in inner]) == c_strides(lengths, 8)


_RULES = {
    Op.LOAD: _Batcher.load,
    Op.VIEW: _Batcher.view,
    Op.PACK: _Batcher.pack,
    Op.PLACE: _Batcher.place,
    Op.SUM: _Batcher.sum,
    Op.CALL: _Batcher.call,
    Op.GUARD: _Batcher.guard,
    Op.STOP: _Batcher.stop,
    Op.GATHER: _Batcher.gather,
    Op.PUT: _Batcher.put,
    Op.SCATTER: _Batcher.scatter,
}
