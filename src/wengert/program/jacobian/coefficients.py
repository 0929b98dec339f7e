"""Coefficients of Jacobian accumulation: values of the program or constants, in the layout of a differentiated value.

A coefficient is a value of the program (an int), a float, or a constant 1-D array by offset in memory.
A coefficient that holds the elements of a value has the strides of that value, so that a view of the value is the same
view of the coefficient.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.program.ir.call_rules import places as places_of
from wengert.program.ir.ir import kind_of, overlaps, whole_view
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import evaluated
from wengert.program.jacobian.expand_calls import gathered, has_short_rows
from wengert.program.jacobian.term import Term, has_gaps

_FLOAT = np.dtype(float)


class Coefficients:
    """A program to which arithmetic on coefficients is appended; its first `size` values are differentiated."""

    def __init__(self, code, size, example):
        self.code, self.size, self.example, self.values = code, size, example, []
        self.table = [column.tolist() for column in (code.op, code.a, code.b, code.c)]
        self.one, self.zero = code.filled(1.0, ()), code.filled(0.0, ())
        self.types: dict[int, tuple] = {}
        self.aranges: dict[int, np.ndarray] = {}  # np.arange(n), by n
        # value -> (source, start, stop, shift): for start <= k < stop, element k of its memory is k - shift of source
        self.origins: dict[int, tuple] = {}

    # ------------------------------------------------------------------------------------------ layouts

    def type(self, v):
        """Return dtype, shape and strides of a value; C order if its elements share memory, to keep rows distinct."""
        type = self.types.get(v)
        if type is None:
            found = kind_of(self.code, v)
            type = self.types[v] = (*found[:2], None) if self.has_repeats(found) else found
        return type

    def without_overlap(self, v):
        """Return a value whose elements do not share memory: a copy if they do."""
        if not self.has_repeats(kind_of(self.code, v)):
            return v
        return self.copied(v, self.type(v))

    def copied(self, v, type):
        """Copy a value to the layout of a type."""
        view = self.whole(kind_of(self.code, v))
        if self.type(v)[1] == () or type != (_FLOAT, type[1], None) or not has_short_rows(view):
            return self.code.place(-1, self.whole(type), v, type)
        return gathered(self.code, v, view, _FLOAT)

    def part(self, v, view):
        """Take a view of a value; gather it if its rows are too short for fast views."""
        if not has_short_rows(view):
            return self.code.part(v, view, _FLOAT)
        return gathered(self.code, v, view, _FLOAT)

    @staticmethod
    def has_repeats(type):
        return type[2] is not None and type[2] != "flag" and overlaps(type[1], type[2])

    def own_offsets(self, places, a):
        """Convert offsets in the memory of a value to offsets in the layout used here, see `type`."""
        found = kind_of(self.code, a)
        if not self.has_repeats(found):
            return places
        of = places_of(self.whole(found), found[0]).ravel()
        inner = np.zeros(of.max(initial=0) + 1, np.int64)
        inner[of] = np.arange(of.size)
        return inner[places]

    def is_scalar(self, v):
        return self.type(v)[1] == ()

    whole = staticmethod(whole_view)

    def extent(self, v):
        """Return the number of elements that the memory of a value spans."""
        dtype, shape, strides = type = self.type(v)
        if strides is None or 0 in shape:
            return math.prod(shape)
        return 1 + sum((n - 1) * abs(s) for n, s in zip(shape, self.whole(type)[2])) // dtype.itemsize

    def arange(self, n):
        """Return ``np.arange(n)``, cached; read-only."""
        if n not in self.aranges:
            self.aranges[n] = np.arange(n, dtype=np.int32)
        return self.aranges[n]

    def is_whole_range(self, which):
        """Return whether an index is the cached `arange`, that is, selects everything."""
        return which is self.aranges.get(len(which))

    def offsets(self, v):
        """Return the offset of each element of a value, in the shape of the value."""
        type = self.type(v)
        return np.arange(self.extent(v)).reshape(type[1]) if type[2] is None else places_of(self.whole(type), type[0])

    def in_shape(self, line, v):
        """View a 1-D array over the memory of a value in the shape of the value."""
        type = self.type(v)
        return line.reshape(type[1]) if type[2] is None else viewed(line, self.whole(type))

    def element_indices(self, v):
        """Return the C-order index of the element at each offset: the inverse of `offsets`."""
        found = np.zeros(self.extent(v), np.int64)
        where = self.offsets(v).ravel()
        found[where] = np.arange(where.size)
        return found

    def by_offset(self, v, elements):
        """Return the columns of the elements of a value as a 1-D array by offset; -1 in gaps."""
        if self.type(v)[2] is None:
            return np.ascontiguousarray(elements, dtype=np.int32).reshape(-1)
        line = np.full(self.extent(v), -1, np.int32)
        self.in_shape(line, v)[...] = np.reshape(elements, self.type(v)[1])
        return line

    def moved_offsets(self, rows, v, i):
        """Convert offsets in the memory of v to those of the same elements in the memory of i."""
        if self.type(v) == self.type(i):
            return rows
        places = np.zeros(self.extent(v), np.int64)
        places[self.offsets(v).ravel()] = self.offsets(i).ravel()
        return places[rows]

    # ------------------------------------------------------------------------------------------ coefficients

    def example_value(self, v):
        if v >= len(self.values):  # grows geometrically, since each evaluation has a fixed cost
            count = max(v + 1, min(2 * len(self.values), self.size))
            evaluated(self.code, self.example, count, self.values)
        return self.values[v]

    def constant(self, v):
        """Return the coefficient of a constant value; None if the value is not constant."""
        op, a = (self.table[0][v], self.table[1][v]) if v < self.size else (-1, -1)
        if op == Op.CONST:
            return self.code.constants[a]
        if op == Op.ARRAY and self.type(v)[0] == _FLOAT and self.type(v)[2] is None:
            return self.code.arrays[a].reshape(-1)
        return None

    def is_array(self, coef):
        """Return whether a coefficient is an array computed by the program."""
        return isinstance(coef, int) and self.type(coef)[1] != ()

    def is_value(self, coef):
        return isinstance(coef, int)

    def as_value(self, coef, type):
        """Return the value of a coefficient; a constant 1-D array becomes an array of the given type."""
        if isinstance(coef, int):
            return coef
        if isinstance(coef, float):
            return self.code.filled(coef, ())
        dense = (_FLOAT, type[1], None)
        if type == dense or type[1] == ():
            found = self.code.constant_array(np.ascontiguousarray(coef).reshape(type[1] or coef.shape))
            return found if type[1] else self.code.part(found, (0, (), ()), _FLOAT)
        elements = coef[places_of(self.whole(type), _FLOAT)]
        return self.code.place(-1, self.whole(type), self.code.constant_array(elements), type)

    def broadcast(self, coef, i):
        """Broadcast a coefficient to the layout of value i; return it as a value of the program."""
        type = self.type(i)
        coef = self.as_value(coef, type)
        if self.type(coef) == type or type[1] == ():
            return coef
        return self.copied(coef, type)

    def in_layout(self, coef, i):
        """Convert an array coefficient to the layout of value i; others are unchanged."""
        return self.broadcast(coef, i) if self.is_array(coef) else coef

    def product(self, coef, p, type):
        """Multiply a coefficient by a partial, with strong zero; an array result has the type `type`."""
        if not self.is_value(coef) and not self.is_value(p):
            with np.errstate(all="ignore"):
                found = np.multiply(coef, p)
                found = np.where(np.equal(coef, 0) | np.equal(p, 0), 0.0, found)
            return found if found.ndim else float(found)
        if isinstance(coef, float) and coef == 1.0:
            return p
        if isinstance(p, float) and p == 1.0:
            return coef
        coef, p = self.as_value(coef, type), self.as_value(p, type)
        is_number = not (self.is_array(coef) or self.is_array(p))
        return self.code.add(Op.STRONG, self.type(self.one) if is_number else type, coef, p)

    def negated(self, coef):
        return self.code.add(OPCODES["negative"], self.type(coef), coef) if self.is_value(coef) else -coef

    def selected(self, coef, which):
        """Select elements of a coefficient by offset as a 1-D array; a scalar is unchanged."""
        if isinstance(coef, np.ndarray):
            return coef[: len(which)] if self.is_whole_range(which) else coef[which]
        if not self.is_array(coef):
            return coef
        count = len(which)
        is_run = count and which[-1] - which[0] == count - 1
        if is_run and (self.is_whole_range(which) or (which[1:] > which[:-1]).all()):
            return self.consecutive(coef, int(which[0]), count)
        index = self.code.constant_array(np.ascontiguousarray(which, dtype=np.int32))
        return self.code.add(Op.GATHER, (_FLOAT, (count,), None), coef, index)

    def consecutive(self, v, first, count):
        """Take consecutive elements of a value's memory, from the source that was stored there if possible."""
        while v in self.origins:
            source, start, stop, moved = self.origins[v]
            if first < start or stop < first + count:
                break
            v, first = source, first - moved
        if kind_of(self.code, v) == (_FLOAT, (count,), None):
            return v
        return self.code.part(v, (8 * first, (count,), (8,)), _FLOAT)

    def record_origin(self, found, source, view, is_part):
        """Record in `origins` that `found` is a part of `source`, or contains it at a view."""
        offset, shape, strides = view
        kind = kind_of(self.code, source)
        if strides == (8,) and kind[2] is None and (is_part or kind[1] == shape):
            start = offset // 8
            self.origins[found] = (source, 0, shape[0], -start) if is_part else (source, start, start + shape[0], start)
        return found

    def in_coordinates(self, t):
        """Convert a term to coordinate form."""
        if t.rows is not None:
            return t
        if not has_gaps(t.cols):
            which = self.arange(t.cols.size)
            return Term(self.selected(t.coef, which), t.cols, which)
        which = np.flatnonzero(t.cols >= 0).astype(np.int32)
        return Term(self.selected(t.coef, which), t.cols[which], which)


def viewed(line, view):
    """Apply a view of float64 elements to a 1-D array of any dtype."""
    offset, shape, strides = view
    size = line.itemsize
    if 0 in shape:
        return np.empty(shape, line.dtype)
    return np.ndarray(shape, line.dtype, line, offset // 8 * size, tuple([step // 8 * size for step in strides]))
