"""Batches a program over several points: values that depend on the batched inputs get a leading axis.

A scalar becomes a 1-D array, an array a stack of arrays, and an instruction one on all of them; values that depend on
none of these inputs are computed once.
A call of a NumPy function is one call on the stack where NumPy has that (`transforms.stacked`), else one for each
point.
The values are those of the program at each point, except for the rounding of sums and matrix products.

References
----------
Frostig, Johnson and Leary (2018), Compiling machine learning programs via high-level tracing, SysML.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.program.ir.call import Operand
from wengert.program.ir.call_rules import filled
from wengert.program.ir.ir import Listing, c_strides, kind_of, operands
from wengert.program.ir.opcode_table import ELEMENTWISE, OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import evaluated, example_of, of_type
from wengert.program.tracing.trace import listed
from wengert.transforms import stacked

#: powers of numbers, which for arrays are another row
_POW, _POWER = OPCODES["**"], OPCODES["power"]
_OF_ARRAYS = {_POW: _POWER, Op.PARTIAL + 2 * _POW: Op.PARTIAL + 2 * _POWER,
              Op.PARTIAL + 2 * _POW + 1: Op.PARTIAL + 2 * _POWER + 1}  # fmt: skip


def widened(code: Listing, numbers, count: int, example: list, are_units: bool = False) -> Listing:
    """The list at `count` points, at least two.

    Parameters
    ----------
    code : Listing
    numbers : collection of int
        Of the inputs that have a leading axis.
    count : int
        Its length.
    example : list
        Inputs at one point, where calls are run once.
    are_units : bool
        The one of these inputs has as many elements as there are points, and at point j all are 0 but element j, which
        is 1; it is not read then. So products with it are rows or columns of the other factor.

    Returns
    -------
    Listing
        All its outputs have the leading axis.
    """
    return _Widening(code, frozenset(numbers), count, example, are_units).found()


def _depending(code: Listing, numbers) -> list[bool]:
    """Which values depend on some inputs, given by number, whether they have a derivative or not."""
    found: list[bool] = []
    for i, (op, a) in enumerate(zip(code.op.tolist(), code.a.tolist())):
        found.append(a in numbers if op == Op.INPUT else any(found[v] for v in operands(code, i)))
    return found


class _Widening:
    """A list and the one that is made of it: value v becomes ``of[v]``, which has a leading axis where ``wide[v]``."""

    def __init__(self, code, numbers, count, example, are_units):
        self.code, self.count, self.example = code, count, example
        self.new = Listing()
        self.of = np.full(len(code), -1, dtype=np.int32)
        self.wide = np.array(_depending(code, numbers), dtype=bool)
        self.are_units = are_units
        self.units: set = set()  # values that are the unit vectors, in the order of their elements
        self.values: list = []  # of the list at the example, made when a call is met

    def found(self):
        code, new = self.code, self.new
        columns = (code.op.tolist(), code.a.tolist(), code.b.tolist(), code.c.tolist())
        inputs: dict = {}
        start = 0  # of the instructions that are not taken over yet
        for i in np.flatnonzero(self.wide).tolist():
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
        """The unit vectors, in the shape of a stacked input."""
        dtype, shape, _ = self.type(i)
        self.units.add(i)
        return self.new.constant_array(np.eye(self.count, dtype=dtype).reshape(shape))

    def type(self, v):
        """The type of a value with the leading axis: one after the other."""
        dtype, shape, strides = kind_of(self.code, v)
        if strides == "flag" or strides is None or 0 in shape:
            return dtype, (self.count, *shape), None
        span = dtype.itemsize + sum((n - 1) * abs(s) for n, s in zip(shape, strides))
        return dtype, (self.count, *shape), (span, *strides)

    def lead(self, v):
        """Bytes from one of a wide value to the next."""
        dtype, shape, strides = kind_of(self.new, int(self.of[v]))
        return (c_strides(shape, dtype.itemsize) if strides is None else strides)[0]

    def strides(self, v):
        dtype, shape, strides = kind_of(self.code, v)
        return c_strides(shape, dtype.itemsize) if strides is None else () if strides == "flag" else strides

    def low(self, v):
        """Bytes from the lowest address of an array to its first element."""
        shape = kind_of(self.code, v)[1]
        return sum((n - 1) * -s for n, s in zip(shape, self.strides(v)) if s < 0 and n > 0)

    def spread(self, v, shape):
        """An operand of an elementwise instruction whose result has that shape at each point."""
        dtype, own, _ = kind_of(self.code, v)
        if self.wide[v]:
            if own == shape:
                return self.of[v]
            return self.new.part(self.of[v], (0, (self.count, *shape), (self.lead(v),) + (0,) * len(shape)), dtype)
        if own == ():
            return self.of[v]
        return self.new.part(self.of[v], (self.low(v), (self.count, *own), (0, *self.strides(v))), dtype)

    def stack(self, v):
        """A value with the leading axis, a copy for each point where it has none."""
        if self.wide[v]:
            return int(self.of[v])
        type = self.type(v)
        return self.new.place(-1, self.whole(type, self.low(v)), self.of[v], type)

    def whole(self, type, low=0):
        """All of an array of a type, as a view."""
        dtype, shape, strides = type
        return low, shape, c_strides(shape, dtype.itemsize) if strides is None else strides

    # ------------------------------------------------------------------------------------------ instructions

    def instruction(self, op, i, a, b, c):
        """An instruction of which an operand is wide."""
        if op in ELEMENTWISE:
            shape = kind_of(self.code, i)[1]
            return self.new.add(_OF_ARRAYS.get(op, op), self.type(i),
                                *[self.spread(v, shape) if v >= 0 else -1 for v in (a, b, c)])  # fmt: skip
        return _RULES[op](self, i, a, b, c)

    def load(self, i, a, b, c):
        dtype = kind_of(self.code, a)[0]
        return self.new.part(self.of[a], (b * dtype.itemsize, (self.count,), (self.lead(a),)), dtype)

    def view(self, i, a, b, c):
        offset, shape, strides = self.code.views[b]
        view = offset, (self.count, *shape), (self.lead(a), *strides)
        if a in self.units and _is_all(self.count, shape, strides):
            self.units.add(i)
        return self.new.part(self.of[a], view, kind_of(self.code, i)[0])

    def pack(self, i, a, b, c):
        """Numbers that are wide are put into the array one after the other, behind all others."""
        type = self.type(i)
        offsets, values = self.code.packs[b]
        wide = self.wide[values]
        if a < 0 or not self.wide[a]:
            self.new.packs.append((offsets[~wide], self.of[values[~wide]]))
            alike = kind_of(self.code, i)
            base = self.new.add(Op.PACK, alike, -1 if a < 0 else self.of[a], len(self.new.packs) - 1)
            base = self.new.place(-1, self.whole(type, self.low(i)), base, type)
        else:
            base = self.of[a]
            wide = np.ones(len(values), dtype=bool)
        lead, itemsize = self.whole(type)[2][0], type[0].itemsize
        for offset, v in zip(offsets[wide].tolist(), values[wide].tolist()):
            base = self.new.place(base, (offset * itemsize, (self.count,), (lead,)), self.of[v], type)
        return base

    def place(self, i, a, b, c):
        type = self.type(i)
        offset, shape, strides = self.code.views[b]
        view = offset, (self.count, *shape), (self.whole(type)[2][0], *strides)
        value = self.of[c]
        if self.wide[c]:  # axes of length 1 between the leading one and its own, where it has fewer than the view
            dtype, own, _ = kind_of(self.code, c)
            own, steps = self.fewer(own, self.strides(c), len(shape))
            missing = len(shape) - len(own)
            if missing or len(own) < len(kind_of(self.code, c)[1]):
                laid = (self.count, *(1,) * missing, *own), (self.lead(c), *(0,) * missing, *steps)
                value = self.new.part(value, (self.low(c), *laid), dtype)
        return self.new.place(-1 if a < 0 else self.stack(a), view, value, type)

    @staticmethod
    def fewer(shape, strides, axes):
        """Without leading axes of length 1 beyond so many axes, which an assignment drops."""
        more = max(0, len(shape) - axes)
        return shape[more:], strides[more:]

    def sum(self, i, a, b, c):
        return self.traced(lambda x: np.sum(np.reshape(x, (self.count, -1)), axis=1), [a], None)

    def stop(self, i, a, b, c):
        return self.new.add(Op.STOP, kind_of(self.new, int(self.of[a])), self.of[a])

    def guard(self, i, a, b, c):
        expected, place = self.code.guards[b]
        expected = np.broadcast_to(np.asarray(expected), (self.count, *np.shape(expected)))
        return self.new.guard(self.of[a], np.array(expected), place, self.of[c] if c >= 0 else -1)

    # ------------------------------------------------------------------------------------------ places

    def places(self, b, itemsize, lead):
        """Places in an array of a point, as places in that of all points."""
        inner = self.code.arrays[int(self.code.a[b])]
        steps = np.arange(self.count).reshape(-1, *(1,) * inner.ndim) * (lead // itemsize)
        found = inner + steps
        if found.size and found.max() > np.iinfo(np.int32).max:
            raise MemoryError("places in an array of more than 2**31 elements: take fewer points at once")
        return self.new.constant_array(found.astype(np.int32))

    def gather(self, i, a, b, c):
        type = self.type(i)
        return self.new.add(Op.GATHER, type, self.of[a], self.places(b, type[0].itemsize, self.lead(a)))

    def put(self, i, a, b, c):
        type = self.type(i)
        where = self.places(b, type[0].itemsize, self.whole(type)[2][0])
        return self.new.add(Op.PUT, type, -1 if a < 0 else self.stack(a), where, self.stack(c))

    def scatter(self, i, a, b, c):
        type = self.type(i)
        return self.new.add(Op.SCATTER, type, self.of[a], self.places(b, type[0].itemsize, self.whole(type)[2][0]))

    # ------------------------------------------------------------------------------------------ calls

    def call(self, i, a, b, c):
        """A function of all arrays at once, or else one call for each point."""
        call = self.code.calls[a]
        row = call.row
        if self.units.intersection(call.operands):
            found = self.of_units(i, call)
            if found is not None:
                return found
        if row is None or not stacked.is_batchable(row):
            return self.each(i, call)

        def apply(*values):
            given = [stacked.Batch(x) if self.wide[v] else x for x, v in zip(values, call.operands)]
            args = tuple([filled(argument, given) for argument in call.args])
            return stacked.apply(row.fun, args, call.kwargs).v

        try:
            return self.traced(apply, call.operands, i)
        except (stacked.NotBatchable, Exception):  # the calls for each element repeat an error, if there is one
            return self.each(i, call)

    def of_units(self, i, call):
        """A product of the unit vectors and a matrix: its rows, or its columns; None if it is no such."""
        if call.row is None or call.row.scalars not in ("matmul", "dot") or len(call.args) != 2 or call.kwargs:
            return None
        is_unit = [type(x) is Operand and call.operands[x.position] in self.units for x in call.args]
        if is_unit[0] == is_unit[1]:
            return None
        unit, matrix = call.args if is_unit[0] else call.args[::-1]
        v = call.operands[matrix.position] if type(matrix) is Operand else -1
        if v >= 0 and self.wide[v]:
            return None
        dtype, shape, _ = kind_of(self.code, v) if v >= 0 else (matrix.dtype, matrix.shape, None)
        own = kind_of(self.code, call.operands[unit.position])[1]
        along = len(own) - 1 if is_unit[0] or len(own) == 1 else len(own) - 2
        if dtype != np.float64 or len(shape) != 2 or own[along] != self.count:
            return None
        found = (self.count, *kind_of(self.code, i)[1])
        if v < 0:
            return self.new.constant_array(np.array((matrix if is_unit[0] else matrix.T).reshape(found), order="C"))
        lines, steps = (shape, self.strides(v)) if is_unit[0] else (shape[::-1], self.strides(v)[::-1])
        of_lines = self.new.part(self.of[v], (self.low(v), lines, steps), dtype)
        of_lines = self.in_type(of_lines, (dtype, lines, None))
        return self.new.part(of_lines, self.whole((dtype, found, None)), dtype)

    def traced(self, function, values, i):
        """A function of values, wide ones with their leading axis, run on traced operands once."""
        taken = [int(self.of[v]) for v in values]
        examples = []
        for v, w in zip(values, taken):
            type = kind_of(self.new, w)
            x = self.value(v) if i is not None else example_of(kind_of(self.code, v))
            examples.append(of_type(np.broadcast_to(x, (self.count, *np.shape(x))) if self.wide[v] else x, type))
        code = listed(lambda *x: [function(*x)], examples, "a batch")
        of = np.full(len(code), -1, dtype=np.int32)
        for v in code.inputs:
            of[v] = self.in_type(taken[int(code.a[v])], kind_of(code, v))
        self.new.take(code, np.setdiff1d(np.arange(len(code), dtype=np.int32), code.inputs).astype(np.int32), of)
        found = int(of[code.outputs[0]])
        wanted = self.type(i) if i is not None else (np.dtype(float), (self.count,), None)
        if kind_of(self.new, found)[:2] != wanted[:2]:
            raise stacked.NotBatchable
        return self.in_type(found, wanted)

    def in_type(self, v, type):
        """A value in the layout of a type."""
        if kind_of(self.new, v) == type:
            return v
        low = sum((n - 1) * -s for n, s in zip(type[1], type[2] or ()) if s < 0)
        return self.new.place(-1, self.whole(type, low), v, type)

    def each(self, i, call):
        """A call for each point."""
        type, alike = self.type(i), kind_of(self.code, i)
        if type[0].kind in "fc":
            low = self.low(i)
            found = self.new.place(-1, self.whole(type, low), self.new.filled(0.0, ()), type)
        else:
            low, type = 0, (type[0], type[1], None)
            found = self.new.constant_array(np.zeros(type[1], type[0]))
        lead, own = self.whole(type)[2][0], self.strides(i) if type[2] is not None else None
        for j in range(self.count):
            values = [self.row(v, j) if self.wide[v] else int(self.of[v]) for v in call.operands]
            y = self.new.add(Op.CALL, alike, self.new.call(call.on(values)))
            inner = c_strides(alike[1], alike[0].itemsize) if own is None else own
            found = self.new.place(found, (low + j * lead, alike[1], inner), y, type)
        return found

    def row(self, v, j):
        """What a wide value is at one point."""
        dtype, shape, _ = kind_of(self.code, v)
        found = self.new.part(self.of[v], (self.low(v) + j * self.lead(v), shape, self.strides(v)), dtype)
        return found

    def value(self, v):
        """A value at the example."""
        if v >= len(self.values):
            evaluated(self.code, self.example, v + 1, self.values)
        return self.values[v]


def _is_all(count, shape, strides):
    """Is a view all of an array of so many floats, in its order?"""
    inner = [(n, s) for n, s in zip(shape, strides) if n != 1]
    lengths = tuple([n for n, _ in inner])
    return math.prod(lengths) == count and tuple([s for _, s in inner]) == c_strides(lengths, 8)


_RULES = {
    Op.LOAD: _Widening.load,
    Op.VIEW: _Widening.view,
    Op.PACK: _Widening.pack,
    Op.PLACE: _Widening.place,
    Op.SUM: _Widening.sum,
    Op.CALL: _Widening.call,
    Op.GUARD: _Widening.guard,
    Op.STOP: _Widening.stop,
    Op.GATHER: _Widening.gather,
    Op.PUT: _Widening.put,
    Op.SCATTER: _Widening.scatter,
}
