# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False, cdivision=True
"""Source transformation: appends a forward or reverse sweep to a program (Griewank and Walther 2008, chapter 6).

The result holds the instructions of the original program, followed by those of its tangents or adjoints.
Elementwise instructions are differentiated here; their partials, defined in ``kernels.h``, are instructions too.
The derivative rules of all other functions come from the registry: they are traced on example operands and inlined.
An adjoint that is the same everywhere is kept as a scalar.
"""

cimport cython
cimport numpy as cnp
from libc.stdint cimport int32_t
from libc.string cimport memset

import collections
import math

import numpy as np

from wengert.core.tape.memory cimport Block, take
from wengert.core.tape.tape cimport WG_ADD, WG_MULTIPLY, WG_NEGATIVE, WG_POSITIVE, WG_POW, WG_SINGLE, WG_SUBTRACT
from wengert.program.ir.ir cimport (
    FLAG, HAS_DERIVATIVE, IS_FUNCTION, SCALAR, Listing, copied, emit, filtered, has, names, overlaps, parted, set_ends,
    whole_view,
)
from wengert.program.ir.opcodes cimport *

from wengert.core import frames
from wengert.core.levels import caught
from wengert.deferred import deferred
from wengert.errors import NonSmoothError, UnsupportedFunctionError
from wengert.program.ir import call_rules
from wengert.program.ir.call import Call, Operand, is_function, is_solution, is_told, known_solutions, static
from wengert.program.ir.reference import evaluated, example_of, of_type
from wengert.program.ir.identity import Same
from wengert.program.ir.ir import operands
from wengert.program.ir.opcode_table import OPCODES, ROWS, primitive
from wengert.program.passes.loop import Loop, call_of, is_loop, type_of_result
from wengert.program.passes.simplify import (
    checked_at_the_end, folded, live, lowered, needed_for, simplified, without_implied_guards,
)
from wengert.program.tracing.trace import listed
from wengert.program.vm.machine import Machine
from wengert.registry import lookup

resize = deferred("wengert.program.derive.resize")

cnp.import_array()

cdef object FLOAT = np.dtype(float)
cdef int WG_POWER = OPCODES["power"]

include "rules.pxi"
include "partials.pxi"
include "sweep.pxi"


@cython.final
cdef class Reverse(Sweep):
    """Reverse sweep: the adjoints of all values of a program."""

    cdef dict elements                  # by array: adjoints of single elements, by offset

    def __init__(self, code, example, exact=False, assumes_finite=False):
        self.elements = {}

    # ------------------------------------------------------------------------------------------ adjoints

    cpdef int accumulate(self, int32_t v, int32_t g) except -1:
        if not self.active[v]:
            return 0
        g = self.as_precise(g, v)
        if self.exact and v in self.elements:
            self.adjoint(v)
        if self.derivative[v] >= 0:
            g = self.elementwise(WG_ADD, self.derivative[v], g, self.code.kinds[v])
        self.derivative[v] = g
        return 0

    cdef int accumulate_element(self, int32_t v, int32_t offset, int32_t g) except -1:
        cdef int32_t whole
        if not self.active[v]:
            return 0
        if self.exact and self.derivative[v] >= 0:
            whole = self.in_layout(self.derivative[v], v)
            g = self.elementwise(WG_ADD, emit(self.code, LOAD, whole, offset, -1, SCALAR), g, SCALAR)
            self.derivative[v] = self.packed(whole, np.array([offset], dtype=np.int32), [g], self.code.kinds[v])
            return 0
        elements = self.elements.get(v)
        if elements is None:
            elements = self.elements[v] = {}
        found = elements.get(offset)
        elements[offset] = g if found is None else self.elementwise(WG_ADD, found, g, SCALAR)
        return 0

    cpdef int32_t adjoint(self, int32_t v) except -2:
        """Return the adjoint of a value, with the adjoints of its elements merged in; -1: zero."""
        cdef int32_t g = self.derivative[v], part
        elements = self.elements.pop(v, None) if self.code.kinds[v] > FLAG else None
        if elements:
            offsets = np.array(sorted(elements), dtype=np.int32)
            part = self.packed(-1, offsets, [elements[offset] for offset in offsets.tolist()], self.code.kinds[v])
            g = part if g < 0 else self.elementwise(WG_ADD, self.in_layout(g, v), part, self.code.kinds[v])
            self.derivative[v] = g
        return g

    # ------------------------------------------------------------------------------------------ the sweep

    def sweep(self):
        """Propagate adjoints from results to operands, last instruction first."""
        cdef Py_ssize_t i
        for i in range(self.size - 1, -1, -1):
            if self.active[i] and (self.derivative[i] >= 0 or (self.code.kinds[i] > FLAG and i in self.elements)):
                self.pull(<int32_t>i)

    cdef int pull(self, int32_t i) except -1:
        cdef int op = self.code.ops[i]
        cdef int32_t a = self.code.as_[i], b = self.code.bs[i], c = self.code.cs[i], kind = self.code.kinds[i], g
        if op == PACK:
            return self.pull_pack(i)
        if op == INPUT:
            return 0
        g = self.adjoint(i)
        if op < PARTIAL:
            if op >= WG_ADD and kind > FLAG:        # arrays: right operand first, as in the eager sweep
                self.pull_operand(i, op, 1, b, g)
            self.pull_operand(i, op, 0, a, g)
            if op >= WG_ADD and kind <= FLAG:
                self.pull_operand(i, op, 1, b, g)
        elif op < INPUT:
            if not flat_slopes[op]:
                g = self.strong_product(g, i, kind)
                self.contribute(a, i, self.strong_product(g, self.own_slope_factor(i), kind))
        elif op == STRONG:
            self.contribute(a, i, self.strong_product(g, b, kind))
            self.contribute(b, i, self.strong_product(g, a, kind))
        elif op == LOAD:
            self.accumulate_element(a, b, g)
        elif op == SUM:
            self.accumulate(a, g)
        elif op == SELECT:
            zero = self.code.constant(0.0)
            if self.active[b]:
                self.contribute(b, i, self.select(a, g, zero, kind))
            if self.active[c]:
                self.contribute(c, i, self.select(a, zero, g, kind))
        elif op == VIEW:
            self.pull_view(i, g if self.is_in_order(g, i) and not self.exact else self.in_layout(g, i))
        elif op == PLACE:
            self.pull_place(i, g)
        elif op == GATHER:
            self.accumulate(a, emit(self.code, SCATTER, self.in_layout(g, i), b, -1, self.code.kinds[a]))
        elif op == PUT:
            g = self.in_layout(g, i)
            self.accumulate(c, emit(self.code, GATHER, g, b, -1, self.in_order(c)))
            if a >= 0 and self.active[a]:
                self.accumulate(a, emit(self.code, PUT, g, b, self.zeros(self.in_order(c)), kind))
        elif op == SCATTER:
            self.accumulate(a, emit(self.code, GATHER, self.in_layout(g, i), b, -1, self.code.kinds[a]))
        elif op == CALL:
            self.pull_call(i, g)
        else:
            raise NotImplementedError(f"the derivative of instruction {op}")
        return 0

    cdef int pull_operand(self, int32_t i, int op, int side, int32_t v, int32_t g) except -1:
        """Add the contribution of an elementwise instruction to the adjoint of one operand."""
        cdef int32_t p
        if not self.active[v]:
            return 0
        if op == WG_ADD or op == WG_POSITIVE or op == WG_SINGLE or (op == WG_SUBTRACT and side == 0):
            return self.contribute(v, i, g)
        if op == WG_NEGATIVE or op == WG_SUBTRACT:
            return self.contribute(v, i, emit(self.code, WG_NEGATIVE, g, -1, -1, self.code.kinds[g]))
        if op == WG_MULTIPLY:
            p = self.code.as_[i] if side else self.code.bs[i]
            return self.contribute(v, i, self.strong_product(g, p, self.code.kinds[i]))
        return self.contribute(v, i, self.strong_product(g, self.partial(i, op, side), self.code.kinds[i]))

    cdef int contribute(self, int32_t v, int32_t i, int32_t g) except -1:
        """Add `g` to the adjoint of an operand of instruction i, after summing it if the operand was broadcast."""
        if not self.active[v]:
            return 0
        if self.code.kinds[v] <= FLAG and self.code.kinds[i] > FLAG:
            g = self.sum_over(g, self.code.kinds[i])
        return self.accumulate(v, g)

    cdef int pull_pack(self, int32_t i) except -1:
        """Pass element adjoints to the packed scalars, and the rest to the base array."""
        cdef int32_t base = self.code.as_[i], whole = self.derivative[i], v, g
        offsets, values = self.code.packs[self.code.bs[i]]
        elements = self.elements.pop(i, {})
        if whole >= 0:
            whole = self.in_layout(whole, i)
        for offset, v in zip(offsets.tolist(), values.tolist()):
            found = elements.pop(offset, None)
            if not self.active[v]:
                continue
            g = -1 if found is None else found
            if whole >= 0:
                part = emit(self.code, LOAD, whole, offset, -1, SCALAR)
                g = part if g < 0 else self.elementwise(WG_ADD, part, g, SCALAR)
            if g >= 0:
                self.accumulate(v, g)
        if base >= 0 and self.active[base]:
            for offset, found in elements.items():
                self.accumulate_element(base, offset, found)
            if whole >= 0:
                zero = self.code.constant(0.0)
                self.accumulate(base, self.packed(whole, offsets, [zero] * len(offsets), self.code.kinds[i]))
        return 0

    cdef int pull_view(self, int32_t i, int32_t g) except -1:
        """Scatter the adjoint of a view into the adjoint of its array."""
        cdef int32_t a = self.code.as_[i], kind = self.code.kinds[a]
        dtype, shape, _ = self.code.types[kind]
        view = self.code.views[self.code.bs[i]]
        size = math.prod(shape)
        if dtype != self.code.types[self.code.kinds[i]][0]:         # complex array seen as real pairs, or vice versa
            return self.accumulate(a, self.code.as_type(g, self.code.types[kind]))
        if overlaps(view[1], view[2]) and not self.exact:
            g, view = self.summed_over(g, view)
        if overlaps(view[1], view[2]):
            places = call_rules.places(view, dtype)
            if np.unique(places).size < places.size:
                key = "scattered", view, size
                g = self.inline_function(key, lambda g: [call_rules.scattered(g, places, size)], g)
                return self.accumulate(a, self.code.view(g, whole_view(self.code.types[kind]), dtype))
        if math.prod(view[1]) == size:
            return self.accumulate(a, self.placed(-1, view, g, kind))
        if self.exact or self.derivative[a] < 0 or not self.active[a]:
            return self.accumulate(a, self.placed(self.zeros(kind), view, g, kind))
        # accumulate into the existing adjoint; the VM does this in place
        whole = self.in_layout(self.derivative[a], a)
        index = self.code.entry(self.code.views, "view", view)
        if self.code.ops[whole] == PLACE and self.code.bs[whole] == index and self.is_zero(self.code.cs[whole]):
            self.derivative[a] = self.placed(self.code.as_[whole], view, g, self.code.kinds[whole])
            return 0
        part = self.code.view(whole, view, dtype)
        part = self.elementwise(WG_ADD, part, g, self.code.kinds[g])
        self.derivative[a] = self.placed(whole, view, part, self.code.kinds[whole])
        return 0

    cdef tuple summed_over(self, int32_t g, tuple view):
        """Sum an adjoint over the broadcast axes of its view (stride 0); return it and the view without these axes."""
        offset, shape, strides = view
        repeated = tuple([d for d, (n, s) in enumerate(zip(shape, strides)) if s == 0 and n > 1])
        if not repeated:
            return g, view
        kept = [d for d in range(len(shape)) if d not in repeated]
        g = self.inline_function(("sum", repeated), lambda g: [np.sum(g, axis=repeated)], g, True)
        return g, (offset, tuple([shape[d] for d in kept]), tuple([strides[d] for d in kept]))

    cdef bint is_zero(self, int32_t v) except -1:
        return self.code.ops[v] == CONST and self.code.constants[self.code.as_[v]] == 0.0

    cdef int pull_place(self, int32_t i, int32_t g) except -1:
        cdef int32_t base = self.code.as_[i], index = self.code.bs[i], source = self.code.cs[i], part
        cdef int32_t kind = self.code.kinds[i]
        view = self.code.views[index]
        dtype = self.code.types[kind][0]
        if self.active[source]:
            part = g if self.code.kinds[g] <= FLAG else self.code.view(self.in_layout(g, i), view, dtype)
            self.accumulate(source, self.summed_to(part, view[1], source))
        if base >= 0 and self.active[base]:
            self.accumulate(base, self.placed(self.in_layout(g, i), view, self.code.constant(0.0), kind))
        return 0

    cdef int32_t summed_to(self, int32_t g, shape, int32_t v) except -1:
        """Reduce the adjoint of a broadcast result to the shape of v."""
        cdef int32_t kind = self.code.kinds[v]
        _, wanted, _ = self.code.types[kind]
        g = self.real_part(g, v)
        if shape == wanted:
            return g
        if (kind <= FLAG or not wanted) and self.code.types[kind][0].kind != "c":
            if self.code.kinds[g] > FLAG:
                return emit(self.code, SUM, g, -1, -1, SCALAR)
            return self.elementwise(WG_MULTIPLY, g, self.code.constant(math.prod(shape)), SCALAR)
        if self.code.kinds[g] <= FLAG:
            factor = math.prod(shape) // max(1, math.prod(wanted))
            return self.elementwise(WG_MULTIPLY, g, self.code.constant(factor), SCALAR)
        return self.inline_function(("summed to", wanted), lambda g: [call_rules.summed_to(g, wanted)], g)

    # ------------------------------------------------------------------------------------------ rows

    cdef int pull_call(self, int32_t i, int32_t g) except -1:
        """Inline the pullback of a call."""
        cdef int32_t v
        call = self.code.calls[self.code.as_[i]]
        g = self.in_layout(g, i)
        if is_loop(call):
            return self.pull_loop(i, call, g)
        wanted = [j for j, v in enumerate(call.operands) if self.active[v]]
        if is_solution(call):
            known = self.reusable_values(call)
            found = self.inline(Rule(call.compute.adjoints(call, wanted, known)), [g, i, *call.operands, *known])
        else:
            with caught(NonSmoothError) as failure:
                found = self.run_pullback(call, wanted, g, i, False)
            if failure.error is not None:       # not smooth for a cotangent of ones; the actual one may be fine
                found = self.run_pullback(call, wanted, g, i, True)
        for j, part in zip(wanted, found):
            self.accumulate(call.operands[j], part)
        return 0

    cdef int pull_loop(self, int32_t i, call, int32_t g) except -1:
        """Append the reverse loop. The forward loop stacks its carried values, from which each step is recomputed."""
        cdef int32_t r, v
        cdef Listing code = self.code
        loop = call.compute
        examples = (lambda: loop.example([self.value(v) for v in call.operands])) if has_calls(loop.body) else None
        back = pulled_loop(loop, tuple([self.active[v] != 0 for v in call.operands]), examples, self.assumes_finite)
        saving = back.saving
        if saving is not loop:
            code.calls[code.as_[i]] = call_of(saving, call.operands)
            code.kinds[i] = code.type_of(type_of_result(saving))
            del self.values[i:]                     # stale: the result now also holds the stacked values
        values = []
        for source, word, number in back.given:
            if source == "operand":
                values.append(call.operands[number])
            elif source == "value":
                values.append(code.part(i, saving.view(word, number), FLOAT))
            elif source == "adjoint":
                values.append(code.part(g, loop.view(word, number), FLOAT))
            else:
                values.append(code.filled(0.0, loop.type_of("last", number)[1] if word == "last" else
                                          code.types[code.kinds[<int32_t>call.operands[number]]][1]))
        r = code.call(call_of(back.loop, values), type_of_result(back.loop))
        self.check_after_loop(r, back)
        for number, (word, k) in back.adjoints:
            self.accumulate(call.operands[number], code.part(r, back.loop.view(word, k), FLOAT))
        return 0

    cdef list run_pullback(self, call, list wanted, int32_t g, int32_t i, bint by_value):
        """Inline the pullback; with `by_value`, trace it at the actual cotangent rather than at ones."""
        return self.run_rule(
            call, tuple(wanted), lambda *operands: call_rules.pullback(call, wanted, *operands), [g, i, *call.operands],
            lambda: [self.value(g) if by_value else self.example_like(g), self.value(i),
                     *[self.value(v) for v in call.operands]])


@cython.final
cdef class Forward(Sweep):
    """Forward sweep: the tangents in one direction, as far as the results need them."""

    cdef bytearray needed

    def need(self, results):
        """Restrict the sweep to values that these results depend on; other values may serve guards only."""
        self.needed = needed_for(self.code, results)

    cpdef int set_tangent(self, int32_t v, int32_t t) except -1:
        self.derivative[v] = t
        return 0

    cpdef int32_t tangent(self, int32_t v) except -2:
        return self.derivative[v] if v < self.size else -1

    def sweep(self):
        """Propagate tangents from operands to results, first instruction first."""
        cdef Py_ssize_t i
        cdef int32_t t
        for i in range(self.size):
            if self.active[i] and self.derivative[i] < 0 and self.needed[i]:
                t = self.push(<int32_t>i)
                self.derivative[i] = t if t < 0 else self.as_precise(t, <int32_t>i)

    cdef int32_t plus(self, int32_t s, int32_t t, int32_t kind) except -2:
        """Add two tangents, either of which may be zero (-1)."""
        if s < 0 or t < 0:
            return max(s, t)
        return self.elementwise(WG_ADD, s, t, kind)

    cdef int32_t push(self, int32_t i) except -2:
        """Return the tangent of result i; -1: zero."""
        cdef int op = self.code.ops[i]
        cdef int32_t a = self.code.as_[i], b = self.code.bs[i], c = self.code.cs[i], kind = self.code.kinds[i]
        cdef int32_t t = self.derivative[a] if names(op) & 1 and a >= 0 else -1, s
        if op < PARTIAL:
            t = self.contribution(i, op, 0, a)
            return t if op < WG_ADD else self.plus(t, self.contribution(i, op, 1, b), kind)
        if op < INPUT:
            if t < 0 or flat_slopes[op]:
                return -1
            return self.strong_product(self.strong_product(t, i, kind), self.own_slope_factor(i), kind)
        if op == STRONG:
            t = -1 if t < 0 else self.strong_product(t, b, kind)
            s = self.derivative[b]
            return self.plus(t, -1 if s < 0 else self.strong_product(s, a, kind), kind)
        if op == SELECT:
            s, t = self.derivative[b], self.derivative[c]
            if s < 0 and t < 0:
                return -1
            zero = self.code.constant(0.0)
            return self.select(a, s if s >= 0 else zero, t if t >= 0 else zero, kind)
        if op == PACK:
            return self.push_pack(i)
        if op == PLACE:
            s = self.derivative[c]
            if t < 0 and s < 0:
                return -1
            base = -1 if a < 0 else self.in_layout(t, a) if t >= 0 else self.zeros(kind)
            return emit(self.code, PLACE, base, b, s if s >= 0 else self.code.constant(0.0), kind)
        if op == PUT:
            s = self.derivative[c]
            if t < 0 and s < 0:
                return -1
            s = self.zeros(self.in_order(c)) if s < 0 else self.in_layout(s, c)
            return emit(self.code, PUT, self.in_layout(t, a) if t >= 0 else -1, b, s, kind)
        if op == CALL:
            return self.push_call(i)
        if op == INPUT or t < 0:
            return -1
        if op == LOAD:
            return emit(self.code, LOAD, self.in_layout(t, a), b, -1, SCALAR)
        if op == VIEW:
            return t if self.code.kinds[t] <= FLAG else emit(self.code, VIEW, self.in_layout(t, a), b, -1, kind)
        if op == SUM:
            return self.sum_over(t, self.code.kinds[a])
        if op == GATHER or op == SCATTER:
            return emit(self.code, op, self.in_layout(t, a), b, -1, kind)
        raise NotImplementedError(f"the derivative of instruction {op}")

    cdef int32_t contribution(self, int32_t i, int op, int side, int32_t v) except -2:
        """Return the contribution of one operand to the tangent of an elementwise instruction; -1: zero."""
        cdef int32_t t = self.derivative[v]
        if t < 0 or op == WG_ADD or op == WG_POSITIVE or op == WG_SINGLE or (op == WG_SUBTRACT and side == 0):
            return t
        if op == WG_NEGATIVE or op == WG_SUBTRACT:
            return emit(self.code, WG_NEGATIVE, t, -1, -1, self.code.kinds[t])
        if op == WG_MULTIPLY:
            return self.strong_product(t, self.code.as_[i] if side else self.code.bs[i], self.code.kinds[i])
        return self.strong_product(t, self.partial(i, op, side), self.code.kinds[i])

    cdef int32_t push_pack(self, int32_t i) except -2:
        cdef int32_t base = self.code.as_[i], kind = self.code.kinds[i], v
        offsets, values = self.code.packs[self.code.bs[i]]
        found = [self.derivative[<int32_t>v] for v in values]
        t = -1 if base < 0 else self.derivative[base]
        if t >= 0:
            zero = self.code.constant(0.0)
            return self.packed(self.in_layout(t, base), offsets, [v if v >= 0 else zero for v in found], kind)
        kept = [j for j, v in enumerate(found) if v >= 0]
        return self.packed(-1, offsets[kept], [found[j] for j in kept], kind) if kept else -1

    cdef int32_t push_call(self, int32_t i) except -2:
        """Inline the pushforward of a call; -1: zero."""
        cdef int32_t v
        call = self.code.calls[self.code.as_[i]]
        moved = [j for j, v in enumerate(call.operands) if self.derivative[v] >= 0]
        if not moved:
            return -1
        if is_loop(call):
            return self.push_loop(call, moved)
        directions = [self.in_layout(self.derivative[<int32_t>call.operands[j]], call.operands[j]) for j in moved]
        count = len(moved)
        if is_solution(call):
            known = self.reusable_values(call)
            t, = self.inline(Rule(call.compute.tangent(call, moved, known)), [*directions, i, *call.operands, *known])
            return t
        t, = self.run_rule(
            call, tuple(moved), lambda *x: [call_rules.pushforward(call, moved, x[:count], x[count], x[count + 1:])],
            [*directions, i, *call.operands],
            lambda: [*[self.example_like(v) for v in directions], self.value(i),
                     *[self.value(v) for v in call.operands]])
        return t

    cdef int32_t push_loop(self, call, list moved) except -2:
        """Append a loop that carries tangents along with values; return the tangent of the result."""
        cdef int32_t v
        cdef Listing code = self.code
        loop = call.compute
        examples = (lambda: loop.example([self.value(v) for v in call.operands])) if has_calls(loop.body) else None
        ahead = pushed_loop(loop, tuple([j in moved for j in range(len(call.operands))]), examples, self.assumes_finite)
        values = []
        for is_tangent, j in ahead.given:
            v = call.operands[j]
            if is_tangent and j in moved:
                v = self.in_layout(self.derivative[v], v)
            elif is_tangent:
                v = code.filled(0.0, code.types[code.kinds[v]][1])
            values.append(v)
        v = code.call(call_of(ahead.loop, values), type_of_result(ahead.loop))
        self.check_after_loop(v, ahead)
        return v if ahead.loop.count == loop.count else code.part(v, (0, (loop.count,), (8,)), FLOAT)


def depends(Listing code, list inputs):
    cdef Sweep sweep = Sweep(code, [])
    cdef Py_ssize_t i
    sweep.mark(inputs)
    return [sweep.active[i] != 0 for i in range(sweep.size)]


def pulled_back(Listing code, list seeds, list wrt, example, bint exact=False, bint assumes_finite=False):
    """Return the program of the adjoints of the values `wrt` (reverse mode).

    `seeds` are pairs of an output and the position of the input that holds its cotangent; None: the cotangent is 1.
    With `assumes_finite`, guards of rules against NaN are not checked at the example; the program fails where they do.
    """
    cdef Reverse sweep = Reverse(code, example, exact, assumes_finite)
    cdef Listing derived = sweep.code
    cdef int32_t v, g
    sweep.mark(wrt)
    for v, seed in seeds:
        g = derived.constant(1.0) if seed is None else sweep.insert_input(seed, derived.kinds[v])
        if v < sweep.size:
            sweep.accumulate(v, g)
    sweep.sweep()
    derived.outputs = []
    for v in wrt:
        g = sweep.adjoint(v)
        g = sweep.in_layout(g if g >= 0 else derived.constant(0.0), v)
        derived.outputs.append(sweep.as_output(g))
    return derived


def pushed_forward(Listing code, list seeds, list results, example, bint assumes_finite=False):
    """Return the program of the tangents of `results` (forward mode).

    `seeds` are pairs of an input and the position of the input that holds its tangent; `assumes_finite` is as in
    `pulled_back`.
    """
    cdef Forward sweep = Forward(code, example, False, assumes_finite)
    cdef Listing derived = sweep.code
    cdef int32_t v, t
    sweep.mark([v for v, _ in seeds])
    sweep.need(results)
    for v, seed in seeds:
        sweep.set_tangent(v, sweep.insert_input(seed, derived.kinds[v]))
    sweep.sweep()
    derived.outputs = []
    for v in results:
        t = sweep.tangent(v)
        derived.outputs.append(sweep.in_layout(t if t >= 0 else derived.constant(0.0), v))
    return derived


include "unrolled.pxi"
include "loops.pxi"
