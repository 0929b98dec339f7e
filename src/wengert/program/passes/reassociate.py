"""Reassociates matrix products in adjoints to reduce the number of multiplications.

Input: a program; output: an equivalent one up to rounding, or the same one.
The adjoint of a broadcast operand, such as the bias of a layer, sums a product over its rows; the adjoint of a scaled
matrix scales each of its elements again:

    sum(X @ M, rows)  becomes  sum(X, rows) @ M          x @ (c M)  becomes  (c x) @ M

Each element sums the same products of two or three factors in another order. The rounding error is bounded as for any
implementation of the product: n units of roundoff times the sum of the absolute values of the n terms.
Only products made by derivative rules, which have a guard against 0 times inf, are reassociated; products of the
primal keep their order.

References
----------
Briggs and Cooper (1994), Effective partial redundancy elimination. doi:10.1145/178243.178257
"""

from __future__ import annotations

import math
import operator

import numpy as np

from wengert.program.ir.call import Call, Operand, fold_of, product_of
from wengert.program.ir.ir import Listing, kind_of, operands, replaced
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.passes import simplify
from wengert.program.passes.loop_recovery import VALUE_COLUMNS

_NEGATIVE, _MULTIPLY = OPCODES["negative"], OPCODES["multiply"]
_CONST, _VIEW = int(Op.CONST), int(Op.VIEW)
_FLOAT = np.dtype(float)
_TWO_OPERANDS = (Operand(0), Operand(1))
#: limit on the constants that are moved to another factor, so that nothing overflows or underflows
_MAX_SCALE = 2.0**20


def reassociate_products(code: Listing) -> Listing:
    """Return the program with its adjoint products reassociated; the same program if nothing changes."""
    op, a, b, c = code.op, code.a, code.b, code.c
    guarded = set(c[(op == Op.GUARD) & (c >= 0)].tolist())
    if not guarded:
        return code
    places = np.flatnonzero(op == Op.CALL)
    calls = {i: code.calls[number] for i, number in zip(places.tolist(), a[places].tolist())}
    products = {i for i in guarded if i in calls and _is_product(code, i, calls[i])}
    if not any(_may_change((op, a, b), i, call, products) for i, call in calls.items()):
        return code
    return _Reassociation(code, calls, products).run()


def _may_change(columns, i, call, products):
    """Return whether call i is a sum of a guarded product, or a guarded product with a constant multiple.

    A cheap test that ignores other uses of the operands.
    """
    op, a, b = columns
    if i not in products:
        v = call.operands[0] if call.row is not None and call.row.scalars == "sum" else -1
        while v >= 0 and op[v] == _NEGATIVE:
            v = a[v]
        return v in products
    factors = [a[v] if op[v] == _VIEW else v for v in call.operands]
    return any(op[v] == _MULTIPLY and (op[a[v]] == _CONST or op[b[v]] == _CONST) for v in factors)


def _is_product(code, i, call):
    if product_of(call) != "matmul":
        return False
    factors = [
        kind_of(code, call.operands[x.position]) if type(x) is Operand else (x.dtype, x.shape) for x in call.args
    ]
    return all(kind[0] == _FLOAT and len(kind[1]) > 1 for kind in (kind_of(code, i), *factors))


class _Reassociation:
    """Builds the new program; ``of[v]`` is the new id of value v."""

    def __init__(self, code, calls, products):
        self.code, self.calls, self.products = code, calls, products
        self.op, self.a, self.b, self.c = (column.tolist() for column in (code.op, code.a, code.b, code.c))
        self.is_changed = False
        is_array = (code.op == _NEGATIVE) | (code.op == _MULTIPLY) | (code.op == Op.VIEW)
        self.readers = self.readers_of((code.op == Op.ISNAN) | (code.op == Op.CALL) | (is_array & (code.type > 1)))

    def readers_of(self, is_wanted):
        """Map values, at least those marked by `is_wanted`, to the instructions that read them; -1: an output."""
        code, found = self.code, {}
        reads = np.zeros(len(code), bool)
        named = VALUE_COLUMNS[code.op]
        for bit, column in ((1, code.a), (2, code.b), (4, code.c)):
            reads |= is_wanted[np.where((named & bit) > 0, column, -1)] & (column >= 0) & ((named & bit) > 0)
        for i in np.flatnonzero(reads | (code.op == Op.CALL) | (code.op == Op.PACK)).tolist():
            for v in set(operands(code, i)):
                found.setdefault(v, []).append(i)
        for v in code.outputs:
            found.setdefault(v, []).append(-1)
        return found

    def run(self):
        found = replaced(self.code, sorted(self.calls), self.rewritten)
        return simplify.live(found) if self.is_changed else self.code

    def rewritten(self, new, of, i):
        """Return the new id of a call that is rewritten, else None."""
        self.new, self.of = new, of
        made = self.scaled(i) if i in self.products else self.summed(i)
        self.is_changed |= made is not None
        return made

    # ------------------------------------------------------------------------------------------ analysis

    def shape(self, v):
        return kind_of(self.code, v)[1]

    def check(self, product):
        """Return the dot product, ISNAN and guard by which a rule checks a product for NaN; None if there are none."""
        for call in self.readers.get(product, ()):
            if call in self.calls and self.calls[call].compute is np.vdot:
                for test in self.readers.get(call, ()):
                    for guard in self.readers.get(test, ()):
                        if guard >= 0 and self.op[guard] == Op.GUARD and self.c[guard] == product:
                            return call, test, guard
        return None

    def is_read_once(self, v, but=()):
        return len([i for i in self.readers.get(v, ()) if i not in but]) == 1

    def axes(self, i):
        """Return the axes over which a call sums; None if it is not a plain sum."""
        call = self.calls[i]
        given = {**dict(zip(("a", "axis"), call.args)), **call.kwargs}
        if fold_of(call) != "sum" or len(call.args) > 2:
            return None
        is_plain = type(given.pop("a", None)) is Operand and not given.keys() - {"axis", "keepdims"}
        if not is_plain or kind_of(self.code, i)[0] != _FLOAT:
            return None
        ndim, axis = len(self.shape(call.operands[0])), given.get("axis")
        axes = range(ndim) if axis is None else axis if type(axis) is tuple else (axis,)
        return {operator.index(d) % ndim for d in axes}

    # ------------------------------------------------------------------------------------------ rewriting

    def factor(self, product, side):
        """Return a factor of a product, as a value of the new program."""
        call = self.calls[product]
        x = call.args[side]
        if type(x) is Operand:
            return int(self.of[call.operands[x.position]])
        return self.new.constant_array(np.ascontiguousarray(x))

    def times(self, like, left, right):
        """Append a product of new values, with the callee of the call `like`."""
        (*lead, m, _), (*others, _, n) = kind_of(self.new, left)[1], kind_of(self.new, right)[1]
        shape = (*np.broadcast_shapes(tuple(lead), tuple(others)), m, n)
        return self.new.call(Call(like.compute, _TWO_OPERANDS, {}, [left, right], like.row), (_FLOAT, shape, None))

    def product(self, like, left, right, check):
        """Append a product and its guard against NaN."""
        call, test, guard = check
        y = self.times(like, left, right)
        square = self.new.call(self.calls[call].on([y, y]), (_FLOAT, (), None))
        is_nan = self.new.add(Op.ISNAN, kind_of(self.code, test), square)
        expected, place = self.code.guards[self.b[guard]][:2]
        self.new.guard(is_nan, expected, place, y)
        return y

    def total(self, like, v, axes):
        """Append a call of the function of `like` that sums a new value over axes, with keepdims."""
        shape = tuple([1 if d in axes else n for d, n in enumerate(kind_of(self.new, v)[1])])
        call = Call(like.compute, (Operand(0),), {"axis": tuple(sorted(axes)), "keepdims": True}, [v], like.row)
        return self.new.call(call, (_FLOAT, shape, None))

    def summed(self, i):
        """Rewrite a sum over rows or columns of a product without other uses; return None if it does not match."""
        axes, call = self.axes(i), self.calls[i]
        if axes is None:
            return None
        v, is_negative = call.operands[0], False
        while self.op[v] == _NEGATIVE and self.is_read_once(v):
            v, is_negative = self.a[v], not is_negative
        check = self.check(v) if v in self.products else None
        if check is None or not self.is_read_once(v, check) or 0 in self.shape(v):
            return None
        side = 0 if len(self.shape(v)) - 2 in axes else 1
        axis = len(self.shape(v)) - 2 + side
        if axis not in axes or self.shape(v)[axis] == 1:
            return None
        factors = [self.factor(v, 0), self.factor(v, 1)]
        factors[side] = self.total(call, factors[side], {len(kind_of(self.new, factors[side])[1]) - 2 + side})
        y = self.product(self.calls[v], *factors, check)
        if axes - {axis}:
            y = self.total(call, y, axes - {axis})
        shape = self.shape(i)
        y = self.new.block(y, 0, shape)
        return self.new.add(_NEGATIVE, kind_of(self.code, i), y) if is_negative else y

    def scaled(self, i):
        """Rewrite a product with a scaled matrix to scale the other factor or the result, whichever is smaller."""
        if self.check(i) is None:
            return None
        call = self.calls[i]
        for side in (0, 1):
            v = call.operands[call.args[side].position] if type(call.args[side]) is Operand else -1
            found = self.unscaled(v) if v >= 0 else None
            if found is None:
                continue
            matrix, number = found
            other = self.factor(i, 1 - side)
            type_of_other, type_of_result = kind_of(self.new, other), kind_of(self.code, i)
            sizes = math.prod(type_of_other[1]), math.prod(type_of_result[1])
            if 2 * min(sizes) > math.prod(self.shape(v)):
                continue
            if sizes[0] < sizes[1]:
                other = self.new.add(_MULTIPLY, (_FLOAT, type_of_other[1], None), other, number)
            y = self.times(call, *((matrix, other) if side == 0 else (other, matrix)))
            return y if sizes[0] < sizes[1] else self.new.add(_MULTIPLY, type_of_result, y, number)
        return None

    def unscaled(self, v):
        """Return (matrix, constant) if v is their product, or a view of it, and has no other use; else None."""
        scaled = self.a[v] if self.op[v] == Op.VIEW else v
        if self.op[scaled] != _MULTIPLY or not (self.is_read_once(v) and self.is_read_once(scaled)):
            return None
        for matrix, number in ((self.a[scaled], self.b[scaled]), (self.b[scaled], self.a[scaled])):
            if self.op[number] == Op.CONST and self.code.type[matrix] == self.code.type[scaled]:
                factor = self.code.constants[self.a[number]]
                if not 1 / _MAX_SCALE < abs(factor) < _MAX_SCALE:
                    return None
                found = int(self.of[matrix])
                if v != scaled:
                    found = self.new.part(found, self.code.views[self.b[v]], _FLOAT)
                return found, int(self.of[number])
        return None
