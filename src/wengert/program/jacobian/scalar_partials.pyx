# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Accumulates partials of scalars computed from scalars: for each, a dict of coefficients by column.

A coefficient is a value of the program (an int) or a constant (a float).
Unrolled loops leave thousands of scalar instructions that no array operation replaces; dicts are much cheaper for them
than lists of `Term`, which arrays, sums and calls use.
"""

import math

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t

import numpy as np

from wengert.core.tape.tape cimport WG_ADD, WG_MULTIPLY, WG_NEGATIVE, WG_POSITIVE, WG_SINGLE, WG_SUBTRACT
from wengert.program.ir.ir cimport FLAG, HAS_DERIVATIVE, IS_ELEMENTWISE, SCALAR, Listing, column_operands, emit, has
from wengert.program.ir.opcodes cimport *

from wengert.program.ir.ir import operands

cnp.import_array()

cdef enum:
    CHECK_INTERVAL = 1024        # terms between two calls of `check`


@cython.final
cdef class ScalarTerms:
    """Processes runs of scalar instructions in accumulation.

    Parameters
    ----------
    sweep : Forward
        Provides partials; coefficients are appended to its program.
    terms : dict
        Terms by value; shared with the accumulation of arrays.
    needed : bytearray
        Which values the result depends on.
    last : array of int32
        Last reader of each value, after which its terms are dropped.
    x : int
        The input.
    check : callable
        Called regularly with the number of terms found since the last call.
    """

    cdef Listing code
    cdef object sweep, check
    cdef dict terms
    cdef bytearray needed
    cdef const int32_t[::1] last
    cdef Py_ssize_t size, x, zero, found

    def __init__(self, sweep, dict terms, bytearray needed, last, Py_ssize_t x, check):
        self.code, self.sweep, self.size = sweep.code, sweep, sweep.size
        self.terms, self.needed, self.last, self.x, self.check = terms, needed, last, x, check
        self.zero = -1

    def run(self, Py_ssize_t i):
        """Process instructions from i on; return the first that this class does not handle."""
        self.found = 0
        while i < self.size:
            if self.needed[i] and i != self.x and not self.instruction(<int32_t>i):
                break
            self.forget(i)
            if self.found > CHECK_INTERVAL:
                self.check(self.found)
                self.found = 0
            i += 1
        self.check(self.found)
        return i

    cpdef int forget(self, Py_ssize_t i) except -1:
        """Drop the terms of values whose last reader is instruction i."""
        cdef int32_t v
        cdef int32_t[3] column
        cdef int k
        for k in range(column_operands(self.code, i, column)):
            self.forget_one(column[k], i)
        if self.code.ops[i] == PACK:
            for v in self.code.packs[self.code.bs[i]][1]:
                self.forget_one(v, i)
        elif self.code.ops[i] == CALL:
            for v in self.code.calls[self.code.as_[i]].operands:
                self.forget_one(v, i)
        return 0

    cdef inline int forget_one(self, int32_t v, Py_ssize_t i) except -1:
        if self.last[v] == i:
            self.terms.pop(v, None)
        return 0

    # ------------------------------------------------------------------------------------------ instructions

    cdef bint instruction(self, int32_t i) except -1:
        """Process one instruction; return False if this class does not handle it."""
        cdef Listing code = self.code
        cdef int op = code.ops[i]
        cdef dict found = {}
        if not has(op, HAS_DERIVATIVE):
            return True
        if not self.has_terms(i, op):
            return True
        if code.kinds[i] != SCALAR:
            return False
        if op < INPUT or op == STRONG:
            if not (self.has_scalar_terms(code.as_[i]) and (op < WG_ADD or op >= PARTIAL and op != STRONG
                                                            or self.has_scalar_terms(code.bs[i]))):
                return False
            self.share(found, i, op, 0, code.as_[i])
            if (WG_ADD <= op < PARTIAL) or op == STRONG:
                self.share(found, i, op, 1, code.bs[i])
        elif op == SELECT and code.kinds[code.as_[i]] == FLAG:
            if not (self.has_scalar_terms(code.bs[i]) and self.has_scalar_terms(code.cs[i])):
                return False
            self.choose(found, i)
        else:
            return False
        self.terms[i] = found
        self.found += len(found)
        return True

    cdef bint has_terms(self, Py_ssize_t i, int op) except -1:
        cdef int32_t[3] column
        cdef int k
        if op == PACK or op == CALL:
            return not self.terms.keys().isdisjoint(operands(self.code, i))
        for k in range(column_operands(self.code, i, column)):
            if column[k] in self.terms:
                return True
        return False

    cdef bint has_scalar_terms(self, int32_t v) except -1:
        """Return whether the terms of a scalar are a dict, after converting a list of `Term` if possible."""
        cdef dict found
        cdef object which = self.terms.get(v)
        if which is None or type(which) is dict:
            return True
        for t in which:
            if t.cols.size != 1:
                return False
        found = {}
        for t in which:
            coef = t.coef
            if isinstance(coef, np.ndarray):
                coef = float(coef[0])
            elif isinstance(coef, int) and self.code.kinds[<int32_t>coef] > FLAG:
                coef = emit(self.code, LOAD, <int32_t>coef, 0, -1, SCALAR)
            self.add(found, int(t.cols[0]), coef)
        self.terms[v] = found
        return True

    cdef int share(self, dict found, int32_t i, int op, int side, int32_t v) except -1:
        """Add the contribution of one operand of an elementwise instruction."""
        cdef Listing code = self.code
        cdef dict given = self.terms.get(v)
        cdef object p = 1.0
        cdef bint is_negative = op == WG_NEGATIVE or (op == WG_SUBTRACT and side == 1)
        if not given:
            return 0
        if op == WG_MULTIPLY or op == STRONG:
            p = self.known(code.as_[i] if side else code.bs[i])
        elif op != WG_ADD and op != WG_SUBTRACT and op != WG_NEGATIVE and op != WG_POSITIVE and op != WG_SINGLE:
            p = self.known(self.sweep.partial(i, op, side))
        for column, coef in given.items():
            coef = self.product(coef, p)
            if is_negative:
                self.subtract(found, column, coef)
            else:
                self.add(found, column, coef)
        return 0

    cdef int choose(self, dict found, int32_t i) except -1:
        """Add the contributions of a selection between two scalars."""
        cdef Listing code = self.code
        cdef dict first = self.terms.get(code.bs[i]) or {}, second = self.terms.get(code.cs[i]) or {}
        for column, coef in first.items():
            other = second.get(column, 0.0)
            found[column] = emit(code, SELECT, code.as_[i], self.value(coef), self.value(other), SCALAR)
        for column, coef in second.items():
            if column not in first:
                found[column] = emit(code, SELECT, code.as_[i], self.value(0.0), self.value(coef), SCALAR)
        return 0

    # ------------------------------------------------------------------------------------------ coefficients

    cdef object known(self, int32_t v):
        """Return the constant of a value, or the value itself."""
        return self.code.constants[self.code.as_[v]] if self.code.ops[v] == CONST else v

    cdef int32_t value(self, coef) except -1:
        if isinstance(coef, int):
            return coef
        if coef == 0.0:
            if self.zero < 0:
                self.zero = self.code.constant(0.0)
            return <int32_t>self.zero
        return self.code.constant(coef)

    cdef object product(self, coef, p):
        """Multiply a coefficient by a partial, with strong zero."""
        cdef double x, y
        if isinstance(coef, float):
            x = coef
            if x == 1.0:
                return p
            if isinstance(p, float):
                y = p
                return 0.0 if x == 0.0 or y == 0.0 else x * y
        elif isinstance(p, float) and <double>p == 1.0:
            return coef
        return emit(self.code, STRONG, self.value(coef), self.value(p), -1, SCALAR)

    cdef int add(self, dict found, column, coef) except -1:
        own = found.get(column)
        if own is not None:
            if isinstance(own, float) and isinstance(coef, float):
                coef = <double>own + <double>coef
            else:
                coef = emit(self.code, WG_ADD, self.value(own), self.value(coef), -1, SCALAR)
        found[column] = coef
        return 0

    cdef int subtract(self, dict found, column, coef) except -1:
        own = found.get(column)
        if isinstance(coef, float):
            return self.add(found, column, -<double>coef)
        if own is None:
            found[column] = emit(self.code, WG_NEGATIVE, coef, -1, -1, SCALAR)
        else:
            found[column] = emit(self.code, WG_SUBTRACT, self.value(own), coef, -1, SCALAR)
        return 0


def readers(Listing code, Py_ssize_t size, int32_t y):
    """Find the last readers of values, and the values that are only stored into the result.

    Returns
    -------
    last : array of int32, shape (size,)
        The last instruction that reads a value; -1: none, or the value is the result `y`.
    finals : set of int
        `y`, and the stores (PLACE) that are read only by other stores in this set.
    """
    cdef Py_ssize_t i
    cdef int32_t v
    last_ = np.full(size, -1, np.int32)
    cdef int32_t[::1] last = last_
    cdef bytearray others = bytearray(max(1, size))        # is the value read by instructions not in `finals`?
    cdef set finals = {y}
    cdef bint is_final
    for i in range(size - 1, -1, -1):
        is_final = code.ops[i] == PLACE and (i == y or (last[i] >= 0 and not others[i]))
        if is_final:
            finals.add(i)
        for v in operands(code, i):
            if v == y:
                continue
            if last[v] < 0:
                last[v] = <int32_t>i
            if not is_final:
                others[v] = 1
    return last_, finals


def operations_from(Listing code, Py_ssize_t first):
    """Count scalar operations from an instruction on: one per element (of the operand in sums), no moves and calls."""
    cdef Py_ssize_t i, total = 0
    cdef int op
    cdef dict sizes = {SCALAR: 1, FLAG: 1}
    for i in range(first, code.n):
        op = code.ops[i]
        if op == SUM or op == SCATTER:
            kind = code.kinds[code.as_[i]]
        elif has(op, IS_ELEMENTWISE):
            kind = code.kinds[i]
        else:
            continue
        if kind not in sizes:
            sizes[kind] = math.prod(code.types[kind][1])
        total += sizes[kind]
    return total
