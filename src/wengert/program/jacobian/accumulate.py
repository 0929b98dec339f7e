"""Accumulates each Jacobian entry directly, without seed directions or colouring.

Each entry of a Jacobian is a sum of products of partials. Neighbouring entries of array code are computed in the same
way, so they are accumulated as arrays: one forward pass keeps the accumulated partials of each value as *terms*, an
array of coefficients with the column of each.
An elementwise instruction multiplies coefficients by a partial, a view takes a view of them, and a store into an array
stores into its coefficients.
A term is aligned if each coefficient lies at the offset of its row; behind sums, terms are in coordinate form and store
their rows as well.

Constant entries need no instruction: they are initial data of the result.

References
----------
Griewank and Walther (2008), Evaluating Derivatives, chapter 10: accumulation of Jacobians by local elimination.
doi:10.1137/1.9780898717761
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

from wengert.core.levels import caught
from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.program.derive import source_transform
from wengert.program.ir.call_rules import places as places_of
from wengert.program.ir.ir import c_strides, kind_of, operands, overlaps
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.ir.reference import evaluated
from wengert.program.jacobian import call_partials
from wengert.program.jacobian.csr import first_compatible, sort_by_rows
from wengert.program.jacobian.expand_calls import expand, gathered, has_short_rows, whole
from wengert.program.jacobian.scalar_partials import ScalarTerms, operations_from, readers
from wengert.program.jacobian.term import Refused, Term
from wengert.program.passes import simplify, vectorise

_FLOAT = np.dtype(float)
_ADD, _SUBTRACT, _MULTIPLY = OPCODES["add"], OPCODES["subtract"], OPCODES["multiply"]
_NEGATIVE, _POSITIVE = OPCODES["negative"], OPCODES["positive"]

#: scalar types have an id up to this one
FLAG = 1
# Limits on accumulated partials ("terms"), beyond which colouring is cheaper: benchmarks/sparse_plans.py compares them.
#: terms of one value
_MAX_TERMS_PER_VALUE = 96
#: coordinate-form terms of one value; if there are more, they are merged into one
_MAX_COORDINATE_TERMS = 12
#: terms of all values: this many, or one for each instruction; a term takes about 10 us
_MIN_TERM_LIMIT = 50_000
#: the limit for terms of scalars as a multiple of the above, since each takes less than a microsecond
_SCALAR_TERM_FACTOR = 8
#: coefficients of all terms: this many for each element of x and y, or the minimum
_MAX_COEFFICIENTS_PER_ELEMENT = 400
_MIN_COEFFICIENT_LIMIT = 1_000_000
#: or, on average, this many coefficients for each element of any value, within a total (8 bytes each)
_MEAN_COEFFICIENTS_PER_ELEMENT, _MAX_COEFFICIENTS = 24, 100_000_000
#: simplification may shrink the operation count by this factor
_SIMPLIFICATION_FACTOR = 2.0
#: length of the last axis from which regular positions are written as a view, not by PUT
_MIN_VIEW_LENGTH = 32

#: share of nonzero constants up to which they are stored one by one into zeros
_MAX_SCATTERED_SHARE = 0.1


class Entries(NamedTuple):
    """A program whose output is the data of a sorted CSR matrix, and the structure of that matrix."""

    code: Any
    indptr: np.ndarray
    indices: np.ndarray


def entries(
    code: Any,
    x: int,
    y: int,
    example: list,
    symmetric: bool = False,
    dense: bool = False,
    wanted: tuple[np.ndarray, np.ndarray] | None = None,
    most: float = math.inf,
) -> Entries:
    """Return the program of the nonzeros of the derivative of `y` with respect to the input `x`.

    Parameters
    ----------
    code : Listing
        A program in which every instruction can be differentiated.
    x, y : int
        Values of the program, arrays of float64.
    example : list
        Inputs at a point.
    symmetric : bool
        Compute the lower triangle only, and copy it to the upper one.
    dense : bool
        Return the whole matrix, of shape ``y.shape + x.shape``, instead of CSR data.
    wanted : (rows, columns), optional
        Distinct entries to return, in this order; those that are not found are 0. One triangle is enough for a
        symmetric matrix. The result has no CSR structure.
    most : float
        Approximate limit on operations; accumulation stops as soon as it is exceeded.

    Raises
    ------
    Refused
        If an instruction has no rule here, a limit on terms or operations is exceeded, or an entry that was found is
        not in `wanted`.
    """
    found = _Accumulation(code, x, y, example, most)
    with caught(NonSmoothError, UnsupportedFunctionError) as why:  # the alternatives report this if it matters
        found.run()
    if why.error is not None:
        raise Refused(str(why.error))
    return found.assembled(symmetric, dense, wanted)


class _Accumulation:
    def __init__(self, code, x, y, example, most):
        code, of = expand(code)
        self.sweep = source_transform.Forward(code, example)
        self.code, self.size, self.x, self.y = self.sweep.code, self.sweep.size, int(of[x]), int(of[y])
        self.example, self.values = example, []
        self.table = [column.tolist() for column in (code.op, code.a, code.b, code.c)]
        self.terms: dict[int, Any] = {}  # by value: a list of `Term`, or for a scalar a dict of coefficients by column
        self.one, self.zero = self.code.filled(1.0, ()), self.code.filled(0.0, ())
        self.types: dict[int, tuple] = {}
        self.rules: dict = {}  # traced derivatives of calls, by what they depend on
        self.aranges: dict[int, np.ndarray] = {}  # np.arange(n), by n
        # value -> (source, start, stop, shift): the elements start:stop of its memory are those of source, shifted
        self.origins: dict[int, tuple] = {}
        self.last_readers, self.finals = readers(self.code, self.size, self.y)
        n = math.prod(kind_of(code, self.x)[1]) + math.prod(kind_of(code, self.y)[1])
        elements = sum(math.prod(kind_of(code, v)[1]) for v in range(len(code)))
        self.terms_left = max(_MIN_TERM_LIMIT, len(code))
        self.scalar_terms_left = _SCALAR_TERM_FACTOR * self.terms_left
        self.max_operations, self.operations, self.checked = _SIMPLIFICATION_FACTOR * most, 0, len(self.code)
        self.coefficients_left = max(
            _MIN_COEFFICIENT_LIMIT,
            _MAX_COEFFICIENTS_PER_ELEMENT * n,
            min(_MEAN_COEFFICIENTS_PER_ELEMENT * elements, _MAX_COEFFICIENTS),
        )

    def run(self):
        if kind_of(self.code, self.x)[0] != _FLOAT or kind_of(self.code, self.y)[0] != _FLOAT:
            raise Refused("only float64 is supported")
        needed = simplify.needed_for(self.code, [self.y])
        n = math.prod(self.type(self.x)[1])
        self.terms[self.x] = [Term(1.0, self.by_offset(self.x, self.arange(n)))] if n else []
        scalars = ScalarTerms(self.sweep, self.terms, needed, self.last_readers, self.x, self.check_scalar_terms)
        self.require_rules(needed)
        i = 0
        while (i := scalars.run(i)) < self.size:
            self.propagate(i, *[column[i] for column in self.table])
            scalars.forget(i)
            self.check_operations()
            i += 1
        self.convert_terms(self.y)

    def convert_terms(self, v):
        """Convert the terms of a scalar from a dict to a list of `Term`."""
        if type(self.terms.get(v)) is dict:
            self.terms[v] = [Term(coef, np.array([col], np.int32)) for col, coef in self.terms[v].items()]

    def propagate(self, i, op, a, b, c):
        for v in operands(self.code, i):
            self.convert_terms(v)
        dtype = self.type(i)[0]
        if dtype != _FLOAT:
            if dtype.kind in "fc":
                raise Refused(f"values of dtype {dtype} are not supported")
            return
        if op < Op.INPUT:
            found = self.elementwise(i, op, a, b)
        elif op == Op.STRONG:
            found = self.elementwise(i, _MULTIPLY, a, b)
        elif op in _RULES:
            found = _RULES[op](self, i, a, b, c)
        else:
            raise Refused(f"instruction {Op(op).name} has no rule")
        found = self.merged([t for t in found if t.rows is not None or _has_some(t.cols)], i)
        if not found:
            return
        self.coefficients_left -= sum(t.cols.size for t in found)
        self.terms_left -= len(found)
        if len(found) > _MAX_TERMS_PER_VALUE or min(self.coefficients_left, self.terms_left) < 0:
            raise Refused("too many terms")
        self.terms[i] = found

    def require_rules(self, needed):
        """Refuse calls without known partials before any term is computed."""
        calls = [i for i in range(self.size) if self.table[0][i] == Op.CALL and needed[i]]
        depends = source_transform.depends(self.code, [self.x]) if calls else ()
        for i in calls:
            if depends[i]:
                call_partials.require_rule(self, i, self.code.calls[self.table[1][i]], depends)

    def check_operations(self, more=0):
        """Raise `Refused` if the operations so far and `more` of them exceed the limit."""
        self.operations += operations_from(self.code, self.checked)
        self.checked = len(self.code)
        if self.operations + more > self.max_operations:
            raise Refused("more operations than the alternative takes")

    def check_scalar_terms(self, found):
        """Count new terms of scalars against their limit, then check the operations."""
        self.scalar_terms_left -= found
        if self.scalar_terms_left < 0:
            raise Refused("too many terms")
        self.check_operations()

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

    whole = staticmethod(whole)

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
        """Return whether an index is the cached `counted`, that is, selects everything."""
        return which is self.aranges.get(len(which))

    def offsets(self, v):
        """Return the offset of each element of a value, in the shape of the value."""
        type = self.type(v)
        return np.arange(self.extent(v)).reshape(type[1]) if type[2] is None else places_of(self.whole(type), type[0])

    def in_shape(self, line, v):
        """View a 1-D array over the memory of a value in the shape of the value."""
        type = self.type(v)
        return line.reshape(type[1]) if type[2] is None else _viewed(line, self.whole(type))

    def element_indices(self, v):
        """Return the C-order index of the element at each offset: the inverse of `where`."""
        found = np.zeros(self.extent(v), np.int64)
        where = self.offsets(v).ravel()
        found[where] = np.arange(where.size)
        return found

    def by_offset(self, v, elements):
        """Store columns, one for each element of a value, by offset; -1 in gaps."""
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
        """Return a value of the program at the example."""
        if v >= len(self.values):  # grows geometrically, since each evaluation has a fixed cost
            count = max(v + 1, min(2 * len(self.values), self.size))
            evaluated(self.code, self.example, count, self.values)
        return self.values[v]

    def constant(self, v):
        """Return the coefficient of a constant value; None if the value is not constant."""
        op, a = self.opcode_of(v)
        if op == Op.CONST:
            return self.code.constants[a]
        if op == Op.ARRAY and self.type(v)[0] == _FLOAT and self.type(v)[2] is None:
            return self.code.arrays[a].reshape(-1)
        return None

    def opcode_of(self, v):
        return (self.table[0][v], self.table[1][v]) if v < self.size else (-1, -1)

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
        """Multiply a coefficient by a partial, strong zero included; `type` is that of an array result."""
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
        return self.code.add(_NEGATIVE, self.type(coef), coef) if self.is_value(coef) else -coef

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

    def in_coordinates(self, t, v):
        """Convert a term to coordinate form."""
        if t.rows is not None:
            return t
        if not _has_gaps(t.cols):
            which = self.arange(t.cols.size)
            return Term(self.selected(t.coef, which), t.cols, which)
        which = np.flatnonzero(t.cols >= 0).astype(np.int32)
        return Term(self.selected(t.coef, which), t.cols[which], which)

    # ------------------------------------------------------------------------------------------ elementwise

    def elementwise(self, i, op, a, b):
        found = []
        for side, v in enumerate((a, b)):
            if v < 0 or v not in self.terms:
                continue
            is_negative = op == _NEGATIVE or (op == _SUBTRACT and side == 1)
            p = 1.0
            if op == _MULTIPLY:
                p = self.factor(a if side else b, i)
            elif op not in (_ADD, _SUBTRACT, _NEGATIVE, _POSITIVE):
                p = self.factor(self.sweep.partial(i, op, side), i)
            for t in self.terms[v]:
                t = self.scaled(t, v, i, p)
                found.append(t._replace(coef=self.negated(t.coef)) if is_negative else t)
        return found

    def factor(self, p, i):
        """Return a partial as a factor: a constant, a scalar, or an array in the layout of value i."""
        known = self.constant(p)
        p = self.without_overlap(p)
        if known is None or (isinstance(known, np.ndarray) and self.type(p) != self.type(i)):
            return self.in_layout(p, i)
        return known

    def scaled(self, t, v, i, p):
        """Multiply a term of operand v by a partial; return a term of result i."""
        type = self.type(i)
        if t.rows is None:
            if type == self.type(v) and isinstance(p, float) and p == 1.0:
                return t
            if self.is_scalar(v) and type[1] != ():
                line = self.by_offset(i, np.full(type[1], t.cols[0], np.int32))
                coef, clean = t.coef, True
            elif self.type(v) == type:
                line, coef, clean = t.cols, t.coef, t.clean
            else:
                line, coef, clean = self.by_offset(i, self.in_shape(t.cols, v)), self.relaid(t.coef, v, i), t.clean
            return Term(self.product(coef, p, type), line, None, clean and self.is_clean(coef, line))
        if self.is_scalar(v) and type[1] != ():
            places = self.offsets(i).ravel()
            self.coefficients_left -= t.cols.size * places.size
            if self.coefficients_left < 0:
                raise Refused("too many terms")
            which = np.tile(np.arange(t.cols.size), places.size)
            rows, cols = np.repeat(places, t.cols.size), np.tile(t.cols, places.size)
            t = Term(self.selected(t.coef, which), cols, rows)
        else:
            t = t._replace(rows=self.moved_offsets(t.rows, v, i))
        p = self.selected(p, t.rows)
        return t._replace(coef=self.product(t.coef, p, (_FLOAT, (t.cols.size,), None)))

    def relaid(self, coef, v, i):
        """Convert a coefficient from the layout of v to that of i, which has the same shape."""
        if isinstance(coef, np.ndarray):
            line = np.zeros(self.extent(i))
            self.in_shape(line, i)[...] = self.in_shape(coef, v)
            return line
        return self.in_layout(coef, i)

    def is_clean(self, coef, cols):
        return self.is_array(coef) or isinstance(coef, np.ndarray) or not _has_gaps(cols)

    def select(self, i, a, b, c):
        found = []
        type = self.type(i)
        for v, first in ((b, True), (c, False)):
            for t in self.terms.get(v, ()):
                t = self.scaled(t, v, i, 1.0)
                if t.rows is None:
                    coef = self.as_value(t.coef, type)
                    sides = (coef, self.zero) if first else (self.zero, coef)
                    coef = self.chosen(a, sides, type)
                else:
                    sides = (self.one, self.zero) if first else (self.zero, self.one)
                    p = self.chosen(a, sides, type)
                    p = self.selected(p, t.rows)
                    coef = self.product(t.coef, p, (_FLOAT, (t.cols.size,), None))
                found.append(t._replace(coef=coef))
        return found

    def chosen(self, a, sides, type):
        """Select between two coefficients; the result is a scalar if mask and coefficients are."""
        is_number = not any(map(self.is_array, (a, *sides)))
        return self.code.add(Op.SELECT, self.type(self.one) if is_number else type, a, *sides)

    def merged(self, terms, i):
        """Merge aligned terms whose columns do not conflict; merge coordinate-form terms if there are too many."""
        found = self.merged_aligned([t for t in terms if t.rows is None], i)
        loose = [t for t in terms if t.rows is not None]
        if len(loose) > _MAX_COORDINATE_TERMS and i != self.y:
            loose = [self.merged_coordinates(loose, i)]
        return found + loose

    def merged_aligned(self, terms, i):
        if len(terms) < 2:
            return terms
        found: list = []
        for t in terms:
            k = first_compatible([other.cols for other in found], t.cols)
            if k < len(found):
                found[k] = self.sum_of(found[k], t, i)
            else:
                found.append(t)
        return found

    def merged_coordinates(self, terms, i):
        """Merge coordinate-form terms into one with distinct entries."""
        n = math.prod(self.type(self.x)[1])
        entries = _SortedEntries([(t.coef, t.rows, t.cols) for t in terms], self.extent(i), n)
        line = (_FLOAT, entries.columns.shape, None)
        parts = [
            (self.as_value(t.coef, (_FLOAT, t.cols.shape, None)), where) for t, where in zip(terms, entries.places)
        ]
        return Term(self.sum_at_places(parts, line), entries.columns, entries.rows)

    def sum_of(self, s, t, i):
        type = self.type(i)
        cols = s.cols if s.cols is t.cols else np.maximum(s.cols, t.cols)
        first, second = [self.without_gaps(t, i) for t in (s, t)]
        if not self.is_value(first) and not self.is_value(second):
            return Term(first + second, cols)
        first, second = self.as_value(first, type), self.as_value(second, type)
        is_number = not (self.is_array(first) or self.is_array(second))
        return Term(self.code.add(_ADD, self.type(self.one) if is_number else type, first, second), cols)

    def without_gaps(self, t, i):
        """Return the coefficients of a term with zeros in its gaps."""
        type = self.type(i)
        if t.clean or not _has_gaps(t.cols):
            return t.coef
        if not self.is_value(t.coef):
            return np.where(t.cols >= 0, t.coef, 0.0)
        mask = self.code.constant_array(np.ascontiguousarray(self.in_shape(t.cols >= 0, i)))
        return self.code.add(Op.SELECT, type, mask, t.coef, self.zero)

    # ------------------------------------------------------------------------------------------ moved elements

    def aligned_part(self, t, i, seen, move):
        """Return an aligned term of result i, whose elements are some of those of the term's value.

        `seen` selects them from a constant 1-D array; `move` emits the instruction that selects them from an array.
        """
        coef = t.coef
        if self.is_array(coef):
            coef = move(coef)
        elif isinstance(coef, np.ndarray):
            coef = self.constant_by_offset(seen(coef), i)
        return Term(coef, self.by_offset(i, seen(t.cols)), None, t.clean)

    def coordinate_part(self, t, places, targets):
        """Select elements of a coordinate-form term: from the offsets `places` to the offsets `targets`."""
        flat = places.ravel()
        order = np.argsort(flat, kind="stable")
        ends = np.cumsum(np.bincount(flat + 1, minlength=int(t.rows.max(initial=-1)) + 2))  # by offset, from -1 on
        low, counts = ends[t.rows], ends[t.rows + 1] - ends[t.rows]
        if counts.sum() > self.coefficients_left:
            raise Refused("too many terms")
        which = np.repeat(np.arange(t.cols.size), counts)
        first = np.cumsum(counts) - counts
        rows = targets[order[np.arange(which.size) + np.repeat(low - first, counts)]]
        return Term(self.selected(t.coef, which), t.cols[which], rows)

    def constant_by_offset(self, elements, i):
        """Lay out constants for the memory of value i; return a float if i is a scalar."""
        if self.is_scalar(i):
            return float(np.ravel(elements)[0])
        line = np.zeros(self.extent(i))
        self.in_shape(line, i)[...] = np.reshape(elements, self.type(i)[1])
        return line

    def moved_elements(self, terms, v, i, where):
        """Return terms of result i, whose elements are those of v at C-order index `where`; -1: from elsewhere."""
        is_there = where >= 0
        if self.is_scalar(i):
            return self.element(terms, int(self.offsets(v).ravel()[int(where)])) if is_there else []
        places = self.offsets(v).ravel()[np.maximum(where, 0)] if is_there.any() else where
        index = self.code.constant_array(places.astype(np.int32))
        found = []
        for t in terms if is_there.any() else ():
            if t.rows is not None or i in self.finals:
                t = self.in_coordinates(t, v)
                found.append(self.coordinate_part(t, np.where(is_there, places, -1), self.offsets(i).ravel()))
                continue
            coef, line = t.coef, self.by_offset(i, np.where(is_there, t.cols[places], np.int32(-1)))
            is_clean = t.clean
            if isinstance(coef, np.ndarray):
                coef = self.constant_by_offset(np.where(is_there, coef[places], 0.0), i)
            elif self.is_array(coef):
                coef = self.code.add(Op.GATHER, (_FLOAT, places.shape, None), coef, index)
                is_clean = is_clean and bool(is_there.all())
            found.append(self.in_type_of(Term(coef, line, None, is_clean and self.is_clean(coef, line)), i))
        return found

    def view(self, i, a, b, c):
        view = self.code.views[b]
        if self.type(a)[0] != self.type(i)[0]:
            raise Refused("complex values are not supported")
        if 0 in view[1]:
            return []
        repeats = self.has_repeats(kind_of(self.code, a))
        places = functools.cache(lambda: self.own_offsets(places_of(view, _FLOAT), a))
        if repeats:  # coefficients are in C order, so the view of the program does not apply to them
            seen = lambda line: line[places()]
            index = self.code.constant_array(np.ascontiguousarray(places(), dtype=np.int32))
            move = lambda coef: self.code.add(Op.GATHER, (_FLOAT, view[1], None), coef, index)
        else:
            seen = lambda line: _viewed(line, view)
            is_moved = overlaps(*view[1:])
            move = lambda coef: (
                self.without_overlap(self.part(coef, view))
                if is_moved
                else self.record_origin(self.code.part(coef, view, _FLOAT), coef, view, is_part=True)
            )
        return self.part_terms(a, i, seen, move, places)

    def part_terms(self, a, i, seen, move, places):
        found = []
        for t in self.terms.get(a, ()):
            if t.rows is None:
                found.append(self.in_type_of(self.aligned_part(t, i, seen, move), i))
            else:
                found.append(self.coordinate_part(t, places(), self.offsets(i).ravel()))
        return found

    def in_type_of(self, t, i):
        """Convert an aligned array coefficient to the layout of value i."""
        if t.rows is None and self.is_array(t.coef) and self.type(t.coef) != self.type(i):
            return t._replace(coef=self.broadcast(t.coef, i))
        return t

    def load(self, i, a, b, c):
        return self.element(self.terms.get(a, ()), int(self.own_offsets(np.array(b), a)))

    def element(self, terms, place):
        """Return the terms of the element at an offset, a scalar."""
        found = []
        for t in terms:
            if t.rows is None:
                if t.cols[place] >= 0:
                    coef = self.code.part(t.coef, (8 * place, (), ()), _FLOAT) if self.is_array(t.coef) else t.coef
                    coef = float(coef[place]) if isinstance(coef, np.ndarray) else coef
                    found.append(Term(coef, t.cols[place : place + 1]))
                continue
            which = np.flatnonzero(t.rows == place)
            if which.size:
                found.append(Term(self.selected(t.coef, which), t.cols[which], np.zeros(which.size, np.int64)))
        return found

    def gather(self, i, a, b, c):
        places = self.code.arrays[self.table[1][b]]
        if self.has_repeats(kind_of(self.code, a)):
            raise Refused("a gather from a view that repeats elements")
        move = lambda coef: self.code.add(Op.GATHER, self.type(i), coef, b)
        return self.part_terms(a, i, lambda line: line[places], move, lambda: places) if places.size else []

    def place(self, i, a, b, c):
        view = self.code.views[b]
        if overlaps(view[1], view[2]):
            raise Refused("a store through a view that overlaps itself")
        is_whole = math.prod(view[1]) == math.prod(self.type(i)[1])
        type = self.type(i)
        put = lambda base, coef: self.record_origin(
            self.code.place(-1 if is_whole else base, view, coef, type), coef, view, is_part=False
        )
        return self.stored(i, a, c, _ViewPositions(view), put)

    def put(self, i, a, b, c):
        target = _Positions(self.code.arrays[self.table[1][b]])
        put = lambda base, coef: self.code.add(Op.PUT, self.type(i), base, b, self.broadcast(coef, c))
        return self.stored(i, a, c, target, put)

    def stored(self, i, a, c, target, put):
        """Return the terms of an array a into which the elements of c are stored at `target`."""
        bases = self.terms.get(a, []) if a >= 0 else []
        parts = self.terms.get(c, [])
        count = math.prod(self.type(c)[1])
        is_final = i in self.finals and count == target.size
        above = [] if is_final else [t for t in bases if t.rows is None]
        if is_final:
            parts = [self.in_coordinates(t, c) for t in parts]
        below = [t for t in parts if t.rows is None]
        found = [self.stored_term(i, a, c, base, part, target, put) for base, part in self.paired(above, below, target)]
        if len(above) < len(bases):
            is_left = np.ones(self.extent(i), bool)
            target.store(is_left, np.False_)
            lines = bases if is_final else [t for t in bases if t.rows is not None]
            found += [left for t in lines for left in self.not_overwritten(t, a, i, is_left)]
        for t in parts:
            if t.rows is not None:
                if count != target.size:
                    spread = np.broadcast_to(_without_ones(self.offsets(c), len(target.shape)), target.shape)
                    found.append(self.coordinate_part(t, spread, target.places))
                    continue
                elements = t.rows if self.type(c)[2] is None else self.element_indices(c)[t.rows]
                places = target.places if self.is_whole_range(elements) else target.places[elements]
                found.append(t._replace(rows=places))
        return found

    def not_overwritten(self, t, a, i, is_left):
        """Restrict a term of a to elements of i that are not overwritten, in coordinate form; empty if none."""
        if t.rows is None and self.type(a) == self.type(i):
            which = np.flatnonzero((t.cols >= 0) & is_left).astype(np.int32)
            return [Term(self.selected(t.coef, which), t.cols[which], which)] if which.size else []
        t = self.in_coordinates(t, a)
        rows = self.moved_offsets(t.rows, a, i)
        which = np.flatnonzero(is_left[rows])
        if which.size == rows.size:
            return [t._replace(rows=rows)]
        return [Term(self.selected(t.coef, which), t.cols[which], rows[which])] if which.size else []

    def stored_term(self, i, a, c, base, part, target, put):
        """Store a term of c into a term of a; either may be None."""
        under, coef, cols = 0.0, 0.0, np.int32(-1)
        if base is None:
            line = np.full(self.extent(i), -1, np.int32)
        else:
            line = base.cols.copy() if self.type(a) == self.type(i) else self.by_offset(i, self.in_shape(base.cols, a))
            under = self.relaid(base.coef, a, i)
        if part is not None:
            cols, coef = self.in_shape(part.cols, c), part.coef
        target.store(line, cols)
        clean = (base is None or base.clean) and (part is None or part.clean)
        if not self.is_value(under) and not self.is_value(coef):
            if isinstance(under, float) and isinstance(coef, float) and (base is None or part is None or under == coef):
                found = under if part is None else coef
                return Term(found, line, None, clean and self.is_clean(found, line))
            found = np.array(np.broadcast_to(under, line.shape))
            is_line = isinstance(coef, np.ndarray) and self.type(c)[1] != ()
            target.store(found, self.in_shape(coef, c) if is_line else np.float64(coef))
            return Term(found, line, None, clean)
        return Term(put(self.broadcast(under, i), self.as_value(coef, self.type(c))), line, None, clean)

    def paired(self, bases, parts, target):
        """Pair the terms of an array with those stored into it, preferring equal distances of column and row."""

        def lag(t, place):
            if not _has_some(t.cols):
                return 0
            first = int(np.argmax(t.cols >= 0))
            return int(t.cols[first]) - place(first)

        rest = list(parts)
        pairs = []
        for base in bases:
            own = lag(base, int)
            match = next((k for k, part in enumerate(rest) if lag(part, target.place) == own), None)
            pairs.append([base, None if match is None else rest.pop(match)])
        for pair in pairs:
            if pair[1] is None and rest:
                pair[1] = rest.pop(0)
        return [*map(tuple, pairs), *[(None, part) for part in rest]]

    def pack(self, i, a, b, c):
        offsets, values = self.code.packs[b]
        found, lined = [], []
        for offset, v in zip(offsets.tolist(), values.tolist()):
            k = 0
            for t in self.terms.get(v, ()):
                if t.rows is not None:
                    found.append(t._replace(rows=np.full(t.cols.size, offset)))
                    continue
                if k == len(lined):
                    lined.append({})
                lined[k][offset] = t
                k += 1
        bases = self.terms.get(a, []) if a >= 0 else []
        for t in bases:
            if t.rows is not None:
                which = np.flatnonzero(~np.isin(t.rows, offsets))
                if which.size:
                    found.append(Term(self.selected(t.coef, which), t.cols[which], t.rows[which]))
        bases = [t for t in bases if t.rows is None]
        for k in range(max(len(bases), len(lined))):
            line = bases[k].cols.copy() if k < len(bases) else np.full(self.extent(i), -1, np.int32)
            line[offsets] = -1
            put = lined[k] if k < len(lined) else {}
            coefs = []
            for offset in offsets.tolist():
                t = put.get(offset)
                coefs.append(self.zero if t is None else self.as_value(t.coef, self.type(self.one)))
                if t is not None:
                    line[offset] = t.cols[0]
            self.code.packs.append((offsets, np.array(coefs, dtype=np.int32)))
            base = self.broadcast(bases[k].coef, i) if k < len(bases) else -1
            coef = self.code.add(Op.PACK, self.type(i), base, len(self.code.packs) - 1)
            found.append(Term(coef, line, None, k >= len(bases) or bases[k].clean))
        return found

    # ------------------------------------------------------------------------------------------ sums

    def summed(self, terms, v, i, target):
        """Return terms of sums: C-order element e of v is added to offset ``target[e]`` of the result."""
        found = []
        to = np.zeros(self.extent(v), np.int64)
        to[self.offsets(v).ravel()] = target.ravel()
        for t in terms:
            t = self.in_coordinates(t, v)
            if t.cols.size:
                found.append(t._replace(rows=to[t.rows]))
        return found

    def sum(self, i, a, b, c):
        return self.summed(self.terms.get(a, ()), a, i, np.zeros(self.type(a)[1], np.int64))

    def scatter(self, i, a, b, c):
        return self.summed(self.terms.get(a, ()), a, i, self.code.arrays[self.table[1][b]])

    # ------------------------------------------------------------------------------------------ the matrix

    def assembled(self, symmetric, dense, wanted):
        """Return the program of all entries in row order, or in the order of `wanted`."""
        n, m = [math.prod(self.type(v)[1]) for v in (self.x, self.y)]
        parts, may_be_whole = self.result_entries(m, symmetric), symmetric and wanted is None
        if any(_is_one_entry(rows, cols) for _, rows, cols in parts):
            parts = self.merged_single_entries(parts)
        # mirror before sorting if no entry is a sum, which is likely where the rows of all parts ascend
        is_whole = may_be_whole and all(rows is None or (rows[1:] > rows[:-1]).all() for _, rows, _ in parts)
        coefs, entries = self.sorted_parts(parts, is_whole, m, n)
        if not entries.are_distinct:
            parts, is_whole = self.merged_single_entries(parts), False
            coefs, entries = self.sorted_parts(parts, False, m, n)
        if may_be_whole and not is_whole and entries.are_distinct:
            is_whole = True
            coefs, entries = self.sorted_parts(parts, True, m, n)
        is_half = symmetric and not is_whole
        if wanted is not None:
            return self.in_wanted_order(coefs, entries, wanted, symmetric)
        if dense:
            places = [entries.keys[where] for where in entries.places]
            return self.whole_matrix(self.filled_data(coefs, places, m * n, entries.are_distinct), is_half, m, n)
        data = self.filled_data(coefs, entries.places, len(entries.columns), entries.are_distinct)
        starts, columns = entries.starts, entries.columns
        if is_half:
            starts, columns, data = self.mirrored(entries, data)
        self.code.outputs = [data]
        return Entries(simplify.simplified(self.code, False), starts, columns)

    def sorted_parts(self, parts, is_whole, m, n):
        """Sort the entries of parts by rows; mirror them first if `is_whole`."""
        if is_whole:
            parts = [part for one in parts for part in self.with_mirror(*one)]
        return [coef for coef, *_ in parts], _SortedEntries(parts, m, n)

    def result_entries(self, m, symmetric):
        """Return coefficients, rows and columns of all entries; rows None: entry e is in row e.

        If symmetric, only those on and below the diagonal.
        """
        y, parts = self.y, []
        is_dense = self.type(y)[2] is None
        row_of = None if is_dense else self.element_indices(y).astype(np.int32)
        for t in self.terms.get(y, ()):
            t = self.in_coordinates(t, y)
            coef, rows, cols = t.coef, t.rows if is_dense else row_of[t.rows], t.cols
            if symmetric:
                is_below = cols <= rows
                if not is_below.all():
                    which = np.flatnonzero(is_below)
                    coef, rows, cols = self.selected(coef, which), rows[which], cols[which]
            if rows.size:
                parts.append((coef, None if rows is self.aranges.get(m) else rows, cols))
        return parts

    def in_wanted_order(self, coefs, entries, wanted, symmetric):
        """Return the program of the wanted entries, in their order.

        If both (i, j) and (j, i) of a symmetric matrix are wanted, the entry is computed once and copied.
        """
        n = math.prod(self.type(self.x)[1])
        rows, cols = [np.asarray(part, np.int64) for part in wanted]
        if symmetric:
            rows, cols = np.maximum(rows, cols), np.minimum(rows, cols)
        keys, number = np.unique(rows * n + cols, return_inverse=True)
        found = entries.keys
        at = np.searchsorted(keys, found)
        is_there = at < keys.size
        is_there[is_there] = keys[at[is_there]] == found[is_there]
        if not is_there.all():
            i, j = divmod(int(found[~is_there][0]), n)
            raise Refused(f"({i}, {j}) is not in the given pattern")
        are_read_once = keys.size == number.size
        if are_read_once:
            target = np.empty(keys.size, np.int64)
            target[number] = np.arange(number.size)
            at = target[at]
        data = self.filled_data(coefs, [at[where] for where in entries.places], keys.size, entries.are_distinct)
        if not are_read_once:
            index = self.code.constant_array(number.astype(np.int32))
            data = self.code.add(Op.GATHER, (_FLOAT, (number.size,), None), data, index)
        self.code.outputs = [data]
        none = np.zeros(0, np.int32)
        return Entries(simplify.simplified(self.code, False), none, none)

    def whole_matrix(self, data, symmetric, m, n):
        """Return the program of the whole matrix, in the shape of the derivative."""
        if symmetric:
            rows, cols = np.divmod(np.arange(m * n), n)
            index = self.code.constant_array((np.maximum(rows, cols) * n + np.minimum(rows, cols)).astype(np.int32))
            data = self.code.add(Op.GATHER, (_FLOAT, (m * n,), None), data, index)
        shape = self.type(self.y)[1] + self.type(self.x)[1]
        view = (0, shape, c_strides(shape, 8))
        self.code.outputs = [data if shape == (m * n,) else self.code.part(data, view, _FLOAT)]
        none = np.zeros(0, np.int32)
        return Entries(simplify.simplified(self.code, False), none, none)

    def filled_data(self, coefs, places, count, are_distinct):
        """Return the data array: constants are initial values; other coefficients are stored, or added if shared."""
        constant, used = np.zeros(count), np.zeros(0 if are_distinct else count, bool)
        for coef, where in zip(coefs, places):
            if not self.is_value(coef) and are_distinct:
                constant[where] = coef
            elif not self.is_value(coef):
                np.add.at(constant, where, coef)
                used[where] = True
        type = (_FLOAT, (count,), None)
        data = self.constant_data(constant, type)
        added = []
        for coef, where in zip(coefs, places):
            if not self.is_value(coef):
                continue
            is_new = are_distinct or (not used[where].any() and np.bincount(where, minlength=1).max() <= 1)
            if not are_distinct:
                used[where] = True
            if is_new:
                data = self.put_at(data, where, coef, type)
            else:
                added.append((coef, where))
        return self.code.add(_ADD, type, data, self.sum_at_places(added, type)) if added else data

    def constant_data(self, constant, type):
        """Return a constant 1-D array, stored sparsely if nearly all of it is 0."""
        where = np.flatnonzero(constant)
        if constant.size < _MIN_VIEW_LENGTH or where.size > _MAX_SCATTERED_SHARE * constant.size:
            return self.code.constant_array(constant)
        data = self.code.filled(0.0, constant.shape)
        return self.put_at(data, where, self.code.constant_array(constant[where]), type) if where.size else data

    def put_at(self, data, where, coef, type):
        """Store a coefficient into the data: through a view if the positions are regular, otherwise by PUT."""
        axes = vectorise.lattice(where) if where.size else None
        if axes is not None and axes[-1] >= _MIN_VIEW_LENGTH:
            if self.is_array(coef):
                coef = self.code.part(self.as_row(coef, where.size), (0, axes, c_strides(axes, 8)), _FLOAT)
            steps = vectorise.strides_in(where, axes)
            return self.code.place(data, (8 * int(where[0]), axes, tuple([8 * step for step in steps])), coef, type)
        if not where.size:
            return data
        index = self.code.constant_array(where.astype(np.int32))
        return self.code.add(Op.PUT, type, data, index, self.as_row(coef, where.size))

    def as_row(self, coef, count):
        """Return a coefficient as a 1-D array of this length."""
        line = (_FLOAT, (count,), None)
        return coef if self.type(coef) == line else self.code.place(-1, self.whole(line), coef, line)

    def sum_at_places(self, parts, type):
        """Add coefficients at their positions, by one SCATTER of their concatenation."""
        where = np.concatenate([where for _, where in parts])
        line, start = (_FLOAT, (where.size,), None), 0
        found = self.code.place(-1, self.whole(line), self.zero, line) if len(parts) > 1 else -1
        for coef, places in parts:
            found = self.code.place(found, (8 * start, (places.size,), (8,)), coef, line)
            start += places.size
        return self.code.add(Op.SCATTER, type, found, self.code.constant_array(where.astype(np.int32)))

    def merged_single_entries(self, parts):
        """Reduce parts that all belong to one entry to a scalar, one for each such entry."""
        rest, totals = [], {}
        for coef, rows, cols in parts:
            if len(cols) == 1 or _is_one_entry(rows, cols):
                key = 0 if rows is None else int(rows[0]), int(cols[0])
                totals.setdefault(key, []).append(self.total(coef, len(cols)))
            else:
                rest.append((coef, rows, cols))
        for key, terms in totals.items():
            known = sum([float(term) for term in terms if not self.is_value(term)])
            values = [term for term in terms if self.is_value(term)]
            if values:
                values += [self.code.filled(known, ())] if known else []
                known = functools.reduce(lambda a, b: self.code.add(_ADD, self.type(self.one), a, b), values)
            rest.append((known, *[np.array([k], np.int32) for k in key]))
        return rest

    def total(self, coef, count):
        """Sum a coefficient over `count` positions; a scalar is multiplied by the count."""
        if not self.is_value(coef):
            return float(np.sum(np.broadcast_to(coef, (count,))))
        if self.is_array(coef):
            return self.code.add(Op.SUM, self.type(self.one), coef)
        count = self.code.filled(float(count), ())
        return self.code.add(_MULTIPLY, self.type(self.one), coef, count)

    def with_mirror(self, coef, rows, cols):
        """Return a part of the lower triangle and its mirror image without the diagonal."""
        own = self.arange(len(cols)) if rows is None else rows
        is_off = own != cols
        if is_off.all():
            return [(coef, rows, cols), (coef, cols, own)]
        off = np.flatnonzero(is_off)
        above = [(self.selected(coef, off), cols[off], own[off])] if off.size else []
        return [(coef, rows, cols), *above]

    def mirrored(self, entries, data):
        """Return CSR starts, columns and data of a symmetric matrix, given those of its lower triangle."""
        rows, columns = entries.rows, entries.columns
        off = np.flatnonzero(rows != columns)
        starts, found, places, _ = sort_by_rows([rows, columns[off]], [columns, rows[off]], len(entries.starts) - 1)
        source = np.empty(len(found), np.int32)
        for where, which in zip(places, (self.arange(len(rows)), off)):
            source[where] = which
        if source.size:
            data = self.code.add(Op.GATHER, (_FLOAT, (source.size,), None), data, self.code.constant_array(source))
        return starts, found, data


class _SortedEntries:
    """Entries of parts, given as (coefficient, rows, columns), sorted as an m x n CSR matrix.

    `places` has the sorted index of each entry, by part; equal entries share one unless they `are_distinct`.
    """

    def __init__(self, parts, m, n):
        as_int32 = functools.partial(np.ascontiguousarray, dtype=np.int32)
        rows = [part if part is None else as_int32(part) for _, part, _ in parts]
        cols = [as_int32(part) for *_, part in parts]
        self.starts, self.columns, self.places, self.are_distinct = sort_by_rows(rows, cols, m)
        self.n = n

    @functools.cached_property
    def rows(self):
        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    @functools.cached_property
    def keys(self):
        """Row-major indices in the full matrix."""
        return self.rows * np.int64(self.n) + self.columns


def _is_one_entry(rows, cols):
    """Return whether there are two or more entries, all at the same row and column."""
    if rows is None or len(cols) < 2 or rows[0] != rows[1] or cols[0] != cols[1]:
        return False
    return bool((rows == rows[0]).all() and (cols == cols[0]).all())


class _Positions:
    """Offsets in a 1-D array, given explicitly."""

    def __init__(self, places):
        self.shape, self.size, self.places = places.shape, places.size, places.ravel()

    def place(self, k):
        """Return the k-th offset, or the first if there are fewer."""
        return int(self.places[k if k < self.size else 0])

    def store(self, line, elements):
        line[self.places] = np.broadcast_to(_without_ones(elements, len(self.shape)), self.shape).ravel()


class _ViewPositions(_Positions):
    """Offsets of a view whose elements do not share memory."""

    def __init__(self, view):
        self.view, self.shape, self.size = view, view[1], math.prod(view[1])

    @functools.cached_property
    def places(self):
        return places_of(self.view, _FLOAT).ravel()

    def place(self, k):
        offset, shape, strides = self.view
        index = np.unravel_index(k if k < self.size else 0, shape) if shape else ()
        return (offset + sum([int(j) * step for j, step in zip(index, strides)])) // 8

    def store(self, line, elements):
        _viewed(line, self.view)[...] = _without_ones(elements, len(self.shape))


def _without_ones(elements, ndim):
    """Drop leading axes of length 1 so that the elements broadcast to `ndim` axes."""
    while elements.ndim > ndim:
        elements = elements[0]
    return elements


def _viewed(line, view):
    """Apply a view of float64 elements to a 1-D array of any dtype."""
    offset, shape, strides = view
    size = line.itemsize
    if 0 in shape:
        return np.empty(shape, line.dtype)
    return np.ndarray(shape, line.dtype, line, offset // 8 * size, tuple([step // 8 * size for step in strides]))


def _has_some(cols):
    """Return whether any entry is present."""
    return cols.size > 0 and bool(cols[0] >= 0 or cols[-1] >= 0 or cols.max() >= 0)


def _has_gaps(cols):
    """Return whether any entry is missing (-1)."""
    return cols.size > 0 and bool(cols[0] < 0 or cols.min() < 0)


_RULES = {
    Op.SELECT: _Accumulation.select,
    Op.VIEW: _Accumulation.view,
    Op.LOAD: _Accumulation.load,
    Op.GATHER: _Accumulation.gather,
    Op.PLACE: _Accumulation.place,
    Op.PUT: _Accumulation.put,
    Op.PACK: _Accumulation.pack,
    Op.SUM: _Accumulation.sum,
    Op.SCATTER: _Accumulation.scatter,
    Op.CALL: call_partials.call,
}
