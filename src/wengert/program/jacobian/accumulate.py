"""Accumulates each Jacobian entry directly, without seed directions or colouring.

Each entry of a Jacobian is a sum of products of partials. Neighbouring entries of array code are computed in the same
way, so they are accumulated as arrays: one forward pass keeps the accumulated partials of each value as *terms*, each
an array of coefficients with their columns.
An elementwise instruction multiplies coefficients by a partial, a view takes a view of them, and a store into an array
stores into its coefficients.
A term is aligned if each coefficient lies at the offset of its row; after sums, terms are in coordinate form and store
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
from typing import Any

import numpy as np

from wengert.core.levels import caught
from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.program.derive import source_transform
from wengert.program.ir.call_rules import places as places_of
from wengert.program.ir.ir import kind_of, operands, overlaps
from wengert.program.ir.opcode_table import OPCODES
from wengert.program.ir.opcodes import Op
from wengert.program.jacobian import call_partials, stores
from wengert.program.jacobian.assemble import Entries, SortedEntries, assembled, sum_at_places
from wengert.program.jacobian.coefficients import Coefficients, viewed
from wengert.program.jacobian.csr import first_compatible
from wengert.program.jacobian.expand_calls import expand
from wengert.program.jacobian.scalar_partials import ScalarTerms, operations_from, readers
from wengert.program.jacobian.term import Refused, Term, has_gaps, has_some
from wengert.program.passes import simplify

_FLOAT = np.dtype(float)
_ADD, _SUBTRACT, _MULTIPLY = OPCODES["add"], OPCODES["subtract"], OPCODES["multiply"]
_NEGATIVE, _POSITIVE = OPCODES["negative"], OPCODES["positive"]
_SINGLE = OPCODES["wengert.core.tape.kernel.single"]

# Limits on accumulated partials ("terms"), beyond which colouring is cheaper: benchmarks/sparse_plans.py compares them.
#: limit on the terms of one value
_MAX_TERMS_PER_VALUE = 96
#: limit on the coordinate-form terms of one value; more are merged into one
_MAX_COORDINATE_TERMS = 12
#: limit on the terms of all values, or the number of instructions if that is larger; a term takes about 10 us
_MIN_TERM_LIMIT = 50_000
#: factor by which that limit is larger for terms of scalars, each of which takes less than a microsecond
_SCALAR_TERM_FACTOR = 8
#: limit on the coefficients of all terms, per element of x and y, and its minimum
_MAX_COEFFICIENTS_PER_ELEMENT = 400
_MIN_COEFFICIENT_LIMIT = 1_000_000
#: if larger, the limit is this many coefficients per element of all values, up to a total (8 bytes each)
_MEAN_COEFFICIENTS_PER_ELEMENT, _MAX_COEFFICIENTS = 24, 100_000_000
#: simplification may shrink the operation count by this factor
_SIMPLIFICATION_FACTOR = 2.0


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
    with caught(NonSmoothError, UnsupportedFunctionError) as why:  # other algorithms report this if it matters
        found.run()
    if why.error is not None:
        raise Refused(str(why.error))
    return assembled(found, symmetric, dense, wanted)


class _Accumulation(Coefficients):
    def __init__(self, code, x, y, example, most):
        code, of = expand(code)
        self.sweep = source_transform.Forward(code, example)
        super().__init__(self.sweep.code, self.sweep.size, example)
        self.x, self.y = int(of[x]), int(of[y])
        self.terms: dict[int, Any] = {}  # by value: a list of `Term`, or for a scalar a dict of coefficients by column
        self.rules: dict = {}  # traced derivatives of calls, by everything that they depend on
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
        found = self.merged([t for t in found if t.rows is not None or has_some(t.cols)], i)
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
        """Raise `Refused` if the operations so far, plus `more`, exceed the limit."""
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
            elif op not in (_ADD, _SUBTRACT, _NEGATIVE, _POSITIVE, _SINGLE):
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
            return self.constant_by_offset(self.in_shape(coef, v), i)
        return self.in_layout(coef, i)

    def is_clean(self, coef, cols):
        return self.is_array(coef) or isinstance(coef, np.ndarray) or not has_gaps(cols)

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
        entries = SortedEntries([(t.coef, t.rows, t.cols) for t in terms], self.extent(i), n)
        line = (_FLOAT, entries.columns.shape, None)
        parts = [
            (self.as_value(t.coef, (_FLOAT, t.cols.shape, None)), where) for t, where in zip(terms, entries.places)
        ]
        return Term(sum_at_places(self, parts, line), entries.columns, entries.rows)

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
        if t.clean or not has_gaps(t.cols):
            return t.coef
        if not self.is_value(t.coef):
            return np.where(t.cols >= 0, t.coef, 0.0)
        mask = self.code.constant_array(np.ascontiguousarray(self.in_shape(t.cols >= 0, i)))
        return self.code.add(Op.SELECT, type, mask, t.coef, self.zero)

    # ------------------------------------------------------------------------------------------ moved elements

    def aligned_part(self, t, i, seen, move):
        """Return the aligned term of result i, which consists of some elements of the value of term t.

        `seen` selects these elements of a constant 1-D array; `move` emits an instruction that selects them.
        """
        coef = t.coef
        if self.is_array(coef):
            coef = move(coef)
        elif isinstance(coef, np.ndarray):
            coef = self.constant_by_offset(seen(coef), i)
        return Term(self.in_layout(coef, i), self.by_offset(i, seen(t.cols)), None, t.clean)

    def coordinate_part(self, t, places, targets):
        """Return the coordinate-form term of the elements at offsets `places`, moved to the offsets `targets`."""
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
        """Return terms of result i, whose elements are those of v at the C-order indices `where` (-1: not from v)."""
        is_there = where >= 0
        if self.is_scalar(i):
            return self.element(terms, int(self.offsets(v).ravel()[int(where)])) if is_there else []
        places = self.offsets(v).ravel()[np.maximum(where, 0)] if is_there.any() else where
        index = self.code.constant_array(places.astype(np.int32))
        found = []
        for t in terms if is_there.any() else ():
            if t.rows is not None or i in self.finals:
                t = self.in_coordinates(t)
                found.append(self.coordinate_part(t, np.where(is_there, places, -1), self.offsets(i).ravel()))
                continue
            coef, line = t.coef, self.by_offset(i, np.where(is_there, t.cols[places], np.int32(-1)))
            is_clean = t.clean
            if isinstance(coef, np.ndarray):
                coef = self.constant_by_offset(np.where(is_there, coef[places], 0.0), i)
            elif self.is_array(coef):
                coef = self.code.add(Op.GATHER, (_FLOAT, places.shape, None), coef, index)
                is_clean = is_clean and bool(is_there.all())
            found.append(Term(self.in_layout(coef, i), line, None, is_clean and self.is_clean(coef, line)))
        return found

    def view(self, i, a, b, c):
        view = self.code.views[b]
        if self.type(a)[0] != self.type(i)[0]:
            raise Refused("complex values are not supported")
        if 0 in view[1]:
            return []
        repeats = self.has_repeats(kind_of(self.code, a))
        places = functools.cache(lambda: self.own_offsets(places_of(view, _FLOAT), a))
        if repeats:  # coefficients are in C order, so the view in the program does not apply to them
            seen = lambda line: line[places()]
            index = self.code.constant_array(np.ascontiguousarray(places(), dtype=np.int32))
            move = lambda coef: self.code.add(Op.GATHER, (_FLOAT, view[1], None), coef, index)
        else:
            seen = lambda line: viewed(line, view)
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
                found.append(self.aligned_part(t, i, seen, move))
            else:
                found.append(self.coordinate_part(t, places(), self.offsets(i).ravel()))
        return found

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

    # ------------------------------------------------------------------------------------------ sums

    def summed(self, terms, v, i, target):
        """Return terms of sums: C-order element e of v is added to offset ``target[e]`` of the result."""
        found = []
        to = np.zeros(self.extent(v), np.int64)
        to[self.offsets(v).ravel()] = target.ravel()
        for t in terms:
            t = self.in_coordinates(t)
            if t.cols.size:
                found.append(t._replace(rows=to[t.rows]))
        return found

    def sum(self, i, a, b, c):
        return self.summed(self.terms.get(a, ()), a, i, np.zeros(self.type(a)[1], np.int64))

    def scatter(self, i, a, b, c):
        return self.summed(self.terms.get(a, ()), a, i, self.code.arrays[self.table[1][b]])


_RULES = {
    Op.SELECT: _Accumulation.select,
    Op.VIEW: _Accumulation.view,
    Op.LOAD: _Accumulation.load,
    Op.GATHER: _Accumulation.gather,
    Op.PLACE: stores.place,
    Op.PUT: stores.put,
    Op.PACK: stores.pack,
    Op.SUM: _Accumulation.sum,
    Op.SCATTER: _Accumulation.scatter,
    Op.CALL: call_partials.call,
}
